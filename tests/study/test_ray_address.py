"""Connections to Ray: wrong addresses fail at once, and clusters that were started are stopped."""

import socket

import pytest

from knotwork.errors import ArgumentError
from knotwork.study import run
from knotwork.training import connected
from tests.study.cases import tiny_plan

ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: addresses of clusters were not tested")


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    """Let Ray know of no cluster on this machine."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


@pytest.mark.parametrize(
    "form", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}", "no.such.host.invalid:{port}", "nonsense"]
)
def test_a_wrong_address_is_explained(tmp_path, form):
    address = form.format(port=unused_port())
    with pytest.raises(ArgumentError, match="ray start --head") as caught:
        run(tiny_plan(), tmp_path, "ray", address=address)
    assert address in str(caught.value)


def test_a_gpu_is_shared_by_one_unit_or_more(tmp_path):
    with pytest.raises(ArgumentError, match="units_per_gpu"):
        run(tiny_plan(), tmp_path, "ray", units_per_gpu=0)


def test_the_variable_of_the_environment_is_an_address(tmp_path, monkeypatch):
    address = f"127.0.0.1:{unused_port()}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ArgumentError, match=address):
        run(tiny_plan(), tmp_path, "ray")


def test_a_cluster_that_was_started_is_stopped_after_errors(monkeypatch):
    calls = []
    monkeypatch.setattr(ray, "init", lambda **settings: calls.append(settings))
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append("stopped"))
    with pytest.raises(KeyboardInterrupt), connected():
        raise KeyboardInterrupt
    assert calls == [{"address": None, "log_to_driver": False}, "stopped"]
