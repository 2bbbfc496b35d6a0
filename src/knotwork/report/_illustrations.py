"""The paper's illustrations: one value under every encoding, fits of two synthetic problems, a scatter of data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork import basis
from knotwork._checks import argument_error
from knotwork.report._style import Theme, clean_axes, theme_of

__all__ = ["Fit", "FitPanel", "draw_encoded_value", "draw_fits", "draw_scatter"]

Floats = npt.NDArray[np.float64]


def draw_encoded_value(values: npt.ArrayLike, x: float = 0.58, *, size: int = 6, dark: bool = False) -> Figure:
    """Draw how one value is represented by scaling and by every registered family with equally spaced knots.

    For each family the functions with the value marked on them, and beside it the encoded coordinates as bars.

    Parameters
    ----------
    values : array-like of shape (n,)
        A column between 0 and 1, shown as ticks.
    x : float, default=0.58
        The value.
    size : int, default=6
        Coordinates of each family.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    column = np.asarray(values, dtype=float)
    if column.ndim != 1 or not ((column >= 0) & (column <= 1)).all() or not 0 <= x <= 1:
        raise argument_error("values", "be numbers between 0 and 1, as x must be", values)
    theme = theme_of(dark)
    n_families = len(basis.FAMILIES)
    figure = Figure(figsize=(9.6, 1.0 + 1.4 * n_families), layout="constrained", facecolor=theme.background)
    grid = figure.subplots(1 + n_families, 2, width_ratios=[3, 1.3], height_ratios=[0.7, *[1.0] * n_families])
    _draw_scalars(grid[0, 0], grid[0, 1], column, x=x, theme=theme)
    for (curves, bars), (family, traits) in zip(grid[1:], basis.FAMILIES.items(), strict=True):
        _draw_family(curves, bars, column, family=family, x=x, size=size, theme=theme)
        curves.set_title(traits.label, loc="left", fontsize=9.5, color=theme.ink)
    for axes in grid[:-1, 0]:
        axes.tick_params(labelbottom=False)
    grid[-1, 0].set_xlabel("value, scaled to [0, 1]", fontsize=9)
    return figure


