"""Encoding groups that are not all of one kind: part by part, into one tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from knotwork._kernels.operation import encode, make_spacings, on_triton, run_backward

__all__ = ["AFFINE", "LearnedKnots", "Part", "encode_learned_parts", "encode_parts", "learned_spacings"]

AFFINE = -1
"""Kind of a feature that is scaled and nothing else."""


@dataclass(frozen=True)
class Part:
    """Groups and features that are encoded by the same kind of functions.

    Parameters
    ----------
    kind, degree : int
        As in `Layout`, or `AFFINE`.
    start, stop : int
        The groups, from start to before stop.
    learned : bool
        Whether a gradient of the breaks is wanted.
    features : tuple of int or None
        The features; None is all of them.
    """

    kind: int
    degree: int
    start: int
    stop: int
    learned: bool = False
    features: tuple[int, ...] | None = None


class LearnedKnots(NamedTuple):
    """Knots of some groups that are made of free numbers.

    Parameters
    ----------
    logits : Tensor of shape (G, F, K + 1)
        The free numbers, of all groups.
    groups : Tensor of shape (G,)
        Whose knots are made of them, bool: the groups of parts that are `learned`.
    min_spacing, epsilon : float
        Smallest width, and constant of the penalty.
    """

    logits: Tensor
    groups: Tensor
    min_spacing: float
    epsilon: float


def encode_parts(
    x: Tensor, breaks: Tensor, n_knots: Tensor, parts: Sequence[Part], *, size: int, dtype: torch.dtype
) -> Tensor:
    """Encode groups that are not all of one kind: `encode` part by part, into one tensor.

    Parameters
    ----------
    x, breaks, n_knots, size, dtype
        As for `encode`; what is no knot of its feature is padding.
    parts : sequence of Part
        Together they cover every group and feature once.

    Returns
    -------
    Tensor of shape (G, B, F, size)
        Differentiable with respect to the breaks of parts that are `learned`, not to x.
    """
    return _EncodeParts.apply(x, breaks, n_knots, tuple(parts), size, dtype)  # type: ignore[no-any-return, no-untyped-call]


def learned_spacings(breaks: Tensor, n_knots: Tensor, learned: LearnedKnots) -> tuple[Tensor, Tensor]:
    """Return the breaks of all groups, and the spacing penalty of every group, 0 where its knots are not learned."""
    moved, penalty = make_spacings(learned.logits, n_knots, learned.min_spacing, learned.epsilon)
    return torch.where(learned.groups[:, None, None], moved, breaks), torch.where(learned.groups, penalty, 0.0)


def encode_learned_parts(
    x: Tensor,
    breaks: Tensor,
    n_knots: Tensor,
    learned: LearnedKnots,
    parts: Sequence[Part],
    *,
    size: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return the encoding of groups some of which have learned knots, and the penalty of every group.

    That is `learned_spacings`, then `encode_parts`. On a GPU knots and penalty are made by one kernel, and another
    brings the sums over rows and the gradient of the penalty to the logits.
    """
    if on_triton(learned.logits) and all(part.features is None for part in parts if part.learned):
        return _EncodeLearnedParts.apply(  # type: ignore[no-any-return, no-untyped-call]
            x, learned.logits, breaks, n_knots, learned, tuple(parts), size, dtype
        )
    breaks, penalty = learned_spacings(breaks, n_knots, learned)
    return encode_parts(x, breaks, n_knots, parts, size=size, dtype=dtype), penalty


