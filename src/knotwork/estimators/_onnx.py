"""A fitted estimator as one ONNX model: from raw numbers and categories to predictions.

The package onnx is imported only when a model is exported: this module can be imported without it. Members become
separate parts of the graph, with their weights as constants.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from knotwork._checks import argument_error, check_installed, listed
from knotwork._files import write_atomically
from knotwork._preparation.columns import LARGEST
from knotwork._preparation.targets import Labels
from knotwork.estimators._base import TabularEstimator
from knotwork.estimators._combination import SMALLEST
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._onnx_encodings import FLOAT, Array, Graph, as_numpy, encoded_blocks
from knotwork.nn import _ft_transformer as ft_transformer
from knotwork.nn import _resnet as resnet
from knotwork.nn._ft_transformer import FTTransformer
from knotwork.nn._linear import Linear
from knotwork.nn._mlp import MLP
from knotwork.nn._realmlp import RealMLP
from knotwork.nn._resnet import ResNet
from knotwork.nn._tabm import TabM
from knotwork.training._network import Network
from knotwork.training._objective import Objective, column_units
from knotwork.training._objectives import LARGEST_LOG, SMALLEST_SPREAD, START_OF_SPREAD
from knotwork.training._results import Piece

__all__ = ["export_onnx"]

OPSETS = {"": 18, "ai.onnx.ml": 4}
IR_VERSION = 9
INT64, STRING, BOOL, DOUBLE, UINT64 = 7, 8, 9, 11, 13
"""Further types of values, as ``onnx.TensorProto`` numbers them."""

NUMBERS = "numbers"
RESERVED = (NUMBERS, "prediction", "std", "probabilities", "label", "")
LARGEST_EXACT = 2**53
"""Floats represent every whole number up to this one exactly."""

NETWORKS = (MLP, ResNet, TabM, RealMLP, FTTransformer)
"""The networks that can be exported. Subclasses cannot: they may compute something else."""

ONNX_ACTIVATIONS = {"relu": "Relu", "selu": "Selu", "mish": "Mish"}
"""Names of the activations of RealMLP."""

EPSILON = 1e-5
"""Batch and layer normalisation add this to the variance."""


def export_onnx(estimator: TabularEstimator, path: str | Path) -> None:
    """Write the whole predictor as an ONNX model for any number of rows.

    Only networks of the library's backbones and built-in families of encodings can be exported.

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
    _check_networks(estimator)
    check_installed("export_onnx", "onnx", "onnx")
    import onnx  # noqa: PLC0415 - optional

    graph = Graph(onnx)
    pieces = estimator.trained_.pieces
    infos, numbers, codes, missing = _inputs(graph, estimator)
    outputs = [
        _member_outputs(graph, piece, index, (numbers, codes, missing), estimator.trained_.objective)
        for piece in pieces
        for index in range(len(piece.places))
    ]
    weights = [float(estimator.weights_[place]) for piece in pieces for place in piece.places]
    if isinstance(estimator, TabularClassifier):
        results = _class_outputs(graph, outputs, weights, estimator.labels_, temperature=estimator.temperature_)
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


def _check_networks(estimator: TabularEstimator) -> None:
    """Refuse networks and encodings that have no translation here."""
    for piece in estimator.trained_.pieces:
        kind = type(piece.network.backbone)
        if kind not in NETWORKS:
            raise argument_error(
                "backbone",
                f"build a network that ONNX export knows: {listed([network.__name__ for network in NETWORKS])}",
                piece.backbone,
                f"{kind.__name__} has no translation to ONNX: keep the model with save and serve it with "
                "knotwork.load, or fit with one of these backbones.",
            )
        for part in piece.network.encoding.layout.parts:
            if part.family:
                raise argument_error(
                    "encoding",
                    "be of a built-in family to be exported to ONNX",
                    part.family,
                    "Keep the model with save and serve it with knotwork.load.",
                )


