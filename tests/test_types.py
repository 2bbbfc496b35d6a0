"""Names that are loaded when they are first used have types like any other."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REVEALED = {
    "kw.TabularRegressor()": "knotwork.estimators._estimators.TabularRegressor",
    "kw.TabularClassifier().fit([[1.0]], [1])": "knotwork.estimators._estimators.TabularClassifier",
    "kw.TrainingConfig()": "knotwork.training._config.TrainingConfig",
    "kw.recommend()": "knotwork._recommend.Recommendation",
    "kw.nn.SplineEncoding(1, 7)": "knotwork.nn._encoding.SplineEncoding",
    "kw.study.load_plan('demo')": "knotwork.study._plan.Plan",
    "kw.stats.friedman([[1.0]])": "knotwork.stats._omnibus.FriedmanResult",
}
UNKNOWN = ("kw.TabularRegresor", "kw.nn.SplineEncodings")


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
