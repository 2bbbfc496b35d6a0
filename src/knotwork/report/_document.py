"""The report: tables, figures and one HTML page from records, and the reading of records from a folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from knotwork._checks import argument_error
from knotwork._files import write_atomically
from knotwork.report._advice import BUDGETS, advice_table, advise
from knotwork.report._aggregate import TASKS, Part, RankTable, sizes_of, split_records, summarise_folds, wide_blocks
from knotwork.report._costs import (
    complexity_table,
    describe_ratios,
    describe_stacks,
    overhead_table,
    ratio_table,
    ratios_of,
    stack_table,
    time_table,
)
from knotwork.report._page import ReportFiles, Section, page_template
from knotwork.report._pictures import (
    cd_picture,
    cost_picture,
    grid_picture,
    heatmap_picture,
    score_picture,
    size_picture,
    time_picture,
)
from knotwork.report._style import DARK, LIGHT
from knotwork.report._tables import (
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
    load_traces,
    scatter_picture,
)
from knotwork.report._words import (
    checksum_table,
    describe_gaps,
    describe_grids,
    describe_ranks,
    describe_records,
    list_failures,
    list_sources,
)
from knotwork.study import load_results
from knotwork.study._manifest import read_manifests

__all__ = ["load_plans", "load_records", "make_report", "report_folder"]

_MOST_GRIDS = 4
"""Data sets with many sizes that the page shows; all of them are written to tables."""

Shown = dict[str, Any]

SectionMaker = Callable[[Sequence[Part]], Section | None]
"""Makes a further section of a report from its parts; None leaves it out."""


def load_records(folder: Path) -> pd.DataFrame:
    """Read the records of a study, and to which plans each belongs.

    Parameters
    ----------
    folder : Path
        The folder of the study, as in ``knotwork study run --out``; its records are the Parquet files in
        ``folder/records``.

    Returns
    -------
    DataFrame
        One row per trained network and plan: a network that belongs to two plans has two rows, with the name of each
        plan in the column `plan`. Of plans of the same name the latest counts. If the folder does not name its plans,
        each network has one row, with the plan that it was trained for.
    """
    if not any((Path(folder) / "records").glob("*.parquet")):
        raise argument_error(
            "folder", "have Parquet files in its folder 'records'", str(folder), "Run 'knotwork study run' first."
        )
    hashes = {content["plan"]: content["plan_hash"] for content in read_manifests(Path(folder))}
    if not hashes:
        return load_results(folder)
    return pd.concat([load_results(folder, plan_hash).assign(plan=name) for name, plan_hash in hashes.items()])


def load_plans(folder: Path) -> dict[str, Any] | None:
    """Read the plans that a study wrote into ``folder/plans``, without the lists of networks; None if there is none.

    Parameters
    ----------
    folder : Path
        As in `load_records`.
    """
    plans = {}
    for path in sorted((Path(folder) / "plans").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        plans[path.stem] = {name: value for name, value in content.items() if name != "networks"}
    return plans or None


def report_folder(folder: Path, out: Path, *, sections: Sequence[SectionMaker] = ()) -> Path:
    """Write the report of a study from the records, plans and traces in its folder, as `make_report` does.

    Parameters
    ----------
    folder : Path
        The folder of the study.
    out : Path
        The page to write.
    sections : sequence of callable, default=()
        Makers of further sections, as in `make_report`.

    Returns
    -------
    Path
        The page.
    """
    records = load_records(folder)
    return make_report(records, out, plan=load_plans(folder), traces=load_traces(folder), sections=sections)


def make_report(
    records: pd.DataFrame,
    out: Path,
    *,
    plan: Mapping[str, Any] | None = None,
    traces: Traces | None = None,
    sections: Sequence[SectionMaker] = (),
) -> Path:
    """Write tables, figures and a page that shows them, from records alone.

    If methods, folds, a task or times are missing, the report is made all the same, and says what it could not
    compute. Only an empty frame, or one without the columns that identify a network, is refused. Records of several
    plans are shown in parts; only those of the largest benchmark are ranked in the main sections.

    Parameters
    ----------
    records : DataFrame
        One row per trained network, as from `load_records` or `knotwork.study.load_results`.
    out : Path
        The page to write; ``tables/`` and ``figures/`` are written beside it.
    plan : mapping, optional
        The plan of the study, shown as it is.
    traces : Traces, optional
        Histories, paths of knots and fitted curves, as from `load_traces`.
    sections : sequence of callable, default=()
        Makers of further sections. Each is called with the parts of the report, a list of `Part`, the largest
        benchmark first, and returns a `Section`, or None if it has nothing to show.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    A section that counts the networks of each part::

        def count(parts):
            return Section("Networks", [f"{part.title}: {len(part.frame):,}." for part in parts], name="networks")

        make_report(load_records("results"), "results/report.html", sections=[count])
    """
    if len(records) == 0:
        raise argument_error("records", "have at least one row", records.shape)
    traced = set() if traces is None else {*traces.knots["key"].unique(), *traces.curves["key"].unique()}
    parts = split_records(records, traced)
    benchmarks, grids, times, traced_parts = (
        [part for part in parts if part.kind == kind] for kind in ("benchmark", "grid", "times", "traces")
    )
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    files = ReportFiles(out.parent)
    frame = _once([part.frame for part in parts])
    page = page_template("report.html.j2").render(
        numbers=describe_records(frame),
        main=_benchmark_section(benchmarks[0], files, traces) if benchmarks else None,
        grids=[_grid_section(part, files) for part in grids],
        times=[_time_section(part, ReportFiles(out.parent, f"{part.title}_")) for part in times],
        extras=[_extra_section(part, ReportFiles(out.parent, f"{part.title}_")) for part in benchmarks[1:]],
        traces=[_trace_section(part, traces, files) for part in traced_parts if traces is not None],
        sections=[files.section(section) for make in sections if (section := make(parts)) is not None],
        provenance=_source_section(frame, plan, files),
        light=LIGHT,
        dark=DARK,
        knotwork_version=version("knotwork"),
    )
    write_atomically(out, lambda file: file.write(page.encode()))
    return out


def _once(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all parts, a network that several plans share only once."""
    frame = pd.concat(frames, ignore_index=True)
    return frame[frame["key"].isna() | ~frame["key"].duplicated()].reset_index(drop=True)


