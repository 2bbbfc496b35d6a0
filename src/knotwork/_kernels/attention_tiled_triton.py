"""Attention among many tokens in Triton: tiles of queries meet tiles of keys, and softmax is corrected on the way.

A program processes one tile of one head of one row, so that memory and registers do not depend on the number of tokens.
Forward keeps one number per query, the logarithm of its sum of exponentials; backward computes the weights again from
it, once for the gradient of the queries and once for those of keys and values. Every sum has a fixed order.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dropout_triton import sum_bits

__all__ = ["tiled_backward", "tiled_forward"]

QUERIES, KEYS, WARPS = 64, 64, 4
"""Queries and keys of a tile, and the warps of its program."""


@triton.jit
def _place(n_blocks, HEADS: tl.constexpr):
    """Return head, tile, row and member of a program; neighbours differ in the head, whose values share cache lines."""
    index = tl.program_id(0)
    return index % HEADS, index // HEADS % n_blocks, index // (HEADS * n_blocks), tl.program_id(1).to(tl.int64)


@triton.jit
def _tile(pointer, token, n_tokens, step, bias_pointer, D: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr):
    """Return the values of some tokens, of shape (tokens, WIDTH), with the bias of their columns; 0 beyond the ends."""
    d = tl.arange(0, WIDTH)[None, :]
    here = (token[:, None] < n_tokens) & (d < D)
    tile = tl.load(pointer + token[:, None] * step + d, mask=here, other=0.0)
    if BIAS:
        bias = tl.load(bias_pointer + d, mask=d < D, other=0.0).to(tile.dtype)
        tile = tl.where(here, tile + bias, 0.0)
    return tile


@triton.jit
def _kept(i, j, first, n_tokens, key, threshold):
    """Return whether dropout keeps the weights of queries i and keys j; one of them is a column, the other a row."""
    return sum_bits(first + i.to(tl.uint32) * n_tokens, j.to(tl.uint32), key) >= threshold.to(tl.uint32)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries", "n_blocks"])
def _tiled_forward(
    q_pointer, kv_pointer, bias_pointer, keys_pointer, out_pointer, logs_pointer,
    n_rows, scale, threshold, factor, n_tokens, n_queries, n_blocks,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    head, block, place, member = _place(n_blocks, HEADS)
    row = member * n_rows + place
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    i = block * QUERIES + tl.arange(0, QUERIES)
    q = _tile(q_pointer + row * n_queries * Q_STEP + head * D, i, n_queries, Q_STEP, biases, D, WIDTH, BIAS)
    keys = kv_pointer + row * n_tokens * KV_STEP + head * D
    key, first = tl.full((), 0, tl.uint32), tl.full((), 0, tl.uint32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        first = ((place * HEADS + head) * (n_tokens * n_tokens)).to(tl.uint32)
    largest = tl.full((QUERIES,), -float("inf"), tl.float32)
    sums = tl.zeros((QUERIES,), tl.float32)
    y = tl.zeros((QUERIES, WIDTH), tl.float32)
    for start in range(0, n_tokens, KEYS):
        j = start + tl.arange(0, KEYS)
        k = _tile(keys, j, n_tokens, KV_STEP, biases, D, WIDTH, False)
        v = _tile(keys + HEADS * D, j, n_tokens, KV_STEP, biases + 2 * HEADS * D, D, WIDTH, BIAS)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        scores = tl.where(j[None, :] < n_tokens, scores, -float("inf"))
        before, largest = largest, tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - largest[:, None])
        shrunk = tl.exp2(before - largest)
        sums = sums * shrunk + tl.sum(weights, axis=1)
        if DROPOUT:
            weights = tl.where(_kept(i[:, None], j[None, :], first, n_tokens, key, threshold), weights, 0.0)
        y = y * shrunk[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
    d = tl.arange(0, WIDTH)[None, :]
    outputs = out_pointer + row * n_queries * (HEADS * D) + head * D + i[:, None] * (HEADS * D) + d
    tl.store(outputs, (y * (factor / sums)[:, None]).to(q.dtype), mask=(i[:, None] < n_queries) & (d < D))
    tl.store(logs_pointer + (row * HEADS + head) * n_queries + i, largest + tl.log2(sums), mask=i < n_queries)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries", "n_blocks"])
def _queries_backward(
    grad_pointer, q_pointer, kv_pointer, bias_pointer, keys_pointer, out_pointer, logs_pointer, dots_pointer,
    q_grad_pointer, n_rows, scale, root, threshold, factor, n_tokens, n_queries, n_blocks,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradient of the queries, and the products of results and gradients, which the keys need.

    With weights p, dropout's factors m, e = m * (grad v^T) and ds = p * (e - sum of p * e), it is dq = ds k / sqrt(D).
    The sum is that of grad * y over the columns.
    """
    head, block, place, member = _place(n_blocks, HEADS)
    row = member * n_rows + place
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    i = block * QUERIES + tl.arange(0, QUERIES)
    at = row * n_queries * Q_STEP + head * D
    q = _tile(q_pointer + at, i, n_queries, Q_STEP, biases, D, WIDTH, BIAS)
    outputs = row * n_queries * (HEADS * D) + head * D
    grad = _tile(grad_pointer + outputs, i, n_queries, HEADS * D, biases, D, WIDTH, False)
    y = _tile(out_pointer + outputs, i, n_queries, HEADS * D, biases, D, WIDTH, False)
    dots = tl.sum(grad.to(tl.float32) * y.to(tl.float32), axis=1)
    numbers = (row * HEADS + head) * n_queries + i
    logs = tl.load(logs_pointer + numbers, mask=i < n_queries, other=0.0)
    tl.store(dots_pointer + numbers, dots, mask=i < n_queries)
    keys = kv_pointer + row * n_tokens * KV_STEP + head * D
    key, first = tl.full((), 0, tl.uint32), tl.full((), 0, tl.uint32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        first = ((place * HEADS + head) * (n_tokens * n_tokens)).to(tl.uint32)
    q_grad = tl.zeros((QUERIES, WIDTH), tl.float32)
    for start in range(0, n_tokens, KEYS):
        j = start + tl.arange(0, KEYS)
        k = _tile(keys, j, n_tokens, KV_STEP, biases, D, WIDTH, False)
        v = _tile(keys + HEADS * D, j, n_tokens, KV_STEP, biases + 2 * HEADS * D, D, WIDTH, BIAS)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        weights = tl.where(j[None, :] < n_tokens, tl.exp2(scores - logs[:, None]), 0.0)
        slopes = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
        if DROPOUT:
            kept = _kept(i[:, None], j[None, :], first, n_tokens, key, threshold)
            slopes = tl.where(kept, slopes * factor, 0.0)
        slopes = weights * (slopes - dots[:, None])
        q_grad += tl.dot(slopes.to(k.dtype), k, input_precision=PRECISION)
    d = tl.arange(0, WIDTH)[None, :]
    here = (i[:, None] < n_queries) & (d < D)
    tl.store(q_grad_pointer + at + i[:, None] * Q_STEP + d, (q_grad * root).to(q.dtype), mask=here)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries", "n_blocks"])
def _keys_backward(
    grad_pointer, q_pointer, kv_pointer, bias_pointer, keys_pointer, logs_pointer, dots_pointer, kv_grad_pointer,
    n_rows, scale, root, threshold, factor, n_tokens, n_queries, n_blocks,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradients of keys and values, dk = ds^T q / sqrt(D) and dv = (m * p)^T grad; names as above.

    Tiles of weights are transposed: keys are their rows.
    """
    head, block, place, member = _place(n_blocks, HEADS)
    row = member * n_rows + place
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    j = block * KEYS + tl.arange(0, KEYS)
    at = row * n_tokens * KV_STEP + head * D
    k = _tile(kv_pointer + at, j, n_tokens, KV_STEP, biases, D, WIDTH, False)
    v = _tile(kv_pointer + at + HEADS * D, j, n_tokens, KV_STEP, biases + 2 * HEADS * D, D, WIDTH, BIAS)
    queries, outputs = row * n_queries * Q_STEP + head * D, row * n_queries * (HEADS * D) + head * D
    key, first = tl.full((), 0, tl.uint32), tl.full((), 0, tl.uint32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        first = ((place * HEADS + head) * (n_tokens * n_tokens)).to(tl.uint32)
    k_grad = tl.zeros((KEYS, WIDTH), tl.float32)
    v_grad = tl.zeros((KEYS, WIDTH), tl.float32)
    for start in range(0, n_queries, QUERIES):
        i = start + tl.arange(0, QUERIES)
        q = _tile(q_pointer + queries, i, n_queries, Q_STEP, biases, D, WIDTH, BIAS)
        grad = _tile(grad_pointer + outputs, i, n_queries, HEADS * D, biases, D, WIDTH, False)
        numbers = (row * HEADS + head) * n_queries + i
        logs = tl.load(logs_pointer + numbers, mask=i < n_queries, other=float("inf"))
        dots = tl.load(dots_pointer + numbers, mask=i < n_queries, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        weights = tl.exp2(scores - logs[None, :])
        slopes = tl.dot(v, tl.trans(grad), input_precision=PRECISION)
        dropped = weights
        if DROPOUT:
            kept = _kept(i[None, :], j[:, None], first, n_tokens, key, threshold)
            dropped = tl.where(kept, weights * factor, 0.0)
            slopes = tl.where(kept, slopes * factor, 0.0)
        v_grad += tl.dot(dropped.to(grad.dtype), grad, input_precision=PRECISION)
        slopes = weights * (slopes - dots[None, :])
        k_grad += tl.dot(slopes.to(q.dtype), q, input_precision=PRECISION)
    d = tl.arange(0, WIDTH)[None, :]
    here = (j[:, None] < n_tokens) & (d < D)
    gradients = kv_grad_pointer + at + j[:, None] * KV_STEP + d
    tl.store(gradients, (k_grad * root).to(k.dtype), mask=here)
    tl.store(gradients + HEADS * D, v_grad.to(k.dtype), mask=here)


def _constants(q: Tensor, kv: Tensor, bias: Tensor | None, settings: Any) -> dict[str, Any]:
    """Return the constants of all kernels but the number of blocks."""
    n_tokens, n_queries, width = kv.shape[2], q.shape[2], q.shape[3] // settings.n_heads
    queries = min(QUERIES, max(16, triton.next_power_of_2(n_queries)))
    return {
        "n_tokens": n_tokens,
        "n_queries": n_queries,
        "HEADS": settings.n_heads,
        "D": width,
        "Q_STEP": q.stride(2),
        "KV_STEP": kv.stride(2),
        "QUERIES": queries,
        "KEYS": KEYS,
        "WIDTH": max(16, triton.next_power_of_2(width)),
        "BIAS": bias is not None,
        "DROPOUT": settings.p > 0.0,
        "PRECISION": "tf32" if settings.tf32 else "ieee",
        "num_warps": WARPS if queries == QUERIES else 2,
    }


def tiled_forward(
    q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, *, settings: Any, numbers: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return the results, of shape (M, B, Q, H * D), and the logarithms of the sums, (M, B, H, Q) in float32.

    Arguments are those of the kernels for short rows; `numbers` are the numbers that all kernels take.
    """
    n_members, n_rows, n_queries, _ = q.shape
    constants = _constants(q, kv, bias, settings)
    n_blocks = triton.cdiv(n_queries, constants["QUERIES"])
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    logs = torch.empty(n_members, n_rows, settings.n_heads, n_queries, dtype=torch.float32, device=q.device)
    _tiled_forward[(settings.n_heads * n_blocks * n_rows, n_members)](
        q, kv, q if bias is None else bias.contiguous(), q if keys is None else keys, out, logs,
        **numbers, **constants, n_blocks=n_blocks,
    )  # fmt: skip
    return out, logs


def tiled_backward(
    grad: Tensor, q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, results: Sequence[Tensor], *,
    settings: Any, numbers: dict[str, Any], q_grad: Tensor, kv_grad: Tensor,
) -> None:  # fmt: skip
    """Write the gradients of q and kv into tensors with the same strides; `results` are those of `tiled_forward`."""
    n_members, n_rows, n_queries, _ = q.shape
    constants, (out, logs) = _constants(q, kv, bias, settings), results
    dots, grad = torch.empty_like(logs), grad.contiguous()
    inputs = grad, q, kv, q if bias is None else bias.contiguous(), q if keys is None else keys
    numbers = {**numbers, "root": math.sqrt(settings.n_heads / q.shape[3])}
    n_blocks = triton.cdiv(n_queries, constants["QUERIES"])
    _queries_backward[(settings.n_heads * n_blocks * n_rows, n_members)](
        *inputs, out, logs, dots, q_grad, **numbers, **constants, n_blocks=n_blocks
    )
    n_blocks = triton.cdiv(kv.shape[2], KEYS)
    _keys_backward[(settings.n_heads * n_blocks * n_rows, n_members)](
        *inputs, logs, dots, kv_grad, **numbers, **constants, n_blocks=n_blocks
    )
