"""Plans: the networks that a study trains, as a frozen value that is read from a TOML file."""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, type_error
from knotwork._preparation.members import SPLITS
from knotwork.datasets import KEYS
from knotwork.encoders import METHOD_TABLE, Encoding, check_method
from knotwork.knots import PLACEMENTS, TASKS, resolve_placement
from knotwork.nn import BACKBONES, Backbone, InteractionConfig, make_backbone
from knotwork.study._folder import digest
from knotwork.training import CATEGORIES, TrainingConfig

PLANS: dict[str, Path] = {path.stem: path for path in sorted((Path(__file__).parent / "plans").glob("*.toml"))}
"""The built-in plans by name."""

FILE_NAME = re.compile(r"[^\x00-\x1f\x7f/\\.][^\x00-\x1f\x7f/\\]{0,99}")
"""A name that is valid as a file name."""

DEFAULT_BINS = "cart"
"""Default placement of the bins of PLE; a plan may name another one that does not need the target."""

Settings = TypeVar("Settings")

NEWER_FIELDS: dict[str, Any] = {
    "variants": [],
    "keep_knots": False,
    "bins": DEFAULT_BINS,
    "n_seeds": 1,
    "first_folds": None,
}
"""Fields that were added after the first version of plans, with their defaults."""


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A user's file as a data set of a plan; arguments as in `knotwork.datasets.read_table`."""

    path: str
    target: str
    task: str | None = None
    categorical: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_types(self, ("path", "target"), str, "be text")
        if self.task is not None:
            check_choice(self.task, "task", TASKS)
        object.__setattr__(self, "categorical", _read_names(self.categorical, "categorical"))

    @property
    def name(self) -> str:
        """Name of the data set: the name of the file without its suffix."""
        return Path(self.path).stem


@dataclass(frozen=True)
class LinearConfig:
    """Ridge regression, or logistic regression for classes; `penalty` weights the squared coefficients."""

    name: ClassVar[str] = "linear"
    takes_tokens: ClassVar[bool] = False
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.penalty, bool) or not isinstance(self.penalty, int | float) or not self.penalty > 0:
            raise argument_error("penalty", "be a number larger than 0", self.penalty)


