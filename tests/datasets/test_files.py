"""Users' files: formats, options, kinds of columns, and errors."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from knotwork.datasets import read_table
from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnError, ColumnTypeError

FRAME = pd.DataFrame({"area": [30.5, 60.0, np.nan, 80.0], "rooms": [1, 2, 2, 3], "new": [True, False, True, True],
                      "town": ["Ulm", "Bonn", "Ulm", "Köln"], "rent": [410.5, 700.0, 500.0, 950.0]})  # fmt: skip


def write(frame, path):
    writers = {".csv": frame.to_csv, ".parquet": frame.to_parquet}
    if path.suffix in writers:
        writers[path.suffix](path, index=False)
    else:
        frame.to_feather(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".arrow"])
def test_every_format_gives_the_same_data_set(tmp_path, suffix):
    path = write(FRAME, tmp_path / f"flats{suffix}")
    data = read_table(path, target="rent")
    assert (data.name, data.task, data.n_rows) == ("flats", "regression", 3)
    assert (data.numerical, data.categorical) == (("area", "rooms", "new"), ("town",))
    np.testing.assert_array_equal(data.numbers(), [[30.5, 1, 1], [60, 2, 0], [80, 3, 1]])
    assert data.frame["town"].tolist() == ["Ulm", "Bonn", "Köln"]
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert data.notes == ("1 of 4 rows removed: values are missing",)


def test_options_have_effects(tmp_path):
    path = write(FRAME, tmp_path / "flats.csv")
    assert read_table(path, target="rooms").task == "classification"
    assert read_table(path, target="rooms", task="regression").task == "regression"
    assert read_table(path, target="rent", categorical=["rooms"]).categorical == ("rooms", "town")
    kept = read_table(path, target="rent", drop_missing=False)
    assert kept.n_rows == 4
    assert np.isnan(kept.numbers()[2, 0])
    assert read_table(path, target="area", drop_missing=False).n_rows == 3


def test_classes_stay_classes_where_some_are_missing(tmp_path):
    path = write(FRAME.assign(sold=[0, 1, None, 1]), tmp_path / "flats.csv")
    assert read_table(path, target="sold").task == "classification"


def test_columns_of_every_kind(tmp_path):
    mixed = write(FRAME.assign(code=["1", "b", "3", "c"], nothing=[None] * 4), tmp_path / "mixed.csv")
    data = read_table(mixed, target="rent")
    assert "code" in data.categorical
    assert data.notes[0] == "column 'nothing' dropped: it has no values"
    dates = write(FRAME.assign(day=pd.Timestamp("2020-01-01")), tmp_path / "dates.parquet")
    with pytest.raises(ColumnTypeError, match="column 'day' is a date"):
        read_table(dates, target="rent")
    lists = write(FRAME.assign(parts=[[1], [2], [3], [4]]), tmp_path / "lists.parquet")
    with pytest.raises(ColumnTypeError, match="column 'parts' holds"):
        read_table(lists, target="rent")
    infinite = write(FRAME.assign(area=[1, np.inf, 2, 3]), tmp_path / "infinite.csv")
    with pytest.raises(ColumnError, match="column 'area' contains infinity"):
        read_table(infinite, target="rent")
    text = write(FRAME, tmp_path / "text.csv")
    with pytest.raises(ColumnTypeError, match="column 'town' must hold numbers"):
        read_table(text, target="town", task="regression")


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("flats.json", b"", ArgumentError, "path must end in one of '.csv', '.tsv'.*'.parquet'"),
        ("empty.csv", b"", ColumnError, "is empty"),
        ("header.csv", b"area,rent\n", ColumnError, "has no rows"),
        ("ragged.csv", b"area,rent\n1,2\n1,2,3,4\n", ArgumentError, "a readable text file.*Line 3 has 4 fields.*--sep"),
        ("broken.parquet", b"PAR1 no", ArgumentError, "a readable .parquet file"),
        ("broken.feather", b"ARROW no", ArgumentError, "a readable .feather file"),
        ("alone.csv", b"rent\n1.5\n2.5\n", ArgumentError, "features, at least one"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, name, content, error, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=words):
        read_table(tmp_path / name, target="rent")


def test_a_wrong_argument_is_explained(tmp_path):
    path = write(FRAME, tmp_path / "flats.csv")
    with pytest.raises(ArgumentError, match="target must name a column of flats.csv, got target='rents'. Did you mean"):
        read_table(path, target="rents")
    with pytest.raises(ArgumentError, match="It has 'area', 'rooms'"):
        read_table(path, target="zzz")
    with pytest.raises(ArgumentError, match="categorical must name a column"):
        read_table(path, target="rent", categorical=["twon"])
    with pytest.raises(ArgumentTypeError, match="Pass \\['town'\\]"):
        read_table(path, target="rent", categorical="town")
    with pytest.raises(ArgumentError, match="not contain the target"):
        read_table(path, target="rent", categorical=["rent"])
    with pytest.raises(ArgumentError, match="task must be one of"):
        read_table(path, target="rent", task="ranking")
    with pytest.raises(ArgumentError, match="be a file that exists.*Did you mean 'flats.csv'"):
        read_table(tmp_path / "flat.csv", target="rent")
    with pytest.raises(ArgumentError, match="The current folder is"):
        read_table(tmp_path / "no" / "flat.csv", target="rent")
    with pytest.raises(ArgumentTypeError, match="path must be the path"):
        read_table(3, target="rent")
