"""Weights by validation rows, against searches over all weights and scikit-learn's metrics."""

import itertools

import numpy as np
import pytest
from sklearn import metrics

import knotwork as kw
from knotwork.estimators._combination import ValidationRows, bagged_weights, greedy_weights

RNG = np.random.default_rng(0)


def regression_rows(predictions, target, metric="rmse", weights=None):
    config = kw.TrainingConfig(metric=metric)
    return ValidationRows(np.asarray(predictions)[..., None], np.asarray(target), weights, "regression", config)


def class_rows(probabilities, target, metric="log_loss", weights=None):
    config = kw.TrainingConfig(metric=metric)
    return ValidationRows(np.asarray(probabilities), np.asarray(target), weights, "classification", config)


def simplex(n_members, parts):
    """Return all weights that are multiples of one over a number."""
    counts = [shares for shares in itertools.product(range(parts + 1), repeat=n_members) if sum(shares) == parts]
    return np.array(counts) / parts


def test_the_optimum_is_found_where_it_is_on_the_way():
    members = np.linalg.qr(RNG.normal(size=(40, 3)))[0].T
    target = np.array([0.6, 0.3, 0.1]) @ members
    rows = regression_rows(members, target)
    every = simplex(3, 20)
    np.testing.assert_allclose(every[rows.scores(every).argmin()], [0.6, 0.3, 0.1])
    np.testing.assert_allclose(greedy_weights(rows.scores, 3), [0.6, 0.3, 0.1], atol=1e-12)
    np.testing.assert_allclose(bagged_weights(rows, seed=0), [0.6, 0.3, 0.1], atol=0.03)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("metric", ["rmse", "mae", "r2"])
def test_weights_of_regression_are_as_good_as_any(seed, metric):
    rng = np.random.default_rng(seed)
    target = rng.normal(size=300)
    members = target + rng.normal(size=(4, 300)) * np.array([0.5, 0.6, 0.7, 3.0])[:, None] + rng.normal(size=300) * 0.2
    rows = regression_rows(members, target, metric)
    weights = greedy_weights(rows.scores, 4, rounds=50)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()
    best = rows.scores(simplex(4, 25)).min()
    assert rows.scores(weights[None])[0] <= best + 2e-3 * abs(best)
    assert rows.scores(weights[None])[0] < rows.scores(np.eye(4)).min()
    assert weights[3] < 0.1
    drawn = bagged_weights(rows, seed=0)
    assert drawn.sum() == pytest.approx(1.0)
    assert (drawn >= 0).all()
    assert rows.scores(drawn[None])[0] <= best + 0.01 * abs(best)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("metric", ["log_loss", "brier"])
def test_weights_of_classes_are_as_good_as_any(seed, metric):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 3, 300)
    logits = 1.5 * np.eye(3)[target] + rng.normal(size=(4, 300, 3)) * np.array([1.0, 1.2, 1.5, 4.0])[:, None, None]
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    rows = class_rows(shares, target, metric)
    weights = greedy_weights(rows.scores, 4, rounds=50)
    best = rows.scores(simplex(4, 25)).min()
    assert rows.scores(weights[None])[0] <= best * 1.002
    assert rows.scores(weights[None])[0] < rows.scores(np.eye(4)).min()


def test_a_member_that_is_best_alone_stays_alone():
    target = RNG.normal(size=50)
    rows = regression_rows([target + 1.0, target, target + 2.0], target)
    assert greedy_weights(rows.scores, 3).tolist() == [0.0, 1.0, 0.0]
    same = regression_rows([target, target], target)
    assert greedy_weights(same.scores, 2).tolist() == [1.0, 0.0]


def test_few_rows_lead_less_astray():
    """Ten members with much in common are equally good: the best weights are equal, but chance prefers a few."""
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        target = rng.normal(size=3025)
        members = target + rng.normal(size=3025) + 0.7 * rng.normal(size=(10, 3025))
        seen, unseen = (regression_rows(members[:, part], target[part]) for part in (slice(25), slice(25, None)))
        weights = np.array([greedy_weights(seen.scores, 10), bagged_weights(seen, seed=0), np.full(10, 0.1)])
        errors.append(unseen.scores(weights))
    once, drawn, equal = np.mean(errors, axis=0)
    assert equal < drawn < once - 0.1 * (once - equal)


def test_draws_are_seeded_and_small_weights_are_left_out(monkeypatch):
    target = RNG.normal(size=60)
    members = target + RNG.normal(size=(8, 60)) * np.linspace(0.3, 3.0, 8)[:, None]
    rows = regression_rows(members, target, weights=RNG.uniform(size=60))
    first, again, other = (bagged_weights(rows, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first[first > 0].min() > 0.2 / 8
    monkeypatch.setattr("knotwork.estimators._combination.LEAST_SHARE", 0.0)
    assert np.count_nonzero(bagged_weights(rows, seed=1)) > np.count_nonzero(first)
    monkeypatch.setattr("knotwork.estimators._combination.MOST_DRAWN", 5)
    assert not np.array_equal(bagged_weights(rows, seed=1), first)


def test_rounds_bound_the_number_of_members():
    members = np.eye(6)
    rows = regression_rows(members, members.mean(axis=0))
    assert [np.count_nonzero(greedy_weights(rows.scores, 6, rounds=rounds)) for rounds in (1, 3, 6)] == [1, 3, 6]


def test_without_a_score_all_members_count():
    assert greedy_weights(lambda shares: np.full(len(shares), np.nan), 2).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_other_libraries(weighted):
    weights = RNG.uniform(size=60) if weighted else None
    given = {"sample_weight": weights}
    predictions, target = RNG.normal(size=(2, 60)), RNG.normal(size=60)
    mean = 0.25 * predictions[0] + 0.75 * predictions[1]
    for metric, wanted in {
        "rmse": metrics.root_mean_squared_error(target, mean, **given),
        "mae": metrics.mean_absolute_error(target, mean, **given),
        "r2": -metrics.r2_score(target, mean, **given),
    }.items():
        rows = regression_rows(predictions, target, metric, weights)
        np.testing.assert_allclose(rows.scores(np.array([[0.25, 0.75]])), wanted, rtol=1e-12)
    shares, labels = RNG.dirichlet(np.ones(3), size=(2, 60)), RNG.integers(0, 3, 60)
    mean = 0.25 * shares[0] + 0.75 * shares[1]
    for metric, wanted in {
        "log_loss": metrics.log_loss(labels, mean, **given),
        "accuracy": -metrics.accuracy_score(labels, mean.argmax(axis=1), **given),
        "auc": -metrics.roc_auc_score(labels, mean, multi_class="ovr", average="weighted", **given),
    }.items():
        rows = class_rows(shares, labels, metric, weights)
        np.testing.assert_allclose(rows.scores(np.array([[0.25, 0.75]])), wanted, rtol=1e-9)


def test_scores_that_are_not_finite_are_the_worst():
    rows = regression_rows([[0.0, 0.0, np.nan]], np.zeros(3))
    assert rows.scores(np.eye(1)) == np.finfo(np.float64).max
    certain = class_rows([[[1.0, 0.0]], [[0.0, 1.0]]], [0])
    assert np.isfinite(certain.scores(np.eye(2))).all()


def test_many_means_are_scored_in_parts(monkeypatch):
    rows = regression_rows(RNG.normal(size=(3, 40)), RNG.normal(size=40))
    every = simplex(3, 10)
    wanted = rows.scores(every)
    monkeypatch.setattr("knotwork.estimators._combination.ENTRIES", 100)
    np.testing.assert_allclose(rows.scores(every), wanted, rtol=1e-12)
