"""How an operation runs: the path for its device and type, its gradient, threads, and torch.compile.

An operation is a formula in plain torch with optional faster paths: compiled loops on the CPU, Triton on a GPU.
`Operation` holds the one rule that chooses among them.
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

Tensors = tuple[Tensor | None, ...]

HAS_TRITON = find_spec("triton") is not None

LIBRARIES: dict[str, Any] = vars(torch.ops.knotwork).setdefault("_libraries", {})
"""Operations that torch.compile calls without tracing into them; torch keeps them, so modules can be loaded again."""

LONG_FROM = 2**31 - 2**16
"""Numbers of values that kernels count in 64 bits."""

VALUES_PER_CHUNK = 1 << 16
"""Values of a chunk of `in_ranges`, the work of one thread at a time, where an operation treats each value alone."""


class Path(NamedTuple):
    """A fast way to compute an operation, with its gradient.

    ``forward(*tensors, **settings)`` returns two tuples of tensors: the results, and those that backward needs (kept).
    ``backward(grads, kept, needed, **settings)`` returns the gradient of every input tensor; what it returns where
    `needed` is False is not used. An entry of `grads` is None if that result has no gradient.
    """

    forward: Callable[..., tuple[tuple[Tensor, ...], Tensors]]
    backward: Callable[..., Tensors]


class Packing(NamedTuple):
    """How to register an operation as a custom op, which torch.compile does not trace into.

    A custom op takes only tensors and numbers: `to_numbers` packs the settings, `to_settings` unpacks them.
    ``shapes(*tensors, **settings)`` returns uninitialised tensors with the shapes and types of the results. The path
    must keep for backward all its input tensors and all its results except the first, or None for one.
    """

    to_numbers: Callable[[dict[str, Any]], list[float]]
    to_settings: Callable[[tuple[float, ...]], dict[str, Any]]
    shapes: Callable[..., tuple[Tensor, ...]]


def on_triton(tensor: Tensor) -> bool:
    """Return whether the Triton kernels support a tensor: float32 or bfloat16, on a GPU, with Triton installed."""
    return tensor.device.type == "cuda" and tensor.dtype in (torch.float32, torch.bfloat16) and HAS_TRITON


def is_long(n_values: int) -> bool:
    """Return whether a kernel must count values in 64 bits; in 32 bits, the last program would count beyond 2**31."""
    return n_values >= LONG_FROM


def is_transformed() -> bool:
    """Return whether torch sees the operations of a call one by one, so that only plain torch will do.

    So it is in `torch.func` and `torch.vmap`, in `torch.jit.trace` and the older ONNX export, and in `torch.export`.
    """
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    transformed: bool = torch._C._are_functorch_transforms_active() or torch._C._get_tracing_state() is not None
    return transformed


@final
class Operation:
    """A differentiable function of tensors, with a path for each device.

    Results of a path can be differentiated once; those of an operation with `packing` repeatedly, because
    with ``create_graph=True`` their gradient is that of the formula.

    Parameters
    ----------
    formula : callable
        ``formula(*tensors, **settings)``: the definition in plain torch, used if no faster path applies.
    cpu : Path or str, optional
        Compiled loops, or their location ``"module.NAME"`` in this package, imported at first use.
    types : tuple of torch.dtype, default=(torch.float32,)
        Floating-point types that the compiled loops support.
    triton : str, optional
        Location of the Triton kernels, for example ``"transformer_triton.REGLU"``.
    packing : Packing, optional
        Without it, torch.compile traces the formula.
    leading : int, default=0
        Index of the tensor whose device and type select the path; if it is None, the next one does.
    apart : bool, default=False
        Whether the results may be differentiated one after the other, in separate backward passes.
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
        device = None if is_transformed() else self._device(tensors)
        if device is None:
            return self.formula(*tensors, **settings)
        if not torch.compiler.is_compiling():
            path = self._path(device)
            if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
                return _RunPath.apply(self, path, settings, *tensors)  # type: ignore[no-untyped-call]
            results = path.forward(*tensors, **settings)[0]
            return results if len(results) > 1 else results[0]
        if self.packing is None:
            return self.formula(*tensors, **settings)
        return _RunOpaque.apply(self.name, self.packing.to_numbers(settings), *tensors)  # type: ignore[no-untyped-call]

    def _device(self, tensors: Sequence[Tensor | None]) -> str | None:
        """Return the name of the path for these tensors: "triton", "cpu", or None for the formula."""
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
        """Register forward and backward as custom ops."""
        assert self.packing is not None
        to_settings, shapes = self.packing.to_settings, self.packing.shapes

        def path_of(tensors: Sequence[Tensor | None]) -> Path:
            return self._path(self._device(tensors) or "")

        def forward(tensors: Sequence[Tensor | None], numbers: Sequence[float]) -> list[Tensor]:
            return list(path_of(tensors).forward(*tensors, **to_settings(tuple(numbers)))[0])

        def forward_shapes(tensors: Sequence[Tensor | None], numbers: Sequence[float]) -> list[Tensor]:
            return list(shapes(*tensors, **to_settings(tuple(numbers))))

        def backward(
            grads: Sequence[Tensor | None], kept: Sequence[Tensor | None], needed: Sequence[bool],
            numbers: Sequence[float],
        ) -> list[Tensor]:  # fmt: skip
            run = path_of(kept).backward
            gradients = run(tuple(grads), tuple(kept), tuple(needed), **to_settings(tuple(numbers)))
            return [each for each, is_needed in zip(gradients, needed, strict=True) if is_needed and each is not None]

        def backward_shapes(grads: Any, kept: Any, needed: Any, numbers: Any) -> list[Tensor]:
            del grads, numbers
            inputs = [tensor for tensor, is_needed in zip(kept, needed, strict=False) if is_needed]
            return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in inputs]

        for name, function, fake in (
            (self.name, forward, forward_shapes),
            (f"{self.name}_backward", backward, backward_shapes),
        ):
            # Not by `torch.library.custom_op`, whose gradient in Python is called at every step although it is unused.
            schema = torch.library.infer_schema(function, mutates_args=())
            if name in LIBRARIES:
                LIBRARIES.pop(name)._destroy()
            library: Any = torch.library.Library("knotwork", "FRAGMENT")  # type: ignore[no-untyped-call]
            LIBRARIES[name] = library
            library.define(f"{name}{schema}", tags=torch.Tag.pt2_compliant_tag)
            library.impl(name, function, "CompositeExplicitAutograd")
            torch.library.register_fake(f"knotwork::{name}", fake, lib=library)


