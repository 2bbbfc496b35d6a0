"""What a comparison trains within its time budget: rows, folds, candidates and epochs, from the measured speed."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from knotwork._preparation.members import PreparedTable
from knotwork._writing import counted
from knotwork.compare._inputs import Source
from knotwork.compare._scoring import VALIDATION_SHARE, fold_table, groups_of
from knotwork.encoders import Encoding
from knotwork.nn import Backbone
from knotwork.report import enumerate_words
from knotwork.training import EpochReport, Member, TrainingConfig, network_products, train


@dataclass(frozen=True)
class ScheduleRule:
    """What a comparison trains if time suffices, and to what it is reduced if it does not.

    All numbers are conventions: with fewer rows, folds or epochs than the fewest, the best encoding would often be the
    luckiest.

    Parameters
    ----------
    folds, fewest_folds : int
        Folds of the cross-validation by default, and if time is short.
    good_epochs, fewest_epochs, most_epochs : int
        Epochs after which training has stopped on most tables, the fewest that make a comparison useful, and the cap
        of the estimators.
    good_rows, small_rows, fewest_rows : int
        Rows to which a table is reduced in favour of candidates, in favour of folds and epochs, and the minimum.
    fewest_candidates, fewest_columns : int
        Candidates and numerical columns that are always compared.
    margin : float
        Share of the time that is kept as a reserve.
    refit_share, baseline_share : float
        Largest shares of the time for the final model, and of that for the comparison for the baselines.
    """

    folds: int = 5
    fewest_folds: int = 3
    good_epochs: int = 30
    fewest_epochs: int = 10
    most_epochs: int = TrainingConfig().max_epochs
    good_rows: int = 10_000
    small_rows: int = 3_000
    fewest_rows: int = 500
    fewest_candidates: int = 3
    fewest_columns: int = 30
    margin: float = 0.04
    refit_share: float = 0.3
    baseline_share: float = 0.2


SCHEDULED = ScheduleRule()


@dataclass(frozen=True)
class CostRule:
    """Costs that are assumed rather than measured on each machine; their values were seen in runs of the engine.

    Parameters
    ----------
    scoring : float
        Ratio of the time of an epoch, with validation rows and a share of the test rows, to that of its training steps.
    alone : float
        Ratio of the time of a network that is trained alone to its share of a stack.
    report : float
        Seconds of a processor for the report.
    final_networks : int
        Networks of the smallest ensemble.
    """

    scoring: float = 1.15
    alone: float = 3.0
    report: float = 4.0
    final_networks: int = 3


COSTS = CostRule()


@dataclass(frozen=True)
class SpeedRule:
    """What is trained to measure the speed of a machine; a convention, as little as gives times that are not noise.

    Parameters
    ----------
    rows_read : int
        Rows in which categories are counted; their number determines the size of the network.
    rows_trained, rows_fitted, columns : int
        Largest numbers of rows for training and for fitting encodings, and of columns for both: with them, the time of
        calls is small beside that of arithmetic.
    products : float
        About the products of weights in a measured training: wide tables are measured with fewer rows.
    members, fewest_members : int
        Networks in the stack, and for wide tables: in smaller stacks the time per network is longer.
    small_batch : int
        The smaller of two batch sizes, from which the fixed time of a step and its time per row are computed.
    """

    rows_read: int = 20_000
    rows_trained: int = 512
    rows_fitted: int = 3_000
    columns: int = 100
    products: float = 1e9
    members: int = 9
    fewest_members: int = 3
    small_batch: int = 64


MEASURED = SpeedRule()


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
    source: Source,
    candidates: Sequence[Encoding],
    *,
    backbone: Backbone,
    device: str | torch.device = "auto",
    seed: int = 0,
) -> Speed:
    """Fit every encoding, and train a few networks of the largest size for two epochs.

    Of a wide table some columns are used, and the times are those of all columns in proportion.
    """
    drawn = source.draw(MEASURED.rows_read, seed=seed)
    n_columns = drawn.features.shape[1]
    places = np.unique(np.linspace(0, n_columns - 1, min(n_columns, MEASURED.columns)).round().astype(np.int64))
    prepared = fold_table(drawn.select(places.tolist()), folds=3, seed=seed)
    split, table = prepared.splits[0], prepared.table
    n_fitted, n_numerical = min(len(split.train), MEASURED.rows_fitted), table.numbers.shape[1]
    columns = {candidate: (candidate,) * n_numerical for candidate in candidates}
    # The first fit loads libraries and compiles loops, which happens once and is not part of the speed.
    prepared.fit([columns[candidates[0]]], split, most_rows=10)
    fitted = dict(zip(candidates, prepared.fit(list(columns.values()), split, most_rows=n_fitted), strict=True))
    groups = groups_of(candidates)
    largest = max(groups)
    products = {size: network_products(table, size, None, backbone) for size in groups}
    most = MEASURED.products / products[largest]
    n_members = MEASURED.members if most > MEASURED.members * MEASURED.rows_trained else MEASURED.fewest_members
    n_rows = int(np.clip(most / n_members, 2 * MEASURED.small_batch, MEASURED.rows_trained))
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
    return speed.scaled(max(n_columns / MEASURED.columns, 1.0))


def _step_times(
    prepared: PreparedTable, members: list[Member], backbone: Backbone, device: str | torch.device
) -> tuple[float, float, float]:
    """Return the fixed part and the part per row of the seconds of a step of one network, and those of making it."""
    batches = sorted({min(batch, len(members[0].train)) for batch in (MEASURED.small_batch, MEASURED.rows_trained)})
    measured = [_step_seconds(prepared, members, backbone, device, batch) for batch in batches]
    step, build = measured[-1]
    if len(batches) == 1:
        return 0.0, step / batches[0], build
    # Noise can make the small batch as slow as the large one; rows still cost something in large tables.
    per_row = max((step - measured[0][0]) / (batches[1] - batches[0]), 0.2 * step / batches[1])
    return max(step - per_row * batches[1], 0.0), per_row, build


def _step_seconds(
    prepared: PreparedTable, members: list[Member], backbone: Backbone, device: str | torch.device, batch: int
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
        of_all = f"{counted(self.n_rows)} of {counted(n_rows)} rows, drawn at random"
        lines = [
            f"To be compared: {_listed(self.candidates)}, by {self.folds} folds on "
            f"{f'all {counted(n_rows)} rows' if self.n_rows == n_rows else of_all}: {self.n_networks} networks "
            f"({backbone}), each of at most {self.max_epochs} epochs."
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
    return ComparisonSchedule(tuple(candidates), folds or SCHEDULED.folds, n_rows, SCHEDULED.most_epochs, costs=costs)


def report_seconds(budget: float, availability: float = 1.0) -> float:
    """Return the time for writing the report; `availability` is the part of a processor that the program has."""
    return min(0.25 * budget / availability, max(7.0 + 0.02 * budget, COSTS.report / availability), 0.4 * budget)


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
    rule = SCHEDULED
    report = report_seconds(budget, availability)
    usable = max((1 - rule.margin) * left - report, 0.1)
    most, least = folds or rule.folds, folds or rule.fewest_folds
    kept = candidates[: counts[-1]]
    fewest = candidates[: min(rule.fewest_candidates, counts[-1])] if len(counts) > 1 else kept
    ladder = [
        (candidates, most, n_rows, rule.good_epochs),
        *((candidates[:count], most, rule.good_rows, rule.good_epochs) for count in counts),
        (kept, most, rule.small_rows, rule.good_epochs),
        (kept, least, rule.small_rows, rule.good_epochs),
        (kept, least, rule.small_rows, rule.fewest_epochs),
        (fewest, least, rule.fewest_rows, rule.fewest_epochs),
    ]
    shares: dict[str, Any] = {}
    for group, k, floor, epochs in ladder:
        refit = min(_slowest(speed, group, n_rows) if final is None else final, rule.refit_share * usable)
        top = n_rows if epochs == rule.good_epochs else min(rule.small_rows, n_rows)
        networks = (1 - rule.baseline_share) * (usable - refit)
        rows = _most_rows(speed, group, k, epochs, range(min(floor, top), top), networks)
        if rows is not None:
            break
    else:
        rows, smallest = min(rule.fewest_rows, n_rows), min(rule.fewest_columns / n_columns, 1.0)
        needed = sum(_costs(speed, group, k, rows, epochs).values())
        share = float(np.clip(networks / needed, smallest, 1.0))
        final_least = COSTS.final_networks * max(
            speed.build[size] + 2 * speed.epoch(size, n_rows) for size in speed.build
        )
        shares = {"column_share": share, "final_share": float(np.clip(refit / final_least, smallest, 1.0))}
        shares["fits"] = share * needed <= 1.01 * networks
        speed = speed.scaled(share)
    once, epoch = (sum(_costs(speed, group, k, rows, epochs).values()) for epochs in (0, 1))
    epochs = max(
        min(int((networks - once) / max(epoch - once, 1e-9)), rule.most_epochs),
        min(rule.fewest_epochs, rule.most_epochs),
    )
    costs = _costs(speed, group, k, rows, epochs)
    return ComparisonSchedule(tuple(group), k, rows, epochs, usable - refit, refit, report, costs, **shares)


def _costs(speed: Speed, candidates: Sequence[Encoding], folds: int, n_rows: int, epochs: int) -> dict[int, float]:
    """Return the seconds of a cross-validation, for each group of candidates by size."""
    fit, costs = n_rows * (folds - 1) / folds, {}
    for size, group in groups_of(candidates).items():
        network = (
            epochs * COSTS.scoring * speed.epoch(size, max(round((1 - VALIDATION_SHARE) * fit), 1)) + speed.build[size]
        )
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
        SCHEDULED.good_epochs * COSTS.scoring * COSTS.alone * speed.epoch(size, n_rows)
        + n_rows * max(speed.prepare[candidate] for candidate in group)
        for size, group in groups_of(candidates).items()
    )


def refit_rows(n_rows: int, *, prepare: float, epoch: float, seconds: float, epochs: int = 4) -> int:
    """Return on how many of `n_rows` rows the final model can be trained for `epochs` epochs within `seconds`.

    `prepare` and `epoch` are seconds per row: of fitting the encoding, and of an epoch in a stack. The smallest
    ensemble of an effort, three networks in a stack, takes about as long as these epochs of a network alone.
    """
    per_row = prepare + epochs * COSTS.scoring * COSTS.alone * epoch
    return max(min(n_rows, int(seconds / max(per_row, 1e-12))), min(n_rows, SCHEDULED.fewest_rows))
