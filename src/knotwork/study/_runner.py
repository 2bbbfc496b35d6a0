"""Running a plan in a folder: only missing networks are trained, and several processes may share the folder."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, final

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._preparation.members import Fitted
from knotwork._writing import counted
from knotwork.errors import ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError
from knotwork.study._folder import PREPARING, Lock, claim, remove_leftovers
from knotwork.study._networks import DataIdentity, FoldEncoding, NetworkSpec, Unit, expand, group_units
from knotwork.study._plan import Plan, load_plan
from knotwork.study._prepared import StudyData, fit_all, load_data
from knotwork.study._provenance import origin
from knotwork.study._records import CONSOLIDATED, RecordIndex, consolidate, write_manifest, write_records
from knotwork.study._traces import Result, write_traces
from knotwork.study._trainer import UnitTrainer, failure
from knotwork.training import MAX_RETRIES, EpochReport, Reporter, connected, resolve_device

ENGINES = ("local", "ray")
"""Places where units are trained: this process, or a Ray cluster."""

DATA_ERRORS = (ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError)
"""Errors that make a data set unavailable: it is skipped, and other data sets are trained."""

POLL = 0.5
"""Seconds between two attempts to acquire a lock held by another process."""

QUEUE = 2
"""Units submitted to Ray per unit that the cluster can train at a time: two keep all workers busy, and the tables of
waiting units fit into Ray's object store."""

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Makes a progress display."""


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
    for name in only:
        check_choice(name, "only", plan.names)
    if engine == "local":
        resolve_device(device)  # the devices of a cluster are not those of this machine
    remove_leftovers(folder)
    study = StudyRun(plan, folder, report, retry_failed, n_jobs, tuple(only), by_fold)
    if engine == "local":
        return study.train(_LocalEngine(device), progress)
    with connected(address) as ray:
        return study.train(_RayEngine(ray, device, units_per_gpu))


def prepare_plan(
    plan: Plan | str | PathLike[str],
    out: str | PathLike[str],
    *,
    report: Callable[[str], None] | None = None,
    n_jobs: int | None = None,
) -> RunSummary:
    """Fit the encodings of a plan and store them in a folder, without training.

    A machine that trains the plan in this folder, or in a copy, then neither fits encodings nor needs LightGBM. Several
    processes can prepare a plan at the same time, each on different data sets.

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
    return StudyRun(plan, folder, report, n_jobs=n_jobs).prepare_all()


def _read_arguments(plan: Plan | str | PathLike[str], out: str | PathLike[str]) -> tuple[Plan, Path]:
    if not isinstance(out, str | PathLike):
        raise type_error("out", "be the path of a folder", out)
    return plan if isinstance(plan, Plan) else load_plan(plan), Path(out).expanduser()


@dataclass(eq=False)
class _LocalEngine:
    """Trains units in this process, one after the other."""

    device: str
    most: ClassVar[int] = 1

    def submit(self, plan: Plan, data: StudyData, networks: list[NetworkSpec], report: Reporter | None) -> int:
        self._results = UnitTrainer(plan, data, self.device, report).results(networks)
        return 0

    def finished(self, references: list[Any], *, wait: bool) -> tuple[Any, list[Result]]:
        return references[0], self._results


