"""Threads on a CPU: members of a stack are independent, so parts of it are trained side by side, one thread each.

Threads that share every operation wait for each other after each one. Those of OpenMP wait in a loop that uses the
core, and a step of a small network has hundreds of operations: where other processes use the cores, or a container
limits them, such a fit takes many times as long. Threads that train different members wait only at the end of an epoch.
"""

import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

__all__ = ["cores_of_quota", "cpu_threads", "side_by_side", "usable_cores"]

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of control groups; a container sees its own."""

NO_LIMIT = 1 << 16
"""More cores than any machine has."""

Result = TypeVar("Result")


def usable_cores() -> int:
    """Return the number of cores that the process may use: by affinity, quota, and the threads that torch may use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(available, cores_of_quota(), torch.get_num_threads()), 1)


def cores_of_quota(root: Path = CGROUPS) -> int:
    """Return the number of whole cores that control groups grant, at least 1; `NO_LIMIT` if they set no limit.

    The limit is in `cpu.max` of version 2, and in `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1.
    """
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = (float(number) for name in names for number in (root / name).read_text().split())
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
        if quota > 0 and period > 0:
            return max(math.floor(quota / period), 1)
    return NO_LIMIT


@contextmanager
def cpu_threads(device: torch.device) -> Iterator[int]:
    """Limit torch to the usable cores of a CPU, and yield their number; restore what was set before.

    On other devices nothing is set, and the number is 1.
    """
    if device.type != "cpu":
        yield 1
        return
    before, n_cores = torch.get_num_threads(), usable_cores()
    torch.set_num_threads(n_cores)
    try:
        yield n_cores
    finally:
        torch.set_num_threads(before)


def side_by_side(calls: Sequence[Callable[[threading.Event], Result]], n_threads: int) -> list[Result]:
    """Return the results of functions that run in threads; inside of them torch uses one thread.

    Functions are called with an event, and return as soon as possible once it is set. An exception of one of them, and
    KeyboardInterrupt, sets the event, and is raised after all of them have returned.
    """
    stop = threading.Event()
    if len(calls) == 1 or n_threads == 1:
        return [call(stop) for call in calls]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(min(n_threads, len(calls)), "knotwork", torch.set_num_threads, (1,))
    futures = [pool.submit(call, stop) for call in calls]
    try:
        return [future.result() for future in futures]
    finally:
        stop.set()
        wait(futures)
        pool.shutdown()
        torch.set_num_threads(before)
