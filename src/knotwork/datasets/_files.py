"""Reading users' files as data sets."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from knotwork._checks import argument_error, check_bool, check_choice, listed, type_error
from knotwork._tables import ADVICE
from knotwork.datasets._storage import file_sha256
from knotwork.datasets._table import Dataset, complete_rows
from knotwork.errors import ColumnError, ColumnTypeError
from knotwork.knots._columns import TASKS, infer_task

__all__ = ["READERS", "check_columns", "read_frame", "read_table", "target_labels"]

READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = MappingProxyType(
    {
        ".csv": pd.read_csv,
        ".parquet": pd.read_parquet,
        ".arrow": pd.read_feather,
        ".feather": pd.read_feather,
    }
)
"""The function that reads a file, by suffix."""


def read_table(
    path: str | PathLike[str],
    *,
    target: str,
    task: str | None = None,
    categorical: Iterable[str] | None = None,
    drop_missing: bool = True,
) -> Dataset:
    r"""Read a user's CSV, Parquet, Arrow or Feather file as a data set.

    Columns of numbers and booleans become numerical features, columns of text and categories categorical ones; columns
    without any value are dropped. Dates, lists and infinite numbers raise an error that names the column.

    Parameters
    ----------
    path : str or path
        The file; its suffix determines the format (`READERS`).
    target : str
        Name of the target column.
    task : {"regression", "classification"}, optional
        Kind of prediction; by default classification if the target has text labels or few distinct integers.
    categorical : iterable of str, optional
        Numerical columns to treat as categorical.
    drop_missing : bool
        Whether to remove rows with missing values; otherwise only rows with a missing target are removed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "flats.csv"
    ...     _ = path.write_text("area,town,rent\n30,Ulm,410.5\n60,Bonn,700.0\n")
    ...     flats = read_table(path, target="rent")
    >>> flats.name, flats.task, flats.numerical, flats.categorical
    ('flats', 'regression', ('area',), ('town',))
    """
    path = _check_path(path)
    check_bool(drop_missing, "drop_missing")
    if task is not None:
        check_choice(task, "task", TASKS)
    frame = read_frame(path)
    check_columns(frame, [target], "target", path)
    if isinstance(categorical, str):
        raise type_error("categorical", "be a list of names", categorical, f"Pass [{categorical!r}].")
    chosen = list(categorical or ())
    check_columns(frame, chosen, "categorical", path)
    if target in chosen:
        raise argument_error("categorical", "not contain the target", target, "Pass task='classification' instead.")
    numerical, texts, empty = _roles(frame.drop(columns=target), chosen)
    used = [*numerical, *texts, target]
    n_rows = len(frame)
    frame, note = complete_rows(frame[used], used if drop_missing else [target])
    notes = [f"column {name!r} dropped: it has no values" for name in empty] + ([note] if note else [])
    return Dataset(
        name=path.stem,
        frame=frame,
        target=target,
        task=task or infer_task(target_labels(frame[target], had_missing=len(frame) < n_rows)),
        numerical=tuple(numerical),
        categorical=tuple(texts),
        sha256=file_sha256(path),
        notes=tuple(notes),
    )


def _check_path(path: str | PathLike[str]) -> Path:
    if not isinstance(path, str | PathLike):
        raise type_error("path", "be the path of a file", path)
    path = Path(path).expanduser()
    if path.suffix.lower() not in READERS:
        raise argument_error("path", f"end in one of {listed(READERS)}", str(path), "Convert the file, or rename it.")
    if not path.is_file():
        folder = path.parent
        close = get_close_matches(path.name, [file.name for file in folder.iterdir()]) if folder.is_dir() else []
        hint = f"Did you mean {listed(close)}?" if close else f"The current folder is {Path.cwd()}."
        raise argument_error("path", "be a file that exists", str(path), hint)
    return path


def read_frame(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a file in the format of its suffix (`READERS`); spaces around column names are removed."""
    path = _check_path(path)
    try:
        frame = READERS[path.suffix.lower()](path)
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except (OSError, ValueError) as error:  # those of pyarrow and of pandas' parsers are subclasses
        raise argument_error(
            "path",
            f"be a readable {path.suffix.lower()} file",
            str(path),
            f"The reader reports: {str(error).strip()}",
        ) from error
    if frame.empty:
        raise ColumnError(f"{path} has no rows. A header and at least one row are needed.")
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    duplicates = sorted(set(frame.columns[frame.columns.duplicated()]))
    if duplicates:
        raise ColumnError(f"{path} has duplicate columns: {listed(duplicates)}. Rename them.")
    return frame


def check_columns(frame: pd.DataFrame, names: Iterable[str], argument: str, path: Path) -> None:
    """Raise an error for a name that is not a column, with the most similar column names."""
    for name in names:
        if name not in frame.columns:
            close = get_close_matches(str(name), list(frame.columns), n=3, cutoff=0.5)
            hint = f"Did you mean {listed(close)}?" if close else f"It has {listed(frame.columns)}."
            raise argument_error(argument, f"name a column of {path.name}", name, hint)


def _roles(features: pd.DataFrame, chosen: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the numerical columns, the categorical columns, and the columns without any value."""
    numerical, texts, empty = [], [], []
    for name in features.columns:
        column = features[name]
        if column.isna().all():
            empty.append(name)
        elif name in chosen or _is_text(column):
            texts.append(name)
        elif types.is_numeric_dtype(column):
            numerical.append(name)
        else:
            raise ColumnTypeError(f"column {name!r} {_advice(column)}.")
    return numerical, texts, empty


def target_labels(column: "pd.Series[Any]", *, had_missing: bool) -> npt.NDArray[Any]:
    """Return the target for `infer_task`; integers that were read as floats because of missing values are converted."""
    values = column.to_numpy()
    if had_missing and values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values


def _is_text(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds categories, text, or text mixed with numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return True
    return types.infer_dtype(column, skipna=True) in ("string", "mixed-integer")


def _advice(column: "pd.Series[Any]") -> str:
    """Return the reason why a column is not supported, and the next step."""
    kind = nw.from_native(column, series_only=True).dtype
    for unsupported, advice in ADVICE.items():
        if kind == unsupported:
            return advice
    return f"holds {types.infer_dtype(column)} values. Convert it to numbers or text"
