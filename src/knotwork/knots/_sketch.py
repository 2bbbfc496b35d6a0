"""A summary of a stream of numbers in bounded memory, for the placement of knots."""

from hashlib import blake2b
from math import frexp, ldexp
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_int, type_error
from knotwork.basis import FloatArray
from knotwork.knots._columns import Column

MIN_COUNTED = 1024
"""Minimum number of distinct values that are counted exactly, for any capacity."""

INTEGER_TOTAL = 2.0**40
"""Total to which the fractional weights of an approximate summary are scaled before they are rounded."""

HASH_STRIDE = 61
"""Every 61st number of a buffer is hashed to choose which half of the buffer is kept."""


class _Buffer(NamedTuple):
    """Numbers with their weights: one weight for all, or one for each."""

    values: FloatArray
    weights: float | FloatArray

    def weight_array(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self.weights, dtype=np.float64), self.values.shape)


class QuantileSketch:
    """Summary of a stream of numbers in bounded memory, which can be merged with summaries of other streams.

    It is exact for up to ``2 * capacity`` numbers, and for up to ``capacity / 4`` distinct values (at least 1,024).
    Beyond that, pairs of buffers are merged: they are sorted together, and every second number is kept with twice the
    weight. Minimum, maximum, mean and standard deviation stay exact.

    Parameters
    ----------
    capacity : int, default=32768
        Numbers per buffer.
    seed : int, default=0
        Random seed of the choice between the odd and the even numbers of a buffer. The choice depends only on the seed
        and the numbers: equal streams give equal sketches.

    Attributes
    ----------
    is_exact : bool
        Whether all numbers are kept or counted.

    Notes
    -----
    This is the scheme of Munro and Paterson (1980) with the random choice of Manku, Rajagopalan and Lindsay (1999),
    which KLL sketches refine. A merge changes a rank by at most the weight of one number, so the error of ranks after n
    numbers is at most ``n log2(n / capacity) / (2 capacity)``, and on average much smaller, because the errors cancel.
    With the default capacity and 10 million numbers that is 0.013 % of the rows, in 3 MiB. With sample weights, and
    when counted numbers are merged with others, numbers are kept at steps of ``W / capacity`` of the total weight W,
    with up to twice the error. Summaries can be merged in any order; the logarithm in the bound is then larger by 1.

    Examples
    --------
    >>> first, second = QuantileSketch(), QuantileSketch()
    >>> first.update(np.array([1.0, 2.0]))
    >>> second.update(np.array([2.0, np.nan, 5.0]))
    >>> first.merge(second).column().distinct
    array([1., 2., 5.])
    """

    def __init__(self, capacity: int = 1 << 15, seed: int = 0) -> None:
        self.capacity = check_int(capacity, "capacity", minimum=2)
        self.seed = check_int(seed, "seed", minimum=0)
        self._levels: dict[int, _Buffer] = {}
        self.is_exact = True
        self._pending: list[_Buffer] = []
        self._n_pending = 0
        self._low, self._high = np.inf, -np.inf
        # In extended precision, which most machines have, squares of large float64 numbers are finite.
        self._moments = np.zeros(3, dtype=np.longdouble)

    def update(self, values: FloatArray, sample_weight: FloatArray | None = None) -> None:
        """Add the numbers of a batch; NaN and numbers of weight zero are ignored.

        Parameters
        ----------
        values : ndarray of shape (n,)
            The numbers.
        sample_weight : ndarray of shape (n,), optional
            Weights that are not negative; weight two is the same as two equal numbers.
        """
        kept = ~np.isnan(values)
        if sample_weight is not None:
            kept &= sample_weight > 0
        if not kept.all():
            values, sample_weight = values[kept], None if sample_weight is None else sample_weight[kept]
        for start in range(0, len(values), self.capacity):
            part = slice(start, start + self.capacity)
            numbers = values[part].astype(np.float64)  # a copy: a view would keep the whole batch
            weights = None if sample_weight is None else sample_weight[part].astype(np.float64)
            self._low, self._high = min(self._low, numbers.min()), max(self._high, numbers.max())
            self._moments = _join_moments(self._moments, _moments(numbers, weights))
            self._append(_Buffer(numbers, 1.0 if weights is None else weights))

    def _append(self, part: _Buffer) -> None:
        """Append numbers; flush full buffers once there are two of them."""
        self._pending.append(part)
        self._n_pending += len(part.values)
        if self._n_pending < 2 * self.capacity:
            return
        joined = _joined(self._pending)
        cut = len(joined.values) // self.capacity * self.capacity
        for start in range(0, cut, self.capacity):
            self._flush(_part(joined, slice(start, start + self.capacity)))
        rest = _part(joined, slice(cut, None))
        self._pending, self._n_pending = [rest] if len(rest.values) else [], len(rest.values)

    def _flush(self, buffer: _Buffer) -> None:
        """Push a full buffer to the lowest level; a buffer with few distinct values is counted."""
        buffer = _sorted(buffer)
        n_distinct = 1 + np.count_nonzero(buffer.values[1:] != buffer.values[:-1])
        self._push(_coalesced(buffer) if n_distinct <= max(self.capacity // 4, MIN_COUNTED) else buffer, 0)

    def _push(self, buffer: _Buffer, level: int) -> None:
        """Add a sorted buffer to a level; if the level has a buffer already, merge both into the next level."""
        while level in self._levels:
            buffer = self._halved(self._levels.pop(level), buffer)
            level += 1
        self._levels[level] = buffer

    def _halved(self, first: _Buffer, second: _Buffer) -> _Buffer:
        """Merge two buffers; of many distinct values, keep `capacity` at equal steps of the running weight."""
        equal = (
            isinstance(first.weights, float) and isinstance(second.weights, float) and first.weights == second.weights
        )
        if equal and len(first.values) == len(second.values) == self.capacity:
            self.is_exact = False
            values = np.concatenate([first.values, second.values])
            values.sort(kind="stable")  # a merge sort, fast on two sorted halves
            return _Buffer(values[int(2.0 * self._offset(first, second)) :: 2].copy(), 2.0 * float(first.weights))
        both = _coalesced(_sorted(_joined([first, second])))
        if len(both.values) <= max(self.capacity, MIN_COUNTED):
            return both
        self.is_exact, offset = False, self._offset(first, second)
        running = np.cumsum(both.weights)
        step = running[-1] / self.capacity
        places = np.searchsorted(running, step * (offset + np.arange(self.capacity)), side="right")
        return _Buffer(both.values[np.minimum(places, len(both.values) - 1)], float(step))

    def _offset(self, first: _Buffer, second: _Buffer) -> float:
        """Return a number in [0, 1) that depends on the random seed and the numbers, but not on their order."""
        digests = [blake2b(np.ascontiguousarray(each.values[::HASH_STRIDE])).digest() for each in (first, second)]
        digest = blake2b(b"".join(sorted(digests)), digest_size=8, key=str(self.seed).encode()).digest()
        return int.from_bytes(digest, "big") / 2.0**64

    def merge(self, other: "QuantileSketch") -> Self:
        """Add the numbers of another sketch of the same capacity, which is not changed; return the sketch itself.

        Merging is commutative and associative up to the error in the Notes; exactly, if the result is exact.
        """
        if not isinstance(other, QuantileSketch):
            raise type_error("other", "be a QuantileSketch", other)
        if other.capacity != self.capacity:
            raise argument_error("other", f"have the capacity {self.capacity}", other.capacity, "Use one capacity.")
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        self._moments = _join_moments(self._moments, other._moments)
        self.is_exact &= other.is_exact
        for level, buffer in sorted(other._levels.items()):
            self._push(buffer, level)
        for part in list(other._pending):
            self._append(part)
        return self

    def column(self) -> Column:
        """Return the summary as a column without rows."""
        parts = [*self._pending, *self._levels.values()]
        total, mean, squares = self._moments
        if not total > 0:
            return Column(np.empty(0), np.empty(0))
        distinct, totals = _coalesced(_sorted(_joined(parts)))
        totals = np.asarray(totals)
        if not self.is_exact and np.any(totals != np.floor(totals)):
            # Each number represents several: with integer weights, quantiles are these numbers, without interpolation.
            totals = np.maximum(np.rint(totals * (INTEGER_TOTAL / totals.sum())), 1.0)
        least = min(1.0, totals.min())  # weights may be in any unit
        if distinct[0] != self._low:
            distinct, totals = np.insert(distinct, 0, self._low), np.insert(totals, 0, least)
        if distinct[-1] != self._high:
            distinct, totals = np.append(distinct, self._high), np.append(totals, least)
        return Column(distinct, totals, moments=(float(mean), float(np.sqrt(squares / total)))).joined()

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number; ``(inf, -inf)`` without numbers."""
        return float(self._low), float(self._high)


def _part(buffer: _Buffer, rows: slice) -> _Buffer:
    return _Buffer(buffer.values[rows], buffer.weights if isinstance(buffer.weights, float) else buffer.weights[rows])


def _joined(buffers: list[_Buffer]) -> _Buffer:
    if len(buffers) == 1:
        return buffers[0]
    values = np.concatenate([each.values for each in buffers])
    if all(isinstance(each.weights, float) and each.weights == buffers[0].weights for each in buffers):
        return _Buffer(values, buffers[0].weights)
    return _Buffer(values, np.concatenate([each.weight_array() for each in buffers]))


def _sorted(buffer: _Buffer) -> _Buffer:
    if isinstance(buffer.weights, float):
        return _Buffer(np.sort(buffer.values), buffer.weights)
    order = np.argsort(buffer.values, kind="stable")
    return _Buffer(buffer.values[order], buffer.weights[order])


def _coalesced(buffer: _Buffer) -> _Buffer:
    """Return the distinct values of a sorted buffer, each with its total weight."""
    values = buffer.values
    if not len(values):
        return _Buffer(values, np.empty(0))
    first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    if isinstance(buffer.weights, float):
        return _Buffer(values[first], buffer.weights * np.diff(first, append=len(values)))
    return _Buffer(values[first], np.add.reduceat(buffer.weights, first))


def _moments(values: FloatArray, weights: FloatArray | None) -> npt.NDArray[np.longdouble]:
    """Return total weight, mean, and weighted sum of squared deviations from it."""
    largest = float(max(-values.min(), values.max()))
    unit = ldexp(1.0, min(-frexp(largest)[1], 1000))  # scaling by a power of two is exact, and squares stay finite
    scaled = values * unit
    mean = scaled.mean() if weights is None else np.average(scaled, weights=weights)
    scaled -= mean
    # No dot product: BLAS would start threads, which spin on cores that other columns need.
    np.square(scaled, out=scaled)
    squares = scaled.sum() if weights is None else (weights * scaled).sum()
    total = len(values) if weights is None else weights.sum()
    back = 1.0 / np.longdouble(unit)
    return np.array([np.longdouble(total), mean * back, squares * back * back])


def _join_moments(first: npt.NDArray[np.longdouble], second: npt.NDArray[np.longdouble]) -> npt.NDArray[np.longdouble]:
    """Return the moments of two streams as one (Chan et al., 1983)."""
    total = first[0] + second[0]
    if not total > 0:
        return first
    difference = second[1] - first[1]
    squares = first[2] + second[2] + difference**2 * (first[0] * second[0] / total)
    return np.array([total, first[1] + difference * (second[0] / total), squares])
