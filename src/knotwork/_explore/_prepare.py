"""The data of the page, prepared once: rows, groups of values, knots of every placement and paths of learned knots.

The rows are a random sample, and each column has the means of at most 255 groups of neighbouring values.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, listed
from knotwork._explore._alone import LEAST_GAIN, Alone, area_under_curve, is_clear, line_of, r_squared, squared_errors
from knotwork._preparation.columns import CodedTable, Columns, Role
from knotwork._preparation.formats import ELAPSED, BooleanFormat
from knotwork._preparation.learning import TableColumn
from knotwork._preparation.targets import Labels, check_target
from knotwork._writing import counted, fixed, significant
from knotwork.basis import FAMILIES, FloatArray, binary_unit, evaluate
from knotwork.encoders import METHOD_TABLE, PiecewiseLinearEncoder
from knotwork.errors import ColumnError, MissingPackageError
from knotwork.knots import (
    PLACEMENTS,
    TASKS,
    Column,
    Target,
    TreePlacement,
    complete,
    infer_task,
    placement_traits,
    select_spaced,
)

MISSING_CODE = 255
"""The code of a missing value."""


@dataclass(frozen=True)
class PageRule:
    """What a page holds: enough to see how encodings differ, in a file that can be sent by e-mail; conventions.

    Parameters
    ----------
    training, held_out : int
        Most rows that knots and fits are made from, and rows that fits are scored on.
    columns, slow, learned : int
        Most columns, columns with knots of slow placements, and columns with learned knots: the most important ones.
    learning_seconds : float
        No further paths of learned knots are begun after this time.
    bars : int
        Bars of a histogram; a column with no more distinct values has one for each of them.
    levels : int
        Categories that are shown, the most frequent ones; the others are one.
    widest_gap : float
        Share of the axis without rows across which no curve is drawn, if other distances between values are far less.
    families : tuple of str
        The families that the page can compute, the most used first.
    placement : str
        The placement of knots with which the page opens.
    sizes, degrees : tuple of int
        The sizes for which knots are placed and learned, the default first, and the degrees of splines; knots are
        learned for the last.
    """

    training: int = 5_000
    held_out: int = 5_000
    columns: int = 40
    slow: int = 8
    learned: int = 8
    learning_seconds: float = 1.5
    bars: int = 48
    levels: int = 30
    widest_gap: float = 0.1
    families: tuple[str, ...] = ("bspline", "ispline", "ple", "mspline")
    placement: str = "quantile"
    sizes: tuple[int, ...] = (15, 7, 30)
    degrees: tuple[int, ...] = (0, 1, 2, 3)


PAGE = PageRule()


def draw_split(n_rows: int, seed: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return random rows to fit on and other random rows to score on: two thirds and one third of a small table.

    Examples
    --------
    >>> training, held_out = draw_split(9, seed=0)
    >>> len(training), len(held_out), len({*training, *held_out})
    (6, 3, 9)
    """
    rows = np.random.default_rng(seed).permutation(n_rows)
    n_training = min(PAGE.training, n_rows - n_rows // 3)
    return rows[:n_training], rows[n_training : n_training + PAGE.held_out]


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """A column whose rows are replaced by the mean of their group.

    A column with at most 255 distinct training values is exact: each value is a group.

    Parameters
    ----------
    column : Column
        The training rows, by which knots are placed.
    centres : ndarray of shape (n_groups,)
        Mean of each group on the domain scaled to [0, 1], increasing.
    codes : ndarray of uint8, shape (n_training + n_held_out,)
        Group of each row; `MISSING_CODE` for a missing value.
    n_training : int
        Number of training rows, which come first.
    """

    column: Column
    centres: FloatArray
    codes: npt.NDArray[np.uint8]
    n_training: int

    @classmethod
    def from_values(cls, values: FloatArray, n_training: int) -> "BinnedColumn":
        """Group the values of a column, training rows first; NaN are missing."""
        column = Column.from_values(values[:n_training])
        if not len(column.distinct):
            return cls(column, np.empty(0), np.full(len(values), MISSING_CODE, dtype=np.uint8), n_training)
        distinct = as_shares(column.distinct, column.domain)
        groups = _groups(column.weights)
        centres = np.bincount(groups, column.weights * distinct) / np.bincount(groups, column.weights)
        last = np.flatnonzero(np.append(np.diff(groups), 1))  # of each group, its largest distinct value
        # A held-out value between two groups belongs to the nearer of their neighbouring values.
        edges = 0.5 * distinct[last[:-1]] + 0.5 * distinct[last[:-1] + 1]
        codes = np.searchsorted(edges, as_shares(values, column.domain), side="left")
        return cls(column, centres, np.where(np.isnan(values), MISSING_CODE, codes).astype(np.uint8), n_training)

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """Number of training rows in each group."""
        return np.bincount(self.codes[: self.n_training], minlength=MISSING_CODE + 1)[: len(self.centres)]

    def bars(self) -> tuple[npt.NDArray[np.intp], float, float]:
        """Return the training rows in bars of equal width, or with each distinct value if there are few.

        Left edge of the first bar and width of all follow, as shares of the domain.
        """
        if len(self.column.distinct) <= PAGE.bars:
            return self.column.weights.astype(np.intp), 0.0, 1.0
        distinct = as_shares(self.column.distinct, self.column.domain)
        edge, width, n_bars = _bar_grid(distinct)
        bars = np.histogram(distinct, n_bars, (edge, edge + n_bars * width), weights=self.column.weights)[0]
        return bars.astype(np.intp), edge, width

    @property
    def n_groups(self) -> int:
        """Number of groups, with that of missing values, which is the last one."""
        return len(self.centres) + 1

    @property
    def places(self) -> npt.NDArray[np.intp]:
        """The group of each row; that of missing values is the last one."""
        return np.minimum(self.codes, len(self.centres)).astype(np.intp)

    def design(self) -> FloatArray:
        """Return the groups in the encoding with which the page opens; missing values are zeros."""
        family = PAGE.families[0]
        n_knots = PAGE.sizes[0] - FAMILIES[family].smallest_size(PAGE.degrees[-1])
        knots = np.unique(as_shares(PLACEMENTS[PAGE.placement](self.column, n_knots), self.column.domain))
        rows = evaluate(family, self.centres, knots[(knots > 0.0) & (knots < 1.0)], degree=PAGE.degrees[-1])
        return np.pad(np.asarray(rows, dtype=np.float64), ((0, 1), (0, 0)))

    def line(self) -> FloatArray:
        """Return the groups scaled to mean 0 and variance 1; missing values are 0."""
        return np.pad(line_of(self.centres, self.counts.astype(np.float64)), ((0, 1), (0, 0)))

    def gaps(self) -> list[list[float]]:
        """Return stretches of the axis without training rows, several times as wide as the usual distance of values."""
        distinct = as_shares(self.column.distinct, self.column.domain)
        widths = np.diff(distinct)
        if not len(widths):
            return []
        usual = float(np.sort(widths)[(len(widths) - 1) // 2])
        wide = np.flatnonzero((widths > PAGE.widest_gap) & (widths > 5.0 * usual))
        return [[float(distinct[place]), float(distinct[place + 1])] for place in wide]


@dataclass(frozen=True, eq=False)
class LevelColumn:
    """A column of categories, or of two values: each has a mean, and needs no knots.

    Parameters
    ----------
    labels : tuple of str
        The levels: the most frequent first, then the others together, then missing values; or the two values.
    codes : ndarray of uint8, shape (n_training + n_held_out,)
        Level of each row.
    n_training : int
        Number of training rows, which come first.
    n_levels, n_kept : int
        Number of categories, and of those that are shown alone; 0 for a column of two values, where a line says the
        same as two means.
    """

    labels: tuple[str, ...]
    codes: npt.NDArray[np.uint8]
    n_training: int
    n_levels: int = 0
    n_kept: int = 0

    @classmethod
    def from_codes(cls, codes: npt.NDArray[np.int64], labels: Sequence[Any], n_training: int) -> "LevelColumn":
        """Take categories, whose codes count from 1; 0 is a missing value."""
        counts = np.bincount(codes[:n_training], minlength=len(labels) + 1)
        order = 1 + np.argsort(-counts[1:], kind="stable")
        kept = order[: PAGE.levels] if len(labels) > PAGE.levels + 1 else order
        names = [str(labels[code - 1]) for code in kept.tolist()]
        groups = np.full(len(counts), len(kept))
        groups[kept] = np.arange(len(kept))
        if len(kept) < len(labels):
            names.append(f"{len(labels) - len(kept)} others")
        if (codes == 0).any():
            groups[0] = len(names)
            names.append("missing")
        return cls(tuple(names), groups[codes].astype(np.uint8), n_training, len(labels), len(kept))

    @classmethod
    def from_binned(cls, column: BinnedColumn, labels: Sequence[str]) -> "LevelColumn":
        """Take a column of two values; missing ones are a level."""
        has_missing = bool((column.codes == MISSING_CODE).any())
        return cls((*labels, *(["missing"] if has_missing else [])), column.places.astype(np.uint8), column.n_training)

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """Number of training rows of each level."""
        return np.bincount(self.codes[: self.n_training], minlength=len(self.labels))

    @property
    def places(self) -> npt.NDArray[np.intp]:
        """The level of each row."""
        return self.codes.astype(np.intp)

    def design(self) -> FloatArray:
        """Return the levels as indicators: their coefficients are means, shrunk towards the mean of all rows."""
        return np.eye(len(self.labels))

    def line(self) -> FloatArray | None:
        """Return what a straight line sees: the same for two values, and nothing of categories."""
        return None if self.n_levels else self.design()


PageColumn = BinnedColumn | LevelColumn


def as_shares(values: FloatArray, domain: tuple[float, float]) -> FloatArray:
    """Return values clipped to the domain as shares of it."""
    unit, (low, high) = binary_unit(*domain), domain
    inside = np.clip(values, low, high)
    shares: FloatArray = np.clip((inside * unit - low * unit) / (high * unit - low * unit), 0.0, 1.0)
    return shares


def _bar_grid(distinct: FloatArray) -> tuple[float, float, int]:
    """Return the first edge, the width and the number of the bars of a histogram over [0, 1].

    Where values are multiples of a step, such as whole numbers, every bar has room for equally many of them: otherwise
    bars of two values would stand beside bars of one.

    Examples
    --------
    >>> edge, width, n_bars = _bar_grid(np.arange(73.0) / 72.0)
    >>> round(edge * 72, 6), round(width * 72, 6), n_bars
    (-0.5, 2.0, 37)
    """
    step = float(np.diff(distinct).min())
    places = distinct / step
    if step < 1e-4 or np.abs(places - np.rint(places)).max() > 1e-3:
        return 0.0, 1.0 / PAGE.bars, PAGE.bars
    n_values = round(1.0 / step) + 1
    per_bar = -(-n_values // PAGE.bars)
    return -0.5 * step, per_bar * step, -(-n_values // per_bar)


def _groups(
    weights: npt.NDArray[np.floating] | npt.NDArray[np.integer], most: int = MISSING_CODE
) -> npt.NDArray[np.intp]:
    """Return the group of each distinct value: groups have about equal numbers of rows, and heavy values are alone.

    Examples
    --------
    >>> _groups(np.array([900.0, 1.0, 1.0, 1.0, 1.0]), most=4)
    array([0, 1, 1, 2, 2])
    """
    if len(weights) <= most:
        return np.arange(len(weights))
    # A heavy value counts for about two groups: the remaining groups are for the other values.
    capped = weights.astype(np.float64)
    for _ in range(10):
        capped = np.minimum(capped, 2.0 * capped.sum() / most)
    middles = np.cumsum(capped) - 0.5 * capped
    groups = np.minimum((middles / capped.sum() * most).astype(np.intp), most - 1)
    return np.unique(groups, return_inverse=True)[1].astype(np.intp)


@dataclass(frozen=True, eq=False)
class _Outcome:
    """The target: `values` are floats or codes of `classes`, `outputs` the same with mean 0 and variance 1."""

    task: str
    values: npt.NDArray[Any]
    classes: tuple[Any, ...]
    outputs: FloatArray
    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def from_values(cls, y: Any, task: str | None) -> "_Outcome":
        if task is None:
            array = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
            task = infer_task(array)
        if check_choice(task, "task", TASKS) == "regression":
            values = check_target(y)
            scaled = Target.from_values(values, task).values.astype(np.float64)
            largest = max(float(np.abs(values).max()), np.finfo(float).tiny)
            centre, scale = float((values / largest).mean() * largest), float((values / largest).std() * largest)
            return cls(task, values, (), scaled[:, None], centre, scale)
        labels, codes = Labels.from_values(y)
        if labels.n_classes < 2:
            raise ColumnError(
                f"The target has the same class in all rows, {labels.values[0]!r}. Choose another target."
            )
        if labels.n_classes > 256:
            raise ColumnError(
                f"The target has {counted(labels.n_classes)} classes, and the page has room for 256. "
                "If it holds amounts, pass task='regression'."
            )
        outputs = (codes[:, None] == np.arange(labels.n_classes)[-1 if labels.n_classes == 2 else 0 :]).astype(float)
        spread = outputs.std(axis=0)
        outputs = (outputs - outputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return cls(task, codes, labels.values, outputs)

    def take(self, rows: Any) -> "_Outcome":
        """Return some rows, in the units of all."""
        return replace(self, values=self.values[rows], outputs=self.outputs[rows])

    def describe(self) -> dict[str, Any]:
        """Return the target in the form that ``json.dumps`` takes."""
        rows = {"values": as_text(self.outputs[:, 0], np.float32)}
        if self.classes:
            rows = {"codes": as_text(self.values, np.uint8)}
        return {
            "task": self.task,
            "classes": [str(label) for label in self.classes],
            "target": {"centre": self.centre, "scale": self.scale, **rows},
        }


def prepare(
    X: Any,
    y: Any,
    *,
    task: str | None = None,
    columns: Iterable[Any] | None = None,
    seed: int = 0,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the data of the page in the form that ``json.dumps`` takes; parameters as in `explore`.

    `report` is called with a sentence before each slow step.
    """
    learned, table = Columns.learn(X)
    names, whole = [*learned.numerical_names, *learned.categorical], _Outcome.from_values(y, task)
    _check_rows(whole, learned, table.n_rows)
    training, held_out = draw_split(table.n_rows, seed)
    rows, chosen = np.concatenate([training, held_out]), _check_columns(columns, names)
    report(f"Fits each of {counted(len(chosen), 'column')} alone on {counted(len(training), 'row')}.")
    outcome, read = whole.take(rows), _read_columns(learned, table.take(rows), chosen, len(training))
    order, left_out = _rank(read, outcome.outputs)
    kept = {place: read[place] for place in order}
    alone = {place: _alone(column, outcome) for place, column in kept.items()}
    knots, choices = _with_knots(kept, outcome.take(slice(len(training))), report)
    described = [
        name_of(learned, names[place])
        | {"alone": [alone[place].fit, alone[place].line]}
        | _describe(column, *knots.get(place, ({}, {})))
        for place, column in kept.items()
    ]
    first = _first_column(list(alone.values()))
    return {
        **outcome.describe(),
        "rows": {"all": table.n_rows, "training": len(training), "heldOut": len(held_out)},
        "columns": described,
        "first": first,
        "finding": _finding(described[first]["title"], kept[order[first]], alone[order[first]], outcome.task),
        "others": _others(learned, [names[place] for place in left_out], read, names, chosen),
        **choices,
    }


def _with_knots(
    kept: dict[int, PageColumn], outcome: "_Outcome", report: Callable[[str], None]
) -> tuple[dict[int, tuple[dict[str, Any], dict[str, Any]]], dict[str, Any]]:
    """Return the knots and the paths of learned knots of numbers, by their place, and what can be chosen."""
    numbers = {place: column for place, column in kept.items() if isinstance(column, BinnedColumn)}
    report(f"Places knots in {counted(len(numbers), 'column')} by {counted(len(PLACEMENTS), 'rule')}.")
    placed, unavailable = _place(list(numbers.values()), Target.from_values(outcome.values, outcome.task))
    report(f"Learns knots of {counted(min(len(numbers), PAGE.learned), 'column')}.")
    paths, why_not = _learn(list(numbers.values()), outcome.outputs)
    learning = {"degree": PAGE.degrees[-1], "reason": why_not, "columns": PAGE.learned}
    knots = dict(zip(numbers, zip(placed, paths, strict=True), strict=True))
    return knots, {**_choices(unavailable), "learning": learning}


def _check_rows(outcome: "_Outcome", learned: Columns, n_rows: int) -> None:
    """Check that a page can be made of the rows."""
    if len(outcome.values) != n_rows:
        raise argument_error("y", f"have as many values as X has rows, {n_rows}", len(outcome.values))
    if n_rows < 3:
        raise ColumnError(f"X has {n_rows} rows, and the page needs at least 3. Add rows.")
    if not learned.numerical_names:
        raise ColumnError("X has no numerical column, and only these have knots. Add one, or convert text to numbers.")


def _check_columns(columns: Iterable[Any] | None, names: list[Any]) -> list[int]:
    """Return the positions of the columns that the user names, by default of all."""
    if columns is None:
        return list(range(len(names)))
    named = [columns] if isinstance(columns, str) else list(columns)
    for each in named:
        if each not in names:
            raise argument_error(
                "columns", "name columns of X that a page can show", each, f"These are {listed(names, most=30)}."
            )
    return [index for index, name in enumerate(names) if name in named]


def _read_columns(learned: Columns, table: CodedTable, chosen: Sequence[int], n_training: int) -> dict[int, PageColumn]:
    """Return the columns by their place: numbers, then categories."""
    n_numbers, labels = table.numbers.shape[1], learned.categories
    kinds = dict(zip(learned.labels, learned, strict=True))
    read: dict[int, PageColumn] = {}
    for place in chosen:
        if place >= n_numbers:
            code = place - n_numbers
            read[place] = LevelColumn.from_codes(table.codes[:, code], labels[code], n_training)
        else:
            column = BinnedColumn.from_values(table.numbers[:, place], n_training)
            has_levels = len(column.column.distinct) == 2
            its = kinds.get(learned.numerical_names[place])
            read[place] = LevelColumn.from_binned(column, _two_words(column, its)) if has_levels else column
    return read


def _two_words(column: BinnedColumn, its: TableColumn | None) -> list[str]:
    """Return the two values of a column in words; numbers that are truth values are false and true."""
    if its is not None and (its.kind == "boolean" or isinstance(its.format, BooleanFormat)):
        return ["false", "true"]
    return [significant(value) for value in column.column.distinct.tolist()]


def _rank(read: dict[int, PageColumn], outputs: FloatArray) -> tuple[list[int], list[int]]:
    """Return the columns of the page, the best first by the variance that each explains alone, and the rest."""
    shares = {
        place: r_squared(column.design(), column.places, column.n_training, outputs) or 0.0
        for place, column in read.items()
        if len(column.counts)
    }
    order = sorted(shares, key=lambda place: -round(shares[place], 9))
    if not order:
        raise ColumnError("All values of all numerical columns are missing in the training rows. Add columns or rows.")
    return order[: PAGE.columns], order[PAGE.columns :]


def _alone(column: PageColumn, outcome: "_Outcome") -> Alone:
    """Return the scores of a column alone; of several classes those of the last against all others."""
    designs = [design for design in (column.design(), column.line()) if design is not None]
    at = (column.places, column.n_training)
    if outcome.classes:
        is_one = outcome.values == len(outcome.classes) - 1
        scores = [area_under_curve(design, *at, is_one) for design in designs]
    else:
        scores = [r_squared(design, *at, outcome.outputs) for design in designs]
    if len(designs) == 1:
        return Alone(scores[0], None)
    return Alone(scores[0], scores[1], is_clear(*(squared_errors(design, *at, outcome.outputs) for design in designs)))


def _first_column(alone: Sequence[Alone]) -> int:
    """Return the column on which the page opens: that of the largest gain over a line, or the best if none gains."""
    gains = [each.gain if each.is_clear else 0.0 for each in alone]
    return int(np.argmax(gains)) if max(gains) >= LEAST_GAIN else 0


def _finding(name: str, column: PageColumn, alone: Alone, task: str) -> str:
    """Return what the page shows first, as the page itself words it."""
    metric = "AUC" if task == "classification" else "R\u00b2"
    fit = fixed(alone.fit, 2)
    if isinstance(column, LevelColumn):
        means = f"the means of {counted(len(column.labels), 'group')}" if column.n_levels else "two means"
        return f"{name}: {metric} {fit} by {means}"
    label = FAMILIES[PAGE.families[0]].label
    return f"{name}: {metric} {fixed(alone.line, 2)} as a line, {fit} as {column.design().shape[1]} {label}"


def _place(columns: Sequence[BinnedColumn], target: Target) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return for each column the knots of each placement, and the reasons why a placement is not available."""
    placed: list[dict[str, Any]] = [{} for _ in columns]
    unavailable: dict[str, str] = {}
    for name in PLACEMENTS:
        is_slow = placement_traits(name).is_slow
        for place, column in enumerate(columns):
            if is_slow and place >= PAGE.slow:
                break
            try:
                placed[place][name] = _knots(name, column.column, target)
            except MissingPackageError as error:
                unavailable[name] = str(error)
                break
    for column, knots in zip(columns, placed, strict=True):
        # The default tree of piecewise-linear encoding differs from the placement 'cart'.
        trees: list[Any] = [
            PiecewiseLinearEncoder(size=n).fit_column(column.column, target) for n in sorted(PAGE.sizes)
        ]
        knots["ple/cart"] = [tree.basis.knots for tree in trees]
    return placed, unavailable


def _knots(name: str, column: Column, target: Target) -> list[FloatArray]:
    """Return the knots of a placement for every number of knots that the page may ask for."""
    placement: Any = PLACEMENTS[name]
    if not isinstance(placement, TreePlacement):
        return [placement(column, n_knots, target) for n_knots in _counts()]
    splits = placement.thresholds(column, target, 0)  # they do not depend on the number of knots
    chosen = {n_knots: select_spaced(*splits, column, n_knots, placement.min_spacing) for n_knots in _counts()}
    return [complete(knots, column, n_knots) for n_knots, knots in chosen.items()]


def _counts() -> list[int]:
    """Return the numbers of knots of all families, sizes and degrees, ascending."""
    smallest = {FAMILIES[name].smallest_size(degree) for name in PAGE.families for degree in PAGE.degrees}
    return sorted({size - functions for size in PAGE.sizes for functions in smallest})


def _learn(columns: Sequence[BinnedColumn], outputs: FloatArray) -> tuple[list[dict[str, Any]], str]:
    """Return for each column the paths of learned knots, and why they are missing if torch is not installed."""
    paths: list[dict[str, Any]] = [{} for _ in columns]
    if not columns:
        return paths, ""
    if find_spec("torch") is None:
        return paths, 'Knots are learned by torch, which is not installed: pip install "knotwork[torch]"'
    from knotwork._explore._paths import learn_paths  # noqa: PLC0415 - torch is optional, and slow to import

    learned = learn_paths(
        columns[: PAGE.learned], outputs, sizes=PAGE.sizes, families=PAGE.families, seconds=PAGE.learning_seconds
    )
    for path, each in zip(paths, learned, strict=False):
        path |= {f"{family}@{size}": steps for (family, size), steps in each.items()}
    return paths, ""


def name_of(learned: Columns, name: Any) -> dict[str, Any]:
    """Return the name of a column, and for a number of a date that of the date and the part."""
    out = {"name": str(name), "key": name, "title": str(name)}
    for label, column, (field, places) in zip(learned.labels, learned, learned.spans, strict=True):
        names = learned.numerical_names[places] if field == "numbers" and column.part_names else []
        if name in names:
            part = column.part_names[names.index(name)]
            out |= {"owner": str(label), "part": part, "isDate": part == ELAPSED}
            out["title"] = str(label) if part == ELAPSED else out["title"]
    return out


def _describe(column: PageColumn, knots: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    """Return a column in the form that ``json.dumps`` takes; arrays become text."""
    if isinstance(column, LevelColumn):
        n = len(column.labels)
        return {
            "levels": {"labels": column.labels, "count": column.n_levels, "kept": column.n_kept},
            "domain": [0.0, 1.0],
            "whole": False,
            "bars": column.counts.tolist(),
            "barGrid": [0.0, 1.0 / n],
            "centres": as_text((np.arange(n) + 0.5) / n, np.float64),
            "codes": as_text(column.codes, np.uint8),
            "gaps": [],
            "knots": {},
            "paths": {},
        }
    domain, (bars, edge, width) = column.column.domain, column.bars()
    shares = {name: [as_shares(values, domain) for values in lists] for name, lists in knots.items()}
    return {
        "domain": list(domain),
        "whole": bool(np.all(column.column.distinct == np.rint(column.column.distinct))),
        "bars": bars.tolist(),
        "barGrid": [edge, width],
        "centres": as_text(column.centres, np.float64),
        "codes": as_text(column.codes, np.uint8),
        "gaps": column.gaps(),
        "knots": {
            each: {"counts": [len(values) for values in lists], "values": as_text(np.concatenate(lists), np.float64)}
            for each, lists in shares.items()
        },
        # Two bytes a knot: a path is for the eye, and its last step is exact to 0.002 % of the domain.
        "paths": {
            each: {"count": steps.shape[1], "values": as_text(np.rint(steps * 65535.0), np.uint16)}
            for each, steps in paths.items()
        },
    }


def as_text(values: npt.NDArray[Any], dtype: type) -> str:
    """Return the bytes of an array as text, little-endian as in every browser."""
    array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode("ascii")


def _others(
    learned: Columns, unimportant: list[Any], read: dict[int, PageColumn], names: list[Any], chosen: list[int]
) -> list[dict[str, Any]]:
    """Return the columns that the page does not show, by reason."""
    ignored = [label for label, role in zip(learned.labels, learned.roles, strict=True) if role == Role.IGNORED]
    empty = [names[place] for place, column in read.items() if not len(column.counts)]
    skipped = [name for index, name in enumerate(names) if index not in set(chosen)]
    reasons = {
        f"less important; name them by columns= or --columns to see them ({PAGE.columns} fit in a page)": unimportant,
        "not among the columns that were asked for": skipped,
        "identifiers, free text or constants, which are ignored": ignored,
        "without a value in the training rows": empty,
    }
    return [{"reason": reason, "names": [str(name) for name in some]} for reason, some in reasons.items() if some]


def _choices(unavailable: dict[str, str]) -> dict[str, Any]:
    """Return families, placements, sizes and degrees, and the methods that name pairs of them."""
    methods = {
        f"{method.family}/{method.placement}": name
        for name, method in METHOD_TABLE.items()
        if method.has_knots and not (method.learnable or method.adaptive or method.embedding)
    }
    return {
        "families": [
            {"name": name, "label": family.label, "short": family.short, "hasDegree": family.has_degree}
            for name, family in ((name, FAMILIES[name]) for name in PAGE.families)
        ],
        "placements": [
            {"name": name, "label": placement_traits(name).label, "unavailable": unavailable.get(name, "")}
            for name in PLACEMENTS
        ],
        "boosted": PAGE.slow,
        "sizes": sorted(PAGE.sizes),
        "degrees": list(PAGE.degrees),
        "methods": methods,
    }
