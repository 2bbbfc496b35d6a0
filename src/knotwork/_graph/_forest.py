"""Forests: boosted trees as arrays of nodes, with a compiled loop that adds them up."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error
from knotwork._loops import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

ROWS_PER_TREE, ROWS_AT_A_TIME = 256, 8
"""Rows that go through a tree before the next one, so that their features stay in the cache; and those side by side."""


@final
@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose sums are the outputs of a model.

    Features are the numerical columns of a table, NaN where missing, followed by the features of categories: each is a
    number for every code of a categorical column.

    Parameters
    ----------
    n_numerical : int
        Number of numerical columns.
    feature : ndarray of shape (n_nodes,)
        The feature that a node compares; -1 for a leaf.
    value : ndarray of shape (n_nodes,)
        The threshold of a node, and what a leaf adds.
    left, right : ndarray of shape (n_nodes,)
        The next node, for features up to the threshold and for larger ones: later ones, and of a leaf the leaf itself.
    missing_left : ndarray of bool of shape (n_nodes,)
        Whether missing features go to the left.
    roots, outputs : ndarray of shape (n_trees,)
        The first node of each tree, and the output that it is added to.
    start : ndarray of shape (n_outputs,)
        The outputs without trees.
    code_columns : ndarray of shape (n_code_features,)
        The categorical column of each feature of categories.
    code_starts : ndarray of shape (n_code_features,)
        Where its numbers begin in `code_values`.
    code_values : ndarray
        The numbers of all codes of its column, for one feature after the other.
    """

    n_numerical: int
    feature: Ints
    value: Floats
    left: Ints
    right: Ints
    missing_left: npt.NDArray[np.bool_]
    roots: Ints
    outputs: Ints
    start: Floats
    code_columns: Ints
    code_starts: Ints
    code_values: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the trees of all parts, which are of one table, as one forest."""
        moved, n_nodes, n_features, n_values = [], 0, 0, 0
        for part in parts:
            is_code = part.feature >= part.n_numerical
            moved.append(
                replace(
                    part,
                    feature=part.feature + np.where(is_code, np.int32(n_features), np.int32(0)),
                    left=part.left + np.int32(n_nodes),
                    right=part.right + np.int32(n_nodes),
                    roots=part.roots + np.int32(n_nodes),
                    code_starts=part.code_starts + np.int32(n_values),
                )
            )
            n_nodes += len(part.feature)
            n_features += len(part.code_columns)
            n_values += len(part.code_values)
        names = [field.name for field in fields(cls) if field.name not in ("n_numerical", "start")]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in moved]) for name in names}
        return replace(parts[0], **arrays, start=np.sum([part.start for part in parts], axis=0))

    def with_outputs(self, first: int, n_outputs: int) -> Self:
        """Return the forest with its outputs at places from `first` on of `n_outputs`, the others 0."""
        start = np.zeros(n_outputs)
        start[first : first + len(self.start)] = self.start
        return replace(self, outputs=self.outputs + np.int32(first), start=start)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The fields that are arrays, in their order."""
        return tuple(getattr(self, each.name) for each in fields(self)[1:])

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def scores(self, numbers: Floats, codes: npt.NDArray[np.int64]) -> Floats:
        """Return the outputs of shape (n, n_outputs).

        Parameters
        ----------
        numbers : ndarray of shape (n, n_numerical)
            Numerical columns, NaN where missing.
        codes : ndarray of shape (n, n_categorical or more)
            Codes of categories.
        """
        scores = np.tile(self.start, (len(numbers), 1))
        nodes = (self.feature, self.value, self.left, self.right, self.missing_left)
        trees = (self.roots, self._depths, self.outputs)
        of_codes = (self.code_columns, self.code_starts, self.code_values)
        _add_trees(np.ascontiguousarray(numbers), np.ascontiguousarray(codes), nodes, trees, of_codes, scores)
        return scores

    @cached_property
    def _depths(self) -> Ints:
        """Steps from the root of each tree to its deepest leaf."""
        depths = np.zeros(self.n_trees, dtype=np.int32)
        _count_steps(self.feature, self.left, self.right, self.roots, depths)
        return depths

    def check(self, n_numerical: int, cardinalities: tuple[int, ...]) -> None:
        """Raise an error unless every path ends in a leaf, and all features are those of a table."""
        if self.n_numerical != n_numerical:
            raise argument_error("n_numerical", f"be {n_numerical}", self.n_numerical)
        n_nodes, n_trees, n_features = len(self.feature), self.n_trees, n_numerical + len(self.code_columns)
        for name, length in (("value", n_nodes), ("left", n_nodes), ("right", n_nodes), ("missing_left", n_nodes)):
            _check_array(self, name, length)
        _check_array(self, "outputs", n_trees)
        _check_array(self, "code_starts", len(self.code_columns))
        places, is_leaf = np.arange(n_nodes), self.feature < 0
        _check_range("feature", self.feature, -1, n_features)
        for name, nodes in (("left", self.left), ("right", self.right)):
            _check_range(name, nodes, 0, n_nodes)
            if not np.where(is_leaf, nodes == places, nodes > places).all():
                raise argument_error(name, "come after its node, or be the node if it is a leaf", nodes[:5].tolist())
        _check_range("roots", self.roots, 0, n_nodes)
        ends = np.append(self.roots[1:], n_nodes)[np.searchsorted(self.roots, places, side="right") - 1]
        if (
            (np.diff(self.roots) <= 0).any()
            or self.roots[:1].any()
            or (np.maximum(self.left, self.right) >= ends).any()
        ):
            raise argument_error("roots", "increase from 0, each before the nodes of its tree", self.roots[:5].tolist())
        _check_range("outputs", self.outputs, 0, len(self.start))
        _check_range("code_columns", self.code_columns, 0, len(cardinalities))
        lengths = np.array(cardinalities, dtype=np.int64)[self.code_columns]
        ends = self.code_starts.astype(np.int64) + lengths
        if len(ends) and (self.code_starts.min() < 0 or ends.max() > len(self.code_values)):
            raise argument_error("code_starts", "leave a number for each code", len(self.code_values))


