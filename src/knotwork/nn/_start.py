"""Where a layer starts: sizes, spacing and knots that a user gives, checked and brought into one array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error, check_int

__all__ = [
    "MIN_FIXED_SPACING",
    "check_sizes",
    "check_spacing",
    "initial_breaks",
    "scaled_knots",
    "scaled_knots_of",
    "separated",
]

MIN_FIXED_SPACING = 1e-6
"""Knots of a fixed layer are moved apart to this share of the range: float32 cannot tell nearer ones apart."""


def check_sizes(size: int | Sequence[int], n_features: int, smallest: int) -> tuple[int, ...]:
    """Return the size of each feature."""
    sizes = [size] * n_features if isinstance(size, int | np.integer) else list(size)
    if len(sizes) != n_features:
        raise argument_error("size", f"be an integer or have one for each of the {n_features} features", size)
    return tuple(check_int(each, "size", minimum=smallest) for each in sizes)


def check_spacing(min_spacing: float, n_widths: int) -> float:
    """Return a smallest spacing that leaves room for `n_widths` intervals."""
    if not 0.0 < min_spacing < 1.0 / n_widths:
        raise argument_error(
            "min_spacing",
            f"be larger than 0 and smaller than 1 / {n_widths}, one over the number of intervals",
            min_spacing,
        )
    return float(min_spacing)


def initial_breaks(knots: Any, n_knots: Sequence[int], n_members: int | None) -> Tensor:
    """Return ``[0, knots, 1]`` of every feature, padded with ones, in float64."""
    lead = () if n_members is None else (n_members,)
    breaks = torch.ones(*lead, len(n_knots), max(n_knots) + 2, dtype=torch.float64)
    breaks[..., 0] = 0.0
    if knots is not None and n_members is not None and np.ndim(knots[0]) == 2:
        if len(knots) != n_members:
            raise argument_error("knots", f"have a leading axis of {n_members} members", len(knots))
        for member in range(n_members):
            breaks[member] = initial_breaks(knots[member], n_knots, None)
        return breaks
    if knots is not None and len(knots) != len(n_knots):
        raise argument_error("knots", f"be given for each of the {len(n_knots)} features", len(knots))
    for feature, count in enumerate(n_knots):
        given = np.arange(1, count + 1) / (count + 1) if knots is None else np.asarray(knots[feature], dtype=np.float64)
        if given.shape != (count,):
            raise argument_error("knots", f"hold {count} numbers for feature {feature}", given)
        if not np.all(np.diff(np.concatenate(([0.0], given, [1.0]))) > 0.0):
            raise argument_error("knots", f"increase strictly between 0 and 1 for feature {feature}", given)
        breaks[..., feature, 1 : count + 1] = torch.from_numpy(given)
    return breaks


def separated(breaks: Tensor, n_knots: Sequence[int]) -> Tensor:
    """Move knots apart that are nearer than `MIN_FIXED_SPACING`, none of them further than needed."""
    apart = breaks.clone()
    for feature, count in enumerate(n_knots):
        steps = MIN_FIXED_SPACING * torch.arange(count + 2, dtype=torch.float64)
        row = torch.cummax(apart[..., feature, : count + 2] - steps, dim=-1).values + steps
        row = torch.minimum(row, 1.0 - steps.flip(0))
        apart[..., feature, 1 : count + 1] = row[..., 1:-1]
    return apart


def scaled_knots(encoder: Any) -> list[npt.NDArray[np.float64]]:
    """Return the knots of a fitted encoder on its range scaled to [0, 1], strictly inside."""
    return [scaled_knots_of(knots, domain) for knots, domain in zip(encoder.knots_, encoder.domain_, strict=True)]


def scaled_knots_of(knots: npt.NDArray[np.float64], domain: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the knots of one feature on its range scaled to [0, 1], strictly inside."""
    low, high = domain
    share = (0.5 * knots - 0.5 * low) / (0.5 * high - 0.5 * low)
    steps = MIN_FIXED_SPACING * np.arange(1, len(share) + 1)
    share = np.maximum.accumulate(np.maximum(share, MIN_FIXED_SPACING) - steps) + steps
    inside: npt.NDArray[np.float64] = np.minimum(share, 1.0 - steps[::-1])
    return inside
