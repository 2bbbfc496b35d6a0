"""Encoding and linear map as one operation, which on the CPU never writes the encoding.

In all families a value adds degree + 1 neighbouring rows of a table, each times a number. For B- and M-splines the
table is the weights W. For I-splines and ramps, which are sums of B-splines from the right, it is the running sums
C[j] = W[0] + ... + W[j - 1], because

    sum_l I_l W[l] = sum_l sum_{j > l} B_j W[l] = sum_j B_j C[j].

Normalised rows add the sum of the feature's weights, times -mean / spread. Backward keeps only values, knots and
weights, and runs the scheme again.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.dispatch import Operation, Packing, Path, as_array, in_threads, over_chunks
from knotwork._kernels.encoding import TYPES, Knots, StackPart, encode
from knotwork._kernels.encoding_cpu import ROWS_PER_CHUNK, clip, interval_of, make_scratch, run_backwards, window_at
from knotwork._loops import compiled
from knotwork.basis import Functions


def has_fused(kind: int) -> bool:
    """Return whether `encode_linear` has a path for a kind of functions that does not write the encoding."""
    return Functions.LOCAL <= kind <= Functions.NORMALISED or kind == Functions.CYCLIC


def encoded_linear_formula(
    x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, bias: Tensor | None, *, kind: int, degree: int,
    size: int,
) -> Tensor:  # fmt: skip
    """Compute `encode_linear` by writing the encoding and multiplying."""
    part = StackPart(kind, degree, 0, len(x))
    encoded = encode(x, Knots(n_knots, breaks), [part], size=size, dtype=weight.dtype).values.flatten(-2)
    return torch.bmm(encoded, weight) if bias is None else torch.baddbmm(bias[:, None], encoded, weight)


@compiled(fastmath={"contract"})
def _add_rows(numbers, n_rows, table, first, out, i):
    """Add rows of the table, each times its number, to row i of `out`: four at a time, so `out` is written less."""
    r = 0
    while r + 4 <= n_rows:
        a, b, c, d = numbers[r], numbers[r + 1], numbers[r + 2], numbers[r + 3]
        for o in range(table.shape[1]):
            out[i, o] += (a * table[first + r, o] + b * table[first + r + 1, o]) + (
                c * table[first + r + 2, o] + d * table[first + r + 3, o]
            )
        r += 4
    while r < n_rows:
        a = numbers[r]
        for o in range(table.shape[1]):
            out[i, o] += a * table[first + r, o]
        r += 1


@compiled()
def _forward(x, breaks, n_knots, kind, degree, table, n_table, totals, t, levels, numbers, out):
    """Add to `out`, which holds the bias; each feature has `n_table` rows of the table, and one of `totals`."""
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            if np.isnan(x[i, f]):
                continue
            value, n = clip(x[i, f]), n_knots[f]
            interval = interval_of(value, breaks, f, n)
            mean, scale = window_at(value, interval, breaks, f, n, kind, degree, t, levels)
            for r in range(degree + 1):
                numbers[r] = levels[degree, r] * scale
            _add_rows(numbers, degree + 1, table, f * n_table + interval, out, i)
            if kind == Functions.NORMALISED:
                numbers[0] = -mean * scale
                _add_rows(numbers, 1, totals, f, out, i)


@compiled(fastmath={"contract"})
def _add_to_rows(numbers, r, n_rows, grad, i, table, row):
    """Add row i of the gradient to rows of the table, times the numbers from r on: four at a time, as above."""
    while r + 4 <= n_rows:
        a, b, c, d = numbers[r], numbers[r + 1], numbers[r + 2], numbers[r + 3]
        for o in range(grad.shape[1]):
            g = grad[i, o]
            table[row + r, o] += a * g
            table[row + r + 1, o] += b * g
            table[row + r + 2, o] += c * g
            table[row + r + 3, o] += d * g
        r += 4
    while r < n_rows:
        a = numbers[r]
        for o in range(grad.shape[1]):
            table[row + r, o] += a * grad[i, o]
        r += 1


@compiled(fastmath={"contract", "reassoc"})
def _products(weight, row, n_rows, grad, i, numbers):
    """Fill `numbers` with the products of rows of the weights and row i of the gradient: four at a time, as above."""
    r = 0
    while r + 4 <= n_rows:
        g = grad[i, 0]
        a, b = weight[row + r, 0] * g, weight[row + r + 1, 0] * g
        c, d = weight[row + r + 2, 0] * g, weight[row + r + 3, 0] * g
        for o in range(1, grad.shape[1]):
            g = grad[i, o]
            a += weight[row + r, o] * g
            b += weight[row + r + 1, o] * g
            c += weight[row + r + 2, o] * g
            d += weight[row + r + 3, o] * g
        numbers[r], numbers[r + 1], numbers[r + 2], numbers[r + 3] = a, b, c, d
        r += 4
    while r < n_rows:
        a = weight[row + r, 0] * grad[i, 0]
        for o in range(1, grad.shape[1]):
            a += weight[row + r, o] * grad[i, o]
        numbers[r] = a
        r += 1


@compiled()
def _from_table(weight_grad, common, first, size, own_size, kind):
    """Turn the gradient of a feature's rows of the table into that of its rows of the weights, in place."""
    n_out = weight_grad.shape[1]
    if kind == Functions.TAILS:  # row k holds the gradient of C[k + 1] = W[0] + ... + W[k]
        for k in range(size - 2, -1, -1):
            for o in range(n_out):
                weight_grad[first + k, o] += weight_grad[first + k + 1, o]
    elif kind == Functions.NORMALISED:
        for k in range(own_size):
            for o in range(n_out):
                weight_grad[first + k, o] += common[0, o]


