"""Claims of the paper on its main benchmark, each with our numbers and a verdict; `claims.py` joins them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd
from questions import (
    HERE,
    SCALED,
    SIZES,
    TASKS,
    Leaders,
    correlation,
    leaders,
    listed_counts,
    main_benchmark,
    mean_interval,
    paper_ranks,
    paper_tables,
    quoted_averages,
    ranks_by_problem,
)

from knotwork.encoders import METHOD_TABLE
from knotwork.stats import friedman

NETWORKS = {"mlp": "MLP", "resnet": "ResNet", "ft feature": "FT-Transformer"}
NEAR_BOTTOM = 11
"""From this place of 14 on a method is near the bottom: the paper says so of its Std, which is at 11 at the best."""
STRONGEST = 3
"""Up to this place of 14 a method is among the strongest."""
SAME_AUC = 0.01
"""Mean AUCs that differ by less than this are those of the paper."""
SAME_SHARE = 0.1
"""Shares of classes, in percent, that differ by less than this are those of the paper."""
OTHER_DIVISORS = {"range": "target_range", "mean": "target_mean"}
"""What NRMSE may be divided by instead of the standard deviation of the test target; the paper does not give it."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it is, our numbers, and whether they have the same property (None: unknown)."""

    where: str
    text: str
    ours: str
    holds: bool | None
    by_divisor: bool = False
    """Whether the verdict depends on what NRMSE is divided by."""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return {True: "confirmed", False: "not confirmed", None: "cannot be told"}[self.holds]

    @property
    def line(self) -> str:
        """The row of the table."""
        return f"| {self.text} | {self.where} | {self.ours} | {self.verdict} |"


