"""A comparison from a file to a recommendation, a saved model and a page."""

import math
import os
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
import torch

from knotwork._checks import argument_error
from knotwork._files import check_writable
from knotwork._preparation.columns import Role
from knotwork._writing import counted
from knotwork.compare._budget import (
    COSTS,
    ComparisonSchedule,
    make_schedule,
    measure_speed,
    refit_rows,
    report_seconds,
    unlimited_schedule,
)
from knotwork.compare._explained import ExplainedModel
from knotwork.compare._inputs import IN_TIME, SINGLE, CompareOptions, Source, make_candidates, read_source
from knotwork.compare._models import (
    ADDITIVE_KINDS,
    ensemble_estimator,
    fit_additive,
    prepared_rows,
    row_estimator,
)
from knotwork.compare._page import fold_frame, ranking_frame, write_page, write_text
from knotwork.compare._rounds import Rounds, most_related
from knotwork.compare._scoring import Progress, Scored, predict_out_of_fold
from knotwork.compare._verdict import Ranking
from knotwork.encoders import Encoding, FeatureChoice
from knotwork.errors import ColumnError, ColumnWarning, PersistenceError
from knotwork.estimators import (
    FittedModel,
    Monitor,
    Preparation,
    choose_features,
    combine,
    effort_seconds,
    fitted,
    model_of,
    train,
)
from knotwork.training import D_CATEGORY, Trained, TrainingConfig, resolve_device

MODEL, MODEL_PAGE = "model.knotwork", "model.html"
"""Names of the saved model, the longest of the files of a comparison, and of its page."""

ROWS_INSPECTED = 100_000
"""Rows by which columns are compared with the target."""


@dataclass(frozen=True)
class RemainingTime:
    """Largest shares of the remaining time for the steps after the training of the model; conventions.

    Parameters
    ----------
    importances : float
        For shuffling every column.
    page : float
        For the page of the model; the report needs some time, too.
    choices : float
        For the choice of an encoding for each column.
    choice_seconds : float
        Seconds of this choice for each number of the table, on one processor.
    again : float
        Of the time for the final model, what is kept from the ensemble for training another row on all rows.
    """

    importances: float = 0.4
    page: float = 0.6
    choices: float = 0.2
    choice_seconds: float = 1.5e-5
    again: float = 0.3


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
        Everything that was trained in order, and the recommendation in sentences.
    schedule : ComparisonSchedule
        What was trained: candidates, folds, rows and epochs.
    task : {"regression", "classification"}
        The task.
    model : estimator or None
        The recommended model, of any kind; None if a second Ctrl-C came before it.
    model_path : Path or None
        The file of the model; None if it was not saved.
    saved : str
        A sentence on the model that was saved and the rows that it was trained on, or that none was.
    page : Path
        The report.
    model_page : Path or None
        The page of the model, which explains it and predicts; None if there is no model.
    notes : tuple of str
        All sentences that were reported, and warnings about columns.
    interrupted : bool
        Whether Ctrl-C ended the comparison early.
    seconds : float
        Duration.
    time_budget : float or None
        Seconds that it was allowed.
    evidence : str
        A sentence on the rows, folds and epochs that the ranking rests on.
    banners : tuple of str
        Sentences on networks that reached the cap of epochs or the time limit.
    compared : Source
        The rows that were tested, in the order of the predictions out of fold of the ranking
        (``ranking.chosen.scored.predictions``).
    """

    ranking: Ranking
    schedule: ComparisonSchedule
    task: str
    model: Any
    model_path: Path | None
    saved: str
    page: Path
    model_page: Path | None
    notes: tuple[str, ...]
    interrupted: bool
    seconds: float
    time_budget: float | None
    evidence: str
    banners: tuple[str, ...]
    compared: Source

    @property
    def summary(self) -> list[str]:
        """The recommendation, its evidence, and the files written, line by line."""
        lines = [f"Recommendation: {self.ranking.verdict}.", f"  {self.evidence}"]
        lines += [f"  Warning: {banner}" for banner in self.banners]
        lines += [f"  {sentence}" for sentence in self.ranking.sentences]
        lines += [self.saved, f"Report: {self.page.resolve()}"]
        if self.model_page is not None:
            lines.append(f"Page of the model: {self.model_page.resolve()}")
        if self.model_path is not None:
            lines.append(f"Model: {self.model_path.resolve()}")
            lines.append(f"New rows: {_command(self.model_path)}")
        return [*lines, f"Done in {_duration(self.seconds, self.time_budget)}."]


def _duration(seconds: float, budget: float | None) -> str:
    """Return a duration and the time budget in words, the same in the terminal and on the page."""
    return f"{seconds:.0f} s" if budget is None else f"{seconds:.0f} s of {budget:g} s"


def _check_out(out: Path) -> None:
    """Raise an error for a folder that could not be written, or whose model could not be loaded, before any work."""
    try:
        os.fsencode(out).decode()
    except UnicodeDecodeError:
        hint = "A model in such a folder cannot be loaded: choose another name."
        raise argument_error("out", "have a name in UTF-8", str(out), hint) from None
    check_writable(out / MODEL)


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
    """Compare models and encodings on a table by cross-validation, recommend one, and save it.

    Candidates are cross-validated in stacks, with the same preparation as in the estimators. Rows with a missing target
    are dropped. With a time budget, the speed is measured first; then rows, candidates, folds and epochs are chosen to
    fit, and the choice is reported before training. A linear model, curves, boosted trees, networks with each encoding,
    and the ensemble of ``CompareOptions.effort`` are ranked together. The recommended row, of any kind, is the model
    that is saved and explained. After Ctrl-C, what was trained until then is ranked, and its recommendation is saved.

    Parameters
    ----------
    path : str or path
        The file; formats as in `knotwork.datasets.read_table`.
    target : str
        Name of the target column.
    out : str or path, default="comparison"
        Folder for ``report.html``, ``model.html``, ``model.knotwork``, ``ranking.csv`` and ``folds.csv``; created if
        missing.
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
    in_time = chosen.validation == IN_TIME
    about: dict[str, Any] = {"drop": chosen.drop, "groups": chosen.groups, "in_time": in_time, "text": chosen.text}
    source = read_source(path, target, task=chosen.task, **about)
    say = report or (lambda sentence: None)
    return ComparisonRun(source, Path(out).expanduser(), chosen, device, say, progress, began).compare()


