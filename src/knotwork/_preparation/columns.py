"""The columns of a user's table, learned when fitting: what each holds, what networks see of it, and its values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, listed, type_error, warn_user
from knotwork._preparation.cells import Cells, Label
from knotwork._preparation.formats import DateFormat
from knotwork._preparation.learning import (
    JUDGING,
    Misfits,
    Notice,
    NoticeCode,
    Role,
    TableColumn,
    Whole,
    column_label,
    is_copy,
    learn_column,
    read_column,
    reason_to_ignore,
    refuse_infinite,
    warn_misfits,
)
from knotwork._tables import as_frame, frame_names, refuse_empty, refuse_sparse
from knotwork.errors import ColumnError, ColumnTypeError, ColumnWarning

Names: TypeAlias = tuple[str, ...] | None

DATES = {"features": "dates and times become numbers", "error": "dates, times and durations are refused"}

LARGEST_FLOAT = np.finfo(np.float64).max


class Span(NamedTuple):
    """Where a column stands in a `CodedTable`: the name of the field, and its places in it."""

    field: str
    places: slice


class CodedTable(NamedTuple):
    """A table as it was read: numbers, and codes of categories.

    Parameters
    ----------
    numbers : ndarray of float64, shape (n, n_numerical)
        The numerical columns, and the numbers that dates become; NaN where a value is missing, finite otherwise.
    codes : ndarray of int64, shape (n, n_categorical)
        The categorical columns; 0 where a value is missing or was not seen when fitting, and from 1 the categories
        in ascending order.
    """

    numbers: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    def take(self, rows: Any) -> "CodedTable":
        """Return some rows."""
        return CodedTable(self.numbers[rows], self.codes[rows])

    @classmethod
    def from_columns(
        cls, numbers: list[npt.NDArray[np.float64]], codes: list[npt.NDArray[np.int64]], n_rows: int
    ) -> "CodedTable":
        """Return columns, each of shape (n_rows, k), side by side; there may be none."""
        return cls(
            np.concatenate([np.empty((n_rows, 0)), *numbers], axis=1),
            np.concatenate([np.empty((n_rows, 0), dtype=np.int64), *codes], axis=1),
        )

    @classmethod
    def joined(cls, parts: Sequence["CodedTable"]) -> "CodedTable":
        """Return the rows of several tables as one."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def values(self, span: Span) -> npt.NDArray[Any]:
        """Return the values of a column, of shape (n, k)."""
        part: npt.NDArray[Any] = getattr(self, span.field)[:, span.places]
        return part

    def with_values(self, span: Span, values: npt.NDArray[Any]) -> "CodedTable":
        """Return the table with other values of a column, of shape (n, k) or (k,)."""
        changed = getattr(self, span.field).copy()
        changed[:, span.places] = values
        return self._replace(**{span.field: changed})


