"""A table prepared for training: the rows of each fold, encodings fitted on its training rows, and members."""

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from knotwork._checks import argument_error, check_choice
from knotwork._loops import usable_cores
from knotwork._preparation.columns import known_codes
from knotwork.basis import FittedColumn, FloatArray
from knotwork.encoders import Encoder, Encoding, SplineEncoder, rank_pairs
from knotwork.knots import (
    PLACEMENTS,
    Column,
    Target,
    TreePlacement,
    complete,
    select_spaced,
    to_usual_range,
    usual_range_of,
)
from knotwork.nn import InteractionConfig
from knotwork.training import FLAGS, Member, TrainingTable

SPLITS = {
    "folds": "cross-validation, shuffled, stratified for classes",
    "holdout": "for each seed another 20 % of the rows for the test",
}
MISSING_NUMBERS = ("zeros", "learned")
"""What networks receive in place of a missing number."""

VALID_SHARE = 0.1
TEST_SHARE = 0.2

STRONG_PAIR = 0.5
"""Pairs of a network stand out with at least this share of the best one's gain: others it models as well without."""


@dataclass(frozen=True)
class ThreadRule:
    """When the columns of a table are fitted side by side.

    Parameters
    ----------
    large : int
        In tables of at least this many numbers: one thread fits smaller ones in a moment.
    most : int
        Maximum number of threads, a convention.
    most_numbers : int
        Numbers in the columns of all threads at most: each takes about 50 bytes, together 1.6 GiB.
    """

    large: int = 1 << 22
    most: int = 8
    most_numbers: int = 1 << 25


THREADS = ThreadRule()

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
        Rows for training, for early stopping and for the test; they are disjoint except in tables of very few rows.
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

    Classes keep their shares. Rows of a class too rare for that go to any fold, and a single row of a class
    in the training part stays there.

    Parameters
    ----------
    target : ndarray of shape (n,)
        The target.
    task : {"regression", "classification"}
        What it is.
    folds : int
        Number of splits.
    seed : int
        Seed of the folds; fold f has the seed ``seed + f`` for everything else that is random.
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


IntArray = npt.NDArray[np.int64]

