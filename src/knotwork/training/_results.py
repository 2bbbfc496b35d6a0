"""The output of training: reports of its progress, then networks with their best weights, histories, learned knots.

Reports go to callbacks, to the log, and to a line of progress in the terminal.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork.basis import FittedBasis, FittedColumn
from knotwork.nn import Backbone
from knotwork.training._execution import cpu_threads
from knotwork.training._members import Member, all_predictions, in_units, output_units, padded, score_units
from knotwork.training._network import Network, moved, predict_stack, take_members
from knotwork.training._objectives import Objective

if TYPE_CHECKING:  # rich is optional: it is imported where progress is shown
    pass

FloatArray = npt.NDArray[np.float64]


LOGGER = logging.getLogger("knotwork")
"""The log of fits: a line for each epoch at the level DEBUG, and for each fit at INFO."""


class StopTraining(Exception):  # noqa: N818 - it is no error
    """Raised by a callback to stop training at the end of the epoch; the best weights so far are kept."""


@dataclass(frozen=True, eq=False)
class EpochReport:
    """The progress of a stack, networks that are trained together, after an epoch.

    Parameters
    ----------
    stack, n_stacks : int
        Number of the stack, from 0, and number of all stacks of the fit.
    epoch, max_epochs : int
        Number of the epoch, from 1, and the most that the stack is trained for.
    n_alive, n_members : int
        Networks of the stack that continue, and all of them.
    steps : int
        Steps of all networks of the stack in this epoch.
    done : float
        Minimum share of the work of all stacks that is done.
    n_training : int
        Networks in training in all stacks.
    loss : float
        Mean training loss of the networks that were trained in this epoch.
    scores : ndarray of shape (n_members,)
        Validation score of each network in the units of the target; NaN for those that had stopped before.
    metric : str
        Name of the score in `knotwork.training.METRICS`.
    seconds : float
        Time since training began.
    """

    stack: int
    n_stacks: int
    epoch: int
    max_epochs: int
    n_alive: int
    n_members: int
    steps: int
    done: float = 0.0
    n_training: int = 0
    loss: float = math.nan
    scores: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    metric: str = ""
    seconds: float = 0.0


Reporter = Callable[[EpochReport], Any]
"""A function that is called after every epoch; training stops if it returns True or raises `StopTraining`."""


def log_epoch(report: EpochReport) -> None:
    """Write a line to the log."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        scores = report.scores[~np.isnan(report.scores)]
        ends = " to ".join(f"{end:.5g}" for end in sorted({scores.min(), scores.max()})) if len(scores) else "unknown"
        LOGGER.debug(
            "epoch %d of %d, stack %d of %d: loss %.5g, %s %s, %d of %d networks continue, %.1f s",
            *(report.epoch, report.max_epochs, report.stack + 1, report.n_stacks, report.loss, report.metric, ends),
            *(report.n_alive, report.n_members, report.seconds),
        )


