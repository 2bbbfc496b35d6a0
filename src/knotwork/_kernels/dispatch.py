"""How an operation runs: the path for its device and type, the gradient, threads, and what torch.compile sees.

Every operation of this package is a formula in plain torch, and faster paths beside it: compiled loops for the CPU,
Triton for a GPU. `Operation` chooses among them, so that the rule is written once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, final

import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["Operation", "Packing", "Path", "as_array", "in_threads", "on_triton", "over_chunks"]

Tensors = tuple[Tensor | None, ...]

HAS_TRITON = find_spec("triton") is not None


class Path(NamedTuple):
    """A fast way to compute an operation, with its gradient.

    Parameters
    ----------
    forward : callable
        ``forward(*tensors, **settings)`` returns the results and what backward needs: two tuples of tensors.
    backward : callable
        ``backward(grads, kept, needed, **settings)`` returns the gradient of every tensor, None where it is not
        `needed`. Of several results, some may have no gradient: None.
    """

    forward: Callable[..., tuple[tuple[Tensor, ...], Tensors]]
    backward: Callable[..., Tensors]


class Packing(NamedTuple):
    """What makes an operation one that torch.compile does not open, and hands on nothing but tensors and numbers.

    The path of such an operation keeps for backward all its tensors, and all its results but the first.

    Parameters
    ----------
    to_numbers, to_settings : callable
        How settings become numbers, and numbers settings.
    shapes : callable
        ``shapes(*tensors, **settings)`` returns tensors of the shapes and types of the results, of any content.
    """

    to_numbers: Callable[[dict[str, Any]], list[float]]
    to_settings: Callable[[tuple[float, ...]], dict[str, Any]]
    shapes: Callable[..., tuple[Tensor, ...]]


def on_triton(tensor: Tensor) -> bool:
    """Return whether the Triton kernels take a tensor: float32 or bfloat16, on a GPU, with Triton installed."""
    return tensor.device.type == "cuda" and tensor.dtype in (torch.float32, torch.bfloat16) and HAS_TRITON


@final
class Operation:
    """A differentiable function of tensors, with a path for each device.

    Parameters
    ----------
    formula : callable
        ``formula(*tensors, **settings)``: the definition in plain torch, which runs where no other path does, and whose
        gradient is torch's own.
    cpu : Path or str, optional
        Compiled loops, or where they are: module of this package and name of the path in it, which is imported when it
        first runs.
    types : tuple of torch.dtype, default=(torch.float32,)
        Types of floating-point tensors that the compiled loops take.
    triton : str, optional
        Where the Triton kernels are, ``"reglu_triton.REGLU"``.
    packing : Packing, optional
        Without it, torch.compile sees the formula.
    leading : int, default=0
        Place of the tensor whose device and type decide; where it is None, the next one does.
    apart : bool, default=False
        Whether each of several results may go backward on its own, one after the other.
    """

    def __init__(
        self,
        formula: Callable[..., Any],
        *,
        cpu: Path | str | None = None,
        types: tuple[torch.dtype, ...] = (torch.float32,),
        triton: str | None = None,
        packing: Packing | None = None,
        leading: int = 0,
        apart: bool = False,
    ) -> None:
        self.formula, self.cpu, self.types, self.triton = formula, cpu, types, triton
        self.packing, self.leading, self.apart, self.name = packing, leading, apart, formula.__name__
        if packing is not None:
            self._register()

    def __call__(self, *tensors: Tensor | None, **settings: Any) -> Any:
        """Compute the operation."""
        device = self._device(tensors)
        if device is None:
            return self.formula(*tensors, **settings)
        if not torch.compiler.is_compiling():
            return _Run.apply(self._path(device), settings, self.apart, *tensors)  # type: ignore[no-untyped-call]
        if self.packing is None:
            return self.formula(*tensors, **settings)
        return _RunOpaque.apply(self.name, self.packing.to_numbers(settings), *tensors)  # type: ignore[no-untyped-call]

    def _device(self, tensors: Sequence[Tensor | None]) -> str | None:
        """Return whose path these tensors take; None is the formula's."""
        leading = next(tensor for tensor in tensors[self.leading :] if tensor is not None)
        if not leading.numel():
            return None
        if self.triton is not None and on_triton(leading):
            return "triton"
        floats = [tensor for tensor in tensors if tensor is not None and tensor.is_floating_point()]
        compiled = self.cpu is not None and leading.device.type == "cpu"
        return "cpu" if compiled and all(tensor.dtype in self.types for tensor in floats) else None

    def _path(self, device: str) -> Path:
        path = self.cpu if device == "cpu" else self.triton
        return path if isinstance(path, Path) else _imported(path or "")

    def _register(self) -> None:
        """Register the paths with torch as two functions that torch.compile does not open."""
        assert self.packing is not None
        to_settings, shapes = self.packing.to_settings, self.packing.shapes

        def path_of(tensors: Sequence[Tensor | None]) -> Path:
            return self._path(self._device(tensors) or "")

        def forward(tensors: Sequence[Tensor | None], numbers: Sequence[float]) -> list[Tensor]:
            return list(path_of(tensors).forward(*tensors, **to_settings(tuple(numbers)))[0])

        def forward_shapes(tensors: Sequence[Tensor | None], numbers: Sequence[float]) -> list[Tensor]:
            return list(shapes(*tensors, **to_settings(tuple(numbers))))

        def backward(
            grads: Sequence[Tensor | None],
            kept: Sequence[Tensor | None],
            needed: Sequence[bool],
            numbers: Sequence[float],
        ) -> list[Tensor]:
            run = path_of(kept).backward
            gradients = run(tuple(grads), tuple(kept), tuple(needed), **to_settings(tuple(numbers)))
            return [gradient for gradient in gradients if gradient is not None]

        def backward_shapes(grads: Any, kept: Any, needed: Any, numbers: Any) -> list[Tensor]:
            del grads, numbers
            wanted = [tensor for tensor, asked in zip(kept, needed, strict=False) if asked]
            return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in wanted]

        for name, function, fake in (
            (self.name, forward, forward_shapes),
            (f"{self.name}_backward", backward, backward_shapes),
        ):
            made: Any = torch.library.custom_op(f"knotwork::{name}", function, mutates_args=())
            made.register_fake(fake)


