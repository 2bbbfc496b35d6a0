"""How a Triton kernel is launched with little work on the host.

Triton inspects every argument of every launch to select the code that it compiled for such arguments, which takes
longer than a small kernel. A plan does so once.
"""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from triton.compiler import CompiledKernel

__all__ = ["Plan", "power_of_2_from"]

ALIGNED = 16
"""Bytes to which Triton aligns vectors: code that uses them is selected by the addresses of the tensors."""


class _Kind(NamedTuple):
    """What can differ between tensors of the same shapes, and selects other code."""

    device: torch.device
    dtypes: tuple[torch.dtype, ...]
    aligned: tuple[bool, ...]


@final
class Plan:
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
        self._kernel, self._grid, self._numbers, self._constants = kernel, grid, numbers, constants
        self._n_warps = n_warps
        self._others = (*numbers, *constants.values())
        self._launchers: dict[_Kind, Any] = {}

    def launch(self, *tensors: Tensor) -> None:
        """Launch the kernel on the current stream of the current device."""
        dtypes = tuple([tensor.dtype for tensor in tensors])
        aligned = tuple([tensor.data_ptr() % ALIGNED == 0 for tensor in tensors])
        kind = _Kind(tensors[0].device, dtypes, aligned)
        launcher = self._launchers.get(kind)
        if launcher is not None:
            launcher(*tensors, *self._others)
            return
        compiled = self._kernel[self._grid](*tensors, *self._numbers, **self._constants, num_warps=self._n_warps)
        if isinstance(compiled, CompiledKernel):  # Triton's interpreter compiles nothing
            self._launchers[kind] = compiled[self._grid]


def power_of_2_from(n: int) -> int:
    """Return the smallest power of 2 that is at least n; Triton's function of this kind takes 13 us on the host."""
    return 1 << (n - 1).bit_length() if n > 1 else 1
