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
    """Import `knotwork.nn` when it is first used: it needs torch, which takes seconds to load."""
    if name == "nn":
        return import_module("knotwork.nn")
    raise AttributeError(f"module 'knotwork' has no attribute {name!r}")
