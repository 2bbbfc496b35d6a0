"""The definitions against scipy and closed forms, and at the ends of the domain."""

from itertools import pairwise

import numpy as np
import patsy
import pytest
from scipy import integrate
from scipy.interpolate import BSpline, CubicSpline, RBFInterpolator
from scipy.stats import norm
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import SplineTransformer

from knotwork import basis
from knotwork.errors import ArgumentError

FAMILIES = list(basis.FAMILIES)
WITH_ENDS = [name for name, family in basis.FAMILIES.items() if not family.basis.is_cyclic]
SPLINES = ["bspline", "mspline", "ispline"]


def random_case(seed):
    """Knots of all densities on a domain anywhere; points at ends, at knots, beside them and between."""
    random = np.random.default_rng(seed)
    low, high = np.sort(random.normal(scale=10.0 ** random.integers(-3, 4), size=2))
    knots = np.sort(random.uniform(low, high, random.integers(0, 30)))
    x = np.concatenate(([low, high], knots, np.nextafter(knots, low), np.nextafter(knots, high)))
    return knots, (low, high), np.concatenate((x, random.uniform(low, high, 40)))


def scipy_basis(knots, domain, degree, weights=None):
    t = np.concatenate(([domain[0]] * (degree + 1), knots, [domain[1]] * (degree + 1)))
    size = len(knots) + degree + 1
    heights = (degree + 1) / (t[degree + 1 :] - t[:size])
    return BSpline(t, np.eye(size) * (heights if weights == "unit area" else 1.0), degree), heights


