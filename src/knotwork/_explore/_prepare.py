"""The data of the page, prepared once: rows, groups of values, knots of every placement and paths of learned knots.

The rows are a random sample, and each column has the means of at most 255 groups of neighbouring values.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, listed
from knotwork._preparation.columns import Columns, Role
from knotwork._preparation.targets import Labels, check_target
from knotwork._writing import counted
from knotwork.basis import FAMILIES, FloatArray, binary_unit
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
    coarse : int
        Groups of neighbouring bins for the importance of a column.
    families : tuple of str
        The families that the page can compute, the most used first.
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
    coarse: int = 32
    families: tuple[str, ...] = ("bspline", "ispline", "ple", "mspline")
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

    def importance(self, target: FloatArray) -> float:
        """Return the share of the target's variance on held-out rows that means of groups of training rows explain.

        Parameters
        ----------
        target : ndarray of shape (n_training + n_held_out, n_outputs)
            The target; the variances of several outputs are added.
        """
        groups = np.append(_groups(self.counts, PAGE.coarse), -1)
        coarse = groups[np.minimum(self.codes, len(groups) - 1)] + 1  # missing values are a group
        training, held_out = target[: self.n_training], target[self.n_training :]
        total = ((held_out - training.mean(axis=0)) ** 2).sum() if len(held_out) else 0.0
        if not total > 0:
            return 0.0
        counts = np.bincount(coarse[: self.n_training], minlength=PAGE.coarse + 2) + 1e-9
        error = 0.0
        for train, test in zip(training.T, held_out.T, strict=True):
            # One row of the overall mean is added to each group, so that groups of few rows do not follow noise.
            sums = np.bincount(coarse[: self.n_training], train, minlength=len(counts)) + train.mean()
            error += float(((test - (sums / (counts + 1.0))[coarse[self.n_training :]]) ** 2).sum())
        return max(0.0, 1.0 - error / float(total))


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


def prepare(
    X: Any, y: Any, *, task: str | None = None, columns: Iterable[Any] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return the data of the page in the form that ``json.dumps`` takes; parameters as in `explore`."""
    learned, table = Columns.learn(X)
    names = learned.numerical_names
    outcome = _Outcome.from_values(y, task)
    n_rows = len(outcome.values)
    if n_rows != len(table.numbers):
        raise argument_error("y", f"have as many values as X has rows, {len(table.numbers)}", n_rows)
    if n_rows < 3:
        raise ColumnError(f"X has {n_rows} rows, and the page needs at least 3. Add rows.")
    if not names:
        raise ColumnError("X has no numerical column, and only these have knots. Add one, or convert text to numbers.")
    training, held_out = draw_split(n_rows, seed)
    rows = np.concatenate([training, held_out])
    chosen = _check_columns(columns, names)
    binned = {index: BinnedColumn.from_values(table.numbers[rows, index], len(training)) for index in chosen}
    order, left_out = _rank(binned, outcome.outputs[rows])
    target = Target.from_values(outcome.values[training], outcome.task)
    kept = [binned[index] for index, _ in order]
    knots, unavailable = _place(kept, target)
    paths, why_not = _learn(kept, outcome.outputs[training])
    target_rows = {"values": _text(outcome.outputs[rows, 0], np.float32)}
    if outcome.classes:
        target_rows = {"codes": _text(outcome.values[rows], np.uint8)}
    described = [
        _describe(binned[index], names[index], importance, knots[place], paths[place])
        for place, (index, importance) in enumerate(order)
    ]
    return {
        "task": outcome.task,
        "classes": [str(label) for label in outcome.classes],
        "target": {"centre": outcome.centre, "scale": outcome.scale, **target_rows},
        "rows": {"all": n_rows, "training": len(training), "heldOut": len(held_out)},
        "columns": described,
        "others": _others(learned, [names[index] for index in left_out], binned, names, chosen),
        **_choices(unavailable),
        "learning": {"degree": PAGE.degrees[-1], "reason": why_not, "columns": PAGE.learned},
    }


def _check_columns(columns: Iterable[Any] | None, names: list[Any]) -> list[int]:
    """Return the positions of the columns that the user names, by default of all."""
    if columns is None:
        return list(range(len(names)))
    named = [columns] if isinstance(columns, str) else list(columns)
    for each in named:
        if each not in names:
            raise argument_error("columns", "name numerical columns of X", each, f"These are {listed(names, most=30)}.")
    return [index for index, name in enumerate(names) if name in named]


def _rank(binned: dict[int, BinnedColumn], outputs: FloatArray) -> tuple[list[tuple[int, float]], list[int]]:
    """Return the columns of the page with their importance, the largest first, and the columns left out for size."""
    importance = {index: column.importance(outputs) for index, column in binned.items() if len(column.centres)}
    order = sorted(importance.items(), key=lambda pair: -pair[1])
    if not order:
        raise ColumnError("All values of all numerical columns are missing in the training rows. Add columns or rows.")
    return order[: PAGE.columns], [index for index, _ in order[PAGE.columns :]]


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
    if find_spec("torch") is None:
        return paths, 'Knots are learned by torch, which is not installed: pip install "knotwork[torch]"'
    from knotwork._explore._paths import learn_paths  # noqa: PLC0415 - torch is optional, and slow to import

    learned = learn_paths(
        columns[: PAGE.learned], outputs, sizes=PAGE.sizes, families=PAGE.families, seconds=PAGE.learning_seconds
    )
    for path, each in zip(paths, learned, strict=False):
        path |= {f"{family}@{size}": steps for (family, size), steps in each.items()}
    return paths, ""


def _describe(
    column: BinnedColumn, name: Any, importance: float, knots: dict[str, Any], paths: dict[str, Any]
) -> dict[str, Any]:
    """Return a column in the form that ``json.dumps`` takes; arrays become text."""
    domain, (bars, edge, width) = column.column.domain, column.bars()
    shares = {name: [as_shares(values, domain) for values in lists] for name, lists in knots.items()}
    return {
        "name": str(name),
        "key": name,
        "importance": round(importance, 4),
        "domain": list(domain),
        "whole": bool(np.all(column.column.distinct == np.rint(column.column.distinct))),
        "bars": bars.tolist(),
        "barGrid": [edge, width],
        "centres": _text(column.centres, np.float64),
        "codes": _text(column.codes, np.uint8),
        "knots": {
            each: {"counts": [len(values) for values in lists], "values": _text(np.concatenate(lists), np.float64)}
            for each, lists in shares.items()
        },
        # Two bytes a knot: a path is for the eye, and its last step is exact to 0.002 % of the domain.
        "paths": {
            each: {"count": steps.shape[1], "values": _text(np.rint(steps * 65535.0), np.uint16)}
            for each, steps in paths.items()
        },
    }


def _text(values: npt.NDArray[Any], dtype: type) -> str:
    """Return the bytes of an array as text, little-endian as in every browser."""
    array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode("ascii")


def _others(
    learned: Columns, unimportant: list[Any], binned: dict[int, BinnedColumn], names: list[Any], chosen: list[int]
) -> list[dict[str, Any]]:
    """Return the columns that the page does not show, by reason."""
    ignored = [label for label, role in zip(learned.labels, learned.roles, strict=True) if role == Role.IGNORED]
    empty = [names[index] for index, column in binned.items() if not len(column.centres)]
    skipped = [name for index, name in enumerate(names) if index not in set(chosen)]
    reasons = {
        f"less important; name them by columns= or --columns to see them ({PAGE.columns} fit in a page)": unimportant,
        "not among the columns that were asked for": skipped,
        "categories, which have no knots": list(learned.categorical),
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
