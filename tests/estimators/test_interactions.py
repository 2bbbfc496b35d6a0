"""Interactions as an option of the estimators: pairs, networks of all backbones, files, ONNX, and errors."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import knotwork as kw
from knotwork.errors import ArgumentError, ArgumentTypeError, PersistenceError
from knotwork.nn import InteractionConfig
from tests.estimators.saved_cases import BACKBONES, read_file, write_file

SHORT = kw.TrainingConfig(max_epochs=2)


def make_table(n=300, seed=0):
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.uniform(-1.0, 1.0, size=(n, 4)), columns=list("abcd"))
    X["kind"] = random.choice(["u", "v"], n)
    y = X["a"] + 3.0 * X["b"] * X["d"] + 0.1 * random.normal(size=n)
    X.loc[::11, "b"] = np.nan
    return X, y.to_numpy()


def make_model(encoding="BS-Q@7", backbone="mlp", *, training=SHORT, **settings):
    given = {"training": training, "random_state": 0, "device": "cpu", **settings}
    return kw.TabularRegressor(encoding, BACKBONES[backbone], **given)


CASES = {
    "mlp": ("BS-Q@7", 1),
    "resnet": ("IS-Grad-Q@6+LR3x", [("b", "d"), ("a", "c")]),
    "tabm": ("MS-Grad-U@6", InteractionConfig(2, rank=1, width=3)),
    "realmlp": ("PLR@6", [(0, 3)]),
    "ft": ("PLE@5+L3", InteractionConfig("auto", rank=2, width=9)),
    "coordinate": ("Std", InteractionConfig([("b", "d")], width=2)),
}


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module", params=CASES)
def model(request, table):
    encoding, interactions = CASES[request.param]
    return make_model(encoding, request.param, interactions=interactions, validation=2).fit(*table)


def test_models_are_saved_and_loaded(model, table, tmp_path):
    model.save(tmp_path / "model")
    loaded = kw.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict(table[0]), model.predict(table[0]))
    assert loaded.interactions_ == model.interactions_
    assert loaded.get_params()["interactions"] == model.interactions
    assert all(len(pairs) == len(model.interactions_[0]) > 0 for pairs in model.interactions_)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(table[0]), model.predict(table[0]))


def test_models_are_exported(model, table, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed: pip install knotwork[onnx]")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install knotwork[onnx]")
    model.export_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = {"numbers": model.columns_.read(table[0]).numbers, "kind": table[0][["kind"]].to_numpy(dtype=object)}
    np.testing.assert_allclose(session.run(None, inputs)[0], model.predict(table[0]), atol=1e-4)


@pytest.mark.parametrize("interactions", [1, "auto", [("b", "d")], [(1, 3)], InteractionConfig([("b", "d")])])
def test_all_ways_to_name_a_pair_give_the_same_network(table, interactions):
    model = make_model(interactions=interactions).fit(*table)
    assert model.interactions_ == [[("b", "d")]]
    expected = make_model(interactions=[("b", "d")]).fit(*table)
    np.testing.assert_array_equal(model.predict(table[0]), expected.predict(table[0]))


def test_interactions_improve_predictions():
    X, y = make_table(800)
    X_test, y_test = make_table(500, seed=1)
    config = kw.TrainingConfig(max_epochs=8, batch_size=64)
    scores = [
        make_model(interactions=pairs, training=config).fit(X, y).score(X_test, y_test) for pairs in (None, "auto")
    ]
    assert scores[1] > scores[0] + 0.05


def test_columns_of_an_array_are_named_by_their_places(table):
    X = table[0].drop(columns="kind").to_numpy()
    model = make_model(interactions=[(1, 3)]).fit(X, table[1])
    assert model.interactions_ == [[(1, 3)]]
    with_codes = np.column_stack([np.tile([0.0, 1.0], len(X) // 2), X])
    coded = kw.ColumnConfig(categorical=[0])
    shifted = make_model(interactions=[(2, 4)], columns=coded).fit(with_codes, table[1])
    assert shifted.interactions_ == [[(2, 4)]]
    with pytest.raises(ArgumentError, match="interactions must name numerical columns of X, 1, 2, 3, 4, got.*=0"):
        make_model(interactions=[(0, 4)], columns=coded).fit(with_codes, table[1])


def test_pairs_are_found_on_the_training_rows_of_each_fold():
    X, y = make_table(400)
    halves = np.arange(400) % 2 == 0
    y = np.where(halves, 3.0 * X["a"] * X["c"], 3.0 * X["c"] * X["d"])
    folds = [(np.flatnonzero(halves), np.flatnonzero(~halves)), (np.flatnonzero(~halves), np.flatnonzero(halves))]
    model = make_model(interactions=1, validation=folds).fit(X, y)
    assert model.interactions_ == [[("a", "c")], [("c", "d")]]


def test_all_networks_of_an_effort_have_interactions(table):
    model = kw.TabularRegressor(
        effort="fast", members="networks", time_limit=1.0, interactions=1, random_state=0, device="cpu"
    ).fit(*table)
    networks = [pairs for pairs, backbone in zip(model.interactions_, model.backbones_, strict=True) if backbone]
    assert {tuple(pairs) for pairs in networks} == {(("b", "d"),)}


@pytest.mark.parametrize("kind", [kw.TabularRegressor, kw.TabularClassifier])
def test_refits_and_later_fits_have_interactions(table, kind):
    X, y = table
    y = y if kind is kw.TabularRegressor else y > 0
    settings = {"interactions": 1, "random_state": 0, "device": "cpu", "training": SHORT}
    refitted = kind("BS-Q@7", BACKBONES["mlp"], validation=kw.ValidationConfig(2, refit=True), **settings).fit(X, y)
    assert refitted.interactions_ == [[("b", "d")]]
    warm = kind("BS-Q@7", BACKBONES["mlp"], warm_start=True, **settings).fit(X, y)
    warm.fit(X, y)
    assert len(warm.history_[0]["loss"]) == 4
    warm.set_params(interactions=None)
    with pytest.warns(UserWarning, match="warm_start has no effect"):
        warm.fit(X, y)
    assert warm.interactions_ == [[]]


def test_several_targets_and_weights(table):
    X, y = table
    targets = np.column_stack([y, -y])
    model = make_model(interactions=1).fit(X, targets, sample_weight=np.random.default_rng(0).uniform(size=len(y)))
    assert model.interactions_ == [[("b", "d")]]
    assert model.predict(X).shape == targets.shape


def test_nested_parameters():
    model = make_model(interactions=[("b", "d")])
    assert model.get_params()["interactions__rank"] == 4
    model.set_params(interactions__rank=2, interactions__width=3)
    assert model.interactions == InteractionConfig([("b", "d")], rank=2, width=3)
    assert clone(model).get_params() == model.get_params()
    model.set_params(interactions=3, interactions__rank=1)
    assert model.interactions == InteractionConfig(3, rank=1)
    assert "interactions__rank" not in make_model().get_params()
    with pytest.raises(ArgumentError, match="interactions__rank is not a valid parameter.*Set interactions first"):
        make_model().set_params(interactions__rank=2)
    with pytest.raises(ArgumentTypeError, match="Did you mean interactions=3"):
        kw.TabularRegressor(n_interactions=3)


def test_rank_and_width_change_the_network(table):
    sizes = []
    for settings in ({}, {"rank": 8}, {"width": 5}):
        model = make_model(interactions=InteractionConfig([("b", "d")], **settings)).fit(*table)
        sizes.append(sum(each.numel() for each in model.trained_.pieces[0].network.parameters()))
    assert len(set(sizes)) == 3


@pytest.mark.parametrize(
    ("interactions", "error", "message"),
    [
        (0, ArgumentError, "interactions must be an integer of at least 1"),
        ("pairs", ArgumentTypeError, "interactions must be 'auto', a number of pairs, or a sequence of pairs"),
        ([("a", "kind")], ArgumentError, "interactions must name numerical columns of X, 'a', 'b', 'c', 'd'"),
        ([("a", 4)], ArgumentError, "interactions must name numerical columns of X.*got interactions='kind'"),
        ([("a", "bb")], ArgumentError, "name numerical columns"),
        ([("a", "b"), (1, 0)], ArgumentError, "no pair twice"),
    ],
)
def test_wrong_interactions(table, interactions, error, message):
    with pytest.raises(error, match=message):
        make_model(interactions=interactions).fit(*table)


def test_a_table_without_pairs(table):
    with pytest.raises(ArgumentError, match="be None for fewer than two numerical columns.*columns are \\['a'\\]"):
        make_model(interactions=1).fit(table[0][["a", "kind"]], table[1])


def test_more_pairs_than_there_are(table):
    model = make_model(interactions=99).fit(*table)
    assert len(model.interactions_[0]) == 6


@pytest.mark.parametrize(
    "changes",
    [
        [{"pairs": [[0, 4]]}],
        [{"pairs": [[0, -1]]}],
        [{"pairs": [[0]]}],
        [{"pairs": [[0, 1.5]]}],
        [{"pairs": [["b", "d"]]}],
        [{"pairs": [[0, 0]]}],
        [{"pairs": 1}],
        [{"pairs": "auto"}],
        [],
        [{"pairs": []}],
        [{"pairs": [[0, 1]]}] * 2,
        [{"pairs": [[0, 1]] * 3}],
        [{"rank": 2}],
        [{"rank": 10**12}],
        [{"width": 0}],
        [{"width": "16"}],
        [{"more": 1}],
    ],
)
def test_damaged_interactions_in_a_file(table, tmp_path, changes):
    path = tmp_path / "model"
    make_model(interactions=[("b", "d")]).fit(*table).save(path)
    content, tensors = read_file(path)
    (piece,) = content["model"]["pieces"]
    piece["interactions"] = [piece["interactions"][0] | each for each in changes]
    write_file(path, json.loads(json.dumps(content)), tensors)
    with pytest.raises(PersistenceError, match="damaged"):
        kw.load(path)
