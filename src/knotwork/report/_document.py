"""The report: tables, figures and one HTML page from records, and the reading of records from a folder."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from knotwork._checks import argument_error
from knotwork.report._files import ReportFiles
from knotwork.report._pages import page_template
from knotwork.report._parts import split_records
from knotwork.report._sections import (
    benchmark_section,
    comparison_section,
    extra_section,
    grid_section,
    source_section,
    time_section,
    trace_section,
)
from knotwork.report._style import DARK, LIGHT
from knotwork.report._traces import Traces, load_traces
from knotwork.report._words import describe_records
from knotwork.study import load_results
from knotwork.study._manifest import read_manifests

__all__ = ["load_plans", "load_records", "make_report", "report_folder"]


def load_records(folder: Path) -> pd.DataFrame:
    """Read the records of a study, and to which plans each belongs.

    Parameters
    ----------
    folder : Path
        What ``knotwork study run --out`` was given; its records are the Parquet files in ``folder/records``.

    Returns
    -------
    DataFrame
        One row per trained network and plan: a network that serves two plans is there twice, with the name of each in
        the column `plan`. Of plans of the same name the latest counts. If the folder does not say which plans were run
        in it, each network is there once, with the plan that it was trained for.
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


def report_folder(folder: Path, out: Path, *, paper: Path | None = None) -> Path:
    """Write the report of a study, from all that its folder holds; parameters and result as in `make_report`.

    Parameters
    ----------
    folder : Path
        What ``knotwork study run --out`` was given.
    out : Path
        The page to write.
    paper : Path, optional
        A folder with the paper's numbers.
    """
    records = load_records(folder)
    return make_report(records, out, plan=load_plans(folder), paper=paper, traces=load_traces(folder))


def make_report(
    records: pd.DataFrame,
    out: Path,
    *,
    plan: Mapping[str, Any] | None = None,
    paper: Path | None = None,
    traces: Traces | None = None,
) -> Path:
    """Write tables, figures and a page that shows them, from records alone.

    Whatever is missing (methods, folds, a task, times), the report is made, and says what it could not compute. Only
    an empty frame, or one without the columns that tell networks apart, is refused. Records of several plans are shown
    in parts, as `split_records` has them; only those of the largest benchmark are ranked in the main sections.

    Parameters
    ----------
    records : DataFrame
        One row per trained network, as from `load_records` or `knotwork.study.load_results`.
    out : Path
        The page to write; ``tables/`` and ``figures/`` are written beside it.
    plan : mapping, optional
        The plan of the study, shown as it is.
    paper : Path, optional
        A folder with the paper's numbers, ``average_ranks_{task}.csv``, ``quoted_averages.csv`` and
        ``ablation_nrmse.csv``; without it nothing is compared with them.
    traces : Traces, optional
        What the study has kept beside its records, as from `knotwork.report._traces.load_traces`.

    Returns
    -------
    Path
        The page.
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
        main=benchmark_section(benchmarks[0], files, traces) if benchmarks else None,
        grids=[grid_section(part, files) for part in grids],
        times=[time_section(part, ReportFiles(out.parent, f"{part.title}_")) for part in times],
        extras=[extra_section(part, ReportFiles(out.parent, f"{part.title}_")) for part in benchmarks[1:]],
        traces=[trace_section(part, traces, files) for part in traced_parts if traces is not None],
        paper=comparison_section(parts, files, paper=paper),
        provenance=source_section(frame, plan, files),
        light=LIGHT,
        dark=DARK,
        knotwork_version=version("knotwork"),
    )
    out.write_text(page, encoding="utf-8")
    return out


def _once(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all parts, a network that several plans share only once."""
    frame = pd.concat(frames, ignore_index=True)
    return frame[frame["key"].isna() | ~frame["key"].duplicated()].reset_index(drop=True)
