"""Units on a real Ray cluster of two workers give the records of a local run, even if workers die."""

import os
import signal
import uuid
from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest

from knotwork.errors import ArgumentError
from knotwork.study import _runner as runner
from knotwork.study import load_results, run
from knotwork.study._traces import Result
from knotwork.study._trainer import UnitTrainer
from tests.study.cases import comparable, many_units, tiny_plan
from tests.study.ray_checks import check_locks_after_an_error, check_records_of_a_cluster

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.slow,  # test_ray_engine.py shows the same in one process; this cluster takes 15 s to start
]


@pytest.fixture(scope="module")
def ray():
    """A cluster on this machine; its GPU is one to Ray's book-keeping only."""
    ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: units on a real cluster were not tested")
    ray.init(
        num_cpus=2,
        num_gpus=1,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    yield ray
    ray.shutdown()


def unit_of(networks):
    return f"{networks[0].backbone.label}-{networks[-1].encoding.size}"


def watched(folder, victim=None):
    """Return a task that notes every unit that is begun, and at the victim's first is killed in the second epoch."""

    def task(plan, data, fitted, networks, device):
        (folder / f"{unit_of(networks)}+{uuid.uuid4()}").touch()
        first = len(list(folder.glob(f"{unit_of(networks)}+*"))) == 1

        def die(report):
            if first and unit_of(networks) == victim and report.epoch == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        return UnitTrainer(plan, replace(data, fitted=fitted), device, die).results(networks)

    return task


def begun(folder):
    return Counter(path.name.split("+")[0] for path in folder.iterdir())


def test_a_cluster_gives_the_records_of_a_local_run(ray, expected, tmp_path):
    check_records_of_a_cluster(tmp_path, expected)
    assert ray.is_initialized(), "an existing connection must be kept"


def test_a_killed_worker_costs_one_unit_its_time(ray, expected, tmp_path, monkeypatch):
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(runner, "_train_unit", watched(notes, victim="narrow-4"))
    summary = run(many_units(), tmp_path / "out", "ray", device="cpu")
    assert (summary.n_ok, summary.n_failed) == (20, 0)
    assert begun(notes) == {"mlp-4": 1, "mlp-5": 1, "narrow-4": 2, "narrow-5": 1}
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path / "out")), expected)


def test_a_unit_that_kills_every_worker_fails_alone(ray, expected, tmp_path, monkeypatch):
    notes = tmp_path / "notes"
    notes.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(runner, "MAX_RETRIES", 0)
        patch.setattr(runner, "_train_unit", watched(notes, victim="mlp-5"))
        summary = run(many_units(), tmp_path / "out", "ray", device="cpu")
    assert (summary.n_ok, summary.n_failed) == (16, 4)
    failed = load_results(tmp_path / "out").query("status == 'failed'")
    assert set(zip(failed["backbone"], failed["size"], strict=True)) == {("mlp", 5)}
    assert failed["error"].str.contains("workers died").all()
    assert run(many_units(), tmp_path / "out", "ray", device="cpu", retry_failed=True).n_ok == 4
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path / "out")), expected)


@pytest.mark.parametrize(("device", "units_per_gpu", "share"), [("auto", 4, 0.25), ("cpu", 4, 0.0)])
def test_units_ask_for_their_share_of_a_gpu(ray, tmp_path, monkeypatch, device, units_per_gpu, share):
    def task(plan, table, fitted, networks, device):
        import ray

        got = ray.get_runtime_context().get_assigned_resources().get("GPU", 0.0)
        return [Result({"status": "ok", "device": str(got)}) for _ in networks]

    monkeypatch.setattr(runner, "_train_unit", task)
    run(tiny_plan(), tmp_path, "ray", device=device, units_per_gpu=units_per_gpu)
    assert set(load_results(tmp_path)["device"].astype(float)) == {share}


def test_an_error_of_the_cluster_gives_all_locks_back(ray, tmp_path, monkeypatch):
    check_locks_after_an_error(tmp_path, monkeypatch)


def test_a_device_that_ray_does_not_give_is_refused(ray, tmp_path):
    with pytest.raises(ArgumentError, match="cuda:1"):
        run(tiny_plan(), tmp_path, "ray", device="cuda:1")
