"""Imports go one way, layers load only what they need, and only the command line prints."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import knotwork

SOURCE = Path(knotwork.__file__).parent
LAYERS = [
    "errors",
    "_checks",
    "_files",
    "basis",
    "stats",
    "knots",
    "encoders",
    "_recommend",
    "_kernels",
    "nn",
    "training",
    "estimators",
    "datasets",
    "study",
    "report",
    "compare",
    "_cli",
]
FILES = sorted(SOURCE.rglob("*.py"))


def layer_of(module):
    return module.split(".")[1] if "." in module else None


def module_of(path):
    return ".".join(("knotwork", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_downwards(path):
    own = layer_of(module_of(path))
    if own is None:
        return  # the package itself gathers the public names
    assert own in LAYERS, f"{own} is no layer of the design"
    for module in imported(path):
        if module.startswith("knotwork.") and layer_of(module) != own:
            assert LAYERS.index(layer_of(module)) < LAYERS.index(own), f"{module_of(path)} imports {module}"
            assert (layer_of(module), own) != ("encoders", "nn"), "encoders and nn do not see each other"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_only_layers_that_keep_something_write_files(path):
    if "knotwork._files" in set(imported(path)):
        assert layer_of(module_of(path)) in {"estimators", "datasets", "study", "report", "compare"}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_only_the_command_line_prints(path):
    calls = [node.func.id for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]  # fmt: skip
    assert "print" not in calls or module_of(path) == "knotwork._cli"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import knotwork", ["torch", "numba", "lightgbm", "matplotlib"]),
        ("import knotwork as kw; kw.SplineEncoder(size=5).fit_transform([[1.0], [2.0]])", ["torch", "lightgbm"]),
        ("import knotwork as kw; kw.stats.cliques([1, 2], 1)", ["torch", "numba", "lightgbm", "matplotlib"]),
        ("import knotwork._cli", ["torch", "numba", "matplotlib"]),
    ],
)
def test_imports_load_only_what_is_needed(code, absent):
    command = f"{code}; import sys; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def modules():
    for info in pkgutil.walk_packages(knotwork.__path__, "knotwork."):
        yield importlib.import_module(info.name)


def public_objects():
    for module in modules():
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield pytest.param(thing, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("thing", list(public_objects()))
def test_public_names_are_documented_and_defaults_agree(thing):
    text = inspect.getdoc(thing)
    assert text, "no docstring"
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return
    parameters = inspect.signature(thing).parameters
    for name, stated in re.findall(r"^(\w+) : .*default=(\S+)$", text, flags=re.MULTILINE):
        default = parameters[name].default
        written = stated.strip('"')
        shown = default.__name__ if inspect.isclass(default) else str(default)
        assert shown == written, f"{name} is documented with default {stated} and has {default!r}"


@pytest.mark.parametrize("module", list(modules()), ids=lambda module: module.__name__)
def test_all_lists_what_exists(module):
    for name in getattr(module, "__all__", []):
        assert hasattr(module, name)


def test_every_file_is_one_idea():
    too_long = {module_of(path): n for path in FILES if (n := len(path.read_text().splitlines())) > 700}
    assert not too_long
