"""Names beside points, where they hide as little as they can."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork.report._style import settle_layout

__all__ = ["label_points"]

Box = tuple[float, float, float, float]

_SHIFTS = [(dx, dy) for dy in (0, 8, -8, 15, -15, 22, -22) for dx in (6, -6)]


def label_points(axes: Axes, names: list[str], *, points: list[tuple[float, float]], size: float = 8) -> None:
    """Write each name beside its point: of a few places the one where it hides the least of other names and points.

    The limits of the axes must be final. Names that end up far from their points are joined to them by a thin line.

    Parameters
    ----------
    axes : Axes
        What the points are drawn on.
    names : list of str
        Names.
    points : list of (float, float)
        Where the points are, in units of the data.
    size : float, default=8
        Size of the text in points.
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
