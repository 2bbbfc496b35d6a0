"""The engine: every training goes through one loop that trains a stack of members."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._members import DeviceTable, Member, TrainingTable
from knotwork.training._progress import EpochReport, Reporter
from knotwork.training._results import EpochLog, History, KnotPaths, Piece, Trained
from knotwork.training._stack import TrainingStack, build_network, running_statistics
from knotwork.training._threads import StepThreads, cpu_threads, side_by_side

__all__ = ["matrix_precision", "resolve_device", "train"]

DROP_STEPS = {"cpu": 2, "cuda": 50}
"""Members that have stopped are removed from the stack once they have cost as much as their removal does, counted in
steps of the stack: on a GPU, graphs are captured again; elsewhere, parameters and moments are copied."""

MEMORY_SHARE = 0.6
"""Share of the free memory that a stack may fill: its size is only an estimate."""


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

    A member's result depends on its rows, encoding and seed, and on the other members only by rounding: products in
    stacks of different shapes round differently.

    Parameters
    ----------
    table : TrainingTable
        The table.
    members : sequence of Member
        The members: any mix of encodings, sizes and rows.
    backbone : Backbone
        Configuration of the backbone, the same for all.
    config : TrainingConfig
        Configuration of training.
    device : str or torch.device, default="auto"
        The device; by default a GPU if one is available.
    categories : {"embedding", "code"}, default="embedding"
        Whether a category is a learned vector or its code taken as a number.
    report : Reporter, optional
        A function that is called after every epoch.
    keep_knots : bool, default=False
        Keep the learned knots of every epoch, as `Trained.knot_paths`.

    Returns
    -------
    Trained
        Networks and histories. After Ctrl-C or the time limit they are the best so far.

    Notes
    -----
    Members of one size form one stack, unless that would not fit into memory. A stack that runs out of memory
    nevertheless is trained as two halves. Stacks are trained one after the other. Each gets a share of the remaining
    time in proportion to its number of members, and leaves the time that it does not need to the others.
    """
    if not members:
        raise argument_error("members", "contain at least one member", members)
    device = resolve_device(device)
    data = DeviceTable.from_table(table, device)
    waiting = plan_stacks(table, members, backbone, config, device)
    run = _Run(table, data, members, backbone, config, categories, report, keep_knots, n_stacks=len(waiting))
    with matrix_precision(config, device), cpu_threads(device) as run.n_threads:
        run.train(waiting)
    pieces = sorted(run.pieces, key=lambda piece: piece.places)
    histories = [run.histories[place] for place in range(len(members))]
    paths = [run.paths[place] for place in range(len(members))] if keep_knots else None
    return Trained(pieces, histories, data.units, table.task, run.stopped or run.out_of_time, paths)


