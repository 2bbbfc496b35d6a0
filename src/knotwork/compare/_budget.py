"""What is trained within a budget of seconds: rows, folds, candidates and epochs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from knotwork.compare._scoring import VALIDATION_SHARE, groups_of
from knotwork.compare._speed import FEWEST_FOLDS, Speed
from knotwork.encoders._methods import Encoding
from knotwork.training._config import TrainingConfig

__all__ = ["DEFAULT_FOLDS", "Plan", "make_plan", "refit_rows", "report_seconds", "whole_plan"]

DEFAULT_FOLDS = 5

GOOD_EPOCHS, FEWEST_EPOCHS, MOST_EPOCHS = 30, 10, TrainingConfig().max_epochs
"""Epochs that most tables need until training stops by itself, and those below which a comparison says little."""

GOOD_ROWS, SMALL_ROWS, FEWEST_ROWS = 10_000, 3_000, 500
"""Rows to which a table is reduced to make room for candidates, for folds and epochs, and at all."""

MARGIN = 0.12
"""Share of the time that is kept for what was not foreseen."""

REFIT_SHARE = 0.3
"""Share of the time that the final model takes at most."""

SCORING = 1.15
"""Times that an epoch takes with its validation rows, and with a share of the test rows."""

ALONE = 3.0
"""Times that a network takes alone, over its share of the stacks of a comparison."""


@dataclass(frozen=True)
class Plan:
    """What is trained.

    Parameters
    ----------
    candidates : tuple of Encoding
        Encodings to compare.
    folds : int
        Number of folds.
    n_rows : int
        Rows that are drawn for the comparison.
    max_epochs : int
        Most epochs of a network.
    seconds, refit_seconds, report_seconds : float or None
        Time for the comparison, for the final model, and for the report; None without a budget.
    costs : dict of int to float
        Seconds of each group of candidates.
    fits : bool, default=True
        Whether all of it fits into the budget by what was measured.
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

    @property
    def n_networks(self) -> int:
        """Networks to train, without the final one."""
        return len(self.candidates) * self.folds


def whole_plan(candidates: Sequence[Encoding], *, folds: int | None, n_rows: int) -> Plan:
    """Return the plan without a budget: all candidates on all rows, until training stops by itself."""
    costs = {size: float(len(group)) for size, group in groups_of(candidates).items()}
    return Plan(tuple(candidates), folds or DEFAULT_FOLDS, n_rows, MOST_EPOCHS, costs=costs)


def report_seconds(budget: float) -> float:
    """Return the time that the report may take."""
    return min(0.25 * budget, 10.0 + 0.02 * budget)


def make_plan(
    speed: Speed,
    candidates: Sequence[Encoding],
    counts: Sequence[int],
    *,
    n_rows: int,
    folds: int | None,
    budget: float,
    left: float,
) -> Plan:
    """Choose what fits into the time.

    Rows are given up first, for encodings can be told apart on 10,000 of them; then the less promising candidates, more
    rows, folds, and at last epochs. Folds come late, for without them nothing is significant. What the user has asked
    for by name is never given up.

    Parameters
    ----------
    speed : Speed
        What was measured.
    candidates : sequence of Encoding
        All candidates, the most promising first.
    counts : sequence of int
        How many of them to compare: the most, and what to come down to.
    n_rows : int
        Rows of the table.
    folds : int or None
        What the user wants; None leaves it open.
    budget, left : float
        The budget in seconds, and what is left of it.
    """
    report = report_seconds(budget)
    usable = max((1 - MARGIN) * left - report, 0.1)
    most = folds or DEFAULT_FOLDS
    least = folds or FEWEST_FOLDS
    kept = candidates[: counts[-1]]
    ladder = [
        (candidates, most, n_rows, GOOD_EPOCHS),
        *((candidates[:count], most, GOOD_ROWS, GOOD_EPOCHS) for count in counts),
        (kept, most, SMALL_ROWS, GOOD_EPOCHS),
        (kept, least, SMALL_ROWS, GOOD_EPOCHS),
        (kept, least, SMALL_ROWS, FEWEST_EPOCHS),
        (kept, least, FEWEST_ROWS, FEWEST_EPOCHS),
    ]
    for some, k, floor, epochs in ladder:
        refit = _refit_seconds(speed, some, n_rows, usable)
        top = n_rows if epochs == GOOD_EPOCHS else min(SMALL_ROWS, n_rows)
        rows = _most_rows(speed, some, k, epochs, range(min(floor, top), top), usable - refit)
        if rows is not None:
            return _plan(speed, some, k, rows, seconds=usable - refit, refit=refit, report=report)
    fewest = min(FEWEST_ROWS, n_rows)
    plan = _plan(speed, kept, least, fewest, seconds=usable - refit, refit=refit, report=report)
    return replace(plan, fits=False)


