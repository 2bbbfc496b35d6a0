"""What a page is given: knots as the encoders place them, paths of learned knots, reasons for what is missing."""

import base64
import json
import sys

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork._explore import _prepare, explore_table
from knotwork._explore._prepare import draw_split, prepare
from knotwork.errors import ArgumentError, ColumnError
from tests.explore.cases import difficult_table, easy_table


def decoded(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def column_of(page, name):
    return next(column for column in page["columns"] if column["name"] == name)


def knots_of(column, placement, count):
    entry = column["knots"][placement]
    place = entry["counts"].index(count)
    start = sum(entry["counts"][:place])
    low, high = column["domain"]
    return low + (high - low) * decoded(entry["values"], np.float64)[start : start + count]


@pytest.fixture(scope="module")
def table():
    return easy_table()


@pytest.fixture(scope="module")
def page(table):
    return prepare(*table)


@pytest.mark.parametrize("method", ["BS-U", "BS-Q", "BS-CART", "BS-LGBM", "PLE"])
@pytest.mark.parametrize("size", [7, 15, 30])
def test_knots_are_those_of_the_encoder(table, page, method, size):
    training, _ = draw_split(len(table[1]), 0)
    encoder = kw.make_encoder(method, size=size).fit(table[0][["wave"]].iloc[training], table[1].iloc[training])
    column = column_of(page, "wave")
    if method == "PLE":
        place = (7, 15, 30).index(size)
        entry = column["knots"]["ple/cart"]
        start = sum(entry["counts"][:place])
        low, high = column["domain"]
        shares = decoded(entry["values"], np.float64)[start : start + entry["counts"][place]]
        knots = low + (high - low) * shares
    else:
        knots = knots_of(column, encoder.placement, size - 4)
    np.testing.assert_allclose(knots, encoder.knots_[0], rtol=1e-9)


def test_columns_come_by_what_they_explain(page):
    assert [column["name"] for column in page["columns"]][:2] == ["wave", "slope"]
    assert {column["name"] for column in page["columns"][2:]} == {"noise", "town"}
    assert column_of(page, "town")["levels"]["count"] == 2
    assert page["others"] == []


def test_every_family_and_size_is_learned_if_time_allows(table, monkeypatch):
    monkeypatch.setattr(_prepare, "PAGE", _prepare.PageRule(learning_seconds=1e9))
    column = prepare(table[0][["wave"]], table[1])["columns"][0]
    families = ("bspline", "mspline", "ispline", "ple")
    assert set(column["paths"]) == {f"{family}@{size}" for family in families for size in (7, 15, 30)}
    path = column["paths"]["bspline@7"]
    steps = decoded(path["values"], np.uint16).reshape(-1, path["count"]) / 65535.0
    assert steps.shape == (16, 3)
    np.testing.assert_allclose(steps[0], [0.25, 0.5, 0.75], atol=1e-4)
    assert np.all(np.diff(steps, axis=1) > 0)


def test_without_torch_and_lightgbm_the_page_says_so(table, monkeypatch):
    find_spec = _prepare.find_spec
    monkeypatch.setattr(_prepare, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setattr("knotwork._checks.find_spec", lambda name: None if name == "lightgbm" else find_spec(name))
    page = prepare(*table)
    assert page["learning"]["reason"].endswith('pip install "knotwork[torch]"')
    (missing,) = [each for each in page["placements"] if each["unavailable"]]
    assert missing["name"] == "lgbm"
    assert "pip install" in missing["unavailable"]
    assert "lgbm" not in page["columns"][0]["knots"]
    assert page["columns"][0]["paths"] == {}


def test_a_sorted_table_has_the_knots_of_all_rows():
    X = pd.DataFrame({"day": np.arange(60_000) / 60_000 * 365.0})
    y = np.sin(X["day"] / 58.0)
    column = prepare(X, y)["columns"][0]
    for placement in ("uniform", "quantile"):
        encoder = kw.SplineEncoder(size=15, placement=placement).fit(X, y)
        # The standard error of a quantile of 5,000 rows of a uniform column is at most 0.7 % of the range.
        np.testing.assert_allclose(knots_of(column, placement, 11), encoder.knots_[0], atol=4 * 0.007 * 365)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_difficult_columns_are_prepared(task, monkeypatch):
    monkeypatch.setattr(_prepare, "PAGE", _prepare.PageRule(learning_seconds=0.05))
    X, y = difficult_table()
    page = prepare(X, y if task == "regression" else (y > 0).map({True: "yes", False: "no"}))
    assert {column["name"] for column in page["columns"]} == set(X) - {"empty"}
    json.dumps(page, allow_nan=False)
    for column in page["columns"]:
        for entry in column["knots"].values():
            start = 0
            for count in entry["counts"]:
                knots = decoded(entry["values"], np.float64)[start : start + count]
                assert np.all(np.diff(knots) >= 0), column["name"]
                start += count
    ignored = "identifiers, free text or constants, which are ignored"
    assert {"reason": ignored, "names": ["empty"]} in page["others"]


def test_many_columns_leave_the_least_important_out(monkeypatch):
    monkeypatch.setattr(_prepare, "PAGE", _prepare.PageRule(learning_seconds=0.0))
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 500))
    y = X[:, 77] + 0.1 * random.normal(size=300)
    page = prepare(X, y)
    assert page["columns"][0]["key"] == 77
    assert len(page["columns"]) == _prepare.PAGE.columns
    assert len(page["others"][0]["names"]) == 500 - _prepare.PAGE.columns
    assert [column["key"] for column in prepare(X, y, columns=[3])["columns"]] == [3]


