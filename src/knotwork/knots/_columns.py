"""The input of knot placement: a column of numbers, its usual range without outliers, and the target."""

from dataclasses import dataclass, replace
from math import frexp, ldexp, ulp
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice
from knotwork._loops import compiled
from knotwork._tables import missing_mask
from knotwork.basis import FloatArray, into_period
from knotwork.errors import ArgumentError

TASKS = ("regression", "classification")
"""The tasks: kinds of targets."""

MAX_INTEGER_CLASSES = 20
"""Integer targets with more distinct values than this are regression targets, if no task is given."""

MIN_FLOATS_IN_RANGE = 2.0**16
"""Ranges that contain fewer float64 numbers than this are rounding noise: the column is treated as constant."""


@dataclass(frozen=True)
class RoundingRule:
    """When values of a column count as equal: up to the rounding of a few operations.

    Parameters
    ----------
    share : float
        Relative difference, to the values or to the usual range of the column, up to which values are equal: 32 units
        in the last place, more than the rounding of a few operations such as 0.1 + 0.2, and below the resolution of
        measurements.
    trim : float
        The usual range is the range of all values, but at most `stretch` times the range without this share of the rows
        (and at least one value) at each end.
    stretch : float
        See `trim`. Outliers beyond it do not make neighbouring values equal.
    largest : float
        A trimmed range of at least this size is ignored: it is that of codes such as 2**63 among the values, next to
        which small numbers must stay distinct.
    """

    share: float = 2.0**-47
    trim: float = 0.01
    stretch: float = 100.0
    largest: float = 2.0**53


EQUAL_VALUES = RoundingRule()


def column_domain(low: float, high: float) -> tuple[float, float]:
    """Return the domain of a basis for values between low and high.

    This is ``(low, high)``; for a constant column, an interval around the value, as wide as its absolute value and at
    least 1.

    Examples
    --------
    >>> column_domain(0.0, 2.0), column_domain(7.0, 7.0)
    ((0.0, 2.0), (3.5, 10.5))
    """
    size = max(abs(low), abs(high))
    if 0.5 * high - 0.5 * low > 0.5 * MIN_FLOATS_IN_RANGE * ulp(size):
        return low, high
    middle, reach = 0.5 * low + 0.5 * high, 0.5 * max(1.0, size)
    largest = float(np.finfo(np.float64).max)
    return max(middle - reach, -largest), min(middle + reach, largest)


