"""Tables in Markdown, LaTeX and CSV, and the tables of results: scores, ranks, wins, and grids of sizes."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from knotwork._writing import DASH, MINUS, fixed
from knotwork.report._aggregate import LEVEL, SCORES, RankTable, all_sizes, file_name, in_order, name_size, sizes_of
from knotwork.stats import compare_folds, wins
from knotwork.training import METRICS

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", MINUS: "$-$", DASH: "--",
    "²": "$^2$", "<": "$<$", ">": "$>$", "…": r"\ldots{}", "·": r"$\cdot$",
}  # fmt: skip


HOTTEST = 4
"""Shades of the cells of a row, besides the palest."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a text, or a number with its standard deviation.

    Parameters
    ----------
    text : str
        Text that is shown if there is no number.
    value : float or None
        The number; missing if None or NaN.
    sd : float or None
        Its standard deviation.
    digits : int, default=4
        Number of decimals shown.
    best : bool, default=False
        Whether to show it in bold.
    note : str
        A remark on the number, such as missing folds; numbers with a note are marked by a star.
    heat : int, optional
        From 0 for the worst number of its row to `HOTTEST` for the best: pages shade the cell by it, and have the
        standard deviation in the tooltip only.
    """

    text: str = ""
    value: float | None = None
    sd: float | None = None
    digits: int = 4
    best: bool = False
    note: str = ""
    heat: int | None = None

    @property
    def has_value(self) -> bool:
        """Whether there is a number."""
        return self.value is not None and bool(np.isfinite(self.value))

    @property
    def shown(self) -> str:
        """The text that readers see."""
        if not self.has_value:
            return self.text or DASH
        return f"{fixed(self.value, self.digits)}{self.spread}{'*' if self.note else ''}"

    @property
    def spread(self) -> str:
        """The standard deviation with its sign; empty without one."""
        return "" if self.sd is None or not np.isfinite(self.sd) else f" ± {fixed(self.sd, self.digits)}"

    @property
    def on_page(self) -> str:
        """The text of pages, where a shaded cell has no standard deviation."""
        return self.shown if self.heat is None else self.shown.replace(self.spread, "")

    @property
    def tooltip(self) -> str:
        """What a page shows of the number when asked."""
        spread = "" if self.heat is None else f"{self.spread.strip()} over folds" * bool(self.spread)
        return "; ".join(part for part in (spread, self.note) if part)


@dataclass(frozen=True)
class ReportTable:
    """A table with a caption; every row has one cell per column.

    Parameters
    ----------
    name : str
        Name of its files, and its label in LaTeX.
    title : str
        A short heading.
    caption : str
        Caption.
    columns : list of str
        Headings.
    rows : list of list of Cell
        Cells, row after row.
    """

    name: str
    title: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether each column has numbers, and is right-aligned."""
        return [any(row[i].has_value for row in self.rows) for i in range(len(self.columns))]

    def to_markdown(self) -> str:
        """Return the table in Markdown, best numbers in bold."""
        ends = ["---:" if numeric else "---" for numeric in self.numeric]
        lines = [f"**{self.title}.** {self.caption}", "", _pipes([_plain(name) for name in self.columns]), _pipes(ends)]
        lines += [
            _pipes([f"**{_plain(cell.shown)}**" if cell.best else _plain(cell.shown) for cell in row])
            for row in self.rows
        ]
        return "\n".join([*lines, *self._footnote(), ""])

    def to_latex(self) -> str:
        """Return the table in LaTeX with the package booktabs, best numbers in bold."""
        align = "".join("r" if numeric else "l" for numeric in self.numeric)
        lines = [
            r"\begin{table}[t]",
            r"\centering",
            r"\small",
            rf"\caption{{{_latex(self.title)}. {_latex(' '.join([self.caption, *self._footnote()]).strip())}}}",
            rf"\label{{tab:{self.name.replace('_', '-')}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            " & ".join(_latex(name) for name in self.columns) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            cells = [rf"\textbf{{{_latex(cell.shown)}}}" if cell.best else _latex(cell.shown) for cell in row]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def to_csv(self) -> str:
        """Return the table as CSV with all digits; names of columns of standard deviations end with `` sd``."""
        with_sd = [any(row[i].sd is not None for row in self.rows) for i in range(len(self.columns))]
        lines = [[(name, f"{name} sd") for name in self.columns]]
        lines += [
            [(_number(cell.value) if cell.has_value else cell.text, _number(cell.sd)) for cell in row]
            for row in self.rows
        ]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for line in lines:
            writer.writerow([entry for pair, sd in zip(line, with_sd, strict=True) for entry in pair[: 1 + sd]])
        return text.getvalue()

    def _footnote(self) -> list[str]:
        notes = any(cell.note and cell.has_value for row in self.rows for cell in row)
        return ["", "* Not all folds have a score."] if notes else []


def size_cell(size: float | None) -> Cell:
    """Return the cell of a size; None or NaN is a method without a size."""
    return Cell("no size") if size is None or np.isnan(size) else Cell(value=float(size), digits=0)


def cell_rows(rows: Iterable[Iterable[Any]], digits: Iterable[int]) -> list[list[Cell]]:
    """Return the rows of a table from texts, numbers and cells; `digits` are the decimals of each column's numbers."""
    places = list(digits)
    return [[_cell(value, n) for value, n in zip(row, places, strict=True)] for row in rows]


def _cell(value: Cell | str | float | None, digits: int) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell(value) if isinstance(value, str) else Cell(value=None if value is None else float(value), digits=digits)


def _mark_best(cells: Sequence[Cell], *, lower_is_better: bool) -> list[Cell]:
    """Return the cells with the best numbers in bold, all that equal the best value before rounding, and their heat."""
    values = [cell.value for cell in cells if cell.value is not None and cell.has_value and not cell.note]
    best = (min if lower_is_better else max)(values, default=None)
    known = sorted({float(cell.value) for cell in cells if cell.value is not None and cell.has_value})
    order = known[::-1] if lower_is_better else known
    heat = {value: round(HOTTEST * place / max(len(order) - 1, 1)) for place, value in enumerate(order)}
    return [
        replace(cell, best=cell.value == best and not cell.note, heat=heat[float(cell.value)])
        if cell.value is not None and cell.has_value
        else cell
        for cell in cells
    ]


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _number(value: float | None) -> str:
    return "" if value is None or not np.isfinite(value) else repr(float(value))


def dataset_table(summary: pd.DataFrame, task: str, *, size: int | None) -> ReportTable:
    """Return the scores on every data set and network, mean and standard deviation over folds, the best in bold.

    Scores with missing folds have a star and are never bold. Methods without a size are repeated for every size of the
    same data set and network. Parameters are as in `rank_table`.
    """
    metric = SCORES[task]
    scores = _score_rows(summary, task, size)
    methods = in_order([method for _, _, cells in scores for method in cells])
    of_size = "" if size is None else f" for size {size}"
    return ReportTable(
        file_name("scores", task, size),
        f"{task.capitalize()} results{of_size}",
        f"{metric.label} ({metric.direction}), mean ± standard deviation (on pages in the tooltip) over folds; "
        "the best of each data set and backbone in bold.",
        ["data set", "backbone", *methods],
        [[Cell(dataset), Cell(network), *_of_methods(cells, methods)] for dataset, network, cells in scores],
    )


def _score_rows(summary: pd.DataFrame, task: str, size: int | None) -> list[tuple[str, str, dict[str, Cell]]]:
    """Return data set, network and the scores by method of each row of `dataset_table`."""
    of_task = summary[summary["task"] == task]
    part = of_task[of_task["size"].isna() | (of_task["size"] == size)]
    sized = of_task[of_task["size"].notna()]
    elsewhere = set(zip(sized["network"], sized["dataset"], strict=True))
    rows = []
    for (network, dataset), problem in part.groupby(["network", "dataset"]):
        if size is not None and problem["size"].isna().all() and (network, dataset) in elsewhere:
            continue
        scores = problem.drop_duplicates("method", keep="last")
        cells = _mark_best(list(map(_score_cell, scores.itertuples())), lower_is_better=SCORES[task].lower_is_better)
        rows.append((str(dataset), str(network), dict(zip(scores["method"], cells, strict=True))))
    return rows


def _of_methods(cells: Mapping[Any, Cell], methods: Iterable[Any]) -> list[Cell]:
    """Return the cells of methods, empty ones for those without a cell."""
    return [cells.get(method, Cell()) for method in methods]


def metric_table(frame: pd.DataFrame, task: str) -> ReportTable:
    """Return the mean over folds and seeds of every recorded metric of a task, of each method on each problem."""
    rows = frame[(frame["task"] == task) & (frame["status"] == "ok")]
    metrics = {
        metric.name: metric.label
        for metric in METRICS.values()
        if metric.task == task and metric.name in rows.columns and rows[metric.name].notna().any()
    }
    keys = ["dataset", "network", "method", "size"]
    means = rows.groupby(keys, dropna=False, sort=False)[list(metrics)].mean().reset_index()
    return ReportTable(
        f"metrics_{task}",
        f"All metrics, {task}",
        f"Means over folds of all recorded metrics of {task} are in tables/metrics_{task}.csv: "
        f"{', '.join(metrics.values())}.",
        ["data set", "backbone", "method", "size", *metrics.values()],
        cell_rows(means.itertuples(index=False), [0] * len(keys) + [4] * len(metrics)),
    )


def browse_table(summary: pd.DataFrame) -> ReportTable:
    """Return the scores of all tasks and sizes in one table for sorting and filtering; bold as in `dataset_table`."""
    methods = in_order(summary["method"].unique())
    rows = [
        [Cell(dataset), Cell(task), Cell(network), size_cell(size), *_of_methods(cells, methods)]
        for task in SCORES
        for size in sizes_of(summary[summary["task"] == task])
        for dataset, network, cells in _score_rows(summary, task, size)
    ]
    return ReportTable(
        "scores",
        "Scores by data set",
        "NRMSE for regression (lower is better), AUC for classification (higher is better); mean over folds, with the "
        "standard deviation in the tooltip; the best of each row in bold, and cells darker the better they are. Std "
        "and MinMax have no size and appear in the rows of all sizes.",
        ["data set", "task", "backbone", "size", *methods],
        rows,
    )


def _score_cell(row: Any) -> Cell:
    """Return the cell of a row of the summary."""
    note = "" if row.complete else f"{row.n} of {row.expected} folds"
    return Cell("failed" if row.n == 0 else "", float(row.mean), float(row.sd), note=note)


def fold_table(frame: pd.DataFrame) -> ReportTable:
    """Return the score of every fold and random seed, a row per network; the frame is as from `read_records`."""
    scored = frame[frame["score"].notna()]
    order = {method: place for place, method in enumerate(in_order(scored["method"].unique()))}
    keys = ["task", "dataset", "network", "size", "place", "fold", "seed"]
    ordered = scored.assign(place=scored["method"].map(order)).sort_values(keys, kind="stable")
    sizes = pd.Series([size_cell(size) for size in ordered["size"]], ordered.index, dtype=object)
    digits = {"dataset": 0, "task": 0, "network": 0, "size": 0, "method": 0, "fold": 0, "seed": 0, "score": 4}
    return ReportTable(
        "folds",
        "Scores by fold",
        "NRMSE for regression (lower is better), AUC for classification (higher is better).",
        ["data set", "task", "backbone", "size", "method", "fold", "seed", "score"],
        cell_rows(ordered.assign(size=sizes)[list(digits)].itertuples(index=False), digits.values()),
    )


def fold_scores(table: ReportTable) -> list[dict[str, Any]]:
    """Return the scores of `fold_table` as JSON for the script of a page: a dict per data set and backbone."""
    problems: dict[tuple[str, ...], dict[str, Any]] = {}
    for dataset, task, network, size, method, _, _, score in table.rows:
        metric = SCORES[task.text]
        label = f"{metric.label}, {metric.direction}"
        empty = {"dataset": dataset.text, "backbone": network.text, "score": label, "sizes": {}}
        problem = problems.setdefault((dataset.text, task.text, network.text), empty)
        folds = problem["sizes"].setdefault(size.text or f"{size.value:.0f}", {}).setdefault(method.text, [])
        folds.append(float(f"{score.value:.5g}"))
    return list(problems.values())


def average_rank_table(tables: Sequence[RankTable]) -> ReportTable:
    """Return the average ranks of one task from the tables of its sizes, by method, the best of each size in bold.

    Ranks over problems come first, followed by ranks over data sets if some data sets have several problems.
    """
    several = [table for table in tables if len(table.datasets) < len(table.problems)]
    shown = [(name_size(table.size), table, table.ranks) for table in tables]
    shown += [(f"{name_size(table.size)}, data sets", table, table.dataset_ranks) for table in several]
    columns = [
        dict(
            zip(
                table.methods,
                _mark_best([Cell(value=rank, digits=2) for rank in ranks.tolist()], lower_is_better=True),
                strict=True,
            )
        )
        for _, table, ranks in shown
    ]
    caption = f"Lower is better. Problems: {_counts(tables, [len(table.problems) for table in tables])}."
    if several:
        n_sets = _counts(several, [len(table.datasets) for table in several])
        caption += f" Data sets, each of which counts once: {n_sets}."
    methods = in_order([method for table in tables for method in table.methods])
    return ReportTable(
        f"average_ranks_{tables[0].task}",
        f"Average ranks, {tables[0].task}",
        caption,
        ["method", *(head for head, _, _ in shown)],
        [[Cell(method), *(column.get(method, Cell()) for column in columns)] for method in methods],
    )


def _counts(tables: Sequence[RankTable], counts: list[int]) -> str:
    """Return the number for each size, or the common number of all sizes."""
    if len(set(counts)) == 1:
        return str(counts[0])
    return ", ".join(f"{count} ({name_size(table.size)})" for count, table in zip(counts, tables, strict=True))


def detail_table(table: RankTable) -> ReportTable:
    """Return each method's rank with interval, number of first places, and comparison with the best."""
    errors = table.metric.errors(table.scores)
    first = np.count_nonzero(errors == errors.min(axis=1, keepdims=True), axis=0)
    compared = _compared(table) if table.has_tests else [[None, None, *["no test"] * 5]] * len(table.methods)
    digits = {
        "method": 0, "average rank": 2, "low": 2, "high": 2, "first places": 0, "difference, %": 2, "from": 2, "to": 2,
        "p (Wilcoxon, Holm)": 4, "significantly worse": 0,
    }  # fmt: skip
    interval = f" with a bootstrap interval of 95 % ({len(table.datasets)} data sets are resampled)"
    if not np.isfinite(table.intervals.low).any():
        interval = ""
    rows = []
    for i in table.order:
        (low, high, *others), name = compared[i], table.methods[i]
        rank = Cell(value=float(table.ranks[i]), digits=2, best=name in table.best)
        rows.append([name, rank, low, high, first[i], *others])
    return ReportTable(
        file_name("ranks", table.task, table.size),
        f"Ranks in detail, {table.label[0].lower()}{table.label[1:]}",
        f"Average rank over {len(table.problems)} problems{interval}, and problems in which the method is first (ties "
        f"count for each). Difference from {table.methods[table.order[0]]} in percent of the mean error of the "
        "methods, averaged by data set, with a 95 % interval (t, each by itself); p-value of the signed-rank test over "
        f"data sets, corrected by Holm for all pairs; whether the method is significantly worse ({LEVEL}).",
        list(digits),
        cell_rows(rows, digits.values()),
    )


def _compared(table: RankTable) -> list[list[Any]]:
    """Return each method's interval, its difference from the best with an interval, its p-value, and the verdict."""
    best, far = table.order[0], set(table.worse())
    gaps = compare_folds(table.errors, test_to_train=0.0, reference=best)
    numbers = np.stack([100 * gaps.difference, 100 * gaps.low, 100 * gaps.high, table.pairs.adjusted[best]], axis=1)
    verdicts = ["best" if name in table.best else "yes" if name in far else "no" for name in table.methods]
    return [
        [table.intervals.low[i], table.intervals.high[i], *([None] * 4 if i == best else numbers[i]), verdict]
        for i, verdict in enumerate(verdicts)
    ]


def win_table(table: RankTable) -> ReportTable:
    """Return wins, ties and losses of each method (row) against each other one (column) over the problems."""
    counts = wins(table.scores, lower_is_better=table.metric.lower_is_better)
    rows = []
    for i in table.order:
        cells = [Cell("·") if i == j else Cell("/".join(map(str, counts[i, j].tolist()))) for j in table.order]
        rows.append([Cell(table.methods[i]), *cells])
    return ReportTable(
        file_name("wins", table.task, table.size),
        f"Wins, {table.label[0].lower()}{table.label[1:]}",
        f"Wins/ties/losses of the row against the column over {len(table.problems)} problems.",
        ["method", *(table.methods[j] for j in table.order)],
        rows,
    )


def grid_name(dataset: str, network: str) -> str:
    """Return the file name of the scores by size of one data set and network."""
    return f"grid_{dataset}_{network}".replace(" ", "_").replace("(", "").replace(")", "")


def grid_table(summary: pd.DataFrame, dataset: str, *, network: str) -> ReportTable:
    """Return the scores of one data set and network by method and size, the best of all in bold.

    The first column is for methods without a size.
    """
    part = summary[(summary["dataset"] == dataset) & (summary["network"] == network)]
    metric = SCORES[str(part["task"].iloc[0])]
    sizes = all_sizes(part)
    cells = _mark_best(list(map(_score_cell, part.itertuples())), lower_is_better=metric.lower_is_better)
    scores = dict(zip(zip(part["method"], part["size"].fillna(0), strict=True), cells, strict=True))
    return ReportTable(
        grid_name(dataset, network),
        f"Scores by size, {dataset}, {network}",
        f"{metric.label} ({metric.direction}), mean ± standard deviation over folds and seeds; the best "
        "of all in bold.",
        ["method", *("no size" if size is None else str(size) for size in sizes)],
        [
            [Cell(method), *_of_methods(scores, [(method, size or 0) for size in sizes])]
            for method in in_order(part["method"].unique())
        ],
    )
