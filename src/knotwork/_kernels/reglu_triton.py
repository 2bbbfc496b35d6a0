"""The gated unit with its dropout in Triton: one pass over the values each way."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path, is_long
from knotwork._kernels.dropout import Noise, keep_threshold
from knotwork._kernels.dropout_triton import element_bits, member_keys, sum_bits
from knotwork._kernels.launching import contiguous, launch
from knotwork._kernels.layer_norm_triton import add_parts, part_and_member, parts_of

__all__ = ["REGLU"]

BLOCK = 1024
"""Results of a program, forward."""

TILE, WARPS = 1024, 4
"""Results that a program holds at once and its warps, backward; more warps for long rows."""


@triton.jit(do_not_specialize=["threshold"])
def _reglu_forward(
    x_pointer, bias_pointer, keys_pointer, out_pointer,
    size, threshold, factor,
    HALF: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    part, member = part_and_member()
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
    part, member = part_and_member()
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
    n_blocks, n_parts = parts_of(n_rows, rows)
    parts = torch.empty(len(x), n_parts, 1, 2 * half, dtype=torch.float32, device=x.device)
    launch(
        _reglu_backward, (n_parts, len(x)),
        grad, x, bias, keys, out, parts, n_rows, n_blocks, keep_threshold(p), 1.0 / (1.0 - p),
        HALF=half, BIAS=bias is not None, DROPOUT=p > 0.0, ROWS=rows, COLUMNS=columns,
        num_warps=max(WARPS, min(16, columns // 512)),
    )  # fmt: skip
    return out, None if bias is None else add_parts(parts)[0].to(bias.dtype)


REGLU = Path(_reglu, _reglu_slopes)
