"""Members in training: what they share, their state, losses and scores, the steps of an epoch, the best weights.

A stack is made once for all members (`starting_stacks`). Whenever members are divided among threads, or some of them
stop, `TrainingStack.take` copies theirs into a new stack; nothing is shared between two stacks.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self, TypeVar, final

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.adamw import AdamW
from knotwork._kernels.dropout import Noise, row_order
from knotwork._kernels.fixed_order import fixed_order, row_sums
from knotwork.nn import Backbone, bands_of, penalty_gradient
from knotwork.training._config import TrainingConfig
from knotwork.training._execution import Replayed
from knotwork.training._flat_step import FlatStep, find_flat_step
from knotwork.training._members import (
    DeviceTable,
    Member,
    TrainingTable,
    all_predictions,
    by_target,
    padded,
    planned_rates,
    target_units,
)
from knotwork.training._metrics import METRICS, Metric
from knotwork.training._network import (
    Network,
    RateGroup,
    feature_weights,
    matrices,
    predict_stack,
    rate_groups,
    running_statistics,
    take_members,
    weight_decays,
)
from knotwork.training._objectives import Objective

MEMBERS_PER_PART, VALUES_PER_PART = 3, 3 << 19
"""Most members that a thread trains together on a CPU, and the activations of a step above which they are fewer: a call
for several small members saves time, large ones use more cores."""

TensorTuple = TypeVar("TensorTuple", bound=tuple[Tensor, ...])

N_START_ROWS = 256
"""Training rows that the initial parameters of some backbones depend on."""

PLATEAU_THRESHOLD, SMALLEST_REDUCTION = 1e-4, 1e-8
"""Relative improvement of a score that counts as better for the learning rate, and the reduction of the rate below
which none is made: those of torch's ReduceLROnPlateau."""


def taken(values: TensorTuple, index: Tensor) -> TensorTuple:
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
        self, rows: Tensor, counts: Tensor, lengths: Sequence[int], resumed: tuple[Tensor, Tensor] | None = None
    ) -> Units:
        """Return the units of members, given their training rows of shape (n_members, n).

        `counts` are the rows that are not padding, `lengths` their numbers on the host, `resumed` shift and scale of
        networks that were trained before. Those of a reproducible member are computed from its rows alone.
        """
        if self.config.reproducible and len(rows) > 1:
            alone = []
            for place, length in enumerate(lengths):
                one = slice(place, place + 1)
                ends = None if resumed is None else (resumed[0][one], resumed[1][one])
                alone.append(self.units(rows[one, :length], counts[one], [length], ends))
            return Units(*map(torch.cat, zip(*alone, strict=True)))
        shift, scale = resumed or target_units(self.table.goal, self.data.target[rows], counts)
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

    def scores(self, outputs: Tensor, rows: Tensor, counts: Tensor, units: Units, *, lengths: Sequence[int]) -> Tensor:
        """Return each member's score for outputs on its rows of shape (n_members, n), where smaller is better.

        `counts` are the rows that are not padding, `lengths` their numbers on the host. Weighted scores of reproducible
        members are computed one by one; sums of weights of one are exact in any order.
        """
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


