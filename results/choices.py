"""Write docs/choices.md: encodings that rows choose for each column, interactions, and learned knots from LightGBM.

    python results/choices.py

Every number in it is computed here, from the records in `choices/`; nothing is trained. `make paper-tables` runs it
after the report.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from knotwork.encoders import FEATURE_CANDIDATES
from knotwork.nn import InteractionConfig
from knotwork.stats import average_problems, holm, relative_errors, wilcoxon_holm
from knotwork.study import load_plan, load_results

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for tests, which run this file without its folder on the path

from questions import GAIN_HEAD, gain_rows, gains, knot_cells, paragraph, table_head  # noqa: E402 - needs the line above
from questions import load as load_paper  # noqa: E402 - needs the line above

FOLDER = HERE / "choices"
PAGE = HERE.parent / "docs" / "choices.md"
PLAN, GATED, PAIRS, STARTS = "per-feature", "per-feature-gated", "interactions", "learned-starts-lgbm"
HISTORY = {PLAN: "db89a31bf6129e0feccd", GATED: "dba3769da68fe53c564a"}
"""Beginnings of the hashes of plans that can no longer run: rules and gates were removed for what this page shows."""

CHOSEN = "per-feature-"
RULE, RULES = "one-error", (
    "least", "one-error", "two-errors", "four-errors", "shared", "shared-two-errors", "largest", "largest-two-errors",
)  # fmt: skip
"""The rule of `knotwork.choose_per_feature`, and all that were compared."""

CELL = ["task", "dataset", "backbone", "fold"]
LEAST = 1e-6
"""The error of a network whose AUC is 1."""


@cache
def load(plan: str) -> pd.DataFrame:
    """Return the successful networks of a plan, with `spec` (method and size), `error`, `score` and `network`."""
    frame = load_results(FOLDER, HISTORY[plan] if plan in HISTORY else load_plan(plan).plan_hash)
    frame = frame[frame["status"] == "ok"]
    kinds = zip(frame["method"], frame["size"], strict=True)
    names = [method if pd.isna(size) else f"{method}@{int(size)}" for method, size in kinds]
    score = frame["nrmse"].where(frame["task"] == "regression", frame["auc"])
    error = score.where(frame["task"] == "regression", 1 - score).clip(lower=LEAST)
    return frame.assign(spec=names, score=score, error=error, network=frame["backbone"])


class Scores(NamedTuple):
    """Validation scores and test errors of the same networks: a row for each cell, a column for each kind."""

    valid: pd.DataFrame
    error: pd.DataFrame


def scores(frame: pd.DataFrame, column: str) -> Scores:
    """Return the scores of the cells in which all kinds were trained."""
    valid, error = (frame.pivot_table(index=CELL, columns=column, values=name) for name in ("valid_score", "error"))
    complete = valid.notna().all(axis=1)
    return Scores(valid[complete], error[complete])


def singles(names: Sequence[str]) -> list[str]:
    """Return the encodings that are one for all columns."""
    return [name for name in names if not name.startswith(CHOSEN)]


def excess(valid: pd.DataFrame) -> pd.DataFrame:
    """Return validation scores relative to the mean of their cell, averaged over the folds of a table."""
    relative = pd.DataFrame(relative_errors(valid), valid.index, valid.columns)
    return relative.groupby(level=CELL[:3]).mean()


def left_out(relative: pd.DataFrame, names: Sequence[str], *, alike: Sequence[str]) -> "pd.Series[str]":
    """Return for each table and backbone what the other tables choose, by the least mean of validation scores.

    Tables that are the same in the levels `alike` of the index take part in the choice.
    """
    chosen = {}
    for place in relative.index:
        others = relative.index.get_level_values("dataset") != place[1]
        for level in alike:
            others &= relative.index.get_level_values(level) == place[CELL.index(level)]
        chosen[place] = str(relative.loc[others, list(names)].mean().idxmin())
    return pd.Series(chosen).rename_axis(CELL[:3])


def picked(error: pd.DataFrame, chosen: "pd.Series[str]") -> "pd.Series[float]":
    """Return the errors of what was chosen for each table and backbone."""
    names = [chosen[place[:3]] for place in error.index]
    columns = error.columns.get_indexer(names)
    return pd.Series(error.to_numpy()[np.arange(len(error)), columns], error.index)


class Ratio(NamedTuple):
    """The errors of one kind over those of another, each table counted once."""

    median: float
    low: float
    high: float
    better: int
    worse: int
    n_tables: int
    p: float

    def cells(self, adjusted: float) -> str:
        """Return the cells of `RATIO_HEAD`."""
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.median:.3f} | {interval} | {self.better} : {self.worse} | {adjusted:.3f}"


RATIO_HEAD = "ratio, median | interval | better : worse | p (Holm)"


def ratio(one: "pd.Series[float]", other: "pd.Series[float]") -> Ratio:
    """Compare errors of the same cells: of a table, ratios are averaged over backbones and folds (geometric mean)."""
    logs = (np.log(one) - np.log(other)).groupby(level="dataset").mean()
    ordered = np.exp(np.sort(logs.to_numpy()))
    n, pairs = len(logs), np.column_stack([one, other])
    rank = int(stats.binom.ppf(0.025, n, 0.5))  # the interval of the sign test: ordered ratios that contain the median
    _, averages = average_problems(relative_errors(pairs), one.index.get_level_values("dataset").tolist())
    return Ratio(
        float(np.median(ordered)),
        float(ordered[max(rank - 1, 0)]),
        float(ordered[n - max(rank, 1)]),
        int((logs < 0).sum()),
        int((logs > 0).sum()),
        n,
        float(wilcoxon_holm(averages).p[0, 1]),
    )


def ratio_rows(rows: dict[str, Ratio]) -> Iterator[str]:
    """Return the rows of a table with `RATIO_HEAD`, with Holm's correction over them."""
    for (head, each), adjusted in zip(rows.items(), holm([each.p for each in rows.values()]), strict=True):
        yield f"| {head} | {each.cells(float(adjusted))} |"


