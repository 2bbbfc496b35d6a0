"""Where the paper's tables are, and a loud word when they, or optional packages, are not there."""

from importlib.util import find_spec

import pytest

from tests.conftest import DATA

PAPER = DATA.parent / "paper"
MISSING = f"the paper's tables are not in {PAPER}: set KNOTWORK_DATA to the folder of data sets beside theirs"


@pytest.fixture(scope="session")
def paper_folder():
    if not (PAPER / "average_ranks_regression.csv").exists():
        pytest.skip(MISSING)
    return PAPER


def pytest_terminal_summary(terminalreporter):
    if not (PAPER / "average_ranks_regression.csv").exists():
        terminalreporter.section("THE PAPER'S TABLES ARE MISSING", red=True, bold=True)
        terminalreporter.line(f"Recommendations were not compared with the paper: {MISSING}.")
    absent = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if absent:
        terminalreporter.section("ONNX IS NOT INSTALLED", red=True, bold=True)
        terminalreporter.line(f"Exported models were not run: {', '.join(absent)} missing. pip install knotwork[onnx]")
