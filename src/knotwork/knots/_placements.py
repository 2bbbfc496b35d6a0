"""Placements: rules that turn a column into knots, and their registry.

A rule proposes candidates: quantiles, equal distances, splits of trees. `select_spaced` and `complete` make exactly K
knots of them, whatever the column holds.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Protocol

import numpy as np

from knotwork._checks import argument_error, listed
from knotwork.basis._families import MIN_GAP, FloatArray, binary_unit
from knotwork.knots._columns import Column, Target
from knotwork.knots._trees import cart_thresholds, lightgbm_thresholds

__all__ = [
    "PLACEMENTS",
    "CartPlacement",
    "LightGBMPlacement",
    "Placement",
    "PlacementTraits",
    "QuantilePlacement",
    "TreePlacement",
    "UniformPlacement",
    "complete",
    "placement_traits",
    "resolve_placement",
    "select_spaced",
    "separated",
]


class Placement(Protocol):
    """A rule that turns a column into knots.

    Any object with this call and a flag `supervised`, which says whether it needs the target, can be given to an
    encoder in place of a name. It must return exactly `n_knots` knots, strictly increasing and strictly inside
    ``column.domain``; `complete` fills up what a rule leaves open. Where it is registered in `PLACEMENTS`, it may also
    state `short` (in names of methods), `label` (in reports) and `key` (text that identifies it and its settings, for
    caches): see `PlacementTraits`.
    """

    @property
    def supervised(self) -> bool:
        """Whether the placement needs the target."""

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots for a column."""


class _Chosen:
    """Knots chosen so far, in order, between the ends of the domain."""

    def __init__(self, domain: tuple[float, float]) -> None:
        self.unit = binary_unit(*domain)
        self.points = [domain[0], domain[1]]
        self.width = domain[1] * self.unit - domain[0] * self.unit

    def __len__(self) -> int:
        return len(self.points) - 2

    @property
    def knots(self) -> FloatArray:
        return np.array(self.points[1:-1])

    def gaps(self) -> FloatArray:
        return np.diff(np.array(self.points) * self.unit)

    def add(self, knot: float, min_spacing: float = 0.0) -> bool:
        """Add a knot if it is at least a share `min_spacing` of the domain away from other knots, and inside it."""
        place = int(np.searchsorted(self.points, knot))
        if not 0 < place < len(self.points):
            return False
        left, right = (abs(knot * self.unit - self.points[index] * self.unit) for index in (place - 1, place))
        least = min_spacing * self.width * (1.0 - 1e-12)
        far_left = left > MIN_GAP and (left >= least or place == 1)
        far_right = right > MIN_GAP and (right >= least or place == len(self.points) - 1)
        if far_left and far_right:
            self.points.insert(place, knot)
        return far_left and far_right


def select_spaced(
    thresholds: FloatArray, gains: FloatArray, column: Column, n_knots: int, min_spacing: float
) -> FloatArray:
    """Choose up to `n_knots` thresholds by gain, none nearer to another than `min_spacing` of the domain.

    Candidates are visited from the largest gain down, so that of two that are too near the better one stays.
    Their order on entry does not matter. Equal gains: the smaller threshold first.

    Parameters
    ----------
    thresholds, gains : ndarray of shape (c,)
        Candidates and how informative each is.
    column : Column
        The column, for its domain.
    n_knots : int
        How many to choose at most.
    min_spacing : float
        Smallest distance between two chosen thresholds, as a share of the domain.

    Examples
    --------
    >>> column = Column.from_values(np.array([0.0, 1.0]))
    >>> select_spaced(np.array([0.5, 0.505, 0.2]), np.array([1.0, 3.0, 2.0]), column, 3, 0.01)
    array([0.2  , 0.505])
    """
    chosen = _Chosen(column.domain)
    for index in np.lexsort((thresholds, -gains)):
        if len(chosen) == n_knots:
            break
        chosen.add(float(thresholds[index]), min_spacing)
    return chosen.knots


def separated(knots: FloatArray, column: Column) -> FloatArray:
    """Return the knots in order, without those that float64 cannot tell from another or from an end of the domain.

    Examples
    --------
    >>> separated(np.array([0.7, 0.2, 0.7, 1.0]), Column.from_values(np.array([0.0, 1.0])))
    array([0.2, 0.7])
    """
    chosen = _Chosen(column.domain)
    for knot in knots:
        chosen.add(float(knot))
    return chosen.knots