class Benchmark(NamedTuple):
    """Errors of single encodings and of choices for each column."""

    scores: Scores
    relative: pd.DataFrame
    single: "pd.Series[str]"
    """The single encoding that the other tables of the task choose for each table and backbone."""
    rule: "pd.Series[str]"
    """The rule that the other tables choose for each table and backbone."""

    @property
    def rules(self) -> list[str]:
        """The rules."""
        return [name for name in self.scores.error.columns if name.startswith(CHOSEN)]

    @property
    def best_of_all(self) -> "pd.Series[float]":
        """Errors of the single encoding that the other tables choose."""
        return picked(self.scores.error, self.single)

    @property
    def best_of_each(self) -> "pd.Series[float]":
        """Errors of the single encoding with the best validation score of each cell."""
        return self.validated(singles(self.scores.error.columns))

    def validated(self, names: Sequence[str]) -> "pd.Series[float]":
        """Return the errors of the network with the best validation score of each cell, of some kinds."""
        best = self.scores.valid[list(names)].to_numpy().argmin(axis=1)
        errors = self.scores.error[list(names)].to_numpy()
        return pd.Series(errors[np.arange(len(best)), best], self.scores.error.index)


@cache
def benchmark() -> Benchmark:
    """Return the networks of the plan."""
    both = scores(load(PLAN), "spec")
    relative = excess(both.valid)
    names = list(both.error.columns)
    rules = [name for name in names if name.startswith(CHOSEN)]
    single = left_out(relative, singles(names), alike=["task", "backbone"])
    return Benchmark(both, relative, single, left_out(relative, rules, alike=[]))


def counted(index: pd.Index) -> str:
    """Return numbers of tables, backbones and folds in words."""
    levels = [index.get_level_values(name) for name in ("dataset", "backbone", "fold")]
    folds = pd.Series(levels[2]).groupby([levels[0], levels[1]]).nunique()
    n_folds = " to ".join(str(number) for number in sorted({int(folds.min()), int(folds.max())}))
    plural = "" if n_folds == "1" else "s"
    return f"{levels[0].nunique()} tables, {' and '.join(sorted(set(levels[1])))}, {n_folds} fold{plural}"


