"""A comparison from a file to a recommendation, a saved model and a page."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from knotwork._checks import argument_error
from knotwork._preparation.columns import Columns
from knotwork.compare._budget import Plan, make_plan, measure_speed, refit_rows, report_seconds, unlimited_plan
from knotwork.compare._effects import feature_effects
from knotwork.compare._options import SINGLE, CompareOptions, make_candidates
from knotwork.compare._page import fold_frame, ranking_frame, write_page, write_text
from knotwork.compare._scoring import CrossValidation, Progress, Scored, fold_table, out_of_fold_score
from knotwork.compare._source import Source, read_source
from knotwork.compare._verdict import Ranking, baseline_scores, explain_gain, rank_candidates
from knotwork.encoders._methods import Encoding
from knotwork.errors import ColumnError, PersistenceError
from knotwork.estimators._base import Preparation
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._plans import effort_seconds
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import resolve_device
from knotwork.training._network import D_CATEGORY

__all__ = ["Comparison", "compare_table"]

INTERRUPTED = (
    "Ctrl-C ended the comparison early. The ranking is of the networks trained so far, and no model was saved: run the "
    "same command again, or with a smaller --time-budget."
)

ROWS_INSPECTED = 100_000
"""Rows from which the roles of columns are inferred before training."""

IDENTIFIER_SHARE = 0.3
"""A column with more categories than this share of its rows has new categories in new rows."""

PARAMETER_SECONDS = 6e-9
"""Seconds that a parameter adds to a step: the optimiser reads and writes it whether a batch needs it or not."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of a comparison.

    Parameters
    ----------
    ranking : Ranking
        The candidates in order, and the recommendation in sentences.
    plan : Plan
        What was trained: candidates, folds, rows and epochs.
    task : {"regression", "classification"}
        The task.
    model : estimator or None
        The model of ``CompareOptions.effort``, fitted on all rows or as many as time allows; None if Ctrl-C ended the
        comparison before it.
    model_path : Path or None
        The file of the model; None if it was not saved.
    gain : str
        What an ensemble gains over a single network, as sentences; empty for a single network or no model.
    page : Path
        The report.
    notes : tuple of str
        Everything that was reported on the way, as sentences, and warnings about columns.
    interrupted : bool
        Whether Ctrl-C ended the comparison early.
    seconds : float
        Duration.
    """

    ranking: Ranking
    plan: Plan
    task: str
    model: Any
    model_path: Path | None
    gain: str
    page: Path
    notes: tuple[str, ...]
    interrupted: bool
    seconds: float

    @property
    def summary(self) -> list[str]:
        """The recommendation and the files written, line by line."""
        lines = [f"Recommendation: {self.ranking.verdict}.", *(f"  {sentence}" for sentence in self.ranking.sentences)]
        if self.gain:
            lines.append(self.gain)
        if self.interrupted:
            lines.append(INTERRUPTED)
        lines.append(f"Report: {self.page.resolve()}")
        if self.model_path is not None:
            lines.append(f"Model: {self.model_path.resolve()}")
            lines.append(f"New rows: knotwork predict {self.model_path} new_rows.csv")
        return [*lines, f"Done in {self.seconds:.0f} s."]


def compare_table(
    path: str | PathLike[str],
    target: str,
    *,
    out: str | PathLike[str] = "comparison",
    options: CompareOptions | None = None,
    device: Any = "auto",
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
        A CSV, Parquet, Arrow or Feather file.
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
        Returns a progress display of one training, a context manager such as
        `knotwork.training._progress.ProgressBar`.
    started : float, optional
        Start of the time budget, on the clock of ``time.perf_counter``; by default now.

    Returns
    -------
    Comparison
        Ranking, recommendation, model, and the files written.
    """
    began = time.perf_counter() if started is None else started
    say = report or (lambda sentence: None)
    run = _Run(Path(out).expanduser(), options or CompareOptions(), device, say, progress, began)
    return run.compare(read_source(path, target, task=run.options.task, drop=run.options.drop))


