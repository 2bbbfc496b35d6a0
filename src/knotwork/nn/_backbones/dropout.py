"""Dropout of a stack: the zeros of a member depend on its own seed and step alone."""

import math
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork.nn._backbones.noise import Noise, random_bits

__all__ = ["check_rate", "dropout", "keep_mask", "keep_threshold", "on_triton"]


def dropout(x: Tensor, p: float, noise: Noise | None, stream: int = 0) -> Tensor:
    """Set a share p of the elements to zero, and divide the others by 1 - p.

    Parameters
    ----------
    x : Tensor of shape (M, ...)
        Values of M members, of any float type.
    p : float
        Share of zeros, in [0, 1). With 0, x is returned.
    noise : Noise or None
        Seeds and steps of the members; None draws from torch's own generator.
    stream : int
        Number of this place in the network. Two places with one number drop the same elements.

    Returns
    -------
    Tensor of shape (M, ...)
        Element i of a member, counted in memory order, is kept if its `random_bits` are at least ``p * 2**32``.

    Notes
    -----
    Backward keeps a key per member and makes the zeros again. The paths: one Triton kernel for float32 and bfloat16
    on a GPU, a compiled loop for float32 on the CPU, `keep_mask` elsewhere. All give the same numbers, bit for bit.
    """
    check_rate(p)
    if p == 0.0 or x.numel() == 0:
        return x
    if noise is None:
        return functional.dropout(x, p)
    return _Dropout.apply(x, p, noise.seeds, noise.step, stream)  # type: ignore[no-any-return, no-untyped-call]


def keep_threshold(p: float) -> int:
    """Return the smallest bits that are kept."""
    return math.ceil(p * 2**32)


def keep_mask(x: Tensor, p: float, noise: Noise, stream: int) -> Tensor:
    """Return which elements of x, of shape (M, ...), are kept."""
    return (random_bits(noise, stream, x[0].numel()) >= keep_threshold(p)).view(x.shape)


def on_triton(x: Tensor) -> bool:
    """Say whether there are Triton kernels for this tensor's device and type."""
    return x.device.type == "cuda" and x.dtype in (torch.float32, torch.bfloat16) and find_spec("triton") is not None


def check_rate(p: float) -> None:
    """Raise an error unless p is a share of zeros for dropout."""
    if not 0.0 <= p < 1.0:
        raise argument_error("p", "be at least 0 and less than 1", p, "Dropout cannot set all elements to zero.")


def _compiled(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32


class _Dropout(torch.autograd.Function):
    """Draw again for the gradient, from what the counters were."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seeds: Tensor, step: Tensor, stream: int) -> Tensor:
        ctx.p, ctx.stream, ctx.on_triton = p, stream, on_triton(x)
        if ctx.on_triton:
            from knotwork.nn._backbones import triton_dropout  # noqa: PLC0415

            y, keys = triton_dropout.forward(x, p, Noise(seeds, step), stream)
            ctx.save_for_backward(keys)
            return y
        noise = Noise(seeds, step.clone())  # the counter moves on in place
        ctx.save_for_backward(*noise)
        return _drop(x, p, noise, stream)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.on_triton:
            from knotwork.nn._backbones import triton_dropout  # noqa: PLC0415

            x_grad = triton_dropout.backward(grad, ctx.p, ctx.saved_tensors[0])
        else:
            x_grad = _drop(grad, ctx.p, Noise(*ctx.saved_tensors), ctx.stream)
        return x_grad, None, None, None, None


def _drop(x: Tensor, p: float, noise: Noise, stream: int) -> Tensor:
    if _compiled(x):
        from knotwork.nn._backbones import cpu_dropout  # noqa: PLC0415

        return cpu_dropout.forward(x, p, noise, stream)
    return torch.where(keep_mask(x, p, noise, stream), x * (1.0 / (1.0 - p)), 0.0)
