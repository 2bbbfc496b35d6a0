"""Symmetric trees: the best splits and leaves by the definition, goals by their derivatives, and whole fits."""

import numpy as np
import pytest
from scipy import stats

from knotwork._trees import BoostedTrees
from knotwork._trees import _symmetric as symmetric
from knotwork._trees._grown import TreeColumns
from knotwork._trees._symmetric import GOALS, grow_symmetric

PLAIN = BoostedTrees(
    leaves=8, learning_rate=0.1, row_share=1.0, column_share=1.0, penalty=3.0, rounds=20, symmetric=True
)
ABOUT = {
    "l2": {},
    "binary": {},
    "multiclass": {"num_class": 3},
    "poisson": {},
    "gamma": {},
    "tweedie": {"tweedie_variance_power": 1.4},
}


def columns(n=300, seed=0, *, missing=0.1):
    """Two numbers, one of them with ties and missing values, and categories of twelve and of two codes."""
    rng = np.random.default_rng(seed)
    numbers = np.column_stack([rng.normal(size=n), rng.integers(0, 9, n)])
    numbers[rng.random(n) < missing, 1] = np.nan
    codes = np.column_stack([rng.integers(0, 12, n), rng.integers(0, 2, n)])
    return TreeColumns(np.column_stack([numbers, codes]), 2, (12, 2))


def goal(table, name):
    signal = np.sin(3 * table.values[:, 0]) + np.nan_to_num(table.values[:, 1]) / 4 + table.values[:, 2] % 3
    if name in ("binary", "multiclass"):
        return np.digitize(signal, np.quantile(signal, [0.3, 0.7] if name == "multiclass" else [0.5]))
    return signal if name == "l2" else np.exp(0.3 * signal)


def fit(table, target, kind=PLAIN, name="l2", *, weights=None, valid=None, seed=0):
    rows = np.arange(len(target))
    valid = rows[:0] if valid is None else valid
    return grow_symmetric(
        kind, {"objective": name, **ABOUT[name]}, table, target, weights,
        train=np.setdiff1d(rows, valid), valid=valid, seed=seed, is_over=lambda rounds: False,
    )  # fmt: skip


def scores(forest, table, rows=slice(None)):
    return forest.scores(table.values[rows, :2], table.values[rows, 2:].astype(np.int64))


