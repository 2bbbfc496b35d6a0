"""TabM: many predictions of one multilayer perceptron, which share its weights."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from knotwork._checks import check_int
from knotwork._kernels.dropout import Noise, bias_act_dropout
from knotwork.nn._graph import OnnxGraph, as_numpy
from knotwork.nn._linear import Draw, Initial, Linear, check_dropout, flat_rows, initialise, member_seeds, normal

__all__ = ["TabM", "mean_prediction"]


@final
class Adapters(Initial):
    """Factors of the inputs, different for every prediction.

    They start as normal random numbers of variance one. All columns of an encoded feature have the same, so that each
    prediction starts with its own weights of the features, and the padding of blocks changes nothing.
    """

    def __init__(self, n_members: int, n_predictions: int, d_in: int, *, blocks: tuple[int, int]) -> None:
        super().__init__()
        self.blocks = blocks
        self.values = nn.Parameter(torch.empty(n_members, n_predictions, d_in))

    def start(self, draw: Draw) -> None:
        """Draw the factors."""
        n_members, n_predictions, d_in = self.values.shape
        n_features, size = self.blocks
        n_rest = d_in - n_features * size
        values = normal(draw, n_predictions * (n_features + n_rest)).view(n_members, n_predictions, -1)
        of_blocks = values[..., :n_features].repeat_interleave(size, dim=-1)
        self.values.copy_(torch.cat([of_blocks, values[..., n_features:]], dim=-1))

    def forward(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to (n_members, n_predictions, batch, d_in)."""
        return rows[:, None] * self.values[:, :, None].to(rows.dtype)


