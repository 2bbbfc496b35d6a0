"""Friedman's test, of whether the methods differ at all."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, fdtrc

from knotwork._checks import check_bool
from knotwork.stats._ranking import ranks
from knotwork.stats._scores import read_scores

__all__ = ["FriedmanResult", "friedman"]


@dataclass(frozen=True)
class FriedmanResult:
    """What `friedman` found; the four numbers are None where the test is not defined.

    Attributes
    ----------
    chi2 : float or None
        Friedman's statistic.
    p : float or None
        Its p-value, from the chi-square distribution with k - 1 degrees of freedom.
    F : float or None
        Iman and Davenport's statistic; infinite if all blocks rank the methods alike.
    p_F : float or None
        Its p-value, from the F distribution with k - 1 and (k - 1)(n - 1) degrees of freedom.
    k : int
        Number of methods.
    n : int
        Number of blocks.
    """

    chi2: float | None
    p: float | None
    F: float | None
    p_F: float | None  # noqa: N815 - F is how the statistic is written
    k: int
    n: int

    @property
    def defined(self) -> bool:
        """Whether the test is defined: not if all methods tie in every block and ties are corrected for."""
        return self.chi2 is not None

    def __str__(self) -> str:
        size = f"{self.k} methods, {self.n} blocks"
        if not self.defined:
            return f"Friedman test not defined: all methods tie in every block ({size})"
        return (
            f"Friedman test: chi2 = {self.chi2:.4g}, p = {self.p:.3g}; "
            f"Iman-Davenport F = {self.F:.4g}, p = {self.p_F:.3g} ({size})"
        )


def friedman(scores: npt.ArrayLike, *, tie_correction: bool = True) -> FriedmanResult:
    """Test whether all methods have the same average rank.

    Whether low or high scores are better makes no difference. Where all methods tie in every block there is nothing to
    test: the result then has None for its numbers and ``defined`` is False (without the correction for ties the
    statistic is 0). Missing and infinite scores are refused, and so is a single block.

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)
        One row per block, one column per method; at least 2 of each.
    tie_correction : bool, default=True
        Whether the variance of the ranks is that of the ranks at hand, ties included, as in SciPy and R. Without it,
        it is that of ranks without ties, as in Demsar's formula; the test then finds less than it could.

    Returns
    -------
    FriedmanResult
        Statistics and p-values; ``str`` writes them as a sentence.

    Notes
    -----
    With ranks r_ij of method j = 1..k in block i = 1..n, R_j their sum over the blocks and c = (k + 1) / 2 the mean
    rank, ``chi2 = (k - 1) S / T`` with ``S = sum_j (R_j - n c)^2`` and ``T = sum_ij (r_ij - c)^2``. Without ties T is
    n k (k^2 - 1) / 12, which gives the formula of Demsar (2006), and which is used without `tie_correction`.
    Iman and Davenport's statistic is ``F = (n - 1) chi2 / (n (k - 1) - chi2) = (n - 1) S / (n T - S)``. Doubled ranks
    are integers, so S and T are computed exactly.

    References
    ----------
    J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7. R. L. Iman and J. M.
    Davenport (1980), Approximations of the critical region of the Friedman statistic.

    Examples
    --------
    >>> print(friedman([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]]))
    Friedman test: chi2 = 4.5, p = 0.105; Iman-Davenport F = 3.857, p = 0.0837 (3 methods, 4 blocks)
    """
    table = read_scores(scores, min_blocks=2)
    n, k = table.shape
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
