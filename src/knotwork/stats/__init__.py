"""Statistics for comparing methods over many blocks: ranks, tests, critical differences, intervals.

Scores are an array with a row per block (a data set, or a data set with a backbone) and a column per method. The
procedure of Demsar (2006) is `average_ranks`, then `friedman`, then `critical_difference` and `cliques`.
"""

from knotwork.stats._pairwise import FoldComparison, PairwiseResult, compare_folds, wilcoxon_holm, wins
from knotwork.stats._ranking import FriedmanResult, average_ranks, cliques, critical_difference, friedman, ranks
from knotwork.stats._resampling import CorrelationInterval, RankIntervals, bootstrap_ranks, spearman
from knotwork.stats._scores import complete_blocks

__all__ = [
    "CorrelationInterval",
    "FoldComparison",
    "FriedmanResult",
    "PairwiseResult",
    "RankIntervals",
    "average_ranks",
    "bootstrap_ranks",
    "cliques",
    "compare_folds",
    "complete_blocks",
    "critical_difference",
    "friedman",
    "ranks",
    "spearman",
    "wilcoxon_holm",
    "wins",
]
