"""Statistics for comparing methods over many problems: ranks, tests, critical differences, intervals.

Scores are an array with a row per problem (a data set, or a data set with a backbone) and a column per method. The
procedure of Demsar (2006) is `average_ranks`, then `friedman`, then `critical_difference` and `cliques`. Problems must
be independent: if several share a data set, use `relative_errors` and `average_problems` first, so that each data set
counts once, then `wilcoxon_holm` and `pairwise_cliques`.
"""

from knotwork.stats._pairwise import FoldComparison, PairwiseResult, compare_folds, holm, wilcoxon_holm, wins
from knotwork.stats._problems import average_problems, noise_floor, problem_correlation, relative_errors
from knotwork.stats._ranking import (
    FriedmanResult,
    average_ranks,
    cliques,
    critical_difference,
    friedman,
    pairwise_cliques,
    ranks,
)
from knotwork.stats._resampling import CorrelationInterval, RankIntervals, bootstrap_ranks, spearman
from knotwork.stats._scores import check_not_negative, complete_problems, read_numbers

__all__ = [
    "CorrelationInterval",
    "FoldComparison",
    "FriedmanResult",
    "PairwiseResult",
    "RankIntervals",
    "average_problems",
    "average_ranks",
    "bootstrap_ranks",
    "cliques",
    "compare_folds",
    "complete_problems",
    "critical_difference",
    "friedman",
    "holm",
    "noise_floor",
    "pairwise_cliques",
    "problem_correlation",
    "ranks",
    "relative_errors",
    "spearman",
    "wilcoxon_holm",
    "wins",
]
