"""Units as tasks of a Ray cluster: this process loads, fits and records; the workers train."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

from knotwork._checks import argument_error, check_choice
from knotwork._preparation.members import Fitted
from knotwork.study._folder import Lock, claim
from knotwork.study._networks import NetworkSpec, Unit, Wanted, networks_after
from knotwork.study._plan import Plan
from knotwork.study._prepared import StudyData
from knotwork.study._provenance import origin
from knotwork.study._traces import Result
from knotwork.study._trainer import UnitTrainer, failure
from knotwork.study._worker import DATA_ERRORS, Worker
from knotwork.training import MAX_RETRIES, connected

__all__ = ["RayCluster", "connected"]

QUEUE = 2
"""Units submitted to Ray per unit that the cluster can train at once: two keep all workers busy, and the tables of
waiting units fit into Ray's object store."""


@final
@dataclass(eq=False)
class RayCluster:
    """Trains units on a Ray cluster and records them in this process.

    Ray workers need neither the data sets nor LightGBM nor the folder of the study. If a worker dies, Ray runs its unit
    again elsewhere; after the death of four workers the unit gets failure records. `worker` prepares and records units,
    `finish` is called with each unit and its new records by status, `skip` with an unusable data set and the error.
    """

    ray: Any
    worker: Worker
    finish: Callable[[Unit, Counter[str]], None]
    skip: Callable[[str, Exception], None]
    units_per_gpu: int = 2
    _submitted: dict[Any, tuple[Unit, list[NetworkSpec], Lock, float]] = field(default_factory=dict)
    _table: tuple[StudyData, Any] | None = None

    def work(self, units: list[Unit]) -> list[Unit]:
        """Train units, and return those that another process is working on."""
        share, most = self._capacity()
        task = self.ray.remote(num_cpus=1, num_gpus=share, max_retries=MAX_RETRIES)(_train_unit)
        busy, skipped = [], set()
        try:
            for place, unit in enumerate(units):
                try:
                    if unit.dataset not in skipped and not self._submit(task, unit, networks_after(units, place)):
                        busy.append(unit)
                except DATA_ERRORS as error:
                    skipped.add(unit.dataset)
                    self.skip(unit.dataset, error)
                self._collect(wait=len(self._submitted) >= most)
            while self._submitted:
                self._collect(wait=True)
        finally:
            # Tasks end with the connection. Cancelling a task that has just ended would abort this process.
            for _, _, lock, _ in self._submitted.values():
                lock.release()
        return busy

    def _capacity(self) -> tuple[float, int]:
        """Return the share of a GPU per unit (0 for the CPU), and the maximum number of submitted units."""
        device = check_choice(self.worker.device, "device of a Ray cluster", ("auto", "cpu", "cuda"))
        resources = self.ray.cluster_resources()
        if device == "cuda" and not resources.get("GPU"):
            raise argument_error("device", "be 'auto' or 'cpu' on a cluster without GPUs", device)
        if device == "cpu" or not resources.get("GPU"):
            return 0.0, QUEUE * max(int(resources.get("CPU", 0)), 1)
        return 1.0 / self.units_per_gpu, QUEUE * self.units_per_gpu * int(resources["GPU"])

    def _submit(self, task: Any, unit: Unit, later: list[NetworkSpec]) -> bool:
        """Submit the missing networks of a unit to Ray; False if another process is working on it."""
        lock = claim(self.worker.out / "locks", unit.slot)
        if lock is None:
            return False
        try:
            networks = self.worker.missing(unit.networks)
            if not networks:
                lock.release()
                self.finish(unit, Counter())
                return True
            data = self.worker.prepare(unit.dataset, [*networks, *later])
            if self._table is None or self._table[0] is not data:  # stored once for all units of the data set
                self._table = data, self.ray.put(replace(data, fitted={}))
            fitted = {network.wanted: data.fitted[network.wanted] for network in networks}
            reference = task.remote(self.worker.plan, self._table[1], fitted, networks, self.worker.device)
        except BaseException:
            lock.release()
            raise
        self._submitted[reference] = unit, networks, lock, time.time()
        return True

    def _collect(self, *, wait: bool) -> None:
        """Record all finished units; with `wait`, wait for the first one."""
        timeout = None if wait else 0
        while self._submitted:
            done, _ = self.ray.wait(list(self._submitted), num_returns=1, timeout=timeout)
            if not done:
                return
            timeout = 0
            unit, networks, lock, started = self._submitted[done[0]]
            results = self._results(done[0], len(networks))
            del self._submitted[done[0]]
            with lock:
                counts = self.worker.record(unit, networks, results, started)
            self.finish(unit, counts)

    def _results(self, reference: Any, n_networks: int) -> list[Result]:
        """Return the results of a task; failures if all of its workers died."""
        errors = self.ray.exceptions
        try:
            results: list[Result] = self.ray.get(reference)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            text = f"{MAX_RETRIES + 1} workers died in succession while training this unit. Ray reports: {error}"
            return [failure(text) for _ in range(n_networks)]
        return results


def _train_unit(
    plan: Plan, data: StudyData, fitted: dict[Wanted, Fitted | str], networks: list[NetworkSpec], device: str
) -> list[Result]:
    """Train a unit in a Ray worker; its time starts here, because the task may have waited in the queue."""
    started = time.time()
    results = UnitTrainer(plan, replace(data, fitted=fitted), device).results(networks)
    return [replace(result, row={**origin(), **result.row, "started_at": started}) for result in results]
