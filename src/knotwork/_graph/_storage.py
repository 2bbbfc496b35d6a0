"""Graphs as JSON and arrays, for model files and for pages."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from knotwork._checks import argument_error, check_choice, type_error
from knotwork._graph._graph import Array, Graph, Node
from knotwork._graph._operations import OPERATIONS

INPUTS = ("numbers", "codes")
"""The inputs of graphs, which come before constants and nodes in the numbering of values."""

POOLS = {"float32": "float32", "float64": "float64", "int32": "int32", "int64": "int32", "bool": "bool"}
"""The types of constants, and those they are stored in: whole numbers are codes, places and lengths."""

MOST_NODES, MOST_AXES = 1_000_000, 8


class StoredConstant(NamedTuple):
    """Where a constant is: the name of an array, the place of its first element, its shape and its type."""

    array: str
    start: int
    shape: tuple[int, ...]
    dtype: str


class PackedGraph(NamedTuple):
    """A graph as JSON, and the arrays of those constants that no other array has."""

    content: dict[str, Any]
    arrays: dict[str, Array]


def pack(graph: Graph, arrays: Mapping[str, Array] | None = None) -> PackedGraph:
    """Return a graph as JSON and arrays; constants that are parts of other `arrays`, in memory, refer to these."""
    held = _Memory(arrays or {})
    pools: dict[str, list[Array]] = {}
    lengths = dict.fromkeys(POOLS.values(), 0)
    constants = []
    for array in graph.constants.values():
        stored = held.find(array)
        if stored is None:
            pool = POOLS[array.dtype.name]
            stored = StoredConstant(f"graph.{pool}", lengths[pool], array.shape, array.dtype.name)
            pools.setdefault(pool, []).append(array.astype(pool, copy=False).reshape(-1))
            lengths[pool] += array.size
        constants.append([stored.array, stored.start, list(stored.shape), stored.dtype])
    names = [*INPUTS, *graph.constants, *(node.output for node in graph.nodes)]
    places = {name: place for place, name in enumerate(names)}
    nodes = [[node.operation, [places[name] for name in node.inputs], node.attributes] for node in graph.nodes]
    outputs = {name: places[value] for name, value in graph.outputs.items()}
    content = {"constants": constants, "nodes": nodes, "outputs": outputs}
    return PackedGraph(content, {f"graph.{name}": np.concatenate(parts) for name, parts in pools.items()})


class _Memory:
    """Arrays by their places in memory."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        held = [
            (each.ctypes.data, name, each) for name, each in arrays.items() if each.flags.c_contiguous and each.size
        ]
        held.sort(key=lambda each: each[0])
        self._starts = np.array([start for start, *_ in held], dtype=np.uint64)
        self._held = held

    def find(self, array: Array) -> StoredConstant | None:
        """Return where an array is, as a part of another; None if it is in none."""
        place = int(np.searchsorted(self._starts, np.uint64(array.ctypes.data), side="right")) - 1
        if place < 0 or not array.size:
            return None
        start, name, other = self._held[place]
        offset = array.ctypes.data - start
        if other.dtype != array.dtype or offset + array.nbytes > other.nbytes:
            return None
        return StoredConstant(name, offset // array.itemsize, array.shape, array.dtype.name)


def unpack(content: Any, read: Callable[[StoredConstant], Array]) -> Graph:
    """Return the graph that `pack` wrote, after a check of its form; `read` returns a constant."""
    if not isinstance(content, dict) or set(content) != {"constants", "nodes", "outputs"}:
        raise type_error("graph", "have constants, nodes and outputs", type(content).__name__)
    graph = Graph()
    names = list(INPUTS)
    for each in content["constants"]:
        names.append(f"/constant{len(graph.constants)}")
        graph.constants[names[-1]] = read(_stored(each))
    if len(content["nodes"]) > MOST_NODES:
        raise argument_error("nodes", f"be at most {MOST_NODES}", len(content["nodes"]))
    for operation, inputs, attributes in content["nodes"]:
        check_choice(operation, "operation", OPERATIONS)
        if not isinstance(attributes, dict) or not all(
            type(place) is int and 0 <= place < len(names) for place in inputs
        ):
            raise argument_error("inputs", f"be from 0 to {len(names) - 1}, the values before", inputs)
        names.append(f"/value{len(graph.nodes)}")
        graph.nodes.append(Node(operation, tuple(names[place] for place in inputs), names[-1], attributes))
    for name, place in content["outputs"].items():
        if type(place) is not int or not 0 <= place < len(names):
            raise argument_error("outputs", f"be from 0 to {len(names) - 1}", place)
        graph.outputs[name] = names[place]
    return graph


def _stored(content: Any) -> StoredConstant:
    array, start, shape, dtype = content
    check_choice(dtype, "dtype", POOLS)
    if (
        not isinstance(shape, list)
        or len(shape) > MOST_AXES
        or not all(type(n) is int and n >= 0 for n in [start, *shape])
    ):
        raise argument_error("shape", "have lengths of at least 0", shape)
    return StoredConstant(array, start, tuple(shape), dtype)
