"""Sections of docs/findings.md on significance: tests over problems and over data sets, and the noise of training."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from noise import errors_of, floor_of
from questions import SIZES, TASKS, Gain, gains, is_trained, load, noise, paragraph, table_head
from scipy import stats

from knotwork.encoders import METHOD_TABLE
from knotwork.report import LEVEL, RankTable
from knotwork.stats import holm, problem_correlation
from knotwork.study import load_plan

SEEDS = "paper-mlp-seeds"
"""The plan with further random seeds."""
LEARNED = ("BS-Grad-U", "IS-Grad-U")
"""Methods of this plan whose knots are learned from a start that is a method of the plan, too."""
CELL = ["task", "dataset", "method", "fold"]
"""Columns that identify a network of this plan, up to its random seed."""


def rank_tables(frame: pd.DataFrame) -> list[RankTable]:
    """Return the scores of the main benchmark by task and size, with their ranks and tests."""
    tables = []
    for task in TASKS:
        for size in SIZES:
            part = frame[(frame["task"] == task) & (frame["size"].isna() | (frame["size"] == size))]
            wide = part.pivot_table(index=["dataset", "network"], columns="method", values="score", aggfunc="mean")
            problems = [(str(dataset), str(network)) for dataset, network in wide.index]
            tables.append(RankTable(task, size, list(map(str, wide.columns)), problems, wide.to_numpy(), {}, []))
    return tables


def worse_by_nemenyi(table: RankTable) -> list[str]:
    """Return the methods, best first, whose average rank over problems is a critical difference above the best."""
    return [table.methods[i] for i in table.order if table.ranks[i] - table.ranks.min() > table.cd]


def n_pairs_by_nemenyi(table: RankTable) -> int:
    """Return the number of pairs of methods whose average ranks over problems differ by the critical difference."""
    return int((np.abs(table.ranks[:, None] - table.ranks) > table.cd).sum()) // 2


def p_words(p: float | None) -> str:
    """Return a p-value for a cell."""
    return "none" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def both_ways(frame: pd.DataFrame) -> Iterator[str]:
    """Compare tests over problems, as the paper has them, with tests over data sets."""
    tables = rank_tables(frame)
    seeds = frame.groupby(["dataset", "network", "method", "size", "fold"], dropna=False)["seed"].nunique()
    n_seeds = "one random seed" if seeds.max() == 1 else f"{seeds.min()} to {seeds.max()} random seeds"
    more = " ([further ones](#how-much-do-random-seeds-matter) of the MLP)" if is_trained(SEEDS) else ""
    k = len(tables[0].methods)
    fewest = min(tables, key=lambda table: len(table.datasets))
    yield "## Which differences are significant?\n"
    yield paragraph(f"""
        The paper's diagrams count each data set with each backbone as a problem of its own. On one data set, however,
        the ranks that two backbones give to the methods are alike (correlation below; in brackets without the average
        rank of each method), so problems are not independent, and tests over them are too sure. Tests over data sets
        count each data set once: errors (NRMSE, 1 - AUC) relative to the mean error of their problem are averaged over
        folds, then over backbones, and all pairs of methods are compared by signed ranks with Holm's correction. For
        {k} methods that is a strict test: over {len(fewest.datasets)} data sets the smallest possible p-value is
        {fewest.least_p:.3f}, for two methods of which one is better everywhere. Each network was trained with
        {n_seeds} per fold{more}. Pairs: those that differ at 5 %, of {k * (k - 1) // 2}.""")
    yield from table_head(
        "task | size | correlation | problems | pairs (Nemenyi) | data sets | Friedman's p | pairs (signed ranks)"
    )
    for table in tables:
        groups = [dataset for dataset, _ in table.problems]
        alike, specific = (problem_correlation(table.scores, groups, without_averages=flag) for flag in (False, True))
        yield (
            f"| {table.task} | {table.size} | {alike:.2f} ({specific:.2f}) | {len(groups)} "
            f"| {n_pairs_by_nemenyi(table)} | {len(table.datasets)} | {p_words(table.test.p_F)} "
            f"| {int(table.differ.sum()) // 2} |"
        )
    yield "\n" + paragraph("""
        Significantly worse than the method with the best average rank, both ways (the report draws all groups):""")
    yield from table_head("task | size | best | worse over problems (Nemenyi) | worse over data sets (signed ranks)")
    for table in tables:
        lists = [", ".join(names) or "none" for names in (worse_by_nemenyi(table), table.worse())]
        yield f"| {table.task} | {table.size} | {', '.join(table.best)} | {lists[0]} | {lists[1]} |"
    yield ""


def random_seeds() -> Iterator[str]:
    """Describe how much random seeds matter; nothing before networks with further seeds are trained."""
    if not is_trained(SEEDS):
        return
    yield "## How much do random seeds matter?\n"
    yield from seed_lines(load(SEEDS))


def with_repeats(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the networks that are trained with all random seeds, with their errors, and seeds counted from 1."""
    frame = frame.assign(error=errors_of(frame))
    frame["repeat"] = frame.groupby(CELL)["seed"].rank(method="dense").astype(int)
    return frame[frame.groupby(CELL)["repeat"].transform("max") == frame["repeat"].max()]


def seed_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Compare the random seeds of MLPs of one size, in the folds in which each is trained with several."""
    frame = with_repeats(frame)
    n_seeds, k = frame["repeat"].max(), frame["method"].nunique()
    n_folds = frame.groupby("task", sort=False)["fold"].nunique()
    folds = " and ".join(f"{count} folds of {task}" for task, count in n_folds.items())
    yield paragraph(f"""
        {len(frame) // n_seeds:,} MLPs, at size {frame["size"].max():.0f} or without a size, in {folds}: each is trained
        with {n_seeds} random seeds, {len(frame):,} networks in all. They differ in initial weights, in the order of
        rows and in dropout; splits and the knots of encodings are the same. Deviation: standard deviation of the error
        (NRMSE, or 1 - AUC) between the seeds of an MLP, in percent of its mean error: the median and the root mean
        square over MLPs, and the root mean square on the data set where it is largest. Correlation: of the average
        ranks of the methods over data sets, between two seeds, on average; best: by average rank. Pairs: methods that
        differ significantly over data sets (signed ranks, Holm), of {k * (k - 1) // 2}: with each seed alone, with
        every one of them, and by the mean of all. Noise: the largest mean difference over data sets between two
        methods that another seed for each gives with a probability of 95 %, for one seed and one size; it is an upper
        limit, because two methods with the same seed have the same order of rows.""")
    yield from table_head(
        "task | networks | deviation, % | root mean square | largest | noise, % | correlation | best, each seed "
        "| pairs, each seed | with every seed | mean of all"
    )
    for task, part in frame.groupby("task", sort=False):
        cells = [*_deviation_cells(part), f"{100 * _seed_floor(part):.2f}", *_pair_cells(part)]
        yield f"| {task} | {len(part):,} | " + " | ".join(cells) + " |"
    yield ""
    if set(LEARNED) <= set(frame["method"]) and set(frame["task"]) == set(TASKS):
        yield from _learned_lines(frame)


def _seed_floor(part: pd.DataFrame) -> float:
    """Return the largest mean difference between two methods that random seeds alone give, relative to the error."""
    level = part.groupby(["dataset", "method"])["error"].transform("mean")
    wide = part.assign(relative=part["error"] / level).pivot_table(index=CELL, columns="repeat", values="relative")
    gaps = pd.concat([wide[one] - wide[other] for one, other in combinations(wide.columns, 2)]).rename("relative")
    pairs = gaps.reset_index()[["dataset", "relative"]]
    return floor_of(pairs, n_sets=pairs["dataset"].nunique(), n_averaged=part["fold"].nunique())


class SeedGain(NamedTuple):
    """The difference of learned knots from the same knots fixed, with several random seeds."""

    method: str
    gain: Gain
    """Of the mean over seeds."""
    alone: list[float]
    """p-values with each seed alone."""
    adjusted: float
    """p-value of the mean over seeds, corrected by Holm for all methods and tasks."""

    @property
    def is_better(self) -> bool:
        """Whether learned knots are significantly better."""
        return self.adjusted < LEVEL and self.gain.relative < 0


def seed_gains(frame: pd.DataFrame) -> list[SeedGain]:
    """Compare learned knots with the same knots fixed; `frame` as from `with_repeats`."""
    rows = []
    for method in LEARNED:
        kinds = frame["method"] == method, frame["method"] == METHOD_TABLE[method].start
        alone = [gains(part, *(kind[part.index] for kind in kinds)) for _, part in frame.groupby("repeat")]
        rows += [(method, gain, [each[place].p for each in alone]) for place, gain in enumerate(gains(frame, *kinds))]
    adjusted = holm([gain.p for _, gain, _ in rows])
    return [SeedGain(*row, float(p)) for row, p in zip(rows, adjusted, strict=True)]


def _learned_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Compare learned knots with the same knots fixed, with each random seed and with all."""
    yield paragraph(f"""
        Learned knots beside the same knots fixed, in these networks. Difference of the error as in [the table of
        learned knots](#learned-knots-do-they-move-and-do-they-pay), of the mean over {frame["repeat"].max()} random
        seeds; p-values of signed ranks over data sets with each seed alone, with the mean of all, and that corrected
        by Holm for the rows of this table.""")
    yield from table_head("method | score | difference, % | interval | better | p, each seed | p, mean | p (Holm)")
    for row in seed_gains(frame):
        gain, (low, high) = row.gain, (100 * row.gain.low, 100 * row.gain.high)
        yield (
            f"| {row.method} | {gain.score} | {100 * gain.relative:+.2f} | {low:+.2f} to {high:+.2f} "
            f"| {gain.better} of {gain.n_sets} | {', '.join(f'{p:.3f}' for p in row.alone)} | {gain.p:.3f} "
            f"| {row.adjusted:.3f} |"
        )
    yield ""


def _deviation_cells(part: pd.DataFrame) -> list[str]:
    """Return how much the errors of networks differ between seeds."""
    errors = part.groupby(CELL)["error"]
    spread = 100 * errors.std() / errors.mean()
    by_set = np.sqrt((spread**2).groupby(level="dataset").mean())
    mean_square = float(np.sqrt((spread**2).mean()))
    return [f"{spread.median():.2f}", f"{mean_square:.2f}", f"{by_set.max():.1f} ({by_set.idxmax()})"]


def _pair_cells(part: pd.DataFrame) -> list[str]:
    """Return how much ranks and significant differences depend on the seed."""
    alone = [mlp_table(rows) for _, rows in part.groupby("repeat")]
    ranks = np.corrcoef(stats.rankdata([table.dataset_ranks for table in alone], axis=1))
    mean = float(ranks[np.triu_indices(len(alone), 1)].mean())
    every = np.logical_and.reduce([table.differ for table in alone])
    counts = [int(flags.sum()) // 2 for flags in (*(table.differ for table in alone), every, mlp_table(part).differ)]
    best = ", ".join(" and ".join(table.best) for table in alone)
    return [f"{mean:.2f}", best, ", ".join(map(str, counts[:-2])), *map(str, counts[-2:])]


def mlp_table(part: pd.DataFrame) -> RankTable:
    """Return the mean scores of MLPs of one task, with their ranks and tests."""
    wide = part.pivot_table(index="dataset", columns="method", values="score", aggfunc="mean")
    problems = [(str(dataset), "mlp") for dataset in wide.index]
    return RankTable(str(part["task"].iloc[0]), None, list(map(str, wide.columns)), problems, wide.to_numpy(), {}, [])


def noise_table() -> Iterator[str]:
    """Describe the differences between networks with the same specification."""
    pairs = noise()
    n_folds, n_sets = load_plan("paper").folds, pairs.groupby("task")["dataset"].nunique()
    plans = pairs[pairs["source"] == "two plans"]
    still = pairs[pairs["source"] == "knots that never moved"]
    yield "## The noise of training\n"
    yield paragraph(f"""
        Products of matrices round differently in stacks of another shape, and training amplifies it. How far apart are
        networks with the same specification, data and random seed? Of {len(plans)} MLPs that two plans have trained,
        {int((plans["gap"] == 0).sum())} have the same score, with differences of up to {plans["gap"].max():.4f}; of
        {len(still)} networks with learned knots that never moved, {(still["gap"] == 0).mean():.0%} have the score of
        the same knots fixed, with differences of up to {still["gap"].max():.4f}. Relative: root mean square of the
        differences, in percent of the error. Noise: the largest mean difference between two methods that this gives
        with a probability of 95 %, over all data sets of a task, {n_folds} folds and {len(SIZES)} sizes (for one size
        {np.sqrt(len(SIZES)):.1f} times as much). Data sets without pairs are assumed to have the average noise of the
        others. Knots that never moved belong to networks that stopped early, so that the noise of ResNet and
        FT-Transformer, whose pairs are mostly such, is rather too small. This is the noise of rounding alone: [other
        random seeds](#how-much-do-random-seeds-matter) change more.""")
    yield from table_head("backbone | task | pairs | data sets | same score | largest | relative, % | noise, %")
    for (network, task), part in pairs.groupby(["network", "task"]):
        floor = floor_of(part, n_sets=int(n_sets[task]), n_averaged=n_folds * len(SIZES))
        yield (
            f"| {network} | {task} | {len(part)} | {part['dataset'].nunique()} | {(part['gap'] == 0).mean():.0%} "
            f"| {part['gap'].max():.4f} | {100 * np.sqrt((part['relative'] ** 2).mean()):.2f} | {100 * floor:.2f} |"
        )
    yield ""
