"""Edited curves: predicted exactly, saved and plotted as others are, and refused if anything in them is unknown."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline, make_interp_spline
from scipy.special import expit
from sklearn.metrics import log_loss, r2_score

import knotwork as kw
from knotwork.additive._terms import Curve

RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"a": RANDOM.normal(size=300), "b": RANDOM.choice(["x", "y", "z"], 300), "c": RANDOM.normal(size=300)})
X.loc[::5, "c"] = np.nan
Y = X["a"] ** 2 + (X["b"] == "x") + X["c"].fillna(2.0) + 0.1 * RANDOM.normal(size=300)
MODEL = kw.AdditiveRegressor(pairs=[("b", "c")], size=12).fit(X[:200], Y[:200])
GRID = np.linspace(-3.0, 3.0, 61)


def edits(*curves):
    return {"format": "knotwork edits 1", "curves": list(curves)}


def curve_of(model, name):
    return next(term for term in model.terms_ if term.name == name)


def rows_with(**values):
    """Return one row for each value, equal in all other columns."""
    (length,) = {len(each) for each in values.values()}
    return pd.DataFrame({name: values.get(name, [X[name].iloc[1]] * length) for name in X})


def shift(model, before, table):
    """Return what an edit adds to each prediction."""
    return model.predict(table) - before.predict(table)


def test_points_are_joined_by_straight_lines():
    points = [[-2.0, 1.5], [0.0, -0.5], [0.25, 3.0], [2.0, 0.0]]
    edited = MODEL.with_edits(edits({"column": "a", "points": points}))
    table = rows_with(a=GRID)
    contributions = edited.contributions(table)
    expected = np.interp(GRID, *np.transpose(points))
    np.testing.assert_allclose(contributions.values[:, contributions.names.index("a")], expected, atol=1e-12)
    others = MODEL.contributions(table).values.sum(axis=1) - MODEL.contributions(table).values[:, 0]
    np.testing.assert_allclose(edited.predict(table), MODEL.intercept_ + others + expected, atol=1e-12)


def test_coefficients_are_those_of_scipys_splines():
    curve = curve_of(MODEL, "a")
    low, high = curve.basis.domain
    coefficients = RANDOM.normal(size=curve.basis.size)
    edited = MODEL.with_edits(edits({"column": "a", "coefficients": coefficients.tolist()}))
    knots = np.concatenate([[low] * 4, curve.basis.knots, [high] * 4])
    inside = np.linspace(low, high, 50)
    (effect,) = edited.effects(["a"])
    np.testing.assert_allclose(effect.effect, BSpline(knots, coefficients, 3)(effect.values), atol=1e-10)
    table = rows_with(a=inside)
    before = MODEL.contributions(table).values[:, 0]
    np.testing.assert_allclose(
        shift(edited, MODEL, table) + before, BSpline(knots, coefficients, 3)(inside), atol=1e-10
    )


@pytest.mark.parametrize("name", ["a", "c"])
def test_further_knots_do_not_change_a_curve(name):
    """Splines with more knots contain the curve: with its own coefficients there, nothing changes; others are local."""
    curve = curve_of(MODEL, name)
    low, high = curve.basis.domain
    knots, degree = np.union1d(curve.basis.knots, np.linspace(low, high, 40)[1:-1]), curve.basis.degree
    t = np.r_[[low] * (degree + 1), knots, [high] * (degree + 1)]
    (before,) = MODEL.effects([name])
    refined = make_interp_spline(*old_curve(name, t[1:-1], degree), k=degree, t=t)
    edit = {"column": name, "knots": knots.tolist(), "coefficients": refined.c.tolist()}
    same = MODEL.with_edits(edits(edit))
    np.testing.assert_allclose(same.predict(X), MODEL.predict(X), atol=1e-9)
    np.testing.assert_allclose(same.predict_interval(X), MODEL.predict_interval(X), atol=1e-6)
    changed = refined.c.copy()
    changed[20] += 1.0
    (after,) = MODEL.with_edits(edits(edit | {"coefficients": changed.tolist()})).effects([name])
    np.testing.assert_allclose(after.effect[1:], BSpline(t, changed, degree)(after.values[1:]), atol=1e-9)
    assert len(after.values) > len(before.values)


def old_curve(name, knots, degree):
    """Return places at which splines of these knots are determined, and the effects of the curve there."""
    places = np.lib.stride_tricks.sliding_window_view(knots, degree).mean(axis=1).clip(knots[0], knots[-1])
    parts = MODEL.contributions(rows_with(**{name: places}))
    return places, parts.values[:, parts.names.index(name)]


def test_the_model_itself_and_other_curves_remain():
    before = MODEL.predict(X)
    edited = MODEL.with_edits(edits({"column": "a", "points": [[0.0, 1.0], [1.0, 1.0]]}))
    np.testing.assert_array_equal(MODEL.predict(X), before)
    for mine, other in zip(MODEL.effects(), edited.effects(), strict=True):
        if mine.name != "a":
            np.testing.assert_allclose(other.effect, mine.effect, atol=1e-12)
            np.testing.assert_allclose(other.high, mine.high, atol=1e-9)
    nothing = MODEL.with_edits(edits())
    np.testing.assert_array_equal(nothing.predict(X), before)


def test_an_interval_moves_with_its_curve():
    curve, (before,) = curve_of(MODEL, "c"), MODEL.effects(["c"])
    coefficients = np.full(curve.basis.size, 7.0)
    (after,) = MODEL.with_edits(edits({"column": "c", "coefficients": coefficients.tolist()})).effects(["c"])
    np.testing.assert_allclose(after.effect[1:], 7.0)
    np.testing.assert_allclose(after.high - after.low, before.high - before.low, atol=1e-9)
    assert after.effect[0] == pytest.approx(before.effect[0])  # that of missing values


def test_the_effect_of_missing_values():
    for name in ("a", "c"):  # the training rows have all values of a
        edited = MODEL.with_edits(edits({"column": name, "missing": 1.25}))
        parts = edited.contributions(rows_with(**{name: np.array([np.nan, 0.3])}))
        assert parts.values[0, parts.names.index(name)] == pytest.approx(1.25)
        table = rows_with(**{name: np.array([0.3])})
        np.testing.assert_allclose(edited.predict(table), MODEL.predict(table), atol=1e-12)


def test_edited_models_are_saved_and_edited_again(tmp_path):
    first = MODEL.with_edits(edits({"column": "a", "points": [[-1.0, 0.0], [1.0, 2.0]], "missing": 0.5}))
    coefficients = np.arange(curve_of(MODEL, "c").basis.size) / 10
    second = first.with_edits(edits({"column": "c", "coefficients": coefficients.tolist()}))
    second.save(tmp_path / "model.knotwork")
    for loaded in (kw.load(tmp_path / "model.knotwork"), pickle.loads(pickle.dumps(second))):
        np.testing.assert_array_equal(loaded.predict(X), second.predict(X))
        np.testing.assert_array_equal(loaded.predict_interval(X), second.predict_interval(X))
        for mine, other in zip(second.effects(), loaded.effects(), strict=True):
            np.testing.assert_array_equal(mine.low, other.low)
    pytest.importorskip("matplotlib")
    assert len(second.plot_effects().axes) >= 4


def test_scores_before_and_after_are_those_of_scikit_learn():
    held = slice(200, None)
    edited = MODEL.with_edits(edits({"column": "a", "points": [[-1.0, 0.0], [1.0, 0.0]]}), X[held], Y[held])
    scores = edited.edit_scores_
    assert scores.before == pytest.approx(r2_score(Y[held], MODEL.predict(X[held])))
    assert scores.after == pytest.approx(r2_score(Y[held], edited.predict(X[held])))
    assert scores.after < scores.before - 0.1
    assert str(scores).endswith("after the edits, on 100 rows")
    assert MODEL.with_edits(edits()).edit_scores_ is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes):
    labels = np.array(["low", "middle", "top"])[np.digitize(Y, [0.5, 2.0] if n_classes == 3 else [1.0])]
    model = kw.AdditiveClassifier(size=10).fit(X, labels)
    size = curve_of(model, "a").basis.size
    edit = {"column": "a", "coefficients": [0.5] * size} | ({"class": "top"} if n_classes == 3 else {})
    edited = model.with_edits(edits(edit), X, labels)
    assert edited.edit_scores_.after == pytest.approx(log_loss(labels, edited.predict_proba(X)))
    (effect,) = edited.effects(["a"])
    if n_classes == 2:
        np.testing.assert_allclose(effect.effect, 0.5)
        np.testing.assert_allclose(edited.predict_proba(X)[:, 1], expit(edited.decision_function(X)))
    else:
        np.testing.assert_allclose(effect.effect[:, 2], 0.5)
        np.testing.assert_allclose(effect.effect[:, :2], model.effects(["a"])[0].effect[:, :2])


def test_a_file_of_edits(tmp_path):
    curve = {"column": "a", "points": [[0, 0], [1, 1]]}
    (tmp_path / "edits.json").write_text(json.dumps(edits(curve)))
    mine = MODEL.with_edits(tmp_path / "edits.json")
    np.testing.assert_array_equal(mine.predict(X), MODEL.with_edits(edits(curve)).predict(X))
    (tmp_path / "edits.json").write_text("{")
    for path, words in ((tmp_path / "none.json", "exists"), (tmp_path / "edits.json", "damaged")):
        with pytest.raises(ValueError, match=words):
            MODEL.with_edits(str(path))


SIZE = curve_of(MODEL, "a").basis.size
POINTS = [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "knotwork edits 1"),
        ([], "be a mapping"),
        (edits() | {"curve": []}, "Did you mean 'curves'"),
        (edits() | {"curves": {}}, "be a list"),
        (edits({"column": "a", "point": POINTS}), "Did you mean 'points'"),
        (edits({"column": "d", "points": POINTS}), "name a curve of the model"),
        (edits({"column": "b", "points": POINTS}), "curves of numbers"),
        (edits({"column": ["a"], "points": POINTS}), "name a curve"),
        (edits({"column": "a"}), "'coefficients', also with"),
        (edits({"column": "a", "points": POINTS, "coefficients": [0.0] * SIZE}), "'coefficients', also with"),
        (edits({"column": "a", "coefficients": [0.0] * (SIZE - 1)}), f"be {SIZE} finite numbers"),
        (edits({"column": "a", "coefficients": ["0"] * SIZE}), "finite numbers"),
        (edits({"column": "a", "coefficients": [np.nan] * SIZE}), "finite numbers"),
        (edits({"column": "a", "points": [[0.0, 1.0]]}), "at least two"),
        (edits({"column": "a", "knots": [0.0]}), "also with 'knots'"),
        (edits({"column": "a", "knots": [0.0], "coefficients": [0.0] * 5}), "contain the knots of the curve"),
        (edits({"column": "a", "points": [[1.0, 0.0], [1.0, 1.0]]}), "increasing"),
        (edits({"column": "a", "points": [[0.0], [1.0, 1.0]]}), "finite numbers"),
        (edits({"column": "a", "missing": True}), "a finite number"),
        (edits({"column": "a", "missing": 1.0, "class": "x"}), "be left out"),
        (edits({"column": "a", "missing": 1.0}, {"column": "a", "points": POINTS}), "one edit for each curve"),
    ],
)
def test_what_is_unknown_or_odd_is_refused(wrong, words):
    with pytest.raises((ValueError, TypeError), match=words):
        MODEL.with_edits(wrong)


def test_classes_are_checked():
    labels = np.digitize(Y, [0.5, 2.0])
    model = kw.AdditiveClassifier(size=6).fit(X, labels)
    for edit, words in [
        ({"column": "a", "missing": 1.0}, "be a class"),
        ({"column": "a", "missing": 1.0, "class": "3"}, "be a class"),
        ({"column": "a", "points": POINTS, "class": "1"}, "more than two classes"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.with_edits(edits(edit))
    with pytest.raises(ValueError, match="be given together"):
        model.with_edits(edits(), X)
    assert isinstance(curve_of(model, "a"), Curve)
