"""Numbers of the findings on significance and noise, computed again from the records with pandas and SciPy alone."""

import re
import sys
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from knotwork.encoders import METHOD_TABLE
from knotwork.study import load_plan, load_results
from tests.report.cases import make_records

pytestmark = pytest.mark.xdist_group("inference")  # one process: the records are read once
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "results"))

from findings import learned_gains  # noqa: E402 - needs the line above
from inference import rank_tables, seed_lines, worse_by_nemenyi  # noqa: E402 - needs the line above
from questions import gain_rows, noise, rate_gains, significant  # noqa: E402 - needs the line above


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def records():
    """The networks of all plans, with the errors NRMSE or 1 - AUC."""
    frames = []
    for plan in ("paper-mlp", "paper-resnet", "paper-ft", "knot-training", "paper-ft-coordinate"):
        frame = load_results(ROOT / "results", load_plan(plan).plan_hash).assign(source=plan)
        frames.append(frame.assign(variant=frame["variant"].astype(object)))
    frame = pd.concat(frames, ignore_index=True)
    score = frame["nrmse"].where(frame["task"] == "regression", frame["auc"])
    error = frame["nrmse"].where(frame["task"] == "regression", 1 - frame["auc"])
    network = frame["backbone"].where(frame["tokens"].isna(), frame["backbone"] + " " + frame["tokens"].astype(str))
    return frame.assign(score=score, error=error, network=network, size=frame["size"].astype(float))


@pytest.fixture(scope="module")
def main(records):
    return records[records["source"].isin(["paper-mlp", "paper-resnet", "paper-ft"])]


def wide(main, task, size):
    part = main[(main["task"] == task) & (main["size"].isna() | (main["size"] == size))]
    return part.pivot_table(index=["dataset", "network"], columns="method", values="error", aggfunc="mean")


def row_of(page, *cells):
    """Return the cells of the row of a table that begins with some."""
    (line,) = re.findall(rf"^\| {re.escape(' | '.join(cells))} \|.*$", page, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("size", [7, 15, 30])
def test_both_kinds_of_tests(main, page, task, size):
    errors = wide(main, task, size)
    pairs = [stats.spearmanr(part.iloc[i], part.iloc[j]).statistic for _, part in errors.groupby(level="dataset")
             for i, j in combinations(range(3), 2)]  # fmt: skip
    ranks = errors.rank(axis=1).mean()
    cd = stats.studentized_range.ppf(0.95, 14, np.inf) / np.sqrt(2) * np.sqrt(14 * 15 / (6 * len(errors)))
    apart = sum(abs(ranks[a] - ranks[b]) > cd for a, b in combinations(ranks.index, 2))
    sets = errors.div(errors.mean(axis=1), axis=0).groupby(level="dataset").mean()
    differ = pairs_apart(sets)
    chi2 = stats.friedmanchisquare(*sets.to_numpy().T)
    assert chi2.pvalue < 1e-4
    cells = row_of(page, task, str(size), f"{np.mean(pairs):.2f} ({rest_correlation(errors):.2f})")
    assert cells[3:] == [str(len(errors)), str(apart), str(len(sets)), "< 0.0001", str(len(differ))]
    best = ranks.idxmin()
    far = [name for name in ranks.sort_values(kind="stable").index if ranks[name] - ranks[best] > cd]
    lost = [name for name in ranks.sort_values(kind="stable").index if {(best, name), (name, best)} & differ]
    assert row_of(page, task, str(size), best)[3:] == [", ".join(far), ", ".join(lost)]


def rest_correlation(errors):
    ranks = errors.rank(axis=1)
    rest = ranks - ranks.mean()
    return np.mean([np.corrcoef(part.iloc[i], part.iloc[j])[0, 1] for _, part in rest.groupby(level="dataset")
                    for i, j in combinations(range(3), 2)])  # fmt: skip


def test_groups_are_those_of_the_report(main):
    for table in rank_tables(main):
        assert set(worse_by_nemenyi(table)).isdisjoint(
            table.methods[i] for group in table.problem_groups if table.order[0] in group for i in group
        )
        assert all(not table.differ[np.ix_(group, group)].any() for group in table.groups)


@pytest.mark.parametrize(("network", "method"), [("mlp", "IS-Grad-U"), ("resnet", "BS-Grad-U")])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_learned_against_fixed_knots(main, page, network, method, task):
    part = main[(main["network"] == network) & (main["task"] == task)]
    means = part.groupby(["method", "dataset", "size"])["error"].mean()
    learned, fixed = means[method], means[METHOD_TABLE[method].start]
    relative = (2 * (learned - fixed) / (learned + fixed)).groupby(level="dataset").mean()
    interval = stats.ttest_1samp(relative, 0).confidence_interval()
    score = "NRMSE" if task == "regression" else "AUC"
    rows = [
        line for line in page.splitlines() if line.startswith(f"| {network} | {method} | ") and f"| {score} |" in line
    ]
    cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
    sign = 1 if task == "regression" else -1
    assert cells[5:9] == [
        f"{sign * (learned - fixed).groupby(level='dataset').mean().mean():+.4f}", f"{100 * relative.mean():+.2f}",
        f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}", f"{(relative < 0).sum()} of {len(relative)}",
    ]  # fmt: skip
    (gain,) = [gain for head, entry in learned_gains(main).items() if head.startswith(f"{network} | {method}")
               for gain in entry if gain.score == score]  # fmt: skip
    assert gain.p == pytest.approx(stats.wilcoxon(relative).pvalue)
    assert gain.floor == pytest.approx(floor_by_hand(network, task, len(relative), 15))
    assert cells[10:] == [f"{100 * gain.floor:.2f}", "yes" if abs(relative.mean()) > gain.floor else "no"]


