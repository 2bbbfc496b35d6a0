"""The state of members in training: values from which stacks are built, and of which each owns its own.

A state is made once for all members of a stack (`starting_states`). Whenever members are divided among threads, stop,
or leave a trained model, `take` copies theirs into a new state; nothing is shared between two states.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, final

import torch
from torch import Tensor

from knotwork._kernels.adamw import AdamW
from knotwork._kernels.dropout import row_order
from knotwork.training._config import TrainingConfig
from knotwork.training._job import StackJob, Units
from knotwork.training._members import DeviceTable, Member, padded, planned_rates
from knotwork.training._network import (
    Network,
    RateGroup,
    matrices,
    rate_groups,
    running_statistics,
    take_members,
    weight_decays,
)
from knotwork.training._penalties import SmoothnessPenalty

__all__ = ["BestWeights", "MemberTensors", "Schedule", "StackState", "starting_states", "steps_are_large"]

MEMBERS_PER_PART, VALUES_PER_PART = 3, 3 << 19
"""Members that a thread trains together on a CPU, at most, and the activations of a step beyond which they are fewer:
a call for several small members saves time, large ones use more cores."""

N_START_ROWS = 256
"""Training rows that the initial parameters of some backbones depend on."""

THRESHOLD, SMALLEST_CHANGE = 1e-4, 1e-8
"""Relative improvement of a score that counts as better for the learning rate, and the reduction of the rate below
which none is made: those of torch's ReduceLROnPlateau."""


@final
class Schedule(NamedTuple):
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
    def from_rates(cls, rates: Tensor, last: Tensor | None = None) -> Self:
        """Start with the given learning rates, for at most the given numbers of epochs, if any."""
        worst = torch.full_like(rates, math.inf, dtype=torch.float64)
        zeros = torch.zeros_like(rates, dtype=torch.int64)
        no = torch.zeros_like(rates, dtype=torch.bool)
        last = torch.full_like(zeros, torch.iinfo(torch.int64).max) if last is None else last
        return cls(rates.clone(), zeros.clone(), worst, zeros - 1, worst.clone(), zeros.clone(), ~no, no, last)

    def take(self, index: Tensor) -> "Schedule":
        """Return the schedule of the members of an index."""
        return Schedule(*(values[index] for values in self))

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
        self.epoch.add_(self.alive)
        waited = self.epoch - 1 - self.best_epoch
        self.alive.logical_and_((self.epoch < config.max_epochs) & (self.epoch < self.last))
        if config.patience is not None:
            self.alive.logical_and_(waited < config.patience)

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
        """Return those of members before training, whose ids begin with `first`."""
        ids = torch.arange(first, first + len(members), device=job.device)
        seeds = torch.tensor([member.seed for member in members], device=job.device) % (2**31)
        train_rows, n_train = padded([member.train for member in members], job.device)
        valid_rows, n_valid = padded([member.valid for member in members], job.device)
        job.data.count_rows(n_train)
        rates = planned_rates(members, job.config).to(job.device)
        return cls(ids, seeds, train_rows, n_train, valid_rows, n_valid, rates, torch.zeros_like(seeds))

    def take(self, index: Tensor) -> "MemberTensors":
        """Return those of the members of an index."""
        return MemberTensors(*(values[index] for values in self))

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
class BestWeights(NamedTuple):
    """The weights of members in their best epoch, and the places of the members in the stack that they began in."""

    ids: Tensor
    weights: list[Tensor]

    def take(self, index: Tensor) -> "BestWeights":
        """Return those of the members of an index."""
        return BestWeights(self.ids[index], [each[index] for each in self.weights])

    @torch.no_grad()
    def write(self, network: Network) -> None:
        """Copy the weights into a network of all members."""
        for tensor, best in zip([*network.parameters(), *running_statistics(network)], self.weights, strict=True):
            tensor.index_copy_(0, self.ids, best)


