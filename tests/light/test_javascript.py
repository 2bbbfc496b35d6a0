"""Models in JavaScript predict what they predict in Python."""

import json
import subprocess

import numpy as np
import pandas as pd
import pytest

from knotwork import TabularClassifier
from knotwork._graph import OPERATIONS
from knotwork._light import runtime_js
from tests.estimators.saved_cases import BACKBONES, SHORT
from tests.light.cases import HOSTILE, in_node, messy, regressor

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")


def test_the_runtime_has_every_operation():
    script = runtime_js() + "console.log(JSON.stringify(knotwork.operations));"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert sorted(json.loads(done.stdout)) == sorted(OPERATIONS)


def test_cells_are_read_as_in_python(tmp_path):
    X, y = messy()
    model = regressor(X, y)
    model.export(tmp_path / "model.js")
    (given,) = in_node(tmp_path / "model.js", X, "predict(rows)")
    np.testing.assert_allclose(given, model.predict(X), rtol=1e-5)
    odd = X.iloc[:6].copy()
    odd["rate"] = ["7%", "(5.5%)", "n/a", "twelve", 0.07, "-3 %"]
    odd["price"] = ["1,234.5", "$ 5", "", "7", "-€ 12", "1e3"]
    odd["paid"] = ["YES", " no ", "maybe", "1", 0, None]
    odd["sold"] = ["1.2.2021", "31.02.2021", "3 Mar 2021 5:07 pm", "01.01.21", None, "2021-05-05"]
    odd[HOSTILE[1]] = [*HOSTILE, "new"]
    given, misfits = in_node(tmp_path / "model.js", odd, "predict(rows)", "misfits")
    np.testing.assert_allclose(given, model.predict(odd), rtol=1e-5)
    assert misfits == {"rate": ["twelve"], "price": ["$ 5"], "paid": ["maybe"], "sold": ["31.02.2021", "2021-05-05"]}


def test_a_page_can_hold_a_model_of_hostile_names(tmp_path):
    X, y = messy()
    regressor(X, y).export(tmp_path / "model.js")
    assert "</script" not in (tmp_path / "model.js").read_text()


def test_labels_and_several_targets(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=list("abc"))
    model = TabularClassifier("Std", BACKBONES["mlp"], training=SHORT, device="cpu", random_state=0)
    model.fit(X, X["a"] > 0).export(tmp_path / "model.js")
    labels, classes = in_node(tmp_path / "model.js", X, "predict(rows)", "classes")
    assert labels == model.predict(X).tolist()
    assert classes == [False, True]
    two = regressor(X, X[["a", "b"]].to_numpy())
    two.export(tmp_path / "two.js")
    given, ends = in_node(tmp_path / "two.js", X, "predict(rows)", "interval(rows, 0.8)")
    np.testing.assert_allclose(given, two.predict(X), atol=1e-5)
    np.testing.assert_allclose(ends, two.predict_interval(X, 0.8), atol=1e-5)


def test_a_missing_column_is_named(tmp_path):
    X, y = messy()
    regressor(X, y).export(tmp_path / "model.js")
    with pytest.raises(AssertionError, match="Rows must have the column"):
        in_node(tmp_path / "model.js", X.drop(columns="rate"), "predict(rows)")
