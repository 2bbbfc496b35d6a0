"""The checksum of the values of a table: differences that matter, and differences that do not."""

import hashlib
import math
import struct

import numpy as np
import pandas as pd
import pytest

from knotwork.datasets._registry import content_sha256, file_sha256

TABLE = pd.DataFrame({"x": [1.5, -2.0, 0.1, 1.5], "n": [1, 2, 3, 4], "town": ["Ulm", "Bonn", "Ulm", "Köln"]})


def by_definition(frame, texts):
    """The definition in the docstring, with Python's integers."""
    wrap, rows = 2**64 - 1, []
    for row in frame.itertuples(index=False):
        h = 0
        for name, value in zip(frame.columns, row, strict=True):
            if name in texts:
                (word,) = struct.unpack("<Q", hashlib.sha256(str(value).encode()).digest()[:8])
            else:
                mantissa, exponent = math.frexp(value)
                (word,) = struct.unpack("<Q", struct.pack("<d", math.ldexp(round(mantissa * 2**30), exponent - 30)))
            h = ((h ^ word) + 0x9E3779B97F4A7C15) & wrap
            h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & wrap
            h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & wrap
            h ^= h >> 31
        rows.append(h)
    names = b"".join(name.encode() + b"\0" for name in frame.columns)
    return hashlib.sha256(names + b"".join(struct.pack("<Q", h) for h in sorted(rows))).hexdigest()


def test_checksum_follows_its_definition():
    assert content_sha256(TABLE, ["town"]) == by_definition(TABLE, ["town"])


@pytest.mark.parametrize(
    "same",
    [
        TABLE.iloc[::-1],
        TABLE.astype({"n": float, "town": "category"}),
        TABLE.astype({"n": "Int32", "town": "string"}),
        TABLE.assign(x=TABLE["x"] * (1 + 1e-13)),
    ],
    ids=["row order", "floats and categories", "nullable", "last digits"],
)
def test_checksum_ignores_order_types_and_last_digits(same):
    assert content_sha256(same, ["town"]) == content_sha256(TABLE, ["town"])


@pytest.mark.parametrize(
    "other",
    [
        TABLE.assign(x=TABLE["x"].to_numpy()[[1, 0, 2, 3]]),
        TABLE.assign(x=TABLE["x"] * (1 + 1e-7)),
        TABLE.assign(town=["Ulm", "Bonn", "Ulm", "Koln"]),
        TABLE.rename(columns={"x": "z"}),
        TABLE[["n", "x", "town"]],
        TABLE.iloc[:3],
        pd.concat([TABLE, TABLE.iloc[:1]]),
        TABLE.assign(x=[1.5, np.nan, 0.1, 1.5]),
        TABLE.assign(town=["Ulm", None, "Ulm", "Köln"]),
    ],
    ids=["values of two rows", "digit", "text", "name", "columns", "fewer", "twice", "missing", "missing text"],
)
def test_checksum_depends_on_values_names_and_order_of_columns(other):
    assert content_sha256(other, ["town"]) != content_sha256(TABLE, ["town"])


def test_zeros_and_missing_values_have_one_form():
    a = pd.DataFrame({"x": [0.0, np.nan, np.inf]})
    b = pd.DataFrame({"x": [-0.0, -np.nan, np.inf]})
    assert content_sha256(a) == content_sha256(b)
    missing = [pd.DataFrame({"t": pd.Series(["a", mark], dtype=object)}) for mark in (None, np.nan, pd.NA)]
    assert len({content_sha256(frame, ["t"]) for frame in missing}) == 1


def test_the_bytes_of_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert file_sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2
