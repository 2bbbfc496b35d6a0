"""Configurations of backbones: the choices of a user, before the data determines numbers of inputs and outputs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork.nn._flat import MLP, RealMLP, ResNet, TabM
from knotwork.nn._ft_transformer import FTTransformer


@dataclass(frozen=True)
class Backbone(ABC):
    """Configuration of a backbone: a frozen dataclass with the settings of a user, and traits as class attributes.

    A subclass that is added to `BACKBONES` is available in estimators, studies and comparisons; models with it can be
    saved and loaded.

    Attributes
    ----------
    name : str
        Name in `BACKBONES`, plans, records and saved models.
    takes_tokens : bool
        Whether `forward_stack` of the network takes encoded features separately, and categories as codes, which the
        network embeds. Otherwise all inputs form one row, which includes embedded categories.
    precision : {"tf32", "bf16"}
        Precision of matrix products on a GPU unless the training configuration sets it.
    undecayed : tuple of str
        Parameters with one of these strings in their name have no weight decay.
    rate_factors : tuple of pair of str and float
        Parameters with the string in their name have this multiple of the learning rate; the first that matches counts.
    starts_from_rows : bool
        Whether the network has a method ``start_from(rows, draw)`` that sets its initial parameters by encoded training
        rows of shape (n_members, batch, d_in).
    has_fixed_order : bool
        Whether all products and sums of the network have an order that does not depend on the other members on a GPU
        too, as `TrainingConfig.reproducible` requires.
    advice : {"mlp", "resnet", "ft"}
        Backbone of the paper whose recommended encodings are used.
    """

    name: ClassVar[str]
    takes_tokens: ClassVar[bool] = False
    precision: ClassVar[str] = "bf16"
    undecayed: ClassVar[tuple[str, ...]] = ()
    rate_factors: ClassVar[tuple[tuple[str, float], ...]] = ()
    starts_from_rows: ClassVar[bool] = False
    has_fixed_order: ClassVar[bool] = False
    advice: ClassVar[str] = "mlp"

    @abstractmethod
    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network.

        With a method ``to_graph(graph, rows, *, member, logits)`` it can be exported, and predict without torch: the
        method adds the nodes of a member to a `knotwork.nn.Graph` and returns the name of the outputs, of shape
        (n, d_out). `rows` names the inputs, of shape (n, d_in), and `logits` says whether the outputs are logits. A
        network with tokens takes the encoded numbers and the codes instead of `rows`, as in `forward_stack`, each None
        if there are none.

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

    @abstractmethod
    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return the approximate number of values per row kept for the gradient: it limits the members in memory."""

    def products(self, network: nn.Module) -> int:
        """Return the approximate number of multiplications per row of a network of one member.

        It is used to share out time. By default every parameter is used once.
        """
        return sum(parameter.numel() for parameter in network.parameters())

    def first_weights(self, network: nn.Module) -> Tensor | None:
        """Return the weights that read the encoded features, which `TrainingConfig.smoothness` penalises.

        They are of shape (n_members, d_in, d_out), features first, or (n_members, n_features, size, d_out); a function
        of parameters has gradients. By default they are those of `first`; with tokens there are none.
        """
        if self.takes_tokens:
            return None
        first: Any = network.first
        weight: Tensor = first.weight
        return weight

    @classmethod
    def paper(cls) -> Self:
        """Return the settings of the paper; by default those of the class."""
        return cls()

    def for_task(self, task: str) -> "Backbone":
        """Return the configuration for a task, ``"regression"`` or ``"classification"``; by default the same."""
        del task
        return self

    def training(self, task: str) -> dict[str, Any]:
        """Return the settings of `knotwork.TrainingConfig` that suit the backbone, where they differ from its defaults.

        `task` is ``"regression"`` or ``"classification"``. Estimators use them unless the user sets `training`.
        """
        del task
        return {}

    @property
    def pads_blocks(self) -> bool:
        """Whether encodings may be padded with zeros to the size of larger ones, as in stacks of several sizes."""
        return True


