"""The FT-Transformer with a token per encoded coordinate, by size: a section of docs/findings.md."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from questions import change_cells, is_trained, load, log_error, mean_interval, not_trained, paragraph, table_head

PLAN = "coordinate-sizes"
SPLINES = ("BS-Q", "BS-CART", "IS-Q")
GROUPS = {**{name: (name,) for name in (*SPLINES, "PLE")}, "splines": SPLINES}
"""Rows of the table: each encoding, and the mean of the splines."""
KINDS = ("coordinate", "feature")


class Changes(NamedTuple):
    """Logarithms of error at a size over error at size 7: one row per data set, one column per method."""

    by_table: pd.DataFrame
    n_folds: int
    """Folds behind the data set with the fewest."""

    def of(self, group: str) -> "pd.Series[float]":
        """Return the mean over the methods of a group."""
        return self.by_table[list(GROUPS[group])].mean(axis=1)


def records() -> dict[str, pd.DataFrame]:
    """Return the networks of both kinds of tokens, for the data sets, methods and folds of the plan."""
    coordinate, feature = load(PLAN), load("paper-ft")
    same = ["dataset", "method", "fold"]
    wanted = coordinate[same].drop_duplicates()
    return {"coordinate": coordinate, "feature": feature.merge(wanted, on=same)}


def changes(frame: pd.DataFrame, size: int) -> Changes:
    """Return the changes of error from size 7, over the folds in which all encodings have both sizes."""
    part = frame[frame["method"].isin([*SPLINES, "PLE"])].assign(error=log_error)
    wide = part.pivot_table(index=["dataset", "fold"], columns=["method", "size"], values="error")
    wanted = [(name, each) for name in (*SPLINES, "PLE") for each in (7, size)]
    wide = wide.reindex(columns=pd.MultiIndex.from_tuples(wanted)).dropna()
    gaps = pd.DataFrame({name: wide[name, size] - wide[name, 7] for name in (*SPLINES, "PLE")})
    by_table = gaps.groupby(level="dataset")
    return Changes(by_table.mean(), int(by_table.size().min()) if len(gaps) else 0)


def answer(values: "pd.Series[float]") -> str:
    """Return whether errors become larger with size."""
    _, low, high = mean_interval(values)
    return "yes" if low > 0 else "no, they become better" if high < 0 else "cannot be told: the interval contains 0"


def token_sizes() -> Iterator[str]:
    """Answer whether splines become worse with size if each coordinate is a token."""
    yield "## With a token per coordinate, do splines become worse with size?\n"
    both = records() if is_trained(PLAN) else {}
    table = {(kind, size): changes(frame, size) for kind, frame in both.items() for size in (15, 30)}
    if not both or len(table["coordinate", 30].by_table) < 2:
        yield not_trained(PLAN)
        return
    extents = [table["coordinate", size] for size in (15, 30)]
    n_sets, n_folds = [len(each.by_table) for each in extents], min(each.n_folds for each in extents)
    counts = f"{n_sets[0]}" if n_sets[0] == n_sets[1] else f"{n_sets[0]} (size 15) and {n_sets[1]} (size 30)"
    yield paragraph(f"""
        {len(both["coordinate"])} FT-Transformers with a token per coordinate, {counts} small data sets,
        at least {n_folds} {"folds" if n_folds > 1 else "fold"} of each. Change of the error (NRMSE, or 1 - AUC)
        from size 7: logarithms of ratios, averaged over folds, then over data sets, as percent; 95 % intervals (t) over
        data sets, and the number of data sets with more error. Beside it the same data sets, methods and folds with a
        token per feature.""")
    yield from table_head("encoding | token per | size 15 | interval | worse | size 30 | interval | worse")
    for group in GROUPS:
        for kind in KINDS:
            cells = [cell for size in (15, 30) for cell in change_cells(table[kind, size].of(group))]
            yield f"| {group} | {kind} | " + " | ".join(cells) + " |"
    yield "\n" + paragraph(conclusion(table, both["coordinate"]))


def conclusion(table: dict[tuple[str, int], Changes], frame: pd.DataFrame) -> str:
    """Return the answer in sentences."""
    main, beside = table["coordinate", 30], table["feature", 30]
    tasks = frame.groupby("dataset")["task"].first()
    numbers = main.of("splines")[lambda values: values.index.map(tasks) == "regression"]
    pairs = {
        "to PLE's": main.of("splines") - main.of("PLE"),
        "to that with a token per feature": (main.of("splines") - beside.of("splines")).dropna(),
    }
    more = "; ".join(f"{name}: {' ('.join(change_cells(values)[:2])})" for name, values in pairs.items())
    alone = f"; on the {len(numbers)} regressions alone: {answer(numbers)} ({' ('.join(change_cells(numbers)[:2])}))"
    scaled = frame[frame["method"] == "Std"].assign(error=log_error).groupby(["dataset", "fold"])["error"].mean()
    large = frame[frame["method"].isin(SPLINES) & (frame["size"] == 30)].groupby(["dataset", "fold"]).size().index
    scaled = scaled[scaled.index.isin(large)]
    levels = []
    for size in (7, 30):
        part = frame[frame["method"].isin(SPLINES) & (frame["size"] == size)].assign(error=log_error)
        gap = part.groupby(["dataset", "fold"])["error"].mean() - scaled
        levels.append(f"{100 * np.expm1(gap.groupby(level='dataset').mean().mean()):+.1f} %")
    return f"""
        Do splines become worse from size 7 to 30? **{answer(main.of("splines")).capitalize()}**{
        alone if len(numbers) > 1 else ""
    }. The change of the splines compared {more}. Error of the splines compared with Std: {levels[0]} at size 7, {
        levels[1]
    } at size 30. The
        paper's mean NRMSE of BS-Q with an FT-Transformer grows from 0.2451 at size 7 to 0.3034 at size 30."""
