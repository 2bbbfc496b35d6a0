"""Figures of a report: drawn from arrays; and from records, with captions, descriptions and tooltips."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from knotwork._checks import argument_error
from knotwork._look import LIGHT, TYPE
from knotwork._ticks import round_ticks
from knotwork._writing import DASH, between, fixed
from knotwork.encoders import METHOD_TABLE, EncodingName
from knotwork.report._aggregate import (
    LEVEL,
    SCORES,
    RankTable,
    Score,
    file_name,
    in_order,
    name_size,
    of_size,
    rank_table,
    sizes_of,
)
from knotwork.report._cd_diagram import draw_cd_diagram
from knotwork.report._page import PAGE_LIMITS, Drawing, Picture
from knotwork.report._style import (
    PHONE,
    Style,
    add_legend,
    clean_axes,
    draw_point,
    label_points,
    method_colour,
    method_marker,
    name_axes,
    new_figure,
    new_panels,
    panel_title,
    root_figure,
)
from knotwork.report._tables import grid_name
from knotwork.report._words import enumerate_words

Floats = npt.NDArray[np.float64]

_CELL = 0.62, 0.34
"""Width and height of a cell of a heatmap, in inches."""

_CD_WIDTH = 5.8
"""Width in inches of a critical difference diagram; a page shows two side by side."""

_STYLES: dict[str, Literal["--", ":", "-."]] = {"Std": "--", "MinMax": ":", "PLE-Adaptive": "-."}
"""Line styles of methods without a size, or with a size that is not chosen."""


def cd_pictures(table: RankTable) -> list[Picture]:
    """Return the diagrams of a table: over problems with Nemenyi's test, and over data sets with signed-rank tests.

    The second is left out for a single data set.
    """
    bars = ""
    if table.problem_test.p_F is None or table.problem_test.p_F >= LEVEL:
        bars = " Friedman's test does not reject that all methods are alike, so gaps between bars mean nothing."
    title = f"{table.label}: {len(table.problems)} problems, Nemenyi"
    caption = f"{title}. Bars join methods whose average ranks differ by less than the critical difference.{bars}"
    texts = title, caption, f"Critical difference {fixed(table.cd, 2)}."
    pictures = [_cd_picture(table, "cd", texts, ranks=table.ranks, groups=table.problem_groups, cd=table.cd)]
    if table.has_tests:
        title = f"{table.label}: {len(table.datasets)} data sets, signed ranks"
        caption = f"{title}. Each bar joins methods, marked by dots, without significant differences (Holm, {LEVEL})."
        named = [", ".join(table.methods[i] for i in group) for group in table.groups]
        texts = title, caption, f"Groups without significant differences: {'; '.join(named) or 'none'}."
        pictures.append(_cd_picture(table, "cd_datasets", texts, ranks=table.dataset_ranks, groups=table.groups))
    return pictures


def _cd_picture(
    table: RankTable,
    kind: str,
    texts: tuple[str, str, str],
    *,
    ranks: Floats,
    groups: Sequence[Sequence[int]],
    cd: float | None = None,
) -> Picture:
    """Return a critical difference diagram, wide and for phones; `texts` are title, caption and a note."""
    title, caption, note = texts
    order = np.argsort(ranks, kind="stable").tolist()
    members = sorted(groups, key=lambda group: sorted(ranks[i] for i in group))
    figures = []
    for width, head in ((_CD_WIDTH, title), (PHONE, None)):
        joined = groups if cd is None else None
        axes = draw_cd_diagram(table.methods, ranks, cd, groups=joined, title=head, width=width)
        _name_parts(axes, order, len(members))
        figures.append(root_figure(axes))
    drawing = Drawing(figures[0])
    for i, name in enumerate(table.methods):
        drawing.part(f"method-{i}", f"{name}: average rank {fixed(ranks[i], 2)}", name)
    for i, group in enumerate(members):
        drawing.part(f"group-{i}", f"No significant difference: {', '.join(table.methods[j] for j in group)}")
    shown = ", ".join(f"{table.methods[i]} {fixed(ranks[i], 2)}" for i in order)
    label = f"Critical difference diagram, {title}. {note} Average ranks: {shown}."
    return drawing.picture(file_name(kind, table.task, table.size), caption, label, figures[1])


def _name_parts(axes: Axes, order: list[int], n_groups: int) -> None:
    """Set the group ids of names and lines of a diagram to ``method-PLACE``, and of its bars to ``group-NUMBER``."""
    # Names are drawn on the left starting with the best, then on the right starting with the worst; bars left to right.
    half = (len(order) + 1) // 2
    methods = [f"method-{place}" for place in (*order[:half], *order[half:][::-1])]
    groups = [f"group-{i}" for i in range(n_groups)]
    for part, names in {"leader": methods, "rank": methods, "name": methods, "clique": groups}.items():
        artists = [artist for artist in axes.get_children() if artist.get_gid() == part]
        for artist, name in zip(artists, names, strict=True):
            artist.set_gid(name)


def lead_picture(tables: Sequence[RankTable]) -> Picture | None:
    """Return average ranks by size, a panel per task; for a single size, with intervals. None without tests."""
    tested = [table for table in tables if table.has_tests]
    panels = {task: [table for table in tested if table.task == task] for task in dict.fromkeys(t.task for t in tested)}
    if not panels:
        return None
    by_size = any(len(of_task) > 1 for of_task in panels.values())
    draw = _draw_rank_lines if by_size else draw_rank_dots
    wide, narrow = (draw(list(panels.values()), narrow=narrow) for narrow in (False, True))
    best = "; ".join(f"{table.label}: {enumerate_words(table.best)} {fixed(table.ranks.min(), 2)}" for table in tested)
    over = between(len(table.problems) for table in tested)
    has_intervals = any(np.isfinite(table.intervals.low).any() for table in tested)
    detail = " Bold lines lead at a size." if by_size else ""
    if has_intervals and not by_size:
        detail = " Lines are bootstrap intervals of 95 %."
    return wide.picture(
        "opening",
        f"Average rank of each method over {over} problems (a data set with a backbone), the best on top.{detail}",
        f"Average ranks by task{' and size' if by_size else ''}. Best: {best}.",
        narrow.figure,
    )


def _ranked_methods(tables: Sequence[RankTable]) -> list[str]:
    return in_order([method for table in tables for method in table.methods])


def _rank_tooltip(tables: Sequence[RankTable], method: str) -> str:
    """Return the tooltip of a method: its average ranks."""
    shown = [
        f"{fixed(table.ranks[table.methods.index(method)], 2)}"
        + ("" if table.size is None else f" at size {table.size}")
        for table in tables
        if method in table.methods
    ]
    return f"{method}, {tables[0].task}: average rank {', '.join(shown)}"


def _drawn_panels(n: int, *, size: tuple[float, float], narrow: bool) -> tuple[Drawing, list[Axes]]:
    """Return panels side by side, or for phones (`narrow`) one above the other."""
    width, height = size
    figure, grid = new_panels(n, size=(PHONE if narrow else width, height), columns=1 if narrow else n, lines="y")
    return Drawing(figure), grid


def _draw_rank_lines(panels: Sequence[Sequence[RankTable]], *, narrow: bool = False) -> Drawing:
    """Draw average ranks by size as lines, labelled at their ends, a panel per task, the best on top.

    The line and the name of a method have the group ids ``lead-PANEL-METHOD`` and ``lead-PANEL-METHOD-name``; `narrow`
    figures are as wide as a phone, with one panel above the other.
    """
    n = max(len(_ranked_methods(tables)) for tables in panels)
    drawing, grid = _drawn_panels(len(panels), size=(4.9, max(2.4, 0.9 + 0.24 * n)), narrow=narrow)
    for p, (axes, tables) in enumerate(zip(grid, panels, strict=True)):
        methods = _ranked_methods(tables)
        leaders = {method for table in tables for method in table.best}
        ends = []
        for i, method in enumerate(methods):
            places = [(x, t.ranks[t.methods.index(method)]) for x, t in enumerate(tables) if method in t.methods]
            x, y = np.array(places, dtype=float).T
            lead, title = method in leaders, _rank_tooltip(tables, method)
            gid = drawing.part(f"lead-{p}-{i}", title, method)
            drawing.part(f"{gid}-name", title, method)
            colour, marker, width = method_colour(method, LIGHT), method_marker(method), 3.0 if lead else 1.1
            size, order = (6.5, 3) if lead else (4, 2)
            axes.plot(x, y, color=colour, linewidth=width, gid=gid, marker=marker, markersize=size, zorder=order)
            ends.append((float(x[-1]), float(y[-1])))
        ranks = [float(rank) for table in tables for rank in table.ranks]
        axes.set_xlim(-0.15, len(tables) - 1 + (0.62 if narrow else 0.5) * max(1, len(tables) - 1) / 1.3)
        axes.set_xticks(range(len(tables)), [name_size(table.size) for table in tables])
        axes.set_ylim(max(ranks) + 0.6, min(ranks) - 0.6)
        _name_ends(axes, methods, ends=ends, panel=p, bold=leaders)
        panel_title(axes, tables[0].task.capitalize(), size=10.5)
    grid[0].set_ylabel("average rank, best on top", fontsize=TYPE.text)
    return drawing


def _name_ends(
    axes: Axes, methods: Sequence[str], *, ends: Sequence[tuple[float, float]], panel: int, bold: set[str]
) -> None:
    """Write the names of methods at the right ends of their lines, without overlaps."""
    order = sorted(range(len(ends)), key=lambda i: ends[i][1])
    bottom, top = axes.get_ylim()
    gap = min((bottom - top) / max(len(ends), 1), 0.055 * (bottom - top))
    heights = _spread([ends[i][1] for i in order], gap=gap, low=top + gap / 2, high=bottom - gap / 2)
    right = max(x for x, _ in ends)
    line: Style = {"arrowstyle": "-", "color": LIGHT.line, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 4}
    box: Style = {"facecolor": LIGHT.background, "edgecolor": "none", "pad": 0.6}
    for i, y in zip(order, heights, strict=True):
        name = methods[i] if len(methods[i]) <= 24 else f"{methods[i][:23]}…"
        style: Style = {"fontweight": "bold" if methods[i] in bold else "normal", "gid": f"lead-{panel}-{i}-name"}
        at = (right + 0.13 * max(1.0, right), y)
        look: Style = {"va": "center", "fontsize": TYPE.small, "color": LIGHT.ink, "annotation_clip": False}
        axes.annotate(name, ends[i], xytext=at, arrowprops=line, bbox=box, **look, **style)


def _spread(heights: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Return sorted heights moved as little as needed to be `gap` apart and between `low` and `high`.

    Examples
    --------
    >>> _spread([1.0, 1.0, 3.0], gap=0.5, low=0.0, high=4.0)
    [1.0, 1.5, 3.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap if placed else low))
    limit = high
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed


def draw_rank_dots(panels: Sequence[Sequence[RankTable]], *, narrow: bool = False) -> Drawing:
    """Draw average ranks of one size with bootstrap intervals, a row per method, the best on top, a panel per task.

    Group ids and `narrow` are as in `_draw_rank_lines`.
    """
    n = max(len(tables[0].methods) for tables in panels)
    drawing, grid = _drawn_panels(len(panels), size=(4.6, 0.95 + 0.24 * n), narrow=narrow)
    for p, (axes, (table, *_)) in enumerate(zip(grid, panels, strict=True)):
        for row, place in enumerate(table.order):
            method = table.methods[place]
            gid = drawing.part(
                f"lead-{p}-{_ranked_methods([table]).index(method)}", _rank_tooltip([table], method), method
            )
            ends = [table.intervals.low[place], table.intervals.high[place]]
            axes.plot(ends, [row, row], color=method_colour(method, LIGHT), linewidth=1.4, gid=gid)
            draw_point(axes, table.ranks[place], row, method=method, size=7, gid=gid)
        axes.set_yticks(range(len(table.methods)), [table.methods[i][:24] for i in table.order])
        axes.invert_yaxis()
        axes.set_xlabel("average rank (lower is better)", fontsize=TYPE.text)
        panel_title(axes, table.label, size=10.5)
    return drawing


def draw_heatmap(
    values: npt.ArrayLike,
    rows: Sequence[str],
    *,
    columns: Sequence[str],
    lower_is_better: bool = True,
    digits: int = 1,
    groups: Sequence[str] = (),
) -> Figure:
    """Draw a table of numbers as coloured cells, the best ones dark blue, the best of each row in bold.

    Missing numbers are NaN and shown as a dash in a blank cell. If all numbers are equal, all cells have the same
    colour. `groups` has a heading for each row, written once above consecutive rows. Cells have the group id
    ``cell-ROW-COLUMN``.
    """
    table = np.asarray(values, dtype=float)
    heads = [(i, group) for i, group in enumerate(groups) if group and (i == 0 or group != groups[i - 1])]
    tops = [i + sum(first <= i for first, _ in heads) for i in range(len(rows))]
    width, height = _CELL[0] * len(columns), _CELL[1] * (len(rows) + len(heads))
    left = 0.4 + 0.085 * max(len(name) for name in rows)
    size = (left + width + 0.65, 0.85 + height + 0.05)
    figure = new_figure(*size)
    figure.set_layout_engine(None)  # cells have a fixed size
    axes = figure.add_axes((left / size[0], 0.05 / size[1], width / size[0], height / size[1]))
    clean_axes(axes, LIGHT)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows) + len(heads), 0))
    axes.spines[:].set_visible(False)
    shares = _shares(table, lower_is_better)
    best = np.max(shares, axis=1, initial=0.0, where=np.isfinite(shares))
    centred: Style = {"ha": "center", "va": "center", "fontsize": TYPE.small}
    for (i, j), value in np.ndenumerate(table):
        fill, ink, text = LIGHT.background, LIGHT.muted, DASH
        if np.isfinite(value):
            fill = to_hex(colormaps["YlGnBu"](0.08 + 0.84 * float(shares[i, j])))
            ink, text = _ink(fill), fixed(value, digits)
        gid, weight = f"cell-{i}-{j}", "bold" if shares[i, j] == best[i] else "normal"
        axes.add_patch(Rectangle((j, tops[i]), 0.97, 0.94, facecolor=fill, edgecolor="none", gid=gid))
        axes.text(j + 0.485, tops[i] + 0.5, text, color=ink, gid=f"{gid}-text", fontweight=weight, **centred)
    for i, head in heads:
        style: Style = {"ha": "left", "va": "center", "fontsize": TYPE.text, "color": LIGHT.ink, "fontweight": "bold"}
        axes.text(0, tops[i] - 1 + 0.6, head, **style)
    axes.set_xticks(np.arange(len(columns)) + 0.485, columns, rotation=35, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(np.array(tops) + 0.5, rows)
    axes.tick_params(length=0)
    return figure


def _shares(table: npt.NDArray[np.float64], lower_is_better: bool) -> npt.NDArray[np.float64]:
    """Return numbers from 0 (worst) to 1 (best); 1/2 if all are equal."""
    finite = table[np.isfinite(table)]
    if finite.size == 0 or np.ptp(finite) == 0:
        return np.full(table.shape, 0.5)
    shares: npt.NDArray[np.float64] = (table - finite.min()) / np.ptp(finite)
    return 1 - shares if lower_is_better else shares


def _ink(fill: str) -> str:
    """Return black or white, whichever has more contrast to `fill`."""
    channels = np.array(to_rgb(fill))
    # Relative luminance as defined by WCAG; at 0.18 black and white have equal contrast.
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.18 else "#fefefe"


def heatmap_picture(summary: pd.DataFrame, task: str, *, of: str = "rank") -> Picture | None:
    """Return the heatmap of average ranks or mean scores (`of`) by backbone, size and method; None for a single row."""
    part, metric = summary[summary["task"] == task], SCORES[task]
    tables = [
        (network, table)
        for size in sizes_of(part)
        for network in sorted(part["network"].unique())
        if (table := rank_table(summary, task, size=size, network=network)).has_ranks
    ]
    if len(tables) < 2:
        return None
    what, digits = ("average rank", 1) if of == "rank" else (f"mean {metric.label}", 3)
    lower = of == "rank" or metric.lower_is_better
    shown = [pd.Series(t.ranks if of == "rank" else t.scores.mean(axis=0), t.methods) for _, t in tables]
    values = pd.DataFrame(shown)[in_order([method for _, table in tables for method in table.methods])]
    groups = ["" if table.size is None else f"size {table.size}" for _, table in tables]
    uneven = len({len(table.problems) for _, table in tables}) > 1
    rows = [f"{network} ({len(table.problems)})" if uneven else network for network, table in tables]
    columns = list(values.columns)
    drawing = Drawing(
        draw_heatmap(values.to_numpy(), rows, columns=columns, lower_is_better=lower, digits=digits, groups=groups)
    )
    best = []
    for i, (network, table) in enumerate(tables):
        for j, (method, value) in enumerate(zip(columns, values.iloc[i], strict=True)):
            text = f"{what} {fixed(value, 2 if of == 'rank' else 4)} over {len(table.problems)} data sets"
            for gid in (f"cell-{i}-{j}", f"cell-{i}-{j}-text") if np.isfinite(value) else ():
                drawing.part(gid, f"{method}, {network}, {table.label}: {text}", method)
        best.append(f"{network}, {table.label}: {values.iloc[i].idxmin() if lower else values.iloc[i].idxmax()}")
    return drawing.picture(
        f"heatmap_{task}" if of == "rank" else f"heatmap_scores_{task}",
        f"{task.capitalize()}: {what} over data sets, within backbone and size "
        f"({'lower' if lower else 'higher'} is better); the best of each row in bold."
        + (" In brackets: number of data sets; rows with different data sets are not comparable." if uneven else ""),
        f"Heatmap of {what}, {task}, backbone and size against method. Best of each row: {'; '.join(best)}.",
    )


def score_picture(summary: pd.DataFrame) -> Picture | None:
    """Return the scores of each data set, network and size with standard deviations; None if panels are too many.

    The best mean of a panel is on top, and its dot is filled.
    """
    panels = [
        (f"{dataset}, {network}{of_size(size)}", score, problem[problem["size"].isna() | (problem["size"] == size)])
        for task, score in SCORES.items()
        for (dataset, network), problem in summary[(summary["task"] == task) & (summary["n"] > 0)].groupby(
            ["dataset", "network"]
        )
        for size in sizes_of(problem)
    ]
    if not 0 < len(panels) <= PAGE_LIMITS.score_panels:
        return None
    wide, narrow = (_draw_scores(panels, columns=columns) for columns in (3, 1))
    best = []
    for title, score, rows in panels:
        first = rows.sort_values("mean", ascending=score.lower_is_better, kind="stable").iloc[0]
        best.append(f"{title}: best mean {score.label} {first['method']}, {fixed(first['mean'], 4)}")
    caption = "Mean over folds and one standard deviation, the best on top."
    return wide.picture("score_dots", caption, f"Scores by data set. {'; '.join(best)}.", narrow.figure)


def _draw_scores(panels: Sequence[tuple[str, Score, pd.DataFrame]], *, columns: int) -> Drawing:
    """Draw a panel of dots for each title, score and summary; dots have the group id ``dot-PANEL-PLACE``."""
    height = 0.9 + 0.2 * max(rows["method"].nunique() for _, _, rows in panels)
    margins = (0.4 if columns > 1 else 0.0, 0.0)
    size = (3.3 if columns > 1 else PHONE, height)
    figure, grid = new_panels(len(panels), margins, size=size, columns=columns, lines="y")
    drawing = Drawing(figure)
    for p, (axes, (title, score, rows)) in enumerate(zip(grid, panels, strict=True)):
        scores = rows.drop_duplicates("method", keep="last").set_index("method").loc[in_order(rows["method"])]
        scores = scores.sort_values("mean", ascending=score.lower_is_better, kind="stable")
        for place, (method, mean, sd) in enumerate(scores[["mean", "sd"]].fillna({"sd": 0.0}).itertuples()):
            colour, gid = method_colour(method, LIGHT), f"dot-{p}-{place}"
            line = drawing.part(f"{gid}-sd", method=method)
            axes.plot([mean - sd, mean + sd], [place, place], color=colour, linewidth=1.4, gid=line)
            fill = LIGHT.background if place else colour
            drawing.part(gid, f"{method}, {title}: {score.label} {fixed(mean, 4)} ± {fixed(sd, 4)}", method)
            draw_point(axes, mean, place, method=method, size=6, gid=gid, marker="o", markerfacecolor=fill)
        axes.set_yticks(np.arange(len(scores)), scores.index)
        axes.invert_yaxis()
        round_ticks(axes.xaxis)
        panel_title(axes, title)
        axes.set_xlabel(f"{score.label} ({score.direction})", fontsize=TYPE.text)
    return drawing


def draw_size_curves(
    curves: pd.DataFrame, *, ylabel: str, digits: int, lower_is_better: bool = True, narrow: bool = False
) -> Drawing:
    """Plot quality against size with bands, a panel per placement; PLE and horizontal lines are in every panel.

    The best is on top. For phones (`narrow`), panels are one above the other.

    `curves` has the columns `method size mean low high`; a method without sizes has one row, and is a horizontal line.
    The curves of a method have the group id ``curve-INDEX``; tooltips have numbers with `digits` decimals.
    """
    by_method = {
        method: curves[curves["method"] == method].sort_values("size") for method in in_order(curves["method"])
    }
    everywhere = [
        method
        for method, rows in by_method.items()
        if method in _STYLES or rows["size"].isna().all() or "-" not in method
    ]
    panels: dict[str, list[str]] = {}
    for method in by_method:
        if method not in everywhere:
            panels.setdefault(_knots(method), []).append(method)
    names = list(panels) or [""]
    room: Style = {"size": (3.1, 2.7)}
    if narrow:
        room = {"size": (PHONE, 2.1), "columns": 1}
    figure, grid = new_panels(len(names), (0.0 if narrow else 0.6, 0.5), share="both", lines="y", **room)
    drawing = Drawing(figure)
    for axes, name in zip(grid, names, strict=True):
        panel_title(axes, f"knots: {name}" if name else "")
        for method in [*everywhere, *panels.get(name, [])]:
            _draw_curve(axes, by_method[method], method=method, gid=f"curve-{list(by_method).index(method)}")
    for i, (method, rows) in enumerate(by_method.items()):
        means = [
            f"{fixed(mean, digits)}" if np.isnan(size) else f"size {size:.0f}: {fixed(mean, digits)}"
            for size, mean in zip(rows["size"], rows["mean"], strict=True)
        ]
        drawing.part(f"curve-{i}", f"{method}: {', '.join(means)}", method)
    if lower_is_better:
        grid[0].invert_yaxis()  # the others share it
    legend_of(figure, [*everywhere, *by_method], most=4 if narrow else 12)
    name_axes(figure, "size", f"{ylabel}, best on top")
    return drawing


def _knots(method: str) -> str:
    """Return the label of a method's knots; for an unregistered method, the end of its name."""
    return METHOD_TABLE[method].knots_label if method in METHOD_TABLE else EncodingName.parse(method).knots


