"""The command line as a user types it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from knotwork.cli import app


def test_demo_prints_a_table_and_saves_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "deep" / "demo")])
    assert result.exit_code == 0, result.output
    for word in ("diabetes", "breast_cancer", "R2", "AUC", "Std", "PLE", "BS-Q", "IS-Q", "bases.png"):
        assert word in result.output
    picture = tmp_path / "deep" / "demo" / "bases.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("arguments", "word"), [(["demo", "--size", "2"], "size"), (["dmeo"], "No such command")])
def test_a_wrong_argument_is_explained(arguments, word):
    done = subprocess.run(
        [sys.executable, "-m", "knotwork.cli", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_an_example():
    result = CliRunner().invoke(app, ["demo", "--help"])
    assert "Example" in result.output
