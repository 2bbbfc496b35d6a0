"""The command line."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    name="knotwork",
    help="Spline and piecewise-linear encodings of numerical columns for tabular deep learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


@app.callback()
def main() -> None:
    """Spline and piecewise-linear encodings of numerical columns for tabular deep learning."""


INTERRUPTED = "Interrupted. What is recorded stays; run the same command again for the rest."


@app.command(epilog="Example: knotwork demo --out demo, then open demo/report.html")
def demo(out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("demo")) -> None:
    """Train 210 small networks on three real tables in a minute or two, and write a report of what was found."""
    # Each command imports what it needs: `knotwork --help` answers at once.
    from knotwork.errors import ArgumentError
    from knotwork.report import report_folder
    from knotwork.study import run

    try:
        summary = run("demo", out, report=typer.echo, progress=_progress())
        page = report_folder(out, out / "report.html")
    except KeyboardInterrupt as error:
        typer.echo(INTERRUPTED, err=True)
        raise typer.Exit(130) from error
    except (ArgumentError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(
        f"{summary.n_ok + summary.n_before:,} networks, {summary.n_failed:,} failed, in {summary.seconds:.0f} s."
    )
    typer.echo(f"Report: {page.resolve()}\nOpen it in a browser: {page.resolve().as_uri()}")


def _progress() -> Any:
    """Return the display of training for a terminal; nothing where output goes to a file."""
    from knotwork.training._progress import ProgressBar

    return ProgressBar if sys.stderr.isatty() else None


@app.command(epilog="Example: knotwork report results, then open results/report.html")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study.")],
    out: Annotated[
        Path | None, typer.Option(help="The page, or a folder for it; by default report.html in the folder.")
    ] = None,
) -> None:
    """Write tables, figures and one page, report.html, from the records of a study. Nothing is trained."""
    from knotwork.report import report_folder

    page = out or folder
    page = page if page.suffix == ".html" else page / "report.html"
    with _told():
        report_folder(folder, page)
    typer.echo(f"Report: {page}\nTables: {page.parent / 'tables'}\nFigures: {page.parent / 'figures'}")


@app.command(epilog="Example: knotwork compare flats.csv --target rent, then open comparison/report.html")
def compare(
    table: Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow or Feather file.")],
    target: Annotated[str, typer.Option(help="Name of the column to predict.")],
    *,
    task: Annotated[str | None, typer.Option(help="regression or classification; by default inferred.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, as in Std,BS-Q,PLE@30; by default a choice.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Columns per feature, as in 7,15; by default 15.")] = None,
    backbone: Annotated[str, typer.Option(help="mlp, resnet or ft.")] = "mlp",
    folds: Annotated[int | None, typer.Option(help="Folds; by default 5, or 3 where time is short.")] = None,
    time_budget: Annotated[float, typer.Option(help="Seconds for all of it; 0 leaves the time open.")] = 300.0,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for report, model and tables.")] = Path("comparison"),
    seed: Annotated[int, typer.Option(help="Seeds all that is random.")] = 0,
) -> None:
    """Find out which encoding suits a table: ranking with intervals, recommendation, saved model, report."""
    started = time.perf_counter()  # loading torch is part of the time that a user waits
    _rest_between_loops()
    from knotwork.compare import CompareOptions, compare_table
    from knotwork.compare._options import read_sizes

    with _told():
        options = CompareOptions(
            task=task,
            methods=None if methods is None else tuple(methods.replace(",", " ").split()),
            sizes=read_sizes(sizes),
            backbone=backbone,
            folds=folds,
            time_budget=time_budget or None,
            seed=seed,
            drop=tuple(drop or ()),
        )
        found = compare_table(
            table, target, out=out, options=options, report=typer.echo, progress=_progress(), started=started
        )
    _show_ranking(found)


@contextmanager
def _told() -> Iterator[None]:
    """Say what is wrong with an argument, a column or a file, and exit as shells expect."""
    from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnError, PersistenceError

    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo("Interrupted before anything was finished. Run the same command again.", err=True)
        raise typer.Exit(130) from error
    except (ArgumentError, ArgumentTypeError, ColumnError, PersistenceError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _show_ranking(found: Any) -> None:
    """Print the ranking, what is recommended, and where things are; exit as after Ctrl-C if it was interrupted."""
    from knotwork.compare._page import ranking_table

    shown = ranking_table(found.ranking, found.task)
    table = Table(title=shown.title, title_justify="left")
    for name, numeric in zip(shown.columns, shown.numeric, strict=True):
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in shown.rows:
        table.add_row(*(cell.shown for cell in row))
    Console(width=max(Console().width, 150)).print(table)
    typer.echo("\n".join(found.summary))
    raise typer.Exit(130 if found.interrupted else 0)


@app.command(epilog="Example: knotwork predict comparison/model.knotwork new_flats.csv --out rents.csv")
def predict(
    model: Annotated[Path, typer.Argument(help="What 'knotwork compare' or an estimator's save wrote.")],
    table: Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow or Feather file with the model's columns.")],
    out: Annotated[Path, typer.Option(help="CSV or Parquet file to write.")] = Path("predictions.csv"),
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
) -> None:
    """Predict the rows of a file with a saved model: numbers, or classes and their probabilities."""
    _rest_between_loops()
    from knotwork.compare import predict_table

    with _told():
        rows = predict_table(model, table, out=out, drop=tuple(drop or ()))
    typer.echo(f"{len(rows):,} rows predicted: {out}")


datasets_app = typer.Typer(no_args_is_help=True, help="The data sets of the study: list, fetch and check them.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.command("list", epilog="Example: KNOTWORK_DATA=~/tables knotwork datasets list")
def list_datasets() -> None:
    """Show every data set: its task, its size, and where it is found."""
    from knotwork.datasets import cache_folder, data_folder, summarise_datasets
    from knotwork.errors import ArgumentError

    try:
        lines = summarise_datasets()
    except ArgumentError as error:  # a variable of the environment
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    table = Table(title="Data sets", title_justify="left")
    for heading in ("key", "task", "rows", "columns", "where"):
        table.add_column(heading, justify="right" if heading in ("rows", "columns") else "left", no_wrap=True)
    for line in lines:
        rows = f"{line.n_rows:,}" if line.n_drawn is None else f"{line.n_drawn:,} of {line.n_rows:,}"
        table.add_row(line.key, line.task, rows, f"{line.n_numerical} + {line.n_categorical}", line.where)
    Console(width=max(Console().width, 110)).print(table)  # whole words in a pipe, too
    typer.echo("Columns: numerical + categorical features.")
    typer.echo(f"KNOTWORK_DATA: {data_folder() or 'not set'}\ncache: {cache_folder()}")


@datasets_app.command("fetch", epilog="Example: knotwork datasets fetch abalone wine_quality")
def fetch_datasets(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys that 'knotwork datasets list' shows.")],
) -> None:
    """Fetch data sets from OpenML and UCI, check them, and keep them in the cache."""
    from knotwork.datasets import fetch_dataset
    from knotwork.errors import ArgumentError, DatasetMismatchError, DatasetUnavailableError

    failed = False
    for key in keys:
        try:
            typer.echo(f"{key}: {fetch_dataset(key)}")
        except (ArgumentError, DatasetMismatchError, DatasetUnavailableError) as error:
            typer.echo(f"{key}: FAILED. {error}", err=True)
            failed = True
    raise typer.Exit(int(failed))


@datasets_app.command("check", epilog="Example: knotwork datasets check abalone, or all: knotwork datasets check")
def check_datasets(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", help="Keys; without any, every data set that is found.")
    ] = None,
) -> None:
    """Compare files with the registry: checksum, columns, rows, target and classes."""
    from knotwork.datasets import DATASETS, check_dataset
    from knotwork.errors import ArgumentError

    try:
        checks = [check_dataset(key) for key in keys or DATASETS]
    except ArgumentError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    for check in checks:
        if check.path is None:
            typer.echo(f"{check.key}: not found; see 'knotwork datasets list'")
        else:
            typer.echo(
                f"{check.key}: {'ok' if check.is_good else 'FAILED. ' + '; '.join(check.problems)} ({check.path})"
            )
    n_good = sum(check.is_good for check in checks)
    wanted = len(checks) if keys else max(1, sum(check.path is not None for check in checks))
    typer.echo(f"{n_good} of {len(checks)} data sets are there and right.")
    raise typer.Exit(int(n_good < wanted))


study_app = typer.Typer(no_args_is_help=True, help="Studies: train what a plan says, in a folder that keeps it all.")
app.add_typer(study_app, name="study")

PLAN_HELP = "Name that 'knotwork study list' shows, or a TOML file."


@study_app.command("list", epilog="Example: knotwork study list")
def list_plans() -> None:
    """Show the built-in plans."""
    from knotwork.study import PLANS, load_plan

    table = Table(title="Plans", title_justify="left")
    for heading in ("name", "networks", "what"):
        table.add_column(heading, justify="right" if heading == "networks" else "left")
    for name in PLANS:
        plan = load_plan(name)
        table.add_row(name, f"{plan.n_networks:,}", plan.description)
    Console().print(table)


@study_app.command("show", epilog="Example: knotwork study show paper --out results (whose clocks give the estimate)")
def show_plan(
    name: Annotated[str, typer.Argument(help=PLAN_HELP)],
    out: Annotated[
        Path | None, typer.Option(help="Folder of a study whose records say how long networks take.")
    ] = None,
) -> None:
    """Show what a plan trains, and about how long that takes."""
    from knotwork.errors import ArgumentError, ArgumentTypeError
    from knotwork.study import load_plan
    from knotwork.study._status import plan_lines, written

    try:
        plan = load_plan(name)
        lines = plan_lines(plan, out)
    except (ArgumentError, ArgumentTypeError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{plan.name}: {plan.description}\nplan hash: {plan.plan_hash}")
    typer.echo(f"data sets ({len(plan.names)}): {', '.join(plan.names)}")
    typer.echo(f"methods ({len(plan.methods)}): {', '.join(plan.methods)}")
    typer.echo(f"sizes: {', '.join(map(str, plan.sizes)) or 'none'}; {plan.folds} {plan.split}, seed {plan.seed}")
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
    """Fit the encodings of a plan and keep them, so that the machine that trains needs no LightGBM."""
    from knotwork.errors import ArgumentError, ArgumentTypeError
    from knotwork.study import prepare_plan

    try:
        summary = prepare_plan(name, out, report=typer.echo)
    except KeyboardInterrupt as error:
        typer.echo("Interrupted. What is fitted stays; run the same command again for the rest.", err=True)
        raise typer.Exit(130) from error
    except (ArgumentError, ArgumentTypeError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{summary.n_ok:,} of {summary.n_networks:,} networks are prepared, in {summary.seconds:.0f} s: {out}")
    raise typer.Exit(int(bool(summary.n_failed or summary.unavailable)))


@study_app.command("run", epilog="Example: knotwork study run demo --out results. Run again, it does what is missing.")
def run_study(
    name: Annotated[str, typer.Argument(help=PLAN_HELP)],
    out: Annotated[Path, typer.Option(help="Folder for the results.")],
    *,
    engine: Annotated[str, typer.Option(help="Where units are trained: local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, for --engine ray.")] = None,
    units_per_gpu: Annotated[int, typer.Option(min=1, help="Units that share a GPU, for --engine ray.")] = 2,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Train again what has failed.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A data set to train on; repeat it for more.")] = None,
) -> None:
    """Train what is missing of a plan. It may be killed and run again, and run by several processes at once."""
    _rest_between_loops()
    from knotwork.errors import ArgumentError, ArgumentTypeError, MissingPackageError
    from knotwork.study import run

    try:
        summary = run(
            name,
            out,
            engine,
            device=device,
            retry_failed=retry_failed,
            report=typer.echo,
            progress=_progress(),
            address=address,
            units_per_gpu=units_per_gpu,
            only=only or (),
        )
    except KeyboardInterrupt as error:
        typer.echo(INTERRUPTED, err=True)
        raise typer.Exit(130) from error
    except (ArgumentError, ArgumentTypeError, MissingPackageError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(
        f"{summary.n_ok:,} trained, {summary.n_failed:,} failed, {summary.n_before:,} recorded before, in "
        f"{summary.seconds:.0f} s. Results: {out}"
    )
    raise typer.Exit(int(bool(summary.n_failed or summary.unavailable)))


def _rest_between_loops() -> None:
    """Let torch's threads sleep when they have nothing to do; they would keep the cores from the compiled loops.

    This is read when torch is loaded. A value that the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@study_app.command("pack", epilog="Example: knotwork study pack study --out results")
