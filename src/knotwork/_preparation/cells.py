"""The values of one column of a user's table, of any library and type."""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from numbers import Integral, Real
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from knotwork._checks import shown
from knotwork._tables import ADVICE, factorize, floats, missing_mask, refuse_type
from knotwork.errors import ColumnTypeError

Label: TypeAlias = str | int | float | bool
"""A category: text, a number or a truth value."""

IntArray: TypeAlias = npt.NDArray[np.int64]

VALUE_KINDS = {
    "number": "integers, floats or decimals",
    "boolean": "booleans",
    "text": "text",
    "mixed": "text among numbers or booleans",
    "date": "dates, with or without a time of day",
    "time": "times of day",
    "duration": "durations",
    "missing": "nothing: all values are missing",
}
"""Kinds of values, which need not be those of the type of the column."""

BOOLEAN_TYPES = (bool, np.bool_)
NUMBER_TYPES = (Real, Decimal, np.bool_)
MOMENTS: dict[str, tuple[Any, str, Any]] = {
    "date": ((datetime.date, np.datetime64), "datetime64[us]", nw.Date),
    "time": (datetime.time, "timedelta64[us]", nw.Time),
    "duration": ((datetime.timedelta, np.timedelta64), "timedelta64[us]", nw.Duration),
}
"""For each kind of dates and times, the types of Python's objects, the type they are kept in, and that of `ADVICE`."""
PERIOD = "Period"
"""The name of a type of pandas, which may not be installed."""
UTC = "UTC"

REFUSED_DTYPES = {"S": nw.Binary, "V": nw.Struct}
"""The types of `ADVICE` for NumPy's kinds of data."""
REFUSED_OBJECTS = {
    (list, tuple, set, frozenset): nw.List,
    (np.ndarray,): nw.Array,
    (dict,): nw.Struct,
    (bytes, bytearray): nw.Binary,
}
"""The types of `ADVICE` for Python's objects."""


