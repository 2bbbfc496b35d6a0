"""Columns that repeat: the period, values in other periods, and the encoders of other libraries."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import SplineTransformer

import knotwork as kw
from knotwork.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore:A column of cyclic splines has the whole numbers:UserWarning")

X = np.random.default_rng(0).normal(size=(400, 3))
HOURS = np.arange(24.0)[:, None]


@pytest.mark.parametrize("knots", ["uniform", "quantile"])
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_periodic_extrapolation_is_that_of_scikit_learn(knots, degree):
    theirs = SplineTransformer(n_knots=9, knots=knots, degree=degree, extrapolation="periodic").fit(X)
    settings = {"placement": knots, "degree": degree, "dtype": np.float64}
    for family, extrapolation in (("bspline", "periodic"), ("cyclic", "clip"), ("cyclic", "periodic")):
        ours = kw.SplineEncoder(family, 8, extrapolation=extrapolation, **settings).fit(X)
        np.testing.assert_allclose(ours.transform(3 * X), theirs.transform(3 * X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_continued_functions_span_those_of_scikit_learn(degree):
    x = X[:, :1]
    theirs = SplineTransformer(n_knots=7, degree=degree, extrapolation="continue", knots="quantile").fit(x)
    settings = {"degree": degree, "extrapolation": "continue", "dtype": np.float64}
    ours = kw.SplineEncoder(size=7 + degree - 1, **settings).fit(x)
    target, outside = np.sin(2 * x[:, 0]), 1.5 * x
    fits = [LinearRegression(fit_intercept=False).fit(e.transform(x), target) for e in (theirs, ours)]
    expected, got = (fit.predict(e.transform(outside)) for fit, e in zip(fits, (theirs, ours), strict=True))
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


def test_a_given_period_is_the_domain_and_joins_its_ends():
    encoder = kw.SplineEncoder("cyclic", 6, period=24, placement="uniform", dtype=np.float64).fit(HOURS)
    np.testing.assert_array_equal(encoder.domain_, [[0.0, 24.0]])
    np.testing.assert_allclose(encoder.knots_[0], [4.0, 8.0, 12.0, 16.0, 20.0])
    assert "period=24" in repr(encoder)
    encoded = encoder.transform(HOURS)
    np.testing.assert_allclose(encoder.transform(HOURS + 240.0), encoded, atol=1e-12)
    np.testing.assert_allclose(encoder.transform(HOURS - 24.0), encoded, atol=1e-12)
    steps = np.linalg.norm(np.diff(np.vstack([encoded, encoded[:1]]), axis=0), axis=1)
    np.testing.assert_allclose(steps[-1], steps[3], rtol=1e-9)  # from 23 to 0 as far as from 3 to 4
    shifted = kw.SplineEncoder("cyclic", 6, period=(-12, 12), placement="uniform", dtype=np.float64).fit(HOURS)
    np.testing.assert_array_equal(shifted.domain_, [[-12.0, 12.0]])
    np.testing.assert_allclose(shifted.transform(HOURS), encoded[:, [3, 4, 5, 0, 1, 2]], atol=1e-12)
    without = kw.SplineEncoder("cyclic", 6, placement="uniform").fit(HOURS)
    np.testing.assert_array_equal(without.domain_, [[0.0, 23.0]])


@pytest.mark.parametrize("placement", ["uniform", "quantile", "cart", "lgbm"])
def test_knots_are_placed_within_the_period(placement):
    hours = np.random.default_rng(0).integers(0, 24 * 30, size=(600, 1)).astype(float)
    target = np.sin(2 * np.pi * hours[:, 0] / 24)
    encoder = kw.SplineEncoder("cyclic", 8, placement=placement, period=24).fit(hours, target)
    assert len(encoder.knots_[0]) == 7
    assert 0 < encoder.knots_[0].min() < encoder.knots_[0].max() < 24
    encoded = encoder.transform(hours)
    assert LinearRegression().fit(encoded, target).score(encoded, target) > 0.98
    batches = kw.SplineEncoder("cyclic", 8, period=24).fit(iter([hours]))
    assert batches.domain_.tolist() == [[0.0, 24.0]]


def test_error_and_infinity():
    encoder = kw.SplineEncoder("cyclic", 6, period=24, extrapolation="error").fit(HOURS)
    with pytest.raises(ValueError, match="column 0 has values outside its training range"):
        encoder.transform([[25.0]])
    with pytest.raises(ValueError, match="contains infinity"):
        kw.SplineEncoder(size=6, extrapolation="periodic").fit(HOURS).transform([[np.inf]])
    assert np.isfinite(kw.SplineEncoder("cyclic", 6).fit(HOURS).transform([[np.inf], [-1e300]])).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "ispline", "extrapolation": "periodic"}, "extrapolation must not be 'periodic' for I-splines"),
        ({"period": 24.0}, "period must be None for B-splines"),
        ({"family": "cyclic", "period": 0.0}, "period must be larger than 0"),
        ({"family": "cyclic", "period": (5, 5)}, "the first smaller than the second"),
        ({"family": "cyclic", "period": "day"}, "period must be a number larger than 0, or the two ends"),
    ],
)
def test_wrong_periods_are_refused(settings, message):
    with pytest.raises(ArgumentError, match=message):
        kw.SplineEncoder(**settings).fit(HOURS)


def test_other_encoders_do_not_repeat():
    for encoder in (kw.PiecewiseLinearEncoder(extrapolation="periodic"), kw.ScalarEncoder(extrapolation="periodic")):
        with pytest.raises(ArgumentError, match="extrapolation must be one of"):
            encoder.fit(HOURS, HOURS[:, 0])


def test_pictures():
    encoder = kw.PerFeatureEncoder({0: "CS-U@6%24", 1: "NS-Q@6", 2: "RBF-Q@5"}, default="TPS-Q@5")
    rows = np.column_stack([HOURS, HOURS**2, np.sqrt(HOURS), HOURS])
    figure = encoder.fit(rows).plot()
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()] == [
        "CyclicSpline, size 6, 5 knots",
        "NaturalSpline, size 6, 4 knots",
        "RadialBasis, size 5, 3 knots",
        "ThinPlateSpline, size 5, 4 knots",
    ]
    assert encoder._repr_html_inner().count("<svg") == 4
