"""Whether a random division of the rows misleads: rows that repeat an entity or each other, and time that drifts.

New rows are rarely those of entities or days that a model has seen. Where a cheap model is much better on random rows
than on rows of new entities, or than on later rows, scores of a random division say too much. Columns are screened
first, by means of groups, so that trees are grown for few tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knotwork._preparation.columns import Columns
from knotwork._preparation.formats import DATE_PARTS, DateFormat
from knotwork._preparation.learning import TIME_NAME, Role, TableColumn
from knotwork._tables import mixed_bits
from knotwork.training import TrainingTable

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SplitRule:
    """When a random division is called misleading; chosen so that ordinary tables of benchmarks are silent.

    Parameters
    ----------
    fewest_rows, most_rows : int
        Rows of a table that is judged, and rows of the sample.
    fewest_groups : int
        Distinct values of a column of entities.
    fewest_per_group, most_per_group : float
        Mean number of rows of an entity.
    most_columns : int
        Columns that the cheap model takes.
    most_groups : int
        Columns of entities that are tried.
    screened : float
        Share of the target's variance that the other rows of an entity explain at least, beyond rows of the next ones.
    most_screened : int
        Rows of which values are counted; of longer tables those of a random part of the values.
    most_missing, repeated : float
        Shares of the rows of a column of entities: without a value at most, and with that of another row at least.
    duplicates : float
        Share of rows that another row equals.
    worse, loss : float
        Factor of the loss on new entities or later rows, and its increase as a share of the loss without a model.
    certain : float
        Increase in units of its standard error.
    trees, leaf : int
        Trees of the cheap model, and the rows of a leaf.
    """

    fewest_rows: int = 200
    most_rows: int = 2400
    fewest_groups: int = 20
    fewest_per_group: float = 2.5
    most_per_group: float = 200.0
    most_columns: int = 40
    most_groups: int = 2
    screened: float = 0.1
    most_screened: int = 20_000
    most_missing: float = 0.5
    repeated: float = 0.6
    duplicates: float = 0.1
    worse: float = 1.4
    loss: float = 0.08
    certain: float = 4.0
    trees: int = 16
    leaf: int = 2


DIVISION = SplitRule()

MIXED = 0.2
"""Share of steps back in time from which on rows are not in its order: some tables have parts one after the other."""


class _Groups(NamedTuple):
    """Rows of a table in groups: the column that makes them, None of equal rows; codes from 0, and their number."""

    name: Any
    rows: IntArray
    codes: IntArray
    n_groups: int


class _Sample(NamedTuple):
    """Rows of a table: ranks of all columns, of shape (n, d), and the target, of shape (n, k)."""

    ranks: npt.NDArray[np.float32]
    target: FloatArray


def misleading_split(columns: Columns, table: TrainingTable) -> str:
    """Return a sentence about rows that a random division would mislead on, with what to do; empty if there are none.

    Parameters
    ----------
    columns : Columns
        The columns of the table.
    table : TrainingTable
        Its rows, in their order, and the target.
    """
    if table.n_rows < DIVISION.fewest_rows or table.target.ndim > 1:
        return ""
    target = _as_numbers(table)
    if not target.var(axis=0).sum() > 0.0:
        return ""
    values = np.concatenate([table.numbers, table.codes], axis=1)
    for sentence in (_of_entities(columns, table, values, target), _of_time(columns, values, target)):
        if sentence:
            return sentence
    return ""


def _as_numbers(table: TrainingTable) -> FloatArray:
    """Return the target as numbers of shape (n, k) without outliers, or indicators of frequent classes."""
    if table.task == "classification":
        counts = np.bincount(table.target)
        frequent = np.argsort(-counts, kind="stable")[:10]
        indicators: FloatArray = (table.target[:, None] == frequent).astype(np.float64)
        return indicators
    largest = np.abs(table.target).max() or 1.0
    scaled = table.target / largest
    spread = scaled.std() or 1.0
    numbers: FloatArray = np.clip((scaled - scaled.mean()) / spread, -5.0, 5.0)[:, None]
    return numbers


def _of_entities(columns: Columns, table: TrainingTable, values: FloatArray, target: FloatArray) -> str:
    """Return the sentence about rows that repeat an entity, or each other."""
    names = [*columns.numerical_names, *columns.categorical]
    n_numbers = table.numbers.shape[1]
    made = [_entities(name, values[:, place]) for place, name in enumerate(names)]
    gains = [
        0.0 if each is None else _screen(each.codes, target[each.rows], has_order=place < n_numbers)
        for place, each in enumerate(made)
    ]
    copies = _copies(values)
    if copies is not None and _screen(copies.codes, target[copies.rows], has_order=False) > DIVISION.screened:
        made, gains = [*made, copies], [*gains, np.inf]  # copies have equal values in each column
    order = np.argsort(-np.array(gains), kind="stable")[: DIVISION.most_groups].tolist()
    for groups in (made[place] for place in order if gains[place] > DIVISION.screened):
        assert groups is not None
        usual, other, units = _compared(groups, values, target)
        if _is_worse(usual, other, units=units):
            return _entity_sentence(groups.name, usual.mean(), other.mean())
    return ""


def _entity_sentence(name: Any, usual: float, other: float) -> str:
    repeated, new = ("Rows repeat each other", "rows without a copy")
    advice = "Drop the copies (X.drop_duplicates()) unless new rows are copies as well"
    if name is not None:
        repeated, new = f"Rows with the same value of column {name!r} predict each other", "rows of other values"
        advice = f"If predictions are for new values of it, pass groups=X[{name!r}] to fit"
    return (
        f"{repeated}: a simple model has {usual:.2f} of the loss without a model on random rows, and {other:.2f} on "
        f"{new}. {advice}."
    )


def _compared(groups: _Groups, values: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the losses of a sample of whole groups, in random folds and in folds of groups, and its groups."""
    random = np.random.RandomState(0)
    n_groups = int(groups.codes.max()) + 1
    order = random.permutation(n_groups)
    ends = np.cumsum(np.bincount(groups.codes)[order])
    chosen = np.zeros(n_groups, dtype=bool)
    chosen[order[: max(int((ends <= DIVISION.most_rows).sum()), 3)]] = True
    used = np.flatnonzero(chosen[groups.codes])
    units = groups.codes[used]
    sample = _sampled(values, target, groups.rows[used])
    folds = (random.randint(3, size=len(used)), random.randint(3, size=n_groups)[units])
    usual, other = (_losses(sample, _parts(fold_of)) for fold_of in folds)
    return usual, other, units


