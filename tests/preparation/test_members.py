"""Encodings of the columns of a table: a column is sorted once, and no more is computed than the encodings need."""

import time

import numpy as np
import pytest

from knotwork._preparation import members
from knotwork._preparation.cells import Cells
from knotwork._preparation.members import _usual_forms, fit_encodings
from knotwork.encoders import Encoding
from knotwork.knots import Column

RANDOM = np.random.default_rng(0)
COLUMNS = {
    "usual": RANDOM.normal(size=500),
    "outlier": np.append(RANDOM.normal(size=499), 1e12),
    "missing": np.where(RANDOM.random(500) < 0.2, np.nan, RANDOM.normal(size=500)),
    "ties": RANDOM.integers(0, 5, size=500).astype(float),
    "nothing": np.full(500, np.nan),
}
WEIGHTS = {"none": None, "some": RANDOM.integers(0, 3, size=500).astype(float)}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", COLUMNS)
def test_forms_without_rows_have_the_same_values(name, weights):
    forms = [_usual_forms(COLUMNS[name], WEIGHTS[weights], with_rows=flag) for flag in (True, False)]
    for with_rows, without in zip(*forms, strict=True):
        np.testing.assert_array_equal(without.distinct, with_rows.distinct)
        np.testing.assert_array_equal(without.weights, with_rows.weights)


def test_a_column_without_outliers_is_sorted_once(monkeypatch):
    random = np.random.default_rng(1)
    calls = []
    sort = Column.from_values.__func__
    monkeypatch.setattr(
        Column, "from_values", classmethod(lambda cls, *args, **about: calls.append(about) or sort(cls, *args, **about))
    )
    target = random.normal(size=500)
    for name, method, n_sorts, with_rows in (
        ("usual", "BS-Q", 1, False), ("usual", "BS-CART", 1, True), ("outlier", "BS-Q", 2, False)
    ):  # fmt: skip
        calls.clear()
        encoding = Encoding(method, 7)
        fit_encodings([[encoding]], COLUMNS[name][:, None], target, task="regression")
        assert [about["with_rows"] for about in calls[:n_sorts]] == [with_rows] * n_sorts
        assert len(calls) == n_sorts


def test_columns_side_by_side_are_fitted_as_one_after_the_other(monkeypatch):
    random = np.random.default_rng(1)
    numbers, target = np.column_stack(list(COLUMNS.values())), random.normal(size=500)
    candidates = [[Encoding(method, 7)] * numbers.shape[1] for method in ("BS-Q", "PLE-Q")]
    results = []
    for large, n_threads in ((members.THREADS.large, 1), (0, 3)):
        monkeypatch.setattr(members, "THREADS", members.ThreadRule(large=large))
        monkeypatch.setattr(members, "usable_cores", lambda most, n_threads=n_threads: n_threads)
        results.append(fit_encodings(candidates, numbers, target, task="regression"))
    for alone, beside in zip(*results, strict=True):
        for one, other in zip(alone.encodings, beside.encodings, strict=True):
            np.testing.assert_array_equal(*(block.encode(COLUMNS["usual"], "clip") for block in (one, other)))


def test_an_error_does_not_wait_for_other_columns(monkeypatch):
    random = np.random.default_rng(1)
    begun = []

    def fail(forms, encodings, goal, *, seed):
        begun.append(seed)
        time.sleep(0.1)
        return dict.fromkeys(encodings, ValueError("of a column"))

    monkeypatch.setattr(members, "THREADS", members.ThreadRule(large=0))
    monkeypatch.setattr(members, "usable_cores", lambda most: 2)
    monkeypatch.setattr(members, "_fit_forms", fail)
    numbers, target = random.normal(size=(50, 100)), random.normal(size=50)
    with pytest.raises(ValueError, match="of a column"):
        fit_encodings([[Encoding("BS-Q", 7)] * 100], numbers, target, task="regression")
    assert len(begun) < 100, "all others would begin in the 5 seconds that two threads take for them"


@pytest.mark.parametrize(("where", "expected"), [([0, 1, 2], [10, 20, 30]), ([2, 0, 1], [30, 10, 20])])
def test_numbers_are_in_the_order_of_the_rows(where, expected):
    cells = Cells("number", np.array([10, 20, 30]), np.array(where), is_categorical=True)
    np.testing.assert_array_equal(cells.numbers("column 'a'"), expected)
