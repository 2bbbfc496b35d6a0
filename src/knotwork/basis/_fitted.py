"""Fitted encodings of single columns, and the flat table of them that the compiled code reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knotwork.basis._base import Basis, FloatArray, binary_unit
from knotwork.basis._bspline import BSpline, extended
from knotwork.basis._families import TRAITS, Functions, family_name, family_of, heights, make_basis
from knotwork.basis._natural import bends_of
from knotwork.basis._radial import bump_widths


class Formula(IntEnum):
    """Compiled formula of a column."""

    NONE = 0  # without compiled code
    ANY = 1  # polynomials of the functions that vary on an interval
    CUBIC = 2  # B- and M-splines of degree 3, and cyclic ones
    QUARTIC = 3  # I-splines of degree 3
    RAMP = 4  # PLE and scaling
    NATURAL = 5  # natural splines, in all columns
    BUMPS = 6  # radial functions, in all columns


SHAPES: dict[int, tuple[int, int]] = {
    Formula.ANY: (0, 0),
    Formula.CUBIC: (3, 4),
    Formula.QUARTIC: (4, 4),
    Formula.RAMP: (1, 1),
}
"""The degree of the polynomials and their number on an interval for which loops are compiled; 0 for any."""

SMOOTH_LIMIT = 3.0
"""Smooth clipping is ``z / sqrt(1 + (z / limit)**2)``, which lies between -limit and limit."""

LARGEST_BEND = 1e37
"""Limit of the second derivatives of natural splines, so that values stay in the range of float32."""

BISECTIONS = 54
"""Bisections of a domain: as many as a float64 has digits."""

MIN_SUPPORT = 1e-6
"""Heights of M-splines are computed as if their support covered at least this share of the domain."""


@dataclass(frozen=True, eq=False)
class FittedBasis:
    """The encoding of a column by a basis, in `size` columns; those beyond ``basis.size`` are zero."""

    basis: Basis
    size: int

    @property
    def knots(self) -> FloatArray:
        """The interior knots."""
        return self.basis.knots

    @property
    def domain(self) -> tuple[float, float]:
        """The two ends of the basis."""
        return self.basis.domain

    def encode(self, x: FloatArray, extrapolation: str) -> FloatArray:
        """Encode values of shape (n,) into columns of shape (n, size); a missing value gives a row of zeros."""
        out = np.zeros((len(x), self.size))
        out[:, : self.basis.size] = self.basis.encode(x, extrapolation)
        out[np.isnan(x)] = 0.0
        return out


def is_invertible(fitted: object) -> bool:
    """Return whether no two values of a column within its domain have one encoding."""
    if isinstance(fitted, FittedAffine):
        return not fitted.smooth
    return isinstance(fitted, FittedBasis) and fitted.basis.is_monotone


def decode(fitted: "FittedColumn", encoded: FloatArray) -> FloatArray:
    """Return the values of a column from their encoding, of shape (n, size), which `is_invertible`.

    The sum of functions that rise is inverted by bisection. A row of NaN stays NaN.
    """
    if isinstance(fitted, FittedAffine):
        return fitted.shift + fitted.scale * encoded[:, 0]
    sums = encoded.sum(axis=1)
    low, high = (np.full(len(sums), end) for end in fitted.domain)
    for _ in range(BISECTIONS):
        middle = 0.5 * low + 0.5 * high
        is_below = fitted.encode(middle, "clip").sum(axis=1) < sums
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.where(np.isnan(sums), np.nan, 0.5 * low + 0.5 * high)


@dataclass(frozen=True, eq=False)
class FittedAffine:
    """The encoding of a column by ``z = (x - shift) / scale``; if `smooth`, clipped smoothly by `SMOOTH_LIMIT`."""

    shift: float
    scale: float
    smooth: bool = False

    size = 1
    knots = np.empty(0)
    domain = (-np.inf, np.inf)

    def encode(self, x: FloatArray, extrapolation: str) -> FloatArray:
        """Encode values of shape (n,) into one column; only used if `smooth`."""
        del extrapolation
        return np.nan_to_num(_smooth(x, self.shift, self.scale))[:, None]


@dataclass(frozen=True, eq=False)
class FittedPeriodic:
    """The encoding of a column by cosines and sines of its scaled and smoothly clipped value z.

    Without phases b, the columns are ``cos(2 pi c z)`` for all frequencies c, then ``sin(2 pi c z)``, of which the last
    is left out if `size` is odd; with phases they are ``cos(2 pi c z + b)``. `sigma` is the standard deviation of the
    frequencies: a network draws others, and learns them.
    """

    shift: float
    scale: float
    size: int
    sigma: float
    frequencies: FloatArray
    phases: FloatArray | None = None

    knots = np.empty(0)
    domain = (-np.inf, np.inf)

    def encode(self, x: FloatArray, extrapolation: str) -> FloatArray:
        """Encode values of shape (n,) into columns of shape (n, size); a missing value gives a row of zeros."""
        del extrapolation
        angles = 2.0 * np.pi * self.frequencies * _smooth(x, self.shift, self.scale)[:, None]
        if self.phases is None:
            rows = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)[:, : self.size]
        else:
            rows = np.cos(angles + self.phases)
        return np.where(np.isnan(x)[:, None], 0.0, rows)


FittedColumn = FittedBasis | FittedAffine | FittedPeriodic


def _smooth(x: FloatArray, shift: float, scale: float) -> FloatArray:
    """Return scaled and smoothly clipped values; NaN stays."""
    with np.errstate(over="ignore"):
        z = np.clip((0.5 * x - 0.5 * shift) / (0.5 * scale), -1e100, 1e100)  # halves, because x - shift may overflow
    clipped: FloatArray = z / np.sqrt(1.0 + (z / SMOOTH_LIMIT) ** 2)
    return clipped


def fitted_to_json(encoding: FittedColumn) -> dict[str, Any]:
    """Return an encoding as a dictionary for ``json.dumps``; the numbers are exact."""
    if isinstance(encoding, FittedAffine):
        content = {"shift": encoding.shift, "scale": encoding.scale, "domain": list(encoding.domain)}
        return {**content, "smooth": True} if encoding.smooth else content
    if isinstance(encoding, FittedPeriodic):
        phases = None if encoding.phases is None else encoding.phases.tolist()
        return {**vars(encoding), "frequencies": encoding.frequencies.tolist(), "phases": phases}
    return {
        "family": family_name(encoding.basis),
        "degree": encoding.basis.degree,
        "knots": encoding.knots.tolist(),
        "domain": list(encoding.domain),
        "size": encoding.size,
    }


def fitted_from_json(content: Mapping[str, Any]) -> FittedColumn:
    """Return the encoding that `fitted_to_json` wrote."""
    if "frequencies" in content:
        phases = None if content["phases"] is None else np.array(content["phases"])
        return FittedPeriodic(**{**content, "frequencies": np.array(content["frequencies"]), "phases": phases})
    if "family" not in content:
        return FittedAffine(content["shift"], content["scale"], bool(content.get("smooth")))
    basis = make_basis(content["family"], content["knots"], degree=content["degree"], domain=content["domain"])
    return FittedBasis(basis, content["size"])


COLUMN = np.dtype(
    [
        ("source", np.int64),  # input column
        ("kind", np.int64),
        ("formula", np.int64),
        ("degree", np.int64),  # of the polynomials between two knots
        ("window", np.int64),  # number of functions that are not constant 0 or 1 on an interval
        ("n_knots", np.int64),
        ("size", np.int64),
        ("output", np.int64),  # first output column
        ("unit", np.float64),  # factor of x and of all positions, see `binary_unit`
        ("low", np.float64),
        ("high", np.float64),
        ("lines", np.bool_),  # continue in straight lines outside the domain
        ("signed", np.bool_),  # functions may be negative; otherwise negative values are rounding errors
        ("knots", np.int64),  # index of the first interior knot in `CompiledTable.numbers`
        ("edges", np.int64),  # index in `CompiledTable.numbers` of values at the left and at the right end, then slopes
        ("piece", np.int64),  # row of the first interval in `CompiledTable.pieces`
    ],
    align=True,
)
"""One column, as the compiled code reads it."""


class CompiledTable(NamedTuple):
    """Encodings of columns, laid out for the compiled code."""

    columns: npt.NDArray[np.void]  # of type COLUMN
    numbers: FloatArray
    pieces: FloatArray  # a row per interval: its left end, the reciprocal of its width, coefficients power by power
    indicator: bool  # every encoding is followed by a column that is 1 where the value is missing
    plain: tuple[tuple[int, FittedColumn], ...]  # indices and encodings of the columns without compiled code
    extrapolation: str  # treatment of values outside the domain

    @property
    def compiled(self) -> tuple[FloatArray, FloatArray, bool]:
        """The arguments of the compiled functions besides the columns."""
        return self.numbers, self.pieces, self.indicator

    @property
    def width(self) -> int:
        """Number of output columns."""
        return int(self.columns["size"].sum()) + self.indicator * len(self.columns)


@lru_cache(maxsize=64)
def compiled_table(encodings: tuple[FittedColumn, ...], *, extrapolation: str, indicator: bool) -> CompiledTable:
    """Lay out encodings, one per column; for ``extrapolation="error"`` callers have checked that no value is outside.

    The last tables are cached for repeated calls of `transform` with few rows.

    Notes
    -----
    Deviation: heights of M-splines are those on the domain scaled to [0, 1], and at most those of a support as wide as
    `MIN_SUPPORT`, so that a column with an outlier of 1e300 does not overflow.
    """
    rows = [_row(encoding, extrapolation) for encoding in encodings]
    columns = np.zeros(len(encodings), dtype=COLUMN)
    shapes = [row.pieces.shape for row in rows if row is not None]
    pieces = np.zeros((sum(length for length, _ in shapes), max((width for _, width in shapes), default=0)))
    numbers = [np.empty(0)]
    position = piece = 0
    for source, (column, encoding, row) in enumerate(zip(columns, encodings, rows, strict=True)):
        column["source"], column["size"] = source, encoding.size
        if row is None:
            continue
        for name, value in row.fields.items():
            column[name] = value
        column["n_knots"], column["lines"] = len(row.knots), bool(len(row.edges))
        column["formula"] = _formula(column)
        column["knots"], column["edges"], column["piece"] = position, position + len(row.knots), piece
        numbers += [row.knots, row.edges]
        pieces[piece : piece + len(row.pieces), : row.pieces.shape[1]] = row.pieces
        position += len(row.knots) + len(row.edges)
        piece += len(row.pieces)
    widths = columns["size"] + int(indicator)
    columns["output"] = np.cumsum(widths) - widths
    plain = tuple((place, encodings[place]) for place, row in enumerate(rows) if row is None)
    outside = "clip" if extrapolation == "error" else extrapolation
    return CompiledTable(columns, np.concatenate(numbers), pieces, indicator, plain, outside)


def _formula(column: np.void) -> Formula:
    if TRAITS[int(column["kind"])].is_dense:
        return Formula.NATURAL if column["kind"] == Functions.NATURAL else Formula.BUMPS
    shape = int(column["degree"]), int(column["window"])
    return Formula(next((formula for formula, lengths in SHAPES.items() if lengths == shape), Formula.ANY))


class _Row(NamedTuple):
    """An encoding as the compiled code reads it: fields of `COLUMN`, and the rows of its intervals."""

    fields: dict[str, Any]
    pieces: FloatArray
    knots: FloatArray = np.empty(0)
    edges: FloatArray = np.empty(0)


def _row(encoding: FittedColumn, extrapolation: str) -> _Row | None:
    """Return an encoding as the compiled code reads it, or None for functions without compiled code."""
    if isinstance(encoding, FittedAffine) and not encoding.smooth:
        unit, (low, high) = binary_unit(0.0, encoding.scale), encoding.domain
        fields = {"kind": Functions.AFFINE, "degree": 1, "window": 1, "signed": True}
        piece = np.array([[encoding.shift * unit, 1.0 / (encoding.scale * unit), 0.0, 1.0]])
        return _Row(fields | {"unit": unit, "low": low, "high": high}, piece)
    kind = family_of(encoding.basis).kind if isinstance(encoding, FittedBasis) else None
    if kind is None or not isinstance(encoding, FittedBasis):
        return None
    basis = encoding.basis
    unit = binary_unit(*basis.domain)
    breaks = np.concatenate(([basis.domain[0]], basis.knots, [basis.domain[1]])) * unit
    low, high = breaks[[0, -1]]
    weights = np.ones(basis.size)
    degree, window = 1, basis.size
    if TRAITS[kind].is_dense:
        pieces = _bends(breaks) if kind == Functions.NATURAL else _centres(breaks, kind)
    else:
        degree = basis.degree + 1 if kind == Functions.TAILS else basis.degree
        if kind == Functions.UNIT_AREA:
            with np.errstate(over="ignore"):  # an infinite height is bounded by the minimum
                weights = np.minimum((high - low) * heights(breaks, degree), (degree + 1) / MIN_SUPPORT)
        polynomials = _polynomials(breaks, kind, degree, weights)
        window = len(polynomials)
        coefficients = polynomials.transpose(1, 2, 0).reshape(len(breaks) - 1, -1)
        pieces = np.column_stack([breaks[:-1], 1.0 / np.diff(breaks), coefficients])
    is_unbounded = extrapolation == "continue" and kind != Functions.NATURAL and not basis.is_cyclic
    has_lines = extrapolation in ("linear", "continue") and not is_unbounded and not basis.is_cyclic
    if is_unbounded:
        low, high = -np.inf, np.inf
    fields = {"kind": kind, "degree": degree, "window": window, "signed": is_unbounded or TRAITS[kind].is_dense}
    edges = _edges(basis, kind, breaks, weights, window) if has_lines else np.empty(0)
    return _Row(fields | {"unit": unit, "low": low, "high": high}, pieces, breaks[1:-1], edges)


def _edges(basis: Basis, kind: int, breaks: FloatArray, weights: FloatArray, window: int) -> FloatArray:
    """Return values, then slopes, of the first functions at the left end and of the last at the right end."""
    functions = BSpline(basis.knots, basis.domain, basis.degree) if kind == Functions.UNIT_AREA else basis
    rows = [function(breaks[[0, -1]], breaks) * weights for function in (functions._values, functions._slopes)]
    if kind == Functions.TAILS:
        rows[0] = np.repeat([[0.0], [1.0]], basis.size, axis=1)  # without rounding errors
    return np.concatenate([part for left, right in rows for part in (left[:window], right[-window:])])


def _bends(breaks: FloatArray) -> FloatArray:
    """Return the pieces of natural splines: a row per interval with its left end and the reciprocal of its width.

    They are followed by two rows for each interval: the second derivatives of all functions at its left end and at its
    right end, times the square of its width over 6.
    """
    bends, widths = bends_of(breaks)
    pieces = np.zeros((3 * len(widths), len(breaks)))
    pieces[: len(widths), :2] = np.column_stack([breaks[:-1], 1.0 / np.diff(breaks)])
    both = np.stack([bends[:-1], bends[1:]], axis=1) * (widths**2 / 6.0)[:, None, None]
    pieces[len(widths) :] = np.clip(both, -LARGEST_BEND, LARGEST_BEND).reshape(-1, len(breaks))
    return pieces


def _centres(breaks: FloatArray, kind: int) -> FloatArray:
    """Return a row per radial function: its centre, and the factor of distances to it."""
    if kind == Functions.RADIAL:
        return np.column_stack([breaks, np.sqrt(0.5 / np.log(2.0)) / bump_widths(breaks)])
    return np.column_stack([breaks[:-1], np.full(len(breaks) - 1, 1.0 / (breaks[-1] - breaks[0]))])


def _polynomials(breaks: FloatArray, kind: int, degree: int, weights: FloatArray) -> FloatArray:
    """Return the polynomials of the functions that vary on an interval, by function, interval and power.

    This is the triangular scheme of `local_bsplines`, on polynomials in ``v = (x - left end) / width`` in place of
    values.
    """
    interval, start, width = np.arange(len(breaks) - 1), breaks[:-1], np.diff(breaks)
    t = extended(breaks, max(degree - 1, 0), cyclic=kind == Functions.CYCLIC)
    first = interval + max(degree - 1, 0)
    values = np.zeros((degree + 1, len(interval), degree + 1))
    values[0, :, 0] = 1.0
    for q in range(1, degree + 1):
        from_left = np.zeros((len(interval), degree + 1))
        for r in range(q):
            left, right = t[first + r + 1 - q], t[first + r + 1]
            span = (right - left)[:, None]
            rising = np.roll(values[r], 1, axis=1) * (width[:, None] / span)  # times v; the last power is still zero
            values[r], from_left = (
                from_left + values[r] * ((right - start)[:, None] / span) - rising,
                values[r] * ((start - left)[:, None] / span) + rising,
            )
        values[q] = from_left
    if kind == Functions.TAILS:
        values = np.cumsum(values[:0:-1], axis=0)[::-1]
    if kind == Functions.UNIT_AREA:
        values *= weights[interval + np.arange(degree + 1)[:, None]][:, :, None]
    if kind == Functions.CYCLIC:
        for r in range(len(interval), degree + 1):  # several functions of few intervals are one
            values[r % len(interval)] += values[r]
        values = values[: len(interval)]
    return values
