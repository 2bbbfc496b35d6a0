"""Tables: the best is bold, LaTeX is balanced, CSV has the exact numbers."""

import csv
import io
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp, wilcoxon

from knotwork.report._aggregate import rank_table, read_records, summarise_folds
from knotwork.report._costs import advice_table, advise, complexity_table, overhead_table, time_table
from knotwork.report._tables import (
    HOTTEST,
    Cell,
    ReportTable,
    _mark_best,
    average_rank_table,
    browse_table,
    dataset_table,
    detail_table,
    grid_table,
    win_table,
)
from tests.report.cases import make_records

RECORDS = make_records(3, 2, n_folds=3)
SUMMARY = summarise_folds(read_records(RECORDS))
RANKS = [rank_table(SUMMARY, "regression", size=size) for size in (7, 15, 30)]
TABLES = {
    "scores": dataset_table(SUMMARY, "regression", size=7),
    "classes": dataset_table(SUMMARY, "classification", size=7),
    "browse": browse_table(SUMMARY),
    "average": average_rank_table(RANKS),
    "detail": detail_table(RANKS[0]),
    "wins": win_table(RANKS[0]),
    "grid": grid_table(SUMMARY, "reg00", network="mlp"),
    "advice": advice_table(advise(SUMMARY)),
    "complexity": complexity_table(),
    "overhead": overhead_table(SUMMARY),
    "times": time_table(SUMMARY),
    "hostile": ReportTable(
        "a_b", "50 % of {x}", "a & b_c ~ ^ # $ \\ | < >", ["a|b", "c_d"], [[Cell("x&y", best=True), Cell()]]
    ),
}


def check_latex(text):
    """Check that braces and environments are balanced, and that every row has as many cells as there are columns."""
    depth = 0
    for token in re.findall(r"\\[\\{}&%$#_]|[{}]", text):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert depth == 0
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    n_columns = len(re.search(r"\\begin\{tabular\}\{([lr]+)\}", text).group(1))
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == n_columns - 1
    dollars = re.sub(r"\\\$", "", text).count("$")
    assert dollars % 2 == 0
    assert text.isascii()


@pytest.mark.parametrize("name", TABLES)
def test_latex_is_balanced(name):
    check_latex(TABLES[name].to_latex())


@pytest.mark.parametrize("name", TABLES)
def test_csv_has_the_exact_numbers(name):
    table = TABLES[name]
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(rows) == len(table.rows)
    for i, column in enumerate(table.columns):
        cells = [row[i] for row in table.rows]
        if all(cell.has_value for cell in cells):
            assert [float(row[column]) for row in rows] == [cell.value for cell in cells]
        elif not any(cell.has_value for cell in cells):
            assert [row[column] for row in rows] == [cell.text for cell in cells]
        if all(cell.sd is not None for cell in cells):
            assert [float(row[f"{column} sd"]) for row in rows] == [cell.sd for cell in cells]


@pytest.mark.parametrize("name", TABLES)
def test_markdown_has_a_cell_for_each_column(name):
    table = TABLES[name]
    lines = [line for line in table.to_markdown().splitlines() if line.startswith("|")]
    assert len(lines) == len(table.rows) + 2
    for line in lines:
        assert len(re.findall(r"(?<!\\)\|", line)) == len(table.columns) + 1


@pytest.mark.parametrize(
    ("task", "column", "best"), [("regression", "nrmse", "idxmin"), ("classification", "auc", "idxmax")]
)
@pytest.mark.parametrize("size", [7, 30])
def test_bold_marks_the_best(task, column, best, size):
    part = RECORDS[(RECORDS["task"] == task) & (RECORDS["size"].isna() | (RECORDS["size"] == size))]
    means = part.groupby(["dataset", "backbone", "method"])[column].mean().unstack()
    expected = getattr(means, best)(axis=1)
    table = dataset_table(SUMMARY, task, size=size)
    assert len(table.rows) == len(means)
    for row in table.rows:
        bold = [name for name, cell in zip(table.columns, row, strict=True) if cell.best]
        assert bold == [expected[row[0].text, row[1].text.split()[0]]]
    assert table.to_markdown().count("**") == 2 * len(means) + 2  # and the title
    assert table.to_latex().count(r"\textbf{") == len(means)


def test_ties_are_all_bold_and_incomplete_scores_never():
    records = make_records(1, 0, backbones=["mlp"], methods=["Std", "MinMax", "PLE", "BS-U"], sizes=(7,), n_folds=2)
    records["nrmse"] = records["method"].map({"Std": 0.5, "MinMax": 0.5, "PLE": 0.6, "BS-U": 0.1})
    records.loc[records.query("method == 'BS-U' and fold == 1").index, "status"] = "failed"
    table = dataset_table(summarise_folds(read_records(records)), "regression", size=7)
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert [name for name, cell in cells.items() if cell.best] == ["Std", "MinMax"]
    assert cells["BS-U"].note == "1 of 2 folds"
    assert cells["BS-U"].shown == "0.1000*"
    assert "Not all folds" in table.to_markdown()


