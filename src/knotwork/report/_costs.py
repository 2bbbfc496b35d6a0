"""Costs of encodings (times, parameters, cost versus quality), and the recommended encoding by budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from knotwork._look import LIGHT, TYPE
from knotwork._writing import DASH, between, counted, duration, fixed, significant
from knotwork.encoders import METHOD_TABLE, EncodingName
from knotwork.report._aggregate import (
    FEWEST_RESAMPLED,
    SCORES,
    RankTable,
    all_sizes,
    file_name,
    in_order,
    name_size,
    of_size,
    rank_intervals,
    sizes_of,
)
from knotwork.report._page import Drawing, Picture
from knotwork.report._style import add_legend, draw_point, label_points, new_panels, panel_title
from knotwork.report._tables import ReportTable, cell_rows, size_cell
from knotwork.stats import RankIntervals, average_ranks, relative_errors, wilcoxon_holm

LOG_RATIO = 8.0
"""An axis of times is logarithmic if the longest is more than this many times the shortest."""

_PAIRED = ["dataset", "network", "size", "fold", "seed"]


def complexity_table() -> ReportTable:
    """Return the asymptotic number of operations per batch: formulas, not measurements."""
    dense = "O(d B m p)"
    rows = [
        ["Std, MinMax", "O(d B)", DASH, DASH],
        ["PLE", "O(d B m)", DASH, DASH],
        ["fixed knots", dense, DASH, DASH],
        ["learned knots", DASH, f"{dense} + O(d K)", f"{dense} + O(d B K)"],
    ]
    return ReportTable(
        "complexity",
        "Order of the work per batch",
        "By formula, not measured: d numerical features, B rows, m columns per feature, degree p, K learned "
        "knots per feature.",
        ["encoding", "transformation", "forward", "backward"],
        cell_rows(rows, [0] * 4),
    )


def fixed_counterpart(method: str) -> str | None:
    """Return the method with fixed knots that `method` starts from; None if `method` does not learn knots.

    Examples
    --------
    >>> fixed_counterpart("BS-Grad-U"), fixed_counterpart("PLE")
    ('BS-U', None)
    """
    entry = METHOD_TABLE.get(method)
    if entry is None or entry.start is None or not entry.learnable:
        return None
    return str(EncodingName.parse(entry.start)._replace(embedding=EncodingName.parse(method).embedding))


def _with_fixed(networks: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return networks with learned knots beside those with the same knots fixed, whose columns end in ``_fixed``."""
    learned = networks.assign(fixed=networks["method"].map(fixed_counterpart)).dropna(subset=["fixed"])
    return learned.merge(networks, left_on=[*keys, "fixed"], right_on=[*keys, "method"], suffixes=("", "_fixed"))


def _settings(pairs: pd.DataFrame) -> Iterator[tuple[list[Any], pd.DataFrame]]:
    """Yield method, network and size with their rows, methods in the order of the registry."""
    for method in in_order(pairs["method"].unique()):
        for names, part in pairs[pairs["method"] == method].groupby(["network", "size"]):
            yield [method, *names], part


