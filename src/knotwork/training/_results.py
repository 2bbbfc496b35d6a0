"""What comes out of training: networks with their best weights, and how they were trained."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork.training._members import DeviceTable, in_units
from knotwork.training._network import Network, keep_members
from knotwork.training._stack import predict_stack

__all__ = ["History", "Piece", "Trained"]

LARGEST = np.finfo(np.float64).max
"""Predictions of targets near it are not larger."""


@dataclass(frozen=True)
class History:
    """How one member was trained.

    Parameters
    ----------
    loss, score, learning_rate : ndarray of shape (epochs,)
        Mean training loss (with dropout), validation score where smaller is better (the metric, or less it), and
        learning rate of each epoch.
    best_epoch : int
        Epoch of the best score, from 0, whose weights are kept; -1 if no score was ever a number.
    seconds : float
        The member's share of the time its stack took.
    epoch_seconds : float, optional
        Its share of an epoch, the median over epochs: unlike the mean, it does not hold what the first epoch takes to
        build networks, compile kernels and capture graphs. It is not saved with a model.
    """

    loss: npt.NDArray[np.float64]
    score: npt.NDArray[np.float64]
    learning_rate: npt.NDArray[np.float64]
    best_epoch: int
    seconds: float
    epoch_seconds: float = math.nan

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return len(self.loss)


@dataclass(frozen=True, eq=False)
class Piece:
    """Members that were trained as one stack, with their best weights.

    Parameters
    ----------
    network : Network
        The network, in float32.
    places : tuple of int
        Places of its members among all.
    shift, scale : Tensor of shape (n_members,)
        What regression outputs are multiplied by, and what is then added, float64.
    """

    network: Network
    places: tuple[int, ...]
    shift: Tensor
    scale: Tensor

    def keep(self, places: Sequence[int]) -> "Piece":
        """Return a piece of those of its members that are among some places, increasing, with a network of its own."""
        inside = [index for index, place in enumerate(self.places) if place in places]
        index = torch.tensor(inside, device=self.shift.device)
        network = copy.deepcopy(self.network)
        keep_members(network, index)
        encoding = network.encoding
        if not bool(encoding.learned.any()):
            encoding.logits = None  # nobody is left whose knots were learned
        return Piece(
            network, tuple(places.index(self.places[each]) for each in inside), self.shift[index], self.scale[index]
        )


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained members.

    Parameters
    ----------
    pieces : list of Piece
        The networks.
    histories : list of History
        One for each member.
    units : ndarray of shape (2, n_numerical)
        Origin and unit of each numerical column.
    task : {"regression", "classification"}
        What they predict.
    interrupted : bool
        Whether training was stopped from the keyboard or by the time limit.
    knot_paths : list of ndarray of shape (epochs + 1, n_features, K) or None, optional
        If they were kept, the learned knots of each member at the start and after every epoch, in the units of the
        data, padded with NaN; None for a member whose knots are not learned.
    """

    pieces: list[Piece]
    histories: list[History]
    units: npt.NDArray[np.float64]
    task: str
    interrupted: bool
    knot_paths: list[npt.NDArray[np.float64] | None] | None = None

    def keep(self, places: Sequence[int]) -> "Trained":
        """Return some of the members, in their order; what is here stays as it is.

        Parameters
        ----------
        places : sequence of int
            Places of the members, increasing.
        """
        if len(places) == len(self.histories):
            return self
        pieces = [piece.keep(places) for piece in self.pieces if set(piece.places) & set(places)]
        paths = None if self.knot_paths is None else [self.knot_paths[place] for place in places]
        return replace(self, pieces=pieces, histories=[self.histories[place] for place in places], knot_paths=paths)

    def outputs(
        self,
        numbers: npt.NDArray[np.float64],
        codes: npt.NDArray[np.int64],
        rows: Sequence[npt.NDArray[np.int64]] | None = None,
    ) -> list[npt.NDArray[np.float64]]:
        """Return predictions of every member: in units of the target, or logits of classes.

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
        out: list[Any] = [None] * len(self.histories)
        for piece in self.pieces:
            device = piece.shift.device
            data = DeviceTable(
                torch.from_numpy(in_units(numbers, self.units)).to(device),
                torch.from_numpy(np.array(codes, dtype=np.int64)).to(device),
                torch.empty(0),
                None,
                self.units,
            )
            own = [np.arange(len(numbers)) if rows is None else rows[place] for place in piece.places]
            longest = max(len(each) for each in own)
            padded = np.zeros((len(own), longest), dtype=np.int64)
            for place, each in enumerate(own):
                padded[place, : len(each)] = each
            outputs = predict_stack(piece.network, data, torch.from_numpy(padded).to(device)).double()
            if self.task == "regression":
                outputs = outputs * piece.scale[:, None, None] + piece.shift[:, None, None]
                outputs = outputs.clamp(-LARGEST, LARGEST)
            for place, each, values in zip(piece.places, own, outputs.cpu().numpy(), strict=True):
                out[place] = values[: len(each)]
        return out