@dataclass(frozen=True)
class Cells:
    """The values of one column.

    Parameters
    ----------
    kind : str
        One of `VALUE_KINDS`.
    values : ndarray of shape (k,)
        Numbers or booleans; or distinct labels as objects; or dates as datetime64, in the local time of `zone`; or
        times of day and durations as timedelta64, in microseconds.
    where : ndarray of shape (n,)
        For each row the position of its value in `values`; -1 where it is missing.
    is_categorical : bool
        Whether the column has a categorical type.
    zone : str, optional
        The time zone of dates that have one.
    """

    kind: str
    values: npt.NDArray[Any]
    where: IntArray
    is_categorical: bool = False
    zone: str | None = None

    @classmethod
    def from_column(cls, column: Any, label: str, zone: str | None = None) -> "Cells":
        """Read a column of a frame or of an array.

        Lists, records, bytes and complex numbers are refused with the `label` of the column and what to do, unless all
        of them are missing. Dates with a time zone are read in `zone`, by default the one of the column, or UTC for
        Python's objects; dates without a time zone are not changed.
        """
        if isinstance(column, np.ndarray):
            return _from_array(column, label, zone)
        is_guess = column.implementation.is_pandas_like() and column.to_native().dtype == object
        if is_guess or column.dtype in (nw.Time, nw.Int128, nw.UInt128):  # which NumPy does not have
            values = np.fromiter(column.to_list(), dtype=object, count=len(column))
            return _from_objects(values, label, zone=zone)
        if column.null_count() == len(column):
            return _nothing(len(column))
        if column.dtype in (nw.Datetime, nw.Date, nw.Duration) or _zone_of(column) is not None:
            return _from_moments(column, zone)
        if column.dtype in (nw.String, nw.Categorical, nw.Enum):
            return _from_labels(column, label)
        refuse_type(column.dtype, label)
        return _from_number_column(column.cast(nw.Float64) if column.dtype == nw.Decimal else column, label)

    def numbers(self, label: str) -> npt.NDArray[np.float64]:
        """Return the values as floats of shape (n,), NaN where they are missing; durations are seconds, text is parsed.

        Dates, and text that is no number, raise an error that names the column.
        """
        if self.kind in ("date", "time"):
            raise ColumnTypeError(f"{label} held numbers when it was fitted, and now {ADVICE[MOMENTS[self.kind][2]]}.")
        if self.kind == "duration":
            values = self.values / np.timedelta64(1, "s")
        elif self.kind in ("text", "mixed"):
            values = np.array([_parsed(value, label) for value in self.values], dtype=np.float64)
        else:
            with np.errstate(over="ignore"):  # too large numbers become infinite; the caller decides
                values = self.values.astype(np.float64)
            if len(values) == len(self.where) and np.array_equal(self.where, np.arange(len(values))):
                return values  # one for each row, so that none is missing; categories may have another order
        return np.append(values, np.nan)[self.where]

    def categories(self) -> tuple[Label, ...]:
        """Return the distinct values in ascending order: text if any of them is text, else numbers or booleans."""
        labels, _ = self._distinct()
        if self.kind in ("text", "mixed"):
            return tuple(sorted({_text(label) for label in labels}))
        return tuple(sorted(labels if self.kind == "boolean" else {_rounded(label) for label in labels}))

    def refuse_moments(self, label: str) -> None:
        """Raise an error that names the column if it holds dates, times or durations."""
        if self.kind in MOMENTS:
            raise ColumnTypeError(f"{label} {ADVICE[MOMENTS[self.kind][2]]}.")

    def codes(self, categories: Iterable[Label], *, as_text: bool) -> IntArray:
        """Return for each row the place of its value in `categories`, from 1; 0 where it is missing or unseen.

        A number is looked up by its text if the categories are text (`as_text`); otherwise values are compared, for
        which 1, 1.0 and True are the same.
        """
        labels, where = self._distinct()
        place = {category: code for code, category in enumerate(categories, start=1)}
        category_of = _text if as_text else lambda label: _rounded(label) if isinstance(label, float) else label
        codes = [place.get(category_of(label), 0) for label in labels]
        return np.array([*codes, 0], dtype=np.int64)[where]

    def _distinct(self) -> tuple[list[Label], IntArray]:
        """Return the distinct values, and for each row the position of its value, -1 where it is missing."""
        if self.values.dtype == object:
            return self.values.tolist(), self.where
        positions, values = factorize(self.values)
        return values.tolist(), np.append(positions, -1)[self.where]


def _nothing(n_rows: int) -> Cells:
    return Cells("missing", np.empty(0), np.full(n_rows, -1, dtype=np.int64))


def _positions(missing: npt.NDArray[np.bool_]) -> IntArray:
    """Return for each row its position among the rows with a value, -1 where the value is missing."""
    return np.where(missing, -1, np.cumsum(~missing) - 1).astype(np.int64, copy=False)


def _spread(cells: Cells, where: IntArray, *, is_categorical: bool = False) -> Cells:
    """Return the column whose row i holds what row ``where[i]`` of `cells` does, or nothing where that is -1."""
    return Cells(cells.kind, cells.values, np.append(cells.where, -1)[where], is_categorical, cells.zone)


def _from_array(values: npt.NDArray[Any], label: str, zone: str | None = None) -> Cells:
    kind = values.dtype.kind
    if kind in "OUT":
        return _from_objects(values.astype(object, copy=False), label, zone=zone)
    if kind in "mM":
        return _from_numpy_moments(values, "date" if kind == "M" else "duration", None)
    if kind == "c":
        raise ColumnTypeError(f"{label} is complex: Complex data not supported. Split it into two columns of numbers.")
    if kind not in "biuf":
        raise ColumnTypeError(f"{label} {ADVICE[REFUSED_DTYPES[kind]]}.")
    if kind == "f":
        with np.errstate(over="ignore"):
            values = values.astype(np.float64, copy=False)
        if np.isnan(values).all():
            return _nothing(len(values))
    return Cells("boolean" if kind == "b" else "number", values, np.arange(len(values)))