def _plan(
    speed: Speed,
    candidates: Sequence[Encoding],
    folds: int,
    n_rows: int,
    *,
    seconds: float,
    refit: float,
    report: float,
) -> Plan:
    """Return a plan with as many epochs as there is time for."""
    once, epoch = _seconds(speed, candidates, folds, n_rows, 0), _seconds(speed, candidates, folds, n_rows, 1)
    epochs = int((seconds - once) / max(epoch - once, 1e-9))
    epochs = max(min(epochs, MOST_EPOCHS), min(FEWEST_EPOCHS, MOST_EPOCHS))
    costs = {
        size: _seconds(speed, group, folds, n_rows, epochs, size=size) for size, group in groups_of(candidates).items()
    }
    return Plan(tuple(candidates), folds, n_rows, epochs, seconds, refit, report, costs)


def _seconds(
    speed: Speed, candidates: Sequence[Encoding], folds: int, n_rows: int, epochs: int, *, size: int | None = None
) -> float:
    """Return the seconds of a cross-validation."""
    fit = n_rows * (folds - 1) / folds
    groups = groups_of(candidates) if size is None else {size: candidates}
    total = 0.0
    for own, group in groups.items():
        network = epochs * SCORING * speed.epoch(own, max(round((1 - VALIDATION_SHARE) * fit), 1))
        total += sum(folds * (network + speed.prepare[each] * fit) for each in group)
    return total


def _most_rows(
    speed: Speed, candidates: Sequence[Encoding], folds: int, epochs: int, between: range, seconds: float
) -> int | None:
    """Return about the most rows for which the epochs fit into the time; None if there are none.

    Time does not always grow with the rows, for larger tables have larger batches: all steps are tried.
    """
    for rows in np.geomspace(between.stop, between.start, 60).round().astype(int).tolist():
        if _seconds(speed, candidates, folds, rows, epochs) <= seconds:
            return int(rows)
    return None


def _refit_seconds(speed: Speed, candidates: Sequence[Encoding], n_rows: int, usable: float) -> float:
    """Return what is set aside for the final model, whichever it will be."""
    slowest = 0.0
    for size, group in groups_of(candidates).items():
        network = GOOD_EPOCHS * SCORING * speed.epoch(size, n_rows, alone=True)
        slowest = max(slowest, network + n_rows * max(speed.prepare[each] for each in group))
    return min(slowest, REFIT_SHARE * usable)


def refit_rows(n_rows: int, *, prepare: float, epoch: float, seconds: float, epochs: int = 4) -> int:
    """Return on how many rows the final model can be trained for a few epochs within its time.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    prepare, epoch : float
        Seconds for every row: of fitting the encoding, and of an epoch in a stack.
    seconds : float
        The time.
    epochs : int, default=4
        How many epochs there must be time for.
    """
    each = prepare + epochs * SCORING * ALONE * epoch
    return max(min(n_rows, int(seconds / max(each, 1e-12))), min(n_rows, FEWEST_ROWS))
