"""New rows for a fitted model: what drifted is said, and training goes on from what was learned."""

import warnings

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.estimators import _updates

SMALL = {"training": kw.TrainingConfig(max_epochs=15), "validation": 3, "random_state": 0, "device": "cpu"}
MODELS = {
    "network": lambda: kw.TabularRegressor("BS-Q@7", **SMALL),
    "trees": lambda: kw.TabularRegressor(members="trees", effort="fast", random_state=0, device="cpu"),
}


def rows(n, seed, *, move=0.0):
    """Return rows of three columns and a target; with a move, one column, its effect and the categories differ."""
    random = np.random.default_rng(seed)
    a, b = random.normal(size=n) + move, random.uniform(size=n)
    city = random.choice(["Oslo", "Rome", "Lima"], n, p=[0.4, 0.4, 0.2])
    y = np.sin(2 * a) + (1.0 + move) * b + (city == "Rome") + 0.1 * random.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "city": city}), y


@pytest.mark.parametrize("name", MODELS)
def test_rows_as_before(name):
    X, y = rows(600, 0)
    model = MODELS[name]().fit(X, y)
    before = forests(model)
    new, target = rows(500, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.update(new, target) is model
    assert not model.drift_["drifted"].any()
    assert list(model.drift_.index) == ["a", "b", "city", "target"]
    again, wanted = rows(800, 2)
    assert model.score(again, wanted) > MODELS[name]().fit(X, y).score(again, wanted) - 0.02
    if name == "trees":  # those of LightGBM go on
        assert any(begins_with(after, values) for after in forests(model) for values in before)


def forests(model):
    return [np.copy(forest.value) for piece in model.trained_.pieces for forest in getattr(piece, "forests", ())]


def begins_with(after, values):
    return len(after) > len(values) and np.array_equal(after[: len(values)], values)


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_moved(name):
    model = MODELS[name]().fit(*rows(600, 0))
    new, target = rows(900, 1, move=4.0)
    later, wanted = rows(500, 2, move=4.0)
    former = model.score(later, wanted)
    words = "'a' drifted, and the target drifted. .* on new rows: .* before, .* after. drift_ has each column"
    with pytest.warns(UserWarning, match=words):
        model.update(new, target)
    drift = model.drift_
    assert drift["drifted"].tolist() == [True, False, False, True]
    assert drift.loc["a", "shift"] == pytest.approx(4.0, abs=0.3)
    assert drift.loc["a", "outside"] > 0.5
    assert model.score(later, wanted) > max(former + 0.3, 0.6)


def test_classes_and_new_categories():
    X, y = rows(600, 0)
    model = kw.TabularClassifier(effort="fast", random_state=0, device="cpu").fit(X, y > 1.0)
    new, target = rows(400, 1)
    with pytest.warns(UserWarning, match="'city' drifted, and the target did not. log loss on new rows"):
        model.update(new.assign(city=new["city"].replace("Lima", "Quito")), target > 1.0)
    assert model.drift_.loc["city", "outside"] == pytest.approx(0.2, abs=0.06)
    later, wanted = rows(400, 2)
    assert model.score(later, wanted > 1.0) > 0.85
    with pytest.raises(ValueError, match="have classes of y"):
        model.update(new, np.arange(400) % 3)


def test_what_is_worse_is_not_kept(monkeypatch):
    X, y = rows(300, 0)
    model = kw.TabularRegressor("BS-Q@7", **SMALL).fit(X, y)
    before = model.predict(X)
    monkeypatch.setattr(_updates, "_score", lambda model, data: 0.0)  # no error is smaller
    model.update(*rows(60, 1))
    np.testing.assert_array_equal(model.predict(X), before)
    assert list(model.drift_.index) == ["a", "b", "city", "target"]


def test_what_an_update_needs(tmp_path):
    X, y = rows(100, 0)
    model = kw.TabularRegressor("Std", training=kw.TrainingConfig(max_epochs=1), random_state=0, device="cpu")
    with pytest.raises(ValueError, match="not fitted"):
        model.update(X, y)
    model.fit(X, y)
    with pytest.raises(AttributeError, match="update was not called"):
        _ = model.drift_
    with pytest.raises(ValueError, match="have at least 30 new rows"):
        model.update(X[:5], y[:5])
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="have been fitted in this process"):
        kw.load(tmp_path / "model", device="cpu").update(X, y)