def _input_names(estimator: TabularEstimator) -> list[str]:
    """Return the names of the inputs of the categorical columns, without duplicates."""
    names = estimator.columns_.names
    taken = set(RESERVED) | set(names or ())
    inputs = []
    for place, role in enumerate(estimator.columns_.roles):
        if role == "categorical":
            name = f"column_{place}" if names is None else names[place]
            if name in RESERVED or name.startswith("/"):
                name = f"column_{place}"
                while name in taken:
                    name += "_"
                taken.add(name)
            inputs.append(name)
    return inputs


def _inputs(graph: Graph, estimator: TabularEstimator) -> tuple[list[Any], str | None, str | None, str | None]:
    """Add the inputs; return their descriptions, and the names of numbers in units, of codes and of missing values."""
    columns, infos, codes = estimator.columns_, [], []
    numbers = missing = None
    n_numerical = len(columns.numerical_names)
    if n_numerical:
        infos.append(graph.describe(NUMBERS, DOUBLE, "n", n_numerical))
        numbers, missing = _in_units(graph, estimator.trained_.units)
    kinds = [kind for role, kind in zip(columns.roles, columns.kinds, strict=True) if role == "categorical"]
    for name, kind, categories in zip(_input_names(estimator), kinds, columns.categories, strict=True):
        info, code = _codes(graph, name, kind, categories)
        infos.append(info)
        codes.append(code)
    if estimator.indicated_ and missing is not None:
        indicated = graph("Gather", missing, np.array(estimator.indicated_, dtype=np.int64), axis=1)
        codes.append(graph("Where", indicated, graph.ints(1), graph.ints(2)))
    return infos, numbers, graph.join(codes, 1) if codes else None, missing


def _in_units(graph: Graph, units: Any) -> tuple[str, str]:
    """Add the float32 numbers in their units, with the origin for missing ones; return them, and which are missing.

    The order of operations is that of `knotwork.training._members.in_units`: halves, so that no difference overflows.
    """
    missing = graph("IsNaN", NUMBERS)
    limit = float(np.finfo(np.float32).max) / 4
    known = graph("Where", missing, units[0], NUMBERS)
    bounded = graph("Clip", known, np.float64(-LARGEST), np.float64(LARGEST))
    halves = graph("Sub", graph("Mul", bounded, np.float64(0.5)), 0.5 * units[0])
    scaled = graph("Clip", graph("Div", halves, 0.5 * units[1]), np.float64(-limit), np.float64(limit))
    return graph("Cast", scaled, to=FLOAT), missing


def _codes(graph: Graph, name: str, kind: str, categories: tuple[Any, ...]) -> tuple[Any, str]:
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


def _member_outputs(
    graph: Graph, piece: Piece, member: int, inputs: tuple[str | None, str | None, str | None], objective: Objective
) -> str:
    """Add the outputs of one member in float64: in units of the target, or logits.

    `inputs` are the names of numbers, codes and missing values.
    """
    network, blocks = piece.network, None
    numbers, codes, missing = inputs
    if numbers is not None and missing is not None:
        blocks = encoded_blocks(graph, numbers, missing, network=network, member=member)
    outputs = graph("Cast", _run(graph, blocks, codes, network=network, member=member), to=DOUBLE)
    if objective.task == "classification":
        return outputs
    shift, scale = (as_numpy(values[member]) for values in column_units(objective, (piece.shift, piece.scale)))
    predictions = LINKS[objective.link](graph, outputs, objective, len(shift))
    return graph("Add", graph("Mul", predictions, scale), shift)


def _exponential(graph: Graph, outputs: str, objective: Objective, d_out: int) -> str:
    del objective, d_out
    return graph("Exp", graph("Clip", outputs, np.float64(-LARGEST_LOG), np.float64(LARGEST_LOG)))


