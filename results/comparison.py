"""Comparison of our average ranks, mean scores and ablation with those of the paper, as tables and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from knotwork.encoders import METHOD_TABLE
from knotwork.errors import ArgumentError
from knotwork.report import Cell, RankTable, ReportTable, rank_table
from knotwork.stats import CorrelationInterval, spearman

N_BACKBONES = 3
PAPER_PROBLEMS = {"regression": 13 * N_BACKBONES, "classification": 12 * N_BACKBONES}
"""Problems behind the paper's average ranks: 13 and 12 data sets with 3 backbones."""

ABLATION = "ablation"
"""The data set of the ablation."""

_NAMES = {"PLE-adaptive-50": "PLE-Adaptive"}
"""Our names of methods that the paper's ablation names differently."""

_BACKBONES = {"ft": "ftt"}
"""The paper's names of backbones that it names differently."""


@dataclass(frozen=True)
class Comparison:
    """A table of our numbers, the paper's and the difference, and sentences on their agreement."""

    table: ReportTable
    sentences: list[str]


@dataclass(frozen=True, eq=False)
class RankComparison:
    """Our average ranks of one task and size with the paper's, for the methods that both have.

    Our problems are those of `network`, or of all networks if it is None; the paper's ranks, by method, are over all
    backbones.
    """

    table: RankTable
    network: str | None
    theirs: "pd.Series[float]"

    @cached_property
    def both(self) -> pd.DataFrame:
        """Columns `ours`, `theirs` and `difference`, our best first."""
        ours = pd.Series(self.table.ranks, index=self.table.methods)
        frame = pd.DataFrame({"ours": ours, "theirs": self.theirs}).dropna()
        return frame.assign(difference=frame["ours"] - frame["theirs"]).sort_values("ours", kind="stable")

    @cached_property
    def correlation(self) -> CorrelationInterval | None:
        """Spearman's rank correlation with a bootstrap interval; None if there are too few methods."""
        return _correlation(self.both["ours"], self.both["theirs"])

    @property
    def label(self) -> str:
        """Task and size, and the network if it is a single one."""
        return self.table.label + ("" if self.network is None else f", {self.network}")

    def as_table(self) -> ReportTable:
        """Return our ranks, the paper's and the difference, method by method."""
        rows = [
            [
                Cell(str(method)),
                Cell(value=float(row["ours"]), digits=2, best=bool(row["ours"] == self.both["ours"].min())),
                Cell(value=float(row["theirs"]), digits=2, best=bool(row["theirs"] == self.both["theirs"].min())),
                Cell(value=float(row["difference"]), digits=2),
            ]
            for method, row in self.both.iterrows()
        ]
        n_problems, n_theirs = len(self.table.problems), PAPER_PROBLEMS[self.table.task]
        caption = f"Averages over our {n_problems} problems and the paper's {n_theirs}; the best of each in bold."
        if not len(rows) == len(self.table.methods) == len(self.theirs):
            caption += (
                f" Ours are ranks among {len(self.table.methods)} methods, theirs among {len(self.theirs)}, so that "
                "differences mean little."
            )
        title = f"Average ranks beside the paper's, {self.label[0].lower()}{self.label[1:]}"
        name = f"paper_{self.table.task}_size{self.table.size}" + ("" if self.network is None else f"_{self.network}")
        return ReportTable(name, title, caption, ["method", "ours", "paper", "difference"], rows)


def compare_ranks(
    summary: pd.DataFrame, tables: Sequence[RankTable], paper: Mapping[str, pd.DataFrame]
) -> list[RankComparison]:
    """Compare average ranks with the paper's, for every task and size that both have, with two problems or more.

    The problems of all networks come first, then those of each network, if there are several. `paper` has by task the
    paper's average ranks: a column `method`, and a column ``m{size}`` for each size.
    """
    comparisons = []
    networks = sorted(summary["network"].unique())
    for network in [None, *(networks if len(networks) > 1 else [])]:
        for overall in tables:
            column = f"m{overall.size}"
            if overall.task not in paper or column not in paper[overall.task].columns:
                continue
            table = (
                overall if network is None else rank_table(summary, overall.task, size=overall.size, network=network)
            )
            theirs = paper[overall.task].set_index("method")[column].astype(float)
            if table.has_tests and theirs.index.isin(table.methods).any():
                comparisons.append(RankComparison(table, network, theirs))
    return comparisons


