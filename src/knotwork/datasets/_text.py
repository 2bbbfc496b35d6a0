"""Reading text files: encoding, separator, decimal sign and rows are detected, checked and reported."""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from knotwork._checks import argument_error, check_installed, listed, type_error
from knotwork._writing import counted, fixed
from knotwork.errors import ArgumentError, ColumnError

SEPARATORS = {"\t": "tabs", "|": "'|'", ";": "';'", ",": "commas"}
"""Detectable separators, and their names in sentences. If two fit equally well, the first is chosen: commas also occur
in text and in numbers."""

HEAD_BYTES = 2**20
"""Number of bytes from which the format is detected."""

SAMPLED_ROWS = 200
"""Number of rows from which the format is detected."""

COUNTED_BYTES = 2**24
"""Number of bytes that are read at a time."""


@dataclass(frozen=True)
class ExpansionRule:
    """How much memory a file may need, by its size.

    Parameters
    ----------
    text, table : int
        Bytes that any text file, and any file with types, may need: columns of few values are stored in next to no
        space. 256 MiB and 1 GiB are conventions.
    ratio : int
        A larger file may need this many times its size: no real table is compressed more than that.
    """

    text: int = 2**28
    table: int = 2**30
    ratio: int = 200


EXPANSION = ExpansionRule()

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; UTF-32 comes first, since its mark begins with that of UTF-16. UTF-8 is recognised without one."""

COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+")
POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
"""Patterns of numbers with a decimal comma, with a decimal point, and with points between groups of three digits."""


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    r"""The format of a text file; settings that are None are detected and reported.

    Parameters
    ----------
    sep : str, optional
        One character between the fields; ``"tab"`` and ``"\\t"`` mean a tab.
    encoding : str, optional
        Name of the encoding, such as ``"utf-8"``, ``"cp1252"`` or ``"utf-16"``.
    decimal : {".", ","}, optional
        The decimal sign.

    Examples
    --------
    >>> TextFormat(sep="tab", decimal=",").sep
    '\t'
    """

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        for name in ("sep", "encoding", "decimal"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise type_error(name, "be text", value)
        if self.sep in ("tab", "\\t"):
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n\0' or not self.sep.isascii()):
            raise argument_error("sep", "be one ASCII character, such as ';' or 'tab'", self.sep)
        if self.decimal not in (None, ".", ","):
            raise argument_error("decimal", "be '.' or ','", self.decimal)
        if self.decimal is not None and self.decimal == self.sep:
            raise argument_error("decimal", "differ from sep", self.decimal)
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _check_encoding(self.encoding))

    @property
    def given(self) -> list[str]:
        """Names of the settings that are not detected."""
        return [name for name in ("sep", "encoding", "decimal") if getattr(self, name) is not None]


def _check_encoding(name: str) -> str:
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)  # "rot13" and "base64" are not encodings of text
    except (LookupError, ValueError) as error:
        hint = "For example: utf-8, cp1252, latin-1, utf-16, shift_jis."
        raise argument_error("encoding", "be the name of an encoding of text", name, hint) from error
    return codec.name


@dataclass(frozen=True, eq=False)
class _Content:
    """The bytes of a text file in UTF-8: from the file itself, or from a converted copy."""

    path: Path
    encoding: str
    data: bytes | None = None

    def open(self) -> BinaryIO:
        return self.path.open("rb") if self.data is None else io.BytesIO(self.data)

    def head(self) -> str:
        """Return the first lines of the file, at least one; the last one is complete."""
        with self.open() as file:
            data = file.read(HEAD_BYTES)
            while len(data) % HEAD_BYTES == 0 and not re.search(rb"[\r\n]", data[-HEAD_BYTES:]):
                more = file.read(HEAD_BYTES)
                if not more:
                    break
                data += more
            is_whole = not file.read(1)
        text = codecs.getincrementaldecoder("utf-8")().decode(data).removeprefix("\ufeff")
        return text if is_whole else text[: max(text.rfind("\n"), text.rfind("\r")) + 1]


@dataclass(frozen=True)
class _TextLayout:
    """How the fields of a text file are arranged.

    `header` has the column names; `sep_line` tells whether a line such as ``sep=;``, written by Excel, precedes them;
    `has_row_names` tells whether every row has one more field than the header, the row name.
    """

    sep: str
    decimal: str
    header: tuple[str, ...]
    sep_line: bool
    has_row_names: bool
    spaces: bool


def read_text(path: Path, settings: TextFormat) -> tuple[pd.DataFrame, list[str]]:
    """Read a text file, compressed or not; return the table, and notes on the detected format."""
    content = _open_content(path, settings.encoding)
    try:
        return _read(content, settings)
    except UnicodeDecodeError as error:
        if settings.encoding is not None or content.data is not None:
            raise _undecodable(path, content.encoding, error) from error
    with path.open("rb") as file:  # there are bytes after the head that are not UTF-8
        return _read(_convert(path, file.read(), None), settings)


def header_names(path: Path, settings: TextFormat) -> list[str]:
    """Return the column names of a text file from its first line alone; none of one that is compressed or damaged."""
    if path.suffix.lower() in COMPRESSIONS:
        return []
    try:
        line = _open_content(path, settings.encoding).head().partition("\n")[0]
        header = next(csv.reader([line], delimiter=settings.sep or _detect_sep(line, path)), [])
        return name_columns(header)[0]
    except (OSError, ValueError, csv.Error):  # reading the whole file explains it
        return []


def _read(content: _Content, settings: TextFormat) -> tuple[pd.DataFrame, list[str]]:
    head = content.head()
    if not head.strip("\r\n \t\ufeff"):
        raise ColumnError(f"{content.path} is empty. A header and at least one row are needed.")
    layout = _detect(head, settings, content.path)
    n_newlines, n_quotes, n_nul = _count(content, '\n"\0')
    if n_nul:
        raise _nul_error(content, layout)
    frame = _parse(content, layout)
    is_usual = (content.encoding, layout.sep, layout.decimal) == ("utf-8", ",", ".")
    notes = [] if is_usual else [_describe(content.encoding, layout)]
    if layout.has_row_names:
        frame = frame.reset_index(drop=True)
        notes.append("The rows have one more field than the header: the first field, the row name, is ignored.")
    notes += _check_lines(frame, content, layout, n_newlines=n_newlines, n_quotes=n_quotes)
    frame.columns, naming = name_columns(layout.header)
    if layout.decimal == ",":
        _read_groups(frame)
    return frame, notes + naming


def _open_content(path: Path, encoding: str | None) -> _Content:
    """Decompress and convert a file if needed."""
    decompress = COMPRESSIONS.get(path.suffix.lower())
    if decompress is not None:
        return _convert(path, _decompressed(path, decompress), encoding)
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        for magic, kind, suffix in OTHER_FORMATS:
            if head.startswith(magic):
                hint = f"It is {kind}: rename it to end in {suffix}."
                raise argument_error("path", "be a text file", str(path), hint)
        if (encoding or _guess_encoding(head, is_whole=False)) in ("utf-8", "utf-8-sig", "ascii"):
            return _Content(path, "utf-8")
        return _convert(path, head + file.read(), encoding)


OTHER_FORMATS = (
    (b"PK\x03\x04", "a zip archive or an Excel file", ".zip or .xlsx"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", ".xls"),
    (b"\x1f\x8b", "compressed by gzip", ".csv.gz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", ".csv.zst"),
    (b"\xfd7zXZ\0", "compressed by xz", ".csv.xz"),
    (b"BZh91AY", "compressed by bzip2", ".csv.bz2"),
    (b"PAR1", "a Parquet file", ".parquet"),
    (b"ARROW1", "an Arrow file", ".arrow"),
)
"""First bytes of files that are not text, with the name and suffix of their format."""


def _guess_encoding(data: bytes, *, is_whole: bool) -> str | None:
    """Return the encoding of a file or of its first bytes; None for a single-byte encoding."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    codes = np.frombuffer(data[: len(data) // 2 * 2], dtype=np.uint8).reshape(-1, 2)
    even, odd = (codes == 0).mean(axis=0) if len(codes) else (0.0, 0.0)
    if max(even, odd) > 0.3 and min(even, odd) < 0.05:  # every second byte of European text is zero in UTF-16
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, is_whole)
    except UnicodeDecodeError:
        return None
    return "utf-8"