def _check_array(forest: Forest, name: str, length: int) -> None:
    if getattr(forest, name).shape != (length,):
        raise argument_error(name, f"be of shape ({length},)", getattr(forest, name).shape)


def _check_range(name: str, values: Ints, first: int, end: int) -> None:
    if values.ndim != 1 or (len(values) and not first <= values.min() <= values.max() < end):
        raise argument_error(name, f"be from {first} to {end - 1}", values[:5].tolist())


@compiled()
def _count_steps(feature, left, right, roots, depths):
    """Fill the steps from each root to its deepest leaf; children come after their node."""
    steps = np.zeros(len(feature), dtype=np.int32)
    for tree in range(len(roots)):
        end = roots[tree + 1] if tree + 1 < len(roots) else len(feature)
        for node in range(roots[tree], end):
            if feature[node] >= 0:
                steps[left[node]] = steps[right[node]] = steps[node] + 1
            depths[tree] = max(depths[tree], steps[node])


@compiled()
def _add_trees(numbers, codes, nodes, trees, of_codes, scores):
    """Add the leaf of each row in each tree to the scores.

    Several rows take a step at a time: a processor does not wait for one of them, and steps have no branches that it
    would have to guess.
    """
    feature, value, left, right, missing_left = nodes
    roots, depths, outputs = trees
    columns, starts, code_values = of_codes
    n_rows, n_numerical = numbers.shape
    current = np.empty(ROWS_AT_A_TIME, dtype=np.int32)
    for begin in range(0, n_rows, ROWS_PER_TREE):
        end = min(begin + ROWS_PER_TREE, n_rows)
        for tree in range(len(roots)):
            for first in range(begin, end, ROWS_AT_A_TIME):
                n_current = min(ROWS_AT_A_TIME, end - first)
                current[:n_current] = roots[tree]
                for _ in range(depths[tree]):
                    for k in range(n_current):
                        node = current[k]
                        place = feature[node]
                        if place < n_numerical:
                            x = numbers[first + k, max(place, 0)] if n_numerical else 0.0
                        else:
                            place -= n_numerical
                            x = code_values[starts[place] + codes[first + k, columns[place]]]
                        goes_right = (x > value[node]) | (np.isnan(x) & (not missing_left[node]))
                        current[k] = right[node] if goes_right else left[node]
                for k in range(n_current):
                    scores[first + k, outputs[tree]] += value[current[k]]
