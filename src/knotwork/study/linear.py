"""Encodings in front of linear models: the smallest study there is, on data that comes with scikit-learn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from knotwork.encoders import make_encoder

__all__ = ["LinearScore", "compare_linear"]

TABLES = {
    "diabetes": ("regression", load_diabetes),
    "breast_cancer": ("classification", load_breast_cancer),
}
"""Embedded tables: their task, and how they are loaded."""


@dataclass(frozen=True)
class LinearScore:
    """Scores of one method on one table.

    Parameters
    ----------
    dataset, method : str
        What was scored.
    metric : {"R2", "AUC"}
        Higher is better.
    folds : tuple of float
        The score of each fold.
    """

    dataset: str
    method: str
    metric: str
    folds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over folds."""
        return float(np.mean(self.folds))

    @property
    def deviation(self) -> float:
        """Standard deviation over folds."""
        return float(np.std(self.folds, ddof=1))


def compare_linear(methods: Sequence[str], *, size: int = 7, n_folds: int = 5, seed: int = 42) -> list[LinearScore]:
    """Cross-validate encodings in front of ridge and logistic regression.

    Encoders are fitted on the training folds alone, as part of the pipeline.

    Parameters
    ----------
    methods : sequence of str
        Names of `knotwork.METHODS` without learned knots.
    size : int
        Columns per feature.
    n_folds : int
        Folds.
    seed : int
        Seed of the folds.

    Examples
    --------
    >>> [score.metric for score in compare_linear(["Std"], n_folds=2)]
    ['R2', 'AUC']
    """
    scores = []
    for dataset, (task, load) in TABLES.items():
        X, y = load(return_X_y=True)
        if task == "regression":
            model, metric, scoring = RidgeCV(alphas=np.logspace(-3, 3, 13)), "R2", "r2"
            folds = KFold(n_folds, shuffle=True, random_state=seed)
        else:
            model, metric, scoring = LogisticRegression(max_iter=2000), "AUC", "roc_auc"
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        for method in methods:
            pipeline = make_pipeline(make_encoder(method, size, dtype=np.float64), model)
            values = cross_val_score(pipeline, X, y, cv=folds, scoring=scoring)
            scores.append(LinearScore(dataset, method, metric, tuple(float(value) for value in values)))
    return scores
