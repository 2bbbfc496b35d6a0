"""Figures from arrays: heatmaps, dots of scores, curves by size and epoch, paths of knots, costs, pairs of ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from knotwork._checks import argument_error
from knotwork.encoders import METHOD_TABLE
from knotwork.report._style import LIGHT, clean_axes, method_colour, method_marker, settle_layout
from knotwork.report._tables import MISSING

__all__ = [
    "LearningCurve",
    "RankPair",
    "ScorePanel",
    "SizeCurve",
    "draw_agreement",
    "draw_cost_quality",
    "draw_heatmap",
    "draw_knot_trajectories",
    "draw_learning_curves",
    "draw_score_dots",
    "draw_size_curves",
    "draw_training_times",
    "pareto_front",
]

Floats = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]

_CELL = 0.62, 0.34
"""Width and height of a cell of a heatmap, in inches."""

_STYLES: dict[str, Literal["--", ":", "-."]] = {"Std": "--", "MinMax": ":", "PLE-Adaptive": "-."}
"""Lines of methods without a size, or whose size is not chosen."""

_SHIFTS = [(dx, dy) for dy in (0, 8, -8, 15, -15, 22, -22) for dx in (6, -6)]
"""Places of a name beside its point, in points, the preferred ones first."""


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor=LIGHT.background)


def _panels(
    n: int, margins: tuple[float, float], *, size: tuple[float, float], share: bool = False
) -> tuple[Figure, Any]:
    """Return a figure and its `n` axes, at most three in a row.

    `size` is the width and height of a panel in inches, `margins` those of what lies around all of them.
    """
    n_columns = min(3, n)
    n_rows = -(-n // n_columns)
    figure = _figure(margins[0] + size[0] * n_columns, margins[1] + size[1] * n_rows)
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=share, sharey=share).flat
    for axes in grid:
        clean_axes(axes, LIGHT)
    for place in range(n, len(grid)):
        grid[place].set_visible(False)
        grid[place - n_columns].tick_params(labelbottom=True)
    return figure, grid[:n]


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, fontsize=9.5, loc="left", color=LIGHT.ink)


def draw_heatmap(
    values: npt.ArrayLike,
    rows: Sequence[str],
    *,
    columns: Sequence[str],
    lower_is_better: bool = True,
    digits: int = 1,
    groups: Sequence[str] | None = None,
) -> Figure:
    """Draw a table of numbers as coloured cells, good ones dark blue, with the number in each, the best of a row bold.

    A missing number is a blank cell with a dash. If all numbers are equal, all cells have the same colour. Each cell
    has the group id ``cell-ROW-COLUMN``.

    Parameters
    ----------
    values : array-like of shape (n_rows, n_columns)
        Numbers, NaN where there is none.
    groups : sequence of str, optional
        A heading for each row; consecutive rows with the same heading stand under it once.
    """
    table = np.asarray(values, dtype=float)
    places, heads, height = _places(list(groups or [""] * len(rows)))
    left = 0.4 + 0.085 * max(len(name) for name in rows)
    size = (left + _CELL[0] * len(columns) + 0.65, 0.85 + _CELL[1] * height + 0.05)
    figure = Figure(figsize=size, facecolor=LIGHT.background)
    axes = figure.add_axes((left / size[0], 0.05 / size[1], _CELL[0] * len(columns) / size[0],
                            _CELL[1] * height / size[1]))  # fmt: skip
    clean_axes(axes, LIGHT)
    axes.set(xlim=(0, len(columns)), ylim=(height, 0))
    axes.spines[:].set_visible(False)
    shares = _shares(table, lower_is_better)
    best = np.max(shares, axis=1, initial=0.0, where=np.isfinite(shares))
    for i, y in enumerate(places):
        for j in range(len(columns)):
            fill = _colour(shares[i, j]) if np.isfinite(table[i, j]) else LIGHT.background
            gid = f"cell-{i}-{j}"
            axes.add_patch(Rectangle((j, y), 0.97, 0.94, facecolor=fill, edgecolor="none", gid=gid))
            ink = _ink(fill) if np.isfinite(table[i, j]) else LIGHT.muted
            text = f"{table[i, j]:.{digits}f}" if np.isfinite(table[i, j]) else MISSING
            axes.text(j + 0.485, y + 0.5, text, ha="center", va="center", fontsize=8.5, color=ink, gid=f"{gid}-text",
                      fontweight="bold" if shares[i, j] == best[i] else "normal")  # fmt: skip
    for y, head in heads:
        axes.text(0, y + 0.6, head, ha="left", va="center", fontsize=9, color=LIGHT.ink, fontweight="bold")
    axes.set_xticks(np.arange(len(columns)) + 0.485, columns, rotation=35, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(np.array(places) + 0.5, rows)
    axes.tick_params(length=0)
    return figure


def _places(groups: list[str]) -> tuple[list[float], list[tuple[float, str]], float]:
    """Return the tops of the rows, the headings with their tops, and the total height, in rows."""
    places, heads, y = [], [], 0.0
    for i, group in enumerate(groups):
        if group and (i == 0 or group != groups[i - 1]):
            heads.append((y, group))
            y += 1.0
        places.append(y)
        y += 1.0
    return places, heads, y


def _shares(table: npt.NDArray[np.float64], lower_is_better: bool) -> npt.NDArray[np.float64]:
    """Return numbers from 0 (worst) to 1 (best); 1/2 if all are equal."""
    finite = table[np.isfinite(table)]
    if finite.size == 0 or np.ptp(finite) == 0:
        return np.full(table.shape, 0.5)
    shares: npt.NDArray[np.float64] = (table - finite.min()) / np.ptp(finite)
    return 1 - shares if lower_is_better else shares


def _colour(share: float) -> str:
    return to_hex(colormaps["YlGnBu"](0.08 + 0.84 * share))


def _ink(fill: str) -> str:
    """Return black or white, whichever can be read on `fill`."""
    channels = np.array(to_rgb(fill))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.18 else "#fefefe"


@dataclass(frozen=True, eq=False)
class ScorePanel:
    """Mean scores of methods on the data set `title`, with standard deviations; `label` names the score."""

    title: str
    label: str
    methods: list[str]
    mean: npt.NDArray[np.float64]
    sd: npt.NDArray[np.float64]
    lower_is_better: bool

    @property
    def best(self) -> int:
        """Position of the best mean."""
        return int(np.argmin(self.mean) if self.lower_is_better else np.argmax(self.mean))


def draw_score_dots(panels: Sequence[ScorePanel]) -> Figure:
    """Draw mean scores with one standard deviation, a row per method, the dot of the best mean filled.

    Dots have the group id ``dot``.
    """
    height = 0.9 + 0.2 * max(len(panel.methods) for panel in panels)
    figure, grid = _panels(len(panels), (0.4, 0.0), size=(3.3, height))
    for axes, panel in zip(grid, panels, strict=True):
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        for place, (method, mean, sd) in enumerate(zip(panel.methods, panel.mean, panel.sd, strict=True)):
            colour = method_colour(method, LIGHT)
            axes.plot([mean - sd, mean + sd], [place, place], color=colour, linewidth=1.4)
            fill = colour if place == panel.best else LIGHT.background
            axes.plot([mean], [place], "o", color=colour, markerfacecolor=fill, markersize=6, gid="dot")
        axes.set_yticks(np.arange(len(panel.methods)), panel.methods)
        axes.invert_yaxis()
        _title(axes, panel.title)
        direction = "lower" if panel.lower_is_better else "higher"
        axes.set_xlabel(f"{panel.label} ({direction} is better)", fontsize=9)
    return figure


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """A method's quality by size, or at no size.

    Parameters
    ----------
    method : str
        Its name.
    sizes : ndarray of shape (n,)
        Sizes in order; empty for a method without sizes, which is a level line.
    mean, low, high : ndarray of shape (n,), or (1,) without sizes
        Its quality, and both ends of the band.
    """

    method: str
    sizes: Floats
    mean: Floats
    low: Floats
    high: Floats


def draw_size_curves(curves: Sequence[SizeCurve], *, ylabel: str) -> Figure:
    """Draw quality against size with bands, a panel for each placement; PLE and level lines are in every panel."""
    everywhere = [curve for curve in curves if _is_level(curve) or "-" not in curve.method]
    panels: dict[str, list[SizeCurve]] = {}
    for curve in curves:
        if curve not in everywhere:
            panels.setdefault(_knots(curve.method), []).append(curve)
    names = list(panels) or [""]
    figure, grid = _panels(len(names), (0.6, 0.3), size=(3.1, 2.7), share=True)
    for axes, name in zip(grid, names, strict=True):
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        _title(axes, f"knots: {name}" if name else "")
        for curve in [*everywhere, *panels.get(name, [])]:
            _draw_curve(axes, curve)
    _legend(figure, [*everywhere, *curves])
    figure.supxlabel("size", fontsize=9.5, color=LIGHT.ink)
    figure.supylabel(ylabel, fontsize=9.5, color=LIGHT.ink)
    return figure


def _knots(method: str) -> str:
    """Return how a method places its knots; of a method that is not registered here, the end of its name."""
    return METHOD_TABLE[method].knots_label if method in METHOD_TABLE else method.partition("-")[2]


def _legend(figure: Figure, curves: "Sequence[SizeCurve | LearningCurve]") -> None:
    """Name families, and by themselves the methods without a chosen size, above the panels."""
    methods = [curve.method for curve in curves]
    handles = {method if method in _STYLES else method.partition("-")[0]: _line(method) for method in methods}
    figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(handles), fontsize=8.5,
                  frameon=False, labelcolor=LIGHT.ink)  # fmt: skip


def _is_level(curve: SizeCurve) -> bool:
    """Return whether the size of a method is not chosen, so that every panel shows it."""
    return curve.method in _STYLES or len(curve.sizes) == 0


def _line(method: str) -> Line2D:
    """Return a line as methods of this family have it."""
    line = Line2D([], [], color=method_colour(method, LIGHT), linewidth=1.6)
    line.set_linestyle(_STYLES.get(method, "-"))
    return line


def _draw_curve(axes: Axes, curve: SizeCurve) -> None:
    line = _line(curve.method)
    colour, style = line.get_color(), _STYLES.get(curve.method, "-")
    if len(curve.sizes) == 0:
        axes.axhline(float(curve.mean[0]), color=colour, linewidth=1.2, linestyle=style)
        return
    axes.fill_between(curve.sizes, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(curve.sizes, curve.mean, color=colour, linewidth=1.6, linestyle=style, marker=method_marker(curve.method),
              markersize=4)  # fmt: skip
    axes.set_xticks(curve.sizes if len(curve.sizes) <= 6 else curve.sizes[1::2])


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Training loss and validation score of a network by epoch, and the epoch, from 1, whose weights were kept."""

    method: str
    loss: Floats
    score: Floats
    best: int


