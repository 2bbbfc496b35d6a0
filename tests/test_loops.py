"""The compiled formulas that encoders, additive models and layers share equal the definitions in numpy."""

import numpy as np
import pytest

from knotwork import basis
from knotwork._loops import MOST_COUNTED, add_bends, fill_bumps, fill_cubes, fill_splines, find_intervals
from knotwork._numba import compiled
from knotwork.basis._bspline import extended, local_bsplines

RANDOM = np.random.default_rng(0)
BREAKS = np.concatenate([[0.0], np.sort(RANDOM.uniform(size=9)), [1.0]])
X = np.concatenate([BREAKS, RANDOM.uniform(size=50)])


# Inlined functions have no entry for calls from Python: these loops call them.


@compiled()
def splines_at(x, degree, t, first, levels):
    for i in range(len(x)):
        fill_splines(x[i], degree, t, first[i], levels[i])


@compiled()
def intervals_of(x, knots, intervals):
    find_intervals(x, knots, intervals)


@compiled()
def bumps_at(x, centres, factors, per_bit, most, rows):
    for i in range(len(x)):
        fill_bumps(x[i], centres, factors, per_bit, most, rows[i])


@compiled()
def cubes_at(x, centres, factors, rows):
    for i in range(len(x)):
        fill_cubes(x[i], centres, factors, rows[i])


@compiled()
def bends_at(left, right, from_left, from_right, row):
    add_bends(left, right, from_left, from_right, row)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("degree", range(6))
def test_the_triangular_scheme_is_that_of_the_definition(degree, cyclic):
    intervals, expected = local_bsplines(X, BREAKS, degree, cyclic=cyclic)
    t, first = extended(BREAKS, degree, cyclic=cyclic), intervals + degree + 1
    levels = np.zeros((len(X), degree + 1, degree + 1))
    splines_at(X, degree, t, first, levels)
    np.testing.assert_array_equal(levels[:, degree], expected)
    for q in range(degree + 1):
        lower = local_bsplines(X, BREAKS, q, cyclic=cyclic)[1]
        np.testing.assert_array_equal(levels[:, q, : q + 1], lower)


@pytest.mark.parametrize("n_knots", [0, 9, MOST_COUNTED, MOST_COUNTED + 1, 1000])
def test_intervals_are_those_of_a_search(n_knots):
    knots = np.sort(RANDOM.uniform(size=n_knots))
    x = np.concatenate([RANDOM.uniform(-0.1, 1.1, 200), knots, [np.nan]])
    intervals = np.full(len(x), -1, dtype=np.int32)
    intervals_of(x, knots, intervals)
    np.testing.assert_array_equal(intervals[:-1], np.searchsorted(knots, x[:-1], side="right"))
    assert intervals[-1] == 0


def test_bumps_are_exponentials():
    centres, factors, rows = BREAKS, RANDOM.uniform(1.0, 9.0, len(BREAKS)), np.empty((len(X), len(BREAKS)))
    bumps_at(X, centres, factors, np.log2(np.e), 1000.0, rows)
    expected = np.exp(-(((X[:, None] - centres) * factors) ** 2))
    np.testing.assert_allclose(rows, expected, rtol=1e-13)


def test_cubes_are_those_of_thin_plate_splines():
    rows = np.empty((len(X), len(BREAKS) - 1))
    cubes_at(X, BREAKS[:-1], np.ones(len(BREAKS) - 1), rows)
    expected = basis.evaluate("thin_plate", X, BREAKS[1:-1])
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-15)


def test_bends_are_added():
    left, right = RANDOM.normal(size=(2, 7))
    row = np.empty(7)
    bends_at(left, right, 0.25, -3.0, row)
    np.testing.assert_allclose(row, 0.25 * left - 3.0 * right, rtol=1e-14)
