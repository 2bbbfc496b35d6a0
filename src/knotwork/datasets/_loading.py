"""Loading data sets by key: those of the study are downloaded from OpenML and UCI, checked, and stored in the cache.

The recipes were written from descriptions of the tables, and tested on copies in the servers' formats, not on the
servers. Every result is compared with the registry, so that a different table is detected.
"""

import contextlib
import gzip
import io
import lzma
import socket
import struct
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError
from urllib.request import BaseHandler, Request, build_opener, install_opener, urlopen
from urllib.response import addinfourl

import numpy as np
import pandas as pd
from scipy.io import arff
from sklearn.datasets import fetch_openml, load_breast_cancer, load_diabetes, load_iris, load_wine

from knotwork._checks import check_bool, listed, printable
from knotwork._files import write_atomically
from knotwork._writing import counted
from knotwork.datasets._registry import (
    DATASETS,
    DatasetSpec,
    cache_folder,
    check_dataset,
    content_sha256,
    find_dataset,
    frame_problems,
    get_spec,
    is_offline,
    read_verified,
    unknown_key,
)
from knotwork.datasets._synthetic import SYNTHETIC, SYNTHETIC_SEED
from knotwork.datasets._table import SUBSAMPLE_SEED, Dataset, complete_rows, draw_rows
from knotwork.errors import DatasetMismatchError, DatasetUnavailableError

EMBEDDED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "sk_diabetes": partial(load_diabetes, scaled=False),
        "sk_breast_cancer": load_breast_cancer,
        "sk_wine": load_wine,
        "sk_iris": load_iris,
    }
)
"""Loaders of scikit-learn's embedded tables by key; all columns are numerical."""

KEYS = (*DATASETS, *EMBEDDED, *SYNTHETIC)
"""All keys that `load_dataset` accepts: data sets of the study, tables of scikit-learn, synthetic problems."""


def load_dataset(key: str, *, offline: bool = False, drop_missing: bool = True) -> Dataset:
    """Load a data set by its key.

    A data set of the study is read from the folder KNOTWORK_DATA, or else from the cache; if it is in neither, it is
    downloaded, checked and stored in the cache. A file that does not match the registry raises an error. SGEMM and
    Shuttle are subsampled as in the paper, always to the same rows. Tables of scikit-learn and synthetic problems need
    no file.

    Parameters
    ----------
    key : str
        One of `KEYS`.
    offline : bool
        Whether to raise `DatasetUnavailableError` instead of using the network; KNOTWORK_OFFLINE=1 does the same.
    drop_missing : bool
        Whether to remove rows with missing values; otherwise only rows with a missing target are removed. The tables of
        the study have no missing values.

    Examples
    --------
    >>> diabetes = load_dataset("sk_diabetes")
    >>> diabetes.n_rows, diabetes.task
    (442, 'regression')
    >>> sorted(set(load_dataset("sk_iris").target_values()))
    ['setosa', 'versicolor', 'virginica']
    """
    check_bool(offline, "offline")
    check_bool(drop_missing, "drop_missing")
    if not isinstance(key, str) or key not in KEYS:
        raise unknown_key(key, KEYS)
    if key in EMBEDDED:
        return _load_embedded(key)
    if key in SYNTHETIC:
        return SYNTHETIC[key](seed=SYNTHETIC_SEED)
    return _load_file(get_spec(key), offline=offline or is_offline(), drop_missing=drop_missing)


def _load_embedded(key: str) -> Dataset:
    """Load a table of scikit-learn; class codes are replaced by class names."""
    data = EMBEDDED[key](as_frame=True)
    is_regression = data.target.dtype.kind == "f"
    labels = None if is_regression else np.asarray([str(name) for name in data.target_names], dtype=object)
    frame = data.data.assign(target=data.target if labels is None else labels[data.target])
    return Dataset(
        name=key,
        frame=frame,
        target="target",
        task="regression" if is_regression else "classification",
        numerical=tuple(data.feature_names),
        categorical=(),
        sha256=content_sha256(frame, () if is_regression else ("target",)),
    )


