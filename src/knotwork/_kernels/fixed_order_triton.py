"""Products and sums in a fixed order on a GPU, in Triton; tiles depend on the shape of one member, never on the stack.

Each program computes a tile of the result of one member, and runs over the summands from the first to the last. Padding
with zeros at the end of a sum changes nothing, and rows of a result do not depend on each other.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path
from knotwork._kernels.launching import contiguous, launch

TILE_ROWS, TILE_COLUMNS, TILE_BYTES = 64, 128, 128
"""Rows and most columns of a program's tile of a product, and bytes of the summands that it reads at a time."""

WARPS, FEW_WARPS = 4, 2
"""Warps of a program; few where the tensor cores of a warp group would need one factor transposed, see `_n_warps`."""

EXACT_COLUMNS, EXACT_INNER = 64, 16
"""Most columns and summands of a tile without tensor cores, where larger ones take long to compile."""

COLUMNS, ROWS = 32, 64
"""Columns of a program that sums rows, and rows per iteration."""

CODES, ENTRIES = 32, 64
"""Rows of a table whose gradients a program sums, and entries per iteration."""

BLOCK = 1024
"""Values per iteration of a program that sums along a row."""


@triton.jit
def _tile(pointer, first, second, n_first, n_second, TRANSPOSED: tl.constexpr):
    """Load a tile of a matrix of shape (n_first, n_second), or of its transpose, with zeros outside of it."""
    inside = (first < n_first)[:, None] & (second < n_second)[None, :]
    places = first[:, None] * n_second + second[None, :]
    if TRANSPOSED:
        places = second[None, :] * n_first + first[:, None]
    return tl.load(pointer + places, mask=inside, other=0.0)


# Lengths are given in units of a constant, so that the compiler knows their divisors, and reads several
# values at once. Specialising for each length would take long.


