"""A comparison from a file to a recommendation, a saved model and a page."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from knotwork._checks import argument_error
from knotwork._preparation.columns import Columns
from knotwork.compare._announce import describe_plan, describe_table
from knotwork.compare._budget import Plan, make_plan, report_seconds, whole_plan
from knotwork.compare._candidates import make_candidates
from knotwork.compare._effects import feature_effects
from knotwork.compare._final import Final, fit_final
from knotwork.compare._options import CompareOptions
from knotwork.compare._page import fold_frame, ranking_csv, write_page, write_text
from knotwork.compare._scoring import CrossValidation, Progress, fold_table
from knotwork.compare._source import Source, read_source
from knotwork.compare._speed import measure_speed
from knotwork.compare._verdict import Ranking, baseline_scores, rank_candidates
from knotwork.errors import ColumnError
from knotwork.training._config import TrainingConfig

__all__ = ["Comparison", "compare_table"]

INTERRUPTED = (
    "Ctrl-C ended the comparison early. The ranking is of what was trained by then, and no model was saved: run the "
    "same command again for all of it, or with a smaller --time-budget."
)

ROWS_LOOKED_AT = 100_000
"""Rows by which columns are judged before anything is trained."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What came out of a comparison.

    Parameters
    ----------
    ranking : Ranking
        The candidates in order, and the recommendation in words.
    plan : Plan
        What was trained.
    task : {"regression", "classification"}
        What is predicted.
    model : estimator or None
        The recommended model, fitted on all rows; None after Ctrl-C.
    model_path, page : Path or None
        Where the model was saved, and the page.
    notes : tuple of str
        What a reader should know, as sentences.
    interrupted : bool
        Whether Ctrl-C ended it early.
    seconds : float
        How long it took.
    """

    ranking: Ranking
    plan: Plan
    task: str
    model: Any
    model_path: Path | None
    page: Path
    notes: tuple[str, ...]
    interrupted: bool
    seconds: float

    @property
    def summary(self) -> list[str]:
        """The recommendation and where things are, line by line."""
        lines = [f"Recommendation: {self.ranking.verdict}.", *(f"  {each}" for each in self.ranking.sentences)]
        if self.interrupted:
            lines.append(INTERRUPTED)
        lines.append(f"Report: {self.page.resolve()}")
        if self.model_path is not None:
            new = f"New rows: knotwork predict {self.model_path} new_rows.csv"
            lines += [f"Model: {self.model_path.resolve()}", new]
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
    """Find out which encoding suits a table, with evidence, and save the model that follows from it.

    Candidates are cross-validated in stacks, with the preparation of the estimators: what is compared is what is saved.
    Rows whose target is missing are left out. Within a time budget the speed is measured first; then rows, candidates,
    folds and epochs are chosen so that all of it fits, and what was chosen is said before it is done. After Ctrl-C,
    what there is by then is ranked and reported, without a model.

    Parameters
    ----------
    path : str or path
        A CSV, Parquet, Arrow or Feather file.
    target : str
        Name of the target column.
    out : str or path, default="comparison"
        Folder for ``report.html``, ``model.knotwork``, ``ranking.csv`` and ``folds.csv``; it is made if need be.
    options : CompareOptions, optional
        What is compared, and within which time; by default ``CompareOptions()``.
    device : str or torch.device, default="auto"
        Where networks are trained.
    report : callable, optional
        Is called with every sentence that is said on the way.
    progress : callable, optional
        Makes a display of a training, such as `knotwork.training._progress.ProgressBar`.
    started : float, optional
        When the time budget began, on the clock of ``time.perf_counter``; by default now.

    Returns
    -------
    Comparison
        Ranking, recommendation, model and where things were written.
    """
    began = time.perf_counter() if started is None else started
    run = _Run(Path(out).expanduser(), options or CompareOptions(), device, report or _say_nothing, progress, began)
    return run.compare(read_source(path, target, task=run.options.task, drop=run.options.drop))


def _say_nothing(sentence: str) -> None:
    """Say nothing."""


@dataclass(eq=False)
class _Run:
    """One comparison on its way."""

    out: Path
    options: CompareOptions
    device: Any
    say: Callable[[str], None]
    progress: Progress | None
    started: float
    notes: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Seconds that are left of the budget."""
        budget = self.options.time_budget
        return float("inf") if budget is None else budget - (time.perf_counter() - self.started)

    def compare(self, source: Source) -> Comparison:
        """Go through all steps."""
        self.out.mkdir(parents=True, exist_ok=True)
        columns = Columns.from_table(source.draw(ROWS_LOOKED_AT, seed=self.options.seed).features)
        if "numerical" not in columns.roles:
            raise ColumnError(
                f"{source.name} has no numerical feature, and encodings are of numbers: there is nothing to compare. "
                "Fit knotwork.TabularRegressor or TabularClassifier, which learn vectors for categories."
            )
        for line in describe_table(source, columns):
            self._note(line)
        warnings = [f"{each} (--drop leaves a column out.)" for each in columns.warnings]
        for line in warnings:
            self.say(f"Warning: {line}")
        plan = self._plan(source)
        validation, interrupted = self._validate(source, plan)
        good = [each for each in validation.scored if each.is_finite]
        ranking = rank_candidates(good, task=source.task, baseline=baseline_scores(validation.prepared))
        final = None if interrupted else self._final(source, ranking, validation)
        failed = [str(each.candidate) for each in validation.scored if not each.is_finite]
        page = self._write(source, ranking, validation, final, words={"failed": failed, "warnings": warnings})
        return Comparison(
            ranking,
            plan,
            source.task,
            None if final is None else final.model,
            None if final is None else final.path,
            page,
            (*self.notes, *warnings),
            interrupted or final is None,
            time.perf_counter() - self.started,
        )

    def _note(self, line: str) -> None:
        self.notes.append(line)
        self.say(line)

    def _plan(self, source: Source) -> Plan:
        """Choose what is trained, and say so."""
        options, network = self.options, self.options.network
        candidates, counts = make_candidates(options.methods, options.sizes, task=source.task, backbone=network.advice)
        if options.time_budget is None:
            plan = whole_plan(candidates, folds=options.folds, n_rows=source.n_rows)
        else:
            self.say("Measuring the speed of this machine on a first small stack ...")
            speed = measure_speed(source, candidates, backbone=network, device=self.device, seed=options.seed)
            plan = make_plan(
                speed,
                candidates,
                counts,
                n_rows=source.n_rows,
                folds=options.folds,
                budget=options.time_budget,
                left=self.left,
            )
            self._note(f"Time budget: {options.time_budget:.0f} s, of which {self.left:.0f} s are left.")
        for line in describe_plan(plan, candidates, n_rows=source.n_rows, backbone=options.backbone):
            self._note(line)
        return plan

    def _validate(self, source: Source, plan: Plan) -> tuple[CrossValidation, bool]:
        """Cross-validate; return what came out, and whether Ctrl-C ended it."""
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
            if not any(each.is_finite for each in validation.scored):
                raise KeyboardInterrupt("Nothing had been compared yet.") from None
        if not any(each.is_finite for each in validation.scored):
            raise argument_error("table", "lead to finite scores", source.name, "Training diverged for all candidates.")
        epochs = np.concatenate([each.epochs for each in validation.scored])
        self._note(
            f"Compared {len(validation.scored)} candidates in {time.perf_counter() - started:.0f} s: networks had "
            f"{epochs.min()} to {epochs.max()} epochs."
        )
        if validation.out_of_time:
            self._note("Some were stopped by the clock before they had stopped by themselves.")
        return validation, interrupted

    def _final(self, source: Source, ranking: Ranking, validation: CrossValidation) -> Final | None:
        """Fit the recommended model on all rows, and save it; None after Ctrl-C."""
        budget = self.options.time_budget
        seconds = None if budget is None else max(self.left - report_seconds(budget) - 0.06 * budget, 0.5)
        try:
            final = fit_final(
                source,
                ranking.chosen.scored,
                validation,
                path=self.out / "model.knotwork",
                backbone=self.options.backbone,
                seed=self.options.seed,
                seconds=seconds,
            )
        except KeyboardInterrupt:
            return None
        for line in final.notes:
            self._note(line)
        return final

    def _write(
        self,
        source: Source,
        ranking: Ranking,
        validation: CrossValidation,
        final: Final | None,
        *,
        words: dict[str, list[str]],
    ) -> Path:
        """Write the page and the tables."""
        n_features, effects = source.features.shape[1], []
        if final is not None:
            deadline = time.perf_counter() + max(0.6 * self.left, 1.0)
            size = ranking.chosen.candidate.size or 15
            effects = list(feature_effects(final.model, source, size=size, deadline=deadline))
        elapsed = time.perf_counter() - self.started
        numbers = [
            (f"{source.n_rows:,}", "rows"),
            (str(n_features), "features"),
            (str(len(ranking.lines)), "encodings"),
            (str(len(validation.prepared.splits)), "folds"),
            (str(sum(len(each.epochs) for each in validation.scored)), "networks"),
            (f"{elapsed:.0f} s", "time"),
        ]
        page = self.out / "report.html"
        said = {
            **words,
            "name": source.name,
            "numbers": numbers,
            "done": self.notes,
            "interrupted": "" if final is not None else INTERRUPTED,
            "code": "" if final is None or final.path is None else f"knotwork predict {final.path} new_rows.csv",
        }
        write_page(
            page, ranking, effects=effects, n_features=n_features, task=source.task, target=source.target_name,
            words=said,
        )  # fmt: skip
        write_text(self.out / "ranking.csv", ranking_csv(ranking))
        write_text(self.out / "folds.csv", fold_frame(validation.scored).to_csv(index=False))
        return page
