"""Interactions of features: products of functions of two encoded features, of low rank."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_int, check_number, type_error
from knotwork.nn._encoding import SplineEncoding, scaled_knots_of
from knotwork.nn._linear import (
    Draw,
    Initial,
    Stream,
    draw_columns,
    flat_rows,
    initialise,
    make_draw,
    member_seeds,
    normal,
)


@dataclass(frozen=True)
class WaveRule:
    """How functions of pairs start: as random waves along each feature, fitted by ridge regression.

    Half waves between the ends of a feature have the standard deviation `slowest` in the first output, a trend, and by
    default `fastest` in the last. They are fitted at `n_points` values, several for each knot of usual encodings, with
    the penalty `ridge`, a share of the mean square of the columns, which only makes the system regular.
    """

    slowest: float = 1.0
    fastest: float = 16.0
    n_points: int = 65
    ridge: float = 1e-3


WAVE_RULE = WaveRule()


@final
@dataclass(frozen=True)
class InteractionConfig:
    """Interactions of an estimator's networks.

    Parameters
    ----------
    pairs : int, "auto" or sequence of pair, default="auto"
        Pairs of numerical columns, by name or by position in a table without names; or the maximum number of pairs,
        found on the training rows by `knotwork.find_pairs`; or ``"auto"``: those that stand out.
    rank : int, default=4
        Products of each output; a larger rank fits more irregular surfaces.
    width : int, default=16
        Outputs of each pair, which enter the network along with the encoded columns.
    waves : float, default=16.0
        How rough surfaces are before training: the standard deviation of the half waves along a column in the last
        output, at least 1, which is that of the first. 0 for independent random weights.

    Examples
    --------
    >>> InteractionConfig([("latitude", "longitude")], rank=2)
    InteractionConfig(pairs=(('latitude', 'longitude'),), rank=2, width=16, waves=16.0)
    """

    pairs: Any = "auto"
    rank: int = 4
    width: int = 16
    waves: float = WAVE_RULE.fastest

    def __post_init__(self) -> None:
        check_int(self.rank, "rank", minimum=1)
        check_int(self.width, "width", minimum=1)
        least = WAVE_RULE.slowest
        check_number(self.waves, "waves", f"of at least {least:g}, or 0", lambda waves: waves == 0 or waves >= least)
        object.__setattr__(self, "pairs", _checked_pairs(self.pairs))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Return a configuration from one, or from its pairs."""
        return value if isinstance(value, cls) else cls(value)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of pairs, rank and width, if the pairs are known; networks of one stack have the same."""
        return len(self.pairs), self.rank, self.width


def _checked_pairs(pairs: Any) -> Any:
    """Return a number, ``"auto"``, or a tuple of pairs of different columns."""
    hint = "Write interactions=[('latitude', 'longitude')], a number of pairs such as 3, or 'auto'."
    requirement = "be 'auto', a number of pairs, or a sequence of pairs of columns"
    if isinstance(pairs, str) and pairs == "auto":
        return pairs
    if isinstance(pairs, Integral) and not isinstance(pairs, bool):
        return check_int(pairs, "interactions", minimum=1, hint=hint)
    if isinstance(pairs, str | bool) or not isinstance(pairs, Sequence):
        raise type_error("interactions", requirement, pairs, hint)
    out = tuple(tuple(pair) if isinstance(pair, list | tuple) else pair for pair in pairs)
    for pair in out:
        named = isinstance(pair, tuple) and all(isinstance(column, str | Integral) for column in pair)
        if not named or len(pair) != 2 or pair[0] == pair[1]:
            raise argument_error("interactions", "be pairs of two different columns", pair, hint)
    if not out or any(set(pair) == set(other) for pair, other in combinations(out, 2)):
        raise argument_error("interactions", "have at least one pair, and no pair twice", pairs, hint)
    return out


@final
class PairEmbedding(Initial):
    """Learned functions of two encoded features: sums of products of a function of one and a function of the other.

    Parameters
    ----------
    pairs : sequence of pair of int
        Places of the features of each pair; with `n_members` a sequence of such sequences, of equal length, may give
        each member its own pairs.
    size : int
        Columns of each encoded feature; smaller encodings are padded with zeros.
    rank : int, default=4
        Products of each output.
    width : int, default=16
        Outputs of each pair.
    n_members : int, optional
        Number of embeddings that are computed together, each with its own weights; input and output then have a leading
        axis of members.

    Notes
    -----
    Output k of the pair (f, g) is ``sum over r of (a_rk . x_f + c_rk) (b_rk . x_g + d_rk) / sqrt(rank)`` for encoded
    values x. With B-splines it is a tensor-product spline whose matrix of coefficients has the rank `rank`: 2 m numbers
    for each product, where all m x m products of the functions would need m^2. A missing value, encoded by zeros,
    leaves a function of the other feature. Weights are random at first; after an encoding, `start_from` gives each
    factor the shape of a random wave.

    Examples
    --------
    >>> layers = nn.Sequential(SplineEncoding(3, size=7), PairEmbedding([(0, 1), (0, 2)], size=7, width=5))
    >>> layers(torch.rand(8, 3)).shape
    torch.Size([8, 2, 5])
    """

    features: Tensor

    def __init__(
        self, pairs: Sequence[Any], size: int, *, rank: int = 4, width: int = 16, n_members: int | None = None
    ) -> None:
        super().__init__()
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.size, self.rank = check_int(size, "size", minimum=1), check_int(rank, "rank", minimum=1)
        self.width = check_int(width, "width", minimum=1)
        members = n_members or 1
        places = _places(pairs, members)
        shape = members, places.shape[1], self.size, self.rank * self.width
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(members, places.shape[1], shape[-1]))
        self.n_needed = int(places.max()) + 1
        # The default device, which may be another inside of `with torch.device(...)`.
        self.register_buffer("features", places.to(torch.get_default_device()), persistent=False)
        initialise(self, member_seeds(members))

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return self.features.shape[1] // 2

    @property
    def pairs(self) -> list[list[tuple[int, int]]]:
        """Places of the features of each pair, for each member."""
        return [list(zip(row[::2], row[1::2], strict=True)) for row in self.features.tolist()]

    def start(self, draw: Draw) -> None:
        """Draw biases and weights, column by column: they do not depend on padding."""
        self.bias.copy_(draw(math.prod(self.bias.shape[1:])).view_as(self.bias))
        self.weight.copy_(draw_columns(draw, self.weight.shape))

    @torch.no_grad()
    def start_from(self, encoded: Tensor, draw: Draw, *, fastest: Sequence[float] = (WAVE_RULE.fastest,)) -> None:
        """Set the initial weights so that each factor is a random wave.

        Parameters
        ----------
        encoded : Tensor of shape (members or 1, n_points, n_features, size)
            Encoded values of each feature, in increasing order.
        draw : Draw
            Source of random numbers.
        fastest : sequence of float, default=(16.0,)
            The deviation of w in the last output, one for all members or for each; 0 leaves the weights as they are.

        Notes
        -----
        The factors are fitted to ``sqrt(2) cos(pi (w t + p))`` at t from 0 to 1, with w normal and p uniform, by least
        squares with a small penalty. The deviation of w increases from output to output: smooth and rough surfaces.
        Independent weights would be rough surfaces only, which networks overfit.
        """
        n_members, n_factors, size, n_outputs = self.weight.shape
        waves = normal(draw, n_factors * n_outputs), draw(n_factors * n_outputs)
        # On the CPU: a GPU would load a library for these few small systems.
        w, p = (each.view(n_members, n_factors, 1, n_outputs).double().cpu() for each in waves)
        share = torch.linspace(0.0, 1.0, self.width + 2, dtype=torch.float64, device="cpu")[1:-1]
        slowest = WAVE_RULE.slowest
        last = torch.tensor([max(each, slowest) for each in fastest], dtype=torch.float64, device="cpu")
        w = w * (slowest * (last[:, None, None, None] / slowest) ** share).repeat(1, 1, 1, self.rank)
        t = torch.linspace(0.0, 1.0, encoded.shape[1], dtype=torch.float64, device="cpu")[:, None]
        target = math.sqrt(2.0) * torch.cos(math.pi * (w * t + p))
        by_feature = encoded.double().cpu().transpose(1, 2).expand(n_members, -1, -1, -1)
        index = self.features.cpu()[..., None, None].expand(-1, -1, *by_feature.shape[2:])
        design = nn.functional.pad(by_feature.gather(1, index), (0, 1), value=1.0)
        gram = design.transpose(-1, -2) @ design
        mean = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / (design.square().sum(dim=-2) > 0).sum(dim=-1)
        penalty = WAVE_RULE.ridge * mean[..., None, None] * torch.eye(size + 1, dtype=torch.float64, device="cpu")
        fitted = torch.linalg.solve(gram + penalty, design.transpose(-1, -2) @ target)
        started = torch.tensor([each > 0 for each in fastest], device="cpu").expand(n_members).to(self.weight.device)
        fitted = fitted.to(self.weight)
        self.weight.copy_(torch.where(started[:, None, None, None], fitted[..., :-1, :], self.weight))
        self.bias.copy_(torch.where(started[:, None, None], fitted[..., -1, :], self.bias))

    def forward(self, blocks: Tensor) -> Tensor:
        """Map encoded values of shape (..., n_features, size) to (..., n_pairs, width)."""
        if blocks.dim() < 2 or blocks.shape[-1] != self.size or blocks.shape[-2] < self.n_needed:
            requirement = f"have the shape (..., n_features, {self.size}) with all features of the pairs"
            raise argument_error("blocks", requirement, tuple(blocks.shape))
        rows = flat_rows(blocks, self.n_members, n_last=2)
        return self.forward_stack(rows).reshape(*blocks.shape[:-2], self.n_pairs, self.width)

    def forward_stack(self, encoded: Tensor) -> Tensor:
        """Map encoded values of shape (n_members, batch, n_features, size) to (n_members, batch, n_pairs, width)."""
        n_members, batch = encoded.shape[:2]
        weight, bias = self.weight.flatten(0, 1), self.bias.to(self.weight.dtype).flatten(0, 1)
        # A gather works on members with different pairs, and in captured graphs.
        index = self.features[:, None, :, None].expand(-1, batch, -1, self.size)
        chosen = encoded.to(weight.dtype).gather(2, index).transpose(1, 2).reshape(len(weight), batch, self.size)
        factors = torch.baddbmm(bias[:, None], chosen, weight)
        first, second = factors.view(n_members, self.n_pairs, 2, batch, self.rank, self.width).unbind(2)
        total: Tensor = (first * second).sum(dim=-2)
        return (total / math.sqrt(self.rank)).transpose(1, 2)


def _places(pairs: Sequence[Any], n_members: int) -> Tensor:
    """Return places of features, the two of each pair in turn, of shape (n_members, 2 n_pairs), int64."""
    try:
        places = torch.tensor([*pairs], dtype=torch.int64, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise argument_error("pairs", "be pairs of places of features, as many for each member", pairs) from error
    valid = places.dim() in (2, 3) and places.shape[-1] == 2 and places.shape[-2] > 0
    if not valid or bool((places < 0).any()) or (places.dim() == 3 and len(places) != n_members):
        raise argument_error("pairs", "be pairs of places of features, as many for each member", pairs)
    rows = places if places.dim() == 3 else places.expand(n_members, *places.shape)
    return rows.flatten(1)


def spread_values(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return values from 0 to 1, equally many between any two knots, of shape (n_members, n_points, n_features).

    `breaks`, of shape (n_members, n_features, K + 2), are ``[0, knots, 1]``, padded with ones.
    """
    places = torch.linspace(0.0, 1.0, WAVE_RULE.n_points, device=breaks.device) * (n_knots[..., None] + 1)
    left = places.long().minimum(n_knots[..., None].long())
    low, high = breaks.gather(-1, left), breaks.gather(-1, left + 1)
    return (low + (places - left) * (high - low)).to(breaks.dtype).transpose(1, 2)


