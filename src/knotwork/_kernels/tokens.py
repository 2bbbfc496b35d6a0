"""Tokens of a row for an FT-Transformer: the CLS token, encoded features, categories."""

import torch
from torch import Tensor

from knotwork._kernels.dispatch import Operation

__all__ = ["make_tokens", "tokens_formula"]

MOST_VALUES = 64
"""Longest block of a feature for which a GPU program holds the weights."""


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
    """Return the CLS token, blocks of features times their weights plus a bias, and categories plus a bias.

    Shapes are (M, B, F, m) for blocks, (M, F, m, d) for weights, (M, B, C, d) for categories, (M, F + C, d) for the
    bias, (M, d) for CLS, and (M, B, 1 + F + C, d) for the result. Blocks, categories and result have the type of the
    weights. On a GPU, for blocks of up to 64 values, one Triton kernel forward writes each token once; backward has one
    for the weights and biases, and one for the blocks if they need a gradient. Otherwise plain torch.
    """
    run = _TOKENS if blocks.shape[3] <= MOST_VALUES and (blocks.numel() or categories.numel()) else tokens_formula
    return run(blocks, weight, categories, bias, cls)
