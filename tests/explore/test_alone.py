"""Scores of columns alone are those of scikit-learn, and of gaps and levels the page knows what a reader expects."""

import base64
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import knotwork as kw
from knotwork._explore._alone import area_under_curve, r_squared
from knotwork._explore._prepare import BinnedColumn, LevelColumn, PageRule, prepare

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 40, 240) / 4  # fewer than 255 values, which all training rows have: groups are exact
Y = np.sin(X) + 0.3 * RANDOM.normal(size=240)


def test_scores_are_those_of_scikit_learn():
    column = BinnedColumn.from_values(X, 160)
    rows = kw.make_encoder("BS-Q", size=15, dtype=np.float64).fit(X[:160, None]).transform(X[:, None])
    lines = StandardScaler().fit(X[:160, None]).transform(X[:, None].clip(X[:160].min(), X[:160].max()))
    for design, encoded in ((column.design(), rows), (column.line(), lines)):
        expected = r2_score(Y[160:], Ridge(alpha=1.0).fit(encoded[:160], Y[:160]).predict(encoded[160:]))
        assert r_squared(design, column.places, 160, Y[:, None]) == pytest.approx(expected, abs=1e-6)
        model = LogisticRegression(C=1.0, tol=1e-10, solver="newton-cholesky").fit(encoded[:160], Y[:160] > 0)
        area = roc_auc_score(Y[160:] > 0, model.decision_function(encoded[160:]))
        assert area_under_curve(design, column.places, 160, Y > 0) == pytest.approx(area, abs=2e-3)


def test_scores_without_variance_are_not_defined():
    column = BinnedColumn.from_values(X, 160)
    assert r_squared(column.design(), column.places, 160, np.ones((240, 1))) is None
    assert area_under_curve(column.design(), column.places, 160, np.arange(240) < 160) is None


def test_no_curve_is_drawn_where_there_are_no_rows():
    def gaps(values):
        return BinnedColumn.from_values(np.asarray(values, dtype=float), len(values)).gaps()

    assert gaps([0.0, 1.0, 2.0, 3.0, 50.0]) == [[3 / 50, 1.0]]
    assert gaps(np.arange(5.0)) == []  # values at equal distances
    assert gaps(np.r_[np.linspace(0, 1, 99), np.linspace(9, 10, 99)]) == [[pytest.approx(0.1), pytest.approx(0.9)]]
    assert gaps([7.0, 7.0]) == []


def test_categories_are_sorted_by_their_rows_and_the_rest_is_one_level():
    codes = np.repeat(np.arange(41), np.r_[3, np.arange(40, 0, -1)])
    column = LevelColumn.from_codes(codes, [f"town {code}" for code in range(1, 41)], len(codes))
    most = PageRule().levels
    assert column.labels == (*(f"town {code}" for code in range(1, most + 1)), "10 others", "missing")
    assert column.counts.tolist() == [*range(40, 10, -1), sum(range(1, 11)), 3]


def test_two_values_and_truth_values_are_levels_without_gain():
    flags = RANDOM.choice([True, False], 240)
    words, two = np.where(flags, "yes", "no"), np.where(flags, 3.5, np.nan)
    two[::2] = 1.0
    page = prepare(pd.DataFrame({"x": X, "flag": flags, "word": words, "two": two}), Y + flags)
    labels = {column["name"]: column["levels"]["labels"] for column in page["columns"] if "levels" in column}
    assert labels == {"flag": ("false", "true"), "word": ("false", "true"), "two": ("1", "3.5", "missing")}
    for column in page["columns"]:
        fit, line = column["alone"]
        assert (fit == line) == ("levels" in column)
    assert page["columns"][page["first"]]["name"] == "x"
    assert re.fullmatch(r"x: R² \S+ as a line, 0\.\d\d as 15 B-splines", page["finding"])


def test_the_page_opens_on_the_largest_gain_and_not_on_the_largest_share():
    line = RANDOM.normal(size=3000)
    wave = RANDOM.uniform(0, 12, 3000)
    y = 3 * line + np.sin(wave) + 0.1 * RANDOM.normal(size=3000)
    page = prepare(pd.DataFrame({"line": line, "wave": wave}), y)
    assert [column["name"] for column in page["columns"]] == ["line", "wave"]
    assert page["first"] == 1
    alone = prepare(pd.DataFrame({"line": line, "noise": RANDOM.normal(size=3000)}), line)
    assert (alone["first"], alone["columns"][0]["name"]) == (0, "line")


def test_the_numbers_of_a_date_know_their_date():
    days = pd.Timestamp("2016-07-01") + pd.to_timedelta(RANDOM.integers(0, 500, 300), unit="D")
    page = prepare(pd.DataFrame({"sold": days}), np.sin(days.day_of_year / 58))
    elapsed = next(column for column in page["columns"] if column.get("isDate"))
    assert (elapsed["owner"], elapsed["title"], elapsed["name"]) == ("sold", "sold", "sold (elapsed days)")
    assert {column["owner"] for column in page["columns"]} == {"sold"}
    assert len({column["part"] for column in page["columns"]}) == len(page["columns"])
    month = next(column for column in page["columns"] if column["name"] == "sold (month, sine)")
    assert len(np.frombuffer(base64.b64decode(month["centres"]))) == 7  # equal sines are equal
