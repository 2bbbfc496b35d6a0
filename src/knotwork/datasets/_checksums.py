"""Checksums: of the bytes of a file, and of what a table holds, in whatever file and row order."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["content_sha256", "file_sha256"]

Words = npt.NDArray[np.uint64]

MANTISSA_BITS = 30
"""Numbers are compared to about nine digits: copies of one table differ in how they were written and parsed."""


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_sha256(frame: pd.DataFrame, texts: Collection[str] = ()) -> str:
    """Return a checksum of the rows of a table that does not depend on their order or on the types of columns.

    Whole numbers and floats of the same value count as equal, as do numbers that agree to about nine digits, text
    and categories, and all marks of a missing value. Names and order of the columns count.

    Parameters
    ----------
    frame : DataFrame of shape (n, d)
        The table.
    texts : collection of str
        The columns that are compared as text; the others are compared as numbers.

    Notes
    -----
    A value v becomes a word of 64 bits: a number, the bits of v rounded to a mantissa of 30 bits; a text, the first
    eight bytes of its SHA-256. The hash of a row is h_0 = 0, h_j = mix(h_(j-1) XOR v_j) over its d columns, where mix
    is the finalizer of SplitMix64, a bijection. The checksum is the SHA-256 of the names of the columns, each closed
    by a zero byte, and of the n hashes of rows in ascending order.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1, 2], "town": ["Ulm", "Bonn"]})
    >>> again = pd.DataFrame({"x": [2.0, 1.0], "town": ["Bonn", "Ulm"]})
    >>> content_sha256(table, ["town"]) == content_sha256(again, ["town"])
    True
    """
    rows = np.zeros(len(frame), dtype=np.uint64)
    for name in frame.columns:
        rows = _mix(rows ^ (_text_words(frame[name]) if name in texts else _number_words(frame[name])))
    names = b"".join(f"{name}\0".encode() for name in frame.columns)
    return hashlib.sha256(names + np.sort(rows).astype("<u8").tobytes()).hexdigest()


def _number_words(column: "pd.Series[Any]") -> Words:
    """Return the bits of the rounded numbers; one word for 0 and -0, and one for everything missing."""
    mantissa, exponent = np.frexp(column.to_numpy(dtype=np.float64, na_value=np.nan))
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, MANTISSA_BITS)), exponent - MANTISSA_BITS) + 0.0
    return np.where(np.isnan(rounded), np.nan, rounded).view(np.uint64)


def _text_words(column: "pd.Series[Any]") -> Words:
    """Return a word for each text; texts repeat, so that each is hashed once. What is missing is the word 0."""
    codes, labels = pd.factorize(column.astype(object))
    digests = [hashlib.sha256(str(label).encode()).digest()[:8] for label in labels]
    words = np.frombuffer(b"".join([*digests, bytes(8)]), dtype="<u8").astype(np.uint64)
    return words[codes]


def _mix(words: Words) -> Words:
    """Return the finalizer of SplitMix64 of each word; products wrap around."""
    words = (words + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
