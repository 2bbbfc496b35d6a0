"""Costs of encodings: cost versus quality, times with learned and fixed knots, alone and in a stack, parameters."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from knotwork.encoders import METHOD_TABLE, EncodingName
from knotwork.report._aggregate import RankTable, file_name, in_order, name_size, of_size, sizes_of
from knotwork.report._page import Picture
from knotwork.report._points import Box, label_points
from knotwork.report._style import LIGHT, clean_axes, method_colour, method_marker, new_figure, panel_title
from knotwork.report._tables import MISSING, Cell, ReportTable, format_span, number_cells, size_cell

__all__ = [
    "complexity_table",
    "cost_pictures",
    "describe_ratios",
    "describe_stacks",
    "draw_cost_quality",
    "draw_training_times",
    "fixed_counterpart",
    "overhead_table",
    "pareto_front",
    "per_epoch",
    "ratio_table",
    "ratios_of",
    "stack_table",
    "time_picture",
    "time_table",
]

Floats = npt.NDArray[np.float64]

LOG_RATIO = 8.0
"""An axis of times is logarithmic if the longest is more than this many times the shortest."""

_PAIRED = ["dataset", "network", "size", "fold", "seed"]


def complexity_table() -> ReportTable:
    """Return the asymptotic number of operations per batch: formulas, not measurements."""
    dense = "O(d B m p)"
    rows = [
        ["Std, MinMax", "O(d B)", MISSING, MISSING],
        ["PLE", "O(d B m)", MISSING, MISSING],
        ["fixed knots", dense, MISSING, MISSING],
        ["learned knots", MISSING, f"{dense} + O(d K)", f"{dense} + O(d B K)"],
    ]
    return ReportTable(
        "complexity",
        "Order of the work per batch",
        "By formula, not measured: d numerical features, B rows, m columns per feature, degree p, K learned "
        "knots per feature.",
        ["encoding", "transformation", "forward", "backward"],
        [[Cell(text) for text in row] for row in rows],
    )


def fixed_counterpart(method: str) -> str | None:
    """Return the method with fixed knots that `method` starts from; None if `method` does not learn knots.

    Examples
    --------
    >>> fixed_counterpart("BS-Grad-U"), fixed_counterpart("PLE")
    ('BS-U', None)
    """
    known = METHOD_TABLE.get(method)
    if known is None or known.start is None or not known.learnable:
        return None
    return str(EncodingName.parse(known.start)._replace(embedding=EncodingName.parse(method).embedding))


def overhead_table(summary: pd.DataFrame) -> ReportTable:
    """Return the number of parameters added by learned knots, by network and size.

    Only complete pairs on the same data set are compared.
    """
    rows = []
    keys = ["dataset", "network", "size"]
    for method in in_order(summary["method"].unique()):
        fixed = fixed_counterpart(method)
        if fixed is None:
            continue
        left, right = (summary[(summary["method"] == name) & summary["complete"]] for name in (method, fixed))
        pairs = left.merge(right, on=keys, suffixes=("", "_fixed")).dropna(subset=["parameters", "parameters_fixed"])
        for (network, size), part in pairs.groupby(["network", "size"]):
            added = (part["parameters"] - part["parameters_fixed"]).to_numpy()
            share = 100 * added / part["parameters_fixed"].to_numpy()
            counts = [float(str(size)), len(part), added.min(), np.median(added), added.max()]
            rows.append([Cell(method), Cell(str(network)), *number_cells(counts, 0), *number_cells([share.max()], 2)])
    return ReportTable(
        "overhead",
        "Parameters of learned knots",
        "Parameters that learned knots add to the same network with fixed knots (least, median and most over data "
        "sets; the most in percent of the network).",
        ["method", "backbone", "size", "data sets", "least", "median", "most", "most, %"],
        rows,
    )


def time_table(summary: pd.DataFrame) -> ReportTable:
    """Return the median over data sets of the milliseconds per epoch, by network and method (rows) and size."""
    sizes = sizes_of(summary)
    part = summary[summary["complete"]]
    rows = []
    for network, of_network in part.groupby("network"):
        for method in in_order(of_network["method"].unique()):
            of_method = of_network[of_network["method"] == method]
            of_sizes = [of_method[of_method["size"].isna() | (of_method["size"] == size)] for size in sizes]
            cells = number_cells([1000 * rows["epoch"].median() for rows in of_sizes], 2)
            rows.append([Cell(str(network)), Cell(method), *cells])
    return ReportTable(
        "times",
        "Milliseconds per epoch",
        "They do not depend on when training stopped; median over folds and data sets. Networks trained together share "
        "their time, so these compare methods only if all were trained in the same way.",
        ["backbone", "method", *map(name_size, sizes)],
        rows,
    )


def per_epoch(one: pd.DataFrame, other: pd.DataFrame) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Return the seconds per epoch of two sets of networks that are compared row by row.

    If both networks have a recorded median epoch, the medians are compared; otherwise the mean epochs of both, which
    include the time to compile kernels. A median is never compared with a mean.

    Parameters
    ----------
    one, other : DataFrame
        Columns `epoch_seconds train_seconds epochs`, with the same index.

    Returns
    -------
    (Series, Series)
        Seconds per epoch of `one` and of `other`.

    Examples
    --------
    >>> learned = pd.DataFrame({"epoch_seconds": [0.3, None], "train_seconds": [4.0, 4.0], "epochs": [10, 10]})
    >>> fixed = pd.DataFrame({"epoch_seconds": [0.2, 0.2], "train_seconds": [3.0, 3.0], "epochs": [10, 10]})
    >>> [seconds.tolist() for seconds in per_epoch(learned, fixed)]
    [[0.3, 0.4], [0.2, 0.3]]
    """
    numbers = [
        frame[["epoch_seconds", "train_seconds", "epochs"]].apply(pd.to_numeric, errors="coerce").astype(float)
        for frame in (one, other)
    ]
    known = numbers[0]["epoch_seconds"].notna() & numbers[1]["epoch_seconds"].notna()
    first, second = (clock["epoch_seconds"].where(known, clock["train_seconds"] / clock["epochs"]) for clock in numbers)
    return first, second


