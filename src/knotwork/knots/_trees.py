"""A regression or classification tree on one column (CART), grown on its distinct values.

Of splits with equal reductions of impurity up to rounding, the one at the smallest value is chosen. The tree therefore
does not depend on the order of the rows, and a row of weight two is the same as two equal rows.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from knotwork._equals import EQUAL
from knotwork._loops import compiled
from knotwork.basis import FloatArray
from knotwork.knots._columns import Column, Target

LEAST_REDUCTION = 1e-13
"""Smallest reduction of the sum of squares of the target, as a share of it: smaller ones are rounding errors."""


class _Entries(NamedTuple):
    """Rows summed by value of the column and by class, in the order of the values.

    Parameters
    ----------
    codes : ndarray of int64, shape (e,)
        Index of the column's value among the distinct values.
    outputs : ndarray of int64, shape (e,)
        The class; 0 for numbers.
    sums : ndarray of shape (e,)
        Weighted sum of the target: of numbers, or of the indicator of the class.
    weights, counts : ndarray of shape (e,)
        Weight and number of the rows.
    """

    codes: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]
    sums: FloatArray
    weights: FloatArray
    counts: FloatArray


def grow_tree(
    column: Column,
    target: Target,
    *,
    max_leaves: int | None = None,
    max_depth: int | None = None,
    min_samples_leaf: int = 1,
    min_samples_split: int = 2,
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the splits of a tree: the index of the first distinct value right of each split, and its gain.

    Parameters
    ----------
    column : Column
        The column, with rows.
    target : Target
        The target of all rows of the table.
    max_leaves, max_depth : int, optional
        Limits of the tree; by default none. The node whose split reduces the impurity of the tree the most is split
        first.
    min_samples_leaf, min_samples_split : int
        Minimum number of rows of a leaf, and of a node that is split. Integer weights count as numbers of rows.

    Notes
    -----
    The impurity I of a node v is the variance of the target, or the Gini impurity of the classes. With the sums s_c of
    the target (of indicators of the classes) and the weights w, a split into L and R reduces ``w_v I(v)`` by
    ``sum_c (s_cL^2 / w_L + s_cR^2 / w_R - s_cv^2 / w_v)``. The gain is this reduction divided by w_v.
    """
    entries = _entries(column, target)
    n_values = len(column.distinct)
    depth = n_values if max_depth is None else max_depth
    most = min(n_values if max_leaves is None else max_leaves, n_values, 2 ** min(depth, 40))
    after, gains = np.empty(most, dtype=np.intp), np.empty(most)
    squares = entries.weights.sum() if target.task == "classification" else _squares(column, target)
    n_outputs = int(entries.outputs.max(initial=0)) + 1
    limits = (most, depth, min_samples_leaf, min_samples_split)
    n_splits = _grow(entries, n_outputs, target.task == "regression", limits, LEAST_REDUCTION * squares, after, gains)
    return after[:n_splits], gains[:n_splits]


def _entries(column: Column, target: Target) -> _Entries:
    """Sum the rows of a column."""
    assert column.codes is not None
    assert column.rows is not None
    y, n_values = target.values[column.rows], len(column.distinct)
    weights = np.ones(len(y)) if column.row_weights is None else column.row_weights
    if target.task == "regression":
        codes, outputs, places = np.arange(n_values), np.zeros(n_values, dtype=np.int64), column.codes
        sums = np.bincount(places, weights * y, n_values)
    else:
        n_classes = int(y.max(initial=0)) + 1
        keys, places = np.unique(column.codes * np.int64(n_classes) + y, return_inverse=True)
        codes, outputs = np.divmod(keys, n_classes)
        sums = np.bincount(places, weights, len(keys))
    totals = np.bincount(places, weights, len(codes)).astype(np.float64)
    are_counts = np.all(weights == np.floor(weights))
    counts = totals if are_counts else np.bincount(places, minlength=len(codes)).astype(np.float64)
    return _Entries(codes.astype(np.int64), outputs.astype(np.int64), sums.astype(np.float64), totals, counts)


