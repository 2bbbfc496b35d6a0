"""Figures of cost: training times, and cost against quality."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from knotwork._checks import argument_error
from knotwork.report._labels import label_points
from knotwork.report._style import clean_axes, method_colour, method_marker, theme_of

__all__ = ["draw_cost_quality", "draw_training_times", "pareto_front"]


def draw_training_times(
    seconds: npt.ArrayLike, *, panels: Sequence[str], methods: Sequence[str], sizes: Sequence[str], dark: bool = False
) -> Figure:
    """Draw times as bars: a panel per backbone, a group of bars per method, a bar per size.

    Parameters
    ----------
    seconds : array-like of shape (n_panels, n_methods, n_sizes)
        Times; NaN where there is none. Bars have the group id ``bar-PANEL-METHOD-SIZE``; those of a method stand
        together in the middle of its place.
    panels, methods, sizes : sequence of str
        Names.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    table = np.asarray(seconds, dtype=float)
    if table.shape != (len(panels), len(methods), len(sizes)):
        raise argument_error("seconds", f"have the shape ({len(panels)}, {len(methods)}, {len(sizes)})", table.shape)
    theme = theme_of(dark)
    figure = Figure(figsize=(9.6, 0.8 + 1.75 * len(panels)), layout="constrained", facecolor=theme.background)
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    colours = [theme.grey, theme.blue, theme.orange, theme.green, theme.pink, theme.red]
    colours = colours if sizes[:1] == ["no size"] else colours[1:]
    width = 0.8 / len(sizes)
    for p, axes in enumerate(grid):
        clean_axes(axes, theme)
        axes.grid(axis="y", color=theme.line, linewidth=0.6)
        axes.set_title(panels[p], fontsize=9.5, loc="left", color=theme.ink)
        for m, row in enumerate(table[p]):
            held = np.flatnonzero(np.isfinite(row))
            for place, s in enumerate(held):
                shift = (place - (len(held) - 1) / 2) * width
                axes.bar(m + shift, row[s], width * 0.92, color=colours[s % len(colours)], gid=f"bar-{p}-{m}-{s}")
        axes.set_ylabel("seconds", fontsize=9)
    handles = [Patch(color=colours[s % len(colours)]) for s in range(len(sizes))]
    figure.legend(
        handles, sizes, loc="outside upper right", fontsize=8, frameon=False, labelcolor=theme.ink, ncols=len(sizes)
    )
    grid[-1].set_xticks(np.arange(len(methods)), methods, rotation=30, ha="right", rotation_mode="anchor")
    return figure


def pareto_front(cost: npt.ArrayLike, loss: npt.ArrayLike) -> list[int]:
    """Return the positions that no other one beats in both, from cheap to dear; low is good in both.

    Examples
    --------
    >>> pareto_front([1.0, 2.0, 3.0], [5.0, 6.0, 4.0])
    [0, 2]
    """
    costs, losses = np.asarray(cost, dtype=float), np.asarray(loss, dtype=float)
    front: list[int] = []
    lowest = np.inf
    for i in np.lexsort((losses, costs)).tolist():
        if losses[i] < lowest:
            front.append(i)
            lowest = losses[i]
    return front


def draw_cost_quality(cost: npt.ArrayLike, ranks: npt.ArrayLike, *, names: Sequence[str], dark: bool = False) -> Figure:
    """Draw average ranks against seconds, with a line through the methods that no other beats in both.

    Parameters
    ----------
    cost : array-like of shape (n,)
        Seconds, above 0.
    ranks : array-like of shape (n,)
        Average ranks. Points have the group id ``point-INDEX``.
    names : sequence of str of length n
        Names of the methods.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    x, y = np.asarray(cost, dtype=float), np.asarray(ranks, dtype=float)
    if not len(x) == len(y) == len(names):
        raise argument_error("names", f"have a name for each of the {len(x)} points", list(names))
    theme = theme_of(dark)
    figure = Figure(figsize=(6.2, 3.9), layout="constrained", facecolor=theme.background)
    axes = figure.subplots()
    clean_axes(axes, theme)
    axes.grid(color=theme.line, linewidth=0.6)
    axes.set_xscale("log")
    front = pareto_front(x, y)
    axes.plot(x[front], y[front], color=theme.red, linewidth=1.2, linestyle="--", zorder=1)
    for i, name in enumerate(names):
        axes.plot([x[i]], [y[i]], method_marker(name), color=method_colour(name, theme), markersize=7, gid=f"point-{i}",
                  linestyle="none")  # fmt: skip
    low, high = x.min(), x.max()
    spread = max(high / low, 1.5) ** 0.12
    axes.set_xlim(low / spread, high * spread**1.8)
    margin = 0.08 * max(1.0, float(np.ptp(y)))
    axes.set_ylim(y.max() + margin, max(0.0, y.min() - margin))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5], prune="upper" if y.min() - margin < 0.5 else None))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("seconds for all folds, median over data sets and backbones", fontsize=9)
    axes.set_ylabel("average rank (best on top)", fontsize=9)
    label_points(axes, list(names), points=list(zip(x.tolist(), y.tolist(), strict=True)))
    return figure
