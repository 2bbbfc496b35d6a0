"""The encoding as an operation of torch: one name, a path for each device, and a gradient in closed form.

Backward keeps the values and the knots, and nothing else: the scheme is run again.
"""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from knotwork._kernels.reference import encode_plain
from knotwork._kernels.spacings import breaks_from_widths, spacing_penalty, widths_from_logits

__all__ = ["encode", "encode_learned", "make_spacings", "on_triton", "run_backward"]


def encode(
    x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Encode values between 0 and 1, by the fastest path there is for their device and type.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values; those outside [0, 1] are moved to the nearer end, NaN gives a row of zeros.
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones; float32 or float64.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature of each group, int32.
    kind, degree : int
        As in `Layout`: kind of the rows, degree of the triangular scheme.
    size : int
        Length of a row.
    dtype : torch.dtype, optional
        Type of the result; by default that of `breaks`. Arithmetic is in the type of `breaks`, on the CPU in float64.

    Returns
    -------
    Tensor of shape (G, B, F, size)
        Differentiable with respect to x and breaks.

    Notes
    -----
    The paths: compiled loops on the CPU; Triton on a GPU; plain torch for float64 on a GPU, on other devices, and
    where Triton is not installed. All are tested against `knotwork.basis`.
    """
    dtype = breaks.dtype if dtype is None else dtype
    if x.device.type == "cpu" or on_triton(breaks):
        return _Encode.apply(x, breaks, n_knots, kind, degree, size, dtype)  # type: ignore[no-any-return]
    return encode_plain(x.to(breaks.dtype), breaks, n_knots, kind=kind, degree=degree, size=size).to(dtype)


def encode_learned(
    x: Tensor,
    logits: Tensor,
    n_knots: Tensor,
    *,
    min_spacing: float,
    epsilon: float,
    kind: int,
    degree: int,
    size: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Encode values on the knots of logits of shape (G, F, K + 1), and return the penalties with the result.

    That is `make_spacings`, then `encode`. On a GPU the gradient goes from the sums over rows and from the penalty to
    the logits in one kernel.
    """
    if on_triton(logits) and not torch.compiler.is_compiling():
        settings = (min_spacing, epsilon, kind, degree, size, dtype)
        return _EncodeLearned.apply(x, logits, n_knots, *settings)  # type: ignore[no-any-return]
    breaks, penalty = make_spacings(logits, n_knots, min_spacing, epsilon)
    return encode(x, breaks, n_knots, kind=kind, degree=degree, size=size, dtype=dtype), penalty


def make_spacings(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the breaks and the penalties, of shape (G,), of logits of shape (G, F, K + 1).

    That is `widths_from_logits`, then `breaks_from_widths` and `spacing_penalty`.
    """
    if logits.device.type == "cpu" or on_triton(logits):
        return _Spacings.apply(logits, n_knots, min_spacing, epsilon)  # type: ignore[no-any-return]
    widths = widths_from_logits(logits, n_knots, min_spacing)
    return breaks_from_widths(widths, n_knots), spacing_penalty(widths, n_knots, epsilon)


def on_triton(tensor: Tensor) -> bool:
    """Return whether a tensor is one that the Triton kernels take."""
    return tensor.device.type == "cuda" and tensor.dtype == torch.float32 and find_spec("triton") is not None


def _forward(
    x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype
) -> Tensor:
    if x.device.type == "cpu":
        from knotwork._kernels import cpu  # noqa: PLC0415 - importing the compiler takes half a second

        encoded = cpu.forward(x.to(breaks.dtype), breaks, n_knots, kind=kind, degree=degree, size=size)
        return encoded.to(dtype)
    from knotwork._kernels import triton_kernels  # noqa: PLC0415 - only where there is a GPU

    return triton_kernels.forward(x, breaks, n_knots, kind=kind, degree=degree, size=size, dtype=dtype)


def run_backward(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x (nothing unless `with_x`) and of the breaks, by the path of the device."""
    if x.device.type == "cpu":
        from knotwork._kernels import cpu  # noqa: PLC0415

        type_ = breaks.dtype
        x_grad, breaks_grad = cpu.backward(grad.to(type_), x.to(type_), breaks, n_knots, kind=kind, degree=degree)
        return (x_grad.to(x.dtype) if with_x else x.new_zeros(())), breaks_grad
    from knotwork._kernels import triton_kernels  # noqa: PLC0415

    return triton_kernels.backward(grad, x, breaks, n_knots, kind=kind, degree=degree, with_x=with_x)


def _spacings(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> tuple[Tensor, Tensor]:
    if logits.device.type == "cpu":
        from knotwork._kernels import cpu  # noqa: PLC0415

        return cpu.breaks_and_penalty(logits, n_knots, min_spacing, epsilon)
    from knotwork._kernels import triton_spacings  # noqa: PLC0415

    return triton_spacings.breaks_and_penalty(logits, n_knots, min_spacing, epsilon)


def _spacings_backward(
    breaks_grad: Tensor | None,
    penalty_grad: Tensor | None,
    logits: Tensor,
    n_knots: Tensor,
    min_spacing: float,
    epsilon: float,
) -> Tensor:
    if logits.device.type == "cpu":
        from knotwork._kernels import cpu  # noqa: PLC0415

        return cpu.spacings_backward(breaks_grad, penalty_grad, logits, n_knots, min_spacing, epsilon)
    from knotwork._kernels import triton_spacings  # noqa: PLC0415

    parts = []
    if breaks_grad is not None:
        parts.append(triton_spacings.breaks_backward(breaks_grad, logits, n_knots, min_spacing))
    if penalty_grad is not None:
        parts.append(triton_spacings.penalty_backward(penalty_grad, logits, n_knots, min_spacing, epsilon))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


# torch.compile cannot look into the paths: it gets each as one operation that it does not open.
_OPAQUE: dict[str, Any] = {
    function.__name__: torch.library.custom_op(f"knotwork::{name}", function, mutates_args=())  # type: ignore[call-overload]
    for name, function in {
        "encode": _forward,
        "encode_backward": run_backward,
        "spacings": _spacings,
        "spacings_backward": _spacings_backward,
    }.items()
}


@_OPAQUE["_forward"].register_fake
def _(x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype) -> Tensor:
    return x.new_empty(*x.shape, size, dtype=dtype)


@_OPAQUE["run_backward"].register_fake
def _(
    grad: Tensor, x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, with_x: bool
) -> tuple[Tensor, Tensor]:
    return (torch.empty_like(x) if with_x else x.new_empty(())), torch.empty_like(breaks)


@_OPAQUE["_spacings"].register_fake
def _(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> tuple[Tensor, Tensor]:
    return logits.new_empty(*logits.shape[:-1], logits.shape[-1] + 1), logits.new_empty(logits.shape[0])


@_OPAQUE["_spacings_backward"].register_fake
def _(
    breaks_grad: Tensor | None,
    penalty_grad: Tensor | None,
    logits: Tensor,
    n_knots: Tensor,
    min_spacing: float,
    epsilon: float,
) -> Tensor:
    return torch.empty_like(logits)


def _path(function: Any) -> Any:
    """Return the function itself, or, where torch.compile is looking, the operation that hides it."""
    return _OPAQUE[function.__name__] if torch.compiler.is_compiling() else function


class _Encode(torch.autograd.Function):
    """Encode, and run the scheme again for the gradient."""

    @staticmethod
    def forward(
        x: Tensor, breaks: Tensor, n_knots: Tensor, kind: int, degree: int, size: int, dtype: torch.dtype
    ) -> Tensor:
        return _path(_forward)(x, breaks, n_knots, kind, degree, size, dtype)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        x, breaks, n_knots, ctx.kind, ctx.degree, _, _ = inputs
        ctx.save_for_backward(x, breaks, n_knots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, breaks, n_knots = ctx.saved_tensors
        with_x, with_breaks = ctx.needs_input_grad[:2]
        x_grad, breaks_grad = _path(run_backward)(grad, x, breaks, n_knots, ctx.kind, ctx.degree, with_x)
        return (x_grad if with_x else None), (breaks_grad if with_breaks else None), None, None, None, None, None


class _EncodeLearned(torch.autograd.Function):
    """Encode on knots made of free numbers, on a GPU, with the spacing penalty."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        logits: Tensor,
        n_knots: Tensor,
        min_spacing: float,
        epsilon: float,
        kind: int,
        degree: int,
        size: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        from knotwork._kernels import triton_spacings  # noqa: PLC0415

        breaks, penalty = triton_spacings.breaks_and_penalty(logits, n_knots, min_spacing, epsilon)
        ctx.save_for_backward(x, breaks, n_knots, logits)
        ctx.spacing, ctx.settings = (min_spacing, epsilon), {"kind": kind, "degree": degree}
        ctx.set_materialize_grads(False)
        return _forward(x, breaks, n_knots, kind, degree, size, dtype), penalty

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, penalty_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        from knotwork._kernels import triton_kernels  # noqa: PLC0415

        x, breaks, n_knots, logits = ctx.saved_tensors
        none = (None,) * 7
        if grad is None:  # only the penalty was used
            return None, _spacings_backward(None, penalty_grad, logits, n_knots, *ctx.spacing), *none
        min_spacing, epsilon = ctx.spacing
        spacings = triton_kernels.Spacings(logits, min_spacing, epsilon, penalty_grad)
        with_x = ctx.needs_input_grad[0]
        x_grad, logits_grad = triton_kernels.backward_to_logits(
            grad, x, breaks, n_knots, spacings, **ctx.settings, with_x=with_x
        )
        return (x_grad if with_x else None), logits_grad, *none


class _Spacings(torch.autograd.Function):
    """Knots and their penalty from free numbers."""

    @staticmethod
    def forward(logits: Tensor, n_knots: Tensor, min_spacing: float, epsilon: float) -> tuple[Tensor, Tensor]:
        return _path(_spacings)(logits, n_knots, min_spacing, epsilon)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        del output
        logits, n_knots, *ctx.constants = inputs
        ctx.save_for_backward(logits, n_knots)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, breaks_grad: Tensor | None, penalty_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        if breaks_grad is None and penalty_grad is None:
            return None, None, None, None
        gradients = (breaks_grad, penalty_grad, *ctx.saved_tensors, *ctx.constants)
        return _path(_spacings_backward)(*gradients), None, None, None
