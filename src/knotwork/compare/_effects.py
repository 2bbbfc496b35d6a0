"""Features of a model: distribution, knots, partial dependence, single rows, and the strongest pairs."""

import calendar
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._preparation.columns import CodedTable, Columns, Role
from knotwork.compare._source import Source
from knotwork.encoders._transformers import SplineEncoder
from knotwork.errors import MissingPackageError
from knotwork.estimators._estimators import TabularClassifier
from knotwork.knots import PLACEMENTS
from knotwork.knots._placements import placement_traits
from knotwork.training._members import to_usual_range

__all__ = ["MODEL_KNOTS", "Effect", "Pair", "feature_effects", "numbers_by_name", "ordered_categories"]

Floats = npt.NDArray[np.float64]

FIRST_YEAR, DAYS_OF_YEAR = 1970.0, 365.2425
"""Dates are drawn over years: elapsed days count from this one."""

MODEL_KNOTS = "this model"

ROWS_SHOWN, ROWS_AVERAGED, ROWS_PAIRED = 20_000, 150, 50
"""Random rows of histograms and knots, and of partial dependences of one and of two features."""

N_GRID, N_BINS, N_PAIRED = 33, 32, 12
MOST_CATEGORIES, MOST_CLASSES, MOST_LINES, MOST_PAIRS, MOST_OTHERS = 12, 4, 30, 3, 20
TAIL = 0.005
"""Share of the values at each end that figures omit, because a single outlier would compress the others."""

FLAT, NOTABLE, EXPLAINED = 0.25, 0.1, 0.15
"""A feature has a pair if its partial dependence has less than the share FLAT of the variation of single rows, its
importance at least the share NOTABLE of the largest, and the other feature explains the share EXPLAINED of what the
partial dependence does not."""

ORDERS: list[Sequence[str]] = [
    calendar.month_name[1:],
    calendar.month_abbr[1:],
    list(calendar.day_name),
    list(calendar.day_abbr),
]
"""Names with an order that everybody knows."""


@dataclass(frozen=True, eq=False)
class Pair:
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
class Effect:
    """One feature of a model.

    `importance` is the increase of the loss when the column is shuffled. `values` are numbers or categories, and
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
    edges: Floats | None
    knots: Mapping[str, Floats]
    missing: float
    pair: Pair | None = None

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return self.values.dtype.kind == "f"


def feature_effects(
    model: Any, source: Source, *, size: int, most: int = 12, deadline: float | None = None
) -> Iterator[Effect]:
    """Yield the most important features of a fitted estimator, the most important first, at most `most` of them.

    Knots of placements are for `size` columns per feature. After `deadline`, on the clock of ``time.perf_counter``, no
    feature but the first is computed, and no pair.
    """
    shown = source.draw(ROWS_SHOWN, seed=1)
    # In random order: the first rows of an ordered table would not stand for the others.
    averaged = shown.draw(ROWS_AVERAGED, seed=2).features.sample(frac=1, random_state=0)
    importances = model.feature_importances_
    numbers = _numbers(model, shown.features)
    roles, names = model.columns_.roles, model.columns_.names
    drawn = {place for place, role in enumerate(roles) if role == "categorical" or names[place] in numbers}
    order = [place for place in np.argsort(-importances, kind="stable").tolist() if place in drawn]
    others = [model.columns_.names[place] for place in order[:MOST_OTHERS]]
    n_pairs = 0
    for n_done, place in enumerate(order[:most]):
        if n_done and deadline is not None and time.perf_counter() > deadline:
            return
        name, importance = model.columns_.names[place], float(importances[place])
        if name in numbers:
            effect, responses = _number_effect(model, name, numbers[name], averaged=averaged, shown=shown, size=size)
        else:
            effect, responses = _category_effect(model, name, averaged, shown)
        is_early = deadline is None or time.perf_counter() < deadline
        if is_early and n_pairs < MOST_PAIRS and importance > NOTABLE * max(importances.max(), 0.0):
            pair = _strongest_pair(model, effect, responses, averaged, others=others, numbers=numbers, shown=shown)
            n_pairs += pair is not None
            effect = replace(effect, pair=pair)
        yield replace(effect, importance=importance)


def _numbers(model: Any, features: pd.DataFrame) -> dict[str, Floats]:
    """Return the numerical columns as the model reads them, and dates as years, by name."""
    return numbers_by_name(model.columns_, model.columns_.read(features))


def numbers_by_name(columns: Columns, table: CodedTable) -> dict[str, Floats]:
    """Return the numbers of a table by the names of its columns, dates as years with a fraction."""
    out = {}
    for column, span in zip(columns, columns.spans, strict=True):
        if column.role == Role.NUMERICAL:
            out[str(column.name)] = table.values(span)[:, 0]
        elif column.has_elapsed_days:
            out[str(column.name)] = _as_years(table.values(span)[:, 0])
    return out


def _as_years(days: Floats) -> Floats:
    return FIRST_YEAR + days / DAYS_OF_YEAR


def _as_cells(model: Any, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values of an axis as the model takes them: dates for years."""
    if model.columns_.roles[model.columns_.names.index(name)] != "date":
        return values
    microseconds = np.round((values - FIRST_YEAR) * DAYS_OF_YEAR * 86_400e6)
    return microseconds.astype(np.int64).astype("datetime64[us]")


