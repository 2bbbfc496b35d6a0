"""The encoding to start with, by task, backbone and budget, from the records."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork.encoders._methods import METHOD_TABLE
from knotwork.report._aggregate import SCORES, in_order, sizes_of
from knotwork.report._tables import Cell, Table
from knotwork.stats import RankIntervals, average_ranks, bootstrap_ranks, wilcoxon_holm

__all__ = ["BUDGETS", "Advice", "advice_table", "advise"]

BUDGETS = {
    "low": "the smallest size, and knots that cost next to nothing to place (PLE, equal distances, quantiles)",
    "medium": "sizes up to the middle one, and knots from trees",
    "high": "all sizes, and learned knots",
}
"""What each budget allows; the higher ones include the lower."""

Configuration = tuple[str, int | None]
"""A method and its size."""


@dataclass(frozen=True, eq=False)
class Advice:
    """The configurations that a budget allows, ranked over the data sets of one task and network.

    Parameters
    ----------
    task, network, budget : str
        Task, network and budget of the advice.
    configurations : list of (str, int or None)
        Methods with their sizes, the cheapest first.
    scores : ndarray of shape (n_datasets, n_configurations)
        Means over folds.
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
        """Position of the best average rank; of equals the cheapest."""
        return int(np.argmin(self.ranks))

    @cached_property
    def intervals(self) -> RankIntervals:
        """Bootstrap intervals of the average ranks."""
        return bootstrap_ranks(self.scores, lower_is_better=SCORES[self.task].lower_is_better)

    @cached_property
    def p(self) -> float:
        """Wilcoxon's p-value of the best against the cheapest, corrected by Holm for all comparisons with it."""
        return float(wilcoxon_holm(self.scores, SCORES[self.task].lower_is_better, control=0).adjusted[0, self.best])


def advise(summary: pd.DataFrame) -> list[Advice]:
    """Return for each task, network and budget the configurations that are complete, on two data sets at least."""
    advice = []
    whole = summary[summary["complete"]]
    for (task, network), part in whole.groupby(["task", "network"]):
        wide = part.assign(size=part["size"].fillna(0)).pivot(
            index="dataset", columns=["method", "size"], values="mean"
        )
        taking = 2 * wide.notna().sum() >= len(wide)
        wide = wide.loc[:, taking].dropna()
        for budget in BUDGETS:
            allowed = [each for each in _cheapest_first(part) if _key(each) in wide.columns]
            chosen = [each for each in allowed if _within(each, budget, sizes_of(part))]
            if len(chosen) > 1 and len(wide) > 1:
                scores = wide[[_key(each) for each in chosen]].to_numpy(dtype=float)
                advice.append(Advice(str(task), str(network), budget, chosen, scores))
    order = list(SCORES)
    return sorted(advice, key=lambda each: order.index(each.task))


def _key(configuration: Configuration) -> tuple[str, float]:
    return configuration[0], float(configuration[1] or 0)


def _cheapest_first(part: pd.DataFrame) -> list[Configuration]:
    """Return configurations by their parameters; equal ones in the order of `METHOD_TABLE`."""
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
    known = METHOD_TABLE.get(method)
    learned = known is None or known.learnable
    from_trees = known is None or (known.supervised and not known.has_bins)
    place = 0 if size is None else sizes.index(size)
    if budget == "low":
        return place == 0 and not learned and not from_trees
    return budget == "high" or (2 * place <= len(sizes) - 1 and not learned)


def advice_table(advice: list[Advice]) -> Table:
    """Return the best configuration for each task, network and budget, and whether it is better than the cheapest."""
    rows = []
    for each in advice:
        best, intervals = each.best, each.intervals
        means = each.scores.mean(axis=0)
        verdict = "is the cheapest" if best == 0 else "yes" if each.p < 0.05 else "not significantly"
        rows.append([
            Cell(each.task), Cell(each.network), Cell(each.budget), Cell(_named(each.configurations[best])),
            Cell(value=float(each.ranks[best]), digits=2), Cell(value=float(intervals.low[best]), digits=2),
            Cell(value=float(intervals.high[best]), digits=2), Cell(value=float(len(each.configurations)), digits=0),
            Cell(value=float(len(each.scores)), digits=0), Cell(value=float(means[best])),
            Cell(_named(each.configurations[0])), Cell(value=float(means[0])), Cell(verdict),
            Cell() if best == 0 else Cell(value=each.p),
        ])  # fmt: skip
    return Table(
        "recommendations",
        "What to start with",
        "The method and size with the best average rank over data sets within a budget, of how many, with a bootstrap "
        "interval of 95 %; its mean score; and whether it is better than the cheapest, the one with the fewest "
        "parameters (Wilcoxon, Holm over all comparisons with the cheapest, 0.05).",
        ["task", "backbone", "budget", "best", "rank", "low", "high", "of", "data sets", "score", "cheapest",
         "its score", "better", "p"],
        rows,
    )  # fmt: skip


def _named(configuration: Configuration) -> str:
    method, size = configuration
    return method if size is None else f"{method} {size}"
