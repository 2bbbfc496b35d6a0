"""Layer normalisation in Triton, alone or of a sum: a program processes some complete rows of one member.

Backward sums the gradients of weight and biases per program, and a second kernel adds these sums in a fixed order.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path

__all__ = ["ADD_LAYER_NORM", "LAYER_NORM", "add_parts"]

TILE = 2048
"""Values of a program, forward."""

SMALL_TILE = 256
"""Values that a program holds at once, backward: one warp, which sums rows without synchronising with others."""

MOST_PARTS = 128
"""Most programs of a member, backward."""

STAGES = 3
"""Blocks of rows that are loaded ahead, backward."""


@triton.jit
def _layer_norm_forward(
    x_pointer, added_pointer, shift_pointer, weight_pointer, bias_pointer, sum_pointer, out_pointer, moments_pointer,
    n_rows, n_columns, epsilon,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < n_columns
    here = (row < n_rows) & known
    at = (member * n_rows + row) * n_columns + column
    of_member = member * n_columns + column
    x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
    if ADD:
        shift = tl.load(shift_pointer + of_member, mask=known, other=0.0).to(tl.float32)
        x = x + tl.load(added_pointer + at, mask=here, other=0.0).to(tl.float32) + shift
        rounded = x.to(sum_pointer.dtype.element_ty)
        tl.store(sum_pointer + at, rounded, mask=here)
        x = rounded.to(tl.float32)
    weight = tl.load(weight_pointer + of_member, mask=known, other=0.0).to(tl.float32)
    bias = tl.load(bias_pointer + of_member, mask=known, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1)[:, None] / n_columns
    centred = tl.where(known, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1)[:, None] / n_columns + epsilon)
    tl.store(out_pointer + at, (centred * scale * weight + bias).to(out_pointer.dtype.element_ty), mask=here)
    moments = moments_pointer + (member * n_rows + row) * 2
    tl.store(moments, mean, mask=row < n_rows)
    tl.store(moments + 1, scale, mask=row < n_rows)


@triton.jit(do_not_specialize=["spacing"])
def _layer_norm_backward(
    grad_pointer, sum_grad_pointer, x_pointer, moments_pointer, weight_pointer, x_grad_pointer, parts_pointer,
    n_rows, n_columns, spacing,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCKS: tl.constexpr, ADD: tl.constexpr, SUM_GRAD: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x, and this program's partial sums for weight, bias, and the shift of a sum.

    The sum itself may have a gradient too: of all rows, or of the rows whose index is a multiple of `spacing`.
    """
    member = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, COLUMNS)[None, :]
    weight = tl.load(weight_pointer + member * n_columns + column, mask=column < n_columns, other=0.0).to(tl.float32)
    weight_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    bias_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    shift_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    share = 1.0 / n_columns
    for block in tl.range(BLOCKS, num_stages=STAGES):
        row = (tl.program_id(0) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)[:, None]
        here = (row < n_rows) & (column < n_columns)
        at = (member * n_rows + row) * n_columns + column
        x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
        grad = tl.load(grad_pointer + at, mask=here, other=0.0).to(tl.float32)
        moments = moments_pointer + (member * n_rows + row) * 2
        mean = tl.load(moments, mask=row < n_rows, other=0.0)
        scale = tl.load(moments + 1, mask=row < n_rows, other=0.0)
        y = (x - mean) * scale
        weight_sums += grad * y
        bias_sums += grad
        slopes = grad * weight
        along = tl.sum(slopes * y, axis=1)[:, None] * share
        x_grad = (slopes - tl.sum(slopes, axis=1)[:, None] * share - y * along) * scale
        if SUM_GRAD == "all":
            x_grad += tl.load(sum_grad_pointer + at, mask=here, other=0.0).to(tl.float32)
        if SUM_GRAD == "some":
            at_sum = (member * (n_rows // spacing) + row // spacing) * n_columns + column
            x_grad += tl.load(sum_grad_pointer + at_sum, mask=here & (row % spacing == 0), other=0.0).to(tl.float32)
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


def add_parts(parts: Tensor) -> Tensor:
    """Return the sums, in a fixed order, over parts of shape (M, parts, kinds, columns), as (kinds, M, columns)."""
    n_members, n_parts, kinds, n_columns = parts.shape
    sums = torch.empty(kinds, n_members, n_columns, dtype=torch.float32, device=parts.device)
    _add_parts[(triton.cdiv(n_columns, 32), n_members, kinds)](
        parts, sums, n_parts, n_columns, PARTS=triton.next_power_of_2(n_parts), COLUMNS=32, KINDS=kinds
    )
    return sums


def _tile(n_columns: int, size: int) -> dict[str, int]:
    """Return the rows and columns of a tile of so many values."""
    columns = triton.next_power_of_2(n_columns)
    return {"ROWS": max(1, size // columns), "COLUMNS": columns}


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, *, added: Tensor | None = None, shift: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sum of x, `added` and `shift` (x itself without them), its layer norm and its moments.

    Moments are the mean and one over the spread of each row, in float32.
    """
    x = x.contiguous()
    total = x if added is None else torch.empty_like(x)
    out = torch.empty_like(x)
    n_columns = x.shape[-1]
    n_rows, tile = x[0].numel() // n_columns, _tile(n_columns, TILE)
    moments = torch.empty(len(x), n_rows, 2, dtype=torch.float32, device=x.device)
    _layer_norm_forward[(triton.cdiv(n_rows, tile["ROWS"]), len(x))](
        x, x if added is None else added.contiguous(), weight if shift is None else shift.contiguous(),
        weight.contiguous(), bias.contiguous(), total, out, moments, n_rows, n_columns, epsilon,
        **tile, ADD=added is not None,
    )  # fmt: skip
    return total, out, moments


def _backward(
    grad: Tensor, x: Tensor, moments: Tensor, weight: Tensor, *, of_sum: bool = False, sum_grad: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the gradients of x, weight and bias, and with `of_sum` that of the shift; all but the first are float32.

    `sum_grad` is the gradient of the sum itself: of all rows, or of the first row of each group.
    """
    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    n_columns = x.shape[-1]
    n_rows, tile = x[0].numel() // n_columns, _tile(n_columns, SMALL_TILE)
    blocks = triton.next_power_of_2(triton.cdiv(n_rows, tile["ROWS"] * MOST_PARTS))
    n_parts = triton.cdiv(n_rows, tile["ROWS"] * blocks)
    kinds, spacing = 2 + of_sum, 1 if sum_grad is None else x.numel() // sum_grad.numel()
    x_grad = torch.empty_like(x)
    parts = torch.empty(len(x), n_parts, kinds, n_columns, dtype=torch.float32, device=x.device)
    _layer_norm_backward[(n_parts, len(x))](
        grad, grad if sum_grad is None else sum_grad.contiguous(), x, moments, weight, x_grad, parts, n_rows, n_columns,
        spacing,
        **tile, BLOCKS=blocks, ADD=of_sum, SUM_GRAD="none" if sum_grad is None else "all" if spacing == 1 else "some",
        STAGES=STAGES, num_warps=max(1, tile["COLUMNS"] // SMALL_TILE),
    )  # fmt: skip
    return x_grad, *add_parts(parts).unbind()


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float) -> Any:
    x, y, moments = _forward(x, weight, bias, epsilon)
    return (y,), (x, moments, weight, bias[:0])  # backward needs only the type of the bias


def _layer_norm_slopes(grads: Any, kept: Any, needed: Any, **_: Any) -> Any:
    del needed
    x, moments, weight, bias = kept
    x_grad, weight_grad, bias_grad = _backward(grads[0], x, moments, weight)
    return x_grad, weight_grad.to(weight.dtype), bias_grad.to(bias.dtype)


def _add_layer_norm(
    x: Tensor, added: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float, first: bool
) -> Any:
    total, y, moments = _forward(x, weight, bias, epsilon, added=added, shift=shift)
    return (total[..., :1, :].clone() if first else total, y), (total, moments, weight, shift[:0], bias[:0])


def _add_layer_norm_slopes(grads: Any, kept: Any, needed: Any, **_: Any) -> Any:
    del needed
    total, moments, weight, shift, bias = kept
    sum_grad, grad = grads
    grad = torch.zeros_like(total) if grad is None else grad
    x_grad, weight_grad, bias_grad, shift_grad = _backward(grad, total, moments, weight, of_sum=True, sum_grad=sum_grad)
    of_member = (shift_grad.to(shift.dtype), weight_grad.to(weight.dtype), bias_grad.to(bias.dtype))
    return x_grad, x_grad, *of_member


LAYER_NORM = Path(_layer_norm, _layer_norm_slopes)
ADD_LAYER_NORM = Path(_add_layer_norm, _add_layer_norm_slopes)
