"""Building blocks of backbones: linear layers with a member axis, lookup tables, and initial parameters.

Initial parameters depend only on the member's random seed and are the same on every device.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from itertools import accumulate
from typing import Any, final

import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_bool, check_int, check_number
from knotwork._kernels.dropout import Noise, drawn_bits, member_keys
from knotwork._kernels.fixed_order import product

Draw = Callable[[int], Tensor]
"""Draws n numbers for every member, uniform in (-1, 1), of shape (n_members, n); new numbers at every call."""

_LEFT_EMPTY: ContextVar[bool] = ContextVar("left_empty", default=False)


class Stream(IntEnum):
    """Where the random numbers of a member begin, by what they set; dropout uses lower streams than all of these."""

    PAIRS = 1 << 17  # waves of pairs of features
    ROWS = 1 << 18  # parameters that start from rows
    FREQUENCIES = 1 << 19
    PARAMETERS = 1 << 20


class Initial(nn.Module):
    """A module that sets the initial values of its parameters."""

    def start(self, draw: Draw) -> None:
        """Set the module's own parameters, not those of its submodules, to their initial values."""
        raise NotImplementedError


class Uniform(Initial):
    """A parameter with initial values that are uniform within a bound.

    Parameters
    ----------
    *shape : int
        Shape of the parameter, members first.
    bound : float
        Bound of the absolute values.
    """

    def __init__(self, *shape: int, bound: float) -> None:
        super().__init__()
        self.bound = bound
        self.values = nn.Parameter(torch.empty(shape))

    def start(self, draw: Draw) -> None:
        """Draw the parameter."""
        self.values.copy_(self.bound * draw(math.prod(self.values.shape[1:])).view_as(self.values))


class Linear(Initial):
    """A linear layer with separate weights for every member.

    Parameters
    ----------
    n_members, d_in, d_out : int
        Shape of the weight, with a row for each input.
    blocks : tuple of int, optional
        Numbers of features and of columns per feature, if the first inputs are encoded features. Weights are then drawn
        column by column, so that the weights of a feature do not depend on its padding.
    bias : bool, default=True
        Whether a bias is added.

    Notes
    -----
    Weights and biases start uniformly within +-1 / sqrt(fan-in), as in `torch.nn.Linear`. The fan-in is `d_in`,
    unless `fan_in` is set to another value for members with inputs that are always zero.
    """

    fan_in: Tensor

    def __init__(
        self, n_members: int, d_in: int, d_out: int, *, blocks: tuple[int, int] = (0, 0), bias: bool = True
    ) -> None:
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(torch.empty(n_members, d_in, d_out))
        self.bias = nn.Parameter(torch.empty(n_members, d_out)) if bias else None
        self.register_buffer("fan_in", torch.full((n_members,), float(d_in)), persistent=False)

    def start(self, draw: Draw) -> None:
        """Draw bias and weight."""
        bound = self.fan_in.clamp(min=1.0).rsqrt()[:, None]
        if self.bias is not None:
            self.bias.copy_(bound * draw(self.bias.shape[1]))
        self.weight.copy_(bound[..., None] * draw_rows(draw, self.weight.shape, self.blocks))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (n_members, ..., d_in) to (n_members, ..., d_out)."""
        if self.bias is None:
            return self.product(x)
        out = product(x.flatten(1, -2).to(self.weight.dtype), self.weight, self.bias.to(self.weight.dtype))
        return out.view(*x.shape[:-1], out.shape[-1])

    def product(self, x: Tensor) -> Tensor:
        """Return the product with the weight, without the bias, for a caller that adds the bias later."""
        out = product(x.flatten(1, -2).to(self.weight.dtype), self.weight)
        return out.view(*x.shape[:-1], out.shape[-1])


@final
class FeatureEmbedding(Initial):
    """A separate linear map for each feature, from its encoded values to a few numbers.

    Parameters
    ----------
    n_features : int
        Number of features.
    size : int
        Columns of each encoded feature; smaller encodings are padded with zeros.
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
        """Set the sizes of each member's encodings without their padding, which the initial weights depend on."""
        self.fan_in.copy_(torch.tensor(sizes, dtype=torch.float32).reshape(self.fan_in.shape))

    def start(self, draw: Draw) -> None:
        """Draw bias and weights, column by column: they do not depend on padding."""
        bound = self.fan_in.clamp(min=1.0).rsqrt()[..., None]
        self.bias.copy_(bound * draw(math.prod(self.bias.shape[1:])).view_as(self.bias))
        self.weight.copy_(bound[..., None] * draw_columns(draw, self.weight.shape))

    def forward(self, blocks: Tensor) -> Tensor:
        """Map encoded values of shape (..., n_features, size) to (..., n_features, width)."""
        n_features, size, width = self.weight.shape[1:]
        if blocks.dim() < 2 or blocks.shape[-2:] != (n_features, size):
            raise argument_error("blocks", f"have the shape (..., {n_features}, {size})", tuple(blocks.shape))
        rows = flat_rows(blocks, self.n_members, n_last=2)
        return self.forward_stack(rows).reshape(*blocks.shape[:-1], width)

    def forward_stack(self, encoded: Tensor) -> Tensor:
        """Map encoded values of shape (n_members, batch, n_features, size) to (n_members, batch, n_features, width)."""
        weight = self.weight.flatten(0, 1)
        by_feature = encoded.to(weight.dtype).transpose(1, 2).reshape(len(weight), -1, weight.shape[1])
        out = product(by_feature, weight, self.bias.to(weight.dtype).flatten(0, 1))
        out = out.view(len(encoded), -1, encoded.shape[1], weight.shape[-1]).transpose(1, 2)
        return torch.relu(out) if self.relu else out


