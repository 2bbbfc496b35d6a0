"""The work on one unit: claim it, see what is still missing, fit, train, record."""

import hashlib
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import torch

import knotwork
from knotwork._preparation.members import Fitted, Split, make_splits
from knotwork.errors import ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError
from knotwork.study._data import DataIdentity, StudyData, load_data
from knotwork.study._files import process_home
from knotwork.study._fitting import Wanted, fit_all, wanted_by
from knotwork.study._locks import PREPARING, Lock, claim
from knotwork.study._networks import NetworkSpec, Unit
from knotwork.study._plan import Plan
from knotwork.study._records import RecordIndex, write_records
from knotwork.study._traces import Result, write_traces
from knotwork.study._trainer import UnitTrainer
from knotwork.training._progress import Reporter

__all__ = ["DATA_ERRORS", "POLL", "Outcome", "Prepared", "Worker", "finish_rows", "origin", "train_networks"]

DATA_ERRORS = (ArgumentError, ColumnError, DatasetMismatchError, DatasetUnavailableError)
"""What makes a data set unusable; it is left out, and the rest goes on."""

POLL = 0.5
"""Seconds between two looks at what another process works on."""

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Makes a display for the training of one unit."""


@dataclass(frozen=True)
class Outcome:
    """What became of a unit.

    Parameters
    ----------
    is_busy : bool, default=False
        Whether another process works on it.
    n_ok, n_failed : int, default=0
        Networks recorded now.
    """

    is_busy: bool = False
    n_ok: int = 0
    n_failed: int = 0


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set ready for training.

    Parameters
    ----------
    data : StudyData
        The table.
    splits : list of Split
        Its folds.
    fitted : dict of Wanted to Fitted or str
        Encodings, or tracebacks.
    """

    data: StudyData
    splits: list[Split]
    fitted: dict[Wanted, Fitted | str]


@final
@dataclass(eq=False)
class Worker:
    """Works on units of a plan in a folder.

    Parameters
    ----------
    plan : Plan
        The plan.
    out : Path
        The folder.
    device : str
        Where to train.
    retry_failed : bool
        Whether networks that failed before are missing, too.
    n_jobs : int, optional
        Processes for the fitting of encodings.
    """

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
        """Load a data set and split it; the last one is kept, and of all what they were when first loaded."""
        if self.prepared is None or self.prepared.data.name != name:
            self.prepared = None
            data = load_data(self.plan, name)
            plan, table = self.plan, data.table
            splits = make_splits(table.target, table.task, folds=plan.folds, seed=plan.seed, split=plan.split)
            self.prepared = Prepared(data, splits, {})
            self.identities.setdefault(name, data.identity)
        return self.prepared

    def missing(self, networks: Iterable[NetworkSpec]) -> list[NetworkSpec]:
        """Return those of the networks that are to be trained, by what is recorded now."""
        states = self.index.refresh().states()
        return [each for each in networks if self._is_missing(states.get(each.key))]

    def _is_missing(self, state: tuple[str, float] | None) -> bool:
        if state is None:
            return True
        status, recorded_at = state
        return self.retry_failed and status == "failed" and recorded_at < self.started

    def prepare(self, name: str, networks: Iterable[NetworkSpec]) -> Prepared:
        """Return a data set with the encodings of networks, which are fitted unless they have been.

        While another process fits encodings of this data set, this one waits, and takes what it has kept.
        """
        prepared = self.load(name)
        if prepared.data.identity != self.identities[name]:
            raise DatasetMismatchError(
                f"data set {name!r} has changed while the plan was running. Run again: the networks on it are new ones."
            )
        wanted = {wanted_by(each) for each in networks}
        new = sorted((each for each in wanted if each not in prepared.fitted), key=repr)
        if new:
            folder = self.out / "prepared"
            with self._claim_preparation(name):
                fitted = fit_all(
                    prepared.data, prepared.splits, new, folder=folder, bins=self.plan.bins, n_jobs=self.n_jobs
                )
            prepared.fitted.update(fitted)
        return prepared

    def is_being_prepared(self, name: str) -> bool:
        """Return whether a process fits encodings of a data set."""
        return (self.out / "locks" / f"{_preparation_slot(name)}.lock").exists()

    def _claim_preparation(self, name: str) -> Lock:
        """Wait until no other process fits encodings of a data set, and keep others from it."""
        while (lock := claim(self.out / "locks", _preparation_slot(name))) is None:
            time.sleep(POLL)
        return lock

    def work(self, unit: Unit, *, siblings: Iterable[NetworkSpec] = (), progress: Progress | None = None) -> Outcome:
        """Train what is missing of a unit, and record it; nothing is recorded if this is interrupted.

        Parameters
        ----------
        unit : Unit
            The unit.
        siblings : iterable of NetworkSpec
            Networks on the same data set that come later: what they need is fitted with the unit's own, which saves
            trees.
        progress : callable, optional
            Makes a display for the training.
        """
        lock = claim(self.out / "locks", unit.slot)
        if lock is None:
            return Outcome(is_busy=True)
        with lock:
            networks = self.missing(unit.networks)
            if not networks:
                return Outcome()
            started = time.time()
            prepared = self.prepare(unit.dataset, [*networks, *siblings])
            with nullcontext(None) if progress is None else progress() as report:
                results = train_networks(self.plan, prepared, networks, device=self.device, report=report)
            return self.record(unit, networks, results, started=started)

    def record(self, unit: Unit, networks: list[NetworkSpec], results: list[Result], *, started: float) -> Outcome:
        """Record what came out of networks of a unit; what is kept beside the record comes first.

        Parameters
        ----------
        unit : Unit
            The unit.
        networks : list of NetworkSpec
            Those of its networks that were trained.
        results : list of Result
            What came out of each.
        started : float
            When the work began, in seconds since 1970.
        """
        name = replace(unit, networks=tuple(networks)).record_name
        identity = self.identities[unit.dataset]
        write_traces(self.out, name, networks, results, features=identity.numerical)
        rows = [result.row for result in results]
        write_records(self.out, name, finish_rows(self.plan, identity, networks, rows, started=started))
        n_ok = sum(row["status"] == "ok" for row in rows)
        return Outcome(n_ok=n_ok, n_failed=len(rows) - n_ok)


def _preparation_slot(name: str) -> str:
    return f"{PREPARING}{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def train_networks(
    plan: Plan, prepared: Prepared, networks: list[NetworkSpec], *, device: str, report: Reporter | None = None
) -> list[Result]:
    """Train networks, and return what came out of each."""
    return UnitTrainer(plan, prepared.data, prepared.splits, device, report).results(networks, prepared.fitted)


def origin() -> dict[str, Any]:
    """Return what is recorded of the place where networks are trained."""
    return {
        "version": knotwork.__version__,
        "torch_version": torch.__version__,
        "host": process_home().split()[0],
    }


def finish_rows(
    plan: Plan, identity: DataIdentity, networks: list[NetworkSpec], rows: list[dict[str, Any]], *, started: float
) -> list[dict[str, Any]]:
    """Add to results what was trained, from what, where and when; a result that says where and when is right."""
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
    names = ("dataset", "backbone", "tokens", "method", "size", "fold", "seed", "variant")
    return [
        {"key": each.key, **dict(zip(names, each.identity, strict=True)), **shared, **row}
        for each, row in zip(networks, rows, strict=True)
    ]
