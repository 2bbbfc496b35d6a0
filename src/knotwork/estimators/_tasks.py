"""What is predicted, numbers or classes: how a target is read, and how outputs of networks become predictions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from knotwork._checks import argument_error, listed
from knotwork._preparation.targets import Labels, check_target, class_weights, row_weights
from knotwork.estimators._combination import (
    SMALLEST,
    HeldOut,
    Residuals,
    ValidationRows,
    reliability,
    temperature,
    tempered,
)
from knotwork.training import Objective, Trained, make_objective

__all__ = ["Calibration", "Classification", "Regression", "Task", "by_target", "doubled", "make_task"]

Floats = npt.NDArray[np.float64]
Weights = Floats | None


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was learned from predictions of rows that the networks were not trained on.

    Parameters
    ----------
    residuals : Residuals or None
        Of a regression: what intervals are made of; None without such rows.
    temperature : float
        Logarithms of probabilities are divided by it.
    groups : list of dict
        Of a classification: `TabularClassifier.calibration_`.
    """

    residuals: Residuals | None = None
    temperature: float = 1.0
    groups: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """What is predicted.

    Parameters
    ----------
    objective : Objective
        What networks are trained for.
    labels : Labels or None
        The classes, once a target of classes was learned.
    by_class : ndarray of shape (n_classes,) or None
        Their weights.
    """

    objective: Objective
    labels: Labels | None = None
    by_class: Weights = None
    name: ClassVar[str]

    @abstractmethod
    def learn(self, y: Any) -> tuple[Self, npt.NDArray[Any]]:
        """Check a target; return the task with what predictions need of it, and numbers or class codes."""

    @abstractmethod
    def read(self, y: Any) -> npt.NDArray[Any]:
        """Check the target of further rows, and return it as `learn` does."""

    @abstractmethod
    def calibrate(self, held: HeldOut | None) -> Calibration:
        """Learn from predictions of rows that networks were not trained on; None: there are no such rows."""

    @abstractmethod
    def mean(self, outputs: Floats, weights: Floats) -> Floats:
        """Return the weighted mean of members, of shape (n, d_out), from outputs of shape (n_members, n, d_out)."""

    @abstractmethod
    def responses(self, mean: Floats, calibration: Calibration, n_targets: int | None) -> Floats:
        """Return numbers or probabilities, of shape (n, n_responses), from the mean of members."""

    @abstractmethod
    def response_names(self, n_targets: int | None) -> list[str]:
        """Return the names of the responses: classes, or targets and levels; one target has an empty name."""

    @abstractmethod
    def loss(self, mean: Floats, target: npt.NDArray[Any], calibration: Calibration, trained: Trained) -> float:
        """Return the loss of the mean of members: the log loss of classes, or the objective's metric."""

    @property
    def classes(self) -> Labels:
        """The classes of a task that has learned them."""
        assert self.labels is not None
        return self.labels

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for numbers, and before a target was learned."""
        return 0 if self.labels is None else self.labels.n_classes

    def weigh(self, target: npt.NDArray[Any], weights: Weights) -> Weights:
        """Return the weights of rows with a target as `read` returns it: their own times those of their classes."""
        if self.by_class is None:
            return weights
        by_class: Floats = self.by_class[target]
        return by_class if weights is None else by_class * weights

    def row_weights(self, target: npt.NDArray[Any], sample_weight: Any) -> Weights:
        """Return weights of rows of a table in memory, at most 1, or None if all are alike."""
        return row_weights(self.weigh(target, row_weights(sample_weight, len(target))), len(target))


@final
@dataclass(frozen=True, eq=False)
class Regression(Task):
    """Numbers, one or several for each row."""

    name = "regression"

    def learn(self, y: Any) -> tuple[Self, npt.NDArray[Any]]:
        return self, self.read(y)

    def read(self, y: Any) -> npt.NDArray[Any]:
        target = check_target(y)
        self.objective.check_target(target)
        return target

    def calibrate(self, held: HeldOut | None) -> Calibration:
        return Calibration(None if held is None else Residuals.from_rows(held, self.objective))

    def mean(self, outputs: Floats, weights: Floats) -> Floats:
        return doubled((weights[:, None, None] * (0.5 * outputs)).sum(axis=0))

    def responses(self, mean: Floats, calibration: Calibration, n_targets: int | None) -> Floats:
        del calibration
        return by_target(mean, n_targets)[..., : len(self.objective.labels)].reshape(len(mean), -1)

    def response_names(self, n_targets: int | None) -> list[str]:
        labels = self.objective.labels
        if n_targets is None:
            return list(labels)
        return [f"target {place + 1} {label}".strip() for place in range(n_targets) for label in labels]

    def loss(self, mean: Floats, target: npt.NDArray[Any], calibration: Calibration, trained: Trained) -> float:
        del calibration
        rows = ValidationRows.from_predictions(mean[None], target, trained=trained)
        return min(rows.score_of(np.ones(1)), float(np.finfo(np.float64).max))


@final
@dataclass(frozen=True, eq=False)
class Classification(Task):
    """Classes."""

    name = "classification"

    def learn(self, y: Any) -> tuple[Self, npt.NDArray[Any]]:
        labels, codes = Labels.from_values(y)
        return self.with_classes(labels, np.bincount(codes, minlength=labels.n_classes)), codes

    def with_classes(self, labels: Labels, counts: npt.NDArray[np.int64]) -> Self:
        """Return the task with its classes and their numbers of rows."""
        wanted = getattr(self.objective, "class_weight", None)
        wanted = dict(wanted) if isinstance(wanted, tuple) else wanted
        by_class = None if wanted is None else class_weights(wanted, labels.classes, counts)
        return replace(self, labels=labels, by_class=by_class)

    def read(self, y: Any) -> npt.NDArray[Any]:
        labels, codes = Labels.from_values(y)
        known = dict(zip(self.classes.values, range(self.n_classes), strict=True))
        unknown = [value for value in labels.values if value not in known]
        if unknown:
            raise argument_error("y_val", f"have classes of y, {listed(known)}", listed(unknown))
        return np.array([known[value] for value in labels.values])[codes]

    def calibrate(self, held: HeldOut | None) -> Calibration:
        is_wanted = getattr(self.objective, "calibrate", None) is not None
        if held is None:
            if is_wanted:
                hint = "Fit with at least 10 rows."
                raise argument_error("calibrate", "be None where no rows are held out", "temperature", hint)
            return Calibration()
        held = held._replace(predictions=held.predictions[:, : self.n_classes])
        learned = temperature(held) if is_wanted else 1.0
        return Calibration(temperature=learned, groups=tuple(reliability(held, learned)))

    def mean(self, outputs: Floats, weights: Floats) -> Floats:
        shares = softmax(outputs[..., : self.n_classes], axis=-1)
        mean: Floats = np.tensordot(weights, shares, axes=1)
        return mean

    def responses(self, mean: Floats, calibration: Calibration, n_targets: int | None) -> Floats:
        del n_targets
        return tempered(mean, calibration.temperature)

    def response_names(self, n_targets: int | None) -> list[str]:
        del n_targets
        return [str(label) for label in self.classes.classes.tolist()]

    def loss(self, mean: Floats, target: npt.NDArray[Any], calibration: Calibration, trained: Trained) -> float:
        del trained
        chosen = tempered(mean, calibration.temperature)[np.arange(len(target)), target]
        return float(-np.log(np.maximum(chosen, SMALLEST)).mean())


def make_task(objective: Any, task: str) -> Task:
    """Return the task of an objective as a user gives it."""
    made = make_objective(objective, task)
    return Regression(made) if task == Regression.name else Classification(made)


def by_target(mean: Floats, n_targets: int | None) -> Floats:
    """Return predictions of shape (n, n_outputs) or, of several targets, (n, n_targets, n_outputs)."""
    return mean if n_targets is None else mean.reshape(len(mean), n_targets, -1)


def doubled(halves: Floats) -> Floats:
    """Return twice the values, at most the largest float: sums are formed by halves, because they may overflow."""
    most = 0.5 * np.finfo(np.float64).max
    doubled: Floats = 2.0 * np.clip(halves, -most, most)
    return doubled