def draw_learning_curves(curves: Sequence[LearningCurve], *, ylabel: str) -> Figure:
    """Draw losses and validation scores of networks by epoch, each until it stopped, and mark the best epoch."""
    figure = _figure(9.6, 3.7)
    left, right = figure.subplots(1, 2)
    for axes, name in ((left, "training loss"), (right, ylabel)):
        clean_axes(axes, LIGHT)
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        _title(axes, name)
        axes.set_xlabel("epoch", fontsize=9)
    left.set_yscale("log")
    left.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5]))
    left.yaxis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for curve in curves:
        colour, epochs = method_colour(curve.method, LIGHT), np.arange(1, len(curve.score) + 1)
        style = _STYLES.get(curve.method, "-")
        left.plot(epochs, curve.loss, color=colour, linewidth=1.1, linestyle=style, alpha=0.85)
        right.plot(epochs, curve.score, color=colour, linewidth=1.1, linestyle=style, alpha=0.85)
        right.plot([curve.best], [curve.score[curve.best - 1]], method_marker(curve.method), color=colour, markersize=5,
                   gid="best")  # fmt: skip
    _legend(figure, curves)
    return figure


def draw_knot_trajectories(knots: Mapping[str, Floats], *, warm_up: int = 0) -> Figure:
    """Draw the knots of one feature by epoch, arrays of shape (n_epochs, n_knots), a panel for each setting.

    The first `warm_up` epochs, in which knots stay fixed, are shaded.
    """
    figure = _figure(0.5 + 2.6 * len(knots), 3.0)
    grid = figure.subplots(1, len(knots), sharey=True, squeeze=False)
    for axes, (name, values) in zip(grid.flat, knots.items(), strict=True):
        clean_axes(axes, LIGHT)
        if warm_up:
            axes.axvspan(0, warm_up, color=LIGHT.line, alpha=0.5, linewidth=0)
        axes.plot(np.arange(len(values)), values, color=LIGHT.blue, linewidth=1.2)
        _title(axes, name)
        axes.set_xlabel("epoch", fontsize=9)
    grid[0, 0].set_ylabel("knot", fontsize=9)
    return figure


