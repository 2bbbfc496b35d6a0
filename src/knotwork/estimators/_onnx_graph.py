"""A graph of ONNX in the making, and the encoding of numbers in it: comparisons, sums and products.

The package onnx is imported where the graph is put together: all of this can be imported without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from knotwork._kernels.encoding import AFFINE, NORM_EPSILON, NORMALISED, TAILS, UNIT_AREA, Part
from knotwork.nn._stack import FARTHEST, StackEncoding

__all__ = ["Graph", "as_numpy", "encode_member"]

Array = npt.NDArray[Any]


def as_numpy(tensor: Tensor) -> Array:
    """Return a tensor as an array on the CPU."""
    array: Array = tensor.detach().cpu().numpy()
    return array


@dataclass(frozen=True)
class Graph:
    """Nodes and constants, to which every call adds one.

    Names of values begin with a stroke, so that they differ from those of inputs.

    Parameters
    ----------
    nodes : list
        The nodes.
    constants : list
        The tensors that they use.
    """

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a tensor and return its name; text is of type object."""
        from onnx import numpy_helper  # noqa: PLC0415 - optional

        name = f"/constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype=dtype, order="C"), name))
        return name

    def __call__(self, operation: str, *inputs: Any, name: str = "", domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result.

        Parameters
        ----------
        operation : str
            The operator.
        *inputs : str or ndarray
            Names of values, or constants.
        name : str, default=""
            Name of the result; by default a new one.
        domain : str, default=""
            Where the operator is defined.
        **attributes
            Its attributes.
        """
        from onnx import helper  # noqa: PLC0415 - optional

        given = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        name = name or f"/value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, given, [name], domain=domain, **attributes))
        return name

    def ints(self, *values: int) -> str:
        """Add integers and return their name."""
        return self.constant(values, np.int64)

    def reshape(self, value: str, *shape: int) -> str:
        """Give a value another shape; 0 keeps the length of an axis, -1 is what remains."""
        return self("Reshape", value, self.ints(*shape))

    def join(self, values: Sequence[str], axis: int) -> str:
        """Put values side by side along an axis."""
        return values[0] if len(values) == 1 else self("Concat", *values, axis=axis)

    def total(self, value: str) -> str:
        """Sum the last axis and keep it."""
        return self("ReduceSum", value, self.ints(-1), keepdims=1)


def encode_member(graph: Graph, numbers: str, missing: str, *, encoding: StackEncoding, member: int) -> str:
    """Add the encoding of one member.

    Parameters
    ----------
    graph : Graph
        What is added to.
    numbers, missing : str
        Names of the numbers in their units, float32 of shape (n, n_features), finite, and of where they are missing.
    encoding : StackEncoding
        The encoding.
    member : int
        The member.

    Returns
    -------
    str
        Name of the blocks, float32 of shape (n, n_features, size).
    """
    low, scale = as_numpy(encoding.low[member]), as_numpy(encoding.scale[member])
    values = graph("Div", graph("Sub", numbers, low), scale)
    values = graph("Clip", values, np.float32(-FARTHEST), np.float32(FARTHEST))
    breaks, n_knots = as_numpy(encoding.spacings()[0][member]), as_numpy(encoding.n_knots[member])
    own = [part for part in encoding.layout.parts if part.start <= member < part.stop]
    blocks: list[str] = []
    order: list[int] = []
    for part in own:
        features = np.arange(len(low)) if part.features is None else np.array(part.features)
        order.extend(features.tolist())
        there = [graph("Gather", each, features.astype(np.int64), axis=1) for each in (values, missing)]
        x, gone = (graph("Unsqueeze", each, graph.ints(2)) for each in there)
        rows, width = _rows(graph, x, part=part, breaks=breaks[features], n_knots=n_knots[features])
        rows = graph("Where", gone, np.float32(0.0), rows)
        blocks.append(graph("Pad", rows, graph.ints(0, 0, 0, 0, 0, encoding.layout.size - width)))
    joined = graph.join(blocks, 1)
    if order == sorted(order):
        return joined
    return graph("Gather", joined, np.argsort(order).astype(np.int64), axis=1)


def _rows(graph: Graph, x: str, *, part: Part, breaks: Array, n_knots: Array) -> tuple[str, int]:
    """Add the functions of one part at x of shape (n, f, 1); return the name of (n, f, width), and the width."""
    if part.kind == AFFINE:
        return x, 1
    x = graph("Clip", x, np.float32(0.0), np.float32(1.0))
    degree, most = part.degree, int(n_knots.max())
    knots = _repeated(breaks, n_knots, degree)
    rows = _splines(graph, x, knots=knots, n_knots=n_knots, degree=degree)
    if part.kind == TAILS:
        beyond = graph("Slice", rows, graph.ints(1), graph.ints(most + degree + 1), graph.ints(2))
        return graph("CumSum", beyond, graph.constant(2, np.int64), reverse=1), most + degree
    width = most + degree + 1
    if part.kind in (UNIT_AREA, NORMALISED):
        rows = graph("Div", graph("Mul", rows, np.float32(degree + 1)), _widths(knots, degree + 1))
    if part.kind == NORMALISED:
        rows = _normalised(graph, rows, sizes=n_knots + degree + 1, width=width)
    return rows, width


def _repeated(breaks: Array, n_knots: Array, degree: int) -> Array:
    """Return the knots with both ends `degree` times more, padded with ones, of shape (f, K + 2 + 2 degree)."""
    most = int(n_knots.max())
    knots = np.ones((len(breaks), most + 2 + 2 * degree), dtype=np.float32)
    knots[:, :degree] = 0.0
    knots[:, degree : degree + most + 2] = breaks[:, : most + 2]
    return knots


def _widths(knots: Array, order: int) -> Array:
    """Return ``knots[i + order] - knots[i]``, and 1 where that is 0: there the functions are 0."""
    widths = knots[:, order:] - knots[:, : knots.shape[1] - order]
    return np.where(widths > 0, widths, np.float32(1.0))


def _splines(graph: Graph, x: str, *, knots: Array, n_knots: Array, degree: int) -> str:
    """Add B-splines at x by the recursion of Cox and de Boor, all of them, from which interval x is in.

    With u = v / (t[i + q] - t[i]) for v of degree q - 1, the next are (x - t[i]) u[i] + (t[i + q + 1] - x) u[i + 1].
    """
    n_intervals = knots.shape[1] - 1
    first = np.full((len(knots), n_intervals), np.inf, dtype=np.float32)
    after = np.full((len(knots), n_intervals), np.inf, dtype=np.float32)
    for feature, count in enumerate(n_knots):
        own = slice(degree, degree + count + 1)
        first[feature, own] = knots[feature, own]
        after[feature, degree : degree + count] = knots[feature, degree + 1 : degree + count + 1]
    values = graph("Cast", graph("And", graph("GreaterOrEqual", x, first), graph("Less", x, after)), to=1)
    for q in range(1, degree + 1):
        left, right = knots[:, : n_intervals - q + 1], knots[:, q : n_intervals + 1]
        share = graph("Div", values, _widths(knots, q))
        rising = graph("Mul", graph("Sub", x, left), share)
        falling = graph("Mul", graph("Sub", right, x), share)
        end = n_intervals - q
        rising = graph("Slice", rising, graph.ints(0), graph.ints(end), graph.ints(2))
        falling = graph("Slice", falling, graph.ints(1), graph.ints(end + 1), graph.ints(2))
        values = graph("Add", rising, falling)
    return values


def _normalised(graph: Graph, rows: str, *, sizes: Array, width: int) -> str:
    """Add LayerNorm without parameters over the first columns of each feature."""
    counts = sizes.astype(np.float32)[:, None]
    used = (np.arange(width) < sizes[:, None]).astype(np.float32)
    centred = graph("Mul", graph("Sub", rows, graph("Div", graph.total(rows), counts)), used)
    variance = graph("Div", graph.total(graph("Mul", centred, centred)), counts)
    return graph("Div", centred, graph("Sqrt", graph("Add", variance, np.float32(NORM_EPSILON))))
