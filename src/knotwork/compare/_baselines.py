"""Baselines of a comparison: boosting and a linear model, on the same folds and rows as the networks."""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from knotwork._checks import load_lightgbm
from knotwork._preparation.members import PreparedTable, Split
from knotwork.compare._scoring import Scored, score_outputs, to_outputs
from knotwork.errors import MissingPackageError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BoostingRule:
    """Settings of both libraries of boosting, apart from their defaults.

    Parameters
    ----------
    trees, patience : int
        Most rounds of boosting, and rounds without a better validation score after which it stops: conventions.
    probe : int
        Rounds by which its speed is measured.
    codes : int
        Largest code of a category that scikit-learn can treat as a category: it has 255 bins.
    parallel_cells : int
        Cells of a table from which several threads make boosting faster.
    """

    trees: int = 2_000
    patience: int = 50
    probe: int = 5
    codes: int = 250
    parallel_cells: int = 1_000_000


BOOSTING = BoostingRule()


@dataclass(frozen=True)
class LinearRule:
    """Settings of the linear model, which are conventions.

    Parameters
    ----------
    categories : int
        Categories of a column that get an indicator; rarer ones share one.
    penalties : tuple of float
        Ridge penalties for each row, the strongest first; the validation rows choose.
    """

    categories: int = 50
    penalties: tuple[float, ...] = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)


LINEAR = LinearRule()

LEAST_PROBABILITY = 1e-7
"""Of a class without training rows, for example: its logarithm is finite."""


@dataclass(frozen=True, eq=False)
class FoldRows:
    """One fold of a table as other libraries take it.

    `features` has the numbers, then the codes of categories, from 1, in the columns `categorical`; missing numbers and
    categories that its rows do not have are NaN. `target` has class codes, or standardised numbers: the table has
    ``shift + scale * target``.
    """

    features: Floats
    target: npt.NDArray[Any]
    split: Split
    categorical: list[int]
    n_classes: int
    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def from_prepared(cls, prepared: PreparedTable, split: Split) -> "FoldRows":
        """Return a fold, with numbers of the target standardised."""
        table, n_numbers = prepared.table, prepared.table.numbers.shape[1]
        codes = table.codes[:, : table.codes.shape[1] - len(prepared.indicated)]  # without indicators of missing values
        features = np.concatenate([table.numbers, np.where(codes > 0, codes, np.nan)], axis=1)
        features[:, np.isnan(features[split.train]).all(axis=0)] = 0.0  # which scikit-learn cannot bin
        categorical, target = list(range(n_numbers, features.shape[1])), table.target[split.train]
        if table.task == "classification":
            return cls(features, table.target, split, categorical, table.n_classes)
        shift, scale = float(target.mean()), float(target.std()) or 1.0
        return cls(features, (table.target - shift) / scale, split, categorical, 0, shift, scale)

    @property
    def n_threads(self) -> int | None:
        """Threads of boosting: one for a small table or on a busy machine, where more would only wait; None for all."""
        cells = len(self.split.train) * self.features.shape[1]
        is_busy = os.getloadavg()[0] > (os.cpu_count() or 1) + 0.5 if hasattr(os, "getloadavg") else False
        return 1 if cells < BOOSTING.parallel_cells or is_busy else None

    def predictions(self, values: npt.NDArray[Any], classes: npt.NDArray[Any] | None = None) -> Floats:
        """Return numbers, or probabilities of all classes from those of the `classes` in the training rows."""
        if not self.n_classes:
            return np.asarray(values, dtype=np.float64)
        full = np.full((len(values), self.n_classes), LEAST_PROBABILITY)
        full[:, slice(None) if classes is None else classes.astype(np.int64)] = np.maximum(values, LEAST_PROBABILITY)
        full /= full.sum(axis=1, keepdims=True)
        return full


@dataclass(frozen=True, eq=False)
class FoldResult:
    """Predictions of the test rows of a fold, of shape (n,) or (n, n_classes), and the rounds of training.

    `kept` rounds predict; `is_cut` tells whether the deadline ended training; `pace` has the seconds of a round.
    """

    predictions: Floats
    rounds: int = 0
    kept: int = 0
    is_cut: bool = False
    pace: float = 0.0


