"""Periodic encoding of numerical features: cosines and sines of learned frequencies."""

from math import pi
from typing import final

import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_int
from knotwork.basis import SMOOTH_LIMIT

__all__ = ["PeriodicEncoding", "periodic_rows", "smoothly_clipped"]


def periodic_rows(x: Tensor, frequencies: Tensor, phases: Tensor | None = None) -> Tensor:
    """Return ``cos(2 pi c x)`` and then ``sin(2 pi c x)``, or with phases ``cos(2 pi c x + b)``, along a new axis.

    Frequencies c and phases b have the shape of x without its batch axes, and a last axis of frequencies.
    """
    angles = 2.0 * pi * frequencies * x[..., None]
    if phases is not None:
        return torch.cos(angles + phases)
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)


def smoothly_clipped(x: Tensor) -> Tensor:
    """Return ``x / sqrt(1 + (x / 3)**2)``, which lies between -3 and 3."""
    return x * torch.rsqrt(1.0 + (x / SMOOTH_LIMIT).square())


@final
class PeriodicEncoding(nn.Module):
    """Encode features by cosines and sines of learned frequencies (Gorishniy et al., 2022).

    Parameters
    ----------
    n_features : int
        Number of features.
    n_frequencies : int, default=8
        Frequencies per feature; the encoding has twice as many columns.
    sigma : float, default=0.1
        Standard deviation of the initial frequencies. Inputs should have a standard deviation of about one.

    Notes
    -----
    ``cos(2 pi c_k x), sin(2 pi c_k x)`` with learned c_k, which are drawn from a normal distribution at first.

    Examples
    --------
    >>> PeriodicEncoding(n_features=3, n_frequencies=4)(torch.zeros(5, 3)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(self, n_features: int, n_frequencies: int = 8, *, sigma: float = 0.1) -> None:
        super().__init__()
        if not sigma > 0.0:
            raise argument_error("sigma", "be larger than 0", sigma)
        shape = (check_int(n_features, "n_features", 1), check_int(n_frequencies, "n_frequencies", 1))
        self.frequencies = nn.Parameter(sigma * torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Encode values of shape (..., n_features) to (..., n_features, 2 n_frequencies)."""
        if x.dim() < 1 or x.shape[-1] != len(self.frequencies):
            raise argument_error("x", f"have the shape (..., {len(self.frequencies)})", tuple(x.shape))
        return periodic_rows(x, self.frequencies)