@dataclass(eq=False)
class _Run:
    """The state of a comparison."""

    out: Path
    options: CompareOptions
    device: Any
    say: Callable[[str], None]
    progress: Progress | None
    started: float
    notes: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Remaining seconds of the budget."""
        budget = self.options.time_budget
        return float("inf") if budget is None else budget - (time.perf_counter() - self.started)

    def compare(self, source: Source) -> Comparison:
        """Measure, train, rank, fit the final model, and write the files."""
        self.out.mkdir(parents=True, exist_ok=True)
        columns = Columns.from_table(source.draw(ROWS_INSPECTED, seed=self.options.seed).features)
        if "numerical" not in columns.roles:
            raise ColumnError(
                f"{source.name} has no numerical feature, so there is no encoding to compare. Fit "
                "knotwork.TabularRegressor or TabularClassifier, which learn vectors for categories."
            )
        self._note(*source.describe(columns))
        warnings = [f"{warning} (--drop ignores a column.)" for warning in columns.warnings]
        for line in warnings:
            self.say(f"Warning: {line}")
        plan = self._plan(source)
        validation, interrupted = self._validate(source, plan)
        finite = [result for result in validation.scored if result.is_finite]
        failed = [str(result.candidate) for result in validation.scored if not result.is_finite]
        ranking = rank_candidates(finite, task=source.task, baseline=baseline_scores(validation.prepared))
        model, model_path, gain = None, None, ""
        if not interrupted:
            with suppress(KeyboardInterrupt):  # the ranking is still reported
                model, gain = self._final(source, ranking, validation)
                model_path = self._save(model)
        words = {"failed": failed, "warnings": warnings, "gain": gain}
        page = self._write(source, ranking, validation, model, model_path, words=words)
        seconds = time.perf_counter() - self.started
        notes = (*self.notes, *warnings)
        return Comparison(ranking, plan, source.task, model, model_path, gain, page, notes, model is None, seconds)

    def _note(self, *lines: str) -> None:
        for line in lines:
            self.notes.append(line)
            self.say(line)

    def _plan(self, source: Source) -> Plan:
        """Choose what is trained, and report it."""
        options, network = self.options, self.options.network
        candidates, counts = make_candidates(options.methods, options.sizes, task=source.task, backbone=network.advice)
        if options.time_budget is None:
            plan = unlimited_plan(candidates, folds=options.folds, n_rows=source.n_rows)
        else:
            self.say("Measuring the speed of this machine on a small stack ...")
            speed = measure_speed(source, candidates, backbone=network, device=self.device, seed=options.seed)
            final = None
            if options.effort != SINGLE:
                final = effort_seconds(options.effort, source.n_rows, device=resolve_device(self.device).type)
            plan = make_plan(
                speed, candidates, counts, n_rows=source.n_rows, folds=options.folds, budget=options.time_budget,
                left=self.left, final=final,
            )  # fmt: skip
            self._note(f"Time budget: {options.time_budget:.0f} s, of which {self.left:.0f} s are left.")
        self._note(*plan.describe(candidates, n_rows=source.n_rows, backbone=options.backbone))
        return plan

    def _validate(self, source: Source, plan: Plan) -> tuple[CrossValidation, bool]:
        """Cross-validate; return the results, and whether Ctrl-C ended it."""
        drawn = source.draw(plan.n_rows, seed=self.options.seed)
        prepared = fold_table(drawn, folds=plan.folds, seed=self.options.seed)
        config = TrainingConfig(max_epochs=plan.max_epochs)
        validation = CrossValidation(prepared, self.options.network, config, self.device, self.progress)
        deadline = None if plan.seconds is None else time.perf_counter() + plan.seconds
        started = time.perf_counter()
        interrupted = False
        try:
            validation.run(plan.candidates, costs=plan.costs, deadline=deadline)
        except KeyboardInterrupt:
            interrupted = True
            if not any(result.is_finite for result in validation.scored):
                raise KeyboardInterrupt("Nothing has been compared yet.") from None
        if not any(result.is_finite for result in validation.scored):
            hint = "Training diverged for all candidates: look for extreme values in the target."
            raise argument_error("table", "lead to finite scores", source.name, hint)
        epochs = np.concatenate([result.epochs for result in validation.scored])
        self._note(
            f"Compared {len(validation.scored)} candidates in {time.perf_counter() - started:.0f} s: networks were "
            f"trained for {epochs.min()} to {epochs.max()} epochs."
        )
        if validation.out_of_time:
            self._note("Some networks reached the time limit before early stopping.")
        return validation, interrupted

    def _final(self, source: Source, ranking: Ranking, validation: CrossValidation) -> tuple[Any, str]:
        """Fit the final model on all rows, or on as many as time allows; return it, and what an ensemble gains."""
        budget, scored, seconds = self.options.time_budget, ranking.chosen.scored, None
        n_rows = source.n_rows
        if budget is not None:
            # A part of the budget stays for saving the model, and for what training takes beyond its limit.
            seconds = max(self.left - report_seconds(budget) - 0.06 * budget, 0.5)
            n_rows = _affordable_rows(source, scored, validation, seconds)
        model = self._model(source.task, str(scored.candidate), seconds)
        rows = source.draw(n_rows, seed=self.options.seed)
        began = time.perf_counter()
        preparation = model._prepare(rows.features, rows.labels, None)  # the steps of `fit`: the folds are used below
        model._combine(preparation, model._train(preparation, began))
        if n_rows < source.n_rows:
            self._note(
                f"The model is trained on {n_rows:,} of {source.n_rows:,} rows, drawn at random, because time is short."
                " Give a larger --time-budget to use them all."
            )
        early = ", stopped early by the time limit or by Ctrl-C" if model.trained_.interrupted else ""
        trained = f"on {n_rows:,} rows in {time.perf_counter() - began:.0f} s{early}"
        self._note(f"Model: {_contents(model)}, trained {trained}.")
        n_compared = sum(len(split.test) for split in validation.prepared.splits)
        return model, self._gain(ranking, model, preparation, source, n_compared=n_compared)

    def _model(self, task: str, encoding: str, seconds: float | None) -> Any:
        """Return the final model before it is fitted; `encoding` is that of a single network."""
        kind = TabularRegressor if task == "regression" else TabularClassifier
        settings: dict[str, Any] = {"device": self.device, "random_state": self.options.seed}
        settings["verbose"] = self.progress is not None
        if self.options.effort == SINGLE:
            return kind(encoding, self.options.backbone, training=TrainingConfig(time_limit=seconds), **settings)
        return kind(effort=self.options.effort, time_limit=seconds, **settings)

    def _gain(self, ranking: Ranking, model: Any, preparation: Preparation, source: Source, *, n_compared: int) -> str:
        """Return what an ensemble gains over a single network, as sentences."""
        n_rows, n_networks = len(preparation.table.target), len(model.weights_)
        if self.options.effort == SINGLE:
            return ""
        if preparation.plan.n_folds == 1 or not np.isfinite(model.validation_score_):
            reason = "there are too few rows, or training was stopped before every row was predicted out of fold"
            return f"The saved model is an ensemble of {n_networks} networks. Its gain is not known: {reason}."
        # Draws of one random seed contain the smaller ones, but for a row or so of each class.
        drawn, compared = (source.draw(n, seed=self.options.seed).features.index for n in (n_rows, n_compared))
        score = model.validation_score_
        if n_rows > n_compared:
            score = out_of_fold_score(model, preparation, np.flatnonzero(drawn.isin(compared)))
        return explain_gain(ranking, score, n_networks=n_networks, n_rows=n_rows, n_compared=n_compared)

    def _save(self, model: Any) -> Path | None:
        """Save the model and return its file, or None if the model cannot be saved."""
        path = self.out / "model.knotwork"
        try:
            model.save(path)
        except PersistenceError as error:
            self._note(str(error))
            return None
        return path

    def _write(
        self,
        source: Source,
        ranking: Ranking,
        validation: CrossValidation,
        model: Any,
        model_path: Path | None,
        *,
        words: dict[str, Any],
    ) -> Path:
        """Write the page and the tables; `words` are texts of the page."""
        n_features, effects = source.features.shape[1], []
        if model is not None:
            # Figures may take most of the remaining time; the page itself needs some.
            deadline = time.perf_counter() + max(0.6 * self.left, 1.0)
            size = ranking.chosen.candidate.size or 15
            effects = list(feature_effects(model, source, size=size, deadline=deadline))
        texts = {
            **words,
            "name": source.name,
            "numbers": [
                (f"{source.n_rows:,}", "rows"),
                (str(n_features), "features"),
                (str(len(ranking.lines)), "encodings"),
                (str(len(validation.prepared.splits)), "folds"),
                (str(sum(len(result.epochs) for result in validation.scored)), "networks"),
                (f"{time.perf_counter() - self.started:.0f} s", "time"),
            ],
            "done": self.notes,
            "interrupted": "" if model is not None else INTERRUPTED,
            "code": "" if model_path is None else f"knotwork predict {model_path} new_rows.csv",
        }
        page = self.out / "report.html"
        write_page(
            page, ranking, effects=effects, n_features=n_features, task=source.task, target=source.target_name,
            words=texts,
        )  # fmt: skip
        write_text(self.out / "ranking.csv", ranking_frame(ranking).to_csv(index=False))
        write_text(self.out / "folds.csv", fold_frame(validation.scored).to_csv(index=False))
        return page


def _contents(model: Any) -> str:
    """Return the networks of a model in words: those of an ensemble by kind, with their weights."""
    if not model.candidates_:
        [history], [encodings] = model.trained_.histories, model.encoding_
        encoding, epoch = next(iter(encodings.values())), history.best_epoch
        return f"{encoding}, {history.epochs} epochs with the weights of epoch {epoch}"
    names = [
        f"{each['backbone']} with {Encoding(each['method'], each['size'])}, {100 * each['weight']:.0f} %"
        for each in model.candidates_
        if each["weight"] > 0
    ]
    return f"an ensemble of {len(model.weights_)} networks ({'; '.join(names)})"


def _affordable_rows(source: Source, scored: Scored, validation: CrossValidation, seconds: float) -> int:
    """Return the number of rows on which the final model can be trained within `seconds`."""
    splits = validation.prepared.splits
    fitted = float(np.mean([len(split.train) for split in splits]))
    epoch = scored.train_seconds / max(float(scored.epochs.mean()), 1.0) / fitted
    n_drawn = sum(len(split.test) for split in splits)
    # Each further row of a column such as an identifier adds categories, and so parameters, to the network.
    growing = [n for n in validation.prepared.table.cardinalities if n > IDENTIFIER_SHARE * n_drawn]
    n_new = D_CATEGORY * sum(n / n_drawn * (source.n_rows - n_drawn) for n in growing)
    epoch += PARAMETER_SECONDS * n_new / TrainingConfig().batch_size_for(source.n_rows)
    return refit_rows(source.n_rows, prepare=scored.prepare_seconds / fitted, epoch=epoch, seconds=seconds)
