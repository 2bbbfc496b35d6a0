"""The triangular scheme on the CPU, compiled, for one value at a time: what the loops over values share."""

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from knotwork._kernels.layout import LOCAL, NORM_EPSILON, NORMALISED, TAILS
from knotwork.basis._compiled import compiled

__all__ = [
    "ROWS_PER_CHUNK",
    "as_array",
    "chunks_of",
    "clip",
    "make_scratch",
    "run_backwards",
    "window_at",
]

# Left to itself the compiler makes calls of these, which costs half as much again: hence `forceinline`.

ROWS_PER_CHUNK = 256
"""Rows that a thread takes at a time. Sums over rows are formed chunk by chunk, so threads do not change them."""


@compiled(forceinline=True)
def _locate(x, breaks, f, n_knots, degree, t):
    """Fill t with the knots around x, those from degree + 1 before its interval to as many after; return it."""
    interval = 0
    for k in range(1, n_knots + 1):
        interval += breaks[f, k] <= x
    for c in range(2 * degree + 2):
        place = interval + c - degree
        place = 0 if place < 0 else place
        t[c] = breaks[f, n_knots + 1 if place > n_knots + 1 else place]
    return interval


@compiled(forceinline=True)
def _levels(x, degree, t, levels):
    """Fill row q of `levels` with the q + 1 B-splines of degree q at x."""
    levels[0, 0] = 1.0
    for q in range(1, degree + 1):
        from_left = 0.0
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            share = levels[q - 1, r] / (right - left)
            levels[q, r] = from_left + (right - x) * share
            from_left = (x - left) * share
        levels[q, q] = from_left


@compiled(forceinline=True)
def _to_unit_area(degree, t, levels):
    """Multiply the last row of `levels` by the heights of M-splines."""
    for r in range(degree + 1):
        levels[degree, r] *= (degree + 1) / (t[degree + r + 1] - t[r])


@compiled(forceinline=True)
def _moments(degree, levels, size):
    """Return the mean of a row of `size` columns that is zero but for the last row of `levels`, and 1 / its spread."""
    total = 0.0
    for r in range(degree + 1):
        total += levels[degree, r]
    mean = total / size
    squares = (size - degree - 1) * mean**2
    for r in range(degree + 1):
        squares += (levels[degree, r] - mean) ** 2
    return mean, 1.0 / np.sqrt(squares / size + NORM_EPSILON)


@compiled(forceinline=True)
def clip(x):
    """Return x, or the end of [0, 1] that is nearer."""
    return 0.0 if x < 0.0 else (1.0 if x > 1.0 else x)


@compiled(forceinline=True)
def window_at(x, breaks, f, n_knots, kind, degree, t, levels):
    """Fill t with the knots around x, and `levels` with the functions there; return interval, mean and 1 / spread.

    Row q of `levels` has the B-splines of degree q, but the last those of the family: B-splines (whose sums from the
    right are the tails), or B-splines times the heights of M-splines. Mean and spread are those of the row, and 0 and
    1 where rows are not normalised.
    """
    interval = _locate(x, breaks, f, n_knots, degree, t)
    _levels(x, degree, t, levels)
    mean, scale = 0.0, 1.0
    if kind not in (LOCAL, TAILS):
        _to_unit_area(degree, t, levels)
        if kind == NORMALISED:
            mean, scale = _moments(degree, levels, n_knots + degree + 1)
    return interval, mean, scale


@compiled(forceinline=True)
def _before_normalising(degree, levels, size, mean, scale, total, local):
    """Turn `local`, gradients of the window after normalising, into those before it; `total` is the row's sum."""
    along = -mean * total
    for r in range(degree + 1):
        along += local[r] * levels[degree, r]
    along *= scale * scale / size
    for r in range(degree + 1):
        local[r] = scale * (local[r] - total / size - (levels[degree, r] - mean) * along)


@compiled(forceinline=True)
def run_backwards(x, f, n_knots, kind, degree, interval, mean, scale, total, t, levels, local, slopes, breaks_grad):
    """Run the triangular scheme backwards from `window_at`: return the gradient of x, add to that of the breaks.

    `local` has the gradients of the outputs from the interval on (degree of them for tails, else degree + 1), and
    `total` the sum of those of all outputs, for normalised rows. Both `local` and `slopes` are written over.

    With u = (x - left) / (right - left), share = v / (right - left), and G the gradients of two neighbouring values
    that v was shared out to, c = share (G_right - G_left) is what x gains, right loses u c and left (1 - u) c, and
    v itself gains (1 - u) G_left + u G_right.
    """
    for c in range(2 * degree + 2):
        slopes[c] = 0.0
    if kind == TAILS:
        before = 0.0
        for r in range(degree + 1):
            here = local[r]
            local[r] = before
            before += here
    elif kind != LOCAL:
        if kind == NORMALISED:
            _before_normalising(degree, levels, n_knots + degree + 1, mean, scale, total, local)
        for r in range(degree + 1):
            per_span = 1.0 / (t[degree + r + 1] - t[r])
            pull = local[r] * levels[degree, r] * per_span
            slopes[degree + r + 1] -= pull
            slopes[r] += pull
            local[r] *= (degree + 1) * per_span
    x_slope = 0.0
    for q in range(degree, 0, -1):
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            per_width = 1.0 / (right - left)
            u = (x - left) * per_width
            rise = local[r + 1] - local[r]
            moved = levels[q - 1, r] * per_width * rise
            x_slope += moved
            slopes[degree + r + 1] -= u * moved
            slopes[degree + r + 1 - q] -= (1.0 - u) * moved
            local[r] += u * rise
    for c in range(2 * degree + 2):
        place = interval + c - degree
        if 0 < place <= n_knots:
            breaks_grad[f, place] += slopes[c]
    return x_slope


def make_scratch(degree: int) -> tuple[Any, Any, Any, Any]:
    """Return room for the knots, levels, gradients and slopes of one value, for one thread."""
    return (
        np.empty(2 * degree + 2),
        np.empty((degree + 1, degree + 1)),
        np.empty(degree + 1),
        np.empty(2 * degree + 2),
    )


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return the numbers of a tensor on the CPU, contiguous."""
    return tensor.detach().contiguous().numpy()


def chunks_of(n_groups: int, n_rows: int) -> list[tuple[int, slice]]:
    """Return pairs of group and rows that cover all rows of all groups."""
    return [
        (group, slice(start, min(start + ROWS_PER_CHUNK, n_rows)))
        for group in range(n_groups)
        for start in range(0, n_rows, ROWS_PER_CHUNK)
    ]
