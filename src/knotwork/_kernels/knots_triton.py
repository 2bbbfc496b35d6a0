"""Knots from logits on a GPU, with the spacing penalty, and gradients back to these: the formulas of `encoding`."""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from knotwork._kernels.fixed_order_triton import row_sums
from knotwork._kernels.launching import MOST_PLANS, Launch, contiguous, launch, power_of_2_from

MOST_IN_ONE = 2_048
"""Most padded widths of a group for which one program computes all breaks and the penalty; more compile slowly."""


@triton.jit
def softmax_shares(logits_pointer, n_knots, WIDTHS: tl.constexpr):
    """Return softmax over the first n_knots + 1 logits of a row, and zeros after them."""
    k = tl.arange(0, WIDTHS)
    logits = tl.load(logits_pointer + k, mask=k <= n_knots, other=-float("inf")).to(tl.float32)
    powers = tl.exp(logits - tl.max(logits, axis=0))
    return powers / tl.sum(powers, axis=0)


@triton.jit
def logits_slopes(shares, width_slopes, n_knots, min_spacing):
    """Return the gradient of the logits from that of the widths."""
    slopes = (1.0 - (n_knots + 1) * min_spacing) * width_slopes
    return shares * (slopes - tl.sum(shares * slopes, axis=0))


@triton.jit
def penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon):
    """Return the gradient of the widths from that of the penalty; entries after the last width are undefined."""
    widths = min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares + epsilon
    return -grad / (widths * widths * (n_knots + 1) * n_features)


@triton.jit
def knots_of(logits_pointer, n_knots_pointer, group, n_features, n_widths, min_spacing, epsilon,
              FEATURES: tl.constexpr, WIDTHS: tl.constexpr):  # fmt: skip
    """Return the ends of all widths of a group, of shape (FEATURES, WIDTHS), and its penalty."""
    f = tl.arange(0, FEATURES)[:, None]
    k = tl.arange(0, WIDTHS)[None, :]
    n_knots = tl.load(n_knots_pointer + group * n_features + f, mask=f < n_features, other=0)
    used = (f < n_features) & (k <= n_knots)
    row = logits_pointer + (group * n_features + f) * n_widths
    logits = tl.load(row + k, mask=used, other=-1e30).to(tl.float32)
    powers = tl.where(used, tl.exp(logits - tl.max(logits, axis=1)[:, None]), 0.0)
    shares = powers / tl.maximum(tl.sum(powers, axis=1)[:, None], 1e-30)
    widths = min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares
    barrier = tl.where(used, 1.0 / ((widths + epsilon) * (n_knots + 1)), 0.0)
    ends = tl.minimum(tl.cumsum(tl.where(used, widths, 0.0), axis=1), 1.0)
    return tl.where(k < n_knots, ends, 1.0), tl.sum(tl.sum(barrier, axis=1), axis=0) / n_features


