"""The ranking of encodings, baselines and the saved ensemble, and the recommendation in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from knotwork._writing import significant
from knotwork.compare._scoring import Scored
from knotwork.encoders import Encoding
from knotwork.report import enumerate_words
from knotwork.stats import compare_folds
from knotwork.training import METRICS, TrainingConfig

NAIVE = {"regression": "the mean of the target", "classification": "the shares of the classes"}

ALPHA = 0.05
"""Level of significance, a convention."""

NEAR = 0.01
"""A row may be recommended in place of a better one only if its mean score is within this share of it: half of the 2 %
that a recommendation may lose on new rows, whose scores vary as well."""

HOW = (
    "Differences are from the best encoding and paired over folds. Their 95 % intervals and p-values belong to one "
    "procedure, which holds for all rows together: the corrected resampled t-test (Nadeau and Bengio, 2003), which "
    "allows for the rows that folds share, at Sidak's level for the number of comparisons. So an interval excludes 0 "
    "exactly if p is below 0.05. The best encoding is chosen by the same folds, so its lead is a little too large."
)


@dataclass(frozen=True, eq=False)
class RankedRow:
    """A row of the ranking: an encoding in a single network, a baseline, or the saved ensemble.

    Mean and standard deviation of the score over folds; difference from the best encoding with its simultaneous
    interval from `low` to `high`, positive if worse; `p` is the adjusted p-value, 1 for the best encoding.
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
        """The encoding, or the name of the baseline or ensemble."""
        return self.scored.candidate

    @property
    def kind(self) -> str:
        """``"encoding"``, ``"linear"``, ``"boosting"`` or ``"ensemble"``."""
        return self.scored.kind

    @property
    def is_baseline(self) -> bool:
        """Whether the row is no network."""
        return self.kind in ("linear", "boosting")

    @property
    def seconds(self) -> float:
        """Seconds of preparing and training one network, one baseline, or the ensemble."""
        return self.scored.prepare_seconds + self.scored.train_seconds

    @property
    def cost(self) -> tuple[int, float]:
        """Sort key of the cheapest: parameters, then seconds, which vary from run to run."""
        return self.scored.n_parameters or 0, self.seconds


@dataclass(frozen=True, eq=False)
class Ranking:
    """All rows, the best mean first, and the recommendation.

    Rows are ranked by `metric`; lower is better. `reference` is the best encoding, from which differences are taken,
    `encoding` the recommended encoding. `chosen` is the recommended row: the saved model, the recommended encoding or
    the best row, the first of these that is within `NEAR` of the best mean. `verdict` is the recommendation in a few
    words, `sentences` the reasons, `naive` the score without any feature.
    """

    metric: str
    lines: tuple[RankedRow, ...]
    reference: RankedRow
    encoding: RankedRow
    chosen: RankedRow
    verdict: str
    sentences: tuple[str, ...]
    naive: float

    @property
    def metric_name(self) -> str:
        """Name of the metric for readers."""
        return METRICS[self.metric].label

    @property
    def best_baseline(self) -> RankedRow | None:
        """The baseline with the best mean; None without baselines."""
        return next((line for line in self.lines if line.is_baseline), None)

    @property
    def saved(self) -> RankedRow:
        """The row of the model that is saved: the ensemble or, without one, the recommended encoding."""
        return next((line for line in self.lines if line.kind == "ensemble"), self.encoding)


def rank_candidates(scored: Sequence[Scored], *, task: str, naive: float, test_to_train: float) -> Ranking:
    """Rank rows that have a score in every fold, at least one of them an encoding, and recommend one.

    `naive` is the score without any feature, `test_to_train` the test rows of a fold divided by its other rows.
    """
    metric = TrainingConfig().metric_for(task).name  # the metric of early stopping
    lines = _lines(scored, metric, test_to_train)
    encodings = [line for line in lines if line.kind == "encoding"]
    n_folds = len(scored[0].scores[metric])
    encoding, advice, reasons = _choose_encoding(encodings, METRICS[metric].label, n_folds)
    ranking = Ranking(metric, tuple(lines), encodings[0], encoding, encoding, advice, (), naive)
    best = lines[0]
    chosen = next(line for line in (ranking.saved, encoding, best) if line.mean <= (1 + NEAR) * best.mean)
    verdict = advice if chosen is encoding else _verdict_on_model(ranking, chosen, n_folds)
    sentences = [*reasons, *_beside_baselines(ranking, chosen), *_beside_naive(ranking, task)]
    return replace(ranking, chosen=chosen, verdict=verdict, sentences=tuple(sentences))


def _lines(scored: Sequence[Scored], metric: str, test_to_train: float) -> list[RankedRow]:
    """Return the rows in order, with differences from the best encoding."""
    table = np.stack([row.scores[metric] for row in scored], axis=1)
    mean, sd = table.mean(axis=0), table.std(axis=0, ddof=1)
    order = sorted(range(len(scored)), key=lambda place: (mean[place], scored[place].n_parameters or 0))
    if len(scored) == 1:
        return [RankedRow(scored[0], float(mean[0]), float(sd[0]), 0.0, 0.0, 0.0, 1.0)]
    reference = next(place for place in order if scored[place].kind == "encoding")
    result = compare_folds(table, test_to_train=test_to_train, level=1 - ALPHA, reference=reference, simultaneous=True)
    numbers = np.stack([mean, sd, result.difference, result.low, result.high, result.adjusted], axis=1)
    return [RankedRow(scored[place], *numbers[place].tolist()) for place in order]


