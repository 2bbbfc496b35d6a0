"""Pictures of a comparison: the candidates with their intervals, and each feature."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from knotwork.compare._effects import MODEL_KNOTS, Effect
from knotwork.compare._verdict import Ranking, significant
from knotwork.report._page import Picture
from knotwork.report._style import LIGHT, Theme, clean_axes, method_colour

__all__ = ["effect_picture", "ranking_picture"]


def ranking_picture(ranking: Ranking) -> Picture:
    """Return how much worse each candidate is than the best, with intervals."""
    theme, lines = LIGHT, ranking.lines
    figure = Figure(figsize=(7.2, 0.9 + 0.27 * len(lines)), layout="constrained", facecolor=theme.background)
    axes = figure.subplots()
    clean_axes(axes, theme)
    axes.grid(axis="x", color=theme.line, linewidth=0.6)
    axes.axvline(0, color=theme.muted, linewidth=1)
    unit = 100 / ranking.lines[0].mean if ranking.lines[0].mean > 0 else 1.0
    titles = {}
    for place, line in enumerate(lines):
        colour = method_colour(line.candidate.method, theme)
        axes.plot([unit * line.low, unit * line.high], [place, place], color=colour, linewidth=1.6)
        fill = colour if line is ranking.chosen else theme.background
        axes.plot(
            [unit * line.difference], [place], "o", color=colour, markerfacecolor=fill, markersize=6, gid=f"dot-{place}"
        )
        titles[f"dot-{place}"] = f"{line.candidate}: mean {ranking.metric_name} {significant(line.mean)}"
    axes.set_yticks(np.arange(len(lines)), [str(line.candidate) for line in lines])
    axes.invert_yaxis()
    points = np.array([[line.difference, line.high] for line in lines]) * unit
    far = max(2.5 * float(np.median(points[:, 1])), 1.15 * float(points[:, 0].max()), 1e-6)
    least = min(float(np.quantile([unit * line.low for line in lines], 0.25)), 0.0)
    axes.set_xlim(max(least, -far) - 0.03 * far, min(float(points[:, 1].max()), far) + 0.05 * far)
    axes.set_xlabel(f"{ranking.metric_name} above the best, in % of it (lower is better)", fontsize=9)
    return Picture(
        "ranking", figure,
        "Mean difference from the best over folds, with its 95 % interval; the recommended candidate is filled. Wide "
        "intervals may be cut off.",
        f"Candidates by {ranking.metric_name}. Best: {lines[0].candidate}. Recommended: "
        f"{ranking.chosen.candidate}.", titles,
    )  # fmt: skip


def effect_picture(
    effect: Effect, place: int, *, target: str, limits: tuple[float, float], has_classes: bool
) -> Picture:
    """Return partial dependence, knots and histogram of a feature, one above the other.

    Parameters
    ----------
    effect : Effect
        The feature.
    place : int
        Its number, which names the picture.
    target : str
        Name of the target.
    limits : (float, float)
        Ends of the axis of predictions, the same for all features.
    has_classes : bool
        Whether classes are predicted.
    """
    theme = LIGHT
    heights = [2.3, 1.25, 0.75] if effect.knots else [2.3, 0.75]
    size = (5.4, 0.75 + sum(heights))
    figure = Figure(figsize=size, layout="constrained", facecolor=theme.background)
    grid = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for axes in grid:
        clean_axes(axes, theme)
    _draw_curves(grid[0], effect, target, has_classes=has_classes, theme=theme)
    grid[0].set_ylim(*limits)
    if effect.knots:
        _draw_knots(grid[1], effect, theme)
    _draw_counts(grid[-1], effect, theme)
    missing = f", missing in {100 * effect.missing:.1f} % of rows" if effect.missing > 0 else ""
    grid[-1].set_xlabel(_short(effect.name, 50), fontsize=9.5)
    return Picture(
        f"feature-{place}", figure,
        f"{effect.name}{missing}. {_weight(effect.importance)}",
        f"Partial dependence of {target} on {effect.name}, its knots and its distribution.",
    )  # fmt: skip


def _weight(importance: float) -> str:
    if importance <= 0:
        return "Shuffling it does not raise the loss."
    return f"Shuffling it raises the loss by {significant(importance, 3)}."


def _draw_curves(axes: Axes, effect: Effect, target: str, *, has_classes: bool, theme: Theme) -> None:
    colours = [theme.blue, theme.orange, theme.green, theme.pink]
    dots = "o" if effect.edges is None or len(effect.values) <= 10 else ""
    line = "none" if effect.edges is None else "-"
    where = _positions(effect)
    for (label, curve), colour in zip(effect.curves.items(), colours, strict=False):
        axes.plot(
            where, curve, ls=line, marker=dots, color=colour, lw=1.8, markersize=5, label=_short(label, 20), gid="curve"
        )
    if len(effect.curves) > 1:
        legend = axes.legend(fontsize=8, frameon=False, labelcolor=theme.ink, ncols=2)
        legend.set_zorder(3)
    what = "probability" if has_classes else "prediction"
    of = f" of {_short(next(iter(effect.curves)), 20)}" if has_classes and len(effect.curves) == 1 else ""
    axes.set_ylabel(f"mean {what}{of}" if has_classes else f"mean {_short(target, 22)}", fontsize=9)
    axes.grid(axis="y", color=theme.line, linewidth=0.6)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _positions(effect: Effect) -> Sequence[float]:
    return list(range(len(effect.values))) if effect.edges is None else [float(value) for value in effect.values]


def _draw_knots(axes: Axes, effect: Effect, theme: Theme) -> None:
    """Draw a row of ticks for each placement."""
    rows = list(effect.knots)
    for place, (name, knots) in enumerate(effect.knots.items()):
        colour = theme.red if name == MODEL_KNOTS else theme.muted
        axes.plot(knots, np.full(len(knots), place), "|", color=colour, markersize=9, markeredgewidth=1.4, gid="knots")
    axes.set_yticks(np.arange(len(rows)), rows, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", color=theme.line, linewidth=0.6)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.spines["left"].set_visible(False)


def _draw_counts(axes: Axes, effect: Effect, theme: Theme) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if effect.edges is None:
        axes.bar(np.arange(len(effect.counts)), effect.counts, color=theme.grey, alpha=0.6, width=0.7)
        labels = ["\n".join(textwrap.wrap(_short(str(value), 18), 18)) for value in effect.values]
        turned = sum(map(len, labels)) > 40
        axes.set_xticks(
            np.arange(len(labels)), labels, rotation=35 if turned else 0, ha="right" if turned else "center", fontsize=8
        )
        axes.set_xlim(-0.6, len(effect.counts) - 0.4)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(7))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.stairs(effect.counts, effect.edges, fill=True, color=theme.grey, alpha=0.6)
        span = effect.edges[-1] - effect.edges[0]
        axes.set_xlim(effect.edges[0] - 0.02 * span, effect.edges[-1] + 0.02 * span)
    axes.set_ylabel("rows", fontsize=8.5, color=theme.muted)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
