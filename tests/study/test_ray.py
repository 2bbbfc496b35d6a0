"""Units on a Ray cluster: with Ray where it is installed, and with a stand-in for what the driver does."""

import pickle

import pandas as pd
import pytest

from knotwork.errors import MissingPackageError
from knotwork.study import load_results, ray_engine, run
from tests.study.cases import comparable, many_units


class StandIn:
    """Ray's calls as far as the driver uses them: tasks run when they are waited for, on copies of their arguments."""

    def __init__(self):
        self.tasks, self.cancelled = {}, []

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, *, num_cpus, num_gpus, max_retries):
        assert (num_cpus, num_gpus, max_retries) == (1, 0.0, 3)

        def decorate(function):
            def submit(*arguments):
                self.tasks[len(self.tasks)] = function, pickle.dumps(arguments)
                return len(self.tasks) - 1

            function.remote = submit
            return function

        return decorate

    def wait(self, handed, *, num_returns):
        return handed[-num_returns:], handed[:-num_returns]  # not in the order in which they were handed over

    def get(self, handed):
        function, arguments = self.tasks[handed]
        return function(*pickle.loads(arguments))

    def cancel(self, handed):
        self.cancelled.append(handed)


def test_the_driver_records_what_workers_return(tmp_path, monkeypatch):
    run(many_units(), tmp_path / "local", device="cpu")
    stand_in = StandIn()
    monkeypatch.setattr(ray_engine, "connect", lambda address: stand_in)
    summary = run(many_units(), tmp_path / "ray", "ray", device="cpu")
    assert (summary.n_ok, len(stand_in.tasks)) == (20, 4)
    ours, theirs = (comparable(load_results(tmp_path / name)) for name in ("ray", "local"))
    pd.testing.assert_frame_equal(ours, theirs)
    assert run(many_units(), tmp_path / "ray", "ray").n_ok == 0
    assert not list((tmp_path / "ray" / "locks").iterdir())


def test_an_error_of_the_cluster_gives_all_locks_back(tmp_path, monkeypatch):
    stand_in = StandIn()
    monkeypatch.setattr(ray_engine, "connect", lambda address: stand_in)
    monkeypatch.setattr(stand_in, "get", lambda handed: (_ for _ in ()).throw(RuntimeError("cluster is gone")))
    with pytest.raises(RuntimeError, match="cluster is gone"):
        run(many_units(), tmp_path, "ray", device="cpu")
    assert len(stand_in.cancelled) == 4
    assert not list((tmp_path / "locks").iterdir())


def test_without_ray_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"knotwork\[ray\]"):
        run(many_units(), tmp_path, "ray")


def test_a_real_cluster_gives_the_same_records(tmp_path):
    ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: units on a real cluster were not tested")
    ray.init(num_cpus=2, log_to_driver=False)
    try:
        run(many_units(), tmp_path / "ray", "ray", device="cpu")
    finally:
        ray.shutdown()
    run(many_units(), tmp_path / "local", device="cpu")
    ours, theirs = (comparable(load_results(tmp_path / name)) for name in ("ray", "local"))
    pd.testing.assert_frame_equal(ours, theirs)
