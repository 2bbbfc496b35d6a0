"""The encoding of numerical features by functions on knots that are fixed or learned, with or without members.

`KnotEncoding` is the base of the layers of the public interface, and of the encoding of a stack of networks (`_stack`).
"""

import math
import warnings
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, type_error
from knotwork._kernels.dispatch import is_transformed
from knotwork._kernels.encoding import (
    Encoded,
    Knots,
    Layout,
    StackPart,
    encode,
    into_unit,
    logits_from_knots,
    spacing_penalty,
    widths_from_logits,
)
from knotwork.basis import FAMILIES, SMOOTH_LIMIT, TRAITS, Functions, family_name

MISSING_TREATMENTS = ("zeros", "indicator", "learned", "error")

MIN_FIXED_SPACING = 1e-6
"""Smallest distance of fixed knots, as a share of the range: float32 cannot resolve much smaller ones."""

MOST_INSPECTED = 8
"""Forward passes of a layer without a range whose values are inspected: on a GPU each inspection waits for it."""

RANGE_TOLERANCE = 0.25
"""How far outside [0, 1] values may be without a warning: new rows exceed the range of the training rows a little."""


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


class _Penalty(NamedTuple):
    """The penalties of a forward pass, and their inputs: the logits with their version, and epsilon."""

    values: Tensor
    logits: Tensor
    version: int
    epsilon: float


