"""Bases of functions on an interval, and the registry of their families.

What all bases share comes first: checked knots, the ends of the domain, values outside it, missing values. Then the
four families, B-splines first, for they carry the mathematics of the whole library; then `FAMILIES`, which has every
trait of a family that other code asks for.

**B-splines.** Let ``low < k_1 < ... < k_K < high`` be the ends of the
domain and the K interior knots, and let t be the *clamped* sequence: the same numbers with both ends repeated
p + 1 times. There are m = K + p + 1 B-splines of degree p, defined by the recursion of Cox and de Boor

    B_l^0(x) = 1 if t_l <= x < t_(l+1), else 0                      (the last interval is closed on the right)

                  x - t_l                       t_(l+q+1) - x
    B_l^q(x) = ------------- B_l^(q-1)(x) + ------------------- B_(l+1)^(q-1)(x)      with 0 / 0 = 0.
               t_(l+q) - t_l                t_(l+q+1) - t_(l+1)

If i of the interior knots are <= x, all B-splines are zero at x except those with index i, ..., i + p, and these
need only the p knots on either side of x. `local_bsplines` computes just them, by the triangular scheme: start
with the one function of degree 0 and apply the recursion degree by degree, each value giving a share to its left
and a share to its right neighbour. No denominator can vanish, for each of them spans the interval around x.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import frexp, isfinite, ldexp
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, check_int

__all__ = [
    "AFFINE",
    "EXTRAPOLATIONS",
    "FAMILIES",
    "LOCAL",
    "MIN_GAP",
    "NORMALISED",
    "TAILS",
    "UNIT_AREA",
    "BSpline",
    "Basis",
    "Family",
    "FloatArray",
    "ISpline",
    "MSpline",
    "PiecewiseLinear",
    "SplineBasis",
    "binary_unit",
    "bspline_slopes",
    "bspline_values",
    "check_domain",
    "check_knots",
    "derivative",
    "evaluate",
    "family_name",
    "family_of",
    "heights",
    "local_bsplines",
    "make_basis",
]

FloatArray = npt.NDArray[np.float64]

EXTRAPOLATIONS = {
    "clip": "a value outside the domain is moved to the nearer end",
    "linear": "the basis continues in a straight line, with its value and slope at the end",
    "error": "a value outside the domain is refused",
}
"""What can happen to values outside the domain."""

AFFINE, LOCAL, UNIT_AREA, TAILS, NORMALISED = -1, 0, 1, 2, 3
"""Kinds of rows that compiled code knows, here and in the torch layers: one scaled value; B-splines; B-splines times
their height; ones, and sums of the B-splines beyond each; and B-splines times their height with the columns of a
feature brought to mean 0 and variance 1. Saved models hold these numbers."""

MIN_GAP = 1e-290
"""Smallest distance between neighbouring knots, in the unit of `binary_unit`: its reciprocal is finite."""


def binary_unit(low: float, high: float) -> float:
    """Return a power of two that brings a width at the limits of float64 away from them, and 1 for any other.

    Multiplying by a power of two is exact, so formulas hold to the last bit for domains like ``(-1e308, 1e308)``,
    whose width overflows, and ``(0, 1e-310)``, whose reciprocal does. Widths are brought to about 2**500 and
    2**-500, not to 1, so that on a column with an outlier of 1e308 small numbers do not vanish.

    Examples
    --------
    >>> binary_unit(0.0, 5.0), binary_unit(-1e308, 1e308) == 2.0**-524
    (1.0, True)
    """
    half_width = 0.5 * high - 0.5 * low
    if 1e-200 < half_width < 1e200:
        return 1.0
    return ldexp(1.0, (500 if half_width > 1.0 else -500) - frexp(half_width)[1])


def check_domain(domain: object) -> tuple[float, float]:
    """Return the domain as two finite floats, the first smaller than the second."""
    requirement = "be two finite numbers, the first smaller than the second"
    try:
        low, high = (float(end) for end in domain)  # type: ignore[attr-defined]  # whatever cannot be iterated is refused
    except (TypeError, ValueError) as error:
        raise argument_error("domain", requirement, domain) from error
    if not (isfinite(low) and isfinite(high) and low < high):
        raise argument_error("domain", requirement, domain)
    return low, high


def check_knots(knots: npt.ArrayLike, domain: tuple[float, float]) -> FloatArray:
    """Return the interior knots as a read-only array: finite, strictly increasing, strictly inside the domain."""
    try:
        array = np.array(knots, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise argument_error("knots", "be a sequence of numbers", knots) from error
    if array.ndim != 1:
        raise argument_error("knots", "be one-dimensional", knots)
    low, high = domain
    unit = binary_unit(low, high)
    breaks = np.concatenate(([low], array, [high])) * unit
    if not np.all(np.diff(breaks) > MIN_GAP):
        raise argument_error(
            "knots",
            f"be strictly increasing and strictly inside the domain ({low!r}, {high!r})",
            array,
            "Sort them, drop repeated ones, and leave out the ends of the domain.",
        )
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Basis(ABC):
    """Functions on an interval, ``size`` of them, given by interior knots.

    Parameters
    ----------
    knots : array-like of shape (K,)
        Interior knots, strictly increasing and strictly inside the domain. None at all is allowed.
    domain : tuple of float
        The two ends. Both belong to the basis.
    """

    knots: FloatArray
    domain: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", check_domain(self.domain))
        object.__setattr__(self, "knots", check_knots(self.knots, self.domain))

    @property
    @abstractmethod
    def size(self) -> int:
        """Number m of functions; every knot adds one."""

    @property
    def degree(self) -> int:
        """Degree of the pieces; 0 for a basis that has no degree to choose."""
        return 0

    @abstractmethod
    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        """Return values of shape (n, size) at x of shape (n,), inside the domain; ``breaks = [low, *knots, high]``."""

    @abstractmethod
    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        """Return the derivatives with respect to x; arguments and shape as for `_values`."""

    def evaluate(self, x: npt.ArrayLike, extrapolation: str = "clip") -> FloatArray:
        """Return the values of all functions.

        A missing value gives a row of NaN. What happens outside the domain is chosen by `extrapolation`.

        Parameters
        ----------
        x : array-like of shape (...)
            Where to evaluate.
        extrapolation : {"clip", "linear", "error"}
            How to treat values outside the domain.

        Returns
        -------
        ndarray of shape (..., size)
            Values in float64.
        """
        return self._evaluate(x, extrapolation)

    def encode(self, x: npt.ArrayLike, extrapolation: str = "clip") -> FloatArray:
        """Return the values that the functions have on the domain scaled to [0, 1]; parameters as for `evaluate`.

        They differ from `evaluate` only for functions with a unit, such as M-splines, whose height depends on the width
        of the domain.
        """
        return self._evaluate(x, extrapolation, scaled=True)

    def _evaluate(self, x: npt.ArrayLike, extrapolation: str, *, scaled: bool = False) -> FloatArray:
        x, inside, unit = self._prepare(x, extrapolation)
        breaks = self._breaks(unit)
        values = self._values(inside * unit, breaks)
        if extrapolation == "linear":
            outside = np.flatnonzero(x.ravel() != inside)
            steps = (x.ravel()[outside] - inside[outside]) * unit
            values[outside] += steps[:, None] * self._slopes(inside[outside] * unit, breaks)
        with np.errstate(over="ignore"):  # an M-spline on a domain narrower than 1e-308 is infinite in float64
            values *= self._density_unit(breaks[-1] - breaks[0] if scaled else unit)
        values[np.isnan(inside)] = np.nan
        return values.reshape(*x.shape, self.size)

    def derivative(self, x: npt.ArrayLike, extrapolation: str = "clip") -> FloatArray:
        """Return the derivatives of all functions with respect to x.

        At a knot where a derivative jumps it is the one from the right, at the right end the one from the left.
        Outside, clipped values have derivative zero and linearly continued ones the slope at the end.
        Parameters and shapes are those of `evaluate`.
        """
        x, inside, unit = self._prepare(x, extrapolation)
        slopes = self._slopes(inside * unit, self._breaks(unit))
        with np.errstate(over="ignore"):
            slopes *= unit * self._density_unit(unit)
        if extrapolation == "clip":
            slopes[x.ravel() != inside] = 0.0
        slopes[np.isnan(inside)] = np.nan
        return slopes.reshape(*x.shape, self.size)

    def _density_unit(self, unit: float) -> float:
        """Return what a value computed on ``unit * x`` is multiplied by to be one on x."""
        del unit
        return 1.0

    def _breaks(self, unit: float) -> FloatArray:
        low, high = self.domain
        return np.concatenate(([low], self.knots, [high])) * unit

    def _prepare(self, x: npt.ArrayLike, extrapolation: str) -> tuple[FloatArray, FloatArray, float]:
        """Return x, its values moved into the domain (flat), and the unit of `binary_unit`."""
        check_choice(extrapolation, "extrapolation", EXTRAPOLATIONS)
        x = np.asarray(x, dtype=np.float64)
        low, high = self.domain
        inside = np.clip(x.ravel(), low, high)
        if extrapolation != "clip":
            refused = x[(x < low) | (x > high)] if extrapolation == "error" else x[np.isinf(x)]
            if refused.size:
                raise argument_error(
                    "x",
                    f"lie inside the domain ({low!r}, {high!r})" if extrapolation == "error" else "be finite",
                    refused[0],
                    "Pass extrapolation='clip' to move such values to the nearer end.",
                )
        return x, inside, binary_unit(low, high)


@dataclass(frozen=True, eq=False)
class SplineBasis(Basis):
    """A basis of pieces of one degree.

    Parameters
    ----------
    knots, domain
        As for `Basis`.
    degree : int
        Degree p >= 0 of the pieces.
    """

    degree: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degree", check_int(self.degree, "degree", minimum=0))

    @property
    def size(self) -> int:
        """Number of functions, m = K + degree + 1."""
        return len(self.knots) + self.degree + 1


def local_bsplines(x: FloatArray, breaks: FloatArray, degree: int) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return the degree + 1 B-splines that can differ from zero, and where they stand.

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
        i, the number of interior knots <= x: the index of the first of the functions.
    values : ndarray of shape (n, degree + 1)
        ``B_i(x), ..., B_(i+p)(x)``.

    Examples
    --------
    >>> local_bsplines(np.array([0.25, 1.0]), np.array([0.0, 0.5, 1.0]), degree=1)
    (array([0, 1]), array([[0.5, 0.5],
           [0. , 1. ]]))
    """
    interval = np.searchsorted(breaks[1:-1], x, side="right")
    t = np.pad(breaks, max(degree - 1, 0), mode="edge")  # the clamped sequence, as far as it is touched
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
    flux = degree * bspline_values(x, breaks, degree - 1) / (t[degree:] - t[:-degree])
    return np.pad(flux, ((0, 0), (1, 0))) - np.pad(flux, ((0, 0), (0, 1)))