def percent(value: float) -> str:
    """Return a ratio as a change in percent."""
    return f"{100 * (value - 1):+.1f} %"


def rules_section() -> Iterator[str]:
    """Compare rules with single encodings."""
    data = benchmark()
    names, error = singles(data.scores.error.columns), data.scores.error
    yield "## One encoding for all columns, or one for each?\n"
    yield paragraph(f"""
        {error.size:,} networks with the default settings of the estimators: {counted(error.index)}. Each table is
        encoded in {len(names)} ways that are the same for all columns, and by {len(data.rules)} rules, which
        choose among {len(FEATURE_CANDIDATES)} encodings for each column on training rows
        (a name behind a colon is the candidate that is preferred; otherwise it is {FEATURE_CANDIDATES[0]}). Error:
        NRMSE or 1 - AUC on test rows. A ratio below 1 means that the rule has less error; of each table, ratios are
        averaged over backbones and folds. `kw.choose_per_feature` has only the rule `{RULE}` now.
        Interval: 95 % for the median (sign test). p: signed ranks over tables, with
        Holm's correction over the rows. Validation: the mean validation score, relative to that of all networks of the
        table.""")
    yield "Beside the single encoding that is the best on the validation rows of the other tables of the task:\n"
    yield from rule_table(data, data.best_of_all)
    yield "\nBeside the single encoding with the best validation score, of each table and fold:\n"
    yield from rule_table(data, data.best_of_each)
    yield "\n" + paragraph(verdict(data))
    several = data.validated([f"{CHOSEN}{rule}" for rule in RULES])
    rows = {"of all tables": data.best_of_all, "of each table": data.best_of_each}
    yield paragraph(f"""
        The best encoding of each table is chosen from {len(names)} networks, a rule has one. Like with like:
        if validation rows choose among
        the {len(RULES)} rules as well (not with other preferred candidates),
        the ratios are as below. This was added when the test results of
        single rules were known, and about a dozen other sets of networks were looked at, on test rows, with similar
        medians; so these ratios may be a little too good. The set of all rules is the one without a further
        choice.""")
    yield from table_head(f"best single encoding | {RATIO_HEAD}")
    yield from ratio_rows({head: ratio(several, reference) for head, reference in rows.items()})
    yield ""


def rule_table(data: Benchmark, reference: "pd.Series[float]") -> Iterator[str]:
    """Return the rules beside single encodings, the best on validation rows first."""
    yield from table_head(f"rule | validation, % | {RATIO_HEAD}")
    means = data.relative[data.rules].mean().sort_values()
    yield from ratio_rows(
        {f"{name.removeprefix(CHOSEN)} | {percent(mean)}": ratio(data.scores.error[name], reference)
         for name, mean in means.items()}
    )  # fmt: skip


def verdict(data: Benchmark) -> str:
    """Say which rule is chosen, and how it does on tables that took no part in the choice."""
    means = data.relative[data.rules].mean()
    best = str(means.idxmin())
    same = int((data.rule == best).sum())
    ours = picked(data.scores.error, data.rule)
    of_all, of_each = ratio(ours, data.best_of_all), ratio(ours, data.best_of_each)
    common = Counter(data.single).most_common(1)[0]
    usual = ratio(data.scores.error[f"{CHOSEN}{RULE}"], data.best_of_all)
    return f"""
        Chosen on validation rows with each table left out, the rule is `{best.removeprefix(CHOSEN)}` for
        {same} of {len(data.rule)} tables and backbones. On the table that was left out its error is
        {percent(of_all.median)} ({percent(of_all.low)} to {percent(of_all.high)}) beside the single encoding that the
        other tables choose (most often {common[0]}, {common[1]} times), and {percent(of_each.median)}
        ({percent(of_each.low)} to {percent(of_each.high)}) beside the one that is chosen for each table and fold by
        training all {len(singles(data.scores.error.columns))} of them. `search="per-feature"` has the rule
        `{RULE}`: {percent(usual.median)} ({percent(usual.low)} to {percent(usual.high)}) beside the
        former. Of the candidates that were preferred with the rule `two-errors`, {firsts(means)} has the best
        validation scores; with `{RULE}` only {FEATURE_CANDIDATES[0]} was tried."""


