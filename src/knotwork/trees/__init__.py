"""Boosted trees as members of a model: trained by LightGBM, kept as plain arrays."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.trees._boosting import (
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
from knotwork.trees._forest import Forest

__all__ = ["BoostedTrees", "Forest"]
