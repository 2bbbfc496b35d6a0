"""Pairs of columns that interact: found in the residuals of an additive model, or named by a user."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from knotwork._checks import argument_error, check_int, listed, suggestion
from knotwork._equals import by_size, whole
from knotwork._loops import compiled
from knotwork._tables import as_frame, check_weights, frame_names, read_numbers
from knotwork.basis import FloatArray
from knotwork.encoders._transformers import SplineEncoder
from knotwork.errors import ColumnError
from knotwork.knots import Column, Target, repeated_rows


@dataclass(frozen=True)
class AdditiveRule:
    """How the additive model is fitted whose residuals show interactions. All numbers are conventions.

    Parameters
    ----------
    fewest_splines, most_splines : int
        Limits of the number of functions of a column.
    rows_per_spline : int
        Rows that there should be for each function.
    most_rows, most_values : int
        Rows, and numbers of the model's matrix, beyond which a random part of the rows is used: 20,000,000 numbers take
        160 MB.
    most_classes : int
        The most frequent classes are separate, all others count as one.
    ridge : float
        Penalty, as a share of the mean square of the columns.
    steps : int
        Steps of the fit for classes.
    tail : float
        Share of the residuals at either end that is moved to the others: one outlier must not look like an interaction.
    """

    fewest_splines: int = 4
    most_splines: int = 12
    rows_per_spline: int = 10
    most_rows: int = 50_000
    most_values: int = 20_000_000
    most_classes: int = 10
    ridge: float = 1e-3
    steps: int = 20
    tail: float = 0.002


@dataclass(frozen=True)
class PairRanking:
    """How pairs are scored, and which of them stand out. All numbers are conventions.

    Parameters
    ----------
    most_bins : int
        Largest number of bins of a column.
    rows_per_cell : int
        Rows that there should be on average in a cell of two columns.
    least_z, least_share : float
        Pairs stand out if their z is at least this large, which is significant among thousands of pairs, and their gain
        at least this share of the best.
    most_pairs : int
        Largest number of pairs that stand out.
    """

    most_bins: int = 16
    rows_per_cell: int = 20
    least_z: float = 5.0
    least_share: float = 0.1
    most_pairs: int = 5


ADDITIVE = AdditiveRule()
RANKING = PairRanking()

SWEEPS = 8
"""Times that the functions of rows and of columns of a table are fitted in turn; they need not be exact."""


@dataclass(frozen=True)
class FoundPair:
    """Two columns that interact.

    Parameters
    ----------
    columns : tuple
        Their names, or places in a table without names.
    gain : float
        Share of the variance left by an additive model that a function of both columns explains, without the share that
        chance would explain.
    z : float
        Distance of the gain from 0 in standard deviations of what chance gives; above 5 it is significant among
        thousands of pairs.
    """

    columns: tuple[Hashable, Hashable]
    gain: float
    z: float


class RankedPairs(NamedTuple):
    """All pairs of columns, the strongest first: places of shape (n_pairs, 2), gains and z of shape (n_pairs,)."""

    places: npt.NDArray[np.int64]
    gains: FloatArray
    z: FloatArray

    def best(self, n_pairs: int | None = None, *, least_share: float = RANKING.least_share) -> "RankedPairs":
        """Return the first `n_pairs`; by default the pairs that stand out, and at least one.

        Pairs stand out if they are significant, and have at least a share of the gain of the best one.
        """
        kept = np.arange(len(self.gains))[:n_pairs]
        if n_pairs is None:
            stand_out = (self.z >= RANKING.least_z) & (self.gains >= least_share * self.gains[:1])
            kept = np.flatnonzero(stand_out)[: RANKING.most_pairs] if stand_out.any() else kept[:1]
        return RankedPairs(self.places[kept], self.gains[kept], self.z[kept])


def find_pairs(
    X: Any, y: Any, n_pairs: int | None = None, *, task: str | None = None, sample_weight: Any = None
) -> list[FoundPair]:
    """Return the pairs of columns that interact the most, the strongest first.

    An additive model, a spline of each column, is fitted first. Two columns interact as far as its residuals depend on
    the cells of both columns, beyond the bins of each. Missing values are a bin.

    Parameters
    ----------
    X : table of shape (n, d)
        Numbers, as for `SplineEncoder`; at least two columns.
    y : array-like of shape (n,)
        The target.
    n_pairs : int, optional
        Number of pairs; by default those that stand out: up to five, and at least one.
    task : {"regression", "classification"}, optional
        Task of the target. By default labels and integers with up to 20 distinct values are classes.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    list of FoundPair
        With ``columns``, ``gain`` and ``z``.

    Notes
    -----
    The residuals r of the additive model, with the second derivatives h of the loss (the variances of classes, 1 for
    numbers), are summed over the cells of each pair: R and H. After a function of the rows and one of the columns of
    this small table are subtracted, ``sum R^2 / H`` is that of a chi-square variable if the pair does not interact, in
    units of the residual variance; the gain is what exceeds its expectation. This is the screening of FAST (Lou et al.,
    2013) with all cells in place of the best cut into four. Pairs whose gains are equal up to rounding keep the order
    of the columns. With more than 50,000 rows, a random part of them is used, which depends on their order. The time
    grows with rows times the square of the number of columns: 190 pairs of 20,000 rows take less than a second.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(1000, 4))
    >>> pairs = find_pairs(X, X[:, 0] + 4 * X[:, 1] * X[:, 3], n_pairs=1)
    >>> pairs[0].columns
    (1, 3)
    """
    values = read_numbers(X)
    if values.shape[1] < 2:
        raise too_few_columns(values.shape[1])
    if n_pairs is not None:
        check_int(n_pairs, "n_pairs", minimum=1)
    target = Target.from_values(y, task)
    if len(target.values) != len(values):
        raise argument_error("y", f"have as many values as X has rows, {len(values)}", len(target.values))
    ranked = rank_pairs(values, target, weights=check_weights(sample_weight, len(values))).best(n_pairs)
    frame = as_frame(X)
    labels = list(range(values.shape[1])) if frame is None else frame_names(frame)
    return [
        FoundPair((labels[first], labels[second]), float(gain), float(z))
        for (first, second), gain, z in zip(ranked.places.tolist(), ranked.gains, ranked.z, strict=True)
    ]


def too_few_columns(n_columns: int) -> ColumnError:
    """Return the error for a table without pairs."""
    return ColumnError(f"X must have at least 2 numerical columns to form pairs, got n_features = {n_columns}.")


def place_pairs(pairs: Sequence[Any], labels: Sequence[Hashable], *, argument: str = "pairs") -> list[tuple[int, int]]:
    """Return the places of pairs of columns that are given by names, or by places.

    Parameters
    ----------
    pairs : sequence of pair
        Names of columns, or places among them.
    labels : sequence
        Names of the columns; their places if they have no names.
    argument : str, default="pairs"
        Name of the argument in errors.
    """
    columns = list(labels)
    hint = f"Write {argument}=[({columns[0]!r}, {columns[-1]!r})], for example."
    out = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise argument_error(argument, "be pairs of two columns", pair, hint)
        places = [_place(column, columns, argument) for column in pair]
        if places[0] == places[1]:
            raise argument_error(argument, "be pairs of two different columns", pair, hint)
        out.append((places[0], places[1]))
    if not out or len({frozenset(pair) for pair in out}) < len(out):
        raise argument_error(argument, "have at least one pair, and no pair twice", list(pairs), hint)
    return out


def _place(column: Hashable, labels: list[Hashable], argument: str) -> int:
    if column in labels:
        return labels.index(column)
    has_names = not any(isinstance(label, Integral) for label in labels)
    if has_names and isinstance(column, Integral) and not isinstance(column, bool) and 0 <= int(column) < len(labels):
        return int(column)
    raise argument_error(argument, f"name numerical columns of X, {listed(labels)}", column, suggestion(column, labels))


def rank_pairs(
    values: npt.NDArray[Any], target: Target, *, weights: FloatArray | None = None, seed: int = 0
) -> RankedPairs:
    """Return all pairs of columns by their gain, see `find_pairs`.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Finite numbers, NaN where missing.
    target : Target
        The target.
    weights : ndarray of shape (n,), optional
        Weights of the rows.
    seed : int
        Random seed of the part of the rows that is used of many.
    """
    n_columns = values.shape[1]
    rows, weights = repeated_rows(len(values), weights)
    weights = np.ones(len(rows)) if weights is None else weights / weights.mean()
    n_splines = len(rows) // (ADDITIVE.rows_per_spline * n_columns)
    size = int(np.clip(n_splines, ADDITIVE.fewest_splines, ADDITIVE.most_splines))
    most = min(ADDITIVE.most_rows, max(ADDITIVE.most_values // (size * n_columns), 1000))
    if len(rows) > most:
        kept = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
        rows, weights = rows[kept], weights[kept]
    values, goal = values[rows].astype(np.float64), target.values[rows]
    encoder = SplineEncoder(size=size, missing="indicator", dtype=np.float64)
    fit: Callable[..., tuple[FloatArray, FloatArray]] = _fit_numbers if target.task == "regression" else _fit_classes
    residuals, curvature = fit(encoder.fit_transform(values), goal, weights)
    n_bins = number_of_bins(len(values))
    codes = np.stack([bin_codes(x, Column.from_values(x, with_rows=False), n_bins) for x in values.T])
    return rank_cells(codes, residuals, curvature, n_bins + 1)


def rank_cells(codes: npt.NDArray[np.int64], residuals: FloatArray, curvature: FloatArray, n_bins: int) -> RankedPairs:
    """Return all pairs of columns by their gain, given the bins of the columns and the residuals of an additive model.

    Parameters
    ----------
    codes : ndarray of shape (d, n)
        Bins from 0 to n_bins - 1, see `bin_codes`.
    residuals, curvature : ndarray of shape (n_outputs, n)
        Residuals, and second derivatives of the loss, both times the weights of the rows.
    n_bins : int
        Number of bins, that of missing values among them.
    """
    gains, z = _score_pairs(codes, residuals, curvature, n_bins)
    places = np.array(list(combinations(range(len(codes)), 2)), dtype=np.int64).reshape(-1, 2)
    order = by_size(gains)
    return RankedPairs(places[order], gains[order], z[order])


def _factor(design: FloatArray, weights: FloatArray, share: float) -> tuple[tuple[FloatArray, bool], float]:
    """Return a factor of the penalised matrix of the normal equations times `share`, and the penalty."""
    gram = (design * weights[:, None]).T @ design
    penalty = ADDITIVE.ridge * max(float(np.trace(gram)) / len(gram), 1e-12)
    gram *= share
    gram[np.diag_indices_from(gram)] += penalty
    return cho_factor(gram, overwrite_a=True, check_finite=False), penalty


def _fit_numbers(design: FloatArray, goal: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return residuals in units of their deviation, times weights, and second derivatives, of shape (1, n) each."""
    goal = goal - np.average(goal, weights=weights)
    factor, _ = _factor(design, weights, 1.0)
    residuals = goal - design @ cho_solve(factor, design.T @ (weights * goal), check_finite=False)
    residuals = np.clip(residuals, *np.quantile(residuals, [ADDITIVE.tail, 1.0 - ADDITIVE.tail]))
    residuals -= np.average(residuals, weights=weights)
    deviation = np.sqrt(np.average(residuals**2, weights=weights))
    return (weights * residuals / max(deviation, 1e-12))[None], weights[None]


