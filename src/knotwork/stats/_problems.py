"""Scores of several networks on each data set: relative errors, averages by data set, and the noise of training.

A test over data sets counts each of them once: `relative_errors`, then `average_problems`, then a test of the result.
"""

from collections.abc import Hashable, Sequence
from itertools import combinations
from math import sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import rankdata

from knotwork._checks import argument_error, check_int
from knotwork.stats._scores import Floats, check_fraction, read_numbers, read_scores


def relative_errors(errors: npt.ArrayLike) -> Floats:
    """Divide the errors of each problem by their mean, so that problems with large errors do not outweigh others.

    Differences between columns are then relative to the error of the problem: for two methods with errors a and b, ``2
    (a - b) / (a + b)``, which for small differences is the logarithm of the ratio. In a problem where all errors are 0
    all relative errors are 1. Missing, infinite and negative errors raise an error.

    Parameters
    ----------
    errors : array-like of shape (n_problems, n_methods)
        Errors, 0 for a perfect prediction: NRMSE, or ``1 - AUC``. At least 1 problem and 2 methods.

    Returns
    -------
    ndarray of shape (n_problems, n_methods)
        Relative errors; the mean of each row is 1.

    Examples
    --------
    >>> relative_errors([[0.1, 0.3], [20.0, 20.0]])
    array([[0.5, 1.5],
           [1. , 1. ]])
    """
    table = read_scores(errors)
    if (table < 0).any():
        raise argument_error("errors", "be at least 0", float(table.min()), "Subtract scores such as AUC from 1.")
    largest = table.max(axis=1, keepdims=True)
    scaled = np.divide(table, largest, out=np.ones_like(table), where=largest > 0)  # the mean of tiny errors may be 0
    relative: Floats = scaled / scaled.mean(axis=1, keepdims=True)
    return relative


def average_problems(scores: npt.ArrayLike, groups: Sequence[Hashable]) -> tuple[list[Hashable], Floats]:
    """Average the problems of each group, such as those of several backbones on one data set.

    Missing and infinite scores raise an error.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 1 problem and 2 methods.
    groups : sequence of hashable, of length n_problems
        The group of each problem.

    Returns
    -------
    names : list of length n_groups
        The groups, in the order of their first problems.
    averages : ndarray of shape (n_groups, n_methods)
        Mean scores of each group.

    Examples
    --------
    >>> average_problems([[1, 2], [3, 4], [5, 5]], ["wine", "wine", "adult"])
    (['wine', 'adult'], array([[2., 3.],
           [5., 5.]]))
    """
    table = read_scores(scores)
    names, codes = group_codes(groups, len(table))
    sums = np.zeros((len(names), table.shape[1]))
    np.add.at(sums, codes, table)
    return names, sums / np.bincount(codes)[:, None]


def group_codes(groups: Sequence[Hashable], n: int) -> tuple[list[Hashable], npt.NDArray[np.int64]]:
    """Return the distinct groups in the order of their first appearance, and the index of each entry's group."""
    labels = list(groups)
    if len(labels) != n:
        raise argument_error("groups", f"have an entry for each of the {n} problems", len(labels))
    places: dict[Hashable, int] = {}
    codes = [places.setdefault(label, len(places)) for label in labels]
    return list(places), np.array(codes, dtype=np.int64)


def problem_correlation(
    scores: npt.ArrayLike, groups: Sequence[Hashable], *, without_averages: bool = False
) -> float | None:
    """Return how similar the ranks of the methods are in two problems of the same group, on average.

    Problems of one group, such as three backbones on one data set, are independent only if this is 0. Then a test may
    count each of them; otherwise it counts the same evidence repeatedly, and its p-values are too small.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 1 problem and 2 methods.
    groups : sequence of hashable, of length n_problems
        The group of each problem.
    without_averages : bool, default=False
        Whether to subtract from each rank the average rank of its method over all problems: what remains is the
        similarity that is specific to a group.

    Returns
    -------
    float or None
        Mean of the correlations of ranks (Spearman) over all pairs of problems of the same group; None without pairs in
        which both problems have different ranks.

    Examples
    --------
    >>> problem_correlation([[1, 2, 3], [4, 5, 6], [3, 2, 1]], ["wine", "wine", "adult"])
    1.0
    """
    table = read_scores(scores)
    _, codes = group_codes(groups, len(table))
    ranks = np.asarray(rankdata(table, axis=1), dtype=np.float64)
    centred = ranks - (ranks.mean(axis=0) if without_averages else ranks.mean(axis=1, keepdims=True))
    squares = (centred**2).sum(axis=1)
    varies = squares > 1e-18  # ranks are multiples of one half: smaller numbers are rounding errors
    pairs = [
        (i, j)
        for code in range(codes.max() + 1)
        for i, j in combinations(np.flatnonzero((codes == code) & varies).tolist(), 2)
    ]
    if not pairs:
        return None
    return float(np.mean([centred[i] @ centred[j] / sqrt(squares[i] * squares[j]) for i, j in pairs]))


def noise_floor(
    differences: npt.ArrayLike,
    groups: Sequence[Hashable],
    *,
    n_groups: int | None = None,
    n_averaged: int = 1,
    level: float = 0.95,
) -> float:
    """Return how large a mean difference can be by the noise of training alone.

    Networks with the same specification differ by rounding, for example if they are trained in stacks of other shapes.
    A difference between two methods that is smaller than the floor is no larger than that of identical networks.

    Parameters
    ----------
    differences : array-like of shape (n_pairs,)
        Differences between two networks of the same specification.
    groups : sequence of hashable, of length n_pairs
        The group of each pair, such as its data set.
    n_groups : int, optional
        Number of groups that the mean difference is over; by default those of the pairs. Groups without pairs are
        assumed to have the average noise of the others.
    n_averaged : int, default=1
        Number of differences that are averaged in each group, for example folds times sizes.
    level : float, default=0.95
        Probability with which the mean difference of identical networks is smaller than the floor, between 0 and 1.

    Returns
    -------
    float
        The floor, on the scale of the differences.

    Notes
    -----
    With the mean square v_g of the differences of each group and its average v over the groups, a mean over G groups
    of averages of m independent differences has the variance ``v / (m G)``, since the two networks of a pair are
    exchangeable and the expected difference is 0. The floor is ``z sqrt(v / (m G))``, where z is the quantile of the
    normal distribution, 1.96 for the level 0.95.

    Examples
    --------
    >>> round(noise_floor([0.01, -0.01, 0.03, -0.03], ["wine", "wine", "adult", "adult"], n_averaged=5), 4)
    0.0139
    """
    values = read_numbers(differences, "differences", min_size=1)
    names, codes = group_codes(groups, len(values))
    squares = np.bincount(codes, weights=values**2) / np.bincount(codes)
    n_groups = len(names) if n_groups is None else check_int(n_groups, "n_groups", 1)
    n_averaged = check_int(n_averaged, "n_averaged", 1)
    z = float(ndtri((1 + check_fraction(level, "level")) / 2))
    return z * sqrt(float(squares.mean()) / (n_averaged * n_groups))
