"""Blocks, the fitted encodings of single columns, and the flat table that the compiled pass reads them from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from knotwork.basis.base import Basis, FloatArray, SplineBasis, binary_unit
from knotwork.basis.bspline import bspline_slopes, bspline_values
from knotwork.basis.ispline import ISpline
from knotwork.basis.mspline import MSpline, heights
from knotwork.basis.ple import PiecewiseLinear

__all__ = [
    "AFFINE",
    "ANY",
    "CUBIC",
    "CUMULATIVE",
    "LOCAL",
    "MIN_SUPPORT",
    "QUARTIC_TAILS",
    "RAMP",
    "AffineBlock",
    "BasisBlock",
    "Block",
    "Table",
    "make_table",
]

LOCAL, CUMULATIVE, AFFINE = 0, 1, 2
"""Kinds of rows: zeros around a window of values; ones, a window, zeros; one scaled value."""

CUBIC, QUARTIC_TAILS, RAMP, ANY = 1, 2, 3, 4
"""Formulas of the compiled pass: one for all, and faster ones for cubic B-, M- and I-splines and PLE, clipped."""

MIN_SUPPORT = 1e-6
"""Share of the domain that an M-spline's support counts as at least when its height is computed."""


@dataclass(frozen=True, eq=False)
class BasisBlock:
    """A column encoded by a basis.

    Parameters
    ----------
    basis : Basis
        The functions.
    size : int
        Number of columns; those beyond ``basis.size`` are zero.
    """

    basis: Basis
    size: int


@dataclass(frozen=True, eq=False)
class AffineBlock:
    """A column encoded by one scaled value, ``(clip(x, low, high) - shift) / scale``.

    Parameters
    ----------
    shift, scale : float
        What is subtracted, and by what the difference is divided.
    domain : tuple of float
        ``(low, high)``; infinite where nothing is clipped.
    """

    shift: float
    scale: float
    domain: tuple[float, float]
    size: int = 1


Block = BasisBlock | AffineBlock


FORMULAS = {(LOCAL, 3, True): CUBIC, (CUMULATIVE, 4, True): QUARTIC_TAILS, (CUMULATIVE, 1, True): RAMP}
"""The fast formula for a kind, a degree of the scheme, and whether values outside the domain are clipped."""

COLUMN = np.dtype(
    [
        ("source", np.int64),  # input column
        ("kind", np.int64),
        ("formula", np.int64),
        ("degree", np.int64),  # of the B-splines that the triangular scheme computes
        ("window", np.int64),  # number of values that are neither constant zero nor constant one
        ("n_knots", np.int64),
        ("size", np.int64),
        ("output", np.int64),  # first output column
        ("unit", np.float64),  # positions are in this unit: a power of two times x, see `binary_unit`
        ("low", np.float64),
        ("high", np.float64),
        ("clip", np.bool_),  # False: continue in a straight line outside the domain
        ("knots", np.int64),  # where the interior knots begin in `Table.numbers`
        ("edges", np.int64),  # there: the window's values at the left and at the right end, then its slopes
        ("piece", np.int64),  # row of the first interval in `Table.pieces`
    ],
    align=True,
)
"""What the compiled pass knows of one column."""


class Table(NamedTuple):
    """Blocks laid out for the compiled pass."""

    columns: npt.NDArray[np.void]  # of type COLUMN
    numbers: FloatArray
    pieces: FloatArray  # a row per interval: the 2 degree knots around it, the reciprocals of the scheme, the weights
    indicator: bool  # every block is followed by a column that is 1 where the value is missing

    @property
    def width(self) -> int:
        """Number of output columns."""
        return int(self.columns["size"].sum()) + self.indicator * len(self.columns)


