"""A fitted model as one frozen value: its task (how a target is read and outputs become predictions), and networks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from knotwork._checks import argument_error, listed
from knotwork._light import SMALLEST_PROBABILITY, Residuals
from knotwork._model_page import FitRecord
from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.members import add_indicators
from knotwork._preparation.targets import Labels, check_target, class_weights, row_weights
from knotwork.estimators._combination import (
    HeldOut,
    ValidationRows,
    reliability,
    shuffled_losses,
    temperature,
    tempered,
)
from knotwork.estimators._plans import Warm
from knotwork.nn import Backbone
from knotwork.training import Objective, Trained, TrainingConfig, make_objective

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
    offsets : tuple of float
        Logarithms of the weights that classes had in training, which are subtracted before; empty without weights.
    groups : list of dict
        Of a classification: `TabularClassifier.calibration_`.
    """

    residuals: Residuals | None = None
    temperature: float = 1.0
    offsets: tuple[float, ...] = ()
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
        weights = getattr(self.objective, "class_weight", None)
        weights = dict(weights) if isinstance(weights, tuple) else weights
        by_class = None if weights is None else class_weights(weights, labels.classes, counts)
        return replace(self, labels=labels, by_class=by_class)

    def read(self, y: Any) -> npt.NDArray[Any]:
        labels, codes = Labels.from_values(y)
        places = dict(zip(self.classes.values, range(self.n_classes), strict=True))
        unknown = [value for value in labels.values if value not in places]
        if unknown:
            raise argument_error("y_val", f"have classes of y, {listed(places)}", listed(unknown))
        return np.array([places[value] for value in labels.values])[codes]

    def calibrate(self, held: HeldOut | None) -> Calibration:
        is_calibrated = getattr(self.objective, "calibrate", None) is not None
        if held is None:
            if is_calibrated:
                hint = "Fit with at least 10 rows."
                raise argument_error("calibrate", "be None where no rows are held out", "temperature", hint)
            return Calibration()
        held = held._replace(predictions=held.predictions[:, : self.n_classes])
        offsets: tuple[float, ...] = ()
        if self.by_class is not None:  # how often probabilities are right is a matter of rows, not of weights
            ones = np.ones(len(held.target)) if held.weights is None else held.weights
            held = held._replace(weights=ones / self.by_class[held.target])
            offsets = tuple(np.log(np.where(self.by_class > 0.0, self.by_class, 1.0)).tolist()) if is_calibrated else ()
        learned = temperature(held, offsets) if is_calibrated else 1.0
        calibrated = held._replace(predictions=tempered(held.predictions, learned, offsets))
        return Calibration(temperature=learned, offsets=offsets, groups=tuple(reliability(calibrated)))

    def mean(self, outputs: Floats, weights: Floats) -> Floats:
        shares = softmax(outputs[..., : self.n_classes], axis=-1)
        mean: Floats = np.tensordot(weights, shares, axes=1)
        return mean

    def responses(self, mean: Floats, calibration: Calibration, n_targets: int | None) -> Floats:
        del n_targets
        return tempered(mean, calibration.temperature, calibration.offsets)

    def response_names(self, n_targets: int | None) -> list[str]:
        del n_targets
        return [str(label) for label in self.classes.classes.tolist()]

    def loss(self, mean: Floats, target: npt.NDArray[Any], calibration: Calibration, trained: Trained) -> float:
        del trained
        probabilities = tempered(mean, calibration.temperature, calibration.offsets)
        chosen = probabilities[np.arange(len(target)), target]
        return float(-np.log(np.maximum(chosen, SMALLEST_PROBABILITY)).mean())


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


