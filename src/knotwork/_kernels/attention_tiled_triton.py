"""Attention among many tokens in Triton: tiles of queries meet tiles of keys, and softmax is corrected on the way.

A program processes one tile of one head of one row, so that memory and registers do not depend on the number of tokens.
Forward keeps one number per query, the logarithm of its sum of exponentials; backward computes the weights again from
it, once for the gradient of the queries and once for those of keys and values. Every sum has a fixed order.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.dropout_triton import keep_pairs, key_numbers, pair_number
from knotwork._kernels.launching import launch

FORWARD, OF_QUERIES, OF_KEYS = (64, 64, 80), (64, 32, 80), (32, 64, 96)
"""Queries and keys of a tile, and the most registers of a thread: forward, backward for queries, backward for keys.

Fewer registers allow more programs at a time, whose waiting times overlap. Queries divide those of `FORWARD`."""

NARROW = 32
"""Largest width of a head of 16-bit numbers whose tiles fit into so few registers; others use what they need."""

WARPS = 4
"""Warps of a program."""

TABLE = tl.constexpr(128)
"""Numbers per query or key are stored in tables whose rows are multiples of this, so that no tile needs a mask."""


@triton.jit
def _place(n_blocks, HEADS: tl.constexpr):
    """Return head, tile, row and member of a program; neighbours differ in the head, whose values share cache lines."""
    index = tl.program_id(0)
    return index % HEADS, index // HEADS % n_blocks, index // (HEADS * n_blocks), tl.program_id(1).to(tl.int64)


@triton.jit
def _length(n):
    """Return the length of a row of a table of n numbers."""
    return (n + TABLE - 1) // TABLE * TABLE


@triton.jit
def _tile(
    pointer, token, n_tokens, step, bias_pointer,
    D: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return the values of some tokens, of shape (tokens, WIDTH), with the bias of their columns; 0 beyond the ends."""
    d = tl.arange(0, WIDTH)[None, :]
    here = d < D
    if MASKED:
        here = here & (token[:, None] < n_tokens)
    tile = tl.load(pointer + token[:, None] * step + d, mask=here, other=0.0)
    if BIAS:
        bias = tl.load(bias_pointer + d, mask=d < D, other=0.0).to(tile.dtype)
        tile = tl.where(here, tile + bias, 0.0)
    return tile


