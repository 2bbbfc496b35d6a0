"""Placements at the splits of trees that predict the target from one column."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from knotwork._checks import check_installed
from knotwork.basis._base import FloatArray
from knotwork.knots._column import Column
from knotwork.knots._selection import complete, select_spaced
from knotwork.knots._target import Target

__all__ = ["CartPlacement", "LightGBMPlacement", "cart_thresholds"]


@dataclass(frozen=True)
class CartPlacement:
    """Knots at the most informative splits of one regression or classification tree (CART).

    Splits nearer to a better one than `min_spacing` are dropped, the best K of the rest are kept, and places that
    are left are filled as `complete` says. A column without a split has quantile knots.

    Parameters
    ----------
    max_depth : int
        Depth of the tree.
    min_samples_leaf, min_samples_split : int
        Fewest rows of a leaf, and of a node that is split.
    min_spacing : float
        Smallest distance between two splits, as a share of the domain.

    Notes
    -----
    A split of node v into L and R is as informative as ``I(v) - n_L / n_v I(L) - n_R / n_v I(R)``, where I is the
    variance or the Gini impurity and n counts rows, by weight.

    Trees see the ranks of the values, not the values: splits are the same, and neither the single precision of
    scikit-learn's trees nor the scale of the column can move them. A split between the neighbouring values a and b
    becomes the knot (a + b) / 2.
    """

    max_depth: int = 6
    min_samples_leaf: int = 10
    min_samples_split: int = 20
    min_spacing: float = 0.01
    supervised: ClassVar[bool] = True

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots."""
        thresholds, gains = self.thresholds(column, target, seed)
        return complete(select_spaced(thresholds, gains, column, n_knots, self.min_spacing), column, n_knots)

    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of the tree and how informative each is; they do not depend on the number of knots."""
        return cart_thresholds(
            column,
            target,
            seed=seed,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            min_samples_split=self.min_samples_split,
        )


@dataclass(frozen=True)
class LightGBMPlacement:
    """Knots at the splits of a gradient-boosted ensemble (LightGBM) with the largest total gain.

    The gain of a threshold is summed over all trees that use it, for several classes over the trees of all classes.
    Spacing and filling are those of `CartPlacement`, and so is what the trees see.

    Parameters
    ----------
    n_trees, max_depth, learning_rate : int, int, float
        The ensemble.
    min_samples_leaf : int
        Fewest rows of a leaf.
    min_spacing : float
        Smallest distance between two splits, as a share of the domain.
    """

    n_trees: int = 100
    max_depth: int = 3
    learning_rate: float = 0.1
    min_samples_leaf: int = 20
    min_spacing: float = 0.01
    supervised: ClassVar[bool] = True

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots."""
        thresholds, gains = self.thresholds(column, target, seed)
        return complete(select_spaced(thresholds, gains, column, n_knots, self.min_spacing), column, n_knots)

    def thresholds(self, column: Column, target: Target | None, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return the splits of all trees and their total gains; they do not depend on the number of knots."""
        codes, y, weights = _rows(column, target)
        if len(column.distinct) < 2 or len(codes) < 2 * self.min_samples_leaf or np.all(y == y[0]):
            return np.empty(0), np.empty(0)
        check_installed("placement='lgbm'", "lightgbm", "lightgbm", hint="Or choose placement='cart'.")
        import lightgbm  # noqa: PLC0415 - optional, and slow to import

        n_classes = 0
        if target is not None and target.task == "classification":
            labels, y = np.unique(y, return_inverse=True)  # a class may have no row here
            n_classes = len(labels)
        parameters = {
            "objective": "regression" if not n_classes else "binary" if n_classes == 2 else "multiclass",
            "num_class": n_classes if n_classes > 2 else 1,
            "max_depth": self.max_depth,
            "num_leaves": 2**self.max_depth,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.min_samples_leaf,
            "num_threads": 1,
            "verbosity": -1,
            "seed": seed,
            "deterministic": True,
            "force_col_wise": True,
        }
        ranks = codes[:, None].astype(np.float64) + 1.0
        data = lightgbm.Dataset(ranks, y, weight=weights, params=parameters)
        booster = lightgbm.train(parameters, data, num_boost_round=self.n_trees)
        cuts: dict[int, float] = {}
        for tree in booster.dump_model()["tree_info"]:
            for cut, gain in _splits(tree["tree_structure"]):
                cuts[cut] = cuts.get(cut, 0.0) + gain
        return _informative(column.distinct, np.array(list(cuts), dtype=np.intp), np.array(list(cuts.values())))


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
