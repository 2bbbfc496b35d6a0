"""A line of the terminal that shows all work: its stage, the share that is done, and the time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, final

from knotwork._checks import check_installed
from knotwork._writing import counted, duration, percent
from knotwork.training._results import EpochReport

if TYPE_CHECKING:  # rich is optional: it is imported where progress is shown
    from rich.console import Console
    from rich.progress import Task


@final
class ProgressBar:
    """One line in the terminal for all work: the stage, the share that is done, the time, and the maximum time left.

    Networks that are trained one after the other or side by side share the line; the epoch is shown if there is only
    one stack of them. The line is removed at the end. If standard error is not a terminal, it is written once, at the
    end.

    Parameters
    ----------
    console : Console, optional
        The console of rich that shows the line; by default standard error.
    seconds : float, optional
        The time that all work may take, of which the line then shows the share. By default the line shows the share of
        the training.
    """

    def __init__(self, console: "Console | None" = None, *, seconds: float | None = None) -> None:
        check_installed("verbose=True", "study", "rich")
        from rich.console import Console  # noqa: PLC0415 - optional
        from rich.progress import BarColumn, Progress  # noqa: PLC0415 - optional

        console = Console(stderr=True) if console is None else console
        self._progress = Progress(
            _column(self._begin),
            BarColumn(bar_width=20),
            _column(self._end),
            console=console,
            transient=console.is_terminal,  # a file gets the last line
            redirect_stdout=False,  # it may be a file while standard error is a terminal
        )
        self._seconds, self._stage, self._trained = seconds, "starting", ""
        self._begins, self._ends, self._done = 0.0, 1.0, 0.0

    def __enter__(self) -> Self:
        """Show the line."""
        if not self._progress.tasks:
            self._progress.add_task("", total=1.0)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line; where it stays, in a file, it shows the last training."""
        self._stage = self._trained or self._stage
        self._progress.stop()

    def stage(self, text: str) -> None:
        """Show what is done now, until the next report of an epoch."""
        self._stage = text
        self._progress.refresh()

    @contextmanager
    def part(self, begin: float = 0.0, end: float = 1.0) -> Iterator[Self]:
        """Provide the line for one training of several, from a share of all work to another."""
        self._begins, self._ends, self._done = begin, end, begin
        yield self

    def say(self, write: Callable[[str], None], text: str) -> None:
        """Write a sentence above the line."""
        self._progress.stop()
        write(text)
        self._progress.start()

    def __call__(self, report: EpochReport) -> None:
        """Update the line."""
        # A stack that ran out of memory begins again, as two halves.
        self._done = max(self._done, self._begins + (self._ends - self._begins) * report.done)
        epoch = f", epoch {report.epoch}/{report.max_epochs}" if report.n_stacks == 1 else ""
        self._trained = f"{counted(report.n_training, 'network')}{epoch}"
        self.stage(self._trained)

    def _begin(self, task: "Task") -> str:
        done = self._done if self._seconds is None else (task.elapsed or 0.0) / self._seconds
        task.completed = min(done, 1.0)
        return self._stage

    def _end(self, task: "Task") -> str:
        elapsed, done = task.elapsed or 0.0, float(task.completed)
        left = f", at most {duration(elapsed * (1.0 - done) / done)} left" if 0.0 < done < 1.0 else ""
        return f"{percent(done, 0)}, {duration(elapsed)}{left}"


def _column(write: "Callable[[Task], str]") -> Any:
    """Return a column of the line, whose text a function writes whenever the line is drawn."""
    from rich.progress import ProgressColumn  # noqa: PLC0415 - optional
    from rich.text import Text  # noqa: PLC0415 - optional

    class Written(ProgressColumn):
        """A text."""

        def render(self, task: "Task") -> Text:
            return Text(write(task))

    return Written()
