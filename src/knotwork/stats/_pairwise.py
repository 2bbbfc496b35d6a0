"""Methods compared in pairs: Wilcoxon's signed-rank test with Holm's correction, and counts of wins."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata, wilcoxon

from knotwork._checks import argument_error, check_bool, check_int
from knotwork.stats._scores import check_not_negative, read_scores

__all__ = ["PairwiseResult", "wilcoxon_holm", "wins"]

Floats = npt.NDArray[np.float64]

_EXACT_UP_TO = 50
"""Differences up to which p-values are exact, as in SciPy."""


@dataclass(frozen=True, eq=False)
class PairwiseResult:
    """What `wilcoxon_holm` found.

    Attributes
    ----------
    p : ndarray of shape (k, k)
        Two-sided p-value of each pair, symmetric, with ones on the diagonal.
    adjusted : ndarray of shape (k, k)
        The same after Holm's correction for the pairs that were compared.
    direction : ndarray of shape (k, k)
        1 where the method of the row is better by its signed ranks, -1 where that of the column is, 0 where neither.
    """

    p: Floats
    adjusted: Floats
    direction: npt.NDArray[np.int64]


def wilcoxon_holm(scores: npt.ArrayLike, lower_is_better: bool = True, *, control: int | None = None) -> PairwiseResult:
    """Compare pairs of methods by Wilcoxon's signed-rank test, corrected by Holm for their number.

    Blocks in which the two methods tie are left out, as Wilcoxon did (SciPy's ``zero_method="wilcox"``); if they tie in
    all, p is 1. Missing and infinite scores are refused, and so is a single block.

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)
        One row per block, one column per method; at least 2 of each.
    lower_is_better : bool, default=True
        Which method is the better one. The p-values do not depend on it, the directions do.
    control : int, optional
        Position of a method with which the others are compared. There are then n_methods - 1 pairs to correct for;
        the p-values of all others are 1. By default, all pairs are compared.

    Returns
    -------
    PairwiseResult
        p-values, adjusted p-values and directions, as matrices of shape (n_methods, n_methods).

    Notes
    -----
    W is the smaller one of the sums of the ranks of positive and of negative differences, ties sharing the average.
    Where up to 50 blocks remain, ``p = min(1, 2 P(W' <= W))`` is exact, with W' the sum of the same ranks, each taken
    or left with probability 1/2; SciPy gives the same without ties, and with ties for up to 13 blocks, beyond which it
    goes over to the normal approximation. With more than 50 blocks p is SciPy's approximation.
    Holm: with p_(1) <= ... <= p_(M) over the M pairs, the adjusted values are
    ``max_{i <= j} min(1, (M - i + 1) p_(i))``.

    Examples
    --------
    >>> result = wilcoxon_holm([[1, 2], [1, 3], [1, 4], [1, 5], [1, 6]])
    >>> float(result.adjusted[0, 1]), int(result.direction[0, 1])
    (0.0625, 1)
    """
    table = read_scores(scores, min_blocks=2)
    signed = -table if check_bool(lower_is_better, "lower_is_better") else table
    k = table.shape[1]
    if control is not None and not 0 <= check_int(control, "control", 0) < k:
        raise argument_error("control", f"be the position of one of the {k} methods", control)
    pairs = [pair for pair in combinations(range(k), 2) if control is None or control in pair]
    first, second = np.array(pairs).T
    found = [_signed_rank(signed[:, i] - signed[:, j]) for i, j in zip(first, second, strict=True)]
    p_values = np.array([p for p, _ in found])
    p, adjusted, direction = np.ones((k, k)), np.ones((k, k)), np.zeros((k, k), dtype=np.int64)
    p[first, second] = p[second, first] = p_values
    adjusted[first, second] = adjusted[second, first] = _holm(p_values)
    direction[first, second] = [sign for _, sign in found]
    return PairwiseResult(p, adjusted, direction - direction.T)


def _signed_rank(differences: Floats) -> tuple[float, int]:
    """Return the two-sided p-value of differences of shape (n,), and the sign of the sum of their signed ranks."""
    rest = differences[differences != 0]
    if rest.size == 0:
        return 1.0, 0
    doubled = np.rint(2 * rankdata(np.abs(rest))).astype(np.int64)
    positive, negative = int(doubled[rest > 0].sum()), int(doubled[rest < 0].sum())
    exact = rest.size <= _EXACT_UP_TO
    p = _exact_p(doubled, min(positive, negative)) if exact else float(wilcoxon(rest).pvalue)
    return p, int(np.sign(positive - negative))


def _exact_p(terms: npt.NDArray[np.int64], smaller: int) -> float:
    """Return twice the probability that a sum over `terms`, each taken or left at even odds, is at most `smaller`."""
    chances = np.zeros(smaller + 1)
    chances[0] = 1.0
    for term in terms.tolist():
        taken = chances[: max(0, len(chances) - term)] / 2
        chances /= 2
        chances[len(chances) - len(taken) :] += taken
    return min(1.0, 2 * float(chances.sum()))


def _holm(p_values: Floats) -> Floats:
    """Return p-values of shape (m,) as adjusted by Holm, in their order."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(factors * p_values[order]))
    return adjusted


def wins(scores: npt.ArrayLike, *, lower_is_better: bool = True, tolerance: float = 0.0) -> npt.NDArray[np.int64]:
    """Count for each pair of methods the blocks that one wins, ties and loses against the other.

    Missing and infinite scores are refused.

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)
        One row per block, one column per method; at least 1 block and 2 methods.
    lower_is_better : bool, default=True
        Whether the lower score wins.
    tolerance : float, default=0.0
        Scores that differ by at most this, in units of the score, are a tie.

    Returns
    -------
    ndarray of shape (n_methods, n_methods, 3)
        ``[i, j]`` holds the blocks that i wins, ties and loses against j; their sum is the number of blocks.

    Examples
    --------
    >>> wins([[0.1, 0.2], [0.1, 0.3], [0.2, 0.2]])[0, 1]
    array([2, 1, 0])
    """
    table = read_scores(scores)
    signed = -table if check_bool(lower_is_better, "lower_is_better") else table
    tolerance = check_not_negative(tolerance, "tolerance")
    lead = signed[:, :, None] - signed[:, None, :]
    won = np.count_nonzero(lead > tolerance, axis=0)
    return np.stack([won, len(table) - won - won.T, won.T], axis=-1)