@cache
def _imported(place: str) -> Path:
    module, name = place.split(".")
    path: Path = vars(import_module(f"knotwork._kernels.{module}"))[name]
    return path


class _Run(torch.autograd.Function):
    """One path of an operation."""

    @staticmethod
    def forward(ctx: Any, path: Path, settings: dict[str, Any], apart: bool, *tensors: Tensor | None) -> Any:
        results, kept = path.forward(*tensors, **settings)
        ctx.path, ctx.settings, ctx.apart, ctx.held = path, settings, apart, None
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)
        return results if len(results) > 1 else results[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> Tensors:
        needed = ctx.needs_input_grad[3:]
        if all(grad is None for grad in grads):
            return (None,) * (3 + len(needed))
        if ctx.held is None:
            kept = ctx.saved_tensors
            if ctx.apart and any(grad is None for grad in grads):
                # torch frees what is saved now, and another result may go backward later. Results are held without
                # their graph: with it they would hold this node, and only the garbage collector would free it.
                ctx.held = [None if tensor is None else (tensor.detach(), tensor._version) for tensor in kept]
        else:
            kept = _unchanged(ctx.held)
        return None, None, None, *ctx.path.backward(grads, kept, needed, **ctx.settings)


def _unchanged(held: list[tuple[Tensor, int] | None]) -> Tensors:
    """Return tensors that were held for a second pass backward."""
    if any(pair is not None and pair[0]._version != pair[1] for pair in held):
        raise RuntimeError("A tensor that the gradient needs was modified in place. Run the forward pass again.")
    return tuple(None if pair is None else pair[0] for pair in held)


class _RunOpaque(torch.autograd.Function):
    """An operation while torch.compile is looking: it is not opened."""

    @staticmethod
    def forward(ctx: Any, name: str, numbers: list[float], *tensors: Tensor | None) -> Any:
        results = getattr(torch.ops.knotwork, name)(list(tensors), numbers)
        ctx.name, ctx.numbers = name, numbers
        ctx.save_for_backward(*tensors, *results[1:])
        ctx.set_materialize_grads(False)
        return tuple(results) if len(results) > 1 else results[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Tensors:
        needed = list(ctx.needs_input_grad[2:])
        run = getattr(torch.ops.knotwork, f"{ctx.name}_backward")
        made = run(list(grads), list(ctx.saved_tensors), needed, ctx.numbers)
        gradients, place = [], 0
        for asked in needed:
            gradients.append(made[place] if asked else None)
            place += asked
        return None, None, *gradients


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return the numbers of a tensor on the CPU, contiguous."""
    return tensor.detach().contiguous().numpy()


def over_chunks(work: Callable[[int, slice], None], n_groups: int, n_rows: int, *, rows_per_chunk: int) -> None:
    """Call ``work(group, rows)`` on slices that cover all rows of all groups, in as many threads as torch uses.

    Parameters
    ----------
    work : callable
        Must hold no lock for most of its time (compiled loops do not) and write to places of its own.
    n_groups, n_rows : int
        Number of groups, and of rows in each.
    rows_per_chunk : int
        Rows of a slice. The slices do not depend on the number of threads, so neither do sums over them.
    """
    chunks = [
        (group, slice(start, min(start + rows_per_chunk, n_rows)))
        for group in range(n_groups)
        for start in range(0, n_rows, rows_per_chunk)
    ]
    in_threads(work, chunks)


def in_threads(work: Callable[..., None], parts: Sequence[tuple[Any, ...]]) -> None:
    """Call `work` with the arguments of every part, in as many threads as torch uses."""
    if torch.get_num_threads() == 1 or len(parts) < 2:
        for part in parts:
            work(*part)
        return
    for _ in _pool(torch.get_num_threads()).map(lambda part: work(*part), parts):
        pass


@lru_cache(maxsize=1)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="knotwork")
