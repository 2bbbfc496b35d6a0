"""Damage to files: changes of bytes for any format, and edits of the header for files of safetensors."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["MUTATIONS", "mutate", "mutate_header"]

Generator = np.random.Generator
LENGTHS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
"""Numbers that a damaged length field may have."""


def mutate(data: bytes, random: Generator) -> bytes:
    """Return data after one to four random changes of bytes; it may rarely be equal to the original."""
    for _ in range(1 + int(random.integers(4)) * int(random.integers(2))):
        if data:
            change = MUTATIONS[int(random.integers(len(MUTATIONS)))]
            data = change(data, random)
    return data


def _place(data: bytes, random: Generator) -> int:
    """Return a random position; half of them are near an end, where formats have their headers and footers."""
    near = min(len(data), 64)
    if random.random() < 0.5:
        return int(random.integers(len(data)))
    return int(random.integers(near)) if random.random() < 0.5 else len(data) - 1 - int(random.integers(near))


def _chunk(data: bytes, random: Generator) -> tuple[int, int]:
    """Return start and stop of a random part of at most 4,096 bytes."""
    start = _place(data, random)
    return start, min(len(data), start + 1 + int(random.integers(2 ** int(random.integers(13)))))


def _flip_bits(data: bytes, random: Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 9))):
        changed[_place(data, random)] ^= 1 << int(random.integers(8))
    return bytes(changed)


def _change_bytes(data: bytes, random: Generator) -> bytes:
    changed = bytearray(data)
    start, stop = _chunk(data, random)
    changed[start:stop] = random.bytes(stop - start)
    return bytes(changed)


def _clear(data: bytes, random: Generator) -> bytes:
    start, stop = _chunk(data, random)
    return data[:start] + bytes([(0, 0xFF)[int(random.integers(2))]]) * (stop - start) + data[stop:]


def _cut_short(data: bytes, random: Generator) -> bytes:
    return data[: _place(data, random)]


def _remove(data: bytes, random: Generator) -> bytes:
    start, stop = _chunk(data, random)
    return data[:start] + data[stop:]


def _insert(data: bytes, random: Generator) -> bytes:
    start = _place(data, random)
    return data[:start] + random.bytes(int(random.integers(1, 65))) + data[start:]


def _repeat(data: bytes, random: Generator) -> bytes:
    start, stop = _chunk(data, random)
    return data[:stop] + data[start:stop] * int(random.integers(1, 9)) + data[stop:]


def _swap(data: bytes, random: Generator) -> bytes:
    """Exchange two fields of four or eight bytes, as a writer that mixes up its lengths."""
    width = (4, 8)[int(random.integers(2))]
    if len(data) < 2 * width:
        return data
    one, other = sorted(min(_place(data, random), len(data) - width) for _ in range(2))
    if other - one < width:
        return data
    fields = data[one : one + width], data[other : other + width]
    return data[:one] + fields[1] + data[one + width : other] + fields[0] + data[other + width :]


def _change_length(data: bytes, random: Generator) -> bytes:
    """Write an extreme number where a length may be."""
    width = (4, 8)[int(random.integers(2))]
    number = LENGTHS[int(random.integers(len(LENGTHS)))] % 2 ** (8 * width)
    start = _place(data, random)
    return data[:start] + number.to_bytes(width, "little") + data[start + width :]


MUTATIONS: tuple[Callable[[bytes, Generator], bytes], ...] = (
    _flip_bits,
    _change_bytes,
    _clear,
    _cut_short,
    _remove,
    _insert,
    _repeat,
    _swap,
    _change_length,
)
"""Changes of bytes."""

NUMBERS = (-1, 0, 1, 2, 7, 255, 50_000, 2**31, 2**40, 2**62, 2**63, 10**30, 0.5, -0.0, 1e300)
"""Numbers that replace a number of a header."""

VALUES = (None, True, "", "x", "F64", "I64", "BF16", "BS-Q@6", "__class__", [], {}, [[]], [0], {"a": None})
"""Values that replace any value of a header."""


def mutate_header(data: bytes, random: Generator, *, key: str) -> bytes:
    """Return a file of safetensors after one to three edits of its JSON: shapes, types, counts, entries, depth.

    Parameters
    ----------
    data : bytes
        A valid file.
    random : Generator
        Chooses the edits.
    key : str
        Entry of the metadata that is itself JSON; most edits are made there. The checksum of it is kept valid.
    """
    stop = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:stop])
    metadata = {key: header["__metadata__"][key]}
    tensors: Any = {name: entry for name, entry in header.items() if name != "__metadata__"}
    inside = random.random() < 0.7
    content = json.loads(metadata[key]) if inside else tensors
    for _ in range(int(random.integers(1, 4))):
        content = _edit(content, random)
    if inside:
        metadata[key] = json.dumps(content)
    metadata["sha256"] = hashlib.sha256(metadata[key].encode()).hexdigest()
    header = {"__metadata__": metadata, **(tensors if inside else content)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[stop:]


def _places(content: Any) -> list[tuple[Any, ...]]:
    """Return the paths of the values inside a value of JSON: the first 30,000, and down to a depth of 30."""
    paths: list[tuple[Any, ...]] = []
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), content)]
    while waiting and len(paths) < 30_000:
        path, value = waiting.pop()
        if len(path) > 30 or not isinstance(value, dict | list):
            continue
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        new = [((*path, name), inner) for name, inner in entries]
        paths += [place for place, _ in new]
        waiting += new
    return paths


def _edit(content: Any, random: Generator) -> Any:
    """Return content after one edit of a random value."""
    places = _places(content)
    if not 0 < len(places) < 30_000:  # nothing to edit, or grown by an edit before
        return content
    *path, last = places[int(random.integers(len(places)))]
    parent = content
    for step in path:
        parent = parent[step]
    kind = int(random.integers(8))
    if kind == 0:
        del parent[last]
    elif kind == 1 and isinstance(parent, list):
        parent.extend([parent[last]] * int(random.choice((1, 3, 20_000))))
    elif kind == 1:
        parent[f"{last}x"] = parent[last]
    elif kind == 2:
        deep: Any = parent[last]
        for _ in range(int(random.choice((1, 20, 400)))):
            deep = [deep]
        parent[last] = deep
    elif kind == 3:
        parent[last] = VALUES[int(random.integers(len(VALUES)))]
    elif kind == 4:  # another value of the same file
        *other, name = places[int(random.integers(len(places)))]
        value = content
        for step in (*other, name):
            value = value[step] if _has(value, step) else None
        parent[last] = json.loads(json.dumps(value))
    else:
        parent[last] = _other(parent[last], random)
    return content


def _has(value: Any, step: Any) -> bool:
    return step in value if isinstance(value, dict) else isinstance(value, list) and step < len(value)


def _other(value: Any, random: Generator) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return NUMBERS[int(random.integers(len(NUMBERS)))] if random.random() < 0.7 else value + 1
    if isinstance(value, str):
        return value + "x" if random.random() < 0.5 else value[:-1]
    if isinstance(value, list):
        return value[:-1] if random.random() < 0.5 else value[::-1]
    return {} if isinstance(value, dict) else 0
