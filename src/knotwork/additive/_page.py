"""The page of an additive model: what is kept of a fit, its effects, and its terms as tables for the page."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter, time
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, ndtri, softmax

from knotwork._model_page import (
    ContributionTables,
    FitRecord,
    PageEffect,
    PageRows,
    PageSubject,
    column_entries,
    column_kind,
    kept_places,
    short,
)
from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.learning import TableColumn
from knotwork.additive._fitting import Design, Solution
from knotwork.additive._models import AdditiveClassifier, AdditiveModel, AdditiveRegressor
from knotwork.additive._terms import Category, Curve, Surface, Term
from knotwork.basis import FloatArray

LEFT_OUT = "each predicted by the curves without that row (leave-one-out formula, smoothing unchanged)"
EDITED = "rows of the fit, predicted by curves that were edited after it"
CAUTION = "Errors are on rows of the fit, so they are a little too small: give other rows to report(path, X, y)."
LARGEST_LEVERAGE = 0.99
"""A row that determines a coefficient alone would have an infinite residual without it."""

GRID = 120
"""Points of a curve in a page, beside its knots."""

LONGEST_BY_DAY = 90.0
"""Days that a curve of dates may have if its weekdays are to be seen; longer ones show means of seven days."""

N_PAIRS, FEWEST_ROWS = 6, 60
"""Pairs of columns in the additive part of another model, and rows from which on it is fitted."""

HELD_SHARE = 0.25
"""Share of the rows by which the fidelity of an additive part is measured."""


def remembered(
    model: AdditiveModel,
    table: CodedTable,
    responses: FloatArray,
    *,
    sums: FloatArray,
    weights: FloatArray,
    began: float,
) -> FitRecord:
    """Return what the page needs of a fit: some rows, each with its prediction by a fit without it.

    Notes
    -----
    A response y with the fitted mean m and the leverage ``h = w x' V x`` has without its own row the mean
    ``m - (y - m) h / (1 - h)``, if smoothing stays as it is. Of classes, sums change by a step of Newton's method.
    """
    places = kept_places(table.n_rows)
    part, weight = table.take(places), weights[places]
    rows = _design(model.terms_, part)
    without = []
    for place, solution in enumerate(model.solutions_):
        spread = weight * np.maximum(np.einsum("ij,jk,ik->i", rows, solution.covariance, rows), 0.0)
        y, fitted = responses[place, places], sums[place, places]
        if isinstance(model, AdditiveRegressor):
            mean, slope, leverage = fitted, np.ones(len(y)), spread / max(solution.scale, 1e-300)
        else:
            mean = (expit(sums) if len(sums) == 1 else softmax(sums, axis=0))[place, places]
            slope = np.maximum(mean * (1.0 - mean), 1e-6)
            leverage = spread * slope
        leverage = np.minimum(leverage, LARGEST_LEVERAGE)
        without.append(fitted - (y - mean) / slope * leverage / (1.0 - leverage))
    target = responses[0, places]
    if isinstance(model, AdditiveClassifier):
        target = responses[:, places].argmax(axis=0) if len(responses) > 1 else target.astype(np.int64)
    kept = PageRows(part, target, _answers(model, np.stack(without)), LEFT_OUT)
    return FitRecord(table.n_rows, perf_counter() - began, time(), kept)


def _design(terms: Sequence[Term], table: CodedTable) -> FloatArray:
    """Return the rows of all terms after a column of ones."""
    parts = (term.combine(term.encode(table)) for term in terms)
    return np.concatenate([np.ones((table.n_rows, 1)), *parts], axis=1)


def _answers(model: AdditiveModel, sums: FloatArray) -> FloatArray:
    """Return predictions, or probabilities of all classes, of shape (n, n_outputs), from sums of shape (n_fits, n)."""
    if not isinstance(model, AdditiveClassifier):
        return sums.T
    if model.labels_.n_classes == 1:
        return np.ones((sums.shape[1], 1))
    if len(sums) == 1:
        return np.stack([expit(-sums[0]), expit(sums[0])], axis=1)
    shares: FloatArray = softmax(sums.T, axis=1)
    return shares


def page_subject(model: AdditiveModel) -> PageSubject:
    """Return a model as its page sees it."""
    is_class = isinstance(model, AdditiveClassifier)
    curves = {term.place: term.basis.knots for term in model.terms_ if isinstance(term, Curve)}
    columns = model.columns_
    knots = {
        place: curves[span.places.start]
        for place, span in enumerate(columns.spans)
        if span.field == "numbers" and span.places.start in curves and column_kind(columns[place]) != "time"
    }
    return PageSubject(
        kind=type(model).__name__,
        task="classification" if is_class else "regression",
        columns=columns,
        target=model.target_name_ or "the target",
        outputs=[str(label) for label in model.classes_.tolist()] if isinstance(model, AdditiveClassifier) else [""],
        error="logarithm" if is_class else "square",
        predict=partial(_predict, model),
        effect=partial(_column_effect, model),
        tables=lambda table, outputs: _exact_tables(model),
        importances=model.feature_importances_,
        importance="moves the log odds by {}" if is_class else "moves predictions by {}",
        knots=knots,
        score=None,
        interval=partial(model._intervals, share=0.9) if isinstance(model, AdditiveRegressor) else None,
        candidates=[],
        made=_made(model),
        record=_record_of(model),
        classes=getattr(model, "labels_", None),
    )


def _record_of(model: AdditiveModel) -> FitRecord | None:
    """Return what is known of the fit; with predictions of edited curves, if a person has edited them."""
    record: FitRecord | None = getattr(model, "_record", None)
    if record is None or record.kept is None or "edit_scores_" not in vars(model):
        return record
    kept = replace(record.kept, predictions=_predict(model, record.kept.table), how=EDITED)
    return replace(record, kept=kept, caution=f"Its curves were edited by hand. {CAUTION}")


def _predict(model: AdditiveModel, table: CodedTable) -> FloatArray:
    design = Design(model.terms_, table)
    return _answers(model, np.stack([design.sums(solution.beta) for solution in model.solutions_]))


def _made(model: AdditiveModel) -> list[tuple[str, str]]:
    """Return how a model was made, in words."""
    curves = sum(isinstance(term, Curve) for term in model.terms_)
    groups = sum(isinstance(term, Category) for term in model.terms_)
    pairs = [term.label for term in model.terms_ if isinstance(term, Surface)]
    degrees = float(sum(solution.degrees.sum() for solution in model.solutions_))
    out = [
        ("model", f"sum of {curves} curves, {groups} effects of categories and {len(pairs)} pairs of columns"),
        ("smoothing", f"by restricted maximum likelihood, {degrees:.0f} effective degrees of freedom in all"),
    ]
    return [*out, ("pairs", ", ".join(pairs))] if pairs else out


def _column_effect(model: AdditiveModel, place: int, table: CodedTable | None) -> PageEffect | None:
    """Return the sum of the terms of a column, with its interval of 95 %, as a prediction."""
    columns = model.columns_
    mine = _terms_of(model, place)
    if not mine:
        return None
    values = _values(model, place, mine, table)
    starts = np.cumsum([1, *(term.width for term in model.terms_)])
    picked = np.concatenate([np.arange(starts[each], starts[each + 1]) for each in mine])
    rows = np.mean([_rows_at(model, place, mine, values + day) for day in _days(columns[place], values)], axis=0)
    effect, margin = [], []
    for solution in model.solutions_:
        covariance = solution.covariance[np.ix_(picked, picked)]
        variance = np.maximum(np.einsum("ij,jk,ik->i", rows, covariance, rows), 0.0)
        effect.append(solution.beta[0] + rows @ solution.beta[picked])
        margin.append(float(ndtri(0.975)) * solution.unit * np.sqrt(variance))
    sums, off = np.stack(effect), np.stack(margin)
    ends = np.stack([_answers(model, sums - off), _answers(model, sums + off)])
    band = "the interval of 95 % of the curve"
    return PageEffect(values, _answers(model, sums), ends.min(axis=0), ends.max(axis=0), band)


def _rows_at(model: AdditiveModel, place: int, mine: Sequence[int], values: npt.NDArray[Any]) -> FloatArray:
    """Return the design of the terms of a column at values of it."""
    grid = _at(model.columns_, place, values)
    return np.concatenate([model.terms_[each].combine(model.terms_[each].encode(grid)) for each in mine], axis=1)


def _days(column: TableColumn, values: npt.NDArray[Any]) -> Sequence[int]:
    """Return the days over which the effect of a date is averaged: a week, if the days of weeks would blur a curve."""
    has_weekdays = "weekday" in getattr(column.format, "parts", ())
    return range(-3, 4) if has_weekdays and np.ptp(values) > LONGEST_BY_DAY else (0,)


def _terms_of(model: AdditiveModel, place: int) -> list[int]:
    """Return the places of the terms of a column: one, or those of the numbers of a date."""
    field, places = model.columns_.spans[place]
    kind = Curve if field == "numbers" else Category
    return [
        each for each, term in enumerate(model.terms_)
        if isinstance(term, kind) and places.start <= term.place < places.stop
    ]  # fmt: skip


def _values(model: AdditiveModel, place: int, mine: Sequence[int], table: CodedTable | None) -> npt.NDArray[Any]:
    """Return the values at which a column is drawn: its knots and points between, or its categories by their rows."""
    columns = model.columns_
    first = model.terms_[mine[0]]
    if isinstance(first, Category):
        codes = np.flatnonzero(first.groups >= 0)
        if table is None:
            return codes
        counts = np.bincount(table.codes[:, first.place], minlength=len(first.groups))
        return codes[np.argsort(-counts[codes], kind="stable")]
    assert isinstance(first, Curve)
    low, high = first.basis.domain
    if column_kind(columns[place]) == "time":
        return np.linspace(0.0, 24.0, GRID + 1)
    even = np.linspace(low, high, GRID)
    if first.basis.degree == 1:
        return np.concatenate([[low], first.basis.knots, [high]])
    return np.union1d(even, np.concatenate([[low], first.basis.knots, [high]]))


def _at(columns: Columns, place: int, values: npt.NDArray[Any]) -> CodedTable:
    """Return a table in which only one column matters, with these values."""
    return _empty(columns, len(values)).with_values(columns.spans[place], column_entries(columns, place, values))


def _empty(columns: Columns, n_rows: int) -> CodedTable:
    """Return a table in which all is missing."""
    numbers = np.full((n_rows, len(columns.numerical_names)), np.nan)
    return CodedTable(numbers, np.zeros((n_rows, len(columns.categories)), dtype=np.int64))


def _exact_tables(model: AdditiveModel) -> ContributionTables:
    """Return the terms of a model, which are the model."""
    terms = [_term_tables(model.terms_, solution, model.columns_) for solution in model.solutions_]
    baselines = [float(solution.beta[0]) for solution in model.solutions_]
    if not isinstance(model, AdditiveClassifier):
        return ContributionTables(terms, baselines, "identity", [0])
    if len(terms) == 1:
        return ContributionTables(terms, baselines, "logit", [model.labels_.n_classes - 1])
    return ContributionTables(terms, baselines, "softmax", list(range(len(terms))))


Read = Callable[[CodedTable], CodedTable]


def _term_tables(
    terms: Sequence[Term], solution: Solution, columns: Columns, inputs: Callable[[Any], tuple[str, int]] | None = None,
    read: Read | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return terms as JSON: values between breaks, of which a page makes the same polynomials, or one for each code.

    `inputs` maps a curve or the effect of categories to where its column is in a table with `columns`, and `read` such
    a table to one of the terms; by default these are the same.
    """
    where = inputs or (lambda term: ("numbers" if isinstance(term, Curve) else "codes", term.place))
    read = read or (lambda table: table)
    out, start = [], 1
    for term in terms:
        beta = solution.beta[start : start + term.width]
        start += term.width
        sides = [_side(side, where(side), columns) for side in (term.sides if isinstance(term, Surface) else (term,))]
        points = [side.pop("points") for side in sides]
        missing = [np.nan if side["field"] == "numbers" else None for side in sides]
        grids = [each.ravel() for each in np.meshgrid(*points, indexing="ij")]
        grid = _table_of(
            columns, [(side["field"], side["input"], values) for side, values in zip(sides, grids, strict=True)]
        )
        values = term.combine(term.encode(read(grid))) @ beta
        table: dict[str, Any] = {"sides": sides, "values": short(values)}
        if len(sides) == 1 and missing[0] is not None:
            alone = _table_of(columns, [("numbers", sides[0]["input"], np.array([np.nan]))])
            table["missing"] = short(float((term.combine(term.encode(read(alone))) @ beta)[0]))
        out.append(table)
    return out


