"""Encoders: scikit-learn transformers that encode each numerical column in several columns."""

from knotwork.encoders._base import Encoder, count_threads
from knotwork.encoders._choice import FEATURE_CANDIDATES, FeatureChoice, choose_columns, choose_per_feature
from knotwork.encoders._methods import (
    METHOD_TABLE,
    METHODS,
    PAPER_METHODS,
    PER_FEATURE,
    Embedding,
    Encoding,
    EncodingName,
    Method,
    PerFeatureEncoder,
    check_method,
    make_encoder,
)
from knotwork.encoders._pairs import (
    FoundPair,
    bin_codes,
    find_pairs,
    number_of_bins,
    place_pairs,
    rank_cells,
    rank_pairs,
)
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