def firsts(means: "pd.Series[float]") -> str:
    """Return the preferred candidate with the best validation scores, of one rule."""
    names = {
        name: name.partition(":")[2] or FEATURE_CANDIDATES[0]
        for name in means.index
        if name.partition(":")[0] == f"{CHOSEN}two-errors"
    }
    return names[str(means[list(names)].idxmin())]


def kinds_section() -> Iterator[str]:
    """Show the default rule by task and backbone, and what it chooses."""
    data = benchmark()
    name = f"{CHOSEN}{RULE}"
    yield f"The rule `{RULE}` by task and backbone, beside the single encoding of the other tables:\n"
    yield from table_head(f"task | backbone | {RATIO_HEAD}")
    groups = data.scores.error.groupby(level=["task", "backbone"]).groups
    rows = {
        " | ".join(key): ratio(data.scores.error.loc[cells, name], data.best_of_all.loc[cells])
        for key, cells in sorted(groups.items(), reverse=True)
    }
    yield from ratio_rows(rows)
    frame = load(PLAN)
    chosen = frame.loc[(frame["method"] == name) & (frame["backbone"] == "mlp"), "chosen"].map(json.loads)
    counts = Counter(encoding for each in chosen for encoding in each.values())
    total = sum(counts.values())
    listed = ", ".join(f"{encoding} {100 * count / total:.0f} %" for encoding, count in counts.most_common())
    several = np.mean([len(set(each.values())) for each in chosen])
    yield "\n" + paragraph(f"""
        Encodings that it chooses for {total:,} columns: {listed}. A table has {several:.1f} different ones on
        average.""")


def gates_section() -> Iterator[str]:
    """Compare the choice by gates with the rules."""
    data = benchmark()
    gated = load(GATED).set_index(CELL)["error"]
    cells = data.scores.error.index.intersection(gated.index)
    if not len(cells):
        return
    yield paragraph(f"""
        **By gates.** Five encodings of each column were trained together in a small network, each with a gate, and the
        one with the largest gate was kept. This choice was removed after the comparison. {counted(cells)}:""")
    yield from table_head(f"beside | {RATIO_HEAD}")
    usual = f"{CHOSEN}{RULE}"
    references = {
        f"`{RULE}`": data.scores.error[usual],
        "the single encoding of other tables": data.best_of_all,
    }
    rows = {head: ratio(gated.loc[cells], reference.loc[cells]) for head, reference in references.items()}
    yield from ratio_rows(rows)
    yield ""


@cache
def with_pairs() -> pd.DataFrame:
    """Return networks with interactions, and those without as the variant ``"none"``, of cells that have all."""
    frame, plain = load(PAIRS), load(PLAN)
    plain = plain[plain["spec"].isin(set(frame["spec"]))].assign(variant="none")
    both = pd.concat([frame, plain])
    n_variants = both["variant"].nunique()
    return both[both.groupby([*CELL, "spec"])["variant"].transform("nunique") == n_variants]


def pair_scores() -> Scores:
    """Return scores of all variants; cells are those of a table, backbone, fold and encoding."""
    frame = with_pairs()
    frame = frame.assign(backbone=frame["backbone"] + " " + frame["spec"])
    return scores(frame, "variant")


def interactions_section() -> Iterator[str]:
    """Compare networks with and without interactions."""
    both = pair_scores()
    variants = [name for name in both.error.columns if name != "none"]
    usual = f"waves up to {InteractionConfig().waves:g}"
    relative = excess(both.valid[variants])
    chosen = left_out(relative, variants, alike=[])
    yield "## Do interactions help?\n"
    encodings = " and ".join(sorted(set(with_pairs()["spec"])))
    yield paragraph(f"""
        {both.error.size:,} networks with {encodings}: {both.error.index.get_level_values("dataset").nunique()} tables,
        MLP and ResNet, with `interactions="auto"` from {len(variants)} kinds of first weights, and without
        interactions. Pairs are found on training rows. Ratios: error with interactions over that without.""")
    yield from table_head(f"first weights | validation, % | {RATIO_HEAD}")
    means = relative.mean().sort_values()
    rows = {f"{name} | {percent(mean)}": ratio(both.error[name], both.error["none"]) for name, mean in means.items()}
    yield from ratio_rows(rows)
    same = int((chosen == means.index[0]).sum())
    held = ratio(picked(both.error, chosen), both.error["none"])
    yield "\n" + paragraph(f"""
        On validation rows, `{means.index[0]}` is the best, with each table left out for {same} of {len(chosen)} tables
        and networks; chosen like this, the ratio on the table that was left out is {held.median:.3f} ({held.low:.3f} to
        {held.high:.3f}). The default is `{usual}`.""")
    yield from decided_section(both, usual)


