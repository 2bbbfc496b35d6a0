"""Claims of the paper on learned knots, their cost, the ablation and the illustration; `claims.py` joins them."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from benchmark_claims import Benchmark, Claim, numbers
from questions import (
    FAMILIES,
    HERE,
    SIZES,
    TASKS,
    ablation_correlation,
    ablation_grid,
    cost_ratios,
    largest_ratios,
    load,
    mean_interval,
    token_parameters,
    within_methods,
)

from knotwork.encoders import METHOD_TABLE
from knotwork.report import TRUTHS, noiseless_scores, per_epoch
from knotwork.study import load_curves, load_knot_paths, load_plan, load_results

TIE = 0.001
"""Expected scores of fits that differ by less than this are equal."""
SUBSTANTIAL = 1.5
"""A ratio of times from which on a cost counts as substantial."""
MODERATE = 1.05
"""A ratio of times from which on a cost counts as growing."""
FLAT = 0.02
"""A relative change of NRMSE below which a curve counts as a plateau."""
FIXED_M = ("MS-U", "MS-Q", "MS-CART", "MS-LGBM")
FIXED_B = ("BS-U", "BS-Q", "BS-CART", "BS-LGBM")
PLACEMENTS = ("U", "Q", "CART", "LGBM", "Grad-U")


def learned_claims(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the training of learned knots."""
    records = load_results(study.folder)
    learned = records[[METHOD_TABLE[name].learnable for name in records["method"]]]
    failed = int((learned["status"] != "ok").sum())
    yield Claim(
        "Abstract; 1; 3.1",
        "learned knots can be trained stably",
        f"{failed} of {len(learned):,} networks with learned knots failed",
        failed == 0,
    )
    rates = load_results(study.folder, load_plan("knot-training").plan_hash)
    fast = rates[rates["variant"].str.startswith("rate 2,")]
    yield Claim(
        "3.1",
        "knot updates are stable at up to twice the learning rate of the network",
        f"{(fast['status'] != 'ok').sum()} of {len(fast)} MLPs with twice the rate failed, and "
        f"{(rates['status'] != 'ok').sum()} of {len(rates)} with 2 to 50 times",
        bool((fast["status"] == "ok").all()),
    )
    yield from knot_paths(study)


