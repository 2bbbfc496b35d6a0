"""Bases of functions on an interval: exact values and derivatives, no state, no fitting.

`evaluate` and `derivative` take the name of a family in `FAMILIES`. To evaluate the same knots repeatedly, keep an
object of `BSpline`, `CyclicSpline`, `NaturalSpline` or another class of these, which checks its knots once.
"""

from knotwork.basis._base import (
    EXTRAPOLATIONS,
    MIN_GAP,
    UNBOUNDED,
    Basis,
    FloatArray,
    SplineBasis,
    binary_unit,
    check_domain,
    check_knots,
    into_period,
)
from knotwork.basis._bspline import BSpline, CyclicSpline
from knotwork.basis._compiled import encode_dense, encode_sparse
from knotwork.basis._families import (
    FAMILIES,
    TRAITS,
    Family,
    Functions,
    FunctionTraits,
    ISpline,
    MSpline,
    PiecewiseLinear,
    derivative,
    evaluate,
    family_name,
    family_of,
    make_basis,
)
from knotwork.basis._fitted import (
    SMOOTH_LIMIT,
    FittedAffine,
    FittedBasis,
    FittedColumn,
    FittedPeriodic,
    compiled_table,
    decode,
    fitted_from_json,
    fitted_to_json,
    is_invertible,
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
