"""The terms of an additive model: curves of numbers, effects of categories, and surfaces of two columns.

A term has functions, few of them non-zero in a row: cubic B-splines with knots at quantiles, an indicator for
missing values or for a category, or products of those of two columns. `Term.encode` returns these few. The fit uses
combinations of them, whose coefficients beta give those of the functions by ``transform @ beta``, and which are

- centred: a term has the mean zero over the training rows, so that the intercept is the mean;
- such that penalties are diagonal. The two penalties of a curve are S1, the squared differences of neighbouring
  coefficients, and S2, the squared differences of their slopes: S1 shrinks a curve towards zero, S2 towards a line.
  Because S1 is positive definite for centred curves, there is a U with ``U' S1 U = 1`` and ``U' S2 U`` diagonal.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag, eigh, null_space

from knotwork._equals import EQUAL, by_size
from knotwork._loops import compiled, fill_splines, find_intervals
from knotwork._preparation.columns import CodedTable
from knotwork.basis import BSpline, FloatArray, binary_unit
from knotwork.knots import Column, QuantilePlacement

FEW_VALUES = 8
"""Maximum number of distinct values that each have a coefficient, joined by straight lines."""

CUBIC_FUNCTIONS = 4
"""The fewest functions of a cubic curve."""

WIDE_GAP = 0.5
"""Share of the distance of two knots from which on a gap between values is wide, a convention."""

WIDEST_GAP = 1e3
"""Maximum ratio of a distance of knots to the typical one: an outlier must not determine all slopes."""

MOST_LEVELS, SIDE_LEVELS = 300, 20
"""Categories with their own effect, the most frequent ones, alone and in a surface; the others share one."""

VALUES_PER_PASS = 256
"""Values whose intervals are found together: they stay in the cache."""


class Local(NamedTuple):
    """The functions of a term that can differ from zero, for n rows: runs of k neighbours, which add up to one.

    Parameters
    ----------
    starts : ndarray of int32, shape (n, n_runs)
        Place of the first function of each run.
    values : ndarray of shape (n, n_runs, k)
        Values of the functions.
    """

    starts: npt.NDArray[np.int32]
    values: FloatArray


@dataclass(frozen=True)
class Shape:
    """What a curve must be: `rising` is 1, -1 or 0 (any), `bending` is 1 (convex), -1 (concave) or 0 (any).

    A straight curve is a line from one end of the column to the other.
    """

    rising: int = 0
    bending: int = 0
    is_straight: bool = False

    @property
    def is_free(self) -> bool:
        """Whether the curve may have any shape."""
        return not self.rising and not self.bending and not self.is_straight


@dataclass(frozen=True, eq=False)
class Space:
    """The combinations of functions that are fitted.

    Parameters
    ----------
    transform : ndarray of shape (n_functions, q)
        Coefficients of the functions for each coefficient of the fit.
    penalties : tuple of ndarray of shape (q,)
        Diagonals of the penalties, of coefficients that are rotated.
    rotation : ndarray of shape (q, q), optional
        Orthogonal: penalty k is ``rotation diag(penalties[k]) rotation'``; by default the identity.
    bounded : ndarray of bool, shape (q,), optional
        Which coefficients must not be negative; by default none.
    """

    transform: FloatArray
    penalties: tuple[FloatArray, ...]
    rotation: FloatArray | None = None
    bounded: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Term(ABC):
    """A term, of one column or two.

    Parameters
    ----------
    name : object
        The column, or a pair of them.
    space : Space
        The combinations of functions that are fitted.
    """

    name: Any
    space: Space

    @abstractmethod
    def encode(self, table: CodedTable) -> Local:
        """Return the functions at the rows of a table."""

    @property
    def label(self) -> str:
        """The name as text."""
        return " x ".join(map(str, self.name)) if isinstance(self.name, tuple) else str(self.name)

    @property
    def width(self) -> int:
        """Number of coefficients of the fit."""
        return int(self.space.transform.shape[1])

    def combine(self, local: Local) -> FloatArray:
        """Return the combinations that are fitted, of shape (n, width), at encoded rows."""
        starts, values = local
        places = starts[:, :, None] + np.arange(values.shape[2])
        combined: FloatArray = np.einsum("nrk,nrkq->nq", values, self.space.transform[places])
        return combined


@final
@dataclass(frozen=True, eq=False)
class Curve(Term):
    """The effect of a number: B-splines after an indicator of missing values, which has an effect if any was missing.

    Parameters
    ----------
    name, space
        As for `Term`.
    place : int
        Its place in `CodedTable.numbers`.
    basis : BSpline
        The splines.
    """

    place: int
    basis: BSpline

    @classmethod
    def from_column(
        cls, name: Any, place: int, column: Column, *, size: int, shape: Shape | None = None, missing: float = 0.0
    ) -> "Curve":
        """Place the knots, at most `size` functions; `missing` is the weight of the rows without a value."""
        shape = Shape() if shape is None else shape
        basis = _basis(column, 2 if shape.is_straight else size)
        means = _means(basis, column)
        is_bounded = shape.rising or shape.bending
        space = _shaped_space(basis, means, shape) if is_bounded else _curve_space(basis, means)
        return cls(name, _with_indicator(space, missing > 0.0), place, basis)

    @property
    def has_missing(self) -> bool:
        """Whether missing values have an effect of their own."""
        return bool(self.space.transform[0].any())

    def encode(self, table: CodedTable) -> Local:
        """Return the splines around each value, or the indicator; other missing values have no function."""
        starts, values = _local(self.basis, table.numbers[:, self.place])
        return Local(starts[:, None], values[:, None])


@final
@dataclass(frozen=True, eq=False)
class Category(Term):
    """The effects of categories, shrunk towards zero.

    Parameters
    ----------
    name, space
        As for `Term`.
    place : int
        Its place in `CodedTable.codes`.
    groups : ndarray of int32, shape (n_categories + 1,)
        The function of each code, of which 0 is a missing or new category; -1 for one without training rows.
    """

    place: int
    groups: npt.NDArray[np.int32]

    @classmethod
    def from_counts(cls, name: Any, place: int, counts: FloatArray, *, most: int = MOST_LEVELS) -> "Category":
        """Take the weight of the rows of each code; all but the `most` frequent categories share an effect."""
        order = by_size(counts)[: int((counts > 0).sum())]
        groups = np.full(len(counts), -1, dtype=np.int32)
        groups[order] = np.minimum(np.arange(len(order)), most)
        totals = np.bincount(groups[order], counts[order]).astype(np.float64, copy=False)
        centring = _centring(totals / totals.sum())
        return cls(name, Space(centring, (np.ones(centring.shape[1]),)), place, groups)

    def encode(self, table: CodedTable) -> Local:
        """Return the indicator of each row's category."""
        groups = self.groups[table.codes[:, self.place]][:, None]
        return Local(groups.clip(min=0), (groups >= 0).astype(np.float64)[:, :, None])


