"""Loading a data set by its key: from this machine, and otherwise from the server it comes from."""

from knotwork._checks import check_bool
from knotwork.datasets._embedded import EMBEDDED, load_embedded
from knotwork.datasets._fetching import fetch_dataset
from knotwork.datasets._folders import cache_folder, find_dataset, is_offline
from knotwork.datasets._registry import DATASETS, DatasetSpec, get_spec, unknown_key
from knotwork.datasets._rows import SUBSAMPLE_SEED, complete_rows, draw_rows
from knotwork.datasets._synthetic import SYNTHETIC, SYNTHETIC_SEED
from knotwork.datasets._table import Dataset
from knotwork.datasets._verify import read_verified
from knotwork.errors import DatasetUnavailableError

__all__ = ["KEYS", "load_dataset"]

KEYS = (*DATASETS, *EMBEDDED, *SYNTHETIC)
"""Every key that `load_dataset` takes: the study's, those that come with scikit-learn, those that are drawn."""


def load_dataset(key: str, *, offline: bool = False, drop_missing: bool = True) -> Dataset:
    """Load a data set by its key.

    A data set of the study is looked for in the folder that KNOTWORK_DATA names, then in the cache; if it is in
    neither, it is fetched, checked and kept in the cache. A file that is not the table of the study is an error.
    SGEMM and Shuttle are subsampled as in the paper, always to the same rows. What comes with scikit-learn, and
    what is drawn, needs no file.

    Parameters
    ----------
    key : str
        One of `KEYS`.
    offline : bool
        Whether to raise `DatasetUnavailableError` rather than use the network; so does KNOTWORK_OFFLINE=1.
    drop_missing : bool
        Whether to remove rows with missing values; if not, only rows with a missing target are removed. The tables
        of the study have none.

    Examples
    --------
    >>> diabetes = load_dataset("sk_diabetes")
    >>> diabetes.n_rows, diabetes.task
    (442, 'regression')
    """
    check_bool(offline, "offline")
    check_bool(drop_missing, "drop_missing")
    if not isinstance(key, str) or key not in KEYS:
        raise unknown_key(key, KEYS)
    if key in EMBEDDED:
        return load_embedded(key)
    if key in SYNTHETIC:
        return SYNTHETIC[key](seed=SYNTHETIC_SEED)
    return _load(get_spec(key), offline=offline or is_offline(), drop_missing=drop_missing)


def _load(spec: DatasetSpec, *, offline: bool, drop_missing: bool) -> Dataset:
    place = find_dataset(spec.key)
    if place is None and offline:
        raise DatasetUnavailableError(
            f"data set {spec.key!r} is not on this machine, and offline mode forbids to fetch it. Next: set "
            f"KNOTWORK_DATA to a folder with {spec.key}.parquet, or run 'knotwork datasets fetch {spec.key}' with a "
            f"network, which fills {cache_folder()}."
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
