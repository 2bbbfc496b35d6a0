"""Figures of labelled points: average ranks of two studies, and names next to points."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork._checks import argument_error
from knotwork.report._style import (
    LIGHT,
    Style,
    draw_point,
    name_axes,
    new_panels,
    panel_title,
    root_figure,
    settle_layout,
)

__all__ = ["RankPair", "draw_agreement", "label_points"]

Floats = npt.NDArray[np.float64]
_SHIFTS = np.array([(dx, dy) for dy in (0, 8, -8, 15, -15, 22, -22) for dx in (6, -6)])
"""Offsets of a name from its point, in typographic points, preferred ones first."""


@dataclass(frozen=True, eq=False)
class RankPair:
    """Average ranks of the same methods in two studies.

    Parameters
    ----------
    title : str
        Title of the panel.
    methods : list of str
        Names of the methods.
    ours, theirs : ndarray of shape (n_methods,)
        Average ranks in the two studies.
    """

    title: str
    methods: list[str]
    ours: Floats
    theirs: Floats


def draw_agreement(pairs: Sequence[RankPair], *, ours: str, theirs: str) -> Figure:
    """Plot the average ranks of one study against those of another, three panels in a row.

    On the dashed line both are equal.

    Parameters
    ----------
    pairs : sequence of RankPair
        A panel for each, at least one. Points have the group id ``point-PANEL-INDEX``.
    ours, theirs : str
        Labels of the vertical and of the horizontal axis.

    Returns
    -------
    Figure
        A matplotlib figure with a light background, not shown and not saved.

    Examples
    --------
    >>> pair = RankPair("size 7", ["Std", "PLE"], np.array([2.0, 1.0]), np.array([1.8, 1.2]))
    >>> len(draw_agreement([pair], ours="ours", theirs="theirs").axes)
    1
    """
    if not pairs:
        raise argument_error("pairs", "hold at least one pair", list(pairs))
    figure, grid = new_panels(len(pairs), (0.5, 0.3), size=(3.25, 3.2))
    for place, (axes, pair) in enumerate(zip(grid, pairs, strict=True)):
        both = np.concatenate([pair.ours, pair.theirs])
        ends = np.array([both.min() - 0.7, both.max() + 1.2])
        axes.plot(ends, ends, color=LIGHT.muted, linewidth=0.9, linestyle="--", zorder=1)
        for i, (method, x, y) in enumerate(zip(pair.methods, pair.theirs, pair.ours, strict=True)):
            draw_point(axes, x, y, method=method, size=5.5, gid=f"point-{place}-{i}")
        axes.set(xlim=ends, ylim=ends)
        axes.set_aspect("equal")
        panel_title(axes, pair.title)
    name_axes(figure, theirs, ours)
    for axes, pair in zip(grid, pairs, strict=True):
        label_points(axes, pair.methods, points=np.column_stack([pair.theirs, pair.ours]), size=7)
    return figure


def label_points(
    axes: Axes, names: Sequence[str], *, points: npt.ArrayLike, size: float = 8, line: npt.ArrayLike = ()
) -> None:
    """Write each name next to its point, where it overlaps as few names, points and parts of a line as possible.

    The limits of the axes must be final. Distant names are connected to their points by a thin line. Positions are
    tried in a fixed order, so that equal figures have equal labels. Points and line have the shape (n, 2).
    """
    figure = root_figure(axes)
    settle_layout(figure)
    scale, frame = figure.dpi / 72, axes.get_window_extent()
    centres = axes.transData.transform(np.asarray(points, dtype=float))
    taken = np.hstack([centres - 4, centres + 4])  # left, bottom, right and top of what is drawn
    for start, end in pairwise(axes.transData.transform(np.reshape(line, (-1, 2)))):
        steps = np.linspace(start, end, 2 + int(np.hypot(*(end - start)) / 6))
        taken = np.vstack([taken, np.hstack([steps - 2, steps + 2])])
    look: Style = {"textcoords": "offset points", "va": "center", "fontsize": size, "annotation_clip": False}
    look["color"] = axes.xaxis.label.get_color()
    joint = {"arrowstyle": "-", "color": axes.spines["left"].get_edgecolor(), "linewidth": 0.5, "shrinkB": 3}
    for name, point, centre in zip(names, np.asarray(points), centres, strict=True):
        extent = np.array([0.62 * size * len(name), 1.1 * size]) * scale
        lows = centre + _SHIFTS * scale - np.column_stack([_SHIFTS[:, 0] < 0, np.full(len(_SHIFTS), 0.5)]) * extent
        boxes = np.hstack([lows, lows + extent])
        overlaps = (boxes[:, None, :2] < taken[:, 2:]) & (taken[:, :2] < boxes[:, None, 2:])
        outside = (boxes[:, 0] < frame.x0) | (boxes[:, 2] > frame.x1 + 6 * scale)
        best = np.argmin(overlaps.all(axis=2).sum(axis=1) + outside)
        taken = np.vstack([taken, boxes[best]])
        dx, dy = _SHIFTS[best].tolist()
        side = "left" if dx > 0 else "right"
        axes.annotate(name, point, xytext=(dx, dy), ha=side, arrowprops=joint if abs(dy) > 10 else None, **look)
