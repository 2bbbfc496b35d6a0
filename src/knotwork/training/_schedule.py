"""Early stopping and learning rates of every member, on the device: nothing waits for the host."""

import math
from dataclasses import dataclass, fields
from typing import final

import torch
from torch import Tensor

from knotwork.training._config import TrainingConfig

__all__ = ["Schedule"]

THRESHOLD = 1e-4
"""Share by which a score must improve to count as better for the learning rate, as in torch's ReduceLROnPlateau."""

SMALLEST_CHANGE = 1e-8
"""A reduction of the learning rate by no more than this is left out, as there."""


@final
@dataclass(eq=False)
class Schedule:
    """Where every member of a stack stands.

    Parameters
    ----------
    rate : Tensor of shape (n_members,)
        Learning rate of each member, before a schedule over epochs.
    epoch : Tensor of shape (n_members,)
        Epochs done.
    best : Tensor of shape (n_members,)
        Best score so far, where smaller is better.
    best_epoch : Tensor of shape (n_members,)
        Epoch of the best score, counted from 0; -1 before the first.
    plateau_best, plateau_bad : Tensor of shape (n_members,)
        Best score that counted for the learning rate, and epochs since.
    alive : Tensor of shape (n_members,)
        Which members are still trained.
    improved : Tensor of shape (n_members,)
        Which members had their best score in the last epoch.
    """

    rate: Tensor
    epoch: Tensor
    best: Tensor
    best_epoch: Tensor
    plateau_best: Tensor
    plateau_bad: Tensor
    alive: Tensor
    improved: Tensor

    @classmethod
    def from_rates(cls, rates: Tensor) -> "Schedule":
        """Start with learning rates of shape (n_members,)."""
        worst = torch.full_like(rates, math.inf, dtype=torch.float64)
        zeros = torch.zeros_like(rates, dtype=torch.int64)
        no = torch.zeros_like(rates, dtype=torch.bool)
        return cls(rates.clone(), zeros.clone(), worst, zeros - 1, worst.clone(), zeros.clone(), ~no, no)

    def update(self, scores: Tensor, config: TrainingConfig) -> None:
        """Take in the scores of an epoch, where smaller is better and NaN is never better."""
        self.improved.copy_(self.alive & (scores < self.best))
        self.best.copy_(torch.where(self.improved, scores, self.best))
        self.best_epoch.copy_(torch.where(self.improved, self.epoch, self.best_epoch))
        if config.schedule == "plateau":
            self._reduce(scores, config)
        self.epoch += self.alive
        waited = self.epoch - 1 - self.best_epoch
        self.alive &= (waited < config.patience) & (self.epoch < config.max_epochs)

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

    def rates(self, config: TrainingConfig) -> Tensor:
        """Return the learning rates of the network and of the knots in the present epoch, of shape (2, n_members)."""
        rate = self.rate
        if config.schedule == "cosine":
            rise = max(config.max_epochs // 20, 1)
            share = (self.epoch + 1).to(rate.dtype)
            fall = 0.5 * (1 + torch.cos(math.pi * (share - rise) / (config.max_epochs - rise + 1)))
            rate = rate * torch.where(share <= rise, share / rise, fall)
        knots = torch.where(self.epoch >= config.knot_warmup, rate * config.knot_rate, 0.0)
        return torch.stack([rate, knots])

    def keep(self, index: Tensor) -> None:
        """Keep the members of an index only."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name)[index])
