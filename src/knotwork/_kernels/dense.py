"""Functions that all vary everywhere, at values between 0 and 1: natural splines, Gaussian bumps, thin-plate splines.

Besides values and breaks, a row needs a table that depends on the knots only, not on rows: the bends of natural
splines, which are the second derivatives of all curves at all knots, or the factors of distances of bumps. That of
fixed knots is computed once. The formulas are those of `NaturalSpline`, `RadialBasis` and `ThinPlateSpline`.
"""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from knotwork._kernels.dispatch import Operation, Packing, is_transformed
from knotwork._kernels.encoding import TYPES, Knots, StackPart
from knotwork.basis import TRAITS, Functions

__all__ = ["bends_formula", "bump_widths", "dense_formula", "dense_rows", "table_formula"]

N_DOUBLINGS = 6
"""Factors of the inverse: terms up to the power 63 are summed, and the rest is smaller than 2**-63."""

_FIXED: MutableMapping[Tensor, dict[int, tuple[Any, Tensor]]] = WeakTensorKeyDictionary()
"""The tables of breaks that are not learned, by kind, with their version; they are released with the breaks."""


def bends_formula(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return the second derivatives of all curves at all breaks.

    Parameters
    ----------
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature.

    Returns
    -------
    Tensor of shape (G, F, K + 2, K + 2)
        Rows belong to breaks, columns to curves; zeros in the padding. Differentiable with respect to the breaks.

    Notes
    -----
    The matrix of the system in `NaturalSpline` is D (I + L) with D diagonal and L of norm 1/2, so that
    ``(I + L)^-1 = (I - L) (I + L^2) (I + L^4) ...``: no step waits for each single knot.
    """
    places = torch.arange(breaks.shape[-1] - 1, device=breaks.device)
    widths = torch.where(places <= n_knots[..., None], breaks[..., 1:] - breaks[..., :-1], 1.0)[..., None]
    left, right, inner = widths[..., :-1, :], widths[..., 1:, :], places[1:]
    curves = torch.eye(breaks.shape[-1], dtype=breaks.dtype, device=breaks.device)
    slopes = (curves[1:] - curves[:-1]) / widths
    rises = slopes[..., 1:, :] - slopes[..., :-1, :]
    used = (inner <= n_knots[..., None])[..., None]
    below = (inner[:, None] == inner + 1).to(breaks.dtype)
    above = (inner[:, None] == inner - 1) & (inner <= n_knots[..., None])[..., None, :]
    power = torch.where(used, -(left * below + right * above.to(breaks.dtype)) / (2.0 * (left + right)), 0.0)
    bends = torch.where(used, 3.0 * rises / (left + right), 0.0)
    for doubling in range(N_DOUBLINGS):
        bends = bends + power @ bends
        power = power @ power if doubling + 1 < N_DOUBLINGS else power
    return torch.nn.functional.pad(bends, (0, 0, 1, 1))


def bump_widths(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return the widths of `knotwork.basis.RadialBasis` for breaks of shape (G, F, K + 2), padded with ones."""
    places = torch.arange(breaks.shape[-1], device=breaks.device)
    last = n_knots[..., None] + 1
    before, after = (places - 1).clamp(min=0).expand_as(breaks), torch.minimum(places + 1, last)
    steps = (after - before).clamp(min=1)
    widths = (torch.gather(breaks, -1, after) - torch.gather(breaks, -1, before)) / steps
    return torch.where(places <= last, widths, 1.0)


def table_formula(breaks: Tensor, n_knots: Tensor, log_widths: Tensor | None, *, kind: int) -> Tensor:
    """Return the table of one kind of functions; breaks and numbers of knots as in `bends_formula`.

    It is that of `bends_formula`, or of shape (G, F, K + 2) the factors ``1 / (sqrt(2) w)`` of the widths w of bumps,
    which are those of `bump_widths` times ``exp(log_widths)``, of shape (G, F, size).
    """
    if kind == Functions.NATURAL:
        return bends_formula(breaks, n_knots)
    widths = bump_widths(breaks, n_knots)
    if log_widths is not None:
        n_breaks, n = breaks.shape[-1], log_widths.shape[-1]
        widths = widths * torch.nn.functional.pad(log_widths[..., :n_breaks], (0, max(n_breaks - n, 0))).exp()
    return torch.reciprocal(2.0**0.5 * widths)


def dense_formula(
    x: Tensor, breaks: Tensor, n_knots: Tensor, table: Tensor | None, *, kind: int, size: int, dtype: torch.dtype
) -> Tensor:
    """Return the rows of one kind of functions; the table is that of `table_formula`, None for thin plates.

    Other arguments are those of `rows_formula`, and `dtype` is the type of the rows. Bumps are ``exp(-(s (x - c))^2)``
    of the breaks c and their factors s; thin plates are x and ``|x - c|^3`` of the knots c.
    """
    missing = torch.isnan(x)[..., None]
    x = torch.where(missing, 0.0, x.to(breaks.dtype)[..., None]).clamp(0.0, 1.0)
    if kind == Functions.NATURAL:
        assert table is not None
        rows = _natural_rows(x, breaks, n_knots, table)
    else:
        distances = x - breaks[:, None]
        if table is not None:
            rows = torch.exp(-((table[:, None] * distances) ** 2))
        else:
            rows = torch.cat([x, distances[..., 1:].abs() ** 3], dim=-1)
        n_functions = (n_knots + TRAITS[kind].smallest)[:, None, :, None]
        rows = torch.where(torch.arange(breaks.shape[-1], device=x.device) < n_functions, rows, 0.0)
    rows = torch.nn.functional.pad(rows[..., :size], (0, max(size - rows.shape[-1], 0)))
    return torch.where(missing, 0.0, rows).to(dtype)


def _natural_rows(x: Tensor, breaks: Tensor, n_knots: Tensor, bends: Tensor) -> Tensor:
    """Return hats at the two neighbouring breaks, and the bends there times numbers; x has shape (G, B, F, 1)."""
    shape = (*x.shape[:-1], breaks.shape[-1])
    interval = (breaks[:, None, :, 1:-1] <= x).sum(dim=-1)
    interval = torch.minimum(interval, n_knots[:, None])[..., None]
    all_breaks = breaks[:, None].expand(shape)
    left, right = (torch.gather(all_breaks, -1, interval + end) for end in (0, 1))
    width = right - left
    u = (x - left) / width
    w, sixth = 1.0 - u, width.square() / 6.0
    tables, wide = bends.transpose(1, 2), interval.expand(shape)
    at_left, at_right = (torch.gather(tables, 1, wide + end) for end in (0, 1))
    rows = sixth * ((w**3 - w) * at_left + (u**3 - u) * at_right)
    return rows.scatter_add(-1, torch.cat([interval, interval + 1], dim=-1), torch.cat([w, u], dim=-1))


def _table_shapes(breaks: Tensor, *_: Any, kind: int) -> tuple[Tensor]:
    return (breaks.new_empty(*breaks.shape, *breaks.shape[-1:] * (kind == Functions.NATURAL)),)


_TABLE = Operation(
    table_formula,
    triton="dense_triton.TABLE",
    packing=Packing(lambda settings: [settings["kind"]], lambda numbers: {"kind": int(numbers[0])}, _table_shapes),
)


def _to_numbers(settings: dict[str, Any]) -> list[float]:
    return [settings["kind"], settings["size"], TYPES.index(settings["dtype"])]


def _to_settings(numbers: tuple[float, ...]) -> dict[str, Any]:
    kind, size, dtype = (int(number) for number in numbers)
    return {"kind": kind, "size": size, "dtype": TYPES[dtype]}


def _shapes(x: Tensor, breaks: Tensor, *_: Any, kind: int, size: int, dtype: torch.dtype) -> tuple[Tensor]:
    del kind
    return (breaks.new_empty(*x.shape, size, dtype=dtype),)


_DENSE = Operation(
    dense_formula,
    cpu="dense_cpu.DENSE",
    types=TYPES[:2],
    triton="dense_triton.DENSE",
    packing=Packing(_to_numbers, _to_settings, _shapes),
    leading=1,
)


def _fixed_table(breaks: Tensor, n_knots: Tensor, kind: int) -> Tensor:
    """Return the table of all groups, computed once for breaks that are not differentiated."""
    captured = breaks.is_cuda and torch.cuda.is_current_stream_capturing()  # nothing else may keep a graph's memory
    if breaks.requires_grad or captured or is_transformed() or torch.compiler.is_compiling():
        return _TABLE(breaks, n_knots, None, kind=kind)  # type: ignore[no-any-return]
    lasting = breaks if breaks._base is None else breaks._base  # layers without members add an axis at each call
    version = lasting._version, n_knots._version, breaks.shape
    known = _FIXED.setdefault(lasting, {})
    if kind not in known or known[kind][0] != version:
        known[kind] = version, table_formula(breaks.double(), n_knots, None, kind=kind).to(breaks.dtype)
    return known[kind][1]


def dense_rows(part: StackPart, x: Tensor, breaks: Tensor, knots: Knots, *, size: int, dtype: torch.dtype) -> Tensor:
    """Return the rows of a part, padded with zeros; x, knots, size and dtype are those of `encode`.

    `breaks` are those of all groups. The result is differentiable with respect to x, breaks and the widths of bumps.
    """
    lasting = None if part.learned else knots.breaks  # a tensor for which the table is computed once
    part_breaks, n_knots = part.of(breaks if lasting is None else lasting), part.of(knots.n_knots)
    log_widths = part.of(knots.log_widths) if knots.log_widths is not None and part.kind == Functions.RADIAL else None
    if part.kind == Functions.THIN_PLATE:
        table = None
    elif lasting is None or log_widths is not None:
        table = _TABLE(part_breaks, n_knots, log_widths, kind=part.kind)
    else:
        table = part.of(_fixed_table(lasting, knots.n_knots, part.kind))
    settings = {"kind": part.kind, "size": size, "dtype": dtype}
    return _DENSE(part.of(x, axis=2), part_breaks, n_knots, table, **settings)  # type: ignore[no-any-return]