def _groups(name: Any, column: npt.NDArray[Any]) -> _Groups | None:
    """Return the rows of each value of a column, or of a random part of its values; None if few have most rows."""
    n_rows, rows = len(column), np.arange(len(column))
    share = n_rows // DIVISION.most_screened
    if share > 1:
        words = column if column.dtype == np.uint64 else (column + 0.0).view(np.uint64)
        rows = np.flatnonzero(mixed_bits(words) < np.uint64((2**64 - 1) // share))
        if not 0.2 * n_rows <= share * len(rows) <= 5.0 * n_rows:
            return None
    distinct, codes = np.unique(column[rows], return_inverse=True)
    return _Groups(name, rows, codes.astype(np.int64), len(distinct))


def _entities(name: Any, column: FloatArray) -> _Groups | None:
    """Return the groups of a column whose values occur as often as entities do."""
    groups = _groups(name, column)
    if groups is None or np.isnan(column).mean() > DIVISION.most_missing:
        return None
    n_rows, counts = len(groups.rows), np.bincount(groups.codes)
    is_usual = DIVISION.fewest_per_group * groups.n_groups <= n_rows <= DIVISION.most_per_group * groups.n_groups
    are_repeated = counts[counts > 1].sum() >= DIVISION.repeated * n_rows
    return groups if groups.n_groups >= DIVISION.fewest_groups and is_usual and are_repeated else None


def _copies(values: FloatArray) -> _Groups | None:
    """Return the groups of equal rows, if many rows are equal."""
    words = np.zeros(len(values), dtype=np.uint64)
    for column in values.T:
        words = mixed_bits(words + np.where(np.isnan(column), np.inf, column + 0.0).view(np.uint64))
    groups = _groups(None, words)
    if groups is None or groups.n_groups < DIVISION.fewest_groups:
        return None
    counts = np.bincount(groups.codes)
    return groups if counts[counts > 1].sum() >= DIVISION.duplicates * len(groups.rows) else None


def _screen(groups: IntArray, target: FloatArray, *, has_order: bool) -> float:
    """Return how much better the other rows of a group predict a row than rows of the groups next to it, as R2."""
    counts = np.bincount(groups).astype(np.float64)
    sums = np.stack([np.bincount(groups, column) for column in target.T], axis=1)
    mean = target.mean(axis=0)
    sizes = counts[groups, None]
    others = (sums[groups] - target + mean) / sizes  # shrunk to the mean by one row
    used = sizes[:, 0] > 1
    spread = np.square(target[used] - mean).sum()
    if not spread > 0.0:
        return 0.0
    explained = 1.0 - np.square(target[used] - others[used]).sum() / spread
    if not has_order:
        return float(explained)
    padded_sums, padded = np.pad(sums, ((1, 1), (0, 0))), np.pad(counts, 1)
    next_to = (padded_sums[:-2] + padded_sums[2:] + mean) / (padded[:-2] + padded[2:] + 1.0)[:, None]
    by_next = 1.0 - np.square(target[used] - next_to[groups][used]).sum() / spread
    return float(explained - max(by_next, 0.0))


def _whole_groups(groups: IntArray) -> IntArray:
    """Return the rows of random groups, as many as the sample has."""
    order = np.random.RandomState(0).permutation(int(groups.max()) + 1)
    ends = np.cumsum(np.bincount(groups)[order])
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: max(int((ends <= DIVISION.most_rows).sum()), 2)]] = True
    return np.flatnonzero(chosen[groups])


