"""Attention among few tokens in Triton: a program processes one head of some rows of one member, row by row.

Keys and values of a row are read once; the weights stay in registers, and backward computes them again. Heads of a row
are adjacent in memory and share cache lines; programs of neighbouring heads run at the same time, so that shared lines
are read and written once. The bias of the keys shifts all scores of a query alike, so softmax cancels it: it is
omitted.

If only the first token's result is needed, other kernels process rows of one member with all heads at once, without
matrix products, and read each key and value once. Gradients of the biases are summed per program, and a second kernel
adds these sums in a fixed order.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.attention import divided, is_short
from knotwork._kernels.attention_tiled_triton import tiled_backward, tiled_forward
from knotwork._kernels.dispatch import Path
from knotwork._kernels.dropout import Noise, keep_threshold
from knotwork._kernels.dropout_triton import keep_pairs, member_keys, pair_number
from knotwork._kernels.launching import contiguous, launch
from knotwork._kernels.transformer_triton import add_parts

ROWS = 4
"""Rows of a program with small tiles."""

STAGES = 2
"""Rows that are loaded ahead, for small tiles of 16-bit numbers."""

MOST_KEYS = 2**14
"""Largest number of values in the keys of a row for the kernels of the first query."""

FIRST_ROWS, FIRST_PARTS = 8, 128
"""Backward for the first query: fewest rows of a program, and most programs of a member."""


@triton.jit
def _bias(pointer, D: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr):
    """Return a head's bias of queries or values, repeated for every token in the layout of the tiles."""
    bias = tl.zeros((TOKENS, WIDTH), pointer.dtype.element_ty)
    if BIAS:
        d = tl.arange(0, WIDTH)[None, :] + tl.zeros((TOKENS, 1), tl.int32)
        bias = tl.load(pointer + d, mask=d < D, other=0.0)
    return bias


@triton.jit
def _tile(pointer, here, bias, BIAS: tl.constexpr):
    """Return a tile of queries or values, with the bias of its columns."""
    tile = tl.load(pointer, mask=here, other=0.0)
    if BIAS:
        tile = tile + bias
    return tile


