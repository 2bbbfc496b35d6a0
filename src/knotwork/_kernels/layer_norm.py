"""Layer normalisation with weights of each member, alone or after a sum."""

from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import Operation

__all__ = ["add_layer_norm", "add_layer_norm_formula", "layer_norm", "layer_norm_formula"]

MOST_COLUMNS = 1024
"""Largest width for which a GPU program holds complete rows."""


def layer_norm_formula(x: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float) -> Tensor:
    """Compute `layer_norm` in plain torch."""
    shape = (len(x), *[1] * (x.ndim - 2), x.shape[-1])
    y = functional.layer_norm(x, x.shape[-1:], eps=epsilon)
    return (y * weight.view(shape) + bias.view(shape)).to(x.dtype)


def add_layer_norm_formula(
    x: Tensor, added: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float, first: bool
) -> tuple[Tensor, Tensor]:
    """Compute `add_layer_norm` in plain torch."""
    total = (x + added + shift.view(len(x), *[1] * (x.ndim - 2), x.shape[-1])).to(x.dtype)
    return total[..., :1, :] if first else total, layer_norm_formula(total, weight, bias, epsilon=epsilon)


_LAYER_NORM = Operation(layer_norm_formula, triton="layer_norm_triton.LAYER_NORM")
_ADD_LAYER_NORM = Operation(add_layer_norm_formula, triton="layer_norm_triton.ADD_LAYER_NORM")


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Normalise each row of the last axis to mean 0 and variance 1, then scale and shift it by its member's weights.

    Parameters
    ----------
    x : Tensor of shape (M, ..., d)
        Values of M members.
    weight, bias : Tensor of shape (M, d)
        Scale and shift of each member.
    epsilon : float, default=1e-5
        Added to the variance; a constant row becomes the bias.

    Returns
    -------
    Tensor of shape (M, ..., d)
        In the type of x.

    Notes
    -----
    y = (x - mean) / sqrt(variance + epsilon) * weight + bias, where the variance is the sum of squares divided by d.
    On a GPU, up to 1024 columns, one Triton kernel forward and two backward, in float32; backward keeps only x, the
    weight and two numbers per row. The gradients of weight and bias are summed in a fixed order, so they are
    reproducible and do not depend on the other members. Otherwise plain torch.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])
    >>> layer_norm(x, torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.zeros(2, 2), epsilon=0.0)
    tensor([[[-1.,  1.]],
    <BLANKLINE>
            [[-2.,  2.]]])
    """
    _check(x, weight=weight, bias=bias)
    run = _LAYER_NORM if x.shape[-1] <= MOST_COLUMNS else layer_norm_formula
    return run(x, weight, bias, epsilon=epsilon)


def add_layer_norm(
    x: Tensor, added: Tensor, shift: Tensor, *, weight: Tensor, bias: Tensor, epsilon: float = 1e-5, first: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the sum ``s = x + added + shift`` and ``layer_norm(s, weight, bias, epsilon)``, in the type of x.

    `added` is of the shape of x, (M, ..., d), and `shift` of shape (M, d). With `first`, the first result is only
    ``s[..., :1, :]``, so that no other token has a gradient.

    Notes
    -----
    On a GPU, up to 1024 columns, one Triton kernel forward and two backward: the sum is written once, its two
    gradients are added in registers, and the gradient of the shift needs no extra pass.

    Examples
    --------
    >>> import torch
    >>> x, one = torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 2)
    >>> s, y = add_layer_norm(x, x, torch.tensor([[0.0, 2.0]]), weight=one, bias=one, epsilon=0.0)
    >>> s, y
    (tensor([[[2., 6.]]]), tensor([[[0., 2.]]]))
    """
    _check(x, weight=weight, bias=bias, shift=shift)
    if added.shape != x.shape:
        raise argument_error("added", f"be of shape {tuple(x.shape)}", tuple(added.shape))
    run = _ADD_LAYER_NORM if x.shape[-1] <= MOST_COLUMNS else add_layer_norm_formula
    return run(x, added, shift, weight, bias, epsilon=epsilon, first=first)


def _check(x: Tensor, **tensors: Tensor) -> None:
    """Check that tensors are of shape (M, d)."""
    members = (len(x), x.shape[-1])
    for name, tensor in tensors.items():
        if tensor.shape != members:
            raise argument_error(name, f"be of shape {members}", tuple(tensor.shape))
