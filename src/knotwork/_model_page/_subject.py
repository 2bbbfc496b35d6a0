"""What a page needs of a fitted model, whichever kind it is: estimators describe themselves by these values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.targets import Labels

Floats = npt.NDArray[np.float64]

MOST_KEPT_ROWS = 2000
"""Rows that a fitted model keeps in memory for its page; its file has none of them."""


def kept_places(n_rows: int) -> npt.NDArray[np.int64]:
    """Return which of some rows a fitted model keeps for its page: random ones, in their order."""
    chosen = np.random.RandomState(0).permutation(n_rows)[:MOST_KEPT_ROWS]
    return np.sort(chosen).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class PageRows:
    """Rows with predictions of members that were not trained on them.

    Parameters
    ----------
    table : CodedTable
        The rows.
    target : ndarray of shape (n,) or (n, n_targets)
        Numbers, or codes of classes.
    predictions : ndarray of shape (n, n_outputs)
        Numbers, or probabilities of all classes.
    how : str
        How they were predicted, to follow "predictions of".
    folds : ndarray of int, shape (n,), or None
        The fold of each row; None if the rows were not divided.
    boosted : ndarray of shape (n, n_outputs) or None
        What boosted trees alone predict for them, from the same folds.
    """

    table: CodedTable
    target: npt.NDArray[Any]
    predictions: Floats
    how: str
    folds: npt.NDArray[np.int64] | None = None
    boosted: Floats | None = None


@dataclass(frozen=True, eq=False)
class FitRecord:
    """What is known of a fit while its model is in memory; a loaded model has none.

    Parameters
    ----------
    n_rows : int
        Rows that the model was fitted on.
    seconds : float
        How long it took.
    ended : float
        When it ended, in seconds since 1970.
    kept : PageRows or None
        Some of the rows, with predictions.
    caution : str
        What was wrong with the fit, such as too little time; may be empty.
    """

    n_rows: int
    seconds: float
    ended: float
    kept: PageRows | None = None
    caution: str = ""


@dataclass(frozen=True, eq=False)
class PageEffect:
    """How predictions depend on a column.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Numbers, increasing (days of a date, hours of a time), or codes of categories.
    mean, low, high : ndarray of shape (k, n_outputs)
        The effect as a prediction, and its band.
    band : str
        What the band is.
    lines : ndarray of shape (m, k, n_outputs) or None
        The same for single rows.
    """

    values: npt.NDArray[Any]
    mean: Floats
    low: Floats
    high: Floats
    band: str
    lines: Floats | None = None


@dataclass(frozen=True, eq=False)
class ContributionTables:
    """A sum of curves, which a page can compute: exactly an additive model, or the additive part of another one.

    Parameters
    ----------
    terms : list of list of dict
        For each output its terms, as JSON.
    baselines : list of float
        What is added to their sum.
    link : {"identity", "logit", "softmax"}
        How sums become predictions; ``"logit"`` is of each output alone.
    outputs : list of int
        Which outputs of the model these are.
    fidelity : float or None
        Share of the variance of the model's predictions that they explain, on rows that they were not fitted on; None
        if they are the model itself.
    """

    terms: list[list[dict[str, Any]]]
    baselines: list[float]
    link: str
    outputs: list[int]
    fidelity: float | None = None


@dataclass(frozen=True, eq=False)
class PageSubject:
    """A fitted model, as its page sees it.

    Parameters
    ----------
    kind : str
        Name of its class.
    task : {"regression", "classification"}
        What it predicts.
    columns : Columns
        The columns of its table.
    target : str
        Name of the target.
    outputs : list of str
        Classes, or targets; a single target has an empty name.
    error : str
        What its errors are measured by, one of `ERRORS`.
    predict : callable
        Takes a `CodedTable`, and returns numbers or probabilities of shape (n, n_outputs).
    effect : callable
        Takes the place of a column and rows to average over, or None, and returns a `PageEffect`; None if it needs rows
        and has none.
    tables : callable
        Takes rows, or None, and the places of outputs; returns `ContributionTables`, or None.
    importances : ndarray of shape (n_columns,) or None
        In units of the target, or of the error.
    importance : str
        What they are, with ``{}`` for the number.
    knots : mapping
        Knots of columns by their places, for ticks.
    score : float or None
        The error of the predictions for all rows that were held out.
    interval : callable or None
        Takes a `CodedTable`, and returns intervals of 90 %, of shape (n, 2).
    candidates : list of dict
        ``name``, ``score``, ``weight`` and ``seconds`` of what was tried.
    made : list of tuple
        Labels and texts: how it was made.
    record : FitRecord or None
        What is known of the fit.
    classes : Labels or None
        The classes of a classifier.
    runtime : callable or None
        Returns a script and the JSON of a model that predicts in the page, or None if there is none.
    """

    kind: str
    task: str
    columns: Columns
    target: str
    outputs: list[str]
    error: str
    predict: Callable[[CodedTable], Floats]
    effect: Callable[[int, CodedTable | None], PageEffect | None]
    tables: Callable[[CodedTable | None, Sequence[int]], ContributionTables | None]
    importances: Floats | None
    importance: str
    knots: Mapping[int, Floats]
    score: float | None
    interval: Callable[[CodedTable], Floats] | None
    candidates: Sequence[Mapping[str, Any]]
    made: Sequence[tuple[str, str]]
    record: FitRecord | None = None
    classes: Labels | None = None
    runtime: Callable[[], tuple[str, Any] | None] | None = None
