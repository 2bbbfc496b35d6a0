"""Batch normalisation on the CPU: compiled loops over some columns of a member, whose rows stay in the cache."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._kernels.threads import over_chunks
from knotwork.basis._compiled import compiled
from knotwork.nn._backbones.batch_norm import Kept, Settings
from knotwork.nn._backbones.cpu_dropout import ZERO, compiled_keys, keep
from knotwork.nn._backbones.dropout import keep_threshold
from knotwork.nn._backbones.noise import Noise

__all__ = ["backward", "forward"]

COLUMNS_PER_CHUNK = 128
"""Columns that a thread takes at a time: 512 bytes of a row."""


# The loops below go over slices, not from low to high: so the compiler knows that no index is negative, and that each
# inner loop is one over vectors.


@compiled()
def _statistics(x, count, low, high, mean, squares):
    """Fill mean and sum of squared distances from it of the first `count` rows, in float64."""
    mean[:], squares[:] = 0.0, 0.0
    for row in range(count):
        values = x[row, low:high]
        for c in range(len(mean)):
            mean[c] += values[c]
    for c in range(len(mean)):
        mean[c] /= max(count, 1)
    for row in range(count):
        values = x[row, low:high]
        for c in range(len(mean)):
            distance = values[c] - mean[c]
            squares[c] += distance * distance


@compiled()
def _move(mean, squares, count, momentum, running_mean, running_var):
    """Move the running statistics; a single row says nothing about the variance."""
    for c in range(len(mean)):
        if count > 0:
            running_mean[c] += momentum * (mean[c] - running_mean[c])
        if count > 1:
            running_var[c] += momentum * (squares[c] / (count - 1) - running_var[c])


@compiled()
def _drop_row(values, start, key, threshold, scale):
    """Drop elements of part of a row, in place; `start` is the number of its first one in the member."""
    for c in range(len(values)):
        values[c] = values[c] * scale if keep(start + c, key, threshold) else ZERO


@compiled()
def _apply(x, count, low, high, lines, following, residual, y):
    """Write the results of some columns; lines are mean, slope and bias of each."""
    mean, slope, bias = lines
    relu, drop, key, threshold, scale = following
    for row in range(count):
        values, results = x[row, low:high], y[row, low:high]
        for c in range(len(mean)):
            results[c] = (values[c] - mean[c]) * slope[c] + bias[c]
        if relu:
            for c in range(len(mean)):
                results[c] = ZERO if results[c] <= ZERO else results[c]
        if drop:
            _drop_row(results, row * x.shape[1] + low, key, threshold, scale)
    y[count:, low:high] = ZERO
    for row in range(residual.shape[0]):
        results, added = y[row, low:high], residual[row, low:high]
        for c in range(len(mean)):
            results[c] += added[c]


@compiled()
def _forward(x, parameters, buffers, count, columns, constants, following, residual, kept, y):
    """Normalise the columns from low to high of one member."""
    low, high = columns
    momentum, epsilon = constants
    mean, squares = np.empty(high - low), np.empty(high - low)
    _statistics(x, count, low, high, mean, squares)
    _move(mean, squares, count, momentum, buffers[0][low:high], buffers[1][low:high])
    means, inverse = kept[0][low:high], kept[1][low:high]
    means[:] = mean
    inverse[:] = 1.0 / np.sqrt(squares / max(count, 1) + epsilon)
    lines = means, inverse * parameters[0][low:high], parameters[1][low:high]
    _apply(x, count, low, high, lines, following, residual, y)


@compiled()
def _slopes(grad, y, start, following, slopes):
    """Fill the gradients before relu and dropout of part of a row; y is the result."""
    relu, drop, key, threshold, scale = following
    if relu:
        for c in range(len(slopes)):
            slopes[c] = grad[c] * scale if y[c] > ZERO else ZERO
    else:
        slopes[:] = grad
        if drop:
            _drop_row(slopes, start, key, threshold, scale)


@compiled()
def _backward(grad, x, y, weight, count, columns, following, kept, grads):
    """Write the gradients of some columns of one member."""
    low, high = columns
    x_grad, weight_grad, bias_grad = grads
    mean, inverse = kept[0][low:high], kept[1][low:high]
    sums, products, slopes = np.zeros_like(mean), np.zeros_like(mean), np.empty_like(mean)
    for row in range(count):
        _slopes(grad[row, low:high], y[row, low:high], row * x.shape[1] + low, following, slopes)
        values = x[row, low:high]
        for c in range(len(mean)):
            sums[c] += slopes[c]
            products[c] += slopes[c] * (values[c] - mean[c])
    bias_grad[low:high] = sums
    weight_grad[low:high] = products * inverse
    front, constant, linear = np.empty_like(mean), np.empty_like(mean), np.empty_like(mean)
    front[:] = weight[low:high] * inverse
    constant[:] = sums / max(count, 1)
    linear[:] = products * inverse * inverse / max(count, 1)
    for row in range(count):
        _slopes(grad[row, low:high], y[row, low:high], row * x.shape[1] + low, following, slopes)
        values, out = x[row, low:high], x_grad[row, low:high]
        for c in range(len(mean)):
            out[c] = front[c] * (slopes[c] - constant[c] - (values[c] - mean[c]) * linear[c])
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
