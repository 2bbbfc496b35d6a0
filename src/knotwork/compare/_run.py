"""A comparison from a file to a recommendation, a saved model and a page."""

import math
import shlex
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import numpy.typing as npt
import torch

from knotwork._checks import argument_error
from knotwork._files import check_writable
from knotwork._preparation.columns import Role
from knotwork.compare._budget import (
    ComparisonSchedule,
    make_schedule,
    measure_speed,
    refit_rows,
    report_seconds,
    unlimited_schedule,
)
from knotwork.compare._effects import ShownFeature, feature_effects
from knotwork.compare._inputs import SINGLE, CompareOptions, Source, make_candidates, read_source
from knotwork.compare._page import fold_frame, ranking_frame, write_page, write_text
from knotwork.compare._rounds import Rounds, most_related
from knotwork.compare._scoring import Progress, Scored, predict_out_of_fold
from knotwork.compare._verdict import Ranking, explain_gain
from knotwork.encoders import Encoding, FeatureChoice
from knotwork.errors import ColumnError, ColumnWarning, PersistenceError
from knotwork.estimators import (
    FittedModel,
    Monitor,
    TabularClassifier,
    TabularRegressor,
    choose_features,
    combine,
    effort_seconds,
    fitted,
    prepare,
    settings_of,
    train,
)
from knotwork.training import D_CATEGORY, TrainingConfig, resolve_device

INTERRUPTED = (
    "Ctrl-C ended the comparison early. The ranking is of the networks trained so far, and no model was saved: run the "
    "same command again, or with a smaller --time-budget."
)

MODEL = "model.knotwork"
"""Name of the saved model, the longest of the files of a comparison."""

ROWS_INSPECTED = 100_000
"""Rows by which columns are compared with the target."""


@dataclass(frozen=True)
class RemainingTime:
    """Largest shares of the remaining time for the steps after the training of the model; conventions.

    Parameters
    ----------
    importances : float
        For shuffling every column.
    features, residuals : float
        For the figures of features, and for the other figures; the page itself needs some time.
    choices : float
        For the choice of an encoding for each column.
    choice_seconds : float
        Seconds of this choice for each number of the table, on one processor.
    """

    importances: float = 0.4
    features: float = 0.6
    residuals: float = 0.5
    choices: float = 0.2
    choice_seconds: float = 1.5e-5


REMAINING = RemainingTime()


@dataclass(frozen=True)
class GrowthRule:
    """What further rows cost in columns such as identifiers, which add categories, and so parameters, to the network.

    Parameters
    ----------
    share : float
        A column with more categories than this share of its rows has new categories in new rows; a convention.
    parameter_seconds : float
        Seconds that a parameter adds to a step: the optimiser reads and writes it whether a batch needs it or not.
    """

    share: float = 0.3
    parameter_seconds: float = 6e-9