@dataclass(frozen=True, eq=False)
class Held:
    """Validation rows, and networks that were not trained on them.

    Parameters
    ----------
    table : CodedTable
        The rows.
    target : ndarray of shape (n,)
        Their target.
    trained : Trained
        Networks.
    members : list of int
        The places of the networks that were not trained on the rows.
    weights : ndarray of shape (n_members,)
        Their weights, which sum to one.
    """

    table: CodedTable
    target: npt.NDArray[Any]
    trained: Trained
    members: list[int]
    weights: Floats


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a fit learns, and all that predictions need.

    Parameters
    ----------
    task : Task
        What is predicted, with its classes.
    columns : Columns
        What was learned of each column.
    indicated : tuple of int
        Numerical columns whose missing values are marked.
    trained : Trained
        The networks that predict.
    weights : ndarray of shape (n_members,)
        Their weights, which sum to one.
    encodings : list of dict
        For each of them, the encoding of each numerical column.
    config : TrainingConfig
        Names the metric.
    calibration : Calibration
        What was learned from rows that were held out.
    candidates : list of dict
        Each kind of network that was tried.
    choices : list of dict
        Why each column has its encoding, where training rows decided it.
    score : float
        The metric of the predictions on the validation rows.
    target_name : str or None
        Name of the target.
    held : Held or None
        Validation rows; None if the model was loaded.
    warm : Warm or None
        What a later fit needs to resume from these networks.
    known_importances : ndarray of shape (n_columns,) or None
        Importances that a file had.
    record : FitRecord or None
        What the page of the model needs of the fit; None if the model was loaded.
    """

    task: Task
    columns: Columns
    indicated: tuple[int, ...]
    trained: Trained
    weights: Floats
    encodings: list[dict[Any, str]]
    config: TrainingConfig
    calibration: Calibration
    candidates: list[dict[str, Any]]
    choices: list[dict[str, Any]]
    score: float
    target_name: str | None
    held: Held | None = None
    warm: Warm | None = None
    known_importances: Floats | None = None
    record: FitRecord | None = None

    def outputs(self, table: CodedTable, trained: Trained | None = None) -> Floats:
        """Return the outputs of every member, of shape (n_members, n, d_out); by default of those that predict."""
        codes = add_indicators(table.numbers, table.codes, self.indicated)
        return np.stack((trained or self.trained).outputs(table.numbers, codes))

    def mean(self, table: CodedTable) -> Floats:
        """Return the weighted mean of the members, of shape (n, d_out) or, of several targets, (n, n_targets, k)."""
        return by_target(self.task.mean(self.outputs(table), self.weights), self.n_targets)

    def responses(self, table: CodedTable) -> Floats:
        """Return predictions or probabilities, of shape (n, n_responses)."""
        mean = self.task.mean(self.outputs(table), self.weights)
        return self.task.responses(mean, self.calibration, self.n_targets)

    def central(self, mean: Floats) -> Floats:
        """Return probabilities, or one prediction of each target (of several levels the middle one), (n, n_outputs)."""
        if self.task.name == "classification":
            return self.task.responses(mean, self.calibration, None)
        objective = self.task.objective
        values: Floats = objective.central(objective.result(by_target(mean, self.n_targets)))
        return values.reshape(len(mean), -1)

    @property
    def response_names(self) -> list[str]:
        """Names of the responses: classes, or targets and levels."""
        return self.task.response_names(self.n_targets)

    @property
    def n_targets(self) -> int | None:
        """Number of targets, or None for a target of shape (n,)."""
        shift = self.trained.pieces[0].shift
        return None if shift.dim() == 1 else shift.shape[1]

    @property
    def backbones(self) -> list[Backbone | None]:
        """Configuration of each member's network after the encoding; None for boosted trees."""
        by_place = {place: piece.backbone for piece in self.trained.networks for place in piece.places}
        return [by_place.get(place) for place in range(len(self.weights))]

    @property
    def history(self) -> list[dict[str, Any]]:
        """How each member was trained."""
        metric = self.config.metric_for(self.trained.objective)
        return [
            {
                "loss": history.loss,
                "score": metric.in_units(history.score, spread),
                "learning_rate": history.learning_rate,
                "metric": metric.name,
                "best_epoch": history.best_epoch,
                "seconds": history.seconds,
            }
            for history, spread in zip(self.trained.histories, self.trained.spreads, strict=True)
        ]

    @property
    def knots(self) -> list[dict[Any, Floats]]:
        """Interior knots of each numerical column for each member after training, in the units of the table."""
        names = self.columns.numerical_names
        units = self.trained.units
        out: list[Any] = [{} for _ in self.trained.histories]
        for piece in self.trained.networks:
            knots = piece.network.encoding.interior_knots().double().cpu().numpy()
            for place, member in zip(piece.places, knots, strict=True):
                out[place] = {
                    name: doubled(0.5 * origin + 0.5 * unit * column[~np.isnan(column)])
                    for name, column, (origin, unit) in zip(names, member, units.T, strict=True)
                }
        return out

    @property
    def interactions(self) -> list[list[tuple[Any, Any]]]:
        """Pairs of numerical columns whose interactions each member has; empty lists without interactions."""
        names = self.columns.numerical_names
        out: list[list[tuple[Any, Any]]] = [[] for _ in self.trained.histories]
        for piece in self.trained.networks:
            embedding = piece.network.pair_embedding
            for place, pairs in zip(piece.places, embedding.pairs if embedding is not None else (), strict=False):
                out[place] = [(names[first], names[second]) for first, second in pairs]
        return out

    def can_tell_importances(self, most: int) -> bool:
        """Return whether importances are known, or can be computed for at most this many columns."""
        is_known = self.known_importances is not None or "importances" in vars(self)
        return is_known or (self.held is not None and len(self.columns) <= most)

    @cached_property
    def importances(self) -> Floats:
        """Increase of the loss when a column of the validation rows is shuffled."""
        held = self.held
        if self.known_importances is not None:
            return self.known_importances
        if held is None:
            raise AttributeError(
                "feature_importances_ are not available: the estimator was loaded without them. For more than 500 "
                "columns, access feature_importances_ before the estimator is saved."
            )

        def loss(table: CodedTable) -> float:
            mean = self.task.mean(self.outputs(table, held.trained)[held.members], held.weights)
            return self.task.loss(mean, held.target, self.calibration, held.trained)

        return shuffled_losses(held.table, self.columns, loss)