def knot_paths(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the movement of knots."""
    moves = load("knot-relocation")
    shifts = {
        rate: 100 * moves[(moves["variant"] == rate) & (moves["method"] == "BS-Grad-U")]["knot_shift"].mean()
        for rate in ("1e-5", "5e-5", "1e-4", "2e-4")
    }
    values = list(shifts.values())
    yield Claim(
        "3.1; K.1, Fig. 10",
        "knots move little at small rates, and more at larger ones",
        "BS-Grad-U, mean shift in percent of the range: "
        + ", ".join(f"{value:.2f} at {rate}" for rate, value in shifts.items()),
        values == sorted(values) and values[-1] > 2 * values[0],
    )
    paths = load_knot_paths(study.folder)
    gaps = (
        paths.sort_values(["key", "epoch", "feature", "knot"]).groupby(["key", "epoch", "feature"])["position"].diff()
    )
    yield Claim(
        "K.1, Fig. 10",
        "paths of knots stay ordered during training",
        f"smallest distance of neighbours in {paths['key'].nunique()} networks, all epochs: {gaps.min():.3f}",
        bool(gaps.min() > 0),
    )
    n_knots = paths.groupby(["key", "epoch", "feature"]).size().unique()
    yield Claim("K.1", "six internal knots per feature at m = 10", f"{listed(n_knots)}", list(n_knots) == [6])
    yield Claim(
        "3.1",
        "an ensemble gives a more stable set of knots than one tree",
        "the records have scores, not the knots of trees",
        None,
    )


def listed(values: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
    """Return whole numbers separated by commas."""
    return ", ".join(map(str, values))


def cost_claims(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the cost of learned knots on SGEMM."""
    ratios, where = cost_ratios(), "4.5, Fig. 7"
    largest = largest_ratios()
    yield Claim(
        "Abstract; 1; 4.5",
        "learned knots may increase the cost of training substantially",
        "largest ratio of the time per epoch to fixed knots at m = 30: "
        + ", ".join(f"{name} {value:.2f}" for name, value in largest.items()),
        bool(largest.max() > SUBSTANTIAL),
    )
    by_family = ratios[ratios["size"] == 30].groupby("learned")["ratio"].mean()
    yield Claim(
        "1; 4.5",
        "the overhead is largest for M- and I-splines",
        "mean ratio at m = 30: " + ", ".join(f"{name} {by_family[name]:.2f}" for name in FAMILIES),
        bool(by_family[["IS-Grad-U", "MS-Grad-U"]].min() > by_family["BS-Grad-U"]),
    )
    yield from family_costs(where)


def family_costs(where: str) -> Iterator[Claim]:
    """Check what the paper says of the cost of learned knots by family and size."""
    ratios = cost_ratios()
    cells = ratios.pivot(index=["network", "size"], columns="learned", values="learned_ms")
    cheapest = int((cells.idxmin(axis=1) == "BS-Grad-U").sum())
    yield Claim(
        where,
        "of the learned ones BS-Grad-U is always the cheapest",
        f"per epoch in {cheapest} of {len(cells)} cells of backbone and size",
        cheapest == len(cells),
    )
    growth = cells.xs(30, level="size") / cells.xs(7, level="size")
    yield Claim(
        where,
        "MS-Grad-U and IS-Grad-U become much slower with m",
        "time per epoch at m = 30 over that at 7, mlp, resnet, ft: "
        + "; ".join(
            f"{name} {numbers(growth.loc[['mlp', 'resnet', 'ft feature'], name])}"
            for name in ("MS-Grad-U", "IS-Grad-U")
        ),
        bool(growth[["MS-Grad-U", "IS-Grad-U"]].to_numpy().min() > SUBSTANTIAL),
    )
    steady = growth["BS-Grad-U"]
    yield Claim(
        where,
        "the time of BS-Grad-U is stable for MLP and ResNet, and grows moderately for the FT-Transformer",
        "m = 30 over 7: " + ", ".join(f"{name} {value:.2f}" for name, value in steady.items()),
        bool(steady[["mlp", "resnet"]].max() < MODERATE < steady["ft feature"] < SUBSTANTIAL),
    )
    at_30 = ratios[ratios["size"] == 30].pivot(index="network", columns="learned", values="ratio")
    slowest = int((at_30.idxmax(axis=1) == "IS-Grad-U").sum())
    yield Claim(
        where,
        "especially IS-Grad-U becomes slower",
        f"it has the largest ratio to fixed knots at m = 30 with {slowest} of {len(at_30)} backbones: "
        + "; ".join(f"{name} {numbers(row)}" for name, row in at_30[list(FAMILIES)].iterrows())
        + f" ({', '.join(FAMILIES)})",
        slowest == len(at_30),
    )
    overhead = ratios.groupby("network")["ratio"].mean()
    yield Claim(
        "4.5",
        "the overhead of learned knots is larger for the MLP than for the others",
        "mean ratio to fixed knots: " + ", ".join(f"{name} {value:.2f}" for name, value in overhead.items()),
        str(overhead.idxmax()) == "mlp",
    )
    yield from size_costs(where)


def size_costs(where: str) -> Iterator[Claim]:
    """Check what the paper says of the cost of larger sizes, and of parameters."""
    alone = load("efficiency").reset_index(drop=True)
    seconds, _ = per_epoch(alone, alone)
    fixed = alone.assign(seconds=seconds)[alone["method"].isin(["PLE", "BS-U", "IS-U"])]
    table = fixed.astype({"size": int}).groupby(["network", "size"])["seconds"].mean().unstack()
    growth = table[30] / table[7]
    yield Claim(
        where,
        "larger m costs little with MLP and ResNet, and clearly more with the FT-Transformer",
        "PLE, BS-U, IS-U, time per epoch at m = 30 over 7: "
        + ", ".join(f"{name} {value:.2f}" for name, value in growth.items())
        + " (a token per feature)",
        bool(growth["ft feature"] > SUBSTANTIAL > max(growth["mlp"], growth["resnet"])),
    )
    pairs = alone.astype({"size": float}).pivot(index=["network", "size"], columns="method", values="n_parameters")
    extra = [
        (pairs[learned] - pairs[plain]).dropna().groupby(level="size").unique() for learned, plain in FAMILIES.items()
    ]
    counts = [sorted({int(value) for family in extra for value in family[size]}) for size in SIZES]
    yield Claim(
        "4.5",
        "learned knots add 56, 168 and 378 parameters at m = 7, 15 and 30",
        ", ".join(listed(np.array(each)) for each in counts),
        counts == [[56], [168], [378]],
    )
    encoded = alone[alone["size"].notna()]["n_parameters"]
    share = max(each[-1] / encoded.min() for each in counts)
    yield Claim(
        "4.5", "these are negligible beside the network", f"at most {share:.1%} of the smallest one", share < 0.01
    )
    tokens = token_parameters(30)
    yield Claim(
        "4.5",
        "networks have 66K to 1.13M parameters",
        f"{encoded.min():,} to {encoded.max():,} with a token per feature; an FT-Transformer at m = 30 has "
        f"{tokens['feature']:,}, with a token per coordinate {tokens['coordinate']:,}",
        bool(encoded.min() // 1000 == 66 and 1_125_000 <= max(encoded.max(), *tokens.values()) < 1_135_000),
    )


def learned_ranks(study: Benchmark) -> Iterator[Claim]:
    """Check the paper's advice on learned knots and on M-splines."""
    names = list(FAMILIES)
    ranks = pd.DataFrame({name: [study.ranks(task, size)[name] for task in TASKS for size in SIZES] for name in names})
    times = cost_ratios().groupby("learned")["learned_ms"].mean()
    mean = ranks.mean()
    yield Claim(
        "4.5 takeaway, Table 2",
        "of learned knots BS-Grad-U has the best trade-off of cost and quality",
        "mean rank of six settings, and milliseconds per epoch: "
        + "; ".join(f"{name} {mean[name]:.2f}, {times[name]:.2f}" for name in names),
        str(mean.idxmin()) == "BS-Grad-U" and str(times.idxmin()) == "BS-Grad-U",
    )
    last = int((ranks.idxmax(axis=1) == "MS-Grad-U").sum())
    yield Claim(
        "4.5 takeaway, Table 2",
        "learned M-splines are the least attractive of learned knots",
        f"the worst rank of the three in {last} of {len(ranks)} settings",
        last > len(ranks) / 2,
    )


def ablation_table() -> pd.DataFrame:
    """Return our means and standard deviations of the ablation with its paper's, by method and size."""
    records = load("ablation").replace({"method": {"PLE-Adaptive": "PLE-adaptive-50"}}).astype({"size": float})
    spread = records.groupby(["method", "size"], dropna=False)["nrmse"].std().rename("sd").reset_index()
    return ablation_grid().merge(spread, on=["method", "size"], how="left")


def ablation_curves() -> Iterator[Claim]:
    """Check what the paper says of the curves of NRMSE over the size."""
    grid = ablation_table()
    curves = grid.dropna(subset=["size"]).pivot(index="method", columns="size", values="mean")
    yield Claim(
        "5",
        "163 configurations, 815 networks",
        f"{grid['mean'].notna().sum()} and {len(load('ablation'))}",
        grid["mean"].notna().sum() == 163 and len(load("ablation")) == 815,
    )
    middle = curves[[15, 20, 25, 30, 35]].min(axis=1)
    better = int((middle < curves[5]).sum())
    late = (curves[50] / curves[35] - 1).abs()
    yield Claim(
        "5; 6",
        "most methods improve from m = 5 to 15 to 35, then the curves are flat",
        f"{better} of {len(curves)} methods improve; the change from 35 to 50 is below 2 % for "
        f"{int((late < FLAT).sum())} (median {100 * late.median():.1f} %)",
        better > len(curves) / 2 and (late < FLAT).sum() > len(curves) / 2,
    )
    gain = 1 - middle / curves[5]
    families = {
        name: 100 * gain[[each for each in gain.index if each.startswith(prefix)]].mean()
        for name, prefix in (("B-splines", "BS-"), ("I-splines", "IS-"), ("PLE", "PLE"))
    }
    yield Claim(
        "5",
        "the curve of PLE is slightly flatter than those of B- and I-splines",
        "gain from m = 5 to the best of 15 to 35: "
        + ", ".join(f"{name} {value:.0f} %" for name, value in families.items()),
        families["PLE"] < min(families["B-splines"], families["I-splines"]),
    )
    yield from ablation_placements()


def ablation_placements() -> Iterator[Claim]:
    """Check what the paper says of placements in the ablation."""
    grid = ablation_table()
    curves = grid.dropna(subset=["size"]).pivot(index="method", columns="size", values="mean")
    pairs = [
        curves.loc[f"{family}-{one}"].corr(curves.loc[f"{family}-{other}"], method="spearman")
        for family in ("BS", "IS")
        for one, other in combinations(PLACEMENTS, 2)
    ]
    yield Claim(
        "5",
        "the placement changes the level of a family's curve, not its shape",
        f"mean correlation of two placements' curves over sizes: {np.mean(pairs):.2f} ({min(pairs):.2f} to "
        f"{max(pairs):.2f})",
        float(np.mean(pairs)) > 0.5,
    )
    levels = {place: curves.loc[[f"BS-{place}", f"IS-{place}"]].to_numpy().mean() for place in PLACEMENTS}
    order = sorted(levels, key=lambda place: levels[place])
    yield Claim(
        "5",
        "knots from CART and uniform knots give the best results",
        "mean of B- and I-splines: " + ", ".join(f"{place} {levels[place]:.4f}" for place in order),
        set(order[:2]) == {"CART", "U"},
    )
    yield Claim(
        "K, Table 17",
        "the values of 163 configurations",
        f"ours are {(grid['mean'] / grid['nrmse_mean']).mean():.2f} times as large, but the paper gives neither the "
        f"rows nor the divisor; the correlation is {ablation_correlation():.2f}, within a method over its sizes "
        f"{within_methods():.2f} on average",
        None,
    )


class Deterioration(NamedTuple):
    """How many of `number` M-splines with fixed knots are worse at size 50 than at 5, and by how much, in percent."""

    on_average: int
    significantly: int
    """By a 95 % interval over random seeds."""
    number: int
    least: float
    most: float

    @property
    def holds(self) -> bool | None:
        """Whether they often deteriorate; None if most do on average, but not significantly."""
        if self.on_average <= self.number / 2:
            return False
        return True if self.significantly > self.number / 2 else None


def deteriorating() -> Deterioration:
    """Compare M-splines with fixed knots at the largest and the smallest size of the ablation."""
    records = load("ablation")
    records = records[records["method"].isin(FIXED_M)].astype({"size": float})
    seeds = records.pivot_table(index=["method", "fold"], columns="size", values="nrmse")
    lows = [mean_interval(part)[1] for _, part in (seeds[50] - seeds[5]).groupby(level="method")]
    means = seeds.groupby(level="method").mean()
    growth = 100 * (means[50] / means[5] - 1)
    return Deterioration(
        int((growth > 0).sum()), sum(low > 0 for low in lows), len(lows), float(growth.min()), float(growth.max())
    )


def ablation_families() -> Iterator[Claim]:
    """Check what the paper says of the families in the ablation."""
    grid = ablation_table()
    names = [name + ("" if np.isnan(size) else f"@{size:.0f}") for name, size in grid[["method", "size"]].to_numpy()]
    best = grid.assign(name=names).nsmallest(5, "mean")
    yield Claim(
        "5",
        "BS-CART at m = 30 is the best (0.0456)",
        f"best: {best['name'].iloc[0]} ({best['mean'].iloc[0]:.4f})",
        best["name"].iloc[0] == "BS-CART@30",
    )
    yield Claim(
        "5",
        "all of the five best are B-splines",
        ", ".join(best["name"]),
        bool(best["method"].str.startswith("BS-").all()),
    )
    yield Claim(
        "5",
        "the five best are BS-CART and BS-U",
        f"{int(best['method'].isin(['BS-CART', 'BS-U']).sum())} of {len(best)} are",
        bool(best["method"].isin(["BS-CART", "BS-U"]).all()),
    )
    lowest = grid.groupby("method")["mean"].min()
    below = [place for place in PLACEMENTS if lowest[f"BS-{place}"] < lowest[f"IS-{place}"]]
    gaps = [100 * (lowest[f"IS-{place}"] / lowest[f"BS-{place}"] - 1) for place in PLACEMENTS]
    yield Claim(
        "5",
        "the best I-spline is slightly above the best B-spline of the same placement",
        f"in {len(below)} of {len(PLACEMENTS)} placements; by {min(gaps):.0f} to {max(gaps):.0f} %",
        len(below) == len(PLACEMENTS),
    )
    yield from ablation_m_splines()


def ablation_m_splines() -> Iterator[Claim]:
    """Check what the paper says of M-splines in the ablation."""
    grid = ablation_table()
    table = grid.dropna(subset=["size"]).assign(family=lambda frame: frame["method"].str[:2])
    level, spread = (table.groupby("family")[column].mean() for column in ("mean", "sd"))
    yield Claim(
        "5; 6",
        "M-splines are weaker than B- and I-splines",
        ", ".join(f"{name} {level[name]:.4f}" for name in ("BS", "IS", "MS")) + " on average",
        bool(level["MS"] > max(level["BS"], level["IS"])),
    )
    worse = deteriorating()
    fixed = table[table["method"].isin(FIXED_M)]
    yield Claim(
        "5",
        "M-splines often deteriorate at larger sizes",
        f"with fixed knots {worse.on_average} of {worse.number} have a larger mean at m = 50 than at 5 "
        f"({worse.least:+.1f} to {worse.most:+.1f} %), {worse.significantly} significantly over five random seeds",
        worse.holds,
    )
    levels = [part.groupby("size")["mean"].mean() for part in (fixed, table[table["method"].isin(FIXED_B)])]
    gap = 100 * (levels[0] / levels[1] - 1)
    late = gap[gap.index >= 15]
    yield Claim(
        "5",
        "fixed M-splines are less competitive than B-splines, especially at larger sizes",
        f"NRMSE beside that of B-splines with the same knots: {gap[5]:+.0f} % at m = 5, {late.min():+.0f} to "
        f"{late.max():+.0f} % from 15 to 50",
        bool(late.min() > max(gap[5], 0)),
    )
    wide = float(fixed["sd"].mean())
    yield Claim(
        "5; 6",
        "M-splines have a larger spread over random seeds",
        f"mean standard deviation: BS {spread['BS']:.4f}, IS {spread['IS']:.4f}, MS with fixed knots {wide:.4f}",
        wide > max(spread["BS"], spread["IS"]),
    )
    stable = float(table[table["method"] == "MS-Grad-U"]["sd"].mean())
    yield Claim(
        "5",
        "the larger spread is not seen for MS-Grad-U",
        f"{stable:.4f} beside {wide:.4f} with fixed knots",
        stable < wide,
    )


def illustration_claims() -> Iterator[Claim]:
    """Check the two illustrations of PLE and B-splines with linear models, by their scores against the truth."""
    scores = illustration_scores()
    smooth, sharp = scores["regression"], scores["classification"]
    yield Claim(
        "4.4, Fig. 6a",
        "a smooth curve: the B-spline fit is closer than that of PLE",
        f"NRMSE against the noiseless target: BS-U {smooth.loc['BS-U', 'NRMSE']:.4f}, PLE "
        f"{smooth.loc['PLE', 'NRMSE']:.4f}",
        bool(smooth.loc["BS-U", "NRMSE"] < smooth.loc["PLE", "NRMSE"]),
    )
    gaps = {name: abs(sharp.loc["PLE", name] - sharp.loc["BS-U", name]) for name in ("AUC", "Brier score")}
    is_tie = max(gaps.values()) < TIE
    better = {sharp["Brier score"].idxmin(), sharp["AUC"].idxmax()}
    yield Claim(
        "4.4, Fig. 6b",
        "sharp boundaries of classes: PLE is closer than B-splines",
        "expected scores for the true probabilities, PLE and BS-U: "
        + "; ".join(f"{name} {sharp.loc['PLE', name]:.4f} and {sharp.loc['BS-U', name]:.4f}" for name in gaps)
        + (f": a tie, they differ by less than {TIE}" if is_tie else ""),
        None if is_tie or len(better) > 1 else better == {"PLE"},
    )


def illustration_scores() -> dict[str, pd.DataFrame]:
    """Return the scores of the fits against the true curves by task: a row for each method."""
    frame, curves = load("illustration"), load_curves(HERE)
    rows: dict[str, dict[str, dict[str, float]]] = {task: {} for task in TASKS}
    for network in frame.itertuples():
        curve = curves[curves["key"] == network.key].sort_values("x")
        truth = TRUTHS[network.dataset](curve["x"].to_numpy(dtype=float))
        rows[network.task][network.method] = noiseless_scores(network.task, truth, curve["value"].to_numpy(dtype=float))
    return {task: pd.DataFrame.from_dict(scores, orient="index") for task, scores in rows.items()}