def _increasing(graph: Graph, outputs: str, objective: Any, d_out: int) -> str:
    """Add quantiles of each target, the first of which is the sum of output and start, others add a softplus."""
    n_levels = objective.n_outputs
    moved = graph("Add", outputs, np.tile(objective.starts, d_out // n_levels))
    if n_levels == 1:
        return moved
    is_first = np.arange(d_out) % n_levels == 0
    steps = graph.reshape(graph("Where", is_first, moved, _softplus(graph, moved)), -1, d_out // n_levels, n_levels)
    return graph.reshape(graph("CumSum", steps, graph.constant(2, np.int64)), -1, d_out)


def _spread(graph: Graph, outputs: str, objective: Objective, d_out: int) -> str:
    """Add means and standard deviations, in turn."""
    del objective
    spread = graph(
        "Add", _softplus(graph, graph("Add", outputs, np.float64(START_OF_SPREAD))), np.float64(SMALLEST_SPREAD)
    )
    return graph("Where", np.arange(d_out) % 2 == 0, outputs, spread)


def _softplus(graph: Graph, values: str) -> str:
    """Add ``log(1 + exp(x))`` in a form that does not overflow, of operations that runtimes have in float64."""
    falling = graph("Exp", graph("Neg", graph("Abs", values)))
    return graph("Add", graph("Max", values, np.float64(0.0)), graph("Log", graph("Add", falling, np.float64(1.0))))


LINKS: dict[str, Callable[[Graph, str, Any, int], str]] = {
    "identity": lambda graph, outputs, objective, d_out: outputs,
    "exponential": _exponential,
    "increasing": _increasing,
    "spread": _spread,
}
"""The nodes from outputs to predictions, by `Objective.link`."""


def _number_outputs(graph: Graph, mean: str, estimator: TabularRegressor) -> list[Any]:
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


def _mean(graph: Graph, values: list[str], weights: list[float]) -> str:
    """Add the weighted mean over members."""
    parts = [graph("Mul", value, np.float64(weight)) for value, weight in zip(values, weights, strict=True)]
    return graph("Sum", *parts)


def _class_outputs(
    graph: Graph, outputs: list[str], weights: list[float], labels: Labels, *, temperature: float
) -> list[Any]:
    """Add probabilities and labels; return their descriptions."""
    # A single class has two logits, of which the second has no meaning.
    ends = graph.ints(0), graph.ints(labels.n_classes), graph.ints(1)
    shares = [graph("Softmax", graph("Slice", logits, *ends), axis=1) for logits in outputs]
    mean = _mean(graph, shares, weights)
    if temperature == 1.0:
        graph("Identity", mean, name="probabilities")
    else:
        logarithms = graph("Log", graph("Max", mean, np.float64(SMALLEST)))
        graph("Softmax", graph("Div", logarithms, np.float64(temperature)), axis=1, name="probabilities")
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


def _run(graph: Graph, blocks: str | None, codes: str | None, *, network: Network, member: int) -> str:
    """Add the backbone of one member; return the name of its outputs, float32 of shape (n, d_out).

    `blocks` are the encoded numbers of shape (n, n_features, size), `codes` int64 of shape (n, n_categorical); either
    is None if the table has no such columns.
    """
    backbone = network.backbone
    if isinstance(backbone, FTTransformer):
        return _ft_transformer(graph, blocks, codes, backbone=backbone, member=member)
    inputs = _flat_inputs(graph, blocks, codes, network=network, member=member)
    if isinstance(backbone, RealMLP):
        return _realmlp(graph, inputs, backbone, member)
    if isinstance(backbone, TabM):
        return _tabm(graph, inputs, backbone, member, task=network.task)
    hidden = _linear(graph, inputs, backbone.first, member)
    if isinstance(backbone, MLP):
        for layer in backbone.layers:
            hidden = _linear(graph, graph("Relu", hidden), layer, member)  # type: ignore[arg-type]
        return hidden
    return _resnet(graph, hidden, backbone, member)


def _tabm(graph: Graph, inputs: str, backbone: TabM, member: int, *, task: str) -> str:
    """Add the mean of all predictions; values are of shape (n_predictions, n, width)."""
    adapters = as_numpy(backbone.adapters.values[member])[:, None]
    hidden = _linear(graph, graph("Mul", graph("Unsqueeze", inputs, graph.ints(0)), adapters), backbone.first, member)
    for layer in backbone.layers:
        hidden = _linear(graph, graph("Relu", hidden), layer, member)  # type: ignore[arg-type]
    heads = backbone.heads
    product = graph("MatMul", graph("Relu", hidden), as_numpy(heads.weight[member]))
    outputs = graph("Add", product, as_numpy(heads.bias[member])[:, None])
    n_predictions = heads.bias.shape[1]
    if task == "regression":
        return graph("ReduceMean", outputs, graph.ints(0), keepdims=0)
    total = graph("ReduceLogSumExp", graph("LogSoftmax", outputs, axis=-1), graph.ints(0), keepdims=0)
    return graph("Sub", total, np.float32(np.log(n_predictions)))


def _flat_inputs(graph: Graph, blocks: str | None, codes: str | None, *, network: Network, member: int) -> str:
    """Add the concatenated blocks, followed by the categories."""
    parts = [] if blocks is None else [graph("Flatten", blocks, axis=1)]
    if codes is not None:
        parts += _category_inputs(graph, codes, network=network, member=member)
    return graph.join(parts, 1)


def _category_inputs(graph: Graph, codes: str, *, network: Network, member: int) -> list[str]:
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
        vectors = _look_up(graph, chosen, embeddings[member], network.category_starts)
        parts.append(graph.reshape(vectors, -1, len(places) * embeddings.shape[-1]))
    return parts


def _look_up(graph: Graph, codes: str, table: Tensor, starts: Tensor) -> str:
    """Add the vectors of codes, of shape (n, n_categorical, width)."""
    return graph("Gather", as_numpy(table), graph("Add", codes, as_numpy(starts)), axis=0)


def _linear(graph: Graph, x: str, layer: Linear, member: int) -> str:
    product = graph("MatMul", x, as_numpy(layer.weight[member]))
    return product if layer.bias is None else graph("Add", product, as_numpy(layer.bias[member]))


def _realmlp(graph: Graph, inputs: str, backbone: RealMLP, member: int) -> str:
    hidden = inputs
    for place, (weight, bias) in enumerate(backbone.plain_layers(member)):
        if place:
            hidden = graph(ONNX_ACTIVATIONS[backbone.activation], hidden)
        hidden = graph("Add", graph("MatMul", hidden, as_numpy(weight)), as_numpy(bias))
    return hidden


def _resnet(graph: Graph, hidden: str, backbone: ResNet, member: int) -> str:
    for block in backbone.blocks:
        up = _batch_norm(graph, _linear(graph, hidden, block.up, member), block.up_norm, member)  # type: ignore[arg-type]
        down = _linear(graph, graph("Relu", up), block.down, member)  # type: ignore[arg-type]
        hidden = graph("Add", hidden, _batch_norm(graph, down, block.down_norm, member))  # type: ignore[arg-type]
    return _linear(graph, hidden, backbone.head, member)


def _batch_norm(graph: Graph, x: str, norm: resnet.BatchNorm, member: int) -> str:
    """Add a normalisation by the running statistics."""
    scale = norm.weight[member] * (norm.running_var[member] + EPSILON).rsqrt()
    shift = norm.bias[member] - norm.running_mean[member] * scale
    return graph("Add", graph("Mul", x, as_numpy(scale)), as_numpy(shift))


def _layer_norm(graph: Graph, x: str, norm: ft_transformer.LayerNorm, member: int) -> str:
    weights = as_numpy(norm.weight[member]), as_numpy(norm.bias[member])
    return graph("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)


def _ft_transformer(
    graph: Graph, blocks: str | None, codes: str | None, *, backbone: FTTransformer, member: int
) -> str:
    tokenizer, n_blocks = backbone.tokenizer, len(backbone.blocks)
    x = _tokens(graph, blocks, codes, tokenizer=tokenizer, member=member)
    for place, block in enumerate(backbone.blocks):
        x = _block(graph, x, block, member=member, n_tokens=tokenizer.n_tokens, only_cls=place == n_blocks - 1)
    cls = _layer_norm(graph, graph.reshape(x, -1, backbone.norm.weight.shape[-1]), backbone.norm, member)
    return _linear(graph, graph("Relu", cls), backbone.head, member)


def _tokens(
    graph: Graph, blocks: str | None, codes: str | None, *, tokenizer: ft_transformer.Tokenizer, member: int
) -> str:
    """Add the tokens, of shape (n, n_tokens, d_token): zeros in front for the CLS token, then a bias for each."""
    parts: list[str] = []
    if blocks is not None:
        parts.append(_number_tokens(graph, blocks, tokenizer, member))
    if codes is not None and tokenizer.categories is not None:
        parts.append(_look_up(graph, codes, tokenizer.categories.values[member], tokenizer.category_starts))
    padded = graph("Pad", graph.join(parts, 1), graph.ints(0, 1, 0, 0, 0, 0))
    return graph(
        "Add", padded, np.concatenate([as_numpy(tokenizer.cls[member])[None], as_numpy(tokenizer.bias[member])])
    )


def _number_tokens(graph: Graph, blocks: str, tokenizer: ft_transformer.Tokenizer, member: int) -> str:
    weight = as_numpy(tokenizer.weight[member])
    n_features, size, d_token = weight.shape
    if tokenizer.by_coordinate:
        places = as_numpy(tokenizer.places)
        values = graph("Gather", graph.reshape(blocks, -1, n_features * size), places, axis=1)
        return graph("Mul", graph("Unsqueeze", values, graph.ints(2)), weight.reshape(-1, d_token)[places])
    by_feature = graph("MatMul", graph("Transpose", blocks, perm=[1, 0, 2]), weight)
    return graph("Transpose", by_feature, perm=[1, 0, 2])


def _block(graph: Graph, x: str, block: Any, *, member: int, n_tokens: int, only_cls: bool) -> str:
    mixed = _attention(graph, x, block, member=member, n_tokens=n_tokens)
    if only_cls:  # the head reads no other token of the last block
        x, mixed = (graph.slice(value, 0, 1, axis=1) for value in (x, mixed))
    x = graph("Add", x, _linear(graph, mixed, block.out, member))
    up = _linear(graph, _layer_norm(graph, x, block.norm, member), block.up, member)
    hidden = block.up.weight.shape[-1] // 2
    values, gates = graph.slice(up, 0, hidden, axis=2), graph.slice(up, hidden, 2 * hidden, axis=2)
    gated = graph("Mul", values, graph("Relu", gates))
    return graph("Add", x, _linear(graph, gated, block.down, member))


def _attention(graph: Graph, x: str, block: Any, *, member: int, n_tokens: int) -> str:
    """Add multi-head attention between all tokens."""
    d_token, n_heads = block.out.weight.shape[-1], block.n_heads
    width = d_token // n_heads
    qkv = _linear(graph, _layer_norm(graph, x, block.attention_norm, member), block.qkv, member)
    heads = graph("Transpose", graph.reshape(qkv, -1, n_tokens, 3, n_heads, width), perm=[2, 0, 3, 1, 4])
    q, k, v = (graph("Gather", heads, graph.constant(place, np.int64), axis=0) for place in range(3))
    scores = graph("Mul", graph("MatMul", q, graph("Transpose", k, perm=[0, 1, 3, 2])), np.float32(width**-0.5))
    mixed = graph("MatMul", graph("Softmax", scores, axis=-1), v)
    return graph.reshape(graph("Transpose", mixed, perm=[0, 2, 1, 3]), -1, n_tokens, d_token)
