"""B-splines: all other families are computed from them.

Let ``low < k_1 < ... < k_K < high`` be the ends of the domain and the K interior knots, and let t be the *clamped*
sequence: the same numbers with both ends repeated p + 1 times. There are m = K + p + 1 B-splines of degree p, defined
by the recursion of Cox and de Boor

    B_l^0(x) = 1 if t_l <= x < t_(l+1), else 0                      (the last interval is closed on the right)

                  x - t_l                       t_(l+q+1) - x
    B_l^q(x) = ------------- B_l^(q-1)(x) + ------------------- B_(l+1)^(q-1)(x)      with 0 / 0 = 0.
               t_(l+q) - t_l                t_(l+q+1) - t_(l+1)

If i of the interior knots are <= x, all B-splines are zero at x except those with index i, ..., i + p, and these
depend only on the p knots on either side of x. `local_bsplines` computes these p + 1 values by the triangular scheme:
it starts with the one function of degree 0 and applies the recursion degree by degree; each value of degree q - 1 adds
a share to two values of degree q. No denominator is zero, because each spans the interval around x.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from knotwork.basis._base import FloatArray, SplineBasis

__all__ = ["BSpline", "bspline_slopes", "bspline_values", "local_bsplines", "place"]


def local_bsplines(x: FloatArray, breaks: FloatArray, degree: int) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the degree + 1 B-splines that can differ from zero, and the index of the first.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Points inside the domain.
    breaks : ndarray of shape (K + 2,)
        ``[low, k_1, ..., k_K, high]``, strictly increasing.
    degree : int
        Degree p >= 0.

    Returns
    -------
    interval : ndarray of shape (n,)
        i, the number of interior knots <= x, which is also the index of the first function.
    values : ndarray of shape (n, degree + 1)
        ``B_i(x), ..., B_(i+p)(x)``.

    Examples
    --------
    >>> local_bsplines(np.array([0.25, 1.0]), np.array([0.0, 0.5, 1.0]), degree=1)
    (array([0, 1]), array([[0.5, 0.5],
           [0. , 1. ]]))
    """
    interval = np.searchsorted(breaks[1:-1], x, side="right")
    t = np.pad(breaks, max(degree - 1, 0), mode="edge")  # the part of the clamped sequence that is read
    first = interval + max(degree - 1, 0)  # t[first] <= x <= t[first + 1]
    values = np.zeros((x.size, degree + 1))
    values[:, 0] = 1.0
    for q in range(1, degree + 1):
        from_left = np.zeros(x.size)
        for r in range(q):
            left, right = t[first + r + 1 - q], t[first + r + 1]
            share = values[:, r] / (right - left)
            values[:, r] = from_left + (right - x) * share
            from_left = (x - left) * share
        values[:, q] = from_left
    return interval, values


def place(interval: npt.NDArray[np.intp], values: FloatArray, size: int) -> FloatArray:
    """Write each row of `values` into a row of `size` zeros, starting at column `interval`."""
    rows = np.zeros((interval.size, size))
    columns = interval[:, None] + np.arange(values.shape[1])
    np.put_along_axis(rows, columns, values, axis=1)
    return rows


def bspline_values(x: FloatArray, breaks: FloatArray, degree: int) -> FloatArray:
    """Return all K + degree + 1 B-splines at x; parameters as for `local_bsplines`."""
    return place(*local_bsplines(x, breaks, degree), len(breaks) + degree - 1)


def bspline_slopes(x: FloatArray, breaks: FloatArray, degree: int) -> FloatArray:
    """Return the derivatives of all K + degree + 1 B-splines at x; parameters as for `local_bsplines`."""
    if degree == 0:
        return np.zeros((x.size, len(breaks) - 1))
    t = np.pad(breaks, degree - 1, mode="edge")
    # Every B-spline of degree p - 1 adds one term to two neighbouring slopes, with opposite signs.
    flux = degree * bspline_values(x, breaks, degree - 1) / (t[degree:] - t[:-degree])
    return np.pad(flux, ((0, 0), (1, 0))) - np.pad(flux, ((0, 0), (0, 1)))


@final
@dataclass(frozen=True, eq=False)
class BSpline(SplineBasis):
    """Clamped B-splines of any degree.

    They are non-negative and sum to one on the whole domain, ends included. Each is zero outside degree + 1
    neighbouring intervals.

    Parameters
    ----------
    knots, domain, degree
        As for `SplineBasis`.

    Notes
    -----
    The recursion of Cox and de Boor defines the values, see the head of `knotwork/basis/_bspline.py`. The derivative of
    ``B_l^p`` is ``p B_l^(p-1) / (t_(l+p) - t_l) - p B_(l+1)^(p-1) / (t_(l+p+1) - t_(l+1))``.

    Examples
    --------
    >>> BSpline([0.5], degree=1).evaluate([0.0, 0.25, 1.0])
    array([[1. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_values(x, breaks, self.degree)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_slopes(x, breaks, self.degree)
