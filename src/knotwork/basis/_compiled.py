"""Compiled encoding of a table of values, in one pass, directly into the output.

`encode_dense` and `encode_sparse` are faster versions of the definitions in this package, and are tested against them.
Threads share the rows; the compiled code releases the GIL, so that they run in parallel.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from knotwork._loops import LANES, add_bends, compiled, fill_bumps, fill_cubes, find_intervals
from knotwork.basis._base import MOST_TURNS
from knotwork.basis._families import Functions
from knotwork.basis._fitted import SHAPES, CompiledTable, Formula

VALUES_PER_CALL = 1 << 17
"""Values that one call converts to float64 and encodes: enough to hide the cost of the call, 1 MiB per thread."""

ROWS_TOGETHER = 128
"""Rows that are encoded together, column by column, before they are written row by row."""

COLUMNS_PER_CALL = 128
"""Columns that are encoded together, so that the scratch of one call stays in the cache, however wide the table is."""


@compiled(forceinline=True)
def _clip(X, first_row, n_rows, column, inside):
    """Fill, for some rows of a column, the value clipped to the domain."""
    j, unit, low, high = column.source, column.unit, column.low, column.high
    for i in range(n_rows):
        x = X[first_row + i, j] * unit
        x = low if x < low else x
        inside[i] = high if x > high else x


@compiled()
def _locate(X, first_row, n_rows, column, numbers, inside, intervals):
    """Fill, for some rows of a column, the value clipped to the domain and the number of interior knots <= it."""
    _clip(X, first_row, n_rows, column, inside)
    if column.kind == Functions.CYCLIC:
        _into_period(X, first_row, n_rows, column, inside)
    find_intervals(inside[:n_rows], numbers[column.knots : column.knots + column.n_knots], intervals)


@compiled()
def _into_period(X, first_row, n_rows, column, inside):
    """Fill the values moved into the domain by whole periods: the formula of `into_period`."""
    low, high, unit = column.low, column.high, column.unit
    period = high - low
    for i in range(n_rows):
        x = X[first_row + i, column.source] * unit
        if x >= high or x < low:
            turns = np.floor((x - low) / period)
            x -= period * turns
            inside[i] = x if np.abs(turns) < MOST_TURNS and low <= x < high else low


@compiled()
def _fill(shape, n_rows, column, pieces, inside, intervals, windows):
    """Fill windows: the polynomials of the functions that vary on the interval of each value.

    `shape` has two tuples, as long as the degree and the window: lengths are part of a tuple's type, so that numba
    compiles loops of known lengths. If they are empty, the column has the lengths.
    """
    degree, length, piece, signed = len(shape[0]), len(shape[1]), column.piece, column.signed
    if length == 0:
        degree, length = column.degree, column.window
    for i in range(n_rows):
        k = piece + intervals[i]
        v = (inside[i] - pieces[k, 0]) * pieces[k, 1]
        for r in range(length):
            value = pieces[k, 2 + degree * length + r]
            for power in range(degree - 1, -1, -1):
                value = value * v + pieces[k, 2 + power * length + r]
            windows[i, r] = value if value > 0.0 or signed else 0.0


@compiled()
def _write_lines(X, first_row, column, numbers, inside, largest, rows):
    """Write straight lines, with the values and slopes at the ends, into the rows of values outside the domain."""
    length = column.window
    for i in range(len(rows)):
        beyond = X[first_row + i, column.source] * column.unit - inside[i]
        if beyond > 0.0 or beyond < 0.0:
            edge = column.edges + (length if beyond > 0.0 else 0)
            for r in range(length):
                value = numbers[edge + r] + beyond * numbers[edge + 2 * length + r]
                rows[i, r] = min(max(value, -largest), largest)


@compiled()
def _encode_rows(shape, special, X, first_row, n_rows, columns, numbers, pieces, scratch, largest):
    """Fill the intervals and windows of some rows of all columns; `shape` as in `_fill`.

    `special` is an empty tuple if no column is signed, continues in lines, or is cyclic. Its length is part of its type
    as well: numba leaves out what such columns need, which takes a third of the time of compiling.
    """
    inside, all_intervals, all_windows = scratch
    for c in range(len(columns)):
        column, intervals, windows = columns[c], all_intervals[c], all_windows[c, :n_rows]
        _locate(X, first_row, n_rows, column, numbers, inside, intervals)
        _fill(shape, n_rows, column, pieces, inside, intervals, windows)
        if len(special) == 1:
            if column.signed:
                for i in range(n_rows):
                    for r in range(column.window):
                        windows[i, r] = min(max(windows[i, r], -largest), largest)
            if column.lines:
                _write_lines(X, first_row, column, numbers, inside, largest, windows)


@compiled(inline="always")
def _write_ones(out, i, first, n):
    """Write n ones, eight at a time; the last eight overlap the others if n is not a multiple of eight."""
    if n < 8:
        for k in range(n):
            out[i, first + k] = 1.0
    else:
        for start in range(first, first + n - 8, 8):
            for k in range(8):
                out[i, start + k] = 1.0
        for k in range(8):
            out[i, first + n - 8 + k] = 1.0


@compiled()
def _natural(X, columns, numbers, pieces, indicator, scratch, largest, out):
    """Write natural splines into `out`: all functions vary on every interval, so they need no window."""
    inside, all_intervals, _ = scratch
    for start in range(0, X.shape[0], ROWS_TOGETHER):
        n_rows = ROWS_TOGETHER if start + ROWS_TOGETHER < X.shape[0] else X.shape[0] - start
        for c in range(len(columns)):
            column, intervals = columns[c], all_intervals[c]
            _locate(X, start, n_rows, column, numbers, inside, intervals)
            first, length, piece, bends = column.output, column.window, column.piece, column.piece + column.n_knots + 1
            for i in range(n_rows):
                k = intervals[i]
                u = (inside[i] - pieces[piece + k, 0]) * pieces[piece + k, 1]
                if not np.isnan(u):
                    row = out[start + i, first : first + length]
                    w = 1.0 - u
                    add_bends(pieces[bends + 2 * k], pieces[bends + 2 * k + 1], w * w * w - w, u * u * u - u, row)
                    row[k] += w
                    row[k + 1] += u
                elif indicator:
                    out[start + i, first + column.size] = 1.0
            if column.lines:
                rows = out[start : start + n_rows, first : first + length]
                _write_lines(X, start, column, numbers, inside, largest, rows)


@compiled()
def _write_bumps(first_row, inside, column, pieces, indicator, work, out):
    """Write radial functions of one column, row by row.

    They are computed into a row of whole vectors first: a loop over the rest of a vector takes longer.
    """
    kind, first, length, missing = column.kind, column.output, column.window, column.output + column.size
    n_lanes = -(-length // LANES) * LANES
    centres, factors, values = work[0][:n_lanes], work[1][:n_lanes], work[2][:n_lanes]
    for r in range(length):
        centres[r], factors[r] = pieces[column.piece + r, 0], pieces[column.piece + r, 1]
    most = values.dtype.type(125.0 if values.itemsize == 4 else 1000.0)
    for i in range(len(inside)):
        if np.isnan(inside[i]):
            if indicator:
                out[first_row + i, missing] = 1.0
            continue
        if kind == Functions.RADIAL:
            fill_bumps(inside[i], centres, factors, values.dtype.type(1.0), most, values)
        else:
            fill_cubes(inside[i], centres, factors, values)
        row = out[first_row + i, first : first + length]
        for r in range(len(row)):
            row[r] = values[r]


@compiled()
def _bumps(X, columns, numbers, pieces, indicator, scratch, largest, out):
    """Write radial functions into `out`."""
    longest = -(-scratch[2].shape[2] // LANES) * LANES
    work = np.zeros(longest), np.zeros(longest), np.empty(longest, out.dtype)
    for start in range(0, X.shape[0], ROWS_TOGETHER):
        inside = scratch[0][: min(ROWS_TOGETHER, X.shape[0] - start)]
        for c in range(len(columns)):
            _clip(X, start, len(inside), columns[c], inside)
            _write_bumps(start, inside, columns[c], pieces, indicator, work, out)
            if columns[c].lines:
                first, length = columns[c].output, columns[c].window
                rows = out[start : start + len(inside), first : first + length]
                _write_lines(X, start, columns[c], numbers, inside, largest, rows)


@compiled()
def _dense(shape, special, X, columns, numbers, pieces, indicator, scratch, largest, out):
    """Write all entries that differ from zero into `out`, which holds zeros; first arguments as in `_encode_rows`."""
    _, intervals, windows = scratch
    for start in range(0, X.shape[0], ROWS_TOGETHER):
        n_rows = ROWS_TOGETHER if start + ROWS_TOGETHER < X.shape[0] else X.shape[0] - start
        _encode_rows(shape, special, X, start, n_rows, columns, numbers, pieces, scratch, largest)
        for i in range(n_rows):
            for c in range(len(columns)):
                column, interval = columns[c], intervals[c, i]
                output = column.output
                if np.isnan(X[start + i, column.source]):
                    if indicator:
                        out[start + i, output + column.size] = 1.0
                    continue
                if column.kind == Functions.TAILS:
                    _write_ones(out, start + i, output, interval)
                length = len(shape[1])
                if length == 0:
                    length = column.window
                if len(special) == 1:  # noqa: SIM102 - on its own, numba decides it when it compiles
                    if column.kind == Functions.CYCLIC and interval + length > column.n_knots + 1:
                        for r in range(length):  # after the last column comes the first
                            out[start + i, output + (interval + r) % (column.n_knots + 1)] = windows[c, i, r]
                        continue
                for r in range(length):  # if the compiler knows the length, it writes one vector
                    out[start + i, output + interval + r] = windows[c, i, r]


@compiled()
def _count(X, columns, numbers, pieces, indicator, scratch, counts):
    """Add the number of entries that `_sparse` writes for each row to `counts`."""
    inside, intervals, _ = scratch
    for start in range(0, X.shape[0], ROWS_TOGETHER):
        n_rows = ROWS_TOGETHER if start + ROWS_TOGETHER < X.shape[0] else X.shape[0] - start
        for c in range(len(columns)):
            column = columns[c]
            if column.kind == Functions.TAILS:
                _locate(X, start, n_rows, column, numbers, inside, intervals[c])
            else:
                intervals[c] = 0
            for i in range(n_rows):
                if np.isnan(X[start + i, column.source]):
                    counts[start + i] += indicator
                else:
                    counts[start + i] += intervals[c, i] + column.window


@compiled()
def _sparse(shape, special, X, columns, numbers, pieces, indicator, scratch, largest, entries, indices, data):
    """Write the entries of each row, beginning at ``entries[row]``, and return how many of them are zero."""
    _, intervals, windows = scratch
    zeros = 0
    for start in range(0, X.shape[0], ROWS_TOGETHER):
        n_rows = ROWS_TOGETHER if start + ROWS_TOGETHER < X.shape[0] else X.shape[0] - start
        _encode_rows(shape, special, X, start, n_rows, columns, numbers, pieces, scratch, largest)
        for i in range(n_rows):
            entry = entries[start + i]
            for c in range(len(columns)):
                column, interval = columns[c], intervals[c, i]
                output = column.output
                if np.isnan(X[start + i, column.source]):
                    if indicator:
                        indices[entry] = output + column.size
                        data[entry] = 1.0
                        entry += 1
                    continue
                if column.kind == Functions.TAILS:
                    for k in range(interval):
                        indices[entry + k] = output + k
                        data[entry + k] = 1.0
                    entry += interval
                last = column.window
                if column.kind == Functions.CYCLIC:  # after the last column comes the first
                    last = min(column.window, column.n_knots + 1 - interval)
                    for r in range(last, column.window):
                        indices[entry + r - last] = output + r - last
                        data[entry + r - last] = windows[c, i, r]
                        zeros += windows[c, i, r] == 0.0
                    entry += column.window - last
                for r in range(last):
                    indices[entry + r] = output + interval + r
                    data[entry + r] = windows[c, i, r]
                    zeros += windows[c, i, r] == 0.0
                entry += last
            entries[start + i] = entry
    return zeros


def encode_dense(
    X: npt.NDArray[Any], table: CompiledTable, *, dtype: npt.DTypeLike = np.float32, n_threads: int = 1
) -> npt.NDArray[Any]:
    """Encode numbers of shape (n, d) into a dense array of shape (n, table.width); NaN is encoded by zeros.

    X may have any type and memory order. Arithmetic is always in float64.
    """
    out = np.zeros((X.shape[0], table.width), dtype=dtype)  # zeroed pages of the system: nothing is written twice
    largest = float(np.finfo(out.dtype).max)
    groups = [
        (int(formula), columns)
        for formula in np.unique(table.columns["formula"])
        if formula != Formula.NONE
        for columns in _split(table.columns[table.columns["formula"] == formula])
    ]

    def encode(rows: slice) -> None:
        values, scratch = _as_float64(X[rows]), _scratch(table)
        for formula, columns in groups:
            arguments = values, columns, *table.compiled, scratch, largest, out[rows]
            if formula in SHAPES:
                _dense(_shape(formula), _special(columns), *arguments)
            else:
                (_natural if formula == Formula.NATURAL else _bumps)(*arguments)
        _encode_plain(values, table, largest, out[rows])

    _over_rows(encode, X.shape, n_threads)
    return out


def encode_sparse(
    X: npt.NDArray[Any], table: CompiledTable, *, dtype: npt.DTypeLike = np.float32, n_threads: int = 1
) -> sparse.csr_array:
    """Encode numbers into a CSR array without a dense one of the same size; parameters as in `encode_dense`.

    If a column has no compiled code, or no zeros, chunks of rows are encoded densely.
    """
    n_rows = X.shape[0]
    if table.plain or np.isin(table.columns["formula"], (Formula.NATURAL, Formula.BUMPS)).any():
        settings: dict[str, Any] = {"dtype": dtype, "n_threads": n_threads}
        parts = [sparse.csr_array(encode_dense(X[rows], table, **settings)) for rows in _slices(X.shape)]
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    counts = np.zeros(n_rows, dtype=np.int64)

    def count(rows: slice) -> None:
        values, scratch = _as_float64(X[rows]), _scratch(table)
        for columns in _split(table.columns):
            _count(values, columns, *table.compiled, scratch, counts[rows])

    _over_rows(count, X.shape, n_threads)
    starts = np.concatenate(([0], np.cumsum(counts)))
    index_type = np.int32 if max(starts[-1], table.width) <= np.iinfo(np.int32).max else np.int64
    indices = np.empty(starts[-1], dtype=index_type)
    data = np.empty(starts[-1], dtype=dtype)
    largest = float(np.finfo(data.dtype).max)
    entries = starts[:-1].copy()
    # Entries of a row are written in the order of columns, so only neighbouring columns of one formula share a call.
    changes = np.flatnonzero(np.diff(table.columns["formula"])) + 1
    runs = [(int(part["formula"][0]), part) for run in np.split(table.columns, changes) for part in _split(run)]
    zeros: list[int] = []

    def encode(rows: slice) -> None:
        values, scratch, output = _as_float64(X[rows]), _scratch(table), (entries[rows], indices, data)
        for formula, columns in runs:
            zeros.append(
                _sparse(_shape(formula), _special(columns), values, columns, *table.compiled, scratch, largest, *output)
            )

    _over_rows(encode, X.shape, n_threads)
    encoded = sparse.csr_array((data, indices, starts.astype(index_type)), shape=(n_rows, table.width))
    encoded.has_sorted_indices = True
    if sum(zeros):
        encoded.eliminate_zeros()
    return encoded


def _encode_plain(values: npt.NDArray[np.float64], table: CompiledTable, largest: float, out: npt.NDArray[Any]) -> None:
    """Write the columns that have no compiled code."""
    for index, encoding in table.plain:
        first = int(table.columns["output"][index])
        encoded = encoding.encode(values[:, index], table.extrapolation)
        out[:, first : first + encoding.size] = np.clip(encoded, -largest, largest)
        if table.indicator:
            out[:, first + encoding.size] = np.isnan(values[:, index])


def _shape(formula: int) -> tuple[tuple[int, ...], ...]:
    """Return the argument `shape` of `_fill`."""
    return tuple((0,) * length for length in SHAPES[formula])


def _special(columns: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the argument `special` of `_encode_rows`."""
    is_special = columns["signed"] | columns["lines"] | (columns["kind"] == Functions.CYCLIC)
    return (0,) if is_special.any() else ()