@final
class Schedule(NamedTuple):
    """Learning rates and early stopping of the members of a stack; every tensor has the shape (n_members,).

    `rate` is the learning rate before a schedule over epochs, `epoch` the number of epochs done, `last` the most of a
    member. `best` is the best score so far, where smaller is better, `best_epoch` its epoch from 0, or -1.
    `plateau_best` is the best score that counted for the learning rate, or that of the cycles before the present one,
    and `plateau_bad` the number of epochs since then. `alive` members are still trained; `improved` ones had their best
    score in the last epoch. All are changed in place, for captured graphs.
    """

    rate: Tensor
    epoch: Tensor
    best: Tensor
    best_epoch: Tensor
    plateau_best: Tensor
    plateau_bad: Tensor
    alive: Tensor
    improved: Tensor
    last: Tensor

    @classmethod
    def from_rates(cls, rates: Tensor, last: Tensor | None = None) -> Self:
        """Start with some learning rates, for at most `last` epochs, if limited."""
        worst = torch.full_like(rates, math.inf, dtype=torch.float64)
        zeros = torch.zeros_like(rates, dtype=torch.int64)
        no = torch.zeros_like(rates, dtype=torch.bool)
        last = torch.full_like(zeros, torch.iinfo(torch.int64).max) if last is None else last
        return cls(rates.clone(), zeros.clone(), worst, zeros - 1, worst.clone(), zeros.clone(), ~no, no, last)

    def start_from(self, scores: Tensor) -> None:
        """Count only scores that are better than these."""
        scores = torch.where(scores.isnan(), math.inf, scores)
        self.best.copy_(scores)
        self.plateau_best.copy_(scores)

    def update(self, scores: Tensor, config: TrainingConfig) -> None:
        """Use the scores of an epoch, where smaller is better and NaN is never better."""
        self.improved.copy_(self.alive & (scores < self.best))
        self.best.copy_(torch.where(self.improved, scores, self.best))
        self.best_epoch.copy_(torch.where(self.improved, self.epoch, self.best_epoch))
        if config.schedule == "plateau":
            self._reduce(scores, config)
        self.epoch.add_(self.alive)
        waited = self.epoch - 1 - self.best_epoch
        self.alive.logical_and_((self.epoch < config.max_epochs) & (self.epoch < self.last))
        if config.patience is not None:
            self.alive.logical_and_(waited < config.patience)
        if config.cycle_gain:
            self._end_cycle(config)

    def _end_cycle(self, config: TrainingConfig) -> None:
        """Stop members whose best score has hardly improved in the cycle that ends with this epoch, if one does."""
        at_end = torch.zeros_like(self.alive)
        for end in config.cycle_ends:
            at_end |= self.epoch == end
        enough = self.plateau_best - config.cycle_gain * self.plateau_best.abs()  # NaN in the first cycle
        self.alive.logical_and_(~(at_end & (self.best > enough)))
        self.plateau_best.copy_(torch.where(at_end, self.best, self.plateau_best))

    def _reduce(self, scores: Tensor, config: TrainingConfig) -> None:
        """Reduce the rate of members whose score has not improved for too long."""
        enough = self.plateau_best - PLATEAU_THRESHOLD * self.plateau_best.abs()
        better = torch.where(self.plateau_best.isinf(), scores < self.plateau_best, scores < enough)
        self.plateau_best.copy_(torch.where(better, scores, self.plateau_best))
        bad = torch.where(better, 0, self.plateau_bad + 1)
        late = bad > config.plateau_patience
        reduced = self.rate * config.plateau_factor
        self.rate.copy_(torch.where(late & (self.rate - reduced > SMALLEST_REDUCTION), reduced, self.rate))
        self.plateau_bad.copy_(torch.where(late, 0, bad))

    def rates(self, config: TrainingConfig, groups: Sequence[RateGroup], epochs: Tensor) -> Tensor:
        """Return learning rates in the current epoch, of shape (n, n_groups, n_members).

        `epochs`, of shape (n, n_members), are places on the schedule in epochs, with a fraction; schedules that are
        not stepwise ignore them.
        """
        rate = self.rate.expand_as(epochs)
        if config.is_stepwise:
            rate = rate * _rate_factors(config, epochs).to(rate.dtype)
        warm = self.epoch >= config.knot_warmup
        rows = [torch.where(warm, rate * factor, 0.0) if knots else rate * factor for factor, knots in groups]
        return torch.stack(rows, dim=1)


