"""Errors on rows that were held out, with intervals, of the model and of what it must beat."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from knotwork._checks import load_lightgbm
from knotwork._model_page._subject import Floats, PageRows
from knotwork._preparation.columns import CodedTable
from knotwork.errors import MissingPackageError

SMALLEST_SHARE = 1e-12
"""Smallest probability of a class in a log loss."""


class ErrorKind(NamedTuple):
    """An error: losses of rows, and what is made of their mean."""

    losses: Callable[[Floats, npt.NDArray[Any]], Floats]
    finish: Callable[[Any], Any]
    label: str


def _log_losses(predictions: Floats, target: npt.NDArray[Any]) -> Floats:
    chosen = predictions[np.arange(len(target)), target.astype(np.int64)]
    losses: Floats = -np.log(np.maximum(chosen, SMALLEST_SHARE))
    return losses


ERRORS = {
    "square": ErrorKind(lambda p, y: ((p - y.reshape(p.shape)) ** 2).mean(axis=1), np.sqrt, "RMSE"),
    "size": ErrorKind(
        lambda p, y: np.abs(p - y.reshape(p.shape)).mean(axis=1), lambda mean: mean, "Mean absolute error"
    ),
    "logarithm": ErrorKind(_log_losses, lambda mean: mean, "Log loss"),
}
"""The errors by name."""


@dataclass(frozen=True)
class ReferenceRule:
    """How what the model must beat is fitted on the rows that are held, conventions.

    Parameters
    ----------
    folds : int
        Folds of rows that were not divided.
    most_categories : int
        Categories of a column with an indicator in the linear model.
    trees, rate : int, float
        Boosted trees at most, if the model has none of its own, and their learning rate.
    stopping, patience : float, int
        Share of the training rows that end boosting, and rounds without a better score after which it ends.
    fewest : int
        Rows from which on anything is fitted.
    """

    folds: int = 5
    most_categories: int = 50
    trees: int = 500
    rate: float = 0.05
    stopping: float = 0.2
    patience: int = 20
    fewest: int = 30


REFERENCES = ReferenceRule()


@dataclass(frozen=True, eq=False)
class ErrorRow:
    """The error of a model on the held rows.

    Parameters
    ----------
    name : str
        The model.
    error, low, high : float
        The error and its interval of 95 %.
    is_model : bool
        Whether it is the model of the page.
    predictions : ndarray of shape (n, n_outputs) or None
        Its predictions.
    phrase : str
        The model in a sentence, to follow "the error of"; empty if the name says it.
    """

    name: str
    error: float
    low: float
    high: float
    is_model: bool = False
    predictions: Floats | None = None
    phrase: str = ""


def _error_row(name: str, kept: PageRows, predictions: Floats, kind: str, *, is_model: bool = False) -> ErrorRow:
    """Return the error of predictions of the held rows, with an interval from the scatter of their losses."""
    each = ERRORS[kind]
    losses = each.losses(predictions, kept.target)
    mean, error = float(losses.mean()), float(losses.std(ddof=min(1, len(losses) - 1)) / np.sqrt(len(losses)))
    middle, low, high = (
        float(each.finish(max(value, 0.0))) for value in (mean, mean - 1.96 * error, mean + 1.96 * error)
    )
    return ErrorRow(name, middle, low, high, is_model, predictions)


def error_rows(kept: PageRows, kind: str, *, n_classes: int, is_quick: bool = False) -> list[ErrorRow]:
    """Return the errors of no model, a linear one, boosted trees and the model, on the same rows and folds.

    Trees that the model does not have are fitted here, unless it must be quick.
    """
    folds = _folds(kept)
    rows = [_error_row("No model", kept, _cross_validated(_no_model, kept, folds, n_classes), kind)]
    if len(kept.target) >= REFERENCES.fewest and kept.target.ndim == 1:
        rows.append(_error_row("Linear model", kept, _cross_validated(_linear, kept, folds, n_classes), kind))
        boosted = kept.boosted
        if boosted is None and not is_quick:
            try:
                boosted = _cross_validated(_boosted, kept, folds, n_classes)
            except MissingPackageError:
                boosted = None
        if boosted is not None:
            rows.append(_error_row("LightGBM", kept, boosted, kind))
    return [*rows, _error_row("This model", kept, kept.predictions, kind, is_model=True)]


def _folds(kept: PageRows) -> npt.NDArray[np.int64]:
    """Return the folds of the rows, or random ones if they are all of one."""
    if kept.folds is not None and len(np.unique(kept.folds)) > 1:
        return kept.folds
    n_rows = len(kept.target)
    return np.random.RandomState(0).permutation(n_rows) % min(REFERENCES.folds, max(n_rows, 1))


Rows = tuple[CodedTable, npt.NDArray[Any]]
Fit = Callable[[Rows, CodedTable, int], Floats]


def _cross_validated(fit: Fit, kept: PageRows, folds: npt.NDArray[np.int64], n_classes: int) -> Floats:
    """Return predictions of each fold by a model of the others, of shape (n, n_outputs)."""
    out = np.zeros(kept.predictions.shape)
    for fold in np.unique(folds):
        test = folds == fold
        train = ~test if not test.all() else test
        out[test] = fit((kept.table.take(train), kept.target[train]), kept.table.take(test), n_classes)
    return out


def _no_model(train: Rows, test: CodedTable, n_classes: int) -> Floats:
    """Return the mean of the target, or the shares of the classes."""
    target = train[1]
    if n_classes:
        shares = np.bincount(target.astype(np.int64), minlength=n_classes) / len(target)
        return np.tile(shares, (test.n_rows, 1))
    return np.tile(np.atleast_1d(target.mean(axis=0)), (test.n_rows, 1))


def _linear(train: Rows, test: CodedTable, n_classes: int) -> Floats:
    """Return predictions of a ridge or a logistic regression on standardised numbers and one-hot categories."""
    table, target = train
    used = [place for place, column in enumerate(table.numbers.T) if not np.isnan(column).all()]
    features, further = (np.concatenate([each.numbers[:, used], each.codes], axis=1) for each in (table, test))
    codes = list(range(len(used), features.shape[1]))
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    rare = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=REFERENCES.most_categories)
    entries = make_column_transformer((numbers, list(range(len(used)))), (rare, codes), sparse_threshold=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categories that a fold does not have, and steps that end early
        X = entries.fit_transform(features)
        if n_classes:
            if len(np.unique(target)) < 2:
                return _no_model(train, test, n_classes)
            model = LogisticRegression(max_iter=200).fit(X, target)
            return _of_classes(model.predict_proba(entries.transform(further)), model.classes_, n_classes)
        scale = float(np.std(target)) or 1.0
        ridge = RidgeCV(alphas=np.logspace(-4, 4, 9)).fit(X, target / scale)
        return scale * np.asarray(ridge.predict(entries.transform(further)))[:, None]


def _boosted(train: Rows, test: CodedTable, n_classes: int) -> Floats:
    """Return predictions of LightGBM with usual settings."""
    lightgbm = load_lightgbm("the comparison with LightGBM")
    table, target = train
    features, further = (np.concatenate([each.numbers, each.codes], axis=1) for each in (table, test))
    categorical: Any = list(range(table.numbers.shape[1], features.shape[1])) or "auto"
    task = {"objective": "multiclass", "num_class": n_classes} if n_classes else {"objective": "l2"}
    settings = {**task, "verbosity": -1, "learning_rate": REFERENCES.rate, "num_threads": 1, "seed": 0}
    stops = np.random.RandomState(0).permutation(len(target)) < REFERENCES.stopping * len(target)
    data = lightgbm.Dataset(features[~stops], target[~stops], categorical_feature=categorical)
    valid = data.create_valid(features[stops], target[stops])
    stop = lightgbm.early_stopping(REFERENCES.patience, verbose=False)
    model = lightgbm.train(settings, data, REFERENCES.trees, valid_sets=[valid], callbacks=[stop])
    return np.asarray(model.predict(further), dtype=np.float64).reshape(test.n_rows, -1)


def _of_classes(shares: Floats, present: npt.NDArray[Any], n_classes: int) -> Floats:
    """Return probabilities of all classes from those of the classes that the training rows have."""
    out = np.zeros((len(shares), n_classes))
    out[:, present.astype(np.int64)] = shares
    return out
