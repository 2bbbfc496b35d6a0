"""Functions that all vary everywhere, at values between 0 and 1: natural splines, Gaussian bumps, thin-plate splines.

Besides values and breaks, a row needs a table that depends on the knots only, not on rows: the bends of natural
splines, which are the second derivatives of all curves at all knots, or the factors of distances of bumps. That of
fixed knots is computed once. The formulas are those of `NaturalSpline`, `RadialBasis` and `ThinPlateSpline`.
"""

from collections.abc import MutableMapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from knotwork._kernels.dispatch import Operation, Packing, Path, as_array, in_threads, is_transformed, over_chunks
from knotwork._kernels.encoding import TYPES, Knots, StackPart
from knotwork._kernels.encoding_cpu import ROWS_PER_CHUNK, clip, interval_of
from knotwork._loops import LANES, add_bends, compiled, fill_bumps, fill_cubes, half_to
from knotwork.basis import Functions

N_DOUBLINGS = 6
"""Factors of the inverse: terms up to the power 63 are summed, and the rest is smaller than 2**-63."""

MOST_BITS, MOST_SINGLE_BITS = 1000.0, 72.0
"""Bumps are at least two to minus this: products with numbers near the smallest of a type are many times slower."""

_FIXED_TABLES: MutableMapping[Tensor, dict[int, tuple[Any, Tensor]]] = WeakTensorKeyDictionary()
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
        n_functions = _n_functions(n_knots, table)[:, None, :, None]
        rows = torch.where(torch.arange(breaks.shape[-1], device=x.device) < n_functions, rows, 0.0)
    rows = torch.nn.functional.pad(rows[..., :size], (0, max(size - rows.shape[-1], 0)))
    return torch.where(missing, 0.0, rows).to(dtype)


def _n_functions(n_knots: Tensor, table: Tensor | None) -> Tensor:
    """Return the numbers of bumps, one for each knot and end, or without a table of a line and a cube for each knot."""
    return n_knots + (1 if table is None else 2)


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


# The same on the CPU: compiled loops over rows, with inner loops over columns as vectors.


@compiled(forceinline=True)
def _place(x, breaks, f, n_knots):
    """Return the interval of x, its place there from 0 to 1, and the width of the interval."""
    interval = interval_of(x, breaks, f, n_knots)
    width = breaks[f, interval + 1] - breaks[f, interval]
    return interval, (x - breaks[f, interval]) / width, width


@compiled()
def _natural(x, breaks, n_knots, bends, out):
    """Write the rows of one group."""
    n = min(bends.shape[2], out.shape[2])
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            row = out[i, f]
            if np.isnan(x[i, f]):
                row[:] = 0.0
                continue
            interval, u, width = _place(clip(x[i, f]), breaks, f, n_knots[f])
            w, sixth = 1.0 - u, width * width / 6.0
            a, b = bends.dtype.type(sixth * (w * w * w - w)), bends.dtype.type(sixth * (u * u * u - u))
            add_bends(bends[f, interval], bends[f, interval + 1], a, b, row[:n])
            row[n:] = 0.0
            row[interval] += w
            row[interval + 1] += u


@compiled(fastmath={"contract", "reassoc"}, forceinline=True)
def _dots(n, left, right, row):
    """Return the products of two rows with a third."""
    a, b = left[0] * row[0], right[0] * row[0]
    for r in range(1, n):
        a += left[r] * row[r]
        b += right[r] * row[r]
    return a, b


@compiled(fastmath={"contract"}, forceinline=True)
def _add_to_two(n, left, right, a, b, row):
    """Add a times a row to one row, and b times it to another."""
    for r in range(n):
        left[r] += a[0] * row[r]
        right[r] += b[0] * row[r]


@compiled()
def _natural_backward(x, breaks, n_knots, bends, features, grad, with_knots, a, b, x_grad, breaks_grad, bends_grad):
    """Fill the gradient of x for some features of one group, and add to those of the breaks and of the bends.

    With c the gradient of u, and d that of the width, x has c / width, the left break -(1 - u) c / width - d, and the
    right break -u c / width + d.
    """
    n = min(bends.shape[2], grad.shape[2])
    for i in range(x.shape[0]):
        for f in range(features[0], features[1]):
            x_grad[i, f] = 0.0
            if np.isnan(x[i, f]):
                continue
            interval, u, width = _place(clip(x[i, f]), breaks, f, n_knots[f])
            w, sixth, row = 1.0 - u, width * width / 6.0, grad[i, f]
            left, right = _dots(n, bends[f, interval], bends[f, interval + 1], row)
            along_u = row[interval + 1] - row[interval]
            along_u += sixth * ((1.0 - 3.0 * w * w) * left + (3.0 * u * u - 1.0) * right)
            if 0.0 <= x[i, f] <= 1.0:
                x_grad[i, f] = along_u / width
            if with_knots:
                a[0], b[0] = sixth * (w * w * w - w), sixth * (u * u * u - u)
                _add_to_two(n, bends_grad[f, interval], bends_grad[f, interval + 1], a, b, row)
                along_width = 2.0 * (a[0] * left + b[0] * right) / width
                if interval > 0:
                    breaks_grad[f, interval] -= w * along_u / width + along_width
                if interval < n_knots[f]:
                    breaks_grad[f, interval + 1] += along_width - u * along_u / width


