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


def __getattr__(name: str) -> ModuleType:
    """Import a layer when it is first used: `nn` needs torch, which takes seconds to load; `datasets` needs pandas."""
    if name in ("datasets", "nn"):
        return import_module(f"knotwork.{name}")
    raise AttributeError(f"module 'knotwork' has no attribute {name!r}")
