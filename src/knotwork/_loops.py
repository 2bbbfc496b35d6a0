"""Compiled loops: functions that numba compiles when they are first called, shared formulas, and usable cores.

`knotwork.basis` defines the formulas; encoders, additive models and the layers on the CPU share them. They are inlined
into the loops that call them, as `forceinline` demands: calls would make these loops 1.5 times slower. Numba's cache on
disk knows only the file of a loop: after a change in this file, delete the ``__pycache__`` folders.
"""

import hashlib
import math
import os
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

LANES = 16
"""Values of the longest vectors of a processor, in float32."""

MOST_COUNTED = 256
"""Maximum number of knots that are counted: up to here, and somewhat beyond, a binary search takes longer."""

NO_LIMIT = 1 << 16
"""Stands for no limit: more cores than any machine has."""

_LOADING = RLock()


class Compiled:
    """A function that numba compiles when it is first called, because numba takes half a second to load.

    The result is cached on disk if a folder is writable: that of the module, or the user's folder for caches. Functions
    that are inlined are called by compiled functions only: they have no cache and no entry for calls from Python,
    which would take as long to compile as they do.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function, self._options, self._loaded = function, options, None
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function, by position."""
        return self.load()(*args)

    def load(self) -> Any:
        """Return the function of numba, and let its module and the functions that it calls use it from now on."""
        if self._loaded is None:
            with _LOADING:
                names_of_module = self._function.__globals__
                for name in self._function.__code__.co_names:
                    if isinstance(names_of_module.get(name), Compiled):
                        names_of_module[name] = names_of_module[name].load()
                self._loaded = self._loaded or _of_numba(self._function, self._options)
                if names_of_module.get(self._function.__name__) is self:
                    names_of_module[self._function.__name__] = self._loaded
        return self._loaded


