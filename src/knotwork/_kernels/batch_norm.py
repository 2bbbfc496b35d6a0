"""Batch normalisation with statistics of each member over its rows; relu, dropout or a residual in the same pass."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import Operation, Path, as_array, over_chunks
from knotwork._kernels.dropout import ZERO, Noise, as_bits, check_rate, compiled_keys, dropout, keep, keep_threshold
from knotwork._kernels.fixed_order import has_fixed_order
from knotwork._loops import compiled

COLUMNS_PER_CHUNK = 128
"""Columns of a chunk, the work of one thread at a time: 512 bytes of a row."""


class BatchNormSettings(NamedTuple):
    """Settings of the normalisation, relu and dropout, as in `batch_norm`, and whether the order of sums is fixed."""

    momentum: float
    epsilon: float
    relu: bool
    p: float
    stream: int
    fixed_order: bool = False


def batch_norm_formula(
    x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, *, buffers: tuple[Tensor, Tensor],
    counts: Tensor | None, noise: Noise | None, settings: BatchNormSettings,
) -> Tensor:  # fmt: skip
    """Compute `batch_norm` in plain torch; the buffers are the running mean and variance."""
    running_mean, running_var = buffers
    type_ = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows = torch.full((x.shape[0],), x.shape[1], device=x.device) if counts is None else counts
    used = (torch.arange(x.shape[1], device=x.device) < rows[:, None])[..., None]
    n = rows.clamp(min=1).to(type_)[:, None]
    values = torch.where(used, x.to(type_), 0.0)
    mean = values.sum(dim=1) / n
    centred = torch.where(used, values - mean[:, None], 0.0)
    squares = centred.square().sum(dim=1)
    with torch.no_grad():
        shares = settings.momentum * (rows > 0).to(type_)[:, None]
        running_mean += (shares * (mean - running_mean)).to(running_mean.dtype)
        shares = settings.momentum * (rows > 1).to(type_)[:, None]
        running_var += (shares * (squares / (n - 1).clamp(min=1) - running_var)).to(running_var.dtype)
    inverse = (squares / n + settings.epsilon).rsqrt()
    y = centred * (inverse * weight.to(type_))[:, None] + bias.to(type_)[:, None]
    y = torch.where(used, torch.relu(y) if settings.relu else y, 0.0)
    y = dropout(y, settings.p, noise, settings.stream)
    return (y if residual is None else residual.to(type_) + y).to(x.dtype)


def batch_norm_eval(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, *, epsilon: float = 1e-5,
    relu: bool = False, residual: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normalise by the running statistics, as in prediction; parameters as in `batch_norm`."""
    type_ = torch.float64 if x.dtype == torch.float64 else torch.float32
    scale = weight.to(type_) * (running_var.to(type_) + epsilon).rsqrt()
    shift = bias.to(type_) - running_mean.to(type_) * scale
    y = torch.addcmul(shift[:, None], x.to(type_), scale[:, None])
    y = torch.relu(y) if relu else y
    return (y if residual is None else residual.to(type_) + y).to(x.dtype)


# The loops below run over slices, not from low to high: so the compiler knows that no index is negative, and uses
# vector instructions.


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
    """Update the running statistics; a single row has no variance."""
    for c in range(len(mean)):
        if count > 0:
            running_mean[c] += momentum * (mean[c] - running_mean[c])
        if count > 1:
            running_var[c] += momentum * (squares[c] / (count - 1) - running_var[c])


@compiled()
def _drop_row(values, start, key, threshold, scale):
    """Drop elements of part of a row, in place; `start` is the index of the first one within the member."""
    for c in range(len(values)):
        values[c] = values[c] * scale if keep(start + c, key, threshold) else ZERO


@compiled()
def _apply(x, count, low, high, lines, following, residual, y):
    """Write the results of the columns from low to high; `lines` are the mean, slope and bias of each."""
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
def _forward(m, columns, x, weight, bias, running_mean, running_var, count, constants, following, residual, kept, y):
    """Normalise the columns from low to high of member m."""
    low, high = columns
    momentum, epsilon = constants
    mean, squares = np.empty(high - low), np.empty(high - low)
    _statistics(x[m], count, low, high, mean, squares)
    _move(mean, squares, count, momentum, running_mean[m, low:high], running_var[m, low:high])
    means, inverse = kept[0][m, low:high], kept[1][m, low:high]
    means[:] = mean
    inverse[:] = 1.0 / np.sqrt(squares / max(count, 1) + epsilon)
    lines = means, inverse * weight[m, low:high], bias[m, low:high]
    _apply(x[m], count, low, high, lines, following, residual[m], y[m])


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
def _backward(m, columns, all_grads, all_x, all_y, all_weights, means, inverses, count, following, targets):
    """Write the gradients of the columns from low to high of member m."""
    low, high = columns
    grad, x, y, weight = all_grads[m], all_x[m], all_y[m], all_weights[m]
    x_grad, weight_grad, bias_grad = targets[0][m], targets[1][m], targets[2][m]
    mean, inverse = means[m, low:high], inverses[m, low:high]
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


