"""Imports go one way, layers load only what they need, and only the command line prints."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import knotwork
from knotwork._checks import OPTIONAL_PARTS
from tests.installations import core
from tests.test_documents import PAGES, blocks
from tests.test_reference import PUBLIC

SOURCE = Path(knotwork.__file__).parent
ROOT = Path(__file__).parents[1]
LAYERS = [
    "errors",
    "_look",
    "_writing",
    "_ticks",
    "_checks",
    "_equals",
    "_files",
    "_model_files",
    "_tables",
    "_loops",
    "_graph",
    "basis",
    "_pictures",
    "stats",
    "knots",
    "encoders",
    "_recommend",
    "_kernels",
    "nn",
    "training",
    "_trees",
    "_preparation",
    "_light",
    "_model_page",
    "additive",
    "estimators",
    "_runtime",
    "datasets",
    "_predictions",
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


@cache
def tree_of(path):
    """Return the parsed file, once for all tests."""
    return ast.parse(path.read_text())


@cache
def imported(path):
    """Return the modules that a file imports anywhere in it."""
    names = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return names


def imports_between_layers():
    """Return the layer, the name, and an imported module of another layer, of each file and import."""
    for path in FILES:
        own = layer_of(module_of(path))
        if own is not None:  # the package itself gathers the public names
            for module in imported(path):
                if module.startswith("knotwork.") and layer_of(module) != own:
                    yield own, module_of(path), module


def test_every_file_belongs_to_a_layer():
    assert {layer_of(module_of(path)) for path in FILES} - {None} == set(LAYERS)


def test_imports_go_downwards():
    upwards = [f"{name} imports {module}" for own, name, module in imports_between_layers()
               if LAYERS.index(layer_of(module)) >= LAYERS.index(own)]  # fmt: skip
    assert upwards == []


def imported_names(path):
    """Return what a file imports by `from`, as module and name, and as modules, anywhere in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inner_names(path):
    """Return the names that a file takes from inside another package, past its `__init__` and its public modules."""
    own = layer_of(module_of(path))
    for name in imported_names(path):
        _, *parts = name.split(".")
        is_package = bool(parts) and (SOURCE / parts[0]).is_dir()
        if name.startswith("knotwork.") and is_package and parts[0] != own and any(p[0] == "_" for p in parts[1:]):
            yield name


def test_packages_are_used_through_their_door():
    """What another package may use stands in the `__init__` of a package, or in a module without an underscore."""
    assert {module_of(path): names for path in FILES if (names := list(inner_names(path)))} == {}


@pytest.mark.parametrize(
    "line", ["from knotwork.nn._linear import Linear", "import knotwork.nn._linear", "from knotwork.nn import _linear"]
)
def test_names_from_inside_a_package_are_recognised(tmp_path, monkeypatch, line):
    monkeypatch.setattr(sys.modules[__name__], "module_of", lambda path: "knotwork.training._engine")
    file = tmp_path / "_engine.py"
    file.write_text(line)
    assert len(list(inner_names(file))) == 1


def test_encoders_and_nn_do_not_see_each_other():
    seen = [f"{name} imports {module}" for own, name, module in imports_between_layers()
            if {layer_of(module), own} == {"encoders", "nn"}]  # fmt: skip
    assert seen == []


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
    waiting = [tree_of(path)]
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
    assert needed == {module: set(packages) for module, (_, packages) in OPTIONAL_PARTS.items()}


MEASURED = {
    "benchmarks/efforts.py": {"knotwork._trees.SYMMETRIC", "knotwork._trees.TreeMember", "knotwork._trees.boost"}
}
"""Private names that a script measures: users choose an effort, and not a kind of trees."""


