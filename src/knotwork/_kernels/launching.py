"""How Triton kernels are launched: with little work on the host, and without a C program for every kernel.

Triton inspects every argument of every launch to select the code that it compiled for such arguments, and launches it
by a program in C for arguments of these types, which a C compiler builds when it is first needed, in some tenths of a
second. Here the driver's own function launches the code, and a plan selects it once.
"""

import ctypes
import struct
import sys
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any, Self, final

from torch import Tensor
from triton.compiler import CompiledKernel
from triton.runtime import driver
from triton.runtime.jit import JITFunction

ALIGNED = 16
"""Bytes to which Triton aligns vectors: code that uses them is selected by the addresses of the tensors."""

FORMATS = {"i1": "b7x", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q", "u1": "B7x", "u8": "B7x", "u16": "H6x",
           "u32": "I4x", "u64": "Q", "fp32": "f4x", "fp64": "d"}  # fmt: skip
"""Formats of numbers by their types in Triton, of eight bytes each."""

MOST_PLANS = 1024
"""Plans of launches that are kept for each kernel: one for every combination of shapes."""

N_SCRATCH = 2
"""Addresses of scratch memory that compiled kernels take after their arguments; none if they need none."""


INVALID_CONTEXT = 201
"""The driver's code for a thread that has done nothing on a GPU yet."""


@final
class _Loaded:
    """Compiled code on a GPU.

    Parameters
    ----------
    function : int
        Its handle.
    n_threads, n_shared : int
        Threads of a program, and bytes of their shared memory.
    types : sequence of str
        Types of the parameters in Triton.
    """

    def __init__(self, function: int, n_threads: int, n_shared: int, types: Sequence[str]) -> None:
        self._function, self._n_threads, self._n_shared = function, n_threads, n_shared
        self.is_argument = [each != "constexpr" for each in types]
        formats = ["Q" if each.startswith("*") else FORMATS[each] for each in types if each != "constexpr"]
        self._n_arguments = len(formats)
        self._pack = struct.Struct("<" + "".join(formats)).pack_into
        # The driver reads arguments before it returns: memory can be used again, but not by two threads at once.
        self._rooms: deque[tuple[Any, Any]] = deque()

    @classmethod
    def from_compiled(cls, compiled: CompiledKernel) -> Self | None:
        """Load code that Triton compiled for the current device; None if it is not launched in the simplest way."""
        metadata, source = compiled.metadata, compiled.src
        types, names = list(source.signature.values()), list(source.signature)
        needs = ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "launch_pdl")
        is_plain = metadata.target.backend == "cuda" and getattr(metadata, "num_ctas", 1) == 1
        is_plain &= sys.platform == "linux"  # elsewhere the driver's library has another name
        if not is_plain or any(getattr(metadata, name, 0) for name in needs) or names != list(source.fn.arg_names):
            return None
        if not all(isinstance(each, str) and (each[0] == "*" or each in {*FORMATS, "constexpr"}) for each in types):
            return None
        device, utils = driver.active.get_current_device(), driver.active.utils
        if metadata.shared > utils.get_device_properties(device)["max_shared_mem"]:
            return None  # Triton's error says how much is missing
        loaded = utils.load_binary(compiled.name, compiled.kernel, metadata.shared, device)
        return cls(loaded[1], metadata.num_warps * metadata.target.warp_size, metadata.shared, types)

    def launch(self, grid: Sequence[int], arguments: Sequence[Any]) -> None:
        """Launch the code on the current stream of the current device; tensors are given by their addresses."""
        if 0 in grid:
            return
        try:
            values, addresses = self._rooms.pop()
        except IndexError:
            values, addresses = self._make_room()
        self._pack(values, 0, *arguments)
        device = driver.active.get_current_device()
        stream = driver.active.get_current_stream(device)
        given = self._function, *grid, self._n_threads, 1, 1, self._n_shared, stream, addresses, None
        code = _cuda().cuLaunchKernel(*given)
        if code == INVALID_CONTEXT:
            _enter_context(device)
            code = _cuda().cuLaunchKernel(*given)
        self._rooms.append((values, addresses))
        if code:
            raise RuntimeError(f"A kernel could not be launched: {_error_text(code)}.")

    def _make_room(self) -> tuple[Any, Any]:
        """Return memory for the arguments of a launch, and the addresses of all of them."""
        n = self._n_arguments + N_SCRATCH
        values = (ctypes.c_uint64 * n)()
        start = ctypes.addressof(values)
        return values, (ctypes.c_void_p * n)(*range(start, start + 8 * n, 8))


@cache
def _cuda() -> Any:
    library = ctypes.CDLL("libcuda.so.1")
    number, pointer = ctypes.c_uint, ctypes.c_void_p
    library.cuLaunchKernel.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
    return library


