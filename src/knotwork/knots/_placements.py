"""Placements: rules that turn a column into knots, and their registry.

A rule proposes candidates: equal distances, quantiles, splits of trees. `select_spaced` chooses among them, and
`complete` adds knots until there are exactly K, for any column.

Trees are grown on the ranks of the values: splits are the same, and the scale of the column cannot move them. A split
between neighbouring values a and b is the threshold (a + b) / 2.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, listed, load_lightgbm
from knotwork._equals import by_size, first_largest
from knotwork.basis import MIN_GAP, FloatArray, binary_unit, check_knots
from knotwork.knots._columns import Column, Target
from knotwork.knots._trees import grow_tree


class Placement(Protocol):
    """A rule that turns a column into knots.

    Any object with this call and a flag `supervised` can be given to an encoder in place of a name. It must return
    exactly `n_knots` knots, strictly increasing and strictly inside ``column.domain``; `complete` adds knots where a
    rule has too few. If it is registered in `PLACEMENTS`, it may also have the attributes `short` (end of the names of
    methods, as in ``"BS-Q"``), `label` (name in reports), `key` (text that identifies it and its settings; fitted knots
    are cached under it) and `is_slow` (whether it takes seconds, so that pages place the knots of few columns by it).
    """

    @property
    def supervised(self) -> bool:
        """Whether the placement needs the target."""

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots for a column."""


class _Chosen:
    """Knots chosen so far, in order, between the ends of the domain."""

    def __init__(self, domain: tuple[float, float], knots: Iterable[float] = ()) -> None:
        self.unit = binary_unit(*domain)
        self.points = [domain[0], domain[1]]
        self.width = domain[1] * self.unit - domain[0] * self.unit
        for knot in knots:
            self.add(float(knot))

    def __len__(self) -> int:
        return len(self.points) - 2

    @property
    def knots(self) -> FloatArray:
        return np.array(self.points[1:-1])

    def add(self, knot: float, min_spacing: float = 0.0) -> bool:
        """Add a knot if it is inside the domain and at least the share `min_spacing` of it away from other knots."""
        place = int(np.searchsorted(self.points, knot))
        if not 0 < place < len(self.points):
            return False
        left, right = (abs(knot * self.unit - self.points[index] * self.unit) for index in (place - 1, place))
        least = min_spacing * self.width * (1.0 - 1e-12)  # a distance equal to the minimum up to rounding is accepted
        far_left = left > MIN_GAP and (left >= least or place == 1)
        far_right = right > MIN_GAP and (right >= least or place == len(self.points) - 1)
        if far_left and far_right:
            self.points.insert(place, knot)
        return far_left and far_right


def select_spaced(
    thresholds: FloatArray, gains: FloatArray, column: Column, n_knots: int, min_spacing: float
) -> FloatArray:
    """Choose up to `n_knots` thresholds by gain, at distances of at least the share `min_spacing` of the domain.

    Candidates are visited in order of decreasing gain, and of increasing threshold at gains that are equal up to
    rounding, so that the better of two close ones is kept and the result does not depend on their order.
    """
    chosen = _Chosen(column.domain)
    ascending = np.argsort(thresholds, kind="stable")
    for index in ascending[by_size(gains[ascending])]:
        if len(chosen) == n_knots:
            break
        chosen.add(float(thresholds[index]), min_spacing)
    return chosen.knots


def separated(knots: FloatArray, column: Column) -> FloatArray:
    """Return the knots in order, without those too close to another or to an end of the domain for float64.

    Examples
    --------
    >>> separated(np.array([0.7, 0.2, 0.7, 1.0]), Column.from_values(np.array([0.0, 1.0])))
    array([0.2, 0.7])
    """
    return _Chosen(column.domain, knots).knots


