"""Threads on a CPU: how many, that they are restored, and that results do not depend on them."""

import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch
from joblib.externals.loky import get_reusable_executor
from sklearn.model_selection import cross_validate

import knotwork as kw
from knotwork._loops import usable_cores
from knotwork.encoders._base import count_threads
from knotwork.training import _execution as threads
from knotwork.training._engine import train
from knotwork.training._stack import MEMBERS_PER_PART
from tests.training.cases import make_member, make_mixed, make_table
from tests.training.test_engine import FAST, SMALL, usually

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _restored():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_the_number_of_threads_is_restored(error):
    torch.set_num_threads(2)
    inside = []

    def report(_):
        inside.append(torch.get_num_threads())
        if error is not None:
            raise error

    def run():
        train(make_table(), [make_member(make_table())], SMALL["mlp"], FAST, device="cpu", report=report)

    if error is ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - the error of the report
            run()
    else:
        run()
    assert set(inside) == {1}
    assert torch.get_num_threads() == 2


def test_trainings_at_the_same_time_restore_what_was_before_the_first():
    torch.set_num_threads(2)
    entered, leave = threading.Event(), threading.Event()

    def other():
        with threads.cpu_threads(CPU):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with threads.cpu_threads(CPU):
        thread.start()
        entered.wait()
    leave.set()
    thread.join()
    numbers = []
    late = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
    late.start()
    late.join()
    assert [torch.get_num_threads(), *numbers] == [2, 2]


def test_trainings_in_several_threads_share_the_cores(monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda most: 4)
    entered, leave, numbers = threading.Barrier(3), threading.Event(), []

    def other():
        with threads.cpu_threads(CPU) as n_cores:
            numbers.append(n_cores)
            entered.wait()
            leave.wait()

    with threads.cpu_threads(CPU) as first, threads.cpu_threads(CPU) as within:
        assert (first, within) == (4, 4)
        workers = [threading.Thread(target=other) for _ in range(2)]
        for worker in workers:
            worker.start()
        entered.wait()
        leave.set()
        for worker in workers:
            worker.join()
    assert sorted(numbers) == [1, 2]
    with threads.cpu_threads(CPU) as alone:
        assert alone == 4


def report_threads(model, X, y):
    """A score with the threads that training and encoders may use in the process."""
    with threads.cpu_threads(CPU) as n_cores:
        return {"score": model.score(X, y), "training": n_cores, "encoding": count_threads(None), "pid": os.getpid()}


