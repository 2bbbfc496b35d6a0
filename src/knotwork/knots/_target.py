"""The target that supervised placements look at."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from knotwork._checks import argument_error, check_choice
from knotwork._objects import missing_mask

__all__ = ["TASKS", "Target", "infer_task"]

TASKS = ("regression", "classification")
"""What a target can be."""

MOST_CLASSES = 20
"""Whole numbers with more distinct values than this are taken for a regression target if no task is given."""


@dataclass(frozen=True, eq=False)
class Target:
    """A checked target.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Class codes 0, 1, ... for classification; values with mean 0 and spread 1 for regression, which changes no
        split of a tree and keeps squares of 1e300 from overflowing.
    task : {"regression", "classification"}
        What they are.
    """

    values: npt.NDArray[np.float64] | npt.NDArray[np.intp]
    task: str

    @classmethod
    def from_values(cls, y: npt.ArrayLike, task: str | None = None) -> "Target":
        """Check a target, and infer its task if that is None.

        Examples
        --------
        >>> Target.from_values(["no", "yes", "no"])
        Target(values=array([0, 1, 0]), task='classification')
        """
        if task is not None:
            check_choice(task, "task", TASKS)
        labels = column_or_1d(y.to_numpy() if hasattr(y, "to_numpy") else y, warn=True)  # keeps nullable integers
        task = task or infer_task(labels)
        if task == "classification":
            _refuse_missing(missing_mask(labels))
            texts = labels.astype(str) if labels.dtype.kind == "O" else labels
            return cls(np.unique(texts, return_inverse=True)[1], task)
        try:
            values = labels.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise argument_error(
                "y", "be numbers for task='regression'", labels[:3], "Pass task='classification' for labels."
            ) from error
        _refuse_missing(~np.isfinite(values))
        largest = np.abs(values).max(initial=0.0)
        values = values / largest if largest > 0 else values
        spread = values.std()
        return cls((values - values.mean()) / spread if spread > 0 else np.zeros_like(values), task)


def _refuse_missing(mask: npt.NDArray[np.bool_]) -> None:
    if mask.any():
        raise argument_error(
            "y", "hold no missing or infinite value", int(mask.sum()), "That many rows do: drop or fill them."
        )


def infer_task(y: npt.NDArray[np.generic]) -> str:
    """Return the task of a target: classification for labels and for few whole numbers, otherwise regression.

    Examples
    --------
    >>> infer_task(np.array([10, 20, 30, 10])), infer_task(np.array([0.5, 1.5]))
    ('classification', 'regression')
    """
    if y.dtype.kind == "f":
        return "regression"
    if y.dtype.kind in "iu" and len(np.unique(y)) > MOST_CLASSES:
        return "regression"
    if y.dtype.kind == "O" and all(isinstance(label, float) for label in y):
        return "regression"
    return "classification"
