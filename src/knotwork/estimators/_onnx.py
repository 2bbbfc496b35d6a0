"""A fitted estimator as one ONNX model: from raw numbers and categories to predictions."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from knotwork._checks import argument_error, check_installed
from knotwork._files import write_atomically
from knotwork._preparation.columns import LARGEST
from knotwork._preparation.targets import Labels
from knotwork.estimators._estimators import TabularClassifier, TabularEstimator
from knotwork.estimators._onnx_graph import Graph, encode_member
from knotwork.estimators._onnx_networks import NETWORKS, run_member
from knotwork.training._results import Piece

__all__ = ["export_onnx"]

OPSETS = {"": 18, "ai.onnx.ml": 4}
IR_VERSION = 9
NUMBERS = "numbers"
RESERVED = (NUMBERS, "prediction", "probabilities", "label", "")
LARGEST_EXACT = 2**53
"""Whole numbers up to this are floats of their own."""


def export_onnx(estimator: TabularEstimator, path: str | Path) -> None:
    """Write the whole predictor as an ONNX model for any number of rows.

    Networks of a backbone that is not the library's own are refused.

    Parameters
    ----------
    estimator : TabularRegressor or TabularClassifier
        A fitted estimator.
    path : str or Path
        The file; it is replaced if it is there.

    Notes
    -----
    Inputs: ``numbers``, float64 of shape (n, n_numerical), the numerical columns in the order of the fit, NaN where
    missing; and for each categorical column one of shape (n, 1) with its name (``column_2`` if it has none): text for
    columns of text, otherwise float64, or int64 where categories are whole numbers beyond 2**53. Truth values are 0
    and 1. What was not seen when fitting is as good as missing; so is NaN, and the empty text unless it is a category.
    The model's metadata has the columns of ``numbers`` and the inputs of the others under the key ``knotwork``.

    Outputs: ``prediction``, float64 of shape (n,); for classes ``probabilities``, float64 of shape (n, n_classes), and
    ``label`` of shape (n,): text, whole numbers, float64 or truth values.
    """
    _check_networks(estimator)
    check_installed("export_onnx", "onnx", "onnx")
    import onnx  # noqa: PLC0415 - optional

    graph = Graph()
    infos, numbers, codes, missing = _inputs(graph, estimator)
    outputs = [
        _member_outputs(graph, piece, place, numbers, codes, missing)
        for piece in estimator.trained_.pieces
        for place in range(len(piece.places))
    ]
    weights = [float(estimator.weights_[place]) for piece in estimator.trained_.pieces for place in piece.places]
    if isinstance(estimator, TabularClassifier):
        ends = _class_outputs(graph, outputs, weights, estimator.labels_)
    else:
        ends = _number_output(graph, outputs, weights)
    whole = onnx.helper.make_graph(graph.nodes, "knotwork", infos, ends, initializer=graph.constants)
    opsets = [onnx.helper.make_opsetid(*each) for each in OPSETS.items()]
    model = onnx.helper.make_model(whole, opset_imports=opsets, ir_version=IR_VERSION, producer_name="knotwork")
    onnx.helper.set_model_props(model, {"knotwork": json.dumps(_description(estimator))})
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    write_atomically(path, lambda file: file.write(content))


def _check_networks(estimator: TabularEstimator) -> None:
    """Refuse networks whose operations are not known here."""
    for piece in estimator.trained_.pieces:
        made = type(piece.network.backbone)
        if made not in NETWORKS:
            raise argument_error(
                "backbone",
                "build a network that ONNX export knows: MLP, ResNet or FTTransformer",
                estimator.backbone_,
                f"{made.__name__} has no translation to ONNX: keep the model with save and serve it with "
                "knotwork.load, or fit with backbone='mlp', 'resnet' or 'ft'.",
            )
        for part in piece.network.encoding.layout.parts:
            if part.family:
                raise argument_error(
                    "encoding",
                    "be of a built-in family to be exported to ONNX",
                    part.family,
                    "Keep the model with save and serve it with knotwork.load.",
                )


def _description(estimator: TabularEstimator) -> dict[str, Any]:
    """Return which columns of the table are which inputs."""
    return {"numbers": estimator.columns_.numerical_names, "categories": _input_names(estimator)}


def _input_names(estimator: TabularEstimator) -> list[str]:
    """Return the inputs of the categorical columns, all different."""
    names = estimator.columns_.names
    taken = set(RESERVED) | set(names or ())
    out = []
    for place, role in enumerate(estimator.columns_.roles):
        if role == "categorical":
            own = f"column_{place}" if names is None else names[place]
            if own in RESERVED or own.startswith("/"):
                own = f"column_{place}"
                while own in taken:
                    own += "_"
                taken.add(own)
            out.append(own)
    return out


def _inputs(graph: Graph, estimator: TabularEstimator) -> tuple[list[Any], str | None, str | None, str | None]:
    """Add the inputs; return what describes them, the numbers in their units, the codes, and what is missing."""
    import onnx  # noqa: PLC0415 - optional

    columns, infos, codes = estimator.columns_, [], []
    numbers = missing = None
    n_numerical = columns.roles.count("numerical")
    if n_numerical:
        infos.append(onnx.helper.make_tensor_value_info(NUMBERS, onnx.TensorProto.DOUBLE, ["n", n_numerical]))
        numbers, missing = _in_units(graph, estimator.trained_.units)
    kinds = [kind for role, kind in zip(columns.roles, columns.kinds, strict=True) if role == "categorical"]
    for name, kind, categories in zip(_input_names(estimator), kinds, columns.categories, strict=True):
        info, code = _codes(graph, name, kind, categories)
        infos.append(info)
        codes.append(code)
    if estimator.indicated_ and missing is not None:
        there = graph("Gather", missing, np.array(estimator.indicated_, dtype=np.int64), axis=1)
        codes.append(graph("Where", there, graph.ints(1), graph.ints(2)))
    return infos, numbers, graph.join(codes, 1) if codes else None, missing


def _in_units(graph: Graph, units: Any) -> tuple[str, str]:
    """Add the numbers in their units, in float32, with the origin where they are missing, and where they are."""
    missing = graph("IsNaN", NUMBERS)
    limit = float(np.finfo(np.float32).max) / 4
    known = graph("Where", missing, units[0], NUMBERS)
    bounded = graph("Clip", known, np.float64(-LARGEST), np.float64(LARGEST))
    halves = graph("Sub", graph("Mul", bounded, np.float64(0.5)), 0.5 * units[0])
    scaled = graph("Clip", graph("Div", halves, 0.5 * units[1]), np.float64(-limit), np.float64(limit))
    return graph("Cast", scaled, to=1), missing


def _codes(graph: Graph, name: str, kind: str, categories: tuple[Any, ...]) -> tuple[Any, str]:
    """Add the input of a categorical column; return what describes it, and its codes."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - optional

    if kind in ("text", "mixed"):
        keys, type_, values = np.array(categories, dtype=object), TensorProto.STRING, name
    elif any(isinstance(each, int) and abs(each) > LARGEST_EXACT for each in categories):
        if not all(isinstance(each, int) and abs(each) < 2**63 for each in categories):
            raise argument_error("categories", "be whole numbers within int64, or all at most 2**53", name)
        keys, type_, values = np.array(categories, dtype=np.int64), TensorProto.INT64, name
    else:
        keys, type_ = np.array(categories or [np.nan], dtype=np.float64), TensorProto.DOUBLE
        values = graph("Add", name, np.float64(0.0))  # -0 becomes 0
    codes = np.arange(1, len(keys) + 1) if categories else np.zeros(1, dtype=np.int64)
    tables = {"keys_tensor": keys, "values_tensor": codes.astype(np.int64), "default_tensor": np.zeros(1, np.int64)}
    tensors = {each: numpy_helper.from_array(array, each) for each, array in tables.items()}
    return helper.make_tensor_value_info(name, type_, ["n", 1]), graph(
        "LabelEncoder", values, domain="ai.onnx.ml", **tensors
    )


