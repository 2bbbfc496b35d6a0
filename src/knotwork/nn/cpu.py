"""The encoding on the CPU: compiled loops over values, forward and backward, that keep nothing in between."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork.basis.compiled import compiled
from knotwork.nn.layout import LOCAL, NORM_EPSILON, NORMALISED, TAILS
from knotwork.nn.threads import over_chunks

__all__ = ["backward", "breaks_and_penalty", "forward", "spacings_backward"]

ROWS_PER_CHUNK = 256
"""Rows that a thread takes at a time. Sums over rows are formed chunk by chunk, so threads do not change them."""


@compiled()
def _locate(x, breaks, f, n_knots, degree, t):
    """Fill t with the knots around x, those from degree + 1 before its interval to as many after; return it."""
    interval = 0
    for k in range(1, n_knots + 1):
        interval += breaks[f, k] <= x
    for c in range(2 * degree + 2):
        place = interval + c - degree
        place = 0 if place < 0 else place
        t[c] = breaks[f, n_knots + 1 if place > n_knots + 1 else place]
    return interval


@compiled()
def _levels(x, degree, t, levels):
    """Fill row q of `levels` with the q + 1 B-splines of degree q at x."""
    levels[0, 0] = 1.0
    for q in range(1, degree + 1):
        from_left = 0.0
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            share = levels[q - 1, r] / (right - left)
            levels[q, r] = from_left + (right - x) * share
            from_left = (x - left) * share
        levels[q, q] = from_left


@compiled()
def _to_unit_area(degree, t, levels):
    """Multiply the last row of `levels` by the heights of M-splines."""
    for r in range(degree + 1):
        levels[degree, r] *= (degree + 1) / (t[degree + r + 1] - t[r])


@compiled()
def _moments(degree, levels, size):
    """Return the mean of a row of `size` columns that is zero but for the last row of `levels`, and 1 / its spread."""
    total = 0.0
    for r in range(degree + 1):
        total += levels[degree, r]
    mean = total / size
    squares = (size - degree - 1) * mean**2
    for r in range(degree + 1):
        squares += (levels[degree, r] - mean) ** 2
    return mean, 1.0 / np.sqrt(squares / size + NORM_EPSILON)


@compiled()
def _before_normalising(degree, levels, size, grad, i, f, interval, local):
    """Turn `local`, gradients of the window after normalising, into those before it; `grad` has the whole row."""
    mean, scale = _moments(degree, levels, size)
    along, total = 0.0, 0.0
    for k in range(size):
        total += grad[i, f, k]
    for r in range(degree + 1):
        along += grad[i, f, interval + r] * levels[degree, r]
    along = scale * (along - mean * total)
    for r in range(degree + 1):
        local[r] = scale * (local[r] - total / size - (levels[degree, r] - mean) * scale * along / size)


@compiled()
def _clip(x):
    return 0.0 if x < 0.0 else (1.0 if x > 1.0 else x)


@compiled()
def _forward(x, breaks, n_knots, kind, degree, t, levels, out):
    """Write what differs from zero into `out`, which holds zeros."""
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            value = x[i, f]
            if np.isnan(value):
                continue
            value = _clip(value)
            interval = _locate(value, breaks, f, n_knots[f], degree, t)
            _levels(value, degree, t, levels)
            if kind == TAILS:
                for k in range(interval):
                    out[i, f, k] = 1.0
                tail = 0.0
                for r in range(degree, 0, -1):
                    tail += levels[degree, r]
                    out[i, f, interval + r - 1] = tail
            else:
                if kind != LOCAL:
                    _to_unit_area(degree, t, levels)
                mean, scale = 0.0, 1.0
                if kind == NORMALISED:
                    mean, scale = _moments(degree, levels, n_knots[f] + degree + 1)
                    for k in range(n_knots[f] + degree + 1):
                        out[i, f, k] = -mean * scale
                for r in range(degree + 1):
                    out[i, f, interval + r] = (levels[degree, r] - mean) * scale


@compiled()
def _backward(x, breaks, n_knots, kind, degree, grad, t, levels, local, slopes, x_grad, breaks_grad):
    """Run the triangular scheme backwards.

    With u = (x - left) / (right - left), share = v / (right - left), and G the gradients of two neighbouring values
    that v was shared out to, c = share (G_right - G_left) is what x gains, right loses u c and left (1 - u) c, and
    v itself gains (1 - u) G_left + u G_right.
    """
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            value = x[i, f]
            if np.isnan(value):
                x_grad[i, f] = 0.0
                continue
            inside = 0.0 <= value <= 1.0
            value = _clip(value)
            interval = _locate(value, breaks, f, n_knots[f], degree, t)
            _levels(value, degree, t, levels)
            for c in range(2 * degree + 2):
                slopes[c] = 0.0
            if kind == TAILS:
                local[0] = 0.0
                for r in range(degree):
                    local[r + 1] = local[r] + grad[i, f, interval + r]
            else:
                for r in range(degree + 1):
                    local[r] = grad[i, f, interval + r]
                if kind != LOCAL:
                    _to_unit_area(degree, t, levels)
                    if kind == NORMALISED:
                        size = n_knots[f] + degree + 1
                        _before_normalising(degree, levels, size, grad, i, f, interval, local)
                    for r in range(degree + 1):
                        span = t[degree + r + 1] - t[r]
                        pull = local[r] * levels[degree, r] / span
                        slopes[degree + r + 1] -= pull
                        slopes[r] += pull
                        local[r] *= (degree + 1) / span
            x_slope = 0.0
            for q in range(degree, 0, -1):
                for r in range(q):
                    left, right = t[degree + r + 1 - q], t[degree + r + 1]
                    width = right - left
                    u = (value - left) / width
                    rise = local[r + 1] - local[r]
                    moved = levels[q - 1, r] / width * rise
                    x_slope += moved
                    slopes[degree + r + 1] -= u * moved
                    slopes[degree + r + 1 - q] -= (1.0 - u) * moved
                    local[r] += u * rise
            x_grad[i, f] = x_slope if inside else 0.0
            for c in range(2 * degree + 2):
                place = interval + c - degree
                if 0 < place <= n_knots[f]:
                    breaks_grad[f, place] += slopes[c]


@compiled()
def _spacings(logits, n_knots, min_spacing, epsilon, shares, breaks):
    """Fill the shares and breaks of one group, and return its penalty: the formulas of `knotwork.nn.spacings`."""
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
def _spacings_backward(breaks_grad, penalty_grad, shares, n_knots, min_spacing, epsilon, out):
    """Fill the gradient of the logits of one group."""
    for f in range(len(n_knots)):
        n = n_knots[f]
        room = 1.0 - (n + 1) * min_spacing
        later, along = 0.0, 0.0
        for k in range(shares.shape[1] - 1, -1, -1):
            out[f, k] = 0.0
            if k > n:
                continue
            if k < n:  # a width moves its own knot and all after it
                later += breaks_grad[f, k + 1]
            width = min_spacing + room * shares[f, k] + epsilon
            out[f, k] = room * (later - penalty_grad / (width * width * (n + 1) * len(n_knots)))
            along += shares[f, k] * out[f, k]
        for k in range(n + 1):
            out[f, k] = shares[f, k] * (out[f, k] - along)


def breaks_and_penalty(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the breaks and the penalties of logits of shape (G, F, K + 1)."""
    groups, features, n_widths = logits.shape
    breaks = torch.empty(groups, features, n_widths + 1, dtype=logits.dtype)
    numbers, counts, rows = (_array(tensor) for tensor in (logits.double(), n_knots, breaks))
    shares = np.empty((features, n_widths))
    penalties = [
        _spacings(numbers[group], counts[group], min_spacing, epsilon, shares, rows[group]) for group in range(groups)
    ]
    return breaks, torch.tensor(penalties, dtype=logits.dtype)


