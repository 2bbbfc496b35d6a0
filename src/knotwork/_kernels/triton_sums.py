"""Sums over rows in Triton: of a gradient's rows, and of the parts that programs of the backward pass left."""

import triton
import triton.language as tl

from knotwork._kernels.triton_spacings import logits_slopes, penalty_slopes, softmax_shares

__all__ = ["gather_sums", "row_sums"]


@triton.jit(
    do_not_specialize=["n_values", "n_rows", "n_features", "size"],
    do_not_specialize_on_alignment=["n_knots_pointer", "out_pointer"],
)
def row_sums(
    grad_pointer,
    n_knots_pointer,
    out_pointer,
    n_values,
    n_rows,
    n_features,
    size,
    DEGREE: tl.constexpr,
    VALUES: tl.constexpr,
    COLUMNS: tl.constexpr,
    LONG: tl.constexpr,
):
    """Add up each feature's own columns of the gradient, which normalised rows need whole."""
    program = tl.program_id(0)
    if LONG:
        program = program.to(tl.int64)
    v = program * VALUES + tl.arange(0, VALUES)
    column = tl.arange(0, COLUMNS)[None, :]
    here = v < n_values
    table = v // (n_rows * n_features) * n_features + v % n_features
    own_size = tl.load(n_knots_pointer + table, mask=here, other=0) + DEGREE + 1
    known = here[:, None] & (column < own_size[:, None])
    rows = tl.load(grad_pointer + v[:, None] * size + column, mask=known, other=0.0).to(tl.float32)
    tl.store(out_pointer + v, tl.sum(rows, axis=1), mask=here)


@triton.jit(
    do_not_specialize=["n_features", "n_breaks"],
    do_not_specialize_on_alignment=["n_knots_pointer", "logits_pointer", "penalty_grad_pointer", "out_pointer"],
)
def gather_sums(
    parts_pointer,
    n_knots_pointer,
    out_pointer,
    logits_pointer,
    penalty_grad_pointer,
    n_features,
    n_breaks,
    min_spacing,
    epsilon,
    N_PARTS: tl.constexpr,
    PARTS: tl.constexpr,
    DEGREE: tl.constexpr,
    KNOTS: tl.constexpr,
    WINDOW: tl.constexpr,
    TO_LOGITS: tl.constexpr,
    WITH_PENALTY: tl.constexpr,
):
    """Add up the parts, and bring what each interval says of the knots around it together at each knot.

    Then, on request, on to the free numbers that the knots are made of, as in `triton_spacings`.
    """
    table = tl.program_id(0)
    n_knots = tl.load(n_knots_pointer + table)
    column = tl.arange(0, KNOTS)
    place = column[:, None]
    if TO_LOGITS:  # counted from the first knot
        place = place + 1
    totals = tl.zeros((KNOTS, PARTS), tl.float32)
    for first in range(0, N_PARTS, PARTS):
        part = first + tl.arange(0, PARTS)[None, :]
        start = parts_pointer + (part * tl.num_programs(0) + table) * KNOTS * WINDOW
        for c in tl.static_range(2 * DEGREE + 2):
            interval = place + DEGREE - c
            known = (interval >= 0) & (interval <= n_knots) & (place >= 1) & (place <= n_knots) & (part < N_PARTS)
            totals += tl.load(start + interval * WINDOW + c, mask=known, other=0.0)
    slopes = tl.sum(totals, axis=1)
    if TO_LOGITS:
        n_widths = n_breaks - 1
        shares = softmax_shares(logits_pointer + table * n_widths, n_knots, KNOTS)
        slopes = tl.cumsum(slopes, axis=0, reverse=True)  # a width moves its own knot and all after it
        if WITH_PENALTY:
            grad = tl.load(penalty_grad_pointer + table // n_features)
            barrier = penalty_slopes(shares, grad, n_knots, n_features, min_spacing, epsilon)
            slopes += tl.where(column <= n_knots, barrier, 0.0)
        slopes = logits_slopes(shares, slopes, n_knots, min_spacing)
        tl.store(out_pointer + table * n_widths + column, slopes, mask=column < n_widths)
    else:
        tl.store(out_pointer + table * n_breaks + column, slopes, mask=column < n_breaks)