def ratios_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the training times with learned knots and with the same knots fixed, fold by fold.

    The frame is as from `read_records`. Networks trained in stacks are dropped, because the members of a stack share
    its time in equal parts regardless of their actual costs. Each row is a network with learned knots whose counterpart
    was trained; the columns are `method fixed`, those that identify a network, `seconds seconds_fixed`, and `per_epoch
    per_epoch_fixed`, as from `per_epoch`.
    """
    stacked = frame["together"].astype("boolean").fillna(False).astype(bool)
    alone = frame[frame["score"].notna() & ~stacked]
    clocks = ["epoch_seconds", "train_seconds", "epochs"]
    work = alone[[*_PAIRED, "method", *clocks]].assign(seconds=pd.to_numeric(alone["train_seconds"], errors="coerce"))
    learned = work.assign(fixed=work["method"].map(fixed_counterpart)).dropna(subset=["fixed"])
    pairs = learned.merge(work, left_on=[*_PAIRED, "fixed"], right_on=[*_PAIRED, "method"], suffixes=("", "_fixed"))
    fixed = pairs[[f"{name}_fixed" for name in clocks]].set_axis(clocks, axis=1)
    times = dict(zip(("per_epoch", "per_epoch_fixed"), per_epoch(pairs[clocks], fixed), strict=True))
    return pairs.assign(**times).dropna(subset=["seconds", "seconds_fixed"])


def ratio_table(pairs: pd.DataFrame) -> ReportTable:
    """Return the ratio of the times with learned and with fixed knots, by method, network and size."""
    rows = []
    for method in in_order(pairs["method"].unique()):
        for (network, size), part in pairs[pairs["method"] == method].groupby(["network", "size"]):
            by_fold = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
            ends = [by_fold.median(), by_fold.min(), by_fold.max()] if len(by_fold) else [None] * 3
            learned, fixed = float(part["seconds"].sum()), float(part["seconds_fixed"].sum())
            names = [method, str(part["fixed"].iloc[0]), str(network)]
            rows.append(
                [
                    *map(Cell, names),
                    *number_cells([float(str(size))], 0),
                    *number_cells([learned, fixed], 1),
                    *number_cells([learned / fixed, *ends], 2),
                ]
            )
    return ReportTable(
        "learned_to_fixed",
        "Learned to fixed knots",
        "Seconds of training over all folds, and their ratio; and the ratio of the seconds per epoch (median, least "
        "and most over folds), which does not depend on when training stopped: that of the median epoch, or of the "
        "mean epoch, compiling included, where one of the two has not recorded it. Networks trained alone.",
        ["learned", "fixed", "backbone", "size", "seconds", "seconds, fixed", "ratio", "per epoch", "least", "most"],
        rows,
    )


def describe_ratios(pairs: pd.DataFrame) -> list[str]:
    """Return sentences on the times of learned and of fixed knots, by backbone."""
    if not len(pairs):
        return [
            "The time cost of learned knots is unknown: measuring it needs networks with learned and with fixed knots, "
            "each trained alone."
        ]
    sentences = []
    for network, part in pairs.groupby("network"):
        totals = part.groupby(["method", "size"], dropna=False)[["seconds", "seconds_fixed"]].sum()
        ratios = totals["seconds"] / totals["seconds_fixed"]
        factor = format_span(ratios.tolist())
        text = f"training with learned knots takes {factor} times as long as with the same knots fixed"
        epochs = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
        if len(epochs):
            text += (
                f", which also depends on when it stops; an epoch takes {format_span(epochs.tolist())} times as long "
                f"(median {epochs.median():.2f} of {len(epochs)} pairs)"
            )
        sentences.append(f"With {network}, {text}.")
    return sentences


def stack_table(frame: pd.DataFrame) -> ReportTable:
    """Return the times of networks that were trained both alone and in a stack, by backbone and size."""
    both = _stacks(frame)
    rows = [
        [
            Cell(str(row["name"])),
            size_cell(row["size"]),
            *number_cells([row["n"]], 0),
            *number_cells([row["alone"], row["stacked"], row["alone"] / row["stacked"]], 1),
        ]
        for row in both.to_dict("records")
    ]
    return ReportTable(
        "alone_to_stacked",
        "Alone and in a stack",
        "Seconds of training of the same networks, one after the other and in stacks.",
        ["backbone", "size", "networks", "seconds alone", "seconds in stacks", "ratio"],
        rows,
    )


def describe_stacks(frame: pd.DataFrame) -> list[str]:
    """Return sentences on the time that stacks save, by backbone."""
    both = _stacks(frame)
    return [
        f"In stacks, {int(part['n'].sum()):,} networks of {name} took {part['stacked'].sum():,.0f} s of training; one "
        f"after the other {part['alone'].sum():,.0f} s, {part['alone'].sum() / part['stacked'].sum():.1f} times that."
        for name, part in both.groupby("name")
    ]


def _stacks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return seconds of networks that were trained both alone and in a stack, by name of the backbone and size."""
    scored = frame[frame["score"].notna() & frame["together"].notna()]
    tokens = scored["tokens"].astype(object).where(scored["tokens"].notna(), "").astype(str)
    work = scored.assign(
        name=(scored["backbone"] + " " + tokens).str.strip(),
        seconds=pd.to_numeric(scored["train_seconds"], errors="coerce"),
        way=scored["together"].astype(bool).map({True: "stacked", False: "alone"}),
    )
    keys = ["dataset", "name", "method", "size", "fold", "seed"]
    wide = [
        work[work["way"] == way][[*keys, "seconds"]].rename(columns={"seconds": way}) for way in ("alone", "stacked")
    ]
    both = wide[0].merge(wide[1], on=keys).dropna(subset=["alone", "stacked"])
    grouped = both.groupby(["name", "size"], dropna=False)
    return grouped.agg(n=("alone", "size"), alone=("alone", "sum"), stacked=("stacked", "sum")).reset_index()


