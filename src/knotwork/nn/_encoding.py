"""Layers that encode numerical features by splines or ramps, with knots that are fixed or learned."""

from abc import ABC
from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._kernels.layout import Layout
from knotwork._kernels.operation import encode, encode_learned, make_spacings
from knotwork._kernels.spacings import logits_from_knots, spacing_penalty, widths_from_logits
from knotwork.basis import FAMILIES
from knotwork.nn._start import check_sizes, check_spacing, initial_breaks, scaled_knots, separated

__all__ = ["PiecewiseLinearEncoding", "SplineEncoding"]

MISSING = ("zeros", "indicator", "error")


class _Encoding(nn.Module, ABC):
    """What the two layers share: knots, scaling, missing values, and the call."""

    n_knots: Tensor
    breaks: Tensor
    low: Tensor | None
    scale: Tensor | None

    def __init__(
        self,
        layout: Layout,
        n_features: int,
        size: int | Sequence[int],
        *,
        knots: Any,
        learnable: bool,
        min_spacing: float,
        missing: str,
        n_members: int | None,
    ) -> None:
        super().__init__()
        self.layout = layout
        self.n_features = check_int(n_features, "n_features", minimum=1)
        self.n_members = None if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.sizes = check_sizes(size, self.n_features, smallest=layout.degree + 1)
        self.size = max(self.sizes)
        self.learnable = check_bool(learnable, "learnable")
        self.min_spacing = check_spacing(min_spacing, self.size - layout.degree)
        self.missing = check_choice(missing, "missing", MISSING)
        n_knots = [size - layout.degree - 1 for size in self.sizes]
        counts = torch.tensor(n_knots, dtype=torch.int32)
        self.register_buffer("n_knots", counts if n_members is None else counts.repeat(n_members, 1))
        breaks = initial_breaks(knots, n_knots, self.n_members)
        if self.learnable:
            logits = logits_from_knots(breaks, self.n_knots, self.min_spacing)
            self.logits = nn.Parameter(logits.to(torch.get_default_dtype()))
        else:
            self.register_buffer("breaks", separated(breaks, n_knots).to(torch.get_default_dtype()))
        self.register_buffer("low", None)
        self.register_buffer("scale", None)

    def set_range(self, low: npt.ArrayLike | Tensor, high: npt.ArrayLike | Tensor) -> Self:
        """Scale the input: what lies between `low` and `high` becomes [0, 1].

        Parameters
        ----------
        low, high : array-like of shape (n_features,) or (n_members, n_features)
            The two ends of each feature's range, in the units of the input.

        Returns
        -------
        self
            The layer.
        """
        expected = (self.n_features,) if self.n_members is None else (self.n_members, self.n_features)
        ends = [_float64(end).expand(expected) for end in (low, high)]
        if not bool((ends[0] < ends[1]).all()):
            raise argument_error("high", "be larger than low for every feature", high)
        device, dtype = self.n_knots.device, torch.get_default_dtype()
        self.low = ends[0].to(device, dtype).contiguous()
        self.scale = (ends[1] - ends[0]).to(device, dtype).contiguous()
        return self

    def widths(self) -> Tensor:
        """Return the widths of the intervals between knots, which add up to one; zeros beyond a feature's last."""
        if self.learnable:
            return widths_from_logits(_at_least_float32(self.logits), self.n_knots, self.min_spacing)
        return torch.diff(_at_least_float32(self.breaks), dim=-1)

    def interior_knots(self) -> Tensor:
        """Return the interior knots in the units of the input, of shape (..., n_features, K).

        Features with fewer knots than others have NaN in the places that are left.
        """
        breaks = self._grouped_breaks().detach()
        knots = (breaks if self.n_members is not None else breaks[0])[..., 1:-1].clone()
        knots[torch.arange(knots.shape[-1], device=knots.device) >= self.n_knots[..., None]] = torch.nan
        if self.low is not None and self.scale is not None:
            knots = self.low[..., None] + self.scale[..., None] * knots
        return knots

    def spacing_penalty(self, epsilon: float = 1e-6) -> Tensor:
        """Return the mean over features and intervals of ``1 / (width + epsilon)``: one number, or one per member."""
        if not self.learnable:
            return spacing_penalty(self.widths(), self.n_knots, epsilon)
        logits = self._grouped(_at_least_float32(self.logits))
        _, penalties = make_spacings(logits, self._grouped(self.n_knots), self.min_spacing, epsilon)
        return penalties[0] if self.n_members is None else penalties

    def forward(self, x: Tensor) -> Tensor:
        """Encode values.

        Parameters
        ----------
        x : Tensor of shape (..., n_features), or (n_members, ..., n_features)
            Values in [0, 1], or in the units of `set_range`; those outside are moved to the nearer end.

        Returns
        -------
        Tensor of shape (..., n_features, size)
            The functions at each value; with ``missing="indicator"`` one more column.
        """
        values = self._scaled(x)
        encoded = encode(
            values,
            self._grouped_breaks(),
            self._grouped(self.n_knots),
            dtype=self._output_type(x),
            **self._settings,
        )
        return self._shaped(encoded, values, x)

    def forward_with_penalty(self, x: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
        """Return what `forward` and `spacing_penalty` return, for less than the two together on a GPU."""
        if not self.learnable:
            return self.forward(x), self.spacing_penalty(epsilon)
        values = self._scaled(x)
        logits = self._grouped(_at_least_float32(self.logits))
        encoded, penalty = encode_learned(
            values,
            logits,
            self._grouped(self.n_knots),
            min_spacing=self.min_spacing,
            epsilon=epsilon,
            dtype=self._output_type(x),
            **self._settings,
        )
        return self._shaped(encoded, values, x), penalty[0] if self.n_members is None else penalty

    def prepared(self, x: Tensor, epsilon: float) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor | None]:
        """Return what `encode_linear` is given of the layer, and the spacing penalties if knots are learned.

        Parameters
        ----------
        x : Tensor of shape (..., n_features), or (n_members, ..., n_features)
            Values, as in `forward`.
        epsilon : float
            As in `spacing_penalty`.

        Returns
        -------
        tuple of Tensor
            Values, breaks and numbers of knots, each with a leading axis of members, of length 1 if there are none.
        Tensor or None
            One penalty per member.
        """
        values, n_knots = self._scaled(x), self._grouped(self.n_knots)
        if not self.learnable:
            return (values, self._grouped(_at_least_float32(self.breaks)), n_knots), None
        logits = self._grouped(_at_least_float32(self.logits))
        breaks, penalty = make_spacings(logits, n_knots, self.min_spacing, epsilon)
        return (values, breaks, n_knots), penalty

    @property
    def _settings(self) -> dict[str, int]:
        return {"kind": self.layout.kind, "degree": self.layout.scheme, "size": self.size}

    def _scaled(self, x: Tensor) -> Tensor:
        """Return the values scaled to [0, 1], of shape (members or 1, rows, n_features)."""
        self._check_input(x)
        groups = 1 if self.n_members is None else self.n_members
        values = x.reshape(groups, -1, self.n_features)
        if self.low is None or self.scale is None:
            return values
        return (values - self.low.reshape(groups, 1, -1)) / self.scale.reshape(groups, 1, -1)

    def _shaped(self, encoded: Tensor, values: Tensor, x: Tensor) -> Tensor:
        if self.missing == "indicator":
            encoded = torch.cat([encoded, torch.isnan(values)[..., None].to(encoded.dtype)], dim=-1)
        return encoded.reshape(*x.shape, encoded.shape[-1])

    def extra_repr(self) -> str:
        """Return what `print` shows of the layer."""
        size = self.size if len(set(self.sizes)) == 1 else list(self.sizes)
        members = "" if self.n_members is None else f", n_members={self.n_members}"
        return f"{self.layout.family}, n_features={self.n_features}, size={size}, learnable={self.learnable}{members}"

    def _grouped_breaks(self) -> Tensor:
        """Return ``[0, knots, 1]`` of shape (members or 1, n_features, K + 2)."""
        if not self.learnable:
            return self._grouped(_at_least_float32(self.breaks))
        logits = self._grouped(_at_least_float32(self.logits))
        return make_spacings(logits, self._grouped(self.n_knots), self.min_spacing, 1.0)[0]

    def _grouped(self, tensor: Tensor) -> Tensor:
        return tensor if self.n_members is not None else tensor[None]

    def _output_type(self, x: Tensor) -> torch.dtype:
        if torch.is_autocast_enabled(x.device.type):
            return torch.get_autocast_dtype(x.device.type)
        return self.logits.dtype if self.learnable else self.breaks.dtype

    def _check_input(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise type_error("x", "be a tensor of floating-point numbers", type(x).__name__)
        lead = () if self.n_members is None else (self.n_members,)
        if x.dim() < 1 + len(lead) or x.shape[-1] != self.n_features or x.shape[: len(lead)] != lead:
            wanted = "(..., " if self.n_members is None else f"({self.n_members}, ..., "
            raise argument_error("x", f"have the shape {wanted}{self.n_features})", tuple(x.shape))
        if self.missing == "error" and bool(torch.isnan(x).any()):
            raise argument_error("x", "hold no NaN", "NaN", "Fill them, or pass missing='zeros'.")


@final
class SplineEncoding(_Encoding):
    """Encode features by B-, M- or I-splines on knots that are learned with the network, or fixed.

    Learned knots stay in order and at least `min_spacing` apart whatever the optimiser does. Values outside [0, 1]
    are moved to the nearer end; a missing value (NaN) is a block of zeros and has no gradient. Blocks of M-splines
    with learned knots are normalised to mean 0 and variance 1, for their height changes with the knots.

    Parameters
    ----------
    n_features : int
        Number of features.
    size : int or sequence of int
        Columns per feature; a sequence gives every feature its own, and the others are zero up to the largest.
    family : {"bspline", "mspline", "ispline"}, default="bspline"
        The functions.
    degree : int, default=3
        Degree of the pieces.
    knots : array-like, optional
        Interior knots to start from, in [0, 1]: of shape (n_features, size - degree - 1), a sequence with an array
        per feature, or with a leading axis of members. By default at equal distances.
    learnable : bool, default=True
        Whether the knots are parameters.
    min_spacing : float, default=0.001
        Smallest distance between learned knots.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        What happens to NaN; ``"indicator"`` adds a column that is 1 where a value is missing.
    n_members : int, optional
        Number of members that each have knots of their own; input and output then have a leading axis of members.

    Notes
    -----
    The functions are those of `knotwork.basis`, the spacings those of `knotwork._kernels.spacings`. Give the knots a
    parameter group without weight decay, and add ``1e-4 * layer.spacing_penalty()`` to the loss.

    Examples
    --------
    >>> layer = SplineEncoding(n_features=3, size=7)
    >>> layer(torch.rand(32, 3)).shape
    torch.Size([32, 3, 7])
    """

    def __init__(
        self,
        n_features: int,
        size: int | Sequence[int],
        *,
        family: str = "bspline",
        degree: int = 3,
        knots: Any = None,
        learnable: bool = True,
        min_spacing: float = 1e-3,
        missing: str = "zeros",
        n_members: int | None = None,
    ) -> None:
        available = [name for name, each in FAMILIES.items() if each.with_placements]
        check_choice(family, "family", available)
        check_bool(learnable, "learnable")
        super().__init__(
            Layout(family, degree, normalised=learnable and FAMILIES[family].normalised),
            n_features,
            size,
            knots=knots,
            learnable=learnable,
            min_spacing=min_spacing,
            missing=missing,
            n_members=n_members,
        )

    @classmethod
    def from_encoder(cls, encoder: Any, learnable: bool = False) -> Self:
        """Return the layer of a fitted `SplineEncoder`: raw values go in, the same columns come out.

        Parameters
        ----------
        encoder : SplineEncoder
            A fitted encoder.
        learnable : bool
            Whether its knots are where learning starts.
        """
        scaled = scaled_knots(encoder)
        layer = cls(
            len(scaled),
            encoder.size,
            family=encoder.family,
            degree=encoder.degree,
            knots=scaled,
            learnable=learnable,
            missing=encoder.missing,
        )
        return layer.set_range(*encoder.domain_.T)


@final
class PiecewiseLinearEncoding(_Encoding):
    """Encode features by piecewise-linear ramps, one per bin, with edges that are learned with the network, or fixed.

    Parameters
    ----------
    n_features : int
        Number of features.
    size : int or sequence of int
        Bins per feature; a sequence gives every feature its own, and the others are zero up to the largest.
    knots : array-like, optional
        Interior edges to start from, in [0, 1], as in `SplineEncoding`. By default at equal distances.
    learnable : bool, default=True
        Whether the edges are parameters.
    min_spacing : float, default=0.001
        Smallest width of a learned bin.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        What happens to NaN, as in `SplineEncoding`.
    n_members : int, optional
        Number of members that each have edges of their own, as in `SplineEncoding`.

    Examples
    --------
    >>> layer = PiecewiseLinearEncoding(n_features=1, size=2, learnable=False)
    >>> layer(torch.tensor([[0.25], [0.75]]))
    tensor([[[0.5000, 0.0000]],
    <BLANKLINE>
            [[1.0000, 0.5000]]])
    """

    def __init__(
        self,
        n_features: int,
        size: int | Sequence[int],
        *,
        knots: Any = None,
        learnable: bool = True,
        min_spacing: float = 1e-3,
        missing: str = "zeros",
        n_members: int | None = None,
    ) -> None:
        super().__init__(
            Layout("ple", 0),
            n_features,
            size,
            knots=knots,
            learnable=learnable,
            min_spacing=min_spacing,
            missing=missing,
            n_members=n_members,
        )

    @classmethod
    def from_encoder(cls, encoder: Any, learnable: bool = False) -> Self:
        """Return the layer of a fitted `PiecewiseLinearEncoder`; parameters as in `SplineEncoding.from_encoder`.

        Features have as many columns as the one with the most bins, or as the encoder's `size` if that is larger.
        """
        scaled = scaled_knots(encoder)
        sizes = [len(knots) + 1 for knots in scaled]
        layer = cls(len(scaled), sizes, knots=scaled, learnable=learnable, missing=encoder.missing)
        layer.size = max(layer.size, 0 if encoder.adaptive else encoder.size)
        return layer.set_range(*encoder.domain_.T)


def _float64(values: npt.ArrayLike | Tensor) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().double().cpu()
    return torch.from_numpy(np.array(values, dtype=np.float64))


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
