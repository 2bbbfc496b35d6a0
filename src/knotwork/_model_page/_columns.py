"""The columns of a page: each has one value in a row, whatever a model makes of it, and an effect as JSON."""

from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._model_page._subject import Floats, PageEffect, PageRows, PageSubject
from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.formats import BooleanFormat, DateFormat
from knotwork._preparation.learning import Role, TableColumn

HISTOGRAM_BINS = 32
RESIDUAL_GROUPS = 20
MOST_CATEGORIES_SHOWN = 14
MOST_LINES = 24
"""What a panel of a page has room for."""

FEWEST_NAMED = 15
"""Rows of a group of residuals, if it has no other limits, and those from which on it is named."""

CLEAR = 3.0
"""Standard errors from which on a group of residuals is named, a convention: one of twenty is rarely so by chance."""

MICROSECONDS = 86_400_000_000


def column_kind(column: TableColumn) -> str:
    """Return what a column is in a page: a number, a date, a time of day, a category, or nothing."""
    if column.role == Role.IGNORED:
        return "ignored"
    if column.role == Role.CATEGORICAL:
        return "category"
    if isinstance(column.format, DateFormat):
        return "time" if column.format.order == "time" else "date" if column.has_elapsed_days else "part"
    return "number"


def column_values(columns: Columns, table: CodedTable, place: int) -> Floats:
    """Return one value for each row: a number, the days of a date, the hours of a time, or the code of a category."""
    values = table.values(columns.spans[place]).astype(np.float64)
    if column_kind(columns[place]) != "time":
        return values[:, 0]
    hours: Floats = np.arctan2(values[:, 0], values[:, 1]) * 12.0 / np.pi % 24.0
    return hours


def column_entries(columns: Columns, place: int, values: Floats) -> npt.NDArray[Any]:
    """Return what a table has for such values of a column, of shape (n, width): `column_values` the other way round."""
    column, kind = columns[place], column_kind(columns[place])
    if kind == "category":
        return values.astype(np.int64)[:, None]
    if not isinstance(column.format, DateFormat):
        return values[:, None]
    unit = MICROSECONDS if kind == "date" else MICROSECONDS / 24
    moments = np.rint(np.nan_to_num(values) * unit).astype(np.int64)
    stamps = moments.view("datetime64[us]" if kind == "date" else "timedelta64[us]")
    return column.format.numbers(np.where(np.isnan(values), np.array("NaT", stamps.dtype), stamps))


