"""What the validation rows decide: which members predict, with which weights, intervals and temperature."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from knotwork._light import SMALLEST_PROBABILITY
from knotwork._preparation.columns import LARGEST_FLOAT, CodedTable, Columns
from knotwork.encoders import PER_FEATURE, Encoding
from knotwork.estimators._plans import FitPlan
from knotwork.training import (
    METRICS,
    Member,
    Metric,
    Objective,
    Trained,
    TrainingConfig,
    TrainingTable,
    mean_score,
    validation_scores,
)

FloatArray = npt.NDArray[np.float64]
FARTHEST_SCALED = 1e300
"""Predictions and targets farther from the mean, in units of the spread, are moved here: sums of them stay finite."""

N_GROUPS = 10
TEMPERATURES = (-3.0, 3.0)
"""Logarithms of the smallest and the largest temperature."""


@dataclass(frozen=True)
class WeightRule:
    """How the weights of members are found.

    That random draws give better weights than all rows was measured, see `bagged_weights`; the numbers are conventions.

    Parameters
    ----------
    rounds : int
        Maximum number of members that `greedy_weights` adds.
    draws, fewer_draws, many_rows : int
        Draws of the validation rows, and those in tables with at least `many_rows` of them.
    most_drawn : int
        Maximum number of rows of a draw.
    least_share : float
        Members with less than this share of an equal weight are dropped: predicting with them costs more than it gains.
    most_means : int
        Predictions of weighted means that are held in memory at a time.
    """

    rounds: int = 20
    draws: int = 20
    fewer_draws: int = 8
    many_rows: int = 2000
    most_drawn: int = 4000
    least_share: float = 0.2
    most_means: int = 2**22


WEIGHTS = WeightRule()


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """Predictions of bags of members for the validation rows, to score weighted means of them.

    Parameters
    ----------
    predictions : ndarray of shape (n_bags, n, d_out)
        Numbers in units of the target's spread, or probabilities of classes.
    target : ndarray of shape (n,) or (n, n_targets)
        The target, in these units, or class codes.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    objective : Objective
        What the members were trained for.
    config : TrainingConfig
        Names the metric.
    shift, scale : float or ndarray of shape (n_targets,)
        The target is ``shift + scale * target``.
    """

    predictions: FloatArray
    target: npt.NDArray[Any]
    weights: FloatArray | None
    objective: Objective
    config: TrainingConfig
    shift: FloatArray | float = 0.0
    scale: FloatArray | float = 1.0

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
        return cls.from_predictions(predictions, table.target[rows], weights, trained=trained, config=config)

    @classmethod
    def from_predictions(
        cls,
        predictions: FloatArray,
        target: npt.NDArray[Any],
        weights: FloatArray | None = None,
        *,
        trained: Trained,
        config: TrainingConfig | None = None,
    ) -> "ValidationRows":
        """Return rows of predictions in the target's own units, or of logits, of shape (n_bags, n, d_out)."""
        objective, config = trained.objective, config or TrainingConfig()
        if objective.task == "classification":
            return cls(softmax(predictions, axis=-1), target, weights, objective, config)
        if objective.in_target_units:
            return cls(predictions, target, weights, objective, config)
        shift, scale = (values[0].cpu().numpy() for values in (trained.pieces[0].shift, trained.pieces[0].scale))
        bare = cls(predictions, target, weights, objective, config, shift, scale)
        with np.errstate(over="ignore"):  # halves: the difference of two targets may overflow
            scaled = [
                (0.5 * values - 0.5 * origin) / (0.5 * unit)
                for values, (origin, unit) in ((predictions, bare.column_units), (target, (shift, scale)))
            ]
        predictions, target = (np.clip(values, -FARTHEST_SCALED, FARTHEST_SCALED) for values in scaled)
        return replace(bare, predictions=predictions, target=target)

    @property
    def column_units(self) -> tuple[FloatArray, FloatArray]:
        """Origin and size of the units of each prediction, of shape (d_out,)."""
        located = np.array(self.objective.located)
        scale = np.repeat(np.ravel(self.scale), len(located))
        return (np.ravel(self.shift)[:, None] * located).ravel(), scale

    def take(self, rows: npt.NDArray[np.int64]) -> "ValidationRows":
        """Return the rows of an index, which may repeat."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, predictions=self.predictions[:, rows], target=self.target[rows], weights=weights)

    def scores(self, shares: FloatArray) -> FloatArray:
        """Return the scores of k weighted means, smaller is better, for shares of the bags, of shape (k, n_bags).

        Scores that are not finite become `LARGEST_FLOAT`, the worst.
        """
        flat = self.predictions.reshape(len(self.predictions), -1)
        n_means = max(WEIGHTS.most_means // flat.shape[1], 1)
        parts = [self._scores(part @ flat) for part in np.split(shares, range(n_means, len(shares), n_means))]
        return np.nan_to_num(np.concatenate(parts), nan=LARGEST_FLOAT, posinf=LARGEST_FLOAT)

    def score_of(self, weights: FloatArray) -> float:
        """Return the metric of a weighted mean in its usual direction, in units of the target unless it has several."""
        metric, mean = self.config.metric_for(self.objective), np.tensordot(weights, self.predictions, axes=1)
        if self.objective.task == "classification":
            mean = np.log(np.maximum(mean, SMALLEST_PROBABILITY))
        weight = None if self.weights is None else torch.from_numpy(self.weights)[None]
        score = float(mean_score(metric, torch.from_numpy(mean)[None], torch.from_numpy(self.target)[None], weight)[0])
        return float(metric.in_units(np.array(score if metric.lower_is_better else -score), self.unit))

    @property
    def unit(self) -> float:
        """The unit of scores: the size of the target's, or 1 for several targets."""
        return float(self.scale) if np.ndim(self.scale) == 0 else 1.0

    def combined(self, weights: FloatArray) -> "HeldOut":
        """Return the predictions of a weighted mean of the bags, in the target's own units or as probabilities."""
        mean = np.tensordot(weights, self.predictions, axes=1)
        if self.objective.task == "classification":
            return HeldOut(mean, self.target, self.weights)
        shift, scale = self.column_units
        with np.errstate(over="ignore"):
            return HeldOut(shift + scale * mean, self.shift + self.scale * self.target, self.weights)

    def _scores(self, means: FloatArray) -> FloatArray:
        means = means.reshape(len(means), *self.predictions.shape[1:])
        if self.objective.task == "classification":  # metrics take logits
            means = np.log(np.maximum(means, SMALLEST_PROBABILITY))
        target = torch.from_numpy(self.target).expand(len(means), *self.target.shape)
        weights = None if self.weights is None else torch.from_numpy(self.weights).expand(len(means), -1)
        scores = validation_scores(self.config, self.objective, torch.from_numpy(means), target, weights)
        return scores.numpy()


