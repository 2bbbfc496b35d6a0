"""What follows a linear map in an MLP, in one pass: its bias, relu and dropout."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from knotwork.nn._backbones.dropout import check_rate, keep_mask, on_triton
from knotwork.nn._backbones.noise import Noise

__all__ = ["bias_relu_dropout"]


def bias_relu_dropout(x: Tensor, bias: Tensor, p: float, noise: Noise | None, stream: int = 0) -> Tensor:
    """Return ``dropout(relu(x + bias))``. Backward keeps the result and nothing else.

    Parameters
    ----------
    x : Tensor of shape (M, B, d)
        Rows of M members.
    bias : Tensor of shape (M, d)
        What is added to every row of a member; it may be of another float type than x.
    p, noise, stream
        Dropout, as in `knotwork.nn._backbones.dropout.dropout`: with the same numbers, it drops the same elements.

    Returns
    -------
    Tensor of shape (M, B, d)
        In the type of x; arithmetic is in float32, or in float64 for float64.

    Notes
    -----
    A bias that is added by the product before would be written to memory once and read twice, and its gradient would
    be a pass of its own. The paths: a Triton kernel each way on a GPU, compiled loops for float32 on the CPU, plain
    torch elsewhere and where nothing is dropped on a CPU. Values are the same, bit for bit; gradients of the bias are
    summed in different orders.
    """
    check_rate(p)
    if noise is None and p > 0.0:
        return functional.dropout(_plain(x, bias), p).to(x.dtype)
    if x.numel() and (on_triton(x) or (p > 0.0 and _compiled(x, bias))):
        drawn = None if p == 0.0 else noise
        return _BiasReluDropout.apply(x, bias, p, drawn, stream)  # type: ignore[no-any-return, no-untyped-call]
    y = _plain(x, bias)
    if noise is not None and p > 0.0 and x.numel():
        y = torch.where(keep_mask(x, p, noise, stream), y * (1.0 / (1.0 - p)), 0.0)
    return y.to(x.dtype)


def _plain(x: Tensor, bias: Tensor) -> Tensor:
    """Return ``relu(x + bias)``, in float32 or float64."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return functional.relu(x.to(dtype) + bias.to(dtype)[:, None])


def _compiled(x: Tensor, bias: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == bias.dtype == torch.float32


class _BiasReluDropout(torch.autograd.Function):
    """Where the result is positive, the sum was positive and kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, p: float, noise: Noise | None, stream: int) -> Tensor:
        if on_triton(x):
            from knotwork.nn._backbones import triton_bias_relu  # noqa: PLC0415 - only where there is a GPU

            y = triton_bias_relu.forward(x, bias, p, noise, stream)
        else:
            from knotwork.nn._backbones import cpu_bias_relu  # noqa: PLC0415 - importing the compiler takes time

            assert noise is not None
            y = cpu_bias_relu.forward(x, bias, p, noise, stream)
        ctx.p, ctx.bias_type = p, bias.dtype
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        if on_triton(y):
            from knotwork.nn._backbones import triton_bias_relu  # noqa: PLC0415

            x_grad, bias_grad = triton_bias_relu.backward(grad, y, ctx.p)
        else:
            from knotwork.nn._backbones import cpu_bias_relu  # noqa: PLC0415

            x_grad, bias_grad = cpu_bias_relu.backward(grad, y, ctx.p)
        return x_grad, bias_grad.to(ctx.bias_type), None, None, None
