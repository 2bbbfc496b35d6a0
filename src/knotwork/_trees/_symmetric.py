"""Symmetric trees: boosting in compiled loops, where all nodes of a level compare one column with one threshold.

CatBoost grows such trees. They are smoother than those of LightGBM and err on other rows, so that both together are
better than each. Only numpy, scipy and numba are needed. Sums have a fixed order: trees are the same on every machine.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_softmax, softmax

from knotwork._graph import Floats, Forest
from knotwork._loops import compiled
from knotwork._trees._grown import Grown, TreeColumns

Rows = npt.NDArray[np.int64]
Bins = npt.NDArray[np.uint8]

BELOW_ALL = -float(np.finfo(np.float64).max)
HIGHEST_POWER = 30.0
"""Exponentials are those of numbers that are at most so far from 0."""
SMALLEST_MEAN = 1e-12


@final
@dataclass(frozen=True)
class SymmetricRule:
    """How symmetric trees are grown; conventions, but for `noise` and `strength`, which were tried out of fold.

    Parameters
    ----------
    fewest_bins, most_bins, rows_per_bin : int
        A column has one bin for so many rows, within these limits.
    most_columns : int
        Each tree sees at most this number of columns, at random.
    noise : float
        Normal noise that is added to the square roots of gains, in units of the gradients' root mean square. It fades
        as trees are added.
    parts : int
        Parts of the rows: the mean target of a category is, for the rows of one part, that of the others.
    strength : float
        The mean of all rows counts as so many rows of each category.
    most_classes : int
        Categories also have the shares of the classes if these are not more.
    """

    fewest_bins: int = 32
    most_bins: int = 128
    rows_per_bin: int = 20
    most_columns: int = 256
    noise: float = 1.0
    parts: int = 5
    strength: float = 5.0
    most_classes: int = 10


SYMMETRIC_RULE = SymmetricRule()


@final
@dataclass(frozen=True)
class Goal:
    """What symmetric trees minimise; scores and targets are of shape (n, n_outputs).

    Parameters
    ----------
    start : callable
        Returns the scores of a model without trees, for the mean of the targets.
    slopes : callable
        Returns first and second derivatives of the loss in the scores.
    loss : callable
        Returns the loss of every row.
    metric : callable
        Returns what stops early for a mean loss.
    """

    start: Callable[[Floats], Floats]
    slopes: Callable[[Floats, Floats], tuple[Floats, Floats]]
    loss: Callable[[Floats, Floats], Floats]
    metric: Callable[[float], float] = float


def _logarithm(mean: Floats) -> Floats:
    return np.log(np.maximum(mean, SMALLEST_MEAN))


def _to_power(scores: Floats, power: float) -> Floats:
    return np.exp(np.clip(power * scores, -HIGHEST_POWER, HIGHEST_POWER))


def _tweedie(rho: float) -> Goal:
    """Return the goal of targets with the variance ``mean ** rho``, rho from 1 to 2; scores are logarithms of means."""

    def slopes(scores: Floats, target: Floats) -> tuple[Floats, Floats]:
        down, up = target * _to_power(scores, 1.0 - rho), _to_power(scores, 2.0 - rho)
        return up - down, (2.0 - rho) * up + (rho - 1.0) * down

    def loss(scores: Floats, target: Floats) -> Floats:
        rising = scores if rho == 2.0 else _to_power(scores, 2.0 - rho) / (2.0 - rho)
        falling = -scores if rho == 1.0 else _to_power(scores, 1.0 - rho) / (rho - 1.0)
        return (rising + target * falling)[:, 0]

    return Goal(_logarithm, slopes, loss)


def _slopes_of_shares(shares: Floats, target: Floats) -> tuple[Floats, Floats]:
    return shares - target, np.maximum(shares * (1.0 - shares), 1e-12)


SQUARED = Goal(
    lambda mean: mean,
    lambda scores, target: (scores - target, np.ones_like(scores)),
    lambda scores, target: (scores[:, 0] - target[:, 0]) ** 2,
    math.sqrt,
)
TWO_CLASSES = Goal(
    lambda mean: np.log(np.maximum(mean, SMALLEST_MEAN) / np.maximum(1.0 - mean, SMALLEST_MEAN)),
    lambda scores, target: _slopes_of_shares(expit(scores), target),
    lambda scores, target: np.logaddexp(0.0, scores[:, 0]) - target[:, 0] * scores[:, 0],
)
SEVERAL_CLASSES = Goal(
    _logarithm,
    lambda scores, target: _slopes_of_shares(softmax(scores, axis=1), target),
    lambda scores, target: -(log_softmax(scores, axis=1) * target).sum(axis=1),
)
GOALS: dict[str, Callable[[Mapping[str, Any]], Goal]] = {
    "l2": lambda _: SQUARED,
    "binary": lambda _: TWO_CLASSES,
    "multiclass": lambda _: SEVERAL_CLASSES,
    "poisson": lambda _: _tweedie(1.0),
    "gamma": lambda _: _tweedie(2.0),
    "tweedie": lambda about: _tweedie(float(about["tweedie_variance_power"])),
}
"""Goals by the names of LightGBM's objectives, for their parameters."""


