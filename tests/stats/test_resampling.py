"""Bootstrap intervals against distributions known in closed form, and SciPy's bootstrap."""

import numpy as np
import pytest
from scipy import stats

import knotwork as kw
from knotwork.stats import _resampling as resampling
from tests.stats.cases import DEMSAR


def test_two_methods_are_binomial():
    # With w wins out of n, the mean rank of a resample is 2 - B / n, where B is binomial(n, w / n).
    scores = np.array([[0, 1]] * 14 + [[1, 0]] * 6)
    result = kw.stats.bootstrap_ranks(scores, n_resamples=200_000, level=0.9)
    np.testing.assert_allclose(result.mean, [1.3, 1.7])
    low, high = 2 - stats.binom.ppf([0.95, 0.05], 20, 0.7) / 20
    np.testing.assert_allclose([result.low[0], result.high[0]], [low, high])
    np.testing.assert_allclose([result.low[1], result.high[1]], [3 - high, 3 - low])


def test_groups_are_drawn_with_all_their_problems():
    # Three equal problems of each data set: as a single problem of each, and not as three independent ones.
    single = kw.stats.bootstrap_ranks(DEMSAR)
    tripled = np.repeat(DEMSAR, 3, axis=0)
    groups = np.repeat(np.arange(len(DEMSAR)), 3).tolist()
    grouped = kw.stats.bootstrap_ranks(tripled, groups=groups)
    np.testing.assert_allclose([grouped.low, grouped.high, grouped.mean], [single.low, single.high, single.mean])
    alone = kw.stats.bootstrap_ranks(tripled)
    assert (alone.high - alone.low < 0.7 * (grouped.high - grouped.low)).all()


def test_groups_may_have_different_numbers_of_problems():
    scores = np.array([[0, 1]] * 3 + [[1, 0]])
    result = kw.stats.bootstrap_ranks(scores, groups=["a", "a", "a", "b"], level=0.9)
    assert result.mean[0] == 1.25
    assert (result.low[0], result.high[0]) == (1.0, 2.0), "a quarter of the draws has one group only"


def test_agrees_with_scipys_bootstrap():
    ranks = kw.stats.ranks(DEMSAR, lower_is_better=False)
    expected = stats.bootstrap(
        (ranks,), lambda r, axis: r.mean(axis=axis), axis=0, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    result = kw.stats.bootstrap_ranks(DEMSAR, lower_is_better=False, n_resamples=20_000)
    np.testing.assert_allclose(result.mean, kw.stats.average_ranks(DEMSAR, False))
    np.testing.assert_allclose(result.low, expected.low, atol=0.04)
    np.testing.assert_allclose(result.high, expected.high, atol=0.04)


def test_parameters_have_an_effect():
    wide = kw.stats.bootstrap_ranks(DEMSAR)
    narrow = kw.stats.bootstrap_ranks(DEMSAR, level=0.5)
    assert (narrow.high - narrow.low < wide.high - wide.low).all()
    np.testing.assert_allclose(kw.stats.bootstrap_ranks(DEMSAR, lower_is_better=False).mean, 5 - wide.mean)
    np.testing.assert_array_equal(kw.stats.bootstrap_ranks(DEMSAR, seed=0).low, wide.low)
    few = [kw.stats.bootstrap_ranks(DEMSAR, n_resamples=20, seed=seed).low for seed in (0, 1)]
    assert (few[0] != few[1]).any()
    assert (few[0] != wide.low).any()


def test_chunks_change_nothing(monkeypatch):
    scores, a, b = DEMSAR, DEMSAR[:, 0], DEMSAR[:, 1]
    at_once, rho = kw.stats.bootstrap_ranks(scores, n_resamples=100), kw.stats.spearman(a, b, n_resamples=100)
    monkeypatch.setattr(resampling, "_MAX_DRAWS", 14 * 7)
    parts = kw.stats.bootstrap_ranks(scores, n_resamples=100)
    np.testing.assert_allclose(parts.low, at_once.low, rtol=1e-14)
    np.testing.assert_allclose(parts.high, at_once.high, rtol=1e-14)
    assert kw.stats.spearman(a, b, n_resamples=100) == rho


def test_spearman_agrees_with_scipy():
    a, b = DEMSAR[:, 0], DEMSAR[:, 3]
    result = kw.stats.spearman(a, b, n_resamples=2_000)
    assert result.rho == pytest.approx(stats.spearmanr(a, b).statistic)
    expected = stats.bootstrap(
        (a, b),
        lambda a, b: stats.spearmanr(a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=1_000,
        method="percentile",
        rng=1,
    ).confidence_interval
    assert result.low == pytest.approx(expected.low, abs=0.05)
    assert result.high == pytest.approx(expected.high, abs=0.05)
    assert (result.n, result.level) == (14, 0.95)
    assert kw.stats.spearman(a, b, level=0.5).low > result.low
    assert kw.stats.spearman(a, b, n_resamples=50, seed=1).low != kw.stats.spearman(a, b, n_resamples=50).low


def test_spearman_of_opposites_and_of_short_lists():
    result = kw.stats.spearman([1, 2, 3], [3, 2, 1])
    assert (result.rho, result.low, result.high) == (-1, -1, -1)
    # Three draws from three give one value three times with probability 3 / 27.
    assert result.n_undefined == pytest.approx(10_000 / 9, abs=150)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1, 2]), "a must be one-dimensional with at least 3 values"),
        (([1, 2, 3], [1, 2, 3, 4]), "b must have as many values as a, 3"),
        (([1, 2, 3], [2, 2, 2]), "b must have at least two different values"),
        (([1, 2, np.nan], [1, 2, 3]), "a must be finite"),
    ],
)
def test_wrong_lists(arguments, message):
    with pytest.raises(ValueError, match=message):
        kw.stats.spearman(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 0}, "n_resamples must be an integer of at least 1"),
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        kw.stats.bootstrap_ranks(DEMSAR, **options)
    with pytest.raises(ValueError, match=message):
        kw.stats.spearman(DEMSAR[:, 0], DEMSAR[:, 1], **options)
