"""What learned knots and single training cost in time, from the clocks of the records."""

from collections.abc import Sequence

import pandas as pd

from knotwork.report._aggregate import in_order
from knotwork.report._cost_tables import fixed_counterpart
from knotwork.report._tables import Cell, Table

__all__ = ["describe_ratios", "describe_stacks", "per_epoch", "ratio_table", "ratios_of", "stack_table"]

_RUN = ["dataset", "network", "size", "fold", "seed"]


def per_epoch(one: pd.DataFrame, other: pd.DataFrame) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Return the seconds of an epoch of networks and of those that they are compared with, row by row.

    They are those of the median epoch where both have them, otherwise the means of both, which also hold what the first
    epoch takes to compile kernels.

    Parameters
    ----------
    one, other : DataFrame
        With columns `epoch_seconds train_seconds epochs` and the same index.
    """
    numbers = [
        each[["epoch_seconds", "train_seconds", "epochs"]].apply(pd.to_numeric, errors="coerce").astype(float)
        for each in (one, other)
    ]
    known = numbers[0]["epoch_seconds"].notna() & numbers[1]["epoch_seconds"].notna()
    first, second = (each["epoch_seconds"].where(known, each["train_seconds"] / each["epochs"]) for each in numbers)
    return first, second


def ratios_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how long training with learned knots takes beside the same with fixed knots, fold by fold.

    Only networks that were trained alone, or of which nothing is said, are compared: the members of a stack share its
    time in equal parts, whatever each of them costs.

    Parameters
    ----------
    frame : DataFrame
        As from `read_records`.

    Returns
    -------
    DataFrame
        A row for each network with learned knots that has its counterpart: columns `method fixed`, those that tell
        networks apart, `seconds seconds_fixed`, and `per_epoch per_epoch_fixed`, as from `per_epoch`.
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
    """Return the ratio of times, learned to fixed, by method, network and size.

    Parameters
    ----------
    pairs : DataFrame
        As from `ratios_of`.
    """
    rows = []
    for method in in_order(pairs["method"].unique()):
        own = pairs[pairs["method"] == method]
        for (network, size), part in own.groupby(["network", "size"]):
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
        "and most over folds), which does not depend on when training stopped: that of the median epoch, or the mean, "
        "with what compiling took, where one of the two does not have it. Networks trained alone.",
        ["learned", "fixed", "backbone", "size", "seconds", "seconds, fixed", "ratio", "per epoch", "least", "most"],
        rows,
    )


def describe_ratios(pairs: pd.DataFrame) -> list[str]:
    """Say how much longer learned knots take than fixed ones, by backbone, where both were trained."""
    if not len(pairs):
        return [
            "What learned knots cost in time cannot be said: it takes networks with learned and with fixed knots, each "
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
    """Return for each backbone and size how long networks take alone and in a stack, where both are recorded.

    Parameters
    ----------
    frame : DataFrame
        As from `read_records`.
    """
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
