"""Linear models behind encodings, in the place of a backbone: ridge and logistic regression."""

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from knotwork._preparation.members import Fitted, PreparedTable, Split
from knotwork.basis._blocks import make_table
from knotwork.study._choices import LinearConfig
from knotwork.study._data import StudyData
from knotwork.training._members import TrainingTable

__all__ = ["GRID", "LinearFit", "fit_linear"]

FloatArray = npt.NDArray[np.float64]

GRID = 501
"""Points at which the curve of a fit on a single feature is kept."""

IMPOSSIBLE = -50.0
"""Logit of a class that no training row has."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted linear model.

    Parameters
    ----------
    outputs : ndarray of shape (n test rows, d_out)
        Predictions in units of the target, or logits of classes.
    n_parameters : int
        Coefficients and intercepts.
    seconds : float
        How long encoding and fitting took.
    curve : ndarray of shape (GRID, 2) or None
        For a table of one numerical feature: values of it over the whole range, and there the prediction, or the
        probability of the last class.
    """

    outputs: FloatArray
    n_parameters: int
    seconds: float
    curve: FloatArray | None


def fit_linear(config: LinearConfig, data: StudyData, split: Split, fitted: Fitted) -> LinearFit:
    """Fit a linear model on the encoded training rows of a fold, and predict its test rows.

    Categories are taken as their codes. There is nothing to stop early, so validation rows are not used.

    Parameters
    ----------
    config : LinearConfig
        The model.
    data : StudyData
        The table.
    split : Split
        The fold.
    fitted : Fitted
        The encoding of the numerical features.
    """
    from knotwork.basis._compiled import encode_dense  # noqa: PLC0415 - numba takes a while to load

    started = time.perf_counter()
    blocks = make_table(tuple(fitted.blocks), extrapolation="clip", indicator=False)
    table = PreparedTable.from_table(data.table, [split]).table
    numbers, codes, target = table.numbers, table.codes, table.target

    def inputs(numbers: FloatArray, codes: npt.NDArray[np.int64]) -> FloatArray:
        encoded = encode_dense(np.ascontiguousarray(numbers), blocks, dtype=np.dtype(np.float64), n_threads=1)
        return np.column_stack([encoded, codes.astype(np.float64)])

    model = Ridge(alpha=config.penalty)
    if table.task == "classification":
        model = LogisticRegression(C=1.0 / config.penalty, max_iter=2000)
    model.fit(inputs(numbers[split.train], codes[split.train]), target[split.train])
    outputs = _outputs(model, inputs(numbers[split.test], codes[split.test]), table)
    seconds = time.perf_counter() - started
    curve = None
    if numbers.shape[1] == 1 and not codes.shape[1]:
        grid = np.linspace(numbers.min(), numbers.max(), GRID)
        values = _outputs(model, inputs(grid[:, None], np.zeros((GRID, 0), dtype=np.int64)), table)
        curve = np.column_stack([grid, softmax(values, axis=1)[:, -1] if table.n_classes else values[:, 0]])
    return LinearFit(outputs, model.coef_.size + np.size(model.intercept_), seconds, curve)


def _outputs(model: "Ridge | LogisticRegression", encoded: FloatArray, table: TrainingTable) -> FloatArray:
    """Return predictions of shape (n, 1), or logits of shape (n, n_classes)."""
    if table.task == "regression":
        return np.asarray(model.predict(encoded), dtype=np.float64).reshape(-1, 1)
    scores = model.decision_function(encoded)
    logits = np.full((len(encoded), table.n_classes), IMPOSSIBLE)
    logits[:, model.classes_] = np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
    return logits
