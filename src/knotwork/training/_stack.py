"""A stack in training: one step, one look at the validation rows, members that leave."""

import math
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from knotwork._kernels.adamw import AdamW
from knotwork._kernels.dropout import Noise, row_order
from knotwork.nn._backbones.config import Backbone
from knotwork.nn._stack import StackEncoding
from knotwork.training._config import TrainingConfig
from knotwork.training._members import DeviceTable, Member, TrainingTable
from knotwork.training._metrics import METRICS
from knotwork.training._network import Network, keep_members, matrices, weight_decays
from knotwork.training._replay import Replayed
from knotwork.training._schedule import Schedule

__all__ = ["TrainingStack", "build_network", "predict_stack", "validation_scores"]

ROWS_AT_ONCE = 1 << 18
"""Rows of all members together that are predicted at a time."""

PER_MEMBER = (
    "ids",
    "seeds",
    "train_rows",
    "n_train",
    "valid_rows",
    "n_valid",
    "shift",
    "scale",
    "weight_unit",
    "steps_done",
    "loss_sum",
)
"""What a stack holds for every member beside network, optimiser and schedule."""


def build_network(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    *,
    units: np.ndarray,
    categories: str = "embedding",
) -> Network:
    """Return the network of members that stand in the order of their kinds, on the CPU, not yet started."""
    blocks, learnable = [member.blocks for member in members], [member.learnable for member in members]
    encoding = StackEncoding.from_blocks(blocks, learnable, units=units)
    fan_in = torch.tensor([float(sum(block.size for block in member.blocks)) for member in members])
    return Network(encoding, table.cardinalities, backbone, table.d_out, categories=categories, fan_in=fan_in)


