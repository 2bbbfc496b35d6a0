"""What a fit does: the parameters of an estimator, read and checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._preparation.columns import Columns
from knotwork.encoders import place_pairs
from knotwork.estimators._configs import ColumnConfig, ValidationConfig
from knotwork.estimators._encodings import check_search
from knotwork.estimators._plans import EFFORTS, FitPlan, plan_choice, plan_effort, share_of_validation
from knotwork.estimators._tasks import Task, make_task
from knotwork.nn import Backbone, InteractionConfig, make_backbone
from knotwork.training import TrainingConfig, TrainingTable, device_type, is_cluster, resolve_devices

__all__ = ["FitSettings"]

USUAL_EFFORT = "balanced"
"""Default of the estimators' `effort`."""


@dataclass(frozen=True, eq=False)
class FitSettings:
    """The parameters of an estimator, checked; see `TabularRegressor`. `task` has those of its target."""

    task: Task
    encoding: Any
    backbone: str | Backbone
    effort: str
    time_limit: float | None
    search: str | None
    n_members: int | None
    interactions: Any
    columns: ColumnConfig
    validation: ValidationConfig
    training: TrainingConfig | None
    warm_start: bool
    device: Any
    random_state: Any

    @classmethod
    def read(cls, parameters: Mapping[str, Any], task: str) -> "FitSettings":
        """Return the parameters of an estimator of a task."""
        values = dict(parameters)
        return cls(
            task=make_task(values.pop("objective"), task),
            columns=ColumnConfig.from_value(values.pop("columns")),
            validation=ValidationConfig.from_value(values.pop("validation")),
            **values,
        )

    def __post_init__(self) -> None:
        """Check all that does not need the table."""
        check_choice(self.effort, "effort", EFFORTS)
        if self.n_members is not None:
            check_int(self.n_members, "n_members", minimum=1)
        if self.backbone != "auto":
            make_backbone(self.backbone)
        check_search(self.encoding, self.search)
        if self.interactions is not None:
            InteractionConfig.from_value(self.interactions)
        if not is_cluster(self.device):
            resolve_devices(self.device)
        check_bool(self.warm_start, "warm_start")
        if self.validation.refit and self.warm_start:
            hint = "Networks of a refit were trained on all rows: none is left to validate them by."
            raise argument_error("warm_start", "be False if the networks are refitted", self.warm_start, hint)
        if self.training is not None and not isinstance(self.training, TrainingConfig):
            hint = "Write TrainingConfig(max_epochs=50), for example."
            raise type_error("training", "be a TrainingConfig", self.training, hint)
        if not self.is_automatic and self.effort != USUAL_EFFORT:
            others = "encoding, backbone, search, n_members and training"
            reason = f"it decides what is trained only if none of {others} is given"
            hint = "Leave effort out, or these parameters."
            raise argument_error("effort", f"be left at {USUAL_EFFORT!r}: {reason}", self.effort, hint)
        self.config.metric_for(self.task.objective)

    @property
    def config(self) -> TrainingConfig:
        """The configuration that names the metric and the time limit."""
        config = TrainingConfig() if self.training is None else self.training
        return config if self.time_limit is None else replace(config, time_limit=self.time_limit)

    @property
    def is_automatic(self) -> bool:
        """Whether `effort` decides what is trained."""
        chosen = (self.n_members, self.search, self.training)
        is_usual = isinstance(self.encoding, str) and self.encoding == "auto" and self.backbone == "auto"
        return is_usual and chosen == (None, None, None)

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
            device, limit = device_type(self.device), self.time_limit
            if limit is not None and self.validation.refit:
                limit = share_of_validation(n_folds) * limit
            plan = plan_effort(self.effort, data, device=device, time_limit=limit, n_folds=n_folds)
            return plan.with_interactions(interactions)
        encoding = columns.spread(self.encoding) if isinstance(self.encoding, Mapping) else self.encoding
        # The smoothness of a date is that of all its numbers.
        training = self.training and self.training.for_columns(columns.numerical_names, spread=columns.spread)
        plan = plan_choice(
            encoding, self.search, make_backbone("mlp" if self.backbone == "auto" else self.backbone),
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
