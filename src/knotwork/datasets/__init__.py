"""Data sets: the 25 of the study, tables that need no file, and users' files."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knotwork._checks import check_part

check_part(__name__)

if TYPE_CHECKING:  # type checkers and editors see the names that are imported later
    from knotwork.datasets._loading import (
        EMBEDDED,
        KEYS,
        DatasetSummary,
        fetch_dataset,
        load_dataset,
        summarise_datasets,
    )

from knotwork.datasets._arrow import parquet_parts, parquet_rows
from knotwork.datasets._files import check_columns, read_frame, read_table, target_labels
from knotwork.datasets._registry import (
    DATASETS,
    DatasetCheck,
    DatasetSpec,
    Place,
    cache_folder,
    check_dataset,
    data_folder,
    find_dataset,
    get_spec,
)
from knotwork.datasets._synthetic import (
    SYNTHETIC,
    ablation_function,
    encoding_illustration,
    illustration_curve,
    illustration_probability,
    synthetic_ablation,
    synthetic_classification,
    synthetic_defects,
    synthetic_regression,
    synthetic_rentals,
)
from knotwork.datasets._table import Dataset, draw_rows
from knotwork.datasets._text import TextFormat, header_names

__all__ = [
    "DATASETS",
    "EMBEDDED",
    "KEYS",
    "SYNTHETIC",
    "Dataset",
    "DatasetCheck",
    "DatasetSpec",
    "DatasetSummary",
    "Place",
    "TextFormat",
    "ablation_function",
    "cache_folder",
    "check_dataset",
    "data_folder",
    "encoding_illustration",
    "fetch_dataset",
    "find_dataset",
    "get_spec",
    "illustration_curve",
    "illustration_probability",
    "load_dataset",
    "read_table",
    "summarise_datasets",
    "synthetic_ablation",
    "synthetic_classification",
    "synthetic_defects",
    "synthetic_regression",
    "synthetic_rentals",
]

if not TYPE_CHECKING:  # users' files need no tables of scikit-learn, which takes a second to load

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}._loading"), name)
        return value
