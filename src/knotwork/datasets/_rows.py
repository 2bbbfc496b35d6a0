"""Which rows of a table are used: those that are complete, and those that are drawn."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error, check_int
from knotwork.errors import ColumnError

__all__ = ["SUBSAMPLE_SEED", "complete_rows", "draw_rows"]

SUBSAMPLE_SEED = 42
"""The study draws rows with this seed, always the same ones."""


def complete_rows(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Return the rows of a table in which no value of `columns` is missing, and a word on how many were removed.

    Examples
    --------
    >>> complete_rows(pd.DataFrame({"x": [1.0, None]}), ["x"])[1]
    '1 of 2 rows removed: values are missing'
    """
    complete = frame[list(columns)].notna().all(axis="columns").to_numpy()
    if complete.all():
        return frame, ""
    if not complete.any():
        fewest = frame[list(columns)].count().idxmin()
        raise ColumnError(
            f"every row has a missing value; column {fewest!r} has the most. Remove that column from the table, or "
            "keep rows with missing values (drop_missing=False)."
        )
    n_removed = int((~complete).sum())
    return frame[complete].reset_index(drop=True), f"{n_removed} of {len(frame)} rows removed: values are missing"


def draw_rows(
    n_rows: int, n_drawn: int, *, labels: npt.ArrayLike | None = None, seed: int = SUBSAMPLE_SEED
) -> npt.NDArray[np.intp]:
    """Draw rows without replacement; they come in ascending order.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_drawn : int
        How many are drawn, at most `n_rows`.
    labels : array-like of shape (n_rows,), optional
        Classes whose shares are kept: each gets the whole part of its share, and those with the largest remainders
        one more.
    seed : int
        Seed of the draw.

    Returns
    -------
    ndarray of shape (n_drawn,)
        Positions of the rows.

    Examples
    --------
    >>> len(draw_rows(100, 10)), draw_rows(4, 2, labels=["a", "a", "b", "b"]) // 2
    (10, array([0, 1]))
    """
    check_int(n_drawn, "n_drawn", 1)
    if n_drawn > n_rows:
        raise argument_error("n_drawn", f"be at most the {n_rows} rows of the table", n_drawn)
    generator = np.random.default_rng(seed)
    codes = np.zeros(n_rows, dtype=np.intp) if labels is None else np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(codes)
    shares, remainders = np.divmod(counts * n_drawn, n_rows)
    largest = np.argsort(-remainders, kind="stable")[: n_drawn - shares.sum()]
    shares[largest] += 1
    drawn = [generator.permutation(np.flatnonzero(codes == code))[:share] for code, share in enumerate(shares.tolist())]
    return np.sort(np.concatenate(drawn))
