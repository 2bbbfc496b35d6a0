"""The columns of a user's table, learned when fitting: which are numbers, which are categories, and their values."""

import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork._tables import (
    ADVICE,
    as_frame,
    factorize,
    floats,
    frame_names,
    missing_mask,
    refuse,
    refuse_empty,
    refuse_sparse,
)
from knotwork.errors import ColumnError, ColumnTypeError

__all__ = ["KINDS", "ROLES", "Cells", "Columns", "Label", "Table"]

Label: TypeAlias = str | int | float | bool
"""A category: text, a number or a truth value."""

IntArray: TypeAlias = npt.NDArray[np.int64]

KINDS = {
    "number": "integers, floats or decimals",
    "boolean": "truth values",
    "text": "text",
    "mixed": "text among numbers or truth values",
    "missing": "nothing: all values are missing",
}
"""What the values of a column are, whatever the type of the column."""

BOOLEANS = (bool, np.bool_)
NUMBERS = (Real, Decimal, np.bool_)
DTYPES = {"M": nw.Datetime, "m": nw.Duration, "S": nw.Binary, "V": nw.Struct}
"""What NumPy's kinds of data are called in `ADVICE`."""
OBJECTS = {
    (datetime.datetime, np.datetime64): nw.Datetime,
    (datetime.date,): nw.Date,
    (datetime.time,): nw.Time,
    (datetime.timedelta, np.timedelta64): nw.Duration,
    (list, tuple, set, frozenset): nw.List,
    (np.ndarray,): nw.Array,
    (dict,): nw.Struct,
    (bytes, bytearray): nw.Binary,
}
"""What the types of Python's objects are called in `ADVICE`."""
PANDAS_OBJECTS = {"Period": nw.Date}
"""The same for types of pandas, by name: pandas need not be installed."""


@dataclass(frozen=True)
class Cells:
    """The values of one column.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    values : ndarray of shape (k,)
        Numbers or truth values; or labels as objects, each of which then stands here once.
    where : ndarray of shape (n,)
        For each row the position of its value in `values`; -1 where it is missing.
    is_categorical : bool
        Whether the type of the column says that its values are categories.
    """

    kind: str
    values: npt.NDArray[Any]
    where: IntArray
    is_categorical: bool = False

    @classmethod
    def from_column(cls, column: Any, label: str) -> "Cells":
        """Read a column of a frame or of an array.

        Dates, times, durations, lists, records, bytes and complex numbers are refused with the name of the column
        and what to do, unless all of them are missing.

        Parameters
        ----------
        column : narwhals.Series or ndarray of shape (n,)
            The column.
        label : str
            What it is called in messages.
        """
        if isinstance(column, np.ndarray):
            return _from_array(column, label)
        if column.null_count() == len(column):
            return _nothing(len(column), is_categorical=False)
        if column.implementation.is_pandas_like() and column.to_native().dtype == object:
            return _from_objects(column.to_numpy(), label)  # the type that narwhals tells is a guess here
        if column.dtype in (nw.String, nw.Categorical, nw.Enum):
            return _from_labels(column, label)
        for dtype, advice in ADVICE.items():
            if column.dtype == dtype:
                raise ColumnTypeError(f"{label} {advice}.")
        column = column.cast(nw.Float64) if column.dtype == nw.Decimal else column
        missing = column.is_null().to_numpy()
        return _spread(_from_array(column.drop_nulls().to_numpy(), label), _positions(missing))

    def numbers(self, label: str) -> npt.NDArray[np.float64]:
        """Return the values as floats of shape (n,), NaN where they are missing; text is parsed.

        Text that is no number raises an error that names the column and the text.
        """
        if self.kind in ("text", "mixed"):
            values = np.array([_parsed(value, label) for value in self.values], dtype=np.float64)
        else:
            with np.errstate(over="ignore"):  # what is too large is infinite, and the caller's to judge
                values = self.values.astype(np.float64)
        return np.append(values, np.nan)[self.where]

    def categories(self) -> tuple[Label, ...]:
        """Return the distinct values in ascending order: text if any of them is text, else numbers or truth values."""
        labels, _ = self._distinct()
        if self.kind in ("text", "mixed"):
            return tuple(sorted({_text(label) for label in labels}))
        return tuple(sorted(labels if self.kind == "boolean" else {_number(label) for label in labels}))

    def codes(self, categories: Iterable[Label], *, as_text: bool) -> IntArray:
        """Return for each row the place of its value in `categories`, from 1; 0 where it is missing or not there.

        Parameters
        ----------
        categories : iterable of Label
            The categories.
        as_text : bool
            Whether the categories are text, so that a number is looked up by its text; otherwise values are compared,
            for which 1, 1.0 and True are the same.
        """
        labels, where = self._distinct()
        place = {category: code for code, category in enumerate(categories, start=1)}
        found = [place.get(_text(label) if as_text else label, 0) for label in labels]
        return np.array([*found, 0], dtype=np.int64)[where]

    def _distinct(self) -> tuple[list[Label], IntArray]:
        """Return the distinct values, and for each row the position of its own, -1 where it is missing."""
        if self.values.dtype == object:
            return self.values.tolist(), self.where
        positions, values = factorize(self.values)
        return values.tolist(), np.append(positions, -1)[self.where]


