"""M-splines, I-splines and piecewise-linear ramps, and the registry `FAMILIES` of all families."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice
from knotwork.basis._base import Basis, FloatArray, SplineBasis
from knotwork.basis._bspline import BSpline, CyclicSpline, bspline_slopes, bspline_values, local_bsplines, place
from knotwork.basis._natural import NaturalSpline
from knotwork.basis._radial import RadialBasis, ThinPlateSpline


class Functions(IntEnum):
    """Functions that a column is encoded by, in encoders and torch layers. Saved models contain these numbers."""

    PLAIN = -2  # those of a family without compiled code
    AFFINE = -1  # one scaled value
    LOCAL = 0  # B-splines
    UNIT_AREA = 1  # B-splines times their heights
    TAILS = 2  # ones, then sums of the B-splines that follow
    NORMALISED = 3  # as `UNIT_AREA`, then scaled to mean 0 and variance 1 over the columns of a feature
    PERIODIC = 4  # cosines and sines
    COSINE = 5  # cosines with phases
    CYCLIC = 6  # cyclic B-splines
    NATURAL = 7  # natural cubic splines
    RADIAL = 8  # Gaussian bumps
    THIN_PLATE = 9  # a line and cubed distances


@dataclass(frozen=True)
class FunctionTraits:
    """Properties of a kind of functions that layers and model files need besides its formulas.

    Parameters
    ----------
    family : str, optional
        The name in `FAMILIES` of the family with these functions. None for functions without knots, a scaled value or
        cosines and sines, and for those of a family without compiled code.
    least_degree : int, default=0
        The smallest degree in layers. For cosines and sines the degree is the number of functions, for sums of
        B-splines that of the B-splines, one more than that of the family.
    degree : int, optional
        The only degree in layers; by default any.
    is_dense : bool, default=False
        Whether all functions vary everywhere.
    has_widths : bool, default=False
        Whether widths of the functions are learned with the knots.
    """

    family: str | None = None
    least_degree: int = 0
    degree: int | None = None
    is_dense: bool = False
    has_widths: bool = False

    @property
    def is_cyclic(self) -> bool:
        """Whether the functions repeat with the width of the domain."""
        return self.family is not None and FAMILIES[self.family].basis.is_cyclic

    def smallest_size(self, degree: int) -> int:
        """Return the number of functions of a degree in layers without knots; every knot adds one."""
        if self.family is None:
            return max(degree, 1)
        return FAMILIES[self.family].smallest_size(degree - self.least_degree)


TRAITS: dict[int, FunctionTraits] = {
    Functions.PLAIN: FunctionTraits(),
    Functions.AFFINE: FunctionTraits(degree=0),
    Functions.LOCAL: FunctionTraits("bspline"),
    Functions.UNIT_AREA: FunctionTraits("mspline"),
    Functions.TAILS: FunctionTraits("ispline", least_degree=1),
    Functions.NORMALISED: FunctionTraits("mspline"),
    Functions.PERIODIC: FunctionTraits(least_degree=2),
    Functions.COSINE: FunctionTraits(least_degree=2),
    Functions.CYCLIC: FunctionTraits("cyclic"),
    Functions.NATURAL: FunctionTraits("natural", degree=3, is_dense=True),
    Functions.RADIAL: FunctionTraits("radial", degree=0, is_dense=True, has_widths=True),
    Functions.THIN_PLATE: FunctionTraits("thin_plate", degree=0, is_dense=True),
}
"""The traits of each kind."""


def heights(breaks: FloatArray, degree: int) -> FloatArray:
    """Return the factors ``(degree + 1) / (t_(l+degree+1) - t_l)`` with which B_l integrates to one.

    ``breaks = [low, k_1, ..., k_K, high]``, and t is the clamped sequence.
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
    ``M_l = (p + 1) / (t_(l+p+1) - t_l) B_l`` with the B-splines ``B_l`` and the clamped sequence t of `BSpline`.
    M-splines have the unit 1 / x: on a domain half as wide they are twice as high.

    Examples
    --------
    >>> MSpline([0.5], degree=0).evaluate([0.1, 0.9])
    array([[2., 0.],
           [0., 2.]])
    """

    _is_density = True

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_values(x, breaks, self.degree) * heights(breaks, self.degree)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        return bspline_slopes(x, breaks, self.degree) * heights(breaks, self.degree)


@final
@dataclass(frozen=True, eq=False)
class ISpline(SplineBasis):
    """Clamped I-splines: the integrals of the M-splines of degree `degree` from the left end to x.

    Each function rises from exactly 0 at the left end to 1, up to rounding, at the right end. At any x the first
    functions are 1, the next at most degree + 1 lie between 0 and 1, and the others are 0.

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

    The derivative is ``M_l^p``. An `ISpline` of degree 0 equals `PiecewiseLinear`.

    Examples
    --------
    >>> ISpline([0.5], degree=0).evaluate([0.0, 0.25, 0.5, 1.0])
    array([[0. , 0. ],
           [0.5, 0. ],
           [1. , 0. ],
           [1. , 1. ]])
    """

    is_monotone = True

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
    """Ramps of Gorishniy et al. (2022): the function of a bin rises from 0 at its left edge to 1 at its right edge.

    Parameters
    ----------
    knots, domain
        As for `Basis`: the interior edges of the K + 1 bins, and the outer ones.

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

    is_monotone = True

    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        least, most = np.zeros(self.size), np.ones(self.size)
        least[0], most[-1] = -np.inf, np.inf  # outside the domain, the first and the last ramp continue
        return np.clip((x[:, None] - breaks[:-1]) / np.diff(breaks), least, most)

    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        bins = np.searchsorted(breaks[1:-1], x, side="right")
        slopes: FloatArray = (bins[:, None] == np.arange(self.size)) / np.diff(breaks)
        return slopes


