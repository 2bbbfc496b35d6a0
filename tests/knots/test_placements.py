"""Positions of knots on ordinary columns, and their number on difficult ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from knotwork import basis
from knotwork.errors import ArgumentError
from knotwork.knots import PLACEMENTS, CartPlacement, Column, FixedPlacement, LightGBMPlacement, Target
from knotwork.knots._placements import complete, select_spaced

N = 2000


def uniform(n=N, seed=0):
    return np.random.default_rng(seed).uniform(size=n)


def check_knots(knots, column, n_knots):
    assert knots.shape == (n_knots,)
    basis.BSpline(knots, column.domain)  # refuses knots that are not strictly increasing inside the domain


COLUMNS = {
    "normal": np.random.default_rng(0).normal(size=500),
    "constant": np.full(100, 3.0),
    "constant zero": np.zeros(10),
    "constant 1e300": np.full(10, 1e300),
    "constant largest": np.full(10, np.finfo(float).max),
    "constant smallest": np.full(10, 5e-324),
    "two values": np.repeat([0.0, 1.0], 50),
    "two neighbouring floats": np.repeat([1.0, np.nextafter(1.0, 2.0)], 50),
    "rounding noise": 1.0 + 1e-14 * np.random.default_rng(0).normal(size=100),
    "90 % zeros": np.where(uniform() < 0.9, 0.0, uniform(seed=1)),
    "99.9 % zeros": np.where(uniform() < 0.999, 0.0, uniform(seed=1)),
    "heavy tail": np.random.default_rng(0).standard_cauchy(500) ** 3,
    "lognormal 10": np.exp(10 * np.random.default_rng(0).normal(size=500)),
    "integers": np.random.default_rng(0).integers(0, 8, 500).astype(float),
    "scale 1e-300": 1e-300 * uniform(300),
    "scale 1e300": 1e300 * uniform(300),
    "subnormal": 1e-315 * uniform(300),
    "whole range": np.finfo(float).max * np.random.default_rng(0).uniform(-1, 1, 300),
    "outlier 1e300": np.concatenate((uniform(300), [1e300])),
    "outliers of both signs": np.concatenate((1e-300 * uniform(300), [1e300, -1e300])),
    "one row": np.array([5.0]),
    "two rows": np.array([5.0, 6.0]),
    "fewer rows than knots": np.array([1.0, 2.0, 4.0]),
    "all missing": np.full(20, np.nan),
    "one value and missing": np.array([np.nan] * 20 + [2.0]),
    "half missing": np.where(uniform() < 0.5, np.nan, uniform(seed=1)),
    "sorted": np.sort(uniform(300)),
    "reversed": np.sort(uniform(300))[::-1],
    "unix time in nanoseconds": 1.7e18 + 1e9 * uniform(300),
}
TARGETS = {
    "regression": lambda n: np.sin(np.arange(n)),
    "binary": lambda n: np.arange(n) % 2,
    "multiclass": lambda n: np.array(["a", "b", "c"])[np.arange(n) % 3],
    "constant": np.zeros,
}


# Trees alone look at the target, whose kinds are independent of the column.
@pytest.mark.parametrize(
    ("name", "placement", "target"),
    [
        pytest.param(
            name,
            placement,
            target,
            marks=()
            if target == "regression"
            or (placement in {"cart", "lgbm"} and name in {"normal", "constant", "half missing", "two rows"})
            else pytest.mark.slow,
        )
        for name in COLUMNS
        for placement in PLACEMENTS
        for target in TARGETS
    ],
)
def test_the_number_of_knots_is_exact_on_every_column(name, placement, target):
    column = Column.from_values(COLUMNS[name])
    y = Target.from_values(TARGETS[target](len(COLUMNS[name])))
    for n_knots in (0, 1, 11, 60):
        check_knots(PLACEMENTS[placement](column, n_knots, y), column, n_knots)


@given(
    hnp.arrays(
        float,
        st.integers(1, 40),
        elements=st.floats(allow_nan=True, allow_infinity=False) | st.sampled_from([0.0, 1.0, -1.0, 1e-310]),
    ),
    st.integers(0, 30),
    st.integers(0, 100),
)
@settings(max_examples=150, deadline=None)
def test_the_number_of_knots_is_exact_for_random_numbers(values, n_knots, seed):
    column = Column.from_values(values)
    y = Target.from_values(np.random.default_rng(seed).normal(size=len(values)))
    for placement in ("uniform", "quantile", "cart"):
        check_knots(PLACEMENTS[placement](column, n_knots, y), column, n_knots)


def test_uniform_knots_are_at_equal_distances():
    knots = PLACEMENTS["uniform"](Column.from_values(np.array([2.0, 7.0, 12.0])), 4)
    np.testing.assert_allclose(knots, [4.0, 6.0, 8.0, 10.0])


def test_quantile_knots_are_those_of_numpy():
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=200 + seed)
        levels = np.arange(1, 12) / 12
        np.testing.assert_allclose(PLACEMENTS["quantile"](Column.from_values(x), 11), np.quantile(x, levels))


def test_quantiles_of_weighted_rows_are_those_of_repeated_rows():
    random = np.random.default_rng(0)
    x, weights = random.normal(size=300), random.integers(0, 5, 300)
    levels = np.linspace(0, 1, 23)
    got = Column.from_values(x, weights.astype(float)).quantiles(levels)
    np.testing.assert_allclose(got, np.quantile(np.repeat(x, weights), levels))
    fractional = Column.from_values(x, weights / 7.0).quantiles(levels)
    np.testing.assert_allclose(fractional, Column.from_values(x, weights / 700.0).quantiles(levels))
    heavy = Column.from_values(x, np.where(x > 1, 100.5, 0.5)).quantiles([0.5])
    assert heavy > 1


STEPS = [0.2, 0.55, 0.9]
KINKS = [0.4, 0.45]


def steps(x):
    return (x > 0.2) * 1.0 + (x > 0.55) * 2.0 - (x > 0.9)


def steep_ramp(x):
    return np.interp(x, [0.0, 0.4, 0.45, 1.0], [0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e9])
@pytest.mark.parametrize("placement", ["cart", "lgbm"])
@pytest.mark.parametrize("n_knots", [3, 11, 26])
def test_knots_of_trees_lie_at_steps(placement, n_knots, scale):
    for noise in (0.0, 0.1):
        x = uniform(5000)
        y = steps(x) + noise * np.random.default_rng(1).normal(size=len(x))
        knots = PLACEMENTS[placement](Column.from_values(scale * (x - 3.0)), n_knots, Target.from_values(y))
        for step in STEPS:
            assert np.abs(knots / scale + 3.0 - step).min() < 0.01


@pytest.mark.parametrize("placement", ["cart", "lgbm"])
@pytest.mark.parametrize("n_knots", [11, 26])
def test_knots_of_trees_lie_at_the_kinks_of_a_steep_ramp(placement, n_knots):
    x = uniform(5000)
    knots = PLACEMENTS[placement](Column.from_values(x), n_knots, Target.from_values(steep_ramp(x)))
    for kink in KINKS:
        assert np.abs(knots - kink).min() < 0.01


@pytest.mark.parametrize("placement", ["cart", "lgbm"])
@pytest.mark.parametrize("labels", [("no", "yes"), ("a", "b", "c"), (10, 20, 30)])
def test_knots_of_trees_lie_where_classes_change(placement, labels):
    x = uniform(3000)
    places = np.linspace(0, 1, len(labels) + 1)[1:-1] + 0.03
    y = np.array(labels)[np.searchsorted(places, x)]
    knots = PLACEMENTS[placement](Column.from_values(x), 5, Target.from_values(y))
    for place in places:
        assert np.abs(knots - place).min() < 0.01


@pytest.mark.parametrize("placement", ["cart", "lgbm"])
def test_trees_use_the_weights(placement):
    x = uniform(4000)
    flip = np.random.default_rng(1).uniform(size=len(x)) < 0.5
    y = np.where(flip, x > 0.3, x > 0.7).astype(float)
    for kept, step in ((flip, 0.3), (~flip, 0.7)):
        for weights in (kept.astype(float), np.where(kept, 0.37, 1e-6)):
            knots = PLACEMENTS[placement](Column.from_values(x, weights), 1, Target.from_values(y))
            assert abs(knots[0] - step) < 0.01


@pytest.mark.parametrize("placement", ["cart", "lgbm"])
def test_thresholds_keep_their_distance(placement):
    x = uniform(20_000)
    y = np.sin(40 * x)
    knots = PLACEMENTS[placement](Column.from_values(x), 26, Target.from_values(y))
    assert np.diff(knots).min() >= 0.0099


def test_the_spacing_filter_does_not_depend_on_the_order_of_candidates():
    random = np.random.default_rng(0)
    thresholds, gains = random.uniform(size=200), random.uniform(size=200)
    column = Column.from_values(np.array([0.0, 1.0]))
    expected = select_spaced(thresholds, gains, column, 20, 0.01)
    assert len(expected) == 20
    assert expected.max() - expected.min() > 0.5, "knots crowd in a corner"
    for _ in range(5):
        order = random.permutation(200)
        np.testing.assert_array_equal(select_spaced(thresholds[order], gains[order], column, 20, 0.01), expected)


def test_the_better_of_two_close_thresholds_is_kept():
    column = Column.from_values(np.array([0.0, 1.0]))
    got = select_spaced(np.array([0.500, 0.505, 0.9]), np.array([1.0, 2.0, 0.1]), column, 3, 0.01)
    np.testing.assert_array_equal(got, [0.505, 0.9])


def test_cart_gain_is_the_reduction_of_impurity():
    x = np.arange(40.0)
    y = np.where(x < 10, 0.0, np.where(x < 20, 1.0, 5.0))
    one = CartPlacement()(Column.from_values(x), 1, Target.from_values(y))
    np.testing.assert_array_equal(one, [19.5])  # the larger reduction
    two = CartPlacement()(Column.from_values(x), 2, Target.from_values(y))
    np.testing.assert_array_equal(two, [9.5, 19.5])


def test_without_a_split_knots_are_quantiles():
    x = uniform(500)
    y = Target.from_values(np.zeros(500))
    expected = np.quantile(x, np.arange(1, 8) / 8)
    for placement in ("cart", "lgbm"):
        np.testing.assert_allclose(PLACEMENTS[placement](Column.from_values(x), 7, y), expected)


@pytest.mark.parametrize(
    ("placement", "setting"),
    [
        (CartPlacement, {"max_depth": 1}),
        (CartPlacement, {"min_samples_leaf": 400}),
        (CartPlacement, {"min_samples_split": 900}),
        (CartPlacement, {"min_spacing": 0.1}),
        (LightGBMPlacement, {"n_trees": 1}),
        (LightGBMPlacement, {"max_depth": 1}),
        (LightGBMPlacement, {"learning_rate": 0.9}),
        (LightGBMPlacement, {"min_samples_leaf": 400}),
        (LightGBMPlacement, {"min_spacing": 0.1}),
    ],
)
def test_every_setting_of_the_trees_has_an_effect(placement, setting):
    x = uniform(1000)
    y = Target.from_values(np.sin(9 * x) + 0.1 * np.random.default_rng(0).normal(size=1000))
    column = Column.from_values(x)
    assert not np.array_equal(placement()(column, 11, y), placement(**setting)(column, 11, y))


def test_complete_adds_quantiles_far_from_given_knots():
    column = Column.from_values(np.linspace(0.0, 1.0, 101))
    filled = complete(np.array([0.5]), column, 3)
    np.testing.assert_allclose(filled, [0.25, 0.5, 0.75])


def test_zero_inflated_columns_have_no_dead_functions():
    for share in (0.5, 0.9, 0.99):
        x = np.where(uniform(5000) < share, 0.0, np.random.default_rng(1).lognormal(sigma=2, size=5000))
        for family in ("bspline", "ispline", "mspline"):
            for size in (7, 15):
                knots = PLACEMENTS["quantile"](Column.from_values(x), size - 4)
                values = basis.evaluate(family, x, knots, domain=(x.min(), x.max()))
                assert (values.max(axis=0) > 0).all()
                assert (np.ptp(values, axis=0) > 0).all()


def test_a_gentle_change_of_scale_changes_nothing():
    x = uniform(1000)
    y = Target.from_values(steps(x))
    for placement in PLACEMENTS.values():
        before = placement(Column.from_values(x), 9, y)
        after = placement(Column.from_values(-7.0 + 0.125 * x), 9, y)
        np.testing.assert_allclose(after, -7.0 + 0.125 * before, rtol=1e-12)


def test_fixed_knots_are_returned_in_order_and_checked():
    column = Column.from_values(np.array([0.0, 10.0]))
    placement = FixedPlacement([7.0, 2.0])
    assert placement(column, 2).tolist() == [2.0, 7.0]
    with pytest.raises(ArgumentError, match="be 3 numbers"):
        placement(column, 3)
    with pytest.raises(ArgumentError, match="strictly inside the domain"):
        FixedPlacement([2.0, 12.0])(column, 2)
    with pytest.raises(ArgumentError, match="be a sequence of numbers"):
        FixedPlacement(["a"])


def test_ties_are_completed_by_the_middle_values_of_the_widest_gaps():
    """Of the values 1 to 8 between the ends first 4, then 6 of 5 to 8, then 2 of 1 to 3."""
    column = Column.from_values(np.concatenate([np.zeros(90), np.arange(1.0, 10.0)]))
    for n_knots, expected in ((1, [4.0]), (2, [4.0, 6.0]), (3, [2.0, 4.0, 6.0])):
        np.testing.assert_array_equal(complete(np.empty(0), column, n_knots), expected)
