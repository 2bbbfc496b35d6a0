"""Boosted trees as members of a model: trained by LightGBM, kept as plain arrays."""

from knotwork._trees._boosting import (
    RANDOM,
    SMALL,
    TREE_NAMES,
    USUAL,
    BoostedTrees,
    ForestPiece,
    TreeMember,
    boost,
    can_boost,
)
from knotwork._graph import Forest
from knotwork._trees._lightgbm import predicts_itself

__all__ = ["BoostedTrees", "Forest"]
