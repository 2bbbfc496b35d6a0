"""A group penalty on what each feature adds to the first layer, by which superfluous features fade."""

import torch
from torch import Tensor

__all__ = ["column_moments", "gate_gradient", "gate_penalty", "gate_sizes"]

SMALLEST = 1e-6
"""Added to sizes in the gradient: at 0 there is none."""


def column_moments(blocks: Tensor) -> Tensor:
    """Return the covariances of each feature's columns, of shape (n_members, n_features, size, size).

    Parameters
    ----------
    blocks : Tensor of shape (n_members, n_rows, n_features, size)
        Encoded rows.
    """
    centred = (blocks - blocks.mean(dim=1, keepdim=True)).transpose(1, 2).flatten(0, 1)
    products = torch.bmm(centred.transpose(1, 2), centred) / blocks.shape[1]
    return products.view(len(blocks), blocks.shape[2], *products.shape[1:])


def gate_sizes(weights: Tensor, moments: Tensor) -> Tensor:
    """Return how much each feature varies behind the first layer: a standard deviation over rows and outputs.

    Parameters
    ----------
    weights : Tensor of shape (n_members, n_features, size, n_outputs)
        Weights of each column.
    moments : Tensor of shape (n_members, n_features, size, size)
        Result of `column_moments`.
    """
    return (weights * (moments @ weights)).sum(dim=-2).mean(dim=-1).clamp(min=0.0).sqrt()


def gate_penalty(weights: Tensor, moments: Tensor, strengths: Tensor) -> Tensor:
    """Return the penalty of every member: the sum of strengths, of shape (n_members, n_features), times sizes."""
    return (strengths * gate_sizes(weights, moments)).sum(dim=-1)


def gate_gradient(weights: Tensor, moments: Tensor, strengths: Tensor) -> Tensor:
    """Return the gradient of `gate_penalty` in the weights."""
    products = moments @ weights.float()
    sizes = (weights * products).sum(dim=-2).mean(dim=-1).clamp(min=0.0).sqrt()
    factors = strengths / (weights.shape[-1] * (sizes + SMALLEST))
    return (factors[..., None, None] * products).to(weights.dtype)
