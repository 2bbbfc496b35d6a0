"""Additive models that people can read: a curve for each column, surfaces for chosen pairs, with intervals."""

from knotwork.additive._edits import EDITS_FORMAT, EditScores, editable_curves
from knotwork.additive._effects import AdditiveEffect, Contributions
from knotwork.additive._models import AdditiveClassifier, AdditiveRegressor
from knotwork.additive._page import additive_part
from knotwork.additive._saving import SAVED_CLASSES, load

__all__ = ["AdditiveClassifier", "AdditiveEffect", "AdditiveRegressor", "Contributions", "EditScores", "load"]