def _nothing(n_rows: int, *, is_categorical: bool) -> Cells:
    return Cells("missing", np.empty(0), np.full(n_rows, -1, dtype=np.int64), is_categorical)


def _positions(missing: npt.NDArray[np.bool_]) -> IntArray:
    """Return for each row its position among those that are not missing, -1 where it is."""
    return np.where(missing, -1, np.cumsum(~missing) - 1).astype(np.int64, copy=False)


def _spread(cells: Cells, where: IntArray, *, is_categorical: bool = False) -> Cells:
    """Return the column whose row i holds what row ``where[i]`` of `cells` does, or nothing where that is -1."""
    return Cells(cells.kind, cells.values, np.append(cells.where, -1)[where], is_categorical)


def _from_array(values: npt.NDArray[Any], label: str) -> Cells:
    kind = values.dtype.kind
    if kind in "OUT":
        return _from_objects(values.astype(object, copy=False), label)
    if kind == "c":
        raise ColumnTypeError(f"{label} is complex: Complex data not supported. Split it into two columns of numbers.")
    if kind not in "biuf":
        if kind in "mM" and np.isnat(values).all():
            return _nothing(len(values), is_categorical=False)
        raise ColumnTypeError(f"{label} {ADVICE[DTYPES[kind]]}.")
    if kind == "f":
        with np.errstate(over="ignore"):
            values = values.astype(np.float64, copy=False)
        if np.isnan(values).all():
            return _nothing(len(values), is_categorical=False)
    return Cells("boolean" if kind == "b" else "number", values, np.arange(len(values)))


def _from_labels(column: Any, label: str) -> Cells:
    """Read a column of text or categories, by its distinct values."""
    where, values = _factorize_labels(column)
    is_categorical = column.dtype != nw.String
    other = str if is_categorical else None
    return _spread(_from_objects(values, label, other), where, is_categorical=is_categorical)


def _factorize_labels(column: Any) -> tuple[IntArray, npt.NDArray[Any]]:
    """Factorize a column of text or categories by its own library, which is faster than a list of Python objects."""
    native = column.to_native()
    if column.implementation.is_pandas():
        where, values = native.factorize()
        return where.astype(np.int64, copy=False), np.array(values.tolist(), dtype=object)
    if column.implementation.is_pyarrow() and column.dtype == nw.Categorical:
        native = native.cast(native.type.value_type)  # in pyarrow a category may stand twice, or be missing itself
        column = nw.from_native(native, series_only=True)
    elif column.dtype != nw.String:
        column = column.cast(nw.String)
    values = column.drop_nulls().unique().to_list()
    if not values:
        return np.full(len(column), -1, dtype=np.int64), np.empty(0, dtype=object)
    codes = column.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64)
    return codes.fill_null(-1).to_numpy(), np.array(values, dtype=object)