@final
@dataclass(frozen=True, eq=False)
class Surface(Term):
    """The joint effect of two columns beyond their own: products of the functions of each; none if one is missing.

    Parameters
    ----------
    name, space
        As for `Term`.
    sides : tuple of Term
        The two columns, as free curves or categories.
    """

    sides: tuple[Term, Term]

    @classmethod
    def from_sides(cls, first: Term, second: Term) -> "Surface":
        """Multiply the functions of two columns, and their penalties."""
        sides = (first, second)
        bends = [side.space.penalties[1:] for side in sides]
        ones = [np.ones(side.width) for side in sides]
        pairs = [(ones[0], ones[1]), *((each, ones[1]) for each in bends[0]), *((ones[0], each) for each in bends[1])]
        transform = np.kron(first.space.transform, second.space.transform).astype(np.float64, copy=False)
        penalties = tuple(np.kron(*pair) for pair in pairs)
        return cls((first.name, second.name), Space(transform, penalties), sides)

    def encode(self, table: CodedTable) -> Local:
        """Return the products."""
        first, second = (side.encode(table) for side in self.sides)
        n_rows, _, n_runs = first.values.shape
        n_second = np.int32(len(self.sides[1].space.transform))
        rows = first.starts + np.arange(n_runs, dtype=np.int32)
        values = first.values.reshape(n_rows, n_runs, 1) * second.values
        starts = (rows * n_second + second.starts).astype(np.int32, copy=False)
        return Local(starts, values)


class Ties(NamedTuple):
    """A column of few distinct values.

    Parameters
    ----------
    values : ndarray of shape (n_values + 1,)
        NaN, then the values.
    codes : ndarray of int32, shape (n,)
        Which of them each row has; 0 if it is missing.
    """

    values: FloatArray
    codes: npt.NDArray[np.int32]

    @classmethod
    def from_values(cls, x: FloatArray, column: Column) -> "Ties | None":
        """Return the ties of a column, None if there are so many values that pairs of them outnumber the rows."""
        if len(column.distinct) ** 2 > len(x):
            return None
        codes = np.zeros(len(x), dtype=np.int32)
        middles = 0.5 * column.distinct[:-1] + 0.5 * column.distinct[1:]
        _fill_intervals(np.ascontiguousarray(x), np.append(-np.inf, middles), codes)
        return cls(np.append(np.nan, column.distinct), codes)

    def encode(self, curve: Curve) -> Local:
        """Return the functions of a curve at the values."""
        numbers = np.repeat(self.values[:, None], curve.place + 1, axis=1)
        return curve.encode(CodedTable(numbers, np.empty((len(numbers), 0), dtype=np.int64)))

    def local(self, rows: slice) -> Local:
        """Return the indicators of the values at some rows."""
        codes = self.codes[rows]
        return Local(codes[:, None], np.ones((len(codes), 1, 1)))


