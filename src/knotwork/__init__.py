"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning.

Every name is imported when it is first used: scikit-learn and torch take seconds to load, which the command line must
not wait for, and an installation without extras has no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knotwork._checks import PARTS, check_part

if TYPE_CHECKING:  # type checkers and editors see the names that are imported later
    from knotwork import additive, basis, compare, datasets, encoders, knots, nn, report, stats, study, training
    from knotwork._explore import Explorer, explore
    from knotwork._recommend import Recommendation, recommend
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
    from knotwork.estimators import ColumnConfig, TabularClassifier, TabularRegressor, ValidationConfig, load
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

_LATER = {
    "AdditiveClassifier": "knotwork.additive",
    "AdditiveRegressor": "knotwork.additive",
    "METHODS": "knotwork.encoders",
    "PerFeatureEncoder": "knotwork.encoders",
    "PeriodicEncoder": "knotwork.encoders",
    "PiecewiseLinearEncoder": "knotwork.encoders",
    "Explorer": "knotwork._explore",
    "Recommendation": "knotwork._recommend",
    "ScalarEncoder": "knotwork.encoders",
    "SplineEncoder": "knotwork.encoders",
    "TabularClassifier": "knotwork.estimators",
    "ColumnConfig": "knotwork.estimators",
    "TabularRegressor": "knotwork.estimators",
    "ValidationConfig": "knotwork.estimators",
    "TensorSplineEncoder": "knotwork.encoders",
    "TrainingConfig": "knotwork.training",
    **dict.fromkeys(("Focal", "Huber", "LogLoss", "Quantile", "Tweedie"), "knotwork.training"),
    "choose_per_feature": "knotwork.encoders",
    "explore": "knotwork._explore",
    "find_pairs": "knotwork.encoders",
    "load": "knotwork.estimators",
    "make_encoder": "knotwork.encoders",
    "recommend": "knotwork._recommend",
    "additive": "knotwork.additive",
    "basis": "knotwork.basis",
    **{
        name: f"knotwork.{name}"
        for name in ("compare", "datasets", "encoders", "knots", "nn", "report", "stats", "study", "training")
    },
}
"""The names that are imported when they are first used, and the module of each."""

if not TYPE_CHECKING:  # type checkers would take any name for one of the module

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'knotwork' has no attribute {name!r}")
        if _LATER[name] in PARTS:
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


# `from knotwork import *` takes what is installed, and does not fail for want of an extra.
__all__[:] = [name for name in __all__ if _LATER.get(name) not in PARTS or _is_installed(name)]