def _number_effect(
    model: Any, name: str, column: Floats, *, averaged: pd.DataFrame, shown: Source, size: int
) -> tuple[Effect, dict[str, Floats]]:
    known = ~np.isnan(column)
    present = column[known] if known.any() else np.zeros(1)
    low, high = _ends(present)
    grid = _grid(present, N_GRID)
    counts, edges = _histogram(present, grid, low, high)
    knots = _placed(column[known], shown.target[known], shown.task, size)
    of_networks = _model_knots(model, name)
    if of_networks:
        knots[MODEL_KNOTS] = of_networks[0]
    responses = _responses(model, averaged, {name: grid})
    curves, lines = _curves(responses)
    return Effect(name, 0.0, grid, curves, lines, counts, edges, knots, 1 - float(known.mean())), responses


def _model_knots(model: Any, name: str) -> list[Floats]:
    """Return the knots of a column in each network that has any: waves have none."""
    columns = model.columns_
    place = columns.names.index(name)
    number = columns.numerical_names[columns.spans[place][1].start]
    knots = [network[number] for network in model.knots_ if len(network[number])]
    return [_as_years(each) for each in knots] if columns.roles[place] == "date" else knots


def _ends(present: Floats) -> tuple[float, float]:
    """Return the ends of the axis: those of all values but the tails, unless nothing else is left."""
    low, high = np.quantile(present, [TAIL, 1 - TAIL])
    return (float(low), float(high)) if low < high else (float(present.min()), float(present.max()))


def _grid(present: Floats, most: int) -> Floats:
    """Return the distinct values of a column without its tails, or `most` numbers at equal distances."""
    low, high = _ends(present)
    distinct = np.unique(present)
    inside = distinct[(distinct >= low) & (distinct <= high)]
    if len(inside) <= most:
        return inside
    grid = np.linspace(low, high, most)
    return np.unique(np.round(grid)) if _is_whole(inside) else grid


def _is_whole(values: Floats) -> bool:
    return bool((values == np.round(values)).all())


def _histogram(present: Floats, grid: Floats, low: float, high: float) -> tuple[npt.NDArray[np.int64], Floats | None]:
    """Return rows per value if the grid has them all, otherwise rows per bin and the edges of the bins."""
    inside = present[(present >= low) & (present <= high)]
    if np.isin(inside, grid).all():
        return np.searchsorted(np.sort(inside), grid, "right") - np.searchsorted(np.sort(inside), grid, "left"), None
    bins: Any = N_BINS
    if _is_whole(inside):
        # Bins of whole numbers have the same number of values each; others would show waves that are not in the data.
        width = np.ceil((high - low + 1) / N_BINS)
        bins = np.arange(low - 0.5, high + width, width)
    counts, edges = np.histogram(inside, bins=bins, range=(low, high))
    return counts.astype(np.int64), edges


def _placed(column: Floats, target: npt.NDArray[Any], task: str, size: int) -> dict[str, Floats]:
    """Return the knots of each placement, as a model would place them; none for a constant column."""
    if len(column) == 0:
        return {}
    column = to_usual_range(column)
    if column.min() == column.max():
        return {}
    encoder, knots = SplineEncoder(size=max(size, 5), task=task), {}
    for name in PLACEMENTS:
        with suppress(MissingPackageError):  # without LightGBM, its row is missing
            fitted = encoder.set_params(placement=name).fit(column[:, None], target)
            knots[placement_traits(name).label] = fitted.knots_[0]
    return knots


def _category_effect(model: Any, name: str, averaged: pd.DataFrame, shown: Source) -> tuple[Effect, dict[str, Floats]]:
    column = shown.features[name]
    frequent = column.value_counts().head(MOST_CATEGORIES)
    values = ordered_categories(column, frequent.index.tolist())
    responses = _responses(model, averaged, {name: values})
    curves, lines = _curves(responses)
    counts = np.array([frequent[value] for value in values], dtype=np.int64)
    return Effect(name, 0.0, values, curves, lines, counts, None, {}, float(column.isna().mean())), responses


