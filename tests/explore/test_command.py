"""The command: a page for a file, and errors that say what to do."""

import re

from typer.testing import CliRunner

from knotwork._cli import app
from tests.explore.cases import easy_table


def run(*words):
    return CliRunner().invoke(app, ["explore", *map(str, words)])


def test_a_page_is_written(tmp_path):
    X, y = easy_table(120)
    X.assign(height=y).to_parquet(tmp_path / "hills.parquet")
    page = tmp_path / "pages" / "hills.html"
    done = run(tmp_path / "hills.parquet", "--target", "height", "--out", page, "--columns", "wave", "--drop", "noise")
    assert done.exit_code == 0, done.output
    assert page.as_uri() in done.output
    lines = done.output.splitlines()
    assert lines[0] == "Reads hills.parquet."
    assert any(line.startswith("Learns knots of") for line in lines)
    assert re.fullmatch(r"wave: R² \S+ as a line, 0\.\d\d as 15 B-splines\.", lines[-1])
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert '"name": "wave"' in text
    assert '"name": "slope"' not in text


def test_mistakes_are_explained(tmp_path):
    X, y = easy_table(120)
    X.assign(height=y).to_csv(tmp_path / "hills.csv", index=False)
    for words, sentence in [
        ((tmp_path / "hill.csv", "--target", "height"), "be a file that exists"),
        ((tmp_path / "hills.csv", "--target", "heigth"), "Did you mean 'height'?"),
        ((tmp_path / "hills.csv", "--target", "height", "--columns", "height"), "not name the target"),
        ((tmp_path / "hills.csv", "--target", "height", "--out", tmp_path), "be a file"),
    ]:
        done = run(*words)
        assert done.exit_code == 1
        assert sentence in done.output
