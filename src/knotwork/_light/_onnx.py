"""A predictor as one ONNX model: from raw numbers and categories to predictions.

The package onnx is imported only when a model is exported: this module can be imported without it.
"""

import json
from typing import Any

import numpy as np

from knotwork._checks import argument_error, check_installed
from knotwork._graph import OPERATIONS, Array, Forest, Graph, Node
from knotwork._light._conversions import column_contents
from knotwork._light._onnx_trees import add_forest
from knotwork._light._predictor import Predictor
from knotwork._preparation.columns import Columns
from knotwork._preparation.learning import Role
from knotwork._preparation.targets import Labels

OPSETS = {"": 18, "ai.onnx.ml": 4}
IR_VERSION = 9
ONNX_TYPES = {"float32": 1, "float64": 11, "int64": 7, "int32": 6, "object": 8, "bool": 9, "uint64": 13}
"""The types of values, as ``onnx.TensorProto`` numbers them; text is of type object."""

DOMAINS = {"LabelEncoder": "ai.onnx.ml", "TreeEnsembleRegressor": "ai.onnx.ml"}
"""The domains of operations that are not in the default one."""

NUMBERS_INPUT = "numbers"
RESERVED = (NUMBERS_INPUT, "codes", "prediction", "std", "probabilities", "label", "")
LARGEST_EXACT = 2**53
"""Floats represent every whole number up to this one exactly."""

EXPORTED = ("prediction", "std", "probabilities")
"""The outputs of graphs that a file has."""


