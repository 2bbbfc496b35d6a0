"""Attention among few tokens in Triton: a program takes one row of one member and goes through its heads.

The tiles of a head, keys and values, are read once and meet the queries a block at a time; the weights stay in
registers, and backward computes them again. Lines of memory that two heads share are read while they are still near.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn.backbones.dropout import keep_threshold
from knotwork.nn.backbones.triton_dropout import element_bits

__all__ = ["Settings", "backward", "forward"]

LONG_ROWS = {128: (64, 8), 256: (16, 4)}
"""Queries of a block and warps, for tiles of so many tokens: what the registers hold without spilling."""


class Settings(NamedTuple):
    """What the kernels are told besides tensors: heads, share that is dropped, and whether TF32 is allowed."""

    n_heads: int
    p: float
    tf32: bool


@triton.jit
def _tile(pointer, here, bias_pointer, D: tl.constexpr, BIAS: tl.constexpr):
    """Return a tile of queries, keys or values, with the bias of its columns."""
    tile = tl.load(pointer, mask=here, other=0.0)
    if BIAS:
        d = tl.arange(0, tile.shape[1])
        bias = tl.load(bias_pointer + d, mask=d < D, other=0.0).to(tl.float32)
        tile = (tile.to(tl.float32) + bias[None, :]).to(tile.dtype)
    return tile


@triton.jit
def _softmax(q, k, scale, n_tokens, PRECISION: tl.constexpr):
    """Return the powers of softmax over the first columns, before they are divided by their sums, and the sums."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    scores = tl.where(tl.arange(0, k.shape[0])[None, :] < n_tokens, scores, -float("inf"))
    powers = tl.exp2(scores - tl.max(scores, axis=1)[:, None])
    return powers, tl.sum(powers, axis=1)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries"])
