"""Origin and unit of a column."""

import numpy as np
import pytest

from knotwork.training._members import column_units, in_units

NORMAL = np.random.default_rng(0).normal(size=1000)


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
