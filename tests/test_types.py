"""Names that are loaded when they are first used have types like any other."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import knotwork

ROOT = Path(__file__).parents[1]
REVEALED = {
    "kw.TabularRegressor()": "knotwork.estimators._estimators.TabularRegressor",
    "kw.TabularClassifier().fit([[1.0]], [1])": "knotwork.estimators._estimators.TabularClassifier",
    "kw.TrainingConfig()": "knotwork.training._config.TrainingConfig",
    "kw.recommend()": "knotwork._recommend.Recommendation",
    "kw.nn.SplineEncoding(1, 7)": "knotwork.nn._encoding.SplineEncoding",
    "kw.study.load_plan('demo')": "knotwork.study._plan.Plan",
    "kw.stats.friedman([[1.0]])": "knotwork.stats._ranking.FriedmanResult",
}
UNKNOWN = ("kw.TabularRegresor", "kw.nn.SplineEncodings")


def names_for_type_checkers():
    """Return the names that the package imports for type checkers, with the module of each."""
    (block,) = [node for node in ast.parse(Path(knotwork.__file__).read_text()).body
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]  # fmt: skip
    return {alias.name: f"knotwork.{alias.name}" if node.module == "knotwork" else node.module
            for node in block.body for alias in node.names}  # fmt: skip


def test_type_checkers_see_the_names_that_are_loaded_later():
    assert names_for_type_checkers() == knotwork._LATER


@pytest.mark.slow  # mypy checks all of torch without its cache, and CI runs it as well
def test_types_of_names_that_are_loaded_later(tmp_path):
    lines = [*(f"reveal_type({code})" for code in REVEALED), *UNKNOWN]
    path = tmp_path / "example.py"
    path.write_text("\n".join(["import knotwork as kw", *lines]))
    # In the folder of the configuration, whose cache `make lint` has filled: otherwise all of torch is checked again.
    command = [sys.executable, "-m", "mypy", path]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert re.findall(r'Revealed type is "(.*)"', done.stdout) == list(REVEALED.values()), done.stdout + done.stderr
    assert re.findall(r"has no attribute \"(\w+)\"", done.stdout) == [name.rpartition(".")[2] for name in UNKNOWN]
