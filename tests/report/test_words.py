"""The summary: every number in it can be computed again from the records, and words follow the records."""

import re
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import f as f_distribution
from scipy.stats import friedmanchisquare, rankdata, spearmanr, studentized_range, wilcoxon

from knotwork._writing import duration
from knotwork.report._aggregate import TASKS, rank_table, read_records, sizes_of, summarise_folds, wide_problems
from knotwork.report._words import (
    describe_best,
    describe_dependence,
    describe_gaps,
    describe_grid,
    describe_ranks,
    describe_records,
    describe_seeds,
    list_sources,
)
from tests.report.cases import make_records

METHODS = ["Std", "PLE", "BS-Q", "BS-U", "BS-Grad-U"]


def tables_of(records):
    summary = summarise_folds(read_records(records))
    return [
        rank_table(summary, task, size=size) for task in TASKS for size in sizes_of(summary[summary["task"] == task])
    ]


def findings(records):
    return {table.label: describe_ranks(table) for table in tables_of(records)}


def small(effects, n=8, spread=0.001, seed=0):
    """Return regression records of one size in which methods have these errors, and a little noise."""
    records = make_records(n, 0, backbones=["mlp"], methods=METHODS, sizes=(7,), n_folds=2, seed=seed)
    noise = np.random.default_rng(seed).normal(0, spread, len(records))
    records["nrmse"] = 0.5 + records["method"].map(effects).fillna(0.0) + noise
    return records


def test_every_number_of_the_summary_can_be_computed_again():
    records = make_records(12, 11, n_folds=2, seed=3, methods=[*METHODS, "IS-U", "IS-Q", "IS-CART"])
    seen = set()
    for label, finding in findings(records).items():
        task, size = label.split(", size ")
        column, sign = ("nrmse", 1) if task == "Regression" else ("auc", -1)
        part = records[(records["task"] == task.lower()) & (records["size"].isna() | (records["size"] == int(size)))]
        scores = part.groupby(["dataset", "backbone", "method"])[column].mean().unstack()
        n, k = scores.shape
        errors = scores if sign == 1 else 1 - scores
        sets = errors.div(errors.mean(axis=1), axis=0).groupby(level="dataset").mean()
        ranks = pd.Series(rankdata(sign * scores.to_numpy(), axis=1).mean(axis=0), scores.columns)
        cd = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
        best = ranks.idxmin()
        first, outcome = finding.sentences
        test, *lists, problems = finding.details
        assert first.startswith(f"{best} has the best average rank, {ranks[best]:.2f} (95 % interval ")
        assert first.endswith(f"among {k} methods over {n} problems.")
        low, high = map(float, re.search(r"interval ([\d.]+) to ([\d.]+)", first).groups())
        assert low <= ranks[best] <= high
        adjusted = holm_by_hand({
            (one, other): wilcoxon(sets[one], sets[other]).pvalue for one, other in combinations(sets.columns, 2)
        })  # fmt: skip
        n_differ = sum(p < 0.05 for p in adjusted.values())
        assert test.startswith(f"Over {n // 3} data sets: {friedman_words(sets)}.")
        assert f"{n_differ} of {len(adjusted)} pairs differ (Holm, 0.05)" in test
        assert test.endswith(f"the smallest p-value possible is {len(adjusted) * 2 / 2 ** len(sets):.2g}.")
        assert problems.startswith(f"Over {n} problems, as if they were independent: Friedman chi² = ")
        assert problems.endswith(f"Nemenyi's critical difference is {cd:.2f} at 0.05.")
        worse = {method for pair, p in adjusted.items() if p < 0.05 and best in pair for method in pair} - {best}
        seen.add(bool(worse))
        n_near = k - 1 - len(worse)
        if worse:
            far, near = lists
            assert far.startswith(f"Significantly worse than {best}: ")
            assert near.startswith(f"Not significantly worse than {best}: ")
            for method in ranks.index.drop(best):
                assert f"{method} ({ranks[method]:.2f})" in (far if method in worse else near)
            words = far.partition(": ")[2] if len(worse) < n_near else near.partition(": ")[2]
            assert words.rstrip(".") in outcome
            assert (f"the other {n_near} are not" in outcome) == (len(worse) < n_near)
            assert f" over {n // 3} data sets" in outcome
        else:
            assert not lists
            assert outcome.startswith(f"No method is significantly worse than {best}")
        assert f"{k - 1 - len(worse)} method" in finding.verdict
    assert True in seen


