"""The input of training, a table and members that each have rows, an encoding and a random seed, and its units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from knotwork._checks import argument_error, check_choice
from knotwork.basis import FittedColumn
from knotwork.encoders import Embedding
from knotwork.knots import TASKS, usual_range
from knotwork.nn import Backbone, InteractionConfig, kind_of
from knotwork.training._chunks import RowChunks
from knotwork.training._config import TrainingConfig
from knotwork.training._objectives import USUAL_OBJECTIVES, Array, Objective

SMALLEST_UNIT = 1e-290
"""Smallest unit of a column: its half and its inverse are normal numbers."""

UNIT_ROWS = 1 << 13
"""Rows that are converted to units at a time, so that intermediate results stay in the cache."""


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """A table; it is copied to the device once, and members name their rows of it.

    Parameters
    ----------
    numbers : ndarray of shape (n, n_numerical)
        Numerical features, float64, NaN where missing, otherwise finite.
    codes : ndarray of shape (n, n_categorical)
        Codes of the categories from 0, int64.
    target : ndarray of shape (n,) or (n, n_targets)
        Numbers, of several targets one column each, or class codes from 0.
    task : {"regression", "classification"}
        The task.
    cardinalities : tuple of int
        Number of codes of each categorical feature.
    n_classes : int
        Number of classes; 0 for regression.
    weights : ndarray of shape (n,), optional
        Weights of the rows in the loss and in the validation score, not negative.
    objective : Objective, optional
        What networks are trained for; by default the squared error, or the cross-entropy of classes.
    chunks : RowChunks, optional
        Training rows that do not fit in memory; the rows of the arrays are then a sample of them, and validation rows.
    """

    numbers: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]
    target: npt.NDArray[Any]
    task: str
    cardinalities: tuple[int, ...] = ()
    n_classes: int = 0
    weights: npt.NDArray[np.float64] | None = None
    objective: Objective | None = None
    chunks: RowChunks | None = None

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)
        if self.objective is not None and self.objective.task != self.task:
            raise argument_error("objective", f"be one for {self.task}", self.objective)
        for name, array in (("codes", self.codes), ("target", self.target), ("weights", self.weights)):
            if array is not None and len(array) != len(self.numbers):
                raise argument_error(name, f"have as many rows as numbers, {len(self.numbers)}", len(array))
        if self.codes.shape[1] != len(self.cardinalities):
            requirement = f"have one number for each of {self.codes.shape[1]} columns of codes"
            raise argument_error("cardinalities", requirement, self.cardinalities)

    @property
    def n_rows(self) -> int:
        """Number of rows, those for validation included, whether they are in memory or not."""
        return len(self.target) if self.chunks is None else self.chunks.n_rows + self.chunks.n_held

    @property
    def n_at_once(self) -> int:
        """Number of rows that are on the device at a time, without those that are only used for validation."""
        return len(self.target) if self.chunks is None else self.chunks.capacity

    @property
    def d_out(self) -> int:
        """Number of outputs of a network."""
        if self.task == "classification":
            return max(self.n_classes, 2)
        return self.n_targets * self.goal.n_outputs

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return math.prod(self.target.shape[1:])

    @property
    def goal(self) -> Objective:
        """The objective, or that of the task."""
        return self.objective or USUAL_OBJECTIVES[self.task]


@dataclass(frozen=True, eq=False)
class Member:
    """One network among those trained together.

    Parameters
    ----------
    train, valid : ndarray of int
        Rows of the table for training, and for early stopping; without validation rows training runs all epochs.
    encodings : sequence of FittedColumn
        The encoding of each numerical feature: `fitted_` of a fitted encoder.
    learnable : bool, default=False
        Whether its knots are learned.
    seed : int, default=0
        Random seed of the initial parameters, the order of rows, and dropout.
    learning_rate : float, optional
        Replaces that of the training configuration.
    embedding : Embedding, optional
        A learned map of each feature's encoded values.
    interactions : InteractionConfig, optional
        Learned functions of pairs of features, which are given by their places.
    backbone : Backbone, optional
        Replaces that of the call of `train`.
    config : TrainingConfig, optional
        Replaces that of the call, except for its time limit.
    rates : ndarray of shape (epochs,), optional
        Learning rate of each epoch, which a schedule over all epochs multiplies; training ends with the last one.
    learned_missing : bool, default=False
        Whether a missing number is a learned vector in place of zeros.
    """

    train: npt.NDArray[np.int64]
    valid: npt.NDArray[np.int64]
    encodings: Sequence[FittedColumn]
    learnable: bool = False
    seed: int = 0
    learning_rate: float | None = None
    embedding: Embedding | None = None
    interactions: InteractionConfig | None = None
    backbone: Backbone | None = None
    config: TrainingConfig | None = None
    rates: npt.NDArray[np.float64] | None = None
    learned_missing: bool = False

    def __post_init__(self) -> None:
        if not len(self.train):
            raise argument_error("train", "name at least one row", self.train)

    def without_rows(self) -> "Member":
        """Return the member with its first training row only and no validation rows: the rest describes its network."""
        return replace(self, train=self.train[:1], valid=self.valid[:0])

    @property
    def settings(self) -> tuple[Backbone, TrainingConfig]:
        """Backbone and configuration, which `complete` has set."""
        assert self.backbone is not None
        assert self.config is not None
        return self.backbone, self.config

    @property
    def size(self) -> int:
        """Columns of its widest encoding."""
        return max((encoding.size for encoding in self.encodings), default=1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of each encoding."""
        return tuple(encoding.size for encoding in self.encodings)

    @property
    def n_columns(self) -> int:
        """Inputs of the backbone from all features together."""
        return sum(self.sizes if self.embedding is None else map(self.embedding.columns, self.sizes))

    @property
    def kinds(self) -> tuple[Any, ...]:
        """Kinds of its functions; members of the same kinds are encoded in one pass."""
        return (*(kind_of(encoding, self.learnable) for encoding in self.encodings), self.learnable)


