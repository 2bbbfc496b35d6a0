"""Reading users' files as data sets."""

import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from knotwork._checks import argument_error, check_bool, check_choice, check_file, listed, shown, suggestion, type_error
from knotwork._tables import refuse_type
from knotwork.datasets._arrow import read_arrow, read_parquet
from knotwork.datasets._registry import file_sha256
from knotwork.datasets._table import Dataset, complete_rows
from knotwork.datasets._text import COMPRESSIONS, TextFormat, check_expansion, name_columns, quoted_reason, read_text
from knotwork.errors import ColumnError, ColumnTypeError, MissingPackageError
from knotwork.knots import TASKS, infer_task


def _read_excel(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Read the first sheet of an Excel file."""
    suffix = path.suffix.lower()
    package = EXCEL[suffix]
    if find_spec(package) is None:
        raise MissingPackageError(
            f"Reading {suffix} files needs {package}: pip install {package}. Or save the sheet as CSV.", name=package
        )
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_expansion(sum(entry.file_size for entry in archive.infolist()), path)
    try:
        with warnings.catch_warnings(), pd.ExcelFile(path) as book:
            warnings.simplefilter("ignore", UserWarning)  # about styles and other things that are not data
            sheet, *others = book.sheet_names
            rows = pd.read_excel(book, sheet_name=sheet, header=None, nrows=1)
            frame = pd.read_excel(book, sheet_name=sheet)
    except Exception as error:  # readers of Excel files raise any kind of error for damaged files
        hint = f"It is damaged or has another format: save it again, or as CSV. {quoted_reason(error)}".strip()
        raise argument_error("path", f"be a readable {suffix} file", str(path), hint) from error
    notes = [f"Sheet {sheet!r} is read; not read: {listed(others, most=5)}."] if others else []
    if len(rows):
        header = ["" if pd.isna(name) else name for name in rows.iloc[0]]
        frame.columns, naming = name_columns(header)
        notes += naming
    return frame, notes


EXCEL = {".xlsx": "openpyxl", ".xlsm": "openpyxl", ".xls": "xlrd"}
"""Packages that read Excel files, by suffix."""


def _read_columns(read: Callable[[Path], pd.DataFrame], path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Read a file of a format with column names and types."""
    frame = read(path)
    frame.columns, notes = name_columns([*frame.columns])
    return frame, notes


FEWEST_NUMBERS = 3
"""Numbers that a column has at least if text in its first or last row is called odd, a convention."""

TEXT = (".csv", ".tsv", ".tab", ".txt")
"""Suffixes of text files; one of `COMPRESSIONS` may follow."""

READERS: Mapping[str, Callable[[Path], tuple[pd.DataFrame, list[str]]]] = MappingProxyType(
    {
        ".parquet": partial(_read_columns, read_parquet),
        ".arrow": partial(_read_columns, read_arrow),
        ".feather": partial(_read_columns, read_arrow),
        **dict.fromkeys(EXCEL, _read_excel),
    }
)
"""Functions that read files other than text, by suffix; they return the table, and notes as sentences."""


def read_table(
    path: str | PathLike[str],
    *,
    target: str,
    task: str | None = None,
    categorical: Iterable[str] | None = None,
    drop_missing: bool = True,
    text: TextFormat | None = None,
) -> Dataset:
    r"""Read a user's CSV, Parquet, Arrow, Feather or Excel file as a data set.

    Columns of numbers and booleans become numerical features; columns of text and categories become categorical
    features; columns without values are dropped. Dates, lists and infinite numbers raise an error that names the
    column.

    Parameters
    ----------
    path : str or path
        The file; its suffix determines the format: ``.csv``, ``.tsv``, ``.tab`` and ``.txt``, also compressed
        (``.csv.gz``, ``.bz2``, ``.xz``, ``.zst``, ``.zip``), ``.parquet``, ``.arrow``, ``.feather``, ``.xlsx``,
        ``.xls``.
    target : str
        Name of the target column.
    task : {"regression", "classification"}, optional
        Kind of prediction; by default classification if the target has text labels or few distinct integers.
    categorical : iterable of str, optional
        Numerical columns to treat as categorical.
    drop_missing : bool
        Whether to remove rows with missing values; otherwise only rows with a missing target are removed.
    text : TextFormat, optional
        Separator, encoding and decimal sign of a text file; by default they are detected, and reported in the notes of
        the data set.

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
    frame, reading = read_frame(path, text)
    check_columns(frame, [target], "target", path)
    if isinstance(categorical, str):
        raise type_error("categorical", "be a list of names", categorical, f"Pass [{categorical!r}].")
    chosen = list(categorical or ())
    check_columns(frame, chosen, "categorical", path)
    if target in chosen:
        raise argument_error("categorical", "not contain the target", target, "Pass task='classification' instead.")
    numerical, texts, empty = _roles(frame.drop(columns=target), chosen)
    for name in [*texts, target]:
        if name not in chosen:
            _refuse_odd_row(frame[name], f"column {name!r}")
    for name in numerical:
        if frame[name].dtype == object:  # truth values, some of them missing
            frame[name] = frame[name].map({True: 1.0, False: 0.0})
    used = [*numerical, *texts, target]
    n_rows = len(frame)
    frame, note = complete_rows(frame[used], used if drop_missing else [target])
    notes = [*reading, *(f"column {name!r} dropped: it has no values" for name in empty), *([note] if note else [])]
    suffixes = path.suffixes[-2:] if path.suffix.lower() in COMPRESSIONS else path.suffixes[-1:]
    return Dataset(
        name=path.name.removesuffix("".join(suffixes)),
        frame=frame,
        target=target,
        task=task or infer_task(target_labels(frame[target], had_missing=len(frame) < n_rows)),
        numerical=tuple(numerical),
        categorical=tuple(texts),
        sha256=file_sha256(path),
        notes=tuple(notes),
    )


def _check_path(path: str | PathLike[str]) -> Path:
    path = check_file(path, "path")
    if not _is_text_file(path) and path.suffix.lower() not in READERS:
        suffixes = listed((*TEXT, *READERS), most=20)
        hint = f"Text files may be compressed, as in .csv.gz ({listed(COMPRESSIONS)}). Convert the file, or rename it."
        raise argument_error("path", f"end in one of {suffixes}", str(path), hint)
    return path


def _is_text_file(path: Path) -> bool:
    """Return whether a file name is that of a text file; a compressed file without a second suffix is one."""
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
        return path.suffix.lower() not in READERS
    return path.suffix.lower() in TEXT


def read_frame(path: str | PathLike[str], text: TextFormat | None = None) -> tuple[pd.DataFrame, list[str]]:
    """Read a file in the format of its suffix.

    Columns with values other than numbers are not changed. Spaces around column names are removed, names are made
    unique, and columns with neither a name nor values are dropped. Returns the table, with at least one row, and
    sentences on what was detected.
    """
    path, text = _check_path(path), text or TextFormat()
    if _is_text_file(path):
        frame, notes = read_text(path, text)
    else:
        for name in text.given:
            raise argument_error(name, f"be omitted for a {path.suffix.lower()} file", getattr(text, name))
        frame, notes = READERS[path.suffix.lower()](path)
    unnamed = [name for name in frame.columns if name.startswith("Unnamed: ")]
    empty = [name for name in unnamed if frame[name].isna().all()]
    if frame.empty or len(empty) == frame.shape[1]:
        raise ColumnError(f"{path} has no rows. A header and at least one row are needed.")
    if len(unnamed) > len(empty):
        shown = listed([name for name in unnamed if name not in empty], most=5)
        notes.append(f"Columns without a name in the header: {shown}.")
    return frame.drop(columns=empty), notes


def check_columns(frame: pd.DataFrame, names: Iterable[str], argument: str, path: Path) -> None:
    """Raise an error for a name that is not a column; suggest similar column names."""
    for name in names:
        if name not in frame.columns:
            hint = suggestion(name, frame.columns, most=3) or f"It has {listed(frame.columns)}."
            raise argument_error(argument, f"name a column of {path.name}", name, hint)


def _roles(features: pd.DataFrame, chosen: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the numerical columns, the categorical columns, and the columns without values."""
    numerical, texts, empty = [], [], []
    for name in features.columns:
        column = features[name]
        is_category = isinstance(column.dtype, pd.CategoricalDtype)
        holds = "" if is_category else types.infer_dtype(column, skipna=True)
        if column.isna().all():
            empty.append(name)
        elif name in chosen or is_category or holds in ("string", "mixed-integer"):
            texts.append(name)
        elif types.is_numeric_dtype(column) or holds == "boolean":
            numerical.append(name)
        else:
            refuse_type(nw.from_native(column, series_only=True).dtype, f"column {name!r}")
            raise ColumnTypeError(f"column {name!r} holds {holds} values. Convert it to numbers or text.")
    return numerical, texts, empty


def _refuse_odd_row(column: "pd.Series[Any]", label: str) -> None:
    """Raise an error if a column is numbers but for its first row, of units, or its last row, of totals."""
    odd = np.flatnonzero(pd.to_numeric(column, errors="coerce").isna() & column.notna())
    ends = {0: ("first", "units"), len(column) - 1: ("last", "totals")}
    if not 1 <= len(odd) <= 2 or not set(odd.tolist()) <= set(ends) or column.notna().sum() - len(odd) < FEWEST_NUMBERS:
        return
    place, content = ends[int(odd[0])]
    raise ColumnTypeError(
        f"{label} holds numbers, but {shown(column.iloc[odd[0]])} in its {place} row, as rows of {content} do. "
        "Remove this row from the file, or list the column in `categorical`."
    )


def target_labels(column: "pd.Series[Any]", *, had_missing: bool) -> npt.NDArray[Any]:
    """Return the target for `infer_task`; integers that were read as floats because of missing values are restored."""
    values = column.to_numpy()
    if had_missing and values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values
