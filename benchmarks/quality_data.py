"""The data of `quality.py`: tables, folds, scores, and the files of results."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import roc_auc_score

from knotwork.datasets import DATASETS, Dataset, load_dataset
from knotwork.study import Split, make_splits

__all__ = [
    "EFFORTS", "FOLDS", "MORE", "TABLES", "Fold", "append", "folds_of", "load_fold", "read_lines", "score",
]  # fmt: skip

FOLDS = 5
EFFORTS = ("fast", "balanced", "best")
"""Our models: the estimators with each effort."""

TABLES = tuple(sorted(DATASETS, key=lambda table: (DATASETS[table].task != "regression", table)))
"""The tables of the study, regression first."""
MORE = Path(os.environ.get("KNOTWORK_MORE", Path(__file__).parents[2] / "shared" / "more"))
"""Folder of further tables, with their descriptions in `tables.json`; they are not part of the repository."""


@dataclass(frozen=True)
class Fold:
    """One fold of a table, as all models get it.

    Parameters
    ----------
    data : Dataset
        The table.
    frame : DataFrame of shape (n, d)
        Its features: numbers as they are, categories as pandas categoricals, dates as dates.
    target : ndarray of shape (n,)
        Numbers, or codes of the classes.
    split : Split
        The rows to train on, to stop early by, and to test on.
    """

    data: Dataset
    frame: pd.DataFrame
    target: npt.NDArray[Any]
    split: Split

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return self.data.task == "regression"

    def rows(self, part: str) -> tuple[pd.DataFrame, npt.NDArray[Any]]:
        """Return features and target of ``"train"``, ``"valid"``, ``"test"``, or ``"train+valid"``."""
        places = np.concatenate([getattr(self.split, name) for name in part.split("+")])
        return self.frame.iloc[places], self.target[places]


def more_tables() -> dict[str, dict[str, Any]]:
    """Return the descriptions of the further tables by name; none if they are not on this machine."""
    path = MORE / "tables.json"
    tables = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return {each["key"]: each for each in tables}


def load_more(name: str) -> Dataset:
    """Return one of the further tables, without the rows whose target is missing; text is categories or dates."""
    about = more_tables()[name]
    frame = pd.read_parquet(MORE / f"{name}.parquet").dropna(subset=[about["target"]]).reset_index(drop=True)
    features = frame.drop(columns=about["target"])
    for column in features.select_dtypes(exclude="number"):
        values = features[column].dropna().astype(str)
        if values.str.match(r"\d{4}-\d\d-\d\d").all():
            frame[column] = pd.to_datetime(frame[column], format="ISO8601", utc=True).dt.tz_localize(None)
    numerical = tuple(features.select_dtypes("number"))
    categorical = tuple(name for name in features if name not in numerical)
    return Dataset(name, frame, about["target"], about["task"], numerical, categorical, sha256="")


def folds_of(data: Dataset) -> list[Fold]:
    """Return the five folds of the study."""
    frame = data.features.copy()
    for name in frame.columns.difference(data.numerical):
        if frame[name].dtype.kind != "M":
            frame[name] = frame[name].astype(str).where(frame[name].notna()).astype("category")
    values = data.target_values()
    target = values if data.task == "regression" else np.unique(values, return_inverse=True)[1]
    splits = make_splits(target, data.task, folds=FOLDS, seed=42, split="folds")
    return [Fold(data, frame, target, split) for split in splits]


@lru_cache(maxsize=2)
def _folds(table: str) -> list[Fold]:
    return folds_of(load_dataset(table) if table in TABLES else load_more(table))


def load_fold(table: str, fold: int) -> Fold:
    """Return one fold of a table of the study."""
    return _folds(table)[fold]


def score(task: str, target: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> float:
    """Return NRMSE, or AUC: of two classes, or of each class against the rest, weighted by their shares."""
    if task == "regression":
        return float(np.sqrt(np.mean((predicted - target) ** 2)) / np.std(target))
    if predicted.shape[1] == 2:
        return float(roc_auc_score(target, predicted[:, 1]))
    codes, counts = np.unique(target, return_counts=True)
    areas = [roc_auc_score(target == code, predicted[:, code]) for code in codes]
    return float(np.average(areas, weights=counts))


def read_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the results in a folder, a file per model."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def append(folder: Path, line: dict[str, Any]) -> None:
    """Write a result at the end of the file of its model."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{line['model']}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