def complete(knots: FloatArray, column: Column, n_knots: int) -> FloatArray:
    """Add knots until there are `n_knots`, for any column.

    Quantiles of levels l / (n_knots + 1) are added first, each time the one farthest, in numbers of rows, from all
    knots so far. If ties leave too few quantiles, the gap with the most distinct values gets the middle one of them; if
    no gap has any, the widest gap gets its middle.

    Parameters
    ----------
    knots : ndarray of shape (k,)
        Knots to keep, k <= n_knots.
    column : Column
        The column.
    n_knots : int
        Number of knots to return.

    Returns
    -------
    ndarray of shape (n_knots,)
        Strictly increasing, strictly inside the column's domain.

    Notes
    -----
    Deviation: the paper adds quantiles and does not specify the case that they coincide. Splitting gaps by their
    distinct values keeps every function of the basis in use on zero-inflated columns.

    Examples
    --------
    >>> complete(np.empty(0), Column.from_values(np.array([3.0, 3.0])), 2)
    array([2.25, 3.  ])
    """
    chosen = _Chosen(column.domain, knots)
    _add_quantiles(chosen, column, n_knots)
    _add_distinct(chosen, column, n_knots)
    while len(chosen) < n_knots:
        widest = first_largest(np.diff(np.array(chosen.points) * chosen.unit))
        left, right = chosen.points[widest], chosen.points[widest + 1]
        if not chosen.add(0.5 * left + 0.5 * right):  # impossible in the domains that `column_domain` returns
            raise AssertionError(f"no float64 number lies between {left!r} and {right!r}")
    return chosen.knots


def _add_quantiles(chosen: _Chosen, column: Column, n_knots: int) -> None:
    levels = np.arange(1, n_knots + 1) / (n_knots + 1)
    candidates = column.quantiles(levels)
    if not len(candidates):
        return
    ends = np.array(chosen.points[:1] + candidates.tolist() + chosen.points[-1:])
    if not len(chosen) and np.all(np.diff(ends * chosen.unit) > MIN_GAP):  # the quantiles suffice
        chosen.points[1:1] = candidates.tolist()
        return
    # Distance of each level from the level of the nearest knot; -1 marks levels that have been tried.
    distances = np.abs(levels[:, None] - column.shares_below(chosen.knots)).min(axis=1, initial=2.0)
    while len(chosen) < n_knots and np.any(distances >= 0):
        best = first_largest(distances)
        if chosen.add(float(candidates[best])):
            distances = np.minimum(distances, np.abs(levels - levels[best]))
        distances[candidates == candidates[best]] = -1.0  # equal ones fail as well


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
    """Knots at the quantiles of levels 1 / (K + 1), ..., K / (K + 1), with equal numbers of rows between them.

    Quantiles that coincide, as on a column with many ties, are replaced by `complete`.

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


@dataclass(frozen=True)
class FixedPlacement:
    """Knots that are given, such as those moved by hand in `knotwork.explore`.

    Parameters
    ----------
    knots : sequence of float
        The knots in the units of the column, in any order. They must lie strictly inside the range of the column, and
        the size of the encoder must fit their number: K + degree + 1 for splines, K + 1 for piecewise-linear encoding.

    Examples
    --------
    >>> FixedPlacement([2.0, 5.0])(Column.from_values(np.array([0.0, 8.0])), 2)
    array([2., 5.])
    """

    knots: tuple[float, ...]
    supervised: ClassVar[bool] = False
    short: ClassVar[str] = "Fixed"
    label: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "knots", tuple(sorted(float(knot) for knot in self.knots)))
        except (TypeError, ValueError) as error:
            raise argument_error("knots", "be a sequence of numbers", self.knots) from error

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return the knots; target and seed are not used."""
        if len(self.knots) != n_knots:
            requirement = f"be {n_knots} numbers, as the size of the encoder needs"
            raise argument_error("knots", requirement, len(self.knots), "Change the size or the number of knots.")
        return check_knots(self.knots, column.domain)


def cart_thresholds(column: Column, target: Target | None, **limits: Any) -> tuple[FloatArray, FloatArray]:
    """Grow a tree on one column within the limits of `grow_tree`; return thresholds and gains of its splits.

    Both have shape (c,), where c is 0 for a tree without splits.
    """
    if target is None or column.codes is None or column.rows is None:
        raise AssertionError("a supervised placement needs a column with rows, and a target")
    if len(column.distinct) < 2:
        return np.empty(0), np.empty(0)
    return _informative(column.distinct, *grow_tree(column, target, **limits))


MOST_REPEATED = 5_000_000
"""Integer weights become repeated rows up to this number of rows, beyond which they are passed to trees as weights."""

