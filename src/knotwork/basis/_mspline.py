"""M-splines: B-splines scaled so that each integrates to one."""

from dataclasses import dataclass
from typing import final

import numpy as np

from knotwork.basis._base import FloatArray, SplineBasis
from knotwork.basis._bspline import bspline_slopes, bspline_values

__all__ = ["MSpline", "heights"]


def heights(breaks: FloatArray, degree: int) -> FloatArray:
    """Return ``(degree + 1) / (t_(l+degree+1) - t_l)``, by which B_l is multiplied to integrate to one.

    Parameters
    ----------
    breaks : ndarray of shape (K + 2,)
        ``[low, k_1, ..., k_K, high]``; t is the clamped sequence of `knotwork.basis._bspline`.
    degree : int
        Degree of the B-splines.

    Examples
    --------
    >>> heights(np.array([0.0, 0.5, 1.0]), degree=1)
    array([4., 2., 4.])
    """
    t = np.pad(breaks, degree, mode="edge")
    return (degree + 1) / (t[degree + 1 :] - t[: -degree - 1])


@final
@dataclass(frozen=True, eq=False)
class MSpline(SplineBasis):
    """Clamped M-splines of any degree: non-negative densities on the domain.

    Parameters
    ----------
    knots : array-like of shape (K,)
        Interior knots.
    domain : tuple of float
        The two ends.
    degree : int
        Degree p >= 0 of the pieces.

    Notes
    -----
    ``M_l = (p + 1) / (t_(l+p+1) - t_l) B_l`` with the B-splines and the clamped sequence t of
    `knotwork.basis._bspline`. M-splines carry the unit 1 / x: halve the domain and they double.

    Examples
    --------
    >>> MSpline([0.5], degree=0).evaluate([0.1, 0.9])
    array([[2., 0.],
           [0., 2.]])
    """

    def _density_unit(self, unit: float) -> float:
        return unit

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_values(x, breaks, self.degree) * heights(breaks, self.degree)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_slopes(x, breaks, self.degree) * heights(breaks, self.degree)
