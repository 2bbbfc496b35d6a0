"""Nodes of the same form as one: the members of a model differ in their constants, which get a leading axis of lanes.

Two nodes have the same form if their operations and attributes are equal, and their inputs have the same forms; the
form of a constant is its type and shape. Nodes of one form are computed together, with arrays of shape (lanes, ...), so
that one row of an ensemble takes little longer than one of a single member.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from knotwork._graph._graph import Array, Graph, Node
from knotwork._graph._operations import OPERATIONS

EQUAL_BYTES = 4096
"""Constants up to this length are compared: equal ones are one."""

Source = tuple[Any, int | None]
"""A value by its name or form, and the lane of it that is meant; None for all."""


@dataclass(frozen=True)
class Step:
    """One computation.

    Parameters
    ----------
    call : callable
        Takes arrays, with lanes where they have them.
    sources : tuple of Source
        Its inputs.
    target : object
        The name of its result, or its form if it has lanes.
    """

    call: Callable[..., Array]
    sources: tuple[Source, ...]
    target: Any


def plan(graph: Graph, ranks: Mapping[str, int]) -> tuple[list[Step], dict[Any, Array], dict[str, Source]]:
    """Return the steps of a graph, the constants that they take, and where each of its outputs is.

    Parameters
    ----------
    graph : Graph
        The graph.
    ranks : mapping
        The number of axes of each value.
    """
    forms, nodes, names = _forms(graph)
    lanes: dict[Any, list[str]] = {}
    for name in nodes:
        lanes.setdefault(forms[name], []).append(name)
    where: dict[str, Source] = {
        name: (name, None) if len(members) == 1 else (form, lane)
        for form, members in lanes.items()
        for lane, name in enumerate(members)
    }
    constants: dict[Any, Array] = {}
    steps = []
    for form, members in sorted(lanes.items(), key=lambda each: each[0][0]):  # deeper forms come later
        inputs = list(zip(*(nodes[name].inputs for name in members), strict=True))
        node = nodes[members[0]]
        sources, stacked = [], []
        for given in inputs:
            source, has_lanes = _source(given, where, lanes, forms)
            if isinstance(source[0], tuple) and source[0][0] == "constants":
                constants[source[0]] = np.stack([graph.constants[name] for name in given])
            elif source[0] in graph.constants:
                constants[source[0]] = graph.constants[source[0]]
            sources.append(source)
            stacked.append(has_lanes)
        call = partial(OPERATIONS[node.operation].function, **node.attributes)
        if len(members) == 1:
            steps.append(Step(call, tuple(sources), members[0]))
            continue
        n_axes = [ranks[name] for name in node.inputs]
        together = _together(node, call, stacked, n_axes, ranks[node.output])
        steps.append(Step(together, tuple(sources), form))
    outputs = {name: where.get(names.get(value, value), (value, None)) for name, value in graph.outputs.items()}
    return steps, constants, outputs


def _forms(graph: Graph) -> tuple[dict[str, Any], dict[str, Node], dict[str, str]]:
    """Return the form of each value, the nodes without repetitions, and the names that others stand for."""
    forms: dict[str, Any] = {"numbers": (0, "numbers"), "codes": (0, "codes")}
    names: dict[str, str] = {}
    seen: dict[Any, str] = {}
    numbering: dict[Any, int] = {}
    for name, array in graph.constants.items():
        about = (array.dtype.str, array.shape)
        forms[name] = (0, *about)
        if array.nbytes <= EQUAL_BYTES:
            names[name] = seen.setdefault((*about, array.tobytes()), name)
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        inputs = tuple(names.get(name, name) for name in node.inputs)
        attributes = repr(node.attributes)
        first = seen.setdefault((node.operation, attributes, inputs), node.output)
        if first != node.output:
            names[node.output] = first
            continue
        depth = 1 + max((forms[name][0] for name in inputs), default=0)
        key = (node.operation, attributes, tuple(forms[name] for name in inputs))
        forms[node.output] = (depth, numbering.setdefault(key, len(numbering)))
        nodes[node.output] = Node(node.operation, inputs, node.output, node.attributes)
    return forms, nodes, names


def _source(
    given: tuple[str, ...], where: Mapping[str, Source], lanes: Mapping[Any, list[str]], forms: Mapping[str, Any]
) -> tuple[Source, bool]:
    """Return where an input of all members of a form is, and whether it has lanes."""
    first = given[0]
    if len(set(given)) == 1:
        return where.get(first, (first, None)), False
    if first not in where:
        return (("constants", given), None), True
    if lanes[forms[first]] == list(given):
        return (forms[first], None), True
    return (("some", tuple(where[name] for name in given)), None), True


def _together(
    node: Node, call: Callable[..., Array], stacked: list[bool], n_axes: list[int], n_axes_out: int
) -> Callable[..., Array]:
    """Return an operation for all lanes; `n_axes` are those of each input and of the result, without lanes."""
    operation = node.operation
    if OPERATIONS[operation].code or operation in ("Sum", "MatMul", "LayerNormalization"):
        return _aligned(call, stacked, n_axes, n_axes_out)
    if operation == "Splines" and all(stacked):
        return _splines(call)
    if operation in WITH_LANES and stacked[0] and not any(stacked[1:]):
        return WITH_LANES[operation](call, node.attributes, n_axes[0])
    return _one_by_one(call, stacked)


def _after(axes: Array) -> Array:
    """Return places of axes after the lanes; negative ones count from the end."""
    return np.where(axes >= 0, axes + 1, axes)


def _by_attribute(call: Any, attributes: Mapping[str, Any], n_axes: int) -> Callable[..., Array]:
    del n_axes
    return partial(call.func, **{**attributes, "axis": int(_after(np.array(attributes["axis"])))})


def _by_input(call: Any, attributes: Mapping[str, Any], n_axes: int) -> Callable[..., Array]:
    del attributes, n_axes
    return lambda x, *given: call(x, *given[:-1], _after(given[-1]))


def _transposed(call: Any, attributes: Mapping[str, Any], n_axes: int) -> Callable[..., Array]:
    del call, n_axes
    perm = [0, *(axis + 1 for axis in attributes["perm"])]
    return lambda x: x.transpose(perm)


def _reshaped(call: Any, attributes: Mapping[str, Any], n_axes: int) -> Callable[..., Array]:
    del call, attributes, n_axes
    return lambda x, shape: x.reshape(len(x), *(n or x.shape[place] for place, n in enumerate(shape.tolist(), 1)))


def _padded(call: Any, attributes: Mapping[str, Any], n_axes: int) -> Callable[..., Array]:
    del attributes
    return lambda x, pads: call(x, np.concatenate([[0], pads[:n_axes], [0], pads[n_axes:]]))


WITH_LANES: dict[str, Callable[[Any, Mapping[str, Any], int], Callable[..., Array]]] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Flatten", "Gather"), _by_attribute),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceLogSumExp", "Unsqueeze", "CumSum", "Slice"), _by_input),
    "Pad": _padded,
    "Reshape": _reshaped,
    "Transpose": _transposed,
}
"""Operations whose first input alone has lanes: their axes come after these."""


def _aligned(
    call: Callable[..., Array], stacked: list[bool], n_axes: list[int], n_axes_out: int
) -> Callable[..., Array]:
    """Return an operation whose inputs have the lanes in front of as many axes as the result."""
    missing = [n_axes_out - n if has_lanes else 0 for has_lanes, n in zip(stacked, n_axes, strict=True)]
    if not any(missing):
        return call

    def together(*given: Array) -> Array:
        wide = [
            x.reshape(len(x), *([1] * more), *x.shape[1:]) if more else x
            for x, more in zip(given, missing, strict=True)
        ]
        return call(*wide)

    return together


def _splines(call: Callable[..., Array]) -> Callable[..., Array]:
    """Return splines of all lanes as those of more features."""

    def together(x: Array, knots: Array, n_knots: Array) -> Array:
        n_lanes, n_rows, n_features = x.shape[:3]
        flat = np.ascontiguousarray(x[..., 0].transpose(1, 0, 2)).reshape(n_rows, -1, 1)
        rows = call(flat, knots.reshape(-1, knots.shape[-1]), n_knots.reshape(-1))
        return rows.reshape(n_rows, n_lanes, n_features, -1).transpose(1, 0, 2, 3)

    return together


def _one_by_one(call: Callable[..., Array], stacked: list[bool]) -> Callable[..., Array]:
    """Return an operation that takes one lane after the other."""

    def together(*given: Array) -> Array:
        n_lanes = next(len(x) for x, has_lanes in zip(given, stacked, strict=True) if has_lanes)
        return np.stack(
            [
                call(*(x[lane] if has_lanes else x for x, has_lanes in zip(given, stacked, strict=True)))
                for lane in range(n_lanes)
            ]
        )

    return together