class _Encoding(KnotEncoding):
    """Common part of the two layers: knots, scaling, missing values, and the forward pass."""

    _penalty: _Penalty | None

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
        # torch writes it beside the tensors, whose shapes are those of other families as well.
        self._version = zlib.crc32(f"{layout.family} {layout.degree}".encode())
        self.n_features = check_int(n_features, "n_features", minimum=1)
        self.n_members = None if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.sizes = _check_sizes(size, self.n_features, smallest=layout.smallest)
        self.size = max(self.sizes)
        self.learnable = check_bool(learnable, "learnable")
        spacing = _check_spacing(min_spacing, self.size - layout.smallest + 1)
        self.missing = check_choice(missing, "missing", MISSING_TREATMENTS)
        n_knots = [size - layout.smallest for size in self.sizes]
        counts = torch.tensor(n_knots, dtype=torch.int32)
        counts = counts if n_members is None else counts.repeat(n_members, 1)
        breaks = _initial_breaks(knots, n_knots, self.n_members)
        breaks = breaks if self.learnable else separated(breaks, n_knots)
        dtype = torch.get_default_dtype()
        self._add_knots(breaks, counts, learned=self.learnable, min_spacing=spacing, dtype=dtype)
        self.log_widths = self._zeros(self.size) if learnable and TRAITS[layout.kind].has_widths else None
        self.missing_vectors = self._zeros(self.size) if missing == "learned" else None
        self.register_buffer("low", None)
        self.register_buffer("scale", None)
        groups = 1 if self.n_members is None else self.n_members
        family = layout.family if layout.kind == Functions.PLAIN else ""
        self._parts = (StackPart(layout.kind, layout.scheme, 0, groups, learned=self.learnable, family=family),)
        self._epsilon, self._penalty, self._n_inspected = 1e-6, None, 0

    @property
    def out_features(self) -> int:
        """Number of columns of all features together: the inputs of a linear layer after ``flatten(-2)``."""
        return self.n_features * self.get_output_shape()[-1]

    def get_output_shape(self) -> torch.Size:
        """Return the shape of the encoding of one row: (n_features, columns per feature)."""
        return torch.Size((self.n_features, self.size + (self.missing == "indicator")))

    def set_range(self, low: npt.ArrayLike | Tensor, high: npt.ArrayLike | Tensor) -> Self:
        """Set the range of the input that is scaled to [0, 1].

        Parameters
        ----------
        low, high : array-like of shape (n_features,) or (n_members, n_features)
            The two ends of each feature's range, in the units of the input.

        Returns
        -------
        self
            The layer.
        """
        ends = [self._end(name, values) for name, values in (("low", low), ("high", high))]
        is_valid = (ends[0] < ends[1]).reshape(-1, self.n_features).all(dim=0)
        if not bool(is_valid.all()):
            wrong = torch.nonzero(~is_valid).flatten().tolist()
            hint = f"Drop features {listed(wrong)}, which are constant or missing, or widen their ranges."
            raise argument_error("high", "be larger than low for every feature", high, hint)
        device, dtype = self.n_knots.device, torch.get_default_dtype()
        self.low = ends[0].to(device, dtype).contiguous()
        self.scale = (ends[1] - ends[0]).to(device, dtype).contiguous()
        return self

    def _end(self, name: str, values: npt.ArrayLike | Tensor) -> Tensor:
        """Return one end of the range for every feature."""
        end = _float64(values)
        shape = (self.n_features,) if self.n_members is None else (self.n_members, self.n_features)
        if end.dim() and end.shape not in (shape, shape[-1:]):
            allowed = " or ".join(str(valid) for valid in dict.fromkeys((shape[-1:], shape)))
            raise argument_error(name, f"be a number or have the shape {allowed}", tuple(end.shape))
        return end.expand(shape)

    def widths(self) -> Tensor:
        """Return the widths of the intervals between knots, which sum to one, padded with zeros."""
        _, breaks, logits, *_ = self._knots(self._epsilon)
        if logits is not None:
            return widths_from_logits(logits, self.n_knots, self.min_spacing)
        assert breaks is not None
        return torch.diff(breaks, dim=-1)

    def interior_knots(self) -> Tensor:
        """Return the interior knots in the units of the input, of shape (..., n_features, K).

        Features with fewer knots than others are padded with NaN.
        """
        return self._in_units(self._encode(None).breaks.detach())

    def spacing_penalty(self, epsilon: float = 1e-6) -> Tensor:
        """Return the mean over features and intervals of ``1 / (width + epsilon)``: one number, or one per member.

        After a forward pass the first call costs nothing: the forward pass computes the penalty with the knots, and the
        layer stores it until this call, or until the knots change.
        """
        if not self.learnable:
            return spacing_penalty(self.widths(), self.n_knots, epsilon)
        self._epsilon = epsilon
        stored, self._penalty = self._penalty, None  # the layer must not keep the graph of a completed step alive
        if stored is None or not self._is_current(stored):
            values = self._encode(None).penalty
            assert values is not None
        else:
            values = stored.values
        return values

    def forward(self, x: Tensor) -> Tensor:
        """Encode values.

        Parameters
        ----------
        x : Tensor of shape (..., n_features), or (n_members, ..., n_features)
            Values in [0, 1], or in the units of `set_range`; values outside are moved to the nearer end, or by whole
            periods for cyclic splines.

        Returns
        -------
        Tensor of shape (..., n_features, size)
            The functions at each value; with ``missing="indicator"`` one more column.
        """
        values = self._scaled(x)
        encoded = self._encode(values).values
        if self.missing == "indicator":
            encoded = torch.cat([encoded, torch.isnan(values)[..., None].to(encoded.dtype)], dim=-1)
        if self.missing_vectors is not None:
            encoded = self._with_missing(values, encoded, self.missing_vectors[..., : self.size])
        return encoded if values.shape == x.shape else encoded.reshape(*x.shape, encoded.shape[-1])

    def _encode(self, values: Tensor | None) -> Encoded:
        """Encode scaled values and store the penalty; with None, compute only the knots and the penalty."""
        traced = torch.compiler.is_compiling() or is_transformed()
        if not traced:
            # The graph of the last step is released before anything of this step is built: while it lives, torch reuses
            # its gradient node of the logits, which belongs to another stream when a CUDA graph is captured.
            self._store(None)
        knots = self._knots(self._epsilon)
        if values is None:
            return self._without_rows(knots, self.size)
        encoded = encode(values, knots, self._parts, size=self.size, dtype=self._output_type(values))
        logits = self.logits
        if encoded.penalty is not None and logits is not None and not traced:
            self._store(_Penalty(encoded.penalty, logits, logits._version, self._epsilon))
        return encoded

    def _store(self, penalty: _Penalty | None) -> None:
        self.__dict__["_penalty"] = penalty  # setting an attribute of a module takes longer than a launch

    def _is_current(self, stored: _Penalty) -> bool:
        """Return whether computing the penalty now would give the same value and gradient."""
        if torch.compiler.is_compiling() or is_transformed():
            return False
        unchanged = stored.logits is self.logits and stored.version == stored.logits._version
        with_grad = torch.is_grad_enabled() and stored.logits.requires_grad
        return unchanged and stored.epsilon == self._epsilon and stored.values.requires_grad == with_grad

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._penalty = None  # its type or device may be another one now
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_penalty": None}  # it belongs to a graph, which cannot be copied

    def grouped_knots(self) -> tuple[Tensor, Tensor]:
        """Return differentiable ``[0, knots, 1]`` and numbers of knots, of shape (members or 1, n_features, ...)."""
        breaks = self._encode(None).breaks
        return (breaks, self.n_knots) if self.n_members is not None else (breaks[None], self.n_knots[None])

    def scaled(self, x: Tensor) -> Tensor:
        """Return the values scaled to [0, 1], of shape (members or 1, rows, n_features)."""
        values = self._scaled(x)
        return values if self.n_members is not None else values.reshape(1, -1, self.n_features)

    def _scaled(self, x: Tensor) -> Tensor:
        """Return the values scaled to [0, 1], of shape (members, rows, n_features), or that of x without members."""
        self._check_input(x)
        values = x if self.n_members is None else x.reshape(self.n_members, -1, self.n_features)
        if self.low is not None and self.scale is not None:
            values = self._on_range(values)
        elif not self.layout.is_cyclic:
            self._inspect(values)
        return into_unit(values) if self.layout.is_cyclic else values

    def _inspect(self, values: Tensor) -> None:
        """Warn once if values are far outside [0, 1], as raw columns are; later forward passes are not inspected."""
        if torch.compiler.is_compiling():  # first: compiled code is guarded by everything that is read before
            return
        if self._n_inspected >= MOST_INSPECTED or is_transformed() or not values.numel():
            return
        if values.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        self._n_inspected += 1
        low, high = torch.nan_to_num(values.detach(), nan=0.5).aminmax()
        if float(low) < -RANGE_TOLERANCE or float(high) > 1.0 + RANGE_TOLERANCE:
            self._n_inspected = MOST_INSPECTED
            warnings.warn(
                f"{type(self).__name__} has values from {float(low):.4g} to {float(high):.4g}, but without a range it "
                "takes those outside [0, 1] for the nearer end. Call set_range(low, high) with the range of each "
                "feature in the training rows, or make the layer by from_encoder(encoder).",
                stacklevel=4,
            )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        written = local_metadata.get("version", 1)  # torch's own, and none in a plain dictionary
        if written not in (1, None, self._version):
            hint = "Its knots would be those of other functions: make the layer with its family and degree."
            raise argument_error("state_dict", f"be that of a {self.layout.family} layer of this degree", prefix, hint)
        for name in ("low", "scale"):  # a range that the layer does not have yet
            if f"{prefix}{name}" in state_dict and getattr(self, name) is None:
                setattr(self, name, torch.empty_like(state_dict[f"{prefix}{name}"], device=self.n_knots.device))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def extra_repr(self) -> str:
        """Return the settings for `print`."""
        size = self.size if len(set(self.sizes)) == 1 else list(self.sizes)
        members = "" if self.n_members is None else f", n_members={self.n_members}"
        return f"{self.layout.family}, n_features={self.n_features}, size={size}, learnable={self.learnable}{members}"

    def _output_type(self, x: Tensor) -> torch.dtype:
        if torch.is_autocast_enabled(x.device.type):
            return torch.get_autocast_dtype(x.device.type)
        knots = self.breaks if self.logits is None else self.logits
        assert knots is not None
        return knots.dtype

    def _check_input(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise type_error("x", "be a tensor of floating-point numbers", type(x).__name__)
        lead = () if self.n_members is None else (self.n_members,)
        if x.dim() < 1 + len(lead) or x.shape[-1] != self.n_features or x.shape[: len(lead)] != lead:
            leading = "" if self.n_members is None else f"{self.n_members}, "
            raise argument_error("x", f"have the shape ({leading}..., {self.n_features})", tuple(x.shape))
        if self.missing == "error" and bool(torch.isnan(x).any()):
            raise argument_error("x", "hold no NaN", "NaN", "Fill them, or pass missing='zeros'.")


@final
class SplineEncoding(_Encoding):
    """Encode features by splines or radial functions on knots that are learned with the network, or fixed.

    Learned knots always stay in order and at least `min_spacing` apart. Values outside [0, 1] are moved to the nearer
    end; a missing value (NaN) becomes zeros, or a learned vector, and has no gradient. M-splines with learned knots
    are normalised to mean 0 and variance 1, because their height changes with the knots.

    Parameters
    ----------
    n_features : int
        Number of features.
    size : int or sequence of int
        Columns per feature, or a sequence with one number for each feature; smaller encodings are padded with zeros.
    family : {"bspline", "mspline", "ispline", "cyclic", "natural", "radial", "thin_plate"}, default="bspline"
        Family of functions, a name of `knotwork.basis.FAMILIES` with placements. The range of cyclic ones is one
        period. Radial functions with learned knots also learn the factors of their widths, `log_widths`.
    degree : int, default=3
        Degree of the pieces.
    knots : array-like, optional
        Initial interior knots in [0, 1]: of shape (n_features, K) with K = size - degree - 1, for families without a
        degree and cyclic ones as in `knotwork.basis`; a sequence with an array for each feature; or either with a
        leading axis of members. By default at equal distances.
    learnable : bool, default=True
        Whether the knots are parameters.
    min_spacing : float, default=0.001
        Smallest distance between learned knots.
    missing : {"zeros", "indicator", "learned", "error"}, default="zeros"
        How to encode NaN: by zeros, by zeros and a column that is 1 if the value is missing, or by a learned vector
        for each feature, `missing_vectors`, which starts at zero.
    n_members : int, optional
        Number of members, each with its own knots; input and output then have a leading axis of members.

    Notes
    -----
    The functions are those of `knotwork.basis`. Give the knots a parameter group without weight decay, and add
    ``1e-4 * layer.spacing_penalty()`` to the loss.

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
        check_choice(family, "family", [name for name, traits in FAMILIES.items() if traits.with_placements])
        check_bool(learnable, "learnable")
        super().__init__(
            Layout(family, degree, normalised=learnable and FAMILIES[family].normalised), n_features, size,
            knots=knots, learnable=learnable, min_spacing=min_spacing, missing=missing, n_members=n_members,
        )  # fmt: skip

    @classmethod
    def from_encoder(cls, encoder: Any, learnable: bool = False) -> Self:
        """Return a layer that encodes raw values as a fitted `SplineEncoder` does.

        Parameters
        ----------
        encoder : SplineEncoder
            A fitted encoder.
        learnable : bool
            Whether the knots are parameters, which start from those of the encoder.
        """
        knots = _knots_of(encoder, "SplineEncoder", "PiecewiseLinearEncoding for PiecewiseLinearEncoder")
        settings = {"learnable": learnable, "missing": encoder.missing}
        family = family_name(encoder.fitted_[0].basis)
        layer = cls(len(knots), encoder.size, family=family, degree=encoder.degree, knots=knots, **settings)
        return layer.set_range(*encoder.domain_.T)


@final
class PiecewiseLinearEncoding(_Encoding):
    """Encode features by piecewise-linear ramps, one for each bin, with edges that are learned or fixed.

    Parameters
    ----------
    n_features : int
        Number of features.
    size : int or sequence of int
        Bins per feature, or a sequence with one number for each feature; smaller encodings are padded with zeros.
    knots : array-like, optional
        Initial interior edges in [0, 1], as in `SplineEncoding`. By default at equal distances.
    learnable : bool, default=True
        Whether the edges are parameters.
    min_spacing : float, default=0.001
        Smallest width of a learned bin.
    missing : {"zeros", "indicator", "learned", "error"}, default="zeros"
        How to encode NaN, as in `SplineEncoding`.
    n_members : int, optional
        Number of members, each with its own edges, as in `SplineEncoding`.

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
            Layout("ple", 0), n_features, size,
            knots=knots, learnable=learnable, min_spacing=min_spacing, missing=missing, n_members=n_members,
        )  # fmt: skip

    @classmethod
    def from_encoder(cls, encoder: Any, learnable: bool = False) -> Self:
        """Return a layer that encodes raw values as a fitted `PiecewiseLinearEncoder` does.

        Parameters are those of `SplineEncoding.from_encoder`. Every feature has as many columns as the feature with the
        most bins, or as the encoder's `size` if that is larger.
        """
        scaled = _knots_of(encoder, "PiecewiseLinearEncoder", "SplineEncoding for SplineEncoder")
        sizes = [len(knots) + 1 for knots in scaled]
        layer = cls(len(scaled), sizes, knots=scaled, learnable=learnable, missing=encoder.missing)
        layer.size = max(layer.size, 0 if encoder.adaptive else encoder.size)
        return layer.set_range(*encoder.domain_.T)


