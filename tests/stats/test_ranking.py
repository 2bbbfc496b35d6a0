"""Ranks, Friedman's test and critical differences against published numbers, SciPy and definitions."""

import csv
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.stats import norm

import knotwork as kw
from tests.conftest import PAPER
from tests.stats.cases import DEMSAR, ROUNDING, tables


def test_demsar_average_ranks():
    np.testing.assert_allclose(kw.stats.average_ranks(DEMSAR, False), [3.143, 2.000, 2.893, 1.964], atol=5e-4)


@given(tables(min_problems=1), st.booleans())
def test_rank_counts_better_and_tied_methods(scores, lower_is_better):
    better = scores[:, None, :] < scores[:, :, None] if lower_is_better else scores[:, None, :] > scores[:, :, None]
    tied = scores[:, None, :] == scores[:, :, None]
    expected = better.sum(axis=2) + (tied.sum(axis=2) + 1) / 2
    np.testing.assert_array_equal(kw.stats.ranks(scores, lower_is_better), expected)
    np.testing.assert_allclose(kw.stats.average_ranks(scores, lower_is_better), expected.mean(axis=0))


@given(tables(), st.randoms(use_true_random=False))
def test_order_of_problems_and_methods_does_not_matter(scores, random):
    problems, methods = list(range(scores.shape[0])), list(range(scores.shape[1]))
    random.shuffle(problems)
    random.shuffle(methods)
    moved = scores[problems][:, methods]
    np.testing.assert_array_equal(kw.stats.average_ranks(moved), kw.stats.average_ranks(scores)[methods])
    assert kw.stats.friedman(moved) == kw.stats.friedman(scores)
    before, after = kw.stats.wilcoxon_holm(scores), kw.stats.wilcoxon_holm(moved)
    square = np.ix_(methods, methods)
    np.testing.assert_array_equal(after.direction, before.direction[square])
    np.testing.assert_allclose(after.p, before.p[square], rtol=1e-12)
    np.testing.assert_allclose(after.adjusted, before.adjusted[square], rtol=1e-12)
    np.testing.assert_array_equal(kw.stats.wins(moved), kw.stats.wins(scores)[square])


@given(tables())
def test_only_order_within_a_problem_matters_to_ranks(scores):
    stretched = np.exp(scores) * np.linspace(1, 5, len(scores))[:, None] + np.arange(len(scores))[:, None]
    np.testing.assert_array_equal(kw.stats.ranks(stretched), kw.stats.ranks(scores))


def test_complete_problems():
    scores = [[1.0, 2.0], [None, 1.0], [3.0, np.nan], [np.inf, 1.0]]
    assert kw.stats.complete_problems(scores).tolist() == [True, False, False, True]


ALL = [
    kw.stats.ranks,
    kw.stats.average_ranks,
    kw.stats.friedman,
    kw.stats.wilcoxon_holm,
    kw.stats.bootstrap_ranks,
    kw.stats.wins,
]
TESTS = [kw.stats.friedman, kw.stats.wilcoxon_holm, kw.stats.bootstrap_ranks]


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        ([[1, 2], [np.nan, 1], [1, 1], [1, np.nan]], ValueError, "NaN in problem 1, 3.*complete_problems"),
        ([[1, 2], [np.inf, 1]], ValueError, "be finite, got scores=infinite values in problem 1"),
        ([1, 2, 3], ValueError, r"be two-dimensional, .*shape \(3,\)"),
        (np.ones((2, 3, 4)), ValueError, r"be two-dimensional, .*shape \(2, 3, 4\)"),
        ([[1], [2]], ValueError, r"have at least 2 methods, got scores=shape \(2, 1\)"),
        (np.ones((0, 3)), ValueError, r"have at least \d problems?, got scores=shape \(0, 3\)"),
        ([["a", "b"], ["c", "d"]], TypeError, "be an array of real numbers"),
        ([[1, 2], [1]], TypeError, "be an array of real numbers"),
        ([[1j, 2], [1, 2]], TypeError, "be an array of real numbers, got scores=an array of complex128"),
    ],
)
def test_wrong_scores_are_refused(function, scores, error, message):
    with pytest.raises(error, match=message):
        function(scores)