def _convert(path: Path, data: bytes, encoding: str | None) -> _Content:
    """Return the content in UTF-8; the encoding is detected unless it is given."""
    encoding = encoding or _guess_encoding(data, is_whole=True) or _legacy_encoding(path, data)
    if encoding in ("utf-8", "utf-8-sig"):
        return _Content(path, "utf-8", data)
    try:
        return _Content(path, encoding, data.decode(encoding).encode("utf-8"))
    except UnicodeError as error:
        raise _undecodable(path, encoding, error) from error


def _legacy_encoding(path: Path, data: bytes) -> str:
    """Return the encoding of text that is not valid UTF-8; damaged UTF-8 raises an error that names the line."""
    text = data.decode("utf-8", errors="surrogateescape")
    letters = re.findall(r"[^\x00-\x7f]", text)
    n_bad = sum("\udc80" <= char <= "\udcff" for char in letters)
    if len(letters) - n_bad > n_bad:
        line = text.count("\n", 0, re.search("[\udc80-\udcff]", text).start()) + 1  # type: ignore[union-attr]
        hint = "Export it again, or give its encoding (--encoding)."
        raise argument_error(
            "path", f"be text in one encoding: line {line} is not valid UTF-8, the others are", str(path), hint
        )
    return "latin-1" if re.search(rb"[\x81\x8d\x8f\x90\x9d]", data) else "cp1252"