@final
@dataclass(frozen=True, eq=False)
class BSpline(SplineBasis):
    """Clamped B-splines of any degree.

    They are non-negative, sum to one on the whole domain, ends included, and each is zero outside degree + 1
    neighbouring intervals.

    Parameters
    ----------
    knots, domain, degree
        As for `SplineBasis`.

    Notes
    -----
    The values are defined at the head of this module. The derivative of ``B_l^p`` is
    ``p B_l^(p-1) / (t_(l+p) - t_l) - p B_(l+1)^(p-1) / (t_(l+p+1) - t_(l+1))``.

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


def heights(breaks: FloatArray, degree: int) -> FloatArray:
    """Return ``(degree + 1) / (t_(l+degree+1) - t_l)``, by which B_l is multiplied to integrate to one.

    Parameters
    ----------
    breaks : ndarray of shape (K + 2,)
        ``[low, k_1, ..., k_K, high]``; t is the clamped sequence.
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
    knots, domain, degree
        As for `SplineBasis`.

    Notes
    -----
    ``M_l = (p + 1) / (t_(l+p+1) - t_l) B_l`` with the B-splines and the clamped sequence t of the head of this
    module. M-splines carry the unit 1 / x: halve the domain and they double.

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


@final
@dataclass(frozen=True, eq=False)
class ISpline(SplineBasis):
    """Clamped I-splines: the integral of each M-spline of degree `degree`, from the left end to x.

    Each function rises from exactly 0 at the left end to exactly 1 at the right end. At any x the first functions
    are 1, then come at most degree + 1 values in between, and the others are 0.

    Parameters
    ----------
    knots, domain
        As for `SplineBasis`.
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


@dataclass(frozen=True)
class Family:
    """A family of bases, with every trait that other code asks for.

    Parameters
    ----------
    basis : type
        The subclass of `Basis`.
    label : str
        What readers of reports see, such as ``"B-splines"``.
    short : str
        What names of methods begin with, such as ``"BS"``.
    kind : int or None, default=None
        Kind of rows for compiled code, such as `LOCAL`; None without compiled code: the encoder evaluates the basis
        itself, and layers run `function`.
    normalised : bool, default=False
        Whether rows are brought to mean 0 and variance 1 where knots are learned.
    with_placements : bool, default=True
        Whether `SplineEncoder` takes the family and every placement gives a method, as in ``"BS-Q"``. The
        piecewise-linear family has an encoder and methods of its own.
    function : callable or None, default=None
        The functions in plain torch, for layers: ``function(x, breaks, n_knots, *, degree, size)`` with x of shape
        (G, B, F) in [0, 1], breaks (G, F, K + 2) as ``[0, knots, 1]`` padded with ones, and n_knots (G, F) returns
        (G, B, F, size). Not needed with a `kind`.
    """

    basis: type[Basis]
    label: str
    short: str
    kind: int | None = None
    normalised: bool = False
    with_placements: bool = True
    function: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.basis, type) and issubclass(self.basis, Basis)):
            raise argument_error("basis", "be a subclass of knotwork.basis.Basis", self.basis)
        if not (isinstance(self.short, str) and self.short.isalnum()):
            raise argument_error("short", "be letters and digits, for names of methods begin with it", self.short)
        if self.normalised and self.kind is None:
            raise argument_error("normalised", "be False without compiled code", True, "Normalise in the function.")

    @property
    def suffix(self) -> str:
        """What output columns are named by: ``"bs"`` in ``age_bs0``."""
        return self.short.lower()

    @property
    def has_degree(self) -> bool:
        """Whether the degree of the pieces can be chosen."""
        return issubclass(self.basis, SplineBasis)

    def make(self, knots: npt.ArrayLike, *, degree: int = 3, domain: tuple[float, float] = (0.0, 1.0)) -> Basis:
        """Return the basis on given knots; the degree is not used by a family that has none."""
        kind: Any = self.basis
        return kind(knots, domain, degree) if self.has_degree else kind(knots, domain)  # type: ignore[no-any-return]

    def smallest_size(self, degree: int) -> int:
        """Return the number of functions without any knot; every knot adds one."""
        return self.make((), degree=degree).size


FAMILIES: dict[str, Family] = {
    "bspline": Family(BSpline, "B-splines", "BS", LOCAL),
    "ispline": Family(ISpline, "I-splines", "IS", TAILS),
    "mspline": Family(MSpline, "M-splines", "MS", UNIT_AREA, normalised=True),
    "ple": Family(PiecewiseLinear, "PLE", "PLE", TAILS, with_placements=False),
}
"""The families by name. An entry that is added serves everywhere a family can be named."""


def family_name(basis: Basis) -> str:
    """Return the name of a basis's family in `FAMILIES`.

    Examples
    --------
    >>> family_name(ISpline([0.5]))
    'ispline'
    """
    for name, family in FAMILIES.items():
        if family.basis is type(basis):
            return name
    raise argument_error(
        "basis", "be of a registered family", basis, f"Add one for {type(basis).__name__} to knotwork.basis.FAMILIES."
    )


def family_of(basis: Basis) -> Family:
    """Return the family of a basis.

    Examples
    --------
    >>> family_of(ISpline([0.5])).label
    'I-splines'
    """
    return FAMILIES[family_name(basis)]


def make_basis(
    family: str, knots: npt.ArrayLike, *, degree: int = 3, domain: tuple[float, float] = (0.0, 1.0)
) -> Basis:
    """Return the basis of a family on given knots.

    Parameters
    ----------
    family : str
        A name of `FAMILIES`.
    knots : array-like of shape (K,)
        Interior knots, strictly increasing and strictly inside the domain.
    degree : int
        Degree of the pieces, at least 0. Piecewise-linear encoding has none: ``"ple"`` takes any and uses none.
    domain : tuple of float
        The two ends.

    Examples
    --------
    >>> make_basis("ispline", [0.2, 0.6]).size
    6
    """
    return FAMILIES[check_choice(family, "family", FAMILIES)].make(knots, degree=degree, domain=domain)


def evaluate(
    family: str,
    x: npt.ArrayLike,
    knots: npt.ArrayLike,
    *,
    degree: int = 3,
    domain: tuple[float, float] = (0.0, 1.0),
    extrapolation: str = "clip",
) -> FloatArray:
    """Return the values of all functions of a basis: the definition that every faster path is tested against.

    Both ends of the domain belong to the basis. A missing value gives a row of NaN.

    Parameters
    ----------
    family : str
        A name of `FAMILIES`.
    x : array-like of shape (...)
        Where to evaluate.
    knots : array-like of shape (K,)
        Interior knots, strictly increasing and strictly inside the domain.
    degree : int
        Degree of the pieces, at least 0; not used by ``"ple"``.
    domain : tuple of float
        The two ends.
    extrapolation : {"clip", "linear", "error"}
        What to do outside the domain.

    Returns
    -------
    ndarray of shape (..., m)
        Values in float64; ``m = K + degree + 1`` for splines and ``m = K + 1`` for ``"ple"``.

    Examples
    --------
    >>> evaluate("ispline", [0.0, 0.5, 1.0], knots=[0.5], degree=1)
    array([[0. , 0. , 0. ],
           [1. , 0.5, 0. ],
           [1. , 1. , 1. ]])
    """
    return make_basis(family, knots, degree=degree, domain=domain).evaluate(x, extrapolation)


def derivative(
    family: str,
    x: npt.ArrayLike,
    knots: npt.ArrayLike,
    *,
    degree: int = 3,
    domain: tuple[float, float] = (0.0, 1.0),
    extrapolation: str = "clip",
) -> FloatArray:
    """Return the derivatives of all functions with respect to x.

    At a knot where a derivative jumps it is the one from the right, at the right end the one from the left.
    Parameters and shapes are those of `evaluate`.

    Examples
    --------
    >>> derivative("bspline", [0.25], knots=[0.5], degree=1)
    array([[-2.,  2.,  0.]])
    """
    return make_basis(family, knots, degree=degree, domain=domain).derivative(x, extrapolation)
