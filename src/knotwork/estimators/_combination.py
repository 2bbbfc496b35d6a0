"""What the validation rows decide: which members predict, with which weights, and how important each column is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from knotwork._preparation.columns import Table
from knotwork.encoders._methods import Encoding
from knotwork.training._config import TrainingConfig
from knotwork.training._members import TrainingTable
from knotwork.training._metrics import Metric
from knotwork.training._results import Trained
from knotwork.training._stack import validation_scores

__all__ = ["Combination", "ValidationRows", "bagged_weights", "combine", "greedy_weights", "shuffled_losses"]

FloatArray = npt.NDArray[np.float64]
ROUNDS = 20
"""Most members that `greedy_weights` adds."""

BAGS = 20
MOST_DRAWN = 4000
"""`bagged_weights` is the mean over this many draws of validation rows, each of at most so many rows."""

LEAST_SHARE = 0.2
"""Members with less than this part of an equal weight are dropped: predicting with them costs more than it gains."""

ENTRIES = 2**22
"""Predictions of weighted means that are held in memory at a time."""

LARGEST = float(np.finfo(np.float64).max)
FARTHEST = 1e300
"""Predictions and targets farther from the mean, in units of the spread, are moved here: sums of them stay finite."""

SMALLEST = 1e-300
"""Smallest probability: its logarithm is finite."""


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """Predictions of members for the validation rows, to score weighted means of them.

    Parameters
    ----------
    predictions : ndarray of shape (n_members, n, d_out)
        Numbers in units of the target's spread, or probabilities of classes.
    target : ndarray of shape (n,)
        The target, in these units, or class codes.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    task : {"regression", "classification"}
        The task.
    config : TrainingConfig
        Names the metric.
    """

    predictions: FloatArray
    target: npt.NDArray[Any]
    weights: FloatArray | None
    task: str
    config: TrainingConfig

    @classmethod
    def from_trained(
        cls, trained: Trained, table: TrainingTable, rows: npt.NDArray[np.int64], config: TrainingConfig
    ) -> "ValidationRows":
        """Predict rows of a table by members that were trained on the same rows."""
        outputs = np.stack(trained.outputs(table.numbers[rows], table.codes[rows]))
        weights = None if table.weights is None else table.weights[rows]
        target = table.target[rows]
        if table.task == "classification":
            return cls(softmax(outputs, axis=-1), target, weights, table.task, config)
        shift, scale = float(trained.pieces[0].shift[0]), float(trained.pieces[0].scale[0])
        with np.errstate(over="ignore"):  # halves: the difference of two targets may overflow
            scaled = [(0.5 * values - 0.5 * shift) / (0.5 * scale) for values in (outputs, target)]
        outputs, target = (np.clip(values, -FARTHEST, FARTHEST) for values in scaled)
        return cls(outputs, target, weights, table.task, config)

    def take(self, rows: npt.NDArray[np.int64]) -> "ValidationRows":
        """Return the rows of an index, which may repeat."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, predictions=self.predictions[:, rows], target=self.target[rows], weights=weights)

    def scores(self, shares: FloatArray) -> FloatArray:
        """Return the scores of k weighted means, smaller is better, for shares of the members of shape (k, n_members).

        Scores that are not finite become `LARGEST`, the worst.
        """
        flat = self.predictions.reshape(len(self.predictions), -1)
        at_once = max(ENTRIES // flat.shape[1], 1)
        parts = [self._scores(part @ flat) for part in np.split(shares, range(at_once, len(shares), at_once))]
        return np.nan_to_num(np.concatenate(parts), nan=LARGEST, posinf=LARGEST)

    def _scores(self, means: FloatArray) -> FloatArray:
        means = means.reshape(len(means), *self.predictions.shape[1:])
        if self.task == "classification":  # metrics take logits
            means = np.log(np.maximum(means, SMALLEST))
        target = torch.from_numpy(self.target).expand(len(means), -1)
        weights = None if self.weights is None else torch.from_numpy(self.weights).expand(len(means), -1)
        scores: FloatArray = validation_scores(self.config, self.task, torch.from_numpy(means), target, weights).numpy()
        return scores


def greedy_weights(score: Callable[[FloatArray], FloatArray], n_members: int, *, rounds: int = ROUNDS) -> FloatArray:
    """Return weights of members, not negative and of sum one, whose mean is never worse than the best member alone.

    `score` maps weights of shape (k, n_members) to k scores, where smaller is better.

    Notes
    -----
    Ensemble selection of Caruana and others (2004), with replacement: in every round add the member with which the mean
    is best, whether it was added before or not; its weight is its share of the additions. The result is that of the
    best round, of equal ones the first.

    Examples
    --------
    >>> optimum = np.array([0.75, 0.25])
    >>> greedy_weights(lambda shares: np.abs(shares - optimum).sum(axis=1), 2)
    array([0.75, 0.25])
    """
    counts, chosen, best = np.zeros(n_members), np.ones(n_members) / n_members, np.inf
    for n_chosen in range(1, rounds + 1):
        scores = score((counts + np.eye(n_members)) / n_chosen)
        place = int(scores.argmin())
        counts[place] += 1
        if scores[place] < best:
            chosen, best = counts / n_chosen, scores[place]
    return chosen


def bagged_weights(rows: ValidationRows, *, seed: int) -> FloatArray:
    """Return the mean of `greedy_weights` over random draws of the rows with replacement, without small weights.

    Notes
    -----
    The weights that are best on a few hundred rows are often those of one or two members, by chance. On eight of the
    study's tables, cut to 4,000 rows, 320 of them for validation, the mean over draws had the smaller test error on
    five, and one that was 2.5 % smaller on average.
    """
    random = np.random.RandomState(seed)
    n_members, n_rows = rows.predictions.shape[:2]
    total = np.zeros(n_members)
    for _ in range(BAGS):
        drawn = rows.take(random.randint(n_rows, size=min(n_rows, MOST_DRAWN)))
        total += greedy_weights(drawn.scores, n_members)
    total[total < LEAST_SHARE * total.sum() / n_members] = 0.0
    weights: FloatArray = total / total.sum()
    return weights


@dataclass(frozen=True, eq=False)
class Combination:
    """The members that predict, and their weights.

    Parameters
    ----------
    trained : Trained
        The members that predict.
    candidates : list of int
        The index of each member's candidate.
    weights : ndarray of shape (n_members,)
        Their weights, larger than 0 and of sum one.
    table : list of dict
        Score and weight of every candidate.
    """

    trained: Trained
    candidates: list[int]
    weights: FloatArray
    table: list[dict[str, Any]]


def combine(
    search: str,
    trained: Trained,
    candidates: Sequence[Encoding],
    *,
    table: TrainingTable,
    held: npt.NDArray[np.int64],
    config: TrainingConfig,
    seed: int,
) -> Combination:
    """Choose members by the validation rows.

    Members without a finite score are ignored, as are those that Ctrl-C stopped before their first epoch; at least one
    other is needed.

    Parameters
    ----------
    search : {"validated", "ensemble"}
        Choose the members of the best candidate, or those that are best together.
    trained : Trained
        Members of every candidate, candidate after candidate, the same number of each.
    candidates : sequence of Encoding
        The candidates.
    table : TrainingTable
        The table that they were trained on.
    held : ndarray of int
        The validation rows.
    config : TrainingConfig
        The configuration of their training.
    seed : int
        Random seed of `bagged_weights`.
    """
    usable = np.flatnonzero([history.best_epoch >= 0 for history in trained.histories])
    rows = ValidationRows.from_trained(trained.keep(usable.tolist()), table, held, config)
    owners = usable // (len(trained.histories) // len(candidates))
    belongs = owners == np.arange(len(candidates))[:, None]  # (n_candidates, n_members)
    counts = belongs.sum(axis=1)
    means = belongs / np.maximum(counts, 1)[:, None]
    scores = np.where(counts > 0, rows.scores(means), np.inf)
    weights = means[scores.argmin()] if search == "validated" else bagged_weights(rows, seed=seed)
    chosen = weights > 0
    return Combination(
        trained.keep(usable[chosen].tolist()),
        owners[chosen].tolist(),
        weights[chosen],
        _described(candidates, trained, scores, weights=belongs @ weights, metric=config.metric_for(table.task)),
    )


def _described(
    candidates: Sequence[Encoding], trained: Trained, scores: FloatArray, *, weights: FloatArray, metric: Metric
) -> list[dict[str, Any]]:
    """Return `TabularRegressor.candidates_`; `scores` are negated where larger is better."""
    n_members = len(trained.histories) // len(candidates)
    sign = 1.0 if metric.lower_is_better else -1.0
    return [
        {
            "method": candidate.method,
            "size": candidate.size,
            "score": sign * float(score) if score < LARGEST else np.nan,
            "metric": metric.name,
            "seconds": sum(one.seconds for one in trained.histories[place * n_members : (place + 1) * n_members]),
            "weight": float(weight),
        }
        for place, (candidate, score, weight) in enumerate(zip(candidates, scores, weights, strict=True))
    ]


def shuffled_losses(table: Table, roles: Sequence[str], loss: Callable[[Table], float]) -> FloatArray:
    """Return the increase of a loss when a column is shuffled, one number for each column of the user's table.

    The rows of `table` should not be training rows. `roles` are ``"numerical"`` or ``"categorical"``, in the order of
    the user's columns. All columns are shuffled in the same order, so that their numbers can be compared.
    """
    before = loss(table)
    order = np.random.RandomState(0).permutation(len(table.numbers))
    gains, numerical, categorical = [], 0, 0
    for role in roles:
        numbers, codes = table.numbers.copy(), table.codes.copy()
        if role == "numerical":
            numbers[:, numerical] = numbers[order, numerical]
            numerical += 1
        else:
            codes[:, categorical] = codes[order, categorical]
            categorical += 1
        gains.append(loss(Table(numbers, codes)) - before)
    return np.array(gains)
