"""How the work of training is run: in threads on a CPU, as captured graphs on a GPU.

Members of a stack are independent, so parts of it are trained side by side on a CPU, one thread each.

Threads that share every operation wait for each other after each one. Those of OpenMP wait in a loop that uses the
core, and a step of a small network has hundreds of operations: where other processes use the cores, or a container
limits them, such a fit takes many times as long. Threads that train different members wait only at the end of an epoch.

A process that is forked has none of its parent's threads. Torch deadlocks where it would share an operation among
several, so a forked process uses one thread, as in the workers of torch's DataLoader.
"""

import gc
import math
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, TypeVar, final

import torch

from knotwork._loops import usable_cores
from knotwork.errors import ForkedProcessError

TIMED_STEPS = 3
"""Steps that are timed with each number of threads."""

PAUSE = 60.0
"""Seconds with one thread, the first time, after which all cores are tried again."""

CHECK_SECONDS = 0.2
"""Seconds between two checks for Ctrl-C."""

GAIN = 1.2
"""How many times faster all cores must be: using them slows other processes down, and costs energy."""

RATE_SECONDS, RATE_SIZE = 0.05, 192
"""Seconds for which products of matrices are counted to find out how fast the machine is, and their size."""

CAPTURING = threading.Lock()
"""Held while a graph is captured or freed: threads of other devices do so as well."""

Result = TypeVar("Result")


class _Setting:
    """The number of torch's threads before the first of several trainings at the same time; the last restores it."""

    def __init__(self) -> None:
        self._lock, self._before = threading.Lock(), 1
        self._users: Counter[int] = Counter()  # by thread: within a training, networks may be used
        self._is_broken = False

    def after_fork(self) -> None:
        """Use one thread in a forked process; networks that its parent was training are lost with the threads."""
        self._is_broken = bool(self._users)
        self._lock, self._users, self._before = threading.Lock(), Counter(), 1
        torch.set_num_threads(1)

    def enter(self) -> int:
        """Return the number of cores that the caller may use; trainings in other threads leave it a share."""
        if self._is_broken:
            raise ForkedProcessError(
                "This process was forked while another thread used networks, and would deadlock. Start "
                "processes by multiprocessing.get_context('spawn') or by joblib, or fork before networks are used."
            )
        with self._lock:
            if not self._users:
                self._before = torch.get_num_threads()
            self._users[threading.get_ident()] += 1
            return max(usable_cores(self._before) // len(self._users), 1)

    def leave(self) -> None:
        """Restore the number for the calling thread, where torch keeps it, and for all new ones."""
        with self._lock:
            self._users -= Counter([threading.get_ident()])
            torch.set_num_threads(self._before)


_SETTING = _Setting()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_SETTING.after_fork)


@contextmanager
def cpu_threads(device: torch.device) -> Iterator[int]:
    """Let torch use one thread on a CPU, and yield the number of usable cores; restore what was set before.

    On other devices nothing is set, and the number is 1.
    """
    if device.type != "cpu":
        yield 1
        return
    n_cores = _SETTING.enter()
    try:
        torch.set_num_threads(1)
        yield n_cores
    finally:
        _SETTING.leave()


def side_by_side(calls: Sequence[Callable[[threading.Event], Result]], n_threads: int) -> list[Result]:
    """Return the results of functions that run in threads, within `cpu_threads`.

    Functions are called with an event, and return as soon as possible once it is set. An exception of one of them, and
    Ctrl-C, sets the event, and is raised after all of them have returned.
    """
    stop = threading.Event()
    if len(calls) == 1 or n_threads == 1:
        return [call(stop) for call in calls]
    settings = min(n_threads, len(calls)), "knotwork", torch.set_num_threads, (1,)
    return run_in_threads([partial(call, stop) for call in calls], stop, *settings)


def product_rate() -> float:
    """Return the multiplications per second of products of matrices on all usable cores, as busy as they are now."""

    def count(stop: threading.Event) -> int:
        left = right = torch.ones(RATE_SIZE, RATE_SIZE)
        n, out = 0, left @ right  # the first product starts the library
        began = time.perf_counter()
        while time.perf_counter() - began < RATE_SECONDS and not stop.is_set():
            torch.mm(left, right, out=out)
            n += 1
        return n

    with cpu_threads(torch.device("cpu")) as n_cores:
        counts = side_by_side([count] * n_cores, n_cores)
    return sum(counts) * RATE_SIZE**3 / RATE_SECONDS


def in_turns(works: Sequence[Iterator[None]], n_threads: int) -> None:
    """Run iterators to their ends in threads, within `cpu_threads`: each goes on with the one that has waited longest.

    So all threads are busy almost to the end, whatever the number of iterators; a single thread runs one after the
    other. Exceptions and Ctrl-C are as in `side_by_side`.
    """
    waiting = deque(works)
    put_back = waiting.append if n_threads > 1 else waiting.appendleft

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                work = waiting.popleft()
            except IndexError:  # each of the others is in a thread
                return
            for _ in work:
                put_back(work)
                break

    side_by_side([run] * min(n_threads, len(works)), n_threads)


