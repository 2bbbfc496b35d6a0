"""What a comparison takes: its options, the encodings that it compares, and the user's table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error, check_choice, check_int, listed, type_error
from knotwork._preparation.columns import Columns, ReadTable, Role
from knotwork._preparation.members import outer_folds
from knotwork._preparation.targets import Labels, check_target
from knotwork._preparation.validation import Parts, draw_folds, draw_split, forward_folds, group_codes, last_rows
from knotwork._recommend import recommend
from knotwork._writing import counted
from knotwork.datasets import TextFormat, check_columns, draw_rows, read_frame, target_labels
from knotwork.encoders import Encoding
from knotwork.errors import ColumnError
from knotwork.estimators import EFFORTS
from knotwork.knots import TASKS, infer_task
from knotwork.nn import BACKBONES, Backbone, make_backbone

ALWAYS_COMPARED = ("Std", "PLE", "BS-Q", "IS-Q", "IS-LGBM", "BS-Grad-U")
"""The families that do well in the paper, with knots of every kind, and plain scaling as a baseline."""

DEFAULT_METHODS = (*ALWAYS_COMPARED, "IS-CART", "BS-CART")
"""The last two are compared if time allows."""

DEFAULT_SIZES = (15, 7)
"""The second size is compared if time allows."""

SINGLE = "single"
"""The effort without an ensemble."""

IN_TIME = "time"
"""The word for folds that follow the time."""

TESTED_SHARE = 0.3
"""Share of the last rows that are tested on in the order of time, a convention: all models know most of the table."""

FEWEST_ROWS_COMPARED = 50
"""With fewer rows, the ranking of a comparison would be random."""

RARE = 5
"""Classes with fewer rows than this are listed in a note: some of the 5 folds have none of them."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison: encodings, network, folds, time, and the model that is saved.

    Parameters
    ----------
    task : {"regression", "classification"}, optional
        The task; by default inferred from the target and reported.
    methods : tuple of str, optional
        Methods to compare, with or without a size, as in ``"PLE@30"``; by default some of the paper's best.
    sizes : tuple of int, optional
        Columns per feature of the methods without a size; by default 15, and 7 if time allows.
    backbone : {"auto", "mlp", "resnet", "tabm", "realmlp", "ft"}, default="auto"
        The network after the encodings that are compared; ``"auto"`` is ``"mlp"``.
    effort : {"auto", "fast", "balanced", "best", "single"}, default="auto"
        The ensemble that is ranked beside the other models: it chooses its own encodings and networks, as an estimator
        of this `effort`. ``"single"`` leaves it out. ``"auto"`` is ``"balanced"``, or ``"single"`` if a `backbone` is
        given, which an ensemble would not use.
    folds : int, optional
        Folds of the cross-validation; by default 5, or 3 if time is short.
    time_budget : float or None, default=300.0
        Seconds for the whole comparison; None means no limit.
    seed : int, default=0
        Random seed.
    drop : tuple of str, default=()
        Columns to ignore.
    groups : str, optional
        A column that names what several rows belong to, such as a person or a storm: rows of one group are never on
        both sides of a fold. It is not used as a feature.
    validation : {"time"}, optional
        ``"time"`` for a table in the order of time: each fold is tested on rows after those that it is trained on. By
        default folds are drawn at random.
    text : TextFormat, optional
        Separator, encoding and decimal sign of a text file; by default detected and reported.

    Examples
    --------
    >>> CompareOptions(methods=("Std", "BS-Q"), sizes=(7, 30)).time_budget
    300.0
    """

    task: str | None = None
    methods: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    backbone: str = "auto"
    effort: str = "auto"
    folds: int | None = None
    time_budget: float | None = 300.0
    seed: int = 0
    drop: tuple[str, ...] = ()
    groups: str | None = None
    validation: str | None = None
    text: TextFormat | None = None

    def __post_init__(self) -> None:
        if self.task is not None:
            check_choice(self.task, "task", TASKS)
        if self.effort == "auto":
            object.__setattr__(self, "effort", "balanced" if self.backbone == "auto" else SINGLE)
        if self.backbone == "auto":
            object.__setattr__(self, "backbone", "mlp")
        check_choice(self.backbone, "backbone", BACKBONES)
        check_choice(self.effort, "effort", (*EFFORTS, SINGLE))
        check_int(self.seed, "seed", minimum=0)
        if self.validation is not None:
            check_choice(self.validation, "validation", (IN_TIME,))
        if self.folds is not None and check_int(self.folds, "folds", minimum=2) > 20:
            raise argument_error("folds", "be at most 20", self.folds)
        for name in ("methods", "sizes", "drop"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise type_error(name, "be a list", value, f"Pass [{value!r}].")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        if self.time_budget is not None:
            if isinstance(self.time_budget, bool) or not isinstance(self.time_budget, Real):
                raise type_error("time_budget", "be a number of seconds", self.time_budget)
            if not 0 < float(self.time_budget) < math.inf:
                raise argument_error(
                    "time_budget", "be larger than 0 seconds", self.time_budget, "None means no limit."
                )

    @property
    def network(self) -> Backbone:
        """The configuration of the backbone, with the defaults of the estimators."""
        return make_backbone(self.backbone)


def read_sizes(text: str | None) -> tuple[int, ...] | None:
    """Parse integers separated by commas or spaces, as given on the command line; None stays None.

    Examples
    --------
    >>> read_sizes("7, 15")
    (7, 15)
    """
    if text is None:
        return None
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise argument_error("sizes", "be whole numbers as in 7,15,30", text)
    return tuple(int(word) for word in words)


def make_candidates(
    methods: Sequence[str] | None, sizes: Sequence[int] | None, *, task: str, backbone: str
) -> tuple[list[Encoding], tuple[int, ...]]:
    """Return the candidates, the most promising first, and the numbers of them that may be compared, all of them first.

    Candidates that the user names are never dropped. The defaults include the encoding that is recommended for the
    task and backbone.

    Examples
    --------
    >>> candidates, counts = make_candidates(["Std", "BS-Q", "PLE@30"], [7], task="regression", backbone="mlp")
    >>> [str(candidate) for candidate in candidates], counts
    (['Std', 'BS-Q@7', 'PLE@30'], (3,))
    """
    for name, values in (("methods", methods), ("sizes", sizes)):
        if values is not None and not values:
            raise argument_error(name, f"name at least one {name[:-1]}", values, "Omit it to use the defaults.")
    valid_sizes = [check_int(size, "sizes", minimum=2) for size in sizes or DEFAULT_SIZES]
    candidates = [Encoding.parse(name, size) for size in valid_sizes for name in methods or DEFAULT_METHODS]
    if methods is None:
        usual = recommend(task, backbone, budget="medium")
        size = usual.size if sizes is None or usual.size is None else valid_sizes[0]
        candidates.insert(1, Encoding(usual.method, size))
    candidates = list(dict.fromkeys(candidates))
    for candidate in candidates:
        candidate.start.encoder().check_settings()
    if methods is not None or sizes is not None:
        return candidates, (len(candidates),)
    return candidates, (len(candidates), len(DEFAULT_METHODS), len(ALWAYS_COMPARED))


@dataclass(frozen=True, eq=False)
class Source:
    """A table without missing values in its target.

    `labels` is the target as an estimator takes it, floats or labels of classes; `target` has floats or codes of
    `classes`, which is empty for regression. `reason` states the task and how it was inferred, `notes` which rows were
    dropped and which classes are rare, as sentences. `read` has the columns and values of `features`, read once.
    `groups` has the group of each row, if there are any; `n_in_time` the rows of the whole table if these rows, whose
    places are the index of `features`, are in the order of time, otherwise 0.
    """

    name: str
    features: pd.DataFrame
    read: ReadTable
    labels: npt.NDArray[Any]
    target: npt.NDArray[Any]
    target_name: str
    task: str
    classes: tuple[Any, ...]
    reason: str
    notes: tuple[str, ...] = ()
    groups: npt.NDArray[np.int64] | None = None
    n_in_time: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    @property
    def named_labels(self) -> "pd.Series[Any]":
        """The target as an estimator takes it, with its name."""
        return pd.Series(self.labels, name=self.target_name)

    def describe(self, columns: Columns) -> list[str]:
        """Return sentences on the table, its columns, its task and its rows."""
        counts = {role: columns.roles.count(role) for role in Role}
        words = [
            f"{count} {role}" for role, count in counts.items() if count or role in (Role.NUMERICAL, Role.CATEGORICAL)
        ]
        return [
            f"{self.name}: {counted(self.n_rows)} rows; features: {', '.join(words)}; target: {self.target_name!r}.",
            self.reason,
            *self.notes,
            *columns.inferred,
        ]

    def draw(self, n_rows: int, *, seed: int) -> "Source":
        """Return random rows, stratified by class; the table itself if it has no more rows.

        The target of the sample may be constant or lack a class, which is not checked: only large tables are sampled.
        """
        return self if n_rows >= self.n_rows else self.take(self.places(n_rows, seed=seed))

    def places(self, n_rows: int, *, seed: int) -> npt.NDArray[np.int64]:
        """Return the places of the rows that `draw` takes."""
        labels = self.target if self.task == "classification" else None
        return draw_rows(self.n_rows, min(n_rows, self.n_rows), labels=labels, seed=seed)

    def take(self, rows: npt.NDArray[np.int64]) -> "Source":
        """Return some rows; `classes` stays complete, so that codes mean the same in the sample."""
        features, read = self.features.iloc[rows], self.read.take(rows)
        groups = None if self.groups is None else self.groups[rows]
        return replace(
            self, features=features, read=read, labels=self.labels[rows], target=self.target[rows], groups=groups
        )

    def folds(self, n_folds: int, *, seed: int) -> Parts:
        """Return the rows of each fold that train, and that test: at random, by group, or in the order of time."""
        groups = self.groups
        if self.n_in_time:
            about: dict[str, Any] = {"n_folds": n_folds, "share": TESTED_SHARE, "groups": groups}
            return forward_folds(self.features.index.to_numpy(), self.n_in_time, **about)
        if groups is None:
            return outer_folds(self.target, self.task, folds=n_folds, seed=seed)
        random = np.random.RandomState(seed % 2**32)
        return draw_folds(self.target, task=self.task, n_folds=n_folds, random=random, groups=groups)

    def divide(
        self, rows: npt.NDArray[np.int64], *, share: float, random: np.random.RandomState
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return rows that train, and those of a share that stop the training, chosen in the same way as folds."""
        groups = self.groups
        if self.n_in_time:
            train, valid = last_rows(len(rows), share, None if groups is None else groups[rows])
            return rows[train], rows[valid]
        return draw_split(rows, self.target, task=self.task, share=share, random=random, groups=groups)

    def select(self, places: Sequence[int]) -> "Source":
        """Return some columns."""
        return replace(self, features=self.features.iloc[:, list(places)], read=self.read.select(places))