@pytest.mark.parametrize("function", ALL)
def test_one_problem_has_ranks_and_no_tests(function):
    if function in TESTS:
        with pytest.raises(ValueError, match="have at least 2 problems"):
            function([[1, 2, 3]])
    else:
        function([[1, 2, 3]])


@pytest.mark.parametrize("function", [f for f in ALL if f is not kw.stats.friedman])
def test_direction_is_true_or_false(function):
    with pytest.raises(TypeError, match="lower_is_better must be True or False"):
        function([[1, 2], [2, 3]], lower_is_better="yes")


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


# Demsar (2006), table 5(a), for k = 2, ..., 10.
TABLE = {
    0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
    0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
}


@pytest.mark.parametrize("alpha", TABLE)
def test_table_of_demsar(alpha):
    actual = [kw.stats.critical_difference(k, 50, alpha) / np.sqrt(k * (k + 1) / 300) for k in range(2, 11)]
    # The table itself is made from quantiles of few digits: 2.949 is 4.17 / sqrt(2), and 2.948 would be right.
    np.testing.assert_allclose(actual, TABLE[alpha], rtol=0, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("k", [2, 3, 7, 14, 40, 200])
def test_quantile_solves_the_integral_of_the_range(k, alpha):
    n = 30
    span = kw.stats.critical_difference(k, n, alpha) / np.sqrt(k * (k + 1) / (12 * n))
    below, _ = quad(lambda z: k * norm.pdf(z) * (norm.cdf(z + span) - norm.cdf(z)) ** (k - 1), -15, 10, limit=200)
    assert 1 - below == pytest.approx(alpha, abs=1e-9)


@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.99])
def test_two_methods_are_the_normal_distribution(alpha):
    assert kw.stats.critical_difference(2, 25, alpha) == pytest.approx(norm.isf(alpha / 2) / 5, rel=1e-9)


@pytest.mark.parametrize(("k", "n", "expected"), [(4, 14, 1.25), (14, 39, 3.177), (14, 36, 3.307)])
def test_critical_differences(k, n, expected):
    # 1.25 is Demsar's; the others follow from the quantile 4.7427 of the studentised range of 14 values.
    digits = 5e-3 if k == 4 else 5e-4
    assert kw.stats.critical_difference(k, n) == pytest.approx(expected, abs=digits)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, 10), ValueError, "k must be an integer of at least 2"),
        ((3, 1), ValueError, "n must be an integer of at least 2"),
        ((3.0, 10), TypeError, "k must be an integer"),
        ((3, 10, 0), ValueError, "alpha must be between 0 and 1"),
        ((3, 10, float("nan")), ValueError, "alpha must be between 0 and 1"),
        ((3, 10, "5%"), TypeError, "alpha must be a number"),
    ],
)
def test_wrong_arguments_of_the_critical_difference(arguments, error, message):
    with pytest.raises(error, match=message):
        kw.stats.critical_difference(*arguments)


def test_demsar_cliques():
    # With alpha = 0.05 no pair differs; with 0.10 the paper finds that C4.5 is worse than with m, and with both tuned.
    ranks = kw.stats.average_ranks(DEMSAR, lower_is_better=False)
    assert kw.stats.cliques(ranks, kw.stats.critical_difference(4, 14)) == [(3, 1, 2, 0)]
    assert kw.stats.cliques(ranks, kw.stats.critical_difference(4, 14, 0.10)) == [(3, 1, 2), (2, 0)]


def test_cliques_in_small():
    assert kw.stats.cliques([1, 2, 3], 0.5) == []
    assert kw.stats.cliques([1, 2, 3], 1) == [(0, 1), (1, 2)]
    assert kw.stats.cliques([3, 1, 2], 2) == [(1, 2, 0)]
    assert kw.stats.cliques([2, 1, 2], 0) == [(0, 2)]


RANKS = st.lists(st.integers(2, 40).map(lambda doubled: doubled / 2), min_size=2, max_size=12)


@given(RANKS, st.integers(0, 40).map(lambda doubled: doubled / 2))
def test_cliques_hold_exactly_the_pairs_within_the_difference(ranks, cd):
    groups = kw.stats.cliques(ranks, cd)
    close = {
        frozenset(pair) for pair in combinations(range(len(ranks)), 2) if abs(ranks[pair[0]] - ranks[pair[1]]) <= cd
    }
    together = {frozenset(pair) for group in groups for pair in combinations(group, 2)}
    assert together == close
    assert all(len(group) > 1 for group in groups)
    assert not any(set(one) <= set(other) for one in groups for other in groups if one is not other)
    for group in groups:
        assert [ranks[i] for i in group] == sorted(ranks[i] for i in group)
    assert groups == sorted(groups, key=lambda group: ranks[group[0]])