def _rate_factors(config: TrainingConfig, epochs: Tensor) -> Tensor:
    """Return the factors of the learning rate after a number of epochs, with a fraction, for a stepwise schedule."""
    if config.schedule == "cycles":
        return 0.5 * (1 - torch.cos(2 * math.pi * torch.log2(1 + 15 * epochs / config.max_epochs)))
    rise = max(config.max_epochs // 20, 1)
    fall = 0.5 * (1 + torch.cos(math.pi * (epochs - rise) / max(config.max_epochs - rise, 1)))
    return torch.where(epochs < rise, epochs / rise, fall)


@final
class MemberTensors(NamedTuple):
    """What belongs to each member besides its network, with a leading axis of members.

    `ids` are the places of the members in the stack that they began in. Rows are padded; `n_train` and `n_valid` are
    their numbers. `rates` are the learning rates of the epochs (`planned_rates`), `steps_done` counts steps.
    """

    ids: Tensor
    seeds: Tensor
    train_rows: Tensor
    n_train: Tensor
    valid_rows: Tensor
    n_valid: Tensor
    rates: Tensor
    steps_done: Tensor

    @classmethod
    def start(cls, job: StackJob, members: Sequence[Member], first: int) -> Self:
        """Return the stack of members before training; their ids begin with `first`."""
        ids = torch.arange(first, first + len(members), device=job.device)
        seeds = torch.tensor([member.seed for member in members], device=job.device) % (2**31)
        train_rows, n_train = padded([member.train for member in members], job.device)
        valid_rows, n_valid = padded([member.valid for member in members], job.device)
        job.data.count_rows(n_train)
        rates = planned_rates(members, job.config).to(job.device)
        return cls(ids, seeds, train_rows, n_train, valid_rows, n_valid, rates, torch.zeros_like(seeds))

    def order(self, epochs: Tensor) -> Tensor:
        """Return the training rows of each member in the order of the epochs, of shape (n_members,)."""
        order = row_order(self.seeds, epochs, self.n_train, self.train_rows.shape[1])
        return torch.gather(self.train_rows, 1, order)

    def random_rows(self, data: DeviceTable, n: int) -> tuple[Tensor, Tensor]:
        """Return numbers and codes of `n` random training rows of each member."""
        order = self.order(torch.full_like(self.seeds, -1))  # an order that no epoch has
        places = torch.arange(n, device=order.device) % self.n_train[:, None]
        rows = torch.gather(order, 1, places)
        return data.numbers[rows], data.codes[rows]


@final
@dataclass(eq=False)
class TrainingStack:
    """Members in training, in the order of their kinds; the stack owns its tensors, and steps change them in place.

    `averages` are the moving averages of the parameters, if any, `best` the values of `weights` in the best epoch, and
    `strengths`, of shape (n_members, n_features), those of the smoothness penalty, None without one.
    """

    job: StackJob
    members: MemberTensors
    units: Units
    network: Network
    optimiser: AdamW
    schedule: Schedule
    averages: list[Tensor]
    best: list[Tensor]
    strengths: Tensor | None

    @classmethod
    def start(
        cls, job: StackJob, members: Sequence[Member], network: Network, *, first: int = 0,
        resumed: tuple[Tensor, Tensor] | None = None,
    ) -> Self:  # fmt: skip
        """Return the stack of members before training.

        The network, which the stack takes over, gets its initial parameters, unless training is resumed: then it has
        parameters, and `resumed` are the shift and scale of its targets.
        """
        config, backbone = job.config, job.backbone
        tensors = MemberTensors.start(job, members, first)
        if resumed is None:
            network.start(tensors.seeds)
            if backbone.starts_from_rows:
                network.start_from(*tensors.random_rows(job.data, N_START_ROWS), tensors.seeds)
        network.train()
        units = job.units(tensors.train_rows, tensors.n_train, [len(member.train) for member in members], resumed)
        strengths = _strengths(job, members, network)
        lengths = [config.max_epochs if member.rates is None else len(member.rates) for member in members]
        schedule = Schedule.from_rates(tensors.rates[:, 0], torch.tensor(lengths, device=job.device))
        if _in_lower_precision(job):
            for parameter in matrices(network):
                parameter.data = parameter.data.bfloat16()
        if resumed is not None and tensors.valid_rows.shape[1]:
            with torch.no_grad():
                valid = tensors.valid_rows, tensors.n_valid, units
                outputs = predict_stack(network, job.data.numbers, job.data.codes, tensors.valid_rows)
                scores = job.scores(outputs, *valid, lengths=[max(len(member.valid), 1) for member in members])
                schedule.start_from(torch.where(tensors.n_valid > 0, scores, math.inf))
        places = rate_groups(network, backbone, config.knot_rate)[1]
        decays = weight_decays(network, backbone, config.weight_decay)
        optimiser = AdamW(list(network.parameters()), decays=decays, groups=places, betas=(0.9, config.beta2))
        averages = [master.detach().clone() for master in optimiser.masters] if config.weight_average else []
        best = [each.detach().clone() for each in [*optimiser.masters, *running_statistics(network)]]
        return cls(job, tensors, units, network, optimiser, schedule, averages, best, strengths)

    def __post_init__(self) -> None:
        job, members, device = self.job, self.members, self.job.device
        self.parameters = list(self.network.parameters())
        self.groups = rate_groups(self.network, job.backbone, job.config.knot_rate)[0]
        self.bands = None if self.strengths is None else self._bands(self.strengths)
        alone = not job.config.reproducible or job.members_alone  # otherwise other members must not change the batch
        n_rows = min(job.batch_size, members.train_rows.shape[1]) if alone else job.batch_size
        self.offsets = torch.arange(n_rows, device=device)
        weighted = job.config.reproducible and job.data.weights is not None
        self.valid_counts = [max(n, 1) for n in members.n_valid.tolist()] if weighted else []
        self.pace = torch.tensor([0.0, 1.0], dtype=torch.float64, device=device)
        self.place = torch.zeros((), dtype=torch.int64, device=device)
        self.order = torch.zeros_like(members.train_rows)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.done = self._shares_done()
        self.rates = self.schedule.rates(job.config, self.groups, self.done.double())
        ones = torch.ones(len(members.ids), device=device)
        self.loss_weights = [ones, job.config.spacing_weight * ones]
        self.loss_sum = torch.zeros(len(members.ids), dtype=torch.float64, device=device)
        self.report = torch.zeros(4, len(members.ids), dtype=torch.float64, device=device)
        on_gpu = device.type == "cuda"
        graphs = (torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)) if on_gpu else (None, None)  # type: ignore[no-untyped-call]
        self.begin = Replayed(self._begin, device, *graphs)
        self.step = Replayed(self._step, device, *graphs)
        self.finish = Replayed(self._finish, device, *graphs)

    @property
    def n_steps(self) -> int:
        """Steps per epoch of the member with the most rows."""
        return math.ceil(self.order.shape[1] / self.job.batch_size)

    def set_pace(self, epochs: float, speed: float) -> None:
        """Set the place of the next epoch on the schedule, and the number of epochs of the schedule that it covers."""
        self.pace[0].fill_(epochs)
        self.pace[1].fill_(speed)

    @torch.no_grad()
    def _bands(self, strengths: Tensor) -> Tensor:
        """Return the matrices of the smoothness penalty for the knots as they are."""
        return bands_of(self.network.encoding, strengths, self.job.config.smoothness_order)

    def _shares_done(self) -> Tensor:
        """Return the shares of the epoch at which rates are set, of shape (n, n_members): the middle of each step."""
        members, device = self.members, self.job.device
        if not self.job.config.is_stepwise:
            return torch.zeros(1, len(members.ids), device=device)
        steps = torch.arange(self.n_steps, device=device)[:, None] + 0.5
        return (steps / (members.n_train / self.job.batch_size).ceil()).clamp(max=1.0)

    def _begin(self) -> None:
        """Start an epoch: draw the order of the rows, set the learning rates."""
        members, schedule = self.members, self.schedule
        self.job.data.count_rows(members.n_train)
        self.order.copy_(members.order(schedule.epoch))
        if members.rates.shape[1] > 1:
            now = schedule.epoch.clamp(max=members.rates.shape[1] - 1)
            schedule.rate.copy_(members.rates.gather(1, now[:, None])[:, 0])
        epochs = self.pace[0] + self.pace[1] * self.done.double()
        self.rates.copy_(schedule.rates(self.job.config, self.groups, epochs))
        if self.bands is not None and self.strengths is not None and self.network.encoding.logits is not None:
            self.bands.copy_(self._bands(self.strengths))  # knots have moved
        self.place.zero_()
        self.number.zero_()
        self.loss_sum.zero_()

    @cached_property
    def flat_step(self) -> FlatStep | None:
        """Faster steps, where the stack has them; made when the first one is taken, because they have buffers."""
        return find_flat_step(self)

    def _step(self) -> None:
        """Train every member on its next rows; members without rows left do not change."""
        if self.flat_step is not None:
            self.flat_step()
            return
        job, data, members = self.job, self.job.data, self.members
        batch, offsets = len(self.offsets), self.offsets
        places = (self.place + offsets).clamp(max=self.order.shape[1] - 1)
        rows = self.order.index_select(1, places)
        counts = (members.n_train - self.place).clamp(0, batch)
        active = self.schedule.alive & (counts > 0)
        noise = Noise(members.seeds, members.steps_done)
        outputs, penalty = self.network(data.numbers[rows], data.codes[rows], counts=counts, noise=noise)
        row_weights = (offsets < counts[:, None]).to(outputs.dtype)
        if data.weights is not None:
            row_weights = row_weights * data.weights[rows] * self.units.weight[:, None]
        by_row = job.losses(outputs, rows, self.units) * row_weights
        losses = by_row.sum(dim=1) / counts.clamp(min=1)
        grads = self._gradients(losses, penalty)
        with torch.no_grad():
            self.optimiser.step(grads, self._step_rates(), active)
            if self.averages:
                self._average(active)
            if job.config.reproducible:
                with fixed_order():
                    losses = row_sums(by_row) / counts.clamp(min=1)
            self.loss_sum += losses.double() * counts
            members.steps_done.add_(active)
            self.place += batch

    def _gradients(self, losses: Tensor, penalty: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the losses, of the spacing penalty and of the smoothness penalty together."""
        summands = [losses, penalty] if penalty.requires_grad else [losses]  # the gradient of their weighted sum
        weights = self.loss_weights[: len(summands)]
        penalised = None if self.bands is None else feature_weights(self.network, self.job.backbone)
        if self.bands is not None and penalised is not None:
            summands.append(penalised)
            weights.append(penalty_gradient(penalised.detach(), self.bands))
        factors: list[Tensor] | None = weights
        if self.job.device.type == "cpu":  # of numbers: torch loads sympy to compare the shapes of factors
            summands, factors = [(each * weight).sum() for each, weight in zip(summands, weights, strict=True)], None
        return torch.autograd.grad(summands, self.parameters, factors, allow_unused=True)

    def _step_rates(self) -> Tensor:
        """Return the learning rates of the next step, of shape (n_groups, n_members)."""
        if len(self.rates) == 1:
            return self.rates[0]
        rates = self.rates.index_select(0, self.number)[0]
        self.number += 1
        return rates

    def _average(self, active: Tensor) -> None:
        """Move the averages towards the weights, for members that took the step."""
        averages, steps = self.averages, self.members.steps_done
        fresh = (9.0 / (10.0 + steps)).clamp(min=1.0 - self.job.config.weight_average)  # 1 - (1 + n) / (10 + n)
        fresh = torch.where(active, fresh, 0.0)
        shares = [fresh.view(-1, *[1] * (average.dim() - 1)) for average in averages]
        torch._foreach_lerp_(averages, self.optimiser.masters, shares)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Use the averages, if any, as the parameters of the network."""
        averages = self.averages
        parameters = self.parameters if averages else []
        before = [parameter.clone() for parameter in parameters]
        for parameter, average in zip(parameters, averages, strict=True):
            parameter.copy_(average)
        yield
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(old)

    @torch.no_grad()
    def _finish(self) -> None:
        """End an epoch: score the validation rows, keep the best weights, and decide which members continue."""
        schedule = self.schedule
        with self._averaged():
            scores = self._scores()
        schedule.update(scores, self.job.config)
        for best, now in zip(self.best, self.weights, strict=True):
            chosen = schedule.improved.view(-1, *[1] * (now.dim() - 1))
            best.copy_(torch.where(chosen, now, best))
        losses = self.loss_sum / self.members.n_train
        self.report.copy_(torch.stack([losses, scores, self.rates[0, 0].double(), schedule.alive.double()]))

    def _scores(self) -> Tensor:
        """Return each member's validation score, where smaller is better.

        Without validation rows it decreases with every epoch, so that the last weights are kept.
        """
        members = self.members
        no_rows = -(self.schedule.epoch + 1).double()
        if not members.valid_rows.shape[1]:
            return no_rows
        valid, data = (members.valid_rows, members.n_valid, self.units), self.job.data
        if self.flat_step is not None:
            outputs = self.flat_step.predict(members.valid_rows)
        else:
            outputs = predict_stack(self.network, data.numbers, data.codes, members.valid_rows)
        scores = self.job.scores(outputs, *valid, lengths=self.valid_counts)
        return torch.where(members.n_valid > 0, scores, no_rows)

    def report_of_members(self) -> Tensor:
        """Return the report of the last epoch for `EpochLog.add`; nothing waits for the device."""
        ids, best_epoch = self.members.ids, self.schedule.best_epoch
        return torch.cat([self.report, ids[None].double(), best_epoch[None].double()])

    def release(self) -> None:
        """Free the captured graphs; no epoch is trained afterwards."""
        for work in (self.begin, self.step, self.finish):
            work.release()
        vars(self).pop("flat_step", None)

    @property
    def weights(self) -> list[Tensor]:
        """What is kept of members: parameters or averages of them, and statistics of batch normalisation."""
        return [*(self.averages or self.optimiser.masters), *running_statistics(self.network)]

    def take(self, index: Tensor) -> "TrainingStack":
        """Return a stack with copies of the tensors of the members of an increasing index."""
        network = take_members(self.network, index)
        return TrainingStack(
            self.job,
            taken(self.members, index),
            taken(self.units, index),
            network,
            self.optimiser.take(index, list(network.parameters())),
            taken(self.schedule, index),
            [average[index] for average in self.averages],
            [best[index] for best in self.best],
            None if self.strengths is None else self.strengths[index],
        )


def starting_stacks(
    job: StackJob, members: Sequence[Member], network: Network, *, resumed: tuple[Tensor, Tensor] | None = None
) -> list[TrainingStack]:
    """Return stacks that threads may train side by side: one on a GPU, several on a CPU.

    They do not depend on the number of threads, so that results do not either. Arguments are those of
    `TrainingStack.start`.
    """
    if job.members_alone:
        stacks = []
        for place, member in enumerate(members):
            index = torch.tensor([place])
            ends = None if resumed is None else (resumed[0][index], resumed[1][index])
            stacks.append(TrainingStack.start(job, [member], take_members(network, index), first=place, resumed=ends))
        return stacks
    stack = TrainingStack.start(job, members, network, resumed=resumed)
    most = max(min(VALUES_PER_PART // job.values_per_member(network), MEMBERS_PER_PART), 1)
    n_parts = -(-len(members) // most)
    if job.device.type != "cpu" or n_parts == 1:
        return [stack]
    stack.release()
    return [stack.take(index) for index in torch.arange(len(members)).tensor_split(n_parts)]


def steps_are_large(job: StackJob, network: Network) -> bool:
    """Return whether a step of one member is enough work for several threads that share each operation."""
    return job.device.type == "cpu" and 2 * job.values_per_member(network) > VALUES_PER_PART


def _strengths(job: StackJob, members: Sequence[Member], network: Network) -> Tensor | None:
    """Return the strengths of the smoothness penalty, of shape (n_members, n_features); None if none is above 0."""
    shape = len(members), len(members[0].encodings)
    strengths = np.array([member.settings[1].strengths(shape[1]) for member in members]).reshape(shape)
    if not strengths.any() or feature_weights(network, job.backbone) is None:
        return None
    return torch.from_numpy(strengths).to(job.device, torch.float32)


def _in_lower_precision(job: StackJob) -> bool:
    if job.device.type != "cuda":
        return False
    return job.config.precision == "bf16" or (job.config.precision == "auto" and job.backbone.precision == "bf16")