def _benchmark_section(part: Part, files: ReportFiles, traces: Traces | None) -> Shown:
    """Return the main benchmark: ranks, heatmaps, sizes, scores, costs and recommendations."""
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
        ranked = [table for table in tables if table.task == task and table.has_ranks]
        if ranked:
            sections = [
                {
                    "table": table,
                    "diagram": files.picture(cd_picture(table)) if table.has_tests else None,
                    "detail": files.table(detail_table(table)),
                    "wins": files.table(win_table(table)),
                }
                for table in ranked
            ]
            heatmaps = files.pictures(heatmap_picture(summary, task, of=of) for of in ("rank", "score"))
            average = files.table(average_rank_table(ranked))
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


def _grid_section(part: Part, files: ReportFiles) -> Shown:
    """Return one data set with many sizes: its curves and its table."""
    findings = describe_grids(part.summary, wide_blocks(part.summary))
    data = files.picture(scatter_picture(part.frame))
    return {"title": part.title, "findings": findings, "data": data, "grids": _grids(part.summary, files)}


def _trace_section(part: Part, traces: Traces, files: ReportFiles) -> Shown:
    """Return the networks whose fitted curves or paths of knots were kept."""
    fits = fit_picture(part.frame, traces.curves)
    return {
        "title": part.title,
        "words": describe_knots(part.frame, traces.knots),
        "pictures": files.pictures([fits, *knot_pictures(part.frame, traces.knots)]),
        "scores": _scores(part.summary, files),
    }


def _time_section(part: Part, files: ReportFiles) -> Shown:
    """Return the networks that were trained alone to measure times, and the same ones in stacks."""
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
        "scores": _scores(part.summary, files),
    }


def _extra_section(part: Part, files: ReportFiles) -> Shown:
    """Return a benchmark beside the main one, in short: results, ranks, and all scores."""
    tables = part.tables
    return {
        "title": part.title,
        "n": len(part.frame),
        "findings": [describe_ranks(table) for table in tables],
        "gaps": describe_gaps(tables, part.frame),
        "tasks": _ranks(part.summary, tables, files),
        "scores": _scores(part.summary, files),
    }


def _source_section(frame: pd.DataFrame, plan: Mapping[str, Any] | None, files: ReportFiles) -> Shown:
    """Return the sources of the numbers, and the failures."""
    return {
        "sources": list_sources(frame),
        "plan": None if plan is None else json.dumps(plan, indent=2, default=str, ensure_ascii=False),
        "checksums": files.table(checksum_table(frame)),
        "failures": list_failures(frame),
        "complexity": files.table(complexity_table()),
    }
