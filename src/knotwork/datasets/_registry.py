"""The data sets of the study: the registry with their columns and checksums, and their files on this machine."""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from knotwork._checks import argument_error, check_choice, check_int, listed, printable, suggestion
from knotwork._tables import mixed_bits
from knotwork.errors import ArgumentError, DatasetMismatchError
from knotwork.knots import TASKS

Words = npt.NDArray[np.uint64]

MANTISSA_BITS = 30
"""Bits of the mantissa that are compared, about nine digits: copies of a table written by different programs differ in
the last digits."""


@dataclass(frozen=True)
class DatasetSpec:
    """A data set of the study, as the registry describes it.

    Parameters
    ----------
    key : str
        Its name in plans, in records and on the command line.
    abbreviation, title : str
        Its names in the paper.
    task : {"regression", "classification"}
        Kind of prediction.
    n_classes : int or None
        Number of classes; None for regression.
    target : str
        Name of the target column.
    numerical, categorical : tuple of str
        Names of the feature columns.
    n_rows : int
        Number of rows of the full table.
    subsample : int or None
        Number of rows that the study draws; None for all.
    reference : str
        Source of the table according to the paper.
    deviation : str
        Differences from the table of the paper; empty if there are none.
    sha256 : str
        SHA-256 of the bytes of the Parquet file.
    content_sha256 : str
        Checksum of the values, which does not depend on the file format, the row order and the column types.
    """

    key: str
    abbreviation: str
    title: str
    task: str
    n_classes: int | None
    target: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    n_rows: int
    subsample: int | None
    reference: str
    deviation: str
    sha256: str
    content_sha256: str

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)
        check_int(self.n_rows, "n_rows", 1)
        if (self.n_classes is None) == (self.task == "classification"):
            raise argument_error(
                "n_classes", f"be given only for classification, and task={self.task!r}", self.n_classes
            )
        if len(set(self.columns)) != len(self.columns):
            raise argument_error("columns", "be distinct", self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns: numerical, categorical, target."""
        return (*self.numerical, *self.categorical, self.target)

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the text columns: categorical features, and the target of a classification."""
        return (*self.categorical, *((self.target,) if self.task == "classification" else ()))


def unknown_key(key: object, keys: Collection[str]) -> ArgumentError:
    """Return the error for an unknown key, with close matches or else all keys."""
    hint = suggestion(key, keys, most=3) or f"Available keys: {listed(keys, most=40)}."
    return argument_error("key", "be the key of a data set", key, hint)


def get_spec(key: str) -> DatasetSpec:
    """Return the registry's entry of a data set of the study.

    Examples
    --------
    >>> get_spec("abalone").target
    'Rings'
    """
    if not isinstance(key, str) or key not in DATASETS:
        raise unknown_key(key, DATASETS)
    return DATASETS[key]


def _read_registry() -> Mapping[str, DatasetSpec]:
    """Read the registry; the dataclass raises an error for unknown or missing fields."""
    entries = json.loads(resources.files(__package__).joinpath("registry.json").read_text(encoding="utf-8"))
    lists = {field.name for field in fields(DatasetSpec) if field.type == tuple[str, ...]}
    specs: dict[str, DatasetSpec] = {}
    for entry in entries:
        values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in entry.items()}
        specs[entry["key"]] = DatasetSpec(**values)
    return MappingProxyType(specs)


DATASETS = _read_registry()
"""The data sets of the study by key, in the order of the paper."""


@dataclass(frozen=True)
class Place:
    """Location of the file of a data set.

    Parameters
    ----------
    path : Path
        The file.
    origin : {"KNOTWORK_DATA", "cache"}
        The folder that contains it.
    """

    path: Path
    origin: str


def data_folder() -> Path | None:
    """Return the folder named by the environment variable KNOTWORK_DATA; None if it is not set.

    A folder that does not exist raises an error, because a typo would otherwise start downloads.
    """
    value = os.environ.get("KNOTWORK_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise argument_error("KNOTWORK_DATA", "be a folder that exists", value, "Correct the variable, or unset it.")
    return folder


def cache_folder() -> Path:
    """Return the folder for downloaded data sets, which may not exist yet.

    It is named by the environment variable KNOTWORK_CACHE; by default it is ``knotwork/datasets`` in the user's cache
    folder.
    """
    value = os.environ.get("KNOTWORK_CACHE", "")
    if value:
        return Path(value).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "knotwork" / "datasets"


def is_offline() -> bool:
    """Return whether the environment variable KNOTWORK_OFFLINE is 1."""
    value = os.environ.get("KNOTWORK_OFFLINE", "")
    if value not in ("", "0", "1"):
        raise argument_error("KNOTWORK_OFFLINE", "be '0' or '1'", value, "Correct the variable, or unset it.")
    return value == "1"


def find_dataset(key: str) -> Place | None:
    """Return the file of a data set of the study, in KNOTWORK_DATA or else in the cache; None if it is in neither.

    Parameters
    ----------
    key : str
        One of `DATASETS`.
    """
    name = f"{get_spec(key).key}.parquet"
    folders = {"KNOTWORK_DATA": data_folder(), "cache": cache_folder()}
    for origin, folder in folders.items():
        if folder is not None and (folder / name).is_file():
            return Place(folder / name, origin)
    return None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_sha256(frame: pd.DataFrame, texts: Collection[str] = ()) -> str:
    """Return a checksum of the values of a table that does not depend on row order, column types and the last digits.

    Integers equal floats of the same value, numbers are equal if they agree to about nine digits, text equals
    categories, and all missing values are equal. Names and order of the columns matter.

    Parameters
    ----------
    frame : DataFrame of shape (n, d)
        The table.
    texts : collection of str
        Columns that are compared as text; the others are compared as numbers.

    Notes
    -----
    A value v becomes a word of 64 bits: a number, the bits of v rounded to a mantissa of 30 bits; a text, the first
    eight bytes of its SHA-256. The hash of a row is h_0 = 0, h_j = mix(h_(j-1) XOR v_j) over its d columns, where mix
    is the finalizer of SplitMix64, a bijection. The checksum is the SHA-256 of the column names, each followed by a
    zero byte, and of the n row hashes in ascending order.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1, 2], "town": ["Ulm", "Bonn"]})
    >>> again = pd.DataFrame({"x": [2.0, 1.0], "town": ["Bonn", "Ulm"]})
    >>> content_sha256(table, ["town"]) == content_sha256(again, ["town"])
    True
    """
    rows = np.zeros(len(frame), dtype=np.uint64)
    for name in frame.columns:
        words = _text_words(frame[name]) if name in texts else _number_words(frame[name])
        rows = mixed_bits((rows ^ words) + np.uint64(0x9E3779B97F4A7C15))
    names = b"".join(f"{name}\0".encode() for name in frame.columns)
    return hashlib.sha256(names + np.sort(rows).astype("<u8").tobytes()).hexdigest()


def _number_words(column: "pd.Series[Any]") -> Words:
    """Return the bits of the rounded numbers; the same word for 0 and -0, and one word for all missing values."""
    mantissa, exponent = np.frexp(column.to_numpy(dtype=np.float64, na_value=np.nan))
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, MANTISSA_BITS)), exponent - MANTISSA_BITS) + 0.0
    return np.where(np.isnan(rounded), np.nan, rounded).view(np.uint64)


