"""The sketch of a table that is read in parts: a summary of each column, and a sample of the rows."""

from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knotwork.basis import FloatArray
from knotwork.errors import ColumnTypeError
from knotwork.knots import QuantileSketch


class RowSample:
    """A uniform sample of the rows of a table in parts, without replacement: all rows as long as there are few.

    Each row has a random priority, and those with the smallest ones are kept, so that samples of parts can be merged in
    any order with the same result. Priorities depend on the random seed, on the numbers, target and weights of the
    row's part, and on the number of rows before it: of parts that are equal in all of these, the same rows are kept.

    Parameters
    ----------
    seed : int, default=0
        Random seed of the priorities.
    size : int, default=100000
        Number of rows that are kept, for trees and for the search for pairs of columns.
    """

    def __init__(self, seed: int = 0, size: int = 100_000) -> None:
        self.seed, self.size, self.n = seed, size, 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._n_kept = 0
        self.target_kind: str | None = None

    def update(self, values: npt.NDArray[Any], target: npt.NDArray[Any], weights: FloatArray | None = None) -> None:
        """Add the rows of a part: numbers of shape (n, d), target and weights of shape (n,)."""
        weights = np.ones(len(values)) if weights is None else weights
        kept = np.flatnonzero(weights > 0)
        if not len(kept):
            return
        self._check_kind("numbers" if target.dtype.kind in "biuf" else "labels")
        content = blake2b(digest_size=8, key=f"{self.seed} {self.n}".encode())
        for part in (values[kept], target[kept], weights[kept]):
            content.update(np.ascontiguousarray(part) if part.dtype.kind in "biuf" else repr(part.tolist()).encode())
        self.n += len(kept)
        priorities = np.random.default_rng(int.from_bytes(content.digest(), "big")).random(len(kept))
        first = np.sort(_smallest(priorities, self.size))
        kept = kept[first]
        self._add((priorities[first], values[kept], target[kept], weights[kept]))

    def merge(self, other: "RowSample") -> Self:
        """Add the rows of another sample; return the sample itself. The other one is not changed."""
        if other.target_kind is not None:
            self._check_kind(other.target_kind)
        self.n += other.n
        for part in list(other._parts):
            self._add(part)
        return self

    def _check_kind(self, kind: str) -> None:
        """Remember whether targets are numbers or labels; a part with the other kind raises an error."""
        if self.target_kind not in (None, kind):
            kinds = " and ".join(sorted((str(self.target_kind), kind)))
            raise ColumnTypeError(f"y must have one type in all parts, but has {kinds}. Convert it first.")
        self.target_kind = kind

    def _add(self, part: tuple[npt.NDArray[Any], ...]) -> None:
        self._parts.append(part)
        self._n_kept += len(part[0])
        if self._n_kept > 2 * self.size:  # so that a row is copied about twice on average
            self._parts = [self._smallest()]
            self._n_kept = len(self._parts[0][0])

    def _smallest(self) -> tuple[npt.NDArray[Any], ...]:
        arrays = tuple(np.concatenate(each) for each in zip(*self._parts, strict=True))
        if len(arrays[0]) <= self.size:
            return arrays
        kept = _smallest(arrays[0], self.size)
        return tuple(array[kept] for array in arrays)

    def rows(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], FloatArray | None]:
        """Return the numbers, targets and weights of the sample, in the order of the parts; None: all weights are 1."""
        arrays = self._smallest()
        return arrays[1], arrays[2], None if np.all(arrays[3] == 1.0) else arrays[3]


def _smallest(priorities: FloatArray, count: int) -> npt.NDArray[np.intp]:
    """Return the places of the smallest priorities, increasing."""
    if len(priorities) <= count:
        return np.arange(len(priorities))
    return np.sort(np.argpartition(priorities, count - 1)[:count])


class TableSketch:
    """Summary of a table that is read in parts: all that fitting an encoder needs.

    Parameters
    ----------
    seeds : list of int
        Random seed of each column.
    with_rows : bool
        Whether a sample of the rows is kept, as supervised placements need.
    """

    def __init__(self, seeds: list[int], *, with_rows: bool) -> None:
        self.seeds = seeds
        self.columns = [QuantileSketch(seed=seed) for seed in seeds]
        self.sample = RowSample(seeds[0]) if with_rows else None

    def update(self, values: npt.NDArray[Any], target: npt.NDArray[Any] | None, weights: FloatArray | None) -> None:
        """Add rows: numbers of shape (n, d), target and weights of shape (n,)."""
        for column, sketch in zip(values.T, self.columns, strict=True):
            sketch.update(column, weights)
        if self.sample is not None:
            assert target is not None
            self.sample.update(values, target, weights)

    def merge(self, other: "TableSketch") -> None:
        """Add the rows of another sketch, which is not changed."""
        for sketch, others in zip(self.columns, other.columns, strict=True):
            sketch.merge(others)
        if self.sample is not None and other.sample is not None:
            self.sample.merge(other.sample)
