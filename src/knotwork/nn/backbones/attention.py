"""Self-attention among the few tokens of a row, for a stack of members at once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from knotwork.checks import argument_error, check_int
from knotwork.nn.backbones.dropout import check_rate, keep_threshold, on_triton
from knotwork.nn.backbones.noise import Noise, keyed_bits, member_keys

__all__ = ["attention"]

MOST_TOKENS = 64
"""Tokens of a row up to which one program of a GPU takes a whole row."""

MOST_WIDTH = 64
"""Width of a head up to which its tiles fit into the registers of such a program."""

MOST_WEIGHTS = 2**24
"""Attention weights that the plain path with noise holds at once."""

MOST_ROWS = 2**15
"""Rows that torch's attention is handed at once: its grids on a GPU end at 65535."""


def attention(qkv: Tensor, n_heads: int, p: float = 0.0, noise: Noise | None = None, stream: int = 0) -> Tensor:
    """Attend from every token of a row to every token of the same row, in several heads.

    No result depends on other rows or members: in the Triton kernels bit for bit, elsewhere up to the rounding of
    torch's matrix products, whose order of sums can depend on the batch. With `noise`, what is dropped depends on the
    member's seed and step, on the stream and on the place of the weight. A NaN in a row spoils that row only.

    Parameters
    ----------
    qkv : Tensor of shape (M, B, T, 3 * H * D)
        Queries, keys and values: the three thirds of the last axis, in each of which head h has columns h * D to
        (h + 1) * D.
    n_heads : int
        Number of heads H.
    p : float, default=0.0
        Probability of dropping an attention weight, at least 0 and below 1.
    noise : Noise, optional
        Seeds and steps of the members. Without it, dropout uses torch's generator.
    stream : int, default=0
        Stream of the noise: a number that no other operation of the network uses.

    Returns
    -------
    Tensor of shape (M, B, T, H * D)
        Results of the heads side by side, in the type of qkv.

    Notes
    -----
    Per row and head, y = (m * softmax(q k^T / sqrt(D))) v, where m is 1 / (1 - p) where the bits of weight
    ((b H + h) T + i) T + j reach 2**32 p, and 0 elsewhere. The paths: on a GPU, up to 64 tokens and heads of width 64,
    one Triton kernel forward and one backward, which keep nothing but qkv and a key per member; elsewhere torch's
    ``scaled_dot_product_attention``, which cannot use given noise; with noise the definition, on a few rows at a time.
    On a GPU, products of float32 are exact unless ``torch.set_float32_matmul_precision`` allows TF32.

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
    if qkv.ndim != 4 or qkv.shape[-1] % (3 * check_int(n_heads, "n_heads", 1)):
        raise argument_error("qkv", f"be of shape (M, B, T, 3 * {n_heads} * D)", tuple(qkv.shape))
    if _is_short(qkv, n_heads) and (p == 0.0 or noise is not None):
        tf32 = torch.get_float32_matmul_precision() != "highest"
        settings = (_keys(noise, stream, p), n_heads, p, tf32)
        return _ShortAttention.apply(qkv, *settings)  # type: ignore[no-any-return, no-untyped-call]
    if p == 0.0 or noise is None:
        return _attention_torch(qkv, n_heads, p)
    return _attention_chunked(qkv, n_heads, p, member_keys(noise, stream))


def _is_short(qkv: Tensor, n_heads: int) -> bool:
    """Say whether the Triton kernels take these rows."""
    n_tokens, width = qkv.shape[2], qkv.shape[3] // (3 * n_heads)
    return on_triton(qkv) and n_tokens <= MOST_TOKENS and width <= MOST_WIDTH and qkv.numel() > 0


def _keys(noise: Noise | None, stream: int, p: float) -> Tensor | None:
    """Return the members' keys where dropout needs them, on a GPU."""
    from knotwork.nn.backbones import triton_keys  # noqa: PLC0415 - only where there is a GPU

    return triton_keys.member_keys(noise, stream) if p and noise is not None else None


def _heads(qkv: Tensor, n_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, each of shape (M * B, H, T, D)."""
    n_members, n_rows, n_tokens, width = qkv.shape
    split = qkv.reshape(n_members * n_rows, n_tokens, 3, n_heads, width // (3 * n_heads))
    q, k, v = split.permute(2, 0, 3, 1, 4)
    return q, k, v


def _joined(y: Tensor, qkv: Tensor) -> Tensor:
    """Return results of shape (M * B, H, T, D) with the heads side by side, of shape (M, B, T, H * D)."""
    return y.transpose(1, 2).reshape(*qkv.shape[:3], qkv.shape[3] // 3)


def _attention_plain(
    qkv: Tensor, n_heads: int, p: float = 0.0, keys: Tensor | None = None, first_row: int = 0
) -> Tensor:
    """Compute the definition; `first_row` is the place of the first row of qkv in the batch that the bits count."""
    q, k, v = _heads(qkv, n_heads)
    weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(dim=-1)
    if p and keys is not None:
        per_row = n_heads * qkv.shape[2] ** 2
        kept = keyed_bits(keys, qkv.shape[1] * per_row, first_row * per_row) >= keep_threshold(p)
        weights = torch.where(kept.view(weights.shape), weights * (1.0 / (1.0 - p)), 0.0)
    return _joined(weights @ v, qkv)


def _attention_torch(qkv: Tensor, n_heads: int, p: float) -> Tensor:
    """Leave it to torch, dropout included."""
    parts = zip(*(torch.split(tensor, MOST_ROWS) for tensor in _heads(qkv, n_heads)), strict=True)
    results = [functional.scaled_dot_product_attention(q, k, v, dropout_p=p) for q, k, v in parts]
    return _joined(results[0] if len(results) == 1 else torch.cat(results), qkv)


def _attention_chunked(qkv: Tensor, n_heads: int, p: float, keys: Tensor) -> Tensor:
    """Compute the definition on a few rows at a time, and once more for the gradient: weights are not kept."""
    n_members, n_rows, n_tokens = qkv.shape[:3]
    size = max(1, MOST_WEIGHTS // max(1, n_members * n_heads * n_tokens**2))
    if size >= n_rows:
        return _attention_plain(qkv, n_heads, p, keys)
    results = [
        checkpoint(
            _attention_plain, part, n_heads, p, keys, place * size, use_reentrant=False, preserve_rng_state=False
        )
        for place, part in enumerate(torch.split(qkv, size, dim=1))
    ]
    return torch.cat(results, dim=1)


class _ShortAttention(torch.autograd.Function):
    """Attention among few tokens on a GPU; the weights are computed again for the gradient."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, keys: Tensor | None, n_heads: int, p: float, tf32: bool) -> Tensor:
        from knotwork.nn.backbones import triton_attention  # noqa: PLC0415 - only where there is a GPU

        ctx.save_for_backward(qkv, keys)
        ctx.settings = {"n_heads": n_heads, "p": p, "tf32": tf32}
        return triton_attention.forward(qkv, keys, **ctx.settings)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from knotwork.nn.backbones import triton_attention  # noqa: PLC0415

        qkv, keys = ctx.saved_tensors
        return triton_attention.backward(grad, qkv, keys, **ctx.settings), None, None, None, None
