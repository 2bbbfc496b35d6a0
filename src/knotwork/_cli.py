"""The command line."""

import io
import math
import os
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import knotwork
from knotwork._checks import check_file, check_installed, printable
from knotwork._writing import counted, duration, fixed, significant
from knotwork.errors import MissingPackageError

try:
    check_installed("The command knotwork", "study", "typer", "rich")
except MissingPackageError as error:
    sys.exit(str(error))  # one sentence instead of a traceback

if TYPE_CHECKING:
    from knotwork.compare import Comparison
    from knotwork.report import ReportTable
    from knotwork.training import ProgressBar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

AFTER_INTERRUPT = {
    "compare": "Interrupted before the first result.",
    "explore": "Interrupted.",
    "predict": "Interrupted. Nothing was written.",
    "prepare": "Interrupted. The encodings fitted so far are kept.",
}
"""The state after Ctrl-C, by command; the next step is appended."""


class CommandGroup(TyperGroup):
    """Commands that print errors that users can fix without a traceback, with the exit status that shells expect."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnError, PersistenceError

        fixable = ArgumentError, ArgumentTypeError, ColumnError, MissingPackageError, PersistenceError, OSError
        try:
            # Commands import what they need, so that `knotwork --help` is fast.
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            state = AFTER_INTERRUPT.get(ctx.invoked_subcommand or "", "Interrupted. Results so far are kept.")
            _say(f"{state} To continue, run the same command again.", err=True)
            raise typer.Exit(130) from error
        except fixable as error:
            typer.echo(printable(str(error)), err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    name="knotwork",
    cls=CommandGroup,
    help="Spline and piecewise-linear encodings of numerical columns for tabular deep learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


TABLE_HELP = (
    "Table: .csv, .tsv or .txt, also compressed (.gz, .bz2, .xz, .zst, .zip), .parquet, .arrow, .feather or .xlsx."
)
TablePath = Annotated[Path, typer.Argument(help=TABLE_HELP)]
Target = Annotated[str, typer.Option(help="Name of the column to predict.")]
Task = Annotated[str | None, typer.Option(help="regression or classification; by default inferred.")]
Drop = Annotated[list[str] | None, typer.Option(help="A column to ignore; may be repeated.")]
Sep = Annotated[str | None, typer.Option(help="Separator of a text file, such as ';' or tab; by default detected.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a text file, such as cp1252; by default detected.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of a text file, '.' or ','; by default detected.")]

PLAN_HELP = "Name of a plan, as listed by 'knotwork study list', or a TOML file."
PlanName = Annotated[str, typer.Argument(help=PLAN_HELP)]
RunFolder = Annotated[Path, typer.Argument(help="Folder that plans were run in.")]
ResultFolder = Annotated[Path, typer.Option(help="Folder for the results.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]


def _print_version(is_requested: bool) -> None:
    if is_requested:
        _say(f"knotwork {knotwork.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""
    # Idle torch threads that spin would slow down the compiled loops. Torch reads this setting when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):  # in a locale without UTF-8, other letters are escapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(text: str, *, err: bool = False) -> None:
    """Print text that may contain names from files: control characters are escaped, lines break at words."""
    lines = printable(text).splitlines() or [""]
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        lines = [each for line in lines for each in _broken(line, width)]
    typer.echo("\n".join(lines), file=stream)  # without a file it writes UTF-8 to a terminal that has ASCII


def _broken(line: str, width: int) -> list[str]:
    """Return a line as lines of at most a width that end at spaces; a longer word, such as a path, stays whole."""
    return textwrap.wrap(line, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


@contextmanager
def _one_bar(stage: str, seconds: float | None = None) -> Iterator[tuple[Callable[[str], None], "ProgressBar | None"]]:
    """Show one line for all work of a command if standard error is a terminal.

    Provides the function that prints sentences, above the line, and the line.
    """
    if not sys.stderr.isatty():
        yield _say, None
        return
    from knotwork.training import ProgressBar

    with ProgressBar(seconds=seconds) as bar:
        bar.stage(stage)
        yield lambda text: bar.say(_say, text), bar


@contextmanager
def _warnings_explained() -> Iterator[None]:
    """Print warnings as sentences, without their location in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _say(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@app.command(epilog="Example: knotwork demo --out demo, then open demo/report.html and demo/explore.html")
def demo(out: Annotated[Path, typer.Option(help="Folder for records and pages.")] = Path("demo")) -> None:
    """Train 280 small networks on four tables in two minutes; write a report, and a page to explore one table."""
    from knotwork.datasets import load_dataset
    from knotwork.report import describe_best, load_records, report_folder
    from knotwork.study import load_plan, run

    with _one_bar("reading the tables, placing knots") as (say, bar):
        summary = run("demo", out, report=say, progress=None if bar is None else partial(bar.part, end=0.9))
        if bar is not None:
            bar.stage("report and explorer")
        page = report_folder(out, out / "report.html").resolve()
        best = describe_best(load_records(out))
        table = load_dataset(load_plan("demo").names[0])
        features, target = table.frame.drop(columns=table.target), table.frame[table.target]
        explorer = knotwork.explore(features, target, task=table.task, name=table.name).save(out / "explore.html")
    n_trained = counted(summary.n_ok + summary.n_before, "network")
    _say(f"{n_trained}, {counted(summary.n_failed)} failed, in {duration(summary.seconds)}.")
    _say(f"Report: {page}\nExplorer: {explorer.resolve()}")
    _say(best[0] if best else "No encoding can be compared with scaling alone (Std).")


@app.command(epilog="Example: knotwork report results, then open results/report.html")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study.")],
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write, or a folder for report.html; by default DIR.")
    ] = None,
) -> None:
    """Write tables, figures and one page, report.html, from the records of a study, without training."""
    from knotwork.report import describe_best, load_records, report_folder

    page = out or folder
    page = page if page.suffix == ".html" else page / "report.html"
    with _one_bar("tables and figures"):
        report_folder(folder, page)
    _say(f"Report: {page}\nTables: {page.parent / 'tables'}\nFigures: {page.parent / 'figures'}")
    _say("\n".join(describe_best(load_records(folder))[:1]))


