"""The figures of a report, each with its caption, a description for readers who cannot see it, and texts on hover."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from knotwork.report._aggregate import SCORES, RankTable, file_name, in_order, name_size, rank_table, sizes_of
from knotwork.report._cd_diagram import draw_cd_diagram
from knotwork.report._figures import (
    ScorePanel,
    SizeCurve,
    draw_cost_quality,
    draw_heatmap,
    draw_score_dots,
    draw_size_curves,
    draw_training_times,
)
from knotwork.report._page import Picture
from knotwork.report._tables import grid_name

__all__ = [
    "cd_picture",
    "cost_picture",
    "grid_picture",
    "heatmap_picture",
    "score_picture",
    "size_picture",
    "time_picture",
]


_MOST_PANELS = 6
"""Data sets, networks and sizes up to which scores are drawn one by one."""


def _listed(names: Sequence[str], values: Sequence[float], digits: int = 2) -> str:
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in zip(names, values, strict=True))


def cd_picture(table: RankTable) -> Picture:
    """Return the critical difference diagram of a table that has tests."""
    figure = draw_cd_diagram(table.methods, table.ranks, table.cd, title=table.label).get_figure(root=True)
    order = table.order
    ranks = _listed([table.methods[i] for i in order], [float(table.ranks[i]) for i in order])
    bars = ""
    if not table.rejects:
        bars = " Friedman's test does not reject that all methods are alike, so gaps between bars mean nothing."
    return Picture(
        file_name("cd", table.task, table.size),
        figure,  # type: ignore[arg-type]
        f"{table.label}: average ranks over {len(table.blocks)} blocks.{bars}",
        f"Critical difference diagram, {table.label}. Critical difference {table.cd:.2f}. Average ranks: {ranks}.",
    )


def heatmap_picture(summary: pd.DataFrame, task: str, *, of: str = "rank") -> Picture | None:
    """Return average ranks or mean scores (`of`) within each backbone and size, by method; None for a single row."""
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
    methods = in_order([method for _, table in tables for method in table.methods])
    values = np.full((len(tables), len(methods)), np.nan)
    titles: dict[str, str] = {}
    for i, (network, table) in enumerate(tables):
        shown = table.ranks if of == "rank" else table.scores.mean(axis=0)
        for method, value in zip(table.methods, shown.tolist(), strict=True):
            j = methods.index(method)
            values[i, j] = value
            exact = f"{value:.2f}" if of == "rank" else f"{value:.4f}"
            text = f"{method}, {network}, {table.label}: {what} {exact} over {len(table.blocks)} data sets"
            titles |= {f"cell-{i}-{j}": text, f"cell-{i}-{j}-text": text}
    groups = ["" if table.size is None else f"size {table.size}" for _, table in tables]
    uneven = len({len(table.blocks) for _, table in tables}) > 1
    rows = [f"{network} ({len(table.blocks)})" if uneven else network for network, table in tables]
    figure = draw_heatmap(values, rows, columns=methods, lower_is_better=lower, digits=digits, groups=groups)
    best = [f"{network}, {table.label}: {methods[int((np.nanargmin if lower else np.nanargmax)(values[i]))]}"
            for i, (network, table) in enumerate(tables)]  # fmt: skip
    direction = "lower is better" if lower else "higher is better"
    return Picture(
        f"heatmap_{task}" if of == "rank" else f"heatmap_scores_{task}", figure,
        f"{task.capitalize()}: {what} over data sets, within backbone and size ({direction}); the best of each row in "
        "bold." + (" In brackets: data sets of the row; rows with different ones do not compare." if uneven else ""),
        f"Heatmap of {what}, {task}, backbone and size against method. Best of each row: {'; '.join(best)}.", titles,
    )  # fmt: skip


def size_picture(tables: Sequence[RankTable]) -> Picture | None:
    """Return average ranks against size with bootstrap bands, from the tables of one task; None for a single size."""
    tables = [table for table in tables if table.has_tests and table.size is not None]
    if len(tables) < 2:
        return None
    curves = []
    for method in in_order([method for table in tables for method in table.methods]):
        held = [(table, table.methods.index(method)) for table in tables if method in table.methods]
        sizes = np.array([float(table.size or 0) for table, _ in held])
        mean, low, high = np.array(
            [[values[i] for values in (table.ranks, table.intervals.low, table.intervals.high)] for table, i in held]
        ).T
        curves.append(SizeCurve(method, sizes, mean, low, high))
    figure = draw_size_curves(curves, ylabel="average rank (lower is better)")
    task = tables[0].task
    words = "; ".join(f"{c.method}: " + _listed([f"{s:.0f}" for s in c.sizes], c.mean.tolist()) for c in curves)
    return Picture(
        f"sizes_{task}", figure,
        f"{task.capitalize()}: average rank by size, with bootstrap intervals of 95 %. Ranks compare methods of one "
        "size; a method whose scores stay the same changes its rank when others improve.",
        f"Average rank by size, {task}. {words}.",
    )  # fmt: skip


def grid_picture(summary: pd.DataFrame, dataset: str, *, network: str) -> Picture | None:
    """Return the scores of one data set and network against size, with bands of one standard deviation."""
    part = summary[(summary["dataset"] == dataset) & (summary["network"] == network) & summary["complete"]]
    curves = []
    for method in in_order(part["method"].unique()):
        rows = part[part["method"] == method].sort_values("size")
        mean, sd = rows["mean"].to_numpy(), rows["sd"].fillna(0).to_numpy()
        curves.append(SizeCurve(method, rows["size"].dropna().to_numpy(), mean, mean - sd, mean + sd))
    if not any(len(curve.sizes) > 1 for curve in curves):
        return None
    metric = SCORES[str(part["task"].iloc[0])]
    best = part.sort_values("mean", ascending=metric.lower_is_better).iloc[0]
    size = "" if np.isnan(best["size"]) else f" at size {best['size']:.0f}"
    return Picture(
        grid_name(dataset, network),
        draw_size_curves(curves, ylabel=f"{metric.label} ({metric.direction})"),
        f"{dataset}, {network}: {metric.label} by size, mean and one standard deviation over folds and seeds. "
        f"Best mean: {best['method']}{size}, {best['mean']:.4f}.",
        f"{metric.label} by size on {dataset} with {network}. Best: {best['method']}{size}, {best['mean']:.4f}.",
    )


def score_picture(summary: pd.DataFrame) -> Picture | None:
    """Return the scores of each data set, network and size with their standard deviations.

    None if there are more than `_MOST_PANELS` of these, which a table shows better.
    """
    part = summary[summary["n"] > 0]
    panels = []
    for task, metric in SCORES.items():
        for (dataset, network), block in part[part["task"] == task].groupby(["dataset", "network"]):
            for size in sizes_of(block):
                rows = block[block["size"].isna() | (block["size"] == size)].drop_duplicates("method", keep="last")
                rows = rows.set_index("method").loc[in_order(rows["method"])]
                title = f"{dataset}, {network}{_of_size(size)}"
                mean, sd = rows["mean"].to_numpy(dtype=float), rows["sd"].fillna(0).to_numpy(dtype=float)
                panels.append(ScorePanel(title, metric.label, list(rows.index), mean, sd, metric.lower_is_better))
    if not 0 < len(panels) <= _MOST_PANELS:
        return None
    said = [f"{panel.title}: best mean {panel.label} {panel.methods[panel.best]}, {panel.mean[panel.best]:.4f}"
            for panel in panels]  # fmt: skip
    return Picture(
        "score_dots", draw_score_dots(panels),
        "Mean over folds and one standard deviation; the best mean is filled.",
        f"Scores by data set. {'; '.join(said)}.",
    )  # fmt: skip


def time_picture(summary: pd.DataFrame) -> Picture | None:
    """Return training times by backbone, method and size; None if no times are recorded."""
    part = summary[summary["complete"] & summary["seconds"].notna()]
    if not len(part):
        return None
    networks, methods = sorted(part["network"].unique()), in_order(part["method"].unique())
    sizes = [*([None] if part["size"].isna().any() else []), *(size for size in sizes_of(part) if size is not None)]
    seconds = np.full((len(networks), len(methods), len(sizes)), np.nan)
    titles: dict[str, str] = {}
    for s, size in enumerate(sizes):
        medians = _medians(part[part["size"].isna() if size is None else part["size"] == size])
        for (network, method), value in medians.items():
            p, m = networks.index(network), methods.index(method)
            seconds[p, m, s] = value
            titles[f"bar-{p}-{m}-{s}"] = f"{method}, {network}{_of_size(size)}: {value:.1f} s"
    names = [name_size(size) for size in sizes]
    overall = _medians(part)
    fastest = []
    for network in networks:
        value, method = min((value, method) for (name, method), value in overall.items() if name == network)
        fastest.append(f"{network}: fastest over all sizes {method}, {value:.1f} s")
    return Picture(
        "times", draw_training_times(seconds, panels=networks, methods=methods, sizes=names),
        "Seconds of preparation and training, summed over folds; median over data sets. Members of a stack share its "
        "time in equal parts.",
        f"Training times by backbone, method and size. {'; '.join(fastest)}.", titles,
    )  # fmt: skip


def _medians(part: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return the median seconds by network and method."""
    medians = part.groupby(["network", "method"], as_index=False)["seconds"].median()
    return {(str(row.network), str(row.method)): float(row.seconds) for row in medians.itertuples()}


def _of_size(size: int | None) -> str:
    return "" if size is None else f", size {size}"


def cost_picture(summary: pd.DataFrame, table: RankTable) -> Picture | None:
    """Return average ranks against times for one task and size; None if no times are recorded."""
    part = summary[(summary["task"] == table.task) & (summary["size"].isna() | (summary["size"] == table.size))]
    part = part[part["complete"] & (part["seconds"] > 0)]
    seconds = part.groupby("method")["seconds"].median()
    held = [(method, float(seconds[method]), float(rank))
            for method, rank in zip(table.methods, table.ranks, strict=True) if method in seconds.index]  # fmt: skip
    if not held:
        return None
    names, cost, ranks = (list(values) for values in zip(*held, strict=True))
    titles = {f"point-{i}": f"{name}: average rank {rank:.2f}, {cost_:.1f} s"
              for i, (name, cost_, rank) in enumerate(held)}  # fmt: skip
    return Picture(
        file_name("cost", table.task, table.size),
        draw_cost_quality(cost, ranks, names=[str(name) for name in names]),
        f"{table.label}: average rank against seconds. The dashed line joins the methods that no other beats in both.",
        f"Cost against quality, {table.label}. " + "; ".join(titles.values()) + ".",
        titles,
    )