@compiled()
def _radial(x, centres, factors, n_functions, has_bumps, values, out):
    """Write the rows of one group: first into a row of whole vectors, since a loop over the remainder is slow."""
    per_bit = centres.dtype.type(1.4426950408889634)
    most = centres.dtype.type(MOST_SINGLE_BITS if centres.itemsize == 4 else MOST_BITS)
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            row, n = out[i, f], n_functions[f]
            if np.isnan(x[i, f]):
                row[:] = 0.0
                continue
            inside = centres.dtype.type(clip(x[i, f]))
            if has_bumps:
                fill_bumps(inside, centres[f], factors[f], per_bit, most, values)
            else:
                fill_cubes(inside, centres[f], factors[f], values)
            for r in range(n):
                row[r] = values[r]
            row[n:] = 0.0


@compiled(fastmath={"contract"}, forceinline=True)
def _bumps_backward(x, centres, factors, row, slopes, centres_grad, factors_grad):
    """Fill the gradients of x from all columns, and add to those of centres and factors.

    With the distance d and z = s d, a bump y has the gradient -2 z y in z: that times s for d, times d for s.
    """
    per_bit = centres.dtype.type(1.4426950408889634)
    most = centres.dtype.type(MOST_SINGLE_BITS if centres.itemsize == 4 else MOST_BITS)
    for r in range(len(row)):
        distance = x - centres[r]
        share = distance * factors[r]
        power = share * share * per_bit
        along = row[r] * share * half_to(power if power < most else most)
        along = -(along + along)
        slopes[r] = along * factors[r]
        centres_grad[r] -= slopes[r]
        factors_grad[r] += along * distance


@compiled(fastmath={"contract"}, forceinline=True)
def _cubes_backward(x, centres, row, slopes, centres_grad):
    """Fill the same for cubed distances, which have the gradient 3 d |d| in d; the first column is a line."""
    first, three = row[0], centres.dtype.type(3.0)
    row[0] = centres.dtype.type(0.0)
    for r in range(len(row)):
        distance = x - centres[r]
        slopes[r] = three * distance * np.abs(distance) * row[r]
        centres_grad[r] -= slopes[r]
    slopes[0] = first


@compiled(fastmath={"reassoc"}, forceinline=True)
def _total(slopes):
    total = slopes[0]
    for r in range(1, len(slopes)):
        total += slopes[r]
    return total


@compiled()
def _radial_backward(
    x, centres, factors, n_functions, has_bumps, grad, row, slopes, x_grad, centres_grad, factors_grad
):
    """Fill the gradient of x for some rows of one group, and add to those of centres and factors."""
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            x_grad[i, f] = 0.0
            if np.isnan(x[i, f]):
                continue
            n, inside = n_functions[f], centres.dtype.type(clip(x[i, f]))
            for r in range(n):
                row[r] = grad[i, f, r]
            row[n:] = 0.0
            if has_bumps:
                _bumps_backward(inside, centres[f], factors[f], row, slopes, centres_grad[f], factors_grad[f])
            else:
                _cubes_backward(inside, centres[f], row, slopes, centres_grad[f])
            if 0.0 <= x[i, f] <= 1.0:
                x_grad[i, f] = _total(slopes)


def _in_lanes(breaks: Tensor, n_knots: Tensor, table: Tensor | None) -> list[npt.NDArray[Any]]:
    """Return centres and factors, which are 1 without a table, padded to whole vectors, and numbers of functions."""
    padding = (0, -breaks.shape[-1] % LANES)
    centres = torch.nn.functional.pad(breaks, padding)
    factors = torch.ones_like(centres) if table is None else torch.nn.functional.pad(table, padding)
    return [as_array(tensor) for tensor in (centres, factors, _n_functions(n_knots, table))]