def decided_section(both: Scores, usual: str) -> Iterator[str]:
    """Show the default by task and network, on single tables, and where validation rows decide whether to use it."""
    yield f"First weights `{usual}`, by task and network:\n"
    yield from table_head(f"task | network | {RATIO_HEAD}")
    groups = both.error.groupby(level=["task", "backbone"]).groups
    rows = {
        " | ".join(key): ratio(both.error.loc[cells, usual], both.error.loc[cells, "none"])
        for key, cells in sorted(groups.items(), reverse=True)
    }
    yield from ratio_rows(rows)
    better = both.valid[usual] < both.valid["none"]
    decided = ratio(both.error[usual].where(better, both.error["none"]), both.error["none"])
    logs = np.log(both.error[usual] / both.error["none"]).groupby(level="dataset").mean().sort_values()
    least, most = (
        ", ".join(f"{name} {percent(np.exp(value))}" for name, value in part.items())
        for part in (logs.head(5), logs.tail(5)[::-1])
    )
    yield "\n" + paragraph(f"""
        Tables with the largest gains: {least}. With the largest losses: {most}. If validation rows decide in each table
        and fold whether to use interactions ({int(better.sum())} of {len(better)} times they do), the ratio is
        {decided.median:.3f} ({decided.low:.3f} to {decided.high:.3f}), with less error on {decided.better} tables and
        more on {decided.worse}.""")


def starts_section() -> Iterator[str]:
    """Compare learned knots that start from LightGBM's splits with other starts."""
    size = load_plan(STARTS).sizes[0]
    frame = pd.concat([load(STARTS), load_paper("learned-starts"), load_paper("paper-mlp")]).drop_duplicates("key")
    frame = frame[frame["size"].eq(size)]
    yield "## Learned knots that start from LightGBM's splits\n"
    yield paragraph(f"""
        MLPs of the paper's protocol at size {size}, {frame["dataset"].nunique()} tables, five folds: knots that start
        from the splits of LightGBM, beside the fixed knots that they start from, and beside learned knots with another
        start. [Findings](findings.md#where-should-learned-knots-start) has the other starts, and explains the
        columns.""")
    yield from table_head(f"learned | beside | moved | shift, % | {GAIN_HEAD}")
    rows = {}
    for family in ("BS", "IS"):
        method = f"{family}-Grad-LGBM"
        moved = knot_cells(frame[frame["method"] == method])
        for beside in (f"{family}-LGBM", *(f"{family}-Grad-{start}" for start in ("U", "Q", "CART"))):
            kinds = frame["method"] == method, frame["method"] == beside
            rows[f"{method} | {beside} | {moved}"] = gains(frame, *kinds)
    yield from gain_rows(rows)
    yield ""


def page() -> str:
    """Return the page."""
    head = [
        "# Choices for each column, and interactions\n",
        "<!-- Written by results/choices.py from the records in results/choices. Do not edit. -->\n",
        paragraph("""
            What [a choice of the encoding for each column](choosing.md#evidence-from-your-data) and [interactions of
            columns](interactions.md) bring to networks, on the tables of the study. Whatever is chosen here, a rule, a
            single encoding or first weights, is chosen by scores on validation rows. What was fixed before is not: the
            candidates and the preferred one are from test scores of the study's tables, and the default of the first
            weights from those of two tables."""),
    ]
    parts = [rules_section(), kinds_section(), gates_section(), interactions_section(), starts_section()]
    return "\n".join([*head, *(line for part in parts for line in part)]).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
