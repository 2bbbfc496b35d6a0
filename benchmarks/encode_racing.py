"""Shared code of the benchmarks of encoders: sizes, timing in turns, and tables of times and ratios."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["LIMIT", "MIB", "OURS", "QUICK", "SPLINES", "Entry", "Plan", "Report", "Timing", "pair", "race", "show"]

SPLINES = {"bspline": "B-spline", "mspline": "M-spline", "ispline": "I-spline"}
OURS, LIMIT = "knotwork", "the limit"
MIB = 2**20


@dataclass(frozen=True)
class Plan:
    """Sizes and repetitions of the measurements."""

    rows: int = 200_000
    sizes: tuple[int, ...] = (7, 30, 100)
    pretab_rows: int = 50_000
    growth_rows: tuple[tuple[int, int], ...] = ((10_000, 10), (100_000, 10), (1_000_000, 10), (10_000_000, 1))
    growth_sizes: tuple[int, ...] = (7, 15, 30, 60, 100)
    fresh: int = 3
    stream_rows: int = 10_000_000


QUICK = Plan(20_000, (7, 30), 4_000, ((10_000, 10), (100_000, 10)), (7, 30), fresh=1, stream_rows=500_000)


@dataclass(frozen=True)
class Entry:
    """A call to time: what it computes, the library, and which of our results it is compared with."""

    what: str
    name: str
    call: Callable[[], object]
    n_rows: int
    repeats: int
    against: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Times of an entry, in seconds."""

    entry: Entry
    seconds: list[float]

    @property
    def median(self) -> float:
        """Median of the repetitions."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The fastest repetition."""
        return min(self.seconds)

    def over(self, other: "Timing") -> tuple[float, float]:
        """Return the ratio of the time per row to that of `other`: of medians, and of the fastest repetitions."""
        share = other.entry.n_rows / self.entry.n_rows
        return share * self.median / other.median, share * self.best / other.best


class Report:
    """Markdown that is printed as it grows, and kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        """Add a paragraph."""
        block = [*lines, ""]
        self.lines.extend(block)
        print(*block, sep="\n", flush=True)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], n_left: int = 1) -> None:
        """Add a table whose first `n_left` columns are text and the others numbers."""
        rule = [":--" if index < n_left else "--:" for index in range(len(header))]
        self.say(*("| " + " | ".join(map(str, row)) + " |" for row in (header, rule, *rows)))


def race(entries: Sequence[Entry]) -> list[Timing]:
    """Time all entries in turn, after one call of each that is not timed."""
    timings = [Timing(entry, []) for entry in entries]
    for entry in entries:
        entry.call()
    rounds = max(entry.repeats for entry in entries)
    for turn in range(rounds):
        for timing in timings:
            if turn * timing.entry.repeats % rounds < timing.entry.repeats:  # fewer repetitions are spread evenly
                start = time.perf_counter()
                result = timing.entry.call()
                timing.seconds.append(time.perf_counter() - start)
                del result
    return timings


def pair(ratios: tuple[float, float]) -> str:
    return " / ".join(f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}" for ratio in ratios)


def show(report: Report, timings: Sequence[Timing], n_columns: int, labels: dict[str, str]) -> None:
    """Write a table of times, and one of ratios with a column for each of our entries."""
    limits = {timing.entry.what: timing for timing in timings if timing.entry.name == LIMIT}
    rows = []
    for timing in timings:
        entry, limit = timing.entry, limits.get(timing.entry.what, limits.get("any"))
        speed = entry.n_rows * n_columns / timing.median / 1e6
        times = [f"{1e3 * timing.median:.1f}", f"{1e3 * timing.best:.1f}", f"{speed:.2f}"]
        beyond = [pair(timing.over(limit)) if limit else ""] if limits else []
        rows.append([entry.name, labels[entry.what], f"{entry.n_rows:,}", len(timing.seconds), *times, *beyond])
    header = ["", "what", "rows", "repetitions", "median ms", "best ms", "million values/s"]
    report.table([*header, "times the limit (median / best)"] if limits else header, rows, n_left=2)

    ours = [timing for timing in timings if timing.entry.name == OURS]
    peers = [timing for timing in timings if timing.entry.against]
    rows = []
    for peer in peers:
        cells = [pair(peer.over(timing)) if timing.entry.what in peer.entry.against else "" for timing in ours]
        rows.append([f"{peer.entry.name}, {labels[peer.entry.what]}", *cells])
    names = [f"{OURS} {labels[timing.entry.what]}" for timing in ours]
    report.table(["times faster than (median / best)", *names], rows)
