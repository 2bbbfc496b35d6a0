import json
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from torch import nn

import knotwork
from knotwork import ColumnConfig, TabularClassifier, TabularRegressor, basis
from knotwork._graph import Graph
from knotwork._kernels.encoding import Layout, StackPart
from knotwork._light._onnx import _lowered, _made
from knotwork.errors import ArgumentError, MissingPackageError
from knotwork.estimators._graph_encodings import _rows
from knotwork.nn import Backbone
from knotwork.nn._backbones import BACKBONES as BUILDERS
from knotwork.nn._backbones import MLPConfig
from knotwork.nn._flat import MLP
from knotwork.nn._linear import Linear, initialise, member_seeds
from knotwork.training import Objective
from tests.estimators.saved_cases import (
    BACKBONES,
    CODED,
    RECIPES,
    SHORT,
    fitted,
    mixed,
    of_all_backbones,
    table,
    target,
)

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install knotwork[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install knotwork[onnx]")

ENCODINGS = ["BS-Q@6", "IS-Q@6", "MS-Q@6", "PLE@6", "Std", "BS-Grad-U@6", "IS-Grad-U@6", "MS-Grad-U@6"]
ENCODINGS += ["Robust", "Periodic@5", "PLR@6", "PBLD@6", "PLE-Q@6+LR4x", "BS-Grad-U@6+x"]
MAPPING = {"income": "IS-U@5", "age": "PLE-Adaptive", "flat": "Std", "owns": "BS-U@4"}
EMBEDDED = {"income": "Periodic@5+L3x", "age": "PBLD@4", "flat": "Robust+L3x", "owns": "BS-U@4+L3x"}


def exported(model, path):
    model.export_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"])


def feeds(model, X, texts=("town",)):
    """Return the inputs of the model by name."""
    columns = model.columns_
    numerical = [name for name, role in zip(columns.names, columns.roles, strict=True) if role == "numerical"]
    given = {"numbers": X[numerical].to_numpy(dtype=np.float64)} if numerical else {}
    for name, role in zip(columns.names, columns.roles, strict=True):
        if role == "categorical":
            text = name in texts
            column = X[[name]].astype(object)
            given[name] = column.where(column.notna(), "" if text else np.nan).to_numpy(
                dtype=object if text else np.float64
            )
    return given


FAR = (-1e6, 1e6, -1e308, 1e308, -np.inf, np.inf)


def hard_rows(model, n=1000, far=FAR):
    """Return rows with unseen categories, values at and beyond the ends, at knots, and missing."""
    X = table(n, seed=5)
    X["code"] = X["code"].astype(float)
    X.loc[:20, "town"] = "Rome"
    X.loc[10:30, "code"] = 77.0
    X.loc[25:35, "code"] = np.nan
    known = table()
    for name in ("age", "income"):
        ends = [known[name].min(), known[name].max(), *far, np.nan, 0.0]
        values = np.array([*ends, *model.knots_[0][name]])
        X.loc[40 : 39 + len(values), name] = values
    X.loc[70:80, "flat"] = np.nan
    return X


def assert_equal(session, model, X, **options):
    for rows in (X[:1], X[:7], X):
        given = session.run(None, feeds(model, rows, **options))
        if isinstance(model, TabularRegressor):
            assert len(given) == 1
            wanted, scale = model.predict(rows), np.std(target(table()))
            assert given[0].shape == wanted.shape
            np.testing.assert_allclose(given[0] / scale, wanted / scale, rtol=1e-5, atol=1e-5)
        else:
            wanted = model.predict_proba(rows)
            np.testing.assert_allclose(given[0], wanted, rtol=0, atol=1e-5)
            sure = np.abs(np.diff(np.sort(wanted, axis=1)[:, -2:], axis=1)[:, 0]) > 1e-4
            assert sure.any()
            assert given[1].shape == (len(rows),)
            assert given[1][sure].tolist() == model.predict(rows)[sure].tolist()


# Every encoding with half of the backbones, and every backbone with half of the encodings.
HALF = [(i, j) for i in range(len(ENCODINGS)) for j in range(len(BACKBONES)) if (i + j) % 2 == 0]


# Those that are quick have every encoding once and every backbone at least twice.
PAIRS = [
    pytest.param(i, j, marks=[] if (i + j) % 6 == 0 else [pytest.mark.slow], id=f"{ENCODINGS[i]}-{list(BACKBONES)[j]}")
    for i, j in HALF
]


@pytest.mark.parametrize(("i", "j"), PAIRS)
def test_predictions_are_those_of_the_estimator(tmp_path, i, j):
    kind = ("number", "text", "int")[(i + j // 2) % 3]
    model = fitted(ENCODINGS[i], list(BACKBONES)[j], kind=kind, n_members=1 + i // 2 % 2 * 2)
    X = hard_rows(model, far=FAR)
    assert np.ptp(model._model.outputs(model.columns_.read(X))[0], axis=0).min() > 1e-3, "all predictions are the same"
    assert_equal(exported(model, tmp_path / "model.onnx"), model, X)


@pytest.mark.parametrize(
    ("backbone", "categories"),
    [
        pytest.param(backbone, categories, marks=[] if (i + j) % 3 == 0 else [pytest.mark.slow])
        for i, backbone in enumerate(BACKBONES)
        for j, categories in enumerate(("embedding", "code", "mixed"))
    ],
)
def test_columns_of_different_encodings(tmp_path, backbone, categories):
    mapping = MAPPING if categories == "code" else EMBEDDED
    categories = "embedding" if BACKBONES[backbone].takes_tokens else categories  # it refuses others
    model = fitted(mapping, backbone, columns=replace(CODED, categories=categories), n_members=3)
    assert_equal(exported(model, tmp_path / "model.onnx"), model, hard_rows(model))


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [
        pytest.param(backbone, kind, marks=[] if (i + j) % 4 == 0 else [pytest.mark.slow])
        for i, backbone in enumerate(BACKBONES)
        for j, kind in enumerate(("number", "text"))
    ],
)
def test_members_of_different_encodings_and_weights(tmp_path, monkeypatch, backbone, kind):
    model = mixed(monkeypatch, backbone, kind=kind)
    assert len({*map(str, model.encoding_)}) == (6 if backbone == "coordinate" else 8)
    assert len({*model.weights_}) == 3
    assert_equal(exported(model, tmp_path / "model.onnx"), model, hard_rows(model, 200))
    model.save(tmp_path / "model")
    knotwork.load(tmp_path / "model", device="cpu").export_onnx(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


@pytest.mark.parametrize("kind", ["number", "text"])
def test_members_of_different_backbones_and_folds(tmp_path, monkeypatch, kind):
    model = of_all_backbones(monkeypatch, kind, weights=lambda rows, seed: np.arange(1, 6) / 15)
    assert [backbone.name for backbone in model.backbones_] == [name for name in RECIPES for _ in range(2)]
    assert len(model.trained_.pieces) == 5
    assert_equal(exported(model, tmp_path / "model.onnx"), model, hard_rows(model))


SPLINES = [(name, degree) for name in ("bspline", "mspline", "ispline", "cyclic") for degree in (0, 1, 3)]


@pytest.mark.parametrize(("family", "degree"), [*SPLINES, ("ple", 0), ("natural", 3)])
def test_functions_are_those_of_the_definition(family, degree):
    """Two features of different numbers of knots: the knots of the second are padded."""
    knots = [np.array([0.1, 0.35, 0.8]), np.array([0.5])]
    breaks = np.ones((2, 5), dtype=np.float32)
    for row, inner in zip(breaks, knots, strict=True):
        row[: len(inner) + 1] = [0.0, *inner]
    n_knots = np.array([len(inner) for inner in knots], dtype=np.int32)
    layout = Layout(family, degree)
    graph, lowered, values = Graph(), Graph(), {"x": "x"}
    part = StackPart(layout.kind, layout.scheme, 0, 1)
    rows, width = _rows(graph, "x", part=part, breaks=breaks, n_knots=n_knots)
    for node in graph.nodes:
        values[node.output] = _lowered(lowered, node, values, graph.constants)
    lowered.outputs["rows"] = values[rows]
    model = _made(onnx, lowered, {"x": (1, ("n", 2, 1))}, {"rows": (1, ("n", 2, width))})
    x = np.concatenate([breaks.ravel(), np.linspace(0.0, 1.0, 41)]).astype(np.float32)
    x = x[x < 1.0] if family == "cyclic" else x  # values are moved into [0, 1) before
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"x": np.repeat(x[:, None, None], 2, axis=1)})
    for feature, inner in enumerate(knots):
        expected = basis.evaluate(family, x, inner.astype(np.float32), degree=degree)
        size = expected.shape[1]
        np.testing.assert_allclose(given[:, feature, :size], expected, rtol=1e-5, atol=2e-6)
        np.testing.assert_array_equal(given[:, feature, size:], 0.0)


def test_the_reference_evaluator_agrees(tmp_path):
    from onnx.reference import ReferenceEvaluator

    model = fitted("MS-Grad-U@6", "ft")
    model.export_onnx(tmp_path / "model.onnx")
    X = hard_rows(model)[:100]
    with np.errstate(all="ignore"):
        given = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, feeds(model, X))[0]
    np.testing.assert_allclose(given, model.predict(X), rtol=1e-5, atol=1e-5 * np.std(target(table())))


@pytest.mark.parametrize("backbone", ["mlp", "ft"])
@pytest.mark.parametrize("columns", [["town", "code"], ["income", "flat"], ["age"]])
def test_tables_of_one_kind_of_columns(tmp_path, backbone, columns):
    X = table()
    X["code"] = X["code"].astype("category")
    model = TabularRegressor("IS-Q@5", BACKBONES[backbone], training=SHORT, device="cpu", random_state=0)
    model.fit(X[columns], target(table()))
    assert_equal(exported(model, tmp_path / "model.onnx"), model, X[columns])


@pytest.mark.parametrize(
    "classes",
    [
        np.array([False, True]),
        np.array([-2.0, 5.0]),
        np.array([3], dtype=np.uint8),
        np.array([1, 2**64 - 1], dtype=np.uint64),
        np.array(["", "é", "zz"]),
    ],
    ids=str,
)
def test_labels_of_every_type(tmp_path, classes):
    X = table()
    y = classes[np.arange(len(X)) % len(classes)]
    model = TabularClassifier("BS-U@5", BACKBONES["mlp"], training=SHORT, device="cpu", random_state=0).fit(X, y)
    session = exported(model, tmp_path / "model.onnx")
    probabilities, labels = session.run(None, feeds(model, X))
    wanted = model.predict_proba(X)
    np.testing.assert_allclose(probabilities, wanted, atol=1e-6)
    sure = np.ones(len(X), dtype=bool) if wanted.shape[1] == 1 else np.ptp(np.sort(wanted)[:, -2:], axis=1) > 1e-4
    assert sure.any()
    assert labels[sure].tolist() == model.predict(X)[sure].tolist()


def test_categories_of_every_type(tmp_path):
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame(
        {
            "label": rng.choice(["", "a", "b"], n),
            "numbers": rng.choice([-0.5, 0.0, 1e300], n),
            "/x": rng.random(n) < 0.5,
            "large": rng.choice([2**60, 2**60 + 1], n),
            "nothing": np.full(n, np.nan),
            "mixed": np.array([1, "1x", 2.5], dtype=object)[rng.integers(0, 3, n)],
        }
    )
    y = 3.0 * (X["label"] == "a") + 2.0 * (X["numbers"] == 0) + (X["large"] == 2**60) + X["/x"] * 0.5
    model = TabularRegressor(
        backbone=MLPConfig((16,)),
        columns=ColumnConfig(categorical=X.columns),
        training=SHORT,
        device="cpu",
        random_state=0,
    ).fit(X, y)
    session = exported(model, tmp_path / "model.onnx")
    inputs = json.loads(session.get_modelmeta().custom_metadata_map["knotwork"])
    assert inputs == {"numbers": [], "categories": ["column_0", "column_1", "column_2", "large", "nothing", "mixed"]}
    X.loc[:9, "numbers"] = -0.0
    X.loc[10:19, "numbers"] = np.nan
    given = {
        "column_0": X[["label"]].to_numpy(dtype=object),
        "column_1": X[["numbers"]].to_numpy(dtype=np.float64),
        "column_2": X[["/x"]].to_numpy(dtype=np.float64),
        "large": X[["large"]].to_numpy(dtype=np.int64),
        "nothing": X[["nothing"]].to_numpy(dtype=np.float64),
        "mixed": X[["mixed"]].astype(str).to_numpy(dtype=object),
    }
    wanted = model.predict(X)
    assert np.ptp(wanted) > 0.01
    np.testing.assert_allclose(session.run(None, given)[0], wanted, rtol=1e-5, atol=1e-5)


def test_arrays_have_places_for_names_and_files_are_repeatable(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), rng.integers(0, 3, 80), rng.normal(size=80)])
    model = TabularRegressor(
        "PLE@5", BACKBONES["mlp"], columns=ColumnConfig(categorical=[1]), training=SHORT, device="cpu", random_state=0
    )
    model.fit(X, X[:, 0] + X[:, 1])
    session = exported(model, tmp_path / "model.onnx")
    given = session.run(None, {"numbers": X[:, [0, 2]], "column_1": X[:, [1]]})[0]
    np.testing.assert_allclose(given, model.predict(X), atol=1e-5)
    model.save(tmp_path / "model")
    knotwork.load(tmp_path / "model").export_onnx(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_without_the_package(tmp_path, monkeypatch):
    model = fitted()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match=r"export_onnx needs onnx: pip install \"knotwork\[onnx\]\""):
        model.export_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class Doubled(MLP):
    """A network that would be exported as the one that it derives from."""

    def rest(self, hidden, **given):
        return 2.0 * super().rest(hidden, **given)


