"""What an objective is, and the units in which losses and predictions are formed.

In these units, whose origin and size `Objective.units` returns, the target is of the order of one. Everything here is
made of torch operations that do not wait for the device, because it is part of CUDA graphs.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork.nn import OnnxGraph
from knotwork.training._metrics import METRICS, Metric, row_metric

__all__ = ["Objective", "Units", "all_predictions", "by_target", "output_units", "score_units", "target_units"]

MEAN_DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal variable divided by its mean absolute deviation."""

Array = npt.NDArray[np.float64]
Units = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Objective(ABC):
    """What networks are trained for: a frozen dataclass whose fields are its settings.

    A subclass that is added to `OBJECTIVES` can be named in estimators, and models with it can be saved and loaded. It
    must define `row_scores`; the loss is that of the predictions, unless `losses` says otherwise.

    Attributes
    ----------
    name : str
        Name in `OBJECTIVES` and in saved models.
    metric_name : str
        Name of the validation metric: one of `METRICS`, or the mean of `row_scores`.
    is_positive : bool
        Whether targets must not be negative and predictions are positive, as those of counts are.
    predicts_std : bool
        Whether a target has two outputs, its mean and its standard deviation, which ``predict(X, return_std=True)``
        returns.
    is_robust : bool
        Whether the units of the target are median and mean absolute deviation, to which outliers matter less.
    has_density : bool
        Whether scores are negative logarithms of a density, which depends on the units of the target.
    has_log_outputs : bool
        Whether outputs are logarithms, as those of classes are: the large steps that suit numbers would be factors.
    task : str
        The task, ``"regression"`` or ``"classification"``.
    in_target_units : bool
        Whether losses and metric are formed in the target's own units.
    degree : float
        Power of the target's units that `row_scores` have.
    n_outputs : int
        Outputs of a network for each target; of classes their number counts instead.
    has_levels : bool
        Whether `predict` returns several numbers for a target, on a last axis.
    labels : tuple of str
        Names of the numbers that `predict` returns for a target; a single one needs no name.
    """

    name: ClassVar[str]
    metric_name: ClassVar[str]
    is_positive: ClassVar[bool] = False
    predicts_std: ClassVar[bool] = False
    is_robust: ClassVar[bool] = False
    has_density: ClassVar[bool] = False
    has_log_outputs: ClassVar[bool] = False
    task: ClassVar[str] = "regression"
    in_target_units: ClassVar[bool] = False
    degree: ClassVar[float] = 0.0
    n_outputs: ClassVar[int] = 1
    has_levels: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ("",)

    @property
    def trained_as(self) -> str:
        """The task whose settings of training suit it, see `Backbone.training`."""
        return "classification" if self.has_log_outputs else self.task

    @property
    def located(self) -> tuple[float, ...]:
        """For each output 1.0 if its prediction is a place on the target's axis, 0.0 if it is a distance."""
        return (1.0,) * self.n_outputs

    @property
    def metric(self) -> Metric:
        """The metric of validation scores."""
        if self.metric_name in METRICS:
            return METRICS[self.metric_name]
        name, function = self.metric_name, row_metric(self.row_scores)
        units: dict[str, Any] = {"degree": self.degree, "is_logarithmic": self.has_density}
        return Metric(name, function, lower_is_better=True, task=self.task, label=name, **units)

    @abstractmethod
    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the score of each row, of shape (...), smaller is better.

        Parameters
        ----------
        predictions : Tensor of shape (..., n_outputs)
            What `predictions` returns.
        target : Tensor of shape (...)
            The target in the same units, or class codes.
        """

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return the loss of each row, of shape (...), from outputs of a network, of shape (..., n_outputs).

        `label_smoothing` is that of `TrainingConfig`, for classes.
        """
        del label_smoothing
        return self.row_scores(self.predictions(outputs), target)

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return what outputs of a network predict, of the same shape, (..., n_outputs)."""
        return outputs

    def to_onnx(self, graph: OnnxGraph, outputs: str, n_targets: int) -> str:
        """Add `predictions` to a graph: of float64 outputs of shape (n, n_targets * n_outputs), of the same shape."""
        del graph, n_targets
        return outputs

    def result(self, predictions: Array) -> Array:
        """Return what `predict` returns, from averaged predictions of shape (..., n_outputs)."""
        values: Array = predictions[..., 0]
        return values

    def central(self, result: Array) -> Array:
        """Return the predictions that R² scores, of the shape of the target, from what `predict` returns."""
        return result

    def units(self, target: Tensor, known: Tensor) -> Units:
        """Return origin and size, of shape (n_members,), of the units of the target.

        Parameters
        ----------
        target : Tensor of shape (n_members, n)
            The target of each member's training rows, float64; at most 1 in size.
        known : Tensor of shape (n_members, n)
            Which rows are not padding.
        """
        return (_median_and_deviation if self.is_robust else _mean_and_deviation)(target, known)

    def check_target(self, target: Array) -> None:
        """Raise an error if a target is not in the domain of the objective."""
        del target

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return the centre and the width of prediction intervals, for predictions of shape (..., n_outputs).

        Residuals divided by the width should be alike for all rows; without a better choice it is 1.
        """
        centre = predictions[..., 0]
        return centre, np.ones_like(centre)


