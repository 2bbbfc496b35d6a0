"""One call of training on several devices, or on a Ray cluster: members are independent, so each device trains some.

Devices of this machine have a thread each: the table is in memory once, and callbacks and Ctrl-C work as with one
device. Steps on a GPU are captured graphs, and launching them releases Python's lock. Workers of a cluster are
processes, on this machine or on others, which are sent the table and return networks.
"""

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
import torch

from knotwork._checks import argument_error, check_choice, check_installed
from knotwork.nn import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import matrix_precision, plan_stacks, resolve_device, train, training_costs
from knotwork.training._execution import run_in_threads
from knotwork.training._members import Member, TrainingTable, complete
from knotwork.training._results import EpochReport, Reporter, Reporters, Trained

CLUSTER_DEVICES = ("ray", "ray:cpu", "ray:cuda")
"""The workers of a Ray cluster: its GPUs if it has any, or as they are named."""

CPU = torch.device("cpu")

MAX_RETRIES = 3
"""Number of times that Ray restarts a task whose worker has died."""

CLUSTER_TIMEOUT = 5.0
"""Seconds in which a cluster must answer; Ray itself would wait for minutes."""


def resolve_devices(device: Any) -> list[torch.device]:
    """Return the devices of a name or of a sequence of names; those of a sequence are of one type."""
    if not isinstance(device, list | tuple):
        return [resolve_device(device)]
    devices = [resolve_device(each) for each in device]
    if not devices or len({each.type for each in devices}) > 1:
        hint = "Write device=['cuda:0', 'cuda:1'], for example."
        raise argument_error("device", "be one device, or several of one type", device, hint)
    return devices


def is_cluster(device: Any) -> bool:
    """Return whether a device is that of a Ray cluster; an unknown one of a cluster is an error."""
    if not isinstance(device, str) or device.partition(":")[0] != "ray":
        return False
    check_choice(device, "device", CLUSTER_DEVICES)
    return True


def device_type(device: Any) -> str:
    """Return the type of the devices; those of a connected cluster, if it is one."""
    if not is_cluster(device):
        return resolve_devices(device)[0].type
    import ray  # noqa: PLC0415 - an optional package

    return "cuda" if _cluster_workers(ray, device)[1] else "cpu"


def train_spread(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    config: TrainingConfig,
    *,
    device: Any = "auto",
    report: Reporter | None = None,
    start: Trained | None = None,
    **settings: Any,
) -> Trained:
    """Train members on several devices; the result is on the first of them.

    Parameters
    ----------
    table, members, backbone, config, report, start
        As in `train`.
    device : str, torch.device or sequence of them, default="auto"
        The devices; those of a Ray cluster (``"ray"``, ``"ray:cpu"``, ``"ray:cuda"``) send no reports.
    **settings
        Further arguments of `train`.

    Returns
    -------
    Trained
        Networks and histories: those of `train` on one device up to rounding, and bit for bit with
        `TrainingConfig.reproducible`.
    """
    members = complete(members, backbone, config)
    if is_cluster(device):
        with connected() as ray:
            return _train_on_cluster(ray, table, members, (backbone, config), device=device, start=start, **settings)
    devices = resolve_devices(device)
    if len(devices) == 1:
        return train(table, members, backbone, config, device=devices[0], report=report, start=start, **settings)
    groups = divide_members(table, members, n_groups=len(devices), start=start)
    costs = training_costs(table, members)
    progress = _Progress(None if report is None else Reporters([report]), [costs[group].sum() for group in groups])

    trained: dict[int, Trained] = {}

    def train_group(worker: int) -> None:
        on_gpu = devices[worker].type == "cuda"
        with torch.cuda.device(devices[worker]) if on_gpu else nullcontext():
            chosen = {**settings, "device": devices[worker], "report": progress.reporter(worker)}
            chosen["start"] = None if start is None else start.take(groups[worker])
            group = [members[place] for place in groups[worker]]
            trained[worker] = train(table, group, backbone, config, **chosen)

    interrupted = False
    try:
        with matrix_precision(config, devices[0]):
            run_in_threads([partial(train_group, worker) for worker in range(len(groups))], progress.stop)
    except KeyboardInterrupt:
        if len(trained) < len(groups):  # it came before all of them began
            raise
        interrupted = True
    joined = Trained.joined([trained[worker].to(devices[0]) for worker in range(len(groups))], groups)
    return replace(joined, interrupted=joined.interrupted or interrupted, stopped=joined.stopped or interrupted)


