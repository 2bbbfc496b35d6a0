"""The page of an estimator: what it keeps of a fit, and the model as its page sees it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from knotwork._light import payload, runtime_js
from knotwork._model_page import (
    ContributionTables,
    PageEffect,
    PageSubject,
    column_kind,
    column_values,
)
from knotwork._preparation.columns import CodedTable
from knotwork.encoders import Encoding
from knotwork.estimators._explanations import Floats, averaged_rows, column_effect, representatives
from knotwork.estimators._model import FittedModel

BAND = 0.1
"""Share of single rows below and above the band of an effect."""

BAND_WORDS = "80 % of single rows, each moved to the same mean"
N_POINTS = 40
COVERAGE = 0.9

ERROR_OF = {"log_loss": "logarithm", "auc": "logarithm", "accuracy": "logarithm", "mae": "size", "pinball": "size"}
"""What errors of rows are measured by in a page, for metrics of training; for others by squares."""


def page_subject(estimator: Any) -> PageSubject:
    """Return an estimator as its page sees it."""
    model: FittedModel = estimator._fitted
    is_class = model.task.name == "classification"
    metric = model.config.metric_for(model.trained.objective).name
    names = model.response_names if is_class else [""] if model.n_targets is None else _targets(model.n_targets)
    has_interval = not is_class and model.n_targets is None and model.calibration.residuals is not None
    can_tell = model.can_tell_importances(most=500)
    word = "log loss" if is_class else "error"
    return PageSubject(
        kind=type(estimator).__name__,
        task=model.task.name,
        columns=model.columns,
        target=model.target_name or "the target",
        outputs=names,
        error=ERROR_OF.get(metric, "logarithm" if is_class else "square"),
        predict=partial(_predict, model),
        effect=partial(_effect, model),
        tables=partial(_tables, model),
        importances=model.importances if can_tell else None,
        importance=f"shuffling adds {{}} to the {word}" if metric in ERROR_OF else "shuffling adds {}",
        knots=_knots(model),
        score=model.score,
        interval=partial(_intervals, model) if has_interval else None,
        candidates=_candidates(model),
        made=_made(model, metric),
        record=model.record,
        classes=model.task.labels,
        runtime=partial(_runtime, estimator),
    )


def _runtime(estimator: Any) -> tuple[str, Any] | None:
    """Return the script and the JSON by which the model runs in a page; None if it cannot."""
    try:
        return runtime_js(), payload(estimator._predictor())
    except (ValueError, NotImplementedError):  # such as an objective of the user's own
        return None


def _targets(n_targets: int) -> list[str]:
    return [f"target {place + 1}" for place in range(n_targets)]


def _predict(model: FittedModel, table: CodedTable) -> Floats:
    """Return probabilities, or the prediction of each target, of shape (n, n_outputs)."""
    return model.central(model.task.mean(model.outputs(table), model.weights))


def _intervals(model: FittedModel, table: CodedTable) -> Floats:
    residuals = model.calibration.residuals
    assert residuals is not None
    ends = residuals.interval(model.mean(table), model.task.objective, coverage=COVERAGE)
    return ends[:, 0]


def _effect(model: FittedModel, place: int, table: CodedTable | None) -> PageEffect | None:
    """Return the partial dependence of a column over rows; a band has most rows, each moved to the mean of all."""
    if table is None:
        return None
    span, columns = model.columns.spans[place], model.columns
    effect = column_effect(model, averaged_rows(table), place, representatives(table.values(span), span, N_POINTS))
    lines = effect.lines
    if model.task.name != "classification":
        n, k = lines.shape[:2]
        lines = model.central(lines.reshape(n * k, -1)).reshape(n, k, -1)
    mean = lines.mean(axis=0)
    moved = lines - lines.mean(axis=1, keepdims=True) + mean.mean(axis=0)
    low, high = np.quantile(moved, [BAND, 1.0 - BAND], axis=0)
    is_coded = column_kind(columns[place]) == "category"
    values = effect.entries[:, 0] if is_coded else _values(model, place, effect.entries)
    order = np.arange(len(values)) if is_coded else np.argsort(values, kind="stable")
    return PageEffect(values[order], mean[order], low[order], high[order], BAND_WORDS, lines[:, order])


def _values(model: FittedModel, place: int, entries: Any) -> Floats:
    """Return values of a column from its entries, as `column_values` of a table."""
    span = model.columns.spans[place]
    n_rows = len(entries)
    numbers = np.full((n_rows, len(model.columns.numerical_names)), np.nan)
    table = CodedTable(numbers, np.zeros((n_rows, len(model.columns.categories)), dtype=np.int64))
    return column_values(model.columns, table.with_values(span, entries), place)


def _tables(model: FittedModel, table: CodedTable | None, outputs: Sequence[int]) -> ContributionTables | None:
    """Return curves and pairs that stand for the model, fitted to its predictions."""
    if table is None:
        return None
    from knotwork.additive import additive_part  # noqa: PLC0415 - an estimator that is made does not load it

    is_class = model.task.name == "classification"
    return additive_part(model.columns, table, _predict(model, table), outputs, is_class=is_class)


def _knots(model: FittedModel) -> dict[int, Floats]:
    """Return the knots of the network with the largest weight, by the places of columns."""
    has_knots = [len(knots) > 0 for knots in model.knots]
    if not any(has_knots):
        return {}
    best = model.knots[int(np.argmax(np.where(has_knots, model.weights, -1.0)))]
    columns = model.columns
    return {
        place: best[name]
        for place, label in enumerate(columns.labels)
        if column_kind(columns[place]) in ("number", "date")
        and (name := label if column_kind(columns[place]) == "number" else f"{label} (elapsed days)") in best
    }


def _candidates(model: FittedModel) -> list[dict[str, Any]]:
    """Return what was tried, with names for people."""
    return [
        {
            "name": _named(each), "score": each["score"], "metric": each["metric"], "seconds": each["seconds"],
            "weight": each["weight"],
        }
        for each in model.candidates
    ]  # fmt: skip


def _named(candidate: Any) -> str:
    method, size = candidate["method"], candidate["size"]
    if method is None:
        return "boosted trees"
    return f"{candidate['backbone']}, {method}{'' if size is None else f'@{size}'}"


def _made(model: FittedModel, metric: str) -> list[tuple[str, str]]:
    """Return how a model was made, in words."""
    kinds = ["boosted trees" if each is None else each.name for each in model.backbones]
    members = ", ".join(f"{kinds.count(kind)} of {kind}" for kind in dict.fromkeys(kinds))
    methods = sorted({Encoding.parse(text).method for encodings in model.encodings for text in encodings.values()})
    seconds = sum(each["seconds"] for each in model.history)
    objective = model.task.objective.name
    text = f"one: {kinds[0]}" if len(kinds) == 1 else f"{len(kinds)}, whose weighted mean predicts: {members}"
    out = [("members", text), ("trained for", f"{objective}, validated by {metric}")]
    if methods:
        out.append(("encodings", ", ".join(methods)))
    out.append(("training", f"{seconds:.1f} s of all members that were kept"))
    temperature = model.calibration.temperature
    return [*out, ("temperature", f"{temperature:.3g}")] if temperature != 1.0 else out
