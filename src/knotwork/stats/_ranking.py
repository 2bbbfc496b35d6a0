"""Ranks of methods within blocks."""

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from knotwork._checks import check_bool
from knotwork.stats._scores import read_scores

__all__ = ["average_ranks", "ranks"]

Floats = npt.NDArray[np.float64]


def ranks(scores: npt.ArrayLike, lower_is_better: bool = True) -> Floats:
    """Rank the methods in each block: 1 is the best, and methods that tie share the average of their ranks.

    Scores tie if they are equal to the last bit; round them first if they are not meant to be that exact. Missing and
    infinite scores are refused.

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)
        One row per block, one column per method; at least 1 block and 2 methods.
    lower_is_better : bool, default=True
        Whether rank 1 goes to the lowest score (errors) or to the highest (accuracies).

    Returns
    -------
    ndarray of shape (n_blocks, n_methods)
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
    """Return the average rank of each method over the blocks; parameters as in `ranks`.

    Returns
    -------
    ndarray of shape (n_methods,)
        Averages of the columns of `ranks`. They do not depend on the order of the blocks, to the last bit.

    Examples
    --------
    >>> average_ranks([[0.3, 0.1, 0.2], [0.5, 0.5, 0.7]])
    array([2.25, 1.25, 2.5 ])
    """
    averages: Floats = ranks(scores, lower_is_better).mean(axis=0)
    return averages