@final
class Reporters:
    """Calls several functions after every epoch, and asks to stop if one of them does; `stopped` says if one did."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters, self.stopped = tuple(reporters), False

    def __call__(self, report: EpochReport) -> bool:
        """Return whether training is to stop: all functions are called in any case."""
        for reporter in self._reporters:
            try:
                answer = reporter(report)
            except StopTraining:
                answer = True
            # Only True stops: a callback may return what it has stored or printed.
            self.stopped |= isinstance(answer, bool | np.bool_) and bool(answer)
        return self.stopped


@dataclass(frozen=True)
class History:
    """The course of the training of one member.

    Parameters
    ----------
    loss, score, learning_rate : ndarray of shape (epochs,)
        Mean training loss (with dropout), validation score where smaller is better (the metric, negated if larger is
        better), and learning rate of each epoch.
    best_epoch : int
        Epoch of the best score, from 1, whose weights are kept; 0 if no score was a number.
    seconds : float
        The member's share of the time of its stack.
    epoch_seconds : float, optional
        Its share of an epoch, the median over epochs: unlike the mean, it does not include the time of the first epoch
        to build networks, compile kernels and capture graphs. It is not saved with a model.
    """

    loss: FloatArray
    score: FloatArray
    learning_rate: FloatArray
    best_epoch: int
    seconds: float
    epoch_seconds: float = math.nan

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return len(self.loss)

    def followed_by(self, later: "History") -> "History":
        """Return this history continued by a later one, whose training was resumed from the best weights."""
        return History(
            np.concatenate([self.loss, later.loss]),
            np.concatenate([self.score, later.score]),
            np.concatenate([self.learning_rate, later.learning_rate]),
            self.epochs + later.best_epoch if later.best_epoch else self.best_epoch,
            self.seconds + later.seconds,
            later.epoch_seconds,
        )


@final
class EpochLog:
    """Collects the reports of a stack, epoch after epoch."""

    def __init__(self, n_members: int) -> None:
        self.epochs: list[FloatArray] = []
        self.best_epochs, self.lengths = np.zeros((2, n_members), dtype=np.int64)
        self.alive = np.ones(n_members, dtype=bool)

    @property
    def n_epochs(self) -> int:
        """Number of epochs so far."""
        return len(self.epochs)

    def add(self, report: FloatArray, seconds: float) -> npt.NDArray[np.bool_]:
        """Add an epoch, and return which members of the stack continue.

        The rows of `report`, with one column per member of the stack: loss, score, learning rate, whether the member
        continues, its place among the members that the stack began with, best epoch from 0. An epoch in `epochs` has
        loss, score, learning rate and seconds of every member that was trained in it, otherwise NaN.
        """
        places = report[4].astype(np.int64)
        alive: npt.NDArray[np.bool_] = report[3] > 0
        trained = self.alive[places]
        report, now = report[:, trained], places[trained]
        epoch = np.full((4, len(self.alive)), np.nan)
        epoch[:3, now], epoch[3, now] = report[:3], seconds / max(len(now), 1)
        self.epochs.append(epoch)
        self.lengths[now] += 1
        self.best_epochs[now] = report[5] + 1
        self.alive[now] = report[3] > 0
        return alive

    def histories(self) -> list[History]:
        """Return the histories of the members."""
        histories = []
        epochs = np.array(self.epochs).reshape(-1, 4, len(self.alive))
        for place, (n, best) in enumerate(zip(self.lengths, self.best_epochs, strict=True)):
            loss, score, rate, seconds = epochs[:n, :, place].T.copy()
            typical = float(np.median(seconds)) if n else math.nan
            histories.append(History(loss, score, rate, int(best), float(seconds.sum()), typical))
        return histories


def knot_paths(
    snapshots: Sequence[tuple[Tensor, Tensor]], members: Sequence[Member], epochs: Sequence[int]
) -> list[FloatArray | None]:
    """Return `Trained.knot_paths` of the members that a stack began with, trained for `epochs`.

    A snapshot has the places of members in the stack, and their breaks of shape (n_members, n_features, K + 2).
    """
    on_host = [(ids.tolist(), breaks.double().cpu().numpy()) for ids, breaks in snapshots]
    paths: list[FloatArray | None] = []
    for place, (member, n_epochs) in enumerate(zip(members, epochs, strict=True)):
        steps = [breaks[ids.index(place)] for ids, breaks in on_host if place in ids][: n_epochs + 1]
        paths.append(_in_data_units(np.stack(steps), member.encodings) if steps and member.learnable else None)
    return paths


def _in_data_units(breaks: FloatArray, encodings: Sequence[FittedColumn]) -> FloatArray:
    """Return the knots of scaled breaks of shape (n, n_features, K + 2) in the units of the data."""
    counts = [len(encoding.basis.knots) if isinstance(encoding, FittedBasis) else 0 for encoding in encodings]
    knots = np.full((len(breaks), len(encodings), max(counts, default=0)), np.nan)
    for feature, (encoding, count) in enumerate(zip(encodings, counts, strict=True)):
        if isinstance(encoding, FittedBasis):
            low, high = encoding.basis.domain
            knots[:, feature, :count] = low + (high - low) * breaks[:, feature, 1 : count + 1]
    return knots


@dataclass(frozen=True, eq=False)
class TableInputs:
    """The columns of a table as members take them.

    Parameters
    ----------
    numbers : ndarray of shape (n, n_numerical)
        Numerical columns, NaN where missing.
    codes : ndarray of shape (n, n_categorical)
        Codes of the categories.
    units : ndarray of shape (2, n_numerical)
        Origin and unit of each numerical column.
    """

    numbers: FloatArray
    codes: npt.NDArray[np.int64]
    units: FloatArray

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Numbers in their units, and codes."""
        return torch.from_numpy(in_units(self.numbers, self.units)), torch.from_numpy(np.array(self.codes, np.int64))