class _EncodeParts(torch.autograd.Function):
    """Encode part by part."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        breaks: Tensor,
        n_knots: Tensor,
        parts: tuple[Part, ...],
        size: int,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.save_for_backward(x, breaks, n_knots)
        ctx.parts = parts
        return _encode_all(x, breaks, n_knots, parts, size, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, breaks, n_knots = ctx.saved_tensors
        out = torch.zeros_like(breaks)
        for part in ctx.parts:
            if part.kind == AFFINE or not part.learned:
                continue
            pieces = _of_part(part, grad, axis=2), _of_part(part, x, axis=2), _of_part(part, breaks)
            own = run_backward(*pieces, _of_part(part, n_knots), part.kind, part.degree, False)[1]
            _into_part(part, out, own)
        return None, out, None, None, None, None


class _EncodeLearnedParts(torch.autograd.Function):
    """Encode part by part on a GPU, on knots that are learned in some of the groups."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        logits: Tensor,
        breaks: Tensor,
        n_knots: Tensor,
        learned: LearnedKnots,
        parts: tuple[Part, ...],
        size: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        from knotwork._kernels import triton_spacings  # noqa: PLC0415 - only where there is a GPU

        ctx.min_spacing, ctx.epsilon, ctx.parts = learned.min_spacing, learned.epsilon, parts
        breaks, penalty = triton_spacings.breaks_and_penalty(
            logits, n_knots, learned.min_spacing, learned.epsilon, fixed=breaks, learned=learned.groups
        )
        ctx.save_for_backward(x, logits, breaks, n_knots)
        return _encode_all(x, breaks, n_knots, parts, size, dtype), penalty

    @staticmethod
    def backward(ctx: Any, grad: Tensor, penalty_grad: Tensor) -> tuple[Tensor | None, ...]:
        from knotwork._kernels import triton_kernels  # noqa: PLC0415

        x, logits, breaks, n_knots = ctx.saved_tensors
        parts = [part for part in ctx.parts if part.learned and part.kind != AFFINE]
        covered = sum(part.stop - part.start for part in parts) == len(logits)
        out = torch.empty_like(logits) if covered else torch.zeros_like(logits)
        for part in parts:
            own = slice(part.start, part.stop)
            spacings = triton_kernels.Spacings(logits[own], ctx.min_spacing, ctx.epsilon, penalty_grad[own])
            triton_kernels.backward_to_logits(
                grad[own],
                x[own],
                breaks[own],
                n_knots[own],
                spacings,
                kind=part.kind,
                degree=part.degree,
                with_x=False,
                out=out[own],
            )
        return None, out, None, None, None, None, None, None


def _encode_all(
    x: Tensor, breaks: Tensor, n_knots: Tensor, parts: tuple[Part, ...], size: int, dtype: torch.dtype
) -> Tensor:
    out = torch.zeros(*x.shape, size, dtype=dtype, device=x.device)
    for part in parts:
        values = _of_part(part, x, axis=2)
        if part.kind == AFFINE:
            _into_part(part, out[..., 0], torch.nan_to_num(values, nan=0.0).to(dtype), axis=2)
            continue
        settings = (values, _of_part(part, breaks), _of_part(part, n_knots), part.kind, part.degree)
        if part.features is None:
            _forward_into(out[part.start : part.stop], *settings)
        else:
            block = torch.zeros(*values.shape, size, dtype=dtype, device=x.device)
            _forward_into(block, *settings)
            _into_part(part, out, block, axis=2)
    return out


def _of_part(part: Part, tensor: Tensor, axis: int = 1) -> Tensor:
    """Return a part's groups and, along `axis`, its features."""
    own = tensor[part.start : part.stop]
    return own if part.features is None else own.index_select(axis, _index(part.features, tensor.device))


def _into_part(part: Part, tensor: Tensor, values: Tensor, axis: int = 1) -> None:
    """Write a part's groups and, along `axis`, its features."""
    own = tensor[part.start : part.stop]
    if part.features is None:
        own.copy_(values)
    else:
        own.index_copy_(axis, _index(part.features, tensor.device), values)


@cache
def _index(features: tuple[int, ...], device: torch.device) -> Tensor:
    """Return features as a tensor: made once, since nothing can be copied from the host while a graph is captured.

    It is kept for good, for graphs that were captured with it read it again and again.
    """
    return torch.tensor(features, device=device)


def _forward_into(out: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int) -> None:
    """Encode into a contiguous tensor of zeros, without a copy where the path allows it."""
    settings = {"kind": kind, "degree": degree, "size": out.shape[-1]}
    if x.device.type == "cpu" and out.dtype == breaks.dtype:
        from knotwork._kernels import cpu  # noqa: PLC0415

        cpu.forward(x.to(breaks.dtype), breaks, n_knots, **settings, out=out)
    elif on_triton(breaks):
        from knotwork._kernels import triton_kernels  # noqa: PLC0415

        triton_kernels.forward(x, breaks, n_knots, **settings, dtype=out.dtype, out=out)
    else:
        out.copy_(encode(x, breaks, n_knots, **settings, dtype=out.dtype))
