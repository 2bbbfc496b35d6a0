"""What the records say on single questions, as lines of Markdown; `findings.py` puts them together."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from knotwork.encoders import METHOD_TABLE
from knotwork.report.efficiency import per_epoch
from knotwork.study import load_plan, load_results

HERE = Path(__file__).parent
VISIT = 600.0
"""Seconds without a new network after which a visit to the card is another one."""
TASKS = {"regression": "nrmse", "classification": "auc"}
FAMILIES = {"BS-Grad-U": "BS-U", "IS-Grad-U": "IS-U", "MS-Grad-U": "MS-U"}


def paragraph(text: str) -> str:
    """Return text in lines of one width."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def load(plan: str) -> pd.DataFrame:
    """Return the networks of a plan that went well.

    A column `network` has the name of the backbone and of its tokens, `score` NRMSE or AUC.
    """
    frame = load_results(HERE, load_plan(plan).plan_hash)
    frame = frame[frame["status"] == "ok"]
    network = (frame["backbone"] + " " + frame["tokens"].fillna("")).str.strip()
    score = frame["nrmse"].where(frame["task"] == "regression", frame["auc"])
    return frame.assign(network=network, score=score)


def mean_interval(values: "pd.Series[float]") -> tuple[float, float, float]:
    """Return the mean and its 95 % interval (t)."""
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), values.sem())
    return float(values.mean()), float(low), float(high)


def gain_cells(frame: pd.DataFrame, one: "pd.Series[bool]", other: "pd.Series[bool]") -> list[str]:
    """Return the mean difference of two kinds of networks in pairs of data set and size, by task, with intervals.

    Pairs are averages over folds. NRMSE: negative is better for the first; AUC: positive is better.
    """
    cells = []
    for task in TASKS:
        means = [
            frame[kind & (frame["task"] == task)].groupby(["dataset", "size"], dropna=False)["score"].mean()
            for kind in (one, other)
        ]
        gain = (means[0] - means[1]).dropna()
        mean, low, high = mean_interval(gain)
        cells += [f"{mean:+.4f}", f"{low:+.4f} to {high:+.4f}"]
    return cells


def ranks_by_block(frame: pd.DataFrame, task: str, size: int) -> pd.DataFrame:
    """Return the rank of every method in every block of network and data set, 1 for the best."""
    part = frame[(frame["task"] == task) & (frame["size"].isna() | (frame["size"] == size))]
    wide = part.pivot_table(index=["network", "dataset"], columns="method", values="score", aggfunc="mean")
    return wide.rank(axis=1, ascending=task == "regression")


def correlation(ranks: pd.DataFrame, theirs: "pd.Series[float]") -> float:
    """Return Spearman's correlation of our average ranks with the paper's."""
    return float(stats.spearmanr(ranks.mean()[theirs.index], theirs).statistic)


def paper_ranks(task: str) -> pd.DataFrame:
    """Return the paper's average ranks, one column for each size."""
    return pd.read_csv(HERE / "paper" / f"average_ranks_{task}.csv").set_index("method")


