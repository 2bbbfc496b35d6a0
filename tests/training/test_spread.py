"""One fit on several devices gives the results of one device."""

import os
import signal
import sys

import numpy as np
import pytest
import torch

import knotwork as kw
from knotwork.errors import MissingPackageError
from knotwork.nn import MLPConfig
from knotwork.training import StopTraining
from knotwork.training._members import complete
from knotwork.training._spread import _cluster_workers, divide_members, is_cluster, resolve_devices
from tests.training.cases import make_member, make_table

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(160, 3))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def fitted(device, *, reproducible=True, callbacks=None, **settings):
    training = kw.TrainingConfig(max_epochs=3, batch_size=32, reproducible=reproducible)
    settings = {"encoding": "BS-Grad-Q@6", "n_members": 5, "training": training, "random_state": 0, **settings}
    return kw.TabularRegressor(device=device, **settings).fit(X, Y, callbacks=callbacks)


def test_two_workers_give_the_bits_of_one():
    one, two = fitted("cpu"), fitted(["cpu", "cpu"])
    assert len(two.trained_.pieces) == 2
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    for first, second in zip(one.trained_.histories, two.trained_.histories, strict=True):
        np.testing.assert_array_equal(first.score, second.score)
    assert one.validation_score_ == two.validation_score_


def test_without_reproducibility_results_agree_up_to_rounding():
    one, two = (fitted(device, reproducible=False) for device in ("cpu", ["cpu", "cpu"]))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-3, atol=1e-4)


def test_networks_can_be_trained_on():
    one, two = (fitted(device, warm_start=True) for device in ("cpu", ["cpu", "cpu", "cpu"]))
    np.testing.assert_array_equal(one.fit(X, Y).predict(X), two.fit(X, Y).predict(X))


def test_a_callback_sees_all_devices_and_stops_them():
    reports = []

    def stop(report):
        reports.append(report)
        if report.epoch == 2:
            raise StopTraining

    model = fitted(["cpu", "cpu"], callbacks=[stop])
    assert max(len(history.loss) for history in model.trained_.histories) <= 3
    assert {report.stack for report in reports} == {0, 1}
    assert {report.n_stacks for report in reports} == {2}
    assert all(0.0 < report.done <= 1.0 for report in reports)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_all_devices_and_keeps_their_networks():
    seen = []

    def interrupt(report):
        seen.append(report)
        if len(seen) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    training = kw.TrainingConfig(max_epochs=5000, patience=None, batch_size=32)
    with pytest.warns(UserWarning, match="stopped by Ctrl-C"):
        model = fitted(["cpu", "cpu"], training=training, callbacks=[interrupt])
    assert model.trained_.interrupted
    assert np.isfinite(model.predict(X)).all()


def test_an_error_of_one_device_is_raised():
    def fail(report):
        raise ZeroDivisionError(report.epoch)

    with pytest.raises(ZeroDivisionError):
        fitted(["cpu", "cpu"], callbacks=[fail])


@pytest.mark.parametrize("n_groups", [1, 2, 3, 8])
def test_every_member_has_one_device_and_work_is_shared_evenly(n_groups):
    table = make_table()
    members = [make_member(table, size=size, seed=seed) for seed in range(5) for size in (6, 7)]
    groups = divide_members(table, complete(members, MLPConfig(), kw.TrainingConfig()), n_groups=n_groups)
    assert sorted(place for group in groups for place in group) == list(range(len(members)))
    assert len(groups) == min(n_groups, len(members))
    assert max(map(len, groups)) <= -(-len(members) // n_groups) + 1


@pytest.mark.parametrize("device", [[], ["cpu", "meta"], ["gpu"], [3.5]])
def test_invalid_devices(device):
    with pytest.raises((ValueError, TypeError), match="device must"):
        resolve_devices(device)


@pytest.mark.parametrize("device", ["ray", "ray:cpu", "ray:cuda"])
def test_devices_of_a_cluster(device):
    """What needs no cluster to be refused."""
    assert is_cluster(device)
    with pytest.raises(
        ValueError, match=f"callbacks must be None if device='{device}'.*Workers of a cluster send no rep"
    ):
        fitted(device, callbacks=[print])
    with pytest.raises(
        ValueError, match=f"device must be on this machine if X is read in batches, got device='{device}'"
    ):
        kw.TabularRegressor(device=device).fit([X], 0)
    with pytest.raises(ValueError, match="device must be 'auto' or a device of torch"):
        kw.load("a model", device=device)


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda:1", torch.device("cpu"), ["cpu", "cpu"], None, 3])
def test_devices_of_this_machine(device):
    assert not is_cluster(device)


@pytest.mark.parametrize("device", ["ray:", "ray:tpu", "ray:cuda:0"])
def test_unknown_devices_of_a_cluster(device):
    with pytest.raises(ValueError, match="device must be one of 'ray', 'ray:cpu', 'ray:cuda', got"):
        fitted(device)


def test_a_cluster_needs_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match="device='ray' needs ray: pip install .*Or choose device='auto'."):
        fitted("ray")


class Cluster:
    """A cluster that runs already, or one that does not answer."""

    def __init__(self, **resources):
        self.resources = resources

    def cluster_resources(self):
        return self.resources


@pytest.mark.parametrize(
    ("resources", "device", "workers"),
    [
        ({"CPU": 8.0}, "ray", (8, 0.0)),
        ({"CPU": 8.0}, "ray:cpu", (8, 0.0)),
        ({"CPU": 8.0, "GPU": 2.0}, "ray", (2, 1.0)),
        ({"CPU": 8.0, "GPU": 2.0}, "ray:cuda", (2, 1.0)),
        ({"CPU": 8.0, "GPU": 2.0}, "ray:cpu", (8, 0.0)),
    ],
)
def test_workers_of_a_cluster(resources, device, workers):
    assert _cluster_workers(Cluster(**resources), device) == workers


def test_a_cluster_without_gpus():
    with pytest.raises(ValueError, match="device must be 'ray' or 'ray:cpu' on a cluster without GPUs"):
        _cluster_workers(Cluster(CPU=8.0), "ray:cuda")
