"""Boosted trees as nodes of an ONNX graph."""

from itertools import pairwise
from typing import Any

import numpy as np

from knotwork._trees import Forest, predicts_itself
from knotwork.nn import DOUBLE, OnnxGraph
from knotwork.training import Objective


def forest_outputs(
    graph: OnnxGraph, forest: Forest, numbers: str | None, codes: str | None, objective: Objective, n_targets: int
) -> str:
    """Add what trees predict in units of the target, or logits: float64 of shape (n, d_out).

    `numbers` are the names of numerical columns as they are, `codes` those of categories, None if there are none.
    """
    columns, order = _features(graph, forest, numbers, codes)
    scores = graph("TreeEnsembleRegressor", columns, domain="ai.onnx.ml", **_attributes(graph, forest, order))
    scores = graph("Cast", scores, to=DOUBLE)
    if objective.task == "classification":
        return scores
    if not predicts_itself(objective):
        return objective.to_onnx(graph, scores, n_targets)
    n_levels = objective.n_outputs
    levels = graph.reshape(scores, -1, n_targets, n_levels)
    parts = [graph("Gather", levels, graph.ints(place), axis=2) for place in range(n_levels)]
    for place in range(1, n_levels):  # quantiles do not cross
        parts[place] = graph("Max", parts[place - 1], parts[place])
    return graph.reshape(graph.join(parts, 2), -1, n_targets * n_levels)


def _features(
    graph: OnnxGraph, forest: Forest, numbers: str | None, codes: str | None
) -> tuple[str, np.ndarray[Any, Any]]:
    """Add the matrix of features; return its name, and the place of each feature of codes after the numbers."""
    parts = [] if numbers is None else [numbers]
    order = np.argsort(forest.code_columns, kind="stable")
    ends = np.append(forest.code_starts[1:], len(forest.code_values))
    for column in np.unique(forest.code_columns).tolist():
        of_column = order[forest.code_columns[order] == column]
        table = np.stack([forest.code_values[forest.code_starts[each] : ends[each]] for each in of_column], axis=1)
        assert codes is not None
        parts.append(graph("Gather", table, graph("Gather", codes, graph.constant(column, np.int64), axis=1), axis=0))
    if not parts:  # no tree compares anything, but rows must be counted
        parts = [graph("Cast", codes, to=DOUBLE)]
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return graph.join(parts, 1), places


def _attributes(graph: OnnxGraph, forest: Forest, order: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the attributes of the operator: nodes are numbered within their trees."""
    n_nodes = len(forest.feature)
    sizes = np.array([end - start for start, end in pairwise([*forest.roots.tolist(), n_nodes])])
    trees = np.repeat(np.arange(forest.n_trees), sizes)
    first = forest.roots[trees] if n_nodes else forest.roots
    is_leaf = forest.feature < 0
    feature = np.maximum(forest.feature.astype(np.int64), 0)
    if len(order):
        n_numerical = forest.n_numerical
        feature = np.where(feature >= n_numerical, n_numerical + order[np.maximum(feature - n_numerical, 0)], feature)
    leaves = np.flatnonzero(is_leaf)
    tensor = graph.onnx.numpy_helper.from_array
    return {
        "nodes_treeids": trees.tolist(),
        "nodes_nodeids": (np.arange(n_nodes) - first).tolist(),
        "nodes_featureids": feature.tolist(),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_values_as_tensor": tensor(np.where(is_leaf, 0.0, forest.value), "values"),
        "nodes_truenodeids": np.where(is_leaf, 0, forest.left - first).tolist(),
        "nodes_falsenodeids": np.where(is_leaf, 0, forest.right - first).tolist(),
        "nodes_missing_value_tracks_true": forest.missing_left.astype(np.int64).tolist(),
        "target_treeids": trees[leaves].tolist(),
        "target_nodeids": (leaves - first[leaves]).tolist(),
        "target_ids": forest.outputs[trees[leaves]].tolist(),
        "target_weights_as_tensor": tensor(forest.value[leaves], "weights"),
        "base_values_as_tensor": tensor(forest.start, "start"),
        "n_targets": len(forest.start),
    }