def divide_members(
    table: TrainingTable, members: Sequence[Member], *, n_groups: int, start: Trained | None = None
) -> list[list[int]]:
    """Return the places of the members of each device, increasing: equal shares of the work, and few divided stacks.

    There are fewer groups than devices if there are fewer members.
    """
    order = np.array([place for stack in plan_stacks(table, members, CPU, start) for place in stack])
    costs = training_costs(table, members)[order]
    n_groups = min(n_groups, len(order))
    middles = (np.cumsum(costs) - 0.5 * costs) / max(costs.sum(), 1e-300)
    numbers = np.minimum((middles * n_groups).astype(np.intp), n_groups - 1)
    groups = [sorted(order[numbers == number].tolist()) for number in range(n_groups)]
    return [group for group in groups if group]


@final
class _Progress:
    """Joins the reports of all devices for one receiver, and tells the devices when to stop."""

    def __init__(self, report: Reporters | None, costs: Sequence[float]) -> None:
        self.stop, self._report, self._lock = threading.Event(), report, threading.Lock()
        self._shares = np.array(costs) / max(float(np.sum(costs)), 1e-300)
        self._latest: list[EpochReport | None] = [None] * len(costs)

    def reporter(self, worker: int) -> Reporter:
        """Return the function that a device calls after every epoch."""

        def receive(report: EpochReport) -> bool:
            with self._lock:
                self._latest[worker] = report
                try:
                    if self._report is not None and self._report(self._joined(worker, report)):
                        self.stop.set()
                except BaseException:
                    self.stop.set()
                    raise
            return self.stop.is_set()

        return receive

    def _joined(self, worker: int, report: EpochReport) -> EpochReport:
        n_stacks = [1 if latest is None else latest.n_stacks for latest in self._latest]
        done = [0.0 if latest is None else latest.done for latest in self._latest]
        return replace(
            report,
            stack=sum(n_stacks[:worker]) + report.stack,
            n_stacks=sum(n_stacks),
            done=float(self._shares @ np.array(done)),
            n_training=sum(latest.n_training for latest in self._latest if latest is not None),
        )


def _cluster_workers(ray: Any, device: Any) -> tuple[int, float]:
    """Return the number of workers of a cluster, and the GPUs that each of them needs."""
    resources = ray.cluster_resources()
    n_gpus = int(resources.get("GPU", 0))
    if device == "ray:cuda" and not n_gpus:
        raise argument_error("device", "be 'ray' or 'ray:cpu' on a cluster without GPUs", device)
    return (n_gpus, 1.0) if n_gpus and device != "ray:cpu" else (max(int(resources.get("CPU", 1)), 1), 0.0)


def _train_on_cluster(
    ray: Any,
    table: TrainingTable,
    members: Sequence[Member],
    kind: tuple[Backbone, TrainingConfig],
    *,
    device: Any,
    start: Trained | None,
    **settings: Any,
) -> Trained:
    """Train groups of members as tasks of a cluster; a task whose worker dies is run again elsewhere."""
    n_workers, gpus = _cluster_workers(ray, device)
    groups = divide_members(table, members, n_groups=n_workers, start=start)
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MAX_RETRIES)(_train_remotely)
    stored, here = ray.put(table), resolve_device("auto" if device == "ray" else "cpu")
    settings["device"] = "cuda" if gpus else "cpu"
    tasks = []
    for group in groups:
        resumed = None if start is None else start.take(group).to(CPU)
        tasks.append(task.remote(stored, [members[place] for place in group], kind, resumed, settings))
    return Trained.joined([part.to(here) for part in _results(ray, tasks)], groups)


def _results(ray: Any, tasks: list[Any]) -> list[Trained]:
    """Return what tasks return; if one fails, or after Ctrl-C, cancel the others."""
    try:
        results: list[Trained] = ray.get(tasks)
    except BaseException:
        _, running = ray.wait(tasks, num_returns=len(tasks), timeout=0)
        for task in running:
            ray.cancel(task, force=True)  # without force, Ray may abort this process if the task ends meanwhile
        raise
    return results


def _train_remotely(
    table: TrainingTable,
    members: Sequence[Member],
    kind: tuple[Backbone, TrainingConfig],
    start: Trained | None,
    settings: dict[str, Any],
) -> Trained:
    """Train members in a worker of a cluster."""
    return train(table, members, *kind, start=start, **settings).to(CPU)


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Provide the module `ray`, connected to a cluster; an existing connection is used and kept.

    The address, such as "auto" or "head:6379", is by default the environment variable RAY_ADDRESS; if that is not set,
    a cluster is started on this machine and stopped at the end.
    """
    check_installed("device='ray'", "ray", "ray", hint="Or choose device='auto'.")
    import ray  # noqa: PLC0415 - an optional package

    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS")
    _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise an error if nothing listens at an address of the form ``host:port``."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # a keyword such as "auto": Ray checks it
    try:
        socket.create_connection((host, int(port)), timeout=CLUSTER_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str | None, error: Exception) -> Exception:
    return argument_error(
        "address",
        "be that of a running Ray cluster",
        address,
        f"The connection failed: {str(error).rstrip('.')}. Start a cluster with 'ray start --head', or omit the "
        "address to use a cluster on this machine.",
    )
