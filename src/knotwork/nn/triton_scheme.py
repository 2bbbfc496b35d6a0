"""The triangular scheme in Triton, for a block of values at a time: what the kernels of the encoding share."""

import triton
import triton.language as tl

from knotwork.nn.layout import NORM_EPSILON

__all__ = ["find", "levels_at", "moments", "to_unit_area"]

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
