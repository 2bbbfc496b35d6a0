"""Write the report of the records in this folder, with a section that compares them with the paper.

    python results/report.py build/paper

writes build/paper/report.html with the folders tables and figures beside it, and puts a copy of the page, which needs
no other file, into docs/paper, and two of its figures into docs/images. Nothing is trained. `make paper-tables` runs
it.
"""

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from comparison import (
    N_BACKBONES,
    PAPER_PROBLEMS,
    Comparison,
    RankComparison,
    agreement_table,
    compare_ablation,
    compare_averages,
    compare_ranks,
    describe_agreement,
)
from data_table import FILE as DATA
from data_table import dataset_table

from knotwork.datasets import encoding_illustration
from knotwork.report import (
    Picture,
    RankPair,
    ReportPart,
    Section,
    draw_agreement,
    draw_cd_diagram,
    draw_encoded_value,
    report_folder,
)
from knotwork.stats import critical_difference

HERE = Path(__file__).parent
PUBLISHED = HERE.parent / "docs" / "paper" / "report.html"
IMAGES = HERE.parent / "docs" / "images"
SHOWN = ("opening", "paper_agreement")
"""Figures that the guide shows, in docs/findings.md."""
BACKGROUND = re.compile('style="fill: #(ffffff|15181c)"', re.IGNORECASE)
FILES = {
    **{task: f"average_ranks_{task}.csv" for task in PAPER_PROBLEMS},
    "ablation": "ablation_nrmse.csv",
    "averages": "quoted_averages.csv",
}
"""Files with the paper's numbers, in the folder ``paper``."""


