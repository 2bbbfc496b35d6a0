"""Running a plan in a folder: only what is missing, whoever else works there."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from knotwork._checks import check_bool, check_choice, check_int, type_error
from knotwork.study._data import DataIdentity
from knotwork.study._files import remove_leftovers
from knotwork.study._fitting import wanted_by
from knotwork.study._manifest import write_manifest
from knotwork.study._networks import NetworkSpec, Unit, expand, group_units
from knotwork.study._plan import Plan, load_plan
from knotwork.study._records import consolidate
from knotwork.study._traces import TRACES
from knotwork.study._worker import DATA_ERRORS, POLL, Outcome, Progress, Worker
from knotwork.training._engine import resolve_device

__all__ = ["ENGINES", "RunSummary", "prepare_plan", "run"]

ENGINES = ("local", "ray")
"""Where units are trained."""

Say = Callable[[str], None]


@dataclass
class RunSummary:
    """What a run did.

    Parameters
    ----------
    n_networks : int
        Networks of the plan, on the data sets that could be loaded.
    n_before : int
        Those that were recorded before.
    n_ok, n_failed : int
        Networks that this run has recorded.
    seconds : float
        How long it took.
    unavailable : dict of str to str
        Data sets that could not be used, and why.
    """

    n_networks: int = 0
    n_before: int = 0
    n_ok: int = 0
    n_failed: int = 0
    seconds: float = 0.0
    unavailable: dict[str, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Count what became of a unit."""
        self.n_ok += outcome.n_ok
        self.n_failed += outcome.n_failed


def run(
    plan: Plan | str | PathLike[str],
    out: str | PathLike[str],
    engine: str = "local",
    *,
    device: str = "auto",
    retry_failed: bool = False,
    report: Say | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
    address: str | None = None,
    units_per_gpu: int = 2,
    only: Sequence[str] = (),
) -> RunSummary:
    """Train the networks of a plan that are not recorded in a folder yet.

    It may be killed at any moment and run again: at most the unit that it was in is lost. Any number of processes may
    run plans in one folder, on any number of machines that share it. A method that raises an error has failure records
    with the traceback, and a data set that cannot be loaded is left out; the rest goes on.

    Parameters
    ----------
    plan : Plan, str or path
        The plan, its name, or its file.
    out : str or path
        The folder; it is made.
    engine : {"local", "ray"}
        Where units are trained: in this process, or as tasks of a Ray cluster.
    device : str
        Where networks are trained; by default on a GPU if there is one.
    retry_failed : bool
        Whether to train networks again that have failed.
    report : callable, optional
        Is called with a sentence now and then.
    progress : callable, optional
        Makes a display for the training of one unit, such as `knotwork.training._progress.ProgressBar`.
    n_jobs : int, optional
        Processes for the fitting of encodings; by default all cores.
    address : str, optional
        Address of a Ray cluster; by default that of the variable RAY_ADDRESS, or else one is started on this machine.
    units_per_gpu : int
        Units that share a GPU of a Ray cluster.
    only : sequence of str
        Data sets of the plan to train on, in this order; by default all of them.

    Returns
    -------
    RunSummary
        What was done.

    Examples
    --------
    >>> import tempfile
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"], training={"max_epochs": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run(plan, folder).n_ok, run(plan, folder).n_ok
    (5, 0)
    """
    if not isinstance(plan, Plan):
        plan = load_plan(plan)
    if not isinstance(out, str | PathLike):
        raise type_error("out", "be the path of a folder", out)
    check_choice(engine, "engine", ENGINES)
    check_bool(retry_failed, "retry_failed")
    if engine == "local":  # a cluster knows its own
        resolve_device(device)
    for name in only:
        check_choice(name, "only", plan.names)
    folder = Path(out).expanduser()
    for name in ("records", *TRACES, "prepared", "locks", "plans"):
        remove_leftovers(folder / name)
    worker = Worker(plan, folder, device, retry_failed, n_jobs)
    check_int(units_per_gpu, "units_per_gpu", minimum=1)
    with _cluster(engine, address) as ray:
        return _Run(plan, worker, report or _say_nothing, progress, ray, units_per_gpu, tuple(only)).run()


def prepare_plan(
    plan: Plan | str | PathLike[str],
    out: str | PathLike[str],
    *,
    report: Say | None = None,
    n_jobs: int | None = None,
) -> RunSummary:
    """Fit the encodings of a plan and keep them in a folder, without training anything.

    A machine that trains the plan in this folder, or in a copy of it, then fits nothing, and needs no LightGBM. Several
    processes may do this at once: each takes data sets that no other is at.

    Parameters
    ----------
    plan : Plan, str or path
        The plan, its name, or its file.
    out : str or path
        The folder; it is made.
    report : callable, optional
        Is called with a sentence for every data set.
    n_jobs : int, optional
        Processes; by default all cores.

    Returns
    -------
    RunSummary
        With the number of networks whose encoding is there as `n_ok`.

    Examples
    --------
    >>> import tempfile
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["BS-Q"], sizes=[7], backbones=["mlp"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepare_plan(plan, folder).n_ok
    5
    """
    if not isinstance(plan, Plan):
        plan = load_plan(plan)
    if not isinstance(out, str | PathLike):
        raise type_error("out", "be the path of a folder", out)
    say = report or _say_nothing
    worker = Worker(plan, Path(out).expanduser(), n_jobs=n_jobs)
    started, summary = time.perf_counter(), RunSummary()
    waiting = list(plan.names)
    while waiting:
        name = next((each for each in waiting if not worker.is_being_prepared(each)), waiting[0])
        waiting.remove(name)
        try:
            networks = expand(plan, name, worker.load(name).data.identity)
            fitted = worker.prepare(name, networks).fitted
        except DATA_ERRORS as error:
            summary.unavailable[name] = str(error)
            say(f"Data set {name!r} is left out: {error}")
            continue
        wanted = [fitted[wanted_by(each)] for each in networks]
        failed = sum(isinstance(result, str) for result in wanted)
        summary.add(Outcome(n_ok=len(wanted) - failed, n_failed=failed))
        summary.n_networks += len(networks)
        say(f"{name}: {len(wanted) - failed} networks can be trained" + (f", {failed} FAILED" if failed else ""))
    summary.seconds = time.perf_counter() - started
    return summary


