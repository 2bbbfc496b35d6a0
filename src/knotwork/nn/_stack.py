"""The encodings of a stack of members: each its own functions, knots and scaling, in one tensor."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knotwork._kernels.encoding import (
    AFFINE,
    Knots,
    Layout,
    Part,
    breaks_from_widths,
    encode,
    logits_from_knots,
    widths_from_logits,
)
from knotwork.basis._blocks import AffineBlock, BasisBlock, Block
from knotwork.basis._families import FAMILIES, PLAIN, family_name

__all__ = ["FARTHEST", "Kind", "StackEncoding", "StackLayout", "kind_of", "scaled_knots", "separated"]

LARGEST = 1e30
"""Largest range of a feature in the units of the table, and one over the smallest: float32 holds what comes of it."""

FARTHEST = 1e15
"""Values farther from the range of a feature, in its units, are moved here: networks square what is only scaled."""

MIN_FIXED_SPACING = 1e-6
"""Knots of a fixed layer are moved apart to this share of the range: float32 has no room between nearer ones."""


class Kind(NamedTuple):
    """What must agree for features to be encoded in one pass.

    Parameters
    ----------
    kind, degree : int
        Kind of the rows, and degree of the scheme, as in `Layout`.
    family : str
        Name of a family without compiled code; empty for the others.
    """

    kind: int
    degree: int
    family: str = ""


def kind_of(block: Block, learnable: bool) -> Kind:
    """Return the kind of the functions that encode a block."""
    if isinstance(block, AffineBlock):
        return Kind(AFFINE, 0)
    family = family_name(block.basis)
    layout = Layout(family, block.basis.degree, normalised=learnable and FAMILIES[family].normalised)
    return Kind(layout.kind, layout.scheme, family if layout.kind == PLAIN else "")


@dataclass(frozen=True)
class StackLayout:
    """What a stack's encoding is besides its tensors.

    Parameters
    ----------
    parts : tuple of Part
        Members and features that are encoded in one pass.
    sizes : tuple of int
        Columns of each feature, of the members with the most.
    size : int
        Columns per feature of the result: shorter blocks are padded with zeros.
    min_spacing : float, default=0.001
        Smallest distance between learned knots, as a share of the feature's range.
    """

    parts: tuple[Part, ...]
    sizes: tuple[int, ...]
    size: int
    min_spacing: float = 1e-3


@final
class StackEncoding(nn.Module):
    """Encode the features of every member by its own functions, on knots and ranges of its own.

    A missing value is a block of zeros.

    Parameters
    ----------
    layout : StackLayout
        Who is encoded how.
    breaks : Tensor of shape (n_members, n_features, K + 2)
        ``[0, knots, 1]`` of each feature on its range scaled to [0, 1], padded with ones.
    n_knots : Tensor of shape (n_members, n_features)
        Numbers of interior knots, int32.
    low, scale : Tensor of shape (n_members, n_features)
        What is subtracted from a value, and what the difference is divided by.
    learned : Tensor of shape (n_members,)
        Whose knots are parameters.
    """

    breaks: Tensor
    n_knots: Tensor
    low: Tensor
    scale: Tensor
    learned: Tensor

    def __init__(
        self, layout: StackLayout, *, breaks: Tensor, n_knots: Tensor, low: Tensor, scale: Tensor, learned: Tensor
    ) -> None:
        super().__init__()
        self.layout = layout
        logits = logits_from_knots(breaks.double(), n_knots, layout.min_spacing) if bool(learned.any()) else None
        self.logits = None if logits is None else nn.Parameter(logits.float())
        self.register_buffer("breaks", breaks.float())
        self.register_buffer("n_knots", n_knots)
        self.register_buffer("low", low.float())
        self.register_buffer("scale", scale.float())
        self.register_buffer("learned", learned)

    @classmethod
    def from_blocks(
        cls,
        blocks: Sequence[Sequence[Block]],
        learnable: Sequence[bool],
        *,
        units: npt.NDArray[np.float64] | None = None,
    ) -> Self:
        """Return the encoding of members that stand in such an order that those of one kind are side by side.

        Parameters
        ----------
        blocks : sequence of sequence of Block
            For every member, what a fitted encoder holds for each feature (`encoder.blocks_`).
        learnable : sequence of bool
            For every member, whether its knots are parameters.
        units : ndarray of shape (2, n_features), optional
            Origin and unit that the inputs are counted in, ``x = (raw - origin) / unit``; by default they are raw.
        """
        n_members, n_features = len(blocks), len(blocks[0])
        sizes = tuple(max(member[f].size for member in blocks) for f in range(n_features))
        counts = [[_n_knots(block) for block in member] for member in blocks]
        n_breaks = max(max(row, default=0) for row in counts) + 2
        breaks = torch.ones(n_members, n_features, n_breaks, dtype=torch.float64)
        breaks[..., 0] = 0.0
        ranges = np.zeros((2, n_members, n_features))
        for m, member in enumerate(blocks):
            for f, block in enumerate(member):
                breaks[m, f, 1 : counts[m][f] + 1] = torch.from_numpy(_scaled(block))
                ranges[:, m, f] = _range(block, None if units is None else units[:, f])
            breaks[m] = separated(breaks[m], counts[m])
        return cls(
            StackLayout(tuple(_parts(blocks, learnable)), sizes, max(sizes, default=1)),
            breaks=breaks,
            n_knots=torch.tensor(counts, dtype=torch.int32).reshape(n_members, n_features),
            low=torch.from_numpy(ranges[0]),
            scale=torch.from_numpy(ranges[1]),
            learned=torch.tensor(list(learnable)),
        )

    def forward(self, x: Tensor, dtype: torch.dtype = torch.float32, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
        """Encode values.

        Parameters
        ----------
        x : Tensor of shape (n_members, batch, n_features)
            Values, NaN where missing.
        dtype : torch.dtype
            Type of the encoding.
        epsilon : float
            Of the spacing penalty.

        Returns
        -------
        encoded : Tensor of shape (n_members, batch, n_features, size)
            The encoded features.
        penalty : Tensor of shape (n_members,)
            The spacing penalty of members with learned knots, 0 for the others.
        """
        values = ((x - self.low[:, None]) / self.scale[:, None]).clamp_(-FARTHEST, FARTHEST)
        made = encode(values, self._knots(epsilon), self.layout.parts, size=self.layout.size, dtype=dtype)
        return made.values, self._no_penalty() if made.penalty is None else made.penalty

    def spacings(self, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
        """Return the breaks ``[0, knots, 1]`` of all members and features, and the spacing penalty of every member."""
        no_rows = self.low.new_empty(len(self.low), 0, self.low.shape[1])
        made = encode(no_rows, self._knots(epsilon), (), size=1)
        return made.breaks, self._no_penalty() if made.penalty is None else made.penalty

    def _knots(self, epsilon: float) -> Knots:
        spacing = {"min_spacing": self.layout.min_spacing, "epsilon": epsilon}
        return Knots(self.n_knots, self.breaks, self.logits, None if self.logits is None else self.learned, **spacing)

    def _no_penalty(self) -> Tensor:
        return torch.zeros(len(self.breaks), device=self.breaks.device)

    def starting_breaks(self) -> Tensor:
        """Return the breaks that learned knots started from: those that were placed, where need be moved apart."""
        breaks = self.breaks.double()
        logits = logits_from_knots(breaks, self.n_knots, self.layout.min_spacing)
        moved = breaks_from_widths(widths_from_logits(logits, self.n_knots, self.layout.min_spacing), self.n_knots)
        return torch.where(self.learned[:, None, None], moved, breaks)

    def interior_knots(self) -> Tensor:
        """Return the interior knots in the units of the input, of shape (n_members, n_features, K), padded with NaN."""
        breaks = self.spacings()[0].detach()
        used = torch.arange(breaks.shape[-1] - 2, device=breaks.device) < self.n_knots[..., None]
        return torch.where(used, self.low[..., None] + self.scale[..., None] * breaks[..., 1:-1], torch.nan)

    def keep(self, index: Tensor) -> None:
        """Keep the members of an increasing index only."""
        chosen = index.tolist()
        parts = []
        for part in self.layout.parts:
            inside = [place for place, member in enumerate(chosen) if part.start <= member < part.stop]
            if inside:
                parts.append(replace(part, start=inside[0], stop=inside[-1] + 1))
        self.layout = replace(self.layout, parts=tuple(parts))


def _parts(blocks: Sequence[Sequence[Block]], learnable: Sequence[bool]) -> list[Part]:
    """Return the parts of a stack whose members are in such an order that each kind stands together."""
    kinds = [
        tuple(kind_of(block, learned) for block in member) for member, learned in zip(blocks, learnable, strict=True)
    ]
    same = list(zip(kinds, learnable, strict=True))
    runs: list[tuple[int, int]] = []
    for member, kind_here in enumerate(same):
        if runs and same[runs[-1][0]] == kind_here:
            runs[-1] = (runs[-1][0], member + 1)
        else:
            runs.append((member, member + 1))
    parts = []
    for start, stop in runs:
        distinct = sorted(set(kinds[start]))
        for kind in distinct:
            features = tuple(feature for feature, other in enumerate(kinds[start]) if other == kind)
            features_of_part = None if len(distinct) == 1 else features
            parts.append(Part(kind.kind, kind.degree, start, stop, learnable[start], features_of_part, kind.family))
    return parts


def separated(breaks: Tensor, n_knots: Sequence[int]) -> Tensor:
    """Move knots apart that are nearer than `MIN_FIXED_SPACING`, none of them further than needed."""
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


def _n_knots(block: Block) -> int:
    return len(block.basis.knots) if isinstance(block, BasisBlock) else 0


def _scaled(block: Block) -> npt.NDArray[np.float64]:
    return scaled_knots(block.basis.knots, block.basis.domain) if isinstance(block, BasisBlock) else np.empty(0)


def _range(block: Block, units: npt.NDArray[np.float64] | None) -> tuple[float, float]:
    """Return what is subtracted from a feature and what it is divided by, in the given units.

    Of ranges that float32 does not hold, large ones are made smaller about the origin of the units, and small ones
    wider: beside them all values of the table are one.
    """
    if units is None:
        if isinstance(block, AffineBlock):
            return block.shift, block.scale
        low, high = block.basis.domain
        return low, high - low
    if isinstance(block, AffineBlock):
        low, half = block.shift, 0.5 * block.scale / units[1]
    else:
        low, high = block.basis.domain
        half = (0.5 * high - 0.5 * low) / units[1]  # the whole of a range may overflow
    origin = (0.5 * low - 0.5 * units[0]) / units[1]
    shrunk = min(LARGEST / max(half, abs(origin), 1.0), 2.0)
    return float(origin * shrunk), float(max(half * shrunk, 1.0 / LARGEST))