@final
@dataclass(frozen=True, eq=False)
class StackState:
    """Everything that training changes or needs of the members of one stack, which owns it and changes it in place.

    `averages` are the moving averages of the parameters, if any, `best` the values of `weights` in the best epoch.
    """

    members: MemberTensors
    units: Units
    network: Network
    optimiser: AdamW
    schedule: Schedule
    averages: list[Tensor]
    best: list[Tensor]
    penalty: SmoothnessPenalty | None

    @classmethod
    def start(
        cls, job: StackJob, members: Sequence[Member], network: Network, *, first: int = 0,
        resumed: tuple[Tensor, Tensor] | None = None,
    ) -> Self:  # fmt: skip
        """Return the state of members before training.

        The network, which the state takes over, gets its initial parameters, unless training is resumed: then it has
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
        penalty = SmoothnessPenalty.of_members(members, network, backbone, config)
        lengths = [config.max_epochs if member.rates is None else len(member.rates) for member in members]
        schedule = Schedule.from_rates(tensors.rates[:, 0], torch.tensor(lengths, device=job.device))
        if _in_lower_precision(job):
            for parameter in matrices(network):
                parameter.data = parameter.data.bfloat16()
        if resumed is not None and tensors.valid_rows.shape[1]:
            with torch.no_grad():
                valid = tensors.valid_rows, tensors.n_valid, units
                scores = job.scores(network, *valid, lengths=[max(len(member.valid), 1) for member in members])
                schedule.start_from(torch.where(tensors.n_valid > 0, scores, math.inf))
        places = rate_groups(network, backbone, config.knot_rate)[1]
        decays = weight_decays(network, backbone, config.weight_decay)
        optimiser = AdamW(list(network.parameters()), decays=decays, groups=places, betas=(0.9, config.beta2))
        averages = [master.detach().clone() for master in optimiser.masters] if config.weight_average else []
        best = [each.detach().clone() for each in [*optimiser.masters, *running_statistics(network)]]
        return cls(tensors, units, network, optimiser, schedule, averages, best, penalty)

    @property
    def weights(self) -> list[Tensor]:
        """What is kept of members: parameters or averages of them, and statistics of batch normalisation."""
        return [*(self.averages or self.optimiser.masters), *running_statistics(self.network)]

    @property
    def best_weights(self) -> BestWeights:
        """The weights of all members in their best epoch."""
        return BestWeights(self.members.ids, self.best)

    def take(self, index: Tensor) -> "StackState":
        """Return a copy of the state of the members of an increasing index."""
        network = take_members(self.network, index)
        return StackState(
            self.members.take(index),
            self.units.take(index),
            network,
            self.optimiser.take(index, list(network.parameters())),
            self.schedule.take(index),
            [average[index] for average in self.averages],
            [best[index] for best in self.best],
            self.penalty and self.penalty.take(index, network),
        )


def starting_states(
    job: StackJob, members: Sequence[Member], network: Network, *, resumed: tuple[Tensor, Tensor] | None = None
) -> list[StackState]:
    """Return the states of stacks that threads may train side by side: one on a GPU, several on a CPU.

    They do not depend on the number of threads, so that results do not either. Arguments are those of
    `StackState.start`.
    """
    if job.members_alone:
        states = []
        for place, member in enumerate(members):
            index = torch.tensor([place])
            ends = None if resumed is None else (resumed[0][index], resumed[1][index])
            states.append(StackState.start(job, [member], take_members(network, index), first=place, resumed=ends))
        return states
    state = StackState.start(job, members, network, resumed=resumed)
    most = max(min(VALUES_PER_PART // job.values_per_member(network), MEMBERS_PER_PART), 1)
    n_parts = -(-len(members) // most)
    if job.device.type != "cpu" or n_parts == 1:
        return [state]
    return [state.take(index) for index in torch.arange(len(members)).tensor_split(n_parts)]


def steps_are_large(job: StackJob, network: Network) -> bool:
    """Return whether a step of one member is enough work for several threads that share each operation."""
    return job.device.type == "cpu" and 2 * job.values_per_member(network) > VALUES_PER_PART


def _in_lower_precision(job: StackJob) -> bool:
    if job.device.type != "cuda":
        return False
    return job.config.precision == "bf16" or (job.config.precision == "auto" and job.backbone.precision == "bf16")
