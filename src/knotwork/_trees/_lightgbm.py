"""LightGBM: what it calls our objectives, one model of it, and its text as a `Forest`."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import load_lightgbm
from knotwork._graph import Floats, Forest, Ints
from knotwork._trees._grown import Grown, TreeColumns
from knotwork.training import Huber, LogLoss, Objective, Quantile, Tweedie

LARGEST_TARGET = 1e30
"""LightGBM has targets in float32; ours are in units of their spread."""

CATEGORY, DEFAULT_LEFT, MISSING_KIND, MISSING_IS_NAN = 1, 2, 3 << 2, 2 << 2
"""Bits of `decision_type` in LightGBM's text."""


def has_lightgbm() -> bool:
    """Return whether LightGBM is installed; it needs docstrings, which ``python -OO`` leaves out."""
    return find_spec("lightgbm") is not None and sys.flags.optimize < 2


def lightgbm_objectives(objective: Objective, n_classes: int) -> list[dict[str, Any]]:
    """Return the parameters of LightGBM's models for one target; empty if it has none for an objective.

    Quantiles have one model for each level. Raw scores are outputs of the objective, see `Objective.predictions`, or,
    of quantiles, what it predicts.
    """
    if isinstance(objective, LogLoss):
        if n_classes < 2:
            return []
        return [{"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}]
    if isinstance(objective, Quantile):
        return [{"objective": "quantile", "alpha": level} for level in objective.levels]
    if isinstance(objective, Huber):
        return [{"objective": "huber", "alpha": objective.delta}]
    if isinstance(objective, Tweedie):
        is_known = 1.0 <= objective.power < 2.0
        return [{"objective": "tweedie", "tweedie_variance_power": objective.power}] if is_known else []
    names = {"squared": "l2", "absolute": "l1", "poisson": "poisson", "gamma": "gamma"}
    return [{"objective": names[objective.name]}] if objective.name in names else []


SHARED_METRICS = {"l2": "l2_root", "l1": "l1", "binary": "binary_logloss", "multiclass": "multi_logloss"}
"""The metric that stops early, for objectives whose metric LightGBM computes as we do; others have other units."""


def predicts_itself(objective: Objective) -> bool:
    """Return whether sums of trees are what an objective predicts, not outputs that it turns into predictions."""
    return isinstance(objective, Quantile)


def grow(
    settings: Mapping[str, Any],
    columns: TreeColumns,
    target: npt.NDArray[Any],
    weights: Floats | None,
    *,
    train: npt.NDArray[np.int64],
    valid: npt.NDArray[np.int64],
    rounds: int,
    patience: int,
    is_over: Callable[[int], bool],
    known: Floats | None = None,
) -> Grown:
    """Train one model, stopped early by validation rows if there are any.

    Parameters
    ----------
    settings : mapping
        Parameters of LightGBM.
    columns : TreeColumns
        The table.
    target : ndarray of shape (n,)
        Numbers, or codes of classes.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    train, valid : ndarray of int
        Rows for training, and for early stopping.
    rounds : int
        Maximum number of rounds.
    patience : int
        Rounds without a better score after which training stops.
    is_over : callable
        Called with the number of rounds so far; training stops if it returns True.
    known : ndarray of shape (n, n_outputs), optional
        Outputs of earlier trees, which new ones are added to.
    """
    lightgbm = load_lightgbm("members='all'", hint="Or choose members='networks'.")

    def stop(environment: Any) -> None:
        if is_over(environment.iteration + 1):
            raise lightgbm.callback.EarlyStopException(environment.iteration, environment.evaluation_result_list)

    def part(rows: npt.NDArray[np.int64]) -> dict[str, Any]:
        init = None if known is None else known[rows] if known.shape[1] > 1 else known[rows, 0]
        weight = None if weights is None else weights[rows]
        return {"data": columns.values[rows], "label": target[rows], "weight": weight, "init_score": init}

    about = {"params": dict(settings), "free_raw_data": False}
    data = lightgbm.Dataset(**part(train), categorical_feature=columns.categorical, **about)
    sets, names = [data], ["training"]
    record: dict[str, dict[str, list[float]]] = {}
    callbacks = [lightgbm.record_evaluation(record)]
    if len(valid):
        sets, names = [*sets, data.create_valid(**part(valid))], [*names, "valid"]
        callbacks.append(lightgbm.early_stopping(patience, verbose=False))
    model = lightgbm.train(dict(settings), data, rounds, sets, valid_names=names, callbacks=[*callbacks, stop])
    loss, score = (np.array(next(iter(record.get(name, {"": []}).values()), [])) for name in ("training", "valid"))
    score = score if len(score) else np.full(len(loss), np.nan)
    best = (int(np.argmin(score)) + 1 if len(valid) else len(loss)) if len(loss) else 0
    text = model.model_to_string(num_iteration=best)
    return Grown(read_forest(text, columns), loss, score, best)


def read_forest(text: str, columns: TreeColumns) -> Forest:
    """Return the trees of LightGBM's text."""
    header, *parts = text.partition("\nend of trees")[0].split("\nTree=")
    per_round = int(_entries(header)["num_tree_per_iteration"])
    trees = [_Tree.read(_entries(part)) for part in parts]
    codes = _CodeFeatures(columns)
    roots = np.cumsum([0, *(tree.n_nodes for tree in trees)])
    nodes = [tree.nodes(root, columns, codes) for tree, root in zip(trees, roots.tolist(), strict=False)]
    joined = [np.concatenate(each) if nodes else np.empty(0) for each in zip(*nodes, strict=True)] or [np.empty(0)] * 5
    feature, value, left, right, missing_left = joined
    outputs = np.arange(len(trees)) % per_round
    return Forest(
        columns.n_numerical,
        *(feature.astype(np.int32), value.astype(np.float64), left.astype(np.int32), right.astype(np.int32)),
        missing_left.astype(bool),
        *(roots[:-1].astype(np.int32), outputs.astype(np.int32), np.zeros(per_round)),
        *codes.arrays(),
    )


def _entries(text: str) -> dict[str, str]:
    """Return lines of the form ``name=value`` as a dict."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def _ints(text: str) -> npt.NDArray[np.int64]:
    return np.array(text.split(), dtype=np.int64)


def _floats(text: str) -> Floats:
    most = np.finfo(np.float64).max  # a threshold between all numbers and missing ones is infinite
    return np.clip(np.array(text.split(), dtype=np.float64), -most, most)


@final
class _CodeFeatures:
    """Features of categories: 0 for the codes of a set, 1 for others; equal sets share one."""

    def __init__(self, columns: TreeColumns) -> None:
        self._columns, self._places = columns, dict[tuple[int, bytes], int]()

    def place(self, column: int, inside: npt.NDArray[np.bool_]) -> int:
        """Return the feature of a set of the codes of a categorical column."""
        place = self._places.setdefault((column, inside.tobytes()), len(self._places))
        return self._columns.n_numerical + place

    def arrays(self) -> tuple[Ints, Ints, Floats]:
        """Return `code_columns`, `code_starts` and `code_values` of a `Forest`."""
        sets = [np.frombuffer(inside, dtype=bool) for _, inside in self._places]
        starts = np.cumsum([0, *map(len, sets)])[:-1]
        values = np.concatenate([~each for each in sets]) if sets else np.empty(0)
        columns = np.array([column for column, _ in self._places], dtype=np.int32)
        return columns, starts.astype(np.int32), values.astype(np.float64)


@final
@dataclass(frozen=True, eq=False)
class _Tree:
    """A tree of LightGBM: children are places of inner nodes, or, if negative, ``-1 - leaf``."""

    feature: npt.NDArray[np.int64]
    threshold: Floats
    kind: npt.NDArray[np.int64]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    leaves: Floats
    counts: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    sets: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

    @classmethod
    def read(cls, entries: Mapping[str, str]) -> "_Tree":
        """Return a tree of the entries of its text; a tree of a single leaf has no others."""

        def read(name: str) -> npt.NDArray[np.int64]:
            return _ints(entries.get(name, ""))

        return cls(
            read("split_feature"),
            _floats(entries.get("threshold", "")),
            read("decision_type"),
            read("left_child"),
            read("right_child"),
            _floats(entries["leaf_value"]),
            (read("internal_count"), read("leaf_count")),
            (read("cat_boundaries"), read("cat_threshold")),
        )

    @property
    def n_nodes(self) -> int:
        """Inner nodes and leaves."""
        return len(self.feature) + len(self.leaves)

    def nodes(self, root: int, columns: TreeColumns, codes: _CodeFeatures) -> tuple[npt.NDArray[Any], ...]:
        """Return feature, value, left, right and missing_left of all nodes, inner ones first, from place `root`."""
        n_inner, n_leaves = len(self.feature), len(self.leaves)
        feature, value = self.feature.copy(), self.threshold.copy()
        is_category = (self.kind & CATEGORY) > 0
        for place in np.flatnonzero(is_category).tolist():
            column = int(feature[place]) - columns.n_numerical
            feature[place] = codes.place(column, self._codes(int(value[place]), columns.cardinalities[column]))
            value[place] = 0.5
        left, right = (np.where(child >= 0, child, n_inner - 1 - child) for child in (self.left, self.right))
        counts = np.concatenate(self.counts)
        # Missing values that no training row of the node had go where most of the rows went.
        with_most = counts[left] >= counts[right] if n_inner else np.zeros(0, dtype=bool)
        known = (self.kind & MISSING_KIND) == MISSING_IS_NAN
        missing_left = np.where(known, (self.kind & DEFAULT_LEFT) > 0, with_most)
        leaves = np.arange(n_inner, n_inner + n_leaves)
        return (
            np.concatenate([feature, np.full(n_leaves, -1)]),
            np.concatenate([value, self.leaves]),
            root + np.concatenate([left, leaves]),
            root + np.concatenate([right, leaves]),
            np.concatenate([missing_left, np.zeros(n_leaves, dtype=bool)]),
        )

    def _codes(self, number: int, n_codes: int) -> npt.NDArray[np.bool_]:
        """Return which codes a set has: bits of words of 32."""
        bounds, words = self.sets
        members = words[bounds[number] : bounds[number + 1], None] >> np.arange(32) & 1
        inside = np.zeros(n_codes, dtype=bool)
        listed = members.ravel()[:n_codes].astype(bool)
        inside[: len(listed)] = listed
        return inside
