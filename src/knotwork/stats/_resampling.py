"""Bootstrap confidence intervals of average ranks and of rank correlations."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from knotwork._checks import argument_error, check_int
from knotwork.stats._problems import group_codes
from knotwork.stats._ranking import ranks
from knotwork.stats._scores import Floats, check_fraction, read_numbers, read_scores

_MAX_DRAWS = 1 << 20
"""Maximum number of random numbers that are drawn at a time, which bounds the memory."""


@dataclass(frozen=True, eq=False)
class RankIntervals:
    """The result of `bootstrap_ranks`.

    Attributes
    ----------
    mean : ndarray of shape (n_methods,)
        Average ranks over the given problems.
    low, high : ndarray of shape (n_methods,)
        Ends of the confidence intervals.
    level : float
        Confidence level of the intervals.
    """

    mean: Floats
    low: Floats
    high: Floats
    level: float


@dataclass(frozen=True)
class CorrelationInterval:
    """The result of `spearman`.

    Attributes
    ----------
    rho : float
        Rank correlation of the given values.
    low, high : float
        Ends of the confidence interval.
    level : float
        Confidence level of the interval.
    n : int
        Number of pairs of values.
    n_undefined : int
        Number of resamples that were dropped because one of the two lists was constant.
    """

    rho: float
    low: float
    high: float
    level: float
    n: int
    n_undefined: int


def bootstrap_ranks(
    scores: npt.ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    n_resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
    lower_is_better: bool = True,
) -> RankIntervals:
    """Return average ranks with percentile intervals, from problems resampled with replacement.

    Whole problems are resampled, so the scores of one problem stay together. Problems are assumed to be independent. If
    several share a data set, they are not: then pass the data sets as `groups`, so that the problems of a data set stay
    together as well. Missing and infinite scores and a single problem or group raise an error.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method; at least 2 of each.
    groups : sequence of hashable of length n_problems, optional
        The group of each problem; groups are drawn with replacement, each with all its problems. By default each
        problem is drawn by itself.
    n_resamples : int, default=10_000
        Number of resamples; each has the original number of problems or groups.
    level : float, default=0.95
        Confidence level of each interval, between 0 and 1.
    seed : int, default=0
        Random seed; the same seed gives the same intervals.
    lower_is_better : bool, default=True
        As in `ranks`.

    Returns
    -------
    RankIntervals
        Average ranks and their intervals.

    Examples
    --------
    >>> intervals = bootstrap_ranks([[1, 2, 3], [1, 3, 2], [1, 2, 3]])
    >>> intervals.low[0], intervals.high[0]
    (np.float64(1.0), np.float64(1.0))
    """
    table = ranks(read_scores(scores, min_problems=2), lower_is_better)
    level = check_fraction(level, "level")
    names, codes = group_codes(range(len(table)) if groups is None else groups, len(table))
    n = len(names)
    if n < 2:
        raise argument_error("groups", "have at least 2 different entries", names)
    sums, sizes = np.zeros((n, table.shape[1])), np.bincount(codes)
    np.add.at(sums, codes, table)
    draws = (rng.multinomial(n, np.full(n, 1 / n), size=size) for rng, size in _chunks(n_resamples, n, seed))
    means = np.concatenate([(counts @ sums) / (counts @ sizes)[:, None] for counts in draws])
    low, high = _ends(means, level)
    return RankIntervals(table.mean(axis=0), low, high, level)


def spearman(
    a: npt.ArrayLike, b: npt.ArrayLike, *, n_resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> CorrelationInterval:
    """Return Spearman's rank correlation of two lists, with a percentile interval from resampled pairs.

    Ties share the average of their ranks. A constant list has no rank correlation and raises an error; resamples in
    which a list is constant are dropped and counted.

    Parameters
    ----------
    a, b : array-like of shape (n,)
        Paired values, such as average ranks of the same methods in two studies; n is at least 3.
    n_resamples : int, default=10_000
        Number of resamples, each of n pairs.
    level : float, default=0.95
        Confidence level of the interval, between 0 and 1.
    seed : int, default=0
        Random seed; the same seed gives the same interval.

    Returns
    -------
    CorrelationInterval
        The correlation and its interval.

    Examples
    --------
    >>> spearman([1, 2, 3, 4], [10, 20, 30, 40]).rho
    1.0
    """
    pairs = _read_pairs(a, b)
    level = check_fraction(level, "level")
    n = pairs.shape[1]
    draws = (rng.integers(0, n, size=(size, n)) for rng, size in _chunks(n_resamples, n, seed))
    drawn = np.concatenate([_rank_correlations(pairs[:, chosen]) for chosen in draws])
    defined = drawn[~np.isnan(drawn)]
    if defined.size == 0:
        raise argument_error("n_resamples", "give a resample that is not constant", n_resamples, "Increase it.")
    low, high = _ends(defined, level)
    rho = _rank_correlations(pairs[:, None])[0]
    return CorrelationInterval(float(rho), float(low), float(high), level, n, int(drawn.size - defined.size))


def _read_pairs(a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    pairs = {name: read_numbers(values, name, min_size=3) for name, values in (("a", a), ("b", b))}
    if len(pairs["a"]) != len(pairs["b"]):
        raise argument_error("b", f"have as many values as a, {len(pairs['a'])}", pairs["b"].tolist())
    for name, values in pairs.items():
        if np.ptp(values) == 0:
            raise argument_error(name, "have at least two different values", values.tolist())
    return np.stack(list(pairs.values()))


def _rank_correlations(pairs: Floats) -> Floats:
    """Return the rank correlations of pairs of shape (2, m, n), of shape (m,); NaN where one side is constant."""
    a, b = np.asarray(rankdata(pairs, axis=-1), dtype=np.float64) - (pairs.shape[-1] + 1) / 2
    products, squares = np.sum(a * b, axis=-1), np.sum(a * a, axis=-1) * np.sum(b * b, axis=-1)
    correlations = np.full(len(squares), np.nan)
    np.divide(products, np.sqrt(squares), out=correlations, where=squares > 0)
    return correlations


def _ends(values: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the two percentiles of values of shape (m, ...) that enclose the share `level`."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def _chunks(n_resamples: int, n: int, seed: int) -> Iterator[tuple[np.random.Generator, int]]:
    """Yield the generator and numbers of resamples that add up to `n_resamples`, with a bounded number of draws."""
    generator = np.random.default_rng(check_int(seed, "seed", 0))
    most = max(1, _MAX_DRAWS // n)
    for start in range(0, check_int(n_resamples, "n_resamples", 1), most):
        yield generator, min(most, n_resamples - start)
