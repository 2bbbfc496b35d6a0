"""Means over folds, blocks and ranks, recomputed with pandas and SciPy alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare, rankdata

from knotwork.report._aggregate import rank_table, read_records, sizes_of, summarise_folds
from tests.report.cases import MAIN, make_records


@pytest.fixture(scope="module")
def records():
    return make_records(3, 2, n_folds=3)


def plain_ranks(records, task, size):
    part = records[(records["task"] == task) & (records["size"].isna() | (records["size"] == size))]
    part = part.replace({"backbone": {"ft": "ft feature"}})
    column, sign = ("nrmse", 1) if task == "regression" else ("auc", -1)
    scores = part.groupby(["dataset", "backbone", "method"])[column].mean().unstack()
    ranks = scores.apply(lambda row: pd.Series(rankdata(sign * row), row.index), axis=1)
    return scores, ranks.mean()


@pytest.mark.parametrize(("task", "n_blocks"), [("regression", 9), ("classification", 6)])
@pytest.mark.parametrize("size", [7, 15, 30])
def test_ranks(records, task, n_blocks, size):
    summary = summarise_folds(read_records(records))
    table = rank_table(summary, task, size=size)
    scores, expected = plain_ranks(records, task, size)
    assert len(table.blocks) == n_blocks
    assert set(table.methods) == set(MAIN)
    np.testing.assert_allclose(table.ranks, expected[table.methods])
    np.testing.assert_allclose(table.scores, scores.loc[table.blocks, table.methods])
    assert table.test.chi2 == pytest.approx(friedmanchisquare(*scores.to_numpy().T).statistic)
    assert not table.left_out
    assert not table.absent


def test_mean_and_deviation(records):
    summary = summarise_folds(read_records(records))
    row = summary[(summary["dataset"] == "reg01") & (summary["network"] == "mlp") & (summary["method"] == "PLE")].iloc[
        0
    ]
    values = records.query("dataset == 'reg01' and backbone == 'mlp' and method == 'PLE' and size == @row['size']")
    assert row["mean"] == pytest.approx(np.mean(values["nrmse"]))
    assert row["sd"] == pytest.approx(np.std(values["nrmse"], ddof=1))
    assert row["seconds"] == pytest.approx(sum(values["train_seconds"]) + sum(values["prepare_seconds"]))


def test_a_block_with_a_failed_fold_is_not_ranked_and_is_named(records):
    broken = records.copy()
    chosen = broken.query(
        "dataset == 'reg00' and backbone == 'mlp' and method == 'BS-Q' and size == 7 and fold == 1"
    ).index
    broken.loc[chosen, ["status", "nrmse"]] = ["failed", np.nan]
    summary = summarise_folds(read_records(broken))
    table = rank_table(summary, "regression", size=7)
    assert table.left_out == {("reg00", "mlp"): ["BS-Q"]}
    assert ("reg00", "mlp") not in table.blocks
    assert len(table.blocks) == 8
    assert not rank_table(summary, "regression", size=15).left_out


def test_an_infinite_score_is_no_score(records):
    broken = records.copy()
    broken.loc[
        broken.query("dataset == 'reg02' and backbone == 'ft' and method == 'Std' and fold == 0").index, "nrmse"
    ] = np.inf
    table = rank_table(summarise_folds(read_records(broken)), "regression", size=7)
    assert table.left_out == {("reg02", "ft feature"): ["Std"]}


def test_a_method_run_on_few_blocks_does_not_exclude_the_others(records):
    part = records[(records["method"] != "PLE") | (records["dataset"] == "reg00")]
    table = rank_table(summarise_folds(read_records(part)), "regression", size=7)
    assert table.absent == ["PLE"]
    assert len(table.blocks) == 9
    assert not table.left_out


def test_blocks_that_were_not_run_at_a_size_are_not_missing_from_it(records):
    part = records[(records["backbone"] != "ft") | records["size"].isna() | (records["size"] == 7)]
    summary = summarise_folds(read_records(part))
    assert len(rank_table(summary, "regression", size=7).blocks) == 9
    table = rank_table(summary, "regression", size=15)
    assert len(table.blocks) == 6
    assert not table.left_out
    assert not rank_table(summary, "regression", size=15, network="ft feature").has_ranks


def test_kinds_of_one_backbone_have_different_names(records):
    other = records[records["backbone"] == "ft"].assign(tokens="coordinate")
    both = read_records(pd.concat([records, other]))
    assert set(both["network"]) == {"mlp", "resnet", "ft feature", "ft coordinate"}
    ways = read_records(pd.concat([records.assign(together=True), records.assign(together=False)]))
    assert set(ways["network"]) == {
        f"{name} ({way})" for name in ("mlp", "resnet", "ft feature") for way in ("alone", "stacked")
    }


def test_a_network_recorded_twice_counts_once_and_success_wins(records):
    failed = records.iloc[[0]].assign(status="failed", nrmse=np.nan)
    again = read_records(pd.concat([records, failed]))
    assert len(again) == len(records)
    assert (again["status"] == "ok").all()
    changed = records.iloc[[0]].assign(nrmse=0.123)
    assert read_records(pd.concat([records, changed])).loc[0, "score"] == 0.123


def test_types_of_a_study(records):
    typed = records.assign(size=records["size"].astype("Int64"))
    pd.testing.assert_frame_equal(read_records(typed), read_records(records))


def test_sizes(records):
    summary = summarise_folds(read_records(records))
    assert sizes_of(summary) == [7, 15, 30]
    assert sizes_of(summary[summary["method"] == "Std"]) == [None]
    assert sizes_of(summary.iloc[:0]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.drop(columns="fold"), "records must have the columns"),
        (lambda r: r.assign(task="ranking"), "records must have a task of 'regression', 'classification'"),
    ],
)
def test_wrong_records(records, change, message):
    with pytest.raises(ValueError, match=message):
        read_records(change(records))