@triton.jit(do_not_specialize=["row_units", "column_units", "inner_units"])
def _product(
    a_pointer, b_pointer, bias_pointer, out_pointer,
    row_units, column_units, inner_units,
    ROW_UNIT: tl.constexpr, COLUMN_UNIT: tl.constexpr, INNER_UNIT: tl.constexpr,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, BIASED: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, N_BLOCKS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    n_rows, n_columns, n_inner = row_units * ROW_UNIT, column_units * COLUMN_UNIT, inner_units * INNER_UNIT
    n_tiles = tl.cdiv(n_columns, COLUMNS)
    row = tl.program_id(0) // n_tiles * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % n_tiles * COLUMNS + tl.arange(0, COLUMNS)
    a_start = a_pointer + member * n_rows * n_inner
    b_start = b_pointer + member * n_inner * n_columns
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(N_BLOCKS):
        inner = block * INNER + tl.arange(0, INNER)
        a = _tile(a_start, row, inner, n_rows, n_inner, A_TRANSPOSED)
        b = _tile(b_start, inner, column, n_inner, n_columns, B_TRANSPOSED)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    if BIASED:
        bias = tl.load(bias_pointer + member * n_columns + column, mask=column < n_columns, other=0.0)
        total += bias.to(tl.float32)[None, :]
    inside = (row < n_rows)[:, None] & (column < n_columns)[None, :]
    out = out_pointer + member * n_rows * n_columns + row[:, None] * n_columns + column[None, :]
    tl.store(out, total.to(out_pointer.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["n_rows", "width"])
def _column_sums(
    x_pointer, out_pointer, n_rows, width, N_BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    member = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    start = x_pointer + member * n_rows * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(N_BLOCKS):
        row = block * ROWS + tl.arange(0, ROWS)
        inside = (row < n_rows)[:, None] & (column < width)[None, :]
        total += tl.load(start + row[:, None] * width + column[None, :], mask=inside, other=0.0).to(tl.float32)
    sums = tl.sum(total, axis=0)
    tl.store(out_pointer + member * width + column, sums.to(out_pointer.dtype.element_ty), mask=column < width)


@triton.jit(do_not_specialize=["n"])
def _row_sums(x_pointer, out_pointer, n, N_BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), x_pointer.dtype.element_ty)
    for block in range(N_BLOCKS):
        i = block * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_pointer + row * n + i, mask=i < n, other=0.0)
    tl.store(out_pointer + row, tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["n_codes", "n_entries", "width"])
def _look_up_backward(
    grad_pointer, places_pointer, out_pointer, n_codes, n_entries, width,
    N_BLOCKS: tl.constexpr, CODES: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of the entries that name each of some rows of a member's table."""
    member = tl.program_id(1).to(tl.int64)
    code = tl.program_id(0) * CODES + tl.arange(0, CODES)
    column = tl.arange(0, WIDTH)
    total = tl.zeros((CODES, WIDTH), tl.float32)
    for block in range(N_BLOCKS):
        entry = block * ENTRIES + tl.arange(0, ENTRIES)
        place = tl.load(places_pointer + member * n_entries + entry, mask=entry < n_entries, other=-1)
        inside = (entry < n_entries)[:, None] & (column < width)[None, :]
        grads = grad_pointer + (member * n_entries + entry)[:, None] * width + column[None, :]
        slopes = tl.load(grads, mask=inside, other=0.0).to(tl.float32)
        owners = (code[:, None] == place[None, :]).to(tl.float32)
        total = tl.dot(owners, slopes, total, input_precision="ieee")
    out = out_pointer + (member * n_codes + code)[:, None] * width + column[None, :]
    tl.store(out, total.to(out_pointer.dtype.element_ty), mask=(code < n_codes)[:, None] & (column < width)[None, :])


def _multiply(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, a_transposed: bool = False, b_transposed: bool = False
) -> Tensor:
    """Return ``a @ b + bias`` of every member; a transposed factor lies in memory as its transpose."""
    n_rows, n_inner = a.shape[:0:-1] if a_transposed else a.shape[1:]
    n_columns = b.shape[1 if b_transposed else 2]
    out = torch.empty(len(a), n_rows, n_columns, dtype=a.dtype, device=a.device)
    lengths = n_rows, n_columns, n_inner
    in_rows = (a_transposed, True, not a_transposed or b_transposed)  # lengths of rows in memory
    units = [_unit(n, a.element_size()) if is_row else 1 for n, is_row in zip(lengths, in_rows, strict=True)]
    exact = a.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    widest, inner = (EXACT_COLUMNS, EXACT_INNER) if exact else (TILE_COLUMNS, TILE_BYTES // a.element_size())
    columns = min(max(triton.next_power_of_2(n_columns), 16), widest)
    launch(
        _product, (triton.cdiv(n_rows, TILE_ROWS) * triton.cdiv(n_columns, columns), len(a)),
        a, b, bias, out, *(n // unit for n, unit in zip(lengths, units, strict=True)),
        ROW_UNIT=units[0], COLUMN_UNIT=units[1], INNER_UNIT=units[2], A_TRANSPOSED=a_transposed,
        B_TRANSPOSED=b_transposed, BIASED=bias is not None, PRECISION="ieee" if exact else "tf32", ROWS=TILE_ROWS,
        COLUMNS=columns, INNER=inner, N_BLOCKS=triton.cdiv(n_inner, inner), num_stages=3,
        num_warps=_n_warps(a.element_size(), b_transposed=b_transposed),
    )  # fmt: skip
    return out


def _n_warps(element_size: int, *, b_transposed: bool) -> int:
    """Return the warps of a program.

    Four warps use the instructions of a warp group (wgmma), which read values of 4 bytes along the summands only: any
    other factor goes through registers at every step, and the product takes two to four times as long. Two warps use
    the instructions of one warp (mma.sync), which have no such condition.
    """
    return WARPS if b_transposed or element_size < 4 else FEW_WARPS


def _unit(n: int, element_size: int) -> int:
    """Return the largest number of values within 16 bytes, a power of two, that divides n."""
    unit = 16 // element_size
    while n % unit:
        unit //= 2
    return unit


def _sum_rows(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sums over the rows of each member, of shape (M, d)."""
    members, n_rows, width = x.shape
    out = torch.empty(members, width, dtype=dtype, device=x.device)
    grid, n_blocks = (triton.cdiv(width, COLUMNS), members), triton.cdiv(n_rows, ROWS)
    launch(_column_sums, grid, x, out, n_rows, width, N_BLOCKS=n_blocks, ROWS=ROWS, COLUMNS=COLUMNS)
    return out


def _run_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    tensors = x, weight, bias = contiguous(x, weight, bias)
    return (_multiply(x, weight, bias),), tensors


def _product_slopes(grads: Any, kept: Any, needed: Any) -> Any:
    """Return the gradients of x, weight and bias."""
    (x, weight, bias), grad = kept, grads[0].contiguous()
    x_grad = _multiply(grad, weight, b_transposed=True) if needed[0] else None
    weight_grad = _multiply(x, grad, a_transposed=True) if needed[1] else None
    return x_grad, weight_grad, _sum_rows(grad, bias.dtype) if needed[2] else None


def _run_bias(x: Tensor, bias: Tensor) -> Any:
    return (x + bias[:, None],), (bias,)


def _bias_slopes(grads: Any, kept: Any, needed: Any) -> Any:
    return grads[0], _sum_rows(grads[0].contiguous(), kept[0].dtype) if needed[1] else None


def _run_look_up(table: Tensor, places: Tensor) -> Any:
    flat = places.flatten(1)
    rows = torch.gather(table, 1, flat[..., None].expand(-1, -1, table.shape[2]))
    return (rows.view(*places.shape, table.shape[2]),), (table, flat.contiguous())


def _look_up_slopes(grads: Any, kept: Any, needed: Any) -> Any:
    table, places = kept
    if not needed[0]:
        return None, None
    (members, n_codes, width), out = table.shape, torch.empty_like(table)
    launch(
        _look_up_backward, (triton.cdiv(n_codes, CODES), members),
        grads[0].contiguous(), places, out, n_codes, places.shape[1], width,
        N_BLOCKS=triton.cdiv(places.shape[1], ENTRIES), CODES=CODES, ENTRIES=ENTRIES,
        WIDTH=max(triton.next_power_of_2(width), 16),
    )  # fmt: skip
    return out, None


def row_sums(x: Tensor) -> Tensor:
    """Return the sums over the last axis, in the type of x."""
    x = x.contiguous()
    out = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    if x.numel():
        launch(_row_sums, (out.numel(),), x, out, x.shape[-1], N_BLOCKS=triton.cdiv(x.shape[-1], BLOCK), BLOCK=BLOCK)
    return out if x.numel() else out.zero_()


PRODUCT = Path(_run_product, _product_slopes)
ADD_BIAS = Path(_run_bias, _bias_slopes)
LOOK_UP = Path(_run_look_up, _look_up_slopes)