N_FLAGS = 1 + len(FLAGS)
"""Number of codes of an indicator of missing values; 0 is not used."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The encoding of every numerical column.

    Parameters
    ----------
    encodings : list of FittedColumn
        One for each column.
    seconds : float
        Seconds that fitting took, trees that other encodings share included.
    versions : dict of str to str
        Versions of the software that fitted it, if they are recorded.
    chosen : tuple of str
        Encodings of the columns, if training rows have chosen them.
    pairs : tuple of pair of int
        Pairs of columns, if training rows have decided which interact.
    """

    encodings: list[FittedColumn]
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table as networks take it in several folds.

    Parameters
    ----------
    table : TrainingTable
        The table, with an indicator of missing values after the categories for each indicated column. Where folds know
        different categories, its rows are repeated, once for every coding.
    splits : tuple of Split
        The folds, as rows of this table.
    indicated : tuple of int
        Numerical columns that are missing in some training row.
    missing : {"zeros", "learned"}, default="zeros"
        What networks receive in place of a missing number: zeros, or a learned vector.
    summaries : tuple of Column, optional
        Each numerical column in all training rows, if the table has a sample of them.
    """

    table: TrainingTable
    splits: tuple[Split, ...]
    indicated: tuple[int, ...]
    missing: str = "zeros"
    summaries: tuple[Column, ...] | None = None

    @classmethod
    def from_table(cls, table: TrainingTable, splits: Sequence[Split]) -> Self:
        """Prepare a table for folds.

        A fold knows the categories of its `known` rows, numbered from 1 in their order; any other has the code 0. A
        column that is complete in its training rows counts as complete in all rows: no network of this fold could learn
        what a missing value means. Folds that know all rows belong to one fit, and have the same complete columns.

        `table` has the codes of all categories; `splits` are rows of it.
        """
        missing = np.isnan(table.numbers)
        in_training = np.array([missing[split.train].any(axis=0) for split in splits])
        in_any: npt.NDArray[np.bool_] = np.any(in_training, axis=0)
        indicated = np.flatnonzero(in_any)
        codings: list[IntArray] = []
        moved = []
        for split, in_fold in zip(splits, in_training, strict=True):
            seen = (in_any if split.known is None else in_fold)[indicated]
            codes = table.codes if split.known is None else known_codes(table.codes, split.known)
            codes = add_indicators(np.where(seen, table.numbers[:, indicated], 0.0), codes, range(len(indicated)))
            place = next((place for place, coding in enumerate(codings) if np.array_equal(codes, coding)), len(codings))
            if place == len(codings):
                codings.append(codes)
            start = place * len(codes)
            rows = {name: getattr(split, name) + start for name in ("train", "valid", "test")}
            moved.append(replace(split, **rows, known=None))
        times = len(codings)
        whole = replace(
            table,
            numbers=np.tile(table.numbers, (times, 1)),
            codes=np.concatenate(codings),
            target=np.concatenate([table.target] * times),
            cardinalities=(*table.cardinalities, *[N_FLAGS] * len(indicated)),
            weights=None if table.weights is None else np.tile(table.weights, times),
        )
        return cls(whole, tuple(moved), tuple(indicated.tolist()))

    def fit(
        self, candidates: Sequence[Sequence[Encoding]], split: Split, *, most_rows: int | None = None
    ) -> list[Fitted]:
        """Fit candidates, each an encoding for every numerical column, on the training rows of a fold."""
        table, rows = self.table, split.train[:most_rows]
        weights = None if table.weights is None else table.weights[rows]
        return fit_encodings(
            candidates,
            table.numbers[rows],
            _one_target(table.target[rows]),
            task=table.task,
            weights=weights,
            seed=split.seed % 2**30,
            summaries=self.summaries,
        )

    def fit_folds(self, candidates: Sequence[Sequence[Encoding]]) -> list[list[list[FittedColumn]]]:
        """Return the fitted columns of every candidate in every fold.

        Where the folds divide all rows of the table, encodings that need no target are fitted once, on all rows. Others
        are fitted on the training rows of each fold, so that they do not know the target of its validation rows, nor,
        where folds follow the time, later rows.
        """
        shared = len(self.splits) > 1 and self._divides_all
        by_fold = [not shared or any(encoding.kind.supervised for encoding in each) for each in candidates]
        once = [candidate for candidate, in_folds in zip(candidates, by_fold, strict=True) if not in_folds]
        others = [candidate for candidate, in_folds in zip(candidates, by_fold, strict=True) if in_folds]
        everything = replace(self.splits[0], train=np.arange(len(self.table.target)))
        fitted_once = iter(self.fit(once, everything) if once else [])
        fitted = [iter(self.fit(others, split)) for split in self.splits] if others else []
        return [
            [next(fold).encodings for fold in fitted] if in_folds else [next(fitted_once).encodings] * len(self.splits)
            for in_folds in by_fold
        ]

    def fold_pairs(self, interactions: InteractionConfig | None) -> list[InteractionConfig | None]:
        """Return the interactions of every fold; its training rows decide the pairs, the same number in all folds."""
        first = self.with_pairs(interactions, self.splits[0])
        if interactions is None or first is None:
            return [None] * len(self.splits)
        counted = interactions if isinstance(interactions.pairs, tuple) else replace(interactions, pairs=first.shape[0])
        return [first, *(self.with_pairs(counted, split) for split in self.splits[1:])]

    def with_pairs(self, interactions: InteractionConfig | None, split: Split) -> InteractionConfig | None:
        """Return interactions with the places of their pairs, which the training rows of a fold decide."""
        if interactions is None or isinstance(interactions.pairs, tuple):
            return interactions
        table, rows = self.table, split.train
        goal = Target.from_values(_one_target(table.target[rows]), table.task)
        weights = None if table.weights is None else table.weights[rows]
        ranked = rank_pairs(table.numbers[rows], goal, weights=weights, seed=split.seed % 2**30)
        n_pairs = None if interactions.pairs == "auto" else interactions.pairs
        places = ranked.best(n_pairs, least_share=STRONG_PAIR).places
        return replace(interactions, pairs=tuple((first, second) for first, second in places.tolist()))

    @property
    def _divides_all(self) -> bool:
        """Whether every row is a validation row of one fold, and a training row of all others."""
        n_rows = len(self.table.target)
        held = np.concatenate([split.valid for split in self.splits])
        trains = all(len(split.train) + len(split.valid) == n_rows for split in self.splits)
        return trains and np.array_equal(np.sort(held), np.arange(n_rows))

    def member(
        self, candidate: Sequence[Encoding], split: Split, encodings: Sequence[FittedColumn], *, seed: int | None = None
    ) -> Member:
        """Return the network of a candidate on a fold; by default with the random seed of the fold."""
        learnable = any(encoding.learnable for encoding in candidate)
        return Member(
            split.train,
            split.valid,
            encodings,
            learnable,
            split.seed if seed is None else int(seed),
            embedding=candidate[0].embedding if len(encodings) else None,
            learned_missing=self.missing == "learned" and bool(self.indicated),
        )


def _one_target(target: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a target of shape (n,) that knots can be placed by: of several, their first principal component."""
    if target.ndim == 1:
        return target
    scaled = target / np.maximum(np.abs(target).max(axis=0), 1e-300)
    spread = scaled.std(axis=0)
    scaled = (scaled - scaled.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    direction = np.linalg.eigh(scaled.T @ scaled)[1][:, -1]
    component: npt.NDArray[Any] = scaled @ direction
    return component


def add_indicators(numbers: FloatArray, codes: IntArray, indicated: Sequence[int]) -> IntArray:
    """Return codes with an indicator of missing values after them for each indicated numerical column."""
    missing = np.isnan(numbers[:, list(indicated)])
    return np.concatenate([codes, np.where(missing, *FLAGS).astype(np.int64)], axis=1)


@final
class _SharedTrees:
    """A placement whose trees are grown once for one column, for any number of knots."""

    supervised = True

    def __init__(self, placement: TreePlacement) -> None:
        self.placement = placement
        self.grown: tuple[FloatArray, FloatArray] | None = None
        self.seconds = 0.0

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots."""
        if self.grown is None:
            started = time.perf_counter()
            self.grown = self.placement.thresholds(column, target, seed)
            self.seconds = time.perf_counter() - started
        chosen = select_spaced(*self.grown, column, n_knots, self.placement.min_spacing)
        return complete(chosen, column, n_knots)


def fit_encodings(
    candidates: Sequence[Sequence[Encoding]],
    numbers: FloatArray,
    target: npt.NDArray[Any],
    *,
    task: str,
    weights: FloatArray | None = None,
    seed: int = 0,
    summaries: Sequence[Column] | None = None,
) -> list[Fitted]:
    """Fit the encodings of several candidates, column by column, so that trees are grown once for all of them.

    The range of splines and PLE is the `usual_range` of the column: values that lie far out are moved to its ends, here
    and in the network, to which values outside of the range are those at its ends. What is only scaled stays as it is.

    A candidate has an encoding for every column; with learned knots, where they start. `numbers`, of shape (n, d), are
    training rows; column j has the random seed ``seed + j``. `summaries` are the columns in all rows, of which these
    are a sample: encodings without a target are fitted to them.
    """
    goal = Target.from_values(target, task)
    starts = [[candidate[index].start for candidate in candidates] for index in range(numbers.shape[1])]
    supervised = [any(encoding.kind.supervised for encoding in column) for column in starts]

    def fit(index: int) -> list[Any]:
        summary = None if summaries is None else summaries[index]
        forms = _usual_forms(numbers[:, index], weights, summary, with_rows=supervised[index])
        fitted = _fit_forms(forms, starts[index], goal, seed=seed + index)
        for result in fitted.values():
            if isinstance(result, Exception):
                raise result
        return [fitted[encoding] for encoding in starts[index]]

    # Columns are sorted side by side; trees have threads of their own.
    at_once = 1 if any(supervised) or numbers.size < THREADS.large else THREADS.most_numbers // max(len(numbers), 1)
    jobs = Parallel(n_jobs=usable_cores(max(min(at_once, THREADS.most), 1)), prefer="threads")
    columns = list(jobs(delayed(fit)(index) for index in range(len(starts))))
    return [joined(column[place] for column in columns) for place in range(len(candidates))]


def joined(parts: Iterable[tuple[FittedColumn, float]]) -> Fitted:
    """Return fitted columns, each with the seconds that it took, as the encodings of a table."""
    parts = list(parts)
    return Fitted([column for column, _ in parts], sum(seconds for _, seconds in parts))


Results: TypeAlias = dict[Encoding, tuple[FittedColumn, float] | Exception]
"""For each encoding the fitted column and the seconds that it took, trees that it shares included; or the error."""


def fit_column(
    values: FloatArray, encodings: Iterable[Encoding], goal: Target, *, seed: int, bins: str | None = None
) -> Results:
    """Fit encodings with fixed knots to one column, of shape (n,), NaN where missing.

    `bins` is another placement for the bins of methods that have the default one of `PiecewiseLinearEncoder`.
    """
    plain = Column.from_values(np.ascontiguousarray(values))
    return _fit_forms((plain, plain, plain, plain), encodings, goal, seed=seed, bins=bins)


Forms: TypeAlias = tuple[Column, Column, Column, Column]
"""A column as encodings take it: all values, and those within the usual range; then both for encodings that need the
target, which alone have rows if the others are summaries. None have rows if no encoding needs them."""


def _usual_forms(
    values: FloatArray, weights: FloatArray | None, summary: Column | None = None, *, with_rows: bool = True
) -> Forms:
    """Return the forms of a column; of a summary of all rows, the ones with rows are those of the sample `values`."""
    values = np.ascontiguousarray(values)
    plain = Column.from_values(values, weights, with_rows=with_rows)
    if summary is None:
        within = to_usual_range(values)
        is_same = np.array_equal(within, values, equal_nan=True)  # so it is in most columns, which are sorted once
        usual = plain if is_same else Column.from_values(within, weights, with_rows=with_rows)
        return plain, usual, plain, usual
    ends = usual_range_of(summary)
    sample = Column.from_values(np.clip(values, *ends), weights, with_rows=with_rows)
    return summary, summary.clipped(*ends), plain, sample.stretched(*ends)


def _fit_forms(
    forms: Forms, encodings: Iterable[Encoding], goal: Target, *, seed: int, bins: str | None = None
) -> Results:
    trees = {name: _SharedTrees(each) for name, each in PLACEMENTS.items() if isinstance(each, TreePlacement)}
    out: Results = {}
    for encoding in dict.fromkeys(encodings):
        started = time.perf_counter()
        try:
            encoder, shared = _encoder(encoding, trees, bins)
            before = shared.seconds if shared is not None and shared.grown is not None else 0.0
            on_range = encoding.has_knots and not encoding.kind.is_cyclic  # a cycle has no ends to move values to
            plain, usual = forms[2:] if encoding.kind.supervised else forms[:2]
            fitted = encoder.fit_column(usual if on_range else plain, goal, seed=seed)
            out[encoding] = fitted, time.perf_counter() - started + before
        except Exception as error:  # a study records it, a fit raises it
            out[encoding] = error
    return out


def _encoder(
    encoding: Encoding, trees: dict[str, _SharedTrees], bins: str | None
) -> tuple[Encoder, _SharedTrees | None]:
    """Return the encoder of an encoding, and the trees that it shares with others.

    Trees of `PiecewiseLinearEncoder` are not shared: they have as many leaves as there are bins.
    """
    encoder, shared = encoding.encoder(), None
    if isinstance(encoder, SplineEncoder):
        shared = trees.get(encoding.kind.placement or "")
        if shared is not None:
            encoder.set_params(placement=shared)
    elif bins is not None and encoding.kind.has_usual_bins:
        encoder.set_params(placement=bins)
    encoder.check_settings()
    return encoder, shared
