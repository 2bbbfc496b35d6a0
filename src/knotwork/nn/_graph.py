"""The graph of an ONNX model: what networks and objectives write their nodes to.

The graph is written by hand. ``torch.onnx.export`` of the same networks in plain torch (torch 2.13, onnxscript 0.7)
takes 5 to 13 seconds, not 0.06 at most, needs onnxscript and onnx_ir, and writes files of three to six times the size.
It fixes the number of rows of FT-Transformers, and onnxruntime has no Softplus in float64, which ``"gaussian"`` gets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from knotwork.nn._linear import Linear

Array = npt.NDArray[Any]

FLOAT, DOUBLE = 1, 11
"""The type of values, as ``onnx.TensorProto`` numbers it."""

EPSILON = 1e-5
"""Batch and layer normalisation add this to the variance."""


def as_numpy(tensor: Tensor) -> Array:
    """Return a tensor as an array."""
    array: Array = tensor.detach().cpu().numpy()
    return array


@final
@dataclass(frozen=True)
class OnnxGraph:
    """Nodes and constants of an ONNX model under construction; every call adds a node and returns its name.

    Names of values begin with a slash; names of inputs never do.

    Parameters
    ----------
    onnx : module
        The package onnx, which is optional.

    Examples
    --------
    In the method ``to_onnx`` of a network with a layer `first`::

        hidden = graph("Relu", graph.linear(rows, self.first, member))
    """

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a tensor and return its name; text is of type object."""
        name = f"/constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(values, dtype=dtype, order="C"), name))
        return name

    def __call__(self, operation: str, *inputs: Any, name: str = "", domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result; inputs are names of values, or arrays."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        name = name or f"/value{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operation, names, [name], domain=domain, **attributes))
        return name

    def describe(self, name: str, kind: int, *shape: int | str) -> Any:
        """Return the description of an input or output of the model."""
        return self.onnx.helper.make_tensor_value_info(name, kind, shape)

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

    def total(self, value: str) -> str:
        """Sum over the last axis and keep it."""
        return self("ReduceSum", value, self.ints(-1), keepdims=1)

    def linear(self, rows: str, layer: Linear, member: int) -> str:
        """Add the linear layer of a member."""
        product = self("MatMul", rows, as_numpy(layer.weight[member]))
        return product if layer.bias is None else self("Add", product, as_numpy(layer.bias[member]))

    def look_up(self, codes: str, table: Tensor, starts: Tensor) -> str:
        """Add the vectors of codes, of shape (n, n_categorical, width); `starts` has the first row of each column."""
        return self("Gather", as_numpy(table), self("Add", codes, as_numpy(starts)), axis=0)

    def softplus(self, values: str) -> str:
        """Add ``log(1 + exp(x))`` of float64 values; the form does not overflow, and runtimes have its operations."""
        falling = self("Exp", self("Neg", self("Abs", values)))
        return self("Add", self("Max", values, np.float64(0.0)), self("Log", self("Add", falling, np.float64(1.0))))