@dataclass(frozen=True)
class Family:
    """A family of bases with all its traits.

    Parameters
    ----------
    basis : type
        The subclass of `Basis`.
    label : str
        Name in reports, such as ``"B-splines"``.
    short : str
        Beginning of the names of methods, such as ``"BS"``.
    kind : Functions or None, default=None
        Compiled formula, one of the built-in ones. None without compiled code: encoders then evaluate the basis, and
        layers call `function`.
    normalised : bool, default=False
        Whether encoded values of a feature are scaled to mean 0 and variance 1 where knots are learned.
    cyclic : str or None, default=None
        Name of the family that replaces this one with ``extrapolation="periodic"``.
    in_paper : bool, default=False
        Whether the paper studies the family.
    with_placements : bool, default=True
        Whether `SplineEncoder` accepts the family, and every placement gives a method, as in ``"BS-Q"``. False for the
        piecewise-linear family, which has a separate encoder.
    function : callable or None, default=None
        The functions in plain torch, for layers: ``function(x, breaks, n_knots, *, degree, size)`` with x of shape
        (G, B, F) in [0, 1], breaks (G, F, K + 2) as ``[0, knots, 1]`` padded with ones, and n_knots (G, F) returns
        (G, B, F, size). Not used with a `kind`.
    to_graph : callable or None, default=None
        The same functions as nodes of a graph, for exports and predictions without torch:
        ``to_graph(graph, x, breaks, n_knots, *, degree, size)`` with a `knotwork.nn.Graph`, the name of x of shape
        (n, F, 1) in [0, 1], and arrays of breaks (F, K + 2) and n_knots (F,) returns the name of a value of shape
        (n, F, size). Not used with a `kind`.
    """

    basis: type[Basis]
    label: str
    short: str
    kind: Functions | None = None
    normalised: bool = False
    cyclic: str | None = None
    in_paper: bool = False
    with_placements: bool = True
    function: Callable[..., Any] | None = None
    to_graph: Callable[..., str] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.basis, type) and issubclass(self.basis, Basis)):
            raise argument_error("basis", "be a subclass of knotwork.basis.Basis", self.basis)
        if not (isinstance(self.short, str) and self.short.isalnum()):
            raise argument_error("short", "be letters and digits", self.short, "Names of methods begin with it.")
        if self.normalised and self.kind is None:
            raise argument_error("normalised", "be False if kind is None", True, "Normalise in `function` instead.")

    @property
    def suffix(self) -> str:
        """Part of the names of output columns: ``"bs"`` in ``age_bs0``."""
        return self.short.lower()

    @property
    def has_degree(self) -> bool:
        """Whether the basis has a degree."""
        return issubclass(self.basis, SplineBasis)

    def make(self, knots: npt.ArrayLike, *, degree: int = 3, domain: tuple[float, float] = (0.0, 1.0)) -> Basis:
        """Return the basis on given knots; a family without a degree ignores it."""
        kind: Any = self.basis
        return kind(knots, domain, degree) if self.has_degree else kind(knots, domain)  # type: ignore[no-any-return]

    def smallest_size(self, degree: int) -> int:
        """Return the number of functions of a basis without knots; every knot adds one."""
        return self.make((), degree=degree).size


