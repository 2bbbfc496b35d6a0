"""Encoders: scikit-learn transformers that turn numerical columns into blocks of columns."""

from knotwork.encoders.methods import METHOD_TABLE, METHODS, Method, make_encoder
from knotwork.encoders.per_feature import PerFeatureEncoder
from knotwork.encoders.piecewise import PiecewiseLinearEncoder
from knotwork.encoders.scalar import ScalarEncoder
from knotwork.encoders.spline import SplineEncoder

__all__ = [
    "METHODS",
    "METHOD_TABLE",
    "Method",
    "PerFeatureEncoder",
    "PiecewiseLinearEncoder",
    "ScalarEncoder",
    "SplineEncoder",
    "make_encoder",
]