@final
@dataclass(eq=False)
class _RayEngine:
    """Trains units on a Ray cluster.

    Ray workers need neither the data sets nor LightGBM nor the folder of the study. If a worker dies, Ray runs its unit
    again elsewhere; after the death of four workers the networks of the unit have failed.
    """

    ray: Any
    device: str = "auto"
    units_per_gpu: int = 2

    def __post_init__(self) -> None:
        check_choice(self.device, "device of a Ray cluster", ("auto", "cpu", "cuda"))
        resources = self.ray.cluster_resources()
        if self.device == "cuda" and not resources.get("GPU"):
            raise argument_error("device", "be 'auto' or 'cpu' on a cluster without GPUs", self.device)
        share, self.most = 0.0, QUEUE * max(int(resources.get("CPU", 0)), 1)
        if self.device != "cpu" and resources.get("GPU"):
            share, self.most = 1.0 / self.units_per_gpu, QUEUE * self.units_per_gpu * int(resources["GPU"])
        self._task = self.ray.remote(num_cpus=1, num_gpus=share, max_retries=MAX_RETRIES)(_train_unit)
        self._stored: tuple[StudyData | None, Any] = None, None
        self._n_networks: dict[Any, int] = {}

    def submit(self, plan: Plan, data: StudyData, networks: list[NetworkSpec], report: Reporter | None) -> Any:
        """Submit networks to Ray, which do not report, and return the reference of their results."""
        del report
        if self._stored[0] is not data:  # in Ray's object store once, for all units of the data set
            self._stored = data, self.ray.put(replace(data, fitted={}))
        fitted = {network.fold_encoding: data.fitted[network.fold_encoding] for network in networks}
        reference = self._task.remote(plan, self._stored[1], fitted, networks, self.device)
        self._n_networks[reference] = len(networks)
        return reference

    def finished(self, references: list[Any], *, wait: bool) -> tuple[Any, list[Result]] | None:
        """Return the reference and the results of a finished unit: failures if all of its workers died."""
        done, _ = self.ray.wait(references, num_returns=1, timeout=None if wait else 0)
        if not done:
            return None
        errors = self.ray.exceptions
        try:
            return done[0], self.ray.get(done[0])
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            text = f"{MAX_RETRIES + 1} workers died in succession while training this unit. Ray reports: {error}"
            return done[0], [failure(text)] * self._n_networks[done[0]]


def _train_unit(
    plan: Plan, data: StudyData, fitted: dict[FoldEncoding, Fitted | str], networks: list[NetworkSpec], device: str
) -> list[Result]:
    """Train a unit in a Ray worker; its time starts here, because the task may have waited in the queue."""
    started = time.time()
    results = UnitTrainer(plan, replace(data, fitted=fitted), device).results(networks)
    return [replace(result, row={**origin(), **result.row, "started_at": started}) for result in results]