def read_source(
    path: str | PathLike[str],
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    groups: str | None = None,
    in_time: bool = False,
    text: TextFormat | None = None,
) -> Source:
    """Read a file, infer its task unless `task` is given, and drop rows whose target is missing."""
    if task is not None:
        check_choice(task, "task", TASKS)
    (frame, notes), file = read_frame(path, text), Path(path)
    check_columns(frame, [target], "target", file)
    check_columns(frame, drop, "drop", file)
    by_group = [] if groups is None else [groups]
    check_columns(frame, by_group, "groups", file)
    for name, named in (("drop", drop), ("groups", by_group)):
        if target in named:
            raise argument_error(name, "not name the target", target)
    left_out = {target, *drop, *by_group}
    if frame.shape[1] == len(left_out):
        raise ColumnError(f"{file.name} has no column except the target {target!r}. Add at least one feature.")
    has_target = frame[target].notna().to_numpy()
    if not has_target.all():
        notes.append(
            f"{counted((~has_target).sum())} of {counted(len(frame))} rows are dropped: their target is missing."
        )
        frame = frame[has_target]
    if len(frame) < FEWEST_ROWS_COMPARED:
        rows = "1 row" if len(frame) == 1 else f"{len(frame)} rows"
        rows += "" if has_target.all() else " with a known target"
        raise ColumnError(
            f"{file.name} has {rows}, and a comparison needs at least {FEWEST_ROWS_COMPARED}: with fewer rows, the "
            "best of several encodings is the luckiest. Collect more rows, or fit one model without a comparison: "
            "knotwork.TabularRegressor or TabularClassifier, whose encoding='auto' is the recommended one."
        )
    labels = target_labels(frame[target], had_missing=not has_target.all())
    inferred = task or infer_task(labels)
    reason = _reason(labels, inferred, is_requested=task is not None)
    values, classes = _read_target(labels, inferred, target)
    counts = np.bincount(values, minlength=len(classes)) if classes else np.empty(0)
    rare = [classes[code] for code in np.flatnonzero(counts < RARE)]
    if rare:
        notes.append(f"Classes with fewer than {RARE} rows, too few to evaluate: {listed(rare, most=5)}.")
    codes = None if groups is None else group_codes(frame[groups], len(frame))
    if codes is not None:
        notes.append(
            f"Folds keep rows of one {groups!r} together: {counted(len(np.unique(codes)))} groups. It is no feature."
        )
    if in_time:
        notes.append(f"Folds follow the order of the rows: the last {100 * TESTED_SHARE:.0f} % are tested on.")
    features = frame.drop(columns=list(left_out)).reset_index(drop=True)
    about: dict[str, Any] = {"groups": codes, "n_in_time": len(features) if in_time else 0}
    read = Columns.learn(features)
    return Source(file.name, features, read, labels, values, target, inferred, classes, reason, tuple(notes), **about)