def friedman_words(scores):
    n, k = scores.shape
    chi2 = friedmanchisquare(*scores.to_numpy().T).statistic
    statistic = (n - 1) * chi2 / (n * (k - 1) - chi2)
    p = f_distribution.sf(statistic, k - 1, (k - 1) * (n - 1))
    p_words = "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"
    return f"Friedman chi² = {chi2:.1f}, Iman-Davenport F = {statistic:.2f}, {p_words}"


def holm_by_hand(p_values):
    adjusted, worst = {}, 0.0
    for left, pair in zip(range(len(p_values), 0, -1), sorted(p_values, key=p_values.get), strict=True):
        worst = max(worst, min(1.0, left * p_values[pair]))
        adjusted[pair] = worst
    return adjusted


def test_words_change_with_a_record():
    records = small({"PLE": -0.1})
    before = findings(records)["Regression, size 7"]
    assert before.sentences[0].startswith("PLE has the best average rank, 1.00")
    records.loc[records["method"] == "BS-Q", "nrmse"] -= 0.3
    after = findings(records)["Regression, size 7"]
    assert after.sentences[0].startswith("BS-Q has the best average rank, 1.00")
    assert "BS-Q" in after.verdict
    # One record alone is enough for one number to change.
    one = small({"PLE": -0.1})
    one.loc[one.query("method == 'PLE' and dataset == 'reg00'").index[0], "nrmse"] += 10
    changed = findings(one)["Regression, size 7"]
    assert changed.sentences[0].startswith(f"PLE has the best average rank, {(7 + 5) / 8:.2f}")


def test_no_significant_difference_is_stated():
    records = small({}, n=9, spread=0.01, seed=2)
    finding = findings(records)["Regression, size 7"]
    (table,) = tables_of(records)
    assert not table.differ.any()
    assert finding.sentences[1] == "No significant difference between any two methods over 9 data sets."
    assert finding.verdict.endswith("no significant difference")
    assert "worse" not in " ".join([*finding.sentences, *finding.details])
    assert set(table.not_worse()) == set(METHODS) - set(table.best)


def test_too_few_data_sets_for_any_difference_are_stated():
    # 10 pairs: the smallest p-value of 8 data sets is 10 * 2 / 2**8 = 0.078.
    finding = findings(small({"PLE": -0.3, "BS-Q": 0.3}))["Regression, size 7"]
    assert finding.sentences[1] == "No significant difference: with 5 methods, 8 data sets are too few for any."
    assert "p < 0.0001" in finding.details[0]


def test_similar_backbones_are_described():
    records = make_records(4, 3, n_folds=2, sizes=(7,))
    tables = tables_of(records)
    values = []
    for table in tables:
        scores = pd.DataFrame(table.scores, pd.MultiIndex.from_tuples(table.problems))
        pairs = [spearmanr(part.iloc[i], part.iloc[j]).statistic for _, part in scores.groupby(level=0)
                 for i, j in combinations(range(3), 2)]  # fmt: skip
        values.append(np.mean(pairs))
    (sentence,) = describe_dependence(tables)
    assert f"correlate by {min(values):.2f} to {max(values):.2f} (" in sentence
    assert describe_dependence(tables_of(make_records(3, 0, backbones=["mlp"], n_folds=2))) == []


def test_seeds_are_described():
    records = read_records(make_records(2, 0, n_folds=2))
    assert describe_seeds(records).startswith("Each network was trained with one random seed per fold")
    several = pd.concat([records.assign(seed=records["seed"] + 10 * i) for i in range(3)])
    assert "trained with 3 random seeds per fold" in describe_seeds(several)
    assert "trained with 2 to 3 random seeds per fold" in describe_seeds(several.iloc[1:])


def test_ties_for_the_best_share_it():
    records = small({"PLE": -0.1, "BS-Q": -0.1}, spread=0)
    finding = findings(records)["Regression, size 7"]
    assert finding.sentences[0].startswith("PLE and BS-Q share the best average rank, 1.50")


