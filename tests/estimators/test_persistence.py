"""A loaded estimator equals the saved one: predictions, parameters, histories and knots."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import knotwork
from knotwork import TabularRegressor
from knotwork.errors import PersistenceError
from knotwork.estimators._persistence import save
from knotwork.estimators._saved_schemas import SCHEMA
from tests.estimators.saved_cases import (
    BACKBONES,
    SHORT,
    epochs_from_0,
    fitted,
    mixed,
    of_all_backbones,
    read_file,
    table,
    target,
    write_file,
)

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns

MAPPING = {"age": "IS-U@5", "income": "PLE@4", "flat": "Std"}


def outputs(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def assert_same(loaded, model):
    X = table(97, seed=1)
    X.loc[0, "town"] = "Rome"
    X.loc[1, "income"] = 1e30
    np.testing.assert_array_equal(outputs(loaded, X), outputs(model, X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.predict(X).dtype == model.predict(X).dtype
    given, wanted = loaded.get_params(deep=False), model.get_params(deep=False)
    assert given.pop("device") == "cpu"
    wanted.pop("device")
    assert given == wanted
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)
    np.testing.assert_array_equal(loaded.weights_, model.weights_)
    assert loaded.encoding_ == model.encoding_
    assert loaded.candidates_ == model.candidates_
    assert loaded.backbones_ == model.backbones_
    for history, other in zip(loaded.history_, model.history_, strict=True):
        assert set(history) == set(other)
        for name, value in history.items():
            np.testing.assert_array_equal(value, other[name])
    for member_knots, other in zip(loaded.knots_, model.knots_, strict=True):
        assert list(member_knots) == list(other)
        for name, knots in member_knots.items():
            np.testing.assert_array_equal(knots, other[name])


ESTIMATORS = [
    ("BS-Q@6", {"kind": "text"}),
    ("IS-Grad-U@6", {"n_members": 3}),
    ("MS-Grad-U@5", {"kind": "int", "n_members": 2, "class_weight": "balanced"}),
    (MAPPING, {"categories": "code"}),
    ("PLE-Adaptive", {"kind": "int", "class_weight": {-1: 1.0, 4: 2, 9: 0.5}}),
    ("auto", {"size": 5}),
    ("Robust", {"kind": "text"}),
    ("PLR@5", {"n_members": 2}),
    ({"age": "PBLD@4", "income": "BS-Grad-U@5+L3x", "flat": "Std+L3x", "owns": "Robust+L3x"}, {"n_members": 2}),
    ("validated", {"size": 5}),
    ("ensemble", {"n_members": 2, "kind": "text", "size": 5}),
]
"""Encodings and settings of estimators that are saved."""


@pytest.mark.parametrize(
    ("encoding", "settings", "backbone"),
    [
        # Each estimator with two backbones and each backbone with some estimators; the other pairs are slow.
        pytest.param(*estimator, backbone, marks=[] if (i + j) % 3 == 0 else [pytest.mark.slow])
        for i, estimator in enumerate(ESTIMATORS)
        for j, backbone in enumerate(BACKBONES)
    ],
)
def test_a_loaded_estimator_equals_the_saved_one(tmp_path, backbone, encoding, settings):
    model = fitted(encoding, backbone, **settings)
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    assert_same(loaded, model)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "model"]


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [
        pytest.param(backbone, kind, marks=[] if (i + j) % 2 == 0 else [pytest.mark.slow])
        for i, backbone in enumerate(BACKBONES)
        for j, kind in enumerate(("number", "int"))
    ],
)
def test_members_of_different_encodings_and_weights(tmp_path, monkeypatch, backbone, kind):
    model = mixed(monkeypatch, backbone, kind=kind, size=6 if backbone == "coordinate" else None)
    assert len(model.trained_.pieces) > 1
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    assert_same(loaded, model)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("kind", ["number", "text"])
def test_members_of_different_backbones(tmp_path, monkeypatch, kind):
    model = of_all_backbones(monkeypatch, kind)
    assert [backbone.name for backbone in model.backbones_] == [
        name for name in ("mlp", "tabm", "resnet", "ft") for _ in range(2)
    ]
    assert [candidate["backbone"] for candidate in model.candidates_] == ["mlp", "tabm", "resnet", "realmlp", "ft"]
    assert len(model.trained_.pieces) == 4
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    assert_same(loaded, model)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("settings", [{"effort": "fast"}, {"effort": "best", "time_limit": 60.0}, {"time_limit": 7}])
def test_effort_and_time_limit_are_parameters_of_the_file(tmp_path, monkeypatch, settings):
    of_all_backbones(monkeypatch, **settings).save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    assert {name: loaded.get_params()[name] for name in settings} == settings


def test_a_loaded_estimator_is_cloned_and_fitted_again(tmp_path):
    model = fitted("BS-Grad-U@6")
    model.save(tmp_path / "model")
    loaded = knotwork.load(str(tmp_path / "model"), device="cpu")
    X = table()
    for again in (loaded, clone(loaded)):
        again.fit(X, target(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)


def test_importances_are_those_of_the_last_fit():
    X = table()
    model = fitted()
    before = model.feature_importances_
    model.fit(X, -3.0 * target(X))
    assert not np.array_equal(model.feature_importances_, before)


@pytest.mark.parametrize("categorical", [None, (1,), [1]])
def test_arrays_column_places_and_random_states_that_are_not_integers(tmp_path, categorical):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 3, 60)])
    state = np.random.RandomState(0)
    model = TabularRegressor(
        {0: "BS-U@5"}, categorical=categorical, random_state=state, training=SHORT, device="cpu", verbose=False
    ).fit(X, X[:, 0])
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params(deep=False) == {
        **model.get_params(deep=False), "random_state": None, "device": "auto"
    }  # fmt: skip
    assert not hasattr(loaded, "feature_names_in_")


def test_members_of_several_stacks_keep_their_places(tmp_path):
    model = fitted("IS-Q@6", n_members=3)
    swapped = copy.deepcopy(model)
    object.__setattr__(swapped.trained_.pieces[0], "places", (2, 0, 1))
    swapped.save(tmp_path / "model")
    X = table()
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded._outputs(loaded._read(X)), swapped._outputs(swapped._read(X)))


def test_a_change_of_parameters_after_the_fit_changes_no_prediction(tmp_path):
    model = fitted()
    model.set_params(backbone="resnet", categories="code", n_members=5, training=None)
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    assert_same(loaded, model)


def test_torch_random_numbers_are_left_alone(tmp_path):
    fitted().save(tmp_path / "model")
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    knotwork.load(tmp_path / "model", device="cpu")
    assert torch.equal(torch.rand(3), wanted)


@pytest.mark.slow
def test_a_file_of_another_process(tmp_path):
    """A process takes long to start; files of other processes are also those of test_saved_versions.py."""
    code = (
        "import sys; from tests.estimators.saved_cases import *; X = table(50, seed=2)\n"
        "model = fitted('IS-Q@5', 'resnet', kind='text'); model.save(sys.argv[1])\n"
        "np.save(sys.argv[1] + '.npy', model.predict_proba(X))"
    )
    path = tmp_path / "model"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    loaded = knotwork.load(path, device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(table(50, seed=2)), np.load(f"{path}.npy"), rtol=1e-5, atol=1e-7)
    assert read_file(path)[0]["schema"] == SCHEMA


def test_a_file_of_schema_1():
    """The file was written before members could have different encodings, together with these numbers."""
    loaded = knotwork.load(Path(__file__).parent / "schema1.knotwork", device="cpu")
    rows = pd.DataFrame({"age": [1.0, 40.0, None, 200.0], "town": ["Ulm", "Bonn", "Ulm", "Rome"]})
    np.testing.assert_allclose(loaded.predict(rows), [83.643804, 83.02298665, 85.91926445, 85.87424054], rtol=1e-5)
    np.testing.assert_allclose(loaded.feature_importances_, [2.7751229, 0.81283663], rtol=1e-5)
    assert loaded.encoding_ == [{"age": "BS-Q@5"}] * 2
    assert (loaded.weights_.tolist(), loaded.candidates_) == ([0.5, 0.5], [])


OF_FIRST = (
    "encoding", "backbone", "size", "n_members", "categories", "categorical", "validation_share", "training",
    "random_state", "verbose", "class_weight",
)  # fmt: skip
"""Parameters of the estimators of version 0.1.0."""


def schema_3(content, tensors):
    """Return a file as it was written before objectives, and its tensors."""
    new = ("objective", "n_targets", "residuals", "temperature", "calibration")
    content = {name: value for name, value in content.items() if name not in new}
    old = (*OF_FIRST, "effort", "time_limit")
    content["parameters"] = {name: value for name, value in content["parameters"].items() if name in old}
    return {**content, "schema": 3, "histories": epochs_from_0(content["histories"])}, {
        name: tensor for name, tensor in tensors.items() if name != "residuals"
    }


def schema_2(content, tensors):
    """Return a file as version 0.1.0 wrote it: one backbone for all networks, and fewer settings."""
    content, tensors = schema_3(content, tensors)
    new = ("beta2", "weight_average", "label_smoothing")
    content = {**content, "schema": 2, "backbone": content["pieces"][0]["backbone"]}
    content["parameters"] = {name: value for name, value in content["parameters"].items() if name in OF_FIRST}
    for holder, name in ((content, "config"), (content["parameters"], "training")):
        holder[name] = {setting: value for setting, value in holder[name].items() if setting not in new}
    for name, later in (("pieces", ("backbone", "embedding")), ("candidates", ("backbone",))):
        content[name] = [{key: value for key, value in each.items() if key not in later} for each in content[name]]
    return content, tensors


@pytest.mark.parametrize("encoding", ["BS-Q@6", "validated"])
def test_a_file_of_schema_2(tmp_path, encoding):
    model = fitted(encoding, "resnet", n_members=2)
    model.save(tmp_path / "model")
    content, tensors = read_file(tmp_path / "model")
    write_file(tmp_path / "old", *schema_2(content, tensors))
    assert_same(knotwork.load(tmp_path / "old", device="cpu"), model)


@pytest.mark.parametrize("kind", ["number", "text"])
def test_a_file_of_schema_3(tmp_path, kind):
    model = fitted("BS-Q@6", "resnet", kind=kind)
    model.save(tmp_path / "model")
    write_file(tmp_path / "old", *schema_3(*read_file(tmp_path / "model")))
    loaded = knotwork.load(tmp_path / "old", device="cpu")
    assert_same(loaded, model)
    if kind == "number":
        with pytest.raises(AttributeError, match=r"saved by an earlier version. Fit again"):
            loaded.predict_interval(table(5))
    else:
        assert loaded.temperature_ == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("backbone", None), ("backbone", "resnet"), ("backbone", {"name": "mlp"}), ("pieces", [3]), ("config", []),
     ("parameters", None), ("candidates", [1])],
)  # fmt: skip
def test_invalid_content_of_schema_2(tmp_path, name, value):
    fitted("BS-Q@6", "resnet").save(tmp_path / "model")
    content, tensors = read_file(tmp_path / "model")
    content, tensors = schema_2(content, tensors)
    write_file(tmp_path / "edited", {**content, name: value}, tensors)
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")


@pytest.mark.parametrize("choices", [None, [], [["BS-Q"]], [["eval", 5]], [["BS-Q", 0]], [["BS-Q", 5], ["BS-Q", 5]]])
def test_invalid_choices_of_schema_1(tmp_path, choices):
    content, tensors = read_file(Path(__file__).parent / "schema1.knotwork")
    write_file(tmp_path / "edited", {**content, "choices": choices}, tensors)
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")


def test_an_estimator_that_cannot_be_saved_leaves_the_file_unchanged(tmp_path):
    model = fitted()
    (tmp_path / "model").write_text("before")
    with pytest.raises(PersistenceError, match=r"categories=.* cannot be saved. Set it to a plain value"):
        model.set_params(categories=object()).save(tmp_path / "model")
    assert (tmp_path / "model").read_text() == "before"
    with pytest.raises(TypeError, match="estimator must be a TabularRegressor or"):
        save("model", tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        fitted().save(tmp_path / "nowhere" / "model")


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    model = fitted()
    model.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("knotwork._files.os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        model.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == before
