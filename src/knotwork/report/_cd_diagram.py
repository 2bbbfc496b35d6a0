"""Critical difference diagram (Demsar): average ranks on a line, with bars over methods that do not differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from knotwork._checks import argument_error, check_bool
from knotwork.report._style import Theme, theme_of
from knotwork.stats import check_not_negative, cliques, read_numbers

__all__ = ["draw_cd_diagram"]

Floats = npt.NDArray[np.float64]

_FONT = 10.0  # points; all lengths below are inches at this size
_TITLE = 1.2  # times the natural size
_ROW = 0.21
_LEVEL_HEIGHT = 0.10
_CD_Y = 0.32
_AXIS_Y = 0.80
_LINE = 5.2
_TEXT_MARGIN = 0.08
_NUMBER = 0.5
_TICK = 0.24  # least distance between numbers on the line
_TEXT_SHARE = 0.6  # largest share of the width that names may take


def draw_cd_diagram(
    names: Sequence[str],
    ranks: npt.ArrayLike,
    cd: float | None = None,
    *,
    groups: Sequence[Sequence[int]] | None = None,
    axes: Axes | None = None,
    dark: bool = False,
    title: str | None = None,
    width: float | None = None,
) -> Axes:
    """Draw average ranks on a line, best at the left, with bars over methods that do not differ significantly.

    The better half of the methods is listed on the left, the other half on the right, each with its average rank. With
    a critical difference, the bars are those of `knotwork.stats.cliques`, and the difference is drawn to scale above
    the line. With `groups`, each bar has a dot at the rank of each member: a method without a dot lies between members,
    but differs from one of them. Names are written on one line each; line breaks in them become spaces.

    Parameters
    ----------
    names : sequence of str of length n_methods
        Names of the methods.
    ranks : array-like of shape (n_methods,)
        Their average ranks, in the same order, at least 2.
    cd : float, optional
        The critical difference, as from `knotwork.stats.critical_difference`.
    groups : sequence of sequence of int, optional
        Groups of positions in `ranks`, as from `knotwork.stats.pairwise_cliques`, instead of `cd`.
    axes : Axes, optional
        Axes to draw on, in their final place and size; text is scaled down to fit. By default a new figure that fits
        the names.
    dark : bool, default=False
        Whether to draw for a dark background.
    title : str, optional
        A title, above the diagram.
    width : float, optional
        Width of a new figure in inches, to which text is scaled down; by default as wide as names and ranks need.

    Returns
    -------
    Axes
        The axes, not shown and not saved; ``axes.figure`` is the figure. The artists have group ids: ``cd``,
        ``clique``, ``name``, ``rank``, ``leader``, ``scale``.

    References
    ----------
    J. Demsar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7.

    Examples
    --------
    >>> axes = draw_cd_diagram(["C4.5", "m", "cf", "m + cf"], [3.143, 2.000, 2.893, 1.964], 1.25)
    >>> [line.get_xdata().tolist() for line in axes.lines if line.get_gid() == "clique"]
    [[1.964, 3.143]]
    """
    values = read_numbers(ranks, "ranks", min_size=2)
    labels = [" ".join(str(name).split()) for name in names]
    if len(labels) != len(values):
        raise argument_error("names", f"have a name for each of the {len(values)} ranks", list(names))
    if (cd is None) == (groups is None):
        raise argument_error("groups", "be given exactly if cd is not", groups)
    theme = theme_of(check_bool(dark, "dark"))
    cd = None if cd is None else check_not_negative(cd, "cd")
    layout = _layout(labels, values, cd, groups)
    if axes is None:
        axes = _new_axes(layout, theme, title=title, width=width)
    scale = _fit(axes, layout)
    if title is not None:
        size = _TITLE * _FONT * scale
        axes.set_title(title, loc="left", x=0.01, color=theme.ink, fontsize=size, fontweight="bold", parse_math=False)
    _draw_scale(axes, layout, theme, scale=scale)
    if layout.cd is not None:
        _draw_difference(axes, layout, layout.cd, color=theme.ink, scale=scale)
    _draw_cliques(axes, layout, theme, scale=scale)
    _draw_methods(axes, layout, theme, scale=scale)
    return axes


@dataclass(frozen=True, eq=False)
class _DiagramLayout:
    """Positions of all parts: ranks on the x axis, inches from the top on the y axis."""

    labels: list[str]
    ranks: Floats
    order: list[int]
    cd: float | None
    bars: list[tuple[list[float], int]]
    low: float
    high: float
    left: float
    right: float

    @property
    def n_left(self) -> int:
        """Number of methods listed on the left."""
        return (len(self.order) + 1) // 2

    @property
    def start(self) -> float:
        """Left end of the scale, a little before the line of ranks."""
        return self.low - 0.02 * (self.high - self.low)

    @property
    def end(self) -> float:
        """Right end of the scale, a little after the line of ranks."""
        return max(self.high, self.low + (self.cd or 0.0)) + 0.02 * (self.high - self.low)

    @property
    def first_row(self) -> float:
        """Height of the uppermost names."""
        n_levels = max((level for _, level in self.bars), default=-1) + 1
        return _AXIS_Y + 0.16 + _LEVEL_HEIGHT * n_levels + _ROW / 2

    @property
    def height(self) -> float:
        """Height of the diagram."""
        return self.first_row + _ROW * (self.n_left - 0.5) + _TEXT_MARGIN


def _layout(
    labels: list[str], ranks: Floats, cd: float | None, groups: Sequence[Sequence[int]] | None
) -> _DiagramLayout:
    order = np.argsort(ranks, kind="stable").tolist()
    low, high = float(floor(ranks.min())), float(ceil(ranks.max()))
    high = max(high, low + 1)
    half = (len(order) + 1) // 2
    widths = [max((_width(labels[i]) for i in side), default=0.0) for side in (order[:half], order[half:])]
    left, right = (width + _NUMBER + 2 * _TEXT_MARGIN for width in widths)
    if groups is None:
        assert cd is not None
        spans = [[float(ranks[group[0]]), float(ranks[group[-1]])] for group in cliques(ranks, cd)]
    else:
        spans = sorted(sorted(float(ranks[_check_member(i, len(ranks))]) for i in group) for group in groups)
    return _DiagramLayout(labels, ranks, order, cd, _levels(spans, 0.02 * (high - low)), low, high, left, right)


def _check_member(place: int, n_methods: int) -> int:
    if not 0 <= place < n_methods:
        raise argument_error("groups", f"have positions of the {n_methods} methods", place)
    return place


def _width(text: str) -> float:
    """Return the width of a text in inches at the natural size, with a margin for rounding at smaller sizes."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=_FONT), ismath=False)
    return 1.08 * float(width) / 72