def describe_agreement(ranks: Sequence[RankComparison]) -> list[str]:
    """Return a sentence on the correlation of average ranks with the paper's, over all networks and for each."""
    sentences = []
    for network in dict.fromkeys(entry.network for entry in ranks):
        values = [
            entry.correlation.rho for entry in ranks if entry.network == network and entry.correlation is not None
        ]
        if values:
            spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
            scope = "over all backbones" if network is None else f"with {network}"
            sentences.append(f"{np.mean(values):.2f}{spread} {scope}")
    settings = len({(entry.table.task, entry.table.size) for entry in ranks})
    average = f", averaged over {settings} settings of task and size (least to most)" if settings > 1 else ""
    return (
        [f"Rank correlation of our average ranks with the paper's{average}: {'; '.join(sentences)}."]
        if sentences
        else []
    )


def agreement_table(ranks: Sequence[RankComparison]) -> ReportTable:
    """Return the rank correlation of each comparison, and our places of the paper's best and worst method."""
    rows = []
    for entry in ranks:
        rho, both = entry.correlation, entry.both
        best, worst = str(both["theirs"].idxmin()), str(both["theirs"].idxmax())
        ahead = {*entry.table.best, *entry.table.not_worse()}
        rows.append([
            Cell(entry.table.task), Cell(value=float(entry.table.size or 0), digits=0), Cell(entry.network or "all"),
            Cell(value=float(len(entry.table.problems)), digits=0),
            *(Cell(value=value, digits=2) for value in ([None] * 3 if rho is None else [rho.rho, rho.low, rho.high])),
            Cell(value=float(both["difference"].abs().mean()), digits=2),
            Cell(best), Cell(value=1.0 + list(both.index).index(best), digits=0),
            Cell("no" if best in ahead else "yes"),
            Cell(worst), Cell(value=1.0 + list(both.index).index(worst), digits=0),
        ])  # fmt: skip
    return ReportTable(
        "paper_agreement",
        "Agreement with the paper",
        "Spearman's rank correlation of our average ranks with the paper's, with a bootstrap interval of 95 % over "
        "methods; the mean absolute difference of ranks; the paper's best method, its place here, and whether it is "
        "significantly worse than our best; the paper's worst method and its place here. The paper gives ranks over "
        "all its backbones only.",
        ["task", "size", "backbones", "problems", "correlation", "low", "high", "difference", "paper's best",
         "place here", "worse than our best", "paper's worst", "its place here"],
        rows,
    )  # fmt: skip


