"""Cross-validation of candidates in stacks."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from knotwork._preparation.members import PreparedTable, Split, outer_folds
from knotwork._preparation.validation import LARGEST_SEED, draw_split
from knotwork.compare._source import Source
from knotwork.encoders import Encoding
from knotwork.estimators import Preparation, ValidationConfig
from knotwork.nn import Backbone
from knotwork.training import (
    METRICS,
    History,
    Member,
    Reporter,
    Trained,
    TrainingConfig,
    TrainingTable,
    count_parameters,
    evaluate,
    train,
)

__all__ = [
    "VALIDATION_SHARE",
    "CrossValidation",
    "Progress",
    "Scored",
    "fold_metrics",
    "fold_table",
    "groups_of",
    "join_repetitions",
    "place_rows",
    "predict_out_of_fold",
    "to_outputs",
]

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Returns the progress display of one training."""

VALIDATION_SHARE = ValidationConfig().share
"""Share of a fold's rows for early stopping, as in the estimators."""


def fold_table(source: Source, *, folds: int, seed: int) -> PreparedTable:
    """Prepare a table for cross-validation as the estimators do.

    Fold f is split as by an estimator with ``random_state=seed + f`` that is fitted on the rows of this fold, and has
    the categories of these rows.
    """
    columns, read = source.read
    table = TrainingTable(*read, source.target, source.task, columns.cardinalities, len(source.classes))
    splits = []
    for fold, (rows, test) in enumerate(outer_folds(source.target, source.task, folds=folds, seed=seed)):
        random = np.random.RandomState((seed + fold) % 2**32)
        random_seed = int(random.randint(LARGEST_SEED))
        parts = draw_split(rows, source.target, task=source.task, share=VALIDATION_SHARE, random=random)
        splits.append(Split(fold, random_seed, *parts, test, known=rows))
    return PreparedTable.from_table(table, splits)


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores and costs of an encoding in a network, of a baseline, or of the saved ensemble.

    `candidate` is the encoding or, if `kind` is not ``"encoding"``, a name. `scores` has every metric of the task on
    the test rows of each fold, NaN where training diverged. Seconds are means over folds: of fitting the encoding, and
    the network's share of the training time of its stack; those of an ensemble are for the whole. `best_epochs` are
    those whose weights were kept, from 1; the epochs of boosting are its trees, others have none. Arrays have the shape
    (n_folds,). `pooled` has every metric of the test rows of all folds together: the mean over folds of an RMSE, for
    example, is smaller than the RMSE of all rows. `predictions` has one prediction of every compared row by a model
    that was not trained on it, numbers of shape (n,) or probabilities of shape (n, n_classes). `histories` has the
    training of each network, `n_stopped` how many reached the cap of epochs, and the time limit, before they stopped.
    """

    candidate: Encoding | str
    scores: Mapping[str, npt.NDArray[np.float64]]
    prepare_seconds: float
    train_seconds: float
    epochs: npt.NDArray[np.int64]
    best_epochs: npt.NDArray[np.int64]
    n_parameters: int | None
    pooled: Mapping[str, float]
    predictions: npt.NDArray[np.float64] | None = None
    histories: tuple[History, ...] = ()
    n_stopped: tuple[int, int] = (0, 0)
    kind: str = "encoding"

    @property
    def is_finite(self) -> bool:
        """Whether the candidate has finite scores in every fold."""
        # A metric with a fallback may be undefined on a fold although training went well.
        required = [values for name, values in self.scores.items() if METRICS[name].fallback is None]
        return all(bool(np.isfinite(values).all()) for values in required)


def groups_of(candidates: Sequence[Encoding]) -> dict[int, list[Encoding]]:
    """Return the candidates that are trained in one stack, by size; those without a size join the smallest."""
    sizes = sorted({candidate.size for candidate in candidates if candidate.size is not None}) or [1]
    groups: dict[int, list[Encoding]] = {size: [] for size in sizes}
    for candidate in candidates:
        groups[sizes[0] if candidate.size is None else candidate.size].append(candidate)
    return groups


@dataclass(eq=False)
class CrossValidation:
    """Trains and scores candidates group by group; the scores of finished groups survive an interruption."""

    prepared: PreparedTable
    backbone: Backbone
    config: TrainingConfig
    device: Any = "auto"
    progress: Progress | None = None
    scored: list[Scored] = field(default_factory=list)

    def run(
        self, candidates: Sequence[Encoding], *, costs: Mapping[int, float] | None = None, deadline: float | None
    ) -> None:
        """Train and score candidates until `deadline`, on the clock of ``time.perf_counter``.

        `costs` has the expected cost of each group of `groups_of`, in any unit; by default it grows with the size. Each
        group gets its proportion of the time that is left, so that no group is skipped. Ctrl-C raises KeyboardInterrupt
        after the networks trained so far have been scored.
        """
        groups = groups_of(candidates)
        left = dict(costs or {size: len(group) * (10 + size) for size, group in groups.items()})
        for size, group in groups.items():
            members, prepare_seconds = self._members(group)
            limit = None
            if deadline is not None:
                limit = max((deadline - time.perf_counter()) * left[size] / sum(left.values()), 1e-3)
            left.pop(size, None)
            started = time.perf_counter()
            trained = self._train(members, limit)
            self._score(group, members, trained, prepare_seconds)
            # Training returns in the same way at its limit and after Ctrl-C: the clock distinguishes them.
            if trained.interrupted and (limit is None or time.perf_counter() - started < limit):
                raise KeyboardInterrupt

    def _members(self, group: list[Encoding]) -> tuple[list[Member], npt.NDArray[np.float64]]:
        """Fit the encodings of candidates; return their members, and the seconds of fitting, by candidate and fold."""
        prepared = self.prepared
        candidates = [(encoding,) * prepared.table.numbers.shape[1] for encoding in group]
        fitted = [prepared.fit(candidates, split) for split in prepared.splits]
        members = [
            prepared.member(candidate, split, fits[place].blocks)
            for place, candidate in enumerate(candidates)
            for split, fits in zip(prepared.splits, fitted, strict=True)
        ]
        return members, np.array([[fits[place].seconds for fits in fitted] for place in range(len(group))])

    def _train(self, members: list[Member], limit: float | None) -> Trained:
        n_rows = max(len(split.train) + len(split.valid) for split in self.prepared.splits)
        config = replace(self.config, batch_size=self.config.batch_size_for(n_rows), time_limit=limit)
        with nullcontext(None) if self.progress is None else self.progress() as report:
            return train(self.prepared.table, members, self.backbone, config, device=self.device, report=report)

    def _score(
        self, group: list[Encoding], members: list[Member], trained: Trained, seconds: npt.NDArray[np.float64]
    ) -> None:
        """Append the scores of the candidates of a group that completed an epoch in every fold."""
        n_folds, table = len(self.prepared.splits), self.prepared.table
        tests = [split.test for split in self.prepared.splits]
        outputs = trained.outputs(table.numbers, table.codes, tests * len(group))
        for place, candidate in enumerate(group):
            places = slice(place * n_folds, (place + 1) * n_folds)
            histories = trained.histories[places]
            if any(history.epochs == 0 for history in histories):
                continue
            scores, pooled = fold_metrics(table, outputs[places], tests)
            predictions = [to_predictions(part, table.task) for part in outputs[places]]
            self.scored.append(
                Scored(
                    candidate,
                    scores,
                    float(seconds[place].mean()),
                    float(np.mean([history.seconds for history in histories])),
                    np.array([history.epochs for history in histories]),
                    np.array([history.best_epoch for history in histories]),
                    count_parameters(table, members[places.start], self.backbone),
                    pooled,
                    place_rows(predictions, tests),
                    tuple(histories),
                    self._stopped(histories),
                )
            )

    def _stopped(self, histories: Sequence[History]) -> tuple[int, int]:
        """Return how many networks reached the cap of epochs, and a time limit, before early stopping."""
        patience, cap = self.config.patience, self.config.max_epochs
        going = [history.epochs for history in histories if patience and history.epochs - history.best_epoch < patience]
        return sum(epochs >= cap for epochs in going), sum(epochs < cap for epochs in going)


def fold_metrics(
    table: TrainingTable, outputs: Sequence[npt.NDArray[np.float64]], tests: Sequence[npt.NDArray[np.int64]]
) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, float]]:
    """Return every metric of the task in each fold, and for the rows of all folds together.

    `outputs` has numbers of shape (n, 1) or logits of shape (n, n_classes) for the rows `tests` of each fold.
    """
    folds = [_metrics(table, *pair) for pair in zip(outputs, tests, strict=True)]
    pooled = _metrics(table, np.concatenate(outputs), np.concatenate(tests))
    return {name: np.array([fold[name] for fold in folds]) for name in pooled}, pooled


def _metrics(table: TrainingTable, output: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]) -> dict[str, float]:
    is_finite = bool(np.isfinite(output).all())
    scores = evaluate(table.task, torch.from_numpy(output)[None], torch.from_numpy(table.target[rows])[None])
    return {name: float(score[0]) if is_finite else np.nan for name, score in scores.items()}


def to_predictions(outputs: npt.NDArray[np.float64], task: str) -> npt.NDArray[np.float64]:
    """Return numbers of shape (n,), or probabilities of classes."""
    predictions: npt.NDArray[np.float64] = outputs[:, 0] if task == "regression" else softmax(outputs, axis=1)
    return predictions


def to_outputs(predictions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return predictions as metrics take them: numbers of shape (n, 1), or logits."""
    return predictions[:, None] if predictions.ndim == 1 else np.log(np.maximum(predictions, 1e-300))


