"""Terms: their functions, the combinations that are fitted, and what penalties and shapes mean."""

import numpy as np
import pytest
from scipy.interpolate import BSpline as ScipySpline

from knotwork._preparation.columns import CodedTable
from knotwork.additive._terms import Category, Curve, Shape, Surface
from knotwork.basis._bspline import local_bsplines
from knotwork.knots import Column

RANDOM = np.random.default_rng(0)
X = np.column_stack([RANDOM.lognormal(size=400), RANDOM.integers(0, 4, 400).astype(float)])
X[::7, 0] = np.nan
CODES = RANDOM.integers(0, 5, (400, 1))
TABLE = CodedTable(X, CODES)
SHAPES = [Shape(rising, bending) for rising in (-1, 0, 1) for bending in (-1, 0, 1)]


def curve(place=0, *, size=12, shape=None, missing=1.0):
    return Curve.from_column("x", place, Column.from_values(X[:, place]), size=size, shape=shape, missing=missing)


def category(most=300):
    return Category.from_counts("c", 0, np.bincount(CODES[:, 0], minlength=6).astype(float), most=most)


TERMS = {
    "curve": curve(),
    "few values": curve(1),
    "without missing values": curve(missing=0.0),
    "category": category(),
    "surface": Surface.from_sides(curve(missing=0.0), curve(1, missing=0.0)),
    "category in a surface": Surface.from_sides(category(), curve(missing=0.0)),
}


def raw(term, table):
    """Return the functions as a dense matrix."""
    starts, values = term.encode(table)
    out = np.zeros((len(starts), len(term.space.transform)))
    for row, runs, numbers in zip(out, starts, values, strict=True):
        for start, run in zip(runs, numbers, strict=True):
            row[start : start + len(run)] += run
    return out


@pytest.mark.parametrize("name", TERMS)
def test_functions_add_up_to_one_and_combinations_follow(name):
    term = TERMS[name]
    dense = raw(term, TABLE)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0)
    np.testing.assert_allclose(term.combine(term.encode(TABLE)), dense @ term.space.transform, atol=1e-12)


@pytest.mark.parametrize("name", ["curve", "few values", "category"])
def test_terms_are_centred_on_rows_with_a_value(name):
    term = TERMS[name]
    rows = term.combine(term.encode(TABLE))[~np.isnan(X[:, 0])] if name == "curve" else term.combine(term.encode(TABLE))
    np.testing.assert_allclose(rows.mean(axis=0)[int(name == "curve") :], 0.0, atol=1e-12)


@pytest.mark.parametrize(("size", "degree"), [(12, 3), (200, 1)])
def test_splines_are_those_of_scipy(size, degree):
    term = curve(size=size)
    assert term.basis.degree == degree  # many functions have fewer than two values each
    known = ~np.isnan(X[:, 0])
    (low, high), knots = term.basis.domain, term.basis.knots
    t = np.concatenate([np.full(degree + 1, low), knots, np.full(degree + 1, high)])
    expected = ScipySpline.design_matrix(X[known, 0], t, degree).toarray()
    np.testing.assert_allclose(raw(term, TABLE)[known, 1:], expected, atol=1e-12)
    np.testing.assert_array_equal(
        raw(term, TABLE)[~known], np.eye(term.basis.size + 1)[np.zeros((~known).sum(), dtype=int)]
    )


@pytest.mark.parametrize(
    ("values", "degree"), [(np.tile(np.arange(49.0), 2), 3), (np.arange(9.0), 1), ([0.0, 1.0, 5.0], 1)]
)
def test_values_at_knots_and_ends_are_those_of_the_definition(values, degree):
    x = np.array(values)
    basis = curve_of(x).basis
    assert basis.degree == degree
    starts, local = curve_of(x).encode(CodedTable(x[:, None], np.zeros((len(x), 0), dtype=np.int64)))
    first, expected = local_bsplines(x, np.array([x.min(), *basis.knots, x.max()]), degree)
    np.testing.assert_array_equal(starts[:, 0], first + 1)
    np.testing.assert_array_equal(local[:, 0], expected)


def curve_of(x):
    return Curve.from_column("x", 0, Column.from_values(x), size=9)


