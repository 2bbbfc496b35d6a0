"""Results, gaps, failures and sources of records in sentences; every number is computed from the records."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from knotwork._writing import between, counted, duration, fixed, percent
from knotwork.basis import FAMILIES
from knotwork.datasets import DATASETS
from knotwork.encoders import METHOD_TABLE
from knotwork.report._aggregate import LEVEL, SCORES, TASKS, RankTable, of_size, seeds_per_fold
from knotwork.report._page import PAGE_LIMITS
from knotwork.report._tables import ReportTable, cell_rows
from knotwork.stats import problem_correlation
from knotwork.study import PROVENANCE


@dataclass(frozen=True)
class Finding:
    """A result: heading, sentences, a short verdict, and the numbers of the tests as details."""

    heading: str
    sentences: list[str]
    verdict: str = ""
    details: list[str] = field(default_factory=list)


def enumerate_words(items: Sequence[str]) -> str:
    """Join items as in a sentence.

    Examples
    --------
    >>> enumerate_words(["a"]), enumerate_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _shortened(items: Sequence[str], most: int) -> list[str]:
    """Return at most `most` items, followed by the number of the others."""
    return [*items[:most], *([f"{len(items) - most} more"] if len(items) > most else [])]


def describe_best(records: pd.DataFrame, reference: str = "Std") -> list[str]:
    """Return sentences on how much less error the best method of each data set has than a reference, by gain.

    Data sets without the reference are left out.
    """
    lines: list[tuple[float, str]] = []
    for task, score in SCORES.items():
        for dataset, part in records[records["task"] == task].groupby("dataset", sort=False):
            means = part.groupby("method")[score.column].mean().dropna()
            if reference not in means:
                continue
            best = str(means.idxmin() if score.lower_is_better else means.idxmax())
            now, before = (fixed(means[name], 3) for name in (best, reference))
            error, base = score.errors(means[[best, reference]].to_numpy())
            gain, change = 1.0 - error / max(base, 1e-300), "lowers" if score.lower_is_better else "raises"
            text = (
                f"On {dataset}, {best} {change} the {score.label} from {before} ({reference}) to {now}: "
                f"{percent(gain, 0)} less error."
            )
            if best == reference:
                gain, text = 0.0, f"On {dataset}, {reference} is best: {score.label} {now}."
            lines.append((gain, text))
    return [line for _, line in sorted(lines, key=lambda pair: -pair[0])]


def lead_sentences(tables: Sequence[RankTable]) -> list[str]:
    """Return a sentence on the methods with the best average ranks by size, and one on significance.

    Both are one sentence if no difference is significant. For several sizes, families are named instead of methods.
    Empty if there are no ranks.
    """
    ranked = [table for table in tables if table.has_ranks]
    if not ranked:
        return []
    sizes = list(dict.fromkeys(table.size for table in ranked))
    groups: dict[tuple[tuple[str, str], ...], list[int | None]] = {}
    for size in sizes:
        of_size = [table for table in ranked if table.size == size]
        names = [_families(table.best) if len(sizes) > 1 else enumerate_words(table.best) for table in of_size]
        by_task = zip((f" for {table.task}" for table in of_size), names, strict=True)
        groups.setdefault((("", names[0]),) if len(set(names)) == 1 else tuple(by_task), []).append(size)
    ordered = sorted(groups.items(), key=lambda group: len(group[0]) > 1)
    clauses = [_clause(names, where, first=i == 0) for i, (names, where) in enumerate(ordered)]
    n_shared = sum(len(names) == 1 for names, _ in ordered)
    shared = [", ".join(clauses[:n_shared])] if n_shared else []
    lead, certainty = "; ".join([*shared, *clauses[n_shared:]]), _certainty(ranked)
    if any(table.has_tests and table.differ.any() for table in ranked):
        return [f"{lead}.", certainty]
    return [f"By average rank, {lead}, but {certainty[0].lower()}{certainty[1:]}"]


def _families(methods: Sequence[str]) -> str:
    """Return the families of methods; the name of a method without a family."""
    names = []
    for method in methods:
        entry = METHOD_TABLE.get(method)
        names.append(FAMILIES[entry.family].label if entry is not None and entry.family in FAMILIES else method)
    return enumerate_words(list(dict.fromkeys(names)))


def _clause(names: Sequence[tuple[str, str]], sizes: Sequence[int | None], *, first: bool) -> str:
    """Return the leaders at some sizes, such as ``at size 15, I-splines for regression and PLE for classification``.

    `names` are pairs of a task and its leader; only the `first` clause has a verb.
    """
    parts = [name + (_verb(name) if first and i == 0 else "") + task for i, (task, name) in enumerate(names)]
    shown = [str(size) for size in sizes if size is not None]
    at = f"at size{'s' if len(shown) > 1 else ''} {enumerate_words(shown)}" if shown else ""
    leaders = enumerate_words(parts)
    return f"{leaders} {at}".rstrip() if first or len(names) == 1 else f"{at}, {leaders}"


