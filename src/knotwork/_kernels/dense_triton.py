"""Functions that all vary everywhere on NVIDIA and AMD GPUs, in Triton: the formulas of `dense`.

Forward writes every output once, for a block of values at a time. Backward reads every gradient once, for rows of one
feature; sums over rows are formed per program and added in a fixed order, so that results are reproducible. The tables
of a feature are computed by one program: those of natural splines by elimination, knot by knot, for all curves at once.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path, is_long
from knotwork._kernels.encoding_triton import WIDEST, find
from knotwork._kernels.launching import contiguous, launch
from knotwork.basis import Functions

_LOCAL = tl.constexpr(Functions.LOCAL.value)
_NATURAL = tl.constexpr(Functions.NATURAL.value)
_RADIAL = tl.constexpr(Functions.RADIAL.value)

ROWS, MOST_PARTS = 32, 128
"""Rows of an iteration, and most programs that share the rows of one feature in the backward pass of large batches."""

VALUES = 2048
"""Outputs of a program of the forward pass."""

ADDED = 256
"""Sums of a program that adds those of other programs."""


@triton.jit
def _n_functions(n_knots, KIND: tl.constexpr):
    if KIND == _NATURAL or KIND == _RADIAL:  # noqa: PLR1714, SIM109 - Triton knows no `in`
        return n_knots + 2
    return n_knots + 1


@triton.jit
def _curve(x, breaks, n_knots, STEPS: tl.constexpr):
    """Return the interval of each x, its place u there, w = 1 - u, the width, and the factors of the bends."""
    interval, ends = find(x, breaks, n_knots, STEPS, _LOCAL, 0)
    width = ends[1] - ends[0]
    u = (x - ends[0]) / width
    w = 1.0 - u
    sixth = width * width / 6.0
    return interval, u, w, width, sixth * (w * w * w - w), sixth * (u * u * u - u)


@triton.jit
def _at_interval(interval, first, second, COLUMNS: tl.constexpr):
    """Return rows of zeros except two numbers, in the column of the interval and in the next one."""
    place = tl.arange(0, COLUMNS)[None, :] - interval[:, None]
    return tl.where(place == 0, first[:, None], tl.where(place == 1, second[:, None], 0.0))


# Lengths of rows are given in units of a constant, so that the compiler knows their divisors, and writes
# several values at once. Specialising for each length would take long.


@triton.jit(
    do_not_specialize=["n_values", "n_rows", "n_features", "n_breaks", "units"],
    do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer", "table_pointer"],
)
def _dense_forward(
    x_pointer, breaks_pointer, n_knots_pointer, table_pointer, out_pointer,
    n_values, n_rows, n_features, n_breaks, units,
    KIND: tl.constexpr, UNIT: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr, COLUMNS: tl.constexpr,
    WIDE: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Write the rows of VALUES values that follow each other in memory, whatever their features."""
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
        n_rows = n_rows.to(tl.int64)
    size = units * UNIT
    v = program * VALUES + tl.arange(0, VALUES)
    here = v < n_values
    f = v % n_features
    feature = tl.where(here, v // (n_rows * n_features) * n_features + f, f)
    x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
    present = x == x
    x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
    n_knots = tl.load(n_knots_pointer + feature)
    first = 0
    if WIDE:  # otherwise a program has complete rows
        first = tl.program_id(1) * COLUMNS
    column = first + tl.arange(0, COLUMNS)[None, :]
    used = column < _n_functions(n_knots, KIND)[:, None]
    start = feature * n_breaks
    if KIND == _NATURAL:
        interval, u, w, _, a, b = _curve(x, breaks_pointer + start, n_knots, STEPS)
        rows = _at_interval(interval - first, w, u, COLUMNS)
        bends = table_pointer + ((start + interval) * n_breaks)[:, None] + column
        rows += a[:, None] * tl.load(bends, mask=used, other=0.0)
        rows += b[:, None] * tl.load(bends + n_breaks, mask=used, other=0.0)
    else:
        distance = x[:, None] - tl.load(breaks_pointer + start[:, None] + column, mask=used, other=0.0)
        if KIND == _RADIAL:
            share = distance * tl.load(table_pointer + start[:, None] + column, mask=used, other=0.0)
            rows = tl.exp(-share * share)
        else:
            rows = tl.where(column == 0, x[:, None], tl.abs(distance) * distance * distance)
    rows = tl.where(present[:, None] & used, rows, 0.0)
    tl.store(out_pointer + v[:, None] * size + column, rows, mask=here[:, None] & (column < size))


@triton.jit(
    do_not_specialize=["n_values", "n_rows", "n_features", "n_breaks", "units", "n_entries"],
    do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer", "table_pointer"],
)
def _dense_backward(
    grad_pointer, x_pointer, breaks_pointer, n_knots_pointer, table_pointer, x_grad_pointer, parts_pointer,
    n_values, n_rows, n_features, n_breaks, units, n_entries,
    KIND: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr, STEPS: tl.constexpr,
    COLUMNS: tl.constexpr, KNOTS: tl.constexpr, WITH_X: tl.constexpr, LONG: tl.constexpr,
    WITH_SLOPES: tl.constexpr,
):  # fmt: skip
    """Sum over some rows of one feature, for some columns; see `dense` for the formulas.

    For natural splines, WITH_SLOPES computes the gradients of x and of the breaks, and otherwise those of the bends.
    """
    feature = tl.program_id(0)
    group = feature // n_features
    if LONG:
        group = group.to(tl.int64)
    n_knots = tl.load(n_knots_pointer + feature)
    size = units * UNIT
    first = tl.program_id(2) * COLUMNS
    column = first + tl.arange(0, COLUMNS)[None, :]
    used = column < _n_functions(n_knots, KIND)
    breaks = breaks_pointer + feature * n_breaks
    if KIND == _NATURAL:
        table_sums = tl.zeros((KNOTS, COLUMNS), tl.float32)
        breaks_sums = tl.zeros((KNOTS,), tl.float32)
    else:
        centre = tl.load(breaks + column, mask=used, other=0.0)
        table_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
        breaks_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
        if KIND == _RADIAL:
            factor = tl.load(table_pointer + feature * n_breaks + column, mask=used, other=0.0)
    for block in range(BLOCKS):
        row = (tl.program_id(1) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        here = row < n_rows
        v = (group * n_rows + row) * n_features + feature % n_features
        x = tl.load(x_pointer + v, mask=here, other=0.0).to(tl.float32)
        present = here & (x == x)
        inside = present & (x >= 0.0) & (x <= 1.0)
        x = tl.where(present, tl.minimum(tl.maximum(x, 0.0), 1.0), 0.0)
        entries = grad_pointer + v[:, None] * size + column
        slopes = tl.load(entries, mask=present[:, None] & used & (column < size), other=0.0).to(tl.float32)
        if KIND == _NATURAL:
            interval, u, w, width, a, b = _curve(x, breaks, n_knots, STEPS)
            if WITH_SLOPES:
                bends = table_pointer + ((feature * n_breaks + interval) * n_breaks)[:, None] + column
                left = tl.sum(slopes * tl.load(bends, mask=used, other=0.0), axis=1)
                right = tl.sum(slopes * tl.load(bends + n_breaks, mask=used, other=0.0), axis=1)
                one = tl.full((ROWS,), 1.0, tl.float32)
                along = tl.sum(slopes * _at_interval(interval - first, -one, one, COLUMNS), axis=1)
                along += width * width / 6.0 * ((1.0 - 3.0 * w * w) * left + (3.0 * u * u - 1.0) * right)
                x_slope = along / width
                along_width = 2.0 * (a * left + b * right) / width
                moved = _at_interval(interval, -w * x_slope - along_width, along_width - u * x_slope, KNOTS)
                breaks_sums += tl.sum(moved, axis=0)
            else:
                weights = tl.trans(_at_interval(interval, a, b, KNOTS))
                table_sums = tl.dot(weights, slopes, table_sums, input_precision="tf32x3")
        else:
            distance = x[:, None] - centre
            if KIND == _RADIAL:
                share = distance * factor
                along = -2.0 * share * tl.exp(-share * share) * slopes
                table_sums += along * distance
                along *= factor
                breaks_sums -= along
            else:
                along = 3.0 * distance * tl.abs(distance) * slopes
                breaks_sums -= tl.where(column == 0, 0.0, along)
                along = tl.where(column == 0, slopes, along)
            x_slope = tl.sum(along, axis=1)
        if WITH_X and WITH_SLOPES:
            tl.store(x_grad_pointer + tl.program_id(2) * n_values + v, tl.where(inside, x_slope, 0.0), mask=here)
    part = parts_pointer + (tl.program_id(1) * tl.num_programs(0) + feature) * n_entries
    if KIND == _NATURAL:
        knot = tl.arange(0, KNOTS)[:, None]
        if not WITH_SLOPES:
            tl.store(part + knot * n_breaks + column, table_sums, mask=(knot < n_breaks) & (column < n_breaks))
        else:
            k = tl.arange(0, KNOTS)
            sums = tl.where((k >= 1) & (k <= n_knots), breaks_sums, 0.0)  # the ends do not move
            tl.store(part + (n_breaks + tl.program_id(2)) * n_breaks + k, sums, mask=k < n_breaks)
    else:
        k = first + tl.arange(0, COLUMNS)
        tl.store(part + n_breaks + k, tl.sum(breaks_sums, axis=0), mask=k < n_breaks)
        tl.store(part + k, tl.sum(table_sums, axis=0), mask=k < n_breaks)


@triton.jit(do_not_specialize=["n_features", "n_first", "n_second", "n_tiles"])
def _add_parts(
    parts_pointer, first_pointer, second_pointer, n_features, n_first, n_second, n_tiles,
    N_PARTS: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """Add the parts of all programs: those of the table, then those of the breaks, which may be in several tiles."""
    feature = tl.program_id(0)
    entry = tl.program_id(1) * ADDED + tl.arange(0, ADDED)
    is_first = entry < n_first
    is_second = (entry >= n_first) & (entry < n_first + n_second)
    n_entries = n_first + n_tiles * n_second
    total = tl.zeros((ADDED,), tl.float32)
    for part in range(N_PARTS):
        start = parts_pointer + (part * n_features + feature) * n_entries + entry
        total += tl.load(start, mask=is_first | is_second, other=0.0)
        for tile in range(1, n_tiles):
            total += tl.load(start + tile * n_second, mask=is_second, other=0.0)
    tl.store(first_pointer + feature * n_first + entry, total, mask=is_first)
    tl.store(second_pointer + feature * n_second + entry - n_first, total, mask=is_second)


@triton.jit(do_not_specialize=["n_breaks"], do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer"])
def _bends_forward(breaks_pointer, n_knots_pointer, shares_pointer, out_pointer, n_breaks, COLUMNS: tl.constexpr):
    """Eliminate from the first knot to the last, then insert from the last to the first, for all curves at once.

    With the widths l and r of the intervals at a knot, the bends M of a curve have at this knot and its neighbours
    ``l M_before + 2 (l + r) M + r M_after = 6 (slope after - slope before)``.
    """
    feature = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + feature)
    breaks = breaks_pointer + feature * n_breaks
    shares = shares_pointer + feature * n_breaks
    column = tl.arange(0, COLUMNS)
    inside = column < n_breaks
    out = out_pointer + feature * n_breaks * n_breaks + column
    row = tl.zeros((COLUMNS,), tl.float32)
    tl.store(out, row, mask=inside)
    share = tl.load(breaks) * 0.0
    middle = tl.load(breaks + 1)
    right = middle - tl.load(breaks)
    for i in range(1, n_knots + 1):
        left = right
        end = tl.load(breaks + i + 1)
        right = end - middle
        middle = end
        per_pivot = 1.0 / (2.0 * (left + right) - left * share)
        share = right * per_pivot
        before, after = 6.0 / left, 6.0 / right
        rise = tl.where(column == i + 1, after, tl.where(column == i, -after - before, 0.0))
        rise = tl.where(column == i - 1, before, rise)
        row = (rise - left * row) * per_pivot
        tl.store(out + i * n_breaks, row, mask=inside)
        tl.store(shares + i, share)
    row = tl.zeros((COLUMNS,), tl.float32)
    for i in range(n_knots + 1, n_breaks):
        tl.store(out + i * n_breaks, row, mask=inside)
    tl.debug_barrier()  # what other threads have stored is read
    for step in range(n_knots):
        i = n_knots - step
        row = tl.load(out + i * n_breaks, mask=inside, other=0.0) - tl.load(shares + i) * row
        tl.store(out + i * n_breaks, row, mask=inside)


@triton.jit(do_not_specialize=["n_breaks"], do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer"])
def _bends_backward(
    grad_pointer, breaks_pointer, n_knots_pointer, shares_pointer, bends_pointer, work_pointer, out_pointer, n_breaks,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Solve the same system, which is symmetric, for the gradient; its product with the bends is that of the matrix."""
    feature = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + feature)
    breaks = breaks_pointer + feature * n_breaks
    shares = shares_pointer + feature * n_breaks
    column = tl.arange(0, COLUMNS)
    inside = column < n_breaks
    start = feature * n_breaks * n_breaks + column
    row = tl.zeros((COLUMNS,), tl.float32)
    for i in range(1, n_knots + 1):
        left = tl.load(breaks + i) - tl.load(breaks + i - 1)
        right = tl.load(breaks + i + 1) - tl.load(breaks + i)
        slopes = tl.load(grad_pointer + start + i * n_breaks, mask=inside, other=0.0)
        row = (slopes - left * row) * tl.load(shares + i) / right
        tl.store(work_pointer + start + i * n_breaks, row, mask=inside)
    tl.debug_barrier()
    row = tl.zeros((COLUMNS,), tl.float32)
    sums = tl.zeros((COLUMNS,), tl.float32)
    for step in range(n_knots):
        i = n_knots - step
        left = tl.load(breaks + i) - tl.load(breaks + i - 1)
        right = tl.load(breaks + i + 1) - tl.load(breaks + i)
        bends = bends_pointer + start + i * n_breaks
        row = tl.load(work_pointer + start + i * n_breaks, mask=inside, other=0.0) - tl.load(shares + i) * row
        middle = 2.0 * tl.load(bends, mask=inside, other=0.0)
        fall = tl.where(column == i, row, 0.0) - tl.where(column == i - 1, row, 0.0)
        rise = tl.where(column == i + 1, row, 0.0) - tl.where(column == i, row, 0.0)
        from_left = 6.0 * fall / (left * left) - row * (tl.load(bends - n_breaks, mask=inside, other=0.0) + middle)
        from_right = -6.0 * rise / (right * right) - row * (middle + tl.load(bends + n_breaks, mask=inside, other=0.0))
        by_left = tl.sum(from_left, axis=0)
        by_right = tl.sum(from_right, axis=0)
        sums += tl.where(column == i, by_left - by_right, 0.0)
        sums += tl.where(column == i + 1, by_right, 0.0) - tl.where(column == i - 1, by_left, 0.0)
    tl.store(out_pointer + feature * n_breaks + column, sums, mask=inside)


@triton.jit
def _width_at(breaks, k, n_knots):
    """Return the width of the bump at each place, and the number of intervals that divides it; 1 after the last."""
    before = tl.maximum(k - 1, 0)
    after = tl.minimum(k + 1, n_knots + 1)
    here = (k >= 0) & (k <= n_knots + 1)
    steps = tl.where(here, after - before, 1).to(tl.float32)
    width = tl.load(breaks + after, mask=here, other=1.0) - tl.load(breaks + before, mask=here, other=0.0)
    return width / steps, steps


@triton.jit(
    do_not_specialize=["n_breaks", "n_widths"],
    do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer", "log_widths_pointer"],
)
def _factors_forward(
    breaks_pointer, n_knots_pointer, log_widths_pointer, out_pointer, n_breaks, n_widths,
    COLUMNS: tl.constexpr, LEARNED: tl.constexpr,
):  # fmt: skip
    feature = tl.program_id(0)
    k = tl.arange(0, COLUMNS)
    width, _ = _width_at(breaks_pointer + feature * n_breaks, k, tl.load(n_knots_pointer + feature))
    if LEARNED:
        width *= tl.exp(tl.load(log_widths_pointer + feature * n_widths + k, mask=k < n_widths, other=0.0))
    tl.store(out_pointer + feature * n_breaks + k, 0.7071067811865476 / width, mask=k < n_breaks)


@triton.jit
def _width_slopes(grad, factors, breaks, k, n_knots):
    """Return the gradient of the distance between the neighbours of each place, 0 after the last."""
    here = (k >= 0) & (k <= n_knots + 1)
    width, steps = _width_at(breaks, k, n_knots)
    product = tl.load(grad + k, mask=here, other=0.0) * tl.load(factors + k, mask=here, other=0.0)
    return tl.where(here, -product / (width * steps), 0.0)


@triton.jit(
    do_not_specialize=["n_breaks", "n_widths"],
    do_not_specialize_on_alignment=["breaks_pointer", "n_knots_pointer"],
)
def _factors_backward(
    grad_pointer, breaks_pointer, n_knots_pointer, factors_pointer, breaks_grad_pointer, widths_grad_pointer,
    n_breaks, n_widths, COLUMNS: tl.constexpr, LEARNED: tl.constexpr,
):  # fmt: skip
    """Write the gradients: a break moves the widths of the bumps before and after it, an end its own too."""
    feature = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + feature)
    start = feature * n_breaks
    k = tl.arange(0, COLUMNS)
    grad, factors, breaks = grad_pointer + start, factors_pointer + start, breaks_pointer + start
    itself = _width_slopes(grad, factors, breaks, k, n_knots)
    slopes = _width_slopes(grad, factors, breaks, k - 1, n_knots) - _width_slopes(grad, factors, breaks, k + 1, n_knots)
    slopes += tl.where(k == n_knots + 1, itself, 0.0) - tl.where(k == 0, itself, 0.0)
    tl.store(breaks_grad_pointer + start + k, tl.where(k <= n_knots + 1, slopes, 0.0), mask=k < n_breaks)
    if LEARNED:
        inside = (k < n_breaks) & (k <= n_knots + 1)
        product = tl.load(grad + k, mask=inside, other=0.0) * tl.load(factors + k, mask=inside, other=0.0)
        tl.store(widths_grad_pointer + feature * n_widths + k, -product, mask=k < n_widths)


def _make_table(breaks: Tensor, n_knots: Tensor, log_widths: Tensor | None, kind: int) -> tuple[Tensor, Tensor | None]:
    """Return the table, and for natural splines the shares of elimination."""
    n_breaks, grid = breaks.shape[-1], (n_knots.numel(),)
    shape: Any = {"COLUMNS": triton.next_power_of_2(n_breaks), "num_warps": 1}
    if kind == Functions.NATURAL:
        out, shares = breaks.new_empty(*breaks.shape, n_breaks), torch.empty_like(breaks)
        launch(_bends_forward, grid, breaks, n_knots, shares, out, n_breaks, **shape)
        return out, shares
    out, n_widths = torch.empty_like(breaks), 0 if log_widths is None else log_widths.shape[-1]
    shape["LEARNED"] = log_widths is not None
    launch(_factors_forward, grid, breaks, n_knots, log_widths, out, n_breaks, n_widths, **shape)
    return out, None


def _run_table(breaks: Tensor, n_knots: Tensor, log_widths: Tensor | None, *, kind: int) -> Any:
    tensors = breaks, n_knots, log_widths
    return _make_table(*contiguous(*tensors), kind)[:1], tensors


def _table_slopes(grads: Any, kept: Any, needed: Any, *, kind: int) -> Any:
    """Return the gradients of breaks and widths; the table is small, and is computed again."""
    del needed
    breaks, n_knots, log_widths, grad = contiguous(*kept, grads[0])
    table, shares = _make_table(breaks, n_knots, log_widths, kind)
    n_breaks, n_widths = breaks.shape[-1], 0 if log_widths is None else log_widths.shape[-1]
    breaks_grad, widths_grad = torch.empty_like(breaks), None if log_widths is None else torch.empty_like(log_widths)
    shape: Any = {"COLUMNS": triton.next_power_of_2(max(n_breaks, n_widths)), "num_warps": 1}
    if kind == Functions.NATURAL:
        tensors = grad, breaks, n_knots, shares, table, torch.empty_like(table), breaks_grad
        launch(_bends_backward, (n_knots.numel(),), *tensors, n_breaks, **shape)
    else:
        tensors, shape["LEARNED"] = (grad, breaks, n_knots, table, breaks_grad, widths_grad), log_widths is not None
        launch(_factors_backward, (n_knots.numel(),), *tensors, n_breaks, n_widths, **shape)
    return breaks_grad, None, widths_grad


def _lengths(size: int) -> dict[str, int]:
    """Return the columns of a program, and the largest unit of the length of a row."""
    return {
        "COLUMNS": max(min(triton.next_power_of_2(size), WIDEST), 16),
        "UNIT": next(n for n in (4, 2, 1) if size % n == 0),
    }


def _run(x: Tensor, breaks: Tensor, n_knots: Tensor, table: Tensor | None, **settings: Any) -> Any:
    size, (_, n_rows, n_features), n_breaks = settings["size"], x.shape, breaks.shape[-1]
    out = torch.empty(*x.shape, size, dtype=settings["dtype"], device=x.device)
    if x.numel():
        lengths = _lengths(size)
        values = VALUES // lengths["COLUMNS"]
        launch(
            _dense_forward, (triton.cdiv(x.numel(), values), triton.cdiv(size, lengths["COLUMNS"])),
            *contiguous(x, breaks, n_knots, table), out,
            x.numel(), n_rows, n_features, n_breaks, size // lengths["UNIT"],
            KIND=settings["kind"], VALUES=values, STEPS=(n_breaks - 2).bit_length(), WIDE=size > lengths["COLUMNS"],
            LONG=is_long(out.numel()), **lengths,
        )  # fmt: skip
    return (out,), (x, breaks, n_knots, table)


def _sum_rows(grad: Tensor, kept: Any, needed: Any, kind: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, by tiles of columns, of the breaks and of the table; undefined if not needed."""
    x, breaks, n_knots, table = kept
    n_rows, n_breaks, size = x.shape[1], breaks.shape[-1], grad.shape[-1]
    n_tables = breaks.shape[0] * breaks.shape[1]
    lengths = _lengths(size)
    n_tiles = triton.cdiv(min(size, n_breaks), lengths["COLUMNS"])
    # Sums over rows must not depend on the number of groups, which may be members of a stack.
    blocks = triton.cdiv(n_rows, ROWS * MOST_PARTS) if n_rows > 4096 else 4
    n_parts, n_first = triton.cdiv(n_rows, ROWS * blocks), table[0, 0].numel()
    tiles_of_breaks = n_tiles if kind == Functions.NATURAL else 1
    n_entries = n_first + tiles_of_breaks * n_breaks
    parts = torch.empty(n_parts, n_tables, n_entries, dtype=torch.float32, device=x.device)
    x_grads = torch.empty(n_tiles, *(x.shape if needed[0] else (0,)), dtype=torch.float32, device=x.device)
    # Both sums of natural splines in one program would take more registers than a processor has.
    for with_slopes in (True, False) if kind == Functions.NATURAL else (True,):
        launch(
            _dense_backward, (n_tables, n_parts, n_tiles),
            grad, x, breaks, n_knots, table, x_grads, parts,
            x.numel(), n_rows, x.shape[2], n_breaks, size // lengths["UNIT"], n_entries,
            KIND=kind, ROWS=ROWS, BLOCKS=blocks, STEPS=(n_breaks - 2).bit_length(), **lengths,
            KNOTS=max(triton.next_power_of_2(n_breaks), 16), WITH_X=needed[0], WITH_SLOPES=with_slopes,
            LONG=is_long(grad.numel()),
        )  # fmt: skip
    breaks_grad, table_grad = torch.empty_like(breaks), torch.empty_like(table)
    if needed[1] or needed[3]:
        grid = n_tables, triton.cdiv(n_first + n_breaks, ADDED)
        tensors, numbers = (parts, table_grad, breaks_grad), (n_tables, n_first, n_breaks, tiles_of_breaks)
        launch(_add_parts, grid, *tensors, *numbers, N_PARTS=n_parts, ADDED=ADDED)
    return x_grads, breaks_grad, table_grad


def _slopes(grads: Any, kept: Any, needed: Any, *, kind: int, **_: Any) -> Any:
    """Return the gradients of x, breaks and table."""
    x, breaks, n_knots, table, grad = contiguous(*kept, grads[0])
    if x.numel():
        inputs = x, breaks, n_knots, breaks if table is None else table
        x_grads, breaks_grad, table_grad = _sum_rows(grad, inputs, needed, kind)
        x_grad = sum(x_grads[1:], x_grads[0])
    else:
        x_grad, breaks_grad = torch.empty_like(x), torch.zeros_like(breaks)
        table_grad = None if table is None else torch.zeros_like(table)
    return x_grad.to(x.dtype), breaks_grad, None, table_grad


TABLE = Path(_run_table, _table_slopes)
DENSE = Path(_run, _slopes)
