"""The encoding on NVIDIA and AMD GPUs, in Triton: the same scheme as `knotwork.nn.cpu`, a block of values at a time.

Forward writes every output once. Backward reads, of each row of the gradient, only the few entries that depend on the
knots. The sums over rows are formed per program and added up in a fixed order, so that results repeat exactly.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn.layout import LOCAL, NORM_EPSILON, NORMALISED, TAILS

__all__ = ["backward", "forward"]

_LOCAL = tl.constexpr(LOCAL)
_TAILS = tl.constexpr(TAILS)
_NORMALISED = tl.constexpr(NORMALISED)
_NORM_EPSILON = tl.constexpr(NORM_EPSILON)


@triton.jit
def _find(x, breaks, n_knots, DEGREE: tl.constexpr, KNOTS: tl.constexpr):
    """Return the interval of each x, and the 2 degree + 2 knots around it, as a tuple."""
    k = tl.arange(0, KNOTS)
    knots = tl.load(breaks[:, None] + 1 + k[None, :], mask=k[None, :] < n_knots[:, None], other=2.0)
    interval = tl.sum((knots <= x[:, None]).to(tl.int32), axis=1)
    t = ()
    for c in tl.static_range(2 * DEGREE + 2):
        place = tl.minimum(tl.maximum(interval + c - DEGREE, 0), n_knots + 1)
        t = t + (tl.load(breaks + place),)
    return interval, t


@triton.jit
def _levels(x, t, DEGREE: tl.constexpr):
    """Return the B-splines of degree 0, 1, ..., degree at x: a tuple of tuples."""
    values = (tl.full(x.shape, 1.0, x.dtype),)
    levels = (values,)
    for q in tl.static_range(1, DEGREE + 1):
        from_left = tl.zeros(x.shape, x.dtype)
        raised = ()
        for r in tl.static_range(q):
            left = t[DEGREE + r + 1 - q]
            right = t[DEGREE + r + 1]
            share = values[r] / (right - left)
            raised = raised + (from_left + (right - x) * share,)
            from_left = (x - left) * share
        values = raised + (from_left,)
        levels = levels + (values,)
    return levels


@triton.jit
def _to_unit_area(values, t, DEGREE: tl.constexpr):
    """Return B-splines times the heights of M-splines."""
    scaled = ()
    for r in tl.static_range(DEGREE + 1):
        scaled = scaled + (values[r] * (DEGREE + 1) / (t[DEGREE + r + 1] - t[r]),)
    return scaled


@triton.jit
def _moments(values, size, DEGREE: tl.constexpr):
    """Return the mean of rows of `size` columns that are zero but for `values`, and 1 / their spread."""
    total = values[0]
    for r in tl.static_range(1, DEGREE + 1):
        total += values[r]
    mean = total / size
    squares = (size - (DEGREE + 1)) * mean * mean
    for r in tl.static_range(DEGREE + 1):
        squares += (values[r] - mean) * (values[r] - mean)
    return mean, 1.0 / tl.sqrt(squares / size + _NORM_EPSILON)


@triton.jit
def _forward(
    x_pointer,
    breaks_pointer,
    n_knots_pointer,
    out_pointer,
    n_values,
    n_rows,
    n_features,
    n_breaks,
    size,
    KIND: tl.constexpr,
    DEGREE: tl.constexpr,
    VALUES: tl.constexpr,
    KNOTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    v = tl.program_id(0).to(tl.int64) * VALUES + tl.arange(0, VALUES)
    here = v < n_values
    f = v % n_features
    table = tl.where(here, v // (n_rows * n_features) * n_features + f, f)
    x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
    present = x == x
    x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
    n_knots = tl.load(n_knots_pointer + f)
    interval, t = _find(x, breaks_pointer + table * n_breaks, n_knots, DEGREE, KNOTS)
    values = _levels(x, t, DEGREE)[DEGREE]

    column = tl.arange(0, COLUMNS)[None, :]
    place = column - interval[:, None]
    if KIND == _TAILS:
        rows = tl.where(place < 0, 1.0, 0.0)
        tail = tl.zeros(x.shape, x.dtype)
        for k in tl.static_range(DEGREE):
            tail += values[DEGREE - k]
            rows = tl.where(place == DEGREE - 1 - k, tail[:, None], rows)
    else:
        if KIND != _LOCAL:
            values = _to_unit_area(values, t, DEGREE)
        rows = tl.zeros((VALUES, COLUMNS), tl.float32)
        for r in tl.static_range(DEGREE + 1):
            rows = tl.where(place == r, values[r][:, None], rows)
        if KIND == _NORMALISED:
            own_size = n_knots + DEGREE + 1
            mean, scale = _moments(values, own_size, DEGREE)
            rows = tl.where(column < own_size[:, None], (rows - mean[:, None]) * scale[:, None], 0.0)
    rows = tl.where(present[:, None], rows, 0.0)
    tl.store(out_pointer + v[:, None] * size + column, rows, mask=here[:, None] & (column < size))


@triton.jit
def _backward(
    grad_pointer,
    x_pointer,
    breaks_pointer,
    n_knots_pointer,
    x_grad_pointer,
    parts_pointer,
    n_rows,
    n_features,
    n_breaks,
    size,
    KIND: tl.constexpr,
    DEGREE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    KNOTS: tl.constexpr,
    WINDOW: tl.constexpr,
    COLUMNS: tl.constexpr,
    WITH_X: tl.constexpr,
):
    """Run the scheme backwards for one feature of one group; see `knotwork.nn.cpu._backward` for the formulas."""
    table = tl.program_id(0)
    group = table // n_features
    f = table % n_features
    n_knots = tl.load(n_knots_pointer + f)
    sums = tl.zeros((KNOTS, WINDOW), tl.float32)
    for block in range(BLOCKS):
        row = (tl.program_id(1) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        here = row < n_rows
        v = (group.to(tl.int64) * n_rows + row) * n_features + f
        x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
        present = here & (x == x)
        inside = present & (x >= 0.0) & (x <= 1.0)
        x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
        counts = tl.zeros((ROWS,), tl.int32) + n_knots
        interval, t = _find(x, breaks_pointer + tl.zeros((ROWS,), tl.int32) + table * n_breaks, counts, DEGREE, KNOTS)
        levels = _levels(x, t, DEGREE)

        first = grad_pointer + v * size + interval
        zero = tl.zeros((ROWS,), tl.float32)
        slopes = ()
        for c in tl.static_range(2 * DEGREE + 2):
            slopes = slopes + (zero,)
        local = ()
        if KIND == _TAILS:
            local = (zero,)
            for r in tl.static_range(DEGREE):
                local = local + (local[r] + tl.load(first + r, mask=present, other=0.0).to(tl.float32),)
        else:
            for r in tl.static_range(DEGREE + 1):
                local = local + (tl.load(first + r, mask=present, other=0.0).to(tl.float32),)
        if KIND == _NORMALISED:
            heights = _to_unit_area(levels[DEGREE], t, DEGREE)
            mean, scale = _moments(heights, n_knots + DEGREE + 1, DEGREE)
            column = tl.arange(0, COLUMNS)[None, :]
            known = present[:, None] & (column < n_knots + DEGREE + 1)
            row_grad = tl.load(grad_pointer + v[:, None] * size + column, mask=known, other=0.0).to(tl.float32)
            total = tl.sum(row_grad, axis=1)
            along = -mean * total
            for r in tl.static_range(DEGREE + 1):
                along += local[r] * heights[r]
            along = along * scale * scale / (n_knots + DEGREE + 1)
            before = ()
            for r in tl.static_range(DEGREE + 1):
                share = local[r] - total / (n_knots + DEGREE + 1) - (heights[r] - mean) * along
                before = before + (scale * share,)
            local = before
        if KIND != _LOCAL and KIND != _TAILS:  # noqa: PLR1714 - Triton knows no `in`
            raised = ()
            for r in tl.static_range(DEGREE + 1):
                span = t[DEGREE + r + 1] - t[r]
                g = local[r] * (DEGREE + 1) / span
                pull = g * levels[DEGREE][r] / span
                slopes = slopes[:r] + (slopes[r] + pull,) + slopes[r + 1 :]
                slopes = slopes[: DEGREE + r + 1] + (slopes[DEGREE + r + 1] - pull,) + slopes[DEGREE + r + 2 :]
                raised = raised + (g,)
            local = raised
        x_slope = zero
        for q in tl.static_range(DEGREE, 0, -1):
            lowered = ()
            for r in tl.static_range(q):
                left = t[DEGREE + r + 1 - q]
                right = t[DEGREE + r + 1]
                width = right - left
                u = (x - left) / width
                rise = local[r + 1] - local[r]
                moved = levels[q - 1][r] / width * rise
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
            tl.store(x_grad_pointer + v, tl.where(inside, x_slope, 0.0), mask=here)

        columns = tl.arange(0, WINDOW)[None, :]
        window = tl.zeros((ROWS, WINDOW), tl.float32)
        for c in tl.static_range(2 * DEGREE + 2):
            window = tl.where(columns == c, slopes[c][:, None], window)
        window = tl.where(present[:, None], window, 0.0)
        owners = (tl.arange(0, KNOTS)[:, None] == interval[None, :]).to(tl.float32)
        sums = tl.dot(owners, window, sums, input_precision="ieee")
    part = (tl.program_id(1) * tl.num_programs(0) + table) * KNOTS * WINDOW
    place = tl.arange(0, KNOTS)[:, None] * WINDOW + tl.arange(0, WINDOW)[None, :]
    tl.store(parts_pointer + part + place, sums)


@triton.jit
def _gather_sums(
    parts_pointer,
    n_knots_pointer,
    breaks_grad_pointer,
    n_features,
    n_breaks,
    N_PARTS: tl.constexpr,
    PARTS: tl.constexpr,
    DEGREE: tl.constexpr,
    KNOTS: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Add up the parts, and bring what each interval says of the knots around it together at each knot."""
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table % n_features)
    place = tl.arange(0, KNOTS)[:, None]
    totals = tl.zeros((KNOTS, PARTS), tl.float32)
    for first in range(0, N_PARTS, PARTS):
        part = first + tl.arange(0, PARTS)[None, :]
        start = parts_pointer + (part * tl.num_programs(0) + table) * KNOTS * WINDOW
        for c in tl.static_range(2 * DEGREE + 2):
            interval = place + DEGREE - c
            known = (interval >= 0) & (interval <= n_knots) & (place >= 1) & (place <= n_knots) & (part < N_PARTS)
            totals += tl.load(start + interval * WINDOW + c, mask=known, other=0.0)
    column = tl.arange(0, KNOTS)
    tl.store(breaks_grad_pointer + table * n_breaks + column, tl.sum(totals, axis=1), mask=column < n_breaks)


