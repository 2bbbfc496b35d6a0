"""Cross-validation of candidates in stacks, and what it says of each."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from knotwork._preparation.columns import Columns
from knotwork._preparation.members import PreparedTable, draw_split, outer_folds
from knotwork.compare._source import Source
from knotwork.encoders._methods import Encoding
from knotwork.estimators import TabularRegressor
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._metrics import METRICS, evaluate
from knotwork.training._progress import Reporter
from knotwork.training._results import Trained
from knotwork.training._stack import count_parameters

__all__ = ["VALIDATION_SHARE", "CrossValidation", "Progress", "Scored", "fold_table", "groups_of"]

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Makes a display of one training."""

VALIDATION_SHARE = TabularRegressor().validation_share
"""Share of a fold's rows that training is stopped by, as in the estimators."""


def fold_table(source: Source, *, folds: int, seed: int) -> PreparedTable:
    """Read a table as the estimators do, and prepare it for folds.

    Parameters
    ----------
    source : Source
        The table.
    folds : int
        Number of folds.
    seed : int
        Fold f is divided as by an estimator with ``random_state=seed + f`` that is fitted on its rows, and knows the
        categories of those rows.
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
    """What came out of a candidate.

    Parameters
    ----------
    candidate : Encoding
        The encoding.
    scores : mapping of str to ndarray of shape (n_folds,)
        Every metric of the task on the test rows of each fold; NaN where training diverged.
    prepare_seconds, train_seconds : float
        Means over folds: of fitting the encoding, and the network's share of the time that its stack took.
    epochs, best_epochs : ndarray of shape (n_folds,)
        Epochs trained, and those whose weights count.
    n_parameters : int
        Parameters of a network.
    """

    candidate: Encoding
    scores: Mapping[str, npt.NDArray[np.float64]]
    prepare_seconds: float
    train_seconds: float
    epochs: npt.NDArray[np.int64]
    best_epochs: npt.NDArray[np.int64]
    n_parameters: int

    @property
    def is_finite(self) -> bool:
        """Whether it was trained and scored in every fold."""
        always = [values for name, values in self.scores.items() if METRICS[name].fallback is None]
        return all(bool(np.isfinite(values).all()) for values in always)


def groups_of(candidates: Sequence[Encoding]) -> dict[int, list[Encoding]]:
    """Return which candidates are trained in one stack, by size; those without a size join the smallest."""
    sizes = sorted({each.size for each in candidates if each.size is not None}) or [1]
    groups: dict[int, list[Encoding]] = {size: [] for size in sizes}
    for each in candidates:
        groups[sizes[0] if each.size is None else each.size].append(each)
    return groups


@dataclass(eq=False)
class CrossValidation:
    """Candidates in training, group after group; what is done stays if the rest is interrupted.

    Parameters
    ----------
    prepared : PreparedTable
        The table and its folds.
    backbone : Backbone
        The network behind the encodings.
    config : TrainingConfig
        How networks are trained.
    device : str, default="auto"
        Where.
    progress : callable, optional
        Makes a display of a training.
    """

    prepared: PreparedTable
    backbone: Backbone
    config: TrainingConfig
    device: Any = "auto"
    progress: Progress | None = None
    scored: list[Scored] = field(default_factory=list)
    out_of_time: bool = False

    def run(self, candidates: Sequence[Encoding], *, costs: Mapping[int, float], deadline: float | None) -> None:
        """Train and score candidates; a KeyboardInterrupt is raised after what there is has been scored.

        Parameters
        ----------
        candidates : sequence of Encoding
            The candidates.
        costs : mapping of int to float
            What each group of `groups_of` takes, in any unit: by this it gets its share of the time.
        deadline : float or None
            When all must have ended, on the clock of ``time.perf_counter``.
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
                if limit is None or time.perf_counter() - started < limit:
                    raise KeyboardInterrupt
                self.out_of_time = True

    def _members(self, group: list[Encoding]) -> tuple[list[Member], npt.NDArray[np.float64]]:
        """Fit the encodings of candidates; return their networks, and the seconds that each took in each fold."""
        prepared = self.prepared
        candidates = [(each,) * prepared.table.numbers.shape[1] for each in group]
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
        """Add what came out of a group, of those that have had an epoch in every fold."""
        n_folds, table = len(self.prepared.splits), self.prepared.table
        tests = [split.test for split in self.prepared.splits] * len(group)
        outputs = trained.outputs(table.numbers, table.codes, tests)
        for place, candidate in enumerate(group):
            own = slice(place * n_folds, (place + 1) * n_folds)
            histories = trained.histories[own]
            if any(history.epochs == 0 for history in histories):
                continue
            scores = [self._metrics(output, rows) for output, rows in zip(outputs[own], tests[own], strict=True)]
            self.scored.append(
                Scored(
                    candidate,
                    {name: np.array([each[name] for each in scores]) for name in scores[0]},
                    float(seconds[place].mean()),
                    float(np.mean([history.seconds for history in histories])),
                    np.array([history.epochs for history in histories]),
                    np.array([history.best_epoch for history in histories]),
                    count_parameters(table, members[own.start], self.backbone),
                )
            )

    def _metrics(self, output: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]) -> dict[str, float]:
        table = self.prepared.table
        good = bool(np.isfinite(output).all())
        shown = torch.from_numpy(output if good else np.zeros_like(output))[None]
        scores = evaluate(table.task, shown, torch.from_numpy(table.target[rows])[None])
        return {name: float(values[0]) if good else np.nan for name, values in scores.items()}
