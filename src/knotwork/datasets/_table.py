"""A data set: a table, what its columns are, and where it comes from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from knotwork._checks import argument_error, check_choice, listed
from knotwork.datasets._registry import DatasetSpec
from knotwork.errors import ColumnError, ColumnTypeError
from knotwork.knots._columns import TASKS

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with a target, from whatever source.

    Parameters
    ----------
    name : str
        Its key, or the name of its file.
    frame : DataFrame of shape (n, d)
        The table. Columns that are neither features nor target are not used.
    target : str
        Name of the target column, in which nothing is missing.
    task : {"regression", "classification"}
        What is predicted.
    numerical, categorical : tuple of str
        Names of the feature columns, at least one in all.
    sha256 : str
        SHA-256 of the bytes of the source file; of the content (`content_sha256`) where there is no file.
    spec : DatasetSpec, optional
        The entry of the registry, for data sets of the study.
    notes : tuple of str
        What was done to the rows in loading.

    Examples
    --------
    >>> frame = pd.DataFrame({"area": [30, 60], "rent": [400.0, 700.0]})
    >>> flats = Dataset("flats", frame, target="rent", task="regression", numerical=("area",), categorical=(),
    ...                 sha256="")
    >>> flats.numbers()
    array([[30.],
           [60.]])
    """

    name: str
    frame: pd.DataFrame
    target: str
    task: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    sha256: str
    spec: DatasetSpec | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)
        used = (*self.numerical, *self.categorical, self.target)
        if len(used) < 2 or len(set(used)) != len(used):
            raise argument_error("columns", "be distinct features, at least one, and a target", used)
        missing = [name for name in used if name not in self.frame.columns]
        if missing:
            raise ColumnError(f"{self.name} has no column {listed(missing)}. It has {listed(self.frame.columns)}.")
        if self.frame.empty:
            raise ColumnError(f"{self.name} has no rows. At least one is needed.")
        for name in (*self.numerical, *((self.target,) if self.task == "regression" else ())):
            _refuse_no_numbers(self.frame[name])
        if self.frame[self.target].isna().any():
            raise ColumnError(f"the target {self.target!r} has missing values. Remove these rows.")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @property
    def features(self) -> pd.DataFrame:
        """The feature columns, numerical first."""
        return self.frame[[*self.numerical, *self.categorical]]

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the numerical columns, of shape (n, n_numerical); NaN where a value is missing."""
        return self.frame[list(self.numerical)].to_numpy(dtype=np.float64, na_value=np.nan)

    def target_values(self) -> npt.NDArray[Any]:
        """Return the target, of shape (n,): float64 for regression, the labels as they are for classification."""
        column = self.frame[self.target]
        return column.to_numpy(dtype=np.float64) if self.task == "regression" else column.to_numpy()


def _refuse_no_numbers(column: "pd.Series[Any]") -> None:
    """Raise an error unless a column holds numbers, finite where they are not missing."""
    if not types.is_numeric_dtype(column):
        raise ColumnTypeError(
            f"column {column.name!r} must hold numbers, but its type is {column.dtype}. Convert it, or take it as a "
            "category (for a target: task='classification')."
        )
    n_infinite = int(np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan)).sum())
    if n_infinite:
        raise ColumnError(f"column {column.name!r} contains infinity in {n_infinite} rows. Replace it first.")