def make_table(blocks: Sequence[Block], *, extrapolation: str, indicator: bool) -> Table:
    """Lay out the blocks one after the other.

    Parameters
    ----------
    blocks : sequence of Block
        One per column.
    extrapolation : {"clip", "linear", "error"}
        What happens outside the domain; with ``"error"`` the caller has made sure that nothing is outside.
    indicator : bool
        Whether each block is followed by an indicator of missing values.

    Notes
    -----
    Deviation: heights of M-splines are those on the domain scaled to [0, 1], and a support narrower than
    `MIN_SUPPORT` of it counts as that wide, so that a column with an outlier of 1e300 does not overflow.
    """
    rows = [_spline_row(block) if isinstance(block, BasisBlock) else _affine_row(block) for block in blocks]
    columns = np.zeros(len(blocks), dtype=COLUMN)
    pieces = np.zeros((sum(len(row.pieces) for row in rows), max((row.pieces.shape[1] for row in rows), default=0)))
    numbers: list[FloatArray] = []
    position = piece = 0
    for source, (column, block, row) in enumerate(zip(columns, blocks, rows, strict=True)):
        column["source"], column["formula"] = (
            source,
            FORMULAS.get((row.kind, row.degree, extrapolation != "linear"), ANY),
        )
        column["kind"], column["degree"], column["n_knots"] = row.kind, row.degree, len(row.knots)
        column["window"] = row.degree + (row.kind != CUMULATIVE)
        column["unit"], column["low"], column["high"] = row.unit, *row.domain
        column["size"], column["clip"] = block.size, extrapolation != "linear"
        column["knots"], column["edges"], column["piece"] = position, position + len(row.knots), piece
        numbers += [row.knots, row.edges]
        pieces[piece : piece + len(row.pieces), : row.pieces.shape[1]] = row.pieces
        position += len(row.knots) + len(row.edges)
        piece += len(row.pieces)
    widths = columns["size"] + int(indicator)
    columns["output"] = np.cumsum(widths) - widths
    return Table(columns, np.concatenate([np.empty(0), *numbers]), pieces, indicator)


class _Row(NamedTuple):
    kind: int
    degree: int
    unit: float
    domain: tuple[float, float]
    knots: FloatArray
    edges: FloatArray
    pieces: FloatArray


def _affine_row(block: AffineBlock) -> _Row:
    unit = binary_unit(0.0, block.scale)
    low, high = block.domain
    piece = np.array([[block.shift * unit, 1.0 / (block.scale * unit)]])
    return _Row(AFFINE, 0, unit, (low * unit, high * unit), knots=np.empty(0), edges=np.empty(0), pieces=piece)


def _spline_row(block: BasisBlock) -> _Row:
    basis = block.basis
    degree = basis.degree if isinstance(basis, SplineBasis) else 0
    kind = CUMULATIVE if isinstance(basis, ISpline | PiecewiseLinear) else LOCAL
    scheme = degree + 1 if kind == CUMULATIVE else degree
    unit = binary_unit(*basis.domain)
    low, high = (end * unit for end in basis.domain)
    breaks = np.concatenate(([low], basis.knots * unit, [high]))
    weights = np.ones(basis.size)
    if isinstance(basis, MSpline):
        with np.errstate(over="ignore"):  # what overflows is bounded
            weights = np.minimum((high - low) * heights(breaks, degree), (degree + 1) / MIN_SUPPORT)
    return _Row(
        kind,
        scheme,
        unit,
        (low, high),
        knots=breaks[1:-1],
        edges=_edges(kind, breaks, degree, weights),
        pieces=_pieces(breaks, scheme, weights),
    )


def _pieces(breaks: FloatArray, degree: int, weights: FloatArray) -> FloatArray:
    """For each interval: the 2 degree knots around it, reciprocals of the scheme's denominators, weights."""
    interval = np.arange(len(breaks) - 1)
    t = np.pad(breaks, max(degree - 1, 0), mode="edge")
    first = interval + max(degree - 1, 0)
    around = [t[first + r + 1 - degree] for r in range(2 * degree)]
    shares = [1.0 / (t[first + r + 1] - t[first + r + 1 - q]) for q in range(1, degree + 1) for r in range(q)]
    window = len(weights) - len(breaks) + 2
    return np.stack([*around, *shares, *(weights[interval + r] for r in range(window))], axis=1)


def _edges(kind: int, breaks: FloatArray, degree: int, weights: FloatArray) -> FloatArray:
    """Values and slopes of the first degree + 1 functions at the left end and of the last at the right end."""
    ends = breaks[[0, -1]]
    if kind == CUMULATIVE:
        values = np.array([np.zeros(len(weights)), np.ones(len(weights))])
        slopes = bspline_values(ends, breaks, degree) * heights(breaks, degree)
    else:
        values = bspline_values(ends, breaks, degree) * weights
        slopes = bspline_slopes(ends, breaks, degree) * weights
    window = slice(None, degree + 1), slice(-degree - 1, None)
    return np.concatenate([rows[end, window[end]] for rows in (values, slopes) for end in (0, 1)])