@dataclass(frozen=True)
class BackboneChoice:
    """A backbone of a plan, and its name in the records."""

    label: str
    config: Backbone | LinearConfig

    def __post_init__(self) -> None:
        _check_name(self.label, "label of a backbone")

    @classmethod
    def from_value(cls, value: Any, preset: str = "paper") -> "BackboneChoice":
        """Read a backbone of a plan: a name, or a table with `name`, settings, and optionally a `label`.

        Missing settings are those of `preset`, "paper" or "default".
        """
        if isinstance(value, BackboneChoice):
            return value
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            raise type_error("backbones", "be names, or tables such as {name = 'ft', tokens = 'coordinate'}", value)
        kind = check_choice(value.get("name"), "name of a backbone", (*BACKBONES, LinearConfig.name))
        settings = {name: setting for name, setting in value.items() if name not in ("name", "label")}
        config: Backbone | LinearConfig
        if kind == LinearConfig.name:
            config = _read(LinearConfig, settings, "a linear model")
        else:
            config = make_backbone(kind, settings, preset=preset)
        return cls(str(value.get("label", kind)), config)

    @property
    def tokens(self) -> str | None:
        """Kind of tokens of an FT-Transformer."""
        return asdict(self.config).get("tokens")

    @property
    def title(self) -> str:
        """Label and kind of tokens, for messages."""
        return f"{self.label} ({self.tokens} tokens)" if self.tokens else self.label

    @property
    def settings(self) -> dict[str, Any]:
        """Kind and settings, as part of keys."""
        return {"name": self.config.name, **asdict(self.config)}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of several ways of training that a plan compares.

    `name` is its name in the column `variant` of records; `training` has the settings that differ from those of the
    plan. `interactions` adds functions of pairs of numerical columns to the networks: ``"auto"``, a number of pairs, or
    the settings of `knotwork.nn.InteractionConfig`; pairs are found on training rows.
    """

    name: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    interactions: InteractionConfig | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise type_error("name of a variant", "be text", self.name)
        if not isinstance(self.training, Mapping):
            raise type_error("training of a variant", "be a table such as {knot_rate = 0.1}", self.training)
        _check_keys(self.training, TrainingConfig, "training of a variant")
        object.__setattr__(self, "interactions", _read_interactions(self.interactions))

    @classmethod
    def from_value(cls, value: Any) -> "Variant":
        """Read a variant of a plan: a table with `name`, and the table `training` or `interactions`."""
        if isinstance(value, Mapping) and not set(value) & {"training", "interactions"}:
            raise argument_error("variants", "have training or interactions", dict(value))
        return _read(cls, value, "variants", "{name = 'slow', training = {knot_rate = 0.1}}")

    @property
    def settings(self) -> dict[str, Any]:
        """Its content; interactions are omitted if there are none."""
        content = {"name": self.name, "training": self.training}
        return content if self.interactions is None else {**content, "interactions": asdict(self.interactions)}

    def applied_to(self, config: TrainingConfig) -> TrainingConfig:
        """Return a configuration with the settings of this variant."""
        return _without_time_limit(replace(config, **self.training))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The networks of a study: every method at every size, on every data set, with every backbone, in every fold.

    A plan validates itself: unknown names, duplicate entries and contradictory settings raise an error.

    Parameters
    ----------
    name : str
        Name of the plan.
    methods : tuple of str
        Names of `knotwork.METHODS`, further methods with learned knots such as ``"BS-Grad-Q"`` and ``"PLE-Grad"``,
        methods with an embedding such as ``"PLE+LR8"``, and ``"per-feature"``, for which the training rows of a fold
        choose the encoding of each column.
    backbones : tuple of BackboneChoice
        Networks, or linear models (``"linear"``), as names or as mappings as in a TOML file. Missing settings are those
        of the paper, unless `training` has ``preset = "default"``.
    datasets : tuple of str, default=()
        Keys of `knotwork.datasets.KEYS`.
    tables : tuple of TableFile, default=()
        Users' files.
    sizes : tuple of int, default=()
        Columns per feature, for the methods that have a size.
    folds : int, default=5
        Number of folds, or of repetitions of a single split.
    seed : int, default=42
        Random seed of the folds; the networks of fold f have the random seed ``seed + f``.
    n_seeds : int, default=1
        Number of random seeds per network and fold, on the same rows: ``seed + f``, ``seed + f + folds`` and so on.
        Networks that are already recorded are kept if it is increased.
    split : {"folds", "holdout"}, default="folds"
        Cross-validation, or 20 % of the rows as test rows, drawn anew for each repetition.
    training : TrainingConfig, optional
        Training settings; by default `TrainingConfig.paper`.
    categories : {"embedding", "code", "mixed"}, default="code"
        Input of categories to backbones with a flat input: embeddings, codes as in the paper, or one-hot columns for
        features with at most eight categories and embeddings for others.
    nrmse_by : {"std", "range"}, default="std"
        Divisor of RMSE in NRMSE: standard deviation or range of the test target.
    together : bool, default=True
        Whether to train many networks in one stack; otherwise each is trained alone, so that its time is meaningful.
    variants : tuple of Variant, default=()
        Ways of training, and interactions, each applied to all networks; by default only `training`.
    keep_knots : bool, default=False
        Whether to record the positions of learned knots after every epoch, for `load_knot_paths`.
    bins : {"cart", "uniform", "quantile"}, default="cart"
        Placement of the bins of PLE; PLE-Q has its own.
    first_folds : int, optional
        Train only this number of folds, the first of `folds`; by default all.
    description : str, default=""
        A sentence for `knotwork study list`.

    Examples
    --------
    >>> plan = Plan(name="small", datasets=["sk_wine"], methods=["Std", "BS-Q"], sizes=[7], backbones=["mlp"])
    >>> plan.n_networks
    10
    """

    name: str
    methods: tuple[str, ...]
    backbones: tuple[BackboneChoice, ...]
    datasets: tuple[str, ...] = ()
    tables: tuple[TableFile, ...] = ()
    sizes: tuple[int, ...] = ()
    folds: int = 5
    seed: int = 42
    n_seeds: int = 1
    split: str = "folds"
    training: TrainingConfig | None = None
    categories: str = "code"
    nrmse_by: str = "std"
    together: bool = True
    variants: tuple[Variant, ...] = ()
    keep_knots: bool = False
    bins: str = DEFAULT_BINS
    first_folds: int | None = None
    description: str = ""

    def __post_init__(self) -> None:
        self._convert()
        self._check_entries()
        self._check_sizes()
        kinds = {name: METHOD_TABLE[name] for name in self.methods}
        learned = [name for name, kind in kinds.items() if kind.learnable or kind.embedding is not None]
        has_linear = any(isinstance(choice.config, LinearConfig) for choice in self.backbones)
        if learned and has_linear:
            raise argument_error("methods", "have fixed knots and no embedding in front of a linear model", learned)
        if has_linear and any(variant.interactions for variant in self.variants):
            raise argument_error("variants", "have no interactions in front of a linear model", self.variants)
        for name, least in {"folds": 2 if self.split == "folds" else 1, "seed": 0, "n_seeds": 1}.items():
            check_int(getattr(self, name), name, minimum=least)
        if self.first_folds is not None and check_int(self.first_folds, "first_folds", minimum=1) > self.folds:
            raise argument_error("first_folds", f"be at most folds={self.folds}", self.first_folds)
        bins = (DEFAULT_BINS, *(name for name in PLACEMENTS if not resolve_placement(name).supervised))
        choices = {"split": SPLITS, "categories": CATEGORIES, "nrmse_by": ("std", "range"), "bins": bins}
        for name, values in choices.items():
            check_choice(getattr(self, name), name, values)
        if self.bins != DEFAULT_BINS and any(kind.adaptive for kind in kinds.values()):
            raise argument_error("bins", "be 'cart' for PLE-Adaptive", self.bins)
        for name in ("together", "keep_knots"):
            check_bool(getattr(self, name), name)
        for variant in self.variants:
            self.config_of(variant.name)

    def _convert(self) -> None:
        """Convert values of a TOML file to the types of the fields."""
        _check_types(self, ("name", "description"), str, "be text")
        _check_name(self.name, "name")
        _check_types(self, ("sizes", "tables", "backbones", "variants"), list | tuple, "be a list")
        preset = self.training.get("preset", "paper") if isinstance(self.training, Mapping) else "paper"
        example = "{path = 'flats.csv', target = 'rent'}"
        converted = {
            "methods": _read_names(self.methods, "methods"),
            "datasets": _read_names(self.datasets, "datasets"),
            "sizes": tuple(self.sizes),
            "backbones": tuple(BackboneChoice.from_value(value, preset) for value in self.backbones),
            "variants": tuple(map(Variant.from_value, self.variants)),
            "tables": tuple(_read(TableFile, each, "tables", example) for each in self.tables),
            "training": _read_training({} if self.training is None else self.training),
        }
        for name, value in converted.items():
            object.__setattr__(self, name, value)

    def _check_entries(self) -> None:
        """Check that lists have valid entries, at least one and without duplicates."""
        for name in self.datasets:
            check_choice(name, "datasets", KEYS)
        for name in self.methods:
            check_method(name, "methods")
        if not self.names:
            raise argument_error("datasets", "name at least one data set, unless tables do", self.datasets)
        lists: dict[str, Collection[Any]] = {
            "methods": self.methods,
            "backbones": [(choice.label, choice.tokens) for choice in self.backbones],
            "sizes": self.sizes,
            "datasets and tables": self.names,
            "variants": [variant.name for variant in self.variants],
        }
        for name, entries in lists.items():
            if not entries and name in ("methods", "backbones"):
                raise argument_error(name, "have at least one entry", entries)
            if len(set(entries)) < len(entries):
                raise argument_error(name, "have no duplicate entries", list(entries))

    def _check_sizes(self) -> None:
        """Check that sizes are valid for the methods."""
        sized = [name for name in self.methods if METHOD_TABLE[name].has_size]
        if bool(sized) != bool(self.sizes):
            requirement = f"be given for {listed(sized)}" if sized else "be empty, because no method has a size"
            raise argument_error("sizes", requirement, self.sizes)
        smallest = max((2, *(METHOD_TABLE[name].smallest_size for name in sized)))
        for size in self.sizes:
            check_int(size, "sizes", minimum=smallest, hint="Cubic splines have 4 columns or more.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all data sets: keys first, then users' files."""
        return (*self.datasets, *(table.name for table in self.tables))

    @property
    def config(self) -> TrainingConfig:
        """Training settings."""
        assert self.training is not None
        return self.training

    @property
    def variant_names(self) -> tuple[str | None, ...]:
        """Names of the variants; ``(None,)`` if there are none."""
        return tuple(variant.name for variant in self.variants) or (None,)

    def config_of(self, variant: str | None) -> TrainingConfig:
        """Return the training settings of a variant, given by its name."""
        variants = {choice.name: choice for choice in self.variants}
        return self.config if variant is None else variants[variant].applied_to(self.config)

    def interactions_of(self, variant: str | None) -> InteractionConfig | None:
        """Return the interactions of a variant, given by its name."""
        return {choice.name: choice.interactions for choice in self.variants}.get(variant or "")

    @property
    def n_networks(self) -> int:
        """Number of networks."""
        per_fold = len(self.names) * len(self.backbones) * len(self.encodings) * len(self.variant_names)
        return per_fold * len(self.trained_folds) * self.n_seeds

    @property
    def trained_folds(self) -> range:
        """The folds that are trained."""
        return range(self.folds if self.first_folds is None else self.first_folds)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Every method with each of its sizes."""
        return tuple(
            Encoding(method, size)
            for method in self.methods
            for size in (self.sizes if METHOD_TABLE[method].has_size else (None,))
        )

    @property
    def plan_hash(self) -> str:
        """SHA-256 of the plan without its description and the folders of files."""
        content = self.to_mapping()
        del content["description"]
        content["tables"] = [{**asdict(table), "path": table.name} for table in self.tables]
        content["training"] = self.config.identity()
        content["variants"] = [{**each.settings, "training": list(each.training.items())} for each in self.variants]
        for name, default in NEWER_FIELDS.items():  # plans without these fields keep the hash of earlier versions
            if content[name] == default:
                del content[name]
        return digest(content)

    def to_mapping(self) -> dict[str, Any]:
        """Return the content of a file of this plan, for `from_mapping`; paths of tables are absolute."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {
            "backbones": [{**choice.settings, "label": choice.label} for choice in self.backbones],
            "tables": [{**asdict(table), "path": str(Path(table.path).absolute())} for table in self.tables],
            "training": asdict(self.config),
            "variants": [variant.settings for variant in self.variants],
        }

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any], folder: Path | None = None) -> "Plan":
        """Make a plan from the content of a TOML file; paths of tables are relative to `folder`."""
        plan = _read(cls, content, "a plan")
        if folder is None:
            return plan
        placed = tuple(replace(table, path=str(folder / Path(table.path).expanduser())) for table in plan.tables)
        return replace(plan, tables=placed)