def _attention_forward(
    q_pointer,
    kv_pointer,
    bias_pointer,
    keys_pointer,
    out_pointer,
    n_rows,
    scale,
    threshold,
    factor,
    n_tokens,
    n_queries,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    Q_STEP: tl.constexpr,
    KV_STEP: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    WIDTH: tl.constexpr,
    BIAS: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    known = (j < n_tokens) & (d < D)
    keys_here = kv_pointer + row * (n_tokens * KV_STEP) + j * KV_STEP + d
    biases = bias_pointer + row // n_rows * (3 * HEADS * D)
    if DROPOUT:
        key = tl.load(keys_pointer + row // n_rows).to(tl.uint32)
        first = (row % n_rows * (HEADS * n_tokens * n_tokens)).to(tl.uint32)
    for head in tl.range(HEADS, num_stages=STAGES):
        k = _tile(keys_here + head * D, known, biases + (HEADS + head) * D, D, BIAS)
        v = _tile(keys_here + (HEADS + head) * D, known, biases + (2 * HEADS + head) * D, D, BIAS)
        for block in range(BLOCKS):
            i = block * BLOCK + tl.arange(0, BLOCK)[:, None]
            here = (i < n_queries) & (d < D)
            q_here = q_pointer + row * (n_queries * Q_STEP) + i * Q_STEP + d
            q = _tile(q_here + head * D, here, biases + head * D, D, BIAS)
            weights, sums = _softmax(q, k, scale, n_tokens, PRECISION)
            if DROPOUT:
                place = first + (i * n_tokens + tl.arange(0, TOKENS)[None, :] + head * (n_tokens * n_tokens)).to(
                    tl.uint32
                )
                weights = tl.where(element_bits(place, key) >= threshold.to(tl.uint32), weights, 0.0)
            y = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION) * (factor / sums)[:, None]
            outputs = out_pointer + row * (n_queries * HEADS * D) + i * (HEADS * D) + d
            tl.store(outputs + head * D, y.to(v.dtype), mask=here)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries"])
def _attention_backward(
    grad_pointer,
    q_pointer,
    kv_pointer,
    bias_pointer,
    keys_pointer,
    q_grad_pointer,
    kv_grad_pointer,
    n_rows,
    scale,
    root,
    threshold,
    factor,
    n_tokens,
    n_queries,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    Q_STEP: tl.constexpr,
    KV_STEP: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    WIDTH: tl.constexpr,
    BIAS: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write the gradients of queries, keys and values.

    With weights p, dropout's factors m, e = m * (grad v^T) and ds = p * (e - sum of p * e), they are
    dv = (m * p)^T grad, dq = ds k / sqrt(D) and dk = ds^T q / sqrt(D).
    """
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    known = (j < n_tokens) & (d < D)
    at = row * (n_tokens * KV_STEP) + j * KV_STEP + d
    biases = bias_pointer + row // n_rows * (3 * HEADS * D)
    if DROPOUT:
        key = tl.load(keys_pointer + row // n_rows).to(tl.uint32)
        first = (row % n_rows * (HEADS * n_tokens * n_tokens)).to(tl.uint32)
    for head in tl.range(HEADS, num_stages=STAGES):
        k = _tile(kv_pointer + at + head * D, known, biases + (HEADS + head) * D, D, BIAS)
        v = _tile(kv_pointer + at + (HEADS + head) * D, known, biases + (2 * HEADS + head) * D, D, BIAS)
        k_grad = tl.zeros((TOKENS, WIDTH), tl.float32)
        v_grad = tl.zeros((TOKENS, WIDTH), tl.float32)
        for block in range(BLOCKS):
            i = block * BLOCK + tl.arange(0, BLOCK)[:, None]
            here = (i < n_queries) & (d < D)
            q_at = row * (n_queries * Q_STEP) + i * Q_STEP + d + head * D
            q = _tile(q_pointer + q_at, here, biases + head * D, D, BIAS)
            grads = grad_pointer + row * (n_queries * HEADS * D) + i * (HEADS * D) + d
            grad = tl.load(grads + head * D, mask=here, other=0.0)
            weights, sums = _softmax(q, k, scale, n_tokens, PRECISION)
            weights = weights / sums[:, None]
            slopes = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            kept = weights
            if DROPOUT:
                place = first + (i * n_tokens + tl.arange(0, TOKENS)[None, :] + head * (n_tokens * n_tokens)).to(
                    tl.uint32
                )
                keep = element_bits(place, key) >= threshold.to(tl.uint32)
                kept = tl.where(keep, weights * factor, 0.0)
                slopes = tl.where(keep, slopes * factor, 0.0)
            v_grad += tl.dot(tl.trans(kept.to(v.dtype)), grad, input_precision=PRECISION)
            slopes = weights * (slopes - tl.sum(weights * slopes, axis=1)[:, None]) * root
            slopes = slopes.to(v.dtype)
            q_grad = tl.dot(slopes, k, input_precision=PRECISION)
            tl.store(q_grad_pointer + q_at, q_grad.to(v.dtype), mask=here)
            k_grad += tl.dot(tl.trans(slopes), q, input_precision=PRECISION)
        tl.store(kv_grad_pointer + at + (HEADS + head) * D, v_grad.to(v.dtype), mask=known)
        tl.store(kv_grad_pointer + at + head * D, k_grad.to(v.dtype), mask=known)


def _constants(q: Tensor, kv: Tensor, with_bias: bool, settings: Settings) -> dict[str, int | bool | str]:
    """Return what a kernel is compiled for.

    Each warp takes 16 queries; 8 where tiles of float32 would overflow its registers. Tiles of 16-bit numbers are
    read one head ahead, for which float32 and long rows leave no registers.
    """
    n_tokens, n_queries, width = kv.shape[2], q.shape[2], q.shape[3] // settings.n_heads
    tokens = max(16, triton.next_power_of_2(n_tokens))
    single = q.dtype == torch.float32
    most, warps = LONG_ROWS.get(tokens, (64, tokens // 8 if single and tokens > 32 else tokens // 16))
    block = min(max(16, triton.next_power_of_2(n_queries)), most)
    return {
        "n_tokens": n_tokens,
        "n_queries": n_queries,
        "HEADS": settings.n_heads,
        "D": width,
        "Q_STEP": q.stride(2),
        "KV_STEP": kv.stride(2),
        "TOKENS": tokens,
        "BLOCK": block,
        "BLOCKS": 1 if n_queries <= block else tokens // block,
        "WIDTH": max(16, triton.next_power_of_2(width)),
        "BIAS": with_bias,
        "DROPOUT": settings.p > 0.0,
        "PRECISION": "tf32" if settings.tf32 else "ieee",
        "STAGES": 1 if single or tokens > 64 else 2,
        "num_warps": warps,
    }


def _numbers(q: Tensor, settings: Settings) -> dict[str, int | float]:
    """Return the numbers that both kernels take."""
    root = (q.shape[3] // settings.n_heads) ** -0.5
    return {
        "n_rows": q.shape[1],
        "scale": root * math.log2(math.e),
        "threshold": keep_threshold(settings.p),
        "factor": 1.0 / (1.0 - settings.p),
    }


def forward(q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, *, settings: Settings) -> Tensor:
    """Return the results, of shape (M, B, Q, H * D).

    Parameters
    ----------
    q : Tensor of shape (M, B, Q, H * D)
        Queries, of all tokens or of the first; the first axes are those of a contiguous tensor.
    kv : Tensor of shape (M, B, T, 2 * H * D)
        Keys and values, likewise.
    bias : Tensor of shape (M, 3 * H * D), optional
        What is added to queries, keys and values.
    keys : Tensor of shape (M,), optional
        Keys of dropout's bits, where p > 0.
    settings : Settings
        The rest.
    """
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    _attention_forward[(q.shape[0] * q.shape[1],)](
        q,
        kv,
        q if bias is None else bias.contiguous(),
        q if keys is None else keys,
        out,
        **_numbers(q, settings),
        **_constants(q, kv, bias is not None, settings),
    )
    return out


def backward(
    grad: Tensor, q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, *, settings: Settings,
    q_grad: Tensor, kv_grad: Tensor,
) -> None:  # fmt: skip
    """Write the gradients of q and kv, into tensors with the same strides, from the gradient of the results."""
    _attention_backward[(q.shape[0] * q.shape[1],)](
        grad.contiguous(),
        q,
        kv,
        q if bias is None else bias.contiguous(),
        q if keys is None else keys,
        q_grad,
        kv_grad,
        root=(q.shape[3] // settings.n_heads) ** -0.5,
        **_numbers(q, settings),
        **_constants(q, kv, bias is not None, settings),
    )
