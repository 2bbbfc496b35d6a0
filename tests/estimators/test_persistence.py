"""A loaded estimator equals the saved one: predictions, parameters, histories and knots."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

import knotwork
from knotwork import ColumnConfig, LogLoss, TabularRegressor, ValidationConfig
from knotwork.errors import PersistenceError
from knotwork.estimators._persistence import save
from tests.estimators.saved_cases import (
    BACKBONES,
    SHORT,
    fitted,
    mixed,
    of_all_backbones,
    table,
    target,
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


CODES = ColumnConfig(categorical=("code",), categories="code")
ESTIMATORS = [
    ("BS-Q@6", {"kind": "text"}),
    ("IS-Grad-U@6", {"n_members": 3}),
    ("MS-Grad-U@5", {"kind": "int", "n_members": 2, "objective": LogLoss("balanced")}),
    (MAPPING, {"columns": CODES}),
    ("PLE-Adaptive", {"kind": "int", "objective": LogLoss({-1: 1.0, 4: 2, 9: 0.5})}),
    ("auto", {"columns": ColumnConfig(["code"], missing="learned", dates="error"), "validation": 0.3}),
    ("Robust", {"kind": "text"}),
    ("PLR@5", {"n_members": 2}),
    ({"age": "PBLD@4", "income": "BS-Grad-U@5+L3x", "flat": "Std+L3x", "owns": "Robust+L3x"}, {"n_members": 2}),
    (["Std", "PLE@5", "BS-Q@5"], {"search": "validated", "validation": ValidationConfig("time", share=0.3)}),
    (["BS-Q@5", "PLE@5"], {"search": "ensemble", "n_members": 2, "kind": "text"}),
    (["BS-Q@5", "PLE@5"], {"search": "per-feature", "validation": ValidationConfig(2, refit=True)}),
]
"""Encodings and settings of estimators that are saved."""


@pytest.mark.parametrize(
    ("encoding", "settings", "backbone"),
    [
        # Each estimator with two backbones and each backbone with some estimators; the other pairs are slow.
        pytest.param(*estimator, backbone, marks=[] if (i + j) % 3 == 0 else [pytest.mark.slow])
        for i, estimator in enumerate(ESTIMATORS)
        for j, backbone in enumerate(BACKBONES)
        if not (BACKBONES[backbone].takes_tokens and CODES in estimator[1].values())  # it always learns vectors
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
    model = mixed(monkeypatch, backbone, kind=kind)
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
        {0: "BS-U@5"},
        columns=ColumnConfig(categorical=categorical),
        random_state=state,
        training=SHORT,
        device="cpu",
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
    np.testing.assert_array_equal(
        loaded._model.outputs(loaded.columns_.read(X)), swapped._model.outputs(swapped.columns_.read(X))
    )


def test_a_change_of_parameters_after_the_fit_changes_no_prediction(tmp_path):
    model = fitted()
    model.set_params(backbone="resnet", columns__categories="code", n_members=5, training=None, search="ensemble")
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
    code = (
        "import sys; from tests.estimators.saved_cases import *; X = table(50, seed=2)\n"
        "model = fitted('IS-Q@5', 'resnet', kind='text'); model.save(sys.argv[1])\n"
        "np.save(sys.argv[1] + '.npy', model.predict_proba(X))"
    )
    path = tmp_path / "model"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    loaded = knotwork.load(path, device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(table(50, seed=2)), np.load(f"{path}.npy"), rtol=1e-5, atol=1e-7)


def test_an_estimator_that_cannot_be_saved_leaves_the_file_unchanged(tmp_path):
    model = fitted()
    (tmp_path / "model").write_text("before")
    for name in ("effort", "columns", "search"):
        with pytest.raises(PersistenceError, match=rf"{name}=.* cannot be saved. Set it to a plain value"):
            copy.copy(model).set_params(**{name: object()}).save(tmp_path / "model")
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
