"""Models in SQL predict what they predict in Python, in SQLite."""

import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import knotwork
from knotwork import AdditiveClassifier, AdditiveRegressor
from knotwork._trees import ForestPiece
from knotwork.errors import ArgumentError
from tests.estimators.saved_cases import CODED, fitted, table, target, uneven_weights
from tests.light.cases import HOSTILE
from tests.light.test_additive import CASES, made

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")


def in_sqlite(path, X):
    """Return the result of a query for the rows of a frame."""
    with sqlite3.connect(":memory:") as connection:
        for name, function in (("exp", np.exp), ("ln", np.log)):  # some builds of SQLite have none
            connection.create_function(name, 1, lambda x, function=function: float(function(x)))
        X.to_sql("data", connection, index=False)
        return pd.read_sql_query(path.read_text(), connection)


def assert_same(model, X, path, near=1e-9):
    model.export(path)
    given = in_sqlite(path, X)
    if hasattr(model, "predict_proba"):
        wanted = model.predict_proba(X)
        np.testing.assert_allclose(given.iloc[:, 1:].to_numpy(float), wanted, rtol=0, atol=1e-9)
        sure = wanted.max(axis=1) > 0.5 + 1e-6
        assert given["prediction"][sure].tolist() == model.predict(X)[sure].tolist()
    else:
        wanted = model.predict(X).reshape(len(X), -1)
        np.testing.assert_allclose(given.to_numpy(float), wanted, rtol=near, atol=near * np.std(wanted))


@pytest.mark.parametrize("name", CASES)
def test_additive_models(tmp_path, name):
    model, rows, _ = made(name)
    rows = rows[np.isfinite(rows["income"]) | rows["income"].isna()]  # SQLite has no infinite numbers in its text
    assert_same(model, rows, tmp_path / "model.sql")


@pytest.mark.parametrize(("kind", "settings"), [("number", {}), ("text", {}), ("number", {"objective": "poisson"})])
def test_boosted_trees(tmp_path, monkeypatch, kind, settings):
    """Of a model of all kinds two members of trees are kept, one of each kind."""
    monkeypatch.setattr("knotwork.estimators._combination.bagged_weights", uneven_weights)
    X, y = table(), target(table(), kind)
    y = np.abs(y) + 1.0 if settings else y
    estimator = knotwork.TabularRegressor if kind == "number" else knotwork.TabularClassifier
    model = estimator(effort="fast", columns=CODED, device="cpu", random_state=0, **settings).fit(X, y)
    trained = model.trained_
    places = [place for piece in trained.pieces if isinstance(piece, ForestPiece) for place in piece.places]
    model._model = replace(model._model, trained=trained.take([places[0], places[-1]]), weights=np.array([0.25, 0.75]))
    rows = table(150, seed=4)
    rows.loc[:5, "town"], rows.loc[3:9, "income"], rows.loc[:5, "code"] = "Rome", np.nan, 77
    assert_same(model, rows, tmp_path / "model.sql")


def test_hostile_names(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.normal(size=200) for name in HOSTILE[:3]})
    X[HOSTILE[3]] = rng.choice(HOSTILE, 200)
    y = X[HOSTILE[0]] + (X[HOSTILE[3]] == HOSTILE[2])
    assert_same(AdditiveRegressor().fit(X, y), X, tmp_path / "model.sql")
    labels = np.where(y > 0, HOSTILE[2], HOSTILE[0])
    assert_same(AdditiveClassifier().fit(X, labels), X, tmp_path / "model.sql")


def test_networks_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"networks have \.c, \.js and \.onnx"):
        fitted().export(tmp_path / "model.sql")
    with pytest.raises(ArgumentError, match="path must end in one of"):
        fitted().export(tmp_path / "model.txt")
    assert not list(tmp_path.iterdir())
