"""A data set checks itself and gives arrays."""

import numpy as np
import pandas as pd
import pytest

from knotwork.datasets import Dataset
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
