"""What a fitted additive model shows: curves and surfaces with intervals, contributions, and their plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from knotwork._checks import argument_error, listed, suggestion
from knotwork._look import LIGHT, TYPE
from knotwork._pictures import name_panel, name_values, name_vertical, panels
from knotwork._preparation.columns import CodedTable
from knotwork.additive._terms import Category, Curve, Surface, Term
from knotwork.basis import FloatArray

if TYPE_CHECKING:
    from knotwork.additive._models import AdditiveModel

EFFECT_POINTS, EFFECT_SIDE_POINTS = 200, 40
"""Points of a curve, and of each side of a surface."""

MOST_DRAWN_CATEGORIES = 20
"""Categories in a plot, those with the largest effects."""

LONGEST_LABEL = 18
"""Characters of a category in a plot."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """What each column or term adds to each prediction: ``baseline + values.sum(axis=1)`` is the prediction.

    Parameters
    ----------
    names : list
        The columns, or the terms of an additive model.
    values : ndarray of shape (n, n_columns) or (n, n_columns, n_outputs)
        Contributions: numbers in the units of the target, or probabilities of classes; of two classes, of the second.
        Those of an additive model add up to its `decision_function`.
    baseline : float or ndarray of shape (n_outputs,)
        Mean prediction of the background rows, or the intercept.
    """

    names: list[Any]
    values: FloatArray
    baseline: Any

    def to_frame(self) -> Any:
        """Return a data frame with a column for each name; of several outputs with a row for each row and output."""
        import pandas as pd  # noqa: PLC0415 - an installation without extras has none

        if self.values.ndim == 2:
            return pd.DataFrame(self.values, columns=self.names)
        n_rows, n_columns, n_outputs = self.values.shape
        index = pd.MultiIndex.from_product([range(n_rows), range(n_outputs)], names=["row", "output"])
        return pd.DataFrame(self.values.swapaxes(1, 2).reshape(-1, n_columns), index=index, columns=self.names)


@dataclass(frozen=True, eq=False)
class AdditiveEffect:
    """The effect of a column or of a pair on the prediction; of a classifier on the log odds.

    Parameters
    ----------
    name : object
        The column, or a pair of columns as a tuple.
    values : ndarray of shape (k,) or (k, 2)
        Values of the column: numbers, increasing, with NaN in front if missing values have an effect, or categories. Of
        a pair the values of both.
    effect, low, high : ndarray of shape (k,) or (k, n_classes)
        The effect, and the ends of its interval.
    degrees : float or ndarray of shape (n_classes,)
        Effective degrees of freedom: 0 for no effect, 1 for a straight line, more for a curve.
    """

    name: Any
    values: npt.NDArray[Any]
    effect: FloatArray
    low: FloatArray
    high: FloatArray
    degrees: Any


def effects_of(model: "AdditiveModel", columns: Sequence[Any] | None, interval: float) -> list[AdditiveEffect]:
    """Return the effects of terms; see `AdditiveModel.effects`."""
    names = [term.name for term in model.terms_]
    columns = [columns] if isinstance(columns, str) else columns
    places = range(len(names)) if columns is None else [_place(names, name) for name in columns]
    return [_effect(model, place, float(ndtri(0.5 + 0.5 * interval))) for place in places]


def _place(names: list[Any], name: Any) -> int:
    term = tuple(name) if isinstance(name, list) else name
    if term not in names:
        hint = suggestion(term, names)
        raise argument_error("columns", f"name terms of the model, {listed(names)}", name, hint)
    return names.index(term)


def _effect(model: "AdditiveModel", place: int, factor: float) -> AdditiveEffect:
    term = model.terms_[place]
    values, table = _grid(model, term)
    rows = term.combine(term.encode(table))
    before = 1 + sum(each.width for each in model.terms_[:place])
    piece = slice(before, before + term.width)
    effect = np.stack([rows @ solution.beta[piece] for solution in model.solutions_], axis=1)
    covariances = [solution.covariance[piece, piece] for solution in model.solutions_]
    variances = [np.maximum(np.einsum("ij,jk,ik->i", rows, each, rows), 0.0) for each in covariances]
    errors = [each.unit * np.sqrt(variance) for each, variance in zip(model.solutions_, variances, strict=True)]
    margin = factor * np.stack(errors, axis=1)
    degrees = np.array([solution.degrees[place] for solution in model.solutions_])
    if len(model.solutions_) == 1:
        effect, margin = effect[:, 0], margin[:, 0]
    used = float(degrees[0]) if len(degrees) == 1 else degrees
    return AdditiveEffect(term.name, values, effect, effect - margin, effect + margin, used)


def _grid(model: "AdditiveModel", term: Term) -> tuple[npt.NDArray[Any], CodedTable]:
    """Return values at which a term is shown, and a table with them."""
    sides = term.sides if isinstance(term, Surface) else (term,)
    values, entries = zip(*(_side(model, side, is_pair=len(sides) > 1) for side in sides), strict=True)
    lengths = [len(each) for each in values]
    order = [each.ravel() for each in np.indices(lengths)]
    n_rows = len(order[0])
    columns = model.columns_
    table = CodedTable(
        np.zeros((n_rows, len(columns.numerical_names))), np.zeros((n_rows, len(columns.categories)), dtype=np.int64)
    )
    for side, entry, places in zip(sides, entries, order, strict=True):
        assert isinstance(side, Curve | Category)
        (table.numbers if isinstance(side, Curve) else table.codes)[:, side.place] = entry[places]
    if len(sides) == 1:
        return values[0], table
    shown = np.empty((n_rows, 2), dtype=np.result_type(*values))
    for column, (each, places) in enumerate(zip(values, order, strict=True)):
        shown[:, column] = each[places]
    return shown, table


def _side(model: "AdditiveModel", side: Term, *, is_pair: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return values of a column, and the entries of a table that stand for them."""
    if isinstance(side, Category):
        labels = ["missing or new", *model.columns_.categories[side.place]]
        codes = np.flatnonzero(side.groups >= 0)
        return np.array([labels[code] for code in codes.tolist()], dtype=object), codes
    assert isinstance(side, Curve)
    low, high = side.basis.domain
    values = np.concatenate([[low], side.basis.knots, [high]])
    if side.basis.degree > 1:
        shares = np.linspace(0.0, 1.0, EFFECT_SIDE_POINTS if is_pair else EFFECT_POINTS)
        even = (1.0 - shares) * low + shares * high
        values = even if is_pair else np.union1d(values, even)  # knots are where rows are
    if side.has_missing and not is_pair:
        values = np.concatenate([[np.nan], values])
    return values, values