def _fit_classes(design: FloatArray, goal: npt.NDArray[np.intp], weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return residuals of an additive logistic model and second derivatives, of shape (n_outputs, n) each.

    Each step solves with one matrix, which is not smaller than that of the second derivatives (Boehning, 1992).
    """
    counts = np.bincount(goal)
    frequent = np.sort(np.argsort(-counts, kind="stable")[: ADDITIVE.most_classes])
    labels = np.where(np.isin(goal, frequent), np.searchsorted(frequent, goal), len(frequent))
    labels = np.unique(labels, return_inverse=True)[1]
    actual = np.eye(labels.max() + 1)[labels]
    n_logits = max(actual.shape[1] - 1, 1)  # that of the last class is 0
    factor, penalty = _factor(design, weights, 0.25 if n_logits == 1 else 0.5)
    start = np.log(np.average(actual, axis=0, weights=weights).clip(min=1e-12))
    coefficients = np.zeros((design.shape[1], n_logits))
    logits = np.tile(start, (len(design), 1))
    for _ in range(ADDITIVE.steps):
        gaps = (actual - softmax(logits, axis=1))[:, :n_logits]
        gradient = design.T @ (weights[:, None] * gaps) - penalty * coefficients
        coefficients += cho_solve(factor, gradient, check_finite=False)
        logits[:, :n_logits] = start[:n_logits] + design @ coefficients
    kept = slice(0, 1) if n_logits == 1 else slice(None)  # the residuals of two classes are the same
    shares = softmax(logits, axis=1)[:, kept]
    residuals, curvature = weights[:, None] * (actual[:, kept] - shares), weights[:, None] * shares * (1.0 - shares)
    return residuals.T.copy(), curvature.T.copy()


def number_of_bins(n_rows: float) -> int:
    """Return the number of bins of a column, other than that of missing values, when pairs are scored.

    Examples
    --------
    >>> number_of_bins(2000)
    10
    """
    return int(np.clip(whole(np.sqrt(n_rows / RANKING.rows_per_cell)), 2, RANKING.most_bins))


def bin_codes(values: FloatArray, column: Column, n_bins: int) -> npt.NDArray[np.int64]:
    """Return the bin of each value: bins have about equal numbers of rows, and the last one contains NaN."""
    codes = np.searchsorted(column.bin_edges(n_bins), values, side="right")
    return np.where(np.isnan(values), n_bins, codes)


@compiled()
def _subtract_margins(sums: FloatArray, weights: FloatArray, n_bins: int) -> None:
    """Subtract a function of the rows and one of the columns, fitted by weighted least squares, from a table."""
    for _ in range(SWEEPS):
        for by_row in (True, False):
            for i in range(n_bins):
                total, weight = 0.0, 0.0
                for j in range(n_bins):
                    cell = i * n_bins + j if by_row else j * n_bins + i
                    total += sums[cell]
                    weight += weights[cell]
                if weight > 0.0:
                    for j in range(n_bins):
                        cell = i * n_bins + j if by_row else j * n_bins + i
                        sums[cell] -= weights[cell] * total / weight


@compiled()
def _freedom(weights: FloatArray, n_bins: int) -> int:
    """Return the number of cells with rows that the functions of rows and columns leave free."""
    cells = weights.reshape(n_bins, n_bins) > 0.0
    n_free: int = cells.sum() - np.sum(cells.sum(axis=0) > 0) - np.sum(cells.sum(axis=1) > 0) + 1
    return n_free


@compiled()
def _score_pairs(codes: npt.NDArray[np.int64], residuals: FloatArray, curvature: FloatArray, n_bins: int) -> FloatArray:
    """Return gains and z of all pairs, of shape (2, n_pairs); see `find_pairs`.

    `codes` of shape (d, n) are bins from 0 to n_bins - 1, `residuals` and `curvature` have the shape (n_outputs, n).
    """
    n_columns, n_rows = codes.shape
    n_outputs = residuals.shape[0]
    scores = np.zeros((2, n_columns * (n_columns - 1) // 2))
    sums, weights = np.empty(n_bins * n_bins), np.empty(n_bins * n_bins)
    pair = 0
    for first in range(n_columns):
        for second in range(first + 1, n_columns):
            excess, n_free = 0.0, 0
            for output in range(n_outputs):
                sums[:] = 0.0
                weights[:] = 0.0
                for row in range(n_rows):
                    cell = codes[first, row] * n_bins + codes[second, row]
                    sums[cell] += residuals[output, row]
                    weights[cell] += curvature[output, row]
                _subtract_margins(sums, weights, n_bins)
                free = _freedom(weights, n_bins)
                excess -= free
                n_free += free
                for cell in range(n_bins * n_bins):
                    if weights[cell] > 0.0:
                        excess += sums[cell] * sums[cell] / weights[cell]
            scores[0, pair] = excess / (n_rows * n_outputs)
            if n_free > 0:
                scores[1, pair] = excess / np.sqrt(2.0 * n_free)
            pair += 1
    return scores
