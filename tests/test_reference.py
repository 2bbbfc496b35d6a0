"""The reference has every public name, and every public name has a docstring."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import knotwork

ROOT = Path(__file__).parents[1]
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
PUBLIC = [
    "knotwork",
    "knotwork.additive",
    "knotwork.basis",
    "knotwork.compare",
    "knotwork.datasets",
    "knotwork.encoders",
    "knotwork.errors",
    "knotwork.knots",
    "knotwork.nn",
    "knotwork.report",
    "knotwork.stats",
    "knotwork.study",
    "knotwork.training",
]
"""Modules whose `__all__` the reference lists."""


def directives():
    for page in REFERENCE:
        for path in re.findall(r"^::: ([\w.]+)$", page.read_text(), flags=re.MULTILINE):
            yield page.name, path


def resolve(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_names():
    for path in PUBLIC:
        module = importlib.import_module(path)
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                yield pytest.param(path, name, id=f"{path}.{name}")


DIRECTIVES = [path for _, path in directives()]
SHOWN = {}
for _each in DIRECTIVES:
    SHOWN.setdefault(_each.rpartition(".")[2], []).append(resolve(_each))


@pytest.mark.parametrize(("module", "name"), list(public_names()))
def test_a_public_name_is_in_the_reference(module, name):
    thing = getattr(importlib.import_module(module), name)
    assert any(thing is shown for shown in SHOWN.get(name, [])), f"docs/reference has no line ::: {module}.{name}"


def test_everything_else_begins_with_an_underscore():
    """A module that the reference does not list is private, or lies in a package that is."""
    names = [info.name for info in pkgutil.walk_packages(knotwork.__path__, "knotwork.")]
    public = {name for name in names if not any(part.startswith("_") for part in name.split("."))}
    assert public | {"knotwork"} == {*PUBLIC, "knotwork.estimators"}  # its names are those of `knotwork`


def test_nothing_is_shown_twice():
    assert len(DIRECTIVES) == len(set(DIRECTIVES))


def test_every_page_of_the_reference_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    assert all(f"reference/{page.name}" in menu for page in REFERENCE)


def constant_docstring(module, name):
    """Return the text behind the assignment of a name, in the module that it is imported from if it is."""
    body = ast.parse(Path(importlib.import_module(module).__file__).read_text()).body
    body += [inner for node in body if isinstance(node, ast.If) for inner in node.body]  # imports for type checkers
    for node, behind in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return constant_docstring(node.module, name)
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            is_text = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            return behind.value.value if is_text else None
    raise AssertionError(f"{module} has no {name}")


@pytest.mark.parametrize("path", DIRECTIVES)
def test_what_is_shown_has_a_docstring(path):
    module, _, name = path.rpartition(".")
    thing = resolve(path)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        text = inspect.cleandoc(thing.__doc__ or "")  # its own, not the one of a base class
        assert not text.startswith(f"{name}("), "this is what dataclasses write where there is none"
    else:
        text = constant_docstring(module, name)
    assert text


def members(path):
    """Return what the reference shows of a class: its own public methods and those of bases of this library."""
    for base in resolve(path).__mro__:
        if base.__module__.startswith("knotwork"):
            for name, value in vars(base).items():
                if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
                    yield name, value


@pytest.mark.parametrize("path", [path for path in DIRECTIVES if inspect.isclass(resolve(path))])
def test_methods_and_properties_that_are_shown_have_docstrings(path):
    bare = [name for name, value in members(path) if not inspect.getdoc(value)]
    assert not bare
