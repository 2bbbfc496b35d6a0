"""Encoding and linear map in one on NVIDIA and AMD GPUs, in Triton: products whose left operand is made on the fly.

The encoding of a block of rows is made in registers, feature by feature, and multiplied there. Sums over rows are
formed part by part in an order that the shapes alone decide, so that results repeat exactly.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels import triton_kernels
from knotwork._kernels.triton_scheme import encoded_rows

__all__ = ["backward", "forward"]

PROGRAMS = 512
"""Programs that the sums over rows are split into, if there are rows enough: a few for each processor of a GPU."""


@triton.jit
def _forward(
    x_pointer,
    breaks_pointer,
    n_knots_pointer,
    weight_pointer,
    bias_pointer,
    out_pointer,
    n_rows,
    n_breaks,
    size,
    n_out,
    N_FEATURES: tl.constexpr,
    KIND: tl.constexpr,
    DEGREE: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    WITH_BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Make one block of outputs of one group."""
    group = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)[None, :]
    column = tl.arange(0, COLUMNS)[:, None]
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    if WITH_BIAS:
        total += tl.load(bias_pointer + group * n_out + output, mask=output < n_out, other=0.0).to(tl.float32)
    for f in range(N_FEATURES):
        table = group * N_FEATURES + f
        v = (group * n_rows + row) * N_FEATURES + f
        x = tl.load(x_pointer + v, mask=row < n_rows, other=0.0).to(tl.float32)
        n_knots = tl.load(n_knots_pointer + table)
        encoded = encoded_rows(x, breaks_pointer + table * n_breaks, n_knots, 0, KIND, DEGREE, STEPS, COLUMNS)
        place = (table * size + column) * n_out + output
        weight = tl.load(weight_pointer + place, mask=(column < size) & (output < n_out), other=0.0)
        total = tl.dot(encoded.to(weight.dtype), weight, total, input_precision=PRECISION)
    place = (group * n_rows + row[:, None]) * n_out + output
    tl.store(out_pointer + place, total, mask=(row[:, None] < n_rows) & (output < n_out))


