"""Quantiles of a column that is seen batch by batch and never held."""

import numpy as np
import numpy.typing as npt

from knotwork.basis._families import FloatArray
from knotwork.knots._columns import Column

__all__ = ["QuantileSketch"]


class QuantileSketch:
    """A summary of a stream of numbers in bounded memory.

    Up to `capacity` numbers it is exact. Beyond, full buffers are halved: sorted, every second number is kept with
    twice the weight, and two buffers of one weight become one of the next. Smallest and largest number, mean and
    standard deviation stay exact.

    Parameters
    ----------
    capacity : int
        Numbers per buffer.
    seed : int
        Seed of the choice between the odd and the even numbers of a buffer.

    Notes
    -----
    This is the scheme of Munro and Paterson (1980) with the random choice of Manku, Rajagopalan and Lindsay (1999).
    A halving moves a rank by at most the weight of one number, so after n numbers ranks are off by at most
    ``n log2(n / capacity) / (2 capacity)``, and by far less on average, for the errors cancel. With the default
    capacity and 10 million numbers that is 0.013 % of the rows, in 3 MiB.
    """

    def __init__(self, capacity: int = 1 << 15, seed: int = 0) -> None:
        self.capacity = capacity
        self._random = np.random.default_rng(seed)
        self._levels: list[list[FloatArray]] = [[]]
        self._pending: list[FloatArray] = []
        self._n_pending = 0
        self._low, self._high = np.inf, -np.inf
        # Extended precision, where the machine has it, holds squares of any float64.
        self._n, self._mean, self._squares = 0, np.longdouble(0), np.longdouble(0)

    def update(self, values: FloatArray) -> None:
        """Take in the numbers of a batch; NaN are left out."""
        values = values[~np.isnan(values)]
        if not len(values):
            return
        self._low, self._high = min(self._low, values.min()), max(self._high, values.max())
        self._add_moments(values.astype(np.longdouble))
        self._pending.append(values.copy())
        self._n_pending += len(values)
        while self._n_pending >= 2 * self.capacity:
            joined = np.concatenate(self._pending)
            self._push(np.sort(joined[: self.capacity]), 0)
            self._pending, self._n_pending = [joined[self.capacity :]], len(joined) - self.capacity

    def _add_moments(self, values: npt.NDArray[np.longdouble]) -> None:
        """Join the mean and the sum of squared deviations of a batch to those so far (Chan et al., 1983)."""
        n, mean = len(values), values.mean()
        difference, total = mean - self._mean, self._n + n
        self._squares += ((values - mean) ** 2).sum() + difference**2 * (self._n * n / total)
        self._mean += difference * (n / total)
        self._n = total

    def _push(self, buffer: FloatArray, level: int) -> None:
        """Add a sorted buffer whose numbers stand for 2**level each; where there is one already, join the two."""
        while len(self._levels) <= level:
            self._levels.append([])
        self._levels[level].append(buffer)
        if len(self._levels[level]) == 2:
            both = np.sort(np.concatenate(self._levels[level]), kind="stable")
            self._levels[level] = []
            self._push(both[int(self._random.integers(2)) :: 2], level + 1)

    def column(self) -> Column:
        """Return what has been seen as a column without rows."""
        parts = [(part, 1.0) for part in self._pending]
        parts += [(buffer, 2.0**level) for level, buffers in enumerate(self._levels) for buffer in buffers]
        if not parts:
            return Column(np.empty(0), np.empty(0))
        values = np.concatenate([part for part, _ in parts])
        weights = np.concatenate([np.full(len(part), weight) for part, weight in parts])
        distinct, codes = np.unique(values, return_inverse=True)
        totals = np.bincount(codes, weights, len(distinct)).astype(np.float64)
        if distinct[0] != self._low:
            distinct, totals = np.insert(distinct, 0, self._low), np.insert(totals, 0, 1.0)
        if distinct[-1] != self._high:
            distinct, totals = np.append(distinct, self._high), np.append(totals, 1.0)
        deviation = np.sqrt(self._squares / self._n)
        return Column(distinct, totals, moments=(float(self._mean), float(deviation)))