@dataclass(frozen=True)
class Baseline:
    """A model that networks are compared with, ``"linear"`` or ``"boosting"`` by its `kind`; which needs a `package`.

    `fit` trains on a fold until a deadline on the clock of ``time.perf_counter``, which may be infinite; its third
    argument is the result of the previous fold, None for the first.
    """

    name: str
    kind: str
    fit: Callable[[FoldRows, float, FoldResult | None], FoldResult]
    package: str = "sklearn"

    @property
    def is_installed(self) -> bool:
        """Whether the package is installed."""
        return find_spec(self.package) is not None


def _fit_linear(fold: FoldRows, deadline: float, previous: FoldResult | None) -> FoldResult:
    """Ridge or logistic regression on standardised numbers and one-hot categories; missing numbers are indicated."""
    del previous
    split, numerical = fold.split, list(range(fold.features.shape[1] - len(fold.categorical)))
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    codes = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=LINEAR.categories, sparse_output=False)
    features = make_column_transformer((numbers, numerical), (codes, fold.categorical))
    logistic = LogisticRegression(max_iter=200, warm_start=True)
    best, result = np.inf, FoldResult(np.empty(0))
    with warnings.catch_warnings():
        # Stopping after few iterations is a kind of early stopping.
        warnings.filterwarnings("ignore", message="Found unknown categories")
        warnings.simplefilter("ignore", ConvergenceWarning)
        train = features.fit_transform(fold.features[split.train])
        valid, test = (features.transform(fold.features[rows]) for rows in (split.valid, split.test))
        for penalty in LINEAR.penalties:
            strength = penalty * len(split.train)
            model = logistic.set_params(C=1 / strength) if fold.n_classes else Ridge(alpha=strength)
            model.fit(train, fold.target[split.train])
            loss = _loss(fold, _predict(fold, model, valid))
            if not loss < best and fold.n_classes:
                break  # weaker penalties take longer, and fit the training rows only
            if loss < best or not len(result.predictions):
                best, result = loss, FoldResult(_predict(fold, model, test))
            if time.perf_counter() > deadline:
                return replace(result, is_cut=True)
    return result


def _predict(fold: FoldRows, model: Any, rows: Floats) -> Floats:
    if fold.n_classes:
        return fold.predictions(model.predict_proba(rows), model.classes_)
    return fold.predictions(model.predict(rows))


def _loss(fold: FoldRows, predictions: Floats) -> float:
    """Return the loss of predictions of the validation rows."""
    target = fold.target[fold.split.valid]
    if fold.n_classes:
        return float(log_loss(target, predictions, labels=np.arange(fold.n_classes)))
    return float(np.mean((predictions - target) ** 2))


def _fit_scikit_learn(fold: FoldRows, deadline: float, previous: FoldResult | None) -> FoldResult:
    """Boosting of scikit-learn, stopped early by the validation rows, and cut to the trees that the time allows."""
    split, columns = fold.split, fold.features
    small = [place for place in fold.categorical if np.nanmax(columns[:, place], initial=0) <= BOOSTING.codes]
    kind = HistGradientBoostingClassifier if fold.n_classes else HistGradientBoostingRegressor
    settings = {"categorical_features": small or None, "random_state": split.seed % 2**31}
    train, target = columns[split.train], fold.target[split.train]
    n_trees, pace = BOOSTING.trees, 0.0 if previous is None else previous.pace
    started = time.perf_counter()
    if np.isfinite(deadline):  # it can be stopped at a number of trees, not at a time
        if previous is None:
            kind(**settings, max_iter=BOOSTING.probe, early_stopping=False).fit(train, target)
            pace = (time.perf_counter() - started) / BOOSTING.probe
        n_trees = int(np.clip((deadline - time.perf_counter()) / pace, BOOSTING.probe, BOOSTING.trees))
        started = time.perf_counter()
    model = kind(**settings, max_iter=n_trees, early_stopping=True, n_iter_no_change=BOOSTING.patience)
    model.fit(train, target, X_val=columns[split.valid], y_val=fold.target[split.valid])
    pace = (time.perf_counter() - started) / model.n_iter_
    kept = max(int(np.argmax(model.validation_score_)), 1)  # the first score is that of no tree
    stages = (model.staged_predict_proba if fold.n_classes else model.staged_predict)(columns[split.test])
    predictions = fold.predictions(next(islice(stages, kept - 1, None)), getattr(model, "classes_", None))
    return FoldResult(predictions, model.n_iter_, kept, model.n_iter_ == n_trees < BOOSTING.trees, pace)


