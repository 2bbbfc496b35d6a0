"""Agreement with scikit-posthocs and autorank."""

from itertools import combinations

import numpy as np
import pytest

import knotwork as kw
from tests.stats.cases import DEMSAR, ROUNDING


def tables():
    random = np.random.default_rng(7)
    return [
        pytest.param(-DEMSAR, id="demsar"),
        pytest.param(ROUNDING, id="rounding"),
        pytest.param(random.normal(size=(39, 14)) + np.linspace(0, 2, 14), id="14 methods"),
    ]


def posthocs():
    return pytest.importorskip(
        "scikit_posthocs", reason="SCIKIT-POSTHOCS IS MISSING: agreement with it is not tested. Install the test extra."
    )


def autorank_result(scores, alpha):
    autorank = pytest.importorskip(
        "autorank", reason="AUTORANK IS MISSING: agreement with it is not tested. Install the test extra."
    )
    import pandas as pd

    frame = pd.DataFrame(scores, columns=[f"m{i}" for i in range(scores.shape[1])])
    return autorank.autorank(frame, alpha=alpha, order="ascending", force_mode="nonparametric")


@pytest.mark.parametrize("scores", tables())
def test_nemenyi_of_scikit_posthocs(scores):
    p = posthocs().posthoc_nemenyi_friedman(scores).to_numpy()
    n, k = scores.shape
    ranks = kw.stats.average_ranks(scores)
    for alpha in (0.01, 0.05, 0.1, 0.3):
        groups = kw.stats.cliques(ranks, kw.stats.critical_difference(k, n, alpha))
        for i, j in combinations(range(k), 2):
            assert any({i, j} <= set(group) for group in groups) == (p[i, j] >= alpha)


@pytest.mark.parametrize("adjust", [None, "holm"])
def test_wilcoxon_of_scikit_posthocs(adjust):
    scores = np.random.default_rng(7).normal(size=(39, 14)) + np.linspace(0, 2, 14)
    expected = posthocs().posthoc_wilcoxon(list(scores.T), p_adjust=adjust).to_numpy()
    result = kw.stats.wilcoxon_holm(scores)
    np.testing.assert_allclose(result.adjusted if adjust else result.p, expected, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.1])
@pytest.mark.parametrize("scores", tables())
def test_autorank(scores, alpha):
    expected = autorank_result(scores, alpha)
    from autorank._util import get_sorted_rank_groups

    n, k = scores.shape
    ranks, cd = kw.stats.average_ranks(scores), kw.stats.critical_difference(k, n, alpha)
    test = kw.stats.friedman(scores)
    assert test.p == pytest.approx(expected.pvalue)
    assert cd == pytest.approx(expected.cd, rel=1e-4)  # theirs is from an approximation of the quantile
    theirs = expected.rankdf["meanrank"]
    np.testing.assert_allclose(ranks, [theirs[f"m{i}"] for i in range(k)])
    _, names, groups = get_sorted_rank_groups(expected, reverse=False)
    ours = [{f"m{i}" for i in group} for group in kw.stats.cliques(ranks, cd)]
    assert ours == [set(names[first : last + 1]) for first, last in groups]
