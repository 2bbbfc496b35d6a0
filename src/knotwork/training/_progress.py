"""Progress reports of training while it runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self, final

from knotwork._checks import check_installed

if TYPE_CHECKING:  # rich is optional: it is imported where progress is shown
    from rich.console import Console

__all__ = ["EpochReport", "ProgressBar", "Reporter"]

EVERY_REPORT = 1e9
"""Seconds of reports from which the time left is estimated: stacks of different speeds would make it jump."""


class EpochReport(NamedTuple):
    """The progress of a stack after an epoch.

    `n_alive` of the `n_members` networks of the stack go on; `steps` counts those of all of them in this epoch. `done`
    is the share of the work of all stacks, at least; `n_training` counts the networks in training in all stacks.
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


Reporter = Callable[[EpochReport], None]
"""A function that is called after every epoch."""


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
        self._task = self._progress.add_task("first epoch", total=1.0, rate="0")
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
