"""Spline and piecewise-linear encodings of numerical columns for tabular deep learning.

Bases and transformers are imported at once. Everything else is imported when it is first used: torch takes seconds to
load, and an installation without extras does not have it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knotwork import basis
from knotwork._checks import PARTS, check_part
from knotwork.encoders import (
    METHODS,
    PerFeatureEncoder,
    PeriodicEncoder,
    PiecewiseLinearEncoder,
    ScalarEncoder,
    SplineEncoder,
    make_encoder,
)

if TYPE_CHECKING:  # type checkers and editors see the names that are imported later
    from knotwork import compare, datasets, nn, report, stats, study, training
    from knotwork._explore import Explorer, explore
    from knotwork._recommend import Recommendation, recommend
    from knotwork.estimators import TabularClassifier, TabularRegressor, load
    from knotwork.training import TrainingConfig

__version__ = "0.2.0"

__all__ = [
    "METHODS",
    "Explorer",
    "PerFeatureEncoder",
    "PeriodicEncoder",
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
    "explore",
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
    "Explorer": "knotwork._explore",
    "Recommendation": "knotwork._recommend",
    "TabularClassifier": "knotwork.estimators",
    "TabularRegressor": "knotwork.estimators",
    "TrainingConfig": "knotwork.training",
    "explore": "knotwork._explore",
    "load": "knotwork.estimators",
    "recommend": "knotwork._recommend",
    **{name: f"knotwork.{name}" for name in ("compare", "datasets", "nn", "report", "stats", "study", "training")},
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
