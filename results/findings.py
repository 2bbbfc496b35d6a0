"""Write docs/findings.md, "What we found", from the records in this folder: every number in it is computed here.

    python results/findings.py

Nothing is trained. `make paper-tables` runs it after the report.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from knotwork.encoders import METHOD_TABLE
from knotwork.stats import critical_difference

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for tests, which run this file without its folder on the path

from advice import advice_section  # noqa: E402 - needs the line above
from benchmark_claims import Benchmark  # noqa: E402 - needs the line above
from comparison import PAPER_PROBLEMS  # noqa: E402 - needs the line above
from converged import above_encodings, converged, converged_knots, protocol_and_converged  # noqa: E402 - needs the line above
from inference import (  # noqa: E402 - needs the line above
    SEEDS,
    both_ways,
    mlp_table,
    noise_table,
    random_seeds,
    seed_gains,
    with_repeats,
)
from questions import (  # noqa: E402 - needs the line above
    GAIN_HEAD,
    GAIN_WORDS,
    SIZES,
    TASKS,
    Gain,
    ablation,
    ablation_correlation,
    ablation_grid,
    averages,
    change_cells,
    clear_gains,
    correlation,
    efficiency,
    error_change,
    gain_rows,
    gains,
    gains_of_variant,
    knot_cells,
    largest_cost,
    leaders,
    listed_counts,
    load,
    main_benchmark,
    paper_ranks,
    paper_tables,
    paragraph,
    ranks_by_problem,
    rates,
    shift_of,
    significant,
    starts,
    table_head,
    token_parameters,
    within_methods,
)
from token_kinds import token_pairs, tokens  # noqa: E402 - needs the line above
from token_sizes import all_changes, answer, token_sizes, with_interval  # noqa: E402 - needs the line above
from training_claims import deteriorating  # noqa: E402 - needs the line above

PAGE = HERE.parent / "docs" / "findings.md"
PLAIN_STEP = {"mlp": 1926e-6, "resnet": 3118e-6, "ft feature": 6186e-6}
"""Seconds of a step of one network in an ordinary torch loop on the H200, size 30, on the first of several machines
(benchmarks/README.md, "Training stacks of networks")."""


def drawn_correlations(
    ranks: pd.DataFrame, theirs: "pd.Series[float]", repeats: int = 2000
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return correlations with the paper's ranks for data sets drawn with replacement, each with all its networks.

    The draws of a task are the same for all sizes, so that correlations can be averaged draw by draw.
    """
    random = np.random.default_rng(0)
    groups = ranks.groupby(level="dataset")
    sums, counts = groups.sum()[theirs.index].to_numpy(), groups.size().to_numpy()
    drawn = random.integers(len(sums), size=(repeats, len(sums)))
    places = stats.rankdata(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)[:, None], axis=1)
    return np.corrcoef(np.vstack([stats.rankdata(theirs), places]))[0, 1:]


