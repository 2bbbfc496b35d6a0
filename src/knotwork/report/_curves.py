"""Curves: quality against size, learning curves, and the ways of learned knots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from knotwork._checks import argument_error
from knotwork.encoders import METHOD_TABLE
from knotwork.report._style import Theme, clean_axes, method_colour, method_marker, theme_of

__all__ = ["LearningCurve", "SizeCurve", "draw_knot_trajectories", "draw_learning_curves", "draw_size_curves"]

_STYLES: dict[str, Literal["--", ":", "-."]] = {"Std": "--", "MinMax": ":", "PLE-Adaptive": "-."}
"""Lines of methods without a size, or whose size is not chosen."""

Floats = npt.NDArray[np.float64]


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


def draw_size_curves(curves: Sequence[SizeCurve], *, ylabel: str, dark: bool = False) -> Figure:
    """Draw quality against size, a panel for each way of placing knots, with bands, and level lines in every panel.

    Parameters
    ----------
    curves : sequence of SizeCurve
        The curves; PLE stands beside the splines in every panel.
    ylabel : str
        What quality is.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    if not curves:
        raise argument_error("curves", "hold at least one curve", list(curves))
    theme = theme_of(dark)
    everywhere = [curve for curve in curves if _is_level(curve) or "-" not in curve.method]
    panels: dict[str, list[SizeCurve]] = {}
    for curve in curves:
        if curve not in everywhere:
            panels.setdefault(_knots(curve.method), []).append(curve)
    names = list(panels) or [""]
    n_columns = min(3, len(names))
    n_rows = -(-len(names) // n_columns)
    figure = Figure(
        figsize=(0.6 + 3.1 * n_columns, 0.3 + 2.7 * n_rows), layout="constrained", facecolor=theme.background
    )
    grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=False):
        clean_axes(axes, theme)
        axes.grid(axis="y", color=theme.line, linewidth=0.6)
        axes.set_title(f"knots: {name}" if name else "", fontsize=9.5, loc="left", color=theme.ink)
        for curve in [*everywhere, *panels.get(name, [])]:
            _draw_curve(axes, curve, theme)
    for place in range(len(names), grid.size):
        grid.flat[place].set_visible(False)
        grid.flat[place - n_columns].tick_params(labelbottom=True)
    handles = {_name(curve.method): _line(curve.method, theme) for curve in [*everywhere, *curves]}
    figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(handles), fontsize=8.5,
                  frameon=False, labelcolor=theme.ink)  # fmt: skip
    figure.supxlabel("size", fontsize=9.5, color=theme.ink)
    figure.supylabel(ylabel, fontsize=9.5, color=theme.ink)
    return figure


def _knots(method: str) -> str:
    """Return how a method places its knots; of a method that is not registered here, the end of its name."""
    return METHOD_TABLE[method].knots_label if method in METHOD_TABLE else method.partition("-")[2]


def _name(method: str) -> str:
    """Return what a legend calls a method: its family, or its name if it has no chosen size."""
    return method if method in _STYLES else method.partition("-")[0]


def _is_level(curve: SizeCurve) -> bool:
    """Return whether the size of a method is not chosen, so that it stands in every panel."""
    return curve.method in _STYLES or len(curve.sizes) == 0


def _line(method: str, theme: Theme) -> Line2D:
    """Return a line as methods of this family have it."""
    line = Line2D([], [], color=method_colour(method, theme), linewidth=1.6)
    line.set_linestyle(_STYLES.get(method, "-"))
    return line


def _draw_curve(axes: Axes, curve: SizeCurve, theme: Theme) -> None:
    line = _line(curve.method, theme)
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
    """How one network learned.

    Parameters
    ----------
    method : str
        Its encoding.
    loss, score : ndarray of shape (n_epochs,)
        Loss of training, and score on the validation rows, after each epoch.
    best : int
        The epoch, from 1, whose weights were kept.
    """

    method: str
    loss: Floats
    score: Floats
    best: int


def draw_learning_curves(curves: Sequence[LearningCurve], *, ylabel: str, dark: bool = False) -> Figure:
    """Draw losses and validation scores of the members of a stack by epoch, and mark the epoch that each kept.

    Parameters
    ----------
    curves : sequence of LearningCurve
        The members; each curve ends where its member stopped.
    ylabel : str
        What the scores are.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    if not curves:
        raise argument_error("curves", "hold at least one curve", list(curves))
    theme = theme_of(dark)
    figure = Figure(figsize=(9.6, 3.7), layout="constrained", facecolor=theme.background)
    left, right = figure.subplots(1, 2)
    for axes, name in ((left, "training loss"), (right, ylabel)):
        clean_axes(axes, theme)
        axes.grid(axis="y", color=theme.line, linewidth=0.6)
        axes.set_title(name, fontsize=9.5, loc="left", color=theme.ink)
        axes.set_xlabel("epoch", fontsize=9)
    left.set_yscale("log")
    left.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5]))
    left.yaxis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for curve in curves:
        colour, epochs = method_colour(curve.method, theme), np.arange(1, len(curve.score) + 1)
        style = _STYLES.get(curve.method, "-")
        left.plot(epochs, curve.loss, color=colour, linewidth=1.1, linestyle=style, alpha=0.85)
        right.plot(epochs, curve.score, color=colour, linewidth=1.1, linestyle=style, alpha=0.85)
        right.plot([curve.best], [curve.score[curve.best - 1]], method_marker(curve.method), color=colour, markersize=5,
                   gid="best")  # fmt: skip
    handles = {_name(curve.method): _line(curve.method, theme) for curve in curves}
    figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(handles), fontsize=8.5,
                  frameon=False, labelcolor=theme.ink)  # fmt: skip
    return figure


def draw_knot_trajectories(knots: Mapping[str, npt.ArrayLike], *, warm_up: int = 0, dark: bool = False) -> Figure:
    """Draw where the knots of one feature were after each epoch, a panel for each setting.

    Parameters
    ----------
    knots : mapping of str to array-like of shape (n_epochs, n_knots)
        Knots by epoch, for each setting, such as a learning rate.
    warm_up : int, default=0
        Epochs in which knots stay fixed, shaded.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    if not knots:
        raise argument_error("knots", "hold at least one setting", dict(knots))
    theme = theme_of(dark)
    figure = Figure(figsize=(0.5 + 2.6 * len(knots), 3.0), layout="constrained", facecolor=theme.background)
    grid = figure.subplots(1, len(knots), sharey=True, squeeze=False)
    for axes, (name, values) in zip(grid.flat, knots.items(), strict=True):
        table = np.asarray(values, dtype=float)
        if table.ndim != 2:
            raise argument_error("knots", "have arrays of shape (n_epochs, n_knots)", table.shape)
        clean_axes(axes, theme)
        if warm_up:
            axes.axvspan(0, warm_up, color=theme.line, alpha=0.5, linewidth=0)
        axes.plot(np.arange(len(table)), table, color=theme.blue, linewidth=1.2)
        axes.set_title(name, fontsize=9.5, loc="left", color=theme.ink)
        axes.set_xlabel("epoch", fontsize=9)
    grid[0, 0].set_ylabel("knot", fontsize=9)
    return figure
