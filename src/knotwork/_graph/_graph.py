"""The graph of a model: what networks, objectives, encodings and trees write their nodes to, for any runtime.

A graph is written by hand, not traced: a trace of the same networks in plain torch takes 5 to 13 seconds, not 0.06 at
most, needs further packages, and fixes the number of rows of FT-Transformers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FLOAT, DOUBLE = "float32", "float64"
"""The types of values."""

EPSILON = 1e-5
"""Batch and layer normalisation add this to the variance."""

SHARED_BYTES = 64
"""Constants up to this length are kept once: most are axes and limits."""


def as_numpy(tensor: Any) -> Array:
    """Return a tensor of torch as an array, which shares its memory if it is on the CPU."""
    array: Array = tensor.detach().cpu().numpy()
    return array


@final
@dataclass(frozen=True)
class Node:
    """One operation of a graph, an entry of `knotwork._graph.OPERATIONS`.

    Parameters
    ----------
    operation : str
        Its name.
    inputs : tuple of str
        Names of values: inputs of the graph, constants, and outputs of nodes before it.
    output : str
        Name of its result.
    attributes : dict
        Its settings: numbers, words, and lists of whole numbers.
    """

    operation: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]


@final
@dataclass(frozen=True)
class Graph:
    """Nodes and constants of a model under construction; every call adds a node and returns the name of its result.

    Operations, their inputs and attributes are those of ONNX, with types by name (``to="float32"``). Names of values
    begin with a slash; names of inputs never do.

    Parameters
    ----------
    nodes : list of Node
        The operations, each after those whose results it takes.
    constants : dict
        Arrays by name.
    outputs : dict
        Names of values, by the names of the outputs of the model.

    Examples
    --------
    In the method ``to_graph`` of a network with a layer `first`::

        hidden = graph("Relu", graph.linear(rows, self.first, member))
    """

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    _shared: dict[Any, str] = field(default_factory=dict, repr=False)

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add an array and return its name."""
        array = np.asarray(values, dtype=dtype, order="C")
        key = (array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= SHARED_BYTES else None
        if key is None or key not in self._shared:
            self._shared[key] = name = f"/constant{len(self.constants)}"
            self.constants[name] = array
        return self._shared[key]

    def __call__(self, operation: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node and return the name of its result; inputs are names of values, or arrays."""
        names = tuple(value if isinstance(value, str) else self.constant(value) for value in inputs)
        self.nodes.append(Node(operation, names, f"/value{len(self.nodes)}", attributes))
        return self.nodes[-1].output

    def ints(self, *values: int) -> str:
        """Add integers and return their name."""
        return self.constant(values, np.int64)

    def reshape(self, value: str, *shape: int) -> str:
        """Change the shape of a value; 0 keeps the length of an axis, one length may be -1."""
        return self("Reshape", value, self.ints(*shape))

    def join(self, values: Sequence[str], axis: int) -> str:
        """Concatenate values along an axis."""
        return values[0] if len(values) == 1 else self("Concat", *values, axis=axis)

    def slice(self, value: str, start: int, stop: int, *, axis: int) -> str:
        """Take a range along an axis."""
        return self("Slice", value, self.ints(start), self.ints(stop), self.ints(axis))

    def pick(self, values: str, place: int) -> str:
        """Take one place of the last of three axes."""
        return self("Gather", values, self.constant(place, np.int64), axis=2)

    def total(self, value: str) -> str:
        """Sum over the last axis and keep it."""
        return self("ReduceSum", value, self.ints(-1), keepdims=1)

    def linear(self, rows: str, layer: Any, member: int) -> str:
        """Add the linear layer of a member, a `knotwork.nn.Linear`."""
        product = self("MatMul", rows, as_numpy(layer.weight[member]))
        return product if layer.bias is None else self("Add", product, as_numpy(layer.bias[member]))

    def look_up(self, codes: str, table: Any, starts: Any) -> str:
        """Add the vectors of codes, of shape (n, n_categorical, width); `starts` has the first row of each column."""
        return self("Gather", as_numpy(table), self("Add", codes, as_numpy(starts)), axis=0)

    def softplus(self, values: str) -> str:
        """Add ``log(1 + exp(x))`` of float64 values; the form does not overflow, and runtimes have its operations."""
        falling = self("Exp", self("Neg", self("Abs", values)))
        return self("Add", self("Max", values, np.float64(0.0)), self("Log", self("Add", falling, np.float64(1.0))))

    def needed(self, outputs: Sequence[str]) -> "Graph":
        """Return the graph of some outputs, without nodes and constants that these do not need."""
        wanted = {self.outputs[name] for name in outputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.output in wanted:
                wanted.update(node.inputs)
                kept.append(node)
        constants = {name: array for name, array in self.constants.items() if name in wanted}
        return Graph(kept[::-1], constants, {name: self.outputs[name] for name in outputs})
