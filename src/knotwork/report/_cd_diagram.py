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
from knotwork._look import Theme
from knotwork._writing import fixed, significant
from knotwork.report._style import Style, root_figure, theme_of
from knotwork.stats import check_not_negative, cliques, read_numbers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DiagramLengths:
    """Lengths of a diagram in inches, for text of `font` points; chosen by eye, and scaled with the text.

    Parameters
    ----------
    font : float
        Size of the text, in points.
    title : float
        Size of the title, as a multiple of `font`.
    row, level : float
        Height of a row of names, and of a level of bars.
    cd_y, axis_y : float
        Distances of the critical difference and of the line of ranks from the top.
    line : float
        Length of the line of ranks.
    margin, number : float
        Space around texts, and width of an average rank.
    tick : float
        Least distance between numbers on the line.
    text_share : float
        Largest share of the width for names.
    """

    font: float = 10.0
    title: float = 1.2
    row: float = 0.21
    level: float = 0.10
    cd_y: float = 0.32
    axis_y: float = 0.80
    line: float = 5.2
    margin: float = 0.08
    number: float = 0.5
    tick: float = 0.24
    text_share: float = 0.6


LENGTHS = DiagramLengths()


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
    if cd is not None:
        cd = check_not_negative(cd, "cd")
        spans = [[float(values[group[0]]), float(values[group[-1]])] for group in cliques(values, cd)]
    else:
        spans = sorted(sorted(float(values[_check_member(i, len(values))]) for i in group) for group in groups or ())
    diagram = _Diagram(labels, values, cd, spans)
    axes = diagram.new_axes(theme, title, width) if axes is None else axes
    diagram.draw(axes, theme, title)
    return axes


def _check_member(place: int, n_methods: int) -> int:
    if not 0 <= place < n_methods:
        raise argument_error("groups", f"have positions of the {n_methods} methods", place)
    return place


