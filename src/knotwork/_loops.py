"""Compiled formulas that encoders, additive models and the layers on the CPU share; `knotwork.basis` defines them.

All are inlined into the loops that call them, as `forceinline` demands: calls would make these loops 1.5 times slower.
Numba's cache on disk knows only the file of a loop: after a change in this file, delete the ``__pycache__`` folders.
"""

import numpy as np

from knotwork._numba import compiled, half_to

__all__ = ["LANES", "MOST_COUNTED", "add_bends", "fill_bumps", "fill_cubes", "fill_splines", "find_intervals"]

LANES = 16
"""Values of the longest vectors of a processor, in float32."""

MOST_COUNTED = 256
"""Maximum number of knots that are counted: up to here, and somewhat beyond, a binary search takes longer."""


@compiled(forceinline=True)
def find_intervals(x, knots, intervals):
    """Fill the number of knots at or below each value, 0 for NaN; knots increase.

    Counting has an inner loop without a branch, which is vectorised: for few knots it is faster than a search.
    """
    if len(knots) <= MOST_COUNTED:
        for i in range(len(x)):
            intervals[i] = 0
        for knot in knots:
            for i in range(len(x)):
                intervals[i] += knot <= x[i]
    else:
        for i in range(len(x)):
            below, above = 0, len(knots)
            while below < above:
                middle = (below + above) // 2
                if knots[middle] <= x[i]:
                    below = middle + 1
                else:
                    above = middle
            intervals[i] = below


@compiled(forceinline=True)
def fill_splines(x, degree, t, first, levels):
    """Fill row q of `levels` with the q + 1 B-splines of degree q at x: the triangular scheme of `local_bsplines`.

    ``t[first - 1]`` and ``t[first]`` are the ends of the interval of x.
    """
    levels[0, 0] = 1.0
    for q in range(1, degree + 1):
        from_left = 0.0
        for r in range(q):
            left, right = t[first + r - q], t[first + r]
            share = levels[q - 1, r] / (right - left)
            levels[q, r] = from_left + (right - x) * share
            from_left = (x - left) * share
        levels[q, q] = from_left


@compiled(fastmath={"contract"}, forceinline=True)
def add_bends(left, right, from_left, from_right, row):
    """Fill a row with two others, each times its number: what natural splines add to hats; the loop is vectorised."""
    for r in range(len(row)):
        row[r] = from_left * left[r] + from_right * right[r]


@compiled(fastmath={"contract"}, forceinline=True)
def fill_bumps(x, centres, factors, per_bit, most, row):
    """Fill ``2**-(per_bit (factor (x - centre))**2)``, at least ``2**-most``, in the type of the row.

    Differences are formed in the type of x and centres, powers in that of the row, which is as exact as it can be.
    """
    for r in range(len(row)):
        share = row.dtype.type((x - centres[r]) * factors[r])
        power = share * share * per_bit
        row[r] = half_to(power if power < most else most)


@compiled(fastmath={"contract"}, forceinline=True)
def fill_cubes(x, centres, factors, row):
    """Fill a line, and the cubed distances to all centres but the first, each distance times its factor."""
    for r in range(len(row)):
        share = np.abs((x - centres[r]) * factors[r])
        row[r] = share * share * share
    row[0] = (x - centres[0]) * factors[0]