def _from_objects(values: npt.NDArray[Any], label: str, other: Callable[[Any], str] | None = None) -> Cells:
    """Read Python's objects; what is neither text nor a number is turned to text by `other`, or refused."""
    try:
        positions, labels = factorize(values)
    except TypeError:  # lists and the like, refused below
        labels = values
    if len(labels) == 0:
        return _nothing(len(values), is_categorical=False)
    if _all(set(map(type, labels)), str):
        return Cells("text", labels, positions)
    missing = missing_mask(values)
    where = _positions(missing)
    present = values[~missing].tolist()
    types = set(map(type, present))
    if _all(types, BOOLEANS):
        return Cells("boolean", np.array(present, dtype=bool), where)
    if _all(types, NUMBERS) and not any(issubclass(each, BOOLEANS) for each in types):
        return _spread(_from_numbers(present, types, label), where)
    return _spread(_from_mixed(present, label, other), where)


def _from_mixed(values: list[Any], label: str, other: Callable[[Any], str] | None) -> Cells:
    """Read objects of several types, told apart by type and value since True equals 1."""
    places: dict[tuple[type, Label], int] = {}
    where = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        plain = _plain(value, label, other)
        where[row] = places.setdefault((type(plain), plain), len(places))
    labels = np.empty(len(places), dtype=object)
    labels[:] = [plain for _, plain in places]
    types = {type(plain) for plain in labels}
    return Cells("text" if types == {str} else "mixed" if str in types else "number", labels, where)


def _all(types: set[type], kinds: Any) -> bool:
    return all(issubclass(each, kinds) for each in types)


def _from_numbers(values: list[Any], types: set[type], label: str) -> Cells:
    """Read numbers as integers if all are, and fit, else as floats, but for integers that no float is equal to."""
    everywhere = np.arange(len(values))
    if _all(types, Integral):
        try:
            return Cells("number", np.array(values, dtype=np.int64), everywhere)
        except OverflowError:
            pass
    numbers = floats(np.array(values, dtype=object), label)
    exact = [isinstance(value, Integral) and 2**53 < abs(int(value)) < 2**63 for value in values]
    if _all(types, Integral) or not any(exact):
        return Cells("number", numbers, everywhere)
    labels = np.empty(len(values), dtype=object)
    labels[:] = [int(value) if own else float(n) for value, n, own in zip(values, numbers, exact, strict=True)]
    where, distinct = factorize(labels)
    return Cells("number", distinct, where)


def _plain(value: Any, label: str, other: Callable[[Any], str] | None) -> Label:
    """Return an object as a plain value of Python, or refuse it with the name of its column."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, BOOLEANS):
        return bool(value)
    if isinstance(value, NUMBERS):
        number = float(floats(np.array([value], dtype=object), label)[0])
        return int(value) if isinstance(value, Integral) else _number(number)
    if other is not None:
        return other(value)
    if np.iscomplexobj(value):
        raise ColumnTypeError(f"{label} holds {value!r}: Complex data not supported. Split it into two columns.")
    named = PANDAS_OBJECTS.get(type(value).__name__)
    dtype = next((dtype for types, dtype in OBJECTS.items() if isinstance(value, types)), named)
    if dtype is not None:
        raise ColumnTypeError(f"{label} {ADVICE[dtype]}.")
    raise ColumnTypeError(
        f"{label} holds {value!r}, which is neither text nor a number: argument must be a string or a real number. "
        "Convert the column to text or numbers first."
    )


def _number(value: Any) -> int | float:
    """Return a whole number as an int and any other as a float, so that equal numbers are written alike."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= 2**53 else value
    return int(value)


