"""Natural cubic splines at values between 0 and 1: hats at the two neighbouring knots, and the bends of all curves.

The bends, second derivatives of all curves at all knots, depend on the knots only, not on rows: those of fixed knots
are computed once. A row is then two of their rows, each times a number. The formulas are those of `NaturalSpline`.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from knotwork._kernels.dispatch import Operation, Packing, Path, as_array, in_threads, is_transformed, over_chunks
from knotwork._kernels.encoding import TYPES, Knots, Part
from knotwork._kernels.encoding_cpu import ROWS_PER_CHUNK, clip
from knotwork.basis._compiled import compiled

__all__ = ["NATURAL_ROWS", "bends_formula", "natural_formula", "natural_rows"]

N_DOUBLINGS = 6
"""Factors of the inverse: terms up to the power 63 are summed, and the rest is smaller than 2**-63."""

_FIXED: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""The bends of breaks that are not learned, with their version; they are released with the breaks."""


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


def _bends(breaks: Tensor, n_knots: Tensor) -> Tensor:
    """Return `bends_formula`, computed once for breaks that are not differentiated."""
    captured = breaks.is_cuda and torch.cuda.is_current_stream_capturing()  # nothing else may keep a graph's memory
    if breaks.requires_grad or captured or is_transformed() or torch.compiler.is_compiling():
        return bends_formula(breaks, n_knots)
    lasting = breaks if breaks._base is None else breaks._base  # layers without members add an axis at each call
    version = lasting._version, n_knots._version, breaks.shape
    known = _FIXED.get(lasting)
    if known is None or known[0] != version:
        known = _FIXED[lasting] = version, bends_formula(breaks.double(), n_knots).to(breaks.dtype)
    bends: Tensor = known[1]
    return bends


def natural_formula(x: Tensor, breaks: Tensor, n_knots: Tensor, bends: Tensor, *, size: int) -> Tensor:
    """Return the rows of natural splines; bends are those of `bends_formula`, other arguments as in `rows_formula`."""
    missing = torch.isnan(x)
    x = torch.where(missing, 0.0, x).to(breaks.dtype).clamp(0.0, 1.0)
    interval = torch.minimum((breaks[:, None, :, 1:-1] <= x[..., None]).sum(dim=-1), n_knots[:, None])[..., None]
    all_breaks = breaks[:, None].expand(*x.shape, breaks.shape[-1])
    left, right = (torch.gather(all_breaks, -1, interval + end) for end in (0, 1))
    width = right - left
    u = (x[..., None] - left) / width
    w, sixth = 1.0 - u, width.square() / 6.0
    tables, wide = bends.transpose(1, 2), interval.expand(*x.shape, bends.shape[-1])
    at_left, at_right = (torch.gather(tables, 1, (wide + end).clamp(max=bends.shape[-2] - 1)) for end in (0, 1))
    rows = sixth * ((w**3 - w) * at_left + (u**3 - u) * at_right)
    rows = torch.nn.functional.pad(rows, (0, size - rows.shape[-1]))
    rows = rows.scatter_add(-1, torch.cat([interval, interval + 1], dim=-1), torch.cat([w, u], dim=-1))
    return torch.where(missing[..., None], 0.0, rows)


@compiled(forceinline=True)
def _place(x, breaks, f, n_knots):
    """Return the interval of x, its place there from 0 to 1, and the width of the interval."""
    interval = 0
    for k in range(1, n_knots + 1):
        interval += breaks[f, k] <= x
    width = breaks[f, interval + 1] - breaks[f, interval]
    return interval, (x - breaks[f, interval]) / width, width


@compiled(fastmath={"contract"}, forceinline=True)
def _add_two(left, right, a, b, row):
    """Write a times one row plus b times another; the loop is vectorised."""
    for r in range(len(left)):
        row[r] = a[0] * left[r] + b[0] * right[r]


@compiled()
def _forward(x, breaks, n_knots, bends, a, b, out):
    """Write the rows of one group; `a` and `b` have one number each, of the type of the bends."""
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            row = out[i, f]
            if np.isnan(x[i, f]):
                row[:] = 0.0
                continue
            interval, u, width = _place(clip(x[i, f]), breaks, f, n_knots[f])
            w, sixth = 1.0 - u, width * width / 6.0
            a[0], b[0] = sixth * (w * w * w - w), sixth * (u * u * u - u)
            _add_two(bends[f, interval], bends[f, interval + 1], a, b, row)
            row[bends.shape[2] :] = 0.0
            row[interval] += w
            row[interval + 1] += u


@compiled(fastmath={"contract", "reassoc"}, forceinline=True)
def _dots(left, right, row):
    """Return the products of two rows with a third."""
    a, b = left[0] * row[0], right[0] * row[0]
    for r in range(1, len(left)):
        a += left[r] * row[r]
        b += right[r] * row[r]
    return a, b


@compiled(fastmath={"contract"}, forceinline=True)
def _add_to_two(left, right, a, b, row):
    """Add a times a row to one row, and b times it to another."""
    for r in range(len(left)):
        left[r] += a[0] * row[r]
        right[r] += b[0] * row[r]


