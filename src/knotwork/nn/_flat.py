"""Networks whose inputs form one row: the multilayer perceptron, RealMLP, TabM and the residual network."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn

from knotwork._checks import check_choice, check_int
from knotwork._graph import EPSILON, Graph, as_numpy
from knotwork._kernels.batch_norm import batch_norm, batch_norm_eval
from knotwork._kernels.dropout import ACTIVATIONS, Noise, bias_act_dropout
from knotwork._kernels.fixed_order import add_bias
from knotwork._kernels.perceptron import Layers
from knotwork.nn._linear import (
    Draw,
    Initial,
    Linear,
    check_dropout,
    draw_rows,
    flat_rows,
    initialise,
    member_seeds,
    normal,
)

N_MEAN = 5
"""Rows whose mean becomes a bias, as in RealMLP."""

SMALLEST_SPREAD = 1e-3
"""Products that vary less over the rows keep their scale."""


class FlatNetwork(nn.Module, ABC):
    """A network whose inputs form one row: `first`, the linear layer that reads them, and the rest."""

    first: Any
    layers: Sequence[Any]

    def __init__(self, d_in: int, d_out: int, dropout: float, n_members: int | None) -> None:
        super().__init__()
        check_int(d_in, "d_in", minimum=1)
        check_int(d_out, "d_out", minimum=1)
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.dropout = check_dropout(dropout, "dropout")

    def _add_layers(self, kind: type[Any], widths: Sequence[int], blocks: tuple[int, int]) -> None:
        """Add `first` and `layers`, linear maps between the widths of inputs, hidden layers and perhaps outputs."""
        for width in widths:
            check_int(width, "widths", minimum=1)
        self.first = kind(self.n_members or 1, *widths[:2], blocks=blocks)
        layers = nn.ModuleList(kind(self.n_members or 1, *pair) for pair in pairwise(widths[1:]))
        self.layers = cast("Sequence[Any]", layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (..., d_in) to outputs of shape (..., d_out), with a leading member axis if any."""
        rows = flat_rows(x, self.n_members)
        return self.rest(self.enter(rows)).reshape(*x.shape[:-1], -1)

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to the input of `rest`: the first layer, without its bias."""
        product: Tensor = self.first.product(rows)
        return product

    def dense_layers(self) -> Layers | None:
        """Return the layers as `PerceptronPass` trains them on a CPU, if the network has no others."""
        return None

    @abstractmethod
    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to outputs.

        Parameters
        ----------
        hidden : Tensor of shape (n_members, batch, width)
            Result of `enter`.
        counts : Tensor of shape (n_members,), optional
            Number of rows of each member, for networks that normalise over rows; the rows after them are padding. By
            default there is none.
        noise : Noise, optional
            Random numbers of dropout; by default torch's generator.
        """

    @abstractmethod
    def to_graph(self, graph: Graph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph; `logits` says whether the outputs are logits."""


@final
class MLP(FlatNetwork):
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
        Numbers of features and of columns per feature, if the first inputs are encoded features: the initial weights of
        a feature then do not depend on its padding.

    Examples
    --------
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
        super().__init__(d_in, d_out, dropout, n_members)
        self._add_layers(Linear, [d_in, *widths, d_out], blocks)
        initialise(self, member_seeds(n_members or 1))

    def dense_layers(self) -> Layers:
        """Return the layers as `PerceptronPass` trains them on a CPU."""
        layers: list[Any] = [self.first, *self.layers]
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        return Layers(weights, biases, [1.0] * len(layers), "relu", self.dropout)

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to outputs."""
        del counts
        p = self.dropout if self.training else 0.0
        bias = self.first.bias
        for stream, layer in enumerate(self.layers):
            hidden, bias = layer.product(bias_act_dropout(hidden, bias, p, noise, stream)), layer.bias
        return add_bias(hidden, bias)

    def to_graph(self, graph: Graph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        hidden = graph.linear(rows, self.first, member)
        for layer in self.layers:
            hidden = graph.linear(graph("Relu", hidden), layer, member)
        return hidden


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
        self.bias.copy_(normal(draw, self.bias.shape[1]))
        self.weight.copy_(draw_rows(partial(normal, draw), self.weight.shape, self.blocks))

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
class RealMLP(FlatNetwork):
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
        super().__init__(d_in, d_out, dropout, n_members)
        check_choice(activation, "activation", ("auto", *ACTIVATIONS))
        self.activation = activation if activation != "auto" else "mish" if d_out == 1 else "selu"
        self.factors = nn.Parameter(torch.ones(n_members or 1, d_in))
        self._add_layers(NormalLinear, [d_in, *widths, d_out], blocks)
        initialise(self, member_seeds(n_members or 1))

    @torch.no_grad()
    def start_from(self, rows: Tensor, draw: Draw) -> None:
        """Set the initial parameters by rows of shape (n_members, batch, d_in), layer after layer."""
        hidden = self.first.start_from(rows, draw)
        for layer in self.layers:
            hidden = layer.start_from(ACTIVATIONS[self.activation](hidden), draw)

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs to the input of `rest`: the first layer of their multiples, without its bias."""
        factors = self.factors * self.first.fan_in.clamp(min=1.0).rsqrt()[:, None]
        return super().enter(rows * factors.to(rows.dtype)[:, None])

    def dense_layers(self) -> Layers:
        """Return the layers as `PerceptronPass` trains them on a CPU."""
        layers: list[Any] = [self.first, *self.layers]
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        scales = [1.0, *(1.0 / math.sqrt(weight.shape[1]) for weight in weights[1:])]
        units = self.first.fan_in.clamp(min=1.0).rsqrt()
        return Layers(weights, biases, scales, self.activation, self.dropout, self.factors, units)

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to outputs."""
        del counts
        p = self.dropout if self.training else 0.0
        bias, scale = self.first.bias, 1.0
        for stream, layer in enumerate(self.layers):
            active = bias_act_dropout(hidden, bias, p, noise, stream, activation=self.activation, scale=scale)
            hidden, bias = layer.product(active), layer.bias
            scale = 1.0 / math.sqrt(layer.weight.shape[1])
        return torch.add(bias[:, None], hidden, alpha=scale)

    def to_graph(self, graph: Graph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        layers: list[Any] = [self.first, *self.layers]
        hidden = rows
        for place, layer in enumerate(layers):
            unit = layer.fan_in[member].clamp(min=1.0).rsqrt()
            hidden = graph(self.activation.capitalize(), hidden) if place else hidden
            # Factors of the inputs, not of the weights: those are the ones of the model file.
            hidden = graph("Mul", hidden, as_numpy(unit if place else self.factors[member] * unit))
            hidden = graph("Add", graph("MatMul", hidden, as_numpy(layer.weight[member])), as_numpy(layer.bias[member]))
        return hidden


@final
class Adapters(Initial):
    """Factors of the inputs, different for every prediction.

    They start as normal random numbers of variance one. All columns of an encoded feature have the same, so that each
    prediction starts with its own weights of the features, and padding changes nothing.
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
        of_features = values[..., :n_features].repeat_interleave(size, dim=-1)
        self.values.copy_(torch.cat([of_features, values[..., n_features:]], dim=-1))

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
class TabM(FlatNetwork):
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
        super().__init__(d_in, d_out, dropout, n_members)
        self.n_predictions = check_int(n_predictions, "n_predictions", minimum=1)
        members = n_members or 1
        self.adapters = Adapters(members, n_predictions, d_in, blocks=blocks)
        self._add_layers(Linear, [d_in, *widths], blocks)
        self.heads = Heads(members, n_predictions, [d_in, *widths][-1], d_out)
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
        return super().enter(self.adapters(rows))

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to all predictions, of shape (n_members, n_predictions, batch, d_out)."""
        del counts
        noise = None if noise is None else _noise_of_predictions(noise, self.n_predictions)
        bias = self.first.bias
        for stream, layer in enumerate(self.layers):
            hidden, bias = layer.product(self._activated(hidden, bias, noise, stream)), layer.bias
        outputs: Tensor = self.heads(self._activated(hidden, bias, noise, len(self.layers)))
        return outputs

    def _activated(self, hidden: Tensor, bias: Tensor, noise: Noise | None, stream: int) -> Tensor:
        """Add the bias, then ReLU and dropout, for every prediction as for a member."""
        p = self.dropout if self.training else 0.0
        biases = bias[:, None].expand(-1, self.n_predictions, -1).flatten(0, 1)
        return bias_act_dropout(hidden.flatten(0, 1), biases, p, noise, stream).view_as(hidden)

    def to_graph(self, graph: Graph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph: the mean of all predictions, as `mean_prediction`."""
        adapters = as_numpy(self.adapters.values[member])[:, None]  # values have the shape (n_predictions, n, width)
        hidden = graph.linear(graph("Mul", graph("Unsqueeze", rows, graph.ints(0)), adapters), self.first, member)
        for layer in self.layers:
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

    def to_graph(self, graph: Graph, rows: str, member: int) -> str:
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
class ResNet(FlatNetwork):
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
        super().__init__(d_in, d_out, dropout, n_members)
        members = n_members or 1
        for name, value in {"width": width, "n_blocks": n_blocks, "hidden": hidden}.items():
            check_int(value, name, minimum=1)
        self.first = Linear(members, d_in, width, blocks=blocks)
        residual = nn.ModuleList(ResidualBlock(members, width, hidden) for _ in range(n_blocks))
        self.blocks = cast("Sequence[Any]", residual)
        self.head = Linear(members, width, d_out)
        initialise(self, member_seeds(members))

    def enter(self, rows: Tensor) -> Tensor:
        """Map inputs of shape (n_members, batch, d_in) to the input of `rest`: the first layer."""
        out: Tensor = self.first(rows)
        return out

    def rest(self, hidden: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None) -> Tensor:
        """Map the result of `enter` to outputs, batch normalisation without padding."""
        for stream, block in enumerate(self.blocks):
            hidden = block(hidden, counts, self.dropout if self.training else 0.0, noise, stream)
        out: Tensor = self.head(hidden)
        return out

    def to_graph(self, graph: Graph, rows: str, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        hidden = graph.linear(rows, self.first, member)
        for block in self.blocks:
            up = block.up_norm.to_graph(graph, graph.linear(hidden, block.up, member), member)
            down = graph.linear(graph("Relu", up), block.down, member)
            hidden = graph("Add", hidden, block.down_norm.to_graph(graph, down, member))
        return graph.linear(hidden, self.head, member)
