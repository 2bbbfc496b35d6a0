"""The usual range of a column: from its smallest to its largest value, without values that lie far out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knotwork.basis import FloatArray
from knotwork.knots._columns import Column

__all__ = ["OUTLIERS", "OutlierRule", "to_usual_range", "usual_range", "usual_range_of", "without_outliers"]


@dataclass(frozen=True)
class OutlierRule:
    """Which values of a column lie far out: typing errors, codes for "unknown", readings of a sensor that failed.

    Parameters
    ----------
    tail : float
        The middle of a column is without this share of its rows at either end, so that its ends are values of many
        tables at once: of 1,000 rows five may be wrong on one side.
    fewest : int
        It is without this many rows at least: two wrong values of a small table are recognised.
    far : float
        Outliers are farther from the middle than this many times its extent. Lognormal columns, which are common, have
        none; a single one farther out would squeeze all other values into a tenth of the range or less.
    """

    tail: float = 0.005
    fewest: int = 2
    far: float = 10.0

    def n_cut(self, n_rows: float) -> int:
        """Return the number of rows outside of the middle at either end; 0 if there are too few rows to tell."""
        n_cut = max(int(self.tail * n_rows), self.fewest)
        return n_cut if n_rows > 2 * n_cut + 1 else 0

    def kept(self, values: FloatArray, low: float, high: float) -> FloatArray:
        """Return the values that are no outliers, where the middle is between low and high.

        If it is a single value there are none: the few different values carry the information.
        """
        reach = self.far * (high - low)  # Python's floats overflow to infinity without a warning
        return values[(values >= low - reach) & (values <= high + reach)] if reach > 0.0 else values


OUTLIERS = OutlierRule()


def usual_range(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest value of a column that are no outliers.

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
    if not len(column.distinct):
        return column
    low, high = usual_range_of(column)
    is_inside = low <= column.distinct[0] and column.distinct[-1] <= high
    return column if is_inside else column.clipped(low, high)
