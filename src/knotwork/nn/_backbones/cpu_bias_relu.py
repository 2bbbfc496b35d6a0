"""Bias, relu and dropout on the CPU: one compiled pass each way."""

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.threads import over_chunks
from knotwork.basis._compiled import compiled
from knotwork.nn._backbones.cpu_dropout import VALUES_PER_CHUNK, ZERO, compiled_keys, keep
from knotwork.nn._backbones.dropout import keep_threshold
from knotwork.nn._backbones.noise import Noise

__all__ = ["backward", "forward"]


@compiled()
def _forward(x, bias, start, key, threshold, scale, out):
    """Fill `out`; x begins with the member's row `start`."""
    width = x.shape[1]
    for row in range(x.shape[0]):
        first = (start + row) * width
        for column in range(width):
            value = x[row, column] + bias[column]
            kept = keep(first + column, key, threshold)
            out[row, column] = ZERO if value <= ZERO or not kept else value * scale


@compiled()
def _backward(grad, y, scale, x_grad, bias_grad):
    """Fill `x_grad`, and add its rows to `bias_grad`."""
    for row in range(y.shape[0]):
        for column in range(y.shape[1]):
            slope = grad[row, column] * scale if y[row, column] > ZERO else ZERO
            x_grad[row, column] = slope
            bias_grad[column] += slope


def forward(x: Tensor, bias: Tensor, p: float, noise: Noise, stream: int) -> Tensor:
    """Return ``dropout(relu(x + bias))`` for float32; the definition is in `bias_relu`."""
    out = torch.empty(x.shape, dtype=x.dtype)
    source, shift, target = x.detach().contiguous().numpy(), bias.detach().contiguous().numpy(), out.numpy()
    keys = compiled_keys(noise, stream)
    threshold, scale = np.uint32(keep_threshold(p)), np.float32(1.0 / (1.0 - p))

    def work(member: int, part: slice) -> None:
        _forward(source[member, part], shift[member], part.start, keys[member], threshold, scale, target[member, part])

    over_chunks(work, x.shape[0], x.shape[1], rows_per_chunk=_rows_per_chunk(x))
    return out


def backward(grad: Tensor, y: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the bias."""
    out = torch.empty(y.shape, dtype=y.dtype)
    slopes, result, target = (tensor.detach().contiguous().numpy() for tensor in (grad, y, out))
    scale, rows = np.float32(1.0 / (1.0 - p)), _rows_per_chunk(y)
    sums = np.zeros((y.shape[0], -(-y.shape[1] // rows), y.shape[2]), dtype=np.float32)

    def work(member: int, part: slice) -> None:
        place = part.start // rows
        _backward(slopes[member, part], result[member, part], scale, target[member, part], sums[member, place])

    over_chunks(work, y.shape[0], y.shape[1], rows_per_chunk=rows)
    return out, torch.from_numpy(sums.sum(axis=1))


def _rows_per_chunk(x: Tensor) -> int:
    return max(VALUES_PER_CHUNK // x.shape[2], 1)
