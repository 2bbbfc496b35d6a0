"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning.

Every name is imported when it is first used: scikit-learn and torch take seconds to load, which the command line must
not wait for, and an installation without extras has no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knotwork._checks import OPTIONAL_PARTS, check_part

if TYPE_CHECKING:  # type checkers and editors see the names that are imported later
    from knotwork import additive, basis, compare, datasets, encoders, knots, nn, report, stats, study, training
    from knotwork._explore import Explorer, explore, explore_model
    from knotwork._recommend import Recommendation, recommend
    from knotwork._runtime import load
    from knotwork.additive import AdditiveClassifier, AdditiveRegressor
    from knotwork.encoders import (
        METHODS,
        PerFeatureEncoder,
        PeriodicEncoder,
        PiecewiseLinearEncoder,
        ScalarEncoder,
        SplineEncoder,
        TensorSplineEncoder,
        choose_per_feature,
        find_pairs,
        make_encoder,
    )
    from knotwork.estimators import ColumnConfig, TabularClassifier, TabularRegressor, ValidationConfig
    from knotwork.training import Focal, Huber, LogLoss, Quantile, TrainingConfig, Tweedie

__version__ = "0.2.0"

__all__ = [
    "METHODS",
    "AdditiveClassifier",
    "AdditiveRegressor",
    "ColumnConfig",
    "Explorer",
    "Focal",
    "Huber",
    "LogLoss",
    "PerFeatureEncoder",
    "PeriodicEncoder",
    "PiecewiseLinearEncoder",
    "Quantile",
    "Recommendation",
    "ScalarEncoder",
    "SplineEncoder",
    "TabularClassifier",
    "TabularRegressor",
    "TensorSplineEncoder",
    "TrainingConfig",
    "Tweedie",
    "ValidationConfig",
    "additive",
    "basis",
    "choose_per_feature",
    "compare",
    "datasets",
    "encoders",
    "explore",
    "explore_model",
    "find_pairs",
    "knots",
    "load",
    "make_encoder",
    "nn",
    "recommend",
    "report",
    "stats",
    "study",
    "training",
]

_NAMES = {
    "_explore": ("Explorer", "explore", "explore_model"),
    "_recommend": ("Recommendation", "recommend"),
    "_runtime": ("load",),
    "additive": ("AdditiveClassifier", "AdditiveRegressor"),
    "encoders": (
        *("METHODS", "PerFeatureEncoder", "PeriodicEncoder", "PiecewiseLinearEncoder", "ScalarEncoder"),
        *("SplineEncoder", "TensorSplineEncoder", "choose_per_feature", "find_pairs", "make_encoder"),
    ),
    "estimators": ("ColumnConfig", "TabularClassifier", "TabularRegressor", "ValidationConfig"),
    "training": ("Focal", "Huber", "LogLoss", "Quantile", "TrainingConfig", "Tweedie"),
}
_PARTS = ("additive", "basis", "compare", "datasets", "encoders", "knots", "nn", "report", "stats", "study", "training")
_LATER = {name: f"knotwork.{module}" for module, names in _NAMES.items() for name in names}
_LATER |= {part: f"knotwork.{part}" for part in _PARTS}
"""The names that are imported when they are first used, and the module of each."""

if not TYPE_CHECKING:  # type checkers would take any name for one of the module

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'knotwork' has no attribute {name!r}")
        if _LATER[name] in OPTIONAL_PARTS:
            check_part(_LATER[name], f"knotwork.{name}")
        module = import_module(_LATER[name])
        value = module if _LATER[name] == f"knotwork.{name}" else getattr(module, name)
        globals()[name] = value  # the next use of the name does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def _is_installed(name: str) -> bool:
    try:
        check_part(_LATER[name])
    except ImportError:
        return False
    return True


# `from knotwork import *` imports what is installed, and does not fail if an extra is missing.
__all__[:] = [name for name in __all__ if _LATER.get(name) not in OPTIONAL_PARTS or _is_installed(name)]
