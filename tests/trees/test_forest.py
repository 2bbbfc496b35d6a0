"""Forests predict what LightGBM predicts, and only trees that end are accepted."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest

from knotwork._graph._forest import ROWS_PER_TREE
from knotwork._trees import Forest
from knotwork._trees._lightgbm import TreeColumns, read_forest

N_CODES = 40


def columns(n=2000, seed=0, *, missing=0.2):
    """Three numbers, the first of which is missing at times, and a category of forty codes."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 3))
    numbers[rng.random(n) < missing, 0] = np.nan
    codes = rng.integers(0, N_CODES, n)
    return TreeColumns(np.column_stack([numbers, codes]), 3, (N_CODES,))


def goal(table, kind):
    numbers, codes = table.values[:, :3], table.values[:, 3].astype(int)
    y = np.nan_to_num(numbers[:, 0], nan=2.0) ** 2 + numbers[:, 1] * (codes % 3) + (codes % 7)
    return y if kind == "l2" else np.digitize(y, np.quantile(y, [0.3, 0.7])) % (3 if kind == "multiclass" else 2)


def grown(table, kind, **settings):
    """Return a model of LightGBM, and the forest of its text."""
    parameters = {"objective": kind, "verbosity": -1, "num_threads": 1, **settings}
    if kind == "multiclass":
        parameters["num_class"] = 3
    data = lightgbm.Dataset(table.values, goal(table, kind), categorical_feature=[3], params=parameters)
    model = lightgbm.train(parameters, data, 30)
    return model, read_forest(model.model_to_string(), table)


def scores(forest, table):
    return forest.scores(table.values[:, :3], table.values[:, 3:].astype(np.int64))


@pytest.mark.parametrize("kind", ["l2", "binary", "multiclass"])
@pytest.mark.parametrize("settings", [{}, {"extra_trees": True}, {"max_cat_to_onehot": 100}, {"num_leaves": 2}])
def test_forests_predict_what_lightgbm_predicts(kind, settings):
    table = columns()
    model, forest = grown(table, kind, **settings)
    forest.check(3, (N_CODES,))
    new = columns(seed=1)
    wanted = model.predict(new.values, raw_score=True).reshape(len(new.values), -1)
    np.testing.assert_allclose(scores(forest, new), wanted, rtol=1e-12, atol=1e-12)
    assert forest.n_trees == model.num_trees()


@pytest.mark.parametrize("n_rows", [0, 1, 7, ROWS_PER_TREE, ROWS_PER_TREE + 1, 1000])
def test_a_row_is_predicted_alike_in_any_batch(n_rows):
    table = columns()
    _, forest = grown(table, "l2")
    few = replace(table, values=table.values[:n_rows])
    np.testing.assert_array_equal(scores(forest, few), scores(forest, table)[:n_rows])


def test_missing_values_that_training_rows_never_had_go_with_most_rows():
    table = columns(missing=0.0)
    _, forest = grown(table, "l2", num_leaves=2)
    for root in forest.roots.tolist():
        feature, threshold = forest.feature[root], forest.value[root]
        if 0 <= feature < 3:
            goes_left = (table.values[:, feature] <= threshold).mean() >= 0.5
            assert forest.missing_left[root] == goes_left


def test_a_target_of_one_value_has_trees_of_one_leaf():
    table = columns(200)
    data = lightgbm.Dataset(table.values, np.full(200, 3.0), params={"verbosity": -1})
    model = lightgbm.train({"objective": "l2", "verbosity": -1}, data, 3)
    np.testing.assert_allclose(scores(read_forest(model.model_to_string(), table), table), 3.0)


def test_joined_forests_add_their_trees():
    table = columns()
    parts = [grown(table, "l2", seed=seed, feature_fraction=0.5)[1].with_outputs(seed, 2) for seed in (0, 1)]
    joined = Forest.joined(parts)
    joined.check(3, (N_CODES,))
    wanted = scores(parts[0], table) + scores(parts[1], table)
    np.testing.assert_allclose(scores(joined, table), wanted, rtol=1e-12)
    assert (scores(parts[0], table)[:, 1] == 0.0).all()


CHANGES = {
    "a node that leads back": {"left": 0},
    "a node outside": {"right": 10**6},
    "a feature outside": {"feature": 4 + 10**6},
    "no feature": {"feature": -2},
    "a tree outside": {"roots": 10**6},
    "an output outside": {"outputs": 1},
    "a column outside": {"code_columns": 1},
    "codes outside": {"code_starts": 10**6},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_trees_that_do_not_end_or_read_elsewhere_are_refused(change):
    _, forest = grown(columns(), "l2")
    ((name, value),) = change.items()
    changed = getattr(forest, name).copy()
    changed[1 if name in ("left", "right", "feature") else 0] = value
    with pytest.raises(ValueError, match=name):
        replace(forest, **{name: changed}).check(3, (N_CODES,))


@pytest.mark.parametrize("name", ["value", "left", "right", "missing_left", "outputs", "code_starts"])
def test_arrays_of_another_length_are_refused(name):
    _, forest = grown(columns(), "l2")
    with pytest.raises(ValueError, match=name):
        replace(forest, **{name: getattr(forest, name)[:-1]}).check(3, (N_CODES,))


def test_a_forest_of_another_table_is_refused():
    _, forest = grown(columns(), "l2")
    with pytest.raises(ValueError, match="n_numerical must be 2"):
        forest.check(2, (N_CODES, 2))
    with pytest.raises(ValueError, match="code_starts"):
        replace(forest, code_values=forest.code_values[:-1]).check(3, (N_CODES,))
