"""The data of `quality.py`: tables, targets, features and scores."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import roc_auc_score

from knotwork.datasets import Dataset
from knotwork.study import Split, make_splits

__all__ = ["TABLES", "coded", "score", "splits_of", "target_of"]

TABLES = (
    "abalone", "california", "cpu_small", "house_sales", "parkinsons", "wine_quality",
    "adult", "churn", "eeg", "fico", "gamma", "loan_type",
)  # fmt: skip
"""The tables of the comparison; on other tables of the study only our models are compared."""


def target_of(data: Dataset) -> npt.NDArray:
    """Return numbers, or codes of the classes."""
    values = data.target_values()
    return values if data.task == "regression" else np.unique(values, return_inverse=True)[1]


def coded(data: Dataset) -> pd.DataFrame:
    """Return the features, with categories as pandas categoricals."""
    frame = data.frame[list(data.features)].copy()
    for name in data.categorical:
        frame[name] = frame[name].astype(str).astype("category")
    return frame


def splits_of(data: Dataset) -> list[Split]:
    """Return the five folds of the study."""
    return make_splits(target_of(data), data.task, folds=5, seed=42, split="folds")


def score(task: str, target: npt.NDArray, predicted: npt.NDArray) -> float:
    """Return NRMSE, or AUC: of two classes, or of each class against the rest, weighted by their shares."""
    if task == "regression":
        return float(np.sqrt(np.mean((predicted - target) ** 2)) / np.std(target))
    if predicted.shape[1] == 2:
        return float(roc_auc_score(target, predicted[:, 1]))
    codes, counts = np.unique(target, return_counts=True)
    areas = [roc_auc_score(target == code, predicted[:, code]) for code in codes]
    return float(np.average(areas, weights=counts))
