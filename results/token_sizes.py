"""The FT-Transformer with a token per encoded coordinate, by size: a section of docs/findings.md."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from questions import (
    HERE,
    change_cells,
    is_trained,
    load,
    log_error,
    mean_interval,
    not_trained,
    paragraph,
    rounding_floor,
    table_head,
)
from scipy import optimize, stats

from knotwork.stats import holm

PLAN = "coordinate-sizes"
SPLINES = ("BS-Q", "BS-CART", "IS-Q")
GROUPS = {**{name: (name,) for name in (*SPLINES, "PLE")}, "splines": SPLINES}
"""Rows of the table: each encoding, and the mean of the splines."""
KINDS = ("coordinate", "feature")
SIZES = (15, 30)
"""Compared with size 7."""


class Changes(NamedTuple):
    """Logarithms of error at a size over error at size 7, averaged over folds."""

    by_table: pd.DataFrame
    """A row for each data set, a column for each method."""
    folds: pd.MultiIndex
    """The data sets and folds behind them."""

    def of(self, group: str) -> "pd.Series[float]":
        """Return the mean over the methods of a group."""
        return self.by_table[list(GROUPS[group])].mean(axis=1)


def changes(frame: pd.DataFrame, size: int, *, within: pd.MultiIndex | None = None) -> Changes:
    """Return the changes of error from size 7, over the folds in which all encodings have both sizes.

    `within` has the data sets and folds to take; all by default.
    """
    part = frame[frame["method"].isin([*SPLINES, "PLE"])].assign(error=log_error)
    wide = part.pivot_table(index=["dataset", "fold"], columns=["method", "size"], values="error")
    wanted = [(name, each) for name in (*SPLINES, "PLE") for each in (7, size)]
    wide = wide.reindex(columns=pd.MultiIndex.from_tuples(wanted)).dropna()
    if within is not None:
        wide = wide[wide.index.isin(within)]
    gaps = pd.DataFrame({name: wide[name, size] - wide[name, 7] for name in (*SPLINES, "PLE")})
    return Changes(gaps.groupby(level="dataset").mean(), pd.MultiIndex.from_tuples(gaps.index, names=wide.index.names))


def all_changes() -> dict[tuple[str, int], Changes]:
    """Return the changes of both kinds of tokens at sizes 15 and 30, in the same data sets and folds."""
    table = {}
    for size in SIZES:
        main = changes(load(PLAN), size)
        table |= {
            ("coordinate", size): main,
            ("feature", size): changes(load("paper-ft"), size, within=main.folds),
        }
    return table


def answer(values: "pd.Series[float]") -> str:
    """Return whether errors become larger with size."""
    _, low, high = mean_interval(values)
    return "yes" if low > 0 else "no, they become better" if high < 0 else "cannot be told: the interval contains 0"


def with_interval(values: "pd.Series[float]") -> str:
    """Return a change with its interval in brackets."""
    mean, interval, _ = change_cells(values)
    return f"{mean} ({interval})"


def detectable(values: "pd.Series[float]", power: float = 0.8) -> float:
    """Return the true change, in percent, that the interval would exclude 0 for with a probability of `power`.

    The spread between data sets is taken as measured.
    """
    n_free = len(values) - 1
    limit = stats.t.ppf(0.975, n_free)
    distance = optimize.brentq(lambda d: stats.nct.sf(limit, n_free, d) - power, 0, 10)
    return float(100 * np.expm1(distance * values.sem()))


def missing_folds(table: dict[tuple[str, int], Changes], frame: pd.DataFrame) -> str:
    """Return the sizes and data sets with fewer folds than the others, with their numbers of folds."""
    words = []
    for size in SIZES:
        counts = table["coordinate", size].folds.get_level_values("dataset").value_counts()
        counts = counts.reindex(sorted(frame["dataset"].unique()), fill_value=0)
        fewer = [f"{name} {count}" for name, count in counts.items() if count < frame["fold"].nunique()]
        words += [f"size {size}: {', '.join(fewer)}"] if fewer else []
    return f" (fewer at {'; '.join(words)})" if words else ""


def token_sizes() -> Iterator[str]:
    """Answer whether splines become worse with size if each coordinate is a token."""
    yield "## With a token per coordinate, do splines become worse with size?\n"
    table = all_changes() if is_trained(PLAN) else {}
    if not table or len(table["coordinate", 30].by_table) < 2:
        yield not_trained(PLAN)
        return
    frame = load(PLAN)
    yield paragraph(f"""
        {len(frame)} FT-Transformers with a token per coordinate: Std and {len(GROUPS) - 1} encodings on
        {frame["dataset"].nunique()} small data sets in {frame["fold"].nunique()} folds{missing_folds(table, frame)}.
        Change of the error (NRMSE, or 1 - AUC) from size 7 in the same fold: logarithms of ratios, averaged over the
        folds of a data set, then over data sets, as percent. Data sets are the units of the 95 % intervals (t): these
        assume that data sets are independent and that their changes are roughly normal. Worse: the number of data sets
        with more error. Beside it the same data sets, methods and folds with a token per feature. Networks of size 7
        and Std are those of the section above, which an earlier version of the library trained, so that rounding and
        random numbers differ as well.""")
    yield from table_head("encoding | token per | size 15 | interval | worse | size 30 | interval | worse")
    for group in GROUPS:
        for kind in KINDS:
            cells = [cell for size in SIZES for cell in change_cells(table[kind, size].of(group))]
            yield f"| {group} | {kind} | " + " | ".join(cells) + " |"
    yield "\n" + paragraph(conclusion(table, frame))
    yield paragraph(robustness(table["coordinate", 30]))
    yield paragraph(beside_others(table, frame))


def conclusion(table: dict[tuple[str, int], Changes], frame: pd.DataFrame) -> str:
    """Return the answer in sentences, and the change that could have been detected."""
    main = table["coordinate", 30]
    values, tasks = main.of("splines"), frame.groupby("dataset")["task"].first()
    is_regression = values.index.map(tasks) == "regression"
    alone, quantiles = values[is_regression], main.of("BS-Q")[is_regression]
    least = {name: detectable(main.of(name)) for name in SPLINES}
    worst = max(least, key=lambda name: least[name])
    return f"""
        Do splines become worse from size 7 to 30? **{answer(values).capitalize()}**: {with_interval(values)}; p =
        {stats.wilcoxon(values).pvalue:.2f} by signed ranks over data sets, which assume no normal distribution. What
        could have been detected, with a probability of 80 % and the spread between data sets as measured: a true growth
        of {detectable(values):.1f} % for the mean of the splines, of {least[worst]:.0f} % for {worst} alone. On the
        {len(alone)} regressions: {with_interval(alone)}, detectable {detectable(alone):.1f} %; {answer(alone)}. The
        paper's mean NRMSE of BS-Q with an FT-Transformer, over 13 data sets, grows by {100 * paper_growth():.0f} % from
        size 7 to 30; here the geometric mean of the error of BS-Q changes by {with_interval(quantiles)} on these
        {len(quantiles)} regressions. The two are different means over different data sets."""


def robustness(main: Changes) -> str:
    """Return how much the answer depends on single encodings and data sets."""
    values, names = main.of("splines"), [*SPLINES, "PLE"]
    tests = {name: float(stats.wilcoxon(main.of(name)).pvalue) for name in names}
    adjusted = dict(zip(names, holm(list(tests.values())), strict=True))
    cells = ", ".join(f"{name} {tests[name]:.3f} ({adjusted[name]:.3f})" for name in names)
    spread = main.by_table[list(SPLINES)].max(axis=1) - main.by_table[list(SPLINES)].min(axis=1)
    widest = spread.idxmax()
    changed = ", ".join(f"{name} {100 * np.expm1(main.by_table.loc[widest, name]):+.0f} %" for name in SPLINES)
    without = {name: values.drop(name) for name in values.index}
    means = {name: mean_interval(rest) for name, rest in without.items()}
    excluding = [name for name, (_, low, high) in means.items() if low > 0 or high < 0]
    verdict = f"without {' or '.join(map(str, excluding))} the interval excludes 0" if excluding else (
        "it contains 0 without any one of them"
    )  # fmt: skip
    ends = [100 * np.expm1([each[place] for each in means.values()]) for place in (1, 2)]
    n_averaged = len(SPLINES) * round(len(main.folds) / len(values))
    floor = rounding_floor("ft feature", ("regression", "classification"), n_sets=len(values), n_averaged=n_averaged)
    return f"""
        This answer is less firm than its interval. The changes of the three splines cancel on some data sets, most on
        {widest} ({changed}), so that the mean of three varies less between data sets than each of them does. P-values
        by signed ranks of each encoding from size 7 to 30, with Holm's correction for the four in brackets: {cells}.
        Without one data set at a time, the lower end of the interval is between {ends[0].min():+.1f} and
        {ends[0].max():+.1f} % and the upper one between {ends[1].min():+.1f} and {ends[1].max():+.1f} %; {verdict}.
        [Rounding](#the-noise-of-training) alone gives differences of up to {floor} between two sizes, with a
        probability of 95 %."""


def beside_others(table: dict[tuple[str, int], Changes], frame: pd.DataFrame) -> str:
    """Compare the splines at size 30 with PLE, with a token per feature, and with Std."""
    main = table["coordinate", 30]
    values = main.of("splines")
    log = frame.assign(error=log_error).set_index(["dataset", "fold"])
    log = log[log.index.isin(main.folds)]
    scaled = log.loc[log["method"] == "Std", "error"]
    levels = []
    for size in (7, 30):
        part = log[log["method"].isin(SPLINES) & (log["size"] == size)]["error"].groupby(level=["dataset", "fold"])
        levels.append(with_interval((part.mean() - scaled).groupby(level="dataset").mean()))
    return f"""
        The change of the splines from size 7 to 30 compared with that of PLE: {with_interval(values - main.of("PLE"))};
        with that of splines with a token per feature: {with_interval(values - table["feature", 30].of("splines"))}.
        Error of the splines compared with Std: {levels[0]} at size 7, {levels[1]} at size 30."""


def paper_growth() -> float:
    """Return by how much the paper's mean NRMSE of BS-Q with an FT-Transformer grows from size 7 to 30."""
    quoted = pd.read_csv(HERE / "paper" / "quoted_averages.csv").query("backbone == 'ftt' and method == 'BS-Q'")
    values = quoted.set_index("size")["value"]
    return float(values[30] / values[7] - 1)
