"""The gated unit with its dropout in Triton: one pass over the values forward, one backward."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn.backbones.dropout import keep_threshold
from knotwork.nn.backbones.triton_dropout import element_bits

__all__ = ["backward", "forward"]

BLOCK = 1024
"""Results of a program."""


@triton.jit
def _factors(element, keys_pointer, member, threshold, factor, DROPOUT: tl.constexpr):
    """Return what dropout multiplies the elements of a member by."""
    factors = tl.full(element.shape, 1.0, tl.float32)
    if DROPOUT:
        key = tl.load(keys_pointer + member).to(tl.uint32)
        factors = tl.where(element_bits(element, key) >= threshold.to(tl.uint32), factor, 0.0)
    return factors


@triton.jit
def _halves(pointer, bias_pointer, element, member, here, HALF: tl.constexpr, BIAS: tl.constexpr):
    """Return the values of both halves, with their biases."""
    a = tl.load(pointer, mask=here, other=0.0).to(tl.float32)
    b = tl.load(pointer + HALF, mask=here, other=0.0).to(tl.float32)
    if BIAS:
        bias = bias_pointer + member * 2 * HALF + element % HALF
        a += tl.load(bias, mask=here, other=0.0).to(tl.float32)
        b += tl.load(bias + HALF, mask=here, other=0.0).to(tl.float32)
    return a, b


@triton.jit(do_not_specialize=["threshold"])
def _reglu_forward(
    x_pointer,
    bias_pointer,
    keys_pointer,
    out_pointer,
    size,
    threshold,
    factor,
    HALF: tl.constexpr,
    BIAS: tl.constexpr,
    DROPOUT: tl.constexpr,
    BLOCK: tl.constexpr,
    LONG: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
    element = program * BLOCK + tl.arange(0, BLOCK)
    here = element < size
    first = x_pointer + member * 2 * size + element // HALF * (2 * HALF) + element % HALF
    a, b = _halves(first, bias_pointer, element, member, here, HALF, BIAS)
    y = a * tl.where(b <= 0.0, 0.0, b)  # not a maximum: NaN stays NaN
    y = y * _factors(element, keys_pointer, member, threshold, factor, DROPOUT)
    tl.store(out_pointer + member * size + element, y.to(out_pointer.dtype.element_ty), mask=here)


@triton.jit(do_not_specialize=["threshold"])
def _reglu_backward(
    grad_pointer,
    x_pointer,
    bias_pointer,
    keys_pointer,
    out_pointer,
    size,
    threshold,
    factor,
    HALF: tl.constexpr,
    BIAS: tl.constexpr,
    DROPOUT: tl.constexpr,
    BLOCK: tl.constexpr,
    LONG: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
    element = program * BLOCK + tl.arange(0, BLOCK)
    here = element < size
    at = member * 2 * size + element // HALF * (2 * HALF) + element % HALF
    a, b = _halves(x_pointer + at, bias_pointer, element, member, here, HALF, BIAS)
    grad = tl.load(grad_pointer + member * size + element, mask=here, other=0.0).to(tl.float32)
    grad = grad * _factors(element, keys_pointer, member, threshold, factor, DROPOUT)
    a_grad = grad * tl.where(b <= 0.0, 0.0, b)
    b_grad = tl.where(b <= 0.0, 0.0, grad * a)
    tl.store(out_pointer + at, a_grad.to(out_pointer.dtype.element_ty), mask=here)
    tl.store(out_pointer + at + HALF, b_grad.to(out_pointer.dtype.element_ty), mask=here)


def forward(x: Tensor, bias: Tensor | None, keys: Tensor | None, p: float) -> Tensor:
    """Return the results, of shape (M, ..., h); `bias` is of shape (M, 2 * h), `keys` of shape (M,) where p > 0."""
    x = x.contiguous()
    half = x.shape[-1] // 2
    out = torch.empty(*x.shape[:-1], half, dtype=x.dtype, device=x.device)
    size = out[0].numel()
    _reglu_forward[(triton.cdiv(size, BLOCK), len(x))](
        x,
        x if bias is None else bias.contiguous(),
        x if keys is None else keys,
        out,
        size,
        keep_threshold(p),
        1.0 / (1.0 - p),
        HALF=half,
        BIAS=bias is not None,
        DROPOUT=p > 0.0,
        BLOCK=BLOCK,
        LONG=2 * size >= 2**31 - BLOCK,
    )
    return out


def backward(grad: Tensor, x: Tensor, bias: Tensor | None, keys: Tensor | None, p: float) -> Tensor:
    """Return the gradient of x from that of the results."""
    grad, x = grad.contiguous(), x.contiguous()
    out = torch.empty_like(x)
    size = grad[0].numel()
    _reglu_backward[(triton.cdiv(size, BLOCK), len(x))](
        grad,
        x,
        x if bias is None else bias.contiguous(),
        x if keys is None else keys,
        out,
        size,
        keep_threshold(p),
        1.0 / (1.0 - p),
        HALF=x.shape[-1] // 2,
        BIAS=bias is not None,
        DROPOUT=p > 0.0,
        BLOCK=BLOCK,
        LONG=2 * size >= 2**31 - BLOCK,
    )
    return out