def _undecodable(path: Path, encoding: str, error: UnicodeError) -> ArgumentError:
    where = ""
    if isinstance(error, UnicodeDecodeError) and len(error.object) > max(error.start, 1000):
        where = f" (byte {counted(error.start + 1)} is invalid)"
    hint = "Give the encoding that the file has (--encoding), for example cp1252, or export it as UTF-8."
    return argument_error("path", f"be text in the encoding {encoding}{where}", str(path), hint)


def check_expansion(n_bytes: int, path: Path, *, smallest: int = EXPANSION.text) -> int:
    """Return the bytes of memory that a file may need, at least `smallest`; raise an error if it needs `n_bytes`."""
    limit = max(smallest, EXPANSION.ratio * path.stat().st_size)
    if not 0 <= n_bytes <= limit:
        raise argument_error(
            "path",
            f"need at most {fixed(limit / 2**30, 2)} GiB of memory",
            str(path),
            "The file is damaged, or compressed far more than tables usually are. If it is correct, write it without "
            "compression.",
        )
    return limit


def _decompressed(path: Path, decompress: Callable[[Path], Any]) -> bytes:
    """Return the content of a compressed file, within the limit of `check_expansion`."""
    limit = check_expansion(0, path)
    try:
        with decompress(path) as file:
            data: bytes = file.read(limit + 1)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
        if isinstance(error, ArgumentError):
            raise
        hint = f"Copy or export it again. {quoted_reason(error)}"
        raise argument_error("path", f"be a complete {path.suffix.lower()} file", str(path), hint) from error
    check_expansion(len(data), path)
    return data


def _open_zstd(path: Path) -> Any:
    check_installed("Reading .zst files", "study", "pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")


def _open_zip(path: Path) -> Any:
    archive = zipfile.ZipFile(path)
    names = [entry.filename for entry in archive.infolist() if not entry.is_dir() and "__MACOSX" not in entry.filename]
    if len(names) != 1:
        hint = f"It has {listed(names, most=5)}. Extract the one to read." if names else "It is empty."
        raise argument_error("path", "be an archive of one file", str(path), hint)
    return archive.open(names[0])


COMPRESSIONS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
    ".zip": _open_zip,
}
"""Functions that open compressed text files, by suffix."""


def quoted_reason(error: BaseException) -> str:
    """Return the message of a reader's error if it is printable: messages on damaged files may contain raw bytes."""
    reason = " ".join(str(error).split())
    if not reason or not reason.isascii() or not reason.isprintable():
        return ""
    return f"The reader reports: {reason[:200]}"


def _count(content: _Content, signs: str) -> list[int]:
    """Return how often each of some ASCII characters occurs; much faster than `bytes.count` for frequent ones."""
    counts = [0] * len(signs)
    with content.open() as file:
        while chunk := file.read(COUNTED_BYTES):
            codes = np.frombuffer(chunk, dtype=np.uint8)
            for place, sign in enumerate(signs):
                if sign.encode() in chunk:
                    counts[place] += int(np.count_nonzero(codes == ord(sign)))
    return counts


def _nul_error(content: _Content, layout: _TextLayout) -> ColumnError:
    """Return the error for a NUL character, which names the first line with one and the column."""
    with content.open() as file:
        line, data = next((number, data) for number, data in enumerate(file, start=1) if b"\0" in data)
    place = data[: data.index(b"\0")].count(layout.sep.encode())
    where = f"column {layout.header[place]!r}" if place < len(layout.header) and line > 1 else "the header"
    return ColumnError(
        f"{content.path}: {where} has a NUL character in line {line}. The file is damaged, or it is not text: "
        "export it again, or give its encoding (--encoding)."
    )


