"""Ranks against published averages and the plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import knotwork as kw
from tests.stats.cases import DEMSAR, tables


def test_demsar_average_ranks():
    np.testing.assert_allclose(kw.stats.average_ranks(DEMSAR, False), [3.143, 2.000, 2.893, 1.964], atol=5e-4)


@given(tables(min_blocks=1), st.booleans())
def test_rank_counts_better_and_tied_methods(scores, lower_is_better):
    better = scores[:, None, :] < scores[:, :, None] if lower_is_better else scores[:, None, :] > scores[:, :, None]
    tied = scores[:, None, :] == scores[:, :, None]
    expected = better.sum(axis=2) + (tied.sum(axis=2) + 1) / 2
    np.testing.assert_array_equal(kw.stats.ranks(scores, lower_is_better), expected)
    np.testing.assert_allclose(kw.stats.average_ranks(scores, lower_is_better), expected.mean(axis=0))


@given(tables(), st.randoms(use_true_random=False))
def test_order_of_blocks_and_methods_does_not_matter(scores, random):
    blocks, methods = list(range(scores.shape[0])), list(range(scores.shape[1]))
    random.shuffle(blocks)
    random.shuffle(methods)
    moved = scores[blocks][:, methods]
    np.testing.assert_array_equal(kw.stats.average_ranks(moved), kw.stats.average_ranks(scores)[methods])
    assert kw.stats.friedman(moved) == kw.stats.friedman(scores)
    before, after = kw.stats.wilcoxon_holm(scores), kw.stats.wilcoxon_holm(moved)
    square = np.ix_(methods, methods)
    np.testing.assert_array_equal(after.direction, before.direction[square])
    np.testing.assert_allclose(after.p, before.p[square], rtol=1e-12)
    np.testing.assert_allclose(after.adjusted, before.adjusted[square], rtol=1e-12)
    np.testing.assert_array_equal(kw.stats.wins(moved), kw.stats.wins(scores)[square])


@given(tables())
def test_only_order_within_a_block_matters_to_ranks(scores):
    stretched = np.exp(scores) * np.linspace(1, 5, len(scores))[:, None] + np.arange(len(scores))[:, None]
    np.testing.assert_array_equal(kw.stats.ranks(stretched), kw.stats.ranks(scores))


def test_complete_blocks():
    scores = [[1.0, 2.0], [None, 1.0], [3.0, np.nan], [np.inf, 1.0]]
    assert kw.stats.complete_blocks(scores).tolist() == [True, False, False, True]


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
        ([[1, 2], [np.nan, 1], [1, 1], [1, np.nan]], ValueError, "NaN in block 1, 3.*complete_blocks"),
        ([[1, 2], [np.inf, 1]], ValueError, "be finite, got scores=infinite values in block 1"),
        ([1, 2, 3], ValueError, r"be two-dimensional, .*shape \(3,\)"),
        (np.ones((2, 3, 4)), ValueError, r"be two-dimensional, .*shape \(2, 3, 4\)"),
        ([[1], [2]], ValueError, r"have at least 2 methods, got scores=shape \(2, 1\)"),
        (np.ones((0, 3)), ValueError, r"have at least \d blocks?, got scores=shape \(0, 3\)"),
        ([["a", "b"], ["c", "d"]], TypeError, "be an array of real numbers"),
        ([[1, 2], [1]], TypeError, "be an array of real numbers"),
        ([[1j, 2], [1, 2]], TypeError, "be an array of real numbers, got scores=an array of complex128"),
    ],
)
def test_wrong_scores_are_refused(function, scores, error, message):
    with pytest.raises(error, match=message):
        function(scores)


@pytest.mark.parametrize("function", ALL)
def test_one_block_has_ranks_and_no_tests(function):
    if function in TESTS:
        with pytest.raises(ValueError, match="have at least 2 blocks"):
            function([[1, 2, 3]])
    else:
        function([[1, 2, 3]])


@pytest.mark.parametrize("function", [f for f in ALL if f is not kw.stats.friedman])
def test_direction_is_true_or_false(function):
    with pytest.raises(TypeError, match="lower_is_better must be True or False"):
        function([[1, 2], [2, 3]], lower_is_better="yes")