def _basis(column: Column, size: int) -> BSpline:
    """Return cubic splines with knots at quantiles, or straight lines between values if there are few or wide gaps.

    A cubic curve swings where there are no rows; a straight line never leaves the range of the values at its ends. With
    fewer than four functions the curve is one line.
    """
    values, n_values = column.distinct, len(column.distinct)
    if n_values <= FEW_VALUES or size < CUBIC_FUNCTIONS:
        return BSpline(values[1:-1] if size >= CUBIC_FUNCTIONS else values[:0], degree=1, domain=column.domain)
    size = max(min(size, n_values), CUBIC_FUNCTIONS)
    knots = QuantilePlacement()(column, size - CUBIC_FUNCTIONS)
    if not _has_gaps(column, knots):
        return BSpline(knots, degree=3, domain=column.domain)
    return BSpline(_nearest_values(QuantilePlacement()(column, size - 2), values), degree=1, domain=column.domain)


def _has_gaps(column: Column, knots: FloatArray) -> bool:
    """Return whether two neighbouring values are farther apart than half the distance of the knots around them."""
    unit = binary_unit(*column.domain)
    values, breaks = column.distinct * unit, np.concatenate([column.domain[:1], knots, column.domain[1:]]) * unit
    first = np.searchsorted(breaks, values[:-1], "right") - 1
    last = np.searchsorted(breaks, values[1:])
    widths = breaks[np.minimum(last, len(breaks) - 1)] - breaks[np.maximum(first, 0)]
    return bool((np.diff(values) > (WIDE_GAP + EQUAL) * widths).any())


