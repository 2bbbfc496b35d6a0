"""Bias, relu and dropout on a GPU: one Triton kernel each way."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork.nn._backbones.dropout import keep_threshold
from knotwork.nn._backbones.noise import Noise
from knotwork.nn._backbones.triton_dropout import element_bits, member_key

__all__ = ["backward", "forward"]

BLOCK = 2048
"""Elements of a program forward."""

COLUMNS, ROWS = 32, 64
"""Columns of a program backward, which goes over all rows, and rows that it takes at a time."""


@triton.jit(do_not_specialize=["size", "width", "threshold", "stream"], do_not_specialize_on_alignment=["bias_pointer"])
def _bias_relu_forward(
    x_pointer,
    bias_pointer,
    seeds_pointer,
    steps_pointer,
    y_pointer,
    size,
    width,
    threshold,
    scale,
    stream,
    DROP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    x = tl.load(x_pointer + member * size + i, mask=known, other=0.0).to(tl.float32)
    x += tl.load(bias_pointer + member * width + i % width, mask=known, other=0.0).to(tl.float32)
    y = tl.where(x <= 0.0, 0.0, x * scale)  # not a maximum: NaN stays NaN
    if DROP:
        key = member_key(seeds_pointer, steps_pointer, member, stream)
        y = tl.where(element_bits(i, key) >= threshold.to(tl.uint32), y, 0.0)
    tl.store(y_pointer + member * size + i, y.to(y_pointer.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["n_rows", "width"], do_not_specialize_on_alignment=["bias_grad_pointer"])
def _bias_relu_backward(
    grad_pointer,
    y_pointer,
    x_grad_pointer,
    bias_grad_pointer,
    n_rows,
    width,
    scale,
    N_BLOCKS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    start = member * n_rows * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(N_BLOCKS):
        row = block * ROWS + tl.arange(0, ROWS)
        known = (row < n_rows)[:, None] & (column < width)[None, :]
        place = start + row[:, None] * width + column[None, :]
        grad = tl.load(grad_pointer + place, mask=known, other=0.0).to(tl.float32)
        y = tl.load(y_pointer + place, mask=known, other=0.0).to(tl.float32)
        slope = tl.where(y > 0.0, grad * scale, 0.0)
        tl.store(x_grad_pointer + place, slope.to(x_grad_pointer.dtype.element_ty), mask=known)
        total += slope
    tl.store(bias_grad_pointer + member * width + column, tl.sum(total, axis=0), mask=column < width)


def forward(x: Tensor, bias: Tensor, p: float, noise: Noise | None, stream: int) -> Tensor:
    """Return ``dropout(relu(x + bias))``; without noise nothing is dropped."""
    x, bias = x.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    members, size = x.shape[0], x[0].numel()
    seeds, steps = (bias, bias) if noise is None else (noise.seeds.contiguous(), noise.step.contiguous())
    _bias_relu_forward[(triton.cdiv(size, BLOCK), members)](
        x,
        bias,
        seeds,
        steps,
        y,
        size,
        x.shape[-1],
        keep_threshold(p),
        1.0 / (1.0 - p),
        stream,
        DROP=noise is not None,
        BLOCK=BLOCK,
        num_warps=8,
    )
    return y


def backward(grad: Tensor, y: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Return the gradients of x, in the type of y, and of the bias, in float32."""
    grad, y = grad.contiguous(), y.contiguous()
    x_grad = torch.empty_like(y)
    members, n_rows, width = y.shape[0], y[0].numel() // y.shape[-1], y.shape[-1]
    bias_grad = torch.empty(members, width, dtype=torch.float32, device=y.device)
    _bias_relu_backward[(triton.cdiv(width, COLUMNS), members)](
        grad,
        y,
        x_grad,
        bias_grad,
        n_rows,
        width,
        1.0 / (1.0 - p),
        N_BLOCKS=triton.cdiv(n_rows, ROWS),
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        num_warps=8,
    )
    return x_grad, bias_grad
