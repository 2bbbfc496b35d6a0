"""What is kept of a table in parts."""

import pickle

import numpy as np
import pytest

from knotwork.knots import Column, QuantileSketch

CAPACITY = 64
NUMBERS = {
    "normal": lambda random, n: random.normal(size=n),
    "ties": lambda random, n: np.where(random.uniform(size=n) < 0.9, 0.0, random.normal(size=n)),
    "sorted": lambda random, n: np.sort(random.lognormal(size=n)),
    "huge": lambda random, n: 1e300 * random.normal(size=n),
    "constant": lambda random, n: np.full(n, 7.5),
    "integers": lambda random, n: random.integers(0, 5000, size=n),
    "single": lambda random, n: random.normal(size=n).astype(np.float32),
    "parts with few values": lambda random, n: np.arange(n) // 700 * 1000.0 + np.arange(n) % 50,
}
WEIGHTS = {
    "none": lambda random, n: None,
    "whole": lambda random, n: random.integers(0, 4, size=n).astype(float),
    "tiny": lambda random, n: 1e-9 * random.uniform(size=n),
    "unequal": lambda random, n: random.lognormal(sigma=2.0, size=n),
}


def merged_at_random(random, x, weights):
    """Return the sketch of numbers in parts of random sizes, merged in a random order and shape."""
    sketches = []
    for rows in np.split(np.arange(len(x)), np.sort(random.integers(0, len(x) + 1, random.integers(0, 30)))):
        sketches.append(QuantileSketch(CAPACITY))
        for some in np.array_split(rows, random.integers(1, 4)):
            sketches[-1].update(x[some], None if weights is None else weights[some])
    while len(sketches) > 1:
        first, second = random.choice(len(sketches), 2, replace=False)
        sketches[first].merge(pickle.loads(pickle.dumps(sketches[second])))
        del sketches[second]
    return sketches[0]


def ranks(x, weights, points):
    """Return the shares of the weight below each point, and at or below it."""
    order = np.argsort(x)
    running = np.append(0.0, np.cumsum(weights[order])) / weights.sum()
    return (running[np.searchsorted(x[order], points, side)] for side in ("left", "right"))


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("kind", NUMBERS)
def test_quantiles_of_any_parts_have_the_error_that_is_stated(kind, weighting):
    random, levels = np.random.default_rng(0), np.linspace(0.02, 0.98, 25)
    for n in (1, 3, 100, 3000, 9000):
        x, weights = NUMBERS[kind](random, n), WEIGHTS[weighting](random, n)
        if weights is not None and not weights.any():
            continue
        sketch = merged_at_random(random, x, weights)
        column, exact = sketch.column(), Column.from_values(x.astype(float), weights)
        assert column.domain == exact.domain
        np.testing.assert_allclose(column.mean_and_deviation(), exact.mean_and_deviation(), rtol=1e-7, atol=1e-12)
        if sketch.is_exact:
            rounding = 1e-12 * float(np.abs(x).max())
            np.testing.assert_allclose(column.quantiles(levels), exact.quantiles(levels), rtol=1e-9, atol=rounding)
            continue
        row_weights = np.ones(n) if weights is None else weights
        below, reached = ranks(x.astype(float), row_weights, column.quantiles(levels))
        stated = (np.log2(n / CAPACITY) + 1.0) / CAPACITY / (2.0 if weights is None else 1.0)
        slack = row_weights.max() / row_weights.sum()  # quantiles lie between neighbouring numbers
        assert np.maximum(below - levels, levels - reached).max() <= stated + slack


@pytest.mark.parametrize("n_distinct", [None, 1, 1000])
def test_a_column_of_few_values_is_exact(n_distinct):
    random = np.random.default_rng(0)
    x = random.normal(size=3000).round(2) if n_distinct is None else np.arange(400_000) % n_distinct * 0.1
    x[::7] = np.nan
    sketch = QuantileSketch()
    for part in np.array_split(random.permutation(x), 4):
        other = QuantileSketch()
        other.update(part)
        sketch.merge(other)
    present, column, levels = x[~np.isnan(x)], sketch.column(), np.linspace(0.0, 1.0, 21)
    assert sketch.range == (present.min(), present.max())
    np.testing.assert_allclose(column.quantiles(levels), np.quantile(present, levels), rtol=1e-12)
    values, counts = np.unique(present, return_counts=True)
    np.testing.assert_array_equal(column.distinct, values)
    np.testing.assert_array_equal(column.weights, counts)
    assert sketch.is_exact
    assert len(pickle.dumps(sketch)) < 2_000_000


def test_rows_of_weight_zero_do_not_count():
    sketch = QuantileSketch()
    sketch.update(np.array([1.0, 2.0, np.nan, np.nan, 9.0]), np.array([1.0, 2.0, 1.0, 0.0, 0.0]))
    assert sketch.range == (1.0, 2.0)
    np.testing.assert_array_equal(sketch.column().weights, [1.0, 2.0])


def test_a_column_without_values():
    sketch = QuantileSketch()
    sketch.update(np.full(5, np.nan))
    assert len(sketch.column().quantiles([0.5])) == 0