def _squares(column: Column, target: Target) -> float:
    """Return the weighted sum of squares of a regression target."""
    squares = target.values[column.rows] ** 2
    return float(squares.sum() if column.row_weights is None else column.row_weights @ squares)


@compiled()
def _best_split(entries, first, end, is_centred, min_leaf, left, right, reductions):
    """Return the first entry of the right part of a node, and the reduction; -1 if the node has no split.

    `left` and `right` are buffers for the sums of the two parts, `reductions` for those of the splits.
    """
    weight, count = entries.weights[first:end].sum(), entries.counts[first:end].sum()
    right[:] = 0.0
    left[:] = 0.0
    for entry in range(first, end):
        right[entries.outputs[entry]] += entries.sums[entry]
    mean = 0.0
    if is_centred:  # sums around the mean of the node avoid cancellation
        mean = right[0] / weight
        right[0] = 0.0
    squares_left, squares_right = 0.0, (right * right).sum()
    before = squares_right / weight
    weight_left, count_left, best = 0.0, 0.0, 0.0
    for entry in range(first, end):
        output, added = entries.outputs[entry], entries.sums[entry] - mean * entries.weights[entry]
        squares_left += added * (2.0 * left[output] + added)
        squares_right -= added * (2.0 * right[output] - added)
        left[output] += added
        right[output] -= added
        weight_left += entries.weights[entry]
        count_left += entries.counts[entry]
        reductions[entry] = -1.0
        is_last_of_value = entry + 1 < end and entries.codes[entry + 1] > entries.codes[entry]
        if is_last_of_value and count_left >= min_leaf and count - count_left >= min_leaf:
            reduction = squares_left / weight_left + squares_right / (weight - weight_left) - before
            reductions[entry] = reduction
            best = max(best, reduction)
    least = best - EQUAL * best - 1e-14 * before
    for entry in range(first, end):
        if reductions[entry] >= least and reductions[entry] > 0.0:
            return entry + 1, reductions[entry]
    return -1, 0.0


@compiled()
def _grow(entries, n_outputs, is_centred, limits, least, after, gains):
    """Write the splits of a tree and their gains into `after` and `gains`, and return their number."""
    max_leaves, max_depth, min_leaf, min_split = limits
    nodes = np.empty((max_leaves + 1, 4), dtype=np.int64)  # for each leaf: first entry, end, split, depth
    reductions = np.empty(max_leaves + 1)
    left, right, buffer = np.empty(n_outputs), np.empty(n_outputs), np.empty(len(entries.codes))
    nodes[0, 0], nodes[0, 1], nodes[0, 3] = 0, len(entries.codes), 0
    n_leaves, n_new = 1, 1
    while True:
        for place in range(n_leaves - n_new, n_leaves):
            first, end, depth = nodes[place, 0], nodes[place, 1], nodes[place, 3]
            reductions[place] = 0.0
            if depth < max_depth and entries.counts[first:end].sum() >= max(min_split, 2 * min_leaf):
                nodes[place, 2], reductions[place] = _best_split(
                    entries, first, end, is_centred, min_leaf, left, right, buffer
                )
        if n_leaves >= max_leaves:
            return n_leaves - 1
        largest = reductions[:n_leaves].max()
        if largest <= least:
            return n_leaves - 1
        chosen = -1
        for place in range(n_leaves):
            is_first = chosen < 0 or nodes[place, 0] < nodes[chosen, 0]
            if reductions[place] >= largest - EQUAL * largest and is_first:
                chosen = place
        first, end, split, depth = nodes[chosen]
        after[n_leaves - 1] = entries.codes[split]
        gains[n_leaves - 1] = reductions[chosen] / entries.weights[first:end].sum()
        # The last leaf moves to the position of the split leaf, whose two parts are appended.
        nodes[chosen], reductions[chosen] = nodes[n_leaves - 1], reductions[n_leaves - 1]
        nodes[n_leaves - 1, 0], nodes[n_leaves - 1, 1], nodes[n_leaves - 1, 3] = first, split, depth + 1
        nodes[n_leaves, 0], nodes[n_leaves, 1], nodes[n_leaves, 3] = split, end, depth + 1
        n_leaves += 1
        n_new = 2
