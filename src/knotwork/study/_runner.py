"""Running a plan in a folder: only missing networks are trained, and several processes may share the folder."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from knotwork._checks import check_bool, check_choice, check_int, type_error
from knotwork.basis import FloatArray
from knotwork.study import _ray_engine
from knotwork.study._folder import remove_leftovers
from knotwork.study._networks import DataIdentity, NetworkSpec, Unit, expand, fold_and_size, group_units, networks_after
from knotwork.study._plan import Plan, load_plan
from knotwork.study._records import CONSOLIDATED, consolidate, write_manifest
from knotwork.study._traces import TRACES
from knotwork.study._worker import DATA_ERRORS, POLL, Progress, Worker
from knotwork.training import EpochReport, Reporter, resolve_device

__all__ = ["RunSummary", "prepare_plan", "run"]

ENGINES = ("local", "ray")
"""Places where units are trained: this process, or a Ray cluster."""


@dataclass
class RunSummary:
    """The result of `run` or `prepare_plan`.

    Parameters
    ----------
    n_networks : int
        Number of networks of the plan on the available data sets.
    n_before : int
        Number of networks that were recorded before.
    n_ok, n_failed : int
        Numbers of networks that were recorded (or prepared) now.
    seconds : float
        Duration.
    unavailable : dict of str to str
        The data sets that were skipped, with the reasons.
    """

    n_networks: int = 0
    n_before: int = 0
    n_ok: int = 0
    n_failed: int = 0
    seconds: float = 0.0
    unavailable: dict[str, str] = field(default_factory=dict)

    def add(self, counts: Counter[str]) -> str:
        """Add numbers of networks by status; return the number of failures as words, empty without failures."""
        self.n_ok += counts["ok"]
        self.n_failed += counts["failed"]
        return f", {counts['failed']} FAILED" if counts["failed"] else ""


def run(
    plan: Plan | str | PathLike[str],
    out: str | PathLike[str],
    engine: str = "local",
    *,
    device: str = "auto",
    retry_failed: bool = False,
    report: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
    address: str | None = None,
    units_per_gpu: int = 2,
    only: Sequence[str] = (),
    by_fold: bool = False,
) -> RunSummary:
    """Train the networks of a plan that are not recorded in a folder yet.

    A run can be killed at any time and started again: only the current unit is lost. Any number of processes, on any
    number of machines that share the folder, can run plans in it. Networks that raise an error get failure records with
    the traceback, and data sets that cannot be loaded are skipped.

    Parameters
    ----------
    plan : Plan, str or path
        The plan, its name, or its file.
    out : str or path
        The folder of the study, which is created.
    engine : {"local", "ray"}
        Where units are trained: in this process, or as tasks of a Ray cluster.
    device : str
        Device for training; by default a GPU if one is available.
    retry_failed : bool
        Whether to train failed networks again.
    report : callable, optional
        Called with sentences on progress.
    progress : callable, optional
        Called without arguments; returns a context manager that provides a function, which is called after every epoch
        with the trained share of all networks.
    n_jobs : int, optional
        Threads for the fitting of encodings; by default all cores.
    address : str, optional
        Address of a Ray cluster; by default the environment variable RAY_ADDRESS, or else a cluster on this machine.
    units_per_gpu : int
        Number of units that share a GPU of a Ray cluster.
    only : sequence of str
        Data sets of the plan to train on, in this order; by default all of them.
    by_fold : bool
        Whether to train the first fold of all data sets before the second, and small sizes before large ones, so that
        an interrupted run leaves complete folds. Otherwise all folds are trained together, which is faster for small
        networks.

    Returns
    -------
    RunSummary
        Numbers of networks, duration, and skipped data sets.

    Examples
    --------
    >>> import tempfile
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"], training={"max_epochs": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run(plan, folder).n_ok, run(plan, folder).n_ok
    (5, 0)
    """
    plan, folder = _read_arguments(plan, out)
    check_choice(engine, "engine", ENGINES)
    for name, value in (("retry_failed", retry_failed), ("by_fold", by_fold)):
        check_bool(value, name)
    check_int(units_per_gpu, "units_per_gpu", minimum=1)
    if engine == "local":  # the devices of a cluster are not those of this machine
        resolve_device(device)
    for name in only:
        check_choice(name, "only", plan.names)
    for name in ("records", *TRACES, "prepared", "locks", "plans"):
        remove_leftovers(folder / name)
    worker = Worker(plan, folder, device, retry_failed, n_jobs)
    with nullcontext() if engine == "local" else _ray_engine.connected(address) as ray:
        return _StudyRun(plan, worker, report, progress, ray, units_per_gpu, tuple(only), by_fold).train()


def prepare_plan(
    plan: Plan | str | PathLike[str],
    out: str | PathLike[str],
    *,
    report: Callable[[str], None] | None = None,
    n_jobs: int | None = None,
) -> RunSummary:
    """Fit the encodings of a plan and store them in a folder, without training.

    A machine that trains the plan in this folder, or in a copy, then neither fits encodings nor needs LightGBM. Several
    processes can prepare a plan at once, each on different data sets.

    Parameters
    ----------
    plan : Plan, str or path
        The plan, its name, or its file.
    out : str or path
        The folder of the study; it is created.
    report : callable, optional
        Called with a sentence for every data set.
    n_jobs : int, optional
        Threads; by default all cores.

    Returns
    -------
    RunSummary
        Its `n_ok` is the number of networks whose encoding is available.

    Examples
    --------
    >>> import tempfile
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["BS-Q"], sizes=[7], backbones=["mlp"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepare_plan(plan, folder).n_ok
    5
    """
    plan, folder = _read_arguments(plan, out)
    return _StudyRun(plan, Worker(plan, folder, n_jobs=n_jobs), report).prepare()


def _read_arguments(plan: Plan | str | PathLike[str], out: str | PathLike[str]) -> tuple[Plan, Path]:
    if not isinstance(out, str | PathLike):
        raise type_error("out", "be the path of a folder", out)
    return plan if isinstance(plan, Plan) else load_plan(plan), Path(out).expanduser()


@dataclass(eq=False)
class _StudyRun:
    """One call of `run` or `prepare_plan`."""

    plan: Plan
    worker: Worker
    report: Callable[[str], None] | None
    progress: Progress | None = None
    ray: Any = None
    units_per_gpu: int = 2
    only: tuple[str, ...] = ()
    by_fold: bool = False
    summary: RunSummary = field(default_factory=RunSummary)

    def train(self) -> RunSummary:
        """Train the missing networks."""
        started = time.perf_counter()
        identities = self._identities()
        networks = [network for name, data in identities.items() for network in expand(self.plan, name, data)]
        n_rows = {name: data.n_rows for name, data in identities.items()}
        self.worker.index.manifests()  # notes those that are damaged, before this plan's is replaced
        write_manifest(self.worker.index, self.plan, networks, n_rows, self.summary.unavailable)
        missing = self.worker.missing(networks)
        self.summary.n_networks, self.summary.n_before = len(networks), len(networks) - len(missing)
        self._announce(identities, networks, missing)
        units = group_units(missing, sizes=self.plan.sizes, together=self.plan.together, by_fold=self.by_fold)
        self._work(self._chosen(units) if self.only else units)
        if missing or CONSOLIDATED in self.worker.index.problems:
            consolidate(self.worker.out)
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _chosen(self, units: list[Unit]) -> list[Unit]:
        """Return the units of the data sets `only`, in that order; with `by_fold`, ordered by fold and size first."""
        order = {name: place for place, name in enumerate(self.only)}
        chosen = sorted((unit for unit in units if unit.dataset in order), key=lambda unit: order[unit.dataset])
        return sorted(chosen, key=fold_and_size) if self.by_fold else chosen

    def prepare(self) -> RunSummary:
        """Fit the encodings of all networks."""
        started = time.perf_counter()
        waiting = list(self.plan.names)
        while waiting:
            name = next((name for name in waiting if not self.worker.is_being_prepared(name)), waiting[0])
            waiting.remove(name)
            try:
                networks = expand(self.plan, name, self.worker.load(name).identity)
                fitted = self.worker.prepare(name, networks).fitted
            except DATA_ERRORS as error:
                self._skip(name, error)
                continue
            counts = Counter("failed" if isinstance(fitted[each.wanted], str) else "ok" for each in networks)
            self.summary.n_networks += len(networks)
            self._say(f"{name}: {counts['ok']} networks are prepared{self.summary.add(counts)}")
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _say(self, sentence: str) -> None:
        if self.report is not None:
            self.report(sentence)

    def _identities(self) -> dict[str, DataIdentity]:
        """Return the identities of the data sets that are available."""
        identities = {}
        for name in self.plan.names:
            try:
                identities[name] = self.worker.load(name).identity
            except DATA_ERRORS as error:
                self._skip(name, error)
        return identities

    def _skip(self, name: str, error: Exception) -> None:
        self.summary.unavailable[name] = str(error)
        self._say(f"Data set {name!r} is skipped: {error}")

    def _announce(
        self, identities: dict[str, DataIdentity], networks: list[NetworkSpec], missing: list[NetworkSpec]
    ) -> None:
        """Report damaged records, changed data sets, and the number of networks to train."""
        for name, problem in self.worker.index.problems.items():
            self._say(f"{name} {problem}. It is ignored.")
        frame = self.worker.index.frame()
        for name, data in identities.items():
            others = set(frame.loc[frame["dataset"] == name, "data_sha256"]) - {data.sha256}
            if others and any(network.dataset == name for network in missing):
                self._say(f"Data set {name!r} has changed since it was last recorded: its networks are trained again.")
        if not networks:
            self._say(f"Nothing can be trained: no data set of {self.plan.name!r} could be loaded.")
        elif not missing:
            where = "on the available data sets" if self.summary.unavailable else f"of {self.plan.name!r}"
            self._say(f"Nothing to do: all {len(networks):,} networks {where} are recorded.")
        else:
            before = f"; {self.summary.n_before:,} are recorded already" if self.summary.n_before else ""
            self._say(f"Training {len(missing):,} of {len(networks):,} networks{before}.")

    def _work(self, pending: list[Unit]) -> None:
        """Train units; wait for those that other processes are working on."""
        self.n_units, self.n_done = len(pending), 0
        waiting = False
        while pending:
            if self.ray is None:
                busy = self._work_here(pending)
            else:
                cluster = _ray_engine.RayCluster(self.ray, self.worker, self._finish, self._skip, self.units_per_gpu)
                busy = cluster.work(pending)
            if busy and not waiting:
                self._say(f"Waiting for other processes, which are training {len(busy)} units.")
                waiting = True
            if len(busy) == len(pending):
                time.sleep(POLL)
            pending = busy

    def _work_here(self, pending: list[Unit]) -> list[Unit]:
        """Train units in this process, and return those that another process is working on."""
        busy = []
        ends = np.cumsum([0, *(len(unit.networks) for unit in pending)]) / sum(len(unit.networks) for unit in pending)
        with nullcontext(None) if self.progress is None else self.progress() as report:
            for place, unit in enumerate(pending):
                counts: Counter[str] | None = Counter()
                part = None if report is None else partial(_pass_on, report, place, ends)
                try:
                    if unit.dataset not in self.summary.unavailable:
                        counts = self.worker.work(unit, networks_after(pending, place), part)
                except DATA_ERRORS as error:
                    self._skip(unit.dataset, error)
                if counts is None:
                    busy.append(unit)
                else:
                    self._finish(unit, counts)
        return busy

    def _finish(self, unit: Unit, counts: Counter[str]) -> None:
        """Count and report a finished unit."""
        self.n_done += 1
        failed = self.summary.add(counts)
        if counts:
            self._say(f"[{self.n_done}/{self.n_units}] {unit.name}: {counts['ok']} networks{failed}")


def _pass_on(report: Reporter, place: int, ends: FloatArray, epoch: EpochReport) -> Any:
    """Pass on the report of a unit as progress of all units, which end at the shares `ends` of the networks."""
    start, end = ends[place : place + 2]
    return report(replace(epoch, done=float(start + (end - start) * epoch.done), stack=place, n_stacks=len(ends) - 1))
