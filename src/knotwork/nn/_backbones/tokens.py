"""Tokens of a row: the CLS token, encoded features, categories."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from knotwork.nn._backbones.dropout import on_triton

__all__ = ["make_tokens"]


def make_tokens(blocks: Tensor, weight: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Return the CLS token, then features times their weights, then categories, each but the first with a bias.

    Parameters
    ----------
    blocks : Tensor of shape (M, B, F, m)
        Blocks of values of the features, of the type of the weights.
    weight : Tensor of shape (M, F, m, d)
        What the blocks are multiplied by.
    categories : Tensor of shape (M, B, C, d)
        Vectors of the categories, of the type of the weights.
    bias : Tensor of shape (M, F + C, d)
        What is added to the token of a feature.
    cls : Tensor of shape (M, d)
        The CLS token.

    Returns
    -------
    Tensor of shape (M, B, 1 + F + C, d)
        In the type of the weights.

    Notes
    -----
    On a GPU, for blocks of up to 64 values, one Triton kernel forward, which writes each token once; backward one for
    the weights, one for the blocks where they have a gradient, and a sum. Elsewhere plain torch.
    """
    if on_triton(weight) and _has_short_blocks(blocks) and (blocks.numel() or categories.numel()):
        tf32 = torch.get_float32_matmul_precision() != "highest"
        return _Tokens.apply(blocks, weight, categories, bias, cls, tf32)  # type: ignore[no-any-return, no-untyped-call]
    return _tokens_plain(blocks, weight, categories, bias, cls)


def _has_short_blocks(blocks: Tensor) -> bool:
    from knotwork.nn._backbones import triton_tokens  # noqa: PLC0415 - only where there is a GPU

    return blocks.shape[3] <= triton_tokens.MOST_VALUES


def _tokens_plain(blocks: Tensor, weight: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Compute the definition."""
    if blocks.shape[2]:
        products = torch.matmul(blocks.transpose(1, 2), weight).transpose(1, 2)
    else:
        products = weight.new_zeros(len(weight), blocks.shape[1], 0, weight.shape[-1])
    features = torch.cat([products, categories], dim=2) + bias.to(weight.dtype)[:, None]
    first = cls.to(weight.dtype)[:, None, None].expand(-1, features.shape[1], 1, -1)
    return torch.cat([first, features], dim=2)


class _Tokens(torch.autograd.Function):
    """The tokens on a GPU; blocks and weights are kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, blocks: Tensor, weight: Tensor, categories: Tensor, *rest: Any) -> Tensor:
        from knotwork.nn._backbones import triton_tokens  # noqa: PLC0415 - only where there is a GPU

        bias, cls, ctx.tf32 = rest
        blocks, weight = blocks.contiguous(), weight.contiguous()
        ctx.save_for_backward(blocks, weight)
        ctx.types = (categories.dtype, bias.dtype, cls.dtype)
        return triton_tokens.forward(blocks, weight, categories, bias, cls, tf32=ctx.tf32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from knotwork.nn._backbones import triton_tokens  # noqa: PLC0415

        blocks, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad[0]
        weight_grad, blocks_grad = triton_tokens.backward(grad, blocks, weight, tf32=ctx.tf32, blocks_too=needed)
        sums = grad.sum(1)
        categories_type, bias_type, cls_type = ctx.types
        categories_grad = grad[:, :, 1 + blocks.shape[2] :].to(categories_type)
        own = (sums[:, 1:].to(bias_type), sums[:, 0].to(cls_type))
        return blocks_grad if needed else None, weight_grad, categories_grad, *own, None
