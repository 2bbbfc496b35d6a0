"""Layer norm of a stack in Triton, alone or of a sum: programs take some rows of one member, whole.

Backward adds up the gradients of weight and biases per program, and a second kernel adds these up in a fixed order.
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
def _layer_norm_forward(
    x_pointer,
    added_pointer,
    shift_pointer,
    weight_pointer,
    bias_pointer,
    sum_pointer,
    out_pointer,
    n_rows,
    n_columns,
    epsilon,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ADD: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < n_columns
    here = (row < n_rows) & known
    at = (member * n_rows + row) * n_columns + column
    own = member * n_columns + column
    x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
    if ADD:
        shift = tl.load(shift_pointer + own, mask=known, other=0.0).to(tl.float32)
        x = x + tl.load(added_pointer + at, mask=here, other=0.0).to(tl.float32) + shift
        rounded = x.to(sum_pointer.dtype.element_ty)
        tl.store(sum_pointer + at, rounded, mask=here)
        x = rounded.to(tl.float32)
    weight = tl.load(weight_pointer + own, mask=known, other=0.0).to(tl.float32)
    bias = tl.load(bias_pointer + own, mask=known, other=0.0).to(tl.float32)
    y, _ = _normalised(x, column, n_columns, epsilon)
    tl.store(out_pointer + at, (y * weight + bias).to(out_pointer.dtype.element_ty), mask=here)


@triton.jit
def _layer_norm_backward(
    grad_pointer,
    sum_grad_pointer,
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
    ADD: tl.constexpr,
    SUM_GRAD: tl.constexpr,
):
    """Write the gradient of x, and this program's part of those of weight and bias, and of the shift of a sum."""
    member = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, COLUMNS)[None, :]
    weight = tl.load(weight_pointer + member * n_columns + column, mask=column < n_columns, other=0.0).to(tl.float32)
    weight_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    bias_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    shift_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
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
        if SUM_GRAD:
            x_grad += tl.load(sum_grad_pointer + at, mask=here, other=0.0).to(tl.float32)
        if ADD:
            shift_sums += tl.where(here, x_grad, 0.0)
        tl.store(x_grad_pointer + at, x_grad.to(x_grad_pointer.dtype.element_ty), mask=here)
    place = (member * tl.num_programs(0) + tl.program_id(0)) * ((2 + ADD) * n_columns) + tl.arange(0, COLUMNS)
    known = tl.arange(0, COLUMNS) < n_columns
    tl.store(parts_pointer + place, tl.sum(weight_sums, axis=0), mask=known)
    tl.store(parts_pointer + place + n_columns, tl.sum(bias_sums, axis=0), mask=known)
    if ADD:
        tl.store(parts_pointer + place + 2 * n_columns, tl.sum(shift_sums, axis=0), mask=known)


@triton.jit
def _add_parts(
    parts_pointer, out_pointer, n_parts, n_columns, PARTS: tl.constexpr, COLUMNS: tl.constexpr, KINDS: tl.constexpr
):
    member, kind = tl.program_id(1).to(tl.int64), tl.program_id(2)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, PARTS)[:, None]
    at = parts_pointer + ((member * n_parts + part) * KINDS + kind) * n_columns + column[None, :]
    here = (part < n_parts) & (column < n_columns)[None, :]
    total = tl.sum(tl.load(at, mask=here, other=0.0), axis=0)
    tl.store(out_pointer + (kind * tl.num_programs(1) + member) * n_columns + column, total, mask=column < n_columns)


def _tile(n_columns: int) -> dict[str, int]:
    """Return the rows and columns of a tile."""
    columns = triton.next_power_of_2(n_columns)
    return {"ROWS": max(1, TILE // columns), "COLUMNS": columns}


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, *, added: Tensor | None = None, shift: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sum of x, `added` and `shift`, which is x itself where there are none, and its layer norm."""
    x = x.contiguous()
    total = x if added is None else torch.empty_like(x)
    out = torch.empty_like(x)
    n_columns = x.shape[-1]
    n_rows, tile = x[0].numel() // n_columns, _tile(n_columns)
    _layer_norm_forward[(triton.cdiv(n_rows, tile["ROWS"]), len(x))](
        x,
        x if added is None else added.contiguous(),
        weight if shift is None else shift.contiguous(),
        weight.contiguous(),
        bias.contiguous(),
        total,
        out,
        n_rows,
        n_columns,
        epsilon,
        **tile,
        ADD=added is not None,
    )
    return total, out


def backward(
    grad: Tensor, x: Tensor, weight: Tensor, epsilon: float, *, of_sum: bool = False, sum_grad: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the gradients of x, weight and bias from that of the results; with `of_sum` also that of the shift.

    All but the first are float32. A gradient that reaches the sum on another way is `sum_grad`.
    """
    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    n_columns = x.shape[-1]
    n_rows, tile = x[0].numel() // n_columns, _tile(n_columns)
    blocks = triton.next_power_of_2(triton.cdiv(n_rows, tile["ROWS"] * MOST_PARTS))
    n_parts = triton.cdiv(n_rows, tile["ROWS"] * blocks)
    kinds = 2 + of_sum
    x_grad = torch.empty_like(x)
    parts = torch.empty(len(x), n_parts, kinds, n_columns, dtype=torch.float32, device=x.device)
    _layer_norm_backward[(n_parts, len(x))](
        grad,
        grad if sum_grad is None else sum_grad.contiguous(),
        x,
        weight,
        x_grad,
        parts,
        n_rows,
        n_columns,
        epsilon,
        **tile,
        BLOCKS=blocks,
        ADD=of_sum,
        SUM_GRAD=sum_grad is not None,
    )
    sums = torch.empty(kinds, len(x), n_columns, dtype=torch.float32, device=x.device)
    _add_parts[(triton.cdiv(n_columns, 32), len(x), kinds)](
        parts, sums, n_parts, n_columns, PARTS=triton.next_power_of_2(n_parts), COLUMNS=32, KINDS=kinds
    )
    return x_grad, *sums.unbind()