class Columns(tuple[TableColumn, ...]):
    """The columns of the table that an estimator was fitted on.

    Numbers, decimals, booleans and durations are numerical, and so is a column whose values are all missing. Text is
    read as numbers, truth values or dates if all of it is written in one format, or most of it, with at least 20
    distinct values: the rest is missing. Otherwise it is categorical, as categories are. Columns of Python objects are
    judged by their values. Identifiers, free text and constant columns are ignored, unless all columns are or the user
    lists them.

    Parameters
    ----------
    columns : iterable of TableColumn
        The columns, all with distinct names or all without.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [31, None], "town": ["Ulm", "Bonn"]})
    >>> columns = Columns.from_table(X)
    >>> columns.roles, columns[1].categories
    (('numerical', 'categorical'), ('Bonn', 'Ulm'))
    >>> columns.read(pd.DataFrame({"town": ["Ulm", "Rome"], "age": [1, 2]}))
    CodedTable(numbers=array([[1.],
           [2.]]), codes=array([[2],
           [0]]))
    """

    __slots__ = ()

    def __new__(cls, columns: Iterable[TableColumn]) -> Self:
        made = super().__new__(cls, columns)
        if not made:
            raise argument_error("columns", "be at least one", 0)
        names = [column.name for column in made]
        if any(name is not None for name in names) and not (
            all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        ):
            raise argument_error("names", "be distinct text, or None for all columns", listed(names))
        return made

    @classmethod
    def from_table(
        cls, X: Any, categorical: Iterable[str | int] | None = None, *, dates: str = "features"
    ) -> "Columns":
        """Learn the columns of a table; parameters as in `learn`."""
        return cls.learn(X, categorical, dates=dates)[0]

    @classmethod
    def learn(
        cls,
        X: Any,
        categorical: Iterable[str | int] | None = None,
        *,
        dates: str = "features",
        least_count: int = 1,
        whole: Whole | None = None,
    ) -> "ReadTable":
        """Learn the columns of a table, and read it.

        Infinite numbers, lists, records, bytes and complex numbers are refused with the name of the column and what to
        do. X is not changed.

        Parameters
        ----------
        X : table of shape (n, d)
            A pandas, polars or pyarrow frame, a NumPy array, or a list of rows.
        categorical : iterable of str or int, optional
            Columns of numbers to treat as categories, such as integer codes: by name, or by position if the columns
            have no names. Text that is listed is not read as numbers or dates.
        dates : {"features", "error"}, default="features"
            Whether dates and times become numbers, or dates, times and durations are refused, even if they are text.
        least_count : int, default=1
            Rows that a category has at least; rarer ones are not kept, and read as new ones.
        whole : Whole, optional
            The whole table's number of rows and labels, if X is a random part of it, with the rows in their order. The
            values that are returned then have the codes of the categories in X only.

        Returns
        -------
        ReadTable
            The columns, and the values as from `read`.
        """
        check_choice(dates, "dates", DATES)
        names, columns = open_columns(X)
        chosen = _check_chosen(categorical, names, len(columns))
        named = list(enumerate(names or [None] * len(columns)))
        learned = [
            learn_column(columns[place], name, column_label(name, place), is_chosen=place in chosen, dates=dates)
            for place, name in named
        ]
        learned = [each.without_rare(least_count) for each in learned]
        if whole is not None:
            learned = [each.with_labels(whole.labels.get(place, ())) for place, each in enumerate(learned)]
        n_rows = len(columns[0])
        n_whole = n_rows if whole is None else whole.n_rows
        reasons = [None if place in chosen else reason_to_ignore(each, n_whole) for place, each in enumerate(learned)]
        made = [each.column for each in learned]
        if not all(reasons):  # nothing else would be left
            made = [
                TableColumn(Role.IGNORED, column.kind, column.name, notices=(why,)) if why else column
                for column, why in zip(made, reasons, strict=True)
            ]
        values = [(column.role, each.values) for column, each in zip(made, learned, strict=True)]
        numbers = [part for role, part in values if role in (Role.NUMERICAL, Role.DATE)]
        codes = [part[:, None] for role, part in values if role == Role.CATEGORICAL]
        return ReadTable(cls(made), CodedTable.from_columns(numbers, codes, n_rows))

    @property
    def names(self) -> Names:
        """Names of the columns; None for arrays, and for frames whose names are not text."""
        return None if self[0].name is None else tuple(str(column.name) for column in self)

    @property
    def labels(self) -> list[Any]:
        """Names of the columns, or their positions in a table without names."""
        return [place if column.name is None else column.name for place, column in enumerate(self)]

    @property
    def roles(self) -> tuple[Role, ...]:
        """For each column what networks see of it."""
        return tuple(column.role for column in self)

    @property
    def seen(self) -> list[int]:
        """The places of the columns that networks see."""
        return [place for place, column in enumerate(self) if column.role != Role.IGNORED]

    @property
    def categorical(self) -> dict[Any, TableColumn]:
        """The categorical columns by their labels, in the order of `CodedTable.codes`."""
        return {
            label: column for label, column in zip(self.labels, self, strict=True) if column.role == Role.CATEGORICAL
        }

    @property
    def categories(self) -> tuple[tuple[Label, ...], ...]:
        """The categories of each categorical column."""
        return tuple(column.categories for column in self.categorical.values())

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of codes of each categorical column: its categories, and 0."""
        return tuple(len(labels) + 1 for labels in self.categories)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should check, a sentence or two for each column that has something."""
        return tuple(column.warning for column in self if column.warning)

    @property
    def inferred(self) -> tuple[str, ...]:
        """What else was inferred: truth values, and the numbers that dates become."""
        return tuple(column.inferred for column in self if column.inferred)

    @property
    def notices(self) -> tuple[str, ...]:
        """All that was inferred and noticed: `warnings`, then `inferred`."""
        return (*self.warnings, *self.inferred)

    @property
    def numerical_names(self) -> list[Any]:
        """Names of the columns of `CodedTable.numbers`.

        Those of the numerical columns, or their positions in a table without names; and for each number of a date a
        name such as ``"sold (year)"``.
        """
        taken = set(self.names or ())
        out: list[Any] = []
        for label, column in zip(self.labels, self, strict=True):
            if column.role == Role.NUMERICAL:
                out.append(label)
            for part in column.part_names:
                derived = f"{label} ({part})"
                while derived in taken:
                    derived += "_"
                taken.add(derived)
                out.append(derived)
        return out

    @property
    def spans(self) -> list[Span]:
        """For each column where it stands in a `CodedTable`; no places for one that is ignored."""
        ends = {"numbers": 0, "codes": 0}
        out = []
        for column in self:
            field = "codes" if column.role == Role.CATEGORICAL else "numbers"
            out.append(Span(field, slice(ends[field], ends[field] + column.width)))
            ends[field] += column.width
        return out

    def spread(self, settings: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return a mapping from columns as one from `numerical_names`: a date's setting is that of all its numbers.

        Columns that are ignored are left out; keys that are no column are kept.
        """
        names, out = self.numerical_names, dict(settings)
        for label, column, (_, places) in zip(self.labels, self, self.spans, strict=True):
            if label in out and column.role in (Role.DATE, Role.IGNORED):
                setting = out.pop(label)
                out |= dict.fromkeys(names[places], setting)
        return out

    def with_copies(self, table: CodedTable, target: npt.NDArray[Any]) -> "Columns":
        """Return these columns with a warning for each that is a copy of the target, or a monotone function of it.

        The target, of shape (n,) or (n, n_targets), has numbers, or codes of classes, which are integers.
        """
        targets = np.atleast_2d(target.T)
        if len(self) == 1 or len(target) < JUDGING.fewest_compared:
            return self
        out = list(self)
        for place, span in enumerate(self.spans):
            values = table.values(span)
            if values.shape[1] == 1 and any(is_copy(values[:, 0], each) for each in targets):
                label = column_label(self[place].name, place)
                notice = Notice(
                    NoticeCode.COPY,
                    f"{label} determines the target: it is a copy of it, or a monotone function.",
                    "Leave it out if it is not known when predictions are made.",
                )
                out[place] = replace(out[place], notices=(notice, *out[place].notices))
        return Columns(out)

    def warn(self) -> None:
        """Issue the warnings, each as a `ColumnWarning`."""
        for sentence in self.warnings:
            warn_user(sentence, ColumnWarning)

    def read(self, X: Any) -> CodedTable:
        """Read a table that has these columns.

        Columns of a frame are matched by name, in any order; those of a table without names, by position. The values
        of a row do not depend on other rows. Columns that were ignored when fitting may be missing and are not read.
        Infinite numbers become the largest finite ones. Text is parsed in the format of the fit: what does not fit is
        missing, with a warning. In columns that held numbers when fitting, text that is no number is an error; in a
        column that was all missing when fitting, text counts as missing. Categories
        are matched by value: the type of the column does not matter, 1 and 1.0 are the same, and in a column that held
        text when fitting 1 is ``"1"``. X is not changed.

        Parameters
        ----------
        X : table of shape (n, d)
            A pandas, polars or pyarrow frame, a NumPy array, or a list of rows.

        Returns
        -------
        CodedTable
            Numbers and codes of categories.
        """
        table, misfits = self.read_quietly(X)
        for label, texts in misfits.items():
            warn_misfits(texts, label)
        return table

    def read_quietly(self, X: Any, *, to_fit: bool = False) -> tuple[CodedTable, dict[str, Misfits]]:
        """Read a table as `read` does; texts that do not fit the format of their column are returned by its label.

        Infinite numbers become the largest ones, or are refused if the rows are `to_fit`.
        """
        names, columns = open_columns(X)
        order = self.order(names, len(columns))
        unfit: dict[str, Misfits] = {}
        numbers: list[npt.NDArray[np.float64]] = []
        codes: list[npt.NDArray[np.int64]] = []
        for source, column in zip(order, self, strict=True):
            if column.role == Role.IGNORED or source is None:
                continue
            label = column_label(None if names is None else names[source], source)
            zone = column.format.zone if isinstance(column.format, DateFormat) else None
            cells = Cells.from_column(columns[source], label, zone)
            if column.role == Role.CATEGORICAL:
                cells.refuse_moments(label)
                codes.append(cells.codes(column.categories, as_text=column.kind in ("text", "mixed"))[:, None])
            elif column.kind == "missing" and cells.kind not in ("number", "boolean", "duration"):
                numbers.append(np.full((len(cells.where), 1), np.nan))
            else:
                values, misfits = read_column(cells, column.format, label)
                if misfits:
                    unfit[label] = misfits
                if to_fit:
                    refuse_infinite(values[:, 0], label)
                numbers.append(np.clip(values, -LARGEST_FLOAT, LARGEST_FLOAT))
        return CodedTable.from_columns(numbers, codes, len(columns[0])), unfit

    def order(self, names: Names, n_columns: int) -> Sequence[int | None]:
        """Return where each column stands in a table; None for an ignored one that is missing."""
        if self.names is not None and names is not None:
            return self._order(names)
        if n_columns != len(self):
            raise ColumnError(
                f"X has {n_columns} features, but Columns is expecting {len(self)} features as input. "
                "Pass the columns of the fit, in their order."
            )
        if self.names is not None:
            warn_user(
                "X does not have valid feature names, but the estimator was fitted with feature names: columns are "
                "taken in the order of the fit. Pass a frame with these names.",
                ColumnWarning,
            )
        return range(n_columns)

    def _order(self, names: tuple[str, ...]) -> list[int | None]:
        """Return where each column stands among these; missing or extra columns are an error."""
        place = {name: index for index, name in enumerate(names)}
        absent = [column.name for column in self if column.name not in place and column.role != Role.IGNORED]
        extra = sorted(set(names) - set(self.names or ()))
        parts = []
        if extra:
            parts.append(f"Feature names unseen at fit time: {listed(extra)}. Drop them, or fit again with them.")
        if absent:
            parts.append(
                f"Feature names seen at fit time, yet now missing: {listed(absent)}. "
                "Add them, all missing if they are not known, or fit again without them."
            )
        if parts:
            raise ColumnError(" ".join(["The feature names should match those that were passed during fit.", *parts]))
        return [place.get(str(column.name)) for column in self]


class ReadTable(NamedTuple):
    """A table that was read once: its columns and its values."""

    columns: Columns
    table: CodedTable

    def take(self, rows: npt.NDArray[np.int64]) -> "ReadTable":
        """Return some rows, with the categories that they have, as if these rows had been read alone."""
        table, columns = self.table.take(rows), list(self.columns)
        coded = [place for place, column in enumerate(columns) if column.role == Role.CATEGORICAL]
        for place, codes in zip(coded, table.codes.T, strict=True):
            labels = [
                columns[place].categories[code - 1] for code in np.flatnonzero(np.bincount(codes)).tolist() if code
            ]
            if labels:
                columns[place] = replace(columns[place], categories=tuple(labels))
        return ReadTable(Columns(columns), table._replace(codes=known_codes(table.codes, slice(None))))

    def select(self, places: Sequence[int]) -> "ReadTable":
        """Return some columns."""
        every = self.columns.spans
        spans = [every[place] for place in places]
        numbers = [self.table.values(span) for span in spans if span.field == "numbers"]
        codes = [self.table.values(span) for span in spans if span.field == "codes"]
        table = CodedTable.from_columns(numbers, codes, self.table.n_rows)
        return ReadTable(Columns(self.columns[place] for place in places), table)


def known_codes(codes: npt.NDArray[np.int64], rows: Any) -> npt.NDArray[np.int64]:
    """Return codes that count from 1 the categories that some rows have; what they do not have is 0."""
    out = np.zeros_like(codes)
    for place, column in enumerate(codes.T):
        numbers = np.zeros(column.max(initial=0) + 1, dtype=np.int64)
        seen = np.flatnonzero(np.bincount(column[rows])[1:]) + 1
        numbers[seen] = np.arange(1, len(seen) + 1)
        out[:, place] = numbers[column]
    return out


def open_columns(X: Any) -> tuple[Names, list[Any]]:
    """Return the names of a table's columns, None if they have none, and the columns."""
    frame = as_frame(X)
    if frame is None:
        table = _as_array(X)
        return None, [table[:, index] for index in range(table.shape[1])]
    refuse_empty(frame.shape)
    names = frame_names(frame)
    are_text = {isinstance(name, str) for name in names}
    if are_text == {True, False}:
        odd = [name for name in names if not isinstance(name, str)]
        raise ColumnTypeError(
            "Feature names are only supported if all input features have string names, but these are not text: "
            f"{listed(odd)}. Rename them, for example with X.columns = X.columns.astype(str)."
        )
    return tuple(map(str, names)) if are_text == {True} else None, list(frame.iter_columns())


def _as_array(X: Any) -> npt.NDArray[Any]:
    """Return a table that is not a frame as an array of two dimensions, each value with its own type."""
    refuse_sparse(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.array(None), np.asarray(X, dtype=object))
    elif isinstance(X, list | tuple):
        X = np.asarray(X) if np.asarray(X).dtype.kind != "U" else np.asarray(X, dtype=object)
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        raise type_error("X", "be a plain array or a frame", X.dtype, "Wrap it: pandas.DataFrame(X).")
    if np.asarray(X).ndim == 0:  # a path, a dict, None
        hint = (
            "Read files with pandas or polars, or pass large ones as pyarrow.parquet.ParquetFile(path) or "
            "pyarrow.dataset.dataset(folder)."
        )
        raise type_error("X", "be a table: a frame, or an array of two dimensions", type(X).__name__, hint)
    if type(X) is np.ndarray and X.ndim == 2 and X.size and X.dtype.kind in "biufO":
        return X
    from sklearn.utils import check_array  # noqa: PLC0415 - it takes a second to load

    table: npt.NDArray[Any] = check_array(X, dtype=None, ensure_all_finite=False)
    return table


def _check_chosen(categorical: Any, names: Names, n_columns: int) -> set[int]:
    """Return the positions of the columns that the user lists."""
    if categorical is None:
        return set()
    labels: list[str] | list[int] = list(range(n_columns)) if names is None else list(names)
    what = "names of columns" if names is not None else "positions of columns, which have no names"
    if isinstance(categorical, str) or not isinstance(categorical, Iterable):
        raise type_error("categorical", f"be a list of {what}", categorical)
    chosen = list(categorical)
    for each in chosen:
        if isinstance(each, bool | np.bool_) or each not in labels:
            raise argument_error("categorical", f"be a list of {what}", each, f"Known are: {listed(labels, most=40)}.")
    return {labels.index(each) for each in chosen}
