"""Our ranks, averages and ablation beside the paper's."""

import sys
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import spearmanr

from knotwork.report import make_report, rank_table
from knotwork.report._aggregate import read_records, split_records, summarise_folds
from tests.conftest import PAPER
from tests.report.cases import MAIN, make_records
from tests.report.conftest import leave_out_pdf

sys.path.insert(0, str(Path(__file__).parents[1] / "results"))

from comparison import (
    agreement_table,
    compare_ablation,
    compare_averages,
    compare_ranks,
    describe_agreement,
)

from report import paper_numbers, paper_picture, paper_section


@pytest.fixture(scope="module")
def summary():
    return summarise_folds(read_records(make_records(4, 0, n_folds=2)))


@pytest.fixture(scope="module")
def tables(summary):
    return [rank_table(summary, "regression", size=size) for size in (7, 15, 30)]


def paper(**columns):
    return {"regression": pd.DataFrame({"method": MAIN, **columns})}


def test_differences_and_correlation(summary, tables):
    theirs = [float(i) for i in range(14)]
    comparisons = compare_ranks(summary, tables, paper(m15=theirs))
    assert [each.network for each in comparisons] == [None, "ft feature", "mlp", "resnet"]
    ours = dict(zip(tables[1].methods, tables[1].ranks, strict=True))
    rho = spearmanr([ours[method] for method in MAIN], theirs).statistic
    assert comparisons[0].correlation.rho == pytest.approx(rho)
    table = comparisons[0].as_table()
    for method, mine, their, difference in table.rows:
        assert mine.value == pytest.approx(ours[method.text])
        assert their.value == MAIN.index(method.text)
        assert difference.value == pytest.approx(mine.value - their.value)
    assert "our 12 problems and the paper's 39" in table.caption
    (sentence,) = describe_agreement(comparisons)
    assert f": {rho:.2f} over all backbones; " in sentence


def test_networks_are_compared_apart(summary, tables):
    comparisons = compare_ranks(summary, tables, paper(m7=[float(i) for i in range(14)]))
    part = rank_table(summary, "regression", size=7, network="mlp")
    ours = dict(zip(part.methods, part.ranks, strict=True))
    mlp = next(each for each in comparisons if each.network == "mlp")
    assert mlp.correlation.rho == pytest.approx(spearmanr([ours[method] for method in MAIN], range(14)).statistic)


def test_places_of_the_papers_best_and_worst():
    # Significance needs 12 data sets or more: with 14 methods there are 91 pairs.
    summary = summarise_folds(read_records(make_records(13, 0, backbones=["mlp"], sizes=(7,), n_folds=2)))
    tables = [rank_table(summary, "regression", size=7)]
    table = tables[0]
    best, last = table.methods[table.order[0]], table.methods[table.order[-1]]
    theirs = [1.0 if method == last else 14.0 if method == best else 7.0 for method in MAIN]
    row = agreement_table(compare_ranks(summary, tables, paper(m7=theirs))).rows[0]
    assert [cell.text for cell in row[8:]] == [last, "", "yes", best, ""]
    assert [row[9].value, row[12].value] == [14, 1]


def test_our_own_ranks_agree_with_themselves(summary, tables):
    ours = dict(zip(tables[0].methods, tables[0].ranks, strict=True))
    comparisons = compare_ranks(summary, tables, paper(m7=[ours[method] for method in MAIN]))
    assert comparisons[0].correlation.rho == pytest.approx(1)
    assert comparisons[0].both["difference"].abs().max() == 0


def test_other_sets_of_methods_are_said(summary, tables):
    few = {"regression": pd.DataFrame({"method": MAIN[:2], "m7": [1.0, 2.0]})}
    comparisons = compare_ranks(summary, tables, few)
    assert comparisons[0].correlation is None
    assert "ranks among 14 methods, theirs among 2" in comparisons[0].as_table().caption
    assert describe_agreement(comparisons) == []


def test_quoted_averages(summary):
    quoted = pd.DataFrame({
        "task": "regression", "metric": "NRMSE", "backbone": ["mlp", "ftt", "mlp", "mlp"],
        "method": ["PLE", "BS-Q", "Std", "unknown"], "size": [7, 15, None, 7], "value": [0.1, 0.2, 0.3, 0.4],
    })  # fmt: skip
    (comparison,) = compare_averages(summary, quoted)
    rows = {(row[0].text, row[1].text): row for row in comparison.table.rows}
    assert set(rows) == {("mlp", "PLE"), ("ft feature", "BS-Q"), ("mlp", "Std")}
    means = summary[summary["network"] == "ft feature"].query("method == 'BS-Q' and size == 15")["mean"]
    assert rows["ft feature", "BS-Q"][4].value == pytest.approx(means.mean())
    assert rows["ft feature", "BS-Q"][6].value == pytest.approx(means.mean() - 0.2)
    plain = summary[summary["network"] == "mlp"].query("method == 'Std'")["mean"]
    assert rows["mlp", "Std"][4].value == pytest.approx(plain.mean())
    assert "of the 3 quoted averages is" in comparison.sentences[0]


