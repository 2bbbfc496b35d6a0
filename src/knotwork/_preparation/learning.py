"""One column of a user's table as it is learned: its role, its categories or format, and notices about it."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, listed, shown, type_error, warn_user
from knotwork._preparation.cells import MOMENTS, VALUE_KINDS, Cells, Label, same_kind
from knotwork._preparation.formats import (
    DATE_PARTS,
    ELAPSED,
    BooleanFormat,
    DateFormat,
    Format,
    NumberFormat,
    date_parts,
    infer_format,
    is_mark,
    misfit_mask,
)
from knotwork._tables import refuse
from knotwork._writing import counted
from knotwork.errors import ColumnTypeError, ColumnWarning

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
        What to do, as a sentence; empty if nothing needs to be done.
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
        The kind of its values, one of `VALUE_KINDS`.
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
        object.__setattr__(self, "role", Role(check_choice(self.role, "role", list(Role))))
        check_choice(self.kind, "kind", VALUE_KINDS)
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
        """What the user should check, as one text; may be empty."""
        return " ".join(str(notice) for notice in self.notices if notice.is_warning)

    @property
    def inferred(self) -> str:
        """What else was inferred, as one text; may be empty."""
        return " ".join(str(notice) for notice in self.notices if not notice.is_warning)


SAVED_COLUMNS: dict[str, type] = {
    kind.__name__: kind for kind in (TableColumn, Notice, NumberFormat, BooleanFormat, DateFormat)
}
"""What model files have of columns, by name."""


def column_label(name: str | None, place: int) -> str:
    """Return what a column is called in messages."""
    return f"column {place}" if name is None else f"column {name!r}"


def _check_categories(labels: Collection[Label], kind: str) -> None:
    if kind == "missing":
        if labels:
            raise argument_error("categories", "be empty for a column of kind 'missing'", labels)
        return
    if kind not in LABELS:
        raise argument_error("kind", f"be one of {listed([*LABELS, 'missing'])} for a categorical column", kind)
    wrong = [label for label in labels if type(label) not in LABELS[kind]]
    if wrong or not labels:
        raise type_error(
            "categories", f"be {VALUE_KINDS[kind]} for a column of kind {kind!r}", wrong[0] if wrong else labels
        )
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        raise argument_error("categories", "be finite", listed(labels))
    if any(not low < high for low, high in pairwise(labels)):  # type: ignore[operator]
        raise argument_error("categories", "ascend, without repetition", listed(labels))


@dataclass(frozen=True)
class JudgingRule:
    """When a column is ignored, or reported as a copy of the target. The numbers are conventions, none is measured.

    Parameters
    ----------
    fewest_judged, fewest_compared : int
        In tables of fewer rows a column may be constant by chance, or look like an identifier or a copy of the target.
    distinct : float
        Text with more distinct values than this share of the rows is an identifier or free text.
    step : int
        Whole numbers that ascend by at most this much on average are counted as row numbers.
    n_words : int
        Text with at least this many words on average is free text.
    n_sampled : int
        Rows by which a column is compared with the target, before all of them are.
    """

    fewest_judged: int = 20
    fewest_compared: int = 100
    distinct: float = 0.5
    step: int = 10
    n_words: int = 3
    n_sampled: int = 1000


JUDGING = JudgingRule()

ID_NAME = re.compile(
    r"unnamed: ?\d+|(.*[_\W])?(id|ids|uuid|guid|index|idx|row|rownum|rowid|row[_ ](id|nr|no|number))", re.I
)
ID_CAMEL = re.compile(r".*[a-z](Id|ID)")
TIME_NAME = re.compile(r".*(year|month|week|day|hour|minute|second|time|date|step).*|t", re.IGNORECASE)
"""Names of columns of whole numbers that may ascend with the rows although they are quantities."""


@dataclass(frozen=True, eq=False)
class Whole:
    """A whole table, if its columns are learned from a random part of it.

    Parameters
    ----------
    n_rows : int
        Its number of rows.
    labels : mapping of int to iterable of Label
        The labels that some columns have in all rows, by their places.
    """

    n_rows: int
    labels: Mapping[int, Iterable[Label]]


@dataclass(frozen=True, eq=False)
class Learned:
    """One column as it was learned, with its values.

    Parameters
    ----------
    column : TableColumn
        What it is.
    cells : Cells
        What it holds.
    label : str
        What it is called in messages.
    values : ndarray of shape (n, k) or (n,)
        Its numbers; or the codes of its categories.
    is_chosen : bool
        Whether the user or the type of the column says that it is categorical.
    has_all_labels : bool
        Whether the categories are those of a table of which `values` are only a part.
    """

    column: TableColumn
    cells: Cells
    label: str
    values: npt.NDArray[Any]
    is_chosen: bool = False
    has_all_labels: bool = False

    def with_labels(self, labels: Iterable[Label]) -> "Learned":
        """Return a categorical column with the labels of all rows, if any are given; its values stay as they are."""
        every = same_kind(labels, self.cells.kind)
        if self.column.role != Role.CATEGORICAL or not every:
            return self
        categories = tuple(sorted({*every, *self.column.categories}))
        return replace(self, column=replace(self.column, categories=categories), has_all_labels=True)

    def without_rare(self, least_count: int) -> "Learned":
        """Return a categorical column without categories of fewer rows, which become the code of new ones."""
        if self.column.role != Role.CATEGORICAL or least_count == 1:
            return self
        labels = self.column.categories
        is_kept = np.bincount(self.values, minlength=len(labels) + 1)[1:] >= least_count
        codes = np.append(0, np.where(is_kept, np.cumsum(is_kept), 0))
        categories = tuple(label for label, kept in zip(labels, is_kept.tolist(), strict=True) if kept)
        return replace(self, column=replace(self.column, categories=categories), values=codes[self.values])


def learn_column(values: Any, name: str | None, label: str, *, is_chosen: bool, dates: str) -> Learned:
    """Return what a column holds; parameters as in `Cells.from_column` and `Columns.learn`."""
    cells = Cells.from_column(values, label)
    if dates == "error" or is_chosen:
        cells.refuse_moments(label)
    is_chosen = is_chosen or (cells.is_categorical and cells.kind != "missing")
    if cells.kind in ("text", "mixed") and not is_chosen:
        counts = np.bincount(cells.where[cells.where >= 0], minlength=len(cells.values))
        written, meaning = infer_format(cells.values.tolist(), counts)
        if isinstance(written, DateFormat) and dates == "error":
            raise ColumnTypeError(
                f"{label} is text that holds dates, such as {cells.values[0]!r}. Convert it to numbers, list it in "
                "`categorical`, or pass dates='features'."
            )
        if written is not None:
            return _learn_written(cells, name, label, written, meaning)
    if cells.kind in ("date", "time"):
        order = "ymd" if cells.kind == "date" else "time"
        first = DateFormat(order, (DATE_PARTS[0] if order == "ymd" else "hour",), cells.zone)
        return _learn_written(cells, name, label, first)
    if is_chosen or cells.kind in ("text", "mixed"):
        return _learn_category(cells, name, label, is_chosen=is_chosen)
    numbers = cells.numbers(label)
    refuse_infinite(numbers, label)
    notices: tuple[Notice, ...] = ()
    if cells.kind == "duration":
        notices = (Notice(NoticeCode.DURATIONS, f"{label} holds durations, which become seconds."),)
    return Learned(TableColumn(Role.NUMERICAL, cells.kind, name, notices=notices), cells, label, numbers[:, None])


def refuse_infinite(values: npt.NDArray[np.float64], label: str) -> None:
    """Raise an error if a column of numbers, of shape (n,) or (n, 1), contains infinity."""
    refuse(np.isinf(values), label, "contains infinity", "Replace it by NaN or a finite number before fitting.")


def _learn_category(cells: Cells, name: str | None, label: str, *, is_chosen: bool) -> Learned:
    if cells.kind == "number":
        refuse_infinite(cells.numbers(label), label)
    categories = cells.categories()
    codes = cells.codes(categories, as_text=cells.kind in ("text", "mixed"))
    notices: tuple[Notice, ...] = ()
    if cells.kind == "mixed":
        text = f"{label} mixes text with numbers or booleans: all are taken by their text."
        notices = (Notice(NoticeCode.MIXED, text),)
    column = TableColumn(Role.CATEGORICAL, cells.kind, name, categories, notices=notices)
    return Learned(column, cells, label, codes, is_chosen=is_chosen)


def _learn_written(
    cells: Cells, name: str | None, label: str, written: Format, meaning: npt.NDArray[Any] | None = None
) -> Learned:
    """Return a column of text in a format, or of dates of any type."""
    if isinstance(written, DateFormat):
        moments, misfits = _moments(cells, written, label, meaning)
        written = replace(written, parts=_varying(moments, written.parts))
        values = written.numbers(moments)
    else:
        values, misfits = read_column(cells, written, label, meaning)
    refuse_infinite(values[:, 0], label)
    role = Role.DATE if isinstance(written, DateFormat) else Role.NUMERICAL
    notice = _written_notice(cells, label, written, misfits)
    return Learned(TableColumn(role, cells.kind, name, format=written, notices=(notice,)), cells, label, values)


def _written_notice(cells: Cells, label: str, written: Format, misfits: "Misfits") -> Notice:
    """Return the notice of a column of text in a format, or of dates."""
    if cells.kind in MOMENTS:
        return Notice(NoticeCode.DATES, f"{label} holds {written.describe()}.")
    what = "is text" if cells.kind == "text" else "mixes text with numbers"
    sentence = f"{label} {what}, such as {shown(_first(cells))}, and is read as {written.describe()}."
    if misfits:
        sentence += f" {_misfit_words(misfits)} taken as missing.{_odd_row(cells, misfits)}"
    is_boolean = isinstance(written, BooleanFormat) and not misfits
    return Notice(NoticeCode.BOOLEANS if is_boolean else NoticeCode.PARSED, sentence)


def _first(cells: Cells) -> Label:
    """Return the first text that is no mark of a missing value, or the first text, for a message."""
    texts = [each for each in cells.values if isinstance(each, str)]
    label: Label = next((each for each in texts if not is_mark(each)), texts[0])
    return label


def _varying(moments: npt.NDArray[Any], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of dates that are not the same in all rows, or `default` if there are none."""
    present = moments[~np.isnat(moments)]
    if not len(present):
        return default
    return tuple(part for part, values in date_parts(present).items() if values.min() < values.max()) or default


