"""The usual range of a column, from its values and from a summary."""

import numpy as np
import pytest

from knotwork.knots import Column, usual_range, usual_range_of, without_outliers

NORMAL = np.random.default_rng(0).normal(size=1000)


@pytest.mark.parametrize("far", [1e3, -1e6, 1e300, -1.7e308, np.inf])
@pytest.mark.parametrize("n", [10, 50, 1000])
def test_the_range_excludes_only_outliers(n, far):
    values = NORMAL[:n].copy()
    values[[3, 5]] = far, np.nan
    others = np.delete(NORMAL[:n], [3, 5])
    assert usual_range(values) == (others.min(), others.max())
    if np.isfinite(far):
        assert usual_range_of(Column.from_values(values)) == usual_range(values)


@pytest.mark.parametrize(
    "values",
    [
        [2.0],
        [1.0, 2.0, np.nan, 4.0, 1e9],  # too few to recognise an outlier
        [7.0] * 50,
        [0.0] * 98 + [2.0, 1e6],  # the few values that are not 0 carry the information
        [-1.7e308, 1.7e308] * 10,  # the range overflows
        np.random.default_rng(0).lognormal(size=20_000),
    ],
)
def test_columns_without_outliers(values):
    assert usual_range(np.array(values, dtype=float)) == (np.nanmin(values), np.nanmax(values))


def test_outliers_are_moved_and_nothing_else():
    x = np.random.default_rng(2).lognormal(size=2000)
    assert without_outliers(Column.from_values(x)).domain == (x.min(), x.max())
    moved = without_outliers(Column.from_values(np.concatenate([x, [1e300, -1e300]])))
    assert moved.domain == (x.min(), x.max())
    assert moved.weights.sum() == 2002.0
    zeros = Column.from_values(np.concatenate([np.zeros(5000), np.arange(10.0)]))  # the middle is a single value
    assert without_outliers(zeros).domain == (0.0, 9.0)
    assert without_outliers(Column.from_values(np.array([np.nan]))).domain == (0.0, 1.0)


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_the_scale_of_weights_does_not_matter(scale):
    x = np.append(NORMAL, 1e300)
    assert usual_range_of(Column.from_values(x, np.full(len(x), scale))) == (NORMAL.min(), NORMAL.max())