def test_all_tied():
    finding = findings(small({}, spread=0))["Regression, size 7"]
    assert finding.sentences[0] == "All 5 methods have the same average rank, 3.00, among 5 methods over 8 problems."
    assert "no significant difference" in finding.sentences[1]


def test_counts_of_records():
    records = make_records(2, 1, n_folds=2)
    records.loc[:2, "status"] = "failed"
    records.loc[5, "nrmse"] = np.nan
    numbers = {word: number for number, word in describe_records(read_records(records))}
    assert numbers["networks"] == f"{len(records):,}"
    assert numbers["failed"] == "3"
    assert numbers["without a finite score"] == "1"
    assert numbers["data sets"] == "3"
    seconds = records["train_seconds"].sum()
    assert numbers["of training"] == duration(seconds)


def test_gaps_are_named():
    records = make_records(3, 0, n_folds=2, sizes=(7,))
    records.loc[records.query("dataset == 'reg01' and backbone == 'mlp' and method == 'PLE'").index, "status"] = (
        "failed"
    )
    sentences = describe_gaps(tables_of(records), read_records(records))
    assert sentences[0] == "There are no records of classification."
    assert "1 problem left out of the ranks, incomplete: reg01 with mlp (without PLE)." in sentences[1]


def test_problems_that_lack_the_same_are_named_together():
    records = make_records(12, 0, n_folds=2, sizes=(7,), backbones=["mlp"])
    lost = records.query("dataset > 'reg05' and method == 'PLE' and fold == 1").index
    records.loc[lost, "status"] = "failed"
    sentences = describe_gaps(tables_of(records), read_records(records))
    named = ", ".join(f"reg{i:02d} with mlp" for i in range(6, 11))
    assert sentences[1].endswith(f"6 problems left out of the ranks, incomplete: {named} and 1 more (without PLE).")


def test_sizes_that_lack_the_same_are_named_together():
    records = make_records(1, 0, backbones=["mlp"], n_folds=2)
    sentences = describe_gaps(tables_of(records), read_records(records))
    assert sentences[1:] == ["Regression, sizes 7, 15 and 30: Tests need two data sets; there is one."]


def test_best_of_a_grid():
    records = make_records(1, 0, backbones=["mlp"], methods=["Std", "PLE"], sizes=(5, 10, 15, 20), n_folds=3)
    chosen = records.query("method == 'PLE' and size == 15").index
    records.loc[chosen, "nrmse"] = [0.01, 0.02, 0.03]
    summary = summarise_folds(read_records(records))
    (problem,) = wide_problems(summary)
    finding = describe_grid(summary, *problem)
    std = records.query("method == 'Std'")["nrmse"]
    assert finding.sentences[:2] == [
        "PLE at size 15 has the best mean NRMSE of 5 methods and sizes, 0.0200 ± 0.0100 over 3 runs.",
        f"Without a size: Std {std.mean():.4f} ± {std.std():.4f}.",
    ]
    assert wide_problems(summary, 5) == []


def test_the_best_method_of_each_data_set_stands_beside_the_reference():
    records = make_records(1, 1, backbones=["mlp"], methods=["Std", "BS-Q"], sizes=(7,), n_folds=2)
    records.loc[records["method"] == "Std", ["nrmse", "auc"]] = [0.5, 0.75]
    records.loc[records["method"] == "BS-Q", ["nrmse", "auc"]] = [0.2, 0.875]
    records.loc[records["task"] == "regression", "auc"] = float("nan")
    assert describe_best(records) == [
        "On reg00, BS-Q lowers the NRMSE from 0.500 (Std) to 0.200: 60 % less error.",
        "On class00, BS-Q raises the AUC from 0.750 (Std) to 0.875: 50 % less error.",
    ]
    assert describe_best(records, "BS-Q")[0] == "On reg00, BS-Q is best: NRMSE 0.200."
    assert describe_best(records, "PLE") == []


def test_sources_state_what_was_not_recorded():
    frame = pd.DataFrame({"seed": [42, 43, 44], "plan": ["a"] * 3, "gpu": ["H200", "H200", None], "commit": [None] * 3})
    sources = dict(list_sources(frame))
    assert sources["gpu"] == "H200 (2 networks); not recorded (1 network)"
    assert sources["commit"] == sources["scikit-learn"] == "not recorded"
    assert sources["random seeds"] == "42, 43, 44"
