"""The recommended encoding by task, backbone and budget, from the records."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork.encoders import METHOD_TABLE
from knotwork.report._aggregate import SCORES, in_order, sizes_of
from knotwork.report._tables import ReportTable, cell_rows
from knotwork.stats import RankIntervals, average_ranks, bootstrap_ranks, relative_errors, wilcoxon_holm

__all__ = ["BUDGETS", "Advice", "advice_table", "advise"]

BUDGETS = {
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
        return bootstrap_ranks(self.scores, lower_is_better=SCORES[self.task].lower_is_better)

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
        for budget in BUDGETS:
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
    known = METHOD_TABLE.get(method)
    learned = known is None or known.learnable
    from_trees = known is None or (known.supervised and not known.has_bins)
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
        "The method and size with the best average rank over data sets within a budget, with a bootstrap interval of "
        "95 % and the number of candidates; its mean score; and whether it is better than the cheapest, the one with "
        "the fewest parameters (Wilcoxon over relative errors, Holm over all comparisons with the cheapest, 0.05).",
        list(digits),
        cell_rows(rows, digits.values()),
    )


def _named(configuration: Configuration) -> str:
    method, size = configuration
    return method if size is None else f"{method} {size}"
