"""Radial functions at values between 0 and 1: Gaussian bumps of learned widths, and thin-plate splines.

All functions vary everywhere, so that rows are computed by whole tensors; on the CPU in place, because new memory costs
more than the arithmetic.
"""

from typing import Any

import torch
from torch import Tensor

from knotwork._kernels.dispatch import Operation, Packing, Path
from knotwork._kernels.encoding import RADIAL, TYPES, Knots, Part

__all__ = ["bump_widths", "radial_formula", "radial_rows"]

LARGEST_SQUARE = {torch.float32: 50.0, torch.float64: 700.0}
"""Limits of exponents on the CPU: products with numbers near the smallest of a type are many times slower."""


def bump_widths(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return the widths of `knotwork.basis.RadialBasis` for breaks of shape (G, F, K + 2), padded with ones."""
    places = torch.arange(breaks.shape[-1], device=breaks.device)
    last = n_knots[..., None] + 1
    before, after = (places - 1).clamp(min=0).expand_as(breaks), torch.minimum(places + 1, last)
    steps = (after - before).clamp(min=1)
    widths = (torch.gather(breaks, -1, after) - torch.gather(breaks, -1, before)) / steps
    return torch.where(places <= last, widths, 1.0)


def radial_formula(x: Tensor, centres: Tensor, factors: Tensor, used: Tensor, *, bumps: bool) -> Tensor:
    """Return ``exp(-(s (x - c))^2)`` or ``s |x - c|^3`` for every centre c and factor s.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values, clipped to [0, 1]; NaN gives a row of zeros.
    centres, factors : Tensor of shape (G, F, m)
        Centres and factors of the functions.
    used : Tensor of shape (G, F, m)
        1 for functions, 0 for columns of zeros, in the type of the centres.
    bumps : bool
        Whether the functions are bumps.
    """
    missing = torch.isnan(x)[..., None]
    inside = torch.where(missing, 0.0, x.to(centres.dtype)[..., None]).clamp(0.0, 1.0)
    distances = inside - centres[:, None]
    scale = factors[:, None]
    rows = torch.exp(-((scale * distances) ** 2)) if bumps else scale * distances.abs() ** 3
    return torch.where(missing, 0.0, rows * used[:, None])


def _distances(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return which values are missing, and the distances to the centres."""
    missing = torch.isnan(x)
    inside = torch.where(missing, 0.0, x.to(centres.dtype)).clamp_(0.0, 1.0)
    return missing, inside[..., None] - centres[:, None]


def _run(x: Tensor, centres: Tensor, factors: Tensor, used: Tensor, *, bumps: bool) -> Any:
    missing, rows = _distances(x, centres)
    if bumps:
        rows.mul_(factors[:, None]).square_().clamp_(max=LARGEST_SQUARE[rows.dtype]).neg_().exp_()
    else:
        rows.abs_().pow_(3).mul_(factors[:, None])
    if not bool(used.all()):
        rows.mul_(used[:, None])
    if bool(missing.any()):
        rows.masked_fill_(missing[..., None], 0.0)
    return (rows,), (x, centres, factors, used)


def _run_backward(grads: Any, kept: Any, needed: Any, *, bumps: bool) -> Any:
    """Return the gradients; with d the distance and s the factor, those of d and s come from the product with d."""
    x, centres, factors, used = kept
    missing, distances = _distances(x, centres)
    scale, weights = factors[:, None], used[:, None]
    if bumps:  # of the rows y: d has -2 s^2 d y, s has -2 s d^2 y
        rows = (distances * scale).square_().clamp_(max=LARGEST_SQUARE[distances.dtype]).neg_().exp_()
        rows.mul_(grads[0]).mul_(weights).mul_(-2.0)
        along = rows.mul_(distances)  # times s^2 for d, times s d for s
        by_centre, power = along * scale.square(), factors
    else:  # d has 3 s d |d|, s has |d|^3
        along = distances.abs().mul_(distances).mul_(grads[0]).mul_(weights)
        by_centre, power = along * (3.0 * scale), torch.ones_like(factors)
    by_centre.masked_fill_(missing[..., None], 0.0)
    outside = (x < 0.0) | (x > 1.0)
    factors_grad = None
    if needed[2]:
        along.mul_(distances).masked_fill_(missing[..., None], 0.0)
        factors_grad = along.sum(dim=1) * power
    return (
        by_centre.sum(dim=-1).masked_fill_(outside, 0.0).to(x.dtype) if needed[0] else None,
        -by_centre.sum(dim=1) if needed[1] else None,
        factors_grad,
        None,
    )


def _shapes(x: Tensor, centres: Tensor, *_: Any, bumps: bool) -> tuple[Tensor]:
    del bumps
    return (centres.new_empty(*x.shape, centres.shape[-1]),)


_RADIAL = Operation(
    radial_formula,
    cpu=Path(_run, _run_backward),
    types=TYPES[:2],
    packing=Packing(lambda settings: [float(settings["bumps"])], lambda numbers: {"bumps": bool(numbers[0])}, _shapes),
    leading=1,
)


def radial_rows(part: Part, x: Tensor, breaks: Tensor, knots: Knots, size: int) -> Tensor:
    """Return the rows of a part of radial functions, padded with zeros; x, knots and size are those of `encode`.

    `breaks` are those of all groups. The result is differentiable with respect to x, breaks and the widths.
    """
    values, part_breaks, n_knots = part.of(x, axis=2), part.of(breaks), part.of(knots.n_knots)
    n_columns = min(part_breaks.shape[-1], size)
    places = torch.arange(n_columns, device=x.device)
    used = (places < (n_knots + part.smallest)[..., None]).to(breaks.dtype)
    centres = part_breaks[..., :n_columns]
    if part.kind == RADIAL:
        widths = bump_widths(part_breaks, n_knots)[..., :n_columns]
        if knots.log_widths is not None:
            widths = widths * part.of(knots.log_widths)[..., :n_columns].exp()
        rows = _RADIAL(values, centres, 0.5**0.5 / widths, used, bumps=True)
    else:
        line = torch.where(torch.isnan(values), 0.0, values.to(breaks.dtype)).clamp(0.0, 1.0)[..., None]
        cubes = _RADIAL(values, centres[..., 1:], torch.ones_like(centres[..., 1:]), used[..., 1:], bumps=False)
        rows = torch.cat([line, cubes], dim=-1)
    return torch.nn.functional.pad(rows, (0, size - n_columns)) if n_columns < size else rows
