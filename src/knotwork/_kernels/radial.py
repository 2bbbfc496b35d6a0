"""Radial functions at values between 0 and 1, in plain torch: Gaussian bumps of learned widths, thin-plate splines."""

import torch
from torch import Tensor

from knotwork._kernels.encoding import RADIAL, Knots, Part

__all__ = ["bump_widths", "radial_rows"]


def bump_widths(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return the widths of `knotwork.basis.RadialBasis` for breaks of shape (G, F, K + 2), padded with ones."""
    places = torch.arange(breaks.shape[-1], device=breaks.device)
    last = n_knots[..., None] + 1
    before, after = (places - 1).clamp(min=0).expand_as(breaks), torch.minimum(places + 1, last)
    steps = (after - before).clamp(min=1)
    widths = (torch.gather(breaks, -1, after) - torch.gather(breaks, -1, before)) / steps
    return torch.where(places <= last, widths, 1.0)


def radial_rows(part: Part, x: Tensor, breaks: Tensor, knots: Knots, size: int) -> Tensor:
    """Return the rows of a part of radial functions, padded with zeros; x, knots and size are those of `encode`.

    `breaks` are those of all groups. The result is differentiable with respect to x, breaks and the widths.
    """
    values, part_breaks, n_knots = part.of(x, axis=2), part.of(breaks), part.of(knots.n_knots)
    missing = torch.isnan(values)[..., None]
    inside = torch.where(missing, 0.0, values.to(breaks.dtype)[..., None]).clamp(0.0, 1.0)
    n_columns = min(part_breaks.shape[-1], size)
    used = torch.arange(n_columns, device=x.device) < (n_knots + part.smallest)[:, None, :, None]
    centres = part_breaks[:, None, :, :n_columns]
    if part.kind == RADIAL:
        widths = bump_widths(part_breaks, n_knots)[..., :n_columns]
        if knots.log_widths is not None:
            widths = widths * part.of(knots.log_widths)[..., :n_columns].exp()
        rows = torch.exp(-0.5 * ((inside - centres) / widths[:, None]).square())
    else:
        rows = torch.cat([inside, (inside - centres[..., 1:]).abs() ** 3], dim=-1)
    rows = torch.where(used & ~missing, rows, 0.0)
    return torch.nn.functional.pad(rows, (0, size - n_columns)) if n_columns < size else rows
