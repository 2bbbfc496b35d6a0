"""MLPs trained to the end at a learning rate chosen on validation rows: sections of docs/findings.md."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from inference import mlp_table
from questions import (
    SCALED,
    change_cells,
    is_trained,
    knot_cells,
    load,
    not_trained,
    paragraph,
    rounding_floor,
    table_head,
)
from scipy import stats

from knotwork.study import load_plan

PLAN, KNOTS = "converged", "converged-knots"
SAME_RATE = "1e-3"
"""Variant of `PLAN` with the learning rate of `KNOTS`."""
LEARNED = {"BS-Grad-U": "BS-U", "IS-Grad-U": "IS-U"}
PAIR = ["dataset", "method"]


def protocol() -> pd.DataFrame:
    """Return the MLPs of the paper's protocol on the data sets and with the encodings of the plan."""
    plan, frame = load_plan(PLAN), load("paper-mlp")
    sizes = frame["size"].isna() | frame["size"].isin(plan.sizes)
    return frame[frame["dataset"].isin(plan.names) & frame["method"].isin(plan.methods) & sizes]


def complete(frame: pd.DataFrame, n_networks: int) -> pd.DataFrame:
    """Return the folds of data sets in which all networks are trained."""
    counts = frame.groupby(["dataset", "fold"])["key"].transform("size")
    return frame[counts == n_networks]


