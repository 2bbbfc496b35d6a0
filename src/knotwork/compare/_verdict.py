"""The ranking of the candidates, and what follows from it, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knotwork._preparation.members import PreparedTable
from knotwork.compare._scoring import Scored
from knotwork.encoders._methods import Encoding
from knotwork.report._words import enumerate_words
from knotwork.stats import compare_folds
from knotwork.training import METRICS, TrainingConfig

__all__ = ["HOW", "Line", "Ranking", "baseline_scores", "rank_candidates", "significant"]

NAIVE = {"regression": "the mean of the target", "classification": "the shares of the classes"}

ALPHA = 0.05
NEAR = 0.01
"""Candidates that are not told apart from the best are as good if their mean is within this share of its own."""

HOW = (
    "Differences from the best are paired over folds; their 95 % intervals and p-values are those of the corrected "
    "resampled t-test (Nadeau and Bengio, 2003), which allows for the rows that folds share, with Holm's adjustment of "
    "the p-values for the number of candidates. The best is chosen by the same folds, so its lead is a little too "
    "large."
)


@dataclass(frozen=True, eq=False)
class Line:
    """A candidate in the ranking.

    Parameters
    ----------
    scored : Scored
        What came out of it.
    mean, sd : float
        Of the score, over folds.
    difference, low, high : float
        By how much it is worse than the best, and the interval of that.
    p : float
        Adjusted p-value; 1 for the best.
    """

    scored: Scored
    mean: float
    sd: float
    difference: float
    low: float
    high: float
    p: float

    @property
    def candidate(self) -> Encoding:
        """The encoding."""
        return self.scored.candidate

    @property
    def seconds(self) -> float:
        """Seconds for one network, fitting of the encoding included."""
        return self.scored.prepare_seconds + self.scored.train_seconds

    @property
    def cost(self) -> tuple[int, float]:
        """What candidates are ordered by to find the cheapest: parameters, then seconds."""
        return self.scored.n_parameters, self.seconds


@dataclass(frozen=True, eq=False)
class Ranking:
    """The candidates in order, and what is recommended.

    Parameters
    ----------
    metric : str
        What they are ranked by; lower is better.
    lines : tuple of Line
        The candidates, the best first.
    chosen : Line
        The recommended one.
    verdict : str
        The recommendation in a few words.
    sentences : tuple of str
        Why.
    baseline : float
        The score without any feature.
    """

    metric: str
    lines: tuple[Line, ...]
    chosen: Line
    verdict: str
    sentences: tuple[str, ...]
    baseline: float

    @property
    def metric_name(self) -> str:
        """The metric, for people."""
        return METRICS[self.metric].label


def significant(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits, without an exponent where that can be read.

    Examples
    --------
    >>> significant(1234.567), significant(0.012345), significant(0.0), significant(1e-9)
    ('1,235', '0.01235', '0', '1.000e-09')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    place = math.floor(math.log10(abs(value)))
    if not -6 < place < 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(digits - 1 - place, 0)}f}"


def baseline_scores(prepared: PreparedTable) -> npt.NDArray[np.float64]:
    """Return for each fold the score of predicting the same for all rows: mean, or shares of the classes."""
    table, out = prepared.table, []
    for split in prepared.splits:
        known = table.target[np.concatenate([split.train, split.valid])]
        tested = table.target[split.test]
        if table.task == "regression":
            out.append(float(np.sqrt(np.mean((tested - known.mean()) ** 2))))
        else:
            shares = (np.bincount(known, minlength=table.n_classes) + 1) / (len(known) + table.n_classes)
            out.append(float(-np.log(shares[tested]).mean()))
    return np.array(out)


def rank_candidates(scored: Sequence[Scored], *, task: str, baseline: npt.NDArray[np.float64]) -> Ranking:
    """Rank candidates that have a score in every fold, and say which to take.

    Parameters
    ----------
    scored : sequence of Scored
        At least one.
    task : {"regression", "classification"}
        What is predicted.
    baseline : ndarray of shape (n_folds,)
        Scores without any feature.
    """
    metric = TrainingConfig().metric_for(task).name  # training is stopped by it, too
    table = np.stack([each.scores[metric] for each in scored], axis=1)
    lines = _lines(scored, table)
    best = lines[0]
    near = [line for line in lines if line is best or line.p >= ALPHA]
    good = [line for line in near if line.mean <= (1 + NEAR) * best.mean]
    chosen = min(good, key=lambda line: line.cost)
    verdict, sentences = _words(lines, near, good, chosen, metric=metric, n_folds=len(table))
    sentences += _limits(best, float(baseline.mean()), task=task, metric=metric)
    return Ranking(metric, tuple(lines), chosen, verdict, tuple(sentences), float(baseline.mean()))


def _lines(scored: Sequence[Scored], table: npt.NDArray[np.float64]) -> list[Line]:
    mean, sd = table.mean(axis=0), table.std(axis=0, ddof=1)
    if len(scored) == 1:
        return [Line(scored[0], float(mean[0]), float(sd[0]), 0.0, 0.0, 0.0, 1.0)]
    found = compare_folds(table, test_to_train=1 / (len(table) - 1))
    numbers = np.stack([mean, sd, found.difference, found.low, found.high, found.adjusted], axis=1)
    order = sorted(range(len(scored)), key=lambda place: (mean[place], scored[place].n_parameters))
    order.remove(found.best)
    return [Line(scored[place], *map(float, numbers[place])) for place in (found.best, *order)]


def _words(
    lines: list[Line], near: list[Line], good: list[Line], chosen: Line, *, metric: str, n_folds: int
) -> tuple[str, list[str]]:
    """Return the verdict and the sentences."""
    best, name = lines[0], METRICS[metric].label
    take = f"take {chosen.candidate}"
    first = f"{best.candidate} has the best mean {name}, {significant(best.mean)} over {n_folds} folds."
    if len(lines) == 1:
        return take, [first, "It is the only candidate that was compared."]
    if len(near) == 1:
        return f"{take}: significantly better than all others", [first, "All others are significantly worse."]
    others = enumerate_words([str(line.candidate) for line in near if line is not best])
    alike = "the candidates" if len(near) == len(lines) else f"{best.candidate} and {others}"
    verdict = f"no significant difference between {alike}"
    said = [first, f"{verdict[0].upper()}{verdict[1:]}."]
    if len(good) == 1:
        lead = near[1].mean / best.mean - 1
        said.append(
            f"Its lead of {100 * lead:.2f} % is not proven by {n_folds} folds, yet no other is within "
            f"{100 * NEAR:.0f} % of it. More folds or rows (a larger --time-budget) may tell."
        )
        return f"{take}: the best mean, though not significantly", said
    said.append(
        f"Of those within {100 * NEAR:.0f} % of the best mean, {chosen.candidate} is the cheapest: "
        f"{chosen.scored.n_parameters:,} parameters, {chosen.seconds:.1f} s for a network."
    )
    return f"{'no significant difference: ' if len(near) == len(lines) else ''}{take}, the cheapest as good", said


def _limits(best: Line, baseline: float, *, task: str, metric: str) -> list[str]:
    """Say how much is gained over no features at all."""
    naive = f"predicting {NAIVE[task]} for all rows has {significant(baseline)}"
    if best.mean >= baseline:
        return [
            f"Beware: {naive}, which is no worse than any candidate. The features say little about the target: no "
            "encoding can help."
        ]
    gain = 100 * (1 - best.mean / baseline)
    return [f"For comparison, {naive}: the best is {gain:.0f} % lower in {METRICS[metric].label}."]