def draw_columns(draw: Draw, shape: Sequence[int]) -> Tensor:
    """Return numbers of shape (n_members, n_features, size, ...), drawn column by column: padding changes none."""
    n_members, n_features, size, *others = shape
    columns = draw(size * n_features * math.prod(others)).view(n_members, size, n_features, *others)
    return columns.transpose(1, 2)


def draw_rows(draw: Draw, shape: Sequence[int], blocks: tuple[int, int]) -> Tensor:
    """Return numbers of shape (n_members, d_in, d_out), whose first rows belong to features, as in `Linear`."""
    n_members, d_in, d_out = shape
    rest = draw((d_in - math.prod(blocks)) * d_out).view(n_members, -1, d_out)
    return torch.cat([draw_columns(draw, (n_members, *blocks, d_out)).flatten(1, 2), rest], dim=1)


def normal(draw: Draw, n: int) -> Tensor:
    """Return n normal random numbers of variance 1 for every member, of shape (n_members, n)."""
    return math.sqrt(2.0) * torch.erfinv(draw(n).clamp(max=1.0 - 2.0**-24))  # a draw may round to 1


def first_places(cardinalities: Sequence[int]) -> Tensor:
    """Return the index of each feature's first category in one table of all categories."""
    # A cumulative sum of torch, on the meta device that models are loaded by, would load torch's compiler for seconds.
    return torch.tensor([*accumulate([0, *cardinalities])][: len(cardinalities)], dtype=torch.int64)


def initialise(module: nn.Module, seeds: Tensor) -> None:
    """Set the parameters of all `Initial` modules in a network to their initial values.

    Parameters
    ----------
    module : nn.Module
        A network with parameters that have a leading axis of members.
    seeds : Tensor of shape (n_members,)
        Random seed of every member, int64, from 0 to 2**31 - 1. The parameters of a member depend only on its seed.
    """
    if seeds.is_meta or _LEFT_EMPTY.get():
        return  # there are no values to set, or they are set later
    draw = make_draw(seeds, Stream.PARAMETERS)
    with torch.no_grad():
        for submodule in module.modules():
            if isinstance(submodule, Initial):
                submodule.start(draw)


def make_draw(seeds: Tensor, stream: int) -> Draw:
    """Return a function that draws numbers by the seeds of members, from the streams after `stream`."""
    noise = Noise(seeds, torch.zeros_like(seeds))

    def draw(n: int) -> Tensor:
        nonlocal stream
        stream += 1
        bits = drawn_bits(member_keys(noise, stream), n) >> 8  # 24 bits: exact in float32
        return (bits.to(torch.float32) + 0.5) * 2.0**-23 - 1.0

    return draw


@contextmanager
def left_empty() -> Iterator[None]:
    """Build networks without initial values: drawing them takes longer than building, and they are set later."""
    token = _LEFT_EMPTY.set(True)
    try:
        yield
    finally:
        _LEFT_EMPTY.reset(token)


def member_seeds(n_members: int) -> Tensor:
    """Return random seeds from torch's generator, which `torch.manual_seed` controls."""
    # The numbers of `torch.randint`, which would load sympy on the meta device, where configurations are checked.
    return torch.empty(n_members, dtype=torch.int64).random_(0, 2**31 - 1)


def check_dropout(value: Any, name: str) -> float:
    """Return a valid probability of dropout."""
    return check_number(value, name, "from 0 to below 1", lambda probability: 0.0 <= probability < 1.0)


def flat_rows(x: Tensor, n_members: int | None, *, n_last: int = 1) -> Tensor:
    """Return x in the shape (members or 1, rows, ...); the last `n_last` axes do not change."""
    if n_members is not None and (x.dim() < 1 + n_last or x.shape[0] != n_members):
        raise argument_error("x", f"have a leading axis of {n_members} members", tuple(x.shape))
    rows = math.prod(x.shape[: x.dim() - n_last]) // (n_members or 1)
    return x.reshape(n_members or 1, rows, *x.shape[x.dim() - n_last :])