def forward(
    x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int, dtype: torch.dtype
) -> Tensor:
    """Encode values; parameters and result as for `encode_plain`, the result of type `dtype`."""
    x, breaks = x.contiguous(), breaks.contiguous()
    out = torch.empty(*x.shape, size, dtype=dtype, device=x.device)
    if not x.numel():
        return out
    values = 64 if size <= 64 else 16
    _forward[(triton.cdiv(x.numel(), values),)](
        x,
        breaks,
        n_knots,
        out,
        x.numel(),
        x.shape[1],
        x.shape[2],
        breaks.shape[-1],
        size,
        KIND=kind,
        DEGREE=degree,
        VALUES=values,
        KNOTS=triton.next_power_of_2(breaks.shape[-1]),
        COLUMNS=triton.next_power_of_2(size),
    )
    return out


def backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x (nothing unless `with_x`) and of the breaks; zeros for the ends, which do not move."""
    grad, x, breaks = grad.contiguous(), x.contiguous(), breaks.contiguous()
    x_grad = torch.empty_like(x) if with_x else x.new_empty(())
    n_tables, n_rows = breaks.shape[0] * breaks.shape[1], x.shape[1]
    if not x.numel():
        return x_grad, torch.zeros_like(breaks)
    breaks_grad = torch.empty_like(breaks)
    rows, knots = (64 if n_rows > 4096 else 32), max(triton.next_power_of_2(breaks.shape[-1]), 16)
    window = max(triton.next_power_of_2(2 * degree + 2), 16)
    blocks = min(max(triton.cdiv(n_rows * n_tables, rows * 2048), 1), 64)
    n_parts = triton.cdiv(n_rows, rows * blocks)
    parts = torch.empty(n_parts, n_tables, knots, window, dtype=torch.float32, device=x.device)
    _backward[(n_tables, n_parts)](
        grad,
        x,
        breaks,
        n_knots,
        x_grad,
        parts,
        n_rows,
        x.shape[2],
        breaks.shape[-1],
        grad.shape[-1],
        KIND=kind,
        DEGREE=degree,
        ROWS=rows,
        BLOCKS=blocks,
        KNOTS=knots,
        WINDOW=window,
        COLUMNS=triton.next_power_of_2(grad.shape[-1]),
        WITH_X=with_x,
    )
    _gather_sums[(n_tables,)](
        parts,
        n_knots,
        breaks_grad,
        x.shape[2],
        breaks.shape[-1],
        N_PARTS=n_parts,
        PARTS=min(triton.next_power_of_2(n_parts), 32),
        DEGREE=degree,
        KNOTS=knots,
        WINDOW=window,
    )
    return x_grad, breaks_grad
