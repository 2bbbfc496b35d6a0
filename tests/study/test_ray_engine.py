"""Units as tasks of a cluster, in one process: what is submitted, recorded and given back.

`test_ray_cluster.py` has the same on a real cluster, which takes long to start and whose workers die for real.
"""

import pickle
from contextlib import contextmanager
from types import SimpleNamespace

import pandas as pd
import pytest

from knotwork.errors import ArgumentError, MissingPackageError
from knotwork.study import _runner as runner
from knotwork.study import load_results, run
from knotwork.study._traces import Result
from tests.study.cases import comparable, many_units, tiny_plan
from tests.study.ray_checks import check_locks_after_an_error, check_records_of_a_cluster


class WorkerCrashedError(Exception):
    """What Ray raises for a task all of whose workers died."""


class OneProcess:
    """What the engine calls of Ray: tasks are pickled, and the one submitted last is run when one is waited for."""

    exceptions = SimpleNamespace(
        WorkerCrashedError=WorkerCrashedError, NodeDiedError=ConnectionError, OutOfMemoryError=MemoryError
    )

    def __init__(self, **resources):
        self.resources, self.options, self.victim = resources, {}, None
        self.stored, self.waiting, self.done, self.most = [], {}, {}, 0

    def cluster_resources(self):
        return self.resources

    def put(self, value):
        self.stored.append(pickle.dumps(value))
        return SimpleNamespace(place=len(self.stored) - 1)

    def remote(self, **options):
        self.options = options
        return lambda function: SimpleNamespace(remote=lambda *given: self._submit(function, given))

    def _submit(self, function, given):
        reference = len(self.waiting) + len(self.done)
        plan, table, *others = given
        self.waiting[reference] = function, table.place, pickle.dumps((plan, *others))
        self.most = max(self.most, len(self.waiting))
        return reference

    def wait(self, references, *, num_returns, timeout):
        finished = [each for each in references if each in self.done]
        if not finished and timeout is None:
            finished = [max(self.waiting)]
            function, place, others = self.waiting.pop(finished[0])
            plan, *rest = pickle.loads(others)
            self.done[finished[0]] = lambda: function(plan, pickle.loads(self.stored[place]), *rest)
        return finished[:num_returns], [each for each in references if each not in finished]

    def get(self, reference):
        if reference == self.victim:
            raise WorkerCrashedError("the worker died")
        return self.done[reference]()


@pytest.fixture
def cluster(monkeypatch):
    """Connect the engine to a cluster of one processor, and return it."""
    made = OneProcess(CPU=1.0)

    @contextmanager
    def connected(address=None):
        yield made

    monkeypatch.setattr(runner, "connected", connected)
    return made


def test_a_cluster_gives_the_records_of_a_local_run(cluster, expected, tmp_path):
    check_records_of_a_cluster(tmp_path, expected)
    assert cluster.options == {"num_cpus": 1, "num_gpus": 0.0, "max_retries": runner.MAX_RETRIES}
    assert len(cluster.stored) == 1, "the table of all units"
    assert cluster.most == runner.QUEUE


def test_a_unit_whose_workers_died_fails_alone(cluster, expected, tmp_path):
    cluster.victim = 1
    summary = run(many_units(), tmp_path, "ray", device="cpu")
    failed = load_results(tmp_path).query("status == 'failed'")
    assert (summary.n_ok, summary.n_failed) == (20 - len(failed), len(failed))
    assert 0 < len(failed) < 20
    assert failed["backbone"].nunique() == 1, "one unit"
    assert failed["error"].str.contains("4 workers died in succession").all()
    cluster.victim = None
    assert run(many_units(), tmp_path, "ray", device="cpu", retry_failed=True).n_ok == len(failed)
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path)), expected)


@pytest.mark.parametrize(("device", "share", "most"), [("auto", 0.5, 4), ("cuda", 0.5, 4), ("cpu", 0.0, 2)])
def test_units_ask_for_their_share_of_a_gpu(cluster, tmp_path, monkeypatch, device, share, most):
    cluster.resources["GPU"] = 1.0
    monkeypatch.setattr(runner, "_train_unit", lambda plan, table, fitted, networks, device: [
        Result({"status": "ok", "device": device}) for _ in networks])  # fmt: skip
    backbones = [{"name": "mlp", "widths": [width], "label": f"{width}"} for width in (4, 5, 6)]
    run(tiny_plan(sizes=[4, 5], backbones=backbones), tmp_path, "ray", device=device, units_per_gpu=2)
    assert cluster.options["num_gpus"] == share
    assert cluster.most == most
    assert set(load_results(tmp_path)["device"]) == {device}


def test_an_error_of_the_cluster_gives_all_locks_back(cluster, tmp_path, monkeypatch):
    check_locks_after_an_error(tmp_path, monkeypatch)


@pytest.mark.parametrize("device", ["cuda:1", "cuda"])
def test_a_device_that_the_cluster_does_not_have_is_refused(cluster, tmp_path, device):
    with pytest.raises(ArgumentError, match=device):
        run(tiny_plan(), tmp_path, "ray", device=device)


def test_without_ray_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"knotwork\[ray\]"):
        run(many_units(), tmp_path, "ray")