def is_zone(zone: Any) -> bool:
    """Return whether a value names a time zone that is known on this machine."""
    try:
        return isinstance(zone, str) and ZoneInfo(zone) is not None
    except (ValueError, OSError, KeyError):
        return False


def _zone_of(column: Any) -> str | None:
    """Return the time zone of a column; narwhals does not know those of pandas whose names have an underscore."""
    if column.dtype == nw.Unknown and column.implementation.is_pandas_like():
        dtype = column.to_native().dtype
        return str(dtype.tz) if hasattr(dtype, "tz") else None
    return column.dtype.time_zone if column.dtype == nw.Datetime else None


def _from_moments(column: Any, zone: str | None) -> Cells:
    """Read a column of dates or durations; dates with a time zone become the local time of `zone`."""
    if column.dtype == nw.Duration:
        return _from_numpy_moments(column.to_numpy(), "duration", None)
    column_zone = _zone_of(column)
    zone = None if column_zone is None else zone or (column_zone if is_zone(column_zone) else UTC)
    if zone is not None and column.implementation.is_pandas_like():
        column = nw.from_native(column.to_native().dt.tz_convert(zone).dt.tz_localize(None), series_only=True)
    elif zone is not None:
        column = column.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    if not column.implementation.is_pyarrow():  # which refuses to lose nanoseconds
        column = column.cast(nw.Datetime("us"))
    return _from_numpy_moments(column.to_numpy(), "date", zone)


def _from_numpy_moments(values: npt.NDArray[Any], kind: str, zone: str | None) -> Cells:
    values = values.astype(MOMENTS[kind][1], copy=False)
    missing = np.isnat(values)
    if missing.all():
        return _nothing(len(values))
    return Cells(kind, values[~missing], _positions(missing), zone=zone)


def _from_number_column(column: Any, label: str) -> Cells:
    if not column.null_count():
        return _from_array(column.to_numpy(), label)
    missing = column.is_null().to_numpy()
    return _spread(_from_array(column.drop_nulls().to_numpy(), label), _positions(missing))


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
        labels = values.tolist()  # tuples, for which an array would have two dimensions, may be among them
        return where.astype(np.int64, copy=False), np.fromiter(labels, dtype=object, count=len(labels))
    if column.implementation.is_pyarrow() and column.dtype == nw.Categorical:
        native = native.cast(native.type.value_type)  # in pyarrow a category may occur twice, or be missing itself
        column = nw.from_native(native, series_only=True)
    elif column.dtype != nw.String:
        column = column.cast(nw.String)
    values = column.drop_nulls().unique().to_list()
    if not values:
        return np.full(len(column), -1, dtype=np.int64), np.empty(0, dtype=object)
    codes = column.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64)
    return codes.fill_null(-1).to_numpy(), np.array(values, dtype=object)


def _from_objects(
    values: npt.NDArray[Any], label: str, other: Callable[[Any], str] | None = None, *, zone: str | None = None
) -> Cells:
    """Read Python's objects; what is neither text nor a number nor a date is turned to text by `other`, or refused."""
    try:
        positions, labels = factorize(values)
    except TypeError:  # lists and the like, refused below
        labels = values
    if len(labels) == 0:
        return _nothing(len(values))
    if _all(set(map(type, labels)), str):
        return Cells("text", labels, positions)
    missing = missing_mask(values)
    where = _positions(missing)
    present = values[~missing].tolist()
    types = set(map(type, present))
    if _all(types, BOOLEAN_TYPES):
        return Cells("boolean", np.array(present, dtype=bool), where)
    if _all(types, NUMBER_TYPES) and not any(issubclass(each, BOOLEAN_TYPES) for each in types):
        return _spread(_from_numbers(present, types, label), where)
    for kind, (kinds, dtype, _) in MOMENTS.items() if other is None else ():
        if all(issubclass(each, kinds) or (kind == "date" and each.__name__ == PERIOD) for each in types):
            zones = [each for each in present if isinstance(each, datetime.datetime) and each.tzinfo is not None]
            zone = (zone or UTC) if zones else None
            moments = np.array([_moment(each, zone) for each in present], dtype=dtype)
            return _spread(_from_numpy_moments(moments, kind, zone), where)
    return _spread(_from_mixed(present, label, other), where)