def draw_training_times(
    seconds: Floats, *, panels: Sequence[str], methods: Sequence[str], sizes: Sequence[str]
) -> Figure:
    """Draw times as bars: a panel per backbone, a group of bars per method, a bar per size.

    `seconds` has the shape (n_panels, n_methods, n_sizes), with NaN for missing times, which leave no gap. Bars have
    the group id ``bar-PANEL-METHOD-SIZE``.
    """
    figure = _figure(9.6, 0.8 + 1.75 * len(panels))
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    colours = [LIGHT.grey, LIGHT.blue, LIGHT.orange, LIGHT.green, LIGHT.pink, LIGHT.red]
    colours = colours if sizes[:1] == ["no size"] else colours[1:]
    width = 0.8 / len(sizes)
    for p, axes in enumerate(grid):
        clean_axes(axes, LIGHT)
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        _title(axes, panels[p])
        for m, row in enumerate(seconds[p]):
            held = np.flatnonzero(np.isfinite(row))
            for place, s in enumerate(held):
                shift = (place - (len(held) - 1) / 2) * width
                axes.bar(m + shift, row[s], width * 0.92, color=colours[s % len(colours)], gid=f"bar-{p}-{m}-{s}")
        axes.set_ylabel("seconds", fontsize=9)
    handles = [Patch(color=colours[s % len(colours)]) for s in range(len(sizes))]
    figure.legend(
        handles, sizes, loc="outside upper right", fontsize=8, frameon=False, labelcolor=LIGHT.ink, ncols=len(sizes)
    )
    grid[-1].set_xticks(np.arange(len(methods)), methods, rotation=30, ha="right", rotation_mode="anchor")
    return figure


