"""The gated unit of FT-Transformers, with its dropout."""

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
    p, noise, stream
        Dropout of the result, as in `dropout`.
    bias : Tensor of shape (M, 2 * h), optional
        Added to all rows of a member first.

    Returns
    -------
    Tensor of shape (M, ..., h)
        In the type of x.

    Notes
    -----
    For x + bias = [a, b], y = m * a * max(b, 0) with dropout's factors m. On a GPU, one Triton kernel forward and one
    backward, which keep only x and a key per member; otherwise plain torch.

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
