"""Tasks of targets, and quantiles of streams."""

import numpy as np
import pandas as pd
import pytest

from knotwork.errors import ArgumentError
from knotwork.knots import Column, QuantileSketch, Target


@pytest.mark.parametrize(
    ("y", "task"),
    [
        ([0.5, 1.5, 2.5], "regression"),
        ([1.0, 2.0, 3.0], "regression"),
        ([0, 1, 1], "classification"),
        ([10, 20, 30], "classification"),
        (list(range(50)), "regression"),
        (["a", "b", "a"], "classification"),
        ([True, False, True], "classification"),
        (pd.Categorical(["x", "y", "x"]), "classification"),
        (pd.Series([1, 2, 3], dtype="Int64"), "classification"),
        (np.array([1, "a", 2], dtype=object), "classification"),
    ],
)
def test_task_is_inferred(y, task):
    assert Target.from_values(y).task == task


def test_task_can_be_given():
    np.testing.assert_array_equal(Target.from_values([1.5, 2.5, 1.5], "classification").values, [0, 1, 0])
    assert Target.from_values([1, 2, 3], "regression").values.dtype == np.float64


def test_regression_targets_are_scaled_without_overflow():
    values = Target.from_values(np.array([1e300, -1e300, 0.0, 5e299])).values
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(1.0)


@pytest.mark.parametrize("y", [[1.0, np.nan], [1.0, np.inf], np.array(["a", None], dtype=object), [None, 1.5]])
def test_missing_targets_are_refused(y):
    with pytest.raises(ArgumentError, match="y must have no missing"):
        Target.from_values(y)


def test_labels_are_no_regression_target():
    with pytest.raises(ArgumentError, match="task='classification'"):
        Target.from_values(["a", "b"], "regression")


def sketched(x, n_batches, **settings):
    sketch = QuantileSketch(**settings)
    for batch in np.array_split(x, n_batches):
        sketch.update(batch)
    return sketch.column()


def test_a_short_stream_is_exact():
    x = np.random.default_rng(0).normal(size=5000)
    column = sketched(x, 7)
    expected = Column.from_values(x)
    np.testing.assert_array_equal(column.distinct, expected.distinct)
    np.testing.assert_array_equal(column.weights, expected.weights)


@pytest.mark.parametrize("order", ["random", "sorted", "reversed"])
def test_ranks_of_a_long_stream_are_within_the_bound(order):
    n, capacity = 300_000, 1024
    x = np.random.default_rng(0).normal(size=n)
    x = {"random": x, "sorted": np.sort(x), "reversed": np.sort(x)[::-1]}[order]
    column = sketched(x, 13, capacity=capacity)
    assert len(column.distinct) < 12 * capacity
    levels = np.linspace(0.01, 0.99, 99)
    ranks = column.shares_below(np.quantile(x, levels))
    assert np.abs(ranks - levels).max() <= np.log2(n / capacity) / (2 * capacity)
    assert (column.distinct[0], column.distinct[-1]) == (x.min(), x.max())


def test_ties_and_missing_values():
    x = np.where(np.random.default_rng(0).uniform(size=100_000) < 0.8, 0.0, 1.0)
    x[::10] = np.nan
    column = sketched(x, 9, capacity=512)
    np.testing.assert_array_equal(column.distinct, [0.0, 1.0])
    assert column.weights[0] / column.weights.sum() == pytest.approx(0.8, abs=0.02)
    assert len(sketched(np.full(10, np.nan), 2).distinct) == 0


