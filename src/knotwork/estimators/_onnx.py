"""A fitted estimator as one ONNX model: from raw numbers and categories to predictions.

The package onnx is imported only when a model is exported: this module can be imported without it. Members become
separate parts of the graph, with their weights as constants.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from knotwork._checks import argument_error, check_installed
from knotwork._files import write_atomically
from knotwork._preparation.columns import LARGEST_FLOAT, Role
from knotwork._preparation.targets import Labels
from knotwork._trees import ForestPiece
from knotwork.basis import FAMILIES
from knotwork.estimators._base import TabularEstimator
from knotwork.estimators._combination import SMALLEST_PROBABILITY
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._onnx_encodings import encoded_features
from knotwork.estimators._onnx_trees import forest_outputs
from knotwork.estimators._model import Calibration
from knotwork.nn import DOUBLE, FLOAT, Array, OnnxGraph, as_numpy
from knotwork.training import Network, Objective, Piece, output_units

Inputs = tuple[str | None, str | None, str | None]
"""Names of numbers in their units, codes, and missing values."""

OPSETS = {"": 18, "ai.onnx.ml": 4}
IR_VERSION = 9
INT64, STRING, BOOL, UINT64 = 7, 8, 9, 13
"""Further types of values, as ``onnx.TensorProto`` numbers them."""

NUMBERS_INPUT = "numbers"
RESERVED = (NUMBERS_INPUT, "prediction", "std", "probabilities", "label", "")
LARGEST_EXACT = 2**53
"""Floats represent every whole number up to this one exactly."""


def export_onnx(estimator: TabularEstimator, path: str | Path) -> None:
    """Write the whole predictor as an ONNX model for any number of rows.

    Networks and objectives need a method ``to_onnx``, as those of the library have, and added families of encodings
    a function of this name.

    Parameters
    ----------
    estimator : TabularRegressor or TabularClassifier
        A fitted estimator.
    path : str or Path
        The file; an existing file is replaced.

    Notes
    -----
    Inputs: ``numbers``, float64 of shape (n, n_numerical), the numerical columns in the order of the fit, NaN where
    missing; numbers that were text in the fit are numbers here, and dates are the numbers that they become, such as
    ``"sold (year)"``: ``estimator.columns_.read(X).numbers`` has all of them. Columns that are ignored are no input.
    And one input of shape (n, 1) for each categorical column, with its name (``column_2`` if it has none): text for
    columns of text, otherwise float64, or int64 where categories are whole numbers beyond 2**53. Booleans are 0 and
    1. Categories that were not seen in the fit are treated as missing; so are NaN and, unless it is a category, the
    empty text. The model's metadata lists the columns of ``numbers`` and the other inputs under the key ``knotwork``.

    Outputs: ``prediction``, float64 of the shape that ``predict`` returns; for the objective ``"gaussian"`` also
    ``std``, of the same shape; for classes ``probabilities``, float64 of shape (n, n_classes), and ``label`` of shape
    (n,): text, whole numbers, float64 or booleans.
    """
    _check_parts(estimator)
    check_installed("export_onnx", "onnx", "onnx")
    import onnx  # noqa: PLC0415 - optional

    graph = OnnxGraph(onnx)
    pieces = estimator.trained_.pieces
    infos, numbers, codes, missing = _inputs(graph, estimator)
    outputs = [
        _member_outputs(graph, piece, index, (numbers, codes, missing), estimator.trained_.objective)
        for piece in pieces
        for index in range(len(piece.places))
    ]
    weights = [float(estimator.weights_[place]) for piece in pieces for place in piece.places]
    if isinstance(estimator, TabularClassifier):
        results = _class_outputs(
            graph, outputs, weights, estimator.labels_, calibration=estimator._fitted.calibration
        )
    else:
        assert isinstance(estimator, TabularRegressor)
        results = _number_outputs(graph, _mean(graph, outputs, weights), estimator)
    complete = onnx.helper.make_graph(graph.nodes, "knotwork", infos, results, initializer=graph.constants)
    opsets = [onnx.helper.make_opsetid(*opset) for opset in OPSETS.items()]
    model = onnx.helper.make_model(complete, opset_imports=opsets, ir_version=IR_VERSION, producer_name="knotwork")
    columns = {"numbers": estimator.columns_.numerical_names, "categories": _input_names(estimator)}
    onnx.helper.set_model_props(model, {"knotwork": json.dumps(columns)})
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    write_atomically(path, lambda file: file.write(content))


def _check_parts(estimator: TabularEstimator) -> None:
    """Refuse objectives, networks and encodings that cannot be exported."""
    objective = estimator.trained_.objective
    bases = type(objective).__mro__
    exported, defined = (
        next(place for place, base in enumerate(bases) if name in vars(base)) for name in ("to_onnx", "predictions")
    )
    if objective.task == "regression" and exported > defined:
        raise argument_error(
            "objective",
            "have a method to_onnx beside its method predictions, to be exported to ONNX",
            objective,
            "Write it, or keep the model with save and serve it with knotwork.load.",
        )
    for piece in estimator.trained_.networks:
        kind = type(piece.network.backbone)
        if "to_onnx" not in vars(kind):  # a subclass that inherits it may compute something else
            raise argument_error(
                "backbone",
                "build a network whose class has a method to_onnx, to be exported to ONNX",
                piece.backbone,
                f"{kind.__name__} has none: write it, or keep the model with save and serve it with knotwork.load.",
            )
        for part in piece.network.encoding.layout.parts:
            if part.family and FAMILIES[part.family].to_onnx is None:
                raise argument_error(
                    "encoding",
                    "be of a family with a function to_onnx, to be exported to ONNX",
                    part.family,
                    "Add it to the Family, or keep the model with save and serve it with knotwork.load.",
                )


def _input_names(estimator: TabularEstimator) -> list[str]:
    """Return the names of the inputs of the categorical columns, without duplicates."""
    names = estimator.columns_.names
    taken = set(RESERVED) | set(names or ())
    inputs = []
    for place, column in enumerate(estimator.columns_):
        if column.role == Role.CATEGORICAL:
            name = f"column_{place}" if column.name is None else column.name
            if name in RESERVED or name.startswith("/"):
                name = f"column_{place}"
                while name in taken:
                    name += "_"
                taken.add(name)
            inputs.append(name)
    return inputs


def _inputs(graph: OnnxGraph, estimator: TabularEstimator) -> tuple[list[Any], str | None, str | None, str | None]:
    """Add the inputs; return their descriptions, and the names of numbers in units, of codes and of missing values."""
    columns, infos, codes = estimator.columns_, [], []
    numbers = missing = None
    n_numerical = len(columns.numerical_names)
    if n_numerical:
        infos.append(graph.describe(NUMBERS_INPUT, DOUBLE, "n", n_numerical))
        numbers, missing = _in_units(graph, estimator.trained_.units)
    for name, column in zip(_input_names(estimator), columns.categorical.values(), strict=True):
        info, code = _codes(graph, name, column.kind, column.categories)
        infos.append(info)
        codes.append(code)
    if estimator._model.indicated and missing is not None:
        indicated = graph("Gather", missing, np.array(estimator._model.indicated, dtype=np.int64), axis=1)
        codes.append(graph("Where", indicated, graph.ints(1), graph.ints(2)))
    return infos, numbers, graph.join(codes, 1) if codes else None, missing


def _in_units(graph: OnnxGraph, units: Any) -> tuple[str, str]:
    """Add the float32 numbers in their units, with the origin for missing ones; return them, and which are missing.

    The order of operations is that of `knotwork.training._members.in_units`: halves, so that no difference overflows.
    """
    missing = graph("IsNaN", NUMBERS_INPUT)
    limit = float(np.finfo(np.float32).max) / 4
    known = graph("Where", missing, units[0], NUMBERS_INPUT)
    bounded = graph("Clip", known, np.float64(-LARGEST_FLOAT), np.float64(LARGEST_FLOAT))
    halves = graph("Sub", graph("Mul", bounded, np.float64(0.5)), 0.5 * units[0])
    scaled = graph("Clip", graph("Div", halves, 0.5 * units[1]), np.float64(-limit), np.float64(limit))
    return graph("Cast", scaled, to=FLOAT), missing


def _codes(graph: OnnxGraph, name: str, kind: str, categories: tuple[Any, ...]) -> tuple[Any, str]:
    """Add the input of a categorical column; return its description, and the name of its codes."""
    if kind in ("text", "mixed"):
        keys, type_, values = np.array(categories, dtype=object), STRING, name
    elif any(isinstance(category, int) and abs(category) > LARGEST_EXACT for category in categories):
        if not all(isinstance(category, int) and abs(category) < 2**63 for category in categories):
            raise argument_error("categories", "be whole numbers within int64, or all at most 2**53", name)
        keys, type_, values = np.array(categories, dtype=np.int64), INT64, name
    else:
        keys, type_ = np.array(categories or [np.nan], dtype=np.float64), DOUBLE
        values = graph("Add", name, np.float64(0.0))  # -0 becomes 0
    codes = np.arange(1, len(keys) + 1) if categories else np.zeros(1, dtype=np.int64)
    tables = {"keys_tensor": keys, "values_tensor": codes.astype(np.int64), "default_tensor": np.zeros(1, np.int64)}
    tensors = {key: graph.onnx.numpy_helper.from_array(array, key) for key, array in tables.items()}
    return graph.describe(name, type_, "n", 1), graph("LabelEncoder", values, domain="ai.onnx.ml", **tensors)


def _member_outputs(graph: OnnxGraph, piece: Piece, member: int, inputs: Inputs, objective: Objective) -> str:
    """Add the outputs of one member in float64: in units of the target, or logits.

    `inputs` are the names of numbers, codes and missing values.
    """
    shift, scale = (as_numpy(values[member]) for values in output_units(objective, (piece.shift, piece.scale)))
    add = _forest_predictions if isinstance(piece, ForestPiece) else _network_predictions
    predictions = add(graph, piece, member, inputs, objective, len(shift) // objective.n_outputs)
    if objective.task == "classification":
        return predictions
    return graph("Add", graph("Mul", predictions, scale), shift)


def _network_predictions(
    graph: OnnxGraph, piece: Any, member: int, inputs: Inputs, objective: Objective, n_targets: int
) -> str:
    """Add what a network predicts, in units of the target, or logits."""
    network, encoded = piece.network, None
    numbers, codes, missing = inputs
    if numbers is not None and missing is not None:
        encoded = encoded_features(graph, numbers, missing, network=network, member=member)
    outputs = graph("Cast", _run(graph, encoded, codes, network=network, member=member), to=DOUBLE)
    return outputs if objective.task == "classification" else objective.to_onnx(graph, outputs, n_targets)


def _forest_predictions(
    graph: OnnxGraph, piece: Any, member: int, inputs: Inputs, objective: Objective, n_targets: int
) -> str:
    """Add what boosted trees predict, in units of the target, or logits."""
    numbers = None if inputs[0] is None else NUMBERS_INPUT
    return forest_outputs(graph, piece.forests[member], numbers, inputs[1], objective, n_targets)


def _number_outputs(graph: OnnxGraph, mean: str, estimator: TabularRegressor) -> list[Any]:
    """Add predictions in the shape of `predict`; return their descriptions."""
    objective = estimator.trained_.objective
    targets = () if estimator.n_targets_ is None else (estimator.n_targets_,)
    if objective.has_levels:
        shape = (*targets, objective.n_outputs)
        graph("Reshape", mean, graph.ints(-1, *shape), name="prediction")
        return [graph.describe("prediction", DOUBLE, "n", *shape)]
    parts = graph.reshape(mean, -1, *targets, objective.n_outputs)
    names = ("prediction", "std") if objective.predicts_std else ("prediction",)
    for place, name in enumerate(names):
        graph("Gather", parts, graph.constant(place, np.int64), axis=len(targets) + 1, name=name)
    return [graph.describe(name, DOUBLE, "n", *targets) for name in names]


def _mean(graph: OnnxGraph, values: list[str], weights: list[float]) -> str:
    """Add the weighted mean over members."""
    parts = [graph("Mul", value, np.float64(weight)) for value, weight in zip(values, weights, strict=True)]
    return graph("Sum", *parts)


def _class_outputs(
    graph: OnnxGraph, outputs: list[str], weights: list[float], labels: Labels, *, calibration: Calibration
) -> list[Any]:
    """Add probabilities and labels; return their descriptions."""
    # A single class has two logits, of which the second has no meaning.
    ends = graph.ints(0), graph.ints(labels.n_classes), graph.ints(1)
    shares = [graph("Softmax", graph("Slice", logits, *ends), axis=1) for logits in outputs]
    mean = _mean(graph, shares, weights)
    if calibration.temperature == 1.0 and not calibration.offsets:
        graph("Identity", mean, name="probabilities")
    else:
        logarithms = graph("Log", graph("Max", mean, np.float64(SMALLEST_PROBABILITY)))
        if calibration.offsets:
            logarithms = graph("Sub", logarithms, np.array(calibration.offsets))
        graph("Softmax", graph("Div", logarithms, np.float64(calibration.temperature)), axis=1, name="probabilities")
    best = graph("ArgMax", "probabilities", axis=1, keepdims=0)
    classes, type_ = _classes(labels)
    graph("Gather", classes, best, axis=0, name="label")
    return [graph.describe("probabilities", DOUBLE, "n", labels.n_classes), graph.describe("label", type_, "n")]


def _classes(labels: Labels) -> tuple[Array, int]:
    """Return the classes in a type that ONNX has, and the type."""
    kind = type(labels.values[0])
    if kind is int:
        fits = labels.values[-1] < 2**63
        return labels.classes.astype(np.int64 if fits else np.uint64), INT64 if fits else UINT64
    types: dict[type, tuple[Any, int]] = {str: (object, STRING), float: (np.float64, DOUBLE), bool: (bool, BOOL)}
    dtype, type_ = types[kind]
    return np.array(labels.values, dtype=dtype), type_


def _run(graph: OnnxGraph, encoded: str | None, codes: str | None, *, network: Network, member: int) -> str:
    """Add the backbone of one member; return the name of its outputs, float32 of shape (n, d_out).

    `encoded` are the encoded numbers of shape (n, n_features, size), `codes` int64 of shape (n, n_categorical); either
    is None if the table has no such columns.
    """
    backbone: Any = network.backbone
    settings = {"member": member, "logits": network.task == "classification"}
    if network.has_tokens:
        return str(backbone.to_onnx(graph, encoded, codes, **settings))
    parts = [] if encoded is None else [graph("Flatten", encoded, axis=1)]
    if codes is not None:
        parts += _category_inputs(graph, codes, network=network, member=member)
    return str(backbone.to_onnx(graph, graph.join(parts, 1), **settings))


def _category_inputs(graph: OnnxGraph, codes: str, *, network: Network, member: int) -> list[str]:
    """Add the inputs from categories: codes, one-hot columns and vectors."""
    parts: list[str] = []
    if network.categories == "code":
        parts.append(graph("Sub", graph("Cast", codes, to=FLOAT), np.float32(1.0)))
    if network.one_hot_places.shape[1]:
        features, *values = as_numpy(network.one_hot_places)
        chosen = graph("Gather", codes, features, axis=1)
        signs = [graph("Cast", graph("Equal", chosen, code), to=FLOAT) for code in values]
        parts.append(graph("Sub", *signs))
    if network.embeddings is not None:
        embeddings, places = network.embeddings.values, as_numpy(network.embedded_places)
        chosen = graph("Gather", codes, places, axis=1)
        vectors = graph.look_up(chosen, embeddings[member], network.category_starts)
        parts.append(graph.reshape(vectors, -1, len(places) * embeddings.shape[-1]))
    return parts
