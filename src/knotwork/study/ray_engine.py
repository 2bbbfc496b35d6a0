"""Units as tasks of a Ray cluster; the driver loads, fits and records, the workers train."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from knotwork.errors import MissingPackageError
from knotwork.study.locks import Lock, claim
from knotwork.study.networks import NetworkSpec, Unit
from knotwork.study.plan import Plan
from knotwork.study.preparation import Wanted, fitted_as
from knotwork.study.worker import DATA_ERRORS, Outcome, Prepared, Worker, train_rows

__all__ = ["Cluster", "connect"]

MAX_RETRIES = 3
"""How often Ray starts a unit again whose worker has died."""

UNITS_PER_GPU = 2
"""Units that share a GPU."""

MOST_FLYING = 64
"""Units handed to Ray at a time: their tables and knots lie in its store."""

Tell = Callable[[Unit, Outcome], None]


def connect(address: str | None = None) -> Any:
    """Return the module `ray`, connected to a cluster.

    Parameters
    ----------
    address : str, optional
        Address of a cluster, such as ``"auto"`` or ``"ray://head:10001"``; by default one is started on this machine.
    """
    try:
        import ray  # noqa: PLC0415 - an extra that few need
    except ImportError as error:
        raise MissingPackageError(
            "engine='ray' needs Ray, which is not installed. Install it with 'pip install \"knotwork[ray]\"', or "
            "choose engine='local'."
        ) from error
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    return ray


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
    elsewhere.

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
    """

    ray: Any
    worker: Worker
    tell: Tell
    leave_out: Callable[[str, Exception], None]
    _flights: dict[Any, _Flight] = field(default_factory=dict)

    def work(self, units: list[Unit]) -> list[Unit]:
        """Train units, and return those that another process works on."""
        share = 1.0 / UNITS_PER_GPU if self.ray.cluster_resources().get("GPU", 0) else 0.0
        task = self.ray.remote(num_cpus=1, num_gpus=share, max_retries=MAX_RETRIES)(_train_unit)
        busy = []
        try:
            for place, unit in enumerate(units):
                try:
                    if not self._launch(task, unit, units[place + 1 :]):
                        busy.append(unit)
                except DATA_ERRORS as error:
                    self.leave_out(unit.dataset, error)
                if len(self._flights) >= MOST_FLYING:
                    self._land()
            while self._flights:
                self._land()
        finally:
            for handed, flight in self._flights.items():
                self.ray.cancel(handed)
                flight.lock.release()
        return busy

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
            handed = task.remote(self.worker.plan, _only(prepared, networks), networks, self.worker.device)
        except BaseException:
            lock.release()
            raise
        self._flights[handed] = _Flight(unit, networks, lock, time.time())
        return True

    def _land(self) -> None:
        """Wait for a unit, and record it."""
        done = self.ray.wait(list(self._flights), num_returns=1)[0][0]
        rows = self.ray.get(done)
        flight = self._flights.pop(done)
        with flight.lock:
            outcome = self.worker.record(flight.unit, flight.networks, rows, started=flight.started)
        self.tell(flight.unit, outcome)


def _only(prepared: Prepared, networks: list[NetworkSpec]) -> Prepared:
    """Return a data set with what some networks need, and no more."""
    wanted = {Wanted(fitted_as(each.method), each.size, each.fold) for each in networks}
    return Prepared(prepared.data, prepared.splits, {each: prepared.fitted[each] for each in wanted})


def _train_unit(plan: Plan, prepared: Prepared, networks: list[NetworkSpec], device: str) -> list[dict[str, Any]]:
    """Train a unit, in a worker."""
    return train_rows(plan, prepared, networks, device=device)
