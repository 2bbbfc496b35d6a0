"""Comparison of encodings on a user's table within a time budget, and predictions of the model that it saves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knotwork._checks import check_part

check_part(__name__)

if TYPE_CHECKING:  # type checkers and editors see the names that are imported later
    from knotwork._predictions import predict_table
    from knotwork.compare._inputs import CompareOptions, read_sizes
    from knotwork.compare._page import ranking_table
    from knotwork.compare._run import Comparison, compare_table

__all__ = ["CompareOptions", "Comparison", "compare_table", "predict_table"]

if not TYPE_CHECKING:  # predictions need no figures and no pages, which take a second to load

    def __getattr__(name: str) -> Any:
        modules = dict.fromkeys(__all__, "compare._run") | {
            "CompareOptions": "compare._inputs",
            "predict_table": "_predictions",
            "ranking_table": "compare._page",
            "read_sizes": "compare._inputs",
        }
        if name not in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"knotwork.{modules[name]}"), name)
        return value