@dataclass(frozen=True)
class FlatBackbone(Backbone):
    """Configuration of a `network` whose inputs form one row, with the settings of its constructor as fields."""

    network: ClassVar[type[Any]]

    def __post_init__(self) -> None:
        if "widths" in vars(self):
            object.__setattr__(self, "widths", tuple(vars(self)["widths"]))
        with torch.device("meta"):  # checks the settings without allocating memory
            self.network(1, 1, **asdict(self))

    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network."""
        blocks = len(sizes), max(sizes, default=0)
        d_in, settings = blocks[0] * blocks[1] + n_extra, asdict(self)
        network: nn.Module = self.network(d_in, d_out, **settings, n_members=n_members, blocks=blocks)
        return network


@final
@dataclass(frozen=True)
class MLPConfig(FlatBackbone):
    """A multilayer perceptron; parameters as in `knotwork.nn.MLP`, with a smaller dropout by default.

    On the tables of `benchmarks/defaults.py` a dropout of 0.15 predicts better than the 0.3 of ``MLPConfig.paper()``.
    """

    name: ClassVar[str] = "mlp"
    network: ClassVar[type[Any]] = MLP
    precision: ClassVar[str] = "tf32"
    has_fixed_order: ClassVar[bool] = True
    widths: tuple[int, ...] = (256, 128, 64)
    dropout: float = 0.15

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return the approximate number of values per row kept for the gradient."""
        return 2 * sum(sizes) + 8 * n_categorical + 3 * sum(self.widths)

    @classmethod
    def paper(cls) -> Self:
        """Return the settings of the paper."""
        return cls(dropout=0.3)


@final
@dataclass(frozen=True)
class ResNetConfig(FlatBackbone):
    """A residual network; parameters as in `knotwork.nn.ResNet`."""

    name: ClassVar[str] = "resnet"
    network: ClassVar[type[Any]] = ResNet
    has_fixed_order: ClassVar[bool] = True
    advice: ClassVar[str] = "resnet"
    width: int = 256
    n_blocks: int = 3
    hidden: int = 512
    dropout: float = 0.3

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return the approximate number of values per row kept for the gradient."""
        return 2 * sum(sizes) + 8 * n_categorical + self.n_blocks * 3 * (self.hidden + self.width)


@final
@dataclass(frozen=True)
class FTTransformerConfig(Backbone):
    """An FT-Transformer; parameters as in `knotwork.nn.FTTransformer`."""

    name: ClassVar[str] = "ft"
    takes_tokens: ClassVar[bool] = True
    undecayed: ClassVar[tuple[str, ...]] = ("tokenizer", "norm", "bias")
    advice: ClassVar[str] = "ft"
    tokens: str = "feature"
    d_token: int = 192
    n_blocks: int = 3
    n_heads: int = 8
    attention_dropout: float = 0.2
    ffn_dropout: float = 0.1
    ffn_factor: float = 4 / 3

    def __post_init__(self) -> None:
        with torch.device("meta"):
            FTTransformer([1], 1, **asdict(self))

    def build(
        self, sizes: Sequence[int], n_extra: int, cardinalities: Sequence[int], d_out: int, *, n_members: int
    ) -> nn.Module:
        """Return the network."""
        del n_extra
        return FTTransformer(sizes, d_out, cardinalities=cardinalities, **asdict(self), n_members=n_members)

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return the approximate number of values per row kept for the gradient."""
        n_tokens = 1 + n_categorical + (len(sizes) if self.pads_blocks else sum(sizes))
        width = self.d_token * (12 + 4 * self.ffn_factor)
        return int(2 * sum(sizes) + self.n_blocks * n_tokens * width)

    def products(self, network: nn.Module) -> int:
        """Return the approximate number of multiplications per row: every token uses the weights of the blocks."""
        tokenizer: Any = network.tokenizer
        return int(tokenizer.n_tokens) * super().products(network)

    def first_weights(self, network: nn.Module) -> Tensor | None:
        """Return the weights from encoded features to tokens, if a feature is one token."""
        tokenizer: Any = network.tokenizer
        return tokenizer.weight if self.tokens == "feature" else None

    @property
    def pads_blocks(self) -> bool:
        """Whether a feature is one token; if each of its values is one, padding would add tokens."""
        return self.tokens == "feature"


