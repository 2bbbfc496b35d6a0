"""Bases of functions on an interval: exact values and derivatives, no state, no fitting.

`evaluate` and `derivative` take the name of a family in `FAMILIES`. To evaluate the same knots repeatedly, keep an
object of `BSpline`, `CyclicSpline`, `NaturalSpline` or another class of these, which checks its knots once.
"""

from knotwork.basis._base import EXTRAPOLATIONS, Basis, SplineBasis
from knotwork.basis._bspline import BSpline, CyclicSpline
from knotwork.basis._families import (
    FAMILIES,
    Family,
    ISpline,
    MSpline,
    PiecewiseLinear,
    derivative,
    evaluate,
    family_of,
    make_basis,
)
from knotwork.basis._natural import NaturalSpline
from knotwork.basis._radial import RadialBasis, ThinPlateSpline
from knotwork.basis._tensor import row_product

__all__ = [
    "EXTRAPOLATIONS",
    "FAMILIES",
    "BSpline",
    "Basis",
    "CyclicSpline",
    "Family",
    "ISpline",
    "MSpline",
    "NaturalSpline",
    "PiecewiseLinear",
    "RadialBasis",
    "SplineBasis",
    "ThinPlateSpline",
    "derivative",
    "evaluate",
    "family_of",
    "make_basis",
    "row_product",
]
