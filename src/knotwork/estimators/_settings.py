"""What a fit does: the parameters of an estimator, read and checked once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._preparation.columns import Columns
from knotwork._preparation.members import MISSING
from knotwork._preparation.validation import check_validation
from knotwork.encoders._methods import PER_FEATURE
from knotwork.encoders._pairs import place_pairs
from knotwork.estimators._plans import (
    EFFORTS,
    FitPlan,
    plan_choice,
    plan_effort,
    share_of_validation,
)
from knotwork.estimators._tasks import Task
from knotwork.nn._backbones import Backbone, make_backbone
from knotwork.nn._interactions import InteractionConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._members import TrainingTable
from knotwork.training._network import CATEGORIES
from knotwork.training._progress import Reporter
from knotwork.training._spread import check_engine, device_type

__all__ = ["USUAL_EFFORT", "USUAL_SHARE", "FitSettings"]

USUAL_EFFORT, USUAL_SHARE = "balanced", 0.1
"""Defaults of the estimators' `effort` and `validation_share`."""


@dataclass(frozen=True, eq=False)
class FitSettings:
    """The parameters of an estimator, checked; see `TabularRegressor`. `task` has those of its target."""

    estimator: str
    task: Task
    encoding: Any
    backbone: str | Backbone
    effort: str
    time_limit: float | None
    size: int | None
    n_members: int | None
    interactions: Any
    missing: str
    categories: str
    categorical: Any
    dates: str
    validation_share: float
    validation: Any
    refit: bool
    callbacks: Sequence[Reporter] | None
    warm_start: bool
    training: TrainingConfig | None
    device: Any
    engine: str
    random_state: Any
    verbose: bool

    @classmethod
    def read(cls, estimator: str, parameters: Mapping[str, Any], task: Task) -> "FitSettings":
        """Return the parameters of an estimator of a class, all but those of its target."""
        names = {field.name for field in fields(cls)} - {"estimator", "task"}
        return cls(estimator=estimator, task=task, **{name: parameters[name] for name in names})

    def __post_init__(self) -> None:
        """Check all that does not need the table."""
        check_choice(self.effort, "effort", EFFORTS)
        if self.n_members is not None:
            check_int(self.n_members, "n_members", minimum=1)
        if self.backbone != "auto":
            make_backbone(self.backbone)
        if self.interactions is not None:
            InteractionConfig.from_value(self.interactions)
        check_choice(self.missing, "missing", MISSING)
        check_choice(self.categories, "categories", CATEGORIES)
        check_bool(self.verbose, "verbose")
        check_engine(self.engine, self.device)
        if not isinstance(self.validation_share, float) or not 0.0 < self.validation_share < 1.0:
            raise argument_error("validation_share", "be a number between 0 and 1", self.validation_share)
        check_validation(self.validation)
        for name in ("refit", "warm_start"):
            check_bool(getattr(self, name), name)
        if self.refit and self.warm_start:
            hint = "Networks of a refit were trained on all rows: none is left to validate them by."
            raise argument_error("refit", "be False if warm_start is True", self.refit, hint)
        self._check_callbacks()
        if self.training is not None and not isinstance(self.training, TrainingConfig):
            hint = "Write TrainingConfig(max_epochs=50), for example."
            raise type_error("training", "be a TrainingConfig", self.training, hint)
        self.config.metric_for(self.task.objective)

    def _check_callbacks(self) -> None:
        callbacks = self.callbacks
        if callbacks is None:
            return
        if self.engine == "ray":
            hint = "Workers of a cluster send no reports. Or choose engine='local'."
            raise argument_error("callbacks", "be None if engine='ray'", callbacks, hint)
        if not isinstance(callbacks, Sequence) or not all(callable(each) for each in callbacks):
            hint = "Write callbacks=[function]; each is called with an EpochReport."
            raise type_error("callbacks", "be a sequence of functions", callbacks, hint)

    @property
    def config(self) -> TrainingConfig:
        """The configuration that names the metric and the time limit."""
        config = TrainingConfig() if self.training is None else self.training
        return config if self.time_limit is None else replace(config, time_limit=self.time_limit)

    @property
    def is_automatic(self) -> bool:
        """Whether `effort` decides what is trained."""
        chosen = (self.n_members, self.size, self.training)
        return self.encoding == "auto" and self.backbone == "auto" and chosen == (None, None, None)

    @property
    def is_per_feature(self) -> bool:
        """Whether training rows decide the encoding of each column."""
        return isinstance(self.encoding, str) and self.encoding == PER_FEATURE

    def random_numbers(self) -> np.random.RandomState:
        """Return what random seeds and rows are drawn from."""
        try:
            random: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            wanted = "be None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
            raise argument_error("random_state", wanted, self.random_state) from error
        return random

    def plan(self, columns: Columns, data: TrainingTable, *, n_folds: int | None) -> FitPlan:
        """Return what is trained, on the number of folds that the user has decided, if any."""
        interactions = self._interactions_of(columns)
        if self.is_automatic:
            device, limit = device_type(self.device, self.engine), self.time_limit
            if limit is not None and self.refit:
                limit = share_of_validation(n_folds) * limit
            plan = plan_effort(self.effort, data, device=device, time_limit=limit, n_folds=n_folds)
            return plan.with_interactions(interactions)
        encoding = columns.spread(self.encoding) if isinstance(self.encoding, Mapping) else self.encoding
        encoding = "recommended" if self.is_per_feature else encoding  # until the rows of the folds are drawn
        # The smoothness of a date is that of all its numbers.
        training = self.training and self.training.for_columns(columns.numerical_names, spread=columns.spread)
        plan = plan_choice(
            encoding, self.size, make_backbone("mlp" if self.backbone == "auto" else self.backbone),
            names=columns.numerical_names, objective=data.goal, training=training, n_members=self.n_members or 1,
        )  # fmt: skip
        return replace(plan, n_folds=n_folds or plan.n_folds).with_interactions(interactions)

    def _interactions_of(self, columns: Columns) -> InteractionConfig | None:
        """Return the interactions with places of the pairs among the numerical columns, unless they are to be found."""
        if self.interactions is None:
            return None
        config, labels = InteractionConfig.from_value(self.interactions), columns.numerical_names
        if len(labels) < 2:
            hint = f"The numerical columns are {labels}."
            raise argument_error("interactions", "be None for fewer than two numerical columns", config.pairs, hint)
        if not isinstance(config.pairs, tuple):
            return config
        by_place = dict(enumerate(columns.names or ()))  # columns of a table with names may be given by places
        pairs = [
            [column if column in labels else by_place.get(column, column) for column in pair] for pair in config.pairs
        ]
        return replace(config, pairs=tuple(place_pairs(pairs, labels, argument="interactions")))
