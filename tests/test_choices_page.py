"""Numbers of docs/choices.md, computed again from the records with pandas and SciPy alone."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

ROOT = Path(__file__).parents[1]
USUAL = "per-feature-one-error"


def records(plan):
    [path] = (ROOT / "results" / "choices" / "records").glob(f"{plan}-????????.parquet")
    frame = pd.read_parquet(path)
    frame = frame[frame["status"] == "ok"]
    error = frame["nrmse"].where(frame["task"] == "regression", 1 - frame["auc"]).clip(lower=1e-6)
    names = frame["method"] + frame["size"].map(lambda size: "" if pd.isna(size) else f"@{int(size)}")
    return frame.assign(
        error=error, spec=names, cell=frame["dataset"] + "|" + frame["backbone"] + "|" + frame["fold"].astype(str)
    )


def wide(frame, column):
    """Return validation scores and errors, a row for each cell in which all kinds were trained."""
    valid, error = (frame.pivot(index="cell", columns=column, values=name) for name in ("valid_score", "error"))
    complete = valid.notna().all(axis=1)
    return valid[complete], error[complete]


def summary(ratios):
    """Return the median over tables and its interval by the sign test, as the page writes them, and counts."""
    logs = np.log(ratios).groupby(lambda cell: cell.split("|")[0]).mean()
    ordered = np.sort(np.exp(logs))
    covered = [1 - 2 * stats.binom.cdf(skipped - 1, len(ordered), 0.5) for skipped in range(len(ordered) // 2)]
    skipped = max(place for place, level in enumerate(covered) if level >= 0.95)
    low, high = ordered[skipped - 1], ordered[len(ordered) - skipped]
    return f"{np.median(ordered):.3f} | {low:.3f} to {high:.3f} | {(logs < 0).sum()} : {(logs > 0).sum()}"


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "choices.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def networks():
    frame = records("per-feature")
    valid, error = wide(frame, "spec")
    return frame, valid, error, [name for name in error if not name.startswith("per-feature")]


def rows_of(page, name):
    return re.findall(rf"^\| {re.escape(name)} \| [-+.\d]+ % \| (.*?) \| [\d.]+ \|$", page, re.MULTILINE)


def test_the_rule_beside_the_single_encoding_of_the_other_tables(page, networks):
    frame, valid, error, singles = networks
    task = frame.drop_duplicates("cell").set_index("cell")["task"]
    relative = valid.div(valid.mean(axis=1), axis=0)
    reference = {}
    for cell in error.index:
        dataset, backbone, _ = cell.split("|")
        others = [each for each in error.index if each.split("|")[1] == backbone and task[each] == task[cell]
                  and each.split("|")[0] != dataset]  # fmt: skip
        by_table = relative.loc[others, singles].groupby(lambda each: each.split("|")[0]).mean()
        reference[cell] = error.loc[cell, by_table.mean().idxmin()]
    first, _ = rows_of(page, USUAL.removeprefix("per-feature-"))
    assert first == summary(error[USUAL] / pd.Series(reference))


def test_the_rule_beside_the_best_encoding_of_each_table(page, networks):
    _, valid, error, singles = networks
    best = pd.Series({cell: error.loc[cell, valid.loc[cell, singles].idxmin()] for cell in error.index})
    _, second = rows_of(page, USUAL.removeprefix("per-feature-"))
    assert second == summary(error[USUAL] / best)


def test_interactions_beside_networks_without(page, networks):
    frame = networks[0]
    both = pd.concat([records("interactions"), frame[frame["spec"].isin(["BS-Q@15", "PLE@15"])].assign(variant="none")])
    _, error = wide(both.assign(cell=both["cell"] + "|" + both["spec"]), "variant")
    [row] = rows_of(page, "waves up to 16")
    assert row == summary(error["waves up to 16"] / error["none"])
