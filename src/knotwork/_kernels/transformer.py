"""Operations of FT-Transformers besides attention: tokens of a row, layer normalisation, and the gated unit."""

import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error
from knotwork._kernels.dispatch import Operation
from knotwork._kernels.dropout import Noise, check_rate, dropout

MOST_ENCODED, MOST_NORMALISED = 64, 1024
"""Most columns of an encoded feature, and largest width of a normalised row, that a GPU program holds."""


def tokens_formula(encoded: Tensor, weight: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Compute `make_tokens` in plain torch."""
    if encoded.shape[2]:
        products = torch.matmul(encoded.transpose(1, 2), weight).transpose(1, 2)
    else:
        products = weight.new_zeros(len(weight), encoded.shape[1], 0, weight.shape[-1])
    features = torch.cat([products, categories], dim=2) + bias.to(weight.dtype)[:, None]
    first = cls.to(weight.dtype)[:, None, None].expand(-1, features.shape[1], 1, -1)
    return torch.cat([first, features], dim=2)


_TOKENS = Operation(tokens_formula, triton="transformer_triton.TOKENS", leading=4)  # encoded may be empty


def make_tokens(encoded: Tensor, weight: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Return the CLS token, encoded features times their weights plus a bias, and categories plus a bias.

    Shapes are (M, B, F, m) for encoded features, (M, F, m, d) for weights, (M, B, C, d) for categories, (M, F + C, d)
    for the bias, (M, d) for CLS, and (M, B, 1 + F + C, d) for the result. Encoded features, categories and result have
    the type of the weights. On a GPU, for features of up to 64 columns, one Triton kernel forward writes each token
    once; backward has one for the weights and biases, and one for the features if they need a gradient. Otherwise plain
    torch.
    """
    run = _TOKENS if encoded.shape[3] <= MOST_ENCODED and (encoded.numel() or categories.numel()) else tokens_formula
    return run(encoded, weight, categories, bias, cls)


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


_LAYER_NORM = Operation(layer_norm_formula, triton="transformer_triton.LAYER_NORM")


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
    run = _LAYER_NORM if x.shape[-1] <= MOST_NORMALISED else layer_norm_formula
    return run(x, added, shift, weight, bias, epsilon=epsilon, first=first)


def reglu_formula(x: Tensor, bias: Tensor | None, *, p: float, noise: Noise | None, stream: int) -> Tensor:
    """Compute `reglu_dropout` in plain torch; without noise nothing is dropped."""
    if bias is not None:
        x = x + bias.to(x.dtype).view(len(x), *[1] * (x.ndim - 2), x.shape[-1])
    a, b = x.chunk(2, dim=-1)
    y = a * functional.relu(b)
    return y if noise is None else dropout(y, p, noise, stream)


_REGLU = Operation(reglu_formula, triton="transformer_triton.REGLU")


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