@triton.jit
def _softmax(q, k, scale, n_tokens, PRECISION: tl.constexpr):
    """Return the exponentials of softmax over the first columns, not yet divided by their sums, and the sums."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    scores = tl.where(tl.arange(0, k.shape[0])[None, :] < n_tokens, scores, -float("inf"))
    powers = tl.exp2(scores * scale - (tl.max(scores, axis=1) * scale)[:, None])
    return powers, tl.sum(powers, axis=1)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries"])
def _attention_forward(
    q_pointer, kv_pointer, bias_pointer, keys_pointer, out_pointer,
    n_rows, scale, threshold, factor, n_tokens, n_queries,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr, TOKENS: tl.constexpr,
    QUERIES: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    head, first_row, member = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS * ROWS, tl.program_id(1).to(tl.int64)
    j = tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    known = (j < n_tokens) & (d < D)
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    q_bias = _bias(biases, D, QUERIES, WIDTH, BIAS)
    v_bias = _bias(biases + 2 * HEADS * D, D, TOKENS, WIDTH, BIAS)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        columns = pair_number(-1 - tl.arange(0, TOKENS), key)[None, :]
    for step in tl.range(ROWS, num_stages=STAGES):
        place = first_row + step
        row = member * n_rows + place
        within = known & (place < n_rows)
        keys_here = kv_pointer + row * (n_tokens * KV_STEP) + head * D + j * KV_STEP + d
        k = tl.load(keys_here, mask=within, other=0.0)
        v = _tile(keys_here + HEADS * D, within, v_bias, BIAS)
        i = tl.arange(0, QUERIES)[:, None]
        here = (i < n_queries) & (d < D) & (place < n_rows)
        q = _tile(q_pointer + row * (n_queries * Q_STEP) + head * D + i * Q_STEP + d, here, q_bias, BIAS)
        weights, sums = _softmax(q, k, scale, n_tokens, PRECISION)
        if DROPOUT:
            queries = pair_number((place * HEADS + head) * n_tokens + i, key)
            weights = keep_pairs(weights, queries, columns, threshold)
        y = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION) * (factor / sums)[:, None]
        outputs = out_pointer + row * (n_queries * HEADS * D) + head * D + i * (HEADS * D) + d
        tl.store(outputs, y.to(v.dtype), mask=here)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens", "n_queries"])
def _attention_backward(
    grad_pointer, q_pointer, kv_pointer, bias_pointer, keys_pointer, q_grad_pointer, kv_grad_pointer,
    n_rows, scale, root, threshold, factor, n_tokens, n_queries,
    HEADS: tl.constexpr, D: tl.constexpr, Q_STEP: tl.constexpr, KV_STEP: tl.constexpr, TOKENS: tl.constexpr,
    QUERIES: tl.constexpr, WIDTH: tl.constexpr, BIAS: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Write the gradients of queries, keys and values.

    With weights p, dropout's factors m, e = m * (grad v^T) and ds = p * (e - sum of p * e), they are
    dv = (m * p)^T grad, dq = ds k / sqrt(D) and dk = ds^T q / sqrt(D).
    """
    head, first_row, member = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS * ROWS, tl.program_id(1).to(tl.int64)
    j = tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    known = (j < n_tokens) & (d < D)
    biases = bias_pointer + member * (3 * HEADS * D) + head * D
    q_bias = _bias(biases, D, QUERIES, WIDTH, BIAS)
    v_bias = _bias(biases + 2 * HEADS * D, D, TOKENS, WIDTH, BIAS)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        columns = pair_number(-1 - tl.arange(0, TOKENS), key)[None, :]
    for step in tl.range(ROWS, num_stages=STAGES):
        place = first_row + step
        row = member * n_rows + place
        within = known & (place < n_rows)
        at = row * (n_tokens * KV_STEP) + head * D + j * KV_STEP + d
        k = tl.load(kv_pointer + at, mask=within, other=0.0)
        v = _tile(kv_pointer + at + HEADS * D, within, v_bias, BIAS)
        i = tl.arange(0, QUERIES)[:, None]
        here = (i < n_queries) & (d < D) & (place < n_rows)
        q_at = row * (n_queries * Q_STEP) + head * D + i * Q_STEP + d
        q = _tile(q_pointer + q_at, here, q_bias, BIAS)
        grads = grad_pointer + row * (n_queries * HEADS * D) + head * D + i * (HEADS * D) + d
        grad = tl.load(grads, mask=here, other=0.0)
        weights, sums = _softmax(q, k, scale, n_tokens, PRECISION)
        weights = weights * (1.0 / sums)[:, None]
        slopes = tl.dot(grad, tl.trans(v), input_precision=PRECISION) * (factor * root)
        kept = weights * factor
        if DROPOUT:
            queries = pair_number((place * HEADS + head) * n_tokens + i, key)
            kept = keep_pairs(kept, queries, columns, threshold)
            slopes = keep_pairs(slopes, queries, columns, threshold)
        v_grad = tl.dot(tl.trans(kept.to(v.dtype)), grad, input_precision=PRECISION)
        slopes = (weights * (slopes - tl.sum(weights * slopes, axis=1)[:, None])).to(v.dtype)
        q_grad = tl.dot(slopes, k, input_precision=PRECISION)
        tl.store(q_grad_pointer + q_at, q_grad.to(v.dtype), mask=here)
        k_grad = tl.dot(tl.trans(slopes), q, input_precision=PRECISION)
        tl.store(kv_grad_pointer + at + HEADS * D, v_grad.to(v.dtype), mask=within)
        tl.store(kv_grad_pointer + at, k_grad.to(v.dtype), mask=within)


def _arguments(q: Tensor, kv: Tensor, bias: Tensor | None, n_heads: int, p: float) -> dict[str, Any]:
    """Return the numbers and constants that all kernels take, those for tiles of queries too."""
    width = q.shape[3] // n_heads
    return {
        "n_rows": q.shape[1],
        "n_tokens": kv.shape[2],
        "scale": width**-0.5 * math.log2(math.e),
        "threshold": keep_threshold(p),
        "factor": 1.0 / (1.0 - p),
        "HEADS": n_heads,
        "D": width,
        "BIAS": bias is not None,
        "DROPOUT": p > 0.0,
    }