def floor_by_hand(network, task, n_sets, n_averaged):
    pairs = noise()[(noise()["network"] == network) & (noise()["task"] == task)]
    squares = [np.mean(part["relative"] ** 2) for _, part in pairs.groupby("dataset")]
    return stats.norm.ppf(0.975) * np.sqrt(np.mean(squares) / (n_sets * n_averaged))


def test_the_correction_is_for_all_rows_of_a_table():
    rows = rate_gains()
    p = np.array([gain.p for entry in rows.values() for gain in entry])
    adjusted = np.empty(len(p))
    adjusted[np.argsort(p)] = np.minimum(1, np.maximum.accumulate(np.sort(p) * np.arange(len(p), 0, -1)))
    shown = [line.split(" | ")[9] for line in gain_rows(rows) if "+" in line or "-0" in line]
    assert shown == [f"{value:.3f}" for value in adjusted]
    better = [flag for entry in significant(rows).values() for flag in entry]
    gains = [gain for entry in rows.values() for gain in entry]
    expected = [value < 0.05 and gain.relative < -gain.floor for value, gain in zip(adjusted, gains, strict=True)]
    assert better == expected
    assert 0 < sum(better) < len(better)


def test_pairs_of_identical_networks(records, main, page):
    keys = ["dataset", "network", "method", "size", "fold"]
    again = records[records["variant"] == "rate 2, after 50 epochs"]
    plans = main.merge(again, on=keys)
    gap = (plans["score_x"] - plans["score_y"]).abs()
    still = main[main["method"].isin(["BS-Grad-U", "IS-Grad-U"]) & ~main["knots_moved"].astype(bool)]
    starts = still.assign(method=still["method"].str.replace("Grad-U", "U"))
    unmoved = main.merge(starts, on=keys)
    other = (unmoved["score_x"] - unmoved["score_y"]).abs()
    text = " ".join(page.split())
    assert (plans["seed_x"] == plans["seed_y"]).all()
    assert (
        f"Of {len(gap)} MLPs that two plans have trained, {(gap == 0).sum()} have the same score, with differences of "
        f"up to {gap.max():.4f}; of {len(other)} networks with learned knots that never moved, "
        f"{(other == 0).mean():.0%} have the score of the same knots fixed, with differences of up to "
        f"{other.max():.4f}."
    ) in text
    assert len(noise()) == len(gap) + len(other) + 100, "and Std and MinMax with both kinds of tokens"
    assert noise()["gap"].max() >= other.max()


def test_the_table_of_random_seeds(page):
    frame = load_results(ROOT / "results", load_plan("paper-mlp-seeds").plan_hash)
    frame["error"] = frame["nrmse"].where(frame["task"] == "regression", 1 - frame["auc"])
    cell = ["task", "dataset", "method", "fold"]
    frame = frame[frame.groupby(cell)["seed"].transform("nunique") == 3]
    section = page.split("## How much do random seeds matter?")[1].split("\n## ")[0]
    assert f"{len(frame) // 3:,} MLPs, at size 15 or without a size, in 5 folds of regression and 4 folds" in section
    for task, part in frame.groupby("task"):
        spread = 100 * part.groupby(cell)["error"].std() / part.groupby(cell)["error"].mean()
        largest = np.sqrt(spread.pow(2).groupby("dataset").mean())
        expected = [f"{len(part):,}", f"{spread.median():.2f}", f"{np.sqrt(spread.pow(2).mean()):.2f}",
                    f"{largest.max():.1f} ({largest.idxmax()})"]  # fmt: skip
        level = part["error"] / part.groupby(["dataset", "method"])["error"].transform("mean")
        squares = 2 * level.groupby([part[name] for name in cell]).var().groupby("dataset").mean()  # of a difference
        floor = 1.959964 * np.sqrt(squares.mean() / (part["fold"].nunique() * len(squares)))
        expected.append(f"{100 * floor:.2f}")
        alone = [differing(part[part["seed"] == part["fold"] + first]) for first in (42, 47, 52)]
        rho = [stats.spearmanr(a[1], b[1]).statistic for a, b in combinations(alone, 2)]
        best = [" and ".join(ranks.index[ranks == ranks.min()]) for _, ranks in alone]
        pairs = [len(each) for each, _ in alone]
        every = set.intersection(*(each for each, _ in alone))
        expected += [f"{np.mean(rho):.2f}", ", ".join(best), ", ".join(map(str, pairs)), str(len(every)),
                     str(len(differing(part)[0]))]  # fmt: skip
        assert row_of(section, task)[1:] == expected


