"""The encodings of a stack of members, each with its own functions, knots and scaling, in one tensor."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knotwork._checks import argument_error
from knotwork._kernels.encoding import (
    Knots,
    Layout,
    StackPart,
    breaks_from_widths,
    encode,
    into_unit,
    logits_from_knots,
    widths_from_logits,
)
from knotwork.basis import FAMILIES, FittedAffine, FittedBasis, FittedColumn, FittedPeriodic, Functions, family_name
from knotwork.nn._encoding import KnotEncoding, periodic_rows, scaled_knots, separated, smoothly_clipped
from knotwork.nn._linear import Stream, make_draw

LARGEST_RANGE = 1e30
"""Largest range of a feature in the units of the table, and one over the smallest: limits of float32."""

LARGEST_SCALED = 1e15
"""Limit of scaled values: networks square values that are only scaled, and float32 must not overflow."""

WAVE_KINDS = (Functions.PERIODIC, Functions.COSINE)
"""Kinds of functions that have frequencies."""


class FunctionKind(NamedTuple):
    """Features of the same kind are encoded in one pass; the fields are those of `StackPart`.

    The degree of cosines and sines is their number.
    """

    kind: int
    degree: int
    family: str = ""


def kind_of(encoding: FittedColumn, learnable: bool) -> FunctionKind:
    """Return the kind of the functions that encode a column."""
    if isinstance(encoding, FittedAffine):
        return FunctionKind(Functions.AFFINE, 0)
    if isinstance(encoding, FittedPeriodic):
        return FunctionKind(Functions.PERIODIC if encoding.phases is None else Functions.COSINE, encoding.size)
    family = family_name(encoding.basis)
    layout = Layout(family, encoding.basis.degree, normalised=learnable and FAMILIES[family].normalised)
    return FunctionKind(layout.kind, layout.scheme, family if layout.kind == Functions.PLAIN else "")


@dataclass(frozen=True)
class StackLayout:
    """Settings of a stack's encoding.

    `sizes` are the columns of each feature in the members with the most, `size` the columns of every feature in the
    result, where shorter encodings are padded with zeros. `min_spacing` is a share of the feature's range.
    """

    parts: tuple[StackPart, ...]
    sizes: tuple[int, ...]
    size: int
    min_spacing: float = 1e-3

    @property
    def n_frequencies(self) -> int:
        """Largest number of frequencies of a feature; 0 without cosines and sines."""
        numbers = [part.degree if part.kind == Functions.COSINE else (part.degree + 1) // 2 for part in self.waves]
        return max(numbers, default=0)

    @property
    def waves(self) -> tuple[StackPart, ...]:
        """The parts that are cosines and sines."""
        return tuple(part for part in self.parts if part.kind in WAVE_KINDS)

    def take(self, members: Sequence[int]) -> "StackLayout":
        """Return the settings of some members, given by their places, which increase."""
        parts = []
        for part in self.parts:
            taken = [place for place, member in enumerate(members) if part.start <= member < part.stop]
            if taken:
                parts.append(replace(part, start=taken[0], stop=taken[-1] + 1))
        return replace(self, parts=tuple(parts))


@final
class StackEncoding(KnotEncoding):
    """Encode the features of every member by its own functions, knots and ranges; missing values by zeros, or learned.

    Parameters
    ----------
    layout : StackLayout
        Parts and sizes.
    breaks, n_knots, low, scale, learned : Tensor
        Those of `KnotEncoding`, for all members.
    smooth : Tensor of shape (n_members, n_features), optional
        Features whose scaled values are clipped smoothly, bool; None if none are.
    sigma : Tensor of shape (n_members, n_features), optional
        Standard deviations of the initial frequencies.
    learned_missing : bool, default=False
        Whether a missing value is a learned vector of each member and feature in place of zeros.

    Notes
    -----
    Frequencies, phases and the factors of the widths of radial functions are parameters. Members without them have
    zeros, which are not used. So are the vectors of missing values, which start at zero; they are zero in columns that
    a member does not have.
    """

    breaks: Tensor
    learned: Tensor
    low: Tensor
    scale: Tensor
    smooth: Tensor | None
    sigma: Tensor | None
    has_range: Tensor
    cyclic: Tensor | None
    own_columns: Tensor | None

    def __init__(
        self, layout: StackLayout, *, breaks: Tensor, n_knots: Tensor, low: Tensor, scale: Tensor, learned: Tensor,
        smooth: Tensor | None = None, sigma: Tensor | None = None, learned_missing: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layout = layout
        shape = (*low.shape, layout.n_frequencies)
        with_phases = any(part.kind == Functions.COSINE for part in layout.parts)
        self.frequencies = nn.Parameter(torch.zeros(shape)) if layout.waves else None
        self.phases = nn.Parameter(torch.zeros(shape)) if with_phases else None
        self._add_knots(breaks, n_knots, learned=learned, min_spacing=layout.min_spacing, dtype=torch.float32)
        self.log_widths = self._zeros(layout.size) if any(part.has_widths for part in layout.parts) else None
        self.missing = self._zeros(layout.size) if learned_missing else None
        own_columns = _own_columns(layout, n_knots) if learned_missing else None
        self.register_buffer("own_columns", own_columns, persistent=False)
        self.register_buffer("low", low.float())
        self.register_buffer("scale", scale.float())
        self.register_buffer("smooth", smooth)
        without_range = [part for part in layout.parts if part.kind in (Functions.AFFINE, *WAVE_KINDS)]
        cyclic = [part for part in layout.parts if part.is_cyclic]
        self.register_buffer("has_range", ~_marked(without_range, low.shape), persistent=False)
        self.register_buffer("cyclic", _marked(cyclic, low.shape) if cyclic else None, persistent=False)
        self.register_buffer("sigma", None if sigma is None else sigma.float(), persistent=False)

    @classmethod
    def from_encodings(
        cls, encodings: Sequence[Sequence[FittedColumn]], learnable: Sequence[bool], *,
        units: npt.NDArray[np.float64] | None = None, min_spacing: float = StackLayout.min_spacing,
        learned_missing: bool = False,
    ) -> Self:  # fmt: skip
        """Return the encoding of members, which are ordered so that members of the same kind are adjacent.

        Parameters
        ----------
        encodings : sequence of sequence of FittedColumn
            The fitted `encoder.fitted_` of every member, one for each feature.
        learnable : sequence of bool
            For every member, whether its knots are parameters.
        units : ndarray of shape (2, n_features), optional
            Origin and unit of the inputs, ``x = (raw - origin) / unit``; by default inputs are raw.
        min_spacing : float, default=0.001
            Least distance of learned knots, as a share of the range of their feature.
        learned_missing : bool, default=False
            Whether a missing value is a learned vector.
        """
        n_members, n_features = len(encodings), len(encodings[0])
        sizes = tuple(max(member[f].size for member in encodings) for f in range(n_features))
        counts = [[_n_knots(encoding) for encoding in member] for member in encodings]
        n_breaks = max(max(row, default=0) for row in counts) + 2
        most = max((max(row, default=0) for row, learns in zip(counts, learnable, strict=True) if learns), default=0)
        if min_spacing * (most + 1) >= 1.0:
            limit = f"be smaller than 1 / {most + 1}, one over the number of intervals between learned knots"
            raise argument_error("knot_spacing", limit, min_spacing)
        breaks = torch.ones(n_members, n_features, n_breaks, dtype=torch.float64)
        breaks[..., 0] = 0.0
        ranges = np.zeros((2, n_members, n_features))
        for m, member in enumerate(encodings):
            for f, encoding in enumerate(member):
                breaks[m, f, 1 : counts[m][f] + 1] = torch.from_numpy(_scaled(encoding))
                ranges[:, m, f] = _range(encoding, *((0.0, 1.0) if units is None else units[:, f]))
            breaks[m] = separated(breaks[m], counts[m])
        smooth = torch.tensor([[_is_smooth(encoding) for encoding in member] for member in encodings], dtype=torch.bool)
        sigma = [
            [encoding.sigma if isinstance(encoding, FittedPeriodic) else 0.0 for encoding in member]
            for member in encodings
        ]
        return cls(
            StackLayout(tuple(_parts(encodings, learnable)), sizes, max(sizes, default=1), min_spacing),
            breaks=breaks,
            n_knots=torch.tensor(counts, dtype=torch.int32).reshape(n_members, n_features),
            low=torch.from_numpy(ranges[0]),
            scale=torch.from_numpy(ranges[1]),
            learned=torch.tensor(list(learnable)),
            smooth=smooth if bool(smooth.any()) else None,
            sigma=torch.tensor(sigma).reshape(n_members, n_features),
            learned_missing=learned_missing,
        )

    @torch.no_grad()
    def start(self, seeds: Tensor) -> None:
        """Draw frequencies and phases, those of each member by its random seed: int64, of shape (n_members,)."""
        if self.frequencies is None or self.sigma is None or seeds.is_meta:
            return
        # Frequencies have separate streams, and are drawn in the order of frequencies: a member's parameters do not
        # depend on the other members of the stack.
        draw, (n_members, n_features, n) = make_draw(seeds, Stream.FREQUENCIES), self.frequencies.shape
        normal = 2.0**0.5 * torch.erfinv(draw(n * n_features))
        self.frequencies.copy_(self.sigma[..., None] * normal.view(n_members, n, n_features).transpose(1, 2))
        if self.phases is not None:
            self.phases.copy_(math.pi * draw(n * n_features).view(n_members, n, n_features).transpose(1, 2))

    def forward(self, x: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Encode values of shape (n_members, batch, n_features), NaN if missing, in the given type.

        The results are of shape (n_members, batch, n_features, size), and the spacing penalties of shape
        (n_members,), 0 for members without learned knots.
        """
        return self.encode_scaled(self.scaled(x), dtype)

    def scaled(self, x: Tensor) -> Tensor:
        """Return values of shape (n_members, batch, n_features) as they are encoded, on the scale of each feature."""
        values = self._on_range(x).clamp_(-LARGEST_SCALED, LARGEST_SCALED)
        if self.cyclic is not None:
            values = torch.where(self.cyclic[:, None], into_unit(values), values)
        return values if self.smooth is None else torch.where(self.smooth[:, None], smoothly_clipped(values), values)

    def raw(self, values: Tensor) -> Tensor:
        """Return scaled values as an input of a network: a range becomes [-1, 1], a missing value 0."""
        centred = 2.0 * values.clamp(0.0, 1.0) - 1.0
        out = torch.where(self.has_range[:, None], centred, values)
        return torch.nan_to_num(out, nan=0.0)

    def encode_scaled(self, values: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Encode scaled values; results as in `forward`."""
        size, waves = self.layout.size, self.layout.waves
        if len(waves) == 1 and waves[0].features is None and waves[0].stop - waves[0].start == len(values):
            return self._with_learned_missing(values, self._waves(waves[0], values, dtype)), self._no_penalty()
        parts = [part for part in self.layout.parts if part not in waves]
        encoded = encode(values, self._knots(), parts, size=size, dtype=dtype)
        for part in waves:
            part.write(encoded.values, self._waves(part, values, dtype), axis=2)
        rows = self._with_learned_missing(values, encoded.values)
        return rows, self._no_penalty() if encoded.penalty is None else encoded.penalty

    def missing_vectors(self) -> Tensor | None:
        """Return the vectors of missing values, of shape (n_members, n_features, size); None if none are learned."""
        return None if self.missing is None or self.own_columns is None else self.missing * self.own_columns

    def _with_learned_missing(self, values: Tensor, encoded: Tensor) -> Tensor:
        vectors = self.missing_vectors()
        return encoded if vectors is None else self._with_missing(values, encoded, vectors)

    def _waves(self, part: StackPart, values: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the cosines and sines of a part, padded with zeros."""
        assert self.frequencies is not None
        values = part.of(values, axis=2)
        n = part.degree if part.kind == Functions.COSINE else (part.degree + 1) // 2
        frequencies = part.of(self.frequencies)[:, None, :, :n]
        phases = (
            part.of(self.phases)[:, None, :, :n] if part.kind == Functions.COSINE and self.phases is not None else None
        )
        missing = torch.isnan(values)
        rows = periodic_rows(torch.where(missing, 0.0, values), frequencies, phases)[..., : part.degree]
        rows = torch.where(missing[..., None], 0.0, rows).to(dtype)
        padding = self.layout.size - part.degree
        return nn.functional.pad(rows, (0, padding)) if padding else rows

    def spacings(self) -> tuple[Tensor, Tensor]:
        """Return the breaks ``[0, knots, 1]`` of all members and features, and the spacing penalty of every member."""
        encoded = self._without_rows(self._knots(), self.layout.size)
        return encoded.breaks, self._no_penalty() if encoded.penalty is None else encoded.penalty

    @torch.no_grad()
    def settle(self) -> None:
        """Let fixed knots be exactly those that learned ones start from, which are computed from their logits.

        Rounding would otherwise separate them. Knots nearer than `min_spacing`, which learned ones cannot be, stay.
        """
        if not bool((self.n_knots > 0).any()):
            return
        spacing = self.min_spacing
        logits = logits_from_knots(self.breaks.double(), self.n_knots, spacing).float()
        if self.logits is not None:
            self.logits.copy_(logits)
        everywhere = torch.ones_like(self.learned)
        knots = Knots(self.n_knots, self.breaks, logits, everywhere, min_spacing=spacing)
        computed = self._without_rows(knots, self.layout.size).breaks
        padding = torch.arange(self.breaks.shape[-1] - 1, device=self.breaks.device) > self.n_knots[..., None]
        apart = (padding | (torch.diff(self.breaks, dim=-1) >= spacing)).all(dim=-1)
        self.breaks.copy_(torch.where(apart[..., None], computed, self.breaks))

    def _no_penalty(self) -> Tensor:
        return torch.zeros(len(self.breaks), device=self.breaks.device)

    def starting_breaks(self) -> Tensor:
        """Return the initial breaks: those that were placed, moved apart to `min_spacing` if knots are learned."""
        breaks = self.breaks.double()
        logits = logits_from_knots(breaks, self.n_knots, self.layout.min_spacing)
        moved = breaks_from_widths(widths_from_logits(logits, self.n_knots, self.layout.min_spacing), self.n_knots)
        return torch.where(self.learned[:, None, None], moved, breaks)

    def interior_knots(self) -> Tensor:
        """Return the interior knots in the units of the input, of shape (n_members, n_features, K), padded with NaN."""
        return self._in_units(self.spacings()[0].detach())


def _parts(encodings: Sequence[Sequence[FittedColumn]], learnable: Sequence[bool]) -> list[StackPart]:
    """Return the parts of a stack in which members of the same kind are adjacent."""
    rows = [
        (tuple(kind_of(encoding, learned) for encoding in member), learned)
        for member, learned in zip(encodings, learnable, strict=True)
    ]
    parts, stop = [], 0
    for (kinds, learned), run in groupby(rows):
        start, stop = stop, stop + len(list(run))
        distinct = sorted(set(kinds))
        for kind in distinct:
            features = tuple(feature for feature, other in enumerate(kinds) if other == kind)
            features_of_part = None if len(distinct) == 1 else features
            parts.append(StackPart(kind.kind, kind.degree, start, stop, learned, features_of_part, kind.family))
    return parts


def _own_columns(layout: StackLayout, n_knots: Tensor) -> Tensor:
    """Return which columns are functions of the members and features, not padding, of shape (..., size)."""
    counts = torch.zeros_like(n_knots)
    for part in layout.parts:
        kept = _marked([part], n_knots.shape)
        counts = torch.where(kept, n_knots + part.smallest, counts)
    return torch.arange(layout.size) < counts[..., None]


def _marked(parts: Iterable[StackPart], shape: Sequence[int]) -> Tensor:
    """Return which features of which members belong to some parts."""
    out = torch.zeros(*shape, dtype=torch.bool)
    for part in parts:
        features = range(shape[1]) if part.features is None else part.features
        out[part.start : part.stop, list(features)] = True
    return out


def _is_smooth(encoding: FittedColumn) -> bool:
    return isinstance(encoding, FittedPeriodic) or (isinstance(encoding, FittedAffine) and encoding.smooth)


def _n_knots(encoding: FittedColumn) -> int:
    return len(encoding.basis.knots) if isinstance(encoding, FittedBasis) else 0


def _scaled(encoding: FittedColumn) -> npt.NDArray[np.float64]:
    if isinstance(encoding, FittedBasis):
        return scaled_knots(encoding.basis.knots, encoding.basis.domain)
    return np.empty(0)


def _range(encoding: FittedColumn, origin: float, unit: float) -> tuple[float, float]:
    """Return low and scale of a feature in the given units.

    Ranges that float32 cannot represent are shrunk towards the origin of the units, or widened if too small: all
    values of the table are equal at that resolution.
    """
    if not isinstance(encoding, FittedBasis):
        low, half = encoding.shift, 0.5 * encoding.scale / unit
    else:
        low, high = encoding.basis.domain
        half = (0.5 * high - 0.5 * low) / unit  # halves, because high - low may overflow
    place = (0.5 * low - 0.5 * origin) / unit
    shrunk = min(LARGEST_RANGE / max(half, abs(place), 1.0), 2.0)
    return float(place * shrunk), float(max(half * shrunk, 1.0 / LARGEST_RANGE))
