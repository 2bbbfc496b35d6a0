"""Origin and unit of a column, and its outliers."""

import numpy as np
import pytest

from knotwork.training._members import column_units, in_units, usual_range

NORMAL = np.random.default_rng(0).normal(size=1000)


@pytest.mark.parametrize("far", [1e3, -1e6, 1e300, -1.7e308, np.inf])
@pytest.mark.parametrize("n", [10, 50, 1000])
def test_the_range_excludes_only_outliers(n, far):
    values = NORMAL[:n].copy()
    values[[3, 5]] = far, np.nan
    others = np.delete(NORMAL[:n], [3, 5])
    assert usual_range(values) == (others.min(), others.max())


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


@pytest.mark.parametrize("far", [1e12, -1e12, 1e300])
def test_float32_distinguishes_values_beside_an_outlier(far):
    column = np.append(NORMAL, far)[:, None]
    units = column_units(column)
    assert units[:, 0].tolist() == [NORMAL.min(), NORMAL.max() - NORMAL.min()]
    scaled = in_units(column, units)
    assert np.isfinite(scaled).all()
    assert len(np.unique(scaled)) > 0.99 * len(column)


def test_a_column_without_numbers_has_the_unit_one():
    assert column_units(np.full((5, 1), np.nan)).ravel().tolist() == [0.0, 1.0]
