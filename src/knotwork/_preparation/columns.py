"""The columns of a user's table, learned when fitting: what each holds, what networks see of it, and its values."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from knotwork._checks import argument_error, check_choice, listed, type_error, warn_user
from knotwork._preparation.cells import KINDS, Cells, Label
from knotwork._preparation.formats import DateFormat, Format, format_from_json, format_to_json
from knotwork._preparation.learning import (
    FEWEST_COMPARED,
    Misfits,
    Whole,
    is_copy,
    learn_column,
    read_column,
    reason_to_ignore,
    refuse_infinite,
    warn_misfits,
)
from knotwork._tables import as_frame, frame_names, refuse_empty, refuse_sparse
from knotwork.errors import ColumnError, ColumnTypeError, ColumnWarning

__all__ = ["DATES", "ROLES", "Columns", "Table", "Whole", "column_label", "open_columns"]

Names: TypeAlias = tuple[str, ...] | None

ROLES = {
    "numerical": "numbers, booleans and durations, also written as text",
    "date": "dates and times, also written as text, which become several numbers",
    "categorical": "other text, categories, and columns that the user lists",
    "ignored": "identifiers, free text and constants, which networks do not see",
}
DATES = {"features": "dates and times become numbers", "error": "dates, times and durations are refused"}

LABELS: dict[str, tuple[type, ...]] = {"number": (int, float), "boolean": (bool,), "text": (str,), "mixed": (str,)}
"""The types of the categories, for each kind of column."""

LARGEST = np.finfo(np.float64).max


class Table(NamedTuple):
    """A table as it was read.

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