def middle(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> str:
    """Return the range of the central 95 % of numbers."""
    low, high = np.percentile(values, [2.5, 97.5])
    return f"{low:.2f} to {high:.2f}"


def agreement(frame: pd.DataFrame) -> Iterator[str]:
    """Compare average ranks with the paper's."""
    networks = sorted(frame["network"].unique())
    yield "## Average ranks beside the paper's\n"
    yield paragraph(f"""
        Spearman's correlation of our average ranks of the 14 methods with the paper's, which are over its three
        backbones (here: {", ".join(networks)}). Intervals: 95 %, data sets drawn with replacement, each with all its
        networks.""")
    yield from table_head(
        f"task | size | all | interval | {' | '.join(networks)} | best here | paper's best, its place here"
    )
    values, inner, drawn = [], [], []
    alone: dict[str, list[float]] = {network: [] for network in networks}
    for task in TASKS:
        for size in SIZES:
            ranks, theirs = ranks_by_problem(frame, task, size), paper_ranks(task)[f"m{size}"]
            values.append(correlation(ranks, theirs))
            inner.append(correlation(ranks, theirs.drop(["Std", "MinMax"])))
            drawn.append(drawn_correlations(ranks, theirs))
            for network in networks:
                alone[network].append(correlation(ranks.loc[[network]], theirs))
            order = list(ranks.mean().sort_values().index)
            best = theirs.idxmin()
            single = " | ".join(f"{alone[network][-1]:.2f}" for network in networks)
            yield (
                f"| {task} | {size} | {values[-1]:.2f} | {middle(drawn[-1])} | {single} | {order[0]} "
                f"| {best}, {order.index(best) + 1} of {len(order)} |"
            )
    means = ", ".join(f"{network} {np.mean(each):.2f}" for network, each in alone.items())
    yield "\n" + paragraph(f"""
        Mean over the six settings: **{np.mean(values):.2f}** over all backbones; {means}. Data sets drawn with
        replacement give {middle(np.mean(drawn, axis=0))} for the first (median
        {np.median(np.mean(drawn, axis=0)):.2f}: with fewer different data sets agreement is lower). Without Std and
        MinMax, which are easy to place, it is {np.mean(inner):.2f}. Our aim before training: about 0.75 or more.""")


def ends(frame: pd.DataFrame) -> Iterator[str]:
    """Check whether PLE leads classification, and whether plain scaling is last."""
    yield paragraph("""
        **The paper's two claims that are easy to check**: PLE leads classification, Std and MinMax are at the bottom. A
        problem is a data set with a backbone. The first clique contains the methods that are not significantly worse
        than the best: their average ranks differ from its rank by less than the critical difference (Nemenyi, 5 %).
        Places: here, and in the paper in brackets.""")
    yield from table_head("task | size | problems | critical difference | first clique | PLE | Std | MinMax")
    orders = list(leaders(frame))
    for setting in orders:
        theirs = list(paper_ranks(setting.task)[f"m{setting.size}"].sort_values().index)
        places = " | ".join(
            f"{setting.names.index(name) + 1} ({theirs.index(name) + 1})" for name in ("PLE", "Std", "MinMax")
        )
        yield (
            f"| {setting.task} | {setting.size} | {setting.n_problems} | {setting.gap:.2f} "
            f"| {', '.join(setting.first)} | {places} |"
        )
    classes = [setting for setting in orders if setting.task == "classification"]
    yield "\n" + paragraph(f"""
        PLE is in the first clique of classification at {sum("PLE" in setting.first for setting in classes)} of
        {len(classes)} sizes, together with {listed_counts([len(setting.first) - 1 for setting in classes])} other
        methods.""")


def places(frame: pd.DataFrame, network: str, method: str) -> str:
    """Return the places of a method in regression with one backbone, size by size."""
    orders = [ranks_by_problem(frame, "regression", size).loc[[network]].mean().sort_values().index for size in SIZES]
    return ", ".join(str(list(order).index(method) + 1) for order in orders)


def influence(frame: pd.DataFrame) -> Iterator[str]:
    """Describe the lowest correlation of each backbone, and the data set that it depends on."""
    yield paragraph("""
        **Where agreement is lowest.** The lowest correlation of each backbone alone; the same without Std and MinMax,
        and without the one data set that lowers it most; our average ranks of the 12 encodings in this setting, and the
        critical difference between two of them (Nemenyi, 5 %).""")
    yield from table_head(
        "backbone | setting | correlation | without Std, MinMax | without one data set | our ranks, 12 encodings "
        "| critical difference | Std's place"
    )
    for network in sorted(frame["network"].unique()):
        settings = {
            (task, size): ranks_by_problem(frame, task, size).loc[[network]] for task in TASKS for size in SIZES
        }
        values = {key: correlation(ranks, paper_ranks(key[0])[f"m{key[1]}"]) for key, ranks in settings.items()}
        task, size = min(values, key=lambda key: values[key])
        ranks, theirs = settings[task, size], paper_ranks(task)[f"m{size}"]
        without = {
            str(name): correlation(ranks.drop(index=name, level="dataset"), theirs)
            for name in ranks.index.get_level_values("dataset")
        }
        most = max(without, key=lambda name: without[name])
        inner = theirs.drop(["Std", "MinMax"])
        mean, gap = ranks.mean(), critical_difference(len(theirs), len(ranks))
        yield (
            f"| {network} | {task}, {size} | {values[task, size]:.2f} | {correlation(ranks, inner):.2f} "
            f"| {without[most]:.2f} ({most}) | {mean[inner.index].min():.1f} to {mean[inner.index].max():.1f} "
            f"| {gap:.1f} | {list(mean.sort_values().index).index('Std') + 1} |"
        )
    inner = paper_ranks("regression")["m15"].drop(["Std", "MinMax"])
    yield "\n" + paragraph(f"""
        Where ranks lie within the critical difference, their order is partly chance. In the paper, too, such encodings
        do not differ significantly: at size 15 of regression its ranks of the {len(inner)} encodings lie between
        {inner.min():.2f} and {inner.max():.2f}, with a critical difference of
        {critical_difference(14, PAPER_PROBLEMS["regression"]):.2f}. For the FT-Transformer, Std is at places
        {places(frame, "ft feature", "Std")} of regression at sizes 7, 15 and 30, MinMax at
        {places(frame, "ft feature", "MinMax")}, which averages over three backbones hide. The paper observes
        the same: with an FT-Transformer, Std "often remains competitive".""")


def learned_gains(frame: pd.DataFrame) -> dict[str, list[Gain]]:
    """Return the differences of learned knots from the same knots fixed, by the first cells of their rows."""
    rows = {}
    for network in sorted(frame["network"].unique()):
        part = frame[frame["network"] == network]
        for method in [name for name in METHOD_TABLE if METHOD_TABLE[name].learnable and name in set(frame["method"])]:
            head = f"{network} | {method} | {knot_cells(part[part['method'] == method])}"
            fixed = part["method"] == METHOD_TABLE[method].start
            rows[head] = gains(part, part["method"] == method, fixed) if fixed.any() else []
    return rows


def learned(frame: pd.DataFrame) -> Iterator[str]:
    """Describe how far learned knots move, and how much they gain."""
    yield "## Learned knots: do they move, and do they pay?\n"
    yield paragraph(f"""
        Knots start to move after 50 epochs (the paper's warm-up), and the best weights are kept. So knots have moved
        only in networks whose best epoch comes after that. Shift: how far a knot has moved on average, in percent of
        the range of its feature, in networks whose knots have moved. The other columns compare learned knots with the
        same knots fixed. {GAIN_WORDS}""")
    yield from table_head(f"backbone | method | moved | shift, % | {GAIN_HEAD}")
    yield from gain_rows(learned_gains(frame))
    yield "\nBy data set, the share of networks with learned knots that have moved, and the mean best epoch:\n"
    rows = frame[frame["method"].map(lambda name: METHOD_TABLE[name].learnable)]
    table = rows.assign(moved=rows["knots_moved"].astype(float)).pivot_table(
        index="dataset", columns="network", values=["moved", "best_epoch"], aggfunc="mean"
    )
    networks = sorted(frame["network"].unique())
    yield from table_head("data set | " + " | ".join(f"{network}: moved | best epoch" for network in networks))
    for dataset, row in table.iterrows():
        cells = [
            f"{row['moved', network]:.0%} | {row['best_epoch', network]:.0f}"
            if np.isfinite(row["moved", network])
            else "not trained | "
            for network in networks
        ]
        yield f"| {dataset} | " + " | ".join(cells) + " |"
    yield ""


def steps_of(part: pd.DataFrame) -> "pd.Series[float]":
    """Return the training steps that networks took."""
    return part["epochs"] * np.ceil(0.72 * part["n_rows"] / 512)


def device_seconds(part: pd.DataFrame) -> float:
    """Return the seconds in which at least one of these networks was being prepared, trained or scored."""
    total, end = 0.0, 0.0
    for start, stop in sorted(set(zip(part["started_at"], part["recorded_at"], strict=True))):
        total += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return total


def time(frame: pd.DataFrame) -> Iterator[str]:
    """Describe the duration of training, and that of training one network at a time."""
    yield "## Time\n"
    yield paragraph("""
        On one H200, compiling of kernels included. Seconds of training: by the records' clocks. On the card: from the
        start of a unit to its records, with loading and scoring, and counted once where two units shared the card, as
        most of the FT-Transformer's did; their clocks then show more than their training takes alone. One at a time:
        the steps that these networks took, times the duration of a step in an ordinary torch loop on the same card,
        with its encoding computed beforehand (`benchmarks/training.py`, size 30).""")
    yield from table_head(
        "backbone | networks | seconds of training | on the card "
        "| steps of one network, millions | one at a time, hours | ratio to the card"
    )
    for network, part in frame.groupby("network"):
        steps, seconds, card = float(steps_of(part).sum()), float(part["train_seconds"].sum()), device_seconds(part)
        alone = steps * PLAIN_STEP[str(network)]
        yield (
            f"| {network} | {len(part):,} | {seconds:,.0f} | {card:,.0f} | {steps / 1e6:.1f} "
            f"| {alone / 3600:.1f} | {alone / card:.0f} |"
        )
    yield ""


OTHER_DATA = """
    `loan_status` and `loan_type` were identified by their columns alone. `fifa_wage` lacks the feature `club_joined`;
    `club_contract_valid_until` stands in. `gamma` and `ipums` were rebuilt from their originals by the rules of the
    benchmark they come from. `sgemm` and `shuttle` are subsampled as in the paper, with our own random seed, and the
    target of `sgemm` is the first run. California's missing values are filled with those of the original."""
"""Differences of the data that rows and columns do not show."""

CONSTANTS = """
    **Constants that the paper does not give.** What NRMSE is divided by (here the standard deviation of the test
    target; ranks do not depend on it; in the ablation the range of the target); leaf sizes of the trees that place
    knots of splines; which quantiles are added where a tree gives too few knots; minimum spacing and penalty of
    learned knots; the number of rows of the ablation; values outside of the training range (clipped). All are in
    the plans and in the reference."""

READINGS = """
    **Readings of the protocol.** Where the paper allows several, we have these. Every block of the FT-Transformer
    normalises the input of its attention, the first one too, which the original network of Gorishniy and others
    (2021) leaves out. Knots from trees are chosen greedily: thresholds are taken by gain, the largest first, unless
    one is nearer than the minimum spacing to one that is taken; the paper states the two steps, spacing and choice
    by gain, but not which of two close thresholds stays. The layer norm of learned M-splines has no parameters:
    mean 0 and variance 1 for each block."""


def differences() -> Iterator[str]:
    """Describe what is known to differ from the paper before training."""
    tables, counts = paper_tables(), "numerical and categorical columns"
    rows = [
        f"`{name}` ({row['rows']:,}, in the paper {row['paper_rows']:,})"
        for name, row in tables[~tables["same_rows"]].iterrows()
    ]
    columns = [
        "`{}` ({} and {}, in the paper {} and {})".format(name, *row["columns"], *row["paper_columns"])
        for name, row in tables[~tables["same_columns"]].iterrows()
    ]
    tokens = token_parameters(SIZES[-1])
    yield "## What differs from the paper\n"
    yield paragraph(f"""
        **Data.** {len(tables)} tables of the same names. Rows differ from the paper's in {" and ".join(rows)}; the
        numbers of {counts} in {", ".join(columns[:-1])} and {columns[-1]}. {OTHER_DATA}""")
    yield paragraph(CONSTANTS)
    yield paragraph(READINGS)
    yield paragraph(f"""
        **The FT-Transformer.** The main table here has a token per feature. That the paper's has a token per
        encoded coordinate is an inference, from its slow training and its loss of quality at large sizes; the paper
        does not say it. Its parameter counts do not decide: networks have up to 1.13M parameters, while ours has
        {tokens["coordinate"]:,} on SGEMM at size {SIZES[-1]} with a token per coordinate, and {tokens["feature"]:,}
        with a token per feature. The effect of tokens at size {SIZES[0]}, and that of the size with a token per
        coordinate, are shown below.""")


def span(numbers: list[int]) -> str:
    """Return the smallest and the largest number, or the only one."""
    return f"{min(numbers)} to {max(numbers)}" if len(set(numbers)) > 1 else str(numbers[0])


def in_short(frame: pd.DataFrame) -> Iterator[str]:
    """Return the main results in a few lines."""
    values = [
        correlation(ranks_by_problem(frame, task, size), paper_ranks(task)[f"m{size}"])
        for task in TASKS
        for size in SIZES
    ]
    rows = frame[frame["method"].map(lambda name: METHOD_TABLE[name].learnable)]
    moved = rows.assign(moved=rows["knots_moved"].astype(float)).groupby("network")["moved"].mean()
    shifts = rows[rows["knots_moved"].astype(bool)].groupby(["network", "method"])["knot_shift"].mean()
    orders = list(leaders(frame))
    best = {task: ", ".join(setting.names[0] for setting in orders if setting.task == task) for task in TASKS}
    ple = sum("PLE" in setting.first for setting in orders if setting.task == "classification")
    places = {name: [setting.names.index(name) + 1 for setting in orders] for name in ("Std", "MinMax")}
    ple_places = [setting.names.index("PLE") + 1 for setting in orders if setting.task == "classification"]
    pays = learned_gains(frame)
    paid = [better for entry in significant(pays).values() for better in entry]
    yield "## In short\n"
    yield paragraph(f"""
        - The order of the methods is similar to the paper's: average ranks correlate with its tables by
        {np.mean(values):.2f} on average over task and size ({min(values):.2f} to {max(values):.2f}). Best at sizes 7,
        15 and 30: {best["regression"]} for regression; {best["classification"]} for classification, where PLE is in the
        first clique at {ple} of {len(SIZES)} sizes. Of 14 methods, Std is at place {span(places["Std"])}, MinMax at
        {span(places["MinMax"])}; PLE is at place {listed_counts(ple_places)} of classification, where it is first in
        the paper.""")
    yield paragraph(f"""
        - The grid of the ablation correlates by {ablation_correlation():.2f} with the paper's
        {len(ablation_grid())} values; the best configuration is {best_of_ablation()}. The order of the sizes of one
        method agrees less: {within_methods():.2f} on average.""")
    yield paragraph(unlike_the_paper())
    yield paragraph(f"""
        - Learned knots move if early stopping leaves time for it: in {moved["mlp"]:.0%} of the MLPs,
        {moved["resnet"]:.0%} of the ResNets and {moved["ft feature"]:.0%} of the FT-Transformers. Where they move,
        it is by {100 * shifts.min():.1f} to {100 * shifts.max():.1f} % of a feature's range with the paper's rate
        (means of backbones and methods). Their error beside that of the same knots fixed changes by
        {error_change(gain for entry in pays.values() for gain in entry)}, on average over data sets, a significant
        improvement in {sum(paid)} of {len(paid)} comparisons (backbones, methods, tasks).
        {seeds_in_short()} Trained from the first epoch on, the error changes by
        {error_change(gains_of_variant("rate 2, at once"))} compared with the paper's warm-up, a significant improvement
        in {clear_gains("rate 2, at once")} comparisons (methods, tasks). With five times the rate as well knots move
        {shift_of("rate 10, at once") / shift_of("rate 2, after 50 epochs"):.0f} times as far as with the paper's
        training, and the error changes by {error_change(gains_of_variant("rate 10, at once"))}, significant in
        {clear_gains("rate 10, at once")}.""")
    yield paragraph(converged_in_short())
    yield paragraph(f"""
        - Cost of learned knots: at size 30, for a network that is trained alone, the largest ratio of the time per
        epoch to that with the same knots fixed is, by backbone: {largest_cost()}.""")
    yield from tokens_in_short()


def best_of_ablation() -> str:
    """Return whether the best configuration of the ablation is that of the paper."""
    grid = ablation_grid()
    best, theirs = (grid.loc[grid[column].idxmin()] for column in ("mean", "nrmse_mean"))
    names = [f"{each['method']}@{each['size']:.0f}" for each in (best, theirs)]
    return f"the same, {names[0]}" if names[0] == names[1] else f"{names[0]}, in the paper {names[1]}"


def seeds_in_short() -> str:
    """Return what further random seeds show of learned knots."""
    rows = seed_gains(with_repeats(load(SEEDS)))
    words = {True: "significantly better", False: "not significantly different"}
    parts = [
        f"{row.method} {100 * row.gain.relative:+.2f} % ({row.gain.score}, {words[row.is_better]})" for row in rows
    ]
    return f"With three random seeds, for the MLP at size 15: {', '.join(parts)}."


def converged_in_short() -> str:
    """Return what training to the end changes."""
    before, after = protocol_and_converged()
    tables = [mlp_table(part) for part in (before, after)]
    pairs, k = [int(table.differ.sum()) // 2 for table in tables], len(tables[0].methods)
    gaps = [change_cells(above_encodings(part))[0] for part in (before, after)]
    return f"""
        - Regression with an MLP depends on how long it is trained. Of {k * (k - 1) // 2} pairs of methods {pairs[0]}
        differ significantly over data sets with the paper's protocol, and {pairs[1]} if they are trained to the end at
        a learning rate chosen on validation rows; the error of Std is {gaps[0]} and {gaps[1]} compared with the mean of
        the encodings ([more](#does-the-order-of-the-methods-survive-training-to-the-end))."""


def unlike_the_paper() -> str:
    """Return sentences on statements of the paper that our records contradict or do not show."""
    study = Benchmark()
    tables = [each.means["regression", "ft feature"] for each in (study, study.divided_by("target_mean"))]
    lower = [int((table.loc["PLE"] < table.loc["Std"]).sum()) for table in tables]
    cells = [
        table[size].idxmax() for (task, _), table in study.means.items() if task == "classification" for size in SIZES
    ]
    worse = deteriorating()
    return f"""
        - Statements of the paper that our records do not confirm are marked [claim by claim](paper_claims.md), among
        them these. PLE has the highest mean AUC in {cells.count("PLE")} of {len(cells)} cells of backbone and size, in
        the paper in all. Others cannot be told. Of {worse.number} M-splines with fixed knots, which often become worse
        with the size in the paper, {worse.on_average} have more error at size 50 than at 5 on average, and
        {worse.significantly} significantly. Some depend on what NRMSE is divided by, which the paper does not give:
        with an FT-Transformer, PLE has a lower mean NRMSE than Std at {lower[0]} of {len(SIZES)} sizes if the divisor
        is the standard deviation of the target, as here, and at {lower[1]} if it is its mean; in the paper at
        none."""


def tokens_in_short() -> Iterator[str]:
    """Describe which kind of tokens is better."""
    pairs = token_pairs()
    verdicts = [pair.verdict for pair in pairs]
    yield paragraph(f"""
        - For an FT-Transformer at size 7, a token per feature is better than a token per encoded coordinate, which
        the paper's probably has, on {verdicts.count(-1)} of {len(pairs)} small data sets, and worse on
        {verdicts.count(1)}; on the others the difference is not significant. It has a seventh of the tokens.""")
    changes = all_changes()["coordinate", 30].of("splines")
    yield paragraph(f"""
        - With a token per coordinate, do splines become worse from size 7 to 30? {answer(changes).capitalize()}. The
        error of three of them changes by {with_interval(changes)} on average over {len(changes)} small data sets
        ([more](#with-a-token-per-coordinate-do-splines-become-worse-with-size)).""")


def pictures(name: str, words: str) -> Iterator[str]:
    """Show a figure of the report, which results/report.py has put into the guide, for light and for dark pages."""
    yield f"![{words}](images/{name}.svg#only-light)\n![{words}](images/{name}_dark.svg#only-dark)\n"


def page() -> str:
    """Return the page."""
    frame = main_benchmark()
    n_sets = frame["dataset"].nunique()
    head = [
        "# What we found\n",
        "<!-- Written by results/findings.py from the records in results/. Do not edit. -->\n",
        paragraph(f"""
            The paper's experiments, trained again by this library. Main benchmark: {len(frame):,} networks,
            {n_sets} data sets, 14 methods, sizes 7, 15 and 30, 5 folds, MLP, ResNet and FT-Transformer. [The
            report](paper/report.html) has all ranks, scores, times and figures; the records are in `results/`, and
            `make paper-tables` writes the tables and figures as files. [The paper, claim by
            claim](paper_claims.md), has a verdict on each of its statements that these records can check."""),
        paragraph("""
            Was anything chosen to agree with the paper? In the main benchmark nothing: constants that the paper
            does not give are ours. In the ablation two were: the number of rows, because of four it gave the order
            that is most like the paper's, and the divisor of NRMSE, because the range of the target gives the
            values nearest to the paper's. [There](#the-ablation-beside-the-papers) is what the others give."""),
    ]
    parts = [
        pictures("opening", "Average ranks by size"), in_short(frame), differences(),
        pictures("paper_agreement", "Average ranks here against the paper's"), agreement(frame), ends(frame),
        influence(frame), both_ways(frame), averages(frame), ablation(), learned(frame), starts(), rates(),
        noise_table(), random_seeds(), tokens(), token_sizes(), converged(), converged_knots(), advice_section(),
        efficiency(), time(frame),
    ]  # fmt: skip
    return "\n".join([*head, *(line for part in parts for line in part)]).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
