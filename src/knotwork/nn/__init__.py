"""Torch layers that encode numerical features, with knots that are learned with the network, and networks."""

from knotwork.nn.backbones.config import BACKBONES, FTTransformerConfig, MLPConfig, ResNetConfig
from knotwork.nn.backbones.ft_transformer import FTTransformer
from knotwork.nn.backbones.mlp import MLP
from knotwork.nn.backbones.resnet import ResNet
from knotwork.nn.encoded_linear import EncodedLinear
from knotwork.nn.encoding import PiecewiseLinearEncoding, SplineEncoding
from knotwork.nn.periodic import PeriodicEncoding

__all__ = [
    "BACKBONES",
    "MLP",
    "EncodedLinear",
    "FTTransformer",
    "FTTransformerConfig",
    "MLPConfig",
    "PeriodicEncoding",
    "PiecewiseLinearEncoding",
    "ResNet",
    "ResNetConfig",
    "SplineEncoding",
]
