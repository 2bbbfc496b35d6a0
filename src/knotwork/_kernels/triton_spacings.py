"""Knots from free numbers on a GPU: the formulas of `knotwork._kernels.spacings`, each in one Triton kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = [
    "breaks_and_penalty",
    "breaks_backward",
    "breaks_forward",
    "logits_slopes",
    "penalty_backward",
    "penalty_forward",
    "penalty_slopes",
    "softmax_shares",
]

MOST_IN_ONE = 16_384
"""Widths of a group, padded, up to which one program makes its breaks."""


@triton.jit
def softmax_shares(logits_pointer, n_knots, WIDTHS: tl.constexpr):
    """Return softmax over the first n_knots + 1 numbers of a row, and zeros beyond."""
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
    """Return the gradient of the widths from that of the penalty; what lies beyond the last width does not count."""
    widths = min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares + epsilon
    return -grad / (widths * widths * (n_knots + 1) * n_features)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "breaks_pointer"],
)
def _breaks_forward(
    logits_pointer, n_knots_pointer, breaks_pointer, n_features, n_widths, min_spacing, WIDTHS: tl.constexpr
):
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    shares = softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    widths = tl.where(k <= n_knots, min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares, 0.0)
    ends = tl.where(k < n_knots, tl.minimum(tl.cumsum(widths, axis=0), 1.0), 1.0)
    row = breaks_pointer + table * (n_widths + 1)
    tl.store(row + 1 + k, ends, mask=k < n_widths)
    tl.store(row, 0.0)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "out_pointer", "grad_pointer"],
)
def _breaks_backward(
    grad_pointer, logits_pointer, n_knots_pointer, out_pointer, n_features, n_widths, min_spacing, WIDTHS: tl.constexpr
):
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    shares = softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    slopes = tl.load(grad_pointer + table * (n_widths + 1) + 1 + k, mask=k < n_knots, other=0.0)
    # A width moves its own knot and all after it.
    slopes = logits_slopes(shares, tl.cumsum(slopes, axis=0, reverse=True), n_knots, min_spacing)
    tl.store(out_pointer + table * n_widths + k, slopes, mask=k < n_widths)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=[
        "logits_pointer",
        "n_knots_pointer",
        "breaks_pointer",
        "out_pointer",
        "fixed_pointer",
        "learned_pointer",
    ],
)
def _penalty_forward(
    logits_pointer,
    n_knots_pointer,
    breaks_pointer,
    out_pointer,
    fixed_pointer,
    learned_pointer,
    n_features,
    n_widths,
    min_spacing,
    epsilon,
    FEATURES: tl.constexpr,
    WIDTHS: tl.constexpr,
    WITH_BREAKS: tl.constexpr,
    WITH_FIXED: tl.constexpr,
):
    """Write the penalty of one group, and, as all widths are at hand, its breaks on request.

    Of a group that is not learned, on request, those are the fixed ones, and the penalty is 0.
    """
    f = tl.arange(0, FEATURES)[:, None]
    k = tl.arange(0, WIDTHS)[None, :]
    n_knots = tl.load(n_knots_pointer + tl.program_id(0) * n_features + f, mask=f < n_features, other=0)
    row = logits_pointer + (tl.program_id(0) * n_features + f) * n_widths
    used = (f < n_features) & (k <= n_knots)
    logits = tl.load(row + k, mask=used, other=-1e30).to(tl.float32)
    powers = tl.where(used, tl.exp(logits - tl.max(logits, axis=1)[:, None]), 0.0)
    shares = powers / tl.maximum(tl.sum(powers, axis=1)[:, None], 1e-30)
    widths = min_spacing + (1.0 - (n_knots + 1) * min_spacing) * shares
    barrier = tl.where(used, 1.0 / ((widths + epsilon) * (n_knots + 1)), 0.0)
    penalty = tl.sum(tl.sum(barrier, axis=1), axis=0) / n_features
    if WITH_FIXED:
        learned = tl.load(learned_pointer + tl.program_id(0)) != 0
        penalty = tl.where(learned, penalty, 0.0)
    tl.store(out_pointer + tl.program_id(0), penalty)
    if WITH_BREAKS:
        ends = tl.minimum(tl.cumsum(tl.where(used, widths, 0.0), axis=1), 1.0)
        ends = tl.where(k < n_knots, ends, 1.0)
        place = (tl.program_id(0) * n_features + f) * (n_widths + 1)
        here = (f < n_features) & (k < n_widths)
        if WITH_FIXED:
            ends = tl.where(learned, ends, tl.load(fixed_pointer + place + 1 + k, mask=here, other=1.0))
        tl.store(breaks_pointer + place + 1 + k, ends, mask=here)
        tl.store(breaks_pointer + place, tl.zeros((FEATURES, 1), tl.float32), mask=f < n_features)


@triton.jit(
    do_not_specialize=["n_features", "n_widths"],
    do_not_specialize_on_alignment=["logits_pointer", "n_knots_pointer", "out_pointer", "grad_pointer"],
)
def _penalty_backward(
    grad_pointer,
    logits_pointer,
    n_knots_pointer,
    out_pointer,
    n_features,
    n_widths,
    min_spacing,
    epsilon,
    WIDTHS: tl.constexpr,
):
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    grad = tl.load(grad_pointer + table // n_features)
    shares = softmax_shares(logits_pointer + table * n_widths, n_knots, WIDTHS)
    k = tl.arange(0, WIDTHS)
    slopes = tl.where(k <= n_knots, penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon), 0.0)
    slopes = logits_slopes(shares, slopes, n_knots, min_spacing)
    tl.store(out_pointer + table * n_widths + k, slopes, mask=k < n_widths)


def breaks_forward(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the breaks of `breaks_from_widths`, for logits of shape (G, F, K + 1)."""
    logits = logits.contiguous()
    groups, features, n_widths = logits.shape
    breaks = torch.empty(groups, features, n_widths + 1, dtype=torch.float32, device=logits.device)
    widths = triton.next_power_of_2(n_widths)
    _breaks_forward[(groups * features,)](logits, n_knots, breaks, features, n_widths, min_spacing, WIDTHS=widths)
    return breaks