def compare_ablation(summary: pd.DataFrame, paper: pd.DataFrame) -> list[Comparison]:
    """Compare the complete scores on the data set ``ablation`` with the paper's, by network, method and size.

    The columns of `paper` are `method size nrmse_mean nrmse_std`; `size` is missing for methods without one.
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
    """Compare scores of the same rows: `mean` and `sd` are ours, `nrmse_mean` and `nrmse_std` theirs."""
    differences = both["mean"] - both["nrmse_mean"]
    rows = [
        [Cell(row["method"]), _size(row["size"]),
         Cell(value=row["mean"], sd=row["sd"]), Cell(value=row["nrmse_mean"], sd=row["nrmse_std"]),
         Cell(value=row["mean"] - row["nrmse_mean"])]
        for row in both.sort_values("mean").to_dict("records")
    ]  # fmt: skip
    sentences = [_agreement(both["mean"], both["nrmse_mean"], "methods and sizes"), _differences(differences)]
    fixed = both[~both["method"].map(lambda name: METHOD_TABLE[name].learnable)]
    if 2 < len(fixed) < len(both):
        sentences.insert(1, _agreement(fixed["mean"], fixed["nrmse_mean"], "methods and sizes without learned knots"))
    title = f"NRMSE of the ablation beside the paper's, {network}"
    caption = "Mean ± standard deviation over seeds, the best of ours first."
    name = f"paper_ablation_{network}"
    return Comparison(
        ReportTable(name, title, caption, ["method", "size", "ours", "paper", "difference"], rows), sentences
    )


def _differences(differences: "pd.Series[float]") -> str:
    side = "above" if differences.mean() >= 0 else "below"
    return (
        f"The mean absolute difference is {differences.abs().mean():.4f}; ours are {abs(differences.mean()):.4f} "
        f"{side} theirs on average."
    )


def compare_averages(summary: pd.DataFrame, paper: pd.DataFrame) -> list[Comparison]:
    """Compare mean scores over data sets with those that the paper quotes, for each task.

    The columns of `paper` are `task backbone method size value`; `size` is missing for methods without one.
    """
    comparisons = []
    for task, part in paper.groupby("task", sort=False):
        lines = [line for row in part.to_dict("records") for line in _averages(summary, row)]
        if lines:
            comparisons.append(_compare_averages(str(task), pd.DataFrame(lines)))
    return comparisons


def _averages(summary: pd.DataFrame, quoted: Mapping[Any, Any]) -> list[dict[str, object]]:
    """Return our mean over data sets for each network that has the backbone, method and size of a quoted number."""
    task, method, size = str(quoted["task"]), str(quoted["method"]), quoted["size"]
    lines = []
    for network in sorted(summary.loc[summary["task"] == task, "network"].unique()):
        backbone = str(network).split()[0]
        if _BACKBONES.get(backbone, backbone) != quoted["backbone"]:
            continue
        part = summary[(summary["task"] == task) & (summary["network"] == network) & summary["complete"]]
        chosen = part["size"].min() if pd.isna(size) else size  # methods without a size are part of every size
        table = rank_table(part, task, size=None if pd.isna(chosen) else int(chosen), network=network)
        if method in table.methods and table.problems:
            ours = float(table.scores[:, table.methods.index(method)].mean())
            lines.append(
                {
                    "network": network,
                    "method": method,
                    "size": size,
                    "n": len(table.problems),
                    "ours": ours,
                    "theirs": quoted["value"],
                    "metric": table.metric,
                }
            )
    return lines


def _compare_averages(task: str, lines: pd.DataFrame) -> Comparison:
    metric = lines["metric"].iloc[0]
    differences = (lines["ours"] - lines["theirs"]).astype(float)
    rows = [
        [Cell(str(row["network"])), Cell(str(row["method"])), _size(row["size"]), Cell(value=float(row["n"]), digits=0),
         Cell(value=row["ours"]), Cell(value=row["theirs"]), Cell(value=row["ours"] - row["theirs"])]
        for row in lines.to_dict("records")
    ]  # fmt: skip
    sentences = [_agreement(lines["ours"], lines["theirs"], "quoted averages"), _differences(differences)]
    if task == "regression":
        sentences.append("The paper does not say what its NRMSE is divided by, so the values themselves may differ.")
    return Comparison(
        ReportTable(
            f"paper_averages_{task}",
            f"Mean {metric.label} beside the paper's",
            f"Mean {metric.label} over data sets ({metric.direction}), where the paper quotes one; each of our kinds "
            "of tokens beside the only one of the paper.",
            ["backbone", "method", "size", "data sets", "ours", "paper", "difference"],
            rows,
        ),
        sentences,
    )


def _size(size: object) -> Cell:
    return Cell("no size") if pd.isna(size) else Cell(value=float(size), digits=0)  # type: ignore[arg-type, call-overload]


def _correlation(ours: "pd.Series[float]", theirs: "pd.Series[float]") -> CorrelationInterval | None:
    try:
        return spearman(np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float))
    except ArgumentError:  # fewer than three pairs, or all values equal
        return None


def _agreement(ours: "pd.Series[float]", theirs: "pd.Series[float]", what: str) -> str:
    result = _correlation(ours, theirs)
    if result is None:
        return f"Spearman's rank correlation cannot be computed from {len(ours)} {what} with these values."
    return (
        f"Spearman's rank correlation of the {result.n} {what} is {result.rho:.2f} "
        f"(95 % interval {result.low:.2f} to {result.high:.2f})."
    )
