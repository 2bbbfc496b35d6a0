"""Functions that numba compiles when they are first called, and a power of two that its loops can vectorise."""

import hashlib
from collections.abc import Callable
from functools import cache, update_wrapper
from threading import RLock
from typing import Any

import numpy as np

__all__ = ["Compiled", "compiled", "half_to"]

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
                space = self._function.__globals__
                for name in self._function.__code__.co_names:
                    if isinstance(space.get(name), Compiled):
                        space[name] = space[name].load()
                self._loaded = self._loaded or _of_numba(self._function, self._options)
                if space.get(self._function.__name__) is self:
                    space[self._function.__name__] = self._loaded
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
    """Let processes that compile a function at the same time write to files of their own.

    Numba numbers the files of a function's signatures. Two processes that begin with an empty cache take the same
    number for different ones, and then load the code of the other.
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
