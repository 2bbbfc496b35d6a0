"""Tables of cost: training times, parameters that learned knots add, and the order of the work."""

import numpy as np
import pandas as pd

from knotwork.encoders._methods import METHOD_TABLE
from knotwork.report._aggregate import in_order, sizes_of
from knotwork.report._tables import MISSING, Cell, Table

__all__ = ["complexity_table", "fixed_counterpart", "overhead_table", "time_table"]


def complexity_table() -> Table:
    """Return the order of the work per batch, as the paper gives it; formulas, not measurements."""
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
        "As the paper gives it, not measured: d numerical features, B rows, m columns per feature, degree p, K learned "
        "knots per feature.",
        ["encoding", "transformation", "forward", "backward"],
        [[Cell(text) for text in row] for row in rows],
    )


def fixed_counterpart(method: str) -> str | None:
    """Return the method with the same start whose knots stay fixed, or None if `method` does not learn its knots.

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
            found = block[block["method"] == method]
            cells = []
            for size in sizes:
                seconds = found.loc[found["size"].isna() | (found["size"] == size), "seconds"].dropna()
                cells.append(Cell(value=float(seconds.median()) if len(seconds) else None, digits=1))
            rows.append([Cell(str(network)), Cell(method), *cells])
    return Table(
        "times",
        "Training times",
        "Seconds of preparation and training, summed over folds; median over data sets. Networks trained together "
        "share their time, so these compare methods only if all were trained in the same way.",
        ["backbone", "method", *("no size" if size is None else f"size {size}" for size in sizes)],
        rows,
    )
