"""Heatmaps: backbone and size against method."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from knotwork._checks import argument_error
from knotwork.report._style import clean_axes, theme_of
from knotwork.report._tables import MISSING

__all__ = ["draw_heatmap"]

_CELL = 0.62, 0.34


def draw_heatmap(
    values: npt.ArrayLike,
    rows: Sequence[str],
    *,
    columns: Sequence[str],
    lower_is_better: bool = True,
    digits: int = 1,
    groups: Sequence[str] | None = None,
    dark: bool = False,
) -> Figure:
    """Draw a table of numbers as coloured cells, good ones dark blue, with the number in each, the best of a row bold.

    A missing number is a blank cell with a dash. If all numbers are equal, all cells have the same colour. Each cell
    has the group id ``cell-ROW-COLUMN``.

    Parameters
    ----------
    values : array-like of shape (n_rows, n_columns)
        Numbers, NaN where there is none.
    rows, columns : sequence of str
        Their names.
    lower_is_better : bool, default=True
        Which numbers are good.
    digits : int, default=1
        Decimals shown.
    groups : sequence of str, optional
        A word for each row; rows with the same word stand together under it.
    dark : bool, default=False
        Whether to draw for a dark background.
    """
    table = np.asarray(values, dtype=float)
    if table.shape != (len(rows), len(columns)):
        raise argument_error("values", f"have the shape ({len(rows)}, {len(columns)})", table.shape)
    theme = theme_of(dark)
    places, heads, height = _places(list(groups or [""] * len(rows)))
    left = 0.4 + 0.085 * max(len(name) for name in rows)
    size = (left + _CELL[0] * len(columns) + 0.65, 0.85 + _CELL[1] * height + 0.05)
    figure = Figure(figsize=size, facecolor=theme.background)
    axes = figure.add_axes((left / size[0], 0.05 / size[1], _CELL[0] * len(columns) / size[0],
                            _CELL[1] * height / size[1]))  # fmt: skip
    clean_axes(axes, theme)
    axes.set(xlim=(0, len(columns)), ylim=(height, 0))
    axes.spines[:].set_visible(False)
    shares = _shares(table, lower_is_better)
    best = np.max(shares, axis=1, initial=0.0, where=np.isfinite(shares))
    for i, y in enumerate(places):
        for j in range(len(columns)):
            fill = _colour(shares[i, j]) if np.isfinite(table[i, j]) else theme.background
            gid = f"cell-{i}-{j}"
            axes.add_patch(Rectangle((j, y), 0.97, 0.94, facecolor=fill, edgecolor="none", gid=gid))
            ink = _ink(fill) if np.isfinite(table[i, j]) else theme.muted
            text = f"{table[i, j]:.{digits}f}" if np.isfinite(table[i, j]) else MISSING
            axes.text(j + 0.485, y + 0.5, text, ha="center", va="center", fontsize=8.5, color=ink, gid=f"{gid}-text",
                      fontweight="bold" if shares[i, j] == best[i] else "normal")  # fmt: skip
    for y, head in heads:
        axes.text(0, y + 0.6, head, ha="left", va="center", fontsize=9, color=theme.ink, fontweight="bold")
    axes.set_xticks(np.arange(len(columns)) + 0.485, columns, rotation=35, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(np.array(places) + 0.5, rows)
    axes.tick_params(length=0)
    return figure


def _places(groups: list[str]) -> tuple[list[float], list[tuple[float, str]], float]:
    """Return where rows begin, headings with where they stand, and the height of it all, in rows."""
    places, heads, y = [], [], 0.0
    for i, group in enumerate(groups):
        if group and (i == 0 or group != groups[i - 1]):
            heads.append((y, group))
            y += 1.0
        places.append(y)
        y += 1.0
    return places, heads, y


def _shares(table: npt.NDArray[np.float64], lower_is_better: bool) -> npt.NDArray[np.float64]:
    """Return numbers from 0 (worst) to 1 (best); 1/2 if all are equal."""
    finite = table[np.isfinite(table)]
    if finite.size == 0 or np.ptp(finite) == 0:
        return np.full(table.shape, 0.5)
    shares: npt.NDArray[np.float64] = (table - finite.min()) / np.ptp(finite)
    return 1 - shares if lower_is_better else shares


def _colour(share: float) -> str:
    return to_hex(colormaps["YlGnBu"](0.08 + 0.84 * share))


def _ink(fill: str) -> str:
    """Return black or white, whichever can be read on `fill`."""
    channels = np.array(to_rgb(fill))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.18 else "#fefefe"
