"""Estimators for tables: a network on encoded columns, by `fit` and `predict`."""

from knotwork._checks import check_part

check_part(__name__)
from knotwork.estimators._base import fitted, model_of, settings_of
from knotwork.estimators._combination import ValidationRows
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._model import FittedModel
from knotwork.estimators._persistence import load
from knotwork.estimators._plans import EFFORTS, FitPlan, Recipe, effort_seconds
from knotwork.estimators._settings import ColumnConfig, ValidationConfig, choose_features
from knotwork.estimators._steps import Monitor, Preparation, combine, prepare, train

__all__ = ["ColumnConfig", "TabularClassifier", "TabularRegressor", "ValidationConfig", "load"]
