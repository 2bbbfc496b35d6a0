"""The families of bases: M-splines, I-splines and piecewise-linear ramps beside B-splines, and the registry of all.

`FAMILIES` has every trait of a family that other code asks for; `make_basis`, `evaluate` and `derivative` take a name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice
from knotwork.basis._base import Basis, FloatArray, SplineBasis
from knotwork.basis._bspline import BSpline, bspline_slopes, bspline_values, local_bsplines, place

__all__ = [
    "AFFINE",
    "FAMILIES",
    "LOCAL",
    "NORMALISED",
    "PLAIN",
    "TAILS",
    "UNIT_AREA",
    "Family",
    "ISpline",
    "MSpline",
    "PiecewiseLinear",
    "derivative",
    "evaluate",
    "family_name",
    "family_of",
    "heights",
    "make_basis",
]

PLAIN, AFFINE, LOCAL, UNIT_AREA, TAILS, NORMALISED = -2, -1, 0, 1, 2, 3
"""Kinds of rows, here and in the torch layers: those of a family without compiled code; one scaled value; B-splines;
B-splines times their height; ones, and sums of the B-splines beyond each; and B-splines times their height with the
columns of a feature brought to mean 0 and variance 1. Saved models hold these numbers."""


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
