"""Files in the light runtime: constants are stored once, damaged graphs are refused, and torch is not needed."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import knotwork
from knotwork._light import LightClassifier, LightRegressor
from knotwork.errors import PersistenceError
from tests.estimators.saved_cases import fitted, of_trees_and_networks, read_file, table, uneven_weights, write_file

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.knotwork"
    fitted("BS-Q@6", n_members=2).save(path)
    return path


def edited(saved, path, change):
    """Write the file after a change of its graph, with a valid checksum."""
    content, tensors = read_file(saved)
    change(content, tensors)
    write_file(path, content, tensors)
    return path


CHANGES = {
    "operation": lambda content, _: content["graph"]["graph"]["nodes"][0].__setitem__(0, "Exec"),
    "inputs": lambda content, _: content["graph"]["graph"]["nodes"][0].__setitem__(1, [10**6]),
    "later": lambda content, _: content["graph"]["graph"]["nodes"][3].__setitem__(1, [10**3]),
    "attributes": lambda content, _: content["graph"]["graph"]["nodes"][0].__setitem__(2, {"x": 1}),
    "start": lambda content, _: content["graph"]["graph"]["constants"][0].__setitem__(1, 10**9),
    "shape": lambda content, _: content["graph"]["graph"]["constants"][0].__setitem__(2, [-1]),
    "array": lambda content, _: content["graph"]["graph"]["constants"][0].__setitem__(0, "nothing"),
    "outputs": lambda content, _: content["graph"]["graph"].__setitem__("outputs", {}),
    "cut": lambda content, tensors: tensors.__setitem__("graph.float32", torch.zeros(1)),
    "entries": lambda content, _: content["graph"].__setitem__("graph", 7),
}


@pytest.mark.parametrize("name", CHANGES)
def test_damaged_graphs_are_refused(saved, tmp_path, name):
    path = edited(saved, tmp_path / "model.knotwork", CHANGES[name])
    with pytest.raises(PersistenceError, match="is damaged or was not written by knotwork"):
        knotwork.load(path, runtime="light")


def test_trees_take_the_inputs_of_the_graph_only(tmp_path, monkeypatch):
    """Their compiled loop checks no bounds: other values could be any number."""
    monkeypatch.setattr("knotwork.estimators._combination.bagged_weights", uneven_weights)
    of_trees_and_networks().save(tmp_path / "model.knotwork")

    def change(content, _):
        graph = content["graph"]["graph"]
        (first, *_) = [node for node in graph["nodes"] if node[0] == "Trees"]
        first[1][1] = 0

    path = edited(tmp_path / "model.knotwork", tmp_path / "other.knotwork", change)
    with pytest.raises(PersistenceError, match="inputs must be those of the graph"):
        knotwork.load(path, runtime="light")


def test_a_file_without_a_graph_needs_torch(saved, tmp_path):
    def change(content, tensors):
        del content["graph"]
        for name in [name for name in tensors if name.startswith("graph.")]:
            del tensors[name]

    path = edited(saved, tmp_path / "model.knotwork", change)
    X = table()
    np.testing.assert_array_equal(
        knotwork.load(path, device="cpu").predict(X), fitted("BS-Q@6", n_members=2).predict(X)
    )
    with pytest.raises(
        PersistenceError, match="has no graph for the light runtime: .* Load it where torch is installed"
    ):
        knotwork.load(path, runtime="light")


def test_weights_are_stored_once(saved):
    _, tensors = read_file(saved)
    extra = sum(tensor.numel() for name, tensor in tensors.items() if name.startswith("graph."))
    assert 0 < extra < sum(tensor.numel() for tensor in tensors.values()) / 2


def test_runtimes_by_name(saved, tmp_path):
    assert isinstance(knotwork.load(saved, runtime="light"), LightRegressor)
    assert isinstance(knotwork.load(saved, runtime="torch", device="cpu"), knotwork.TabularRegressor)
    fitted(kind="text").save(tmp_path / "kinds.knotwork")
    light = knotwork.load(tmp_path / "kinds.knotwork", runtime="light")
    assert isinstance(light, LightClassifier)
    assert light.predict(table()).dtype == object
    with pytest.raises(ValueError, match="runtime must be"):
        knotwork.load(saved, runtime="fast")


def test_the_light_runtime_loads_no_torch(saved):
    code = (
        "import sys, knotwork as kw, numpy as np\n"
        f"model = kw.load({str(saved)!r}, runtime='light')\n"
        "model.predict(np.array([[1.0, 2.0, 3.0, 'Ulm', 1, True]], dtype=object))\n"
        "print([name for name in ('torch', 'sklearn', 'pandas', 'lightgbm', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
