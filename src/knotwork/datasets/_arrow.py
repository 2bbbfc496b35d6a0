"""Parquet, Arrow and Feather files that may be damaged: everything is checked before it is used.

A file of a few bytes may declare rows or buffers of terabytes, and one flipped bit may turn an offset into an address
outside of the file. So sizes are compared with a limit before anything is decompressed, and all values are validated
before they are converted.

The metadata of Arrow files are read here, because pyarrow decompresses a part of a file before it says how large it is:
a file of 0.2 MB took 6.4 GB and 24 seconds, and is refused at once by the sizes that its messages declare. A process
with limited memory would take 0.4 s to start for every file, and would not notice parts that the footer leaves out.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from knotwork._checks import argument_error
from knotwork.datasets._text import EXPANSION, check_expansion, quoted_reason
from knotwork.errors import ArgumentError

FEATHER_1 = b"FEA1"
ARROW = b"ARROW1"
TRAILER = 4 + len(ARROW)
"""Bytes at the end of a file, after the footer: its length, and the mark of the format again."""

ENTRY = "<qi4xq"
"""An entry of the footer: where a message begins, and the bytes of its metadata and of its body."""

GAP = 64
"""Maximum number of bytes between two messages: the alignment of writers, and the mark of the end."""

DICTIONARY_BATCH = 2
"""The kind of a message that holds a dictionary, as the format numbers it."""

BYTES_PER_VALUE = 8
"""Bytes of a value in memory, at least."""


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file."""
    return _checked(path, _parquet_table)


def parquet_rows(path: Path) -> int:
    """Return how many rows a Parquet file declares, or 0 if that cannot be read."""
    try:
        return _parquet_schema(path)[1]
    except Exception:  # which reading the file explains
        return 0


def parquet_parts(path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file, `n_rows` at a time."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        batches, waiting = file.iter_batches(batch_size=n_rows), list[Any]()
        next_rows = partial(_next_rows, batches, waiting, n_rows, schema=file.schema_arrow)
        while len(part := _checked(path, lambda _: next_rows())):
            yield part


def _next_rows(batches: Iterator[Any], waiting: list[Any], n_rows: int, *, schema: Any) -> tuple[Any, Any]:
    """Return the next rows as a table, without rows at the end, and its schema; batches that are left over wait."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    while sum(map(len, waiting)) < n_rows and (batch := next(batches, None)) is not None:
        waiting.append(batch)
    table = pa.Table.from_batches(waiting, schema)
    waiting[:] = table.slice(n_rows).to_batches()
    return table.slice(0, n_rows), schema


def read_arrow(path: Path) -> pd.DataFrame:
    """Read an Arrow file, which is the same as a Feather file of version 2."""
    with path.open("rb") as file:
        if file.read(4) == FEATHER_1:
            raise argument_error(
                "path",
                "be an Arrow file, or a Feather file of version 2",
                str(path),
                "It is a Feather file of version 1, which is no longer supported: write it again with version 2, or as "
                "Parquet or CSV.",
            )
    return _checked(path, _arrow_table)


def _checked(path: Path, read: Callable[[Path], tuple[Any, Any]]) -> pd.DataFrame:
    """Read, validate and convert a table; whatever fails raises one kind of error."""
    try:
        table, schema = read(path)
        table.validate()
        check_expansion(_least_bytes(table), path, smallest=EXPANSION.table)  # all of them are validated next
        table.validate(full=True)
        frame: pd.DataFrame = _expanded(table, schema, path).to_pandas()
    except (ArgumentError, PermissionError):
        raise
    except Exception as error:  # damaged metadata, which are JSON of pandas among others, fail in any way
        hint = f"It is damaged, incomplete, or of another format: copy or export it again. {quoted_reason(error)}"
        raise argument_error("path", f"be a readable {path.suffix.lower()} file", str(path), hint.strip()) from error
    return frame.reset_index(drop=True)


def _parquet_table(path: Path) -> tuple[Any, Any]:
    """Return the table of a Parquet file whose metadata declare an acceptable size, and its schema.

    Columns of text are dictionaries as far as they are in the file: a text that is stored once may fill a million rows.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

    schema, n_rows, n_bytes, limit = _parquet_schema(path)
    texts = [field.name for field in schema if _is_text(field.type)] if n_bytes * n_rows > limit else []
    with pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts) as file:
        table = file.read()
    if table.num_rows != n_rows:
        raise ValueError("Rows are missing.")
    return table, schema