@app.command(epilog="Example: knotwork compare flats.csv --target rent, then open comparison/report.html")
def compare(
    table: TablePath,
    target: Target,
    *,
    task: Task = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, such as Std,BS-Q,PLE@30,CS-U@12%24; by default a selection.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="Encoded columns per feature, such as 7,15; by default 15.")] = None,
    backbone: Annotated[
        str,
        typer.Option(
            help="Single networks of the comparison: mlp (by default), resnet, tabm, realmlp or ft; without --effort, "
            "there is no ensemble beside them."
        ),
    ] = "auto",
    effort: Annotated[
        str,
        typer.Option(
            help="Ensemble that is ranked beside the other models: fast, balanced or best; single: none. By default "
            "balanced, or single if --backbone is given."
        ),
    ] = "auto",
    folds: Annotated[int | None, typer.Option(help="Number of folds; by default 5, or 3 if time is short.")] = None,
    time_budget: Annotated[float, typer.Option(help="Seconds for the whole command; 0 means no limit.")] = 300.0,
    drop: Drop = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column that names what rows belong to, such as a person: folds never divide a group."),
    ] = None,
    validation: Annotated[
        str | None, typer.Option(help="time: rows are in the order of time, and folds are tested on later rows.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the tables.")] = Path("comparison"),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
) -> None:
    """Compare models and encodings on a table: one ranking, one recommendation, which is saved, and a report."""
    started = time.perf_counter()  # the time budget includes loading torch
    check_file(table, "table")  # before loading torch, which takes seconds
    from knotwork.compare import CompareOptions, compare_table, read_sizes
    from knotwork.datasets import TextFormat

    options = CompareOptions(
        task=task,
        methods=None if methods is None else tuple(methods.replace(",", " ").split()),
        sizes=read_sizes(sizes),
        backbone=backbone,
        effort=effort,
        folds=folds,
        time_budget=time_budget or None,
        seed=seed,
        drop=tuple(drop or ()),
        groups=groups,
        validation=validation,
        text=TextFormat(sep=sep, encoding=encoding, decimal=decimal),
    )
    with _one_bar("reading the table", time_budget or None) as (say, bar):
        progress = None if bar is None else bar.part
        comparison = compare_table(
            table, target, out=out, options=options, report=say, progress=progress, started=started
        )
    _show_ranking(comparison)


