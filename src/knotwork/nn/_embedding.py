"""A learned map of each feature's columns, after an encoding."""

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_bool, check_int
from knotwork._kernels.fixed_order import product
from knotwork.nn._linear import Draw, Initial, draw_columns, flat_rows, initialise, member_seeds

__all__ = ["FeatureEmbedding"]


@final
class FeatureEmbedding(Initial):
    """A separate linear map for each feature, from its block of columns to a few numbers.

    Parameters
    ----------
    n_features : int
        Number of features.
    size : int
        Columns of each block; shorter blocks are padded with zeros.
    width : int, default=8
        Outputs of each feature.
    relu : bool, default=False
        Whether a ReLU follows.
    n_members : int, optional
        Number of embeddings that are computed together, each with its own weights; input and output then have a leading
        axis of members.

    Notes
    -----
    The output of feature f is ``x_f W_f + b_f``, or its positive part. Weights and biases start uniformly within
    1 / sqrt(size). With `relu` and a periodic encoding in front this is PLR, without `relu` and with a piecewise-linear
    encoding it is PLE-L of Gorishniy et al. (2022).

    Examples
    --------
    >>> from knotwork.nn import PiecewiseLinearEncoding
    >>> layers = nn.Sequential(PiecewiseLinearEncoding(3, size=30), FeatureEmbedding(3, size=30, width=8))
    >>> layers(torch.rand(5, 3)).shape
    torch.Size([5, 3, 8])
    """

    fan_in: Tensor

    def __init__(
        self, n_features: int, size: int, *, width: int = 8, relu: bool = False, n_members: int | None = None
    ) -> None:
        super().__init__()
        shape = check_int(n_features, "n_features", 0), check_int(size, "size", 1), check_int(width, "width", 1)
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.relu = check_bool(relu, "relu")
        members = n_members or 1
        self.weight = nn.Parameter(torch.empty(members, *shape))
        self.bias = nn.Parameter(torch.empty(members, shape[0], shape[2]))
        self.register_buffer("fan_in", torch.full((members, shape[0]), float(size)), persistent=False)
        initialise(self, member_seeds(members))

    def set_fan_in(self, sizes: Sequence[Sequence[int]]) -> None:
        """Set the size of each member's blocks without their padding, which the initial weights depend on."""
        self.fan_in.copy_(torch.tensor(sizes, dtype=torch.float32).reshape(self.fan_in.shape))

    def start(self, draw: Draw) -> None:
        """Draw bias and weights, in the order of columns within blocks: they do not depend on padding."""
        bound = self.fan_in.clamp(min=1.0).rsqrt()[..., None]
        self.bias.copy_(bound * draw(math.prod(self.bias.shape[1:])).view_as(self.bias))
        self.weight.copy_(bound[..., None] * draw_columns(draw, self.weight.shape))

    def forward(self, blocks: Tensor) -> Tensor:
        """Map blocks of shape (..., n_features, size) to (..., n_features, width)."""
        n_features, size, width = self.weight.shape[1:]
        if blocks.dim() < 2 or blocks.shape[-2:] != (n_features, size):
            raise argument_error("blocks", f"have the shape (..., {n_features}, {size})", tuple(blocks.shape))
        rows = flat_rows(blocks, self.n_members, n_last=2)
        return self.forward_stack(rows).reshape(*blocks.shape[:-1], width)

    def forward_stack(self, blocks: Tensor) -> Tensor:
        """Map blocks of shape (n_members, batch, n_features, size) to (n_members, batch, n_features, width)."""
        weight = self.weight.flatten(0, 1)
        by_feature = blocks.to(weight.dtype).transpose(1, 2).reshape(len(weight), -1, weight.shape[1])
        out = product(by_feature, weight, self.bias.to(weight.dtype).flatten(0, 1))
        out = out.view(len(blocks), -1, blocks.shape[1], weight.shape[-1]).transpose(1, 2)
        return torch.relu(out) if self.relu else out
