"""Layer normalisation with weights of each member, alone or after a sum."""

from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import Operation

__all__ = ["layer_norm", "layer_norm_formula"]

MOST_COLUMNS = 1024
"""Largest width for which a GPU program holds complete rows."""


def layer_norm_formula(
    x: Tensor,
    added: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    *,
    epsilon: float,
    first: bool,
) -> tuple[Tensor, Tensor]:
    """Compute `layer_norm` in plain torch."""
    shape = (len(x), *[1] * (x.ndim - 2), x.shape[-1])
    total = x if added is None or shift is None else (x + added + shift.view(shape)).to(x.dtype)
    y = functional.layer_norm(total, x.shape[-1:], eps=epsilon)
    y = (y * weight.view(shape) + bias.view(shape)).to(x.dtype)
    return total[..., :1, :] if first else total, y


_LAYER_NORM = Operation(layer_norm_formula, triton="layer_norm_triton.LAYER_NORM")


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    added: Tensor | None = None,
    shift: Tensor | None = None,
    epsilon: float = 1e-5,
    first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Normalise each row of a sum to mean 0 and variance 1, then scale and shift it by its member's weights.

    Parameters
    ----------
    x : Tensor of shape (M, ..., d)
        Values of M members.
    weight, bias : Tensor of shape (M, d)
        Scale and shift of each member.
    added : Tensor of shape (M, ..., d), optional
        Added to x first.
    shift : Tensor of shape (M, d), optional
        Added to each row of a member with `added`; both are given, or neither.
    epsilon : float, default=1e-5
        Added to the variance; a constant row becomes the bias.
    first : bool, default=False
        Whether only the first token of the sum is returned, so that no other has a gradient.

    Returns
    -------
    sum : Tensor of shape (M, ..., d)
        ``s = x + added + shift``, or x itself; with `first`, ``s[..., :1, :]``. A network that continues with s instead
        of x lets the kernel add the gradients of both results.
    normalised : Tensor of shape (M, ..., d)
        In the type of x.

    Notes
    -----
    y = (s - mean) / sqrt(variance + epsilon) * weight + bias, where the variance is the sum of squares divided by d.
    On a GPU, up to 1024 columns, one Triton kernel forward and two backward, in float32: the sum is written once, its
    two gradients are added in registers, and the gradient of the shift needs no extra pass; backward keeps only the
    sum, the weight and two numbers per row. The gradients of weight, bias and shift are summed in a fixed order, so
    they are reproducible and do not depend on the other members. Otherwise plain torch.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])
    >>> layer_norm(x, torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.zeros(2, 2), epsilon=0.0)[1]
    tensor([[[-1.,  1.]],
    <BLANKLINE>
            [[-2.,  2.]]])
    >>> x, one = torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 2)
    >>> layer_norm(x, one, one, added=x, shift=torch.tensor([[0.0, 2.0]]), epsilon=0.0)
    (tensor([[[2., 6.]]]), tensor([[[0., 2.]]]))
    """
    members = (len(x), x.shape[-1])
    for name, tensor in {"weight": weight, "bias": bias, "shift": shift}.items():
        if tensor is not None and tensor.shape != members:
            raise argument_error(name, f"be of shape {members}", tuple(tensor.shape))
    if added is not None and added.shape != x.shape:
        raise argument_error("added", f"be of shape {tuple(x.shape)}", tuple(added.shape))
    if (added is None) != (shift is None):
        raise argument_error("shift", "be given if and only if added is", None if shift is None else tuple(shift.shape))
    run = _LAYER_NORM if x.shape[-1] <= MOST_COLUMNS else layer_norm_formula
    return run(x, added, shift, weight, bias, epsilon=epsilon, first=first)
