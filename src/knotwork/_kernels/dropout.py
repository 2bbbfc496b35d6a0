"""Random numbers of members, and dropout that uses them: alone, or after a bias and relu.

Random numbers are a function of counters, not the state of a generator: they depend on the member's random seed and
step, never on the other members. So they are the same on every device, a gradient can draw them again, and a step that
is captured into a CUDA graph draws new ones at each replay.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import Operation, Path, as_array, in_ranges
from knotwork.basis._compiled import compiled

__all__ = [
    "ZERO",
    "Noise",
    "as_bits",
    "bias_relu_dropout",
    "check_rate",
    "compiled_keys",
    "dropout",
    "keep",
    "keep_mask",
    "keep_threshold",
    "keyed_bits",
    "member_keys",
    "random_bits",
    "row_order",
]

VALUES_PER_CHUNK = 1 << 16
"""Values of a chunk, the work of one thread at a time."""

# Constants above 2**31 are written as signed values: so the product with a number of 32 bits fits into an int64.
_MASK = 0xFFFFFFFF
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - (1 << 32)
_GOLDEN = 0x9E3779B9 - (1 << 32)
_SEED, _STEP, _STREAM = 0x3C6EF372, 0x85EBCA6B - (1 << 32), 0x27D4EB2F
_ORDER = (-1, -2)  # streams of the two halves of a sort key; those of dropout count from 0


class Noise(NamedTuple):
    """Counters that the random numbers of M members are computed from, int64 of shape (M,).

    `seeds` are in [0, 2**31). `step` is the number of completed training steps, which the owner increments in place.
    """

    seeds: Tensor
    step: Tensor


def random_bits(noise: Noise, stream: int, n: int) -> Tensor:
    """Return 32 random bits for each of n elements of every member.

    Parameters
    ----------
    noise : Noise
        Seeds and steps of the M members.
    stream : int
        Number of the sequence within a step, from 0: every operation that draws uses another one.
    n : int
        Elements of a member, at most 2**31. Element i does not depend on n.

    Returns
    -------
    Tensor of shape (M, n)
        int64, in [0, 2**32).

    Notes
    -----
    Element i is ``mix(i * 0x9E3779B9 + key)`` modulo 2**32 with the key of `member_keys`, and mix Ellis's 32-bit
    finaliser "lowbias32", a bijection.

    Examples
    --------
    >>> noise = Noise(torch.tensor([7, 8]), torch.tensor([0, 0]))
    >>> bool(torch.equal(random_bits(noise, 0, 5)[1:], random_bits(Noise(*(t[1:] for t in noise)), 0, 5)))
    True
    """
    return keyed_bits(member_keys(noise, stream), n)


def member_keys(noise: Noise, stream: int) -> Tensor:
    """Return the key of each member's sequence, int64 of shape (M,) in [0, 2**32).

    It is ``mix(mix(mix(seed ^ a) + step * b) + stream * c)`` modulo 2**32, with constants a, b and c.
    """
    key = _mix((noise.seeds & _MASK) ^ _SEED)
    key = _mix(key + (noise.step & _MASK) * _STEP)
    return _mix(key + (stream & _MASK) * _STREAM)


def row_order(seeds: Tensor, epochs: Tensor, counts: Tensor, n: int) -> Tensor:
    """Return a random order of the rows of every member, which depends only on its random seed and epoch.

    Seeds, epochs and counts (rows of each member, 0 to n) are int64 of shape (M,). The result is int64 of shape (M, n):
    the first ``counts[m]`` entries of row m are a permutation of ``range(counts[m])`` that does not depend on n,
    followed by the remaining numbers below n in order.

    Examples
    --------
    >>> order = row_order(torch.tensor([3]), torch.tensor([0]), torch.tensor([4]), n=6)
    >>> sorted(order[0, :4].tolist()), order[0, 4:].tolist()
    ([0, 1, 2, 3], [4, 5])
    """
    high, low = (keyed_bits(member_keys(Noise(seeds, epochs), stream), n) >> 1 for stream in _ORDER)
    rows = torch.arange(n, device=seeds.device)
    keys = torch.where(rows < counts[:, None], (high << 31) | low, 1 << 62)
    return torch.argsort(keys, dim=1, stable=True)


def keyed_bits(keys: Tensor, n: int, start: int = 0) -> Tensor:
    """Return the bits of elements `start` to ``start + n`` for keys of shape (M,): int64 of shape (M, n)."""
    return _mix(torch.arange(start, start + n, device=keys.device) * _GOLDEN + keys[:, None])


def _mix(x: Tensor) -> Tensor:
    """Mix the lower 32 bits of int64."""
    x = x & _MASK
    x = ((x ^ (x >> 16)) * _FIRST) & _MASK
    x = ((x ^ (x >> 15)) * _SECOND) & _MASK
    return x ^ (x >> 16)


def keep_threshold(p: float) -> int:
    """Return the smallest random bits for which an element is kept."""
    return math.ceil(p * 2**32)


def keep_mask(x: Tensor, p: float, noise: Noise, stream: int) -> Tensor:
    """Return which elements of x, of shape (M, ...), are kept."""
    return (random_bits(noise, stream, x[0].numel()) >= keep_threshold(p)).view(x.shape)


def check_rate(p: float) -> None:
    """Raise an error unless p is a valid probability of dropout."""
    if not 0.0 <= p < 1.0:
        raise argument_error("p", "be at least 0 and less than 1", p, "Dropout cannot set all elements to zero.")


def _dropout_formula(x: Tensor, *, p: float, noise: Noise, stream: int) -> Tensor:
    return torch.where(keep_mask(x, p, noise, stream), x * (1.0 / (1.0 - p)), 0.0)


def _bias_relu_formula(x: Tensor, bias: Tensor, *, p: float, noise: Noise | None, stream: int) -> Tensor:
    y = _relu_of_sum(x, bias)
    if noise is not None and p > 0.0 and x.numel():
        y = _dropout_formula(y, p=p, noise=noise, stream=stream)
    return y.to(x.dtype)


def _relu_of_sum(x: Tensor, bias: Tensor) -> Tensor:
    """Return ``relu(x + bias)``, in float32 or float64."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return functional.relu(x.to(dtype) + bias.to(dtype)[:, None])


