"""Ranks of methods within problems, Friedman's test of them, and Nemenyi's critical difference."""

from dataclasses import dataclass
from functools import lru_cache
from math import inf, sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, fdtrc
from scipy.stats import rankdata, studentized_range

from knotwork._checks import argument_error, check_bool, check_int
from knotwork.stats._scores import Floats, check_fraction, check_not_negative, read_numbers, read_scores


def ranks(scores: npt.ArrayLike, lower_is_better: bool = True) -> Floats:
    """Rank the methods in each problem: 1 is the best, and methods that tie share the average of their ranks.

    Scores tie only if they are exactly equal; round them first if small differences do not matter. Missing and infinite
    scores raise an error.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 1 problem and 2 methods.
    lower_is_better : bool, default=True
        Whether rank 1 goes to the lowest score (errors) or to the highest (accuracies).

    Returns
    -------
    ndarray of shape (n_problems, n_methods)
        Ranks from 1 to n_methods, multiples of a half; each row has the sum ``n_methods * (n_methods + 1) / 2``.

    Examples
    --------
    >>> ranks([[0.3, 0.1, 0.2], [0.5, 0.5, 0.7]])
    array([[3. , 1. , 2. ],
           [1.5, 1.5, 3. ]])
    """
    table = read_scores(scores)
    signed = table if check_bool(lower_is_better, "lower_is_better") else -table
    return np.asarray(rankdata(signed, method="average", axis=1), dtype=np.float64)


def average_ranks(scores: npt.ArrayLike, lower_is_better: bool = True) -> Floats:
    """Return the average rank of each method over the problems; parameters as in `ranks`.

    Returns
    -------
    ndarray of shape (n_methods,)
        Averages of the columns of `ranks`. They do not depend on the order of the problems, to the last bit.

    Examples
    --------
    >>> average_ranks([[0.3, 0.1, 0.2], [0.5, 0.5, 0.7]])
    array([2.25, 1.25, 2.5 ])
    """
    averages: Floats = ranks(scores, lower_is_better).mean(axis=0)
    return averages


@dataclass(frozen=True)
class FriedmanResult:
    """The result of `friedman`; the statistics and p-values are None where the test is not defined.

    Attributes
    ----------
    chi2 : float or None
        Friedman's statistic.
    p : float or None
        Its p-value, from the chi-square distribution with k - 1 degrees of freedom.
    F : float or None
        Iman and Davenport's statistic; infinite if all problems rank the methods identically.
    p_F : float or None
        Its p-value, from the F distribution with k - 1 and (k - 1)(n - 1) degrees of freedom.
    k : int
        Number of methods.
    n : int
        Number of problems.
    """

    chi2: float | None
    p: float | None
    F: float | None
    p_F: float | None  # noqa: N815 - F is how the statistic is written
    k: int
    n: int

    @property
    def defined(self) -> bool:
        """Whether the test is defined: it is not if all methods tie in every problem and ties are corrected for."""
        return self.chi2 is not None

    def __str__(self) -> str:
        size = f"{self.k} methods, {self.n} problems"
        if not self.defined:
            return f"Friedman test not defined: all methods tie in every problem ({size})"
        return (
            f"Friedman test: chi2 = {self.chi2:.4g}, p = {self.p:.3g}; "
            f"Iman-Davenport F = {self.F:.4g}, p = {self.p_F:.3g} ({size})"
        )


def friedman(scores: npt.ArrayLike, *, tie_correction: bool = True) -> FriedmanResult:
    """Test whether all methods have the same average rank.

    The result does not depend on whether low or high scores are better. If all methods tie in every problem, the test
    is not defined: the statistics are None and ``defined`` is False (without the correction for ties, the statistic is
    0). Missing and infinite scores and a single problem raise an error.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 2 of each.
    tie_correction : bool, default=True
        Whether to use the variance of the observed ranks, ties included, as SciPy and R do. Otherwise the variance of
        ranks without ties is used, as in Demsar's formula, and the test loses power.

    Returns
    -------
    FriedmanResult
        Statistics and p-values; ``str`` formats them as a sentence.

    Notes
    -----
    With ranks r_ij of method j = 1..k in problem i = 1..n, R_j their sum over the problems and c = (k + 1) / 2 the mean
    rank, ``chi2 = (k - 1) S / T`` with ``S = sum_j (R_j - n c)^2`` and ``T = sum_ij (r_ij - c)^2``. Without ties T is
    n k (k^2 - 1) / 12, which gives the formula of Demsar (2006); this T is used if `tie_correction` is False.
    Iman and Davenport's statistic is ``F = (n - 1) chi2 / (n (k - 1) - chi2) = (n - 1) S / (n T - S)``.

    References
    ----------
    J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7. R. L. Iman and J. M.
    Davenport (1980), Approximations of the critical region of the Friedman statistic.

    Examples
    --------
    >>> print(friedman([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]]))
    Friedman test: chi2 = 4.5, p = 0.105; Iman-Davenport F = 3.857, p = 0.0837 (3 methods, 4 problems)
    """
    table = read_scores(scores, min_problems=2)
    n, k = table.shape
    # Doubled ranks are integers, so that the sums below are exact and do not depend on the order of the problems.
    deviations = np.rint(2 * ranks(table)).astype(np.int64) - (k + 1)
    between = int((deviations.sum(axis=0) ** 2).sum())
    corrected = check_bool(tie_correction, "tie_correction")
    total = int((deviations**2).sum()) if corrected else n * k * (k * k - 1) // 3
    if total == 0:
        return FriedmanResult(None, None, None, None, k, n)
    chi2 = (k - 1) * between / total
    rest = n * total - between
    statistic = (n - 1) * between / rest if rest else np.inf
    p_of_f = float(fdtrc(k - 1, (k - 1) * (n - 1), statistic)) if rest else 0.0
    return FriedmanResult(chi2, float(chdtrc(k - 1, chi2)), statistic, p_of_f, k, n)


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Return the smallest significant difference between average ranks of k methods over n problems (Nemenyi).

    Parameters
    ----------
    k : int
        Number of methods, at least 2.
    n : int
        Number of problems, at least 2.
    alpha : float, default=0.05
        Significance level over all pairs together, between 0 and 1.

    Returns
    -------
    float
        Two methods differ significantly if their average ranks differ by more than this.

    Notes
    -----
    ``CD = q sqrt(k (k + 1) / (6 n))``, where q is the upper alpha quantile of the studentised range of k values with
    infinite degrees of freedom, divided by sqrt(2). It is computed for any k and alpha; the table of Demsar (2006)
    agrees to one unit of its third decimal. Accuracy decreases slowly for alpha below 1e-6.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    k = check_int(k, "k", 2, "k is the number of methods.")
    n = check_int(n, "n", 2, "n is the number of problems.")
    return _quantile(k, check_fraction(alpha, "alpha")) * sqrt(k * (k + 1) / (6 * n))