def _side(term: Any, where: tuple[str, int], columns: Columns) -> dict[str, Any]:
    """Return a column of a term: the breaks of its polynomials and the points that determine them, or its codes."""
    field, place = where
    if field == "codes":
        return {"field": field, "input": place, "points": np.arange(columns.cardinalities[place], dtype=np.float64)}
    low, high = term.basis.domain
    breaks = np.unique(np.concatenate([[low], term.basis.knots, [high]]))
    shares = np.linspace(0.0, 1.0, term.basis.degree + 1)
    # Neighbouring pieces share the values at their common ends: splines of degree 1 and more are continuous.
    inner = [(1.0 - share) * breaks[:-1] + share * breaks[1:] for share in shares[:-1]]
    points = np.append(np.stack(inner, axis=1).ravel(), breaks[-1])
    digits = [float(f"{value:.15g}") for value in breaks.tolist()]
    return {"field": field, "input": place, "breaks": digits, "degree": int(term.basis.degree), "points": points}


def _table_of(columns: Columns, settings: Sequence[tuple[str, int, FloatArray]]) -> CodedTable:
    table = _empty(columns, len(settings[0][2]))
    for field, place, values in settings:
        getattr(table, field)[:, place] = values
    return table


def additive_part(
    columns: Columns, table: CodedTable, responses: FloatArray, outputs: Sequence[int], *, is_class: bool
) -> ContributionTables | None:
    """Return curves, and surfaces of the strongest pairs, that stand for another model, with their fidelity.

    Parameters
    ----------
    columns : Columns
        The columns of the model.
    table : CodedTable
        Rows.
    responses : ndarray of shape (n, n_outputs)
        Predictions of the model for them.
    outputs : sequence of int
        Which outputs.
    is_class : bool
        Whether they are probabilities, whose log odds are sums.
    """
    if table.n_rows < FEWEST_ROWS or not columns.seen:
        return None
    n_numbers = table.numbers.shape[1]
    coded = list(range(n_numbers, n_numbers + table.codes.shape[1]))
    matrix = np.concatenate([table.numbers, table.codes], axis=1)
    held = np.random.RandomState(0).uniform(size=len(matrix)) < HELD_SHARE
    terms, baselines, explained = [], [], []
    for output in outputs:
        values = responses[:, output]
        target = np.clip(logit(np.clip(values, 1e-6, 1 - 1e-6)), -12, 12) if is_class else values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on columns, which the model has issued
            model = AdditiveRegressor(pairs=N_PAIRS, categorical=coded).fit(matrix[~held], target[~held])
        rest = values[held] - _linked(model.predict(matrix[held]), is_class=is_class)
        spread = np.mean((values[held] - values[held].mean()) ** 2)
        explained.append(1.0 - float(np.mean(rest**2) / spread) if spread > 0 else 1.0)
        terms.append(_foreign_tables(model, columns, n_numbers))
        baselines.append(float(model.intercept_))
    return ContributionTables(terms, baselines, "logit" if is_class else "identity", list(outputs), min(explained))


def _linked(sums: FloatArray, *, is_class: bool) -> FloatArray:
    values: FloatArray = expit(sums) if is_class else sums
    return values


def _foreign_tables(model: AdditiveRegressor, columns: Columns, n_numbers: int) -> list[dict[str, Any]]:
    """Return the terms of a model that was fitted on a matrix of numbers and codes, as terms of the columns."""

    def where(term: Any) -> tuple[str, int]:
        return ("numbers", term.name) if term.name < n_numbers else ("codes", term.name - n_numbers)

    def read(table: CodedTable) -> CodedTable:
        return model.columns_.read_quietly(np.concatenate([table.numbers, table.codes], axis=1))[0]

    return _term_tables(model.terms_, model.solutions_[0], columns, where, read)