def test_learned_knots_with_three_random_seeds(page):
    frame = load_results(ROOT / "results", load_plan("paper-mlp-seeds").plan_hash)
    frame["error"] = frame["nrmse"].where(frame["task"] == "regression", 1 - frame["auc"])
    frame = frame[frame.groupby(["task", "dataset", "method", "fold"])["seed"].transform("nunique") == 3]
    section = page.split("Learned knots beside the same knots fixed, in these networks.")[1].split("\n## ")[0]
    rows = []
    for learned, fixed in (("BS-Grad-U", "BS-U"), ("IS-Grad-U", "IS-U")):
        for task, score in (("regression", "NRMSE"), ("classification", "AUC")):
            part, p = frame[frame["task"] == task], []
            for seeds in (*((first,) for first in (42, 47, 52)), (42, 47, 52)):
                means = part[(part["seed"] - part["fold"]).isin(seeds)]
                means = means.pivot_table(index="dataset", columns="method", values="error")[[learned, fixed]]
                gaps = (means[learned] - means[fixed]) / means.mean(axis=1)
                p.append(stats.wilcoxon(gaps, method="exact").pvalue)
            low, high = stats.t.interval(0.95, len(gaps) - 1, gaps.mean(), stats.sem(gaps))
            rows.append((p[-1], [learned, score, f"{100 * gaps.mean():+.2f}", f"{100 * low:+.2f} to {100 * high:+.2f}",
                         f"{(gaps < 0).sum()} of {len(gaps)}", ", ".join(f"{each:.3f}" for each in p[:-1]),
                         f"{p[-1]:.3f}"]))  # fmt: skip
    order = sorted(range(4), key=lambda place: rows[place][0])
    adjusted = np.minimum(np.maximum.accumulate([(4 - k) * rows[place][0] for k, place in enumerate(order)]), 1.0)
    for k, place in enumerate(order):
        cells = [*rows[place][1], f"{adjusted[k]:.3f}"]
        assert f"| {' | '.join(cells)} |" in section


def test_how_many_methods_differ_after_training_to_the_end(page):
    frames = {name: load_results(ROOT / "results", load_plan(name).plan_hash) for name in ("converged", "paper-mlp")}
    trained = frames["converged"]
    whole = trained.groupby(["dataset", "fold"])["key"].transform("size") == 14 * 4
    trained = trained[whole]
    means = trained.groupby(["dataset", "method", "variant"])[["valid_score", "nrmse"]].mean().reset_index()
    best = means.loc[means.groupby(["dataset", "method"])["valid_score"].idxmin()]
    usual = frames["paper-mlp"][frames["paper-mlp"]["size"].isna() | (frames["paper-mlp"]["size"] == 15)]
    usual = usual.merge(trained[["dataset", "fold"]].drop_duplicates())
    tables = [part.pivot_table(index="dataset", columns="method", values="nrmse") for part in (usual, best)]
    pairs = [len(pairs_apart(table.div(table.mean(axis=1), axis=0))) for table in tables]
    above = []
    for table in tables:
        logs = np.log(table)
        above.append(100 * np.expm1((logs["Std"] - logs.drop(columns=["Std", "MinMax"]).mean(axis=1)).mean()))
    text = " ".join(page.split())
    assert f"{pairs[0]} of 91 pairs with the protocol, {pairs[1]} converged." in text
    assert f"The error of Std is {above[0]:+.1f} % compared with the mean of the 12 encodings" in text
    assert f"of Std is {above[0]:+.1f} % and {above[1]:+.1f} % compared with the mean of the encodings" in text
    edge = (best["variant"] == "3e-3").mean()
    assert f"{edge:.0%} of the chosen rates are the largest one, 3e-3" in text


