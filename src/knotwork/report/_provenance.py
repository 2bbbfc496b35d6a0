"""Where the numbers come from: plans, versions, machines, data, failures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from knotwork.datasets import DATASETS
from knotwork.report._tables import Cell, Table

__all__ = ["Failure", "checksum_table", "list_failures", "list_sources"]

_MOST_RUNS = 20
_MOST_CHARACTERS = 4000


@dataclass(frozen=True)
class Failure:
    """Runs that failed with the same last line.

    Parameters
    ----------
    reason : str
        The last line of the error.
    count : int
        Number of runs.
    runs : list of str
        The first of them, in words.
    details : str
        The error of the first one, whole or cut.
    """

    reason: str
    count: int
    runs: list[str]
    details: str


def list_sources(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return plans, versions, devices and seeds of the records, as names with values and numbers of networks."""
    columns = {"plan": "plan", "plan hash": "plan_hash", "version": "version", "torch": "torch_version",
               "device": "device", "host": "host"}  # fmt: skip
    found = []
    for name, column in columns.items():
        counts = frame[column].dropna().astype(str).value_counts()
        shown = [f"{value} ({count:,} networks)" for value, count in counts.items()]
        found.append((name, "; ".join(shown[:_MOST_RUNS]) if shown else "not recorded"))
    seeds = sorted({str(seed) for seed in frame["seed"].dropna()}, key=lambda seed: (len(seed), seed))
    more = f" and {len(seeds) - 20} more" if len(seeds) > 20 else ""
    return [*found, ("seeds", ", ".join(seeds[:20]) + more if seeds else "not recorded")]


def checksum_table(frame: pd.DataFrame) -> Table:
    """Return the SHA-256 of the data behind each data set, all if there are several, and how it departs from the paper.

    Departures are those of `knotwork.datasets.DATASETS`; they are given for data sets with one of its names.
    """
    rows = []
    for (task, dataset), part in frame.groupby(["task", "dataset"]):
        sums = sorted({str(value) for value in part["data_sha256"].dropna()})
        deviation = DATASETS[str(dataset)].deviation if str(dataset) in DATASETS else ""
        cells = (str(dataset), str(task), ", ".join(sums) or "not recorded", deviation or "none known")
        rows.append([Cell(text) for text in cells])
    caption = (
        "SHA-256 of the data as read (several for one data set mean that not all networks saw the same data), and how "
        "the registry says that it departs from the paper's."
    )
    return Table("data", "Data", caption, ["data set", "task", "SHA-256", "departure from the paper"], rows)


def list_failures(frame: pd.DataFrame) -> list[Failure]:
    """Return the failures, those with the same last line together, the most frequent first."""
    failed = frame[frame["status"] != "ok"].copy()
    failed["error"] = failed["error"].astype(object).where(failed["error"].notna(), "no error was recorded").astype(str)
    failed["reason"] = [
        text.strip().splitlines()[-1] if text.strip() else "no error was recorded" for text in failed["error"]
    ]
    found = []
    for reason, part in failed.groupby("reason", sort=False):
        runs = [_named(row) for row in part.head(_MOST_RUNS).to_dict("records")]
        details = part["error"].iloc[0]
        if len(details) > _MOST_CHARACTERS:
            details = f"… {len(details) - _MOST_CHARACTERS:,} characters left out …\n{details[-_MOST_CHARACTERS:]}"
        found.append(Failure(str(reason), len(part), runs, details))
    return sorted(found, key=lambda failure: -failure.count)


def _named(row: Mapping[Any, Any]) -> str:
    size = "" if pd.isna(row["size"]) else f", size {row['size']:.0f}"
    return f"{row['dataset']}, {row['network']}, {row['method']}{size}, fold {row['fold']}"