def test_ablation():
    records = make_records(1, 0, backbones=["mlp"], methods=["Std", "PLE-Adaptive", "PLE"], sizes=(5, 10), n_folds=2)
    records["dataset"] = "ablation"
    records.loc[records["method"] == "PLE-Adaptive", "size"] = float("nan")
    records = records.drop_duplicates(["method", "size", "fold"])
    summary = summarise_folds(read_records(records))
    ours = summary.set_index(["method", "size"])["mean"]
    paper = pd.DataFrame({
        "method": ["Std", "PLE-adaptive-50", "PLE", "PLE", "PLE"],
        "size": [None, None, 5, 10, 15],
        "nrmse_mean": [value - 0.01 for value in ours] + [9.0],
        "nrmse_std": 0.001,
    })  # fmt: skip
    (comparison,) = compare_ablation(summary, paper)
    assert "of the 4 methods and sizes is 1.00" in comparison.sentences[0]
    assert "difference is 0.0100; ours are 0.0100 above" in comparison.sentences[1]
    assert [row[2].value for row in comparison.table.rows] == sorted(ours)
    assert compare_ablation(summary.assign(dataset="other"), paper) == []


@pytest.mark.parametrize(("task", "n"), [("regression", 39), ("classification", 36)])
def test_diagram_of_the_papers_ranks(task, n):
    values = [1.0, 1.5, 9.0, 9.5]
    frame = pd.DataFrame({"method": ["a", "b", "c", "d"], "m7": values})
    picture = paper_picture(frame, task, size=7)
    bars = [line for line in picture.figure.axes[0].lines if line.get_gid() == "clique"]
    assert [tuple(bar.get_xdata()) for bar in bars] == [(1.0, 1.5), (9.0, 9.5)]
    # q of Demsar's table for 4 methods is 2.569.
    assert f"Critical difference {2.569 * (4 * 5 / (6 * n)) ** 0.5:.2f}" in picture.label
    assert f"one problem, the critical difference is {2.569 * (4 * 5 / (2 * n)) ** 0.5:.2f}." in picture.caption
    assert paper_picture(frame, task, size=15) is None


def test_groups_of_the_papers_ranks():
    theirs = paper_numbers(PAPER)
    for task, cd in (("regression", "3.18"), ("classification", "3.31")):
        # q for 14 methods is 3.354: 3.354 sqrt(14 * 15 / (6 * 39)) = 3.18, and 3.31 for 36 problems.
        assert f"Critical difference {cd}" in paper_picture(theirs[task], task, size=30).label
    axes = paper_picture(theirs["classification"], "classification", size=30).figure.axes[0]
    first = min(line.get_xdata()[1] for line in axes.lines if line.get_gid() == "clique")
    ranks = theirs["classification"].set_index("method")["m30"].sort_values()
    assert list(ranks.index[ranks <= first]) == ["PLE", "IS-Q", "IS-LGBM", "IS-CART", "IS-Grad-U"], (
        "within 3.31 of 3.33"
    )


def test_a_single_problem_is_not_compared():
    summary = summarise_folds(read_records(make_records(1, 0, backbones=["mlp"], n_folds=2)))
    assert compare_ranks(summary, [rank_table(summary, "regression", size=7)], paper(m7=[1.0] * 14)) == []


def test_nothing_to_compare(summary, tables):
    assert compare_ranks(summary, tables, {}) == []
    assert compare_ranks(summary, tables, paper(m99=[1.0] * 14)) == []


def test_the_section_in_a_report(monkeypatch, tmp_path):
    leave_out_pdf(monkeypatch)
    ranks = pd.DataFrame({"method": MAIN, "m7": [float(i) for i in range(1, 15)]})
    ranks.to_csv(tmp_path / "average_ranks_regression.csv", index=False)
    theirs = paper_numbers(tmp_path)
    assert set(theirs) == {"regression"}
    records = make_records(3, 0, backbones=["mlp", "resnet"], sizes=(7,), n_folds=2)
    page = make_report(records, tmp_path / "report.html", sections=[lambda parts: paper_section(parts, theirs)])
    text = page.read_text(encoding="utf-8")
    assert '<h2 id="paper-head">Does this agree with the paper?</h2>' in text
    assert "Rank correlation of our average ranks with the paper" in text
    for name in ("figures/paper_agreement.svg", "figures/paper_cd_regression_size7.svg", "tables/paper_agreement.csv",
                 "tables/paper_regression_size7.csv", "tables/paper_regression_size7_mlp.csv"):  # fmt: skip
        assert (tmp_path / name).stat().st_size > 50
    assert 'id="figure-paper_agreement"' in text


def test_the_section_says_that_nothing_compares():
    parts = split_records(make_records(1, 0, backbones=["mlp"], methods=["Std", "PLE"], n_folds=2))
    assert paper_section(parts, {}).content == [
        "No number of these records has a counterpart among the paper's numbers."
    ]
