"""Reading users' tables: numbers, column names and row weights from frames, arrays and Python objects."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, listed, shown, type_error
from knotwork.errors import ColumnError, ColumnTypeError

IntArray: TypeAlias = npt.NDArray[np.int64]
NumberArray: TypeAlias = npt.NDArray[Any]
"""Numbers of any type."""

NEVER_MISSING = (str, bool, int, np.bool_, bytes)
"""Types without a missing value. NumPy's integers are not listed, because timedelta64, which has NaT, is a subclass."""


def is_missing(value: object) -> bool:
    """Return whether an object is a missing value: None, NaN, or NA or NaT of any library.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), Decimal("NaN"), np.datetime64("NaT"), 0.0, "")]
    [True, True, True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas need not be installed
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # comparing a signalling NaN raises an error
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | complex | np.inexact) and bool(value != value)  # noqa: PLR0124 - only NaN differs


def missing_mask(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the missing values of an array of shape (n,)."""
    if values.dtype.kind == "O":
        objects = values.tolist()
        if all(issubclass(each, NEVER_MISSING) for each in set(map(type, objects))):  # fast path for the usual case
            return np.zeros(len(values), dtype=bool)
        return np.fromiter(map(is_missing, objects), dtype=bool, count=len(objects))
    if values.dtype.kind not in "fcmM":
        return np.zeros(len(values), dtype=bool)
    mask: npt.NDArray[np.bool_] = values != values  # noqa: PLR0124 - only NaN and NaT differ from themselves
    return mask