@triton.jit
def _weight_backward(
    grad_pointer,
    x_pointer,
    breaks_pointer,
    n_knots_pointer,
    parts_pointer,
    n_rows,
    n_features,
    n_breaks,
    size,
    n_out,
    KIND: tl.constexpr,
    DEGREE: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    COLUMNS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Make one part, a sum over BLOCKS blocks of rows, of some columns of the gradient of one feature's weights."""
    table = tl.program_id(0).to(tl.int64)
    group = table // n_features
    f = table % n_features
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)[None, :]
    n_knots = tl.load(n_knots_pointer + table)
    total = tl.zeros((COLUMNS, OUTPUTS), tl.float32)
    for block in range(BLOCKS):
        row = (tl.program_id(2) * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        v = (group * n_rows + row) * n_features + f
        x = tl.load(x_pointer + v, mask=row < n_rows, other=0.0).to(tl.float32)
        encoded = encoded_rows(x, breaks_pointer + table * n_breaks, n_knots, 0, KIND, DEGREE, STEPS, COLUMNS)
        place = (group * n_rows + row[:, None]) * n_out + output
        known = (row[:, None] < n_rows) & (output < n_out)
        grad = tl.load(grad_pointer + place, mask=known, other=0.0)  # zero beyond the last row
        total = tl.dot(tl.trans(encoded.to(grad.dtype)), grad, total, input_precision=PRECISION)
    column = tl.arange(0, COLUMNS)[:, None]
    part = tl.program_id(2).to(tl.int64) * tl.num_programs(0) + table
    place = (part * size + column) * n_out + output
    tl.store(parts_pointer + place, total, mask=(column < size) & (output < n_out))


def forward(
    x: Tensor,
    breaks: Tensor,
    n_knots: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    kind: int,
    degree: int,
    size: int,
) -> Tensor:
    """Encode values and map them; parameters and result as for `encode_linear`."""
    x, breaks, weight = x.contiguous(), breaks.contiguous(), weight.contiguous()
    n_groups, n_rows, n_features = x.shape
    n_out = weight.shape[-1]
    out = weight.new_empty(n_groups, n_rows, n_out)
    if not out.numel():
        return out
    columns = max(triton.next_power_of_2(size), 16)
    rows, outputs = _block(128 if n_rows > 4096 else 64, columns), _output_block(n_out, columns)
    _forward[(triton.cdiv(n_rows, rows), triton.cdiv(n_out, outputs), n_groups)](
        x,
        breaks,
        n_knots.contiguous(),
        weight,
        weight if bias is None else bias.contiguous(),
        out,
        n_rows,
        breaks.shape[-1],
        size,
        n_out,
        N_FEATURES=n_features,
        KIND=kind,
        DEGREE=degree,
        STEPS=(breaks.shape[-1] - 2).bit_length(),
        ROWS=rows,
        COLUMNS=columns,
        OUTPUTS=outputs,
        WITH_BIAS=bias is not None,
        PRECISION=_precision(),
        num_warps=8 if rows * outputs > 8192 else 4,
        num_stages=2,
    )
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    breaks: Tensor,
    n_knots: Tensor,
    weight: Tensor,
    *,
    kind: int,
    degree: int,
    size: int,
    with_x: bool,
    with_breaks: bool,
    with_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, of the breaks and of the weights; what is not asked for is left empty.

    Those of x and breaks are made from the gradient of the encoding, which is written for them.
    """
    x_grad, breaks_grad = torch.empty_like(x), torch.empty_like(breaks)
    weight_grad = torch.empty_like(weight)
    if with_weight:
        weight_grad = _weight_gradient(grad, x, breaks, n_knots, weight, kind=kind, degree=degree, size=size)
    if with_x or with_breaks:
        encoded_grad = torch.bmm(grad.to(weight.dtype), weight.mT).reshape(*x.shape, size)
        slopes = triton_kernels.backward(encoded_grad, x, breaks, n_knots, kind=kind, degree=degree, with_x=with_x)
        x_grad, breaks_grad = (slopes[0] if with_x else x_grad), slopes[1]
    return x_grad, breaks_grad, weight_grad


def _weight_gradient(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, weight: Tensor, *, kind: int, degree: int, size: int
) -> Tensor:
    """Return the gradient of the weights: the encoding, transposed, times the gradient."""
    grad, x, breaks = grad.to(weight.dtype).contiguous(), x.contiguous(), breaks.contiguous()
    n_groups, n_rows, n_features = x.shape
    n_out = weight.shape[-1]
    if not grad.numel():
        return torch.zeros_like(weight)
    columns = max(triton.next_power_of_2(size), 16)
    rows, outputs = _block(64, columns), _output_block(n_out, columns)
    n_programs = n_groups * n_features * triton.cdiv(n_out, outputs)
    n_blocks = triton.cdiv(n_rows, rows)
    blocks = triton.next_power_of_2(triton.cdiv(n_blocks, max(PROGRAMS // n_programs, 1)))
    n_parts = triton.cdiv(n_blocks, blocks)
    parts = torch.empty(n_parts, *weight.shape, dtype=torch.float32, device=weight.device)
    _weight_backward[(n_groups * n_features, triton.cdiv(n_out, outputs), n_parts)](
        grad,
        x,
        breaks,
        n_knots.contiguous(),
        parts,
        n_rows,
        n_features,
        breaks.shape[-1],
        size,
        n_out,
        KIND=kind,
        DEGREE=degree,
        STEPS=(breaks.shape[-1] - 2).bit_length(),
        ROWS=rows,
        BLOCKS=blocks,
        COLUMNS=columns,
        OUTPUTS=outputs,
        PRECISION=_precision(),
        num_warps=8 if columns * outputs > 4096 else 4,
        num_stages=2,
    )
    return parts.sum(dim=0).to(weight.dtype)


def _block(most: int, columns: int) -> int:
    """Return how many rows or outputs, 16 at least, go with so many columns into the fast memory of a processor."""
    return max(min(most, 8192 // columns), 16)


def _output_block(n_out: int, columns: int) -> int:
    """Return how many outputs a program makes."""
    return _block(min(triton.next_power_of_2(n_out), 128), columns)


def _precision() -> str:
    """Return how float32 is multiplied: as torch is told to."""
    rounded = torch.backends.cuda.matmul.allow_tf32 or torch.get_float32_matmul_precision() != "highest"
    return "tf32" if rounded else "ieee"
