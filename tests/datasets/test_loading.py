"""Loading by key: the folders that are searched, the files that are rejected, and the rows."""

import hashlib
import os
from pathlib import Path

import pytest

from knotwork.datasets import cache_folder, check_dataset, find_dataset, load_dataset
from knotwork.errors import ArgumentError, ArgumentTypeError, DatasetMismatchError, DatasetUnavailableError
from tests.datasets.conftest import write_parquet


def test_the_users_folder_comes_before_the_cache(small_registry, tmp_path, monkeypatch):
    cached = write_parquet(small_registry["abalone"], cache_folder() / "abalone.parquet")
    assert find_dataset("abalone").path == cached
    user_file = write_parquet(small_registry["abalone"].iloc[::-1], tmp_path / "user" / "abalone.parquet")
    monkeypatch.setenv("KNOTWORK_DATA", str(user_file.parent))
    data = load_dataset("abalone", offline=True)
    assert data.sha256 == hashlib.sha256(user_file.read_bytes()).hexdigest()
    assert data.target_values().tolist() == [9, 7, 15]
    assert (data.task, data.spec.key, data.categorical, data.notes) == ("regression", "abalone", ("Sex",), ())
    user_file.unlink()
    assert find_dataset("abalone").origin == "cache"


def test_a_folder_that_does_not_exist_is_an_error(monkeypatch):
    monkeypatch.setenv("KNOTWORK_DATA", "/no/such/folder")
    with pytest.raises(ArgumentError, match="KNOTWORK_DATA must be a folder that exists, got .*'/no/such/folder'"):
        load_dataset("abalone")


@pytest.mark.parametrize("by_variable", [True, False])
def test_offline_mode_asks_nobody(monkeypatch, by_variable):
    monkeypatch.setenv("KNOTWORK_OFFLINE", "1" if by_variable else "0")
    with pytest.raises(DatasetUnavailableError, match="offline mode.*KNOTWORK_DATA.*datasets fetch abalone"):
        load_dataset("abalone", offline=not by_variable)
    with pytest.raises(OSError, match="offline"):  # what a user would catch
        load_dataset("abalone", offline=True)
    monkeypatch.setenv("KNOTWORK_OFFLINE", "yes")
    with pytest.raises(ArgumentError, match="KNOTWORK_OFFLINE must be '0' or '1'"):
        load_dataset("abalone")
    with pytest.raises(ArgumentTypeError, match="offline must be True or False"):
        load_dataset("abalone", offline="no")


def damaged(frame, how):
    if how == "columns":
        return frame.drop(columns=["Height", "Sex"])
    if how == "rows":
        return frame.iloc[:2]
    if how == "types":
        return frame.assign(Height="tall")
    if how == "target":
        return frame.assign(Rings=[15, None, 9])
    return frame.assign(Height=[0.095, 0.09, 0.1351])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("columns", "columns are missing: 'Height', 'Sex'; it has 'Length'"),
        ("rows", "must have 3 rows, got 2"),
        ("types", "columns must hold numbers: 'Height'"),
        ("target", "target 'Rings' has missing values"),
        ("values", "SHA-256 of the content must be [0-9a-f]{64}, got [0-9a-f]{64}"),
    ],
)
def test_the_error_for_another_table_lists_the_differences(small_registry, how, words):
    path = write_parquet(damaged(small_registry["abalone"], how), cache_folder() / "abalone.parquet")
    with pytest.raises(DatasetMismatchError, match=words) as caught:
        load_dataset("abalone")
    for part in (str(path), "0" * 64, hashlib.sha256(path.read_bytes()).hexdigest(), "Next:"):
        assert part in str(caught.value)
    assert not check_dataset("abalone").is_good


def test_a_file_that_is_no_table(small_registry):
    path = cache_folder() / "abalone.parquet"
    path.parent.mkdir()
    path.write_bytes(b"<html>busy</html>")
    with pytest.raises(DatasetMismatchError, match="cannot be read as Parquet"):
        load_dataset("abalone")
    assert "cannot be read" in check_dataset("abalone").problems[0]


def test_rows_are_drawn_by_class_and_recorded(small_registry):
    write_parquet(small_registry["shuttle"], cache_folder() / "shuttle.parquet")
    data = load_dataset("shuttle")
    counts = data.frame["class"].value_counts().to_dict()
    assert counts == {"1": 16, "4": 6, "5": 2}
    assert data.notes == ("24 of 60 rows drawn with seed 42, keeping the shares of the classes",)
    assert data.frame.equals(load_dataset("shuttle").frame)
    assert not data.frame.duplicated().any()


def test_classes_are_counted(small_registry):
    frame = small_registry["shuttle"].replace({"class": {"5": "4"}})
    write_parquet(frame, cache_folder() / "shuttle.parquet")
    assert "must have 3 classes, got {'1': 40, '4': 20}" in check_dataset("shuttle").problems[0]


@pytest.mark.skipif(os.name == "nt", reason="the cache is elsewhere on Windows")
def test_where_the_cache_is(monkeypatch):
    monkeypatch.delenv("KNOTWORK_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert cache_folder() == Path("/x/cache/knotwork/datasets")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder() == Path("/home/ada/.cache/knotwork/datasets")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path("/home/ada/Library/Caches/knotwork/datasets")
