"""The multilayer perceptron."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, final

from torch import Tensor, nn

from knotwork._checks import check_int
from knotwork._kernels.dropout import Noise, bias_act_dropout
from knotwork._kernels.fixed_order import add_bias
from knotwork.nn._graph import OnnxGraph
from knotwork.nn._linear import Linear, check_dropout, flat_rows, initialise, member_seeds

__all__ = ["MLP"]


@final
class MLP(nn.Module):
    """A multilayer perceptron: Linear, ReLU and Dropout for every hidden layer, then Linear.

    Parameters
    ----------
    d_in, d_out : int
        Numbers of inputs and outputs.
    widths : sequence of int, default=(256, 128, 64)
        Widths of the hidden layers.
    dropout : float, default=0.3
        Probability that dropout sets a value to zero.
    n_members : int, optional
        Number of networks that are computed together, each with its own weights; input and output then have a leading
        axis of members.
    blocks : tuple of int, default=(0, 0)
        Numbers of features and of columns per feature, if the first inputs are blocks of columns: the initial weights
        of a block then do not depend on its padding.

    Examples
    --------
    >>> import torch
    >>> MLP(8, 1)(torch.rand(32, 8)).shape
    torch.Size([32, 1])
    >>> MLP(8, 1, n_members=5)(torch.rand(5, 32, 8)).shape
    torch.Size([5, 32, 1])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        widths: Sequence[int] = (256, 128, 64),
        dropout: float = 0.3,
        n_members: int | None = None,
        blocks: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.dropout = check_dropout(dropout, "dropout")
        ends = [check_int(d_in, "d_in", minimum=1), *(check_int(width, "widths", minimum=1) for width in widths)]
        ends.append(check_int(d_out, "d_out", minimum=1))
        members = n_members or 1
        self.first = Linear(members, ends[0], ends[1], blocks=blocks)
        self.layers = nn.ModuleList(Linear(members, *pair) for pair in pairwise(ends[1:]))
        initialise(self, member_seeds(members))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., d_in) to outputs of shape (..., d_out), with a leading member axis if any."""
        rows = flat_rows(x, self.n_members)
        return self.rest(self.enter(rows)).reshape(*x.shape[:-1], -1)

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to the input of `rest`: the first layer, without its bias."""
        return self.first.product(rows)

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to outputs.

        Parameters
        ----------
        hidden : Tensor of shape (n_members, batch, width)
            Result of `enter`.
        counts : Tensor of shape (n_members,), optional
            Not used: rows do not affect each other.
        noise : Noise, optional
            Random numbers of dropout; by default torch's generator.
        """
        del counts
        p = self.dropout if self.training else 0.0
        bias: Any = self.first.bias
        layers: Iterable[Any] = self.layers
        for stream, layer in enumerate(layers):
            hidden, bias = layer.product(bias_act_dropout(hidden, bias, p, noise, stream)), layer.bias
        return add_bias(hidden, bias)

    def to_onnx(self, graph: OnnxGraph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        hidden = graph.linear(rows, self.first, member)
        layers: Iterable[Any] = self.layers
        for layer in layers:
            hidden = graph.linear(graph("Relu", hidden), layer, member)
        return hidden
