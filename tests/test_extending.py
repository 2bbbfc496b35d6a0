"""A part that is registered once, from outside, serves everywhere: the code is that of docs/extending.md."""

import ast
import pickle
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import knotwork as kw
from knotwork.basis import FAMILIES
from knotwork.compare import CompareOptions, compare_table
from knotwork.encoders import METHOD_TABLE
from knotwork.errors import ArgumentError
from knotwork.knots import PLACEMENTS
from knotwork.nn import BACKBONES
from knotwork.report import make_report
from knotwork.training import METRICS, OBJECTIVES
from tests.compare.cases import draw_nothing, shorten

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
SHORT = kw.TrainingConfig(max_epochs=2)
RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"a": RANDOM.lognormal(size=150), "b": RANDOM.uniform(size=150)})
Y = np.log(X["a"]) + np.sin(6 * X["b"])


def registered(heading, monkeypatch):
    """Run the first block below a heading of the page, in a module that pickle can import."""
    block = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)[1]
    module = ModuleType("extending_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block, str(PAGE), "exec"), vars(module))
    return module


@pytest.fixture
def part(request, monkeypatch):
    """Register what the test's mark names, and take it away afterwards."""
    tables = FAMILIES, PLACEMENTS, METRICS, METHOD_TABLE, BACKBONES, OBJECTIVES
    before = [set(table) for table in tables]
    yield registered(request.param, monkeypatch)
    for table, names in zip(tables, before, strict=True):  # the methods of a family or a placement go with it
        for name in set(table) - names:
            del table[name]
    assert [set(table) for table in tables] == before


def given(heading):
    return pytest.mark.parametrize("part", [heading], indirect=True)


WITH = {"A placement": ["BS-Log@6", "IS-Grad-Log@6"], "A family": ["HG-CART@6", "HG-Grad-U@6"],
        "A method": ["Ramps@6", "Ramps-Grad@6"]}  # fmt: skip
"""Methods that the parts of the page bring along."""

METHODS = [(heading, method) for heading, methods in WITH.items() for method in methods]
EVERY = pytest.mark.parametrize(("part", "method"), METHODS, indirect=["part"])
KINDS = pytest.mark.parametrize(("part", "methods"), list(WITH.items()), indirect=["part"])


def regressor(method, **settings):
    options = {"training": SHORT, "random_state": 0, "device": "cpu"} | settings
    return kw.TabularRegressor(method, **options)


@EVERY
def test_encoder(part, method):
    start = kw.encoders.Encoding.parse(method).start
    encoder = kw.make_encoder(str(start))
    dense = clone(encoder).set_params(dtype=np.float64).fit(X, Y)
    encoded = dense.transform(X)
    assert encoded.shape == (150, 12)
    assert len(dense.get_feature_names_out()) == 12
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dense)).transform(X), encoded)
    sparse = clone(dense).set_params(sparse_output=True).fit(X, Y).transform(X)
    np.testing.assert_array_equal(sparse.toarray(), encoded)
    assert sparse.nnz == np.count_nonzero(encoded)
    mapped = kw.make_encoder({"a": str(start)}, default="Std", dtype=np.float64).fit(X, Y)
    np.testing.assert_array_equal(mapped.transform(X)[:, :6], encoded[:, :6])


@EVERY
def test_estimator_saves_and_loads(part, method, tmp_path):
    model = regressor(method).fit(X, Y)
    model.save(tmp_path / "model.knotwork")
    predicted = model.predict(X)
    assert np.isfinite(predicted).all()
    np.testing.assert_array_equal(kw.load(tmp_path / "model.knotwork", device="cpu").predict(X), predicted)
    tokens = regressor(method, backbone="ft").fit(X, Y)
    assert np.isfinite(tokens.predict(X)).all()


