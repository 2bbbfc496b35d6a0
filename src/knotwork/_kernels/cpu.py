"""The encoding on the CPU: compiled loops over values, forward and backward, that keep nothing in between."""

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.cpu_scheme import (
    ROWS_PER_CHUNK,
    as_array,
    chunks_of,
    clip,
    make_scratch,
    run_backwards,
    window_at,
)
from knotwork._kernels.layout import NORMALISED, TAILS
from knotwork._kernels.threads import in_threads
from knotwork.basis._compiled import compiled

__all__ = ["backward", "breaks_and_penalty", "forward", "spacings_backward"]


@compiled()
def _forward(x, breaks, n_knots, kind, degree, t, levels, out):
    """Write what differs from zero into `out`, which holds zeros."""
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            if np.isnan(x[i, f]):
                continue
            interval, mean, scale = window_at(clip(x[i, f]), breaks, f, n_knots[f], kind, degree, t, levels)
            if kind == TAILS:
                for k in range(interval):
                    out[i, f, k] = 1.0
                tail = 0.0
                for r in range(degree, 0, -1):
                    tail += levels[degree, r]
                    out[i, f, interval + r - 1] = tail
            else:
                if kind == NORMALISED:
                    for k in range(n_knots[f] + degree + 1):
                        out[i, f, k] = -mean * scale
                for r in range(degree + 1):
                    out[i, f, interval + r] = (levels[degree, r] - mean) * scale


@compiled(fastmath={"reassoc"})
def _row_sum(grad, i, f, size):
    """Add up the first columns of a row in the order that is fastest, which is the same each time."""
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
            interval, mean, scale = window_at(value, breaks, f, n, kind, degree, t, levels)
            for r in range(degree if kind == TAILS else degree + 1):
                local[r] = grad[i, f, interval + r]
            total = _row_sum(grad, i, f, n + degree + 1) if kind == NORMALISED else 0.0
            x_slope = run_backwards(
                value, f, n, kind, degree, interval, mean, scale, total, t, levels, local, slopes, breaks_grad
            )
            if 0.0 <= x[i, f] <= 1.0:
                x_grad[i, f] = x_slope


@compiled()
def _spacings(logits, n_knots, min_spacing, epsilon, shares, breaks):
    """Fill the shares and breaks of one group, and return its penalty: the formulas of `knotwork._kernels.spacings`."""
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
    numbers, counts, rows = (as_array(tensor) for tensor in (logits.double(), n_knots, breaks))
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
    slopes = np.zeros((groups, features, n_widths + 1)) if breaks_grad is None else as_array(breaks_grad.double())
    penalties = np.zeros(groups) if penalty_grad is None else as_array(penalty_grad.double())
    numbers, counts, rows = (as_array(tensor) for tensor in (logits.double(), n_knots, out))
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
    values, knots, counts, rows_out = (as_array(tensor) for tensor in (x, breaks, n_knots, out))

    def work(group: int, rows: slice) -> None:
        scratch = make_scratch(degree)[:2]
        _forward(values[group, rows], knots[group], counts[group], kind, degree, *scratch, rows_out[group, rows])

    in_threads(work, chunks_of(*x.shape[:2]))
    return out


def backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the breaks; zeros for the two ends, which do not move."""
    x_grad = torch.empty_like(x)
    n_chunks = -(-x.shape[1] // ROWS_PER_CHUNK)
    parts = np.zeros((max(n_chunks, 1), *breaks.shape))
    values, knots, counts, grads, slopes = (as_array(tensor) for tensor in (x, breaks, n_knots, grad, x_grad))

    def work(group: int, rows: slice) -> None:
        part = parts[rows.start // ROWS_PER_CHUNK, group]
        scratch = make_scratch(degree)
        arrays = values[group, rows], knots[group], counts[group]
        _backward(*arrays, kind, degree, grads[group, rows], *scratch, slopes[group, rows], part)

    in_threads(work, chunks_of(*x.shape[:2]))
    return x_grad, torch.from_numpy(parts.sum(axis=0)).to(breaks.dtype)
