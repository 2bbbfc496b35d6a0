"""What a target is taken for."""

import numpy as np
import pandas as pd
import pytest

from knotwork.errors import ArgumentError
from knotwork.knots import Target


@pytest.mark.parametrize(
    ("y", "task"),
    [
        ([0.5, 1.5, 2.5], "regression"),
        ([1.0, 2.0, 3.0], "regression"),
        ([0, 1, 1], "classification"),
        ([10, 20, 30], "classification"),
        (list(range(50)), "regression"),
        (["a", "b", "a"], "classification"),
        ([True, False, True], "classification"),
        (pd.Categorical(["x", "y", "x"]), "classification"),
        (pd.Series([1, 2, 3], dtype="Int64"), "classification"),
        (np.array([1, "a", 2], dtype=object), "classification"),
    ],
)
def test_task_is_inferred(y, task):
    assert Target.from_values(y).task == task


def test_task_can_be_given():
    np.testing.assert_array_equal(Target.from_values([1.5, 2.5, 1.5], "classification").values, [0, 1, 0])
    assert Target.from_values([1, 2, 3], "regression").values.dtype == np.float64


def test_regression_targets_are_scaled_without_overflow():
    values = Target.from_values(np.array([1e300, -1e300, 0.0, 5e299])).values
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(1.0)


@pytest.mark.parametrize("y", [[1.0, np.nan], [1.0, np.inf], np.array(["a", None], dtype=object), [None, 1.5]])
def test_missing_targets_are_refused(y):
    with pytest.raises(ArgumentError, match="y must hold no missing"):
        Target.from_values(y)


def test_labels_are_no_regression_target():
    with pytest.raises(ArgumentError, match="task='classification'"):
        Target.from_values(["a", "b"], "regression")