@triton.jit
def store_breaks(breaks_pointer, group, ends, n_features, n_widths, FEATURES: tl.constexpr, WIDTHS: tl.constexpr):
    """Write the left end and the ends of all widths of a group."""
    f = tl.arange(0, FEATURES)[:, None]
    k = tl.arange(0, WIDTHS)[None, :]
    row = breaks_pointer + (group * n_features + f) * (n_widths + 1)
    tl.store(row + 1 + k, ends, mask=(f < n_features) & (k < n_widths))
    tl.store(row, tl.zeros((FEATURES, 1), tl.float32), mask=f < n_features)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "breaks_pointer", "barriers_pointer"],
)
def _breaks_forward(
    logits_pointer, n_knots_pointer, breaks_pointer, barriers_pointer, n_features, n_widths, min_spacing, epsilon,
    WIDTHS: tl.constexpr,
):  # fmt: skip
    """Write the breaks of one feature, and its share of the penalty."""
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    shares = softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    widths = tl.where(k <= n_knots, min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares, 0.0)
    ends = tl.where(k < n_knots, tl.minimum(tl.cumsum(widths, axis=0), 1.0), 1.0)
    row = breaks_pointer + table * (n_widths + 1)
    tl.store(row + 1 + k, ends, mask=k < n_widths)
    tl.store(row, 0.0)
    barrier = tl.where(k <= n_knots, 1.0 / ((widths + epsilon) * (n_knots + 1)), 0.0)
    tl.store(barriers_pointer + table, tl.sum(barrier, axis=0) / n_features)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=[
        "logits_pointer", "n_knots_pointer", "breaks_pointer", "out_pointer", "fixed_pointer", "learned_pointer",
    ],
)  # fmt: skip
def _penalty_forward(
    logits_pointer, n_knots_pointer, breaks_pointer, out_pointer, fixed_pointer, learned_pointer,
    n_features, n_widths, min_spacing, epsilon,
    FEATURES: tl.constexpr, WIDTHS: tl.constexpr, WITH_FIXED: tl.constexpr,
):  # fmt: skip
    """Write the penalty and the breaks of one group.

    WITH_FIXED, a group that is not learned has its fixed breaks, and a penalty of 0.
    """
    group = tl.program_id(0)
    ends, penalty = knots_of(
        logits_pointer, n_knots_pointer, group, n_features, n_widths, min_spacing, epsilon, FEATURES, WIDTHS
    )
    if WITH_FIXED:
        learned = tl.load(learned_pointer + group) != 0
        penalty = tl.where(learned, penalty, 0.0)
    tl.store(out_pointer + group, penalty)
    if WITH_FIXED:
        f = tl.arange(0, FEATURES)[:, None]
        k = tl.arange(0, WIDTHS)[None, :]
        fixed = fixed_pointer + (group * n_features + f) * (n_widths + 1) + 1 + k
        here = (f < n_features) & (k < n_widths)
        ends = tl.where(learned, ends, tl.load(fixed, mask=here, other=1.0))
    store_breaks(breaks_pointer, group, ends, n_features, n_widths, FEATURES, WIDTHS)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "out_pointer", "grad_pointer"],
)
def _logits_backward(
    grad_pointer, logits_pointer, n_knots_pointer, out_pointer,
    n_features, n_widths, min_spacing, epsilon,
    PENALTY: tl.constexpr, WIDTHS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of one feature's logits from that of its breaks, or of the PENALTY of its group."""
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    shares = softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    if PENALTY:
        grad = tl.load(grad_pointer + table // n_features)
        slopes = tl.where(k <= n_knots, penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon), 0.0)
    else:  # a width moves the knot at its end and all knots after it
        slopes = tl.load(grad_pointer + table * (n_widths + 1) + 1 + k, mask=k < n_knots, other=0.0)
        slopes = tl.cumsum(slopes, axis=0, reverse=True)
    slopes = logits_slopes(shares, slopes, n_knots, min_spacing)
    tl.store(out_pointer + table * n_widths + k, slopes, mask=k < n_widths)


# The tiles of kernels over knots depend on the size of blocks, which is larger than the number of knots: so sums do not
# depend on the knots of other members in a stack.


def padded(n_widths: int, size: int) -> int:
    """Return the number of widths of a group that a program holds: a power of two."""
    return power_of_2_from(max(n_widths, size))


def _make_breaks(
    logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float, size: int
) -> tuple[Tensor, Tensor]:
    """Return the breaks and penalties of logits of shape (G, F, K + 1), feature by feature."""
    groups, features, n_widths = logits.shape
    breaks = torch.empty(groups, features, n_widths + 1, dtype=torch.float32, device=logits.device)
    barriers = torch.empty(groups, features, dtype=torch.float32, device=logits.device)
    tensors, numbers = (logits.contiguous(), n_knots, breaks, barriers), (features, n_widths, min_spacing, epsilon)
    launch(_breaks_forward, (groups * features,), *tensors, *numbers, WIDTHS=padded(n_widths, size))
    return breaks, row_sums(barriers)


def make_knots(
    logits: Tensor, n_knots: Tensor, breaks: Tensor | None, learned: Tensor | None, min_spacing: float, epsilon: float,
    size: int = 1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return breaks and penalties, from one kernel if a group is not too large for it.

    With `learned`, the other groups have the given breaks, and a penalty of 0.
    """
    groups, features, n_widths = logits.shape
    if power_of_2_from(features) * padded(n_widths, size) > MOST_IN_ONE:
        learned_breaks, penalty = _make_breaks(logits, n_knots, min_spacing, epsilon, size)
        if breaks is None or learned is None:
            return learned_breaks, penalty
        return torch.where(learned[:, None, None], learned_breaks, breaks), torch.where(learned, penalty, 0.0)
    out = torch.empty(groups, features, n_widths + 1, dtype=torch.float32, device=logits.device)
    penalty = torch.empty(groups, dtype=torch.float32, device=logits.device)
    plan_knots(groups, features, n_widths, size, min_spacing, epsilon, with_fixed=learned is not None).launch(
        logits.contiguous(), n_knots, out, penalty, out if breaks is None else breaks.contiguous(),
        out if learned is None else learned.contiguous(),
    )  # fmt: skip
    return out, penalty


@lru_cache(maxsize=MOST_PLANS)
def plan_knots(
    groups: int, features: int, n_widths: int, size: int, min_spacing: float, epsilon: float, *,
    with_fixed: bool = False,
) -> Launch:  # fmt: skip
    """Return the plan of the kernel that makes all knots of a group in one program."""
    return Launch(
        _penalty_forward, (groups, 1, 1), (features, n_widths, min_spacing, epsilon),
        FEATURES=power_of_2_from(features), WIDTHS=padded(n_widths, size), WITH_FIXED=with_fixed,
    )  # fmt: skip


def _slopes(
    grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float, size: int, *, of_penalty: bool
) -> Tensor:
    """Return the gradient of the logits from that of the penalties or of the breaks."""
    tensors = *contiguous(grad, logits), n_knots, torch.empty_like(logits, memory_format=torch.contiguous_format)
    n_features, n_widths = logits.shape[-2:]
    numbers, widths = (n_features, n_widths, min_spacing, epsilon), padded(n_widths, size)
    launch(_logits_backward, (n_knots.numel(),), *tensors, *numbers, PENALTY=of_penalty, WIDTHS=widths)
    return tensors[-1]


def knots_to_logits(
    breaks_grad: Tensor | None, penalty_grad: Tensor | None, logits: Tensor, n_knots: Tensor, learned: Tensor | None,
    min_spacing: float, epsilon: float, size: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of the logits from those of breaks and penalties; 0 for groups that are not learned."""
    knots = logits, n_knots, min_spacing, epsilon, size
    grads = (breaks_grad, penalty_grad)
    parts = [_slopes(grad, *knots, of_penalty=grad is penalty_grad) for grad in grads if grad is not None]
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return total if learned is None else torch.where(learned[:, None, None], total, 0.0)
