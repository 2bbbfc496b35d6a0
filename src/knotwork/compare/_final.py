"""The recommended model, fitted on all rows and saved."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knotwork.compare._budget import refit_rows
from knotwork.compare._scoring import CrossValidation, Scored
from knotwork.compare._source import Source
from knotwork.errors import PersistenceError
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.training._config import TrainingConfig
from knotwork.training._network import D_CATEGORY

__all__ = ["Final", "fit_final"]

IDENTIFIER_SHARE = 0.3
"""A column with more categories than this share of its rows has new ones in new rows."""

PARAMETER_SECONDS = 6e-9
"""Seconds that a further parameter adds to a step: it is read and written whether a batch needs it or not."""


@dataclass(frozen=True, eq=False)
class Final:
    """The model.

    Parameters
    ----------
    model : TabularRegressor or TabularClassifier
        The fitted model.
    path : Path or None
        Where it was saved; None if it could not be.
    notes : tuple of str
        What a reader should know of it.
    """

    model: Any
    path: Path | None
    notes: tuple[str, ...]


def fit_final(
    source: Source,
    scored: Scored,
    validation: CrossValidation,
    *,
    path: Path,
    backbone: str,
    seed: int,
    seconds: float | None,
) -> Final:
    """Fit an estimator on all rows, or on as many as the time allows, and save it.

    Parameters
    ----------
    source : Source
        The table.
    scored : Scored
        The recommended candidate, whose times say what this will take.
    validation : CrossValidation
        Where it was trained, and how.
    path : Path
        The file to write.
    backbone : str
        Name of the backbone.
    seed : int
        Random state of the estimator.
    seconds : float or None
        The time; None leaves it open.
    """
    n_rows = source.n_rows if seconds is None else _rows(source, scored, validation, seconds)
    notes = []
    if n_rows < source.n_rows:
        notes.append(
            f"The model is trained on {n_rows:,} of {source.n_rows:,} rows, drawn at random: there is no time for "
            "more. Give a larger --time-budget to use them."
        )
    used = source.draw(n_rows, seed=seed)
    config = TrainingConfig(time_limit=seconds)
    kind = TabularRegressor if source.task == "regression" else TabularClassifier
    model = kind(
        str(scored.candidate),
        backbone,
        training=config,
        device=validation.device,
        random_state=seed,
        verbose=validation.progress is not None,
    ).fit(used.features, used.labels)
    history = model.trained_.histories[0]
    why = ", when the time was up" if model.trained_.interrupted else ""
    notes.append(
        f"Model: {scored.candidate} on {n_rows:,} rows, {history.epochs} epochs in {history.seconds:.0f} s{why}; "
        f"the weights are those of epoch {history.best_epoch + 1}."
    )
    try:
        model.save(path)
    except PersistenceError as error:
        return Final(model, None, (*notes, str(error)))
    return Final(model, path, tuple(notes))


def _rows(source: Source, scored: Scored, validation: CrossValidation, seconds: float) -> int:
    """Return on how many rows there is time to train."""
    fitted = float(np.mean([len(split.train) for split in validation.prepared.splits]))
    epoch = scored.train_seconds / max(float(scored.epochs.mean()), 1.0) / fitted
    n_drawn = sum(len(split.test) for split in validation.prepared.splits)
    growing = [n for n in validation.prepared.table.cardinalities if n > IDENTIFIER_SHARE * n_drawn]
    further = D_CATEGORY * sum(n / n_drawn * (source.n_rows - n_drawn) for n in growing)
    epoch += PARAMETER_SECONDS * further / TrainingConfig().batch_size_for(source.n_rows)
    return refit_rows(source.n_rows, prepare=scored.prepare_seconds / fitted, epoch=epoch, seconds=seconds)
