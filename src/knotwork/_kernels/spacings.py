"""Ordered knots from free numbers: widths by softmax, knots by cumulative sums.

For K interior knots in (0, 1) there are K + 1 free numbers a. With the smallest spacing delta,

    w = delta + (1 - (K + 1) delta) softmax(a),        k_l = w_1 + ... + w_l,        l = 1, ..., K,

so that whatever a is, the knots increase by at least delta. Features of one layer may have different numbers of
knots: `n_knots` says how many each has, and what lies beyond in the padded arrays is left out of every sum.
"""

import torch
from torch import Tensor

__all__ = ["breaks_from_widths", "logits_from_knots", "spacing_penalty", "widths_from_logits"]


def widths_from_logits(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the widths of the intervals between knots.

    Parameters
    ----------
    logits : Tensor of shape (..., F, K + 1)
        The free numbers a.
    n_knots : Tensor of shape (F,) or (..., F)
        Number of interior knots of each feature.
    min_spacing : float
        The smallest width, delta.

    Returns
    -------
    Tensor of shape (..., F, K + 1)
        Widths that add up to one, and zeros beyond each feature's last.
    """
    used = _used(logits.shape[-1], n_knots)
    shares = torch.softmax(logits.masked_fill(~used, -torch.inf), dim=-1)
    room = 1.0 - (n_knots[..., None] + 1).to(logits.dtype) * min_spacing
    return (min_spacing + room * shares) * used


def breaks_from_widths(widths: Tensor, n_knots: Tensor) -> Tensor:
    """Return ``[0, k_1, ..., k_K, 1]``, of shape (..., F, K + 2), with ones from each feature's end on."""
    ends = torch.cumsum(widths, dim=-1).clamp(max=1.0)
    interior = torch.arange(widths.shape[-1], device=widths.device) < n_knots[..., None]
    return torch.cat([torch.zeros_like(ends[..., :1]), torch.where(interior, ends, 1.0)], dim=-1)


def logits_from_knots(breaks: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Invert the map: free numbers whose knots are the given ones, moved apart where they are nearer than allowed.

    Parameters
    ----------
    breaks : Tensor of shape (..., F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones.
    n_knots : Tensor of shape (F,) or (..., F)
        Number of interior knots of each feature.
    min_spacing : float
        The smallest width, delta.

    Returns
    -------
    Tensor of shape (..., F, K + 1)
        ``log(max(share, 1e-12))`` with ``share = (w - delta) / (1 - (K + 1) delta)``; zeros beyond each feature's last.
    """
    used = _used(breaks.shape[-1] - 1, n_knots)
    room = 1.0 - (n_knots[..., None] + 1).to(breaks.dtype) * min_spacing
    shares = (torch.diff(breaks, dim=-1) - min_spacing) / room
    return torch.where(used, shares.clamp(min=1e-12).log(), 0.0)


def spacing_penalty(widths: Tensor, n_knots: Tensor, epsilon: float) -> Tensor:
    """Return the mean over features and widths of ``1 / (w + epsilon)``, of shape (...)."""
    used = _used(widths.shape[-1], n_knots)
    barrier = torch.where(used, 1.0 / (widths + epsilon), 0.0)
    return (barrier.sum(dim=-1) / (n_knots + 1)).mean(dim=-1)


def _used(n_widths: int, n_knots: Tensor) -> Tensor:
    """Return which of the padded widths each feature has, of shape (F, n_widths)."""
    return torch.arange(n_widths, device=n_knots.device) <= n_knots[..., None]