@dataclass(frozen=True, eq=False)
class Column:
    """Summary of a column for the placement of knots, without missing values and rows of weight zero.

    Parameters
    ----------
    distinct : ndarray of shape (u,)
        The distinct values in increasing order; empty if all are missing.
    weights : ndarray of shape (u,)
        Total weight of the rows with each distinct value; their number if there are no sample weights.
    codes : ndarray of shape (n,) or None
        Index into `distinct` for each row; None for a summary of batches.
    rows : ndarray of shape (n,) or None
        Indices of these rows in the table.
    row_weights : ndarray of shape (n,) or None
        Weight of each row; None if all weights are equal.
    moments : tuple of float or None
        Exact mean and standard deviation, if `distinct` and `weights` are approximate.
    period : tuple of float or None
        The two ends of a period that contains all values, see `in_period`; None if the domain is the range of values.
    limits : tuple of float or None
        Smallest and largest value of the whole column, if the rows are a sample.
    """

    distinct: FloatArray
    weights: FloatArray
    codes: npt.NDArray[np.intp] | None = None
    rows: npt.NDArray[np.intp] | None = None
    row_weights: FloatArray | None = None
    moments: tuple[float, float] | None = None
    period: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None

    @classmethod
    def from_values(
        cls, values: npt.NDArray[Any], sample_weight: FloatArray | None = None, *, with_rows: bool = True
    ) -> "Column":
        """Summarise the values of a column; NaN are missing.

        Only supervised placements need `with_rows`. Without, rows of equal weight are only sorted, which is several
        times faster than locating each of them.

        Examples
        --------
        >>> column = Column.from_values(np.array([2.0, 1.0, np.nan, 2.0]))
        >>> column.distinct, column.weights
        (array([1., 2.]), array([1., 2.]))
        """
        kept = ~np.isnan(values)
        if sample_weight is not None:
            kept &= sample_weight > 0
        if not with_rows and (sample_weight is None or np.all(sample_weight == 1.0)):
            distinct, counts = np.unique(values[kept], return_counts=True)
            return cls(distinct.astype(np.float64), counts.astype(np.float64)).joined()
        rows = np.flatnonzero(kept)
        distinct, codes, counts = np.unique(values[rows].astype(np.float64), return_inverse=True, return_counts=True)
        if sample_weight is None:
            return cls(distinct, counts.astype(np.float64), codes, rows).joined()
        row_weights = sample_weight[rows]
        totals = np.bincount(codes, row_weights, len(distinct)).astype(np.float64)
        return cls(distinct, totals, codes, rows, row_weights).joined()

    def joined(self) -> "Column":
        """Return the column with values that differ only by rounding merged; see `RoundingRule`.

        The smallest of them is kept; at the upper end of the column the largest, so that the range stays the same.

        Examples
        --------
        >>> Column(np.array([0.1, 0.3, 0.1 + 0.2]), np.ones(3)).joined().weights
        array([1., 2.])
        """
        distinct = self.distinct
        if len(distinct) < 2:
            return self
        rule, shares = EQUAL_VALUES, np.cumsum(self.weights) / self.weights.sum()
        low = distinct[max(int(np.searchsorted(shares, rule.trim)), 1)]
        high = distinct[max(min(int(np.searchsorted(shares, 1.0 - rule.trim)), len(distinct) - 2), 0)]
        with np.errstate(over="ignore"):
            trimmed = high - low
            usual = min(distinct[-1] - distinct[0], rule.stretch * trimmed) if 0.0 < trimmed < rule.largest else 0.0
            reach = rule.share * np.maximum(np.maximum(np.abs(distinct[:-1]), np.abs(distinct[1:])), usual)
            if not np.any(np.diff(distinct) <= reach):
                return self
        groups = np.empty(len(distinct), dtype=np.intp)
        _group(distinct, usual * rule.share, rule.share, groups)
        first = distinct[np.flatnonzero(np.diff(groups, prepend=-1))]
        return replace(
            self,
            distinct=np.append(first[:-1], distinct[-1]),
            weights=np.bincount(groups, self.weights).astype(np.float64),
            codes=None if self.codes is None else groups[self.codes],
        )

    @property
    def domain(self) -> tuple[float, float]:
        """The two ends of the basis: the period, or the range of values; ``(0, 1)`` if all values are missing."""
        if self.period is not None:
            return self.period
        if self.limits is not None:
            return column_domain(*self.limits)
        if not len(self.distinct):
            return 0.0, 1.0
        return column_domain(float(self.distinct[0]), float(self.distinct[-1]))

    def in_period(self, period: tuple[float, float]) -> "Column":
        """Return the column with its values shifted into a period, which becomes the domain.

        Examples
        --------
        >>> column = Column.from_values(np.array([1.0, 23.0, 25.0])).in_period((0.0, 24.0))
        >>> column.distinct, column.weights, column.domain
        (array([ 1., 23.]), array([2., 1.]), (0.0, 24.0))
        """
        moved = into_period(self.distinct, period)
        end = period[1] - EQUAL_VALUES.share * max(abs(period[0]), abs(period[1]))
        distinct, places = np.unique(np.where(moved >= end, period[0], moved), return_inverse=True)
        weights = np.bincount(places, self.weights, len(distinct)).astype(np.float64)
        codes = None if self.codes is None else places[self.codes]
        return replace(self, distinct=distinct, weights=weights, codes=codes, moments=None, period=period).joined()

    def clipped(self, low: float, high: float) -> "Column":
        """Return the column with values clipped to a range; for a summary without rows.

        Examples
        --------
        >>> Column(np.array([0.0, 1.0, 2.0, 9.0]), np.ones(4)).clipped(1.0, 3.0).distinct
        array([1., 2., 3.])
        """
        distinct, places = np.unique(np.clip(self.distinct, low, high), return_inverse=True)
        return Column(distinct, np.bincount(places, self.weights, len(distinct)).astype(np.float64))

    def stretched(self, low: float, high: float) -> "Column":
        """Return a sample of a column with its smallest and largest value replaced by those of the whole column."""
        if len(self.distinct) < 2:
            return self
        return replace(self, distinct=np.concatenate([[low], self.distinct[1:-1], [high]]))

    def mean_and_deviation(self) -> tuple[float, float]:
        """Return the weighted mean and standard deviation; ``(0, 0)`` for a column without values.

        Examples
        --------
        >>> Column.from_values(np.array([1e300, -1e300])).mean_and_deviation()
        (0.0, 1e+300)
        """
        if self.moments is not None:
            return self.moments
        if not len(self.distinct):
            return 0.0, 0.0
        largest = max(abs(self.distinct[0]), abs(self.distinct[-1]))
        unit = ldexp(1.0, min(-frexp(largest)[1], 1000))  # scaling by a power of two is exact, and squares stay finite
        scaled = self.distinct * unit
        mean = np.average(scaled, weights=self.weights)
        variance = np.average((scaled - mean) ** 2, weights=self.weights)
        return float(mean / unit), float(np.sqrt(variance) / unit)

    def median_and_spread(self) -> tuple[float, float]:
        """Return the weighted median and interquartile range; ``(0, 0)`` for a column without values.

        An interquartile range of 0 is replaced by half the range: a column with mostly equal values is not constant.

        Examples
        --------
        >>> Column.from_values(np.array([1.0, 2.0, 3.0, 4.0, 100.0])).median_and_spread()
        (3.0, 2.0)
        >>> Column.from_values(np.array([0.0, 0.0, 0.0, 0.0, 8.0])).median_and_spread()
        (0.0, 4.0)
        """
        if not len(self.distinct):
            return 0.0, 0.0
        lower, median, upper = (float(value) for value in self.quantiles([0.25, 0.5, 0.75]))
        half = (0.5 * upper - 0.5 * lower) or 0.5 * (0.5 * float(self.distinct[-1]) - 0.5 * float(self.distinct[0]))
        return median, min(2.0 * half, float(np.finfo(np.float64).max))

    def quantiles(self, levels: npt.ArrayLike) -> FloatArray:
        """Return weighted quantiles with linear interpolation between neighbouring values.

        Without weights they equal ``numpy.quantile``. Integer weights count repetitions of rows. Other weights are
        scaled to sum to the number of distinct values, so that their unit has no effect.

        Notes
        -----
        Let W be the sum of the weights and x_(k) the smallest value at which their running sum is at least k. The
        quantile of level q is x_(f) + (h - f) (x_(f+1) - x_(f)), where h = 1 + q (W - 1) and f = floor(h).
        """
        if not len(self.distinct):
            return np.empty(0)
        totals = self._running()
        position = np.asarray(levels, dtype=np.float64) * (totals[-1] - 1.0)
        floor = np.floor(position)
        # By rounding, the running sum of a value may be slightly below its rank.
        reached = totals * (1.0 + 1e-12)
        last = len(totals) - 1
        lower = self.distinct[np.minimum(np.searchsorted(reached, floor + 1.0), last)]
        upper = self.distinct[np.minimum(np.searchsorted(reached, floor + 2.0), last)]
        share = position - floor
        # Interpolation between equal values would differ from them by rounding.
        interpolated: FloatArray = np.where(lower == upper, lower, lower * (1.0 - share) + upper * share)
        return interpolated

    def bin_edges(self, n_bins: int) -> FloatArray:
        """Return the edges between up to `n_bins` bins of about equal weights.

        Edges are midpoints between values, so that equal values share a bin.

        Examples
        --------
        >>> Column.from_values(np.array([0.0, 1.0, 1.0, 2.0, 3.0, 4.0])).bin_edges(3)
        array([0.5, 2.5])
        """
        if not len(self.distinct):
            return np.empty(0)
        totals = self._running()
        positions = np.arange(1, n_bins) / n_bins * (totals[-1] - 1.0)
        starts = np.searchsorted(totals * (1.0 + 1e-12), np.ceil(positions * (1.0 - 1e-12)) + 1.0)
        places = np.unique(starts[starts > 0])
        edges: FloatArray = 0.5 * self.distinct[places - 1] + 0.5 * self.distinct[places]
        return edges

    def _running(self) -> FloatArray:
        """Return the running sum of the weights; fractional weights are scaled to sum to the number of values."""
        weights = self.weights
        if not np.all(weights == np.floor(weights)):
            weights = weights * (len(weights) / weights.sum())
        running: FloatArray = np.cumsum(weights)
        return running

    def shares_below(self, points: FloatArray) -> FloatArray:
        """Return the share of the weight at or below each point."""
        totals = np.concatenate(([0.0], np.cumsum(self.weights)))
        shares: FloatArray = totals[np.searchsorted(self.distinct, points, side="right")] / totals[-1]
        return shares


