"""The report: tables, figures and one HTML page from records, and the reading of records from a folder."""

import json
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from knotwork.checks import argument_error
from knotwork.report.aggregate import (
    TASKS,
    RankTable,
    rank_table,
    read_records,
    sizes_of,
    summarise_folds,
    wide_blocks,
)
from knotwork.report.comparison import compare_ablation, compare_ranks
from knotwork.report.cost_tables import complexity_table, overhead_table, time_table
from knotwork.report.pictures import (
    Picture,
    cd_picture,
    cost_picture,
    grid_picture,
    heatmap_picture,
    paper_picture,
    size_picture,
    time_picture,
)
from knotwork.report.provenance import checksum_table, list_failures, list_sources
from knotwork.report.result_tables import (
    average_rank_table,
    browse_table,
    dataset_table,
    detail_table,
    grid_table,
    suited_table,
    win_table,
)
from knotwork.report.style import DARK, LIGHT, dark_svg, inline_svg, svg_text
from knotwork.report.tables import Table
from knotwork.report.words import describe_costs, describe_gaps, describe_grids, describe_ranks, describe_records

__all__ = ["load_plans", "load_records", "make_report"]

_MOST_GRIDS = 4
"""Data sets with many sizes that the page shows; all of them are in the tables."""


def load_records(folder: Path) -> pd.DataFrame:
    """Read the records of a study: through `knotwork.study.load_results` where there is one, or file by file.

    Parameters
    ----------
    folder : Path
        What ``knotwork study run --out`` was given; its records are the Parquet files in ``folder/records``.

    Returns
    -------
    DataFrame
        One row per trained network.
    """
    files = sorted((Path(folder) / "records").glob("*.parquet"))
    if not files:
        raise argument_error(
            "folder", "have Parquet files in its folder 'records'", str(folder), "Run 'knotwork study run' first."
        )
    study = vars(import_module("knotwork.study"))
    if "load_results" in study:
        records: pd.DataFrame = study["load_results"](folder)
        return records
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def load_plans(folder: Path) -> dict[str, Any] | None:
    """Read what a study wrote of its plans into ``folder/plans``, without the lists of networks; None if nothing.

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


def make_report(
    records: pd.DataFrame,
    out: Path,
    *,
    plan: Mapping[str, Any] | None = None,
    paper: Path | None = None,
) -> Path:
    """Write tables, figures and a page that shows them, from records alone.

    Whatever is missing (methods, folds, a task, times), the report is made, and says what it could not compute. Only
    an empty frame, or one without the columns that tell networks apart, is refused.

    Parameters
    ----------
    records : DataFrame
        One row per trained network, as from `knotwork.study.load_results`.
    out : Path
        The page to write; ``tables/`` and ``figures/`` are written beside it.
    plan : mapping, optional
        The plan of the study, shown as it is.
    paper : Path, optional
        A folder with the paper's numbers, ``average_ranks_{task}.csv`` and ``ablation_nrmse.csv``; without it nothing
        is compared with them.

    Returns
    -------
    Path
        The page.
    """
    if len(records) == 0:
        raise argument_error("records", "have at least one row", records.shape)
    frame = read_records(records)
    summary = summarise_folds(frame)
    tables = [
        rank_table(summary, task, size=size) for task in TASKS for size in sizes_of(summary[summary["task"] == task])
    ]
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    files = _Files(out.parent)
    page = _template().render(
        _findings(frame, summary, tables)
        | _ranks(summary, tables, files)
        | _sizes(summary, tables, files)
        | _scores(summary, files)
        | _costs(summary, tables, files)
        | _comparison(summary, tables, files, paper=paper)
        | _sources(frame, plan, files)
        | {"light": LIGHT, "dark": DARK, "knotwork_version": version("knotwork")}
    )
    out.write_text(page, encoding="utf-8")
    return out


class _Files:
    """Writes tables and figures beside the page, and gives back what the page shows of them."""

    def __init__(self, folder: Path) -> None:
        self.tables, self.figures = folder / "tables", folder / "figures"
        for path in (self.tables, self.figures):
            path.mkdir(exist_ok=True)

    def table(self, table: Table) -> Table:
        """Write a table as Markdown, LaTeX and CSV."""
        for ending, text in (("md", table.to_markdown()), ("tex", table.to_latex()), ("csv", table.to_csv())):
            (self.tables / f"{_safe(table.name)}.{ending}").write_text(text, encoding="utf-8")
        return table

    def picture(self, picture: Picture | None) -> dict[str, Any] | None:
        """Write a figure as SVG, light and dark, and as PDF."""
        if picture is None:
            return None
        name = _safe(picture.name)
        text = svg_text(picture.figure)
        (self.figures / f"{name}.svg").write_text(text, encoding="utf-8")
        (self.figures / f"{name}_dark.svg").write_text(dark_svg(text), encoding="utf-8")
        picture.figure.savefig(self.figures / f"{name}.pdf", metadata={"CreationDate": None})
        svg = inline_svg(text, name, label=picture.label, titles=picture.titles)
        return {"name": name, "svg": Markup(svg), "caption": picture.caption, "label": picture.label}

    def pictures(self, pictures: Iterable[Picture | None]) -> list[dict[str, Any]]:
        """Write the figures that there are."""
        return [shown for picture in pictures if (shown := self.picture(picture))]


def _safe(name: str) -> str:
    """Return a name that can be a file's and an id."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _whole(text: str) -> Markup:
    """Return text in which names with hyphens are not broken over lines."""
    return Markup(re.sub(r"[\w.]+(?:-\w+)+", r'<i class="w">\g<0></i>', str(escape(text))))


