"""The engine: every training goes through one loop that trains a stack of members."""

import math
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

from knotwork._checks import argument_error
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._knot_paths import KnotPaths
from knotwork.training._members import DeviceTable, Member, TrainingTable
from knotwork.training._progress import EpochReport, Reporter
from knotwork.training._results import History, Piece, Trained
from knotwork.training._stack import TrainingStack, build_network

__all__ = ["matrix_precision", "resolve_device", "train"]

DROP_STEPS = {"cpu": 2, "cuda": 50}
"""Members that have stopped are taken out of the stack once they have cost as much as taking them out does, counted in
steps of the whole stack: on a GPU, graphs are captured again; elsewhere, parameters and moments are copied."""


MEMORY_SHARE = 0.6
"""Share of the free memory that a stack may fill by estimate."""


def train(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    config: TrainingConfig,
    *,
    device: str | torch.device = "auto",
    categories: str = "embedding",
    report: Reporter | None = None,
    keep_knots: bool = False,
) -> Trained:
    """Train members together.

    A member's result depends on its own rows, encoding and seed, and on the others only by rounding: products in stacks
    of different shapes round differently.

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
    keep_knots : bool, default=False
        Keep where learned knots are after every epoch, as `Trained.knot_paths`.

    Returns
    -------
    Trained
        Networks and histories. After Ctrl-C or the time limit they are the best so far.

    Notes
    -----
    Members of one size go into one stack, unless that would not fit into memory. A stack
    that runs out of memory all the same is trained as two halves. Stacks are trained one after the other; each may take
    a share of the time that is left by its number of members, and what it does not need is left to the others.
    """
    if not members:
        raise argument_error("members", "be at least one", members)
    device = resolve_device(device)
    data = DeviceTable.from_table(table, device)
    waiting = plan_stacks(table, members, backbone, config, device)
    run = _Run(table, data, members, backbone, config, categories, report, keep_knots, n_stacks=len(waiting))
    with matrix_precision(config, device):
        run.train(waiting)
    pieces = sorted(run.pieces, key=lambda piece: piece.places)
    histories = [run.histories[place] for place in range(len(members))]
    paths = [run.paths[place] for place in range(len(members))] if keep_knots else None
    return Trained(pieces, histories, data.units, table.task, run.stopped or run.out_of_time, paths)


@dataclass
class _Run:
    """One call of `train`: what it was given, and what has come out so far."""

    table: TrainingTable
    data: DeviceTable
    members: Sequence[Member]
    backbone: Backbone
    config: TrainingConfig
    categories: str
    report: Reporter | None
    keep_knots: bool
    n_stacks: int

    def __post_init__(self) -> None:
        self.pieces: list[Piece] = []
        self.histories: dict[int, History] = {}
        self.paths: dict[int, npt.NDArray[np.float64] | None] = {}
        self.started = self.last_word = time.perf_counter()
        self.deadline = math.inf
        self.stopped = self.out_of_time = False

    def train(self, waiting: list[list[int]]) -> None:
        """Train stacks one after the other; after Ctrl-C those that are left stay as they start."""
        done = 0
        while waiting:
            places = waiting.pop(0)
            self._set_deadline(len(places), sum(map(len, waiting)))
            try:
                self._train_stack(places, done)
                done += 1
            except torch.OutOfMemoryError:
                if len(places) == 1:
                    raise
                half = len(places) // 2
                waiting[:0] = [places[:half], places[half:]]
                self.n_stacks += 1
                if self.data.numbers.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _train_stack(self, places: list[int], number: int) -> None:
        """Train the members of one stack."""
        members = [self.members[place] for place in places]
        stack = TrainingStack(self.table, self.data, members, self.backbone, self.config, categories=self.categories)
        shift, scale = stack.shift.clone(), stack.scale.clone()
        log, knots, wasted = _Log(len(places)), KnotPaths() if self.keep_knots else None, 0.0
        try:
            _add_knots(knots, stack)
            while not self._stop(log.n_epochs):
                alive = log.add(_run_epoch(stack), self._seconds())
                _add_knots(knots, stack)
                self._tell_progress(number, stack, log.n_epochs, alive, len(places))
                if not alive.any():
                    break
                wasted += stack.n_steps * (~alive).sum() / len(places)
                if wasted >= DROP_STEPS.get(shift.device.type, 2):
                    stack.drop()
                    wasted = 0.0
        except KeyboardInterrupt:
            self.stopped = True
        finally:
            stack.release()
        self.pieces.append(self._piece(stack, members, places, shift, scale))
        histories = log.histories()
        self.histories.update(zip(places, histories, strict=True))
        if knots is not None:
            paths = knots.paths(members, [history.epochs for history in histories])
            self.paths.update(zip(places, paths, strict=True))

    def _seconds(self) -> float:
        """Return the time since the last word from a stack."""
        before, self.last_word = self.last_word, time.perf_counter()
        return self.last_word - before

    def _set_deadline(self, n_members: int, n_waiting: int) -> None:
        """Give a stack its share of the time that is left."""
        if self.config.time_limit is not None:
            now = time.perf_counter()
            left = max(self.started + self.config.time_limit - now, 0.0)
            self.deadline = now + left * n_members / (n_members + n_waiting)

    def _stop(self, n_epochs: int) -> bool:
        """Return whether to stop; where time has run out, every stack still has an epoch."""
        if n_epochs and time.perf_counter() > self.deadline:
            self.out_of_time = True
            return True
        return self.stopped

    def _tell_progress(self, number: int, stack: TrainingStack, epoch: int, alive: Any, n_members: int) -> None:
        if self.report is None:
            return
        steps = stack.n_steps * len(stack.ids)
        last = self.config.max_epochs
        self.report(EpochReport(number, self.n_stacks, epoch, last, int(alive.sum()), n_members, steps))

    def _piece(
        self, stack: TrainingStack, members: Sequence[Member], places: list[int], shift: Tensor, scale: Tensor
    ) -> Piece:
        """Return a network with the best weights of all members, those that left before the end included."""
        network = build_network(
            self.table, members, self.backbone, units=self.data.units, categories=self.categories
        ).to(shift.device)
        tensors = [*network.parameters(), *(buffer for name, buffer in network.named_buffers() if "running" in name)]
        with torch.no_grad():
            for tensor, best in zip(tensors, stack.best, strict=True):
                tensor.copy_(best)
        return Piece(network.eval(), tuple(places), shift, scale)


