"""A fitted model: columns, networks and their weights, as one frozen value."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.members import add_indicators
from knotwork.estimators._combination import shuffled_losses
from knotwork.estimators._plans import Warm
from knotwork.estimators._tasks import Calibration, Task, by_target, doubled
from knotwork.nn import Backbone
from knotwork.training import Trained, TrainingConfig

__all__ = ["FittedModel", "Held"]

Floats = npt.NDArray[np.float64]


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
        Those of them that were not trained on the rows.
    weights : ndarray of shape (n_members,)
        Weights of these, of sum one.
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
        Their weights, of sum one.
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
    def backbones(self) -> list[Backbone]:
        """Configuration of each member's network behind the encoding."""
        by_place = {place: piece.backbone for piece in self.trained.pieces for place in piece.places}
        return [by_place[place] for place in range(len(by_place))]

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
        out: list[Any] = [None] * len(self.trained.histories)
        for piece in self.trained.pieces:
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
        for piece in self.trained.pieces:
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