def periodic_rows(x: Tensor, frequencies: Tensor, phases: Tensor | None = None) -> Tensor:
    """Return ``cos(2 pi c x)`` and then ``sin(2 pi c x)``, or with phases ``cos(2 pi c x + b)``, along a new axis.

    Frequencies c and phases b have the shape of x without its batch axes, and a last axis of frequencies.
    """
    angles = 2.0 * math.pi * frequencies * x[..., None]
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


def _check_sizes(size: int | Sequence[int], n_features: int, smallest: int) -> tuple[int, ...]:
    """Return the size of each feature."""
    sizes = [size] * n_features if isinstance(size, int | np.integer) else list(size)
    if len(sizes) != n_features:
        raise argument_error("size", f"be an integer or have one for each of the {n_features} features", size)
    return tuple(check_int(feature_size, "size", minimum=smallest) for feature_size in sizes)


def _check_spacing(min_spacing: float, n_widths: int) -> float:
    """Return the smallest spacing, which must leave room for `n_widths` intervals."""
    if not 0.0 < min_spacing < 1.0 / n_widths:
        limits = f"be larger than 0 and smaller than 1 / {n_widths}, one over the number of intervals"
        raise argument_error("min_spacing", limits, min_spacing)
    return float(min_spacing)


def _initial_breaks(knots: Any, n_knots: Sequence[int], n_members: int | None) -> Tensor:
    """Return ``[0, knots, 1]`` of every feature, padded with ones, in float64."""
    lead = () if n_members is None else (n_members,)
    breaks = torch.ones(*lead, len(n_knots), max(n_knots) + 2, dtype=torch.float64)
    breaks[..., 0] = 0.0
    if knots is not None and n_members is not None and np.ndim(knots[0]) == 2:
        if len(knots) != n_members:
            raise argument_error("knots", f"have a leading axis of {n_members} members", len(knots))
        for member in range(n_members):
            breaks[member] = _initial_breaks(knots[member], n_knots, None)
        return breaks
    if knots is not None and len(knots) != len(n_knots):
        raise argument_error("knots", f"be given for each of the {len(n_knots)} features", len(knots))
    for feature, count in enumerate(n_knots):
        row = np.arange(1, count + 1) / (count + 1) if knots is None else np.asarray(knots[feature], dtype=np.float64)
        if row.shape != (count,):
            raise argument_error("knots", f"hold {count} numbers for feature {feature}", row)
        if not np.all(np.diff(np.concatenate(([0.0], row, [1.0]))) > 0.0):
            raise argument_error("knots", f"increase strictly between 0 and 1 for feature {feature}", row)
        breaks[..., feature, 1 : count + 1] = torch.from_numpy(row)
    return breaks


def _knots_of(encoder: Any, kind: str, other: str) -> list[npt.NDArray[np.float64]]:
    """Return the knots of an encoder that a layer can replace, on its range scaled to [0, 1]."""
    if type(encoder).__name__ != kind:
        hint = f"There is also {other}; other encoders transform the table in front of the network."
        raise type_error("encoder", f"be a fitted {kind}", encoder, hint)
    if encoder.extrapolation != "clip" and not encoder.fitted_[0].basis.is_cyclic:
        hint = "Layers move values outside the range to its end: fit the encoder with extrapolation='clip'."
        raise argument_error("extrapolation", "be 'clip' in a layer", encoder.extrapolation, hint)
    return scaled_knots_of(encoder)


def scaled_knots_of(encoder: Any) -> list[npt.NDArray[np.float64]]:
    """Return the knots of a fitted encoder on its range scaled to [0, 1], strictly inside."""
    return [scaled_knots(knots, domain) for knots, domain in zip(encoder.knots_, encoder.domain_, strict=True)]


def _float64(values: npt.ArrayLike | Tensor) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().double().cpu()
    return torch.from_numpy(np.array(values, dtype=np.float64))


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
