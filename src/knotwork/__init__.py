"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""

from importlib import import_module
from typing import Any

from knotwork import basis
from knotwork.encoders import (
    METHODS,
    PerFeatureEncoder,
    PiecewiseLinearEncoder,
    ScalarEncoder,
    SplineEncoder,
    make_encoder,
)

__all__ = [
    "METHODS",
    "PerFeatureEncoder",
    "PiecewiseLinearEncoder",
    "ScalarEncoder",
    "SplineEncoder",
    "basis",
    "make_encoder",
]

__version__ = "0.1.0"

_PARTS = ("compare", "datasets", "nn", "stats", "study", "training")
_NAMES = {
    "TabularClassifier": "knotwork.estimators.classifier",
    "TabularRegressor": "knotwork.estimators.regressor",
    "TrainingConfig": "knotwork.training.config",
    "load": "knotwork.estimators.persistence",
    "recommend": "knotwork.estimators.recommend",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch, which takes seconds to load, pandas or SciPy when it is first used."""
    if name in _PARTS:
        return import_module(f"knotwork.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'knotwork' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PARTS, *_NAMES])