# The same bits in uint32, compiled, so that one pass over the values draws them and drops.

FIRST, SECOND, GOLDEN = np.uint32(0x7FEB352D), np.uint32(0x846CA68B), np.uint32(0x9E3779B9)
SEED, STEP, STREAM = np.uint32(0x3C6EF372), np.uint32(0x85EBCA6B), np.uint32(0x27D4EB2F)
ZERO = np.float32(0.0)


@compiled(inline="always")
def _mix32(x):
    x = np.uint32((x ^ (x >> np.uint32(16))) * FIRST)
    x = np.uint32((x ^ (x >> np.uint32(15))) * SECOND)
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled(inline="always")
def keep(i, key, threshold):
    """Return whether element i of a member with this key is kept."""
    return _mix32(np.uint32(np.uint32(i) * GOLDEN + key)) >= threshold


@compiled()
def _keys(seeds, steps, stream, keys):
    for member in range(len(keys)):
        key = _mix32(np.uint32(np.uint32(seeds[member]) ^ SEED))
        key = _mix32(np.uint32(key + np.uint32(steps[member]) * STEP))
        keys[member] = _mix32(np.uint32(key + stream * STREAM))


# Loops over chunks from `first` to `stop`: a chunk is some values or rows of a member, and a member has whole chunks.


