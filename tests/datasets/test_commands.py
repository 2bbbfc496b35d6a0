"""`knotwork datasets` as a user types it."""

import pytest
from typer.testing import CliRunner

from knotwork._cli import app
from knotwork.datasets import DATASETS, KEYS, cache_folder
from tests.datasets.conftest import write_parquet, zipped


def call(*arguments):
    return CliRunner().invoke(app, ["datasets", *arguments])


def test_list_shows_every_key_and_where_it_is(small_registry):
    write_parquet(small_registry["abalone"], cache_folder() / "abalone.parquet")
    result = call("list")
    assert result.exit_code == 0, result.output
    lines = {line.split()[1]: line for line in result.output.splitlines() if line.startswith("│")}
    assert set(lines) == set(KEYS)
    places = {"abalone": "cache", "shuttle": "OpenML 40685", "gamma": "by hand", "sk_iris": "scikit-learn"}
    for key, words in {**places, "adult": "classification", "sgemm": "20,000 of 241,600", "ablation": "drawn"}.items():
        assert words in lines[key]
    assert str(cache_folder()) in result.output.replace("\n", "")


def test_check_reports_each_and_fails_for_a_wrong_one(small_registry, monkeypatch):
    assert call("check").exit_code == 1  # no file is available, so nothing was checked
    write_parquet(small_registry["abalone"], cache_folder() / "abalone.parquet")
    result = call("check")
    assert result.exit_code == 0, result.output
    assert "abalone: ok" in result.output
    assert "shuttle: not available" in result.output
    assert "1 of 25 data sets" in result.output
    assert call("check", "abalone", "shuttle").exit_code == 1  # requested, but not available
    write_parquet(small_registry["shuttle"].iloc[:50], cache_folder() / "shuttle.parquet")
    result = call("check")
    assert result.exit_code == 1
    assert "shuttle: FAILED. it must have 60 rows, got 50" in result.output
    assert call("check", "abalone").exit_code == 0


def test_fetch_goes_on_after_a_failure(small_registry, server):
    lines = small_registry["abalone"][["Sex", *DATASETS["abalone"].numerical, "Rings"]].to_csv(
        header=False, index=False
    )
    server["/static/public/1/abalone.zip"] = (200, zipped(**{"abalone.data": lines}))
    result = call("fetch", "gamma", "adult", "abalne", "abalone")
    assert result.exit_code == 1
    assert f"abalone: {cache_folder() / 'abalone.parquet'}" in result.output
    for words in ("gamma: FAILED", "adult: FAILED", "answered 404", "Did you mean 'abalone'"):
        assert words in result.output
    assert call("fetch", "abalone").exit_code == 0


@pytest.mark.parametrize("command", ["list", "check", "fetch"])
def test_wrong_arguments_are_explained(monkeypatch, command):
    monkeypatch.setenv("KNOTWORK_DATA", "/no/such/folder")
    result = call(command, *(["abalone"] if command == "fetch" else []))
    assert result.exit_code == 1
    assert "KNOTWORK_DATA must be a folder" in result.output
    assert "Traceback" not in result.output
    assert "Example" in call(command, "--help").output


def test_check_with_a_wrong_key():
    result = call("check", "abalon")
    assert result.exit_code == 1
    assert "Did you mean 'abalone'" in result.output
