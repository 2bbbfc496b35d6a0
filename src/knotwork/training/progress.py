"""What training says of itself while it runs."""

from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["EpochReport", "ProgressBar", "Reporter"]


class EpochReport(NamedTuple):
    """Where a stack stands after an epoch."""

    stack: int
    n_stacks: int
    epoch: int
    max_epochs: int
    n_alive: int
    n_members: int
    steps: int


Reporter = Callable[[EpochReport], None]
"""Is called after every epoch."""


@final
class ProgressBar:
    """A line at the bottom of the terminal: members alive, epoch, network steps per second, time left at most.

    Parameters
    ----------
    console : Console, optional
        Where it is shown; by default standard error.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("epoch {task.completed}/{task.total}"),
            TextColumn("{task.fields[rate]} network steps/s"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            console=Console(stderr=True) if console is None else console,
            transient=True,
        )
        self._task = self._progress.add_task("training", total=None, rate="")
        self._stack, self._steps = -1, 0

    def __enter__(self) -> Self:
        """Show the line."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self._progress.stop()

    def __call__(self, report: EpochReport) -> None:
        """Move on."""
        if report.stack != self._stack:
            self._stack, self._steps = report.stack, 0
            self._progress.reset(self._task, total=report.max_epochs)
        self._steps += report.steps
        elapsed = self._progress.tasks[0].elapsed or 1e-9
        of = f" of stack {report.stack + 1}/{report.n_stacks}" if report.n_stacks > 1 else ""
        self._progress.update(
            self._task,
            completed=report.epoch,
            description=f"{report.n_alive}/{report.n_members} networks{of}",
            rate=f"{self._steps / elapsed:,.0f}",
        )