def pareto_front(cost: npt.ArrayLike, loss: npt.ArrayLike) -> list[int]:
    """Return the positions that no other one beats in both, by cost; low is good in both.

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


def draw_cost_quality(cost: npt.ArrayLike, ranks: npt.ArrayLike, *, names: Sequence[str]) -> Figure:
    """Draw average ranks against seconds above 0, with a line through the methods that no other beats in both.

    Points have the group id ``point-INDEX``.
    """
    x, y = np.asarray(cost, dtype=float), np.asarray(ranks, dtype=float)
    figure = _figure(6.2, 3.9)
    axes = figure.subplots()
    clean_axes(axes, LIGHT)
    axes.grid(color=LIGHT.line, linewidth=0.6)
    axes.set_xscale("log")
    front = pareto_front(x, y)
    axes.plot(x[front], y[front], color=LIGHT.red, linewidth=1.2, linestyle="--", zorder=1)
    for i, name in enumerate(names):
        axes.plot([x[i]], [y[i]], method_marker(name), color=method_colour(name, LIGHT), markersize=7, gid=f"point-{i}",
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
    _label_points(axes, list(names), points=list(zip(x.tolist(), y.tolist(), strict=True)))
    return figure


@dataclass(frozen=True, eq=False)
class RankPair:
    """Average ranks of the same methods in two studies.

    Parameters
    ----------
    title : str
        What is ranked.
    methods : list of str
        Names.
    ours, theirs : ndarray of shape (n_methods,)
        Average ranks in the one and in the other study.
    """

    title: str
    methods: list[str]
    ours: Floats
    theirs: Floats


def draw_agreement(pairs: Sequence[RankPair], *, ours: str, theirs: str) -> Figure:
    """Draw the average ranks of one study against those of another, three panels in a row.

    On the dashed line both are the same.

    Parameters
    ----------
    pairs : sequence of RankPair
        A panel for each, at least one. Points have the group id ``point-PANEL-INDEX``.
    ours, theirs : str
        Labels of the vertical and of the horizontal axis.

    Returns
    -------
    Figure
        A light figure of matplotlib's, not shown and not saved.

    Examples
    --------
    >>> pair = RankPair("size 7", ["Std", "PLE"], np.array([2.0, 1.0]), np.array([1.8, 1.2]))
    >>> len(draw_agreement([pair], ours="ours", theirs="theirs").axes)
    1
    """
    if not pairs:
        raise argument_error("pairs", "hold at least one pair", list(pairs))
    figure, grid = _panels(len(pairs), (0.5, 0.3), size=(3.25, 3.2))
    for place, (axes, pair) in enumerate(zip(grid, pairs, strict=True)):
        _draw_pair(axes, pair, place=place)
    figure.supxlabel(theirs, fontsize=9.5, color=LIGHT.ink)
    figure.supylabel(ours, fontsize=9.5, color=LIGHT.ink)
    for axes, pair in zip(grid, pairs, strict=True):
        points = list(zip(pair.theirs.tolist(), pair.ours.tolist(), strict=True))
        _label_points(axes, pair.methods, points=points, size=7)
    return figure


def _draw_pair(axes: Axes, pair: RankPair, *, place: int) -> None:
    both = np.concatenate([pair.ours, pair.theirs])
    ends = np.array([both.min() - 0.7, both.max() + 1.2])
    axes.plot(ends, ends, color=LIGHT.muted, linewidth=0.9, linestyle="--", zorder=1)
    for i, method in enumerate(pair.methods):
        axes.plot([pair.theirs[i]], [pair.ours[i]], method_marker(method), color=method_colour(method, LIGHT),
                  markersize=5.5, linestyle="none", gid=f"point-{place}-{i}")  # fmt: skip
    axes.set(xlim=ends, ylim=ends)
    axes.set_aspect("equal")
    _title(axes, pair.title)


def _label_points(axes: Axes, names: list[str], *, points: list[tuple[float, float]], size: float = 8) -> None:
    """Write each name beside its point, at the place where it covers the least of other names and points.

    The limits of the axes must be final. Names far from their points are joined to them by a thin line. Places are
    tried in the order of the points, so that the same figure always has the same labels.
    """
    figure: Figure = axes.get_figure(root=True)  # type: ignore[assignment]
    settle_layout(figure)
    scale = figure.dpi / 72
    centres = [axes.transData.transform(point) for point in points]
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in centres]
    frame = axes.get_window_extent()
    for name, point, (x, y) in zip(names, points, centres, strict=True):
        width, height = 0.62 * size * len(name) * scale, 1.1 * size * scale
        boxes = [_box(x + dx * scale, y + dy * scale, width=width, height=height, right=dx > 0) for dx, dy in _SHIFTS]
        outside = [box[0] < frame.x0 or box[2] > frame.x1 + 6 * scale for box in boxes]
        best = min(range(len(boxes)), key=lambda k: (_hidden(boxes[k], taken) + outside[k], k))
        taken.append(boxes[best])
        dx, dy = _SHIFTS[best]
        colour = axes.xaxis.label.get_color()
        line = {"arrowstyle": "-", "color": axes.spines["left"].get_edgecolor(), "linewidth": 0.5, "shrinkB": 3}
        axes.annotate(name, point, xytext=(dx, dy), textcoords="offset points", ha="left" if dx > 0 else "right",
                      va="center", fontsize=size, color=colour, annotation_clip=False,
                      arrowprops=line if abs(dy) > 10 else None)  # fmt: skip


def _box(x: float, y: float, *, width: float, height: float, right: bool) -> Box:
    left = x if right else x - width
    return left, y - height / 2, left + width, y + height / 2


def _hidden(box: Box, others: list[Box]) -> int:
    return sum(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in others)
