"""Blocks, which are the fitted encodings of single columns, and the flat table that the compiled code reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knotwork.basis._base import Basis, FloatArray, binary_unit
from knotwork.basis._bspline import bspline_slopes, bspline_values
from knotwork.basis._families import AFFINE, LOCAL, TAILS, UNIT_AREA, family_name, family_of, heights, make_basis

__all__ = [
    "ANY",
    "CUBIC",
    "MIN_SUPPORT",
    "NONE",
    "QUARTIC",
    "RAMP",
    "AffineBlock",
    "BasisBlock",
    "Block",
    "Table",
    "block_from_json",
    "block_to_json",
    "make_table",
]

NONE, CUBIC, QUARTIC, RAMP, ANY = 0, 1, 2, 3, 4
"""Compiled formulas of a column. `NONE`: the block encodes itself; windows of four cubics (B- and M-splines of degree
3), of four quartics (I-splines of degree 3) and of one line (PLE), all for clipped values; `ANY`: everything else."""

MIN_SUPPORT = 1e-6
"""Heights of M-splines are computed as if their support covered at least this share of the domain."""


@dataclass(frozen=True, eq=False)
class BasisBlock:
    """The encoding of a column by a basis, in `size` columns; those beyond ``basis.size`` are zero."""

    basis: Basis
    size: int

    def encode(self, x: FloatArray, extrapolation: str) -> FloatArray:
        """Encode values of shape (n,) into columns of shape (n, size); a missing value gives a row of zeros."""
        out = np.zeros((len(x), self.size))
        out[:, : self.basis.size] = self.basis.encode(x, extrapolation)
        out[np.isnan(x)] = 0.0
        return out


@dataclass(frozen=True, eq=False)
class AffineBlock:
    """The encoding of a column by one number, ``(clip(x, *domain) - shift) / scale``; the domain may be infinite."""

    shift: float
    scale: float
    domain: tuple[float, float]
    size: int = 1


Block = BasisBlock | AffineBlock


def block_to_json(block: Block) -> dict[str, Any]:
    """Return a block as a dictionary for ``json.dumps``; the numbers are exact."""
    if isinstance(block, AffineBlock):
        return {"shift": block.shift, "scale": block.scale, "domain": list(block.domain)}
    return {
        "family": family_name(block.basis),
        "degree": block.basis.degree,
        "knots": block.basis.knots.tolist(),
        "domain": list(block.basis.domain),
        "size": block.size,
    }


def block_from_json(content: Mapping[str, Any]) -> Block:
    """Return the block that `block_to_json` wrote."""
    domain = content["domain"][0], content["domain"][1]
    if "family" not in content:
        return AffineBlock(content["shift"], content["scale"], domain)
    basis = make_basis(content["family"], content["knots"], degree=content["degree"], domain=domain)
    return BasisBlock(basis, content["size"])


FORMULAS = {
    (LOCAL, 3, True): CUBIC,
    (UNIT_AREA, 3, True): CUBIC,
    (TAILS, 4, True): QUARTIC,
    (TAILS, 1, True): RAMP,
}
"""The fast formula by kind, degree of the polynomials, and whether values outside the domain are clipped."""

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
        ("clip", np.bool_),  # False: continue in a straight line outside the domain
        ("knots", np.int64),  # index of the first interior knot in `Table.numbers`
        ("edges", np.int64),  # index in `Table.numbers` of values at the left and at the right end, then slopes
        ("piece", np.int64),  # row of the first interval in `Table.pieces`
    ],
    align=True,
)
"""One column, as the compiled code reads it."""


class Table(NamedTuple):
    """Blocks laid out for the compiled code."""

    columns: npt.NDArray[np.void]  # of type COLUMN
    numbers: FloatArray
    pieces: FloatArray  # a row per interval: its left end, the reciprocal of its width, coefficients power by power
    indicator: bool  # every block is followed by a column that is 1 where the value is missing
    plain: tuple[tuple[int, BasisBlock], ...]  # indices and blocks of the columns without compiled code
    linear: bool  # the functions continue in straight lines outside the domain

    @property
    def compiled(self) -> tuple[FloatArray, FloatArray, bool]:
        """The arguments of the compiled functions besides the columns."""
        return self.numbers, self.pieces, self.indicator

    @property
    def width(self) -> int:
        """Number of output columns."""
        return int(self.columns["size"].sum()) + self.indicator * len(self.columns)


@lru_cache(maxsize=64)
def make_table(blocks: tuple[Block, ...], *, extrapolation: str, indicator: bool) -> Table:
    """Lay out blocks, one per column; with ``extrapolation="error"`` the caller has checked that no value is outside.

    The last tables are cached for repeated calls of `transform` with few rows.

    Notes
    -----
    Deviation: heights of M-splines are those on the domain scaled to [0, 1], and at most those of a support as wide as
    `MIN_SUPPORT`, so that a column with an outlier of 1e300 does not overflow.
    """
    linear = extrapolation == "linear"
    rows = [_row(block, linear=linear) for block in blocks]
    columns = np.zeros(len(blocks), dtype=COLUMN)
    shapes = [row.pieces.shape for row in rows if row is not None]
    pieces = np.zeros((sum(length for length, _ in shapes), max((width for _, width in shapes), default=0)))
    numbers: list[FloatArray] = []
    plain: list[tuple[int, BasisBlock]] = []
    position = piece = 0
    for source, (column, block, row) in enumerate(zip(columns, blocks, rows, strict=True)):
        column["source"], column["size"], column["clip"] = source, block.size, not linear
        if row is None:
            assert isinstance(block, BasisBlock)
            plain.append((source, block))
            continue
        column["formula"] = FORMULAS.get((row.kind, row.degree, not linear), ANY)
        column["kind"], column["degree"], column["n_knots"] = row.kind, row.degree, len(row.knots)
        column["window"] = row.degree + (row.kind != TAILS)
        column["unit"], column["low"], column["high"] = row.unit, *row.domain
        column["knots"], column["edges"], column["piece"] = position, position + len(row.knots), piece
        numbers += [row.knots, row.edges]
        pieces[piece : piece + len(row.pieces), : row.pieces.shape[1]] = row.pieces
        position += len(row.knots) + len(row.edges)
        piece += len(row.pieces)
    widths = columns["size"] + int(indicator)
    columns["output"] = np.cumsum(widths) - widths
    return Table(columns, np.concatenate([np.empty(0), *numbers]), pieces, indicator, tuple(plain), linear)


class _Row(NamedTuple):
    kind: int
    degree: int
    unit: float
    domain: tuple[float, float]
    pieces: FloatArray
    knots: FloatArray = np.empty(0)
    edges: FloatArray = np.empty(0)


def _row(block: Block, *, linear: bool) -> _Row | None:
    """Return a block as the compiled code needs it, or None for a family without compiled code."""
    if isinstance(block, AffineBlock):
        unit = binary_unit(0.0, block.scale)
        low, high = block.domain
        piece = np.array([[block.shift * unit, 1.0 / (block.scale * unit)]])
        return _Row(AFFINE, 0, unit, (low * unit, high * unit), piece)
    basis, kind = block.basis, family_of(block.basis).kind
    if kind is None:
        return None
    scheme = basis.degree + 1 if kind == TAILS else basis.degree
    unit = binary_unit(*basis.domain)
    low, high = (end * unit for end in basis.domain)
    breaks = np.concatenate(([low], basis.knots * unit, [high]))
    weights = np.ones(basis.size)
    if kind == UNIT_AREA:
        with np.errstate(over="ignore"):  # an infinite height is bounded by the minimum
            weights = np.minimum((high - low) * heights(breaks, basis.degree), (basis.degree + 1) / MIN_SUPPORT)
    edges = _edges(kind, breaks, basis.degree, weights) if linear else np.empty(0)
    return _Row(kind, scheme, unit, (low, high), _pieces(breaks, kind, scheme, weights), breaks[1:-1], edges)


def _pieces(breaks: FloatArray, kind: int, degree: int, weights: FloatArray) -> FloatArray:
    """Return a row per interval: left end, reciprocal of the width, and polynomials of the functions that vary there.

    This is the triangular scheme of `local_bsplines`, on polynomials in ``v = (x - left end) / width`` in place of
    values: column ``2 + power * window + r`` has the coefficient of function r.
    """
    interval, start, width = np.arange(len(breaks) - 1), breaks[:-1], np.diff(breaks)
    t = np.pad(breaks, max(degree - 1, 0), mode="edge")
    first = interval + max(degree - 1, 0)
    values = np.zeros((degree + 1, len(interval), degree + 1))  # function, interval, power
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
    if kind == TAILS:
        values = np.cumsum(values[:0:-1], axis=0)[::-1]
    else:
        values = values * weights[interval + np.arange(degree + 1)[:, None]][:, :, None]
    coefficients = values.transpose(1, 2, 0).reshape(len(interval), -1)
    return np.column_stack([start, 1.0 / width, coefficients])


def _edges(kind: int, breaks: FloatArray, degree: int, weights: FloatArray) -> FloatArray:
    """Return values and slopes of the first degree + 1 functions at the left end, and of the last at the right end."""
    ends = breaks[[0, -1]]
    if kind == TAILS:
        values = np.array([np.zeros(len(weights)), np.ones(len(weights))])
        slopes = bspline_values(ends, breaks, degree) * heights(breaks, degree)
    else:
        values = bspline_values(ends, breaks, degree) * weights
        slopes = bspline_slopes(ends, breaks, degree) * weights
    window = slice(None, degree + 1), slice(-degree - 1, None)
    return np.concatenate([rows[end, window[end]] for rows in (values, slopes) for end in (0, 1)])