class Benchmark:
    """The main benchmark: mean scores as in the paper's heatmaps, average ranks, and places of methods."""

    def __init__(self) -> None:
        self.folder = HERE
        self.frame = main_benchmark()

    def divided_by(self, column: str) -> "Benchmark":
        """Return the same networks with the NRMSE of another divisor, a column of the records."""
        other, is_regression = Benchmark(), self.frame["task"] == "regression"
        nrmse = self.frame["rmse"] / self.frame[column].abs()
        other.frame = self.frame.assign(score=nrmse.where(is_regression, self.frame["score"]))
        return other

    @cached_property
    def orders(self) -> dict[tuple[str, int], Leaders]:
        """The order of the methods by task and size, over all backbones."""
        return {(entry.task, entry.size): entry for entry in leaders(self.frame)}

    @cached_property
    def means(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Mean scores over data sets by task and network: a row per method, a column per size."""
        by = ["task", "network", "method", "size"]
        sets = self.frame.assign(size=self.frame["size"].astype(float)).groupby([*by, "dataset"], dropna=False)["score"]
        wide = sets.mean().groupby(level=by, dropna=False).mean().unstack("size")
        plain = wide[np.nan]
        filled = wide[list(map(float, SIZES))].apply(lambda column: column.fillna(plain)).set_axis(SIZES, axis=1)
        return {(task, network): filled.loc[task, network] for task in TASKS for network in NETWORKS}

    def ranks(self, task: str, size: int, network: str | None = None) -> "pd.Series[float]":
        """Return average ranks, over all backbones or with one."""
        problems = ranks_by_problem(self.frame, task, size)
        return (problems if network is None else problems.loc[[network]]).mean()

    def places(self, task: str, method: str, network: str | None = None) -> list[int]:
        """Return the places of a method by average rank, size by size."""
        orders = [list(self.ranks(task, size, network).sort_values().index) for size in SIZES]
        return [order.index(method) + 1 for order in orders]

    def improvement(self, task: str, network: str, sizes: tuple[int, int]) -> "pd.Series[float]":
        """Return how much better the mean score of each method is at the second size; positive is better."""
        table = self.means[task, network]
        return (table[sizes[1]] - table[sizes[0]]) * (-1 if task == "regression" else 1)

    def above(self, task: str, network: str, than: str) -> pd.DataFrame:
        """Return whether mean scores are better than those of a method, by method and size."""
        table = self.means[task, network]
        return table.lt(table.loc[than]) if task == "regression" else table.gt(table.loc[than])

    def advantage(self, network: str) -> tuple[float, float, float]:
        """Return how much more splines with knots from trees or learned gain from size 7 to 30 of regression.

        The others have uniform or quantile knots. The mean and its 95 % interval are over data sets.
        """
        part = self.frame[(self.frame["network"] == network) & (self.frame["task"] == "regression")]
        part = part[part["method"].str.match("BS-|IS-|MS-") & part["size"].isin([7, 30])].astype({"size": int})
        wide = part.pivot_table(index=["dataset", "method"], columns="size", values="score")
        gain = (wide[7] - wide[30]).unstack("method")
        aware = [METHOD_TABLE[name].learnable or METHOD_TABLE[name].supervised for name in gain.columns]
        return mean_interval(gain.loc[:, aware].mean(axis=1) - gain.loc[:, np.logical_not(aware)].mean(axis=1))

    @cached_property
    def gains(self) -> "pd.Series[float]":
        """The error over that of Std (NRMSE, or 1 - AUC) by task and network: the median over data sets.

        Of a data set it is the geometric mean over 12 encodings and 3 sizes.
        """
        part = self.frame
        error = part["score"].where(part["task"] == "regression", 1 - part["score"])
        by = ["task", "network", "dataset"]
        logs = np.log(part.assign(error=error).groupby([*by, "method", "size"], dropna=False)["error"].mean())
        plain = logs.xs("Std", level="method").droplevel("size")
        encoded = logs[~logs.index.get_level_values("method").isin(SCALED)]
        ratios = encoded - plain.reindex(encoded.index.droplevel(["method", "size"])).to_numpy()
        return np.exp(ratios.groupby(level=by).mean().groupby(level=["task", "network"]).median())


def with_all_divisors(study: Benchmark, *parts: Callable[[Benchmark], Iterator[Claim]]) -> Iterator[Claim]:
    """Yield the claims of some parts; one that another divisor of NRMSE gives another verdict cannot be told."""
    others = {name: study.divided_by(column) for name, column in OTHER_DIVISORS.items()}
    for part in parts:
        again = {name: list(part(other)) for name, other in others.items()}
        for place, claim in enumerate(part(study)):
            unlike = {name: claims[place].ours for name, claims in again.items() if claims[place].holds != claim.holds}
            if not unlike:
                yield claim
                continue
            words = "; ".join(
                f"if NRMSE is divided by the {name} of the target: {ours}" for name, ours in unlike.items()
            )
            yield replace(claim, ours=f"{claim.ours}; {words}", holds=None, by_divisor=True)


def numbers(values: Iterable[float], digits: int = 2) -> str:
    """Return numbers separated by commas."""
    return ", ".join(f"{value:.{digits}f}" for value in values)


def splines(table: pd.DataFrame, *prefixes: str) -> pd.DataFrame:
    """Return the rows of methods that begin with one of the prefixes, by default all splines."""
    chosen = prefixes or ("BS-", "IS-", "MS-")
    return table[[str(name).startswith(chosen) for name in table.index]]


def sizes_of_study(study: Benchmark) -> Iterator[Claim]:
    """Check the counts of the study."""
    tables, frame = paper_tables(), study.frame
    n_sets = frame.groupby("task")["dataset"].nunique()
    yield Claim(
        "4.1; B",
        "25 data sets, 13 of regression and 12 of classification",
        f"{n_sets.sum()}: {n_sets['regression']} and {n_sets['classification']}",
        n_sets["regression"] == 13 and n_sets["classification"] == 12,
    )
    one = len(frame[frame["size"].isna() | (frame["size"] == SIZES[0])])
    yield Claim(
        "4.1",
        "the benchmark has 5,250 training runs",
        f"{one:,} networks at one size; {len(frame):,} at three, with Std and MinMax once",
        len(frame) == 5250,
    )
    same = tables["same_rows"] & tables["same_columns"]
    yield Claim(
        "B, Table 4",
        "rows, numerical and categorical columns of each data set",
        f"{same.sum()} of {len(tables)} data sets have the same; others: {', '.join(tables.index[~same])}",
        bool(same.all()),
    )
    yield from data_claims(tables)
    totals = [tables.groupby("task")[column].sum() for column in ("rows", "paper_rows")]
    yield Claim(
        "B, Table 5",
        "255,489 rows of regression, 255,928 of classification",
        f"{totals[0]['regression']:,} and {totals[0]['classification']:,}; the paper's own table of splits adds up to "
        f"{totals[1]['regression']:,} and {totals[1]['classification']:,}",
        totals[0]["regression"] == 255_489 and totals[0]["classification"] == 255_928,
    )


def data_claims(tables: pd.DataFrame) -> Iterator[Claim]:
    """Check classes and numbers of features."""
    data = pd.read_csv(HERE / "datasets.csv").set_index("dataset")
    several = int((data["classes"] > 2).sum())
    yield Claim("B", "3 data sets have more than two classes", str(several), several == 3)
    theirs = pd.read_csv(HERE / "paper" / "datasets.csv").set_index("abbreviation")["largest_class"]
    ours = data.set_index("abbreviation")["largest_class"].reindex(theirs.index)
    gaps = (ours - theirs).abs().dropna()
    n_same = int((gaps < SAME_SHARE).sum())
    yield Claim(
        "B, Table 4",
        "the share of the largest class of each data set",
        f"{n_same} of {len(gaps)} agree to {SAME_SHARE} percentage points",
        n_same == len(gaps),
    )
    features = tables["columns"].map(sum).groupby(tables["task"]).agg(["mean", "min", "max"]).loc[list(TASKS)]
    yield Claim(
        "B, Table 5",
        "features per data set: 10.5 and 13.0 on average, at least 5 and 6, at most 19 and 23",
        "; ".join(f"{name} {numbers(features[name], 1 if name == 'mean' else 0)}" for name in features),
        [*features["mean"].round(1), *features["min"], *features["max"]] == [10.5, 13.0, 5, 6, 19, 23],
    )


def tests_of_ranks(study: Benchmark) -> Iterator[Claim]:
    """Check the tests of the critical difference diagrams."""
    results = [friedman(ranks_by_problem(study.frame, task, size).to_numpy()).p_F for task in TASKS for size in SIZES]
    yield Claim(
        "4.3; takeaways",
        "Friedman's test rejects equal performance in all six settings",
        f"largest p of six: {max(results):.0e}",
        max(results) < 0.05,
    )
    first = [len(order.first) for order in study.orders.values()]
    yield Claim(
        "4.3",
        "several of the best methods are often not significantly different",
        f"first cliques of {listed_counts(first)} methods",
        min(first) > 1,
    )
    problems = [order.n_problems for order in study.orders.values()]
    yield Claim(
        "I",
        "14 methods; 39 problems of regression, 36 of classification",
        f"{study.frame['method'].nunique()} methods; {problems[0]} and {problems[-1]} problems",
        study.frame["method"].nunique() == 14 and set(problems) == {39, 36},
    )
    values = {
        (task, size): correlation(ranks_by_problem(study.frame, task, size), paper_ranks(task)[f"m{size}"])
        for task in TASKS
        for size in SIZES
    }
    same = sum(study.orders[key].names[0] == paper_ranks(key[0])[f"m{key[1]}"].idxmin() for key in values)
    yield Claim(
        "I, Tables 9 and 10",
        "the best of 14 methods in each of six settings",
        f"the same in {same} of {len(values)}; Spearman's correlation of all ranks {numbers(values.values())}",
        same == len(values),
    )


def regression_ranks(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the ranks of regression."""
    top = study.orders["regression", 7].names
    named = [top.index(name) + 1 for name in ("BS-LGBM", "BS-Q", "BS-CART")]
    yield Claim(
        "4.3 Regression; takeaways",
        "BS-LGBM, BS-Q and BS-CART have the best ranks at m = 7",
        f"places {listed_counts(named)}; our best three: {', '.join(top[:3])}",
        max(named) <= STRONGEST,
    )
    ranks = {size: study.ranks("regression", size) for size in SIZES}
    groups = {
        "I-splines": [name for name in top if name.startswith("IS-")],
        "learned knots": [name for name in top if METHOD_TABLE[name].learnable],
    }
    levels = {name: [float(ranks[size][group].mean()) for size in SIZES] for name, group in groups.items()}
    for name, values in levels.items():
        yield Claim(
            "4.3 Regression; takeaways",
            f"at m = 15 and 30 the ranking shifts towards {name}",
            f"their mean rank at sizes 7, 15, 30: {numbers(values)}",
            max(values[1:]) < values[0],
        )
    early = [float(ranks[size][[name for name in top if name.startswith("BS-")]].mean()) for size in SIZES]
    yield Claim(
        "4.3 takeaways",
        "B-splines tend to perform best at smaller sizes",
        f"their mean rank at sizes 7, 15, 30: {numbers(early)}",
        early[0] == min(early),
    )
    yield from regression_places(study)


def regression_places(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the places of single methods in regression."""
    pairs = {name: study.places("regression", name)[1:] for name in ("IS-Q", "IS-LGBM")}
    yield Claim(
        "4.3 Regression; takeaways",
        "IS-Q and IS-LGBM are among the strongest at m = 15 and 30",
        "; ".join(f"{name} at places {listed_counts(places)}" for name, places in pairs.items()),
        max(max(places) for places in pairs.values()) <= STRONGEST,
    )
    order = study.orders["regression", 30]
    yield Claim(
        "4.3 Regression; takeaways",
        "IS-Grad-U becomes competitive at m = 30",
        f"place {order.names.index('IS-Grad-U') + 1}, {'in' if 'IS-Grad-U' in order.first else 'not in'} the first "
        f"clique; at m = 7 place {study.places('regression', 'IS-Grad-U')[0]}",
        "IS-Grad-U" in order.first,
    )
    ple = [float(study.ranks("regression", size)["PLE"]) for size in SIZES]
    yield Claim(
        "4.3 Regression",
        "PLE is not among the strongest at m = 7, and more competitive at m = 30",
        f"places {listed_counts(study.places('regression', 'PLE'))}; average rank {numbers(ple)}",
        study.places("regression", "PLE")[0] > STRONGEST and ple[2] < ple[0],
    )
    yield bottom(study, "regression")


def bottom(study: Benchmark, task: str) -> Claim:
    """Check whether plain scaling is near the bottom."""
    places = {name: study.places(task, name) for name in SCALED}
    return Claim(
        f"4.3 {task.capitalize()}",
        f"Std and MinMax are near the bottom of {task} at all sizes",
        "; ".join(f"{name} at places {listed_counts(values)}" for name, values in places.items()) + " of 14",
        min(min(values) for values in places.values()) >= NEAR_BOTTOM,
    )


def regression_means(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the heatmaps of regression with MLP and ResNet."""
    for network in ("mlp", "resnet"):
        gain = splines(study.improvement("regression", network, (7, 30)).to_frame("gain"))["gain"]
        yield Claim(
            "4.3 Regression, Fig. 4",
            f"{NETWORKS[network]}: more columns often improve the mean NRMSE of splines",
            f"from m = 7 to 30 better for {(gain > 0).sum()} of {len(gain)}",
            bool((gain > 0).mean() > 0.5),
        )
        mean, low, high = study.advantage(network)
        yield Claim(
            "4.3 Regression, Fig. 4",
            f"{NETWORKS[network]}: especially with knots from trees or learned",
            f"they gain {mean:+.4f} more than with uniform and quantile knots, interval {low:+.4f} to {high:+.4f}",
            True if low > 0 else False if high < 0 else None,
        )
    yield from regression_cells(study)


def regression_cells(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of single cells of these heatmaps."""
    mlp, resnet = (study.means["regression", network] for network in ("mlp", "resnet"))
    values = mlp.loc["BS-Grad-U"]
    yield Claim(
        "4.3 Regression, Fig. 4",
        "MLP: BS-Grad-U improves with every size (0.2491, 0.2322, 0.2278)",
        numbers(values, 4),
        bool(values.is_monotonic_decreasing),
    )
    for table, network, best, size in ((mlp, "MLP", "IS-Grad-U", 30), (resnet, "ResNet", "IS-LGBM", 30)):
        order = list(table[size].sort_values().index)
        yield Claim(
            "4.3 Regression, Fig. 4",
            f"{network}: {best} has the lowest mean NRMSE at m = {size}",
            f"place {order.index(best) + 1} of 14 ({table.loc[best, size]:.4f}); lowest: {order[0]} "
            f"({table.loc[order[0], size]:.4f})",
            order[0] == best,
        )
    best_sizes = [int(resnet.loc[name].idxmin()) for name in resnet[30].nsmallest(5).index]
    yield Claim(
        "4.3 Regression",
        "ResNet: the strongest methods shift towards larger sizes",
        f"best size of the five best methods at m = 30: {listed_counts(best_sizes)}",
        float(np.mean(best_sizes)) > 15,
    )


def regression_tokens(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the heatmap of regression with the FT-Transformer."""
    where, table = "4.3 Regression, Fig. 4", study.means["regression", "ft feature"]
    of_b = splines(table, "BS-")
    worse = of_b[30] > of_b[7]
    yield Claim(
        where,
        "FT-Transformer: several B-splines become worse with the size",
        f"{worse.sum()} of {len(of_b)} are worse at m = 30 than at 7, "
        f"{(worse & (of_b[15] > of_b[7]) & (of_b[30] > of_b[15])).sum()} with every size (a token per feature)",
        bool(worse.sum() > 1),
    )
    values = table.loc["BS-Q"]
    yield Claim(
        where,
        "FT-Transformer: BS-Q becomes worse with every size (0.2451, 0.2666, 0.3034)",
        f"{numbers(values, 4)} (a token per feature)",
        bool(values.is_monotonic_increasing),
    )
    ple, plain = table.loc["PLE"], float(table.loc["Std", 7])
    yield Claim(
        where,
        "FT-Transformer: Std is better than PLE at all sizes",
        f"Std {plain:.4f}, PLE {numbers(ple, 4)}: PLE is better at {(ple < plain).sum()} of {len(ple)} sizes",
        bool((ple > plain).all()),
    )
    yield from regression_scaling(study)


def regression_scaling(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of Std and of sizes with the FT-Transformer."""
    where, table = "4.3 Regression, Fig. 4", study.means["regression", "ft feature"]
    plain = float(table.loc["Std", 7])
    named = [name for name in table.index if name.startswith("BS-")] + ["IS-Grad-U", "MS-Grad-U"]
    cells = table.loc[named, [15, 30]] > plain
    yield Claim(
        where,
        "FT-Transformer: at m = 15 and 30 Std is better than all B-splines, IS-Grad-U and MS-Grad-U",
        f"in {cells.to_numpy().sum()} of {cells.size} cells; at m = 30 in {cells[30].sum()} of {len(cells)}",
        bool(cells.to_numpy().all()),
    )
    shares = {
        name: float((splines(study.improvement("regression", network, (7, 30)).to_frame("gain"))["gain"] > 0).mean())
        for network, name in NETWORKS.items()
    }
    yield Claim(
        "4.3 Regression; takeaways",
        "larger sizes help MLP and ResNet more often than the FT-Transformer",
        "splines that are better at m = 30 than at 7: "
        + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()),
        shares["FT-Transformer"] < min(shares["MLP"], shares["ResNet"]),
    )


def between_sizes(study: Benchmark, task: str) -> float:
    """Return the mean correlation of average ranks at two sizes."""
    ranks = pd.DataFrame({size: study.ranks(task, size) for size in SIZES}).rank()
    return float(np.mean([ranks[one].corr(ranks[other]) for one, other in combinations(SIZES, 2)]))


def classification_ranks(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the ranks of classification."""
    where = "4.3 Classification"
    stable = {task: between_sizes(study, task) for task in TASKS}
    yield Claim(
        where,
        "classification is more stable over sizes than regression",
        "mean correlation of ranks at two sizes: " + ", ".join(f"{task} {value:.2f}" for task, value in stable.items()),
        stable["classification"] > stable["regression"],
    )
    places = study.places("classification", "PLE")
    yield Claim(
        f"{where}; takeaways",
        "PLE has the best average rank at all three sizes",
        f"places {listed_counts(places)}",
        max(places) == 1,
    )
    values = [float(study.ranks("classification", size)["PLE"]) for size in SIZES]
    yield Claim(
        where,
        "the average rank of PLE improves with the size (5.0, 4.0, 3.3)",
        numbers(values, 1),
        values[0] > values[1] > values[2],
    )
    yield from classification_groups(study)


def classification_groups(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of groups of methods in classification."""
    where = "4.3 Classification"
    order = study.orders["classification", 7]
    named = {name: order.names.index(name) + 1 for name in ("BS-CART", "BS-LGBM", "BS-Grad-U")}
    yield Claim(
        where,
        "at m = 7 B-splines with knots from trees or learned are competitive",
        "; ".join(f"{name} at place {place}" for name, place in named.items())
        + f"; the first clique has {len(order.first)} methods",
        set(named) <= set(order.first),
    )
    closest = [name for name in study.orders["classification", 30].names if name != "PLE"][:5]
    n_of_i = sum(name.startswith("IS-") for name in closest)
    yield Claim(
        where,
        "with the size I-splines become the closest group to PLE",
        f"{n_of_i} of the 5 best others at m = 30 are I-splines",
        n_of_i == 5,
    )
    yield bottom(study, "classification")
    orders = [study.orders["classification", size] for size in SIZES]
    leading = [next(name for name in order.names if name.startswith(("BS-", "IS-", "MS-"))) for order in orders]
    together = sum({name, "PLE"} <= set(order.first) for name, order in zip(leading, orders, strict=True))
    places = [f"{name} at place {order.names.index(name) + 1}" for name, order in zip(leading, orders, strict=True)]
    yield Claim(
        "Abstract; 4.3 takeaways",
        "splines remain competitive with PLE in classification",
        f"the best spline at sizes 7, 15, 30: {', '.join(places)}; in the first clique with PLE at {together} of 3",
        together == len(SIZES),
    )
    mean_rank = {
        name: float(np.mean([study.ranks("classification", size)[name] for size in SIZES]))
        for name in study.orders["classification", 7].names
    }
    best = sorted(mean_rank, key=lambda name: mean_rank[name])
    yield Claim(
        "Abstract; 1; 4.3; 6",
        "PLE is the most robust choice for classification",
        f"mean of its ranks at three sizes {mean_rank['PLE']:.2f}, place {best.index('PLE') + 1} of 14; the best two: "
        f"{best[0]} {mean_rank[best[0]]:.2f}, {best[1]} {mean_rank[best[1]]:.2f}",
        best[0] == "PLE",
    )


def classification_means(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of the heatmaps of classification."""
    where = "4.3 Classification, Fig. 5"
    tables = {network: study.means["classification", network] for network in NETWORKS}
    best = sum(table[size].idxmax() == "PLE" for table in tables.values() for size in SIZES)
    yield Claim(
        f"{where}; takeaways",
        "PLE has the highest mean AUC with every backbone at every size",
        f"in {best} of {len(SIZES) * len(tables)} cells",
        best == len(SIZES) * len(tables),
    )
    rises = {
        name: (tables[network].loc["PLE", 7], tables[network].loc["PLE", 30]) for network, name in NETWORKS.items()
    }
    yield Claim(
        where,
        "from m = 7 to 30 the mean AUC of PLE rises with all backbones",
        "; ".join(f"{name} {low:.4f} to {high:.4f}" for name, (low, high) in rises.items()),
        all(high > low for low, high in rises.values()),
    )
    yield Claim(
        where,
        "PLE: small but consistent gains as m increases",
        "; ".join(f"{name} {numbers(tables[network].loc['PLE'], 4)}" for network, name in NETWORKS.items()),
        all(tables[network].loc["PLE"].is_monotonic_increasing for network in NETWORKS),
    )
    early, late = (
        pd.concat([study.improvement("classification", network, pair).drop(list(SCALED)) for network in NETWORKS])
        for pair in ((7, 15), (15, 30))
    )
    yield Claim(
        where,
        "many encodings improve with the size, but less from m = 15 to 30 than from 7 to 15",
        f"{(early + late > 0).sum()} of {len(early)} improve from 7 to 30; the second gain is smaller for "
        f"{(late < early).sum()}; by family B-splines {smaller(early, late, 'BS-')}, I-splines "
        f"{smaller(early, late, 'IS-')}",
        bool((early + late > 0).mean() > 0.5 and (late < early).mean() > 0.5),
    )
    yield from classification_splines(study)


def classification_splines(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of splines in the heatmaps of classification."""
    where = "4.3 Classification, Fig. 5"
    tables = {network: study.means["classification", network] for network in NETWORKS}
    for name, than in (("MinMax", "MinMax"), ("Std", "Std"), ("PLE", "PLE")):
        cells = pd.concat([splines(study.above("classification", network, than)) for network in ("mlp", "resnet")])
        words = {
            "MinMax": "several splines are better than MinMax",
            "Std": "splines are often better than Std",
            "PLE": "splines do not consistently match PLE",
        }[name]
        share = float(cells.to_numpy().mean())
        yield Claim(
            where,
            f"MLP and ResNet: {words}",
            f"in {cells.to_numpy().sum()} of {cells.size} cells a spline has the higher mean AUC",
            share < 0.5 if name == "PLE" else share > 0.5,
        )
    of_b = pd.concat([splines(tables[network], "BS-") for network in ("mlp", "resnet")])
    middle = (of_b.idxmax(axis=1) == 15).sum()
    yield Claim(
        where,
        "several B-splines have their highest mean AUC at about m = 15",
        f"{middle} of {len(of_b)} (MLP, ResNet)",
        middle > 1,
    )
    first, second = of_b[15] - of_b[7], of_b[30] - of_b[15]
    yield Claim(
        where,
        "after that the gains of B-splines level off or slightly reverse at m = 30",
        f"the mean AUC of {(second < 0).sum()} of {len(of_b)} falls from m = 15 to 30; of {(second < first).sum()} it "
        "gains less than from 7 to 15",
        bool((second < 0).sum() > 1 and (second < first).mean() > 0.5),
    )
    yield from classification_tokens(study, where)


def smaller(early: "pd.Series[float]", late: "pd.Series[float]", prefix: str) -> str:
    """Return for how many methods of a family the second gain is the smaller one."""
    rows = [str(name).startswith(prefix) for name in early.index]
    return f"{(late[rows] < early[rows]).sum()} of {sum(rows)}"


def classification_tokens(study: Benchmark, where: str) -> Iterator[Claim]:
    """Check what the paper says of Std with the FT-Transformer."""
    cells = splines(study.above("classification", "ft feature", "Std"))
    expected = {(name, 15) for name in ("BS-Q", "BS-CART", "BS-LGBM")}
    above = {(str(name), int(size)) for name, row in cells.iterrows() for size in SIZES if row[size]}
    yield Claim(
        where,
        "FT-Transformer: only BS-Q, BS-CART and BS-LGBM at m = 15 have a higher mean AUC than Std",
        f"{len(above)} of {cells.size} splines and sizes have one, {len(above & expected)} of these three among them",
        above == expected,
    )
    yield Claim(
        f"{where}; takeaways",
        "FT-Transformer: Std is competitive with most splines in classification",
        f"its AUC is above that of {cells.size - len(above)} of {cells.size}; by rank at places "
        f"{listed_counts(study.places('classification', 'Std', 'ft feature'))} of 14",
        len(above) < cells.size / 2,
    )
    places = study.places("regression", "Std", "ft feature")
    yield Claim(
        "4.3 takeaways",
        "FT-Transformer: Std often remains competitive in regression",
        f"by rank at places {listed_counts(places)} of 14",
        float(np.mean(places)) <= 7,
    )


def takeaways(study: Benchmark) -> Iterator[Claim]:
    """Check the paper's summary over tasks and backbones."""
    best = {
        (task, size, network): str(study.ranks(task, size, network).idxmin())
        for task in TASKS
        for size in SIZES
        for network in NETWORKS
    }
    yield Claim(
        "Abstract; 1; 6",
        "the best encoding depends on task, size and backbone",
        f"{len(set(best.values()))} different methods are best in {len(best)} settings of task, size and backbone",
        all(depends(best, place) for place in range(3)),
    )
    leading = [study.orders["regression", size].names[0] for size in SIZES]
    most = max(sum(name == method for key, name in best.items() if key[0] == "regression") for method in best.values())
    yield Claim(
        "Abstract",
        "no single encoding dominates regression",
        f"best at sizes 7, 15, 30: {', '.join(leading)}; no method is best in more than {most} of 9 cells of "
        "size and backbone",
        most < 9,
    )
    top = [name for size in SIZES for name in study.orders["regression", size].names[:3]]
    n_splines = sum(name.startswith(("BS-", "IS-", "MS-")) for name in top)
    yield Claim(
        "1",
        "splines are often among the best in regression",
        f"{n_splines} of {len(top)}, the first three at three sizes",
        n_splines > len(top) / 2,
    )
    yield from scaling(study)


def scaling(study: Benchmark) -> Iterator[Claim]:
    """Check what the paper says of encodings beside plain scaling."""
    for task in TASKS:
        gains = {name: 100 * (1 - float(study.gains[task, network])) for network, name in NETWORKS.items()}
        yield Claim(
            "Abstract; 4.3; takeaways",
            f"encodings gain more with MLP and ResNet than with the FT-Transformer, {task}",
            "error below that of Std, mean of 12 encodings and 3 sizes, median data set: "
            + ", ".join(f"{name} {gain:.1f} %" for name, gain in gains.items()),
            gains["FT-Transformer"] < min(gains["MLP"], gains["ResNet"]),
        )
    wins = {
        network: pd.concat([study.above(task, network, "Std").drop(list(SCALED)) for task in TASKS])
        for network in NETWORKS
    }
    yield Claim(
        "4.3 takeaways; 6",
        "explicit encodings often outperform Std, especially with MLP and ResNet",
        "cells of the heatmaps with a better mean: "
        + ", ".join(f"{NETWORKS[network]} {cells.to_numpy().mean():.0%}" for network, cells in wins.items()),
        all(cells.to_numpy().mean() > 0.5 for cells in wins.values())
        and wins["ft feature"].to_numpy().mean()
        < min(wins[network].to_numpy().mean() for network in ("mlp", "resnet")),
    )
    at_7 = {name: study.places("regression", name)[0] for name in ("BS-U", "BS-Q")}
    first = study.orders["regression", 7].first
    yield Claim(
        "4.5 takeaway; 6; Table 2",
        "B-splines on uniform or quantile knots are a strong default for regression",
        "; ".join(f"{name} at place {place} of 14 at m = 7" for name, place in at_7.items())
        + (", both in the first clique" if set(at_7) <= set(first) else ""),
        set(at_7) <= set(first),
    )


def depends(best: dict[tuple[str, int, str], str], place: int) -> bool:
    """Return whether the best method changes with task (place 0), size (1) or backbone (2), the others being equal."""
    groups: dict[tuple[object, ...], set[str]] = {}
    for key, name in best.items():
        groups.setdefault(key[:place] + key[place + 1 :], set()).add(name)
    return any(len(names) > 1 for names in groups.values())


def quoted(study: Benchmark) -> Iterator[Claim]:
    """Check the averages that the paper quotes."""
    table = quoted_averages(study.frame)
    auc, nrmse = (table[table["metric"] == name] for name in ("AUC", "NRMSE"))
    gap = (auc["mean"] - auc["value"]).abs()
    yield Claim(
        "4.3 Classification",
        "seven mean AUCs, 0.9194 to 0.9331",
        f"differences of at most {gap.max():.4f}, {gap.mean():.4f} on average",
        bool(gap.max() < SAME_AUC),
    )
    ratio = nrmse["mean"] / nrmse["value"]
    yield Claim(
        "4.3 Regression",
        "nine mean NRMSEs, 0.2246 to 0.3034",
        f"ours are {ratio.min():.2f} to {ratio.max():.2f} times as large; the paper does not say what it divides by",
        None,
    )
