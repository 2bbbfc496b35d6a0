"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""

from importlib import import_module
from types import ModuleType

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

_LOADED_WHEN_USED = ("datasets", "nn", "stats")


def __getattr__(name: str) -> ModuleType:
    """Import a part when it is first used: `nn` needs torch, which takes seconds, the others pandas or SciPy."""
    if name in _LOADED_WHEN_USED:
        return import_module(f"knotwork.{name}")
    raise AttributeError(f"module 'knotwork' has no attribute {name!r}")