def _text(label: Label) -> str:
    """Return a label as text; whole numbers have no point, for a missing neighbour makes floats of integers."""
    if isinstance(label, float):
        return repr(_number(label))
    return str.__str__(label) if isinstance(label, str) else str(label)  # a str of a class of its own says its value


def _parsed(label: Label, column: str) -> float:
    """Return the number that a text says."""
    try:
        # Only Python itself takes 1_000 for a number.
        return float(label.replace("_", "?") if isinstance(label, str) else label)
    except ValueError:
        raise ColumnTypeError(
            f"{column} held numbers when it was fitted, and now holds the text {label!r}. "
            "Convert the column to numbers, with NaN for what is missing."
        ) from None


Names: TypeAlias = tuple[str, ...] | None

ROLES = {
    "numerical": "numbers and truth values",
    "categorical": "text, categories, and columns that the user lists",
}

LABELS: dict[str, tuple[type, ...]] = {"number": (int, float), "boolean": (bool,), "text": (str,), "mixed": (str,)}
"""The types of the categories, for each kind of column."""

LARGEST = np.finfo(np.float64).max
DATE = re.compile(
    r"(\d{4}[-/.](0?[1-9]|1[0-2])[-/.](0?[1-9]|[12]\d|3[01])|(0?[1-9]|[12]\d|3[01])[-/.](0?[1-9]|[12]\d|3[01])[-/.]\d{4})"
    r"([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?)?"
)


class Table(NamedTuple):
    """A table as it was read.

    Parameters
    ----------
    numbers : ndarray of float64, shape (n, n_numerical)
        The numerical columns; NaN where a value is missing, finite otherwise.
    codes : ndarray of int64, shape (n, n_categorical)
        The categorical columns; 0 where a value is missing or was not seen when fitting, and from 1 the categories
        in ascending order.
    """

    numbers: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]

    @property
    def paper_codes(self) -> npt.NDArray[np.int64]:
        """Codes as in the paper's protocol: categories from 0, and -1 where missing or not seen when fitting."""
        return self.codes - 1


