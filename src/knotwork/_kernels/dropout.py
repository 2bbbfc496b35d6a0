"""Random numbers of members, and dropout that uses them: alone, or after a bias and an activation.

Random numbers are a function of counters, not the state of a generator: they depend on the member's random seed and
step, never on the other members. So they are the same on every device, a gradient can draw them again, and a step that
is captured into a CUDA graph draws new ones at each replay.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error, check_choice
from knotwork._kernels.dispatch import VALUES_PER_CHUNK, Operation, Path, as_array, in_ranges
from knotwork._loops import compiled

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "selu": functional.selu,
    "mish": functional.mish,
    "relu": functional.relu,
}
"""The activations by name."""

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
    high, low = (drawn_bits(member_keys(Noise(seeds, epochs), stream), n) >> 1 for stream in _ORDER)
    rows = torch.arange(n, device=seeds.device)
    keys = torch.where(rows < counts[:, None], (high << 31) | low, 1 << 62)
    return torch.argsort(keys, dim=1, stable=True)


def keyed_bits(keys: Tensor, n: int, start: int = 0) -> Tensor:
    """Return the bits of elements `start` to ``start + n`` for keys of shape (M,): int64 of shape (M, n)."""
    return _mix(torch.arange(start, start + n, device=keys.device) * _GOLDEN + keys[:, None])


def pair_numbers(keys: Tensor, n_first: int, n_second: int, start: int = 0) -> tuple[Tensor, Tensor]:
    """Return odd random numbers of shapes (M, n_first) and (M, n_second), whose products are the bits of pairs.

    A table of n_first x n_second elements then costs n_first + n_second draws and a product per element, not a draw
    per element: attention weights are many. Number i of the first kind is element ``start + i`` of the member's
    sequence, number j of the second is element ``-1 - j``, both with the lowest bit set.
    """
    return keyed_bits(keys, n_first, start) | 1, keyed_bits(keys, n_second, -n_second).flip(1) | 1


def pair_bits(first: Tensor, second: Tensor) -> Tensor:
    """Return the bits of all pairs of numbers: products modulo 2**32, of shape (..., n_first, n_second).

    An odd factor permutes the odd numbers, so that the bits of every row and of every column are uniform.
    """
    return (first[..., :, None] * second[..., None, :]) & _MASK


def drawn_bits(keys: Tensor, n: int) -> Tensor:
    """Return `keyed_bits` of n elements; on the CPU by a compiled loop, as one draws for whole networks and tables."""
    if keys.device.type != "cpu":
        return keyed_bits(keys, n)
    bits = torch.empty(len(keys), n, dtype=torch.int64)
    _fill_bits(keys.numpy().astype(np.uint32), bits.numpy())
    return bits


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


def _bias_act_formula(
    x: Tensor, bias: Tensor, *, p: float, noise: Noise | None, stream: int, activation: str, scale: float
) -> Tensor:
    y = _activated(x, bias, activation=activation, scale=scale)
    if noise is not None and p > 0.0 and x.numel():
        y = _dropout_formula(y, p=p, noise=noise, stream=stream)
    return y.to(x.dtype)


def _activated(x: Tensor, bias: Tensor, *, activation: str, scale: float) -> Tensor:
    """Return ``activation(scale * x + bias)``, in float32 or float64."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return ACTIVATIONS[activation](torch.add(bias.to(dtype)[:, None], x.to(dtype), alpha=scale))


# The same bits in uint32, compiled, so that one pass over the values draws them and drops.

FIRST, SECOND, GOLDEN = np.uint32(0x7FEB352D), np.uint32(0x846CA68B), np.uint32(0x9E3779B9)
SEED, STEP, STREAM = np.uint32(0x3C6EF372), np.uint32(0x85EBCA6B), np.uint32(0x27D4EB2F)
ZERO, ONE, TWO, FOUR = np.float32(0.0), np.float32(1.0), np.float32(2.0), np.float32(4.0)