def _run(x: Tensor, breaks: Tensor, n_knots: Tensor, table: Tensor | None, **settings: Any) -> Any:
    kind, rows = settings["kind"], torch.empty(*x.shape, settings["size"], dtype=breaks.dtype)
    values, target = as_array(x.to(breaks.dtype)), rows.numpy()
    is_natural = kind == Functions.NATURAL
    arrays = [as_array(breaks), as_array(n_knots)] if is_natural else _in_lanes(breaks, n_knots, table)
    bends = None if table is None else as_array(table)

    def work(group: int, part: slice) -> None:
        inputs: list[Any] = [values[group, part], *[array[group] for array in arrays]]
        if is_natural and bends is not None:
            _natural(*inputs, bends[group], target[group, part])
        else:
            _radial(*inputs, kind == Functions.RADIAL, np.empty(arrays[0].shape[-1], target.dtype), target[group, part])

    over_chunks(work, *x.shape[:2], rows_per_chunk=ROWS_PER_CHUNK)
    return (rows.to(settings["dtype"]),), (x, breaks, n_knots, table)


def _run_backward(grads: Any, kept: Any, needed: Any, *, kind: int, **_: Any) -> Any:
    x, breaks, n_knots, table = kept
    backward = _natural_slopes if kind == Functions.NATURAL else _radial_slopes
    inputs = x.to(breaks.dtype), breaks, n_knots, table, grads[0].to(breaks.dtype)
    x_grad, breaks_grad, table_grad = backward(*inputs, kind, needed[1] or needed[3])
    return x_grad.to(x.dtype), breaks_grad.to(breaks.dtype), None, table_grad


def _natural_slopes(
    x: Tensor, breaks: Tensor, n_knots: Tensor, bends: Tensor, grad: Tensor, kind: int, with_knots: bool
) -> tuple[Tensor, Tensor, Tensor]:
    del kind
    x_grad, bends_grad = torch.empty(x.shape, dtype=breaks.dtype), torch.zeros_like(bends)
    breaks_grad = torch.zeros(breaks.shape, dtype=torch.float64)
    arrays = [as_array(tensor) for tensor in (x, breaks, n_knots, bends)]
    slopes, outputs = as_array(grad), (x_grad.numpy(), breaks_grad.numpy(), bends_grad.numpy())

    def work(group: int, first: int, stop: int) -> None:
        inputs: list[Any] = [array[group] for array in arrays]
        inputs += [(first, stop), slopes[group], with_knots, *np.empty((2, 1), slopes.dtype)]
        _natural_backward(*inputs, *[output[group] for output in outputs])

    # No two threads add to the gradients of one feature, so sums do not depend on their number.
    n_groups, n_features = breaks.shape[:2]
    step = n_features if n_groups >= torch.get_num_threads() else 1
    in_threads(work, [(group, f, f + step) for group in range(n_groups) for f in range(0, n_features, step)])
    return x_grad, breaks_grad, bends_grad


def _radial_slopes(
    x: Tensor, breaks: Tensor, n_knots: Tensor, table: Tensor | None, grad: Tensor, kind: int, with_knots: bool
) -> tuple[Tensor, Tensor, Tensor]:
    del with_knots  # these cost next to nothing
    arrays = _in_lanes(breaks, n_knots, table)
    x_grad, n_breaks = torch.empty(x.shape, dtype=breaks.dtype), breaks.shape[-1]
    values, slopes, x_slopes = as_array(x), as_array(grad), x_grad.numpy()
    n_chunks = max(-(-x.shape[1] // ROWS_PER_CHUNK), 1)
    sums = np.zeros((n_chunks, 2, *arrays[0].shape), slopes.dtype)

    def work(group: int, rows: slice) -> None:
        inputs = [values[group, rows], *[array[group] for array in arrays], kind == Functions.RADIAL]
        inputs += [slopes[group, rows], *np.empty((2, arrays[0].shape[-1]), slopes.dtype), x_slopes[group, rows]]
        _radial_backward(*inputs, *sums[rows.start // ROWS_PER_CHUNK, :, group])

    over_chunks(work, *x.shape[:2], rows_per_chunk=ROWS_PER_CHUNK)
    totals = [torch.from_numpy(part.sum(axis=0, dtype=np.float64)[..., :n_breaks]) for part in (sums[:, 0], sums[:, 1])]
    return x_grad, totals[0], totals[1].to(breaks.dtype)


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
    cpu=Path(_run, _run_backward),
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
    known = _FIXED_TABLES.setdefault(lasting, {})
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
