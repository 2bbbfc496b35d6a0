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
from knotwork._checks import PARTS
from tests.installations import core
from tests.test_documents import PAGES, blocks
from tests.test_reference import PUBLIC

SOURCE = Path(knotwork.__file__).parent
ROOT = Path(__file__).parents[1]
LAYERS = [
    "errors",
    "_cores",
    "_checks",
    "_files",
    "_model_files",
    "_tables",
    "basis",
    "_pictures",
    "stats",
    "knots",
    "encoders",
    "_recommend",
    "_kernels",
    "nn",
    "training",
    "_preparation",
    "additive",
    "estimators",
    "datasets",
    "_explore",
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


def layer_graph():
    """Return for each layer the layers that it imports, without those that it reaches through another."""
    direct = {layer: set() for layer in LAYERS}
    for path in FILES:
        importer = layer_of(module_of(path))
        if importer is not None:
            layers = {layer_of(module) for module in imported(path) if module.startswith("knotwork.")}
            direct[importer] |= {layer for layer in layers if LAYERS.index(layer) < LAYERS.index(importer)}
    reached = {}
    for layer in LAYERS:  # upwards: what lies below is known
        reached[layer] = direct[layer].union(*(reached[below] for below in direct[layer]))
    return {layer: {low for low in below if not any(low in reached[other] for other in below)}
            for layer, below in direct.items()}  # fmt: skip


def test_the_picture_of_the_layers_is_true():
    """CONTRIBUTING.md draws the layers; where this fails, copy the expected lines into it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (picture,) = re.findall(r"^```mermaid\nflowchart TD\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    expected = [f"    {layer} --> {low}" for layer, below in reversed(layer_graph().items())
                for low in sorted(below, key=LAYERS.index, reverse=True)]  # fmt: skip
    assert picture.splitlines() == expected, "\n".join(["expected:", *expected])


def imported_at_once(path):
    """Return what a file imports when it is loaded: not in a function, and not for type checkers only."""
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef):
            waiting += ast.iter_child_nodes(node)


def optional_packages():
    """Return for each layer the optional packages that are loaded with its files and with all files that these load."""
    loaded = {module_of(path): set(imported_at_once(path)) for path in FILES}

    def packages(module, seen):
        seen.add(module)
        names = loaded.get(module, set())
        ours = {part for name in names for part in with_parents(name)} & set(loaded) - seen
        return names.union(*(packages(each, seen) for each in sorted(ours) if each not in seen))

    out = {layer: set() for layer in LAYERS}
    for module in loaded:
        if layer_of(module) is not None:
            names = packages(module, {"knotwork"})
            out[layer_of(module)] |= {name.partition(".")[0] for name in names} & set(core.ABSENT)
    return out


def with_parents(name):
    """Return a module and the packages that are loaded before it."""
    parts = name.split(".")
    return {".".join(parts[: length + 1]) for length in range(len(parts))}


def test_parts_that_need_an_extra_name_all_of_their_packages():
    needed = {f"knotwork.{layer}": names for layer, names in optional_packages().items()
              if names and not layer.startswith("_")}  # fmt: skip
    assert needed == {module: set(packages) for module, (_, packages) in PARTS.items()}


def code_for_readers():
    """Return the code that shows how to use the library, with the name of its file."""
    for page in PAGES:
        for number, block in enumerate(blocks(page, "python")):
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}, block {number + 1}")
    for folder in ("examples", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield pytest.param(path.read_text(), id=str(path.relative_to(ROOT)))


def private_names(code):
    """Return the modules and names of the library that code takes and that the reference does not list."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if is_ours(name.name) and name.name not in PUBLIC)
        elif isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
            names = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name for name in names if node.module not in PUBLIC or "._" in name)
        elif isinstance(node, ast.Attribute) and re.match(r"(kw|knotwork)\.(\w+\.)*_[a-z]\w*$", ast.unparse(node)):
            yield ast.unparse(node)


def is_ours(module):
    return module.partition(".")[0] == "knotwork"


@pytest.mark.parametrize("code", list(code_for_readers()))
def test_readers_see_public_names_only(code):
    assert list(private_names(code)) == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import knotwork.nn._encoding", ["knotwork.nn._encoding"]),
        ("from knotwork.study._folds import Split", ["knotwork.study._folds.Split"]),
        ("from knotwork.study import _folds, run", ["knotwork.study._folds"]),
        ("from knotwork.estimators import load", ["knotwork.estimators.load"]),
        ("import knotwork as kw; kw.study._folds.Split()", ["kw.study._folds"]),
        ("import numpy; from knotwork.nn import MLP; import knotwork; knotwork.__version__", []),
    ],
)
def test_private_names_are_recognised(code, names):
    assert list(private_names(code)) == names


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_only_layers_that_keep_something_write_files(path):
    if "knotwork._files" in set(imported(path)):
        keeping = {"_model_files", "estimators", "datasets", "_explore", "study", "report", "compare"}
        assert layer_of(module_of(path)) in keeping


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_only_the_command_line_prints(path):
    calls = [node.func.id for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]  # fmt: skip
    assert "print" not in calls or module_of(path) == "knotwork._cli"


FIRST_FIT = (
    "import numpy as np, knotwork as kw; X = np.random.default_rng(0).normal(size=(60, 2)); "
    "kw.TabularRegressor(training=kw.TrainingConfig(max_epochs=1), device='cpu').fit(X, X[:, 0]).predict(X)"
)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import knotwork", ["torch", "numba", "scipy", "sklearn", "pandas", "narwhals", "lightgbm", "matplotlib"]),
        ("import knotwork as kw; kw.SplineEncoder(size=5)", ["torch", "numba", "sklearn.tree", "lightgbm"]),
        ("import knotwork as kw; kw.TabularRegressor()", ["numba", "sklearn.tree", "knotwork.additive", "lightgbm"]),
        (FIRST_FIT, ["sympy", "sklearn.tree", "torch._dynamo", "torch._inductor", "matplotlib", "lightgbm"]),
        ("import knotwork as kw; kw.SplineEncoder(size=5).fit_transform([[1.0], [2.0]])", ["torch", "lightgbm"]),
        ("import knotwork as kw; kw.AdditiveRegressor().fit([[1.0], [2.0]], [1.0, 2.0])", ["torch", "lightgbm"]),
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
