"""Data sets check their columns; incomplete rows are removed, and rows are drawn."""

import numpy as np
import pandas as pd
import pytest

from knotwork.datasets import Dataset
from knotwork.datasets._table import complete_rows, draw_rows
from knotwork.errors import ArgumentError, ColumnError, ColumnTypeError

FRAME = pd.DataFrame({"x": [1, 2], "flag": [True, False], "n": pd.array([1, None], dtype="Int64"),
                      "town": ["Ulm", "Bonn"], "y": [0.5, 1.5]})  # fmt: skip


def make(frame=FRAME, **changes):
    options = {"target": "y", "task": "regression", "numerical": ("x", "flag", "n"), "categorical": ("town",)}
    return Dataset("flats", frame, sha256="", **{**options, **changes})


def test_arrays():
    data = make()
    assert data.n_rows == 2
    np.testing.assert_array_equal(data.numbers(), [[1.0, 1.0, 1.0], [2.0, 0.0, np.nan]])
    assert data.numbers().dtype == np.float64
    assert list(data.features.columns) == ["x", "flag", "n", "town"]
    assert data.target_values().tolist() == [0.5, 1.5]
    labels = make(target="town", task="classification", categorical=())
    assert labels.target_values().tolist() == ["Ulm", "Bonn"]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"task": "ranking"}, ArgumentError, "task must be one of"),
        ({"numerical": ("x", "z")}, ColumnError, "no column 'z'"),
        ({"numerical": ("x", "y")}, ArgumentError, "distinct"),
        ({"numerical": (), "categorical": ()}, ArgumentError, "at least one"),
        ({"numerical": ("x", "town"), "categorical": ()}, ColumnTypeError, "column 'town' must hold numbers"),
        ({"target": "town", "categorical": ()}, ColumnTypeError, "task='classification'"),
        ({"frame": FRAME.iloc[:0]}, ColumnError, "no rows"),
        ({"frame": FRAME.assign(y=[1.0, None])}, ColumnError, "target 'y' has missing"),
        ({"frame": FRAME.assign(x=[1.0, np.inf])}, ColumnError, "column 'x' contains infinity in 1 rows"),
    ],
)
def test_a_wrong_table_is_explained(changes, error, words):
    with pytest.raises(error, match=words):
        make(**changes)


def test_rows_with_missing_values_are_removed_and_counted():
    frame = pd.DataFrame({"x": [1.0, None, 3.0], "t": ["a", "b", None], "unused": [None, 1.0, 1.0]})
    kept, note = complete_rows(frame, ["x", "t"])
    assert kept["x"].tolist() == [1.0]
    assert note == "2 of 3 rows removed: values are missing"
    assert complete_rows(kept, ["x"]) == (kept, "")


def test_a_table_without_a_complete_row_names_the_worst_column():
    frame = pd.DataFrame({"x": [1.0, None, None], "t": [None, "b", "c"]})
    with pytest.raises(ColumnError, match="column 'x' has the most"):
        complete_rows(frame, ["x", "t"])


def test_a_draw_is_distinct_sorted_and_repeatable():
    rows = draw_rows(1000, 100)
    assert len(set(rows.tolist())) == 100
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, draw_rows(1000, 100))
    assert not np.array_equal(rows, draw_rows(1000, 100, seed=1))
    assert abs(rows.mean() - 499.5) < 5 * 1000 / np.sqrt(12 * 100)
    np.testing.assert_array_equal(draw_rows(5, 5), np.arange(5))


def test_class_shares_are_kept_to_one_row():
    labels = np.repeat(["a", "b", "c", "d"], [700, 200, 95, 5])
    drawn = labels[draw_rows(1000, 310, labels=labels)]
    counts = {name: int((drawn == name).sum()) for name in "abcd"}
    assert counts == {"a": 217, "b": 62, "c": 29, "d": 2}  # shares 217, 62, 29.45 and 1.55


def test_drawing_more_rows_than_available_raises_an_error():
    with pytest.raises(ArgumentError, match="at most the 3 rows"):
        draw_rows(3, 4)
