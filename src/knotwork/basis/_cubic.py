"""Bases of piecewise cubic functions, each of which varies on every interval: natural cubic splines."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.linalg import solve_banded

from knotwork.basis._base import Basis, FloatArray

__all__ = ["NaturalSpline", "PiecewiseCubic"]

MIN_STEP = 1e-60
"""Narrower intervals, as shares of the domain, are taken as wide as this where their squares would underflow."""


@dataclass(frozen=True, eq=False)
class PiecewiseCubic(Basis):
    """A basis that is given by the cubic polynomials of all its functions on each interval.

    Parameters
    ----------
    knots, domain
        As for `Basis`.
    """

    ends_in_lines: ClassVar[bool] = False  # functions continue in straight lines outside the domain

    @abstractmethod
    def coefficients(self, breaks: FloatArray) -> FloatArray:
        """Return the polynomials in ``u = (x - left end) / width``, of shape (K + 1 intervals, 4 powers, size)."""

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        interval, u, _ = _located(x, breaks)
        c = self.coefficients(breaks)[interval]
        values: FloatArray = ((c[:, 3] * u + c[:, 2]) * u + c[:, 1]) * u + c[:, 0]
        return values

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        interval, u, width = _located(x, breaks)
        c = self.coefficients(breaks)[interval]
        slopes: FloatArray = ((3.0 * c[:, 3] * u + 2.0 * c[:, 2]) * u + c[:, 1]) / width
        return slopes


def _located(x: FloatArray, breaks: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the interval of each x, its place in it from 0 to 1, and the width of the interval, as columns."""
    interval = np.searchsorted(breaks[1:-1], x, side="right")
    width = np.diff(breaks)[interval]
    return interval, ((x - breaks[interval]) / width)[:, None], width[:, None]


@final
@dataclass(frozen=True, eq=False)
class NaturalSpline(PiecewiseCubic):
    """Natural cubic regression splines: the coefficient of a function is the value of the curve at its knot.

    The function of a knot is 1 there and 0 at all others, ends included: in between it is the smoothest curve through
    these points. Functions sum to one. Outside the domain they are straight lines, for ``extrapolation="linear"`` as
    for ``"continue"``.

    Parameters
    ----------
    knots, domain
        As for `Basis`. Functions belong to the knots and to the two ends.

    Notes
    -----
    With breaks b_0 < ... < b_n, widths h_j = b_(j+1) - b_j, and u = (x - b_j) / h_j in the interval j, the curve with
    values f_j and second derivatives g_j at the breaks is

        (1 - u) f_j + u f_(j+1) + h_j^2 / 6 (((1 - u)^3 - (1 - u)) g_j + (u^3 - u) g_(j+1)).

    Its slope is continuous if, for 0 < j < n,

        h_(j-1) g_(j-1) + 2 (h_(j-1) + h_j) g_j + h_j g_(j+1) = 6 ((f_(j+1) - f_j) / h_j - (f_j - f_(j-1)) / h_(j-1)),

    and it is natural if g_0 = g_n = 0. Column j is the curve of f_j = 1 and zeros. This is `cr` of patsy and mgcv.

    Where neighbouring intervals differ much in width, functions are larger than 1, by about the ratio of the widths.

    Examples
    --------
    >>> NaturalSpline([0.5]).evaluate([0.0, 0.25, 0.5]).round(3)
    array([[ 1.   ,  0.   ,  0.   ],
           [ 0.406,  0.688, -0.094],
           [ 0.   ,  1.   ,  0.   ]])
    """

    ends_in_lines = True

    @property
    def size(self) -> int:
        """Number of functions, m = K + 2."""
        return len(self.knots) + 2

    def coefficients(self, breaks: FloatArray) -> FloatArray:
        """Return the polynomials of all functions on each interval."""
        values, steps = np.eye(self.size), np.diff(breaks) / (breaks[-1] - breaks[0])
        h = np.maximum(steps, MIN_STEP)[:, None]
        bends = np.zeros_like(values)  # second derivatives at the breaks, on the domain scaled to [0, 1]
        if len(self.knots):
            rises = np.diff(np.diff(values, axis=0) / h, axis=0)
            bands = np.zeros((3, len(self.knots)))
            bands[0, 1:], bands[1], bands[2, :-1] = h[1:-1, 0], 2.0 * (h[:-1, 0] + h[1:, 0]), h[1:-1, 0]
            bends[1:-1] = solve_banded((1, 1), bands, 6.0 * rises)
        left, right, sixth = bends[:-1], bends[1:], h**2 / 6.0
        powers = [
            values[:-1],
            np.diff(values, axis=0) - sixth * (2.0 * left + right),
            3.0 * sixth * left,
            sixth * (right - left),
        ]
        return np.stack(powers, axis=1)

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        inside = np.clip(x, breaks[0], breaks[-1])
        return super()._values(inside, breaks) + (x - inside)[:, None] * self._slopes(inside, breaks)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return super()._slopes(np.clip(x, breaks[0], breaks[-1]), breaks)