LABEL_GRID = 2.0**20
"""LightGBM keeps numbers in single precision: targets of standard deviation one are rounded to multiples of its
reciprocal, so that rounding errors of double precision do not grow to those of single precision."""


def repeated_rows(n_rows: int, weights: FloatArray | None) -> tuple[npt.NDArray[np.intp], FloatArray | None]:
    """Return rows with their weights; rows of whole weights are repeated, up to `MOST_REPEATED`, and have none."""
    if weights is None:
        return np.arange(n_rows), None
    if weights.sum() <= MOST_REPEATED and np.all(weights == np.floor(weights)):
        return np.repeat(np.arange(n_rows), weights.astype(np.intp)), None
    rows = np.flatnonzero(weights > 0)
    return rows, weights[rows]


def _rows(column: Column, target: Target) -> tuple[FloatArray, npt.NDArray[Any], FloatArray | None]:
    """Return ranks, targets and weights of the rows of a column, sorted; whole weights repeat rows.

    Limits of leaves and LightGBM's bins are numbers of rows and ignore weights: only repeated rows give the same trees.
    LightGBM sums in the order of the rows: sorted, they give the same sums for every order of the table.
    """
    assert column.codes is not None
    assert column.rows is not None
    rows, weights = repeated_rows(len(column.rows), column.row_weights)
    codes = column.codes[rows]
    y: npt.NDArray[Any] = target.values[column.rows[rows]]
    order = np.lexsort((y, codes) if weights is None else (weights, y, codes))
    codes, y, weights = codes[order], y[order], None if weights is None else weights[order]
    ranks = codes.astype(np.float64) + 1.0  # from 1: a threshold's floor is the number of values below it
    return ranks, y if target.task == "classification" else _on_grid(y, weights), weights


