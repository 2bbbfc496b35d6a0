"""Costs of encodings: times of learned and fixed knots, alone and in a stack, parameters, and order of the work."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from knotwork.encoders._methods import METHOD_TABLE
from knotwork.report._aggregate import in_order, name_size, sizes_of
from knotwork.report._tables import MISSING, Cell, Table

__all__ = [
    "complexity_table",
    "describe_ratios",
    "describe_stacks",
    "fixed_counterpart",
    "overhead_table",
    "per_epoch",
    "ratio_table",
    "ratios_of",
    "stack_table",
    "time_table",
]

_RUN = ["dataset", "network", "size", "fold", "seed"]


def complexity_table() -> Table:
    """Return the order of the work per batch: formulas, not measurements."""
    whole = "O(d B m p)"
    rows = [
        ["Std, MinMax", "O(d B)", MISSING, MISSING],
        ["PLE", "O(d B m)", MISSING, MISSING],
        ["fixed knots", whole, MISSING, MISSING],
        ["learned knots", MISSING, f"{whole} + O(d K)", f"{whole} + O(d B K)"],
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
    """Return the method that keeps the knots fixed from which `method` starts; None if `method` does not learn knots.

    Examples
    --------
    >>> fixed_counterpart("BS-Grad-U"), fixed_counterpart("PLE")
    ('BS-U', None)
    """
    return METHOD_TABLE[method].start if method in METHOD_TABLE else None


def overhead_table(summary: pd.DataFrame) -> Table:
    """Return the parameters that learned knots add to the network with fixed ones, by network and size.

    Only pairs of which both were trained, on the same data set, are compared.
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
            rows.append([Cell(method), Cell(str(network)), Cell(value=float(str(size)), digits=0),
                         Cell(value=float(len(part)), digits=0), Cell(value=float(added.min()), digits=0),
                         Cell(value=float(np.median(added)), digits=0), Cell(value=float(added.max()), digits=0),
                         Cell(value=float(share.max()), digits=2)])  # fmt: skip
    return Table(
        "overhead",
        "Parameters of learned knots",
        "Parameters that a network with learned knots has more than the same one with fixed knots (least, median and "
        "most over data sets; the most in percent of the network).",
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
            cells = []
            for size in sizes:
                has_size = of_method["size"].isna() | (of_method["size"] == size)
                seconds = of_method.loc[has_size, "seconds"].dropna()
                cells.append(Cell(value=float(seconds.median()) if len(seconds) else None, digits=1))
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
    """Return the seconds per epoch of networks and of those that they are compared with, row by row.

    Where both networks have recorded the median epoch, it is used for both; otherwise the mean epoch of both, which
    includes the time to compile kernels. A median is never compared with a mean.

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
        each[["epoch_seconds", "train_seconds", "epochs"]].apply(pd.to_numeric, errors="coerce").astype(float)
        for each in (one, other)
    ]
    known = numbers[0]["epoch_seconds"].notna() & numbers[1]["epoch_seconds"].notna()
    first, second = (each["epoch_seconds"].where(known, each["train_seconds"] / each["epochs"]) for each in numbers)
    return first, second


def ratios_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how long training takes with learned and with the same fixed knots, fold by fold.

    Only networks that were trained alone are compared, and those that do not record it: the members of a stack share
    its time in equal parts, whatever each of them costs.

    Parameters
    ----------
    frame : DataFrame
        As from `read_records`.

    Returns
    -------
    DataFrame
        A row for each network with learned knots whose counterpart was trained: columns `method fixed`, those that
        identify a network, `seconds seconds_fixed`, and `per_epoch per_epoch_fixed`, as from `per_epoch`.
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
    """Return the ratio of times, learned to fixed, by method, network and size."""
    rows = []
    for method in in_order(pairs["method"].unique()):
        for (network, size), part in pairs[pairs["method"] == method].groupby(["network", "size"]):
            by_fold = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
            ends = [by_fold.median(), by_fold.min(), by_fold.max()] if len(by_fold) else [None] * 3
            rows.append([
                Cell(method), Cell(str(part["fixed"].iloc[0])), Cell(str(network)),
                Cell(value=float(str(size)), digits=0), Cell(value=float(part["seconds"].sum()), digits=1),
                Cell(value=float(part["seconds_fixed"].sum()), digits=1),
                Cell(value=float(part["seconds"].sum() / part["seconds_fixed"].sum()), digits=2),
                *(Cell(value=None if end is None else float(end), digits=2) for end in ends),
            ])  # fmt: skip
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
    """Say how much longer learned knots take than fixed ones, by backbone, where both were trained."""
    if not len(pairs):
        return [
            "The time that learned knots cost is not known: it needs networks with learned and with fixed knots, each "
            "trained alone."
        ]
    said = []
    for network, part in pairs.groupby("network"):
        totals = part.groupby(["method", "size"], dropna=False)[["seconds", "seconds_fixed"]].sum()
        ratios = totals["seconds"] / totals["seconds_fixed"]
        whole = f"training with learned knots takes {_span(ratios.tolist())} times as long as with the same knots fixed"
        epochs = (part["per_epoch"] / part["per_epoch_fixed"]).dropna()
        if len(epochs):
            whole += f", which also depends on when it stops; an epoch takes {_span(epochs.tolist())} times as long"
            whole += f" (median {epochs.median():.2f} of {len(epochs)} pairs)"
        said.append(f"With {network}, {whole}.")
    return said


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def stack_table(frame: pd.DataFrame) -> Table:
    """Return for each backbone and size how long networks take alone and in a stack, where both are recorded."""
    both = _stacks(frame)
    rows = [
        [
            Cell(str(row["name"])), Cell("no size") if pd.isna(row["size"]) else Cell(value=row["size"], digits=0),
            Cell(value=float(row["n"]), digits=0), Cell(value=row["alone"], digits=1),
            Cell(value=row["stacked"], digits=1), Cell(value=row["alone"] / row["stacked"], digits=1),
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
    """Say what stacks save, where networks were trained in both ways."""
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