def _scratch(table: CompiledTable) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return scratch arrays of one thread: values inside the domain, intervals, windows."""
    n_columns = min(len(table.columns), COLUMNS_PER_CALL)
    longest = int(table.columns["window"].max(initial=0))
    return (
        np.empty(ROWS_TOGETHER),
        np.empty((n_columns, ROWS_TOGETHER), dtype=np.int64),
        np.empty((n_columns, ROWS_TOGETHER, longest)),
    )


def _split(columns: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return the columns in groups of at most `COLUMNS_PER_CALL`."""
    starts = range(0, max(len(columns), 1), COLUMNS_PER_CALL)
    return [columns[start : start + COLUMNS_PER_CALL] for start in starts]


def _as_float64(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(rows, dtype=np.float64)


def _over_rows(work: Callable[[slice], None], shape: tuple[int, ...], n_threads: int) -> None:
    """Call `work` on slices that cover all rows, in several threads if there is more than one slice."""
    slices = _slices(shape)
    if n_threads == 1 or len(slices) < 2:
        for rows in slices:
            work(rows)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, slices):
            pass


def _slices(shape: tuple[int, ...]) -> list[slice]:
    """Return slices of about `VALUES_PER_CALL` values each, and an empty one for a table without rows."""
    n_rows, n_columns = shape
    chunk = max(VALUES_PER_CALL // max(n_columns, 1), ROWS_TOGETHER)
    return [slice(start, min(start + chunk, n_rows)) for start in range(0, max(n_rows, 1), chunk)]
