"""RealMLP: a multilayer perceptron in the neural tangent parametrisation, with a learned scale of every input."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor, nn

from knotwork._checks import check_choice, check_int
from knotwork._kernels.dropout import ACTIVATIONS, Noise, bias_act_dropout
from knotwork.nn._graph import OnnxGraph, as_numpy
from knotwork.nn._linear import Draw, Initial, check_dropout, flat_rows, initialise, member_seeds, normal

__all__ = ["RealMLP"]

N_MEAN = 5
"""Rows whose mean becomes a bias."""

SMALLEST_SPREAD = 1e-3
"""Products that vary less over the rows keep their scale."""


@final
class NormalLinear(Initial):
    """A linear layer for every member with weights and biases that start as normal random numbers of variance 1.

    The product with the weight is divided by the square root of the fan-in, the number of inputs that are not always
    zero. `blocks` as in `Linear`.
    """

    fan_in: Tensor

    def __init__(self, n_members: int, d_in: int, d_out: int, *, blocks: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(torch.empty(n_members, d_in, d_out))
        self.bias = nn.Parameter(torch.empty(n_members, d_out))
        self.register_buffer("fan_in", torch.full((n_members,), float(d_in)))

    def start(self, draw: Draw) -> None:
        """Draw bias and weight."""
        n_members, d_in, d_out = self.weight.shape
        n_features, size = self.blocks
        self.bias.copy_(normal(draw, d_out))
        rest = normal(draw, (d_in - n_features * size) * d_out).view(n_members, -1, d_out)
        columns = normal(draw, n_features * size * d_out).view(n_members, size, n_features, d_out)
        self.weight.copy_(torch.cat([columns.transpose(1, 2).flatten(1, 2), rest], dim=1))

    def start_from(self, rows: Tensor, draw: Draw) -> Tensor:
        """Scale the weights to outputs of variance 1 for rows of shape (n_members, batch, d_in); return the outputs.

        The bias is minus a mean of `N_MEAN` random rows' products, with random weights: an output is 0 among the rows.
        """
        products = self.product(rows) * self.fan_in.clamp(min=1.0).rsqrt()[:, None, None]
        spread = products.std(dim=1, keepdim=True, correction=0)
        spread = torch.where(spread > SMALLEST_SPREAD, spread, 1.0)
        self.weight.div_(spread)
        products = products / spread
        n_members, batch, d_out = products.shape
        shape = n_members, N_MEAN, d_out
        places = (0.5 * (1.0 + draw(N_MEAN * d_out)) * batch).long().clamp(max=batch - 1).view(shape)
        shares = -torch.log(0.5 * (1.0 + draw(N_MEAN * d_out))).view(shape)
        chosen = products.gather(1, places) * shares / shares.sum(dim=1, keepdim=True)
        self.bias.copy_(-chosen.sum(dim=1))
        return products + self.bias[:, None]

    def product(self, x: Tensor) -> Tensor:
        """Return the product with the weight, not divided yet, of inputs of shape (n_members, batch, d_in)."""
        return torch.bmm(x.to(self.weight.dtype), self.weight)


@final
class RealMLP(nn.Module):
    """A multilayer perceptron as in RealMLP (Holzmueller, Grinsztajn and Steinwart, 2024).

    A learned factor of every input, then Linear, activation and Dropout for every hidden layer, then Linear. It is
    made for large learning rates, 0.04 for classes and 0.2 for numbers, for which ``RealMLPConfig`` has the settings.

    Parameters
    ----------
    d_in, d_out : int
        Numbers of inputs and outputs.
    widths : sequence of int, default=(256, 256, 256)
        Widths of the hidden layers.
    activation : {"auto", "selu", "mish", "relu"}, default="auto"
        The activation; by default Mish with one output, as in regression, and SELU with several.
    dropout : float, default=0.15
        Probability that dropout sets a value to zero.
    n_members : int, optional
        Number of networks that are computed together, as in `MLP`.
    blocks : tuple of int, default=(0, 0)
        Numbers of features and of columns per feature, as in `MLP`.

    Notes
    -----
    A layer is ``W x / sqrt(fan-in) + b`` with W and b of variance 1 at first: one learning rate then suits layers of
    all widths. The engine then scales W to outputs of variance 1 over some training rows, and sets b to minus a random
    mean of five of them, as RealMLP does.

    Examples
    --------
    >>> RealMLP(8, 1)(torch.rand(32, 8)).shape
    torch.Size([32, 1])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        widths: Sequence[int] = (256, 256, 256),
        activation: str = "auto",
        dropout: float = 0.15,
        n_members: int | None = None,
        blocks: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.dropout = check_dropout(dropout, "dropout")
        ends = [check_int(d_in, "d_in", minimum=1), *(check_int(width, "widths", minimum=1) for width in widths)]
        ends.append(check_int(d_out, "d_out", minimum=1))
        check_choice(activation, "activation", ("auto", *ACTIVATIONS))
        self.activation = activation if activation != "auto" else "mish" if d_out == 1 else "selu"
        members = n_members or 1
        self.factors = nn.Parameter(torch.ones(members, d_in))
        self.first = NormalLinear(members, ends[0], ends[1], blocks=blocks)
        self.layers = nn.ModuleList(NormalLinear(members, *pair) for pair in pairwise(ends[1:]))
        initialise(self, member_seeds(members))

    @torch.no_grad()
    def start_from(self, rows: Tensor, draw: Draw) -> None:
        """Set the initial parameters by rows of shape (n_members, batch, d_in), layer after layer."""
        hidden = self.first.start_from(rows, draw)
        layers: Iterable[Any] = self.layers
        for layer in layers:
            hidden = layer.start_from(ACTIVATIONS[self.activation](hidden), draw)

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., d_in) to outputs of shape (..., d_out), with a leading member axis if any."""
        rows = flat_rows(x, self.n_members)
        return self.rest(self.enter(rows)).reshape(*x.shape[:-1], -1)

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to the input of `rest`: the first layer, without its bias."""
        factors = self.factors * self.first.fan_in.clamp(min=1.0).rsqrt()[:, None]
        return self.first.product(rows * factors.to(rows.dtype)[:, None])

    def plain_layers(self, member: int) -> list[tuple[Tensor, Tensor]]:
        """Return weight and bias of each layer of a member with all factors in the weights, ``x W + b``."""
        layers: list[Any] = [self.first, *self.layers]
        weights = [layer.weight[member] / layer.fan_in[member].clamp(min=1.0).sqrt() for layer in layers]
        weights[0] = self.factors[member][:, None] * weights[0]
        return [(weight, layer.bias[member]) for weight, layer in zip(weights, layers, strict=True)]

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
        bias, scale = self.first.bias, 1.0
        layers: Iterable[Any] = self.layers
        for stream, layer in enumerate(layers):
            active = bias_act_dropout(hidden, bias, p, noise, stream, activation=self.activation, scale=scale)
            hidden, bias = layer.product(active), layer.bias
            scale = 1.0 / math.sqrt(layer.weight.shape[1])
        return torch.add(bias[:, None], hidden, alpha=scale)

    def to_onnx(self, graph: OnnxGraph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        hidden = rows
        for place, (weight, bias) in enumerate(self.plain_layers(member)):
            if place:
                hidden = graph(self.activation.capitalize(), hidden)
            hidden = graph("Add", graph("MatMul", hidden, as_numpy(weight)), as_numpy(bias))
        return hidden
