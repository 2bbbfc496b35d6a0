"""What backbones check of their arguments, and how they see their inputs."""

import math
from numbers import Real
from typing import Any

from torch import Tensor

from knotwork._checks import argument_error, type_error

__all__ = ["check_dropout", "flat_rows"]


def check_dropout(value: Any, name: str) -> float:
    """Return a probability of dropout, which is smaller than 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise type_error(name, "be a number from 0 to below 1", value)
    share = float(value)
    if not 0.0 <= share < 1.0:
        raise argument_error(name, "be a number from 0 to below 1", value)
    return share


def flat_rows(x: Tensor, n_members: int | None, *, n_last: int = 1) -> Tensor:
    """Return x as (members or 1, rows, ...), where the last `n_last` axes stay as they are."""
    if n_members is not None and (x.dim() < 1 + n_last or x.shape[0] != n_members):
        raise argument_error("x", f"have a leading axis of {n_members} members", tuple(x.shape))
    rows = math.prod(x.shape[: x.dim() - n_last]) // (n_members or 1)
    return x.reshape(n_members or 1, rows, *x.shape[x.dim() - n_last :])