@dataclass(frozen=True)
class Columns:
    """The columns of the table that an estimator was fitted on.

    Numbers, decimals and truth values are numerical, as is a column in which all is missing; text and categories are
    categorical. Objects are judged by what they are; a column that mixes text and numbers is text.

    Parameters
    ----------
    names : tuple of str or None
        Names of the columns; None for arrays, and for frames whose names are not text.
    roles : tuple of str
        For each column one of `ROLES`.
    kinds : tuple of str
        For each column what its values were: ``"number"``, ``"boolean"``, ``"text"``, ``"mixed"`` or ``"missing"``.
    categories : tuple of tuple of str, int, float or bool
        For each categorical column its categories, in ascending order.
    warnings : tuple of str
        What the user should know: columns of text that look like dates or like identifiers, or that mix text and
        numbers.

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

    def __post_init__(self) -> None:
        _check_counts(self)
        categorical = iter(self.categories)
        for index, (role, kind) in enumerate(zip(self.roles, self.kinds, strict=True)):
            check_choice(role, f"roles[{index}]", ROLES)
            check_choice(kind, f"kinds[{index}]", KINDS)
            if role == "categorical":
                _check_categories(next(categorical), kind)
            elif kind in ("text", "mixed"):
                raise argument_error(f"roles[{index}]", f"be 'categorical' for a column of kind {kind!r}", role)

    @classmethod
    def from_table(cls, X: Any, categorical: Iterable[str] | Iterable[int] | None = None) -> "Columns":
        """Learn the columns of a table; parameters as in `learn`."""
        return cls.learn(X, categorical)[0]

    @classmethod
    def learn(cls, X: Any, categorical: Iterable[str] | Iterable[int] | None = None) -> tuple["Columns", Table]:
        """Learn the columns of a table, and read it.

        Infinite numbers, dates, times, durations, lists, records, bytes and complex numbers are refused with the name
        of the column and what to do. X is not changed.

        Parameters
        ----------
        X : table of shape (n, d)
            A pandas, polars or pyarrow frame, a NumPy array, or a list of rows.
        categorical : iterable of str or int, optional
            Columns to take as categories though they are numbers, such as integer codes: by name, or by position
            where the columns have no names.

        Returns
        -------
        columns : Columns
            The columns.
        table : Table
            What `read` returns of the same table.
        """
        names, columns = _open(X)
        chosen = _check_chosen(categorical, names, len(columns))
        roles, kinds, categories, warnings = [], [], [], []
        numbers: list[npt.NDArray[np.float64]] = []
        codes: list[npt.NDArray[np.int64]] = []
        for index, column in enumerate(columns):
            label = _label(names, index)
            cells = Cells.from_column(column, label)
            kinds.append(cells.kind)
            by_type = cells.kind in ("text", "mixed") or (cells.is_categorical and cells.kind != "missing")
            roles.append("categorical" if by_type or index in chosen else "numerical")
            if cells.kind == "number" or roles[-1] == "numerical":
                values = cells.numbers(label)
                refuse(
                    np.isinf(values), label, "contains infinity", "Replace it by NaN or a finite number before fitting."
                )
            if roles[-1] == "numerical":
                numbers.append(values)
            else:
                categories.append(cells.categories())
                codes.append(cells.codes(categories[-1], as_text=cells.kind in ("text", "mixed")))
                warnings.extend(_warnings(cells, categories[-1], label))
        learned = cls(names, tuple(roles), tuple(kinds), tuple(categories), tuple(warnings))
        n_rows = len(columns[0])
        return learned, Table(_side_by_side(numbers, n_rows, np.float64), _side_by_side(codes, n_rows, np.int64))

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """For each categorical column how many codes there are: its categories, and 0."""
        return tuple(len(labels) + 1 for labels in self.categories)

    @property
    def numerical_names(self) -> list[Any]:
        """Names of the numerical columns, or their places in a table without names."""
        places = [place for place, role in enumerate(self.roles) if role == "numerical"]
        return [place if self.names is None else self.names[place] for place in places]

    def read(self, X: Any) -> Table:
        """Read a table that has these columns.

        The columns of a frame are found by their names, in whatever order; those of a table without names, by their
        order. A row is read alike whatever the other rows are. Infinite numbers become the largest finite ones. In
        numerical columns text is parsed; in a column in which all was missing when fitting it stays missing. Categories
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
        names, columns = _open(X)
        if self.names is not None and names is not None:
            order: Sequence[int] = _order(self.names, names)
        else:
            order = range(len(columns))
            if len(columns) != len(self.roles):
                raise ColumnError(
                    f"X has {len(columns)} features, but Columns is expecting {len(self.roles)} features as input. "
                    "Pass the columns of the fit, in their order."
                )
        numbers = np.empty((len(columns[0]), self.roles.count("numerical")))
        codes = np.empty((len(columns[0]), len(self.categories)), dtype=np.int64)
        n_read = dict.fromkeys(ROLES, 0)
        for source, role, kind in zip(order, self.roles, self.kinds, strict=True):
            label = _label(names, source)
            cells, index = Cells.from_column(columns[source], label), n_read[role]
            if role == "numerical" and kind == "missing" and cells.kind in ("text", "mixed"):
                numbers[:, index] = np.nan
            elif role == "numerical":
                numbers[:, index] = np.clip(cells.numbers(label), -LARGEST, LARGEST)
            else:
                codes[:, index] = cells.codes(self.categories[index], as_text=kind in ("text", "mixed"))
            n_read[role] += 1
        return Table(numbers, codes)

    def to_json(self) -> dict[str, Any]:
        """Return the columns as what ``json.dumps`` takes; `from_json` gives them back with their types."""
        return {
            "names": None if self.names is None else list(self.names),
            "roles": list(self.roles),
            "kinds": list(self.kinds),
            "categories": [list(labels) for labels in self.categories],
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Columns":
        """Return the columns that `to_json` wrote; unknown or missing entries and wrong types are refused."""
        known = [field.name for field in fields(cls)]
        if not isinstance(content, dict):
            raise type_error("content", "be a dict as Columns.to_json returns it", content)
        if set(content) != set(known):
            raise argument_error("content", f"have the entries {listed(known)}", listed(content))
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
        )


