"""The encoding of numerical features by functions on knots, with or without an axis of members.

The layers of the public interface (`_encoding`) and the encoding of a stack of networks (`_stack`) are built on it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knotwork._kernels.encoding import Encoded, Knots, encode, logits_from_knots

__all__ = ["KnotEncoding", "scaled_knots", "separated"]

MIN_FIXED_SPACING = 1e-6
"""Smallest distance of fixed knots, as a share of the range: float32 cannot resolve much smaller ones."""


class KnotEncoding(nn.Module):
    """Knots that are fixed or learned, the scale of the values, and their encoding by functions on the knots.

    Tensors have the shape (n_features, ...), or (n_members, n_features, ...) if there is an axis of members; values
    have an axis of rows in front of that of features.

    Attributes
    ----------
    n_knots : Tensor of shape (..., n_features)
        Numbers of interior knots, int32.
    breaks : Tensor of shape (..., n_features, K + 2) or None
        ``[0, knots, 1]`` on the range scaled to [0, 1], padded with ones; None if the knots of all members are learned.
    logits : Parameter of shape (..., n_features, K + 1) or None
        Parameters from which learned knots are computed; None if no knots are learned.
    learned : Tensor of shape (n_members,) or None
        Members whose knots are computed from logits; None if they are those of all or of none.
    log_widths : Parameter of shape (..., n_features, size) or None
        Logarithms of the factors of the widths of radial functions.
    low, scale : Tensor of shape (..., n_features) or None
        Values are encoded as ``(x - low) / scale``.
    min_spacing : float
        Smallest distance between learned knots, as a share of the range.
    """

    n_knots: Tensor
    breaks: Tensor | None
    logits: nn.Parameter | None
    learned: Tensor | None
    log_widths: nn.Parameter | None
    low: Tensor | None
    scale: Tensor | None
    min_spacing: float

    def _add_knots(
        self, breaks: Tensor, n_knots: Tensor, *, learned: Tensor | bool, min_spacing: float, dtype: torch.dtype
    ) -> None:
        """Add buffers and parameters for knots that are learned, fixed, or either for each member."""
        self.min_spacing = min_spacing
        self.register_buffer("n_knots", n_knots)
        with_logits = learned if isinstance(learned, bool) else bool(learned.any())
        logits = logits_from_knots(breaks.double(), n_knots, min_spacing) if with_logits else None
        self.logits = None if logits is None else nn.Parameter(logits.to(dtype))
        if learned is True:
            self.breaks = None
        else:
            self.register_buffer("breaks", breaks.to(dtype))
        if isinstance(learned, bool):
            self.learned = None
        else:
            self.register_buffer("learned", learned)

    def _zeros(self, size: int) -> nn.Parameter:
        """Return a parameter with a number for each function."""
        return nn.Parameter(torch.zeros(*self.n_knots.shape, size))

    @property
    def has_members(self) -> bool:
        """Whether there is an axis of members."""
        return self.n_knots.dim() > 1

    def _by_row(self, values: Tensor) -> Tensor:
        """Return numbers of features with an axis of rows."""
        return values[:, None] if self.has_members else values

    def _on_range(self, x: Tensor) -> Tensor:
        """Return values on the scale of their feature."""
        assert self.low is not None
        assert self.scale is not None
        return (x - self._by_row(self.low)) / self._by_row(self.scale)

    def _knots(self, epsilon: float = 1e-6) -> Knots:
        """Return the knots for `encode`; `epsilon` is that of the spacing penalty."""
        breaks, logits, widths = map(_at_least_float32, (self.breaks, self.logits, self.log_widths))
        learned = None if logits is None else self.learned
        return Knots(self.n_knots, breaks, logits, learned, self.min_spacing, epsilon, widths)

    def _without_rows(self, knots: Knots, size: int) -> Encoded:
        """Compute breaks and penalty only."""
        *lead, n_features = self.n_knots.shape
        no_rows = self.n_knots.new_empty(*lead, 0, n_features, dtype=torch.float32)
        return encode(no_rows, knots, (), size=size)

    def _with_missing(self, values: Tensor, encoded: Tensor, vectors: Tensor) -> Tensor:
        """Return the encoding with the vectors of features in place of zeros where a value is missing."""
        return torch.where(torch.isnan(values)[..., None], self._by_row(vectors.to(encoded.dtype)), encoded)

    def _in_units(self, breaks: Tensor) -> Tensor:
        """Return the interior knots of breaks in the units of the input, padded with NaN."""
        knots = breaks[..., 1:-1]
        used = torch.arange(knots.shape[-1], device=knots.device) < self.n_knots[..., None]
        if self.low is not None and self.scale is not None:
            knots = self.low[..., None] + self.scale[..., None] * knots
        return torch.where(used, knots, torch.nan)


def _at_least_float32(tensor: Tensor | None) -> Tensor | None:
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.float()


def separated(breaks: Tensor, n_knots: Sequence[int]) -> Tensor:
    """Move knots that are nearer than `MIN_FIXED_SPACING` apart, no further than needed."""
    apart = breaks.clone()
    for feature, count in enumerate(n_knots):
        steps = MIN_FIXED_SPACING * torch.arange(count + 2, dtype=torch.float64)
        row = torch.cummax(apart[..., feature, : count + 2] - steps, dim=-1).values + steps
        row = torch.minimum(row, 1.0 - steps.flip(0))
        apart[..., feature, 1 : count + 1] = row[..., 1:-1]
    return apart


def scaled_knots(knots: npt.NDArray[np.float64], domain: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the knots of one feature on its range scaled to [0, 1], strictly inside."""
    low, high = domain
    share = (0.5 * knots - 0.5 * low) / (0.5 * high - 0.5 * low)
    steps = MIN_FIXED_SPACING * np.arange(1, len(share) + 1)
    share = np.maximum.accumulate(np.maximum(share, MIN_FIXED_SPACING) - steps) + steps
    inside: npt.NDArray[np.float64] = np.minimum(share, 1.0 - steps[::-1])
    return inside
