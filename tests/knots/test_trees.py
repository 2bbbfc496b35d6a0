"""Trees on one column against those of scikit-learn, and the choice between splits that are equally good."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from knotwork.knots import Column, Target
from knotwork.knots._trees import grow_tree

LIMITS = {
    "leaves": {"max_leaves": 15},
    "leaves of some rows": {"max_leaves": 50, "min_samples_leaf": 25},
    "depth": {"max_depth": 6, "min_samples_leaf": 10, "min_samples_split": 20},
    "none": {"min_samples_leaf": 5},
}


def scikit_learn_splits(column, target, *, max_leaves=None, **limits):
    """Return the splits of the tree of scikit-learn, and their gains, but for those that gain nothing."""
    kind = DecisionTreeRegressor if target.task == "regression" else DecisionTreeClassifier
    model = kind(random_state=0, max_leaf_nodes=max_leaves, **limits)
    tree = model.fit(column.codes[:, None], target.values[column.rows], sample_weight=column.row_weights).tree_
    node = np.flatnonzero(tree.children_left != -1)
    left, right = tree.children_left[node], tree.children_right[node]
    n, impurity = tree.weighted_n_node_samples, tree.impurity
    gains = impurity[node] - (n[left] * impurity[left] + n[right] * impurity[right]) / n[node]
    after, informative = np.floor(tree.threshold[node]).astype(int) + 1, gains > 1e-12
    return after[informative], gains[informative]


def in_order(splits):
    after, gains = splits
    order = np.argsort(after)
    return after[order], gains[order]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_splits_and_gains_are_those_of_scikit_learn(task, limits, seed):
    """Targets are noisy, so that splits are not equally good; columns have ties, missing values and weights."""
    random = np.random.default_rng(seed)
    x = random.normal(size=700).round(1 if seed % 3 == 0 else 9)
    x[random.uniform(size=700) < 0.1] = np.nan
    y = np.sin(3 * np.nan_to_num(x)) + random.normal(size=700)
    weights = random.uniform(0.5, 2.0, 700) if seed % 2 else None
    column = Column.from_values(x, weights)
    target = Target.from_values(y if task == "regression" else np.digitize(y, [-1.0, 0.0, 1.0]).astype(str))
    after, gains = in_order(grow_tree(column, target, **LIMITS[limits]))
    expected, expected_gains = in_order(scikit_learn_splits(column, target, **LIMITS[limits]))
    np.testing.assert_array_equal(after, expected)
    # Impurities of scikit-learn are differences of numbers near one.
    np.testing.assert_allclose(gains, expected_gains, rtol=1e-7, atol=1e-12)


def test_of_equal_splits_the_one_at_the_smallest_value_is_taken():
    """The target is symmetric: each split has a mirror image of the same gain.

    Its variance is one, so that half of the rows are two apart from the others. The first split leaves 9 rows, of which
    6 are of one kind: their variance is 8 / 9, and 1 - 9 / 12 times that is gained.
    """
    x = np.arange(12.0)
    target = Target.from_values(np.where((x < 3) | (x >= 9), 1.0, 0.0))
    assert grow_tree(Column.from_values(x), target, max_leaves=2)[0].tolist() == [3]
    after, gains = grow_tree(Column.from_values(x), target, max_leaves=3)
    assert after.tolist() == [3, 9]
    np.testing.assert_allclose(gains, [1 / 3, 8 / 9])


def test_a_target_without_a_split():
    column = Column.from_values(np.arange(20.0))
    for values in (np.full(20, 3.0), np.tile([0.0, 1.0], 10)):
        after, _ = grow_tree(column, Target.from_values(values), min_samples_leaf=10)
        assert len(after) == 0


def test_whole_weights_are_numbers_of_rows():
    """A leaf of ten rows may be one row of weight ten."""
    column = Column.from_values(np.array([1.0, 2.0]), np.array([10.0, 10.0]))
    target = Target.from_values(np.array([0.0, 1.0]))
    assert len(grow_tree(column, target, min_samples_leaf=10)[0]) == 1
    assert len(grow_tree(column, target, min_samples_leaf=11)[0]) == 0
