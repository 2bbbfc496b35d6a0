"""The command line as a user types it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import knotwork
from knotwork import _cli
from knotwork._cli import app
from knotwork._explore._prepare import PageRule
from knotwork.datasets import EMBEDDED, SYNTHETIC
from knotwork.study import PLANS, _trainer, load_plan, load_results
from tests.report.conftest import leave_out_pdf

SMALL = """
description = "The demo, smaller."
datasets = ["sk_diabetes", "sk_iris", "sk_wine"]
methods = ["Std", "PLE", "BS-Grad-U"]
sizes = [5]
backbones = [{ name = "mlp", widths = [8] }]
folds = 2

[training]
max_epochs = 2
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Put a smaller plan in the place of the demo's, which is trained in a minute."""
    path = tmp_path / "demo.toml"
    path.write_text(SMALL)
    monkeypatch.setitem(PLANS, "demo", path)
    leave_out_pdf(monkeypatch)
    no_paths = PageRule(learning_seconds=-1.0)  # no learned knots in the explorer
    monkeypatch.setattr("knotwork._explore._prepare.PAGE", no_paths)
    return tmp_path / "deep" / "demo"


def demo(out):
    return CliRunner().invoke(app, ["demo", "--out", str(out)])


def test_demo_is_a_study_that_ends_in_a_report(small):
    result = demo(small)
    assert result.exit_code == 0, result.output
    page = Path(re.search(r"^Report: (.*)$", result.output, flags=re.MULTILINE).group(1))
    assert page == small / "report.html"
    text = page.read_text(encoding="utf-8")
    for word in ("sk_diabetes", "BS-Grad-U", "18"):
        assert word in text
    assert len(load_results(small)) == 3 * 3 * 2
    gain = r"On sk_(diabetes|iris|wine), \S+ (lowers the NRMSE|raises the AUC) from \d.* \(Std\) to \d.* less error\.$"
    assert re.search(gain, result.output.strip()), "the finding comes last"
    explorer = Path(re.search(r"^Explorer: (.*)$", result.output, flags=re.MULTILINE).group(1))
    assert explorer == small / "explore.html"
    assert "sk_diabetes" in explorer.read_text(encoding="utf-8")
    again = demo(small)
    assert again.exit_code == 0
    assert "Nothing to do" in again.output


def test_ctrl_c_in_the_demo_leaves_a_message_and_the_rest_can_be_run(small, monkeypatch):
    whole, calls = _trainer.train, []

    def interrupt(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(_trainer, "train", interrupt)
        stopped = demo(small)
    assert stopped.exit_code == 130
    assert "run the same command again" in stopped.output
    assert "Traceback" not in stopped.output
    assert 0 < len(load_results(small)) < 18
    assert not (small / "report.html").exists()
    assert demo(small).exit_code == 0
    assert len(load_results(small)) == 18


def test_the_plan_of_the_demo_needs_no_files():
    assert load_plan("demo").n_networks == 280
    assert all(name in (*EMBEDDED, *SYNTHETIC) for name in load_plan("demo").names)


@pytest.mark.parametrize(("arguments", "word"), [(["demo", "--size", "2"], "--size"), (["dmeo"], "No such command")])
def test_a_wrong_argument_is_explained(arguments, word):
    done = subprocess.run(
        [sys.executable, "-m", "knotwork._cli", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_an_example():
    result = CliRunner().invoke(app, ["demo", "--help"])
    assert "Example" in result.output


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"knotwork {knotwork.__version__}\n")


def test_what_is_printed_does_not_control_the_terminal(tmp_path):
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "\x1b[2Jmodel"), "table.csv"])
    assert done.exit_code == 1
    assert "\\x1b[2Jmodel" in done.output
    assert "\x1b" not in done.output
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "none.csv"), "--target", "\x9b31m\x07"])
    assert done.exit_code == 1
    assert not set("\x9b\x07") & set(done.output)


@pytest.mark.parametrize(("width", "expected"), [(60, [0, 1, 7]), (90, [0, 1, 3, 7]), (400, list(range(9)))])
def test_a_ranking_has_the_columns_that_fit(width, expected):
    from knotwork._cli import _fitting_columns
    from knotwork.report._tables import Cell, ReportTable

    columns = [
        "model",
        "RMSE (mean ± sd)",
        "above the best",
        "95 % interval",
        "p",
        "MAE",
        "training rows",
        "seconds",
        "parameters",
    ]
    row = [Cell("gradient boosting"), *[Cell("0.123 to 0.456789")] * 2, Cell("-0.0123 to 0.0456"), *[Cell("0.1")] * 5]
    assert _fitting_columns(ReportTable("ranking", "", "", columns, [row]), width) == expected


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_and_sentences_break_at_words(width, monkeypatch, capsys):
    words = [
        "the",
        "recommended",
        "encoding",
        "of",
        "avg_price_per_room",
        "and",
        "arrival_date",
        "(elapsed",
        "days)",
        "is",
        "BS-Grad-U@15",
    ]
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    rows = [[" ".join(words), "12,345.678", "a_name_that_is_rather_long_for_a_table", " ".join(reversed(words))]] * 2
    _cli._print_table("Table", dict.fromkeys(["what", "number", "name", "reason"], False), rows, piped=width)
    _cli._say(" ".join(words * 3))
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, out.splitlines())) <= width
    shown = set(re.sub("[│┃┏┓┡┩┳╇┴└┘━─]", " ", out).split())
    assert shown >= {*words, "12,345.678", "a_name_that_is_rather_long_for_a_table"}
    assert shown <= {*words, "12,345.678", "a_name_that_is_rather_long_for_a_table", "Table", "what", "number", "name",
                     "reason", "what:", "number:", "name:", "reason:"}  # fmt: skip