@KINDS
def test_study_and_report(part, methods, tmp_path):
    plan = kw.study.Plan(
        name="parts",
        datasets=["sk_wine"],
        methods=["Std", *(method.partition("@")[0] for method in methods)],
        sizes=[6],
        folds=2,
        training=SHORT,
        backbones=["mlp"],
    )
    summary = kw.study.run(plan, tmp_path / "study", device="cpu")
    assert (summary.n_ok, summary.n_failed) == (6, 0)
    page = make_report(kw.study.load_results(tmp_path / "study"), tmp_path / "report.html")
    for method in plan.methods:
        assert method in page.read_text()


@pytest.fixture
def short(monkeypatch):
    """Comparisons of few epochs and without figures; no limit of time, so that a busy machine compares the same."""
    shorten(monkeypatch)
    draw_nothing(monkeypatch)


@KINDS
def test_compare(part, methods, short, tmp_path):
    X.assign(y=Y).to_csv(tmp_path / "table.csv", index=False)
    options = CompareOptions(methods=("Std", *methods), folds=2, time_budget=None)
    found = compare_table(tmp_path / "table.csv", "y", out=tmp_path / "out", options=options, device="cpu")
    encodings = {str(line.candidate) for line in found.ranking.lines if line.kind == "encoding"}
    assert encodings == {"Std", *methods}


@given("A placement")
def test_placement(part):
    expected = np.expm1(np.linspace(0.0, np.log1p(np.ptp(X["a"])), 8)[1:-1]) + X["a"].min()
    for encoder in (kw.SplineEncoder(size=10, placement="log"), kw.PiecewiseLinearEncoder(7, placement="log")):
        np.testing.assert_allclose(encoder.fit(X).knots_[0], expected)
    streamed = kw.make_encoder("BS-Log@10").fit(iter([X[:50], X[50:]]))
    np.testing.assert_allclose(streamed.knots_[0], expected)
    layer = kw.nn.SplineEncoding.from_encoder(kw.make_encoder("IS-Log@10").fit(X))
    got = layer(torch.tensor(X.to_numpy(dtype=np.float32)))
    np.testing.assert_allclose(got.flatten(1), kw.make_encoder("IS-Log@10").fit_transform(X), atol=2e-5)


@given("A placement")
def test_a_placement_with_other_settings_is_not_taken_from_the_cache(part, tmp_path):
    from knotwork.study._networks import FoldEncoding
    from knotwork.study._prepared import fit_all, load_data

    plan = kw.study.Plan(name="two", datasets=["sk_diabetes"], methods=["Std"], backbones=["mlp"], folds=2)
    data = load_data(plan, "sk_diabetes")
    wanted = FoldEncoding(kw.encoders.Encoding("BS-Log", 8), 0)
    fitted = []
    for unit in (1.0, 0.001, 1.0):
        PLACEMENTS["log"] = part.LogPlacement(unit)
        fitted.append(fit_all(data, [wanted], folder=tmp_path)[wanted].encodings[0].basis.knots)
    assert not np.allclose(fitted[0], fitted[1])
    np.testing.assert_array_equal(fitted[0], fitted[2])
    assert len(list(tmp_path.iterdir())) == 2


@given("A placement")
def test_networks_with_other_settings_of_a_placement_are_trained(part, tmp_path):
    plan = kw.study.Plan(
        name="units", datasets=["sk_wine"], methods=["BS-Log", "BS-Q"], sizes=[6], folds=2, training=SHORT,
        backbones=["mlp"],
    )  # fmt: skip
    trained = []
    for unit in (1.0, 0.001, 0.001):
        PLACEMENTS["log"] = part.LogPlacement(unit)
        trained.append(kw.study.run(plan, tmp_path, device="cpu").n_ok)
    assert trained == [4, 2, 0]


