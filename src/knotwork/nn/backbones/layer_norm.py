"""Layer norm with weights of each member, for a stack of members at once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from knotwork.checks import argument_error
from knotwork.nn.backbones.dropout import on_triton

__all__ = ["layer_norm"]

MOST_COLUMNS = 1024
"""Width up to which a program of a GPU holds whole rows."""


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Bring each row of the last axis to mean 0 and variance 1, then scale and shift it by its member's weights.

    Parameters
    ----------
    x : Tensor of shape (M, ..., d)
        Values of M members.
    weight, bias : Tensor of shape (M, d)
        Scale and shift of each member.
    epsilon : float, default=1e-5
        Added to the variance; a constant row becomes the bias.

    Returns
    -------
    Tensor of shape (M, ..., d)
        In the type of x.

    Notes
    -----
    y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the variance divided by d. On a GPU, up to 1024
    columns, one Triton kernel forward and two backward; their arithmetic is in float32, and backward keeps nothing
    but x and the weight. The gradients of weight and bias are added up within the member in a fixed order, so they
    repeat exactly and do not depend on the other members. Elsewhere plain torch.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])
    >>> layer_norm(x, torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.zeros(2, 2), epsilon=0.0)
    tensor([[[-1.,  1.]],
    <BLANKLINE>
            [[-2.,  2.]]])
    """
    members = (len(x), x.shape[-1])
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor.shape != members:
            raise argument_error(name, f"be of shape {members}", tuple(tensor.shape))
    if on_triton(x) and x.shape[-1] <= MOST_COLUMNS and x.numel():
        return _LayerNorm.apply(x, weight, bias, epsilon)  # type: ignore[no-any-return, no-untyped-call]
    return _layer_norm_plain(x, weight, bias, epsilon)


def _layer_norm_plain(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Compute the definition."""
    shape = (len(x), *[1] * (x.ndim - 2), x.shape[-1])
    y = functional.layer_norm(x, x.shape[-1:], eps=epsilon)
    return (y * weight.view(shape) + bias.view(shape)).to(x.dtype)


class _LayerNorm(torch.autograd.Function):
    """Layer norm on a GPU; means and variances are computed again for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        from knotwork.nn.backbones import triton_layer_norm  # noqa: PLC0415 - only where there is a GPU

        ctx.save_for_backward(x, weight)
        ctx.epsilon = epsilon
        return triton_layer_norm.forward(x, weight, bias, epsilon)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from knotwork.nn.backbones import triton_layer_norm  # noqa: PLC0415

        x, weight = ctx.saved_tensors
        return *triton_layer_norm.backward(grad, x, weight, ctx.epsilon), None
