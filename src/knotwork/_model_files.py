"""Model files: tensors in the safetensors format, and one JSON text with everything else; no code.

A hostile file is rejected before it takes memory: the size of its header and the lengths of tensors are limited by the
size of the file. `Writer` turns settings and fitted values into JSON and arrays, and `Reader` turns them back: frozen
dataclasses, which check themselves, in tuples, lists and mappings, with values of the annotated types.
"""

import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, final, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

import knotwork
from knotwork._checks import argument_error, check_choice, listed, printable, type_error
from knotwork._files import write_atomically
from knotwork.errors import PersistenceError

Array = npt.NDArray[Any]

SCHEMA = 10
"""Version of the content of model files, the only one that can be read."""

SCALARS = (bool, int, float, str)
"""The types of single values."""

JSON_TYPES: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    **{kind: (kind,) for kind in (bool, int, str, NoneType)},
}
"""The types of JSON for the annotated type of a single value: integers count as floats, truth values not as numbers."""

TENSOR_TYPES = {"F32": "float32", "F64": "float64", "I32": "int32", "BOOL": "bool"}
"""The valid types of tensors in a file."""

KEY, DIGEST = "knotwork", "sha256"
"""Keys of the file's metadata: the JSON, and its checksum."""


@dataclass(frozen=True)
class FileLimits:
    """Limits on files, so that a hostile one cannot take far more memory than its size.

    Parameters
    ----------
    n_tensors : int
        Maximum number of tensors: far more than any model has.
    empty_length : int
        Maximum length of a tensor without elements, in files that have fewer elements.
    json_length : int
        Maximum length of the JSON: readers of the format reject headers of more than 100 MB.
    json_values : int
        Maximum number of values in the JSON of a file without large tensors: each may take 30 times the memory of its
        text.
    """

    n_tensors: int = 20_000
    empty_length: int = 1024
    json_length: int = 90_000_000
    json_values: int = 1_000_000


FILE_LIMITS = FileLimits()

QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


