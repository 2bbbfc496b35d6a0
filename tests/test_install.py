"""Installations with few packages: what works, and what the errors say."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import knotwork
from knotwork._checks import OPTIONAL_PARTS, check_installed
from tests.installations import core, estimators, make_model

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "installations"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMAND = FOLDER.parents[1] / "src" / "knotwork" / "_cli.py"


def run_without(packages, script, *arguments):
    command = [sys.executable, "-W", "error", FOLDER / "without.py", ",".join(packages), script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    make_model.main(folder)
    return folder


def test_the_core_needs_no_extra(saved):
    done = run_without(core.ABSENT, FOLDER / "core.py", saved)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_for_few_packages_refuses_more():
    done = run_without(["torch"], FOLDER / "core.py", FOLDER)
    assert "this script is for installations without extras" in done.stderr


def test_estimators_and_polars_need_the_extra_torch_only(tmp_path):
    """Polars needs neither pandas nor pyarrow; in the process of the estimators, because torch takes long to load."""
    script = tmp_path / "script.py"
    script.write_text(f"""
import runpy

runpy.run_path({str(FOLDER / "estimators.py")!r}, run_name="__main__")

import polars
import knotwork as kw

table = polars.DataFrame({{"age": [30, 40, None, 60] * 50, "town": ["Ulm", "Bonn", None, "Ulm"] * 50}})
encoder = kw.make_encoder("BS-Q", size=5).fit(table.select("age"))
assert list(encoder.feature_names_in_) == ["age"]
model = kw.TabularRegressor("BS-Q@5", training=kw.TrainingConfig(max_epochs=1), random_state=0)
assert model.fit(table, polars.Series(range(200))).predict(table).shape == (200,)
""")
    done = run_without(estimators.ABSENT, script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Estimators work with torch alone." in done.stdout


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_the_command_without_its_packages_says_what_to_install(package):
    done = run_without([package], COMMAND, "--version")
    assert done.returncode == 1
    assert done.stderr.strip() == f'The command knotwork needs {package}: pip install "knotwork[study]"'


def test_a_command_without_torch_says_what_to_install():
    done = run_without(["torch"], COMMAND, "study", "list")
    assert done.returncode == 1
    assert done.stderr.strip() == 'knotwork.study needs torch: pip install "knotwork[study]"'


def named(requirements):
    """Return the packages of requirements, with those of the extras that they refer to."""
    for requirement in requirements:
        name, _, extras = requirement.partition("[")
        if name == "knotwork":
            for extra in extras.partition("]")[0].split(","):
                yield from named(PROJECT["optional-dependencies"][extra])
        else:
            yield requirement.partition(">")[0]


@pytest.mark.parametrize("module", OPTIONAL_PARTS)
def test_the_extra_of_a_part_brings_its_packages(module):
    extra, packages = OPTIONAL_PARTS[module]
    assert set(packages) <= set(named(PROJECT["optional-dependencies"][extra]))


def test_all_brings_the_packages_of_every_extra():
    extras = PROJECT["optional-dependencies"]
    assert set(named(extras["all"])) == {
        each for extra in ("torch", "study", "onnx", "ray") for each in named(extras[extra])
    }
    assert set(named(PROJECT["dependencies"])) == {"numpy", "scipy", "scikit-learn", "numba", "narwhals"}
    assert set(core.ABSENT) | {"onnxruntime"} == set(named(extras["all"]))


def test_a_hint_follows_the_command():
    with pytest.raises(
        ImportError, match=r'x needs nothing_such: pip install "knotwork\[all\]"\. Or rest\.$'
    ) as caught:
        check_installed("x", "all", "numpy", "nothing_such", hint="Or rest.")
    assert caught.value.name == "nothing_such"


def test_versions_agree():
    import yaml

    assert "version" in PROJECT["dynamic"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == knotwork.__version__


def test_names_that_are_loaded_later_are_listed_and_exist():
    names = {}
    exec("from knotwork import *", names)
    assert set(knotwork.__all__) <= set(names)
    assert set(knotwork.__all__) | set(knotwork._LATER) <= set(dir(knotwork))
    with pytest.raises(AttributeError, match="no attribute 'tabular'"):
        getattr(knotwork, "tabular")  # noqa: B009 - not a name of the module


def requirements(name, seen):
    """Return the names of a package and of everything that it needs, with the extras that are asked for."""
    wanted = Requirement(name)
    key = canonicalize_name(wanted.name), frozenset(wanted.extras)
    if key in seen:
        return set()
    seen.add(key)
    names = {key[0]}
    for text in metadata.requires(wanted.name) or ():
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in (*wanted.extras, "")):
            names |= requirements(f"{needed.name}[{','.join(needed.extras)}]", seen)
    return names


def read_pins(path):
    pairs = (line.split("#")[0].strip(" \\\n").partition("==") for line in path.read_text().splitlines())
    return {canonicalize_name(name): version for name, _, version in pairs if version}


def test_constraints_cover_every_package_of_an_installation():
    names = requirements("knotwork[all,test,lint,docs]", set()) - {"knotwork"}
    assert {"torch", "numpy", "mdurl", "pluggy"} <= names
    pins = read_pins(ROOT / "constraints.txt")
    assert sorted(names - set(pins)) == []


def test_the_lock_file_has_hashes_of_all_constraints_but_torch():
    pins = read_pins(ROOT / "constraints.txt")
    pins.pop("torch")
    assert read_pins(ROOT / "requirements.lock") == pins, "run .ci/lock.py"
    text = (ROOT / "requirements.lock").read_text()
    blocks = re.findall(r"^[^\s#].*==.*\n(?:    --hash=sha256:[0-9a-f]{64}.*\n)+", text, re.MULTILINE)
    assert len(blocks) == len(pins)