def _of_queries(q: Tensor, kv: Tensor, width: int) -> dict[str, Any]:
    """Return further arguments of all kernels except those of the first query."""
    return {
        "n_queries": q.shape[2],
        "Q_STEP": q.stride(2),
        "KV_STEP": kv.stride(2),
        "WIDTH": max(16, triton.next_power_of_2(width)),
        "PRECISION": "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32",
    }


def _row_tile(q: Tensor, n_tokens: int) -> dict[str, int]:
    """Return the tiles of the kernels for complete rows.

    Each warp processes 16 queries, or 8 if tiles of float32 would overflow its registers. Tiles of 16-bit numbers are
    loaded some rows ahead; float32 leaves no registers for that.
    """
    tokens, single = max(16, triton.next_power_of_2(n_tokens)), q.dtype == torch.float32
    return {
        "TOKENS": tokens,
        "QUERIES": max(16, triton.next_power_of_2(q.shape[2])),
        "ROWS": min(ROWS, triton.next_power_of_2(q.shape[1])),
        "STAGES": 1 if single else STAGES,
        "num_warps": tokens // 8 if single and tokens > 32 else tokens // 16,
    }


def _grid(q: Tensor, n_heads: int, rows: int) -> tuple[int, int]:
    """Return the number of heads times blocks of rows, and of members; neighbouring programs differ in the head.

    Only the first number may exceed 65535 on a GPU.
    """
    return n_heads * triton.cdiv(q.shape[1], rows), q.shape[0]


@triton.jit
def _places(
    n_tokens, HEADS: tl.constexpr, D: tl.constexpr, TOKENS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr
):
    """Return the tokens of a tile, its columns in a row of all heads, and masks of valid columns and valid entries."""
    token = tl.arange(0, TOKENS)[:, None, None]
    head, d = tl.arange(0, TILE)[None, :, None], tl.arange(0, WIDTH)[None, None, :]
    valid = (head < HEADS) & (d < D)
    return token, head * D + d, valid, valid & (token < n_tokens)


@triton.jit
def _load(pointer, bias_pointer, column, here, valid, BIAS: tl.constexpr):
    """Return values in float32, with the bias of their columns."""
    values = tl.load(pointer, mask=here, other=0.0).to(tl.float32)
    if BIAS:
        values += tl.load(bias_pointer + column, mask=valid, other=0.0).to(tl.float32)
    return values