def mixed_bits(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the finalizer of SplitMix64 of each word, a bijection whose values look random; products wrap around."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def factorize(values: npt.NDArray[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
    """Return the position of each value among the distinct ones, -1 if it is missing, and the distinct values.

    Distinct numbers are in ascending order, distinct objects in the order of their first appearance. Objects that are
    equal in Python, such as 1, 1.0 and True, are one value. Objects without a hash, such as lists, raise a TypeError.

    Examples
    --------
    >>> factorize(np.array(["b", None, "a", "b"], dtype=object))
    (array([ 0, -1,  1,  0]), array(['b', 'a'], dtype=object))
    """
    if values.dtype.kind == "O":
        return _factorize_objects(values.tolist())
    if values.dtype.kind in "bi" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < max(len(values), 2**16):
            return _factorize_dense(values.astype(np.int64) - low, low, values.dtype)
    distinct, positions = np.unique(values, return_inverse=True)
    n_present = len(distinct) - int(missing_mask(distinct).sum())  # NaN is one value, the last
    return np.where(positions < n_present, positions, -1), distinct[:n_present]


def _factorize_dense(offsets: IntArray, low: int, dtype: np.dtype[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
    """Factorize integers from a narrow range, such as classes, by counting: ten times faster than sorting."""
    occurs = np.bincount(offsets) > 0
    return (np.cumsum(occurs) - 1)[offsets], (np.flatnonzero(occurs) + low).astype(dtype)


def _factorize_objects(objects: list[Any]) -> tuple[IntArray, npt.NDArray[Any]]:
    """Factorize by a dict, in passes that run in C; `setdefault` would run Python code for each value."""
    seen: dict[Any, int] = dict.fromkeys(objects, -1)
    distinct = np.fromiter(seen, dtype=object, count=len(seen))
    present = distinct[~missing_mask(distinct)]
    seen.update(zip(present.tolist(), range(len(present)), strict=True))
    return np.fromiter(map(seen.__getitem__, objects), dtype=np.int64, count=len(objects)), present


ADVICE = {
    nw.String: "is text. Encode it as categories, or convert it to numbers",
    nw.Categorical: "is categorical. Encode it, for example with OrdinalEncoder or OneHotEncoder",
    nw.Enum: "is categorical. Encode it, for example with OrdinalEncoder or OneHotEncoder",
    nw.Datetime: "is a date. Convert it to a number, for example days since a fixed day",
    nw.Date: "is a date. Convert it to a number, for example days since a fixed day",
    nw.Time: "is a time of day. Convert it to a number, for example seconds since midnight",
    nw.Duration: "is a duration. Convert it to a number, for example seconds",
    nw.List: "holds lists. Expand it into columns of numbers",
    nw.Array: "holds arrays. Expand it into columns of numbers",
    nw.Struct: "holds records. Expand it into columns of numbers",
    nw.Binary: "holds bytes. Convert it to numbers",
}
"""Reason why a column of this type is not accepted, and the next step."""

BATCH_ROWS = 1 << 17
"""Maximum number of rows of a batch that is read from a file; larger batches from users are divided."""


def is_batches(X: Any) -> bool:
    """Return whether X is a stream of batches: an iterator, or a pyarrow reader of record batches."""
    return isinstance(X, Iterator) or hasattr(X, "read_next_batch")


def is_stream(X: Any) -> bool:
    """Return whether X is a table that is read in batches: a pyarrow file or data set, or an iterable of tables.

    Examples
    --------
    >>> is_stream(iter([np.ones((2, 3))])), is_stream([[1.0, 2.0]]), is_stream(np.ones((2, 3)))
    (True, False, False)
    """
    if is_batches(X) or is_file(X):
        return True
    if isinstance(X, list | tuple):
        if not len(X) or isinstance(X[0], list | tuple):
            return False
        if isinstance(X[0], np.ndarray):
            return X[0].ndim == 2
        return is_file(X[0]) or isinstance(X[0], Mapping) or as_frame(X[0]) is not None
    is_one_table = isinstance(X, str | bytes | Mapping | np.ndarray) or hasattr(X, "__array__") or hasattr(X, "shape")
    return isinstance(X, Iterable) and not is_one_table and as_frame(X) is None


def is_file(X: Any) -> bool:
    """Return whether X is a Parquet file or data set of pyarrow, or a data set of Ray."""
    return hasattr(X, "iter_batches") or all(hasattr(X, name) for name in ("to_batches", "scanner", "schema"))


def source_names(source: Any) -> list[Any] | None:
    """Return the column names of a file or data set of pyarrow; None for other sources."""
    schema = getattr(source, "schema_arrow", None) or getattr(source, "schema", None)
    return list(schema.names) if schema is not None and hasattr(schema, "names") else None


def file_batches(source: Any, columns: Sequence[str] | None = None, *, n_rows: int = BATCH_ROWS) -> Iterator[Any]:
    """Yield some columns of a Parquet file or data set of pyarrow, at most `n_rows` rows at a time in memory."""
    if source_names(source) is None:  # a Ray data set, whose row order changes between passes
        hint = "Write it to files by write_parquet(folder), and pass pyarrow.dataset.dataset(folder)."
        raise type_error("X", "be a file, a data set of pyarrow, or tables", type(source).__name__, hint)
    from pyarrow import ArrowInvalid, ArrowNotImplementedError, ArrowTypeError  # noqa: PLC0415 - the source is an object of pyarrow

    columns = None if columns is None else list(columns)
    if hasattr(source, "iter_batches"):
        batches = source.iter_batches(batch_size=n_rows, columns=columns)
    else:
        # With threads, pyarrow reads gigabytes ahead despite these limits; without threads, it reads few batches ahead.
        limits = {"use_threads": False, "batch_readahead": 4, "fragment_readahead": 1, **_scan_options(source)}
        batches = source.to_batches(columns=columns, batch_size=n_rows, **limits)
    try:
        yield from batches
    except (ArrowInvalid, ArrowNotImplementedError, ArrowTypeError) as error:
        hint = "Check the files: each column must have the same type in all of them."
        raise ColumnTypeError(f"X could not be read: {str(error).rstrip('.')}. {hint}") from error


def _scan_options(source: Any) -> dict[str, Any]:
    """Return options to read local Parquet files column by column; without them a whole file is in memory.

    Remote files are faster to read as a whole, and options that the user has set for the data set are kept.
    """
    from pyarrow.dataset import ParquetFileFormat, ParquetFragmentScanOptions  # noqa: PLC0415 - the source is an object of pyarrow

    form = getattr(source, "format", None)
    if not isinstance(form, ParquetFileFormat) or form.default_fragment_scan_options != ParquetFragmentScanOptions():
        return {}
    fragment = next(iter(source.get_fragments()), None)  # `source.filesystem` crashes the process for buffers
    is_local = getattr(getattr(fragment, "filesystem", None), "type_name", None) == "local"
    return {"fragment_scan_options": ParquetFragmentScanOptions(pre_buffer=False)} if is_local else {}


def is_empty(X: Any) -> bool:
    """Return whether a frame, an array or a list of rows has no rows."""
    frame = as_frame(X)
    if frame is not None:
        return len(frame) == 0
    return isinstance(X, np.ndarray | list | tuple) and np.ndim(X) > 0 and len(X) == 0


def header(X: Any) -> Any:
    """Return the frame without its rows, from which scikit-learn reads the column names; or X if it is no frame."""
    frame = as_frame(X)
    return X if frame is None else frame.head(0).to_native()


def column_labels(estimator: Any) -> list[str]:
    """Return the columns of a fitted estimator for messages, by their names or else by their positions."""
    if hasattr(estimator, "feature_names_in_"):
        return [f"column {name!r}" for name in estimator.feature_names_in_]
    return [f"column {index}" for index in range(estimator.n_features_in_)]


def read_numbers(X: Any) -> NumberArray:
    """Return the numbers of a table as a two-dimensional array; missing values are NaN.

    An array of numbers is returned unchanged, without a copy, in any type and memory order. A frame is read column by
    column: integers, floats, booleans and decimals are accepted, nullable or not. Other types raise an error that names
    the column and the next step.
    """
    frame = as_frame(X)
    if frame is not None:
        return _read_frame(frame)
    if is_batches(X) or is_file(X):
        hint = "Pass batches one by one, such as those of pyarrow.parquet.ParquetFile(path).iter_batches()."
        raise type_error("X", "be one table", type(X).__name__, hint)
    refuse_sparse(X)
    X = np.asarray(X) if isinstance(X, list | tuple) else X
    if isinstance(X, np.ndarray) and X.ndim == 2:
        if X.dtype.kind in "USmM":
            advice = "holds dates or durations" if X.dtype.kind in "mM" else "holds text"
            raise ColumnTypeError(f"column 0 {advice}: dtype='numeric' is needed. Convert X to numbers first.")
        if X.dtype.kind == "O":
            X = np.stack([floats(x, f"column {index}") for index, x in enumerate(X.T)], axis=1) if X.size else X
    from sklearn.utils import check_array  # noqa: PLC0415 - it takes a second to load

    return np.asarray(check_array(X, dtype="numeric", ensure_all_finite=False))


def refuse(mask: npt.NDArray[np.bool_], label: str, what: str, advice: str) -> None:
    """Raise an error that names a column if any entry of `mask`, of shape (n,), is True."""
    if mask.any():
        count = int(mask.sum())
        raise ColumnError(f"Input X: {label} {what} in {count} row{'s' if count > 1 else ''}. {advice}")


def refuse_type(dtype: Any, label: str) -> None:
    """Raise an error that names a column if its type, one of narwhals, is in `ADVICE`."""
    for refused, advice in ADVICE.items():
        if dtype == refused:
            raise ColumnTypeError(f"{label} {advice}.")


def refuse_sparse(X: Any) -> None:
    """Raise an error if X is a sparse matrix or array."""
    if "scipy.sparse" not in sys.modules:  # it takes a while to load, and a sparse table has done so
        return
    from scipy import sparse  # noqa: PLC0415

    if sparse.issparse(X):
        raise type_error(
            "X", "be a dense table", type(X).__name__, "Sparse input is not supported: call X.toarray() first."
        )


def refuse_empty(shape: tuple[int, ...]) -> None:
    """Raise an error if a table of this shape has no rows or no columns."""
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ColumnError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a frame of any library as a narwhals frame, without a copy; None if X is not a frame."""
    if type(X).__module__.startswith("pyarrow") and type(X).__name__ in ("RecordBatch", "Table"):
        X = _plain_arrow(X)
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ColumnError(
            f"X must have distinct column names, but these occur more than once: {listed(repeated)}. Rename them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        call = "compute" if frame.implementation.is_dask() else "collect"
        name = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
        raise type_error("X", "be a table that is in memory", name, f"Call .{call}() on it first.")
    return frame if isinstance(frame, nw.DataFrame) else None


def _plain_arrow(X: Any) -> Any:
    """Convert a record batch to a table, and string views to strings, because pyarrow cannot select rows of views."""
    import pyarrow as pa  # noqa: PLC0415 - only needed if the user has one

    X = pa.Table.from_batches([X]) if isinstance(X, pa.RecordBatch) else X
    if pa.string_view() not in X.schema.types:
        return X
    plain = [each.with_type(pa.large_string()) if each.type == pa.string_view() else each for each in X.schema]
    return X.cast(pa.schema(plain))


def frame_names(frame: nw.DataFrame[Any]) -> list[Any]:
    """Return the column names of a frame, which may be other objects than text in pandas."""
    native = nw.to_native(frame)
    return list(native.column_names) if hasattr(native, "column_names") else list(native.columns)


def _read_frame(frame: nw.DataFrame[Any]) -> NumberArray:
    names = frame_names(frame)
    refuse_empty(frame.shape)
    columns = [_read_series(series, name) for series, name in zip(frame.iter_columns(), names, strict=True)]
    types = {column.dtype for column in columns}
    table = np.empty((len(frame), len(columns)), dtype=np.result_type(np.float32, *types), order="F")
    for index, column in enumerate(columns):
        table[:, index] = column
    return table


def _read_series(series: Any, name: object) -> NumberArray:
    dtype = series.dtype
    if dtype in (nw.Object, nw.Unknown, nw.Int128, nw.UInt128):  # types that NumPy does not have
        return floats(np.fromiter(series.to_list(), dtype=object, count=len(series)), f"column {name!r}")
    if series.null_count() == len(series):
        return np.full(len(series), np.nan)
    refuse_type(dtype, f"column {name!r}")
    if dtype in (nw.Boolean, nw.Decimal) or series.null_count():
        series = series.cast(nw.Float64)
    values: NumberArray = series.to_numpy()
    return floats(values, f"column {name!r}") if values.dtype.kind == "O" else values


def floats(values: NumberArray, label: str) -> npt.NDArray[np.float64]:
    """Convert Python objects, of shape (n,), to floats; the error for an object that is not a number names `label`."""
    out = np.empty(len(values))
    for index, value in enumerate(values):
        try:
            out[index] = _float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ColumnTypeError(
                f"{label} holds {shown(value)}, which is not a number: argument must be a string or a real number. "
                "Convert the column to numbers first."
            ) from error
    return out


def _float(value: Any) -> float:
    """Convert an object to a float; missing values become NaN."""
    if is_missing(value):
        return float("nan")
    if np.iscomplexobj(value):
        raise TypeError("a complex number")
    return float(value)


def check_weights(sample_weight: Any, n_rows: int, *, is_part: bool = False) -> npt.NDArray[np.float64] | None:
    """Return row weights as non-negative floats, or None if there are none.

    The weights of a part of a table (`is_part`) may all be zero.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type_error("sample_weight", "be numbers", sample_weight) from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise argument_error(
            "sample_weight", f"be one-dimensional, with as many values as X has rows, {n_rows}", weights.shape
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (is_part or (weights > 0).any()):
        raise argument_error("sample_weight", "be finite and non-negative, and not all zero", weights)
    return weights
