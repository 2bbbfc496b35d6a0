"""Explanations of fitted estimators: effects of columns, contributions to single predictions, pictures and plots.

Everything is computed on a table as networks take it, in which a column of the user is one number, several (a date)
or a code. So explanations work on frames with text, dates and missing values, and no value is invented: a column takes
only values that rows of the table have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from knotwork._checks import argument_error, check_int, listed, suggestion
from knotwork._look import LIGHT, TYPE
from knotwork._pictures import name_panel, name_values, name_vertical, panels
from knotwork._preparation.columns import CodedTable, Span
from knotwork._writing import percent
from knotwork.estimators._model import FittedModel
from knotwork.training import METRICS

if TYPE_CHECKING:  # an estimator that is made does not load additive models
    from knotwork.additive import Contributions

Floats = npt.NDArray[np.float64]

ROWS_PER_CALL, NUMBERS_PER_CALL = 1 << 16, 1 << 24
"""Rows of one call of the networks, and numbers of a table whose rows are repeated for it."""


@dataclass(frozen=True)
class EffectRule:
    """How much of a table the effect of a column takes, and how much of that a plot shows; conventions.

    Parameters
    ----------
    n_rows : int
        Rows whose predictions are averaged.
    n_categories : int
        Categories, the most frequent ones.
    outermost : float
        Share of the rows at either end of a column at whose values no effect is computed: they say little.
    n_lines : int
        Lines of single rows in a plot.
    n_panels : int
        Columns in a plot, unless they are named.
    n_named : int
        Members whose learning curves have a colour and a name each.
    """

    n_rows: int = 200
    n_categories: int = 20
    outermost: float = 0.01
    n_lines: int = 40
    n_panels: int = 9
    n_named: int = 8


EFFECTS = EffectRule()


@dataclass(frozen=True, eq=False)
class FeatureEffect:
    """How predictions depend on one column.

    Parameters
    ----------
    name : str or int
        The column.
    values : ndarray of shape (k,)
        Its values: numbers, increasing (of a date the elapsed days), or categories, the most frequent first.
    mean : ndarray of shape (k, n_outputs)
        Mean prediction over rows whose column is set to each value (partial dependence): numbers, or probabilities.
    lines : ndarray of shape (n, k, n_outputs)
        The same for single rows (individual conditional expectation).
    outputs : list of str
        Names of the outputs: classes, or targets.
    entries : ndarray of shape (k, width)
        The same values as networks take them: several numbers of a date, the code of a category.
    """

    name: Any
    values: npt.NDArray[Any]
    mean: Floats
    lines: Floats
    outputs: list[str]
    entries: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class TableFunction:
    """A model as a function of a matrix of numbers, as libraries of explanations expect it.

    Parameters
    ----------
    matrix : ndarray of shape (n, d)
        The table: numbers, those that dates become, and codes of categories, 0 for a missing or unseen one.
    names : list of str
        Names of its columns.
    function : callable
        Takes such a matrix, and returns predictions of shape (n,), or probabilities of shape (n, n_classes).
    """

    matrix: Floats
    names: list[str]
    function: Callable[[Floats], Floats]


def effects(
    model: FittedModel, X: Any, columns: Sequence[Any] | None, *, n_points: int, seed: Any = 0
) -> list[FeatureEffect]:
    """Return the effects of columns on predictions; see `TabularRegressor.effects`."""
    check_int(n_points, "n_points", minimum=2)
    table, spans = model.columns.read(X), model.columns.spans
    rows = averaged_rows(table, seed)
    return [
        column_effect(model, rows, place, representatives(table.values(spans[place]), spans[place], n_points))
        for place in _places(model, columns)
    ]


def averaged_rows(table: CodedTable, seed: Any = 0) -> CodedTable:
    """Return the rows of a table whose predictions effects average."""
    return table.take(check_random_state(seed).permutation(table.n_rows)[: EFFECTS.n_rows])


def _places(model: FittedModel, columns: Sequence[Any] | None) -> list[int]:
    """Return the places of columns by their names; by default of all that networks see."""
    names, seen = model.columns.labels, model.columns.seen
    if columns is None:
        return seen
    columns = [columns] if isinstance(columns, str) else columns
    for name in columns:
        if name not in names or names.index(name) not in seen:
            known = [names[place] for place in seen]
            raise argument_error(
                "columns", f"name columns that the model uses, {listed(known)}", name, suggestion(name, known)
            )
    return [names.index(name) for name in columns]


def column_effect(model: FittedModel, rows: CodedTable, place: int, entries: npt.NDArray[Any]) -> FeatureEffect:
    """Return the effect of the column at a place, averaged over rows; `entries` are values of `representatives`."""
    columns = model.columns
    span, values = columns.spans[place], entries[:, 0]
    if span.field == "codes":
        labels = ["missing or new", *columns[place].categories]
        values = np.array([labels[code] for code in values.tolist()], dtype=object)
    lines = _responses_at(model, rows, [(span, entries)])
    return FeatureEffect(columns.labels[place], values, lines.mean(axis=0), lines, model.response_names, entries)


def representatives(entries: npt.NDArray[Any], span: Span, n_points: int) -> npt.NDArray[Any]:
    """Return values that cover those of a column, of shape (k, width): each is that of a row.

    Numbers are at most `n_points` quantiles, between which equal numbers of rows lie; of a date, quantiles of its first
    number. Categories are the most frequent ones.
    """
    column = entries[:, 0]
    known = np.flatnonzero(~np.isnan(column)) if span.field == "numbers" else np.arange(len(column))
    if not len(known):
        return entries[:1]
    distinct, first, counts = np.unique(column[known], return_index=True, return_counts=True)
    if span.field == "codes":
        chosen = np.argsort(-counts, kind="stable")[: EFFECTS.n_categories]
    elif len(distinct) <= n_points:
        chosen = np.arange(len(distinct))
    else:
        shares = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
        levels = np.linspace(EFFECTS.outermost, 1.0 - EFFECTS.outermost, n_points)
        chosen = np.unique(np.searchsorted(shares, levels).clip(max=len(distinct) - 1))
    return entries[known[first[chosen]]]


def _responses_at(model: FittedModel, rows: CodedTable, settings: Sequence[tuple[Span, npt.NDArray[Any]]]) -> Floats:
    """Return predictions or probabilities for rows whose columns are set to each of k values, (n, k, n_outputs).

    `settings` has k values of each column, of shape (k, width).
    """
    n_rows, n_values = rows.n_rows, len(settings[0][1])
    n_per_call = max(NUMBERS_PER_CALL // max(n_rows * (rows.numbers.shape[1] + rows.codes.shape[1]), 1), 1)
    parts = []
    for start in range(0, n_values, n_per_call):
        chosen = slice(start, min(start + n_per_call, n_values))
        repeated = rows.take(np.tile(np.arange(n_rows), chosen.stop - start))
        for span, values in settings:
            repeated = repeated.with_values(span, np.repeat(values[chosen], n_rows, axis=0))
        parts.append(_responses(model, repeated).reshape(chosen.stop - start, n_rows, -1))
    return np.concatenate(parts).swapaxes(0, 1)


def _responses(model: FittedModel, table: CodedTable) -> Floats:
    """Return predictions or probabilities, of shape (n, n_outputs)."""
    starts = range(0, len(table.numbers), ROWS_PER_CALL)
    parts = (table.take(slice(start, start + ROWS_PER_CALL)) for start in starts)
    return np.concatenate([model.responses(part) for part in parts])


def _shown(model: FittedModel) -> int | None:
    """Return the output that stands for all: the only one, or the second of two classes; None if there are more."""
    n_outputs = len(model.response_names)
    return n_outputs - 1 if n_outputs <= (2 if model.task.name == "classification" else 1) else None


def contributions(
    model: FittedModel, X: Any, background: Any, *, n_permutations: int, random_state: Any
) -> "Contributions":
    """Return the contributions of columns to predictions; see `TabularRegressor.contributions`."""
    from knotwork.additive import Contributions  # noqa: PLC0415 - an estimator that is made does not load it

    check_int(n_permutations, "n_permutations", minimum=1)
    random = check_random_state(random_state)
    table = model.columns.read(X)
    base = _background(model, background)
    columns = model.columns
    spans = [columns.spans[place] for place in columns.seen]
    n_rows, outputs = len(table.numbers), model.response_names
    total, baseline = np.zeros((n_rows, len(spans), len(outputs))), np.zeros(len(outputs))
    for place in range(n_permutations):
        # Each order is followed by its reverse, with the same background row, which halves the noise.
        if place % 2 == 0:
            order = random.permutation(len(spans))
            row = int(random.randint(len(base.numbers)))
        else:
            order = order[::-1]
        steps = _walk(model, table, base.take([row] * n_rows), [spans[i] for i in order])
        total[:, order] += np.diff(steps, axis=1) / n_permutations
        baseline += steps[0, 0] / n_permutations
    names = [columns.labels[place] for place in columns.seen]
    shown = _shown(model)
    if shown is not None:
        return Contributions(names, total[:, :, shown], float(baseline[shown]))
    return Contributions(names, total, baseline)


def _walk(model: FittedModel, table: CodedTable, base: CodedTable, spans: Sequence[Span]) -> Floats:
    """Return predictions while columns of the background become those of the table, (n, n_columns + 1, n_outputs)."""
    steps = [_responses(model, base)]
    for span in spans:
        base = base.with_values(span, table.values(span))
        steps.append(_responses(model, base))
    return np.stack(steps, axis=1)


def _background(model: FittedModel, background: Any) -> CodedTable:
    if background is not None:
        return model.columns.read(background)
    if model.held is None:
        hint = "A model that was loaded has no rows of its own: pass rows of the training table, a hundred or so."
        raise argument_error("background", "be given", None, hint)
    return model.held.table


def table_function(model: FittedModel, X: Any) -> TableFunction:
    """Return the model as a function of numbers; see `TabularRegressor.as_function`."""
    table = model.columns.read(X)
    n_numbers = table.numbers.shape[1]
    columns = model.columns
    coded = map(str, columns.categorical)
    limits = np.array([len(each) for each in columns.categories])

    def function(matrix: Floats) -> Floats:
        matrix = np.asarray(matrix, dtype=np.float64)
        # A library may pass codes between those of categories, or missing ones.
        codes = np.nan_to_num(np.rint(matrix[:, n_numbers:])).clip(0, limits).astype(np.int64)
        responses = _responses(model, CodedTable(matrix[:, :n_numbers], codes))
        return responses[:, 0] if responses.shape[1] == 1 else responses

    matrix = np.concatenate([table.numbers, table.codes], axis=1)
    return TableFunction(matrix, [*map(str, columns.numerical_names), *coded], function)


def plot_history(model: FittedModel) -> Any:
    """Return a figure of loss and validation score by epoch; see `TabularRegressor.plot_history`."""
    figure, (left, right) = panels(2, "plots")
    from knotwork._ticks import round_ticks  # noqa: PLC0415 - needs matplotlib

    shares = model.weights / model.weights.sum()
    few = len(shares) <= EFFECTS.n_named
    for place, (share, history) in enumerate(zip(shares.tolist(), model.history, strict=True)):
        epochs, colour = np.arange(1, len(history["loss"]) + 1), f"C{place}" if few else LIGHT.blue
        strong = {"alpha": 0.35 + 0.65 * share / shares.max(), "linewidth": 1.2, "color": colour}
        left.plot(epochs, history["loss"], **strong)
        right.plot(epochs, history["score"], label=f"member {place + 1}, weight {percent(share, 0)}", **strong)
        best = history["best_epoch"]
        if 0 < best <= len(epochs):
            right.plot(best, history["score"][best - 1], "o", color=colour, markersize=4)
    handles = right.get_legend_handles_labels()[0]
    if not few:  # the lines with the largest and the smallest weight stand for all
        handles = [handles[place] for place in (int(shares.argmax()), int(shares.argmin()))]
    (dot,) = right.plot([], [], "o", color="0.4", markersize=4, label="weights that are kept")
    right.legend(handles=[*handles, dot], fontsize=TYPE.small, frameon=False)
    metric = METRICS[model.history[0]["metric"]].label
    for axis, title in ((left, "training loss"), (right, f"validation {metric}")):
        axis.set_title(title, fontsize=TYPE.title)
        axis.set_xlabel("epoch", fontsize=TYPE.text)
        round_ticks(axis.xaxis, min(5, max(len(history["loss"]) for history in model.history)))
        round_ticks(axis.yaxis)
    return figure


def plot_effects(model: FittedModel, X: Any, columns: Sequence[Any] | None) -> Any:
    """Return a figure with a panel for each effect; see `TabularRegressor.plot_effects`."""
    if columns is None:
        order = np.argsort(-model.importances, kind="stable")
        seen = _places(model, None)
        columns = [model.columns.labels[place] for place in order.tolist() if place in seen][: EFFECTS.n_panels]
    shown = effects(model, X, columns, n_points=40)
    figure, axes = panels(len(shown), "plots")
    from knotwork._ticks import round_ticks  # noqa: PLC0415 - needs matplotlib

    place = _shown(model)
    outputs = list(range(shown[0].mean.shape[1])) if place is None else [place]
    for axis, effect in zip(axes, shown, strict=True):
        _draw_effect(axis, effect, outputs)
        if effect.values.dtype.kind == "f":
            column = model.columns[model.columns.labels.index(effect.name)]
            round_ticks(axis.xaxis, 4, dates=column.has_elapsed_days)
    low, high = _limits(shown, outputs)
    for axis in axes:
        axis.set_ylim(low, high)  # effects are compared by their heights
        round_ticks(axis.yaxis)
    what = f"probability of {shown[0].outputs[outputs[0]]}" if len(outputs) == 1 else "probability"
    if model.task.name == "regression":
        what = f"mean {'prediction' if model.target_name is None else model.target_name}"
    name_vertical(axes, what)
    return figure


def _draw_effect(axis: Any, effect: FeatureEffect, outputs: Sequence[int]) -> None:
    """Draw the mean of each output, and single rows if there is one output."""
    is_number = effect.values.dtype.kind == "f"
    x = effect.values if is_number else np.arange(len(effect.values))
    if len(outputs) == 1:
        axis.plot(x, effect.lines[: EFFECTS.n_lines, :, outputs[0]].T, color="0.7", linewidth=0.5, alpha=0.6)
    for output in outputs:
        look = {"color": LIGHT.blue} if len(outputs) == 1 else {}
        axis.plot(x, effect.mean[:, output], "-" if is_number else "o", lw=2, label=effect.outputs[output], **look)
    if not is_number:
        name_values(axis, x, effect.values.tolist())
    if len(outputs) > 1:
        for text in axis.legend(fontsize=TYPE.small, frameon=False).get_texts():
            text.set_parse_math(False)
    name_panel(axis, effect.name)


def _limits(shown: Sequence[FeatureEffect], outputs: Sequence[int]) -> tuple[float, float]:
    """Return the ends of the vertical axis: all means, and most single rows if they are drawn."""
    means = np.concatenate([effect.mean[:, outputs].ravel() for effect in shown])
    ends = means
    if len(outputs) == 1:
        rows = np.concatenate([effect.lines[: EFFECTS.n_lines, :, outputs].ravel() for effect in shown])
        ends = np.concatenate([means, np.quantile(rows, [0.02, 0.98])])
    low, high = float(ends.min()), float(ends.max())
    room = 0.05 * (high - low) or 0.05 * max(abs(high), 1.0)
    return low - room, high + room
