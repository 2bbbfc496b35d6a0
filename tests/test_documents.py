"""Examples in docstrings, in the README and in the guide run, and give what they say."""

import doctest
import importlib
import pkgutil
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer

import knotwork
from knotwork._cli import app
from knotwork.compare import _rounds as rounds
from tests.compare.cases import shorten
from tests.page_outputs import Printed, run_page, write_outputs

ROOT = Path(__file__).parents[1]
MODULES = ["knotwork", *(info.name for info in pkgutil.walk_packages(knotwork.__path__, "knotwork."))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with np.printoptions(legacy=False):
        result = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert result.failed == 0


def blocks(path, language):
    """Return the blocks of a page, each behind so many empty lines that errors name its true lines."""
    text = path.read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return ["\n" * text[: match.start(2)].count("\n") + match[2] for match in found if match[1] == language]


WITH_CODE = [path for path in PAGES if blocks(path, "python")]


@pytest.fixture
def registries():
    """Take away what a page has added to a table of names."""
    from knotwork.basis import FAMILIES
    from knotwork.encoders import METHOD_TABLE
    from knotwork.knots import PLACEMENTS
    from knotwork.nn import BACKBONES
    from knotwork.training import METRICS, OBJECTIVES

    tables = (FAMILIES, PLACEMENTS, METRICS, OBJECTIVES, BACKBONES, METHOD_TABLE)
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):  # the methods of a family or a placement go with it
        for name in set(table) - names:
            del table[name]


LONG = {"choosing.md", "additive.md", "explore.md", "interactions.md", "tables_on_a_cluster.md", "tour.md"}
"""Pages of which other tests cover the parts; their networks are trained by `make test-all` only."""


def pages_with_code():
    for path in WITH_CODE:
        marks = [pytest.mark.slow] if path.name in LONG else []
        yield pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.parametrize("path", list(pages_with_code()))
def test_pages_run(path, tmp_path, monkeypatch, registries):
    monkeypatch.chdir(tmp_path)
    if path == ROOT / "README.md":  # whose comparison uses its time limit to the end
        shorten(monkeypatch)
        monkeypatch.setattr(rounds, "EXTENSIONS", replace(rounds.EXTENSIONS, safe=0.0))
    printed = run_page(path)
    if path == ROOT / "README.md":
        check_scores_of_the_readme(printed[0])
    for block in printed:
        shown = block.agrees or path == ROOT / "README.md"  # which is read for its code
        name = path.relative_to(ROOT)
        assert shown, f"{name}, line {block.line} prints\n{block.printed}\nRun python -m tests.page_outputs {name}"


def check_scores_of_the_readme(block):
    """The first block of the README shows the scores of its code."""
    printed, shown = (
        [float(number) for number in re.findall(r"\d\.\d+", text)] for text in (block.printed, block.shown)
    )
    assert len(shown) == 4
    assert printed == pytest.approx(shown, abs=0.011), "one unit in the last digit, for other machines"


def test_outputs_are_compared_in_all_but_their_numbers():
    assert Printed(1, "score 0.51 of IS-Q\n", "score 0.49 of IS-Q\n").agrees
    assert not Printed(1, "score 0.51 of IS-Q\n", "").agrees
    assert not Printed(1, "", "score 0.51\n").agrees
    assert not Printed(1, "score 0.51 of IS-Q\n", "loss 0.51 in all folds\n").agrees


def test_outputs_are_written_under_their_code(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A\n\n```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\nold\n```\n\nB\n")
    write_outputs(page)
    assert page.read_text() == "A\n\n```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n\nB\n"
    assert all(block.agrees for block in run_page(page))


def test_plans_on_pages_are_plans():
    found = [tomllib.loads(block) for path in PAGES for block in blocks(path, "toml")]
    assert found
    for content in found:
        assert knotwork.study.Plan.from_mapping({"name": "page", **content}).n_networks > 0


def commands():
    for path in PAGES:
        for line in "\n".join(blocks(path, "")).splitlines():
            words = re.sub(r"^\s*(\w+=\S+ )*|\s+#.*", "", line).split()
            if words[:1] == ["knotwork"]:
                yield pytest.param(words[1:], id=f"{path.stem}: {' '.join(words)}")


@pytest.mark.parametrize("words", list(commands()))
def test_commands_on_pages_are_there(words):
    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known


def test_every_page_of_the_guide_has_code_that_runs():
    nav = re.findall(r"^ {6}- [^:]+: ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    guide = {ROOT / "docs" / name for name in nav if "/" not in name}
    assert len(guide) == 22
    without = {"choices.md", "cluster.md", "findings.md", "growth.md", "paper_claims.md"}  # commands and results
    assert guide - set(WITH_CODE) == {ROOT / "docs" / name for name in without}
