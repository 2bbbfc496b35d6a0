"""The sections of a report: each writes its tables and figures, and returns what the page shows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from knotwork.report._advice import BUDGETS, advice_table, advise
from knotwork.report._aggregate import TASKS, RankTable, sizes_of, summarise_folds, wide_blocks
from knotwork.report._comparison import (
    agreement_table,
    compare_ablation,
    compare_averages,
    compare_ranks,
    describe_agreement,
)
from knotwork.report._cost_tables import complexity_table, overhead_table, time_table
from knotwork.report._efficiency import describe_ratios, describe_stacks, ratio_table, ratios_of, stack_table
from knotwork.report._files import ReportFiles
from knotwork.report._parts import Part
from knotwork.report._pictures import (
    agreement_picture,
    cd_picture,
    cost_picture,
    grid_picture,
    heatmap_picture,
    paper_picture,
    score_picture,
    size_picture,
    time_picture,
)
from knotwork.report._provenance import checksum_table, list_failures, list_sources
from knotwork.report._result_tables import (
    average_rank_table,
    browse_table,
    dataset_table,
    detail_table,
    grid_table,
    win_table,
)
from knotwork.report._traces import (
    Traces,
    describe_knots,
    fit_picture,
    knot_pictures,
    learning_picture,
    scatter_picture,
)
from knotwork.report._words import describe_gaps, describe_grids, describe_ranks

__all__ = [
    "benchmark_section",
    "comparison_section",
    "extra_section",
    "grid_section",
    "source_section",
    "time_section",
    "trace_section",
]

_MOST_GRIDS = 4
"""Data sets with many sizes that the page shows; all of them are in the tables."""

Shown = dict[str, Any]


def benchmark_section(part: Part, files: ReportFiles, traces: Traces | None) -> Shown:
    """Return the main benchmark: ranks, heatmaps, sizes, scores, costs, and what to start with."""
    summary, tables = part.summary, part.tables
    stacked = part.frame["together"].astype(object).eq(True)
    return {
        "plans": part.plans,
        "findings": [describe_ranks(table) for table in tables],
        "gaps": describe_gaps(tables, part.frame),
        "tasks": _ranks(summary, tables, files),
        "advice": files.table(advice_table(advise(summary))),
        "budgets": BUDGETS,
        "curves": files.pictures(size_picture([table for table in tables if table.task == task]) for task in TASKS),
        "grids": _grids(summary, files),
        "learning": files.pictures(
            learning_picture(part.frame, traces.histories, task) for task in TASKS if traces is not None
        ),
        "dots": files.picture(score_picture(summary)),
        "scores": _scores(summary, files),
        "stacked": bool(stacked.any()),
        "cost_words": [] if stacked.all() else describe_ratios(ratios_of(part.frame)),
        "cost_pictures": files.pictures(cost_picture(summary, table) for table in tables if table.has_ranks),
        "times": files.table(time_table(summary)),
        "times_picture": files.picture(time_picture(summary)),
        "overhead": files.table(overhead_table(summary)),
    }


def _ranks(summary: pd.DataFrame, tables: Sequence[RankTable], files: ReportFiles) -> list[Shown]:
    """Return ranks by task: average ranks, diagrams, details, wins, heatmaps."""
    shown = []
    for task in TASKS:
        own = [table for table in tables if table.task == task and table.has_ranks]
        if own:
            sections = [
                {
                    "table": table,
                    "diagram": files.picture(cd_picture(table)) if table.has_tests else None,
                    "detail": files.table(detail_table(table)),
                    "wins": files.table(win_table(table)),
                }
                for table in own
            ]
            heatmaps = files.pictures(heatmap_picture(summary, task, of=of) for of in ("rank", "score"))
            average = files.table(average_rank_table(own))
            shown.append({"task": task, "average": average, "sections": sections, "heatmaps": heatmaps})
    return shown


def _grids(summary: pd.DataFrame, files: ReportFiles) -> Shown:
    """Return scores by size of the data sets and networks with many sizes."""
    wide, grids = wide_blocks(summary), []
    for place, (dataset, network) in enumerate(wide):
        table = files.table(grid_table(summary, dataset, network=network))
        if place < _MOST_GRIDS:
            grids.append((table, files.picture(grid_picture(summary, dataset, network=network))))
    return {"shown": grids, "n_more": max(0, len(wide) - _MOST_GRIDS)}


def _scores(summary: pd.DataFrame, files: ReportFiles) -> Any:
    """Return the table of all scores; those of each task and size are written to files."""
    for task in TASKS:
        for size in sizes_of(summary[summary["task"] == task]):
            files.table(dataset_table(summary, task, size=size))
    return files.table(browse_table(summary))


def grid_section(part: Part, files: ReportFiles) -> Shown:
    """Return one data set with many sizes: its curves and its table."""
    findings = describe_grids(part.summary, wide_blocks(part.summary))
    data = files.picture(scatter_picture(part.frame))
    return {"title": part.title, "findings": findings, "data": data, "grids": _grids(part.summary, files)}


def trace_section(part: Part, traces: Traces, files: ReportFiles) -> Shown:
    """Return networks that were trained for what is kept of them: fitted curves, and the paths of knots."""
    fits = fit_picture(part.frame, traces.curves)
    return {
        "title": part.title,
        "words": describe_knots(part.frame, traces.knots),
        "pictures": files.pictures([fits, *knot_pictures(part.frame, traces.knots)]),
        "scores": _scores(part.summary, files),
    }


def time_section(part: Part, files: ReportFiles) -> Shown:
    """Return networks that were trained for their times."""
    pairs = ratios_of(part.frame)
    alone = part.frame[part.frame["together"].astype(object).ne(True)]
    summary = summarise_folds(alone) if len(alone) else part.summary
    words = [*describe_ratios(pairs), *describe_stacks(part.frame)]
    return {
        "title": part.title,
        "datasets": sorted(part.frame["dataset"].unique()),
        "words": words,
        "picture": files.picture(time_picture(summary)),
        "ratios": files.table(ratio_table(pairs)),
        "stacks": files.table(stack_table(part.frame)),
        "times": files.table(time_table(part.summary)),
        "overhead": files.table(overhead_table(part.summary)),
    }


def extra_section(part: Part, files: ReportFiles) -> Shown:
    """Return a benchmark beside the main one, in short: what was found, ranks, and all scores."""
    tables = part.tables
    return {
        "title": part.title,
        "n": len(part.frame),
        "findings": [describe_ranks(table) for table in tables],
        "gaps": describe_gaps(tables, part.frame),
        "tasks": _ranks(part.summary, tables, files),
        "scores": _scores(part.summary, files),
    }


def comparison_section(parts: Sequence[Part], files: ReportFiles, *, paper: Path | None) -> Shown:
    """Return our numbers beside the paper's: ranks and averages of the main benchmark, and the ablation."""
    names = {**{task: f"average_ranks_{task}.csv" for task in TASKS}, "ablation": "ablation_nrmse.csv",
             "averages": "quoted_averages.csv"}  # fmt: skip
    paths = {} if paper is None else {name: Path(paper) / file for name, file in names.items()}
    theirs = {name: pd.read_csv(path) for name, path in paths.items() if path.exists()}
    main = next((part for part in parts if part.kind == "benchmark"), None)
    ranks = [] if main is None else compare_ranks(main.summary, main.tables, theirs)
    others = []
    if main is not None and "averages" in theirs:
        others += compare_averages(main.summary, theirs["averages"])
    if "ablation" in theirs:
        grids = [part for part in parts if part.kind != "traces"]
        others += [each for part in grids for each in compare_ablation(part.summary, theirs["ablation"])]
    if ranks or others:
        why = ""
    elif theirs:
        why = "Nothing in these records has a counterpart among the paper's numbers."
    else:
        why = "The paper's numbers were not given, so nothing is compared with them."
    for each in others:
        files.table(each.table)
    own = [files.table(each.as_table()) for each in ranks]
    return {
        "no_comparison": why,
        "words": describe_agreement(ranks),
        "agreement": files.table(agreement_table(ranks)) if ranks else None,
        "agreement_picture": files.picture(agreement_picture(ranks)),
        "ranks": [table for table, each in zip(own, ranks, strict=True) if each.network is None],
        "others": others,
        "diagrams": files.pictures(
            paper_picture(theirs[each.table.task], each.table.task, size=int(each.table.size or 0))
            for each in ranks
            if each.network is None
        ),
    }


def source_section(frame: pd.DataFrame, plan: Mapping[str, Any] | None, files: ReportFiles) -> Shown:
    """Return where the numbers come from, and what failed."""
    return {
        "sources": list_sources(frame),
        "plan": None if plan is None else json.dumps(plan, indent=2, default=str, ensure_ascii=False),
        "checksums": files.table(checksum_table(frame)),
        "failures": list_failures(frame),
        "complexity": files.table(complexity_table()),
    }