def _text_words(column: "pd.Series[Any]") -> Words:
    """Return a word for each text, 0 for missing values; each distinct text is hashed once."""
    codes, labels = pd.factorize(column.astype(object))
    digests = [hashlib.sha256(str(label).encode()).digest()[:8] for label in labels]
    words = np.frombuffer(b"".join([*digests, bytes(8)]), dtype="<u8").astype(np.uint64)
    return words[codes]  # the code of a missing value is -1, the last word


@dataclass(frozen=True)
class DatasetCheck:
    """The result of `check_dataset`.

    Parameters
    ----------
    key : str
        The data set.
    path : Path or None
        Its file; None if it is not available on this machine.
    problems : tuple of str
        All differences from the registry; empty if there are none.
    """

    key: str
    path: Path | None
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether the file is available and matches the registry."""
        return self.path is not None and not self.problems


def check_dataset(key: str) -> DatasetCheck:
    """Compare the file of a data set with the registry: checksum, columns, types, rows, target and classes.

    Nothing is downloaded.

    Parameters
    ----------
    key : str
        One of `DATASETS`.
    """
    spec = get_spec(key)
    place = find_dataset(key)
    if place is None:
        return DatasetCheck(key, None, ())
    return DatasetCheck(key, place.path, tuple(_read(place.path, spec)[2]))


def read_verified(path: Path, spec: DatasetSpec) -> tuple[pd.DataFrame, str]:
    """Return the table of a Parquet file and the checksum of its bytes; raise an error if it does not match `spec`.

    A file with other bytes than in the registry is accepted if its content is the same: a downloaded table that is
    written again never has the same bytes.
    """
    frame, sha256, problems = _read(path, spec)
    if problems:
        raise DatasetMismatchError(
            f"{path} is not the table of data set {spec.key!r}: {'; '.join(problems)}. Next: remove the file and run "
            f"'knotwork datasets fetch {spec.key}', or replace it by the correct {path.name}."
        )
    return frame, sha256


def _read(path: Path, spec: DatasetSpec) -> tuple[pd.DataFrame, str, list[str]]:
    """Return the table of a file, the checksum of its bytes, and its problems; an empty table if it cannot be read."""
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError, TypeError, LookupError, NotImplementedError, OverflowError, MemoryError) as error:
        return pd.DataFrame(), "", [f"it cannot be read as Parquet ({printable(str(error)[:300])})"]
    sha256 = file_sha256(path)
    problems = frame_problems(frame, spec, content=sha256 != spec.sha256)
    if problems and sha256 != spec.sha256:
        problems.append(f"SHA-256 of the file must be {spec.sha256}, got {sha256}")
    return frame, sha256, problems


def frame_problems(frame: pd.DataFrame, spec: DatasetSpec, *, content: bool = True) -> list[str]:
    """Return all differences between a table and the registry; columns that the registry does not list are ignored.

    The checksum of the values is compared only if `content` is True.
    """
    absent = [name for name in spec.columns if name not in frame.columns]
    if absent:
        return [f"columns are missing: {listed(absent)}; it has {listed(frame.columns)}"]
    problems = []
    if len(frame) != spec.n_rows:
        problems.append(f"it must have {spec.n_rows} rows, got {len(frame)}")
    numbers = [name for name in spec.columns if name not in spec.texts]
    not_numeric = [name for name in numbers if not types.is_numeric_dtype(frame[name])]
    if not_numeric:
        problems.append(f"columns must hold numbers: {listed(not_numeric)}")
    if frame[spec.target].isna().any():
        problems.append(f"target {spec.target!r} has missing values")
    if spec.n_classes is not None and frame[spec.target].nunique() != spec.n_classes:
        counts = frame[spec.target].value_counts().head(spec.n_classes + 1).to_dict()
        problems.append(f"target {spec.target!r} must have {spec.n_classes} classes, got {counts}")
    if content and not problems:
        sha256 = content_sha256(frame[list(spec.columns)], spec.texts)
        if sha256 != spec.content_sha256:
            problems.append(f"values differ: SHA-256 of the content must be {spec.content_sha256}, got {sha256}")
    return problems