class HeldOut(NamedTuple):
    """Predictions of rows that members were not trained on, (n, d_out), with the target and the weights of the rows."""

    predictions: FloatArray
    target: npt.NDArray[Any]
    weights: FloatArray | None


def temperature(rows: HeldOut, offsets: Sequence[float] = ()) -> float:
    """Return the temperature t with which `tempered` probabilities have the best log loss."""
    logits = _shifted(rows.predictions, offsets)
    held = torch.from_numpy(rows.target)[None]
    weights = None if rows.weights is None else torch.from_numpy(rows.weights)[None]

    def loss(logarithm: float) -> float:
        return float(METRICS["log_loss"].function(torch.from_numpy(logits * np.exp(-logarithm))[None], held, weights))

    return float(np.exp(minimize_scalar(loss, bounds=TEMPERATURES, method="bounded").x))


def tempered(probabilities: FloatArray, temperature: float, offsets: Sequence[float] = ()) -> FloatArray:
    """Return the probabilities ``(p / exp(offsets)) ** (1 / temperature)``, divided by their sum, (n, n_classes).

    Members that were trained with weights of classes predict w p, divided by its sum: offsets are the logarithms of w.
    """
    if temperature == 1.0 and not offsets:
        return probabilities
    shares: FloatArray = softmax(_shifted(probabilities, offsets) / temperature, axis=-1)
    return shares


def _shifted(probabilities: FloatArray, offsets: Sequence[float]) -> FloatArray:
    """Return the logarithms of probabilities without those of the weights of their classes."""
    logits: FloatArray = np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))
    return logits - np.array(offsets) if offsets else logits


def reliability(rows: HeldOut) -> list[dict[str, Any]]:
    """Return `TabularClassifier.calibration_`."""
    probabilities = rows.predictions
    weights = np.ones(len(probabilities)) if rows.weights is None else rows.weights
    chosen, hits = probabilities.max(axis=1), probabilities.argmax(axis=1) == rows.target
    groups = np.array_split(np.argsort(chosen, kind="stable"), min(N_GROUPS, len(chosen)))
    return [
        {
            "probability": float(np.average(chosen[group], weights=weights[group])),
            "frequency": float(np.average(hits[group], weights=weights[group])),
            "rows": len(group),
        }
        for group in groups
    ]


