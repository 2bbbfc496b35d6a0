"""Boosted trees in the operations of ONNX."""

from itertools import pairwise
from typing import Any

import numpy as np

from knotwork._graph import Forest, Graph


def add_forest(graph: Graph, forest: Forest, numbers: str, codes: str) -> str:
    """Add the sums of trees to a graph: float64 of shape (n, n_outputs).

    `numbers` are the names of numerical columns as they are, `codes` those of categories.
    """
    columns, order = _features(graph, forest, numbers, codes)
    return graph("Cast", graph("TreeEnsembleRegressor", columns, **_attributes(forest, order)), to="float64")


def _features(graph: Graph, forest: Forest, numbers: str, codes: str) -> tuple[str, np.ndarray[Any, Any]]:
    """Add the matrix of features; return its name, and the place of each feature of codes after the numbers."""
    parts = [numbers] if forest.n_numerical else []
    order = np.argsort(forest.code_columns, kind="stable")
    ends = np.append(forest.code_starts[1:], len(forest.code_values))
    for column in np.unique(forest.code_columns).tolist():
        of_column = order[forest.code_columns[order] == column]
        table = np.stack([forest.code_values[forest.code_starts[each] : ends[each]] for each in of_column], axis=1)
        parts.append(graph("Gather", table, graph("Gather", codes, graph.constant(column, np.int64), axis=1), axis=0))
    if not parts:  # no tree compares anything, but rows must be counted
        parts = [graph("Cast", codes, to="float64")]
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return graph.join(parts, 1), places


def _attributes(forest: Forest, order: np.ndarray[Any, Any]) -> dict[str, Any]:
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
    return {
        "nodes_treeids": trees.tolist(),
        "nodes_nodeids": (np.arange(n_nodes) - first).tolist(),
        "nodes_featureids": feature.tolist(),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_values_as_tensor": np.where(is_leaf, 0.0, forest.value),
        "nodes_truenodeids": np.where(is_leaf, 0, forest.left - first).tolist(),
        "nodes_falsenodeids": np.where(is_leaf, 0, forest.right - first).tolist(),
        "nodes_missing_value_tracks_true": forest.missing_left.astype(np.int64).tolist(),
        "target_treeids": trees[leaves].tolist(),
        "target_nodeids": (leaves - first[leaves]).tolist(),
        "target_ids": forest.outputs[trees[leaves]].tolist(),
        "target_weights_as_tensor": forest.value[leaves],
        "base_values_as_tensor": forest.start,
        "n_targets": len(forest.start),
    }
