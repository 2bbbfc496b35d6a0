"""Tokens of a row: the CLS token, encoded features, categories."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from knotwork.nn.backbones.dropout import on_triton

__all__ = ["join_tokens"]


def join_tokens(products: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Return the CLS token, then products, then categories, each but the first with a bias.

    Parameters
    ----------
    products : Tensor of shape (M, F, B, d)
        Encoded features times their weights, as a batch of matrix products leaves them: rows last but one.
    categories : Tensor of shape (M, B, C, d)
        Vectors of the categories, of the type of the products.
    bias : Tensor of shape (M, F + C, d)
        What is added to the token of a feature.
    cls : Tensor of shape (M, d)
        The CLS token.

    Returns
    -------
    Tensor of shape (M, B, 1 + F + C, d)
        In the type of the products.

    Notes
    -----
    On a GPU, one Triton kernel forward and one backward write each token once; elsewhere plain torch.
    """
    if on_triton(products) and (products.numel() or categories.numel()):
        return _JoinTokens.apply(products, categories, bias, cls)  # type: ignore[no-any-return, no-untyped-call]
    return _join_plain(products, categories, bias, cls)


def _join_plain(products: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Compute the definition."""
    features = torch.cat([products.transpose(1, 2), categories], dim=2) + bias.to(products.dtype)[:, None]
    first = cls.to(products.dtype)[:, None, None].expand(-1, features.shape[1], 1, -1)
    return torch.cat([first, features], dim=2)


class _JoinTokens(torch.autograd.Function):
    """The tokens on a GPU; nothing is kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, products: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
        from knotwork.nn.backbones import triton_tokens  # noqa: PLC0415 - only where there is a GPU

        ctx.n_products, ctx.types = products.shape[1], (bias.dtype, cls.dtype)
        return triton_tokens.join(products, categories, bias, cls)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        from knotwork.nn.backbones import triton_tokens  # noqa: PLC0415

        sums = grad.sum(1)
        bias_type, cls_type = ctx.types
        return *triton_tokens.divide(grad, ctx.n_products), sums[:, 1:].to(bias_type), sums[:, 0].to(cls_type)
