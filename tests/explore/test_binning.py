"""Rows and groups of a page: random rows, exact groups of few values, heavy values alone, missing values apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knotwork._explore._prepare import MISSING_CODE, BinnedColumn, as_shares, draw_split


@pytest.mark.parametrize(("n_rows", "expected"), [(3, (2, 1)), (100, (67, 33)), (50_000, (5_000, 5_000))])
def test_rows_are_random_and_do_not_overlap(n_rows, expected):
    training, held_out = draw_split(n_rows, seed=0)
    assert (len(training), len(held_out)) == expected
    assert len({*training, *held_out}) == sum(expected)
    if n_rows > 1_000:  # not the first rows of an ordered table
        assert not np.array_equal(training, draw_split(n_rows, seed=1)[0])
        assert abs(training.mean() / n_rows - 0.5) < 0.02


def test_few_values_are_exact():
    values = np.array([3.0, 1.0, 1.0, np.nan, 2.0, 9.0])
    column = BinnedColumn.from_values(values, n_training=5)
    np.testing.assert_allclose(column.centres, [0.0, 0.5, 1.0])
    assert column.codes.tolist() == [2, 0, 0, MISSING_CODE, 1, 2]  # the held-out 9 is moved to the end of the range


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.95))
def test_groups_are_narrow_and_a_heavy_value_is_alone(seed, share):
    random = np.random.default_rng(seed)
    values = np.where(random.uniform(size=2_000) < share, 0.5, random.normal(size=2_000))
    column = BinnedColumn.from_values(values, n_training=2_000)
    assert len(column.centres) <= MISSING_CODE
    assert np.all(np.diff(column.centres) > 0)
    scaled = as_shares(values, column.column.domain)
    np.testing.assert_allclose(np.bincount(column.codes, scaled) / column.counts, column.centres)
    if share > 0.05:
        heavy = np.unique(column.codes[values == 0.5])
        assert len(heavy) == 1
        assert set(values[column.codes == heavy[0]]) == {0.5}


def test_bars_have_room_for_equally_many_whole_numbers():
    """73 ages in 48 bars would give bars of two ages beside bars of one."""
    column = BinnedColumn.from_values(np.repeat(np.arange(17.0, 90.0), 10), n_training=730)
    assert column.bars()[0][:-1].tolist() == [20] * 36
    assert column.bars()[0].sum() == 730