@compiled()
def _dropout(first, stop, x, keys, threshold, scale, out):
    """Fill `out`, of shape (M, n)."""
    n = x.shape[1]
    per_member = -(-n // VALUES_PER_CHUNK)
    for chunk in range(first, stop):
        member, start = chunk // per_member, chunk % per_member * VALUES_PER_CHUNK
        key = keys[member]
        for i in range(start, min(start + VALUES_PER_CHUNK, n)):
            out[member, i] = x[member, i] * scale if keep(i, key, threshold) else ZERO


@compiled()
def _bias_relu(first, stop, n_rows, x, bias, keys, threshold, scale, out):
    """Fill `out`; a chunk has `n_rows` rows."""
    width = x.shape[2]
    per_member = -(-x.shape[1] // n_rows)
    for chunk in range(first, stop):
        member, start = chunk // per_member, chunk % per_member * n_rows
        key, shift = keys[member], bias[member]
        for row in range(start, min(start + n_rows, x.shape[1])):
            values, results = x[member, row], out[member, row]
            for column in range(width):
                value = values[column] + shift[column]
                kept = keep(row * width + column, key, threshold)
                results[column] = ZERO if value <= ZERO or not kept else value * scale


@compiled()
def _bias_relu_backward(first, stop, n_rows, grad, y, scale, x_grad, sums):
    """Fill `x_grad`, and add its rows to the sums of each chunk, which hold zeros."""
    per_member = -(-y.shape[1] // n_rows)
    for chunk in range(first, stop):
        member, start = chunk // per_member, chunk % per_member * n_rows
        total = sums[member, chunk % per_member]
        for row in range(start, min(start + n_rows, y.shape[1])):
            slopes, results, target = grad[member, row], y[member, row], x_grad[member, row]
            for column in range(y.shape[2]):
                slope = slopes[column] * scale if results[column] > ZERO else ZERO
                target[column] = slope
                total[column] += slope


def compiled_keys(noise: Noise, stream: int) -> Tensor:
    """Return the bits of `member_keys` as int32, which autograd can save; `as_bits` views them as uint32."""
    keys = torch.empty(len(noise.seeds), dtype=torch.int32)
    _keys(noise.seeds.numpy(), noise.step.numpy(), np.uint32(stream), as_bits(keys))
    return keys


def as_bits(keys: Tensor) -> npt.NDArray[np.uint32]:
    """Return an int32 tensor as an array of uint32, a type that torch hardly supports."""
    return keys.numpy().view(np.uint32)


def _drop(x: Tensor, p: float, drawn: Tensor) -> Tensor:
    out, members, keys = torch.empty(x.shape, dtype=x.dtype), x.shape[0], as_bits(drawn)
    source, target = as_array(x).reshape(members, -1), out.view(members, -1).numpy()
    threshold, scale = np.uint32(keep_threshold(p)), np.float32(1.0 / (1.0 - p))

    def work(first: int, stop: int) -> None:
        _dropout(first, stop, source, keys, threshold, scale, target)

    in_ranges(work, members * -(-source.shape[1] // VALUES_PER_CHUNK))
    return out


def _dropout_forward(x: Tensor, *, p: float, noise: Noise, stream: int) -> Any:
    keys = compiled_keys(noise, stream)  # kept instead of the counters, which change before backward
    return (_drop(x, p, keys),), (keys,)


def _dropout_backward(grads: Any, kept: Any, needed: Any, *, p: float, **_: Any) -> Any:
    del needed
    return (_drop(grads[0], p, kept[0]),)


def _bias_relu_run(x: Tensor, bias: Tensor, *, p: float, noise: Noise, stream: int) -> Any:
    out, n_rows = torch.empty(x.shape, dtype=x.dtype), _rows_per_chunk(x)
    source, shift, target = as_array(x), as_array(bias), out.numpy()
    keys = as_bits(compiled_keys(noise, stream))
    threshold, scale = np.uint32(keep_threshold(p)), np.float32(1.0 / (1.0 - p))

    def work(first: int, stop: int) -> None:
        _bias_relu(first, stop, n_rows, source, shift, keys, threshold, scale, target)

    in_ranges(work, x.shape[0] * -(-x.shape[1] // n_rows))
    return (out,), (out,)  # a positive result means that the sum was positive and kept


def _bias_relu_run_backward(grads: Any, kept: Any, needed: Any, *, p: float, **_: Any) -> Any:
    del needed
    (y,) = kept
    out, scale, n_rows = torch.empty(y.shape, dtype=y.dtype), np.float32(1.0 / (1.0 - p)), _rows_per_chunk(y)
    slopes, result, target = as_array(grads[0]), as_array(y), out.numpy()
    per_member = -(-y.shape[1] // n_rows)
    sums = torch.zeros(y.shape[0], per_member, y.shape[2])
    totals = sums.numpy()

    def work(first: int, stop: int) -> None:
        _bias_relu_backward(first, stop, n_rows, slopes, result, scale, target, totals)

    in_ranges(work, y.shape[0] * per_member)
    return out, sums[:, 0] if per_member == 1 else sums.sum(dim=1)


def _rows_per_chunk(x: Tensor) -> int:
    return max(VALUES_PER_CHUNK // x.shape[2], 1)


_DROPOUT = Operation(_dropout_formula, cpu=Path(_dropout_forward, _dropout_backward), triton="dropout_triton.DROPOUT")
_BIAS_RELU = Operation(
    _bias_relu_formula, cpu=Path(_bias_relu_run, _bias_relu_run_backward), triton="dropout_triton.BIAS_RELU"
)


def dropout(x: Tensor, p: float, noise: Noise | None, stream: int = 0) -> Tensor:
    """Set elements to zero with probability p, and divide the others by 1 - p.

    Parameters
    ----------
    x : Tensor of shape (M, ...)
        Values of M members, of any float type.
    p : float
        Probability of a zero, in [0, 1). With 0, x is returned.
    noise : Noise or None
        Random seeds and steps of the members; None draws from torch's generator.
    stream : int
        Number of this operation in the network. Operations with the same number drop the same elements.

    Returns
    -------
    Tensor of shape (M, ...)
        Element i of a member, counted in memory order, is kept if its `random_bits` are at least ``p * 2**32``.

    Notes
    -----
    Backward keeps only a key per member and draws again. The paths: one Triton kernel for float32 and bfloat16 on a
    GPU, a compiled loop for float32 on the CPU, `keep_mask` otherwise. All give the same numbers, bit for bit.
    """
    check_rate(p)
    if p == 0.0 or x.numel() == 0:
        return x
    if noise is None:
        return functional.dropout(x, p)
    return _DROPOUT(x, p=p, noise=noise, stream=stream)  # type: ignore[no-any-return]


def bias_relu_dropout(x: Tensor, bias: Tensor, p: float, noise: Noise | None, stream: int = 0) -> Tensor:
    """Return ``dropout(relu(x + bias))`` in the type of x. Backward keeps only the result.

    x is of shape (M, B, d) and the bias of shape (M, d), of any float type; p, noise and stream are those of `dropout`.
    Arithmetic is in float32, or in float64 for float64.

    Notes
    -----
    The bias is added here, not by the matrix product before, which saves a pass over memory each way. The paths: a
    Triton kernel each way on a GPU, compiled loops for float32 on the CPU, plain torch otherwise. Values are the same,
    bit for bit; gradients of the bias are summed in different orders.
    """
    check_rate(p)
    if noise is None and p > 0.0:
        return functional.dropout(_relu_of_sum(x, bias), p).to(x.dtype)
    drawn = None if p == 0.0 else noise
    # Without random numbers torch's loops are as fast as the compiled ones.
    run: Any = _bias_relu_formula if drawn is None and x.device.type == "cpu" else _BIAS_RELU
    return run(x, bias, p=p, noise=drawn, stream=stream)  # type: ignore[no-any-return]
