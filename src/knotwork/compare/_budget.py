"""What a comparison trains within its time budget: rows, folds, candidates and epochs, from the measured speed."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from knotwork._preparation.members import PreparedTable
from knotwork.compare._scoring import VALIDATION_SHARE, fold_table, groups_of
from knotwork.compare._source import Source
from knotwork.encoders import Encoding
from knotwork.nn import Backbone
from knotwork.report import enumerate_words
from knotwork.training import EpochReport, Member, TrainingConfig, network_products, train

__all__ = [
    "ComparisonSchedule",
    "Speed",
    "make_schedule",
    "measure_speed",
    "refit_rows",
    "report_seconds",
    "unlimited_schedule",
]

DEFAULT_FOLDS, FEWEST_FOLDS = 5, 3

GOOD_EPOCHS, FEWEST_EPOCHS, MOST_EPOCHS = 30, 10, TrainingConfig().max_epochs
"""Epochs after which training has stopped on most tables, and the fewest that make a comparison useful."""

FEWEST_CANDIDATES, FEWEST_COLUMNS = 3, 30
"""Candidates and numerical columns that are always compared."""

REPORT_SECONDS = 4.0
"""Seconds of a processor for the report."""

FINAL_NETWORKS = 3
"""Networks of the smallest ensemble."""

GOOD_ROWS, SMALL_ROWS, FEWEST_ROWS = 10_000, 3_000, 500
"""Rows to which a table is reduced in favour of candidates, in favour of folds and epochs, and the minimum."""

MARGIN = 0.04
"""Share of the time that is kept as a reserve."""

REFIT_SHARE = 0.3
"""Largest share of the time for the final model."""

BASELINE_SHARE = 0.15
"""Largest share of the time of the comparison for the baselines."""

SCORING = 1.15
"""Ratio of the time of an epoch, with validation rows and a share of the test rows, to that of its training steps."""

ALONE = 3.0
"""Ratio of the time of a network that is trained alone to its share of a stack."""

ROWS_READ = 20_000
"""Rows in which categories are counted; their number determines the size of the network."""

ROWS_TRAINED, ROWS_FITTED, MOST_COLUMNS = 512, 3_000, 100
"""Rows for measuring the speed of training and of fitting encodings, and columns of both, at most."""

PRODUCTS_MEASURED = 1e9
"""Products of weights in a measured training, about: wide tables are measured with fewer rows."""

MOST_MEMBERS, FEWEST_MEMBERS = 9, 3
"""Networks in a stack that is measured: in smaller stacks the time per network is longer."""

BATCH = 64
"""The smaller of two batch sizes, from which the fixed time of a step and its time per row are computed."""


@dataclass(frozen=True)
class Speed:
    """Measured seconds of a machine for a table.

    `steps` has for each size the seconds of a network's step in a stack: a fixed part, and a part per row of the batch.
    `prepare` has the seconds per row of fitting each encoding, `build` the seconds of making one network of each size.
    """

    steps: Mapping[int, tuple[float, float]]
    prepare: Mapping[Encoding, float]
    build: Mapping[int, float]

    def epoch(self, size: int, n_rows: int) -> float:
        """Return the seconds of an epoch of one network of a stack on `n_rows` training rows.

        Examples
        --------
        >>> Speed({7: (0.001, 0.0)}, {}, {}).epoch(7, 6400)
        0.1
        """
        batch = min(TrainingConfig().batch_size_for(n_rows), n_rows)
        fixed, per_row = self.steps[size]
        return math.ceil(n_rows / batch) * (fixed + per_row * batch)

    def scaled(self, factor: float) -> "Speed":
        """Return the speed for `factor` times as many columns, if time is proportional to them."""
        return Speed(
            {size: (factor * fixed, factor * per_row) for size, (fixed, per_row) in self.steps.items()},
            {encoding: factor * seconds for encoding, seconds in self.prepare.items()},
            {size: factor * seconds for size, seconds in self.build.items()},
        )


def measure_speed(
    source: Source, candidates: Sequence[Encoding], *, backbone: Backbone, device: Any = "auto", seed: int = 0
) -> Speed:
    """Fit every encoding, and train a few networks of the largest size for two epochs.

    Of a wide table some columns are used, and the times are those of all columns in proportion.
    """
    drawn = source.draw(ROWS_READ, seed=seed)
    n_columns = drawn.features.shape[1]
    places = np.unique(np.linspace(0, n_columns - 1, min(n_columns, MOST_COLUMNS)).round().astype(np.int64))
    prepared = fold_table(drawn.select(places.tolist()), folds=3, seed=seed)
    split, table = prepared.splits[0], prepared.table
    n_fitted, n_numerical = min(len(split.train), ROWS_FITTED), table.numbers.shape[1]
    columns = {candidate: (candidate,) * n_numerical for candidate in candidates}
    # The first fit loads libraries and compiles loops, which happens once and is not part of the speed.
    prepared.fit([columns[candidates[0]]], split, most_rows=10)
    fitted = dict(zip(candidates, prepared.fit(list(columns.values()), split, most_rows=n_fitted), strict=True))
    groups = groups_of(candidates)
    largest = max(groups)
    products = {size: network_products(table, size, None, backbone) for size in groups}
    most = PRODUCTS_MEASURED / products[largest]
    n_members = MOST_MEMBERS if most > MOST_MEMBERS * ROWS_TRAINED else FEWEST_MEMBERS
    n_rows = int(np.clip(most / n_members, 2 * BATCH, ROWS_TRAINED))
    small = replace(split, train=split.train[:n_rows], valid=split.valid[: n_rows // 10])
    encodings = [groups[largest][place % len(groups[largest])] for place in range(n_members)]
    members = [prepared.member(columns[encoding], small, fitted[encoding].encodings) for encoding in encodings]
    fixed, per_row, build = _step_times(prepared, members, backbone, device)
    ratio = {size: products[size] / products[largest] for size in groups}
    # Part of the fixed time is that of the optimiser, which grows with the weights, as products do.
    speed = Speed(
        {size: (fixed * ratio[size] ** 0.5, per_row * ratio[size]) for size in groups},
        {candidate: fit.seconds / n_fitted for candidate, fit in fitted.items()},
        {size: build * ratio[size] for size in groups},
    )
    return speed.scaled(max(n_columns / MOST_COLUMNS, 1.0))


def _step_times(
    prepared: PreparedTable, members: list[Member], backbone: Backbone, device: Any
) -> tuple[float, float, float]:
    """Return the fixed part and the part per row of the seconds of a step of one network, and those of making it."""
    batches = sorted({min(batch, len(members[0].train)) for batch in (BATCH, ROWS_TRAINED)})
    measured = [_step_seconds(prepared, members, backbone, device, batch) for batch in batches]
    step, build = measured[-1]
    if len(batches) == 1:
        return 0.0, step / batches[0], build
    # Noise can make the small batch as slow as the large one; rows still cost something in large tables.
    per_row = max((step - measured[0][0]) / (batches[1] - batches[0]), 0.2 * step / batches[1])
    return max(step - per_row * batches[1], 0.0), per_row, build


def _step_seconds(
    prepared: PreparedTable, members: list[Member], backbone: Backbone, device: Any, batch: int
) -> tuple[float, float]:
    """Return the seconds of a step of one network without the first epoch, and those before it, per network."""
    clock, steps = [time.perf_counter()], list[int]()

    def record(report: EpochReport) -> None:
        clock.append(time.perf_counter())
        steps.append(report.steps)

    config = TrainingConfig(max_epochs=2, batch_size=batch)
    train(prepared.table, members, backbone, config, device=device, report=record)
    first, *later = np.diff(clock).tolist()
    # Kernels are compiled in the first epoch, once for all.
    return float(np.median(np.array(later) / np.array(steps[1:]))), max(first - later[0], 0.0) / len(members)


@dataclass(frozen=True)
class ComparisonSchedule:
    """What is trained.

    Seconds are for the comparison, the final model and the report; None without a budget. `costs` has the seconds of
    each group of candidates, by size. `fits` tells whether the expected time is within the budget. `column_share` is
    the share of the numerical columns that the comparison has, `final_share` that of the final model.
    """

    candidates: tuple[Encoding, ...]
    folds: int
    n_rows: int
    max_epochs: int
    seconds: float | None = None
    refit_seconds: float | None = None
    report_seconds: float | None = None
    costs: dict[int, float] = field(default_factory=dict)
    fits: bool = True
    column_share: float = 1.0
    final_share: float = 1.0

    @property
    def n_networks(self) -> int:
        """Networks to train, without the final model."""
        return len(self.candidates) * self.folds

    def describe(self, candidates: Sequence[Encoding], *, n_rows: int, backbone: str) -> list[str]:
        """Return sentences on the networks and the time, for a table of `n_rows` rows and all possible candidates."""
        of_all = f"{self.n_rows:,} of {n_rows:,} rows, drawn at random"
        lines = [
            f"To be compared: {_listed(self.candidates)}, by {self.folds} folds on "
            f"{f'all {n_rows:,} rows' if self.n_rows == n_rows else of_all}: {self.n_networks} networks ({backbone}), "
            f"each of at most {self.max_epochs} epochs."
        ]
        if self.column_share < 1:
            lines.append(
                f"Because time is short, the comparison uses {100 * self.column_share:.0f} % of the numerical columns, "
                "those that are most related to the target, so its scores are a little too good. The model uses "
                f"{100 * self.final_share:.0f} %."
            )
        skipped = [candidate for candidate in candidates if candidate not in self.candidates]
        if skipped:
            lines.append(
                f"Skipped because time is short: {_listed(skipped)}. Use --methods and --sizes to include them."
            )
        if self.seconds is None:
            return [*lines, "No time budget: training continues until early stopping."]
        lines.append(
            f"Time: at most {self.seconds:.0f} s for the comparison, {self.report_seconds:.0f} s for the report, and "
            f"the rest, at least {self.refit_seconds:.0f} s, for the model on all rows, with a margin."
        )
        if not self.fits:
            lines.append(
                "Warning: this is the smallest useful comparison, and it is expected to exceed the time budget, so "
                "training will be cut short. Give a larger --time-budget, fewer --methods, or fewer --folds."
            )
        return lines


def _listed(candidates: Sequence[Encoding]) -> str:
    return enumerate_words([str(candidate) for candidate in candidates])


def unlimited_schedule(candidates: Sequence[Encoding], *, folds: int | None, n_rows: int) -> ComparisonSchedule:
    """Return the schedule without a budget: all candidates on all rows, until early stopping."""
    costs = {size: float(len(group)) for size, group in groups_of(candidates).items()}
    return ComparisonSchedule(tuple(candidates), folds or DEFAULT_FOLDS, n_rows, MOST_EPOCHS, costs=costs)


def report_seconds(budget: float, availability: float = 1.0) -> float:
    """Return the time for writing the report; `availability` is the part of a processor that the program has."""
    return min(0.25 * budget / availability, max(7.0 + 0.02 * budget, REPORT_SECONDS / availability), 0.4 * budget)


def make_schedule(
    speed: Speed,
    candidates: Sequence[Encoding],
    counts: Sequence[int],
    *,
    n_rows: int,
    folds: int | None,
    budget: float,
    left: float,
    final: float | None = None,
    availability: float = 1.0,
    n_columns: int = 1,
) -> ComparisonSchedule:
    """Choose what fits into the time.

    Rows are reduced first, because 10,000 of them suffice to distinguish encodings; then the less promising candidates
    are dropped, then more rows, folds, epochs, and finally columns. Folds come late, because without them nothing is
    significant. Methods, sizes and folds given by the user are kept.

    `candidates` are all, the most promising first, and `counts` how many to try, the largest first. `folds` are those
    given by the user. Of `budget` seconds, `left` are left; `final` are those of the final model, by default those of
    the slowest candidate. The program has the part `availability` of a processor, by which the time of the report is
    planned. A table of many columns is compared with fewer.
    """
    report = report_seconds(budget, availability)
    usable = max((1 - MARGIN) * left - report, 0.1)
    most, least = folds or DEFAULT_FOLDS, folds or FEWEST_FOLDS
    kept = candidates[: counts[-1]]
    fewest = candidates[: min(FEWEST_CANDIDATES, counts[-1])] if len(counts) > 1 else kept
    ladder = [
        (candidates, most, n_rows, GOOD_EPOCHS),
        *((candidates[:count], most, GOOD_ROWS, GOOD_EPOCHS) for count in counts),
        (kept, most, SMALL_ROWS, GOOD_EPOCHS),
        (kept, least, SMALL_ROWS, GOOD_EPOCHS),
        (kept, least, SMALL_ROWS, FEWEST_EPOCHS),
        (fewest, least, FEWEST_ROWS, FEWEST_EPOCHS),
    ]
    shares: dict[str, Any] = {}
    for group, k, floor, epochs in ladder:
        refit = min(_slowest(speed, group, n_rows) if final is None else final, REFIT_SHARE * usable)
        top = n_rows if epochs == GOOD_EPOCHS else min(SMALL_ROWS, n_rows)
        networks = (1 - BASELINE_SHARE) * (usable - refit)
        rows = _most_rows(speed, group, k, epochs, range(min(floor, top), top), networks)
        if rows is not None:
            break
    else:
        rows, smallest = min(FEWEST_ROWS, n_rows), min(FEWEST_COLUMNS / n_columns, 1.0)
        needed = sum(_costs(speed, group, k, rows, epochs).values())
        share = float(np.clip(networks / needed, smallest, 1.0))
        final_least = FINAL_NETWORKS * max(speed.build[size] + 2 * speed.epoch(size, n_rows) for size in speed.build)
        shares = {"column_share": share, "final_share": float(np.clip(refit / final_least, smallest, 1.0))}
        shares["fits"] = share * needed <= 1.01 * networks
        speed = speed.scaled(share)
    once, epoch = (sum(_costs(speed, group, k, rows, epochs).values()) for epochs in (0, 1))
    epochs = max(min(int((networks - once) / max(epoch - once, 1e-9)), MOST_EPOCHS), min(FEWEST_EPOCHS, MOST_EPOCHS))
    costs = _costs(speed, group, k, rows, epochs)
    return ComparisonSchedule(tuple(group), k, rows, epochs, usable - refit, refit, report, costs, **shares)


def _costs(speed: Speed, candidates: Sequence[Encoding], folds: int, n_rows: int, epochs: int) -> dict[int, float]:
    """Return the seconds of a cross-validation, for each group of candidates by size."""
    fit, costs = n_rows * (folds - 1) / folds, {}
    for size, group in groups_of(candidates).items():
        network = epochs * SCORING * speed.epoch(size, max(round((1 - VALIDATION_SHARE) * fit), 1)) + speed.build[size]
        costs[size] = sum(folds * (network + speed.prepare[candidate] * fit) for candidate in group)
    return costs


def _most_rows(
    speed: Speed, candidates: Sequence[Encoding], folds: int, epochs: int, between: range, seconds: float
) -> int | None:
    """Return about the largest number of rows for which the epochs fit into the time; None if none does.

    All steps are tried, because time does not always grow with rows: larger tables have larger batches.
    """
    steps = np.geomspace(between.stop, between.start, 60).round().astype(int).tolist()
    fits = (n for n in steps if sum(_costs(speed, candidates, folds, n, epochs).values()) <= seconds)
    return next(fits, None)


def _slowest(speed: Speed, candidates: Sequence[Encoding], n_rows: int) -> float:
    """Return the seconds of the slowest candidate, trained alone on all rows."""
    return max(
        GOOD_EPOCHS * SCORING * ALONE * speed.epoch(size, n_rows)
        + n_rows * max(speed.prepare[candidate] for candidate in group)
        for size, group in groups_of(candidates).items()
    )


def refit_rows(n_rows: int, *, prepare: float, epoch: float, seconds: float, epochs: int = 4) -> int:
    """Return on how many of `n_rows` rows the final model can be trained for `epochs` epochs within `seconds`.

    `prepare` and `epoch` are seconds per row: of fitting the encoding, and of an epoch in a stack. The smallest
    ensemble of an effort, three networks in a stack, takes about as long as these epochs of a network alone.
    """
    per_row = prepare + epochs * SCORING * ALONE * epoch
    return max(min(n_rows, int(seconds / max(per_row, 1e-12))), min(n_rows, FEWEST_ROWS))
