"""Our ranks beside the paper's."""

import pandas as pd
import pytest
from scipy.stats import spearmanr

from knotwork.report.aggregate import rank_table, read_records, summarise_folds
from knotwork.report.comparison import compare_ablation, compare_ranks
from knotwork.report.pictures import paper_picture
from tests.report.cases import MAIN, make_records


@pytest.fixture(scope="module")
def tables():
    summary = summarise_folds(read_records(make_records(4, 0, n_folds=2)))
    return [rank_table(summary, "regression", size=size) for size in (7, 15, 30)]


def paper(**columns):
    return {"regression": pd.DataFrame({"method": MAIN, **columns})}


def test_differences_and_correlation(tables):
    theirs = [float(i) for i in range(14)]
    (found,) = compare_ranks(tables, paper(m15=theirs))
    ours = dict(zip(tables[1].methods, tables[1].ranks, strict=True))
    rho = spearmanr([ours[method] for method in MAIN], theirs).statistic
    assert f"is {rho:.2f} (95 % interval" in found.sentences[0]
    for method, mine, their, difference in found.table.rows:
        assert mine.value == pytest.approx(ours[method.text])
        assert their.value == MAIN.index(method.text)
        assert difference.value == pytest.approx(mine.value - their.value)
    assert found.sentences[2:] == ["Ours are averages over 12 blocks, theirs over 39."]


def test_our_own_ranks_agree_with_themselves(tables):
    ours = dict(zip(tables[0].methods, tables[0].ranks, strict=True))
    (found,) = compare_ranks(tables, paper(m7=[ours[method] for method in MAIN]))
    assert "is 1.00" in found.sentences[0]
    assert "mean absolute difference is 0.00" in found.sentences[1]


def test_other_sets_of_methods_are_said(tables):
    few = {"regression": pd.DataFrame({"method": MAIN[:2], "m7": [1.0, 2.0]})}
    (found,) = compare_ranks(tables, few)
    assert "cannot be computed from 2 methods" in found.sentences[0]
    assert "ranks among 14 methods, theirs among 2" in found.sentences[2]


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
    (found,) = compare_ablation(summary, paper)
    assert "of the 4 methods and sizes is 1.00" in found.sentences[0]
    assert "difference is 0.0100; ours are +0.0100 above" in found.sentences[1]
    assert [row[2].value for row in found.table.rows] == sorted(ours)
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
    assert paper_picture(frame, task, size=15) is None


def test_a_single_block_is_not_compared():
    summary = summarise_folds(read_records(make_records(1, 0, backbones=["mlp"], n_folds=2)))
    assert compare_ranks([rank_table(summary, "regression", size=7)], paper(m7=[1.0] * 14)) == []


def test_nothing_to_compare(tables):
    assert compare_ranks(tables, {}) == []
    assert compare_ranks(tables, paper(m99=[1.0] * 14)) == []
