"""Sums over the rows of each member in Triton: what programs have added up is added up in a fixed order."""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["add_parts"]


@triton.jit
def _add_parts(
    parts_pointer, out_pointer, n_parts, n_columns, PARTS: tl.constexpr, COLUMNS: tl.constexpr, KINDS: tl.constexpr
):
    member, kind = tl.program_id(1).to(tl.int64), tl.program_id(2)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, PARTS)[:, None]
    at = parts_pointer + ((member * n_parts + part) * KINDS + kind) * n_columns + column[None, :]
    here = (part < n_parts) & (column < n_columns)[None, :]
    total = tl.sum(tl.load(at, mask=here, other=0.0), axis=0)
    tl.store(out_pointer + (kind * tl.num_programs(1) + member) * n_columns + column, total, mask=column < n_columns)


def add_parts(parts: Tensor) -> Tensor:
    """Return the sums over parts of shape (M, parts, kinds, columns), as (kinds, M, columns)."""
    n_members, n_parts, kinds, n_columns = parts.shape
    sums = torch.empty(kinds, n_members, n_columns, dtype=torch.float32, device=parts.device)
    _add_parts[(triton.cdiv(n_columns, 32), n_members, kinds)](
        parts, sums, n_parts, n_columns, PARTS=triton.next_power_of_2(n_parts), COLUMNS=32, KINDS=kinds
    )
    return sums