def greedy_weights(
    score: Callable[[FloatArray], FloatArray], n_members: int, *, rounds: int = WEIGHTS.rounds
) -> FloatArray:
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
    for _ in range(WEIGHTS.draws if n_rows < WEIGHTS.many_rows else WEIGHTS.fewer_draws):
        drawn = rows.take(random.randint(n_rows, size=min(n_rows, WEIGHTS.most_drawn)))
        total += greedy_weights(drawn.scores, n_members)
    total[total < WEIGHTS.least_share * total.sum() / n_members] = 0.0
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
    held : HeldOut or None
        These predictions, if no member was trained on the rows that it predicts.
    boosted : HeldOut or None
        The same of boosted trees alone, if they were trained.
    rows, folds : ndarray of int, shape (n,), or None
        The rows of these predictions in the table, and the fold of each.
    """

    trained: Trained
    recipes: list[int]
    places: list[int]
    weights: FloatArray
    table: list[dict[str, Any]]
    score: float
    held: HeldOut | None = None
    boosted: HeldOut | None = None
    rows: npt.NDArray[np.int64] | None = None
    folds: npt.NDArray[np.int64] | None = None

    def has_all_folds(self, n_folds: int) -> bool:
        """Whether the members are complete bags: a network for each of `n_folds` folds."""
        return len(self.places) == n_folds * len({place // n_folds for place in self.places})


def combine_members(
    plan: FitPlan,
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
    plan : FitPlan
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
        return _of_parts(plan, trained, finished, metric=config.metric_for(trained.objective))
    places = (bags[:, None] * n_folds + np.arange(n_folds)).ravel()
    usable, usable_members = trained.take(places.tolist()), [members[place] for place in places.tolist()]
    rows = ValidationRows.from_trained(usable, table, usable_members, n_folds=n_folds, config=config)
    owners = bags // plan.n_seeds
    belongs = owners == np.arange(len(plan.recipes))[:, None]  # (n_recipes, n_bags)
    counts = belongs.sum(axis=1)
    means = belongs / np.maximum(counts, 1)[:, None]
    scores = np.where(counts > 0, rows.scores(means), np.inf)
    few, metric = plan.search == "ensemble", config.metric_for(trained.objective)
    weights = _few_weights(rows, plan.most_kept, seed=seed) if few else means[scores.argmin()]
    kept = np.repeat(weights > 0, n_folds)
    are_new = not np.intersect1d(members[0].train, members[0].valid).size
    return Combination(
        usable.take(np.flatnonzero(kept).tolist()),
        np.repeat(owners, n_folds)[kept].tolist(),
        places[kept].tolist(),
        np.repeat(weights / n_folds, n_folds)[kept],
        _described(plan, trained, scores, weights=belongs @ weights, metric=metric, scale=rows.unit),
        rows.score_of(weights),
        rows.combined(weights) if are_new else None,
        _of_trees(plan, rows, means, counts) if are_new else None,
        np.concatenate([member.valid for member in members[:n_folds]]),
        np.repeat(np.arange(n_folds), [len(member.valid) for member in members[:n_folds]]),
    )


def _of_trees(plan: FitPlan, rows: ValidationRows, means: FloatArray, counts: npt.NDArray[Any]) -> HeldOut | None:
    """Return the predictions of boosted trees alone, None without any."""
    trees = [place for place, recipe in enumerate(plan.recipes) if recipe.has_trees and counts[place]]
    return rows.combined(means[trees[0]]) if trees else None


def _of_parts(plan: FitPlan, trained: Trained, finished: npt.NDArray[np.bool_], *, metric: Metric) -> Combination:
    """Return members without a complete bag, whose predictions of all rows could be scored."""
    places = np.flatnonzero(finished)
    owners = places // (plan.n_seeds * plan.n_folds)
    weights = np.ones(len(places)) / len(places)
    of_recipes = (owners == np.arange(len(plan.recipes))[:, None]) @ weights
    no_scores = np.full(len(plan.recipes), np.inf)
    table = _described(plan, trained, no_scores, weights=of_recipes, metric=metric)
    return Combination(trained.take(places.tolist()), owners.tolist(), places.tolist(), weights, table, np.nan)


def _described(
    plan: FitPlan, trained: Trained, scores: FloatArray, *, weights: FloatArray, metric: Metric, scale: float = 1.0
) -> list[dict[str, Any]]:
    """Return `TabularRegressor.candidates_`; `scores` are negated where larger is better, and in units of `scale`."""
    if plan.search == "all":
        return []
    n_members = plan.n_seeds * plan.n_folds
    return [
        {
            **_described_encodings(recipe.encodings),
            "backbone": recipe.backbone.name,
            "score": float(metric.in_units(score, scale)) if score < LARGEST_FLOAT else np.nan,
            "metric": metric.name,
            "seconds": sum(one.seconds for one in trained.histories[place * n_members : (place + 1) * n_members]),
            "weight": float(weight),
        }
        for place, (recipe, score, weight) in enumerate(zip(plan.recipes, scores, weights, strict=True))
    ]


def _described_encodings(encodings: Sequence[Encoding]) -> dict[str, Any]:
    """Return method and size of all columns; of columns that differ, the word for that."""
    if not encodings:
        return {"method": None, "size": None}
    same = len(set(encodings)) == 1
    return {"method": encodings[0].method if same else PER_FEATURE, "size": encodings[0].size if same else None}


def shuffled_losses(table: CodedTable, columns: Columns, loss: Callable[[CodedTable], float]) -> FloatArray:
    """Return the increase of a loss when a column is shuffled, one number for each column of the user's table.

    The rows of `table` should not be training rows. A column that networks do not see has 0. All columns are shuffled
    in the same order, so that their numbers can be compared.
    """
    before = loss(table)
    order = np.random.RandomState(0).permutation(len(table.numbers))
    gains = np.zeros(len(columns))
    for place in columns.seen:
        span = columns.spans[place]
        gains[place] = loss(table.with_values(span, table.values(span)[order])) - before
    return gains
