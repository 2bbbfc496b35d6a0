"""Data sets: the 25 of the study, those that need no file, and users' own tables."""

from knotwork.datasets.embedded import EMBEDDED
from knotwork.datasets.fetching import fetch_dataset
from knotwork.datasets.files import read_table
from knotwork.datasets.folders import Place, cache_folder, data_folder, find_dataset
from knotwork.datasets.loading import KEYS, load_dataset
from knotwork.datasets.registry import DATASETS, DatasetSpec, get_spec
from knotwork.datasets.summary import DatasetSummary, summarise_datasets
from knotwork.datasets.synthetic import (
    SYNTHETIC,
    ablation_function,
    encoding_illustration,
    illustration_curve,
    illustration_probability,
    synthetic_ablation,
    synthetic_classification,
    synthetic_regression,
)
from knotwork.datasets.table import Dataset
from knotwork.datasets.verify import DatasetCheck, check_dataset

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
    "synthetic_regression",
]