def quoted_averages(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the averages over data sets that the paper quotes in its text, as `value`, and ours as `mean`."""
    quoted = pd.read_csv(HERE / "paper" / "quoted_averages.csv").replace({"backbone": {"ftt": "ft feature"}})
    by = ["task", "network", "method", "size"]
    means = frame.groupby([*by, "dataset"], dropna=False)["score"].mean().groupby(level=by, dropna=False).mean()
    ours = means.rename("mean").reset_index().astype({"size": float})
    return quoted.rename(columns={"backbone": "network"}).merge(ours, on=by, how="left")


def averages(frame: pd.DataFrame) -> Iterator[str]:
    """Compare averages with those that the paper quotes."""
    table = quoted_averages(frame)
    yield "## The averages that the paper quotes\n"
    yield paragraph("""
        Of its heatmaps the paper gives these numbers in its text: means over all data sets of a task. Levels of NRMSE
        do not compare, because the paper does not say what it divides by; AUC has no such constant.""")
    yield "| task | score | backbone | method | size | paper | here |"
    yield "|---|---|---|---|---|---|---|"
    for row in table.itertuples():
        size = "" if pd.isna(row.size) else f"{row.size:.0f}"
        yield (
            f"| {row.task} | {row.metric} | {row.network} | {row.method} | {size} | {row.value:.4f} | {row.mean:.4f} |"
        )
    auc, nrmse = (table[table["metric"] == metric] for metric in ("AUC", "NRMSE"))
    gap = auc["mean"] - auc["value"]
    yield "\n" + paragraph(f"""
        Our AUC is {gap.min():+.4f} to {gap.max():+.4f} from the paper's ({gap.mean():+.4f} on average); the
        {len(auc)} values correlate by {stats.spearmanr(auc["mean"], auc["value"]).statistic:.2f} (Spearman), the
        {len(nrmse)} of NRMSE by {stats.spearmanr(nrmse["mean"], nrmse["value"]).statistic:.2f}: the paper's
        FT-Transformer is behind its MLP there, ours is ahead, in part perhaps for its tokens (see below). Within the
        FT-Transformer, Std is about as good as BS-Q at size 7 in both, and BS-Q is worst at size 30.""")


def ablation_grid() -> pd.DataFrame:
    """Return the paper's grid of methods and sizes with its values, and ours as `mean`."""
    ours = load("ablation").assign(method=lambda frame: frame["method"].replace({"PLE-Adaptive": "PLE-adaptive-50"}))
    grid = pd.read_csv(HERE / "paper" / "ablation_nrmse.csv")
    found = ours.groupby(["method", "size"], dropna=False)["nrmse"].mean().rename("mean").reset_index()
    return grid.merge(found.astype({"size": float}), on=["method", "size"], how="left")


def ablation_correlation() -> float:
    """Return Spearman's correlation of the whole grid with the paper's."""
    both = ablation_grid()
    return float(stats.spearmanr(both["mean"], both["nrmse_mean"]).statistic)


def ablation() -> Iterator[str]:
    """Compare the grid of methods and sizes on the synthetic function with the paper's."""
    ours, both = load("ablation"), ablation_grid()
    random = np.random.default_rng(0)

    def row(name: str, part: pd.DataFrame) -> str:
        value = stats.spearmanr(part["mean"], part["nrmse_mean"]).statistic
        drawn = [part.iloc[random.integers(len(part), size=len(part))] for _ in range(1000)]
        spread = [stats.spearmanr(each["mean"], each["nrmse_mean"]).statistic for each in drawn]
        low, high = np.percentile(spread, [2.5, 97.5])
        best, theirs = (part.loc[part[column].idxmin()] for column in ("mean", "nrmse_mean"))
        names = [each["method"] + ("" if pd.isna(each["size"]) else f"@{each['size']:.0f}") for each in (best, theirs)]
        return f"| {name} | {len(part)} | {value:.2f} | {low:.2f} to {high:.2f} | {names[0]} | {names[1]} |"

    learned = both["method"].map(lambda name: "Grad" in name)
    yield "## The ablation beside the paper's\n"
    yield paragraph(f"""
        {len(ours)} networks: {len(both)} configurations of 19 methods on the synthetic function, five seeds each, of
        which {len(both) - int(both["mean"].isna().sum())} are there. Spearman's correlation of their mean NRMSE with
        the paper's values; intervals: 95 %, configurations drawn with replacement.""")
    yield "| configurations | number | correlation | interval | best here | best in the paper |"
    yield "|---|---|---|---|---|---|"
    yield row("all", both)
    yield row("fixed knots", both[~learned])
    yield row("learned knots", both[learned])
    yield ""


def starts() -> Iterator[str]:
    """Compare learned knots by where they start."""
    frame = load("learned-starts")
    yield "## Where should learned knots start?\n"
    yield paragraph(f"""
        {len(frame):,} MLPs, 25 data sets, three sizes. Gain of learned knots over the same knots fixed, and over
        learned knots that start at equal distances, in pairs of data set and size; 95 % intervals (t). NRMSE: negative
        is better; AUC: positive is better.""")
    head = "| learned | beside | moved | shift, % | NRMSE | interval | AUC | interval |"
    yield head
    yield "|" + "---|" * (head.count("|") - 1)
    learnable = [name for name in METHOD_TABLE if METHOD_TABLE[name].learnable and name in set(frame["method"])]
    for method in learnable:
        own = frame[frame["method"] == method]
        moved = own["knots_moved"].astype(bool)
        uniform = method[:2] + "-Grad-U"
        for beside in dict.fromkeys([METHOD_TABLE[method].start, uniform]):
            if beside not in set(frame["method"]) or beside == method:
                continue
            cells = gain_cells(frame, frame["method"] == method, frame["method"] == beside)
            yield (
                f"| {method} | {beside} | {moved.mean():.0%} | {100 * own['knot_shift'][moved].mean():.2f} | "
                + " | ".join(cells)
                + " |"
            )
    yield ""


def shift_of(variant: str) -> float:
    """Return how far learned knots have gone on average with a variant of their training, in percent of the range."""
    frame = load("knot-training")
    own = frame[(frame["variant"] == variant) & frame["knots_moved"].astype(bool)]
    return float(100 * own["knot_shift"].mean())


def rates() -> Iterator[str]:
    """Compare learning rates of knots, and training them at once."""
    frame = load("knot-training")
    first = load_plan("knot-training").variant_names[0]
    yield "## The rate of the knots, and the warm-up\n"
    yield paragraph(f"""
        {len(frame):,} MLPs at size 15, 25 data sets. The rate is that of the knots over that of the network; the paper
        has 2, after 50 epochs. Difference to that in pairs of data set, for both methods; 95 % intervals (t).""")
    head = "| method | rate | moved | shift, % | NRMSE | interval | AUC | interval |"
    yield head
    yield "|" + "---|" * (head.count("|") - 1)
    for method in dict.fromkeys(frame["method"]):
        part = frame[frame["method"] == method]
        for variant in load_plan("knot-training").variant_names:
            own = part[part["variant"] == variant]
            moved = own["knots_moved"].astype(bool)
            cells = ["", "", "", ""]
            if variant != first:
                cells = gain_cells(part, part["variant"] == variant, part["variant"] == first)
            shift = 100 * own["knot_shift"][moved].mean()
            yield f"| {method} | {variant} | {moved.mean():.0%} | {shift:.2f} | " + " | ".join(cells) + " |"
    yield ""


def cost_ratios() -> pd.DataFrame:
    """Return, for each backbone, size and family of the efficiency plan, what learned knots cost beside fixed ones.

    A pair is `apart` if the two were trained in different visits to the card, or if one of them was the first of its
    visit: then the ratio also says how visits differ, or what the start of a process takes.
    """
    alone, rows = load("efficiency").sort_values("started_at"), []
    began = alone["started_at"].diff().fillna(np.inf) > VISIT
    alone = alone.assign(visit=began.cumsum(), began=began, per_epoch=per_epoch(alone))
    for network in dict.fromkeys(alone["network"]):
        for size in (7, 15, 30):
            for learned, fixed in FAMILIES.items():
                pair = [
                    alone[(alone["network"] == network) & (alone["size"] == size) & (alone["method"] == name)]
                    for name in (learned, fixed)
                ]
                if not all(len(each) for each in pair):
                    continue
                one, other = (each.iloc[0] for each in pair)
                rows.append(
                    {
                        "network": network, "size": size, "learned": learned, "fixed": fixed,
                        "learned_ms": 1000 * one["per_epoch"], "fixed_ms": 1000 * other["per_epoch"],
                        "whole": one["train_seconds"] / other["train_seconds"],
                        "epochs": f"{one['epochs']:.0f}, {other['epochs']:.0f}",
                        "apart": one["visit"] != other["visit"] or one["began"] or other["began"],
                    }
                )  # fmt: skip
    table = pd.DataFrame(rows)
    return table.assign(ratio=table["learned_ms"] / table["fixed_ms"])


def largest_cost() -> str:
    """Return the largest ratio of the time per epoch at size 30 of pairs that compare, by backbone."""
    table = cost_ratios()
    table = table[(table["size"] == 30) & ~table["apart"]]
    return ", ".join(f"{network} {part['ratio'].max():.2f}" for network, part in table.groupby("network", sort=False))


def compiling() -> str:
    """Say whether the times per epoch hold the compilation of kernels."""
    if load("efficiency")["epoch_seconds"].notna().all():
        return (
            "Times per epoch are those of the median epoch, so compiling kernels, which the first does, is not in them."
        )
    table = cost_ratios()
    table = table[table["network"] == "ft feature"]
    epochs = table["epochs"].str.split(",").str[0].astype(float)
    surplus = (table["learned_ms"] - table["fixed_ms"]) * epochs / 1000
    return f"""
        These times are those of the whole training over its epochs, and hold the compilation of kernels, which every
        family and size has of its own. The FT-Transformer's were trained in a process that found none compiled:
        networks with learned knots took {surplus.min():.1f} to {surplus.max():.1f} s more than with fixed ones for as
        many epochs, and not more the longer they were trained (Spearman's correlation with the number of epochs:
        {stats.spearmanr(surplus, epochs).statistic:.2f}), so its ratios say more of compiling than of steps."""


def efficiency() -> Iterator[str]:
    """Say what learned knots cost, and what a stack saves."""
    alone, stacked = load("efficiency"), load("efficiency-stacked")
    yield "## What learned knots cost\n"
    yield paragraph(f"""
        SGEMM, each network alone on the H200, one split: {len(alone)} of {load_plan("efficiency").n_networks} networks.
        Time per epoch, in milliseconds, and its ratio; and the ratio of the whole training time, which also depends on
        when early stopping ends it (epochs in brackets). A star: the two were trained in different visits to the card,
        or one was the first of its visit and carries the start of the process; such ratios say little.""")
    head = "| backbone | size | learned | fixed | ms per epoch | fixed | ratio | whole training |"
    yield head
    yield "|" + "---|" * (head.count("|") - 1)
    for row in cost_ratios().itertuples():
        star = "*" if row.apart else ""
        yield (
            f"| {row.network} | {row.size} | {row.learned} | {row.fixed} | {row.learned_ms:.2f} | {row.fixed_ms:.2f} "
            f"| {row.ratio:.2f}{star} | {row.whole:.2f}{star} ({row.epochs}) |"
        )
    yield "\n" + paragraph(f"""
        The largest ratio per epoch without a star at size 30: {largest_cost()}. The paper calls learned knots
        high-cost; the bar here was 1.2. {compiling()}""")
    both = alone.merge(stacked, on=["network", "method", "size", "fold"], suffixes=("", "_stacked"))
    both["size"] = both["size"].astype(float)
    rows = both.groupby("network")[["train_seconds", "train_seconds_stacked"]].sum()
    for network, row in rows.iterrows():
        n_pairs = int((both["network"] == network).sum())
        units = stacked[stacked["network"] == network].groupby("started_at").size()
        yield paragraph(f"""
            The same {n_pairs} {network} networks in stacks of {units.min()} to {units.max()}:
            {row["train_seconds_stacked"]:.1f} s instead of {row["train_seconds"]:.1f} s alone, a factor of
            {row["train_seconds"] / row["train_seconds_stacked"]:.1f}.""")
    yield paragraph("""
        The two were trained in different visits, and between those of the FT-Transformer its kernels became faster.""")