def _verb(name: str) -> str:
    return " lead" if name.endswith("splines") or " and " in name else " leads"


def _certainty(tables: Sequence[RankTable]) -> str:
    """Return a sentence on how many methods are not significantly worse than the best ones."""
    tested = [table for table in tables if table.has_tests]
    if not tested:
        return "This cannot be tested for significance: there is only one data set."
    near = [len(table.not_worse()) for table in tested]
    others = max(len(table.methods) for table in tested) - 1
    if not any(table.differ.any() for table in tested):
        return f"No difference between the {others + 1} methods is significant."
    if max(near) == 0:
        return "Each of them is significantly better than all others."
    span = str(near[0]) if min(near) == max(near) else f"{min(near)} to {max(near)}"
    verb = "is" if span == "1" else "are"
    return f"Of the {others} other methods, {span} {verb} not significantly worse, with each data set counted once."


def describe_ranks(table: RankTable) -> Finding:
    """Describe the best average rank, whether methods differ, and which ones are not significantly worse."""
    if not table.has_ranks:
        return Finding(table.label, [table.why_not], "cannot be ranked")
    if len(table.best) == len(table.methods):
        same = fixed(table.ranks.min(), 2)
        text = f"All {len(table.methods)} methods have the same average rank, {same}, {_over(table)}."
        return Finding(table.label, [text, *_outcome(table)], "no difference")
    low = fixed(table.ranks.min(), 2)
    if len(table.best) > 1:
        first = f"{enumerate_words(table.best)} share the best average rank, {low}, {_over(table)}."
    else:
        first = f"{table.best[0]} has the best average rank, {low}{_interval(table)}, {_over(table)}."
    verdict = f"best by rank: {', '.join(table.best)}"
    if table.has_tests and not table.not_worse():
        verdict += ", significantly better than the rest"
    elif table.has_tests and table.differ.any():
        verdict += "; " + counted(len(table.not_worse()), "method") + " not significantly worse"
    elif table.has_tests:
        verdict += "; no significant difference"
    return Finding(table.label, [first, *_outcome(table)], verdict, _numbers(table))


def _over(table: RankTable) -> str:
    return f"among {len(table.methods)} methods over {counted(len(table.problems), 'problem')}"


def _interval(table: RankTable) -> str:
    best = table.order[0]
    if not np.isfinite(table.intervals.low[best]):
        return ""
    return f" (95 % interval {fixed(table.intervals.low[best], 2)} to {fixed(table.intervals.high[best], 2)})"


def _outcome(table: RankTable) -> list[str]:
    """Return sentences on the significance of differences from the best, with each data set counted once."""
    if not table.has_tests:
        return [table.why_not]
    if not table.test.defined:
        return ["All methods tie in every problem, so there is nothing to test: no significant difference."]
    over = counted(len(table.datasets), "data set")
    if not table.differ.any():
        few = f": with {len(table.methods)} methods, {over} are too few for any."
        none = f" between any two methods over {over}."
        return [f"No significant difference{few if table.least_p >= LEVEL else none}"]
    best, near, far = enumerate_words(table.best), table.not_worse(), table.worse()
    if not far:
        return [f"No method is significantly worse than {best} over {over}."]
    if len(far) < len(near):  # the shorter list is easier to read; the details contain both
        rest = f"the other {len(near)} are not"
        return [f"Significantly worse than {best} over {over}: {_with_ranks(table, far)}; {rest}."]
    return [f"No significant difference over {over} between {best} and {_with_ranks(table, near)}."] if near else []


def _numbers(table: RankTable) -> list[str]:
    """Return the test results over data sets and over problems, and the methods that are worse than the best."""
    if not table.has_tests or not table.test.defined:
        return []
    test, problems, k = table.test, table.problem_test, len(table.methods)
    n_pairs, n_differ = k * (k - 1) // 2, int(table.differ.sum()) // 2
    sentences = [
        f"Over {counted(len(table.datasets), 'data set')}: Friedman chi² = {fixed(test.chi2, 1)}, Iman-Davenport F = "
        f"{fixed(test.F, 2)}, p {_p(test.p_F)}. By signed ranks {n_differ} of {n_pairs} pairs differ (Holm, {LEVEL}); "
        f"the smallest p-value possible is {table.least_p:.2g}."
    ]
    best = enumerate_words(table.best)
    if far := table.worse():
        sentences.append(f"Significantly worse than {best}: {_with_ranks(table, far)}.")
    if far and (near := table.not_worse()):
        sentences.append(f"Not significantly worse than {best}: {_with_ranks(table, near)}.")
    sentences.append(
        f"Over {counted(len(table.problems), 'problem')}, as if they were independent: "
        f"Friedman chi² = {fixed(problems.chi2, 1)}, F = {fixed(problems.F, 2)}, p {_p(problems.p_F)}; "
        f"Nemenyi's critical difference is {fixed(table.cd, 2)} at {LEVEL}."
    )
    return sentences


