"""Layer norm with weights of each member, for a stack of members at once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork.nn._backbones.dropout import on_triton

__all__ = ["add_layer_norm", "layer_norm"]

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
    columns, one Triton kernel forward and two backward; their arithmetic is in float32, and backward keeps nothing but
    x, two numbers per row and the weight. The gradients of weight and bias are added up within the member in a fixed
    order, so they repeat exactly and do not depend on the other members. Elsewhere plain torch.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])
    >>> layer_norm(x, torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.zeros(2, 2), epsilon=0.0)
    tensor([[[-1.,  1.]],
    <BLANKLINE>
            [[-2.,  2.]]])
    """
    _check(x, weight=weight, bias=bias)
    if _on_gpu(x):
        return _LayerNorm.apply(x, weight, bias, epsilon)  # type: ignore[no-any-return, no-untyped-call]
    return _layer_norm_plain(x, weight, bias, epsilon)


def add_layer_norm(
    x: Tensor,
    added: Tensor,
    shift: Tensor,
    *,
    weight: Tensor,
    bias: Tensor,
    epsilon: float = 1e-5,
    first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Add to each row, and return the sum and its layer norm.

    Parameters
    ----------
    x, added : Tensor of shape (M, ..., d)
        Values of M members, and what is added to them.
    shift : Tensor of shape (M, d)
        What is added to all rows of a member besides.
    weight, bias, epsilon
        As in `layer_norm`.
    first : bool, default=False
        Return of the sum only the first along the last axis but one: where no other is needed, no other has a gradient.

    Returns
    -------
    tuple of two Tensors of shape (M, ..., d)
        ``s = x + added + shift``, and ``layer_norm(s, weight, bias, epsilon)``, in the type of x. With `first`, the
        former is ``s[..., :1, :]``.

    Notes
    -----
    On a GPU, up to 1024 columns, one Triton kernel forward and two backward: the sum is written once, its two
    gradients meet in registers, and the gradient of the shift needs no pass of its own.

    Examples
    --------
    >>> import torch
    >>> x, one = torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 2)
    >>> s, y = add_layer_norm(x, x, torch.tensor([[0.0, 2.0]]), weight=one, bias=one, epsilon=0.0)
    >>> s, y
    (tensor([[[2., 6.]]]), tensor([[[0., 2.]]]))
    """
    _check(x, weight=weight, bias=bias, shift=shift)
    if added.shape != x.shape:
        raise argument_error("added", f"be of shape {tuple(x.shape)}", tuple(added.shape))
    if _on_gpu(x):
        return _AddLayerNorm.apply(x, added, shift, weight, bias, epsilon, first)  # type: ignore[no-any-return, no-untyped-call]
    total, y = _add_layer_norm_plain(x, added, shift, weight=weight, bias=bias, epsilon=epsilon)
    return total[..., :1, :] if first else total, y


def _check(x: Tensor, **tensors: Tensor) -> None:
    """Check that tensors have a row of numbers for every member."""
    members = (len(x), x.shape[-1])
    for name, tensor in tensors.items():
        if tensor.shape != members:
            raise argument_error(name, f"be of shape {members}", tuple(tensor.shape))


def _on_gpu(x: Tensor) -> bool:
    return on_triton(x) and x.shape[-1] <= MOST_COLUMNS and x.numel() > 0


def _layer_norm_plain(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Compute the definition."""
    shape = (len(x), *[1] * (x.ndim - 2), x.shape[-1])
    y = functional.layer_norm(x, x.shape[-1:], eps=epsilon)
    return (y * weight.view(shape) + bias.view(shape)).to(x.dtype)


def _add_layer_norm_plain(
    x: Tensor, added: Tensor, shift: Tensor, *, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Compute the definition."""
    total = (x + added + shift.view(len(x), *[1] * (x.ndim - 2), x.shape[-1])).to(x.dtype)
    return total, _layer_norm_plain(total, weight, bias, epsilon)


class _LayerNorm(torch.autograd.Function):
    """Layer norm on a GPU; of the forward pass, x and two numbers per row are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        from knotwork.nn._backbones import triton_layer_norm  # noqa: PLC0415 - only where there is a GPU

        _, y, moments = triton_layer_norm.forward(x, weight, bias, epsilon)
        ctx.save_for_backward(x, moments, weight)
        ctx.bias_type = bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from knotwork.nn._backbones import triton_layer_norm  # noqa: PLC0415

        x, moments, weight = ctx.saved_tensors
        x_grad, weight_grad, bias_grad = triton_layer_norm.backward(grad, x, moments, weight)
        return x_grad, weight_grad.to(weight.dtype), bias_grad.to(ctx.bias_type), None


class _AddLayerNorm(torch.autograd.Function):
    """Layer norm of a sum on a GPU; of the forward pass, the sum and two numbers per row are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, added: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        from knotwork.nn._backbones import triton_layer_norm  # noqa: PLC0415 - only where there is a GPU

        shift, weight, bias, epsilon, first = rest
        total, y, moments = triton_layer_norm.forward(x, weight, bias, epsilon, added=added, shift=shift)
        ctx.save_for_backward(total, moments, weight)
        ctx.set_materialize_grads(False)
        ctx.types = (shift.dtype, bias.dtype)
        return total[..., :1, :].clone() if first else total, y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, sum_grad: Tensor | None, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        from knotwork.nn._backbones import triton_layer_norm  # noqa: PLC0415

        total, moments, weight = ctx.saved_tensors
        grad = torch.zeros_like(total) if grad is None else grad
        x_grad, weight_grad, bias_grad, shift_grad = triton_layer_norm.backward(
            grad, total, moments, weight, of_sum=True, sum_grad=sum_grad
        )
        shift_type, bias_type = ctx.types
        own = (shift_grad.to(shift_type), weight_grad.to(weight.dtype), bias_grad.to(bias_type))
        return x_grad, x_grad, *own, None, None
