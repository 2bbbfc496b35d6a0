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
    console.print(f"Picture of the bases: [bold]{picture}[/bold]")


if __name__ == "__main__":
    app()
