"""The fit: closed forms by other means, stationary points of the criteria, and bounded memory."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from scipy.special import expit, softmax

from knotwork._preparation.columns import CodedTable
from knotwork.additive import _fitting
from knotwork.additive._fitting import Design, fit_classes, fit_numbers
from knotwork.additive._terms import Category, Curve, Shape, Surface, Ties
from knotwork.knots import Column

RANDOM = np.random.default_rng(0)
N = 600
X = RANDOM.normal(size=(N, 2))
X[::9, 1] = np.nan
CODES = RANDOM.integers(0, 4, (N, 1))
TABLE = CodedTable(X, CODES)
WEIGHTS = RANDOM.integers(1, 4, N).astype(float)
Y = np.sin(2 * X[:, 0]) + np.nan_to_num(X[:, 1]) + 0.3 * CODES[:, 0] + 0.3 * RANDOM.normal(size=N)


def curve(place, **options):
    column = Column.from_values(X[:, place], WEIGHTS)
    return Curve.from_column(place, place, column, **{"size": 12, "missing": float(place), **options})


def terms(**options):
    counts = np.bincount(CODES[:, 0], WEIGHTS)
    sides = [curve(place, size=6, missing=0.0) for place in (0, 1)]
    return [curve(0, **options), curve(1), Category.from_counts("c", 0, counts), Surface.from_sides(*sides)]


def explicit(design):
    """Return X as a dense matrix."""
    return np.column_stack([np.ones(N), *(term.combine(term.encode(TABLE)) for term in design.terms)])


@pytest.fixture
def precise(monkeypatch):
    monkeypatch.setattr(_fitting, "UPDATES", replace(_fitting.UPDATES, precision=1e-7, most=400))
    monkeypatch.setattr(_fitting, "CLASS_STEPS", replace(_fitting.CLASS_STEPS, flat=1e-12, most=400))


@pytest.mark.parametrize("dense_speed", [0.0, 1e9])
@pytest.mark.parametrize(("rows", "kept"), [(1 << 15, 1 << 28), (70, 0)])
def test_products_are_those_of_the_dense_matrix(monkeypatch, dense_speed, rows, kept):
    monkeypatch.setattr(_fitting, "DENSE_SPEED", dense_speed)
    monkeypatch.setattr(_fitting, "ROWS_PER_PART", rows)
    monkeypatch.setattr(_fitting, "MOST_KEPT_BYTES", kept)
    design = Design(terms(), TABLE)
    dense = explicit(design)
    for _ in range(2):  # the second time from what was kept
        np.testing.assert_allclose(design.matrix(WEIGHTS), dense.T @ (WEIGHTS[:, None] * dense), atol=1e-9)
        np.testing.assert_allclose(design.vector(Y), dense.T @ Y, atol=1e-9)
        beta = np.random.default_rng(1).normal(size=design.size)
        np.testing.assert_allclose(design.sums(beta), dense @ beta, atol=1e-9)


def test_ties_and_known_products_change_nothing(monkeypatch):
    monkeypatch.setattr(_fitting, "DENSE_SPEED", 0.0)
    monkeypatch.setattr(_fitting, "ROWS_PER_PART", 200)
    rounded = np.column_stack([np.round(X[:, 0]), X[:, 1], np.round(3 * X[:, 1])])
    table = CodedTable(rounded, CODES)
    columns = [Column.from_values(column, WEIGHTS, with_rows=False) for column in rounded.T]
    ties = {place: Ties.from_values(rounded[:, place], columns[place]) for place in range(3)}
    assert [each is None for each in ties.values()] == [False, True, False]
    ties = {place: each for place, each in ties.items() if each is not None}
    made = [Curve.from_column(place, place, columns[place], size=9, missing=float(place)) for place in range(3)]
    design = Design([], table, ties=ties)
    for chosen in (made[:2], made, [made[2], made[0]], made[:1]):
        design = design.replaced([*chosen, *terms()[2:3]])
        dense = np.column_stack([np.ones(N), *(term.combine(term.encode(table)) for term in design.terms)])
        for weights in (WEIGHTS, WEIGHTS + 1.0, WEIGHTS):
            np.testing.assert_allclose(design.matrix(weights), dense.T @ (weights[:, None] * dense), atol=1e-9)
        np.testing.assert_allclose(design.vector(Y), dense.T @ Y, atol=1e-9)
        beta = np.random.default_rng(1).normal(size=design.size)
        np.testing.assert_allclose(design.sums(beta), dense @ beta, atol=1e-9)


def penalty_of(design, solution, matrix):
    """Return S by its definition."""
    out = np.zeros((design.size, design.size))
    for term, place, strengths in zip(design.terms, design.slices, solution.smoothing, strict=True):
        size = np.diag(matrix)[place]
        rotation = np.eye(term.width) if term.space.rotation is None else term.space.rotation
        for strength, diagonal in zip(strengths, [each for each in term.space.penalties if each.any()], strict=True):
            scaled = diagonal * size[diagonal > 0].sum() / diagonal.sum()
            out[place, place] += strength * rotation @ np.diag(scaled) @ rotation.T
    return out


def test_numbers_are_fitted_by_the_closed_form():
    design = Design(terms(), TABLE)
    solution = fit_numbers(design, Y, WEIGHTS)
    dense = explicit(design)
    matrix = dense.T @ (WEIGHTS[:, None] * dense)
    total = matrix + penalty_of(design, solution, matrix)
    expected = np.linalg.solve(total, dense.T @ (WEIGHTS * Y))
    np.testing.assert_allclose(dense @ solution.beta, dense @ expected, atol=1e-5)
    np.testing.assert_allclose(solution.covariance, solution.scale * np.linalg.inv(total), rtol=1e-4, atol=1e-8)
    residuals = Y - dense @ solution.beta
    variance = WEIGHTS @ residuals**2 / (WEIGHTS.sum() - 1.0 - solution.degrees.sum())
    assert solution.unit**2 * solution.scale == pytest.approx(variance, rel=1e-6)
    degrees = np.diag(np.linalg.solve(total, matrix))
    np.testing.assert_allclose(solution.degrees, [degrees[place].sum() for place in design.slices], atol=1e-4)


def restricted_likelihood(dense, smoothing, penalties):
    """Return -2 log restricted likelihood of a Gaussian model with its variance profiled out, by its formula."""
    penalty = sum(strength * each for strength, each in zip(smoothing, penalties, strict=True))
    matrix = dense.T @ (WEIGHTS[:, None] * dense)
    beta = np.linalg.solve(matrix + penalty, dense.T @ (WEIGHTS * Y))
    squares = WEIGHTS @ (Y - dense @ beta) ** 2 + beta @ penalty @ beta
    n_free = WEIGHTS.sum() - 1  # the intercept is the only coefficient without a penalty
    variance = squares / n_free
    logarithms = np.linalg.slogdet(matrix + penalty)[1] - np.linalg.slogdet(penalty[1:, 1:])[1]
    return n_free * np.log(variance) + logarithms


def test_smoothing_parameters_maximise_the_restricted_likelihood(precise):
    design = Design([curve(0), curve(1)], TABLE)
    solution = fit_numbers(design, Y, WEIGHTS)
    dense = explicit(design)
    matrix = dense.T @ (WEIGHTS[:, None] * dense)
    penalties = []
    for term, place, strengths in zip(design.terms, design.slices, solution.smoothing, strict=True):
        for diagonal in term.space.penalties[: len(strengths)]:
            whole = np.zeros(design.size)
            whole[place] = diagonal * np.diag(matrix)[place][diagonal > 0].sum() / diagonal.sum()
            penalties.append(np.diag(whole))
    smoothing = np.concatenate(solution.smoothing)
    best = restricted_likelihood(dense, smoothing, penalties)
    for place, strength in enumerate(smoothing):
        if not 1e-5 < strength < 1e7:
            continue  # at the limits
        for factor in (0.5, 2.0):
            other = smoothing.copy()
            other[place] *= factor
            assert restricted_likelihood(dense, other, penalties) > best - 1e-3


@pytest.mark.parametrize("shape", [Shape(1), Shape(-1), Shape(0, 1), Shape(1, -1)], ids=str)
def test_bounded_coefficients_are_the_constrained_minimum(shape):
    design = Design([curve(0, shape=shape), curve(1)], TABLE)
    solution = fit_numbers(design, Y, WEIGHTS)
    dense = explicit(design)
    penalty = penalty_of(design, solution, dense.T @ (WEIGHTS[:, None] * dense))
    bounded = np.zeros(design.size, dtype=bool)
    bounded[design.slices[0]] = design.terms[0].space.bounded
    values, vectors = np.linalg.eigh(penalty)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    rows = np.vstack([np.sqrt(WEIGHTS)[:, None] * dense, root])
    target = np.concatenate([np.sqrt(WEIGHTS) * Y, np.zeros(design.size)])
    expected = lsq_linear(rows, target, bounds=(np.where(bounded, 0.0, -np.inf), np.inf), method="bvls").x
    assert (solution.beta[bounded] >= 0.0).all()
    np.testing.assert_allclose(dense @ solution.beta, dense @ expected, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_solve_the_equations_of_the_penalised_likelihood(precise, n_classes):
    random = np.random.default_rng(1)
    cuts = np.quantile(Y, np.arange(1, n_classes) / n_classes)
    codes = np.digitize(Y + random.logistic(size=N), cuts)
    responses = np.stack([codes == code for code in (range(n_classes) if n_classes > 2 else [1])]).astype(float)
    design = Design([curve(0), curve(1)], TABLE)
    solutions = fit_classes(design, responses, WEIGHTS)
    dense = explicit(design)
    sums = np.stack([dense @ solution.beta for solution in solutions])
    means = expit(sums) if n_classes == 2 else softmax(sums, axis=0)
    for place, (solution, response, mean) in enumerate(zip(solutions, responses, means, strict=True)):
        gradient = dense.T @ (WEIGHTS * (response - mean))
        assert abs(gradient[0]) < 1e-3  # the intercept has no penalty
        assert ((solution.degrees >= 0) & (solution.degrees < 13)).all()
        if place == 0:  # penalties are scaled by the first step, which for other classes depends on this one
            share = np.average(response, weights=WEIGHTS)
            matrix = dense.T @ ((WEIGHTS * share * (1 - share))[:, None] * dense)
            np.testing.assert_allclose(penalty_of(design, solution, matrix) @ solution.beta, gradient, atol=1e-2)


def test_a_draft_is_a_start():
    design = Design(terms(), TABLE)
    draft = fit_numbers(design, Y, WEIGHTS, is_draft=True)
    whole = fit_numbers(design, Y, WEIGHTS)
    warm = fit_numbers(design, Y, WEIGHTS, draft=whole)
    np.testing.assert_allclose(warm.degrees, whole.degrees, rtol=0.05, atol=0.1)
    assert draft.beta.shape == whole.beta.shape


def test_units_of_the_target_have_no_effect():
    design = Design([curve(0)], TABLE)
    small, large = (fit_numbers(design, unit * Y, WEIGHTS) for unit in (1.0, 1e200))
    np.testing.assert_allclose(large.beta, 1e200 * small.beta, rtol=1e-9)
    assert large.unit == pytest.approx(1e200 * small.unit)
    np.testing.assert_allclose(large.covariance, small.covariance, rtol=1e-9)