class _Diagram:
    """Positions of all parts: ranks on the x axis, inches from the top on the y axis."""

    def __init__(self, labels: list[str], ranks: Floats, cd: float | None, spans: list[list[float]]) -> None:
        self.labels, self.ranks, self.cd, self.spans = labels, ranks, cd, spans
        order = np.argsort(ranks, kind="stable").tolist()
        half = (len(order) + 1) // 2
        self.sides = order[:half], order[half:][::-1]  # on the right the worst is on top, so that no lines cross
        self.left, self.right = (
            max((_width(labels[i]) for i in side), default=0.0) + LENGTHS.number + 2 * LENGTHS.margin
            for side in self.sides
        )
        self.low = float(floor(ranks.min()))
        self.high = max(float(ceil(ranks.max())), self.low + 1)
        margin = 0.02 * (self.high - self.low)
        self.start, self.end = self.low - margin, max(self.high, self.low + (cd or 0.0)) + margin
        self.levels = _levels(spans, margin)
        self.first_row = LENGTHS.axis_y + 0.16 + LENGTHS.level * (max(self.levels, default=-1) + 1) + LENGTHS.row / 2
        self.height = self.first_row + LENGTHS.row * (half - 0.5) + LENGTHS.margin

    def new_axes(self, theme: Theme, title: str | None, width: float | None) -> Axes:
        """Return the axes of a new figure, which is lower if its text is scaled down to a width."""
        height, texts = self.height, self.left + self.right
        if width is None:
            width = max(texts + LENGTHS.line, 0.0 if title is None else 1.25 * LENGTHS.title * _width(title))
        else:
            height *= min(1.0, LENGTHS.text_share * width / texts)
        whole = height + (0.0 if title is None else 0.35)
        figure = Figure(figsize=(width, whole), facecolor=theme.background)
        return figure.add_axes((0.0, 0.0, 1.0, height / whole))

    def draw(self, axes: Axes, theme: Theme, title: str | None) -> None:
        """Draw everything, with text scaled down to fit into the axes."""
        box = axes.get_position()
        width, height = np.array([box.width, box.height]) * root_figure(axes).get_size_inches()
        scale = float(min(1.0, height / self.height, LENGTHS.text_share * width / (self.left + self.right)))
        per_inch = (self.end - self.start) / (width - scale * (self.left + self.right))
        axes.set_xlim(self.start - per_inch * scale * self.left, self.end + per_inch * scale * self.right)
        axes.set_ylim(self.height, 0)
        axes.axis("off")
        pen = _Pen(axes, theme, scale)
        if title is not None:
            style: Style = {"fontsize": LENGTHS.title * LENGTHS.font * scale, "fontweight": "bold", "parse_math": False}
            axes.set_title(title, loc="left", x=0.01, color=theme.ink, **style)
        n_numbers = min(15.0, (self.high - self.low) / per_inch / (LENGTHS.tick * scale))
        self._draw_scale(pen, n_numbers)
        if self.cd is not None:
            self._draw_difference(pen, self.cd)
        self._draw_bars(pen)
        self._draw_methods(pen)

    def _draw_scale(self, pen: "_Pen", n_numbers: float) -> None:
        """Draw the line of ranks with its ticks and at most `n_numbers` numbers."""
        style: Style = {"gid": "scale", "linewidth": 1.1, "solid_capstyle": "projecting"}
        pen.line([self.low, self.high], [LENGTHS.axis_y, LENGTHS.axis_y], **style)
        span = self.high - self.low
        step = next(step for step in (1, 2, 5, 10, 1000) if span / step <= n_numbers or step == 1000)
        for tick in np.arange(self.low, self.high + 0.25, step / 2):
            is_major = (tick - self.low) % step == 0
            pen.line([tick, tick], [LENGTHS.axis_y - (0.09 if is_major else 0.05), LENGTHS.axis_y], **style)
            if is_major:
                pen.write((tick, LENGTHS.axis_y - 0.11), significant(tick), gid="tick", size=0.9)

    def _draw_difference(self, pen: "_Pen", cd: float) -> None:
        """Draw the critical difference to scale, from the left end of the line."""
        ends, y = [self.low, self.low + cd], LENGTHS.cd_y
        pen.line(ends, [y, y], gid="cd", linewidth=1.6, solid_capstyle="butt")
        for x in ends:
            pen.line([x, x], [y - 0.05, y + 0.05], gid="cd end", linewidth=1.6, solid_capstyle="butt")
        pen.write((self.low + cd / 2, y - 0.07), f"CD = {fixed(cd, 2)}", gid="cd text")

    def _draw_bars(self, pen: "_Pen") -> None:
        """Draw a bar from the best to the worst method of each group; its round ends keep a bar over ties visible.

        Bars of groups are thin, with a dot for each member.
        """
        bar, dot = (4.0, 4.0) if self.cd is not None else (1.6, 5.5)
        style: Style = {"solid_capstyle": "butt", "marker": "o", "markersize": dot * pen.scale, "markeredgewidth": 0}
        for members, level in zip(self.spans, self.levels, strict=True):
            height = [LENGTHS.axis_y + 0.12 + LENGTHS.level * level] * len(members)
            pen.line(members, height, gid="clique", linewidth=bar, color=pen.theme.blue, zorder=3, **style)

    def _draw_methods(self, pen: "_Pen") -> None:
        """Draw lines from ranks to names."""
        muted = pen.theme.muted
        for side, x_end, ha, sign in zip(self.sides, (self.start, self.end), ("right", "left"), (-1, 1), strict=True):
            for row, index in enumerate(side):
                x, y = float(self.ranks[index]), self.first_row + LENGTHS.row * row
                style: Style = {"gid": "leader", "linewidth": 0.8, "solid_joinstyle": "miter"}
                pen.line([x, x, x_end], [LENGTHS.axis_y, y, y], color=muted, **style)
                align: Style = {"ha": ha, "va": "center_baseline"}
                pen.write((x_end, y), fixed(x, 2), gid="rank", color=muted, shift=sign * LENGTHS.margin, **align)
                shift = sign * (LENGTHS.number + LENGTHS.margin)
                pen.write((x_end, y), self.labels[index], gid="name", shift=shift, **align)


def _width(text: str) -> float:
    """Return the width of a text in inches at the natural size, with a margin for rounding at smaller sizes."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=LENGTHS.font), ismath=False)
    return 1.08 * float(width) / 72


def _levels(spans: list[list[float]], gap: float) -> list[int]:
    """Assign each span, from left to right, to the highest level where it overlaps no other span."""
    ends: list[float] = []
    levels = []
    for span in spans:
        level = next((level for level, last in enumerate(ends) if last + gap < span[0]), len(ends))
        ends[level : level + 1] = [span[-1]]
        levels.append(level)
    return levels


@dataclass(frozen=True)
class _Pen:
    """Draws on axes, with lines and texts at a share of their natural size."""

    axes: Axes
    theme: Theme
    scale: float

    def line(self, x: Sequence[float], y: Sequence[float], *, linewidth: float, **style: Any) -> None:
        """Draw a line, in the colour of text by default."""
        look: Style = {"color": self.theme.ink, "linewidth": linewidth * self.scale} | style
        self.axes.plot(x, y, **look)

    def write(self, at: tuple[float, float], text: str, *, size: float = 1.0, shift: float = 0.0, **style: Any) -> None:
        """Write literal text `shift` inches to the right of a point, by default centred above it."""
        at_side = (72 * shift * size * self.scale, 0)
        look: Style = {"fontsize": LENGTHS.font * size * self.scale, "color": self.theme.ink}
        look |= {
            "ha": "center",
            "va": "bottom",
            "textcoords": "offset points",
            "parse_math": False,
            "annotation_clip": False,
        } | style
        self.axes.annotate(text, at, xytext=at_side, **look)
