"""Encoders: scikit-learn transformers that turn numerical columns into blocks of columns."""

from knotwork.encoders._choice import FEATURE_CANDIDATES, FeatureChoice, choose_per_feature
from knotwork.encoders._methods import (
    METHOD_TABLE,
    METHODS,
    PAPER_METHODS,
    Encoding,
    Method,
    PerFeatureEncoder,
    make_encoder,
)
from knotwork.encoders._names import Embedding
from knotwork.encoders._pairs import FoundPair, find_pairs
from knotwork.encoders._tensor import TensorSplineEncoder
from knotwork.encoders._transformers import PeriodicEncoder, PiecewiseLinearEncoder, ScalarEncoder, SplineEncoder

__all__ = [
    "FEATURE_CANDIDATES",
    "METHODS",
    "METHOD_TABLE",
    "PAPER_METHODS",
    "Embedding",
    "Encoding",
    "FeatureChoice",
    "FoundPair",
    "Method",
    "PerFeatureEncoder",
    "PeriodicEncoder",
    "PiecewiseLinearEncoder",
    "ScalarEncoder",
    "SplineEncoder",
    "TensorSplineEncoder",
    "choose_per_feature",
    "find_pairs",
    "make_encoder",
]
