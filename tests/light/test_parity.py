"""The light runtime, JavaScript and C predict what torch does: every backbone, encoding, objective and kind."""

from dataclasses import replace

import numpy as np
import pytest

import knotwork
from knotwork._graph import Graph
from knotwork._light._c import c_model
from knotwork.nn import BACKBONES as REGISTERED
from knotwork.training import OBJECTIVES, Quantile
from tests.estimators.saved_cases import (
    BACKBONES,
    CODED,
    SHORT,
    fitted,
    of_all_backbones,
    of_trees_and_networks,
    table,
    target,
    uneven_weights,
)
from tests.estimators.test_onnx import ENCODINGS, hard_rows
from tests.light.cases import in_c, in_node

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")


def assert_runtimes_agree(model, X, folder, *, compiled=True):
    """Compare all runtimes with torch, to 1e-5 of a probability or of the spread of predictions."""
    model.save(folder / "model.knotwork")
    light = knotwork.load(folder / "model.knotwork", runtime="light")
    model.export(folder / "model.js")
    model.export(folder / "model.c")
    if model._task == "classification":
        wanted, near = model.predict_proba(X), {"rtol": 0, "atol": 1e-5}
        assert light.classes_.tolist() == model.classes_.tolist()
        np.testing.assert_allclose(light.predict_proba(X), wanted, **near)
        np.testing.assert_allclose(in_node(folder / "model.js", X, "predictProba(rows)")[0], wanted, **near)
    else:
        wanted = model.predict(X)
        near = {"rtol": 1e-5, "atol": 1e-5 * np.std(target(table()))}
        ends = model.predict_interval(X, 0.8)
        np.testing.assert_allclose(light.predict(X), wanted, **near)
        np.testing.assert_allclose(light.predict_interval(X, 0.8), ends, **near)
        given = in_node(folder / "model.js", X, "predict(rows)", "interval(rows, 0.8)")
        np.testing.assert_allclose(given[0], wanted, **near)
        np.testing.assert_allclose(given[1], ends, **near)
    if compiled:
        few = X.iloc[:100]
        out = in_c(folder / "model.c", model, few)
        flat = wanted[:100].reshape(100, -1)
        np.testing.assert_allclose(out[:, : flat.shape[1]], flat, **near)


def test_the_cases_have_every_backbone():
    assert {type(backbone) for backbone in BACKBONES.values()} == {*REGISTERED.values()}


@pytest.mark.parametrize("kind", ["number", "text"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone(tmp_path, backbone, kind):
    encoding = ENCODINGS[list(BACKBONES).index(backbone)]
    model = fitted(encoding, backbone, kind=kind, n_members=2)
    assert_runtimes_agree(model, hard_rows(model, 200), tmp_path)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding(tmp_path, encoding):
    model = fitted(encoding)
    assert_runtimes_agree(model, hard_rows(model, 200), tmp_path, compiled=ENCODINGS.index(encoding) % 2 == 0)


OWN = {"quantiles": Quantile((0.1, 0.5, 0.9))}


@pytest.mark.parametrize("name", [*OBJECTIVES, "quantiles"])
def test_every_objective(tmp_path, name):
    is_class = name in OBJECTIVES and OBJECTIVES[name].task == "classification"
    estimator = knotwork.TabularClassifier if is_class else knotwork.TabularRegressor
    X = table()
    y = target(X, "text" if is_class else "number")
    y = y if is_class else np.abs(y) + 1.0
    objective = OWN.get(name, name)
    settings = {"training": SHORT, "device": "cpu", "random_state": 0, "columns": CODED}
    model = estimator("BS-Q@6", BACKBONES["mlp"], objective=objective, **settings).fit(X, y)
    assert_runtimes_agree(
        model, hard_rows(model, 100, far=(-1e6, 1e6)), tmp_path, compiled=name in ("quantiles", "focal")
    )


def test_standard_deviations(tmp_path):
    X = table()
    model = fitted("BS-Q@6", objective="gaussian")
    model.save(tmp_path / "model.knotwork")
    model.export(tmp_path / "model.js")
    model.export(tmp_path / "model.c")
    mean, std = model.predict(X, return_std=True)
    light = knotwork.load(tmp_path / "model.knotwork", runtime="light").predict(X, return_std=True)
    np.testing.assert_allclose(light, [mean, std], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(in_node(tmp_path / "model.js", X, "predictStd(rows)")[0], std, rtol=1e-5)
    np.testing.assert_allclose(
        in_c(tmp_path / "model.c", model, X[:50]), np.stack([mean, std], axis=1)[:50], rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("kind", ["number", "int"])
def test_trees_and_networks(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("knotwork.estimators._combination.bagged_weights", uneven_weights)
    model = of_trees_and_networks(kind)
    assert len(model.trained_.pieces) > 1
    assert_runtimes_agree(model, hard_rows(fitted(), 200), tmp_path)


def test_parts_of_a_large_model_are_all_computed(tmp_path):
    """GCC 12 took transpositions for functions without effect, in models so large that it does not inline them."""
    X = table()[["income", "age"]].fillna(0.0).iloc[:3]
    model = knotwork.TabularRegressor("Std", BACKBONES["mlp"], training=SHORT, device="cpu", random_state=0)
    model.fit(table()[["income", "age"]], target(table()))
    graph, factors = Graph(), np.arange(1.0, 57.0, dtype=np.float32)
    value = graph("Mul", graph("Cast", graph("Gather", "numbers", graph.ints(0), axis=1), to="float32"), factors)
    wanted = X["income"].to_numpy(np.float32)[:, None] * factors
    for _ in range(150):
        value = graph.reshape(graph("Transpose", graph.reshape(value, -1, 2, 7, 4), perm=[0, 1, 3, 2]), -1, 56)
        wanted = wanted.reshape(-1, 2, 7, 4).swapaxes(2, 3).reshape(-1, 56)
    graph.outputs["prediction"] = value
    names = tuple(map(str, range(56)))
    (tmp_path / "model.c").write_bytes(c_model(replace(model._predictor(), graph=graph, response_names=names)))
    np.testing.assert_array_equal(in_c(tmp_path / "model.c", model, X), wanted)


@pytest.mark.slow  # many members
@pytest.mark.parametrize("kind", ["number", "text"])
def test_members_of_all_backbones(tmp_path, monkeypatch, kind):
    model = of_all_backbones(monkeypatch, kind)
    assert_runtimes_agree(model, hard_rows(model, 200), tmp_path)


def test_several_targets_and_learned_missing_values(tmp_path):
    X = table()
    y = np.column_stack([target(X), X["income"].rank()])
    columns = knotwork.ColumnConfig(categorical=["code"], missing="learned")
    settings = {"training": SHORT, "device": "cpu", "random_state": 0, "columns": columns}
    model = knotwork.TabularRegressor("BS-Q@6", BACKBONES["mlp"], **settings).fit(X, y)
    assert_runtimes_agree(model, hard_rows(model, 100), tmp_path)


@pytest.mark.parametrize("columns", [["town", "code"], ["age"]])
def test_tables_of_one_kind_of_columns(tmp_path, columns):
    X = table()[columns].copy()
    for name in columns:
        X[name] = X[name].astype("category") if name == "code" else X[name]
    model = knotwork.TabularRegressor("IS-Q@5", BACKBONES["mlp"], training=SHORT, device="cpu", random_state=0)
    assert_runtimes_agree(model.fit(X, target(table())), X, tmp_path)
