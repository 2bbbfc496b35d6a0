"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knotwork import basis
from knotwork.encoders import (
    METHODS,
    PerFeatureEncoder,
    PiecewiseLinearEncoder,
    ScalarEncoder,
    SplineEncoder,
    make_encoder,
)

if TYPE_CHECKING:  # what is imported when it is first used, for those who read and check types
    from knotwork import compare, datasets, nn, report, stats, study, training
    from knotwork._recommend import Recommendation, recommend
    from knotwork.estimators import TabularClassifier, TabularRegressor, load
    from knotwork.training import TrainingConfig

__all__ = [
    "METHODS",
    "PerFeatureEncoder",
    "PiecewiseLinearEncoder",
    "Recommendation",
    "ScalarEncoder",
    "SplineEncoder",
    "TabularClassifier",
    "TabularRegressor",
    "TrainingConfig",
    "basis",
    "compare",
    "datasets",
    "load",
    "make_encoder",
    "nn",
    "recommend",
    "report",
    "stats",
    "study",
    "training",
]

__version__ = "0.1.0"

_LATER = {
    "Recommendation": "knotwork._recommend",
    "TabularClassifier": "knotwork.estimators",
    "TabularRegressor": "knotwork.estimators",
    "TrainingConfig": "knotwork.training",
    "load": "knotwork.estimators",
    "recommend": "knotwork._recommend",
}
"""Names that are imported when they are first used, for torch takes seconds to load, and where each comes from."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in __all__:
        return import_module(f"knotwork.{name}")
    raise AttributeError(f"module 'knotwork' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
