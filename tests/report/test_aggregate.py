"""Means over folds, problems and ranks, recomputed with pandas and SciPy alone."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare, rankdata, wilcoxon

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


@pytest.mark.parametrize(("task", "n_problems"), [("regression", 9), ("classification", 6)])
@pytest.mark.parametrize("size", [7, 15, 30])
def test_ranks(records, task, n_problems, size):
    summary = summarise_folds(read_records(records))
    table = rank_table(summary, task, size=size)
    scores, expected = plain_ranks(records, task, size)
    assert len(table.problems) == n_problems
    assert set(table.methods) == set(MAIN)
    np.testing.assert_allclose(table.ranks, expected[table.methods])
    np.testing.assert_allclose(table.scores, scores.loc[table.problems, table.methods])
    assert table.problem_test.chi2 == pytest.approx(friedmanchisquare(*scores.to_numpy().T).statistic)
    assert not table.left_out
    assert not table.absent


def test_further_seeds_at_one_size_leave_the_others_complete(records):
    second = records[(records["size"] == 15) & (records["backbone"] == "mlp")]
    both = pd.concat([records, second.assign(seed=second["seed"] + 100)], ignore_index=True)
    summary = summarise_folds(read_records(both))
    assert summary["complete"].all()
    assert set(summary.loc[(summary["network"] == "mlp") & (summary["size"] == 15), "expected"]) == {6}
    assert set(summary.loc[summary["size"] != 15, "expected"]) == {3}
    chosen = second[(second["method"] == "PLE") & (second["fold"] == 0)].index
    lacking = both.drop(index=both.index[(both["seed"] >= 100) & (both["method"] == "PLE") & (both["fold"] == 0)])
    summary = summarise_folds(read_records(lacking))
    assert len(chosen) == (~summary["complete"]).sum() == 5


def test_a_fold_that_a_whole_size_lacks_is_missing(records):
    summary = summarise_folds(read_records(records[(records["size"] != 15) | (records["fold"] != 1)]))
    assert not summary.loc[summary["size"] == 15, "complete"].any()
    assert summary.loc[summary["size"] != 15, "complete"].all()


def by_data_set(records, task, size):
    """Return the relative errors of the methods, averaged over the backbones of each data set."""
    scores, _ = plain_ranks(records, task, size)
    errors = scores if task == "regression" else 1 - scores
    return errors.div(errors.mean(axis=1), axis=0).groupby(level="dataset").mean()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_tests_are_over_data_sets(task):
    records = make_records(7, 7, n_folds=2, methods=["Std", "MinMax", "PLE", "BS-Q"], sizes=(7,))
    table = rank_table(summarise_folds(read_records(records)), task, size=7)
    errors = by_data_set(records, task, 7)
    assert table.datasets == list(errors.index)
    np.testing.assert_allclose(table.errors, errors[table.methods])
    np.testing.assert_allclose(table.dataset_ranks, errors.rank(axis=1).mean()[table.methods])
    assert table.test.chi2 == pytest.approx(friedmanchisquare(*errors.to_numpy().T).statistic)
    assert table.test.n == 7
    assert len(table.problems) == 21
    p = {pair: wilcoxon(errors[pair[0]], errors[pair[1]]).pvalue for pair in combinations(table.methods, 2)}
    ordered = sorted(p, key=lambda pair: p[pair])
    worst = 0.0
    for left, (one, other) in zip(range(6, 0, -1), ordered, strict=True):
        worst = max(worst, min(1.0, left * p[one, other]))
        places = table.methods.index(one), table.methods.index(other)
        assert table.pairs.adjusted[places] == pytest.approx(worst)
        assert table.differ[places] == (worst < 0.05)
    assert table.least_p == pytest.approx(6 * 2 / 2**7)
    for group in table.groups:
        assert not table.differ[np.ix_(group, group)].any()


def test_a_method_is_worse_only_if_it_loses_on_data_sets():
    records = make_records(9, 0, n_folds=2, methods=["Std", "PLE", "BS-Q"], sizes=(7,))
    errors = {"Std": 0.7, "PLE": 0.6, "BS-Q": 0.5}
    records["nrmse"] = records["method"].map(errors)
    table = rank_table(summarise_folds(read_records(records)), "regression", size=7)
    assert (table.best, table.worse(), table.not_worse()) == (["BS-Q"], ["PLE", "Std"], [])
    # With one backbone, PLE is far better on two data sets: BS-Q wins 25 of 27 problems, but only 7 of 9 data sets.
    turned = records["dataset"].isin(["reg00", "reg01"]) & (records["backbone"] == "mlp")
    records.loc[turned & (records["method"] == "PLE"), "nrmse"] = 0.05
    table = rank_table(summarise_folds(read_records(records)), "regression", size=7)
    assert (table.best, table.worse(), table.not_worse()) == (["BS-Q"], ["Std"], ["PLE"])


def test_several_backbones_on_one_data_set_allow_no_test():
    table = rank_table(summarise_folds(read_records(make_records(1, 0, n_folds=2))), "regression", size=7)
    assert len(table.problems) == 3
    assert table.has_diagram
    assert not table.has_tests
    assert table.why_not == "Tests need two data sets; there is one."


def test_variants_of_training_share_a_problem(records):
    faster = records.assign(variant="fast", nrmse=records["nrmse"] + 0.2)
    both = pd.concat([records.assign(variant="slow"), faster], ignore_index=True)
    table = rank_table(summarise_folds(read_records(both)), "regression", size=7)
    once = rank_table(summarise_folds(read_records(records)), "regression", size=7)
    assert table.problems == once.problems
    np.testing.assert_allclose(table.scores, once.scores + 0.1)
    alone = rank_table(summarise_folds(read_records(both)), "regression", size=7, network="mlp, fast")
    assert len(alone.problems) == 3
    lacking = both[(both["variant"] == "slow") | (both["dataset"] != "reg00") | (both["method"] != "BS-Q")]
    table = rank_table(summarise_folds(read_records(lacking)), "regression", size=7)
    assert set(table.left_out) == {("reg00", network) for _, network in once.problems}


def test_seeds_are_averaged_within_a_fold(records):
    second = records.assign(seed=records["seed"] + 100)
    second["nrmse"] += 0.2
    summary = summarise_folds(read_records(pd.concat([records, second], ignore_index=True)))
    once = summarise_folds(read_records(records))
    regression = summary["task"] == "regression"
    np.testing.assert_allclose(summary["mean"][regression], once["mean"][regression] + 0.1)
    assert (summary["n"] == 2 * once["n"]).all()
    assert summary["complete"].all()


def test_mean_and_deviation(records):
    summary = summarise_folds(read_records(records))
    row = summary[(summary["dataset"] == "reg01") & (summary["network"] == "mlp") & (summary["method"] == "PLE")].iloc[
        0
    ]
    values = records.query("dataset == 'reg01' and backbone == 'mlp' and method == 'PLE' and size == @row['size']")
    assert row["mean"] == pytest.approx(np.mean(values["nrmse"]))
    assert row["sd"] == pytest.approx(np.std(values["nrmse"], ddof=1))
    assert row["seconds"] == pytest.approx(sum(values["train_seconds"]) + sum(values["prepare_seconds"]))


def test_a_problem_with_a_failed_fold_is_not_ranked_and_is_named(records):
    broken = records.copy()
    chosen = broken.query(
        "dataset == 'reg00' and backbone == 'mlp' and method == 'BS-Q' and size == 7 and fold == 1"
    ).index
    broken.loc[chosen, ["status", "nrmse"]] = ["failed", np.nan]
    summary = summarise_folds(read_records(broken))
    table = rank_table(summary, "regression", size=7)
    assert table.left_out == {("reg00", "mlp"): ["BS-Q"]}
    assert ("reg00", "mlp") not in table.problems
    assert len(table.problems) == 8
    assert not rank_table(summary, "regression", size=15).left_out


def test_an_infinite_score_is_no_score(records):
    broken = records.copy()
    broken.loc[
        broken.query("dataset == 'reg02' and backbone == 'ft' and method == 'Std' and fold == 0").index, "nrmse"
    ] = np.inf
    table = rank_table(summarise_folds(read_records(broken)), "regression", size=7)
    assert table.left_out == {("reg02", "ft feature"): ["Std"]}


def test_a_method_run_on_few_problems_does_not_exclude_the_others(records):
    part = records[(records["method"] != "PLE") | (records["dataset"] == "reg00")]
    table = rank_table(summarise_folds(read_records(part)), "regression", size=7)
    assert table.absent == ["PLE"]
    assert len(table.problems) == 9
    assert not table.left_out


def test_problems_that_were_not_run_at_a_size_are_not_missing_from_it(records):
    part = records[(records["backbone"] != "ft") | records["size"].isna() | (records["size"] == 7)]
    summary = summarise_folds(read_records(part))
    assert len(rank_table(summary, "regression", size=7).problems) == 9
    table = rank_table(summary, "regression", size=15)
    assert len(table.problems) == 6
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
