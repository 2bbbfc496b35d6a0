"""The opening of a report: its main result in one sentence, and the figure that shows it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from knotwork.basis import FAMILIES
from knotwork.encoders import METHOD_TABLE
from knotwork.report._aggregate import RankTable, in_order, name_size
from knotwork.report._page import Drawing, Picture
from knotwork.report._style import (
    LIGHT,
    PHONE,
    Style,
    draw_point,
    method_colour,
    method_marker,
    new_panels,
    panel_title,
)
from knotwork.report._words import enumerate_words

__all__ = ["draw_rank_dots", "draw_rank_lines", "lead_picture", "lead_sentences"]


def lead_sentences(tables: Sequence[RankTable]) -> list[str]:
    """Return a sentence on the methods with the best average ranks by size, and one on significance.

    For several sizes, families are named instead of methods. Empty if there are no ranks.
    """
    ranked = [table for table in tables if table.has_ranks]
    if not ranked:
        return []
    sizes = list(dict.fromkeys(table.size for table in ranked))
    groups: dict[tuple[tuple[str, str], ...], list[int | None]] = {}
    for size in sizes:
        of_size = [table for table in ranked if table.size == size]
        names = [_families(table.best) if len(sizes) > 1 else enumerate_words(table.best) for table in of_size]
        by_task = zip((f" for {table.task}" for table in of_size), names, strict=True)
        groups.setdefault((("", names[0]),) if len(set(names)) == 1 else tuple(by_task), []).append(size)
    ordered = sorted(groups.items(), key=lambda group: len(group[0]) > 1)
    clauses = [_clause(names, where, first=i == 0) for i, (names, where) in enumerate(ordered)]
    n_shared = sum(len(names) == 1 for names, _ in ordered)
    shared = [", ".join(clauses[:n_shared])] if n_shared else []
    return ["; ".join([*shared, *clauses[n_shared:]]) + ".", _certainty(ranked)]


def _families(methods: Sequence[str]) -> str:
    """Return the families of methods; the name of a method without a family."""
    names = []
    for method in methods:
        known = METHOD_TABLE.get(method)
        names.append(FAMILIES[known.family].label if known is not None and known.family in FAMILIES else method)
    return enumerate_words(list(dict.fromkeys(names)))


def _clause(names: Sequence[tuple[str, str]], sizes: Sequence[int | None], *, first: bool) -> str:
    """Return the leaders at some sizes, such as ``at size 15, I-splines for regression and PLE for classification``.

    `names` are pairs of a task and its leader; only the `first` clause has a verb.
    """
    parts = [name + (_verb(name) if first and i == 0 else "") + task for i, (task, name) in enumerate(names)]
    known = [str(size) for size in sizes if size is not None]
    at = f"at size{'s' if len(known) > 1 else ''} {enumerate_words(known)}" if known else ""
    leaders = enumerate_words(parts)
    return f"{leaders} {at}".rstrip() if first or len(names) == 1 else f"{at}, {leaders}"


def _verb(name: str) -> str:
    return " lead" if name.endswith("splines") or " and " in name else " leads"


def _certainty(tables: Sequence[RankTable]) -> str:
    """Return a sentence on how many methods are not significantly worse than the best ones."""
    tested = [table for table in tables if table.has_tests]
    if not tested:
        return "This cannot be tested for significance: there is only one data set."
    near = [len(table.not_worse()) for table in tested]
    others = max(len(table.methods) for table in tested) - 1
    if not any(table.differ.any() for table in tested):
        return f"No difference between the {others + 1} methods is significant."
    if max(near) == 0:
        return "Each of them is significantly better than all others."
    span = str(near[0]) if min(near) == max(near) else f"{min(near)} to {max(near)}"
    verb = "is" if span == "1" else "are"
    return f"Of the {others} other methods, {span} {verb} not significantly worse, with each data set counted once."


def lead_picture(tables: Sequence[RankTable]) -> Picture | None:
    """Return average ranks by size, a panel per task; for a single size, with intervals. None without tests."""
    tested = [table for table in tables if table.has_tests]
    panels = {task: [table for table in tested if table.task == task] for task in dict.fromkeys(t.task for t in tested)}
    if not panels:
        return None
    by_size = any(len(of_task) > 1 for of_task in panels.values())
    draw = draw_rank_lines if by_size else draw_rank_dots
    wide, narrow = (draw(list(panels.values()), narrow=narrow) for narrow in (False, True))
    best = "; ".join(f"{table.label}: {enumerate_words(table.best)} {table.ranks.min():.2f}" for table in tested)
    counts = sorted({len(table.problems) for table in tested})
    over = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    detail = "Bold lines lead at a size." if by_size else "Lines are bootstrap intervals of 95 %."
    return wide.picture(
        "opening",
        f"Average rank of each method over {over} problems (a data set with a backbone), the best on top. {detail}",
        f"Average ranks by task{' and size' if by_size else ''}. Best: {best}.",
        narrow.figure,
    )


def _methods(tables: Sequence[RankTable]) -> list[str]:
    return in_order([method for table in tables for method in table.methods])


def _title(tables: Sequence[RankTable], method: str) -> str:
    """Return the tooltip of a method: its average ranks."""
    shown = [
        f"{table.ranks[table.methods.index(method)]:.2f}" + ("" if table.size is None else f" at size {table.size}")
        for table in tables
        if method in table.methods
    ]
    return f"{method}, {tables[0].task}: average rank {', '.join(shown)}"


def _drawn_panels(n: int, *, size: tuple[float, float], narrow: bool) -> tuple[Drawing, list[Axes]]:
    """Return panels side by side, or for phones (`narrow`) one above the other."""
    width, height = size
    figure, grid = new_panels(n, size=(PHONE if narrow else width, height), columns=1 if narrow else n, lines="y")
    return Drawing(figure), grid


def draw_rank_lines(panels: Sequence[Sequence[RankTable]], *, narrow: bool = False) -> Drawing:
    """Draw average ranks by size as lines, labelled at their ends, a panel per task, the best on top.

    The line and the name of a method have the group ids ``lead-PANEL-METHOD`` and ``lead-PANEL-METHOD-name``; `narrow`
    figures are as wide as a phone, with one panel above the other.
    """
    n = max(len(_methods(tables)) for tables in panels)
    drawing, grid = _drawn_panels(len(panels), size=(4.9, max(2.4, 0.9 + 0.24 * n)), narrow=narrow)
    for p, (axes, tables) in enumerate(zip(grid, panels, strict=True)):
        methods = _methods(tables)
        leaders = {method for table in tables for method in table.best}
        ends = []
        for i, method in enumerate(methods):
            places = [(x, t.ranks[t.methods.index(method)]) for x, t in enumerate(tables) if method in t.methods]
            x, y = np.array(places, dtype=float).T
            lead, title = method in leaders, _title(tables, method)
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
    grid[0].set_ylabel("average rank, best on top", fontsize=9)
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
        look: Style = {"va": "center", "fontsize": 8.5, "color": LIGHT.ink, "annotation_clip": False}
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

    Group ids and `narrow` are as in `draw_rank_lines`.
    """
    n = max(len(tables[0].methods) for tables in panels)
    drawing, grid = _drawn_panels(len(panels), size=(4.6, 0.95 + 0.24 * n), narrow=narrow)
    for p, (axes, (table, *_)) in enumerate(zip(grid, panels, strict=True)):
        for row, place in enumerate(table.order):
            method = table.methods[place]
            gid = drawing.part(f"lead-{p}-{_methods([table]).index(method)}", _title([table], method), method)
            ends = [table.intervals.low[place], table.intervals.high[place]]
            axes.plot(ends, [row, row], color=method_colour(method, LIGHT), linewidth=1.4, gid=gid)
            draw_point(axes, table.ranks[place], row, method=method, size=7, gid=gid)
        axes.set_yticks(range(len(table.methods)), [table.methods[i][:24] for i in table.order])
        axes.invert_yaxis()
        axes.set_xlabel("average rank (lower is better)", fontsize=9)
        panel_title(axes, table.label, size=10.5)
    return drawing
