"""Estimators for tables: a network on encoded columns, by `fit` and `predict`."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.estimators._classifier import TabularClassifier
from knotwork.estimators._persistence import load
from knotwork.estimators._regressor import TabularRegressor

__all__ = ["TabularClassifier", "TabularRegressor", "load"]