def _load_file(spec: DatasetSpec, *, offline: bool, drop_missing: bool) -> Dataset:
    place = find_dataset(spec.key)
    if place is None and offline:
        raise DatasetUnavailableError(
            f"data set {spec.key!r} is not available on this machine, and offline mode forbids downloading it. Next: "
            f"set KNOTWORK_DATA to a folder with {spec.key}.parquet, or run 'knotwork datasets fetch {spec.key}' with "
            f"network access, which stores it in {cache_folder()}."
        )
    path = fetch_dataset(spec.key) if place is None else place.path
    frame, sha256 = read_verified(path, spec)
    frame, note = complete_rows(frame, spec.columns if drop_missing else [spec.target])
    notes = [note] if note else []
    if spec.subsample is not None and spec.subsample < len(frame):
        labels = frame[spec.target].to_numpy() if spec.task == "classification" else None
        drawn = draw_rows(len(frame), spec.subsample, labels=labels)
        by_class = ", keeping the shares of the classes" if labels is not None else ""
        notes.append(f"{len(drawn)} of {len(frame)} rows drawn with seed {SUBSAMPLE_SEED}{by_class}")
        frame = frame.iloc[drawn].reset_index(drop=True)
    return Dataset(
        name=spec.key,
        frame=frame[list(spec.columns)],
        target=spec.target,
        task=spec.task,
        numerical=spec.numerical,
        categorical=spec.categorical,
        sha256=sha256,
        spec=spec,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class DatasetSummary:
    """One row of the list of data sets.

    Parameters
    ----------
    key, task : str
        The data set and its task.
    n_rows, n_numerical, n_categorical : int
        Number of rows and of feature columns.
    n_drawn : int or None
        Number of rows that the study draws; None for all.
    where : str
        The folder that contains its file, or the source that provides it.
    """

    key: str
    task: str
    n_rows: int
    n_numerical: int
    n_categorical: int
    n_drawn: int | None
    where: str


def summarise_datasets() -> list[DatasetSummary]:
    """Return a summary of every data set, without downloading or reading files.

    Examples
    --------
    >>> [summary.key for summary in summarise_datasets()][:2]
    ['abalone', 'california']
    """
    return [_summarise(key) for key in KEYS]


def _summarise(key: str) -> DatasetSummary:
    if key in DATASETS:
        spec, place, source = DATASETS[key], find_dataset(key), DATASET_SOURCES[key]
        elsewhere = source.label if isinstance(source, ByHand) else f"fetch: {source.label}"
        sizes = (spec.n_rows, len(spec.numerical), len(spec.categorical), spec.subsample)
        return DatasetSummary(key, spec.task, *sizes, elsewhere if place is None else place.origin)
    data = load_dataset(key)
    where = "drawn" if key in SYNTHETIC else "scikit-learn"
    return DatasetSummary(key, data.task, data.n_rows, len(data.numerical), len(data.categorical), None, where)


UCI_SERVER = "https://archive.ics.uci.edu"
OPENML_SERVER = "https://www.openml.org"


@dataclass(frozen=True)
class DownloadLimits:
    """What a download may take.

    Parameters
    ----------
    connection, download : float
        Seconds without an answer, and seconds of a whole download: conventions.
    archive, member : int
        Bytes that a server sends, and bytes of a file that is packed in them: ten times the largest of
        `DATASET_SOURCES`.
    """

    connection: float = 60.0
    download: float = 600.0
    archive: int = 100_000_000
    member: int = 300_000_000


LIMITS = DownloadLimits()

OPENML_ERRORS = (OSError, HTTPException, ValueError, LookupError, TypeError, EOFError, zlib.error)
"""Errors of connections, and those that scikit-learn raises for answers that it cannot read."""

DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, ValueError)
"""Errors that readers of archives raise."""


@dataclass(frozen=True)
class OpenML:
    """A table of OpenML with the column names of the registry."""

    data_id: int

    @property
    def label(self) -> str:
        """Name of the source in messages."""
        return f"OpenML {self.data_id}"


@dataclass(frozen=True)
class UCIArchive:
    """Files of a ZIP archive of the UCI repository.

    A member ``outer.zip/inner.csv`` is a file of a nested archive. `read` takes the bytes of all members and returns
    the table.
    """

    dataset_id: int
    archive: str
    members: tuple[str, ...]
    read: Callable[..., pd.DataFrame]

    @property
    def label(self) -> str:
        """Name of the source in messages."""
        return f"UCI {self.dataset_id}"


@dataclass(frozen=True)
class ByHand:
    """A table that no server provides in the form used by the study.

    `reason` is the end of a sentence; `recipe` says in sentences how the table is built.
    """

    reason: str
    recipe: str
    label: str = "by hand"


