"""Write what our records recommend, by task, backbone and budget, for `knotwork.recommend(source="records")`.

    python results/advice.py

Of the methods and sizes that a budget allows, the choice is the one with the least mean excess: the error (NRMSE, or
1 - AUC) over that of the best configuration of the same table, at most twice, geometric mean over tables. Without that
limit one table decides: on shuttle, where 1 - AUC is between 2e-6 and 5e-3, errors differ by factors of hundreds. How
good such a choice is on a new table is measured with each table left out: the others choose, and the choice is scored
on it. The file also has the places of the paper's advice in our records. `make paper-tables` runs it after the report.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from knotwork import recommend
from knotwork.report import Advice, Configuration, advise, read_records, summarise_folds

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for tests, which run this file without its folder on the path

from questions import main_benchmark, paragraph, table_head  # noqa: E402 - needs the line above

Array = npt.NDArray[np.float64]
Key = tuple[str, str, str]
"""Task, backbone and budget."""
FILE = HERE.parent / "src" / "knotwork" / "recommendations.json"
BACKBONES = {"mlp": "mlp", "resnet": "resnet", "ft feature": "ft"}
"""Networks of the records, and the names of their backbones."""
MOST = 2.0
"""The largest excess of one table that counts, as a factor: errors beyond twice that of the best are equally bad."""
NAMES = {"mlp": "an MLP", "resnet": "a ResNet", "ft": "an FT-Transformer with a token per feature"}


class Choice(NamedTuple):
    """A configuration among others: its places by average rank and by mean excess, its rank, its excess in percent."""

    name: str
    of: int
    rank: float
    place: int
    place_by_excess: int
    excess: float


class Held(NamedTuple):
    """Choices with each table left out, scored on that table.

    `excess` is over the best configuration of the budget, in percent, and `same` the number of tables without which the
    choice is the final one. On `better` tables the choice has less error than the paper's advice, on `worse` more.
    """

    excess: float
    same: int
    better: int
    worse: int


@cache
def budgets() -> dict[Key, Advice]:
    """Return the configurations of each task, backbone and budget, with their scores on our tables."""
    summary = summarise_folds(read_records(main_benchmark()))
    return {(entry.task, BACKBONES[entry.network], entry.budget): entry for entry in advise(summary)}


def named(configuration: Configuration) -> str:
    """Return a method and its size as one word."""
    method, size = configuration
    return method if size is None else f"{method}@{size}"


def errors_of(entry: Advice) -> Array:
    """Return the errors of configurations on tables, NRMSE or 1 - AUC; an AUC of 1 counts as an error of 1e-6."""
    return entry.scores if entry.task == "regression" else np.maximum(1 - entry.scores, 1e-6)


def log_excess(entry: Advice) -> Array:
    """Return the logarithm of errors over that of the best configuration of the same table, at most that of `MOST`."""
    errors = errors_of(entry)
    return np.log(np.minimum(errors / errors.min(axis=1, keepdims=True), MOST))


def percent(logs: Array) -> float:
    """Return the geometric mean of ratios, as an excess over 1 in percent."""
    return float(100 * np.expm1(logs.mean()))


def chosen(entry: Advice) -> int:
    """Return the position of the configuration with the least mean excess."""
    return int(np.argmin(log_excess(entry).mean(axis=0)))


def choice_of(entry: Advice, configuration: Configuration) -> Choice:
    """Describe one configuration of a budget."""
    index, logs = entry.configurations.index(configuration), log_excess(entry)
    places = [1 + int((values < values[index]).sum()) for values in (entry.ranks, logs.mean(axis=0))]
    return Choice(named(configuration), len(entry.ranks), float(entry.ranks[index]), *places, percent(logs[:, index]))


def left_out(entry: Advice, key: Key, criterion: Array) -> Held:
    """Choose by the least mean of a criterion with each table left out, and score the choice on that table."""
    logs, tables = log_excess(entry), np.arange(len(entry.scores))
    choices = np.array([int(np.argmin(criterion[tables != table].mean(axis=0))) for table in tables])
    reached, paper = logs[tables, choices], logs[:, entry.configurations.index(of_paper(*key))]
    final = int(np.argmin(criterion.mean(axis=0)))
    return Held(
        percent(reached), int((choices == final).sum()), int((reached < paper).sum()), int((reached > paper).sum())
    )


def without_one_table(entry: Advice) -> list[Advice]:
    """Return the scores without each table in turn, as if we did not have it."""
    return [replace(entry, scores=np.delete(entry.scores, table, axis=0)) for table in range(len(entry.scores))]


def mean_excess(entries: dict[Key, Advice]) -> tuple[float, float]:
    """Return the mean excess, in percent, of choices with each table left out, and of the paper's advice."""
    ours = [left_out(entry, key, log_excess(entry)).excess for key, entry in entries.items()]
    paper = [choice_of(entry, of_paper(*key)).excess for key, entry in entries.items()]
    return float(np.mean(ours)), float(np.mean(paper))


def sensitivity() -> tuple[list[tuple[float, float]], str]:
    """Return the mean excesses of both without each table in turn, and the table without which ours does worst."""
    names = {task: sorted(part["dataset"].unique()) for task, part in main_benchmark().groupby("task")}
    pairs, tables = [], []
    for task, datasets in names.items():
        fewer = {key: without_one_table(entry) for key, entry in budgets().items() if key[0] == task}
        for place, name in enumerate(datasets):
            pairs.append(mean_excess({**budgets(), **{key: each[place] for key, each in fewer.items()}}))
            tables.append(name)
    gaps = [ours - paper for ours, paper in pairs]
    return pairs, tables[int(np.argmax(gaps))]