def _choose_encoding(lines: list[RankedRow], metric: str, n_folds: int) -> tuple[RankedRow, str, list[str]]:
    """Return the recommended encoding, the advice in a few words, and its reasons."""
    best, share = lines[0], f"{100 * NEAR:.0f} %"
    near = [line for line in lines if line is best or line.p >= ALPHA]
    good = [line for line in near if line.mean <= (1 + NEAR) * best.mean]
    chosen = min(good, key=lambda line: line.cost)
    take = f"take {chosen.candidate}"
    first = (
        f"{best.candidate} is the encoding with the best mean {metric}, {significant(best.mean)} over {n_folds} folds."
    )
    if len(lines) == 1:
        return chosen, take, [first, "It is the only candidate."]
    if len(near) == 1:
        reasons = [first, "All other encodings are significantly worse."]
        return chosen, f"{take}: significantly better than all other encodings", reasons
    others = enumerate_words([str(line.candidate) for line in near[1:]])
    alike = "the encodings" if len(near) == len(lines) else f"{best.candidate} and {others}"
    doubt = f"No difference between {alike} is proven by {n_folds} folds, which does not mean that they are equal."
    if len(good) == 1:
        lead = (
            f"Its lead of {100 * (near[1].mean / best.mean - 1):.2f} % is not proven, but no other encoding is within "
            f"{share} of it. More folds or rows (a larger --time-budget) may decide."
        )
        return chosen, f"{take}: the best mean, though not proven by {n_folds} folds", [first, doubt, lead]
    cheapest = (
        f"Of the encodings within {share} of the best mean, {chosen.candidate} is the cheapest: "
        f"{chosen.scored.n_parameters:,} parameters, {chosen.seconds:.1f} s for a network."
    )
    advice = f"{take}, the cheapest within {share} of the best: no difference is proven"
    return chosen, advice, [first, doubt, cheapest]


def _verdict_on_model(ranking: Ranking, chosen: RankedRow, n_folds: int) -> str:
    """Return the verdict if the recommended row is the ensemble or a baseline."""
    other = ranking.reference if chosen is ranking.saved else ranking.saved
    beside = f"the best single network ({other.candidate})" if other is ranking.reference else "the saved model"
    name = f"the saved {chosen.candidate}" if chosen is ranking.saved else str(chosen.candidate)
    score = f"{ranking.metric_name} {significant(chosen.mean)}"
    change = _percent(chosen.mean, other.mean)
    if chosen.mean > other.mean:
        return f"take {name}: {score}, as good as {beside} within {100 * NEAR:.0f} %"
    doubt = "" if chosen.p < ALPHA else f", though {n_folds} folds do not prove a difference from the best encoding"
    return f"take {name}: {score}, {change} below {beside}{doubt}"


def _beside_baselines(ranking: Ranking, chosen: RankedRow) -> list[str]:
    """Return sentences that compare the saved model with boosting and the linear model."""
    saved, best = ranking.saved, ranking.best_baseline
    if best is None:
        return []
    model = f"the saved {saved.candidate}" if saved.kind == "ensemble" else f"a network with {saved.candidate}"
    name = str(best.candidate)
    better = f"{name[0].upper()}{name[1:]} is better than {model} by {_percent(best.mean, saved.mean)}"
    if chosen is best:
        return [
            f"{better} and is trained in {best.seconds:.1f} s: take it, or give the networks more time (--time-budget, "
            "--effort best). The model that was saved is a network: fit the baseline by its own library."
        ]
    if best.mean < saved.mean:
        return [f"{better}, and is trained in {best.seconds:.1f} s: take it if speed or simplicity matters."]
    scores = [f"{line.candidate} {significant(line.mean)}" for line in ranking.lines if line.is_baseline]
    return [f"Baselines on the same folds: {enumerate_words(scores)}; {model} has {significant(saved.mean)}."]


def _percent(score: float, other: float) -> str:
    return f"{100 * abs(1 - score / other) if other else 0.0:.1f} %"


def _beside_naive(ranking: Ranking, task: str) -> list[str]:
    """Return a sentence that compares the best row with a constant prediction."""
    best, naive = ranking.lines[0], ranking.naive
    sentence = f"predicting {NAIVE[task]} for all rows has {significant(naive)}"
    if best.mean >= naive:
        return [
            f"Warning: {sentence}, which is no worse than any row of the ranking. The features hardly predict the "
            "target with any encoding."
        ]
    return [
        f"For comparison, {sentence}: the best is {100 * (1 - best.mean / naive):.0f} % lower in {ranking.metric_name}."
    ]


def explain_gain(ranking: Ranking, score: float, *, n_models: int, n_compared: int) -> str:
    """Return sentences on what an ensemble gains over a single network with the recommended encoding.

    `score` is that of the ensemble for the `n_compared` rows of the comparison, by the metric of the ranking.
    """
    single, name = ranking.encoding.scored.pooled[ranking.metric], ranking.metric_name
    change = 100 * (score / single - 1) if single > 0 else 0.0
    amount = f"{abs(change):.1f} % {'less' if change <= 0 else 'more'} than"
    return (
        f"The saved model is an ensemble of {n_models} models: {name} {significant(score)} out of fold, {amount} "
        f"the {significant(single)} of a single network with {ranking.encoding.candidate}. Both scores are over the "
        f"same {n_compared:,} rows, each predicted by networks that were not trained on it. The score of the ensemble "
        "is a little too good: the same rows decided when its training stopped, and the weights of its members."
        f"{' To save the single network instead, use --effort single.' if change > 0 else ''}"
    )