def spacings_backward(
    breaks_grad: Tensor | None,
    penalty_grad: Tensor | None,
    logits: Tensor,
    n_knots: Tensor,
    min_spacing: float,
    epsilon: float,
) -> Tensor:
    """Return the gradient of the logits from those of the breaks and of the penalties, either of which may be None."""
    groups, features, n_widths = logits.shape
    out = torch.empty_like(logits)
    slopes = np.zeros((groups, features, n_widths + 1)) if breaks_grad is None else _array(breaks_grad.double())
    penalties = np.zeros(groups) if penalty_grad is None else _array(penalty_grad.double())
    numbers, counts, rows = (_array(tensor) for tensor in (logits.double(), n_knots, out))
    shares, breaks = np.empty((features, n_widths)), np.empty((features, n_widths + 1))
    for group in range(groups):
        _spacings(numbers[group], counts[group], min_spacing, epsilon, shares, breaks)
        settings = (shares, counts[group], min_spacing, epsilon)
        _spacings_backward(slopes[group], penalties[group], *settings, rows[group])
    return out


def forward(
    x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int, out: Tensor | None = None
) -> Tensor:
    """Encode values; parameters and result as for `encode_plain`. `out` is filled if it is given: contiguous zeros."""
    out = torch.zeros(*x.shape, size, dtype=x.dtype) if out is None else out
    values, knots, counts, rows_out = (_array(tensor) for tensor in (x, breaks, n_knots, out))

    def work(group: int, rows: slice) -> None:
        scratch = np.empty(2 * degree + 2), np.empty((degree + 1, degree + 1))
        _forward(values[group, rows], knots[group], counts[group], kind, degree, *scratch, rows_out[group, rows])

    over_chunks(work, *x.shape[:2], rows_per_chunk=ROWS_PER_CHUNK)
    return out


def backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the breaks; zeros for the two ends, which do not move."""
    x_grad = torch.empty_like(x)
    n_chunks = -(-x.shape[1] // ROWS_PER_CHUNK)
    parts = np.zeros((max(n_chunks, 1), *breaks.shape))
    values, knots, counts, grads, slopes = (_array(tensor) for tensor in (x, breaks, n_knots, grad, x_grad))

    def work(group: int, rows: slice) -> None:
        part = parts[rows.start // ROWS_PER_CHUNK, group]
        scratch = (
            np.empty(2 * degree + 2),
            np.empty((degree + 1, degree + 1)),
            np.empty(degree + 1),
            np.empty(2 * degree + 2),
        )
        arrays = values[group, rows], knots[group], counts[group]
        _backward(*arrays, kind, degree, grads[group, rows], *scratch, slopes[group, rows], part)

    over_chunks(work, *x.shape[:2], rows_per_chunk=ROWS_PER_CHUNK)
    return x_grad, torch.from_numpy(parts.sum(axis=0)).to(breaks.dtype)


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().contiguous().numpy()
