"""The command line."""

from pathlib import Path
from typing import Annotated

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


@app.command(epilog="Example: knotwork demo --out demo --size 15")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
    size: Annotated[int, typer.Option(min=4, help="Columns per feature.")] = 7,
) -> None:
    """Compare four encodings on two real tables in a few seconds, and draw their functions."""
    # Each command imports what it needs: `knotwork --help` answers at once.
    from sklearn.datasets import load_diabetes  # noqa: PLC0415

    from knotwork.report.bases import draw_bases  # noqa: PLC0415
    from knotwork.study.linear import compare_linear  # noqa: PLC0415

    console = Console()
    table = Table(title=f"Five-fold cross-validation, linear model, {size} columns per feature", title_justify="left")
    for heading in ("data set", "metric", "method", "mean", "std over folds"):
        table.add_column(heading, justify="right" if heading in ("mean", "std over folds") else "left")
    scores = compare_linear(["Std", "PLE", "BS-Q", "IS-Q"], size=size)
    best = {score.dataset: max(s.mean for s in scores if s.dataset == score.dataset) for score in scores}
    for score in scores:
        mean = f"{score.mean:.4f}"
        table.add_row(
            score.dataset,
            f"{score.metric} (higher is better)",
            score.method,
            f"[bold]{mean}[/bold]" if score.mean == best[score.dataset] else mean,
            f"{score.deviation:.4f}",
            end_section=score.method == "IS-Q",
        )
    console.print(table)
    data = load_diabetes(as_frame=True, scaled=False)
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "bases.png"
    draw_bases(data.data["bmi"].to_numpy(), data.target.to_numpy(), name="body mass index", size=size).savefig(
        picture, dpi=150
    )
    console.print(f"Picture of the bases: [bold]{picture}[/bold]", soft_wrap=True)


@app.command(epilog="Example: knotwork report results, then open results/report.html")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study.")],
    out: Annotated[Path | None, typer.Option(help="The page; by default report.html in the folder.")] = None,
    paper: Annotated[Path | None, typer.Option(help="Folder with average_ranks_*.csv to compare with.")] = None,
) -> None:
    """Write tables, figures and one page, report.html, from the records of a study. Nothing is trained."""
    from knotwork.errors import ArgumentError  # noqa: PLC0415
    from knotwork.report.document import load_plans, load_records, make_report  # noqa: PLC0415

    page = out or folder / "report.html"
    try:
        make_report(load_records(folder), page, plan=load_plans(folder), paper=paper)
    except ArgumentError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(f"Report: {page}\nTables: {page.parent / 'tables'}\nFigures: {page.parent / 'figures'}")


datasets_app = typer.Typer(no_args_is_help=True, help="The data sets of the study: list, fetch and check them.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.command("list", epilog="Example: KNOTWORK_DATA=~/tables knotwork datasets list")
def list_datasets() -> None:
    """Show every data set: its task, its size, and where it is found."""
    from knotwork.datasets import cache_folder, data_folder, summarise_datasets  # noqa: PLC0415
    from knotwork.errors import ArgumentError  # noqa: PLC0415

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
    from knotwork.datasets import fetch_dataset  # noqa: PLC0415
    from knotwork.errors import ArgumentError, DatasetMismatchError, DatasetUnavailableError  # noqa: PLC0415

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
    from knotwork.datasets import DATASETS, check_dataset  # noqa: PLC0415
    from knotwork.errors import ArgumentError  # noqa: PLC0415

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


if __name__ == "__main__":
    app()
