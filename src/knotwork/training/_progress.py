"""Progress reports of training while it runs, and those who receive them: callbacks, the log, a line of progress."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import check_installed

if TYPE_CHECKING:  # rich is optional: it is imported where progress is shown
    from rich.console import Console

__all__ = ["LOGGER", "EpochReport", "ProgressBar", "Reporter", "Reporters", "StopTraining", "log_epoch", "shown_stage"]

LOGGER = logging.getLogger("knotwork")
"""The log of fits: a line for each epoch at the level DEBUG, and for each fit at INFO."""

EVERY_REPORT = 1e9
"""Seconds of reports from which the time left is estimated: stacks of different speeds would make it jump."""


class StopTraining(Exception):  # noqa: N818 - it is no error
    """Raised by a callback to stop training at the end of the epoch; the best weights so far are kept."""


@dataclass(frozen=True, eq=False)
class EpochReport:
    """The progress of a stack, networks that are trained together, after an epoch.

    Parameters
    ----------
    stack, n_stacks : int
        Number of the stack, from 0, and number of all stacks of the fit.
    epoch, max_epochs : int
        Number of the epoch, from 1, and the most that the stack is trained for.
    n_alive, n_members : int
        Networks of the stack that continue, and all of them.
    steps : int
        Steps of all networks of the stack in this epoch.
    done : float
        Minimum share of the work of all stacks that is done.
    n_training : int
        Networks in training in all stacks.
    loss : float
        Mean training loss of the networks that were trained in this epoch.
    scores : ndarray of shape (n_members,)
        Validation score of each network in the units of the target; NaN for those that had stopped before.
    metric : str
        Name of the score in `knotwork.training.METRICS`.
    seconds : float
        Time since training began.
    """

    stack: int
    n_stacks: int
    epoch: int
    max_epochs: int
    n_alive: int
    n_members: int
    steps: int
    done: float = 0.0
    n_training: int = 0
    loss: float = math.nan
    scores: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    metric: str = ""
    seconds: float = 0.0


Reporter = Callable[[EpochReport], Any]
"""A function that is called after every epoch; training stops if it returns True or raises `StopTraining`."""


def log_epoch(report: EpochReport) -> None:
    """Write a line to the log."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        known = report.scores[~np.isnan(report.scores)]
        scores = " to ".join(f"{end:.5g}" for end in sorted({known.min(), known.max()})) if len(known) else "unknown"
        LOGGER.debug(
            "epoch %d of %d, stack %d of %d: loss %.5g, %s %s, %d of %d networks go on, %.1f s",
            *(report.epoch, report.max_epochs, report.stack + 1, report.n_stacks, report.loss, report.metric, scores),
            *(report.n_alive, report.n_members, report.seconds),
        )


@final
class Reporters:
    """Calls several functions after every epoch, and asks to stop if one of them does; `stopped` says if one did."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters, self.stopped = tuple(reporters), False

    def __call__(self, report: EpochReport) -> bool:
        """Return whether training is to stop: all functions are called in any case."""
        for reporter in self._reporters:
            try:
                answer = reporter(report)
            except StopTraining:
                answer = True
            # Only True stops: a callback may return what it has stored or printed.
            self.stopped |= isinstance(answer, bool | np.bool_) and bool(answer)
        return self.stopped


@contextmanager
def shown_stage(text: str) -> Iterator[None]:
    """Show the current stage before the first network is trained, in a line of the terminal; not in a file."""
    check_installed("verbose=True", "study", "rich")
    from rich.console import Console  # noqa: PLC0415 - optional

    console = Console(stderr=True)
    with console.status(text) if console.is_terminal else nullcontext():
        yield


@final
class ProgressBar:
    """One line in the terminal: networks in training, share of the work, network steps per second, maximum time left.

    Stacks that are trained one after the other or side by side share the line; the epoch is shown if there is only one.
    The line is removed at the end. If standard error is not a terminal, it is written once, at the end.

    Parameters
    ----------
    console : Console, optional
        The console of rich that shows the line; by default standard error.
    """

    def __init__(self, console: "Console | None" = None) -> None:
        check_installed("verbose=True", "study", "rich")
        from rich.console import Console  # noqa: PLC0415 - optional
        from rich.progress import (  # noqa: PLC0415 - optional
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True) if console is None else console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:.0f} %"),
            TextColumn("{task.fields[rate]} network steps/s"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            console=console,
            transient=console.is_terminal,  # a file gets the last line
            speed_estimate_period=EVERY_REPORT,
        )
        self._steps, self._done = 0, 0.0

    def __enter__(self) -> Self:
        """Show the line."""
        self._task = self._progress.add_task("building networks", total=1.0, rate="0")
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        self._progress.stop()

    def __call__(self, report: EpochReport) -> None:
        """Update the line."""
        self._steps += report.steps
        # A stack that ran out of memory begins again, as two halves.
        self._done = max(self._done, report.done)
        elapsed = self._progress.tasks[0].elapsed or 1e-9
        networks = "1 network" if report.n_training == 1 else f"{report.n_training} networks"
        epoch = f", epoch {report.epoch}/{report.max_epochs}" if report.n_stacks == 1 else ""
        rate = f"{self._steps / elapsed:,.0f}"
        self._progress.update(self._task, completed=self._done, description=f"{networks}{epoch}", rate=rate)
