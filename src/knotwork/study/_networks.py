"""Networks of a study, with keys that cover everything their results depend on, and units of networks."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from knotwork.encoders import FEATURE_CANDIDATES, METHOD_TABLE, PER_FEATURE, Encoding, EncodingName
from knotwork.knots import placement_traits
from knotwork.study._folder import digest
from knotwork.study._plan import DEFAULT_BINS, BackboneChoice, Plan

RECORD_VERSION = 1
"""Part of every key: increase it when a change to the library changes results, so that networks are trained again."""

KNOT_SETTINGS = ("knot_rate", "knot_warmup", "spacing_weight", "knot_spacing")
"""Training settings that affect only methods with learned knots."""


def _traits(name: str) -> list[str]:
    """Return the parts of a key that describe a method: itself, the settings of its placement, and any embedding."""
    method = METHOD_TABLE[name]
    key = None if method.placement is None else placement_traits(method.placement).key
    return [repr(method), str(key), *([] if method.embedding is None else [str(method.embedding)])]


BUILT_IN_TRAITS = {name: _traits(name) for name in METHOD_TABLE}
"""The library's methods and the settings of their placements; their keys contain only the name."""


@dataclass(frozen=True)
class DataIdentity:
    """The values that identify a table in keys of networks; `sha256` is the checksum of its source."""

    sha256: str
    target: str
    task: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    n_rows: int


class FoldEncoding(NamedTuple):
    """An encoding with fixed knots, which is fitted in a fold, and the number of pairs of columns to find there."""

    encoding: Encoding
    fold: int
    pairs: int | str | None = None


@dataclass(frozen=True)
class NetworkSpec:
    """One network of a study; `key` is the SHA-256 of everything that its result depends on.

    `pairs` is the number of pairs of columns to find for its interactions, or "auto".
    """

    dataset: str
    backbone: BackboneChoice
    encoding: Encoding
    fold: int
    seed: int
    variant: str | None = None
    pairs: int | str | None = None
    key: str = ""

    @property
    def fold_encoding(self) -> FoldEncoding:
        """The encoding that it starts from, and the pairs of its interactions."""
        return FoldEncoding(self.encoding.start, self.fold, self.pairs)

    @property
    def identity(self) -> dict[str, str | int | None]:
        """The columns of records that identify a network for readers."""
        return {
            "dataset": self.dataset,
            "backbone": self.backbone.label,
            "tokens": self.backbone.tokens,
            "method": self.encoding.method,
            "size": self.encoding.size,
            "fold": self.fold,
            "seed": self.seed,
            "variant": self.variant,
        }


@dataclass(frozen=True)
class Unit:
    """Networks of one data set and backbone that are trained together and recorded together.

    `size` is the size of networks with a size; None if there are none. `fold` is their fold; None for several folds. If
    `alone`, the unit is a single network.
    """

    dataset: str
    backbone: BackboneChoice
    size: int | None
    networks: tuple[NetworkSpec, ...]
    alone: bool = False
    fold: int | None = None

    @property
    def name(self) -> str:
        """Name in messages."""
        size = "" if self.size is None else f", size {self.size}"
        method = f", {self.networks[0].encoding.method}" if self.alone else ""
        fold = "" if self.fold is None else f", fold {self.fold}"
        variants = {network.variant for network in self.networks}
        variant = f", {self.networks[0].variant}" if len(variants) == 1 and None not in variants else ""
        return f"{self.dataset}, {self.backbone.title}{size}{method}{fold}{variant}"

    @property
    def slot(self) -> str:
        """Name of its lock, which does not depend on the networks that are still missing."""
        network = list(self.networks[0].identity.values()) if self.alone else self.fold
        return digest([self.dataset, self.backbone.label, self.backbone.settings, self.size, network])[:20]

    @property
    def record_name(self) -> str:
        """Name of its record, which is a function of its networks."""
        return f"{self.dataset}-{self.backbone.label}-{self.size}-{digest([n.key for n in self.networks])[:20]}"