def write_model_file(path: str | Path, content: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a model to one file; an existing file is replaced only when the new one is complete.

    Parameters
    ----------
    path : str or Path
        The file.
    content : dict
        Everything except arrays, schema, version and checksum, as JSON types.
    arrays : mapping from str to ndarray
        All arrays by name.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    about = {"schema": SCHEMA, "version": knotwork.__version__, "checksum": checksum(arrays, arrays.__getitem__)}
    text = json.dumps(about | content, allow_nan=False)
    n_bytes = sum(array.nbytes for array in arrays.values())
    if len(text) > FILE_LIMITS.json_length or n_values(text) > most_values(n_bytes):
        raise PersistenceError(
            f"The estimator cannot be saved: its columns have too many categories, {len(text) / 1e6:.0f} MB of text. "
            "Drop columns that are identifiers, and fit again."
        )
    write_atomically(path, lambda file: _write_tensors(file, arrays, {KEY: text, DIGEST: _digest(text)}))


def _write_tensors(file: Any, arrays: Mapping[str, Array], metadata: dict[str, str]) -> None:
    """Write arrays in the safetensors format: the length of a header in JSON, the header, and the arrays."""
    names = sorted(
        arrays, key=lambda name: (-arrays[name].itemsize, name)
    )  # so that each begins at a multiple of its type
    kinds = {dtype: kind for kind, dtype in TENSOR_TYPES.items()}
    header: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name in names:
        end = start + arrays[name].nbytes
        header[name] = {
            "dtype": kinds[arrays[name].dtype.name], "shape": arrays[name].shape, "data_offsets": [start, end]
        }  # fmt: skip
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        file.write(arrays[name].data)


def checksum(names: Iterable[str], read: Callable[[str], Array]) -> int:
    """Return a checksum of all arrays; it protects against accidents, not against attacks."""
    total = 0
    for name in sorted(names):
        total = zlib.crc32(read(name).reshape(-1).view(np.uint8), zlib.crc32(name.encode(), total))
    return total


@contextmanager
def open_model_file(path: str | Path) -> Iterator["ModelFile"]:
    """Open a model file; all errors in its content are raised as a `PersistenceError`.

    Parameters
    ----------
    path : str or Path
        The file.

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
    try:
        file = TensorFile(path)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise PersistenceError(
            f"{str(path)!r} is not a knotwork file, or is damaged or truncated: {printable(str(error)[:400])}. "
            "Save the estimator again, or copy the file again."
        ) from error
    try:
        yield ModelFile(_read_json(path, file.metadata), file)
    except PersistenceError:
        raise
    except (ValueError, TypeError, OverflowError, LookupError, RuntimeError, MemoryError) as error:
        raise _damaged(path, error) from error


@final
class TensorFile:
    """An open file in the safetensors format, whose arrays are read one by one.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= FILE_LIMITS.json_length:
                raise ValueError("the length of its header is not valid")
            header = json.loads(file.read(length))
        self.metadata: Any = header.pop("__metadata__", None)
        self.types: dict[str, str | None] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._path, self._starts = path, dict[str, int]()
        n_bytes = path.stat().st_size - 8 - length
        at = 0
        for name, about in sorted(header.items(), key=lambda each: each[1]["data_offsets"]):
            (start, end), shape = about["data_offsets"], about["shape"]
            self.types[name] = dtype = TENSOR_TYPES.get(about["dtype"])
            if not all(type(n) is int and n >= 0 for n in (start, end, *shape)) or start != at:
                raise ValueError("the places of its tensors are not valid")
            if dtype is not None and end - start != math.prod(shape) * np.dtype(dtype).itemsize:
                raise ValueError("the lengths of its tensors are not valid")
            self.shapes[name], self._starts[name], at = tuple(shape), 8 + length + start, end
        if at != n_bytes:
            raise ValueError("its tensors are not complete, or more follows them")

    def read(self, name: str) -> Array:
        """Return an array."""
        dtype, shape = np.dtype(self.types[name]), self.shapes[name]
        count = math.prod(shape)
        stored = np.fromfile(self._path, dtype.newbyteorder("<"), count, offset=self._starts[name]) if count else ()
        array: Array = np.asarray(stored, dtype=dtype).reshape(shape)
        return array


def most_values(n_bytes: int) -> int:
    """Return the largest number of values in the JSON of a file with tensors of `n_bytes` bytes.

    Each category has an embedding of 16 bytes or more, unless categories are codes.
    """
    return max(FILE_LIMITS.json_values, n_bytes // 16)


def n_values(text: str) -> int:
    """Return an upper bound on the number of values in JSON, without parsing it."""
    counted = sum(text.count(mark) for mark in ",[{")
    return counted if counted <= FILE_LIMITS.json_values else sum(QUOTED.sub("", text).count(mark) for mark in ",[{")


def _check_header(path: Path) -> None:
    """Raise an error if parsing the header would take far more memory than the size of the file."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
        if n_header > FILE_LIMITS.json_length:
            return  # the reader of the format rejects it
        header = file.read(n_header)
    # Marks inside text count as well; `_read_json` compares the exact number.
    if sum(header.count(mark) for mark in (b",", b"[", b"{")) > 3 * most_values(path.stat().st_size - n_header):
        raise _damaged(path, "its header has too many values.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_json(path: Path, metadata: Any) -> dict[str, Any]:
    """Return the JSON of a file; raise an error if it is damaged or has another schema."""
    if not isinstance(metadata, dict) or KEY not in metadata:
        raise PersistenceError(
            f"{str(path)!r} contains tensors, but no knotwork estimator. Load a file written by estimator.save."
        )
    if metadata != {KEY: metadata[KEY], DIGEST: _digest(metadata[KEY])}:
        raise _damaged(path, "its text was changed after it was saved.")
    if n_values(metadata[KEY]) > most_values(path.stat().st_size):
        raise _damaged(path, "its header has too many values.")
    try:
        content = json.loads(metadata[KEY], parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(content, dict) or type(content.get("schema")) is not int or content["schema"] < 1:
        raise _damaged(path, "it has no valid schema.")
    if content["schema"] != SCHEMA:
        version = printable(str(content.get("version"))[:40])
        is_older = content["schema"] < SCHEMA
        step = "Fit the estimator again with this version, and save it." if is_older else "Update knotwork."
        raise PersistenceError(
            f"{str(path)!r} was written by {'an older' if is_older else 'a newer'} version, knotwork {version}, with "
            f"schema {content['schema']}; knotwork {knotwork.__version__} reads schema {SCHEMA}. {step}"
        )
    entries = ["schema", "version", "checksum", "class", "parameters", "model"]
    check_entries(content, "content", [*entries, *(["graph"] if "graph" in content else [])])
    return content


def _damaged(path: str | Path, reason: object) -> PersistenceError:
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


@final
class Writer:
    """Turns values into JSON; arrays are collected in `arrays`, by the path of names that leads to them.

    A tuple becomes a list. Any other compound value becomes an object with a ``"type"``: lists, mappings (in JSON, keys
    can only be text), arrays, and dataclasses with their fields.

    Parameters
    ----------
    kinds : mapping from str to type
        The dataclasses that may be written, by the name that they have in files.
    """

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self._kinds, self.arrays = kinds, dict[str, Array]()

    def write(self, value: Any, name: str = "") -> Any:
        """Return a value as types of JSON."""
        value = value.value if isinstance(value, Enum) else value.item() if isinstance(value, np.generic) else value
        if value is None or type(value) in SCALARS:
            return value
        if isinstance(value, np.ndarray):
            self.arrays[name] = value
            return {"type": "array"}
        if isinstance(value, tuple):
            return [self.write(each, f"{name}{place}") for place, each in enumerate(value)]
        label, settings = self._settings(value, name)
        return {"type": label, **{key: self.write(each, _path(name, key)) for key, each in settings.items()}}

    def _settings(self, value: Any, name: str) -> tuple[str, dict[str, Any]]:
        if isinstance(value, list):
            return "list", {"items": tuple(value)}
        if isinstance(value, Mapping):
            return "mapping", {"keys": tuple(value), "values": tuple(value.values())}
        for label, kind in self._kinds.items():
            if type(value) is kind:
                return label, {each.name: getattr(value, each.name) for each in fields(kind)}
        if any(map(callable, (value, getattr(value, "function", None)))):
            reason = "because model files contain no code. Use pickle, or fit with a named objective."
            raise PersistenceError(f"{_last(name)}={value!r} cannot be saved, {reason}")
        step = "Set it to a plain value with set_params, then save again."
        raise PersistenceError(f"{_last(name)}={value!r} cannot be saved. {step}")


@final
class ModelFile:
    """An open model file, with the types and shapes of its arrays.

    Parameters
    ----------
    content : dict
        Its JSON.
    file : TensorFile
        Its arrays.
    """

    def __init__(self, content: dict[str, Any], file: TensorFile) -> None:
        self.content, self._file = content, file
        self._types, self.shapes = file.types, file.shapes
        if len(self.shapes) > FILE_LIMITS.n_tensors:
            raise argument_error("tensors", f"be at most {FILE_LIMITS.n_tensors}", len(self.shapes))
        self.n_elements = sum(map(math.prod, self.shapes.values()))
        self._read: set[str] = set()
        for name, shape in self.shapes.items():  # with a length of 0 among them, the others may be anything
            if max(shape, default=0) > max(self.n_elements, FILE_LIMITS.empty_length):
                raise argument_error(name, "have lengths that are not larger than the file", shape)

    def check(self, name: str, shape: Sequence[int | None] | None = None, dtype: str | None = None) -> None:
        """Check that an array is in the file, and its shape and type if they are known; None is any length."""
        if name not in self.shapes:
            raise argument_error("tensors", f"include {name!r}", len(self.shapes))
        if self._types[name] not in TENSOR_TYPES.values() or dtype not in (None, self._types[name]):
            raise argument_error(name, f"be of type {dtype or listed(TENSOR_TYPES.values())}", self._types[name])
        if shape is not None:
            check_shape(name, self.shapes[name], shape)

    def array(
        self, name: str, shape: Sequence[int | None] | None = None, dtype: str | None = None, *, is_finite: bool = True
    ) -> Array:
        """Return an array whose shape and type are checked before it is read."""
        self.check(name, shape, dtype)
        self._read.add(name)
        array = self._file.read(name)
        if is_finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise argument_error(name, "be finite", "NaN or infinity")
        return array

    def ignore(self, prefix: str) -> None:
        """Let arrays whose names begin with a prefix be in the file without being read."""
        self._read.update(name for name in self.shapes if name.startswith(prefix))

    def check_arrays(self) -> None:
        """Check that all arrays of the file were read, and that none was changed by accident."""
        unknown = sorted(set(self.shapes) - self._read)
        if unknown:
            raise argument_error("tensors", "be those of the estimator", unknown[:5])
        if checksum(self.shapes, self._file.read) != self.content.get("checksum"):
            raise argument_error("checksum", "agree with the tensors", self.content.get("checksum"))


@final
class Reader:
    """Turns the output of `Writer` back into values of the annotated types.

    Parameters
    ----------
    kinds : mapping from str to type
        The dataclasses that may be read, by the name that they have in files.
    file : ModelFile, optional
        The file that has the arrays.
    check : callable, optional
        Called with each dataclass and its settings before it is made, to refuse one that would take too much memory.
    """

    def __init__(
        self,
        kinds: Mapping[str, type],
        file: ModelFile | None = None,
        check: Callable[[type, dict[str, Any]], None] | None = None,
    ) -> None:
        self._kinds, self._file, self._check = kinds, file, check

    def read(self, content: Any, hint: Any, name: str = "") -> Any:
        """Return the value that was written, which must be of an annotated type; `name` is its path, for errors."""
        if isinstance(hint, type) and issubclass(hint, Enum):
            return hint(check_choice(content, _last(name), [each.value for each in hint]))
        value = self._value(content, name)
        if not _is_of_type(value, hint):
            type_name = hint.__name__ if isinstance(hint, type) else re.sub(r"\w+\.", "", str(hint))
            raise type_error(_last(name), f"be of type {type_name}", type(value).__name__)
        return value

    def _value(self, content: Any, name: str) -> Any:
        if isinstance(content, list):
            if {list, dict}.isdisjoint(map(type, content)):  # most long lists are of single values
                return tuple(content)
            return tuple(self._value(each, f"{name}{place}") for place, each in enumerate(content))
        if not isinstance(content, dict):
            return content
        label = check_choice(content.get("type"), f"type of {_last(name)}", (*CONTAINERS, *self._kinds))
        kind = self._kinds.get(label)
        hints = CONTAINERS[label] if kind is None else _hints(kind)
        check_entries(content, _last(name), ("type", *hints))
        if label == "array" and self._file is not None:
            return self._file.array(name)
        settings = {key: self.read(content[key], each, _path(name, key)) for key, each in hints.items()}
        if kind is None:
            return list(settings["items"]) if label == "list" else dict(zip(*settings.values(), strict=True))
        if self._check is not None:
            self._check(kind, settings)
        return kind(**settings)


CONTAINERS: dict[str, dict[str, Any]] = {
    "array": {},
    "list": {"items": tuple[Any, ...]},
    "mapping": {"keys": tuple[Any, ...], "values": tuple[Any, ...]},
}
"""The entries of objects that are not dataclasses."""


def check_entries(content: Any, name: str, entries: Collection[str]) -> None:
    """Check that content is a dict with these entries, and no others."""
    if not isinstance(content, dict):
        raise type_error(name, "be a dict", type(content).__name__)
    if set(content) != set(entries):
        raise argument_error(name, f"have the entries {listed(entries, most=40)}", listed(content))


def check_shape(name: str, shape: Sequence[int], expected: Sequence[int | None]) -> None:
    """Check a shape; None stands for any length."""
    if len(shape) != len(expected) or any(n not in (None, length) for n, length in zip(expected, shape, strict=True)):
        raise argument_error(name, f"be of shape {tuple(expected)}", tuple(shape))


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the annotated type of each field; `Any` if a user's class has annotations that cannot be resolved."""
    try:
        hints = get_type_hints(kind)
    except NameError:
        hints = {}
    return {each.name: hints.get(each.name, Any) for each in fields(kind)}


def _is_of_type(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotated type."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_of_type(value, part) for part in parts)
    if kind in JSON_TYPES:
        return type(value) in JSON_TYPES[kind]
    if kind is np.ndarray and isinstance(value, np.ndarray):
        (dtype,) = get_args(parts[1])
        return dtype is Any or value.dtype == dtype
    is_any = kind is Any or not isinstance(kind, type)
    return is_any or (isinstance(value, kind) and _has_items(value, kind, parts))


def _has_items(value: Any, kind: type, parts: tuple[Any, ...]) -> bool:
    """Return whether the items of a tuple, a sequence or a mapping are of annotated types."""
    if kind is tuple and parts and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(map(_is_of_type, value, parts))
    if isinstance(value, Mapping) and len(parts) == 2:
        return all(_is_of_type(item, part) for pair in value.items() for item, part in zip(pair, parts, strict=True))
    return not parts or all(_is_of_type(each, parts[0]) for each in value)


def _path(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field


def _last(name: str) -> str:
    return name.rpartition(".")[2] or "model"
