"""The report: tables, figures and an HTML page from the records in a folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from knotwork._checks import argument_error
from knotwork._look import LIGHT
from knotwork._writing import counted, script
from knotwork.report import _costs, _figures, _tables, _traces, _words
from knotwork.report._aggregate import (
    TASKS,
    RankTable,
    ReportPart,
    in_order,
    split_records,
    summarise_folds,
    wide_problems,
)
from knotwork.report._page import PAGE_LIMITS, Content, Picture, ReportFiles, Section, page_template
from knotwork.report._style import method_colour
from knotwork.report._tables import ReportTable
from knotwork.report._traces import Traces, load_traces
from knotwork.study import load_results, read_manifests, with_known

SectionMaker = Callable[[Sequence[ReportPart]], Section | None]
"""Makes a further section of a report from its parts, or returns None."""


def load_records(folder: Path) -> pd.DataFrame:
    """Read the records of a study with the plans of each.

    Parameters
    ----------
    folder : Path
        The folder of the study, as in ``knotwork study run --out``; its records are the Parquet files in
        ``folder/records``.

    Returns
    -------
    DataFrame
        One row per trained network and plan: a network that belongs to two plans has two rows, with the name of each
        plan in the column `plan`. If several plans have the same name, the latest is used. If the folder has no list of
        plans, each network has one row, with the plan that it was trained for. Provenance missing from records of
        earlier versions is read from the file ``provenance.toml`` in the folder, if it exists.
    """
    if not any((Path(folder) / "records").glob("*.parquet")):
        raise argument_error(
            "folder", "have Parquet files in its folder 'records'", str(folder), "Run 'knotwork study run' first."
        )
    hashes = {content["plan"]: content["plan_hash"] for content in read_manifests(Path(folder))}
    if not hashes:
        return with_known(load_results(folder), Path(folder))
    # The provenance file refers to the plan that a network was trained for; other plans may share the network.
    by_plan = {name: with_known(load_results(folder, plan_hash), Path(folder)) for name, plan_hash in hashes.items()}
    return pd.concat([frame.assign(plan=name) for name, frame in by_plan.items()], ignore_index=True)


def load_plans(folder: Path) -> dict[str, Any] | None:
    """Read the plans of a study in ``folder/plans``, without networks and definitions; None if there is none.

    Parameters
    ----------
    folder : Path
        As in `load_records`.
    """
    plans = {
        content["plan_hash"][:20]: {
            name: value for name, value in content.items() if name not in ("networks", "definition")
        }
        for content in read_manifests(Path(folder))
    }
    return dict(sorted(plans.items())) or None


def report_folder(folder: Path, out: Path, *, sections: Sequence[SectionMaker] = ()) -> Path:
    """Write the report of a study from the records, plans and traces in its folder, as `make_report` does.

    Parameters
    ----------
    folder : Path
        The folder of the study.
    out : Path
        The page to write.
    sections : sequence of callable, default=()
        Functions that return further sections, as in `make_report`.

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

    If methods, folds, a task or times are missing, the report lists the results that cannot be computed. Only an empty
    frame, or one without the columns that identify a network, is an error. Records of several plans are shown in parts;
    only those of the largest benchmark are ranked in the main sections.

    Parameters
    ----------
    records : DataFrame
        One row per trained network, as from `load_records` or `knotwork.study.load_results`.
    out : Path
        The page to write; ``tables/`` and ``figures/`` are written to the same folder.
    plan : mapping, optional
        The plan of the study, shown unchanged.
    traces : Traces, optional
        Histories, paths of knots and fitted curves, as from `load_traces`.
    sections : sequence of callable, default=()
        Functions that return further sections. Each is called with the parts of the report, a list of `ReportPart`, the
        largest benchmark first, and returns a `Section`, or None if it has nothing to show.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    A section that counts the networks of each part::

        def count(parts):
            return Section("Networks", [f"{part.title}: {len(part.frame)}." for part in parts], name="networks")

        make_report(load_records("results"), "results/report.html", sections=[count])
    """
    if len(records) == 0:
        raise argument_error("records", "have at least one row", records.shape)
    traced = set() if traces is None else {*traces.knots["key"].unique(), *traces.curves["key"].unique()}
    parts = split_records(records, traced)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    frame = _without_repeats([part.frame for part in parts])
    main = next((part for part in parts if part.kind == "benchmark"), None)
    further = [section for make in sections if (section := make(parts)) is not None]
    files = ReportFiles(out.parent)
    page = page_template("report.html.j2").render(
        opening=files.section(_opening(parts, traces)),
        numbers=_words.describe_records(frame),
        summary=files.section(_summary(main, [part for part in parts if part.kind == "grid"])),
        methods=[(method, _colour_name(method)) for method in in_order(frame["method"].unique())],
        sections=[
            *_sections(parts, files, traces),
            *(files.section(replace(section, name=section.name or section.title)) for section in further),
        ],
        provenance={
            "sources": _words.list_sources(frame),
            "plan": None if plan is None else json.dumps(plan, indent=2, default=str, ensure_ascii=False),
            "checksums": files.table(_words.checksum_table(frame)),
            "failures": _words.list_failures(frame),
        },
        budgets=None if main is None else _costs.BUDGET_RULES,
        knotwork_version=version("knotwork"),
        writing=Markup(script()),
    )
    files.write(out, page)
    return out


def _colour_name(method: str) -> str:
    """Return the name of a method's colour in the style of the page."""
    colour = method_colour(method, LIGHT)
    return {value: name for name, value in vars(LIGHT).items()}[colour]  # the last one is a colour of data