def draw_training_times(
    seconds: Floats, *, panels: Sequence[str], methods: Sequence[str], sizes: Sequence[str]
) -> Figure:
    """Draw bars of the milliseconds per epoch: a panel per backbone, a group of bars per method, a bar per size.

    `seconds` has the shape (n_panels, n_methods, n_sizes, 3): median, minimum and maximum of several timings; a line
    from minimum to maximum is drawn if they differ. Missing times are NaN and leave no gap. Bars have the group id
    ``bar-PANEL-METHOD-SIZE``.
    """
    figure = new_figure(9.6, 0.8 + 1.75 * len(panels))
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    *colours, grey = LIGHT.data_colours
    colours = [grey, *colours] if sizes[:1] == ["no size"] else colours
    width = 0.8 / len(sizes)
    for p, axes in enumerate(grid):
        clean_axes(axes, LIGHT)
        axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
        panel_title(axes, panels[p])
        for m, row in enumerate(seconds[p]):
            known = np.flatnonzero(np.isfinite(row[:, 0]))
            for place, s in enumerate(known):
                x, (median, least, most) = m + (place - (len(known) - 1) / 2) * width, 1000 * row[s]
                axes.bar(x, median, width * 0.92, color=colours[s % len(colours)], gid=f"bar-{p}-{m}-{s}")
                if least < most:
                    axes.plot([x, x], [least, most], color=LIGHT.ink, linewidth=1.1, gid=f"range-{p}-{m}-{s}")
    figure.supylabel("milliseconds per epoch", fontsize=9.5, color=LIGHT.ink)
    handles = [Patch(color=colours[s % len(colours)]) for s in range(len(sizes))]
    figure.legend(
        handles, sizes, loc="outside upper right", fontsize=8, frameon=False, labelcolor=LIGHT.ink, ncols=len(sizes)
    )
    grid[-1].set_xticks(np.arange(len(methods)), methods, rotation=30, ha="right", rotation_mode="anchor")
    return figure


