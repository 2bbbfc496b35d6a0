"""The rows that an estimator holds out: a random part or folds, by groups, the last rows, or those of a splitter."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Number
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from knotwork._checks import argument_error, type_error
from knotwork._preparation.members import Rows, Split
from knotwork._tables import factorize

FEWEST_TO_DIVIDE = 10
"""With fewer rows than this none are held out: early stopping uses the training rows."""

LARGEST_SEED = 2**31 - 1

Parts = list[tuple[Rows, Rows]]
"""Pairs of training rows and validation rows."""


def check_validation(validation: Any) -> Any:
    """Return the parameter `validation` of an estimator if it is valid; splitters and pairs of rows are tried later."""
    if validation is None or (isinstance(validation, str) and validation == "time"):
        return validation
    hint = "Rows can be held out by a share, a number of folds, 'time', or a splitter such as GroupKFold(5)."
    is_share, is_count = isinstance(validation, float | np.floating), isinstance(validation, int | np.integer)
    is_known = is_share or is_count or isinstance(validation, Sequence) or hasattr(validation, "split")
    if not is_known or isinstance(validation, bool | np.bool_ | str):
        raise type_error("validation", "be None, 'time', a share, a number of folds or a splitter", validation, hint)
    if is_share and not 0.0 < validation < 1.0:
        raise argument_error("validation", "be a number between 0 and 1 if it is a share", validation, hint)
    if is_count and validation < 2:
        raise argument_error("validation", "be at least 2 if it is a number of folds", validation, hint)
    return validation


def group_codes(groups: Any, n_rows: int) -> npt.NDArray[np.int64] | None:
    """Return groups of rows as numbers from 0, of any labels; missing ones, and fewer than two groups, are refused."""
    if groups is None:
        return None
    series = nw.from_native(groups, pass_through=True, series_only=True)
    labels = series.to_list() if isinstance(series, nw.Series) else groups
    values = np.asarray(labels)
    if values.dtype.kind in "US" and not isinstance(labels, np.ndarray):
        values = np.array(labels, dtype=object)  # numpy would write a missing label beside text as the text "nan"
    if values.shape != (n_rows,):
        raise argument_error("groups", f"have one label for each of {n_rows} rows of X", values.shape)
    codes, distinct = factorize(values.astype(object) if values.dtype.kind not in "biuf" else values)
    if (codes < 0).any():
        hint = "Give such rows a group of their own."
        raise argument_error("groups", f"have no missing labels: there are {int((codes < 0).sum())}", "NaN", hint)
    if len(distinct) < 2:
        hint = "With one group no row can be held out: leave groups out, or give X_val and y_val."
        raise argument_error("groups", "name at least two groups", len(distinct), hint)
    return codes


@dataclass(frozen=True, eq=False)
class Holdout:
    """Which rows of a user's table an estimator holds out.

    Parameters
    ----------
    validation : None, "time", float, int, splitter or sequence of pairs
        The parameter of the estimator.
    share : float
        Share of the rows that one part has, unless `validation` is a share.
    target : ndarray of shape (n,)
        The target, as networks take it.
    kept : ndarray of bool, shape (n,)
        Rows of a weight larger than 0, which alone are in the training table: all row numbers below count these.
    groups : ndarray of int, shape (n,), optional
        The group of each row, from 0.
    n_given : int, default=0
        Number of given validation rows, which follow them in the training table.
    """

    validation: Any
    share: float
    target: npt.NDArray[Any]
    kept: npt.NDArray[np.bool_]
    groups: npt.NDArray[np.int64] | None = None
    n_given: int = 0

    @property
    def kept_groups(self) -> npt.NDArray[np.int64] | None:
        """The groups of the rows that are kept."""
        return None if self.groups is None else self.groups[self.kept]

    @cached_property
    def parts(self) -> Parts | None:
        """Rows that train and rows that validate, where nothing is drawn; otherwise None."""
        n_rows = int(self.kept.sum())
        if self.n_given:
            return [(np.arange(n_rows), n_rows + np.arange(self.n_given))]
        if isinstance(self.validation, str):
            return [last_rows(n_rows, self.share, self.kept_groups)]
        if self.validation is None or isinstance(self.validation, Number):
            return None
        parts = _parts_of_splitter(self.validation, self.target, self.groups, self.kept)
        groups = self.kept_groups
        shared = [] if groups is None else [np.intersect1d(groups[train], groups[valid]) for train, valid in parts]
        n_shared = len({group for part in shared for group in part.tolist()})
        if n_shared:
            hint = "Take a splitter that knows groups, such as GroupKFold(5), or leave validation at None."
            raise argument_error("validation", "keep groups together", f"{n_shared} groups on both sides", hint)
        return parts

    @property
    def n_folds(self) -> int | None:
        """Number of folds that the user has decided, or None."""
        if self.parts is not None:
            return len(self.parts)
        if self.validation is None:
            return None
        return int(self.validation) if isinstance(self.validation, Integral) else 1

    def draw(
        self, target: npt.NDArray[Any], *, task: str, n_folds: int, n_seeds: int, random: np.random.RandomState
    ) -> tuple[list[Split], npt.NDArray[np.int64]]:
        """Return the rows of each fold, and random seeds of networks, drawn before any rows.

        `target` is that of the training table; `n_folds` counts only where the user has not decided.
        """
        seeds = random.randint(LARGEST_SEED, size=n_seeds)
        parts, groups = self.parts, self.kept_groups
        if parts is None and n_folds > 1:
            n_groups = n_folds if groups is None else len(np.unique(groups))
            if self.validation is not None and n_folds > n_groups:
                raise argument_error("validation", f"be at most {n_groups}, the number of groups", self.validation)
            parts = draw_folds(target, task=task, n_folds=n_folds, random=random, groups=groups)
        elif parts is None:
            share = self.share if self.validation is None else float(self.validation)
            every = np.arange(len(target))
            parts = [draw_split(every, target, task=task, share=share, random=random, groups=groups)]
        return as_splits(parts, seeds), seeds


def as_splits(parts: Parts, seeds: npt.NDArray[np.int64]) -> list[Split]:
    """Return the folds of an estimator, with the first of its random seeds and no rows to test on."""
    return [Split(fold, int(seeds[0]), train, valid, train[:0]) for fold, (train, valid) in enumerate(parts)]


def draw_split(
    rows: Rows,
    target: npt.NDArray[Any],
    *,
    task: str,
    share: float,
    random: np.random.RandomState,
    groups: npt.NDArray[np.int64] | None = None,
) -> tuple[Rows, Rows]:
    """Divide some rows of a table into training rows and a share of validation rows.

    Classes are held out by their shares, never all rows of one. Of fewer than `FEWEST_TO_DIVIDE` rows all are in both
    parts. Groups are held out completely or not at all, in any number of rows; classes are then
    balanced as far as the groups allow.
    `target` and `groups` are those of all rows of the table.
    """
    fewest, labels = (1, np.zeros(len(rows), dtype=np.int64)) if task == "regression" else (0, target[rows])
    held = np.zeros(len(rows), dtype=bool)
    if groups is not None:
        held = _held_groups(labels, groups[rows], share=share, random=random)
    elif len(rows) >= FEWEST_TO_DIVIDE:
        for members in _shuffled_classes(labels, random):
            held[members[: min(max(round(share * len(members)), fewest), len(members) - 1)]] = True
    return (rows[~held], rows[held]) if held.any() else (rows, rows)


def _shuffled_classes(labels: npt.NDArray[Any], random: np.random.RandomState) -> Iterator[Rows]:
    """Yield the rows of each class in random order."""
    for label in np.unique(labels):
        yield random.permutation(np.flatnonzero(labels == label))


def _held_groups(
    labels: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], *, share: float, random: np.random.RandomState
) -> npt.NDArray[np.bool_]:
    """Return which rows are held out: groups, in random order, that bring each class closer to its share.

    A group that has all rows of a class is held out only if every group has: otherwise no network would know the class.
    """
    codes, members = (np.unique(values, return_inverse=True)[1] for values in (labels, groups))
    counts = np.zeros((members.max() + 1, codes.max() + 1))
    np.add.at(counts, (members, codes), 1.0)
    total, chosen = counts.sum(axis=0), np.zeros(len(counts), dtype=bool)
    order = random.permutation(len(counts))
    usable = [group for group in order if (counts[group] < total).all()]
    for group in usable or order:
        held = counts[chosen].sum(axis=0)
        more = held + counts[group]
        keeps_some = (more < total).all() if usable else more.sum() < total.sum()
        closer = np.square(more - share * total).sum() < np.square(held - share * total).sum()
        chosen[group] = closer and keeps_some
    if not chosen.any():  # every group has more than twice the share
        sizes = counts.sum(axis=1)
        chosen[min(usable or order, key=lambda group: sizes[group])] = True
    return chosen[members]


def draw_folds(
    target: npt.NDArray[Any],
    *,
    task: str,
    n_folds: int,
    random: np.random.RandomState,
    groups: npt.NDArray[np.int64] | None = None,
) -> Parts:
    """Divide all rows into folds: every row validates in one of them, and trains in the others.

    Folds have equal shares of each class if it has enough rows. Of fewer than `FEWEST_TO_DIVIDE` rows, or fewer
    than folds, all are in both parts of every fold. A group is wholly in one fold, in any number of rows; there are at
    most as many folds as groups.
    """
    rows = np.arange(len(target))
    if groups is not None:
        return _group_folds(target, groups, task=task, n_folds=n_folds, seed=random.randint(LARGEST_SEED))
    if len(rows) < max(FEWEST_TO_DIVIDE, n_folds):
        return [(rows, rows)] * n_folds
    fold_of, start = np.empty(len(target), dtype=np.int64), 0
    for members in _shuffled_classes(np.zeros(len(target)) if task == "regression" else target, random):
        fold_of[members] = (start + np.arange(len(members))) % n_folds
        start += len(members)
    return [(rows[fold_of != fold], rows[fold_of == fold]) for fold in range(n_folds)]


def _group_folds(
    target: npt.NDArray[Any], groups: npt.NDArray[np.int64], *, task: str, n_folds: int, seed: int
) -> Parts:
    """Return folds of whole groups, with shares of each class that are as equal as the groups permit."""
    n_folds = min(n_folds, len(np.unique(groups)))
    if task == "classification" and np.unique(target, return_counts=True)[1].max() >= n_folds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than folds
            splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
            parts = [part for part in splitter.split(target, target, groups) if len(part[1])]
        if all(len(train) for train, _ in parts):
            return parts
    return list(GroupKFold(n_folds, shuffle=True, random_state=seed).split(target, groups=groups))


def last_rows(n_rows: int, share: float, groups: npt.NDArray[np.int64] | None = None) -> tuple[Rows, Rows]:
    """Return rows that train and rows that validate: the last ones, without those of the same groups before them."""
    n_held = min(max(round(share * n_rows), 1), n_rows - 1)
    if not n_held:
        raise argument_error("validation", "leave rows to train on", "time", "The table needs two rows or more.")
    rows = np.arange(n_rows)
    return _apart(rows[:-n_held], rows[-n_held:], groups)


def forward_folds(
    places: Rows, n_rows: int, *, n_folds: int, share: float, groups: npt.NDArray[np.int64] | None = None
) -> Parts:
    """Return folds in the order of time: each validates the next part of the last rows, and trains on all before it.

    Parameters
    ----------
    places : ndarray of int
        Increasing places of the rows in the whole table, of which they may be a sample.
    n_rows : int
        Rows of the whole table.
    n_folds : int
        Number of folds.
    share : float
        Share of the last rows that all folds together validate.
    groups : ndarray of int, optional
        The group of each row: those of validation rows do not train.
    """
    ends = np.round(np.linspace((1.0 - share) * n_rows, n_rows, n_folds + 1))
    starts = np.searchsorted(places, ends)
    rows, parts = np.arange(len(places)), []
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if start == stop or not start:
            hint = "Take fewer folds, or more rows."
            raise argument_error("folds", "leave rows to train on and to test on", n_folds, hint)
        parts.append(_apart(rows[:start], rows[start:stop], groups))
    return parts


def _apart(train: Rows, valid: Rows, groups: npt.NDArray[np.int64] | None) -> tuple[Rows, Rows]:
    """Return rows that train, without the groups of those that validate, and the latter."""
    if groups is not None:
        train = train[~np.isin(groups[train], groups[valid])]
        if not len(train):
            hint = "All groups have rows among the last ones: hold out fewer rows, or leave groups out."
            raise argument_error("validation", "leave groups to train on", "time", hint)
    return train, valid


def _parts_of_splitter(
    splitter: Any, target: npt.NDArray[Any], groups: npt.NDArray[np.int64] | None, kept: npt.NDArray[np.bool_]
) -> Parts:
    """Return the parts of a splitter of scikit-learn, or of a sequence of pairs of rows.

    `target` and `groups` are those of the user's table; parts count only those of its rows that are `kept`.
    """
    rows = np.arange(len(target))
    pairs = splitter
    if hasattr(splitter, "split"):
        with warnings.catch_warnings():  # that a splitter ignores groups is an error here, if it divides one
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            pairs = list(splitter.split(rows[:, None], target, groups))
    places = np.cumsum(kept) - 1
    parts = []
    for pair in pairs:
        try:
            train, valid = (rows[np.asarray(part)] for part in pair)
        except (TypeError, ValueError, IndexError) as error:
            raise argument_error(
                "validation",
                "divide the rows into pairs of training and validation rows",
                splitter,
                f"A pair does not name rows of X: {error}",
            ) from error
        parts.append((places[train[kept[train]]], places[valid[kept[valid]]]))
    if not parts or any(len(part) == 0 for pair in parts for part in pair):
        hint = "Rows of weight 0 do not count."
        raise argument_error("validation", "leave rows to train on and rows to validate by", splitter, hint)
    if any(np.intersect1d(train, valid).size for train, valid in parts):
        raise argument_error("validation", "hold out rows that do not train", splitter, "Some rows are in both parts.")
    return parts
