"""Figures of a comparison: the ranking, the quality of the predictions, and the features of the model.

All are drawn for the width of a phone; on wide screens, several stand side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix

from knotwork._look import TYPE
from knotwork._ticks import round_ticks
from knotwork._writing import date_text, fixed, percent, significant
from knotwork.compare._effects import MODEL_KNOTS, FeaturePair, ShownFeature, ordered_categories
from knotwork.compare._verdict import RankedRow, Ranking
from knotwork.encoders import FeatureChoice
from knotwork.report import LIGHT, PHONE, Picture, clean_axes, method_colour, new_figure

Floats = npt.NDArray[np.float64]

WIDE = 7.2
"""Width in inches of the ranking on wide screens."""


@dataclass(frozen=True)
class FigureRule:
    """How much a figure has room for on a phone, a choice by eye.

    Parameters
    ----------
    bands, single_values : int
        Bands of probabilities, and of a feature for residuals, each with about the same number of rows; this many
        different values or categories have a band each.
    classes, ticks, dates, columns : int
        Most classes of a confusion matrix, numbers and dates on an axis, and columns of which choices are shown.
    tail : float
        Share of the values at each end outside of figures of predictions: one outlier would compress the others.
    faint : float
        Percent above the least error at which a cell of the choices is white.
    """

    bands: int = 10
    single_values: int = 12
    classes: int = 8
    ticks: int = 7
    dates: int = 4
    columns: int = 20
    tail: float = 0.005
    faint: float = 5.0


ROOM = FigureRule()


def short(text: str, most: int) -> str:
    """Return a text for a figure: on one line, without characters that change its direction, cut after `most`."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _name(text: str) -> str:
    """Return a name for a caption or a description."""
    return short(text, 80)


