"""Quantiles of streams."""

import numpy as np
import pytest

from knotwork.knots import Column, QuantileSketch


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


def test_the_seed_has_an_effect_and_is_all_there_is_of_chance():
    x = np.random.default_rng(0).normal(size=50_000)
    columns = [sketched(x, 5, capacity=512, seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(columns[0].distinct, columns[1].distinct)
    assert not np.array_equal(columns[0].distinct, columns[2].distinct)
