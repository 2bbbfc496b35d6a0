"""A table as the estimators read it, and its folds: what a candidate is trained on is what a saved model would be."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knotwork.basis._blocks import Block
from knotwork.compare._source import Source
from knotwork.encoders._methods import Encoding
from knotwork.estimators._columns import Columns, Table
from knotwork.estimators._preparation import add_indicators, fit_blocks, hold_out
from knotwork.study._folds import make_splits
from knotwork.training._members import Member, TrainingTable

__all__ = ["VALIDATION_SHARE", "Fold", "FoldedTable", "fold_table"]

VALIDATION_SHARE = 0.1
"""Share of a fold's rows that training is stopped by, as in the estimators."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows of one fold, and its seed.

    Parameters
    ----------
    fit : ndarray of int
        Rows that an estimator is fitted on: `train` and `valid`.
    train, valid, test : ndarray of int
        Rows to train on, to stop early by, and to test on.
    seed : int
        Seed of its networks; all candidates have the same.
    """

    fit: Rows
    train: Rows
    valid: Rows
    test: Rows
    seed: int


@dataclass(frozen=True, eq=False)
class FoldedTable:
    """A table and its folds.

    Parameters
    ----------
    table : TrainingTable
        The table, as networks are trained on it.
    test_codes : ndarray of shape (n, n_categorical)
        Its codes as the network of the fold in which a row is tested knows them: 0 for categories that its rows do not
        have.
    folds : tuple of Fold
        The folds; every row is tested in one of them.
    columns : Columns
        What the columns are.
    """

    table: TrainingTable
    test_codes: npt.NDArray[np.int64]
    folds: tuple[Fold, ...]
    columns: Columns

    def fit(self, candidate: Encoding, fold: Fold, *, most: int | None = None) -> tuple[list[Block], float]:
        """Fit the encoding of a candidate on a fold; return the blocks, and the seconds that it took.

        Parameters
        ----------
        candidate : Encoding
            The encoding.
        fold : Fold
            The fold.
        most : int, optional
            Fit on so many of its rows at most.
        """
        started = time.perf_counter()
        rows = fold.train[:most]
        blocks = fit_blocks(
            [candidate] * self.table.numbers.shape[1],
            self.table.numbers[rows],
            self.table.target[rows],
            task=self.table.task,
            weights=None,
            seed=fold.seed % 2**30,
        )
        return blocks, time.perf_counter() - started

    def member(self, candidate: Encoding, fold: Fold, blocks: Sequence[Block]) -> Member:
        """Return the network of a candidate in a fold."""
        return Member(fold.train, fold.valid, blocks, candidate.learnable, fold.seed)


def fold_table(source: Source, *, folds: int, seed: int) -> FoldedTable:
    """Read a table as the estimators do, and split it.

    Parameters
    ----------
    source : Source
        The table.
    folds : int
        Number of folds.
    seed : int
        Fold f is what an estimator with ``random_state=seed + f`` makes of its rows.

    Notes
    -----
    Categories and indicators of missing values are found in all rows, for all networks share one table. An estimator
    that is fitted on a fold alone would not know categories of test rows only: these are tested as unseen. Nor would it
    have an indicator for a column that is complete in its training rows: there, test rows count as complete.
    """
    columns = Columns.from_table(source.features)
    table = columns.read(source.features)
    indicated = np.flatnonzero(np.isnan(table.numbers).any(axis=0)).tolist()
    splits = make_splits(source.target, source.task, folds=folds, seed=seed)
    found = tuple(
        _fold(np.sort(np.concatenate([split.train, split.valid])), split.test, source, seed + split.fold)
        for split in splits
    )
    whole = TrainingTable(
        table.numbers,
        add_indicators(table, indicated),
        source.target,
        source.task,
        (*columns.cardinalities, *[3] * len(indicated)),
        len(source.classes),
    )
    return FoldedTable(whole, _test_codes(table, whole.codes, indicated, found), found, columns)


def _fold(fit: Rows, test: Rows, source: Source, seed: int) -> Fold:
    """Draw what an estimator with this random state draws, in its order."""
    random = np.random.RandomState(seed % 2**32)
    own = int(random.randint(2**31 - 1, size=1)[0])
    train, valid = hold_out(source.target[fit], task=source.task, share=VALIDATION_SHARE, random=random)
    return Fold(fit, fit[train], fit[valid], test, own)


def _test_codes(
    table: Table, codes: npt.NDArray[np.int64], indicated: list[int], folds: Sequence[Fold]
) -> npt.NDArray[np.int64]:
    """Return codes in which test rows have no more than the rows of their fold."""
    out = codes.copy()
    n_categorical = table.codes.shape[1]
    for fold in folds:
        for column in range(n_categorical):
            known = np.isin(codes[fold.test, column], codes[fold.fit, column])
            out[fold.test[~known], column] = 0
        for place, column in enumerate(indicated, start=n_categorical):
            if not np.isnan(table.numbers[fold.train, column]).any():
                out[fold.test, place] = 2
    return out