@dataclass
class _Run:
    """One call of `train`: its arguments, and the results so far."""

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
        self.started = self.last_report = time.perf_counter()
        self.deadline = math.inf
        self.stopped = self.out_of_time = False
        self.n_threads = 1

    def train(self, waiting: list[list[int]]) -> None:
        """Train stacks one after the other; after Ctrl-C the remaining ones keep their initial weights."""
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
                if self.data.numbers.device.type == "cuda":  # cached blocks have the sizes of the larger stack
                    torch.cuda.empty_cache()

    def _train_stack(self, places: list[int], number: int) -> None:
        """Train the members of one stack."""
        members = [self.members[place] for place in places]
        stack = TrainingStack(self.table, self.data, members, self.backbone, self.config, categories=self.categories)
        shift, scale = stack.shift.clone(), stack.scale.clone()
        log, knots, wasted = EpochLog(len(places)), KnotPaths(enabled=self.keep_knots), 0.0
        parts, threads = stack.parts(), StepThreads(self.n_threads if stack.is_large else 1)
        try:
            knots.add(parts)
            while not self._stop(log.n_epochs):
                alive = log.add(_run_epoch(parts, self.n_threads, threads), self._seconds())
                knots.add(parts)  # before the report, which may raise KeyboardInterrupt
                self._report(number, parts, log.n_epochs, alive, len(places))
                if not alive.any():
                    break
                # Steps of the whole stack that members take which have stopped.
                wasted += stack.n_steps * (~alive).sum() / len(places)
                if wasted >= DROP_STEPS.get(shift.device.type, 2):
                    parts = _drop(parts)
                    wasted = 0.0
        except KeyboardInterrupt:
            self.stopped = True
        finally:
            for part in parts:
                part.release()
        self.pieces.append(self._piece(stack, members, places, shift, scale))
        histories = log.histories()
        self.histories.update(zip(places, histories, strict=True))
        paths = knots.paths(members, [history.epochs for history in histories])
        self.paths.update(zip(places, paths, strict=True))

    def _seconds(self) -> float:
        """Return the time since the last epoch of any stack."""
        before, self.last_report = self.last_report, time.perf_counter()
        return self.last_report - before

    def _set_deadline(self, n_members: int, n_waiting: int) -> None:
        """Give a stack its share of the remaining time."""
        if self.config.time_limit is not None:
            now = time.perf_counter()
            left = max(self.started + self.config.time_limit - now, 0.0)
            self.deadline = now + left * n_members / (n_members + n_waiting)

    def _stop(self, n_epochs: int) -> bool:
        """Return whether to stop; every stack is trained for one epoch even if the time is up."""
        if n_epochs and time.perf_counter() > self.deadline:
            self.out_of_time = True
            return True
        return self.stopped

    def _report(self, number: int, parts: Sequence[TrainingStack], epoch: int, alive: Any, n_members: int) -> None:
        if self.report is None:
            return
        steps = sum(part.n_steps * len(part.ids) for part in parts)
        n_alive, last = int(alive.sum()), self.config.max_epochs
        self.report(EpochReport(number, self.n_stacks, epoch, last, n_alive, n_members, steps))

    def _piece(
        self, stack: TrainingStack, members: Sequence[Member], places: list[int], shift: Tensor, scale: Tensor
    ) -> Piece:
        """Return a network with the best weights of all members, including those that were removed from the stack."""
        network = build_network(
            self.table, members, self.backbone, units=self.data.units, categories=self.categories
        ).to(shift.device)
        tensors = [*network.parameters(), *running_statistics(network)]
        with torch.no_grad():
            for tensor, best in zip(tensors, stack.best, strict=True):
                tensor.copy_(best)
        return Piece(network.eval(), tuple(places), shift, scale)


def _run_epoch(parts: Sequence[TrainingStack], n_threads: int, threads: StepThreads) -> npt.NDArray[np.float64]:
    """Train an epoch of the parts of a stack, and return the report for `EpochLog.add`.

    `n_threads` run parts side by side; a part that is alone may use `threads` instead.
    """
    steps = threads if len(parts) == 1 else StepThreads(1)
    return np.concatenate(side_by_side([partial(_run_part, part, steps) for part in parts], n_threads), axis=1)


def _run_part(stack: TrainingStack, threads: StepThreads, stop: Event) -> npt.NDArray[np.float64]:
    """Train an epoch of one part; the host waits for the device only here."""
    stack.begin()
    if threads.run(stack.step, stack.n_steps, stop):
        stack.finish()
    numbers = torch.cat([stack.report, stack.ids[None].double(), stack.schedule.best_epoch[None].double()])
    report: npt.NDArray[np.float64] = numbers.cpu().numpy()
    return report


def _drop(parts: Sequence[TrainingStack]) -> list[TrainingStack]:
    """Remove members that have stopped, and return the parts that have others."""
    left = [part for part in parts if bool(part.schedule.alive.any())]
    for part in left:
        if not bool(part.schedule.alive.all()):
            part.drop()
    return left


def plan_stacks(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    config: TrainingConfig,
    device: torch.device,
) -> list[list[int]]:
    """Return the places of the members of each stack, in the order of their kinds.

    Members of one size form a stack, because smaller blocks would be padded; those that are only scaled join the
    smallest others, unless each value is a token.
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
    """Return an estimate of the bytes of a member in a stack.

    About 7 floats per parameter (weight, gradient, two moments, best weight, copies), 2 per activation (forward and
    backward), and 2 integers per row (rows of the table, and their order in the epoch).
    """
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
    """Return a device; ``"auto"`` is a GPU if one is available, otherwise the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise argument_error("device", "be 'auto' or a device of torch such as 'cpu' or 'cuda'", device) from error
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise argument_error(
            "device",
            f"be available: torch sees {torch.cuda.device_count()} GPUs",
            device,
            "Choose 'cpu', or leave it at 'auto'.",
        )
    return resolved


@contextmanager
def matrix_precision(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """Use tf32 for float32 matrix products on a GPU, unless the configuration requires float32."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if config.precision == "float32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
