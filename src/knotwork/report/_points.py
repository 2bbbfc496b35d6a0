"""Figures of labelled points: average ranks of two studies, and names next to points."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork._checks import argument_error
from knotwork.report._style import LIGHT, draw_point, name_axes, new_panels, panel_title, root_figure, settle_layout

__all__ = ["Box", "RankPair", "draw_agreement", "label_points"]

Floats = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""

_SHIFTS = [(dx, dy) for dy in (0, 8, -8, 15, -15, 22, -22) for dx in (6, -6)]
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
        points = list(zip(pair.theirs.tolist(), pair.ours.tolist(), strict=True))
        label_points(axes, pair.methods, points=points, size=7)
    return figure


def label_points(
    axes: Axes,
    names: list[str],
    *,
    points: list[tuple[float, float]],
    size: float = 8,
    lines: Sequence[list[tuple[float, float]]] = (),
) -> None:
    """Write each name next to its point, where it overlaps as few names, points and lines as possible.

    The limits of the axes must be final. Distant names are connected to their points by a thin line. Positions are
    tried in a fixed order, so that equal figures have equal labels.
    """
    figure = root_figure(axes)
    settle_layout(figure)
    scale = figure.dpi / 72
    centres = [axes.transData.transform(point) for point in points]
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in centres]
    for corners in ([axes.transData.transform(point) for point in joined] for joined in lines):
        for start, end in pairwise(corners):
            steps = np.linspace(start, end, 2 + int(np.hypot(*(end - start)) / 6))
            taken += [(x - 2, y - 2, x + 2, y + 2) for x, y in steps.tolist()]
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
        axes.annotate(
            name,
            point,
            xytext=(dx, dy),
            textcoords="offset points",
            ha="left" if dx > 0 else "right",
            va="center",
            fontsize=size,
            color=colour,
            annotation_clip=False,
            arrowprops=line if abs(dy) > 10 else None,
        )


def _box(x: float, y: float, *, width: float, height: float, right: bool) -> Box:
    left = x if right else x - width
    return left, y - height / 2, left + width, y + height / 2


def _hidden(box: Box, others: list[Box]) -> int:
    return sum(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in others)