def test_the_random_seed_alone_changes_the_sketch():
    x = np.random.default_rng(0).normal(size=50_000)
    columns = [sketched(x, 5, capacity=512, seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(columns[0].distinct, columns[1].distinct)
    assert not np.array_equal(columns[0].distinct, columns[2].distinct)


def test_few_distinct_values_are_counted_whatever_their_number():
    x = np.random.default_rng(0).integers(0, 900, size=50_000) / 7.0
    column, expected = sketched(x, 9, capacity=512), Column.from_values(x)
    np.testing.assert_array_equal(column.distinct, expected.distinct)
    np.testing.assert_array_equal(column.weights, expected.weights)


def test_a_column_of_which_most_values_are_equal_is_counted():
    rng = np.random.default_rng(0)
    x = np.where(rng.uniform(size=150_000) < 0.97, 0.0, rng.normal(size=150_000))
    column, expected = sketched(x, 9), Column.from_values(x)
    np.testing.assert_array_equal(column.distinct, expected.distinct)
    np.testing.assert_array_equal(column.weights, expected.weights)


@pytest.mark.parametrize("distinct", ["few", "many", "few, then many"])
@pytest.mark.parametrize("weighted", [False, True])
def test_merged_sketches_have_the_stated_error_in_any_order(distinct, weighted):
    rng = np.random.default_rng(0)
    n, capacity = 60_000, 512
    x = {
        "few": rng.integers(0, 50, size=n).astype(float),
        "many": np.sort(rng.normal(size=n)),
        "few, then many": np.concatenate([rng.integers(0, 50, size=n // 2), rng.normal(10.0, 30.0, size=n // 2)]),
    }[distinct]
    w = rng.uniform(0.0, 3.0, size=n).round(1) if weighted else None
    parts = np.array_split(np.arange(n), [100, 9000, 9001, 30_000])
    order = np.argsort(x, kind="stable")
    running = np.cumsum(np.ones(n) if w is None else w[order])
    bound = (1 + weighted) * (np.log2(n / capacity) + 1) / (2 * capacity)
    for shape in ("left", "right", "tree"):
        sketches = []
        for rows in parts:
            sketches.append(QuantileSketch(capacity))
            sketches[-1].update(x[rows], None if w is None else w[rows])
        if shape == "left":
            a, b, c, d, e = sketches
            merged = a.merge(b).merge(c).merge(d).merge(e)
        elif shape == "right":
            a, b, c, d, e = sketches
            merged = a.merge(b.merge(c.merge(d.merge(e))))
        else:
            e, d, c, b, a = sketches
            merged = a.merge(b).merge(c.merge(d)).merge(e)
        column = merged.column()
        points = np.unique(np.quantile(x, np.linspace(0.01, 0.99, 99), method="lower"))
        true = running[np.searchsorted(x[order], points, side="right") - 1] / running[-1]
        assert np.abs(column.shares_below(points) - true).max() <= (1e-12 if distinct == "few" else bound)
        assert (column.distinct[0], column.distinct[-1]) == (x.min(), x.max())
        assert merged.is_exact == (distinct == "few")
        mean = np.average(x, weights=w)
        deviation = np.sqrt(np.average((x - mean) ** 2, weights=w))
        np.testing.assert_allclose(column.mean_and_deviation(), [mean, deviation], rtol=1e-12)


def test_merging_is_commutative():
    x = np.random.default_rng(0).normal(size=20_000)

    def pair():
        first, second = QuantileSketch(512), QuantileSketch(512)
        first.update(x[:12_288])
        second.update(x[12_288:])
        return first, second

    (a, b), (c, d) = pair(), pair()
    np.testing.assert_array_equal(a.merge(b).column().distinct, d.merge(c).column().distinct)


def test_only_equal_capacities_can_be_merged():
    with pytest.raises(ArgumentError, match="capacity"):
        QuantileSketch(512).merge(QuantileSketch(1024))


@pytest.mark.parametrize(
    ("values", "n_distinct"),
    [
        ([0.1 + 0.2, 0.3, 0.1], 2),
        ([1e9 * (0.1 + 0.2), 1e9 * 0.3, 1e8], 2),
        ([0.0, 5e-17, -5e-17, 1.0, 2.0, 3.0], 4),  # differences of numbers near one
        ([0.0, 5e-17, 5e-10, 1.0, 2.0, 3.0], 5),
        ([1.0, 2.0, 3.0, 2.0**63, -(2.0**63)], 5),  # codes for missing values
        ([1e-300, 2e-300, 3e-300, 1e300, -1e300], 5),
        ([1.0, 2.0, 3.0, 1e12], 4),
        ([1.7e18 + 256.0 * 100 * place for place in range(9)], 9),  # nanoseconds
        ([5e-324, 1e-323, 1.5e-323], 3),
        ([7.0], 1),
    ],
    ids=str,
)
def test_values_that_differ_by_rounding_are_one(values, n_distinct):
    column = Column.from_values(np.array(values))
    assert len(column.distinct) == n_distinct
    assert (column.distinct[0], column.distinct[-1]) in ((min(values), max(values)), (0.0, 3.0), (-5e-17, 3.0))
    assert column.weights.sum() == len(values)
    np.testing.assert_allclose(column.distinct[column.codes], values, rtol=1e-14, atol=1e-16)
