"""The residual network for tables."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

from knotwork._checks import check_int
from knotwork._kernels.batch_norm import batch_norm, batch_norm_eval
from knotwork._kernels.dropout import Noise
from knotwork.nn._graph import EPSILON, OnnxGraph, as_numpy
from knotwork.nn._linear import Linear, check_dropout, flat_rows, initialise, member_seeds

__all__ = ["ResNet"]


@final
class BatchNorm(nn.Module):
    """Batch normalisation of every member over its rows."""

    def __init__(self, n_members: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_members, width))
        self.bias = nn.Parameter(torch.zeros(n_members, width))
        self.register_buffer("running_mean", torch.zeros(n_members, width))
        self.register_buffer("running_var", torch.ones(n_members, width))
        self.running_mean: Tensor
        self.running_var: Tensor

    def forward(
        self, x: Tensor, counts: Tensor | None, *, relu: bool = False, residual: Tensor | None = None, **dropout: Any
    ) -> Tensor:
        """Normalise, then apply relu and dropout (p, noise, stream), or add the residual."""
        tensors = (x, self.weight, self.bias, self.running_mean, self.running_var)
        if not self.training:
            return batch_norm_eval(*tensors, relu=relu, residual=residual)
        return batch_norm(*tensors, counts, relu=relu, residual=residual, **dropout)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add the normalisation of a member by its running statistics."""
        scale = self.weight[member] * (self.running_var[member] + EPSILON).rsqrt()
        shift = self.bias[member] - self.running_mean[member] * scale
        return graph("Add", graph("Mul", rows, as_numpy(scale)), as_numpy(shift))


@final
class ResidualBlock(nn.Module):
    """Linear, BatchNorm, ReLU, Dropout, Linear, BatchNorm, added to the input."""

    def __init__(self, n_members: int, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.up_norm = Linear(n_members, width, hidden, bias=False), BatchNorm(n_members, hidden)
        self.down, self.down_norm = Linear(n_members, hidden, width, bias=False), BatchNorm(n_members, width)

    def forward(self, x: Tensor, counts: Tensor | None, p: float, noise: Noise | None, stream: int) -> Tensor:
        """Return the block's output, of the shape of x."""
        hidden = self.up_norm(self.up(x), counts, relu=True, p=p, noise=noise, stream=stream)
        out: Tensor = self.down_norm(self.down(hidden), counts, residual=x)
        return out


@final
class ResNet(nn.Module):
    """A residual network: Linear, blocks of Linear-BatchNorm-ReLU-Dropout-Linear-BatchNorm and skip, then Linear.

    Parameters
    ----------
    d_in, d_out : int
        Numbers of inputs and outputs.
    width : int, default=256
        Width of the input and output of a block.
    n_blocks : int, default=3
        Number of blocks.
    hidden : int, default=512
        Width inside a block.
    dropout : float, default=0.3
        Probability that dropout sets a value to zero.
    n_members : int, optional
        Number of networks that are computed together, as in `MLP`.
    blocks : tuple of int, default=(0, 0)
        Numbers of features and of columns per feature, as in `MLP`.

    Notes
    -----
    Deviation: a Linear before BatchNorm has no bias. BatchNorm would subtract it again, and its gradient would consist
    of rounding errors, which Adam turns into full steps; these would shift predictions through the running mean.

    Examples
    --------
    >>> ResNet(8, 1).eval()(torch.rand(32, 8)).shape
    torch.Size([32, 1])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        width: int = 256,
        n_blocks: int = 3,
        hidden: int = 512,
        dropout: float = 0.3,
        n_members: int | None = None,
        blocks: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.dropout = check_dropout(dropout, "dropout")
        members = n_members or 1
        check_int(width, "width", minimum=1)
        check_int(hidden, "hidden", minimum=1)
        self.first = Linear(members, check_int(d_in, "d_in", minimum=1), width, blocks=blocks)
        n_blocks = check_int(n_blocks, "n_blocks", minimum=1)
        self.blocks = nn.ModuleList(ResidualBlock(members, width, hidden) for _ in range(n_blocks))
        self.head = Linear(members, width, check_int(d_out, "d_out", minimum=1))
        initialise(self, member_seeds(members))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., d_in) to outputs of shape (..., d_out), with a leading member axis if any."""
        rows = flat_rows(x, self.n_members)
        return self.rest(self.enter(rows)).reshape(*x.shape[:-1], -1)

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to the input of `rest`: the first layer."""
        out: Tensor = self.first(rows)
        return out

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to outputs.

        Parameters
        ----------
        hidden : Tensor of shape (n_members, batch, width)
            Result of `enter`.
        counts : Tensor of shape (n_members,), optional
            Number of rows of each member; the rows after them are padding. By default there is none.
        noise : Noise, optional
            Random numbers of dropout; by default torch's generator.
        """
        for stream, block in enumerate(self.blocks):
            hidden = block(hidden, counts, self.dropout if self.training else 0.0, noise, stream)
        out: Tensor = self.head(hidden)
        return out

    def to_onnx(self, graph: OnnxGraph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        hidden = graph.linear(rows, self.first, member)
        blocks: Iterable[Any] = self.blocks
        for block in blocks:
            up = block.up_norm.to_onnx(graph, graph.linear(hidden, block.up, member), member)
            down = graph.linear(graph("Relu", up), block.down, member)
            hidden = graph("Add", hidden, block.down_norm.to_onnx(graph, down, member))
        return graph.linear(hidden, self.head, member)