@compiled()
def _group(distinct: FloatArray, width: float, share: float, groups: npt.NDArray[np.intp]) -> None:
    """Assign groups: a group has the values within `width`, or a share of their size, of its first value."""
    first, group = 0, 0
    for place in range(len(distinct)):
        size = max(abs(distinct[first]), abs(distinct[place]))
        if distinct[place] - distinct[first] > max(width, share * size):
            first = place
            group += 1
        groups[place] = group


@dataclass(frozen=True)
class OutlierRule:
    """Which values of a column lie far out: typing errors, codes for "unknown", readings of a broken sensor.

    The numbers are conventions.

    Parameters
    ----------
    tail : float
        The middle of a column leaves out this share of its rows at either end: of 1,000 rows five may be wrong on one
        side.
    fewest : int
        It leaves out at least this many rows at either end: two wrong values of a small table are recognised.
    far : float
        Outliers are farther from the middle than this many times its extent. Lognormal columns, which are common, have
        none; a single outlier squeezes all other values into a tenth of the range or less.
    """

    tail: float = 0.005
    fewest: int = 2
    far: float = 10.0

    def n_cut(self, n_rows: float) -> int:
        """Return the number of rows outside the middle at either end; 0 if the column has too few rows."""
        n_cut = max(int(self.tail * n_rows), self.fewest)
        return n_cut if n_rows > 2 * n_cut + 1 else 0

    def kept(self, values: FloatArray, low: float, high: float) -> FloatArray:
        """Return the values without outliers; the middle of the column is between low and high.

        If it is a single value there are no outliers: the few different values carry the information.
        """
        reach = self.far * (high - low)  # Python's floats overflow to infinity without a warning
        return values[(values >= low - reach) & (values <= high + reach)] if reach > 0.0 else values


