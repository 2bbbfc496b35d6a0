"""The corrected resampled t-test against SciPy's paired one and its own closed form."""

import numpy as np
import pytest
from scipy import stats

import knotwork as kw

SCORES = np.array([[0.50, 0.61, 0.52], [0.47, 0.55, 0.50], [0.52, 0.66, 0.51], [0.49, 0.58, 0.53], [0.55, 0.62, 0.57]])


def test_without_the_correction_it_is_the_paired_t_test():
    found = kw.stats.compare_folds(SCORES, test_to_train=0.0, level=0.9)
    assert found.best == 0
    for place in (1, 2):
        expected = stats.ttest_rel(SCORES[:, place], SCORES[:, 0])
        interval = expected.confidence_interval(0.9)
        assert found.p[place] == pytest.approx(expected.pvalue, rel=1e-12)
        assert (found.low[place], found.high[place]) == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_the_correction_widens_as_nadeau_and_bengio_say():
    ratio, k = 1 / 4, len(SCORES)
    found = kw.stats.compare_folds(SCORES, test_to_train=ratio)
    away = SCORES[:, 1] - SCORES[:, 0]
    t = away.mean() / np.sqrt((1 / k + ratio) * away.var(ddof=1))
    assert found.p[1] == pytest.approx(2 * stats.t.sf(t, k - 1), rel=1e-12)
    plain = kw.stats.compare_folds(SCORES, test_to_train=0.0)
    widening = (found.high - found.low)[1:] / (plain.high - plain.low)[1:]
    np.testing.assert_allclose(widening, np.sqrt((1 / k + ratio) * k))


def test_holm_adjusts_for_the_comparisons_with_the_best():
    found = kw.stats.compare_folds(SCORES, test_to_train=0.25)
    small, large = sorted(found.p[1:])
    assert sorted(found.adjusted[1:]) == pytest.approx([2 * small, max(2 * small, large)])
    assert found.adjusted[0] == found.p[0] == 1.0


def test_high_scores_may_be_good():
    low = kw.stats.compare_folds(SCORES, test_to_train=0.25)
    high = kw.stats.compare_folds(-SCORES, test_to_train=0.25, lower_is_better=False)
    assert high.best == low.best
    np.testing.assert_allclose(high.difference, low.difference)
    np.testing.assert_allclose(high.mean, -low.mean)


def test_equal_and_constantly_different_methods():
    base = np.array([1.0, 2.0, 4.0])
    found = kw.stats.compare_folds(np.stack([base, base, base + 1], axis=1), test_to_train=0.5)
    assert found.p.tolist() == [1.0, 1.0, 0.0]
    assert found.difference.tolist() == found.low.tolist() == found.high.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("scores", [SCORES[:1], [[1.0, np.nan], [1.0, 2.0]], [[1.0, np.inf], [1.0, 2.0]]])
def test_what_cannot_be_compared_is_refused(scores):
    with pytest.raises(ValueError, match="scores must"):
        kw.stats.compare_folds(scores, test_to_train=0.5)