def test_a_placement_without_traits_has_sensible_ones(monkeypatch):
    from knotwork.knots._placements import placement_traits

    class Halves:
        supervised = False

        def __init__(self, share):
            self.share = share

        def __call__(self, column, n_knots, target=None, seed=0):
            raise NotImplementedError

    monkeypatch.setitem(PLACEMENTS, "my_halves", Halves(0.5))
    traits = placement_traits("my_halves")
    assert (traits.short, traits.label) == ("MyHalves", "my_halves")
    assert "Halves(share=0.5)" in traits.key
    assert " at 0x" not in traits.key
    monkeypatch.setitem(PLACEMENTS, "my_halves", Halves(0.25))
    assert placement_traits("my_halves").key != traits.key
    assert METHOD_TABLE["MS-Grad-MyHalves"].start == "MS-MyHalves"


@given("A family")
def test_family_encodes_as_its_basis(part):
    encoder = kw.SplineEncoder("hinges", 6, placement="uniform", dtype=np.float64, missing="indicator").fit(X)
    assert list(encoder.get_feature_names_out()[[0, 5, 6]]) == ["a_hg0", "a_hg5", "a_missing"]
    table = np.array([[X["a"].min() - 1.0, np.nan], [X["a"].max() + 2.0, 0.3], [2.0, 0.7]])
    frame = pd.DataFrame(table, columns=["a", "b"])
    got = encoder.transform(frame)
    low, high = encoder.domain_.T
    inside = np.clip(table, low, high)
    starts = np.stack([np.concatenate(([low[i]], encoder.knots_[i])) for i in range(2)])
    expected = np.maximum(inside[:, :, None] - starts, 0.0) / (high - low)[:, None]
    np.testing.assert_allclose(got.reshape(3, 2, 7)[..., :6], np.nan_to_num(expected), atol=1e-12)
    np.testing.assert_array_equal(got.reshape(3, 2, 7)[..., 6], np.isnan(table))
    line = encoder.set_params(extrapolation="linear").transform(frame).reshape(3, 2, 7)[:, 0, :6]
    slopes = np.array([[1, 0, 0, 0, 0, 0], [1] * 6]) / (high[0] - low[0])
    np.testing.assert_allclose(line[:2], expected[:2, 0] + np.array([[-1.0], [2.0]]) * slopes, atol=1e-12)


@given("A family")
def test_family_needs_room_and_distinct_names(part):
    with pytest.raises(ArgumentError, match="size must be an integer of at least 1.*hinges have at least 1 function"):
        kw.SplineEncoder("hinges", 0).fit(X)
    with pytest.raises(ArgumentError, match="family must be one of 'bspline', .*, 'hinges'"):
        kw.SplineEncoder("hinge").fit(X)
    with pytest.raises(
        ArgumentError, match=r"a family \(BS, IS, MS, CS, NS, RBF, TPS, HG\) and a placement \(U, Q, CART, LGBM\)"
    ):
        kw.make_encoder("HG-Quantile")
    FAMILIES["other"] = kw.basis.Family(part.Hinges, label="others", short="BS")
    with pytest.raises(ArgumentError, match="short must be unique"):
        kw.make_encoder("BS-Q")
    with pytest.raises(ArgumentError, match="letters and digits"):
        kw.basis.Family(part.Hinges, label="others", short="H-G")


@given("A family")
def test_layer_of_a_family(part):
    encoder = kw.make_encoder("HG-Q@6").fit(X)
    values = torch.tensor(X.to_numpy(dtype=np.float32))
    layer = kw.nn.SplineEncoding.from_encoder(encoder, learnable=True)
    encoded = layer(values)
    np.testing.assert_allclose(encoded.detach().flatten(1), encoder.transform(X), atol=1e-5)
    (encoded.square().sum() + layer.spacing_penalty()).backward()
    assert (layer.logits.grad != 0).any()
    fixed = kw.nn.SplineEncoding(2, 40, family="hinges", learnable=False)
    linear = kw.nn.EncodedLinear(fixed, 16)
    rows = torch.rand(5000, 2)  # built-in families of this size are encoded and multiplied in one pass
    expected = fixed(rows).flatten(1) @ linear.weight + linear.bias
    torch.testing.assert_close(linear(rows), expected)