@compiled()
def _backward(x, breaks, n_knots, bends, first, stop, grad, with_knots, a, b, x_grad, breaks_grad, bends_grad):
    """Fill the gradient of x for some features of one group, and add to those of the breaks and of the bends.

    With c the gradient of u, and d that of the width, x has c / width, the left break -(1 - u) c / width - d, and the
    right break -u c / width + d.
    """
    for i in range(x.shape[0]):
        for f in range(first, stop):
            x_grad[i, f] = 0.0
            if np.isnan(x[i, f]):
                continue
            interval, u, width = _place(clip(x[i, f]), breaks, f, n_knots[f])
            w, sixth, row = 1.0 - u, width * width / 6.0, grad[i, f]
            left, right = _dots(bends[f, interval], bends[f, interval + 1], row)
            along_u = row[interval + 1] - row[interval]
            along_u += sixth * ((1.0 - 3.0 * w * w) * left + (3.0 * u * u - 1.0) * right)
            if 0.0 <= x[i, f] <= 1.0:
                x_grad[i, f] = along_u / width
            if with_knots:
                a[0], b[0] = sixth * (w * w * w - w), sixth * (u * u * u - u)
                _add_to_two(bends_grad[f, interval], bends_grad[f, interval + 1], a, b, row)
                along_width = 2.0 * (a[0] * left + b[0] * right) / width
                if interval > 0:
                    breaks_grad[f, interval] -= w * along_u / width + along_width
                if interval < n_knots[f]:
                    breaks_grad[f, interval + 1] += along_width - u * along_u / width


def _run(x: Tensor, breaks: Tensor, n_knots: Tensor, bends: Tensor, *, size: int) -> Any:
    out = torch.empty(*x.shape, size, dtype=breaks.dtype)
    values, knots, counts, tables = (as_array(tensor) for tensor in (x.to(breaks.dtype), breaks, n_knots, bends))
    target = out.numpy()

    def work(group: int, rows: slice) -> None:
        a, b = np.empty((2, 1), tables.dtype)
        _forward(values[group, rows], knots[group], counts[group], tables[group], a, b, target[group, rows])

    over_chunks(work, *x.shape[:2], rows_per_chunk=ROWS_PER_CHUNK)
    return (out,), (x, breaks, n_knots, bends)


def _run_backward(grads: Any, kept: Any, needed: Any, **_: Any) -> Any:
    x, breaks, n_knots, bends = kept
    x_grad, bends_grad = torch.empty(x.shape, dtype=breaks.dtype), torch.zeros_like(bends)
    breaks_grad = torch.zeros(breaks.shape, dtype=torch.float64)
    inputs = (x.to(breaks.dtype), breaks, n_knots, bends, grads[0])
    values, knots, counts, tables, grad = (as_array(tensor) for tensor in inputs)
    outputs = x_grad.numpy(), breaks_grad.numpy(), bends_grad.numpy()

    def work(group: int, first: int, stop: int) -> None:
        arrays = values[group], knots[group], counts[group], tables[group], first, stop, grad[group]
        _backward(*arrays, needed[1] or needed[3], *np.empty((2, 1), tables.dtype), *(each[group] for each in outputs))

    # No two threads add to the gradients of one feature, so sums do not depend on their number.
    n_groups, n_features = breaks.shape[:2]
    step = n_features if n_groups >= torch.get_num_threads() else 1
    in_threads(work, [(group, f, f + step) for group in range(n_groups) for f in range(0, n_features, step)])
    results = x_grad.to(x.dtype), breaks_grad.to(breaks.dtype), None, bends_grad
    return tuple(gradient if is_needed else None for gradient, is_needed in zip(results, needed, strict=True))


def _shapes(x: Tensor, breaks: Tensor, *_: Any, size: int) -> tuple[Tensor]:
    return (breaks.new_empty(*x.shape, size),)


NATURAL_ROWS = Operation(
    natural_formula,
    cpu=Path(_run, _run_backward),
    types=TYPES[:2],
    packing=Packing(lambda settings: [float(settings["size"])], lambda numbers: {"size": int(numbers[0])}, _shapes),
    leading=1,
)


def natural_rows(part: Part, x: Tensor, breaks: Tensor, knots: Knots, size: int) -> Tensor:
    """Return the rows of a part of natural splines, padded with zeros; x, knots and size are those of `encode`.

    `breaks` are those of all groups. The result is differentiable with respect to x, and to the breaks.
    """
    if part.learned or knots.breaks is None:
        part_breaks = part.of(breaks)
        bends = _bends(part_breaks, part.of(knots.n_knots))
    else:  # the tensor that lasts, for which the bends are computed once
        part_breaks, bends = part.of(knots.breaks), part.of(_bends(knots.breaks, knots.n_knots))
    n_columns = min(bends.shape[-1], size)  # other parts may have more knots than this one has columns
    bends = bends[..., :n_columns]
    return NATURAL_ROWS(part.of(x, axis=2), part_breaks, part.of(knots.n_knots), bends, size=size)  # type: ignore[no-any-return]
