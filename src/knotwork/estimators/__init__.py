"""Estimators for tables: a network on encoded columns, by `fit` and `predict`."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.estimators._configs import ColumnConfig, ValidationConfig
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._persistence import load

__all__ = ["ColumnConfig", "TabularClassifier", "TabularRegressor", "ValidationConfig", "load"]
