"""Bases of functions on an interval: exact values and derivatives, no state, no fitting.

`evaluate` and `derivative` take the name of a family in `FAMILIES`. To evaluate the same knots repeatedly, keep an
object of `BSpline`, `MSpline`, `ISpline` or `PiecewiseLinear`, which checks its knots once.
"""

from knotwork.basis._base import EXTRAPOLATIONS, Basis, SplineBasis
from knotwork.basis._bspline import BSpline
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
from knotwork.basis._tensor import row_product

__all__ = [
    "EXTRAPOLATIONS",
    "FAMILIES",
    "BSpline",
    "Basis",
    "Family",
    "ISpline",
    "MSpline",
    "PiecewiseLinear",
    "SplineBasis",
    "derivative",
    "evaluate",
    "family_of",
    "make_basis",
    "row_product",
]
