"""From records of single networks to scores over folds, tables of ranks, and the parts of a report."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error, listed
from knotwork.encoders import METHOD_TABLE
from knotwork.knots import TASKS
from knotwork.stats import (
    FriedmanResult,
    PairwiseResult,
    RankIntervals,
    average_problems,
    average_ranks,
    bootstrap_ranks,
    cliques,
    critical_difference,
    friedman,
    pairwise_cliques,
    relative_errors,
    wilcoxon_holm,
)
from knotwork.training import TrainingConfig

Floats = npt.NDArray[np.float64]

_TRAINED = ["task", "dataset", "network", "method", "size", "fold", "seed"]
"""Columns that together identify a trained network."""

LEVEL = 0.05
"""Level of all tests."""

FEWEST_RESAMPLED = 5
"""Minimum number of data sets for bootstrap intervals: resampled from fewer, they are far too narrow."""

_GRID_SIZES = 4
"""Minimum number of sizes to show a data set as a grid of sizes."""


@dataclass(frozen=True)
class Score:
    """The score of a task: its column in the records, its label for readers, and its direction."""

    column: str
    label: str
    lower_is_better: bool

    @property
    def direction(self) -> str:
        """The direction for captions."""
        return "lower is better" if self.lower_is_better else "higher is better"

    def errors(self, scores: Floats) -> Floats:
        """Return scores as errors, 0 for a perfect prediction: scores for which higher is better are at most 1."""
        return scores if self.lower_is_better else 1 - scores


def _score(task: str) -> Score:
    """Return the score of a task: the reported metric, in its form relative to the target if it has one."""
    metric = TrainingConfig(metric="reported").metric_for(task)
    label = metric.label if metric.relative is None else metric.relative.upper()
    return Score(metric.columns[0], label, metric.lower_is_better)


SCORES = {task: _score(task) for task in TASKS}
"""The score by which each task is ranked."""

REQUIRED = ("dataset", "task", "backbone", "method", "size", "fold")
"""Columns that identify a network; a report needs all of them."""

VARIANT = ", "
"""Separator of the training variant from the rest of a network's name."""

_NUMBERS = [
    *dict.fromkeys(score.column for score in SCORES.values()),
    *("prepare_seconds", "train_seconds", "epoch_seconds", "n_parameters", "epochs"),
]
_TEXTS = ["key", "tokens", "variant", "together", "data_sha256", "plan", "plan_hash"]
_TEXTS += ["version", "torch_version", "host", "device", "error"]
_OPTIONAL = {"seed": 0, "status": "ok", **dict.fromkeys(_NUMBERS, np.nan), **dict.fromkeys(_TEXTS)}
"""Other columns that a report reads, with their defaults."""