def expand(plan: Plan, name: str, identity: DataIdentity) -> list[NetworkSpec]:
    """Return the networks of a plan on the data set `name`.

    Notes
    -----
    A key covers the data, the split, the method and its size, the backbone and the training, but not the rest of the
    plan: adding or changing a method does not change the keys of other networks.
    """
    networks = [
        NetworkSpec(name, choice, encoding, fold, plan.seed + fold + plan.folds * repeat, variant, pairs)
        for choice in plan.backbones
        for variant, interactions in [(each, plan.interactions_of(each)) for each in plan.variant_names]
        for pairs in [None if interactions is None else interactions.pairs]
        for encoding in plan.encodings
        for repeat in range(plan.n_seeds)
        for fold in plan.trained_folds
    ]
    return [replace(network, key=digest(_key_parts(plan, identity, network))) for network in networks]


def _key_parts(plan: Plan, data: DataIdentity, network: NetworkSpec) -> dict[str, object]:
    """Return the content of a key. Newer settings are omitted at their defaults, so that earlier keys stay valid."""
    encoding, method, fold = network.encoding, network.encoding.kind, network.fold
    training, interactions = plan.config_of(network.variant).identity(), plan.interactions_of(network.variant)
    if not method.learnable:
        training = {name: value for name, value in training.items() if name not in KNOT_SETTINGS}
    parts = {
        "version": RECORD_VERSION,
        "data": asdict(data),
        "split": [plan.split, plan.seed, plan.folds if plan.split == "folds" else None, fold],
        "method": encoding.method,
        "size": encoding.size,
        "backbone": network.backbone.settings,
        "training": training,
        "categories": plan.categories if data.categorical and not network.backbone.config.takes_tokens else None,
        "nrmse_by": plan.nrmse_by if data.task == "regression" else None,
        "together": plan.together,
    }
    later = {
        "variant": network.variant,
        "seed": network.seed if network.seed != plan.seed + fold else None,
        "keep_knots": True if plan.keep_knots and method.learnable else None,
        "bins": plan.bins if plan.bins != DEFAULT_BINS and method.has_usual_bins else None,
        "registered": None if method.is_choice else _registered(encoding),
        "choice": choice_key(encoding),
        "interactions": None if interactions is None else asdict(interactions),
    }
    return parts | {name: value for name, value in later.items() if value is not None}


def _registered(encoding: Encoding) -> list[str] | None:
    """Return the settings of a method and its placement if one of them was registered by a user; otherwise None."""
    name = encoding.method if encoding.method in list(METHOD_TABLE) else EncodingName.parse(encoding.method).plain
    traits = _traits(name)
    return None if BUILT_IN_TRAITS.get(name) == traits else traits


def choice_key(encoding: Encoding) -> list[str] | None:
    """Return what the choice of encodings per column depends on besides the rows; None if there is no choice."""
    return [PER_FEATURE, *FEATURE_CANDIDATES] if encoding.kind.is_choice else None


def stack_id(keys: Iterable[str]) -> str:
    """Return the identifier of a stack, from the keys of its networks in order."""
    return digest(list(keys))[:20]


def group_units(
    networks: Iterable[NetworkSpec], *, sizes: tuple[int, ...], together: bool = True, by_fold: bool = False
) -> list[Unit]:
    """Group networks into units: one for each data set, backbone and size, or one for each network.

    Networks without a size join the unit of the smallest of `sizes`. With `by_fold` each unit has one fold, and units
    are ordered by fold and size. Networks trained alone are ordered by fold, so that all methods are timed once before
    any is timed again, because the load of the machine may change.
    """
    if not together:
        networks = list(networks)
        places = {name: place for place, name in enumerate(dict.fromkeys(each.dataset for each in networks))}
        networks.sort(key=lambda each: (places[each.dataset], each.fold))
    smallest = min(sizes, default=None)
    groups: dict[tuple[str, BackboneChoice, int | None, int | None, str | None], list[NetworkSpec]] = {}
    for network in networks:
        size = smallest if together and network.encoding.size is None else network.encoding.size
        fold = network.fold if by_fold or not together else None
        kind = network.dataset, network.backbone, size, fold, None if together else network.key
        groups.setdefault(kind, []).append(network)
    units = [
        Unit(dataset, backbone, size, tuple(members), alone=key is not None, fold=fold)
        for (dataset, backbone, size, fold, key), members in groups.items()
    ]
    return sorted(units, key=lambda unit: (unit.fold or 0, unit.size or 0)) if by_fold else units
