"""Tokens in Triton: blocks of values are multiplied by their weights and written directly to their tokens."""

from typing import Any

import torch
import triton
from torch import Tensor
from triton import language as tl

from knotwork._kernels.dispatch import Path
from knotwork._kernels.launching import contiguous, launch

__all__ = ["TOKENS"]

ROWS, WIDEST = 32, 256
"""Rows and largest number of columns of a program, forward."""

CHUNK = 64
"""Rows and columns of tokens that a program holds at once, backward."""


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


def _tile(rows: int, columns: int, size: int) -> dict[str, int | str]:
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
        CHUNKS=chunks, **_tile(ROWS, columns, size),
    )  # fmt: skip
    return (tokens,), (blocks, weight, categories[:0], bias[:0], cls[:0])  # backward needs the types of the last three


def _slopes(grads: Any, kept: Any, needed: Any) -> Any:
    (blocks, weight, *others), grad = kept, grads[0].contiguous()
    n_members, n_rows, n_products, size = blocks.shape
    n_tokens, n_columns = grad.shape[2:]
    blocks_grad, weight_grad = torch.empty_like(blocks) if needed[0] else None, torch.empty_like(weight)
    sums = torch.empty(n_members, n_tokens, n_columns, dtype=torch.float32, device=grad.device)
    n_blocks, n_chunks = triton.cdiv(n_rows, CHUNK), triton.cdiv(n_columns, CHUNK)
    shape, tile = (n_rows, n_columns, n_products, n_tokens, size), _tile(CHUNK, CHUNK, size)
    grid, most = (n_chunks, n_tokens, n_members), triton.next_power_of_2(n_blocks)
    launch(_weights_backward, grid, grad, blocks, weight_grad, sums, *shape, BLOCKS=most, **tile)
    if blocks_grad is not None and n_products:
        grid = n_blocks, n_products, n_members
        launch(_blocks_backward, grid, grad, weight, blocks_grad, *shape, BLOCKS=n_chunks, **tile)
    categories_type, bias_type, cls_type = (like.dtype for like in others)
    categories_grad = grad[:, :, 1 + n_products :].to(categories_type)
    return blocks_grad, weight_grad, categories_grad, sums[:, 1:].to(bias_type), sums[:, 0].to(cls_type)


TOKENS = Path(_tokens, _slopes)
