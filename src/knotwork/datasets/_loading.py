"""Loading data sets by key, and the list of all keys."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from knotwork._checks import check_bool
from knotwork.datasets._fetching import SOURCES, ByHand, fetch_dataset
from knotwork.datasets._registry import DATASETS, DatasetSpec, get_spec, unknown_key
from knotwork.datasets._storage import cache_folder, content_sha256, find_dataset, is_offline, read_verified
from knotwork.datasets._synthetic import SYNTHETIC, SYNTHETIC_SEED
from knotwork.datasets._table import SUBSAMPLE_SEED, Dataset, complete_rows, draw_rows
from knotwork.errors import DatasetUnavailableError

__all__ = ["EMBEDDED", "KEYS", "DatasetSummary", "load_dataset", "summarise_datasets"]

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
    return [_summarise_file(key) if key in DATASETS else _summarise_embedded(key) for key in KEYS]


def _summarise_file(key: str) -> DatasetSummary:
    spec, place, source = DATASETS[key], find_dataset(key), SOURCES[key]
    elsewhere = source.label if isinstance(source, ByHand) else f"fetch: {source.label}"
    where = elsewhere if place is None else place.origin
    return DatasetSummary(
        key, spec.task, spec.n_rows, len(spec.numerical), len(spec.categorical), spec.subsample, where
    )


def _summarise_embedded(key: str) -> DatasetSummary:
    data = load_dataset(key)
    where = "drawn" if key in SYNTHETIC else "scikit-learn"
    return DatasetSummary(key, data.task, data.n_rows, len(data.numerical), len(data.categorical), None, where)
