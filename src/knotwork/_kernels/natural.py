"""Natural cubic splines from B-splines: the matrix between the two bases, as a function of the knots.

A natural spline is a cubic spline, so its functions are B-splines times a small matrix of each feature. The B-splines
have compiled loops and Triton kernels with closed-form gradients; the matrix depends on knots only, not on rows.
"""

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from knotwork._kernels.dispatch import is_transformed

__all__ = ["natural_matrix"]

N_DOUBLINGS = 6
"""Factors of the inverse: terms up to the power 63 are summed, and the rest is smaller than 2**-63."""

_FIXED: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""The last matrix of breaks that are not learned, with their version; it is released with the breaks."""


def natural_matrix(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return the matrix Z of each feature, with which ``B Z`` are the natural splines for a row B of cubic B-splines.

    That of breaks that are not differentiated is computed once. Parameters are those of `matrix_formula`.
    """
    if breaks.requires_grad or is_transformed() or torch.compiler.is_compiling() or _is_captured(breaks):
        return matrix_formula(breaks, n_knots)
    whole = breaks if breaks._base is None else breaks._base  # layers without members add an axis at each call
    version = whole._version, n_knots._version
    known = _FIXED.get(whole)
    if known is None or known[0] != version or known[1].shape[:2] != breaks.shape[:2]:
        known = _FIXED[whole] = version, matrix_formula(breaks.double(), n_knots).to(breaks.dtype)
    matrix: Tensor = known[1]
    return matrix


def _is_captured(tensor: Tensor) -> bool:
    """Return whether a CUDA graph is captured, whose memory nothing else may keep."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def matrix_formula(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return the B-spline coefficients of the natural spline of each knot.

    Parameters
    ----------
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature.

    Returns
    -------
    Tensor of shape (G, F, K + 4, K + 2)
        Differentiable with respect to the breaks. Rows and columns of the padding are not defined, but finite.

    Notes
    -----
    The coefficient of a B-spline whose inner knots are c - d, c and c + e, with d, e >= 0, is for a spline s

        s(c) + (e - d) / 3 s'(c) - d e / 6 s''(c).

    The second derivatives at the knots solve the system of `NaturalSpline`, whose matrix is D (I + L) with D diagonal
    and L of norm 1/2: ``(I + L)^-1 = (I - L) (I + L^2) (I + L^4) ...`` has no steps that wait for each other.
    """
    places = torch.arange(breaks.shape[-1], device=breaks.device)
    last = n_knots[..., None] + 1
    widths = torch.where(places[:-1] < last, torch.diff(breaks, dim=-1), 1.0)[..., None]
    values = torch.eye(breaks.shape[-1], dtype=breaks.dtype, device=breaks.device)
    rises = torch.diff(values, dim=0) / widths
    bends = _bends(widths, rises, n_knots)
    slopes_right = rises - widths * (2.0 * bends[..., :-1, :] + bends[..., 1:, :]) / 6.0
    slopes_left = rises + widths * (bends[..., :-1, :] + 2.0 * bends[..., 1:, :]) / 6.0
    at_end = (places == last)[..., None]
    pad = torch.nn.functional.pad
    slopes = torch.where(at_end, pad(slopes_left, (0, 0, 1, 0)), pad(slopes_right, (0, 0, 0, 1)))

    middle = torch.arange(-1, breaks.shape[-1] + 1, device=breaks.device)
    centre = _clamped(middle, last)
    at, before, after = (torch.gather(breaks, -1, _clamped(middle + step, last)) for step in (0, -1, 1))
    d, e = at - before, after - at
    spread = centre[..., None].expand(*centre.shape, breaks.shape[-1])
    s, s1, s2 = (torch.gather(table, -2, spread) for table in (values.expand_as(bends), slopes, bends))
    return s + ((e - d) / 3.0)[..., None] * s1 - (d * e / 6.0)[..., None] * s2


def _clamped(places: Tensor, last: Tensor) -> Tensor:
    return torch.minimum(places.clamp(min=0).expand(*last.shape[:-1], -1), last.to(places.dtype))


def _bends(widths: Tensor, rises: Tensor, n_knots: Tensor) -> Tensor:
    """Return the second derivatives at all breaks, of shape (G, F, K + 2, K + 2)."""
    n = widths.shape[-2] - 1
    inner = torch.arange(1, n + 1, device=widths.device)
    used = (inner <= n_knots[..., None])[..., None]
    left, right = widths[..., :-1, :], widths[..., 1:, :]
    below, above = (torch.diag(torch.ones(max(n - 1, 0), device=widths.device), k)[:n, :n] for k in (-1, 1))
    # Rows divided by the diagonal. A row without a neighbour below or above has none in these diagonals either.
    is_last = inner[:, None] == n_knots[..., None, None]
    upper = torch.where(is_last, 0.0, right) * above.to(widths.dtype)
    power = -torch.where(used, (left * below + upper) / (2.0 * (left + right)), 0.0)
    curves = torch.where(used, 3.0 * torch.diff(rises, dim=-2) / (left + right), 0.0)
    for doubling in range(N_DOUBLINGS):
        curves = curves + power @ curves
        if doubling + 1 < N_DOUBLINGS:
            power = power @ power
    return torch.nn.functional.pad(curves, (0, 0, 1, 1))
