"""Self-attention among the few tokens of a row, for a stack of members at once."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from knotwork._checks import argument_error, check_int
from knotwork._kernels.dispatch import Operation, Path
from knotwork._kernels.dropout import Noise, check_rate, keep_threshold, member_keys, pair_bits, pair_numbers

MOST_TOKENS, WIDEST_ROW = 64, 64
"""Largest number of tokens, and largest width of a head, for which one GPU program processes a complete row.

With more tokens, tiles of queries meet tiles of keys: on an H200 a row takes 1.5 times as long at 96 tokens, and half
as long at 32."""

WIDEST = 128
"""Largest width of a head that the GPU kernels support."""

MOST_WEIGHTS = 2**24
"""Attention weights that the plain path with noise holds in memory at once."""

MOST_ROWS = 2**15
"""Rows per call of torch's attention, which uses GPU grids of at most 65535."""


def weighted_values(
    q: Tensor, kv: Tensor, n_heads: int, *, p: float = 0.0, keys: Tensor | None = None, first_row: int = 0
) -> Tensor:
    """Return (m * softmax(q k^T / sqrt(D))) v of every row and head, with dropout's factors m.

    `first_row` is the index of the first row of q in the batch, where the random bits of these rows begin.
    """
    (queries,), (k, v) = _heads(q, n_heads, 1), _heads(kv, n_heads, 2)
    weights = (queries @ k.transpose(-1, -2) * k.shape[-1] ** -0.5).softmax(dim=-1)
    if p and keys is not None:
        per_row = n_heads * kv.shape[2]
        numbers, columns = pair_numbers(keys, kv.shape[1] * per_row, kv.shape[2], first_row * per_row)
        numbers = numbers.view(len(keys), -1, n_heads, kv.shape[2])[..., : q.shape[2]]
        kept = pair_bits(numbers, columns[:, None, None]).flatten(0, 1) >= keep_threshold(p)
        weights = torch.where(kept, weights * (1.0 / (1.0 - p)), 0.0)
    return _joined(weights @ v, q)


