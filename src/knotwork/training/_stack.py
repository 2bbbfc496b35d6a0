"""A stack in training: steps, validation scores, learning rates, and the removal of members that have stopped."""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.adamw import AdamW
from knotwork._kernels.dropout import Noise, row_order
from knotwork._kernels.fixed_order import fixed_order, row_sums
from knotwork.nn._backbones import Backbone
from knotwork.nn._linear import left_empty
from knotwork.nn._stack import StackEncoding, StackLayout
from knotwork.training._config import TrainingConfig
from knotwork.training._graphs import Replayed
from knotwork.training._members import DeviceTable, Member, TrainingTable, column_units, padded, planned_rates
from knotwork.training._metrics import METRICS, Metric
from knotwork.training._network import (
    Network,
    RateGroup,
    matrices,
    network_of,
    predict_stack,
    rate_groups,
    running_statistics,
    weight_decays,
)
from knotwork.training._objective import Objective, all_predictions, by_target, target_units
from knotwork.training._penalties import SmoothnessPenalty

if TYPE_CHECKING:  # results import the stack
    from knotwork.training._results import Piece

__all__ = [
    "Replayed", "Schedule", "TrainingStack", "build_network", "count_parameters", "mean_score",
    "validation_scores",
]  # fmt: skip

MEMBERS_PER_PART, VALUES_PER_PART = 3, 3 << 19
"""Members that a thread trains together on a CPU, at most, and the activations of a step beyond which they are fewer:
a call for several small members saves time, large ones use more cores."""

THRESHOLD = 1e-4
"""Relative improvement of a score that counts as better for the learning rate, as in torch's ReduceLROnPlateau."""

SMALLEST_CHANGE = 1e-8
"""Smaller reductions of the learning rate are skipped, as torch's `eps` does."""

N_START_ROWS = 256
"""Training rows that the initial parameters of some backbones depend on."""

PER_MEMBER = (
    "ids", "seeds", "train_rows", "n_train", "valid_rows", "n_valid", "shift", "scale", "weight_unit", "loss_unit",
    "steps_done", "loss_sum", "planned_rates",
)  # fmt: skip
"""Tensors of a stack with one entry per member, besides network, optimiser and schedule."""


def build_network(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    *,
    units: np.ndarray,
    categories: str = "embedding",
    min_spacing: float = StackLayout.min_spacing,
    reproducible: bool = False,
    device: torch.device | None = None,
) -> Network:
    """Return the network of members in the order of their kinds without initial values, by default on the CPU."""
    blocks, learnable = [member.blocks for member in members], [member.learnable for member in members]
    missing = members[0].learned_missing
    encoding = StackEncoding.from_blocks(
        blocks, learnable, units=units, min_spacing=min_spacing, learned_missing=missing
    )
    fan_in = torch.tensor([float(member.n_columns) for member in members])
    maps: dict[str, Any] = {
        "embedding": members[0].embedding,
        "interactions": [member.interactions for member in members if member.interactions is not None],
    }
    settings = (encoding, table.cardinalities, backbone, table.d_out)
    with left_empty():
        network = Network(*settings, task=table.task, categories=categories, fan_in=fan_in, **maps)
    if network.feature_embedding is not None:
        network.feature_embedding.set_fan_in([member.sizes for member in members])
    if device is not None:
        network.to(device)
    network.reproducible = reproducible
    if reproducible:
        network.encoding.settle()
    return network


def count_parameters(table: TrainingTable, member: Member, backbone: Backbone, *, categories: str = "embedding") -> int:
    """Return the number of parameters of a member without the padding that its blocks may have in a stack."""
    units = column_units(table.numbers[:1])
    network = build_network(table, [member], backbone, units=units, categories=categories)
    return sum(parameter.numel() for parameter in network.parameters())