def _csv(*contents: bytes, sep: str = ",", names: tuple[str, ...] | None = None) -> pd.DataFrame:
    """Read the rows of one or more files without missing values: ``?`` and ``NA`` stay text."""
    settings: dict[str, Any] = {"sep": sep, "skipinitialspace": True, "keep_default_na": False}
    if names is not None:
        settings |= {"header": None, "names": list(names), "comment": "|"}
    tables: list[pd.DataFrame] = [pd.read_csv(io.BytesIO(content), **settings) for content in contents]
    return pd.concat(tables, ignore_index=True)


def _adult(train: bytes, test: bytes) -> pd.DataFrame:
    names = (
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    )
    table = _csv(train, test, names=names)
    return table.assign(income=table["income"].str.rstrip("."))  # the labels of the test part end with a period


def _marketing(content: bytes) -> pd.DataFrame:
    table = _csv(content, sep=";")
    is_complete = (table["job"] != "unknown") & (table["education"] != "unknown")
    return table[is_complete].reset_index(drop=True)


def _eeg(content: bytes) -> pd.DataFrame:
    table = pd.DataFrame(arff.loadarff(io.StringIO(content.decode()))[0])
    return table.assign(eyeDetection=table["eyeDetection"].str.decode("ascii"))


_BANK = (222, "bank+marketing", ("bank.zip/bank-full.csv",))
_ABALONE = ("Sex", *DATASETS["abalone"].numerical, DATASETS["abalone"].target)

DATASET_SOURCES: Mapping[str, OpenML | UCIArchive | ByHand] = MappingProxyType(
    {
        "abalone": UCIArchive(1, "abalone", ("abalone.data",), partial(_csv, names=_ABALONE)),
        "california": ByHand(
            "207 missing values were filled from the StatLib original, not from OpenML 45028",
            "Take housing.csv of github.com/ageron/handson-ml2 (datasets/housing), and fill total_bedrooms where it is "
            "missing from the rows of StatLib's 'houses', which has the same rows in the same order.",
        ),
        "cpu_small": OpenML(227),
        "diamonds": OpenML(44979),
        "house_sales": OpenML(42092),
        "parkinsons": UCIArchive(189, "parkinsons+telemonitoring", ("parkinsons_updrs.data",), _csv),
        "wine_quality": UCIArchive(
            186, "wine+quality", ("winequality-red.csv", "winequality-white.csv"), partial(_csv, sep=";")
        ),
        "house_8l": OpenML(218),
        "pulsar": UCIArchive(372, "htru2", ("HTRU_2.csv",), partial(_csv, names=DATASETS["pulsar"].columns)),
        "sulfur": OpenML(44020),
        "fifa_wage": ByHand(
            "OpenML 44026 has other features and the logarithm of the target",
            "Take players_22.csv of Kaggle's FIFA 22 (stefanoleone992), keep age, height_cm, weight_kg, "
            "release_clause_eur and the target wage_eur, and drop the rows with missing values, which leaves 18,063.",
        ),
        "sgemm": UCIArchive(440, "sgemm+gpu+kernel+performance", ("sgemm_product.csv",), _csv),
        "protein": UCIArchive(265, "physicochemical+properties+of+protein+tertiary+structure", ("CASP.csv",), _csv),
        "adult": UCIArchive(2, "adult", ("adult.data", "adult.test"), _adult),
        "bank": UCIArchive(*_BANK, partial(_csv, sep=";")),
        "churn": OpenML(46911),
        "fico": OpenML(45554),
        "marketing": UCIArchive(*_BANK, _marketing),
        "eeg": UCIArchive(264, "eeg+eye+state", ("EEG Eye State.arff",), _eeg),
        "gamma": ByHand(
            "it is a balanced subsample of UCI 159, and OpenML 44085 may have drawn other rows",
            "Take magic04.data of UCI 159, draw as many rows of class g as h has with numpy's RandomState(0), and "
            "drop duplicate rows, which leaves 13,261.",
        ),
        "ipums": ByHand(
            "it was built from the original of 1997 by the rules of the Grinsztajn benchmark",
            "Take kdd_ipums_la_97-small.arff, keep the 20 numeric attributes with at least 10 distinct values, make "
            "class P of the rows whose tranwork is missing or Bus_or_streetcar and N of the others, draw as many rows "
            "of P as N has with numpy's RandomState(0), and drop duplicate rows, which leaves 5,180.",
        ),
        "loan_status": OpenML(46434),
        "air_quality": OpenML(46880),
        "loan_type": ByHand(
            "it is derived from a snapshot of the World Bank's loans that has no permanent address",
            "Take the snapshot 'IBRD statement of loans and guarantees' of 2025-03-31, drop the rows without an "
            "interest rate, duplicate rows, those of type GURB and loans approved after 2024-10-31: 8,545 are left.",
        ),
        "shuttle": OpenML(40685),
    }
)
"""The source of each data set of the study."""


