"""Pictures of the functions of an encoding, their knots, and the data that they are fitted to."""

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork._checks import argument_error
from knotwork.encoders import make_encoder
from knotwork.report._style import Theme, clean_axes, theme_of

__all__ = ["draw_bases", "draw_features"]

PANELS = {
    "PLE": "piecewise-linear ramps, edges at splits of a tree",
    "BS-Q": "B-splines, knots at quantiles",
    "MS-U": "M-splines, knots at equal distances",
    "IS-CART": "I-splines, knots at splits of a tree",
}
"""Methods shown by `draw_bases`, and what a reader sees there."""

Floats = npt.NDArray[np.float64]


def draw_bases(values: Floats, target: Floats, *, name: str, size: int = 7, dark: bool = False) -> Figure:
    """Draw the functions of four encodings of one column, their knots, and the histogram of the column.

    Parameters
    ----------
    values : ndarray of shape (n,)
        A column.
    target : ndarray of shape (n,)
        The target, which decides where trees split.
    name : str
        Name of the column, for the axis.
    size : int, default=7
        Functions per encoding.
    dark : bool, default=False
        Whether to draw for a dark background.

    Returns
    -------
    Figure
        A figure of matplotlib's, not shown and not saved.
    """
    theme = theme_of(dark)
    figure = Figure(figsize=(10, 6.2), layout="constrained", facecolor=theme.background)
    for axes, (method, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        encoder = make_encoder(method, size, dtype=np.float64).fit(values[:, None], target)
        _draw_feature(axes, encoder, values[:, None], feature=0, theme=theme)
        axes.set_title(f"{method}: {title}", loc="left", fontsize=10, color=theme.ink)
        axes.set_xlabel(name)
    return figure


def draw_features(encoder: Any, values: npt.ArrayLike, *, names: list[str], dark: bool = False) -> Figure:
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
        A figure of matplotlib's, not shown and not saved. Lines have the group ids ``function`` and ``knot``.
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.shape[1] != len(names):
        raise argument_error("values", f"have the shape (n, {len(names)})", table.shape)
    theme = theme_of(dark)
    n_columns = min(3, len(names))
    n_rows = -(-len(names) // n_columns)
    figure = Figure(figsize=(3.4 * n_columns, 2.3 * n_rows), layout="constrained", facecolor=theme.background)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for feature, axes in enumerate(grid.flat):
        if feature < len(names):
            _draw_feature(axes, encoder, table, feature=feature, theme=theme)
            axes.set_xlabel(names[feature])
        else:
            axes.set_visible(False)
    return figure


def _draw_feature(axes: Axes, encoder: Any, values: Floats, *, feature: int, theme: Theme) -> None:
    """Draw the functions of one feature, with its knots and the histogram of its values."""
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
    colours = [theme.blue, theme.orange, theme.green, theme.pink, theme.red, theme.grey]
    for index, curve in enumerate(curves.T):
        axes.plot(grid[:, feature], curve, color=colours[index % len(colours)], linewidth=1.6, gid="function")
    axes.set_xlim(low, high)
    axes.set_ylim(0, None)
