"""Reading a user's table for a comparison: valid tables, and errors with the next step."""

import numpy as np
import pandas as pd
import pytest

from knotwork.compare._inputs import read_source
from tests.compare.cases import flats, write_flats


def write(tmp_path, **columns):
    path = tmp_path / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["flats.csv", "flats.parquet", "flats.arrow", "flats.feather"])
def test_files_of_every_kind(tmp_path, name):
    source = read_source(write_flats(tmp_path, name=name), "rent")
    assert source.task == "regression"
    assert "regression" in source.reason
    assert source.n_rows == 240
    np.testing.assert_allclose(source.target, flats()["rent"])
    assert "rent" not in source.features


def test_a_wrong_target_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="target must name a column of flats.csv, got target='rnet'.*'rent'"):
        read_source(write_flats(tmp_path), "rnet")


def test_a_target_with_one_value(tmp_path):
    path = write(tmp_path, x=np.arange(100), y=7)
    with pytest.raises(ValueError, match="'y' has the same value in all 100 rows, 7.*another --target"):
        read_source(path, "y")


def test_ten_rows_are_too_few(tmp_path):
    with pytest.raises(ValueError, match="has 10 rows, and a comparison needs at least 50.*TabularRegressor"):
        read_source(write_flats(tmp_path, n=10), "rent")


def test_rows_without_a_target_are_dropped_and_reported(tmp_path):
    target = np.arange(100) % 3 * 1.0
    target[:7] = np.nan
    source = read_source(write(tmp_path, x=np.arange(100), y=target), "y")
    assert source.n_rows == 93
    assert source.notes[0] == "7 of 100 rows are dropped: their target is missing."
    assert source.features["x"].tolist() == list(range(7, 100))
    assert source.task == "classification"  # whole numbers that missing ones had made floats
    assert source.classes == (0, 1, 2)


def test_too_few_rows_with_a_target(tmp_path):
    target = np.where(np.arange(100) < 60, np.nan, np.arange(100) / 7)
    with pytest.raises(ValueError, match="has 40 rows with a known target"):
        read_source(write(tmp_path, x=np.arange(100), y=target), "y")


@pytest.mark.parametrize(
    ("values", "task"),
    [(np.arange(100), "regression"), (np.arange(100) % 5, "classification"), (["a", "b"] * 50, "classification"),
     ([True, False] * 50, "classification"), (np.arange(100) / 3, "regression")],
)  # fmt: skip
def test_the_task_is_inferred_and_reported(tmp_path, values, task):
    source = read_source(write(tmp_path, x=np.arange(100), y=values), "y")
    assert source.task == task
    assert source.reason.startswith(f"Task: {task}, because the target has")


def test_the_task_of_the_user_is_kept(tmp_path):
    path = write(tmp_path, x=np.arange(100), y=np.arange(100) % 5)
    source = read_source(path, "y", task="regression")
    assert source.task == "regression"
    assert "as requested" in source.reason
    path = write(tmp_path, x=np.arange(100), y=np.arange(100) / 3)
    with pytest.raises(ValueError, match="task must be 'regression' for the target 'y'"):
        read_source(path, "y", task="classification")


def test_text_with_too_many_values_for_classes(tmp_path):
    path = write(tmp_path, x=np.arange(100), y=[f"name {i}" for i in range(100)])
    with pytest.raises(ValueError, match="100 different labels in 100 rows, too many"):
        read_source(path, "y")


def test_rare_classes_are_named(tmp_path):
    source = read_source(write(tmp_path, x=np.arange(100), y=["a"] * 50 + ["b"] * 48 + ["odd"] * 2), "y")
    assert "'odd'" in source.notes[0]


def test_columns_are_dropped_by_name(tmp_path):
    path = write_flats(tmp_path)
    assert "listing" not in read_source(path, "rent", drop=["listing"]).features
    with pytest.raises(ValueError, match="drop must name a column.*'listing'"):
        read_source(path, "rent", drop=["lisitng"])
    with pytest.raises(ValueError, match="drop must not name the target"):
        read_source(path, "rent", drop=["rent"])
    with pytest.raises(ValueError, match="no column except the target"):
        read_source(write(tmp_path, y=np.arange(60)), "y")


def test_rows_are_drawn_by_class_and_stay_in_step(tmp_path):
    source = read_source(write(tmp_path, x=np.arange(1000), y=np.arange(1000) % 4), "y")
    drawn = source.draw(100, seed=1)
    assert np.bincount(drawn.target).tolist() == [25] * 4
    assert (drawn.features["x"] % 4 == drawn.target).all()
    assert source.draw(2000, seed=1) is source
    assert source.draw(100, seed=2).features["x"].tolist() != drawn.features["x"].tolist()
