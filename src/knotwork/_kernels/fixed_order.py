"""Products and sums whose rounding does not depend on how many members are computed together.

Libraries of linear algebra choose the order of a sum by the shape of the whole stack: the same member, in a stack of
another size, then rounds differently. Within `fixed_order` the operations here use one order for each member, by
kernels whose tiles depend on the shape of a member only. That is so on a GPU; on the CPU nothing changes, because the
engine computes each member by itself there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.nn import functional

from knotwork._kernels.dispatch import HAS_TRITON, Operation

_IN_FIXED_ORDER: ContextVar[bool] = ContextVar("fixed_order", default=False)


@contextmanager
def fixed_order(enabled: bool = True) -> Iterator[None]:
    """Fix the order of sums of all operations that begin here; their gradients keep it."""
    token = _IN_FIXED_ORDER.set(enabled)
    try:
        yield
    finally:
        _IN_FIXED_ORDER.reset(token)


def has_fixed_order() -> bool:
    """Return whether the order of sums is fixed; never in compiled code, which the engine does not use."""
    return not torch.compiler.is_compiling() and _IN_FIXED_ORDER.get()


def _product_formula(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias[:, None], x, weight)


def _bias_formula(x: Tensor, bias: Tensor) -> Tensor:
    return x + bias[:, None]


def _look_up_formula(table: Tensor, places: Tensor) -> Tensor:
    n_members, n, _ = table.shape
    offsets = torch.arange(n_members, device=places.device).view(-1, *[1] * (places.dim() - 1)) * n
    return functional.embedding(places + offsets, table.flatten(0, 1))


_PRODUCT = Operation(_product_formula, triton="fixed_order_triton.PRODUCT")
_ADD_BIAS = Operation(_bias_formula, triton="fixed_order_triton.ADD_BIAS")
_LOOK_UP = Operation(_look_up_formula, triton="fixed_order_triton.LOOK_UP")


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight + bias`` of every member.

    Parameters
    ----------
    x : Tensor of shape (M, B, d_in)
        Rows of M members.
    weight : Tensor of shape (M, d_in, d_out)
        Weights, in the type of x.
    bias : Tensor of shape (M, d_out), optional
        Added to each row, in the type of x.

    Returns
    -------
    Tensor of shape (M, B, d_out)
        In the type of x.

    Notes
    -----
    In a fixed order, sums over inputs, outputs (for the gradient of x) and rows (for that of the weight) run from the
    first to the last, a block of them at a time, on tensor cores: bfloat16, or float32 in tf32 where torch may use it.
    """
    return _PRODUCT(x, weight, bias) if has_fixed_order() else _product_formula(x, weight, bias)


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return x, of shape (M, B, d), with a bias of shape (M, d) added to each row."""
    return _ADD_BIAS(x, bias) if has_fixed_order() else _bias_formula(x, bias)


def look_up(table: Tensor, places: Tensor) -> Tensor:
    """Return rows of the table of each member.

    Parameters
    ----------
    table : Tensor of shape (n_members, n, d)
        A table for each member.
    places : Tensor of shape (n_members, ...)
        Indices of rows, int64.

    Returns
    -------
    Tensor of shape (n_members, ..., d)
        The rows.
    """
    return _LOOK_UP(table, places) if has_fixed_order() else _look_up_formula(table, places)


def row_sums(x: Tensor) -> Tensor:
    """Return the sums over the last axis, without a gradient; zeros at its end change nothing in a fixed order."""
    if not has_fixed_order() or not _on_gpu(x):
        return x.detach().sum(dim=-1)
    from knotwork._kernels import fixed_order_triton  # noqa: PLC0415 - needs Triton

    return fixed_order_triton.row_sums(x.detach())


def _on_gpu(x: Tensor) -> bool:
    return x.device.type == "cuda" and HAS_TRITON
