"""Reads damaged table files in a process of its own: ``python tests/fuzz/table_worker.py N_FILES FOLDER``.

Prints a line before and after each file, so that it is known which one ended the process: ``begin KIND NUMBER`` and
``end KIND NUMBER OUTCOME``. An outcome is ``rows N``, ``refused``, or what is wrong. The last line, ``peak KILOBYTES``,
is the memory of the process. A file that takes longer than `LONGEST` ends the process with a traceback.
"""

import csv
import faulthandler
import io
import resource
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))

from knotwork.datasets._files import read_frame
from knotwork.datasets._text import SEPARATORS
from knotwork.errors import ArgumentError, ColumnError
from tests.fuzz.mutations import mutate
from tests.messy.make import columnar, flats, text

N_ROWS = 60
LONGEST = 120.0
"""Seconds after which a file hangs, however busy the machine is."""

VARIANTS = {
    "csv": [
        text,
        lambda: text(sep=";", decimal=","),
        lambda: text(quoting=1),
        lambda: text(sep="\t", encoding="cp1252"),
        lambda: text(encoding="utf-16"),
        lambda: text(flats().assign(note='some, "fine"\ntext')),
    ],
    "parquet": [
        lambda: columnar(lambda frame, out: frame.to_parquet(out, compression="zstd")),
        lambda: columnar(lambda frame, out: frame.astype({"town": "category"}).to_parquet(out, compression=None)),
        lambda: columnar(lambda frame, out: frame.to_parquet(out, row_group_size=16, write_page_checksum=True)),
    ],
    "arrow": [
        lambda: columnar(lambda frame, out: frame.to_feather(out, compression="lz4")),
        lambda: columnar(lambda frame, out: frame.astype({"town": "category"}).to_feather(out, compression="zstd")),
        lambda: columnar(lambda frame, out: frame.to_feather(out, compression="uncompressed", chunksize=16)),
        lambda: columnar(lambda frame, out: pl.from_pandas(frame).write_ipc(out)),
    ],
}
"""Functions that return the bytes of a good file, by kind."""


def expected_rows(kind: str, data: bytes) -> set[int]:
    """Return the numbers of rows that a file may have: those of the original, or of a text as Python's `csv` has it."""
    if kind != "csv":
        return {N_ROWS}
    counts = set()
    for encoding in ("utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be"):
        try:
            decoded = data.decode(encoding)
        except UnicodeError:
            continue
        for sep in SEPARATORS:
            rows = csv.reader(io.StringIO(decoded, newline=""), delimiter=sep)
            try:
                counts.add(sum(any(field.strip() for field in row) or len(row) > 1 for row in rows) - 1)
            except csv.Error:
                continue
    return counts


def outcome(kind: str, path: Path, data: bytes) -> str:
    """Read a file, and say how it went."""
    try:
        frame, _ = read_frame(path)
    except (ArgumentError, ColumnError) as error:
        if not str(error).isprintable():
            return f"unprintable message: {str(error)!a}"
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]!a}"
    expected = expected_rows(kind, data)
    return f"rows {len(frame)}" if len(frame) in expected else f"{len(frame)} rows in place of {sorted(expected)}"


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """Return data with one flipped bit, as of a bad disk, or after other changes."""
    if random.integers(3):
        return mutate(data, random)
    changed = bytearray(data)
    changed[random.integers(len(data))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def main(n_files: int, folder: Path) -> None:
    """Read damaged files of each kind."""
    warnings.simplefilter("error")
    for place, (kind, makers) in enumerate(VARIANTS.items()):
        originals, path = [make() for make in makers], folder / f"table.{kind}"
        for number in range(n_files):
            data = damaged(originals[number % len(originals)], np.random.default_rng([number, place]))
            path.write_bytes(data)
            print(f"begin {kind} {number}", flush=True)
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            result = outcome(kind, path, data)
            faulthandler.cancel_dump_traceback_later()
            print(f"end {kind} {number} {result}", flush=True)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
