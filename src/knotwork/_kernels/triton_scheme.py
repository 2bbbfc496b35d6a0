"""The triangular scheme in Triton, for a block of values at a time: what the kernels of the encoding share."""

import triton
import triton.language as tl

from knotwork._kernels.layout import LOCAL, NORM_EPSILON, NORMALISED, TAILS

__all__ = ["encoded_rows", "find", "levels_at", "moments", "to_unit_area"]

_LOCAL = tl.constexpr(LOCAL)
_TAILS = tl.constexpr(TAILS)
_NORMALISED = tl.constexpr(NORMALISED)
NORM_EPSILON_ = tl.constexpr(NORM_EPSILON)


@triton.jit
def find(x, breaks, n_knots, DEGREE: tl.constexpr, STEPS: tl.constexpr):
    """Return the interval of each x, by bisection, and the 2 degree + 2 knots around it, as a tuple."""
    interval = tl.zeros(x.shape, tl.int32)
    for step in tl.static_range(STEPS):
        further = interval + (1 << (STEPS - 1 - step))
        knot = tl.load(breaks + further, mask=further <= n_knots, other=2.0)
        interval = tl.where(knot <= x, further, interval)
    t = ()
    for c in tl.static_range(2 * DEGREE + 2):
        place = tl.minimum(tl.maximum(interval + c - DEGREE, 0), n_knots + 1)
        t = t + (tl.load(breaks + place),)
    return interval, t


@triton.jit
def levels_at(x, t, DEGREE: tl.constexpr):
    """Return the B-splines of degree 0, 1, ..., degree at x, and the reciprocal spans they need: tuples of tuples."""
    values = (tl.full(x.shape, 1.0, x.dtype),)
    levels = (values,)
    spans = ((),)
    for q in tl.static_range(1, DEGREE + 1):
        from_left = tl.zeros(x.shape, x.dtype)
        raised = ()
        reciprocals = ()
        for r in tl.static_range(q):
            left = t[DEGREE + r + 1 - q]
            right = t[DEGREE + r + 1]
            reciprocal = 1.0 / (right - left)
            share = values[r] * reciprocal
            raised = raised + (from_left + (right - x) * share,)
            from_left = (x - left) * share
            reciprocals = reciprocals + (reciprocal,)
        values = raised + (from_left,)
        levels = levels + (values,)
        spans = spans + (reciprocals,)
    return levels, spans


@triton.jit
def to_unit_area(values, t, DEGREE: tl.constexpr):
    """Return B-splines times the heights of M-splines."""
    scaled = ()
    for r in tl.static_range(DEGREE + 1):
        scaled = scaled + (values[r] * (DEGREE + 1) / (t[DEGREE + r + 1] - t[r]),)
    return scaled


@triton.jit
def moments(values, size, DEGREE: tl.constexpr):
    """Return the mean of rows of `size` columns that are zero but for `values`, and 1 / their spread."""
    total = values[0]
    for r in tl.static_range(1, DEGREE + 1):
        total += values[r]
    mean = total / size
    squares = (size - (DEGREE + 1)) * mean * mean
    for r in tl.static_range(DEGREE + 1):
        squares += (values[r] - mean) * (values[r] - mean)
    return mean, 1.0 / tl.sqrt(squares / size + NORM_EPSILON_)


@triton.jit
def encoded_rows(
    x, breaks, n_knots, first, KIND: tl.constexpr, DEGREE: tl.constexpr, STEPS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Return the rows of values that were loaded as they are: NaN gives zeros, values outside [0, 1] an end's row.

    `breaks` points to the breaks, and `n_knots` is their number: of each value, or of all. Of the rows there are as
    many columns as asked for, from `first` on.
    """
    present = x == x
    x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
    interval, t = find(x, breaks, n_knots, DEGREE, STEPS)
    levels, _ = levels_at(x, t, DEGREE)
    values = levels[DEGREE]
    column = first + tl.arange(0, COLUMNS)[None, :]
    place = column - interval[:, None]
    if KIND == _TAILS:
        rows = tl.where(place < 0, 1.0, 0.0)
        tail = tl.zeros(x.shape, x.dtype)
        for k in tl.static_range(DEGREE):
            tail += values[DEGREE - k]
            rows = tl.where(place == DEGREE - 1 - k, tail[:, None], rows)
    else:
        if KIND != _LOCAL:
            values = to_unit_area(values, t, DEGREE)
        rows = tl.zeros(place.shape, tl.float32)
        for r in tl.static_range(DEGREE + 1):
            rows = tl.where(place == r, values[r][:, None], rows)
        if KIND == _NORMALISED:
            own_size = tl.zeros(x.shape, tl.int32) + n_knots + DEGREE + 1
            mean, scale = moments(values, own_size, DEGREE)
            rows = tl.where(column < own_size[:, None], (rows - mean[:, None]) * scale[:, None], 0.0)
    return tl.where(present[:, None], rows, 0.0)
