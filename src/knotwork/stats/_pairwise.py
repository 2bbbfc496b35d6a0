"""Methods compared in pairs: Wilcoxon's signed-rank test, counts of wins, and the t-test over folds."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata, wilcoxon
from scipy.stats import t as student

from knotwork._checks import argument_error, check_bool, check_int
from knotwork.stats._scores import Floats, check_fraction, check_not_negative, read_numbers, read_scores

_EXACT_UP_TO = 50
"""Number of differences up to which p-values are exact, as in SciPy."""


@dataclass(frozen=True, eq=False)
class PairwiseResult:
    """The result of `wilcoxon_holm`.

    Attributes
    ----------
    p : ndarray of shape (k, k)
        Two-sided p-value of each pair; symmetric, with ones on the diagonal.
    adjusted : ndarray of shape (k, k)
        The p-values after Holm's correction for the number of pairs.
    direction : ndarray of shape (k, k)
        1 where the signed ranks favour the row's method, -1 where they favour the column's, 0 where neither.
    """

    p: Floats
    adjusted: Floats
    direction: npt.NDArray[np.int64]


def wilcoxon_holm(scores: npt.ArrayLike, lower_is_better: bool = True, *, control: int | None = None) -> PairwiseResult:
    """Compare pairs of methods by Wilcoxon's signed-rank test with Holm's correction.

    Problems in which the two methods tie are dropped (SciPy's ``zero_method="wilcox"``); if they tie in all problems, p
    is 1. Missing and infinite scores and a single problem raise an error.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 2 of each.
    lower_is_better : bool, default=True
        Whether low scores are good. The directions depend on it, the p-values do not.
    control : int, optional
        Position of the method that the others are compared with: the correction is then for n_methods - 1 pairs, and
        the p-values of all other pairs are 1. By default, all pairs are compared.

    Returns
    -------
    PairwiseResult
        p-values, adjusted p-values and directions, as matrices of shape (n_methods, n_methods).

    Notes
    -----
    W is the smaller of two sums: the ranks of positive and of negative differences, where ties share the average rank.
    With up to 50 remaining problems, ``p = min(1, 2 P(W' <= W))`` is exact, where W' is the sum of a random subset of
    the same ranks, each included with probability 1/2. SciPy gives the same value without ties, and with ties for up to
    13 problems. With more than 50 problems, p is SciPy's normal approximation. The smallest p-value that n problems can
    give is ``2 ** (1 - n)``: with M pairs, none is significant at 0.05 unless ``M * 2 ** (1 - n)`` is below 0.05.
    `holm` corrects for the number of pairs.

    Examples
    --------
    >>> result = wilcoxon_holm([[1, 2], [1, 3], [1, 4], [1, 5], [1, 6]])
    >>> float(result.adjusted[0, 1]), int(result.direction[0, 1])
    (0.0625, 1)
    """
    table = read_scores(scores, min_problems=2)
    signed = -table if check_bool(lower_is_better, "lower_is_better") else table
    k = table.shape[1]
    if control is not None:
        _check_place(control, "control", k)
    pairs = [pair for pair in combinations(range(k), 2) if control is None or control in pair]
    first, second = np.array(pairs).T
    tests = [_signed_rank(signed[:, i] - signed[:, j]) for i, j in zip(first, second, strict=True)]
    p_values = np.array([p for p, _ in tests])
    p, adjusted, direction = np.ones((k, k)), np.ones((k, k)), np.zeros((k, k), dtype=np.int64)
    p[first, second] = p[second, first] = p_values
    adjusted[first, second] = adjusted[second, first] = holm(p_values)
    direction[first, second] = [sign for _, sign in tests]
    return PairwiseResult(p, adjusted, direction - direction.T)


def _signed_rank(differences: Floats) -> tuple[float, int]:
    """Return the two-sided p-value of differences of shape (n,), and the sign of the sum of their signed ranks."""
    rest = differences[differences != 0]
    if rest.size == 0:
        return 1.0, 0
    # Averages of tied ranks are multiples of one half: doubled, they are exact as integers.
    doubled = np.rint(2 * rankdata(np.abs(rest))).astype(np.int64)
    positive, negative = int(doubled[rest > 0].sum()), int(doubled[rest < 0].sum())
    exact = rest.size <= _EXACT_UP_TO
    p = _exact_p(doubled, min(positive, negative)) if exact else float(wilcoxon(rest).pvalue)
    return p, int(np.sign(positive - negative))


def _exact_p(terms: npt.NDArray[np.int64], smaller: int) -> float:
    """Return twice the probability that the sum of a random subset of `terms` is at most `smaller`, at most 1."""
    chances = np.zeros(smaller + 1)
    chances[0] = 1.0
    for term in terms.tolist():
        taken = chances[: max(0, len(chances) - term)] / 2
        chances /= 2
        chances[len(chances) - len(taken) :] += taken
    return min(1.0, 2 * float(chances.sum()))


def _check_place(value: int, name: str, n_methods: int) -> int:
    if not 0 <= check_int(value, name, 0) < n_methods:
        raise argument_error(name, f"be the position of one of the {n_methods} methods", value)
    return value


def holm(p_values: npt.ArrayLike) -> Floats:
    """Correct the p-values of several tests by Holm's procedure, which controls their family-wise error rate.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        p-values, from 0 to 1.

    Returns
    -------
    ndarray of shape (n_tests,)
        Adjusted p-values in the given order: with p_(1) <= ... <= p_(n), ``max_{i <= j} min(1, (n - i + 1) p_(i))``. If
        those below 0.05 count as significant, the probability of one false result or more is at most 0.05.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = read_numbers(p_values, "p_values", min_size=1)
    if values.min() < 0 or values.max() > 1:
        raise argument_error("p_values", "be between 0 and 1", values.tolist())
    order = np.argsort(values, kind="stable")
    factors = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(factors * values[order]))
    return adjusted


def wins(scores: npt.ArrayLike, *, lower_is_better: bool = True, tolerance: float = 0.0) -> npt.NDArray[np.int64]:
    """Count for each pair of methods the problems in which the first wins, ties and loses.

    Missing and infinite scores raise an error.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 1 problem and 2 methods.
    lower_is_better : bool, default=True
        Whether the lower score wins.
    tolerance : float, default=0.0
        Scores that differ by at most this much count as a tie.

    Returns
    -------
    ndarray of shape (n_methods, n_methods, 3)
        ``[i, j]`` holds the numbers of problems that i wins, ties and loses against j.

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


@dataclass(frozen=True, eq=False)
class FoldComparison:
    """The result of `compare_folds`.

    Attributes
    ----------
    best : int
        Position of the method with the best mean.
    reference : int
        Position of the method that the others are compared with.
    mean : ndarray of shape (n_methods,)
        Mean scores.
    difference : ndarray of shape (n_methods,)
        Mean amount by which each method is worse than the reference; 0 for the reference itself.
    low, high : ndarray of shape (n_methods,)
        Ends of the confidence interval of each difference.
    p, adjusted : ndarray of shape (n_methods,)
        Two-sided p-value of each difference, before and after the correction for the number of comparisons; 1 for the
        reference itself.
    level : float
        Confidence level of the intervals.
    """

    best: int
    reference: int
    mean: Floats
    difference: Floats
    low: Floats
    high: Floats
    p: Floats
    adjusted: Floats
    level: float


def compare_folds(
    scores: npt.ArrayLike,
    *,
    test_to_train: float,
    level: float = 0.95,
    lower_is_better: bool = True,
    reference: int | None = None,
    simultaneous: bool = False,
) -> FoldComparison:
    """Compare every method with one of them, by default the best, by the corrected resampled t-test over folds.

    Missing and infinite scores and a single fold raise an error. If a difference is the same in all folds, its interval
    has no width, and p is 0 (1 if the difference is 0).

    Parameters
    ----------
    scores : array-like of shape (n_folds, n_methods)
        One row per fold, one column per method; at least 2 of each.
    test_to_train : float
        Number of test rows divided by number of training rows: ``1 / (n_folds - 1)`` in cross-validation.
    level : float, default=0.95
        Confidence level of the intervals, between 0 and 1.
    lower_is_better : bool, default=True
        Whether low scores are good.
    reference : int, optional
        Position of the method that the others are compared with; by default the best.
    simultaneous : bool, default=False
        Whether the level holds for all intervals together. Then intervals and adjusted p-values belong to one
        procedure: an interval excludes 0 exactly if its adjusted p-value is smaller than ``1 - level``. Otherwise each
        interval has the level by itself, and p-values have Holm's correction.

    Returns
    -------
    FoldComparison
        Differences from the reference, their intervals and p-values.

    Notes
    -----
    Nadeau and Bengio (2003): for k folds, ``t = d / sqrt((1/k + r) s^2)`` with k - 1 degrees of freedom, where d and
    s^2 are mean and sample variance of the k differences and r is `test_to_train`. The plain paired t-test is r = 0; it
    treats folds as independent although they share training rows, and reports too many differences as significant. The
    correction is for c = n_methods - 1 comparisons. Simultaneous ones follow Sidak (1967): each interval has the level
    ``level ** (1 / c)``, and the adjusted p-value is ``1 - (1 - p) ** c``. If the reference is chosen by the same
    scores, as the best method is, differences from it are slightly too large.

    Examples
    --------
    >>> comparison = compare_folds([[1.0, 2.0], [1.1, 2.2], [0.9, 2.1]], test_to_train=0.5)
    >>> comparison.best, comparison.difference.round(2)
    (0, array([0. , 1.1]))
    """
    table = read_scores(scores, min_problems=2)
    level, ratio = check_fraction(level, "level"), check_not_negative(test_to_train, "test_to_train")
    worse = table if check_bool(lower_is_better, "lower_is_better") else -table
    n_folds, n_methods = table.shape
    best = int(worse.mean(axis=0).argmin())
    base = best if reference is None else _check_place(reference, "reference", n_methods)
    gaps = worse - worse[:, [base]]
    difference = gaps.mean(axis=0)
    error = np.sqrt((1 / n_folds + ratio) * gaps.var(axis=0, ddof=1))
    p = np.where(difference == 0, 1.0, 0.0)
    varies = error > 0
    p[varies] = 2 * student.sf(np.abs(difference[varies]) / error[varies], n_folds - 1)
    others = np.arange(n_methods) != base
    adjusted, single = np.ones(n_methods), level
    if check_bool(simultaneous, "simultaneous"):
        single = level ** (1 / (n_methods - 1))
        with np.errstate(divide="ignore"):  # Sidak's 1 - (1 - p) ** c, accurate for small p
            adjusted[others] = -np.expm1((n_methods - 1) * np.log1p(-p[others]))
    else:
        adjusted[others] = holm(p[others])
    half = error * student.ppf((1 + single) / 2, n_folds - 1)
    return FoldComparison(
        best, base, table.mean(axis=0), difference, difference - half, difference + half, p, adjusted, level
    )
