"""Wilcoxon's test, Holm's correction and the t-test over folds against SciPy; wins against counting."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import knotwork as kw
from tests.stats.cases import DEPRESSION, tables


def test_depression_scale():
    # R gives V = 40 and p = 0.01953 for the one-sided test.
    result = kw.stats.wilcoxon_holm(DEPRESSION)
    assert result.p[0, 1] == pytest.approx(2 * 0.01953, abs=1e-5)
    assert result.direction.tolist() == [[0, -1], [1, 0]]
    assert kw.stats.wilcoxon_holm(DEPRESSION, lower_is_better=False).direction.tolist() == [[0, 1], [-1, 0]]


@pytest.mark.parametrize("n", [2, 5, 14, 50, 51, 200])
def test_agrees_with_scipy_without_ties(n):
    scores = np.random.default_rng(n).normal(size=(n, 3)) + np.array([0, 0.2, 0.5])
    actual = kw.stats.wilcoxon_holm(scores).p
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        expected = stats.wilcoxon(scores[:, i], scores[:, j]).pvalue
        assert actual[i, j] == actual[j, i] == pytest.approx(expected, rel=1e-10)


def test_agrees_with_scipy_with_ties_beyond_the_exact_test():
    scores = np.random.default_rng(0).integers(0, 6, size=(120, 2))
    expected = stats.wilcoxon(scores[:, 0], scores[:, 1], zero_method="wilcox").pvalue
    assert kw.stats.wilcoxon_holm(scores).p[0, 1] == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8))
def test_exact_with_ties_counts_all_signs(differences):
    scores = np.array([[d, 0] for d in differences])
    rest = np.array([d for d in differences if d])
    ranks = stats.rankdata(np.abs(rest)) if len(rest) else np.array([])
    sums = np.array([np.dot(taken, ranks) for taken in product([0, 1], repeat=len(rest))])
    observed = ranks[rest > 0].sum()
    expected = min(1, 2 * min(np.mean(sums <= observed), np.mean(sums >= observed)))
    result = kw.stats.wilcoxon_holm(scores, lower_is_better=False)
    assert result.p[0, 1] == pytest.approx(expected, rel=1e-12)
    assert result.direction[0, 1] == np.sign(2 * observed - ranks.sum())


def test_exact_with_ties_is_scipys_permutation_test():
    differences = np.array([1, 1, -2, 3, 3, 0])
    expected = stats.wilcoxon(differences, zero_method="wilcox", method=stats.PermutationMethod()).pvalue
    assert kw.stats.wilcoxon_holm(np.stack([differences, 0 * differences], 1)).p[0, 1] == pytest.approx(expected)


def test_methods_that_never_differ():
    result = kw.stats.wilcoxon_holm(np.ones((6, 3)))
    assert (result.p == 1).all()
    assert (result.adjusted == 1).all()
    assert (result.direction == 0).all()


def test_holm_as_in_r():
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") and one case above 1.
    np.testing.assert_allclose(kw.stats.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(kw.stats.holm([0.9, 0.8, 0.01]), [1, 1, 0.03])


@pytest.mark.parametrize("p_values", [[], [0.1, 1.1], [-0.1], [np.nan]])
def test_p_values_are_between_0_and_1(p_values):
    with pytest.raises(ValueError, match="p_values must"):
        kw.stats.holm(p_values)


def test_pairs_are_adjusted_together():
    scores = np.random.default_rng(3).normal(size=(12, 4)) + np.arange(4)
    result = kw.stats.wilcoxon_holm(scores)
    pairs = np.triu_indices(4, 1)
    order = np.argsort(result.p[pairs])
    by_hand, worst = [], 0.0
    for left, p in zip(range(6, 0, -1), result.p[pairs][order], strict=True):
        worst = max(worst, left * p)
        by_hand.append(min(1.0, worst))
    np.testing.assert_allclose(result.adjusted[pairs][order], by_hand)
    np.testing.assert_array_equal(result.adjusted, result.adjusted.T)
    np.testing.assert_array_equal(np.diag(result.adjusted), 1)


@given(tables(min_problems=1, max_methods=4), st.booleans(), st.sampled_from([0.0, 1.0, 1.5]))
def test_wins_by_counting(scores, lower_is_better, tolerance):
    actual = kw.stats.wins(scores, lower_is_better=lower_is_better, tolerance=tolerance)
    for i, j in product(range(scores.shape[1]), repeat=2):
        counts = [0, 0, 0]
        for a, b in zip(scores[:, i], scores[:, j], strict=True):
            tie, better = abs(a - b) <= tolerance, (a < b) == lower_is_better
            counts[1 if tie else 0 if better else 2] += 1
        assert actual[i, j].tolist() == counts


@pytest.mark.parametrize("tolerance", [-1, np.nan, np.inf])
def test_tolerance_is_not_negative(tolerance):
    with pytest.raises(ValueError, match="tolerance must be finite and at least 0"):
        kw.stats.wins([[1, 2]], tolerance=tolerance)


def test_comparisons_with_a_control_are_corrected_for_their_number():
    scores = np.random.default_rng(1).normal(size=(12, 4)) + np.array([0, 0.5, 1.0, 2.0])
    actual = kw.stats.wilcoxon_holm(scores, control=0)
    p = np.array([stats.wilcoxon(scores[:, 0], scores[:, j]).pvalue for j in (1, 2, 3)])
    low, middle, high = np.sort(p)
    by_rule = np.minimum(1, np.maximum.accumulate([3 * low, 2 * middle, high]))
    np.testing.assert_allclose(np.sort(actual.adjusted[0, 1:]), by_rule, rtol=1e-10)
    assert actual.adjusted[1, 2] == actual.p[2, 3] == 1
    all_pairs = kw.stats.wilcoxon_holm(scores)
    np.testing.assert_array_equal(actual.p[0], all_pairs.p[0])
    np.testing.assert_array_equal(actual.direction[0], all_pairs.direction[0])


@pytest.mark.parametrize("control", [-1, 2])
def test_a_control_must_be_a_method(control):
    with pytest.raises(ValueError, match="control must"):
        kw.stats.wilcoxon_holm([[1, 2], [3, 4]], control=control)


SCORES = np.array([[0.50, 0.61, 0.52], [0.47, 0.55, 0.50], [0.52, 0.66, 0.51], [0.49, 0.58, 0.53], [0.55, 0.62, 0.57]])


def test_without_the_correction_it_is_the_paired_t_test():
    actual = kw.stats.compare_folds(SCORES, test_to_train=0.0, level=0.9)
    assert actual.best == 0
    for place in (1, 2):
        expected = stats.ttest_rel(SCORES[:, place], SCORES[:, 0])
        interval = expected.confidence_interval(0.9)
        assert actual.p[place] == pytest.approx(expected.pvalue, rel=1e-12)
        assert (actual.low[place], actual.high[place]) == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_the_correction_widens_as_nadeau_and_bengio_say():
    ratio, k = 1 / 4, len(SCORES)
    actual = kw.stats.compare_folds(SCORES, test_to_train=ratio)
    gaps = SCORES[:, 1] - SCORES[:, 0]
    t = gaps.mean() / np.sqrt((1 / k + ratio) * gaps.var(ddof=1))
    assert actual.p[1] == pytest.approx(2 * stats.t.sf(t, k - 1), rel=1e-12)
    plain = kw.stats.compare_folds(SCORES, test_to_train=0.0)
    widening = (actual.high - actual.low)[1:] / (plain.high - plain.low)[1:]
    np.testing.assert_allclose(widening, np.sqrt((1 / k + ratio) * k))


def test_holm_adjusts_for_the_comparisons_with_the_best():
    actual = kw.stats.compare_folds(SCORES, test_to_train=0.25)
    small, large = sorted(actual.p[1:])
    assert sorted(actual.adjusted[1:]) == pytest.approx([2 * small, max(2 * small, large)])
    assert actual.adjusted[0] == actual.p[0] == 1.0


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_simultaneous_intervals_exclude_zero_exactly_if_p_is_small(level):
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(50):
        scores = rng.normal(size=(4, 5)) + np.arange(5)
        actual = kw.stats.compare_folds(scores, test_to_train=1 / 3, level=level, simultaneous=True)
        excluded = (actual.low > 0) | (actual.high < 0)
        np.testing.assert_array_equal(excluded, actual.adjusted < 1 - level)
        seen |= set(excluded.tolist())
    assert seen == {True, False} or level == 0.999


def test_the_simultaneous_level_is_that_of_one_interval_to_the_power():
    settings = {"test_to_train": 0.25, "lower_is_better": True}
    both = kw.stats.compare_folds(SCORES, level=0.9, simultaneous=True, **settings)
    each = kw.stats.compare_folds(SCORES, level=0.9**0.5, **settings)
    np.testing.assert_allclose(both.low, each.low)
    np.testing.assert_allclose(both.high, each.high)
    np.testing.assert_allclose(both.adjusted[1:], 1 - (1 - each.p[1:]) ** 2)
    assert both.adjusted[0] == 1.0


def test_any_method_may_be_the_reference():
    best = kw.stats.compare_folds(SCORES, test_to_train=0.25)
    other = kw.stats.compare_folds(SCORES, test_to_train=0.25, reference=1)
    assert (other.best, other.reference, best.reference) == (0, 1, 0)
    assert other.difference[0] == pytest.approx(-best.difference[1])
    assert (other.low[0], other.high[0]) == pytest.approx((-best.high[1], -best.low[1]))
    assert other.p[0] == pytest.approx(best.p[1])
    with pytest.raises(ValueError, match="reference must be the position of one of the 3 methods"):
        kw.stats.compare_folds(SCORES, test_to_train=0.25, reference=3)


def test_high_scores_may_be_good():
    low = kw.stats.compare_folds(SCORES, test_to_train=0.25)
    high = kw.stats.compare_folds(-SCORES, test_to_train=0.25, lower_is_better=False)
    assert high.best == low.best
    np.testing.assert_allclose(high.difference, low.difference)
    np.testing.assert_allclose(high.mean, -low.mean)


def test_equal_and_constantly_different_methods():
    base = np.array([1.0, 2.0, 4.0])
    actual = kw.stats.compare_folds(np.stack([base, base, base + 1], axis=1), test_to_train=0.5)
    assert actual.p.tolist() == [1.0, 1.0, 0.0]
    assert actual.difference.tolist() == actual.low.tolist() == actual.high.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("scores", [SCORES[:1], [[1.0, np.nan], [1.0, 2.0]], [[1.0, np.inf], [1.0, 2.0]]])
def test_scores_that_cannot_be_compared_raise_an_error(scores):
    with pytest.raises(ValueError, match="scores must"):
        kw.stats.compare_folds(scores, test_to_train=0.5)