@cache
def _imported(place: str) -> Path:
    module, name = place.split(".")
    path: Path = vars(import_module(f"knotwork._kernels.{module}"))[name]
    return path


class _RunPath(torch.autograd.Function):
    """One path of an operation."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, path: Path, settings: dict[str, Any], *tensors: Tensor | None) -> Any:
        results, kept = path.forward(*tensors, **settings)
        ctx.operation, ctx.path, ctx.settings, ctx.held = operation, path, settings, None
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)
        return results if len(results) > 1 else results[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Tensors:
        needed = ctx.needs_input_grad[3:]
        if all(grad is None for grad in grads):
            return (None,) * (3 + len(needed))
        if not torch.is_grad_enabled():
            return _RunPath._run_backward(ctx, *grads)
        if ctx.operation.packing is not None:
            inputs = _RunPath._kept(ctx)[: len(needed)]  # an operation with packing keeps them first
            return None, None, None, *_formula_gradients(ctx.operation.formula, ctx.settings, inputs, grads, needed)
        return _RunPath._run_backward_once(ctx, *grads)

    @staticmethod
    @once_differentiable
    def _run_backward_once(ctx: Any, *grads: Tensor | None) -> Tensors:
        return _RunPath._run_backward(ctx, *grads)

    @staticmethod
    def _run_backward(ctx: Any, *grads: Tensor | None) -> Tensors:
        kept = _RunPath._kept(ctx)
        if ctx.held is None and ctx.operation.apart and any(grad is None for grad in grads):
            # torch frees the saved tensors after this call, but the other result may go backward later. Results are
            # held without their graph: with it they would refer to this node, a cycle that only the garbage collector
            # could free.
            ctx.held = [None if tensor is None else _without_graph(tensor) for tensor in kept]
        needed = ctx.needs_input_grad[3:]
        gradients = zip(ctx.path.backward(grads, kept, needed, **ctx.settings), needed, strict=True)
        return None, None, None, *[gradient if is_needed else None for gradient, is_needed in gradients]

    @staticmethod
    def _kept(ctx: Any) -> Tensors:
        saved: Tensors = ctx.saved_tensors if ctx.held is None else _unchanged(ctx.held)
        return saved


def _formula_gradients(
    formula: Callable[..., Any], settings: dict[str, Any], inputs: Tensors, grads: Tensors, needed: Sequence[bool]
) -> Tensors:
    """Return gradients of the inputs that can be differentiated again."""
    results = formula(*inputs, **settings)
    pairs = zip(results if isinstance(results, tuple) else (results,), grads, strict=True)
    outputs, weights = zip(*(pair for pair in pairs if pair[1] is not None), strict=True)
    wanted = [tensor for tensor, is_needed in zip(inputs, needed, strict=True) if is_needed and tensor is not None]
    slopes = iter(torch.autograd.grad(outputs, wanted, weights, create_graph=True, allow_unused=True))
    return tuple(next(slopes) if is_needed else None for is_needed in needed)


def _without_graph(tensor: Tensor) -> tuple[Tensor, int]:
    """Return a tensor without its graph, and its version."""
    return tensor if tensor.grad_fn is None else tensor.detach(), tensor._version


def _unchanged(held: list[tuple[Tensor, int] | None]) -> Tensors:
    """Return tensors that were held, or raise an error if one was modified."""
    for pair in held:
        if pair is not None and pair[0]._version != pair[1]:
            raise RuntimeError("A tensor that the gradient needs was modified in place. Run the forward pass again.")
    return tuple([None if pair is None else pair[0] for pair in held])


class _RunOpaque(torch.autograd.Function):
    """A custom op with its gradient, used while torch.compile traces."""

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
        results = run(list(grads), list(ctx.saved_tensors), needed, ctx.numbers)
        gradients, place = [], 0
        for is_needed in needed:
            gradients.append(results[place] if is_needed else None)
            place += is_needed
        return None, None, *gradients


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor of the CPU as a contiguous array."""
    return tensor.detach().contiguous().numpy()


def over_chunks(work: Callable[[int, slice], None], n_groups: int, n_rows: int, *, rows_per_chunk: int) -> None:
    """Call ``work(group, rows)`` on slices that cover all rows of all groups, in as many threads as torch uses.

    `work` must release the GIL, as compiled loops do, and no two calls may write to the same memory. The slices do not
    depend on the number of threads, so sums that are formed per slice do not either.
    """
    starts = range(0, n_rows, rows_per_chunk)
    slices = [slice(start, min(start + rows_per_chunk, n_rows)) for start in starts]
    in_threads(work, [(group, rows) for group in range(n_groups) for rows in slices])


def in_ranges(work: Callable[[int, int], None], n_chunks: int) -> None:
    """Call ``work(first, stop)`` on ranges that cover all chunks, in as many threads as torch uses.

    As `over_chunks`, for loops that go through several chunks by themselves: one thread needs a single call.
    """
    in_threads(work, [(0, n_chunks)] if torch.get_num_threads() == 1 else [(i, i + 1) for i in range(n_chunks)])


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
