"""The encoding on NVIDIA and AMD GPUs, in Triton: the scheme of `encoding_cpu`, for a block of values at a time.

Forward fills whole rows in vectors of 16 bytes, then writes the few entries of each row that depend on the knots; knots
of one group are computed by the same kernel. Backward reads only these few entries of the gradient. Sums over rows are
formed per program and added in a fixed order, so that results are reproducible.

Sizes, and numbers of rows, features and knots, are arguments of the compiled code: it serves all tables.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import is_long
from knotwork._kernels.encoding import NORM_EPSILON, Loops, Spacings, path_of
from knotwork._kernels.knots_triton import (
    MOST_IN_ONE,
    knots_of,
    knots_to_logits,
    logits_slopes,
    make_knots,
    padded,
    penalty_slopes,
    plan_knots,
    softmax_shares,
    store_breaks,
)
from knotwork._kernels.launching import MOST_PLANS, Launch, power_of_2_from
from knotwork.basis import Functions

_LOCAL = tl.constexpr(Functions.LOCAL.value)
_TAILS = tl.constexpr(Functions.TAILS.value)
_CYCLIC = tl.constexpr(Functions.CYCLIC.value)
_NORMALISED = tl.constexpr(Functions.NORMALISED.value)
_NORM_EPSILON = tl.constexpr(NORM_EPSILON)

WIDEST = 32
"""Most intervals whose gradients a program sums: with wider tiles the compiler repeats the scheme in every thread."""

MOST_IN_EACH = 4096
"""Most padded widths of a group whose breaks every program of the forward pass computes, to save a launch."""

MOST_WITH_KNOTS = 1 << 17
"""Most values for which the forward pass computes the knots in the same kernel."""

VALUES = 128
"""Values of a program of the forward pass; a multiple of the 8 numbers in 16 bytes, so that vectors fit any size."""

FILL = 1024
"""Numbers that a program of the forward pass writes at once: 8 for each thread."""

ROWS, MOST_SUMS = 64, 64
"""Rows of a program of the backward pass at once, and most sums over rows of a feature, for more than 4096 rows."""

WARP = 32
"""Threads of a warp: a thread of the backward pass has one row, because further threads would repeat its work."""


@triton.jit
def _next(place, n_knots):
    """Return the next place of a cycle; a division is slower."""
    return tl.where(place == n_knots, 0, place + 1)


@triton.jit
def find(x, breaks, n_knots, n_steps, KIND: tl.constexpr, DEGREE: tl.constexpr):
    """Return the interval of each x, by bisection, and the 2 degree + 2 knots around it, as a tuple."""
    interval = tl.zeros(x.shape, tl.int32)
    for step in range(n_steps):
        further = interval + (1 << (n_steps - 1 - step))
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
def _entries_at(x, breaks, n_knots, n_steps, KIND: tl.constexpr, DEGREE: tl.constexpr):
    """Return what the row of each x is made of: NaN gives zeros, values are clipped to [0, 1].

    A row is `level` in its first `limit` columns and zero after them, except for the `entries`, a tuple, in the columns
    that begin with `interval` (for cyclic functions modulo the number of intervals).
    """
    present = x == x
    x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
    interval, t = find(x, breaks, n_knots, n_steps, KIND, DEGREE)
    levels, _ = _levels_at(x, t, DEGREE)
    values = levels[DEGREE]
    level = tl.zeros(x.shape, x.dtype)
    limit = tl.zeros(x.shape, tl.int32)
    entries = ()
    if KIND == _TAILS:
        level = tl.where(present, 1.0, 0.0)
        limit = interval
        tail = tl.zeros(x.shape, x.dtype)
        for k in tl.static_range(DEGREE):
            tail += values[DEGREE - k]
            entries = (tail,) + entries
    elif KIND == _CYCLIC:
        places = (interval,)
        for r in tl.static_range(DEGREE):
            places = places + (_next(places[r], n_knots),)
        for r in tl.static_range(DEGREE + 1):  # functions may meet in one column, which then has their sum
            total = tl.zeros(x.shape, x.dtype)
            for other in tl.static_range(DEGREE + 1):
                total += tl.where(places[other] == places[r], values[other], 0.0)
            entries = entries + (total,)
    elif KIND == _LOCAL:
        entries = values
    else:
        entries = _to_unit_area(values, t, DEGREE)
    if KIND == _NORMALISED:
        limit = limit + n_knots + DEGREE + 1
        mean, scale = _moments(entries, limit, DEGREE)
        level = tl.where(present, -mean * scale, 0.0)
        scaled = ()
        for r in tl.static_range(DEGREE + 1):
            scaled = scaled + ((entries[r] - mean) * scale,)
        entries = scaled
    kept = ()
    for r in tl.static_range(len(entries)):
        kept = kept + (tl.where(present, entries[r], 0.0),)
    return interval, level, limit, kept


@triton.jit
def _side_by_side(values, COUNT: tl.constexpr, LOG: tl.constexpr):
    """Return a tile with COUNT = 2^LOG columns: the values of a tuple, and zeros after them."""
    zero = tl.zeros(values[0].shape, values[0].dtype)
    for _ in tl.static_range(COUNT - len(values)):
        values = values + (zero,)
    for step in tl.static_range(LOG):
        joined = ()
        for i in tl.static_range(COUNT >> (step + 1)):
            joined = joined + (tl.join(values[i], values[i + (COUNT >> (step + 1))]),)
        values = joined
    return tl.reshape(values[0], (zero.shape[0], COUNT))


@triton.jit
def _fill(out_pointer, first, n_values, level, limit, size, KIND: tl.constexpr, N: tl.constexpr, FILL: tl.constexpr):
    """Write the rows of N values from `first` on, without their entries: in vectors, which do not care for rows."""
    start = first * size
    ends = tl.arange(0, N) * size + limit
    n_left = n_values - first
    per_column = 1.0 / size
    for offset in range(0, N * size, FILL):
        place = offset + tl.arange(0, FILL)
        rows = tl.zeros((FILL,), tl.float32)
        if KIND == _TAILS or KIND == _NORMALISED:  # noqa: PLR1714, SIM109 - Triton knows no `in`
            # Exact for sizes below 10,000: the nearest integer is 0.5 / size away, and rounding errors are below 2^-15.
            row = tl.minimum(((place.to(tl.float32) + 0.5) * per_column).to(tl.int32), N - 1)
            rows = tl.where(place < tl.gather(ends, row, 0), tl.gather(level, row, 0), 0.0)
        target = out_pointer + start + place
        if n_left >= N:  # the bound is a multiple of a vector, as the compiler knows
            tl.store(target, rows, mask=place < N * size)
        else:
            tl.store(target, rows, mask=place < n_left * size)


# Parts begin anywhere in the tensors of a stack, and tables have any number of features. Specialising the code for the
# alignments and divisibilities that occur would take a minute of compiling without making it faster.


@triton.jit(
    do_not_specialize=["n_values", "n_rows", "n_features", "n_breaks", "size", "n_steps"],
    do_not_specialize_on_alignment=[
        "x_pointer", "breaks_pointer", "n_knots_pointer", "logits_pointer", "penalty_pointer",
    ],
)  # fmt: skip
def _forward(
    x_pointer, breaks_pointer, n_knots_pointer, logits_pointer, penalty_pointer, out_pointer,
    n_values, n_rows, n_features, n_breaks, size, n_steps, min_spacing, epsilon,
    KIND: tl.constexpr, DEGREE: tl.constexpr, N: tl.constexpr, FILL: tl.constexpr, COUNT: tl.constexpr,
    LOG: tl.constexpr, FEATURES: tl.constexpr, WIDTHS: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Write the rows of N values; with WIDTHS, of one group whose knots are computed from logits.

    Every program writes these knots, the same numbers to the same places, and reads what it has written itself.
    """
    program = tl.program_id(0)
    if WIDTHS > 0:
        ends, penalty = knots_of(
            logits_pointer, n_knots_pointer, 0, n_features, n_breaks - 1, min_spacing, epsilon, FEATURES, WIDTHS
        )
        store_breaks(breaks_pointer, 0, ends, n_features, n_breaks - 1, FEATURES, WIDTHS)
        tl.store(penalty_pointer, penalty)
        tl.debug_barrier()
    if LONG:
        program = program.to(tl.int64)
        n_rows = n_rows.to(tl.int64)
    first = program * N
    v = first + tl.arange(0, N)
    here = v < n_values
    f = v % n_features
    table = tl.where(here, v // (n_rows * n_features) * n_features + f, f)
    x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
    n_knots = tl.load(n_knots_pointer + table)
    interval, level, limit, entries = _entries_at(x, breaks_pointer + table * n_breaks, n_knots, n_steps, KIND, DEGREE)
    _fill(out_pointer, first, n_values, level, limit, size, KIND, N, FILL)
    tl.debug_barrier()  # entries go where other threads have written
    if KIND == _CYCLIC:
        place = interval
        for r in tl.static_range(DEGREE + 1):
            tl.store(out_pointer + v * size + place, entries[r], mask=here)
            place = _next(place, n_knots)
    else:
        column = tl.arange(0, COUNT)[None, :]
        target = out_pointer + (v * size + interval)[:, None] + column
        tl.store(target, _side_by_side(entries, COUNT, LOG), mask=here[:, None] & (column < len(entries)))


@triton.jit
def _entries_of(first, present, N: tl.constexpr):
    """Load N numbers from each pointer on, as a tuple."""
    entries = ()
    for r in tl.static_range(N):
        entries = entries + (tl.load(first + r, mask=present, other=0.0).to(tl.float32),)
    return entries


@triton.jit
def _sum_rows(grad_pointer, sums_pointer, first, n_rows, f, n_features, size, own_size, ROWS: tl.constexpr):
    """Write the sums of the first `own_size` columns of the gradient, for ROWS rows of a feature from `first` on.

    They pass through memory, because the compiler would repeat the scheme of a row in all threads that sum it.
    """
    row = first + tl.arange(0, ROWS)[:, None]
    v = row * n_features + f
    total = tl.zeros((ROWS, 1), tl.float32)
    for start in range(0, own_size, 32):
        column = start + tl.arange(0, 32)[None, :]
        known = (row < n_rows) & (column < own_size)
        entries = tl.load(grad_pointer + v * size + column, mask=known, other=0.0).to(tl.float32)
        total += tl.sum(entries, axis=1, keep_dims=True)
    tl.store(sums_pointer + v, total, mask=row < n_rows)


@triton.jit(
    do_not_specialize=["n_rows", "n_features", "n_breaks", "size", "n_places", "n_steps", "n_blocks"],
    do_not_specialize_on_alignment=[
        "grad_pointer", "x_pointer", "breaks_pointer", "n_knots_pointer", "x_grad_pointer", "sums_pointer",
    ],
)  # fmt: skip
def _backward(
    grad_pointer, x_pointer, breaks_pointer, n_knots_pointer, x_grad_pointer, sums_pointer, parts_pointer,
    n_rows, n_features, n_breaks, size, n_places, n_steps, n_blocks,
    KIND: tl.constexpr, DEGREE: tl.constexpr, ROWS: tl.constexpr, KNOTS: tl.constexpr, WINDOW: tl.constexpr,
    LOG: tl.constexpr, WITH_X: tl.constexpr, WITH_KNOTS: tl.constexpr,
    WIDE: tl.constexpr, LONG: tl.constexpr,
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
    sums = tl.zeros((KNOTS, 2 * WINDOW), tl.float32)
    for block in range(n_blocks):
        first_row = (tl.program_id(1) * n_blocks + block) * ROWS
        if LONG:
            first_row = first_row.to(tl.int64)
        if KIND == _NORMALISED:
            start = group * n_rows * n_features
            grads, sums_of_rows = grad_pointer + start * size, sums_pointer + start
            own_size = n_knots + DEGREE + 1
            _sum_rows(grads, sums_of_rows, first_row, n_rows, f, n_features, size, own_size, ROWS)
            tl.debug_barrier()
        row = first_row + tl.arange(0, ROWS)
        here = row < n_rows
        v = (group * n_rows + row) * n_features + f
        x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
        present = here & (x == x)
        inside = present & (x >= 0.0) & (x <= 1.0)
        x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
        interval, t = find(x, breaks_pointer + table * n_breaks, n_knots, n_steps, KIND, DEGREE)
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
            entries = _entries_of(first, present, DEGREE)
            local = (zero,)
            for r in tl.static_range(DEGREE):
                local = local + (local[r] + entries[r],)
        elif KIND == _CYCLIC:
            place = interval
            for r in tl.static_range(DEGREE + 1):
                entry = grad_pointer + v * size + place
                local = local + (tl.load(entry, mask=present, other=0.0).to(tl.float32),)
                place = _next(place, n_knots)
        else:
            local = _entries_of(first, present, DEGREE + 1)
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

        if WITH_KNOTS:
            masked = ()
            for c in tl.static_range(2 * DEGREE + 2):
                masked = masked + (tl.where(present, slopes[c], 0.0),)
            window = _side_by_side(masked, WINDOW, LOG)
            owners = (intervals == interval[None, :]).to(tl.float32)
            # Tensor cores read 11 bits. Owners need one; slopes have their first 11 in one column, the rest in another.
            leading = (window.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
            both = tl.reshape(tl.join(leading, window - leading), (ROWS, 2 * WINDOW))
            sums = tl.dot(owners, both, sums, input_precision="tf32")
    if WITH_KNOTS:
        totals = tl.sum(tl.reshape(sums, (KNOTS, WINDOW, 2)), axis=2)
        part = (tl.program_id(1) * tl.num_programs(0) + table).to(tl.int64) * n_places * WINDOW
        tl.store(parts_pointer + part + intervals * WINDOW + tl.arange(0, WINDOW)[None, :], totals)


@triton.jit(
    do_not_specialize=["n_features", "n_breaks", "n_parts"],
    do_not_specialize_on_alignment=["n_knots_pointer", "logits_pointer", "penalty_grad_pointer", "out_pointer"],
)
def gather_sums(
    parts_pointer, n_knots_pointer, out_pointer, logits_pointer, penalty_grad_pointer,
    n_features, n_breaks, n_parts, min_spacing, epsilon,
    PARTS: tl.constexpr, KIND: tl.constexpr, DEGREE: tl.constexpr, KNOTS: tl.constexpr,
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
    for first in range(0, n_parts, PARTS):
        part = first + tl.arange(0, PARTS)[None, :]
        start = parts_pointer + (part * tl.num_programs(0) + table).to(tl.int64) * KNOTS * WINDOW
        for c in tl.static_range(2 * DEGREE + 2):
            interval = place + DEGREE - c
            if KIND == _CYCLIC:
                interval = (interval + (DEGREE + 1) * (n_knots + 1)) % (n_knots + 1)
            known = (interval >= 0) & (interval <= n_knots) & (place >= 1) & (place <= n_knots) & (part < n_parts)
            totals += tl.load(start + interval * WINDOW + c, mask=known, other=0.0)
    slopes = tl.sum(totals, axis=1)
    if TO_LOGITS:
        n_widths = n_breaks - 1
        shares = softmax_shares(logits_pointer + table * n_widths, n_knots, KNOTS)
        slopes = tl.cumsum(slopes, axis=0, reverse=True)  # a width moves the knot at its end and all after it
        if WITH_PENALTY:
            grad = tl.load(penalty_grad_pointer + table // n_features)
            barrier = penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon)
            slopes += tl.where(column <= n_knots, barrier, 0.0)
        slopes = logits_slopes(shares, slopes, n_knots, min_spacing)
        tl.store(out_pointer + table * n_widths + column, slopes, mask=column < n_widths)
    else:
        tl.store(out_pointer + table * n_breaks + column, slopes, mask=column < n_breaks)


class _Shapes(NamedTuple):
    """Shapes of an encoding: numbers of groups, rows, features, breaks and columns."""

    groups: int
    rows: int
    features: int
    breaks: int
    size: int

    @property
    def values(self) -> int:
        return self.groups * self.rows * self.features

    @property
    def n_steps(self) -> int:
        """Steps of the bisection that finds an interval."""
        return (self.breaks - 2).bit_length()

    @property
    def is_long(self) -> bool:
        """Whether places in the output need 64 bits."""
        return is_long(self.values * self.size)


def _shapes_of(x: Tensor, n_knots: Tensor, n_breaks: int, size: int) -> _Shapes:
    """Return the shapes; tensors of one group may have no axis of groups, or several of rows."""
    features, tables = n_knots.shape[-1], n_knots.numel()
    return _Shapes(tables // features, x.numel() // max(tables, 1), features, n_breaks, size)


@lru_cache(maxsize=MOST_PLANS)
def _plan_forward(shapes: _Shapes, kind: int, degree: int, min_spacing: float, epsilon: float, learned: bool) -> Launch:
    count = power_of_2_from(degree if kind == Functions.TAILS else degree + 1)
    return Launch(
        _forward, (-(-shapes.values // VALUES), 1, 1),
        (shapes.values, shapes.rows, shapes.features, shapes.breaks, shapes.size, shapes.n_steps, min_spacing,
         epsilon),
        KIND=kind, DEGREE=degree, N=VALUES, FILL=FILL, COUNT=count, LOG=count.bit_length() - 1,
        FEATURES=power_of_2_from(shapes.features) if learned else 0,
        WIDTHS=padded(shapes.breaks - 1, shapes.size) if learned else 0, LONG=shapes.is_long,
    )  # fmt: skip


def forward(x: Tensor, breaks: Tensor, n_knots: Tensor, out: Tensor, *, kind: int, degree: int) -> None:
    """Fill `out`, a contiguous tensor of shape (G, B, F, size) of any float type."""
    if not x.numel():
        return
    x, breaks, n_knots = x.contiguous(), breaks.contiguous(), n_knots.contiguous()
    shapes = _shapes_of(x, n_knots, breaks.shape[-1], out.shape[-1])
    _plan_forward(shapes, kind, degree, 0.0, 0.0, learned=False).launch(x, breaks, n_knots, breaks, breaks, out)


def _forward_from_logits(
    x: Tensor, logits: Tensor, n_knots: Tensor, out: Tensor, *, kind: int, degree: int, min_spacing: float,
    epsilon: float,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Fill `out` as `forward`, and return breaks and penalty; None where that is not possible.

    It is possible for one group with or without an axis of groups, with not too many knots: all by one kernel, or for
    many values, where every program would compute the knots needlessly, by two.
    """
    *lead, n_features, n_widths = logits.shape
    size, in_one = out.shape[-1], x.numel() <= MOST_WITH_KNOTS
    most = MOST_IN_EACH if in_one else MOST_IN_ONE
    if not x.numel() or n_knots.numel() != n_features or power_of_2_from(n_features) * padded(n_widths, size) > most:
        return None
    x, logits = x.contiguous(), logits.contiguous()
    breaks = torch.empty((*lead, n_features, n_widths + 1), dtype=torch.float32, device=x.device)
    penalty = torch.empty(lead, dtype=torch.float32, device=x.device)
    shapes = _shapes_of(x, n_knots, n_widths + 1, size)
    if not in_one:
        plan = plan_knots(1, n_features, n_widths, size, min_spacing, epsilon)
        plan.launch(logits, n_knots, breaks, penalty, breaks, breaks)
    plan = _plan_forward(shapes, kind, degree, min_spacing, epsilon, learned=in_one)
    plan.launch(x, breaks, n_knots, logits, penalty, out)
    return breaks, penalty


@lru_cache(maxsize=MOST_PLANS)
def _plan_backward(
    shapes: _Shapes, kind: int, degree: int, min_spacing: float, epsilon: float, *, with_x: bool, with_knots: bool,
    to_logits: bool, with_penalty: bool,
) -> tuple[Launch, Launch, tuple[int, ...]]:  # fmt: skip
    """Return the two kernels, and the shape of the sums between them."""
    n_tables = shapes.groups * shapes.features
    knots = max(padded(shapes.breaks, shapes.size + 1), 16)
    tile = min(knots, WIDEST)
    n_tiles = -(-max(shapes.breaks - 1, shapes.size) // tile)
    # Sums over rows must not depend on the number of groups, which may be members of a stack.
    rows, n_blocks = (ROWS, -(-shapes.rows // (ROWS * MOST_SUMS))) if shapes.rows > 4096 else (WARP, 2)
    window = max(power_of_2_from(2 * degree + 2), 8)
    n_parts = -(-shapes.rows // (rows * n_blocks))
    settings = {"KIND": kind, "DEGREE": degree}
    by_rows = Launch(
        _backward, (n_tables, n_parts, n_tiles),
        (shapes.rows, shapes.features, shapes.breaks, shapes.size, knots, shapes.n_steps, n_blocks),
        n_warps=rows // WARP, **settings, ROWS=rows, KNOTS=tile, WINDOW=window, LOG=window.bit_length() - 1,
        WITH_X=with_x, WITH_KNOTS=with_knots, WIDE=n_tiles > 1, LONG=shapes.is_long,
    )  # fmt: skip
    gather = Launch(
        gather_sums, (n_tables, 1, 1), (shapes.features, shapes.breaks, n_parts, min_spacing, epsilon),
        PARTS=32, **settings, KNOTS=knots, WINDOW=window, TO_LOGITS=to_logits, WITH_PENALTY=with_penalty,
    )  # fmt: skip
    return by_rows, gather, (n_parts, n_tables, knots, window)


def backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, spacings: Spacings | None = None, *, kind: int,
    degree: int, with_x: bool, with_knots: bool = True, out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of x (undefined unless `with_x`) and of the breaks, zero for the ends, which do not move.

    The second result is the gradient of the breaks, undefined unless `with_knots`, or with `spacings` that of the
    logits; `out`, if given, receives it.
    """
    grad, x, breaks, n_knots = grad.contiguous(), x.contiguous(), breaks.contiguous(), n_knots.contiguous()
    x_grad = torch.empty_like(x) if with_x else x
    if out is None:
        out = torch.empty_like(breaks if spacings is None else spacings.logits)
    logits, min_spacing, epsilon, penalty_grad = Spacings(breaks, 0.0) if spacings is None else spacings
    shapes = _shapes_of(x, n_knots, breaks.shape[-1], grad.shape[-1])
    if not x.numel():
        if penalty_grad is None:
            return x_grad, out.zero_()
        knots = logits, n_knots, None, min_spacing, epsilon, shapes.size
        return x_grad, out.copy_(knots_to_logits(None, penalty_grad, *knots))
    by_rows, gather, shape = _plan_backward(
        shapes, kind, degree, min_spacing, epsilon, with_x=with_x, with_knots=with_knots,
        to_logits=spacings is not None, with_penalty=penalty_grad is not None,
    )  # fmt: skip
    sums = torch.empty(shape, dtype=torch.float32, device=x.device) if with_knots else out
    row_sums = torch.empty(x.shape, dtype=torch.float32, device=x.device) if kind == Functions.NORMALISED else sums
    by_rows.launch(grad, x, breaks, n_knots, x_grad, row_sums, sums)
    if not with_knots:
        return x_grad, out
    penalties = out if penalty_grad is None else penalty_grad.contiguous()
    gather.launch(sums, n_knots, out, logits.contiguous(), penalties)
    return x_grad, out


ENCODING = path_of(Loops(make_knots, knots_to_logits, forward, backward, backward, _forward_from_logits))
