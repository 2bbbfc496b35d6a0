"""Cross-validation of candidates in stacks."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from knotwork._preparation.columns import Columns
from knotwork._preparation.members import PreparedTable, outer_folds
from knotwork._preparation.validation import draw_split
from knotwork.compare._source import Source
from knotwork.encoders._methods import Encoding
from knotwork.estimators import TabularRegressor
from knotwork.estimators._base import Preparation
from knotwork.estimators._combination import ValidationRows
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._metrics import METRICS, evaluate
from knotwork.training._progress import Reporter
from knotwork.training._results import Trained
from knotwork.training._stack import count_parameters

__all__ = ["VALIDATION_SHARE", "CrossValidation", "Progress", "Scored", "fold_table", "groups_of", "out_of_fold_score"]

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Returns the progress display of one training."""

VALIDATION_SHARE = TabularRegressor().validation_share
"""Share of a fold's rows for early stopping, as in the estimators."""


def fold_table(source: Source, *, folds: int, seed: int) -> PreparedTable:
    """Prepare a table for cross-validation as the estimators do.

    Fold f is split as by an estimator with ``random_state=seed + f`` that is fitted on the rows of this fold, and has
    the categories of these rows.
    """
    columns, read = Columns.learn(source.features)
    table = TrainingTable(
        read.numbers, read.codes, source.target, source.task, columns.cardinalities, len(source.classes)
    )
    splits = []
    for fold, (rows, test) in enumerate(outer_folds(source.target, source.task, folds=folds, seed=seed)):
        random = np.random.RandomState((seed + fold) % 2**32)
        split, _ = draw_split(rows, source.target, task=source.task, share=VALIDATION_SHARE, random=random)
        splits.append(replace(split, fold=fold, test=test, known=rows))
    return PreparedTable.from_table(table, splits)


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores and costs of a candidate.

    `scores` has every metric of the task on the test rows of each fold, NaN where training diverged. Seconds are means
    over folds: of fitting the encoding, and the network's share of the training time of its stack. `best_epochs` are
    those whose weights were kept. Arrays have the shape (n_folds,). `pooled` has every metric of the test rows of all
    folds together: the mean over folds of an RMSE, for example, is smaller than the RMSE of all rows.
    """

    candidate: Encoding
    scores: Mapping[str, npt.NDArray[np.float64]]
    prepare_seconds: float
    train_seconds: float
    epochs: npt.NDArray[np.int64]
    best_epochs: npt.NDArray[np.int64]
    n_parameters: int
    pooled: Mapping[str, float]

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
    out_of_time: bool = False

    def run(self, candidates: Sequence[Encoding], *, costs: Mapping[int, float], deadline: float | None) -> None:
        """Train and score candidates until `deadline`, on the clock of ``time.perf_counter``.

        `costs` has the expected cost of each group of `groups_of`, in any unit: each group gets its proportion of the
        time that is left, so that no group is skipped. Ctrl-C raises KeyboardInterrupt after the networks trained so
        far have been scored.
        """
        left = dict(costs)
        for size, group in groups_of(candidates).items():
            members, prepare_seconds = self._members(group)
            limit = None
            if deadline is not None:
                limit = max((deadline - time.perf_counter()) * left[size] / sum(left.values()), 1e-3)
            left.pop(size, None)
            started = time.perf_counter()
            trained = self._train(members, limit)
            self._score(group, members, trained, prepare_seconds)
            if trained.interrupted:
                # Training returns in the same way at its limit and after Ctrl-C: the clock distinguishes them.
                if limit is None or time.perf_counter() - started < limit:
                    raise KeyboardInterrupt
                self.out_of_time = True

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
        tests = [split.test for split in self.prepared.splits] * len(group)
        outputs = trained.outputs(table.numbers, table.codes, tests)
        for place, candidate in enumerate(group):
            places = slice(place * n_folds, (place + 1) * n_folds)
            histories = trained.histories[places]
            if any(history.epochs == 0 for history in histories):
                continue
            scores = [self._metrics(output, rows) for output, rows in zip(outputs[places], tests[places], strict=True)]
            self.scored.append(
                Scored(
                    candidate,
                    {name: np.array([fold[name] for fold in scores]) for name in scores[0]},
                    float(seconds[place].mean()),
                    float(np.mean([history.seconds for history in histories])),
                    np.array([history.epochs for history in histories]),
                    np.array([history.best_epoch for history in histories]),
                    count_parameters(table, members[places.start], self.backbone),
                    self._metrics(np.concatenate(outputs[places]), np.concatenate(tests[places])),
                )
            )

    def _metrics(self, output: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]) -> dict[str, float]:
        table, is_finite = self.prepared.table, bool(np.isfinite(output).all())
        scores = evaluate(table.task, torch.from_numpy(output)[None], torch.from_numpy(table.target[rows])[None])
        return {name: float(score[0]) if is_finite else np.nan for name, score in scores.items()}


def out_of_fold_score(model: Any, preparation: Preparation, rows: npt.NDArray[np.int64]) -> float:
    """Return the metric of a fitted ensemble for rows of its table, each predicted by networks not trained on it."""
    n_folds = preparation.plan.n_folds
    members = [replace(member, valid=np.intersect1d(member.valid, rows)) for member in preparation.members[:n_folds]]
    shares = model.weights_.reshape(-1, n_folds).sum(axis=1)
    settings: dict[str, Any] = {"n_folds": n_folds, "config": model.config_}
    predicted = ValidationRows.from_trained(model.trained_, preparation.table, members * len(shares), **settings)
    return predicted.score_of(shares)