@dataclass(eq=False)
class ComparisonRun:
    """The state of a comparison.

    `interrupted` tells whether Ctrl-C ended it early; `saved` is a sentence on the model. `trained_on` has the rows of
    the model.
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
    saved: str = ""
    interrupted: bool = False
    seconds: float = 0.0
    ensemble: tuple[Any, Source] | None = None
    trained_on: Source | None = None
    model_page: Path | None = None

    @property
    def left(self) -> float:
        """Remaining seconds of the budget."""
        budget = self.options.time_budget
        return math.inf if budget is None else budget - (time.perf_counter() - self.started)

    def compare(self) -> Comparison:
        """Measure, train, rank, save the recommended model, and write the files."""
        source = self.source
        _check_out(self.out)
        inspected = source.draw(ROWS_INSPECTED, seed=self.options.seed)
        columns = source.read.columns.with_copies(inspected.read.table, inspected.target)
        if not columns.numerical_names:
            raise ColumnError(
                f"{source.name} has no numerical feature, so there is no encoding to compare. Fit "
                "knotwork.TabularRegressor or TabularClassifier, which learn vectors for categories."
            )
        n_groups = None if source.groups is None else len(np.unique(source.groups))
        if n_groups is not None and (self.options.folds or 0) > n_groups:
            raise argument_error("folds", f"be at most {n_groups}, the number of groups", self.options.folds)
        self._note(*source.describe(columns))
        warnings = [
            column.warning if column.role == Role.IGNORED else f"{column.warning} (--drop ignores a column.)"
            for column in columns
            if column.warning
        ]
        for line in warnings:
            self.say(f"Warning: {line}")
        rounds = self._validate()
        with catch_warnings():
            simplefilter("ignore", ColumnWarning)  # they were reported above
            self.ranking = rounds.rank(self._ensemble_row(rounds))
            self._finish(rounds)
        page = self._write(rounds, warnings)
        return Comparison(
            ranking=self.ranking,
            schedule=rounds.schedule,
            task=source.task,
            model=self.model,
            model_path=self.model_path,
            saved=self.saved,
            page=page,
            model_page=self.model_page,
            notes=(*self.notes, *warnings),
            interrupted=self.interrupted,
            seconds=self.seconds,
            time_budget=self.options.time_budget,
            evidence=rounds.evidence,
            banners=tuple(rounds.banners),
            compared=rounds.tested,
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

    def _validate(self) -> Rounds:
        """Cross-validate; Ctrl-C ends it with what was trained until then."""
        options, source = self.options, self.source
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
            self.interrupted = True
        if not rounds.scored:
            if self.interrupted:
                raise KeyboardInterrupt("Nothing has been compared yet.")
            hint = "Training diverged for all candidates: look for extreme values in the target."
            raise argument_error("table", "lead to finite scores", source.name, hint)
        self._note(
            f"Compared {counted(len(rounds.networks), 'encoding')} and {counted(len(rounds.baselines), 'other model')} "
            f"in {time.perf_counter() - started:.0f} s. {rounds.evidence}",
            *(f"Warning: {banner}" for banner in rounds.banners),
        )
        return rounds

    def _ensemble_row(self, rounds: Rounds) -> list[Scored]:
        """Train the ensemble of the effort; return its row of the ranking, if it has one."""
        if self.options.effort == SINGLE or self.interrupted:
            return []
        try:
            return self._train_ensemble(rounds)
        except KeyboardInterrupt:
            self.interrupted = True
        return []

    def _train_ensemble(self, rounds: Rounds) -> list[Scored]:
        """Train the ensemble on all rows, or as many as time allows, and score it by predictions out of fold."""
        source, compared, seconds = self.source, rounds.compared, self._seconds_of_model()
        n_rows, encoding = source.n_rows, rounds.rank().encoding
        if seconds is not None:
            seconds -= min(self._seconds_again(rounds, rounds.rank().chosen.scored), REMAINING.again * seconds)
            if encoding is not None:
                n_rows = max(_affordable_rows(source, encoding.scored, rounds, seconds), compared.n_rows)
        # A draw contains a smaller one with the same random seed, except for a row or so of each class.
        drawn = source.draw(n_rows, seed=self.options.seed).features.index
        rows = most_related(source.take(np.union1d(drawn, compared.features.index)), rounds.schedule.final_share)
        began = time.perf_counter()
        # An effort plans for an idle machine: on a busy one, it plans for less time than it has.
        limit = None if seconds is None else rounds.availability * seconds
        settings: dict[str, Any] = {"device": self.device, "random_state": self.options.seed}
        estimator = ensemble_estimator(self.options.effort, source, time_limit=limit, **settings)
        with catch_warnings(record=True) as caught:  # such as of rows that repeat each other
            simplefilter("always")
            simplefilter("ignore", ColumnWarning)
            preparation = prepared_rows(estimator, rows, n_folds=rounds.n_folds)
        self._note(*(f"Warning: {each.message}" for each in caught))
        config = replace(preparation.config, time_limit=seconds)
        preparation = replace(preparation, config=config)
        fit = combine(preparation, self._trained(preparation, began))
        taken, predicted = time.perf_counter() - began, predict_out_of_fold(fit, preparation)
        early = ", stopped early by the time limit or by Ctrl-C" if fit.trained.interrupted else ""
        self._note(
            f"Ensemble: {_contents(fit)}, trained on {counted(rows.n_rows)} of {counted(source.n_rows)} rows "
            f"in {taken:.0f} s{early}."
        )
        if predicted is None:
            self._note("The ensemble is not ranked: not every row was predicted by networks not trained on it.")
            return []
        self.ensemble = fitted(estimator, fit), rows
        name, n_folds = f"ensemble ({self.options.effort}, {len(fit.weights)} models)", preparation.plan.n_folds
        places = rows.features.index.to_numpy()[predicted[0]]
        row = rounds.score_ensemble(
            places,
            predicted[1],
            candidate=name,
            train_seconds=taken,
            n_parameters=sum(piece.n_parameters for piece in fit.trained.pieces),
            n_trained=round(float(np.mean([len(member.train) for member in preparation.members[:n_folds]]))),
        )
        return [row] if row.is_finite else []

    def _finish(self, rounds: Rounds) -> None:
        """Save the recommended model; Ctrl-C in its training leaves the models of the folds."""
        early = (
            "Ctrl-C ended the comparison early: the ranking is of what was trained until then. "
            if self.interrupted
            else ""
        )
        try:
            self.model, rows = self._chosen_model(rounds)
        except KeyboardInterrupt:
            self.interrupted = True
            hint = "Run the same command again, or with a smaller --time-budget."
            self.saved = f"Ctrl-C ended the comparison early, and no model was saved. {hint}"
            return
        self.trained_on = rows
        fit = None if self.ranking.chosen.kind in ADDITIVE_KINDS else model_of(self.model)
        if fit is not None and not self._has_time_for_importances(fit):
            fitted(self.model, replace(fit, held=None))
            self._note("Importances of columns are skipped, because so many columns would take too long.")
        part = f"all {counted(rows.n_rows)} rows"
        if rows.n_rows < self.source.n_rows:
            part = f"{counted(rows.n_rows)} of {counted(self.source.n_rows)} rows, because time was short"
        try:
            self.model.save(self.out / MODEL)
        except PersistenceError as error:
            self.saved = f"{early}No model was saved: {error}"
            return
        self.model_path = self.out / MODEL
        self.saved = f"{early}The saved model is the recommended one, {self.ranking.chosen.name}, trained on {part}."
        if self.ranking.chosen.kind != "ensemble" and fit is not None:
            self._note(f"Saved: {_contents(fit)}.")

    def _chosen_model(self, rounds: Rounds) -> tuple[Any, Source]:
        """Return the recommended model, and the rows that it was trained on: all of them, if time allows."""
        chosen, source, seconds = self.ranking.chosen.scored, self.source, self._seconds_of_model()
        if chosen.kind == "ensemble":
            assert self.ensemble is not None
            return self.ensemble
        assert chosen.make is not None
        if (
            not self.interrupted
            and not _is_whole(rounds)
            and self._seconds_again(rounds, chosen) <= (seconds or math.inf)
        ):
            with suppress(KeyboardInterrupt):
                model = self._trained_again(rounds, chosen, seconds)
                if model is not None:
                    return model, source
        return chosen.make(), rounds.compared

    def _seconds_again(self, rounds: Rounds, row: Scored) -> float:
        """Return about how long training a row of the ranking on all rows takes; 0 if it was trained on them."""
        if _is_whole(rounds):
            return 0.0
        growth = self.source.read.table.numbers.size / max(rounds.compared.read.table.numbers.size, 1)
        return COSTS.scoring * growth * row.seconds * (1 if row.kind in ADDITIVE_KINDS else rounds.n_folds)

    def _trained_again(self, rounds: Rounds, row: Scored, seconds: float | None) -> Any:
        """Return the model of a row, trained on all rows; None if the time did not suffice."""
        source, options = self.source, self.options
        if row.kind in ADDITIVE_KINDS:
            return fit_additive(row.kind, source)
        settings: dict[str, Any] = {"device": self.device, "random_state": options.seed, "time_limit": seconds}
        if isinstance(row.candidate, Encoding):
            settings |= {"encoding": str(row.candidate), "backbone": options.backbone}
            settings |= {"time_limit": None, "training": TrainingConfig(time_limit=seconds)}
        estimator = row_estimator(row.kind, source, n_folds=rounds.n_folds, **settings)
        preparation = prepared_rows(estimator, source, n_folds=rounds.n_folds)
        trained = self._trained(preparation, time.perf_counter())
        return None if trained.interrupted else fitted(estimator, combine(preparation, trained))

    def _trained(self, preparation: Preparation, began: float) -> Trained:
        """Train what was prepared, with a bar on a terminal."""
        with nullcontext(None) if self.progress is None else self.progress() as bar:
            return train(preparation, began, Monitor(bar=bar))

    def _seconds_of_model(self) -> float | None:
        """Return the time limit of the final model; it leaves time for the report and saving, and for exceeding it."""
        budget = self.options.time_budget
        if budget is None:
            return None
        overhead = min(0.06 / self.availability, 0.15) * budget
        return max(self.left - report_seconds(budget, self.availability) - overhead, 0.5)

    def _has_time_for_importances(self, model: FittedModel) -> bool:
        """Return whether every column can be shuffled in the time that is left."""
        assert model.held is not None
        began = time.perf_counter()
        model.responses(model.held.table)
        return (time.perf_counter() - began) * len(model.columns) <= REMAINING.importances * self.left

    def _finished(self) -> str:
        """Return the duration, which the page and the terminal show, in words."""
        self.seconds = time.perf_counter() - self.started
        return _duration(self.seconds, self.options.time_budget)

    def _choices(self, rounds: Rounds) -> list[FeatureChoice]:
        """Return the encodings that suit each numerical column; none for few rows or little time."""
        prepared, columns = rounds.repetitions[0], rounds.compared.read.columns
        names, rows = columns.numerical_names, prepared.splits[0].train
        if REMAINING.choice_seconds * len(rows) * len(names) / self.availability > REMAINING.choices * self.left:
            return []
        return [choice for choice in choose_features(prepared, names) if choice.losses]

    def _write_model_page(self, rounds: Rounds) -> tuple[str, str] | None:
        """Write the page of the model; return its sentence and top third, or None without a model or after Ctrl-C."""
        if self.trained_on is None:
            return None
        cautions = []
        if self.model_path is None:
            cautions.append(self.saved)
        if rounds.banners or self.interrupted:
            cautions.append("The comparison was cut short: a longer one might recommend another model.")
        if self.trained_on.n_rows < self.source.n_rows:
            counts = f"{counted(self.trained_on.n_rows)} of {counted(self.source.n_rows)}"
            cautions.append(f"Time was short: it was trained on {counts} rows.")
        about: dict[str, Any] = {"ranking": self.ranking, "test_to_train": rounds.test_to_train}
        about["cautions"] = tuple(cautions)
        explained = ExplainedModel(self.model, self.trained_on, rounds.tested, **about)
        page = self.out / MODEL_PAGE
        try:
            shown = explained.write(page, time.perf_counter() + max(REMAINING.page * self.left, 1.0))
        except KeyboardInterrupt:
            self.interrupted = True
            self._note("Ctrl-C ended the comparison before the page of the model was written.")
            return None
        self.model_page = page
        return shown

    def _write(self, rounds: Rounds, warnings: list[str]) -> Path:
        """Write the pages and the tables."""
        n_features = self.source.features.shape[1]
        model = self._write_model_page(rounds)
        texts = {
            "failed": [str(row.candidate) for row in rounds.networks if not row.is_finite],
            "warnings": warnings,
            "saved": self.saved,
            "evidence": rounds.evidence,
            "banners": rounds.banners,
            "numbers": [
                (counted(self.source.n_rows), "rows"),
                (str(n_features), "features"),
                (str(len(rounds.networks)), "encodings"),
                (str(len(self.ranking.lines) - len(rounds.networks)), "other models"),
                (str(sum(len(prepared.splits) for prepared in rounds.repetitions)), "folds"),
                (str(sum(len(row.epochs) for row in rounds.networks)), "networks"),
            ],
            "done": self.notes,
            "interrupted": self.interrupted,
            "code": "" if self.model_path is None else _command(self.model_path),
        }
        page, choices = self.out / "report.html", self._choices(rounds)
        write_text(self.out / "ranking.csv", ranking_frame(self.ranking).to_csv(index=False))
        scored = [line.scored for line in self.ranking.lines]
        write_text(self.out / "folds.csv", fold_frame(scored).to_csv(index=False))
        about: dict[str, Any] = {"words": texts, "model": model, "choices": choices, "duration": self._finished}
        write_page(page, self.ranking, rounds.tested, **about)
        return page


def _is_whole(rounds: Rounds) -> bool:
    """Return whether the comparison has all rows and columns of the table."""
    compared, source = rounds.compared, rounds.source
    return compared.features.shape == source.features.shape


def _contents(model: FittedModel) -> str:
    """Return the members of a model in words: those of an ensemble by kind, with their weights."""
    histories = model.trained.histories
    if not model.candidates:
        epochs = sorted({history.best_epoch for history in histories})
        course = f"{epochs[0]} to {epochs[-1]}" if len(epochs) > 1 else f"{epochs[0]}"
        word = "trees" if model.backbones[0] is None else "epochs"
        return f"{len(histories)} models, one for each fold, of {course} {word}"
    names = [
        f"{each['backbone']}{_encoded(each)}, {100 * each['weight']:.0f} %"
        for each in model.candidates
        if each["weight"] > 0
    ]
    return f"{len(model.weights)} models ({'; '.join(names)})"


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
