"""Radial functions in one dimension, which depend on the distance to a centre: Gaussian bumps, thin-plate splines."""

from dataclasses import dataclass
from typing import final

import numpy as np

from knotwork.basis._base import Basis, FloatArray


def bump_widths(breaks: FloatArray) -> FloatArray:
    """Return the standard deviations of Gaussian bumps at the breaks: the mean distance to the neighbouring breaks."""
    padded = np.pad(breaks, 1, mode="edge")
    n_neighbours = np.full(len(breaks), 2.0)
    n_neighbours[[0, -1]] = 1.0
    widths: FloatArray = (padded[2:] - padded[:-2]) / n_neighbours
    return widths


@final
@dataclass(frozen=True, eq=False)
class RadialBasis(Basis):
    """Gaussian radial basis functions: a bump of height 1 at every knot and at the two ends.

    Parameters
    ----------
    knots, domain
        As for `Basis`. The centres are the knots and the two ends.

    Notes
    -----
    ``exp(-(x - c_j)^2 / (2 w_j^2))`` with the centres c_j and the widths ``w_j = (c_(j+1) - c_(j-1)) / 2``, at the ends
    the distance to the neighbour. Networks multiply the widths by learned factors, which start at one.

    Examples
    --------
    >>> RadialBasis([0.5]).evaluate([0.0, 0.5]).round(3)
    array([[1.   , 0.607, 0.135],
           [0.607, 1.   , 0.607]])
    """

    _smallest = 2

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        distances = (x[:, None] - breaks) / bump_widths(breaks)
        values: FloatArray = np.exp(-0.5 * distances**2)
        return values

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        widths = bump_widths(breaks)
        return self._values(x, breaks) * (breaks - x[:, None]) / widths / widths


@final
@dataclass(frozen=True, eq=False)
class ThinPlateSpline(Basis):
    """Thin-plate splines in one dimension: a line, and the cubed distance to every knot.

    With an intercept they span the smoothest curves through values at the knots: those with the smallest integral of
    the squared second derivative.

    Parameters
    ----------
    knots, domain
        As for `Basis`. The centres are the knots.

    Notes
    -----
    On the domain scaled to [0, 1] the functions are t and ``|t - k_j|^3`` for every knot k_j.

    Examples
    --------
    >>> ThinPlateSpline([0.5]).evaluate([0.0, 0.5, 1.0])
    array([[0.   , 0.125],
           [0.5  , 0.   ],
           [1.   , 0.125]])
    """

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        shares = (x[:, None] - breaks[:-1]) / (breaks[-1] - breaks[0])
        return np.column_stack([shares[:, 0], np.abs(shares[:, 1:]) ** 3])

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        width = breaks[-1] - breaks[0]
        shares = (x[:, None] - breaks[1:-1]) / width
        slopes: FloatArray = np.column_stack([np.ones(len(x)), 3.0 * shares * np.abs(shares)]) / width
        return slopes
