"""Cross-validation of candidates in stacks."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from knotwork._preparation.members import PreparedTable, Split
from knotwork._preparation.validation import LARGEST_SEED
from knotwork.compare._inputs import Source
from knotwork.encoders import Encoding
from knotwork.estimators import FittedModel, Preparation, ValidationConfig, ValidationRows
from knotwork.nn import Backbone
from knotwork.training import (
    FLAGS,
    METRICS,
    History,
    Member,
    ProgressBar,
    Trained,
    TrainingConfig,
    TrainingTable,
    count_parameters,
    evaluate,
    train,
)

Floats = npt.NDArray[np.float64]
MakeModel = Callable[[Encoding, PreparedTable, Sequence[Member], Trained], Any]
"""Returns the estimator that consists of the networks of all folds."""

Progress = Callable[[], AbstractContextManager[ProgressBar]]
"""Returns the progress display of one training."""

VALIDATION_SHARE = ValidationConfig().share
"""Share of a fold's rows for early stopping, as in the estimators."""


def fold_table(source: Source, *, folds: int, seed: int) -> PreparedTable:
    """Prepare a table for cross-validation as the estimators do.

    Fold f is split as by an estimator with ``random_state=seed + f`` that is fitted on the rows of this fold.
    """
    columns, read = source.read
    table = TrainingTable(*read, source.target, source.task, columns.cardinalities, len(source.classes))
    splits = []
    for fold, (rows, test) in enumerate(source.folds(folds, seed=seed)):
        random = np.random.RandomState((seed + fold) % 2**32)
        random_seed = int(random.randint(LARGEST_SEED))
        splits.append(Split(fold, random_seed, *source.divide(rows, share=VALIDATION_SHARE, random=random), test))
    return PreparedTable.from_table(table, splits)


def codes_of_tested(prepared: PreparedTable) -> npt.NDArray[np.int64]:
    """Return the codes of a table where the tested rows of each fold have only codes that its other rows have.

    Other categories are new, with the code 0; a number is never missing where the column is complete in the other rows.
    """
    codes = prepared.table.codes.copy()
    n_categorical = codes.shape[1] - len(prepared.indicated)
    for split in prepared.splits:
        known = np.concatenate([split.train, split.valid])
        for column, every in enumerate(prepared.table.codes.T):
            tested, unknown = every[split.test], 0 if column < n_categorical else FLAGS[1]
            codes[split.test, column] = np.where(np.isin(tested, every[known]), tested, unknown)
    return codes


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored:
    """Scores and costs of a row of the ranking.

    `candidate` is the encoding or, if `kind` is not ``"encoding"``, a name. `scores` has every metric of the task on
    the test rows of each fold, NaN where training diverged. Seconds are means over folds: of fitting the encoding, and
    the network's share of the training time of its stack; those of an ensemble are for all of its networks.
    `best_epochs` are those whose weights were kept, from 1. The epochs of boosting are its trees; linear and additive
    models have none. Arrays have the shape (n_folds,). `n_trained` rows trained and stopped the model of a fold.
    `predictions` has one prediction of every tested row by a model that was not trained on it, numbers of shape (n,) or
    probabilities of shape (n, n_classes). `histories` has the training of each network, `n_stopped` the numbers of
    models that reached the cap of epochs, and the time limit, before they would have stopped. `make` returns the
    estimator that consists of the models of the folds or, if these are cheap, is fitted to the same rows.
    """

    candidate: Encoding | str
    scores: Mapping[str, Floats]
    epochs: npt.NDArray[np.int64]
    best_epochs: npt.NDArray[np.int64]
    train_seconds: float
    prepare_seconds: float = 0.0
    n_parameters: int | None = None
    predictions: Floats | None = None
    histories: tuple[History, ...] = ()
    n_stopped: tuple[int, int] = (0, 0)
    kind: str = "encoding"
    n_trained: int = 0
    make: Callable[[], Any] | None = None

    @property
    def seconds(self) -> float:
        """Seconds of one model: preparing and training."""
        return self.prepare_seconds + self.train_seconds

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


def cross_validate(
    prepared: PreparedTable,
    candidates: Sequence[Encoding],
    backbone: Backbone,
    config: TrainingConfig,
    *,
    costs: Mapping[int, float] | None = None,
    deadline: float = math.inf,
    device: str | torch.device = "auto",
    progress: Progress | None = None,
    make: MakeModel | None = None,
) -> Iterator[Scored]:
    """Train the candidates group by group until `deadline`, on the clock of ``time.perf_counter``, and yield scores.

    `costs` has the expected cost of each group of `groups_of`, in any unit; by default it grows with the size. Each
    group gets its proportion of the time that is left, so that no group is skipped. Candidates without an epoch in
    every fold have no scores. `make` returns the model of a candidate from the networks of all folds. Ctrl-C raises
    KeyboardInterrupt after the scores of the networks trained so far.
    """
    splits, table = prepared.splits, prepared.table
    groups, tests = groups_of(candidates), [split.test for split in prepared.splits]
    n_rows = max(len(split.train) + len(split.valid) for split in splits)
    config = replace(config, batch_size=config.batch_size_for(n_rows))
    left = dict(costs or {size: len(group) * (10 + size) for size, group in groups.items()})
    for size, group in groups.items():
        members, prepare_seconds = _members(prepared, group)
        started, share = time.perf_counter(), left[size] / sum(left.values())
        limit = None if math.isinf(deadline) else max((deadline - started) * share, 1e-3)
        del left[size]
        with nullcontext(None) if progress is None else progress() as report:
            limited = replace(config, time_limit=limit)
            trained = train(table, members, backbone, limited, device=device, report=report)
        taken = time.perf_counter() - started
        outputs = trained.outputs(table.numbers, codes_of_tested(prepared), tests * len(group))
        for place, candidate in enumerate(group):
            places = slice(place * len(splits), (place + 1) * len(splits))
            histories = tuple(trained.histories[places])
            if any(history.epochs == 0 for history in histories):
                continue
            yield score_outputs(
                prepared,
                outputs[places],
                candidate=candidate,
                epochs=np.array([history.epochs for history in histories]),
                best_epochs=np.array([history.best_epoch for history in histories]),
                train_seconds=float(np.mean([history.seconds for history in histories])),
                prepare_seconds=prepare_seconds[place],
                n_parameters=count_parameters(table, members[places.start], backbone),
                histories=histories,
                n_stopped=_stopped(histories, config),
                make=make and partial(make, candidate, prepared, members[places], _members_at(trained, places)),
            )
        # Training returns in the same way at its limit and after Ctrl-C: the clock distinguishes them.
        if trained.interrupted and (limit is None or taken < limit):
            raise KeyboardInterrupt