@dataclass(eq=False)
class StudyRun:
    """One call of `run` or `prepare_plan`, with their parameters; `out` is the folder of the study."""

    plan: Plan
    out: Path
    report: Callable[[str], None] | None = None
    retry_failed: bool = False
    n_jobs: int | None = None
    only: tuple[str, ...] = ()
    by_fold: bool = False

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        self.summary = RunSummary()
        self.n_done = self.n_networks_done = 0
        self.index = RecordIndex(self.out)
        self.data: StudyData | None = None
        self.identities: dict[str, DataIdentity] = {}
        self.earlier: dict[str, tuple[str, float]] | None = None
        self.submitted: dict[Any, tuple[Unit, list[NetworkSpec], Lock, float]] = {}

    def train(self, engine: _LocalEngine | _RayEngine, progress: Progress | None = None) -> RunSummary:
        """Train the missing networks."""
        self.engine = engine
        identities = self._identities()
        networks = [network for name, data in identities.items() for network in expand(self.plan, name, data)]
        n_rows = {name: data.n_rows for name, data in identities.items()}
        self.index.manifests()  # notes those that are damaged, before this plan's is replaced
        write_manifest(self.index, self.plan, networks, n_rows, self.summary.unavailable)
        missing = self._missing(networks)
        self.summary.n_networks, self.summary.n_before = len(networks), len(networks) - len(missing)
        self._announce(identities, networks, missing)
        chosen = [
            network
            for name in dict.fromkeys(self.only or self.plan.names)
            for network in missing
            if network.dataset == name
        ]
        units = group_units(chosen, sizes=self.plan.sizes, together=self.plan.together, by_fold=self.by_fold)
        with nullcontext(None) if progress is None or not missing else progress() as display:
            self._work(units, display)
        if missing or CONSOLIDATED in self.index.problems:
            consolidate(self.out)
        self.summary.seconds = time.perf_counter() - self.started
        return self.summary

    def prepare_all(self) -> RunSummary:
        """Fit the encodings of all networks."""
        waiting = list(self.plan.names)
        while waiting:
            name = next((name for name in waiting if not self.is_being_prepared(name)), waiting[0])
            waiting.remove(name)
            try:
                networks = expand(self.plan, name, self.load(name).identity)
                fitted = self.prepare(name, networks).fitted
            except DATA_ERRORS as error:
                self._skip(name, error)
                continue
            counts = Counter("failed" if isinstance(fitted[each.fold_encoding], str) else "ok" for each in networks)
            self.summary.n_networks += len(networks)
            self._say(f"{name}: {counts['ok']} networks are prepared{self.summary.add(counts)}")
        self.summary.seconds = time.perf_counter() - self.started
        return self.summary

    def _say(self, sentence: str) -> None:
        if self.report is not None:
            self.report(sentence)

    def _identities(self) -> dict[str, DataIdentity]:
        """Return the identities of the data sets that are available."""
        identities = {}
        for name in self.plan.names:
            try:
                identities[name] = self.load(name).identity
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
        for name, problem in self.index.problems.items():
            self._say(f"{name} {problem}. It is ignored.")
        frame = self.index.frame()
        for name, data in identities.items():
            others = set(frame.loc[frame["dataset"] == name, "data_sha256"]) - {data.sha256}
            if others and any(network.dataset == name for network in missing):
                self._say(f"Data set {name!r} has changed since it was last recorded: its networks are trained again.")
        if not networks:
            self._say(f"Nothing can be trained: no data set of {self.plan.name!r} could be loaded.")
        elif not missing:
            where = "on the available data sets" if self.summary.unavailable else f"of {self.plan.name!r}"
            self._say(f"Nothing to do: all {counted(len(networks))} networks {where} are recorded.")
        else:
            before = f"; {counted(self.summary.n_before)} are recorded already" if self.summary.n_before else ""
            self._say(f"Training {counted(len(missing))} of {counted(len(networks))} networks{before}.")

    def load(self, name: str) -> StudyData:
        """Load and split a data set; the last data set is cached, and the first identity of each data set is kept."""
        if self.data is None or self.data.name != name:
            self.data = None
            self.data = load_data(self.plan, name)
            self.identities.setdefault(name, self.data.identity)
        return self.data

    def _missing(self, networks: Iterable[NetworkSpec]) -> list[NetworkSpec]:
        """Return the networks without a record, and with `retry_failed` those that failed before this run."""
        states = self.index.refresh().states()
        if self.earlier is None:
            self.earlier = {key: state for key, state in states.items() if self.retry_failed and state[0] == "failed"}
        return [each for each in networks if each.key not in states or self.earlier.get(each.key) == states[each.key]]

    def prepare(self, name: str, networks: Iterable[NetworkSpec]) -> StudyData:
        """Return a data set with the encodings of networks; missing encodings are fitted.

        While another process fits encodings of this data set, wait, and then read them.
        """
        data = self.load(name)
        if data.identity != self.identities[name]:
            raise DatasetMismatchError(
                f"data set {name!r} has changed while the plan was running. Run the plan again for its networks."
            )
        new = sorted({network.fold_encoding for network in networks} - data.fitted.keys(), key=repr)
        if new:
            with self._claim_preparation(name):
                folder = self.out / "prepared"
                data.fitted.update(fit_all(data, new, folder=folder, bins=self.plan.bins, n_jobs=self.n_jobs))
        return data

    def is_being_prepared(self, name: str) -> bool:
        """Return whether a process is fitting encodings of a data set."""
        return (self.out / "locks" / f"{_preparation_slot(name)}.lock").exists()

    def _claim_preparation(self, name: str) -> Lock:
        """Wait until no other process is fitting encodings of a data set, and acquire the lock."""
        while (lock := claim(self.out / "locks", _preparation_slot(name))) is None:
            time.sleep(POLL)
        return lock

    def _work(self, pending: list[Unit], display: Reporter | None) -> None:
        """Train units; wait for those that other processes are working on."""
        self.n_units, self.n_networks = len(pending), sum(len(unit.networks) for unit in pending)
        waiting = False
        while pending:
            busy: list[Unit] = []
            try:
                for place, unit in enumerate(pending):
                    shown = None if display is None else partial(self._show, display, unit)
                    if not self._begin(unit, pending[place + 1 :], shown):
                        busy.append(unit)
                    self._collect(wait=len(self.submitted) >= self.engine.most)
                while self.submitted:
                    self._collect(wait=True)
            finally:
                # Tasks of a cluster end with the connection: cancelling one that has just ended aborts this process.
                for _, _, lock, _ in self.submitted.values():
                    lock.release()
            if busy and not waiting:
                self._say(f"Waiting for other processes, which are training {len(busy)} units.")
                waiting = True
            if len(busy) == len(pending):
                time.sleep(POLL)
            pending = busy

    def _show(self, display: Reporter, unit: Unit, epoch: EpochReport) -> Any:
        """Show the progress of a unit as a share of all networks."""
        done = (self.n_networks_done + len(unit.networks) * epoch.done) / self.n_networks
        return display(replace(epoch, done=done, stack=self.n_done, n_stacks=self.n_units))

    def _begin(self, unit: Unit, later: list[Unit], shown: Reporter | None) -> bool:
        """Prepare and submit the missing networks of a unit; False if another process is working on it.

        Encodings of `later` units on the same data set are fitted with those of the unit, so that trees are grown only
        once.
        """
        if unit.dataset in self.summary.unavailable:
            self._finish(unit, Counter())
            return True
        lock = claim(self.out / "locks", unit.slot)
        if lock is None:
            return False
        reference = None
        try:
            networks = self._missing(unit.networks)
            if networks:
                started = time.time()
                same_data = [each for other in later if other.dataset == unit.dataset for each in other.networks]
                data = self.prepare(unit.dataset, [*networks, *same_data])
                reference = self.engine.submit(self.plan, data, networks, shown)
                self.submitted[reference] = unit, networks, lock, started
        except DATA_ERRORS as error:
            self._skip(unit.dataset, error)
        finally:
            if reference is None:
                lock.release()
        if reference is None:
            self._finish(unit, Counter())
        return True

    def _collect(self, *, wait: bool) -> None:
        """Record all finished units; with `wait`, wait for the first one."""
        while self.submitted and (finished := self.engine.finished(list(self.submitted), wait=wait)):
            reference, results = finished
            unit, networks, lock, started = self.submitted.pop(reference)
            with lock:
                counts = self._record(unit, networks, results, started)
            self._finish(unit, counts)
            wait = False

    def _finish(self, unit: Unit, counts: Counter[str]) -> None:
        """Count and report a finished unit."""
        self.n_done += 1
        self.n_networks_done += len(unit.networks)
        failed = self.summary.add(counts)
        if counts:
            self._say(f"[{self.n_done}/{self.n_units}] {unit.name}: {counts['ok']} networks{failed}")

    def _record(self, unit: Unit, networks: list[NetworkSpec], results: list[Result], started: float) -> Counter[str]:
        """Record the results of networks of a unit, and return their numbers by status.

        `started` is the time of the start in seconds since 1970; columns in a result take precedence. Traces are
        written before the record, so that a recorded network always has its traces.
        """
        name = replace(unit, networks=tuple(networks)).record_name
        identity = self.identities[unit.dataset]
        write_traces(self.out, name, networks, results)
        shared = {
            "task": identity.task,
            "together": self.plan.together,
            "n_rows": identity.n_rows,
            "n_features": len(identity.numerical) + len(identity.categorical),
            "data_sha256": identity.sha256,
            "plan": self.plan.name,
            "plan_hash": self.plan.plan_hash,
            **origin(),
            "started_at": started,
            "recorded_at": time.time(),
        }
        rows = [
            {"key": network.key, **network.identity, **shared, **result.row}
            for network, result in zip(networks, results, strict=True)
        ]
        write_records(self.out, name, rows)
        return Counter(result.row["status"] for result in results)


def _preparation_slot(name: str) -> str:
    return f"{PREPARING}{hashlib.sha256(name.encode()).hexdigest()[:20]}"
