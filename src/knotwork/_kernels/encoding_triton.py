"""The encoding on NVIDIA and AMD GPUs, in Triton: the scheme of `encoding_cpu`, for a block of values at a time.

Forward writes every output once. Backward reads only the few entries of each gradient row that depend on the knots.
Sums over rows are formed per program and added in a fixed order, so that results are reproducible.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.encoding import CYCLIC, LOCAL, NORM_EPSILON, NORMALISED, TAILS, Loops, path_of

__all__ = ["ENCODING", "WIDEST", "Spacings", "backward", "find", "forward", "knots_to_logits", "make_knots"]

_LOCAL = tl.constexpr(LOCAL)
_TAILS = tl.constexpr(TAILS)
_CYCLIC = tl.constexpr(CYCLIC)
_NORMALISED = tl.constexpr(NORMALISED)
_NORM_EPSILON = tl.constexpr(NORM_EPSILON)

WIDEST = 32
"""Most columns, or knots, of a program: with wider tiles the compiler repeats the scheme in every thread."""

MOST_IN_ONE = 16_384
"""Most padded widths of a group for which one program computes all breaks and the penalty."""


@triton.jit
def _next(place, n_knots):
    """Return the next place of a cycle; a division is slower."""
    return tl.where(place == n_knots, 0, place + 1)


@triton.jit
def find(x, breaks, n_knots, KIND: tl.constexpr, DEGREE: tl.constexpr, STEPS: tl.constexpr):
    """Return the interval of each x, by bisection, and the 2 degree + 2 knots around it, as a tuple."""
    interval = tl.zeros(x.shape, tl.int32)
    for step in tl.static_range(STEPS):
        further = interval + (1 << (STEPS - 1 - step))
        knot = tl.load(breaks + further, mask=further <= n_knots, other=2.0)
        interval = tl.where(knot <= x, further, interval)
    t = ()
    turns = interval
    around = interval
    if KIND == _CYCLIC:  # integers are divided towards zero: the dividend must not be negative
        turns = (interval - DEGREE + DEGREE * (n_knots + 1)) // (n_knots + 1) - DEGREE
        around = interval - DEGREE - turns * (n_knots + 1)
    for c in tl.static_range(2 * DEGREE + 2):
        if KIND == _CYCLIC:
            t = t + (tl.load(breaks + around) + turns.to(tl.float32),)
            turns += tl.where(around == n_knots, 1, 0)
            around = _next(around, n_knots)
        else:
            place = tl.minimum(tl.maximum(interval + c - DEGREE, 0), n_knots + 1)
            t = t + (tl.load(breaks + place),)
    return interval, t


@triton.jit
def _levels_at(x, t, DEGREE: tl.constexpr):
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
def _to_unit_area(values, t, DEGREE: tl.constexpr):
    """Return B-splines times the heights of M-splines."""
    scaled = ()
    for r in tl.static_range(DEGREE + 1):
        scaled = scaled + (values[r] * (DEGREE + 1) / (t[DEGREE + r + 1] - t[r]),)
    return scaled


@triton.jit
def _moments(values, size, DEGREE: tl.constexpr):
    """Return mean and 1 / spread of rows of `size` columns: `values`, and zeros elsewhere."""
    total = values[0]
    for r in tl.static_range(1, DEGREE + 1):
        total += values[r]
    mean = total / size
    squares = (size - (DEGREE + 1)) * mean * mean
    for r in tl.static_range(DEGREE + 1):
        squares += (values[r] - mean) * (values[r] - mean)
    return mean, 1.0 / tl.sqrt(squares / size + _NORM_EPSILON)


@triton.jit
def _encoded_rows(
    x, breaks, n_knots, first, KIND: tl.constexpr, DEGREE: tl.constexpr, STEPS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Return COLUMNS columns of the rows, from column `first` on: NaN gives zeros, values are clipped to [0, 1].

    `breaks` points to the breaks and `n_knots` is the number of knots, both of each value or of all.
    """
    present = x == x
    x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
    interval, t = find(x, breaks, n_knots, KIND, DEGREE, STEPS)
    levels, _ = _levels_at(x, t, DEGREE)
    values = levels[DEGREE]
    column = first + tl.arange(0, COLUMNS)[None, :]
    place = column - interval[:, None]
    if KIND == _TAILS:
        rows = tl.where(place < 0, 1.0, 0.0)
        tail = tl.zeros(x.shape, x.dtype)
        for k in tl.static_range(DEGREE):
            tail += values[DEGREE - k]
            rows = tl.where(place == DEGREE - 1 - k, tail[:, None], rows)
    elif KIND == _CYCLIC:
        rows = tl.zeros(place.shape, tl.float32)
        target = interval
        for r in tl.static_range(DEGREE + 1):
            rows += tl.where(column == target[:, None], values[r][:, None], 0.0)  # functions may meet in one column
            target = _next(target, n_knots)
    else:
        if KIND != _LOCAL:
            values = _to_unit_area(values, t, DEGREE)
        rows = tl.zeros(place.shape, tl.float32)
        for r in tl.static_range(DEGREE + 1):
            rows = tl.where(place == r, values[r][:, None], rows)
        if KIND == _NORMALISED:
            own_size = tl.zeros(x.shape, tl.int32) + n_knots + DEGREE + 1
            mean, scale = _moments(values, own_size, DEGREE)
            rows = tl.where(column < own_size[:, None], (rows - mean[:, None]) * scale[:, None], 0.0)
    return tl.where(present[:, None], rows, 0.0)


