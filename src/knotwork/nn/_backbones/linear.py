"""A linear layer of every member, and how parameters start: from a member's own seed, alike on every device."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from knotwork.nn._backbones.dropout import on_triton
from knotwork.nn._backbones.noise import Noise, random_bits

__all__ = ["Draw", "Initial", "Linear", "Uniform", "first_places", "initialise", "look_up", "member_seeds"]

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

    def divided_product(self, x: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
        """Return the product of the first of each group of rows with the first columns, and of all with the others.

        Parameters
        ----------
        x : Tensor of shape (n_members, n_groups, n, d_in)
            Inputs.
        n_columns : int
            Number of the first columns of the weight.

        Returns
        -------
        tuple of Tensors of shapes (n_members, n_groups, 1, n_columns) and (n_members, n_groups, n, d_out - n_columns)
            The products, without the bias.
        """
        x = x.to(self.weight.dtype)
        if on_triton(x) and not torch.is_autocast_enabled(x.device.type) and not torch.compiler.is_compiling():
            return _DividedProduct.apply(x, self.weight, n_columns)  # type: ignore[no-any-return, no-untyped-call]
        return _divided_product(x, self.weight, n_columns)


def _divided_product(x: Tensor, weight: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
    """Compute the two products."""
    first = torch.bmm(x[:, :, 0], weight[..., :n_columns])
    others = torch.bmm(x.flatten(1, 2), weight[..., n_columns:])
    return first[:, :, None], others.view(*x.shape[:3], others.shape[-1])


class _DividedProduct(torch.autograd.Function):
    """The two products on a GPU: gradients are added up in place, not as tensors that are zero for the most part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight)
        ctx.n_columns = n_columns
        return _divided_product(x, weight, n_columns)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, first_grad: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        n, first_grad, grad = ctx.n_columns, first_grad[:, :, 0], grad.flatten(1, 2)
        x_grad = torch.bmm(grad, weight[..., n:].transpose(1, 2)).view(x.shape)
        x_grad[:, :, 0].baddbmm_(first_grad, weight[..., :n].transpose(1, 2))
        weight_grad = torch.empty_like(weight)
        torch.bmm(x[:, :, 0].transpose(1, 2), first_grad, out=weight_grad[..., :n])
        torch.bmm(x.flatten(1, 2).transpose(1, 2), grad, out=weight_grad[..., n:])
        return x_grad, weight_grad, None


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
    own = torch.arange(n_members, device=places.device).view(-1, *[1] * (places.dim() - 1)) * n
    return nn.functional.embedding(places + own, table.flatten(0, 1))


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
