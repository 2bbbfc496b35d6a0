"""Features of a model: distribution, knots, partial dependence, single rows, and the strongest pairs."""

import calendar
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._preparation.columns import CodedTable, Columns, Role, TableColumn
from knotwork.compare._inputs import Source
from knotwork.encoders import SplineEncoder
from knotwork.errors import MissingPackageError
from knotwork.estimators import (
    EFFECTS,
    FeatureEffect,
    averaged_rows,
    column_effect,
    representatives,
    responses_at,
)
from knotwork.knots import PLACEMENTS, placement_traits, to_usual_range

Floats = npt.NDArray[np.float64]

MODEL_KNOTS = "this model"


@dataclass(frozen=True)
class DrawingRule:
    """How much of a feature is drawn: what a figure of the width of a phone has room for, and costs seconds at most.

    Parameters
    ----------
    rows : int
        Random rows of histograms and knots.
    points, bins : int
        Values of a number at which the partial dependence is computed, and bins of its histogram.
    categories, classes, lines : int
        Most categories, classes of the target, and lines of single rows.
    """

    rows: int = 20_000
    points: int = 33
    bins: int = 32
    categories: int = 12
    classes: int = 4
    lines: int = 30


DRAWN = DrawingRule()


@dataclass(frozen=True)
class PairRule:
    """When a feature is drawn together with another one, because its effect depends on it.

    Parameters
    ----------
    flat : float
        The variance of its partial dependence is at most this share of the mean variance of single rows.
    notable : float
        Its importance is at least this share of the largest.
    explained : float
        The other feature explains at least this share of what the partial dependence does not show.
    n_others, n_pairs : int
        Features that are tried as the other one, the most important ones, and pairs that are drawn.
    n_points, n_rows : int
        Values of each of the two features, and rows whose predictions are averaged: 12 x 12 values of 50 rows take as
        many predictions as a partial dependence, 33 values of 200 rows.
    """

    flat: float = 0.25
    notable: float = 0.1
    explained: float = 0.15
    n_others: int = 20
    n_pairs: int = 3
    n_points: int = 12
    n_rows: int = 50


DRAWN_PAIRS = PairRule()

CALENDAR: list[Sequence[str]] = [
    calendar.month_name[1:],
    calendar.month_abbr[1:],
    list(calendar.day_name),
    list(calendar.day_abbr),
]
"""Names in their usual order."""


@dataclass(frozen=True, eq=False)
class FeaturePair:
    """Mean prediction by two features.

    `surface` has the shape (n_others, n_values), for the `values` of a feature and the `others` of the feature
    `other_name`. `label` is the class whose probability it is, empty for numbers.
    """

    other_name: str
    values: npt.NDArray[Any]
    others: npt.NDArray[Any]
    surface: Floats
    label: str


@dataclass(frozen=True, eq=False)
class ShownFeature:
    """One feature of a model.

    `importance` is the increase of the loss when the column is shuffled. `values` are numbers, dates or categories, and
    `curves` the mean prediction at each, or the mean probability of each class shown; `lines` are predictions of single
    rows, of shape (n_lines, n_values), without rows if there are several curves. `counts` are rows per value, or per
    bin between `edges` if there are too many values. `knots` has those of each placement and of the model, `missing`
    the share of missing values. `pair` has the feature that explains most of what the curve does not show, if any.
    """

    name: str
    importance: float
    values: npt.NDArray[Any]
    curves: Mapping[str, Floats]
    lines: Floats
    counts: npt.NDArray[np.int64]
    edges: npt.NDArray[Any] | None
    knots: Mapping[str, npt.NDArray[Any]]
    missing: float
    pair: FeaturePair | None = None


def feature_effects(
    model: Any, source: Source, *, size: int, most: int = 12, deadline: float = math.inf
) -> Iterator[ShownFeature]:
    """Yield the most important features of a fitted model, the most important first, at most `most` of them.

    `model` is a `FittedModel`, or has the same columns, responses, importances and knots.
    `source` has the rows that the model was fitted on. Knots of placements are for `size` columns per feature. After
    `deadline`, on the clock of ``time.perf_counter``, no feature but the first is computed, and no pair.
    """
    features, importances = _Features(model, source, size), model.importances
    order = [place for place in np.argsort(-importances, kind="stable").tolist() if features.is_drawn(place)]
    notable, n_pairs = DRAWN_PAIRS.notable * max(importances.max(), 0.0), 0
    for n_done, place in enumerate(order[:most]):
        if n_done and time.perf_counter() > deadline:
            return
        entries = features.entries(place, DRAWN.points)
        if not len(entries):  # all values are missing in these rows
            continue
        effect, pair = column_effect(model, features.averaged, place, entries), None
        if importances[place] > notable and n_pairs < DRAWN_PAIRS.n_pairs and time.perf_counter() < deadline:
            pair = features.strongest_pair(
                place, effect, [each for each in order[: DRAWN_PAIRS.n_others] if each != place]
            )
            n_pairs += pair is not None
        yield features.show(place, effect, pair)