@final
class TrainingStack:
    """Members in training.

    Parameters
    ----------
    table : TrainingTable
        The table.
    there : DeviceTable
        The same on the device.
    members : sequence of Member
        The members, in the order of their kinds.
    backbone : Backbone
        Configuration of the backbone.
    config : TrainingConfig
        How they are trained.
    categories : {"embedding", "code"}
        What becomes of categories.
    """

    def __init__(
        self,
        table: TrainingTable,
        there: DeviceTable,
        members: Sequence[Member],
        backbone: Backbone,
        config: TrainingConfig,
        *,
        categories: str = "embedding",
    ) -> None:
        self.table, self.there, self.config = table, there, config
        self.device = device = there.numbers.device
        self.network = build_network(table, members, backbone, units=there.units, categories=categories).to(device)
        self.ids = torch.arange(len(members), device=device)
        self.seeds = torch.tensor([member.seed for member in members], device=device) % (2**31)
        self.network.start(self.seeds)
        self.network.train()
        self.batch_size = config.batch_size_for(len(table.target))
        self.train_rows, self.n_train = _padded([member.train for member in members], device)
        self.valid_rows, self.n_valid = _padded([member.valid for member in members], device)
        self.shift, self.scale = self._target_scale()
        self.weight_unit = self._weight_unit()
        self.steps_done = torch.zeros_like(self.seeds)
        self.loss_sum = torch.zeros(len(members), dtype=torch.float64, device=device)
        rates = [member.learning_rate or config.learning_rate for member in members]
        self.schedule = Schedule.from_rates(torch.tensor(rates, dtype=torch.float32, device=device))
        if _lower_precision(config, backbone, device):
            for parameter in matrices(self.network):
                parameter.data = parameter.data.bfloat16()
        parameters = list(self.network.parameters())
        groups = [int(name == "encoding.logits") for name, _ in self.network.named_parameters()]
        decays = weight_decays(self.network, config.weight_decay)
        self.n_groups = max(groups) + 1
        self.optimiser = AdamW(parameters, decays=decays, groups=groups)
        self.best = [master.detach().clone() for master in self._state()]
        self._make_buffers()

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: those of the member with the most rows."""
        return math.ceil(self.train_rows.shape[1] / self.batch_size)

    def _make_buffers(self) -> None:
        """Make what a step reads and writes in place, and forget graphs that were captured with other tensors."""
        self.place = torch.zeros((), dtype=torch.int64, device=self.device)
        self.order = torch.zeros_like(self.train_rows)
        self.rates = self.schedule.rates(self.config)[: self.n_groups].clone()
        ones = torch.ones(len(self.ids), device=self.device)
        self.loss_weights = [ones, self.config.spacing_weight * ones]
        self.report = torch.zeros(4, len(self.ids), dtype=torch.float64, device=self.device)
        pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self.begin = Replayed(self._begin, self.device, pool)
        self.step = Replayed(self._step, self.device, pool)
        self.finish = Replayed(self._finish, self.device, pool)

    def _state(self) -> list[Tensor]:
        """Return what makes up a member: its parameters, and what batch normalisation keeps."""
        return [*self.optimiser.masters, *_running(self.network)]

    def _target_scale(self) -> tuple[Tensor, Tensor]:
        """Return mean and spread of the target over each member's training rows; 0 and 1 for classes."""
        n_members = len(self.ids)
        if self.table.task == "classification":
            return torch.zeros(n_members, device=self.device), torch.ones(n_members, device=self.device)
        target = self.there.target[self.train_rows]
        known = torch.arange(target.shape[1], device=self.device) < self.n_train[:, None]
        largest = torch.where(known, target.abs(), 0.0).amax(dim=1).clamp(min=1e-300)  # so that no square overflows
        target = torch.where(known, target / largest[:, None], 0.0)
        mean = target.sum(dim=1) / self.n_train
        spread = (torch.where(known, target - mean[:, None], 0.0).square().sum(dim=1) / self.n_train).sqrt()
        return mean * largest, torch.where(spread > 1e-15, spread * largest, 1.0)

    def _scaled(self, target: Tensor) -> Tensor:
        """Return targets of shape (n_members, n) less their mean, over their spread; by halves, so none overflows."""
        return (0.5 * target - 0.5 * self.shift[:, None]) / (0.5 * self.scale[:, None])

    def _weight_unit(self) -> Tensor:
        """Return by what weights are multiplied so that their mean over each member's training rows is 1."""
        if self.there.weights is None:
            return torch.ones(len(self.ids), device=self.device)
        known = torch.arange(self.train_rows.shape[1], device=self.device) < self.n_train[:, None]
        total = torch.where(known, self.there.weights[self.train_rows].double(), 0.0).sum(dim=1)
        return (self.n_train / total.clamp(min=1e-300)).float()

    def _begin(self) -> None:
        """Start an epoch: a new order of the rows, the epoch's learning rates."""
        order = row_order(self.seeds, self.schedule.epoch, self.n_train, self.train_rows.shape[1])
        self.order.copy_(torch.gather(self.train_rows, 1, order))
        self.rates.copy_(self.schedule.rates(self.config)[: self.n_groups])
        self.place.zero_()
        self.loss_sum.zero_()

    def _step(self) -> None:
        """Train every member on its next rows; those that have none left wait."""
        batch = min(self.batch_size, self.train_rows.shape[1])
        offsets = torch.arange(batch, device=self.device)
        places = (self.place + offsets).clamp(max=self.order.shape[1] - 1)
        rows = self.order.index_select(1, places)
        counts = (self.n_train - self.place).clamp(0, batch)
        active = self.schedule.alive & (counts > 0)
        noise = Noise(self.seeds, self.steps_done)
        outputs, penalty = self.network(self.there.numbers[rows], self.there.codes[rows], counts=counts, noise=noise)
        known = (offsets < counts[:, None]).to(outputs.dtype)
        if self.there.weights is not None:
            known = known * self.there.weights[rows] * self.weight_unit[:, None]
        losses = (self._losses(outputs, rows) * known).sum(dim=1) / counts.clamp(min=1)
        parameters = list(self.network.parameters())
        wanted = [losses, penalty] if penalty.requires_grad else [losses]  # the gradient of their weighted sum
        grads = torch.autograd.grad(wanted, parameters, self.loss_weights[: len(wanted)], allow_unused=True)
        with torch.no_grad():
            self.optimiser.step(grads, self.rates, active)
            self.loss_sum += losses.double() * counts
            self.steps_done += active
            self.place += batch

    def _losses(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return the loss of every row, of shape (n_members, batch)."""
        target = self.there.target[rows]
        if self.table.task == "regression":
            return (outputs[..., 0] - self._scaled(target).to(outputs.dtype)).square()
        losses = nn.functional.cross_entropy(outputs.flatten(0, 1), target.flatten(), reduction="none")
        return losses.view_as(target)

    @torch.no_grad()
    def _finish(self) -> None:
        """End an epoch: score the validation rows, keep what is best, and decide who goes on."""
        scores = self._scores()
        self.schedule.update(scores, self.config)
        improved = self.schedule.improved
        for best, now in zip(self.best, self._state(), strict=True):
            chosen = improved.view(-1, *[1] * (now.dim() - 1))
            best.index_copy_(0, self.ids, torch.where(chosen, now, best.index_select(0, self.ids)))
        losses = self.loss_sum / self.n_train
        self.report.copy_(torch.stack([losses, scores, self.rates[0].double(), self.schedule.alive.double()]))

    def _scores(self) -> Tensor:
        """Return each member's validation score, where smaller is better."""
        if not self.valid_rows.shape[1]:
            return -(self.schedule.epoch + 1).double()
        outputs = predict_stack(self.network, self.there, self.valid_rows)
        target = self.there.target[self.valid_rows]
        weights = (torch.arange(target.shape[1], device=self.device) < self.n_valid[:, None]).double()
        if self.there.weights is not None:
            weights = weights * self.there.weights[self.valid_rows]
        if self.table.task == "regression":
            target = self._scaled(target)
        scores = validation_scores(self.config, self.table.task, outputs, target, weights)
        return torch.where(self.n_valid > 0, scores, -(self.schedule.epoch + 1).double())

    def release(self) -> None:
        """Free what was captured."""
        for work in (self.begin, self.step, self.finish):
            work.release()

    def drop(self) -> None:
        """Take out members that have stopped."""
        self.release()
        index = self.schedule.alive.nonzero()[:, 0]
        for name in PER_MEMBER:
            setattr(self, name, getattr(self, name)[index])
        keep_members(self.network, index)
        self.schedule.keep(index)
        self.optimiser.keep(index, list(self.network.parameters()))
        self._make_buffers()


def predict_stack(network: Network, there: DeviceTable, rows: Tensor) -> Tensor:
    """Return the outputs of every member for its rows, of shape (n_members, n, d_out)."""
    was_training = network.training
    network.eval()
    at_once = max(ROWS_AT_ONCE // len(rows), 1)
    with torch.no_grad():
        parts = [network(there.numbers[part], there.codes[part])[0] for part in torch.split(rows, at_once, dim=1)]
    network.train(was_training)
    return torch.cat(parts, dim=1)


def validation_scores(
    config: TrainingConfig, task: str, outputs: Tensor, target: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the score of every member, of shape (n_members,), where smaller is better.

    That is the metric of the configuration, or less it. Where all rows are of one class there is no AUC: there it is
    the log loss.

    Parameters
    ----------
    config : TrainingConfig
        Names the metric.
    task : {"regression", "classification"}
        What is predicted.
    outputs : Tensor of shape (n_members, n, d_out)
        Predictions, or logits of classes.
    target : Tensor of shape (n_members, n)
        Numbers, or class codes.
    weights : Tensor of shape (n_members, n), optional
        Weights of the rows.
    """
    metric = config.metric_for(task)
    scores = metric.function(outputs, target, weights)
    if not metric.lower_is_better:
        scores = -scores
    if metric.name == "auc":
        scores = torch.where(scores.isnan(), METRICS["log_loss"].function(outputs, target, weights), scores)
    return scores


def _running(network: Network) -> list[Tensor]:
    return [buffer for name, buffer in network.named_buffers() if "running" in name]


def _lower_precision(config: TrainingConfig, backbone: Backbone, device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    return config.precision == "bf16" or (config.precision == "auto" and backbone.name != "mlp")


def _padded(rows: Sequence[np.ndarray], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows of different numbers as one tensor, padded with zeros, and the numbers."""
    counts = torch.tensor([len(own) for own in rows])
    padded = torch.zeros(len(rows), int(counts.max()), dtype=torch.int64)
    for place, own in enumerate(rows):
        padded[place, : len(own)] = torch.from_numpy(np.asarray(own, dtype=np.int64))
    return padded.to(device), counts.to(device)
