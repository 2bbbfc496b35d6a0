"""Dropout on a GPU: one Triton kernel each way, which draws the bits of `knotwork.nn._backbones.noise` as it goes."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn._backbones.dropout import keep_threshold
from knotwork.nn._backbones.noise import Noise

__all__ = ["backward", "element_bits", "forward", "member_key"]

BLOCK = 2048
"""Elements of a program."""


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def member_key(seeds_pointer, steps_pointer, member, stream):
    """Return the key of one member: `member_keys` in uint32."""
    seed = tl.load(seeds_pointer + member).to(tl.uint32)
    step = tl.load(steps_pointer + member).to(tl.uint32)
    key = _mix(seed ^ 0x3C6EF372)
    key = _mix(key + step * 0x85EBCA6B)
    return _mix(key + stream.to(tl.uint32) * 0x27D4EB2F)


@triton.jit
def element_bits(i, key):
    """Return the bits of elements i: `random_bits` in uint32."""
    return _mix(i.to(tl.uint32) * 0x9E3779B9 + key)


@triton.jit(do_not_specialize=["threshold", "stream"])
def _dropout_forward(
    x_pointer,
    seeds_pointer,
    steps_pointer,
    y_pointer,
    keys_pointer,
    size,
    threshold,
    scale,
    stream,
    BLOCK: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    key = member_key(seeds_pointer, steps_pointer, member, stream)
    if tl.program_id(0) == 0:
        tl.store(keys_pointer + member, key.to(tl.int64))
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + member * size + i, mask=i < size, other=0.0).to(tl.float32)
    y = x * scale
    y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y, 0.0)
    tl.store(y_pointer + member * size + i, y.to(y_pointer.dtype.element_ty), mask=i < size)


@triton.jit(do_not_specialize=["threshold"])
def _dropout_backward(grad_pointer, keys_pointer, out_pointer, size, threshold, scale, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    key = tl.load(keys_pointer + member).to(tl.uint32)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    grad = tl.load(grad_pointer + member * size + i, mask=i < size, other=0.0).to(tl.float32)
    grad = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), grad * scale, 0.0)
    tl.store(out_pointer + member * size + i, grad.to(out_pointer.dtype.element_ty), mask=i < size)


def forward(x: Tensor, p: float, noise: Noise, stream: int) -> tuple[Tensor, Tensor]:
    """Return dropout of x and the members' keys, which are all that `backward` needs."""
    x = x.contiguous()
    y, keys = torch.empty_like(x), torch.empty_like(noise.seeds)
    members, size = x.shape[0], x[0].numel()
    _dropout_forward[(triton.cdiv(size, BLOCK), members)](
        x,
        noise.seeds,
        noise.step,
        y,
        keys,
        size,
        keep_threshold(p),
        1.0 / (1.0 - p),
        stream,
        BLOCK=BLOCK,
        num_warps=8,
    )
    return y, keys


def backward(grad: Tensor, p: float, keys: Tensor) -> Tensor:
    """Return the gradient of x from that of ``dropout(x)``."""
    grad = grad.contiguous()
    out = torch.empty_like(grad)
    members, size = grad.shape[0], grad[0].numel()
    grid = (triton.cdiv(size, BLOCK), members)
    _dropout_backward[grid](grad, keys, out, size, keep_threshold(p), 1.0 / (1.0 - p), BLOCK=BLOCK, num_warps=8)
    return out