def numbers_by_name(columns: Columns, table: CodedTable) -> dict[str, npt.NDArray[Any]]:
    """Return the numbers of a table by the names of its columns, and dates as such."""
    return {
        str(column.name): _in_units(column, table.values(span)[:, 0])
        for column, span in zip(columns, columns.spans, strict=True)
        if _is_axis(column)
    }


def _is_axis(column: TableColumn) -> bool:
    """Return whether a column is drawn by its first number: a quantity, or the elapsed days of a date."""
    return column.role == Role.NUMERICAL or column.has_elapsed_days


def _in_units(column: TableColumn, numbers: Floats) -> npt.NDArray[Any]:
    """Return numbers of a column as they are drawn: dates instead of days since 1970."""
    if column.role != Role.DATE:
        return numbers
    return np.where(np.isnan(numbers), np.nan, 86400.0 * numbers).astype("datetime64[s]")


class _Features:
    """The rows by which the features of a model are drawn."""

    def __init__(self, model: Any, source: Source, size: int) -> None:
        rows = source.places(DRAWN.rows, seed=1)
        self.model, self.source, self.size = model, source, size
        self.table, self.target = source.read.table.take(rows), source.target[rows]
        self.averaged, self.columns, self.knots = averaged_rows(self.table), model.columns, model.knots
        self.labels = [""] if source.task == "regression" else model.response_names

    def is_drawn(self, place: int) -> bool:
        """Return whether a column is drawn: numbers, dates and categories are, times of day are not."""
        return _is_axis(self.columns[place]) or self.columns[place].role == Role.CATEGORICAL

    def entries(self, place: int, n_points: int) -> npt.NDArray[Any]:
        """Return the values at which a column is drawn: without missing categories and values far out."""
        span = self.columns.spans[place]
        values = self.table.values(span)
        entries = representatives(values, span, n_points)
        if _is_axis(self.columns[place]):
            low, high = _ends(values[~np.isnan(values[:, 0]), 0])
            return entries[(entries[:, 0] >= low) & (entries[:, 0] <= high)]
        entries = entries[entries[:, 0] > 0][: min(n_points, DRAWN.categories)]
        frequent = self.shown_values(place, entries).tolist()
        ordered = ordered_categories(self.source.features.iloc[:, place], frequent).tolist()
        return entries[[frequent.index(label) for label in ordered]]

    def shown_values(self, place: int, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values as they are drawn: numbers, dates, or categories."""
        column = self.columns[place]
        if _is_axis(column):
            return _in_units(column, entries[:, 0])
        return np.array([column.categories[code - 1] for code in entries[:, 0].tolist()], dtype=object)

    def show(self, place: int, effect: FeatureEffect, pair: FeaturePair | None) -> ShownFeature:
        """Return a feature as it is drawn."""
        column, outputs = self.columns[place], self._shown_outputs(effect)
        values, shown = self.table.values(self.columns.spans[place])[:, 0], self.shown_values(place, effect.entries)
        edges, knots = None, dict[str, Floats]()
        if _is_axis(column):
            present = ~np.isnan(values)
            counts, edges = _histogram(values[present], effect.entries[:, 0])
            knots = _placed(values[present], self.target[present], self.source.task, self.size)
            number = self.columns.numerical_names[self.columns.spans[place].places.start]
            of_members = [placed[number] for placed in self.knots if len(placed.get(number, ()))]  # not of waves
            if of_members:
                knots[MODEL_KNOTS] = of_members[0]
        else:
            present = values > 0
            counts = np.bincount(values, minlength=int(effect.entries.max()) + 1)[effect.entries[:, 0]]
        return ShownFeature(
            effect.name,
            float(self.model.importances[place]),
            shown,
            {self.labels[output]: effect.mean[:, output] for output in outputs},
            effect.lines[: DRAWN.lines, :, outputs[0]] if len(outputs) == 1 else np.empty((0, len(shown))),
            counts,
            None if edges is None else _in_units(column, edges),
            {name: _in_units(column, each) for name, each in knots.items()},
            1 - float(present.mean()),
            pair,
        )

    def _shown_outputs(self, effect: FeatureEffect) -> list[int]:
        """Return the outputs that are drawn: of two classes the second, of more those with the largest means."""
        if len(self.labels) <= 2:
            return [len(self.labels) - 1]
        largest: list[int] = np.sort(np.argsort(-effect.mean.mean(axis=0))[: DRAWN.classes]).tolist()
        return largest

    def strongest_pair(self, place: int, effect: FeatureEffect, others: Sequence[int]) -> FeaturePair | None:
        """Return the pair of a feature whose partial dependence is flat although the lines of single rows are not.

        The second feature is one of `others`, the places of the most important ones.
        """
        varying = effect.lines.var(axis=1).mean(axis=0)
        spread = {output: float(varying[output]) for output in self._shown_outputs(effect)}
        output = max(spread, key=lambda each: spread[each])
        if spread[output] == 0 or effect.mean[:, output].var() > DRAWN_PAIRS.flat * spread[output]:
            return None
        rest = effect.lines[:, :, output] - effect.lines[:, :, output].mean(axis=1, keepdims=True)
        rest = (rest - rest.mean(axis=0)).T
        explained = {other: _explained(rest, self._groups(other)) for other in others}
        if not explained or max(explained.values()) < DRAWN_PAIRS.explained:
            return None
        other = max(explained, key=lambda each: explained[each])
        chosen = np.unique(np.linspace(0, len(effect.entries) - 1, DRAWN_PAIRS.n_points).round().astype(int))
        values, with_values = effect.entries[chosen], self.entries(other, DRAWN_PAIRS.n_points)
        settings = [
            (self.columns.spans[place], np.tile(values, (len(with_values), 1))),
            (self.columns.spans[other], np.repeat(with_values, len(values), axis=0)),
        ]
        responses = responses_at(self.model, self.averaged.take(slice(DRAWN_PAIRS.n_rows)), settings)[:, :, output]
        surface = responses.mean(axis=0).reshape(len(with_values), len(values))
        shown = (self.shown_values(place, values), self.shown_values(other, with_values))
        return FeaturePair(str(self.columns[other].name), *shown, surface, self.labels[output])

    def _groups(self, place: int) -> npt.NDArray[Any]:
        """Return four groups of rows by a number, or rows by category; rows without a value are a group."""
        column = self.averaged.values(self.columns.spans[place])[:, 0]
        if _is_axis(self.columns[place]):
            return pd.qcut(pd.Series(column), 4, labels=False, duplicates="drop").fillna(-1).to_numpy()
        frequent = np.argsort(-np.bincount(column), kind="stable")[:6]
        return np.where(np.isin(column, frequent), column, -1)


def _ends(present: Floats) -> tuple[float, float]:
    """Return the ends of the axis: those of all values but the tails, unless these ends are equal."""
    if not len(present):
        return 0.0, 0.0
    low, high = np.quantile(present, [EFFECTS.outermost, 1 - EFFECTS.outermost])
    return (float(low), float(high)) if low < high else (float(present.min()), float(present.max()))


def _histogram(present: Floats, grid: Floats) -> tuple[npt.NDArray[np.int64], Floats | None]:
    """Return rows per value if the grid has them all, otherwise rows per bin and the edges of the bins."""
    low, high = _ends(present)
    inside = np.sort(present[(present >= low) & (present <= high)])
    if np.isin(inside, grid).all():
        return np.searchsorted(inside, grid, "right") - np.searchsorted(inside, grid, "left"), None
    bins: int | Floats = DRAWN.bins
    if (inside == np.round(inside)).all():
        # Bins of whole numbers have the same number of values each; others would show waves that are not in the data.
        width = np.ceil((high - low + 1) / DRAWN.bins)
        bins = np.arange(low - 0.5, high + width, width)
    counts, edges = np.histogram(inside, bins=bins, range=(low, high))
    return counts.astype(np.int64), edges


def _placed(column: Floats, target: npt.NDArray[Any], task: str, size: int) -> dict[str, Floats]:
    """Return the knots of each placement, as a model would place them; none for a constant column."""
    column = to_usual_range(column) if len(column) else column
    if len(np.unique(column)) < 2:
        return {}
    encoder, knots = SplineEncoder(size=max(size, 5), task=task), {}
    for name in PLACEMENTS:
        with suppress(MissingPackageError):  # without LightGBM, its knots are not shown
            fitted = encoder.set_params(placement=name).fit(column[:, None], target)
            knots[placement_traits(name).label] = fitted.knots_[0]
    return knots


def ordered_categories(column: pd.Series, frequent: Sequence[Any]) -> npt.NDArray[Any]:
    """Return categories in their order if they have one, otherwise as they are passed, the most frequent first.

    The order is that of an ordered column, of months or days of the week, or of numbers with which all begin.

    Examples
    --------
    >>> ordered_categories(pd.Series(dtype=object), ["March", "January", "may"]).tolist()
    ['January', 'March', 'may']
    >>> ordered_categories(pd.Series(dtype=object), ["10 to 20", "5 to 9", "100"]).tolist()
    ['5 to 9', '10 to 20', '100']
    """
    out = np.empty(len(frequent), dtype=object)
    out[:] = list(frequent)
    words = [str(value).strip().lower() for value in frequent]
    starts = [re.match(r"[-+]?\d+(\.\d+)?", word) for word in words]
    ranks: Sequence[float] | npt.NDArray[np.intp] = [float(start.group()) for start in starts if start is not None]
    for names in CALENDAR:
        order = [name.lower() for name in names]
        if set(words) <= set(order):
            ranks = [order.index(word) for word in words]
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
        ranks = column.cat.categories.get_indexer(pd.Index(frequent))
    return out[np.argsort(ranks, kind="stable")] if len(ranks) == len(out) else out


def _explained(rest: Floats, groups: npt.NDArray[Any]) -> float:
    """Return the share of the variation of lines (n_values, n_rows) that groups of rows explain, above chance."""
    total = float((rest**2).sum())
    labels = np.unique(groups)
    if total == 0 or len(labels) < 2:
        return 0.0
    between = sum(
        int((groups == group).sum()) * float((rest[:, groups == group].mean(axis=1) ** 2).sum()) for group in labels
    )
    return between / total - (len(labels) - 1) / (len(groups) - 1)