def _read_target(labels: npt.NDArray[Any], task: str, name: str) -> tuple[npt.NDArray[Any], tuple[Any, ...]]:
    """Return numbers or class codes, and the classes; raise an error for a target that cannot be learned."""
    if len(pd.unique(pd.Series(labels))) < 2:
        raise ColumnError(
            f"the target {name!r} has the same value in all {counted(len(labels))} rows, "
            f"{labels.tolist()[0]!r}: there is "
            "nothing to predict. Choose another --target, or add rows with other values."
        )
    if task == "regression":
        return check_target(labels), ()
    if labels.dtype.kind == "f" and (labels != np.trunc(labels)).any():
        requirement = f"be 'regression' for the target {name!r}, whose values are not whole numbers"
        raise argument_error("task", requirement, task, "Omit --task to infer it.")
    classes, codes = Labels.from_values(labels)
    if classes.n_classes > 0.5 * len(labels):
        raise ColumnError(
            f"the target {name!r} has {counted(classes.n_classes)} different labels in {counted(len(labels))} "
            "rows, too many for "
            "classes. Choose another --target; if it holds numbers as text, convert them, or use --task regression."
        )
    return codes, classes.values


def _reason(labels: npt.NDArray[Any], task: str, *, is_requested: bool) -> str:
    """Return a sentence on the task, and how it was inferred."""
    n_values = len(pd.unique(pd.Series(labels)))
    if is_requested:
        return f"Task: {task}, as requested; the target has {counted(n_values)} different values."
    if task == "regression":
        return (
            f"Task: regression, because the target has {counted(n_values)} different numbers. "
            "If they are classes, use --task classification."
        )
    kinds = {"i": "whole numbers", "u": "whole numbers", "b": "booleans"}
    kind = kinds.get(labels.dtype.kind, "labels")
    advice = " If they are amounts, use --task regression." if kind == "whole numbers" else ""
    return f"Task: classification, because the target has {counted(n_values)} different {kind}.{advice}"