def _of_numba(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    from numba import njit  # noqa: PLC0415 - takes half a second, which only calls of compiled functions wait for

    _declare_half_to()
    options = {"nogil": True, "error_model": "numpy", **options}
    if "forceinline" in options or "inline" in options:
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return njit(**options)(function)
    try:
        return _with_safe_cache(njit(cache=True, **options)(function))
    except RuntimeError:  # no folder for numba's cache is writable
        return njit(**options)(function)


def _with_safe_cache(function: Any) -> Any:
    """Let processes that compile a function at the same time write different files.

    Numba numbers the files of a function's signatures. Two processes that start with an empty cache use the same
    number for different signatures, and then load each other's code.
    """
    from numba.core.caching import IndexDataCacheFile  # noqa: PLC0415 - as numba is

    class SafeCacheFile(IndexDataCacheFile):
        """Files of a function whose names depend on the signature and the source."""

        def save(self, key: Any, data: Any) -> None:
            digest = hashlib.sha256(self._dump(key)).hexdigest()[:16]
            name = f"{self._index_name.removesuffix('.nbi')}.{digest}.nbc"
            self._save_data(name, data)
            self._save_index(self._load_index() | {key: name})

    file = getattr(getattr(function, "_cache", None), "_cache_file", None)
    if type(file) is IndexDataCacheFile:
        file.__class__ = SafeCacheFile
    return function


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """Return a decorator that lets numba compile a function, with these options, when it is first called."""
    return lambda function: Compiled(function, options)


def half_to(power):
    """Return ``2**-power`` for powers from 0 to 1000, in float32 to 125.

    In compiled code it is 2**-n times a polynomial of the rest, without branches and tables, so that loops over it are
    vectorised. The relative error is below 1e-15, in float32 below 1e-7; a power of 0 gives exactly 1.
    """
    return np.exp2(-power)


def _half_to_double(power):
    # Adding 1.5 * 2**52 rounds to a whole number n, which is then in the last bits of the sum.
    shifted = power + 6755399441055744.0
    rest = (shifted - 6755399441055744.0) - power
    p = rest * 7.070977866508138e-09 + 1.0205905413765595e-07
    p = (p * rest + 1.3215451633221434e-06) * rest + 1.5252672924850737e-05
    p = (p * rest + 1.5403530424776529e-04) * rest + 1.3333558200794592e-03
    p = (p * rest + 9.618129107618665e-03) * rest + 5.550410866465167e-02
    p = (p * rest + 2.4022650695910075e-01) * rest + 6.931471805599462e-01
    bits = np.float64(p * rest + 1.0).view(np.int64) - (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)


def _half_to_single(power):
    magic = np.float32(12582912.0)  # 1.5 * 2**23
    shifted = power + magic
    rest = (shifted - magic) - power
    p = rest * np.float32(1.545316294512069e-04) + np.float32(1.3390863364671234e-03)
    p = (p * rest + np.float32(9.618082557277852e-03)) * rest + np.float32(5.550357114219078e-02)
    p = (p * rest + np.float32(2.4022650760568126e-01)) * rest + np.float32(6.931471880262288e-01)
    value = np.float32(p * rest + np.float32(1.0))
    bits = value.view(np.int32) - (np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(bits).view(np.float32)


@cache
def _declare_half_to() -> None:
    """Tell numba what computes `half_to` in compiled code."""
    from numba import types  # noqa: PLC0415 - loaded with the first compiled function
    from numba.extending import overload  # noqa: PLC0415

    declare = overload(half_to, jit_options={"fastmath": {"contract"}, "forceinline": True})
    declare(lambda power: _half_to_single if power == types.float32 else _half_to_double)


@compiled(forceinline=True)
def find_intervals(x, knots, intervals):
    """Fill the number of knots at or below each value, 0 for NaN; knots increase.

    Counting has an inner loop without a branch, which is vectorised: for few knots it is faster than a search.
    """
    if len(knots) <= MOST_COUNTED:
        for i in range(len(x)):
            intervals[i] = 0
        for knot in knots:
            for i in range(len(x)):
                intervals[i] += knot <= x[i]
    else:
        for i in range(len(x)):
            below, above = 0, len(knots)
            while below < above:
                middle = (below + above) // 2
                if knots[middle] <= x[i]:
                    below = middle + 1
                else:
                    above = middle
            intervals[i] = below


@compiled(forceinline=True)
def fill_splines(x, degree, t, first, levels):
    """Fill row q of `levels` with the q + 1 B-splines of degree q at x: the triangular scheme of `local_bsplines`.

    ``t[first - 1]`` and ``t[first]`` are the ends of the interval of x.
    """
    levels[0, 0] = 1.0
    for q in range(1, degree + 1):
        from_left = 0.0
        for r in range(q):
            left, right = t[first + r - q], t[first + r]
            share = levels[q - 1, r] / (right - left)
            levels[q, r] = from_left + (right - x) * share
            from_left = (x - left) * share
        levels[q, q] = from_left


@compiled(fastmath={"contract"}, forceinline=True)
def add_bends(left, right, from_left, from_right, row):
    """Fill a row with a weighted sum of two others, which natural splines add to hats; the loop is vectorised."""
    for r in range(len(row)):
        row[r] = from_left * left[r] + from_right * right[r]


@compiled(fastmath={"contract"}, forceinline=True)
def fill_bumps(x, centres, factors, per_bit, most, row):
    """Fill ``2**-(per_bit (factor (x - centre))**2)``, at least ``2**-most``, in the type of the row.

    Differences are formed in the type of x and centres, powers in that of the row, which is as exact as it can be.
    """
    for r in range(len(row)):
        share = row.dtype.type((x - centres[r]) * factors[r])
        power = share * share * per_bit
        row[r] = half_to(power if power < most else most)


@compiled(fastmath={"contract"}, forceinline=True)
def fill_cubes(x, centres, factors, row):
    """Fill the distance to the first centre and the cubed distances to the others, each distance times its factor."""
    for r in range(len(row)):
        share = np.abs((x - centres[r]) * factors[r])
        row[r] = share * share * share
    row[0] = (x - centres[0]) * factors[0]


def usable_cores(most: int = NO_LIMIT) -> int:
    """Return the number of cores that the process may use, by affinity and quota, at most `most`.

    In containers and batch jobs these are fewer than the machine has.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(available, cores_of_quota(), most), 1)


@cache
def cores_of_quota(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> int:
    """Return the number of whole cores allowed by Linux's control groups, at least 1; `NO_LIMIT` without a limit.

    The limits of the process's group and of all its parents apply; a container sees its own group as the root. They are
    in `cpu.max` (cgroups version 2), or in `cpu.cfs_quota_us` and `cpu.cfs_period_us` (version 1). `groups` is the file
    that lists the groups of the process, `root` the folder of their limits.
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
