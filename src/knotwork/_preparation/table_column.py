"""One column of a user's table as it was learned: its role, its categories or format, and notices about it."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork._preparation.cells import KINDS, Label
from knotwork._preparation.formats import ELAPSED, BooleanFormat, DateFormat, Format, NumberFormat

__all__ = ["SAVED_COLUMNS", "Notice", "NoticeCode", "Role", "TableColumn", "column_label"]

LABELS: dict[str, tuple[type, ...]] = {"number": (int, float), "boolean": (bool,), "text": (str,), "mixed": (str,)}
"""The types of the categories, for each kind of column."""


class Role(StrEnum):
    """What networks see of a column."""

    NUMERICAL = "numerical"  # numbers, booleans and durations, also written as text
    DATE = "date"  # dates and times, also written as text, which become several numbers
    CATEGORICAL = "categorical"  # other text, categories, and columns that the user lists
    IGNORED = "ignored"  # identifiers, free text and constants: nothing

    __repr__ = str.__repr__  # in lists and tuples, a role reads as its word


class NoticeCode(StrEnum):
    """What a notice reports."""

    COPY = "copy"
    EMPTY = "empty"
    CONSTANT = "constant"
    IDENTIFIER = "identifier"
    FREE_TEXT = "free text"
    MIXED = "mixed"
    PARSED = "parsed"
    BOOLEANS = "booleans"
    DATES = "dates"
    DURATIONS = "durations"


INFERRED = (NoticeCode.BOOLEANS, NoticeCode.DATES, NoticeCode.DURATIONS)
"""Notices that need no check: all others are warnings."""


@dataclass(frozen=True)
class Notice:
    """What was inferred of a column, for the user.

    Parameters
    ----------
    code : NoticeCode
        What it reports.
    text : str
        A sentence that begins with the column's label.
    hint : str
        What to do, as a sentence, if there is something.
    """

    code: NoticeCode
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.hint}" if self.hint else self.text

    @property
    def is_warning(self) -> bool:
        """Whether the user should check the column."""
        return self.code not in INFERRED


@dataclass(frozen=True)
class TableColumn:
    """One column of the table that an estimator was fitted on.

    Parameters
    ----------
    role : Role
        What networks see of it.
    kind : str
        The kind of its values, one of `KINDS`.
    name : str or None
        Its name; None in arrays, and in frames whose names are not text.
    categories : tuple of str, int, float or bool
        The categories in ascending order, if it is categorical.
    format : NumberFormat, BooleanFormat, DateFormat or None
        How its text is written, and for dates the numbers that they become.
    notices : tuple of Notice
        What was inferred, and what the user should check.
    """

    role: Role
    kind: str
    name: str | None = None
    categories: tuple[Label, ...] = ()
    format: Format | None = None
    notices: tuple[Notice, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", Role(check_choice(self.role, "role", _words(Role))))
        check_choice(self.kind, "kind", KINDS)
        if self.role == Role.CATEGORICAL:
            _check_categories(self.categories, self.kind)
        elif self.categories:
            raise argument_error("categories", f"be empty for a column of role {self.role!r}", self.categories)
        elif self.role == Role.NUMERICAL and self.kind in ("text", "mixed") and self.format is None:
            raise argument_error("role", f"be 'categorical' for a column of kind {self.kind!r}", self.role)
        is_odd = self.format is not None and self.role == Role.CATEGORICAL
        if isinstance(self.format, DateFormat) != (self.role == Role.DATE) or is_odd:
            raise argument_error("format", f"suit a column of role {self.role!r}", self.format)

    @property
    def part_names(self) -> list[str]:
        """Names of the numbers that a date becomes, such as ``"year"``; none for other columns."""
        return self.format.names if isinstance(self.format, DateFormat) else []

    @property
    def width(self) -> int:
        """How many places it takes in a `CodedTable`."""
        return 0 if self.role == Role.IGNORED else len(self.part_names) or 1

    @property
    def has_elapsed_days(self) -> bool:
        """Whether the first of its numbers are the elapsed days of a date."""
        return isinstance(self.format, DateFormat) and self.format.parts[0] == ELAPSED

    @property
    def warning(self) -> str:
        """What the user should check, as one text; empty if there is nothing."""
        return " ".join(str(notice) for notice in self.notices if notice.is_warning)

    @property
    def inferred(self) -> str:
        """What else was inferred, as one text; empty if there is nothing."""
        return " ".join(str(notice) for notice in self.notices if not notice.is_warning)


SAVED_COLUMNS: dict[str, type] = {
    kind.__name__: kind for kind in (TableColumn, Notice, NumberFormat, BooleanFormat, DateFormat)
}
"""What model files have of columns, by name."""


def column_label(name: str | None, place: int) -> str:
    """Return what a column is called in messages."""
    return f"column {place}" if name is None else f"column {name!r}"


def _words(kind: type[StrEnum]) -> list[str]:
    return [each.value for each in kind]


def _check_categories(labels: Collection[Label], kind: str) -> None:
    if kind == "missing":
        if labels:
            raise argument_error("categories", "be empty for a column of kind 'missing'", labels)
        return
    if kind not in LABELS:
        raise argument_error("kind", f"be one of {listed([*LABELS, 'missing'])} for a categorical column", kind)
    wrong = [label for label in labels if type(label) not in LABELS[kind]]
    if wrong or not labels:
        raise type_error("categories", f"be {KINDS[kind]} for a column of kind {kind!r}", wrong[0] if wrong else labels)
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        raise argument_error("categories", "be finite", listed(labels))
    if any(not low < high for low, high in pairwise(labels)):  # type: ignore[operator]
        raise argument_error("categories", "ascend, without repetition", listed(labels))