def _template() -> Any:
    loader = PackageLoader("knotwork.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["whole"] = _whole
    return environment.get_template("report.html.j2")


def _findings(frame: pd.DataFrame, summary: pd.DataFrame, tables: list[RankTable]) -> dict[str, Any]:
    """Return the summary in words."""
    return {
        "numbers": describe_records(frame),
        "findings": [*describe_grids(summary, wide_blocks(summary)[:_MOST_GRIDS]), *map(describe_ranks, tables)],
        "gaps": describe_gaps(tables, frame),
    }


def _ranks(summary: pd.DataFrame, tables: list[RankTable], files: _Files) -> dict[str, Any]:
    """Return ranks by task: average ranks, diagrams, details, wins, heatmaps."""
    tasks = []
    for task in TASKS:
        own = [table for table in tables if table.task == task and table.has_ranks]
        sections = [
            {
                "table": table,
                "diagram": files.picture(cd_picture(table)) if table.has_tests else None,
                "detail": files.table(detail_table(table)),
                "wins": files.table(win_table(table)),
            }
            for table in own
        ]
        if own:
            tasks.append({
                "task": task,
                "average": files.table(average_rank_table(own)),
                "sections": sections,
                "heatmap": files.picture(heatmap_picture(summary, task)),
            })  # fmt: skip
    return {"tasks": tasks, "suited": files.table(suited_table(summary))}


def _sizes(summary: pd.DataFrame, tables: list[RankTable], files: _Files) -> dict[str, Any]:
    """Return curves over sizes, and grids where a data set and network has many sizes."""
    curves = files.pictures(size_picture([table for table in tables if table.task == task]) for task in TASKS)
    wide = wide_blocks(summary)
    grids = []
    for place, (dataset, network) in enumerate(wide):
        table = files.table(grid_table(summary, dataset, network=network))
        if place < _MOST_GRIDS:
            grids.append((table, files.picture(grid_picture(summary, dataset, network=network))))
    return {"curves": curves, "grids": grids, "n_more_grids": max(0, len(wide) - _MOST_GRIDS)}


def _scores(summary: pd.DataFrame, files: _Files) -> dict[str, Any]:
    """Return the table of all scores; those of each task and size are written to files."""
    for task in TASKS:
        for size in sizes_of(summary[summary["task"] == task]):
            files.table(dataset_table(summary, task, size=size))
    return {"scores": files.table(browse_table(summary))}


def _costs(summary: pd.DataFrame, tables: list[RankTable], files: _Files) -> dict[str, Any]:
    """Return what methods cost, and what they give for it."""
    return {
        "cost_words": describe_costs(summary),
        "cost_pictures": files.pictures(cost_picture(summary, table) for table in tables if table.has_ranks),
        "times": files.table(time_table(summary)),
        "times_picture": files.picture(time_picture(summary)),
        "overhead": files.table(overhead_table(summary)),
        "complexity": files.table(complexity_table()),
    }


def _comparison(summary: pd.DataFrame, tables: list[RankTable], files: _Files, *, paper: Path | None) -> dict[str, Any]:
    """Return our numbers beside the paper's."""
    names = {**{task: f"average_ranks_{task}.csv" for task in TASKS}, "ablation": "ablation_nrmse.csv"}
    paths = {} if paper is None else {name: Path(paper) / file for name, file in names.items()}
    theirs = {name: pd.read_csv(path) for name, path in paths.items() if path.exists()}
    found = compare_ranks(tables, theirs)
    if "ablation" in theirs:
        found += compare_ablation(summary, theirs["ablation"])
    for comparison in found:
        files.table(comparison.table)
    if found:
        why = ""
    elif theirs:
        why = "Nothing in these records has a counterpart among the paper's numbers."
    else:
        why = "The paper's numbers were not given, so nothing is compared with them."
    diagrams = files.pictures(
        paper_picture(theirs[table.task], table.task, size=table.size)
        for table in tables
        if table.task in theirs and table.has_tests and table.size is not None
    )
    return {"comparisons": found, "no_comparison": why, "paper_pictures": diagrams}


def _sources(frame: pd.DataFrame, plan: Mapping[str, Any] | None, files: _Files) -> dict[str, Any]:
    """Return where the numbers come from."""
    return {
        "sources": list_sources(frame),
        "plan": None if plan is None else json.dumps(plan, indent=2, default=str, ensure_ascii=False),
        "checksums": files.table(checksum_table(frame)),
        "failures": list_failures(frame),
    }
