"""A figure of two lists of average ranks of the same methods, one against the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork._checks import argument_error
from knotwork.report._labels import label_points
from knotwork.report._style import Theme, clean_axes, method_colour, method_marker, theme_of

__all__ = ["RankPair", "draw_agreement"]


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
        Average ranks.
    """

    title: str
    methods: list[str]
    ours: npt.NDArray[np.float64]
    theirs: npt.NDArray[np.float64]


def draw_agreement(pairs: Sequence[RankPair], *, dark: bool = False) -> Figure:
    """Draw ranks here against ranks there, three panels in a row; on the line both are the same.

    Parameters
    ----------
    pairs : sequence of RankPair
        A panel for each. Points have the group id ``point-PANEL-INDEX``.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    if not pairs:
        raise argument_error("pairs", "hold at least one pair", list(pairs))
    theme = theme_of(dark)
    n_columns = min(3, len(pairs))
    n_rows = -(-len(pairs) // n_columns)
    size = (0.5 + 3.25 * n_columns, 0.3 + 3.2 * n_rows)
    figure = Figure(figsize=size, layout="constrained", facecolor=theme.background)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for place, (axes, pair) in enumerate(zip(grid.flat, pairs, strict=False)):
        _draw_panel(axes, pair, theme, place=place)
    for axes in grid.flat[len(pairs) :]:
        axes.set_visible(False)
    figure.supxlabel("average rank in the paper", fontsize=9.5, color=theme.ink)
    figure.supylabel("average rank here", fontsize=9.5, color=theme.ink)
    for axes, pair in zip(grid.flat, pairs, strict=False):
        points = list(zip(pair.theirs.tolist(), pair.ours.tolist(), strict=True))
        label_points(axes, pair.methods, points=points, size=7)
    return figure


def _draw_panel(axes: Axes, pair: RankPair, theme: Theme, *, place: int) -> None:
    clean_axes(axes, theme)
    both = np.concatenate([pair.ours, pair.theirs])
    ends = np.array([both.min() - 0.7, both.max() + 1.2])
    axes.plot(ends, ends, color=theme.muted, linewidth=0.9, linestyle="--", zorder=1)
    for i, method in enumerate(pair.methods):
        axes.plot([pair.theirs[i]], [pair.ours[i]], method_marker(method), color=method_colour(method, theme),
                  markersize=5.5, linestyle="none", gid=f"point-{place}-{i}")  # fmt: skip
    axes.set(xlim=ends, ylim=ends)
    axes.set_aspect("equal")
    axes.set_title(pair.title, fontsize=9.5, loc="left", color=theme.ink)
