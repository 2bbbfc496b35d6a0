"""The engine: every training goes through one loop that trains a stack of members."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import HAS_TRITON
from knotwork.basis import Functions
from knotwork.encoders import Embedding
from knotwork.nn import WAVE_KINDS, Backbone, kind_of
from knotwork.training._chunks import ChunkLoader, as_streamed
from knotwork.training._config import TrainingConfig
from knotwork.training._execution import StepThreads, cpu_threads, in_turns
from knotwork.training._members import DeviceTable, Member, TrainingTable, complete, score_units
from knotwork.training._network import Network, build_network, running_statistics
from knotwork.training._results import EpochLog, EpochReport, NetworkPiece, Reporter, Reporters, Trained, knot_paths
from knotwork.training._stack import StackJob, TrainingStack, starting_stacks, steps_are_large

DROP_STEPS = {"cpu": 2, "cuda": 50}
"""Members that have stopped are removed from the stack once they have cost as much as their removal does, counted in
steps of the stack: on a GPU, graphs are captured again; elsewhere, parameters and moments are copied."""

MOST_SIDE_BY_SIDE, POLL_SECONDS = 8, 5e-5
"""Most stacks of an ensemble that are trained side by side on a GPU, and the seconds between checks of them."""

SIDE_BY_SIDE_SHARE = 0.3
"""Share of the free memory that stacks side by side may fill."""

STEPS_PER_TURN = 4
"""Steps of a part before the next part has its turn."""

SLACK = 1.2
"""A stack of those in order begins if, as fast as those before it, it takes at most this many times the time left: a
schedule can be made somewhat shorter, but networks that are cut short add nothing."""

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
    ensemble: bool = False,
    in_order: bool = False,
    start: Trained | None = None,
) -> Trained:
    """Train members together.

    A member's result depends on its rows, encoding and seed, and on the other members only by rounding: products in
    stacks of different shapes round differently. With `TrainingConfig.reproducible` it does not depend on them at all.

    Parameters
    ----------
    table : TrainingTable
        The table.
    members : sequence of Member
        The members: any mix of encodings, sizes and rows.
    backbone : Backbone
        Configuration of the backbone of members without a `Member.backbone`.
    config : TrainingConfig
        Configuration of training of members without a `Member.config`; its time limit is that of the call.
    device : str or torch.device, default="auto"
        The device; by default a GPU if one is available.
    categories : {"embedding", "code", "mixed"}, default="embedding"
        Whether a category is a learned vector or its code taken as a number, or, in features of few categories,
        one-hot and otherwise a learned vector.
    report : Reporter, optional
        A function that is called after every epoch; training stops if it returns True or raises `StopTraining`.
    keep_knots : bool, default=False
        Keep the learned knots of every epoch, as `Trained.knot_paths`.
    ensemble : bool, default=False
        Whether the members are parts of one model, for which some suffice. Stacks are then trained side by side on a
        GPU, which small ones leave idle most of the time, and those that have not begun when the time is up are left
        out. Otherwise they are trained one after the other, and each for at least one epoch.
    in_order : bool, default=False
        Whether the first members of an ensemble are the most valuable ones: each stack then has all the time that is
        left, and stacks are left out for which it would not suffice.
    start : Trained, optional
        Networks to resume from, one for each member in the same order. Each keeps its encoding, its best weights unless
        a new epoch is better, and its history, to which the new epochs are appended.

    Returns
    -------
    Trained
        Networks and histories. After Ctrl-C, the time limit or a report that stops they are the best so far.

    Notes
    -----
    Members of one backbone, configuration and size form one stack, unless that would not fit into memory. A stack that
    runs out of memory nevertheless is trained as two halves. Stacks are trained one after the other. Each gets a share
    of the remaining time in proportion to its work, and leaves the time that it does not need to the others. If its
    share is too short for all epochs of a cosine or of cycles, the learning rate falls faster.

    Where rows are in chunks (`TrainingTable.chunks`), each chunk counts as an epoch: members are validated after it,
    and a pass over the rows has as many epochs as there are chunks. The next chunk is loaded meanwhile.
    """
    if not members:
        raise argument_error("members", "contain at least one member", members)
    members = complete(members, backbone, config)
    if table.chunks is not None:
        members = as_streamed(table.chunks, members)
    device = resolve_device(device)
    for member in members:
        _check_reproducible(member, device)
    data = DeviceTable.from_table(table, device, units=None if start is None else start.units)
    waiting = plan_stacks(table, members, device, start)
    reporters = None if report is None else Reporters([report])
    run = _TrainCall(
        table,
        data,
        members,
        config.time_limit,
        categories,
        reporters,
        keep_knots,
        ensemble,
        in_order,
        len(waiting),
        start,
    )
    with matrix_precision(config, device), cpu_threads(device) as run.n_threads:
        run.train(waiting)
    joined = Trained.joined(run.trained, run.groups)
    return replace(joined, interrupted=run.stopped or run.out_of_time, stopped=run.stopped)


@dataclass
class _TrainCall:
    """One call of `train`: its arguments, and the results so far."""

    table: TrainingTable
    data: DeviceTable
    members: Sequence[Member]
    time_limit: float | None
    categories: str
    report: Reporters | None
    keep_knots: bool
    ensemble: bool
    in_order: bool
    n_stacks: int
    start: Trained | None

    def __post_init__(self) -> None:
        self.trained: list[Trained] = []
        self.groups: list[list[int]] = []
        self.started = self.last_report = time.perf_counter()
        self.deadline = math.inf
        self.costs = training_costs(self.table, self.members)
        self.shares: dict[int, float] = {}
        self.stopped = self.out_of_time = False
        self.n_threads = 1
        self.training: list[_RunningStack] = []

    def train(self, waiting: list[list[int]]) -> None:
        """Train stacks one by one, or several side by side; after Ctrl-C the rest keep their initial weights."""
        # Stacks side by side would need different chunks at a time.
        number, most = 0, MOST_SIDE_BY_SIDE if self.ensemble and self.table.chunks is None else 1
        while waiting:
            group = self._group(waiting, most)
            rest = [place for stack in waiting[len(group) :] for place in stack]
            self._set_deadline([place for stack in group for place in stack], rest)
            try:
                self._train_group(group, number)
            except torch.OutOfMemoryError:
                if self.data.numbers.device.type == "cuda":  # cached blocks have the sizes of the larger stacks
                    torch.cuda.empty_cache()
                if len(group) > 1:
                    most = 1
                    continue
                if len(group[0]) == 1:
                    raise
                half = -(-len(group[0]) // 2)
                waiting[:1] = [group[0][:half], group[0][half:]]
                self.n_stacks += 1
                continue
            number += len(group)
            del waiting[: len(group)]

    def _group(self, waiting: list[list[int]], most: int) -> list[list[int]]:
        """Return the next stacks that are trained side by side: on a GPU those that fit into its memory together."""
        device = self.data.numbers.device
        if device.type != "cuda" or most == 1:
            return waiting[:1]
        memory = _free_memory(device) * SIDE_BY_SIDE_SHARE
        sizes = np.cumsum([self._bytes(places) for places in waiting[:most]])
        return waiting[: max(int((sizes <= memory).sum()), 1)]

    def _bytes(self, places: list[int]) -> int:
        """Return an estimate of the bytes of a stack."""
        return len(places) * _member_bytes(self.table, [self.members[place] for place in places])

    def _train_group(self, group: list[list[int]], number: int) -> None:
        """Train stacks side by side: each begins its next epoch as soon as it has finished one."""
        stacks: list[_RunningStack] = []
        try:
            self._build(stacks, group, number)
            self.training = [stack for stack in stacks if not self._stop(0)]
            for stack in self.training:
                stack.start_epoch()
            while self.training:
                ready = [stack for stack in self.training if stack.is_ready]
                for stack in ready:
                    if stack.end_epoch() and not self._stop(stack.log.n_epochs):
                        stack.start_epoch()
                    else:
                        self.training.remove(stack)
                if not ready:
                    time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self.stopped = True
            self._build(stacks, group, number)  # those that were not built before Ctrl-C
        finally:
            for stack in stacks:
                stack.release()
        self.trained += [stack.results() for stack in stacks]
        self.groups += group

    def _build(self, stacks: list["_RunningStack"], group: list[list[int]], number: int) -> None:
        """Add the stacks of a group that are not built yet."""
        while len(stacks) < len(group):
            stacks.append(_RunningStack(self, group[len(stacks)], number + len(stacks), len(group)))

    def _set_deadline(self, places: list[int], waiting: list[int]) -> None:
        """Give a stack its share of the remaining time; in order, all of it if it should then suffice."""
        if self.time_limit is None:
            return
        now, cost = time.perf_counter(), float(self.costs[places].sum())
        left = max(self.started + self.time_limit - now, 0.0)
        if not self.in_order:
            self.deadline = now + left * cost / (cost + self.costs[waiting].sum())
            return
        done = float(sum(self.costs[group].sum() for group in self.groups))
        is_short = done > 0.0 and cost / done * (now - self.started) > SLACK * left
        self.deadline = now if is_short else now + left

    def _stop(self, n_epochs: int) -> bool:
        """Return whether to stop; a stack is trained for one epoch even if the time is up, except in an ensemble."""
        if (n_epochs or (self.ensemble and self.trained)) and time.perf_counter() >= self.deadline:
            self.out_of_time = True
            return True
        return self.stopped

    def share_done(self, places: list[int], share: float) -> float:
        """Return the share of all work that is done, after a stack has done `share` of its work."""
        self.shares[places[0]] = share * float(self.costs[places].sum())
        return min(sum(self.shares.values()) / float(self.costs.sum()), 1.0)

    def seconds(self) -> float:
        """Return the time since the last epoch of any stack."""
        before, self.last_report = self.last_report, time.perf_counter()
        return self.last_report - before


@dataclass
class Pace:
    """The place of a stack on its schedule, in epochs, and the epochs of the schedule that one epoch stands for.

    If there is too little time for all epochs, the learning rate falls faster: training that is cut off while the rate
    is high ends far from the optimum.
    """

    max_epochs: int
    epochs: float = 0.0
    speed: float = 1.0

    @property
    def is_done(self) -> bool:
        """Whether the schedule is at its end."""
        return self.epochs > self.max_epochs - 0.5

    def advance(self, left: float, seconds: float) -> None:
        """Add an epoch that took `seconds`, and adapt the speed to the remaining time."""
        self.epochs += self.speed
        possible = max(left / max(seconds, 1e-9), 1.0)
        self.speed = max((self.max_epochs - self.epochs) / possible, 1.0)


@final
class _RunningStack:
    """A stack in training, epoch after epoch; on a GPU, stacks that are trained side by side have their own streams."""

    def __init__(self, run: _TrainCall, places: list[int], number: int, n_beside: int) -> None:
        self.run, self.places, self.number = run, places, number
        self.members = [run.members[place] for place in places]
        self.job = StackJob(run.table, run.data, *self.members[0].settings)
        self.config, device = self.job.config, self.job.device
        self.stream = torch.cuda.Stream(device) if n_beside > 1 else None  # type: ignore[no-untyped-call]
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())
        self.chunks = None if run.table.chunks is None else ChunkLoader(run.table.chunks, run.data)
        with self._on_stream(), ExitStack() as on_error:
            if self.chunks is not None:
                on_error.callback(self.chunks.close)  # it has a thread
                self.chunks.load()
            network = self._network()
            start = self._start()
            resumed = None if start is None else (start.shift, start.scale)
            self.parts = starting_stacks(self.job, self.members, network, resumed=resumed)
            self.stopped: list[tuple[Tensor, list[Tensor]]] = []  # places and best weights of members
            self.shift = torch.cat([part.units.shift for part in self.parts])
            self.scale = torch.cat([part.units.scale for part in self.parts])
            self.snapshots: list[tuple[Tensor, Tensor]] = []  # on the device: nothing waits for them before the end
            self._keep_knots()
            on_error.pop_all()
        shares_steps = steps_are_large(self.job, network) and not self.config.reproducible
        self.threads = StepThreads(run.n_threads if shares_steps else 1)
        self.n_steps = max(part.n_steps for part in self.parts)
        self.log, self.pace, self.wasted = EpochLog(len(places)), Pace(self.config.max_epochs), 0.0
        self.n_alive = len(places)
        self.reports: list[Tensor] = []
        self.last_epoch = time.perf_counter()
        self.done = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def _start(self) -> NetworkPiece | None:
        """Return the networks to resume from, if any."""
        if self.run.start is None:
            return None
        piece = next(piece for piece in self.run.start.networks if self.places[0] in piece.places)
        return piece.take(self.places)

    def _network(self) -> Network:
        """Return a new network of all members: without values, or a copy of the one to resume from."""
        run, start, device = self.run, self._start(), self.job.device
        if start is None:
            units, categories = run.data.units, run.categories
            return build_network(run.table, self.members, units=units, categories=categories, device=device)
        network = start.network.to(device)
        network.reproducible = self.config.reproducible
        return network

    def _keep_knots(self) -> None:
        """Keep the current knots of members, if they are requested and some are learned."""
        for part in self.parts:
            if self.run.keep_knots and part.network.encoding.logits is not None:
                self.snapshots.append((part.members.ids, part.network.encoding.spacings()[0].detach().clone()))

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def start_epoch(self) -> None:
        """Train an epoch; on a GPU only queue its steps."""
        with self._on_stream():
            if self.chunks is not None and self.log.n_epochs:  # the first one is loaded
                self.chunks.load()
            for part in self.parts:
                part.set_pace(self.pace.epochs, self.pace.speed)
            if len(self.parts) == 1:
                _train_part(self.parts[0], self.threads)
            else:
                in_turns([_train_in_turns(part) for part in self.parts], self.run.n_threads)
            self.reports = [part.report_of_members() for part in self.parts]
            if self.done is not None:
                self.done.record()

    @property
    def is_ready(self) -> bool:
        """Whether the epoch that was started is finished; a stack that is trained alone can simply be waited for."""
        return self.stream is None or self.done is None or bool(self.done.query())  # type: ignore[no-untyped-call]

    def end_epoch(self) -> bool:
        """Read the scores of the epoch, and return whether training continues."""
        run = self.run
        with self._on_stream():
            report, seconds = torch.cat(self.reports, dim=1).cpu().numpy(), run.seconds()
            alive = self.log.add(report, seconds)
            self._keep_knots()  # before the report, which may raise KeyboardInterrupt
            before, self.last_epoch = self.last_epoch, time.perf_counter()
            left = run.deadline - self.last_epoch if self.config.is_stepwise else math.inf
            self.pace.advance(left, self.last_epoch - before)
            self.n_alive = 0 if self.pace.is_done else int(alive.sum())
            self._report()
            if not self.n_alive:
                return False
            # Steps of the whole stack that were spent on members that have stopped.
            self.wasted += self.n_steps * (~alive).sum() / len(self.places)
            if self.wasted >= DROP_STEPS.get(self.job.device.type, 2):
                self._drop_stopped()
        return True

    def _drop_stopped(self) -> None:
        """Keep the best weights of members that have stopped, and build stacks of the others."""
        parts = []
        for part in self.parts:
            alive = part.schedule.alive
            if bool(alive.all()):
                parts.append(part)
                continue
            # Ctrl-C may come before the stacks are replaced: best weights are then kept twice, and are the same.
            index = (~alive).nonzero()[:, 0]
            self.stopped.append((part.members.ids[index], [best[index] for best in part.best]))
            part.release()
            if bool(alive.any()):
                parts.append(part.take(alive.nonzero()[:, 0]))
        self.parts, self.wasted = parts, 0.0

    def _report(self) -> None:
        run = self.run
        if run.report is None:
            return
        steps = sum(part.n_steps * len(part.members.ids) for part in self.parts)
        last = self.config.max_epochs
        done = run.share_done(self.places, self.pace.epochs / last if self.n_alive else 1.0)
        counts = (self.log.n_epochs, last, self.n_alive, len(self.places))
        n_training = sum(stack.n_alive for stack in run.training)
        losses, scores = self.log.epochs[-1][:2]
        scores = np.where([len(member.valid) > 0 for member in self.members], scores, np.nan)
        metric, seconds = self.config.metric_for(run.table.goal), time.perf_counter() - run.started
        trained = losses[~np.isnan(losses)]
        units = score_units(run.table.goal, self.scale)
        loss, scores = float(trained.mean()) if len(trained) else math.nan, metric.in_units(scores, units)
        progress = (*counts, steps, done, n_training)
        report = EpochReport(self.number, run.n_stacks, *progress, loss, scores, metric.name, seconds)
        run.stopped |= run.report(report)

    def release(self) -> None:
        """Wait for the device, and free the captured graphs."""
        if self.chunks is not None:
            self.chunks.close()
        if self.stream is not None:
            self.stream.synchronize()
        for part in self.parts:
            part.release()

    def results(self) -> Trained:
        """Return the network with the best weights of all members, including those that stopped early."""
        run, network = self.run, self._network()
        kept = [*network.parameters(), *running_statistics(network)]
        with torch.no_grad():
            for ids, best in (*self.stopped, *((part.members.ids, part.best) for part in self.parts)):
                for tensor, values in zip(kept, best, strict=True):
                    tensor.index_copy_(0, ids, values)
        histories = self.log.histories()
        epochs = [history.epochs for history in histories]
        paths = knot_paths(self.snapshots, self.members, epochs) if run.keep_knots else None
        if run.start is not None:
            before = [run.start.histories[place] for place in self.places]
            histories = [first.followed_by(later) for first, later in zip(before, histories, strict=True)]
        places = tuple(range(len(self.places)))
        piece = NetworkPiece(places, self.shift, self.scale, network.eval(), self.job.backbone)
        return Trained([piece], histories, run.data.units, run.table.goal, interrupted=False, knot_paths=paths)


def _train_part(stack: TrainingStack, threads: StepThreads) -> None:
    """Train an epoch of a stack by itself; nothing waits for the device."""
    stack.begin()
    if threads.run(stack.step, stack.n_steps, Event()):
        stack.finish()


def _train_in_turns(stack: TrainingStack) -> Iterator[None]:
    """Train an epoch of one of several parts, some steps in each turn."""
    stack.begin()
    for number in range(stack.n_steps):
        stack.step()
        if number % STEPS_PER_TURN == STEPS_PER_TURN - 1:
            yield
    stack.finish()


def training_costs(table: TrainingTable, members: Sequence[Member]) -> npt.NDArray[np.float64]:
    """Return the approximate number of multiplications of the training of each member."""
    costs, products = np.zeros(len(members)), {}
    for place, member in enumerate(members):
        backbone, config = member.settings
        key = member.size, member.embedding, backbone
        if key not in products:
            products[key] = network_products(table, *key)
        costs[place] = config.max_epochs * len(member.train) * products[key]
    return costs


def plan_stacks(
    table: TrainingTable, members: Sequence[Member], device: torch.device, start: Trained | None
) -> list[list[int]]:
    """Return the places of the members of each stack, in the order of their kinds.

    Members of one backbone, configuration, embedding, kind of missing values, shape of interactions and size form a
    stack, because smaller encodings would be padded; those that are only scaled join the smallest others, unless each
    value is a token or they must be reproducible. Configurations may differ in the strengths of the smoothness penalty.
    Networks to resume from (`start`) stay in their stacks.
    """
    if start is not None:
        return [list(piece.places) for piece in start.pieces]
    groups: dict[Any, list[int]] = {}
    for place, member in enumerate(members):
        backbone, config = member.settings
        shape = None if member.interactions is None else member.interactions.shape
        traits = backbone, replace(config, smoothness=0.0), member.embedding, member.learned_missing, shape
        groups.setdefault(traits, []).append(place)
    memory = _free_memory(device) * MEMORY_SHARE
    stacks = []
    for places in groups.values():
        for same_size in _by_size(places, members):
            same_size.sort(key=lambda place: members[place].kinds)
            most = max(int(memory / _member_bytes(table, [members[place] for place in same_size])), 1)
            stacks += np.array_split(np.array(same_size), -(-len(same_size) // most))
    return [[int(place) for place in stack] for stack in stacks]


def _check_reproducible(member: Member, device: torch.device) -> None:
    """Raise an error if a member cannot be trained as `TrainingConfig.reproducible` requires."""
    backbone, config = member.settings
    if not config.reproducible or device.type == "cpu":
        return
    kinds = {kind_of(encoding, member.learnable).kind for encoding in member.encodings}
    reason = None
    if device.type != "cuda" or not HAS_TRITON:
        reason = "on the CPU, or on a GPU with Triton"
    elif not backbone.has_fixed_order:
        reason = f"on the CPU with the backbone {backbone.name!r}"
    elif kinds & set(WAVE_KINDS):
        reason = "on the CPU with encodings that learn frequencies"
    elif member.learnable and Functions.PLAIN in kinds:
        reason = "on the CPU with learned knots of a family without compiled code"
    if reason is not None:
        raise argument_error("reproducible", f"be used {reason}", True, "Pass device='cpu', or reproducible=False.")


def _by_size(places: Sequence[int], members: Sequence[Member]) -> list[list[int]]:
    """Return places by the size of encodings; members that are only scaled join the smallest others, if they may."""
    backbone, config = members[places[0]].settings
    by_size: dict[Any, list[int]] = {}
    for place in places:
        by_size.setdefault(members[place].size if backbone.pads_blocks else members[place].sizes, []).append(place)
    # A member that is only scaled gets additional inputs of zeros, by which it rounds differently.
    if not config.reproducible and backbone.pads_blocks and len(by_size) > 1 and 1 in by_size:
        scaled = by_size.pop(1)
        by_size[min(by_size)] += scaled
    return list(by_size.values())


def _member_bytes(table: TrainingTable, members: Sequence[Member]) -> int:
    """Return an estimate of the bytes of each of the members of a stack.

    About 7 floats per parameter (weight, gradient, two moments, best weight, copies), 2 more with a moving average of
    the weights, 2 per activation (forward and backward), and 2 integers per row (rows of the table, and their order in
    the epoch).
    """
    backbone, config = members[0].settings
    size, embedding = max(member.size for member in members), members[0].embedding
    batch, interactions = config.batch_size_for(table.n_rows), 0
    if members[0].interactions is not None:
        n_pairs, rank, width = members[0].interactions.shape
        interactions = 8 * n_pairs * (7 * size * rank * width + 2 * batch * (size + 2 * rank * width))
    columns = size if embedding is None else size + embedding.columns(size)  # before and after the embedding
    n_parameters = sum(parameter.numel() for parameter in _meta_network(table, columns, backbone).parameters())
    per_row = backbone.activations([columns] * table.numbers.shape[1], len(table.cardinalities))
    per_parameter = 9 if config.weight_average else 7
    return 4 * (per_parameter * n_parameters + 2 * batch * per_row) + 16 * table.n_at_once + interactions


def _meta_network(table: TrainingTable, size: int, backbone: Backbone) -> torch.nn.Module:
    """Return the network of one member without its encoding, and without memory for its parameters."""
    sizes, cardinalities = [size] * table.numbers.shape[1], table.cardinalities
    with torch.device("meta"):
        return backbone.build(sizes, 8 * len(cardinalities), cardinalities, table.d_out, n_members=1)


def network_products(table: TrainingTable, size: int | None, embedding: Embedding | None, backbone: Backbone) -> int:
    """Return the approximate number of multiplications per row of a network with encodings of `size`, by default 1."""
    size = size or 1
    if embedding is None:
        return backbone.products(_meta_network(table, size, backbone))
    after: int = backbone.products(_meta_network(table, embedding.columns(size), backbone))
    return after + int(table.numbers.shape[1]) * size * embedding.width


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
    if resolved.type == "meta":
        hint = "Tensors of torch's meta device hold no numbers."
        raise argument_error("device", "be one that computes", device, hint)
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
