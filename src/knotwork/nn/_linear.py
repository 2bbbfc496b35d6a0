"""What backbones are built of: a linear layer of every member, tables, rows, and how parameters start.

Parameters start from a member's own seed, alike on every device.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, type_error
from knotwork._kernels.dropout import Noise, random_bits

__all__ = [
    "Draw",
    "Initial",
    "Linear",
    "Uniform",
    "check_dropout",
    "first_places",
    "flat_rows",
    "initialise",
    "look_up",
    "member_seeds",
]

Draw = Callable[[int], Tensor]
"""Draws n numbers for every member, uniform in (-1, 1), of shape (n_members, n); new ones at every call."""

FIRST_STREAM = 1 << 20
"""Stream of random numbers that the first parameter is drawn from; those below are dropout's."""


class Initial(nn.Module):
    """A module that knows how its own parameters start."""

    def start(self, draw: Draw) -> None:
        """Set the module's own parameters to where they start."""
        raise NotImplementedError


class Uniform(Initial):
    """A parameter that starts uniformly within a bound.

    Parameters
    ----------
    *shape : int
        Its shape, members first.
    bound : float
        The bound.
    """

    def __init__(self, *shape: int, bound: float) -> None:
        super().__init__()
        self.bound = bound
        self.values = nn.Parameter(torch.empty(shape))

    def start(self, draw: Draw) -> None:
        """Draw the parameter."""
        self.values.copy_(self.bound * draw(math.prod(self.values.shape[1:])).view_as(self.values))


class Linear(Initial):
    """A linear layer with weights of its own for every member.

    Parameters
    ----------
    n_members, d_in, d_out : int
        Shape of the weight, whose rows belong to inputs.
    blocks : tuple of int, optional
        Numbers of features and of columns per feature, if the first inputs are blocks of columns. Weights are then
        drawn column by column of the blocks, so that those of a block do not depend on how far it is padded.
    bias : bool, default=True
        Whether a bias is added.

    Notes
    -----
    Weights and biases start uniformly within +-1 / sqrt(fan-in), as in `torch.nn.Linear`. The fan-in is `d_in`
    unless `fan_in` is set to something else: members may have inputs that are always zero.
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
        n_members, d_in, d_out = self.weight.shape
        n_features, size = self.blocks
        if self.bias is not None:
            self.bias.copy_(bound * draw(d_out))
        rest = draw((d_in - n_features * size) * d_out).view(n_members, -1, d_out)
        columns = draw(n_features * size * d_out).view(n_members, size, n_features, d_out)
        self.weight.copy_(bound[..., None] * torch.cat([columns.transpose(1, 2).flatten(1, 2), rest], dim=1))

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs of shape (n_members, ..., d_in) to (n_members, ..., d_out)."""
        if self.bias is None:
            return self.product(x)
        rows = x.flatten(1, -2).to(self.weight.dtype)
        out = torch.baddbmm(self.bias.to(self.weight.dtype)[:, None], rows, self.weight)
        return out.view(*x.shape[:-1], out.shape[-1])

    def product(self, x: Tensor) -> Tensor:
        """Return the product with the weight alone, for one who adds the bias later."""
        out = torch.bmm(x.flatten(1, -2).to(self.weight.dtype), self.weight)
        return out.view(*x.shape[:-1], out.shape[-1])


def first_places(cardinalities: Sequence[int]) -> Tensor:
    """Return where the categories of each feature begin in one table of all."""
    return torch.tensor([0, *cardinalities][: len(cardinalities)], dtype=torch.int64).cumsum(0)


def look_up(table: Tensor, places: Tensor) -> Tensor:
    """Return rows of every member's own table.

    Parameters
    ----------
    table : Tensor of shape (n_members, n, d)
        The tables.
    places : Tensor of shape (n_members, ...)
        Which rows, int64.

    Returns
    -------
    Tensor of shape (n_members, ..., d)
        The rows.
    """
    n_members, n, _ = table.shape
    offsets = torch.arange(n_members, device=places.device).view(-1, *[1] * (places.dim() - 1)) * n
    return nn.functional.embedding(places + offsets, table.flatten(0, 1))


def initialise(module: nn.Module, seeds: Tensor) -> None:
    """Set all parameters to where they start; those of modules that are no `Initial` are left as they are.

    Parameters
    ----------
    module : nn.Module
        A network whose parameters have a leading axis of members.
    seeds : Tensor of shape (n_members,)
        A seed for every member, int64, between 0 and 2**31 - 1. What a member gets depends on its seed alone.
    """
    if seeds.is_meta:
        return  # nothing to set; making random numbers of nothing is slow
    noise, stream = Noise(seeds, torch.zeros_like(seeds)), FIRST_STREAM

    def draw(n: int) -> Tensor:
        nonlocal stream
        stream += 1
        bits = random_bits(noise, stream, n) >> 8  # 24 bits: exact in float32
        return (bits.to(torch.float32) + 0.5) * 2.0**-23 - 1.0

    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, Initial):
                part.start(draw)


def member_seeds(n_members: int) -> Tensor:
    """Return seeds drawn from torch's own generator, so that `torch.manual_seed` decides."""
    return torch.randint(2**31 - 1, (n_members,), dtype=torch.int64)


def check_dropout(value: Any, name: str) -> float:
    """Return a probability of dropout, which is smaller than 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise type_error(name, "be a number from 0 to below 1", value)
    share = float(value)
    if not 0.0 <= share < 1.0:
        raise argument_error(name, "be a number from 0 to below 1", value)
    return share


def flat_rows(x: Tensor, n_members: int | None, *, n_last: int = 1) -> Tensor:
    """Return x as (members or 1, rows, ...), where the last `n_last` axes stay as they are."""
    if n_members is not None and (x.dim() < 1 + n_last or x.shape[0] != n_members):
        raise argument_error("x", f"have a leading axis of {n_members} members", tuple(x.shape))
    rows = math.prod(x.shape[: x.dim() - n_last]) // (n_members or 1)
    return x.reshape(n_members or 1, rows, *x.shape[x.dim() - n_last :])
