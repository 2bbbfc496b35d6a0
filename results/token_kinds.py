"""The FT-Transformer's tokens in the records: one per feature beside one per encoded coordinate."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from questions import SCALED, TASKS, correlation, load, paper_ranks, paragraph, ranks_by_problem, table_head

from knotwork.stats import compare_folds

"""Methods with one coordinate per feature."""
TEST_TO_TRAIN = 0.25
"""Ratio of the test rows of a fold to its other rows."""


class TokenPair(NamedTuple):
    """Both kinds of tokens on one data set: scores, and the difference coordinate - feature with its interval."""

    dataset: str
    metric: str
    feature: "pd.Series[float]"
    coordinate: "pd.Series[float]"
    difference: tuple[float, float, float]
    chance: float
    seconds: tuple[float, float]

    @property
    def verdict(self) -> int:
        """Return 1 if a token per coordinate is better, -1 if it is worse, 0 if the difference is not significant."""
        _, low, high = self.difference
        sign = int(low > 0) - int(high < 0)
        return -sign if self.metric == "NRMSE" else sign


def token_pairs() -> list[TokenPair]:
    """Compare one token per feature with one per encoded coordinate, on every data set where both are trained."""
    coordinate, feature = load("paper-ft-coordinate"), load("paper-ft")
    out = []
    for name in sorted(coordinate["dataset"].unique()):
        parts = [
            part[(part["dataset"] == name) & (part["size"].isna() | (part["size"] == 7))]
            for part in (feature, coordinate)
        ]
        one, other = (part.groupby("method")["score"].mean() for part in parts)
        gap = other - one
        metric = "NRMSE" if parts[0]["task"].iloc[0] == "regression" else "AUC"
        seconds = parts[0]["train_seconds"].sum(), parts[1]["train_seconds"].sum()
        interval = fold_interval(parts[0], parts[1], metric)
        out.append(TokenPair(str(name), metric, one, other, interval, float(gap[list(SCALED)].abs().max()), seconds))
    return out


def fold_interval(feature: pd.DataFrame, coordinate: pd.DataFrame, metric: str) -> tuple[float, float, float]:
    """Return the difference coordinate - feature of the means of the 12 encodings, with its interval over folds."""
    sides = [part[~part["method"].isin(SCALED)].groupby("fold")["score"].mean() for part in (feature, coordinate)]
    result = compare_folds(np.column_stack(sides), test_to_train=TEST_TO_TRAIN, lower_is_better=metric == "NRMSE")
    other = 1 - result.best  # differences are those of the other one: how much worse it is
    sign = (1 if metric == "NRMSE" else -1) * (1 if other == 1 else -1)
    ends = sorted([sign * result.low[other], sign * result.high[other]])
    return float(sign * result.difference[other]), float(ends[0]), float(ends[1])


def tokens() -> Iterator[str]:
    """Compare a token per encoded coordinate with one per feature."""
    coordinate, pairs = load("paper-ft-coordinate"), token_pairs()
    names = [pair.dataset for pair in pairs]
    yield "## A token per feature, or per coordinate?\n"
    yield paragraph(f"""
        The same networks at size 7 both ways, on {len(names)} small data sets ({len(coordinate)} networks with a token
        per coordinate). Score: mean over 12 encodings and 5 folds. Difference: coordinate minus feature, with a 95 %
        interval over folds (corrected resampled t-test). Std and MinMax have one coordinate, so that their networks are
        the same both ways and their difference is chance; the column Std, MinMax has the larger of the two. Best: of
        all 14 methods, first with a token per feature, then per coordinate. Seconds: by the records' clocks, of all 70
        networks; the card was shared, more often for coordinates.""")
    yield from table_head(
        "data set | score | feature | coordinate | difference | interval | Std, MinMax | best | seconds"
    )
    for pair in pairs:
        means = [each.drop(list(SCALED)).mean() for each in (pair.feature, pair.coordinate)]
        mean, low, high = pair.difference
        best = [
            str(each.idxmin() if pair.metric == "NRMSE" else each.idxmax()) for each in (pair.feature, pair.coordinate)
        ]
        yield (
            f"| {pair.dataset} | {pair.metric} | {means[0]:.4f} | {means[1]:.4f} | {mean:+.4f} "
            f"| {low:+.4f} to {high:+.4f} | {pair.chance:.4f} | {best[0]}, {best[1]} "
            f"| {pair.seconds[0]:.0f}, {pair.seconds[1]:.0f} |"
        )
    yield from token_ranks(coordinate, pairs)


def token_ranks(coordinate: pd.DataFrame, pairs: list[TokenPair]) -> Iterator[str]:
    """Describe which kind of tokens is better, and the correlation of the ranks with the paper's."""
    names = [pair.dataset for pair in pairs]
    worse, better = (sum(pair.verdict == sign for pair in pairs) for sign in (-1, 1))
    longer = sum(pair.seconds[1] for pair in pairs) / sum(pair.seconds[0] for pair in pairs)
    yield "\n" + paragraph(f"""
        A token per coordinate is worse on {worse} of {len(pairs)} data sets and better on {better}; on the others the
        interval contains 0. It took {longer:.1f} times as long. Average ranks on these data sets at size 7, and their
        correlation with the paper's, whose FT-Transformer is one of three backbones:""")
    yield from table_head(
        "task | data sets | token per | correlation with the paper | best three, average rank | Std, its place"
    )
    both = {"feature": load("paper-ft"), "coordinate": coordinate}
    for task in TASKS:
        for kind, frame in both.items():
            ranks = ranks_by_problem(frame[frame["dataset"].isin(names)], task, 7)
            order = ranks.mean().sort_values()
            first = ", ".join(f"{name} {order[name]:.1f}" for name in order.index[:3])
            yield (
                f"| {task} | {len(ranks)} | {kind} | {correlation(ranks, paper_ranks(task)['m7']):.2f} | {first} "
                f"| {list(order.index).index('Std') + 1} of {len(order)} |"
            )
    others = pd.concat([load("paper-mlp"), load("paper-resnet"), *both.values()])
    others = others[others["dataset"].isin(names) & (others["size"] == 7)]
    level = others.groupby(["task", "network", "dataset"])["score"].mean().groupby(level=[0, 1]).mean()
    levels = [", ".join(f"{name} {value:.4f}" for name, value in level[task].items()) for task in TASKS]
    yield "\n" + paragraph(f"""
        Means of the 12 encodings over these data sets, NRMSE: {levels[0]}; AUC: {levels[1]}.""")
