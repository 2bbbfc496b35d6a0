"""Comparing methods over many blocks: ranks, tests, critical differences, intervals.

Arrays in, numbers out. Scores are a table with a row per block (a data set, or a data set with a backbone) and a column
per method. The way of Demsar (2006): `average_ranks`, then `friedman`, then `critical_difference` and `cliques`.
"""

from knotwork.stats._folds import FoldComparison, compare_folds
from knotwork.stats._nemenyi import cliques, critical_difference
from knotwork.stats._omnibus import FriedmanResult, friedman
from knotwork.stats._pairwise import PairwiseResult, wilcoxon_holm, wins
from knotwork.stats._ranking import average_ranks, ranks
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