# Parts begin anywhere in the tensors of a stack, and tables have any number of features. Specialising the code for the
# alignments and divisibilities that occur would take a minute of compiling without making it faster.


@triton.jit(
    do_not_specialize=["n_values", "n_rows", "n_features", "n_breaks", "size"],
    do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer"],
)
def _forward(
    x_pointer, breaks_pointer, n_knots_pointer, out_pointer,
    n_values, n_rows, n_features, n_breaks, size,
    KIND: tl.constexpr, DEGREE: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr, COLUMNS: tl.constexpr,
    WIDE: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
    v = program * VALUES + tl.arange(0, VALUES)
    here = v < n_values
    f = v % n_features
    table = tl.where(here, v // (n_rows * n_features) * n_features + f, f)
    x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
    n_knots = tl.load(n_knots_pointer + table)
    first = 0
    if WIDE:  # otherwise one program has complete rows
        first = tl.program_id(1) * COLUMNS
    rows = _encoded_rows(x, breaks_pointer + table * n_breaks, n_knots, first, KIND, DEGREE, STEPS, COLUMNS)
    column = first + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_pointer + v[:, None] * size + column, rows, mask=here[:, None] & (column < size))


@triton.jit(
    do_not_specialize=["n_values", "n_rows", "n_features", "size"],
    do_not_specialize_on_alignment=["n_knots_pointer", "out_pointer"],
)
def _row_sums(
    grad_pointer, n_knots_pointer, out_pointer,
    n_values, n_rows, n_features, size,
    DEGREE: tl.constexpr, VALUES: tl.constexpr, COLUMNS: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Sum the gradient over each feature's used columns, for normalised rows."""
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
    v = program * VALUES + tl.arange(0, VALUES)
    column = tl.arange(0, COLUMNS)[None, :]
    here = v < n_values
    table = v // (n_rows * n_features) * n_features + v % n_features
    own_size = tl.load(n_knots_pointer + table, mask=here, other=0) + DEGREE + 1
    known = here[:, None] & (column < own_size[:, None])
    rows = tl.load(grad_pointer + v[:, None] * size + column, mask=known, other=0.0).to(tl.float32)
    tl.store(out_pointer + v, tl.sum(rows, axis=1), mask=here)


@triton.jit(
    do_not_specialize=["n_rows", "n_features", "n_breaks", "size", "n_places"],
    do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer", "sums_pointer"],
)
def _backward(
    grad_pointer, sums_pointer, x_pointer, breaks_pointer, n_knots_pointer, x_grad_pointer, parts_pointer,
    n_rows, n_features, n_breaks, size, n_places,
    KIND: tl.constexpr, DEGREE: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr, STEPS: tl.constexpr,
    KNOTS: tl.constexpr, WINDOW: tl.constexpr, WITH_X: tl.constexpr, WIDE: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Run the scheme backwards for one feature of one group; see `encoding_cpu.run_backwards` for the formulas.

    With many knots, several programs process the same rows, each for some of the intervals.
    """
    table = tl.program_id(0)
    group = table // n_features
    f = table % n_features
    if LONG:
        group = group.to(tl.int64)
    n_knots = tl.load(n_knots_pointer + table)
    intervals = tl.arange(0, KNOTS)[:, None]  # the intervals that this program sums
    if WIDE:
        intervals += tl.program_id(2) * KNOTS
    sums = tl.zeros((KNOTS, WINDOW), tl.float32)
    for block in range(BLOCKS):
        row = (tl.program_id(1) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        here = row < n_rows
        v = (group * n_rows + row) * n_features + f
        x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
        present = here & (x == x)
        inside = present & (x >= 0.0) & (x <= 1.0)
        x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
        interval, t = find(x, breaks_pointer + table * n_breaks, n_knots, KIND, DEGREE, STEPS)
        levels, spans = _levels_at(x, t, DEGREE)
        mine = here
        if WIDE:
            mine = here & (interval // KNOTS == tl.program_id(2))
            present = present & mine

        first = grad_pointer + v * size + interval
        zero = tl.zeros((ROWS,), tl.float32)
        slopes = (zero,) * (2 * DEGREE + 2)
        local = ()
        if KIND == _TAILS:
            local = (zero,)
            for r in tl.static_range(DEGREE):
                local = local + (local[r] + tl.load(first + r, mask=present, other=0.0).to(tl.float32),)
        elif KIND == _CYCLIC:
            place = interval
            for r in tl.static_range(DEGREE + 1):
                entry = grad_pointer + v * size + place
                local = local + (tl.load(entry, mask=present, other=0.0).to(tl.float32),)
                place = _next(place, n_knots)
        else:
            for r in tl.static_range(DEGREE + 1):
                local = local + (tl.load(first + r, mask=present, other=0.0).to(tl.float32),)
        if KIND == _NORMALISED:
            heights = _to_unit_area(levels[DEGREE], t, DEGREE)
            mean, scale = _moments(heights, n_knots + DEGREE + 1, DEGREE)
            total = tl.load(sums_pointer + v, mask=present, other=0.0)
            along = -mean * total
            for r in tl.static_range(DEGREE + 1):
                along += local[r] * heights[r]
            along = along * scale * scale / (n_knots + DEGREE + 1)
            before = ()
            for r in tl.static_range(DEGREE + 1):
                share = local[r] - total / (n_knots + DEGREE + 1) - (heights[r] - mean) * along
                before = before + (scale * share,)
            local = before
        if KIND != _LOCAL and KIND != _TAILS and KIND != _CYCLIC:  # noqa: PLR1714 - Triton knows no `in`
            raised = ()
            for r in tl.static_range(DEGREE + 1):
                span = 1.0 / (t[DEGREE + r + 1] - t[r])
                g = local[r] * (DEGREE + 1) * span
                pull = g * levels[DEGREE][r] * span
                slopes = slopes[:r] + (slopes[r] + pull,) + slopes[r + 1 :]
                slopes = slopes[: DEGREE + r + 1] + (slopes[DEGREE + r + 1] - pull,) + slopes[DEGREE + r + 2 :]
                raised = raised + (g,)
            local = raised
        x_slope = zero
        for q in tl.static_range(DEGREE, 0, -1):
            lowered = ()
            for r in tl.static_range(q):
                u = (x - t[DEGREE + r + 1 - q]) * spans[q][r]
                rise = local[r + 1] - local[r]
                moved = levels[q - 1][r] * spans[q][r] * rise
                x_slope += moved
                slopes = slopes[: DEGREE + r + 1] + (slopes[DEGREE + r + 1] - u * moved,) + slopes[DEGREE + r + 2 :]
                slopes = (
                    slopes[: DEGREE + r + 1 - q]
                    + (slopes[DEGREE + r + 1 - q] - (1.0 - u) * moved,)
                    + slopes[DEGREE + r + 2 - q :]
                )
                lowered = lowered + (local[r] + u * rise,)
            local = lowered
        if WITH_X:
            tl.store(x_grad_pointer + v, tl.where(inside, x_slope, 0.0), mask=mine)

        columns = tl.arange(0, WINDOW)[None, :]
        window = tl.zeros((ROWS, WINDOW), tl.float32)
        for c in tl.static_range(2 * DEGREE + 2):
            window = tl.where(columns == c, tl.where(present, slopes[c], 0.0)[:, None], window)
        owners = (intervals == interval[None, :]).to(tl.float32)
        sums = tl.dot(owners, window, sums, input_precision="tf32x3")
    part = (tl.program_id(1) * tl.num_programs(0) + table) * n_places * WINDOW
    tl.store(parts_pointer + part + intervals * WINDOW + tl.arange(0, WINDOW)[None, :], sums)


# Knots from logits, and gradients back to these: the formulas of `encoding`, each in one kernel.


@triton.jit
def _softmax_shares(logits_pointer, n_knots, WIDTHS: tl.constexpr):
    """Return softmax over the first n_knots + 1 logits of a row, and zeros after them."""
    k = tl.arange(0, WIDTHS)
    logits = tl.load(logits_pointer + k, mask=k <= n_knots, other=-float("inf")).to(tl.float32)
    powers = tl.exp(logits - tl.max(logits, axis=0))
    return powers / tl.sum(powers, axis=0)


@triton.jit
def _logits_slopes(shares, width_slopes, n_knots, min_spacing):
    """Return the gradient of the logits from that of the widths."""
    slopes = (1.0 - (n_knots + 1) * min_spacing) * width_slopes
    return shares * (slopes - tl.sum(shares * slopes, axis=0))


@triton.jit
def _penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon):
    """Return the gradient of the widths from that of the penalty; entries after the last width are undefined."""
    widths = min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares + epsilon
    return -grad / (widths * widths * (n_knots + 1) * n_features)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "breaks_pointer"],
)
def _breaks_forward(
    logits_pointer, n_knots_pointer, breaks_pointer, n_features, n_widths, min_spacing, WIDTHS: tl.constexpr
):
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    shares = _softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    widths = tl.where(k <= n_knots, min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares, 0.0)
    ends = tl.where(k < n_knots, tl.minimum(tl.cumsum(widths, axis=0), 1.0), 1.0)
    row = breaks_pointer + table * (n_widths + 1)
    tl.store(row + 1 + k, ends, mask=k < n_widths)
    tl.store(row, 0.0)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "out_pointer", "grad_pointer"],
)
def _breaks_backward(
    grad_pointer, logits_pointer, n_knots_pointer, out_pointer, n_features, n_widths, min_spacing, WIDTHS: tl.constexpr
):
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    shares = _softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    slopes = tl.load(grad_pointer + table * (n_widths + 1) + 1 + k, mask=k < n_knots, other=0.0)
    # A width moves the knot at its end and all knots after it.
    slopes = _logits_slopes(shares, tl.cumsum(slopes, axis=0, reverse=True), n_knots, min_spacing)
    tl.store(out_pointer + table * n_widths + k, slopes, mask=k < n_widths)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=[
        "logits_pointer", "n_knots_pointer", "breaks_pointer", "out_pointer", "fixed_pointer", "learned_pointer",
    ],
)  # fmt: skip
def _penalty_forward(
    logits_pointer, n_knots_pointer, breaks_pointer, out_pointer, fixed_pointer, learned_pointer,
    n_features, n_widths, min_spacing, epsilon,
    FEATURES: tl.constexpr, WIDTHS: tl.constexpr, WITH_BREAKS: tl.constexpr, WITH_FIXED: tl.constexpr,
):  # fmt: skip
    """Write the penalty of one group, and WITH_BREAKS its breaks, since all widths are available.

    WITH_FIXED, a group that is not learned has its fixed breaks, and a penalty of 0.
    """
    f = tl.arange(0, FEATURES)[:, None]
    k = tl.arange(0, WIDTHS)[None, :]
    n_knots = tl.load(n_knots_pointer + tl.program_id(0) * n_features + f, mask=f < n_features, other=0)
    row = logits_pointer + (tl.program_id(0) * n_features + f) * n_widths
    used = (f < n_features) & (k <= n_knots)
    logits = tl.load(row + k, mask=used, other=-1e30).to(tl.float32)
    powers = tl.where(used, tl.exp(logits - tl.max(logits, axis=1)[:, None]), 0.0)
    shares = powers / tl.maximum(tl.sum(powers, axis=1)[:, None], 1e-30)
    widths = min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares
    barrier = tl.where(used, 1.0 / ((widths + epsilon) * (n_knots + 1)), 0.0)
    penalty = tl.sum(tl.sum(barrier, axis=1), axis=0) / n_features
    if WITH_FIXED:
        learned = tl.load(learned_pointer + tl.program_id(0)) != 0
        penalty = tl.where(learned, penalty, 0.0)
    tl.store(out_pointer + tl.program_id(0), penalty)
    if WITH_BREAKS:
        ends = tl.minimum(tl.cumsum(tl.where(used, widths, 0.0), axis=1), 1.0)
        ends = tl.where(k < n_knots, ends, 1.0)
        place = (tl.program_id(0) * n_features + f) * (n_widths + 1)
        here = (f < n_features) & (k < n_widths)
        if WITH_FIXED:
            ends = tl.where(learned, ends, tl.load(fixed_pointer + place + 1 + k, mask=here, other=1.0))
        tl.store(breaks_pointer + place + 1 + k, ends, mask=here)
        tl.store(breaks_pointer + place, tl.zeros((FEATURES, 1), tl.float32), mask=f < n_features)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "out_pointer", "grad_pointer"],
)
def _penalty_backward(
    grad_pointer, logits_pointer, n_knots_pointer, out_pointer,
    n_features, n_widths, min_spacing, epsilon,
    WIDTHS: tl.constexpr,
):  # fmt: skip
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    grad = tl.load(grad_pointer + table // n_features)
    shares = _softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    slopes = tl.where(k <= n_knots, _penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon), 0.0)
    slopes = _logits_slopes(shares, slopes, n_knots, min_spacing)
    tl.store(out_pointer + table * n_widths + k, slopes, mask=k < n_widths)


@triton.jit(
    do_not_specialize=["n_features", "n_breaks"],
    do_not_specialize_on_alignment=["n_knots_pointer", "logits_pointer", "penalty_grad_pointer", "out_pointer"],
)
def gather_sums(
    parts_pointer, n_knots_pointer, out_pointer, logits_pointer, penalty_grad_pointer,
    n_features, n_breaks, min_spacing, epsilon,
    N_PARTS: tl.constexpr, PARTS: tl.constexpr, KIND: tl.constexpr, DEGREE: tl.constexpr, KNOTS: tl.constexpr,
    WINDOW: tl.constexpr, TO_LOGITS: tl.constexpr, WITH_PENALTY: tl.constexpr,
):  # fmt: skip
    """Sum the parts of all programs, and for each knot the gradients from all intervals around it.

    TO_LOGITS continues to the gradient of the logits, WITH_PENALTY including that of the penalty.
    """
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    column = tl.arange(0, KNOTS)
    place = column[:, None]
    if TO_LOGITS:  # the first row is the first knot, not the left end
        place = place + 1
    totals = tl.zeros((KNOTS, PARTS), tl.float32)
    for first in range(0, N_PARTS, PARTS):
        part = first + tl.arange(0, PARTS)[None, :]
        start = parts_pointer + (part * tl.num_programs(0) + table) * KNOTS * WINDOW
        for c in tl.static_range(2 * DEGREE + 2):
            interval = place + DEGREE - c
            if KIND == _CYCLIC:
                interval = (interval + (DEGREE + 1) * (n_knots + 1)) % (n_knots + 1)
            known = (interval >= 0) & (interval <= n_knots) & (place >= 1) & (place <= n_knots) & (part < N_PARTS)
            totals += tl.load(start + interval * WINDOW + c, mask=known, other=0.0)
    slopes = tl.sum(totals, axis=1)
    if TO_LOGITS:
        n_widths = n_breaks - 1
        shares = _softmax_shares(logits_pointer + table * n_widths, n_knots, KNOTS)
        slopes = tl.cumsum(slopes, axis=0, reverse=True)  # a width moves the knot at its end and all after it
        if WITH_PENALTY:
            grad = tl.load(penalty_grad_pointer + table // n_features)
            barrier = _penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon)
            slopes += tl.where(column <= n_knots, barrier, 0.0)
        slopes = _logits_slopes(shares, slopes, n_knots, min_spacing)
        tl.store(out_pointer + table * n_widths + column, slopes, mask=column < n_widths)
    else:
        tl.store(out_pointer + table * n_breaks + column, slopes, mask=column < n_breaks)


# The tiles of kernels over knots depend on the size of blocks, which is larger than the number of knots: so sums do not
# depend on the knots of other members in a stack.


def _padded(n_widths: int, size: int) -> int:
    return triton.next_power_of_2(max(n_widths, size))


def _make_breaks(logits: Tensor, n_knots: Tensor, min_spacing: float, size: int) -> Tensor:
    """Return the breaks of `breaks_from_widths`, for logits of shape (G, F, K + 1)."""
    logits = logits.contiguous()
    groups, features, n_widths = logits.shape
    breaks = torch.empty(groups, features, n_widths + 1, dtype=torch.float32, device=logits.device)
    widths = _padded(n_widths, size)
    _breaks_forward[(groups * features,)](logits, n_knots, breaks, features, n_widths, min_spacing, WIDTHS=widths)
    return breaks


def _breaks_to_logits(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, size: int) -> Tensor:
    """Return the gradient of the logits from that of the breaks."""
    grad, logits = grad.contiguous(), logits.contiguous()
    out = torch.empty_like(logits)
    groups, features, n_widths = logits.shape
    widths = _padded(n_widths, size)
    _breaks_backward[(groups * features,)](grad, logits, n_knots, out, features, n_widths, min_spacing, WIDTHS=widths)
    return out


def make_knots(
    logits: Tensor, n_knots: Tensor, breaks: Tensor | None, learned: Tensor | None, min_spacing: float, epsilon: float,
    size: int = 1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return breaks and penalties, from one kernel if a group is not too large for it.

    With `learned`, the other groups have the given breaks, and a penalty of 0.
    """
    groups, features, n_widths = logits.shape
    if triton.next_power_of_2(features) * _padded(n_widths, size) > MOST_IN_ONE:
        learned_breaks = _make_breaks(logits, n_knots, min_spacing, size)
        penalty = _run_penalty(logits, n_knots, min_spacing, epsilon, size)
        if breaks is None or learned is None:
            return learned_breaks, penalty
        return torch.where(learned[:, None, None], learned_breaks, breaks), torch.where(learned, penalty, 0.0)
    out = torch.empty(groups, features, n_widths + 1, dtype=torch.float32, device=logits.device)
    return out, _run_penalty(logits, n_knots, min_spacing, epsilon, size, out, breaks, learned)


def _run_penalty(
    logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float, size: int, breaks: Tensor | None = None,
    fixed: Tensor | None = None, learned: Tensor | None = None,
) -> Tensor:  # fmt: skip
    logits = logits.contiguous()
    groups, features, n_widths = logits.shape
    out = torch.empty(groups, dtype=torch.float32, device=logits.device)
    _penalty_forward[(groups,)](
        logits, n_knots, out if breaks is None else breaks, out, out if fixed is None else fixed.contiguous(),
        out if learned is None else learned.contiguous(), features, n_widths, min_spacing, epsilon,
        FEATURES=triton.next_power_of_2(features), WIDTHS=_padded(n_widths, size),
        WITH_BREAKS=breaks is not None, WITH_FIXED=learned is not None,
    )  # fmt: skip
    return out


def penalty_backward(
    grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float, size: int = 1
) -> Tensor:
    """Return the gradient of the logits from that of the penalties."""
    grad, logits = grad.contiguous(), logits.contiguous()
    out = torch.empty_like(logits)
    groups, features, n_widths = logits.shape
    _penalty_backward[(groups * features,)](
        grad, logits, n_knots, out, features, n_widths, min_spacing, epsilon,
        WIDTHS=_padded(n_widths, size),
    )  # fmt: skip
    return out


def knots_to_logits(
    breaks_grad: Tensor | None, penalty_grad: Tensor | None, logits: Tensor, n_knots: Tensor, learned: Tensor | None,
    min_spacing: float, epsilon: float, size: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of the logits from those of breaks and penalties; 0 for groups that are not learned."""
    parts = []
    if breaks_grad is not None:
        parts.append(_breaks_to_logits(breaks_grad, logits, n_knots, min_spacing, size))
    if penalty_grad is not None:
        parts.append(penalty_backward(penalty_grad, logits, n_knots, min_spacing, epsilon, size))
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return total if learned is None else torch.where(learned[:, None, None], total, 0.0)


def forward(x: Tensor, breaks: Tensor, n_knots: Tensor, out: Tensor, *, kind: int, degree: int) -> None:
    """Fill `out`, a contiguous tensor of shape (G, B, F, size) of any float type."""
    x, breaks, n_knots = x.contiguous(), breaks.contiguous(), n_knots.contiguous()
    size = out.shape[-1]
    if not x.numel():
        return
    columns = min(triton.next_power_of_2(size), WIDEST)
    values = 4096 // columns
    _forward[(triton.cdiv(x.numel(), values), triton.cdiv(size, columns))](
        x, breaks, n_knots, out, x.numel(), x.shape[1], x.shape[2], breaks.shape[-1], size,
        KIND=kind, DEGREE=degree, VALUES=values, STEPS=(breaks.shape[-1] - 2).bit_length(), COLUMNS=columns,
        WIDE=size > columns, LONG=out.numel() >= 2**31,
    )  # fmt: skip


class Spacings(NamedTuple):
    """The logits that breaks were computed from, and the gradient of the penalty, if it has one."""

    logits: Tensor
    min_spacing: float
    epsilon: float = 0.0
    penalty_grad: Tensor | None = None


def backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, spacings: Spacings | None = None, *, kind: int,
    degree: int, with_x: bool, out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of x (undefined unless `with_x`) and of the breaks, zero for the ends, which do not move.

    With `spacings`, the second is the gradient of the logits instead, written to `out` if given.
    """
    grad, x, breaks = grad.contiguous(), x.contiguous(), breaks.contiguous()
    x_grad = torch.empty_like(x) if with_x else x.new_empty(())
    if out is None:
        out = torch.empty_like(breaks if spacings is None else spacings.logits)
    n_tables, n_rows, size = breaks.shape[0] * breaks.shape[1], x.shape[1], grad.shape[-1]
    if not x.numel():
        if spacings is None or spacings.penalty_grad is None:
            return x_grad, out.zero_()
        logits, min_spacing, epsilon, penalty_grad = spacings
        return x_grad, out.copy_(penalty_backward(penalty_grad, logits, n_knots, min_spacing, epsilon, size))
    knots = max(_padded(breaks.shape[-1], size + 1), 16)
    tile = min(knots, WIDEST)
    n_tiles = triton.cdiv(max(breaks.shape[-1] - 1, size), tile)
    # Sums over rows must not depend on the number of groups, which may be members of a stack.
    rows, blocks = (128, triton.cdiv(n_rows, 128 * 64)) if n_rows > 4096 else (32, 2)
    window = max(triton.next_power_of_2(2 * degree + 2), 16)
    n_parts = triton.cdiv(n_rows, rows * blocks)
    parts = torch.empty(n_parts, n_tables, knots, window, dtype=torch.float32, device=x.device)
    long = grad.numel() >= 2**31
    sums = x_grad
    if kind == NORMALISED:
        columns = triton.next_power_of_2(size)
        values = max(4096 // columns, 16)
        sums = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
        _row_sums[(triton.cdiv(x.numel(), values),)](
            grad, n_knots, sums, x.numel(), n_rows, x.shape[2], size,
            DEGREE=degree, VALUES=values, COLUMNS=columns, LONG=long,
        )  # fmt: skip
    _backward[(n_tables, n_parts, n_tiles)](
        grad, sums, x, breaks, n_knots, x_grad, parts, n_rows, x.shape[2], breaks.shape[-1], size, knots,
        KIND=kind, DEGREE=degree, ROWS=rows, BLOCKS=blocks, STEPS=(breaks.shape[-1] - 2).bit_length(), KNOTS=tile,
        WINDOW=window, WITH_X=with_x, WIDE=n_tiles > 1, LONG=long,
    )  # fmt: skip
    made_of = Spacings(out, 0.0) if spacings is None else spacings
    gather_sums[(n_tables,)](
        parts, n_knots, out, made_of.logits.contiguous(),
        out if made_of.penalty_grad is None else made_of.penalty_grad.contiguous(), x.shape[2], breaks.shape[-1],
        made_of.min_spacing, made_of.epsilon,
        N_PARTS=n_parts, PARTS=min(triton.next_power_of_2(n_parts), 32), KIND=kind, DEGREE=degree, KNOTS=knots,
        WINDOW=window, TO_LOGITS=spacings is not None, WITH_PENALTY=made_of.penalty_grad is not None,
    )  # fmt: skip
    return x_grad, out


def _rows_to_logits(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, penalty_grad: Tensor | None, logits: Tensor,
    min_spacing: float, epsilon: float, **settings: Any,
) -> Tensor:  # fmt: skip
    spacings = Spacings(logits, min_spacing, epsilon, penalty_grad)
    return backward(grad, x, breaks, n_knots, spacings, **settings)[0]


ENCODING = path_of(Loops(make_knots, knots_to_logits, forward, backward, _rows_to_logits, writes_zeros=True))