def ordered_categories(column: pd.Series, frequent: Sequence[Any]) -> npt.NDArray[Any]:
    """Return categories in their order, if they have one, otherwise the most frequent first, as they are given.

    An order is that of an ordered column, of months and days of the week, or of the numbers that all begin with.

    Examples
    --------
    >>> ordered_categories(pd.Series(dtype=object), ["March", "January", "may"]).tolist()
    ['January', 'March', 'may']
    >>> ordered_categories(pd.Series(dtype=object), ["10 to 20", "5 to 9", "100"]).tolist()
    ['5 to 9', '10 to 20', '100']
    """
    out = np.empty(len(frequent), dtype=object)
    out[:] = list(frequent)
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
        return out[np.argsort(column.cat.categories.get_indexer(pd.Index(frequent)), kind="stable")]
    words = [str(value).strip().lower() for value in frequent]
    for names in ORDERS:
        order = [name.lower() for name in names]
        if words and set(words) <= set(order):
            return out[np.argsort([order.index(word) for word in words], kind="stable")]
    starts = [re.match(r"[-+]?\d+(\.\d+)?", word) for word in words]
    numbers = [float(start.group()) for start in starts if start is not None]
    return out[np.argsort(numbers, kind="stable")] if len(numbers) == len(words) else out


def _responses(model: Any, rows: pd.DataFrame, columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, Floats]:
    """Return predictions of shape (n_values, n_rows) for rows whose columns are set to each of their values in turn.

    Numbers have the label "". Of classes, those with the largest probabilities are returned; of two, the second.
    """
    n_values = len(next(iter(columns.values())))
    repeated = pd.concat([rows] * n_values, ignore_index=True)
    for name, values in columns.items():
        repeated[name] = np.repeat(_as_cells(model, name, values), len(rows))
    if not isinstance(model, TabularClassifier):
        return {"": model.predict(repeated).reshape(n_values, len(rows))}
    shares = model.predict_proba(repeated).reshape(n_values, len(rows), -1)
    labels = [str(label) for label in model.classes_.tolist()]
    if len(labels) == 2:
        return {labels[1]: shares[:, :, 1]}
    largest = np.sort(np.argsort(-shares.mean(axis=(0, 1)))[:MOST_CLASSES])
    return {labels[place]: shares[:, :, place] for place in largest.tolist()}


def _curves(responses: Mapping[str, Floats]) -> tuple[dict[str, Floats], Floats]:
    """Return the means over rows, and the lines of single rows if there is one curve."""
    curves = {label: values.mean(axis=1) for label, values in responses.items()}
    first = next(iter(responses.values()))
    return curves, first.T[:MOST_LINES] if len(responses) == 1 else np.empty((0, len(first)))


def _strongest_pair(
    model: Any,
    effect: Effect,
    responses: Mapping[str, Floats],
    rows: pd.DataFrame,
    *,
    others: Sequence[str],
    numbers: Mapping[str, Floats],
    shown: Source,
) -> Pair | None:
    """Return the pair of a feature whose partial dependence is flat although the lines of single rows are not.

    The second feature is one of `others`, the most important ones.
    """
    label, varying = max(responses.items(), key=lambda item: float(item[1].var(axis=0).mean()))
    along = float(varying.var(axis=0).mean())
    if along == 0 or varying.mean(axis=1).var() > FLAT * along:
        return None
    rest = varying - varying.mean(axis=0)
    rest = rest - rest.mean(axis=1, keepdims=True)
    read = _numbers(model, rows)
    explained = {name: _explained(rest, _groups(rows[name], read.get(name))) for name in others if name != effect.name}
    if not explained or max(explained.values()) < EXPLAINED:
        return None
    other = max(explained, key=lambda name: explained[name])
    values = effect.values
    if len(values) > N_PAIRED:
        values = values[np.unique(np.linspace(0, len(values) - 1, N_PAIRED).round().astype(int))]
    with_values = _other_values(other, numbers.get(other), shown.features)
    columns = {effect.name: np.tile(values, len(with_values)), other: np.repeat(with_values, len(values))}
    surface = _responses(model, rows.head(ROWS_PAIRED), columns)
    if label not in surface:  # of many classes, others may be the largest here
        return None
    means = surface[label].mean(axis=1).reshape(len(with_values), len(values))
    return Pair(other, values, with_values, means, label)


def _groups(column: pd.Series, numbers: Floats | None) -> npt.NDArray[np.intp]:
    """Return four groups of rows by their numbers, or rows by category; rows without a value are a group."""
    if numbers is not None:
        return pd.qcut(pd.Series(numbers), 4, labels=False, duplicates="drop").fillna(-1).to_numpy()
    codes = pd.factorize(column)[0]
    return np.where(np.isin(codes, np.argsort(-np.bincount(codes + 1))[:6] - 1), codes, -2)


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


def _other_values(name: str, column: Floats | None, features: pd.DataFrame) -> npt.NDArray[Any]:
    if column is not None:
        return _grid(column[~np.isnan(column)], N_PAIRED)
    return ordered_categories(features[name], features[name].value_counts().head(N_PAIRED).index.tolist())
