"""A built-in part is one file, a line of its registry and an export: no other file needs to know its name.

The count of a part is the number of existing files to touch when such a part is added: its registry, and the files that
name it, without the one that defines it. A file names a part if it compares with it, tests for it with `isinstance` or
matches it; or if it imports several parts of a kind, or has several in tables or lists. A file with a single one, or
with a part as a default value, only uses it. The compiled formulas of a family, one file for each technology, are its
own: a family without them works everywhere, from its definitions in numpy and torch.
"""

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest

import knotwork
from knotwork.basis import FAMILIES
from knotwork.knots import PLACEMENTS
from knotwork.nn import BACKBONES
from knotwork.training import METRICS, OBJECTIVES

SOURCE = Path(knotwork.__file__).parent
MOST = 3
FINDINGS = {"_recommend.py", "estimators/_plans.py", "_preparation/members.py"}
"""What was measured with certain parts: advice of the paper, and networks of an effort; other parts need none of it."""

FORMULAS = {
    "basis/_fitted.py",
    "basis/_compiled.py",
    "nn/_smoothness.py",
    "estimators/_graph_encodings.py",
}
FORMULAS |= {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "_kernels").glob("*.py")}
"""Formulas of families: as polynomials, compiled, as penalties, in graphs, in torch, and in Triton."""
OF_A_KIND = {"family": FORMULAS, "objective": {"_trees/_lightgbm.py", "_trees/_symmetric.py"}}
"""Those, and what boosted trees minimise: without it an objective has no trees, and networks predict it alone."""

REGISTRIES = {
    "family": ("basis/_families.py", {name: family.basis for name, family in FAMILIES.items()}),
    "placement": ("knots/_placements.py", {name: type(placement) for name, placement in PLACEMENTS.items()}),
    "metric": ("training/_metrics.py", {name: metric.function for name, metric in METRICS.items()}),
    "backbone": ("nn/_backbones.py", BACKBONES),
    "objective": ("training/_objectives.py", OBJECTIVES),
}
BUILT_IN = [(kind, name) for kind, (_, parts) in REGISTRIES.items() for name in parts]


def names_of(nodes):
    """Return the identifiers and the texts in some expressions."""
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                yield inner.id
            elif isinstance(inner, ast.Attribute) and inner.attr.isidentifier():
                yield f".{inner.attr}"
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield f'"{inner.value}"'


@cache
def named(path):
    """Return the names that a file compares with or tests for, and those that it imports or has in tables or lists."""
    branches, lists = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="Functions")):
                branches.add(f".{node.attr}")
            case ast.Compare():
                branches.update(names_of([node.left, *node.comparators]))
            case ast.match_case():
                branches.update(names_of([node.pattern]))
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
                branches.update(names_of(node.args[1:]))
            case ast.ImportFrom():
                lists.update(alias.name for alias in node.names)
            case ast.Dict():
                lists.update(names_of([key for key in node.keys if key is not None]))
            case ast.Tuple() | ast.List() | ast.Set():
                leaves = (ast.Name, ast.Attribute, ast.Constant)
                lists.update(names_of([each for each in node.elts if isinstance(each, leaves)]))
    return branches, lists


def spellings(kind, name):
    """Return how code names a part: by its word, by its class, or by the kind of its functions."""
    words = {f'"{name}"', REGISTRIES[kind][1][name].__name__}
    if kind == "family" and FAMILIES[name].kind is not None:
        words.add(f".{FAMILIES[name].kind.name}")
    return words


def files_with(kind, name):
    """Return the files besides its own that would be touched to add a part, its registry included."""
    registry, parts = REGISTRIES[kind]
    own = Path(inspect.getfile(inspect.unwrap(parts[name])))
    files = {registry}
    for path in SOURCE.rglob("*.py"):
        branches, lists = named(path)
        n_listed = sum(bool(spellings(kind, other) & lists) for other in parts)
        if spellings(kind, name) & (branches | (lists if n_listed > 1 else set())) and path != own:
            files.add(path.relative_to(SOURCE).as_posix())
    return files - FINDINGS - OF_A_KIND.get(kind, set())


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_a_built_in_part_is_named_in_few_files(kind, name):
    files = files_with(kind, name)
    assert len(files) <= MOST, f"{kind} {name!r} is named in {sorted(files)}"
