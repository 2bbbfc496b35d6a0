"""Backbones as values: what a user chooses of a network, before the data says how wide its ends are."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork._kernels.attention import is_short
from knotwork.nn._backbones.ft_transformer import FTTransformer
from knotwork.nn._backbones.mlp import MLP
from knotwork.nn._backbones.resnet import ResNet

__all__ = ["BACKBONES", "Backbone", "FTTransformerConfig", "MLPConfig", "ResNetConfig", "make_backbone"]


class Backbone(Protocol):
    """What the engine asks of a backbone's configuration; `BACKBONES` has one for every name."""

    name: ClassVar[str]

    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network.

        Parameters
        ----------
        sizes : sequence of int
            Columns of each encoded numerical feature.
        n_extra : int
            Further inputs, for networks with a flat input.
        cardinalities : sequence of int
            Number of categories of each categorical feature, for networks with tokens.
        d_out : int
            Number of outputs.
        n_members : int
            Number of members.
        """

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return about how many numbers a row keeps for the gradient."""


@dataclass(frozen=True)
class MLPConfig:
    """A multilayer perceptron; parameters as in `knotwork.nn.MLP`."""

    name: ClassVar[str] = "mlp"
    widths: tuple[int, ...] = (256, 128, 64)
    dropout: float = 0.3

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        with torch.device("meta"):  # checks the settings, makes nothing
            MLP(1, 1, **asdict(self))

    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network."""
        blocks = len(sizes), max(sizes, default=0)
        return MLP(blocks[0] * blocks[1] + n_extra, d_out, **asdict(self), n_members=n_members, blocks=blocks)

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return about how many numbers a row keeps for the gradient."""
        return 2 * sum(sizes) + 8 * n_categorical + 3 * sum(self.widths)


@dataclass(frozen=True)
class ResNetConfig:
    """A residual network; parameters as in `knotwork.nn.ResNet`."""

    name: ClassVar[str] = "resnet"
    width: int = 256
    n_blocks: int = 3
    hidden: int = 512
    dropout: float = 0.3

    def __post_init__(self) -> None:
        with torch.device("meta"):  # checks the settings, makes nothing
            ResNet(1, 1, **asdict(self))

    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network."""
        blocks = len(sizes), max(sizes, default=0)
        return ResNet(blocks[0] * blocks[1] + n_extra, d_out, **asdict(self), n_members=n_members, blocks=blocks)

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return about how many numbers a row keeps for the gradient."""
        return 2 * sum(sizes) + 8 * n_categorical + self.n_blocks * 3 * (self.hidden + self.width)


@dataclass(frozen=True)
class FTTransformerConfig:
    """An FT-Transformer; parameters as in `knotwork.nn.FTTransformer`."""

    name: ClassVar[str] = "ft"
    tokens: str = "feature"
    d_token: int = 192
    n_blocks: int = 3
    n_heads: int = 8
    attention_dropout: float = 0.2
    ffn_dropout: float = 0.1
    ffn_factor: float = 4 / 3

    def __post_init__(self) -> None:
        with torch.device("meta"):  # checks the settings, makes nothing
            FTTransformer([1], 1, **asdict(self))

    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network."""
        del n_extra
        return FTTransformer(sizes, d_out, cardinalities=cardinalities, **asdict(self), n_members=n_members)

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return about how many numbers a row keeps for the gradient."""
        n_tokens = 1 + n_categorical + (sum(sizes) if self.tokens == "coordinate" else len(sizes))
        width = self.d_token * (12 + 4 * self.ffn_factor)
        weights = 0 if is_short(n_tokens, self.d_token // self.n_heads) else self.n_heads * n_tokens
        return int(2 * sum(sizes) + self.n_blocks * n_tokens * (width + 3 * weights))


BACKBONES: dict[str, type[Any]] = {kind.name: kind for kind in (MLPConfig, ResNetConfig, FTTransformerConfig)}
"""The backbones by name."""


def make_backbone(backbone: str | Backbone, settings: dict[str, Any] | None = None) -> Any:
    """Return the configuration of a backbone from its name, with settings other than the defaults, or as it is.

    Examples
    --------
    >>> make_backbone("mlp", {"dropout": 0.1})
    MLPConfig(widths=(256, 128, 64), dropout=0.1)
    """
    if not isinstance(backbone, str):
        if type(backbone) not in BACKBONES.values():
            raise type_error("backbone", f"be one of {listed(BACKBONES)} or the configuration of one", backbone)
        return backbone
    kind = BACKBONES[check_choice(backbone, "backbone", BACKBONES)]
    known = [field.name for field in fields(kind)]
    for name in settings or {}:
        if name not in known:
            raise argument_error("settings", f"be among those of {backbone!r}: {listed(known)}", name)
    return kind(**(settings or {}))
