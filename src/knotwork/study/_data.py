"""Data sets of a study as arrays for networks, with their identities."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error
from knotwork.datasets import Dataset, load_dataset, read_table
from knotwork.study._plan import Plan
from knotwork.training import TrainingTable

__all__ = ["DataIdentity", "StudyData", "from_dataset", "load_data"]


@dataclass(frozen=True)
class DataIdentity:
    """The values that identify a table in keys of networks; `sha256` is the checksum of its source."""

    sha256: str
    target: str
    task: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    n_rows: int


@dataclass(frozen=True, eq=False)
class StudyData:
    """A data set of a plan; categories are numbered from 1 in ascending order over all rows."""

    name: str
    identity: DataIdentity
    table: TrainingTable


def load_data(plan: Plan, name: str) -> StudyData:
    """Load a data set of a plan. Rows with missing values are removed."""
    for file in plan.tables:
        if file.name == name:
            dataset = read_table(file.path, target=file.target, task=file.task, categorical=file.categorical)
            return from_dataset(dataset, name)
    return from_dataset(load_dataset(name), name)


def from_dataset(dataset: Dataset, name: str) -> StudyData:
    """Convert a data set to arrays."""
    codes = [_ordinal_codes(dataset.frame[column]) + 1 for column in dataset.categorical]
    target = dataset.target_values()
    n_classes = 0
    if dataset.task == "classification":
        target = _ordinal_codes(dataset.frame[dataset.target])
        n_classes = int(target.max()) + 1
        if n_classes < 2:
            raise argument_error("target", "have at least two classes", dataset.target)
    table = TrainingTable(
        np.ascontiguousarray(dataset.numbers()),
        np.column_stack(codes) if codes else np.zeros((dataset.n_rows, 0), dtype=np.int64),
        target,
        dataset.task,
        tuple(int(column.max()) + 1 for column in codes),
        n_classes,
    )
    identity = DataIdentity(
        dataset.sha256, dataset.target, dataset.task, dataset.numerical, dataset.categorical, dataset.n_rows
    )
    return StudyData(name, identity, table)


def _ordinal_codes(column: "pd.Series[Any]") -> npt.NDArray[np.int64]:
    """Return codes from 0 in ascending order of the values; values that cannot be compared are ordered as text."""
    values = column.astype(object)
    try:
        codes = pd.factorize(values, sort=True)[0]
    except TypeError:
        codes = pd.factorize(values.astype(str), sort=True)[0]
    return codes.astype(np.int64)