@given("A family")
@pytest.mark.parametrize("method", ["HG-Q@6", "HG-Grad-Q@6", {"a": "HG-Q@3", "b": "BS-Q@6"}])
def test_onnx_exports_a_family(part, tmp_path, method):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install knotwork[onnx]")
    model = regressor(method).fit(X, Y)
    model.export_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (predicted,) = session.run(["prediction"], {"numbers": X.to_numpy(dtype=np.float64)})
    np.testing.assert_allclose(predicted, model.predict(X), rtol=0, atol=1e-5)
    FAMILIES["hinges"] = replace(FAMILIES["hinges"], to_graph=None)  # `part` takes it away
    with pytest.raises(ArgumentError, match="family with a function to_graph, to be exported, got .*hinges"):
        model.export_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize(("part", "method"), [("A placement", "IS-Grad-Log@6"), ("A method", "Ramps@6")],
                         indirect=["part"])  # fmt: skip
def test_onnx_exports_built_in_functions_with_any_knots(part, method, tmp_path):
    regressor(method).fit(X, Y).export_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 0


@given("A metric")
def test_metric(part, tmp_path):
    training = kw.TrainingConfig(max_epochs=3, metric="worst")
    model = regressor("BS-Q@6", training=training).fit(X, Y)
    other = regressor("BS-Q@6", training=kw.TrainingConfig(max_epochs=3)).fit(X, Y)
    assert model.history_[0]["metric"] == "worst"
    assert (model.history_[0]["score"] > other.history_[0]["score"]).all()
    model.save(tmp_path / "model.knotwork")
    again = kw.load(tmp_path / "model.knotwork", device="cpu")
    assert again.training.metric == "worst"
    plan = kw.study.Plan(
        name="worst", datasets=["sk_diabetes"], methods=["Std"], folds=2, training=training, backbones=["mlp"]
    )
    kw.study.run(plan, tmp_path / "study", device="cpu")
    records = kw.study.load_results(tmp_path / "study")
    assert (records["worst"] > records["rmse"]).all()
    assert list(records.columns).index("worst") == list(records.columns).index("brier") + 1
    page = make_report(records, tmp_path / "report.html").read_text()
    assert METRICS["worst"].label in page
    table = pd.read_csv(tmp_path / "tables" / "metrics_regression.csv")
    assert table[METRICS["worst"].label].iloc[0] == pytest.approx(records["worst"].mean())


@given("A metric")
def test_compare_scores_by_every_metric(part, short, tmp_path):
    X.assign(y=Y).to_csv(tmp_path / "table.csv", index=False)
    options = CompareOptions(methods=("Std", "PLE-Grad"), sizes=(6,), folds=2, time_budget=None, effort="single")
    compare_table(tmp_path / "table.csv", "y", out=tmp_path / "out", options=options, device="cpu")
    folds = pd.read_csv(tmp_path / "out" / "folds.csv")
    assert (folds["worst"] > folds["rmse"]).all()


@given("A backbone")
def test_backbone(part, tmp_path):
    model = regressor("auto", backbone="gated").fit(X, Y)
    assert model.encoding_[0]["a"] == regressor("auto", backbone="mlp").fit(X, Y).encoding_[0]["a"], "as for an MLP"
    model.save(tmp_path / "model.knotwork")
    np.testing.assert_array_equal(kw.load(tmp_path / "model.knotwork", device="cpu").predict(X), model.predict(X))
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install knotwork[onnx]")
    model.export_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (predicted,) = session.run(["prediction"], {"numbers": X.to_numpy(dtype=np.float64)})
    np.testing.assert_allclose(predicted, model.predict(X), rtol=0, atol=1e-5)
    plan = kw.study.Plan(
        name="gates",
        datasets=["sk_wine"],
        methods=["Std", "BS-Q"],
        sizes=[5],
        folds=2,
        training=SHORT,
        backbones=["gated", {"name": "gated", "label": "narrow", "width": 8}],
    )
    assert kw.study.run(plan, tmp_path / "study", device="cpu").n_ok == 8
    records = kw.study.load_results(tmp_path / "study")
    assert set(records["backbone"]) == {"gated", "narrow"}
    page = make_report(records, tmp_path / "report.html").read_text()
    assert "gated" in page
    assert "narrow" in page