def legend_of(figure: Figure, methods: Sequence[str], *, most: int = 12) -> None:
    """Add a legend above the panels, `most` names on a line: families, and methods whose size is not chosen."""
    looks = {method if method in _STYLES else EncodingName.parse(method).family: look_of(method) for method in methods}
    handles = [Line2D([], [], linewidth=1.6, **look) for look in looks.values()]
    add_legend(figure, handles, list(looks), loc="outside upper right", ncols=min(len(handles), most))


def look_of(method: str) -> Style:
    """Return the colour and the style of a method's lines."""
    return {"color": method_colour(method, LIGHT), "linestyle": _STYLES.get(method, "-")}


def _draw_curve(axes: Axes, rows: pd.DataFrame, *, method: str, gid: str) -> None:
    look, sizes, mean = look_of(method), rows["size"].to_numpy(dtype=float), rows["mean"].to_numpy(dtype=float)
    if np.isnan(sizes).all():
        axes.axhline(mean[0], linewidth=1.2, gid=gid, **look)
        return
    axes.fill_between(sizes, rows["low"], rows["high"], color=look["color"], alpha=0.16, linewidth=0, gid=gid)
    axes.plot(sizes, mean, linewidth=1.6, marker=method_marker(method), markersize=4, gid=gid, **look)
    axes.set_xticks(sizes if len(sizes) <= 6 else sizes[1::2])