def _say_nothing(sentence: str) -> None:
    del sentence


def _cluster(engine: str, address: str | None) -> AbstractContextManager[Any]:
    """Return a context that gives Ray, or None."""
    if engine == "local":
        return nullcontext()
    from knotwork.study._ray_engine import connected  # noqa: PLC0415 - only this engine needs it

    return connected(address)


@dataclass(eq=False)
class _Run:
    """One call of `run`."""

    plan: Plan
    worker: Worker
    say: Say
    progress: Progress | None
    ray: Any
    units_per_gpu: int
    only: tuple[str, ...]
    summary: RunSummary = field(default_factory=RunSummary)

    def run(self) -> RunSummary:
        """Do what is missing."""
        started = time.perf_counter()
        self.identities = self._identities()
        networks = [each for name, identity in self.identities.items() for each in expand(self.plan, name, identity)]
        n_rows = {name: identity.n_rows for name, identity in self.identities.items()}
        write_manifest(self.worker.out, self.plan, networks, n_rows, unknown=self.summary.unavailable)
        missing = self.worker.missing(networks)
        self.summary.n_networks, self.summary.n_before = len(networks), len(networks) - len(missing)
        self._say_what_is_there(networks, missing)
        units = group_units(missing, sizes=self.plan.sizes, together=self.plan.together)
        self._work([unit for name in self.only for unit in units if unit.dataset == name] if self.only else units)
        if missing:
            consolidate(self.worker.out)
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _identities(self) -> dict[str, DataIdentity]:
        """Return what each data set is; those that cannot be used are left out."""
        found = {}
        for name in self.plan.names:
            try:
                found[name] = self.worker.load(name).data.identity
            except DATA_ERRORS as error:
                self._leave_out(name, error)
        return found

    def _leave_out(self, name: str, error: Exception) -> None:
        self.summary.unavailable[name] = str(error)
        self.say(f"Data set {name!r} is left out: {error}")

    def _say_what_is_there(self, networks: list[NetworkSpec], missing: list[NetworkSpec]) -> None:
        for name, problem in self.worker.index.problems.items():
            self.say(f"Record {name} {problem}. It is ignored.")
        frame = self.worker.index.frame()
        for name, identity in self.identities.items():
            others = set(frame.loc[frame["dataset"] == name, "data_sha256"]) - {identity.sha256}
            if others and any(each.dataset == name for each in missing):
                self.say(f"Data set {name!r} has changed since it was last recorded: its networks are trained again.")
        if not networks:
            self.say(f"Nothing can be trained: no data set of {self.plan.name!r} could be loaded.")
        elif not missing and self.summary.unavailable:
            self.say(f"Nothing to do: all {len(networks):,} networks on the data sets that are there are recorded.")
        elif not missing:
            self.say(f"Nothing to do: all {len(networks):,} networks of {self.plan.name!r} are recorded.")
        else:
            before = f", {self.summary.n_before:,} are recorded" if self.summary.n_before else ""
            self.say(f"{len(missing):,} of {len(networks):,} networks are to be trained{before}.")

    def _work(self, pending: list[Unit]) -> None:
        """Work on units; those that another process has come last, and are waited for."""
        self.n_units, self.n_done = len(pending), 0
        waiting = False
        while pending:
            busy = self._work_here(pending) if self.ray is None else self._work_on_cluster(pending)
            if busy and not waiting:
                self.say(f"{len(busy)} units are being trained by another process; waiting for it.")
                waiting = True
            if len(busy) == len(pending):
                time.sleep(POLL)
            pending = busy

    def _work_here(self, pending: list[Unit]) -> list[Unit]:
        """Work on units in this process, and return those that another process has."""
        busy = []
        for place, unit in enumerate(pending):
            siblings = [
                each for other in pending[place + 1 :] if other.dataset == unit.dataset for each in other.networks
            ]
            outcome = Outcome()
            try:
                if unit.dataset not in self.summary.unavailable:
                    outcome = self.worker.work(unit, siblings=siblings, progress=self.progress)
            except DATA_ERRORS as error:
                self._leave_out(unit.dataset, error)
            if outcome.is_busy:
                busy.append(unit)
            else:
                self._tell(unit, outcome)
        return busy

    def _work_on_cluster(self, pending: list[Unit]) -> list[Unit]:
        """Work on units by a Ray cluster, and return those that another process has."""
        from knotwork.study._ray_engine import Cluster  # noqa: PLC0415 - only this engine needs it

        return Cluster(self.ray, self.worker, self._tell, self._leave_out, self.units_per_gpu).work(pending)

    def _tell(self, unit: Unit, outcome: Outcome) -> None:
        """Count a unit that is done, and say so."""
        self.n_done += 1
        self.summary.add(outcome)
        if outcome.n_ok or outcome.n_failed:
            failed = f", {outcome.n_failed} FAILED" if outcome.n_failed else ""
            self.say(f"[{self.n_done}/{self.n_units}] {unit.name}: {outcome.n_ok} networks{failed}")
