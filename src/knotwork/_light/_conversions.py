"""What becomes of the cells of a table before a graph takes them, in JSON: for other languages, and for metadata."""

import re
from dataclasses import asdict
from typing import Any

from knotwork._checks import listed, warn_user
from knotwork._preparation.cells import DIGITS
from knotwork._preparation.columns import Columns
from knotwork._preparation.formats import (
    AMOUNT,
    DATE_CYCLES,
    MISSING_MARKS,
    MOST_TEXT,
    PATTERNS,
    SPACES,
    BooleanFormat,
    DateFormat,
    NumberFormat,
)
from knotwork._preparation.learning import Role, TableColumn
from knotwork.errors import ColumnWarning

DATE_FORMULAS = {
    "elapsed days": "days since 1970-01-01 00:00 as a decimal number, negative before",
    "year": "the year, such as 2024",
    "month": "m = month - 1, from 0 to 11",
    "weekday": "w = days since Monday, from 0 to 6",
    "hour": "h = hours since midnight, with minutes, seconds and microseconds as decimals",
    "day of year": "d = days since 1 January, from 0 to 365",
}
"""What the parts of dates are; cyclic ones become the sine and the cosine of an angle."""


def column_contents(columns: Columns) -> list[dict[str, Any]]:
    """Return for each column what it holds, and how its cells become numbers or codes, as types of JSON."""
    names, out = columns.numerical_names, []
    for label, column, (field, places) in zip(columns.labels, columns, columns.spans, strict=True):
        out.append(
            {
                "name": column.name,
                "label": str(label),
                "role": str(column.role),
                "kind": column.kind,
                "categories": list(column.categories) if column.role == Role.CATEGORICAL else None,
                "format": _format(column.format),
                "numbers": list(map(str, names[places])) if field == "numbers" else [],
                "patterns": _patterns(column.format),
                "conversion": _sentence(column),
            }
        )
    return out


def _format(written: Any) -> dict[str, Any] | None:
    return None if written is None else {"type": type(written).__name__, **asdict(written)}


def _sentence(column: TableColumn) -> str:
    """Return how a caller turns a cell into what the graph takes; empty if a number stays as it is."""
    match column.format:
        case NumberFormat(decimal=decimal, group=group, unit=unit):
            sentence = f"text is a number with the decimal sign {decimal!r}"
            sentence += f" and groups of digits by {group!r}" if group else ""
            sentence += f" and the unit {unit!r}, which is left out" if unit and unit != "%" else ""
            return sentence + (": divide by 100" if unit == "%" else "")
        case BooleanFormat(true=true, false=false):
            return f"{true!r} is 1 and {false!r} is 0, in any case"
        case DateFormat(parts=parts, zone=zone):
            local = f" in the local time of {zone}" if zone else ""
            formulas = "; ".join(f"{part}: {_date_formula(part)}" for part in parts)
            return f"the numbers of a date{local}: {formulas}"
    if column.role == Role.NUMERICAL:
        return {"boolean": "true is 1 and false is 0", "duration": "seconds"}.get(column.kind, "")
    if column.role == Role.CATEGORICAL and column.kind == "number":
        return f"numbers with more than {DIGITS} digits are rounded to {DIGITS}"
    return ""


def _date_formula(part: str) -> str:
    if part not in DATE_CYCLES:
        return DATE_FORMULAS[part]
    letter = DATE_FORMULAS[part][0]
    period = DATE_CYCLES[part]
    return f"sin(2 pi {letter} / {period:g}) and cos(2 pi {letter} / {period:g}) with {DATE_FORMULAS[part]}"


def reading_contents() -> dict[str, Any]:
    """Return what the reading of all columns needs, as types of JSON."""
    return {"marks": sorted(MISSING_MARKS), "digits": DIGITS, "cycles": DATE_CYCLES}


def _patterns(written: Any) -> dict[str, Any] | None:
    """Return the patterns by which the texts of a format are read, in the spelling of JavaScript."""
    match written:
        case NumberFormat():
            usual, body = (pattern.pattern for pattern in written.patterns)
            patterns = {"amount": AMOUNT.pattern, "usual": usual, "body": body}
        case DateFormat():
            patterns = {"date": PATTERNS[written.order].pattern}
        case _:
            return None
    spelt = {name: re.sub(r"\(\?P=(\w+)\)", r"\\k<\1>", text).replace("(?P<", "(?<") for name, text in patterns.items()}
    return {**spelt, "most": MOST_TEXT, "spaces": SPACES}


def warn_conversions(columns: Columns, path: Any) -> None:
    """Warn of columns whose conversion an exported file leaves to its caller."""
    written = [str(label) for label, column in zip(columns.labels, columns, strict=True) if column.format is not None]
    if written:
        warn_user(
            f"{path} takes numbers, and leaves the conversion of {listed(written)} to its caller. "
            "How each is converted stands in its metadata, under 'columns'.",
            ColumnWarning,
        )