def _fit_lightgbm(fold: FoldRows, deadline: float, previous: FoldResult | None) -> FoldResult:
    """LightGBM, stopped early by the validation rows or at the deadline."""
    lightgbm = load_lightgbm("the baseline LightGBM")
    del previous

    def stop_in_time(environment: Any) -> None:
        if environment.iteration + 1 >= BOOSTING.probe and time.perf_counter() > deadline:
            raise lightgbm.callback.EarlyStopException(environment.iteration, environment.evaluation_result_list)

    split, columns = fold.split, fold.features
    task = {"objective": "multiclass", "num_class": fold.n_classes} if fold.n_classes else {"objective": "l2"}
    settings = {**task, "verbosity": -1, "seed": split.seed % 2**31, "num_threads": fold.n_threads or 0}
    codes: Any = fold.categorical or "auto"
    train = lightgbm.Dataset(columns[split.train], fold.target[split.train], categorical_feature=codes)
    valid = train.create_valid(columns[split.valid], fold.target[split.valid])
    stop: list[Any] = [lightgbm.early_stopping(BOOSTING.patience, verbose=False), stop_in_time]
    model = lightgbm.train(settings, train, BOOSTING.trees, valid_sets=[valid], callbacks=stop)
    n_trees = model.current_iteration()
    kept = model.best_iteration or n_trees
    predictions = fold.predictions(model.predict(columns[split.test], num_iteration=kept))
    return FoldResult(predictions, n_trees, kept, is_cut=time.perf_counter() > deadline)


BASELINES = (
    Baseline("linear model", "linear", _fit_linear),
    Baseline("boosting (scikit-learn)", "boosting", _fit_scikit_learn),
    Baseline("boosting (LightGBM)", "boosting", _fit_lightgbm, "lightgbm"),
)
"""The baselines, the fastest first."""


def score_baselines(
    prepared: PreparedTable, *, deadline: float = np.inf, baselines: Sequence[Baseline] = BASELINES
) -> tuple[list[Scored], list[str]]:
    """Fit the installed baselines on all folds; return their scores, and sentences on those that were cut or failed.

    Every fold gets an equal part of the time until `deadline`; time that one does not use is shared by the others.
    """
    scored, notes = [], []
    installed = [baseline for baseline in baselines if baseline.is_installed]
    for place, baseline in enumerate(installed):
        now = time.perf_counter()
        share = (deadline - now) / (len(installed) - place)
        try:
            row = _score(baseline, prepared, now + share)
        except (ValueError, ArithmeticError, RuntimeError, MemoryError, MissingPackageError) as error:
            notes.append(f"Not compared: {baseline.name}, which failed: {str(error).splitlines()[0][:200]}")
            continue
        scored.append(row)
        if row.n_stopped[1]:
            name, folds = f"{baseline.name[0].upper()}{baseline.name[1:]}", len(prepared.splits)
            notes.append(f"{name} reached its time limit in {row.n_stopped[1]} of {folds} folds.")
    return scored, notes


def _score(baseline: Baseline, prepared: PreparedTable, deadline: float) -> Scored:
    """Return the scores of a baseline."""
    results: list[FoldResult] = []
    outputs, seconds = [], []
    n_folds = len(prepared.splits)
    for place, split in enumerate(prepared.splits):
        now = time.perf_counter()
        fold = FoldRows.from_prepared(prepared, split)
        with threadpool_limits(fold.n_threads):
            result = baseline.fit(fold, now + (deadline - now) / (n_folds - place), results[-1] if results else None)
        seconds.append(time.perf_counter() - now)
        results.append(result)
        outputs.append(to_outputs(fold.shift + fold.scale * result.predictions))
    return score_outputs(
        prepared,
        outputs,
        candidate=baseline.name,
        kind=baseline.kind,
        epochs=np.array([result.rounds for result in results]),
        best_epochs=np.array([result.kept for result in results]),
        train_seconds=float(np.mean(seconds)),
        n_stopped=(0, sum(result.is_cut for result in results)),
    )