@pytest.mark.slow  # processes take seconds to start; that trainings share cores, threads show above
def test_two_workers_of_joblib_share_the_cores_and_fit_the_same(monkeypatch):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    table = make_table()
    model = kw.TabularRegressor("BS-Q", training=FAST, device="cpu", random_state=0)
    search = partial(cross_validate, model, table.numbers, table.target, cv=2, scoring=report_threads)
    alone, together = search(), search(n_jobs=2)
    get_reusable_executor().shutdown()
    share = max(usable_cores() // 2, 1)
    assert os.getpid() not in together["test_pid"]
    assert max(*together["test_training"], *together["test_encoding"]) <= share
    np.testing.assert_allclose(together["test_score"], alone["test_score"], rtol=1e-4)


# Parts of a stack are computed side by side whatever its backbone is.
@pytest.mark.parametrize("name", usually("mlp", "ft"))
def test_results_do_not_depend_on_the_number_of_threads(name, monkeypatch):
    table = make_table()
    members = make_mixed(table)
    assert len(members) > 2 * MEMBERS_PER_PART
    results = []
    for n_cores in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_cores", lambda most, n_cores=n_cores: n_cores)
        results.append(train(table, members, SMALL[name], FAST, device="cpu", keep_knots=True))
    for other in results[1:]:
        for one, same in zip(results[0].histories, other.histories, strict=True):
            np.testing.assert_array_equal(one.loss, same.loss)
            np.testing.assert_array_equal(one.score, same.score)
        for one, same in zip(results[0].knot_paths, other.knot_paths, strict=True):
            assert (one is None) == (same is None)
            if one is not None:
                np.testing.assert_array_equal(one, same)
        for one, same in zip(*(r.outputs(table.numbers, table.codes) for r in (results[0], other)), strict=True):
            np.testing.assert_array_equal(one, same)


def test_an_error_in_one_thread_stops_the_others():
    seen = []

    def endless(stop):
        seen.append(stop.wait(timeout=60))

    def broken(_):
        raise MemoryError("full")

    with pytest.raises(MemoryError, match="full"):
        threads.side_by_side([endless, broken], 2)
    assert seen == [True]


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("n_signals", [1, 3])
def test_ctrl_c_waits_for_all_threads_even_if_it_is_pressed_again(n_signals):
    main, ended, arrived = threading.main_thread().ident, [], threading.Event()

    def work(stop):
        for _ in range(n_signals):
            signal.pthread_kill(main, signal.SIGINT)
            assert stop.wait(timeout=60)
        arrived.set()
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        threads.side_by_side([work, lambda _: ended.append(arrived.wait(timeout=60))], 2)
    assert ended == [True, True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_at_any_moment_leaves_no_thread():
    """Of threads that are being started, that have just ended, and while the pool is closed."""
    main, before = threading.main_thread().ident, set(threading.enumerate())
    for trial in range(100):
        running = []

        def work(stop, trial=trial, running=running):
            running.append(1)
            if trial % 3:
                signal.pthread_kill(main, signal.SIGINT)
            stop.wait(timeout=0.0 if trial % 2 else 0.001)
            running.pop()

        try:
            threads.side_by_side([work] * 4, 4)
        except KeyboardInterrupt:
            assert trial % 3
        assert not running
        assert set(threading.enumerate()) <= before


def test_other_handlers_of_ctrl_c_are_called_at_the_end(ctrl_c):
    calls = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    work = [lambda stop: signal.raise_signal(signal.SIGINT), lambda stop: stop.wait(timeout=60)]
    assert threads.side_by_side(work, 2) == [None, True]
    assert calls == [signal.SIGINT]


def test_ctrl_c_that_is_ignored_stays_ignored(ctrl_c):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work = [lambda stop: signal.raise_signal(signal.SIGINT), lambda stop: stop.is_set()]
    assert threads.side_by_side(work, 2) == [None, False]


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_iterators_in_turns_all_come_to_their_ends_in_order(n_threads):
    done = [[] for _ in range(5)]

    def count(place):
        for number in range(place + 3):
            done[place].append(number)
            yield

    threads.in_turns([count(place) for place in range(5)], n_threads)
    assert done == [list(range(place + 3)) for place in range(5)]


def test_an_error_in_one_turn_ends_the_others():
    def fail():
        yield
        raise ValueError("broken")

    def endless():
        while True:
            yield

    with pytest.raises(ValueError, match="broken"):
        threads.in_turns([endless(), fail(), endless()], 2)


def test_results_come_in_the_order_of_the_functions():
    torch.set_num_threads(2)
    inside = threads.side_by_side([lambda _, i=i: (i, torch.get_num_threads()) for i in range(20)], 4)
    assert inside == [(i, 1) for i in range(20)]


class Clock:
    """A clock that steps move by a number of seconds that depends on the number of threads."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds, self.used = 0.0, seconds, []
        monkeypatch.setattr(threads.time, "perf_counter", lambda: self.now)

    def step(self):
        self.used.append(torch.get_num_threads())
        self.now += self.seconds[self.used[-1]]


def test_all_cores_only_if_they_are_faster(monkeypatch):
    torch.set_num_threads(1)
    slower = Clock(monkeypatch, {1: 1.0, 2: 0.9})
    assert threads.StepThreads(2).run(slower.step, 20, threading.Event())
    assert slower.used == [1] * 4 + [2] * 3 + [1] * 13
    faster = Clock(monkeypatch, {1: 1.0, 2: 0.6})
    assert threads.StepThreads(2).run(faster.step, 20, threading.Event())
    assert faster.used == [1] * 4 + [2] * 16
    assert torch.get_num_threads() == 1


def test_all_cores_are_given_up_once_they_are_slower(monkeypatch):
    clock, chosen = Clock(monkeypatch, {1: 1.0, 2: 0.5}), threads.StepThreads(2)
    chosen.run(clock.step, 20, threading.Event())
    clock.seconds[2] = 5.0
    clock.used.clear()
    chosen.run(clock.step, 20, threading.Event())
    chosen.run(clock.step, 20, threading.Event())
    assert clock.used == [2] * 20 + [1] * 20


def test_all_cores_are_tried_again_after_a_pause(monkeypatch):
    """As of a fit of hours that began while another program was busy."""
    torch.set_num_threads(1)
    clock, chosen = Clock(monkeypatch, {1: 1.0, 2: 5.0}), threads.StepThreads(2)
    chosen.run(clock.step, 20, threading.Event())
    assert clock.used == [1] * 4 + [2] * 3 + [1] * 13
    clock.used.clear()
    for _ in range(3):  # until 60 seconds have passed since cores were given up
        chosen.run(clock.step, 20, threading.Event())
    assert clock.used == [1] * 60
    clock.seconds[2] = 0.5
    clock.used.clear()
    for _ in range(2):
        chosen.run(clock.step, 20, threading.Event())
    assert clock.used == [1] * 4 + [2] * 36


def test_steps_end_once_the_event_is_set():
    stop = threading.Event()
    stop.set()
    assert not threads.StepThreads(1).run(lambda: pytest.fail("a step was run"), 5, stop)


FORKING = """
import os, threading
import numpy as np, torch
import knotwork as kw
from knotwork.nn import MLPConfig

def fit_in_a_fork():
    process = os.fork()
    if process == 0:
        try:
            model.fit(X, X[:, 0])
            model.predict(np.tile(X, (4, 1)))
            print("fitted with", torch.get_num_threads(), "thread", flush=True)
        except RuntimeError as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.waitpid(process, 0)

torch.set_num_threads(2)
torch.randn(1_000_000).exp().sum()  # starts the threads that a forked process lacks
X = np.random.default_rng(0).normal(size=(1024, 4))
training = kw.TrainingConfig(max_epochs=1, batch_size=256)  # a step is enough work for two threads
model = kw.TabularRegressor("Std", MLPConfig(widths=(1024, 1024)), training=training, device="cpu", random_state=0)
model.fit(X, X[:, 0])
fit_in_a_fork()
begun, stop = threading.Event(), threading.Event()
callbacks = [lambda report: begun.set() or stop.is_set()]
other = kw.TabularRegressor(**model.get_params(deep=False)).set_params(training__max_epochs=10_000)
thread = threading.Thread(target=other.fit, args=(X, X[:, 0]), kwargs={"callbacks": callbacks})
thread.start()
begun.wait()
fit_in_a_fork()
stop.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_does_not_wait_for_threads_that_it_lacks():
    """After a training, and during one in another thread."""
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    says = done.stdout.splitlines()
    assert len(says) == 2, done.stdout + done.stderr
    assert says[0] == "fitted with 1 thread", done.stdout + done.stderr
    assert re.match("ForkedProcessError .*'spawn'", says[1]), done.stdout + done.stderr


def test_the_rate_of_products_counts_what_was_multiplied(monkeypatch):
    ticks = iter(np.arange(0.0, 100.0, 0.01))  # seconds of a clock that moves by 0.01 whenever it is read
    monkeypatch.setattr(threads.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(threads, "side_by_side", lambda calls, n_threads: [calls[0](threading.Event())])
    counted = 4 * threads.RATE_SIZE**3  # it is read once at the start, and before each of four products
    assert threads.product_rate() == pytest.approx(counted / threads.RATE_SECONDS)