@compiled()
def _backward(
    x, breaks, n_knots, f, kind, degree, size, grad, weight, totals, with_weight, with_breaks,
    t, levels, local, slopes, numbers, common, x_grad, breaks_grad, weight_grad,
):  # fmt: skip
    """Fill one feature's part of the gradients of x, breaks and weights; the last two hold zeros at first."""
    n, first = n_knots[f], f * size
    early = 1 if kind == Functions.TAILS else 0
    for i in range(x.shape[0]):
        x_grad[i, f] = 0.0
        if np.isnan(x[i, f]):
            continue
        value = clip(x[i, f])
        interval = interval_of(value, breaks, f, n)
        mean, scale = window_at(value, interval, breaks, f, n, kind, degree, t, levels)
        row = first + interval
        if with_weight:
            numbers[0] = -mean * scale
            if kind == Functions.NORMALISED:
                _add_to_rows(numbers, 0, 1, grad, i, common, 0)
            for r in range(degree + 1):
                numbers[r] = levels[degree, r] * scale
            start = 1 if interval < early else 0  # C[0] is zero
            _add_to_rows(numbers, start, degree + 1, grad, i, weight_grad, row - early)
        if with_breaks:
            total = 0.0
            if kind == Functions.NORMALISED:
                _products(totals, f, 1, grad, i, local)
                total = local[0]
            _products(weight, row, degree + 1 - early, grad, i, local)
            x_slope = run_backwards(
                value, f, n, kind, degree, interval, mean, scale, total, t, levels, local, slopes, breaks_grad
            )
            if 0.0 <= x[i, f] <= 1.0:
                x_grad[i, f] = x_slope
    if with_weight:
        _from_table(weight_grad, common, first, size, n + degree + 1, kind)


def _own_totals(weight: Tensor, n_knots: Tensor, kind: int, degree: int) -> Tensor:
    """Return the sum of each feature's used rows of weights of shape (G, F, size, d_out), for normalised rows."""
    if kind != Functions.NORMALISED:
        return weight.new_zeros(weight.shape[0], 1, 1)
    used = torch.arange(weight.shape[2]) < (n_knots + degree + 1)[..., None]
    return torch.einsum("gfk,gfko->gfo", used.to(weight.dtype), weight)


def _table(weight: Tensor, kind: int) -> Tensor:
    """Return the table of the module docstring, of shape (G, F, size or size + 1, d_out)."""
    if kind != Functions.TAILS:
        return weight
    return torch.nn.functional.pad(weight, (0, 0, 1, 0)).cumsum(dim=2)


def _run(
    x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, bias: Tensor | None, *, kind: int, degree: int,
    size: int,
) -> Any:  # fmt: skip
    kept, type_ = (x, breaks, n_knots, weight, bias), breaks.dtype
    x = x.to(type_)
    n_groups, n_rows, n_features = x.shape
    n_out = weight.shape[-1]
    out = (
        x.new_zeros(n_groups, n_rows, n_out) if bias is None else bias.detach().to(type_)[:, None].repeat(1, n_rows, 1)
    )
    by_feature = weight.to(type_).reshape(n_groups, n_features, size, n_out)
    table = _table(by_feature, kind)
    n_table = table.shape[2]
    totals = as_array(_own_totals(by_feature, n_knots, kind, degree))
    rows_of = as_array(table).reshape(n_groups, n_features * n_table, n_out)
    values, knots, counts, rows_out = (as_array(tensor) for tensor in (x, breaks, n_knots, out))

    def work(group: int, rows: slice) -> None:
        scratch = *make_scratch(degree)[:2], np.empty(degree + 1, rows_of.dtype)
        tables = rows_of[group], n_table, totals[group]
        arrays = values[group, rows], knots[group], counts[group]
        _forward(*arrays, kind, degree, *tables, *scratch, rows_out[group, rows])

    over_chunks(work, n_groups, n_rows, rows_per_chunk=ROWS_PER_CHUNK)
    return (out.to(weight.dtype),), kept