Misfits: TypeAlias = list[Label]
"""Texts of a column that do not fit its format."""


def read_column(
    cells: Cells, written: Format | None, label: str, meaning: npt.NDArray[Any] | None = None
) -> tuple[npt.NDArray[np.float64], Misfits]:
    """Return the numbers of a numerical column or of dates, of shape (n, k), and texts that do not fit the format.

    `meaning` is what the distinct texts mean, if they were parsed before.
    """
    if isinstance(written, DateFormat):
        moments, misfits = _moments(cells, written, label)
        return written.numbers(moments), misfits
    if written is None or cells.kind not in ("text", "mixed"):
        return cells.numbers(label)[:, None], []
    meaning, misfits = _parsed(cells, written, meaning)
    return np.append(meaning, np.nan)[cells.where][:, None], misfits


def _parsed(cells: Cells, written: Format, meaning: npt.NDArray[Any] | None) -> tuple[npt.NDArray[Any], Misfits]:
    """Return what the distinct texts of a column mean, and texts that do not fit; parsed texts are not parsed again."""
    texts = cells.values.tolist()
    values = written.parse(texts) if meaning is None else meaning
    return values, cells.values[misfit_mask(texts, values)].tolist()


def _moments(
    cells: Cells, written: DateFormat, label: str, meaning: npt.NDArray[Any] | None = None
) -> tuple[npt.NDArray[Any], Misfits]:
    """Return the dates or times of each row, NaT where they are missing, and texts that do not fit the format."""
    kind = "time" if written.order == "time" else "date"
    missing = np.array(["NaT"], dtype=MOMENTS[kind][1])
    if cells.kind in (kind, "missing"):
        return np.concatenate([cells.values.astype(missing.dtype), missing])[cells.where], []
    if cells.kind not in ("text", "mixed"):
        held = {"date": "dates", "time": "times of day"}[kind]
        raise ColumnTypeError(
            f"{label} held {held} when it was fitted, and now holds {VALUE_KINDS[cells.kind]}. Convert it to {held}."
        )
    meaning, misfits = _parsed(cells, written, meaning)
    return np.concatenate([meaning, missing])[cells.where], misfits


