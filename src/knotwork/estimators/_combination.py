"""What the validation rows decide: which members predict, with which weights, and how important each column is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from knotwork._preparation.columns import Table
from knotwork.estimators._plans import Plan
from knotwork.training._config import TrainingConfig
from knotwork.training._members import Member, TrainingTable
from knotwork.training._metrics import Metric
from knotwork.training._results import Trained
from knotwork.training._stack import validation_scores

__all__ = ["Combination", "ValidationRows", "bagged_weights", "combine", "greedy_weights", "shuffled_losses"]

FloatArray = npt.NDArray[np.float64]
ROUNDS = 20
"""Most members that `greedy_weights` adds."""

BAGS, FEWER_BAGS, MANY_ROWS = 20, 8, 2000
MOST_DRAWN = 4000
"""`bagged_weights` is the mean over this many draws of validation rows, fewer of many rows, each of at most so many."""

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
    """Predictions of bags of members for the validation rows, to score weighted means of them.

    Parameters
    ----------
    predictions : ndarray of shape (n_bags, n, d_out)
        Numbers in units of the target's spread, or probabilities of classes.
    target : ndarray of shape (n,)
        The target, in these units, or class codes.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    task : {"regression", "classification"}
        The task.
    config : TrainingConfig
        Names the metric.
    shift, scale : float
        The target is ``shift + scale * target``.
    """

    predictions: FloatArray
    target: npt.NDArray[Any]
    weights: FloatArray | None
    task: str
    config: TrainingConfig
    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def from_trained(
        cls, trained: Trained, table: TrainingTable, members: Sequence[Member], *, n_folds: int, config: TrainingConfig
    ) -> "ValidationRows":
        """Predict the validation rows of the folds by the bags of members.

        A bag is a network for every fold, of one recipe and random seed: together they predict each row once.
        `members` are bag after bag, with the same folds.
        """
        outputs = trained.outputs(table.numbers, table.codes, [member.valid for member in members])
        starts = range(0, len(members), n_folds)
        predictions = np.stack([np.concatenate(outputs[start : start + n_folds]) for start in starts])
        rows = np.concatenate([member.valid for member in members[:n_folds]])
        weights = None if table.weights is None else table.weights[rows]
        target = table.target[rows]
        if table.task == "classification":
            return cls(softmax(predictions, axis=-1), target, weights, table.task, config)
        shift, scale = float(trained.pieces[0].shift[0]), float(trained.pieces[0].scale[0])
        with np.errstate(over="ignore"):  # halves: the difference of two targets may overflow
            scaled = [(0.5 * values - 0.5 * shift) / (0.5 * scale) for values in (predictions, target)]
        predictions, target = (np.clip(values, -FARTHEST, FARTHEST) for values in scaled)
        return cls(predictions, target, weights, table.task, config, shift, scale)

    def take(self, rows: npt.NDArray[np.int64]) -> "ValidationRows":
        """Return the rows of an index, which may repeat."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, predictions=self.predictions[:, rows], target=self.target[rows], weights=weights)

    def scores(self, shares: FloatArray) -> FloatArray:
        """Return the scores of k weighted means, smaller is better, for shares of the bags, of shape (k, n_bags).

        Scores that are not finite become `LARGEST`, the worst.
        """
        flat = self.predictions.reshape(len(self.predictions), -1)
        at_once = max(ENTRIES // flat.shape[1], 1)
        parts = [self._scores(part @ flat) for part in np.split(shares, range(at_once, len(shares), at_once))]
        return np.nan_to_num(np.concatenate(parts), nan=LARGEST, posinf=LARGEST)

    def score_of(self, weights: FloatArray) -> float:
        """Return the metric of a weighted mean in its usual direction and units."""
        metric = self.config.metric_for(self.task)
        mean, target = np.tensordot(weights, self.predictions, axes=1), self.target
        with np.errstate(over="ignore"):
            if self.task == "classification":
                mean = np.log(np.maximum(mean, SMALLEST))
            else:
                mean, target = (self.shift + self.scale * values for values in (mean, target))
        rows = None if self.weights is None else torch.from_numpy(self.weights)[None]
        score = metric.function(torch.from_numpy(mean)[None], torch.from_numpy(target)[None], rows)
        return float(score[0])

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
    for _ in range(BAGS if n_rows < MANY_ROWS else FEWER_BAGS):
        drawn = rows.take(random.randint(n_rows, size=min(n_rows, MOST_DRAWN)))
        total += greedy_weights(drawn.scores, n_members)
    total[total < LEAST_SHARE * total.sum() / n_members] = 0.0
    weights: FloatArray = total / total.sum()
    return weights


def _few_weights(rows: ValidationRows, most: int | None, *, seed: int) -> FloatArray:
    """Return `bagged_weights`; if more than `most` are larger than 0, those of the largest ones alone."""
    weights = bagged_weights(rows, seed=seed)
    if most is None or (weights > 0).sum() <= most:
        return weights
    kept = np.sort(np.argsort(-weights, kind="stable")[:most])
    weights = np.zeros_like(weights)
    weights[kept] = bagged_weights(replace(rows, predictions=rows.predictions[kept]), seed=seed)
    return weights


@dataclass(frozen=True, eq=False)
class Combination:
    """The members that predict, and their weights.

    Parameters
    ----------
    trained : Trained
        The members that predict.
    recipes : list of int
        The place of each member's recipe in the plan.
    places : list of int
        The place of each member among all that were trained, of every recipe, seed and fold in this order.
    weights : ndarray of shape (n_members,)
        Their weights, larger than 0 and of sum one.
    table : list of dict
        Score and weight of every recipe; empty if there was no choice.
    score : float
        The metric of the combined predictions on the validation rows.
    """

    trained: Trained
    recipes: list[int]
    places: list[int]
    weights: FloatArray
    table: list[dict[str, Any]]
    score: float

    def has_all_folds(self, n_folds: int) -> bool:
        """Whether the members are complete bags: a network for each of `n_folds` folds."""
        return len(self.places) == n_folds * len({place // n_folds for place in self.places})


def combine(
    plan: Plan,
    trained: Trained,
    members: Sequence[Member],
    *,
    table: TrainingTable,
    config: TrainingConfig,
    seed: int,
) -> Combination:
    """Choose members by the validation rows.

    Bags with a member that has no finite score, or was stopped before the end of its first epoch, are ignored. If there
    is no other bag, all members with a score predict, with equal weights; at least one is needed.

    Parameters
    ----------
    plan : Plan
        What was trained.
    trained : Trained
        The members: of every recipe, seed and fold, in this order.
    members : sequence of Member
        The same before training.
    table : TrainingTable
        The table that they were trained on.
    config : TrainingConfig
        Names the metric.
    seed : int
        Random seed of `bagged_weights`.
    """
    n_folds = plan.n_folds
    finished = np.array([history.best_epoch > 0 for history in trained.histories])
    bags = np.flatnonzero(finished.reshape(-1, n_folds).all(axis=1))
    if not len(bags):
        return _of_parts(plan, trained, finished, metric=config.metric_for(table.task))
    places = (bags[:, None] * n_folds + np.arange(n_folds)).ravel()
    usable, usable_members = trained.keep(places.tolist()), [members[place] for place in places.tolist()]
    rows = ValidationRows.from_trained(usable, table, usable_members, n_folds=n_folds, config=config)
    owners = bags // plan.n_seeds
    belongs = owners == np.arange(len(plan.recipes))[:, None]  # (n_recipes, n_bags)
    counts = belongs.sum(axis=1)
    means = belongs / np.maximum(counts, 1)[:, None]
    scores = np.where(counts > 0, rows.scores(means), np.inf)
    few, metric = plan.search == "ensemble", config.metric_for(table.task)
    weights = _few_weights(rows, plan.most_kept, seed=seed) if few else means[scores.argmin()]
    kept = np.repeat(weights > 0, n_folds)
    return Combination(
        usable.keep(np.flatnonzero(kept).tolist()),
        np.repeat(owners, n_folds)[kept].tolist(),
        places[kept].tolist(),
        np.repeat(weights / n_folds, n_folds)[kept],
        _described(plan, trained, scores, weights=belongs @ weights, metric=metric, scale=rows.scale),
        rows.score_of(weights),
    )


def _of_parts(plan: Plan, trained: Trained, finished: npt.NDArray[np.bool_], *, metric: Metric) -> Combination:
    """Return members without a complete bag, whose predictions of all rows could be scored."""
    places = np.flatnonzero(finished)
    owners = places // (plan.n_seeds * plan.n_folds)
    weights = np.ones(len(places)) / len(places)
    of_recipes = (owners == np.arange(len(plan.recipes))[:, None]) @ weights
    no_scores = np.full(len(plan.recipes), np.inf)
    table = _described(plan, trained, no_scores, weights=of_recipes, metric=metric)
    return Combination(trained.keep(places.tolist()), owners.tolist(), places.tolist(), weights, table, np.nan)


def _described(
    plan: Plan, trained: Trained, scores: FloatArray, *, weights: FloatArray, metric: Metric, scale: float = 1.0
) -> list[dict[str, Any]]:
    """Return `TabularRegressor.candidates_`; `scores` are negated where larger is better, and in units of `scale`."""
    if plan.search == "all":
        return []
    n_members = plan.n_seeds * plan.n_folds
    return [
        {
            "method": recipe.encodings[0].method if recipe.encodings else None,
            "size": recipe.encodings[0].size if recipe.encodings else None,
            "backbone": recipe.backbone.name,
            "score": float(metric.in_units(score, scale)) if score < LARGEST else np.nan,
            "metric": metric.name,
            "seconds": sum(one.seconds for one in trained.histories[place * n_members : (place + 1) * n_members]),
            "weight": float(weight),
        }
        for place, (recipe, score, weight) in enumerate(zip(plan.recipes, scores, weights, strict=True))
    ]


def shuffled_losses(table: Table, spans: Sequence[tuple[str, slice]], loss: Callable[[Table], float]) -> FloatArray:
    """Return the increase of a loss when a column is shuffled, one number for each column of the user's table.

    The rows of `table` should not be training rows. `spans` are those of the columns (`Columns.spans`); a column that
    networks do not see has 0. All columns are shuffled in the same order, so that their numbers can be compared.
    """
    before = loss(table)
    order = np.random.RandomState(0).permutation(len(table.numbers))
    gains = np.zeros(len(spans))
    for place, (field, span) in enumerate(spans):
        if span.start < span.stop:
            shuffled = getattr(table, field).copy()
            shuffled[:, span] = shuffled[order, span]
            gains[place] = loss(table._replace(**{field: shuffled})) - before
    return gains
