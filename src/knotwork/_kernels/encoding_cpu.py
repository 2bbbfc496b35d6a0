"""The encoding on the CPU: compiled loops for the scheme of one value, then over values, then over knots."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.dispatch import as_array, in_ranges, over_chunks
from knotwork._kernels.encoding import NORM_EPSILON, Loops, path_of
from knotwork._loops import compiled, fill_splines, find_intervals
from knotwork.basis import Functions

ROWS_PER_CHUNK = 256
"""Rows of a chunk. Sums over rows are formed chunk by chunk, so the number of threads does not change them."""

# Without `forceinline` the compiler emits calls of the small functions below, which makes the loops 1.5 times slower.


@compiled(forceinline=True)
def _in_cycle(place, n_knots):
    """Return a place modulo the number of intervals; a division is slower."""
    while place < 0:
        place += n_knots + 1
    while place > n_knots:
        place -= n_knots + 1
    return place


@compiled(forceinline=True)
def interval_of(x, breaks, f, n_knots):
    """Return the interval of x: the number of knots that are not larger."""
    interval = 0
    for k in range(1, n_knots + 1):
        interval += breaks[f, k] <= x
    return interval


@compiled(forceinline=True)
def _gather(interval, breaks, f, n_knots, kind, degree, t):
    """Fill t with the degree + 1 knots on either side of an interval."""
    if kind == Functions.CYCLIC:
        place = _in_cycle(interval - degree, n_knots)
        turns = (interval - degree - place) // (n_knots + 1)
        for c in range(2 * degree + 2):
            t[c] = breaks[f, place] + turns
            place += 1
            if place > n_knots:
                place, turns = 0, turns + 1
        return
    for c in range(2 * degree + 2):
        place = interval + c - degree
        place = 0 if place < 0 else place
        t[c] = breaks[f, n_knots + 1 if place > n_knots + 1 else place]


@compiled(forceinline=True)
def _to_unit_area(degree, t, levels):
    """Multiply the last row of `levels` by the heights of M-splines."""
    for r in range(degree + 1):
        levels[degree, r] *= (degree + 1) / (t[degree + r + 1] - t[r])


@compiled(forceinline=True)
def _moments(degree, levels, size):
    """Return mean and 1 / spread of a row of `size` columns: the last row of `levels`, and zeros elsewhere."""
    total = 0.0
    for r in range(degree + 1):
        total += levels[degree, r]
    mean = total / size
    squares = (size - degree - 1) * mean**2
    for r in range(degree + 1):
        squares += (levels[degree, r] - mean) ** 2
    return mean, 1.0 / np.sqrt(squares / size + NORM_EPSILON)


@compiled(forceinline=True)
def clip(x):
    """Return x clipped to [0, 1]."""
    return 0.0 if x < 0.0 else (1.0 if x > 1.0 else x)


@compiled(forceinline=True)
def window_at(x, interval, breaks, f, n_knots, kind, degree, t, levels):
    """Fill t with the knots around x in its interval, and `levels` with the functions at x; return mean and 1 / spread.

    Row q of `levels` holds the B-splines of degree q; for M-splines the last row is multiplied by their heights. Mean
    and spread are those of the encoded row, or 0 and 1 if rows are not normalised.
    """
    _gather(interval, breaks, f, n_knots, kind, degree, t)
    fill_splines(x, degree, t, degree + 1, levels)
    mean, scale = 0.0, 1.0
    if kind not in (Functions.LOCAL, Functions.TAILS, Functions.CYCLIC):
        _to_unit_area(degree, t, levels)
        if kind == Functions.NORMALISED:
            mean, scale = _moments(degree, levels, n_knots + degree + 1)
    return mean, scale


@compiled(forceinline=True)
def _before_normalising(degree, levels, size, mean, scale, total, local):
    """Turn `local`, gradients after normalising, into those before it, in place; `total` is the sum over the row."""
    along = -mean * total
    for r in range(degree + 1):
        along += local[r] * levels[degree, r]
    along *= scale * scale / size
    for r in range(degree + 1):
        local[r] = scale * (local[r] - total / size - (levels[degree, r] - mean) * along)


@compiled(forceinline=True)
def run_backwards(x, f, n_knots, kind, degree, interval, mean, scale, total, t, levels, local, slopes, breaks_grad):
    """Run the triangular scheme backwards from `window_at`: return the gradient of x, add to that of the breaks.

    `local` holds the gradients of the outputs from the interval on (degree of them for tails, else degree + 1), and
    `total` the sum over all outputs, for normalised rows. Both `local` and `slopes` are overwritten.

    With u = (x - left) / (right - left), share = v / (right - left), G_left and G_right the gradients of the two
    values that v was distributed to, and c = share (G_right - G_left), the gradients change by c for x, by -u c for
    right, by -(1 - u) c for left, and by (1 - u) G_left + u G_right for v.
    """
    for c in range(2 * degree + 2):
        slopes[c] = 0.0
    if kind == Functions.TAILS:
        before = 0.0
        for r in range(degree + 1):
            here = local[r]
            local[r] = before
            before += here
    elif kind not in (Functions.LOCAL, Functions.CYCLIC):
        if kind == Functions.NORMALISED:
            _before_normalising(degree, levels, n_knots + degree + 1, mean, scale, total, local)
        for r in range(degree + 1):
            per_span = 1.0 / (t[degree + r + 1] - t[r])
            pull = local[r] * levels[degree, r] * per_span
            slopes[degree + r + 1] -= pull
            slopes[r] += pull
            local[r] *= (degree + 1) * per_span
    x_slope = 0.0
    for q in range(degree, 0, -1):
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            per_width = 1.0 / (right - left)
            u = (x - left) * per_width
            rise = local[r + 1] - local[r]
            moved = levels[q - 1, r] * per_width * rise
            x_slope += moved
            slopes[degree + r + 1] -= u * moved
            slopes[degree + r + 1 - q] -= (1.0 - u) * moved
            local[r] += u * rise
    for c in range(2 * degree + 2):
        place = interval + c - degree
        if kind == Functions.CYCLIC:
            place = _in_cycle(place, n_knots)
        if 0 < place <= n_knots:
            breaks_grad[f, place] += slopes[c]
    return x_slope


def make_scratch(degree: int) -> tuple[Any, Any, Any, Any]:
    """Return work arrays of one thread: knots, levels, gradients and slopes of one value."""
    window = 2 * degree + 2
    return np.empty(window), np.empty((degree + 1, degree + 1)), np.empty(degree + 1), np.empty(window)


@compiled()
def _intervals(x, breaks, n_knots, column, intervals):
    """Fill the interval of each value, feature by feature."""
    n_rows = x.shape[0]
    for f in range(x.shape[1]):
        for i in range(n_rows):
            column[i] = x[i, f]
        find_intervals(column[:n_rows], breaks[f, 1 : n_knots[f] + 1], intervals[f])


@compiled()
def _ramps(x, breaks, n_knots, per_width, out):
    """Write the rows `out` of one group for ramps, column by column, without a branch: the loop is vectorised."""
    for f in range(x.shape[1]):
        for k in range(n_knots[f] + 1):
            per_width[f, k] = 1.0 / (breaks[f, k + 1] - breaks[f, k])
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            value, n = x[i, f], n_knots[f] + 1
            if np.isnan(value):
                n = 0
            for k in range(n):
                share = (value - breaks[f, k]) * per_width[f, k]
                share = 0.0 if share < 0.0 else share
                out[i, f, k] = 1.0 if value >= breaks[f, k + 1] else share
            for k in range(n, out.shape[2]):
                out[i, f, k] = 0.0


@compiled()
def _forward(x, breaks, n_knots, kind, degree, t, levels, column, intervals, out):
    """Write the rows `out` of one group; torch would write zeros in its threads, which then wait in a loop."""
    _intervals(x, breaks, n_knots, column, intervals)
    for i in range(x.shape[0]):
        out[i] = 0.0
        for f in range(x.shape[1]):
            if np.isnan(x[i, f]):
                continue
            interval = intervals[f, i]
            mean, scale = window_at(clip(x[i, f]), interval, breaks, f, n_knots[f], kind, degree, t, levels)
            if kind == Functions.TAILS:
                for k in range(interval):
                    out[i, f, k] = 1.0
                tail = 0.0
                for r in range(degree, 0, -1):
                    tail += levels[degree, r]
                    out[i, f, interval + r - 1] = tail
            elif kind == Functions.CYCLIC:
                for r in range(degree + 1):  # functions may meet in one column
                    out[i, f, _in_cycle(interval + r, n_knots[f])] += levels[degree, r]
            else:
                if kind == Functions.NORMALISED:
                    for k in range(n_knots[f] + degree + 1):
                        out[i, f, k] = -mean * scale
                for r in range(degree + 1):
                    out[i, f, interval + r] = (levels[degree, r] - mean) * scale


@compiled()
def _forward_chunks(first, stop, x, breaks, n_knots, kind, degree, out):
    """Write the chunks from first to stop of `out`."""
    t, levels = np.empty(2 * degree + 2), np.empty((degree + 1, degree + 1))
    column, intervals = np.empty(ROWS_PER_CHUNK, x.dtype), np.empty((x.shape[2], ROWS_PER_CHUNK), np.int32)
    per_width = np.empty(breaks.shape[1:])
    per_group = -(-x.shape[1] // ROWS_PER_CHUNK)
    for chunk in range(first, stop):
        g, start = chunk // per_group, chunk % per_group * ROWS_PER_CHUNK
        end = start + ROWS_PER_CHUNK
        if kind == Functions.TAILS and degree == 1:
            _ramps(x[g, start:end], breaks[g], n_knots[g], per_width, out[g, start:end])
            continue
        scratch = t, levels, column, intervals
        _forward(x[g, start:end], breaks[g], n_knots[g], kind, degree, *scratch, out[g, start:end])


@compiled(fastmath={"reassoc"})
def _row_sum(grad, i, f, size):
    """Sum the first columns of a row; "reassoc" lets the compiler use vectors, in an order that is always the same."""
    total = 0.0
    for k in range(size):
        total += grad[i, f, k]
    return total


@compiled()
def _backward(x, breaks, n_knots, kind, degree, grad, t, levels, local, slopes, x_grad, breaks_grad):
    """Fill the gradient of x, and add to that of the breaks."""
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            x_grad[i, f] = 0.0
            if np.isnan(x[i, f]):
                continue
            n, value = n_knots[f], clip(x[i, f])
            interval = interval_of(value, breaks, f, n)
            mean, scale = window_at(value, interval, breaks, f, n, kind, degree, t, levels)
            if kind == Functions.CYCLIC:
                for r in range(degree + 1):
                    local[r] = grad[i, f, _in_cycle(interval + r, n)]
            else:
                for r in range(degree if kind == Functions.TAILS else degree + 1):
                    local[r] = grad[i, f, interval + r]
            total = _row_sum(grad, i, f, n + degree + 1) if kind == Functions.NORMALISED else 0.0
            x_slope = run_backwards(
                value, f, n, kind, degree, interval, mean, scale, total, t, levels, local, slopes, breaks_grad
            )
            if 0.0 <= x[i, f] <= 1.0:
                x_grad[i, f] = x_slope


@compiled()
def _knots(logits, n_knots, min_spacing, epsilon, shares, breaks):
    """Fill the softmax shares and breaks of one group, and return its penalty."""
    penalty = 0.0
    for f in range(len(n_knots)):
        n = n_knots[f]
        largest, total = logits[f, 0], 0.0
        for k in range(n + 1):
            largest = logits[f, k] if logits[f, k] > largest else largest
        for k in range(n + 1):
            shares[f, k] = np.exp(logits[f, k] - largest)
            total += shares[f, k]
        end, barrier = 0.0, 0.0
        breaks[f, 0] = 0.0
        for k in range(breaks.shape[1] - 1):
            if k <= n:
                shares[f, k] /= total
                width = min_spacing + (1.0 - (n + 1) * min_spacing) * shares[f, k]
                end += width
                barrier += 1.0 / (width + epsilon)
            else:
                shares[f, k] = 0.0
            breaks[f, k + 1] = (end if end < 1.0 else 1.0) if k < n else 1.0
        penalty += barrier / (n + 1)
    return penalty / len(n_knots)


@compiled()
def _knots_backward(breaks_grad, penalty_grad, shares, n_knots, min_spacing, epsilon, out):
    """Fill the gradient of the logits of one group."""
    for f in range(len(n_knots)):
        n = n_knots[f]
        room = 1.0 - (n + 1) * min_spacing
        later, along = 0.0, 0.0
        for k in range(shares.shape[1] - 1, -1, -1):
            out[f, k] = 0.0
            if k > n:
                continue
            if k < n:  # a width moves the knot at its end and all knots after it
                later += breaks_grad[f, k + 1]
            width = min_spacing + room * shares[f, k] + epsilon
            out[f, k] = room * (later - penalty_grad / (width * width * (n + 1) * len(n_knots)))
            along += shares[f, k] * out[f, k]
        for k in range(n + 1):
            out[f, k] = shares[f, k] * (out[f, k] - along)


def _make_knots(
    logits: Tensor, n_knots: Tensor, breaks: Tensor | None, learned: Tensor | None, min_spacing: float, epsilon: float,
    size: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del size
    groups, features, n_widths = logits.shape
    all_breaks = torch.empty(groups, features, n_widths + 1, dtype=logits.dtype)
    numbers, counts, rows = as_array(logits.double()), as_array(n_knots), all_breaks.numpy()
    shares, penalty = np.empty((features, n_widths)), torch.zeros(groups, dtype=torch.float64)
    for group in range(groups):
        if breaks is None or learned is None or learned.numpy()[group]:
            settings = (min_spacing, epsilon, shares)
            penalty.numpy()[group] = _knots(numbers[group], counts[group], *settings, rows[group])
        else:
            rows[group] = breaks[group].detach().numpy()
    return all_breaks, penalty.to(logits.dtype)


def _knots_to_logits(
    breaks_grad: Tensor | None, penalty_grad: Tensor | None, logits: Tensor, n_knots: Tensor, learned: Tensor | None,
    min_spacing: float, epsilon: float, size: int,
) -> Tensor:  # fmt: skip
    del size
    groups, features, n_widths = logits.shape
    out = torch.zeros_like(logits, memory_format=torch.contiguous_format)
    slopes = np.zeros((groups, features, n_widths + 1)) if breaks_grad is None else as_array(breaks_grad.double())
    penalties = np.zeros(groups) if penalty_grad is None else as_array(penalty_grad.double())
    numbers, counts, rows = as_array(logits.double()), as_array(n_knots), out.numpy()
    shares, breaks = np.empty((features, n_widths)), np.empty((features, n_widths + 1))
    for group in range(groups):
        if learned is None or learned.numpy()[group]:
            _knots(numbers[group], counts[group], min_spacing, epsilon, shares, breaks)
            settings = (shares, counts[group], min_spacing, epsilon)
            _knots_backward(slopes[group], penalties[group], *settings, rows[group])
    return out


def _rows(x: Tensor, breaks: Tensor, n_knots: Tensor, out: Tensor, *, kind: int, degree: int) -> None:
    rows_out = out if out.dtype == breaks.dtype else torch.empty(out.shape, dtype=breaks.dtype)
    values, knots, counts, target = (as_array(t) for t in (x.to(breaks.dtype), breaks, n_knots, rows_out))

    def work(first: int, stop: int) -> None:
        _forward_chunks(first, stop, values, knots, counts, kind, degree, target)

    in_ranges(work, x.shape[0] * -(-x.shape[1] // ROWS_PER_CHUNK))
    if rows_out is not out:
        out.copy_(rows_out)


def _rows_backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, with_x: bool = True,
    with_knots: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of x and of the breaks; zero for the two ends, which do not move."""
    del with_x, with_knots  # both are computed together
    type_, n_chunks = breaks.dtype, -(-x.shape[1] // ROWS_PER_CHUNK)
    x_grad, parts = torch.empty(x.shape, dtype=type_), np.zeros((max(n_chunks, 1), *breaks.shape))
    values, knots, counts, grads = (as_array(t) for t in (x.to(type_), breaks, n_knots, grad.to(type_)))
    slopes = x_grad.numpy()

    def work(group: int, rows: slice) -> None:
        part = parts[rows.start // ROWS_PER_CHUNK, group]
        scratch = make_scratch(degree)
        arrays = values[group, rows], knots[group], counts[group]
        _backward(*arrays, kind, degree, grads[group, rows], *scratch, slopes[group, rows], part)

    over_chunks(work, *x.shape[:2], rows_per_chunk=ROWS_PER_CHUNK)
    breaks_grad = torch.empty(breaks.shape, dtype=torch.float64)
    parts.sum(axis=0, out=breaks_grad.numpy())
    return x_grad.to(x.dtype), breaks_grad.to(type_)


LOOPS = Loops(_make_knots, _knots_to_logits, _rows, _rows_backward)
ENCODING = path_of(LOOPS)
