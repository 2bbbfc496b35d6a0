"""Work on one unit: acquire its lock, then prepare, train and record its missing networks."""

import hashlib
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from knotwork._preparation.members import Fitted, Split, make_splits
from knotwork.errors import ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError
from knotwork.study._data import DataIdentity, StudyData, load_data
from knotwork.study._fitting import Wanted, fit_all, wanted_by
from knotwork.study._folder import PREPARING, STALE, Lock, claim
from knotwork.study._networks import NetworkSpec, Unit
from knotwork.study._plan import Plan
from knotwork.study._provenance import origin
from knotwork.study._records import RecordIndex, write_records
from knotwork.study._traces import Result, write_traces
from knotwork.study._trainer import UnitTrainer
from knotwork.training import Reporter

__all__ = ["DATA_ERRORS", "POLL", "Prepared", "UnitOutcome", "Worker", "train_networks"]

DATA_ERRORS = (ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError)
"""Errors that make a data set unavailable: it is skipped, and other data sets are trained."""

POLL = 0.5
"""Seconds between two attempts to acquire a lock held by another process."""

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Makes a progress display."""


@dataclass(frozen=True)
class UnitOutcome:
    """Result of work on a unit: whether another process is working on it, and the numbers of new records."""

    is_busy: bool = False
    n_ok: int = 0
    n_failed: int = 0


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set, its folds, and its fitted encodings or their tracebacks."""

    data: StudyData
    splits: list[Split]
    fitted: dict[Wanted, Fitted | str]


@final
@dataclass(eq=False)
class Worker:
    """Works on units of a plan in the folder `out`; parameters as in `knotwork.study.run`."""

    plan: Plan
    out: Path
    device: str = "auto"
    retry_failed: bool = False
    n_jobs: int | None = None
    started: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.index = RecordIndex(self.out)
        self.prepared: Prepared | None = None
        self.identities: dict[str, DataIdentity] = {}

    def load(self, name: str) -> Prepared:
        """Load and split a data set; the last data set is cached, and the first identity of each data set is kept."""
        if self.prepared is None or self.prepared.data.name != name:
            self.prepared = None
            data = load_data(self.plan, name)
            plan, table = self.plan, data.table
            splits = make_splits(table.target, table.task, folds=plan.folds, seed=plan.seed, split=plan.split)
            self.prepared = Prepared(data, splits, {})
            self.identities.setdefault(name, data.identity)
        return self.prepared

    def missing(self, networks: Iterable[NetworkSpec]) -> list[NetworkSpec]:
        """Return the networks without a record, and with `retry_failed` those that failed before this run."""
        states = self.index.refresh().states()
        if not self.retry_failed:
            return [network for network in networks if network.key not in states]
        soon = time.time() + STALE  # a later failure was recorded by a different clock
        earlier = {key for key, (status, at) in states.items() if status == "failed" and not self.started <= at <= soon}
        return [network for network in networks if network.key not in states or network.key in earlier]

    def prepare(self, name: str, networks: Iterable[NetworkSpec]) -> Prepared:
        """Return a data set with the encodings of networks; missing encodings are fitted.

        While another process fits encodings of this data set, wait, and then read them.
        """
        prepared = self.load(name)
        if prepared.data.identity != self.identities[name]:
            raise DatasetMismatchError(
                f"data set {name!r} has changed while the plan was running. Run the plan again for its networks."
            )
        new = sorted({wanted_by(network) for network in networks} - prepared.fitted.keys(), key=repr)
        if new:
            folder = self.out / "prepared"
            with self._claim_preparation(name):
                fitted = fit_all(
                    prepared.data, prepared.splits, new, folder=folder, bins=self.plan.bins, n_jobs=self.n_jobs
                )
            prepared.fitted.update(fitted)
        return prepared

    def is_being_prepared(self, name: str) -> bool:
        """Return whether a process is fitting encodings of a data set."""
        return (self.out / "locks" / f"{_preparation_slot(name)}.lock").exists()

    def _claim_preparation(self, name: str) -> Lock:
        """Wait until no other process is fitting encodings of a data set, and acquire the lock."""
        while (lock := claim(self.out / "locks", _preparation_slot(name))) is None:
            time.sleep(POLL)
        return lock

    def work(self, unit: Unit, *, siblings: Iterable[NetworkSpec] = (), report: Reporter | None = None) -> UnitOutcome:
        """Train and record the missing networks of a unit; if interrupted, nothing is recorded.

        Encodings of `siblings`, later networks on the same data set, are fitted with those of the unit, so that trees
        are grown only once.
        """
        lock = claim(self.out / "locks", unit.slot)
        if lock is None:
            return UnitOutcome(is_busy=True)
        with lock:
            networks = self.missing(unit.networks)
            if not networks:
                return UnitOutcome()
            started = time.time()
            prepared = self.prepare(unit.dataset, [*networks, *siblings])
            results = train_networks(self.plan, prepared, networks, device=self.device, report=report)
            return self.record(unit, networks, results, started=started)

    def record(self, unit: Unit, networks: list[NetworkSpec], results: list[Result], *, started: float) -> UnitOutcome:
        """Record the results of networks of a unit; `started` is the time of the start in seconds since 1970.

        Traces are written before the record, so that a recorded network always has its traces.
        """
        name = replace(unit, networks=tuple(networks)).record_name
        identity = self.identities[unit.dataset]
        write_traces(self.out, name, networks, results, features=identity.numerical)
        rows = [result.row for result in results]
        write_records(self.out, name, _complete_rows(self.plan, identity, networks, rows, started=started))
        n_ok = sum(row["status"] == "ok" for row in rows)
        return UnitOutcome(n_ok=n_ok, n_failed=len(rows) - n_ok)


def _preparation_slot(name: str) -> str:
    return f"{PREPARING}{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def train_networks(
    plan: Plan, prepared: Prepared, networks: list[NetworkSpec], *, device: str, report: Reporter | None = None
) -> list[Result]:
    """Train networks, and return the result of each."""
    return UnitTrainer(plan, prepared.data, prepared.splits, device, report).results(networks, prepared.fitted)


def _complete_rows(
    plan: Plan, identity: DataIdentity, networks: list[NetworkSpec], rows: list[dict[str, Any]], *, started: float
) -> list[dict[str, Any]]:
    """Add columns on network, data, plan, machine and time; columns already in a row take precedence."""
    shared = {
        "task": identity.task,
        "together": plan.together,
        "n_rows": identity.n_rows,
        "n_features": len(identity.numerical) + len(identity.categorical),
        "data_sha256": identity.sha256,
        "plan": plan.name,
        "plan_hash": plan.plan_hash,
        **origin(),
        "started_at": started,
        "recorded_at": time.time(),
    }
    return [
        {"key": network.key, **network.identity, **shared, **row} for network, row in zip(networks, rows, strict=True)
    ]
