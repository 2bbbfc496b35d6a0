"""Piecewise-linear encoding (PLE): one ramp per bin."""

from dataclasses import dataclass
from typing import final

import numpy as np

from knotwork.basis._base import Basis, FloatArray

__all__ = ["PiecewiseLinear"]


@final
@dataclass(frozen=True, eq=False)
class PiecewiseLinear(Basis):
    """Ramps of Gorishniy et al. (2022): each bin's function rises from 0 at its left to 1 at its right edge.

    Parameters
    ----------
    knots : array-like of shape (K,)
        Interior edges of the K + 1 bins.
    domain : tuple of float
        The outer edges.

    Notes
    -----
    With edges b_0 < b_1 < ... < b_m,

        e_t(x) = clip((x - b_(t-1)) / (b_t - b_(t-1)), 0, 1),      t = 1, ..., m.

    Examples
    --------
    >>> PiecewiseLinear([0.5]).evaluate([0.25, 0.75])
    array([[0.5, 0. ],
           [1. , 0.5]])
    """

    @property
    def size(self) -> int:
        """Number of bins, m = K + 1."""
        return len(self.knots) + 1

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return np.clip((x[:, None] - breaks[:-1]) / np.diff(breaks), 0.0, 1.0)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        bins = np.searchsorted(breaks[1:-1], x, side="right")
        slopes: FloatArray = (bins[:, None] == np.arange(self.size)) / np.diff(breaks)
        return slopes
