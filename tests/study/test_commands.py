"""The commands of studies as a user types them."""

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knotwork._cli import app
from knotwork.study import _trainer as trainer

PLAN = """
description = "A tiny plan."
datasets = ["sk_iris"]
methods = ["Std"]
backbones = [{ name = "mlp", widths = [8] }]
folds = 2

[training]
max_epochs = 1
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(PLAN)
    return str(path)


def call(*arguments):
    return CliRunner().invoke(app, ["study", *arguments])


def test_list_and_show():
    listed = call("list")
    assert listed.exit_code == 0
    for name in ("demo", "paper", "ablation", "efficiency"):
        assert name in listed.output
    shown = call("show", "paper")
    assert shown.exit_code == 0
    for word in ("14,250", "not measured yet", "BS-Grad-U", "coordinate", "abalone", "7, 15, 30"):
        assert word in shown.output


def test_run_twice_and_status(plan, tmp_path):
    out = str(tmp_path / "out")
    first = call("run", plan, "--out", out, "--device", "cpu")
    assert first.exit_code == 0, first.output
    assert "2 trained" in first.output
    second = call("run", plan, "--out", out)
    assert second.exit_code == 0
    assert "Nothing to do" in second.output
    status = call("status", out)
    assert "2 of 2 networks trained, 0 failed" in status.output
    assert "networks per hour" in status.output
    assert "in one process" in call("show", plan, "--out", out).output


def test_idle_threads_sleep_unless_the_user_sets_another_policy(plan, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    call("run", plan, "--out", str(tmp_path / "out"), "--device", "cpu")
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    call("run", plan, "--out", str(tmp_path / "out"))
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_ctrl_c_exits_as_shells_expect(plan, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "train", interrupt)
    stopped = call("run", plan, "--out", str(tmp_path / "out"))
    assert stopped.exit_code == 130
    assert "run the same command again" in stopped.output


def test_failures_show_in_the_exit_code(plan, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr(trainer, "train", fail)
    failed = call("run", plan, "--out", str(tmp_path / "out"))
    assert failed.exit_code == 1
    assert "2 FAILED" in failed.output


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "papper", "--out", "x"], "'paper'"),
        (["show", "papper"], "'paper'"),
        (["status", "nowhere"], "nowhere"),
        (["run", "demo", "--out", "x", "--engine", "slurm"], "local"),
    ],
)
def test_a_wrong_argument_is_explained(arguments, word):
    wrong = call(*arguments)
    assert wrong.exit_code == 1
    assert word in wrong.output


@pytest.mark.parametrize("arguments", [["status"], ["pack", "--out", "copy"]], ids=lambda words: words[0])
def test_the_error_for_a_folder_without_a_study_names_the_next_step(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    refused = call(*arguments, "empty")
    assert refused.exit_code == 1
    message = " ".join(refused.output.split())
    assert message.startswith("out must be a folder that a plan was run in, got out='empty'. ")
    assert "'knotwork study run NAME --out DIR'" in message
    assert not Path("copy").exists()


def test_help_has_examples():
    for command in ("list", "show", "prepare", "run", "pack", "status"):
        assert "Example" in call(command, "--help").output


def test_prepare_then_run(plan, tmp_path):
    out = str(tmp_path / "out")
    prepared = call("prepare", plan, "--out", out)
    assert prepared.exit_code == 0, prepared.output
    assert "2 of 2 networks are prepared" in prepared.output
    assert "2 trained" in call("run", plan, "--out", out, "--device", "cpu").output
    assert call("prepare", "papper", "--out", out).exit_code == 1


def test_commands_of_the_page_on_clusters_exist():
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    commands = re.findall(r"knotwork study (\w+)([^\n`#&]*)", page)
    assert len(commands) >= 6
    for command, options in commands:
        shown = call(command, "--help")
        assert shown.exit_code == 0, command
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.output)
        for option in re.findall(r"--[a-z-]+", options):
            assert option in plain, f"{command} has no {option}"