OUTLIERS = OutlierRule()


def usual_range(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest value of a column without its outliers.

    `values` has at least one number, NaN where missing.
    """
    present = values[~np.isnan(values)]
    n_cut = OUTLIERS.n_cut(len(present))
    if n_cut:
        ordered = np.partition(present, [n_cut, len(present) - 1 - n_cut])
        present = OUTLIERS.kept(present, float(ordered[n_cut]), float(ordered[-1 - n_cut]))
    return float(present.min()), float(present.max())


def usual_range_of(column: Column) -> tuple[float, float]:
    """Return the `usual_range` of a summary of a column; ``(0, 1)`` without values.

    Weights count rows; those of less than one row for each value are enlarged to that.
    """
    values, totals = column.distinct, np.cumsum(column.weights)
    if not len(values):
        return column.domain
    if totals[-1] < len(values):
        totals *= len(values) / totals[-1]
    n_cut = OUTLIERS.n_cut(float(totals[-1]))
    if n_cut:
        low = float(values[np.searchsorted(totals, n_cut, side="right")])
        high = float(values[np.searchsorted(totals, totals[-1] - n_cut)])
        values = OUTLIERS.kept(values, low, high)
    return float(values[0]), float(values[-1])


def to_usual_range(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a column whose outliers are moved to the ends of its `usual_range`; NaN stays."""
    return values if np.isnan(values).all() else np.clip(values, *usual_range(values))


def without_outliers(column: Column) -> Column:
    """Return a summary of a column whose outliers are moved to the ends of its `usual_range`.

    Examples
    --------
    >>> without_outliers(Column.from_values(np.append(np.arange(1001.0), 1e300))).domain
    (0.0, 1000.0)
    """
    ends = usual_range_of(column)
    if not len(column.distinct) or ends == (column.distinct[0], column.distinct[-1]):
        return column
    return column.clipped(*ends)


@dataclass(frozen=True, eq=False)
class Target:
    """A validated target.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Class codes 0, 1, ... for classification. For regression, values scaled to mean 0 and standard deviation 1: this
        does not change the splits of trees, and squares of large values do not overflow.
    task : {"regression", "classification"}
        The task.
    """

    values: npt.NDArray[np.float64] | npt.NDArray[np.intp]
    task: str

    @classmethod
    def from_values(cls, y: npt.ArrayLike, task: str | None = None) -> "Target":
        """Validate a target, and infer the task if it is None.

        Examples
        --------
        >>> Target.from_values(["no", "yes", "no"])
        Target(values=array([0, 1, 0]), task='classification')
        """
        if task is not None:
            check_choice(task, "task", TASKS)
        from sklearn.utils.validation import column_or_1d  # noqa: PLC0415 - it takes a second to load

        labels = column_or_1d(y.to_numpy() if hasattr(y, "to_numpy") else y, warn=True)  # keeps nullable integers
        task = task or infer_task(labels)
        if task == "classification":
            _refuse_missing(missing_mask(labels))
            texts = labels.astype(str) if labels.dtype.kind == "O" else labels
            return cls(np.unique(texts, return_inverse=True)[1], task)
        try:
            values = labels.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise argument_error(
                "y", "contain numbers for task='regression'", labels[:3], "Pass task='classification' for labels."
            ) from error
        _refuse_missing(~np.isfinite(values))
        largest = np.abs(values).max(initial=0.0)
        values = values / largest if largest > 0 else values
        spread = values.std()
        return cls((values - values.mean()) / spread if spread > 0 else np.zeros_like(values), task)


def _refuse_missing(mask: npt.NDArray[np.bool_]) -> None:
    if mask.any():
        raise ArgumentError(f"y must have no missing or infinite values, got {mask.sum()}. Drop or fill these rows.")


def infer_task(y: npt.NDArray[np.generic]) -> str:
    """Return the task of a target: classification for labels and for integers with few values, otherwise regression."""
    if y.dtype.kind == "f":
        return "regression"
    if y.dtype.kind in "iu" and len(np.unique(y)) > MAX_INTEGER_CLASSES:
        return "regression"
    if y.dtype.kind == "O" and all(isinstance(label, float) for label in y):
        return "regression"
    return "classification"
