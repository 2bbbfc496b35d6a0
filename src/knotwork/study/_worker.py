"""Work on one unit: acquire its lock, then prepare, train and record its missing networks."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from knotwork.errors import ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError
from knotwork.study._folder import PREPARING, STALE, Lock, claim
from knotwork.study._networks import DataIdentity, NetworkSpec, Unit
from knotwork.study._plan import Plan
from knotwork.study._prepared import StudyData, fit_all, load_data
from knotwork.study._provenance import origin
from knotwork.study._records import RecordIndex, write_records
from knotwork.study._traces import Result, write_traces
from knotwork.study._trainer import UnitTrainer
from knotwork.training import Reporter

__all__ = ["DATA_ERRORS", "POLL", "Progress", "Worker"]

DATA_ERRORS = (ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError)
"""Errors that make a data set unavailable: it is skipped, and other data sets are trained."""

POLL = 0.5
"""Seconds between two attempts to acquire a lock held by another process."""

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Makes a progress display."""


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
        self.data: StudyData | None = None
        self.identities: dict[str, DataIdentity] = {}

    def load(self, name: str) -> StudyData:
        """Load and split a data set; the last data set is cached, and the first identity of each data set is kept."""
        if self.data is None or self.data.name != name:
            self.data = None
            self.data = load_data(self.plan, name)
            self.identities.setdefault(name, self.data.identity)
        return self.data

    def missing(self, networks: Iterable[NetworkSpec]) -> list[NetworkSpec]:
        """Return the networks without a record, and with `retry_failed` those that failed before this run."""
        states = self.index.refresh().states()
        if not self.retry_failed:
            return [network for network in networks if network.key not in states]
        soon = time.time() + STALE  # a later failure was recorded by a different clock
        earlier = {key for key, (status, at) in states.items() if status == "failed" and not self.started <= at <= soon}
        return [network for network in networks if network.key not in states or network.key in earlier]

    def prepare(self, name: str, networks: Iterable[NetworkSpec]) -> StudyData:
        """Return a data set with the encodings of networks; missing encodings are fitted.

        While another process fits encodings of this data set, wait, and then read them.
        """
        data = self.load(name)
        if data.identity != self.identities[name]:
            raise DatasetMismatchError(
                f"data set {name!r} has changed while the plan was running. Run the plan again for its networks."
            )
        new = sorted({network.wanted for network in networks} - data.fitted.keys(), key=repr)
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

    def work(self, unit: Unit, later: Iterable[NetworkSpec], report: Reporter | None = None) -> Counter[str] | None:
        """Train and record the missing networks of a unit; if interrupted, nothing is recorded.

        Return the numbers of new records by status, or None if another process is working on the unit. Encodings of
        `later` networks on the same data set are fitted with those of the unit, so that trees are grown only once.
        """
        lock = claim(self.out / "locks", unit.slot)
        if lock is None:
            return None
        with lock:
            networks = self.missing(unit.networks)
            if not networks:
                return Counter()
            started = time.time()
            data = self.prepare(unit.dataset, [*networks, *later])
            results = UnitTrainer(self.plan, data, self.device, report).results(networks)
            return self.record(unit, networks, results, started)

    def record(self, unit: Unit, networks: list[NetworkSpec], results: list[Result], started: float) -> Counter[str]:
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
