"""Metrics of a stack of networks, one number for each member.

Every metric takes the outputs of M members on N rows each, the targets, and weights in which 0 marks padding: members
may have different numbers of rows. Values in padding rows, NaN included, have no effect. Nothing waits for the device,
and no shape depends on the data, so that a metric can be part of a CUDA graph. Sums are taken in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error, check_choice, type_error
from knotwork._kernels.fixed_order import row_sums
from knotwork.knots import TASKS

LOGITS_AT_ONCE = 2**22
"""Classification takes as many members at a time as have about this many logits: this bounds the memory."""

FloatArray = npt.NDArray[np.float64]
Formula = Callable[[Tensor, Tensor, Tensor], Tensor]


class MetricFunction(Protocol):
    """A metric of M members on N rows each."""

    def __call__(self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the scores, float64 of shape (M,); NaN for a member without rows.

        Parameters
        ----------
        outputs : Tensor of shape (M, N, 1) or (M, N, n_classes)
            Predictions, or logits (two for binary targets), of any floating type.
        targets : Tensor of shape (M, N)
            Numbers on the scale of the predictions, or integer codes of the classes from 0; any value in padding.
        weights : Tensor of shape (M, N), optional
            Weights of the rows, not negative; 0 marks padding. Without them every row counts once.
        """


