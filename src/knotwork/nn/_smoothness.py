"""Difference penalties on the weights that read a spline's columns, as in P-splines (Eilers and Marx, 1996)."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from knotwork.basis import Functions
from knotwork.nn._stack import StackEncoding

PENALISED = (Functions.LOCAL, Functions.UNIT_AREA, Functions.NORMALISED, Functions.TAILS)
"""Kinds of functions whose weights have differences: B-, M- and I-splines and PLE."""

SMALLEST_SUPPORT = 1e-6
"""Smallest support of a function, as a share of the range, as in `knotwork.basis`."""


def differences(breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, order: int) -> Tensor:
    """Return the coefficients of the differences of adjacent weights, of shape (..., n_differences, width).

    Difference j is the sum over k of coefficient (j, k) times weight j + k. It is proportional to coefficient j of the
    curve's derivative of the given order, which is a spline of a lower degree (de Boor), and so 0 for every curve that
    is a polynomial of a degree below `order`, wherever the knots are. Absolute values of its coefficients sum to those
    of differences at equal distances, as in (1, -2, 1). The weights of I-splines and PLE are first differences of the
    coefficients of B-splines already: `width` is the order, and otherwise one more.

    Parameters
    ----------
    breaks : Tensor of shape (..., K + 2)
        ``[0, knots, 1]``, padded with ones.
    n_knots : Tensor of shape (...)
        Numbers of interior knots.
    kind : int
        One of `PENALISED`.
    degree : int
        Degree of the B-splines that the functions are computed from.
    order : int
        Order of the differences.
    """
    breaks = breaks.double()
    t = torch.cat([breaks[..., :1]] * degree + [breaks] + [breaks[..., -1:]] * degree, dim=-1)
    n = t.shape[-1] - degree - 1
    if n <= order:
        return breaks.new_zeros(*breaks.shape[:-1], 0, order + (kind != Functions.TAILS))
    rows = torch.ones_like(t[..., :n, None])
    if kind in (Functions.UNIT_AREA, Functions.NORMALISED):
        rows = rows / (t[..., degree + 1 :] - t[..., :n]).clamp(min=SMALLEST_SUPPORT)[..., None]
    for level in range(1, order + 1):  # the next derivative, whose splines have a degree less
        n -= 1
        spans = t[..., degree + 1 : degree + 1 + n] - t[..., level : level + n]
        rows = pad(rows[..., 1:, :], (1, 0)) - pad(rows[..., :-1, :], (0, 1))
        rows = rows / torch.where(spans > 0, spans, 1.0)[..., None]
    last = torch.arange(n, device=breaks.device) + order
    rows = torch.where((last < n_knots[..., None] + degree + 1)[..., None], rows, 0.0)
    if kind == Functions.TAILS:  # B-spline coefficients are running sums of the weights
        rows = rows[..., 1:].flip(-1).cumsum(-1).flip(-1)
    total = rows.abs().sum(dim=-1, keepdim=True)
    return rows * 2.0 ** (rows.shape[-1] - 1) / torch.where(total > 0, total, 1.0)


def difference_penalty(weights: Tensor, rows: Tensor) -> Tensor:
    """Return the sum of squared differences of weights, their mean over the outputs: the definition of the penalty.

    Parameters
    ----------
    weights : Tensor of shape (..., size, n_outputs)
        Weights of each column of an encoded feature.
    rows : Tensor of shape (..., n_differences, width)
        Result of `differences`; those beyond its columns are zero.
    """
    width = rows.shape[-1]
    n = max(min(rows.shape[-2], weights.shape[-2] - width + 1), 0)
    rows = rows[..., :n, :].to(weights.dtype)
    terms = [rows[..., k, None] * weights[..., k : k + n, :] for k in range(width)]
    return torch.stack(terms).sum(dim=0).square().sum(dim=-2).mean(dim=-1)


def bands_of(encoding: StackEncoding, strengths: Tensor, order: int) -> Tensor:
    """Return the matrices of the penalties of a stack by their diagonals, of shape (n_members, n_features, size, n).

    Entry (i, order + s) of a feature is that of row i and column i + s of the strength times D'D, where D are its
    `differences`, of the knots as they are now. Features without such functions have zeros.

    Parameters
    ----------
    encoding : StackEncoding
        The encoding of the stack.
    strengths : Tensor of shape (n_members, n_features)
        Strengths of the penalties.
    order : int
        Order of the differences.
    """
    breaks = encoding.breaks if encoding.logits is None else encoding.spacings()[0].detach()
    size = encoding.layout.size
    bands = breaks.new_zeros(*breaks.shape[:2], size, 2 * order + 1, dtype=torch.float64)
    for part in encoding.layout.parts:
        if part.kind in PENALISED:
            knots = part.of(breaks), part.of(encoding.n_knots)
            rows = differences(*knots, kind=part.kind, degree=part.degree, order=order)
            part.write(bands, _bands(rows, size, order))
    return (bands * strengths[..., None, None]).float()


def _bands(rows: Tensor, size: int, order: int) -> Tensor:
    """Return the diagonals of D'D, given the rows of D."""
    width = rows.shape[-1]
    n = max(min(rows.shape[-2], size - width + 1), 0)
    rows = rows[..., :n, :]
    bands = rows.new_zeros(*rows.shape[:-2], size, 2 * order + 1)
    for first in range(width):
        for second in range(width):
            bands[..., first : first + n, order + second - first] += rows[..., first] * rows[..., second]
    return bands


def penalty_gradient(weights: Tensor, bands: Tensor) -> Tensor:
    """Return the gradient of the penalties of a stack in its weights, which are of shape (..., size, n_outputs)."""
    n_diagonals, size = bands.shape[-1], weights.shape[-2]
    around = pad(weights, (0, 0, n_diagonals // 2, n_diagonals // 2)).float()
    bands = bands * (2.0 / weights.shape[-1])
    gradient = bands[..., 0, None] * around[..., :size, :]
    for place in range(1, n_diagonals):
        gradient.addcmul_(bands[..., place, None], around[..., place : place + size, :])
    return gradient.to(weights.dtype)
