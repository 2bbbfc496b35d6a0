"""Graphs in model files, which the light runtime reads without the library that trained them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from knotwork._checks import argument_error, check_choice
from knotwork._graph import OPERATIONS, Array, Forest, Graph, StoredConstant, pack, unpack
from knotwork._light._models import LightClassifier, LightModel, LightRegressor
from knotwork._light._predictor import Predictor
from knotwork._light._residuals import Residuals
from knotwork._model_files import ModelFile, Reader, check_shape
from knotwork._preparation.columns import Columns
from knotwork._preparation.learning import SAVED_COLUMNS, TableColumn
from knotwork._preparation.targets import Labels
from knotwork.errors import PersistenceError

PREFIX = "graph."
"""What the names of arrays of a graph in a model file begin with."""

MOST_SAVED = 50_000
"""Nodes of a graph up to which it is saved: thousands of members would take longer than to load torch."""

LIGHT_MODELS: dict[str, type[LightModel]] = {"TabularRegressor": LightRegressor, "TabularClassifier": LightClassifier}
"""The models of the light runtime, by the class that was saved."""


def saved_graph(predictor: Predictor, arrays: Mapping[str, Array]) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Return what a file has of a graph, and further arrays; None if only the library can compute it.

    Parameters
    ----------
    predictor : Predictor
        The model.
    arrays : mapping
        The other arrays of the file: constants that are parts of them are not saved again.
    """
    graph = predictor.graph
    if len(graph.nodes) > MOST_SAVED or any(node.operation not in OPERATIONS for node in graph.nodes):
        return None
    packed = pack(graph, arrays)
    about = {"response_names": list(predictor.response_names), "is_positive": predictor.is_positive}
    about["n_targets"] = predictor.n_targets
    return {"graph": packed.content, **about}, packed.arrays


def light_model(file: ModelFile, path: Any) -> LightModel:
    """Return the model of an open file in the light runtime, after one row of it was computed."""
    content = file.content
    kind = LIGHT_MODELS[check_choice(content["class"], "class", LIGHT_MODELS)]
    if "graph" not in content:
        raise PersistenceError(
            f"{str(path)!r} has no graph for the light runtime: it was saved by an older version, or has parts that "
            "cannot be written to a graph. Load it where torch is installed, and save it again."
        )
    model = kind(_predictor(file))
    columns = model.columns_
    row = np.zeros((1, len(columns.numerical_names))), np.zeros((1, len(columns.cardinalities)), dtype=np.int64)
    outputs = model._light.program(*model._light.graph.outputs)(*row)
    if model._light.output not in outputs:
        raise argument_error("outputs", f"include {model._light.output!r}", list(outputs))
    labels = model._light.labels
    if labels is not None:
        check_shape("probabilities", outputs["probabilities"].shape, (1, labels.n_classes))
    return model


def _predictor(file: ModelFile) -> Predictor:
    content, reader = file.content["model"], Reader(
        {**SAVED_COLUMNS, "Labels": Labels, "Residuals": Residuals}, file
    )  # fmt: skip
    columns = Columns(reader.read(content["columns"], tuple[TableColumn, ...], "columns"))
    labels = reader.read(content["task"]["labels"], Labels | None, "task.labels")
    residuals = reader.read(content["calibration"]["residuals"], Residuals | None, "calibration.residuals")
    about = file.content["graph"]
    graph = unpack(about["graph"], lambda stored: _constant(file, stored))
    _check_trees(graph, columns)
    return Predictor(
        graph,
        columns,
        labels,
        tuple(about["response_names"]),
        reader.read(content["target_name"], str | None, "target_name"),
        residuals,
        about["is_positive"] is True,
        about["n_targets"],
    )


def _constant(file: ModelFile, stored: StoredConstant) -> Array:
    """Return a constant, which may be a part of an array."""
    size = int(np.prod(stored.shape, dtype=np.int64))
    flat = file.array(stored.array, is_finite=False).reshape(-1)
    if stored.start + size > len(flat):
        raise argument_error("start", f"leave {size} values", stored.start)
    part = flat[stored.start : stored.start + size].reshape(stored.shape)
    return part.astype(stored.dtype, copy=False)


def _check_trees(graph: Graph, columns: Columns) -> None:
    """Check trees, whose compiled loop checks no bounds."""
    for node in graph.nodes:
        if node.operation == "Trees":
            if node.inputs[:2] != ("numbers", "codes") or set(node.inputs[2:]) - set(graph.constants):
                raise argument_error("inputs", "be those of the graph, and constants", node.inputs[:2])
            forest = Forest(node.attributes["n_numerical"], *(graph.constants[name] for name in node.inputs[2:]))
            forest.check(len(columns.numerical_names), columns.cardinalities)