@dataclass(frozen=True, eq=False)
class Piece(ABC):
    """Members that were trained together.

    Parameters
    ----------
    places : tuple of int
        Places of its members among all.
    shift, scale : Tensor of shape (n_members,) or (n_members, n_targets)
        Regression predictions are multiplied by `scale`, then `shift` is added, except to distances; float64.
    """

    places: tuple[int, ...]
    shift: Tensor
    scale: Tensor

    @abstractmethod
    def take(self, places: Sequence[int]) -> "Piece":
        """Return a piece of its members at increasing places among all."""

    @abstractmethod
    def to(self, device: torch.device) -> "Piece":
        """Return the piece with its tensors on a device."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of values of its members that training has decided."""

    @abstractmethod
    def predictions(
        self, inputs: TableInputs, rows: Sequence[npt.NDArray[np.int64]], objective: Objective
    ) -> list[FloatArray]:
        """Return what each member predicts for its rows, in units of its target, or logits; of shape (n, d_out)."""

    def in_target_units(self, predictions: Sequence[FloatArray], objective: Objective) -> list[FloatArray]:
        """Return predictions of the members of a regression in the units of the target."""
        shift, scale = (each.cpu().numpy() for each in output_units(objective, (self.shift, self.scale)))
        most = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            moved = [values * unit + origin for values, origin, unit in zip(predictions, shift, scale, strict=True)]
        return [np.clip(values, -most, most) for values in moved]

    def _kept(self, places: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
        """Return which members are kept at increasing places among all, and their new places."""
        kept = [index for index, place in enumerate(self.places) if place in places]
        return kept, tuple(places.index(self.places[old]) for old in kept)


@dataclass(frozen=True, eq=False)
class NetworkPiece(Piece):
    """Members that were trained as one stack, with their best weights.

    Parameters
    ----------
    places, shift, scale
        As in `Piece`.
    network : Network
        The network, in float32.
    backbone : Backbone
        Configuration of the network after the encoding.
    """

    network: Network
    backbone: Backbone

    def take(self, places: Sequence[int]) -> "NetworkPiece":
        """Return a piece of its members at increasing places, with copies of their tensors."""
        kept, new_places = self._kept(places)
        index = torch.tensor(kept, device=self.shift.device)
        network = take_members(self.network, index)
        if not bool(network.encoding.learned.any()):
            network.encoding.logits = None  # none of the members that are left has learned knots
        return replace(self, places=new_places, shift=self.shift[index], scale=self.scale[index], network=network)

    @property
    def n_parameters(self) -> int:
        """Number of parameters of its networks."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def to(self, device: torch.device) -> "NetworkPiece":
        """Return the piece with its tensors on a device; those that are on it already are not copied."""
        shift, scale = self.shift.to(device), self.scale.to(device)
        return replace(self, shift=shift, scale=scale, network=moved(self.network, device))

    def predictions(
        self, inputs: TableInputs, rows: Sequence[npt.NDArray[np.int64]], objective: Objective
    ) -> list[FloatArray]:
        """Return what each network predicts for its rows."""
        device = self.shift.device
        row_tensor, counts = padded(rows, device)
        numbers, codes = (each.to(device) for each in inputs.tensors)
        with cpu_threads(device) as n_threads:
            outputs = predict_stack(
                self.network, numbers, codes, row_tensor, n_threads=n_threads, counts=counts
            ).double()
        if objective.task == "regression":
            n_targets = 1 if self.shift.dim() == 1 else self.shift.shape[1]
            outputs = all_predictions(objective, outputs, n_targets)
        return [values[: len(of_member)] for values, of_member in zip(outputs.cpu().numpy(), rows, strict=True)]


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained members.

    Parameters
    ----------
    pieces : list of Piece
        The members.
    histories : list of History
        One for each member.
    units : ndarray of shape (2, n_numerical)
        Origin and unit of each numerical column.
    objective : Objective
        What they were trained for.
    interrupted : bool
        Whether training was stopped by Ctrl-C or by the time limit.
    knot_paths : list of ndarray of shape (epochs + 1, n_features, K) or None, optional
        If they were kept, the learned knots of each member at the start and after every epoch, in the units of the
        data, padded with NaN to the largest number K of knots; None for a member without learned knots.
    stopped : bool
        Whether it was Ctrl-C or a callback that stopped training.
    """

    pieces: list[Piece]
    histories: list[History]
    units: FloatArray
    objective: Objective
    interrupted: bool
    knot_paths: list[FloatArray | None] | None = None
    stopped: bool = False

    @property
    def networks(self) -> list[NetworkPiece]:
        """The pieces that are networks."""
        return [piece for piece in self.pieces if isinstance(piece, NetworkPiece)]

    @property
    def spreads(self) -> FloatArray:
        """The unit of each member's scores, of shape (n_members,): the spread of the target, or 1 (`score_units`)."""
        spreads = np.empty(len(self.histories))
        for piece in self.pieces:
            spreads[list(piece.places)] = score_units(self.objective, piece.scale)
        return spreads

    def take(self, places: Sequence[int]) -> "Trained":
        """Return the members at increasing places.

        Parameters
        ----------
        places : sequence of int
            Places of the members, increasing.
        """
        if len(places) == len(self.histories):
            return self
        pieces = [piece.take(places) for piece in self.pieces if set(piece.places) & set(places)]
        paths = None if self.knot_paths is None else [self.knot_paths[place] for place in places]
        return replace(self, pieces=pieces, histories=[self.histories[place] for place in places], knot_paths=paths)

    @classmethod
    def joined(cls, parts: Sequence["Trained"], groups: Sequence[Sequence[int]]) -> "Trained":
        """Return the members of all parts; `groups` are the places that those of each part get."""
        pieces: list[Piece] = []
        histories: dict[int, History] = {}
        paths: dict[int, FloatArray | None] = {}
        for part, group in zip(parts, groups, strict=True):
            pieces += [replace(piece, places=tuple(group[place] for place in piece.places)) for piece in part.pieces]
            histories.update(zip(group, part.histories, strict=True))
            paths.update(zip(group, part.knot_paths or [], strict=part.knot_paths is not None))
        return replace(
            parts[0],
            pieces=sorted(pieces, key=lambda piece: piece.places),
            histories=[histories[place] for place in sorted(histories)],
            interrupted=any(part.interrupted for part in parts),
            stopped=any(part.stopped for part in parts),
            knot_paths=[paths[place] for place in sorted(paths)] if paths else None,
        )

    def to(self, device: torch.device) -> "Trained":
        """Return the members with all networks on a device."""
        return replace(self, pieces=[piece.to(device) for piece in self.pieces])

    def outputs(
        self,
        numbers: FloatArray,
        codes: npt.NDArray[np.int64],
        rows: Sequence[npt.NDArray[np.int64]] | None = None,
    ) -> list[FloatArray]:
        """Return predictions of every member: in units of the target, or logits of classes.

        Of several targets, and of objectives with several predictions of each, those of the first target come first.

        Parameters
        ----------
        numbers : ndarray of shape (n, n_numerical)
            Numerical features, NaN where missing.
        codes : ndarray of shape (n, n_categorical)
            Codes of the categories.
        rows : sequence of ndarray, optional
            The rows that each member predicts; by default all.

        Returns
        -------
        list of ndarray of shape (n rows, d_out)
            One for each member.
        """
        predictions: list[Any] = [None] * len(self.histories)
        inputs, everything = TableInputs(numbers, codes, self.units), np.arange(len(numbers))
        for piece in self.pieces:
            piece_rows = [everything if rows is None else rows[place] for place in piece.places]
            values = piece.predictions(inputs, piece_rows, self.objective)
            if self.objective.task == "regression":
                values = piece.in_target_units(values, self.objective)
            for place, of_member in zip(piece.places, values, strict=True):
                predictions[place] = of_member
        return predictions