def _members(prepared: PreparedTable, group: Sequence[Encoding]) -> tuple[list[Member], list[float]]:
    """Fit the encodings of candidates; return a member for each candidate and fold, and the mean seconds of fitting."""
    columns = [(encoding,) * prepared.table.numbers.shape[1] for encoding in group]
    fitted = list(zip(*(prepared.fit(columns, split) for split in prepared.splits), strict=True))
    members = [
        prepared.member(encodings, split, fit.encodings)
        for encodings, fits in zip(columns, fitted, strict=True)
        for split, fit in zip(prepared.splits, fits, strict=True)
    ]
    return members, [float(np.mean([fit.seconds for fit in fits])) for fits in fitted]


def _members_at(trained: Trained, places: slice) -> Trained:
    return trained.take(range(places.start, places.stop))


def _stopped(histories: Sequence[History], config: TrainingConfig) -> tuple[int, int]:
    """Return the numbers of networks that reached the cap of epochs, and a time limit, before early stopping."""
    patience, cap = config.patience, config.max_epochs
    improving = [history.epochs for history in histories if patience and history.epochs - history.best_epoch < patience]
    return sum(epochs >= cap for epochs in improving), sum(epochs < cap for epochs in improving)


def score_outputs(prepared: PreparedTable, outputs: Sequence[Floats], **fields: Any) -> Scored:
    """Return the row of a candidate from its outputs for the test rows of each fold.

    Outputs are as metrics take them, numbers of shape (n, 1) or logits; `fields` are the other fields of `Scored`.
    """
    task, tests = prepared.table.task, [split.test for split in prepared.splits]
    joined = np.concatenate(outputs)[np.argsort(np.concatenate(tests))]
    folds = [_metrics(prepared.table, *pair) for pair in zip(outputs, tests, strict=True)]
    return Scored(
        scores={name: np.array([fold[name] for fold in folds]) for name in folds[0]},
        predictions=joined[:, 0] if task == "regression" else softmax(joined, axis=1),
        **{"n_trained": trained_rows(prepared), **fields},
    )


def trained_rows(prepared: PreparedTable) -> int:
    """Return the mean number of rows that train, or stop the training, in a fold."""
    return round(float(np.mean([len(split.train) + len(split.valid) for split in prepared.splits])))


def _metrics(table: TrainingTable, output: Floats, rows: npt.NDArray[np.int64]) -> dict[str, float]:
    is_finite = bool(np.isfinite(output).all())
    scores = evaluate(table.task, torch.from_numpy(output)[None], torch.from_numpy(table.target[rows])[None])
    return {name: float(score[0]) if is_finite else np.nan for name, score in scores.items()}


def to_outputs(predictions: Floats) -> Floats:
    """Return predictions as metrics take them: numbers of shape (n, 1), or logits."""
    return predictions[:, None] if predictions.ndim == 1 else np.log(np.maximum(predictions, 1e-300))


def naive_scores(prepared: PreparedTable) -> Floats:
    """Return the score in each fold of a constant prediction: the mean, or the shares of the classes."""
    table, outputs = prepared.table, []
    for split in prepared.splits:
        target = table.target[np.concatenate([split.train, split.valid])]
        constant = np.array([target.mean()])
        if table.task == "classification":
            constant = np.log((np.bincount(target, minlength=table.n_classes) + 1) / (len(target) + table.n_classes))
        outputs.append(np.tile(constant, (len(split.test), 1)))
    none = np.zeros(len(outputs), dtype=np.int64)
    row = score_outputs(prepared, outputs, candidate="naive", epochs=none, best_epochs=none, train_seconds=0.0)
    return row.scores[TrainingConfig().metric_for(table.task).name]


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


def predict_out_of_fold(fit: FittedModel, preparation: Preparation) -> tuple[npt.NDArray[np.int64], Floats] | None:
    """Return rows of the table of a fitted ensemble, and their predictions by networks that were not trained on them.

    Numbers of shape (n,) or probabilities of shape (n, n_classes); None if some fold has no network.
    """
    n_folds = preparation.plan.n_folds
    if n_folds == 1 or not np.isfinite(fit.score):
        return None
    shares, folds = fit.weights.reshape(-1, n_folds).sum(axis=1), preparation.members[:n_folds]
    rows = ValidationRows.from_trained(
        fit.trained, preparation.table, folds * len(shares), n_folds=n_folds, config=preparation.config
    )
    places = np.concatenate([member.valid for member in folds])
    order = np.argsort(places)
    mean = rows.combined(shares).predictions[order]
    return places[order], mean[:, 0] if fit.task.name == "regression" else mean
