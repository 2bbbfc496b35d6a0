"""Layer norm of a stack in Triton: programs take some rows of one member, whole.

Backward adds up the gradients of weight and bias per program, and a second kernel adds these up in a fixed order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["backward", "forward"]

TILE = 1024
"""Values that a program holds at once."""

MOST_PARTS = 128
"""Programs of a member at most, backward."""


@triton.jit
def _normalised(x, column, n_columns, epsilon):
    """Return rows of mean 0 and variance 1, zero beyond the columns, and what they were multiplied by."""
    centred = tl.where(column < n_columns, x - (tl.sum(x, axis=1) / n_columns)[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / n_columns + epsilon)
    return centred * scale[:, None], scale


@triton.jit
def _forward(
    x_pointer,
    weight_pointer,
    bias_pointer,
    out_pointer,
    n_rows,
    n_columns,
    epsilon,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    here = (row < n_rows) & (column < n_columns)
    at = (member * n_rows + row) * n_columns + column
    x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
    weight = tl.load(weight_pointer + member * n_columns + column, mask=column < n_columns, other=0.0).to(tl.float32)
    bias = tl.load(bias_pointer + member * n_columns + column, mask=column < n_columns, other=0.0).to(tl.float32)
    y, _ = _normalised(x, column, n_columns, epsilon)
    tl.store(out_pointer + at, (y * weight + bias).to(out_pointer.dtype.element_ty), mask=here)


@triton.jit
def _backward(
    grad_pointer,
    x_pointer,
    weight_pointer,
    x_grad_pointer,
    parts_pointer,
    n_rows,
    n_columns,
    epsilon,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Write the gradient of x, and this program's part of those of weight and bias."""
    member = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, COLUMNS)[None, :]
    weight = tl.load(weight_pointer + member * n_columns + column, mask=column < n_columns, other=0.0).to(tl.float32)
    weight_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    bias_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(BLOCKS):
        row = (tl.program_id(0) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)[:, None]
        here = (row < n_rows) & (column < n_columns)
        at = (member * n_rows + row) * n_columns + column
        x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
        grad = tl.load(grad_pointer + at, mask=here, other=0.0).to(tl.float32)
        y, scale = _normalised(x, column, n_columns, epsilon)
        weight_sums += grad * y
        bias_sums += grad
        slopes = grad * weight
        mean = tl.sum(slopes, axis=1) / n_columns
        along = tl.sum(slopes * y, axis=1) / n_columns
        x_grad = (slopes - mean[:, None] - y * along[:, None]) * scale[:, None]
        tl.store(x_grad_pointer + at, x_grad.to(x_grad_pointer.dtype.element_ty), mask=here)
    place = (member * tl.num_programs(0) + tl.program_id(0)) * (2 * n_columns) + tl.arange(0, COLUMNS)
    known = tl.arange(0, COLUMNS) < n_columns
    tl.store(parts_pointer + place, tl.sum(weight_sums, axis=0), mask=known)
    tl.store(parts_pointer + place + n_columns, tl.sum(bias_sums, axis=0), mask=known)


@triton.jit
def _add_parts(
    parts_pointer,
    weight_grad_pointer,
    bias_grad_pointer,
    n_parts,
    n_columns,
    PARTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, PARTS)[:, None]
    at = parts_pointer + (member * n_parts + part) * (2 * n_columns) + column[None, :]
    here = (part < n_parts) & (column < n_columns)[None, :]
    out = member * n_columns + column
    weight_grad = tl.sum(tl.load(at, mask=here, other=0.0), axis=0)
    bias_grad = tl.sum(tl.load(at + n_columns, mask=here, other=0.0), axis=0)
    tl.store(weight_grad_pointer + out, weight_grad.to(weight_grad_pointer.dtype.element_ty), mask=column < n_columns)
    tl.store(bias_grad_pointer + out, bias_grad.to(bias_grad_pointer.dtype.element_ty), mask=column < n_columns)


def _tile(n_columns: int) -> dict[str, int]:
    """Return the rows and columns of a tile."""
    columns = triton.next_power_of_2(n_columns)
    return {"ROWS": max(1, TILE // columns), "COLUMNS": columns}


def forward(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Return the results, in the shape and type of x."""
    x = x.contiguous()
    out = torch.empty_like(x)
    n_columns = x.shape[-1]
    n_rows, tile = x[0].numel() // n_columns, _tile(n_columns)
    grid = (triton.cdiv(n_rows, tile["ROWS"]), len(x))
    _forward[grid](x, weight.contiguous(), bias.contiguous(), out, n_rows, n_columns, epsilon, **tile)
    return out


def backward(grad: Tensor, x: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias from that of the results."""
    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    n_columns = x.shape[-1]
    n_rows, tile = x[0].numel() // n_columns, _tile(n_columns)
    blocks = triton.next_power_of_2(triton.cdiv(n_rows, tile["ROWS"] * MOST_PARTS))
    n_parts = triton.cdiv(n_rows, tile["ROWS"] * blocks)
    x_grad, weight_grad, bias_grad = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
    parts = torch.empty(len(x), n_parts, 2, n_columns, dtype=torch.float32, device=x.device)
    _backward[(n_parts, len(x))](grad, x, weight, x_grad, parts, n_rows, n_columns, epsilon, **tile, BLOCKS=blocks)
    _add_parts[(triton.cdiv(n_columns, 32), len(x))](
        parts, weight_grad, bias_grad, n_parts, n_columns, PARTS=triton.next_power_of_2(n_parts), COLUMNS=32
    )
    return x_grad, weight_grad, bias_grad