FAMILIES: dict[str, Family] = {
    "bspline": Family(BSpline, "B-splines", "BS", Functions.LOCAL, cyclic="cyclic", in_paper=True),
    "ispline": Family(ISpline, "I-splines", "IS", Functions.TAILS, in_paper=True),
    "mspline": Family(MSpline, "M-splines", "MS", Functions.UNIT_AREA, normalised=True, in_paper=True),
    "ple": Family(PiecewiseLinear, "PLE", "PLE", Functions.TAILS, in_paper=True, with_placements=False),
    "cyclic": Family(CyclicSpline, "cyclic splines", "CS", Functions.CYCLIC, cyclic="cyclic"),
    "natural": Family(NaturalSpline, "natural splines", "NS", Functions.NATURAL),
    "radial": Family(RadialBasis, "radial functions", "RBF", Functions.RADIAL),
    "thin_plate": Family(ThinPlateSpline, "thin-plate splines", "TPS", Functions.THIN_PLATE),
}
"""The families by name. An entry that you add is accepted wherever a family can be named."""


def family_name(basis: Basis) -> str:
    """Return the name in `FAMILIES` of the family of a basis."""
    for name, family in FAMILIES.items():
        if family.basis is type(basis):
            return name
    hint = f"Add a Family with basis={type(basis).__name__} to knotwork.basis.FAMILIES."
    raise argument_error("basis", "belong to a registered family", basis, hint)


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
    """Return the basis of a family on given knots; parameters as for `evaluate`.

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
    """Return the values of all functions of a basis: the definition that every faster path is compared with.

    Both ends of the domain belong to the basis. A missing value gives a row of NaN.

    Parameters
    ----------
    family : str
        A name of `FAMILIES`.
    x : array-like of shape (...)
        Points to evaluate at.
    knots : array-like of shape (K,)
        Interior knots, strictly increasing and strictly inside the domain.
    degree : int
        Degree of the polynomials, at least 0; ignored by families without a degree, as ``"ple"`` and ``"natural"``.
    domain : tuple of float
        The two ends.
    extrapolation : {"clip", "linear", "continue", "periodic", "error"}
        Treatment of values outside the domain: move them to the nearer end, continue in a straight line, by the
        polynomial of the last interval, periodically (cyclic families only), or raise.

    Returns
    -------
    ndarray of shape (..., m)
        Values in float64; ``m = K + degree + 1`` for B-, M- and I-splines, ``K + 1`` for ``"ple"``, ``"cyclic"`` and
        ``"thin_plate"``, ``K + 2`` for ``"natural"`` and ``"radial"``.

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

    Where a derivative jumps at a knot, the limit from the right is returned; at the right end, the limit from the left.
    Parameters and shapes are those of `evaluate`.

    Examples
    --------
    >>> derivative("bspline", [0.25], knots=[0.5], degree=1)
    array([[-2.,  2.,  0.]])
    """
    return make_basis(family, knots, degree=degree, domain=domain).derivative(x, extrapolation)