def _nearest_values(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return the value of the column next to each knot, of two that are equally near the smaller one."""
    above = np.searchsorted(values, knots).clip(1, len(values) - 1)
    low, high = 0.5 * values[above - 1], 0.5 * values[above]  # halves: a difference may overflow
    is_low = 0.5 * knots - low <= (0.5 + EQUAL) * (high - low)
    nearest = np.unique(values[np.where(is_low, above - 1, above)])
    inner: FloatArray = nearest[(nearest > values[0]) & (nearest < values[-1])]
    return inner


def _local(basis: BSpline, x: FloatArray) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Return the place of the first spline, from 1, and the values of those around each x, moved into the domain.

    A missing value has the place 0, that of its indicator.
    """
    unit = binary_unit(*basis.domain)
    low, high = (end * unit for end in basis.domain)
    knots = basis.knots * unit
    inside = np.clip(x * unit, low, high)
    starts = np.zeros(len(x), dtype=np.int32)
    _fill_intervals(inside, knots, starts)
    values = np.empty((len(x), basis.degree + 1))
    t = np.concatenate([np.full(basis.degree, low), knots, np.full(basis.degree, high)])
    _fill_local((0,) * basis.degree, inside, t, starts, values)
    return starts, values


@compiled()
def _fill_intervals(x, knots, intervals):
    """Fill the number of knots at or below each value, for a few values at a time."""
    for start in range(0, len(x), VALUES_PER_PASS):
        find_intervals(x[start : start + VALUES_PER_PASS], knots, intervals[start : start + VALUES_PER_PASS])


@compiled()
def _fill_local(degrees, x, t, starts, values):
    """Fill the values of splines; `degrees` has the length of the degree, which the compiler then knows.

    `starts` has the number of knots at or below each value, and gets the place of the first spline.
    """
    degree = len(degrees)
    levels = np.empty((degree + 1, degree + 1))
    for row in range(len(x)):
        if np.isnan(x[row]):
            starts[row] = 0
            values[row, 0] = 1.0
            values[row, 1:] = 0.0
        else:
            fill_splines(x[row], degree, t, starts[row] + degree, levels)
            starts[row] += 1
            for r in range(degree + 1):
                values[row, r] = levels[degree, r]


def _means(basis: BSpline, column: Column) -> FloatArray:
    """Return the mean of each spline over the rows that have a value."""
    starts, values = _local(basis, column.distinct)
    weighted = values * (column.weights / column.weights.sum())[:, None]
    places = starts[:, None] - 1 + np.arange(values.shape[1])
    return np.bincount(places.ravel(), weighted.ravel(), basis.size).astype(np.float64, copy=False)


def centres_of(basis: BSpline) -> FloatArray:
    """Return the place of each spline in its domain, between 0 and 1: the mean of its inner knots."""
    unit = binary_unit(*basis.domain)
    low, high = (end * unit for end in basis.domain)
    clamped = np.concatenate([np.full(basis.degree, low), basis.knots * unit, np.full(basis.degree, high)])
    shares = (clamped - low) / (high - low)
    windows = np.lib.stride_tricks.sliding_window_view(shares, basis.degree)
    centres: FloatArray = windows.mean(axis=1)
    return centres


def _slopes(basis: BSpline) -> FloatArray:
    """Return the matrix that takes coefficients to their slopes, in units of the typical distance."""
    gaps = np.maximum(np.diff(centres_of(basis)), 1e-300)
    typical = np.exp(np.log(gaps).mean())
    gaps = np.clip(gaps / typical, 1.0 / WIDEST_GAP, WIDEST_GAP)
    slopes: FloatArray = np.diff(np.eye(basis.size), axis=0) / gaps[:, None]
    return slopes


def _bends(basis: BSpline) -> FloatArray:
    """Return the matrix that takes coefficients to differences of slopes, of the size of those of equal distances."""
    slopes = _slopes(basis)
    gaps = 1.0 / np.abs(slopes).max(axis=1)
    bends: FloatArray = np.diff(slopes, axis=0) * np.sqrt(gaps[1:] * gaps[:-1])[:, None]
    return bends


def _centring(means: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the coefficients of functions with these means whose sum has the mean zero."""
    basis: FloatArray = null_space(means[None])
    return basis


def _curve_space(basis: BSpline, means: FloatArray) -> Space:
    """Return centred curves in which both penalties are diagonal."""
    centring = _centring(means)
    steps = np.diff(centring, axis=0)
    flat = steps.T @ steps
    bends = _bends(basis) @ centring
    strengths, vectors = eigh(bends.T @ bends, flat)
    strengths = np.where(strengths > 1e-9 * strengths[-1], strengths, 0.0)
    penalties = (np.ones(len(strengths)), strengths) if strengths.any() else (np.ones(len(strengths)),)
    return Space(centring @ vectors, penalties)


def _shaped_space(basis: BSpline, means: FloatArray, shape: Shape) -> Space:
    """Return functions whose combinations with coefficients of at least 0 are all curves of a shape.

    Sums of B-splines from one on are I-splines: they rise. Coefficients that bend one way, over the centres of the
    splines, make a curve that does; a line beside the bends has a coefficient of at least 0 if the curve must rise.
    """
    if not shape.bending:
        transform = shape.rising * np.tril(np.ones((basis.size, basis.size)))[:, 1:]
        strengths, rotation = eigh(_squares(np.diff(np.eye(transform.shape[1]), axis=0)))
        penalties = (np.ones(len(strengths)), np.maximum(strengths, 0.0))
        bounded = np.ones(len(strengths), dtype=bool)
        return Space(transform - means @ transform, penalties, rotation, bounded)
    centres = centres_of(basis)
    mirrored = shape.bending * shape.rising < 0
    across = 1.0 - centres[::-1] if mirrored else centres
    ramps = np.maximum(across[:, None] - across[1:-1], 0.0)
    columns = np.column_stack([across, ramps])[:: -1 if mirrored else 1]
    transform = shape.bending * columns / np.maximum(np.abs(columns).max(axis=0), 1e-300)
    is_line = np.arange(transform.shape[1]) == 0
    penalties = (is_line.astype(np.float64), (~is_line).astype(np.float64))
    return Space(transform - means @ transform, penalties, None, ~is_line | (shape.rising != 0))


def _squares(matrix: FloatArray) -> FloatArray:
    squares: FloatArray = matrix.T @ matrix
    return squares


def _with_indicator(space: Space, has_missing: bool) -> Space:
    """Return a space with a leading function for missing values, whose coefficient is zero without any."""
    if not has_missing:
        return Space(np.pad(space.transform, ((1, 0), (0, 0))), space.penalties, space.rotation, space.bounded)
    width = space.transform.shape[1]
    penalties = [np.append(0.0, diagonal) for diagonal in space.penalties]
    penalties.append(np.append(1.0, np.zeros(width)))
    rotation = None if space.rotation is None else block_diag(np.ones((1, 1)), space.rotation)
    bounded = None if space.bounded is None else np.append(False, space.bounded)
    return Space(block_diag(np.ones((1, 1)), space.transform), tuple(penalties), rotation, bounded)
