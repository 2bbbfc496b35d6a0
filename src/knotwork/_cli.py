"""The command line."""

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import knotwork
from knotwork._checks import check_file, check_installed, printable
from knotwork.errors import MissingPackageError

try:
    check_installed("The command knotwork", "study", "typer", "rich")
except MissingPackageError as error:
    sys.exit(str(error))  # one sentence instead of a traceback

if TYPE_CHECKING:
    import pandas as pd

    from knotwork.compare import Comparison
    from knotwork.report import ReportTable

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

app = typer.Typer(
    name="knotwork",
    help="Spline and piecewise-linear encodings of numerical columns for tabular deep learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


TABLE_HELP = (
    "Table: .csv, .tsv or .txt, also compressed (.gz, .bz2, .xz, .zst, .zip), .parquet, .arrow, .feather or .xlsx."
)
SEP_HELP = "Separator of a text file, such as ';' or tab; by default detected."
ENCODING_HELP = "Encoding of a text file, such as cp1252; by default detected."
DECIMAL_HELP = "Decimal sign of a text file, '.' or ','; by default detected."


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"knotwork {knotwork.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""


def _say(text: str, *, err: bool = False) -> None:
    """Print text with names from files, in which control characters are escaped."""
    typer.echo(printable(text), err=err)


@contextmanager
def _errors_explained(interrupted: str = "Interrupted. Results so far are kept.") -> Iterator[None]:
    """Print errors that users can fix without a traceback, and exit with the status that shells expect.

    Parameters
    ----------
    interrupted : str
        Message after Ctrl-C; the next step is appended.
    """
    from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnError, PersistenceError

    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(f"{interrupted} To continue, run the same command again.", err=True)
        raise typer.Exit(130) from error
    except (ArgumentError, ArgumentTypeError, ColumnError, MissingPackageError, PersistenceError, OSError) as error:
        _say(str(error), err=True)
        raise typer.Exit(1) from error


@contextmanager
def _warnings_explained() -> Iterator[None]:
    """Print warnings as sentences, without their location in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@app.command(epilog="Example: knotwork demo --out demo, then open demo/report.html and demo/explore.html")
def demo(out: Annotated[Path, typer.Option(help="Folder for records and pages.")] = Path("demo")) -> None:
    """Train 280 small networks on four tables in two minutes; write a report, and a page to explore one table."""
    _let_idle_threads_sleep()
    with _errors_explained():
        # Commands import what they need, so that `knotwork --help` is fast.
        from knotwork.datasets import load_dataset
        from knotwork.report import describe_best, load_records, report_folder
        from knotwork.study import load_plan, run

        summary = run("demo", out, report=_say, progress=_progress())
        page = report_folder(out, out / "report.html").resolve()
        best = describe_best(load_records(out))
        table = load_dataset(load_plan("demo").names[0])
        features, target = table.frame.drop(columns=table.target), table.frame[table.target]
        explorer = knotwork.explore(features, target, task=table.task, name=table.name).save(out / "explore.html")
    typer.echo(
        f"{summary.n_ok + summary.n_before:,} networks, {summary.n_failed:,} failed, in {summary.seconds:.0f} s."
    )
    if best:
        typer.echo(f"The largest gain of an encoding over scaling alone (Std): {best[0]}")
    typer.echo(f"Report: {page}\nExplorer: {explorer.resolve()}")


def _progress() -> Any:
    """Return the progress bar, or None if the output is not a terminal."""
    from knotwork.training import ProgressBar

    return ProgressBar if sys.stderr.isatty() else None


@app.command(epilog="Example: knotwork report results, then open results/report.html")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study.")],
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write, or a folder for report.html; by default DIR.")
    ] = None,
) -> None:
    """Write tables, figures and one page, report.html, from the records of a study, without training."""
    page = out or folder
    page = page if page.suffix == ".html" else page / "report.html"
    with _errors_explained():
        from knotwork.report import report_folder

        report_folder(folder, page)
    typer.echo(f"Report: {page}\nTables: {page.parent / 'tables'}\nFigures: {page.parent / 'figures'}")


@app.command(epilog="Example: knotwork compare flats.csv --target rent, then open comparison/report.html")
def compare(
    table: Annotated[Path, typer.Argument(help=TABLE_HELP)],
    target: Annotated[str, typer.Option(help="Name of the column to predict.")],
    *,
    task: Annotated[str | None, typer.Option(help="regression or classification; by default inferred.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, such as Std,BS-Q,PLE@30,CS-U@12%24; by default a selection.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="Encoded columns per feature, such as 7,15; by default 15.")] = None,
    backbone: Annotated[
        str,
        typer.Option(
            help="Network of the comparison: mlp (by default), resnet, tabm, realmlp or ft; without --effort, the "
            "saved model is a single network of it."
        ),
    ] = "auto",
    effort: Annotated[
        str,
        typer.Option(
            help="Saved model: an ensemble (fast, balanced or best), or single: one --backbone with the best encoding. "
            "By default balanced, or single if --backbone is given."
        ),
    ] = "auto",
    folds: Annotated[int | None, typer.Option(help="Number of folds; by default 5, or 3 if time is short.")] = None,
    time_budget: Annotated[float, typer.Option(help="Seconds for the whole command; 0 means no limit.")] = 300.0,
    drop: Annotated[list[str] | None, typer.Option(help="A column to ignore; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the tables.")] = Path("comparison"),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    sep: Annotated[str | None, typer.Option(help=SEP_HELP)] = None,
    encoding: Annotated[str | None, typer.Option(help=ENCODING_HELP)] = None,
    decimal: Annotated[str | None, typer.Option(help=DECIMAL_HELP)] = None,
) -> None:
    """Compare encodings on a table: ranking with intervals, recommendation, saved model, report."""
    started = time.perf_counter()  # the time budget includes loading torch
    _let_idle_threads_sleep()
    with _errors_explained("Interrupted before the first result."):
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
            text=TextFormat(sep=sep, encoding=encoding, decimal=decimal),
        )
        comparison = compare_table(
            table, target, out=out, options=options, report=_say, progress=_progress(), started=started
        )
    _show_ranking(comparison)


def _show_ranking(comparison: "Comparison") -> None:
    """Print the ranking, the recommendation and the files; exit with status 130 if the comparison was interrupted."""
    from knotwork.compare import ranking_table

    shown = ranking_table(comparison.ranking, comparison.task)
    console = Console()
    places = _fitting_columns(shown, console.width if console.is_terminal else 220)
    table = Table(title=shown.title, title_justify="left")
    for place in places:
        table.add_column(shown.columns[place], justify="right" if shown.numeric[place] else "left", overflow="fold")
    for line, row in zip(comparison.ranking.lines, shown.rows, strict=True):
        chosen = line is comparison.ranking.chosen
        table.add_row(*(Text(row[place].shown) for place in places), style="bold green" if chosen else "")
    Console(width=None if console.is_terminal else 220).print(table)
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
    score, difference, interval, p, seconds = 1, 2, 3, 4, n_columns - 3
    by_importance = [0, score, seconds, interval, difference, p, *range(5, n_columns - 3), n_columns - 2, n_columns - 1]
    kept: list[int] = []
    for place in by_importance:
        # Each column takes two spaces and a border; the first two are always shown.
        if len(kept) > 1 and 1 + sum(widths[each] + 3 for each in (*kept, place)) > width:
            break
        kept.append(place)
    return sorted(kept)


@app.command(epilog="Example: knotwork explore flats.csv --target rent --out flats.html, then open flats.html")
def explore(
    table: Annotated[Path, typer.Argument(help=TABLE_HELP)],
    target: Annotated[str, typer.Option(help="Name of the column to predict.")],
    *,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("explore.html"),
    task: Annotated[str | None, typer.Option(help="regression or classification; by default inferred.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="A numerical column to show; may be repeated. By default the 40 most important."),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to ignore; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the rows.")] = 0,
    sep: Annotated[str | None, typer.Option(help=SEP_HELP)] = None,
    encoding: Annotated[str | None, typer.Option(help=ENCODING_HELP)] = None,
    decimal: Annotated[str | None, typer.Option(help=DECIMAL_HELP)] = None,
) -> None:
    """Write a page for moving the knots of a column and watching its encoding and its fit change."""
    _let_idle_threads_sleep()
    with _errors_explained("Interrupted."):
        check_file(table, "table")
        from knotwork._explore import explore_table
        from knotwork.datasets import TextFormat

        made = explore_table(
            table,
            target,
            task=task,
            columns=columns or (),
            drop=drop or (),
            seed=seed,
            text=TextFormat(sep=sep, encoding=encoding, decimal=decimal),
            report=_say,
        )
        page = made.save(out)
    typer.echo(f"Page: {page.resolve()}\nOpen it in a browser: {page.resolve().as_uri()}")


@app.command(epilog="Example: knotwork predict comparison/model.knotwork new_flats.csv --out rents.csv")
def predict(
    model: Annotated[Path, typer.Argument(help="Model saved by 'knotwork compare' or by an estimator.")],
    table: Annotated[Path, typer.Argument(help=f"{TABLE_HELP} It must have the columns of the model.")],
    *,
    out: Annotated[Path, typer.Option(help="CSV or Parquet file to write.")] = Path("predictions.csv"),
    drop: Annotated[list[str] | None, typer.Option(help="A column to ignore; may be repeated.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Column with the true values; by default the target of the model.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Write intervals that contain this share of the true values, such as 0.9.")
    ] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Put an apostrophe before text that looks like a formula.")
    ] = False,
    sep: Annotated[str | None, typer.Option(help=SEP_HELP)] = None,
    encoding: Annotated[str | None, typer.Option(help=ENCODING_HELP)] = None,
    decimal: Annotated[str | None, typer.Option(help=DECIMAL_HELP)] = None,
) -> None:
    """Predict the rows of a file with a saved model: numbers and intervals, or classes and their probabilities.

    The file may contain the target: then the predictions are scored. A Parquet file may be larger than memory.
    """
    _let_idle_threads_sleep()
    with _errors_explained("Interrupted. Nothing was written."), _warnings_explained():
        for name, path in (("model", model), ("table", table)):
            check_file(path, name)
        from knotwork.compare import predict_table
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
            report=typer.echo,
            keep=False,
        )
    typer.echo(f"{n_rows:,} rows predicted: {out}")


datasets_app = typer.Typer(no_args_is_help=True, help="Data sets of the built-in plans: list, download and check.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.command("list", epilog="Example: KNOTWORK_DATA=~/tables knotwork datasets list")
def list_datasets() -> None:
    """List every data set: task, size and location."""
    with _errors_explained():  # for example an invalid environment variable
        from knotwork.datasets import cache_folder, data_folder, summarise_datasets

        lines = summarise_datasets()
    table = Table(title="Data sets", title_justify="left")
    for heading in ("key", "task", "rows", "columns", "where"):
        table.add_column(heading, justify="right" if heading in ("rows", "columns") else "left", no_wrap=True)
    for line in lines:
        rows = f"{line.n_rows:,}" if line.n_drawn is None else f"{line.n_drawn:,} of {line.n_rows:,}"
        table.add_row(line.key, line.task, rows, f"{line.n_numerical} + {line.n_categorical}", line.where)
    Console(width=None if Console().is_terminal else 110).print(table)  # no broken words in a pipe
    typer.echo("Columns: numerical + categorical features.")
    typer.echo(f"KNOTWORK_DATA: {data_folder() or 'not set'}\ncache: {cache_folder()}")


@datasets_app.command("fetch", epilog="Example: knotwork datasets fetch abalone wine_quality")
def fetch_datasets(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys, as listed by 'knotwork datasets list'.")],
) -> None:
    """Download data sets from OpenML and UCI, check them, and store them in the cache."""
    with _errors_explained():
        from knotwork.datasets import fetch_dataset
    from knotwork.errors import ArgumentError, DatasetMismatchError, DatasetUnavailableError

    failed = False
    for key in keys:
        try:
            typer.echo(f"{key}: {fetch_dataset(key)}")
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
    with _errors_explained():
        from knotwork.datasets import DATASETS, check_dataset

        checks = [check_dataset(key) for key in keys or DATASETS]
    for check in checks:
        if check.path is None:
            typer.echo(f"{check.key}: not available; see 'knotwork datasets list'")
        else:
            typer.echo(
                f"{check.key}: {'ok' if check.is_good else 'FAILED. ' + '; '.join(check.problems)} ({check.path})"
            )
    n_good = sum(check.is_good for check in checks)
    wanted = len(checks) if keys else max(1, sum(check.path is not None for check in checks))
    typer.echo(f"{n_good} of {len(checks)} data sets are available and valid.")
    raise typer.Exit(int(n_good < wanted))


study_app = typer.Typer(no_args_is_help=True, help="Studies: train the networks of a plan and record the results.")
app.add_typer(study_app, name="study")

PLAN_HELP = "Name of a plan, as listed by 'knotwork study list', or a TOML file."


@study_app.command("list", epilog="Example: knotwork study list")
def list_plans() -> None:
    """List the built-in plans."""
    with _errors_explained():
        from knotwork.study import PLANS, load_plan

    table = Table(title="Plans", title_justify="left")
    for heading in ("name", "networks", "description"):
        table.add_column(heading, justify="right" if heading == "networks" else "left")
    for name in PLANS:
        plan = load_plan(name)
        table.add_row(name, f"{plan.n_networks:,}", plan.description)
    Console().print(table)


@study_app.command("show", epilog="Example: knotwork study show paper --out results")
def show_plan(
    name: Annotated[str, typer.Argument(help=PLAN_HELP)],
    out: Annotated[
        Path | None, typer.Option(help="Folder of a study, whose records are used to estimate the time.")
    ] = None,
) -> None:
    """Show the networks of a plan, and estimate the training time."""
    with _errors_explained():
        from knotwork.study import backbone_estimates, load_plan, written

        plan = load_plan(name)
        lines = backbone_estimates(plan, out)
    typer.echo(f"{plan.name}: {plan.description}\nplan hash: {plan.plan_hash}")
    typer.echo(f"data sets ({len(plan.names)}): {', '.join(plan.names)}")
    typer.echo(f"methods ({len(plan.methods)}): {', '.join(plan.methods)}")
    folds = plan.folds if plan.first_folds is None else f"the first {plan.first_folds} of {plan.folds}"
    seeds = f"seed {plan.seed}" + (f", {plan.n_seeds} random seeds per fold" if plan.n_seeds > 1 else "")
    typer.echo(f"sizes: {', '.join(map(str, plan.sizes)) or 'none'}; {folds} {plan.split}, {seeds}")
    typer.echo(f"training: {plan.config}")
    for variant in plan.variants:
        typer.echo(f"variant {variant.name}: {', '.join(f'{name}={value}' for name, value in variant.training)}")
    for line in lines:
        time = "not measured yet" if line.seconds is None else f"about {written(line.seconds)} in one process"
        typer.echo(f"{line.backbone}: {line.n_networks:,} networks, {time}")
    typer.echo(f"networks in all: {plan.n_networks:,}")


@study_app.command("prepare", epilog="Example: knotwork study prepare paper --out results")
def prepare_study(
    name: Annotated[str, typer.Argument(help=PLAN_HELP)],
    out: Annotated[Path, typer.Option(help="Folder for the results.")],
) -> None:
    """Fit and store the encodings of a plan, so that the training machine does not need LightGBM."""
    with _errors_explained("Interrupted. The encodings fitted so far are kept."):
        from knotwork.study import prepare_plan

        summary = prepare_plan(name, out, report=_say)
    typer.echo(f"{summary.n_ok:,} of {summary.n_networks:,} networks are prepared, in {summary.seconds:.0f} s: {out}")
    raise typer.Exit(int(bool(summary.n_failed or summary.unavailable)))


@study_app.command("run", epilog="Example: knotwork study run demo --out results, again for missing networks")
def run_study(
    name: Annotated[str, typer.Argument(help=PLAN_HELP)],
    out: Annotated[Path, typer.Option(help="Folder for the results.")],
    *,
    engine: Annotated[str, typer.Option(help="Where units are trained: local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, for --engine ray.")] = None,
    units_per_gpu: Annotated[int, typer.Option(min=1, help="Units that share a GPU, for --engine ray.")] = 2,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Train failed networks again.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A data set to train on; may be repeated.")] = None,
    by_fold: Annotated[bool, typer.Option("--by-fold", help="Train the first fold of all data sets first.")] = False,
) -> None:
    """Train the missing networks of a plan. It can be stopped and resumed, and several processes can share a folder."""
    _let_idle_threads_sleep()
    with _errors_explained():
        from knotwork.study import run

        summary = run(
            name,
            out,
            engine,
            device=device,
            retry_failed=retry_failed,
            report=_say,
            progress=_progress(),
            address=address,
            units_per_gpu=units_per_gpu,
            only=only or (),
            by_fold=by_fold,
        )
    typer.echo(
        f"{summary.n_ok:,} trained, {summary.n_failed:,} failed, {summary.n_before:,} recorded before, in "
        f"{summary.seconds:.0f} s. Results: {out}"
    )
    raise typer.Exit(int(bool(summary.n_failed or summary.unavailable)))


def _let_idle_threads_sleep() -> None:
    """Let idle torch threads sleep: threads that spin would slow down the compiled loops.

    Torch reads this setting when it is loaded. A value set by the user is not changed.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@study_app.command("pack", epilog="Example: knotwork study pack study --out results")
def pack_study(
    folder: Annotated[Path, typer.Argument(help="Folder that plans were run in.")],
    out: Annotated[Path, typer.Option(help="Folder for the copy.")],
    histories: Annotated[bool, typer.Option("--histories", help="Include losses and scores of every epoch.")] = False,
) -> None:
    """Copy the records of a study into a few small files, for publishing or archiving."""
    with _errors_explained():
        from knotwork.study import pack

        written = pack(folder, out, histories=histories)
    for plan, n_networks in written.items():
        typer.echo(f"{plan}: {n_networks:,} networks")


@study_app.command("status", epilog="Example: knotwork study status results")
def show_status(out: Annotated[Path, typer.Argument(help="Folder that a plan was run in.")]) -> None:
    """Show the progress of the plans in a folder, and estimate the remaining time."""
    with _errors_explained():
        from knotwork.study import study_status, written

        plans = study_status(out)
    for each in plans:
        typer.echo(f"{each.plan}: {each.n_ok:,} of {each.n_networks:,} networks trained, {each.n_failed:,} failed")
        if each.rate is not None:
            typer.echo(f"  rate: {each.rate:,.0f} networks per hour and process")
        rest = "not measured yet" if each.remaining is None else written(each.remaining)
        typer.echo(f"  remaining: {rest}; units claimed: {each.n_working}")
    for name, problem in plans[-1].problems.items():
        _say(f"{name} {problem}. It is ignored.", err=True)


@study_app.command("verify", epilog="Example: knotwork study verify results --sample 5 --only abalone")
def verify_study(
    folder: Annotated[Path, typer.Argument(help="Folder that plans were run in.")],
    *,
    sample: Annotated[int, typer.Option(min=1, help="Number of records to train again.")] = 20,
    random_seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
    plan: Annotated[str | None, typer.Option(help="Only records of this plan: its name or TOML file.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only records of this data set; may be repeated.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    alone: Annotated[
        bool, typer.Option("--alone", help="Train each network alone, which is faster than training its whole stack.")
    ] = False,
) -> None:
    """Train a sample of the recorded networks again, and compare: bit-identical, within noise, or different.

    The exit status is 0 if all agree, and 1 if a record is different or could not be trained again.
    """
    _let_idle_threads_sleep()
    with _errors_explained(), _warnings_explained():
        from knotwork.study import verify

        result = verify(
            folder,
            sample=sample,
            random_seed=random_seed,
            plan=plan,
            only=only or (),
            device=device,
            alone=alone,
            report=_say,
            progress=_progress(),
        )
    _print_verdicts(result.table)
    for note in result.notes:
        _say(note)
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in result.counts.items() if count) or "none trained"
    _say(f"{len(result.table):,} of {result.n_records:,} records were compared: {counts}.")
    if result.interrupted:
        typer.echo("Interrupted. Only the records above were compared; nothing was written.", err=True)
    raise typer.Exit(130 if result.interrupted else int(not result.agrees))


def _print_verdicts(verdicts: "pd.DataFrame") -> None:
    """Print the table of a verification."""
    table = Table(title="Recorded, and trained again here", title_justify="left")
    for heading in ("data set", "backbone", "method", "fold", "verdict", "score", "recorded", "here", "noise"):
        table.add_column(heading, justify="right" if heading in ("fold", "recorded", "here", "noise") else "left")
    row: Any
    for row in verdicts.itertuples():
        numbers = [f"{number:.6g}" for number in (row.recorded, row.retrained, row.noise)]
        shown = ["" if number == "nan" else number for number in numbers]
        cells = [row.dataset, row.backbone, row.encoding, str(row.fold), row.verdict, row.metric, *shown]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console(width=None if Console().is_terminal else 140).print(table)


if __name__ == "__main__":
    app()
