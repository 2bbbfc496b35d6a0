"""How fast this machine trains this table: measured on a first small stack."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knotwork._preparation.members import PreparedTable
from knotwork.compare._scoring import fold_table, groups_of
from knotwork.compare._source import Source
from knotwork.encoders._methods import Encoding
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member
from knotwork.training._progress import EpochReport

__all__ = ["FEWEST_FOLDS", "Speed", "measure_speed"]

ROWS_READ = 20_000
"""Rows from which categories are found, whose number decides the size of a network."""

ROWS_TRAINED = 600
ROWS_FITTED = 3_000
"""Rows that are trained on and encodings fitted on."""

MOST_MEMBERS = 12
"""Networks of a size that are trained to measure it: in small stacks the share of each is larger."""

FEWEST_FOLDS = 3
"""Folds of a comparison at least, and so networks of a candidate."""

BATCHES = (64, 512)


@dataclass(frozen=True)
class Speed:
    """Seconds of a machine for a table.

    Parameters
    ----------
    steps : mapping of int to (float, float)
        For each size the seconds of a network's step in a stack: a fixed part, and a part for every row of the batch.
    alone : mapping of int to (float, float)
        The same for a network that is trained alone.
    prepare : mapping of Encoding to float
        Seconds for every row that an encoding is fitted on.
    """

    steps: Mapping[int, tuple[float, float]]
    alone: Mapping[int, tuple[float, float]]
    prepare: Mapping[Encoding, float]

    def epoch(self, size: int, n_rows: int, *, alone: bool = False) -> float:
        """Return the seconds of an epoch of one network of a size on so many training rows, in a stack or alone.

        Examples
        --------
        >>> Speed({7: (0.001, 0.0)}, {7: (0.002, 0.0)}, {}).epoch(7, 6400)
        0.1
        """
        batch = min(TrainingConfig().batch_size_for(n_rows), n_rows)
        fixed, per_row = (self.alone if alone else self.steps)[size]
        return math.ceil(n_rows / batch) * (fixed + per_row * batch)


def measure_speed(
    source: Source, candidates: Sequence[Encoding], *, backbone: Backbone, device: Any = "auto", seed: int = 0
) -> Speed:
    """Fit every encoding, and train a few networks of every size for an epoch or two.

    Parameters
    ----------
    source : Source
        The table.
    candidates : sequence of Encoding
        The candidates.
    backbone : Backbone
        The network behind the encodings.
    device : str, default="auto"
        Where to train.
    seed : int, default=0
        Seed of what is drawn.
    """
    prepared = fold_table(source.draw(ROWS_READ, seed=seed), folds=3, seed=seed)
    split = prepared.splits[0]
    n_fitted = min(len(split.train), ROWS_FITTED)
    columns = {each: (each,) * prepared.table.numbers.shape[1] for each in candidates}
    # What is loaded and compiled once is no part of the speed.
    prepared.fit([columns[candidates[0]]], split, most_rows=10)
    fitted = dict(zip(candidates, prepared.fit(list(columns.values()), split, most_rows=n_fitted), strict=True))
    steps, alone = {}, {}
    for size, group in groups_of(candidates).items():
        some = [group[place % len(group)] for place in range(min(MOST_MEMBERS, FEWEST_FOLDS * len(group)))]
        few = replace(split, train=split.train[:ROWS_TRAINED], valid=split.valid[: ROWS_TRAINED // 10])
        members = [prepared.member(columns[each], few, fitted[each].blocks) for each in some]
        steps[size] = _steps(prepared, members, backbone, device)
        alone[size] = _steps(prepared, members[:1], backbone, device)
    return Speed(steps, alone, {each: fit.seconds / n_fitted for each, fit in fitted.items()})


def _steps(prepared: PreparedTable, members: list[Member], backbone: Backbone, device: Any) -> tuple[float, float]:
    """Return fixed part and part per row of the seconds of a step."""
    batches = sorted({min(batch, len(members[0].train)) for batch in BATCHES})
    seconds = [_step(prepared, members, backbone, device, batch) for batch in batches]
    if len(batches) == 1:
        return 0.0, seconds[0] / batches[0]
    per_row = max((seconds[1] - seconds[0]) / (batches[1] - batches[0]), 0.2 * seconds[1] / batches[1])
    return max(seconds[1] - per_row * batches[1], 0.0), per_row


def _step(prepared: PreparedTable, members: list[Member], backbone: Backbone, device: Any, batch: int) -> float:
    """Return the seconds of a step of one network; the first epoch, in which things are made, does not count."""
    clock: list[float] = []
    steps: list[int] = []

    def look(report: EpochReport) -> None:
        clock.append(time.perf_counter())
        steps.append(report.steps)

    config = replace(TrainingConfig(), max_epochs=3, batch_size=batch)
    train(prepared.table, members, backbone, config, device=device, report=look)
    took = np.diff(clock) / np.array(steps[1:])
    return float(np.median(took))