def _with_ranks(table: RankTable, methods: list[str]) -> str:
    ranks = dict(zip(table.methods, table.ranks.tolist(), strict=True))
    return enumerate_words([f"{method} ({fixed(ranks[method], 2)})" for method in methods])


def _p(value: float | None) -> str:
    return "< 0.0001" if value is not None and value < 1e-4 else f"= {fixed(value, 4)}"


def describe_dependence(tables: Sequence[RankTable]) -> list[str]:
    """Describe the similarity of the ranks of several networks on one data set; empty for a single network."""
    similarities: list[float] = []
    specific: list[float] = []
    for table in tables:
        groups = [dataset for dataset, _ in table.problems]
        if table.has_tests and len(table.datasets) < len(groups):
            alike, apart = (problem_correlation(table.scores, groups, without_averages=flag) for flag in (False, True))
            if alike is not None and apart is not None:
                similarities.append(alike)
                specific.append(apart)
    if not similarities:
        return []
    return [
        f"On one data set, the ranks that two backbones give to the methods correlate by "
        f"{between(similarities, 2)} ({between(specific, 2)} without "
        "the average rank of each method), so problems that share a data set are not independent."
    ]


def describe_seeds(frame: pd.DataFrame) -> str:
    """Describe the number of random seeds per fold."""
    counts = seeds_per_fold(frame)
    if counts.max() <= 1:
        return (
            "Each network was trained with one random seed per fold: scores are means over folds, whose networks have "
            "different random seeds."
        )
    n = str(counts.max()) if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    return f"Each network was trained with {n} random seeds per fold: scores are means over folds and random seeds."


def describe_variants(frame: pd.DataFrame) -> str | None:
    """Describe how training variants count in the ranks; None without variants."""
    if frame["variant"].nunique() < 2:
        return None
    return (
        "Variants of training of a network on a data set share a problem, with their mean score: they are no further "
        "evidence on the methods."
    )


