"""Layer normalisation in Triton, alone or of a sum: a program processes some complete rows of one member.

Backward sums the gradients of weight and biases per program, and a second kernel adds these sums in a fixed order.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path
from knotwork._kernels.launching import contiguous, launch

__all__ = ["LAYER_NORM", "add_parts", "part_and_member", "parts_of"]

TILE = 1024
"""Values that a program holds at once: a row of the usual width for each of its warps, which sums it by itself."""

WARPS = 4
"""Warps of a program."""

ADDED, ADDED_COLUMNS = 256, 16
"""Parts and columns that a program adds at once."""


@triton.jit
def part_and_member():
    """Return the part and the member of this program, from the last to the first.

    The product before wrote the last member last, so that it is still in the cache, and the next one begins with the
    first.
    """
    member = tl.num_programs(1) - 1 - tl.program_id(1)
    return tl.num_programs(0) - 1 - tl.program_id(0), member.to(tl.int64)


@triton.jit(do_not_specialize=["n_rows"])
def _layer_norm_forward(
    x_pointer, added_pointer, shift_pointer, weight_pointer, bias_pointer, sum_pointer, out_pointer, moments_pointer,
    n_rows, epsilon,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    part, member = part_and_member()
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < WIDTH
    of_member = member * WIDTH + column + tl.zeros((ROWS, 1), tl.int32)  # in the registers of rows
    weight = tl.load(weight_pointer + of_member, mask=known, other=0.0).to(tl.float32)
    bias = tl.load(bias_pointer + of_member, mask=known, other=0.0).to(tl.float32)
    shift = tl.zeros((ROWS, COLUMNS), tl.float32)
    lane = tl.arange(0, 32)[None, :]
    if ADD:
        shift += tl.load(shift_pointer + of_member, mask=known, other=0.0).to(tl.float32)
    row = part * ROWS + tl.arange(0, ROWS)[:, None]
    here = (row < n_rows) & known
    at = (member * n_rows + row) * WIDTH + column
    x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
    if ADD:
        x = x + tl.load(added_pointer + at, mask=here, other=0.0).to(tl.float32) + shift
        rounded = x.to(sum_pointer.dtype.element_ty)
        tl.store(sum_pointer + at, rounded, mask=here)
        x = rounded.to(tl.float32)
    mean = tl.sum(x, axis=1)[:, None] / WIDTH
    centred = tl.where(known, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1)[:, None] / WIDTH + epsilon)
    tl.store(out_pointer + at, (centred * scale * weight + bias).to(out_pointer.dtype.element_ty), mask=here)
    moments = moments_pointer + (member * n_rows + row) * 2 + lane
    tl.store(moments, tl.broadcast_to(mean, (ROWS, 32)), mask=(row < n_rows) & (lane == 0))
    tl.store(moments, tl.broadcast_to(scale, (ROWS, 32)), mask=(row < n_rows) & (lane == 1))


@triton.jit(do_not_specialize=["n_rows", "n_blocks", "spacing"])
def _layer_norm_backward(
    grad_pointer, sum_grad_pointer, x_pointer, moments_pointer, weight_pointer, x_grad_pointer, parts_pointer,
    n_rows, n_blocks, spacing,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ADD: tl.constexpr, SUM_GRAD: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x, and this program's partial sums for weight, bias, and the shift of a sum.

    The sum itself may have a gradient too: of all rows, or of the rows whose index is a multiple of `spacing`.
    """
    part, member = part_and_member()
    column = tl.arange(0, COLUMNS)[None, :]
    of_member = member * WIDTH + column + tl.zeros((ROWS, 1), tl.int32)  # as in the forward kernel
    weight = tl.load(weight_pointer + of_member, mask=column < WIDTH, other=0.0).to(tl.float32)
    weight_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    bias_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    shift_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in tl.range(n_blocks, num_stages=1):
        row = (part * n_blocks + block) * ROWS + tl.arange(0, ROWS)[:, None]
        here = (row < n_rows) & (column < WIDTH)
        at = (member * n_rows + row) * WIDTH + column
        x = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32)
        grad = tl.load(grad_pointer + at, mask=here, other=0.0).to(tl.float32)
        if SUM_GRAD == "all":  # loaded here and not where it is added: a load does not move ahead of a sum over columns
            sum_grad = tl.load(sum_grad_pointer + at, mask=here, other=0.0).to(tl.float32)
        if SUM_GRAD == "some":
            at_sum = (member * (n_rows // spacing) + row // spacing) * WIDTH + column
            sum_grad = tl.load(sum_grad_pointer + at_sum, mask=here & (row % spacing == 0), other=0.0).to(tl.float32)
        moments = moments_pointer + (member * n_rows + row) * 2
        mean = tl.load(moments, mask=row < n_rows, other=0.0)
        scale = tl.load(moments + 1, mask=row < n_rows, other=0.0)
        y = (x - mean) * scale
        weight_sums += grad * y
        bias_sums += grad
        slopes = grad * weight
        along = tl.sum(slopes * y, axis=1)[:, None] * (1.0 / WIDTH)
        x_grad = (slopes - tl.sum(slopes, axis=1)[:, None] * (1.0 / WIDTH) - y * along) * scale
        if SUM_GRAD != "none":
            x_grad += sum_grad
        if ADD:
            shift_sums += x_grad  # of rows beyond the last all terms are 0
        tl.store(x_grad_pointer + at, x_grad.to(x_grad_pointer.dtype.element_ty), mask=here)
    place = (member * tl.num_programs(0) + part) * ((2 + ADD) * WIDTH) + tl.arange(0, COLUMNS)
    known = tl.arange(0, COLUMNS) < WIDTH
    tl.store(parts_pointer + place, tl.sum(weight_sums, axis=0), mask=known)
    tl.store(parts_pointer + place + WIDTH, tl.sum(bias_sums, axis=0), mask=known)
    if ADD:
        tl.store(parts_pointer + place + 2 * WIDTH, tl.sum(shift_sums, axis=0), mask=known)


@triton.jit(do_not_specialize=["n_parts"])
def _add_parts(
    parts_pointer, out_pointer, n_parts, n_columns, PARTS: tl.constexpr, COLUMNS: tl.constexpr, KINDS: tl.constexpr
):
    member, kind = tl.program_id(1).to(tl.int64), tl.program_id(2)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((PARTS, COLUMNS), tl.float32)
    for first in range(0, n_parts, PARTS):
        part = first + tl.arange(0, PARTS)[:, None]
        at = parts_pointer + ((member * n_parts + part) * KINDS + kind) * n_columns + column[None, :]
        sums += tl.load(at, mask=(part < n_parts) & (column < n_columns)[None, :], other=0.0)
    out = out_pointer + (kind * tl.num_programs(1) + member) * n_columns + column
    tl.store(out, tl.sum(sums, axis=0), mask=column < n_columns)


def add_parts(parts: Tensor) -> Tensor:
    """Return the sums, in a fixed order, over parts of shape (M, parts, kinds, columns), as (kinds, M, columns)."""
    n_members, n_parts, kinds, n_columns = parts.shape
    sums = torch.empty(kinds, n_members, n_columns, dtype=torch.float32, device=parts.device)
    launch(
        _add_parts, (triton.cdiv(n_columns, ADDED_COLUMNS), n_members, kinds),
        parts, sums, n_parts, n_columns,
        PARTS=min(ADDED, triton.next_power_of_2(n_parts)), COLUMNS=ADDED_COLUMNS, KINDS=kinds,
    )  # fmt: skip
    return sums


def parts_of(n_rows: int, rows: int) -> tuple[int, int]:
    """Return the numbers of blocks of `rows` rows in a part and of parts of a member, backward; a program takes a part.

    Both grow as the root of the rows of a member. They do not depend on the number of members, so that sums do not.
    """
    n_blocks = max(1, math.isqrt(triton.cdiv(n_rows, rows)))
    return n_blocks, triton.cdiv(n_rows, rows * n_blocks)


def _tile(width: int) -> dict[str, int]:
    """Return the constants of a kernel for rows of this width."""
    columns = triton.next_power_of_2(width)
    return {"WIDTH": width, "ROWS": max(1, TILE // columns), "COLUMNS": columns, "num_warps": WARPS}


def _forward(
    x: Tensor, added: Tensor | None, shift: Tensor | None, weight: Tensor, bias: Tensor, *, epsilon: float, first: bool
) -> Any:
    x = x.contiguous()
    total, out = x if added is None else torch.empty_like(x), torch.empty_like(x)
    n_rows, tile = x[0].numel() // x.shape[-1], _tile(x.shape[-1])
    moments = torch.empty(len(x), n_rows, 2, dtype=torch.float32, device=x.device)  # mean, and one over the spread
    launch(
        _layer_norm_forward, (triton.cdiv(n_rows, tile["ROWS"]), len(x)),
        *contiguous(x, added, shift, weight, bias), total, out, moments, n_rows, epsilon,
        **tile, ADD=added is not None,
    )  # fmt: skip
    kept = (total, moments, weight, None if shift is None else shift[:0], bias[:0])  # of the last two only the types
    return (total[..., :1, :].clone() if first else total, out), kept


def _backward(grads: Any, kept: Any, needed: Any, **_: Any) -> Any:
    del needed
    (sum_grad, grad), (total, moments, weight, shift, bias) = grads, kept
    grad = torch.zeros_like(total) if grad is None else grad
    n_rows, tile = total[0].numel() // total.shape[-1], _tile(total.shape[-1])
    (n_blocks, n_parts), kinds = parts_of(n_rows, tile["ROWS"]), 2 if shift is None else 3
    spacing = 1 if sum_grad is None else total.numel() // sum_grad.numel()
    x_grad = torch.empty_like(total)
    parts = torch.empty(len(total), n_parts, kinds, total.shape[-1], dtype=torch.float32, device=total.device)
    launch(
        _layer_norm_backward, (n_parts, len(total)),
        *contiguous(grad, sum_grad, total, moments, weight), x_grad, parts, n_rows, n_blocks, spacing,
        **tile, ADD=shift is not None, SUM_GRAD="none" if sum_grad is None else "all" if spacing == 1 else "some",
    )  # fmt: skip
    weight_grad, bias_grad, *shift_grad = add_parts(parts).unbind()
    of_sum = (None, None) if shift is None else (x_grad, shift_grad[0].to(shift.dtype))
    return x_grad, *of_sum, weight_grad.to(weight.dtype), bias_grad.to(bias.dtype)


LAYER_NORM = Path(_forward, _backward)
