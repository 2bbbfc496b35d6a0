"""The cores that a process may use: fewer than the machine has in a container, in a batch job, and beside others."""

import math
import os
from functools import cache
from pathlib import Path

__all__ = ["NO_LIMIT", "cores_of_quota", "usable_cores"]

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of control groups."""

GROUPS_OF_PROCESS = Path("/proc/self/cgroup")
"""Where it shows the control groups of the process."""

NO_LIMIT = 1 << 16
"""More cores than any machine has."""


def usable_cores(most: int = NO_LIMIT) -> int:
    """Return the number of cores that the process may use: by affinity, by quota, and at most a given number."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(available, cores_of_quota(), most), 1)


@cache
def cores_of_quota(root: Path = CGROUPS, groups: Path = GROUPS_OF_PROCESS) -> int:
    """Return the number of whole cores that control groups grant, at least 1; `NO_LIMIT` if they set no limit.

    The group of the process and all groups around it count; a container sees its own group as the root. Limits are in
    `cpu.max` of version 2, and in `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1.
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
