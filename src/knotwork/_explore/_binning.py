"""The rows of a page: a random sample, and each column as the numbers of at most 255 groups of neighbouring values."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knotwork.basis import FloatArray, binary_unit
from knotwork.knots import Column

__all__ = ["MISSING", "BinnedColumn", "as_shares", "draw_split"]

MISSING = 255
"""The code of a missing value."""

MOST_TRAINING, MOST_HELD_OUT = 5_000, 5_000
"""Rows that knots and fits are made from, and rows that fits are scored on."""

N_BARS = 48
"""Bars of a histogram; a column with no more distinct values has one for each of them."""

N_COARSE = 32
"""Groups of neighbouring bins for the importance of a column."""


def draw_split(n_rows: int, seed: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return random rows to fit on and other random rows to score on: two thirds and one third of a small table.

    Examples
    --------
    >>> training, held_out = draw_split(9, seed=0)
    >>> len(training), len(held_out), len({*training, *held_out})
    (6, 3, 9)
    """
    rows = np.random.default_rng(seed).permutation(n_rows)
    n_training = min(MOST_TRAINING, n_rows - n_rows // 3)
    return rows[:n_training], rows[n_training : n_training + MOST_HELD_OUT]


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """A column whose rows are replaced by the mean of their group.

    A column with at most 255 distinct training values is exact: each value is a group.

    Parameters
    ----------
    column : Column
        The training rows, which knots are placed by.
    centres : ndarray of shape (n_groups,)
        Mean of each group on the domain scaled to [0, 1], increasing.
    codes : ndarray of uint8, shape (n_training + n_held_out,)
        Group of each row; `MISSING` for a missing value.
    n_training : int
        Number of training rows, which come first.
    """

    column: Column
    centres: FloatArray
    codes: npt.NDArray[np.uint8]
    n_training: int

    @classmethod
    def from_values(cls, values: FloatArray, n_training: int) -> "BinnedColumn":
        """Group the values of a column, training rows first; NaN are missing."""
        column = Column.from_values(values[:n_training])
        if not len(column.distinct):
            return cls(column, np.empty(0), np.full(len(values), MISSING, dtype=np.uint8), n_training)
        distinct = as_shares(column.distinct, column.domain)
        groups = _groups(column.weights)
        centres = np.bincount(groups, column.weights * distinct) / np.bincount(groups, column.weights)
        last = np.flatnonzero(np.append(np.diff(groups), 1))  # of each group, its largest distinct value
        # A held-out value between two groups belongs to the nearer of their neighbouring values.
        edges = 0.5 * distinct[last[:-1]] + 0.5 * distinct[last[:-1] + 1]
        codes = np.searchsorted(edges, as_shares(values, column.domain), side="left")
        return cls(column, centres, np.where(np.isnan(values), MISSING, codes).astype(np.uint8), n_training)

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """Number of training rows in each group."""
        return np.bincount(self.codes[: self.n_training], minlength=MISSING + 1)[: len(self.centres)]

    def bars(self) -> tuple[npt.NDArray[np.intp], float, float]:
        """Return the training rows in bars of equal width, or with each distinct value if there are few.

        Left edge of the first bar and width of all follow, as shares of the domain.
        """
        if len(self.column.distinct) <= N_BARS:
            return self.column.weights.astype(np.intp), 0.0, 1.0
        distinct = as_shares(self.column.distinct, self.column.domain)
        edge, width, n_bars = _bar_grid(distinct)
        bars = np.histogram(distinct, n_bars, (edge, edge + n_bars * width), weights=self.column.weights)[0]
        return bars.astype(np.intp), edge, width

    def importance(self, target: FloatArray) -> float:
        """Return the share of the target's variance on held-out rows that means of groups of training rows explain.

        Parameters
        ----------
        target : ndarray of shape (n_training + n_held_out, n_outputs)
            The target; the variances of several outputs are added.
        """
        groups = np.append(_groups(self.counts, N_COARSE), -1)
        coarse = groups[np.minimum(self.codes, len(groups) - 1)] + 1  # missing values are a group
        training, held_out = target[: self.n_training], target[self.n_training :]
        total = ((held_out - training.mean(axis=0)) ** 2).sum() if len(held_out) else 0.0
        if not total > 0:
            return 0.0
        counts = np.bincount(coarse[: self.n_training], minlength=N_COARSE + 2) + 1e-9
        error = 0.0
        for train, test in zip(training.T, held_out.T, strict=True):
            # One row of the overall mean is added to each group, so that groups of few rows do not follow noise.
            sums = np.bincount(coarse[: self.n_training], train, minlength=len(counts)) + train.mean()
            error += float(((test - (sums / (counts + 1.0))[coarse[self.n_training :]]) ** 2).sum())
        return max(0.0, 1.0 - error / float(total))


def as_shares(values: FloatArray, domain: tuple[float, float]) -> FloatArray:
    """Return values clipped to the domain as shares of it."""
    unit, (low, high) = binary_unit(*domain), domain
    inside = np.clip(values, low, high)
    shares: FloatArray = np.clip((inside * unit - low * unit) / (high * unit - low * unit), 0.0, 1.0)
    return shares


def _bar_grid(distinct: FloatArray) -> tuple[float, float, int]:
    """Return the first edge, the width and the number of the bars of a histogram over [0, 1].

    Where values are multiples of a step, such as whole numbers, every bar has room for equally many of them: otherwise
    bars of two values would stand beside bars of one.

    Examples
    --------
    >>> edge, width, n_bars = _bar_grid(np.arange(73.0) / 72.0)
    >>> round(edge * 72, 6), round(width * 72, 6), n_bars
    (-0.5, 2.0, 37)
    """
    step = float(np.diff(distinct).min())
    places = distinct / step
    if step < 1e-4 or np.abs(places - np.rint(places)).max() > 1e-3:
        return 0.0, 1.0 / N_BARS, N_BARS
    n_values = round(1.0 / step) + 1
    per_bar = -(-n_values // N_BARS)
    return -0.5 * step, per_bar * step, -(-n_values // per_bar)


def _groups(weights: npt.NDArray[np.floating] | npt.NDArray[np.integer], most: int = MISSING) -> npt.NDArray[np.intp]:
    """Return the group of each distinct value: groups have about equal numbers of rows, and heavy values are alone.

    Examples
    --------
    >>> _groups(np.array([900.0, 1.0, 1.0, 1.0, 1.0]), most=4)
    array([0, 1, 1, 2, 2])
    """
    if len(weights) <= most:
        return np.arange(len(weights))
    # A heavy value counts for about two groups: what is left of the groups is for the other values.
    capped = weights.astype(np.float64)
    for _ in range(10):
        capped = np.minimum(capped, 2.0 * capped.sum() / most)
    middles = np.cumsum(capped) - 0.5 * capped
    groups = np.minimum((middles / capped.sum() * most).astype(np.intp), most - 1)
    return np.unique(groups, return_inverse=True)[1].astype(np.intp)
