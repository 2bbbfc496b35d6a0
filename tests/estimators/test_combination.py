"""Weights by validation rows, against searches over all weights and scikit-learn's metrics; predictions out of fold."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

import knotwork as kw
from knotwork._preparation.members import PreparedTable
from knotwork._preparation.validation import as_splits, draw_folds
from knotwork.encoders import Encoding
from knotwork.estimators import _combination
from knotwork.estimators._combination import ValidationRows, bagged_weights, combine_members, greedy_weights
from knotwork.estimators._plans import FitPlan, Recipe
from knotwork.nn import MLPConfig
from knotwork.training import TrainingTable, train
from knotwork.training._objectives import USUAL_OBJECTIVES

RNG = np.random.default_rng(0)


def regression_rows(predictions, target, metric="rmse", weights=None):
    config = kw.TrainingConfig(metric=metric)
    return ValidationRows(
        np.asarray(predictions)[..., None], np.asarray(target), weights, USUAL_OBJECTIVES["regression"], config
    )


def class_rows(probabilities, target, metric="log_loss", weights=None):
    config = kw.TrainingConfig(metric=metric)
    return ValidationRows(
        np.asarray(probabilities), np.asarray(target), weights, USUAL_OBJECTIVES["classification"], config
    )


def simplex(n_members, parts):
    """Return all weights that are multiples of one over a number."""
    counts = [shares for shares in itertools.product(range(parts + 1), repeat=n_members) if sum(shares) == parts]
    return np.array(counts) / parts


def test_the_optimum_is_found_where_it_is_on_the_way():
    random = np.random.default_rng(1)
    members = np.linalg.qr(random.normal(size=(40, 3)))[0].T
    target = np.array([0.6, 0.3, 0.1]) @ members
    rows = regression_rows(members, target)
    every = simplex(3, 20)
    np.testing.assert_allclose(every[rows.scores(every).argmin()], [0.6, 0.3, 0.1])
    np.testing.assert_allclose(greedy_weights(rows.scores, 3), [0.6, 0.3, 0.1], atol=1e-12)
    np.testing.assert_allclose(bagged_weights(rows, seed=0), [0.6, 0.3, 0.1], atol=0.03)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
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


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
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
    random = np.random.default_rng(1)
    target = random.normal(size=50)
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
    random = np.random.default_rng(1)
    target = random.normal(size=60)
    members = target + random.normal(size=(8, 60)) * np.linspace(0.3, 3.0, 8)[:, None]
    rows = regression_rows(members, target, weights=random.uniform(size=60))
    first, again, other = (bagged_weights(rows, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first[first > 0].min() > 0.2 / 8
    monkeypatch.setattr(_combination, "WEIGHTS", replace(_combination.WEIGHTS, least_share=0.0))
    assert np.count_nonzero(bagged_weights(rows, seed=1)) > np.count_nonzero(first)
    monkeypatch.setattr(_combination, "WEIGHTS", replace(_combination.WEIGHTS, most_drawn=5))
    assert not np.array_equal(bagged_weights(rows, seed=1), first)


def test_rounds_bound_the_number_of_members():
    members = np.eye(6)
    rows = regression_rows(members, members.mean(axis=0))
    assert [np.count_nonzero(greedy_weights(rows.scores, 6, rounds=rounds)) for rounds in (1, 3, 6)] == [1, 3, 6]


def test_without_a_score_all_members_count():
    assert greedy_weights(lambda shares: np.full(len(shares), np.nan), 2).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_other_libraries(weighted):
    random = np.random.default_rng(1)
    weights = random.uniform(size=60) if weighted else None
    given = {"sample_weight": weights}
    predictions, target = random.normal(size=(2, 60)), random.normal(size=60)
    mean = 0.25 * predictions[0] + 0.75 * predictions[1]
    for metric, wanted in {
        "rmse": metrics.root_mean_squared_error(target, mean, **given),
        "mae": metrics.mean_absolute_error(target, mean, **given),
        "r2": -metrics.r2_score(target, mean, **given),
    }.items():
        rows = regression_rows(predictions, target, metric, weights)
        np.testing.assert_allclose(rows.scores(np.array([[0.25, 0.75]])), wanted, rtol=1e-12)
    shares, labels = random.dirichlet(np.ones(3), size=(2, 60)), random.integers(0, 3, 60)
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
    random = np.random.default_rng(1)
    rows = regression_rows(random.normal(size=(3, 40)), random.normal(size=40))
    every = simplex(3, 10)
    wanted = rows.scores(every)
    monkeypatch.setattr(_combination, "WEIGHTS", replace(_combination.WEIGHTS, most_means=100))
    np.testing.assert_allclose(rows.scores(every), wanted, rtol=1e-12)


FOLDS = 3
MEMORISING = kw.TrainingConfig(max_epochs=150, batch_size=32, learning_rate=1e-2, patience=None, weight_decay=0.0)


def drawn(target, n_folds):
    random = np.random.RandomState(0)
    seeds = random.randint(2**31 - 1, size=1)
    return as_splits(draw_folds(target, task="regression", n_folds=n_folds, random=random), seeds)


@pytest.fixture(scope="module")
def memorised():
    """Return a table of pure noise, members on its folds, and networks that know their training rows by heart."""
    rng = np.random.default_rng(0)
    table = TrainingTable(
        rng.normal(size=(90, 6)), np.zeros((90, 0), dtype=np.int64), rng.normal(size=90), "regression"
    )
    splits = drawn(table.target, FOLDS)
    prepared = PreparedTable.from_table(table, splits)
    choices = [(Encoding.parse(spec),) * 6 for spec in ("PLE@8", "BS-Q@6")]
    members = [
        prepared.member(choice, split, fold_blocks, seed=split.fold)
        for choice, blocks in zip(choices, prepared.fit_folds(choices), strict=True)
        for split, fold_blocks in zip(splits, blocks, strict=True)
    ]
    backbone = MLPConfig(widths=(64, 64), dropout=0.0)
    known = [replace(member, valid=member.train) for member in members]  # the best epoch is that of the training rows
    plan = FitPlan([Recipe(choice, backbone, MEMORISING) for choice in choices], "ensemble", n_folds=FOLDS)
    return table, members, train(table, known, backbone, MEMORISING, device="cpu"), plan


def test_noise_that_networks_know_by_heart_is_not_predicted_out_of_fold(memorised):
    table, members, trained, plan = memorised
    one_on = [replace(member, valid=members[(place + 1) % FOLDS].valid) for place, member in enumerate(members)]
    honest, seen = (
        ValidationRows.from_trained(trained, table, each, n_folds=FOLDS, config=MEMORISING).scores(np.eye(2))
        for each in (members, one_on)
    )
    assert (seen < 0.3).all(), "these rows were trained on: the test could not fail"
    assert (honest > 0.9).all()
    combination = combine_members(plan, trained, members, table=table, config=MEMORISING, seed=0)
    scores = [each["score"] for each in combination.table]
    np.testing.assert_allclose(scores, honest * float(trained.pieces[0].scale[0]), rtol=1e-12)


def test_out_of_fold_predictions_are_of_all_rows_in_the_order_of_the_folds(memorised):
    table, members, trained, _ = memorised
    rows = ValidationRows.from_trained(trained, table, members, n_folds=FOLDS, config=MEMORISING)
    assert rows.predictions.shape == (2, 90, 1)
    order = np.concatenate([member.valid for member in members[:FOLDS]])
    assert sorted(order) == list(range(90))
    every = trained.outputs(table.numbers, table.codes)
    shift, scale = float(trained.pieces[0].shift[0]), float(trained.pieces[0].scale[0])
    np.testing.assert_allclose(rows.target, (table.target[order] - shift) / scale, rtol=1e-10)
    for bag in range(2):
        for place, row in enumerate(order):
            (own,) = (fold for fold in range(FOLDS) if row not in members[fold].train)
            expected = (every[bag * FOLDS + own][row] - shift) / scale
            np.testing.assert_allclose(rows.predictions[bag, place], expected, rtol=1e-4, atol=1e-4)


def test_networks_of_a_bag_have_equal_weights(memorised):
    table, members, trained, plan = memorised
    combination = combine_members(plan, trained, members, table=table, config=MEMORISING, seed=0)
    by_bag = combination.weights.reshape(-1, FOLDS)
    assert (by_bag == by_bag[:, :1]).all()
    assert combination.weights.sum() == pytest.approx(1.0)
    assert combination.recipes == [recipe for recipe in sorted(set(combination.recipes)) for _ in range(FOLDS)]
    np.testing.assert_allclose(
        [each["weight"] for each in combination.table],
        [combination.weights[np.array(combination.recipes) == recipe].sum() for recipe in range(2)],
    )


@pytest.mark.parametrize("most", [1, 2])
def test_at_most_so_many_bags_predict(memorised, monkeypatch, most):
    table, members, trained, plan = memorised
    monkeypatch.setattr(
        "knotwork.estimators._combination.bagged_weights",
        lambda rows, seed: {2: np.array([0.4, 0.6]), 1: np.array([1.0])}[len(rows.predictions)],
    )
    plan = replace(plan, most_kept=most)
    combination = combine_members(plan, trained, members, table=table, config=MEMORISING, seed=0)
    assert [each["weight"] for each in combination.table] == ([0.0, 1.0] if most == 1 else [0.4, 0.6])
    assert len(combination.weights) == len(combination.trained.histories) == most * FOLDS


def without(trained, *failed):
    histories = [
        replace(each, best_epoch=0) if place in failed else each for place, each in enumerate(trained.histories)
    ]
    return replace(trained, histories=histories)


def test_bags_with_a_network_that_failed_are_left_out(memorised):
    table, members, trained, plan = memorised
    combination = combine_members(plan, without(trained, 1), members, table=table, config=MEMORISING, seed=0)
    assert combination.recipes == [1] * FOLDS
    assert np.isnan(combination.table[0]["score"])
    assert [each["weight"] for each in combination.table] == [0.0, 1.0]


def test_if_no_bag_is_complete_the_networks_that_were_trained_predict(memorised):
    table, members, trained, plan = memorised
    combination = combine_members(plan, without(trained, 1, 3, 4), members, table=table, config=MEMORISING, seed=0)
    assert combination.recipes == [0, 0, 1]
    np.testing.assert_allclose(combination.weights, 1 / 3)
    assert all(np.isnan(each["score"]) for each in combination.table)
    np.testing.assert_allclose([each["weight"] for each in combination.table], [2 / 3, 1 / 3])
    every = trained.outputs(table.numbers, table.codes)
    for own, place in zip(combination.trained.outputs(table.numbers, table.codes), (0, 2, 5), strict=True):
        np.testing.assert_allclose(own, every[place], rtol=1e-4, atol=1e-4)


def test_supervised_knots_of_a_fold_do_not_know_the_target_of_its_validation_rows():
    rng = np.random.default_rng(0)
    numbers, target = rng.uniform(size=(80, 2)), rng.normal(size=80)
    choices = [(Encoding.parse(spec),) * 2 for spec in ("PLE@6", "BS-Q@6", "IS-Grad-CART@6")]
    splits = drawn(target, 2)
    changed = target.copy()
    changed[splits[0].valid] = rng.normal(size=len(splits[0].valid))
    blocks = [
        PreparedTable.from_table(
            TrainingTable(numbers, np.zeros((80, 0), dtype=np.int64), values, "regression"), splits
        ).fit_folds(choices)
        for values in (target, changed)
    ]
    knots = [[[[block.basis.knots for block in fold] for fold in each] for each in one] for one in blocks]
    for place, supervised in enumerate((True, False, True)):
        first, second = (np.array(one[place]) for one in knots)
        np.testing.assert_array_equal(first[0], second[0])
        assert np.array_equal(first[1], second[1]) != supervised
        assert np.array_equal(first[0], first[1]) != supervised, "knots without a target are those of all rows"