def _levels(spans: list[list[float]], gap: float) -> list[tuple[list[float], int]]:
    """Assign each span, from left to right, to the highest level where it overlaps no other span."""
    ends: list[float] = []
    placed = []
    for span in spans:
        level = next((level for level, last in enumerate(ends) if last + gap < span[0]), len(ends))
        ends[level : level + 1] = [span[-1]]
        placed.append((span, level))
    return placed


def _new_axes(layout: _DiagramLayout, theme: Theme, *, title: str | None, width: float | None) -> Axes:
    height = layout.height
    if width is None:
        width = max(layout.left + _LINE + layout.right, 0.0 if title is None else 1.25 * _TITLE * _width(title))
    else:  # a scaled diagram is lower
        height *= min(1.0, _TEXT_SHARE * width / (layout.left + layout.right))
    whole = height + (0.0 if title is None else 0.35)
    figure = Figure(figsize=(width, whole), facecolor=theme.background)
    return figure.add_axes((0.0, 0.0, 1.0, height / whole))


def _fit(axes: Axes, layout: _DiagramLayout) -> float:
    """Set the limits so that names fit on both sides, and return the scale of the text."""
    box = axes.get_position()
    figure_width, figure_height = axes.get_figure(root=True).get_size_inches()  # type: ignore[union-attr]
    width, height = box.width * figure_width, box.height * figure_height
    scale = min(1.0, height / layout.height, _TEXT_SHARE * width / (layout.left + layout.right))
    per_inch = (layout.end - layout.start) / (width - scale * (layout.left + layout.right))
    axes.set_xlim(layout.start - per_inch * scale * layout.left, layout.end + per_inch * scale * layout.right)
    axes.set_ylim(layout.height, 0)
    axes.axis("off")
    return float(scale)


