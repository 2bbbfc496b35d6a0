"""Batch normalisation on a GPU: one Triton kernel each way; a program processes some columns of a member.

Both ways go through the rows twice: for sums over them, and for the results. If the rows of a program fit into its
registers, they are read once; otherwise tile by tile, twice.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.batch_norm import BatchNormSettings
from knotwork._kernels.dispatch import Path, is_long
from knotwork._kernels.dropout import Noise, keep_threshold
from knotwork._kernels.dropout_triton import element_bits, member_key
from knotwork._kernels.launching import contiguous, launch

TILE = 4096
"""Elements that a program reads at once: 16 per thread."""

MOST_HELD = 8192
"""Most elements that a program keeps in registers, of each tensor: 32 per thread."""

PROGRAMS = 264
"""With fewer programs, a kernel leaves some processors of a large GPU idle."""


@triton.jit
def _columns_mean(means, counts, total):
    """Return the mean of each column from those of its lanes; a second pass over the differences corrects rounding."""
    rough = tl.sum(means * counts, axis=0) / total
    return rough + tl.sum((means - rough[None, :]) * counts, axis=0) / total


@triton.jit
def _statistics_of(x, used, count):
    """Return mean and sum of squared distances from it of the first `count` rows, which are all in x."""
    total = tl.maximum(count, 1).to(tl.float32)
    mean = tl.sum(x.to(tl.float32), axis=0) / total
    apart = tl.where(used, x.to(tl.float32) - mean[None, :], 0.0)
    mean += tl.sum(apart, axis=0) / total  # corrects the rounding of the first sum
    apart = tl.where(used, x.to(tl.float32) - mean[None, :], 0.0)
    return mean, tl.sum(apart * apart, axis=0)


@triton.jit
def _statistics(x_pointer, count, width, columns, TILES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return mean and sum of squared distances from it of the first `count` rows.

    Each of ROWS lanes runs Welford's scheme over every ROWS-th row; Chan's formula combines them.
    """
    lanes = tl.arange(0, ROWS)
    means = tl.zeros((ROWS, COLUMNS), tl.float32)
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(TILES):
        rows = tile * ROWS + lanes
        used = (rows < count)[:, None] & (columns < width)[None, :]
        x = tl.load(x_pointer + rows[:, None] * width + columns[None, :], mask=used, other=0.0).to(tl.float32)
        distance = tl.where(used, x - means, 0.0)
        means += distance * (1.0 / (tile + 1))
        squares += distance * (x - means)
    counts = ((count - lanes + ROWS - 1) // ROWS).to(tl.float32)[:, None]
    total = tl.maximum(count, 1).to(tl.float32)
    mean = _columns_mean(means, counts, total)
    apart = means - mean[None, :]
    return mean, tl.sum(squares + counts * apart * apart, axis=0)


@triton.jit(do_not_specialize=["threshold", "stream"])
def _batch_norm_forward(
    x_pointer, weight_pointer, bias_pointer, running_mean_pointer, running_var_pointer, counts_pointer,
    residual_pointer, seeds_pointer, steps_pointer, mean_pointer, inverse_pointer, keys_pointer, y_pointer,
    width, momentum, epsilon, threshold, scale, stream,
    N_ROWS: tl.constexpr, COUNTED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, RESIDUAL: tl.constexpr,
    TILES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    if LONG:
        width = width.to(tl.int64)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    count = tl.full((), N_ROWS, tl.int32)
    if COUNTED:
        count = tl.load(counts_pointer + member).to(tl.int32)
    start = member * N_ROWS * width
    lanes = tl.arange(0, ROWS)
    if TILES == 1:
        used = (lanes < count)[:, None] & inside[None, :]
        x = tl.load(x_pointer + start + lanes[:, None] * width + columns[None, :], mask=used, other=0.0)
        mean, squares = _statistics_of(x, used, count)
    else:
        mean, squares = _statistics(x_pointer + start, count, width, columns, TILES, ROWS, COLUMNS)
    inverse = 1.0 / tl.sqrt(squares / tl.maximum(count, 1).to(tl.float32) + epsilon)
    place = member * width + columns
    tl.store(mean_pointer + place, mean, mask=inside)
    tl.store(inverse_pointer + place, inverse, mask=inside)

    old = tl.load(running_mean_pointer + place, mask=inside, other=0.0)
    share = tl.where(count > 0, momentum, 0.0)
    tl.store(running_mean_pointer + place, old + share * (mean - old), mask=inside)
    old = tl.load(running_var_pointer + place, mask=inside, other=0.0)
    share = tl.where(count > 1, momentum, 0.0)
    unbiased = squares / tl.maximum(count - 1, 1).to(tl.float32)
    tl.store(running_var_pointer + place, old + share * (unbiased - old), mask=inside)

    if DROP:
        key = member_key(seeds_pointer, steps_pointer, member, stream)
        if tl.program_id(0) == 0:
            tl.store(keys_pointer + member, key.to(tl.int64))
    slope = inverse * tl.load(weight_pointer + place, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_pointer + place, mask=inside, other=0.0).to(tl.float32)
    for tile in range(TILES):
        rows = tile * ROWS + lanes
        i = rows[:, None] * width + columns[None, :]
        within = (rows < N_ROWS)[:, None] & inside[None, :]
        used = (rows < count)[:, None] & inside[None, :]
        if TILES > 1:
            x = tl.load(x_pointer + start + i, mask=used, other=0.0)
        y = (x.to(tl.float32) - mean[None, :]) * slope[None, :] + bias[None, :]
        if RELU:
            y = tl.where(y <= 0.0, 0.0, y)
        y = tl.where(used, y, 0.0)
        if DROP:
            y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y * scale, 0.0)
        if RESIDUAL:
            y += tl.load(residual_pointer + start + i, mask=within, other=0.0).to(tl.float32)
        tl.store(y_pointer + start + i, y.to(y_pointer.dtype.element_ty), mask=within)


@triton.jit
def _slopes(grad_pointer, y_pointer, i, used, key, threshold, RELU: tl.constexpr, DROP: tl.constexpr):
    """Return the gradient of elements that pass relu and dropout, and zeros; of dropout it lacks the scale."""
    grad = tl.load(grad_pointer + i, mask=used, other=0.0)
    if RELU:
        y = tl.load(y_pointer + i, mask=used, other=0.0).to(tl.float32)
        grad = tl.where(y > 0.0, grad, 0.0)
    elif DROP:
        grad = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), grad, 0.0)
    return grad


