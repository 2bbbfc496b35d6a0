"""Figures of encodings and data: basis functions, an encoded value, fitted curves, and scatter plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork import basis
from knotwork._checks import argument_error
from knotwork._look import TYPE, Theme
from knotwork._writing import fixed
from knotwork.encoders import PiecewiseLinearEncoder, SplineEncoder, make_encoder
from knotwork.report._style import clean_axes, new_figure, new_panels, panel_title, theme_of

PANELS = {
    "PLE": "piecewise-linear ramps, edges at splits of a tree",
    "BS-Q": "B-splines, knots at quantiles",
    "MS-U": "M-splines, knots at equal distances",
    "IS-CART": "I-splines, knots at splits of a tree",
}
"""Methods shown by `draw_bases`, with their titles."""

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

Floats = npt.NDArray[np.float64]


def draw_bases(values: Floats, target: Floats, *, name: str, size: int = 7, dark: bool = False) -> Figure:
    """Draw the functions of four encodings of one column, their knots, and the histogram of the column.

    Parameters
    ----------
    values : ndarray of shape (n,)
        A column.
    target : ndarray of shape (n,)
        The target, for knots at splits of a tree.
    name : str
        Name of the column, for the axis.
    size : int, default=7
        Functions per encoding.
    dark : bool, default=False
        Whether to draw for a dark background.

    Returns
    -------
    Figure
        A matplotlib figure, not shown and not saved.
    """
    theme = theme_of(dark)
    figure = new_figure(10, 6.2, theme)
    for axes, (method, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        encoder = make_encoder(method, size, dtype=np.float64).fit(values[:, None], target)
        _draw_feature(axes, encoder, values[:, None], feature=0, theme=theme)
        panel_title(axes, f"{method}: {title}", theme, size=10)
        axes.set_xlabel(name)
    return figure


def draw_features(
    encoder: SplineEncoder | PiecewiseLinearEncoder, values: npt.ArrayLike, *, names: list[str], dark: bool = False
) -> Figure:
    """Draw the functions and knots of a fitted encoder over the histogram of each column, three panels in a row.

    Parameters
    ----------
    encoder : SplineEncoder or PiecewiseLinearEncoder
        A fitted encoder whose columns all have the same size.
    values : array-like of shape (n, n_features)
        The data, complete.
    names : list of str of length n_features
        Names of the columns.
    dark : bool, default=False
        Whether to draw for a dark background.

    Returns
    -------
    Figure
        A matplotlib figure, not shown and not saved. Lines have the group ids ``function`` and ``knot``.
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.shape[1] != len(names):
        raise argument_error("values", f"have the shape (n, {len(names)})", table.shape)
    theme = theme_of(dark)
    figure, panels = new_panels(len(names), size=(3.4, 2.3), theme=theme)
    for feature, axes in enumerate(panels):
        _draw_feature(axes, encoder, table, feature=feature, theme=theme)
        axes.set_xlabel(names[feature])
    return figure


def _draw_feature(
    axes: Axes, encoder: SplineEncoder | PiecewiseLinearEncoder, values: Floats, *, feature: int, theme: Theme
) -> None:
    """Draw the functions of one feature, its knots and the histogram of its values."""
    low, high = encoder.domain_[feature]
    grid = np.tile(np.nanmean(values, axis=0), (601, 1))
    grid[:, feature] = np.linspace(low, high, 601)
    encoded = np.asarray(encoder.transform(grid), dtype=float)
    curves = encoded.reshape(601, values.shape[1], -1)[:, feature]
    clean_axes(axes, theme)
    counts, edges = np.histogram(values[:, feature], bins=40, range=(low, high))
    heights = 0.55 * np.nanmax(curves) * counts / counts.max()
    axes.stairs(heights, edges, fill=True, color=theme.line, zorder=0, gid="histogram")
    for knot in encoder.knots_[feature]:
        axes.axvline(knot, color=theme.muted, linewidth=0.8, linestyle=(0, (3, 3)), zorder=1, gid="knot")
    for colour, curve in zip(cycle(theme.data_colours), curves.T, strict=False):
        axes.plot(grid[:, feature], curve, color=colour, linewidth=1.6, gid="function")
    axes.set_xlim(low, high)
    axes.set_ylim(min(0.0, 1.05 * float(np.nanmin(curves))), None)