def test_a_full_page_is_small_enough_to_send():
    random = np.random.default_rng(0)
    X = random.normal(size=(12_000, 45))
    assert len(kw.explore(X, X[:, 0]).html.encode()) < 1_500_000


@pytest.mark.parametrize(
    ("X", "y", "options", "words"),
    [
        (np.ones((2, 1)), [1.0, 2.0], {}, "at least 3"),
        (pd.DataFrame({"a": ["x", "y", "z"]}), [1.0, 2.0, 3.0], {}, "no numerical column"),
        (np.ones((3, 1)), [1.0, 2.0], {}, "as many values"),
        (np.ones((3, 1)), ["a", "a", "a"], {}, "same class"),
        (np.ones((3, 1)), [1.0, 2.0, 3.0], {"columns": ["age"]}, "name columns of X that a page can show"),
        (np.ones((3, 1)), [1.0, 2.0, 3.0], {"task": "ranking"}, "regression"),
        (np.full((3, 1), np.nan), [1.0, 2.0, 3.0], {}, "missing"),
    ],
)
def test_errors_say_what_to_do(X, y, options, words):
    with pytest.raises((ArgumentError, ColumnError), match=words):
        prepare(X, y, **options)


def test_a_file_may_have_missing_targets(tmp_path):
    X, y = easy_table(200)
    y[:5] = np.nan
    X.assign(height=y).to_csv(tmp_path / "hills.csv", index=False)
    page = explore_table(tmp_path / "hills.csv", "height", columns=["wave"], drop=["noise"])
    assert '"all": 195' in page.html
    assert "hills.csv" in page.html
    with pytest.raises(ArgumentError, match="Did you mean 'height'"):
        explore_table(tmp_path / "hills.csv", "heigt")


def test_save_and_notebook(tmp_path, table):
    explorer = kw.explore(table[0][["wave"]], table[1])
    path = explorer.save(tmp_path / "new" / "page.html")
    assert path.read_text() == explorer.html
    with pytest.raises(ArgumentError, match="be a file"):
        explorer.save(tmp_path)
    frame = explorer._repr_html_()
    assert frame.startswith("<iframe")
    assert "<script" not in frame
    assert "page of" in repr(explorer)
