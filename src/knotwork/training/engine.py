"""The engine: every training goes through one loop that trains a stack of members."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork.checks import argument_error
from knotwork.nn.backbones.config import Backbone
from knotwork.training.config import TrainingConfig
from knotwork.training.members import DeviceTable, Member, TrainingTable, in_units
from knotwork.training.network import Network
from knotwork.training.progress import EpochReport, Reporter
from knotwork.training.stack import TrainingStack, build_network, predict_stack

__all__ = ["History", "Piece", "Trained", "resolve_device", "train"]

DROP_SHARE = 0.25
"""Members that have stopped are taken out of the stack once they are this share of it."""

MEMORY_SHARE = 0.6
"""Share of the free memory that a stack may fill by estimate."""


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
    """

    loss: npt.NDArray[np.float64]
    score: npt.NDArray[np.float64]
    learning_rate: npt.NDArray[np.float64]
    best_epoch: int
    seconds: float

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
    """

    pieces: list[Piece]
    histories: list[History]
    units: npt.NDArray[np.float64]
    task: str
    interrupted: bool

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
            there = DeviceTable(
                torch.from_numpy(in_units(numbers, self.units)).to(device),
                torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64)).to(device),
                torch.empty(0),
                None,
                self.units,
            )
            own = [np.arange(len(numbers)) if rows is None else rows[place] for place in piece.places]
            longest = max(len(each) for each in own)
            padded = np.zeros((len(own), longest), dtype=np.int64)
            for place, each in enumerate(own):
                padded[place, : len(each)] = each
            outputs = predict_stack(piece.network, there, torch.from_numpy(padded).to(device)).double()
            if self.task == "regression":
                outputs = outputs * piece.scale[:, None, None] + piece.shift[:, None, None]
            for place, each, values in zip(piece.places, own, outputs.cpu().numpy(), strict=True):
                out[place] = values[: len(each)]
        return out


def train(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    config: TrainingConfig,
    *,
    device: str | torch.device = "auto",
    categories: str = "embedding",
    report: Reporter | None = None,
) -> Trained:
    """Train members together.

    What becomes of a member depends on its own rows, encoding and seed, not on the others.

    Parameters
    ----------
    table : TrainingTable
        The table.
    members : sequence of Member
        The members: any mix of encodings, sizes and rows.
    backbone : Backbone
        Configuration of the backbone, the same for all.
    config : TrainingConfig
        How they are trained.
    device : str or torch.device, default="auto"
        Where; by default on a GPU if there is one.
    categories : {"embedding", "code"}, default="embedding"
        Whether a category is a learned vector or its code taken as a number.
    report : Reporter, optional
        Is called after every epoch.

    Returns
    -------
    Trained
        Networks and histories. After Ctrl-C or the time limit they are the best so far.

    Notes
    -----
    Members of one size go into one stack, unless that would not fit into memory. A stack
    that runs out of memory all the same is trained as two halves.
    """
    if not members:
        raise argument_error("members", "be at least one", members)
    device = resolve_device(device)
    there = DeviceTable.from_table(table, device)
    waiting = _stacks(table, members, backbone, config, device)
    run = _Run(table, there, members, backbone, config, categories, report, time.perf_counter())
    with _matrix_precision(config, device):
        while waiting:
            places = waiting.pop(0)
            try:
                run.train(places, n_left=len(waiting))
            except torch.OutOfMemoryError:
                if len(places) == 1:
                    raise
                half = len(places) // 2
                waiting[:0] = [places[:half], places[half:]]
                if device.type == "cuda":
                    torch.cuda.empty_cache()
    histories = [run.histories[place] for place in range(len(members))]
    return Trained(run.pieces, histories, there.units, table.task, run.interrupted)


@dataclass
class _Run:
    """One call of `train`: what it was given, and what has come out so far."""

    table: TrainingTable
    there: DeviceTable
    members: Sequence[Member]
    backbone: Backbone
    config: TrainingConfig
    categories: str
    report: Reporter | None
    started: float
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.pieces: list[Piece] = []
        self.histories: dict[int, History] = {}

    def train(self, places: list[int], n_left: int) -> None:
        """Train the members of one stack."""
        members = [self.members[place] for place in places]
        begin = time.perf_counter()
        stack = TrainingStack(self.table, self.there, members, self.backbone, self.config, categories=self.categories)
        shift, scale = stack.shift.clone(), stack.scale.clone()
        reports: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
        best_epochs = np.full(len(places), -1)
        try:
            while not self._out_of_time(bool(reports)):
                reports.append(self._epoch(stack, best_epochs))
                alive = reports[-1][1][3] > 0
                if self.report is not None:
                    n_stacks = len(self.pieces) + 1 + n_left
                    steps = stack.n_steps * len(stack.ids)
                    epoch = EpochReport(
                        len(self.pieces),
                        n_stacks,
                        len(reports),
                        self.config.max_epochs,
                        int(alive.sum()),
                        len(places),
                        steps,
                    )
                    self.report(epoch)
                if not alive.any():
                    break
                if (~alive).mean() >= DROP_SHARE:
                    stack.drop()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            stack.release()
        self.pieces.append(self._piece(stack, members, places, shift, scale))
        seconds = time.perf_counter() - begin
        self._tell(places, reports, best_epochs, seconds)

    def _out_of_time(self, has_begun: bool) -> bool:
        """Return whether to stop; every stack has at least one epoch."""
        limit = self.config.time_limit
        late = limit is not None and time.perf_counter() - self.started > limit
        self.interrupted = self.interrupted or (late and has_begun)
        return self.interrupted and has_begun

    def _epoch(self, stack: TrainingStack, best_epochs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Train an epoch, and return who was in the stack and what it reports: the only word the host waits for."""
        stack.begin()
        for _ in range(stack.n_steps):
            stack.step()
        stack.finish()
        numbers = torch.cat([stack.report, stack.ids[None].double(), stack.schedule.best_epoch[None].double()])
        told = numbers.cpu().numpy()
        ids = told[4].astype(np.int64)
        best_epochs[ids] = told[5].astype(np.int64)
        return ids, told[:4]

    def _piece(
        self, stack: TrainingStack, members: Sequence[Member], places: list[int], shift: Tensor, scale: Tensor
    ) -> Piece:
        """Return a network with the best weights of all members, those that left before the end included."""
        network = build_network(
            self.table, members, self.backbone, units=self.there.units, categories=self.categories
        ).to(shift.device)
        tensors = [*network.parameters(), *(buffer for name, buffer in network.named_buffers() if "running" in name)]
        with torch.no_grad():
            for tensor, best in zip(tensors, stack.best, strict=True):
                tensor.copy_(best)
        return Piece(network.eval(), tuple(places), shift, scale)

    def _tell(self, places: list[int], reports: list[Any], best_epochs: npt.NDArray[Any], seconds: float) -> None:
        """Write the histories of a stack's members."""
        rows: list[list[npt.NDArray[np.float64]]] = [[] for _ in places]
        done = np.zeros(len(places), dtype=bool)
        for ids, told in reports:
            for column, member in enumerate(ids):
                if not done[member]:
                    rows[member].append(told[:3, column])
                    done[member] = told[3, column] == 0
        epochs = sum(len(row) for row in rows)
        for member, place in enumerate(places):
            loss, score, rate = np.array(rows[member]).reshape(-1, 3).T
            share = seconds * len(rows[member]) / max(epochs, 1)
            self.histories[place] = History(loss, score, rate, int(best_epochs[member]), share)