@pytest.mark.parametrize("name", GOALS)
def test_slopes_are_derivatives_of_the_loss(name):
    rng = np.random.default_rng(0)
    n_outputs = 3 if name == "multiclass" else 1
    at = rng.normal(size=(50, n_outputs))
    y = rng.gamma(2.0, size=(50, 1))
    if name in ("binary", "multiclass"):
        y = np.eye(3)[rng.integers(0, 3, 50)][:, :n_outputs]
    made = GOALS[name](ABOUT[name])
    factor = 2.0 if name == "l2" else 1.0  # half the square is what slopes belong to
    for place, step in enumerate(1e-5 * np.eye(n_outputs)):
        first, second = (each[:, place] for each in made.slopes(at, y))
        up, down, here = (made.loss(at + change, y) / factor for change in (step, -step, 0.0))
        np.testing.assert_allclose(first, (up - down) / 2e-5, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(second, (up - 2 * here + down) / 1e-10, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", GOALS)
def test_the_start_is_the_best_constant(name):
    table = columns()
    y = goal(table, name)
    start = fit(table, y, BoostedTrees(symmetric=True, rounds=1), name).forest.start
    made = GOALS[name](ABOUT[name])
    every = np.eye(3)[y] if name == "multiclass" else np.asarray(y, float)[:, None]
    slope, _ = made.slopes(np.tile(start, (len(y), 1)), every)
    np.testing.assert_allclose(slope.mean(axis=0), 0.0, atol=1e-12)


def best_level(table, residual, leaf, penalty):
    """Return the best gain of one more level over all columns and thresholds, by the definition."""
    best = -np.inf
    features = [table.values[:, 0], table.values[:, 1], table.values[:, 2], table.values[:, 3]]
    for x in features:
        for threshold in [-np.inf, *np.unique(x[~np.isnan(x)])[:-1]]:
            new = 2 * leaf + (x > threshold)
            sums, counts = np.bincount(new, residual), np.bincount(new)
            best = max(best, float((sums**2 / (counts + penalty)).sum()))
    return best


def test_every_level_is_the_best_one_and_leaves_are_newton_steps(monkeypatch):
    """Noise, means by category and quantiles are switched off, so that all splits can be tried."""
    monkeypatch.setattr(symmetric, "SYMMETRIC_RULE", symmetric.SymmetricRule(noise=0.0, most_classes=0, rows_per_bin=1))
    table = columns(120)
    y = goal(table, "l2")
    kind = BoostedTrees(
        leaves=8, learning_rate=1.0, row_share=1.0, column_share=1.0, penalty=2.0, rounds=1, symmetric=True
    )
    forest = fit(table, y, kind).forest
    residual, leaf = y - y.mean(), np.zeros(120, dtype=np.int64)
    x = np.column_stack([table.values[:, :2], *(each[table.values[:, 2:].astype(int)[:, place]] for place, each in
        zip(forest.code_columns, np.split(forest.code_values, forest.code_starts[1:]), strict=True))])  # fmt: skip
    for node in (0, 1, 3):  # the first node of each level
        wanted = best_level(table, residual, leaf, 2.0)
        values = x[:, forest.feature[node]]
        leaf = 2 * leaf + np.where(np.isnan(values), False, values > forest.value[node])
        sums, counts = np.bincount(leaf, residual), np.bincount(leaf)
        assert (sums**2 / (counts + 2.0)).sum() == pytest.approx(wanted, rel=1e-9)
    steps = sums[leaf] / (counts[leaf] + 2.0)
    np.testing.assert_allclose(scores(forest, table)[:, 0], y.mean() + steps, rtol=1e-9)


@pytest.mark.parametrize("name", GOALS)
def test_forests_predict_what_training_had(name):
    """Scores of validation rows are computed from bins, those of the forest from thresholds."""
    table = columns(400)
    y, valid = goal(table, name), np.arange(100)
    result = fit(table, y, name=name, valid=valid)
    result.forest.check(2, (12, 2))
    made = GOALS[name](ABOUT[name])
    every = np.eye(3)[y] if name == "multiclass" else np.asarray(y, float)[:, None]
    loss = made.metric(float(made.loss(scores(result.forest, table, valid), every[valid]).mean()))
    assert loss == pytest.approx(result.score[result.best - 1], rel=1e-9)
    assert result.score[result.best - 1] < result.score[0]
    assert result.forest.n_trees == result.best * (3 if name == "multiclass" else 1)


def test_a_weight_is_as_good_as_a_copy(monkeypatch):
    monkeypatch.setattr(symmetric, "SYMMETRIC_RULE", symmetric.SymmetricRule(noise=0.0, most_classes=0, rows_per_bin=1))
    table = columns(100, missing=0.0)  # each value has a bin of its own
    y, weights = goal(table, "l2"), np.where(np.arange(100) < 30, 2.0, 1.0)
    twice = np.concatenate([np.arange(100), np.arange(30)])
    copied = TreeColumns(table.values[twice], 2, (12, 2))
    kind = BoostedTrees(
        leaves=4, learning_rate=0.3, row_share=1.0, column_share=1.0, penalty=0.0, rounds=5, symmetric=True
    )
    weighted, repeated = fit(table, y, kind, weights=weights), fit(copied, y[twice], kind)
    np.testing.assert_allclose(scores(weighted.forest, table), scores(repeated.forest, table), rtol=1e-9)


@pytest.mark.parametrize(
    "change",
    [{"penalty": 30.0}, {"row_share": 0.5}, {"column_share": 0.3}, {"leaves": 2}, {"learning_rate": 0.5}],
    ids=str,
)
def test_settings_change_trees(change):
    table = columns()
    y = goal(table, "l2")
    kind = BoostedTrees(**{**vars(PLAIN), **change})
    assert np.abs(scores(fit(table, y, kind).forest, table) - scores(fit(table, y).forest, table)).max() > 1e-3


@pytest.mark.parametrize("rule", [{"noise": 0.0}, {"most_classes": 0}, {"strength": 1e6}, {"most_bins": 32}], ids=str)
def test_rules_change_trees(monkeypatch, rule):
    table = columns(3000)
    y = goal(table, "l2")
    before = scores(fit(table, y).forest, table)
    monkeypatch.setattr(symmetric, "SYMMETRIC_RULE", symmetric.SymmetricRule(**rule))
    assert np.abs(scores(fit(table, y).forest, table) - before).max() > 1e-3


def test_means_by_code_leave_out_the_part_of_the_row():
    codes, part = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 0, 1])
    target, weights = np.array([1.0, 2.0, 6.0, 4.0, 8.0]), np.array([1.0, 1.0, 1.0, 2.0, 1.0])
    of_rows, of_codes = symmetric._means_by_code(codes, target, weights, part, 3)
    prior, strength = 25.0 / 6.0, symmetric.SYMMETRIC_RULE.strength
    assert of_rows[0] == pytest.approx((8.0 + strength * prior) / (2.0 + strength))
    assert of_rows[3] == pytest.approx((8.0 + strength * prior) / (1.0 + strength))
    assert of_codes.tolist() == pytest.approx(
        [(9.0 + strength * prior) / (3.0 + strength), (16.0 + strength * prior) / (3.0 + strength), prior]
    )


@pytest.mark.parametrize("kind", ["normal", "ties", "two", "one", "huge", "tiny"])
def test_borders_divide_distinct_values(kind):
    rng = np.random.default_rng(0)
    values = {
        "normal": rng.normal(size=5000),
        "ties": np.where(rng.random(5000) < 0.8, 0.0, rng.normal(size=5000)),
        "two": rng.integers(0, 2, 5000) * 1.0,
        "one": np.ones(5000),
        "huge": rng.uniform(-1.0, 1.0, 5000) * 1.7e308,
        "tiny": rng.integers(0, 5, 5000) * 5e-324,
    }[kind]
    borders = symmetric._borders(np.append(values, np.nan), 64)
    bins = np.searchsorted(borders, values)
    distinct = len(np.unique(values))
    assert np.isfinite(borders).all()
    assert len(np.unique(bins)) == len(borders) + 1 == min(distinct, len(borders) + 1)
    if kind == "normal":
        assert len(borders) == 63
        assert np.bincount(bins).max() < 2 * 5000 / 64
    if kind in ("two", "tiny"):
        assert len(borders) == distinct - 1


def test_signal_is_learned_and_noise_is_not():
    table = columns(3000)
    y, valid = goal(table, "l2"), np.arange(1000)
    result = fit(table, y, BoostedTrees(**{**vars(PLAIN), "rounds": 300, "leaves": 32}), valid=valid)
    assert result.score.min() < 0.25 * y[valid].std()
    noise = np.random.default_rng(1).normal(size=3000)
    result = fit(table, noise, BoostedTrees(**{**vars(PLAIN), "rounds": 300, "patience": 30}), valid=valid)
    assert len(result.score) < 300, "it stops early"
    assert stats.spearmanr(scores(result.forest, table, valid)[:, 0], noise[valid]).statistic < 0.1