def _places(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return where values stand on an axis: numbers at themselves, dates at their day, categories side by side."""
    if values.dtype.kind == "M":
        return (values - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    return values if values.dtype.kind == "f" else np.arange(len(values))


def _texts(values: npt.NDArray[Any], *, digits: int = 3, most: int = 80) -> list[str]:
    """Return numbers, dates as long as their span needs, or names of categories."""
    if values.dtype.kind == "M":
        days = _places(values)
        return [date_text(day, float(np.ptp(days))) for day in days.tolist()]
    if values.dtype.kind == "f":
        return [significant(value, digits) for value in values.tolist()]
    return [short(str(value), most) for value in values]


def _small_figure(
    height: float, across: str = "", upwards: str = "", *, ratios: Sequence[float] = (1.0,)
) -> tuple[Figure, list[Axes]]:
    """Return a figure for a phone, and its axes one above the other, which share the horizontal axis.

    `across` is the label of this axis, `upwards` that of the vertical axis at the top.
    """
    figure = new_figure(PHONE, height)
    grid = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios, squeeze=False)[:, 0].tolist()
    for axes in grid:
        clean_axes(axes, LIGHT)
        axes.tick_params(labelsize=TYPE.small)
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        round_ticks(axes.yaxis)
    grid[-1].set_xlabel(across, fontsize=TYPE.text)
    grid[0].set_ylabel(upwards, fontsize=TYPE.text)
    return figure, grid


def _figure_of_rows(names: Sequence[Any], width: float, extra: float, most: int) -> tuple[Figure, Axes]:
    """Return a figure with a row for each name, cut after `most` characters; `extra` is the height of the rest."""
    figure = new_figure(width, extra + 0.27 * len(names))
    axes = figure.subplots()
    clean_axes(axes, LIGHT)
    axes.set_yticks(np.arange(len(names)), [short(str(name), most) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    return figure, axes


def ranking_picture(ranking: Ranking) -> Picture:
    """Return the figure of the differences from the best row, with intervals, wide and for a phone."""
    lines, best = ranking.lines, ranking.best
    titles = {
        f"dot-{place}": f"{line.candidate}: mean {ranking.metric_name} {significant(line.mean)}"
        for place, line in enumerate(lines)
    }
    caption = (
        f"Mean difference from the best, {best.name}, over folds, with its 95 % interval; the recommended row is "
        "filled, squares are models without a network. An arrow marks an interval that is cut off."
    )
    label = f"Rows by {ranking.metric_name}. Best: {lines[0].candidate}. Recommended: {ranking.chosen.candidate}."
    return Picture("ranking", _draw_ranking(ranking, WIDE), caption, label, titles, _draw_ranking(ranking, PHONE))


def _draw_ranking(ranking: Ranking, width: float) -> Figure:
    lines = ranking.lines
    figure, axes = _figure_of_rows([line.candidate for line in lines], width, 0.9, 20 if width == PHONE else 40)
    axes.grid(axis="x", color=LIGHT.line, linewidth=0.6)
    axes.axvline(0, color=LIGHT.muted, linewidth=1)
    unit = 100 / ranking.best.mean if ranking.best.mean > 0 else 1.0
    left, right = _ranking_limits(lines, unit)
    for place, line in enumerate(lines):
        colour, marker = (
            method_colour(str(line.candidate), LIGHT),
            "o" if line.kind in ("encoding", "ensemble") else "s",
        )
        filled = colour if line is ranking.chosen else LIGHT.background
        low, middle, high = unit * line.low, unit * line.difference, unit * line.high
        axes.plot([max(low, left), min(high, right)], [place, place], color=colour, linewidth=1.6)
        for end, arrow, is_cut in ((left, "<", low < left), (right, ">", high > right)):
            if is_cut:
                axes.plot([end], [place], arrow, color=colour, markersize=6, clip_on=False, gid=f"cut-{place}")
        [dot] = axes.plot([middle], [place], marker, color=colour, markersize=6, gid=f"dot-{place}")
        dot.set_markerfacecolor(filled)
    axes.set_xlim(left, right)
    round_ticks(axes.xaxis, 6)
    label = f"% above the {ranking.metric_name} of {short(str(ranking.best.candidate), 30)}"
    axes.set_xlabel(label if width > PHONE else "% above the best", fontsize=TYPE.text)
    return figure


def _ranking_limits(lines: Sequence[RankedRow], unit: float) -> tuple[float, float]:
    """Return the ends of the axis: all differences are inside, and a wide interval does not compress the others."""
    low, middle, high = unit * np.array([[line.low, line.difference, line.high] for line in lines]).T
    span = max(float(np.ptp([*middle, 0.0])), 2.5 * float(np.median(high - middle)), 1e-6)
    left = max(float(low.min()), float(min(middle.min(), 0.0)) - 0.6 * span)
    right = min(float(high.max()), float(max(middle.max(), 0.0)) + 0.6 * span)
    return left - 0.05 * span, right + 0.05 * span


def choices_picture(choices: Sequence[FeatureChoice]) -> Picture:
    """Return the errors of all candidates for each column, with the one that is chosen, wide and for a phone.

    All choices have losses; the columns whose curves explain most are shown. Columns that need no encoding are last and
    have no cells.
    """
    shown = sorted(choices, key=lambda choice: (choice.needs_none, min(choice.losses.values())))[: ROOM.columns]
    chosen = {choice.column: "no encoding" if choice.needs_none else choice.encoding for choice in shown}
    titles = {
        f"choice-{place}": f"{_name(str(choice.column))}: {chosen[choice.column]}. {choice.reason}"
        for place, choice in enumerate(shown)
    }
    left_out = f" The other {len(choices) - len(shown)} columns explain less." if len(shown) < len(choices) else ""
    words = "; ".join(f"{_name(str(name))} {encoding}" for name, encoding in chosen.items())
    caption = (
        "Error of one column's curve in each encoding, on rows that it was not fitted to: the stronger the colour, the "
        f"better. Cells without colour are {percent(ROOM.faint / 100)} or more above the best. A dot marks the choice: "
        f"the first encoding from the left whose error is at most one standard error above the best.{left_out}"
    )
    label = f"Chosen encodings: {words}."
    return Picture("choices", _draw_choices(shown, WIDE), caption, label, titles, _draw_choices(shown, PHONE))


def _draw_choices(choices: Sequence[FeatureChoice], width: float) -> Figure:
    candidates = list(choices[0].losses)
    figure, axes = _figure_of_rows([choice.column for choice in choices], width, 1.0, 14 if width == PHONE else 34)
    axes.spines[["left", "bottom"]].set_visible(False)
    for row, choice in enumerate(choices):
        if choice.needs_none:
            axes.text(-0.4, row, choice.reason, fontsize=TYPE.tiny, color=LIGHT.muted, va="center", gid=f"choice-{row}")
            continue
        losses = np.array(list(choice.losses.values()))
        above = 100 * (losses / max(float(losses.min()), 1e-300) - 1.0)
        for column, excess in enumerate(above.tolist()):
            colour = to_rgba(LIGHT.blue, max(1.0 - excess / ROOM.faint, 0.0))
            axes.fill_between([column - 0.47, column + 0.47], row - 0.44, row + 0.44, color=colour, linewidth=0)
        place = candidates.index(choice.encoding)
        ink = LIGHT.background if above[place] < 0.4 * ROOM.faint else LIGHT.ink
        axes.plot([place], [row], "o", color=ink, markersize=5, gid=f"choice-{row}")
    turned = {"rotation": 90} if width == PHONE else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(candidates)), candidates, fontsize=TYPE.tiny, **turned)
    axes.set_xlim(-0.5, len(candidates) - 0.5)
    axes.tick_params(length=0)
    return figure


def predicted_picture(actual: Floats, predicted: Floats, *, target: str, model: str, name: str) -> Picture:
    """Return predicted against actual numbers: darker hexagons have more rows."""
    ends = np.quantile(np.concatenate([actual, predicted]), [ROOM.tail, 1 - ROOM.tail])
    room = 0.03 * float(np.ptp(ends)) or 1.0
    ends = ends + np.array([-room, room])
    figure, [axes] = _small_figure(3.3, f"actual {short(target, 28)}", f"predicted {short(target, 22)}")
    cells = axes.hexbin(actual, predicted, gridsize=22, extent=(*ends, *ends), mincnt=1, linewidths=0.1)
    counts = np.asarray(cells.get_array(), dtype=float)
    shares = np.clip(0.2 + 0.8 * np.log(counts) / max(np.log(counts.max(initial=1.0)), 1.0), 0.0, 1.0)  # 1 + 2e-16
    cells.set(array=None, facecolor=[to_rgba(LIGHT.blue, share) for share in shares.tolist()], edgecolor="none")
    axes.plot(ends, ends, color=LIGHT.red, linewidth=1.2, linestyle="--")
    axes.set(xlim=ends, ylim=ends)
    axes.set_aspect("equal")
    for axis in (axes.xaxis, axes.yaxis):
        round_ticks(axis)
    error = actual - predicted
    spread = float(np.sum((actual - actual.mean()) ** 2))
    r2 = f"R² {fixed(1 - float(np.sum(error**2)) / spread, 3)}" if spread > 0 else ""
    words = f"{model}: {r2}, mean absolute error {significant(float(np.abs(error).mean()), 3)}."
    label = f"Predicted against actual {_name(target)}. {words}"
    return Picture(name, figure, f"{words} Exact predictions lie on the line.", label)


def confusion_picture(
    actual: npt.NDArray[np.int64], shares: Floats, *, classes: Sequence[Any], model: str, name: str
) -> Picture:
    """Return how many rows of each class are predicted as which class; rare classes are one, named "other"."""
    kept = np.sort(np.argsort(-np.bincount(actual, minlength=len(classes)), kind="stable")[: ROOM.classes])
    labels = [short(str(classes[code]), 14) for code in kept]
    place = np.full(len(classes), len(kept))
    place[kept] = np.arange(len(kept))
    if len(classes) > len(kept):
        labels.append("other")
    chosen = shares.argmax(axis=1)
    of_row = confusion_matrix(place[actual], place[chosen], labels=np.arange(len(labels)), normalize="true")
    figure, [axes] = _small_figure(1.4 + 0.32 * len(labels), "predicted", "actual")
    axes.grid(visible=False)
    for (row, column), share in np.ndenumerate(of_row):
        colour = to_rgba(LIGHT.blue, share)
        axes.fill_between([column - 0.5, column + 0.5], row - 0.5, row + 0.5, color=colour, linewidth=0)
        ink = LIGHT.background if share > 0.65 else LIGHT.ink
        axes.text(column, row, percent(share, 0), ha="center", va="center", fontsize=TYPE.small, color=ink)
    turned = sum(map(len, labels)) > 30
    axes.set_xticks(np.arange(len(labels)), labels, rotation=35 if turned else 0, ha="right" if turned else "center")
    axes.set_yticks(np.arange(len(labels)), labels)
    axes.set(xlim=(-0.5, len(labels) - 0.5), ylim=(len(labels) - 0.5, -0.5))
    words = f"{model}: {percent(float((chosen == actual).mean()))} of rows are predicted correctly."
    label = f"Predicted against actual classes. {words}"
    return Picture(name, figure, f"{words} Each row of the figure adds up to 100 %.", label)


def calibration_picture(
    actual: npt.NDArray[np.int64], shares: Floats, *, classes: Sequence[Any], model: str, name: str
) -> Picture:
    """Return the observed share of a class by its predicted probability, with 95 % intervals.

    Of two classes, the second is shown; of more, the predicted one, whichever it is.
    """
    is_binary = len(classes) == 2
    probability = shares[:, 1] if is_binary else shares.max(axis=1)
    happened = actual == (1 if is_binary else shares.argmax(axis=1))
    event = short(str(classes[1]), 24) if is_binary else "the predicted class"
    bands = _bands(probability)
    x, y = (np.array([column[rows].mean() for rows in bands]) for column in (probability, happened.astype(float)))
    n = np.array([len(rows) for rows in bands])
    low, high = _wilson(y, n)
    figure, (axes, below) = _small_figure(
        3.5, f"predicted probability of {event}", f"share of {event}", ratios=(3.2, 0.7)
    )
    axes.plot([0, 1], [0, 1], color=LIGHT.red, linewidth=1.2, linestyle="--")
    axes.vlines(x, low, high, color=LIGHT.blue, linewidth=1.4)
    axes.plot(x, y, "o-", color=LIGHT.blue, linewidth=1.2, markersize=4.5, gid="calibration")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    below.hist(probability, bins=20, range=(0, 1), color=LIGHT.grey, alpha=0.6)
    below.set(yticks=[])
    below.set_ylabel("rows", fontsize=TYPE.small)
    below.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    error = float(np.sum(n * np.abs(x - y)) / n.sum())
    words = f"{model}: predicted and observed shares differ by {percent(error)} on average."
    caption = f"{words} Bands have about the same number of rows each; bars are 95 % intervals."
    return Picture(name, figure, caption, f"Calibration. {words}")


def _wilson(share: Floats, n: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's 95 % interval of shares of `n` rows, which stays within 0 and 1."""
    z = 1.96
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return middle - half, middle + half


def _bands(values: npt.NDArray[Any]) -> list[npt.NDArray[np.intp]]:
    """Return the rows of bands of a number, in order; equal values are in one band."""
    order = np.argsort(values, kind="stable")
    order = order[~np.isnan(values[order])]
    ordered = values[order]
    starts = np.searchsorted(ordered, np.quantile(ordered, np.arange(1, ROOM.bands) / ROOM.bands)) if len(order) else []
    if len(np.unique(ordered)) <= ROOM.single_values:
        starts = np.flatnonzero(np.diff(ordered)) + 1
    return [rows for rows in np.split(order, np.unique(starts)) if len(rows)]


def learning_picture(ranking: Ranking) -> Picture | None:
    """Return the score on validation rows by epoch, one line per fold, of the recommended network; None without one."""
    line, name = ranking.chosen, ranking.metric_name
    unit = " The unit is the standard deviation of the target." if ranking.metric == "rmse" else ""
    histories = [history for history in line.scored.histories if history.epochs > 0]
    if not histories:
        return None
    figure, [axes] = _small_figure(2.6, "epoch", f"validation {name}")
    scores = np.concatenate([history.score for history in histories])
    for fold, history in enumerate(histories):
        epochs = np.arange(1, history.epochs + 1)
        axes.plot(epochs, history.score, color=LIGHT.blue, linewidth=1.1, alpha=0.75, gid="learning")
        if history.best_epoch:
            best = history.best_epoch
            axes.plot([best], [history.score[best - 1]], "o", color=LIGHT.red, markersize=4, gid=f"kept-{fold}")
    low, first = float(np.nanmin(scores)), float(np.nanquantile(scores, 0.95))
    room = 0.06 * (first - low) or 0.05 * max(abs(low), 1.0)
    axes.set_ylim(low - room, first + room)  # the first epochs would compress the others
    round_ticks(axes.xaxis, min(6, max(history.epochs for history in histories)))
    capped, late = line.scored.n_stopped
    stopped = [f"{capped} reached the largest number of epochs"] if capped else []
    stopped += [f"{late} reached the time limit"] if late else []
    words = f"{line.candidate}, one line per fold; dots are the epochs whose weights are kept.{unit}"
    rest = f" Of {len(histories)} networks, {' and '.join(stopped)}: longer training may help." if stopped else ""
    return Picture("learning", figure, f"{words}{rest}", f"Learning curves of {words}{rest}")


@dataclass(frozen=True, eq=False)
class Bands:
    """Means of residuals in bands of a feature, with half of their 95 % intervals, by numbers, dates or labels."""

    name: str
    values: npt.NDArray[Any]
    means: Floats
    halves: Floats


def residual_bands(name: str, column: "npt.NDArray[Any] | pd.Series[Any]", residuals: Floats) -> Bands:
    """Return bands of numbers or dates, or a band for each of the most frequent categories.

    Bands have about the same number of rows, and few numbers have a band each; NaN is left out.
    """
    if isinstance(column, np.ndarray):
        numbers = _places(column)
        groups = _bands(numbers)
        values = np.array([numbers[rows].mean() for rows in groups])
        if column.dtype.kind == "M":
            values = (86400.0 * values).astype("datetime64[s]")
    else:
        values = ordered_categories(column, column.value_counts().head(ROOM.single_values).index.tolist())
        groups = [np.flatnonzero((column == label).to_numpy()) for label in values]
    means = np.array([residuals[rows].mean() for rows in groups])
    halves = np.array([1.96 * residuals[rows].std() / np.sqrt(len(rows)) for rows in groups])
    return Bands(name, values, means, halves)


def residual_picture(bands: Bands, place: int, *, limits: tuple[float, float]) -> Picture:
    """Return the mean of residuals, with 95 % intervals, by the value of a feature."""
    figure, [axes] = _small_figure(2.1, short(bands.name, 44), "mean residual")
    where, style = _places(bands.values), "o-" if bands.values.dtype.kind in "fM" else "o"
    axes.axhline(0, color=LIGHT.muted, linewidth=1)
    axes.vlines(where, bands.means - bands.halves, bands.means + bands.halves, color=LIGHT.blue, linewidth=1.4)
    axes.plot(where, bands.means, style, color=LIGHT.blue, linewidth=1, markersize=4, gid="residuals")
    axes.set_ylim(*limits)
    words = "All values are missing."
    if len(bands.means):
        _value_ticks(axes, bands.values)
        far = int(np.argmax(np.abs(bands.means)))
        at, mean = _texts(bands.values)[far], significant(float(bands.means[far]), 3)
        words = f"The mean is farthest from 0 at {at}: {mean}."
    caption = f"{_name(bands.name)}. {words}"
    return Picture(f"residual-{place}", figure, caption, f"Mean residual by {caption}")


def effect_limits(effects: Sequence[ShownFeature]) -> tuple[float, float]:
    """Return limits of the vertical axis that suit the curves of all features, and most lines of single rows."""
    curves = [curve for effect in effects for curve in effect.curves.values()] or [np.array([0.0, 1.0])]
    lines = [effect.lines.ravel() for effect in effects if effect.lines.size]
    inner = [np.quantile(np.concatenate(lines), [0.03, 0.97])] if lines else []
    values = np.concatenate([*curves, *inner])
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    return low - room, high + room


def effect_picture(
    effect: ShownFeature, place: int, *, target: str, limits: tuple[float, float], has_classes: bool
) -> Picture:
    """Return the figure of a feature: partial dependence, knots and histogram, one above the other.

    `place` makes the name of the figure unique; `limits` of the vertical axis are the same for all features.
    """
    ratios = [2.0, 0.18 * len(effect.knots) + 0.1, 0.6] if effect.knots else [2.0, 0.6]
    single = f"probability of {short(next(iter(effect.curves)), 14)}" if len(effect.curves) == 1 else "probability"
    shown = single if has_classes else short(target, 22)
    figure, grid = _small_figure(0.75 + sum(ratios), short(effect.name, 44), f"mean {shown}", ratios=ratios)
    _draw_curves(grid[0], effect)
    grid[0].set_ylim(*limits)
    if effect.knots:
        _draw_knots(grid[1], effect)
    _draw_counts(grid[-1], effect)
    missing = f", missing in {percent(effect.missing)} of rows" if effect.missing > 0 else ""
    weight = "Shuffling it does not raise the loss."
    if effect.importance > 0:
        weight = f"Shuffling it raises the loss by {significant(effect.importance, 3)}."
    label, curve = max(effect.curves.items(), key=lambda item: float(np.ptp(item[1])))
    at = _texts(effect.values)
    low, high = int(curve.argmin()), int(curve.argmax())
    course = (
        f"{_name(label or target)}: from {significant(float(curve[low]), 3)} at {at[low]} to "
        f"{significant(float(curve[high]), 3)} at {at[high]}."
    )
    label = f"Partial dependence on {_name(effect.name)}, its knots and its distribution. Mean {course}"
    return Picture(f"feature-{place}", figure, f"{_name(effect.name)}{missing}. {weight}", label)


def _draw_curves(axes: Axes, effect: ShownFeature) -> None:
    colours = [LIGHT.blue, LIGHT.orange, LIGHT.green, LIGHT.pink]
    where, is_number = _places(effect.values), effect.values.dtype.kind in "fM"
    dots, line = "o" if not is_number or len(effect.values) <= 10 else "", "-" if is_number else "none"
    for single in effect.lines:
        axes.plot(where, single, color=LIGHT.grey, linewidth=0.6, alpha=0.45, zorder=1, gid="single")
    drawn = [
        axes.plot(where, curve, ls=line, marker=dots, color=colour, lw=2, markersize=5, zorder=2, gid="curve")[0]
        for curve, colour in zip(effect.curves.values(), colours, strict=False)
    ]
    if len(drawn) > 1:
        labels = [short(label, 14) for label in effect.curves]
        axes.legend(drawn, labels, fontsize=TYPE.tiny, frameon=False, labelcolor=LIGHT.ink, ncols=2).set_zorder(3)


def _draw_knots(axes: Axes, effect: ShownFeature) -> None:
    """Draw the knots of each placement as a row of ticks."""
    rows = list(effect.knots)
    for place, (name, knots) in enumerate(effect.knots.items()):
        colour = LIGHT.red if name == MODEL_KNOTS else LIGHT.muted
        axes.plot(
            _places(knots),
            np.full(len(knots), place),
            "|",
            color=colour,
            markersize=8,
            markeredgewidth=1.3,
            gid="knots",
        )
    axes.set_yticks(np.arange(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", labelsize=TYPE.tiny, length=0)
    axes.spines["left"].set_visible(False)


def _draw_counts(axes: Axes, effect: ShownFeature) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylabel("rows", fontsize=TYPE.small, color=LIGHT.muted)
    if effect.edges is not None:
        edges = _places(effect.edges)
        axes.stairs(effect.counts, edges, fill=True, color=LIGHT.grey, alpha=0.6)
        span = edges[-1] - edges[0]
        axes.set_xlim(edges[0] - 0.02 * span, edges[-1] + 0.02 * span)
        _number_ticks(axes, effect.edges)
        return
    where = _places(effect.values)
    gap = float(np.diff(where).min()) if len(where) > 1 else 1.0
    width = max(0.75 * gap, float(np.ptp(where)) / 150)
    axes.bar(where, effect.counts, color=LIGHT.grey, alpha=0.6, width=width)
    axes.set_xlim(where[0] - max(0.6 * gap, width), where[-1] + max(0.6 * gap, width))
    _value_ticks(axes, effect.values)


def _number_ticks(axes: Axes, values: npt.NDArray[Any]) -> None:
    is_date = values.dtype.kind == "M"
    round_ticks(axes.xaxis, ROOM.dates if is_date else ROOM.ticks - 1, dates=is_date)


def _value_ticks(axes: Axes, values: npt.NDArray[Any]) -> None:
    """Label categories, or numbers if they are few; between many numbers, ticks are at equal distances."""
    where = _places(values)
    if values.dtype.kind not in "fM":
        labels = _texts(values, most=16)
        turned = sum(map(len, labels)) > 34
        angle, side = (40, "right") if turned else (0, "center")
        axes.set_xticks(where, labels, rotation=angle, ha=side, fontsize=TYPE.tiny)
    elif len(values) <= (ROOM.dates if values.dtype.kind == "M" else ROOM.ticks):
        axes.set_xticks(where, _texts(values, digits=4))
    elif values.dtype.kind == "f" and np.allclose(np.diff(values), values[1] - values[0]):
        shown = values[:: -(-len(values) // ROOM.ticks)]
        axes.set_xticks(shown, _texts(shown, digits=4))
    else:
        _number_ticks(axes, values)


def pair_picture(effect: ShownFeature, pair: FeaturePair, place: int, *, target: str) -> Picture:
    """Return the heatmap of a pair of features."""
    figure, [axes] = _small_figure(2.7, short(effect.name, 40), short(pair.other_name, 28))
    axes.grid(visible=False)
    # The lightness alone of these colours shows the order.
    shades = figure.axes[0].pcolormesh(pair.surface, cmap="cividis", linewidth=0, antialiased=True, gid="pair")
    for axis, values in ((axes.xaxis, pair.values), (axes.yaxis, pair.others)):
        kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), 6)).round().astype(int))
        axis.set_ticks((kept + 0.5).tolist(), _texts(values[kept], most=10))
    axes.tick_params(axis="x", labelrotation=0)
    bar = figure.colorbar(shades, ax=axes)
    round_ticks(bar.ax.yaxis)
    if bar.solids is not None:
        bar.solids.set_rasterized(False)  # images do not follow the mode of the page
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=TYPE.tiny, labelcolor=LIGHT.ink, colors=LIGHT.muted)
    what = f"probability of {_name(pair.label)}" if pair.label else _name(target)
    name, other = _name(effect.name), _name(pair.other_name)
    words = f"Mean {what} by {name} and {other}"
    caption = f"{words}: alone, {name} shows little, because its effect depends on {other}."
    low, high = (significant(float(end), 3) for end in (pair.surface.min(), pair.surface.max()))
    return Picture(f"pair-{place}", figure, caption, f"{words}: from {low} to {high}.")