def fetch_dataset(key: str) -> Path:
    """Download a data set of the study into the cache and return its file.

    Nothing is downloaded if the table is already available. The server's table must have the columns, rows and values
    of the registry. Rows keep the server's order, so folds may differ from those of another copy. The file appears only
    when it is complete. Offline mode is ignored, because it only disables automatic downloads.

    Parameters
    ----------
    key : str
        One of `DATASETS`.

    Raises
    ------
    DatasetUnavailableError
        If the server cannot be reached or sends no such table, or if no server provides the table.
    DatasetMismatchError
        If the server's table does not match the registry.
    """
    spec = get_spec(key)
    place = find_dataset(key)
    if place is not None and (place.origin != "cache" or check_dataset(key).is_good):
        return place.path
    source = DATASET_SOURCES[key]
    if isinstance(source, ByHand):
        raise DatasetUnavailableError(
            f"data set {key!r} ({spec.reference}) cannot be built from a download: {source.reason}. "
            f"{source.recipe} It needs the columns {listed(spec.columns, most=40)}. Next: {_use_copy(spec)}"
        )
    table = _fetch_uci(source, spec) if isinstance(source, UCIArchive) else _fetch_openml(source, spec)
    frame = _conform(table, spec)
    problems = frame_problems(frame, spec)
    if problems:
        raise _mismatch(spec, "; ".join(problems))
    path = cache_folder() / f"{key}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: frame.to_parquet(file, index=False))
    return path


def _fetch_openml(source: OpenML, spec: DatasetSpec) -> pd.DataFrame:
    try:
        with _timeout(LIMITS.connection), _limited():
            table: pd.DataFrame = fetch_openml(
                data_id=source.data_id,
                target_column=None,  # the target stays a column of the table
                as_frame=True,
                parser="pandas",
                cache=False,
                n_retries=1,
            ).data
    except (_ArchiveError, *OPENML_ERRORS) as error:
        raise _unavailable(spec, f"{OPENML_SERVER}/d/{source.data_id}", error) from error
    return table


def _fetch_uci(source: UCIArchive, spec: DatasetSpec) -> pd.DataFrame:
    url = f"{UCI_SERVER}/static/public/{source.dataset_id}/{source.archive}.zip"
    try:
        archive = _download(url)
        members = [_member(archive, name) for name in source.members]
    except (OSError, HTTPException, KeyError, _ArchiveError) as error:
        raise _unavailable(spec, url, error) from error
    try:
        return source.read(*members)
    except (ValueError, LookupError, AttributeError, TypeError, OSError, NotImplementedError, OverflowError) as error:
        # The table does not have the format of the recipe.
        raise _mismatch(spec, f"it cannot be read ({printable(str(error).strip()[:300])})") from error


class _ArchiveError(Exception):
    """An archive that cannot be unpacked; the message is the reason, to follow a colon."""


class _LimitReached(BaseException):
    """An answer that is too long or too late; no Exception, for which scikit-learn would ask the server again."""