class Shallow(nn.Module):
    """A network with only the methods that the engine calls."""

    def __init__(self, d_in, d_out, *, n_members, blocks):
        super().__init__()
        self.first = Linear(n_members, d_in, d_out, blocks=blocks)
        initialise(self, member_seeds(n_members))

    def enter(self, rows):
        return self.first(rows)

    def rest(self, hidden, **given):
        return hidden


@dataclass(frozen=True)
class OwnConfig(Backbone):
    name: ClassVar[str] = "own"
    made: type

    def build(self, sizes, n_extra, cardinalities, d_out, *, n_members):
        blocks = len(sizes), max(sizes, default=0)
        return self.made(blocks[0] * blocks[1] + n_extra, d_out, n_members=n_members, blocks=blocks)

    def activations(self, sizes, n_categorical):
        return 1000


@pytest.mark.parametrize("made", [Doubled, Shallow])
def test_unknown_networks_are_refused(tmp_path, monkeypatch, made):
    monkeypatch.setitem(BUILDERS, "own", OwnConfig)
    X = table()
    model = TabularRegressor("BS-Q@6", OwnConfig(made), training=SHORT, device="cpu", random_state=0)
    model.fit(X, target(X))
    with pytest.raises(ArgumentError) as caught:
        model.export_onnx(tmp_path / "model.onnx")
    message = str(caught.value)
    assert message.startswith("backbone must build a network whose class has a method to_graph, to be exported")
    assert "backbone=OwnConfig(" in message
    assert f"{made.__name__} has none: write it, or keep the model with save" in message
    assert not list(tmp_path.iterdir())


