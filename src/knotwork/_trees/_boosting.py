"""Boosted trees of a fit: their settings, training on the folds of a table, and what they predict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from time import perf_counter
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from knotwork._graph import Floats, Forest
from knotwork._trees._grown import Grown, TreeColumns
from knotwork._trees._lightgbm import (
    LARGEST_TARGET,
    SHARED_METRICS,
    grow,
    has_lightgbm,
    lightgbm_objectives,
    predicts_itself,
)
from knotwork._trees._symmetric import GOALS, grow_symmetric
from knotwork.training import (
    History,
    Member,
    Objective,
    Piece,
    TableInputs,
    Trained,
    TrainingTable,
    all_predictions,
    column_units,
    cpu_threads,
    side_by_side,
    target_units,
)

ROWS_PER_THREAD = 1000
"""Members predict fewer rows one after the other: a thread takes longer to start."""

FEWEST_ROUNDS = 10
"""Rounds that are trained whatever the time limit is."""


@final
@dataclass(frozen=True)
class BoostedTrees:
    """A kind of boosted trees, in LightGBM's terms; symmetric trees are grown here, all others by LightGBM.

    Parameters
    ----------
    name : str, default="boosted trees"
        What it is called in `candidates_`, one of `TREE_NAMES`.
    learning_rate : float, default=0.05
        What each tree adds is multiplied by it.
    leaves : int, default=31
        Maximum number of leaves of a tree.
    least_rows : int, default=10
        Minimum number of rows of a leaf; symmetric trees have leaves of any size.
    row_share, column_share : float, default=0.8, 0.7
        Shares of the rows and of the columns that each tree is grown on, at random.
    penalty : float, default=0.0
        Weight of the squares of the values of leaves.
    extra : bool, default=False
        Whether LightGBM tries one random threshold of each column instead of all.
    symmetric : bool, default=False
        Whether all nodes of a level compare one column with one threshold, see `grow_symmetric`.
    rounds : int, default=2000
        Maximum number of trees.
    patience : int, default=50
        Trees without a better score on the validation rows after which training stops.
    """

    name: str = "boosted trees"
    learning_rate: float = 0.05
    leaves: int = 31
    least_rows: int = 10
    row_share: float = 0.8
    column_share: float = 0.7
    penalty: float = 0.0
    extra: bool = False
    symmetric: bool = False
    rounds: int = 2000
    patience: int = 50

    def within(self, rounds: float) -> "BoostedTrees":
        """Return trees that learn as much within fewer rounds: with fewer than 400 each adds more, up to 0.3."""
        rounds = int(np.clip(rounds, FEWEST_ROUNDS, self.rounds))
        return replace(self, rounds=rounds, learning_rate=float(np.clip(20.0 / rounds, self.learning_rate, 0.3)))

    def suits(self, objective: Objective, n_classes: int) -> bool:
        """Return whether such trees can be grown for an objective with what is installed."""
        names = {str(each["objective"]) for each in lightgbm_objectives(objective, n_classes)}
        return bool(names) and (names <= set(GOALS) if self.symmetric else has_lightgbm())

    def settings(self, *, seed: int, n_threads: int) -> dict[str, object]:
        """Return the parameters of LightGBM, without the objective."""
        return {
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least_rows,
            "bagging_fraction": self.row_share,
            "bagging_freq": int(self.row_share < 1.0),
            "feature_fraction": self.column_share,
            "lambda_l2": self.penalty,
            "extra_trees": self.extra,
            "num_threads": n_threads,
            "seed": seed % 2**31,
            "deterministic": True,  # the same trees for any number of threads
            "force_row_wise": True,
            "verbosity": -1,
        }


USUAL = BoostedTrees()
RANDOM = BoostedTrees("boosted trees, random thresholds", extra=True)
SMALL = BoostedTrees("boosted trees, 15 leaves", leaves=15, least_rows=5, row_share=0.9, column_share=0.9, penalty=1.0)
SYMMETRIC = BoostedTrees(
    "boosted trees, symmetric", learning_rate=0.1, leaves=64, column_share=1.0, penalty=3.0, symmetric=True
)
TREE_NAMES = tuple(kind.name for kind in (USUAL, RANDOM, SMALL, SYMMETRIC))
"""Names of the kinds that the efforts train."""


@final
@dataclass(frozen=True, eq=False)
class TreeMember(Member):
    """Boosted trees among the members of a model; they have neither encodings nor a network.

    Parameters
    ----------
    train, valid, encodings, seed
        As in `Member`.
    kind : BoostedTrees
        The trees.
    before : tuple of Forest, Tensor and Tensor, optional
        Trees of an earlier fit, not symmetric ones, which new ones follow, with the units of their target.
    """

    kind: BoostedTrees = USUAL
    before: tuple[Forest, torch.Tensor, torch.Tensor] | None = None


@final
@dataclass(frozen=True, eq=False)
class ForestPiece(Piece):
    """Members that are boosted trees.

    Parameters
    ----------
    places, shift, scale
        As in `Piece`.
    forests : tuple of Forest
        The trees of each member.
    """

    forests: tuple[Forest, ...]

    def take(self, places: Sequence[int]) -> "ForestPiece":
        """Return a piece of its members at increasing places."""
        kept, new_places = self._kept(places)
        forests = tuple(self.forests[index] for index in kept)
        return replace(self, places=new_places, shift=self.shift[kept], scale=self.scale[kept], forests=forests)

    @property
    def n_parameters(self) -> int:
        """Number of thresholds and leaves of its trees."""
        return sum(len(forest.value) for forest in self.forests)

    def to(self, device: torch.device) -> "ForestPiece":
        """Return the piece itself: trees stay on the CPU."""
        del device
        return self

    def predictions(
        self, inputs: TableInputs, rows: Sequence[npt.NDArray[np.int64]], objective: Objective
    ) -> list[Floats]:
        """Return what the trees of each member predict for its rows."""
        n_targets = 1 if self.shift.dim() == 1 else self.shift.shape[1]
        calls = [partial(_scores, *each, inputs) for each in zip(self.forests, rows, strict=True)]
        with cpu_threads(torch.device("cpu")) as n_cores:
            scores = side_by_side(calls, n_cores if len(inputs.numbers) >= ROWS_PER_THREAD else 1)
        if objective.task == "classification":
            return scores
        return [_from_scores(each, objective, n_targets) for each in scores]


def _scores(forest: Forest, rows: npt.NDArray[np.int64], inputs: TableInputs, stop: Event) -> Floats:
    del stop  # it takes seconds at most
    return forest.scores(inputs.numbers[rows], inputs.codes[rows])


def _from_scores(scores: Floats, objective: Objective, n_targets: int) -> Floats:
    """Return predictions from sums of trees, of the same shape, (n, n_targets * n_outputs)."""
    if predicts_itself(objective):  # each level has its own trees: sorted, quantiles do not cross
        ordered: Floats = np.maximum.accumulate(scores.reshape(len(scores), n_targets, -1), axis=-1)
        return ordered.reshape(scores.shape)
    return all_predictions(objective, torch.from_numpy(scores), n_targets).numpy()


def boost(
    table: TrainingTable, members: Sequence[TreeMember], *, n_categorical: int, seconds: float = math.inf
) -> Trained:
    """Train the boosted trees of all members, side by side in as many threads as the process may use.

    Parameters
    ----------
    table : TrainingTable
        The table.
    members : sequence of TreeMember
        Rows, random seed and kind of each.
    n_categorical : int
        Number of categorical columns, which are the first codes.
    seconds : float, default=inf
        Time limit.
    """
    columns = TreeColumns(
        np.column_stack([table.numbers, table.codes[:, :n_categorical]]),
        table.numbers.shape[1],
        table.cardinalities[:n_categorical],
    )
    with cpu_threads(torch.device("cpu")) as n_cores:
        at_once = min(n_cores, len(members))
        limit = seconds / math.ceil(len(members) / at_once)
        about: dict[str, Any] = {"columns": columns, "n_threads": n_cores // at_once, "seconds": limit}
        calls = [partial(_boost_member, table, member, **about) for member in members]
        boosted = side_by_side(calls, n_cores)
    shift, scale = (torch.cat([each.units[place] for each in boosted]) for place in (0, 1))
    piece = ForestPiece(tuple(range(len(members))), shift, scale, tuple(each.forest for each in boosted))
    histories = [each.history for each in boosted]
    return Trained([piece], histories, column_units(table.numbers), table.goal, any(each.is_cut for each in boosted))


@dataclass(frozen=True, eq=False)
class _Boosted:
    """One member after training: `is_cut` if its time was over."""

    forest: Forest
    history: History
    units: tuple[torch.Tensor, torch.Tensor]
    is_cut: bool


def _boost_member(
    table: TrainingTable, member: TreeMember, stop: Event, *, columns: TreeColumns, n_threads: int, seconds: float
) -> _Boosted:
    """Train the trees of a member: one model of LightGBM for each target and each of its objectives."""
    began = perf_counter()
    units = _units(table, member) if member.before is None else member.before[1:]
    parameters = lightgbm_objectives(table.goal, table.n_classes)
    goals = _targets(table, units)
    kind = member.kind
    settings = kind.settings(seed=member.seed, n_threads=n_threads)
    rows = {"train": member.train, "valid": member.valid}
    parts: list[Forest] = [] if member.before is None else [member.before[0]]
    known = None if member.before is None else member.before[0].scores(table.numbers, table.codes)
    grown: list[Grown] = []
    cut = False

    def is_over(deadline: float, rounds: int) -> bool:
        nonlocal cut
        late = rounds >= FEWEST_ROUNDS and perf_counter() > deadline
        cut |= late
        return late or stop.is_set()

    n_models = len(goals) * len(parameters)
    for place, (goal, each) in enumerate((goal, each) for goal in goals for each in parameters):
        metric = SHARED_METRICS.get(str(each["objective"]))
        names = each if metric is None else {**each, "metric": metric}
        in_time = partial(is_over, began + seconds * (place + 1) / n_models)
        first = place if table.task == "regression" else table.d_out - int(each.get("num_class", 1))
        if kind.symmetric:
            result = grow_symmetric(kind, each, columns, goal, table.weights, **rows, seed=member.seed, is_over=in_time)
        else:
            result = grow(
                {**settings, **names}, columns, goal, table.weights, **rows,
                rounds=kind.rounds, patience=kind.patience, is_over=in_time,
                known=None if known is None else known[:, first : first + int(each.get("num_class", 1))],
            )  # fmt: skip
        parts.append(result.forest.with_outputs(first, table.d_out))
        grown.append(result)
    is_metric = all(each["objective"] in SHARED_METRICS for each in parameters)
    history = _history(grown, kind, perf_counter() - began, is_metric=is_metric)
    return _Boosted(Forest.joined(parts), history, units, cut)


def _units(table: TrainingTable, member: Member) -> tuple[torch.Tensor, torch.Tensor]:
    """Return origin and size of the units of a member's target."""
    target = torch.from_numpy(np.asarray(table.target[member.train]))[None]
    target = target.double() if table.task == "regression" else target
    shift, scale = target_units(table.goal, target, torch.tensor([len(member.train)]))
    return shift.double(), scale.double()


def _targets(table: TrainingTable, units: tuple[torch.Tensor, torch.Tensor]) -> list[npt.NDArray[np.float64]]:
    """Return each target in its units, or the codes of classes."""
    if table.task == "classification":
        return [table.target]
    shift, scale = (each.numpy().reshape(-1) for each in units)
    with np.errstate(over="ignore"):  # halves: the difference of two targets may overflow
        scaled = (0.5 * table.target.reshape(len(table.target), -1) - 0.5 * shift) / (0.5 * scale)
    return list(np.clip(scaled, -LARGEST_TARGET, LARGEST_TARGET).T)


def _history(grown: Sequence[Grown], kind: BoostedTrees, seconds: float, *, is_metric: bool) -> History:
    """Return the course of training: the mean over models, as far as all of them went."""
    rounds = min(len(each.loss) for each in grown)
    loss, score = (np.mean([getattr(each, name)[:rounds] for each in grown], axis=0) for name in ("loss", "score"))
    best = min(max(each.best for each in grown), rounds)
    score = score if is_metric else np.full(rounds, np.nan)
    return History(loss, score, np.full(rounds, kind.learning_rate), best, seconds)
