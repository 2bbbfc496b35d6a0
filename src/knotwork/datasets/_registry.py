"""The 25 data sets of the study: what each holds, where it comes from, and how its table is recognised."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import resources
from types import MappingProxyType
from typing import Any

from knotwork._checks import argument_error, check_choice, check_int, listed
from knotwork.errors import ArgumentError
from knotwork.knots._columns import TASKS

__all__ = ["DATASETS", "DatasetSpec", "get_spec", "unknown_key"]


@dataclass(frozen=True)
class DatasetSpec:
    """What is known of a data set of the study before its table is read.

    Parameters
    ----------
    key : str
        Its name in plans, records and on the command line.
    abbreviation, title : str
        Its names in the paper.
    task : {"regression", "classification"}
        What is predicted.
    n_classes : int or None
        Number of classes; None for regression.
    target : str
        Name of the target column.
    numerical, categorical : tuple of str
        Names of the feature columns.
    n_rows : int
        Rows of the table, before any are drawn.
    subsample : int or None
        How many rows the study draws; None for all.
    reference : str
        Where the paper says the table comes from.
    deviation : str
        How the table differs from what the paper used; empty if it does not.
    sha256 : str
        Checksum of the bytes of the table as a Parquet file.
    content_sha256 : str
        Checksum of what the table holds (`content_sha256`), which a table built again must have.
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
            raise argument_error("n_classes", f"be given for classification alone, and task is {self.task!r}", None)
        if len(set(self.columns)) != len(self.columns):
            raise argument_error("columns", "be distinct", self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns: the numerical, the categorical, the target."""
        return (*self.numerical, *self.categorical, self.target)

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the columns that hold text: the categorical, and the target of a classification."""
        return (*self.categorical, *((self.target,) if self.task == "classification" else ()))


def unknown_key(key: object, keys: Collection[str]) -> ArgumentError:
    """Return the error for a key that no data set has: close matches, or else all keys."""
    close = get_close_matches(key, keys, n=3, cutoff=0.5) if isinstance(key, str) else []
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"There are {listed(keys, most=40)}."
    return argument_error("key", "be the key of a data set", key, hint)


def get_spec(key: str) -> DatasetSpec:
    """Return the entry of a data set of the study.

    Examples
    --------
    >>> get_spec("abalone").target
    'Rings'
    """
    if not isinstance(key, str) or key not in DATASETS:
        raise unknown_key(key, DATASETS)
    return DATASETS[key]


def _read_registry() -> Mapping[str, DatasetSpec]:
    """Read the entries; an unknown or missing field is an error of the dataclass."""
    entries = json.loads(resources.files(__package__).joinpath("registry.json").read_text(encoding="utf-8"))
    lists = {field.name for field in fields(DatasetSpec) if field.type == tuple[str, ...]}
    specs = []
    for entry in entries:
        values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in entry.items()}
        specs.append(DatasetSpec(**values))
    return MappingProxyType({spec.key: spec for spec in specs})


DATASETS = _read_registry()
"""The data sets of the study by their keys, in the order of the paper."""
