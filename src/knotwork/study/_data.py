"""A data set as networks take it: numbers, codes and a target, and a word for what it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error
from knotwork.datasets import Dataset, load_dataset, read_table
from knotwork.study._folds import Split
from knotwork.study._plan import Plan
from knotwork.training._members import TrainingTable

__all__ = ["DataIdentity", "StudyData", "load_data", "training_table"]


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
    """A data set as arrays.

    Parameters
    ----------
    name : str
        Its name in the plan.
    identity : DataIdentity
        What it is.
    numbers : ndarray of shape (n, n_numerical)
        Numerical features.
    labels : ndarray of shape (n, n_categorical)
        Categorical features, numbered from 0 in ascending order over the whole table.
    target : ndarray of shape (n,)
        Numbers, or codes of classes.
    n_classes : int
        Number of classes; 0 for regression.
    """

    name: str
    identity: DataIdentity
    numbers: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    target: npt.NDArray[Any]
    n_classes: int

    @property
    def task(self) -> str:
        """What is predicted."""
        return self.identity.task

    def codes(self, train: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return codes of the categories as learnt from training rows.

        They count from 1 in ascending order; what these rows do not have is 0.
        """
        codes = np.zeros_like(self.labels)
        for column, labels in enumerate(self.labels.T):
            seen = np.unique(labels[train])
            numbers = np.zeros(labels.max() + 1, dtype=np.int64)
            numbers[seen] = np.arange(1, len(seen) + 1)
            codes[:, column] = numbers[labels]
        return codes

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of codes of each categorical feature at the most, that for the unseen included."""
        return tuple(int(labels.max()) + 2 for labels in self.labels.T)


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
    labels = [_numbered(dataset.frame[column]) for column in dataset.categorical]
    target = dataset.target_values()
    n_classes = 0
    if dataset.task == "classification":
        target = _numbered(dataset.frame[dataset.target])
        n_classes = int(target.max()) + 1
        if n_classes < 2:
            raise argument_error("target", "have at least two classes", dataset.target)
    return StudyData(
        name,
        DataIdentity(
            dataset.sha256, dataset.target, dataset.task, dataset.numerical, dataset.categorical, dataset.n_rows
        ),
        np.ascontiguousarray(dataset.numbers()),
        np.column_stack(labels) if labels else np.zeros((dataset.n_rows, 0), dtype=np.int64),
        target,
        n_classes,
    )


def _numbered(column: "pd.Series[Any]") -> npt.NDArray[np.int64]:
    """Return the values of a column numbered from 0 in ascending order; what cannot be ordered is ordered as text."""
    values = column.astype(object)
    try:
        codes = pd.factorize(values, sort=True)[0]
    except TypeError:
        codes = pd.factorize(values.astype(str), sort=True)[0]
    return codes.astype(np.int64)


def training_table(data: StudyData, splits: Sequence[Split]) -> tuple[TrainingTable, dict[int, int]]:
    """Return one table for several folds, and where each fold's rows begin in it.

    Folds whose training rows hold the same categories share rows; for every other coding the rows are there again.

    Returns
    -------
    table : TrainingTable
        The table.
    starts : dict of int to int
        For each fold the number of its first row.
    """
    codings: list[npt.NDArray[np.int64]] = []
    starts: dict[int, int] = {}
    for split in splits:
        codes = data.codes(split.train)
        place = next((place for place, known in enumerate(codings) if np.array_equal(codes, known)), len(codings))
        if place == len(codings):
            codings.append(codes)
        starts[split.fold] = place * len(codes)
    n_times = len(codings)
    return (
        TrainingTable(
            np.tile(data.numbers, (n_times, 1)),
            np.concatenate(codings),
            np.tile(data.target, n_times),
            data.task,
            data.cardinalities,
            data.n_classes,
        ),
        starts,
    )
