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
from knotwork.training._threads import cpu_threads, side_by_side

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
    some: bool = False,
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
        Configuration of the backbone, of members that have none of their own.
    config : TrainingConfig
        Configuration of training, of members that have none of their own; its time limit is that of the call.
    device : str or torch.device, default="auto"
        The device; by default a GPU if one is available.
    categories : {"embedding", "code", "mixed"}, default="embedding"
        Whether a category is a learned vector or its code taken as a number, or, in features of few categories,
        one-hot and otherwise a learned vector.
    report : Reporter, optional
        A function that is called after every epoch.
    keep_knots : bool, default=False
        Keep the learned knots of every epoch, as `Trained.knot_paths`.
    some : bool, default=False
        Whether some of the stacks are enough: those that have not begun when the time is up are left out. Otherwise
        each is trained for at least one epoch.

    Returns
    -------
    Trained
        Networks and histories. After Ctrl-C or the time limit they are the best so far.

    Notes
    -----
    Members of one backbone, configuration and size form one stack, unless that would not fit into memory. A stack that
    runs out of memory nevertheless is trained as two halves. Stacks are trained one after the other. Each gets a share
    of the remaining time in proportion to its work, and leaves the time that it does not need to the others. If its
    share does not suffice for all epochs of a cosine or of cycles, the learning rate falls faster.
    """
    if not members:
        raise argument_error("members", "contain at least one member", members)
    device = resolve_device(device)
    data = DeviceTable.from_table(table, device)
    waiting = plan_stacks(table, members, backbone, config, device)
    run = _Run(table, data, members, backbone, config, categories, report, keep_knots, some, len(waiting))
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
    some: bool
    n_stacks: int

    def __post_init__(self) -> None:
        self.pieces: list[Piece] = []
        self.histories: dict[int, History] = {}
        self.paths: dict[int, npt.NDArray[np.float64] | None] = {}
        self.started = self.last_report = time.perf_counter()
        self.deadline = math.inf
        self.costs = self._costs()
        self.cost_done = 0.0
        self.stopped = self.out_of_time = False
        self.n_threads = 1

    def _costs(self) -> npt.NDArray[np.float64]:
        """Return the approximate number of multiplications of the training of each member."""
        costs, products = np.zeros(len(self.members)), {}
        for place, member in enumerate(self.members):
            backbone, config = _settings(member, self.backbone, self.config)
            size = member.size if member.embedding is None else member.embedding.columns(member.size)
            key = backbone, size
            if key not in products:
                products[key] = backbone.products(_meta_network(self.table, size, backbone))
            costs[place] = config.max_epochs * len(member.train) * products[key]
        return costs

    def train(self, waiting: list[list[int]]) -> None:
        """Train stacks one after the other; after Ctrl-C the remaining ones keep their initial weights."""
        done = 0
        while waiting:
            places = waiting.pop(0)
            self._set_deadline(places, [place for stack in waiting for place in stack])
            try:
                self._train_stack(places, done)
                done += 1
                self.cost_done += self.costs[places].sum()
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
        backbone, config = _settings(members[0], self.backbone, self.config)
        stack = TrainingStack(self.table, self.data, members, backbone, config, categories=self.categories)
        shift, scale = stack.shift.clone(), stack.scale.clone()
        log, knots, wasted = EpochLog(len(places)), KnotPaths(enabled=self.keep_knots), 0.0
        pace = Pace(config.max_epochs)
        parts = stack.parts()
        try:
            knots.add(parts)
            while not self._stop(log.n_epochs):
                for part in parts:
                    part.set_pace(pace.epochs, pace.speed)
                report, seconds = _run_epoch(parts, self.n_threads), self._seconds()
                alive = log.add(report, seconds)
                knots.add(parts)  # before the report, which may raise KeyboardInterrupt
                pace.go_on(self.deadline - time.perf_counter() if config.is_stepwise else math.inf, seconds)
                self._report(number, parts, log.n_epochs, alive, places, pace)
                if not alive.any() or pace.is_done:
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

    def _set_deadline(self, places: list[int], waiting: list[int]) -> None:
        """Give a stack its share of the remaining time."""
        if self.config.time_limit is not None:
            now = time.perf_counter()
            left = max(self.started + self.config.time_limit - now, 0.0)
            cost = self.costs[places].sum()
            self.deadline = now + left * cost / (cost + self.costs[waiting].sum())

    def _stop(self, n_epochs: int) -> bool:
        """Return whether to stop; a stack is trained for one epoch even if the time is up, unless `some` are enough."""
        if (n_epochs or (self.some and self.pieces)) and time.perf_counter() > self.deadline:
            self.out_of_time = True
            return True
        return self.stopped

    def _report(
        self, number: int, parts: Sequence[TrainingStack], epoch: int, alive: Any, places: list[int], pace: "Pace"
    ) -> None:
        if self.report is None:
            return
        steps = sum(part.n_steps * len(part.ids) for part in parts)
        n_alive, last = int(alive.sum()), parts[0].config.max_epochs
        share = 1.0 if not n_alive else pace.epochs / last
        done = (self.cost_done + share * self.costs[places].sum()) / self.costs.sum()
        self.report(EpochReport(number, self.n_stacks, epoch, last, n_alive, len(places), steps, min(done, 1.0)))

    def _piece(
        self, stack: TrainingStack, members: Sequence[Member], places: list[int], shift: Tensor, scale: Tensor
    ) -> Piece:
        """Return a network with the best weights of all members, including those that were removed from the stack."""
        backbone, _ = _settings(members[0], self.backbone, self.config)
        network = build_network(self.table, members, backbone, units=self.data.units, categories=self.categories)
        network.to(shift.device)
        tensors = [*network.parameters(), *running_statistics(network)]
        with torch.no_grad():
            for tensor, best in zip(tensors, stack.best, strict=True):
                tensor.copy_(best)
        return Piece(network.eval(), tuple(places), shift, scale, backbone)


@dataclass
class Pace:
    """The place of a stack on its schedule, in epochs, and the epochs of the schedule that one epoch stands for.

    If the time does not suffice for all epochs, the learning rate falls faster: training that is cut off while the rate
    is high ends far from the optimum.
    """

    max_epochs: int
    epochs: float = 0.0
    speed: float = 1.0

    @property
    def is_done(self) -> bool:
        """Whether the schedule is at its end."""
        return self.epochs > self.max_epochs - 0.5

    def go_on(self, left: float, seconds: float) -> None:
        """Add an epoch that took `seconds`, and adapt the speed to the time that is left."""
        self.epochs += self.speed
        possible = max(left / max(seconds, 1e-9), 1.0)
        self.speed = max((self.max_epochs - self.epochs) / possible, 1.0)


def _run_epoch(parts: Sequence[TrainingStack], n_threads: int) -> npt.NDArray[np.float64]:
    """Train an epoch of the parts of a stack, and return the report for `EpochLog.add`."""
    reports = side_by_side([partial(_run_part, part) for part in parts], n_threads)
    return np.concatenate(reports, axis=1)


def _run_part(stack: TrainingStack, stop: Event) -> npt.NDArray[np.float64]:
    """Train an epoch of one part; the host waits for the device only here."""
    stack.begin()
    for _ in range(stack.n_steps):
        if stop.is_set():
            break
        stack.step()
    else:
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

    Members of one backbone, configuration, embedding and size form a stack, because smaller blocks would be padded;
    those that are only scaled join the smallest others, unless each value is a token.
    """
    groups: dict[Any, list[int]] = {}
    for place, member in enumerate(members):
        groups.setdefault((*_settings(member, backbone, config), member.embedding), []).append(place)
    memory = _free_memory(device) * MEMORY_SHARE
    stacks = []
    for (group_backbone, group_config, embedding), places in groups.items():
        for same_size in _by_size(places, members, group_backbone):
            same_size.sort(key=lambda place: members[place].kinds)
            size = max(members[place].size for place in same_size)
            columns = size if embedding is None else size + embedding.columns(size)
            most = max(int(memory / _member_bytes(table, columns, group_backbone, group_config)), 1)
            stacks += np.array_split(np.array(same_size), -(-len(same_size) // most))
    return [[int(place) for place in stack] for stack in stacks]


def _settings(member: Member, backbone: Backbone, config: TrainingConfig) -> tuple[Backbone, TrainingConfig]:
    """Return a member's backbone and configuration, or else those of the call."""
    return member.backbone or backbone, member.config or config


def _by_size(places: Sequence[int], members: Sequence[Member], backbone: Backbone) -> list[list[int]]:
    by_size: dict[Any, list[int]] = {}
    for place in places:
        by_size.setdefault(members[place].size if backbone.pads_blocks else members[place].sizes, []).append(place)
    if backbone.pads_blocks and len(by_size) > 1 and 1 in by_size:
        scaled = by_size.pop(1)
        by_size[min(by_size)] += scaled
    return list(by_size.values())


def _member_bytes(table: TrainingTable, size: int, backbone: Backbone, config: TrainingConfig) -> int:
    """Return an estimate of the bytes of a member in a stack.

    About 7 floats per parameter (weight, gradient, two moments, best weight, copies), 2 more with a moving average of
    the weights, 2 per activation (forward and
    backward), and 2 integers per row (rows of the table, and their order in the epoch).
    """
    n_parameters = sum(parameter.numel() for parameter in _meta_network(table, size, backbone).parameters())
    batch = config.batch_size_for(len(table.target))
    per_row = backbone.activations([size] * table.numbers.shape[1], len(table.cardinalities))
    per_parameter = 9 if config.weight_average else 7
    return 4 * (per_parameter * n_parameters + 2 * batch * per_row) + 16 * len(table.target)


def _meta_network(table: TrainingTable, size: int, backbone: Backbone) -> torch.nn.Module:
    """Return the network of one member behind its encoding, without memory for its parameters."""
    sizes, cardinalities = [size] * table.numbers.shape[1], table.cardinalities
    with torch.device("meta"):
        return backbone.build(sizes, 8 * len(cardinalities), cardinalities, table.d_out, n_members=1)


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