@triton.jit(do_not_specialize=["threshold"])
def _batch_norm_backward(
    grad_pointer, x_pointer, y_pointer, weight_pointer, counts_pointer, mean_pointer, inverse_pointer, keys_pointer,
    x_grad_pointer, weight_grad_pointer, bias_grad_pointer,
    width, threshold, scale,
    N_ROWS: tl.constexpr, COUNTED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    if LONG:
        width = width.to(tl.int64)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    count = tl.full((), N_ROWS, tl.int32)
    if COUNTED:
        count = tl.load(counts_pointer + member).to(tl.int32)
    start = member * N_ROWS * width
    place = member * width + columns
    mean = tl.load(mean_pointer + place, mask=inside, other=0.0)[None, :]
    inverse = tl.load(inverse_pointer + place, mask=inside, other=0.0)[None, :]
    weight = tl.load(weight_pointer + place, mask=inside, other=0.0).to(tl.float32)[None, :]
    key = tl.full((), 0, tl.uint32)
    if DROP:
        key = tl.load(keys_pointer + member).to(tl.uint32)
    grads = grad_pointer + start
    results = y_pointer + start

    lanes = tl.arange(0, ROWS)
    i = lanes[:, None] * width + columns[None, :]
    used = (lanes < count)[:, None] & inside[None, :]
    grad = _slopes(grads, results, i, used, key, threshold, RELU, DROP)
    x = tl.load(x_pointer + start + i, mask=used, other=0.0)
    sums = grad.to(tl.float32) * scale
    products = sums * (x.to(tl.float32) - mean)
    for tile in range(1, TILES):
        rows = tile * ROWS + lanes
        place_of = rows[:, None] * width + columns[None, :]
        within = (rows < count)[:, None] & inside[None, :]
        slope = _slopes(grads, results, place_of, within, key, threshold, RELU, DROP).to(tl.float32) * scale
        sums += slope
        products += slope * (tl.load(x_pointer + start + place_of, mask=within, other=0.0).to(tl.float32) - mean)
    bias_grad = tl.sum(sums, axis=0)
    weight_grad = tl.sum(products, axis=0) * tl.sum(inverse, axis=0)
    tl.store(bias_grad_pointer + place, bias_grad.to(bias_grad_pointer.dtype.element_ty), mask=inside)
    tl.store(weight_grad_pointer + place, weight_grad.to(weight_grad_pointer.dtype.element_ty), mask=inside)

    total = tl.maximum(count, 1).to(tl.float32)
    constant = bias_grad[None, :] / total
    linear = weight_grad[None, :] * inverse / total
    for tile in range(TILES):
        rows = tile * ROWS + lanes
        i = rows[:, None] * width + columns[None, :]
        used = (rows < count)[:, None] & inside[None, :]
        if TILES > 1:  # otherwise they are still in registers
            grad = _slopes(grads, results, i, used, key, threshold, RELU, DROP)
            x = tl.load(x_pointer + start + i, mask=used, other=0.0)
        slope = grad.to(tl.float32) * scale
        x_grad = weight * inverse * (slope - constant - (x.to(tl.float32) - mean) * linear)
        x_grad = tl.where(used, x_grad, 0.0)
        within = (rows < N_ROWS)[:, None] & inside[None, :]
        tl.store(x_grad_pointer + start + i, x_grad.to(x_grad_pointer.dtype.element_ty), mask=within)


def _run(
    x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, *, buffers: tuple[Tensor, Tensor],
    counts: Tensor | None, noise: Noise | None, settings: BatchNormSettings,
) -> Any:  # fmt: skip
    x = x.contiguous()
    members, _, width = x.shape
    y = torch.empty_like(x)
    mean, inverse = (torch.empty(members, width, dtype=torch.float32, device=x.device) for _ in range(2))
    keys = torch.empty(members, dtype=torch.int64, device=x.device)
    drop = settings.p > 0.0 and noise is not None
    shape = _shape(x, forward=True, fixed_order=settings.fixed_order)
    launch(
        _batch_norm_forward, (triton.cdiv(width, shape["COLUMNS"]), members),
        *contiguous(x, weight, bias), *buffers, counts, *contiguous(residual), *(noise or (None, None)), mean, inverse,
        keys, y, width, settings.momentum, settings.epsilon, keep_threshold(settings.p), 1.0 / (1.0 - settings.p),
        settings.stream,
        COUNTED=counts is not None, RELU=settings.relu, DROP=drop, RESIDUAL=residual is not None, **shape,
    )  # fmt: skip
    return (y,), (x, weight, y if settings.relu else None, mean, inverse, keys)


def _run_backward(
    grads: Any, kept: Any, needed: Any, *, counts: Tensor | None, settings: BatchNormSettings, **_: Any
) -> Any:
    del needed
    x, weight, y, mean, inverse, keys = kept
    weight = weight.contiguous()
    x_grad, weight_grad, bias_grad = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
    shape = _shape(x, forward=False, fixed_order=settings.fixed_order)
    launch(
        _batch_norm_backward, (triton.cdiv(x.shape[2], shape["COLUMNS"]), x.shape[0]),
        grads[0].contiguous(), x, y, weight, counts, mean, inverse, keys, x_grad, weight_grad, bias_grad, x.shape[2],
        keep_threshold(settings.p), 1.0 / (1.0 - settings.p),
        COUNTED=counts is not None, RELU=settings.relu, DROP=settings.p > 0.0, **shape,
    )  # fmt: skip
    return x_grad, weight_grad, bias_grad, grads[0]


def _shape(x: Tensor, *, forward: bool, fixed_order: bool) -> dict[str, int]:
    """Return the constants of a kernel; tiles have 128 bytes of a row, down to 32 if all rows then fit into registers.

    They are also smaller if the GPU would otherwise be partly idle; in a fixed order they depend on the shape of a
    member only. Forward keeps whole lines of 128 bytes rather than all rows, if there are programs enough: reading one
    tensor again, from the cache, takes less time than reading parts of lines, but reading three does not.
    """
    members, n_rows, width = x.shape
    least, columns = 32 // x.element_size(), 128 // x.element_size()
    padded = max(triton.next_power_of_2(n_rows), 16)
    are_many = fixed_order or members * triton.cdiv(width, columns) >= PROGRAMS
    in_lines = forward and are_many and padded * columns > MOST_HELD
    held = not in_lines and padded * least <= MOST_HELD
    while columns > least and (columns >= 2 * width or (held and padded * columns > MOST_HELD) or not are_many):
        columns //= 2
        are_many = fixed_order or members * triton.cdiv(width, columns) >= PROGRAMS
    rows = padded if held else min(TILE // columns, padded)
    tile = {"TILES": triton.cdiv(n_rows, rows), "ROWS": rows, "COLUMNS": columns}
    return {"N_ROWS": n_rows, **tile, "LONG": is_long(n_rows * width), "num_warps": 4 if in_lines else 8}


BATCH_NORM = Path(_run, _run_backward)
