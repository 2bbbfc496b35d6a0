"""Progress of a study, and estimates of training times from its records."""

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pandas as pd

from knotwork.datasets import DATASETS, load_dataset
from knotwork.study._folder import PREPARING
from knotwork.study._plan import BackboneChoice, Plan
from knotwork.study._records import RecordIndex

NetworkKind = tuple[str, str | None, int | None]
"""Backbone, tokens and size of a network."""


@dataclass(frozen=True)
class StudyStatus:
    """Progress of a plan in a folder.

    `n_working` counts the locked units in the folder. `rate` is the number of networks per hour and process,
    `remaining` the seconds that one process needs for the rest; both are None without comparable records. `problems`
    has the reasons why files are ignored, by their paths within the folder.
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
    """Return the status of every plan that was run in a folder, the latest last."""
    folder = Path(out).expanduser()
    index = RecordIndex(folder).refresh()
    manifests = index.manifests(required=True)
    frame = index.frame()
    n_working = sum(not path.name.startswith(PREPARING) for path in (folder / "locks").glob("*.lock"))
    statuses = []
    for manifest in manifests:
        networks = manifest["networks"]
        recorded = frame[frame["key"].isin([network[0] for network in networks])]
        done = set(recorded["key"])
        rest = [(manifest["n_rows"][each[1]], tuple(each[2:])) for each in networks if each[0] not in done]
        n_ok = int((recorded["status"] == "ok").sum())
        units = recorded.drop_duplicates(["host", "started_at", "recorded_at"])
        seconds = float((units["recorded_at"] - units["started_at"]).sum())
        statuses.append(
            StudyStatus(
                plan=manifest["plan"],
                n_networks=len(networks),
                n_ok=n_ok,
                n_failed=len(recorded) - n_ok,
                n_working=n_working,
                rate=3600.0 * len(recorded) / seconds if seconds else None,
                remaining=_estimate_seconds(rest, frame),
                problems=index.problems,
            )
        )
    return statuses


def _estimate_seconds(networks: Iterable[tuple[int, NetworkKind]], frame: pd.DataFrame) -> float | None:
    """Estimate the training time of networks in one process on the device of the latest record.

    Networks are given as numbers of rows and kinds. For each backbone and size, seconds = rows * (recorded seconds /
    recorded rows); a size without records uses all records of its backbone. None if a backbone has no records.
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
    """Return the seconds per network and row for each group."""
    sums = frame.groupby(by)[["train_seconds", "prepare_seconds", "n_rows"]].sum()
    seconds = sums["train_seconds"] + sums["prepare_seconds"]
    return dict(zip(sums.index, seconds / sums["n_rows"], strict=True))


def backbone_estimates(
    plan: Plan, out: str | PathLike[str] | None = None
) -> list[tuple[BackboneChoice, int, float | None]]:
    """Return the backbones of a plan, each with the number of its networks and their estimated time.

    Times are estimated from the records of the study in `out`; None without records.
    """
    frame = None if out is None else RecordIndex(Path(out).expanduser()).refresh().frame()
    rows = [] if out is None else [_n_rows(name) for name in plan.names]
    repeats = len(plan.trained_folds) * plan.n_seeds * len(plan.variant_names)
    lines = []
    for choice in plan.backbones:
        sizes = [(choice.label, choice.tokens, encoding.size) for encoding in plan.encodings]
        kinds = [(n_rows * repeats, size) for n_rows in rows if n_rows is not None for size in sizes]
        seconds = None if frame is None or None in rows else _estimate_seconds(kinds, frame)
        lines.append((choice, plan.n_networks // len(plan.backbones), seconds))
    return lines


def _n_rows(name: str) -> int | None:
    """Return the number of rows of a data set; None for a user's file, which is not read."""
    if name in DATASETS:
        spec = DATASETS[name]
        return spec.subsample or spec.n_rows
    try:
        return load_dataset(name).n_rows
    except ValueError:
        return None
