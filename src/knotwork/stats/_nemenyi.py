"""Nemenyi's critical difference of average ranks, and the groups of methods that it does not tell apart."""

from functools import lru_cache
from math import inf, sqrt

import numpy as np
import numpy.typing as npt
from scipy.stats import studentized_range

from knotwork._checks import check_int
from knotwork.stats._scores import check_fraction, check_not_negative, read_numbers

__all__ = ["cliques", "critical_difference"]


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Return how far apart the average ranks of two of k methods over n blocks must be to differ significantly.

    Parameters
    ----------
    k : int
        Number of methods, at least 2.
    n : int
        Number of blocks, at least 2.
    alpha : float, default=0.05
        Level of the test over all pairs together, between 0 and 1.

    Returns
    -------
    float
        Two methods differ if their average ranks differ by more than this.

    Notes
    -----
    ``CD = q sqrt(k (k + 1) / (6 n))``, where q is the upper alpha quantile of the studentised range of k values with
    infinite degrees of freedom, divided by sqrt(2). Computed, not read from a table, so any k and alpha will do; the
    table of Demsar (2006) agrees to one unit of its third decimal. Beyond alpha = 1e-6 digits are lost slowly.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    k = check_int(k, "k", 2, "k is the number of methods.")
    n = check_int(n, "n", 2, "n is the number of blocks.")
    return _quantile(k, check_fraction(alpha, "alpha")) * sqrt(k * (k + 1) / (6 * n))


@lru_cache(maxsize=1024)
def _quantile(k: int, alpha: float) -> float:
    """Return the upper quantile of the studentised range, infinite degrees of freedom, over sqrt(2)."""
    return float(studentized_range.ppf(1 - alpha, k, inf)) / sqrt(2)


def cliques(ranks: npt.ArrayLike, cd: float) -> list[tuple[int, ...]]:
    """Return the largest groups of methods whose average ranks lie within a critical difference.

    Two methods are together in a group exactly if their ranks differ by at most `cd`. Groups of one are left out, and
    no group is part of another; groups may overlap.

    Parameters
    ----------
    ranks : array-like of shape (n_methods,)
        Average ranks of at least 2 methods, in any order.
    cd : float
        The critical difference, at least 0.

    Returns
    -------
    list of tuple of int
        Positions of the methods in `ranks`, in a group from best to worst (ties by position), and the groups from best
        to worst. Empty if all methods differ.

    Examples
    --------
    >>> cliques([3.143, 2.000, 2.893, 1.964], 1.25)
    [(3, 1, 2, 0)]
    >>> cliques([1.0, 3.0, 2.0], 1.0)
    [(0, 2), (2, 1)]
    """
    values = read_numbers(ranks, "ranks", min_size=2)
    cd = check_not_negative(cd, "cd")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    groups = []
    reached = 0
    for first in range(len(ordered)):
        end = first + int(np.count_nonzero(ordered[first:] - ordered[first] <= cd))
        if end > max(reached, first + 1):
            groups.append(tuple(order[first:end].tolist()))
            reached = end
    return groups
