"""What data sets there are, and where each of them is found."""

from dataclasses import dataclass

from knotwork.datasets._folders import find_dataset
from knotwork.datasets._loading import KEYS, load_dataset
from knotwork.datasets._registry import DATASETS
from knotwork.datasets._sources import SOURCES, ByHand
from knotwork.datasets._synthetic import SYNTHETIC

__all__ = ["DatasetSummary", "summarise_datasets"]


@dataclass(frozen=True)
class DatasetSummary:
    """A line of the list of data sets.

    Parameters
    ----------
    key, task : str
        The data set, and what is predicted.
    n_rows, n_numerical, n_categorical : int
        Rows of its table, and feature columns.
    n_drawn : int or None
        How many rows the study draws; None for all.
    where : str
        Which folder its file is in, or where it can be had.
    """

    key: str
    task: str
    n_rows: int
    n_numerical: int
    n_categorical: int
    n_drawn: int | None
    where: str


def summarise_datasets() -> list[DatasetSummary]:
    """Return a line for every data set; nothing is fetched, and no file is read.

    Examples
    --------
    >>> [line.key for line in summarise_datasets()][:2]
    ['abalone', 'california']
    """
    return [_study_line(key) if key in DATASETS else _embedded_line(key) for key in KEYS]


def _study_line(key: str) -> DatasetSummary:
    spec, place, source = DATASETS[key], find_dataset(key), SOURCES[key]
    elsewhere = source.label if isinstance(source, ByHand) else f"fetch: {source.label}"
    where = elsewhere if place is None else place.origin
    return DatasetSummary(
        key, spec.task, spec.n_rows, len(spec.numerical), len(spec.categorical), spec.subsample, where
    )


def _embedded_line(key: str) -> DatasetSummary:
    data = load_dataset(key)
    where = "drawn" if key in SYNTHETIC else "scikit-learn"
    return DatasetSummary(key, data.task, data.n_rows, len(data.numerical), len(data.categorical), None, where)