@triton.jit
def _weights(q, k, scale, n_tokens, first, key, threshold, factor, DROPOUT: tl.constexpr):
    """Return softmax over the tokens, of shape (tokens, heads), and dropout's factors."""
    scores = tl.sum(q * k, axis=2) * scale
    token, head = tl.arange(0, k.shape[0])[:, None], tl.arange(0, k.shape[1])[None, :]
    scores = tl.where(token < n_tokens, scores, -float("inf"))
    powers = tl.exp2(scores - tl.max(scores, axis=0)[None, :])
    weights = powers / tl.sum(powers, axis=0)[None, :]
    factors = tl.full(weights.shape, 1.0, tl.float32)
    if DROPOUT:
        queries = pair_number(first + head * n_tokens, key)
        factors = keep_pairs(factors * factor, queries, pair_number(-1 - token, key), threshold)
    return weights, factors


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens"])
def _first_forward(
    q_pointer, kv_pointer, bias_pointer, keys_pointer, out_pointer,
    n_rows, scale, threshold, factor, n_tokens,
    HEADS: tl.constexpr, D: tl.constexpr, TOKENS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
    BIAS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    member = row // n_rows
    token, column, valid, here = _places(n_tokens, HEADS, D, TOKENS, TILE, WIDTH)
    biases = bias_pointer + member * (3 * HEADS * D)
    key, first = tl.full((), 0, tl.uint32), (row % n_rows).to(tl.int32) * (HEADS * n_tokens)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
    at = kv_pointer + (row * n_tokens + token) * (2 * HEADS * D) + column
    q = _load(q_pointer + row * (HEADS * D) + column, biases, column, valid, valid, BIAS)
    k = _load(at, biases, column, here, valid, False)
    v = _load(at + HEADS * D, biases + 2 * HEADS * D, column, here, valid, BIAS)
    weights, factors = _weights(q, k, scale, n_tokens, first, key, threshold, factor, DROPOUT)
    y = tl.sum((weights * factors)[:, :, None] * v, axis=0)[None, :, :]
    tl.store(out_pointer + row * (HEADS * D) + column, y.to(out_pointer.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens"])
def _first_backward(
    grad_pointer, q_pointer, kv_pointer, bias_pointer, keys_pointer, q_grad_pointer, kv_grad_pointer, parts_pointer,
    n_rows, scale, root, threshold, factor, n_tokens,
    HEADS: tl.constexpr, D: tl.constexpr, TOKENS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
    BIAS: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write the gradients of queries, keys and values, as in `_attention_backward`, and partial sums for the biases."""
    member = tl.program_id(1).to(tl.int64)
    token, column, valid, here = _places(n_tokens, HEADS, D, TOKENS, TILE, WIDTH)
    biases = bias_pointer + member * (3 * HEADS * D)
    key = tl.full((), 0, tl.uint32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
    q_sums = tl.zeros((1, TILE, WIDTH), tl.float32)
    v_sums = tl.zeros((1, TILE, WIDTH), tl.float32)
    for step in range(ROWS):
        place = tl.program_id(0) * ROWS + step
        known = place < n_rows
        row = member * n_rows + place
        first = place * (HEADS * n_tokens)
        at = (row * n_tokens + token) * (2 * HEADS * D) + column
        q_at = row * (HEADS * D) + column
        q = _load(q_pointer + q_at, biases, column, valid & known, valid, BIAS)
        k = _load(kv_pointer + at, biases, column, here & known, valid, False)
        v = _load(kv_pointer + at + HEADS * D, biases + 2 * HEADS * D, column, here & known, valid, BIAS)
        grad = tl.load(grad_pointer + q_at, mask=valid & known, other=0.0).to(tl.float32)
        weights, factors = _weights(q, k, scale, n_tokens, first, key, threshold, factor, DROPOUT)
        kept = weights * factors
        slopes = tl.sum(grad * v, axis=2) * factors
        slopes = weights * (slopes - tl.sum(weights * slopes, axis=0)[None, :]) * root
        q_grad = tl.sum(slopes[:, :, None] * k, axis=0)[None, :, :]
        v_grad = kept[:, :, None] * grad
        tl.store(q_grad_pointer + q_at, q_grad.to(q_grad_pointer.dtype.element_ty), mask=valid & known)
        k_grad = (slopes[:, :, None] * q).to(kv_grad_pointer.dtype.element_ty)
        tl.store(kv_grad_pointer + at, k_grad, mask=here & known)
        tl.store(kv_grad_pointer + at + HEADS * D, v_grad.to(kv_grad_pointer.dtype.element_ty), mask=here & known)
        q_sums += q_grad
        v_sums += tl.sum(kept, axis=0)[None, :, None] * grad
    parts = parts_pointer + (member * tl.num_programs(0) + tl.program_id(0)) * (3 * HEADS * D) + column
    tl.store(parts, q_sums, mask=valid)
    tl.store(parts + HEADS * D, tl.zeros((1, TILE, WIDTH), tl.float32), mask=valid)
    tl.store(parts + 2 * HEADS * D, v_sums, mask=valid)


def _first_tile(n_tokens: int, n_heads: int, width: int) -> tuple[int, int, int]:
    """Return the tile of a row's keys: tokens, heads and columns."""
    tokens, heads, columns = (triton.next_power_of_2(n) for n in (n_tokens, n_heads, width))
    return max(8, tokens), heads, columns


def holds(n_tokens: int, n_heads: int, width: int) -> bool:
    """Return whether the kernels for the first query support this many tokens and heads of this width."""
    return math.prod(_first_tile(n_tokens, n_heads, width)) <= MOST_KEYS


def _first_constants(arguments: dict[str, Any], per_warp: int) -> dict[str, int]:
    """Return the tile of a row's keys, with `per_warp` values in each warp."""
    tile = _first_tile(arguments["n_tokens"], arguments["HEADS"], arguments["D"])
    n_warps = max(1, min(16, math.prod(tile) // per_warp))
    return {**dict(zip(("TOKENS", "TILE", "WIDTH"), tile, strict=True)), "num_warps": n_warps}


def _way(q: Tensor, kv: Tensor, first: Tensor | None, n_heads: int) -> str:
    """Return which kernels apply: those for the "first" query, for a "row" in one program, or for "tiles" of it."""
    n_tokens, width = kv.shape[2], q.shape[3] // n_heads
    if first is not None and holds(n_tokens, n_heads, width):
        return "first"
    return "row" if is_short(n_tokens, width) else "tiles"


def _forward(
    qkv: Tensor, first: Tensor | None, bias: Tensor | None, *, n_heads: int, p: float, noise: Noise | None, stream: int
) -> Any:
    qkv, first, bias = contiguous(qkv, first, bias)
    keys = member_keys(noise, stream) if p > 0.0 and noise is not None else None
    q, kv = divided(qkv, first)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    arguments, way = _arguments(q, kv, bias, n_heads, p), _way(q, kv, first, n_heads)
    results: tuple[Tensor, ...] = ()
    if way == "first":
        tile = _first_constants(arguments, 4096)
        launch(_first_forward, (q.shape[0] * q.shape[1],), q, kv, bias, keys, out, **arguments, **tile)
    elif way == "tiles":
        results = tiled_forward(q, kv, bias, keys, out, arguments | _of_queries(q, kv, arguments["D"]))
    else:
        arguments |= _of_queries(q, kv, arguments["D"]) | _row_tile(q, kv.shape[2])
        grid, shifts = _grid(q, n_heads, arguments["ROWS"]), None if bias is None else bias.to(q.dtype)
        launch(_attention_forward, grid, q, kv, shifts, keys, out, **arguments)
    return (out,), (qkv, first, bias, keys, *results)


def _backward(grads: Any, kept: Any, needed: Any, *, n_heads: int, p: float, **_: Any) -> Any:
    del needed
    grad, (qkv, first, bias, keys, *results) = grads[0].contiguous(), kept
    out, first_out = torch.empty_like(qkv), None if first is None else torch.empty_like(first)
    (q, kv), (q_grad, kv_grad) = divided(qkv, first), divided(out, first_out)
    arguments, way = _arguments(q, kv, bias, n_heads, p), _way(q, kv, first, n_heads)
    arguments["root"] = arguments["D"] ** -0.5
    if way == "first":
        sums = _first_slopes(grad, (q, kv, bias, keys), (q_grad, kv_grad), arguments)
        return out, first_out, None if bias is None else sums.to(bias.dtype)
    arguments |= _of_queries(q, kv, arguments["D"])
    if way == "tiles":
        tiled_backward((grad, q, kv, bias), results, (q_grad, kv_grad), arguments)
    else:
        arguments |= _row_tile(q, kv.shape[2])
        grid, shifts = _grid(q, n_heads, arguments["ROWS"]), None if bias is None else bias.to(q.dtype)
        launch(_attention_backward, grid, grad, q, kv, shifts, keys, q_grad, kv_grad, **arguments)
    bias_grad = None
    if bias is not None:
        q_sum, v_sum = q_grad.sum((1, 2)), kv_grad[..., q_grad.shape[-1] :].sum((1, 2))
        bias_grad = torch.cat([q_sum, torch.zeros_like(q_sum), v_sum], dim=1).to(bias.dtype)
    return out, first_out, bias_grad


def _first_slopes(grad: Tensor, inputs: Any, outputs: tuple[Tensor, Tensor], arguments: dict[str, Any]) -> Tensor:
    """Write the gradients of q and kv, and return that of the bias in float32."""
    n_members, n_rows, _, width = grad.shape
    rows = max(FIRST_ROWS, triton.next_power_of_2(triton.cdiv(n_rows, FIRST_PARTS)))
    n_parts = triton.cdiv(n_rows, rows)
    parts = torch.empty(n_members, n_parts, 1, 3 * width, dtype=torch.float32, device=grad.device)
    tile = _first_constants(arguments, 2048)
    launch(_first_backward, (n_parts, n_members), grad, *inputs, *outputs, parts, ROWS=rows, **arguments, **tile)
    return add_parts(parts)[0]


ATTENTION = Path(_forward, _backward)