def _enter_context(device: int) -> None:
    """Let the current thread use a GPU, in the context that torch uses."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    for code in (
        _cuda().cuDeviceGet(ctypes.byref(handle), device),
        _cuda().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle),
        _cuda().cuCtxSetCurrent(context),
    ):
        if code:
            raise RuntimeError(f"GPU {device} cannot be used: {_error_text(code)}.")


def _error_text(code: int) -> str:
    text = ctypes.c_char_p()
    _cuda().cuGetErrorString(code, ctypes.byref(text))
    return text.value.decode() if text.value else f"CUDA error {code}"


@cache
def _loaded(compiled: CompiledKernel) -> _Loaded | None:
    return _Loaded.from_compiled(compiled)


def _selected(kernel: Any, arguments: Sequence[Any], others: dict[str, Any]) -> _Loaded | None:
    """Return the code for such arguments, compiled if needed; None if Triton itself must launch it."""
    if not isinstance(kernel, JITFunction):  # of Triton's interpreter
        return None
    compiled = kernel.run(*arguments, grid=(1,), warmup=True, **others)
    return _loaded(compiled) if isinstance(compiled, CompiledKernel) else None  # else Triton was told to do otherwise


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **others: Any) -> None:
    """Launch a kernel, as ``kernel[grid](*arguments, **others)`` does.

    Parameters
    ----------
    kernel : JITFunction
        The kernel.
    grid : tuple of int
        Numbers of programs along one to three axes.
    *arguments : Any
        Tensors and numbers in the order of the kernel's parameters, the first a tensor. None stands for a tensor that
        the kernel does not read.
    **others : Any
        Further parameters by name, and options such as ``num_warps``.
    """
    arguments = tuple([arguments[0] if each is None else each for each in arguments])
    loaded = _selected(kernel, arguments, others)
    if loaded is None:
        kernel[grid](*arguments, **others)
        return
    given = dict(zip(kernel.arg_names, arguments, strict=False)) | others
    chosen = [given[name] for name, is_taken in zip(kernel.arg_names, loaded.is_argument, strict=True) if is_taken]
    loaded.launch((*grid, 1, 1)[:3], [each.data_ptr() if isinstance(each, Tensor) else each for each in chosen])


@final
class Launch:
    """All launches of a kernel whose arguments differ only in the tensors.

    Parameters
    ----------
    kernel : JITFunction
        A kernel whose parameters are tensors, then numbers, then constants.
    grid : tuple of int
        Numbers of programs along three axes.
    numbers : tuple of int or float
        The numbers.
    n_warps : int, default=4
        Warps of a program.
    **constants : Any
        The constants, by name, in the order of the kernel's parameters.
    """

    def __init__(
        self, kernel: Any, grid: tuple[int, int, int], numbers: tuple[float, ...], *, n_warps: int = 4, **constants: Any
    ) -> None:
        self._kernel, self._grid, self._numbers = kernel, grid, numbers
        self._options = {**constants, "num_warps": n_warps}
        self._known: dict[Any, tuple[_Loaded, tuple[float, ...]]] = {}

    def launch(self, *tensors: Tensor) -> None:
        """Launch the kernel on the current stream of the current device."""
        addresses = [tensor.data_ptr() for tensor in tensors]
        dtypes, aligned = tuple([tensor.dtype for tensor in tensors]), tuple([not each % ALIGNED for each in addresses])
        kind = tensors[0].device, dtypes, aligned  # what selects other code
        known = self._known.get(kind) or self._prepare(tensors)
        if known is None:
            self._kernel[self._grid](*tensors, *self._numbers, **self._options)
            return
        self._known[kind] = loaded, numbers = known
        loaded.launch(self._grid, (*addresses, *numbers))

    def _prepare(self, tensors: Sequence[Tensor]) -> tuple[_Loaded, tuple[float, ...]] | None:
        """Return the code for tensors of a kind, and those numbers that it takes as arguments."""
        loaded = _selected(self._kernel, (*tensors, *self._numbers), self._options)
        if loaded is None:
            return None
        is_argument = loaded.is_argument[len(tensors) : len(tensors) + len(self._numbers)]
        return loaded, tuple([number for number, taken in zip(self._numbers, is_argument, strict=True) if taken])


def contiguous(*tensors: Tensor | None) -> Any:
    """Return tensors whose values follow each other in memory, as kernels read them; None stays."""
    return tuple([None if tensor is None else tensor.contiguous() for tensor in tensors])


def power_of_2_from(n: int) -> int:
    """Return the smallest power of 2 that is at least n; Triton's function of this kind takes 13 us on the host."""
    return 1 << (n - 1).bit_length() if n > 1 else 1