def _print_table(
    title: str,
    columns: dict[str, bool],
    rows: Iterable[Sequence[str]],
    *,
    piped: int | None = None,
    chosen: int | None = None,
) -> None:
    """Print a table whose lines break at words: where they do not fit beside each other, row after row as a list.

    `columns` has the headings, with True for numbers, and `piped` is the width where the output is not a terminal.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    console = Console(width=None if Console().is_terminal else piped)
    widths = _column_widths(list(zip(columns, *cells, strict=True)), console.width)
    if not widths:
        _say(title)
        for row in cells:
            _say("\n".join(["", *(f"{name}: {cell}" for name, cell in zip(columns, row, strict=True) if cell)]))
        return
    table = Table(title=title, title_justify="left")
    for (heading, is_number), width in zip(columns.items(), widths, strict=True):
        table.add_column(heading, justify="right" if is_number else "left", width=width)
    for place, row in enumerate(cells):
        table.add_row(*map(Text, row), style="bold green" if place == chosen else "")
    console.print(table)


def _column_widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of columns of texts so that no word is broken; none if that is impossible in this width.

    Each column takes two spaces and a border. What is left after the longest words goes to the columns that need it.
    """
    words = [max((len(word) for text in column for word in text.split()), default=1) for column in columns]
    wanted = [max(*map(len, column), least) for column, least in zip(columns, words, strict=True)]
    left = width - 1 - 3 * len(columns) - sum(words)
    if left < 0:
        return []
    missing = sum(wanted) - sum(words)
    share = min(left / missing, 1.0) if missing else 0.0
    return [least + int(share * (most - least)) for least, most in zip(words, wanted, strict=True)]


def _show_ranking(comparison: "Comparison") -> None:
    """Print the ranking, the recommendation and the files; exit with status 130 if the comparison was interrupted."""
    from knotwork.compare import ranking_table

    ranking = comparison.ranking
    shown = ranking_table(ranking, comparison.task)
    console = Console()
    places = _fitting_columns(shown, console.width if console.is_terminal else 220)
    columns = {shown.columns[place]: shown.numeric[place] for place in places}
    rows = [[row[place].shown for place in places] for row in shown.rows]
    chosen = next((place for place, line in enumerate(ranking.lines) if line is ranking.chosen), None)
    _print_table(shown.title, columns, rows, piped=220, chosen=chosen)
    if len(places) < len(shown.columns):
        missing = [name for place, name in enumerate(shown.columns) if place not in places]
        _say(f"The terminal is too narrow for {', '.join(missing)}: see the report.")
    _say("\n".join(comparison.summary))
    raise typer.Exit(130 if comparison.interrupted else 0)


def _fitting_columns(shown: "ReportTable", width: int) -> list[int]:
    """Return the positions of a ranking's columns that fit into a terminal, the most important ones."""
    n_columns = len(shown.columns)
    widths = [
        max(len(cell) for cell in (name, *(row[place].shown for row in shown.rows)))
        for place, name in enumerate(shown.columns)
    ]
    score, difference, interval, p, seconds = 1, 2, 3, 4, n_columns - 2
    others = [*range(5, n_columns - 2), n_columns - 1]
    by_importance = [0, score, seconds, interval, difference, p, *others]
    kept: list[int] = []
    for place in by_importance:
        # Each column takes two spaces and a border; the first two are always shown.
        if len(kept) > 1 and 1 + sum(widths[each] + 3 for each in (*kept, place)) > width:
            break
        kept.append(place)
    return sorted(kept)


