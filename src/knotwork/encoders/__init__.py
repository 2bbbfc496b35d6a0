"""Encoders: scikit-learn transformers that turn numerical columns into blocks of columns."""

from knotwork.encoders._methods import METHOD_TABLE, METHODS, Encoding, Method, PerFeatureEncoder, make_encoder
from knotwork.encoders._transformers import PiecewiseLinearEncoder, ScalarEncoder, SplineEncoder

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