@given("An objective")
def test_objective(part, tmp_path):
    model = regressor("auto", backbone="mlp", objective="log_cosh").fit(X, Y)
    assert model.history_[0]["metric"] == "log_cosh"
    model.save(tmp_path / "model.knotwork")
    np.testing.assert_array_equal(kw.load(tmp_path / "model.knotwork", device="cpu").predict(X), model.predict(X))
    sharp = regressor("auto", backbone="mlp", objective=part.LogCosh(50.0)).fit(X, Y)
    assert not np.array_equal(sharp.predict(X), model.predict(X))
    rows = torch.tensor(RANDOM.normal(size=(40, 2)))
    expected = torch.log(torch.cosh(rows[:, 0] - rows[:, 1]))
    torch.testing.assert_close(part.LogCosh().row_scores(rows[:, :1], rows[:, 1]), expected)
    pytest.importorskip("onnx", reason="onnx is not installed: pip install knotwork[onnx]")
    model.export_onnx(tmp_path / "model.onnx")


@given("A backbone")
def test_compare_with_a_backbone(part, short, tmp_path, monkeypatch):
    build, built = part.GatedConfig.build, []
    monkeypatch.setattr(
        part.GatedConfig, "build", lambda self, *args, **more: built.append(1) or build(self, *args, **more)
    )
    X.assign(y=Y).to_csv(tmp_path / "table.csv", index=False)
    options = CompareOptions(
        methods=("Std", "BS-Q"), sizes=(5,), folds=2, time_budget=None, backbone="gated", effort="single"
    )
    comparison = compare_table(tmp_path / "table.csv", "y", out=tmp_path / "out", options=options, device="cpu")
    networks = [row for row in comparison.ranking.lines if row.kind == "encoding"]
    assert {str(row.candidate) for row in networks} == {"Std", "BS-Q@5"}
    assert built, "networks are those of the added backbone"


def test_a_backbone_without_traits_is_refused(monkeypatch):
    monkeypatch.setitem(BACKBONES, "bare", dict)
    with pytest.raises(TypeError, match=r"derives from knotwork\.nn\.Backbone"):
        regressor("BS-Q@6", backbone="bare").fit(X, Y)


@cache
def texts_by_file():
    """Return the texts in the code of each file of the package, docstrings apart."""
    root, texts = Path(kw.__file__).parent, {}
    for path in root.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
        texts[path.relative_to(root).as_posix()] = {node.value for node in constants if isinstance(node.value, str)}
    return texts


def spelled_in(name):
    """Return the files of the package in whose code a text is this name."""
    return [path for path, texts in texts_by_file().items() if name in texts]


@pytest.mark.parametrize("name", [*FAMILIES, *PLACEMENTS, *METRICS])
def test_a_part_is_named_in_few_files(name):
    # PLE has an encoder of its own, and studies may replace the tree of CART. The page of the explorer computes its
    # families itself, "quantile" and "log_loss" are objectives too, the first also of LightGBM, and errors of numbers
    # are drawn in their units.
    # B-splines on quantiles are also the default of pairs of columns, in a transformer and, of layers, in another file,
    # and what the explorer opens with.
    most = {"ple": 5, "bspline": 6, "quantile": 7, "cart": 4, "rmse": 4, "log_loss": 4}.get(name, 3)
    assert len(spelled_in(name)) <= most, spelled_in(name)
