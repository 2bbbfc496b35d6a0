"""What all members of a stack share, and the losses and scores of their predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar, final

import torch
from torch import Tensor

from knotwork._kernels.fixed_order import fixed_order
from knotwork.nn import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._members import DeviceTable, TrainingTable
from knotwork.training._metrics import METRICS, Metric
from knotwork.training._network import Network, predict_stack
from knotwork.training._objective import Objective, all_predictions, by_target, target_units

__all__ = ["StackJob", "Units", "mean_score", "taken", "validation_scores"]


T = TypeVar("T", bound=tuple[Tensor, ...])


def taken(values: T, index: Tensor) -> T:
    """Return a named tuple of tensors for the members of an index."""
    return type(values)(*(each[index] for each in values))


class Units(NamedTuple):
    """Units of each member: of targets, weights and losses.

    Targets of a regression are trained as ``(target - shift) / scale``, both float64 of shape (n_members,) or
    (n_members, n_targets). Weights times `weight` have a mean of 1 over the member's training rows. Losses in the
    target's own units are divided by `loss`, the mean loss of a constant prediction: steps and penalties then do not
    depend on these units. Other losses are of the order of one.
    """

    shift: Tensor
    scale: Tensor
    weight: Tensor
    loss: Tensor


@final
@dataclass(frozen=True, eq=False)
class StackJob:
    """The table, its copy `data` on the device, the backbone and the configuration that members of a stack share."""

    table: TrainingTable
    data: DeviceTable
    backbone: Backbone
    config: TrainingConfig

    @cached_property
    def device(self) -> torch.device:
        """The device."""
        return self.data.numbers.device

    @cached_property
    def batch_size(self) -> int:
        """Rows of a step."""
        return self.config.batch_size_for(self.table.n_rows)

    @property
    def members_alone(self) -> bool:
        """Whether each member is a stack of its own: libraries for a CPU round by the shape of all members together."""
        return self.config.reproducible and self.device.type == "cpu"

    def values_per_member(self, network: Network) -> int:
        """Return the approximate number of activations of a step of one member."""
        return self.batch_size * self.backbone.activations(network.encoding.layout.sizes, len(self.table.cardinalities))

    @torch.no_grad()
    def units(
        self, rows: Tensor, counts: Tensor, lengths: Sequence[int], known: tuple[Tensor, Tensor] | None = None
    ) -> Units:
        """Return the units of members, given their training rows of shape (n_members, n).

        `counts` are the rows that are not padding, `lengths` their numbers on the host, `known` shift and scale of
        networks that were trained before. Those of a reproducible member are computed from its rows alone.
        """
        if self.config.reproducible and len(rows) > 1:
            alone = []
            for place, length in enumerate(lengths):
                one = slice(place, place + 1)
                ends = None if known is None else (known[0][one], known[1][one])
                alone.append(self.units(rows[one, :length], counts[one], [length], ends))
            return Units(*map(torch.cat, zip(*alone, strict=True)))
        shift, scale = known or target_units(self.table.goal, self.data.target[rows], counts)
        weight = torch.ones(len(rows), device=self.device)
        if self.data.weights is not None:
            total = torch.where(_valid(counts, rows.shape[1]), self.data.weights[rows].double(), 0.0).sum(dim=1)
            weight = (counts / total.clamp(min=1e-300)).float()
        units = Units(shift, scale, weight, torch.ones(len(rows), dtype=torch.float64, device=self.device))
        if not self.table.goal.in_target_units:
            return units
        losses = self.losses(torch.zeros(*rows.shape, self.table.d_out, device=self.device), rows, units).abs()
        mean = torch.where(_valid(counts, losses.shape[1]), losses, 0.0).sum(dim=1) / counts
        return units._replace(loss=torch.where(mean.isfinite() & (mean > 0), mean, 1.0))

    def losses(self, outputs: Tensor, rows: Tensor, units: Units) -> Tensor:
        """Return the loss of every row, of shape (n_members, batch).

        Of outputs of several predictions, of shape (n_members, n_predictions, batch, d_out), it is their mean loss.
        """
        target, objective, n_targets = self.data.target[rows], self.table.goal, self.table.n_targets
        if objective.in_target_units:
            outputs = outputs.to(target.dtype) * _beside(units.scale, outputs) + _beside(units.shift, outputs)
        elif objective.task == "regression":
            target = _scaled(target, units).to(outputs.dtype)
        several = outputs.dim() > 3
        if n_targets > 1:
            outputs = by_target(outputs, n_targets)
        if several:
            target = target[:, None].expand(outputs.shape[:-1])
        losses = objective.losses(outputs, target, label_smoothing=self.config.label_smoothing)
        if n_targets > 1:
            losses = losses.mean(dim=-1)
        if objective.in_target_units:
            losses = (losses / units.loss.view(-1, *[1] * (losses.dim() - 1))).float()
        return losses.mean(dim=1) if several else losses

    def scores(self, network: Network, rows: Tensor, counts: Tensor, units: Units, *, lengths: Sequence[int]) -> Tensor:
        """Return each member's score on its rows of shape (n_members, n), where smaller is better.

        `counts` are the rows that are not padding, `lengths` their numbers on the host. Weighted scores of reproducible
        members are computed one by one; sums of weights of one are exact in any order.
        """
        outputs = predict_stack(network, self.data.numbers, self.data.codes, rows)
        target = self.data.target[rows]
        weights = _valid(counts, target.shape[1]).double()
        if self.data.weights is not None:
            weights = weights * self.data.weights[rows]
        predictions = all_predictions(self.table.goal, outputs, self.table.n_targets)
        if self.table.goal.in_target_units:
            predictions = predictions.to(target.dtype) * _beside(units.scale, outputs) + _beside(units.shift, outputs)
        elif self.table.goal.task == "regression":
            target = _scaled(target, units)
        tensors = predictions, target, weights
        with fixed_order(self.config.reproducible):
            if not self.config.reproducible or self.data.weights is None:
                return validation_scores(self.config, self.table.goal, *tensors)
            alone = [
                validation_scores(self.config, self.table.goal, *(part[place : place + 1, :n] for part in tensors))
                for place, n in enumerate(lengths)
            ]
        return torch.cat(alone)


def validation_scores(
    config: TrainingConfig, objective: Objective, predictions: Tensor, target: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the score of every member, of shape (n_members,), where smaller is better.

    It is the metric of the configuration, negated if larger is better. Members for which it is undefined, such as AUC
    with rows of one class, get the score of its fallback. Shapes are those of `MetricFunction`; of several targets,
    with `target` of shape (n_members, n, n_targets), it is the mean over them.
    """
    metric = config.metric_for(objective)
    scores = _as_loss(metric, predictions, target, weights)
    if metric.fallback is not None:
        fallback = _as_loss(METRICS[metric.fallback], predictions, target, weights)
        scores = torch.where(scores.isnan(), fallback, scores)
    return scores