@app.command(epilog="Example: knotwork explore flats.csv --target rent --out flats.html, then open flats.html")
def explore(
    table: TablePath,
    target: Target,
    *,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("explore.html"),
    task: Task = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="A column to show; may be repeated. By default the 40 that explain most."),
    ] = None,
    drop: Drop = None,
    seed: Annotated[int, typer.Option(help="Random seed of the rows.")] = 0,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
) -> None:
    """Write a page for moving the knots of a column and watching its encoding and its fit change."""
    check_file(table, "table")
    from knotwork._explore import explore_table
    from knotwork.datasets import TextFormat

    with _one_bar("reading the table, fitting the curves of its columns") as (say, _):
        made = explore_table(
            table,
            target,
            task=task,
            columns=columns or (),
            drop=drop or (),
            seed=seed,
            text=TextFormat(sep=sep, encoding=encoding, decimal=decimal),
            report=say,
        )
    page = made.save(out)
    _say(f"Page: {page.resolve()}\nOpen it in a browser: {page.resolve().as_uri()}")
    _say(f"{made.finding}.")


@app.command(epilog="Example: knotwork predict comparison/model.knotwork new_flats.csv --out rents.csv")
def predict(
    model: Annotated[Path, typer.Argument(help="Model saved by 'knotwork compare' or by an estimator.")],
    table: Annotated[Path, typer.Argument(help=f"{TABLE_HELP} It must have the columns of the model.")],
    *,
    out: Annotated[Path, typer.Option(help="CSV or Parquet file to write.")] = Path("predictions.csv"),
    drop: Drop = None,
    target: Annotated[
        str | None, typer.Option(help="Column with the true values; by default the target of the model.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Write intervals that contain this share of the true values, such as 0.9.")
    ] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Put an apostrophe before text that looks like a formula.")
    ] = False,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
) -> None:
    """Predict the rows of a file with a saved model: numbers and intervals, or classes and their probabilities.

    The file may contain the target: then the predictions are scored. A Parquet file may be larger than memory.
    """
    with _warnings_explained():
        for name, path in (("model", model), ("table", table)):
            check_file(path, name)
        from knotwork._predictions import predict_table
        from knotwork.datasets import TextFormat

        n_rows = predict_table(
            model,
            table,
            out=out,
            drop=tuple(drop or ()),
            target=target,
            coverage=coverage,
            spreadsheet_safe=spreadsheet_safe,
            text=TextFormat(sep=sep, encoding=encoding, decimal=decimal),
            report=_say,
            keep=False,
        )
    _say(f"{counted(n_rows, 'row')} predicted: {out}")


datasets_app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Data sets of the built-in plans: list, download and check."
)
app.add_typer(datasets_app, name="datasets")


@datasets_app.command("list", epilog="Example: KNOTWORK_DATA=~/tables knotwork datasets list")
def list_datasets() -> None:
    """List every data set: task, size and location."""
    from knotwork.datasets import cache_folder, data_folder, summarise_datasets

    lines = summarise_datasets()
    rows = []
    for line in lines:
        n_rows = counted(line.n_rows) if line.n_drawn is None else f"{counted(line.n_drawn)} of {counted(line.n_rows)}"
        rows.append((line.key, line.task, n_rows, f"{line.n_numerical} + {line.n_categorical}", line.where))
    columns = {"key": False, "task": False, "rows": True, "columns": True, "where": False}
    _print_table("Data sets", columns, rows, piped=110)
    _say("Columns: numerical + categorical features.")
    _say(f"KNOTWORK_DATA: {data_folder() or 'not set'}\ncache: {cache_folder()}")


@datasets_app.command("fetch", epilog="Example: knotwork datasets fetch abalone wine_quality")
def fetch_datasets(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys, as listed by 'knotwork datasets list'.")],
) -> None:
    """Download data sets from OpenML and UCI, check them, and store them in the cache."""
    from knotwork.datasets import fetch_dataset
    from knotwork.errors import ArgumentError, DatasetMismatchError, DatasetUnavailableError

    failed = False
    for key in keys:
        try:
            _say(f"{key}: {fetch_dataset(key)}")
        except (ArgumentError, DatasetMismatchError, DatasetUnavailableError) as error:
            _say(f"{key}: FAILED. {error}", err=True)
            failed = True
    raise typer.Exit(int(failed))


