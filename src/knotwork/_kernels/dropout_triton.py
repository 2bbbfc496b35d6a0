"""Dropout on a GPU, alone or after a bias and relu: one Triton kernel each way, which draws the bits and drops."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path
from knotwork._kernels.dropout import Noise, keep_threshold

__all__ = ["BIAS_RELU", "DROPOUT", "element_bits", "member_key", "member_keys"]

BLOCK = 2048
"""Elements of a program."""

COLUMNS, ROWS = 32, 64
"""Columns of a program in the backward pass of relu, which loops over all rows, and rows per iteration."""


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def member_key(seeds_pointer, steps_pointer, member, stream):
    """Return the key of one member: `member_keys` in uint32."""
    seed = tl.load(seeds_pointer + member).to(tl.uint32)
    step = tl.load(steps_pointer + member).to(tl.uint32)
    key = _mix(seed ^ 0x3C6EF372)
    key = _mix(key + step * 0x85EBCA6B)
    return _mix(key + stream.to(tl.uint32) * 0x27D4EB2F)


@triton.jit
def element_bits(i, key):
    """Return the bits of elements i: `random_bits` in uint32."""
    return _mix(i.to(tl.uint32) * 0x9E3779B9 + key)


@triton.jit(do_not_specialize=["stream"])
def _member_keys(seeds_pointer, steps_pointer, out_pointer, stream):
    member = tl.program_id(0)
    tl.store(out_pointer + member, member_key(seeds_pointer, steps_pointer, member, stream).to(tl.int64))


@triton.jit(do_not_specialize=["threshold", "stream"])
def _dropout_forward(
    x_pointer, seeds_pointer, steps_pointer, y_pointer, keys_pointer,
    size, threshold, scale, stream,
    BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    key = member_key(seeds_pointer, steps_pointer, member, stream)
    if tl.program_id(0) == 0:
        tl.store(keys_pointer + member, key.to(tl.int64))
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + member * size + i, mask=i < size, other=0.0).to(tl.float32)
    y = x * scale
    y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y, 0.0)
    tl.store(y_pointer + member * size + i, y.to(y_pointer.dtype.element_ty), mask=i < size)


@triton.jit(do_not_specialize=["threshold"])
def _dropout_backward(grad_pointer, keys_pointer, out_pointer, size, threshold, scale, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    key = tl.load(keys_pointer + member).to(tl.uint32)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    grad = tl.load(grad_pointer + member * size + i, mask=i < size, other=0.0).to(tl.float32)
    grad = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), grad * scale, 0.0)
    tl.store(out_pointer + member * size + i, grad.to(out_pointer.dtype.element_ty), mask=i < size)


@triton.jit(do_not_specialize=["size", "width", "threshold", "stream"], do_not_specialize_on_alignment=["bias_pointer"])
def _bias_relu_forward(
    x_pointer, bias_pointer, seeds_pointer, steps_pointer, y_pointer,
    size, width, threshold, scale, stream,
    DROP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    x = tl.load(x_pointer + member * size + i, mask=known, other=0.0).to(tl.float32)
    x += tl.load(bias_pointer + member * width + i % width, mask=known, other=0.0).to(tl.float32)
    y = tl.where(x <= 0.0, 0.0, x * scale)  # not a maximum: NaN stays NaN
    if DROP:
        key = member_key(seeds_pointer, steps_pointer, member, stream)
        y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y, 0.0)
    tl.store(y_pointer + member * size + i, y.to(y_pointer.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["n_rows", "width"], do_not_specialize_on_alignment=["bias_grad_pointer"])
def _bias_relu_backward(
    grad_pointer, y_pointer, x_grad_pointer, bias_grad_pointer,
    n_rows, width, scale,
    N_BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    start = member * n_rows * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(N_BLOCKS):
        row = block * ROWS + tl.arange(0, ROWS)
        known = (row < n_rows)[:, None] & (column < width)[None, :]
        place = start + row[:, None] * width + column[None, :]
        grad = tl.load(grad_pointer + place, mask=known, other=0.0).to(tl.float32)
        y = tl.load(y_pointer + place, mask=known, other=0.0).to(tl.float32)
        slope = tl.where(y > 0.0, grad * scale, 0.0)
        tl.store(x_grad_pointer + place, slope.to(x_grad_pointer.dtype.element_ty), mask=known)
        total += slope
    tl.store(bias_grad_pointer + member * width + column, tl.sum(total, axis=0), mask=column < width)


def member_keys(noise: Noise, stream: int) -> Tensor:
    """Return the keys of `dropout.member_keys` from one kernel; plain torch would launch one for every operation."""
    out = torch.empty_like(noise.seeds)
    _member_keys[(len(out),)](noise.seeds.contiguous(), noise.step.contiguous(), out, stream, num_warps=1)
    return out


def _dropout(x: Tensor, *, p: float, noise: Noise, stream: int) -> Any:
    x = x.contiguous()
    y, keys = torch.empty_like(x), torch.empty_like(noise.seeds)
    members, size = x.shape[0], x[0].numel()
    _dropout_forward[(triton.cdiv(size, BLOCK), members)](
        x, noise.seeds, noise.step, y, keys, size, keep_threshold(p), 1.0 / (1.0 - p), stream,
        BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return (y,), (keys,)


def _dropout_slopes(grads: Any, kept: Any, needed: Any, *, p: float, **_: Any) -> Any:
    del needed
    grad, (keys,) = grads[0].contiguous(), kept
    out = torch.empty_like(grad)
    members, size = grad.shape[0], grad[0].numel()
    grid = (triton.cdiv(size, BLOCK), members)
    _dropout_backward[grid](grad, keys, out, size, keep_threshold(p), 1.0 / (1.0 - p), BLOCK=BLOCK, num_warps=8)
    return (out,)


def _bias_relu(x: Tensor, bias: Tensor, *, p: float, noise: Noise | None, stream: int) -> Any:
    """Return ``dropout(relu(x + bias))``; without noise nothing is dropped."""
    x, bias = x.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    members, size = x.shape[0], x[0].numel()
    seeds, steps = (bias, bias) if noise is None else (noise.seeds.contiguous(), noise.step.contiguous())
    _bias_relu_forward[(triton.cdiv(size, BLOCK), members)](
        x, bias, seeds, steps, y, size, x.shape[-1], keep_threshold(p), 1.0 / (1.0 - p), stream,
        DROP=noise is not None, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return (y,), (y, bias[:0])


def _bias_relu_slopes(grads: Any, kept: Any, needed: Any, *, p: float, **_: Any) -> Any:
    """Return the gradients of x and of the bias; the second tensor in `kept` is empty and has the bias's type."""
    del needed
    (y, like), grad = kept, grads[0].contiguous()
    x_grad = torch.empty_like(y)
    members, n_rows, width = y.shape[0], y[0].numel() // y.shape[-1], y.shape[-1]
    bias_grad = torch.empty(members, width, dtype=torch.float32, device=y.device)
    _bias_relu_backward[(triton.cdiv(width, COLUMNS), members)](
        grad, y, x_grad, bias_grad, n_rows, width, 1.0 / (1.0 - p),
        N_BLOCKS=triton.cdiv(n_rows, ROWS), ROWS=ROWS, COLUMNS=COLUMNS, num_warps=8,
    )  # fmt: skip
    return x_grad, bias_grad.to(like.dtype)


DROPOUT = Path(_dropout, _dropout_slopes)
BIAS_RELU = Path(_bias_relu, _bias_relu_slopes)
