"""Metrics of a stack of networks, one number for each member.

Every metric takes the outputs of M members on N rows each, the targets, and weights in which 0 marks padding: members
may have different numbers of rows. What stands in a padding row, NaN included, has no effect. Nothing waits for the
device, and no shape depends on the data, so that a metric can be part of a CUDA graph. Sums are taken in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from knotwork._checks import argument_error, check_choice, type_error
from knotwork.knots import TASKS

__all__ = ["METRICS", "Metric", "accuracy", "auc", "brier", "evaluate", "log_loss", "mae", "r2", "rmse"]

_ENTRIES = 2**22
"""Classification takes so many members at a time that they have about this many logits: this bounds the memory."""


def rmse(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the root of the mean squared error of each member, in the units of `outputs` and `targets`.

    A member without a row that counts has NaN, in this and every other metric. An output that is NaN or infinite
    shows as such.

    Parameters
    ----------
    outputs : Tensor of shape (M, N, 1)
        Predictions, of any floating type.
    targets : Tensor of shape (M, N)
        Targets on the same scale.
    weights : Tensor of shape (M, N), optional
        Weights of the rows, not negative; 0 marks padding. Without them every row counts once.

    Returns
    -------
    Tensor of shape (M,)
        In float64.

    Examples
    --------
    >>> rmse(torch.tensor([[[1.0], [5.0]]]), torch.tensor([[1.0, 1.0]]))
    tensor([2.8284], dtype=torch.float64)
    """
    predicted, actual, weights = _regression(outputs, targets, weights)
    error = (predicted - actual).abs()
    largest = (
        torch.where(weights > 0, error, 0.0).amax(dim=1, keepdim=True).clamp(min=1e-150, max=1e300)
    )  # so that no square overflows
    return _mean((error / largest).square(), weights).sqrt() * largest[:, 0]