def _add_knots(knots: KnotPaths | None, stack: TrainingStack) -> None:
    if knots is not None:
        knots.add(stack.ids, stack.network.encoding)


def _run_epoch(stack: TrainingStack) -> npt.NDArray[np.float64]:
    """Train an epoch, and return what it reports: the only word that the host waits for."""
    stack.begin()
    for _ in range(stack.n_steps):
        stack.step()
    stack.finish()
    numbers = torch.cat([stack.report, stack.ids[None].double(), stack.schedule.best_epoch[None].double()])
    report: npt.NDArray[np.float64] = numbers.cpu().numpy()
    return report


class _Log:
    """What a stack has reported, and what that says of each member."""

    def __init__(self, n_members: int) -> None:
        self.rows: list[list[npt.NDArray[np.float64]]] = [[] for _ in range(n_members)]
        self.best_epochs = np.full(n_members, -1)
        self.seconds: list[list[float]] = [[] for _ in range(n_members)]
        self.alive = np.ones(n_members, dtype=bool)
        self.n_epochs = 0

    def add(self, report: npt.NDArray[np.float64], seconds: float) -> npt.NDArray[np.bool_]:
        """Take in an epoch, which took a number of seconds, and return who goes on of those in the stack."""
        ids = report[4].astype(np.int64)
        still: npt.NDArray[np.bool_] = report[3] > 0
        trained = [(column, member) for column, member in enumerate(ids) if self.alive[member]]
        for column, member in trained:
            self.rows[member].append(report[:3, column].copy())
            self.best_epochs[member] = int(report[5, column])
            self.seconds[member].append(seconds / len(trained))
            self.alive[member] = still[column]
        self.n_epochs += 1
        return still

    def histories(self) -> list[History]:
        """Return the histories of the members."""
        out = []
        for rows, best, seconds in zip(self.rows, self.best_epochs, self.seconds, strict=True):
            loss, score, rate = np.array(rows).reshape(-1, 3).T
            typical = float(np.median(seconds)) if seconds else math.nan
            out.append(History(loss, score, rate, int(best), sum(seconds), typical))
        return out


def plan_stacks(
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
    by_size: dict[Any, list[int]] = {}
    for place, member in enumerate(members):
        by_size.setdefault(member.size if backbone.pads_blocks else member.sizes, []).append(place)
    if backbone.pads_blocks and len(by_size) > 1 and 1 in by_size:
        scaled = by_size.pop(1)
        by_size[min(by_size)] += scaled
    memory = _free_memory(device) * MEMORY_SHARE
    stacks = []
    for places in by_size.values():
        places.sort(key=lambda place: members[place].kinds)
        size = max(members[place].size for place in places)
        most = max(int(memory / _member_bytes(table, size, backbone, config)), 1)
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


def resolve_device(device: str | torch.device) -> torch.device:
    """Return a device; ``"auto"`` is a GPU if there is one, otherwise the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise argument_error("device", "be 'auto' or a device of torch such as 'cpu' or 'cuda'", device) from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise argument_error(
            "device",
            f"be available: torch sees {torch.cuda.device_count()} GPUs",
            device,
            "Choose 'cpu', or leave it at 'auto'.",
        )
    return found


@contextmanager
def matrix_precision(config: TrainingConfig, device: torch.device) -> Iterator[None]:
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
