"""A user's table for a comparison: its features, its target and its task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error, check_choice, listed
from knotwork._preparation.columns import Columns, ReadTable, Role
from knotwork._preparation.targets import Labels, check_target
from knotwork.datasets import TextFormat, check_columns, draw_rows, read_frame, target_labels
from knotwork.errors import ColumnError
from knotwork.knots import TASKS, infer_task

__all__ = ["Source", "read_source"]

FEWEST_ROWS = 50
"""With fewer rows, the ranking of a comparison would be random."""

RARE = 5
"""Classes with fewer rows than this are named: some folds have none of them."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table whose target is known in every row.

    `labels` is the target as an estimator takes it, floats or labels of classes; `target` has floats or codes of
    `classes`, which is empty for regression. `reason` states the task and how it was inferred, `notes` which rows were
    dropped and which classes are rare, as sentences. `read` has the columns and values of `features`, read once.
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

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    def describe(self, columns: Columns) -> list[str]:
        """Return sentences on the table, its columns, its task and its rows."""
        counts = {role: columns.roles.count(role) for role in Role}
        words = [
            f"{count} {role}" for role, count in counts.items() if count or role in (Role.NUMERICAL, Role.CATEGORICAL)
        ]
        return [
            f"{self.name}: {self.n_rows:,} rows; features: {', '.join(words)}; target: {self.target_name!r}.",
            self.reason,
            *self.notes,
            *columns.inferred,
        ]

    def draw(self, n_rows: int, *, seed: int) -> "Source":
        """Return random rows, stratified by class; the table itself if it has no more rows than that.

        Whether the target of the sample is constant, or lacks a class, is not checked: only tables with many rows are
        sampled.
        """
        return self if n_rows >= self.n_rows else self.take(self.places(n_rows, seed=seed))

    def places(self, n_rows: int, *, seed: int) -> npt.NDArray[np.int64]:
        """Return the places of random rows, as of `draw`."""
        labels = self.target if self.task == "classification" else None
        return draw_rows(self.n_rows, min(n_rows, self.n_rows), labels=labels, seed=seed)

    def take(self, rows: npt.NDArray[np.int64]) -> "Source":
        """Return some rows; `classes` stays complete, so that codes mean the same in the sample."""
        features, read = self.features.iloc[rows], self.read.take(rows)
        return replace(self, features=features, read=read, labels=self.labels[rows], target=self.target[rows])

    def select(self, places: Sequence[int]) -> "Source":
        """Return some columns."""
        return replace(self, features=self.features.iloc[:, list(places)], read=self.read.select(places))


def read_source(
    path: str | PathLike[str],
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    text: TextFormat | None = None,
) -> Source:
    """Read a file, infer its task unless `task` is given, and drop rows whose target is missing."""
    if task is not None:
        check_choice(task, "task", TASKS)
    (frame, notes), file = read_frame(path, text), Path(path)
    check_columns(frame, [target], "target", file)
    check_columns(frame, drop, "drop", file)
    if target in drop:
        raise argument_error("drop", "not name the target", target)
    if frame.shape[1] == 1 + len(set(drop)):
        raise ColumnError(f"{file.name} has no column except the target {target!r}. Add at least one feature.")
    known = frame[target].notna().to_numpy()
    if not known.all():
        notes.append(f"{(~known).sum():,} of {len(frame):,} rows are dropped: their target is missing.")
        frame = frame[known]
    if len(frame) < FEWEST_ROWS:
        rows = "1 row" if len(frame) == 1 else f"{len(frame)} rows"
        raise ColumnError(
            f"{file.name} has {rows}{'' if known.all() else ' with a known target'}, and a comparison needs at least "
            f"{FEWEST_ROWS}: with fewer rows, the best of several encodings is the luckiest. Collect more rows, or fit "
            "one model without a comparison: knotwork.TabularRegressor or TabularClassifier, whose encoding='auto' is "
            "the recommended one."
        )
    labels = target_labels(frame[target], had_missing=not known.all())
    inferred = task or infer_task(labels)
    reason = _reason(labels, inferred, given=task is not None)
    values, classes = _read_target(labels, inferred, target)
    counts = np.bincount(values, minlength=len(classes)) if classes else np.empty(0)
    rare = [classes[code] for code in np.flatnonzero(counts < RARE)]
    if rare:
        notes.append(f"Classes with fewer than {RARE} rows, too few to evaluate: {listed(rare, most=5)}.")
    features = frame.drop(columns=[target, *drop]).reset_index(drop=True)
    read = Columns.learn(features)
    return Source(file.name, features, read, labels, values, target, inferred, classes, reason, tuple(notes))


def _read_target(labels: npt.NDArray[Any], task: str, name: str) -> tuple[npt.NDArray[Any], tuple[Any, ...]]:
    """Return numbers or class codes, and the classes; raise an error for a target that cannot be learned."""
    if len(pd.unique(pd.Series(labels))) < 2:
        raise ColumnError(
            f"the target {name!r} has the same value in all {len(labels):,} rows, {labels.tolist()[0]!r}: there is "
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
            f"the target {name!r} has {classes.n_classes:,} different labels in {len(labels):,} rows, too many for "
            "classes. Choose another --target; if it holds numbers as text, convert them, or use --task regression."
        )
    return codes, classes.values


def _reason(labels: npt.NDArray[Any], task: str, *, given: bool) -> str:
    """Return a sentence on the task, and how it was inferred."""
    n_values = len(pd.unique(pd.Series(labels)))
    if given:
        return f"Task: {task}, as requested; the target has {n_values:,} different values."
    if task == "regression":
        return (
            f"Task: regression, because the target has {n_values:,} different numbers. "
            "If they are classes, use --task classification."
        )
    kinds = {"i": "whole numbers", "u": "whole numbers", "b": "booleans"}
    kind = kinds.get(labels.dtype.kind, "labels")
    advice = " If they are amounts, use --task regression." if kind == "whole numbers" else ""
    return f"Task: classification, because the target has {n_values:,} different {kind}.{advice}"