def code_outside_the_library():
    """Return the code in documents and in scripts outside of the library, by the name of its file."""
    for page in PAGES:
        for number, block in enumerate(blocks(page, "python")):
            yield f"{page.relative_to(ROOT)}, block {number + 1}", block
    for folder in ("examples", "benchmarks", "results"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


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


def test_documents_and_scripts_use_public_names_only():
    code = dict(code_outside_the_library())
    assert len(code) > 50
    used = {place: set(private_names(text)) - MEASURED.get(place, set()) for place, text in code.items()}
    assert {place: names for place, names in used.items() if names} == {}


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


def test_only_layers_that_keep_something_write_files():
    keeping = {
        "_model_files",
        "_light",
        "_model_page",
        "_predictions",
        "estimators",
        "datasets",
        "_explore",
        "study",
        "report",
        "compare",
    }
    writing = [module_of(path) for path in FILES if "knotwork._files" in imported(path)]
    assert [name for name in writing if layer_of(name) not in keeping] == []


def prints(path):
    calls = (node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "print" for function in calls)


def test_only_the_command_line_prints():
    assert [name for path in FILES if prints(path) and (name := module_of(path)) != "knotwork._cli"] == []


FIRST_FIT = (
    "import numpy as np; X = np.random.default_rng(0).normal(size=(60, 2)); "
    "model = kw.TabularRegressor(training=kw.TrainingConfig(max_epochs=1), device='cpu'); "
    "model.fit(X, X[:, 0]).predict(X)"
)
SAVED = (
    "import os, tempfile\n"
    "with tempfile.TemporaryDirectory() as folder:\n"
    "    model.save(path := os.path.join(folder, 'model.knotwork')); kw.load(path).predict(X)"
)
HEAVY = ["torch", "numba", "scipy", "sklearn", "pandas", "narwhals", "lightgbm", "matplotlib"]
JOURNEYS = {
    "encoders": [
        ("import knotwork as kw", HEAVY),
        ("kw.stats.cliques([1, 2], 1)", ["torch", "numba", "lightgbm", "matplotlib"]),
        ("kw.SplineEncoder(size=5)", ["torch", "numba", "sklearn.tree", "lightgbm"]),
        ("kw.SplineEncoder(size=5).fit_transform([[1.0], [2.0]])", ["torch", "lightgbm"]),
        ("kw.AdditiveRegressor().fit([[1.0], [2.0]], [1.0, 2.0])", ["torch", "lightgbm"]),
    ],
    "estimators": [
        ("import knotwork as kw; import knotwork._cli", ["torch", "numba", "matplotlib"]),
        ("kw.TabularRegressor()", ["numba", "sklearn.tree", "knotwork.additive", "lightgbm"]),
        (FIRST_FIT, ["sympy", "sklearn.tree", "torch._dynamo", "torch._inductor", "matplotlib", "lightgbm"]),
        (SAVED, ["torch._dynamo", "torch._inductor", "matplotlib", "lightgbm"]),
    ],
}
"""What a process does, one after the other, and what is not loaded after each of it."""


@pytest.mark.parametrize("name", JOURNEYS)
def test_imports_load_only_what_is_needed(name):
    lines = ["import sys"]
    for code, absent in JOURNEYS[name]:
        lines += [code, f"print([name for name in {absent!r} if name in sys.modules])"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]"] * len(JOURNEYS[name])


def modules():
    for info in pkgutil.walk_packages(knotwork.__path__, "knotwork."):
        yield importlib.import_module(info.name)


def named_objects():
    """Return the classes and functions of all modules whose names have no underscore."""
    for module in modules():
        for name, thing in vars(module).items():
            is_named = inspect.isclass(thing) or inspect.isfunction(thing)
            if is_named and not name.startswith("_") and thing.__module__ == module.__name__:
                yield f"{module.__name__}.{name}", thing


def false_defaults(thing):
    """Return the parameters of a class whose documented default is not the one it has."""
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return
    parameters = inspect.signature(thing).parameters
    for name, stated in re.findall(r"^(\w+) : .*default=(\S+)$", inspect.getdoc(thing) or "", flags=re.MULTILINE):
        default = parameters[name].default
        shown = default.__name__ if inspect.isclass(default) else str(default)
        if shown != stated.strip('"'):
            yield f"{name} is documented with default {stated} and has {default!r}"


def test_names_are_documented_and_defaults_agree():
    things = dict(named_objects())
    assert len(things) > 600
    assert [name for name, thing in things.items() if not inspect.getdoc(thing)] == [], "no docstring"
    assert [f"{name}: {false}" for name, thing in things.items() for false in false_defaults(thing)] == []


def test_all_lists_what_exists():
    listed = [(module, name) for module in modules() for name in getattr(module, "__all__", [])]
    assert [f"{module.__name__}.{name}" for module, name in listed if not hasattr(module, name)] == []


def shared_names(names_of):
    """Return the names that several modules define, each with its modules."""
    places = {}
    for path in FILES:
        for name in names_of(path):
            places.setdefault(name, []).append(module_of(path).removeprefix("knotwork."))
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def is_private(path):
    return any(part.startswith("_") for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__")


@cache
def words_of(path):
    return frozenset(re.findall(r"\w+", path.read_text()))


def test_private_modules_have_no_list_of_names():
    """Public names are listed once, by their package; in a private module an underscore marks what only it uses."""
    private = [path for path in FILES if is_private(path) and path.name != "__init__.py"]
    assert [module_of(path) for path in private if "__all__" in words_of(path)] == []


def test_functions_that_only_their_file_uses_begin_with_an_underscore():
    """The formula of an operation is an exception: it gives the operation its name."""
    scripts = [path for folder in ("tests", "results", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    local = [
        f"{module_of(path)}.{node.name}"
        for path in FILES
        if is_private(path) and path.name not in ("__init__.py", "_cli.py")
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.name.endswith("_formula")
        and not any(node.name in words_of(other) for other in (*FILES, *scripts) if other != path)
    ]  # fmt: skip
    assert local == []


def test_no_two_classes_share_a_name():
    def classes(path):
        return [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]

    assert shared_names(classes) == {}


def constants_of(path):
    """Return the constants of a module; those of Triton kernels, such as tiles, are none."""
    statements = [node for node in tree_of(path).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    for statement in [] if path.stem.endswith("_triton") else statements:
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (name.id for name in names if isinstance(name, ast.Name) and name.id.lstrip("_").isupper())


def test_no_two_constants_share_a_name():
    """A decision stands in one place, and the names of different decisions say what they decide."""
    assert shared_names(constants_of) == {}


def test_constants_are_recognised(tmp_path):
    (tmp_path / "few.py").write_text("A = 1\n_B, C = 2, 3\nD: int = 4\nlower = 5\n")
    (tmp_path / "few_triton.py").write_text("A = 1")
    assert list(constants_of(tmp_path / "few.py")) == ["A", "_B", "C", "D"]
    assert list(constants_of(tmp_path / "few_triton.py")) == []


def test_every_file_is_one_idea():
    too_long = {module_of(path): n for path in FILES if (n := len(path.read_text().splitlines())) > 700}
    assert not too_long
