"""Rows of the ranking that need no network: a linear model, curves, and boosted trees, on the same folds."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from knotwork._preparation.members import PreparedTable
from knotwork._trees import SYMMETRIC, USUAL, TreeMember, boost
from knotwork.compare._inputs import Source
from knotwork.compare._models import fit_additive, from_folds, row_estimator
from knotwork.compare._scoring import Scored, codes_of_tested, score_outputs, to_outputs
from knotwork.errors import MissingPackageError
from knotwork.estimators import Recipe
from knotwork.training import TrainingConfig

Floats = npt.NDArray[np.float64]

BOOSTED = {USUAL: "LightGBM", SYMMETRIC: "symmetric trees"}
"""Kinds of trees: the first that can be trained is."""

LEAST_PROBABILITY = 1e-7
"""Of a class without training rows, for example: its logarithm is finite."""


@dataclass(frozen=True)
class AdditiveCost:
    """Seconds that a fit of curves takes at most, about, so that none is begun that the time does not suffice for.

    Parameters
    ----------
    value : float
        Seconds for each number of the table, on one processor, measured for 10,000 rows of 20 columns.
    classes : float
        How much longer classes take than numbers; of more than two, each takes so long.
    columns : int
        With more columns than these the time grows with their third power.
    straight : float
        Share of it that straight lines take.
    most : float
        Seconds that a fit may take without a time limit.
    """

    value: float = 4e-6
    classes: float = 4.0
    columns: int = 30
    straight: float = 0.3
    most: float = 60.0

    def seconds(self, source: Source, kind: str) -> float:
        """Return the seconds of a fit to a table."""
        n_columns = source.features.shape[1]
        n_fits = self.classes * (len(source.classes) if len(source.classes) > 2 else 1) if source.classes else 1.0
        growth = max(n_columns / self.columns, 1.0) ** 2
        return (self.straight if kind == "linear" else 1.0) * self.value * source.n_rows * n_columns * n_fits * growth


ADDITIVE_COST = AdditiveCost()


@dataclass(frozen=True)
class Baseline:
    """A row of the ranking without a network; `score` trains it on all folds until a deadline."""

    name: str
    kind: str
    score: Callable[["Baseline", PreparedTable, Source, float], Scored]


def _score_additive(baseline: Baseline, prepared: PreparedTable, source: Source, deadline: float) -> Scored:
    """Fit an additive model to the rows of each fold that are not tested."""
    began, n_folds, outputs = time.perf_counter(), len(prepared.splits), list[Floats]()
    expected = n_folds * ADDITIVE_COST.seconds(source, baseline.kind)
    for place, split in enumerate(prepared.splits):
        if place:
            expected = n_folds * (time.perf_counter() - began) / place
        if began + expected > deadline or expected > n_folds * ADDITIVE_COST.most:
            raise TimeoutError(f"it needs about {expected:.2g} s")
        rows = np.sort(np.concatenate([split.train, split.valid]))
        estimator = fit_additive(baseline.kind, source.take(rows))
        outputs.append(_outputs(estimator, source, split.test))
    none = np.zeros(n_folds, dtype=np.int64)
    return score_outputs(
        prepared,
        outputs,
        candidate=baseline.name,
        kind=baseline.kind,
        epochs=none,
        best_epochs=none,
        train_seconds=(time.perf_counter() - began) / n_folds,
        make=partial(fit_additive, baseline.kind, source),
    )


def _outputs(estimator: Any, source: Source, rows: npt.NDArray[np.int64]) -> Floats:
    """Return predictions of an additive model as metrics take them; it may not know all classes."""
    frame = source.features.iloc[rows]
    if not source.classes:
        return to_outputs(estimator.predict(frame))
    shares = np.full((len(frame), len(source.classes)), LEAST_PROBABILITY)
    places = [source.classes.index(label) for label in estimator.classes_.tolist()]
    shares[:, places] = np.maximum(estimator.predict_proba(frame), LEAST_PROBABILITY)
    return np.asarray(log_softmax(np.log(shares), axis=1))


def _score_boosting(baseline: Baseline, prepared: PreparedTable, source: Source, deadline: float) -> Scored:
    """Train boosted trees on every fold, side by side, stopped by the same rows as networks."""
    began, table, splits = time.perf_counter(), prepared.table, prepared.splits
    kind, name = next(each for each in BOOSTED.items() if each[0].suits(table.goal, table.n_classes))
    members = [TreeMember(split.train, split.valid, (), seed=split.seed, kind=kind) for split in splits]
    n_categorical = len(source.read.columns.cardinalities)
    trained = boost(table, members, n_categorical=n_categorical, seconds=max(deadline - time.perf_counter(), 1e-3))
    histories, cap = trained.histories, kind.rounds
    estimator = row_estimator(baseline.kind, source, n_folds=len(splits))
    late = sum(history.epochs < cap and history.epochs - history.best_epoch < kind.patience for history in histories)
    return score_outputs(
        prepared,
        trained.outputs(table.numbers, codes_of_tested(prepared), [split.test for split in splits]),
        candidate=f"{baseline.name} ({name})",
        kind=baseline.kind,
        epochs=np.array([history.epochs for history in histories]),
        best_epochs=np.array([history.best_epoch for history in histories]),
        train_seconds=(time.perf_counter() - began) / len(splits),
        n_stopped=(0, late if trained.interrupted else 0),
        make=partial(from_folds, estimator, Recipe((), kind, TrainingConfig()), source, prepared, members, trained),
    )


BASELINES = (
    Baseline("linear model", "linear", _score_additive),
    Baseline("boosting", "boosting", _score_boosting),
    Baseline("additive model (splines)", "additive", _score_additive),
)
"""The rows without networks, the fastest first."""


def score_baselines(
    prepared: PreparedTable, source: Source, *, deadline: float = math.inf, baselines: Sequence[Baseline] = BASELINES
) -> tuple[list[Scored], list[str]]:
    """Train the baselines on all folds; return their scores, and sentences on those that were cut or left out.

    Every baseline gets an equal part of the time until `deadline`; time that one does not use is shared by the others.
    """
    scored, notes = [], []
    for place, baseline in enumerate(baselines):
        now = time.perf_counter()
        share = (deadline - now) / (len(baselines) - place)
        try:
            row = baseline.score(baseline, prepared, source, now + share)
        except (ValueError, ArithmeticError, RuntimeError, MemoryError, TimeoutError, MissingPackageError) as error:
            notes.append(f"Not compared: {baseline.name}: {str(error).splitlines()[0][:200]}.")
            continue
        scored.append(row)
        if row.n_stopped[1]:
            name, folds = f"{baseline.name[0].upper()}{baseline.name[1:]}", len(prepared.splits)
            notes.append(f"{name} reached its time limit in {row.n_stopped[1]} of {folds} folds.")
    return scored, notes