def describe_records(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the numbers of networks, failures, data sets, backbones and methods, and the time, with their labels."""
    failed = int((frame["status"] != "ok").sum())
    unscored = int((frame["score"].isna() & (frame["status"] == "ok")).sum())
    numbers = [
        (counted(len(frame)), "networks"),
        (counted(failed), "failed"),
        (counted(frame["dataset"].nunique()), "data sets"),
        (counted(len(frame[["backbone", "tokens"]].drop_duplicates())), "backbones"),
        (counted(frame["method"].nunique()), "methods"),
        (duration(frame["train_seconds"].sum()), "of training"),
    ]
    return [*numbers, (counted(unscored), "without a finite score")] if unscored else numbers


def describe_gaps(tables: Sequence[RankTable], frame: pd.DataFrame) -> list[str]:
    """Return sentences on results that cannot be computed, and on methods and problems that are not ranked."""
    sentences = [f"There are no records of {task}." for task in TASKS if task not in set(frame["task"])]
    reasons: dict[tuple[str, str], list[RankTable]] = {}
    for table in tables:
        if table.why_not:
            reasons.setdefault((table.task, table.why_not), []).append(table)
    for (task, why), alike in reasons.items():
        sizes = enumerate_words([str(table.size) for table in alike])
        label = f"{task.capitalize()}, sizes {sizes}" if len(alike) > 1 else alike[0].label
        sentences.append(f"{label}: {why}")
    for table in tables:
        if table.absent:
            verb = "is" if len(table.absent) == 1 else "are"
            few = "not ranked, with complete scores in less than half of the problems"
            sentences.append(f"{table.label}: {enumerate_words(table.absent)} {verb} {few}.")
        if table.left_out:
            problems = counted(len(table.left_out), "problem")
            sentences.append(f"{table.label}: {problems} left out of the ranks, incomplete: {_left_out(table)}.")
    return sentences


def _left_out(table: RankTable) -> str:
    """Describe the problems that are not ranked, grouped by their missing methods."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for (dataset, network), lacked in table.left_out.items():
        alike.setdefault(tuple(lacked), []).append(f"{dataset} with {network}")
    groups = []
    for methods, problems in alike.items():
        lacking = enumerate_words(methods) if len(methods) <= PAGE_LIMITS.grouped else f"{len(methods)} methods"
        groups.append(f"{enumerate_words(_shortened(problems, PAGE_LIMITS.grouped))} (without {lacking})")
    more = f"; and {len(groups) - PAGE_LIMITS.grouped} more" if len(groups) > PAGE_LIMITS.grouped else ""
    return "; ".join(groups[: PAGE_LIMITS.grouped]) + more


def describe_grid(summary: pd.DataFrame, dataset: str, network: str) -> Finding | None:
    """Describe a data set with many sizes: the best mean score, and the scores of methods without a size."""
    part = summary[(summary["dataset"] == dataset) & (summary["network"] == network) & summary["complete"]]
    if not len(part):
        return None
    metric = SCORES[str(part["task"].iloc[0])]
    ordered = part.sort_values("mean", ascending=metric.lower_is_better, kind="stable")
    shown = [
        fixed(mean, 4) + ("" if pd.isna(sd) else f" ± {fixed(sd, 4)}")
        for mean, sd in zip(ordered["mean"], ordered["sd"], strict=True)
    ]
    first = ordered.iloc[0]
    best = first["method"] + ("" if pd.isna(first["size"]) else f" at size {first['size']:.0f}")
    runs = counted(int(first["n"]), "run")
    sentences = [f"{best} has the best mean {metric.label} of {len(part)} methods and sizes, {shown[0]} over {runs}."]
    is_other = ordered["size"].isna() & (ordered["method"] != first["method"])
    unsized = [f"{ordered['method'].iloc[i]} {shown[i]}" for i in np.flatnonzero(is_other)]
    sentences += [f"Without a size: {enumerate_words(unsized)}."] if unsized else []
    sentences.append(
        "One data set allows no test between methods: differences within the standard deviations mean little."
    )
    return Finding(f"{dataset}, {network}, by size", sentences, f"best by mean: {best}")


def list_sources(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return plans, provenance, stacks and random seeds of the records, each with its number of networks."""
    sources = []
    for column in ("plan", "plan_hash", *PROVENANCE, "host", "stack_size"):
        recorded = frame[column] if column in frame else pd.Series(index=frame.index, dtype=object)
        counts = recorded.astype(object).where(recorded.notna(), "not recorded").astype(str).value_counts()
        shown = [f"{value} ({counted(count, 'network')})" for value, count in counts.items()]
        name = column.removesuffix("_version").replace("_", " ").replace("scikit learn", "scikit-learn")
        only_missing = list(counts.index) == ["not recorded"]
        sources.append((name, "not recorded" if only_missing else "; ".join(_shortened(shown, PAGE_LIMITS.listed))))
    seeds = sorted({str(seed) for seed in frame["seed"].dropna()}, key=lambda seed: (len(seed), seed))
    more = f" and {len(seeds) - PAGE_LIMITS.listed} more" if len(seeds) > PAGE_LIMITS.listed else ""
    return [*sources, ("random seeds", ", ".join(seeds[: PAGE_LIMITS.listed]) + more if seeds else "not recorded")]


def checksum_table(frame: pd.DataFrame) -> ReportTable:
    """Return the SHA-256 of each data set (several if networks saw different data), and its note in the registry."""
    rows = []
    for (task, dataset), part in frame.groupby(["task", "dataset"]):
        sums = sorted({str(value) for value in part["data_sha256"].dropna()})
        deviation = DATASETS[str(dataset)].deviation if str(dataset) in DATASETS else ""
        rows.append([dataset, task, ", ".join(sums) or "not recorded", deviation or "none"])
    caption = (
        "SHA-256 of the data as read (several for one data set mean that not all networks saw the same data), and what "
        "the registry of data sets notes on it."
    )
    return ReportTable("data", "Data", caption, ["data set", "task", "SHA-256", "note"], cell_rows(rows, [0] * 4))


def list_failures(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the failures, grouped by the last line of the error, their `reason`, the most frequent first.

    `count` is their number, `runs` describes the first few; `details` is the first error, truncated if it is long.
    """
    failed = frame[frame["status"] != "ok"]
    errors = failed["error"].astype(object).where(failed["error"].notna(), "").astype(str)
    errors = errors.where(errors.str.strip() != "", "no error was recorded")
    failures = []
    reasons = errors.map(lambda text: text.strip().splitlines()[-1])
    for reason, part in failed.groupby(reasons, sort=False):
        runs = [
            f"{row['dataset']}, {row['network']}, {row['method']}{of_size(row['size'])}, fold {row['fold']}"
            for row in part.head(PAGE_LIMITS.listed).to_dict("records")
        ]
        details = errors[part.index[0]]
        n_cut = len(details) - PAGE_LIMITS.characters
        if n_cut > 0:
            details = f"… {counted(n_cut)} characters left out …\n{details[n_cut:]}"
        failures.append({"reason": str(reason), "count": len(part), "runs": runs, "details": details})
    return sorted(failures, key=lambda failure: -failure["count"])
