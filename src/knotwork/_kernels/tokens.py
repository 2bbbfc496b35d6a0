"""Tokens of a row: the CLS token, encoded features, categories."""

import torch
from torch import Tensor

from knotwork._kernels.dispatch import Operation

__all__ = ["make_tokens", "tokens_formula"]

MOST_VALUES = 64
"""Length of a feature's block up to which a program of a GPU holds its weights."""


def tokens_formula(blocks: Tensor, weight: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Compute `make_tokens` in plain torch."""
    if blocks.shape[2]:
        products = torch.matmul(blocks.transpose(1, 2), weight).transpose(1, 2)
    else:
        products = weight.new_zeros(len(weight), blocks.shape[1], 0, weight.shape[-1])
    features = torch.cat([products, categories], dim=2) + bias.to(weight.dtype)[:, None]
    first = cls.to(weight.dtype)[:, None, None].expand(-1, features.shape[1], 1, -1)
    return torch.cat([first, features], dim=2)


_TOKENS = Operation(tokens_formula, triton="tokens_triton.TOKENS", leading=4)  # blocks may be empty


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
    run = _TOKENS if blocks.shape[3] <= MOST_VALUES and (blocks.numel() or categories.numel()) else tokens_formula
    return run(blocks, weight, categories, bias, cls)
