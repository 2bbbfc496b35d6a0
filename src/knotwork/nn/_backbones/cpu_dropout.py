"""Dropout on the CPU: one compiled pass, which draws the bits of `knotwork.nn._backbones.noise` as it goes."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._kernels.threads import over_chunks
from knotwork.basis._compiled import compiled
from knotwork.nn._backbones.dropout import keep_threshold
from knotwork.nn._backbones.noise import Noise

__all__ = ["VALUES_PER_CHUNK", "ZERO", "compiled_keys", "forward", "keep"]

VALUES_PER_CHUNK = 1 << 16
"""Values that a thread takes at a time."""

FIRST, SECOND, GOLDEN = np.uint32(0x7FEB352D), np.uint32(0x846CA68B), np.uint32(0x9E3779B9)
SEED, STEP, STREAM = np.uint32(0x3C6EF372), np.uint32(0x85EBCA6B), np.uint32(0x27D4EB2F)
ZERO = np.float32(0.0)


@compiled(inline="always")
def _mix(x):
    x = np.uint32((x ^ (x >> np.uint32(16))) * FIRST)
    x = np.uint32((x ^ (x >> np.uint32(15))) * SECOND)
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled(inline="always")
def keep(i, key, threshold):
    """Say whether element i of a member with this key is kept."""
    return _mix(np.uint32(np.uint32(i) * GOLDEN + key)) >= threshold


@compiled()
def _keys(seeds, steps, stream, keys):
    for member in range(len(keys)):
        key = _mix(np.uint32(np.uint32(seeds[member]) ^ SEED))
        key = _mix(np.uint32(key + np.uint32(steps[member]) * STEP))
        keys[member] = _mix(np.uint32(key + stream * STREAM))


@compiled()
def _dropout(x, start, key, threshold, scale, out):
    """Fill `out`; x begins with the member's element `start`."""
    for i in range(x.shape[0]):
        out[i] = x[i] * scale if keep(start + i, key, threshold) else ZERO


def compiled_keys(noise: Noise, stream: int) -> npt.NDArray[np.uint32]:
    """Return the keys of `member_keys`."""
    keys = np.empty(len(noise.seeds), dtype=np.uint32)
    _keys(noise.seeds.numpy(), noise.step.numpy(), np.uint32(stream), keys)
    return keys


def forward(x: Tensor, p: float, noise: Noise, stream: int) -> Tensor:
    """Return dropout of x for float32; the definition is in `dropout`."""
    out = torch.empty(x.shape, dtype=x.dtype)
    members = x.shape[0]
    keys = compiled_keys(noise, stream)
    source, target = x.detach().contiguous().view(members, -1).numpy(), out.view(members, -1).numpy()
    threshold, scale = np.uint32(keep_threshold(p)), np.float32(1.0 / (1.0 - p))

    def work(member: int, part: slice) -> None:
        _dropout(source[member, part], part.start, keys[member], threshold, scale, target[member, part])

    over_chunks(work, members, source.shape[1], rows_per_chunk=VALUES_PER_CHUNK)
    return out
