"""A stack in training: the steps of an epoch, validation scores, and the best weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor

from knotwork._kernels.dropout import Noise
from knotwork._kernels.fixed_order import fixed_order, row_sums
from knotwork.training._graphs import Replayed
from knotwork.training._job import StackJob
from knotwork.training._network import rate_groups
from knotwork.training._state import StackState

__all__ = ["TrainingStack"]


@final
class TrainingStack:
    """Members in training, in the order of their kinds; the stack owns its state, and steps change it in place.

    Parameters
    ----------
    job : StackJob
        What the members share with those of other stacks.
    state : StackState
        The state of the members.
    """

    def __init__(self, job: StackJob, state: StackState) -> None:
        self.job, self.state = job, state
        self.parameters = list(state.network.parameters())
        self.groups = rate_groups(state.network, job.backbone, job.config.knot_rate)[0]
        members, device = state.members, job.device
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
        self.rates = state.schedule.rates(job.config, self.groups, self.done.double())
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

    def _shares_done(self) -> Tensor:
        """Return the shares of the epoch at which rates are set, of shape (n, n_members): the middle of each step."""
        members, device = self.state.members, self.job.device
        if not self.job.config.is_stepwise:
            return torch.zeros(1, len(members.ids), device=device)
        steps = torch.arange(self.n_steps, device=device)[:, None] + 0.5
        return (steps / (members.n_train / self.job.batch_size).ceil()).clamp(max=1.0)

    def _begin(self) -> None:
        """Start an epoch: draw the order of the rows, set the learning rates."""
        members, schedule = self.state.members, self.state.schedule
        self.job.data.count_rows(members.n_train)
        self.order.copy_(members.order(schedule.epoch))
        if members.rates.shape[1] > 1:
            now = schedule.epoch.clamp(max=members.rates.shape[1] - 1)
            schedule.rate.copy_(members.rates.gather(1, now[:, None])[:, 0])
        epochs = self.pace[0] + self.pace[1] * self.done.double()
        self.rates.copy_(schedule.rates(self.job.config, self.groups, epochs))
        if self.state.penalty is not None:
            self.state.penalty.update()
        self.place.zero_()
        self.number.zero_()
        self.loss_sum.zero_()

    def _step(self) -> None:
        """Train every member on its next rows; members without rows left do not change."""
        job, data, state, members = self.job, self.job.data, self.state, self.state.members
        batch, offsets = len(self.offsets), self.offsets
        places = (self.place + offsets).clamp(max=self.order.shape[1] - 1)
        rows = self.order.index_select(1, places)
        counts = (members.n_train - self.place).clamp(0, batch)
        active = state.schedule.alive & (counts > 0)
        noise = Noise(members.seeds, members.steps_done)
        outputs, penalty = state.network(data.numbers[rows], data.codes[rows], counts=counts, noise=noise)
        known = (offsets < counts[:, None]).to(outputs.dtype)
        if data.weights is not None:
            known = known * data.weights[rows] * state.units.weight[:, None]
        by_row = job.losses(outputs, rows, state.units) * known
        losses = by_row.sum(dim=1) / counts.clamp(min=1)
        summands = [losses, penalty] if penalty.requires_grad else [losses]  # the gradient of their weighted sum
        weights = self.loss_weights[: len(summands)]
        if state.penalty is not None:  # only their gradient is needed
            summands.append(state.penalty.weights())
            weights.append(state.penalty.gradient(summands[-1].detach()))
        given: list[Tensor] | None = weights
        if job.device.type == "cpu":  # of numbers: torch loads sympy to compare the shapes of given weights
            summands, given = [(each * weight).sum() for each, weight in zip(summands, weights, strict=True)], None
        grads = torch.autograd.grad(summands, self.parameters, given, allow_unused=True)
        with torch.no_grad():
            state.optimiser.step(grads, self._step_rates(), active)
            if state.averages:
                self._average(active)
            if job.config.reproducible:
                with fixed_order():
                    losses = row_sums(by_row) / counts.clamp(min=1)
            self.loss_sum += losses.double() * counts
            members.steps_done.add_(active)
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
        averages, steps = self.state.averages, self.state.members.steps_done
        fresh = (9.0 / (10.0 + steps)).clamp(min=1.0 - self.job.config.weight_average)  # 1 - (1 + n) / (10 + n)
        fresh = torch.where(active, fresh, 0.0)
        shares = [fresh.view(-1, *[1] * (average.dim() - 1)) for average in averages]
        torch._foreach_lerp_(averages, self.state.optimiser.masters, shares)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Use the averages, if any, as the parameters of the network."""
        averages = self.state.averages
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
        schedule, state = self.state.schedule, self.state
        with self._averaged():
            scores = self._scores()
        schedule.update(scores, self.job.config)
        for best, now in zip(state.best, state.weights, strict=True):
            chosen = schedule.improved.view(-1, *[1] * (now.dim() - 1))
            best.copy_(torch.where(chosen, now, best))
        losses = self.loss_sum / state.members.n_train
        self.report.copy_(torch.stack([losses, scores, self.rates[0, 0].double(), schedule.alive.double()]))

    def _scores(self) -> Tensor:
        """Return each member's validation score, where smaller is better.

        Without validation rows it decreases with every epoch, so that the last weights are kept.
        """
        members = self.state.members
        no_rows = -(self.state.schedule.epoch + 1).double()
        if not members.valid_rows.shape[1]:
            return no_rows
        valid = members.valid_rows, members.n_valid, self.state.units
        scores = self.job.scores(self.state.network, *valid, lengths=self.valid_counts)
        return torch.where(members.n_valid > 0, scores, no_rows)

    def release(self) -> None:
        """Free the captured graphs."""
        for work in (self.begin, self.step, self.finish):
            work.release()
