"""Layer normalisation, alone or of a sum, gated units with their dropout, and tokens, in Triton.

A program of the first two processes some complete rows of one member. Backward, sums over rows are formed per program,
and a second kernel adds them in a fixed order. Blocks of values are multiplied by their weights and written directly to
their tokens.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path, is_long
from knotwork._kernels.dropout import Noise, keep_threshold
from knotwork._kernels.dropout_triton import element_bits, member_keys, sum_bits
from knotwork._kernels.launching import contiguous, launch

TILE, WARPS = 1024, 4
"""Values that a program holds at once, a row of the usual width for each of its warps, which sums it by itself.

Gated units have as many results; for long rows, backward, they have more warps."""

ADDED, ADDED_COLUMNS = 256, 16
"""Parts and columns that a program adds at once."""

BLOCK = 1024
"""Results of a program of the gated unit, forward."""

ROWS, WIDEST = 32, 256
"""Rows and largest number of columns of a program that writes tokens."""

CHUNK = 64
"""Rows and columns of tokens that a program holds at once, backward."""


@triton.jit
def _part_and_member():
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
    part, member = _part_and_member()
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
    part, member = _part_and_member()
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


def _parts_of(n_rows: int, rows: int) -> tuple[int, int]:
    """Return the numbers of blocks of `rows` rows in a part and of parts of a member, backward; a program takes a part.

    Both grow as the root of the rows of a member. They do not depend on the number of members, so that sums do not.
    """
    n_blocks = max(1, math.isqrt(triton.cdiv(n_rows, rows)))
    return n_blocks, triton.cdiv(n_rows, rows * n_blocks)


def _row_tile(width: int) -> dict[str, int]:
    """Return the constants of a kernel for rows of this width."""
    columns = triton.next_power_of_2(width)
    return {"WIDTH": width, "ROWS": max(1, TILE // columns), "COLUMNS": columns, "num_warps": WARPS}


def _layer_norm(
    x: Tensor, added: Tensor | None, shift: Tensor | None, weight: Tensor, bias: Tensor, *, epsilon: float, first: bool
) -> Any:
    x = x.contiguous()
    total, out = x if added is None else torch.empty_like(x), torch.empty_like(x)
    n_rows, tile = x[0].numel() // x.shape[-1], _row_tile(x.shape[-1])
    moments = torch.empty(len(x), n_rows, 2, dtype=torch.float32, device=x.device)  # mean, and one over the spread
    launch(
        _layer_norm_forward, (triton.cdiv(n_rows, tile["ROWS"]), len(x)),
        *contiguous(x, added, shift, weight, bias), total, out, moments, n_rows, epsilon,
        **tile, ADD=added is not None,
    )  # fmt: skip
    kept = (total, moments, weight, None if shift is None else shift[:0], bias[:0])  # of the last two only the types
    return (total[..., :1, :].clone() if first else total, out), kept


def _layer_norm_slopes(grads: Any, kept: Any, needed: Any, **_: Any) -> Any:
    del needed
    (sum_grad, grad), (total, moments, weight, shift, bias) = grads, kept
    grad = torch.zeros_like(total) if grad is None else grad
    n_rows, tile = total[0].numel() // total.shape[-1], _row_tile(total.shape[-1])
    (n_blocks, n_parts), kinds = _parts_of(n_rows, tile["ROWS"]), 2 if shift is None else 3
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


LAYER_NORM = Path(_layer_norm, _layer_norm_slopes)


@triton.jit(do_not_specialize=["threshold"])
def _reglu_forward(
    x_pointer, bias_pointer, keys_pointer, out_pointer,
    size, threshold, factor,
    HALF: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    part, member = _part_and_member()
    if LONG:
        part = part.to(tl.int64)
    element = part * BLOCK + tl.arange(0, BLOCK)
    here = element < size
    first = x_pointer + member * 2 * size + element // HALF * (2 * HALF) + element % HALF
    a = tl.load(first, mask=here, other=0.0).to(tl.float32)
    b = tl.load(first + HALF, mask=here, other=0.0).to(tl.float32)
    if BIAS:
        bias = bias_pointer + member * 2 * HALF + element % HALF
        a += tl.load(bias, mask=here, other=0.0).to(tl.float32)
        b += tl.load(bias + HALF, mask=here, other=0.0).to(tl.float32)
    y = a * tl.where(b <= 0.0, 0.0, b)  # not a maximum: NaN stays NaN
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        y *= tl.where(element_bits(element, key) >= threshold.to(tl.uint32), factor, 0.0)
    tl.store(out_pointer + member * size + element, y.to(out_pointer.dtype.element_ty), mask=here)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_blocks"])
def _reglu_backward(
    grad_pointer, x_pointer, bias_pointer, keys_pointer, out_pointer, parts_pointer,
    n_rows, n_blocks, threshold, factor,
    HALF: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of some rows, and the sum over them for the bias."""
    part, member = _part_and_member()
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < HALF
    biases = bias_pointer + member * (2 * HALF) + column + tl.zeros((ROWS, 1), tl.int32)
    a_bias, b_bias = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS, COLUMNS), tl.float32)
    if BIAS:
        a_bias += tl.load(biases, mask=known, other=0.0).to(tl.float32)
        b_bias += tl.load(biases + HALF, mask=known, other=0.0).to(tl.float32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
    a_sums, b_sums = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in tl.range(n_blocks, num_stages=1):
        row = (part * n_blocks + block) * ROWS + tl.arange(0, ROWS)[:, None]
        here = (row < n_rows) & known
        at = (member * n_rows + row) * (2 * HALF) + column
        a = tl.load(x_pointer + at, mask=here, other=0.0).to(tl.float32) + a_bias
        b = tl.load(x_pointer + at + HALF, mask=here, other=0.0).to(tl.float32) + b_bias
        grads = grad_pointer + (member * n_rows + row) * HALF + column
        grad = tl.load(grads, mask=here, other=0.0).to(tl.float32)
        if DROPOUT:
            grad *= tl.where(sum_bits(row * HALF, column, key) >= threshold.to(tl.uint32), factor, 0.0)
        a_grad = grad * tl.where(b <= 0.0, 0.0, b)
        b_grad = tl.where(b <= 0.0, 0.0, grad * a)
        tl.store(out_pointer + at, a_grad.to(out_pointer.dtype.element_ty), mask=here)
        tl.store(out_pointer + at + HALF, b_grad.to(out_pointer.dtype.element_ty), mask=here)
        if BIAS:
            a_sums += a_grad
            b_sums += b_grad
    if BIAS:
        column = tl.arange(0, COLUMNS)
        parts = parts_pointer + (member * tl.num_programs(0) + part) * (2 * HALF) + column
        tl.store(parts, tl.sum(a_sums, axis=0), mask=column < HALF)
        tl.store(parts + HALF, tl.sum(b_sums, axis=0), mask=column < HALF)


def _reglu(x: Tensor, bias: Tensor | None, *, p: float, noise: Noise | None, stream: int) -> Any:
    x, bias = contiguous(x, bias)
    keys = member_keys(noise, stream) if p > 0.0 and noise is not None else None
    half = x.shape[-1] // 2
    out = torch.empty(*x.shape[:-1], half, dtype=x.dtype, device=x.device)
    size = out[0].numel()
    launch(
        _reglu_forward, (triton.cdiv(size, BLOCK), len(x)),
        x, bias, keys, out, size, keep_threshold(p), 1.0 / (1.0 - p),
        HALF=half, BIAS=bias is not None, DROPOUT=p > 0.0, BLOCK=BLOCK, LONG=is_long(2 * size),
    )  # fmt: skip
    return (out,), (x, bias, keys)


def _reglu_slopes(grads: Any, kept: Any, needed: Any, *, p: float, **_: Any) -> Any:
    del needed
    (x, bias, keys), grad = kept, grads[0].contiguous()
    out, half = torch.empty_like(x), x.shape[-1] // 2
    n_rows, columns = grad[0].numel() // half, triton.next_power_of_2(half)
    rows = max(1, TILE // columns)
    n_blocks, n_parts = _parts_of(n_rows, rows)
    parts = torch.empty(len(x), n_parts, 1, 2 * half, dtype=torch.float32, device=x.device)
    launch(
        _reglu_backward, (n_parts, len(x)),
        grad, x, bias, keys, out, parts, n_rows, n_blocks, keep_threshold(p), 1.0 / (1.0 - p),
        HALF=half, BIAS=bias is not None, DROPOUT=p > 0.0, ROWS=rows, COLUMNS=columns,
        num_warps=max(WARPS, min(16, columns // 512)),
    )  # fmt: skip
    return out, None if bias is None else add_parts(parts)[0].to(bias.dtype)


REGLU = Path(_reglu, _reglu_slopes)


@triton.jit
def _block(pointer, row, n_rows, token, n_products, size, SIZE: tl.constexpr):
    """Return the blocks of a feature in some rows."""
    value = tl.arange(0, SIZE)[None, :]
    here = (row < n_rows) & (value < size)
    return tl.load(pointer + (row.to(tl.int64) * n_products + token) * size + value, mask=here, other=0.0)


@triton.jit
def _weight(pointer, token, size, column, n_columns, SIZE: tl.constexpr):
    """Return some columns of the weights of a feature."""
    value = tl.arange(0, SIZE)[:, None]
    here = (value < size) & (column < n_columns)
    return tl.load(pointer + (token * size + value) * n_columns + column, mask=here, other=0.0)


@triton.jit(do_not_specialize=["n_rows", "n_products", "n_categories", "size"])
def _tokens_forward(
    blocks_pointer, weight_pointer, categories_pointer, bias_pointer, cls_pointer, tokens_pointer,
    n_rows, n_columns, n_products, n_categories, size,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, CHUNKS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write some columns of one token of some rows."""
    place, member = tl.program_id(1) - 1, tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) // CHUNKS * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) % CHUNKS * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    here = (row < n_rows) & (column < n_columns)
    value = tl.zeros((ROWS, COLUMNS), tl.float32)
    if place < 0:
        value += tl.load(cls_pointer + member * n_columns + column, mask=column < n_columns, other=0.0)
    else:
        of_member = (member * (n_products + n_categories) + place) * n_columns
        if place < n_products:
            blocks = blocks_pointer + member * n_rows * n_products * size
            block = _block(blocks, row, n_rows, place, n_products, size, SIZE)
            weights = weight_pointer + member * n_products * size * n_columns
            weight = _weight(weights, place, size, column, n_columns, SIZE)
            value += tl.dot(block, weight, input_precision=PRECISION)
        else:
            at = ((member * n_rows + row) * n_categories + place - n_products) * n_columns + column
            value += tl.load(categories_pointer + at, mask=here, other=0.0).to(tl.float32)
        value += tl.load(bias_pointer + of_member + column, mask=column < n_columns, other=0.0)
    n_tokens = 1 + n_products + n_categories
    tokens = tokens_pointer + ((member * n_rows + row) * n_tokens + place + 1) * n_columns + column
    tl.store(tokens, value.to(tokens_pointer.dtype.element_ty), mask=here)


@triton.jit(do_not_specialize=["n_rows", "n_products", "n_tokens", "size"])
def _weights_backward(
    grad_pointer, blocks_pointer, out_pointer, sums_pointer,
    n_rows, n_columns, n_products, n_tokens, size,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, BLOCKS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the sums of some columns of a token's gradient over the rows, and the gradient of its feature's weights."""
    place, member = tl.program_id(1) - 1, tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    blocks = blocks_pointer + member * n_rows * n_products * size
    is_product = (place >= 0) & (place < n_products)
    n_block_rows = tl.where(is_product, n_rows, 0)  # other tokens have no blocks to load
    products = tl.zeros((SIZE, COLUMNS), tl.float32)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(BLOCKS):
        row = step * ROWS + tl.arange(0, ROWS)[:, None]
        grads = grad_pointer + ((member * n_rows + row) * n_tokens + place + 1) * n_columns + column
        grad = tl.load(grads, mask=(row < n_rows) & (column < n_columns), other=0.0)
        sums += grad.to(tl.float32)
        block = _block(blocks, row, n_block_rows, place, n_products, size, SIZE)
        products += tl.dot(tl.trans(block), grad, input_precision=PRECISION)
    out_sums = sums_pointer + (member * n_tokens + place + 1) * n_columns + column
    tl.store(out_sums, tl.sum(sums, axis=0)[None, :], mask=column < n_columns)
    value = tl.arange(0, SIZE)[:, None]
    out = out_pointer + ((member * n_products + place) * size + value) * n_columns + column
    known = is_product & (value < size) & (column < n_columns)
    tl.store(out, products.to(out_pointer.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["n_rows", "n_products", "n_tokens", "size"])
def _blocks_backward(
    grad_pointer, weight_pointer, out_pointer,
    n_rows, n_columns, n_products, n_tokens, size,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, BLOCKS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a feature's blocks in some rows."""
    place, member = tl.program_id(1), tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    weights = weight_pointer + member * n_products * size * n_columns
    sums = tl.zeros((ROWS, SIZE), tl.float32)
    for step in range(BLOCKS):
        column = step * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        weight = _weight(weights, place, size, column, n_columns, SIZE)
        grads = grad_pointer + ((member * n_rows + row) * n_tokens + place + 1) * n_columns + column
        grad = tl.load(grads, mask=(row < n_rows) & (column < n_columns), other=0.0)
        sums += tl.dot(grad, tl.trans(weight), input_precision=PRECISION)
    value = tl.arange(0, SIZE)[None, :]
    out = out_pointer + ((member * n_rows + row) * n_products + place) * size + value
    tl.store(out, sums.to(out_pointer.dtype.element_ty), mask=(row < n_rows) & (value < size))


def _product_tile(rows: int, columns: int, size: int) -> dict[str, int | str]:
    """Return the constants of a kernel: `tl.dot` needs sizes of at least 16, and TF32 is used if torch allows it."""
    return {
        "ROWS": rows,
        "COLUMNS": columns,
        "SIZE": max(16, triton.next_power_of_2(size)),
        "PRECISION": "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32",
    }


def _tokens(blocks: Tensor, weight: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Any:
    """Write the tokens; empty parameters of `make_tokens` are never read."""
    blocks, weight = blocks.contiguous(), weight.contiguous()
    n_members, n_rows, n_products, size = blocks.shape
    n_categories, n_columns = categories.shape[2:]
    n_tokens, columns = 1 + n_products + n_categories, min(WIDEST, max(16, triton.next_power_of_2(n_columns)))
    chunks = triton.cdiv(n_columns, columns)
    tokens = torch.empty(n_members, n_rows, n_tokens, n_columns, dtype=weight.dtype, device=weight.device)
    launch(
        _tokens_forward, (triton.cdiv(n_rows, ROWS) * chunks, n_tokens, n_members),
        *contiguous(blocks, weight, categories, bias, cls), tokens, n_rows, n_columns, n_products, n_categories, size,
        CHUNKS=chunks, **_product_tile(ROWS, columns, size),
    )  # fmt: skip
    return (tokens,), (blocks, weight, categories[:0], bias[:0], cls[:0])  # backward needs the types of the last three


def _tokens_slopes(grads: Any, kept: Any, needed: Any) -> Any:
    (blocks, weight, *others), grad = kept, grads[0].contiguous()
    n_members, n_rows, n_products, size = blocks.shape
    n_tokens, n_columns = grad.shape[2:]
    blocks_grad, weight_grad = torch.empty_like(blocks) if needed[0] else None, torch.empty_like(weight)
    sums = torch.empty(n_members, n_tokens, n_columns, dtype=torch.float32, device=grad.device)
    n_blocks, n_chunks = triton.cdiv(n_rows, CHUNK), triton.cdiv(n_columns, CHUNK)
    shape, tile = (n_rows, n_columns, n_products, n_tokens, size), _product_tile(CHUNK, CHUNK, size)
    grid, most = (n_chunks, n_tokens, n_members), triton.next_power_of_2(n_blocks)
    launch(_weights_backward, grid, grad, blocks, weight_grad, sums, *shape, BLOCKS=most, **tile)
    if blocks_grad is not None and n_products:
        grid = n_blocks, n_products, n_members
        launch(_blocks_backward, grid, grad, weight, blocks_grad, *shape, BLOCKS=n_chunks, **tile)
    categories_type, bias_type, cls_type = (like.dtype for like in others)
    categories_grad = grad[:, :, 1 + n_products :].to(categories_type)
    return blocks_grad, weight_grad, categories_grad, sums[:, 1:].to(bias_type), sums[:, 0].to(cls_type)


TOKENS = Path(_tokens, _tokens_slopes)
