"""Tokens of a stack in Triton: the CLS token, products and categories into one tensor, and its gradient back."""

import torch
import triton
from torch import Tensor
from triton import language as tl

__all__ = ["divide", "join"]

TILE = 1024
"""Values that a program holds at once."""


@triton.jit(do_not_specialize=["n_products", "n_categories"])
def _move(
    products_pointer,
    categories_pointer,
    bias_pointer,
    cls_pointer,
    tokens_pointer,
    n_rows,
    n_columns,
    n_products,
    n_categories,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    JOIN: tl.constexpr,
):
    """Write one token of some rows, or with JOIN off, write its gradient to where it came from."""
    member, token = tl.program_id(2).to(tl.int64), tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    here = (row < n_rows) & (column < n_columns)
    n_tokens = 1 + n_products + n_categories
    tokens = tokens_pointer + ((member * n_rows + row) * n_tokens + token) * n_columns + column
    place = token - 1
    own = member * (n_products + n_categories) + place
    product = products_pointer + ((member * n_products + place) * n_rows + row) * n_columns + column
    category = place - n_products
    looked_up = categories_pointer + ((member * n_rows + row) * n_categories + category) * n_columns + column
    if JOIN:
        value = tl.zeros((ROWS, COLUMNS), tl.float32)
        if token == 0:
            value += tl.load(cls_pointer + member * n_columns + column, mask=column < n_columns, other=0.0)
        else:
            value += tl.load(bias_pointer + own * n_columns + column, mask=column < n_columns, other=0.0)
            if token <= n_products:
                value += tl.load(product, mask=here, other=0.0)
            else:
                value += tl.load(looked_up, mask=here, other=0.0)
        tl.store(tokens, value.to(tokens_pointer.dtype.element_ty), mask=here)
    elif token > 0:
        value = tl.load(tokens, mask=here, other=0.0)
        if token <= n_products:
            tl.store(product, value, mask=here)
        else:
            tl.store(looked_up, value, mask=here)


def _launch(parts: tuple[Tensor, Tensor, Tensor, Tensor], tokens: Tensor, n_products: int, *, join_them: bool) -> None:
    n_members, n_rows, n_tokens, n_columns = tokens.shape
    columns = triton.next_power_of_2(n_columns)
    rows = max(1, TILE // columns)
    grid = (triton.cdiv(n_rows, rows), n_tokens, n_members)
    n_categories = n_tokens - 1 - n_products
    _move[grid](*parts, tokens, n_rows, n_columns, n_products, n_categories, ROWS=rows, COLUMNS=columns, JOIN=join_them)


def join(products: Tensor, categories: Tensor, bias: Tensor, cls: Tensor) -> Tensor:
    """Return the tokens; parameters as in `join_tokens`, of which those without values are never read."""
    n_members, n_products, n_rows, width = products.shape
    n_tokens = 1 + n_products + categories.shape[2]
    tokens = torch.empty(n_members, n_rows, n_tokens, width, dtype=products.dtype, device=products.device)
    parts = (products.contiguous(), categories.contiguous(), bias.contiguous(), cls.contiguous())
    _launch(parts, tokens, n_products, join_them=True)
    return tokens


def divide(grad: Tensor, n_products: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of products and categories from that of the tokens."""
    grad = grad.contiguous()
    n_members, n_rows, n_tokens, width = grad.shape
    products = torch.empty(n_members, n_products, n_rows, width, dtype=grad.dtype, device=grad.device)
    categories = torch.empty(n_members, n_rows, n_tokens - 1 - n_products, width, dtype=grad.dtype, device=grad.device)
    _launch((products, categories, grad, grad), grad, n_products, join_them=False)
    return products, categories