def short(value: Any) -> Any:
    """Return numbers with nine digits, for JSON; what is not finite becomes None."""
    if isinstance(value, np.ndarray):
        return [short(each) for each in value.tolist()]
    if isinstance(value, list | tuple):
        return [short(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.9g}") if np.isfinite(value) else None
    return value


def column_json(
    subject: PageSubject, place: int, kept: PageRows | None, *, outputs: list[int], has_target: bool, with_lines: bool
) -> dict[str, Any]:
    """Return a column as JSON: how it is written, its effect, histogram, residuals and straight line."""
    column, kind = subject.columns[place], column_kind(subject.columns[place])
    span = subject.columns.spans[place]
    out: dict[str, Any] = {
        "name": str(subject.columns.labels[place]),
        "place": place,
        "kind": kind,
        "input": span.places.start,
        "importance": None if subject.importances is None else short(float(subject.importances[place])),
        "knots": short(np.asarray(subject.knots.get(place, ()), dtype=np.float64)),
    }
    if kind == "category":
        out["labels"] = [str(label) for label in column.categories]
        out["isNumber"] = column.kind not in ("text", "mixed")
    if isinstance(column.format, DateFormat):
        out |= {"parts": list(column.format.parts), "order": column.format.order}
    if isinstance(column.format, BooleanFormat) or column.kind == "boolean":
        out["isTruth"] = True
    effect = subject.effect(place, None if kept is None else kept.table) if outputs else None
    if effect is not None and len(effect.values):
        out["effect"] = _effect_json(effect, kind, outputs, with_lines=with_lines)
    if kept is not None:
        values = column_values(subject.columns, kept.table, place)
        out |= _values_json(values, kind, out.get("effect"))
    if kept is not None and has_target:
        out["residuals"] = [_residuals_json(values, kind, *_residuals(subject, kept, output)) for output in outputs]
    return out


def _effect_json(effect: PageEffect, kind: str, outputs: list[int], *, with_lines: bool) -> dict[str, Any]:
    """Return an effect, of categories the most frequent ones, which come first."""
    shown = slice(None) if kind != "category" else slice(MOST_CATEGORIES_SHOWN)
    values = effect.values[shown]
    digits = values.tolist() if kind == "category" else [float(f"{value:.12g}") for value in values.tolist()]
    parts = {name: short(getattr(effect, name)[shown][:, outputs].T) for name in ("mean", "low", "high")}
    lines = None
    if with_lines and effect.lines is not None and kind != "category":
        lines = [short(effect.lines[:MOST_LINES, :, output]) for output in outputs]
    straight = None
    if kind in ("number", "date") and len(values) > 1:
        straight = [_straight(effect.values.astype(np.float64), effect.mean[:, output]) for output in outputs]
    return {"values": digits, **parts, "band": effect.band, "lines": lines, "straight": straight}


def _straight(x: Floats, y: Floats) -> list[float]:
    """Return the ends of the straight line nearest to an effect."""
    low, width = x[0], (x[-1] - x[0]) or 1.0
    design = np.column_stack([np.ones(len(x)), (x - low) / width])
    start, rise = np.linalg.lstsq(design, y, rcond=None)[0]
    return short([float(start), float(start + rise)])  # type: ignore[no-any-return]


def _values_json(values: Floats, kind: str, effect: dict[str, Any] | None) -> dict[str, Any]:
    """Return the histogram of a column over the range of its effect, and the typical value."""
    known = values[~np.isnan(values)]
    out: dict[str, Any] = {"missing": short(float(np.mean(np.isnan(values))))}
    if not len(known):
        return out
    if kind == "category":
        codes = known.astype(np.int64)
        counts = np.bincount(codes)
        return {
            "missing": short(float(np.mean(codes == 0))),
            "counts": counts.tolist(),
            "typical": int(counts.argmax()),
        }
    shown = known if effect is None else np.array(effect["values"], dtype=np.float64)
    low, high = float(shown.min()), float(shown.max())
    distinct = np.unique(known)
    if low < high and len(distinct) > 2:
        counts, _ = np.histogram(known, HISTOGRAM_BINS, range=(low, high))
        out["histogram"] = {"low": low, "high": high, "counts": counts.tolist()}
    step = float(np.min(np.diff(distinct))) if 1 < len(distinct) <= 200 else None
    is_whole = bool((known == np.rint(known)).all())
    ends = [float(known.min()), float(known.max())]
    typical = float(np.quantile(known, 0.5, method="nearest"))
    return {**out, "typical": typical, "ends": ends, "isWhole": is_whole, "step": short(step),
            "nDistinct": len(distinct)}  # fmt: skip


def _residuals(subject: PageSubject, kept: PageRows, output: int) -> tuple[Floats, Floats]:
    """Return actual minus predicted values of an output, and their variances.

    Of a class it is whether a row has it, minus its probability, with the variance of a row whose probability is right.
    """
    predictions = kept.predictions[:, output]
    if subject.task == "classification":
        return (kept.target == output) - predictions, predictions * (1.0 - predictions)
    residuals: Floats = kept.target.reshape(len(kept.target), -1)[:, output] - predictions
    return residuals, np.full(len(residuals), residuals.var())


def _residuals_json(values: Floats, kind: str, residuals: Floats, variances: Floats) -> dict[str, Any]:
    """Return mean residuals of groups of rows with their standard errors, and the group that stands out."""
    known = ~np.isnan(values)
    values, residuals, variances = values[known], residuals[known], variances[known]
    points = []
    for group in _groups(values, kind):
        part, rest = values[group], residuals[group]
        error = float(np.sqrt(max(variances[group].mean(), rest.var()) / len(group)))
        ends = float(np.median(part)), float(part.min()), float(part.max())
        points.append((*ends, float(rest.mean()), error, len(group)))
    clear = [
        (abs(mean) / error, place)
        for place, (*_, mean, error, n) in enumerate(points) if error > 0 and n >= FEWEST_NAMED
    ]  # fmt: skip
    strength, worst = max(clear, default=(0.0, -1))
    return {"groups": short(points), "worst": worst if strength >= CLEAR else -1}


def _groups(values: Floats, kind: str) -> list[npt.NDArray[np.int64]]:
    """Return the rows of groups: categories, months of dates if there are enough of them, or equal numbers of rows."""
    order = np.argsort(values, kind="stable")
    n_groups = max(min(RESIDUAL_GROUPS, len(order) // FEWEST_NAMED), 1)
    keys: npt.NDArray[Any] = values[order]
    if kind == "date":
        months = (keys * MICROSECONDS).astype(np.int64).view("datetime64[us]").astype("datetime64[M]")
        keys = months.astype(np.float64)
    n_keys = len(np.unique(keys))
    if kind != "category" and not (3 <= n_keys <= 60 and kind == "date") and n_keys > RESIDUAL_GROUPS:
        keys = np.arange(len(order)) * n_groups // len(order)
    return [np.asarray(group) for group in np.split(order, np.flatnonzero(np.diff(keys)) + 1)] if len(order) else []
