"""Units as tasks of a Ray cluster; the driver loads, fits and records, the workers train."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

from knotwork._checks import argument_error, check_choice, check_installed
from knotwork._preparation.members import Fitted, Split
from knotwork.study._data import StudyData
from knotwork.study._fitting import Wanted, wanted_by
from knotwork.study._locks import Lock, claim
from knotwork.study._networks import NetworkSpec, Unit
from knotwork.study._plan import Plan
from knotwork.study._traces import Result
from knotwork.study._trainer import failure
from knotwork.study._worker import DATA_ERRORS, Outcome, Prepared, Worker, origin, train_networks

__all__ = ["Cluster", "connected"]

MAX_RETRIES = 3
"""How often Ray starts a unit again whose worker has died."""

QUEUE = 2
"""Units handed to Ray at a time for each that the cluster can train at once: their tables lie in its store."""

PATIENCE = 5.0
"""Seconds in which a cluster must answer; Ray itself would wait for minutes."""

Tell = Callable[[Unit, Outcome], None]


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Give the module `ray`, connected to a cluster; a connection that was there before stays.

    Parameters
    ----------
    address : str, optional
        Address of a cluster, such as ``"auto"`` or ``"head:6379"``; by default that of the variable RAY_ADDRESS, and
        where this is not set, a cluster is started on this machine and stopped at the end.
    """
    check_installed("engine='ray'", "ray", "ray", hint="Or choose engine='local'.")
    import ray  # noqa: PLC0415 - an extra that few need

    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS")
    _look_for(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _look_for(address: str | None) -> None:
    """Check that somebody listens at an address of the form ``host:port``."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # a word that Ray knows, or will refuse
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str | None, error: Exception) -> Exception:
    return argument_error(
        "address",
        "be that of a Ray cluster that runs",
        address,
        f"The answer was: {str(error).rstrip('.')}. Start a cluster with 'ray start --head', or leave the address out "
        "for one on this machine.",
    )


class _Flight(NamedTuple):
    """A unit that a worker trains."""

    unit: Unit
    networks: list[NetworkSpec]
    lock: Lock
    started: float


@final
@dataclass(eq=False)
class Cluster:
    """Trains units on a Ray cluster and records them here.

    A worker needs neither the data sets nor LightGBM nor the folder of the study. If one dies, Ray runs its unit again
    elsewhere; a unit that has cost four workers their lives has failure records.

    Parameters
    ----------
    ray : module
        Ray, connected.
    worker : Worker
        What prepares and records, for the plan and the folder.
    tell : callable
        Is called with each unit and what became of it.
    leave_out : callable
        Is called with the name of a data set that cannot be used, and the error.
    units_per_gpu : int, default=2
        Units that share a GPU.
    """

    ray: Any
    worker: Worker
    tell: Tell
    leave_out: Callable[[str, Exception], None]
    units_per_gpu: int = 2
    _flights: dict[Any, _Flight] = field(default_factory=dict)
    _table: tuple[Prepared, Any] | None = None

    def work(self, units: list[Unit]) -> list[Unit]:
        """Train units, and return those that another process works on."""
        share, most = self._room()
        task = self.ray.remote(num_cpus=1, num_gpus=share, max_retries=MAX_RETRIES)(_train_unit)
        busy, unusable = [], set()
        try:
            for place, unit in enumerate(units):
                try:
                    if unit.dataset not in unusable and not self._launch(task, unit, units[place + 1 :]):
                        busy.append(unit)
                except DATA_ERRORS as error:
                    unusable.add(unit.dataset)
                    self.leave_out(unit.dataset, error)
                self._land(wait=len(self._flights) >= most)
            while self._flights:
                self._land(wait=True)
        finally:
            # Tasks are left to the end of the connection: cancelling one that is just done aborts this process.
            for flight in self._flights.values():
                flight.lock.release()
        return busy

    def _room(self) -> tuple[float, int]:
        """Return the share of a GPU that a unit asks for, and how many units to hand over.

        The share is 0 on a cluster without GPUs, and where the CPU was chosen.
        """
        device = check_choice(self.worker.device, "device of a Ray cluster", ("auto", "cpu", "cuda"))
        there = self.ray.cluster_resources()
        if device == "cuda" and not there.get("GPU"):
            raise argument_error("device", "be 'auto' or 'cpu', for the cluster has no GPU", device)
        if device == "cpu" or not there.get("GPU"):
            return 0.0, QUEUE * max(int(there.get("CPU", 0)), 1)
        return 1.0 / self.units_per_gpu, QUEUE * self.units_per_gpu * int(there["GPU"])

    def _launch(self, task: Any, unit: Unit, later: list[Unit]) -> bool:
        """Hand what is missing of a unit to Ray; False if another process works on it."""
        lock = claim(self.worker.out / "locks", unit.slot)
        if lock is None:
            return False
        try:
            networks = self.worker.missing(unit.networks)
            if not networks:
                lock.release()
                self.tell(unit, Outcome())
                return True
            siblings = [each for other in later if other.dataset == unit.dataset for each in other.networks]
            prepared = self.worker.prepare(unit.dataset, [*networks, *siblings])
            wanted = {wanted_by(each) for each in networks}
            fitted = {each: prepared.fitted[each] for each in wanted}
            handed = task.remote(self.worker.plan, self._stored(prepared), fitted, networks, self.worker.device)
        except BaseException:
            lock.release()
            raise
        self._flights[handed] = _Flight(unit, networks, lock, time.time())
        return True

    def _stored(self, prepared: Prepared) -> Any:
        """Return where a table lies in Ray's store: once, for all its units."""
        if self._table is None or self._table[0] is not prepared:
            self._table = prepared, self.ray.put((prepared.data, prepared.splits))
        return self._table[1]

    def _land(self, *, wait: bool) -> None:
        """Record units that are done; if told so, wait until one is."""
        if not self._flights:
            return
        done, _ = self.ray.wait(list(self._flights), num_returns=1, timeout=None if wait else 0)
        while done:
            flight = self._flights[done[0]]
            results = self._results(done[0], len(flight.networks))
            del self._flights[done[0]]
            with flight.lock:
                outcome = self.worker.record(flight.unit, flight.networks, results, started=flight.started)
            self.tell(flight.unit, outcome)
            if not self._flights:
                return
            done, _ = self.ray.wait(list(self._flights), num_returns=1, timeout=0)

    def _results(self, handed: Any, n_networks: int) -> list[Result]:
        """Return what a worker found; failures if worker after worker has died of it."""
        errors = self.ray.exceptions
        try:
            results: list[Result] = self.ray.get(handed)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            text = f"{MAX_RETRIES + 1} workers died, one after the other, while they trained this. Ray says: {error}"
            return [failure(text) for _ in range(n_networks)]
        return results


def _train_unit(
    plan: Plan,
    table: tuple[StudyData, list[Split]],
    fitted: dict[Wanted, Fitted | str],
    networks: list[NetworkSpec],
    device: str,
) -> list[Result]:
    """Train a unit, in a worker; its clock starts here, for it may have waited."""
    started = time.time()
    results = train_networks(plan, Prepared(*table, fitted), networks, device=device)
    return [replace(each, row={**each.row, **origin(), "started_at": started}) for each in results]