def _run(
    x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, *, buffers: tuple[Tensor, Tensor],
    counts: Tensor | None, noise: Noise | None, settings: BatchNormSettings,
) -> Any:  # fmt: skip
    x = x.contiguous()
    members, n_rows, width = x.shape
    y, mean, inverse = torch.empty_like(x), torch.empty_like(buffers[0]), torch.empty_like(buffers[0])
    drawn = torch.zeros(members, dtype=torch.int32) if noise is None else compiled_keys(noise, settings.stream)
    added = torch.empty(members, 0, width, dtype=x.dtype) if residual is None else residual
    *inputs, addends, target = _arrays(x, weight, bias, added, y)
    moving, kept = tuple(tensor.numpy() for tensor in buffers), _arrays(mean, inverse)
    rows, followings = _of_members(counts, members, n_rows, drawn, settings)
    constants = np.float32(settings.momentum), np.float32(settings.epsilon)

    def work(m: int, part: slice) -> None:
        columns, others = (part.start, part.stop), (rows[m], constants, followings[m], addends, kept, target)
        _forward(m, columns, *inputs, *moving, *others)

    over_chunks(work, members, width, rows_per_chunk=COLUMNS_PER_CHUNK)
    return (y,), (x, weight, y if settings.relu else None, mean, inverse, drawn)


def _run_backward(
    grads: Any, kept: Any, needed: Any, *, counts: Tensor | None, settings: BatchNormSettings, **_: Any
) -> Any:
    del needed
    x, weight, y, mean, inverse, drawn = kept  # gradients pass where y, the result of relu and dropout, is positive
    members, n_rows, width = x.shape
    results = tuple(torch.empty(t.shape, dtype=t.dtype) for t in (x, weight, weight))
    arrays, targets = _arrays(grads[0], x, x if y is None else y, weight, mean, inverse), _arrays(*results)
    rows, followings = _of_members(counts, members, n_rows, drawn, settings)

    def work(m: int, part: slice) -> None:
        _backward(m, (part.start, part.stop), *arrays, rows[m], followings[m], targets)

    over_chunks(work, members, width, rows_per_chunk=COLUMNS_PER_CHUNK)
    return *results, grads[0]


def _arrays(*tensors: Tensor) -> tuple[npt.NDArray[Any], ...]:
    return tuple(as_array(tensor) for tensor in tensors)


def _of_members(counts: Tensor | None, members: int, n_rows: int, drawn: Tensor, settings: BatchNormSettings) -> Any:
    """Return the rows of each member, and the loops' settings of its relu and dropout."""
    threshold, scale = np.uint32(keep_threshold(settings.p)), np.float32(1.0 / (1.0 - settings.p))
    followings = [(settings.relu, settings.p > 0.0, key, threshold, scale) for key in as_bits(drawn)]
    return np.full(members, n_rows) if counts is None else counts.numpy(), followings


_BATCH_NORM = Operation(batch_norm_formula, cpu=Path(_run, _run_backward), triton="batch_norm_triton.BATCH_NORM")


def batch_norm(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, counts: Tensor | None, *,
    momentum: float = 0.1, epsilon: float = 1e-5, relu: bool = False, p: float = 0.0, noise: Noise | None = None,
    stream: int = 0, residual: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normalise the columns of each member by their mean and variance over its rows, as in training.

    The result of a member with one row is its bias, since the variance is 0; its running mean is updated, its running
    variance is not. The running statistics of a member without rows do not change.

    Parameters
    ----------
    x : Tensor of shape (M, B, d)
        The rows of M members.
    weight, bias : Tensor of shape (M, d)
        Scale and shift after the normalisation.
    running_mean, running_var : Tensor of shape (M, d)
        Changed in place, as by `torch.nn.BatchNorm1d`: the variance is the unbiased one.
    counts : Tensor of shape (M,) or None
        Rows of each member, int64; the rows after them are padding. None means B for all members.
    momentum : float, default=0.1
        Share of the new statistics in the running ones.
    epsilon : float, default=1e-05
        Added to the variance.
    relu : bool, default=False
        Whether to set negative results to zero.
    p, noise, stream
        Dropout of the result, as in `dropout`.
    residual : Tensor of shape (M, B, d), optional
        Added to the result; not together with relu.

    Returns
    -------
    Tensor of shape (M, B, d)
        In the type of x; arithmetic is in float32, or in float64 for float64. Rows of padding are 0, plus the
        residual, and pass no gradient, even if they hold NaN; the residual has its gradient everywhere.

    Notes
    -----
    ``weight * (x - mean) / sqrt(var + epsilon) + bias``, with mean and var over the rows of a member. The paths: one
    Triton kernel each way on a GPU, compiled loops for float32 on the CPU, plain torch otherwise.
    """
    check_rate(p)
    if relu and residual is not None:
        raise argument_error("relu", "be False with a residual", relu, "Apply relu to the result.")
    buffers = running_mean, running_var
    if p > 0.0 and noise is None:
        y = batch_norm(x, weight, bias, *buffers, counts, momentum=momentum, epsilon=epsilon, relu=relu)
        y = functional.dropout(y, p)
        return y if residual is None else residual + y
    tensors = x, weight, bias, residual
    settings = BatchNormSettings(momentum, epsilon, relu, p, stream, has_fixed_order())
    # The CPU loops require running statistics in float32.
    loops = x.device.type != "cpu" or all(buffer.dtype == torch.float32 for buffer in buffers)
    run: Any = _BATCH_NORM if loops else batch_norm_formula
    return run(*tensors, buffers=buffers, counts=counts, noise=noise, settings=settings)  # type: ignore[no-any-return]