@dataclass(frozen=True)
class Columns:
    """The columns of the table that an estimator was fitted on.

    Numbers, decimals, booleans and durations are numerical, and so is a column whose values are all missing. Text is
    read as numbers, truth values or dates if all of it is written in one format, or most of it, with at least 20
    distinct values: the rest is missing. Otherwise it is categorical, as categories are. Columns of Python objects are
    judged by their values. Identifiers, free text and constant columns are ignored, unless all columns are or the user
    lists them.

    Parameters
    ----------
    names : tuple of str or None
        Names of the columns; None for arrays, and for frames whose names are not text.
    roles : tuple of str
        For each column one of `ROLES`.
    kinds : tuple of str
        For each column the kind of its values, one of `KINDS`.
    categories : tuple of tuple of str, int, float or bool
        For each categorical column its categories, in ascending order.
    warnings : tuple of str
        What the user should check, a sentence or two for each column: text that was read as numbers or dates, columns
        that are ignored, copies of the target.
    inferred : tuple of str
        What else was inferred: truth values, and the numbers that dates become.
    formats : tuple of NumberFormat, BooleanFormat, DateFormat or None
        For each column how its text is written, and for dates the numbers that they become; by default None for all.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [31, None], "town": ["Ulm", "Bonn"]})
    >>> columns = Columns.from_table(X)
    >>> columns.roles, columns.categories
    (('numerical', 'categorical'), (('Bonn', 'Ulm'),))
    >>> columns.read(pd.DataFrame({"town": ["Ulm", "Rome"], "age": [1, 2]}))
    Table(numbers=array([[1.],
           [2.]]), codes=array([[2],
           [0]]))
    """

    names: Names
    roles: tuple[str, ...]
    kinds: tuple[str, ...]
    categories: tuple[tuple[Label, ...], ...]
    warnings: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    formats: tuple[Format | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.formats:
            object.__setattr__(self, "formats", (None,) * len(self.roles))
        _check_counts(self)
        categorical = iter(self.categories)
        for index, (role, kind, written) in enumerate(zip(self.roles, self.kinds, self.formats, strict=True)):
            check_choice(role, f"roles[{index}]", ROLES)
            check_choice(kind, f"kinds[{index}]", KINDS)
            if role == "categorical":
                _check_categories(next(categorical), kind)
            elif role == "numerical" and kind in ("text", "mixed") and written is None:
                raise argument_error(f"roles[{index}]", f"be 'categorical' for a column of kind {kind!r}", role)
            if isinstance(written, DateFormat) != (role == "date") or (written is not None and role == "categorical"):
                raise argument_error(f"formats[{index}]", f"suit a column of role {role!r}", written)

    @classmethod
    def from_table(
        cls, X: Any, categorical: Iterable[str] | Iterable[int] | None = None, *, dates: str = "features"
    ) -> "Columns":
        """Learn the columns of a table; parameters as in `learn`."""
        return cls.learn(X, categorical, dates=dates)[0]

    @classmethod
    def learn(
        cls,
        X: Any,
        categorical: Iterable[str] | Iterable[int] | None = None,
        *,
        dates: str = "features",
        whole: Whole | None = None,
    ) -> tuple["Columns", Table]:
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
            Whether dates and times become numbers, or dates, times and durations are refused, also if they are text.
        whole : Whole, optional
            What is known of the whole table, if X is a random part of it, with the rows in their order. The values that
            are returned then have the codes of the categories in X only.

        Returns
        -------
        columns : Columns
            The columns.
        table : Table
            The values, as from `read`.
        """
        check_choice(dates, "dates", DATES)
        names, columns = open_columns(X)
        chosen = _check_chosen(categorical, names, len(columns))
        learned = [
            learn_column(column, column_label(names, index), is_chosen=index in chosen, dates=dates)
            for index, column in enumerate(columns)
        ]
        if whole is not None:
            learned = [each.with_labels(whole.labels.get(index, ())) for index, each in enumerate(learned)]
        n_rows = len(columns[0])
        n_whole = n_rows if whole is None else whole.n_rows
        reasons = [
            "" if index in chosen else reason_to_ignore(each, None if names is None else names[index], n_whole)
            for index, each in enumerate(learned)
        ]
        if not all(reasons):
            learned = [each.ignored(reason) if reason else each for each, reason in zip(learned, reasons, strict=True)]
        made = cls(
            names=names,
            roles=tuple(each.role for each in learned),
            kinds=tuple(each.cells.kind for each in learned),
            categories=tuple(each.categories for each in learned if each.role == "categorical"),
            warnings=tuple(each.warning for each in learned if each.warning),
            inferred=tuple(each.inferred for each in learned if each.inferred),
            formats=tuple(each.written for each in learned),
        )
        numbers = [each.values for each in learned if each.role in ("numerical", "date")]
        codes = [each.values[:, None] for each in learned if each.role == "categorical"]
        return made, Table(_side_by_side(numbers, n_rows, np.float64), _side_by_side(codes, n_rows, np.int64))

    @property
    def notices(self) -> tuple[str, ...]:
        """All that was inferred and noticed: `warnings`, then `inferred`."""
        return (*self.warnings, *self.inferred)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of codes of each categorical column: its categories, and 0."""
        return tuple(len(labels) + 1 for labels in self.categories)

    @property
    def numerical_names(self) -> list[Any]:
        """Names of the columns of `Table.numbers`.

        Those of the numerical columns, or their positions in a table without names; and for each number of a date a
        name such as ``"sold (year)"``.
        """
        taken = set(self.names or ())
        out: list[Any] = []
        for place, (role, written) in enumerate(zip(self.roles, self.formats, strict=True)):
            name = place if self.names is None else self.names[place]
            if role == "numerical":
                out.append(name)
            for part in written.names if isinstance(written, DateFormat) else ():
                derived = f"{name} ({part})"
                while derived in taken:
                    derived += "_"
                taken.add(derived)
                out.append(derived)
        return out

    @property
    def spans(self) -> list[tuple[str, slice]]:
        """For each column the field of `Table` that holds it, and its places there: none for one that is ignored."""
        ends = {"numbers": 0, "codes": 0}
        out = []
        for role, written in zip(self.roles, self.formats, strict=True):
            field = "codes" if role == "categorical" else "numbers"
            width = 0 if role == "ignored" else len(written.names) if isinstance(written, DateFormat) else 1
            out.append((field, slice(ends[field], ends[field] + width)))
            ends[field] += width
        return out

    def spread(self, settings: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return a mapping from columns as one from `numerical_names`: a date's setting is that of all its numbers.

        Columns that are ignored are left out; keys that are no column are kept.
        """
        names, out = self.numerical_names, dict(settings)
        for place, (field, span) in enumerate(self.spans):
            name = place if self.names is None else self.names[place]
            if name in out and self.roles[place] in ("date", "ignored"):
                setting = out.pop(name)
                out |= dict.fromkeys(names[span], setting) if field == "numbers" else {}
        return out

    def with_copies(self, table: Table, target: npt.NDArray[Any]) -> "Columns":
        """Return these columns with a warning for each that is a copy of the target, or a monotone function of it.

        Parameters
        ----------
        table : Table
            The rows, as they were read.
        target : ndarray of shape (n,) or (n, n_targets)
            Numbers, or codes of classes, which are integers.
        """
        targets = np.atleast_2d(target.T)
        if len(self.roles) == 1 or len(target) < FEWEST_COMPARED:
            return self
        noted = list(self.warnings)
        for place, (field, span) in enumerate(self.spans):
            column = getattr(table, field)[:, span]
            if column.shape[1] != 1 or not any(is_copy(column[:, 0], each) for each in targets):
                continue
            label = column_label(self.names, place)
            known = [each for each in noted if each.startswith(f"{label} ")]
            noted = [each for each in noted if each not in known]
            sentence = (
                f"{label} determines the target: it is a copy of it, or a monotone function. "
                "Leave it out if it is not known when predictions are made."
            )
            noted.append(" ".join([sentence, *known]))
        return replace(self, warnings=tuple(noted))

    def warn(self) -> None:
        """Issue the warnings, each as a `ColumnWarning`."""
        for sentence in self.warnings:
            warn_user(sentence, ColumnWarning)

    def read(self, X: Any) -> Table:
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
        Table
            Numbers and codes of categories.
        """
        table, misfits = self.read_quietly(X)
        for label, texts in misfits.items():
            warn_misfits(texts, label)
        return table

    def read_quietly(self, X: Any, *, to_fit: bool = False) -> tuple[Table, dict[str, Misfits]]:
        """Read a table as `read` does; texts that do not fit the format of their column are returned by its label.

        Infinite numbers become the largest ones, or are refused if the rows are `to_fit`.
        """
        names, columns = open_columns(X)
        order = self.order(names, len(columns))
        unfit: dict[str, Misfits] = {}
        numbers: list[npt.NDArray[np.float64]] = []
        codes: list[npt.NDArray[np.int64]] = []
        for source, role, kind, written in zip(order, self.roles, self.kinds, self.formats, strict=True):
            if role == "ignored" or source is None:
                continue
            label = column_label(names, source)
            cells = Cells.from_column(columns[source], label, written.zone if isinstance(written, DateFormat) else None)
            if role == "categorical":
                cells.refuse_moments(label)
                codes.append(cells.codes(self.categories[len(codes)], as_text=kind in ("text", "mixed"))[:, None])
            elif kind == "missing" and cells.kind not in ("number", "boolean", "duration"):
                numbers.append(np.full((len(cells.where), 1), np.nan))
            else:
                values, misfits = read_column(cells, written, label)
                if misfits:
                    unfit[label] = misfits
                if to_fit:
                    refuse_infinite(values[:, 0], label)
                numbers.append(np.clip(values, -LARGEST, LARGEST))
        n_rows = len(columns[0])
        return Table(_side_by_side(numbers, n_rows, np.float64), _side_by_side(codes, n_rows, np.int64)), unfit

    def order(self, names: Names, n_columns: int) -> Sequence[int | None]:
        """Return where each column stands in a table; None for an ignored one that is missing."""
        if self.names is not None and names is not None:
            return _order(
                self.names, names, {n for n, role in zip(self.names, self.roles, strict=True) if role == "ignored"}
            )
        if n_columns != len(self.roles):
            raise ColumnError(
                f"X has {n_columns} features, but Columns is expecting {len(self.roles)} features as input. "
                "Pass the columns of the fit, in their order."
            )
        if self.names is not None:
            warn_user(
                "X does not have valid feature names, but the estimator was fitted with feature names: columns are "
                "taken in the order of the fit. Pass a frame with these names.",
                ColumnWarning,
            )
        return range(n_columns)

    def to_json(self) -> dict[str, Any]:
        """Return the columns as what ``json.dumps`` takes; `from_json` gives them back with their types."""
        content: dict[str, Any] = {
            "names": None if self.names is None else list(self.names),
            "roles": list(self.roles),
            "kinds": list(self.kinds),
            "categories": [list(labels) for labels in self.categories],
            "warnings": list(self.warnings),
        }
        if self.inferred:
            content["inferred"] = list(self.inferred)
        if any(written is not None for written in self.formats):
            content["formats"] = [format_to_json(written) for written in self.formats]
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Columns":
        """Return the columns that `to_json` wrote; unknown or missing entries and wrong types are refused."""
        known = [field.name for field in fields(cls)]
        if not isinstance(content, dict):
            raise type_error("content", "be a dict as Columns.to_json returns it", content)
        if set(content) | {"inferred", "formats"} != set(known):
            raise argument_error("content", f"have the entries {listed(known)}", listed(content))
        content = {"inferred": [], "formats": [], **content}
        for name in known:
            if not isinstance(content[name], list) and not (name == "names" and content[name] is None):
                raise type_error(name, "be a list", content[name])
        for labels in content["categories"]:
            if not isinstance(labels, list):
                raise type_error("categories", "be a list of lists", labels)
        return cls(
            names=None if content["names"] is None else tuple(content["names"]),
            roles=tuple(content["roles"]),
            kinds=tuple(content["kinds"]),
            categories=tuple(tuple(labels) for labels in content["categories"]),
            warnings=tuple(content["warnings"]),
            inferred=tuple(content["inferred"]),
            formats=tuple(format_from_json(written) for written in content["formats"]),
        )


def _check_counts(columns: Columns) -> None:
    n_columns, n_categorical = len(columns.roles), columns.roles.count("categorical")
    for name, things in (("names", columns.names), ("warnings", columns.warnings), ("inferred", columns.inferred)):
        if things is not None and not all(isinstance(each, str) for each in things):
            raise type_error(name, "be text", things)
    if columns.names is not None and not len(set(columns.names)) == len(columns.names) == n_columns:
        raise argument_error("names", f"be {n_columns} distinct names, one for each role", columns.names)
    if len(columns.kinds) != n_columns or not n_columns:
        raise argument_error("kinds", f"be one for each of {n_columns} roles, of which one is needed", columns.kinds)
    if len(columns.formats) != n_columns:
        raise argument_error("formats", f"be one for each of {n_columns} roles", len(columns.formats))
    if len(columns.categories) != n_categorical:
        n_given = len(columns.categories)
        raise argument_error("categories", f"have one entry for each of {n_categorical} categorical columns", n_given)


def _check_categories(labels: tuple[Label, ...], kind: str) -> None:
    if kind == "missing":
        if labels:
            raise argument_error("categories", "be empty for a column of kind 'missing'", labels)
        return
    if kind not in LABELS:
        raise argument_error("kinds", f"be one of {listed([*LABELS, 'missing'])} for a categorical column", kind)
    wrong = [label for label in labels if type(label) not in LABELS[kind]]
    if wrong or not labels:
        shown = wrong[0] if wrong else labels
        raise type_error("categories", f"be {KINDS[kind]} for a column of kind {kind!r}", shown)
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        raise argument_error("categories", "be finite", listed(labels))
    if any(not low < high for low, high in pairwise(labels)):  # type: ignore[operator]
        raise argument_error("categories", "ascend, without repetition", listed(labels))


def _side_by_side(columns: list[Any], n_rows: int, dtype: type) -> npt.NDArray[Any]:
    """Return arrays of shape (n, k) as one, also where there are none."""
    return np.concatenate(columns, axis=1) if columns else np.empty((n_rows, 0), dtype=dtype)


def column_label(names: Names, index: int) -> str:
    """Return what a column is called in messages."""
    return f"column {index}" if names is None else f"column {names[index]!r}"


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
    """Return a table that is no frame as an array of two dimensions, each value with its own type."""
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
    table: npt.NDArray[Any] = check_array(X, dtype=None, ensure_all_finite=False)
    return table


def _check_chosen(categorical: Any, names: Names, n_columns: int) -> set[int]:
    """Return the positions of the columns that the user lists."""
    if categorical is None:
        return set()
    known: list[str] | list[int] = list(range(n_columns)) if names is None else list(names)
    what = "names of columns" if names is not None else "positions of columns, which have no names"
    if isinstance(categorical, str) or not isinstance(categorical, Iterable):
        raise type_error("categorical", f"be a list of {what}", categorical)
    given = list(categorical)
    for each in given:
        if isinstance(each, bool | np.bool_) or each not in known:
            raise argument_error("categorical", f"be a list of {what}", each, f"Known are: {listed(known, most=40)}.")
    return {known.index(each) for each in given}


def _order(wanted: tuple[str, ...], given: tuple[str, ...], optional: set[str]) -> list[int | None]:
    """Return where the wanted columns stand among the given ones; any that lacks, or is too many, is an error."""
    place = {name: index for index, name in enumerate(given)}
    lacking = [name for name in wanted if name not in place and name not in optional]
    extra = sorted(set(given) - set(wanted))
    parts = []
    if extra:
        parts.append(f"Feature names unseen at fit time: {listed(extra)}. Drop them, or fit again with them.")
    if lacking:
        parts.append(
            f"Feature names seen at fit time, yet now missing: {listed(lacking)}. "
            "Add them, all missing if they are not known, or fit again without them."
        )
    if parts:
        raise ColumnError(" ".join(["The feature names should match those that were passed during fit.", *parts]))
    return [place.get(name) for name in wanted]
