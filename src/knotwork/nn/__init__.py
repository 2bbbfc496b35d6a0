"""Torch layers that encode numerical features, with fixed or learned knots, and networks for tables."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork._graph import Graph
from knotwork._kernels.fixed_order import look_up
from knotwork.nn._backbones import (
    BACKBONES,
    Backbone,
    FTTransformerConfig,
    MLPConfig,
    RealMLPConfig,
    ResNetConfig,
    TabMConfig,
    make_backbone,
)
from knotwork.nn._encoded_linear import EncodedLinear
from knotwork.nn._encoding import PeriodicEncoding, PiecewiseLinearEncoding, SplineEncoding
from knotwork.nn._flat import MLP, FlatNetwork, RealMLP, ResNet, TabM, mean_prediction
from knotwork.nn._ft_transformer import FTTransformer
from knotwork.nn._interactions import InteractionConfig, PairEmbedding, TensorSplineEncoding, spread_values
from knotwork.nn._linear import (
    Draw,
    FeatureEmbedding,
    Initial,
    Linear,
    Stream,
    Uniform,
    first_places,
    initialise,
    left_empty,
    make_draw,
    member_seeds,
)
from knotwork.nn._smoothness import bands_of, penalty_gradient
from knotwork.nn._stack import LARGEST_SCALED, WAVE_KINDS, StackEncoding, StackLayout, kind_of

__all__ = [
    "BACKBONES",
    "MLP",
    "Backbone",
    "Draw",
    "EncodedLinear",
    "FTTransformer",
    "FTTransformerConfig",
    "FeatureEmbedding",
    "Graph",
    "Initial",
    "InteractionConfig",
    "Linear",
    "MLPConfig",
    "PairEmbedding",
    "PeriodicEncoding",
    "PiecewiseLinearEncoding",
    "RealMLP",
    "RealMLPConfig",
    "ResNet",
    "ResNetConfig",
    "SplineEncoding",
    "TabM",
    "TabMConfig",
    "TensorSplineEncoding",
    "Uniform",
    "first_places",
    "initialise",
    "look_up",
    "make_backbone",
    "member_seeds",
]