def _moment(value: Any, zone: str | None) -> Any:
    """Return a date, a time or a duration of Python or pandas as what NumPy reads; dates in local time of `zone`."""
    if type(value).__name__ == PERIOD:
        return np.datetime64(value.start_time.to_pydatetime(), "us")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        assert zone is not None
        return np.datetime64(value.astimezone(ZoneInfo(zone)).replace(tzinfo=None), "us")
    if isinstance(value, datetime.time):
        seconds = datetime.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        return np.timedelta64(seconds + datetime.timedelta(microseconds=value.microsecond), "us")
    return value


def _from_mixed(values: list[Any], label: str, other: Callable[[Any], str] | None) -> Cells:
    """Read objects of several types, distinguished by type and value because True equals 1."""
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
    """Read numbers as integers if all are and fit; else as floats, except for integers that no float equals."""
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
    labels[:] = [int(value) if keep else float(n) for value, n, keep in zip(values, numbers, exact, strict=True)]
    where, distinct = factorize(labels)
    return Cells("number", distinct, where)


def _plain(value: Any, label: str, other: Callable[[Any], str] | None) -> Label:
    """Return an object as a plain value of Python, or refuse it with the name of its column."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, BOOLEAN_TYPES):
        return bool(value)
    if isinstance(value, NUMBER_TYPES):
        number = float(floats(np.array([value], dtype=object), label)[0])
        return int(value) if isinstance(value, Integral) else _number(number)
    if other is not None:
        return other(value)
    if np.iscomplexobj(value):
        raise ColumnTypeError(f"{label} holds {value!r}: Complex data not supported. Split it into two columns.")
    if any(isinstance(value, types) for types, *_ in MOMENTS.values()):
        raise ColumnTypeError(
            f"{label} mixes dates, times or durations, such as {value!s}, with other values. "
            "Convert all of them to dates, or all to text."
        )
    dtype = next((dtype for types, dtype in REFUSED_OBJECTS.items() if isinstance(value, types)), None)
    if dtype is not None:
        raise ColumnTypeError(f"{label} {ADVICE[dtype]}.")
    raise ColumnTypeError(
        f"{label} holds {shown(value)}, which is neither text nor a number: argument must be a string or a real "
        "number. Convert the column to text or numbers first."
    )


DIGITS = 14
"""Digits of a category that is no whole number: 0.1 + 0.2 and 0.3 are one category."""


def _number(value: Any) -> int | float:
    """Return a whole number as an int and any other as a float, so that equal numbers have one form."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= 2**53 else value
    return int(value)


def _rounded(value: Any) -> int | float:
    """Return a number as a category: numbers that differ by rounding are one category."""
    if isinstance(value, float) and isfinite(value) and not value.is_integer():
        return _number(float(f"{value:.{DIGITS}g}"))
    return _number(value)


def same_kind(labels: Iterable[Label], kind: str) -> set[Label]:
    """Return those labels that a categorical column of a kind may have, as `Cells.categories` gives them."""
    if kind in ("text", "mixed"):
        return {_text(label) for label in labels}
    if kind == "boolean":
        return {label for label in labels if isinstance(label, bool)}
    return {label for label in labels if isinstance(label, int | float) and not isinstance(label, bool)}


def _text(label: Label) -> str:
    """Return a label as text; whole numbers have no decimal point, because missing values turn integers into floats."""
    if isinstance(label, float):
        return repr(_rounded(label))
    return str.__str__(label) if isinstance(label, str) else str(label)  # a subclass of str may print differently


def _parsed(label: Label, column: str) -> float:
    """Return the number that a text stands for."""
    try:
        # Only Python itself takes 1_000 for a number.
        return float(label.replace("_", "?") if isinstance(label, str) else label)
    except ValueError:
        raise ColumnTypeError(
            f"{column} held numbers when it was fitted, and now holds the text {label!r}. "
            "Convert the column to numbers, with NaN for missing values."
        ) from None