def _misfit_words(misfits: Misfits) -> str:
    if len(misfits) == 1:
        return f"The text {shown(misfits[0])} is"
    return f"{len(misfits)} other texts, such as {shown(misfits[0])}, are"


def _odd_row(cells: Cells, misfits: Misfits) -> str:
    """Return the sentence about a row of units or of totals, if texts that do not fit are in the first or last row."""
    rows = np.flatnonzero(np.isin(cells.where, np.flatnonzero([value in misfits for value in cells.values.tolist()])))
    words = {0: "The first row looks like one of units", len(cells.where) - 1: "The last row looks like one of totals"}
    if not len(rows) or not {*rows.tolist()} <= {*words}:
        return ""
    return f" {'. '.join(words[row] for row in rows.tolist())}: leave it out."


def warn_misfits(misfits: Misfits, label: str) -> None:
    """Warn of texts that are taken as missing, which were not seen when the column was learned."""
    if misfits:
        warn_user(
            f"{label} is not written as when it was fitted: {_misfit_words(misfits)} taken as missing.",
            ColumnWarning,
        )


def reason_to_ignore(learned: Learned, n_whole: int) -> Notice | None:
    """Return why a column should be ignored; None if it should not.

    A column without a name is an identifier only if it counts the rows. It may have a random part of the `n_whole` rows
    of the table.
    """
    n_rows, label = len(learned.cells.where), learned.label
    if n_rows < JUDGING.fewest_judged:
        return None
    if _is_constant(learned):
        is_empty = learned.cells.kind == "missing"
        why = "all its values are missing" if is_empty else "it is constant"
        part = f" in a sample of {counted(n_rows)} rows" if n_rows < n_whole else ""
        return Notice(NoticeCode.EMPTY if is_empty else NoticeCode.CONSTANT, f"{label} is ignored: {why}{part}.")
    if learned.column.role == Role.NUMERICAL and _counts_rows(learned, n_whole):
        text = f"{label} is ignored: it looks like an identifier, a different whole number in each row."
        return Notice(NoticeCode.IDENTIFIER, text, "Convert it to floats if it is a quantity.")
    categories = learned.column.categories
    n_rows = n_whole if learned.has_all_labels else n_rows
    if (
        categories
        and not learned.is_chosen
        and n_rows > JUDGING.fewest_compared
        and len(categories) > JUDGING.distinct * n_rows
    ):
        sample = [str(text) for text in categories[:: max(len(categories) // 100, 1)]]
        is_free = sum(len(text.split()) for text in sample) >= JUDGING.n_words * len(sample)
        text = (
            f"{label} is ignored: it looks like {'free text' if is_free else 'an identifier'}, text with "
            f"{len(categories)} distinct values in {n_rows} {'sampled ' if n_rows < n_whole else ''}rows."
        )
        code = NoticeCode.FREE_TEXT if is_free else NoticeCode.IDENTIFIER
        return Notice(code, text, "List it in `categorical` if its values are categories.")
    return None


def _is_constant(learned: Learned) -> bool:
    """Return whether all values are equal; if some are missing, that may matter."""
    if learned.cells.kind == "missing":
        return True
    values = learned.values
    if learned.has_all_labels and len(learned.column.categories) > 1:
        return False
    if (values[0] != values[-1]).any() or (learned.cells.where < 0).any():
        return False
    return bool((values == values[0]).all())


def _counts_rows(learned: Learned, n_whole: int) -> bool:
    """Return whether whole numbers are an identifier: all are different, and ascend or have the name of one."""
    values, n_rows = learned.cells.values, len(learned.cells.where)
    name, written = learned.column.name, learned.column.format
    if values.dtype.kind not in "iu" or len(values) < n_rows:
        if not isinstance(written, NumberFormat) or written.unit:
            return False
        values = learned.values[:, 0]
        if not (values == np.trunc(values)).all():  # false for NaN
            return False
    ascends = all((part[1:] > part[:-1]).all() for part in (values[: JUDGING.n_sampled], values))
    if name is None:
        return n_rows >= JUDGING.fewest_compared and ascends and values[0] == 0 and values[-1] == n_whole - 1
    if ID_NAME.fullmatch(name) or ID_CAMEL.fullmatch(name):
        return ascends or len(np.unique(values)) == n_rows
    if not ascends or n_rows < JUDGING.fewest_compared or TIME_NAME.fullmatch(name):
        return False
    return int(values[-1]) - int(values[0]) <= JUDGING.step * n_whole


def is_copy(column: npt.NDArray[Any], target: npt.NDArray[Any]) -> bool:
    """Return whether a column of numbers or codes is a copy of the target, or a monotone function of it.

    Of classes, given by integers, any function that is one-to-one is a copy.
    """
    present = column == column if column.dtype.kind == "f" else column > 0  # noqa: PLR0124 - only NaN differs from itself
    if column.dtype.kind == "i" and target.dtype.kind == "f":
        return False
    step = max(len(target) // JUDGING.n_sampled, 1)
    related = _is_one_to_one if target.dtype.kind in "iu" else _is_monotone
    return all(
        len(rows) >= JUDGING.fewest_compared // 2 and 2 * len(rows) >= count and related(column[rows], target[rows])
        for rows, count in (
            (np.flatnonzero(present[::step]) * step, len(target[::step])),
            (np.flatnonzero(present), len(target)),
        )
    )


def _is_one_to_one(column: npt.NDArray[Any], classes: npt.NDArray[Any]) -> bool:
    values, codes = np.unique(column, return_inverse=True)
    n_classes = len(np.unique(classes))
    return len(values) == n_classes > 1 and len(np.unique(codes * (int(classes.max()) + 1) + classes)) == n_classes


def _is_monotone(column: npt.NDArray[Any], target: npt.NDArray[Any]) -> bool:
    """Return whether numbers ascend or descend with the target; a few distinct values often would by chance."""
    order = np.lexsort((target, column))
    column, target = column[order], target[order]
    if min(len(np.unique(column)), len(np.unique(target))) < JUDGING.fewest_judged:
        return False
    descending = np.lexsort((-target, column))
    return bool((target[1:] >= target[:-1]).all() or (target[descending][1:] <= target[descending][:-1]).all())
