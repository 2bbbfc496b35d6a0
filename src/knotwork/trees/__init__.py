"""Boosted trees as members of a model: trained by LightGBM, kept as plain arrays."""

from knotwork.trees._boosting import BoostedTrees, ForestPiece, TreeMember, boost, can_boost
from knotwork.trees._forest import Forest

__all__ = ["BoostedTrees", "Forest"]