@final
@dataclass(frozen=True)
class TabMConfig(FlatBackbone):
    """Many predictions of one multilayer perceptron; parameters as in `knotwork.nn.TabM`."""

    name: ClassVar[str] = "tabm"
    network: ClassVar[type[Any]] = TabM
    precision: ClassVar[str] = "tf32"
    undecayed: ClassVar[tuple[str, ...]] = ("adapters",)
    widths: tuple[int, ...] = (512, 512, 512)
    n_predictions: int = 32
    dropout: float = 0.1

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return the approximate number of values per row kept for the gradient."""
        n_inputs = sum(sizes) + 8 * n_categorical
        return 2 * n_inputs + self.n_predictions * (n_inputs + 3 * sum(self.widths))

    def products(self, network: nn.Module) -> int:
        """Return the approximate number of multiplications per row: every prediction uses the shared weights."""
        return self.n_predictions * super().products(network)


@final
@dataclass(frozen=True)
class RealMLPConfig(FlatBackbone):
    """A multilayer perceptron as in RealMLP; parameters as in `knotwork.nn.RealMLP`.

    `training` returns the settings of RealMLP with tuned defaults: large learning rates in four cycles.
    """

    name: ClassVar[str] = "realmlp"
    network: ClassVar[type[Any]] = RealMLP
    precision: ClassVar[str] = "tf32"
    undecayed: ClassVar[tuple[str, ...]] = ("bias",)
    starts_from_rows: ClassVar[bool] = True
    rate_factors: ClassVar[tuple[tuple[str, float], ...]] = (
        ("backbone.factors", 6.0), ("bias", 0.1), ("encoding.", 0.1), ("embedding.", 0.1),
    )  # fmt: skip
    widths: tuple[int, ...] = (256, 256, 256)
    activation: str = "auto"
    dropout: float = 0.15

    def activations(self, sizes: Sequence[int], n_categorical: int) -> int:
        """Return the approximate number of values per row kept for the gradient."""
        return 4 * sum(sizes) + 8 * n_categorical + 5 * sum(self.widths)

    def first_weights(self, network: nn.Module) -> Tensor | None:
        """Return the weights of the first layer with the factors of its inputs."""
        built: Any = network
        factors: Tensor = built.factors * built.first.fan_in.clamp(min=1.0).rsqrt()[:, None]
        weight: Tensor = factors[..., None] * built.first.weight
        return weight

    def for_task(self, task: str) -> Backbone:
        """Return the configuration with the activation of a task: Mish for numbers, SELU for classes."""
        if self.activation != "auto":
            return self
        return replace(self, activation="mish" if task == "regression" else "selu")

    def training(self, task: str) -> dict[str, Any]:
        """Return the settings of training that suit the backbone."""
        settings = {"learning_rate": 0.2} if task == "regression" else {"learning_rate": 0.04, "label_smoothing": 0.1}
        cycles = {"schedule": "cycles", "max_epochs": 256, "patience": None}
        return {**settings, **cycles, "batch_size": 256, "weight_decay": 0.02, "beta2": 0.95}


BACKBONES: dict[str, type[Backbone]] = {
    kind.name: kind for kind in (MLPConfig, ResNetConfig, TabMConfig, RealMLPConfig, FTTransformerConfig)
}
"""The backbones by name; an added entry is available in estimators, studies and comparisons."""


def make_backbone(
    backbone: str | Backbone, settings: dict[str, Any] | None = None, *, preset: str = "default"
) -> Backbone:
    """Return the configuration of a backbone from its name; a configuration is returned unchanged.

    Parameters
    ----------
    backbone : str or Backbone
        A name in `BACKBONES`, or a configuration.
    settings : dict, optional
        Settings that differ from the preset, for a name.
    preset : {"default", "paper"}
        Settings of a name: the defaults of its class, or those of the paper.

    Examples
    --------
    >>> make_backbone("mlp", {"widths": (64,)})
    MLPConfig(widths=(64,), dropout=0.15)
    >>> make_backbone("mlp", preset="paper")
    MLPConfig(widths=(256, 128, 64), dropout=0.3)
    """
    if not isinstance(backbone, str):
        if type(backbone) not in BACKBONES.values():
            hint = "A torch module has no axis of members: the guide on extending shows a backbone of your own."
            requirement = f"be one of {listed(BACKBONES)} or the configuration of one"
            raise type_error("backbone", requirement, backbone, hint if isinstance(backbone, nn.Module) else "")
        return backbone
    kind = BACKBONES[check_choice(backbone, "backbone", BACKBONES)]
    if not issubclass(kind, Backbone):
        raise type_error(f"BACKBONES[{backbone!r}]", "be a class that derives from knotwork.nn.Backbone", kind.__name__)
    names = [field.name for field in fields(kind)]
    for name in settings or {}:
        if name not in names:
            raise argument_error("settings", f"be among those of {backbone!r}: {listed(names)}", name)
    preset_settings = asdict(kind.paper()) if check_choice(preset, "preset", ("default", "paper")) == "paper" else {}
    return kind(**{**preset_settings, **(settings or {})})
