"""How far a study is, and how long it may take, from the clocks of records."""

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pandas as pd

from knotwork.datasets import DATASETS, load_dataset
from knotwork.study._locks import PREPARING
from knotwork.study._manifest import require_manifests
from knotwork.study._plan import Plan
from knotwork.study._records import RecordIndex

__all__ = ["Line", "StudyStatus", "estimate_seconds", "plan_lines", "study_status", "written"]

Place = tuple[str, str | None, int | None]
"""Backbone, its tokens, and the size of networks."""


@dataclass(frozen=True)
class StudyStatus:
    """How far a plan is in a folder.

    Parameters
    ----------
    plan : str
        Its name.
    n_networks, n_ok, n_failed : int
        Networks in all, those that went well, and those that failed.
    n_working : int
        Units that processes have claimed.
    rate : float or None
        Networks per hour of one process, as recorded; None if nothing is.
    remaining : float or None
        Seconds that one process needs for the rest; None if nothing comparable is recorded.
    problems : dict of str to str
        Files among the records that were left out, and why.
    """

    plan: str
    n_networks: int
    n_ok: int
    n_failed: int
    n_working: int
    rate: float | None
    remaining: float | None
    problems: dict[str, str]


def study_status(out: str | PathLike[str]) -> list[StudyStatus]:
    """Return the status of every plan that was run in a folder, the latest last.

    Parameters
    ----------
    out : str or path
        The folder.
    """
    folder = Path(out).expanduser()
    manifests = require_manifests(folder)
    index = RecordIndex(folder).refresh()
    frame, states = index.frame(), index.states()
    n_working = sum(not path.name.startswith(PREPARING) for path in (folder / "locks").glob("*.lock"))
    found = []
    for manifest in manifests:
        networks = manifest["networks"]
        status = {network[0]: states[network[0]][0] for network in networks if network[0] in states}
        rest = [(manifest["n_rows"][each[1]], tuple(each[2:])) for each in networks if each[0] not in status]
        n_ok = sum(each == "ok" for each in status.values())
        own = frame[frame["key"].isin(list(status))]
        seconds = _worked_seconds(own)
        found.append(
            StudyStatus(
                manifest["plan"],
                len(networks),
                n_ok,
                len(status) - n_ok,
                n_working,
                3600.0 * len(own) / seconds if seconds else None,
                estimate_seconds(rest, frame),
                index.problems,
            )
        )
    return found


def _worked_seconds(frame: pd.DataFrame) -> float:
    """Return the seconds between start and record of all units."""
    units = frame.drop_duplicates(["host", "started_at", "recorded_at"])
    return float((units["recorded_at"] - units["started_at"]).sum())


def estimate_seconds(networks: Iterable[tuple[int, Place]], frame: pd.DataFrame) -> float | None:
    """Return about how long networks take on the device of the latest record, in one process.

    Parameters
    ----------
    networks : iterable of tuple
        For each its number of rows, and its backbone, tokens and size.
    frame : DataFrame
        Records.

    Returns
    -------
    float or None
        Seconds; None if a backbone was never measured.

    Notes
    -----
    For each backbone and size, seconds = rows * (recorded seconds / recorded rows); for a size that was not measured,
    the sizes of the same backbone that were are taken together.
    """
    good = frame[frame["status"] == "ok"]
    if len(good):
        good = good[good["device"] == good.sort_values("recorded_at")["device"].iloc[-1]]
    good = good.assign(tokens=good["tokens"].fillna(""), size=good["size"].fillna(0))
    by_size = _rates(good, ["backbone", "tokens", "size"])
    by_backbone = _rates(good, ["backbone", "tokens"])
    total = 0.0
    for n_rows, (label, tokens, size) in networks:
        backbone = (label, tokens or "")
        rate = by_size.get((*backbone, size or 0), by_backbone.get(backbone))
        if rate is None:
            return None
        total += rate * n_rows
    return total


def _rates(frame: pd.DataFrame, by: list[str]) -> dict[tuple[object, ...], float]:
    """Return seconds per network and row of each group."""
    sums = frame.groupby(by)[["train_seconds", "prepare_seconds", "n_rows"]].sum()
    seconds = sums["train_seconds"] + sums["prepare_seconds"]
    return dict(zip(sums.index, seconds / sums["n_rows"], strict=True))


@dataclass(frozen=True)
class Line:
    """What a plan trains with one backbone.

    Parameters
    ----------
    backbone : str
        The backbone, with its tokens.
    n_networks : int
        Networks.
    seconds : float or None
        About how long they take; None if that was not measured.
    """

    backbone: str
    n_networks: int
    seconds: float | None


def plan_lines(plan: Plan, out: str | PathLike[str] | None = None) -> list[Line]:
    """Return what a plan trains with each backbone, and about how long that takes.

    Parameters
    ----------
    plan : Plan
        The plan.
    out : str or path, optional
        Folder of a study whose records say how long networks take.
    """
    frame = None if out is None else RecordIndex(Path(out).expanduser()).refresh().frame()
    lines = []
    for choice in plan.backbones:
        seconds = None
        n_networks = plan.n_networks // len(plan.backbones)
        if frame is not None:
            rows = [_n_rows(name) for name in plan.names]
            places = [
                (n_rows, (choice.label, choice.tokens, encoding.size))
                for n_rows in rows
                if n_rows is not None
                for encoding in plan.encodings
                for _ in range(plan.folds * len(plan.variant_names))
            ]
            seconds = estimate_seconds(places, frame) if None not in rows else None
        tokens = f" ({choice.tokens} tokens)" if choice.tokens else ""
        lines.append(Line(choice.label + tokens, n_networks, seconds))
    return lines


def _n_rows(name: str) -> int | None:
    """Return the rows of a data set; None for a user's file, which is not read for this."""
    if name in DATASETS:
        spec = DATASETS[name]
        return spec.subsample or spec.n_rows
    try:
        return load_dataset(name).n_rows
    except ValueError:
        return None


def written(seconds: float) -> str:
    """Write a time for people.

    Examples
    --------
    >>> written(50), written(5000), written(500000)
    ('50 s', '1 h 23 min', '5 d 18 h')
    """
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
