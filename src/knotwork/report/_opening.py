"""The opening of a report: its main result in one sentence, and the figure that shows it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knotwork.basis import FAMILIES
from knotwork.encoders import METHOD_TABLE
from knotwork.report._aggregate import RankTable, in_order, name_size
from knotwork.report._page import Picture
from knotwork.report._style import LIGHT, PHONE, clean_axes, method_colour, method_marker, new_figure
from knotwork.report._words import enumerate_words

__all__ = ["draw_rank_dots", "draw_rank_lines", "lead_picture", "lead_sentences"]

Floats = npt.NDArray[np.float64]


def lead_sentences(tables: Sequence[RankTable]) -> list[str]:
    """Return a sentence on the methods with the best average ranks by size, and one on significance.

    For several sizes, families are named instead of methods. Empty if there are no ranks.
    """
    ranked = [table for table in tables if table.has_ranks]
    if not ranked:
        return []
    sizes = list(dict.fromkeys(table.size for table in ranked))
    leaders = {
        size: {
            table.task: _families(table.best) if len(sizes) > 1 else enumerate_words(table.best)
            for table in ranked
            if table.size == size
        }
        for size in sizes
    }
    same: dict[str, list[int | None]] = {}
    mixed: dict[tuple[tuple[str, str], ...], list[int | None]] = {}
    for size, of_size in leaders.items():
        if len(set(of_size.values())) == 1:
            same.setdefault(next(iter(of_size.values())), []).append(size)
        else:
            mixed.setdefault(tuple(of_size.items()), []).append(size)
    shared = [f"{name}{_lead(name, first=i == 0)}{_at(where)}" for i, (name, where) in enumerate(same.items())]
    apart = [_by_task(dict(names), where, first=not same and i == 0) for i, (names, where) in enumerate(mixed.items())]
    clauses = [", ".join(shared)] if shared else []
    return ["; ".join([*clauses, *apart]) + ".", _certainty(ranked)]


def _families(methods: Sequence[str]) -> str:
    """Return the families of methods; the name of a method without a family."""
    names = []
    for method in methods:
        known = METHOD_TABLE.get(method)
        names.append(FAMILIES[known.family].label if known is not None and known.family in FAMILIES else method)
    return enumerate_words(list(dict.fromkeys(names)))


def _by_task(names: dict[str, str], sizes: Sequence[int | None], *, first: bool) -> str:
    """Return the leaders by task, such as ``at size 15, I-splines for regression and PLE for classification``."""
    parts = [f"{name}{_lead(name, first=first and i == 0)} for {task}" for i, (task, name) in enumerate(names.items())]
    listed = enumerate_words(parts)
    return f"{listed}{_at(sizes)}" if first else f"{_at(sizes).strip()}, {listed}"


def _at(sizes: Sequence[int | None]) -> str:
    known = [str(size) for size in sizes if size is not None]
    return f" at size{'s' if len(known) > 1 else ''} {enumerate_words(known)}" if known else ""


def _lead(name: str, *, first: bool) -> str:
    """Return the verb of the first clause; further clauses have none."""
    if not first:
        return ""
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
    titles: dict[str, str] = {}
    methods: dict[str, str] = {}
    for p, of_task in enumerate(panels.values()):
        for i, method in enumerate(_methods(of_task)):
            title = f"{method}, {of_task[0].task}: average rank {_ranks(of_task, method)}"
            for gid in (f"lead-{p}-{i}", f"lead-{p}-{i}-name"):
                titles[gid], methods[gid] = title, method
    best = "; ".join(f"{table.label}: {enumerate_words(table.best)} {table.ranks.min():.2f}" for table in tested)
    counts = {len(table.problems) for table in tested}
    over = f"over {min(counts)} to {max(counts)} problems" if len(counts) > 1 else f"over {counts.pop()} problems"
    detail = "Bold lines lead at a size." if by_size else "Lines are bootstrap intervals of 95 %."
    return Picture(
        "opening",
        draw(list(panels.values())),
        f"Average rank of each method {over} (a data set with a backbone), the best on top. {detail}",
        f"Average ranks by task{' and size' if by_size else ''}. Best: {best}.",
        titles,
        draw(list(panels.values()), narrow=True),
        methods,
    )


def _methods(tables: Sequence[RankTable]) -> list[str]:
    return in_order([method for table in tables for method in table.methods])


def _ranks(tables: Sequence[RankTable], method: str) -> str:
    shown = [
        f"{table.ranks[table.methods.index(method)]:.2f}" + ("" if table.size is None else f" at size {table.size}")
        for table in tables
        if method in table.methods
    ]
    return ", ".join(shown)


def _new_panels(n: int, *, size: tuple[float, float], narrow: bool) -> tuple[Figure, list[Axes]]:
    """Return panels side by side, or for phones (`narrow`) one above the other."""
    width, height = size
    figure = new_figure(PHONE, height * n) if narrow else new_figure(width * n, height)
    grid = list(figure.subplots(n, 1).flat if narrow and n > 1 else np.atleast_1d(figure.subplots(1, n)))
    for axes in grid:
        clean_axes(axes, LIGHT)
    return figure, grid


def draw_rank_lines(panels: Sequence[Sequence[RankTable]], *, narrow: bool = False) -> Figure:
    """Draw average ranks by size as lines, labelled at their ends, a panel per task, the best on top.

    The line and the name of a method have the group ids ``lead-PANEL-METHOD`` and ``lead-PANEL-METHOD-name``; `narrow`
    figures are as wide as a phone, with one panel above the other.
    """
    n = max(len(_methods(tables)) for tables in panels)
    figure, grid = _new_panels(len(panels), size=(4.9, max(2.4, 0.9 + 0.24 * n)), narrow=narrow)
    for p, (axes, tables) in enumerate(zip(grid, panels, strict=True)):
        methods = _methods(tables)
        leaders = {method for table in tables for method in table.best}
        ends = []
        for i, method in enumerate(methods):
            places = [
                (x, table.ranks[table.methods.index(method)])
                for x, table in enumerate(tables)
                if method in table.methods
            ]
            x, y = np.array(places, dtype=float).T
            lead = method in leaders
            axes.plot(
                x,
                y,
                color=method_colour(method, LIGHT),
                linewidth=3.0 if lead else 1.1,
                gid=f"lead-{p}-{i}",
                marker=method_marker(method),
                markersize=6.5 if lead else 4,
                zorder=3 if lead else 2,
            )
            ends.append((float(x[-1]), float(y[-1])))
        axes.set_xlim(-0.15, len(tables) - 1 + (0.62 if narrow else 0.5) * max(1, len(tables) - 1) / 1.3)
        axes.set_xticks(range(len(tables)), [name_size(table.size) for table in tables])
        _rank_axis(axes, [y for _, y in ends] + [float(r) for table in tables for r in table.ranks])
        _name_ends(axes, methods, ends=ends, panel=p, bold=leaders)
        axes.set_title(tables[0].task.capitalize(), fontsize=10.5, loc="left", color=LIGHT.ink)
    grid[0].set_ylabel("average rank, best on top", fontsize=9)
    return figure


def _rank_axis(axes: Axes, ranks: Sequence[float]) -> None:
    axes.set_ylim(max(ranks) + 0.6, min(ranks) - 0.6)
    axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)


def _name_ends(
    axes: Axes, methods: Sequence[str], *, ends: Sequence[tuple[float, float]], panel: int, bold: set[str]
) -> None:
    """Write the names of methods at the right ends of their lines, without overlaps."""
    order = sorted(range(len(ends)), key=lambda i: ends[i][1])
    bottom, top = axes.get_ylim()
    gap = min((bottom - top) / max(len(ends), 1), 0.055 * (bottom - top))
    heights = _spread([ends[i][1] for i in order], gap=gap, low=top + gap / 2, high=bottom - gap / 2)
    right = max(x for x, _ in ends)
    for i, y in zip(order, heights, strict=True):
        line = {"arrowstyle": "-", "color": LIGHT.line, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 4}
        name = methods[i] if len(methods[i]) <= 24 else f"{methods[i][:23]}…"
        weight = "bold" if methods[i] in bold else "normal"
        axes.annotate(
            name,
            ends[i],
            xytext=(right + 0.13 * max(1.0, right), y),
            va="center",
            fontsize=8.5,
            color=LIGHT.ink,
            fontweight=weight,
            gid=f"lead-{panel}-{i}-name",
            arrowprops=line,
            annotation_clip=False,
            bbox={"facecolor": LIGHT.background, "edgecolor": "none", "pad": 0.6},
        )


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


def draw_rank_dots(panels: Sequence[Sequence[RankTable]], *, narrow: bool = False) -> Figure:
    """Draw average ranks of one size with bootstrap intervals, a row per method, the best on top, a panel per task.

    Group ids and `narrow` are as in `draw_rank_lines`.
    """
    n = max(len(tables[0].methods) for tables in panels)
    figure, grid = _new_panels(len(panels), size=(4.6, 0.95 + 0.24 * n), narrow=narrow)
    for p, (axes, (table, *_)) in enumerate(zip(grid, panels, strict=True)):
        for row, place in enumerate(table.order):
            method = table.methods[place]
            gid, colour = f"lead-{p}-{_methods([table]).index(method)}", method_colour(method, LIGHT)
            ends = [table.intervals.low[place], table.intervals.high[place]]
            axes.plot(ends, [row, row], color=colour, linewidth=1.4, gid=gid)
            axes.plot([table.ranks[place]], [row], method_marker(method), color=colour, markersize=7, gid=gid)
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        axes.set_yticks(range(len(table.methods)), [table.methods[i][:24] for i in table.order])
        axes.invert_yaxis()
        axes.set_xlabel("average rank (lower is better)", fontsize=9)
        axes.set_title(table.label, fontsize=10.5, loc="left", color=LIGHT.ink)
    return figure