def place_rows(
    parts: Sequence[npt.NDArray[np.float64]], rows: Sequence[npt.NDArray[np.int64]]
) -> npt.NDArray[np.float64]:
    """Return predictions of folds in the order of the table; a prepared table may repeat its rows for some folds."""
    joined, places = np.concatenate(parts), np.concatenate(rows)
    placed = np.empty_like(joined)
    placed[places % len(places)] = joined
    return placed


def join_repetitions(first: Scored, other: Scored) -> Scored:
    """Return scores of two repetitions of a cross-validation as one; predictions are those of the first."""
    return replace(
        first,
        scores={name: np.concatenate([values, other.scores[name]]) for name, values in first.scores.items()},
        prepare_seconds=(first.prepare_seconds + other.prepare_seconds) / 2,
        train_seconds=(first.train_seconds + other.train_seconds) / 2,
        epochs=np.concatenate([first.epochs, other.epochs]),
        best_epochs=np.concatenate([first.best_epochs, other.best_epochs]),
        histories=(*first.histories, *other.histories),
        n_stopped=(first.n_stopped[0] + other.n_stopped[0], first.n_stopped[1] + other.n_stopped[1]),
    )


def predict_out_of_fold(model: Any, preparation: Preparation) -> npt.NDArray[np.float64] | None:
    """Return predictions of a fitted ensemble for the rows of its table, each by networks that were not trained on it.

    Numbers of shape (n,) or probabilities of shape (n, n_classes); None if some fold has no network.
    """
    n_folds, table = preparation.plan.n_folds, preparation.table
    if n_folds == 1 or not np.isfinite(model.validation_score_):
        return None
    shares = model.weights_.reshape(-1, n_folds).sum(axis=1)
    rows = [member.valid for member in preparation.members[:n_folds]]
    outputs = model.trained_.outputs(table.numbers, table.codes, rows * len(shares))
    predictions = [to_predictions(part, table.task) for part in outputs]
    means = [np.tensordot(shares, np.stack(predictions[fold::n_folds]), axes=1) for fold in range(n_folds)]
    return place_rows(means, rows)
