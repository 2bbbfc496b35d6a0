"""Look of figures: colours, panels, points and their names; and figures as SVG, for light and dark pages."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Literal, final

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_rgb, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from knotwork._look import DARK, FIGURE_FONTS, LIGHT, TYPE, Theme
from knotwork.basis import FAMILIES
from knotwork.encoders import METHOD_TABLE, EncodingName
from knotwork.knots import PLACEMENTS

_MARKERS, _LEARNED = "os^Dphd8", "P*<>XH1234"
"""Markers of the registered placements, in their order, and of learned knots that start from them."""

_COLOURED: dict[type[Artist], tuple[str, ...]] = {
    Text: ("color",),
    Line2D: ("color", "markerfacecolor", "markeredgecolor"),
    Patch: ("facecolor", "edgecolor"),
    Collection: ("facecolor", "edgecolor"),
}
PHONE = 3.6
"""Maximum width in inches of figures for phones: 346 of the 380 pixels of a small screen."""

Corner = Literal["outside upper left", "outside upper right"]
"""A place above the panels."""

Style = dict[str, Any]
"""Keyword arguments of matplotlib."""

_SHIFTS = np.array(
    [
        (dx, dy)
        for far in (0, 28, 56)
        for dy in (0, 8, -8, 15, -15, 22, -22, 30, -30, 40, -40)
        for dx in (6 + far, -6 - far)
    ]
)
"""Offsets of a name from its point, in typographic points, preferred ones first."""


@contextmanager
def _literal_texts(figure: Figure) -> Iterator[None]:
    """Draw all texts of a figure literally: a dollar sign in a column name does not start a formula."""
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with mpl.rc_context({"text.parse_math": False}):  # for tick labels that are created while drawing
        yield


@final
class _LiteralFigure(Figure):
    """A figure that never interprets text as formulas."""

    def draw(self, renderer: Any) -> None:
        """Draw the figure."""
        with _literal_texts(self):
            super().draw(renderer)


def new_figure(width: float, height: float, theme: Theme = LIGHT) -> Figure:
    """Return an empty figure with constrained layout, size in inches, that never interprets text as formulas."""
    return _LiteralFigure(figsize=(width, height), layout="constrained", facecolor=theme.background)


def theme_of(dark: bool) -> Theme:
    """Return the colours of dark or of light figures."""
    return DARK if dark else LIGHT


def method_colour(method: str, theme: Theme) -> str:
    """Return the colour of a method's family, by its position in the registry; other methods are grey."""
    colours = theme.blue, theme.orange, theme.pink, theme.green, theme.red
    by_short = dict(zip((family.short for family in FAMILIES.values()), colours, strict=False))
    return by_short.get(EncodingName.parse(method).family, theme.grey)


def method_marker(method: str) -> str:
    """Return the marker of a method's placement, which distinguishes methods of one family without colour."""
    entry = METHOD_TABLE.get(method)
    if entry is None or entry.placement is None:
        return "X" if method == "MinMax" else "o"
    if entry.adaptive:
        return "v"
    markers = _LEARNED if entry.learnable else _MARKERS
    return markers[list(PLACEMENTS).index(entry.placement) % len(markers)]


def clean_axes(axes: Axes, theme: Theme) -> None:
    """Set the colours of axes, and hide the upper and the right spine.

    Parameters
    ----------
    axes : Axes
        Axes of matplotlib.
    theme : Theme
        `LIGHT` or `DARK`.
    """
    axes.set_facecolor(theme.background)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.muted)
    axes.tick_params(colors=theme.muted, labelcolor=theme.ink, labelsize=TYPE.text)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(theme.ink)
    axes.set_axisbelow(True)


def panel_title(axes: Axes, text: str, theme: Theme = LIGHT, size: float = TYPE.title) -> None:
    """Write the title of a panel."""
    axes.set_title(text, fontsize=size, loc="left", color=theme.ink)


def draw_point(axes: Axes, x: float, y: float, *, method: str, size: float, gid: str, **style: Any) -> None:
    """Draw a point in the colour and with the marker of a method."""
    look: Style = {"marker": method_marker(method), "color": method_colour(method, LIGHT), "linestyle": "none"} | style
    axes.plot([x], [y], markersize=size, gid=gid, **look)