def draw_encoded_value(values: npt.ArrayLike, x: float = 0.58, *, size: int = 6, dark: bool = False) -> Figure:
    """Draw one value, scaled and encoded by each registered family with equally spaced knots.

    For each family, its functions are drawn with the value marked, next to the encoded coordinates as bars.

    Parameters
    ----------
    values : array-like of shape (n,)
        A column between 0 and 1, shown as ticks.
    x : float, default=0.58
        The value.
    size : int, default=6
        Number of coordinates of each family.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    column = np.asarray(values, dtype=float)
    if column.ndim != 1 or not ((column >= 0) & (column <= 1)).all() or not 0 <= x <= 1:
        raise argument_error("values", "be numbers between 0 and 1, like x", values)
    theme = theme_of(dark)
    n_families = len(basis.FAMILIES)
    figure = new_figure(9.6, 1.0 + 1.4 * n_families, theme)
    grid = figure.subplots(1 + n_families, 2, width_ratios=[3, 1.3], height_ratios=[0.7, *[1.0] * n_families])
    _draw_scalars(grid[0, 0], grid[0, 1], column, x=x, theme=theme)
    for (curves, bars), (family, traits) in zip(grid[1:], basis.FAMILIES.items(), strict=True):
        _draw_family(curves, bars, column, family=family, x=x, size=size, theme=theme)
        panel_title(curves, traits.label, theme)
    for axes in grid[:-1, 0]:
        axes.tick_params(labelbottom=False)
    grid[-1, 0].set_xlabel("value, scaled to [0, 1]", fontsize=TYPE.text)
    return figure


def _draw_scalars(axes: Axes, bars: Axes, column: Floats, *, x: float, theme: Theme) -> None:
    """Draw the data, and the value after scaling."""
    clean_axes(axes, theme)
    axes.hist(column, bins=12, range=(0, 1), color=theme.line)
    axes.plot(column, np.zeros(len(column)), "|", color=theme.muted, markersize=6, clip_on=False)
    axes.axvline(x, color=theme.red, linewidth=1.3, linestyle="--")
    axes.set(xlim=(0, 1), yticks=[])
    axes.spines["left"].set_visible(False)
    panel_title(axes, "the data, and one value", theme)
    scaled = {"Std": (x - column.mean()) / column.std(), "MinMax": (x - column.min()) / np.ptp(column)}
    clean_axes(bars, theme)
    bars.barh(list(scaled), list(scaled.values()), color=theme.grey, height=0.55)
    bars.invert_yaxis()
    bars.axvline(0, color=theme.muted, linewidth=0.8)
    for place, value in enumerate(scaled.values()):
        bars.text(max(value, 0) + 0.03, place, fixed(value, 2), va="center", fontsize=TYPE.small, color=theme.ink)
    bars.set_xlim(min(0, *scaled.values()) - 0.05, max(1.0, *scaled.values()) + 0.3)
    panel_title(bars, "one coordinate", theme)


def _draw_family(axes: Axes, bars: Axes, column: Floats, *, family: str, x: float, size: int, theme: Theme) -> None:
    """Draw the functions of one family with the value marked, and its coordinates."""
    degree = 3
    knots = np.linspace(0, 1, size - basis.FAMILIES[family].smallest_size(degree) + 2)[1:-1]
    grid = np.linspace(0, 1, 601)
    curves, marked = (basis.evaluate(family, at, knots, degree=degree) for at in (grid, np.array([x])))
    clean_axes(axes, theme)
    for knot in knots:
        axes.axvline(knot, color=theme.line, linewidth=0.9, zorder=0)
    colours = [theme.blue, theme.orange, theme.green, theme.pink, theme.grey, theme.ink]
    shades = list(islice(cycle(colours), size))
    for curve, colour in zip(curves.T, shades, strict=True):
        axes.plot(grid, curve, color=colour, linewidth=1.5, gid="function")
    axes.axvline(x, color=theme.red, linewidth=1.3, linestyle="--")
    axes.scatter([x] * size, marked[0], color=shades, s=22, zorder=3, gid="marked")
    axes.plot(column, np.zeros(len(column)), "|", color=theme.muted, markersize=5, clip_on=False)
    axes.set(xlim=(0, 1))
    clean_axes(bars, theme)
    bars.bar(np.arange(1, size + 1), marked[0], color=shades, width=0.7)
    for place, value in enumerate(marked[0], 1):
        bars.text(place, value, fixed(value, 2), ha="center", va="bottom", fontsize=TYPE.tiny, color=theme.ink)
    bars.set_xticks(np.arange(1, size + 1), [f"e{index}".translate(_SUBSCRIPTS) for index in range(1, size + 1)])
    bars.set(yticks=[], ylim=(1.2 * min(0.0, float(marked.min())), max(1.0, float(marked.max())) * 1.2))
    bars.spines["left"].set_visible(False)


@dataclass(frozen=True, eq=False)
class FittedCurve:
    """A fitted curve.

    Parameters
    ----------
    name : str
        The encoding.
    curve : ndarray of shape (n_grid,)
        Its values on the grid.
    note : str
        Its quality, such as ``"NRMSE 0.031"``.
    """

    name: str
    curve: Floats
    note: str = ""


@dataclass(frozen=True, eq=False)
class FitPanel:
    """One learning problem with its fits.

    Parameters
    ----------
    title, ylabel : str
        Title, and label of the vertical axis.
    grid, truth : ndarray of shape (n_grid,)
        Points at which curves are evaluated, and the values of the true curve.
    x, y : ndarray of shape (n,)
        The data that the curves are fitted to.
    fits : list of FittedCurve
        The fits.
    """

    title: str
    ylabel: str
    grid: Floats
    truth: Floats
    x: Floats
    y: Floats
    fits: list[FittedCurve]


def draw_fits(panels: Sequence[FitPanel], *, edges: npt.ArrayLike = (), dark: bool = False) -> Figure:
    """Draw fitted curves with the true curve and the data, a row per problem and a column per fit.

    Parameters
    ----------
    panels : sequence of FitPanel
        The problems, all with the same number of fits.
    edges : array-like of shape (n_edges,), default=()
        Edges of bins, drawn as thin lines.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    n_fits = [len(panel.fits) for panel in panels]
    if len(set(n_fits)) != 1:
        raise argument_error("panels", "hold problems with the same number of fits", n_fits)
    theme, n_columns = theme_of(dark), n_fits[0]
    figure = new_figure(4.6 * n_columns, 0.2 + 2.8 * len(panels), theme)
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
            panel_title(axes, f"{panel.title}: {fit.name}" + (f", {fit.note}" if fit.note else ""), theme)
        row[0].set_ylabel(panel.ylabel, fontsize=TYPE.text)
    for axes in grid[-1]:
        axes.set_xlabel("x", fontsize=TYPE.text)
    return figure


def draw_scatter(x: npt.ArrayLike, y: npt.ArrayLike, *, xlabel: str, ylabel: str, dark: bool = False) -> Figure:
    """Plot a target against a feature, with the histogram of the feature below.

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
    figure = new_figure(5.6, 4.2, theme)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for axes in (above, below):
        clean_axes(axes, theme)
    above.plot(feature, target, ".", color=theme.blue, markersize=2.5, alpha=0.3, rasterized=True, gid="points")
    above.set_ylabel(ylabel, fontsize=TYPE.text)
    below.hist(feature, bins=60, color=theme.grey)
    below.set(yticks=[])
    below.spines["left"].set_visible(False)
    below.set_xlabel(xlabel, fontsize=TYPE.text)
    return figure
