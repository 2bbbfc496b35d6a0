"""Random numbers of members: each depends on a member's own seed and step, never on its neighbours in the stack.

The numbers are a function of counters, not the state of a generator. So they are the same on every device, can be
made again for a gradient, and a step that is captured into a CUDA graph draws new ones at each replay.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Noise", "keyed_bits", "member_keys", "random_bits", "row_order"]

# Constants below 2**31 in size, by the signed value where they are larger: a product with 32 bits fits into an int64.
_MASK = 0xFFFFFFFF
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - (1 << 32)
_GOLDEN = 0x9E3779B9 - (1 << 32)
_SEED, _STEP, _STREAM = 0x3C6EF372, 0x85EBCA6B - (1 << 32), 0x27D4EB2F
_ORDER = (-1, -2)  # streams of the two halves of a sort key; those of dropout count from 0


class Noise(NamedTuple):
    """Where the random numbers of a stack come from.

    Parameters
    ----------
    seeds : Tensor of shape (M,)
        Seed of each member, int64 in [0, 2**31).
    step : Tensor of shape (M,)
        Training steps that each member has done, int64; the owner counts it up in place.
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
        Which of a step's sequences: each place that draws has a number of its own, from 0.
    n : int
        Elements of a member, at most 2**31. The first ones do not depend on it.

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
    """Return the key of each member's sequence: seed, step and stream, mixed; int64 of shape (M,) in [0, 2**32).

    Notes
    -----
    ``mix(mix(mix(seed ^ a) + step * b) + stream * c)`` modulo 2**32, with constants a, b and c.
    """
    key = _mix((noise.seeds & _MASK) ^ _SEED)
    key = _mix(key + (noise.step & _MASK) * _STEP)
    return _mix(key + (stream & _MASK) * _STREAM)


def row_order(seeds: Tensor, epochs: Tensor, counts: Tensor, n: int) -> Tensor:
    """Return a random order of the rows of every member, by its seed and epoch alone.

    Parameters
    ----------
    seeds, epochs : Tensor of shape (M,)
        Seed of each member and the epoch that the order is for, int64.
    counts : Tensor of shape (M,)
        Rows of each member, int64, at most n; 0 is allowed.
    n : int
        Length of the result.

    Returns
    -------
    Tensor of shape (M, n)
        int64; the first ``counts[m]`` entries of row m are a permutation of ``range(counts[m])``, which is the same
        for every n. The entries after them are the other numbers below n.

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
    """Mix 32 bits; of int64 with more, the lower 32 count."""
    x = x & _MASK
    x = ((x ^ (x >> 16)) * _FIRST) & _MASK
    x = ((x ^ (x >> 15)) * _SECOND) & _MASK
    return x ^ (x >> 16)