def overhead_table(summary: pd.DataFrame) -> ReportTable:
    """Return the number of parameters added by learned knots, by network and size.

    Only complete pairs on the same data set are compared.
    """
    pairs = _with_fixed(summary[summary["complete"]], ["dataset", "network", "size"])
    rows = []
    for names, part in _settings(pairs.dropna(subset=["parameters", "parameters_fixed"])):
        added = part["parameters"] - part["parameters_fixed"]
        share = 100 * added / part["parameters_fixed"]
        rows.append([*names, len(part), added.min(), added.median(), added.max(), share.max()])
    return ReportTable(
        "overhead",
        "Parameters of learned knots",
        "Parameters that learned knots add to the same network with fixed knots (least, median and most over data "
        "sets; the most in percent of the network).",
        ["method", "backbone", "size", "data sets", "least", "median", "most", "most, %"],
        cell_rows(rows, [0] * 7 + [2]),
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
            rows.append([network, method, *(1000 * of_size["epoch"].median() for of_size in of_sizes)])
    return ReportTable(
        "times",
        "Milliseconds per epoch",
        "They do not depend on when training stopped; median over folds and data sets. Networks trained together share "
        "their time, so these compare methods only if all were trained in the same way.",
        ["backbone", "method", *map(name_size, sizes)],
        cell_rows(rows, [2] * (2 + len(sizes))),
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
    recorded = numbers[0]["epoch_seconds"].notna() & numbers[1]["epoch_seconds"].notna()
    first, second = (
        clock["epoch_seconds"].where(recorded, clock["train_seconds"] / clock["epochs"]) for clock in numbers
    )
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
    pairs = _with_fixed(alone[[*_PAIRED, "method", *clocks]].assign(seconds=alone["train_seconds"]), _PAIRED)
    fixed = pairs[[f"{name}_fixed" for name in clocks]].set_axis(clocks, axis=1)
    times = dict(zip(("per_epoch", "per_epoch_fixed"), per_epoch(pairs[clocks], fixed), strict=True))
    return pairs.assign(**times).dropna(subset=["seconds", "seconds_fixed"])


def ratio_table(pairs: pd.DataFrame) -> ReportTable:
    """Return the ratio of the times with learned and with fixed knots, by method, network and size."""
    rows = []
    for (method, *names), part in _settings(pairs):
        by_fold = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
        learned, fixed = part["seconds"].sum(), part["seconds_fixed"].sum()
        ends = [by_fold.median(), by_fold.min(), by_fold.max()]
        rows.append([method, part["fixed"].iloc[0], *names, learned, fixed, learned / fixed, *ends])
    return ReportTable(
        "learned_to_fixed",
        "Learned to fixed knots",
        "Seconds of training over all folds, and their ratio; and the ratio of the seconds per epoch (median, least "
        "and most over folds), which does not depend on when training stopped: that of the median epoch, or of the "
        "mean epoch, compiling included, where one of the two has not recorded it. Networks trained alone.",
        ["learned", "fixed", "backbone", "size", "seconds", "seconds, fixed", "ratio", "per epoch", "least", "most"],
        cell_rows(rows, [0] * 4 + [1] * 2 + [2] * 4),
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
        factor = between(ratios, 3)
        text = f"training with learned knots takes {factor} times as long as with the same knots fixed"
        epochs = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
        if len(epochs):
            text += (
                f", which also depends on when it stops; an epoch takes {between(epochs, 3)} times as long "
                f"(median {significant(epochs.median(), 3)} of {len(epochs)} pairs)"
            )
        sentences.append(f"With {network}, {text}.")
    return sentences


def stack_table(frame: pd.DataFrame) -> ReportTable:
    """Return the times of networks that were trained both alone and in a stack, by backbone and size."""
    both = _stacks(frame)
    rows = [
        [name, size_cell(size), n, alone, stacked, alone / stacked]
        for name, size, n, alone, stacked in both.itertuples(index=False)
    ]
    return ReportTable(
        "alone_to_stacked",
        "Alone and in a stack",
        "Seconds of training of the same networks, one after the other and in stacks.",
        ["backbone", "size", "networks", "seconds alone", "seconds in stacks", "ratio"],
        cell_rows(rows, [0] * 3 + [1] * 3),
    )


def describe_stacks(frame: pd.DataFrame) -> list[str]:
    """Return sentences on the time that stacks save, by backbone."""
    both = _stacks(frame)
    return [
        f"In stacks, {counted(int(part['n'].sum()), 'network')} of {name} took {duration(part['stacked'].sum())} of "
        f"training; one after the other {duration(part['alone'].sum())}, "
        f"{fixed(part['alone'].sum() / part['stacked'].sum(), 1)} times that."
        for name, part in both.groupby("name")
    ]


def _stacks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return seconds of networks that were trained both alone and in a stack, by name of the backbone and size."""
    scored = frame[frame["score"].notna() & frame["together"].notna()]
    tokens = scored["tokens"].astype(object).where(scored["tokens"].notna(), "").astype(str)
    work = scored.assign(name=(scored["backbone"] + " " + tokens).str.strip())
    keys = ["dataset", "name", "method", "size", "fold", "seed"]
    stacked = scored["together"].astype(bool)
    wide = [
        work.loc[chosen, [*keys, "train_seconds"]].rename(columns={"train_seconds": way})
        for way, chosen in (("alone", ~stacked), ("stacked", stacked))
    ]
    both = wide[0].merge(wide[1], on=keys).dropna(subset=["alone", "stacked"])
    grouped = both.groupby(["name", "size"], dropna=False)
    return grouped.agg(n=("alone", "size"), alone=("alone", "sum"), stacked=("stacked", "sum")).reset_index()


def time_picture(summary: pd.DataFrame) -> Picture | None:
    """Return milliseconds per epoch: a panel per backbone, a group of bars per method, a bar per size.

    For one data set, `summary` may have the rows of several folds, each as from `summarise_folds`: then lines join
    their minimum and maximum. Missing times leave no gap. None if no times are recorded.
    """
    part = summary[summary["complete"] & summary["epoch"].notna()]
    if not len(part):
        return None
    networks, methods, sizes = sorted(part["network"].unique()), in_order(part["method"].unique()), all_sizes(part)
    timings = _timings(part)
    *colours, grey = LIGHT.data_colours
    colours = [grey, *colours] if None in sizes else colours
    figure, grid = new_panels(len(networks), (0.0, 0.8), size=(9.6, 1.75), columns=1, share="x", lines="y")
    drawing = Drawing(figure)
    for p, (axes, network) in enumerate(zip(grid, networks, strict=True)):
        panel_title(axes, network)
        for row in timings[timings["network"] == network].itertuples():
            m, s = methods.index(row.method), sizes.index(None if np.isnan(row.size) else int(row.size))
            title = f"{row.method}, {network}{of_size(sizes[s])}: {duration(row.median)} per epoch"
            title += "" if row.min == row.max else f" ({duration(row.min)} to {duration(row.max)})"
            gid = drawing.part(f"bar-{p}-{m}-{s}", title, row.method)
            x, width = m + (row.place - (row.n - 1) / 2) * 0.8 / len(sizes), 0.92 * 0.8 / len(sizes)
            axes.bar(x, 1000 * row.median, width, color=colours[s % len(colours)], gid=gid)
            if row.min < row.max:
                gid = drawing.part(f"range-{p}-{m}-{s}", method=row.method)
                axes.plot([x, x], [1000 * row.min, 1000 * row.max], color=LIGHT.ink, linewidth=1.1, gid=gid)
    figure.supylabel("milliseconds per epoch", fontsize=TYPE.title, color=LIGHT.ink)
    patches = [Patch(color=colours[s % len(colours)]) for s in range(len(sizes))]
    add_legend(figure, patches, list(map(name_size, sizes)), loc="outside upper right", ncols=len(sizes))
    grid[-1].set_xticks(np.arange(len(methods)), methods, rotation=30, ha="right", rotation_mode="anchor")
    span = " Lines: least to most of the splits." if (timings["min"] < timings["max"]).any() else ""
    return drawing.picture(
        "times",
        "Milliseconds per epoch, which do not depend on when training stopped: the median epoch of a network, and of "
        f"these the median over folds and data sets. Members of a stack share its time in equal parts.{span}",
        f"Milliseconds per epoch by backbone, method and size. {'; '.join(_fastest(part))}.",
    )


def _fastest(part: pd.DataFrame) -> list[str]:
    overall = part.groupby(["network", "method"])["epoch"].median().reset_index().sort_values(["epoch", "method"])
    return [
        f"{row['network']}: fastest over all sizes {row['method']}, {duration(row['epoch'])}"
        for row in overall.drop_duplicates("network").sort_values("network").to_dict("records")
    ]


def _timings(part: pd.DataFrame) -> pd.DataFrame:
    """Return `median`, `min` and `max` of the seconds per epoch by network, method and size.

    For several data sets, whose numbers of rows differ, all three are the median. `place` counts the `n` sizes.
    """
    several = part.groupby("size", dropna=False)["dataset"].transform("nunique") > 1
    grouped = part.assign(several=several).groupby(["network", "method", "size"], dropna=False)
    times = {name: ("epoch", name) for name in ("median", "min", "max")}
    timings = grouped.agg(**times, several=("several", "first")).reset_index()
    timings.loc[timings["several"], "min"] = timings.loc[timings["several"], "max"] = timings["median"]
    order = dict(zip(in_order(timings["method"]), range(len(timings)), strict=False))
    ordered = timings.assign(_m=timings["method"].map(order)).sort_values(["_m", "size"], na_position="first")
    of_method = ordered.groupby(["network", "method"])["median"]
    return ordered.assign(place=of_method.cumcount(), n=of_method.transform("size"))


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


def cost_pictures(summary: pd.DataFrame, tables: Sequence[RankTable]) -> list[tuple[str, str, Picture]]:
    """Return figures of average ranks against seconds per epoch with shared axes, with their tasks and size labels.

    Tables without ranks or recorded times are left out.
    """
    timed = [(table, _cost_points(summary, table)) for table in tables if table.has_ranks]
    timed = [(table, points) for table, points in timed if len(points)]
    if not timed:
        return []
    both = pd.concat([points for _, points in timed])
    limits = (both["seconds"].min(), both["seconds"].max(), both["rank"].min(), both["rank"].max())
    return [(table.task, name_size(table.size), _cost_picture(table, points, limits)) for table, points in timed]


def _cost_points(summary: pd.DataFrame, table: RankTable) -> pd.DataFrame:
    """Return the `rank` of each method with its median `seconds` per epoch over problems."""
    part = summary[(summary["task"] == table.task) & (summary["size"].isna() | (summary["size"] == table.size))]
    seconds = part[part["complete"] & (part["epoch"] > 0)].groupby("method")["epoch"].median()
    return pd.DataFrame({"seconds": seconds.reindex(table.methods), "rank": table.ranks}, table.methods).dropna()


def _cost_picture(table: RankTable, points: pd.DataFrame, limits: tuple[float, float, float, float]) -> Picture:
    """Draw average ranks against seconds per epoch, with a line through the Pareto front.

    Points have the group id ``point-INDEX``. `limits` are minimum and maximum of seconds and ranks over all figures
    that share the axes.
    """
    figure, (axes,) = new_panels(1, size=(6.2, 3.9), lines="both")
    drawing = Drawing(figure)
    places = list(points.itertuples(index=False, name=None))
    front = [places[i] for i in pareto_front(points["seconds"], points["rank"])]
    axes.plot(*zip(*front, strict=True), color=LIGHT.red, linewidth=1.2, linestyle="--", zorder=1)
    for i, (name, (seconds, rank)) in enumerate(zip(points.index, places, strict=True)):
        gid = drawing.part(f"point-{i}", f"{name}: average rank {fixed(rank, 2)}, {duration(seconds)} per epoch", name)
        draw_point(axes, seconds, rank, method=name, size=7, gid=gid)
    low, high, least, most = limits
    ticks, levels = _ticks_around(low, high, log=high > LOG_RATIO * low), _ticks_around(least, most)
    axes.set_xscale("log" if high > LOG_RATIO * low else "linear")
    axes.set_xticks(ticks, list(map(duration, ticks)))
    axes.set_xlim(ticks[0], ticks[-1])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(levels)
    axes.set_ylim(levels[-1], levels[0])
    axes.set_xlabel("time per epoch, median over data sets and backbones", fontsize=TYPE.text)
    axes.set_ylabel("average rank (best on top)", fontsize=TYPE.text)
    label_points(axes, list(points.index), points=places, line=front)
    return drawing.picture(
        file_name("cost", table.task, table.size),
        f"{table.label}: average rank against the time of an epoch. The dashed line joins the methods that no other "
        "beats in both.",
        f"Cost against quality, {table.label}. " + "; ".join(drawing.titles.values()) + ".",
    )


def _ticks_around(low: float, high: float, *, log: bool = False) -> list[float]:
    """Return ticks that enclose all values: the first is below them, the last above."""
    if log:
        powers = np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 2)
        ticks = np.sort(np.concatenate([step * 10.0**powers for step in (1, 2, 5)]))
    else:
        margin = max(high - low, 0.02 * abs(high)) * 0.04
        locator = MaxNLocator(7, steps=[1, 2, 2.5, 5, 10])
        ticks = np.asarray(locator.tick_values(low - margin, high + margin))
    first, last = np.searchsorted(ticks, low, side="left") - 1, np.searchsorted(ticks, high, side="right")
    return [float(f"{tick:.12g}") for tick in ticks[max(first, 0) : last + 1]]


BUDGET_RULES = {
    "low": "the smallest size, and knots that are quick to place (PLE, equal distances, quantiles)",
    "medium": "sizes up to the middle one, and knots from trees",
    "high": "all sizes, and learned knots",
}
"""Methods and sizes that each budget allows; a higher budget includes the lower ones."""

Configuration = tuple[str, int | None]
"""A method and its size."""


@dataclass(frozen=True, eq=False)
class Advice:
    """The configurations that a budget allows, cheapest first, ranked over the data sets of one task and network.

    Scores are means over folds, of shape (n_datasets, n_configurations).
    """

    task: str
    network: str
    budget: str
    configurations: list[Configuration]
    scores: npt.NDArray[np.float64]

    @cached_property
    def ranks(self) -> npt.NDArray[np.float64]:
        """Average ranks of the configurations."""
        return average_ranks(self.scores, SCORES[self.task].lower_is_better)

    @property
    def best(self) -> int:
        """Position of the best average rank; of ties, the cheapest."""
        return int(np.argmin(self.ranks))

    @cached_property
    def intervals(self) -> RankIntervals:
        """Bootstrap intervals of the average ranks."""
        names = list(map(str, range(len(self.scores))))  # each row is another data set
        return rank_intervals(self.scores, SCORES[self.task], groups=names)

    @cached_property
    def p(self) -> float:
        """Wilcoxon's p-value of the best against the cheapest, corrected by Holm for all comparisons with it."""
        errors = relative_errors(SCORES[self.task].errors(self.scores))
        return float(wilcoxon_holm(errors, control=0).adjusted[0, self.best])


def advise(summary: pd.DataFrame) -> list[Advice]:
    """Return the complete configurations of each task, network and budget, if there are two data sets or more."""
    advice = []
    for (task, network), part in summary[summary["complete"]].groupby(["task", "network"]):
        wide = part.assign(size=part["size"].fillna(0)).pivot(
            index="dataset", columns=["method", "size"], values="mean"
        )
        # Drop rare configurations first; otherwise `dropna` would drop the data sets without them.
        wide = wide.loc[:, 2 * wide.notna().sum() >= len(wide)].dropna()
        for budget in BUDGET_RULES:
            allowed = [pair for pair in _cheapest_first(part) if _within(pair, budget, sizes_of(part))]
            chosen = [pair for pair in allowed if _key(pair) in wide.columns]
            if len(chosen) > 1 and len(wide) > 1:
                scores = wide[list(map(_key, chosen))].to_numpy(dtype=float)
                advice.append(Advice(str(task), str(network), budget, chosen, scores))
    return sorted(advice, key=lambda entry: list(SCORES).index(entry.task))


def _key(configuration: Configuration) -> tuple[str, float]:
    return configuration[0], float(configuration[1] or 0)


def _cheapest_first(part: pd.DataFrame) -> list[Configuration]:
    """Return configurations by number of parameters, ties in the order of `METHOD_TABLE`."""
    places = {method: place for place, method in enumerate(in_order(part["method"].unique()))}
    cost = part.groupby(["method", "size"], dropna=False)["parameters"].median().reset_index()
    cost["place"] = cost["method"].map(places)
    ordered = cost.sort_values(["parameters", "place", "size"], kind="stable")
    return [
        (str(method), None if pd.isna(size) else int(size))
        for method, size in zip(ordered["method"], ordered["size"], strict=True)
    ]


def _within(configuration: Configuration, budget: str, sizes: list[int | None]) -> bool:
    """Return whether a budget allows a method of this size; unknown methods count as expensive."""
    method, size = configuration
    entry = METHOD_TABLE.get(method)
    learned = entry is None or entry.learnable
    from_trees = entry is None or (entry.supervised and not entry.has_bins)
    place = 0 if size is None else sizes.index(size)
    if budget == "low":
        return place == 0 and not learned and not from_trees
    return budget == "high" or (2 * place <= len(sizes) - 1 and not learned)


def advice_table(advice: list[Advice]) -> ReportTable:
    """Return the best configuration for each task, network and budget, and whether it is better than the cheapest."""
    digits = {
        "task": 0, "backbone": 0, "budget": 0, "best": 0, "rank": 2, "low": 2, "high": 2, "of": 0, "data sets": 0,
        "score": 4, "cheapest": 0, "its score": 4, "better": 0, "p": 4,
    }  # fmt: skip
    rows = []
    for entry in advice:
        best, intervals, means = entry.best, entry.intervals, entry.scores.mean(axis=0)
        verdict = "is the cheapest" if best == 0 else "yes" if entry.p < 0.05 else "not significantly"
        names = [_named(entry.configurations[place]) for place in (best, 0)]
        ranks = [entry.ranks[best], intervals.low[best], intervals.high[best]]
        row = [entry.task, entry.network, entry.budget, names[0], *ranks, *reversed(entry.scores.shape), means[best]]
        rows.append([*row, names[1], means[0], verdict, None if best == 0 else entry.p])
    return ReportTable(
        "recommendations",
        "What to start with",
        "The method and size with the best average rank over data sets within a budget, with an interval of 95 % "
        f"(bootstrap, for {FEWEST_RESAMPLED} data sets or more) and the number of candidates; its mean score; and "
        "whether it is better than the cheapest, the one with the fewest parameters (Wilcoxon over relative errors, "
        "Holm over all comparisons with the cheapest, 0.05).",
        list(digits),
        cell_rows(rows, digits.values()),
    )


def _named(configuration: Configuration) -> str:
    method, size = configuration
    return method if size is None else f"{method} {size}"
