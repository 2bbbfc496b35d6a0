"""Number of cores that a process may use; in containers and batch jobs fewer than the machine has."""

import math
import os
from functools import cache
from pathlib import Path

__all__ = ["NO_LIMIT", "cores_of_quota", "usable_cores"]

CGROUPS = Path("/sys/fs/cgroup")
"""Folder of the limits of control groups on Linux."""

GROUPS_OF_PROCESS = Path("/proc/self/cgroup")
"""File that lists the control groups of the process."""

NO_LIMIT = 1 << 16
"""Stands for no limit: more cores than any machine has."""


def usable_cores(most: int = NO_LIMIT) -> int:
    """Return the number of cores that the process may use, by affinity and quota, at most `most`."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(available, cores_of_quota(), most), 1)


@cache
def cores_of_quota(root: Path = CGROUPS, groups: Path = GROUPS_OF_PROCESS) -> int:
    """Return the number of whole cores allowed by control groups, at least 1; `NO_LIMIT` without a limit.

    The limits of the process's group and of all its parents apply; a container sees its own group as the root. They are
    in `cpu.max` (cgroups version 2), or in `cpu.cfs_quota_us` and `cpu.cfs_period_us` (version 1).
    """
    limits = [NO_LIMIT]
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, controllers, place = line.split(":", 2)
        top = root / controllers if controllers else root
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = top / place.lstrip("/")
        limits += [_cores_of_group(folder) for folder in (group, *group.parents) if folder.is_relative_to(top)]
    return max(min(limits), 1)


def _cores_of_group(folder: Path) -> int:
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = (float(number) for name in names for number in (folder / name).read_text().split())
        except (OSError, ValueError):  # the file does not exist, or says "max"
            continue
        if quota > 0 and period > 0:
            return math.floor(quota / period)
    return NO_LIMIT
