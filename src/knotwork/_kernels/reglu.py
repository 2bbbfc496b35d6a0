"""The gated unit of FT-Transformers with its dropout, for a stack of members at once."""

from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import Operation
from knotwork._kernels.dropout import Noise, check_rate, dropout

__all__ = ["reglu_dropout", "reglu_formula"]


def reglu_formula(x: Tensor, bias: Tensor | None, *, p: float, noise: Noise | None, stream: int) -> Tensor:
    """Compute `reglu_dropout` in plain torch; without noise nothing is dropped."""
    if bias is not None:
        x = x + bias.to(x.dtype).view(len(x), *[1] * (x.ndim - 2), x.shape[-1])
    a, b = x.chunk(2, dim=-1)
    y = a * functional.relu(b)
    return y if noise is None else dropout(y, p, noise, stream)


_REGLU = Operation(reglu_formula, triton="reglu_triton.REGLU")


def reglu_dropout(
    x: Tensor, p: float = 0.0, noise: Noise | None = None, stream: int = 0, *, bias: Tensor | None = None
) -> Tensor:
    """Multiply the first half of the last axis by the positive part of the second half, then drop out.

    NaN stays NaN. The gradient of the positive part at 0 is 0.

    Parameters
    ----------
    x : Tensor of shape (M, ..., 2 * h)
        Values of M members.
    p : float, default=0.0
        Share of the results that become zero, in [0, 1).
    noise : Noise, optional
        Seeds and steps of the members. Without it, dropout uses torch's generator.
    stream : int, default=0
        Stream of the noise: a number that no other operation of the network uses.
    bias : Tensor of shape (M, 2 * h), optional
        What is added to all rows of a member first.

    Returns
    -------
    Tensor of shape (M, ..., h)
        In the type of x.

    Notes
    -----
    For x + bias = [a, b], y = m * a * max(b, 0), where m is 1 / (1 - p) where the bits of an element, counted within
    its member over (..., h), reach 2**32 p, and 0 elsewhere. On a GPU, one Triton kernel forward and one backward,
    which keep nothing but x and a key per member; elsewhere plain torch.

    Examples
    --------
    >>> import torch
    >>> reglu_dropout(torch.tensor([[3.0, 4.0, -1.0, 2.0]]))
    tensor([[0., 8.]])
    """
    check_rate(p)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise argument_error("x", "be of shape (M, ..., 2 * h)", tuple(x.shape))
    if bias is not None and bias.shape != (len(x), x.shape[-1]):
        raise argument_error("bias", f"be of shape {(len(x), x.shape[-1])}", tuple(bias.shape))
    if p > 0.0 and noise is None:
        return functional.dropout(_REGLU(x, bias, p=0.0, noise=None, stream=stream), p)
    return _REGLU(x, bias, p=p, noise=noise, stream=stream)  # type: ignore[no-any-return]
