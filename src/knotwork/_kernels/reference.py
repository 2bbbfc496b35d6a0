"""The encoding in plain torch: what runs where there is no faster path, differentiable by autograd."""

import torch
from torch import Tensor

from knotwork._kernels.layout import NORM_EPSILON, NORMALISED, TAILS, UNIT_AREA

__all__ = ["encode_plain"]


def encode_plain(x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int) -> Tensor:
    """Encode values between 0 and 1.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values; those outside [0, 1] are moved to the nearer end, NaN gives a row of zeros.
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature of each group.
    kind, degree : int
        As in `Layout`: kind of the rows, degree of the triangular scheme.
    size : int
        Length of a row.

    Returns
    -------
    Tensor of shape (G, B, F, size)
        The functions of `knotwork.basis`, zeros beyond each feature's last.
    """
    missing = torch.isnan(x)
    n_knots = n_knots[:, None]
    x = torch.where(missing, 0.0, x).clamp(0.0, 1.0)
    knots = breaks[:, None, :, 1:-1]
    interval = torch.minimum((knots <= x[..., None]).sum(dim=-1), n_knots)
    window = interval[..., None] + torch.arange(-degree, degree + 2, device=x.device)
    window = torch.minimum(window.clamp(min=0), (n_knots + 1)[..., None])
    t = torch.gather(breaks[:, None].expand(*x.shape, breaks.shape[-1]), -1, window).unbind(dim=-1)

    values = [torch.ones_like(x)]
    for q in range(1, degree + 1):
        from_left, raised = torch.zeros_like(x), []
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            share = values[r] / (right - left)
            raised.append(from_left + (right - x) * share)
            from_left = (x - left) * share
        values = [*raised, from_left]
    if kind in (UNIT_AREA, NORMALISED):
        values = [value * (degree + 1) / (t[degree + r + 1] - t[r]) for r, value in enumerate(values)]
    if kind == TAILS:
        values = list(torch.stack(values[1:], dim=-1).flip(-1).cumsum(-1).flip(-1).unbind(-1))

    columns = torch.arange(size, device=x.device)
    rows = (columns < interval[..., None]).to(x.dtype) if kind == TAILS else x.new_zeros(*x.shape, size)
    places = interval[..., None] + torch.arange(len(values), device=x.device)
    rows = rows.scatter(-1, places, torch.stack(values, dim=-1))
    if kind == NORMALISED:
        sizes = (n_knots + degree + 1)[..., None]
        centred = (rows - rows.sum(dim=-1, keepdim=True) / sizes) * (columns < sizes)
        rows = centred * torch.rsqrt((centred**2).sum(dim=-1, keepdim=True) / sizes + NORM_EPSILON)
    return torch.where(missing[..., None], 0.0, rows)
