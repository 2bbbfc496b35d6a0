"""Small pictures of fitted columns: their functions, knots and values, as SVG for notebooks and as figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from knotwork._checks import check_installed
from knotwork._look import TYPE
from knotwork.basis import FittedAffine, FittedBasis, FittedColumn, FloatArray


@dataclass(frozen=True)
class PictureStyle:
    """The look of pictures; all numbers are chosen by eye.

    Parameters
    ----------
    n_bins : int
        Bars of a histogram.
    n_points : int
        Points of a curve; odd, so that the middle of a symmetric range is one.
    most_columns : int
        Maximum number of pictures in a notebook; further columns are only counted.
    width, height, bars : float
        Size of a picture in a notebook, and the part of its height that the histogram takes.
    hues : tuple of int
        Hues of the functions, in degrees; those of neighbours differ clearly.
    title, label, least_room : int
        Characters of a line of a panel's title, of a turned label below it, and the fewest of one that is not turned.
    """

    n_bins: int = 24
    n_points: int = 121
    most_columns: int = 20
    width: float = 168.0
    height: float = 74.0
    bars: float = 20.0
    hues: tuple[int, ...] = (205, 25, 145, 300, 55, 255, 340, 180)
    title: int = 44
    label: int = 24
    least_room: int = 8


STYLE = PictureStyle()


@dataclass(frozen=True, eq=False)
class Histogram:
    """Rows in bins of equal width between the smallest and the largest value of a column; no bins without a value."""

    counts: FloatArray
    low: float
    high: float


def count_values(distinct: FloatArray, weights: FloatArray) -> Histogram:
    """Return the histogram of a column, by its distinct values, increasing, and the weights of their rows.

    Examples
    --------
    >>> count_values(np.array([0.0, 1.0]), np.array([3.0, 1.0])).counts[[0, -1]]
    array([3., 1.])
    """
    if not len(distinct):
        return Histogram(np.empty(0), 0.0, 1.0)
    low, high = float(distinct[0]), float(distinct[-1])
    # Halves, because the difference of two floats may overflow.
    shares = (0.5 * distinct - 0.5 * low) / max(0.5 * high - 0.5 * low, np.finfo(np.float64).tiny)
    places = np.minimum((STYLE.n_bins * shares).astype(np.intp), STYLE.n_bins - 1)
    return Histogram(np.bincount(places, weights, STYLE.n_bins).astype(np.float64), low, high)


@dataclass(frozen=True, eq=False)
class ColumnPicture:
    """The data of the picture of a column.

    Parameters
    ----------
    name : str
        Name of the column.
    detail : str
        The encoding, in a few words.
    x : ndarray of shape (n,)
        Values at which the functions are drawn, increasing.
    functions : ndarray of shape (n, size)
        The columns of the encoding at these values.
    knots : ndarray
        Interior knots.
    histogram : Histogram or None
        Numbers of rows by value; None if they are not available.
    """

    name: str
    detail: str
    x: FloatArray
    functions: FloatArray
    knots: FloatArray
    histogram: Histogram | None = None


def picture_fitted(name: str, fitted: FittedColumn, histogram: Histogram | None = None) -> ColumnPicture:
    """Return the picture of a fitted column."""
    low, high = _shown_range(fitted, histogram)
    shares = np.linspace(0.0, 1.0, STYLE.n_points)
    x = (1.0 - shares) * low + shares * high
    if isinstance(fitted, FittedAffine):
        functions = np.clip(x, *fitted.domain)[:, None] / 2.0 - fitted.shift / 2.0
        functions = functions / (fitted.scale / 2.0)
        return ColumnPicture(name, "scaled", x, functions, np.empty(0), histogram)
    functions = fitted.encode(x, "clip")
    if isinstance(fitted, FittedBasis):
        detail = f"{type(fitted.basis).__name__}, size {fitted.size}, {len(fitted.basis.knots)} knots"
        return ColumnPicture(name, detail, x, functions, fitted.basis.knots, histogram)
    return ColumnPicture(name, f"waves, size {fitted.size}", x, functions, np.empty(0), histogram)


def _shown_range(fitted: FittedColumn, histogram: Histogram | None) -> tuple[float, float]:
    """Return the range of the horizontal axis: that of the functions, or of the values, or three deviations."""
    low, high = fitted.basis.domain if isinstance(fitted, FittedBasis) else fitted.domain
    if not np.isfinite(low) or not np.isfinite(high):
        if histogram is not None and len(histogram.counts) and histogram.low < histogram.high:
            return histogram.low, histogram.high
        assert not isinstance(fitted, FittedBasis)
        return fitted.shift - 3.0 * fitted.scale, fitted.shift + 3.0 * fitted.scale
    return low, high


def pictures_html(pictures: Sequence[ColumnPicture]) -> str:
    """Return pictures side by side as HTML for a notebook; names are text, never markup.

    Colours follow the notebook: lines are drawn in the colour of its text, functions in colours of middle lightness.
    """
    cells = "".join(
        '<figure style="margin:0;width:168px"><figcaption style="font:12px sans-serif;overflow:hidden;'
        f'text-overflow:ellipsis;white-space:nowrap" title="{escape(picture.name)}: {escape(picture.detail)}">'
        f"{escape(picture.name)}</figcaption>{_svg(picture)}</figure>"
        for picture in pictures[: STYLE.most_columns]
    )
    n_more = len(pictures) - STYLE.most_columns
    more = f'<p style="font:12px sans-serif">and {n_more} more columns</p>' if n_more > 0 else ""
    return f'<div style="display:flex;flex-wrap:wrap;gap:10px 14px;margin-top:8px">{cells}</div>{more}'


def _svg(picture: ColumnPicture) -> str:
    """Return the functions above the histogram, with the knots as ticks between them."""
    low, high = picture.x[0], picture.x[-1]
    width, height = STYLE.width, STYLE.height
    middle = height - STYLE.bars - 4.0
    parts = []
    least = min(float(picture.functions.min(initial=0.0)), 0.0)
    most = max(float(picture.functions.max(initial=0.0)), 1e-300)
    for place, values in enumerate(picture.functions.T):
        across = width * np.linspace(0.0, 1.0, len(values))
        up = middle - (middle - 3.0) * (values / 2.0 - least / 2.0) / max(most / 2.0 - least / 2.0, 1e-300)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
        colour = f"hsl({STYLE.hues[place % len(STYLE.hues)]} 65% 50%)"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
    for share in (picture.knots / 2.0 - low / 2.0) / max(high / 2.0 - low / 2.0, np.finfo(np.float64).tiny):
        at = f"{width * share:.1f}"
        parts.append(f'<path d="M{at} {middle}v5" stroke="currentColor" stroke-width="1.2"/>')
    parts.extend(_bars(picture))
    label = escape(f"{picture.name}: {picture.detail}")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}">{"".join(parts)}</svg>'
    )


def _bars(picture: ColumnPicture) -> list[str]:
    """Return the bars of the histogram on the axis of the functions."""
    histogram = picture.histogram
    if histogram is None or not len(histogram.counts) or not histogram.counts.max() > 0:
        return []
    low, high = picture.x[0], picture.x[-1]
    span = max(high / 2.0 - low / 2.0, np.finfo(np.float64).tiny)
    ends = np.linspace(0.0, 1.0, len(histogram.counts) + 1)
    values = (1 - ends) * (histogram.low / 2) + ends * (histogram.high / 2)
    edges = STYLE.width * np.clip((values - low / 2) / span, 0.0, 1.0)
    heights = (STYLE.bars - 2.0) * histogram.counts / histogram.counts.max()
    return [
        f'<rect x="{left:.1f}" y="{STYLE.height - height:.1f}" width="{max(right - left - 0.5, 0.5):.1f}" '
        f'height="{height:.1f}" fill="currentColor" opacity="0.35"/>'
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True)
        if height > 0
    ]


def panels(n: int, part: str, *, height: float = 3.0) -> tuple[Any, list[Any]]:
    """Return a matplotlib figure and the axes of its `n` panels, three next to each other, `height` in inches.

    `part` needs matplotlib, for the error if it is missing.
    """
    check_installed(part, "study", "matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415 - only plots need it, and it takes a second to load

    n_across = max(min(n, 3), 1)
    n_down = max(-(-n // n_across), 1)
    figure = Figure(figsize=(4.2 * n_across, height * n_down), layout="constrained")
    axes = figure.subplots(n_down, n_across, squeeze=False).ravel().tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=TYPE.small)
    for axis in axes[n:]:
        axis.remove()
    return figure, axes[:n]


def name_panel(axis: Any, name: Any) -> None:
    """Write the name of a column above its panel: on two lines if it is long."""
    axis.set_title(_two_lines(str(name)), fontsize=TYPE.title, parse_math=False)


def _two_lines(text: str, width: int = STYLE.title) -> str:
    r"""Return a text on at most two lines, which end at a space or an underscore if there is one, and not in a word.

    Examples
    --------
    >>> _two_lines("number_of_special_requests", 16)
    'number_of_\nspecial_requests'
    >>> _two_lines("x" * 50, 20)
    'xxxxxxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxxxxxx…'
    """
    if len(text) <= width:
        return text
    place = max(text.rfind(mark, 0, width) for mark in " _-")
    first, rest = (text[: place + 1], text[place + 1 :]) if place > width // 3 else (text[:width], text[width:])
    return f"{first.rstrip()}\n{rest if len(rest) <= width else rest[: width - 1] + '…'}"


def name_values(axis: Any, places: Any, labels: Sequence[Any]) -> None:
    """Write categories below a panel: on two lines where they fit side by side, otherwise turned; none is cut off."""
    texts = [str(label) for label in labels]
    width = STYLE.title // max(len(texts), 1)
    if max(map(len, texts), default=0) <= max(width, STYLE.least_room) * 2 and width >= STYLE.least_room:
        axis.set_xticks(places, [_two_lines(text, width) for text in texts], fontsize=TYPE.small, parse_math=False)
        return
    shown = [text if len(text) <= STYLE.label else f"{text[: STYLE.label - 1]}…" for text in texts]
    turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axis.set_xticks(places, shown, fontsize=TYPE.small, parse_math=False, **turned)


def name_vertical(axes: Sequence[Any], text: str) -> None:
    """Write what the vertical axes show beside the first panel of each row."""
    for axis in axes[::3]:
        axis.set_ylabel(_two_lines(text), fontsize=TYPE.text, parse_math=False)


def draw_columns(pictures: Sequence[ColumnPicture]) -> Any:
    """Return a matplotlib figure with the functions, knots and values of each column."""
    figure, axes = panels(len(pictures), "plot", height=2.8)
    from knotwork._ticks import round_ticks  # noqa: PLC0415 - needs matplotlib

    for axis, picture in zip(axes, pictures, strict=True):
        name_panel(axis, picture.name)
        if picture.histogram is not None and len(picture.histogram.counts):
            edges = np.linspace(picture.histogram.low, picture.histogram.high, len(picture.histogram.counts) + 1)
            rows = axis.twinx()
            rows.stairs(picture.histogram.counts, edges, fill=True, color="0.6", alpha=0.35)
            rows.set_ylim(0, 3.5 * max(picture.histogram.counts.max(), 1e-300))  # the bars stay below the curves
            rows.set_yticks([])
            rows.spines[:].set_visible(False)
        axis.plot(picture.x, picture.functions, linewidth=1.3)
        axis.plot(picture.knots, np.zeros(len(picture.knots)), "|", color="black", markersize=9, clip_on=False)
        axis.set_xlabel(picture.detail, fontsize=TYPE.small)
        for each in (axis.xaxis, axis.yaxis):
            round_ticks(each, 5)
    return figure