def output_units(objective: Objective, units: Units) -> Units:
    """Return origin and size of each prediction, of shape (n_members, n_predictions), from those of the targets."""
    shift, scale = (values.view(len(values), -1, 1) for values in units)
    located = torch.tensor(objective.located, dtype=shift.dtype, device=shift.device)
    shift = (shift * located).flatten(1)
    return shift, scale.expand(-1, -1, len(located)).flatten(1)


def score_units(objective: Objective, scale: Tensor) -> Array:
    """Return the unit of each member's validation scores, of shape (n_members,).

    It is the size of the target's unit; 1 if scores are in the target's own units, or of several targets.
    """
    if objective.in_target_units or scale.dim() > 1:
        return np.ones(len(scale))
    sizes: Array = scale.double().cpu().numpy()
    return sizes


def all_predictions(objective: Objective, outputs: Tensor, n_targets: int) -> Tensor:
    """Return the predictions of outputs of shape (..., n_targets * n_outputs), of the same shape, target by target."""
    return objective.predictions(by_target(outputs, n_targets)).flatten(-2)


def by_target(outputs: Tensor, n_targets: int) -> Tensor:
    """Return outputs of shape (..., n_targets * n_outputs) as (..., n_targets, n_outputs)."""
    return outputs.reshape(*outputs.shape[:-1], n_targets, -1)


def target_units(objective: Objective, target: Tensor, counts: Tensor) -> Units:
    """Return origin and size of the units of each member's target, of shape (n_members,) or (n_members, n_targets).

    Parameters
    ----------
    objective : Objective
        Says what the units are; those of classes are 0 and 1.
    target : Tensor of shape (n_members, n) or (n_members, n, n_targets)
        The target of each member's training rows.
    counts : Tensor of shape (n_members,)
        How many of the rows are not padding.
    """
    if objective.task == "classification":
        return torch.zeros(len(target), device=target.device), torch.ones(len(target), device=target.device)
    if target.dim() == 3:
        n_targets = target.shape[2]
        flat = target.transpose(1, 2).flatten(0, 1)
        shift, scale = target_units(objective, flat, counts.repeat_interleave(n_targets))
        return shift.view(-1, n_targets), scale.view(-1, n_targets)
    known = torch.arange(target.shape[1], device=target.device) < counts[:, None]
    largest = torch.where(known, target.abs(), 0.0).amax(dim=1).clamp(min=1e-300)
    target = torch.where(known, target / largest[:, None], 0.0)  # so that no square overflows
    shift, scale = objective.units(target, known)
    # A spread of rounding errors is a constant target: with a unit as small as that, every network predicts it.
    return shift * largest, torch.where(scale > 1e-15, scale * largest, (1e-15 * largest).clamp(min=1e-300))


def _mean_and_deviation(target: Tensor, known: Tensor) -> Units:
    counts = known.sum(dim=1)
    mean = target.sum(dim=1) / counts
    return mean, (torch.where(known, target - mean[:, None], 0.0).square().sum(dim=1) / counts).sqrt()


def _median_and_deviation(target: Tensor, known: Tensor) -> Units:
    """Return the median and the mean absolute deviation from it, as that of a normal variable: outliers matter less."""
    median = torch.where(known, target, math.nan).nanmedian(dim=1).values
    distance = torch.where(known, (target - median[:, None]).abs(), 0.0)
    return median, MEAN_DEVIATION * distance.sum(dim=1) / known.sum(dim=1)
