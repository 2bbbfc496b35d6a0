"""What is kept of a table that is read in parts: a summary of each column, and a sample of the rows."""

from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knotwork._checks import type_error
from knotwork.basis import FloatArray
from knotwork.errors import ColumnTypeError
from knotwork.knots import Column, QuantileSketch

__all__ = ["SAMPLE_ROWS", "ColumnSketch", "RowSample", "TableSketch"]

SAMPLE_ROWS = 100_000
"""Rows of a table in parts that trees and pairs of columns are fitted on, at most."""

MOST_HASHES = 1024
"""Smallest hashes of distinct values that are kept: up to so many values the number of distinct ones is exact."""

CHUNK = 1 << 15
"""Numbers that are hashed at a time, so that they stay in the processor's cache."""


class ColumnSketch:
    """A summary of a column of numbers in bounded memory, which can be merged with those of other parts of a table.

    Range, mean, standard deviation and numbers of rows are exact. Quantiles are exact for up to 65,536 numbers and for
    any number of them with up to 8,192 distinct values; beyond that their ranks have the error of
    `knotwork.knots.QuantileSketch`, at most 0.03 % of 10 million rows.

    Parameters
    ----------
    seed : int, default=0
        Random seed of the sketch of quantiles.

    Attributes
    ----------
    n : int
        Number of rows, without missing values and without rows of weight zero.
    n_missing : int
        Number of missing values.

    Notes
    -----
    The number of distinct values is exact below 1,024. Beyond that it is an estimate with a standard error of 3 %, from
    the 1,024th smallest of their hashes h in [0, 1): 1023 / h (Bar-Yossef et al., 2002).

    Examples
    --------
    >>> sketch = ColumnSketch()
    >>> sketch.update(np.array([1.0, 3.0, np.nan, 3.0]))
    >>> sketch.n, sketch.n_missing, sketch.minimum, sketch.maximum, sketch.n_distinct
    (3, 1, 1.0, 3.0, 2)
    >>> sketch.quantiles([0.5])
    array([3.])
    """

    def __init__(self, seed: int = 0) -> None:
        self.n = 0
        self.n_missing = 0
        self._numbers = QuantileSketch(seed=seed)
        self._hashes = np.empty(0, dtype=np.uint64)

    def update(self, values: npt.NDArray[Any], weights: FloatArray | None = None) -> None:
        """Add the values of a part of the column; NaN are missing.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Finite numbers, NaN where missing.
        weights : ndarray of shape (n,), optional
            Weights of the rows; a row of weight zero is ignored.
        """
        kept = np.ones(len(values), dtype=bool) if weights is None else weights > 0
        present = kept & ~np.isnan(values)
        n_present = int(np.count_nonzero(present))
        self.n += n_present
        self.n_missing += int(np.count_nonzero(kept)) - n_present
        if n_present < len(values):
            values, weights = values[present], None if weights is None else weights[present]
        for start in range(0, len(values), CHUNK):
            part = values[start : start + CHUNK].astype(np.float64)
            self._numbers.update(part, None if weights is None else weights[start : start + CHUNK])
            self._keep(_hashes(part))

    def _keep(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Keep the smallest hashes of those that have been kept and of others."""
        if len(self._hashes) == MOST_HASHES:
            hashes = hashes[hashes < self._hashes[-1]]
        if len(hashes):
            both = np.sort(np.concatenate([self._hashes, hashes]))
            self._hashes = both[np.append(True, both[1:] != both[:-1])][:MOST_HASHES]

    def merge(self, other: "ColumnSketch") -> Self:
        """Add what another sketch has seen; return the sketch itself. The other one is not changed."""
        if not isinstance(other, ColumnSketch):
            raise type_error("other", "be a ColumnSketch", other)
        self.n += other.n
        self.n_missing += other.n_missing
        self._numbers.merge(other._numbers)
        self._keep(other._hashes)
        return self

    def column(self) -> Column:
        """Return the summary as the column that knots are placed by, without rows."""
        return self._numbers.column()

    def quantiles(self, levels: npt.ArrayLike) -> FloatArray:
        """Return quantiles with linear interpolation, as `numpy.quantile`; empty without values."""
        return self.column().quantiles(levels)

    @property
    def minimum(self) -> float:
        """The smallest value; infinite without values."""
        return float(self._numbers.range[0])

    @property
    def maximum(self) -> float:
        """The largest value; minus infinity without values."""
        return float(self._numbers.range[1])

    @property
    def is_exact(self) -> bool:
        """Whether quantiles and distinct values are those of all values."""
        return self._numbers.is_exact

    @property
    def distinct(self) -> FloatArray | None:
        """The distinct values, increasing, as long as there are fewer than 1,024; then None."""
        return self.column().distinct if len(self._hashes) < MOST_HASHES else None

    @property
    def counts(self) -> FloatArray | None:
        """The number or total weight of each distinct value, as long as `distinct` has them; then None."""
        return self.column().weights if len(self._hashes) < MOST_HASHES else None

    @property
    def n_distinct(self) -> int:
        """The number of distinct values: exact below 1,024, then an estimate."""
        if len(self._hashes) < MOST_HASHES:
            return len(self._hashes)
        return round((MOST_HASHES - 1) / ((float(self._hashes[-1]) + 1.0) / 2.0**64))


def _hashes(values: FloatArray) -> npt.NDArray[np.uint64]:
    """Return 64 mixed bits of each number (the finaliser of SplitMix64); -0.0 is 0.0."""
    bits = (values + 0.0).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
        bits ^= bits >> np.uint64(shift)
        if factor is not None:
            bits *= np.uint64(factor)
    return bits


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
        Number of rows that are kept.
    """

    def __init__(self, seed: int = 0, size: int = SAMPLE_ROWS) -> None:
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
        """Keep whether targets are numbers or labels; a part with the other kind is refused."""
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
    """What is kept of a table that is read in parts.

    Parameters
    ----------
    seeds : list of int
        Random seed of each column.
    with_rows : bool
        Whether a sample of the rows is kept, as supervised placements need.
    """

    def __init__(self, seeds: list[int], *, with_rows: bool) -> None:
        self.seeds = seeds
        self.columns = [ColumnSketch(seed) for seed in seeds]
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
