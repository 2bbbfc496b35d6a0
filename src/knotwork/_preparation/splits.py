"""Which rows are trained on, stopped by and tested on."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from knotwork._checks import argument_error, check_choice

__all__ = ["SPLITS", "Split", "draw_split", "make_splits", "outer_folds"]

SPLITS = {
    "folds": "cross-validation, shuffled, stratified for classes",
    "holdout": "for each seed another 20 % of the rows for the test",
}
VALID_SHARE = 0.1
TEST_SHARE = 0.2

FEWEST_ROWS = 10
"""With fewer rows than this none are held out by `draw_split`: training stops by the rows it trains on."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one fold.

    Parameters
    ----------
    fold : int
        Its number, from 0.
    seed : int
        Its random seed.
    train, valid, test : ndarray of int
        Rows to train on, to stop early by, and to test on; none is in two of them, but for tables of very few rows.
    known : ndarray of int or None, default=None
        Rows whose categories are known; a category that none of them has counts as unseen. None: all rows.
    """

    fold: int
    seed: int
    train: Rows
    valid: Rows
    test: Rows
    known: Rows | None = None


def make_splits(
    target: npt.NDArray[Any], task: str, *, folds: int = 5, seed: int = 42, split: str = "folds"
) -> list[Split]:
    """Split the rows of a table.

    Classes keep their shares. Of a class too rare for that, rows go to folds as they fall, and a single row of a class
    in the training part stays there.

    Parameters
    ----------
    target : ndarray of shape (n,)
        The target.
    task : {"regression", "classification"}
        What it is.
    folds : int
        How many splits.
    seed : int
        Seed of the folds; fold f has the seed ``seed + f`` for what else is random.
    split : {"folds", "holdout"}
        Kind of split.

    Examples
    --------
    >>> splits = make_splits(np.arange(100.0), "regression")
    >>> len(splits), len(splits[0].train), len(splits[0].valid), len(splits[0].test)
    (5, 72, 8, 20)
    """
    out = []
    for fold, (rest, test) in enumerate(outer_folds(target, task, folds=folds, seed=seed, split=split)):
        train, valid = _divide(rest, target, task, VALID_SHARE, seed + fold)
        out.append(Split(fold, seed + fold, train, valid, test, known=train))
    return out


def outer_folds(
    target: npt.NDArray[Any], task: str, *, folds: int, seed: int, split: str = "folds"
) -> list[tuple[Rows, Rows]]:
    """Return for each fold the rows that are not tested, and those that are; parameters as in `make_splits`."""
    check_choice(split, "split", SPLITS)
    least = max(folds, 3) if split == "folds" else 3
    if len(target) < least:
        raise argument_error("folds", "leave rows to train on, to stop by and to test on", folds, "Take more rows.")
    rows = np.arange(len(target))
    if split == "holdout":
        return [_divide(rows, target, task, TEST_SHARE, seed + fold) for fold in range(folds)]
    if task == "classification" and np.unique(target, return_counts=True)[1].max() >= folds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than folds
            return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(rows, target))
    return list(KFold(folds, shuffle=True, random_state=seed).split(rows))


def draw_split(
    rows: Rows,
    target: npt.NDArray[Any],
    *,
    task: str,
    share: float,
    random: np.random.RandomState,
    n_seeds: int = 1,
) -> tuple[Split, npt.NDArray[np.int64]]:
    """Draw what an estimator draws: random seeds of its networks, and the rows that training is stopped by.

    Classes are held out by their shares, none of them wholly. Of fewer than `FEWEST_ROWS` rows all are in both parts.

    Parameters
    ----------
    rows : ndarray of int
        The rows to divide.
    target : ndarray of shape (n,)
        The target of the whole table.
    task : {"regression", "classification"}
        What it is.
    share : float
        Share of the rows to hold out.
    random : RandomState
        What is drawn from: first the seeds, then the rows.
    n_seeds : int
        Number of seeds.

    Returns
    -------
    split : Split
        Training and validation rows, none to test on; its seed is the first one.
    seeds : ndarray of shape (n_seeds,)
        The seeds.
    """
    seeds = random.randint(2**31 - 1, size=n_seeds)
    held = np.zeros(len(rows), dtype=bool)
    if len(rows) >= FEWEST_ROWS and task == "regression":
        held[random.permutation(len(rows))[: max(round(share * len(rows)), 1)]] = True
    elif len(rows) >= FEWEST_ROWS:
        codes = target[rows]
        for code in np.unique(codes):
            members = random.permutation(np.flatnonzero(codes == code))
            held[members[: min(round(share * len(members)), len(members) - 1)]] = True
    train, valid = (rows[~held], rows[held]) if held.any() else (rows, rows)
    return Split(0, int(seeds[0]), train, valid, rows[:0]), seeds


def _divide(rows: Rows, target: npt.NDArray[Any], task: str, share: float, seed: int) -> tuple[Rows, Rows]:
    """Return the rows that stay, and those that are held out."""
    if task == "regression":
        kept, held = train_test_split(rows, test_size=share, random_state=seed)
        return kept, held
    _, codes, counts = np.unique(target[rows], return_inverse=True, return_counts=True)
    single = counts[codes] < 2
    try:
        kept, held = train_test_split(rows[~single], test_size=share, random_state=seed, stratify=target[rows[~single]])
    except ValueError:  # fewer rows held out than there are classes
        kept, held = train_test_split(rows, test_size=share, random_state=seed)
        return kept, held
    return np.concatenate([kept, rows[single]]), held
