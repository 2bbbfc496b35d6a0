"""A data set: a table with the roles of its columns and its source, and the selection of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from knotwork._checks import argument_error, check_choice, check_int, listed
from knotwork.datasets._registry import DatasetSpec
from knotwork.errors import ColumnError, ColumnTypeError
from knotwork.knots import TASKS

SUBSAMPLE_SEED = 42
"""Random seed of the rows that the study draws."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with a target, from any source.

    Parameters
    ----------
    name : str
        Its key, or the name of its file.
    frame : DataFrame of shape (n, d)
        The table. Columns that are neither features nor target are ignored.
    target : str
        Name of the target column, which has no missing values.
    task : {"regression", "classification"}
        Kind of prediction.
    numerical, categorical : tuple of str
        Names of the feature columns, at least one in total.
    sha256 : str
        SHA-256 of the bytes of the source file; without a file, of the values (`content_sha256`).
    spec : DatasetSpec, optional
        The entry of the registry, for data sets of the study.
    notes : tuple of str
        Changes to rows and columns made by loading.

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
            raise ColumnError(f"{self.name} has no rows. At least one row is needed.")
        for name in (*self.numerical, *((self.target,) if self.task == "regression" else ())):
            _check_numbers(self.frame[name])
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
        """Return the numerical columns, of shape (n, n_numerical), with NaN for missing values."""
        return self.frame[list(self.numerical)].to_numpy(dtype=np.float64, na_value=np.nan)

    def target_values(self) -> npt.NDArray[Any]:
        """Return the target, of shape (n,): float64 for regression, unchanged labels for classification."""
        column = self.frame[self.target]
        return column.to_numpy(dtype=np.float64) if self.task == "regression" else column.to_numpy()


def _check_numbers(column: "pd.Series[Any]") -> None:
    """Raise an error unless all values of a column are missing or finite numbers."""
    if not types.is_numeric_dtype(column):
        raise ColumnTypeError(
            f"column {column.name!r} must hold numbers, but its type is {column.dtype}. Convert it, or declare it as "
            "categorical (for a target: task='classification')."
        )
    n_infinite = int(np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan)).sum())
    if n_infinite:
        raise ColumnError(f"column {column.name!r} contains infinity in {n_infinite} rows. Replace it first.")


def complete_rows(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Return the rows without missing values in `columns`, and a note on how many were removed.

    Examples
    --------
    >>> complete_rows(pd.DataFrame({"x": [1.0, None]}), ["x"])[1]
    '1 of 2 rows removed: values are missing'
    """
    complete = frame[list(columns)].notna().all(axis="columns").to_numpy()
    if complete.all():
        return frame, ""
    if not complete.any():
        fewest = frame[list(columns)].count().idxmin()
        raise ColumnError(
            f"every row has a missing value; column {fewest!r} has the most. Remove that column from the table, or "
            "keep rows with missing values (drop_missing=False)."
        )
    n_removed = int((~complete).sum())
    return frame[complete].reset_index(drop=True), f"{n_removed} of {len(frame)} rows removed: values are missing"


def draw_rows(
    n_rows: int, n_drawn: int, *, labels: npt.ArrayLike | None = None, seed: int = SUBSAMPLE_SEED
) -> npt.NDArray[np.intp]:
    """Draw `n_drawn` of `n_rows` row positions without replacement; return them in ascending order.

    With `labels` of shape (n_rows,), each class keeps its share: rounded down, with one more row for the classes with
    the largest remainders.

    Examples
    --------
    >>> len(draw_rows(100, 10)), draw_rows(4, 2, labels=["a", "a", "b", "b"]) // 2
    (10, array([0, 1]))
    """
    check_int(n_drawn, "n_drawn", 1)
    if n_drawn > n_rows:
        raise argument_error("n_drawn", f"be at most the {n_rows} rows of the table", n_drawn)
    generator = np.random.default_rng(seed)
    codes = np.zeros(n_rows, dtype=np.intp) if labels is None else np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(codes)
    shares, remainders = np.divmod(counts * n_drawn, n_rows)
    largest = np.argsort(-remainders, kind="stable")[: n_drawn - shares.sum()]
    shares[largest] += 1
    drawn = [generator.permutation(np.flatnonzero(codes == code))[:share] for code, share in enumerate(shares.tolist())]
    return np.sort(np.concatenate(drawn))