def plot(model: "AdditiveModel", shown: Sequence[AdditiveEffect]) -> Any:
    """Return a figure with a panel for each effect; see `AdditiveModel.plot_effects`."""
    figure, axes = panels(len(shown), "plot_effects")
    from knotwork._ticks import round_ticks  # noqa: PLC0415 - needs matplotlib

    outputs, columns = model._output_names(), model.columns_
    elapsed = {
        columns.numerical_names[span.places.start]
        for column, span in zip(columns, columns.spans, strict=True)
        if column.has_elapsed_days
    }
    name_vertical(axes, f"effect on the {'log odds' if hasattr(model, 'classes_') else 'prediction'}")
    for axis, effect in zip(axes, shown, strict=True):
        _draw(axis, effect, outputs)
        if effect.values.ndim == 1 and effect.values.dtype.kind == "f":
            round_ticks(axis.xaxis, 4, dates=effect.name in elapsed)
    curves = [axis for axis, effect in zip(axes, shown, strict=True) if effect.values.ndim == 1]
    for axis in curves[1:]:
        axis.sharey(curves[0])  # effects are compared by their heights
    if curves:
        curves[0].autoscale_view()
    for axis in curves:
        round_ticks(axis.yaxis)
    _mark_knots(model, axes, shown)
    return figure


def _mark_knots(model: "AdditiveModel", axes: Any, shown: Sequence[AdditiveEffect]) -> None:
    """Draw the knots of curves as ticks below them: between two of them are about equally many rows."""
    curves = {term.name: term for term in model.terms_ if isinstance(term, Curve)}
    for axis, effect in zip(axes, shown, strict=True):
        if effect.name in curves:
            knots = curves[effect.name].basis.knots
            axis.plot(
                knots, np.full(len(knots), 0.02), "|", color="0.5", markersize=6, transform=axis.get_xaxis_transform()
            )