def new_panels(
    n: int,
    margins: tuple[float, float] = (0.0, 0.0),
    *,
    size: tuple[float, float],
    columns: int = 3,
    share: Literal["", "x", "both"] = "",
    lines: Literal["", "y", "both"] = "",
    theme: Theme = LIGHT,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its `n` axes, at most `columns` per row, with thin lines at the ticks of some axes.

    Panels may `share` an axis or both; their size and the margins are in inches.
    """
    n_columns = min(columns, n)
    n_rows = -(-n // n_columns)
    figure = new_figure(margins[0] + size[0] * n_columns, margins[1] + size[1] * n_rows, theme)
    grid = list(figure.subplots(n_rows, n_columns, squeeze=False, sharex=share != "", sharey=share == "both").flat)
    for axes in grid:
        clean_axes(axes, theme)
        if lines:
            axes.grid(axis=lines, color=theme.line, linewidth=0.6)
    for place in range(n, len(grid)):
        grid[place].set_visible(False)
        grid[place - n_columns].tick_params(labelbottom=True)
    return figure, grid[:n]


def root_figure(axes: Axes) -> Figure:
    """Return the figure of axes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def name_axes(figure: Figure, x: str, y: str) -> None:
    """Write the labels that all panels of a figure share."""
    figure.supxlabel(x, fontsize=TYPE.title, color=LIGHT.ink)
    figure.supylabel(y, fontsize=TYPE.title, color=LIGHT.ink)


def add_legend(
    figure: Figure,
    handles: Sequence[Artist],
    labels: Sequence[str],
    *,
    loc: Corner,
    fontsize: float = TYPE.small,
    **style: Any,
) -> Legend:
    """Add a legend outside of the panels."""
    return figure.legend(handles, labels, loc=loc, fontsize=fontsize, frameon=False, labelcolor=LIGHT.ink, **style)


def _settle_layout(figure: Figure) -> None:
    """Compute the layout of a figure now, so that placed labels do not move when the figure is saved."""
    engine = figure.get_layout_engine()
    if engine is not None:
        with _literal_texts(figure), _without_glyph_warnings():
            engine.execute(figure)
        figure.set_layout_engine(None)


def label_points(
    axes: Axes, names: Sequence[str], *, points: npt.ArrayLike, size: float = TYPE.small, line: npt.ArrayLike = ()
) -> None:
    """Write each name next to its point, where it overlaps as few names, points and parts of a line as possible.

    The limits of the axes must be final. Distant names are connected to their points by a thin line. Positions are
    tried in a fixed order, so that equal figures have equal labels. Points and line have the shape (n, 2).
    """
    figure = root_figure(axes)
    _settle_layout(figure)
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
        outside |= (boxes[:, 1] < frame.y0) | (boxes[:, 3] > frame.y1)
        best = np.argmin(overlaps.all(axis=2).sum(axis=1) + outside)
        taken = np.vstack([taken, boxes[best]])
        dx, dy = _SHIFTS[best].tolist()
        side = "left" if dx > 0 else "right"
        axes.annotate(
            name, point, xytext=(dx, dy), ha=side, arrowprops=joint if abs(dy) > 10 or abs(dx) > 10 else None, **look
        )


@contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Ignore warnings on missing glyphs: the text of an SVG is drawn in the reader's fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(Glyph \d+ .* missing from|Matplotlib currently does not support)")
        yield


def svg_text(figure: Figure) -> str:
    """Return a figure as SVG with text elements; equal figures give equal files.

    The layout is computed once, so that the figure has the same layout when it is saved later.
    """
    buffer = io.StringIO()
    _settle_layout(figure)
    # The salt and the missing metadata make the file the same in every run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "knotwork"}), _without_glyph_warnings():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r"(font: [^;\"]*?px) [^;\"]*", rf"\1 {FIGURE_FONTS}", text)
    return re.sub(r"font-family: [^;\"]*", f"font-family: {FIGURE_FONTS}", text)


def dark_svg(text: str) -> str:
    """Return the SVG of a light figure in dark colours; figures with images must be drawn again instead."""
    return recoloured(text, {getattr(LIGHT, name): getattr(DARK, name) for name in Theme.__annotations__})


def darken(figure: Figure) -> Figure:
    """Change the theme colours of a light figure to dark ones, in place, and return the figure."""
    swap = {to_rgb(getattr(LIGHT, name)): to_rgb(getattr(DARK, name)) for name in Theme.__annotations__}
    for artist in figure.findobj():
        for kind, parts in _COLOURED.items():
            for part in parts if isinstance(artist, kind) else ():
                colours = to_rgba_array(getattr(artist, f"get_{part}")()).tolist()
                dark = [(*swap.get(tuple(colour[:3]), colour[:3]), colour[3]) for colour in colours]
                if dark:
                    getattr(artist, f"set_{part}")(dark[0] if len(dark) == 1 else dark)
    return figure


def natural_width(text: str) -> float:
    """Return the width of an SVG of `svg_text` in points."""
    width = re.search(r'<svg[^>]*? width="([\d.]+)pt"', text)
    return float(width.group(1)) if width else np.inf


def recoloured(text: str, colours: Mapping[str, str]) -> str:
    """Return an SVG with colours replaced."""
    lower = {old.lower(): new for old, new in colours.items()}
    return re.sub(r"#[0-9a-fA-F]{6}\b", lambda colour: lower.get(colour[0].lower(), colour[0]), text)
