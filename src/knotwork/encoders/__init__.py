"""Encoders: scikit-learn transformers that turn numerical columns into blocks of columns."""

from knotwork.encoders._methods import METHOD_TABLE, METHODS, Encoding, Method, PerFeatureEncoder, make_encoder
from knotwork.encoders._piecewise import PiecewiseLinearEncoder
from knotwork.encoders._scalar import ScalarEncoder
from knotwork.encoders._spline import SplineEncoder

__all__ = [
    "METHODS",
    "METHOD_TABLE",
    "Encoding",
    "Method",
    "PerFeatureEncoder",
    "PiecewiseLinearEncoder",
    "ScalarEncoder",
    "SplineEncoder",
    "make_encoder",
]