@datasets_app.command("check", epilog="Example: knotwork datasets check abalone, or all: knotwork datasets check")
def check_datasets(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", help="Keys; by default every available data set.")
    ] = None,
) -> None:
    """Compare files with the registry: checksum, columns, rows, target and classes."""
    from knotwork.datasets import DATASETS, check_dataset

    checks = [check_dataset(key) for key in keys or DATASETS]
    for check in checks:
        state = "ok" if check.is_good else f"FAILED. {'; '.join(check.problems)}"
        missing = "not available; see 'knotwork datasets list'"
        _say(f"{check.key}: {missing if check.path is None else f'{state} ({check.path})'}")
    n_good = sum(check.is_good for check in checks)
    n_expected = len(checks) if keys else max(1, sum(check.path is not None for check in checks))
    _say(f"{n_good} of {len(checks)} data sets are available and valid.")
    raise typer.Exit(int(n_good < n_expected))


study_app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Studies: train the networks of a plan and record the results."
)
app.add_typer(study_app, name="study")


@study_app.command("list", epilog="Example: knotwork study list")
def list_plans() -> None:
    """List the built-in plans."""
    from knotwork.study import PLANS, load_plan

    rows = [(name, counted(plan.n_networks), plan.description) for name in PLANS for plan in [load_plan(name)]]
    _print_table("Plans", {"name": False, "networks": True, "description": False}, rows)


@study_app.command("show", epilog="Example: knotwork study show paper --out results")
def show_plan(
    name: PlanName,
    out: Annotated[
        Path | None, typer.Option(help="Folder of a study, whose records are used to estimate the time.")
    ] = None,
) -> None:
    """Show the networks of a plan, and estimate the training time."""
    from knotwork.study import backbone_estimates, load_plan

    plan = load_plan(name)
    lines = backbone_estimates(plan, out)
    _say(f"{plan.name}: {plan.description}\nplan hash: {plan.plan_hash}")
    _say(f"data sets ({len(plan.names)}): {', '.join(plan.names)}")
    _say(f"methods ({len(plan.methods)}): {', '.join(plan.methods)}")
    folds = plan.folds if plan.first_folds is None else f"the first {plan.first_folds} of {plan.folds}"
    seeds = f"seed {plan.seed}" + (f", {plan.n_seeds} random seeds per fold" if plan.n_seeds > 1 else "")
    _say(f"sizes: {', '.join(map(str, plan.sizes)) or 'none'}; {folds} {plan.split}, {seeds}")
    _say(f"training: {plan.config}")
    for variant in plan.variants:
        settings = ", ".join(f"{setting}={value}" for setting, value in variant.training.items())
        _say(f"variant {variant.name}: {settings}")
    for backbone, n_networks, seconds in lines:
        time = "not measured yet" if seconds is None else f"about {duration(seconds)} in one process"
        _say(f"{backbone.title}: {counted(n_networks, 'network')}, {time}")
    _say(f"networks in all: {counted(plan.n_networks)}")


@study_app.command("prepare", epilog="Example: knotwork study prepare paper --out results")
def prepare_study(name: PlanName, out: ResultFolder) -> None:
    """Fit and store the encodings of a plan, so that the training machine does not need LightGBM."""
    from knotwork.study import prepare_plan

    summary = prepare_plan(name, out, report=_say)
    _say(
        f"{counted(summary.n_ok)} of {counted(summary.n_networks, 'network')} are prepared, in "
        f"{duration(summary.seconds)}: {out}"
    )
    raise typer.Exit(int(bool(summary.n_failed or summary.unavailable)))


@study_app.command("run", epilog="Example: knotwork study run demo --out results, again for missing networks")
def run_study(
    name: PlanName,
    out: ResultFolder,
    *,
    engine: Annotated[str, typer.Option(help="Where units are trained: local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, for --engine ray.")] = None,
    units_per_gpu: Annotated[int, typer.Option(min=1, help="Units that share a GPU, for --engine ray.")] = 2,
    device: Device = "auto",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Train failed networks again.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A data set to train on; may be repeated.")] = None,
    by_fold: Annotated[bool, typer.Option("--by-fold", help="Train the first fold of all data sets first.")] = False,
) -> None:
    """Train the missing networks of a plan. It can be stopped and resumed, and several processes can share a folder."""
    from knotwork.study import run

    with _one_bar("reading the tables, placing knots") as (say, bar):
        summary = run(
            name,
            out,
            engine,
            device=device,
            retry_failed=retry_failed,
            report=say,
            progress=None if bar is None else bar.part,
            address=address,
            units_per_gpu=units_per_gpu,
            only=only or (),
            by_fold=by_fold,
        )
    _say(
        f"{counted(summary.n_ok)} trained, {counted(summary.n_failed)} failed, {counted(summary.n_before)} recorded "
        f"before, in {duration(summary.seconds)}. Results: {out}"
    )
    raise typer.Exit(int(bool(summary.n_failed or summary.unavailable)))


