"""A user's table for a comparison: its features, its target, its task, and what was done to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error, check_choice, listed
from knotwork._preparation.targets import Labels, check_target
from knotwork.datasets._files import check_columns, read_frame, target_labels
from knotwork.datasets._table import draw_rows
from knotwork.errors import ColumnError
from knotwork.knots._columns import TASKS, infer_task

__all__ = ["FEWEST_ROWS", "Source", "read_source"]

FEWEST_ROWS = 50
"""With fewer rows than this a comparison would be chance."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Source:
    """A table whose target is known in every row.

    Parameters
    ----------
    name : str
        Name of its file.
    features : DataFrame of shape (n, d)
        The features as they were read.
    labels : ndarray of shape (n,)
        The target as an estimator takes it: floats, or labels of classes.
    target : ndarray of shape (n,)
        Floats, or codes of the classes.
    target_name : str
        Name of the target.
    task : {"regression", "classification"}
        What is predicted.
    classes : tuple
        The classes; empty for regression.
    why : str
        How the task was found, as a sentence.
    notes : tuple of str
        What was done to the rows, as sentences.
    """

    name: str
    features: pd.DataFrame
    labels: npt.NDArray[Any]
    target: npt.NDArray[Any]
    target_name: str
    task: str
    classes: tuple[Any, ...]
    why: str
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    def draw(self, n_rows: int, *, seed: int) -> "Source":
        """Return this many rows drawn at random, classes by their shares; all of them if there are no more.

        Of a regression target that is then constant, or a class that is then gone, nothing is said: so few rows are
        drawn of a table only where it has many.
        """
        if n_rows >= self.n_rows:
            return self
        codes = self.target if self.task == "classification" else None
        rows = draw_rows(self.n_rows, n_rows, labels=codes, seed=seed)
        return replace(
            self, features=self.features.iloc[rows], labels=self.labels[rows], target=self.target[rows]
        )  # codes stay those of all classes


def read_source(path: str | PathLike[str], target: str, *, task: str | None = None, drop: Sequence[str] = ()) -> Source:
    """Read a file, find out its task, and leave out rows whose target is missing.

    Parameters
    ----------
    path : str or path
        A CSV, Parquet, Arrow or Feather file.
    target : str
        Name of the target column.
    task : {"regression", "classification"}, optional
        What is predicted; otherwise inferred from the target.
    drop : sequence of str, default=()
        Columns to leave out.
    """
    if task is not None:
        check_choice(task, "task", TASKS)
    frame, name = read_frame(path), Path(path)
    check_columns(frame, [target], "target", name)
    check_columns(frame, drop, "drop", name)
    if target in drop:
        raise argument_error("drop", "not name the target", target)
    features = frame.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise ColumnError(f"{name.name} has no column beside the target {target!r}. At least one is needed.")
    known = frame[target].notna().to_numpy()
    notes = []
    if not known.all():
        notes.append(f"{(~known).sum():,} of {len(frame):,} rows are left out: their target is missing.")
        features, frame = features[known], frame[known]
    _check_count(len(frame), name.name, bool(notes))
    labels = target_labels(frame[target], had_missing=bool(notes))
    chosen = task or infer_task(labels)
    why = _why(labels, chosen, given=task is not None)
    found, classes = _read_target(labels, chosen, target)
    return Source(
        name.name,
        features.reset_index(drop=True),
        labels,
        found,
        target,
        chosen,
        classes,
        why,
        (*notes, *_rare(found, classes)),
    )


def _check_count(n_rows: int, name: str, after_dropping: bool) -> None:
    if n_rows < FEWEST_ROWS:
        count = "1 row" if n_rows == 1 else f"{n_rows} rows"
        known = " whose target is known" if after_dropping else ""
        raise ColumnError(
            f"{name} has {count}{known}, and a comparison needs at least {FEWEST_ROWS}: with fewer, the best of "
            "several encodings is the luckiest. Collect more rows, or fit one model without a comparison: "
            "knotwork.TabularRegressor or TabularClassifier, whose encoding='auto' is the recommended one."
        )


def _read_target(labels: npt.NDArray[Any], task: str, name: str) -> tuple[npt.NDArray[Any], tuple[Any, ...]]:
    """Return numbers or class codes, and the classes; a target that cannot be learned is refused."""
    if len(pd.unique(pd.Series(labels))) < 2:
        raise ColumnError(
            f"the target {name!r} has the same value in all {len(labels):,} rows, {labels.tolist()[0]!r}: there is "
            "nothing to predict. Choose another --target, or add rows with other values."
        )
    if task == "regression":
        return check_target(labels), ()
    if labels.dtype.kind == "f" and (labels != np.trunc(labels)).any():
        raise argument_error(
            "task", f"be 'regression' for the target {name!r}, whose numbers are not whole", task, "Leave --task out."
        )
    found, codes = Labels.from_values(labels)
    if found.n_classes > 0.5 * len(labels):
        raise ColumnError(
            f"the target {name!r} has {found.n_classes:,} different labels in {len(labels):,} rows, too many for "
            "classes. Choose another --target; if it holds numbers as text, convert them, or say --task regression."
        )
    return codes, found.values


def _why(labels: npt.NDArray[Any], task: str, *, given: bool) -> str:
    """Say which task it is, and how that is known."""
    n_values = len(pd.unique(pd.Series(labels)))
    if given:
        return f"Task: {task}, as you say; the target has {n_values:,} different values."
    if task == "regression":
        return (
            f"Task: regression, for the target holds numbers, {n_values:,} different ones. "
            "If they are classes, say --task classification."
        )
    what = "whole numbers" if labels.dtype.kind in "iu" else "truth values" if labels.dtype.kind == "b" else "labels"
    advice = " If they are amounts, say --task regression." if what == "whole numbers" else ""
    return f"Task: classification, for the target holds {what}, {n_values:,} different ones.{advice}"


def _rare(codes: npt.NDArray[Any], classes: tuple[Any, ...]) -> list[str]:
    """Say which classes are too rare to be judged."""
    if not classes:
        return []
    counts = np.bincount(codes, minlength=len(classes))
    rare = [classes[code] for code in np.flatnonzero(counts < 5)]
    if not rare:
        return []
    return [f"Classes with fewer than 5 rows, which say little: {listed(rare, most=5)}."]
