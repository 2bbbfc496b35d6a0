"""Costs of encodings: times of learned and fixed knots, alone and in a stack, parameters, and complexity."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from knotwork.encoders._methods import METHOD_TABLE
from knotwork.report._aggregate import in_order, name_size, sizes_of
from knotwork.report._tables import MISSING, Cell, Table, number_cells

__all__ = ["complexity_table", "describe_ratios", "describe_stacks", "fixed_counterpart",
           "overhead_table", "per_epoch", "ratio_table", "ratios_of", "stack_table", "time_table"]  # fmt: skip

_RUN = ["dataset", "network", "size", "fold", "seed"]


def complexity_table() -> Table:
    """Return the order of the number of operations per batch: formulas, not measurements."""
    dense = "O(d B m p)"
    rows = [
        ["Std, MinMax", "O(d B)", MISSING, MISSING],
        ["PLE", "O(d B m)", MISSING, MISSING],
        ["fixed knots", dense, MISSING, MISSING],
        ["learned knots", MISSING, f"{dense} + O(d K)", f"{dense} + O(d B K)"],
    ]
    return Table(
        "complexity",
        "Order of the work per batch",
        "By formula, not measured: d numerical features, B rows, m columns per feature, degree p, K learned "
        "knots per feature.",
        ["encoding", "transformation", "forward", "backward"],
        [[Cell(text) for text in row] for row in rows],
    )


def fixed_counterpart(method: str) -> str | None:
    """Return the method with the fixed knots that `method` starts from; None if `method` does not learn knots.

    Examples
    --------
    >>> fixed_counterpart("BS-Grad-U"), fixed_counterpart("PLE")
    ('BS-U', None)
    """
    known = METHOD_TABLE.get(method)
    if known is None or known.start is None or not known.learnable:
        return None
    return known.start + "".join(method.partition("+")[1:])


def overhead_table(summary: pd.DataFrame) -> Table:
    """Return the parameters that learned knots add to the network with fixed ones, by network and size.

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
    return Table(
        "overhead",
        "Parameters of learned knots",
        "Parameters that learned knots add to the same network with fixed knots (least, median and most over data "
        "sets; the most in percent of the network).",
        ["method", "backbone", "size", "data sets", "least", "median", "most", "most, %"],
        rows,
    )


def time_table(summary: pd.DataFrame) -> Table:
    """Return the median over data sets of the seconds for all folds, by network and method (rows) and size."""
    sizes = sizes_of(summary)
    part = summary[summary["complete"]]
    rows = []
    for network, block in part.groupby("network"):
        for method in in_order(block["method"].unique()):
            of_method = block[block["method"] == method]
            of_size = [of_method[of_method["size"].isna() | (of_method["size"] == size)] for size in sizes]
            cells = number_cells([seconds["seconds"].median() for seconds in of_size], 1)
            rows.append([Cell(str(network)), Cell(method), *cells])
    return Table(
        "times",
        "Training times",
        "Seconds of preparation and training, summed over folds; median over data sets. Networks trained together "
        "share their time, so these compare methods only if all were trained in the same way.",
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

    The frame is as from `read_records`. Networks of stacks are dropped, because the members of a stack share its time
    in equal parts, whatever each of them costs. Each row is a network with learned knots whose counterpart was trained;
    the columns are `method fixed`, those that identify a network, `seconds seconds_fixed`, and `per_epoch
    per_epoch_fixed`, as from `per_epoch`.
    """
    stacked = frame["together"].astype("boolean").fillna(False).astype(bool)
    alone = frame[frame["score"].notna() & ~stacked]
    clocks = ["epoch_seconds", "train_seconds", "epochs"]
    work = alone[[*_RUN, "method", *clocks]].assign(seconds=pd.to_numeric(alone["train_seconds"], errors="coerce"))
    learned = work.assign(fixed=work["method"].map(fixed_counterpart)).dropna(subset=["fixed"])
    pairs = learned.merge(work, left_on=[*_RUN, "fixed"], right_on=[*_RUN, "method"], suffixes=("", "_fixed"))
    fixed = pairs[[f"{name}_fixed" for name in clocks]].set_axis(clocks, axis=1)
    times = dict(zip(("per_epoch", "per_epoch_fixed"), per_epoch(pairs[clocks], fixed), strict=True))
    return pairs.assign(**times).dropna(subset=["seconds", "seconds_fixed"])


def ratio_table(pairs: pd.DataFrame) -> Table:
    """Return the ratio of the times with learned and with fixed knots, by method, network and size."""
    rows = []
    for method in in_order(pairs["method"].unique()):
        for (network, size), part in pairs[pairs["method"] == method].groupby(["network", "size"]):
            by_fold = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
            ends = [by_fold.median(), by_fold.min(), by_fold.max()] if len(by_fold) else [None] * 3
            learned, fixed = float(part["seconds"].sum()), float(part["seconds_fixed"].sum())
            names = [method, str(part["fixed"].iloc[0]), str(network)]
            rows.append([*map(Cell, names), *number_cells([float(str(size))], 0), *number_cells([learned, fixed], 1),
                         *number_cells([learned / fixed, *ends], 2)])  # fmt: skip
    return Table(
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
            "The time that learned knots cost is not known: it needs networks with learned and with fixed knots, each "
            "trained alone."
        ]
    sentences = []
    for network, part in pairs.groupby("network"):
        totals = part.groupby(["method", "size"], dropna=False)[["seconds", "seconds_fixed"]].sum()
        ratios = totals["seconds"] / totals["seconds_fixed"]
        text = f"training with learned knots takes {_span(ratios.tolist())} times as long as with the same knots fixed"
        epochs = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
        if len(epochs):
            text += f", which also depends on when it stops; an epoch takes {_span(epochs.tolist())} times as long"
            text += f" (median {epochs.median():.2f} of {len(epochs)} pairs)"
        sentences.append(f"With {network}, {text}.")
    return sentences


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def stack_table(frame: pd.DataFrame) -> Table:
    """Return the times of networks that were trained both alone and in a stack, by backbone and size."""
    both = _stacks(frame)
    rows = [
        [
            Cell(str(row["name"])), Cell("no size") if pd.isna(row["size"]) else Cell(value=row["size"], digits=0),
            *number_cells([row["n"]], 0),
            *number_cells([row["alone"], row["stacked"], row["alone"] / row["stacked"]], 1),
        ]
        for row in both.to_dict("records")
    ]  # fmt: skip
    return Table(
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
