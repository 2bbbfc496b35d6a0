"""Models of a comparison: every row of the ranking as an estimator that can be saved, loaded and explained."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._preparation.columns import CodedTable, Columns, ReadTable
from knotwork._preparation.members import PreparedTable
from knotwork.additive import AdditiveClassifier, AdditiveRegressor
from knotwork.compare._inputs import IN_TIME, Source
from knotwork.compare._scoring import codes_of_tested
from knotwork.errors import ColumnWarning
from knotwork.estimators import (
    FitPlan,
    FittedModel,
    Preparation,
    Recipe,
    TabularClassifier,
    TabularRegressor,
    ValidationConfig,
    combine,
    fitted,
    model_of,
    prepare,
    settings_of,
    shuffled_losses,
)
from knotwork.training import Member, Trained

Floats = npt.NDArray[np.float64]

ADDITIVE_KINDS = ("linear", "additive")
"""Kinds of rows whose models are fitted in one step, without a network."""

ROWS_SHUFFLED = 1000
"""Rows by which the importances of columns of an additive model are computed."""


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


def explained_model(estimator: Any, source: Source) -> "FittedModel | ExplainedAdditive":
    """Return a fitted estimator as figures of features take it; `source` has the rows that it was fitted to."""
    if isinstance(estimator, AdditiveRegressor | AdditiveClassifier):
        return ExplainedAdditive.from_rows(estimator, source)
    return model_of(estimator)


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


@dataclass(frozen=True, eq=False)
class ExplainedAdditive:
    """An additive model as figures of features take models: `held` has the rows by which importances are computed."""

    estimator: AdditiveRegressor | AdditiveClassifier
    source: Source
    held: ReadTable

    @classmethod
    def from_rows(cls, estimator: Any, source: Source) -> "ExplainedAdditive":
        """Return a model with some of the rows that it was fitted to."""
        drawn = source.take(source.places(ROWS_SHUFFLED, seed=0))
        table = source.read.table.take(source.places(ROWS_SHUFFLED, seed=0))
        return cls(estimator, drawn, ReadTable(source.read.columns, table))

    @property
    def columns(self) -> Columns:
        """What was learned of each column."""
        return self.held.columns

    @property
    def response_names(self) -> list[str]:
        """Names of the responses: classes, or one empty name."""
        return [str(label) for label in self.estimator.classes_.tolist()] if self.source.classes else [""]

    @property
    def knots(self) -> list[Any]:
        """No knots of networks."""
        return []

    def responses(self, table: CodedTable) -> Floats:
        """Return predictions or probabilities, of shape (n, n_responses)."""
        if isinstance(self.estimator, AdditiveClassifier):
            return self.estimator.predict_proba(table)
        return self.estimator.predict(table)[:, None]

    @cached_property
    def importances(self) -> Floats:
        """Increase of the loss when a column is shuffled: log loss, or root mean squared error."""

        def loss(table: CodedTable) -> float:
            responses, target = self.responses(table), self.source.target
            if not self.source.classes:
                return float(np.sqrt(np.mean((responses[:, 0] - target) ** 2)))
            places = [list(self.estimator.classes_.tolist()).index(label) for label in self.source.labels.tolist()]
            return float(-np.log(np.maximum(responses[np.arange(len(places)), places], 1e-12)).mean())

        return shuffled_losses(self.held.table, self.columns, loss)
