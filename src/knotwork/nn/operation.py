"""The encoding as an operation of torch: one name, a path for each device, and a gradient in closed form.

Backward keeps the values and the knots, and nothing else: the scheme is run again.
"""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from knotwork.nn.reference import encode_plain
from knotwork.nn.spacings import breaks_from_widths, spacing_penalty, widths_from_logits

__all__ = ["encode", "encode_learned", "make_breaks", "make_penalty"]


def encode(
    x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Encode values between 0 and 1, by the fastest path there is for their device and type.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values; those outside [0, 1] are moved to the nearer end, NaN gives a row of zeros.
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones; float32 or float64.
    n_knots : Tensor of shape (F,)
        Number of interior knots of each feature, int32.
    kind, degree : int
        As in `Layout`: kind of the rows, degree of the triangular scheme.
    size : int
        Length of a row.
    dtype : torch.dtype, optional
        Type of the result; by default that of `breaks`. Arithmetic is in the type of `breaks`, on the CPU in float64.

    Returns
    -------
    Tensor of shape (G, B, F, size)
        Differentiable with respect to x and breaks.

    Notes
    -----
    The paths: compiled loops on the CPU; Triton on a GPU; plain torch for float64 on a GPU, on other devices, and
    where Triton is not installed. All are tested against `knotwork.basis`.
    """
    dtype = breaks.dtype if dtype is None else dtype
    if x.device.type == "cpu" or _on_triton(breaks):
        return _Encode.apply(x, breaks, n_knots, kind, degree, size, dtype)  # type: ignore[no-any-return]
    return encode_plain(x.to(breaks.dtype), breaks, n_knots, kind=kind, degree=degree, size=size).to(dtype)


def encode_learned(
    x: Tensor,
    logits: Tensor,
    n_knots: Tensor,
    *,
    min_spacing: float,
    epsilon: float,
    kind: int,
    degree: int,
    size: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Encode values on the knots of logits of shape (G, F, K + 1), and return the penalties with the result.

    That is `make_breaks`, `encode` and `make_penalty`. On a GPU knots and penalty come from one kernel, and the
    gradient goes from the sums over rows and from the penalty to the logits in one kernel.
    """
    if _on_triton(logits) and not torch.compiler.is_compiling():
        settings = (min_spacing, epsilon, kind, degree, size, dtype)
        return _EncodeLearned.apply(x, logits, n_knots, *settings)  # type: ignore[no-any-return]
    breaks = make_breaks(logits, n_knots, min_spacing)
    encoded = encode(x, breaks, n_knots, kind=kind, degree=degree, size=size, dtype=dtype)
    return encoded, make_penalty(logits, n_knots, min_spacing, epsilon)


def make_breaks(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the breaks of logits of shape (G, F, K + 1): `widths_from_logits`, then `breaks_from_widths`."""
    if _on_triton(logits):
        return _Breaks.apply(logits, n_knots, min_spacing)  # type: ignore[no-any-return]
    return breaks_from_widths(widths_from_logits(logits, n_knots, min_spacing), n_knots)


def make_penalty(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    """Return the penalties, of shape (G,), of logits of shape (G, F, K + 1)."""
    if _on_triton(logits):
        return _Penalty.apply(logits, n_knots, min_spacing, epsilon)  # type: ignore[no-any-return]
    return spacing_penalty(widths_from_logits(logits, n_knots, min_spacing), n_knots, epsilon)


def _on_triton(tensor: Tensor) -> bool:
    return tensor.device.type == "cuda" and tensor.dtype == torch.float32 and find_spec("triton") is not None


def _forward(
    x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype
) -> Tensor:
    if x.device.type == "cpu":
        from knotwork.nn import cpu  # noqa: PLC0415 - importing the compiler takes half a second

        encoded = cpu.forward(x.to(breaks.dtype), breaks, n_knots, kind=kind, degree=degree, size=size)
        return encoded.to(dtype)
    from knotwork.nn import triton_kernels  # noqa: PLC0415 - only where there is a GPU

    return triton_kernels.forward(x, breaks, n_knots, kind=kind, degree=degree, size=size, dtype=dtype)


def _backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    if x.device.type == "cpu":
        from knotwork.nn import cpu  # noqa: PLC0415

        type_ = breaks.dtype
        x_grad, breaks_grad = cpu.backward(grad.to(type_), x.to(type_), breaks, n_knots, kind=kind, degree=degree)
        return (x_grad.to(x.dtype) if with_x else x.new_zeros(())), breaks_grad
    from knotwork.nn import triton_kernels  # noqa: PLC0415

    return triton_kernels.backward(grad, x, breaks, n_knots, kind=kind, degree=degree, with_x=with_x)


def _breaks(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.breaks_forward(logits, n_knots, min_spacing)


def _breaks_backward(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.breaks_backward(grad, logits, n_knots, min_spacing)


def _penalty(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.penalty_forward(logits, n_knots, min_spacing, epsilon)


def _penalty_backward(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.penalty_backward(grad, logits, n_knots, min_spacing, epsilon)


# torch.compile cannot look into the paths: it gets each as one operation that it does not open.
_OPAQUE: dict[str, Any] = {
    function.__name__: torch.library.custom_op(f"knotwork::{name}", function, mutates_args=())  # type: ignore[call-overload]
    for name, function in {
        "encode": _forward,
        "encode_backward": _backward,
        "breaks": _breaks,
        "breaks_backward": _breaks_backward,
        "penalty": _penalty,
        "penalty_backward": _penalty_backward,
    }.items()
}


@_OPAQUE["_forward"].register_fake
def _(x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype) -> Tensor:
    return x.new_empty(*x.shape, size, dtype=dtype)


@_OPAQUE["_backward"].register_fake
def _(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    return (torch.empty_like(x) if with_x else x.new_empty(())), torch.empty_like(breaks)


@_OPAQUE["_breaks"].register_fake
def _(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    return logits.new_empty(*logits.shape[:-1], logits.shape[-1] + 1, dtype=torch.float32)


@_OPAQUE["_penalty"].register_fake
def _(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.float32)


@_OPAQUE["_breaks_backward"].register_fake
@_OPAQUE["_penalty_backward"].register_fake
def _(grad: Tensor, logits: Tensor, *constants: Any) -> Tensor:
    del grad, constants
    return torch.empty_like(logits)


def _path(function: Any) -> Any:
    """Return the function itself, or, where torch.compile is looking, the operation that hides it."""
    return _OPAQUE[function.__name__] if torch.compiler.is_compiling() else function


class _Encode(torch.autograd.Function):
    """Encode, and run the scheme again for the gradient."""

    @staticmethod
    def forward(
        x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype
    ) -> Tensor:
        return _path(_forward)(x, breaks, n_knots, kind, degree, size, dtype)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        x, breaks, n_knots, ctx.kind, ctx.degree, _, _ = inputs
        ctx.save_for_backward(x, breaks, n_knots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, breaks, n_knots = ctx.saved_tensors
        with_x, with_breaks = ctx.needs_input_grad[:2]
        x_grad, breaks_grad = _path(_backward)(grad, x, breaks, n_knots, ctx.kind, ctx.degree, with_x)
        return (x_grad if with_x else None), (breaks_grad if with_breaks else None), None, None, None, None, None


class _EncodeLearned(torch.autograd.Function):
    """Encode on knots made of free numbers, on a GPU, with the spacing penalty."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        logits: Tensor,
        n_knots: Tensor,
        min_spacing: float,
        epsilon: float,
        kind: int,
        degree: int,
        size: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        from knotwork.nn import triton_spacings  # noqa: PLC0415

        breaks, penalty = triton_spacings.breaks_and_penalty(logits, n_knots, min_spacing, epsilon)
        ctx.save_for_backward(x, breaks, n_knots, logits)
        ctx.spacing, ctx.settings = (min_spacing, epsilon), {"kind": kind, "degree": degree}
        ctx.set_materialize_grads(False)
        return _forward(x, breaks, n_knots, kind, degree, size, dtype), penalty

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, penalty_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        from knotwork.nn import triton_kernels  # noqa: PLC0415

        x, breaks, n_knots, logits = ctx.saved_tensors
        none = (None,) * 7
        if grad is None:  # only the penalty was used
            assert penalty_grad is not None
            return None, _penalty_backward(penalty_grad, logits, n_knots, *ctx.spacing), *none
        min_spacing, epsilon = ctx.spacing
        spacings = triton_kernels.Spacings(logits, min_spacing, epsilon, penalty_grad)
        with_x = ctx.needs_input_grad[0]
        x_grad, logits_grad = triton_kernels.backward_to_logits(
            grad, x, breaks, n_knots, spacings, **ctx.settings, with_x=with_x
        )
        return (x_grad if with_x else None), logits_grad, *none


class _Breaks(torch.autograd.Function):
    """Knots from free numbers in one kernel."""

    @staticmethod
    def forward(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
        return _path(_breaks)(logits, n_knots, min_spacing)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        logits, n_knots, ctx.min_spacing = inputs
        ctx.save_for_backward(logits, n_knots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _path(_breaks_backward)(grad, *ctx.saved_tensors, ctx.min_spacing), None, None


class _Penalty(torch.autograd.Function):
    """The spacing penalty in one kernel."""

    @staticmethod
    def forward(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
        return _path(_penalty)(logits, n_knots, min_spacing, epsilon)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        logits, n_knots, *ctx.constants = inputs
        ctx.save_for_backward(logits, n_knots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _path(_penalty_backward)(grad, *ctx.saved_tensors, *ctx.constants), None, None, None