@compiled(inline="always")
def _mix32(x):
    x = np.uint32((x ^ (x >> np.uint32(16))) * FIRST)
    x = np.uint32((x ^ (x >> np.uint32(15))) * SECOND)
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled(inline="always")
def keep(i, key, threshold):
    """Return whether element i of a member with this key is kept."""
    return _mix32(np.uint32(np.uint32(i) * GOLDEN + key)) >= threshold


@compiled(nogil=False)
def fill_keys(seeds, steps, first, keys):
    """Fill the keys of several streams, of shape (n_streams, M), from stream `first` on."""
    for stream in range(keys.shape[0]):
        for member in range(keys.shape[1]):
            key = _mix32(np.uint32(np.uint32(seeds[member]) ^ SEED))
            key = _mix32(np.uint32(key + np.uint32(steps[member]) * STEP))
            keys[stream, member] = _mix32(np.uint32(key + np.uint32(first + stream) * STREAM))


@compiled()
def _fill_bits(keys, bits):
    for member in range(len(keys)):
        for i in range(bits.shape[1]):
            bits[member, i] = _mix32(np.uint32(np.uint32(i) * GOLDEN + keys[member]))


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


# Exponentials by arithmetic alone, which the compiler turns into vector instructions, as it does not with `np.exp`.
# LN2_HIGH has so few bits that its products with whole numbers are exact. EXP is the polynomial of Cephes's `expf`.

LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
WHOLE_NUMBER_SHIFT = np.float32(3 << 22)
"""Added to a number below 2**22, it rounds to a whole number, which is then in the lowest bits."""
EXP = tuple(np.float32(c) for c in (1.9875691e-4, 1.3981999e-3, 8.3334519e-3, 4.1665796e-2, 1.6666665e-1, 0.5))
EXPONENT_BIAS, EXPONENT_PLACE = np.int32(127), np.int32(23)
LOWEST, HIGHEST = np.float32(-87.0), np.float32(20.0)
"""Below LOWEST an exponential counts as 0; from HIGHEST on, Mish is the identity."""
SELU_SCALE, SELU_ALPHA = np.float32(1.0507009873554805), np.float32(1.0507009873554805 * 1.6732632423543772)

ACTIVATION_KINDS = {"relu": (), "mish": (0,), "selu": (0, 0)}
"""The activation as the length of a tuple, which is part of its type: numba compiles only the branch that is taken."""
MISH = 1


@compiled(inline="always")
def _exponential(x):
    """Return s and q with ``exp(x) = s + s * q`` for x <= HIGHEST; s is a power of two."""
    inside = LOWEST if x < LOWEST else x
    shifted = np.float32(inside * LOG2_E + WHOLE_NUMBER_SHIFT)
    whole = np.float32(shifted - WHOLE_NUMBER_SHIFT)
    r = np.float32(np.float32(inside - whole * LN2_HIGH) - whole * LN2_LOW)
    q = np.float32(((((EXP[0] * r + EXP[1]) * r + EXP[2]) * r + EXP[3]) * r + EXP[4]) * r + EXP[5])
    power = np.int32((shifted.view(np.int32) + EXPONENT_BIAS) << EXPONENT_PLACE).view(np.float32)
    return ZERO if x < LOWEST else power, np.float32(q * r * r + r)


@compiled(inline="always")
def _curve(kind, z):
    """Return Mish or SELU of z."""
    if len(kind) == MISH:
        s, q = _exponential(HIGHEST if z > HIGHEST else z)
        w = s + s * q
        n = w * (w + TWO)
        return z * (n / (n + TWO))
    s, q = _exponential(ZERO if z > ZERO else z)
    return SELU_SCALE * z if z > ZERO else SELU_ALPHA * (s * q + (s - ONE))


@compiled(inline="always")
def _slope(kind, z):
    """Return the derivative of Mish or SELU at z."""
    if len(kind) == MISH:
        z = HIGHEST if z > HIGHEST else z
        s, q = _exponential(z)
        w = s + s * q
        n = w * (w + TWO)
        inverse = ONE / (n + TWO)
        return (n + z * (FOUR * w * (w + ONE) * inverse)) * inverse
    s, q = _exponential(ZERO if z > ZERO else z)
    return SELU_SCALE if z > ZERO else SELU_ALPHA * (s + s * q)


