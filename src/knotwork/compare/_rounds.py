"""Cross-validation that uses all of its time: first as planned, then with more rows, candidates or folds."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.preprocessing import StandardScaler

from knotwork._preparation.columns import Role
from knotwork._preparation.members import PreparedTable
from knotwork._writing import between, counted
from knotwork.compare._baselines import score_baselines
from knotwork.compare._budget import SCHEDULED, ComparisonSchedule
from knotwork.compare._inputs import CompareOptions, Source
from knotwork.compare._models import from_folds, row_estimator
from knotwork.compare._scoring import (
    Progress,
    Scored,
    cross_validate,
    fold_table,
    join_repetitions,
    naive_scores,
    score_outputs,
    to_outputs,
    trained_rows,
)
from knotwork.compare._verdict import Ranking, rank_candidates
from knotwork.encoders import Encoding
from knotwork.estimators import Recipe
from knotwork.training import TrainingConfig, resolve_device


@dataclass(frozen=True)
class ExtensionRule:
    """When the time that is left after a comparison is used for more of it; the numbers are conventions.

    Parameters
    ----------
    safe : float
        An extension may be expected to take this share of the remaining time, because the expectation may be wrong.
    worth : float
        Networks are trained again for at least this many times the rows or columns: fewer hardly change a ranking.
    repetitions : int
        Most repetitions of the cross-validation with other folds; the gain of each further one is smaller.
    seed_step : int
        Difference between the random seeds of two repetitions, larger than the number of folds.
    """

    safe: float = 0.85
    worth: float = 1.5
    repetitions: int = 4
    seed_step: int = 1_000


EXTENSIONS = ExtensionRule()

USUAL_LOAD = 0.8
"""Part of the processors that training uses on an idle machine."""


@dataclass(eq=False)
class Rounds:
    """Networks and baselines on the folds of a table; finished results survive Ctrl-C.

    A schedule may have fewer candidates than `candidates`. `note` is called with sentences on what was done, and
    `deadline`, infinite without a time budget, is on the clock of ``time.perf_counter``. Each of the `repetitions` has
    other folds of the same rows; `seconds` is the duration of one of them, and `availability` the measured part of the
    processors that training had.
    """

    source: Source
    options: CompareOptions
    candidates: Sequence[Encoding]
    device: str | torch.device
    progress: Progress | None
    note: Callable[[str], None]
    deadline: float = math.inf
    schedule: ComparisonSchedule = field(init=False)
    compared: Source = field(init=False)
    repetitions: list[PreparedTable] = field(default_factory=list)
    baselines: list[Scored] = field(default_factory=list)
    networks: list[Scored] = field(default_factory=list)
    seconds: float = 0.0
    availability: float = 1.0

    @property
    def scored(self) -> list[Scored]:
        """Encodings and baselines with finite scores in every fold."""
        return [row for row in (*self.networks, *self.baselines) if row.is_finite]

    def rank(self, others: Sequence[Scored] = ()) -> Ranking:
        """Rank encodings, baselines and other rows."""
        naive = float(np.mean([naive_scores(prepared) for prepared in self.repetitions]))
        settings: dict[str, Any] = {"task": self.source.task, "naive": naive, "test_to_train": self.test_to_train}
        return rank_candidates([*self.scored, *others], **settings)

    @property
    def test_to_train(self) -> float:
        """The rows that a fold tests, divided by its other rows."""
        n_tested = float(np.mean([len(split.test) for split in self.repetitions[0].splits]))
        return n_tested / max(trained_rows(self.repetitions[0]), 1)

    @property
    def n_folds(self) -> int:
        """Folds of each repetition; groups may leave fewer than were planned."""
        return len(self.repetitions[0].splits)

    @property
    def tested(self) -> Source:
        """The rows that are tested in some fold, all but the first ones in the order of time."""
        rows = np.sort(np.concatenate([split.test for split in self.repetitions[0].splits]))
        return self.compared if len(rows) == self.compared.n_rows else self.compared.take(rows)

    def run(self, schedule: ComparisonSchedule) -> None:
        """Cross-validate as planned, and extend it while time is left; Ctrl-C raises KeyboardInterrupt."""
        self._compare(schedule)
        while math.isfinite(self.deadline) and self._extend():
            pass

    def _compare(self, schedule: ComparisonSchedule) -> None:
        """Compare the candidates and baselines of a schedule; the results replace those of earlier rounds."""
        began, self.schedule, self.networks, self.baselines = time.perf_counter(), schedule, [], []
        self.compared = most_related(self.source.draw(schedule.n_rows, seed=self.options.seed), schedule.column_share)
        prepared = fold_table(self.compared, folds=schedule.folds, seed=self.options.seed)
        self.repetitions = [prepared]
        self.baselines, notes = self._score_baselines(prepared)
        wall, cpu = time.perf_counter(), time.process_time()
        self._train(prepared, schedule.candidates, self.networks, schedule.costs)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if wall > 1.0 and resolve_device(self.device).type == "cpu":
            # Other programs may use the processors as well; in less than a second that cannot be measured.
            self.availability = float(np.clip(cpu / (wall * torch.get_num_threads() * USUAL_LOAD), 0.1, 1.0))
        self.seconds = time.perf_counter() - began
        for line in notes:
            self.note(line)

    def _score_baselines(self, prepared: PreparedTable) -> tuple[list[Scored], list[str]]:
        """Return the scores of baselines on the folds of a table, and sentences on these."""
        now = time.perf_counter()
        return score_baselines(prepared, self.compared, deadline=now + SCHEDULED.baseline_share * (self.deadline - now))

    def _make(self, encoding: Encoding, *folds: Any) -> Any:
        """Return the estimator that consists of the networks of all folds with an encoding."""
        n_numbers = len(self.compared.read.columns.numerical_names)
        config = TrainingConfig(max_epochs=self.schedule.max_epochs)
        recipe = Recipe((encoding,) * n_numbers, self.options.network, config)
        about = {"encoding": str(encoding), "backbone": self.options.backbone, "device": self.device}
        estimator = row_estimator(
            "encoding", self.compared, n_folds=self.n_folds, random_state=self.options.seed, **about
        )
        return from_folds(estimator, recipe, self.compared, *folds)

    def _train(
        self,
        prepared: PreparedTable,
        candidates: Sequence[Encoding],
        scored: list[Scored],
        costs: Mapping[int, float] | None = None,
    ) -> None:
        """Add the scores of candidates to a list; Ctrl-C leaves those of the networks trained so far in it."""
        config, network = TrainingConfig(max_epochs=self.schedule.max_epochs), self.options.network
        settings: dict[str, Any] = {"deadline": self.deadline, "device": self.device, "progress": self.progress}
        settings["make"] = self._make if prepared is self.repetitions[0] else None
        for row in cross_validate(prepared, candidates, network, config, costs=costs, **settings):
            scored.append(row)  # noqa: PERF402 - `extend` may lose what was scored before Ctrl-C

    def _extend(self) -> bool:
        """Use the time that is left for columns, rows, candidates or folds; return whether it sufficed."""
        if not any(row.is_finite for row in self.networks) or any(row.n_stopped[1] > 0 for row in self.networks):
            return False
        schedule, possible = (
            self.schedule,
            EXTENSIONS.safe * (self.deadline - time.perf_counter()) / max(self.seconds, 1e-3),
        )
        if schedule.column_share < 1 and possible >= EXTENSIONS.worth:
            return self._again(replace(schedule, column_share=min(possible * schedule.column_share, 1.0)))
        skipped = [candidate for candidate in self.candidates if candidate not in schedule.candidates]
        factor = min(possible, self.source.n_rows / schedule.n_rows)
        if factor >= EXTENSIONS.worth and (schedule.n_rows < SCHEDULED.good_rows or not skipped):
            return self._again(replace(schedule, n_rows=min(round(factor * schedule.n_rows), self.source.n_rows)))
        affordable = skipped[: int(possible * len(schedule.candidates))]
        if affordable:
            return self._more_candidates(affordable)
        is_random = not self.source.n_in_time  # other folds in the order of time are the same
        repeats = is_random and len(self.repetitions) < EXTENSIONS.repetitions and possible * len(self.repetitions) > 1
        return repeats and self._repeat()

    def _again(self, schedule: ComparisonSchedule) -> bool:
        """Compare again with more rows or columns; the results are discarded if fewer scores are finite."""
        columns = "" if schedule.column_share == 1 else f" and {100 * schedule.column_share:.0f} % of the columns"
        self.note(f"Time is left, so the comparison is made again with {counted(schedule.n_rows)} rows{columns}.")
        kept = self.schedule, self.compared, self.repetitions, self.baselines, self.networks
        try:
            self._compare(replace(schedule, max_epochs=SCHEDULED.most_epochs, fits=True))
        finally:  # after Ctrl-C, too
            has_fewer = sum(row.is_finite for row in self.networks) < sum(row.is_finite for row in kept[-1])
            if has_fewer:
                self.schedule, self.compared, self.repetitions, self.baselines, self.networks = kept
        return not has_fewer

    def _more_candidates(self, candidates: list[Encoding]) -> bool:
        self.note(f"Time is left, so these are compared as well: {', '.join(map(str, candidates))}.")
        began = time.perf_counter()
        self.schedule = replace(self.schedule, candidates=(*self.schedule.candidates, *candidates))
        self._train(self.repetitions[0], candidates, self.networks)
        self.seconds += time.perf_counter() - began
        return True

    def _repeat(self) -> bool:
        """Cross-validate again with other folds; the results count if all rows of the ranking have them."""
        self.note(f"Time is left, so the comparison is repeated with {self.schedule.folds} other folds.")
        began, scored = time.perf_counter(), list[Scored]()
        seed = self.options.seed + EXTENSIONS.seed_step * len(self.repetitions)
        prepared = fold_table(self.compared, folds=self.schedule.folds, seed=seed)
        if len(prepared.splits) != self.n_folds:
            return False
        baselines, _ = self._score_baselines(prepared)
        encodings = [row.candidate for row in self.networks if row.is_finite and isinstance(row.candidate, Encoding)]
        self._train(prepared, encodings, scored)
        others = {row.candidate: row for row in (*baselines, *scored) if row.is_finite}
        if any(row.n_stopped[1] > 0 for row in scored) or any(row.candidate not in others for row in self.scored):
            return False  # cut by the time limit: the scores of two such repetitions are not comparable
        self.networks, self.baselines = (
            [join_repetitions(row, others[row.candidate]) if row.is_finite else row for row in rows]
            for rows in (self.networks, self.baselines)
        )
        self.repetitions.append(prepared)
        self.seconds += time.perf_counter() - began
        return True

    def score_ensemble(self, rows: npt.NDArray[np.int64], predictions: npt.NDArray[np.float64], **about: Any) -> Scored:
        """Return the row of an ensemble from its predictions out of fold.

        `rows` are their places in the whole table, increasing, among them all that are tested; `about` are fields of
        `Scored`.
        """
        scored, places = [], self.compared.features.index.to_numpy()
        for prepared in self.repetitions:
            outputs = [to_outputs(predictions[np.searchsorted(rows, places[split.test])]) for split in prepared.splits]
            none = np.zeros(len(outputs), dtype=np.int64)
            scored.append(score_outputs(prepared, outputs, kind="ensemble", epochs=none, best_epochs=none, **about))
        return reduce(join_repetitions, scored)

    @property
    def evidence(self) -> str:
        """A sentence on the rows, folds and epochs that the ranking rests on."""
        n_rows, n_all = self.compared.n_rows, self.source.n_rows
        rows = (
            f"all {counted(n_all)} rows"
            if n_rows == n_all
            else f"{counted(n_rows)} of {counted(n_all)} rows, drawn at random"
        )
        n_columns, n_features = self.compared.features.shape[1], self.source.features.shape[1]
        if n_columns < n_features:
            rows += f", with {counted(n_columns)} of {counted(n_features)} features"
        folds = f"{self.n_folds} folds"
        if self.source.n_in_time:
            folds += " in the order of time"
        elif self.source.groups is not None:
            folds += " that keep groups together"
        if len(self.repetitions) > 1:
            folds = f"{len(self.repetitions)} x {folds}"
        if not self.networks:
            return f"The ranking rests on {rows}, {folds}, and no networks."
        epochs = np.concatenate([row.epochs for row in self.networks])
        return f"The ranking rests on {rows}, {folds}, and networks trained for {between(epochs.tolist())} epochs."

    @property
    def banners(self) -> list[str]:
        """Sentences on networks that were stopped too early."""
        n_networks = sum(len(row.epochs) for row in self.networks)
        n_capped, n_cut = (sum(row.n_stopped[place] for row in self.networks) for place in (0, 1))
        advice = "they might still improve, and the ranking change: give a larger --time-budget."
        lines = []
        if n_capped:
            cap = self.schedule.max_epochs
            lines.append(f"{n_capped} of {n_networks} networks reached the cap of {cap} epochs: {advice}")
        if n_cut:
            lines.append(f"{n_cut} of {n_networks} networks were stopped by the time limit or by Ctrl-C: {advice}")
        if not self.schedule.fits:
            lines.append("The time budget is too short for a useful comparison of this table.")
        return lines


def most_related(source: Source, share: float) -> Source:
    """Return a table with a share of its numerical columns, those with the largest correlation with the target.

    A column counts by itself and by its distance from its mean, whichever is larger; for classes, by any class.
    """
    if share == 1:
        return source
    columns, table = source.read
    numerical = np.array([place for place, column in enumerate(columns) if column.role == Role.NUMERICAL])
    target = source.target[:, None] if not source.classes else source.target[:, None] == np.arange(len(source.classes))
    goal = _standardised(target.astype(np.float64))
    values = _standardised(table.numbers[:, [columns.spans[place].places.start for place in numerical.tolist()]])
    related = [np.abs(part.T @ goal).max(axis=1) for part in (values, _standardised(np.abs(values)))]
    n_kept = max(round(share * len(numerical)), 1)
    dropped = set(numerical[np.argsort(-np.maximum(*related), kind="stable")[n_kept:]].tolist())
    return source.select([place for place in range(len(columns)) if place not in dropped])


def _standardised(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return columns of mean 0 and standard deviation 1, with 0 for missing values."""
    with np.errstate(invalid="ignore"):  # in a column without values
        return np.asarray(np.nan_to_num(StandardScaler().fit_transform(values)))
