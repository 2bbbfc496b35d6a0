"""Write the table of the data sets of the paper's benchmark: rows, columns, splits and shares of classes.

    KNOTWORK_DATA=../shared/datasets python results/data_table.py

reads the tables and writes datasets.csv beside this file, from which the report is made without the tables.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from knotwork.datasets import DATASETS, load_dataset
from knotwork.report import Cell, ReportTable
from knotwork.study import make_splits

HERE = Path(__file__).parent
FILE = HERE / "datasets.csv"


def describe_dataset(key: str) -> dict[str, object]:
    """Return the row of a data set; sizes of splits are means over the five folds of the study."""
    spec, table = DATASETS[key], load_dataset(key)
    target = table.target_values()
    splits = make_splits(target, table.task)
    sizes = {part: np.mean([len(getattr(split, part)) for split in splits]) for part in ("train", "valid", "test")}
    counts = pd.Series(target).value_counts() if table.task == "classification" else None
    return {
        "dataset": key,
        "title": spec.title,
        "abbreviation": spec.abbreviation,
        "task": table.task,
        "rows": table.n_rows,
        "numerical": len(table.numerical),
        "categorical": len(table.categorical),
        **{part: round(float(size), 1) for part, size in sizes.items()},
        "classes": "" if counts is None else len(counts),
        "largest_class": "" if counts is None else round(100 * float(counts.iloc[0]) / table.n_rows, 2),
        "smallest_class": "" if counts is None else round(100 * float(counts.iloc[-1]) / table.n_rows, 2),
    }


def dataset_table(rows: pd.DataFrame, theirs: pd.DataFrame) -> ReportTable:
    """Return the table of a report, with the paper's numbers beside ours."""
    paper = theirs.set_index("abbreviation")
    lines = []
    for row in rows.to_dict("records"):
        other = paper.loc[row["abbreviation"]]
        columns = f"{row['numerical']} + {row['categorical']}"
        stated = f"{other['numerical']:.0f} + {other['categorical']:.0f}"
        parts = ("train", "valid", "test")
        numbers = [Cell(value=float(row[part]), digits=0) for part in ("rows", *parts)]
        shares = [Cell(value=float(row[name]), digits=1) for name in ("largest_class", "smallest_class")]
        lines.append(
            [
                Cell(row["title"]),
                numbers[0],
                Cell(value=float(other[list(parts)].sum()), digits=0),
                Cell(columns if columns == stated else f"{columns} (paper {stated})"),
                *numbers[1:],
                Cell(value=float(row["classes"]), digits=0),
                *shares,
                Cell(value=float(other["largest_class"]), digits=1),
            ]
        )
    return ReportTable(
        "datasets",
        "The data sets",
        "Rows without missing values, and those of the paper's splits; numerical + categorical columns, and those of "
        "the paper where they differ; mean numbers of training, validation and test rows over 5 folds; number of "
        "classes (none for regression), and the shares of the largest and the smallest one in percent, beside that of "
        "the largest in the paper.",
        ["data set", "rows", "paper's", "columns", "train", "valid", "test", "classes", "largest, %", "smallest, %",
         "paper's, %"],
        lines,
    )  # fmt: skip


def main() -> None:
    """Write the file."""
    pd.DataFrame([describe_dataset(key) for key in DATASETS]).to_csv(FILE, index=False)
    print(f"{len(DATASETS)} data sets: {FILE}")


if __name__ == "__main__":
    main()