@compiled()
def bias_act_loop(kind, first, stop, n_rows, x, bias, keys, threshold, scale, gain, out):
    """Fill `out`; a chunk has `n_rows` rows."""
    width = x.shape[2]
    per_member = -(-x.shape[1] // n_rows)
    for chunk in range(first, stop):
        member, start = chunk // per_member, chunk % per_member * n_rows
        key, shift = keys[member], bias[member]
        for row in range(start, min(start + n_rows, x.shape[1])):
            values, results = x[member, row], out[member, row]
            for column in range(width):
                z = values[column] * scale + shift[column]
                kept = keep(row * width + column, key, threshold)
                if len(kind) == 0:
                    results[column] = ZERO if z <= ZERO or not kept else z * gain
                else:
                    value = _curve(kind, z) * gain
                    results[column] = value if kept else ZERO


@compiled()
def relu_backward_loop(first, stop, n_rows, grad, y, scale, gain, x_grad, sums):
    """Fill `x_grad`, and add the slopes of its rows to the sums of each chunk, which hold zeros."""
    per_member = -(-y.shape[1] // n_rows)
    for chunk in range(first, stop):
        member, start = chunk // per_member, chunk % per_member * n_rows
        total = sums[member, chunk % per_member]
        for row in range(start, min(start + n_rows, y.shape[1])):
            slopes, results, target = grad[member, row], y[member, row], x_grad[member, row]
            for column in range(y.shape[2]):
                slope = slopes[column] * gain if results[column] > ZERO else ZERO
                target[column] = slope * scale
                total[column] += slope


@compiled()
def curve_backward_loop(kind, first, stop, n_rows, grad, x, bias, keys, threshold, scale, gain, x_grad, sums):
    """Fill `x_grad` and the sums for Mish and SELU, whose slopes are computed again from x."""
    width = x.shape[2]
    per_member = -(-x.shape[1] // n_rows)
    for chunk in range(first, stop):
        member, start = chunk // per_member, chunk % per_member * n_rows
        key, shift, total = keys[member], bias[member], sums[member, chunk % per_member]
        for row in range(start, min(start + n_rows, x.shape[1])):
            slopes, values, target = grad[member, row], x[member, row], x_grad[member, row]
            for column in range(width):
                kept = keep(row * width + column, key, threshold)
                slope = slopes[column] * gain * _slope(kind, values[column] * scale + shift[column])
                slope = slope if kept else ZERO
                target[column] = slope * scale
                total[column] += slope


def compiled_keys(noise: Noise, stream: int) -> Tensor:
    """Return the bits of `member_keys` as int32, which autograd can save; `as_bits` views them as uint32."""
    keys = torch.empty(len(noise.seeds), dtype=torch.int32)
    fill_keys(noise.seeds.numpy(), noise.step.numpy(), stream, as_bits(keys)[None])
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


def _bias_act_forward(
    x: Tensor, bias: Tensor, *, p: float, noise: Noise | None, stream: int, activation: str, scale: float
) -> Any:
    out, n_rows, kind = torch.empty(x.shape, dtype=x.dtype), _rows_per_chunk(x), ACTIVATION_KINDS[activation]
    source, shift, target = as_array(x), as_array(bias), out.numpy()
    drawn = torch.zeros(len(x), dtype=torch.int32) if noise is None else compiled_keys(noise, stream)
    keys, numbers = as_bits(drawn), layer_numbers(p, scale)

    def work(first: int, stop: int) -> None:
        bias_act_loop(kind, first, stop, n_rows, source, shift, keys, *numbers, target)

    in_ranges(work, x.shape[0] * -(-x.shape[1] // n_rows))
    # A positive result of relu means that the sum was positive and kept.
    return (out,), (out,) if activation == "relu" else (x, bias, drawn)


def _bias_act_backward(grads: Any, kept: Any, needed: Any, *, p: float, activation: str, scale: float, **_: Any) -> Any:
    del needed
    source, *others = kept
    out, n_rows = torch.empty(source.shape, dtype=source.dtype), _rows_per_chunk(source)
    kind = ACTIVATION_KINDS[activation]
    slopes, values, target, numbers = as_array(grads[0]), as_array(source), out.numpy(), layer_numbers(p, scale)
    per_member = -(-source.shape[1] // n_rows)
    sums = torch.zeros(source.shape[0], per_member, source.shape[2])
    totals = sums.numpy()

    def relu(first: int, stop: int) -> None:
        relu_backward_loop(first, stop, n_rows, slopes, values, *numbers[1:], target, totals)

    def curve(first: int, stop: int) -> None:
        shift, keys = as_array(others[0]), as_bits(others[1])
        curve_backward_loop(kind, first, stop, n_rows, slopes, values, shift, keys, *numbers, target, totals)

    in_ranges(curve if others else relu, source.shape[0] * per_member)
    return out, sums[:, 0] if per_member == 1 else sums.sum(dim=1)


def layer_numbers(p: float, scale: float) -> tuple[np.uint32, np.float32, np.float32]:
    """Return the threshold of the bits, the scale of x, and the factor of elements that are kept."""
    return np.uint32(keep_threshold(p)), np.float32(scale), np.float32(1.0 / (1.0 - p))


def _rows_per_chunk(x: Tensor) -> int:
    return max(VALUES_PER_CHUNK // x.shape[2], 1)


_DROPOUT = Operation(_dropout_formula, cpu=Path(_dropout_forward, _dropout_backward), triton="dropout_triton.DROPOUT")
_BIAS_ACT = Operation(
    _bias_act_formula, cpu=Path(_bias_act_forward, _bias_act_backward), triton="dropout_triton.BIAS_ACT"
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


def bias_act_dropout(
    x: Tensor,
    bias: Tensor,
    p: float,
    noise: Noise | None,
    stream: int = 0,
    *,
    activation: str = "relu",
    scale: float = 1.0,
) -> Tensor:
    """Return ``dropout(activation(scale * x + bias))`` in the type of x.

    Parameters
    ----------
    x : Tensor of shape (M, B, d)
        Products of M members, of any float type. Arithmetic is in float32, or in float64 for float64.
    bias : Tensor of shape (M, d)
        Bias of every column, of any float type.
    p, noise, stream
        As in `dropout`.
    activation : {"selu", "mish", "relu"}, default="relu"
        The activation.
    scale : float, default=1.0
        Factor of x.

    Returns
    -------
    Tensor of shape (M, B, d)
        Backward keeps only the result for relu; for the others x, the bias and a key per member.

    Notes
    -----
    With z = scale * x + bias and w = exp(z), Mish is z t with t = tanh(log(1 + w)) = n / (n + 2) and n = w (w + 2); its
    derivative is t + 4 z w (w + 1) / (n + 2)**2. From z = 20 on, t is 1 up to rounding.

    Scale and bias are applied here, not by the matrix product before, which saves a pass over memory each way. The
    paths: a Triton kernel each way on a GPU, compiled loops for float32 on the CPU, plain torch otherwise. All drop the
    same elements. Values of relu with a scale of 1 are the same, bit for bit; others differ by rounding, and gradients
    of the bias are summed in different orders.
    """
    check_rate(p)
    check_choice(activation, "activation", ACTIVATIONS)
    if noise is None and p > 0.0:
        return functional.dropout(_activated(x, bias, activation=activation, scale=scale), p).to(x.dtype)
    drawn = None if p == 0.0 else noise
    # Without random numbers torch's relu is as fast as the compiled one. A network that is used outside of training, on
    # the CPU, can be differentiated more than once.
    plain = activation == "relu" or (noise is None and torch.is_grad_enabled())
    run: Any = _bias_act_formula if plain and drawn is None and x.device.type == "cpu" else _BIAS_ACT
    return run(x, bias, p=p, noise=drawn, stream=stream, activation=activation, scale=scale)  # type: ignore[no-any-return]