def load_plan(name_or_path: str | PathLike[str]) -> Plan:
    """Load a built-in plan by its name, or a plan from a TOML file.

    Parameters
    ----------
    name_or_path : str or path
        One of `PLANS`, or a file that ends in ``.toml``.

    Examples
    --------
    >>> load_plan("paper").n_networks
    14250
    """
    text = str(name_or_path)
    path = PLANS[text] if text in PLANS else Path(text).expanduser()
    if text not in PLANS and (path.suffix != ".toml" or not path.is_file()):
        raise argument_error("plan", f"be one of {listed(PLANS, most=40)}, or a .toml file that exists", text)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise argument_error("plan", "be a TOML file", text, f"The reader reports: {error}.") from error
    return Plan.from_mapping({"name": path.stem, **content}, path.parent)


def _check_name(value: str, name: str) -> None:
    """Raise an error unless the value is valid as a file name."""
    if not FILE_NAME.fullmatch(value):
        requirement = "have 1 to 100 characters, none of them / \\ or a line end, and no dot as the first"
        raise argument_error(name, requirement, value, "Files are named after it.")


def _read_training(value: Any) -> TrainingConfig:
    """Read the table `training`: a preset, and the settings that differ from it."""
    if isinstance(value, Mapping):
        preset = check_choice(value.get("preset", "paper"), "preset", ("paper", "default"))
        _check_keys(value, TrainingConfig, "training", "preset")
        value = replace(
            TrainingConfig.paper() if preset == "paper" else TrainingConfig(),
            **{name: setting for name, setting in value.items() if name != "preset"},
        )
    if not isinstance(value, TrainingConfig):
        raise type_error("training", "be a table or a TrainingConfig", value)
    return _without_time_limit(value)


