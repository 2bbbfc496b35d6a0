"""Figures of a comparison: the ranking, encodings of columns, confused classes, and learning curves.

All are drawn for the width of a phone; on wide screens, several stand side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix

from knotwork._look import TYPE
from knotwork._ticks import round_ticks
from knotwork._writing import percent, significant
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
    classes, columns : int
        Most classes of a confusion matrix, and columns of which choices are shown.
    faint : float
        Percent above the least error at which a cell of the choices is white.
    """

    classes: int = 8
    columns: int = 20
    faint: float = 5.0


ROOM = FigureRule()


def short(text: str, most: int) -> str:
    """Return a text for a figure: on one line, without characters that change its direction, cut after `most`."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _name(text: str) -> str:
    """Return a name for a caption or a description."""
    return short(text, 80)


def _small_figure(height: float, across: str, upwards: str) -> tuple[Figure, Axes]:
    """Return a figure for a phone, and its axes; `across` and `upwards` are the labels of the axes."""
    figure = new_figure(PHONE, height)
    axes = figure.subplots()
    clean_axes(axes, LIGHT)
    axes.tick_params(labelsize=TYPE.small)
    axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
    round_ticks(axes.yaxis)
    axes.set_xlabel(across, fontsize=TYPE.text)
    axes.set_ylabel(upwards, fontsize=TYPE.text)
    return figure, axes


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
    figure, axes = _small_figure(1.4 + 0.32 * len(labels), "predicted", "actual")
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


def learning_picture(ranking: Ranking) -> Picture | None:
    """Return the score on validation rows by epoch, one line per fold, of the recommended network; None without one."""
    line, name = ranking.chosen, ranking.metric_name
    unit = " The unit is the standard deviation of the target." if ranking.metric == "rmse" else ""
    histories = [history for history in line.scored.histories if history.epochs > 0]
    if not histories:
        return None
    figure, axes = _small_figure(2.6, "epoch", f"validation {name}")
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