def complete(knots: FloatArray, column: Column, n_knots: int) -> FloatArray:
    """Add knots until there are `n_knots`, whatever the column holds.

    First quantiles of the column (of levels l / (n_knots + 1)), each time the one that leaves the fewest rows without
    a knot nearby. Where ties leave too few of them, the middle one of the distinct values in the gap that holds the
    most; and when no gap holds any, the middle of the widest gap.

    Parameters
    ----------
    knots : ndarray of shape (k,)
        Knots to keep, k <= n_knots.
    column : Column
        The column.
    n_knots : int
        How many knots to return.

    Returns
    -------
    ndarray of shape (n_knots,)
        Strictly increasing, strictly inside the column's domain.

    Notes
    -----
    Deviation: the paper fills with quantiles and does not say what happens when they coincide. Splitting gaps by the
    distinct values they hold keeps every function of the basis in use on zero-inflated columns.

    Examples
    --------
    >>> complete(np.empty(0), Column.from_values(np.array([3.0, 3.0])), 2)
    array([2.25, 3.  ])
    """
    chosen = _Chosen(column.domain)
    for knot in knots:
        chosen.add(float(knot))
    _add_quantiles(chosen, column, n_knots)
    _add_distinct(chosen, column, n_knots)
    while len(chosen) < n_knots:
        widest = int(np.argmax(chosen.gaps()))
        left, right = chosen.points[widest], chosen.points[widest + 1]
        if not chosen.add(0.5 * left + 0.5 * right):  # cannot happen in the domains that `column_domain` allows
            raise AssertionError(f"no number lies between {left!r} and {right!r}")
    return chosen.knots


def _add_quantiles(chosen: _Chosen, column: Column, n_knots: int) -> None:
    levels = np.arange(1, n_knots + 1) / (n_knots + 1)
    candidates = column.quantiles(levels)
    if not len(candidates):
        return
    taken = column.shares_below(chosen.knots)
    # Distance of each level from the nearest share of rows that has a knot.
    distances = np.abs(levels[:, None] - taken).min(axis=1, initial=np.inf)
    while len(chosen) < n_knots and np.any(distances >= 0):
        best = int(np.argmax(distances))
        if chosen.add(float(candidates[best])):
            distances = np.minimum(distances, np.abs(levels - levels[best]))
        distances[best] = -1.0


