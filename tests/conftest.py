"""Shared settings: where real tables and the paper's numbers are, and a loud word when they are not there."""

import os
import signal
import sys
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # otherwise scikit-learn skips a check in silence
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tests share the cores: threads that wait must not spin

import pytest
import torch

from tests.report.chromium import CHROMIUM

PAPER = Path(__file__).parents[1] / "results" / "paper"
"""The numbers that the paper has published."""

EVERYTHING = os.environ.get("KNOTWORK_TESTS") == "all"
"""Whether tests marked as slow are run: further cases of what other tests show, and clusters that take long to start.

`make test-all` and CI run them, `make test` says how many it did not run."""

DATA = Path(os.environ.get("KNOTWORK_DATA", Path(__file__).parents[2] / "shared" / "datasets"))


@pytest.fixture(scope="session")
def data_folder():
    if not (DATA / "datasets.json").exists():
        pytest.skip(f"no data sets in {DATA}: set KNOTWORK_DATA to their folder")
    return DATA


@pytest.fixture(autouse=True)
def _same_random_numbers():
    """Let a test that fails fail again: whatever torch draws in it is the same in every run."""
    torch.manual_seed(0)


N_SLOW = pytest.StashKey[int]()
"""Number of tests that were not run because they are slow."""


def pytest_collection_modifyitems(config, items):
    slow = [] if EVERYTHING else [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]
    config.stash[N_SLOW] = len(slow)
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist
        config.workeroutput["n_slow"] = len(slow)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[N_SLOW] = getattr(node, "workeroutput", {}).get("n_slow", 0)


@pytest.fixture
def ctrl_c():
    """Python's handler of Ctrl-C, which is missing in processes that a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_fit_before():
    """A fit that another test has stopped is not the first one of a loop."""
    steps = sys.modules.get("knotwork.estimators._steps")
    if steps is not None:
        steps.CTRL_C = steps.CtrlC()


def pytest_terminal_summary(terminalreporter):
    if not (DATA / "datasets.json").exists():
        terminalreporter.section("REAL TABLES ARE MISSING", red=True, bold=True)
        terminalreporter.line(f"Tests on real tables did not run: {DATA} has no datasets.json. Set KNOTWORK_DATA.")
    if CHROMIUM is None:
        terminalreporter.section("CHROMIUM IS MISSING", red=True, bold=True)
        terminalreporter.line("No page was opened in a browser. Install Chromium: apt-get install chromium.")
    n_slow = terminalreporter.config.stash.get(N_SLOW, 0)
    if n_slow:
        terminalreporter.section("SLOW TESTS", yellow=True, bold=True)
        text = "tests marked as slow did not run: further cases, large kernels, Ray, fuzzing. make test-all runs them."
        terminalreporter.line(f"{n_slow:,} {text}")
