"""Batch normalisation on the CPU: compiled loops over some columns of a member, whose rows stay in the cache."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork.basis.compiled import compiled
from knotwork.nn.backbones.batch_norm import Kept, Settings
from knotwork.nn.backbones.cpu_dropout import ZERO, compiled_keys, keep
from knotwork.nn.backbones.dropout import keep_threshold
from knotwork.nn.backbones.noise import Noise
from knotwork.nn.threads import over_chunks

__all__ = ["backward", "forward"]

COLUMNS_PER_CHUNK = 64
"""Columns that a thread takes at a time: 256 bytes of a row."""


@compiled()
def _statistics(x, count, low, high, mean, squares):
    """Fill mean and sum of squared distances from it of the first `count` rows, in float64."""
    mean[:], squares[:] = 0.0, 0.0
    for row in range(count):
        for c in range(high - low):
            mean[c] += x[row, low + c]
    for c in range(high - low):
        mean[c] /= max(count, 1)
    for row in range(count):
        for c in range(high - low):
            distance = x[row, low + c] - mean[c]
            squares[c] += distance * distance


@compiled()
def _move(statistics, low, count, momentum, running_mean, running_var):
    """Move the running statistics; a single row says nothing about the variance."""
    mean, squares = statistics
    for c in range(len(mean)):
        if count > 0:
            running_mean[low + c] += momentum * (mean[c] - running_mean[low + c])
        if count > 1:
            running_var[low + c] += momentum * (squares[c] / (count - 1) - running_var[low + c])


@compiled()
def _apply(x, count, columns, lines, following, residual, y):
    """Write the results of some columns; lines are mean, slope and bias of each."""
    low, high = columns
    mean, slope, bias = lines
    relu, drop, key, threshold, scale = following
    width = x.shape[1]
    for row in range(x.shape[0]):
        for c in range(high - low):
            value = ZERO
            if row < count:
                value = (x[row, low + c] - mean[c]) * slope[c] + bias[c]
                value = ZERO if relu and value <= ZERO else value
                if drop:
                    value = value * scale if keep(row * width + low + c, key, threshold) else ZERO
            y[row, low + c] = value
        if residual.shape[0]:
            for c in range(low, high):
                y[row, c] += residual[row, c]


@compiled()
def _forward(x, parameters, buffers, count, columns, constants, following, residual, kept, y):
    """Normalise the columns from low to high of one member."""
    low, high = columns
    momentum, epsilon = constants
    statistics = np.empty(high - low), np.empty(high - low)
    _statistics(x, count, low, high, *statistics)
    _move(statistics, low, count, momentum, *buffers)
    mean, inverse = kept
    for c in range(low, high):
        mean[c] = statistics[0][c - low]
        inverse[c] = 1.0 / np.sqrt(statistics[1][c - low] / max(count, 1) + epsilon)
    lines = mean[low:high], inverse[low:high] * parameters[0][low:high], parameters[1][low:high]
    _apply(x, count, columns, lines, following, residual, y)


@compiled(inline="always")
def _slope(grad, y, i, following):
    """Return a gradient before relu and dropout; y is the result, i the number of the element."""
    relu, drop, key, threshold, scale = following
    if relu:
        return grad * scale if y > ZERO else ZERO
    if drop:
        return grad * scale if keep(i, key, threshold) else ZERO
    return grad


@compiled()
def _backward(grad, x, y, weight, count, columns, following, kept, grads):
    """Write the gradients of some columns of one member."""
    low, high = columns
    x_grad, weight_grad, bias_grad = grads
    mean, inverse = kept[0][low:high], kept[1][low:high]
    width, n = x.shape[1], max(count, 1)
    sums, products = np.zeros(high - low), np.zeros(high - low)
    for row in range(count):
        for c in range(high - low):
            slope = _slope(grad[row, low + c], y[row, low + c], row * width + low + c, following)
            sums[c] += slope
            products[c] += slope * (x[row, low + c] - mean[c])
    front, constant, linear = np.empty_like(mean), np.empty_like(mean), np.empty_like(mean)
    for c in range(high - low):
        bias_grad[low + c], weight_grad[low + c] = sums[c], products[c] * inverse[c]
        front[c], constant[c] = weight[low + c] * inverse[c], sums[c] / n
        linear[c] = products[c] * inverse[c] * inverse[c] / n
    for row in range(count):
        for c in range(high - low):
            slope = _slope(grad[row, low + c], y[row, low + c], row * width + low + c, following)
            x_grad[row, low + c] = front[c] * (slope - constant[c] - (x[row, low + c] - mean[c]) * linear[c])
    x_grad[count:, low:high] = ZERO


def forward(
    x: Tensor,
    parameters: tuple[Tensor, Tensor],
    buffers: tuple[Tensor, Tensor],
    counts: Tensor | None,
    *,
    settings: Settings,
    noise: Noise | None,
    residual: Tensor | None,
) -> tuple[Tensor, Kept]:
    """Return the result of `batch_norm` for contiguous float32, and what `backward` needs; the buffers move."""
    members, n_rows, width = x.shape
    y, mean, inverse = torch.empty_like(x), torch.empty_like(buffers[0]), torch.empty_like(buffers[0])
    keys = compiled_keys(noise, settings.stream) if noise is not None else np.zeros(members, dtype=np.uint32)
    values, target = _arrays(x, y)
    scales, moving, kept = _arrays(*parameters), tuple(tensor.numpy() for tensor in buffers), _arrays(mean, inverse)
    added = torch.empty(members, 0, width, dtype=x.dtype) if residual is None else residual
    (addends,) = _arrays(added)
    rows = _rows(counts, members, n_rows)
    constants = np.float32(settings.momentum), np.float32(settings.epsilon)

    def work(m: int, part: slice) -> None:
        _forward(
            values[m],
            (scales[0][m], scales[1][m]),
            (moving[0][m], moving[1][m]),
            rows[m],
            (part.start, part.stop),
            constants,
            _following(settings, keys[m]),
            addends[m],
            (kept[0][m], kept[1][m]),
            target[m],
        )

    over_chunks(work, members, width, rows_per_chunk=COLUMNS_PER_CHUNK)
    return y, Kept(mean, inverse, torch.from_numpy(keys.astype(np.int64)))


def backward(
    grad: Tensor, x: Tensor, weight: Tensor, counts: Tensor | None, y: Tensor | None, kept: Kept, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias; y is the result if it went through relu."""
    members, n_rows, width = x.shape
    x_grad, weight_grad, bias_grad = (torch.empty(t.shape, dtype=t.dtype) for t in (x, weight, weight))
    slopes, values, results, scales, means, inverses = _arrays(grad, x, x if y is None else y, weight, *kept[:2])
    targets = _arrays(x_grad, weight_grad, bias_grad)
    keys = kept.keys.numpy().astype(np.uint32)
    rows = _rows(counts, members, n_rows)

    def work(m: int, part: slice) -> None:
        _backward(
            slopes[m],
            values[m],
            results[m],
            scales[m],
            rows[m],
            (part.start, part.stop),
            _following(settings, keys[m]),
            (means[m], inverses[m]),
            (targets[0][m], targets[1][m], targets[2][m]),
        )

    over_chunks(work, members, width, rows_per_chunk=COLUMNS_PER_CHUNK)
    return x_grad, weight_grad, bias_grad


def _arrays(*tensors: Tensor) -> tuple[npt.NDArray[Any], ...]:
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


def _rows(counts: Tensor | None, members: int, n_rows: int) -> npt.NDArray[np.int64]:
    return np.full(members, n_rows) if counts is None else counts.numpy()


def _following(settings: Settings, key: np.uint32) -> tuple[bool, bool, np.uint32, np.uint32, np.float32]:
    """Return what the loops need to know of relu and dropout."""
    threshold, scale = np.uint32(keep_threshold(settings.p)), np.float32(1.0 / (1.0 - settings.p))
    return settings.relu, settings.p > 0.0, key, threshold, scale
