"""B-splines, clamped and cyclic: all other families of splines are computed from them.

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

*Cyclic* B-splines are those of the sequence that repeats with the period ``high - low`` instead of the ends:
``t_(l+K+1) = t_l + high - low``. There are m = K + 1 of them, one for each interval: the functions i, ..., i + p of
interval i are counted modulo m, and overlapping ones are summed.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from knotwork.basis._base import FloatArray, SplineBasis


def extended(breaks: FloatArray, n: int, *, cyclic: bool) -> FloatArray:
    """Return the breaks with n more on each side: repeated ends, or the breaks of the neighbouring periods."""
    if not cyclic:
        return np.pad(breaks, n, mode="edge")
    n_intervals, period = len(breaks) - 1, breaks[-1] - breaks[0]
    turns, places = np.divmod(np.concatenate([np.arange(-n, 0), np.arange(1, n + 1)]), n_intervals)
    others = breaks[places] + turns * period
    others[n:] += period
    return np.concatenate([others[:n], breaks, others[n:]])


def local_bsplines(
    x: FloatArray, breaks: FloatArray, degree: int, *, cyclic: bool = False
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the degree + 1 B-splines that can differ from zero, and the index of the first.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Points inside the domain; for points outside, the polynomials of the first or last interval are evaluated.
    breaks : ndarray of shape (K + 2,)
        ``[low, k_1, ..., k_K, high]``, strictly increasing.
    degree : int
        Degree p >= 0.
    cyclic : bool, default=False
        Whether the knots repeat periodically; by default they are clamped.

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
    t = extended(breaks, max(degree - 1, 0), cyclic=cyclic)  # the part of the sequence that is read
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


def _local_slopes(
    x: FloatArray, breaks: FloatArray, degree: int, *, cyclic: bool
) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the derivatives of the functions of `local_bsplines`, and the index of the first."""
    interval, values = local_bsplines(x, breaks, max(degree - 1, 0), cyclic=cyclic)
    if degree == 0:
        return interval, np.zeros((x.size, 1))
    t = extended(breaks, degree - 1, cyclic=cyclic)
    ends = interval[:, None] + degree + np.arange(degree)
    # Every B-spline of degree p - 1 adds one term to two neighbouring slopes, with opposite signs.
    flux = degree * values / (t[ends] - t[ends - degree])
    return interval, np.pad(flux, ((0, 0), (1, 0))) - np.pad(flux, ((0, 0), (0, 1)))


def place(interval: npt.NDArray[np.intp], values: FloatArray, size: int) -> FloatArray:
    """Add each row of `values` to a row of `size` zeros, from column `interval` on, counted modulo `size`."""
    rows, every = np.zeros((interval.size, size)), np.arange(interval.size)
    for r, column in enumerate(values.T):
        rows[every, (interval + r) % size] += column
    return rows


def bspline_values(x: FloatArray, breaks: FloatArray, degree: int, *, cyclic: bool = False) -> FloatArray:
    """Return all B-splines at x; parameters as for `local_bsplines`."""
    return place(*local_bsplines(x, breaks, degree, cyclic=cyclic), _size(breaks, degree, cyclic))


def bspline_slopes(x: FloatArray, breaks: FloatArray, degree: int, *, cyclic: bool = False) -> FloatArray:
    """Return the derivatives of all B-splines at x; parameters as for `local_bsplines`."""
    return place(*_local_slopes(x, breaks, degree, cyclic=cyclic), _size(breaks, degree, cyclic))


def _size(breaks: FloatArray, degree: int, cyclic: bool) -> int:
    return len(breaks) - 1 + (0 if cyclic else degree)


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
    The recursion of Cox and de Boor defines the values, see the docstring of `knotwork/basis/_bspline.py`. The
    derivative of ``B_l^p`` is ``p B_l^(p-1) / (t_(l+p) - t_l) - p B_(l+1)^(p-1) / (t_(l+p+1) - t_(l+1))``.

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


@final
@dataclass(frozen=True, eq=False)
class CyclicSpline(SplineBasis):
    """Cyclic B-splines: values and derivatives at the two ends of the domain are equal. For hours, months, angles.

    They are non-negative and sum to one. The domain is one period; values outside it are shifted into it by whole
    periods.

    Parameters
    ----------
    knots, domain, degree
        As for `SplineBasis`; the width of the domain is the period.

    Notes
    -----
    The B-splines of periodically repeated knots, see the docstring of `knotwork/basis/_bspline.py`, the same as those
    of `sklearn.preprocessing.SplineTransformer` with ``extrapolation="periodic"``. For degree 3 they have the span of
    `cc` in patsy and mgcv.

    Examples
    --------
    >>> CyclicSpline([8.0, 16.0], domain=(0.0, 24.0), degree=1).evaluate([0.0, 4.0, 20.0, 24.0, 28.0])
    array([[1. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0.5, 0. , 0.5],
           [1. , 0. , 0. ],
           [0.5, 0.5, 0. ]])
    """

    is_cyclic = True

    @property
    def size(self) -> int:
        """Number m of functions, one for each interval."""
        return len(self.knots) + 1

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_values(x, breaks, self.degree, cyclic=True)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_slopes(x, breaks, self.degree, cyclic=True)
