"""Encoding and linear map as one operation of torch, which never writes the encoding.

Backward keeps values, knots and weights, and nothing else: the scheme is run again.
"""

from typing import Any

import torch
from torch import Tensor

from knotwork._kernels.operation import encode, on_triton

__all__ = ["encode_linear"]


def encode_linear(
    x: Tensor,
    breaks: Tensor,
    n_knots: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kind: int,
    degree: int,
    size: int,
) -> Tensor:
    """Encode values between 0 and 1 and map the result linearly, reading only the weights that count.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values; those outside [0, 1] are moved to the nearer end, NaN adds nothing.
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones; float32 or float64.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature of each group, int32.
    weight : Tensor of shape (G, F * size, d_out)
        A row for every function of every feature. Its type is that of the result; on the CPU, arithmetic is in the
        type of `breaks`.
    bias : Tensor of shape (G, d_out), optional
        What is added.
    kind, degree : int
        As in `Layout`: kind of the rows, degree of the triangular scheme.
    size : int
        Length of a row of the encoding.

    Returns
    -------
    Tensor of shape (G, B, d_out)
        Differentiable with respect to x, breaks, weight and bias.

    Notes
    -----
    With i the interval that x lies in, the functions that differ from zero are those from i to i + degree, so

        y[b] = bias + sum_f sum_r v_r(x_bf) W[f, i + r].

    I-splines and ramps before i are one, which adds the sum of W[f, k] over k < i. Rows that are normalised to mean 0
    and variance 1 have -mean / spread in every column, which adds the sum of all W[f, k], times that. The paths are
    those of `encode`; where there is none, the encoding is written and multiplied.
    """
    settings: dict[str, Any] = {"kind": kind, "degree": degree, "size": size}
    if x.device.type == "cpu" or on_triton(breaks):
        return _EncodeLinear.apply(x, breaks, n_knots, weight, bias, *settings.values())  # type: ignore[no-any-return]
    encoded = encode(x, breaks, n_knots, **settings, dtype=weight.dtype).flatten(-2)
    return torch.bmm(encoded, weight) if bias is None else torch.baddbmm(bias[:, None], encoded, weight)


def _forward(
    x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, bias: Tensor | None, kind: int, degree: int, size: int
) -> Tensor:
    settings: dict[str, Any] = {"kind": kind, "degree": degree, "size": size}
    if x.device.type == "cpu":
        from knotwork._kernels import cpu_fused  # noqa: PLC0415 - importing the compiler takes half a second

        type_ = breaks.dtype
        own_bias = None if bias is None else bias.to(type_)
        out = cpu_fused.forward(x.to(type_), breaks, n_knots, weight.to(type_), own_bias, **settings)
        return out.to(weight.dtype)
    from knotwork._kernels import triton_fused  # noqa: PLC0415 - only where there is a GPU

    return triton_fused.forward(x, breaks, n_knots, weight, bias, **settings)


def _backward(
    grad: Tensor,
    x: Tensor,
    breaks: Tensor,
    n_knots: Tensor,
    weight: Tensor,
    kind: int,
    degree: int,
    size: int,
    with_x: bool,
    with_breaks: bool,
    with_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    settings: dict[str, Any] = {"kind": kind, "degree": degree, "size": size, "with_weight": with_weight}
    if x.device.type == "cpu":
        from knotwork._kernels import cpu_fused  # noqa: PLC0415

        type_ = breaks.dtype
        x_grad, breaks_grad, weight_grad = cpu_fused.backward(
            grad.to(type_),
            x.to(type_),
            breaks,
            n_knots,
            weight.to(type_),
            with_breaks=with_x or with_breaks,
            **settings,
        )
        return x_grad.to(x.dtype), breaks_grad, weight_grad.to(weight.dtype)
    from knotwork._kernels import triton_fused  # noqa: PLC0415

    return triton_fused.backward(grad, x, breaks, n_knots, weight, with_x=with_x, with_breaks=with_breaks, **settings)


# torch.compile cannot look into the paths: it gets each as one operation that it does not open.
_opaque_forward: Any = torch.library.custom_op("knotwork::encode_linear", _forward, mutates_args=())
_opaque_backward: Any = torch.library.custom_op("knotwork::encode_linear_backward", _backward, mutates_args=())


@_opaque_forward.register_fake
def _(
    x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, bias: Tensor | None, kind: int, degree: int, size: int
) -> Tensor:
    return weight.new_empty(*x.shape[:2], weight.shape[-1])


@_opaque_backward.register_fake
def _(grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return torch.empty_like(x), torch.empty_like(breaks), torch.empty_like(weight)


class _EncodeLinear(torch.autograd.Function):
    """Encode and map, and run the scheme again for the gradient."""

    @staticmethod
    def forward(
        x: Tensor,
        breaks: Tensor,
        n_knots: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        kind: int,
        degree: int,
        size: int,
    ) -> Tensor:
        run: Any = _opaque_forward if torch.compiler.is_compiling() else _forward
        return run(x, breaks, n_knots, weight, bias, kind, degree, size)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        x, breaks, n_knots, weight, _, *ctx.settings = inputs
        ctx.save_for_backward(x, breaks, n_knots, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with_x, with_breaks, _, with_weight, with_bias = ctx.needs_input_grad[:5]
        gradients: tuple[Tensor | None, ...] = (None, None, None)
        if with_x or with_breaks or with_weight:
            run: Any = _opaque_backward if torch.compiler.is_compiling() else _backward
            gradients = run(grad, *ctx.saved_tensors, *ctx.settings, with_x, with_breaks, with_weight)
        x_grad, breaks_grad, weight_grad = gradients
        return (
            x_grad if with_x else None,
            breaks_grad if with_breaks else None,
            None,
            weight_grad if with_weight else None,
            grad.sum(dim=1) if with_bias else None,
            None,
            None,
            None,
        )
