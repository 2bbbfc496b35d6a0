"""The top third of a page as HTML without scripts, for notebooks: sentence, errors, columns with their curves."""

from collections.abc import Sequence
from html import escape

import numpy as np

from knotwork._look import DARK, LIGHT
from knotwork._model_page._columns import column_kind
from knotwork._model_page._errors import ErrorRow, error_rows
from knotwork._model_page._sentences import headline, made_facts
from knotwork._model_page._subject import Floats, PageRows, PageSubject
from knotwork._writing import significant

MOST_SHOWN = 8
"""Columns that a notebook shows."""

EFFECT_ROWS = 60
"""Rows by which its effects are drawn, few: a notebook shows a model after every fit."""

WIDTH, HEIGHT = 150, 44
"""Size of a small curve."""


def view(
    subject: PageSubject, kept: PageRows | None, *, errors: Sequence[ErrorRow] | None = None, page: str = ""
) -> str:
    """Return the view; text of a table is escaped, and colours follow the notebook.

    `errors` are those of the model and others, if they were compared before, and `page` is the file of the page beside
    the view, if there is one.
    """
    n_classes = len(subject.outputs) if subject.task == "classification" else 0
    if errors is None:
        errors = [] if kept is None else error_rows(kept, subject.error, n_classes=n_classes, is_quick=True)
    facts = (
        f"{text} {label}" if label in ("rows", "columns") else f"{label} {text}" for label, text in made_facts(subject)
    )
    about = " · ".join([subject.kind, *facts])
    strip = _strip(errors) if errors else ""
    caution = subject.record.caution if subject.record is not None and not page else ""  # the page has it
    amber = (
        f'<p style="margin:6px 0;border-left:3px solid {LIGHT.orange};padding-left:8px">{_text(caution)}</p>'
        if caution
        else ""
    )
    whole = '<span style="opacity:.7">The whole page: <code>model.report("model.html")</code></span>'
    if page:
        whole = f'<a href="{_text(page)}">The whole page of the model</a>'
    return (
        '<div style="font:13px/1.45 system-ui,sans-serif;max-width:900px;margin:6px 0">'
        f'<p style="font-size:17px;font-weight:600;margin:0 0 2px">{_text(headline(subject, errors))}</p>'
        f'<p style="margin:0 0 8px;opacity:.7">{_text(about)}</p>{amber}{strip}{_columns(subject, kept)}'
        f'<p style="margin:8px 0 0">{whole}</p></div>'
    )


def _text(text: str) -> str:
    """Return text as HTML, without characters that change its direction."""
    return escape("".join(each if each.isprintable() else " " for each in text))


def _strip(errors: Sequence[ErrorRow]) -> str:
    """Return the errors as dots with intervals on one axis that begins at 0."""
    most = max(each.high for each in errors) or 1.0
    rows = []
    for place, each in enumerate(sorted(errors, key=lambda row: row.error)):
        y, left, right, at = 12 + 20 * place, *(300 * value / most for value in (each.low, each.high, each.error))
        colour = DARK.blue if each.is_model else "currentColor"
        weight = "600" if each.is_model else "400"
        rows.append(
            f'<text x="0" y="{y + 4}" font-weight="{weight}" fill="currentColor">{_text(each.name)}</text>'
            f'<path d="M{110 + left:.1f} {y}H{110 + right:.1f}" stroke="{colour}" stroke-width="2" opacity=".45"/>'
            f'<circle cx="{110 + at:.1f}" cy="{y}" r="4.5" fill="{colour}"/>'
            f'<text x="425" y="{y + 4}" font-weight="{weight}" fill="currentColor">{significant(each.error, 3)}</text>'
        )
    height = 20 * len(errors) + 6
    label = "; ".join(f"{each.name} {significant(each.error, 3)}" for each in errors)
    style = "max-width:100%;font:12px system-ui,sans-serif"
    size = f'viewBox="0 0 490 {height}" width="490" height="{height}" style="{style}"'
    axis = f'<path d="M110 0V{height}" stroke="currentColor" opacity=".25"/>'
    return f'<svg role="img" aria-label="Errors: {_text(label)}" {size}>{axis}{"".join(rows)}</svg>'


def _columns(subject: PageSubject, kept: PageRows | None) -> str:
    """Return the most important columns, each with a bar and a small curve."""
    if subject.importances is None:
        return ""
    table = None if kept is None else kept.table.take(slice(EFFECT_ROWS))
    order = sorted(subject.columns.seen, key=lambda place: -float(subject.importances[place]))  # type: ignore[index]
    largest = max((float(subject.importances[place]) for place in order), default=0.0) or 1.0
    cells = []
    for place in order[:MOST_SHOWN]:
        effect = subject.effect(place, table)
        output = len(subject.outputs) - 1 if len(subject.outputs) == 2 else 0
        curve = ""
        if effect is not None and len(effect.values):
            is_category = column_kind(subject.columns[place]) == "category"
            curve = _curve(effect.values.astype(np.float64), effect.mean[:, output], is_category=is_category)
        name = _text(str(subject.columns.labels[place]))
        value = float(subject.importances[place])
        bar = f'<div style="height:3px;width:{max(100 * value / largest, 0):.0f}%;background:{DARK.blue}"></div>'
        cells.append(
            f'<div style="width:{WIDTH}px"><div style="white-space:nowrap;overflow:hidden;text-overflow:ellipsis" '
            f'title="{name}"><b>{name}</b></div><div style="opacity:.7;font-size:12px">'
            f"{_text(subject.importance.format(significant(max(value, 0.0), 3)))}</div>{bar}{curve}</div>"
        )
    n_more = len(order) - MOST_SHOWN
    more = f'<div style="opacity:.7;align-self:center">and {n_more} more</div>' if n_more > 0 else ""
    return f'<div style="display:flex;flex-wrap:wrap;gap:14px 18px;margin-top:10px">{"".join(cells)}{more}</div>'


def _curve(x: Floats, y: Floats, *, is_category: bool) -> str:
    """Return a small curve, or a dot for each category."""
    low, high = float(y.min()), float(y.max())
    up = HEIGHT - 5 - (HEIGHT - 10) * (y - low) / (high - low) if high > low else np.full(len(y), HEIGHT / 2)
    across = np.linspace(6, WIDTH - 6, len(x))
    if not is_category and len(x) > 1 and x[-1] > x[0]:
        across = 3 + (WIDTH - 6) * (x - x[0]) / (x[-1] - x[0])
    if is_category or len(x) < 3:
        drawn = "".join(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{DARK.blue}"/>' for a, b in zip(across, up, strict=True)
        )
    else:
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
        drawn = f'<polyline points="{points}" fill="none" stroke="{DARK.blue}" stroke-width="1.8"/>'
    return f'<svg aria-hidden="true" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">{drawn}</svg>'
