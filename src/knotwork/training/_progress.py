"""Progress reports of training while it runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self, final

from knotwork._checks import check_installed

if TYPE_CHECKING:  # rich is optional: it is imported where progress is shown
    from rich.console import Console
    from rich.progress import TaskID

__all__ = ["EpochReport", "ProgressBar", "Reporter"]


class EpochReport(NamedTuple):
    """The progress of a stack after an epoch.

    `steps` counts those of all its members in this epoch; `done` is the share of the work of all stacks, at most.
    """

    stack: int
    n_stacks: int
    epoch: int
    max_epochs: int
    n_alive: int
    n_members: int
    steps: int
    done: float = 0.0


Reporter = Callable[[EpochReport], None]
"""A function that is called after every epoch."""


@final
class ProgressBar:
    """One line per stack in the terminal: members, epoch, network steps per second, maximum time left.

    The lines are removed at the end. If standard error is not a terminal, they are written once, at the end.

    Parameters
    ----------
    console : Console, optional
        The console of rich that shows the lines; by default standard error.
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
        self._keep_lines = not console.is_terminal  # a file gets the last lines only
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("epoch {task.completed}/{task.total}"),
            TextColumn("{task.fields[rate]} network steps/s"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            console=console,
            transient=not self._keep_lines,
        )
        self._tasks: dict[int, TaskID] = {}
        self._steps: dict[int, int] = {}

    def __enter__(self) -> Self:
        """Show the lines."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the lines."""
        self._progress.stop()

    def __call__(self, report: EpochReport) -> None:
        """Update the line of a stack."""
        if report.stack not in self._tasks:
            self._tasks[report.stack] = self._progress.add_task("", total=report.max_epochs, rate="")
            self._steps[report.stack] = 0
        task = self._tasks[report.stack]
        self._steps[report.stack] += report.steps
        elapsed = self._progress.tasks[self._progress.task_ids.index(task)].elapsed or 1e-9
        of_stacks = f", stack {report.stack + 1} of {report.n_stacks}" if report.n_stacks > 1 else ""
        self._progress.update(
            task,
            completed=report.epoch,
            description=f"{report.n_alive} of {report.n_members} networks{of_stacks}",
            rate=f"{self._steps[report.stack] / elapsed:,.0f}",
            visible=report.n_alive > 0 or self._keep_lines,
        )