def _heads(x: Tensor, n_heads: int, n_parts: int) -> tuple[Tensor, ...]:
    """Return the parts of the last axis, each of shape (M * B, H, T, D)."""
    n_members, n_rows, n_tokens, width = x.shape
    split = x.reshape(n_members * n_rows, n_tokens, n_parts, n_heads, width // (n_parts * n_heads))
    return split.permute(2, 0, 3, 1, 4).unbind()


def _joined(y: Tensor, q: Tensor) -> Tensor:
    """Return results of shape (M * B, H, T, D) with the heads side by side, in the shape of q."""
    return y.transpose(1, 2).reshape(q.shape)


def attention_formula(
    qkv: Tensor, first: Tensor | None, bias: Tensor | None, *, n_heads: int, p: float, noise: Noise | None, stream: int
) -> Tensor:
    """Compute `attention` in plain torch; without noise by torch's own function, which stores no weights."""
    q, kv = divided(qkv, first)
    if bias is not None:
        shifts = bias.to(qkv.dtype)[:, None, None]
        q, kv = q + shifts[..., : q.shape[-1]], kv + shifts[..., q.shape[-1] :]
    if p == 0.0 or noise is None:
        return _attention_torch(q, kv, n_heads, p)
    return _attention_chunked(q, kv, n_heads, p=p, keys=member_keys(noise, stream))


def divided(qkv: Tensor, first: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return queries, of all tokens or the first, and keys with values."""
    if first is not None:
        return first, qkv
    width = qkv.shape[-1] // 3
    return qkv[..., :width], qkv[..., width:]


def _attention_torch(q: Tensor, kv: Tensor, n_heads: int, p: float) -> Tensor:
    """Use torch's attention, with its dropout."""
    heads = (*_heads(q, n_heads, 1), *_heads(kv, n_heads, 2))
    parts = zip(*(torch.split(tensor, MOST_ROWS) for tensor in heads), strict=True)
    results = [functional.scaled_dot_product_attention(queries, k, v, dropout_p=p) for queries, k, v in parts]
    return _joined(results[0] if len(results) == 1 else torch.cat(results), q)


def _attention_chunked(q: Tensor, kv: Tensor, n_heads: int, *, p: float, keys: Tensor) -> Tensor:
    """Compute the definition on a few rows at a time, and again for the gradient, so that no weights are stored."""
    n_members, n_rows, n_tokens = kv.shape[:3]
    size = max(1, MOST_WEIGHTS // max(1, n_members * n_heads * n_tokens**2))
    if size >= n_rows:
        return weighted_values(q, kv, n_heads, p=p, keys=keys)
    results = [
        checkpoint(
            partial(weighted_values, p=p, keys=keys, first_row=place * size), *part, n_heads,
            use_reentrant=False, preserve_rng_state=False,
        )
        for place, part in enumerate(zip(torch.split(q, size, dim=1), torch.split(kv, size, dim=1), strict=True))
    ]  # fmt: skip
    return torch.cat(results, dim=1)


_ATTENTION = Operation(attention_formula, triton="attention_triton.ATTENTION")


def attention(
    qkv: Tensor,
    n_heads: int,
    p: float = 0.0,
    noise: Noise | None = None,
    stream: int = 0,
    *,
    bias: Tensor | None = None,
    first: Tensor | None = None,
) -> Tensor:
    """Attend from every token of a row to every token of the same row, in several heads.

    Rows and members do not affect each other: exactly in the Triton kernels, elsewhere up to the rounding of torch's
    matrix products, whose order of summation can depend on the batch. A NaN affects only its row.

    Parameters
    ----------
    qkv : Tensor of shape (M, B, T, 3 * H * D)
        Queries, keys and values: the three thirds of the last axis, in each of which head h has columns h * D to
        (h + 1) * D. With `first`, only keys and values, of shape (M, B, T, 2 * H * D).
    n_heads : int
        Number of heads H.
    p, noise, stream
        Dropout of the attention weights, as in `dropout`.
    bias : Tensor of shape (M, 3 * H * D), optional
        Added to the queries, keys and values of a member.
    first : Tensor of shape (M, B, 1, H * D), optional
        Queries of the first token, if only its result is needed.

    Returns
    -------
    Tensor of shape (M, B, T, H * D), or (M, B, 1, H * D) with `first`
        Results of the heads side by side, in the type of qkv.

    Notes
    -----
    Per row and head, y = (m * softmax(q k^T / sqrt(D))) v, where m is 1 / (1 - p) if the bits of the pair
    ((b H + h) T + i, j), see `pair_numbers`, are at least 2**32 p, and 0 otherwise. On a GPU, for up to 64 tokens with
    heads of width up to 64, one Triton kernel forward and one backward keep only qkv and a key per member, with
    separate kernels for the first query. With more tokens and noise, kernels that go through tiles of queries and
    keys also keep the results and a number per query. The kernels omit the bias of the keys, which softmax cancels; its
    gradient is 0. Otherwise torch's ``scaled_dot_product_attention``, whose dropout would not be that of the member, or
    with noise the definition on a few rows at a time. On a GPU, products of float32 are exact unless
    ``torch.set_float32_matmul_precision`` allows TF32.

    Examples
    --------
    >>> import torch
    >>> qkv = torch.zeros(2, 5, 4, 3 * 8)
    >>> qkv[..., 16:] = 1.0
    >>> y = attention(qkv, n_heads=2)
    >>> y.shape, bool((y == 1).all())
    (torch.Size([2, 5, 4, 8]), True)
    """
    check_rate(p)
    parts = 3 if first is None else 2
    if qkv.ndim != 4 or qkv.shape[-1] % (parts * check_int(n_heads, "n_heads", 1)):
        raise argument_error("qkv", f"be of shape (M, B, T, {parts} * {n_heads} * D)", tuple(qkv.shape))
    width = qkv.shape[-1] // parts
    if first is not None and first.shape != (*qkv.shape[:2], 1, width):
        raise argument_error("first", f"be of shape {(*qkv.shape[:2], 1, width)}", tuple(first.shape))
    if bias is not None and bias.shape != (len(qkv), 3 * width):
        raise argument_error("bias", f"be of shape {(len(qkv), 3 * width)}", tuple(bias.shape))
    if p == 0.0:  # nothing is drawn, so that torch's own kernels serve for long rows
        supported = is_short(qkv.shape[2], width // n_heads)
    else:
        supported = noise is not None and width // n_heads <= WIDEST
    run: Any = _ATTENTION if supported else attention_formula
    return run(qkv, first, bias, n_heads=n_heads, p=p, noise=noise, stream=stream)  # type: ignore[no-any-return]


def is_short(n_tokens: int, width: int) -> bool:
    """Return whether one GPU program processes a complete row of this many tokens with heads of this width."""
    return n_tokens <= MOST_TOKENS and width <= WIDEST_ROW


def divided_product(x: Tensor, weight: Tensor, *, n_columns: int) -> tuple[Tensor, Tensor]:
    """Return the query of each row's first token, and keys with values of all tokens.

    These are the products of tokens x of shape (M, B, T, d_in) with weights of shape (M, d_in, d_out): of the first
    token with the first columns, (M, B, 1, n_columns), and of all with the others, (M, B, T, d_out - n_columns).
    """
    run = _divided_formula if torch.is_autocast_enabled(x.device.type) else _DIVIDED
    return run(x, weight, n_columns=n_columns)


def _divided_formula(x: Tensor, weight: Tensor, *, n_columns: int) -> tuple[Tensor, Tensor]:
    first = torch.bmm(x[:, :, 0], weight[..., :n_columns])
    others = torch.bmm(x.flatten(1, 2), weight[..., n_columns:])
    return first[:, :, None], others.view(*x.shape[:3], others.shape[-1])


def _divided_forward(x: Tensor, weight: Tensor, *, n_columns: int) -> Any:
    return _divided_formula(x, weight, n_columns=n_columns), (x, weight)


def _divided_backward(grads: Any, kept: Any, needed: Any, *, n_columns: int) -> Any:
    """Add the gradients of both products in place; torch would add tensors that are mostly zero."""
    del needed
    (x, weight), n = kept, n_columns
    shape = (*x.shape[:3], weight.shape[-1] - n)
    first_grad = x.new_zeros(*x.shape[:2], n) if grads[0] is None else grads[0][:, :, 0]
    grad = (x.new_zeros(shape) if grads[1] is None else grads[1]).flatten(1, 2)
    x_grad = torch.bmm(grad, weight[..., n:].transpose(1, 2)).view(x.shape)
    x_grad[:, :, 0].baddbmm_(first_grad, weight[..., :n].transpose(1, 2))
    weight_grad = torch.empty_like(weight)
    torch.bmm(x[:, :, 0].transpose(1, 2), first_grad, out=weight_grad[..., :n])
    torch.bmm(x.flatten(1, 2).transpose(1, 2), grad, out=weight_grad[..., n:])
    return x_grad, weight_grad


IN_PLACE = Path(_divided_forward, _divided_backward)
_DIVIDED = Operation(_divided_formula, triton="attention.IN_PLACE")  # on a CPU torch's own gradient is as fast
