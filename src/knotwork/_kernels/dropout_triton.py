"""Dropout on a GPU, alone or after a bias and an activation: one Triton kernel each way, which draws the bits."""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dispatch import Path, is_long
from knotwork._kernels.dropout import Noise, keep_threshold
from knotwork._kernels.launching import contiguous, launch

BLOCK = 2048
"""Elements of a program."""

COLUMNS, ROWS = 32, 64
"""Columns of a program in the backward pass of an activation, which loops over all rows, and rows per iteration."""

PTX = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)
"""Whether kernels may contain instructions of NVIDIA's GPUs."""


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


@triton.jit
def sum_bits(i, j, key):
    """Return the bits of elements i + j of a table, given a column i and a row j, without a product per element."""
    return _mix((i.to(tl.uint32) * 0x9E3779B9 + key) + j.to(tl.uint32) * 0x9E3779B9)


@triton.jit
def pair_number(i, key):
    """Return the odd numbers of elements i, whose products are the bits of pairs: `pair_numbers` in uint32."""
    return element_bits(i, key) | 1


@triton.jit
def keep_pairs(values, first, second, threshold):
    """Return the values of the pairs that dropout keeps, and 0 for the others; one number is a column, one a row."""
    threshold = threshold.to(tl.uint32)
    if PTX:
        # LLVM would pack the comparisons of a tile into bits and unpack them: four instructions instead of two.
        kept = tl.inline_asm_elementwise(
            "{ .reg .u32 bits; .reg .pred keep; mul.lo.u32 bits, $2, $3; setp.ge.u32 keep, bits, $4;"
            " selp.f32 $0, $1, 0f00000000, keep; }",
            "=f,f,r,r,r", [values, first, second, threshold], dtype=tl.float32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        kept = tl.where(first * second >= threshold, values, 0.0)
    return kept


@triton.jit(do_not_specialize=["stream"])
def _member_keys(seeds_pointer, steps_pointer, out_pointer, stream):
    member = tl.program_id(0)
    tl.store(out_pointer + member, member_key(seeds_pointer, steps_pointer, member, stream).to(tl.int64))


@triton.jit
def _key_numbers(keys_pointer, out_pointer, BLOCK: tl.constexpr):
    member, j = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    numbers = pair_number(-1 - j, tl.load(keys_pointer + member).to(tl.uint32))
    tl.store(out_pointer + member * (tl.num_programs(0) * BLOCK) + j, numbers.to(tl.int32, bitcast=True))


@triton.jit
def _elements(BLOCK: tl.constexpr, LONG: tl.constexpr):
    """Return the elements of a member that a program processes."""
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
    return program * BLOCK + tl.arange(0, BLOCK)


@triton.jit(do_not_specialize=["threshold", "stream"])
def _dropout(
    x_pointer, seeds_pointer, steps_pointer, y_pointer, keys_pointer,
    size, threshold, scale, stream,
    DRAWN: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Drop values, or gradients by keys that are DRAWN already."""
    member = tl.program_id(1).to(tl.int64)
    if DRAWN:
        key = tl.load(keys_pointer + member).to(tl.uint32)
    else:
        key = member_key(seeds_pointer, steps_pointer, member, stream)
        if tl.program_id(0) == 0:
            tl.store(keys_pointer + member, key.to(tl.int64))
    i = _elements(BLOCK, LONG)
    x = tl.load(x_pointer + member * size + i, mask=i < size, other=0.0).to(tl.float32)
    y = x * scale
    y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y, 0.0)
    tl.store(y_pointer + member * size + i, y.to(y_pointer.dtype.element_ty), mask=i < size)


@triton.jit
def _mish_terms(z):
    """Return z, at most 20, with w = exp(z) and n = w (w + 2): Mish is z n / (n + 2), the identity from 20 on."""
    z = tl.where(z > 20.0, 20.0, z)
    w = tl.exp(z)
    return z, w, w * (w + 2.0)


@triton.jit
def _activate(z, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        y = tl.where(z <= 0.0, 0.0, z)  # not a maximum: NaN stays NaN
    elif ACTIVATION == "mish":
        _, _, n = _mish_terms(z)
        y = z * (n / (n + 2.0))
    else:
        low = tl.where(z > 0.0, 0.0, z)
        # Near 0 the difference of the exponential and 1 would lose its digits, the series does not.
        near = tl.where(low > -0.125, low, 0.0)
        series = near * (1.0 + near / 2.0 * (1.0 + near / 3.0 * (1.0 + near / 4.0 * (1.0 + near / 5.0))))
        below = tl.where(low > -0.125, series, tl.exp(low) - 1.0)
        y = tl.where(z > 0.0, 1.0507009873554805 * z, 1.7580993408473766 * below)
    return y


@triton.jit
def _slope(z, ACTIVATION: tl.constexpr):
    """Return the derivative of Mish or SELU."""
    if ACTIVATION == "mish":
        z, w, n = _mish_terms(z)
        slope = (n + z * (4.0 * w * (w + 1.0) / (n + 2.0))) / (n + 2.0)
    else:
        slope = tl.where(z > 0.0, 1.0507009873554805, 1.7580993408473766 * tl.exp(tl.where(z > 0.0, 0.0, z)))
    return slope


@triton.jit(do_not_specialize=["size", "width", "threshold", "stream"], do_not_specialize_on_alignment=["bias_pointer"])
def _bias_act_forward(
    x_pointer, bias_pointer, seeds_pointer, steps_pointer, y_pointer, keys_pointer,
    size, width, threshold, scale, gain, stream,
    ACTIVATION: tl.constexpr, DROP: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    i = _elements(BLOCK, LONG)
    known = i < size
    x = tl.load(x_pointer + member * size + i, mask=known, other=0.0).to(tl.float32)
    bias = tl.load(bias_pointer + member * width + i % width, mask=known, other=0.0).to(tl.float32)
    y = _activate(x * scale + bias, ACTIVATION) * gain
    if DROP:
        key = member_key(seeds_pointer, steps_pointer, member, stream)
        if ACTIVATION != "relu":
            tl.store(keys_pointer + member, key.to(tl.int64), mask=tl.program_id(0) == 0)
        y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y, 0.0)
    tl.store(y_pointer + member * size + i, y.to(y_pointer.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["n_rows", "width", "threshold"],
            do_not_specialize_on_alignment=["bias_pointer", "bias_grad_pointer"])  # fmt: skip
def _bias_act_backward(
    grad_pointer, source_pointer, bias_pointer, keys_pointer, x_grad_pointer, bias_grad_pointer,
    n_rows, width, threshold, scale, gain,
    ACTIVATION: tl.constexpr, DROP: tl.constexpr, N_BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    if LONG:
        width = width.to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    start = member * n_rows * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(N_BLOCKS):
        row = block * ROWS + tl.arange(0, ROWS)
        known = (row < n_rows)[:, None] & (column < width)[None, :]
        i = row[:, None] * width + column[None, :]
        grad = tl.load(grad_pointer + start + i, mask=known, other=0.0).to(tl.float32)
        z = tl.load(source_pointer + start + i, mask=known, other=0.0).to(tl.float32)
        if ACTIVATION == "relu":
            slope = tl.where(z > 0.0, grad * gain, 0.0)  # the source is the result, zero where it was dropped
        else:
            bias = tl.load(bias_pointer + member * width + column, mask=column < width, other=0.0).to(tl.float32)
            slope = grad * gain * _slope(z * scale + bias[None, :], ACTIVATION)
        if DROP:
            key = tl.load(keys_pointer + member).to(tl.uint32)
            slope = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), slope, 0.0)
        tl.store(x_grad_pointer + start + i, (slope * scale).to(x_grad_pointer.dtype.element_ty), mask=known)
        total += tl.where(known, slope, 0.0)
    tl.store(bias_grad_pointer + member * width + column, tl.sum(total, axis=0), mask=column < width)


def member_keys(noise: Noise, stream: int) -> Tensor:
    """Return the keys of `dropout.member_keys` from one kernel; plain torch would launch one for every operation."""
    out = torch.empty_like(noise.seeds)
    launch(_member_keys, (len(out),), noise.seeds.contiguous(), noise.step.contiguous(), out, stream, num_warps=1)
    return out


def key_numbers(keys: Tensor, n: int) -> Tensor:
    """Return the second numbers of `dropout.pair_numbers` for keys of shape (M,): int32 of shape (M, n)."""
    block = math.gcd(n, 1024)
    out = torch.empty(len(keys), n, dtype=torch.int32, device=keys.device)
    launch(_key_numbers, (n // block, len(keys)), keys, out, BLOCK=block, num_warps=1)
    return out


def _drop(x: Tensor, p: float, noise: Noise | None, stream: int, keys: Tensor) -> Tensor:
    """Return x after dropout; with noise the keys are drawn and written."""
    x = x.contiguous()
    y, size = torch.empty_like(x), x[0].numel()
    launch(
        _dropout, (triton.cdiv(size, BLOCK), len(x)),
        x, *(noise or (None, None)), y, keys, size, keep_threshold(p), 1.0 / (1.0 - p), stream,
        DRAWN=noise is None, BLOCK=BLOCK, LONG=is_long(size), num_warps=8,
    )  # fmt: skip
    return y


def _dropout_forward(x: Tensor, *, p: float, noise: Noise, stream: int) -> Any:
    keys = torch.empty_like(noise.seeds)
    return (_drop(x, p, noise, stream, keys),), (keys,)


def _dropout_backward(grads: Any, kept: Any, needed: Any, *, p: float, stream: int, **_: Any) -> Any:
    del needed
    return (_drop(grads[0], p, None, stream, kept[0]),)


def _bias_act(
    x: Tensor, bias: Tensor, *, p: float, noise: Noise | None, stream: int, activation: str, scale: float
) -> Any:
    """Return ``dropout(activation(scale * x + bias))``; without noise nothing is dropped."""
    x, bias = contiguous(x, bias)
    y, size = torch.empty_like(x), x[0].numel()
    keys = None if noise is None or activation == "relu" else torch.empty_like(noise.seeds)
    launch(
        _bias_act_forward, (triton.cdiv(size, BLOCK), len(x)),
        x, bias, *contiguous(*(noise or (None, None))), y, keys, size, x.shape[-1], keep_threshold(p), scale,
        1.0 / (1.0 - p), stream, ACTIVATION=activation, DROP=noise is not None, BLOCK=BLOCK, LONG=is_long(size),
        num_warps=8,
    )  # fmt: skip
    return (y,), (y if activation == "relu" else x, bias, keys)


def _bias_act_slopes(grads: Any, kept: Any, needed: Any, *, p: float, activation: str, scale: float, **_: Any) -> Any:
    """Return the gradients of x and of the bias."""
    del needed
    (source, bias, keys), grad = kept, grads[0].contiguous()
    x_grad = torch.empty_like(source)
    members, n_rows, width = source.shape[0], source[0].numel() // source.shape[-1], source.shape[-1]
    bias_grad = torch.empty(members, width, dtype=torch.float32, device=source.device)
    launch(
        _bias_act_backward, (triton.cdiv(width, COLUMNS), members),
        grad, source, bias, keys, x_grad, bias_grad, n_rows, width, keep_threshold(p), scale,
        1.0 / (1.0 - p), ACTIVATION=activation, DROP=keys is not None,
        N_BLOCKS=triton.cdiv(n_rows, ROWS), ROWS=ROWS, COLUMNS=COLUMNS, LONG=is_long(n_rows * width), num_warps=8,
    )  # fmt: skip
    return x_grad, bias_grad.to(bias.dtype)


DROPOUT = Path(_dropout_forward, _dropout_backward)
BIAS_ACT = Path(_bias_act, _bias_act_slopes)
