"""What prediction intervals are made of: quantiles of the residuals of rows that were held out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error
from knotwork._preparation.columns import LARGEST_FLOAT

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ResidualRule:
    """How residuals become quantiles; conventions.

    Parameters
    ----------
    most_levels : int
        Levels at which quantiles are kept, at most.
    spread_floor : float
        Added to the spreads of rows, as a share of their mean.
    rounding : float
        Levels that differ by less are equal.
    """

    most_levels: int = 1999
    spread_floor: float = 0.05
    rounding: float = 1e-12


RESIDUALS = ResidualRule()


@dataclass(frozen=True, eq=False)
class Residuals:
    """Quantiles of the residuals of rows that members were not trained on, for conformal intervals.

    Parameters
    ----------
    values : ndarray of shape (n_targets, m)
        Residuals divided by the spread of their row, in increasing order, at `m` evenly spaced levels.
    ends : tuple of float
        The first and the last level.
    floor : ndarray of shape (n_targets,)
        Added to spreads, so that none is nearly 0.

    Notes
    -----
    With residuals r of n rows, the k-th smallest has the level k / (n + 1): a new residual is not larger with at least
    this probability, if the rows are exchangeable (Vovk and others, 2005). Of rows with weights w it is the sum of the
    weights up to r, divided by the sum of all and their mean. A row with the prediction f and the spread s has the
    interval from f + s q(a / 2) to f + s q(1 - a / 2), with the quantiles q and the coverage 1 - a.
    """

    values: FloatArray
    ends: tuple[float, float]
    floor: FloatArray

    @classmethod
    def from_rows(cls, rows: Any, objective: Any) -> "Residuals":
        """Return the residuals of predictions, a `HeldOut`, by the centre and the spread of an objective."""
        target = rows.target.reshape(len(rows.target), -1)
        centre, spread = objective.centre_and_spread(rows.predictions.reshape(*target.shape, -1))
        floor = RESIDUALS.spread_floor * spread.mean(axis=0)
        with np.errstate(over="ignore"):
            residuals = np.clip((target - centre) / (spread + floor), -LARGEST_FLOAT, LARGEST_FLOAT)
        weights = np.ones(len(target)) if rows.weights is None else rows.weights
        order = np.argsort(residuals, axis=0)
        levels = np.cumsum(weights[order], axis=0) / (weights.sum() + weights.mean())
        ends = float(levels[0].max()), float(levels[-1].min())
        grid = np.linspace(*ends, min(len(target), RESIDUALS.most_levels))
        places = [np.searchsorted(column, grid - RESIDUALS.rounding).clip(max=len(target) - 1) for column in levels.T]
        ordered = np.take_along_axis(residuals, order, axis=0)
        values = np.stack([column[place] for column, place in zip(ordered.T, places, strict=True)])
        return cls(values, ends, floor)

    def interval(self, predictions: FloatArray, objective: Any, *, coverage: float) -> FloatArray:
        """Return lower and upper ends, of shape (n, n_targets, 2), for predictions of shape (n, d_out)."""
        centre, spread = objective.centre_and_spread(predictions.reshape(len(predictions), len(self.values), -1))
        ends = self.ends_at(centre, spread, coverage=coverage)
        return np.maximum(ends, 0.0) if objective.is_positive else ends

    def ends_at(self, centre: FloatArray, spread: FloatArray, *, coverage: float) -> FloatArray:
        """Return lower and upper ends, of shape (n, n_targets, 2), for centres and spreads of shape (n, n_targets)."""
        with np.errstate(over="ignore"):
            ends = [
                np.clip(centre + (spread + self.floor) * each, -LARGEST_FLOAT, LARGEST_FLOAT)
                for each in self.quantiles(coverage)
            ]
        interval: FloatArray = np.stack(ends, axis=-1)
        return interval

    def quantiles(self, coverage: float) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper quantile of each target; a level in between counts as the next outer one."""
        first, last = self.ends
        n_levels = self.values.shape[1]
        step = (last - first) / max(n_levels - 1, 1)
        tail = 0.5 * (1.0 - coverage)
        place = int(np.floor((tail - first + RESIDUALS.rounding) / step)) if step > 0 else -1
        above = int(np.ceil((1.0 - tail - first - RESIDUALS.rounding) / step)) if step > 0 else n_levels
        if place < 0 or above >= n_levels:
            largest = max(1.0 - 2.0 * max(first, 1.0 - last), 0.0)
            raise argument_error(
                "coverage",
                f"be at most {largest:.3g}, because few rows were held out",
                coverage,
                "Fit with more rows, or hold out more by validation.",
            )
        return self.values[:, place], self.values[:, above]
