"""Units as tasks of a Ray cluster: this process loads, fits and records; the workers train."""

import time
from dataclasses import dataclass, replace
from typing import Any, final

from knotwork._checks import argument_error, check_choice
from knotwork._preparation.members import Fitted
from knotwork.study._networks import NetworkSpec, Wanted
from knotwork.study._plan import Plan
from knotwork.study._prepared import StudyData
from knotwork.study._provenance import origin
from knotwork.study._traces import Result
from knotwork.study._trainer import UnitTrainer, failure
from knotwork.training import MAX_RETRIES, Reporter, connected

__all__ = ["RayEngine", "connected"]

QUEUE = 2
"""Units submitted to Ray per unit that the cluster can train at once: two keep all workers busy, and the tables of
waiting units fit into Ray's object store."""


@final
@dataclass(eq=False)
class RayEngine:
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
        fitted = {network.wanted: data.fitted[network.wanted] for network in networks}
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
    plan: Plan, data: StudyData, fitted: dict[Wanted, Fitted | str], networks: list[NetworkSpec], device: str
) -> list[Result]:
    """Train a unit in a Ray worker; its time starts here, because the task may have waited in the queue."""
    started = time.time()
    results = UnitTrainer(plan, replace(data, fitted=fitted), device).results(networks)
    return [replace(result, row={**origin(), **result.row, "started_at": started}) for result in results]
