"""Bases of functions on an interval: exact values and derivatives, no state, no fitting.

`evaluate` and `derivative` take the name of a family. The classes behind the names check their knots once and can
be kept: `BSpline`, `MSpline`, `ISpline`, `PiecewiseLinear`.
"""

import numpy.typing as npt

from knotwork._checks import check_choice
from knotwork.basis._base import EXTRAPOLATIONS, Basis, FloatArray, SplineBasis
from knotwork.basis._bspline import BSpline
from knotwork.basis._ispline import ISpline
from knotwork.basis._mspline import MSpline
from knotwork.basis._ple import PiecewiseLinear

__all__ = [
    "EXTRAPOLATIONS",
    "FAMILIES",
    "BSpline",
    "Basis",
    "ISpline",
    "MSpline",
    "PiecewiseLinear",
    "derivative",
    "evaluate",
    "make_basis",
]

FAMILIES: dict[str, type[Basis]] = {
    "bspline": BSpline,
    "mspline": MSpline,
    "ispline": ISpline,
    "ple": PiecewiseLinear,
}
"""The bases by name; `make_basis`, `evaluate` and `derivative` take an entry that is added, the encoders do not."""


def make_basis(
    family: str, knots: npt.ArrayLike, *, degree: int = 3, domain: tuple[float, float] = (0.0, 1.0)
) -> Basis:
    """Return the basis of a family on given knots.

    Parameters
    ----------
    family : {"bspline", "mspline", "ispline", "ple"}
        Which functions.
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
    kind = FAMILIES[check_choice(family, "family", FAMILIES)]
    if issubclass(kind, SplineBasis):
        return kind(knots, domain, degree)  # type: ignore[arg-type]  # checked and converted at birth
    return kind(knots, domain)  # type: ignore[arg-type]  # likewise


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
    family : {"bspline", "mspline", "ispline", "ple"}
        Which functions.
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
