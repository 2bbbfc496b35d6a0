"""Model files: tensors in the safetensors format, and one JSON text with everything else; no code.

A hostile file is rejected before it is parsed: the size of its header is limited by the size of the file.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import knotwork
from knotwork._checks import argument_error, printable
from knotwork._files import write_atomically
from knotwork.errors import PersistenceError

__all__ = ["SCHEMA", "damaged", "most_values", "n_values", "open_model_file", "write_model_file"]

SCHEMA = 7
"""Version of the content of model files, the only one that can be read."""

KEY, DIGEST = "knotwork", "sha256"
"""Keys of the file's metadata: the JSON, and its checksum."""

LONGEST_JSON = 90_000_000
"""Maximum length of the JSON: readers of the format reject headers of more than 100 MB."""

MOST_VALUES = 1_000_000
"""Maximum number of values in the JSON of a file without large tensors: each may take 30 times the memory of its
text."""

QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


def write_model_file(
    path: str | Path, content: dict[str, Any], to_bytes: Callable[[dict[str, str]], bytes], *, n_bytes: int
) -> None:
    """Write a model to one file; an existing file is replaced only when the new one is complete.

    Parameters
    ----------
    path : str or Path
        The file.
    content : dict
        Everything except the tensors and the schema, as JSON types.
    to_bytes : callable
        Returns the file in the safetensors format, given its metadata.
    n_bytes : int
        Size of all tensors.
    """
    text = json.dumps({"schema": SCHEMA, **content}, allow_nan=False)
    if len(text) > LONGEST_JSON or n_values(text) > most_values(n_bytes):
        raise PersistenceError(
            f"The estimator cannot be saved: its columns have too many categories, {len(text) / 1e6:.0f} MB of text. "
            "Drop columns that are identifiers, and fit again."
        )
    file_content = _in_order(to_bytes({KEY: text, DIGEST: _digest(text)}))
    write_atomically(path, lambda file: file.write(file_content))


@contextmanager
def open_model_file(path: str | Path, framework: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Open a model file, and yield its content and the open safetensors file.

    Parameters
    ----------
    path : str or Path
        The file.
    framework : {"pt", "numpy"}
        Library of the tensors that are read.

    Raises
    ------
    PersistenceError
        If the file was not written by knotwork, is damaged, or was written by another version; a ValueError.
    FileNotFoundError
        If the file does not exist.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Pass the path that was passed to save.")
    if not path.is_file():
        raise PersistenceError(f"{str(path)!r} is not a file. Pass the path that was passed to save.")
    _check_header(path)
    if not _is_text(path):
        raise PersistenceError(f"{str(path)!r} has a name that is not UTF-8, which safetensors cannot open. Rename it.")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - an installation without extras has none

    try:
        with safe_open(path, framework=framework) as file:
            yield _read_json(path, file.metadata()), file
    except SafetensorError as error:
        raise PersistenceError(
            f"{str(path)!r} is not a knotwork file, or is damaged or truncated: {printable(str(error)[:400])}. "
            "Save the estimator again, or copy the file again."
        ) from error


def _is_text(path: Path) -> bool:
    """Return whether a path is valid Unicode; otherwise Python represents some bytes by surrogates."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _in_order(content: bytes) -> bytes:
    """Sort the metadata of a safetensors file, which the library writes in random order."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at multiples of eight
    return len(text).to_bytes(8, "little") + text + content[start:]


def most_values(n_bytes: int) -> int:
    """Return the largest number of values in the JSON of a file with tensors of `n_bytes` bytes.

    Each category has an embedding of 16 bytes or more, unless categories are codes.
    """
    return max(MOST_VALUES, n_bytes // 16)


def n_values(text: str) -> int:
    """Return an upper bound on the number of values in JSON, without parsing it."""
    counted = sum(text.count(mark) for mark in ",[{")
    return counted if counted <= MOST_VALUES else sum(QUOTED.sub("", text).count(mark) for mark in ",[{")


def _check_header(path: Path) -> None:
    """Raise an error if parsing the header would take far more memory than the size of the file."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
        if n_header > LONGEST_JSON:
            return  # the reader of the format rejects it
        header = file.read(n_header)
    # Marks inside text count as well; `_read_json` compares the exact number.
    if sum(header.count(mark) for mark in (b",", b"[", b"{")) > 3 * most_values(path.stat().st_size - n_header):
        raise damaged(path, "its header has too many values.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_json(path: Path, metadata: Any) -> dict[str, Any]:
    """Return the JSON of a file; raise an error if it is damaged or has another schema."""
    if not isinstance(metadata, dict) or KEY not in metadata:
        raise PersistenceError(
            f"{str(path)!r} contains tensors, but no knotwork estimator. Load a file written by estimator.save."
        )
    if metadata != {KEY: metadata[KEY], DIGEST: _digest(metadata[KEY])}:
        raise damaged(path, "its text was changed after it was saved.")
    if n_values(metadata[KEY]) > most_values(path.stat().st_size):
        raise damaged(path, "its header has too many values.")
    try:
        content = json.loads(metadata[KEY], parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from error
    if not isinstance(content, dict) or type(content.get("schema")) is not int or content["schema"] < 1:
        raise damaged(path, "it has no valid schema.")
    if content["schema"] != SCHEMA:
        version = printable(str(content.get("version"))[:40])
        is_older = content["schema"] < SCHEMA
        step = "Fit the estimator again with this version, and save it." if is_older else "Update knotwork."
        raise PersistenceError(
            f"{str(path)!r} was written by {'an older' if is_older else 'a newer'} version, knotwork {version}, with "
            f"schema {content['schema']}; knotwork {knotwork.__version__} reads schema {SCHEMA}. {step}"
        )
    return content


def damaged(path: str | Path, reason: object) -> PersistenceError:
    """Return the error for a file whose content is not valid."""
    # A hostile value may be megabytes long.
    return PersistenceError(
        f"{str(path)!r} is damaged or was not written by knotwork: {printable(str(reason)[:400])} "
        "Save the estimator again, or copy the file again."
    )


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise argument_error("numbers", "be finite", text[:40])
    return number