def _add_distinct(chosen: _Chosen, column: Column, n_knots: int) -> None:
    usable = np.ones(len(column.distinct), dtype=bool)
    while len(chosen) < n_knots:
        values = column.distinct[usable]
        first = np.searchsorted(values, chosen.points, side="right")
        last = np.searchsorted(values, chosen.points, side="left")
        counts = last[1:] - first[:-1]
        gap = int(np.argmax(counts))
        if counts[gap] <= 0:
            return
        middle = values[first[gap] + (counts[gap] - 1) // 2]
        if not chosen.add(float(middle)):
            usable[np.searchsorted(column.distinct, middle)] = False


@dataclass(frozen=True)
class UniformPlacement:
    """Knots at equal distances over the domain.

    Notes
    -----
    ``k_l = low + l / (K + 1) (high - low)`` for l = 1, ..., K.

    Examples
    --------
    >>> UniformPlacement()(Column.from_values(np.array([0.0, 8.0])), 3)
    array([2., 4., 6.])
    """

    supervised: ClassVar[bool] = False
    short: ClassVar[str] = "U"
    label: ClassVar[str] = "uniform"

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots; target and seed are not used."""
        low, high = column.domain
        share = np.arange(1, n_knots + 1) / (n_knots + 1)
        return low * (1.0 - share) + high * share


@dataclass(frozen=True)
class QuantilePlacement:
    """Knots at the quantiles of levels 1 / (K + 1), ..., K / (K + 1), so that each interval holds as many rows.

    Quantiles that coincide, as on a column with many ties, are replaced as `complete` says.

    Examples
    --------
    >>> QuantilePlacement()(Column.from_values(np.arange(101.0)), 3)
    array([25., 50., 75.])
    """

    supervised: ClassVar[bool] = False
    short: ClassVar[str] = "Q"
    label: ClassVar[str] = "quantile"

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots; target and seed are not used."""
        return complete(np.empty(0), column, n_knots)


class TreePlacement(ABC):
    """A placement at the most informative splits of trees, as far as they are not too near to a better one.

    The best K are kept, and places that are left are filled as `complete` says. A column without a split has quantile
    knots. The splits do not depend on the number of knots.
    """

    min_spacing: float
    supervised: ClassVar[bool] = True

    @abstractmethod
    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of the trees and how informative each is."""

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots."""
        thresholds, gains = self.thresholds(column, target, seed)
        return complete(select_spaced(thresholds, gains, column, n_knots, self.min_spacing), column, n_knots)


@dataclass(frozen=True)
class CartPlacement(TreePlacement):
    """Knots at the most informative splits of one regression or classification tree (CART).

    Parameters
    ----------
    max_depth : int
        Depth of the tree.
    min_samples_leaf, min_samples_split : int
        Fewest rows of a leaf, and of a node that is split.
    min_spacing : float
        Smallest distance between two splits, as a share of the domain.

    Notes
    -----
    A split of node v into L and R is as informative as ``I(v) - n_L / n_v I(L) - n_R / n_v I(R)``, where I is the
    variance or the Gini impurity and n counts rows, by weight.
    """

    max_depth: int = 6
    min_samples_leaf: int = 10
    min_samples_split: int = 20
    min_spacing: float = 0.01
    short: ClassVar[str] = "CART"
    label: ClassVar[str] = "CART"

    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of the tree and how informative each is; they do not depend on the number of knots."""
        return cart_thresholds(
            column,
            target,
            seed=seed,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            min_samples_split=self.min_samples_split,
        )


@dataclass(frozen=True)
class LightGBMPlacement(TreePlacement):
    """Knots at the splits of a gradient-boosted ensemble (LightGBM) with the largest total gain.

    The gain of a threshold is summed over all trees that use it, for several classes over the trees of all classes.

    Parameters
    ----------
    n_trees, max_depth, learning_rate : int, int, float
        The ensemble.
    min_samples_leaf : int
        Fewest rows of a leaf.
    min_spacing : float
        Smallest distance between two splits, as a share of the domain.
    """

    n_trees: int = 100
    max_depth: int = 3
    learning_rate: float = 0.1
    min_samples_leaf: int = 20
    min_spacing: float = 0.01
    short: ClassVar[str] = "LGBM"
    label: ClassVar[str] = "LightGBM"

    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of all trees and their total gains; they do not depend on the number of knots."""
        return lightgbm_thresholds(
            column,
            target,
            seed=seed,
            n_trees=self.n_trees,
            min_data_in_leaf=self.min_samples_leaf,
            max_depth=self.max_depth,
            num_leaves=2**self.max_depth,
            learning_rate=self.learning_rate,
        )


PLACEMENTS: dict[str, Placement] = {
    "uniform": UniformPlacement(),
    "quantile": QuantilePlacement(),
    "cart": CartPlacement(),
    "lgbm": LightGBMPlacement(),
}
"""The placements by name. An entry that is added serves everywhere a placement or one of its methods can be named."""


@dataclass(frozen=True)
class PlacementTraits:
    """What names, reports and caches ask of a placement.

    Parameters
    ----------
    short : str
        What names of methods end with, as in ``"BS-Q"``.
    label : str
        What readers of reports see.
    key : str
        Text that identifies the placement and its settings; fitted knots are cached under it.
    """

    short: str
    label: str
    key: str


def placement_traits(name: str) -> PlacementTraits:
    """Return the traits of a registered placement; those that it does not state follow from its name and its class.

    Examples
    --------
    >>> placement_traits("quantile")
    PlacementTraits(short='Q', label='quantile', key='QuantilePlacement()')
    """
    placement: Any = PLACEMENTS[name]  # traits besides the protocol are optional
    return PlacementTraits(
        short=getattr(placement, "short", "".join(map(str.capitalize, re.findall(r"[a-zA-Z0-9]+", name)))),
        label=getattr(placement, "label", name),
        key=getattr(placement, "key", None) or _default_key(placement),
    )


def _default_key(placement: Any) -> str:
    """Return the representation, or name and settings where it is an address in memory, which is no identity."""
    text = repr(placement)
    if " at 0x" not in text:
        return text
    settings = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(placement).items()))
    named = placement if isinstance(placement, FunctionType) else type(placement)
    return f"{named.__module__}.{named.__qualname__}({settings})"


def resolve_placement(placement: str | Placement) -> Placement:
    """Return the placement of a name, or the object itself if it is one.

    Examples
    --------
    >>> resolve_placement("cart").supervised
    True
    """
    if isinstance(placement, str) and placement in PLACEMENTS:
        return PLACEMENTS[placement]
    if callable(placement) and isinstance(getattr(placement, "supervised", None), bool):
        return placement
    raise argument_error(
        "placement", f"be one of {listed(PLACEMENTS)}, or an object like knotwork.knots.CartPlacement()", placement
    )