def _regression(formula: Formula) -> MetricFunction:
    """Return a metric from its formula for predictions, targets and weights of shape (M, N) in float64."""

    @wraps(formula)
    def metric(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        weights = _checked_weights(outputs, targets, weights)
        if outputs.shape[-1] != 1:
            raise argument_error("outputs", "have shape (M, N, 1) in regression", tuple(outputs.shape))
        wide = _precision(outputs)
        return formula(outputs.detach()[..., 0].to(wide), targets.to(wide), weights.to(wide))

    return metric


def _classification(formula: Formula) -> MetricFunction:
    """Return a metric from its formula for logits, targets and weights of some members, without values in padding."""

    @wraps(formula)
    def metric(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        weights = _checked_weights(outputs, targets, weights)
        if outputs.shape[-1] < 2:
            raise argument_error("outputs", "have a logit for each of two classes or more", tuple(outputs.shape))
        if targets.is_floating_point() or targets.dtype == torch.bool:
            raise type_error("targets", "hold integer class codes", targets.dtype, "Convert them by targets.long().")
        step = max(1, LOGITS_AT_ONCE // (outputs.shape[1] * outputs.shape[2]))
        parts = []
        for first in range(0, len(outputs), step):
            members = slice(first, first + step)
            wide = weights[members].to(_precision(outputs))
            counts = wide > 0
            logits = torch.where(counts[..., None], outputs.detach()[members].to(wide.dtype), 0.0)
            logits = torch.where(logits.isfinite(), logits, torch.nan)
            parts.append(formula(logits, torch.where(counts, targets[members].long(), 0), wide))
        return torch.cat(parts)

    return metric


def row_metric(scores: Callable[[Tensor, Tensor], Tensor]) -> MetricFunction:
    """Return the weighted mean of a score of each row, which maps outputs and targets in float64, or class codes."""

    def metric(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        weights = _checked_weights(outputs, targets, weights)
        wide = _precision(outputs)
        values = targets.to(wide) if targets.is_floating_point() else targets
        return _mean(scores(outputs.detach().to(wide), values).to(wide), weights.to(wide))

    return metric


def _checked_weights(outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """Check that the shapes agree, and return the weights."""
    if outputs.ndim != 3 or outputs.numel() == 0:
        raise argument_error("outputs", "have shape (M, N, d_out), none of them 0", tuple(outputs.shape))
    if weights is None:
        weights = torch.ones(outputs.shape[:2], dtype=_precision(outputs), device=outputs.device)
    for name, tensor in (("targets", targets), ("weights", weights)):
        if tensor.shape != outputs.shape[:2]:
            raise argument_error(name, f"have shape {tuple(outputs.shape[:2])}, as outputs do", tuple(tensor.shape))
    return weights


def _precision(outputs: Tensor) -> torch.dtype:
    """Return float64, or float32 on Apple's GPUs, which have nothing wider."""
    return torch.float32 if outputs.device.type == "mps" else torch.float64


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean over rows; values of weight 0 are ignored, NaN included."""
    return row_sums(torch.where(weights > 0, values * weights, 0.0)) / row_sums(weights)


@_regression
def rmse(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the root of the mean squared error of each member, in the units of `outputs` and `targets`.

    Outputs that are NaN or infinite are not hidden.

    Examples
    --------
    >>> rmse(torch.tensor([[[1.0], [5.0]]]), torch.tensor([[1.0, 1.0]]))
    tensor([2.8284], dtype=torch.float64)
    """
    error = (outputs - targets).abs()
    largest = torch.where(weights > 0, error, 0.0).amax(dim=1, keepdim=True)
    largest = largest.clamp(min=1e-150, max=1e300)  # errors are divided by it, so that no square overflows
    return _mean((error / largest).square(), weights).sqrt() * largest[:, 0]


@_regression
def mae(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the mean absolute error of each member."""
    return _mean((outputs - targets).abs(), weights)


@_regression
def r2(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the share of the target's variance that each member explains.

    As in scikit-learn, a constant target gives 1 if it is met exactly and 0 otherwise, and a single row gives NaN.

    Notes
    -----
    With the weighted mean ybar of the targets, R2 = 1 - sum w (y - f)^2 / sum w (y - ybar)^2. A target is constant if
    its smallest value is its largest. scikit-learn compares the denominator with 0 instead, and the rounding of ybar
    can make that fail.
    """
    counts = weights > 0
    error = _mean((outputs - targets).square(), weights)
    spread = _mean((targets - _mean(targets, weights)[:, None]).square(), weights)
    smallest = torch.where(counts, targets, torch.inf).amin(dim=1)
    largest = torch.where(counts, targets, -torch.inf).amax(dim=1)
    constant = torch.where(error.isnan(), torch.nan, (error == 0).to(error.dtype))
    explained = torch.where(smallest == largest, constant, 1.0 - error / spread)
    return torch.where(counts.sum(dim=1) < 2, torch.nan, explained)


@_classification
def log_loss(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the mean cross-entropy of each member.

    It is finite for all finite logits: probabilities are never formed, and so need no clipping. A logit that is NaN or
    infinite, in a row of positive weight, makes this and every other metric of its member NaN.

    Examples
    --------
    >>> log_loss(torch.tensor([[[0.0, 0.0], [0.0, 1e4]]]), torch.tensor([[1, 0]]))
    tensor([5000.3466], dtype=torch.float64)
    """
    chosen = torch.log_softmax(outputs, dim=-1).gather(-1, targets[..., None])
    return _mean(-chosen[..., 0], weights)


@_classification
def accuracy(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the share of rows whose class has the largest logit, the first of equal ones."""
    hits = (outputs.argmax(dim=-1) == targets).to(outputs.dtype)
    return _mean(torch.where(outputs.isnan().any(dim=-1), torch.nan, hits), weights)  # a comparison hides NaN


@_classification
def brier(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the Brier score of each member.

    Notes
    -----
    With probabilities p and indicators e of the classes, it is the mean over rows of sum_k (p_k - e_k)^2 for three
    classes or more, between 0 and 2. For two classes it is the mean of (p_1 - e_1)^2, which is half of that sum,
    between 0 and 1. scikit-learn's ``brier_score_loss`` makes the same difference.
    """
    missed = torch.softmax(outputs, dim=-1) - _indicators(targets, outputs.shape[-1]).to(outputs.dtype)
    squares = missed.square().sum(dim=-1)
    return _mean(squares / 2 if outputs.shape[-1] == 2 else squares, weights)


@_classification
def auc(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the area under the ROC curve of each member.

    For two classes rows are ordered by the difference of their logits. For more, each class is compared with the rest
    by its probability, and the areas are averaged by the classes' weights; classes without rows are ignored. A member
    with a single class has NaN.

    Notes
    -----
    With the weights w of rows i of the class and rows j of the rest, and scores s,

        area = sum_ij w_i w_j ([s_j < s_i] + [s_j = s_i] / 2) / (sum_i w_i  sum_j w_j),

    so that equal scores are exact. Probabilities are float64, and so those of logits further apart than about 36 are
    equal to 1; the difference of two logits does not saturate.
    """
    if outputs.shape[-1] == 2:
        scores = (outputs[..., 1] - outputs[..., 0])[:, None]
        positive = (targets == 1)[:, None]
    else:
        scores = torch.softmax(outputs, dim=-1).transpose(1, 2).contiguous()
        positive = _indicators(targets, outputs.shape[-1]).transpose(1, 2)
    zero = torch.zeros_like(scores)
    inside = torch.where(positive, weights[:, None], zero)
    outside = torch.where(positive, zero, weights[:, None])
    pairs = inside.sum(dim=-1) * outside.sum(dim=-1)
    share = torch.where(pairs > 0, inside.sum(dim=-1), 0.0)
    areas = torch.where(pairs > 0, _ordered_pairs(scores, inside, outside) / pairs, 0.0)
    result = row_sums(share * areas) / row_sums(share)
    return torch.where(scores.isnan().flatten(1).any(dim=1), torch.nan, result)


def _ordered_pairs(scores: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    """Return the weight of the pairs whose inner score is the larger one, and half of the weight of equal pairs."""
    ordered, order = scores.sort(dim=-1)
    before = torch.nn.functional.pad(outside.gather(-1, order).cumsum(dim=-1), (1, 0))
    below = before.gather(-1, torch.searchsorted(ordered, ordered))
    up_to = before.gather(-1, torch.searchsorted(ordered, ordered, right=True))
    return (inside.gather(-1, order) * (below + up_to)).sum(dim=-1) / 2


def _indicators(targets: Tensor, n_classes: int) -> Tensor:
    """Return the class of each row as booleans of shape (M, N, n_classes)."""
    return targets[..., None] == torch.arange(n_classes, device=targets.device)


@dataclass(frozen=True)
class Metric:
    """A metric of a stack.

    Parameters
    ----------
    name : str
        Its name in `METRICS`, and its column in records.
    function : callable
        Maps ``(outputs, targets, weights)`` to a Tensor of shape (M,).
    lower_is_better : bool
        Whether a lower score is better.
    task : {"regression", "classification"}
        The task that it scores.
    label : str
        Its name in reports.
    fallback : str or None, default=None
        Name of the metric that replaces it as the validation score of members for which it is undefined (NaN).
    relative : str or None, default=None
        Column of records for the metric divided by the spread of the target; without it there is none.
    degree : float, default=0
        Power of the target's units that a score has: 1 for an error in these units, 0 for a number without units.
    is_logarithmic : bool, default=False
        Whether the score of a target in other units differs by the logarithm of their ratio, as a log-likelihood does.
    """

    name: str
    function: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    lower_is_better: bool
    task: str
    label: str
    fallback: str | None = None
    relative: str | None = None
    degree: float = 0
    is_logarithmic: bool = False

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)

    def in_units(self, scores: FloatArray, scale: float | FloatArray) -> FloatArray:
        """Return validation scores as a user reads them: in the metric's direction and in the units of the target.

        Parameters
        ----------
        scores : ndarray
            Scores of targets divided by their spread, where smaller is better: negated if larger is better.
        scale : float or ndarray
            The spread.
        """
        sign = 1.0 if self.lower_is_better else -1.0
        with np.errstate(over="ignore"):  # spreads near the largest number
            shown: FloatArray = sign * scores * np.power(scale, self.degree)
        return shown + np.log(scale) if self.is_logarithmic else shown

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in records."""
        return (self.name,) if self.relative is None else (self.relative, self.name)

    @property
    def direction(self) -> str:
        """``"lower is better"`` or ``"higher is better"``."""
        return "lower is better" if self.lower_is_better else "higher is better"


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("rmse", rmse, lower_is_better=True, task="regression", label="RMSE", relative="nrmse", degree=1),
        Metric("mae", mae, lower_is_better=True, task="regression", label="MAE", degree=1),
        Metric("r2", r2, lower_is_better=False, task="regression", label="R²"),
        Metric("auc", auc, lower_is_better=False, task="classification", label="AUC", fallback="log_loss"),
        Metric("log_loss", log_loss, lower_is_better=True, task="classification", label="log loss"),
        Metric("accuracy", accuracy, lower_is_better=False, task="classification", label="accuracy"),
        Metric("brier", brier, lower_is_better=True, task="classification", label="Brier score"),
    )
}
"""The metrics by name, in the order of the columns of records. One that is added is computed, recorded and can be the
validation score."""


def evaluate(task: str, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> dict[str, Tensor]:
    """Return all metrics of a task, each of shape (M,), by name; the other parameters as in `MetricFunction`.

    Examples
    --------
    >>> sorted(evaluate("regression", torch.zeros(1, 3, 1), torch.zeros(1, 3)))
    ['mae', 'r2', 'rmse']
    """
    check_choice(task, "task", TASKS)
    metrics = {name: metric for name, metric in METRICS.items() if metric.task == task}
    return {name: metric.function(outputs, targets, weights) for name, metric in metrics.items()}
