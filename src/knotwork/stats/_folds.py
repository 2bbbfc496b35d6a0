"""Methods compared over the folds of one data set, whose training rows overlap."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from knotwork._checks import check_bool
from knotwork.stats._pairwise import _holm
from knotwork.stats._scores import check_fraction, check_not_negative, read_scores

__all__ = ["FoldComparison", "compare_folds"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FoldComparison:
    """What `compare_folds` found.

    Attributes
    ----------
    best : int
        Position of the method with the best mean.
    mean : ndarray of shape (n_methods,)
        Mean scores.
    difference : ndarray of shape (n_methods,)
        By how much each method is worse than the best, on average; 0 for the best itself.
    low, high : ndarray of shape (n_methods,)
        Ends of the interval of each difference.
    p, adjusted : ndarray of shape (n_methods,)
        Two-sided p-value of each difference, and the same after Holm's correction; 1 for the best itself.
    level : float
        Confidence level of the intervals.
    """

    best: int
    mean: Floats
    difference: Floats
    low: Floats
    high: Floats
    p: Floats
    adjusted: Floats
    level: float


def compare_folds(
    scores: npt.ArrayLike, *, test_to_train: float, level: float = 0.95, lower_is_better: bool = True
) -> FoldComparison:
    """Compare every method with the best one by the corrected resampled t-test, paired over folds.

    Missing and infinite scores are refused, and so is a single fold. Where a difference is the same in all folds, its
    interval has no width, and p is 0 (1 if the difference is nothing).

    Parameters
    ----------
    scores : array-like of shape (n_folds, n_methods)
        One row per fold, one column per method; at least 2 of each.
    test_to_train : float
        Rows of a test part over rows of its training part: ``1 / (n_folds - 1)`` in cross-validation.
    level : float, default=0.95
        Confidence level of each interval, between 0 and 1.
    lower_is_better : bool, default=True
        Whether low scores are good.

    Returns
    -------
    FoldComparison
        Differences from the best, their intervals and p-values.

    Notes
    -----
    Nadeau and Bengio (2003): with the mean d and the variance s^2 (n - 1) of k differences,
    ``t = d / sqrt((1/k + r) s^2)`` with k - 1 degrees of freedom, where r is `test_to_train`. The plain paired t-test
    is r = 0; it takes folds for independent, though they share training rows, and finds differences that are none.
    p-values are adjusted by Holm for the n_methods - 1 comparisons. The best method is chosen by the same scores, so
    differences from it are a little too large.

    Examples
    --------
    >>> found = compare_folds([[1.0, 2.0], [1.1, 2.2], [0.9, 2.1]], test_to_train=0.5)
    >>> found.best, found.difference.round(2)
    (0, array([0. , 1.1]))
    """
    table = read_scores(scores, min_blocks=2)
    level, ratio = check_fraction(level, "level"), check_not_negative(test_to_train, "test_to_train")
    worse = table if check_bool(lower_is_better, "lower_is_better") else -table
    n_folds, n_methods = table.shape
    best = int(worse.mean(axis=0).argmin())
    away = worse - worse[:, [best]]
    difference = away.mean(axis=0)
    error = np.sqrt((1 / n_folds + ratio) * away.var(axis=0, ddof=1))
    half = error * student.ppf((1 + level) / 2, n_folds - 1)
    p = np.where(difference == 0, 1.0, 0.0)
    spread = error > 0
    p[spread] = 2 * student.sf(np.abs(difference[spread]) / error[spread], n_folds - 1)
    others = np.arange(n_methods) != best
    adjusted = np.ones(n_methods)
    adjusted[others] = _holm(p[others])
    return FoldComparison(
        best, table.mean(axis=0), difference, difference - half, difference + half, p, adjusted, level
    )
