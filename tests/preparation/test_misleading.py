"""Rows that a random division would mislead on are said, with the line to type; ordinary tables are silent."""

import json

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork._preparation.columns import Columns
from knotwork._preparation.misleading import misleading_split, unsorted_time
from knotwork._preparation.targets import Labels, check_target
from knotwork.training import TrainingTable
from tests.conftest import DATA

RANDOM = np.random.default_rng(0)
SETTINGS = {"encoding": "Std", "training": kw.TrainingConfig(max_epochs=1), "random_state": 0, "device": "cpu"}


def storms():
    """Rows are steps of tracks: each storm has a strength of its own, and a path by which it is known."""
    storm = np.repeat(np.arange(120), RANDOM.integers(10, 30, 120))
    step = np.concatenate([np.arange(count) for count in np.bincount(storm)])
    start = RANDOM.uniform(10, 40, (120, 2))
    strength = RANDOM.normal(size=120)
    X = pd.DataFrame({"storm": storm, "lat": start[storm, 0] + 0.3 * step, "lon": start[storm, 1] - 0.2 * step})
    return X, 50 + 10 * strength[storm] + 0.5 * step + RANDOM.normal(size=len(storm))


def drifting(n=900, *, drift=6.0):
    x = RANDOM.normal(size=n)
    X = pd.DataFrame({"day": pd.date_range("2018-01-01", periods=n), "x": x, "z": RANDOM.normal(size=n)})
    return X, x + np.linspace(0, drift, n) + 0.5 * RANDOM.normal(size=n)


def copied():
    X = pd.DataFrame(RANDOM.normal(size=(400, 5)), columns=list("abcde"))
    rows = np.append(np.arange(400), RANDOM.integers(400, size=500))
    return X.iloc[rows].reset_index(drop=True), (X["a"] + 3 * RANDOM.normal(size=400)).to_numpy()[rows]


def judged(X, y, task="regression"):
    columns, table = Columns.learn(X)
    if task == "regression":
        return misleading_split(
            columns, TrainingTable(table.numbers, table.codes, check_target(y), task, columns.cardinalities)
        )
    labels, codes = Labels.from_values(np.asarray(y, dtype=object).astype(str))
    data = TrainingTable(table.numbers, table.codes, codes, task, columns.cardinalities, labels.n_classes)
    return misleading_split(columns, data)


TABLES = {
    "entity": (storms, "same value of column 'storm' predict each other: .* pass groups=X\\['storm'\\] to fit"),
    "time": (drifting, "The target drifts with time in column 'day': .* Pass validation=\"time\" if"),
    "copies": (copied, "Rows repeat each other: .*X.drop_duplicates"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_fit_says_it_once_and_divides_as_before(name):
    make, words = TABLES[name]
    X, y = make()
    with pytest.warns(UserWarning, match=words) as caught:
        kw.TabularRegressor(**SETTINGS).fit(X, y)
    assert sum("simple model" in str(each.message) for each in caught) == 1


@pytest.mark.parametrize("name", ["entity", "time"])
def test_who_has_divided_the_rows_hears_nothing(name):
    X, y = TABLES[name][0]()
    if name == "entity":
        kw.TabularRegressor(**SETTINGS).fit(X, y, groups=X["storm"])
    else:
        kw.TabularRegressor(**SETTINGS, validation="time").fit(X, y)


def test_the_line_to_type_sorts_rows_that_are_mixed():
    X, y = drifting()
    order = RANDOM.permutation(len(X))
    assert "Sort the rows by 'day' and pass validation=\"time\"" in judged(
        X.iloc[order].reset_index(drop=True), y[order]
    )


def test_classes_have_entities_too():
    X, y = storms()
    assert "'storm'" in judged(X, y > np.median(y), "classification")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ordinary_columns_are_no_entities(seed):
    """Whole numbers with a smooth effect, categories with one, and days without drift."""
    random = np.random.default_rng(seed)
    n = 1500
    X = pd.DataFrame(
        {
            "age": random.integers(18, 90, n),
            "size": random.integers(20, 300, n),
            "city": random.choice(list("abcdefgh"), n),
            "day": pd.date_range("2020-01-01", periods=n, freq="6h"),
            "noise": random.normal(size=n).round(1),
        }
    )
    y = np.sin(X["age"] / 15) + 0.01 * X["size"] + (X["city"] == "b") + 0.3 * random.normal(size=n)
    assert judged(X, y) == ""
    assert judged(X, random.normal(size=n)) == ""
    assert judged(X, np.full(n, 3.0)) == ""


def test_extreme_and_missing_numbers():
    X, y = storms()
    X["lat"] = np.where(RANDOM.uniform(size=len(X)) < 0.3, np.nan, X["lat"] * 1e305)
    assert "'storm'" in judged(X, y * 1e300)


def test_long_tables_are_judged_by_a_part_of_their_values():
    n_groups = 3000
    group = np.repeat(np.arange(n_groups), 20)[RANDOM.permutation(20 * n_groups)]
    X = pd.DataFrame({"who": group, "x": RANDOM.normal(size=len(group))})
    assert "groups=X['who']" in judged(X, RANDOM.normal(size=n_groups)[group] + 0.1 * X["x"])


def test_time_must_ascend_for_the_last_rows_to_be_later():
    X, y = drifting()
    order = RANDOM.permutation(len(X))
    with pytest.warns(UserWarning, match="but column 'day' does not ascend with them. Sort the rows by 'day'"):
        kw.TabularRegressor(**SETTINGS, validation="time").fit(X.iloc[order], y[order])
    columns, table = Columns.learn(X)
    assert unsorted_time(columns, TrainingTable(table.numbers, table.codes, y, "regression")) == ""


@pytest.mark.parametrize(
    "key",
    ["california", "diamonds", "house_sales", "sulfur", "protein", "adult", "churn", "eeg", "gamma", "wine_quality"],
)
@pytest.mark.skipif(not (DATA / "datasets.json").exists(), reason="the real tables are missing")
def test_ten_real_tables_are_silent(key):
    spec = next(each for each in json.loads((DATA / "datasets.json").read_text()) if each["key"] == key)
    frame = pd.read_parquet(DATA / f"{key}.parquet")[:6000]
    assert judged(frame[spec["numerical"] + spec["categorical"]], frame[spec["target"]], spec["task"]) == ""