@pytest.mark.parametrize("degree", range(6))
def test_splines_equal_scipy_for_random_knots(degree):
    for seed in range(170):  # six degrees: 1,020 knot vectors
        knots, domain, x = random_case(1000 * degree + seed)
        plain, heights = scipy_basis(knots, domain, degree)
        np.testing.assert_allclose(
            basis.evaluate("bspline", x, knots, degree=degree, domain=domain), plain(x), rtol=0, atol=1e-12
        )
        area, _ = scipy_basis(knots, domain, degree, "unit area")
        m = basis.evaluate("mspline", x, knots, degree=degree, domain=domain)
        np.testing.assert_allclose(m / heights, area(x) / heights, rtol=0, atol=1e-12)
        i = basis.evaluate("ispline", x, knots, degree=degree, domain=domain)
        np.testing.assert_allclose(i, area.antiderivative()(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", range(1, 6))
def test_derivatives_equal_scipy(degree):
    for seed in range(40):
        knots, domain, x = random_case(seed)
        spline, heights = scipy_basis(knots, domain, degree)
        expected = spline.derivative()(x)
        scale = np.abs(expected).max()
        got = basis.derivative("bspline", x, knots, degree=degree, domain=domain)
        np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=1e-12)
        got = basis.derivative("mspline", x, knots, degree=degree, domain=domain) / heights
        np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", range(6))
def test_derivative_of_ispline_is_mspline(degree):
    knots, domain, x = random_case(5)
    np.testing.assert_array_equal(
        basis.derivative("ispline", x, knots, degree=degree, domain=domain),
        basis.evaluate("mspline", x, knots, degree=degree, domain=domain),
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("degree", range(5))
def test_derivative_is_the_limit_of_differences(family, degree):
    knots, domain = [0.3, 0.35, 0.8], (0.0, 1.0)
    x, step = np.linspace(0.011, 0.987, 57), 1e-6
    got = basis.derivative(family, x, knots, degree=degree, domain=domain)
    after, before = (basis.evaluate(family, x + s, knots, degree=degree, domain=domain) for s in (step, -step))
    np.testing.assert_allclose(got, (after - before) / (2 * step), atol=2e-4 * max(1.0, np.abs(got).max()))


@pytest.mark.parametrize("degree", range(6))
def test_bsplines_sum_to_one_ends_and_knots_included(degree):
    for seed in range(20):
        knots, domain, x = random_case(seed)
        values = basis.evaluate("bspline", x, knots, degree=degree, domain=domain)
        assert values.min() >= 0.0
        np.testing.assert_allclose(values.sum(axis=1), 1.0, rtol=1e-13)


@pytest.mark.parametrize("degree", range(4))
def test_msplines_integrate_to_one(degree):
    knots, domain = np.array([-1.0, 0.5, 0.7]), (-2.0, 3.0)
    edges = np.concatenate(([domain[0]], knots, [domain[1]]))
    total = sum(
        integrate.fixed_quad(
            lambda x: basis.evaluate("mspline", x, knots, degree=degree, domain=domain).T, a, b, n=degree + 1
        )[0]
        for a, b in pairwise(edges)
    )
    np.testing.assert_allclose(total, 1.0, rtol=1e-13)


@pytest.mark.parametrize("degree", range(6))
def test_isplines_rise_from_zero_to_one(degree):
    for seed in range(20):
        knots, domain, x = random_case(seed)
        values = basis.evaluate("ispline", np.sort(x), knots, degree=degree, domain=domain)
        np.testing.assert_array_equal(values[0], 0.0)
        np.testing.assert_allclose(values[-1], 1.0, rtol=1e-14)
        assert np.diff(values, axis=0).min() >= -1e-15
        assert ((values > 0) & (values < 1 - 1e-14)).sum(axis=1).max() <= degree + 1


def test_ple_is_its_closed_form_and_an_ispline_of_degree_zero():
    for seed in range(50):
        knots, domain, x = random_case(seed)
        got = basis.evaluate("ple", x, knots, domain=domain)
        edges = np.concatenate(([domain[0]], knots, [domain[1]]))
        for bin_, (left, right) in enumerate(pairwise(edges)):
            expected = np.where(x >= right, 1.0, np.where(x < left, 0.0, (x - left) / (right - left)))
            np.testing.assert_allclose(got[:, bin_], expected, atol=1e-12)
        np.testing.assert_allclose(got, basis.evaluate("ispline", x, knots, degree=0, domain=domain), atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_size_and_shape(family):
    knots = [0.2, 0.5]
    size = {"ple": 3, "cyclic": 3, "natural": 4, "radial": 4, "thin_plate": 3}.get(family, 6)
    assert basis.make_basis(family, knots).size == size
    assert basis.evaluate(family, np.zeros((4, 5)), knots).shape == (4, 5, size)
    assert basis.evaluate(family, 0.5, knots).shape == (size,)
    assert basis.evaluate(family, np.empty(0), knots).shape == (0, size)


@pytest.mark.parametrize("family", WITH_ENDS)
def test_right_end_belongs_to_the_basis(family):
    last = basis.evaluate(family, 1.0, [0.5])
    assert last[0 if family == "thin_plate" else -1] > 0.9
    np.testing.assert_array_equal(last, basis.evaluate(family, 2.0, [0.5]))


@pytest.mark.parametrize("family", WITH_ENDS)
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_extrapolation(family, degree):
    settings = {"knots": [0.4, 0.5], "degree": degree, "domain": (0.0, 1.0)}
    outside, ends = np.array([-0.5, 1.25]), np.array([0.0, 1.0])
    at_ends = basis.evaluate(family, ends, **settings)
    np.testing.assert_array_equal(basis.evaluate(family, outside, **settings), at_ends)
    np.testing.assert_array_equal(basis.derivative(family, outside, **settings), 0.0)
    slopes = basis.derivative(family, ends, **settings)
    line = basis.evaluate(family, outside, **settings, extrapolation="linear")
    np.testing.assert_allclose(line, at_ends + (outside - ends)[:, None] * slopes, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(basis.derivative(family, outside, **settings, extrapolation="linear"), slopes)
    with pytest.raises(ArgumentError, match="lie inside the domain"):
        basis.evaluate(family, outside, **settings, extrapolation="error")
    basis.evaluate(family, ends, **settings, extrapolation="error")
    for extrapolation in ("linear", "continue"):
        with pytest.raises(ArgumentError, match="be finite"):
            basis.evaluate(family, [np.inf], **settings, extrapolation=extrapolation)
    with pytest.raises(ArgumentError, match="extrapolation must be one of"):
        basis.evaluate(family, outside, **settings, extrapolation="periodic")


@pytest.mark.parametrize("degree", range(4))
def test_continued_splines_are_the_polynomials_of_scipy(degree):
    for seed in range(20):
        knots, domain, x = random_case(seed)
        width = domain[1] - domain[0]
        x = np.concatenate((x, domain[0] - width * np.linspace(0, 1, 9), domain[1] + width * np.linspace(0, 1, 9)))
        plain, _ = scipy_basis(knots, domain, degree)
        settings = {"knots": knots, "degree": degree, "domain": domain, "extrapolation": "continue"}
        for family, expected in (("bspline", plain), ("mspline", scipy_basis(knots, domain, degree, "unit area")[0])):
            for got, wanted in (
                (basis.evaluate(family, x, **settings), expected(x)),
                (basis.derivative(family, x, **settings), expected.derivative()(x) if degree else 0 * expected(x)),
            ):
                scale = np.abs(wanted).max() + 1e-300
                np.testing.assert_allclose(got / scale, wanted / scale, rtol=0, atol=1e-10)
        got = basis.evaluate("ispline", x, **settings)
        wanted = scipy_basis(knots, domain, degree, "unit area")[0].antiderivative()(x)
        inside = (x >= domain[0]) & (x <= domain[1])
        np.testing.assert_allclose(got[inside], wanted[inside], rtol=0, atol=1e-11)
        # An I-spline is 0 or 1 on most intervals, and the last of them continues so.
        slopes = basis.derivative("ispline", x, **settings)
        np.testing.assert_allclose(slopes, basis.evaluate("mspline", x, **settings), rtol=1e-12)


def test_continued_ramps_are_lines():
    got = basis.evaluate("ple", [-1.0, 2.0], [0.5], extrapolation="continue")
    np.testing.assert_array_equal(got, [[-2.0, 0.0], [1.0, 3.0]])


def scikit_cycle(knots, domain, degree):
    edges = np.concatenate(([domain[0]], knots, [domain[1]]))[:, None]
    return SplineTransformer(knots=edges, degree=degree, extrapolation="periodic").fit(edges)


@pytest.mark.parametrize("degree", range(1, 6))
def test_cyclic_splines_equal_scikit_learn(degree):
    for seed in range(30):
        knots, domain, x = random_case(seed)
        if len(knots) + 2 <= degree:  # fewer intervals than scikit-learn accepts
            continue
        width = domain[1] - domain[0]
        x = np.concatenate((x, x - 3 * width, x + 2 * width))
        got = basis.evaluate("cyclic", x, knots, degree=degree, domain=domain)
        np.testing.assert_allclose(got, scikit_cycle(knots, domain, degree).transform(x[:, None]), rtol=0, atol=1e-10)


def test_cyclic_cubics_span_those_of_patsy():
    knots, domain = np.array([2.0, 5.0, 11.0, 16.0, 21.0]), (0.0, 24.0)
    x = np.random.default_rng(0).uniform(-30.0, 60.0, 200)
    theirs = np.asarray(patsy.dmatrix("cc(x, knots=k, lower_bound=0, upper_bound=24) - 1", {"x": x, "k": knots}))
    ours = basis.evaluate("cyclic", x, knots, domain=domain)
    assert theirs.shape == ours.shape
    np.testing.assert_allclose(ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0], theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("degree", range(1, 6))
@pytest.mark.parametrize("n_knots", [0, 1, 2, 7])
def test_values_and_derivatives_of_cyclic_splines_wrap(degree, n_knots):
    knots, domain = np.sort(np.random.default_rng(n_knots).uniform(-3.0, 4.0, n_knots)), (-3.0, 4.0)
    settings = {"knots": knots, "degree": degree, "domain": domain}
    before, after = np.nextafter(4.0, 0.0), -3.0
    for function in (basis.evaluate, basis.derivative) if degree > 1 else (basis.evaluate,):
        np.testing.assert_allclose(
            function("cyclic", before, **settings), function("cyclic", after, **settings), atol=1e-9
        )
    x = np.random.default_rng(100).uniform(-3.0, 4.0, 50)
    values = basis.evaluate("cyclic", x, **settings)
    assert values.shape[1] == n_knots + 1
    np.testing.assert_allclose(values.sum(axis=1), 1.0, rtol=1e-13)
    for extrapolation in ("clip", "linear", "continue", "periodic"):
        for function, at_x in ((basis.evaluate, values), (basis.derivative, basis.derivative("cyclic", x, **settings))):
            again = function("cyclic", x + 14.0, **settings, extrapolation=extrapolation)
            np.testing.assert_allclose(again, at_x, rtol=0, atol=1e-12 * max(1.0, np.abs(at_x).max()))
    with pytest.raises(ArgumentError, match="lie inside the domain"):
        basis.evaluate("cyclic", 4.5, **settings, extrapolation="error")


@pytest.mark.parametrize("seed", range(10))
def test_natural_splines_equal_patsy(seed):
    random = np.random.default_rng(seed)
    edges = np.sort(random.normal(scale=10.0 ** random.integers(-3, 4), size=random.integers(3, 25)))
    width = edges[-1] - edges[0]
    x = np.concatenate((edges, random.uniform(edges[0] - width, edges[-1] + width, 100)))
    names = {"x": x, "k": edges[1:-1], "a": edges[0], "b": edges[-1]}
    theirs = np.asarray(patsy.dmatrix("cr(x, knots=k, lower_bound=a, upper_bound=b) - 1", names))
    settings = {"knots": edges[1:-1], "domain": (edges[0], edges[-1])}
    for extrapolation in ("linear", "continue"):
        ours = basis.evaluate("natural", x, **settings, extrapolation=extrapolation)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10 * np.abs(theirs).max())
    inside = (x >= edges[0]) & (x <= edges[-1])
    np.testing.assert_allclose(basis.evaluate("natural", x, **settings)[inside], theirs[inside], rtol=0, atol=1e-10)


def test_natural_splines_interpolate_as_scipy_does():
    edges = np.array([0.0, 0.3, 0.35, 0.8, 1.0])
    x = np.linspace(0.0, 1.0, 200)
    expected = CubicSpline(edges, np.eye(5), bc_type="natural")
    np.testing.assert_allclose(basis.evaluate("natural", x, edges[1:-1]), expected(x), rtol=0, atol=1e-12)
    slopes = basis.derivative("natural", x, edges[1:-1])
    np.testing.assert_allclose(slopes, expected(x, 1), rtol=0, atol=1e-10)


def test_bumps_are_the_kernel_of_scikit_learn():
    knots, x = np.array([0.2, 0.4, 0.6, 0.8]), np.linspace(0.0, 1.0, 50)
    centres = np.linspace(0.0, 1.0, 6)[:, None]
    expected = rbf_kernel(x[:, None], centres, gamma=0.5 / 0.2**2)
    np.testing.assert_allclose(basis.evaluate("radial", x, knots), expected, rtol=0, atol=1e-10)
    uneven = basis.evaluate("radial", [0.1, 0.5], [0.1, 0.5])
    widths = np.array([0.1, 0.25, 0.45, 0.5])
    expected = norm.pdf([[0.1], [0.5]], [0.0, 0.1, 0.5, 1.0], widths) * widths * np.sqrt(2 * np.pi)
    np.testing.assert_allclose(uneven, expected, rtol=0, atol=1e-12)


def test_thin_plate_splines_contain_the_interpolant_of_scipy():
    knots = np.array([1.0, 2.0, 4.5, 5.0, 8.0])
    values = np.array([0.3, -1.0, 2.0, 0.5, 1.0])
    x = np.linspace(0.0, 9.0, 80)
    expected = RBFInterpolator(knots[:, None], values, kernel="cubic", degree=1)(x[:, None])
    columns = basis.evaluate("thin_plate", x, knots, domain=(0.0, 9.0))
    columns = np.column_stack([np.ones(80), columns])
    np.testing.assert_allclose(columns @ np.linalg.lstsq(columns, expected, rcond=None)[0], expected, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_missing_values_are_rows_of_nan_and_infinite_ones_are_clipped(family):
    values = basis.evaluate(family, [0.3, np.nan, np.inf, -np.inf], [0.5])
    assert np.isnan(values[1]).all()
    np.testing.assert_array_equal(values[2:], basis.evaluate(family, [1.0, 0.0], [0.5]))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("domain", [(-1.7e308, 1.7e308), (0.0, 1e-310), (1e300, 2e300), (-3e-300, 1e-300)])
def test_domains_at_the_limits_of_float64(family, domain):
    low, high = domain
    share = np.array([0.0, 0.2, 0.37, 0.5, 0.93, 1.0])
    knots = low * (1 - share[1:-2]) + high * share[1:-2]
    x = low * (1 - share) + high * share
    got = basis.evaluate(family, x, knots, domain=domain)
    expected = basis.evaluate(family, share, share[1:-2])
    if family == "mspline":
        if high - low < 1e-308:
            assert got.max() == np.inf  # unit area on such a domain is higher than float64 reaches
            return
        got, expected = got / got.max(), expected / expected.max()
    np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("knots", "domain", "message"),
    [
        ([0.5, 0.5], (0, 1), "strictly increasing"),
        ([0.6, 0.5], (0, 1), "strictly increasing"),
        ([0.0], (0, 1), "strictly inside"),
        ([1.0], (0, 1), "strictly inside"),
        ([np.nan], (0, 1), "strictly increasing"),
        ([[0.5]], (0, 1), "one-dimensional"),
        (["a"], (0, 1), "numbers"),
        ([0.5], (1, 0), "smaller than the second"),
        ([0.5], (0, np.inf), "finite"),
        ([0.5], 1.0, "two finite numbers"),
        ([0.5], (0, 1, 2), "two finite numbers"),
    ],
)
def test_wrong_knots_and_domains_are_refused(knots, domain, message):
    with pytest.raises(ArgumentError, match=message):
        basis.evaluate("bspline", 0.5, knots, domain=domain)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"family": "cspline"}, ValueError),
        ({"family": 3}, ValueError),
        ({"degree": -1}, ValueError),
        ({"degree": 2.0}, TypeError),
        ({"degree": True}, TypeError),
        ({"extrapolation": "wrap"}, ValueError),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, error):
    settings = {"family": "bspline", "x": 0.5, "knots": [0.5]} | arguments
    with pytest.raises(error, match=next(iter(arguments))):
        basis.evaluate(**settings)


def test_a_basis_cannot_be_changed():
    spline = basis.BSpline([0.5])
    with pytest.raises(AttributeError):
        spline.degree = 2
    with pytest.raises(ValueError, match="read-only"):
        spline.knots[0] = 0.1