@study_app.command("pack", epilog="Example: knotwork study pack study --out results")
def pack_study(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder for the copy.")],
    histories: Annotated[bool, typer.Option("--histories", help="Include losses and scores of every epoch.")] = False,
) -> None:
    """Copy the records of a study into a few small files, for publishing or archiving."""
    from knotwork.study import pack

    for plan, n_networks in pack(folder, out, histories=histories).items():
        _say(f"{plan}: {counted(n_networks, 'network')}")


@study_app.command("status", epilog="Example: knotwork study status results")
def show_status(out: Annotated[Path, typer.Argument(help="Folder that a plan was run in.")]) -> None:
    """Show the progress of the plans in a folder, and estimate the remaining time."""
    from knotwork.study import study_status

    plans = study_status(out)
    for each in plans:
        _say(
            f"{each.plan}: {counted(each.n_ok)} of {counted(each.n_networks, 'network')} trained, "
            f"{counted(each.n_failed)} failed"
        )
        if each.rate is not None:
            _say(f"  rate: {fixed(each.rate, 0)} networks per hour and process")
        rest = "not measured yet" if each.remaining is None else duration(each.remaining)
        _say(f"  remaining: {rest}; units claimed: {each.n_working}")
    for name, problem in plans[-1].problems.items():
        _say(f"{name} {problem}. It is ignored.", err=True)


@study_app.command("verify", epilog="Example: knotwork study verify results --sample 5 --only abalone")
def verify_study(
    folder: RunFolder,
    *,
    sample: Annotated[int, typer.Option(min=1, help="Number of records to train again.")] = 20,
    random_seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
    plan: Annotated[str | None, typer.Option(help="Only records of this plan: its name or TOML file.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only records of this data set; may be repeated.")] = None,
    device: Device = "auto",
    alone: Annotated[
        bool, typer.Option("--alone", help="Train each network alone, which is faster than training its whole stack.")
    ] = False,
) -> None:
    """Train a sample of the recorded networks again, and compare: bit-identical, within noise, or different.

    The exit status is 0 if all agree, and 1 if a record is different or could not be trained again.
    """
    with _warnings_explained(), _one_bar("reading the records") as (say, bar):
        from knotwork.study import verify

        result = verify(
            folder,
            sample=sample,
            random_seed=random_seed,
            plan=plan,
            only=only or (),
            device=device,
            alone=alone,
            report=say,
            progress=None if bar is None else bar.part,
        )
    names = ("dataset", "backbone", "encoding", "fold", "verdict", "metric", "recorded", "retrained", "noise")
    headings = ("data set", "backbone", "method", "fold", "verdict", "score", "recorded", "here", "noise")
    cells = [[_cell(value) for value in row] for row in result.table[list(names)].itertuples(index=False)]
    columns = {heading: heading in ("fold", "recorded", "here", "noise") for heading in headings}
    _print_table("Recorded, and trained again here", columns, cells, piped=140)
    for note in result.notes:
        _say(note)
    counts = (
        ", ".join(f"{counted(count)} {verdict}" for verdict, count in result.counts.items() if count) or "none trained"
    )
    _say(f"{counted(len(result.table))} of {counted(result.n_records, 'record')} were compared: {counts}.")
    if result.interrupted:
        _say("Interrupted. Only the records above were compared; nothing was written.", err=True)
    raise typer.Exit(130 if result.interrupted else int(not result.agrees))


def _cell(value: object) -> str:
    """Return a value of a table of verdicts: numbers with six digits, nothing for a missing one."""
    if isinstance(value, float):
        return "" if math.isnan(value) else significant(value, 6)
    return str(value)


if __name__ == "__main__":
    app()