def _sampled(values: FloatArray, target: FloatArray, rows: IntArray) -> _Sample:
    """Return ranks of the columns, which trees see as they see values, and the target of some rows."""
    columns = values[rows, : DIVISION.most_columns].T
    ranks = [np.unique(column, return_inverse=True)[1] for column in columns]
    return _Sample(np.stack(ranks, axis=1).astype(np.float32), target[rows])


def _parts(fold_of: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    for fold in np.unique(fold_of):
        yield np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)


def _losses(sample: _Sample, parts: Any) -> FloatArray:
    """Return the squared errors of rows that trees were not grown on, in units of those of the mean; NaN elsewhere."""
    from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415 - few tables need it

    out = np.full(len(sample.target), np.nan)
    for train, test in parts:
        trees = ExtraTreesRegressor(DIVISION.trees, min_samples_leaf=DIVISION.leaf, random_state=0, n_jobs=1)
        target = sample.target[train]
        trees.fit(sample.ranks[train], target if target.shape[1] > 1 else target[:, 0])
        errors = sample.target[test] - trees.predict(sample.ranks[test]).reshape(len(test), -1)
        out[test] = np.square(errors).sum(axis=1)
    losses: FloatArray = out / sample.target.var(axis=0).sum()
    return losses


def _is_worse(usual: FloatArray, other: FloatArray, *, units: IntArray) -> bool:
    """Return whether losses are much larger, and certainly so; rows of one unit are not independent."""
    increase = other - usual
    means = np.bincount(units, increase)[np.unique(units)]
    error = np.sqrt(len(means)) * means.std() / len(increase)
    is_large = other.mean() >= DIVISION.worse * usual.mean() and increase.mean() >= DIVISION.loss
    return bool(is_large and increase.mean() >= DIVISION.certain * error)


def _of_time(columns: Columns, values: FloatArray, target: FloatArray) -> str:
    """Return the sentence about rows in the order of time whose target drifts."""
    for name, place in _times(columns, values):
        moments = values[:, place]
        order = np.argsort(moments, kind="stable")
        order = order[np.linspace(0, len(order) - 1, min(len(order), DIVISION.most_rows)).astype(np.int64)]
        sample, n_rows = _sampled(values, target, order), len(order)
        last, random = np.arange(int(0.75 * n_rows), n_rows), np.random.RandomState(0).permutation(n_rows)
        later = _losses(sample, [(np.arange(last[0]), last)])[last]
        # The same rows, by trees that have seen others of their time.
        halves = np.array_split(np.intersect1d(random, last), 2)
        parts = [(np.setdiff1d(random[: last[0] + len(half)], half), half) for half in (halves[0], halves[1])]
        among = _losses(sample, parts)[last]
        if _is_worse(among, later, units=np.arange(len(last)) * 20 // len(last)):
            is_sorted = bool((np.diff(moments[~np.isnan(moments)]) >= 0.0).all())
            step = 'Pass validation="time"' if is_sorted else f'Sort the rows by {name!r} and pass validation="time"'
            return (
                f"The target drifts with time in column {name!r}: a simple model has {among.mean():.2f} of the loss "
                f"without a model on random rows of the last quarter, and {later.mean():.2f} if it knows earlier rows "
                f"only. {step} if predictions are for later rows."
            )
    return ""


def unsorted_time(columns: Columns, table: TrainingTable) -> str:
    """Return a sentence about a date that does not ascend with the rows, which the last rows would be held out of."""
    for column, label, (_, places) in zip(columns, columns.labels, columns.spans, strict=True):
        if not _has_days(column):
            continue
        moments = table.numbers[:, places.start]
        steps = np.diff(moments[~np.isnan(moments)])
        if (steps < 0.0).mean() > MIXED:
            return (
                f'validation="time" holds out the last rows, but column {label!r} does not ascend with them. Sort '
                f"the rows by {label!r} before the fit if it is their time."
            )
    return ""


def _times(columns: Columns, values: FloatArray) -> Iterator[tuple[Any, int]]:
    """Yield names and places of dates, and of numbers with a name of time that ascend with the rows."""
    for column, label, (field, places) in zip(columns, columns.labels, columns.spans, strict=True):
        if field != "numbers" or column.role == Role.IGNORED:
            continue
        place, moments = places.start, values[:, places.start]
        if np.isnan(moments).any() or len(np.unique(moments)) < 5:
            continue
        is_named = column.role != Role.DATE and isinstance(label, str) and bool(TIME_NAME.fullmatch(label))
        if _has_days(column) or (is_named and (np.diff(moments) >= 0.0).all()):
            yield label, place


def _has_days(column: TableColumn) -> bool:
    """Return whether the first number of a column is that of elapsed days."""
    written = column.format
    return column.role == Role.DATE and isinstance(written, DateFormat) and written.parts[0] == DATE_PARTS[0]