def _check_counts(columns: Columns) -> None:
    n_columns, n_categorical = len(columns.roles), columns.roles.count("categorical")
    for name, things in (("names", columns.names), ("warnings", columns.warnings)):
        if things is not None and not all(isinstance(each, str) for each in things):
            raise type_error(name, "be text", things)
    if columns.names is not None and not len(set(columns.names)) == len(columns.names) == n_columns:
        raise argument_error("names", f"be {n_columns} distinct names, one for each role", columns.names)
    if len(columns.kinds) != n_columns or not n_columns:
        raise argument_error("kinds", f"be one for each of {n_columns} roles, of which one is needed", columns.kinds)
    if len(columns.categories) != n_categorical:
        n_given = len(columns.categories)
        raise argument_error("categories", f"have one entry for each of {n_categorical} categorical columns", n_given)


def _check_categories(labels: tuple[Label, ...], kind: str) -> None:
    if kind == "missing":
        if labels:
            raise argument_error("categories", "be empty for a column of kind 'missing'", labels)
        return
    wrong = [label for label in labels if type(label) not in LABELS[kind]]
    if wrong or not labels:
        shown = wrong[0] if wrong else labels
        raise type_error("categories", f"be {KINDS[kind]} for a column of kind {kind!r}", shown)
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        raise argument_error("categories", "be finite", listed(labels))
    if any(not low < high for low, high in pairwise(labels)):  # type: ignore[operator]
        raise argument_error("categories", "ascend, without repetition", listed(labels))


def _side_by_side(columns: list[Any], n_rows: int, dtype: type) -> npt.NDArray[Any]:
    """Return columns as one array, also where there are none."""
    return np.stack(columns, axis=1) if columns else np.empty((n_rows, 0), dtype=dtype)


def _label(names: Names, index: int) -> str:
    """Return what a column is called in messages."""
    return f"column {index}" if names is None else f"column {names[index]!r}"


def _open(X: Any) -> tuple[Names, list[Any]]:
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


def _order(wanted: tuple[str, ...], given: tuple[str, ...]) -> list[int]:
    """Return where the wanted columns stand among the given ones; any that lacks, or is too many, is an error."""
    place = {name: index for index, name in enumerate(given)}
    lacking = [name for name in wanted if name not in place]
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
    return [place[name] for name in wanted]


def _warnings(cells: Cells, categories: tuple[Label, ...], label: str) -> list[str]:
    """Return what the user should know of a categorical column."""
    if cells.kind not in ("text", "mixed"):
        return []
    warnings = []
    if cells.kind == "mixed":
        warnings.append(f"{label} mixes text with numbers or truth values: all are taken by their text.")
    sample = categories[:: max(len(categories) // 1000, 1)]
    n_dates = sum(DATE.fullmatch(str(each)) is not None for each in sample)
    if len(categories) > 20 and n_dates >= 0.95 * len(sample):
        warnings.append(
            f"{label} is text that looks like dates, such as {categories[0]!r}, and is taken as categories. "
            "Convert it to a number, for example days since a fixed day."
        )
    n_rows = len(cells.where)
    if n_rows > 100 and len(categories) > 0.5 * n_rows:
        warnings.append(
            f"{label} looks like an identifier: it is text with {len(categories)} distinct values in {n_rows} rows. "
            "Leave it out if it is one."
        )
    return warnings