class _Limiter(BaseHandler):
    """Reads answers whole, within the limits of a download: urllib hands each of them to it."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + LIMITS.download

    def http_response(self, request: Request, response: Any) -> Any:
        """Return an answer that has arrived; urllib treats those with an error."""
        if not 200 <= response.status < 300:
            return response
        with response:
            content, headers = self._read(response), response.headers
        if headers.get("Content-Encoding", "") == "gzip":
            content = _unzipped(content)
            del headers["Content-Encoding"]
        answer = addinfourl(io.BytesIO(content), headers, request.full_url, response.status)
        answer.msg = response.msg  # type: ignore[attr-defined]  # urllib reads it
        return answer

    https_response = http_response

    def _read(self, response: Any) -> bytes:
        parts, n_bytes = [], 0
        while part := response.read1(1 << 16):  # returns the bytes that have arrived
            n_bytes += len(part)
            if n_bytes > LIMITS.archive:
                raise _LimitReached(f"the server's answer is longer than {counted(LIMITS.archive)} bytes")
            if time.monotonic() > self._deadline:
                raise _LimitReached(f"the server has not sent the whole answer in {LIMITS.download:.0f} seconds")
            parts.append(part)
        return b"".join(parts)


def _unzipped(content: bytes) -> bytes:
    """Return what is packed in an answer, which must not be too long."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(LIMITS.member + 1)
    except (*DAMAGED, OSError) as error:
        raise _LimitReached(f"the server's answer is damaged ({printable(str(error)[:200])})") from error
    if len(unpacked) > LIMITS.member:
        raise _LimitReached(f"the server's answer would have more than {counted(LIMITS.member)} bytes")
    return unpacked


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Keep all downloads together, also those of scikit-learn, within the limits."""
    before = getattr(urllib.request, "_opener", None)
    install_opener(build_opener(_Limiter()))
    try:
        yield
    except _LimitReached as error:
        raise _ArchiveError(*error.args) from None
    finally:
        install_opener(before)


def _download(url: str) -> bytes:
    with _limited(), urlopen(url, timeout=LIMITS.connection) as answer:
        content: bytes = answer.read()
    return content


def _member(archive: bytes, name: str) -> bytes:
    """Return a file of an archive; ``outer.zip/inner`` is a file of a nested archive."""
    outer, inside, inner = name.partition(".zip/")
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            content = _unpacked(files, f"{outer}.zip" if inside else name)
    except zipfile.BadZipFile as error:
        raise _ArchiveError(f"the server's answer is not a ZIP archive, or is damaged ({error})") from error
    except DAMAGED as error:
        raise _ArchiveError(f"the server's archive is damaged ({printable(str(error)[:200])})") from error
    except NotImplementedError as error:
        raise _ArchiveError("the server's archive is packed in a way that Python cannot unpack") from error
    return _member(content, inner) if inside else content


def _unpacked(files: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of an archive; raise an error for an encrypted or too large one before unpacking it."""
    entry = files.getinfo(name)
    if entry.flag_bits & 0x1:
        raise _ArchiveError(f"the file {name!r} of the server's archive is encrypted")
    if entry.file_size > LIMITS.member:
        raise _ArchiveError(f"the file {name!r} of the server's archive would have {counted(entry.file_size)} bytes")
    with files.open(entry) as file:  # reads at most the declared size
        return file.read()


def _conform(table: pd.DataFrame, spec: DatasetSpec) -> pd.DataFrame:
    """Return the columns of the registry with their types in the registry."""
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
    """Return a column as text; 1.0 becomes "1", and missing values are kept."""
    values = [int(value) if isinstance(value, float) and value.is_integer() else value for value in column]
    return pd.Series([None if pd.isna(value) else str(value).strip() for value in values], index=column.index)


@contextlib.contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """Set a timeout for all new connections, because scikit-learn sets none."""
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
    elif isinstance(error, _ArchiveError):
        reason = str(error)
    elif isinstance(error, KeyError):
        reason = f"the server's archive has no file ({printable(str(error.args[0]))})"
    else:
        reason = f"{type(error).__name__}: {printable(str(error)[:300])}"
    return DatasetUnavailableError(f"data set {spec.key!r} could not be downloaded from {url}: {reason}. {_next(spec)}")


def _mismatch(spec: DatasetSpec, difference: str) -> DatasetMismatchError:
    return DatasetMismatchError(
        f"the table from {DATASET_SOURCES[spec.key].label} does not match data set {spec.key!r}: {difference}. "
        f"Nothing was kept. {_next(spec)} To use the server's table anyway, download it and read it with "
        "knotwork.datasets.read_table."
    )


def _next(spec: DatasetSpec) -> str:
    return f"Next: try again later, or {_use_copy(spec)}"


def _use_copy(spec: DatasetSpec) -> str:
    return (
        f"put {spec.key}.parquet into a folder and set KNOTWORK_DATA to it. KNOTWORK_OFFLINE=1 disables downloads; "
        "sk_diabetes, sk_breast_cancer, sk_wine and sk_iris need none."
    )