@final
class TensorSplineEncoding(nn.Module):
    """Encode pairs of features by tensor-product splines of low rank, with knots that are learned or fixed.

    Parameters
    ----------
    n_features : int
        Number of features of the input.
    pairs : sequence of pair of int
        Places of the two features of each pair. Features in no pair are ignored.
    size : int, default=15
        Functions of each feature.
    rank : int, default=4
        Products of each output, as in `PairEmbedding`.
    width : int, default=16
        Outputs of each pair.
    family : {"bspline", "ispline", "mspline"}, default="bspline"
        The functions, as in `SplineEncoding`.
    degree : int, default=3
        Degree of the polynomials.
    knots : array-like, optional
        Initial interior knots of every feature in [0, 1], as in `SplineEncoding`. By default at equal distances.
    learnable : bool, default=True
        Whether the knots are parameters.
    min_spacing : float, default=0.001
        Smallest distance of learned knots.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        How to encode NaN, as in `SplineEncoding`; with zeros, the rest is a function of the other feature.
    n_members : int, optional
        Number of encodings that are computed together, each with its own knots and weights; input and output then have
        a leading axis of members.

    Notes
    -----
    For the functions b of two features x and y, output k is ``sum over r of A_rk(x) C_rk(y) / sqrt(rank)``, with
    ``A_rk(x) = a_rk . b(x) + c_rk`` and likewise C_rk(y). The m x m products of the functions are never computed.

    Examples
    --------
    >>> layer = TensorSplineEncoding(n_features=8, pairs=[(6, 7)], width=4)
    >>> model = nn.Sequential(layer, nn.Flatten(-2), nn.Linear(layer.out_features, 1))
    >>> model(torch.rand(5, 8)).shape
    torch.Size([5, 1])
    """

    columns: Tensor

    def __init__(
        self,
        n_features: int,
        pairs: Sequence[Any],
        *,
        size: int = 15,
        rank: int = 4,
        width: int = 16,
        family: str = "bspline",
        degree: int = 3,
        knots: Any = None,
        learnable: bool = True,
        min_spacing: float = 1e-3,
        missing: str = "zeros",
        n_members: int | None = None,
    ) -> None:
        super().__init__()
        self.n_features = check_int(n_features, "n_features", minimum=2)
        places = _places(pairs, 1).view(-1, 2).tolist()
        used = sorted({feature for pair in places for feature in pair})
        if used[-1] >= n_features or any(first == second for first, second in places):
            raise argument_error("pairs", f"be two different features each, from 0 to {n_features - 1}", pairs)
        self.encoding = SplineEncoding(
            len(used), size, family=family, degree=degree, knots=_of_features(knots, used, n_features),
            learnable=learnable, min_spacing=min_spacing, missing=missing, n_members=n_members,
        )  # fmt: skip
        among_used = [(used.index(first), used.index(second)) for first, second in places]
        columns = self.encoding.get_output_shape()[-1]
        self.products = PairEmbedding(among_used, columns, rank=rank, width=width, n_members=n_members)
        self.register_buffer("columns", torch.tensor(used), persistent=False)
        if not self.columns.is_meta:
            self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Draw the weights of smooth functions."""
        members = self.products.n_members
        values = spread_values(*self.encoding.grouped_knots())
        encoded = self.encoding(values if members else values[0])
        draw = make_draw(member_seeds(members or 1), Stream.PAIRS)
        self.products.start_from(encoded if members else encoded[None], draw)

    @classmethod
    def from_encoder(cls, encoder: Any, learnable: bool = False, *, rank: int = 4, width: int = 16) -> Self:
        """Return a layer with the functions of a fitted `TensorSplineEncoder`, for raw values.

        Parameters
        ----------
        encoder : TensorSplineEncoder
            A fitted encoder.
        learnable : bool
            Whether the knots are parameters, which start from those of the encoder.
        rank, width : int
            As in the constructor.
        """
        labels = list(vars(encoder).get("feature_names_in_", range(encoder.n_features_in_)))
        pairs = [(labels.index(first), labels.index(second)) for first, second in encoder.pairs_]
        layer = cls(
            len(labels), pairs, size=encoder.size, rank=rank, width=width, family=encoder.family, degree=encoder.degree,
            knots=scaled_knots_of(encoder), learnable=learnable, missing=encoder.missing,
        )  # fmt: skip
        return layer.set_range(*encoder.domain_.T)

    @property
    def out_features(self) -> int:
        """Number of outputs of all pairs together, as the next linear layer needs it after ``flatten(-2)``."""
        return self.products.n_pairs * self.products.width

    def set_range(self, low: Any, high: Any) -> Self:
        """Set the range of every feature that is scaled to [0, 1]; parameters as in `SplineEncoding.set_range`."""
        ends = [np.asarray(end.detach().cpu() if isinstance(end, Tensor) else end) for end in (low, high)]
        for name, end in zip(("low", "high"), ends, strict=True):
            if end.ndim and end.shape[-1] != self.n_features:
                raise argument_error(name, f"have a number for each of the {self.n_features} features", end.shape)
        self.encoding.set_range(*(end[..., self.columns.tolist()] if end.ndim else end for end in ends))
        return self

    def interior_knots(self) -> Tensor:
        """Return the interior knots of the features in pairs, in increasing order of features, of shape (..., K)."""
        return self.encoding.interior_knots()

    def spacing_penalty(self, epsilon: float = 1e-6) -> Tensor:
        """Return the mean of ``1 / (width + epsilon)`` over the intervals between knots, as in `SplineEncoding`."""
        return self.encoding.spacing_penalty(epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Encode values of shape (..., n_features), with a leading axis of members if any, to (..., n_pairs, width)."""
        if x.dim() < 1 or x.shape[-1] != self.n_features:
            raise argument_error("x", f"have the shape (..., {self.n_features})", tuple(x.shape))
        encoded: Tensor = self.products(self.encoding(x.index_select(-1, self.columns)))
        return encoded


def _of_features(knots: Any, used: Sequence[int], n_features: int) -> Any:
    """Return the knots of some features, if knots are given."""
    if knots is None:
        return None
    if len(knots) != n_features:
        raise argument_error("knots", f"be given for each of the {n_features} features", len(knots))
    return [knots[place] for place in used]