@pytest.mark.parametrize("unit", [1.0, 1e300, 1e-300, -3.7])
def test_curves_with_wide_gaps_are_straight_between_values(unit):
    values = unit * np.concatenate([np.arange(60.0), 400.0 + np.arange(5)])
    basis = curve_of(np.repeat(values, 3)).basis
    assert basis.degree == 1
    assert set(basis.knots) < set(values)
    assert curve_of(values[:60]).basis.degree == 3


@pytest.mark.parametrize("weights", [np.ones(400), np.random.default_rng(1).integers(1, 3, 400).astype(float)])
def test_summaries_are_those_of_columns(weights):
    column, expected = Column.from_values(X[:, 0], weights, with_rows=False), Column.from_values(X[:, 0], weights)
    np.testing.assert_array_equal(column.distinct, expected.distinct)
    np.testing.assert_array_equal(column.weights, expected.weights)


def test_outside_of_the_range_curves_are_constant():
    low, high = curve().basis.domain
    numbers = np.array([[-1e308, 0.0], [low, 0.0], [1e308, 0.0], [high, 0.0]])
    ends = CodedTable(numbers, np.zeros((4, 1), dtype=np.int64))
    rows = raw(curve(), ends)
    np.testing.assert_array_equal(rows[::2], rows[1::2])


def test_a_straight_line_has_no_bends_and_a_constant_vanishes():
    term = curve(missing=0.0)
    known = CodedTable(X[~np.isnan(X[:, 0])], CODES[~np.isnan(X[:, 0])])
    rows = term.combine(term.encode(known))
    line = known.numbers[:, 0] - known.numbers[:, 0].mean()
    beta, *_ = np.linalg.lstsq(rows, line, rcond=None)
    np.testing.assert_allclose(rows @ beta, line, atol=1e-9)
    flat, bends = term.space.penalties
    assert bends @ beta**2 < 1e-12 * (flat @ beta**2) * bends.max()
    assert (flat > 0).all()


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.is_free], ids=str)
@pytest.mark.parametrize("place", [0, 1])
def test_coefficients_that_are_not_negative_make_the_shape(shape, place):
    term = curve(place, shape=shape, missing=0.0)
    grid = np.linspace(*term.basis.domain, 500)
    table = CodedTable(np.column_stack([grid, grid]), np.zeros((500, 1), dtype=np.int64))
    rows = term.combine(term.encode(table))
    random = np.random.default_rng(1)
    for _ in range(20):
        beta = random.exponential(size=term.width) * (random.random(term.width) < 0.5)
        beta = np.where(term.space.bounded, beta, random.normal(size=term.width))
        values = rows @ beta
        size = np.ptp(values) + 1e-9
        if shape.rising:
            assert (shape.rising * np.diff(values) >= -1e-9 * size).all()
        if shape.bending:
            assert (shape.bending * np.diff(values, 2) >= -1e-9 * size).all()


def test_a_surface_is_the_product_of_its_sides():
    first, second = curve(missing=0.0), curve(1, missing=0.0)
    surface = Surface.from_sides(first, second)
    expected = np.einsum("na,nb->nab", *(each.combine(each.encode(TABLE)) for each in (first, second)))
    rows = surface.combine(surface.encode(TABLE))
    np.testing.assert_allclose(rows, expected.reshape(len(X), -1), atol=1e-12)
    assert surface.label == "x x x"
    assert not rows[np.isnan(X[:, 0])].any()


def test_rare_categories_share_an_effect_and_new_ones_have_none():
    term = category(most=2)
    assert term.width == 2
    assert sorted(term.groups.tolist()) == [-1, 0, 1, 2, 2, 2]
    unseen = CodedTable(np.zeros((1, 2)), np.array([[5]]))
    assert not term.combine(term.encode(unseen)).any()


@pytest.mark.parametrize("values", [[1e300, 0.0, 1.0, 2.0], [7.0] * 4, [0.0, 1e-310], np.arange(30.0) ** 9])
def test_difficult_columns(values):
    x = np.array(values)
    term = Curve.from_column("x", 0, Column.from_values(x), size=10)
    rows = term.combine(term.encode(CodedTable(x[:, None], np.zeros((len(x), 0), dtype=np.int64))))
    assert np.isfinite(rows).all()
    assert all(np.isfinite(penalty).all() for penalty in term.space.penalties)