def mae(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean absolute error of each member; parameters as in `rmse`."""
    predicted, actual, weights = _regression(outputs, targets, weights)
    return _mean((predicted - actual).abs(), weights)


def r2(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the share of the target's variance that each member explains; parameters as in `rmse`.

    As in scikit-learn, a constant target gives 1 if it is met exactly and 0 otherwise, and a single row gives NaN.

    Notes
    -----
    With the weighted mean ybar of the targets, R2 = 1 - sum w (y - f)^2 / sum w (y - ybar)^2. A target is constant if
    its least value is its largest. scikit-learn asks instead whether the denominator is 0, which the rounding of ybar
    can spoil.
    """
    predicted, actual, weights = _regression(outputs, targets, weights)
    counts = weights > 0
    error = _mean((predicted - actual).square(), weights)
    spread = _mean((actual - _mean(actual, weights)[:, None]).square(), weights)
    least = torch.where(counts, actual, torch.inf).amin(dim=1)
    largest = torch.where(counts, actual, -torch.inf).amax(dim=1)
    constant = torch.where(error.isnan(), torch.nan, (error == 0).to(error.dtype))
    explained = torch.where(least == largest, constant, 1.0 - error / spread)
    return torch.where(counts.sum(dim=1) < 2, torch.nan, explained)


def log_loss(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean cross-entropy of each member.

    It is finite for all finite logits: probabilities are never formed, and so need no clipping. A logit that is NaN or
    infinite, in a row that counts, makes this and every other metric of its member NaN.

    Parameters
    ----------
    outputs : Tensor of shape (M, N, n_classes)
        Logits, of any floating type; two for binary targets.
    targets : Tensor of shape (M, N)
        Codes of the classes, integers from 0 to n_classes - 1; any integer in a padding row.
    weights : Tensor of shape (M, N), optional
        Weights of the rows, not negative; 0 marks padding. Without them every row counts once.

    Returns
    -------
    Tensor of shape (M,)
        In float64.

    Examples
    --------
    >>> log_loss(torch.tensor([[[0.0, 0.0], [0.0, 1e4]]]), torch.tensor([[1, 0]]))
    tensor([5000.3466], dtype=torch.float64)
    """
    return _classification(_log_loss, outputs, targets, weights)


def accuracy(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the share of rows whose class has the largest logit; parameters as in `log_loss`.

    Of equal logits the first counts as the largest.
    """
    return _classification(_accuracy, outputs, targets, weights)


def brier(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the Brier score of each member; parameters as in `log_loss`.

    Notes
    -----
    With probabilities p and indicators e of the classes, it is the mean over rows of sum_k (p_k - e_k)^2 for three
    classes or more, between 0 and 2. For two classes it is the mean of (p_1 - e_1)^2, which is half of that sum,
    between 0 and 1. scikit-learn's ``brier_score_loss`` makes the same difference.
    """
    return _classification(_brier, outputs, targets, weights)


def auc(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the area under the ROC curve of each member; parameters as in `log_loss`.

    For two classes rows are ordered by the difference of their logits. For more, each class is set against the rest by
    its probability, and the areas are averaged by the classes' weights; classes that a member's rows lack are left out.
    With a single class present there is no area, and the member has NaN.

    Notes
    -----
    With the weights w of rows i of the class and rows j of the rest, and scores s,

        area = sum_ij w_i w_j ([s_j < s_i] + [s_j = s_i] / 2) / (sum_i w_i  sum_j w_j),

    so that equal scores are exact. Probabilities are float64, and so those of logits further apart than about 36 are
    equal to 1; the difference of two logits does not saturate.
    """
    return _classification(_auc, outputs, targets, weights)


@dataclass(frozen=True)
class Metric:
    """A metric of a stack.

    Parameters
    ----------
    name : str
        As in `METRICS`, and its column in records.
    function : callable
        Maps ``(outputs, targets, weights)`` to a Tensor of shape (M,).
    lower_is_better : bool
        Which way is better.
    task : {"regression", "classification"}
        What it is for.
    label : str
        What readers of reports see.
    fallback : str or None, default=None
        Name of the metric that takes its place as the validation score where it is undefined (NaN).
    relative : str or None, default=None
        Column of records for the metric divided by the spread of the target; without it there is none.
    """

    name: str
    function: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    lower_is_better: bool
    task: str
    label: str
    fallback: str | None = None
    relative: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in records."""
        return (self.name,) if self.relative is None else (self.relative, self.name)

    @property
    def direction(self) -> str:
        """Which scores are good, in words."""
        return "lower is better" if self.lower_is_better else "higher is better"


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("rmse", rmse, lower_is_better=True, task="regression", label="RMSE", relative="nrmse"),
        Metric("mae", mae, lower_is_better=True, task="regression", label="MAE"),
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
    """Return all metrics of a task, each of shape (M,), by name.

    Parameters
    ----------
    task : {"regression", "classification"}
        What the members predict.
    outputs, targets, weights
        As in `rmse` and `log_loss`.

    Examples
    --------
    >>> sorted(evaluate("regression", torch.zeros(1, 3, 1), torch.zeros(1, 3)))
    ['mae', 'r2', 'rmse']
    """
    check_choice(task, "task", TASKS)
    return {name: each.function(outputs, targets, weights) for name, each in METRICS.items() if each.task == task}


def _log_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the cross-entropy of prepared members."""
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, targets[..., None])
    return _mean(-chosen[..., 0], weights)


def _accuracy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the share of hits of prepared members; a comparison would hide NaN, so it is put back."""
    hits = (logits.argmax(dim=-1) == targets).to(logits.dtype)
    return _mean(torch.where(logits.isnan().any(dim=-1), torch.nan, hits), weights)


def _brier(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the Brier score of prepared members."""
    missed = torch.softmax(logits, dim=-1) - _indicators(targets, logits.shape[-1]).to(logits.dtype)
    squares = missed.square().sum(dim=-1)
    return _mean(squares / 2 if logits.shape[-1] == 2 else squares, weights)


def _auc(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the area under the ROC curve of prepared members."""
    if logits.shape[-1] == 2:
        scores = (logits[..., 1] - logits[..., 0])[:, None]
        positive = (targets == 1)[:, None]
    else:
        scores = torch.softmax(logits, dim=-1).transpose(1, 2).contiguous()
        positive = _indicators(targets, logits.shape[-1]).transpose(1, 2)
    zero = torch.zeros_like(scores)
    inside = torch.where(positive, weights[:, None], zero)
    outside = torch.where(positive, zero, weights[:, None])
    pairs = inside.sum(dim=-1) * outside.sum(dim=-1)
    share = torch.where(pairs > 0, inside.sum(dim=-1), 0.0)
    areas = torch.where(pairs > 0, _ordered_pairs(scores, inside, outside) / pairs, 0.0)
    result = (share * areas).sum(dim=-1) / share.sum(dim=-1)
    return torch.where(scores.isnan().flatten(1).any(dim=1), torch.nan, result)


def _ordered_pairs(scores: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    """Return the weight of the pairs whose inner score is the larger one, and half of the weight of equal pairs."""
    ordered, order = scores.sort(dim=-1)
    before = torch.nn.functional.pad(outside.gather(-1, order).cumsum(dim=-1), (1, 0))
    below = before.gather(-1, torch.searchsorted(ordered, ordered))
    up_to = before.gather(-1, torch.searchsorted(ordered, ordered, right=True))
    return (inside.gather(-1, order) * (below + up_to)).sum(dim=-1) / 2


def _indicators(targets: Tensor, n_classes: int) -> Tensor:
    """Return which class each row has, a boolean Tensor of shape (M, N, n_classes)."""
    return targets[..., None] == torch.arange(n_classes, device=targets.device)


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean over rows, whatever `values` has where the weight is 0."""
    return torch.where(weights > 0, values * weights, 0.0).sum(dim=1) / weights.sum(dim=1)


def _regression(outputs: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return predictions, targets and weights of shape (M, N), in the precision of the sums."""
    weights = _checked_weights(outputs, targets, weights)
    if outputs.shape[-1] != 1:
        raise argument_error("outputs", "have shape (M, N, 1) in regression", tuple(outputs.shape))
    wide = _precision(outputs)
    return outputs.detach()[..., 0].to(wide), targets.to(wide), weights.to(wide)


def _classification(
    metric: Callable[[Tensor, Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor, weights: Tensor | None
) -> Tensor:
    """Return a metric of all members, computed for as many at a time as memory should hold."""
    weights = _checked_weights(outputs, targets, weights)
    if outputs.shape[-1] < 2:
        raise argument_error("outputs", "have a logit for each of two classes or more", tuple(outputs.shape))
    if targets.is_floating_point() or targets.dtype == torch.bool:
        raise type_error("targets", "hold integer class codes", targets.dtype, "Convert them by targets.long().")
    step = max(1, _ENTRIES // (outputs.shape[1] * outputs.shape[2]))
    parts = []
    for first in range(0, len(outputs), step):
        some = slice(first, first + step)
        own = weights[some].to(_precision(outputs))
        counts = own > 0
        logits = torch.where(counts[..., None], outputs.detach()[some].to(own.dtype), 0.0)
        logits = torch.where(logits.isfinite(), logits, torch.nan)
        parts.append(metric(logits, torch.where(counts, targets[some].long(), 0), own))
    return torch.cat(parts)


def _checked_weights(outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """Check that the shapes agree, and return the weights."""
    if outputs.ndim != 3 or outputs.numel() == 0:
        raise argument_error("outputs", "have shape (M, N, d_out), none of them 0", tuple(outputs.shape))
    if targets.shape != outputs.shape[:2]:
        raise argument_error("targets", f"have shape {tuple(outputs.shape[:2])}, as outputs do", tuple(targets.shape))
    if weights is None:
        return torch.ones_like(targets, dtype=_precision(outputs))
    if weights.shape != outputs.shape[:2]:
        raise argument_error("weights", f"have shape {tuple(outputs.shape[:2])}, as outputs do", tuple(weights.shape))
    return weights


def _precision(outputs: Tensor) -> torch.dtype:
    """Return float64, or float32 on Apple's GPUs, which have nothing wider."""
    return torch.float32 if outputs.device.type == "mps" else torch.float64
