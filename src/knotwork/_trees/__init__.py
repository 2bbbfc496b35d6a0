"""Boosted trees as members of a model: grown by LightGBM or here, kept as plain arrays."""

from knotwork._graph import Forest
from knotwork._trees._boosting import (
    RANDOM,
    SMALL,
    SYMMETRIC,
    TREE_NAMES,
    USUAL,
    BoostedTrees,
    ForestPiece,
    TreeMember,
    boost,
)
from knotwork._trees._lightgbm import predicts_itself

__all__ = ["BoostedTrees", "Forest"]