@final
@dataclass(frozen=True, eq=False)
class _TreeFeatures:
    """What trees compare: the numbers, then for each categorical column its codes, and means of the target by code.

    Parameters
    ----------
    n_numerical : int
        Number of numerical columns.
    borders : list of ndarray
        Increasing thresholds of each feature.
    code_columns : list of int
        The categorical column of each further feature.
    code_values : list of ndarray
        Its number for every code.
    binned : ndarray of uint8 of shape (n_features, n)
        Bins of the training rows: 0 where a value is missing, else one more than the number of thresholds below it.
    """

    n_numerical: int
    borders: list[Floats]
    code_columns: list[int]
    code_values: list[Floats]
    binned: Bins

    @classmethod
    def of(cls, columns: TreeColumns, train: Rows, target: Floats, weights: Floats, *, part: Rows) -> "_TreeFeatures":
        """Place the thresholds on training rows, which are in `part` of the rows."""
        n_numerical = columns.n_numerical
        values = list(columns.values[train, :n_numerical].T)
        code_columns: list[int] = []
        code_values: list[Floats] = []
        for place, cardinality in enumerate(columns.cardinalities):
            codes = columns.values[train, n_numerical + place].astype(np.int64)
            made = [(codes.astype(np.float64), np.arange(cardinality, dtype=np.float64))]
            if cardinality > 3 and target.shape[1] <= SYMMETRIC_RULE.most_classes:
                made += [_means_by_code(codes, each, weights, part, cardinality) for each in target.T]
            for of_rows, of_codes in made:
                values.append(of_rows)
                code_columns.append(place)
                code_values.append(of_codes)
        n_bins = int(
            np.clip(len(train) // SYMMETRIC_RULE.rows_per_bin, SYMMETRIC_RULE.fewest_bins, SYMMETRIC_RULE.most_bins)
        )
        borders = [_borders(each, n_bins) for each in values]
        return cls(n_numerical, borders, code_columns, code_values, _bins(values, borders))

    def bins(self, columns: TreeColumns, rows: Rows) -> Bins:
        """Return the bins of other rows, of shape (n_features, n)."""
        codes = columns.values[rows, self.n_numerical :].astype(np.int64)
        of_codes = [each[codes[:, place]] for place, each in zip(self.code_columns, self.code_values, strict=True)]
        return _bins([*columns.values[rows, : self.n_numerical].T, *of_codes], self.borders)

    @property
    def n_bins(self) -> npt.NDArray[np.int64]:
        """Number of bins of each feature, with that of missing values."""
        return np.array([len(each) + 2 for each in self.borders], dtype=np.int64)

    def forest(self, trees: list[tuple[Rows, Floats]], start: Floats) -> Forest:
        """Return trees, each a feature and a bin for every level and the values of the leaves, as a forest."""
        missing = (self.binned == 0).any(axis=1)
        left = [np.cumsum(np.bincount(row, minlength=2)) * 2 >= len(row) for row in self.binned]
        starts = np.cumsum([0, *map(len, self.code_values)])[:-1].astype(np.int32)
        nodes, roots, outputs, n_nodes = [], [], [], 0
        for levels, values in trees:
            thresholds = [BELOW_ALL if b == 0 else self.borders[f][b - 1] for f, b in levels.tolist()]
            to_left = [bool(missing[f] or left[f][min(b, len(left[f]) - 1)]) for f, b in levels.tolist()]
            for output, leaves in enumerate(values.T):
                nodes.append(_nodes(levels[:, 0], np.array(thresholds), np.array(to_left, bool), leaves, n_nodes))
                roots.append(n_nodes)
                outputs.append(output)
                n_nodes += len(nodes[-1][0])
        joined = [np.concatenate(each) for each in zip(*nodes, strict=True)] or [np.empty(0)] * 5
        feature, value, first, second, missing_left = joined
        return Forest(
            self.n_numerical,
            feature=feature.astype(np.int32),
            value=value.astype(np.float64),
            left=first.astype(np.int32),
            right=second.astype(np.int32),
            missing_left=missing_left.astype(np.bool_),
            roots=np.array(roots, np.int32),
            outputs=np.array(outputs, np.int32),
            start=start,
            code_columns=np.array(self.code_columns, np.int32),
            code_starts=starts,
            code_values=np.concatenate([*self.code_values, np.empty(0)]),
        )


def _nodes(
    features: Rows, thresholds: Floats, missing_left: npt.NDArray[np.bool_], leaves: Floats, first: int
) -> tuple[npt.NDArray[Any], ...]:
    """Return feature, value, left, right and missing_left of the nodes of a tree, level by level, then its leaves."""
    n_inner = len(leaves) - 1
    level = np.repeat(np.arange(len(features)), 2 ** np.arange(len(features)))
    at_end = np.arange(n_inner, n_inner + len(leaves))
    children = 2 * np.arange(n_inner)
    return (
        np.concatenate([features[level], np.full(len(leaves), -1)]),
        np.concatenate([thresholds[level], leaves]),
        first + np.concatenate([children + 1, at_end]),
        first + np.concatenate([children + 2, at_end]),
        np.concatenate([missing_left[level], np.zeros(len(leaves), dtype=bool)]),
    )


def _means_by_code(codes: Rows, target: Floats, weights: Floats, part: Rows, cardinality: int) -> tuple[Floats, Floats]:
    """Return for each row the mean target of its code on the other parts of the rows, and for each code on all."""
    sums = np.zeros((2, SYMMETRIC_RULE.parts, cardinality))
    np.add.at(sums[0], (part, codes), weights * target)
    np.add.at(sums[1], (part, codes), weights)
    (total, count), prior = sums.sum(axis=1), sums[0].sum() / sums[1].sum()
    others = (total - sums[0] + SYMMETRIC_RULE.strength * prior) / (count - sums[1] + SYMMETRIC_RULE.strength)
    return others[part, codes], (total + SYMMETRIC_RULE.strength * prior) / (count + SYMMETRIC_RULE.strength)


def _borders(values: Floats, n_bins: int) -> Floats:
    """Return thresholds between distinct values: all of them, or those next to quantiles."""
    known = np.sort(values[~np.isnan(values)])
    distinct = np.unique(known)
    below = np.arange(max(len(distinct) - 1, 0))
    if len(distinct) > n_bins:
        quantiles = known[np.arange(1, n_bins) * len(known) // n_bins]
        below = np.unique(np.clip(np.searchsorted(distinct, quantiles), 1, None) - 1)
    low, high = distinct[below], distinct[below + 1]
    middle = 0.5 * low + 0.5 * high
    return np.where((low <= middle) & (middle < high), middle, low)


def _bins(values: list[Floats], borders: list[Floats]) -> Bins:
    binned = np.empty((len(values), len(values[0]) if values else 0), dtype=np.uint8)
    for place, (each, of_column) in enumerate(zip(values, borders, strict=True)):
        binned[place] = np.where(np.isnan(each), 0, np.searchsorted(of_column, each, side="left") + 1)
    return binned


def grow_symmetric(
    kind: Any,
    about: Mapping[str, Any],
    columns: TreeColumns,
    target: npt.NDArray[Any],
    weights: Floats | None,
    *,
    train: Rows,
    valid: Rows,
    seed: int,
    is_over: Callable[[int], bool],
) -> Grown:
    """Train one model, stopped early by validation rows if there are any.

    Parameters
    ----------
    kind : BoostedTrees
        The settings.
    about : mapping
        Name and parameters of the objective, as LightGBM has them.
    columns : TreeColumns
        The table.
    target : ndarray of shape (n,)
        Numbers, or codes of classes.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    train, valid : ndarray of int
        Rows for training, and for early stopping.
    seed : int
        Random seed.
    is_over : callable
        Called with the number of rounds so far; training stops if it returns True.
    """
    goal, rng = GOALS[str(about["objective"])](about), np.random.default_rng(seed)
    every = np.eye(int(about["num_class"]))[target] if "num_class" in about else np.asarray(target, float)[:, None]
    y, y_valid = every[train], every[valid]
    w, w_valid = (np.ones(len(rows)) if weights is None else weights[rows] for rows in (train, valid))
    w = w / w.mean()
    features = _TreeFeatures.of(columns, train, y, w, part=rng.permutation(len(train)) % SYMMETRIC_RULE.parts)
    start = goal.start(np.average(y, axis=0, weights=w))
    grower = _Grower(kind, features, rng, y.shape)
    binned_valid = features.bins(columns, valid)
    scores, scores_valid = np.tile(start, (len(y), 1)), np.tile(start, (len(y_valid), 1))
    losses: list[float] = []
    held: list[float] = []
    best = 0
    while len(losses) < kind.rounds:
        levels, values = grower.add_tree(*(each * w[:, None] for each in goal.slopes(scores, y)))
        _add_leaves(features.binned, levels, values, scores)
        losses.append(goal.metric(float(np.average(goal.loss(scores, y), weights=w))))
        if len(valid):
            _add_leaves(binned_valid, levels, values, scores_valid)
            held.append(goal.metric(float(np.average(goal.loss(scores_valid, y_valid), weights=w_valid))))
            best = len(held) - 1 if len(held) == 1 or held[-1] < held[best] else best
            if len(held) - 1 - best >= kind.patience:
                break
        if is_over(len(losses)):
            break
    n_kept = best + 1 if len(valid) else len(losses)
    score = np.array(held) if held else np.full(len(losses), np.nan)
    return Grown(features.forest(grower.trees[:n_kept], start), np.array(losses), score, n_kept)


class _Grower:
    """Grows one tree after the other; the arrays that it needs are made once."""

    def __init__(self, kind: Any, features: _TreeFeatures, rng: np.random.Generator, shape: tuple[int, int]) -> None:
        n_rows, n_outputs = shape
        self._kind, self._rng, self._binned, self._n_bins = kind, rng, features.binned, features.n_bins
        self.trees: list[tuple[Rows, Floats]] = []
        self._usable = np.flatnonzero(self._n_bins > 2 - (self._binned == 0).any(axis=1))
        n_seen = min(max(round(kind.column_share * len(self._usable)), 1), SYMMETRIC_RULE.most_columns)
        self._depth, most_bins = max(int(math.log2(kind.leaves)), 1), int(self._n_bins.max(initial=1))
        self._n_seen = min(n_seen, len(self._usable))
        self._histograms = np.empty((self._n_seen, 2 ** (self._depth - 1), most_bins, 2 * n_outputs))
        self._rows, self._leaf = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)

    def add_tree(self, g: Floats, h: Floats) -> tuple[Rows, Floats]:
        """Grow a tree on the derivatives of the loss: a feature and a bin for every level, and values of leaves."""
        kind, n_rows = self._kind, len(g)
        fade = 1.0 + math.exp(min(kind.learning_rate * len(self.trees), 500.0)) / n_rows
        scale = SYMMETRIC_RULE.noise * math.sqrt(np.mean(g**2)) / fade
        noise = self._rng.standard_normal((self._depth, *self._histograms.shape[0:3:2]), dtype=np.float32)
        rows = np.flatnonzero(self._rng.random(n_rows) < kind.row_share)
        seen = self._usable
        if self._n_seen < len(seen):
            seen = np.sort(self._rng.choice(seen, self._n_seen, replace=False))
        levels = np.zeros((self._depth, 2), dtype=np.int64)
        self._rows[: len(rows)] = rows
        slopes = np.stack([g, h], axis=2).reshape(n_rows, -1)
        table, about = (self._binned, self._n_bins, slopes), (seen, kind.penalty, scale, noise)
        n_levels = _grow(table, self._rows[: len(rows)], about, self._histograms, self._leaf, levels)
        values = np.empty((2**n_levels, g.shape[1]))
        _fill_leaves(slopes, self._leaf, kind.penalty, kind.learning_rate, values)
        self.trees.append((levels[:n_levels], values))
        return self.trees[-1]


@compiled()
def _grow(table, rows, about, histograms, leaf, levels):
    """Fill feature and bin of each level, and the leaves of all rows; return the number of levels.

    `rows` are those that count for the choice. They are sorted by node, so that of the two nodes a node is divided
    into only the smaller one is counted: the histogram of the other is the difference.
    """
    binned, n_bins, slopes = table
    seen, penalty, scale, noise = about
    n_levels = len(levels)
    starts = np.zeros(2**n_levels + 1, dtype=np.int64)
    starts[1] = len(rows)
    spare = np.empty(len(rows), dtype=np.int64)
    gains = np.empty(noise.shape[2])
    leaf[:] = 0
    for level in range(n_levels):
        n_nodes = 1 << level
        best = -np.inf
        best_feature = best_bin = -1
        for place in range(len(seen)):
            feature = seen[place]
            count = n_bins[feature]
            histogram = histograms[place]
            if level == 0:
                _count(binned[feature], rows, slopes, count, histogram[0])
            else:
                for node in range(n_nodes // 2 - 1, -1, -1):
                    _divide(binned[feature], (rows, starts), slopes, count, histogram, node)
            gains[:count] = 0.0
            for node in range(n_nodes):
                _add_gains(histogram[node], count, penalty, gains)
            for b in range(count - 1):
                gain = math.sqrt(max(gains[b], 0.0)) + scale * noise[level, place, b]
                if gain > best:
                    best, best_feature, best_bin = gain, feature, b
        if best_feature < 0:
            return level
        levels[level, 0], levels[level, 1] = best_feature, best_bin
        of_rows = binned[best_feature]
        for i in range(len(leaf)):
            leaf[i] = 2 * leaf[i] + (of_rows[i] > best_bin)
        for node in range(n_nodes - 1, -1, -1):
            _sort(of_rows, best_bin, rows, starts, spare, node)
        starts[2 * n_nodes] = len(rows)
    return n_levels


@compiled(forceinline=True)
def _count(of_rows, rows, slopes, count, histogram):
    """Fill a histogram with the sums of the slopes of rows in every bin."""
    width = slopes.shape[1]
    histogram[:count] = 0.0
    if width == 2:
        for place in range(len(rows)):
            row = rows[place]
            b = of_rows[row]
            histogram[b, 0] += slopes[row, 0]
            histogram[b, 1] += slopes[row, 1]
    else:
        for place in range(len(rows)):
            row = rows[place]
            b = of_rows[row]
            for k in range(width):
                histogram[b, k] += slopes[row, k]


@compiled(forceinline=True)
def _divide(of_rows, nodes, slopes, count, histogram, node):
    """Put the histograms of the two parts of a node in the places of theirs."""
    rows, starts = nodes
    left, right = 2 * node, 2 * node + 1
    first, middle, last = starts[left], starts[right], starts[right + 1]
    is_right = last - middle <= middle - first
    begin, end = (middle, last) if is_right else (first, middle)
    _count(of_rows, rows[begin:end], slopes, count, histogram[right])
    for b in range(count):
        for k in range(slopes.shape[1]):
            small = histogram[right, b, k]
            large = histogram[node, b, k] - small
            histogram[left, b, k] = large if is_right else small
            histogram[right, b, k] = small if is_right else large


@compiled(forceinline=True)
def _add_gains(histogram, count, penalty, gains):
    """Add what a node gains by every threshold: the sum of ``G**2 / (H + penalty)`` over both parts and all outputs."""
    for k in range(0, histogram.shape[1], 2):
        g = h = 0.0
        for b in range(count):
            g += histogram[b, k]
            h += histogram[b, k + 1]
        g_left = h_left = 0.0
        for b in range(count - 1):
            g_left += histogram[b, k]
            h_left += histogram[b, k + 1]
            g_right = g - g_left
            gains[b] += g_left * g_left / (max(h_left, 0.0) + penalty)
            gains[b] += g_right * g_right / (max(h - h_left, 0.0) + penalty)


@compiled(forceinline=True)
def _sort(of_rows, best_bin, rows, starts, spare, node):
    """Sort the rows of a node into its two parts, in their order; `starts` then has these in place of the node."""
    first, last = starts[node], starts[node + 1]
    n_left = n_right = 0
    for place in range(first, last):
        row = rows[place]
        if of_rows[row] > best_bin:
            spare[n_right] = row
            n_right += 1
        else:
            rows[first + n_left] = row
            n_left += 1
    for place in range(n_right):
        rows[first + n_left + place] = spare[place]
    starts[2 * node] = first
    starts[2 * node + 1] = first + n_left


@compiled()
def _fill_leaves(slopes, leaf, penalty, rate, values):
    """Fill the values of the leaves: a step of Newton's method times the learning rate, from all rows."""
    sums = np.zeros((len(values), slopes.shape[1]))
    for row in range(len(leaf)):
        for k in range(slopes.shape[1]):
            sums[leaf[row], k] += slopes[row, k]
    for place in range(len(values)):
        for k in range(values.shape[1]):
            values[place, k] = -rate * sums[place, 2 * k] / (sums[place, 2 * k + 1] + penalty)


@compiled()
def _add_leaves(binned, levels, values, scores):
    """Add the leaf of each row of a tree to the scores."""
    for row in range(len(scores)):
        leaf = 0
        for level in range(len(levels)):
            leaf = 2 * leaf + (binned[levels[level, 0], row] > levels[level, 1])
        for k in range(values.shape[1]):
            scores[row, k] += values[leaf, k]
