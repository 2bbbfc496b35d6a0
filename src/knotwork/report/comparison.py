"""Our average ranks and our ablation beside those of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from knotwork.errors import ArgumentError
from knotwork.report.aggregate import RankTable
from knotwork.report.tables import Cell, Table
from knotwork.stats import spearman

__all__ = ["PAPER_BLOCKS", "Comparison", "compare_ablation", "compare_ranks"]

PAPER_BLOCKS = {"regression": 39, "classification": 36}
"""Blocks behind the paper's average ranks: 13 and 12 data sets with 3 backbones."""

ABLATION = "ablation"
"""The data set of the ablation."""

_NAMES = {"PLE-adaptive-50": "PLE-Adaptive"}
"""Methods that the paper's ablation names otherwise."""


@dataclass(frozen=True)
class Comparison:
    """Our numbers beside the paper's.

    Parameters
    ----------
    table : Table
        What is compared, ours, theirs and the difference.
    sentences : list of str
        How far they agree.
    """

    table: Table
    sentences: list[str]


def compare_ranks(tables: Sequence[RankTable], paper: Mapping[str, pd.DataFrame]) -> list[Comparison]:
    """Compare average ranks with the paper's, for every task and size that both have, and we on two blocks or more.

    Parameters
    ----------
    tables : sequence of RankTable
        Ours.
    paper : mapping of str to DataFrame
        By task, the paper's average ranks: a column `method`, and a column ``m{size}`` for each size.
    """
    found = []
    for table in tables:
        column = f"m{table.size}"
        if not table.has_tests or table.task not in paper or column not in paper[table.task].columns:
            continue
        theirs = paper[table.task].set_index("method")[column].astype(float)
        ours = pd.Series(table.ranks, index=table.methods)
        both = [method for method in table.methods if method in theirs.index]
        if both:
            found.append(_compare(table, ours[both], theirs[both], n_theirs=len(theirs)))
    return found


def compare_ablation(summary: pd.DataFrame, paper: pd.DataFrame) -> list[Comparison]:
    """Compare the scores of the ablation with the paper's, method by method and size by size.

    Parameters
    ----------
    summary : DataFrame
        As from `summarise_folds`; only complete scores on the data set ``ablation`` are compared.
    paper : DataFrame
        Columns `method size nrmse_mean nrmse_std`; `size` is missing for methods without one.
    """
    keys = ["method", "size"]
    ours = summary[(summary["dataset"] == ABLATION) & summary["complete"]]
    theirs = paper.assign(method=paper["method"].replace(_NAMES), size=paper["size"].astype(float))
    return [
        _compare_scores(str(network), part.merge(theirs, on=keys))
        for network, part in ours.groupby("network")
        if part[keys].merge(theirs[keys], on=keys).shape[0]
    ]


def _compare_scores(network: str, both: pd.DataFrame) -> Comparison:
    """Compare scores that stand side by side: `mean` and `sd` are ours, `nrmse_mean` and `nrmse_std` theirs."""
    differences = both["mean"] - both["nrmse_mean"]
    rows = [
        [Cell(row["method"]), Cell("no size") if pd.isna(row["size"]) else Cell(value=float(row["size"]), digits=0),
         Cell(value=row["mean"], sd=row["sd"]), Cell(value=row["nrmse_mean"], sd=row["nrmse_std"]),
         Cell(value=row["mean"] - row["nrmse_mean"])]
        for row in both.sort_values("mean").to_dict("records")
    ]  # fmt: skip
    said = [
        _agreement(both["mean"], both["nrmse_mean"], "methods and sizes"),
        f"The mean absolute difference is {differences.abs().mean():.4f}; ours are {differences.mean():+.4f} above "
        "theirs on average.",
    ]
    title = f"NRMSE of the ablation beside the paper's, {network}"
    caption = "Mean ± standard deviation over seeds, the best of ours first."
    name = f"paper_ablation_{network}"
    return Comparison(Table(name, title, caption, ["method", "size", "ours", "paper", "difference"], rows), said)


def _compare(table: RankTable, ours: pd.Series, theirs: pd.Series, *, n_theirs: int) -> Comparison:
    differences = ours - theirs
    rows = [
        [
            Cell(str(method)),
            Cell(value=float(ours[method]), digits=2, best=bool(ours[method] == ours.min())),
            Cell(value=float(theirs[method]), digits=2, best=bool(theirs[method] == theirs.min())),
            Cell(value=float(differences[method]), digits=2),
        ]
        for method in ours.sort_values(kind="stable").index
    ]
    widest = str(differences.abs().idxmax())
    said = [
        _agreement(ours, theirs, "methods"),
        f"The mean absolute difference is {differences.abs().mean():.2f} ranks, the largest {differences[widest]:+.2f} "
        f"({widest}).",
    ]
    if len(ours) != len(table.methods) or len(ours) != n_theirs:
        said.append(f"Ours are ranks among {len(table.methods)} methods, theirs among {n_theirs}, so that differences "
                    "mean little; the rank correlation is over the methods that both have.")  # fmt: skip
    if len(table.blocks) != PAPER_BLOCKS[table.task]:
        said.append(f"Ours are averages over {len(table.blocks)} blocks, theirs over {PAPER_BLOCKS[table.task]}.")
    title = f"Average ranks beside the paper's, {table.label[0].lower()}{table.label[1:]}"
    name = f"paper_{table.task}_size{table.size}"
    caption = f"Over our {len(table.blocks)} blocks; the best of each in bold."
    return Comparison(Table(name, title, caption, ["method", "ours", "paper", "difference"], rows), said)


def _agreement(ours: pd.Series, theirs: pd.Series, what: str) -> str:
    try:
        found = spearman(np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float))
    except ArgumentError:
        return f"Spearman's rank correlation cannot be computed from {len(ours)} {what} with these values."
    return (
        f"Spearman's rank correlation of the {found.n} {what} is {found.rho:.2f} "
        f"(95 % interval {found.low:.2f} to {found.high:.2f})."
    )
