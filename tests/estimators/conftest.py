"""The paper's numbers, and a visible warning when optional packages are not installed."""

from importlib.util import find_spec

import pytest

from tests.conftest import PAPER


@pytest.fixture(scope="session")
def paper_folder():
    return PAPER


def pytest_terminal_summary(terminalreporter):
    absent = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if absent:
        terminalreporter.section("ONNX IS NOT INSTALLED", red=True, bold=True)
        terminalreporter.line(f"Exported models were not run: {', '.join(absent)} missing. pip install knotwork[onnx]")