@given(RANKS, st.integers(0, 40).map(lambda doubled: doubled / 2), st.randoms(use_true_random=False))
def test_cliques_do_not_depend_on_the_order_of_methods(ranks, cd, random):
    order = list(range(len(ranks)))
    random.shuffle(order)
    moved = kw.stats.cliques([ranks[i] for i in order], cd)
    assert [{order[i] for i in group} for group in moved] == [set(group) for group in kw.stats.cliques(ranks, cd)]


@pytest.mark.parametrize(
    ("ranks", "cd", "message"),
    [
        ([1.0], 1, "ranks must be one-dimensional with at least 2 values"),
        ([[1.0, 2.0]], 1, "ranks must be one-dimensional"),
        ([1.0, np.nan], 1, "ranks must be finite, got ranks=NaN or infinity at position 1"),
        ([1.0, 2.0], -1, "cd must be finite and at least 0"),
        ([1.0, 2.0], np.nan, "cd must be finite and at least 0"),
    ],
)
def test_wrong_arguments_of_cliques(ranks, cd, message):
    with pytest.raises(ValueError, match=message):
        kw.stats.cliques(ranks, cd)


@pytest.mark.parametrize("size", ["m7", "m15", "m30"])
@pytest.mark.parametrize(("task", "n"), [("regression", 39), ("classification", 36)])
def test_ranks_of_the_paper(task, n, size):
    path = PAPER / f"average_ranks_{task}.csv"
    with path.open() as file:
        ranks = [float(row[size]) for row in csv.DictReader(file)]
    assert sum(ranks) == pytest.approx(14 * 15 / 2, abs=0.1)
    cd = kw.stats.critical_difference(14, n)
    groups = kw.stats.cliques(ranks, cd)
    for i, j in combinations(range(14), 2):
        assert any({i, j} <= set(group) for group in groups) == (abs(ranks[i] - ranks[j]) <= cd)
    # As the paper says, several top-ranked methods do not differ, and not all methods are alike.
    assert int(np.argmin(ranks)) in groups[0]
    assert len(groups) > 1


def symmetric(k):
    return st.lists(st.booleans(), min_size=k * (k - 1) // 2, max_size=k * (k - 1) // 2).map(partial(_fill, k))


def _fill(k, upper):
    matrix = np.zeros((k, k), dtype=bool)
    matrix[np.triu_indices(k, 1)] = upper
    return matrix | matrix.T


@given(st.integers(2, 6).flatmap(symmetric), st.randoms())
def test_pairwise_cliques_are_all_largest_groups_without_a_difference(differ, random):
    k = len(differ)
    ranks = [random.randint(1, 3) for _ in range(k)]
    subsets = [set(group) for size in range(2, k + 1) for group in combinations(range(k), size)
               if not any(differ[i, j] for i, j in combinations(group, 2))]  # fmt: skip
    expected = [group for group in subsets if not any(group < other for other in subsets)]
    actual = kw.stats.pairwise_cliques(ranks, differ)
    assert sorted(map(sorted, actual)) == sorted(map(sorted, expected))
    places = {method: place for place, method in enumerate(np.argsort(ranks, kind="stable"))}
    orders = [[places[method] for method in group] for group in actual]
    assert orders == sorted(map(sorted, orders))


@given(tables())
def test_groups_by_the_critical_difference_are_pairwise_cliques(scores):
    ranks = kw.stats.average_ranks(scores)
    cd = kw.stats.critical_difference(scores.shape[1], len(scores))
    apart = np.abs(ranks[:, None] - ranks) > cd
    assert kw.stats.pairwise_cliques(ranks, apart) == kw.stats.cliques(ranks, cd)


@pytest.mark.parametrize("differ", [[[False]], np.zeros((2, 2)), [[False, True], [False, False]]])
def test_differences_are_a_symmetric_matrix_of_truth_values(differ):
    with pytest.raises(ValueError, match="differ must be a symmetric matrix of 2 x 2 truth values"):
        kw.stats.pairwise_cliques([1.0, 2.0], differ)
