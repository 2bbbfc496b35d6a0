"""One column of a user's table: what kind of values it holds, the values, and where they stand."""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork.encoders._tables import ADVICE, floats
from knotwork.errors import ColumnTypeError

__all__ = ["KINDS", "Cells", "Label"]

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
    (datetime.date, pd.Period): nw.Date,
    (datetime.time,): nw.Time,
    (datetime.timedelta, np.timedelta64): nw.Duration,
    (list, tuple, set, frozenset): nw.List,
    (np.ndarray,): nw.Array,
    (dict,): nw.Struct,
    (bytes, bytearray): nw.Binary,
}
"""What the types of Python's objects are called in `ADVICE`."""


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
        positions, values = pd.factorize(self.values)
        return values.tolist(), np.append(positions, -1)[self.where].astype(np.int64, copy=False)


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
    native = column.to_native()
    if column.implementation.is_pyarrow() and column.dtype == nw.Categorical:
        native = native.cast(native.type.value_type)  # in pyarrow a category may stand twice, or be missing itself
    where, values = pd.factorize(native if column.implementation.is_pandas() else native.to_pandas())
    is_categorical = column.dtype != nw.String
    other = str if is_categorical else None
    cells = _from_objects(np.array(values.tolist(), dtype=object), label, other)
    return _spread(cells, where.astype(np.int64, copy=False), is_categorical=is_categorical)


def _from_objects(values: npt.NDArray[Any], label: str, other: Callable[[Any], str] | None = None) -> Cells:
    """Read Python's objects; what is neither text nor a number is turned to text by `other`, or refused."""
    try:
        positions, labels = pd.factorize(values)
    except TypeError:  # lists and the like, refused below
        labels = values
    if len(labels) == 0:
        return _nothing(len(values), is_categorical=False)
    if _all(set(map(type, labels)), str):
        return Cells("text", labels, positions.astype(np.int64, copy=False))
    missing = np.asarray(pd.isna(values))
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
    where, distinct = pd.factorize(labels)
    return Cells("number", distinct, where.astype(np.int64, copy=False))


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
    for types, dtype in OBJECTS.items():
        if isinstance(value, types):
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
