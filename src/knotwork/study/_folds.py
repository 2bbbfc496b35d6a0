"""Which rows are trained on, stopped by and tested on."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from knotwork._checks import argument_error, check_choice

__all__ = ["SPLITS", "Split", "make_splits"]

SPLITS = {
    "folds": "cross-validation, shuffled, stratified for classes",
    "holdout": "for each seed another 20 % of the rows for the test",
}
VALID_SHARE = 0.1
TEST_SHARE = 0.2

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one fold.

    Parameters
    ----------
    fold : int
        Its number, from 0.
    seed : int
        Its seed.
    train, valid, test : ndarray of int
        Rows to train on, to stop early by, and to test on; none is in two of them.
    """

    fold: int
    seed: int
    train: Rows
    valid: Rows
    test: Rows


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
    check_choice(split, "split", SPLITS)
    least = max(folds, 3) if split == "folds" else 3
    if len(target) < least:
        raise argument_error("folds", "leave rows to train on, to stop by and to test on", folds, "Take more rows.")
    classes = task == "classification"
    out = []
    for fold, (rest, test) in enumerate(_outer(target, classes, folds, seed, split)):
        train, valid = _divide(rest, target, classes, VALID_SHARE, seed + fold)
        out.append(Split(fold, seed + fold, train, valid, test))
    return out


def _outer(target: npt.NDArray[Any], classes: bool, folds: int, seed: int, split: str) -> list[tuple[Rows, Rows]]:
    rows = np.arange(len(target))
    if split == "holdout":
        return [_divide(rows, target, classes, TEST_SHARE, seed + fold) for fold in range(folds)]
    if classes and np.unique(target, return_counts=True)[1].max() >= folds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than folds
            return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(rows, target))
    return list(KFold(folds, shuffle=True, random_state=seed).split(rows))


def _divide(rows: Rows, target: npt.NDArray[Any], classes: bool, share: float, seed: int) -> tuple[Rows, Rows]:
    """Return the rows that stay, and those that are held out."""
    if not classes:
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