def resolve_device(device: str | torch.device) -> torch.device:
    """Return a device; ``"auto"`` is a GPU if there is one, otherwise the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise argument_error("device", "be 'auto' or a device of torch such as 'cpu' or 'cuda'", device) from error


def _stacks(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    config: TrainingConfig,
    device: torch.device,
) -> list[list[int]]:
    """Return which members are trained together, in the order of their kinds.

    Members of one size go together, for smaller blocks would be padded; those that are only scaled join the smallest
    others, unless each value is a token.
    """
    by_coordinate = backbone.name == "ft" and backbone.tokens == "coordinate"  # type: ignore[attr-defined]
    by_size: dict[Any, list[int]] = {}
    for place, member in enumerate(members):
        by_size.setdefault(member.sizes if by_coordinate else member.size, []).append(place)
    if not by_coordinate and len(by_size) > 1 and 1 in by_size:
        scaled = by_size.pop(1)
        by_size[min(by_size)] += scaled
    stacks = []
    for places in by_size.values():
        places.sort(key=lambda place: members[place].kinds)
        size = max(members[place].size for place in places)
        most = max(int(_free_memory(device) * MEMORY_SHARE / _member_bytes(table, size, backbone, config)), 1)
        stacks += np.array_split(np.array(places), -(-len(places) // most))
    return [[int(place) for place in stack] for stack in stacks]


def _member_bytes(table: TrainingTable, size: int, backbone: Backbone, config: TrainingConfig) -> int:
    """Return about how many bytes a member of a stack takes: weights, moments, gradients, and what backward needs."""
    n_features = table.numbers.shape[1]
    with torch.device("meta"):
        network = backbone.build(
            [size] * n_features, 8 * len(table.cardinalities), table.cardinalities, table.d_out, n_members=1
        )
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    batch = config.batch_size_for(len(table.target))
    per_row = backbone.activations([size] * n_features, len(table.cardinalities))
    return 4 * (7 * n_parameters + 2 * batch * per_row) + 16 * len(table.target)


def _free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@contextmanager
def _matrix_precision(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """Let float32 matrix products on a GPU run in tf32, unless float32 was asked for."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if config.precision == "float32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
