"""AdamW on a GPU: one Triton kernel counts the steps, and one per tensor takes them."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.adamw import AdamWConstants, Factors, log_betas
from knotwork._kernels.launching import launch

BLOCK = 2048
"""Elements of a program."""


@triton.jit
def _count(
    steps_pointer, rates_pointer, active_pointer, sizes_pointer, roots_pointer,
    n_members, size,
    LOG1: tl.constexpr, LOG2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count the step of members that move; LOG1 and LOG2 are the logarithms of the betas."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rates = tl.load(rates_pointer + i, mask=i < size, other=0.0)
    active = tl.load(active_pointer + i % n_members, mask=i < size, other=0)
    moves = (rates != 0.0) & (active != 0)
    steps = tl.load(steps_pointer + i, mask=i < size, other=0) + moves.to(tl.int64)
    tl.store(steps_pointer + i, steps, mask=i < size)
    t = tl.maximum(steps, 1).to(tl.float64)
    sizes = (rates.to(tl.float64) / (1.0 - tl.exp(t * LOG1))).to(tl.float32)
    roots = (1.0 / tl.sqrt(1.0 - tl.exp(t * LOG2))).to(tl.float32)
    tl.store(sizes_pointer + i, tl.where(moves, sizes, 0.0), mask=i < size)
    tl.store(roots_pointer + i, roots, mask=i < size)


@triton.jit(do_not_specialize_on_alignment=["rates_pointer", "sizes_pointer", "roots_pointer"])
def _update(
    parameter_pointer, master_pointer, grad_pointer, first_pointer, second_pointer, rates_pointer, sizes_pointer,
    roots_pointer,
    length, decay, fresh1, beta2, fresh2, epsilon,
    ROUNDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    step_size = tl.load(sizes_pointer + member)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    used = i < tl.where(step_size != 0.0, length, 0)  # nothing of a member that does not move is read or written
    shrink = 1.0 - tl.load(rates_pointer + member) * decay
    root = tl.load(roots_pointer + member)
    i = member * length + i
    master = tl.load(master_pointer + i, mask=used, other=0.0)
    grad = tl.load(grad_pointer + i, mask=used, other=0.0).to(tl.float32)
    first = tl.load(first_pointer + i, mask=used, other=0.0)
    second = tl.load(second_pointer + i, mask=used, other=0.0)
    first = first + fresh1 * (grad - first)
    second = beta2 * second + fresh2 * grad * grad
    master = shrink * master - step_size * first / (tl.sqrt(second) * root + epsilon)
    tl.store(first_pointer + i, first, mask=used)
    tl.store(second_pointer + i, second, mask=used)
    tl.store(master_pointer + i, master, mask=used)
    if ROUNDED:
        tl.store(parameter_pointer + i, master.to(parameter_pointer.dtype.element_ty), mask=used)


def count(steps: Tensor, rates: Tensor, active: Tensor, rule: AdamWConstants) -> tuple[Tensor, Tensor]:
    """Count the step in place, and return the sizes and roots of `Factors`, of shape (n_groups, M)."""
    log1, log2 = log_betas(rule)
    sizes, roots = (torch.empty(steps.shape, dtype=torch.float32, device=steps.device) for _ in range(2))
    launch(
        _count, (triton.cdiv(steps.numel(), 256),),
        steps, rates.contiguous(), active, sizes, roots, steps.shape[1], steps.numel(),
        LOG1=log1, LOG2=log2, BLOCK=256,
    )  # fmt: skip
    return sizes, roots


def update(
    parameter: Tensor, master: Tensor, grad: Tensor, moments: tuple[Tensor, Tensor], factors: Factors, *, decay: float,
    rule: AdamWConstants,
) -> None:  # fmt: skip
    """Take the step of `update_formula` with a float32 master, and round it into the parameter if they differ."""
    length = master.numel() // master.shape[0]
    if not length:
        return
    launch(
        _update, (triton.cdiv(length, BLOCK), master.shape[0]),
        parameter, master, grad.contiguous(), *moments, *factors, length, decay, 1.0 - rule.beta1, rule.beta2,
        1.0 - rule.beta2, rule.epsilon,
        ROUNDED=parameter is not master, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