def _sample(text: str, sep: str, *, spaces: bool) -> list[list[str]]:
    """Return the first rows without blank lines; fewer if a field is too long."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(
            islice(csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=spaces), SAMPLED_ROWS)
        )
    return [row for row in rows if len(row) > 1 or (row and row[0].strip())]


def _detect(text: str, settings: TextFormat, path: Path) -> _TextLayout:
    """Detect how the fields of a text are arranged."""
    declared = re.match(r"sep=(.)\r?\n", text)
    if declared is not None:
        text = text[declared.end() :]
    sep = settings.sep or (declared.group(1) if declared is not None else _detect_sep(text, path))
    spaces = f'{sep} "' in text and f'{sep}"' not in text
    rows = _sample(text, sep, spaces=spaces)
    if not rows:
        raise argument_error("path", "have a line of column names", str(path), "Its first line is too long.")
    header, body = rows[0], rows[1:]
    if body and len(body[0]) == len(header) + 1 and all(len(row) > len(header) and row[-1] == "" for row in body):
        header = [*header, ""]  # every row, but not the header, ends with a separator
    decimal = settings.decimal or ("," if sep != "," and _has_decimal_comma(body) else ".")
    has_row_names = bool(body) and all(len(row) == len(header) + 1 for row in body)
    if body and len(body[0]) > len(header) and not has_row_names:
        raise argument_error(
            "path",
            f"have a name for every field: the header has {len(header)} fields, the next line {len(body[0])}",
            str(path),
            "Remove lines above the header, or complete the header.",
        )
    return _TextLayout(sep, decimal, tuple(header), declared is not None, has_row_names, spaces)


def _detect_sep(text: str, path: Path) -> str:
    """Return the separator that gives rows and header the same number of fields; a comma if there is none."""
    best, best_share = ",", 0.0
    for sep in SEPARATORS:
        counts = [len(row) for row in _sample(text, sep, spaces=False)]
        if not counts or max(counts) < 2:
            continue
        if counts[0] == 1:
            _refuse_titles(counts, sep, path)
            continue
        share = np.mean([n - counts[0] in (0, 1) for n in counts[1:]]) if len(counts) > 1 else 1.0
        if share > best_share + 0.01:
            best, best_share = sep, float(share)
    return best


def _refuse_titles(counts: Sequence[int], sep: str, path: Path) -> None:
    """Raise an error if a table starts below a title."""
    below = counts[next(place for place, n in enumerate(counts) if n > 1) :]
    if len(below) >= 3 and len(counts) - len(below) <= 20 and len(set(below)) == 1 and below[0] > 2 and sep != ",":
        raise argument_error(
            "path",
            f"begin with the column names: its first line has 1 field, later ones {below[0]}, separated by "
            f"{SEPARATORS[sep]}",
            str(path),
            "Remove the lines above the names, or give the separator (--sep).",
        )


def _has_decimal_comma(rows: list[list[str]]) -> bool:
    """Return whether numbers have a decimal comma; commas between groups of three digits do not count."""
    fields = [field.strip() for row in rows for field in row]
    with_comma = [field for field in fields if COMMA_NUMBER.fullmatch(field)]
    if not any(re.fullmatch(r"[+-]?(0+,\d+|\d{4,},\d+|\d+,(\d{1,2}|\d{4,}))", field) for field in with_comma):
        return False
    return not any(POINT_NUMBER.fullmatch(field) and not GROUPED.fullmatch(field) for field in fields)


def _describe(encoding: str, layout: _TextLayout) -> str:
    sep = SEPARATORS.get(layout.sep, repr(layout.sep))
    decimal = "comma" if layout.decimal == "," else "point"
    return (
        f"Format: fields separated by {sep}, decimal {decimal}, encoding {encoding}. "
        "Other formats: --sep, --decimal, --encoding."
    )


def _parse(content: _Content, layout: _TextLayout) -> pd.DataFrame:
    """Return the table; errors of the parser name the line."""
    settings: dict[str, Any] = {
        "sep": layout.sep,
        "decimal": layout.decimal,
        "skipinitialspace": layout.spaces,
        "encoding": "utf-8",
        "skiprows": int(layout.sep_line),
    }
    if not layout.has_row_names:
        # Without names, the parser would treat the first fields of longer rows as an index.
        settings |= {"names": [*range(len(layout.header))], "header": 0, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.DtypeWarning)
            try:
                with content.open() as file:
                    frame: pd.DataFrame = pd.read_csv(file, **settings)
            except pd.errors.DtypeWarning:  # a column has numbers in one part of a file, and text in another
                with content.open() as file:
                    frame = pd.read_csv(file, low_memory=False, **settings)
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError, MemoryError) as error:  # the errors of pandas' parsers are subclasses
        raise argument_error("path", "be a readable text file", str(content.path), _parser_reason(error)) from error
    return frame


def _parser_reason(error: BaseException) -> str:
    """Return the problem with a line, and the next step."""
    long = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if long is not None:
        expected, line, n_fields = long.groups()
        return (
            f"Line {line} has {n_fields} fields, lines before have {expected}: put texts that contain the separator in "
            "quotation marks, or give the separator (--sep)."
        )
    opened = re.search(r"EOF inside string starting at row (\d+)", str(error))
    if opened is not None:
        return f"The quotation mark that opens in row {int(opened.group(1)) + 1} is not closed. Close it."
    return quoted_reason(error) or "Export it again."


def _check_lines(
    frame: pd.DataFrame, content: _Content, layout: _TextLayout, *, n_newlines: int, n_quotes: int
) -> list[str]:
    """Compare rows with lines: report rows with too few fields; raise an error if a stray quotation mark joins rows.

    The file is read a second time only if something may be wrong: a value in the last column is missing, or there are
    more lines than rows.
    """
    n_above, n_fields = 1 + layout.sep_line, len(layout.header) + layout.has_row_names
    has_texts = n_quotes > 0 and n_newlines > len(frame) + n_above
    is_short = frame.shape[1] > 1 and bool(frame.iloc[:, -1].isna().any())
    if not n_quotes and is_short:  # no row has more fields than the header, so counting separators is enough
        is_short = _count(content, layout.sep)[0] < (n_fields - 1) * (len(frame) + 1)
    if not has_texts and not is_short:
        return []
    n_rows, n_short, first_short, stray = _survey_rows(content, layout, n_fields)
    if has_texts and (stray or n_rows - n_above > len(frame)):
        raise argument_error(
            "path",
            f"have quotation marks in pairs around fields, which fails in line {stray or 1} or before",
            str(content.path),
            "Remove the stray quotation mark, or double those inside texts.",
        )
    if not n_short or stray:
        return []
    rows = "1 row has" if n_short == 1 else f"{counted(n_short)} rows have"
    return [f"{rows} fewer fields than the header, first in line {first_short}: the rest is taken as missing."]


def _survey_rows(content: _Content, layout: _TextLayout, n_fields: int) -> tuple[int, int, int, int]:
    """Read the fields of all rows; blank lines are none.

    Returns
    -------
    n_rows : int
        Number of rows, with those above the first row of the table.
    n_short, first_short : int
        How many rows of the table have too few fields, and the line, from 1, of the first.
    stray : int
        The line of a quotation mark inside a field that began with one; 0 if there is none.
    """
    n_rows = n_short = first_short = stray = end = 0
    usual = csv.field_size_limit(2**31 - 1)
    with content.open() as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        rows = csv.reader(text, delimiter=layout.sep, skipinitialspace=layout.spaces, strict=True)
        try:
            for fields in rows:
                start, end = end + 1, rows.line_num
                if len(fields) < n_fields:
                    if not fields or (len(fields) == 1 and not fields[0].strip()):
                        continue
                    if n_rows > layout.sep_line:
                        n_short, first_short = n_short + 1, first_short or start
                n_rows += 1
        except csv.Error:
            stray = rows.line_num
        finally:
            csv.field_size_limit(usual)
    return n_rows, n_short, first_short, stray


def name_columns(header: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Return a unique name for every column, and notes on duplicate names.

    Spaces around names are removed.

    Examples
    --------
    >>> name_columns(["area", " area", ""])[0]
    ['area', 'area.1', 'Unnamed: 2']
    """
    stripped = [str(name).strip() for name in header]
    names: list[str] = []
    renamed: dict[str, list[str]] = {}
    taken: set[str] = set()
    for place, name in enumerate(stripped):
        base = new = name or f"Unnamed: {place}"
        count = 0
        while new in taken or (count and new in stripped):
            count += 1
            new = f"{base}.{count}"
        if count:
            renamed.setdefault(base, []).append(new)
        names.append(new)
        taken.add(new)
    notes = [
        f"Column {name!r} occurs {len(others) + 1} times: the others are named {listed(others, most=5)}."
        for name, others in islice(renamed.items(), 5)
    ]
    return names, notes


def _read_groups(frame: pd.DataFrame) -> None:
    """Convert columns with numbers such as "1.234" and "1.234,5", for files with a decimal comma, in place."""
    for place, name in enumerate(frame.columns):
        column = frame[name]
        if not pd.api.types.is_object_dtype(column) and not pd.api.types.is_string_dtype(column):
            continue
        values = column.dropna().unique()
        plain = re.compile(r"[+-]?\d+(,\d+)?")
        if len(values) and all(isinstance(v, str) and (GROUPED.fullmatch(v) or plain.fullmatch(v)) for v in values):
            numbers = {v: float(v.replace(".", "").replace(",", ".")) for v in values}
            frame.isetitem(place, column.map(numbers).to_numpy(dtype=np.float64))
