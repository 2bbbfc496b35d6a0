"""One ranking of everything that was trained, the model that is recommended, and the sentences that follow from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knotwork._writing import counted, significant
from knotwork.compare._scoring import Scored
from knotwork.encoders import Encoding
from knotwork.report import enumerate_words
from knotwork.stats import compare_folds
from knotwork.training import METRICS, TrainingConfig

NAIVE = {"regression": "the mean of the target", "classification": "the shares of the classes"}

ALPHA = 0.05
"""Level of significance, a convention."""

NEAR = 0.01
"""A simpler row is recommended in place of the best one only if its mean score is within this share of it: half of the
2 % that a recommendation may lose on new rows, whose scores vary as well."""

KINDS = {
    "linear": "linear model",
    "additive": "additive model",
    "boosting": "boosting",
    "encoding": "single network",
    "ensemble": "ensemble",
}
"""Kinds of rows, the simplest first, and their names."""

SAME_ROWS = 0.05
"""Models count as trained on as many rows if their numbers differ by at most this share."""

ONE_RULE = (
    "One rule decides: of the rows within 1 % of the best mean that are not proven to be worse, the simplest is "
    "recommended (linear model, additive model, boosting, single network, ensemble, in this order; of networks the one "
    "with the fewest parameters). The recommended model is the one that is saved, and that all figures show."
)

HOW = (
    "Differences are from the best row and paired over folds. Their 95 % intervals and p-values belong to one "
    "procedure, which holds for all rows together: the corrected resampled t-test (Nadeau and Bengio, 2003), which "
    "allows for the rows that folds share, at Sidak's level for the number of comparisons. So an interval excludes 0 "
    "exactly if p is below 0.05. The best row is chosen by the same folds, so its lead is a little too large."
)


@dataclass(frozen=True, eq=False)
class RankedRow:
    """A row of the ranking: an encoding in a single network, another kind of model, or the ensemble.

    Mean and standard deviation of the score over folds; difference from the best row with its simultaneous interval
    from `low` to `high`; `p` is the adjusted p-value, 1 for the best row.
    """

    scored: Scored
    mean: float
    sd: float
    difference: float
    low: float
    high: float
    p: float

    @property
    def candidate(self) -> Encoding | str:
        """The encoding, or the name of another kind of model."""
        return self.scored.candidate

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return self.scored.kind

    @property
    def name(self) -> str:
        """The row in a sentence."""
        if self.kind == "encoding":
            return f"single networks with {self.candidate}"
        return f"{'' if self.kind == 'boosting' else 'the '}{self.candidate}"

    @property
    def seconds(self) -> float:
        """Seconds of preparing and training one model, or the ensemble."""
        return self.scored.seconds

    @property
    def cost(self) -> tuple[int, int, float]:
        """Sort key of the simplest: kind, parameters, then seconds, which vary from run to run."""
        return list(KINDS).index(self.kind), self.scored.n_parameters or 0, self.seconds


@dataclass(frozen=True, eq=False)
class Ranking:
    """All rows, the best mean first, and the recommendation.

    Rows are ranked by `metric`; lower is better. `chosen` is the recommended row, whose model is saved and explained:
    the simplest within `NEAR` of the best mean that is not proven to be worse. `encoding` is the recommended encoding
    of single networks by the same rule; None without networks. `verdict` is the recommendation in a few words,
    `sentences` the reasons, `naive` the score without any feature.
    """

    metric: str
    lines: tuple[RankedRow, ...]
    chosen: RankedRow
    encoding: RankedRow | None
    verdict: str
    sentences: tuple[str, ...]
    naive: float

    @property
    def metric_name(self) -> str:
        """Name of the metric for readers."""
        return METRICS[self.metric].label

    @property
    def best(self) -> RankedRow:
        """The row with the best mean."""
        return self.lines[0]

    @property
    def other(self) -> RankedRow | None:
        """The best row besides the recommended one; None if there is no other."""
        return next((line for line in self.lines if line is not self.chosen), None)


def rank_candidates(scored: Sequence[Scored], *, task: str, naive: float, test_to_train: float) -> Ranking:
    """Rank rows that have a score in every fold, and recommend one.

    `naive` is the score without any feature, `test_to_train` the test rows of a fold divided by its other rows.
    """
    metric = TrainingConfig().metric_for(task).name  # the metric of early stopping
    lines = _lines(scored, metric, test_to_train)
    chosen, n_folds, label = _simplest(lines, naive), len(scored[0].scores[metric]), METRICS[metric].label
    networks = _lines([row for row in scored if row.kind == "encoding"], metric, test_to_train)
    best = _simplest(networks) if networks else None
    encoding = best and next(line for line in lines if line.scored is best.scored)
    sentences = [
        *_by_kind(lines, label),
        *_on_encodings(networks, best, n_folds),
        *_on_rows(lines),
        *_beside_naive(lines[0], chosen, naive, task=task, label=label),
    ]
    verdict = _verdict(lines, chosen, naive, label=label, task=task)
    return Ranking(metric, tuple(lines), chosen, encoding, verdict, tuple(sentences), naive)


def _lines(scored: Sequence[Scored], metric: str, test_to_train: float) -> list[RankedRow]:
    """Return the rows in order, with differences from the best one; of equal ones the simplest is first."""
    if not scored:
        return []
    table = np.stack([row.scores[metric] for row in scored], axis=1)
    mean, sd = table.mean(axis=0), table.std(axis=0, ddof=1)
    alone = [
        RankedRow(row, float(mean[place]), float(sd[place]), 0.0, 0.0, 0.0, 1.0) for place, row in enumerate(scored)
    ]
    order = sorted(range(len(scored)), key=lambda place: (mean[place], alone[place].cost))
    if len(scored) == 1:
        return alone
    result = compare_folds(table, test_to_train=test_to_train, level=1 - ALPHA, reference=order[0], simultaneous=True)
    numbers = np.stack([mean, sd, result.difference, result.low, result.high, result.adjusted], axis=1)
    return [RankedRow(scored[place], *numbers[place].tolist()) for place in order]


def _simplest(lines: Sequence[RankedRow], naive: float = math.inf) -> RankedRow:
    """Return the simplest row within `NEAR` of the best one that is not proven to be worse, and better than `naive`."""
    best = lines[0]
    most = min((1 + NEAR) * best.mean, naive)
    near = [line for line in lines if line is best or (line.p >= ALPHA and line.mean <= most)]
    return min(near, key=lambda line: line.cost)


def _verdict(lines: Sequence[RankedRow], chosen: RankedRow, naive: float, *, label: str, task: str) -> str:
    """Return the recommendation in a few words."""
    best, score = lines[0], f"{label} {significant(chosen.mean)}"
    other = next((line for line in lines if line is not chosen), None)
    if best.mean >= naive:
        return (
            f"trust none of these models: predicting {NAIVE[task]} has {label} {significant(naive)}, and the best of "
            f"them, {chosen.name}, {significant(chosen.mean)}"
        )
    if other is None:
        return f"take {chosen.name}: {score}, the only row"
    if chosen is not best:
        beside = f"within {100 * NEAR:.0f} % of the best, {best.name} ({significant(best.mean)})"
        return f"take {chosen.name}: {score}, {beside}, and simpler"
    if chosen.mean == other.mean:
        return f"take {chosen.name}: {score}, as good as {other.name}, and simpler"
    doubt = "" if other.p < ALPHA else f", though {len(chosen.scored.epochs)} folds do not prove it"
    change = f"{100 * (1 - chosen.mean / other.mean):.1f} % below the best other row, {other.name}"
    return f"take {chosen.name}: {score}, {change} ({significant(other.mean)}){doubt}"


def _by_kind(lines: Sequence[RankedRow], label: str) -> list[str]:
    """Return a sentence with the best row of each kind, the best kind first."""
    best: dict[str, RankedRow] = {}
    for line in lines:
        best.setdefault(line.kind, line)
    if len(best) == 1:
        return []
    words = [
        f"{KINDS[kind]}{f' ({line.candidate})' if kind == 'encoding' else ''} {significant(line.mean)}"
        for kind, line in best.items()
    ]
    return [f"{label} of the best of each kind, lower is better: {enumerate_words(words)}."]


def _on_encodings(lines: Sequence[RankedRow], chosen: RankedRow | None, n_folds: int) -> list[str]:
    """Return sentences on the encodings in single networks, whose differences are from the best of them."""
    if chosen is None or len(lines) == 1:
        return []
    best = lines[0]
    near = [line for line in lines if line is best or line.p >= ALPHA]
    if len(near) == 1:
        return [f"Among single networks, {best.candidate} is significantly better than all other encodings."]
    others = enumerate_words([str(line.candidate) for line in near[1:]])
    alike = "the encodings" if len(near) == len(lines) else f"{best.candidate} and {others}"
    doubt = f"no difference between {alike} is proven by {n_folds} folds, which does not mean that they are equal"
    if chosen is best:
        return [f"Among single networks, {best.candidate} is first; {doubt}."]
    return [
        f"Among single networks, {best.candidate} is first and {chosen.candidate} the cheapest within "
        f"{100 * NEAR:.0f} % of it; {doubt}."
    ]


def _on_rows(lines: Sequence[RankedRow]) -> list[str]:
    """Return sentences on what makes the ensemble's score differ from the others."""
    ensemble = next((line for line in lines if line.kind == "ensemble"), None)
    others = [line.scored.n_trained for line in lines if line.kind != "ensemble"]
    if ensemble is None or not others:
        return []
    sentences, n_trained = [], ensemble.scored.n_trained
    if abs(n_trained - max(others)) > SAME_ROWS * max(n_trained, *others):
        sentences.append(
            f"All rows of the ranking are scored on the same rows of the table, but models of the ensemble are trained "
            f"on {counted(n_trained)} rows each, others on {counted(max(others))}: part of the difference may "
            "come from that."
        )
    sentences.append(
        "The score of the ensemble is a little too good: the rows that it is scored by also decided the weights of its "
        "members, and when some of them stopped."
    )
    return sentences


def _beside_naive(best: RankedRow, chosen: RankedRow, naive: float, *, task: str, label: str) -> list[str]:
    """Return a sentence that compares the recommended row with a constant prediction."""
    sentence = f"predicting {NAIVE[task]} for all rows has {significant(naive)}"
    if best.mean >= naive:
        return [
            f"Warning: {sentence}, which is no worse than any row of the ranking. The features hardly predict the "
            "target with any model."
        ]
    share = f"{100 * (1 - chosen.mean / naive):.0f} %"
    return [f"For comparison, {sentence}: the recommended model is {share} lower in {label}."]