@final
class Heads(Initial):
    """A linear layer for every member and prediction; initial values as in `Linear`."""

    def __init__(self, n_members: int, n_predictions: int, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_members, n_predictions, d_in, d_out))
        self.bias = nn.Parameter(torch.empty(n_members, n_predictions, d_out))

    def start(self, draw: Draw) -> None:
        """Draw bias and weight."""
        bound = self.weight.shape[2] ** -0.5
        for parameter in (self.bias, self.weight):
            parameter.copy_(bound * draw(math.prod(parameter.shape[1:])).view_as(parameter))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n_members, n_predictions, batch, d_in) to (n_members, n_predictions, batch, d_out)."""
        bias = self.bias.to(self.weight.dtype).flatten(0, 1)[:, None]
        out = torch.baddbmm(bias, x.flatten(0, 1).to(self.weight.dtype), self.weight.flatten(0, 1))
        return out.view(*x.shape[:-1], -1)


def mean_prediction(outputs: Tensor, dim: int, *, logits: bool) -> Tensor:
    """Return the mean of predictions along an axis: of the outputs themselves, or of the probabilities of logits.

    The mean of probabilities is returned as logits again: their logarithms.
    """
    outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    if not logits:
        return outputs.mean(dim)
    return outputs.log_softmax(-1).logsumexp(dim) - math.log(outputs.shape[dim])


@final
class TabM(nn.Module):
    """A multilayer perceptron with many predictions (Gorishniy and others, 2024, in the variant called TabM-mini).

    Every prediction has its own factors of the inputs and its own last layer; the layers in between are shared. Each is
    trained by its own loss, and their mean predicts: an ensemble for the weights of little more than one network, which
    regularise each other.

    Parameters
    ----------
    d_in, d_out : int
        Numbers of inputs and outputs.
    widths : sequence of int, default=(512, 512, 512)
        Widths of the hidden layers.
    n_predictions : int, default=32
        Number of predictions.
    dropout : float, default=0.1
        Probability that dropout sets a value to zero.
    n_members : int, optional
        Number of networks that are computed together, as in `MLP`.
    blocks : tuple of int, default=(0, 0)
        Numbers of features and of columns per feature, as in `MLP`.

    Examples
    --------
    >>> network = TabM(8, 1, widths=(64, 64), n_predictions=16)
    >>> network(torch.rand(32, 8)).shape  # in training: all predictions, each for its own loss
    torch.Size([32, 16, 1])
    >>> network.eval()(torch.rand(32, 8)).shape  # their mean
    torch.Size([32, 1])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        widths: Sequence[int] = (512, 512, 512),
        n_predictions: int = 32,
        dropout: float = 0.1,
        n_members: int | None = None,
        blocks: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.n_predictions = check_int(n_predictions, "n_predictions", minimum=1)
        self.dropout = check_dropout(dropout, "dropout")
        ends = [check_int(d_in, "d_in", minimum=1), *(check_int(width, "widths", minimum=1) for width in widths)]
        members = n_members or 1
        self.adapters = Adapters(members, n_predictions, d_in, blocks=blocks)
        self.first = Linear(members, *ends[:2], blocks=blocks)
        self.layers = nn.ModuleList(Linear(members, *pair) for pair in pairwise(ends[1:]))
        self.heads = Heads(members, n_predictions, ends[-1], check_int(d_out, "d_out", minimum=1))
        initialise(self, member_seeds(members))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., d_in) to outputs of shape (..., d_out), with a leading member axis if any.

        In training the outputs of all predictions are returned, of shape (..., n_predictions, d_out).
        """
        out = self.rest(self.enter(flat_rows(x, self.n_members)))
        if not self.training:
            return mean_prediction(out, 1, logits=out.shape[-1] > 1).reshape(*x.shape[:-1], -1)
        return out.transpose(1, 2).reshape(*x.shape[:-1], self.n_predictions, -1)

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to the input of `rest`, for every prediction."""
        return self.first.product(self.adapters(rows))

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to all predictions.

        Parameters
        ----------
        hidden : Tensor of shape (n_members, n_predictions, batch, width)
            Result of `enter`.
        counts : Tensor of shape (n_members,), optional
            Not used: rows do not affect each other.
        noise : Noise, optional
            Random numbers of dropout; by default torch's generator.

        Returns
        -------
        Tensor of shape (n_members, n_predictions, batch, d_out)
            Outputs of all predictions.
        """
        del counts
        noise = None if noise is None else _noise_of_predictions(noise, self.n_predictions)
        bias: Any = self.first.bias
        layers: Iterable[Any] = self.layers
        for stream, layer in enumerate(layers):
            hidden, bias = layer.product(self._activated(hidden, bias, noise, stream)), layer.bias
        outputs: Tensor = self.heads(self._activated(hidden, bias, noise, len(self.layers)))
        return outputs

    def _activated(self, hidden: Tensor, bias: Tensor, noise: Noise | None, stream: int) -> Tensor:
        """Add the bias, then ReLU and dropout, for every prediction as for a member."""
        p = self.dropout if self.training else 0.0
        biases = bias[:, None].expand(-1, self.n_predictions, -1).flatten(0, 1)
        return bias_act_dropout(hidden.flatten(0, 1), biases, p, noise, stream).view_as(hidden)

    def to_onnx(self, graph: OnnxGraph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph: the mean of all predictions, as `mean_prediction`."""
        adapters = as_numpy(self.adapters.values[member])[:, None]  # values have the shape (n_predictions, n, width)
        hidden = graph.linear(graph("Mul", graph("Unsqueeze", rows, graph.ints(0)), adapters), self.first, member)
        layers: Iterable[Any] = self.layers
        for layer in layers:
            hidden = graph.linear(graph("Relu", hidden), layer, member)
        product = graph("MatMul", graph("Relu", hidden), as_numpy(self.heads.weight[member]))
        outputs = graph("Add", product, as_numpy(self.heads.bias[member])[:, None])
        if not logits:
            return graph("ReduceMean", outputs, graph.ints(0), keepdims=0)
        total = graph("ReduceLogSumExp", graph("LogSoftmax", outputs, axis=-1), graph.ints(0), keepdims=0)
        return graph("Sub", total, np.float32(np.log(self.n_predictions)))


def _noise_of_predictions(noise: Noise, n_predictions: int) -> Noise:
    """Return a source of randomness for every member and prediction.

    Random numbers then do not depend on the length of a batch, which is that of the largest member of a stack.
    """
    places = torch.arange(n_predictions, device=noise.step.device)
    seeds = noise.seeds[:, None].expand(-1, n_predictions)
    return Noise(seeds.flatten(), (noise.step[:, None] * n_predictions + places).flatten())
