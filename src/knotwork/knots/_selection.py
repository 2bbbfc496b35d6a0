"""From candidates to exactly K knots: the spacing filter, and what fills the places that are left."""

import numpy as np

from knotwork.basis._base import MIN_GAP, FloatArray, binary_unit
from knotwork.knots._column import Column

__all__ = ["complete", "select_spaced", "separated"]


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
