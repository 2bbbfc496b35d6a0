"""The registry of the 25 data sets of the study: columns, sources and checksums."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from types import MappingProxyType
from typing import Any

from knotwork._checks import argument_error, check_choice, check_int, listed, suggestion
from knotwork.errors import ArgumentError
from knotwork.knots import TASKS

__all__ = ["DATASETS", "DatasetSpec", "get_spec", "unknown_key"]


@dataclass(frozen=True)
class DatasetSpec:
    """A data set of the study, as the registry describes it.

    Parameters
    ----------
    key : str
        Its name in plans, in records and on the command line.
    abbreviation, title : str
        Its names in the paper.
    task : {"regression", "classification"}
        Kind of prediction.
    n_classes : int or None
        Number of classes; None for regression.
    target : str
        Name of the target column.
    numerical, categorical : tuple of str
        Names of the feature columns.
    n_rows : int
        Number of rows of the full table.
    subsample : int or None
        Number of rows that the study draws; None for all.
    reference : str
        Source of the table according to the paper.
    deviation : str
        Differences from the table of the paper; empty if there are none.
    sha256 : str
        SHA-256 of the bytes of the Parquet file.
    content_sha256 : str
        Checksum of the values, which does not depend on the file format, the row order and the column types.
    """

    key: str
    abbreviation: str
    title: str
    task: str
    n_classes: int | None
    target: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    n_rows: int
    subsample: int | None
    reference: str
    deviation: str
    sha256: str
    content_sha256: str

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)
        check_int(self.n_rows, "n_rows", 1)
        if (self.n_classes is None) == (self.task == "classification"):
            raise argument_error(
                "n_classes", f"be given only for classification, and task={self.task!r}", self.n_classes
            )
        if len(set(self.columns)) != len(self.columns):
            raise argument_error("columns", "be distinct", self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns: numerical, categorical, target."""
        return (*self.numerical, *self.categorical, self.target)

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the text columns: categorical features, and the target of a classification."""
        return (*self.categorical, *((self.target,) if self.task == "classification" else ()))


def unknown_key(key: object, keys: Collection[str]) -> ArgumentError:
    """Return the error for an unknown key, with close matches or else all keys."""
    hint = suggestion(key, keys, most=3) or f"Available keys: {listed(keys, most=40)}."
    return argument_error("key", "be the key of a data set", key, hint)


def get_spec(key: str) -> DatasetSpec:
    """Return the registry's entry of a data set of the study.

    Examples
    --------
    >>> get_spec("abalone").target
    'Rings'
    """
    if not isinstance(key, str) or key not in DATASETS:
        raise unknown_key(key, DATASETS)
    return DATASETS[key]


def _read_registry() -> Mapping[str, DatasetSpec]:
    """Read the registry; the dataclass raises an error for unknown or missing fields."""
    entries = json.loads(resources.files(__package__).joinpath("registry.json").read_text(encoding="utf-8"))
    lists = {field.name for field in fields(DatasetSpec) if field.type == tuple[str, ...]}
    specs: dict[str, DatasetSpec] = {}
    for entry in entries:
        values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in entry.items()}
        specs[entry["key"]] = DatasetSpec(**values)
    return MappingProxyType(specs)


DATASETS = _read_registry()
"""The data sets of the study by key, in the order of the paper."""