def of_paper(task: str, backbone: str, budget: str) -> Configuration:
    """Return the paper's configuration."""
    paper = recommend(task, backbone, budget=budget, source="paper")
    return paper.method, paper.size


def evidence(key: Key, configuration: Configuration) -> str:
    """Return a sentence on a configuration among all methods and sizes of the records."""
    task, backbone, _ = key
    entry = budgets()[task, backbone, "high"]
    choice = choice_of(entry, configuration)
    return (
        f"In our records ({len(entry.scores)} tables, {NAMES[backbone]}) it is at place {choice.place} of {choice.of} "
        f"methods and sizes by average rank, and at place {choice.place_by_excess} by its error, on average "
        f"{choice.excess:.1f} % above that of the best."
    )


def reason(key: Key) -> str:
    """Return a sentence on our choice, and how well such a choice does on a table that is left out."""
    entry = budgets()[key]
    held = left_out(entry, key, log_excess(entry))
    paper = choice_of(entry, of_paper(*key))
    return (
        f"It has the least mean error of the {len(entry.configurations)} methods and sizes of this budget on our "
        f"{len(entry.scores)} {key[0]} tables; chosen with each table left out ({held.same} times the same), its error "
        f"on that table is on average {held.excess:.1f} % above that of the best of them, that of the paper's advice "
        f"({paper.name}) {paper.excess:.1f} %, with less error on {held.better} and more on {held.worse} tables."
    )


def content() -> list[dict[str, object]]:
    """Return the lines of the file, one for each task, backbone and budget."""
    lines = []
    for key, entry in budgets().items():
        method, size = entry.configurations[chosen(entry)]
        order = [entry.configurations[place][0] for place in np.argsort(log_excess(entry).mean(axis=0), kind="stable")]
        others = [name for name in dict.fromkeys(order) if name != method]
        lines.append(
            {
                "task": key[0],
                "backbone": key[1],
                "budget": key[2],
                "method": method,
                "size": size,
                "alternatives": others[:2],
                "reason": reason(key),
                "evidence": evidence(key, (method, size)),
                "evidence_for_the_paper": evidence(key, of_paper(*key)),
            }
        )
    return lines


def advice_section() -> Iterator[str]:
    """Compare the paper's advice with what our records recommend, on tables that took no part in the choice."""
    yield "## What to start with: the paper's advice, and ours\n"
    yield paragraph("""
        `kw.recommend` gives two answers, the paper's (`source="paper"`) and that of our records
        (`source="records"`): of the methods and sizes that a budget allows, the one with the least error (NRMSE, or
        1 - AUC), relative to the best of them on the same table, geometric mean over tables. That mean is the
        excess; an error of more than twice the best counts as twice, because otherwise shuttle, whose errors differ
        by factors of hundreds, would decide alone. Place: by average rank, of all methods and sizes. Left out: the
        choice of the other tables, scored on each table; how often it is the same as that of all tables, and on how
        many tables it is better and worse than the paper's advice.""")
    yield from table_head(
        "task | backbone | budget | paper | place | excess, % | ours | place | left out: excess, % | same "
        "| better : worse"
    )
    ours, ranked = [], []
    for key, entry in budgets().items():
        everything, pick = budgets()[*key[:2], "high"], entry.configurations[chosen(entry)]
        held = left_out(entry, key, log_excess(entry))
        ours.append(held)
        ranked.append(left_out(entry, key, rankdata(errors_of(entry), axis=1)).excess)
        yield (
            f"| {' | '.join(key)} | {named(of_paper(*key))} | {choice_of(everything, of_paper(*key)).place} "
            f"| {choice_of(entry, of_paper(*key)).excess:.1f} | {named(pick)} | {choice_of(everything, pick).place} "
            f"| {held.excess:.1f} | {held.same} of {len(entry.scores)} | {held.better} : {held.worse} |"
        )
    better, worse = (sum(getattr(held, name) for held in ours) for name in ("better", "worse"))
    mine, paper = mean_excess(budgets())
    pairs, worst = sensitivity()
    low, high = np.min(pairs, axis=0), np.max(pairs, axis=0)
    n_less = sum(one < other for one, other in pairs)
    at_worst = max(pairs, key=lambda pair: pair[0] - pair[1])
    yield "\n" + paragraph(f"""
        The choice of the other tables is better than the paper's advice in {better} cases and worse in {worse}; its
        mean excess is {mine:.1f} %, that of the paper's advice {paper:.1f} %. These numbers depend on single tables:
        without any one of our {len(pairs)} they are {low[0]:.1f} to {high[0]:.1f} % and {low[1]:.1f} to
        {high[1]:.1f} %, ours is the smaller one in {n_less} of {len(pairs)} cases, and without {worst} they are
        {at_worst[0]:.1f} and {at_worst[1]:.1f} %. A choice by the best average rank, as in the report, has
        {np.mean(ranked):.1f} % on the tables that are left out, by the same measure. A comparison on your own
        table (`knotwork compare`) is better evidence than either answer.""")


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(content(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(FILE)


if __name__ == "__main__":
    main()