@final
@dataclass(eq=False)
class Schedule:
    """Learning rates and early stopping of the members of a stack; every tensor has the shape (n_members,).

    `rate` is the learning rate before a schedule over epochs, `epoch` the number of epochs done, `last` the most of a
    member. `best` is the best score so far, where smaller is better, `best_epoch` its epoch from 0, or -1.
    `plateau_best` is the best score that counted for the learning rate, and `plateau_bad` the number of epochs since
    then. `alive` members are still trained; `improved` ones had their best score in the last epoch. All are changed in
    place, for captured graphs.
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
    def from_rates(cls, rates: Tensor, last: Tensor | None = None) -> "Schedule":
        """Start with the given learning rates, for at most the given numbers of epochs, if any."""
        worst = torch.full_like(rates, math.inf, dtype=torch.float64)
        zeros = torch.zeros_like(rates, dtype=torch.int64)
        no = torch.zeros_like(rates, dtype=torch.bool)
        last = torch.full_like(zeros, torch.iinfo(torch.int64).max) if last is None else last
        return cls(rates.clone(), zeros.clone(), worst, zeros - 1, worst.clone(), zeros.clone(), ~no, no, last)

    def start_from(self, scores: Tensor) -> None:
        """Count only scores that are better than the given ones."""
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
        self.epoch += self.alive
        waited = self.epoch - 1 - self.best_epoch
        self.alive &= (self.epoch < config.max_epochs) & (self.epoch < self.last)
        if config.patience is not None:
            self.alive &= waited < config.patience

    def _reduce(self, scores: Tensor, config: TrainingConfig) -> None:
        """Reduce the rate of members whose score has not improved for too long."""
        enough = self.plateau_best - THRESHOLD * self.plateau_best.abs()
        better = torch.where(self.plateau_best.isinf(), scores < self.plateau_best, scores < enough)
        self.plateau_best.copy_(torch.where(better, scores, self.plateau_best))
        bad = torch.where(better, 0, self.plateau_bad + 1)
        late = bad > config.plateau_patience
        reduced = self.rate * config.plateau_factor
        self.rate.copy_(torch.where(late & (self.rate - reduced > SMALLEST_CHANGE), reduced, self.rate))
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

    def keep(self, index: Tensor) -> None:
        """Keep only the members of an index."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[index])