def chosen(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the networks at the learning rate with the best mean validation score, by data set and method."""
    means = frame.groupby([*PAIR, "variant"])["valid_score"].mean()
    best = means.groupby(level=PAIR).idxmin().map(lambda place: place[2]).rename("variant").reset_index()
    return frame.merge(best, on=[*PAIR, "variant"])


def trained() -> pd.DataFrame:
    """Return the networks of the plan, in folds in which all are trained."""
    plan = load_plan(PLAN)
    return complete(load(PLAN), len(plan.methods) * len(plan.variants))


def protocol_and_converged() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the networks of the paper's protocol and those at their chosen learning rates, in the same folds."""
    frame = trained()
    return protocol().merge(frame[["dataset", "fold"]].drop_duplicates(), on=["dataset", "fold"]), chosen(frame)


def above_encodings(frame: pd.DataFrame) -> "pd.Series[float]":
    """Return the logarithm of the error of Std over the mean error of the encodings, by data set."""
    logs = np.log(scores(frame))
    return logs["Std"] - logs.drop(columns=list(SCALED)).mean(axis=1)


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean NRMSE over folds: one row per data set, one column per method."""
    return frame.pivot_table(index="dataset", columns="method", values="score")


def rank_correlation(one: pd.DataFrame, other: pd.DataFrame, repeats: int = 2000) -> tuple[float, float, float]:
    """Return Spearman's correlation of average ranks, with a 95 % interval: data sets drawn with replacement."""
    sides = [frame.loc[one.index, one.columns].rank(axis=1).to_numpy() for frame in (one, other)]
    random = np.random.default_rng(0)
    drawn = random.integers(len(one), size=(repeats, len(one)))
    places = [stats.rankdata(side[drawn].mean(axis=1), axis=1) for side in sides]
    both = [float(np.corrcoef(*pair)[0, 1]) for pair in zip(*places, strict=True)]
    value = stats.spearmanr(sides[0].mean(axis=0), sides[1].mean(axis=0)).statistic
    return float(value), *map(float, np.percentile(both, [2.5, 97.5]))


def written(correlation: tuple[float, float, float]) -> str:
    """Return a correlation with its interval."""
    return f"{correlation[0]:.2f} ({correlation[1]:.2f} to {correlation[2]:.2f})"


def at_limit(frame: pd.DataFrame, limit: int) -> str:
    """Return the share of networks that trained for all epochs."""
    return f"{(frame['epochs'] >= limit).mean():.0%}"


def converged() -> Iterator[str]:
    """Compare the order of the methods with that of the paper's protocol."""
    yield "## Does the order of the methods survive training to the end?\n"
    if not is_trained(PLAN):
        yield not_trained(PLAN)
        return
    plan, usual, frame = load_plan(PLAN), protocol(), trained()
    places = frame[["dataset", "fold"]].drop_duplicates()
    same, best = protocol_and_converged()
    n_sets, folds = frame["dataset"].nunique(), places.groupby("dataset").size()
    limit, stop = plan.config.max_epochs, load_plan("paper-mlp").config.max_epochs
    counted = " to ".join(str(number) for number in dict.fromkeys([folds.min(), folds.max()]))
    yield paragraph(f"""
        The paper's MLP stops after {stop} epochs, where {at_limit(usual, stop)} of the regressions at
        size 15 are still being trained. Here the same networks train for up to {limit:,} epochs with the paper's
        patience and schedule, at {len(plan.variants)} learning rates ({", ".join(map(str, plan.variant_names))}; the
        paper has 1e-4): {len(frame):,} MLPs, {n_sets} data sets, {counted} folds. For each data
        set and method, the rate with the best mean validation score is taken. Change: of NRMSE compared with the
        protocol in the same folds, as percent, with 95 % intervals (t) over data sets, and the number of data sets with
        more error.""")
    yield from method_table(best, same)
    yield "\n" + paragraph(limits(frame, best, limit))
    yield paragraph(order(best, same, usual))
    yield paragraph(differences(best, same))


def method_table(best: pd.DataFrame, same: pd.DataFrame) -> Iterator[str]:
    """Return average ranks both ways, changes of error, and chosen rates by method."""
    names = [str(name) for name in load_plan(PLAN).variant_names]
    yield from table_head(
        f"method | rank, protocol | rank, converged | change | interval | worse | {' | '.join(names)} | epochs"
    )
    ranks = [scores(frame).rank(axis=1).mean() for frame in (same, best)]
    gaps = np.log(scores(best)) - np.log(scores(same))
    counts = best.drop_duplicates(PAIR).groupby(["method", "variant"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=names, fill_value=0)
    for method in ranks[1].sort_values().index:
        cells = [f"{side[method]:.1f}" for side in ranks] + change_cells(gaps[method])
        cells += [str(counts.loc[method, name]) for name in names]
        cells.append(f"{best.loc[best['method'] == method, 'epochs'].mean():.0f}")
        yield f"| {method} | " + " | ".join(cells) + " |"


def limits(frame: pd.DataFrame, best: pd.DataFrame, limit: int) -> str:
    """Return the shares of networks that were still being trained at the end."""
    names = load_plan(PLAN).variant_names
    by_rate = ", ".join(f"{name} {at_limit(frame[frame['variant'] == name], limit)}" for name in names)
    slowest = best.groupby("dataset")["epochs"].mean().sort_values(ascending=False)
    choices = best.drop_duplicates(PAIR)
    at_edge = choices[choices["variant"] == names[-1]]
    most = at_edge["method"].value_counts()
    edges = " and ".join(f"{name} {count} of {choices['dataset'].nunique()}" for name, count in most.head(2).items())
    return f"""
        Still at the limit of {limit:,} epochs: {at_limit(best, limit)} of the chosen networks; by rate: {by_rate}. The
        longest trainings are on {slowest.index[0]} ({slowest.iloc[0]:.0f} epochs on average) and {slowest.index[1]}
        ({slowest.iloc[1]:.0f}). {len(at_edge) / len(choices):.0%} of the chosen rates are the largest one,
        {names[-1]} ({edges}): a still larger one might be better for these methods, so that they are rather at a
        disadvantage here."""


def order(best: pd.DataFrame, same: pd.DataFrame, usual: pd.DataFrame) -> str:
    """Return the correlation of the ranks, beside that of the protocol with itself in other folds."""
    encodings = [name for name in load_plan(PLAN).methods if name not in SCALED]
    new, old = scores(best), scores(same)
    rest = usual.merge(same[["dataset", "fold"]].drop_duplicates(), how="left", indicator=True)
    again = scores(rest[rest["_merge"] == "left_only"]) if (rest["_merge"] == "left_only").any() else old
    first = [frame.rank(axis=1).mean().idxmin() for frame in (old, new)]
    places = [int(frame.rank(axis=1).mean().rank()["Std"]) for frame in (old, new)]
    alone = pd.Series({name: stats.spearmanr(old.loc[name], new.loc[name]).statistic for name in new.index})
    between = [written(rank_correlation(old[names], new[names])) for names in (new.columns, encodings)]
    within = [written(rank_correlation(old[names], again[names])) for names in (new.columns, encodings)]
    return f"""
        Spearman's correlation of the average ranks of all methods, protocol and converged: **{between[0]}**; without
        Std and MinMax {between[1]}. The protocol with itself, these folds beside the other ones: {within[0]},
        {within[1]}. Intervals: 95 %, data sets drawn with replacement. On single data sets, the two orders correlate by
        {alone.min():.2f} to {alone.max():.2f} (mean {alone.mean():.2f}). Best: {first[0]} with the protocol,
        {first[1]} if converged; Std is at place {places[0]} and {places[1]} of {len(new.columns)}."""


def differences(best: pd.DataFrame, same: pd.DataFrame) -> str:
    """Return how many methods differ significantly both ways, and how far plain scaling is from the encodings."""
    tables = [mlp_table(frame) for frame in (same, best)]
    pairs = [int(table.differ.sum()) // 2 for table in tables]
    k = len(tables[0].methods)
    above, spread = [], []
    for frame in (same, best):
        above.append(change_cells(above_encodings(frame))[0])
        encodings = np.log(scores(frame)).drop(columns=list(SCALED))
        spread.append(100 * np.expm1(encodings.max(axis=1) - encodings.min(axis=1)).median())
    n_averaged = round(len(best) / best.groupby(PAIR).ngroups)
    floor = rounding_floor("mlp", ("regression",), n_sets=best["dataset"].nunique(), n_averaged=n_averaged)
    fewer = "Fewer methods differ" if pairs[1] < pairs[0] else "As many methods differ, or more,"
    return f"""
        {fewer} significantly over data sets if they are trained to the end (signed ranks, Holm, the same folds):
        {pairs[0]} of {k * (k - 1) // 2} pairs with the protocol, {pairs[1]} converged. The error of Std is
        {above[0]} compared with the mean of the {k - 2} encodings with the protocol, and {above[1]} converged; from the
        best to the worst encoding it grows by {spread[0]:.1f} % on the median data set with the protocol, and by
        {spread[1]:.1f} % converged. [Rounding](#the-noise-of-training) alone gives differences of up to {floor} between
        two methods here, with a probability of 95 %."""


def converged_knots() -> Iterator[str]:
    """Compare settings of learned knots in networks that are trained to the end."""
    yield "## Learned knots, trained to the end\n"
    if not is_trained(PLAN) or not is_trained(KNOTS):
        yield not_trained(KNOTS)
        return
    plan = load_plan(KNOTS)
    frame = complete(load(KNOTS), len(plan.methods) * len(plan.variants))
    base = trained()
    errors = np.log(scores(chosen(base)))
    gains = [f"{name} {' ('.join(change_cells(errors[name] - errors[fixed])[:2])})" for name, fixed in LEARNED.items()]
    yield paragraph(f"""
        Error of learned knots compared with the same knots fixed, each at its chosen learning rate, over data sets:
        {"; ".join(gains)}. One setting at a time, at the learning rate {SAME_RATE}: {len(frame):,} MLPs,
        {frame["dataset"].nunique()} data sets. The first row has the paper's rate, penalty (1e-4) and our least spacing
        (1e-3), with knots that learn at once; each other row changes one setting. Change: of NRMSE compared with the
        same knots fixed, at the same learning rate and in the same folds. Moved and shift: as above. Rounding alone
        gives the differences of the section above.""")
    yield from table_head("method | setting | moved | shift, % | change | interval | worse | epochs")
    same_rate = base[base["variant"] == SAME_RATE]
    for method, fixed in LEARNED.items():
        beside = same_rate[same_rate["method"] == fixed].set_index(["dataset", "fold"])["score"]
        for variant in plan.variant_names:
            rows = frame[(frame["method"] == method) & (frame["variant"] == variant)]
            ratio = np.log(rows.set_index(["dataset", "fold"])["score"]) - np.log(beside)
            cells = change_cells(ratio.dropna().groupby(level="dataset").mean())
            yield f"| {method} | {variant} | {knot_cells(rows)} | {' | '.join(cells)} | {rows['epochs'].mean():.0f} |"
    yield ""
