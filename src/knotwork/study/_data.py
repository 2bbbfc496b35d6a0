"""Data sets of a study as networks take them: numbers, codes and a target, and what identifies them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error
from knotwork.datasets import Dataset, load_dataset, read_table
from knotwork.study._plan import Plan
from knotwork.training._members import TrainingTable

__all__ = ["DataIdentity", "StudyData", "from_dataset", "load_data"]


@dataclass(frozen=True)
class DataIdentity:
    """What says that two tables are the same to a study.

    Parameters
    ----------
    sha256 : str
        Checksum of the source.
    target, task : str
        What is predicted.
    numerical, categorical : tuple of str
        The features.
    n_rows : int
        Number of rows.
    """

    sha256: str
    target: str
    task: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    n_rows: int


@dataclass(frozen=True, eq=False)
class StudyData:
    """A data set as networks take it.

    Parameters
    ----------
    name : str
        Its name in the plan.
    identity : DataIdentity
        What it is.
    table : TrainingTable
        Its rows; categories are numbered from 1 in ascending order over the whole table.
    """

    name: str
    identity: DataIdentity
    table: TrainingTable


def load_data(plan: Plan, name: str) -> StudyData:
    """Load a data set of a plan, and bring it into arrays. Rows with missing values are removed."""
    files = {table.name: table for table in plan.tables}
    if name in files:
        table = files[name]
        dataset = read_table(table.path, target=table.target, task=table.task, categorical=table.categorical)
    else:
        dataset = load_dataset(name)
    return from_dataset(dataset, name)


def from_dataset(dataset: Dataset, name: str) -> StudyData:
    """Bring a data set into arrays."""
    codes = [_numbered(dataset.frame[column]) + 1 for column in dataset.categorical]
    target = dataset.target_values()
    n_classes = 0
    if dataset.task == "classification":
        target = _numbered(dataset.frame[dataset.target])
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


def _numbered(column: "pd.Series[Any]") -> npt.NDArray[np.int64]:
    """Return the values of a column numbered from 0 in ascending order; what cannot be ordered is ordered as text."""
    values = column.astype(object)
    try:
        codes = pd.factorize(values, sort=True)[0]
    except TypeError:
        codes = pd.factorize(values.astype(str), sort=True)[0]
    return codes.astype(np.int64)
