"""Compiled formulas equal the definitions in numpy; the cores that a process may use."""

import numpy as np
import pytest

from knotwork import _loops, basis
from knotwork._loops import MOST_COUNTED, add_bends, compiled, fill_bumps, fill_cubes, fill_splines, find_intervals
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


V1, V2 = "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n", "0::/a/b\n"


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        (V2, {"a/b/cpu.max": "200000 100000"}, 2),
        (V2, {"a/b/cpu.max": "150000 100000"}, 1),
        (V2, {"a/b/cpu.max": "50000 100000"}, 1),
        (V2, {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        (V2, {"cpu.max": "200000 100000"}, 2),
        (V2, {"a/b/cpu.max": "max 100000"}, _loops.NO_LIMIT),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n"}, 3),
        (
            V1,
            {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "1\n"},
            _loops.NO_LIMIT,
        ),
        (V1, {"memory/a/cpu.cfs_quota_us": "1\n", "memory/a/cpu.cfs_period_us": "1\n"}, _loops.NO_LIMIT),
        (None, {"cpu.max": "100000 100000"}, _loops.NO_LIMIT),
    ],
)
def test_quota_of_control_groups(tmp_path, groups, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    if groups is not None:
        (tmp_path / "groups").write_text(groups)
    assert _loops.cores_of_quota(tmp_path, tmp_path / "groups") == cores


def test_usable_cores_obey_affinity_quota_and_a_given_number(monkeypatch):
    monkeypatch.setattr(_loops.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(_loops, "cores_of_quota", lambda: 4)
    assert _loops.usable_cores(16) == 4
    assert _loops.usable_cores(3) == 3
    monkeypatch.setattr(_loops.os, "sched_getaffinity", lambda _: {1}, raising=False)
    assert _loops.usable_cores(16) == 1
