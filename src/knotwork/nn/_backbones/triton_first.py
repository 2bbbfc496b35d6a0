"""Attention from the first token alone, in Triton: no matrix products, each key and value is read once.

A program takes rows of one member, all heads at once: values of a row are a tile of tokens, heads and columns. Backward
adds up the gradients of the biases per program, and a second kernel adds these up in a fixed order.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn._backbones.triton_attention import Settings, numbers
from knotwork.nn._backbones.triton_dropout import element_bits
from knotwork.nn._backbones.triton_parts import add_parts

__all__ = ["backward", "forward", "holds"]

MOST_KEYS = 2**14
"""Numbers in the keys of a row that a program holds."""

ROWS = 8
"""Rows of a program at least, backward."""

MOST_PARTS = 128
"""Programs of a member at most, backward."""


@triton.jit
def _places(
    n_tokens, HEADS: tl.constexpr, D: tl.constexpr, TOKENS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr
):
    """Return the tokens of a tile, its columns in a row of all heads, and which of them there are."""
    token = tl.arange(0, TOKENS)[:, None, None]
    head, d = tl.arange(0, TILE)[None, :, None], tl.arange(0, WIDTH)[None, None, :]
    own = (head < HEADS) & (d < D)
    return token, head * D + d, own, own & (token < n_tokens)


@triton.jit
def _load(pointer, bias_pointer, column, here, own, BIAS: tl.constexpr):
    """Return values in float32, with the bias of their columns."""
    values = tl.load(pointer, mask=here, other=0.0).to(tl.float32)
    if BIAS:
        values += tl.load(bias_pointer + column, mask=own, other=0.0).to(tl.float32)
    return values


@triton.jit
def _weights(q, k, scale, n_tokens, first, key, threshold, factor, DROPOUT: tl.constexpr):
    """Return softmax over the tokens, of shape (tokens, heads), and dropout's factors.

    The bias of the keys shifts all scores of a query alike, so neither softmax nor a gradient sees it.
    """
    scores = tl.sum(q * k, axis=2) * scale
    token, head = tl.arange(0, k.shape[0])[:, None], tl.arange(0, k.shape[1])[None, :]
    scores = tl.where(token < n_tokens, scores, -float("inf"))
    powers = tl.exp2(scores - tl.max(scores, axis=0)[None, :])
    weights = powers / tl.sum(powers, axis=0)[None, :]
    factors = tl.full(weights.shape, 1.0, tl.float32)
    if DROPOUT:
        place = first + (head * (n_tokens * n_tokens) + token).to(tl.uint32)
        factors = tl.where(element_bits(place, key) >= threshold.to(tl.uint32), factor, 0.0)
    return weights, factors


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens"])
def _first_forward(
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
    HEADS: tl.constexpr,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    WIDTH: tl.constexpr,
    BIAS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    member = row // n_rows
    token, column, own, here = _places(n_tokens, HEADS, D, TOKENS, TILE, WIDTH)
    biases = bias_pointer + member * (3 * HEADS * D)
    key, first = tl.full((), 0, tl.uint32), tl.full((), 0, tl.uint32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        first = (row % n_rows * (HEADS * n_tokens * n_tokens)).to(tl.uint32)
    at = kv_pointer + (row * n_tokens + token) * (2 * HEADS * D) + column
    q = _load(q_pointer + row * (HEADS * D) + column, biases, column, own, own, BIAS)
    k = _load(at, biases, column, here, own, False)
    v = _load(at + HEADS * D, biases + 2 * HEADS * D, column, here, own, BIAS)
    weights, factors = _weights(q, k, scale, n_tokens, first, key, threshold, factor, DROPOUT)
    y = tl.sum((weights * factors)[:, :, None] * v, axis=0)[None, :, :]
    tl.store(out_pointer + row * (HEADS * D) + column, y.to(out_pointer.dtype.element_ty), mask=own)


@triton.jit(do_not_specialize=["threshold", "n_rows", "n_tokens"])
def _first_backward(
    grad_pointer,
    q_pointer,
    kv_pointer,
    bias_pointer,
    keys_pointer,
    q_grad_pointer,
    kv_grad_pointer,
    parts_pointer,
    n_rows,
    scale,
    root,
    threshold,
    factor,
    n_tokens,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    WIDTH: tl.constexpr,
    BIAS: tl.constexpr,
    DROPOUT: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write the gradients of queries, keys and values, as in `_attention_backward`, and parts of those of biases."""
    member = tl.program_id(1).to(tl.int64)
    token, column, own, here = _places(n_tokens, HEADS, D, TOKENS, TILE, WIDTH)
    biases = bias_pointer + member * (3 * HEADS * D)
    key, first = tl.full((), 0, tl.uint32), tl.full((), 0, tl.uint32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
    q_sums = tl.zeros((1, TILE, WIDTH), tl.float32)
    v_sums = tl.zeros((1, TILE, WIDTH), tl.float32)
    for step in range(ROWS):
        place = tl.program_id(0) * ROWS + step
        known = place < n_rows
        row = member * n_rows + place
        if DROPOUT:
            first = (place * (HEADS * n_tokens * n_tokens)).to(tl.uint32)
        at = (row * n_tokens + token) * (2 * HEADS * D) + column
        q_at = row * (HEADS * D) + column
        q = _load(q_pointer + q_at, biases, column, own & known, own, BIAS)
        k = _load(kv_pointer + at, biases, column, here & known, own, False)
        v = _load(kv_pointer + at + HEADS * D, biases + 2 * HEADS * D, column, here & known, own, BIAS)
        grad = tl.load(grad_pointer + q_at, mask=own & known, other=0.0).to(tl.float32)
        weights, factors = _weights(q, k, scale, n_tokens, first, key, threshold, factor, DROPOUT)
        kept = weights * factors
        slopes = tl.sum(grad * v, axis=2) * factors
        slopes = weights * (slopes - tl.sum(weights * slopes, axis=0)[None, :]) * root
        q_grad = tl.sum(slopes[:, :, None] * k, axis=0)[None, :, :]
        v_grad = kept[:, :, None] * grad
        tl.store(q_grad_pointer + q_at, q_grad.to(q_grad_pointer.dtype.element_ty), mask=own & known)
        k_grad = (slopes[:, :, None] * q).to(kv_grad_pointer.dtype.element_ty)
        tl.store(kv_grad_pointer + at, k_grad, mask=here & known)
        tl.store(kv_grad_pointer + at + HEADS * D, v_grad.to(kv_grad_pointer.dtype.element_ty), mask=here & known)
        q_sums += q_grad
        v_sums += tl.sum(kept, axis=0)[None, :, None] * grad
    parts = parts_pointer + (member * tl.num_programs(0) + tl.program_id(0)) * (3 * HEADS * D) + column
    tl.store(parts, q_sums, mask=own)
    tl.store(parts + HEADS * D, tl.zeros((1, TILE, WIDTH), tl.float32), mask=own)
    tl.store(parts + 2 * HEADS * D, v_sums, mask=own)


def _tile(n_tokens: int, n_heads: int, width: int) -> tuple[int, int, int]:
    """Return the tile of a row's keys: tokens, heads and columns."""
    tokens, heads, columns = (triton.next_power_of_2(n) for n in (n_tokens, n_heads, width))
    return max(8, tokens), heads, columns


def holds(n_tokens: int, n_heads: int, width: int) -> bool:
    """Say whether a program holds so many tokens, with so many heads of this width."""
    return math.prod(_tile(n_tokens, n_heads, width)) <= MOST_KEYS


def _constants(q: Tensor, kv: Tensor, with_bias: bool, settings: Settings, per_warp: int) -> dict[str, int | bool]:
    """Return what a kernel is compiled for, with so many numbers of keys to a warp."""
    width = q.shape[3] // settings.n_heads
    tile = _tile(kv.shape[2], settings.n_heads, width)
    return {
        "n_tokens": kv.shape[2],
        "HEADS": settings.n_heads,
        "D": width,
        **dict(zip(("TOKENS", "TILE", "WIDTH"), tile, strict=True)),
        "BIAS": with_bias,
        "DROPOUT": settings.p > 0.0,
        "num_warps": max(1, min(16, math.prod(tile) // per_warp)),
    }


def forward(q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, *, settings: Settings) -> Tensor:
    """Return the results, of shape (M, B, 1, H * D), from contiguous tensors; parameters as in `triton_attention`."""
    out = torch.empty_like(q)
    _first_forward[(q.shape[0] * q.shape[1],)](
        q,
        kv,
        q if bias is None else bias.contiguous(),
        q if keys is None else keys,
        out,
        **numbers(q, settings),
        **_constants(q, kv, bias is not None, settings, 4096),
    )
    return out


def backward(
    grad: Tensor, q: Tensor, kv: Tensor, bias: Tensor | None, keys: Tensor | None, *, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, kv and the bias, the last in float32."""
    n_members, n_rows, _, width = q.shape
    q_grad, kv_grad = torch.empty_like(q), torch.empty_like(kv)
    rows = max(ROWS, triton.next_power_of_2(triton.cdiv(n_rows, MOST_PARTS)))
    n_parts = triton.cdiv(n_rows, rows)
    parts = torch.empty(n_members, n_parts, 1, 3 * width, dtype=torch.float32, device=q.device)
    _first_backward[(n_parts, n_members)](
        grad.contiguous(),
        q,
        kv,
        q if bias is None else bias.contiguous(),
        q if keys is None else keys,
        q_grad,
        kv_grad,
        parts,
        root=(width // settings.n_heads) ** -0.5,
        ROWS=rows,
        **numbers(q, settings),
        **_constants(q, kv, bias is not None, settings, 2048),
    )
    return q_grad, kv_grad, add_parts(parts)[0]