def _on_grid(y: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return targets with mean 0 and standard deviation 1, rounded so that single precision holds them exactly."""
    deviations = y - np.average(y, weights=weights)
    spread = float(np.sqrt(np.average(deviations**2, weights=weights)))
    rounded: FloatArray = np.rint(deviations / (spread or 1.0) * LABEL_GRID) / LABEL_GRID
    return rounded


def _informative(distinct: FloatArray, after: npt.NDArray[np.intp], gains: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return thresholds half-way between neighbouring values, and their gains, without gains that are rounding errors.

    `after` has the index of the larger value.
    """
    kept = (after > 0) & (after < len(distinct)) & (gains > 1e-12 * gains.max(initial=0.0))
    return 0.5 * distinct[after[kept] - 1] + 0.5 * distinct[after[kept]], gains[kept]


def _splits(node: dict[str, Any]) -> list[tuple[int, float]]:
    """Return the splits below a node of LightGBM's dump: number of distinct values to the left, and gain."""
    if "split_gain" not in node:
        return []
    split = (int(np.floor(node["threshold"])), float(node["split_gain"]))
    return [split, *_splits(node["left_child"]), *_splits(node["right_child"])]


class TreePlacement(ABC):
    """A placement at the K splits of trees with the largest gains that are not too close to each other.

    If there are fewer, `complete` adds knots, so that a column without a split has quantile knots. The splits do not
    depend on the number of knots, and can be reused for several sizes.
    """

    min_spacing: float
    supervised: ClassVar[bool] = True

    @abstractmethod
    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of the trees and the gain of each."""

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots."""
        thresholds, gains = self.thresholds(column, target, seed)
        return complete(select_spaced(thresholds, gains, column, n_knots, self.min_spacing), column, n_knots)


@dataclass(frozen=True)
class CartPlacement(TreePlacement):
    """Knots at the splits of one regression or classification tree (CART) with the largest gains.

    Parameters
    ----------
    max_depth : int
        Depth of the tree.
    min_samples_leaf, min_samples_split : int
        Smallest number of rows of a leaf, and of a node that is split.
    min_spacing : float
        Smallest distance between two splits, as a share of the domain.

    Notes
    -----
    The gain of a split of node v into L and R is ``I(v) - n_L / n_v I(L) - n_R / n_v I(R)``, where I is the variance or
    the Gini impurity and n the total weight of the rows.
    """

    max_depth: int = 6
    min_samples_leaf: int = 10
    min_samples_split: int = 20
    min_spacing: float = 0.01
    short: ClassVar[str] = "CART"
    label: ClassVar[str] = "CART"

    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of the tree and the gain of each."""
        return cart_thresholds(
            column,
            target,
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
        Parameters of the ensemble.
    min_samples_leaf : int
        Smallest number of rows of a leaf.
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
    is_slow: ClassVar[bool] = True

    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of all trees and the total gain of each."""
        if target is None or column.codes is None or column.rows is None:
            raise AssertionError("a supervised placement needs a column with rows, and a target")
        if len(column.distinct) < 2:
            return np.empty(0), np.empty(0)
        ranks, y, weights = _rows(column, target)
        if len(ranks) < 2 * self.min_samples_leaf or np.all(y == y[0]):
            return np.empty(0), np.empty(0)
        lightgbm = load_lightgbm("placement='lgbm'", hint="Or choose placement='cart'.")
        n_classes = 0
        if target.task == "classification":
            labels, y = np.unique(y, return_inverse=True)  # a class may have no row with a value in this column
            n_classes = len(labels)
        parameters = {
            "objective": "regression" if not n_classes else "binary" if n_classes == 2 else "multiclass",
            "num_class": n_classes if n_classes > 2 else 1,
            "min_data_in_leaf": self.min_samples_leaf,
            "num_threads": 1,  # columns are fitted in parallel
            "verbosity": -1,
            "seed": seed,
            "deterministic": True,
            "force_col_wise": True,
            "max_depth": self.max_depth,
            "num_leaves": 2**self.max_depth,
            "learning_rate": self.learning_rate,
        }
        data = lightgbm.Dataset(ranks[:, None], y, weight=weights, params=parameters)
        booster = lightgbm.train(parameters, data, num_boost_round=self.n_trees)
        cuts: dict[int, float] = {}
        for tree in booster.dump_model()["tree_info"]:
            for cut, gain in _splits(tree["tree_structure"]):
                cuts[cut] = cuts.get(cut, 0.0) + gain
        return _informative(column.distinct, np.array(list(cuts), dtype=np.intp), np.array(list(cuts.values())))


PLACEMENTS: dict[str, Placement] = {
    "uniform": UniformPlacement(),
    "quantile": QuantilePlacement(),
    "cart": CartPlacement(),
    "lgbm": LightGBMPlacement(),
}
"""The placements by name. An entry that you add, and its methods, are accepted wherever such names are."""


@dataclass(frozen=True)
class PlacementTraits:
    """The optional attributes of a placement, as `Placement` describes them."""

    short: str
    label: str
    key: str
    is_slow: bool


def placement_traits(name: str) -> PlacementTraits:
    """Return the traits of a registered placement; missing ones follow from its name and its class.

    Examples
    --------
    >>> placement_traits("quantile")
    PlacementTraits(short='Q', label='quantile', key='QuantilePlacement()', is_slow=False)
    """
    placement: Any = PLACEMENTS[name]
    return PlacementTraits(
        short=getattr(placement, "short", "".join(map(str.capitalize, re.findall(r"[a-zA-Z0-9]+", name)))),
        label=getattr(placement, "label", name),
        key=getattr(placement, "key", None) or describe(placement),
        is_slow=bool(getattr(placement, "is_slow", False)),
    )


def describe(placement: Any) -> str:
    """Return a placement's representation, or class and settings if that has an address, which differs between runs.

    Any other value is described as well.
    """
    text = repr(placement)
    if " at 0x" not in text:
        return text
    settings = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(placement).items()))
    definition = placement if isinstance(placement, FunctionType) else type(placement)
    return f"{definition.__module__}.{definition.__qualname__}({settings})"


def resolve_placement(placement: str | Placement) -> Placement:
    """Return the placement with a name, or the object itself if it is a placement."""
    if isinstance(placement, str) and placement in PLACEMENTS:
        return PLACEMENTS[placement]
    if callable(placement) and isinstance(getattr(placement, "supervised", None), bool):
        return placement
    raise argument_error(
        "placement", f"be one of {listed(PLACEMENTS)}, or an object like knotwork.knots.CartPlacement()", placement
    )