def _parquet_schema(path: Path) -> tuple[Any, int, int, int]:
    """Return the schema of a Parquet file, the rows and bytes that its metadata declare, and the limit of the bytes."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        metadata, schema = file.metadata, file.schema_arrow
        n_values = metadata.num_rows * max(metadata.num_columns, 1)
        check_expansion(n_values * BYTES_PER_VALUE, path, smallest=EXPANSION.table)
        # Not the columns of a group: reading a damaged one, pyarrow ends the process.
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("The numbers of rows disagree.")
        n_bytes = sum(group.total_byte_size for group in groups)
        return schema, metadata.num_rows, n_bytes, check_expansion(n_bytes, path, smallest=EXPANSION.table)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _expanded(table: Any, schema: Any, path: Path) -> Any:
    """Return a valid table with the types of its schema, if the texts of its dictionaries need acceptable memory."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load
    import pyarrow.compute as pc  # noqa: PLC0415

    n_bytes, columns = 0, []
    for column, field in zip(table.columns, schema, strict=True):
        is_stored_once = pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type)
        for chunk in column.chunks if is_stored_once else ():
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            n_bytes += pc.sum(lengths.take(chunk.indices)).as_py() or 0
        check_expansion(n_bytes, path, smallest=EXPANSION.table)
        columns.append(column.cast(field.type) if is_stored_once else column)
    return pa.Table.from_arrays(columns, schema=schema)


VIEWS = ("string_view", "binary_view")
"""Types of texts whose rows may share one place in memory."""


def _least_bytes(table: Any) -> int:
    """Return the bytes that a table needs at least, once every row has its own text."""
    n_bytes: int = table.num_rows * max(table.num_columns, 1) * BYTES_PER_VALUE
    for chunk in (chunk for column in table.columns if str(column.type) in VIEWS for chunk in column.chunks):
        # Each text has an entry of four integers, of which the first is its length.
        entries = np.frombuffer(chunk.buffers()[1], dtype=np.int32).reshape(-1, 4)
        lengths = entries[chunk.offset : chunk.offset + len(chunk), 0].astype(np.int64)
        n_bytes += int(lengths[chunk.is_valid().to_numpy(zero_copy_only=False)].sum())
    return n_bytes


def _arrow_table(path: Path) -> tuple[Any, Any]:
    """Return the table of an Arrow file whose messages declare an acceptable size, and its schema."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    data = path.read_bytes()
    if not data.startswith(ARROW):
        raise ValueError("It does not begin as an Arrow file.")
    reader = pa.ipc.open_file(pa.py_buffer(data))
    end = len(data) - TRAILER - _unpack(data, "<i", len(data) - TRAILER)
    footer = _target(data, end)
    entries = sorted(entry for field in (2, 3) for entry in _records(data, footer, field, ENTRY))
    _check_entries(entries, end, len(data))
    n_bytes = 0
    for offset, n_metadata, _ in entries:
        n_bytes += _declared_size(data, offset, offset + n_metadata)
        check_expansion(n_bytes, path, smallest=EXPANSION.table)
    return reader.read_all(), reader.schema


def _check_entries(entries: list[tuple[int, ...]], end: int, n_bytes: int) -> None:
    """Compare the places of the messages that the footer lists with the file: no message between them is left out."""
    starts, ends = [entry[0] for entry in entries], [sum(entry) for entry in entries]
    gaps = [after - before for before, after in zip(ends, [*starts[1:], end], strict=True)]
    if not entries or min(gaps) < 0 or max(gaps) > GAP or starts[0] > n_bytes - end + 4 * GAP:
        raise ValueError("The list of its parts is damaged.")


def _declared_size(data: bytes, offset: int, body: int) -> int:
    """Return the bytes that a message needs in memory, whose body begins at `body`."""
    message = _target(data, offset + (8 if data[offset : offset + 4] == b"\xff\xff\xff\xff" else 4))
    kind, header = _field(data, message, 1), _field(data, message, 2)
    batch = _target(data, header)
    if kind and data[kind] == DICTIONARY_BATCH:
        batch = _target(data, _field(data, batch, 1))
    length = _field(data, batch, 0)
    n_rows = [_unpack(data, "<q", length) if length else 0, sum(node[0] for node in _records(data, batch, 1, "<qq"))]
    size = max(n_rows) * BYTES_PER_VALUE
    if _field(data, batch, 3):  # compressed: each buffer begins with its size
        for place, length in _records(data, batch, 2, "<qq"):
            if length >= 8:
                size += max(_unpack(data, "<q", body + place), 0)
    return size


# The metadata are tables of the FlatBuffers format, given by the places where they begin, with fields by number.


def _unpack(data: bytes, kind: str, place: int) -> int:
    if place < 0:  # `struct` would count from the end
        raise ValueError("The metadata of a message are damaged.")
    value: int = struct.unpack_from(kind, data, place)[0]
    return value


def _target(data: bytes, place: int) -> int:
    """Return where the table or vector begins whose distance is stored at a place."""
    return place + _unpack(data, "<I", place)


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a table is stored, or 0 if it has its default."""
    fields = table - _unpack(data, "<i", table)
    if 4 + 2 * number >= _unpack(data, "<H", fields):
        return 0
    offset = _unpack(data, "<H", fields + 4 + 2 * number)
    return table + offset if offset else 0


def _records(data: bytes, table: int, number: int, kind: str) -> Iterator[tuple[int, ...]]:
    """Return the records of a vector, each a tuple of integers."""
    place = _field(data, table, number)
    if not place:
        return iter(())
    start = _target(data, place)
    end = start + 4 + struct.calcsize(kind) * _unpack(data, "<I", start)
    if end > len(data):
        raise ValueError("The metadata of a message are damaged.")
    return struct.iter_unpack(kind, data[start + 4 : end])
