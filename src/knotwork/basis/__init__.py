"""Bases of functions on an interval: exact values and derivatives, no state, no fitting.

`evaluate` and `derivative` take the name of a family of `FAMILIES`. The classes behind the names check their knots once
and can be kept: `BSpline`, `MSpline`, `ISpline`, `PiecewiseLinear`.
"""

from knotwork.basis._families import (
    EXTRAPOLATIONS,
    FAMILIES,
    Basis,
    BSpline,
    Family,
    ISpline,
    MSpline,
    PiecewiseLinear,
    SplineBasis,
    derivative,
    evaluate,
    family_of,
    make_basis,
)

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
]
