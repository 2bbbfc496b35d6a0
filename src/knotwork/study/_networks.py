"""Networks of a study, each with a key that says all its result depends on, and the units they are trained in."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from knotwork.encoders._methods import Encoding
from knotwork.study._choices import BackboneChoice
from knotwork.study._data import DataIdentity
from knotwork.study._plan import DEFAULT_BINS, Plan

__all__ = ["RECORD_VERSION", "NetworkSpec", "Unit", "expand", "group_units"]

RECORD_VERSION = 1
"""Part of every key: it grows when a change of the library changes results, and what was recorded before is redone."""

KNOT_SETTINGS = ("knot_rate", "knot_warmup", "spacing_weight")
"""Settings of training that only methods with learned knots depend on."""


@dataclass(frozen=True)
class NetworkSpec:
    """One network of a study.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    backbone : BackboneChoice
        The backbone.
    encoding : Encoding
        Method and size.
    fold, seed : int
        Number of the fold, and its seed.
    key : str
        SHA-256 of everything that the result depends on.
    variant : str, optional
        Name of the variant of training.
    """

    dataset: str
    backbone: BackboneChoice
    encoding: Encoding
    fold: int
    seed: int
    key: str
    variant: str | None = None

    @property
    def identity(self) -> tuple[str, str, str | None, str, int | None, int, int, str | None]:
        """What a reader of the records tells networks apart by."""
        choice, encoding = self.backbone, self.encoding
        return (
            self.dataset,
            choice.label,
            choice.tokens,
            encoding.method,
            encoding.size,
            self.fold,
            self.seed,
            self.variant,
        )


@dataclass(frozen=True)
class Unit:
    """Networks that are trained together and recorded together.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    backbone : BackboneChoice
        The backbone.
    size : int or None
        Columns per feature of those that have a size; None if none has.
    networks : tuple of NetworkSpec
        The networks.
    alone : bool
        Whether networks are trained one by one, each a unit of its own.
    """

    dataset: str
    backbone: BackboneChoice
    size: int | None
    networks: tuple[NetworkSpec, ...]
    alone: bool = False

    @property
    def variant(self) -> str | None:
        """Name of the variant of training of all its networks."""
        return self.networks[0].variant

    @property
    def name(self) -> str:
        """What it is called in messages."""
        tokens = f" ({self.backbone.tokens} tokens)" if self.backbone.tokens else ""
        size = "" if self.size is None else f", size {self.size}"
        own = f", {self.networks[0].encoding.method}, fold {self.networks[0].fold}" if self.alone else ""
        variant = "" if self.variant is None else f", {self.variant}"
        return f"{self.dataset}, {self.backbone.label}{tokens}{size}{own}{variant}"

    @property
    def slot(self) -> str:
        """What two processes must not work on at once, whatever each still has to do in it."""
        own = self.networks[0].identity[:-1] if self.alone else None
        parts = [self.dataset, self.backbone.label, self.backbone.settings, self.size, own]
        return _digest(parts if self.variant is None else [*parts, self.variant])[:20]

    @property
    def record_name(self) -> str:
        """Name of its record: the same networks always have the same."""
        return f"{self.dataset}-{self.backbone.label}-{self.size}-{_digest([n.key for n in self.networks])[:20]}"


def expand(plan: Plan, name: str, identity: DataIdentity) -> list[NetworkSpec]:
    """Return the networks of a plan on one of its data sets.

    Parameters
    ----------
    plan : Plan
        The plan.
    name : str
        Name of the data set in the plan.
    identity : DataIdentity
        What the data set is.

    Notes
    -----
    A key covers the data, the split, the method and its size, the backbone and the training, but nothing else of the
    plan: a method that is added, or changed, leaves the keys of the others as they are.
    """
    return [
        NetworkSpec(name, choice, encoding, fold, plan.seed + fold, key, variant)
        for choice in plan.backbones
        for variant in plan.variant_names
        for encoding in plan.encodings
        for fold in range(plan.folds)
        for key in [_digest(_parts(plan, identity, choice, (encoding, variant), fold))]
    ]


def _parts(
    plan: Plan, data: DataIdentity, choice: BackboneChoice, kind: tuple[Encoding, str | None], fold: int
) -> dict[str, object]:
    """Return what a key covers; what plans did not have at first is there only where a plan has it."""
    encoding, variant = kind
    training = asdict(plan.config_of(variant))
    method = encoding.kind
    if not method.learnable:
        training = {name: value for name, value in training.items() if name not in KNOT_SETTINGS}
    parts = {
        "version": RECORD_VERSION,
        "data": asdict(data),
        "split": [plan.split, plan.seed, plan.folds if plan.split == "folds" else None, fold],
        "method": encoding.method,
        "size": encoding.size,
        "backbone": choice.settings,
        "training": training,
        "categories": plan.categories if data.categorical and not choice.config.takes_tokens else None,
        "nrmse_by": plan.nrmse_by if data.task == "regression" else None,
        "together": plan.together,
    }
    later = {
        "variant": variant,
        "keep_knots": True if plan.keep_knots and method.learnable else None,
        "bins": plan.bins if plan.bins != DEFAULT_BINS and method.has_bins else None,
    }
    return parts | {name: value for name, value in later.items() if value is not None}


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def group_units(networks: Iterable[NetworkSpec], *, sizes: tuple[int, ...], together: bool = True) -> list[Unit]:
    """Put networks of one data set into units: one for each backbone, variant and size.

    Parameters
    ----------
    networks : iterable of NetworkSpec
        The networks.
    sizes : tuple of int
        Sizes of the plan; networks without a size join those of the smallest.
    together : bool
        If not, every network is a unit of its own.
    """
    smallest = min(sizes, default=None)
    units: dict[object, list[NetworkSpec]] = {}
    for network in networks:
        size = network.encoding.size if network.encoding.size is not None else smallest
        place = (network.dataset, network.backbone, network.variant, size) if together else network
        units.setdefault(place, []).append(network)
    return [
        Unit(
            members[0].dataset,
            members[0].backbone,
            size if not together or size is not None else smallest,
            tuple(members),
            alone=not together,
        )
        for members in units.values()
        for size in [members[0].encoding.size]
    ]
