"""The page as one text: data, template, style and scripts; and its top third for notebooks."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import knotwork
from knotwork._checks import argument_error, check_bool
from knotwork._files import write_atomically
from knotwork._look import icon, look_style
from knotwork._model_page._columns import column_json, column_kind, column_values, short
from knotwork._model_page._errors import ERRORS, ErrorRow, error_rows
from knotwork._model_page._sentences import header, made_facts, revealed
from knotwork._model_page._subject import ContributionTables, PageEffect, PageRows, PageSubject
from knotwork._preparation.columns import CodedTable
from knotwork._preparation.targets import Labels, check_target
from knotwork._writing import counted
from knotwork._writing import script as writing_script

PAGE_SCRIPTS = ("words", "prediction", "drawing", "panels", "trust", "controls")
"""The files of the script, which become one function: each may use the names of the files before it."""

MOST_PICKED, MOST_POINTS, MOST_COLUMNS, MOST_OUTPUTS = 200, 600, 40, 4
"""Rows that can be picked, points of a picture, columns with an effect, and classes or targets with one."""

ROWS_PER_SECOND, FEWEST_STAND_IN = 100.0, 300
"""Rows to which curves that stand for a large model are fitted in a second, on a slow machine, and fewest rows."""

MOST_BYTES = 1_000_000
"""A page is not larger: a model that does not fit in is shown by the tables of its contributions."""


def write_report(
    subject: PageSubject, path: str | PathLike[str], X: Any = None, y: Any = None, *, rows: bool = True
) -> Path:
    """Write the page of a model, and return its path; X and y are rows to show."""
    file = Path(path)
    if file.is_dir():
        raise argument_error("path", "be a file", str(path), f"For example {file / 'model.html'}.")
    check_bool(rows, "rows")
    kept = _kept(subject, X, y)
    text = report_text(subject, kept, rows=rows, name=file.stem)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, lambda stream: stream.write(text.encode()))
    return file


def _kept(subject: PageSubject, X: Any, y: Any) -> PageRows | None:
    """Return the rows of a page: those that are given, or those that the fit has kept."""
    if X is None:
        if y is not None:
            raise argument_error("X", "be given together with y", None)
        return None if subject.record is None else subject.record.kept
    table = subject.columns.read(X)
    predictions = subject.predict(table)
    if y is None:
        nothing = np.full(table.n_rows, np.nan)
        return PageRows(table, nothing, predictions, "the rows that were given")
    target: Any
    classes = subject.classes
    if classes is None:
        target = check_target(y)
    else:
        labels, codes = Labels.from_values(y)
        known = dict(zip(classes.values, range(classes.n_classes), strict=True))
        unknown = [value for value in labels.values if value not in known]
        if unknown:
            raise argument_error("y", "have classes of the fit", unknown[0])
        target = np.array([known[value] for value in labels.values])[codes]
    if len(target) != table.n_rows:
        raise argument_error("y", f"have as many values as X has rows, {table.n_rows}", len(target))
    return PageRows(table, target, predictions, "the rows that were given")


def report_text(
    subject: PageSubject, kept: PageRows | None, *, rows: bool = True, ranking: Sequence[ErrorRow] | None = None,
    name: str = "model",
) -> str:  # fmt: skip
    """Return the page.

    Parameters
    ----------
    subject : PageSubject
        The model.
    kept : PageRows or None
        Rows with targets, or NaN, and predictions; None leaves out what needs rows.
    rows : bool
        Whether the page may have single rows.
    ranking : sequence of ErrorRow, optional
        Errors of the model and others, if they were compared before; by default those of usual references.
    name : str
        Name of the file of the model, without its ending.
    """
    data = _data(subject, kept, rows=rows, ranking=ranking, name=name)
    runtime, n_bytes = None if subject.runtime is None else subject.runtime(), None
    if runtime is not None:
        text = _render(data, *runtime)
        if len(text.encode()) <= MOST_BYTES:
            return text
        n_bytes = len(_json(runtime[1]).encode())
    tables = subject.tables(None if kept is None else kept.table, data["shown"])
    data["tables"] = None if tables is None else {
        "terms": tables.terms, "baselines": tables.baselines, "link": tables.link, "outputs": tables.outputs,
        "fidelity": short(tables.fidelity), "exact": tables.fidelity is None, "bytes": n_bytes,
    }  # fmt: skip
    return _within(data)


def _within(data: dict[str, Any]) -> str:
    """Return the page of tables, with fewer rows and lines if it is too large."""
    text = _render(data)
    for each in ("lines", "rows"):
        if len(text.encode()) > MOST_BYTES and each == "lines":
            for column in data["columns"]:
                (column.get("effect") or {})["lines"] = None
        elif len(text.encode()) > MOST_BYTES and data["rows"]:
            data["rows"] = {name: value[: MOST_PICKED // 4] for name, value in data["rows"].items()}
        text = _render(data)
    return text


def _data(
    subject: PageSubject, kept: PageRows | None, *, rows: bool, ranking: Sequence[ErrorRow] | None, name: str
) -> dict[str, Any]:
    """Return what the page shows, as JSON."""
    shown = _shown_outputs(subject, kept)
    scored = kept if kept is not None and not np.isnan(np.asarray(kept.target, dtype=np.float64)).any() else None
    n_classes = len(subject.outputs) if subject.task == "classification" else 0
    errors = (
        list(ranking)
        if ranking is not None
        else []
        if scored is None
        else error_rows(scored, subject.error, n_classes=n_classes)
    )
    order = _order(subject)
    columns = [
        column_json(subject, place, kept, outputs=shown, has_target=scored is not None, with_lines=rows)
        if number < MOST_COLUMNS
        else column_json(subject, place, None, outputs=[], has_target=False, with_lines=False)
        for number, place in enumerate(order)
    ]
    data = {
        "version": knotwork.__version__,
        "kind": subject.kind,
        "task": subject.task,
        "target": subject.target,
        "outputs": subject.outputs,
        "shown": shown,
        "error": ERRORS[subject.error].label,
        **header(subject, scored, errors),
        "errors": [_error_json(each) for each in errors],
        "facts": made_facts(subject),
        "load": f'kw.load("{name}.knotwork")',
        "caution": "" if subject.record is None else subject.record.caution,
        "columns": columns,
        "ignored": [str(label) for label, column in zip(subject.columns.labels, subject.columns, strict=True)
                    if column_kind(column) == "ignored"],
        "importanceText": subject.importance,
        "rows": _rows_json(subject, kept, scored, order) if rows and kept is not None else None,
        "trust": _trust_json(subject, scored, errors, shown, rows=rows),
        "candidates": [{name: short(value) for name, value in each.items()} for each in subject.candidates],
        "made": [list(each) for each in subject.made],
        "how": "" if kept is None else kept.how,
        "tables": None,
        "offsets": _offsets(subject, kept),
        "revealed": [],
    }  # fmt: skip
    data["revealed"] = revealed(data, rows=rows)
    return data


def _shown_outputs(subject: PageSubject, kept: PageRows | None) -> list[int]:
    """Return the outputs that are drawn, the one that is shown first in front."""
    n_outputs = len(subject.outputs)
    if subject.task != "classification":
        return list(range(min(n_outputs, MOST_OUTPUTS)))
    if n_outputs <= 2:
        return [n_outputs - 1]
    counts = np.zeros(n_outputs) if kept is None else kept.predictions.sum(axis=0)
    return [int(place) for place in np.argsort(-counts, kind="stable")[:MOST_OUTPUTS]]


def _order(subject: PageSubject) -> list[int]:
    """Return the places of the columns that the model uses, the most important first."""
    importances = subject.importances
    if importances is None:
        return subject.columns.seen
    return sorted(subject.columns.seen, key=lambda place: -float(importances[place]))


def _error_json(row: ErrorRow) -> dict[str, Any]:
    return {"name": row.name, "error": short(row.error), "low": short(row.low), "high": short(row.high),
            "isModel": row.is_model}  # fmt: skip


def _offsets(subject: PageSubject, kept: PageRows | None) -> list[float] | None:
    """Return how far intervals of 90 % reach from predictions, in the middle of the rows."""
    if subject.interval is None:
        return None
    columns = subject.columns
    unknown = CodedTable(
        np.full((1, len(columns.numerical_names)), np.nan), np.zeros((1, len(columns.categories)), np.int64)
    )
    part = unknown if kept is None else kept.table.take(slice(0, 100))
    try:
        ends = subject.interval(part)
    except ValueError:  # too few rows were held out
        return None
    middle = subject.predict(part)
    return None if middle.shape[1] > 1 else short(np.median(ends - middle, axis=0))


def _rows_json(subject: PageSubject, kept: PageRows, scored: PageRows | None, order: list[int]) -> dict[str, Any]:
    """Return rows to pick: one value for each column shown, predictions, intervals and targets."""
    chosen = np.linspace(0, kept.table.n_rows - 1, min(kept.table.n_rows, MOST_PICKED)).astype(np.int64)
    if scored is not None:  # the worst rows can be picked
        worst = _worst(subject, scored)[:10]
        chosen = np.unique(np.concatenate([worst, chosen]))
    table = kept.table.take(chosen)
    every = [column_values(subject.columns, table, place) for place in order]
    values = np.stack(every, axis=1) if every else np.empty((len(chosen), 0))
    out: dict[str, Any] = {
        "values": [[None if np.isnan(each) else float(f"{each:.12g}") for each in row] for row in values.tolist()],
        "predictions": short(subject.predict(table)),
        "held": short(kept.predictions[chosen]),
        "place": chosen.tolist(),
    }
    if scored is not None:
        out["actual"] = short(np.asarray(scored.target)[chosen].reshape(len(chosen), -1))
    if subject.interval is not None:
        with suppress(ValueError):  # too few rows were held out
            out["interval"] = short(subject.interval(table))
    return out


def _worst(subject: PageSubject, scored: PageRows) -> Any:
    losses = ERRORS[subject.error].losses(scored.predictions, scored.target)
    return np.argsort(-losses, kind="stable")


def _trust_json(
    subject: PageSubject, scored: PageRows | None, errors: Sequence[ErrorRow], shown: list[int], *, rows: bool
) -> dict[str, Any] | None:
    """Return predicted against actual of the model and of the best other row, calibration and the worst rows."""
    if scored is None:
        return None
    others = [each for each in errors if not each.is_model and each.predictions is not None and each.name != "No model"]
    best = min(others, key=lambda each: each.error, default=None)
    both = [("This model", scored.predictions)] + ([] if best is None else [(best.name, best.predictions)])
    places = np.linspace(0, len(scored.target) - 1, min(len(scored.target), MOST_POINTS)).astype(np.int64)
    panels = []
    for name, predictions in both:
        assert predictions is not None
        panel: dict[str, Any] = {
            "name": name,
            "groups": [_grouped(subject, scored, predictions, each) for each in shown],
        }
        if rows and subject.task == "regression":
            panel["points"] = [
                short(
                    np.column_stack(
                        [predictions[places, each], scored.target.reshape(len(scored.target), -1)[places, each]]
                    )
                )
                for each in shown
            ]
        panels.append(panel)
    out: dict[str, Any] = {"panels": panels, "worst": _worst(subject, scored)[:10].tolist() if rows else []}
    if subject.interval is not None:
        out["coverage"] = _coverage(subject, scored)
    return out


def _grouped(subject: PageSubject, scored: PageRows, predictions: Any, output: int) -> list[list[float]]:
    """Return groups of rows by prediction: mean prediction, mean actual value, its standard error, and rows."""
    values = predictions[:, output]
    actual = (
        scored.target == output
        if subject.task == "classification"
        else scored.target.reshape(len(values), -1)[:, output]
    )
    groups = np.array_split(np.argsort(values, kind="stable"), min(10, len(values)))
    return short([  # type: ignore[no-any-return]
        (float(values[group].mean()), float(actual[group].mean()),
         float(actual[group].std() / np.sqrt(len(group))), len(group))
        for group in groups
    ])  # fmt: skip


def _coverage(subject: PageSubject, scored: PageRows) -> float | None:
    """Return the share of the rows inside of their intervals around the predictions that did not see them."""
    if scored.target.ndim > 1 or subject.interval is None:
        return None
    try:
        ends = subject.interval(scored.table)
    except ValueError:
        return None
    ends = ends + (scored.predictions - subject.predict(scored.table))
    return short(float(np.mean((ends[:, 0] <= scored.target) & (scored.target <= ends[:, 1]))))  # type: ignore[no-any-return]


def _json(content: Any) -> str:
    """Return JSON in which no character can end its element."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _render(data: dict[str, Any], runtime: str = "", model: Any = None) -> str:
    """Return the page; the browser runs no script but its own, regardless of what a table contains."""
    folder = files("knotwork._model_page")
    style, template = (folder.joinpath(each).read_text("utf-8") for each in ("page.css", "page.html"))
    parts_of_script = [folder.joinpath(f"{each}.js").read_text("utf-8") for each in PAGE_SCRIPTS]
    script = "\n".join([runtime, '"use strict";', "(() => {", writing_script(), *parts_of_script, "})();"])
    parts = {
        "title": html.escape(f"{data['target']}: {data['kind']}"),
        "icon": icon(),
        "look": look_style(),
        "style": style,
        "script": script,
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        "data": _json(data),
        "model": _json(model),
    }
    pieces = re.split(r"\{\{(\w+)\}\}", template)  # names of a table may contain what looks like a place
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def limited(subject: PageSubject, deadline: float) -> PageSubject:
    """Return a model whose page is made until a deadline, on the clock of ``time.perf_counter``; its page says so.

    Effects are computed here, those of the most important columns first, and kept for all views of the model. Curves
    that stand for a model too large for the page are fitted to as many rows as time allows.
    """
    record = subject.record
    table = None if record is None or record.kept is None else record.kept.table
    order, effects = _order(subject)[:MOST_COLUMNS], dict[int, PageEffect | None]()
    for place in order:
        if effects and perf_counter() > deadline:
            break
        effects[place] = subject.effect(place, table)
    if record is not None and len(effects) < len(order):
        left_out = f"Time was short: the effects of {counted(len(order) - len(effects), 'column')} are left out."
        record = replace(record, caution=f"{record.caution} {left_out}".strip())

    def tables(table: CodedTable | None, outputs: Sequence[int]) -> ContributionTables | None:
        if subject.runtime is None or table is None:  # the model itself is a sum of curves
            return subject.tables(table, outputs)
        n_rows = min(ROWS_PER_SECOND * (deadline - perf_counter()) / max(len(outputs), 1), table.n_rows)
        if n_rows < min(FEWEST_STAND_IN, table.n_rows):
            return None
        return subject.tables(table.take(np.linspace(0, table.n_rows - 1, int(n_rows)).astype(np.int64)), outputs)

    return replace(subject, record=record, tables=tables, effect=lambda place, table: effects.get(place))


def notebook_view(subject: PageSubject, *, errors: Sequence[ErrorRow] | None = None, page: str = "") -> str:
    """Return the top third of the page, without scripts: sentence, errors, and columns with their curves."""
    from knotwork._model_page._notebook import view  # noqa: PLC0415 - it draws with the words of this module

    kept = None if subject.record is None else subject.record.kept
    return view(subject, kept, errors=errors, page=page)
