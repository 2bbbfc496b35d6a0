"""What is kept of a table in parts."""

import pickle

import numpy as np
import pytest

from knotwork.encoders._sketch import ColumnSketch
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


def sketched(x, weights=None, n_parts=4):
    """Return the sketch of a column in parts, merged two by two."""
    sketches = []
    for rows in np.array_split(np.arange(len(x)), n_parts):
        sketches.append(ColumnSketch())
        sketches[-1].update(x[rows], None if weights is None else weights[rows])
    while len(sketches) > 1:
        sketches = [pair[0].merge(pair[1]) if len(pair) > 1 else pair[0]
                    for pair in (sketches[i : i + 2] for i in range(0, len(sketches), 2))]  # fmt: skip
    return sketches[0]


def test_a_small_column_is_exact():
    x = np.random.default_rng(0).normal(size=3000).round(2)
    x[::7] = np.nan
    sketch = sketched(x)
    present = x[~np.isnan(x)]
    assert (sketch.n, sketch.n_missing) == (len(present), len(x) - len(present))
    assert (sketch.minimum, sketch.maximum) == (present.min(), present.max())
    levels = np.linspace(0.0, 1.0, 21)
    np.testing.assert_allclose(sketch.quantiles(levels), np.quantile(present, levels), rtol=1e-12)
    values, counts = np.unique(present, return_counts=True)
    np.testing.assert_array_equal(sketch.distinct, values)
    np.testing.assert_array_equal(sketch.counts, counts)
    assert sketch.n_distinct == len(values)
    assert sketch.is_exact


@pytest.mark.parametrize("n_distinct", [1, 1000, 20_000, 400_000])
def test_distinct_values_are_counted_and_then_estimated(n_distinct):
    x = np.random.default_rng(0).permutation(np.arange(400_000) % n_distinct) * 0.1
    sketch = sketched(x)
    assert sketch.n_distinct == pytest.approx(n_distinct, rel=0.0 if n_distinct <= 1000 else 0.1)
    assert (sketch.distinct is None) == (n_distinct > 1000)
    assert sketch.is_exact == (n_distinct <= 1000)
    assert len(pickle.dumps(sketch)) < 2_000_000


def test_rows_of_weight_zero_do_not_count():
    x, weights = np.array([1.0, 2.0, np.nan, np.nan, 9.0]), np.array([1.0, 2.0, 1.0, 0.0, 0.0])
    sketch = sketched(x, weights, n_parts=2)
    assert (sketch.n, sketch.n_missing, sketch.maximum) == (2, 1, 2.0)
    np.testing.assert_array_equal(sketch.counts, [1.0, 2.0])


def test_a_column_without_values():
    sketch = sketched(np.full(5, np.nan), n_parts=2)
    assert (sketch.n, sketch.n_missing, sketch.n_distinct) == (0, 5, 0)
    assert len(sketch.quantiles([0.5])) == 0
