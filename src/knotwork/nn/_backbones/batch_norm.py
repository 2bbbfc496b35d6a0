"""Batch normalisation of a stack: statistics of each member, over the rows that are its own.

What follows a normalisation in the networks here is done in the same pass: relu, dropout, or a sum with a residual.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork.nn._backbones.dropout import check_rate, dropout, on_triton
from knotwork.nn._backbones.noise import Noise

__all__ = ["Kept", "Settings", "batch_norm", "batch_norm_eval", "batch_norm_plain"]


class Settings(NamedTuple):
    """How to normalise and what follows; as in `batch_norm`."""

    momentum: float
    epsilon: float
    relu: bool
    p: float
    stream: int


class Kept(NamedTuple):
    """What backward needs of forward: mean and 1 / spread, of shape (M, d), and the members' keys."""

    mean: Tensor
    inverse: Tensor
    keys: Tensor


def batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    counts: Tensor | None,
    *,
    momentum: float = 0.1,
    epsilon: float = 1e-5,
    relu: bool = False,
    p: float = 0.0,
    noise: Noise | None = None,
    stream: int = 0,
    residual: Tensor | None = None,
) -> Tensor:
    """Normalise the columns of each member by their mean and variance over its rows, as in training.

    A member with one row gives its bias: the variance is 0. Its running mean moves, its running variance stays, as
    one row says nothing about it. A member without rows changes nothing.

    Parameters
    ----------
    x : Tensor of shape (M, B, d)
        The rows of M members.
    weight, bias : Tensor of shape (M, d)
        Scale and shift after the normalisation.
    running_mean, running_var : Tensor of shape (M, d)
        Changed in place, as by `torch.nn.BatchNorm1d`: the variance is the unbiased one.
    counts : Tensor of shape (M,) or None
        Rows of each member, int64; those after are padding. None stands for B everywhere.
    momentum : float, default=0.1
        Share of the new statistics in the running ones.
    epsilon : float, default=1e-05
        Added to the variance.
    relu : bool, default=False
        Whether to set negative results to zero.
    p, noise, stream
        Dropout of the result, as in `dropout`: with the same numbers, it drops the same elements.
    residual : Tensor of shape (M, B, d), optional
        What to add the result to; not together with relu.

    Returns
    -------
    Tensor of shape (M, B, d)
        In the type of x; arithmetic is in float32, or in float64 for float64. Rows of padding are 0, plus the
        residual; they get no gradient and give none, whatever they hold, but that a residual gets its own.

    Notes
    -----
    ``weight * (x - mean) / sqrt(var + epsilon) + bias``, with mean and var over the rows of a member. On a GPU one
    kernel forward reads x for the statistics and once more to apply them, and one kernel backward does likewise. On
    the CPU, compiled loops do so for float32; the rest is plain torch.
    """
    check_rate(p)
    if relu and residual is not None:
        raise argument_error("relu", "be False if there is a residual", relu, "Apply relu to the result.")
    buffers = running_mean, running_var
    if p > 0.0 and noise is None:
        y = batch_norm(x, weight, bias, *buffers, counts, momentum=momentum, epsilon=epsilon, relu=relu)
        y = functional.dropout(y, p)
        return y if residual is None else residual + y
    settings = Settings(momentum, epsilon, relu, p, stream)
    tensors = x, weight, bias, residual
    if x.numel() and (on_triton(x) or _compiled(*tensors, *buffers)):
        return _BatchNorm.apply(*tensors, buffers, counts, noise, settings)  # type: ignore[no-any-return, no-untyped-call]
    return batch_norm_plain(x, weight, bias, *buffers, counts, settings=settings, noise=noise, residual=residual)


def batch_norm_plain(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    counts: Tensor | None,
    *,
    settings: Settings,
    noise: Noise | None,
    residual: Tensor | None,
) -> Tensor:
    """Compute `batch_norm` in plain torch: the definition of the other paths."""
    type_ = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows = torch.full((x.shape[0],), x.shape[1], device=x.device) if counts is None else counts
    used = (torch.arange(x.shape[1], device=x.device) < rows[:, None])[..., None]
    n = rows.clamp(min=1).to(type_)[:, None]
    values = torch.where(used, x.to(type_), 0.0)
    mean = values.sum(dim=1) / n
    centred = torch.where(used, values - mean[:, None], 0.0)
    squares = centred.square().sum(dim=1)
    with torch.no_grad():
        shares = settings.momentum * (rows > 0).to(type_)[:, None]
        running_mean += (shares * (mean - running_mean)).to(running_mean.dtype)
        shares = settings.momentum * (rows > 1).to(type_)[:, None]
        running_var += (shares * (squares / (n - 1).clamp(min=1) - running_var)).to(running_var.dtype)
    inverse = (squares / n + settings.epsilon).rsqrt()
    y = centred * (inverse * weight.to(type_))[:, None] + bias.to(type_)[:, None]
    y = torch.where(used, torch.relu(y) if settings.relu else y, 0.0)
    y = dropout(y, settings.p, noise, settings.stream)
    return (y if residual is None else residual.to(type_) + y).to(x.dtype)


def batch_norm_eval(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    epsilon: float = 1e-5,
    relu: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """Normalise by the running statistics, as in prediction; parameters as in `batch_norm`."""
    type_ = torch.float64 if x.dtype == torch.float64 else torch.float32
    scale = weight.to(type_) * (running_var.to(type_) + epsilon).rsqrt()
    shift = bias.to(type_) - running_mean.to(type_) * scale
    y = torch.addcmul(shift[:, None], x.to(type_), scale[:, None])
    y = torch.relu(y) if relu else y
    return (y if residual is None else residual.to(type_) + y).to(x.dtype)


def _compiled(*tensors: Tensor | None) -> bool:
    return all(t is None or (t.device.type == "cpu" and t.dtype == torch.float32) for t in tensors)


def _path(x: Tensor) -> Any:
    """Return the module with the loops for this device."""
    if not on_triton(x):
        from knotwork.nn._backbones import cpu_batch_norm  # noqa: PLC0415 - importing the compiler takes half a second

        return cpu_batch_norm
    from knotwork.nn._backbones import triton_batch_norm  # noqa: PLC0415 - only where there is a GPU

    return triton_batch_norm


class _BatchNorm(torch.autograd.Function):
    """Where the result of relu and dropout is positive, its gradient goes through."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        buffers: tuple[Tensor, Tensor],
        counts: Tensor | None,
        noise: Noise | None,
        settings: Settings,
    ) -> Tensor:
        x, parameters = x.contiguous(), (weight, bias)
        run = _path(x).forward
        y, kept = run(x, parameters, buffers, counts, settings=settings, noise=noise, residual=residual)
        ctx.settings = settings
        ctx.save_for_backward(x, weight, counts, y if settings.relu else None, *kept)
        return y  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, counts, y, *kept = ctx.saved_tensors
        grads = _path(x).backward(grad, x, weight, counts, y, Kept(*kept), ctx.settings)
        return *grads, (grad if ctx.needs_input_grad[3] else None), None, None, None, None