GROWTH = GrowthRule()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of a comparison.

    Parameters
    ----------
    ranking : Ranking
        Encodings, baselines and the saved ensemble in order, and the recommendation in sentences.
    schedule : ComparisonSchedule
        What was trained: candidates, folds, rows and epochs.
    task : {"regression", "classification"}
        The task.
    model : estimator or None
        The model of ``CompareOptions.effort``, fitted on all rows or as many as time allows; None if Ctrl-C ended the
        comparison before it.
    model_path : Path or None
        The file of the model; None if it was not saved.
    gain : str
        What an ensemble gains over a single network, as sentences; empty for a single network or without a model.
    page : Path
        The report.
    notes : tuple of str
        All sentences that were reported, and warnings about columns.
    interrupted : bool
        Whether Ctrl-C ended the comparison early.
    seconds : float
        Duration.
    evidence : str
        A sentence on the rows, folds and epochs that the ranking rests on.
    banners : tuple of str
        Sentences on networks that reached the cap of epochs or the time limit.
    compared : Source
        The rows of the comparison, in the order of the predictions out of fold of the ranking
        (``ranking.chosen.scored.predictions``).
    """

    ranking: Ranking
    schedule: ComparisonSchedule
    task: str
    model: Any
    model_path: Path | None
    gain: str
    page: Path
    notes: tuple[str, ...]
    interrupted: bool
    seconds: float
    evidence: str
    banners: tuple[str, ...]
    compared: Source

    @property
    def summary(self) -> list[str]:
        """The recommendation, its evidence, and the files written, line by line."""
        lines = [f"Recommendation: {self.ranking.verdict}.", f"  {self.evidence}"]
        lines += [f"  Warning: {banner}" for banner in self.banners]
        lines += [f"  {sentence}" for sentence in self.ranking.sentences]
        if self.gain:
            lines.append(self.gain)
        if self.interrupted:
            lines.append(INTERRUPTED)
        lines.append(f"Report: {self.page.resolve()}")
        if self.model_path is not None:
            lines.append(f"Model: {self.model_path.resolve()}")
            lines.append(f"New rows: {_command(self.model_path)}")
        return [*lines, f"Done in {self.seconds:.0f} s."]


def _command(model: Path) -> str:
    """Return the line that predicts new rows, as a shell takes it."""
    return f"knotwork predict {shlex.quote(str(model))} new_rows.csv"


def compare_table(
    path: str | PathLike[str],
    target: str,
    *,
    out: str | PathLike[str] = "comparison",
    options: CompareOptions | None = None,
    device: str | torch.device = "auto",
    report: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    started: float | None = None,
) -> Comparison:
    """Compare encodings on a table by cross-validation, recommend one, and save a model.

    Candidates are cross-validated in stacks, with the same preparation as in the estimators. Rows with a missing target
    are dropped. With a time budget, the speed is measured first; then rows, candidates, folds and epochs are chosen to
    fit, and the choice is reported before training. The saved model is an ensemble, and what it gains over a single
    network with the recommended encoding is reported; ``CompareOptions(effort="single")`` saves that network instead.
    After Ctrl-C, the networks trained so far are ranked and reported, and no model is saved; after Ctrl-C in the
    training of the model, the model is the best so far.

    Parameters
    ----------
    path : str or path
        The file; formats as in `knotwork.datasets.read_table`.
    target : str
        Name of the target column.
    out : str or path, default="comparison"
        Folder for ``report.html``, ``model.knotwork``, ``ranking.csv`` and ``folds.csv``; created if missing.
    options : CompareOptions, optional
        Encodings, network, folds, time and effort; by default ``CompareOptions()``.
    device : str or torch.device, default="auto"
        The device for training.
    report : callable, optional
        Called with every sentence on the progress of the comparison.
    progress : callable, optional
        Returns a progress display of one training, a context manager such as `ProgressBar.part`.
    started : float, optional
        Start of the time budget, on the clock of ``time.perf_counter``; by default now.

    Returns
    -------
    Comparison
        Ranking, recommendation, model, and the files written.
    """
    began = time.perf_counter() if started is None else started
    chosen = options or CompareOptions()
    source = read_source(path, target, task=chosen.task, drop=chosen.drop, text=chosen.text)
    say = report or (lambda sentence: None)
    return ComparisonRun(source, Path(out).expanduser(), chosen, device, say, progress, began).compare()


@dataclass(eq=False)
class ComparisonRun:
    """The state of a comparison.

    `model` stays None after Ctrl-C. `drawn` has the model and the rows by which its features are drawn, if time allows.
    """

    source: Source
    out: Path
    options: CompareOptions
    device: str | torch.device
    say: Callable[[str], None]
    progress: Progress | None
    started: float
    clock: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))
    availability: float = 1.0
    notes: list[str] = field(default_factory=list)
    ranking: Ranking = field(init=False)
    model: Any = None
    model_path: Path | None = None
    gain: str = ""
    drawn: tuple[FittedModel, Source] | None = None

    @property
    def left(self) -> float:
        """Remaining seconds of the budget."""
        budget = self.options.time_budget
        return math.inf if budget is None else budget - (time.perf_counter() - self.started)

    def compare(self) -> Comparison:
        """Measure, train, rank, fit the final model, and write the files."""
        source = self.source
        check_writable(self.out / MODEL)
        inspected = source.draw(ROWS_INSPECTED, seed=self.options.seed)
        columns = source.read.columns.with_copies(inspected.read.table, inspected.target)
        if not columns.numerical_names:
            raise ColumnError(
                f"{source.name} has no numerical feature, so there is no encoding to compare. Fit "
                "knotwork.TabularRegressor or TabularClassifier, which learn vectors for categories."
            )
        self._note(*source.describe(columns))
        warnings = [
            column.warning if column.role == Role.IGNORED else f"{column.warning} (--drop ignores a column.)"
            for column in columns
            if column.warning
        ]
        for line in warnings:
            self.say(f"Warning: {line}")
        rounds, interrupted = self._validate()
        self.ranking = rounds.rank()
        if not interrupted:
            with suppress(KeyboardInterrupt), catch_warnings():  # the ranking is still reported
                simplefilter("ignore", ColumnWarning)  # they were reported above
                self._fit(rounds)
        page = self._write(rounds, warnings)
        return Comparison(
            ranking=self.ranking,
            schedule=rounds.schedule,
            task=source.task,
            model=self.model,
            model_path=self.model_path,
            gain=self.gain,
            page=page,
            notes=(*self.notes, *warnings),
            interrupted=self.model is None,
            seconds=time.perf_counter() - self.started,
            evidence=rounds.evidence,
            banners=tuple(rounds.banners),
            compared=rounds.compared,
        )

    def _note(self, *lines: str) -> None:
        for line in lines:
            self.notes.append(line)
            self.say(line)

    def _schedule(self, candidates: list[Encoding], counts: tuple[int, ...]) -> ComparisonSchedule:
        """Choose and report what is trained."""
        options, n_rows = self.options, self.source.n_rows
        if options.time_budget is None:
            schedule = unlimited_schedule(candidates, folds=options.folds, n_rows=n_rows)
        else:
            self.say("Measuring the speed of this machine on a small stack ...")
            speed = measure_speed(
                self.source, candidates, backbone=options.network, device=self.device, seed=options.seed
            )
            wall, cpu = time.perf_counter() - self.clock[0], time.process_time() - self.clock[1]
            self.availability = float(np.clip(cpu / max(wall, 1e-6), 0.1, 1.0))  # others may use the processors, too
            device = resolve_device(self.device).type
            schedule = make_schedule(
                speed,
                candidates,
                counts,
                n_rows=n_rows,
                folds=options.folds,
                budget=options.time_budget,
                left=self.left,
                final=None if options.effort == SINGLE else effort_seconds(options.effort, n_rows, device=device),
                availability=self.availability,
                n_columns=self.source.features.shape[1],
            )
            self._note(f"Time budget: {options.time_budget:.0f} s, of which {self.left:.0f} s are left.")
        self._note(*schedule.describe(candidates, n_rows=n_rows, backbone=options.backbone))
        return schedule

    def _validate(self) -> tuple[Rounds, bool]:
        """Cross-validate; return the results, and whether Ctrl-C ended it."""
        options, source, interrupted = self.options, self.source, False
        candidates, counts = make_candidates(
            options.methods, options.sizes, task=source.task, backbone=options.network.advice
        )
        schedule = self._schedule(candidates, counts)
        started = time.perf_counter()
        deadline = math.inf if schedule.seconds is None else started + schedule.seconds
        rounds = Rounds(source, options, candidates, self.device, self.progress, self._note, deadline)
        try:
            rounds.run(schedule)
        except KeyboardInterrupt:
            interrupted = True
        if not any(row.is_finite for row in rounds.networks):
            if interrupted:
                raise KeyboardInterrupt("Nothing has been compared yet.")
            hint = "Training diverged for all candidates: look for extreme values in the target."
            raise argument_error("table", "lead to finite scores", source.name, hint)
        self._note(
            f"Compared {len(rounds.networks)} encodings and {len(rounds.baselines)} baselines in "
            f"{time.perf_counter() - started:.0f} s. {rounds.evidence}",
            *(f"Warning: {banner}" for banner in rounds.banners),
        )
        return rounds, interrupted

    def _fit(self, rounds: Rounds) -> None:
        """Fit the final model on all rows, or as many as time allows; rank it if it is an ensemble, and save it."""
        source, compared, seconds = self.source, rounds.compared, self._seconds_of_model()
        n_rows = source.n_rows
        if seconds is not None:
            n_rows = max(_affordable_rows(source, self.ranking.encoding.scored, rounds, seconds), compared.n_rows)
        # A draw contains a smaller one with the same random seed, except for a row or so of each class.
        drawn = source.draw(n_rows, seed=self.options.seed).features.index
        places = np.union1d(drawn, compared.features.index)
        rows = most_related(source.take(places), rounds.schedule.final_share)
        began = time.perf_counter()
        # An effort plans for an idle machine: on a busy one, it plans for less time than it has.
        estimator = self._estimator(None if seconds is None else rounds.availability * seconds)
        preparation = prepare(settings_of(estimator), rows.read, rows.labels)  # the folds are used below
        config = replace(preparation.config, time_limit=seconds)
        preparation = replace(preparation, config=config, target_name=source.target_name)
        with nullcontext(None) if self.progress is None else self.progress() as bar:
            fit = combine(preparation, train(preparation, began, Monitor(bar=bar)))
        model, taken = fitted(estimator, fit), time.perf_counter() - began
        if len(places) < source.n_rows:
            self._note(
                f"The model is trained on {len(places):,} of {source.n_rows:,} rows, drawn at random, because time is "
                "short. Give a larger --time-budget to use them all."
            )
        early = ", stopped early by the time limit or by Ctrl-C" if fit.trained.interrupted else ""
        self._note(f"Model: {_contents(model)}, trained on {len(places):,} rows in {taken:.0f} s{early}.")
        ranking, gain = self.ranking, ""
        if self.options.effort != SINGLE:
            predictions = predict_out_of_fold(fit, preparation)
            if predictions is not None:
                predictions = predictions[np.isin(places, compared.features.index)]
            ranking, gain = self._rank_ensemble(rounds, fit, predictions, seconds=taken)
        has_time = self._has_time_for_importances(fit)
        if not has_time:
            fitted(model, replace(fit, held=None))
            self._note("Importances and figures of features are skipped, because so many columns would take too long.")
        self.model_path = self._save(model)
        self.model, self.gain, self.ranking, self.drawn = model, gain, ranking, (fit, rows) if has_time else None

    def _seconds_of_model(self) -> float | None:
        """Return the time limit of the final model; it leaves time for the report and saving, and for exceeding it."""
        budget = self.options.time_budget
        if budget is None:
            return None
        overhead = min(0.06 / self.availability, 0.15) * budget
        return max(self.left - report_seconds(budget, self.availability) - overhead, 0.5)

    def _estimator(self, seconds: float | None) -> Any:
        """Return the final model before it is fitted."""
        kind = TabularRegressor if self.source.task == "regression" else TabularClassifier
        settings: dict[str, Any] = {"device": self.device, "random_state": self.options.seed}
        if self.options.effort != SINGLE:
            return kind(effort=self.options.effort, time_limit=seconds, **settings)
        encoding, training = str(self.ranking.encoding.candidate), TrainingConfig(time_limit=seconds)
        return kind(encoding, self.options.backbone, training=training, **settings)

    def _has_time_for_importances(self, fit: FittedModel) -> bool:
        """Return whether every column can be shuffled in the time that is left."""
        assert fit.held is not None
        began = time.perf_counter()
        fit.outputs(fit.held.table)
        return (time.perf_counter() - began) * len(fit.columns) <= REMAINING.importances * self.left

    def _rank_ensemble(
        self, rounds: Rounds, fit: FittedModel, predictions: npt.NDArray[np.float64] | None, *, seconds: float
    ) -> tuple[Ranking, str]:
        """Return the ranking with an ensemble, by predictions out of fold of the compared rows, and its gain."""
        n_networks, ranking = len(fit.weights), self.ranking
        if predictions is None:
            reason = "there are too few rows, or training was stopped before every row was predicted out of fold"
            return ranking, f"The saved model is an ensemble of {n_networks} models. Its gain is not known: {reason}."
        name = f"ensemble ({self.options.effort}, {n_networks} models)"
        n_parameters = sum(piece.n_parameters for piece in fit.trained.pieces)
        row = rounds.score_ensemble(predictions, name, seconds=seconds, n_parameters=n_parameters)
        if row.is_finite:
            ranking = rounds.rank([row])
        score = row.pooled[ranking.metric]
        return ranking, explain_gain(ranking, score, n_models=n_networks, n_compared=len(predictions))

    def _save(self, model: Any) -> Path | None:
        """Save the model and return its file, or None if the model cannot be saved."""
        path = self.out / MODEL
        try:
            model.save(path)
        except PersistenceError as error:
            self._note(str(error))
            return None
        return path

    def _choices(self, rounds: Rounds) -> list[FeatureChoice]:
        """Return the encodings that suit each numerical column; none for few rows or little time."""
        prepared, columns = rounds.repetitions[0], rounds.compared.read.columns
        names, rows = columns.numerical_names, prepared.splits[0].train
        if REMAINING.choice_seconds * len(rows) * len(names) / self.availability > REMAINING.choices * self.left:
            return []
        return [choice for choice in choose_features(prepared, names) if choice.losses]

    def _write(self, rounds: Rounds, warnings: list[str]) -> Path:
        """Write the page and the tables."""
        effects: list[ShownFeature] = []
        if self.drawn is not None:
            deadline = time.perf_counter() + max(REMAINING.features * self.left, 1.0)
            encoding = self.ranking.encoding.candidate
            size = (encoding.size if isinstance(encoding, Encoding) else None) or 15
            effects = list(feature_effects(*self.drawn, size=size, deadline=deadline))
        n_features = self.source.features.shape[1]
        texts = {
            "failed": [str(row.candidate) for row in rounds.networks if not row.is_finite],
            "warnings": warnings,
            "gain": self.gain,
            "evidence": rounds.evidence,
            "banners": rounds.banners,
            "numbers": [
                (f"{self.source.n_rows:,}", "rows"),
                (str(n_features), "features"),
                (str(len(rounds.networks)), "encodings"),
                (str(len(rounds.baselines)), "baselines"),
                (str(sum(len(prepared.splits) for prepared in rounds.repetitions)), "folds"),
                (str(sum(len(row.epochs) for row in rounds.networks)), "networks"),
                (f"{time.perf_counter() - self.started:.0f} s", "time"),
            ],
            "done": self.notes,
            "interrupted": INTERRUPTED if self.model is None else "",
            "code": "" if self.model_path is None else _command(self.model_path),
        }
        page, choices = self.out / "report.html", self._choices(rounds)
        deadline = time.perf_counter() + max(REMAINING.residuals * self.left, 0.5)
        settings: dict[str, Any] = {"n_features": n_features, "choices": choices, "deadline": deadline}
        write_page(page, self.ranking, rounds.compared, effects=effects, words=texts, **settings)
        write_text(self.out / "ranking.csv", ranking_frame(self.ranking).to_csv(index=False))
        scored = [line.scored for line in self.ranking.lines]
        write_text(self.out / "folds.csv", fold_frame(scored).to_csv(index=False))
        return page


def _contents(model: Any) -> str:
    """Return the members of a model in words: those of an ensemble by kind, with their weights."""
    if not model.candidates_:
        [history], [encodings] = model.trained_.histories, model.encoding_
        encoding, epoch = next(iter(encodings.values())), history.best_epoch
        return f"{encoding}, {history.epochs} epochs with the weights of epoch {epoch}"
    names = [
        f"{each['backbone']}{_encoded(each)}, {100 * each['weight']:.0f} %"
        for each in model.candidates_
        if each["weight"] > 0
    ]
    return f"an ensemble of {len(model.weights_)} models ({'; '.join(names)})"


def _encoded(candidate: dict[str, Any]) -> str:
    """Return the encoding of a candidate as words after its network; boosted trees have none."""
    return "" if candidate["method"] is None else f" with {Encoding(candidate['method'], candidate['size'])}"


def _affordable_rows(source: Source, scored: Scored, rounds: Rounds, seconds: float) -> int:
    """Return the number of rows on which the final model can be trained within `seconds`."""
    prepared = rounds.repetitions[0]
    splits = prepared.splits
    fitted = float(np.mean([len(split.train) for split in splits]))
    epoch = scored.train_seconds / max(float(scored.epochs.mean()), 1.0) / fitted
    n_drawn = sum(len(split.test) for split in splits)
    growing = [n for n in prepared.table.cardinalities if n > GROWTH.share * n_drawn]
    n_new = D_CATEGORY * sum(n / n_drawn * (source.n_rows - n_drawn) for n in growing)
    epoch += GROWTH.parameter_seconds * n_new / TrainingConfig().batch_size_for(source.n_rows)
    return refit_rows(source.n_rows, prepare=scored.prepare_seconds / fitted, epoch=epoch, seconds=seconds)
