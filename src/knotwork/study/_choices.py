"""What a plan is made of, as its TOML file writes it: tables, backbones, training and its variants."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork.knots._columns import TASKS
from knotwork.nn._backbones import BACKBONES, Backbone, make_backbone
from knotwork.training._config import TrainingConfig

__all__ = [
    "PRESETS",
    "BackboneChoice",
    "LinearConfig",
    "TableFile",
    "Variant",
    "read_table_file",
    "read_texts",
    "read_training",
    "refuse_unknown",
]

PRESETS = {"paper": TrainingConfig.paper, "default": TrainingConfig}
"""What the key `preset` of the table `training` starts from."""


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A user's own file as a data set of a plan.

    Parameters
    ----------
    path : str
        The file, relative to that of the plan.
    target : str
        Name of the target column.
    task : {"regression", "classification"}, optional
        What is predicted; otherwise inferred from the target.
    categorical : tuple of str, default=()
        Columns to take as categories though they are numbers.
    """

    path: str
    target: str
    task: str | None = None
    categorical: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("path", "target"):
            if not isinstance(getattr(self, name), str):
                raise type_error(name, "be text", getattr(self, name))
        if self.task is not None:
            check_choice(self.task, "task", TASKS)
        object.__setattr__(self, "categorical", read_texts(self.categorical, "categorical"))

    @property
    def name(self) -> str:
        """Name of the data set: the file's, without its suffix."""
        return Path(self.path).stem


@dataclass(frozen=True)
class LinearConfig:
    """Ridge regression, or logistic regression for classes, as scikit-learn has them.

    Parameters
    ----------
    penalty : float, default=1.0
        Weight of the squared coefficients; scikit-learn's own default.
    """

    name: ClassVar[str] = "linear"
    takes_tokens: ClassVar[bool] = False
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.penalty, bool) or not isinstance(self.penalty, int | float) or not self.penalty > 0:
            raise argument_error("penalty", "be a number larger than 0", self.penalty)


@dataclass(frozen=True)
class BackboneChoice:
    """A backbone of a plan, and the name it has in the records.

    Parameters
    ----------
    label : str
        The name.
    config : Backbone or LinearConfig
        The configuration.
    """

    label: str
    config: Backbone | LinearConfig

    @classmethod
    def from_value(cls, value: Any, preset: str = "paper") -> "BackboneChoice":
        """Read a backbone as a plan writes it: a name, or a table with `name`, settings, and perhaps a `label`.

        Parameters
        ----------
        value : str, mapping or BackboneChoice
            What the plan says.
        preset : {"paper", "default"}
            What settings that it does not name are: those of the paper, or the library's defaults.
        """
        if isinstance(value, BackboneChoice):
            return value
        if isinstance(value, str):
            return cls(value, _make_model(value, {}, preset))
        if isinstance(value, Mapping):
            settings = {name: each for name, each in value.items() if name not in ("name", "label")}
            kind = check_choice(value.get("name"), "name of a backbone", (*BACKBONES, LinearConfig.name))
            return cls(str(value.get("label", kind)), _make_model(kind, settings, preset))
        raise type_error("backbones", "be names, or tables such as {name = 'ft', tokens = 'coordinate'}", value)

    @property
    def tokens(self) -> str | None:
        """What a token is, for an FT-Transformer."""
        return asdict(self.config).get("tokens")

    @property
    def settings(self) -> dict[str, Any]:
        """Kind and settings, as they enter keys."""
        return {"name": self.config.name, **asdict(self.config)}


def _make_model(kind: str, settings: dict[str, Any], preset: str) -> Backbone | LinearConfig:
    """Return the configuration of a backbone, or of a linear model."""
    if kind != LinearConfig.name:
        return make_backbone(kind, settings, preset=preset)
    refuse_unknown(settings, [field.name for field in fields(LinearConfig)], "a linear model")
    return LinearConfig(**settings)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A way of training among several that a plan compares.

    Parameters
    ----------
    name : str
        What the records call it, in the column `variant`.
    training : tuple of (str, value)
        Settings that differ from the plan's, by name; also a mapping.
    """

    name: str
    training: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise type_error("name of a variant", "be text", self.name)
        changes = dict(self.training)
        refuse_unknown(changes, [field.name for field in fields(TrainingConfig)], "training of a variant")
        object.__setattr__(self, "training", tuple(changes.items()))

    @classmethod
    def from_value(cls, value: Any) -> "Variant":
        """Read a variant as a plan writes it: a table with `name` and the table `training`."""
        if isinstance(value, Variant):
            return value
        if not isinstance(value, Mapping) or not isinstance(value.get("training"), Mapping):
            raise type_error("variants", "be tables such as {name = 'slow', training = {knot_rate = 0.1}}", value)
        refuse_unknown(value, [field.name for field in fields(cls)], "variants")
        return cls(name=value.get("name", ""), training=tuple(value["training"].items()))

    def applied_to(self, config: TrainingConfig) -> TrainingConfig:
        """Return a configuration with what differs."""
        return check_clockless(replace(config, **dict(self.training)))


def read_training(value: Any) -> TrainingConfig:
    """Read the table `training`: a preset, and what differs from it."""
    if isinstance(value, Mapping):
        preset = PRESETS[check_choice(value.get("preset", "paper"), "preset", PRESETS)]()
        changes = {name: each for name, each in value.items() if name != "preset"}
        refuse_unknown(changes, ["preset", *(field.name for field in fields(TrainingConfig))], "training")
        value = replace(preset, **changes)
    if not isinstance(value, TrainingConfig):
        raise type_error("training", "be a table or a TrainingConfig", value)
    return check_clockless(value)


def check_clockless(config: TrainingConfig) -> TrainingConfig:
    """Return a configuration that has no time limit: with one, scores would depend on clocks."""
    if config.time_limit is not None:
        raise argument_error(
            "time_limit", "not be given in a study", config.time_limit, "Scores would depend on clocks."
        )
    return config


def read_table_file(value: Any) -> TableFile:
    """Read an entry of `tables`."""
    if isinstance(value, TableFile):
        return value
    if not isinstance(value, Mapping):
        raise type_error("tables", "be tables such as {path = 'flats.csv', target = 'rent'}", value)
    refuse_unknown(value, [field.name for field in fields(TableFile)], "tables")
    for name in ("path", "target"):
        if name not in value:
            raise argument_error("tables", f"have the key {name!r}", dict(value))
    return TableFile(**value)


def read_texts(value: Any, name: str) -> tuple[str, ...]:
    """Read a list of names."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise type_error(name, "be a list of names", value)
    return tuple(value)


def refuse_unknown(content: Mapping[str, Any], known: list[str], where: str) -> None:
    """Refuse keys that are not known, with the list of those that are."""
    for key in content:
        if key not in known:
            raise argument_error(f"key of {where}", f"be one of {listed(known, most=40)}", key)
