"""Torch layers that encode numerical features, with knots that are learned with the network."""

from knotwork.nn.encoded_linear import EncodedLinear
from knotwork.nn.encoding import PiecewiseLinearEncoding, SplineEncoding
from knotwork.nn.periodic import PeriodicEncoding

__all__ = ["EncodedLinear", "PeriodicEncoding", "PiecewiseLinearEncoding", "SplineEncoding"]
