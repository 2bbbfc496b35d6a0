"""What is trained: a table, and members that each have rows, an encoding and a seed of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error, check_choice
from knotwork.basis._blocks import Block
from knotwork.knots import TASKS
from knotwork.nn._stack import kind_of

__all__ = ["Member", "TrainingTable", "column_units", "to_usual_range", "usual_range"]

TAIL, FAR = 0.005, 10.0
"""What the middle of a column leaves out at either end, and how far out a value lies, in extents of that middle."""

SMALLEST_UNIT = 1e-290
"""Smallest unit of a column: its half and one over it are ordinary numbers."""


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """A table that lies on a device once, whichever of its rows are whose.

    Parameters
    ----------
    numbers : ndarray of shape (n, n_numerical)
        Numerical features, float64, NaN where missing, otherwise finite.
    codes : ndarray of shape (n, n_categorical)
        Codes of the categories from 0, int64.
    target : ndarray of shape (n,)
        Numbers, or class codes from 0.
    task : {"regression", "classification"}
        What the target is.
    cardinalities : tuple of int
        Number of codes of each categorical feature.
    n_classes : int
        Number of classes; 0 for regression.
    weights : ndarray of shape (n,), optional
        Weights of the rows in the loss and in the validation score, not negative.
    """

    numbers: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]
    target: npt.NDArray[Any]
    task: str
    cardinalities: tuple[int, ...] = ()
    n_classes: int = 0
    weights: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        check_choice(self.task, "task", TASKS)
        for name, array in (("codes", self.codes), ("target", self.target), ("weights", self.weights)):
            if array is not None and len(array) != len(self.numbers):
                raise argument_error(name, f"have as many rows as numbers has, {len(self.numbers)}", len(array))
        if self.codes.shape[1] != len(self.cardinalities):
            raise argument_error("cardinalities", f"be {self.codes.shape[1]} numbers", self.cardinalities)

    @property
    def d_out(self) -> int:
        """Number of outputs of a network."""
        return 1 if self.task == "regression" else max(self.n_classes, 2)


@dataclass(frozen=True, eq=False)
class Member:
    """One network among those trained together.

    Parameters
    ----------
    train, valid : ndarray of int
        Rows of the table to train on, and to stop early by; without validation rows training goes on to the end.
    blocks : sequence of Block
        The encoding of each numerical feature, as a fitted encoder holds it (`encoder.blocks_`).
    learnable : bool, default=False
        Whether its knots are learned.
    seed : int, default=0
        Decides where parameters start, the order of rows, and dropout.
    learning_rate : float, optional
        Another learning rate than that of the training configuration.
    """

    train: npt.NDArray[np.int64]
    valid: npt.NDArray[np.int64]
    blocks: Sequence[Block]
    learnable: bool = False
    seed: int = 0
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if not len(self.train):
            raise argument_error("train", "name at least one row", self.train)

    @property
    def size(self) -> int:
        """Columns of its widest block."""
        return max((block.size for block in self.blocks), default=1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of each block."""
        return tuple(block.size for block in self.blocks)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """What must agree for members to be encoded in one pass."""
        return (*(kind_of(block, self.learnable) for block in self.blocks), self.learnable)


def usual_range(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest value of a column, of those that do not lie far out.

    With s the distance between the ends of the middle 99 % (of few values, all but two at either end), a value lies far
    out if it is farther than ``FAR s`` from them: a slip of the keyboard, a code for "unknown", a sensor that failed.
    One of them in the range would leave all the others on one spot of it. Where s is 0, none does: the few others are
    what the column has to say.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column, NaN where missing, with at least one number.

    Returns
    -------
    tuple of float
        The two values.
    """
    present = values[~np.isnan(values)]
    tail = max(int(TAIL * len(present)), 2)
    if len(present) > 2 * tail + 1:
        ordered = np.partition(present, [tail, len(present) - 1 - tail])
        low, high = float(ordered[tail]), float(ordered[-1 - tail])
        reach = FAR * (high - low)  # of Python's floats: beyond the largest there is infinity, without a warning
        if reach > 0.0:
            present = present[(present >= low - reach) & (present <= high + reach)]
    return float(present.min()), float(present.max())


def to_usual_range(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a column whose values that lie far out are moved to the ends of its `usual_range`; NaN stays."""
    return values if np.isnan(values).all() else np.clip(values, *usual_range(values))


def column_units(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return origin and unit of each column, of shape (2, d): with them float32 tells its values apart.

    The origin is the smallest value, the unit the range, or `SMALLEST_UNIT` if that is larger, both by `usual_range`;
    columns without a range have the unit 1.
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
    """Return ``(numbers - origin) / unit`` in float32; what overflows becomes the largest number there is."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (0.5 * numbers - 0.5 * units[0]) / (0.5 * units[1])
    limit = float(np.finfo(np.float32).max) / 4
    clipped: npt.NDArray[np.float64] = np.clip(scaled, -limit, limit)
    return clipped.astype(np.float32)


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """A table on a device.

    Parameters
    ----------
    numbers, codes, target, weights : Tensor
        As in `TrainingTable`, the numbers in their units.
    units : ndarray of shape (2, n_numerical)
        The units.
    """

    numbers: Tensor
    codes: Tensor
    target: Tensor
    weights: Tensor | None
    units: npt.NDArray[np.float64]

    @classmethod
    def from_table(cls, table: TrainingTable, device: torch.device) -> "DeviceTable":
        """Copy a table to a device."""
        units = column_units(table.numbers)
        kind = torch.float64 if table.task == "regression" else torch.int64
        return cls(
            torch.from_numpy(in_units(table.numbers, units)).to(device),
            torch.from_numpy(np.array(table.codes, dtype=np.int64)).to(device),
            torch.from_numpy(np.array(table.target)).to(device=device, dtype=kind),
            None
            if table.weights is None
            else torch.from_numpy(np.array(table.weights)).to(device=device, dtype=torch.float32),
            units,
        )