@lru_cache(maxsize=1024)  # SciPy integrates numerically, and reports need the same few values repeatedly
def _quantile(k: int, alpha: float) -> float:
    """Return the upper quantile of the studentised range, infinite degrees of freedom, over sqrt(2)."""
    return float(studentized_range.ppf(1 - alpha, k, inf)) / sqrt(2)


def cliques(ranks: npt.ArrayLike, cd: float) -> list[tuple[int, ...]]:
    """Return the largest groups of methods whose average ranks do not differ significantly.

    Two methods share a group exactly if their ranks differ by at most `cd`. Groups may overlap, but no group contains
    another, and groups of one method are omitted.

    Parameters
    ----------
    ranks : array-like of shape (n_methods,)
        Average ranks of at least 2 methods, in any order.
    cd : float
        The critical difference, at least 0.

    Returns
    -------
    list of tuple of int
        Groups as positions in `ranks`; groups and their members are ordered from best to worst (ties by position).
        Empty if all methods differ.

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
    reached = 0  # a group that ends no later than an earlier one is contained in it
    for first in range(len(ordered)):
        end = first + int(np.count_nonzero(ordered[first:] - ordered[first] <= cd))
        if end > max(reached, first + 1):
            groups.append(tuple(order[first:end].tolist()))
            reached = end
    return groups


def pairwise_cliques(ranks: npt.ArrayLike, differ: npt.ArrayLike) -> list[tuple[int, ...]]:
    """Return the largest groups of methods without significant differences, from tests of all pairs.

    A method may rank between two members of a group without belonging to it, because it differs from one of them: tests
    of pairs do not depend on the ranks. Groups may overlap, but no group contains another, and groups of one method are
    omitted.

    Parameters
    ----------
    ranks : array-like of shape (n_methods,)
        Average ranks of at least 2 methods, in any order; the groups are ordered by them.
    differ : array-like of bool of shape (n_methods, n_methods)
        Whether each pair differs significantly; symmetric, such as ``wilcoxon_holm(scores).adjusted < 0.05``.

    Returns
    -------
    list of tuple of int
        Groups as positions in `ranks`; groups and their members are ordered from best to worst (ties by position).
        Empty if all methods differ.

    Examples
    --------
    >>> pairwise_cliques([1.0, 2.0, 3.0], [[False, True, False], [True, False, False], [False, False, False]])
    [(0, 2), (1, 2)]
    """
    values = read_numbers(ranks, "ranks", min_size=2)
    matrix = np.asarray(differ)
    if matrix.dtype != np.bool_ or matrix.shape != (len(values), len(values)) or not np.array_equal(matrix, matrix.T):
        raise argument_error("differ", f"be a symmetric matrix of {len(values)} x {len(values)} truth values", differ)
    places = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    near = [set(np.flatnonzero(~row).tolist()) - {i} for i, row in enumerate(matrix)]
    groups = [sorted(group, key=lambda i: places[i]) for group in _largest_groups(near) if len(group) > 1]
    return [tuple(group) for group in sorted(groups, key=lambda group: [places[i] for i in group])]


def _largest_groups(near: list[set[int]]) -> list[set[int]]:
    """Return the maximal cliques of a graph, given by the neighbours of each vertex (Bron and Kerbosch, 1973)."""
    groups: list[set[int]] = []

    def extend(group: set[int], candidates: set[int], done: set[int]) -> None:
        if not candidates and not done:
            groups.append(group)
            return
        pivot = max(candidates | done, key=lambda vertex: len(near[vertex] & candidates))
        for vertex in sorted(candidates - near[pivot]):
            extend(group | {vertex}, candidates & near[vertex], done & near[vertex])
            candidates = candidates - {vertex}
            done = done | {vertex}

    extend(set(), set(range(len(near))), set())
    return groups
