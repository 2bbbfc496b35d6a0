"""The parts of a folder of records that are shown apart: benchmarks, grids of sizes, and times."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from knotwork.report._aggregate import TASKS, RankTable, rank_table, read_records, sizes_of, summarise_folds

__all__ = ["TIMES", "Part", "split_records"]

TIMES = "efficiency"
"""First word of the names of plans whose networks are trained for their times."""

_IDENTITY = ["dataset", "backbone", "variant", "together", "method", "size", "fold", "seed"]
"""What tells networks apart, but for tokens: a backbone has one block in the ranks of a data set, not one for each kind
of its tokens."""
_FEWEST_SIZES = 4


@dataclass(frozen=True, eq=False)
class Part:
    """Records that are ranked or drawn together.

    Parameters
    ----------
    kind : {"benchmark", "grid", "times", "traces"}
        Methods on data sets, one data set with many sizes, networks trained for their times, or for what is kept of
        them beside the records: paths of knots, fitted curves.
    plans : tuple of str
        The plans that they belong to; empty if the records do not say.
    frame : DataFrame
        As from `read_records`.
    """

    kind: str
    plans: tuple[str, ...]
    frame: pd.DataFrame

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means over folds, as from `summarise_folds`."""
        return summarise_folds(self.frame)

    @cached_property
    def tables(self) -> list[RankTable]:
        """The ranks of each task and size."""
        return [
            rank_table(self.summary, task, size=size)
            for task in TASKS
            for size in sizes_of(self.summary[self.summary["task"] == task])
        ]

    @property
    def title(self) -> str:
        """The plans, for headings."""
        return ", ".join(self.plans) or "these records"


def split_records(records: pd.DataFrame, traced: Collection[str] = ()) -> list[Part]:
    """Split records by their plans into parts, benchmarks first, the one with most networks at the head.

    Plans whose names begin with the same word before a hyphen, as ``paper-mlp`` and ``paper-ft``, are one part, unless
    one has methods that the other lacks, or both have trained the same network in different ways or with other tokens,
    so that it would count twice (within one plan, every kind of tokens has its own block). Networks of plans whose
    names begin with ``efficiency`` are there for their times, those with `traced` networks for what was kept of them; a
    single data set with four sizes or more is a grid; the others are benchmarks.

    Parameters
    ----------
    records : DataFrame
        As `read_records` takes them; a column `plan` has the name of a plan in each row, and a network that belongs to
        two plans is there twice. Without that column all records are one plan.
    traced : collection of str, default=()
        Keys of networks that were trained for what is kept beside their records.
    """
    if "plan" not in records.columns:
        return [_part((), records, traced)]
    names = records["plan"].astype(object).where(records["plan"].notna(), "").astype(str)
    by_plan = sorted(records.groupby(names), key=lambda each: -len(each[1]))
    groups: list[tuple[list[str], pd.DataFrame]] = []
    for name, rows in by_plan:
        for place, (members, held) in enumerate(groups):
            if _belong_together(members, held, str(name), rows):
                groups[place] = [*members, str(name)], pd.concat([held, rows], ignore_index=True)
                break
        else:
            groups.append(([str(name)], rows))
    parts = [_part([name for name in members if name], held, traced) for members, held in groups]
    return sorted(parts, key=lambda part: (part.kind != "benchmark", -len(part.frame)))


def _belong_together(members: Sequence[str], held: pd.DataFrame, name: str, rows: pd.DataFrame) -> bool:
    """Return whether the rows of a plan can be ranked with those of other plans."""
    if name.partition("-")[0] != members[0].partition("-")[0]:
        return False
    if name.partition("-")[0] == TIMES:
        return True
    if not set(rows["method"]) <= set(held["method"]):
        return False
    if "key" not in rows.columns:
        return True
    new = rows[~rows["key"].isin(held["key"])]
    identity = [name for name in _IDENTITY if name in rows.columns and name in held.columns]
    both = pd.concat([each[identity].drop_duplicates() for each in (held, new)])
    return not both.duplicated().any()


def _part(plans: Sequence[str], records: pd.DataFrame, traced: Collection[str]) -> Part:
    frame = read_records(records)
    if frame["key"].isin(list(traced)).any():
        kind = "traces"
    elif any(name.partition("-")[0] == TIMES for name in plans):
        kind = "times"
    elif frame["dataset"].nunique() == 1 and frame["size"].nunique() >= _FEWEST_SIZES:
        kind = "grid"
    else:
        kind = "benchmark"
    return Part(kind, tuple(sorted(plans)), frame)
