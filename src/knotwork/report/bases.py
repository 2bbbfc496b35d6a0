"""A picture of the bases on the data of one column."""

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork.encoders import make_encoder

__all__ = ["draw_bases"]

PANELS = {
    "PLE": "piecewise-linear ramps, edges at splits of a tree",
    "BS-Q": "B-splines, knots at quantiles",
    "MS-U": "M-splines, knots at equal distances",
    "IS-CART": "I-splines, knots at splits of a tree",
}
"""Methods shown, and what a reader sees there."""

COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999"]
"""Colours that remain apart for colour-blind readers (Okabe and Ito, 2008)."""


def draw_bases(values: npt.NDArray[np.float64], target: npt.NDArray[np.float64], *, name: str, size: int = 7) -> Figure:
    """Draw the functions of four encodings, their knots, and the data that they are fitted to.

    Parameters
    ----------
    values : ndarray of shape (n,)
        A column.
    target : ndarray of shape (n,)
        The target, which decides where trees split.
    name : str
        Name of the column, for the axis.
    size : int
        Functions per encoding.

    Returns
    -------
    Figure
        A figure of matplotlib's, not shown and not saved.
    """
    figure = Figure(figsize=(10, 6.2), layout="constrained")
    for axes, (method, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        _draw_basis(axes, values, target, method=method, size=size)
        axes.set_title(f"{method}: {title}", loc="left", fontsize=10)
        axes.set_xlabel(name)
    figure.suptitle(f"{size} columns for one feature", x=0.01, ha="left", fontsize=13, fontweight="bold")
    return figure


def _draw_basis(
    axes: Axes, values: npt.NDArray[np.float64], target: npt.NDArray[np.float64], *, method: str, size: int
) -> None:
    encoder = make_encoder(method, size, dtype=np.float64).fit(values[:, None], target)
    low, high = encoder.domain_[0]
    grid = np.linspace(low, high, 601)
    curves = encoder.transform(grid[:, None])
    for index in range(size):
        axes.plot(grid, curves[:, index], color=COLOURS[index % len(COLOURS)], linewidth=1.8)
    for knot in encoder.knots_[0]:
        axes.axvline(knot, color="0.75", linewidth=0.8, zorder=0)
    rug = axes.get_xaxis_transform()
    axes.plot(
        values, np.full(len(values), -0.04), "|", color="0.35", markersize=5, alpha=0.4, transform=rug, clip_on=False
    )
    axes.tick_params(axis="x", pad=9)
    axes.set_xlim(low, high)
    axes.spines[["top", "right"]].set_visible(False)