def pack_study(
    folder: Annotated[Path, typer.Argument(help="Folder that plans were run in.")],
    out: Annotated[Path, typer.Option(help="Folder for the copy.")],
    histories: Annotated[bool, typer.Option("--histories", help="Take along losses and scores of all epochs.")] = False,
) -> None:
    """Copy what counts of a study into a few small files, to publish or to keep."""
    from knotwork.errors import ArgumentError
    from knotwork.study import pack

    try:
        written = pack(folder, out, histories=histories)
    except (ArgumentError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    for plan, n_networks in written.items():
        typer.echo(f"{plan}: {n_networks:,} networks")


@study_app.command("status", epilog="Example: knotwork study status results")
def show_status(out: Annotated[Path, typer.Argument(help="Folder that a plan was run in.")]) -> None:
    """Show how far the plans in a folder are, and how long the rest may take."""
    from knotwork.errors import ArgumentError
    from knotwork.study._status import study_status, written

    try:
        found = study_status(out)
    except ArgumentError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    for each in found:
        typer.echo(f"{each.plan}: {each.n_ok:,} of {each.n_networks:,} networks trained, {each.n_failed:,} failed")
        if each.rate is not None:
            typer.echo(f"  rate: {each.rate:,.0f} networks per hour and process")
        rest = "not measured yet" if each.remaining is None else written(each.remaining)
        typer.echo(f"  remaining: {rest}; units claimed: {each.n_working}")
    for name, problem in found[-1].problems.items():
        typer.echo(f"Record {name} {problem}. It is ignored.", err=True)


if __name__ == "__main__":
    app()