def paper_numbers(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the paper's numbers by the keys of `FILES`, those whose files exist."""
    return {name: pd.read_csv(folder / file) for name, file in FILES.items() if (folder / file).exists()}


def paper_section(parts: Sequence[ReportPart], theirs: Mapping[str, pd.DataFrame]) -> Section:
    """Return the section that compares our numbers with the paper's: ranks, averages and ablation.

    `theirs` is as from `paper_numbers`; of the parts of the report the main benchmark is the first.
    """
    main = next((part for part in parts if part.kind == "benchmark"), None)
    ranks = [] if main is None else compare_ranks(main.summary, main.tables, theirs)
    others: list[Comparison] = []
    if main is not None and "averages" in theirs:
        others += compare_averages(main.summary, theirs["averages"])
    if "ablation" in theirs:
        grids = [part for part in parts if part.kind != "traces"]
        others += [each for part in grids for each in compare_ablation(part.summary, theirs["ablation"])]
    if not ranks and not others:
        words = "No number of these records has a counterpart among the paper's numbers."
        return Section("Does this agree with the paper?", [words], name="paper")
    single = [entry.as_table() for entry in ranks if entry.network is not None]
    content = [*_ranks(ranks, theirs), *map(_comparison, others)]
    return Section("Does this agree with the paper?", content, name="paper", files=single)


def encodings_section(parts: Sequence[ReportPart]) -> Section:
    """Return the paper's figure of one value in all encodings; it depends on no record."""
    del parts
    figure = draw_encoded_value(encoding_illustration(seed=42), x=0.58, size=6)
    caption = (
        "The first figure of the paper: the value 0.58 (red) of a column of 44 values, scaled, and encoded by each "
        "family at size 6 with equally spaced knots. Marks are the values of the functions, bars the encoded "
        "coordinates. The values are drawn as the paper describes, with a random seed of our own."
    )
    label = "One value after scaling, and encoded by piecewise-linear ramps, B-, M- and I-splines of size 6."
    picture = Picture("encoded_value", figure, caption, label)
    return Section("How is a value encoded?", [picture], name="encodings", folded=True)


def data_section(parts: Sequence[ReportPart]) -> Section:
    """Return the data sets of the main benchmark, with their columns, splits and classes."""
    rows = pd.read_csv(DATA)
    main = next((part for part in parts if part.kind == "benchmark"), None)
    used = rows if main is None else rows[rows["dataset"].isin(main.frame["dataset"])]
    table = dataset_table(used, pd.read_csv(HERE / "paper" / "datasets.csv"))
    return Section("What are the data sets?", [table], name="datasets", folded=True)


def _ranks(ranks: Sequence[RankComparison], theirs: Mapping[str, pd.DataFrame]) -> list[str | Picture | Section | None]:
    """Return sentences, figures and tables on average ranks; nothing without ranks."""
    if not ranks:
        return []
    overall = [entry for entry in ranks if entry.network is None]
    diagrams = [
        paper_picture(theirs[entry.table.task], entry.table.task, size=int(entry.table.size or 0)) for entry in overall
    ]
    table, tables = agreement_table(ranks), [entry.as_table() for entry in overall]
    return [
        *describe_agreement(ranks),
        agreement_picture(overall),
        Section(f"{table.title}, setting by setting", [table], folded=True),
        Section("Average ranks, method by method", [Section("", tables)], folded=True),
        Section("The paper's own critical difference diagrams", [Section("", diagrams)], folded=True),
    ]


def _comparison(comparison: Comparison) -> Section:
    table = Section("Ours, theirs, difference", [comparison.table], folded=True)
    return Section(comparison.table.title, [*comparison.sentences, table])


def agreement_picture(ranks: Sequence[RankComparison]) -> Picture | None:
    """Return our average ranks against the paper's; None if no two methods are compared."""
    ranks = [entry for entry in ranks if len(entry.both) > 1]
    if not ranks:
        return None
    titles: dict[str, str] = {}
    pairs, labels = [], []
    for place, entry in enumerate(ranks):
        rho = entry.correlation
        label = entry.label + ("" if rho is None else f", correlation {rho.rho:.2f}")
        methods, ours, theirs = list(map(str, entry.both.index)), entry.both["ours"], entry.both["theirs"]
        pairs.append(RankPair(label, methods, ours.to_numpy(), theirs.to_numpy()))
        labels.append(label)
        titles |= {
            f"point-{place}-{i}": f"{method}: {ours.iloc[i]:.2f} here, {theirs.iloc[i]:.2f} in the paper"
            for i, method in enumerate(methods)
        }
    return Picture(
        "paper_agreement",
        draw_agreement(pairs, ours="average rank here", theirs="average rank in the paper"),
        "Average ranks here against the paper's, with the rank correlation. On the dashed line both are the same; "
        "below it a method does better here.",
        f"Average ranks here against those of the paper. {'; '.join(labels)}.",
        titles,
        methods={
            f"point-{place}-{i}": method for place, pair in enumerate(pairs) for i, method in enumerate(pair.methods)
        },
    )


def paper_picture(paper: pd.DataFrame, task: str, *, size: int) -> Picture | None:
    """Return the critical difference diagram of the paper's ranks; None if it has fewer than two of this size.

    `paper` has a column `method`, and a column ``m{size}`` for each size.
    """
    column = f"m{size}"
    if column not in paper.columns or paper[column].notna().sum() < 2:
        return None
    ranks = paper.dropna(subset=[column]).set_index("method")[column].astype(float).sort_values(kind="stable")
    names, values, n = [str(name) for name in ranks.index], ranks.to_numpy(), PAPER_PROBLEMS[task]
    cd = critical_difference(len(ranks), n)
    label = f"{task.capitalize()}, size {size}"
    shown = ", ".join(f"{name} {value:.2f}" for name, value in zip(names, values, strict=True))
    return Picture(
        f"paper_cd_{task}_size{size}",
        draw_cd_diagram(names, values, cd, title=f"{label}, the paper's ranks").get_figure(root=True),
        f"{label}, the paper's numbers: average ranks over {n} problems. Bars join methods that do not differ "
        f"significantly (Nemenyi, 0.05), if problems are independent; with each data set as one problem, the critical "
        f"difference is {critical_difference(len(ranks), n // N_BACKBONES):.2f}.",
        f"Critical difference diagram of the paper's ranks, {label}. Critical difference {cd:.2f}. Average ranks: "
        f"{shown}.",
    )


def all_sections() -> list[Callable[[Sequence[ReportPart]], Section]]:
    """Return the functions that make the further sections of the report."""
    theirs = paper_numbers(HERE / "paper")
    return [lambda parts: paper_section(parts, theirs), data_section, encodings_section]


def main(out: Path) -> None:
    """Write the report into a folder, and its page into the guide."""
    page = report_folder(HERE, out / "report.html", sections=all_sections())
    PUBLISHED.parent.mkdir(exist_ok=True)
    shutil.copyfile(page, PUBLISHED)
    for name in SHOWN:
        for file in (f"{name}.svg", f"{name}_dark.svg"):
            text = (out / "figures" / file).read_text(encoding="utf-8")
            # The guide's own background shows through.
            (IMAGES / file).write_text(BACKGROUND.sub('style="fill: none"', text), encoding="utf-8")
    print(f"Report: {page}, and in the guide {PUBLISHED}\nTables: {out / 'tables'}\nFigures: {out / 'figures'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
