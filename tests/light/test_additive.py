"""Additive models as graphs: all formats predict what the sums of terms are."""

import json

import numpy as np
import pytest

import knotwork
from knotwork.additive import editable_curves
from tests.estimators.saved_cases import table, target
from tests.light.cases import in_c, in_node

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
PAIRS = [("age", "income"), ("age", "town"), ("town", "code")]
CASES = {
    "curves": (knotwork.AdditiveRegressor(), "number"),
    "surfaces": (knotwork.AdditiveRegressor(pairs=PAIRS, categorical=["code"]), "number"),
    "shapes": (knotwork.AdditiveRegressor(monotone={"age": "increasing"}, curvature={"income": "concave"}), "number"),
    "classes": (knotwork.AdditiveClassifier(pairs=1), "text"),
    "two classes": (knotwork.AdditiveClassifier(), "above"),
    "edited curves": (knotwork.AdditiveRegressor(pairs=PAIRS), "number"),
    "edited classes": (knotwork.AdditiveClassifier(), "text"),
}


def edited(model):
    """Return a model with drawn curves: one of points, and for classes one of more knots than were fitted."""
    curve = next(each for each in editable_curves(model) if each.name == "age")
    low, high = curve.basis.domain
    edit = {"column": "age", "points": [[low, 1.0], [0.5 * (low + high), -2.0], [high, 0.5]], "missing": 0.75}
    if len(model.solutions_) > 1:
        knots = np.union1d(curve.basis.knots, np.linspace(low, high, 30)[1:-1])
        size = len(knots) + curve.basis.degree + 1
        coefficients = np.random.default_rng(0).normal(size=size).tolist()
        edit = {"column": "age", "class": str(model.classes_[1]), "knots": knots.tolist(), "coefficients": coefficients}
    return model.with_edits({"format": "knotwork edits 1", "curves": [edit]})


def made(name):
    """Return a fitted model and rows with unseen categories, missing values, and values far away."""
    model, kind = CASES[name]
    X = table(400)
    y = target(X) > 0 if kind == "above" else target(X, kind)
    model.fit(X, y)
    model = edited(model) if name.startswith("edited") else model
    rows = table(100, seed=5)
    rows.loc[:5, "town"] = "Rome"
    rows.loc[6:9, "age"], rows.loc[8:12, "income"] = [1e9, -1e9, np.inf, -np.inf], np.nan
    wanted = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    return model, rows, wanted


@pytest.mark.parametrize("name", CASES)
def test_all_formats_agree(tmp_path, name):
    model, rows, wanted = made(name)
    near = {"rtol": 1e-10, "atol": 1e-10}
    predictor = model._predictor()
    given = predictor.program(predictor.output)(*model.columns_.read(rows))[predictor.output]
    np.testing.assert_allclose(given, wanted, **near)
    for suffix in (".js", ".c"):
        model.export((tmp_path / "model").with_suffix(suffix))
    call = "predict(rows)" if wanted.ndim == 1 else "predictProba(rows)"
    np.testing.assert_allclose(in_node(tmp_path / "model.js", rows, call)[0], wanted, **near)
    np.testing.assert_allclose(in_c(tmp_path / "model.c", model, rows).reshape(wanted.shape), wanted, **near)


@pytest.mark.parametrize("name", ["surfaces", "classes", "edited curves", "edited classes"])
def test_onnx(tmp_path, name):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install knotwork[onnx]")
    model, rows, wanted = made(name)
    model.export(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    feeds = {"numbers": model.columns_.read(rows).numbers}
    for each in json.loads(session.get_modelmeta().custom_metadata_map["knotwork"])["categories"]:
        is_text = each == "town"
        cells = rows[[each]].astype(object)
        feeds[each] = cells.where(cells.notna(), "" if is_text else np.nan).to_numpy(object if is_text else np.float64)
    np.testing.assert_allclose(session.run(None, feeds)[0], wanted, rtol=1e-10, atol=1e-10)