def run_in_threads(calls: Sequence[Callable[[], Result]], stop: threading.Event, *settings: Any) -> list[Result]:
    """Return the results of functions that run in threads and return soon after `stop` is set.

    It is set by an exception of one of them and by Ctrl-C, which are raised after all of them have returned. `settings`
    are those of the pool of threads; by default each function has one. Ctrl-C is noticed within `CHECK_SECONDS`: a
    signal that another thread receives does not end a wait of this one.
    """
    with _stopped_by_ctrl_c(stop), ThreadPoolExecutor(*(settings or (len(calls), "knotwork-device"))) as pool:
        try:
            futures = [pool.submit(call) for call in calls]
            while not all(future.done() for future in futures):
                done, _ = wait(futures, CHECK_SECONDS, return_when=FIRST_EXCEPTION)
                if any(future.exception() is not None for future in done):
                    break
        finally:
            stop.set()
    return [future.result() for future in futures]


@contextmanager
def _stopped_by_ctrl_c(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C set an event while threads run; it has its usual effect at the end of the block.

    KeyboardInterrupt may be raised between any two instructions: while a lock is held, before a thread is known to its
    pool, or while the pool waits for its last one. Within the block it is not raised at all. Where Ctrl-C is ignored,
    as in a process that the shell has started in the background, it stays ignored; in threads other than the main one
    there are no signals.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    frames: list[FrameType | None] = []

    def remember(number: int, frame: FrameType | None) -> None:
        stop.set()
        frames.append(frame)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if frames:
            usual(signal.SIGINT, frames[-1])


@final
class StepThreads:
    """Threads that torch uses for the steps of a stack that has no parts: one, or all cores if that proves faster.

    Parameters
    ----------
    n_cores : int
        Number of usable cores.

    Notes
    -----
    The first steps are timed with one thread and with all cores, after one that compiles. All cores must be `GAIN`
    times faster, and are given up after an epoch whose steps took longer than with one thread: the cores are busy.
    After `PAUSE` seconds both are timed again, since other processes may have ended, and then after twice as long each
    time. Sums over many values may round differently with another number of threads, as always in torch.
    """

    def __init__(self, n_cores: int) -> None:
        self._n_cores = self._n_used = n_cores
        self._seconds, self._pause, self._next = math.inf, PAUSE, -math.inf

    def run(self, step: Callable[[], None], n_steps: int, stop: threading.Event) -> bool:
        """Run the steps of an epoch unless the event is set, and return whether all were run."""
        if self._n_cores == 1 or n_steps <= 1 + 2 * TIMED_STEPS:
            return _run(step, n_steps, stop)
        if time.perf_counter() >= self._next:
            self._compare(step)
            n_steps -= 1 + 2 * TIMED_STEPS
        torch.set_num_threads(self._n_used)
        started = time.perf_counter()
        finished = _run(step, n_steps, stop)
        if self._n_used > 1 and time.perf_counter() - started > self._seconds * n_steps:
            self._give_up()
        torch.set_num_threads(1)
        return finished

    def _compare(self, step: Callable[[], None]) -> None:
        """Choose the number of threads by the time of some steps."""
        step()
        self._seconds, shared = (_fastest(step, n) for n in (1, self._n_cores))
        self._n_used, self._next = self._n_cores, math.inf
        if shared * GAIN > self._seconds:
            self._give_up()

    def _give_up(self) -> None:
        """Use one thread for some time."""
        self._n_used, self._next = 1, time.perf_counter() + self._pause
        self._pause *= 2


def _run(step: Callable[[], None], n_steps: int, stop: threading.Event) -> bool:
    for _ in range(n_steps):
        if stop.is_set():
            return False
        step()
    return True


def _fastest(step: Callable[[], None], n_threads: int) -> float:
    """Return the seconds of the fastest of a few steps."""
    torch.set_num_threads(n_threads)
    seconds = math.inf
    for _ in range(TIMED_STEPS):
        started = time.perf_counter()
        step()
        seconds = min(seconds, time.perf_counter() - started)
    return seconds


@final
class Replayed:
    """A function without arguments and result that is called repeatedly on tensors that stay in place.

    On a GPU the first call runs directly, which compiles kernels; the second captures a CUDA graph, which is replayed
    from then on: launching hundreds of small kernels then costs as much as launching one. The function must not wait
    for the device, nor make decisions on the host that change. Graphs that are never replayed at the same time may
    share a memory `pool` and the `stream` of the capture, by which cuBLAS chooses its workspace.
    """

    def __init__(
        self, function: Callable[[], None], device: torch.device, pool: Any = None, stream: Any = None
    ) -> None:
        self._function = function
        self._on_gpu = device.type == "cuda"
        self._pool, self._stream = pool, stream
        self._warm = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the function once."""
        if not self._on_gpu:
            self._function()
        elif not self._warm:
            self._run_aside()
            self._warm = True
        else:
            if self._graph is None:
                self._capture()
            assert self._graph is not None
            self._graph.replay()

    def release(self) -> None:
        """Free graph and function now: garbage collection of a graph during the capture of another would end it."""
        with CAPTURING:
            if self._graph is not None:
                self._graph.reset()
            self._graph = None
        del self._function  # it belongs to what owns this

    def _capture(self) -> None:
        about = {"pool": self._pool, "stream": self._stream, "capture_error_mode": "thread_local"}
        with CAPTURING:
            self._graph = torch.cuda.CUDAGraph()
            collecting = gc.isenabled()  # a collection might free a graph of an earlier stack
            gc.disable()
            try:
                with torch.cuda.graph(self._graph, **about):
                    self._function()
            finally:
                if collecting:
                    gc.enable()

    def _run_aside(self) -> None:
        """Run on a side stream, as torch requires before a capture."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._function()
        torch.cuda.current_stream().wait_stream(stream)
