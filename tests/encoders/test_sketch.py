"""What is kept of a table in parts."""

import pickle

import numpy as np
import pytest

from knotwork.encoders._sketch import ColumnSketch


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
