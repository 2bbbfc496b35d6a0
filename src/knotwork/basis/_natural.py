"""Natural cubic regression splines: the smoothest curves through values at the knots."""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_banded

from knotwork.basis._base import Basis, FloatArray

MIN_STEP = 1e-60
"""Minimum width of an interval, as a share of the domain: squares of smaller ones would underflow."""


def bends_of(breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the second derivatives of the curves of `NaturalSpline` at the breaks, and the widths of the intervals.

    Both are those on the domain scaled to [0, 1]; rows belong to breaks, columns to curves.
    """
    widths = np.maximum(np.diff(breaks) / (breaks[-1] - breaks[0]), MIN_STEP)
    bends = np.zeros((len(breaks), len(breaks)))
    if len(breaks) > 2:
        rises = np.diff(np.diff(np.eye(len(breaks)), axis=0) / widths[:, None], axis=0)
        bands = np.zeros((3, len(breaks) - 2))
        bands[0, 1:] = bands[2, :-1] = widths[1:-1]
        bands[1] = 2.0 * (widths[:-1] + widths[1:])
        bends[1:-1] = solve_banded((1, 1), bands, 6.0 * rises)
    return bends, widths


@final
@dataclass(frozen=True, eq=False)
class NaturalSpline(Basis):
    """Natural cubic regression splines: the coefficient of a function is the value of the curve at its knot.

    Each function is 1 at its knot, 0 at all other knots and ends, and the smoothest curve through these points in
    between. Functions sum to one. Outside the domain they are straight lines, both for ``extrapolation="linear"`` and
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

    If the widths of neighbouring intervals differ a lot, functions exceed 1 by about the ratio of the widths.

    Examples
    --------
    >>> NaturalSpline([0.5]).evaluate([0.0, 0.25, 0.5]).round(3)
    array([[ 1.   ,  0.   ,  0.   ],
           [ 0.406,  0.688, -0.094],
           [ 0.   ,  1.   ,  0.   ]])
    """

    _smallest = 2

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        inside = np.clip(x, breaks[0], breaks[-1])
        j, u = _located(inside, breaks)
        w, values, (bends, widths) = 1.0 - u, np.eye(self.size), bends_of(breaks)
        curves = (w**3 - w) * bends[j] + (u**3 - u) * bends[j + 1]
        line = (x - inside)[:, None] * self._slopes(inside, breaks)
        curve: FloatArray = w * values[j] + u * values[j + 1] + (widths[j] ** 2 / 6.0)[:, None] * curves + line
        return curve

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        j, u = _located(np.clip(x, breaks[0], breaks[-1]), breaks)
        w, values, (bends, widths) = 1.0 - u, np.eye(self.size), bends_of(breaks)
        curves = (1.0 - 3.0 * w**2) * bends[j] + (3.0 * u**2 - 1.0) * bends[j + 1]
        rises = values[j + 1] - values[j] + (widths[j] ** 2 / 6.0)[:, None] * curves
        slopes: FloatArray = rises / np.diff(breaks)[j][:, None]
        return slopes


def _located(x: FloatArray, breaks: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the interval of each x, and the position of x in it, from 0 to 1, as a column."""
    interval = np.searchsorted(breaks[1:-1], x, side="right")
    return interval, ((x - breaks[interval]) / np.diff(breaks)[interval])[:, None]
