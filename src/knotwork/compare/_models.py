"""Models of a comparison: every row of the ranking as an estimator that can be saved, loaded and explained."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._preparation.members import PreparedTable
from knotwork.additive import AdditiveClassifier, AdditiveRegressor
from knotwork.compare._inputs import IN_TIME, Source
from knotwork.compare._scoring import codes_of_tested
from knotwork.errors import ColumnWarning
from knotwork.estimators import (
    FitPlan,
    Preparation,
    Recipe,
    TabularClassifier,
    TabularRegressor,
    ValidationConfig,
    combine,
    fitted,
    prepare,
    settings_of,
)
from knotwork.training import Member, Trained

Floats = npt.NDArray[np.float64]

ADDITIVE_KINDS = ("linear", "additive")
"""Kinds of rows whose models are fitted in one step, without a network."""


def row_estimator(kind: str, source: Source, *, n_folds: int, **settings: Any) -> Any:
    """Return the unfitted estimator of networks or boosted trees; fitted again, it has the same kind of folds."""
    maker = TabularRegressor if source.task == "regression" else TabularClassifier
    if kind == "boosting":
        settings |= {"members": "trees", "effort": "fast"}
    return maker(validation=IN_TIME if source.n_in_time else n_folds, **settings)


def ensemble_estimator(effort: str, source: Source, **settings: Any) -> Any:
    """Return the unfitted estimator of an effort."""
    maker = TabularRegressor if source.task == "regression" else TabularClassifier
    return maker(effort=effort, validation=IN_TIME if source.n_in_time else None, **settings)


def prepared_rows(estimator: Any, source: Source, *, n_folds: int) -> Preparation:
    """Return what a fit of an estimator trains on the rows of a table, with the kind of folds of a comparison."""
    settings = settings_of(estimator)
    if source.n_in_time:  # every fold is tested on later rows, as in the ranking
        settings = replace(settings, validation=ValidationConfig(source.folds(n_folds, seed=0)))
    preparation = prepare(settings, source.read, source.labels, groups=source.groups)
    return replace(preparation, target_name=source.target_name)


def fit_additive(kind: str, source: Source) -> Any:
    """Return an additive model of all rows of a table, linear or of curves."""
    maker = AdditiveRegressor if source.task == "regression" else AdditiveClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)  # columns are reported once for a comparison
        return maker(curvature="linear" if kind == "linear" else None).fit(source.read, source.named_labels)


def from_folds(
    estimator: Any,
    recipe: Recipe,
    source: Source,
    prepared: PreparedTable,
    members: Sequence[Member],
    trained: Trained,
) -> Any:
    """Return an estimator that consists of the networks, or boosted trees, of all folds.

    The rows that a fold tests become those that it holds out: so the estimator's score, intervals and calibration are
    those of rows that neither trained a network nor stopped its training.
    """
    settings, state = settings_of(estimator), np.random.RandomState(0).get_state()
    # Folds of few rows may lack a class.
    labels = np.array(source.classes, dtype=source.labels.dtype) if source.classes else source.labels
    splits = tuple(replace(split, valid=split.test, test=split.test[:0]) for split in prepared.splits)
    held = [replace(member, valid=split.valid) for member, split in zip(members, splits, strict=True)]
    plan = FitPlan([recipe], "all", n_folds=len(splits))
    table = replace(prepared.table, codes=codes_of_tested(prepared))
    preparation = Preparation(
        settings=settings,
        task=settings.task.learn(labels)[0],
        columns=source.read.columns,
        prepared=replace(prepared, table=table, splits=splits),
        plan=plan,
        members=held,
        config=settings.config,
        random_state=state,
        requested=plan,
        choices=[],
        target_name=source.target_name,
    )
    return fitted(estimator, combine(preparation, trained))