def _run_backward(grads: Any, kept: Any, needed: Any, *, kind: int, degree: int, size: int) -> Any:
    """Return the gradients of x, breaks, weights and bias."""
    x, breaks, n_knots, weight, bias = kept
    type_, (n_groups, n_features) = breaks.dtype, breaks.shape[:2]
    x_grad, weight_grad = torch.empty_like(x, dtype=type_), torch.zeros_like(weight, dtype=type_)
    grad, weights, breaks_grad = grads[0].to(type_), weight.to(type_), np.zeros(breaks.shape)
    totals = as_array(_own_totals(weights.reshape(n_groups, n_features, size, -1), n_knots, kind, degree))
    values, knots, counts, slopes, rows = (as_array(each) for each in (x.to(type_), breaks, n_knots, grad, weights))
    x_out, rows_out, with_knots = x_grad.numpy(), weight_grad.numpy(), needed[0] or needed[1]

    def work(group: int, feature: int) -> None:
        scratch = *make_scratch(degree), np.empty(degree + 1, rows.dtype), np.zeros((1, rows.shape[-1]), rows.dtype)
        arrays = values[group], knots[group], counts[group], feature, kind, degree, size
        tables = slopes[group], rows[group], totals[group], needed[3], with_knots
        _backward(*arrays, *tables, *scratch, x_out[group], breaks_grad[group], rows_out[group])

    # One feature of one group at a time: no other thread adds to its rows, so sums do not depend on the threads.
    in_threads(work, [(group, feature) for group in range(n_groups) for feature in range(n_features)])
    bias_grad = grads[0].sum(dim=1).to(bias.dtype) if needed[4] else None
    return x_grad.to(x.dtype), torch.from_numpy(breaks_grad).to(type_), None, weight_grad.to(weight.dtype), bias_grad


def _to_numbers(settings: dict[str, Any]) -> list[float]:
    return [float(settings[name]) for name in ("kind", "degree", "size")]


def _to_settings(numbers: tuple[float, ...]) -> dict[str, Any]:
    return {name: int(number) for name, number in zip(("kind", "degree", "size"), numbers, strict=True)}


def _shapes(x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, bias: Any, **_: Any) -> tuple[Tensor]:
    del breaks, n_knots, bias
    return (weight.new_empty(*x.shape[:2], weight.shape[-1]),)


_ENCODED_LINEAR = Operation(
    encoded_linear_formula,
    cpu=Path(_run, _run_backward),
    types=TYPES,
    packing=Packing(_to_numbers, _to_settings, _shapes),
    leading=1,
)


def encode_linear(
    x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, bias: Tensor | None = None, *, kind: int, degree: int,
    size: int,
) -> Tensor:  # fmt: skip
    """Encode values between 0 and 1 and map the result linearly, reading only the weights that matter.

    Parameters
    ----------
    x, breaks, n_knots, kind, degree, size
        As in `rows_formula`; NaN adds nothing.
    weight : Tensor of shape (G, F * size, d_out)
        A row for every function of every feature, in the type of the result. On the CPU, arithmetic is in the type of
        `breaks`.
    bias : Tensor of shape (G, d_out), optional
        Added to every row.

    Returns
    -------
    Tensor of shape (G, B, d_out)
        Differentiable with respect to x, breaks, weight and bias.

    Notes
    -----
    With i the interval of x, only the functions from i to i + degree are not constant, so

        y[b] = bias + sum_f sum_r v_r(x_bf) W[f, i + r].

    I-splines and ramps before i are one, which adds the sum of W[f, k] over k < i. Rows normalised to mean 0 and
    variance 1 have -mean / spread in every column, which adds that times the sum of all W[f, k]. Compiled loops run on
    the CPU; on a GPU, writing the encoding and multiplying is faster. For cyclic splines the first rows of W follow the
    last ones of each feature again.
    """
    if kind == Functions.CYCLIC:
        places = torch.arange(size + degree, device=weight.device) % (n_knots[..., None] + 1)
        index = places[..., None].expand(*places.shape, weight.shape[-1])
        by_feature = weight.reshape(*places.shape[:2], size, -1)
        weight, size = torch.gather(by_feature, 2, index).flatten(1, 2), size + degree
    return _ENCODED_LINEAR(x, breaks, n_knots, weight, bias, kind=kind, degree=degree, size=size)  # type: ignore[no-any-return]
