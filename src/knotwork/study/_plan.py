"""Plans: what a study trains, as one frozen value that is read from a TOML file."""

import hashlib
import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, type_error
from knotwork._preparation.members import SPLITS
from knotwork.datasets import KEYS
from knotwork.encoders._methods import METHOD_TABLE, Encoding, check_method
from knotwork.study._choices import (
    BackboneChoice,
    LinearConfig,
    TableFile,
    Variant,
    read_table_file,
    read_texts,
    read_training,
    refuse_unknown,
)
from knotwork.training._config import TrainingConfig
from knotwork.training._network import CATEGORIES

__all__ = ["BINS", "DEFAULT_BINS", "DIVISORS", "PLANS", "Plan", "load_plan"]

PLANS: dict[str, Path] = {path.stem: path for path in sorted((Path(__file__).parent / "plans").glob("*.toml"))}
"""The built-in plans by name."""

DIVISORS = {"std": "the standard deviation of the test target", "range": "the range of the test target"}
"""What RMSE is divided by to give NRMSE."""

DEFAULT_BINS = "cart"
BINS = (DEFAULT_BINS, "uniform", "quantile")
"""How the bins of PLE may be placed: by default as the method says."""

LATER: dict[str, Any] = {"variants": [], "keep_knots": False, "bins": DEFAULT_BINS}
"""Fields that plans did not have at first, with their defaults."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study trains: every method at every size, on every data set, with every backbone, in every fold.

    A plan checks itself: unknown names, repeated entries and settings that contradict each other are errors.

    Parameters
    ----------
    name : str
        Its name.
    methods : tuple of str
        Names of `knotwork.METHODS`, or further ones with learned knots such as ``"BS-Grad-Q"`` and ``"PLE-Grad"``.
    backbones : tuple of BackboneChoice
        The networks, or linear models (``"linear"``); also names, or mappings as in a TOML file. Settings that are not
        named are those of the paper, unless `training` says ``preset = "default"``.
    datasets : tuple of str, default=()
        Keys of `knotwork.datasets.KEYS`.
    tables : tuple of TableFile, default=()
        Users' own files.
    sizes : tuple of int, default=()
        Columns per feature, for the methods that have a size.
    folds : int, default=5
        Folds, or repetitions of a single split.
    seed : int, default=42
        Seed of the folds; what is random in fold f has the seed ``seed + f``.
    split : {"folds", "holdout"}, default="folds"
        Cross-validation, or for each seed 20 % of the rows for the test.
    training : TrainingConfig, optional
        How networks are trained; by default `TrainingConfig.paper`.
    categories : {"embedding", "code"}, default="code"
        How MLP and ResNet take categories: by default as in the paper.
    nrmse_by : {"std", "range"}, default="std"
        What RMSE is divided by.
    together : bool, default=True
        Train many networks in one stack. If not, each is trained alone, so that its time means something.
    variants : tuple of Variant, default=()
        Ways of training, each for all networks; by default there is one, `training`.
    keep_knots : bool, default=False
        Keep where learned knots are after every epoch, for `load_knot_paths`.
    bins : {"cart", "uniform", "quantile"}, default="cart"
        How the bins of PLE are placed.
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
    split: str = "folds"
    training: TrainingConfig | None = None
    categories: str = "code"
    nrmse_by: str = "std"
    together: bool = True
    variants: tuple[Variant, ...] = ()
    keep_knots: bool = False
    bins: str = DEFAULT_BINS
    description: str = ""

    def __post_init__(self) -> None:
        self._convert()
        for name in self.datasets:
            check_choice(name, "datasets", KEYS)
        for name in self.methods:
            check_method(name, "methods")
        if not self.methods:
            raise argument_error("methods", "be at least one", self.methods)
        if not self.names:
            raise argument_error("datasets", "be at least one, or tables be given", self.datasets)
        if not self.backbones:
            raise argument_error("backbones", "be at least one", self.backbones)
        for what, entries in (
            ("methods", self.methods),
            ("sizes", self.sizes),
            ("datasets and tables", self.names),
            ("backbones", [(choice.label, choice.tokens) for choice in self.backbones]),
            ("variants", [variant.name for variant in self.variants]),
        ):
            _refuse_repeated(what, entries)
        self._check_sizes()
        self._check_linear()
        check_int(self.folds, "folds", minimum=2 if self.split == "folds" else 1)
        check_int(self.seed, "seed", minimum=0)
        check_choice(self.split, "split", SPLITS)
        check_choice(self.categories, "categories", CATEGORIES)
        check_choice(self.nrmse_by, "nrmse_by", DIVISORS)
        check_choice(self.bins, "bins", BINS)
        if self.bins != DEFAULT_BINS and "PLE-Adaptive" in self.methods:
            raise argument_error("bins", "be 'cart' for PLE-Adaptive", self.bins)
        check_bool(self.together, "together")
        check_bool(self.keep_knots, "keep_knots")
        for variant in self.variants:
            self.config_of(variant.name)

    def _convert(self) -> None:
        """Bring what the user wrote into the types of the fields."""
        for name in ("name", "description"):
            if not isinstance(getattr(self, name), str):
                raise type_error(name, "be text", getattr(self, name))
        for name in ("methods", "datasets"):
            object.__setattr__(self, name, read_texts(getattr(self, name), name))
        for name in ("sizes", "tables", "backbones", "variants"):
            if not isinstance(getattr(self, name), list | tuple):
                raise type_error(name, "be a list", getattr(self, name))
        object.__setattr__(self, "sizes", tuple(self.sizes))
        preset = self.training.get("preset", "paper") if isinstance(self.training, Mapping) else "paper"
        backbones = tuple(BackboneChoice.from_value(each, preset) for each in self.backbones)
        object.__setattr__(self, "backbones", backbones)
        object.__setattr__(self, "variants", tuple(Variant.from_value(each) for each in self.variants))
        object.__setattr__(self, "tables", tuple(read_table_file(each) for each in self.tables))
        object.__setattr__(self, "training", read_training({} if self.training is None else self.training))

    def _check_sizes(self) -> None:
        """Check that sizes suit the methods."""
        sized = [name for name in self.methods if METHOD_TABLE[name].has_size]
        if bool(sized) != bool(self.sizes):
            wanted = f"be given for {listed(sized)}" if sized else "be empty, for no method has a size"
            raise argument_error("sizes", wanted, self.sizes)
        smallest = max((2, *(METHOD_TABLE[name].smallest_size for name in sized)))
        for size in self.sizes:
            check_int(size, "sizes", minimum=smallest, hint="Cubic splines have 4 columns or more.")

    def _check_linear(self) -> None:
        """Check that no linear model is to learn knots."""
        learned = [name for name in self.methods if METHOD_TABLE[name].learnable]
        if learned and any(isinstance(choice.config, LinearConfig) for choice in self.backbones):
            raise argument_error("methods", "have fixed knots in front of a linear model", learned)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all data sets: keys, then those of users' files."""
        return (*self.datasets, *(table.name for table in self.tables))

    @property
    def config(self) -> TrainingConfig:
        """How networks are trained."""
        assert self.training is not None
        return self.training

    @property
    def variant_names(self) -> tuple[str | None, ...]:
        """Names of the variants; None alone if there are none."""
        return tuple(variant.name for variant in self.variants) or (None,)

    def config_of(self, variant: str | None) -> TrainingConfig:
        """Return how the networks of a variant are trained."""
        changed = {each.name: each for each in self.variants}
        return self.config if variant is None else changed[variant].applied_to(self.config)

    @property
    def n_networks(self) -> int:
        """Number of networks."""
        return len(self.names) * len(self.backbones) * len(self.encodings) * len(self.variant_names) * self.folds

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Methods with each of their sizes."""
        return tuple(
            Encoding(method, size)
            for method in self.methods
            for size in (self.sizes if METHOD_TABLE[method].has_size else (None,))
        )

    @property
    def plan_hash(self) -> str:
        """SHA-256 of what the plan says, but for its description and where files lie."""
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "description"}
        content["backbones"] = [{"label": choice.label, **choice.settings} for choice in self.backbones]
        content["tables"] = [{**asdict(table), "path": table.name} for table in self.tables]
        content["training"] = asdict(self.config)
        content["variants"] = [asdict(variant) for variant in self.variants]
        for name, default in LATER.items():  # so that plans that say nothing of them keep their hash
            if content[name] == default:
                del content[name]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any], folder: Path | None = None) -> "Plan":
        """Make a plan from what a TOML file holds; unknown keys are refused with the list of known ones."""
        known = [field.name for field in fields(cls)]
        refuse_unknown(content, known, "a plan")
        for name in ("name", "methods", "backbones"):
            if name not in content:
                raise argument_error("plan", f"have the key {name!r}", sorted(content))
        plan = cls(**content)
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
        raise argument_error("plan", "be a TOML file", text, f"The reader says: {error}.") from error
    return Plan.from_mapping({"name": path.stem, **content}, path.parent)


def _refuse_repeated(name: str, entries: Collection[Any]) -> None:
    if len(set(entries)) < len(entries):
        raise argument_error(name, "name each once", list(entries))
