"""Parquet, Arrow and Feather files that may be damaged: everything is checked before it is used.

A file of a few bytes may declare rows or buffers of terabytes, and one flipped bit may turn an offset into an address
outside of the file. So sizes are compared with a limit before anything is decompressed, and all values are validated
before they are converted.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from knotwork._checks import argument_error
from knotwork.datasets._text import check_expansion, quoted_reason
from knotwork.errors import ArgumentError

__all__ = ["read_arrow", "read_parquet"]

FEATHER_1 = b"FEA1"
ARROW = b"ARROW1\0\0"
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
"""Kinds of messages that have buffers, as the format numbers them."""

SMALLEST_LIMIT = 2**30
"""Bytes of memory that any file may need: columns of few values are stored in next to no space."""

BYTES_PER_VALUE = 8
"""Bytes of a value in memory, at least."""


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file."""
    return _checked(path, _parquet_table)


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


def _checked(path: Path, read: Callable[[Path], Any]) -> pd.DataFrame:
    """Read, validate and convert a table; whatever fails raises one kind of error."""
    try:
        table = read(path)
        table.validate(full=True)
        check_expansion(table.num_rows * max(table.num_columns, 1) * BYTES_PER_VALUE, path, smallest=SMALLEST_LIMIT)
        frame: pd.DataFrame = table.to_pandas()
    except (ArgumentError, PermissionError):
        raise
    except Exception as error:  # damaged metadata, which are JSON of pandas among others, fail in any way
        hint = f"It is damaged, incomplete, or of another format: copy or export it again. {quoted_reason(error)}"
        raise argument_error("path", f"be a readable {path.suffix.lower()} file", str(path), hint.strip()) from error
    return frame.reset_index(drop=True)


def _parquet_table(path: Path) -> Any:
    """Return the table of a Parquet file whose metadata declares an acceptable size."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        metadata = file.metadata
        check_expansion(
            metadata.num_rows * max(metadata.num_columns, 1) * BYTES_PER_VALUE, path, smallest=SMALLEST_LIMIT
        )
        # Not the columns of a group: asked for a damaged one, pyarrow ends the process.
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("The numbers of rows disagree.")
        check_expansion(sum(group.total_byte_size for group in groups), path, smallest=SMALLEST_LIMIT)
        table = file.read()
    if table.num_rows != metadata.num_rows:
        raise ValueError("Rows are missing.")
    return table


def _arrow_table(path: Path) -> Any:
    """Return the table of an Arrow file, read as the stream of messages that it contains."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    data = path.read_bytes()
    if not data.startswith(ARROW):
        raise ValueError("It does not begin as an Arrow file.")
    n_batches = pa.ipc.open_file(pa.py_buffer(data)).num_record_batches
    stream = pa.py_buffer(data).slice(len(ARROW))
    n_bytes = 0
    for size in _declared_sizes(stream, n_batches):
        n_bytes += size
        check_expansion(n_bytes, path, smallest=SMALLEST_LIMIT)
    reader = pa.ipc.open_stream(stream)
    batches = [reader.read_next_batch() for _ in range(n_batches)]
    return pa.Table.from_batches(batches, reader.schema)


def _declared_sizes(stream: Any, n_batches: int) -> Iterator[int]:
    """Return the bytes that each message of a stream needs in memory, up to the last of its record batches."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    messages = pa.ipc.MessageReader.open_stream(stream)
    while n_batches:
        message = messages.read_next_message()
        table = _Flat.root(message.metadata.to_pybytes())
        kind = table.number(1, "<B")
        if kind not in (DICTIONARY_BATCH, RECORD_BATCH):
            continue
        n_batches -= kind == RECORD_BATCH
        batch = table.table(2) if kind == RECORD_BATCH else table.table(2).table(1)
        nodes = sum(length for length, _ in batch.pairs(1))
        size = max(batch.number(0, "<q"), nodes) * BYTES_PER_VALUE
        if batch.has(3):  # compressed: each buffer begins with its size
            for offset, length in batch.pairs(2):
                if length >= 8:
                    size += max(_unpack(message.body, "<q", offset), 0)
        yield size


def _unpack(data: Any, kind: str, place: int) -> int:
    if place < 0:  # `struct` would count from the end
        raise ValueError("The metadata of a message are damaged.")
    value: int = struct.unpack_from(kind, data, place)[0]
    return value


class _Flat:
    """A table of the FlatBuffers format, which the metadata of a message have: fields by their number.

    Parameters
    ----------
    data : bytes
        The metadata.
    place : int
        Where the table begins.
    """

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place

    @classmethod
    def root(cls, data: bytes) -> "_Flat":
        return cls(data, _unpack(data, "<I", 0))

    def _find(self, field: int) -> int:
        """Return where a field is stored, or 0 if it has its default."""
        fields = self.place - _unpack(self.data, "<i", self.place)
        if 4 + 2 * field >= _unpack(self.data, "<H", fields):
            return 0
        offset = _unpack(self.data, "<H", fields + 4 + 2 * field)
        return self.place + offset if offset else 0

    def has(self, field: int) -> bool:
        """Return whether a field is stored."""
        return self._find(field) > 0

    def number(self, field: int, kind: str) -> int:
        """Return a number, by default 0."""
        place = self._find(field)
        return _unpack(self.data, kind, place) if place else 0

    def table(self, field: int) -> "_Flat":
        """Return a table inside of the table."""
        place = self._find(field)
        return _Flat(self.data, place + _unpack(self.data, "<I", place))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Return the pairs of integers in a vector."""
        place = self._find(field)
        if not place:
            return
        start = place + _unpack(self.data, "<I", place)
        n_pairs = _unpack(self.data, "<I", start)
        if start + 4 + 16 * n_pairs > len(self.data):
            raise ValueError("The metadata of a message are damaged.")
        for index in range(n_pairs):
            first, second = struct.unpack_from("<qq", self.data, start + 4 + 16 * index)
            yield first, second