def _draw(axis: Any, effect: AdditiveEffect, outputs: list[str]) -> None:
    name_panel(axis, " x ".join(map(str, effect.name)) if isinstance(effect.name, tuple) else effect.name)
    if effect.values.ndim == 2:
        _draw_map(axis, effect)
        return
    axis.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    if effect.values.dtype.kind == "f":
        _draw_curve(axis, effect, outputs)
    else:
        _draw_categories(axis, effect, outputs)
    if len(outputs) > 1:
        for text in axis.legend(fontsize=TYPE.small, frameon=False).get_texts():
            text.set_parse_math(False)


def _draw_curve(axis: Any, effect: AdditiveEffect, outputs: list[str]) -> None:
    """Draw a line with its interval; the effect of missing values is a dot beside it."""
    known = ~np.isnan(effect.values)
    x = effect.values[known]
    for column, output in enumerate(outputs):
        values, low, high = (_column(each, column) for each in (effect.effect, effect.low, effect.high))
        look = {"color": LIGHT.blue} if len(outputs) == 1 else {}
        (line,) = axis.plot(x, values[known], linewidth=1.6, label=output, **look)
        axis.fill_between(x, low[known], high[known], alpha=0.2, color=line.get_color(), linewidth=0)
        if not known.all():
            beside = x[0] - 0.06 * (x[-1] - x[0])
            errors = [values[:1] - low[:1], high[:1] - values[:1]]
            axis.errorbar([beside], values[:1], yerr=errors, fmt="o", markersize=4, capsize=2, color=line.get_color())
    if not known.all():
        axis.annotate("missing", (beside, values[0]), (5, 5), textcoords="offset points", fontsize=TYPE.tiny)


def _draw_categories(axis: Any, effect: AdditiveEffect, outputs: list[str]) -> None:
    largest = np.abs(effect.effect.reshape(len(effect.values), -1)).max(axis=1)
    chosen = np.sort(np.argsort(-largest, kind="stable")[:MOST_DRAWN_CATEGORIES])
    x = np.arange(len(chosen))
    for column, output in enumerate(outputs):
        values, low, high = (_column(each, column)[chosen] for each in (effect.effect, effect.low, effect.high))
        errors = [values - low, high - values]
        look = {"color": LIGHT.blue} if len(outputs) == 1 else {}
        axis.errorbar(x, values, yerr=errors, fmt="o", markersize=4, capsize=2, label=output, **look)
    name_values(axis, x, effect.values[chosen].tolist())


def _draw_map(axis: Any, effect: AdditiveEffect) -> None:
    """Draw a surface as a map; of several classes that of the last one."""
    surface = _column(effect.effect, effect.effect.shape[1] - 1 if effect.effect.ndim == 2 else 0)
    ticks = []
    for column in (0, 1):
        values = effect.values[:, column]
        order = list(dict.fromkeys(values.tolist()))
        is_number = all(isinstance(value, float) for value in order)
        ticks.append((np.array(order) if is_number else np.arange(len(order)), None if is_number else order))
    largest = max(float(np.abs(surface).max()), 1e-300)
    grid = surface.reshape(len(ticks[0][0]), len(ticks[1][0])).T
    drawn = axis.pcolormesh(ticks[0][0], ticks[1][0], grid, cmap="RdBu_r", vmin=-largest, vmax=largest, shading="auto")
    for set_ticks, (places, labels) in zip((axis.set_xticks, axis.set_yticks), ticks, strict=True):
        if labels is not None:
            set_ticks(places, [_short(label) for label in labels], fontsize=TYPE.small, parse_math=False)
    axis.set_xlabel(str(effect.name[0]), fontsize=TYPE.small, parse_math=False)
    axis.set_ylabel(str(effect.name[1]), fontsize=TYPE.small, parse_math=False)
    axis.figure.colorbar(drawn, ax=axis)


def _column(values: FloatArray, column: int) -> FloatArray:
    return values if values.ndim == 1 else values[:, column]


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"