def _draw_scale(axes: Axes, layout: _DiagramLayout, theme: Theme, *, scale: float) -> None:
    """Draw the line of ranks with its ticks and numbers."""
    style: dict[str, Any] = {"color": theme.ink, "linewidth": 1.1 * scale, "solid_capstyle": "projecting"}
    style["gid"] = "scale"
    axes.plot([layout.low, layout.high], [_AXIS_Y, _AXIS_Y], **style)
    (start, _), (end, _) = axes.transData.transform([(layout.low, 0.0), (layout.high, 0.0)])
    length = (end - start) / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    n_numbers = min(15.0, length / (_TICK * scale))
    step = next(step for step in (1, 2, 5, 10, 1000) if (layout.high - layout.low) / step <= n_numbers or step == 1000)
    for tick in np.arange(layout.low, layout.high + 0.25, step / 2):
        is_major = (tick - layout.low) % step == 0
        axes.plot([tick, tick], [_AXIS_Y - (0.09 if is_major else 0.05), _AXIS_Y], **style)
        if is_major:
            _write(
                axes,
                (tick, _AXIS_Y - 0.11),
                f"{tick:g}",
                gid="tick",
                size=scale * 0.9,
                color=theme.ink,
                align=("center", "bottom"),
            )


def _draw_difference(axes: Axes, layout: _DiagramLayout, cd: float, *, color: str, scale: float) -> None:
    """Draw the critical difference to scale, from the left end of the line."""
    end = layout.low + cd
    style: dict[str, Any] = {"color": color, "linewidth": 1.6 * scale, "solid_capstyle": "butt"}
    axes.plot([layout.low, end], [_CD_Y, _CD_Y], gid="cd", **style)
    for x in (layout.low, end):
        axes.plot([x, x], [_CD_Y - 0.05, _CD_Y + 0.05], gid="cd end", **style)
    _write(
        axes,
        (layout.low + cd / 2, _CD_Y - 0.07),
        f"CD = {cd:.2f}",
        gid="cd text",
        size=scale,
        color=color,
        align=("center", "bottom"),
    )


def _draw_cliques(axes: Axes, layout: _DiagramLayout, theme: Theme, *, scale: float) -> None:
    """Draw a bar from the best to the worst method of each group; its round ends keep a bar over ties visible.

    Bars of groups are thin, with a dot for each member.
    """
    bar, dot = (4, 4) if layout.cd is not None else (1.6, 5.5)
    for members, level in layout.bars:
        y = _AXIS_Y + 0.12 + _LEVEL_HEIGHT * level
        axes.plot(
            members,
            [y] * len(members),
            color=theme.blue,
            linewidth=bar * scale,
            solid_capstyle="butt",
            marker="o",
            markersize=dot * scale,
            markeredgewidth=0,
            gid="clique",
            zorder=3,
        )


def _draw_methods(axes: Axes, layout: _DiagramLayout, theme: Theme, *, scale: float) -> None:
    """Draw lines from ranks to names. On the right the worst method is on top, so that no lines cross."""
    left, right = layout.order[: layout.n_left], layout.order[layout.n_left :][::-1]
    for side, x_end, align, sign in ((left, layout.start, "right", -1), (right, layout.end, "left", 1)):
        for row, index in enumerate(side):
            x, y = float(layout.ranks[index]), layout.first_row + _ROW * row
            axes.plot(
                [x, x, x_end],
                [_AXIS_Y, y, y],
                color=theme.muted,
                linewidth=0.8 * scale,
                gid="leader",
                solid_joinstyle="miter",
            )
            number = f"{x:.2f}"
            _write(
                axes,
                (x_end, y),
                number,
                gid="rank",
                size=scale,
                color=theme.muted,
                align=(align, "center_baseline"),
                shift=sign * _TEXT_MARGIN,
            )
            _write(
                axes,
                (x_end, y),
                layout.labels[index],
                gid="name",
                size=scale,
                color=theme.ink,
                align=(align, "center_baseline"),
                shift=sign * (_NUMBER + _TEXT_MARGIN),
            )


def _write(
    axes: Axes,
    at: tuple[float, float],
    text: str,
    *,
    gid: str,
    size: float,
    color: str,
    align: tuple[str, str],
    shift: float = 0.0,
) -> None:
    """Write literal text `shift` inches to the right of a point, at `size` times the natural size."""
    axes.annotate(
        text,
        at,
        xytext=(72 * shift * size, 0),
        textcoords="offset points",
        ha=align[0],
        va=align[1],
        fontsize=_FONT * size,
        color=color,
        parse_math=False,
        annotation_clip=False,
        gid=gid,
    )