def complete(members: Sequence[Member], backbone: Backbone, config: TrainingConfig) -> list[Member]:
    """Return members that have a backbone and a configuration, by default the given ones."""
    return [replace(each, backbone=each.backbone or backbone, config=each.config or config) for each in members]


def column_units(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return origin and unit of each column, of shape (2, d), in which float32 can distinguish its values.

    The origin is the smallest value of `usual_range`, the unit its length, at least `SMALLEST_UNIT`; columns with a
    single value have the unit 1.
    """
    units = np.zeros((2, numbers.shape[1]))
    units[1] = 1.0
    for index, column in enumerate(numbers.T):
        if not np.isnan(column).all():
            low, high = usual_range(column)
            spread = min(high - low, float(np.finfo(np.float64).max))
            units[:, index] = low, max(spread, SMALLEST_UNIT) if spread > 0 else 1.0
    return units


def in_units(numbers: npt.NDArray[np.float64], units: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return ``(numbers - origin) / unit`` in float32; values that overflow are clipped."""
    out = np.empty(numbers.shape, dtype=np.float32)
    limit = float(np.finfo(np.float32).max) / 4  # so that encodings can subtract such values
    for start in range(0, len(numbers), UNIT_ROWS):
        # Halves: the difference of two finite numbers may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (0.5 * numbers[start : start + UNIT_ROWS] - 0.5 * units[0]) / (0.5 * units[1])
        out[start : start + UNIT_ROWS] = np.clip(scaled, -limit, limit, out=scaled)
    return out


def output_units(objective: Objective, units: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
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


def target_units(objective: Objective, target: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
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
    is_row = torch.arange(target.shape[1], device=target.device) < counts[:, None]
    largest = torch.where(is_row, target.abs(), 0.0).amax(dim=1).clamp(min=1e-300)
    target = torch.where(is_row, target / largest[:, None], 0.0)  # so that no square overflows
    shift, scale = objective.units(target, is_row)
    # A spread of rounding errors is a constant target: with a unit as small as that, every network predicts it.
    return shift * largest, torch.where(scale > 1e-15, scale * largest, (1e-15 * largest).clamp(min=1e-300))


def padded(rows: Sequence[np.ndarray], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows of different lengths as one tensor, padded with zeros, and the lengths."""
    tensors = [torch.from_numpy(np.array(member_rows, dtype=np.int64)) for member_rows in rows]
    return pad_sequence(tensors, batch_first=True).to(device), torch.tensor(list(map(len, rows)), device=device)


def planned_rates(members: Sequence[Member], config: TrainingConfig) -> Tensor:
    """Return the learning rates of the epochs, of shape (n_members, epochs); one epoch if a schedule changes the first.

    Either all members of a stack have `Member.rates`, or none has.
    """
    rates = [
        np.array([member.learning_rate or config.learning_rate]) if member.rates is None else member.rates
        for member in members
    ]
    longest = max(map(len, rates))
    rows = np.stack([np.pad(each, (0, longest - len(each)), mode="edge") for each in rates])
    return torch.from_numpy(rows).float()


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """A `TrainingTable` on a device, with numbers in float32 and in `units` of shape (2, n_numerical).

    If its rows are in chunks, `count` is the number of rows of the chunk that is loaded, and the rows of the table come
    after room for the largest chunk.
    """

    numbers: Tensor
    codes: Tensor
    target: Tensor
    weights: Tensor | None
    units: npt.NDArray[np.float64]
    count: Tensor | None = None

    @classmethod
    def from_table(
        cls, table: TrainingTable, device: torch.device, *, units: npt.NDArray[np.float64] | None = None
    ) -> "DeviceTable":
        """Copy a table to a device, by default in units of its own columns."""
        if units is None:
            units = column_units(table.numbers) if table.chunks is None else table.chunks.units
        kind = torch.float64 if table.task == "regression" else torch.int64
        weights = None if table.weights is None else torch.from_numpy(np.array(table.weights))
        room = 0 if table.chunks is None else table.chunks.capacity

        def with_room(values: Tensor) -> Tensor:
            return torch.cat([values.new_zeros(room, *values.shape[1:]), values]) if room else values

        return cls(
            with_room(torch.from_numpy(in_units(table.numbers, units)).to(device)),
            with_room(torch.from_numpy(np.array(table.codes, dtype=np.int64)).to(device)),
            with_room(torch.from_numpy(np.array(table.target)).to(device=device, dtype=kind)),
            None if weights is None else with_room(weights.to(device=device, dtype=torch.float32)),
            units,
            torch.zeros((), dtype=torch.int64, device=device) if room else None,
        )

    def count_rows(self, n_train: Tensor) -> None:
        """Set the number of training rows of members to that of the chunk that is loaded, if rows are in chunks."""
        if self.count is not None:
            n_train.copy_(self.count)
