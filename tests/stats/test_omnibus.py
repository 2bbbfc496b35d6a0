"""Friedman's test against published numbers and SciPy."""

import numpy as np
import pytest
from hypothesis import assume, given
from scipy import stats

import knotwork as kw
from tests.stats.cases import DEMSAR, ROUNDING, tables


def test_demsar():
    result = kw.stats.friedman(DEMSAR, tie_correction=False)
    assert result.chi2 == pytest.approx(9.28, abs=5e-3)
    assert pytest.approx(3.69, abs=5e-3) == result.F
    assert (result.k, result.n) == (4, 14)
    assert stats.f.sf(result.F, 3, 39) == pytest.approx(result.p_F)
    assert result.p_F < 0.05 < stats.f.sf(2.84, 3, 39)  # the paper has 2.85 as the critical value


def test_rounding_times_with_ties():
    result = kw.stats.friedman(ROUNDING)
    assert result.chi2 == pytest.approx(11.143, abs=5e-4)
    assert result.p == pytest.approx(0.003805, abs=5e-7)


@given(tables())
def test_agrees_with_scipy_and_the_analysis_of_variance_of_ranks(scores):
    n, k = scores.shape
    ranks = stats.rankdata(scores, axis=1)
    result = kw.stats.friedman(scores)
    assume(result.defined)
    if k > 2:  # SciPy refuses two methods
        expected = stats.friedmanchisquare(*scores.T)
        assert result.chi2 == pytest.approx(expected.statistic, abs=1e-9)
        assert result.p == pytest.approx(expected.pvalue, abs=1e-9)
    between = n * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
    rest = ((ranks - ranks.mean(axis=0)) ** 2).sum()
    if rest < 1e-9:
        assert np.isposinf(result.F)
        assert result.p_F == 0
    else:
        assert pytest.approx((n - 1) * between / rest, abs=1e-9) == result.F
        assert result.p_F == pytest.approx(stats.f.sf(result.F, k - 1, (k - 1) * (n - 1)), abs=1e-12)


def test_two_methods_without_ties_are_the_sign_test():
    scores = np.array([[0, 1], [0, 1], [0, 1], [1, 0], [0, 1]])
    result = kw.stats.friedman(scores)
    assert result.chi2 == pytest.approx((4 - 1) ** 2 / 5)
    assert result.p == pytest.approx(stats.chi2.sf(9 / 5, 1))


def test_all_tied_is_not_defined():
    result = kw.stats.friedman(np.ones((5, 3)))
    assert not result.defined
    assert (result.chi2, result.p, result.F, result.p_F) == (None, None, None, None)
    assert "not defined: all methods tie" in str(result)
    plain = kw.stats.friedman(np.ones((5, 3)), tie_correction=False)
    assert (plain.chi2, plain.p, plain.F, plain.p_F) == (0, 1, 0, 1)


def test_result_cannot_be_changed():
    with pytest.raises(AttributeError):
        kw.stats.friedman(DEMSAR).p = 0.0