def breaks_backward(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the gradient of the logits from that of the breaks."""
    grad, logits = grad.contiguous(), logits.contiguous()
    out = torch.empty_like(logits)
    groups, features, n_widths = logits.shape
    widths = triton.next_power_of_2(n_widths)
    _breaks_backward[(groups * features,)](grad, logits, n_knots, out, features, n_widths, min_spacing, WIDTHS=widths)
    return out


def penalty_forward(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    """Return `spacing_penalty` of every group, for logits of shape (G, F, K + 1)."""
    return _run_penalty(logits, n_knots, min_spacing, epsilon)


def breaks_and_penalty(
    logits: Tensor,
    n_knots: Tensor,
    min_spacing: float,
    epsilon: float,
    *,
    fixed: Tensor | None = None,
    learned: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what `breaks_forward` and `penalty_forward` return, from one kernel if a group is not too large for it.

    If it is said which groups are `learned`, the others have the breaks in `fixed`, and no penalty.
    """
    groups, features, n_widths = logits.shape
    if triton.next_power_of_2(features) * triton.next_power_of_2(n_widths) > MOST_IN_ONE:
        breaks = breaks_forward(logits, n_knots, min_spacing)
        penalty = penalty_forward(logits, n_knots, min_spacing, epsilon)
        if fixed is None or learned is None:
            return breaks, penalty
        return torch.where(learned[:, None, None], breaks, fixed), torch.where(learned, penalty, 0.0)
    breaks = torch.empty(groups, features, n_widths + 1, dtype=torch.float32, device=logits.device)
    return breaks, _run_penalty(logits, n_knots, min_spacing, epsilon, breaks, fixed, learned)


def _run_penalty(
    logits: Tensor,
    n_knots: Tensor,
    min_spacing: float,
    epsilon: float,
    breaks: Tensor | None = None,
    fixed: Tensor | None = None,
    learned: Tensor | None = None,
) -> Tensor:
    logits = logits.contiguous()
    groups, features, n_widths = logits.shape
    out = torch.empty(groups, dtype=torch.float32, device=logits.device)
    _penalty_forward[(groups,)](
        logits,
        n_knots,
        out if breaks is None else breaks,
        out,
        out if fixed is None else fixed.contiguous(),
        out if learned is None else learned.contiguous(),
        features,
        n_widths,
        min_spacing,
        epsilon,
        FEATURES=triton.next_power_of_2(features),
        WIDTHS=triton.next_power_of_2(n_widths),
        WITH_BREAKS=breaks is not None,
        WITH_FIXED=learned is not None,
    )
    return out


def penalty_backward(grad: Tensor, logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> Tensor:
    """Return the gradient of the logits from that of the penalties."""
    grad, logits = grad.contiguous(), logits.contiguous()
    out = torch.empty_like(logits)
    groups, features, n_widths = logits.shape
    _penalty_backward[(groups * features,)](
        grad,
        logits,
        n_knots,
        out,
        features,
        n_widths,
        min_spacing,
        epsilon,
        WIDTHS=triton.next_power_of_2(n_widths),
    )
    return out
