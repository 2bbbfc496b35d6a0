"""Compiled screening of pairs of columns, one small table of cells for each pair."""

import numpy as np
import numpy.typing as npt

from knotwork._numba import compiled
from knotwork.basis import FloatArray

__all__ = ["score_pairs"]

SWEEPS = 8
"""Times that the functions of rows and of columns of a table are fitted in turn; they need not be exact."""


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
    n_cells, n_rows, n_columns = 0, 0, 0
    for i in range(n_bins):
        in_row, in_column = False, False
        for j in range(n_bins):
            if weights[i * n_bins + j] > 0.0:
                n_cells += 1
                in_row = True
            if weights[j * n_bins + i] > 0.0:
                in_column = True
        n_rows += in_row
        n_columns += in_column
    return n_cells - n_rows - n_columns + 1


@compiled()
def score_pairs(codes: npt.NDArray[np.int64], residuals: FloatArray, curvature: FloatArray, n_bins: int) -> FloatArray:
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