def time_picture(summary: pd.DataFrame) -> Picture | None:
    """Return milliseconds per epoch by backbone, method and size; None if no times are recorded.

    For one data set, `summary` may have the rows of several folds, each as from `summarise_folds`: then their minimum
    and maximum are shown as well.
    """
    part = summary[summary["complete"] & summary["epoch"].notna()]
    if not len(part):
        return None
    networks, methods = sorted(part["network"].unique()), in_order(part["method"].unique())
    sizes = [*([None] if part["size"].isna().any() else []), *(size for size in sizes_of(part) if size is not None)]
    seconds = np.full((len(networks), len(methods), len(sizes), 3), np.nan)
    titles: dict[str, str] = {}
    marks: dict[str, str] = {}
    for s, size in enumerate(sizes):
        timings = _timings(part[part["size"].isna() if size is None else part["size"] == size])
        for (network, method), values in timings.items():
            p, m = networks.index(network), methods.index(method)
            seconds[p, m, s] = values
            span = "" if values[1] == values[2] else f" ({_seconds(values[1])} to {_seconds(values[2])})"
            titles[gid := f"bar-{p}-{m}-{s}"] = (
                f"{method}, {network}{of_size(size)}: {_seconds(values[0])} per epoch{span}"
            )
            marks |= {gid: method, gid.replace("bar", "range"): method}
    names = [name_size(size) for size in sizes]
    overall = _timings(part)
    fastest = []
    for network in networks:
        value, method = min((values[0], method) for (name, method), values in overall.items() if name == network)
        fastest.append(f"{network}: fastest over all sizes {method}, {_seconds(value)}")
    span = " Lines: least to most of the splits." if (seconds[..., 1] < seconds[..., 2]).any() else ""
    return Picture(
        "times",
        draw_training_times(seconds, panels=networks, methods=methods, sizes=names),
        "Milliseconds per epoch, which do not depend on when training stopped: the median epoch of a network, and of "
        f"these the median over folds and data sets. Members of a stack share its time in equal parts.{span}",
        f"Milliseconds per epoch by backbone, method and size. {'; '.join(fastest)}.",
        titles,
        methods=marks,
    )