class Exported(Shallow):
    """The same network with a translation."""

    def to_graph(self, graph, rows, *, member, logits):
        assert not logits
        return graph.linear(rows, self.first, member)


@dataclass(frozen=True)
class Cubed(Objective):
    """Squared errors of cubes: the prediction is the third power of the output, plus the output."""

    name: ClassVar[str] = "cubed"
    metric_name: ClassVar[str] = "rmse"

    def predictions(self, outputs):
        return outputs + outputs**3

    def row_scores(self, predictions, target):
        return (predictions[..., 0] - target).square()


class ExportedCubed(Cubed):
    def to_graph(self, graph, outputs, n_targets):
        return graph("Add", outputs, graph("Mul", outputs, graph("Mul", outputs, outputs)))


def test_networks_and_objectives_of_a_user(tmp_path, monkeypatch):
    monkeypatch.setitem(BUILDERS, "own", OwnConfig)
    X = table()
    settings = {"training": SHORT, "device": "cpu", "random_state": 0, "n_members": 2, "columns": CODED}
    model = TabularRegressor("BS-Q@6", OwnConfig(Exported), objective=ExportedCubed(), **settings).fit(X, target(X))
    assert_equal(exported(model, tmp_path / "model.onnx"), model, hard_rows(model))
    model = TabularRegressor("BS-Q@6", OwnConfig(Exported), objective=Cubed(), **settings).fit(X, target(X))
    with pytest.raises(ArgumentError, match="objective must have a method to_graph beside its method predictions"):
        model.export_onnx(tmp_path / "other.onnx")