def _read_interactions(value: Any) -> InteractionConfig | None:
    """Read the interactions of a variant: a number of pairs, "auto", or a table of settings."""
    if isinstance(value, Mapping):
        value = _read(InteractionConfig, value, "interactions of a variant")
    config = None if value is None else InteractionConfig.from_value(value)
    if config is not None and isinstance(config.pairs, tuple):
        raise argument_error("pairs", "be 'auto' or a number of pairs in a study", config.pairs)
    return config


def _without_time_limit(config: TrainingConfig) -> TrainingConfig:
    """Return a configuration, or raise an error if it has a time limit."""
    if config.time_limit is not None:
        hint = "Scores would depend on the machine's speed."
        raise argument_error("time_limit", "not be given in a study", config.time_limit, hint)
    return config


def _read_names(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise type_error(name, "be a list of names", value)
    return tuple(value)


def _check_types(instance: object, names: Collection[str], kind: Any, requirement: str) -> None:
    """Raise an error unless the fields of an instance have a type."""
    for name in names:
        if not isinstance(getattr(instance, name), kind):
            raise type_error(name, requirement, getattr(instance, name))


def _read(kind: type[Settings], value: Any, where: str, example: str = "") -> Settings:
    """Read a table of a plan as the dataclass `kind`, which checks the values."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise type_error(where, f"be tables such as {example}", value)
    _check_keys(value, kind, where)
    return kind(**value)


def _check_keys(content: Mapping[str, Any], kind: type[Any], where: str, *more: str) -> None:
    """Raise an error unless keys are fields of a dataclass, or in `more`, and no field without a default is missing."""
    keys = [*more, *(each.name for each in fields(kind))]
    for key in content:
        if key not in keys:
            raise argument_error(f"key of {where}", f"be one of {listed(keys, most=40)}", key)
    for each in fields(kind):
        if each.name not in content and each.default is MISSING and each.default_factory is MISSING:
            raise argument_error(where, f"have the key {each.name!r}", dict(content))