def onnx_model(predictor: Predictor) -> bytes:
    """Return the content of an ONNX file for any number of rows, see `TabularEstimator.export_onnx`."""
    check_installed("export_onnx", "onnx", "onnx")
    import onnx  # noqa: PLC0415 - optional

    names = [name for name in EXPORTED if name in predictor.graph.outputs]
    given = predictor.graph.needed(names)
    columns = predictor.columns
    graph = Graph()
    inputs, codes = _add_inputs(graph, columns)
    values = {NUMBERS_INPUT: NUMBERS_INPUT, "codes": codes}
    for node in given.nodes:
        values[node.output] = _lowered(graph, node, values, given.constants)
    outputs: dict[str, tuple[int, tuple[int | str, ...]]] = {}
    row = np.zeros((1, len(columns.numerical_names))), np.zeros((1, len(columns.cardinalities)), dtype=np.int64)
    shapes = {name: value.shape for name, value in predictor.program(*names)(*row).items()}
    for name in names:
        graph.outputs[name] = values[given.outputs[name]]
        outputs[name] = ONNX_TYPES["float64"], ("n", *shapes[name][1:])
    if predictor.labels is not None:
        classes, type_ = _classes(predictor.labels)
        best = graph("ArgMax", graph.outputs["probabilities"], axis=1, keepdims=0)
        graph.outputs["label"] = graph("Gather", classes, best, axis=0)
        outputs["label"] = type_, ("n",)
    model = _made(onnx, graph.needed(list(graph.outputs)), inputs, outputs)
    about = {"numbers": columns.numerical_names, "categories": input_names(columns)}
    contents = {"knotwork": json.dumps(about), "columns": json.dumps(column_contents(columns))}
    onnx.helper.set_model_props(model, contents)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _made(onnx: Any, graph: Graph, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """Return a model of the package onnx."""
    make, tensor = onnx.helper, onnx.numpy_helper.from_array
    nodes = [
        make.make_node(node.operation, node.inputs, [node.output], domain=DOMAINS.get(node.operation, ""), **{
            key: tensor(value, key) if isinstance(value, np.ndarray) else ONNX_TYPES[value] if key == "to" else value
            for key, value in node.attributes.items()
        })
        for node in graph.nodes
    ]  # fmt: skip
    nodes += [make.make_node("Identity", [value], [name]) for name, value in graph.outputs.items()]
    constants = [tensor(array, name) for name, array in graph.constants.items()]
    ends = [
        [make.make_tensor_value_info(name, type_, shape) for name, (type_, shape) in each.items()]
        for each in (inputs, outputs)
    ]
    complete = make.make_graph(nodes, "knotwork", *ends, initializer=constants)
    opsets = [make.make_opsetid(*opset) for opset in OPSETS.items()]
    return make.make_model(complete, opset_imports=opsets, ir_version=IR_VERSION, producer_name="knotwork")


def _lowered(graph: Graph, node: Node, values: dict[str, str], constants: dict[str, Array]) -> str:
    """Add a node in the operations of ONNX; `values` has the names of the results before it."""
    for name in node.inputs:
        if name in constants and name not in values and node.operation != "Trees":
            values[name] = graph.constant(constants[name])
    if node.operation == "Trees":
        forest = Forest(node.attributes["n_numerical"], *(constants[name] for name in node.inputs[2:]))
        return add_forest(graph, forest, values[NUMBERS_INPUT], values["codes"])
    inputs = [values[name] for name in node.inputs]
    expand = OPERATIONS[node.operation].expand
    return (graph.__call__ if expand is None else _expanding(graph, expand))(node.operation, *inputs, **node.attributes)


def _expanding(graph: Graph, expand: Any) -> Any:
    return lambda operation, *inputs, **attributes: expand(graph, *inputs, **attributes)


def input_names(columns: Columns) -> list[str]:
    """Return the names of the inputs of the categorical columns, without duplicates."""
    taken = set(RESERVED) | set(columns.names or ())
    inputs = []
    for place, column in enumerate(columns):
        if column.role == Role.CATEGORICAL:
            name = f"column_{place}" if column.name is None else column.name
            if name in RESERVED or name.startswith("/"):
                name = f"column_{place}"
                while name in taken:
                    name += "_"
                taken.add(name)
            inputs.append(name)
    return inputs


def _add_inputs(graph: Graph, columns: Columns) -> tuple[dict[str, Any], str]:
    """Add the codes of categories; return type and shape of each input, and the name of the codes."""
    inputs: dict[str, Any] = {}
    n_numerical = len(columns.numerical_names)
    if n_numerical:
        inputs[NUMBERS_INPUT] = ONNX_TYPES["float64"], ("n", n_numerical)
    codes = []
    for name, column in zip(input_names(columns), columns.categorical.values(), strict=True):
        type_, code = _add_codes(graph, name, column.kind, column.categories)
        inputs[name] = type_, ("n", 1)
        codes.append(code)
    return inputs, graph.join(codes, 1) if codes else ""


def _add_codes(graph: Graph, name: str, kind: str, categories: tuple[Any, ...]) -> tuple[int, str]:
    """Add the codes of a categorical column; return the type of its input, and their name."""
    values = name
    if kind in ("text", "mixed"):
        keys = np.array(categories, dtype=object)
    elif any(isinstance(category, int) and abs(category) > LARGEST_EXACT for category in categories):
        if not all(isinstance(category, int) and abs(category) < 2**63 for category in categories):
            raise argument_error("categories", "be whole numbers within int64, or all at most 2**53", name)
        keys = np.array(categories, dtype=np.int64)
    else:
        keys = np.array(categories or [np.nan], dtype=np.float64)
        values = graph("Add", name, np.float64(0.0))  # -0 becomes 0
    codes = np.arange(1, len(keys) + 1) if categories else np.zeros(1, dtype=np.int64)
    tables = {"keys_tensor": keys, "values_tensor": codes.astype(np.int64), "default_tensor": np.zeros(1, np.int64)}
    return ONNX_TYPES[keys.dtype.name], graph("LabelEncoder", values, **tables)


def _classes(labels: Labels) -> tuple[Array, int]:
    """Return the classes in a type that ONNX has, and the type."""
    kind = type(labels.values[0])
    if kind is int:
        dtype = "int64" if labels.values[-1] < 2**63 else "uint64"
        return labels.classes.astype(dtype), ONNX_TYPES[dtype]
    types: dict[type, str] = {str: "object", float: "float64", bool: "bool"}
    return np.array(labels.values, dtype=types[kind]), ONNX_TYPES[types[kind]]