def test_methods_without_a_size_add_no_rows_of_other_sizes():
    part = SUMMARY[~((SUMMARY["dataset"] == "reg01") & (SUMMARY["size"] == 15))]
    rows = [[cell.text for cell in row[:2]] for row in dataset_table(part, "regression", size=15).rows]
    assert ["reg00", "mlp"] in rows
    assert ["reg01", "mlp"] not in rows
    plain = SUMMARY[SUMMARY["size"].isna() | (SUMMARY["dataset"] != "reg01")]  # no sizes at all: its only rows
    assert ["reg01", "mlp"] in [
        [cell.text for cell in row[:2]] for row in dataset_table(plain, "regression", size=15).rows
    ]


def test_wins_and_first_places():
    table, scores = win_table(RANKS[0]), RANKS[0].scores
    i, j = RANKS[0].order[:2]
    won, lost = np.sum(scores[:, i] < scores[:, j]), np.sum(scores[:, i] > scores[:, j])
    assert table.rows[0][2].text == f"{won}/{len(scores) - won - lost}/{lost}"
    detail = TABLES["detail"]
    first = {row[0].text: row[4].value for row in detail.rows}
    winners = pd.Series(np.array(RANKS[0].methods)[scores.argmin(axis=1)]).value_counts()
    assert {name: count for name, count in first.items() if count} == winners.to_dict()


def test_details_compare_with_the_best_over_data_sets():
    records = make_records(9, 0, n_folds=2, methods=["Std", "MinMax", "PLE", "BS-Q"], sizes=(7,))
    scores = records.groupby(["dataset", "backbone", "method"])["nrmse"].mean().unstack()
    errors = scores.div(scores.mean(axis=1), axis=0).groupby(level="dataset").mean()
    best = scores.rank(axis=1).mean().idxmin()
    table = detail_table(rank_table(summarise_folds(read_records(records)), "regression", size=7))
    rows = {row[0].text: row for row in table.rows}
    assert [cell.value for cell in rows[best][5:9]] == [None] * 4
    p = {pair: wilcoxon(errors[pair[0]], errors[pair[1]]).pvalue for pair in combinations(sorted(errors), 2)}
    adjusted, worst = {}, 0.0
    for left, pair in zip(range(len(p), 0, -1), sorted(p, key=p.get), strict=True):
        worst = adjusted[pair] = max(worst, min(1.0, left * p[pair]))
    for method in errors.columns.drop(best):
        gap = errors[method] - errors[best]
        interval = ttest_1samp(gap, 0).confidence_interval()
        expected = [100 * gap.mean(), 100 * interval.low, 100 * interval.high, adjusted[tuple(sorted((best, method)))]]
        np.testing.assert_allclose([cell.value for cell in rows[method][5:9]], expected)
        assert rows[method][9].text == ("yes" if expected[3] < 0.05 else "no")
    assert {row[9].text for row in table.rows} == {"best", "yes", "no"}


def test_average_ranks_are_over_problems_and_over_data_sets():
    table = average_rank_table(RANKS)
    assert table.columns[1:] == [
        "size 7", "size 15", "size 30", "size 7, data sets", "size 15, data sets", "size 30, data sets"
    ]  # fmt: skip
    assert table.caption == "Lower is better. Problems: 9. Data sets, each of which counts once: 3."
    ranks = dict(zip(RANKS[0].methods, RANKS[0].dataset_ranks, strict=True))
    assert all(row[4].value == ranks[row[0].text] for row in table.rows)
    one = make_records(3, 0, n_folds=2, backbones=["mlp"])
    single = average_rank_table([rank_table(summarise_folds(read_records(one)), "regression", size=7)])
    assert single.columns == ["method", "size 7"], "with one backbone both are the same"


def test_pages_shade_scores_and_have_deviations_in_tooltips():
    values = [0.3, 0.1, 0.2, None]
    cells = _mark_best([Cell(value=value, sd=0.01) for value in values], lower_is_better=True)
    assert [cell.heat for cell in cells] == [0, HOTTEST, 2, None]
    assert (cells[1].shown, cells[1].on_page, cells[1].tooltip) == ("0.1000 ± 0.0100", "0.1000", "± 0.0100 over folds")
    noted = replace(cells[0], note="4 of 5 folds")
    assert (noted.on_page, noted.tooltip) == ("0.3000*", "± 0.0100 over folds; 4 of 5 folds")
    plain = Cell(value=0.3, sd=0.01)
    assert (plain.on_page, plain.tooltip) == (plain.shown, "")