def _rate_factors(config: TrainingConfig, epochs: Tensor) -> Tensor:
    """Return the factors of the learning rate after a number of epochs, with a fraction, for a stepwise schedule."""
    if config.schedule == "cycles":
        return 0.5 * (1 - torch.cos(2 * math.pi * torch.log2(1 + 15 * epochs / config.max_epochs)))
    rise = max(config.max_epochs // 20, 1)
    fall = 0.5 * (1 + torch.cos(math.pi * (epochs - rise) / max(config.max_epochs - rise, 1)))
    return torch.where(epochs < rise, epochs / rise, fall)


@final
class TrainingStack:
    """Members in training, in the order of their kinds; `data` is `table` on the device."""

    def __init__(
        self,
        table: TrainingTable,
        data: DeviceTable,
        members: Sequence[Member],
        backbone: Backbone,
        config: TrainingConfig,
        *,
        categories: str = "embedding",
        start: "Piece | None" = None,
    ) -> None:
        self.table, self.data, self.config = table, data, config
        self.objective, self.n_targets = table.goal, table.n_targets
        self.device = device = data.numbers.device
        self.ids = torch.arange(len(members), device=device)
        self.seeds = torch.tensor([member.seed for member in members], device=device) % (2**31)
        self.train_rows, self.n_train = padded([member.train for member in members], device)
        self.valid_rows, self.n_valid = padded([member.valid for member in members], device)
        data.count_rows(self.n_train)
        if start is None:
            made: dict[str, Any] = {"reproducible": config.reproducible, "min_spacing": config.knot_spacing}
            self.network = build_network(
                table, members, backbone, units=data.units, categories=categories, **made, device=device
            )
            self._start(from_rows=backbone.starts_from_rows)
        else:
            self.network = start.network.to(device)
            self.network.reproducible = config.reproducible
        self.network.train()
        self.batch_size = config.batch_size_for(table.n_rows)
        sizes = self.network.encoding.layout.sizes
        self.values_per_member = self.batch_size * backbone.activations(sizes, len(table.cardinalities))
        self._set_units(None if start is None else (start.shift, start.scale))
        self.steps_done = torch.zeros_like(self.seeds)
        self.loss_sum = torch.zeros(len(members), dtype=torch.float64, device=device)
        self.planned_rates = planned_rates(members, config).to(device)
        self.penalties = SmoothnessPenalty.of_members(members, self.network, backbone, config)
        lengths = [config.max_epochs if member.rates is None else len(member.rates) for member in members]
        self.schedule = Schedule.from_rates(self.planned_rates[:, 0], torch.tensor(lengths, device=device))
        if _lower_precision(config, backbone, device):
            for parameter in matrices(self.network):
                parameter.data = parameter.data.bfloat16()
        self.groups, places = rate_groups(self.network, backbone, config.knot_rate)
        decays = weight_decays(self.network, backbone, config.weight_decay)
        parameters = list(self.network.parameters())
        self.optimiser = AdamW(parameters, decays=decays, groups=places, betas=(0.9, config.beta2))
        averaged = self.optimiser.masters if config.weight_average else []
        self.averages = [master.detach().clone() for master in averaged]
        self.pace = torch.tensor([0.0, 1.0], dtype=torch.float64, device=device)
        self.best = [tensor.detach().clone() for tensor in self._state()]
        if start is not None:
            with torch.no_grad():
                self.schedule.start_from(torch.where(self.n_valid > 0, self._scores(), math.inf))
        self._make_buffers()

    @property
    def n_steps(self) -> int:
        """Steps per epoch of the member with the most rows."""
        return math.ceil(self.train_rows.shape[1] / self.batch_size)

    def _make_buffers(self) -> None:
        """Make the tensors that a step changes in place, and graphs to be captured with them."""
        self.parameters = list(self.network.parameters())
        shared = self.config.reproducible and not self.is_split  # then other members must not change the batch
        n_rows = self.batch_size if shared else min(self.batch_size, self.train_rows.shape[1])
        self.offsets = torch.arange(n_rows, device=self.device)
        self.valid_counts = [max(n, 1) for n in self.n_valid.tolist()] if self.config.reproducible else []
        self.place = torch.zeros((), dtype=torch.int64, device=self.device)
        self.order = torch.zeros_like(self.train_rows)
        self.number = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.done = self._shares_done()
        self.rates = self.schedule.rates(self.config, self.groups, self.done.double())
        ones = torch.ones(len(self.ids), device=self.device)
        self.loss_weights = [ones, self.config.spacing_weight * ones]
        self.report = torch.zeros(4, len(self.ids), dtype=torch.float64, device=self.device)
        on_gpu = self.device.type == "cuda"
        graphs = (torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)) if on_gpu else (None, None)  # type: ignore[no-untyped-call]
        self.begin = Replayed(self._begin, self.device, *graphs)
        self.step = Replayed(self._step, self.device, *graphs)
        self.finish = Replayed(self._finish, self.device, *graphs)

    def set_pace(self, epochs: float, speed: float) -> None:
        """Set the place of the next epoch on the schedule, and how many epochs of the schedule it stands for."""
        self.pace[0].fill_(epochs)
        self.pace[1].fill_(speed)

    def _shares_done(self) -> Tensor:
        """Return the shares of the epoch at which rates are set, of shape (n, n_members): the middle of each step."""
        if not self.config.is_stepwise:
            return torch.zeros(1, len(self.ids), device=self.device)
        steps = torch.arange(self.n_steps, device=self.device)[:, None] + 0.5
        return (steps / (self.n_train / self.batch_size).ceil()).clamp(max=1.0)

    def _state(self) -> list[Tensor]:
        """Return what is kept of members: parameters or averages of them, and statistics of batch normalisation."""
        return [*(self.averages or self.optimiser.masters), *running_statistics(self.network)]

    @property
    def is_split(self) -> bool:
        """Whether each member is computed by itself: libraries for a CPU round by the shape of all members together."""
        return self.config.reproducible and self.device.type == "cpu"

    def _alone(self) -> "list[TrainingStack]":
        """Return each member with its rows only, as it is in a stack of its own, but for its network."""
        members = []
        for member in range(len(self.ids)):
            one = copy.copy(self)
            for name in ("ids", "seeds", "n_train", "n_valid"):
                setattr(one, name, getattr(self, name)[member : member + 1])
            one.train_rows = self.train_rows[member : member + 1, : int(self.n_train[member])]
            one.valid_rows = self.valid_rows[member : member + 1, : int(self.n_valid[member])]
            members.append(one)
        return members

    @torch.no_grad()
    def _start(self, *, from_rows: bool) -> None:
        """Set the initial parameters of every member."""
        if not self.is_split or len(self.ids) == 1:
            self.network.start(self.seeds)
            if from_rows:
                self._start_from_rows()
            return
        for one in self._alone():
            one.network = network_of(self.network, one.ids)
            one._start(from_rows=from_rows)
            for whole, values in zip(self.network.parameters(), one.network.parameters(), strict=True):
                whole[one.ids] = values

    def _set_units(self, units: tuple[Tensor, Tensor] | None) -> None:
        """Set the units of targets, unless they are given, of weights and of losses."""
        if self.config.reproducible and len(self.ids) > 1:
            members = self._alone()
            for place, one in enumerate(members):
                one._set_units(None if units is None else (units[0][place : place + 1], units[1][place : place + 1]))
            for name in ("shift", "scale", "weight_unit", "loss_unit"):
                setattr(self, name, torch.cat([getattr(one, name) for one in members]))
            return
        self.shift, self.scale = units or target_units(self.objective, self.data.target[self.train_rows], self.n_train)
        self.weight_unit = self._weight_unit()
        self.loss_unit = self._loss_unit()

    def _start_from_rows(self) -> None:
        """Set the initial parameters by random training rows of each member, the same number for all."""
        self.network.start_from(*self._random_rows(N_START_ROWS), self.seeds)

    def _random_rows(self, n: int) -> tuple[Tensor, Tensor]:
        """Return numbers and codes of `n` random training rows of each member."""
        before = torch.full_like(self.seeds, -1)  # an order that no epoch has
        order = row_order(self.seeds, before, self.n_train, self.train_rows.shape[1])
        places = torch.arange(n, device=self.device) % self.n_train[:, None]
        rows = torch.gather(self.train_rows, 1, torch.gather(order, 1, places))
        return self.data.numbers[rows], self.data.codes[rows]

    def _scaled(self, target: Tensor) -> Tensor:
        """Return targets of shape (n_members, n, ...) in their units; halves, because the difference may overflow."""
        return (0.5 * target - 0.5 * self.shift[:, None]) / (0.5 * self.scale[:, None])

    def _weight_unit(self) -> Tensor:
        """Return the factors with which the mean weight of each member's training rows is 1."""
        if self.data.weights is None:
            return torch.ones(len(self.ids), device=self.device)
        known = _valid(self.n_train, self.train_rows.shape[1])
        total = torch.where(known, self.data.weights[self.train_rows].double(), 0.0).sum(dim=1)
        return (self.n_train / total.clamp(min=1e-300)).float()

    @torch.no_grad()
    def _loss_unit(self) -> Tensor:
        """Return the mean loss of a constant prediction, by which losses in the target's own units are divided.

        Steps and penalties then do not depend on these units. Other losses are of the order of one.
        """
        ones = torch.ones(len(self.ids), dtype=torch.float64, device=self.device)
        if not self.objective.in_target_units:
            return ones
        self.loss_unit = ones
        outputs = torch.zeros(*self.train_rows.shape, self.table.d_out, device=self.device)
        losses = self._losses(outputs, self.train_rows).abs()
        known = _valid(self.n_train, losses.shape[1])
        mean = torch.where(known, losses, 0.0).sum(dim=1) / self.n_train
        return torch.where(mean.isfinite() & (mean > 0), mean, 1.0)

    def _begin(self) -> None:
        """Start an epoch: draw the order of the rows, set the learning rates."""
        self.data.count_rows(self.n_train)
        order = row_order(self.seeds, self.schedule.epoch, self.n_train, self.train_rows.shape[1])
        self.order.copy_(torch.gather(self.train_rows, 1, order))
        if self.planned_rates.shape[1] > 1:
            now = self.schedule.epoch.clamp(max=self.planned_rates.shape[1] - 1)
            self.schedule.rate.copy_(self.planned_rates.gather(1, now[:, None])[:, 0])
        epochs = self.pace[0] + self.pace[1] * self.done.double()
        self.rates.copy_(self.schedule.rates(self.config, self.groups, epochs))
        if self.penalties is not None:
            self.penalties.update()
        self.place.zero_()
        self.number.zero_()
        self.loss_sum.zero_()

    def _step(self) -> None:
        """Train every member on its next rows; members without rows left do not change."""
        batch, offsets = len(self.offsets), self.offsets
        places = (self.place + offsets).clamp(max=self.order.shape[1] - 1)
        rows = self.order.index_select(1, places)
        counts = (self.n_train - self.place).clamp(0, batch)
        active = self.schedule.alive & (counts > 0)
        noise = Noise(self.seeds, self.steps_done)
        outputs, penalty = self.network(self.data.numbers[rows], self.data.codes[rows], counts=counts, noise=noise)
        known = (offsets < counts[:, None]).to(outputs.dtype)
        if self.data.weights is not None:
            known = known * self.data.weights[rows] * self.weight_unit[:, None]
        by_row = self._losses(outputs, rows) * known
        losses = by_row.sum(dim=1) / counts.clamp(min=1)
        summands = [losses, penalty] if penalty.requires_grad else [losses]  # the gradient of their weighted sum
        weights = self.loss_weights[: len(summands)]
        if self.penalties is not None:  # of which only the gradient is needed
            summands.append(self.penalties.weights())
            weights.append(self.penalties.gradient(summands[-1].detach()))
        given: list[Tensor] | None = weights
        if self.device.type == "cpu":  # of numbers: torch loads sympy to compare the shapes of given weights
            summands, given = [(each * weight).sum() for each, weight in zip(summands, weights, strict=True)], None
        grads = torch.autograd.grad(summands, self.parameters, given, allow_unused=True)
        with torch.no_grad():
            self.optimiser.step(grads, self._step_rates(), active)
            if self.averages:
                self._average(active)
            if self.config.reproducible:
                with fixed_order():
                    losses = row_sums(by_row) / counts.clamp(min=1)
            self.loss_sum += losses.double() * counts
            self.steps_done += active
            self.place += batch

    def _step_rates(self) -> Tensor:
        """Return the learning rates of the next step, of shape (n_groups, n_members)."""
        if len(self.rates) == 1:
            return self.rates[0]
        rates = self.rates.index_select(0, self.number)[0]
        self.number += 1
        return rates

    def _average(self, active: Tensor) -> None:
        """Move the averages towards the weights, for members that took the step."""
        fresh = (9.0 / (10.0 + self.steps_done)).clamp(min=1.0 - self.config.weight_average)  # 1 - (1 + n) / (10 + n)
        fresh = torch.where(active, fresh, 0.0)
        shares = [fresh.view(-1, *[1] * (average.dim() - 1)) for average in self.averages]
        torch._foreach_lerp_(self.averages, self.optimiser.masters, shares)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Use the averages, if any, as the parameters of the network."""
        parameters = list(self.network.parameters()) if self.averages else []
        before = [parameter.clone() for parameter in parameters]
        for parameter, average in zip(parameters, self.averages, strict=True):
            parameter.copy_(average)
        yield
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(old)

    def _losses(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return the loss of every row, of shape (n_members, batch).

        Of outputs of several predictions, of shape (n_members, n_predictions, batch, d_out), it is their mean loss.
        """
        target, objective = self.data.target[rows], self.objective
        if objective.in_target_units:
            outputs = outputs.to(target.dtype) * _beside(self.scale, outputs) + _beside(self.shift, outputs)
        elif objective.task == "regression":
            target = self._scaled(target).to(outputs.dtype)
        several = outputs.dim() > 3
        if self.n_targets > 1:
            outputs = by_target(outputs, self.n_targets)
        if several:
            target = target[:, None].expand(outputs.shape[:-1])
        losses = objective.losses(outputs, target, label_smoothing=self.config.label_smoothing)
        if self.n_targets > 1:
            losses = losses.mean(dim=-1)
        if objective.in_target_units:
            losses = (losses / self.loss_unit.view(-1, *[1] * (losses.dim() - 1))).float()
        return losses.mean(dim=1) if several else losses

    @torch.no_grad()
    def _finish(self) -> None:
        """End an epoch: score the validation rows, keep the best weights, and decide which members continue."""
        with self._averaged():
            scores = self._scores()
        self.schedule.update(scores, self.config)
        improved = self.schedule.improved
        for best, now in zip(self.best, self._state(), strict=True):
            chosen = improved.view(-1, *[1] * (now.dim() - 1))
            best.index_copy_(0, self.ids, torch.where(chosen, now, best.index_select(0, self.ids)))
        losses = self.loss_sum / self.n_train
        self.report.copy_(torch.stack([losses, scores, self.rates[0, 0].double(), self.schedule.alive.double()]))

    def _scores(self) -> Tensor:
        """Return each member's validation score, where smaller is better.

        Without validation rows it decreases with every epoch, so that the last weights are kept.
        """
        no_rows = -(self.schedule.epoch + 1).double()
        if not self.valid_rows.shape[1]:
            return no_rows
        outputs = predict_stack(self.network, self.data.numbers, self.data.codes, self.valid_rows)
        target = self.data.target[self.valid_rows]
        weights = _valid(self.n_valid, target.shape[1]).double()
        if self.data.weights is not None:
            weights = weights * self.data.weights[self.valid_rows]
        predictions = all_predictions(self.objective, outputs, self.n_targets)
        if self.objective.in_target_units:
            predictions = predictions.to(target.dtype) * _beside(self.scale, outputs) + _beside(self.shift, outputs)
        elif self.objective.task == "regression":
            target = self._scaled(target)
        scores = self._validation_scores(predictions, target, weights)
        return torch.where(self.n_valid > 0, scores, no_rows)

    def _validation_scores(self, predictions: Tensor, target: Tensor, weights: Tensor) -> Tensor:
        """Return the scores of predictions; weighted ones of each member by itself if it must be reproducible.

        Sums of weights of one are exact in any order.
        """
        tensors = predictions, target, weights
        with fixed_order(self.config.reproducible):
            if not self.config.reproducible or self.data.weights is None:
                return validation_scores(self.config, self.objective, *tensors)
            scores = [
                validation_scores(self.config, self.objective, *(part[place : place + 1, :n] for part in tensors))
                for place, n in enumerate(self.valid_counts)
            ]
        return torch.cat(scores)

    def release(self) -> None:
        """Free the captured graphs."""
        for work in (self.begin, self.step, self.finish):
            work.release()

    def drop(self) -> None:
        """Remove members that have stopped."""
        self.release()
        self._keep(self.schedule.alive.nonzero()[:, 0])

    def _keep(self, index: Tensor) -> None:
        """Keep only the members of an increasing index."""
        for name in PER_MEMBER:
            setattr(self, name, getattr(self, name)[index])
        if self.is_split:  # so that rows of padding, of which other members need more, are not computed
            self.train_rows = self.train_rows[:, : int(self.n_train.max())]
            self.valid_rows = self.valid_rows[:, : int(self.n_valid.max())]
        self.network = network_of(self.network, index)
        self.penalties = self.penalties and self.penalties.kept(index, self.network)
        self.schedule.keep(index)
        self.optimiser.keep(index, list(self.network.parameters()))
        self.averages = [average.index_select(0, index) for average in self.averages]
        self._make_buffers()

    @property
    def is_large(self) -> bool:
        """Whether a step of one member is enough work for several threads that share each operation."""
        return self.device.type == "cpu" and 2 * self.values_per_member > VALUES_PER_PART

    def parts(self) -> list["TrainingStack"]:
        """Return stacks that threads may train side by side: this one on a GPU, parts of its members on a CPU.

        Parts share `best`, where each writes its own members, and take the place of this stack, which must not be
        trained any more. They do not depend on the number of threads, so that results do not either.
        """
        most = 1 if self.is_split else max(min(VALUES_PER_PART // self.values_per_member, MEMBERS_PER_PART), 1)
        n_parts = -(-len(self.ids) // most)
        if self.device.type != "cpu" or n_parts == 1:
            return [self]
        return [self._part(index) for index in torch.arange(len(self.ids)).tensor_split(n_parts)]

    def _part(self, index: Tensor) -> "TrainingStack":
        """Return a stack of some members."""
        part = copy.copy(self)
        part.schedule, part.optimiser = copy.copy(self.schedule), copy.copy(self.optimiser)
        part._keep(index)
        return part


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


def _lower_precision(config: TrainingConfig, backbone: Backbone, device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    return config.precision == "bf16" or (config.precision == "auto" and backbone.precision == "bf16")


def _valid(counts: Tensor, n: int) -> Tensor:
    """Return which of `n` rows are not padding, of shape (n_members, n)."""
    return torch.arange(n, device=counts.device) < counts[:, None]


def _beside(values: Tensor, outputs: Tensor) -> Tensor:
    """Return numbers of each member, of shape (n_members,) or (n_members, d_out), that broadcast with outputs."""
    return values.view(len(values), *[1] * (outputs.dim() - 2), -1)
