"""Recommendations follow the records."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata, wilcoxon

from knotwork.report._aggregate import read_records, summarise_folds
from knotwork.report._costs import advice_table, advise
from tests.report.cases import make_records

METHODS = ["Std", "MinMax", "PLE", "BS-Q", "BS-CART", "BS-Grad-U"]


def summary_of(errors, n=12):
    """Return a summary in which methods (and sizes) have these errors, and a little noise."""
    records = make_records(n, 0, backbones=["mlp"], methods=METHODS, n_folds=2)
    noise = np.random.default_rng(0).normal(0, 1e-4, len(records))
    means = [errors.get((m, s), errors.get(m, 0.5)) for m, s in zip(records["method"], records["size"], strict=True)]
    return summarise_folds(read_records(records.assign(nrmse=np.array(means) + noise)))


def best_rows(summary):
    table = advice_table(advise(summary))
    return {row[2].text: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_higher_budgets_allow_more_methods():
    best = {("BS-Q", 7.0): 0.4, ("BS-CART", 15.0): 0.3, ("BS-Grad-U", 30.0): 0.2}
    rows = best_rows(summary_of(best))
    assert {budget: row["best"].text for budget, row in rows.items()} == {
        "low": "BS-Q 7", "medium": "BS-CART 15", "high": "BS-Grad-U 30",
    }  # fmt: skip
    assert [rows[budget]["of"].value for budget in ("low", "medium", "high")] == [4, 8, 14]
    assert {row["better"].text for row in rows.values()} == {"yes"}
    assert {row["cheapest"].text for row in rows.values()} == {"Std"}


def test_numbers_can_be_computed_again():
    summary = summary_of({("BS-Q", 7.0): 0.45, "Std": 0.5, "MinMax": 0.6, "PLE": 0.55})
    row = best_rows(summary)["low"]
    part = summary[summary["size"].isna() | (summary["size"] == 7)]
    wide = part.pivot(index="dataset", columns="method", values="mean")[["Std", "MinMax", "PLE", "BS-Q"]]
    ranks = pd.Series(rankdata(wide.to_numpy(), axis=1).mean(axis=0), wide.columns)
    assert row["rank"].value == ranks.min() == 1
    assert row["score"].value == pytest.approx(wide["BS-Q"].mean())
    p = sorted(wilcoxon(wide["Std"], wide[method]).pvalue for method in ("MinMax", "PLE", "BS-Q"))
    assert row["p"].value == pytest.approx(3 * p[0])


def test_the_cheapest_may_be_the_best_and_a_lead_may_not_be_significant():
    rows = best_rows(summary_of({"Std": 0.1}))
    assert {row["better"].text for row in rows.values()} == {"is the cheapest"}
    alike = best_rows(summary_of({}))
    assert {row["better"].text for row in alike.values()} <= {"not significantly", "is the cheapest"}


def test_incomplete_methods_are_not_recommended():
    summary = summary_of({("BS-Q", 7.0): 0.1})
    summary.loc[summary["method"] == "BS-Q", "complete"] = False
    assert "BS-Q" not in best_rows(summary)["high"]["best"].text


def test_a_single_data_set_is_not_enough():
    assert advise(summary_of({}, n=1)) == []