def size_picture(tables: Sequence[RankTable]) -> Picture | None:
    """Return average ranks by size with bootstrap bands, from the tables of one task; None for a single size."""
    tables = [table for table in tables if table.has_tests and table.size is not None]
    if len(tables) < 2:
        return None
    rows = [
        (method, table.size, *values)
        for table in tables
        for method, *values in zip(table.methods, table.ranks, table.intervals.low, table.intervals.high, strict=True)
    ]
    curves = pd.DataFrame(rows, columns=["method", "size", "mean", "low", "high"])
    wide, narrow = (draw_size_curves(curves, ylabel="average rank", digits=2, narrow=each) for each in (False, True))
    task, interval = tables[0].task, ", with bootstrap intervals of 95 %" if curves["low"].notna().any() else ""
    return wide.picture(
        f"sizes_{task}",
        f"{task.capitalize()}: average rank by size{interval}. Ranks compare methods of one size; a method whose "
        "scores stay the same changes its rank when others improve.",
        f"Average rank by size, {task}. {'; '.join(wide.titles.values())}.",
        narrow.figure,
    )


def grid_picture(summary: pd.DataFrame, dataset: str, *, network: str) -> Picture | None:
    """Return the scores of one data set and network by size, with bands of one standard deviation."""
    part = summary[(summary["dataset"] == dataset) & (summary["network"] == network) & summary["complete"]]
    if not part.groupby("method")["size"].nunique().max() > 1:
        return None
    sd = part["sd"].fillna(0)
    curves = part.assign(low=part["mean"] - sd, high=part["mean"] + sd)
    metric = SCORES[str(part["task"].iloc[0])]
    best = part.sort_values("mean", ascending=metric.lower_is_better).iloc[0]
    size = "" if np.isnan(best["size"]) else f" at size {best['size']:.0f}"
    look: Style = {"ylabel": metric.label, "digits": 4, "lower_is_better": metric.lower_is_better}
    wide, narrow = (draw_size_curves(curves, narrow=each, **look) for each in (False, True))
    return wide.picture(
        grid_name(dataset, network),
        f"{dataset}, {network}: {metric.label} by size, mean and one standard deviation over folds and seeds. "
        f"Best mean: {best['method']}{size}, {fixed(best['mean'], 4)}.",
        f"{metric.label} by size on {dataset} with {network}. Best: {best['method']}{size}, {fixed(best['mean'], 4)}.",
        narrow.figure,
    )


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
        axes.set(xlim=ends, ylim=ends[::-1])
        axes.set_aspect("equal")
        panel_title(axes, pair.title)
    name_axes(figure, theirs, f"{ours}, best on top")
    for axes, pair in zip(grid, pairs, strict=True):
        label_points(axes, pair.methods, points=np.column_stack([pair.theirs, pair.ours]), size=7)
    return figure
