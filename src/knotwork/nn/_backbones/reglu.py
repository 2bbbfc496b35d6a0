"""The gated unit of FT-Transformers with its dropout, for a stack of members at once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork.nn._backbones.dropout import check_rate, dropout, on_triton
from knotwork.nn._backbones.noise import Noise

__all__ = ["reglu_dropout"]


def reglu_dropout(
    x: Tensor, p: float = 0.0, noise: Noise | None = None, stream: int = 0, *, bias: Tensor | None = None
) -> Tensor:
    """Multiply the first half of the last axis by the positive part of the second half, then drop out.

    NaN stays NaN. The gradient of the positive part at 0 is 0.

    Parameters
    ----------
    x : Tensor of shape (M, ..., 2 * h)
        Values of M members.
    p : float, default=0.0
        Share of the results that become zero, in [0, 1).
    noise : Noise, optional
        Seeds and steps of the members. Without it, dropout uses torch's generator.
    stream : int, default=0
        Stream of the noise: a number that no other operation of the network uses.
    bias : Tensor of shape (M, 2 * h), optional
        What is added to all rows of a member first.

    Returns
    -------
    Tensor of shape (M, ..., h)
        In the type of x.

    Notes
    -----
    For x + bias = [a, b], y = m * a * max(b, 0), where m is 1 / (1 - p) where the bits of an element, counted within
    its member over (..., h), reach 2**32 p, and 0 elsewhere. On a GPU, one Triton kernel forward and one backward,
    which keep nothing but x and a key per member; elsewhere plain torch.

    Examples
    --------
    >>> import torch
    >>> reglu_dropout(torch.tensor([[3.0, 4.0, -1.0, 2.0]]))
    tensor([[0., 8.]])
    """
    check_rate(p)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise argument_error("x", "be of shape (M, ..., 2 * h)", tuple(x.shape))
    if bias is not None and bias.shape != (len(x), x.shape[-1]):
        raise argument_error("bias", f"be of shape {(len(x), x.shape[-1])}", tuple(bias.shape))
    if not on_triton(x) or not x.numel():
        return dropout(_reglu_plain(x, bias), p, noise, stream)
    if p == 0.0 or noise is None:
        y = _Reglu.apply(x, bias, None, 0.0)  # type: ignore[no-untyped-call]
        return functional.dropout(y, p) if p else y
    from knotwork.nn._backbones import triton_keys  # noqa: PLC0415 - only where there is a GPU

    keys = triton_keys.member_keys(noise, stream)
    return _Reglu.apply(x, bias, keys, p)  # type: ignore[no-any-return, no-untyped-call]


def _reglu_plain(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute the definition, before dropout."""
    if bias is not None:
        x = x + bias.to(x.dtype).view(len(x), *[1] * (x.ndim - 2), x.shape[-1])
    a, b = x.chunk(2, dim=-1)
    return a * functional.relu(b)


class _Reglu(torch.autograd.Function):
    """The unit on a GPU; the bits are drawn again for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, keys: Tensor | None, p: float) -> Tensor:
        from knotwork.nn._backbones import triton_reglu  # noqa: PLC0415

        ctx.save_for_backward(x, bias, keys)
        ctx.p = p
        return triton_reglu.forward(x, bias, keys, p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from knotwork.nn._backbones import triton_reglu  # noqa: PLC0415

        x, bias, keys = ctx.saved_tensors
        x_grad, bias_grad = triton_reglu.backward(grad, x, bias, keys, ctx.p)
        return x_grad, None if bias is None or bias_grad is None else bias_grad.to(bias.dtype), None, None
