"""A user's own table as a data set."""

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
from knotwork.datasets._checksums import file_sha256
from knotwork.datasets._rows import complete_rows
from knotwork.datasets._table import Dataset
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
"""How a file is read, by its suffix."""


def read_table(
    path: str | PathLike[str],
    *,
    target: str,
    task: str | None = None,
    categorical: Iterable[str] | None = None,
    drop_missing: bool = True,
) -> Dataset:
    r"""Read a user's CSV, Parquet, Arrow or Feather file as a data set.

    Numbers and truth values are numerical features, text and categories are categorical ones; a column in which all
    is missing is left out. Dates, lists and infinite numbers are refused, with the name of the column.

    Parameters
    ----------
    path : str or path
        The file; its suffix says what it is (`READERS`).
    target : str
        Name of the target column.
    task : {"regression", "classification"}, optional
        What is predicted; otherwise inferred from the target: labels and few whole numbers are classes.
    categorical : iterable of str, optional
        Columns to take as categories though they are numbers.
    drop_missing : bool
        Whether to remove rows with missing values; if not, only rows with a missing target are removed.

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
    listed_columns = _check_listed(categorical)
    check_columns(frame, listed_columns, "categorical", path)
    if target in listed_columns:
        raise argument_error("categorical", "not hold the target", target, "Pass task='classification' instead.")
    numerical, texts, empty = _roles(frame.drop(columns=target), listed_columns)
    used = [*numerical, *texts, target]
    n_rows = len(frame)
    frame, note = complete_rows(frame[used], used if drop_missing else [target])
    notes = [f"column {name!r} left out: all of it is missing" for name in empty] + ([note] if note else [])
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
        close = get_close_matches(path.name, [each.name for each in folder.iterdir()]) if folder.is_dir() else []
        hint = f"Did you mean {listed(close)}?" if close else f"The current folder is {Path.cwd()}."
        raise argument_error("path", "be a file that exists", str(path), hint)
    return path


def read_frame(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a user's file as it is, by its suffix; blanks around the names of columns are taken away.

    Parameters
    ----------
    path : str or path
        The file; its suffix says what it is (`READERS`).
    """
    path = _check_path(path)
    try:
        frame = READERS[path.suffix.lower()](path)
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except (OSError, ValueError) as error:  # the errors of pyarrow and of pandas' parsers are kinds of these
        raise argument_error(
            "path",
            f"be a {path.suffix.lower()} file that can be read",
            str(path),
            f"The reader says: {str(error).strip()}",
        ) from error
    if frame.empty:
        raise ColumnError(f"{path} has no rows. A header and at least one row are needed.")
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise ColumnError(f"{path} has columns of the same name: {listed(repeated)}. Rename them.")
    return frame


def check_columns(frame: pd.DataFrame, names: Iterable[str], argument: str, path: Path) -> None:
    """Refuse names that are not columns of a table, with the nearest that are."""
    for name in names:
        if name not in frame.columns:
            close = get_close_matches(str(name), list(frame.columns), n=3, cutoff=0.5)
            hint = f"Did you mean {listed(close)}?" if close else f"It has {listed(frame.columns)}."
            raise argument_error(argument, f"name a column of {path.name}", name, hint)


def _check_listed(categorical: Iterable[str] | None) -> list[str]:
    if isinstance(categorical, str):
        raise type_error("categorical", "be a list of names", categorical, f"Pass [{categorical!r}].")
    return list(categorical or ())


def _roles(features: pd.DataFrame, chosen: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the numerical and of the categorical columns, and of those without any value."""
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
    """Return the target that tells the task; whole numbers among missing values were read as floats."""
    values = column.to_numpy()
    if had_missing and values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values


def _is_text(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds categories, text, or text among numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return True
    return types.infer_dtype(column, skipna=True) in ("string", "mixed-integer")


def _advice(column: "pd.Series[Any]") -> str:
    """Return why a column is not taken, and what to do."""
    kind = nw.from_native(column, series_only=True).dtype
    for refused, advice in ADVICE.items():
        if kind == refused:
            return advice
    return f"holds {types.infer_dtype(column)} values. Convert it to numbers or text"