def _as_loss(metric: Metric, outputs: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    scores = mean_score(metric, outputs, target, weights)
    return scores if metric.lower_is_better else -scores


def mean_score(metric: Metric, outputs: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    """Return a metric of every member, of several targets its mean over them; shapes as in `validation_scores`."""
    if target.dim() == 2:
        return metric.function(outputs, target, weights)
    n_members, _, n_targets = target.shape
    outputs = by_target(outputs, n_targets).transpose(1, 2).flatten(0, 1)
    weights = None if weights is None else weights.repeat_interleave(n_targets, dim=0)
    scores = metric.function(outputs, target.transpose(1, 2).flatten(0, 1), weights)
    return scores.view(n_members, n_targets).mean(dim=1)


def _scaled(target: Tensor, units: Units) -> Tensor:
    """Return targets of shape (n_members, n, ...) in their units; halves, because the difference may overflow."""
    return (0.5 * target - 0.5 * units.shift[:, None]) / (0.5 * units.scale[:, None])


def _valid(counts: Tensor, n: int) -> Tensor:
    """Return which of `n` rows are not padding, of shape (n_members, n)."""
    return torch.arange(n, device=counts.device) < counts[:, None]


def _beside(values: Tensor, outputs: Tensor) -> Tensor:
    """Return numbers of each member, of shape (n_members,) or (n_members, d_out), that broadcast with outputs."""
    return values.view(len(values), *[1] * (outputs.dim() - 2), -1)
