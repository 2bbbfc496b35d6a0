"""I-splines: integrated M-splines, monotone from 0 to 1."""

from dataclasses import dataclass
from typing import final

import numpy as np

from knotwork.basis._base import FloatArray, SplineBasis
from knotwork.basis._bspline import bspline_values, local_bsplines, place
from knotwork.basis._mspline import heights

__all__ = ["ISpline"]


@final
@dataclass(frozen=True, eq=False)
class ISpline(SplineBasis):
    """Clamped I-splines: the integral of each M-spline of degree `degree`, from the left end to x.

    Each function rises from exactly 0 at the left end to exactly 1 at the right end. At any x the first functions
    are 1, then come at most degree + 1 values in between, and the others are 0.

    Parameters
    ----------
    knots : array-like of shape (K,)
        Interior knots.
    domain : tuple of float
        The two ends.
    degree : int
        Degree p >= 0 of the M-splines; the pieces of the I-splines have degree p + 1.

    Notes
    -----
    No quadrature is needed: on the same interior knots, with the ends repeated once more,

        I_l^p(x) = sum over j > l of B_j^(p+1)(x),      l = 0, ..., m - 1,  j = 0, ..., m.

    So the derivative is ``M_l^p``, and `ISpline` of degree 0 is `PiecewiseLinear`.

    Examples
    --------
    >>> ISpline([0.5], degree=0).evaluate([0.0, 0.25, 0.5, 1.0])
    array([[0. , 0. ],
           [0.5, 0. ],
           [1. , 0. ],
           [1. , 1. ]])
    """

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        interval, local = local_bsplines(x, breaks, self.degree + 1)
        tails = np.cumsum(local[:, :0:-1], axis=1)[:, ::-1]  # sums of B_j over the non-zero j > l
        rows = place(interval, tails, self.size)
        rows[np.arange(self.size) < interval[:, None]] = 1.0
        return rows

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_values(x, breaks, self.degree) * heights(breaks, self.degree)
