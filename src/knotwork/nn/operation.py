"""The encoding as an operation of torch: one name, a path for each device, and a gradient in closed form.

Backward keeps the values and the knots, and nothing else: the scheme is run again.
"""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from knotwork.nn.reference import encode_plain
from knotwork.nn.spacings import breaks_from_widths, spacing_penalty, widths_from_logits

__all__ = ["encode", "make_breaks", "make_penalty"]


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
        return torch.ops.knotwork.encode(x, breaks, n_knots, kind, degree, size, dtype)  # type: ignore[no-any-return]
    return encode_plain(x.to(breaks.dtype), breaks, n_knots, kind=kind, degree=degree, size=size).to(dtype)


def make_breaks(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the breaks of logits of shape (G, F, K + 1): `widths_from_logits`, then `breaks_from_widths`."""
    if _on_triton(logits):
        return torch.ops.knotwork.breaks(logits, n_knots, min_spacing)  # type: ignore[no-any-return]
    return breaks_from_widths(widths_from_logits(logits, n_knots, min_spacing), n_knots)


def make_penalty(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    """Return the penalties, of shape (G,), of logits of shape (G, F, K + 1)."""
    if _on_triton(logits):
        return torch.ops.knotwork.penalty(logits, n_knots, min_spacing, epsilon)  # type: ignore[no-any-return]
    return spacing_penalty(widths_from_logits(logits, n_knots, min_spacing), n_knots, epsilon)


def _on_triton(tensor: Tensor) -> bool:
    return tensor.device.type == "cuda" and tensor.dtype == torch.float32 and find_spec("triton") is not None


@torch.library.custom_op("knotwork::encode", mutates_args=())
def _encode(
    x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype
) -> Tensor:
    from knotwork.nn import triton_kernels  # noqa: PLC0415 - only where there is a GPU

    return triton_kernels.forward(x, breaks, n_knots, kind=kind, degree=degree, size=size, dtype=dtype)


@_encode.register_kernel("cpu")
def _encode_cpu(
    x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype
) -> Tensor:
    from knotwork.nn import cpu  # noqa: PLC0415 - importing the compiler takes half a second

    encoded = cpu.forward(x.to(breaks.dtype), breaks, n_knots, kind=kind, degree=degree, size=size)
    return encoded.to(dtype)


@_encode.register_fake
def _(x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype) -> Tensor:
    return x.new_empty(*x.shape, size, dtype=dtype)


@torch.library.custom_op("knotwork::encode_backward", mutates_args=())
def _encode_backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    from knotwork.nn import triton_kernels  # noqa: PLC0415

    return triton_kernels.backward(grad, x, breaks, n_knots, kind=kind, degree=degree, with_x=with_x)


@_encode_backward.register_kernel("cpu")
def _encode_backward_cpu(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    from knotwork.nn import cpu  # noqa: PLC0415

    type_ = breaks.dtype
    x_grad, breaks_grad = cpu.backward(grad.to(type_), x.to(type_), breaks, n_knots, kind=kind, degree=degree)
    return (x_grad.to(x.dtype) if with_x else x.new_zeros(())), breaks_grad


@_encode_backward.register_fake
def _(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    return (torch.empty_like(x) if with_x else x.new_empty(())), torch.empty_like(breaks)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    x, breaks, n_knots, ctx.kind, ctx.degree, _, _ = inputs
    ctx.save_for_backward(x, breaks, n_knots)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, breaks, n_knots = ctx.saved_tensors
    with_x, with_breaks = ctx.needs_input_grad[:2]
    x_grad, breaks_grad = torch.ops.knotwork.encode_backward(grad, x, breaks, n_knots, ctx.kind, ctx.degree, with_x)
    return (x_grad if with_x else None), (breaks_grad if with_breaks else None), None, None, None, None, None


_encode.register_autograd(_differentiate, setup_context=_save)


@torch.library.custom_op("knotwork::breaks", mutates_args=())
def _breaks(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.breaks_forward(logits, n_knots, min_spacing)


@_breaks.register_fake
def _(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    return logits.new_empty(*logits.shape[:-1], logits.shape[-1] + 1, dtype=torch.float32)


@torch.library.custom_op("knotwork::breaks_backward", mutates_args=())
def _breaks_backward(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.breaks_backward(grad, logits, n_knots, min_spacing)


@_breaks_backward.register_fake
def _(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    return torch.empty_like(logits)


@torch.library.custom_op("knotwork::penalty", mutates_args=())
def _penalty(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.penalty_forward(logits, n_knots, min_spacing, epsilon)


@_penalty.register_fake
def _(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.float32)


@torch.library.custom_op("knotwork::penalty_backward", mutates_args=())
def _penalty_backward(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    from knotwork.nn import triton_spacings  # noqa: PLC0415

    return triton_spacings.penalty_backward(grad, logits, n_knots, min_spacing, epsilon)


@_penalty_backward.register_fake
def _(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    return torch.empty_like(logits)


def _save_spacings(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    logits, n_knots, *ctx.constants = inputs
    ctx.save_for_backward(logits, n_knots)


def _differentiate_breaks(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return torch.ops.knotwork.breaks_backward(grad, *ctx.saved_tensors, *ctx.constants), None, None


def _differentiate_penalty(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return torch.ops.knotwork.penalty_backward(grad, *ctx.saved_tensors, *ctx.constants), None, None, None


_breaks.register_autograd(_differentiate_breaks, setup_context=_save_spacings)
_penalty.register_autograd(_differentiate_penalty, setup_context=_save_spacings)