def _member_outputs(
    graph: Graph, piece: Piece, member: int, numbers: str | None, codes: str | None, missing: str | None
) -> str:
    """Add the outputs of one member in float64: in units of the target, or logits."""
    network, blocks = piece.network, None
    if numbers is not None and missing is not None:
        blocks = encode_member(graph, numbers, missing, encoding=network.encoding, member=member)
    outputs = graph("Cast", run_member(graph, blocks, codes, network=network, member=member), to=11)
    scale, shift = (np.float64(ends[member].item()) for ends in (piece.scale, piece.shift))
    return graph("Add", graph("Mul", outputs, scale), shift)


def _mean(graph: Graph, values: list[str], weights: list[float]) -> str:
    """Add the weighted mean over members."""
    parts = [graph("Mul", value, np.float64(weight)) for value, weight in zip(values, weights, strict=True)]
    total = parts[0]
    for part in parts[1:]:
        total = graph("Add", total, part)
    return total


def _number_output(graph: Graph, outputs: list[str], weights: list[float]) -> list[Any]:
    from onnx import TensorProto, helper  # noqa: PLC0415 - optional

    graph("Reshape", _mean(graph, outputs, weights), graph.ints(-1), name="prediction")
    return [helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, ["n"])]


def _class_outputs(graph: Graph, outputs: list[str], weights: list[float], labels: Labels) -> list[Any]:
    """Add probabilities and labels."""
    from onnx import TensorProto, helper  # noqa: PLC0415 - optional

    ends = graph.ints(0), graph.ints(labels.n_classes), graph.ints(1)
    shares = [graph("Softmax", graph("Slice", each, *ends), axis=1) for each in outputs]
    graph("Identity", _mean(graph, shares, weights), name="probabilities")
    best = graph("ArgMax", "probabilities", axis=1, keepdims=0)
    classes, type_ = _classes(labels)
    graph("Gather", classes, best, axis=0, name="label")
    return [
        helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["n", labels.n_classes]),
        helper.make_tensor_value_info("label", type_, ["n"]),
    ]


def _classes(labels: Labels) -> tuple[Any, int]:
    """Return the classes in a type that ONNX has, and the type."""
    from onnx import TensorProto  # noqa: PLC0415 - optional

    kind = type(labels.values[0])
    if kind is int:
        fits = labels.values[-1] < 2**63
        return labels.classes.astype(np.int64 if fits else np.uint64), TensorProto.INT64 if fits else TensorProto.UINT64
    types = {str: (object, TensorProto.STRING), float: (np.float64, TensorProto.DOUBLE), bool: (bool, TensorProto.BOOL)}
    made, type_ = types[kind]
    return np.array(labels.values, dtype=made), type_
