"""Scores of the methods on a few data sets, as dots with deviations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from knotwork._checks import argument_error
from knotwork.report._style import clean_axes, method_colour, theme_of

__all__ = ["ScorePanel", "draw_score_dots"]


@dataclass(frozen=True, eq=False)
class ScorePanel:
    """Scores of methods on one data set.

    Parameters
    ----------
    title, label : str
        The data set, and what the scores are.
    methods : list of str
        Names.
    mean, sd : ndarray of shape (n_methods,)
        Mean scores and their deviations.
    lower_is_better : bool
        Whether low scores are good.
    """

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


def draw_score_dots(panels: Sequence[ScorePanel], *, dark: bool = False) -> Figure:
    """Draw mean scores with one standard deviation, a row per method, three panels beside each other.

    Parameters
    ----------
    panels : sequence of ScorePanel
        A panel for each. The dot of the best mean is filled; dots have the group id ``dot``.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    if not panels:
        raise argument_error("panels", "hold at least one panel", list(panels))
    theme = theme_of(dark)
    n_columns = min(3, len(panels))
    n_rows = -(-len(panels) // n_columns)
    height = 0.9 + 0.2 * max(len(panel.methods) for panel in panels)
    size = (0.4 + 3.3 * n_columns, height * n_rows)
    figure = Figure(figsize=size, layout="constrained", facecolor=theme.background)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        clean_axes(axes, theme)
        axes.grid(axis="y", color=theme.line, linewidth=0.6)
        for place, (method, mean, sd) in enumerate(zip(panel.methods, panel.mean, panel.sd, strict=True)):
            colour = method_colour(method, theme)
            axes.plot([mean - sd, mean + sd], [place, place], color=colour, linewidth=1.4)
            fill = colour if place == panel.best else theme.background
            axes.plot([mean], [place], "o", color=colour, markerfacecolor=fill, markersize=6, gid="dot")
        axes.set_yticks(np.arange(len(panel.methods)), panel.methods)
        axes.invert_yaxis()
        axes.set_title(panel.title, fontsize=9.5, loc="left", color=theme.ink)
        direction = "lower" if panel.lower_is_better else "higher"
        axes.set_xlabel(f"{panel.label} ({direction} is better)", fontsize=9)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    return figure