def _without_repeats(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all parts, without duplicates of networks in several plans."""
    frame = pd.concat(frames, ignore_index=True)
    return frame[frame["key"].isna() | ~frame["key"].duplicated()].reset_index(drop=True)


def _opening(parts: Sequence[ReportPart], traces: Traces | None) -> Section:
    """Return the main result in sentences, the first one prominent, and the figure that shows it."""
    makers = {"benchmark": _open_benchmark, "grid": _open_grid, "times": _open_times}
    for part in parts:
        sentences, picture = makers[part.kind](part) if part.kind in makers else _open_traces(part, traces)
        if sentences:
            # The same figure may occur in another section, so it needs another name.
            return Section("", [*sentences, None if picture is None else replace(picture, name="opening")])
    return Section("", ["These records do not allow a comparison of methods."])


def _open_benchmark(part: ReportPart) -> tuple[list[str], Picture | None]:
    """Return sentences on the best methods (for few data sets also on the largest gain over Std), and a figure.

    What the records prove comes first: significant ranks, or the largest gain.
    """
    sentences = _words.lead_sentences(part.tables)
    scores = _figures.score_picture(part.summary) if sentences else None
    ranks = _figures.lead_picture(part.tables)
    if scores is None:
        return sentences, ranks
    gain = _words.describe_best(part.frame)[:1]
    # Ranks on a few data sets prove nothing: the scores come first.
    is_proven = any(table.has_tests and table.differ.any() for table in part.tables)
    return ([*sentences, *gain], ranks or scores) if is_proven else ([*gain, *sentences], scores)


def _open_grid(part: ReportPart) -> tuple[list[str], Picture | None]:
    for dataset, network in wide_problems(part.summary):
        if finding := _words.describe_grid(part.summary, dataset, network):
            picture = _figures.grid_picture(part.summary, dataset, network=network)
            return [f"On {dataset}, {finding.sentences[0]}", *finding.sentences[1:]], picture
    return [], None


def _open_times(part: ReportPart) -> tuple[list[str], Picture | None]:
    return _costs.describe_ratios(_costs.ratios_of(part.frame)), _costs.time_picture(part.summary)


def _open_traces(part: ReportPart, traces: Traces | None) -> tuple[list[str], Picture | None]:
    if traces is None:
        return [], None
    fits = _traces.fit_picture(part.frame, traces.curves)
    if fits is not None:
        return [fits.caption], fits
    pictures = _traces.knot_pictures(part.frame, traces.knots)
    return _traces.describe_knots(part.frame, traces.knots), pictures[0] if pictures else None


def _summary(main: ReportPart | None, grids: Sequence[ReportPart]) -> Section:
    """Return the results of the main benchmark and of the grids of sizes in sentences."""
    content: list[Content] = []
    if main is None:
        content.append("No plan compares methods over data sets, so nothing is ranked.")
    else:
        content += _results(main)
    for part in grids:
        findings = [_words.describe_grid(part.summary, *problem) for problem in wide_problems(part.summary)]
        content.append(("findings", [finding for finding in findings if finding is not None]))
    return Section("", content)


def _results(part: ReportPart) -> list[Content]:
    """Return the gaps of a benchmark, and the results of its tests."""
    gaps = _words.describe_gaps(part.tables, part.frame)
    gaps += [] if part.summary["epoch"].notna().any() else ["No times are recorded."]
    return [("gaps", gaps), ("findings", [_words.describe_ranks(table) for table in part.tables])]


def _sections(parts: Sequence[ReportPart], files: ReportFiles, traces: Traces | None) -> list[dict[str, Any]]:
    """Make the tables and figures of all parts, and return their sections in the order of the page."""
    benchmarks, grids, times, traced = (
        [part for part in parts if part.kind == kind] for kind in ("benchmark", "grid", "times", "traces")
    )
    sections: list[tuple[str, Section | None]] = [
        ("", section)
        for part in benchmarks[:1]
        for section in (
            _rank_section(part),
            _backbone_section(part),
            _size_section(part),
            _score_section(part),
            _cost_section(part, traces, times),
        )
    ]
    others = [("", _grid_section(part, f"grid-{i}")) for i, part in enumerate(grids, 1)]
    others += [(f"{part.title}_", _time_section(part, f"times-{i}")) for i, part in enumerate(times, 1)]
    if traces is not None:
        others += [("", _trace_section(part, traces, f"traces-{i}")) for i, part in enumerate(traced, 1)]
    others += [
        (f"{part.title}_", _extra_section(part, f"extra-{i}", set(benchmarks[0].frame["key"].dropna())))
        for i, part in enumerate(benchmarks[1:], 1)
    ]
    # The printed short version has only the sections of the main benchmark, if there is one.
    sections += [(prefix, replace(section, folded=bool(benchmarks))) for prefix, section in others]
    # Parts have tables of the same names: files of parts other than the main one have their plans as a prefix.
    return [replace(files, prefix=prefix).section(section) for prefix, section in sections if section is not None]


def _rank_section(part: ReportPart) -> Section | None:
    """Return average ranks and critical difference diagrams by task."""
    intro = [
        "Over problems: in each problem (a data set with a backbone) methods are ranked by their mean score; 1 is the "
        "best, ties share the average. Bars show Nemenyi's critical difference, as such diagrams are usually drawn.",
        "Over data sets: each data set counts once. Errors relative to the mean error of their problem are averaged "
        "over backbones, and methods are ranked and compared in pairs by them (signed ranks, Holm). Conclusions on "
        "this page rest on these tests.",
        *_words.describe_dependence(part.tables),
        _words.describe_seeds(part.frame),
        _words.describe_variants(part.frame),
    ]
    ranks = _task_ranks(part, named=True)
    content = [each for each in (*intro, *ranks) if each is not None]
    return Section("Which methods are best?", content, name="ranks") if ranks else None


def _task_ranks(part: ReportPart, *, named: bool = False) -> list[Section]:
    """Return the diagrams of all sizes with average ranks next to them, for each task with ranks."""
    sections: list[Section] = []
    for task, tables in _ranked(part).items():
        left: list[Content] = []
        for table in tables:
            if table.has_diagram:
                left.append(Section("", _figures.cd_pictures(table)))
            if not table.has_tests:
                left.append(f"{table.label}: {table.why_not}")
            title = f"Ranks in detail and wins, {table.label.lower()}"
            left.append(Section(title, [_tables.detail_table(table), _tables.win_table(table)], folded=True))
        layout = "ranks" if any(table.has_diagram for table in tables) else "plain"
        columns = ("columns", (layout, left, [_tables.average_rank_table(tables)]))
        sections.append(Section(task.capitalize(), [columns], name=f"ranks-{task}" if named else ""))
    return sections


def _ranked(part: ReportPart) -> dict[str, list[RankTable]]:
    """Return the tables with ranks by task; tasks without ranks are omitted."""
    by_task = {task: [table for table in part.tables if table.task == task and table.has_ranks] for task in TASKS}
    return {task: tables for task, tables in by_task.items() if tables}


def _backbone_section(part: ReportPart) -> Section | None:
    """Return heatmaps by backbone and size, and the recommendations; None if there are none."""
    ranks, scores, advice = (
        _heatmaps(part, "rank"),
        _heatmaps(part, "score"),
        _costs.advice_table(_costs.advise(part.summary)),
    )
    content: list[Content] = [*ranks]
    content += [Section("Mean scores by backbone", scores, folded=True)] if scores else []
    content += [advice] if advice.rows else []
    title = "What should one start with?"
    if ranks:
        several = part.frame["network"].nunique() > 1
        title = f"Does the best method depend on the {'backbone' if several else 'size'}?"
    return Section(title, content, name="heatmaps") if content else None


def _heatmaps(part: ReportPart, of: str) -> list[Picture]:
    pictures = [_figures.heatmap_picture(part.summary, task, of=of) for task in _ranked(part)]
    return [picture for picture in pictures if picture is not None]


def _size_section(part: ReportPart) -> Section | None:
    """Return average ranks by size, and scores by size for data sets with many sizes; None if there are none."""
    curves = [_figures.size_picture([table for table in part.tables if table.task == task]) for task in TASKS]
    grids, files = _grids(part.summary)
    content = [picture for picture in curves if picture is not None] + grids
    return Section("How does the order change with the size?", content, name="sizes", files=files) if content else None


def _grids(summary: pd.DataFrame) -> tuple[list[Content], list[ReportTable]]:
    """Return scores by size for data sets with many sizes, and the tables that are only written to files."""
    content: list[Content] = []
    tables = []
    for dataset, network in wide_problems(summary):
        table = _tables.grid_table(summary, dataset, network=network)
        if len(content) < 2 * PAGE_LIMITS.grids:
            content += [_figures.grid_picture(summary, dataset, network=network), _folded(table)]
        else:
            tables.append(table)
    if tables:
        content.append(f"Grids of {len(tables)} more data sets and backbones are in the folder of tables.")
    return content, tables


def _folded(table: ReportTable, title: str = "") -> Section:
    return Section(title or table.title, [table], folded=True)


def _overhead(part: ReportPart) -> Section | None:
    table = _costs.overhead_table(part.summary)
    return _folded(table) if table.rows else None


def _score_section(part: ReportPart) -> Section:
    """Return the table of scores, which can be sorted and filtered."""
    table, folds = _tables.browse_table(part.summary), _tables.fold_table(part.frame)
    metrics = [each for task in TASKS if (each := _tables.metric_table(part.frame, task)).rows]
    dots = _figures.score_picture(part.summary)
    content = [dots, ("browse", (table, _tables.fold_scores(folds))), *(each.caption for each in metrics)]
    title, files = "How do methods score on each data set?", [table, folds, *_score_tables(part), *metrics]
    return Section(title, content, name="scores", folded=dots is None, files=files)


def _score_tables(part: ReportPart) -> list[ReportTable]:
    """Return the scores of each task and size, which are only written to files."""
    return [_tables.dataset_table(part.summary, table.task, size=table.size) for table in part.tables]


def _cost_section(part: ReportPart, traces: Traces | None, times: Sequence[ReportPart]) -> Section:
    """Return cost versus quality, learning curves, times, and parameters."""
    stacked = part.frame["together"].astype(object).eq(True)
    # The times of a stack are not those of its methods, so they are not drawn by method.
    costs = [] if stacked.any() else _costs.cost_pictures(part.summary, part.tables)
    histories = [] if traces is None else [(traces.histories, task) for task in TASKS]
    picture = None if stacked.any() else _costs.time_picture(part.summary)
    content: list[Content] = [
        *([] if stacked.all() else _costs.describe_ratios(_costs.ratios_of(part.frame))),
        ("html", _stack_note(times)) if stacked.any() else None,
        ("switch", costs) if costs else None,
        *(_traces.learning_picture(part.frame, *history) for history in histories),
        picture,
        None if picture is None else _folded(_costs.time_table(part.summary)),
        _overhead(part),
        _folded(_costs.complexity_table(), "Order of the work per batch, by formula"),
    ]
    return Section("What does quality cost?", content, name="costs")


def _stack_note(times: Sequence[ReportPart]) -> Markup:
    """Return a note on the times of stacks, with a link to the times of networks that were trained alone."""
    note = Markup(
        "<p>Networks were trained in stacks, whose members share the time of an epoch in equal parts. So these records "
        "have no times by method: {}</p>"
    )
    link = Markup('see <a href="#times-1">the times of networks that were trained alone</a>.')
    alone = Markup("a plan with <code>together = false</code> measures them.")
    return note.format(link if times else alone)


def _grid_section(part: ReportPart, name: str) -> Section:
    """Return one data set with many sizes: its curves and its table."""
    content, files = _grids(part.summary)
    title = f"Which size is best on {_datasets(part)}?"
    return Section(title, [_origin(part), _traces.scatter_picture(part.frame), *content], name=name, files=files)


def _datasets(part: ReportPart) -> str:
    names = sorted(part.frame["dataset"].unique())
    return _words.enumerate_words(names) if len(names) <= 3 else f"{len(names)} data sets"


def _origin(part: ReportPart) -> str:
    """Return the plans of a part, by the names used in files and commands."""
    return f"Plan{'s' if len(part.plans) > 1 else ''}: {part.title}. {counted(len(part.frame), 'network')}."


def _trace_section(part: ReportPart, traces: Traces, name: str) -> Section:
    """Return the networks with stored fitted curves or paths of knots."""
    fits = _traces.fit_picture(part.frame, traces.curves)
    content = [
        _origin(part),
        *_traces.describe_knots(part.frame, traces.knots),
        fits,
        *_traces.knot_pictures(part.frame, traces.knots),
        _folded(_tables.browse_table(part.summary)),
    ]
    title = "How far do learned knots move?" if fits is None else "What do the fitted curves look like?"
    return Section(title, content, name=name, files=_score_tables(part))


def _time_section(part: ReportPart, name: str) -> Section:
    """Return the times of networks that were trained alone, and of the same networks in stacks."""
    pairs = _costs.ratios_of(part.frame)
    alone = part.frame[part.frame["together"].astype(object).ne(True)]
    folds = [summarise_folds(rows) for _, rows in alone.groupby("fold")]
    by_fold = pd.concat(folds, ignore_index=True) if folds else part.summary.iloc[:0]
    tables = [table for table in (_costs.ratio_table(pairs), _costs.stack_table(part.frame)) if table.rows]
    content = [
        _origin(part),
        *_costs.describe_ratios(pairs),
        *_costs.describe_stacks(part.frame),
        _costs.time_picture(by_fold) or "No times are recorded.",
        *tables,
        _overhead(part),
        _folded(_costs.time_table(part.summary)),
        _folded(_tables.browse_table(part.summary)),
    ]
    title = f"How long does an epoch take on {_datasets(part)}?"
    return Section(title, content, name=name, files=_score_tables(part))


def _extra_section(part: ReportPart, name: str, ranked: set[str]) -> Section:
    """Return results, ranks and scores of a further benchmark; the main one has the networks with the keys `ranked`."""
    n_shared = int(part.frame["key"].isin(ranked).sum())
    others = counted(len(part.frame) - n_shared)
    shared = f"{counted(n_shared)} of them are part of the main ranks as well, {others} are not."
    content = [
        f"{_origin(part)} {shared if n_shared else 'They are not part of the main ranks.'}",
        _words.describe_seeds(part.frame) if part.n_seeds > 1 else None,
        _words.describe_variants(part.frame),
        *_results(part),
        *_task_ranks(part),
        _folded(_tables.browse_table(part.summary)),
    ]
    networks = sorted(part.frame["network"].unique())
    shown = networks if len(networks) <= 2 else sorted(part.frame["backbone"].unique())
    title = (
        f"Which of {part.frame['method'].nunique()} methods is best on {_datasets(part)} with "
        f"{_words.enumerate_words(shown)}{f', with {part.n_seeds} random seeds' if part.n_seeds > 1 else ''}?"
    )
    return Section(
        title, content, name=name, files=[*_score_tables(part), *_heatmaps(part, "rank"), *_heatmaps(part, "score")]
    )