def read_records(records: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of records with every column that a report reads, and with `network` and `score`.

    `score` is the metric of the task, missing for a failed network and if it is not finite. Tasks named ``binary`` or
    ``multiclass`` count as classification. `network` names the backbone, its tokens, its variant of training, and
    whether it was trained alone or in a stack, if the records have both. Of duplicate networks the last successful
    record is kept, otherwise the last failure.
    """
    missing = [name for name in REQUIRED if name not in records.columns]
    if missing:
        raise argument_error("records", f"have the columns {listed(REQUIRED)}", list(records.columns))
    frame = records.assign(**{name: value for name, value in _OPTIONAL.items() if name not in records.columns})
    for name in ("dataset", "task", "backbone", "method", "status"):
        frame[name] = frame[name].astype(str)
    for name in ("size", *_NUMBERS):
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype("Float64").to_numpy(float, na_value=np.nan)
    frame["task"] = frame["task"].replace({"binary": "classification", "multiclass": "classification"})
    unknown = sorted(set(frame["task"]) - set(TASKS))
    if unknown:
        raise argument_error("records", f"have a task of {listed(TASKS)} in each row", unknown)
    frame["network"] = _networks(frame)
    scores = np.select([frame["task"] == task for task in SCORES], [frame[score.column] for score in SCORES.values()])
    frame["score"] = np.where((frame["status"] == "ok") & np.isfinite(scores), scores, np.nan)
    # A stable sort puts successes last, so that the last of duplicates is the last success, if there is one.
    by_success = frame.assign(_good=frame["status"] == "ok").sort_values("_good", kind="stable").drop(columns="_good")
    return by_success.drop_duplicates(_TRAINED, keep="last").sort_index().reset_index(drop=True)


def _networks(frame: pd.DataFrame) -> pd.Series:
    """Return the names of networks: backbone, tokens, variant, and "alone" or "stacked" if a backbone has both."""
    tokens, variant = (
        frame[name].astype(object).where(frame[name].notna(), "").astype(str) for name in ("tokens", "variant")
    )
    together = frame["together"].astype(object).map({True: "stacked", False: "alone"}).fillna("").astype(str)
    names = frame["backbone"].where(tokens == "", frame["backbone"] + " " + tokens)
    names = names.where(variant == "", names + VARIANT + variant)
    n_ways = together.groupby(names).transform("nunique")
    return names.where((n_ways < 2) | (together == ""), names + " (" + together + ")")


def summarise_folds(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over folds (and seeds) of each method on each problem.

    The frame is as from `read_records`. The columns of the result are `task dataset network method size mean sd n
    expected complete seconds epoch parameters`. `sd` divides by n - 1 and is missing for one fold; `complete` cells
    have a score for every fold of the problem, and for every seed that any method was run with at the same size;
    `seconds` is the sum of training and preparation over the folds with a score, `epoch` the median of their seconds
    per epoch, `parameters` their mean.
    """
    scored = frame["score"].notna()
    work = frame.assign(
        seconds=(frame["train_seconds"] + frame["prepare_seconds"].fillna(0)).where(scored),
        epoch=_epoch_seconds(frame[scored]),
        parameters=frame["n_parameters"].where(scored),
    )
    grouped = work.groupby(["task", "dataset", "network", "method", "size"], dropna=False, sort=False)
    summary = grouped.agg(
        mean=("score", "mean"),
        sd=("score", "std"),
        n=("score", "count"),
        seconds=("seconds", lambda values: values.sum(min_count=1)),
        epoch=("epoch", "median"),
        parameters=("parameters", "mean"),
    ).reset_index()
    problem = ["task", "dataset", "network"]
    runs = work.drop_duplicates([*problem, "size", "fold", "seed"]).groupby([*problem, "size"], dropna=False).size()
    folds = work.groupby(problem)["fold"].nunique()
    summary = summary.merge(runs.rename("runs").reset_index(), on=[*problem, "size"])
    summary = summary.merge(folds.rename("folds").reset_index(), on=problem)
    # Further seeds may exist for one size only; a fold without any method of a size counts as missing.
    summary["expected"] = summary.pop("runs").clip(lower=summary.pop("folds"))
    summary["complete"] = (summary["n"] == summary["expected"]) & (summary["n"] > 0)
    return summary


def _epoch_seconds(frame: pd.DataFrame) -> pd.Series:
    """Return the seconds per epoch: recorded medians if all networks have one, otherwise the means of all."""
    medians: pd.Series = frame["epoch_seconds"]
    means: pd.Series = frame["train_seconds"] / frame["epochs"].where(frame["epochs"] > 0)
    return medians if medians.notna().all() else means


def all_sizes(summary: pd.DataFrame) -> list[int | None]:
    """Return the sizes in order; None comes first if some methods have no size."""
    return [*([None] if summary["size"].isna().any() else []), *map(int, sorted(summary["size"].dropna().unique()))]


def sizes_of(summary: pd.DataFrame) -> list[int | None]:
    """Return the sizes in order; ``[None]`` if no method has one, and an empty list without rows."""
    sizes = all_sizes(summary)
    return [size for size in sizes if size is not None] or sizes


def name_size(size: int | None) -> str:
    """Return the label of a size in headings and legends."""
    return "no size" if size is None else f"size {size}"


def of_size(size: float | None) -> str:
    """Return the label of a size to append to other words; empty for None and NaN."""
    return "" if size is None or np.isnan(size) else f", size {size:.0f}"


def file_name(kind: str, task: str, size: int | None) -> str:
    """Return the file name of a table or figure of one task and size."""
    return f"{kind}_{task}" + ("" if size is None else f"_size{size}")


def wide_problems(summary: pd.DataFrame, n_sizes: int = _GRID_SIZES) -> list[tuple[str, str]]:
    """Return the data sets and networks with at least `n_sizes` sizes, which are shown as grids of sizes."""
    counts = summary.groupby(["dataset", "network"])["size"].nunique()
    return [(str(dataset), str(network)) for dataset, network in counts[counts >= n_sizes].index]


def rank_intervals(scores: Floats, metric: Score, *, groups: Sequence[str]) -> RankIntervals:
    """Return bootstrap intervals of average ranks, NaN for fewer than `FEWEST_RESAMPLED` data sets.

    `scores` has the shape (n_problems, n_methods), and `groups` the data set of each problem.
    """
    if len(set(groups)) >= FEWEST_RESAMPLED:
        return bootstrap_ranks(scores, groups=groups, lower_is_better=metric.lower_is_better)
    unknown = np.full(scores.shape[1], np.nan)
    return RankIntervals(average_ranks(scores, metric.lower_is_better), unknown, unknown, 1.0 - LEVEL)


@dataclass(frozen=True, eq=False)
class RankTable:
    """Scores of the methods on the complete problems of one task and size, with ranks and tests.

    A problem is a data set with a network. Average ranks, Friedman's test and Nemenyi's critical difference over
    problems are those that papers usually report; problems that share a data set are not independent, though. Tests
    that decide which methods differ are over data sets: relative errors, averaged over the networks of a data set, are
    compared by signed ranks with Holm's correction for all pairs.

    Parameters
    ----------
    task : str
        A key of `SCORES`.
    size : int or None
        The size; None where no method has one.
    methods : list of str
        Methods that are ranked.
    problems : list of (str, str)
        Data set and network of each complete problem.
    scores : ndarray of shape (n_problems, n_methods)
        Means over folds.
    left_out : dict of (str, str) to list of str
        Problems that are not ranked, with the methods that have no complete score in them.
    absent : list of str
        Methods that are not ranked: they have complete scores in less than half of the problems.
    """

    task: str
    size: int | None
    methods: list[str]
    problems: list[tuple[str, str]]
    scores: Floats
    left_out: dict[tuple[str, str], list[str]]
    absent: list[str]

    @property
    def metric(self) -> Score:
        """The score of the task."""
        return SCORES[self.task]

    @property
    def label(self) -> str:
        """Task and size, for headings."""
        return self.task.capitalize() + of_size(self.size)

    @property
    def has_ranks(self) -> bool:
        """Whether at least two methods can be ranked on at least one problem."""
        return len(self.methods) > 1 and len(self.problems) > 0

    @property
    def has_diagram(self) -> bool:
        """Whether there are ranks on at least two problems, which a critical difference needs."""
        return self.has_ranks and len(self.problems) > 1

    @property
    def has_tests(self) -> bool:
        """Whether there are ranks on at least two data sets, which the tests need."""
        return self.has_ranks and len(self.datasets) > 1

    @property
    def why_not(self) -> str:
        """The reason why there are no ranks or tests, as a sentence; empty if there are both."""
        if len(self.methods) < 2:
            n = len(self.methods)
            return f"Ranks need two methods with scores; there {'is' if n == 1 else 'are'} {n or 'none'}."
        if not self.problems:
            return "Ranks need a problem in which every method has all its folds; there is none."
        return "" if self.has_tests else "Tests need two data sets; there is one."

    @property
    def datasets(self) -> list[str]:
        """Data sets of the problems, each once."""
        return list(dict.fromkeys(dataset for dataset, _ in self.problems))

    @cached_property
    def ranks(self) -> Floats:
        """Average ranks, of shape (n_methods,)."""
        return average_ranks(self.scores, self.metric.lower_is_better)

    @cached_property
    def order(self) -> list[int]:
        """Positions of the methods from best to worst average rank."""
        return [int(i) for i in np.argsort(self.ranks, kind="stable")]

    @cached_property
    def problem_test(self) -> FriedmanResult:
        """Friedman's test over problems."""
        return friedman(self.scores)

    @property
    def cd(self) -> float:
        """Nemenyi's critical difference at 0.05 over problems."""
        return critical_difference(len(self.methods), len(self.problems))

    @property
    def problem_groups(self) -> list[tuple[int, ...]]:
        """Groups of methods that do not differ by Nemenyi's test over problems, as positions."""
        return cliques(self.ranks, self.cd)

    @cached_property
    def errors(self) -> Floats:
        """Relative errors, averaged over the networks of each data set, of shape (n_datasets, n_methods)."""
        relative = relative_errors(self.metric.errors(self.scores))
        return average_problems(relative, [dataset for dataset, _ in self.problems])[1]

    @cached_property
    def dataset_ranks(self) -> Floats:
        """Average ranks of the methods by `errors`, of shape (n_methods,): each data set counts once."""
        return average_ranks(self.errors)

    @cached_property
    def test(self) -> FriedmanResult:
        """Friedman's test over data sets."""
        return friedman(self.errors)

    @cached_property
    def pairs(self) -> PairwiseResult:
        """Signed-rank tests of all pairs of methods over data sets, with Holm's correction."""
        return wilcoxon_holm(self.errors)

    @property
    def least_p(self) -> float:
        """The smallest possible adjusted p-value: that of two methods with the same sign on all data sets."""
        n_pairs = len(self.methods) * (len(self.methods) - 1) // 2
        return min(1.0, n_pairs * 2.0 ** (1 - len(self.datasets)))

    @property
    def differ(self) -> npt.NDArray[np.bool_]:
        """Whether each pair of methods differs significantly at 0.05, of shape (n_methods, n_methods)."""
        return np.asarray(self.pairs.adjusted < LEVEL)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Groups of methods without significant differences over data sets, as positions."""
        return pairwise_cliques(self.dataset_ranks, self.differ)

    @cached_property
    def intervals(self) -> RankIntervals:
        """Bootstrap intervals of the average ranks: data sets are resampled, each with all its problems."""
        groups = [dataset for dataset, _ in self.problems]
        return rank_intervals(self.scores, self.metric, groups=groups)

    @property
    def best(self) -> list[str]:
        """Methods that share the best average rank."""
        low = self.ranks.min()
        return [method for method, rank in zip(self.methods, self.ranks, strict=True) if rank == low]

    def worse(self) -> list[str]:
        """Return the methods, best first, that are significantly worse than the best, and than all that tie with it."""
        best = [self.methods.index(name) for name in self.best]
        lost = self.differ & (self.pairs.direction < 0)
        return [self.methods[i] for i in self.order if lost[i, best].all()]

    def not_worse(self) -> list[str]:
        """Return the other methods, best first, that are not significantly worse than the best."""
        rest = {*self.best, *self.worse()}
        return [self.methods[i] for i in self.order if self.methods[i] not in rest]


def rank_table(summary: pd.DataFrame, task: str, *, size: int | None, network: str | None = None) -> RankTable:
    """Return the scores that are ranked for one task and size; methods without a size are part of every size.

    Problems are the data sets and networks that were run at this size; variants of training of one network form one
    problem, with their mean scores, because they are alike. Methods with complete scores in less than half of the
    problems are dropped first, then all problems in which a method has no complete score. The result lists both.

    Parameters
    ----------
    summary : DataFrame
        As `ReportPart.summary`.
    task : str
        The task, ``"regression"`` or ``"classification"``.
    size : int or None
        The size.
    network : str, optional
        Only the problems of this network.
    """
    chosen = (summary["task"] == task) & (summary["size"].isna() | (summary["size"] == size))
    if network is not None:
        chosen &= summary["network"] == network
    part = summary[chosen]
    if size is not None:  # methods without a size also have scores on problems that were not run at this size
        problems_of_size = part[part["size"] == size].set_index(["dataset", "network"]).index
        part = part[part.set_index(["dataset", "network"]).index.isin(problems_of_size)]
    wide = (
        part.assign(mean=part["mean"].where(part["complete"]))
        .drop_duplicates(["dataset", "network", "method"], keep="last")
        .pivot(index=["network", "dataset"], columns="method", values="mean")
        .sort_index()
        .reindex(columns=in_order(part["method"].unique()))
    )
    if network is None:
        networks = wide.index.get_level_values("network").str.partition(VARIANT).get_level_values(0)
        keys = [networks.rename("network"), wide.index.get_level_values("dataset")]
        counts = wide.groupby(keys).count()
        wide = wide.groupby(keys).mean().where(counts == counts.max(axis=1).to_numpy()[:, None])
    # Drop rare methods first; otherwise a single one would drop nearly all problems.
    ranked = (2 * wide.notna().sum() >= len(wide)) & wide.notna().any()
    absent = [str(method) for method in wide.columns[~ranked]]
    wide = wide.loc[:, ranked]
    methods, problems = list(map(str, wide.columns)), [(str(dataset), str(name)) for name, dataset in wide.index]
    left_out = {
        problem: [method for method, is_missing in zip(methods, row, strict=True) if is_missing]
        for problem, row in zip(problems, wide.isna().to_numpy(), strict=True)
        if row.any()
    }
    kept = [problem for problem in problems if problem not in left_out]
    return RankTable(task, size, methods, kept, wide.dropna().to_numpy(dtype=float), left_out, absent)


def in_order(methods: npt.ArrayLike) -> list[str]:
    """Return methods in the order of `METHOD_TABLE`, followed by unknown ones in alphabetical order."""
    places = {method: place for place, method in enumerate(METHOD_TABLE)}
    names = sorted({str(method) for method in np.asarray(methods)})
    return sorted(names, key=lambda name: places.get(name, len(places)))


_NETWORK = ["dataset", "backbone", "variant", "together", "method", "size", "fold"]
"""Columns that identify a network. `tokens` is not one: a backbone has one problem per data set for all its tokens.

Neither is the random seed: a plan with further seeds would change the weights in the means of the first plan."""


@dataclass(frozen=True, eq=False)
class ReportPart:
    """Records that are ranked or plotted together.

    Parameters
    ----------
    kind : {"benchmark", "grid", "times", "traces"}
        Methods on data sets, one data set with many sizes, networks trained to measure times, or networks with stored
        paths of knots or fitted curves.
    plans : tuple of str
        Names of the plans; empty if the records have none.
    frame : DataFrame
        The records, one row for each network, with the columns `network` (backbone, tokens and variant) and `score`
        (NRMSE or AUC).
    """

    kind: str
    plans: tuple[str, ...]
    frame: pd.DataFrame

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means over folds.

        Columns `task dataset network method size mean sd n expected complete seconds epoch parameters`; a `complete`
        method has all folds, `epoch` are seconds per epoch.
        """
        return summarise_folds(self.frame)

    @cached_property
    def tables(self) -> list[RankTable]:
        """The ranks of each task and size."""
        return [
            rank_table(self.summary, task, size=size)
            for task in TASKS
            for size in sizes_of(self.summary[self.summary["task"] == task])
        ]

    @property
    def n_seeds(self) -> int:
        """The largest number of random seeds of a network and fold."""
        return int(seeds_per_fold(self.frame).max())

    @property
    def title(self) -> str:
        """The plans, for headings."""
        return ", ".join(self.plans) or "these records"


def split_records(records: pd.DataFrame, traced: Collection[str] = ()) -> list[ReportPart]:
    """Split records by plan into parts: benchmarks first, and among them the one with the most networks.

    Plans whose names have the same first word before a hyphen, such as ``wine-mlp`` and ``wine-ft``, form one part,
    unless the second has methods that the first does not have, one has more random seeds per fold, or both have the
    same network with a different variant, tokens or random seeds, which would count twice (within one plan, each kind
    of tokens is a problem, and variants share a problem). A plan with networks in `traced`, the keys of those with
    paths of knots or fitted curves, is shown by these; a single data set with four sizes or more is a grid; a single
    data set with networks trained alone measures times, and a plan that trained them in stacks belongs to the same
    part; the others are benchmarks.

    A network that belongs to two plans has two rows. Records without a column `plan` are one plan.
    """
    if "plan" not in records.columns:
        return [_part((), records, traced)]
    names = records["plan"].astype(object).where(records["plan"].notna(), "").astype(str)
    by_plan = sorted(records.groupby(names), key=lambda plan: -len(_distinct(plan[1])))
    groups: list[tuple[list[str], pd.DataFrame]] = []
    for name, rows in by_plan:
        for place, (members, held) in enumerate(groups):
            if _belong_together(members, held, str(name), rows):
                groups[place] = [*members, str(name)], pd.concat([held, rows], ignore_index=True)
                break
        else:
            groups.append(([str(name)], rows))
    parts = [_part([name for name in members if name], held, traced) for members, held in groups]
    return sorted(parts, key=lambda part: (part.kind != "benchmark", -len(_distinct(part.frame))))


def _belong_together(members: Sequence[str], held: pd.DataFrame, name: str, rows: pd.DataFrame) -> bool:
    """Return whether the rows of a plan can be ranked with those of other plans."""
    if name.partition("-")[0] != members[0].partition("-")[0]:
        return False
    if _is_timed(held) or _is_timed(rows):
        return set(held["dataset"]) == set(rows["dataset"])
    if not set(rows["method"]) <= set(held["method"]) or seeds_per_fold(rows).max() != seeds_per_fold(held).max():
        return False
    if "key" not in rows.columns:
        return True
    new = rows[~rows["key"].isin(held["key"])]
    both = [_distinct(part).drop(columns="variant").drop_duplicates() for part in (held, new)]
    return not pd.concat(both).duplicated().any()


def _distinct(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each network, regardless of its random seed."""
    return rows.reindex(columns=_NETWORK).drop_duplicates()


def seeds_per_fold(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the number of random seeds of each network, with its tokens, and fold."""
    columns = [*_NETWORK, "tokens"]
    return rows.reindex(columns=[*columns, "seed"]).groupby(columns, dropna=False)["seed"].nunique()


def _is_timed(rows: pd.DataFrame) -> bool:
    """Return whether networks were trained alone on a single data set, to measure times."""
    if "together" not in rows.columns or rows["dataset"].nunique() > 1:
        return False
    return bool(rows["together"].astype(object).eq(False).any()) and rows["size"].nunique() < _GRID_SIZES


def _part(plans: Sequence[str], records: pd.DataFrame, traced: Collection[str]) -> ReportPart:
    frame = read_records(records)
    is_grid = frame["dataset"].nunique() == 1 and frame["size"].nunique() >= _GRID_SIZES
    rules = {"traces": frame["key"].isin(list(traced)).any(), "times": _is_timed(frame), "grid": is_grid}
    kind = next((kind for kind, holds in rules.items() if holds), "benchmark")
    return ReportPart(kind, tuple(sorted(plans)), frame)
