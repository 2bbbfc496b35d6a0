"""Fetching data sets from OpenML and UCI, checking them, and keeping them in the cache."""

import contextlib
import io
import socket
import zipfile
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pandas as pd
from sklearn.datasets import fetch_openml

from knotwork._checks import listed
from knotwork._files import write_atomically
from knotwork.datasets._folders import cache_folder, find_dataset
from knotwork.datasets._registry import DatasetSpec, get_spec
from knotwork.datasets._sources import SOURCES, ByHand, OpenML, UCIArchive
from knotwork.datasets._verify import check_dataset, frame_problems
from knotwork.errors import DatasetMismatchError, DatasetUnavailableError

__all__ = ["fetch_dataset"]

UCI_SERVER = "https://archive.ics.uci.edu"
OPENML_SERVER = "https://www.openml.org"
TIMEOUT = 60.0
"""Seconds that a server may be silent."""


def fetch_dataset(key: str) -> Path:
    """Fetch a data set of the study into the cache and return its file.

    Nothing is fetched if the table is on this machine already. What the server sends must have the columns, the rows
    and the content of the registry; the order of the rows is the server's, so that folds may differ from those of
    another copy. The file appears only when it is complete. Offline mode does not matter: to fetch is to ask for it.

    Parameters
    ----------
    key : str
        One of `DATASETS`.

    Raises
    ------
    DatasetUnavailableError
        If the server cannot be reached, does not have the table or sends something else, or if no server has it.
    DatasetMismatchError
        If the server's table is not the one of the study.
    """
    spec = get_spec(key)
    place = find_dataset(key)
    if place is not None and (place.origin != "cache" or check_dataset(key).is_good):
        return place.path
    frame = _conform(_fetch_table(spec), spec)
    problems = frame_problems(frame, spec)
    if problems:
        raise _mismatch(spec, "; ".join(problems))
    return _write(frame, cache_folder() / f"{key}.parquet")


def _fetch_table(spec: DatasetSpec) -> pd.DataFrame:
    source = SOURCES[spec.key]
    if isinstance(source, ByHand):
        raise DatasetUnavailableError(
            f"data set {spec.key!r} ({spec.reference}) cannot be built from a download: {source.reason}. "
            f"Next: {_own_copy(spec)}"
        )
    return _fetch_uci(source, spec) if isinstance(source, UCIArchive) else _fetch_openml(source, spec)


def _fetch_openml(source: OpenML, spec: DatasetSpec) -> pd.DataFrame:
    try:
        with _patience(TIMEOUT):
            table: pd.DataFrame = fetch_openml(
                data_id=source.data_id,
                target_column=None,  # all columns alike
                as_frame=True,
                parser="pandas",
                cache=False,
                n_retries=0,
            ).data
    except (OSError, HTTPException, ValueError) as error:
        raise _unavailable(spec, f"{OPENML_SERVER}/d/{source.data_id}", error) from error
    return table


def _fetch_uci(source: UCIArchive, spec: DatasetSpec) -> pd.DataFrame:
    url = f"{UCI_SERVER}/static/public/{source.dataset_id}/{source.archive}.zip"
    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            archive = answer.read()
        members = [_member(archive, name) for name in source.members]
    except (OSError, HTTPException, zipfile.BadZipFile, KeyError) as error:
        raise _unavailable(spec, url, error) from error
    try:
        return source.read(*members)
    except (ValueError, KeyError, AttributeError) as error:  # the table has another form than the recipe knows
        raise _mismatch(spec, f"it cannot be read ({str(error).strip()})") from error


def _member(archive: bytes, name: str) -> bytes:
    """Return a file of an archive; ``outer.zip/inner`` is in an archive in it."""
    outer, inside, inner = name.partition(".zip/")
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        content = files.read(f"{outer}.zip" if inside else name)
    return _member(content, inner) if inside else content


def _conform(table: pd.DataFrame, spec: DatasetSpec) -> pd.DataFrame:
    """Return the columns of the registry, numbers as numbers and text as text."""
    table = table.rename(columns=lambda name: str(name).strip())
    absent = [name for name in spec.columns if name not in table.columns]
    if absent:
        raise _mismatch(spec, f"columns are missing: {listed(absent)}; it has {listed(table.columns)}")
    columns = {}
    for name in spec.columns:
        try:
            columns[name] = _as_text(table[name]) if name in spec.texts else pd.to_numeric(table[name].astype(object))
        except (TypeError, ValueError) as error:
            raise _mismatch(spec, f"column {name!r} must hold numbers ({error})") from error
    return pd.DataFrame(columns)


def _as_text(column: "pd.Series[str]") -> "pd.Series[str]":
    """Return a column as text; 1.0 is written as 1, and what is missing stays missing."""
    values = [int(value) if isinstance(value, float) and value.is_integer() else value for value in column]
    return pd.Series([None if pd.isna(value) else str(value).strip() for value in values], index=column.index)


def _write(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table, of which whoever reads finds all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: frame.to_parquet(file, index=False))
    return path


@contextlib.contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Bound how long connections may be silent: scikit-learn's function opens them without a limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _unavailable(spec: DatasetSpec, url: str, error: Exception) -> DatasetUnavailableError:
    if isinstance(error, HTTPError):
        reason = f"the server answered {error.code} ({error.reason})"
        error.close()
    elif isinstance(error, zipfile.BadZipFile):
        reason = "the server sent something that is no ZIP archive"
    elif isinstance(error, KeyError):
        reason = f"the server's archive lacks a file ({error.args[0]})"
    else:
        reason = f"{type(error).__name__}: {error}"
    return DatasetUnavailableError(f"data set {spec.key!r} could not be fetched from {url}: {reason}. {_next(spec)}")


def _mismatch(spec: DatasetSpec, what: str) -> DatasetMismatchError:
    return DatasetMismatchError(
        f"what {SOURCES[spec.key].label} sent is not the table of data set {spec.key!r}: {what}. Nothing was kept. "
        f"{_next(spec)} To use the server's table as it is, download it and read it with knotwork.datasets.read_table."
    )


def _next(spec: DatasetSpec) -> str:
    return f"Next: try again later, or {_own_copy(spec)}"


def _own_copy(spec: DatasetSpec) -> str:
    return (
        f"put {spec.key}.parquet into a folder and set KNOTWORK_DATA to it. With KNOTWORK_OFFLINE=1 no server is "
        "asked; the sets sk_diabetes, sk_breast_cancer, sk_wine and sk_iris need none."
    )