def _timings(part: pd.DataFrame) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return median, minimum and maximum of the seconds per epoch, by network and method.

    For several data sets, whose numbers of rows differ, all three are the median.
    """
    of_one = part["dataset"].nunique() == 1
    timings = part.groupby(["network", "method"])["epoch"].agg(["median", "min", "max"])
    ends = timings[["min", "max"]] if of_one else timings[["median", "median"]]
    values = np.column_stack([timings["median"], ends]).tolist()
    return {(str(name), str(method)): tuple(row) for (name, method), row in zip(timings.index, values, strict=True)}


def _seconds(value: float) -> str:
    """Format a time with three significant digits, below one second in milliseconds."""
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def pareto_front(cost: npt.ArrayLike, loss: npt.ArrayLike) -> list[int]:
    """Return the positions of the Pareto front in the order of cost; lower is better for both.

    Examples
    --------
    >>> pareto_front([1.0, 2.0, 3.0], [5.0, 6.0, 4.0])
    [0, 2]
    """
    costs, losses = np.asarray(cost, dtype=float), np.asarray(loss, dtype=float)
    front: list[int] = []
    lowest = np.inf
    for i in np.lexsort((losses, costs)).tolist():
        if losses[i] < lowest:
            front.append(i)
            lowest = losses[i]
    return front


def draw_cost_quality(
    cost: npt.ArrayLike, ranks: npt.ArrayLike, *, names: Sequence[str], limits: Box | None = None
) -> Figure:
    """Plot average ranks against positive seconds, with a line through the Pareto front.

    Points have the group id ``point-INDEX``. `limits` are minimum and maximum of seconds and ranks over all figures
    that share the axes; by default of this one.
    """
    x, y = np.asarray(cost, dtype=float), np.asarray(ranks, dtype=float)
    figure = new_figure(6.2, 3.9)
    axes = figure.subplots()
    clean_axes(axes, LIGHT)
    axes.grid(color=LIGHT.line, linewidth=0.6)
    front = pareto_front(x, y)
    axes.plot(x[front], y[front], color=LIGHT.red, linewidth=1.2, linestyle="--", zorder=1)
    for i, name in enumerate(names):
        axes.plot(
            [x[i]],
            [y[i]],
            method_marker(name),
            color=method_colour(name, LIGHT),
            markersize=7,
            gid=f"point-{i}",
            linestyle="none",
        )
    low, high, least, most = limits or (x.min(), x.max(), y.min(), y.max())
    seconds, levels = _ticks_around(low, high, log=high > LOG_RATIO * low), _ticks_around(least, most)
    axes.set_xscale("log" if high > LOG_RATIO * low else "linear")
    axes.set_xticks(seconds, [_seconds(value) for value in seconds])
    axes.set_xlim(seconds[0], seconds[-1])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(levels)
    axes.set_ylim(levels[-1], levels[0])
    axes.set_xlabel("time per epoch, median over data sets and backbones", fontsize=9)
    axes.set_ylabel("average rank (best on top)", fontsize=9)
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    label_points(axes, list(names), points=points, lines=[[points[i] for i in front]])
    return figure


def _ticks_around(low: float, high: float, *, log: bool = False) -> list[float]:
    """Return ticks that enclose all values: the first is below them, the last above."""
    powers = np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 2)
    ticks = np.sort(np.concatenate([step * 10.0**powers for step in (1, 2, 5)]))
    if not log:
        margin = max(high - low, 0.02 * abs(high)) * 0.04
        locator = MaxNLocator(7, steps=[1, 2, 2.5, 5, 10])
        ticks = np.asarray(locator.tick_values(low - margin, high + margin))
    first, last = np.searchsorted(ticks, low, side="left") - 1, np.searchsorted(ticks, high, side="right")
    return [float(f"{tick:.12g}") for tick in ticks[max(first, 0) : last + 1]]


def cost_pictures(summary: pd.DataFrame, tables: Sequence[RankTable]) -> list[tuple[str, str, Picture]]:
    """Return figures of average ranks against seconds per epoch with shared axes, with their tasks and size labels.

    Tables without ranks or recorded times are left out.
    """
    known = [(table, points) for table in tables if table.has_ranks and (points := _cost_points(summary, table))]
    if not known:
        return []
    costs, ranks = (np.array([point[k] for _, points in known for point in points]) for k in (1, 2))
    limits = (costs.min(), costs.max(), ranks.min(), ranks.max())
    return [(table.task, name_size(table.size), _cost_picture(table, points, limits)) for table, points in known]


def _cost_points(summary: pd.DataFrame, table: RankTable) -> list[tuple[str, float, float]]:
    """Return methods with their median seconds per epoch over problems, and their average ranks."""
    part = summary[(summary["task"] == table.task) & (summary["size"].isna() | (summary["size"] == table.size))]
    seconds = part[part["complete"] & (part["epoch"] > 0)].groupby("method")["epoch"].median()
    return [
        (method, float(seconds[method]), float(rank))
        for method, rank in zip(table.methods, table.ranks, strict=True)
        if method in seconds.index
    ]


def _cost_picture(table: RankTable, points: Sequence[tuple[str, float, float]], limits: Box) -> Picture:
    names, cost, ranks = (list(values) for values in zip(*points, strict=True))
    titles = {
        f"point-{i}": f"{name}: average rank {rank:.2f}, {_seconds(seconds)} per epoch"
        for i, (name, seconds, rank) in enumerate(points)
    }
    return Picture(
        file_name("cost", table.task, table.size),
        draw_cost_quality(cost, ranks, names=names, limits=limits),
        f"{table.label}: average rank against the time of an epoch. The dashed line joins the methods that no other "
        "beats in both.",
        f"Cost against quality, {table.label}. " + "; ".join(titles.values()) + ".",
        titles,
        methods={f"point-{i}": name for i, name in enumerate(names)},
    )
