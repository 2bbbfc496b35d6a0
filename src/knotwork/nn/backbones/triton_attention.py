"""Attention among few tokens in Triton: a program takes one row of one member and goes through its heads.

The tiles of a head, queries, keys and values, are read once; the weights stay in registers, and backward computes them
again. Lines of memory that two heads share are read while they are still near.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn.backbones.dropout import keep_threshold
from knotwork.nn.backbones.triton_dropout import element_bits

__all__ = ["backward", "forward"]


@triton.jit
def _softmax(q, k, scale, T: tl.constexpr, PRECISION: tl.constexpr):
    """Return the powers of softmax over the first T columns, before they are divided by their sums, and the sums."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    if k.shape[0] > T:
        scores = tl.where(tl.arange(0, k.shape[0])[None, :] < T, scores, -float("inf"))
    powers = tl.exp2(scores - tl.max(scores, axis=1)[:, None])
    return powers, tl.sum(powers, axis=1)


@triton.jit(do_not_specialize=["threshold"])
def _forward(
    qkv_pointer,
    keys_pointer,
    out_pointer,
    n_rows,
    scale,
    threshold,
    factor,
    T: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    here = (i < T) & (d < D)
    inputs = qkv_pointer + row * (T * 3 * HEADS * D) + i * (3 * HEADS * D) + d
    outputs = out_pointer + row * (T * HEADS * D) + i * (HEADS * D) + d
    if DROPOUT:
        key = tl.load(keys_pointer + row // n_rows).to(tl.uint32)
        place = (row % n_rows * (HEADS * T * T)).to(tl.uint32) + (i * T + tl.arange(0, TOKENS)[None, :]).to(tl.uint32)
    for head in tl.range(HEADS, num_stages=STAGES):
        q = tl.load(inputs + head * D, mask=here, other=0.0)
        k = tl.load(inputs + (HEADS + head) * D, mask=here, other=0.0)
        v = tl.load(inputs + (2 * HEADS + head) * D, mask=here, other=0.0)
        weights, sums = _softmax(q, k, scale, T, PRECISION)
        if DROPOUT:
            weights = tl.where(element_bits(place + head * (T * T), key) >= threshold.to(tl.uint32), weights, 0.0)
        y = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION) * (factor / sums)[:, None]
        tl.store(outputs + head * D, y.to(v.dtype), mask=here)


@triton.jit(do_not_specialize=["threshold"])
def _backward(
    grad_pointer,
    qkv_pointer,
    keys_pointer,
    out_pointer,
    n_rows,
    scale,
    root,
    threshold,
    factor,
    T: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write the gradient of qkv.

    With weights p, dropout's factors m, e = m * (grad v^T) and ds = p * (e - sum of p * e), it is made of
    dv = (m * p)^T grad, dq = ds k / sqrt(D) and dk = ds^T q / sqrt(D).
    """
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    here = (i < T) & (d < D)
    at = row * (T * 3 * HEADS * D) + i * (3 * HEADS * D) + d
    inputs = qkv_pointer + at
    outputs = out_pointer + at
    grads = grad_pointer + row * (T * HEADS * D) + i * (HEADS * D) + d
    if DROPOUT:
        key = tl.load(keys_pointer + row // n_rows).to(tl.uint32)
        place = (row % n_rows * (HEADS * T * T)).to(tl.uint32) + (i * T + tl.arange(0, TOKENS)[None, :]).to(tl.uint32)
    for head in tl.range(HEADS, num_stages=STAGES):
        q = tl.load(inputs + head * D, mask=here, other=0.0)
        k = tl.load(inputs + (HEADS + head) * D, mask=here, other=0.0)
        v = tl.load(inputs + (2 * HEADS + head) * D, mask=here, other=0.0)
        grad = tl.load(grads + head * D, mask=here, other=0.0)
        weights, sums = _softmax(q, k, scale, T, PRECISION)
        weights = weights / sums[:, None]
        slopes = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
        kept = weights
        if DROPOUT:
            keep = element_bits(place + head * (T * T), key) >= threshold.to(tl.uint32)
            kept = tl.where(keep, weights * factor, 0.0)
            slopes = tl.where(keep, slopes * factor, 0.0)
        v_grad = tl.dot(tl.trans(kept.to(v.dtype)), grad, input_precision=PRECISION)
        tl.store(outputs + (2 * HEADS + head) * D, v_grad.to(v.dtype), mask=here)
        slopes = weights * (slopes - tl.sum(weights * slopes, axis=1)[:, None]) * root
        slopes = slopes.to(v.dtype)
        q_grad = tl.dot(slopes, k, input_precision=PRECISION)
        tl.store(outputs + head * D, q_grad.to(v.dtype), mask=here)
        k_grad = tl.dot(tl.trans(slopes), q, input_precision=PRECISION)
        tl.store(outputs + (HEADS + head) * D, k_grad.to(v.dtype), mask=here)


def _constants(qkv: Tensor, n_heads: int, p: float, tf32: bool) -> dict[str, int | bool | str]:
    """Return what a kernel is compiled for.

    Each warp takes 16 queries; 8 where tiles of float32 would overflow its registers. Tiles of 16-bit numbers are
    read one head ahead, for which float32 leaves no registers.
    """
    n_tokens, width = qkv.shape[2], qkv.shape[3] // (3 * n_heads)
    tokens = max(16, triton.next_power_of_2(n_tokens))
    single = qkv.dtype == torch.float32
    return {
        "T": n_tokens,
        "HEADS": n_heads,
        "D": width,
        "TOKENS": tokens,
        "WIDTH": max(16, triton.next_power_of_2(width)),
        "DROPOUT": p > 0.0,
        "PRECISION": "tf32" if tf32 else "ieee",
        "STAGES": 1 if single else 2,
        "num_warps": tokens // 8 if single and tokens > 32 else tokens // 16,
    }


def forward(qkv: Tensor, keys: Tensor | None, *, n_heads: int, p: float, tf32: bool) -> Tensor:
    """Return the results, of shape (M, B, T, H * D); parameters as in `attention`, `keys` of shape (M,) where p > 0."""
    qkv = qkv.contiguous()
    n_members, n_rows, n_tokens, width = qkv.shape
    out = torch.empty(n_members, n_rows, n_tokens, width // 3, dtype=qkv.dtype, device=qkv.device)
    root = (width // (3 * n_heads)) ** -0.5
    _forward[(n_members * n_rows,)](
        qkv,
        qkv if keys is None else keys,
        out,
        n_rows,
        root * math.log2(math.e),
        keep_threshold(p),
        1.0 / (1.0 - p),
        **_constants(qkv, n_heads, p, tf32),
    )
    return out


def backward(grad: Tensor, qkv: Tensor, keys: Tensor | None, *, n_heads: int, p: float, tf32: bool) -> Tensor:
    """Return the gradient of qkv from that of the results."""
    grad, qkv = grad.contiguous(), qkv.contiguous()
    out = torch.empty_like(qkv)
    n_members, n_rows = qkv.shape[:2]
    root = (qkv.shape[3] // (3 * n_heads)) ** -0.5
    _backward[(n_members * n_rows,)](
        grad,
        qkv,
        qkv if keys is None else keys,
        out,
        n_rows,
        root * math.log2(math.e),
        root,
        keep_threshold(p),
        1.0 / (1.0 - p),
        **_constants(qkv, n_heads, p, tf32),
    )
    return out
