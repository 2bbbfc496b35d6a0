"""Where trees that predict the target from one column split it: CART and LightGBM.

Trees see the ranks of the values, not the values: splits are the same, and neither the single precision of
scikit-learn's trees nor the scale of the column can move them. A split between the neighbouring values a and b is the
threshold (a + b) / 2.
"""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from knotwork.basis._families import FloatArray
from knotwork.errors import MissingPackageError
from knotwork.knots._columns import Column, Target

__all__ = ["cart_thresholds", "lightgbm_thresholds"]


def cart_thresholds(
    column: Column, target: Target | None, *, seed: int, **limits: Any
) -> tuple[FloatArray, FloatArray]:
    """Fit a tree on one column, and return the thresholds of its splits and how informative each is.

    Parameters
    ----------
    column : Column
        The column.
    target : Target
        The target, of the length of the table.
    seed : int
        Seed of the tree.
    **limits
        Limits of scikit-learn's ``DecisionTreeRegressor`` or ``DecisionTreeClassifier``.

    Returns
    -------
    thresholds, gains : ndarray of shape (c,)
        None if the tree has no split.
    """
    codes, y, weights = _rows(column, target)
    if len(column.distinct) < 2:
        return np.empty(0), np.empty(0)
    assert target is not None
    kind = DecisionTreeRegressor if target.task == "regression" else DecisionTreeClassifier
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # that there are many is no mistake
        fitted = kind(random_state=seed, **limits).fit(codes[:, None], y, sample_weight=weights)
    tree = fitted.tree_
    node = np.flatnonzero(tree.children_left != -1)
    left, right = tree.children_left[node], tree.children_right[node]
    n, impurity = tree.weighted_n_node_samples, tree.impurity
    gains = impurity[node] - (n[left] * impurity[left] + n[right] * impurity[right]) / n[node]
    after = np.floor(tree.threshold[node]).astype(np.intp) + 1
    return _informative(column.distinct, after, gains)


def lightgbm_thresholds(
    column: Column, target: Target | None, *, seed: int, n_trees: int, min_data_in_leaf: int, **limits: Any
) -> tuple[FloatArray, FloatArray]:
    """Fit a gradient-boosted ensemble on one column, and return its thresholds and their total gains.

    The gain of a threshold is summed over all trees that use it, for several classes over the trees of all classes.

    Parameters
    ----------
    column, target, seed
        As for `cart_thresholds`.
    n_trees, min_data_in_leaf : int
        Number of trees, and fewest rows of a leaf.
    **limits
        Further parameters of LightGBM.

    Returns
    -------
    thresholds, gains : ndarray of shape (c,)
        None if no tree has a split.
    """
    codes, y, weights = _rows(column, target)
    if len(column.distinct) < 2 or len(codes) < 2 * min_data_in_leaf or np.all(y == y[0]):
        return np.empty(0), np.empty(0)
    try:
        import lightgbm  # noqa: PLC0415 - slow to import, and machines that only train networks do without it
    except ImportError as error:
        raise MissingPackageError(
            "placement='lgbm' needs LightGBM, which is not installed. Install it with 'pip install lightgbm', "
            "or choose placement='cart'."
        ) from error
    n_classes = 0
    if target is not None and target.task == "classification":
        labels, y = np.unique(y, return_inverse=True)  # a class may have no row here
        n_classes = len(labels)
    parameters = {
        "objective": "regression" if not n_classes else "binary" if n_classes == 2 else "multiclass",
        "num_class": n_classes if n_classes > 2 else 1,
        "min_data_in_leaf": min_data_in_leaf,
        "num_threads": 1,
        "verbosity": -1,
        "seed": seed,
        "deterministic": True,
        "force_col_wise": True,
        **limits,
    }
    ranks = codes[:, None].astype(np.float64) + 1.0
    data = lightgbm.Dataset(ranks, y, weight=weights, params=parameters)
    booster = lightgbm.train(parameters, data, num_boost_round=n_trees)
    cuts: dict[int, float] = {}
    for tree in booster.dump_model()["tree_info"]:
        for cut, gain in _splits(tree["tree_structure"]):
            cuts[cut] = cuts.get(cut, 0.0) + gain
    return _informative(column.distinct, np.array(list(cuts), dtype=np.intp), np.array(list(cuts.values())))


MOST_REPEATED = 5_000_000
"""Rows that whole-numbered weights are written out to at the most; beyond, trees are given weights."""


def _rows(
    column: Column, target: Target | None
) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any], npt.NDArray[np.float64] | None]:
    """Return codes, targets and weights of the rows of a column; whole-numbered weights become repeated rows.

    Trees limit leaves by numbers of rows, and LightGBM fills its bins by them: only repeated rows count as such.
    """
    if target is None or column.codes is None or column.rows is None:
        raise AssertionError("a supervised placement is called with a column of rows and a target")
    codes, y, weights = column.codes, target.values[column.rows], column.row_weights
    if weights is not None and weights.sum() <= MOST_REPEATED and np.all(weights == np.floor(weights)):
        counts = weights.astype(np.intp)
        return np.repeat(codes, counts), np.repeat(y, counts), None
    return codes, y, weights


def _informative(distinct: FloatArray, after: npt.NDArray[np.intp], gains: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the thresholds half-way between neighbouring values, and their gains, without those gained by rounding.

    `after` is the index of the larger of the two values.
    """
    kept = (after > 0) & (after < len(distinct)) & (gains > 1e-12 * gains.max(initial=0.0))
    return 0.5 * distinct[after[kept] - 1] + 0.5 * distinct[after[kept]], gains[kept]


def _splits(node: dict[str, Any]) -> list[tuple[int, float]]:
    """Return, for each split below a node of LightGBM's dump, how many distinct values go left, and its gain."""
    if "split_gain" not in node:
        return []
    split = (int(np.floor(node["threshold"])), float(node["split_gain"]))
    return [split, *_splits(node["left_child"]), *_splits(node["right_child"])]