def differing(part):
    """Return the pairs of methods that differ significantly over data sets, and average ranks."""
    errors = part.pivot_table(index="dataset", columns="method", values="error", aggfunc="mean")
    return pairs_apart(errors.div(errors.mean(axis=1), axis=0)), errors.rank(axis=1).mean()


def pairs_apart(relative):
    """Return the pairs of columns that differ significantly by signed ranks with Holm's correction."""
    pairs = list(combinations(relative, 2))
    gaps = np.array([relative[a] - relative[b] for a, b in pairs])
    places = np.where(gaps == 0, 0, stats.rankdata(np.where(gaps == 0, np.nan, abs(gaps)), axis=1, nan_policy="omit"))
    signs = np.array(list(product([-1, 1], repeat=len(relative))))  # all that are equally likely: exact, and fast
    sums = abs(places @ signs.T)
    p = pd.Series((sums >= abs((places * np.sign(gaps)).sum(axis=1))[:, None] - 1e-9).mean(axis=1), index=pairs)
    p = p.sort_values()
    adjusted = np.maximum.accumulate(p * np.arange(len(p), 0, -1))
    return set(adjusted[adjusted < 0.05].index)


def test_the_table_of_sizes_with_a_token_per_coordinate(records, page):
    frame = load_results(ROOT / "results", load_plan("coordinate-sizes").plan_hash).astype({"size": float})
    error = frame["nrmse"].where(frame["task"] == "regression", 1 - frame["auc"])
    kinds = {"coordinate": frame.assign(error=error), "feature": records[records["network"] == "ft feature"]}
    section = page.split("## With a token per coordinate, do splines")[1].split("\n## ")[0]
    groups = {name: [name] for name in ("BS-Q", "BS-CART", "IS-Q", "PLE")} | {"splines": ["BS-Q", "BS-CART", "IS-Q"]}
    kept = {}
    for kind, part in kinds.items():
        logs = np.log(part.set_index(["dataset", "fold", "method", "size"])["error"].astype(float)).unstack(
            ["method", "size"]
        )
        cells = {name: [] for name in groups}
        for size in (15, 30):
            gaps = logs.xs(size, axis=1, level=1)[groups["splines"] + ["PLE"]] - logs.xs(7, axis=1, level=1)
            gaps = gaps[groups["splines"] + ["PLE"]].dropna()
            kept.setdefault(size, gaps.index)
            changes = gaps.loc[kept[size]].groupby("dataset").mean()
            for name, methods in groups.items():
                values = changes[methods].mean(axis=1)
                interval = stats.ttest_1samp(values, 0).confidence_interval()
                mean, low, high = (100 * np.expm1(value) for value in (values.mean(), interval.low, interval.high))
                cells[name] += [f"{mean:+.1f} %", f"{low:+.1f} to {high:+.1f} %", f"{(values > 0).sum()} of 10"]
        for name, expected in cells.items():
            assert row_of(section, name, kind)[2:] == expected
        if kind == "coordinate":
            mean, interval, _ = cells["splines"][3:]
            assert f"**Cannot be told: the interval contains 0**: {mean} ({interval}); p = " in " ".join(
                section.split()
            )
    assert (len(kept[15]), len(kept[30])) == (30, 29)


def test_random_seeds_are_compared():
    records = make_records(13, 0, backbones=["mlp"], methods=["Std", "MinMax", "PLE"], sizes=(15,), n_folds=2)
    random = np.random.default_rng(0)
    frame = pd.concat([records.assign(seed=records["seed"] + 2 * i) for i in range(3)], ignore_index=True)
    frame["score"] = frame["nrmse"] * (1 + 0.03 * random.normal(size=len(frame)))
    (row,) = [line for line in seed_lines(frame) if line.startswith("| regression")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    spread = frame.groupby(["dataset", "method", "fold"])["score"].agg(["mean", "var"])
    assert [cells[1], cells[3]] == [
        str(len(frame)),
        f"{100 * np.sqrt((spread['var'] / spread['mean'] ** 2).mean()):.2f}",
    ]
    assert float(cells[3]) == pytest.approx(3, abs=0.5)
    counts = []
    for chosen in [*(frame[frame["seed"] // 2 == i] for i in range(3)), frame]:
        errors = chosen.pivot_table(index="dataset", columns="method", values="score", aggfunc="mean")
        relative = errors.div(errors.mean(axis=1), axis=0)
        p = sorted(stats.wilcoxon(relative[a], relative[b]).pvalue for a, b in combinations(relative, 2))
        counts.append(str(sum(np.maximum.accumulate(np.array(p) * [3, 2, 1]) < 0.05)))
    assert [cells[8], cells[10]] == [", ".join(counts[:3]), counts[3]]
