"""The ranking of the candidates, and the recommendation in sentences."""

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

__all__ = ["HOW", "Line", "Ranking", "baseline_scores", "explain_gain", "rank_candidates", "significant"]

NAIVE = {"regression": "the mean of the target", "classification": "the shares of the classes"}

ALPHA = 0.05
NEAR = 0.01
"""Candidates that do not differ significantly from the best are equally good if their mean is within this share."""

HOW = (
    "Differences from the best are paired over folds; their 95 % intervals and p-values are those of the corrected "
    "resampled t-test (Nadeau and Bengio, 2003), which allows for the rows that folds share, with Holm's adjustment of "
    "the p-values for the number of candidates. The best is chosen by the same folds, so its lead is a little too "
    "large."
)


@dataclass(frozen=True, eq=False)
class Line:
    """A candidate in the ranking.

    Mean and standard deviation of the score over folds; difference from the best with its interval from `low` to
    `high`, positive if worse; `p` is the adjusted p-value, 1 for the best.
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
        """The encoding of the candidate."""
        return self.scored.candidate

    @property
    def seconds(self) -> float:
        """Seconds of fitting the encoding and training one network."""
        return self.scored.prepare_seconds + self.scored.train_seconds

    @property
    def cost(self) -> tuple[int, float]:
        """Sort key of the cheapest: parameters, then seconds, which vary from run to run."""
        return self.scored.n_parameters, self.seconds


@dataclass(frozen=True, eq=False)
class Ranking:
    """The candidates, the best first, and the recommended one.

    Candidates are ranked by `metric`; lower is better. `verdict` is the recommendation in a few words, `sentences` the
    reasons, `baseline` the score without any feature.
    """

    metric: str
    lines: tuple[Line, ...]
    chosen: Line
    verdict: str
    sentences: tuple[str, ...]
    baseline: float

    @property
    def metric_name(self) -> str:
        """Name of the metric for readers."""
        return METRICS[self.metric].label


def significant(value: float, digits: int = 4) -> str:
    """Format a number with significant digits, with an exponent only if it is very small or large.

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
    """Return the score in each fold of a constant prediction: the mean, or the shares of the classes."""
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
    """Rank candidates that have a score in every fold, and recommend one.

    The baseline has the scores without any feature, of shape (n_folds,).
    """
    metric = TrainingConfig().metric_for(task).name  # the metric of early stopping
    table = np.stack([candidate.scores[metric] for candidate in scored], axis=1)
    lines = _lines(scored, table)
    best = lines[0]
    near = [line for line in lines if line is best or line.p >= ALPHA]
    good = [line for line in near if line.mean <= (1 + NEAR) * best.mean]
    chosen = min(good, key=lambda line: line.cost)
    verdict, sentences = _explain(lines, near, good, chosen, metric=metric, n_folds=len(table))
    sentences += _beside_baseline(best, float(baseline.mean()), task=task, metric=metric)
    return Ranking(metric, tuple(lines), chosen, verdict, tuple(sentences), float(baseline.mean()))


def _lines(scored: Sequence[Scored], table: npt.NDArray[np.float64]) -> list[Line]:
    mean, sd = table.mean(axis=0), table.std(axis=0, ddof=1)
    if len(scored) == 1:
        return [Line(scored[0], float(mean[0]), float(sd[0]), 0.0, 0.0, 0.0, 1.0)]
    comparison = compare_folds(table, test_to_train=1 / (len(table) - 1))
    numbers = np.stack([mean, sd, comparison.difference, comparison.low, comparison.high, comparison.adjusted], axis=1)
    order = sorted(range(len(scored)), key=lambda place: (mean[place], scored[place].n_parameters))
    order.remove(comparison.best)
    return [Line(scored[place], *map(float, numbers[place])) for place in (comparison.best, *order)]


def _explain(
    lines: list[Line], near: list[Line], good: list[Line], chosen: Line, *, metric: str, n_folds: int
) -> tuple[str, list[str]]:
    """Return the verdict and its reasons."""
    best, name = lines[0], METRICS[metric].label
    take = f"take {chosen.candidate}"
    first = f"{best.candidate} has the best mean {name}, {significant(best.mean)} over {n_folds} folds."
    if len(lines) == 1:
        return take, [first, "It is the only candidate."]
    if len(near) == 1:
        return f"{take}: significantly better than all others", [first, "All others are significantly worse."]
    others = enumerate_words([str(line.candidate) for line in near if line is not best])
    alike = "the candidates" if len(near) == len(lines) else f"{best.candidate} and {others}"
    verdict = f"no significant difference between {alike}"
    reasons = [first, f"{verdict[0].upper()}{verdict[1:]}."]
    if len(good) == 1:
        lead = near[1].mean / best.mean - 1
        reasons.append(
            f"Its lead of {100 * lead:.2f} % is not significant with {n_folds} folds, but no other candidate is within "
            f"{100 * NEAR:.0f} % of it. More folds or rows (a larger --time-budget) may decide."
        )
        return f"{take}: the best mean, though not significantly", reasons
    reasons.append(
        f"Of the candidates within {100 * NEAR:.0f} % of the best mean, {chosen.candidate} is the cheapest: "
        f"{chosen.scored.n_parameters:,} parameters, {chosen.seconds:.1f} s for a network."
    )
    prefix = "no significant difference: " if len(near) == len(lines) else ""
    return f"{prefix}{take}, the cheapest equally good one", reasons


def _beside_baseline(best: Line, baseline: float, *, task: str, metric: str) -> list[str]:
    """Return a sentence that compares the best candidate with the baseline."""
    naive = f"predicting {NAIVE[task]} for all rows has {significant(baseline)}"
    if best.mean >= baseline:
        return [
            f"Warning: {naive}, which is no worse than any candidate. The features hardly predict the target, whatever "
            "their encoding."
        ]
    gain = 100 * (1 - best.mean / baseline)
    return [f"For comparison, {naive}: the best is {gain:.0f} % lower in {METRICS[metric].label}."]


def explain_gain(ranking: Ranking, score: float, *, n_networks: int, n_rows: int, n_compared: int) -> str:
    """Return sentences on what an ensemble gains over a single network with the recommended encoding.

    Parameters
    ----------
    ranking : Ranking
        The recommendation, with the score of the single network.
    score : float
        The score of the ensemble, by the metric of the ranking, for rows that its networks were not trained on: the
        rows of the comparison, or its own if they are fewer.
    n_networks : int
        Number of networks of the ensemble.
    n_rows, n_compared : int
        Number of rows of the ensemble, and of the comparison.
    """
    single, name = ranking.chosen.scored.pooled[ranking.metric], ranking.metric_name
    change = 100 * (score / single - 1) if single > 0 else 0.0
    amount = f"{abs(change):.1f} % {'less' if change <= 0 else 'more'} than"
    rows = "Both scores are over the same"
    if n_rows < n_compared:
        rows = f"Its score is over {n_rows:,} rows, that of the single network over"
    learned = f"; the ensemble learned from {n_rows:,} rows" if n_rows > n_compared else ""
    sentences = [
        f"The saved model is an ensemble of {n_networks} networks: {name} {significant(score)} out of fold, {amount} "
        f"the {significant(single)} of a single network with {ranking.chosen.candidate}.",
        f"{rows} {n_compared:,} rows, each predicted by networks that were not trained on it{learned}.",
        "The score of the ensemble is a little too good: the same rows decided when its training stopped, and the "
        "weights of its networks.",
    ]
    if change > 0:
        sentences.append("To save the single network instead, use --effort single.")
    return " ".join(sentences)
