"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""

from knotwork import basis
from knotwork.encoders import (
    METHODS,
    PerFeatureEncoder,
    PiecewiseLinearEncoder,
    ScalarEncoder,
    SplineEncoder,
    make_encoder,
)

__all__ = [
    "METHODS",
    "PerFeatureEncoder",
    "PiecewiseLinearEncoder",
    "ScalarEncoder",
    "SplineEncoder",
    "basis",
    "make_encoder",
]

__version__ = "0.1.0"
