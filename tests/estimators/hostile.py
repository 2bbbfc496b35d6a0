"""Tables and targets that are hard to train on, by name; each is made from a random generator and a number of rows."""

import numpy as np
import pandas as pd
import polars as pl

__all__ = ["CLASSES", "COLUMNS", "TARGETS", "as_container", "make_frame"]

LARGEST = np.finfo(np.float64).max


def _integers(dtype):
    limits = np.iinfo(dtype)
    return lambda rng, n: rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)


def _nullable(values, dtype, rng):
    series = pd.Series(values, dtype=dtype)
    series[rng.random(len(values)) < 0.3] = pd.NA
    return series


def _objects(choices):
    def make(rng, n):
        values = np.empty(n, dtype=object)
        values[:] = [choices[place] for place in rng.integers(len(choices), size=n)]
        return values

    return make


def _outlier(rng, n):
    values = rng.normal(size=n)
    values[rng.integers(n)] = 1e300
    return values


def _holes(rng, n):
    return np.where(rng.random(n) < 0.4, np.nan, rng.normal(size=n))


COLUMNS = {
    **{name: _integers(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: lambda rng, n, name=name: rng.normal(size=n).astype(name) for name in ("float16", "float32", "float64")},
    "bool": lambda rng, n: rng.random(n) < 0.5,
    "Int64": lambda rng, n: _nullable(rng.integers(-5, 5, n), "Int64", rng),
    "Float64": lambda rng, n: _nullable(rng.normal(size=n), "Float64", rng),
    "boolean": lambda rng, n: _nullable(rng.random(n) < 0.5, "boolean", rng),
    "text": _objects(list("abcdefgh")),
    "text with holes": _objects(["red", "", "NaN", None, "ß\n"]),
    "category": lambda rng, n: pd.Categorical.from_codes(rng.integers(-1, 3, n), ["x", "y", "z"]),
    "category of numbers": lambda rng, n: pd.Categorical(rng.integers(0, 3, n), ordered=True),
    "mixed": _objects([1, "a", None, 2.5, True, "1"]),
    "objects": _objects([1, 2.5, True, None, float("nan")]),
    "constant": lambda rng, n: np.full(n, 3.7),
    "zeros of both signs": lambda rng, n: rng.choice([0.0, -0.0], n),
    "ties": lambda rng, n: np.where(rng.random(n) < 0.9, 1.0, rng.normal(size=n)),
    "two values": lambda rng, n: rng.choice([1.0, np.nextafter(1.0, 2.0)], n),
    "tiny": lambda rng, n: 1e-300 * rng.normal(size=n),
    "huge": lambda rng, n: 1e300 * rng.normal(size=n),
    "subnormal": lambda rng, n: 5e-324 * rng.integers(0, 4, n),
    "ends": lambda rng, n: rng.choice([-LARGEST, 0.0, LARGEST], n),
    "outlier": _outlier,
    "offset": lambda rng, n: 1e15 + rng.integers(0, 5, n),
    "lognormal": lambda rng, n: np.exp(100 * rng.normal(size=n)),
    "holes": _holes,
    "missing": lambda rng, n: np.full(n, np.nan),
}
"""Columns of features."""

TARGETS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, 0.1),
    "zero": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: 1e300 * rng.normal(size=n),
    "ends": lambda rng, n: rng.choice([-LARGEST, LARGEST], n),
    "constant and huge": lambda rng, n: np.full(n, -LARGEST),
    "tiny": lambda rng, n: 1e-300 * rng.normal(size=n),
    "subnormal": lambda rng, n: 5e-324 * rng.integers(0, 4, n),
    "outlier": _outlier,
    "offset": lambda rng, n: 1e15 + rng.integers(0, 5, n),
    "integers": lambda rng, n: rng.integers(-3, 3, n),
    "uint8": _integers("uint8"),
    "float16": lambda rng, n: rng.normal(size=n).astype(np.float16),
    "truth": lambda rng, n: rng.random(n) < 0.5,
}
"""Targets of regressions."""

CLASSES = {
    "two": lambda rng, n: rng.integers(0, 2, n),
    "one": lambda rng, n: np.full(n, 7),
    "text": _objects(["yes", "no", "maybe"]),
    "truth": lambda rng, n: rng.random(n) < 0.5,
    "floats": lambda rng, n: rng.choice([-1.0, 2.0], n),
    "one member each": lambda rng, n: np.arange(n)[::-1],
    "a rare one": lambda rng, n: np.where(np.arange(n) == n - 1, "rare", "usual"),
    "many": lambda rng, n: rng.integers(0, 50, n),
    "wide integers": lambda rng, n: rng.choice(np.array([0, 2**63], dtype=np.uint64), n),
}
"""Targets of classifications."""


def make_frame(kinds, n_rows, rng, *, empty_row=False):
    """Return a pandas frame with a column of each kind, whose names are those of the kinds with their places."""
    frame = pd.DataFrame({f"{kind} {place}": COLUMNS[kind](rng, n_rows) for place, kind in enumerate(kinds)})
    if empty_row:
        gone = rng.integers(n_rows)
        frame = frame.astype({name: object for name, kind in frame.dtypes.items() if kind.kind in "biu"})
        frame.loc[gone] = None
    return frame


def as_container(frame, container):
    """Return a pandas frame as a table of another kind."""
    if container == "pandas":
        return frame
    if container == "numpy":
        return frame.to_numpy(dtype=object) if (frame.dtypes == "category").any() else frame.to_numpy()
    columns = {}
    for name in frame:
        values = [None if pd.isna(value) else value for value in frame[name].tolist()]
        if any(isinstance(value, str) for value in values):
            values = [value if value is None else str(value) for value in values]
        columns[name] = pl.Series(name, values, strict=False)
    return pl.DataFrame(columns)
