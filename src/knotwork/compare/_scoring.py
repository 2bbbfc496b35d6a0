"""Cross-validation of candidates in stacks, and what it says of each."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from knotwork.compare._folded import FoldedTable
from knotwork.encoders._methods import Encoding
from knotwork.nn._backbones.config import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member
from knotwork.training._metrics import evaluate
from knotwork.training._progress import Reporter
from knotwork.training._results import Trained
from knotwork.training._stack import count_parameters

__all__ = ["CrossValidation", "Progress", "Scored", "groups_of"]

Progress = Callable[[], AbstractContextManager[Reporter]]
"""Makes a display of one training."""


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
        return all(bool(np.isfinite(values).all()) for name, values in self.scores.items() if name != "auc")


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
    folded : FoldedTable
        The table.
    backbone : Backbone
        The network behind the encodings.
    config : TrainingConfig
        How networks are trained.
    device : str, default="auto"
        Where.
    progress : callable, optional
        Makes a display of a training.
    """

    folded: FoldedTable
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
            fitted = {(each, fold): self.folded.fit(each, fold) for each in group for fold in self.folded.folds}
            members = {key: self.folded.member(*key, blocks) for key, (blocks, _) in fitted.items()}
            limit = None
            if deadline is not None:
                limit = max((deadline - time.perf_counter()) * left[size] / sum(left.values()), 1e-3)
            left.pop(size, None)
            started = time.perf_counter()
            trained = self._train(list(members.values()), limit)
            seconds = np.array([fitted[key][1] for key in members]).reshape(len(group), -1)
            self._score(group, list(members.values()), trained, seconds)
            if trained.interrupted:
                if limit is None or time.perf_counter() - started < limit:
                    raise KeyboardInterrupt
                self.out_of_time = True

    def _train(self, members: list[Member], limit: float | None) -> Trained:
        n_rows = max(len(fold.fit) for fold in self.folded.folds)
        config = replace(self.config, batch_size=self.config.batch_size_for(n_rows), time_limit=limit)
        with nullcontext(None) if self.progress is None else self.progress() as report:
            return train(self.folded.table, members, self.backbone, config, device=self.device, report=report)

    def _score(
        self, group: list[Encoding], members: list[Member], trained: Trained, seconds: npt.NDArray[np.float64]
    ) -> None:
        """Add what came out of a group, of those that have had an epoch in every fold."""
        n_folds, table = len(self.folded.folds), self.folded.table
        tests = [fold.test for fold in self.folded.folds] * len(group)
        outputs = trained.outputs(table.numbers, self.folded.test_codes, tests)
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
        table = self.folded.table
        good = bool(np.isfinite(output).all())
        shown = torch.from_numpy(output if good else np.zeros_like(output))[None]
        scores = evaluate(table.task, shown, torch.from_numpy(table.target[rows])[None])
        return {name: float(values[0]) if good else np.nan for name, values in scores.items()}