@triton.jit
def _keys_and_values(
    pointer, start, n_tokens, biases,
    HEADS: tl.constexpr, D: tl.constexpr, STEP: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    BIAS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return a tile of keys and one of values."""
    j = start + tl.arange(0, KEYS)
    k = _tile(pointer, j, n_tokens, STEP, biases, D, WIDTH, False, MASKED)
    return k, _tile(pointer + HEADS * D, j, n_tokens, STEP, biases + 2 * HEADS * D, D, WIDTH, BIAS, MASKED)


@triton.jit
def _meet(
    q, k, v, largest, sums, y, queries, columns_pointer, start, scale, threshold, n_tokens,
    KEYS: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return largest scores, sums of exponentials and results of queries after a tile of keys."""
    j = start + tl.arange(0, KEYS)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if MASKED:
        scores = tl.where(j[None, :] < n_tokens, scores, -float("inf"))
    before, largest = largest, tl.maximum(largest, tl.max(scores, axis=1) * scale)
    weights = tl.exp2(scores * scale - largest[:, None])
    shrunk = tl.exp2(before - largest)
    sums = sums * shrunk + tl.sum(weights, axis=1)
    if DROPOUT:
        columns = tl.load(columns_pointer + j).to(tl.uint32, bitcast=True)
        weights = keep_pairs(weights, queries[:, None], columns[None, :], threshold)
    return largest, sums, y * shrunk[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries", "n_blocks"])
def _tiled_forward(
    q_pointer, kv_pointer, bias_pointer, keys_pointer, columns_pointer, out_pointer, logs_pointer, numbers_pointer,
    n_rows, scale, threshold, factor, n_tokens, n_queries, n_blocks,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    head, block, place, member = _place(n_blocks, HEADS)
    row = member * n_rows + place
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    i = block * QUERIES + tl.arange(0, QUERIES)
    at = (row * HEADS + head) * _length(n_queries) + i
    q = _tile(q_pointer + row * n_queries * Q_STEP + head * D, i, n_queries, Q_STEP, biases, D, WIDTH, BIAS, True)
    keys = kv_pointer + row * n_tokens * KV_STEP + head * D
    queries = tl.zeros((QUERIES,), tl.uint32)
    last = (n_tokens - 1) // KEYS * KEYS
    if DROPOUT:
        columns_pointer += member * _length(n_tokens)
        key = tl.load(keys_pointer + member).to(tl.uint32)
        queries = pair_number((place * HEADS + head) * n_tokens + i, key)
        tl.store(numbers_pointer + at, queries.to(tl.int32, bitcast=True))
    largest = tl.full((QUERIES,), -float("inf"), tl.float32)
    sums = tl.zeros((QUERIES,), tl.float32)
    y = tl.zeros((QUERIES, WIDTH), tl.float32)
    for start in range(0, last, KEYS):
        k, v = _keys_and_values(keys, start, n_tokens, biases, HEADS, D, KV_STEP, KEYS, WIDTH, BIAS, False)
        largest, sums, y = _meet(
            q, k, v, largest, sums, y, queries, columns_pointer, start, scale, threshold, n_tokens,
            KEYS, DROPOUT, PRECISION, False,
        )  # fmt: skip
    k, v = _keys_and_values(keys, last, n_tokens, biases, HEADS, D, KV_STEP, KEYS, WIDTH, BIAS, True)
    largest, sums, y = _meet(
        q, k, v, largest, sums, y, queries, columns_pointer, last, scale, threshold, n_tokens,
        KEYS, DROPOUT, PRECISION, True,
    )  # fmt: skip
    d = tl.arange(0, WIDTH)[None, :]
    outputs = out_pointer + row * n_queries * (HEADS * D) + head * D + i[:, None] * (HEADS * D) + d
    tl.store(outputs, (y * (factor / sums)[:, None]).to(q.dtype), mask=(i[:, None] < n_queries) & (d < D))
    tl.store(logs_pointer + at, largest + tl.log2(sums))


@triton.jit
def _slope(
    q, grad, k, v, logs, dots, queries, columns_pointer, start, scale, threshold, n_tokens,
    KEYS: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return the product of the derivatives of a tile of scores with its keys, for `_queries_backward`."""
    j = start + tl.arange(0, KEYS)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    weights = tl.exp2(scores * scale - logs[:, None])
    if MASKED:
        weights = tl.where(j[None, :] < n_tokens, weights, 0.0)
    slopes = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
    if DROPOUT:
        columns = tl.load(columns_pointer + j).to(tl.uint32, bitcast=True)
        slopes = keep_pairs(slopes, queries[:, None], columns[None, :], threshold)
    slopes = weights * (slopes - dots[:, None])
    return tl.dot(slopes.to(k.dtype), k, input_precision=PRECISION)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries", "n_blocks"])
def _queries_backward(
    grad_pointer, q_pointer, kv_pointer, bias_pointer, columns_pointer, numbers_pointer, out_pointer, logs_pointer,
    dots_pointer, q_grad_pointer, n_rows, scale, root, threshold, factor, n_tokens, n_queries, n_blocks,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradient of the queries, and the products of results and gradients, which the keys need.

    With weights p, dropout's factors m, e = m * (grad v^T) and ds = p * (e - sum of p * e), it is dq = ds k / sqrt(D).
    The sum is that of grad * y over the columns. The factor 1 / (1 - p) of kept weights is applied at the end.
    """
    head, block, place, member = _place(n_blocks, HEADS)
    row = member * n_rows + place
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    i = block * QUERIES + tl.arange(0, QUERIES)
    at = row * n_queries * Q_STEP + head * D
    q = _tile(q_pointer + at, i, n_queries, Q_STEP, biases, D, WIDTH, BIAS, True)
    outputs = row * n_queries * (HEADS * D) + head * D
    grad = _tile(grad_pointer + outputs, i, n_queries, HEADS * D, biases, D, WIDTH, False, True)
    y = _tile(out_pointer + outputs, i, n_queries, HEADS * D, biases, D, WIDTH, False, True)
    dots = tl.sum(grad.to(tl.float32) * y.to(tl.float32), axis=1) / factor
    numbers = (row * HEADS + head) * _length(n_queries) + i
    logs = tl.load(logs_pointer + numbers)
    tl.store(dots_pointer + numbers, dots)
    keys = kv_pointer + row * n_tokens * KV_STEP + head * D
    queries = tl.zeros((QUERIES,), tl.uint32)
    last = (n_tokens - 1) // KEYS * KEYS
    if DROPOUT:
        columns_pointer += member * _length(n_tokens)
        queries = tl.load(numbers_pointer + numbers).to(tl.uint32, bitcast=True)
    q_grad = tl.zeros((QUERIES, WIDTH), tl.float32)
    for start in range(0, last, KEYS):
        k, v = _keys_and_values(keys, start, n_tokens, biases, HEADS, D, KV_STEP, KEYS, WIDTH, BIAS, False)
        q_grad += _slope(
            q, grad, k, v, logs, dots, queries, columns_pointer, start, scale, threshold, n_tokens,
            KEYS, DROPOUT, PRECISION, False,
        )  # fmt: skip
    k, v = _keys_and_values(keys, last, n_tokens, biases, HEADS, D, KV_STEP, KEYS, WIDTH, BIAS, True)
    q_grad += _slope(
        q, grad, k, v, logs, dots, queries, columns_pointer, last, scale, threshold, n_tokens,
        KEYS, DROPOUT, PRECISION, True,
    )  # fmt: skip
    d = tl.arange(0, WIDTH)[None, :]
    here = (i[:, None] < n_queries) & (d < D)
    tl.store(q_grad_pointer + at + i[:, None] * Q_STEP + d, (q_grad * (root * factor)).to(q.dtype), mask=here)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries", "n_blocks"])
def _keys_backward(
    grad_pointer, q_pointer, kv_pointer, bias_pointer, columns_pointer, numbers_pointer, logs_pointer, dots_pointer,
    kv_grad_pointer, n_rows, scale, root, threshold, factor, n_tokens, n_queries, n_blocks,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradients of keys and values, dk = ds^T q / sqrt(D) and dv = (m * p)^T grad; names as above.

    Tiles of weights are transposed: keys are their rows. Queries beyond the last have no gradient and add nothing.
    """
    head, block, place, member = _place(n_blocks, HEADS)
    row = member * n_rows + place
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    j = block * KEYS + tl.arange(0, KEYS)
    at = row * n_tokens * KV_STEP + head * D
    k = _tile(kv_pointer + at, j, n_tokens, KV_STEP, biases, D, WIDTH, False, True)
    v = _tile(kv_pointer + at + HEADS * D, j, n_tokens, KV_STEP, biases + 2 * HEADS * D, D, WIDTH, BIAS, True)
    queries, outputs = row * n_queries * Q_STEP + head * D, row * n_queries * (HEADS * D) + head * D
    columns = tl.zeros((KEYS,), tl.uint32)
    if DROPOUT:
        columns = tl.load(columns_pointer + member * _length(n_tokens) + j).to(tl.uint32, bitcast=True)
    k_grad = tl.zeros((KEYS, WIDTH), tl.float32)
    v_grad = tl.zeros((KEYS, WIDTH), tl.float32)
    first = (row * HEADS + head) * _length(n_queries)
    for start in range(0, n_queries, QUERIES):
        i = start + tl.arange(0, QUERIES)
        q = _tile(q_pointer + queries, i, n_queries, Q_STEP, biases, D, WIDTH, BIAS, True)
        grad = _tile(grad_pointer + outputs, i, n_queries, HEADS * D, biases, D, WIDTH, False, True)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
        weights = tl.exp2(scores * scale - tl.load(logs_pointer + first + i)[None, :])
        slopes = tl.dot(v, tl.trans(grad), input_precision=PRECISION)
        dropped = weights
        if DROPOUT:
            numbers = tl.load(numbers_pointer + first + i).to(tl.uint32, bitcast=True)
            dropped = keep_pairs(weights, columns[:, None], numbers[None, :], threshold)
            slopes = keep_pairs(slopes, columns[:, None], numbers[None, :], threshold)
        v_grad += tl.dot(dropped.to(grad.dtype), grad, input_precision=PRECISION)
        slopes = weights * (slopes - tl.load(dots_pointer + first + i)[None, :])
        k_grad += tl.dot(slopes.to(q.dtype), q, input_precision=PRECISION)
    d = tl.arange(0, WIDTH)[None, :]
    here = (j[:, None] < n_tokens) & (d < D)
    gradients = kv_grad_pointer + at + j[:, None] * KV_STEP + d
    tl.store(gradients, (k_grad * (root * factor)).to(k.dtype), mask=here)
    tl.store(gradients + HEADS * D, (v_grad * factor).to(k.dtype), mask=here)


def _launch(kernel: Any, q: Tensor, tensors: Sequence[Any], arguments: dict[str, Any], *, tile: Any, over: str) -> None:
    """Launch a kernel whose programs process one tile each, of "queries" or of "keys" as `over` says."""
    queries = min(tile[0], max(16, triton.next_power_of_2(arguments["n_queries"])))
    is_whole = queries == tile[0]
    in_registers = q.element_size() == 2 and arguments["D"] <= NARROW and is_whole
    n, block = (q.shape[2], queries) if over == "queries" else (arguments["n_tokens"], tile[1])
    n_blocks = triton.cdiv(n, block)
    launch(
        kernel, (arguments["HEADS"] * n_blocks * q.shape[1], q.shape[0]), *tensors,
        **arguments, n_blocks=n_blocks, QUERIES=queries, KEYS=tile[1], num_warps=WARPS if is_whole else 2,
        maxnreg=tile[2] if in_registers else None,
    )  # fmt: skip


def _table(n: int) -> int:
    """Return `_length` outside kernels."""
    return triton.cdiv(n, TABLE.value) * TABLE.value


def tiled_forward(
    q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, out: Tensor, arguments: dict[str, Any]
) -> tuple[Tensor, ...]:
    """Fill `out`, the results of shape (M, B, Q, H * D), and return it with what backward needs of queries and keys.

    Per query, of shape (M, B, H, Q), these are the logarithm of the sum in float32 and the number that decides on
    dropout in int32, per key the number, of shape (M, T); Q and T rounded up to the length of a table.
    """
    n_members, n_rows, n_queries, _ = q.shape
    shape = n_members, n_rows, arguments["HEADS"], _table(n_queries)
    logs = torch.empty(shape, dtype=torch.float32, device=q.device)
    columns = draws = logs
    if keys is not None:
        columns, draws = key_numbers(keys, _table(kv.shape[2])), torch.empty_like(logs, dtype=torch.int32)
    tensors = q, kv, bias, keys, columns, out, logs, draws
    _launch(_tiled_forward, q, tensors, arguments, tile=FORWARD, over="queries")
    return out, logs, draws, columns


def tiled_backward(
    inputs: tuple[Any, ...], results: Sequence[Tensor], outputs: tuple[Tensor, Tensor], arguments: dict[str, Any]
) -> None:
    """Write the gradients of q and kv; inputs are the gradient, q, kv and bias, results those of `tiled_forward`."""
    (q_grad, kv_grad), (out, logs, draws, columns), q = outputs, results, inputs[1]
    dots, shared = torch.empty_like(logs), (*inputs, columns, draws)
    tensors = *shared, out, logs, dots, q_grad
    _launch(_queries_backward, q, tensors, arguments, tile=OF_QUERIES, over="queries")
    _launch(_keys_backward, q, (*shared, logs, dots, kv_grad), arguments, tile=OF_KEYS, over="keys")