def _draw_scalars(axes: Axes, bars: Axes, column: Floats, *, x: float, theme: Theme) -> None:
    """Draw the data itself, and what scaling makes of the value."""
    clean_axes(axes, theme)
    axes.hist(column, bins=12, range=(0, 1), color=theme.line)
    axes.plot(column, np.zeros(len(column)), "|", color=theme.muted, markersize=6, clip_on=False)
    axes.axvline(x, color=theme.red, linewidth=1.3, linestyle="--")
    axes.set(xlim=(0, 1), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_title("the data, and one value", loc="left", fontsize=9.5, color=theme.ink)
    scaled = {"Std": (x - column.mean()) / column.std(), "MinMax": (x - column.min()) / np.ptp(column)}
    clean_axes(bars, theme)
    bars.barh(list(scaled), list(scaled.values()), color=theme.grey, height=0.55)
    bars.invert_yaxis()
    bars.axvline(0, color=theme.muted, linewidth=0.8)
    for place, value in enumerate(scaled.values()):
        bars.text(max(value, 0) + 0.03, place, f"{value:.2f}", va="center", fontsize=8.5, color=theme.ink)
    bars.set_xlim(min(0, *scaled.values()) - 0.05, max(1.0, *scaled.values()) + 0.3)
    bars.set_title("one coordinate", loc="left", fontsize=9.5, color=theme.ink)


def _draw_family(axes: Axes, bars: Axes, column: Floats, *, family: str, x: float, size: int, theme: Theme) -> None:
    """Draw the functions of one family with the value marked, and its coordinates."""
    degree = 3
    n_knots = size - basis.FAMILIES[family].smallest_size(degree)
    knots = np.linspace(0, 1, n_knots + 2)[1:-1]
    grid = np.linspace(0, 1, 601)
    curves, marked = (basis.evaluate(family, at, knots, degree=degree) for at in (grid, np.array([x])))
    clean_axes(axes, theme)
    for knot in knots:
        axes.axvline(knot, color=theme.line, linewidth=0.9, zorder=0)
    colours = [theme.blue, theme.orange, theme.green, theme.pink, theme.grey, theme.ink]
    shades = [colours[index % len(colours)] for index in range(size)]
    for curve, colour in zip(curves.T, shades, strict=True):
        axes.plot(grid, curve, color=colour, linewidth=1.5, gid="function")
    axes.axvline(x, color=theme.red, linewidth=1.3, linestyle="--")
    axes.scatter([x] * size, marked[0], color=shades, s=22, zorder=3, gid="marked")
    axes.plot(column, np.zeros(len(column)), "|", color=theme.muted, markersize=5, clip_on=False)
    axes.set(xlim=(0, 1))
    clean_axes(bars, theme)
    bars.bar(np.arange(1, size + 1), marked[0], color=shades, width=0.7)
    for place, value in enumerate(marked[0], 1):
        bars.text(place, value, f"{value:.2f}", ha="center", va="bottom", fontsize=7.5, color=theme.ink)
    bars.set_xticks(np.arange(1, size + 1), [f"$e_{index}$" for index in range(1, size + 1)])
    bars.set(yticks=[], ylim=(0, max(1.0, float(marked.max())) * 1.2))
    bars.spines["left"].set_visible(False)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted curve.

    Parameters
    ----------
    name : str
        The encoding.
    curve : ndarray of shape (n_grid,)
        Its values on the grid.
    note : str
        How good it is, such as ``"NRMSE 0.031"``.
    """

    name: str
    curve: Floats
    note: str = ""


@dataclass(frozen=True, eq=False)
class FitPanel:
    """One problem with its fits.

    Parameters
    ----------
    title, ylabel : str
        What is shown.
    grid, truth : ndarray of shape (n_grid,)
        Where curves are evaluated, and the true curve.
    x, y : ndarray of shape (n,)
        The data that was fitted to.
    fits : list of Fit
        The fits.
    """

    title: str
    ylabel: str
    grid: Floats
    truth: Floats
    x: Floats
    y: Floats
    fits: list[Fit]


def draw_fits(panels: Sequence[FitPanel], *, edges: npt.ArrayLike = (), dark: bool = False) -> Figure:
    """Draw fitted curves over the true one and the data, a row for each problem and a column for each fit.

    Parameters
    ----------
    panels : sequence of FitPanel
        The problems, with as many fits each.
    edges : array-like of shape (n_edges,), default=()
        Where bins end, as thin lines.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    if not panels or len({len(panel.fits) for panel in panels}) != 1:
        raise argument_error("panels", "hold problems with as many fits each", [len(panel.fits) for panel in panels])
    theme = theme_of(dark)
    n_columns = len(panels[0].fits)
    size = (4.6 * n_columns, 0.2 + 2.8 * len(panels))
    figure = Figure(figsize=size, layout="constrained", facecolor=theme.background)
    grid = figure.subplots(len(panels), n_columns, sharex=True, sharey="row", squeeze=False)
    colours = [theme.green, theme.blue, theme.orange, theme.pink]
    for row, panel in zip(grid, panels, strict=True):
        for axes, fit, colour in zip(row, panel.fits, colours, strict=False):
            clean_axes(axes, theme)
            for edge in np.asarray(edges, dtype=float):
                axes.axvline(edge, color=theme.line, linewidth=0.7, zorder=0)
            axes.plot(panel.x, panel.y, ".", color=theme.muted, markersize=2, alpha=0.25, rasterized=True, zorder=1)
            axes.plot(panel.grid, panel.truth, color=theme.ink, linewidth=1.2, linestyle="--", zorder=2, label="truth")
            axes.plot(panel.grid, fit.curve, color=colour, linewidth=2, zorder=3, label=fit.name, gid="fit")
            axes.set_title(f"{panel.title}: {fit.name}" + (f", {fit.note}" if fit.note else ""), fontsize=9.5,
                           loc="left", color=theme.ink)  # fmt: skip
        row[0].set_ylabel(panel.ylabel, fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("x", fontsize=9)
    return figure


def draw_scatter(x: npt.ArrayLike, y: npt.ArrayLike, *, xlabel: str, ylabel: str, dark: bool = False) -> Figure:
    """Draw a target against a feature, with the histogram of the feature below.

    Parameters
    ----------
    x, y : array-like of shape (n,)
        The feature and the target.
    xlabel, ylabel : str
        Their names.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    feature, target = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if feature.shape != target.shape or feature.ndim != 1:
        raise argument_error("y", f"have the shape of x, {feature.shape}", target.shape)
    theme = theme_of(dark)
    figure = Figure(figsize=(5.6, 4.2), layout="constrained", facecolor=theme.background)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for axes in (above, below):
        clean_axes(axes, theme)
    above.plot(feature, target, ".", color=theme.blue, markersize=2.5, alpha=0.3, rasterized=True, gid="points")
    above.set_ylabel(ylabel, fontsize=9)
    below.hist(feature, bins=60, color=theme.grey)
    below.set(yticks=[])
    below.spines["left"].set_visible(False)
    below.set_xlabel(xlabel, fontsize=9)
    return figure
