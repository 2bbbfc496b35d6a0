"""Saved models predict the same, and files that were changed are refused."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import knotwork as kw
from knotwork._model_files import checksum
from knotwork.errors import PersistenceError
from tests.estimators.saved_cases import sealed

RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"a": RANDOM.normal(size=150), "b": RANDOM.choice(["x", "y", "z"], 150), "c": RANDOM.normal(size=150)})
X.loc[::5, "c"] = np.nan
Y = X["a"] ** 2 + (X["b"] == "x") + X["c"].fillna(2.0)
MODELS = {
    "numbers": kw.AdditiveRegressor(pairs=[("b", "c")], monotone={"a": "increasing"}).fit(X, Y),
    "two classes": kw.AdditiveClassifier(size=8).fit(X, np.where(Y > 1, "high", "low")),
    "three classes": kw.AdditiveClassifier(categorical=["b"]).fit(X, np.digitize(Y, [0.5, 2.0])),
    "an array": kw.AdditiveRegressor(curvature={0: "convex"}).fit(X[["a", "c"]].to_numpy(), Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_same(name, tmp_path):
    model = MODELS[name]
    table = X[["a", "c"]].to_numpy() if name == "an array" else X
    model.save(tmp_path / "model.knotwork")
    for loaded in (kw.load(tmp_path / "model.knotwork"), pickle.loads(pickle.dumps(model))):
        assert type(loaded) is type(model)
        assert loaded.get_params() == model.get_params()
        np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
        for mine, other in zip(model.effects(), loaded.effects(), strict=True):
            np.testing.assert_array_equal(mine.low, other.low)
        np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    kw.additive.load(tmp_path / "model.knotwork").save(tmp_path / "again.knotwork")
    assert (tmp_path / "again.knotwork").read_bytes() == (tmp_path / "model.knotwork").read_bytes()


def test_intervals_are_saved(tmp_path):
    MODELS["numbers"].save(tmp_path / "model")
    np.testing.assert_array_equal(
        kw.load(tmp_path / "model").predict_interval(X), MODELS["numbers"].predict_interval(X)
    )


def rewritten(tmp_path, change):
    """Save a model, change its content and arrays, and return the path."""
    path = tmp_path / "model.knotwork"
    MODELS["numbers"].save(path)
    arrays = load_file(path)
    size = int.from_bytes(path.read_bytes()[:8], "little")
    content = json.loads(json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]["knotwork"])
    change(content, arrays)
    content["checksum"] = checksum(arrays, arrays.__getitem__)
    save_file(arrays, path, sealed(json.dumps(content)))
    return path


def set_entry(*keys, value):
    def change(content, arrays):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def set_array(name, value):
    def change(content, arrays):
        arrays[name] = value

    return change


SPACE = {"type": "Space", "transform": {"type": "array"}, "penalties": [], "rotation": None, "bounded": None}
SURFACE = {"type": "Surface", "name": ["b", "c"], "space": SPACE, "sides": []}


@pytest.mark.parametrize(
    "change",
    [
        set_entry("class", value="Other"),
        set_entry("schema", value=99),
        set_entry("model", "terms", 0, "place", value=7),
        set_entry("model", "terms", 0, "place", value=-1),
        set_entry("model", "terms", 0, "name", value="other"),
        set_entry("model", "terms", 0, "basis", "degree", value=9),
        set_entry("model", "terms", 0, "type", value="wave"),
        set_entry("model", "terms", 0, "type", value="Category"),
        set_entry("model", "terms", value=[]),
        set_entry("model", "terms", 3, "sides", value=[SURFACE] * 2),
        set_entry("model", "solutions", 0, "scale", value=-1.0),
        set_entry("model", "solutions", value=[]),
        set_entry("parameters", value={}),
        set_entry("model", "solutions", 0, "smoothing", value=[["x"]]),
        set_entry("model", "labels", value={"type": "Labels", "values": [1, 2], "dtype": "int64"}),
        set_array("solutions0.beta", np.zeros(3)),
        set_array("solutions0.degrees", np.full(5, np.nan)),
        set_array("solutions0.smoothing.items0", np.array([-1.0, 1.0])),
        set_array("terms1.groups", np.full(4, 10, dtype=np.int32)),
        set_array("terms1.groups", np.full(4, -5, dtype=np.int32)),
        set_array("terms1.groups", np.full(4, 1.0)),
        set_array("terms0.space.transform", np.zeros((2, 2))),
        set_array("terms0.basis.knots", np.array([3.0, 1.0])),
        set_array("another", np.zeros(1)),
        lambda content, arrays: arrays.pop("residuals"),
        lambda content, arrays: content["model"].pop("columns"),
    ],
)
def test_changed_files_are_refused(change, tmp_path):
    path = rewritten(tmp_path, change)
    for load in (kw.load, kw.additive.load):
        with pytest.raises(PersistenceError):
            load(path)


def test_a_file_that_was_cut_short_is_refused(tmp_path):
    MODELS["numbers"].save(tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "model").write_bytes(whole[:length])
        with pytest.raises(PersistenceError, match="model"):
            kw.load(tmp_path / "model")


def test_what_cannot_be_saved_is_said(tmp_path):
    model = kw.AdditiveRegressor().fit(X, Y).set_params(categorical={1, 2})
    with pytest.raises(PersistenceError, match="categorical="):
        model.save(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="no file"):
        kw.additive.load(tmp_path / "missing")
