"""Placements that do not look at the target."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knotwork.basis._base import FloatArray
from knotwork.knots._column import Column
from knotwork.knots._selection import complete
from knotwork.knots._target import Target

__all__ = ["QuantilePlacement", "UniformPlacement"]


@dataclass(frozen=True)
class UniformPlacement:
    """Knots at equal distances over the domain.

    Notes
    -----
    ``k_l = low + l / (K + 1) (high - low)`` for l = 1, ..., K.

    Examples
    --------
    >>> UniformPlacement()(Column.from_values(np.array([0.0, 8.0])), 3)
    array([2., 4., 6.])
    """

    supervised: ClassVar[bool] = False

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots; target and seed are not used."""
        low, high = column.domain
        share = np.arange(1, n_knots + 1) / (n_knots + 1)
        return low * (1.0 - share) + high * share


@dataclass(frozen=True)
class QuantilePlacement:
    """Knots at the quantiles of levels 1 / (K + 1), ..., K / (K + 1), so that each interval holds as many rows.

    Quantiles that coincide, as on a column with many ties, are replaced as `complete` says.

    Examples
    --------
    >>> QuantilePlacement()(Column.from_values(np.arange(101.0)), 3)
    array([25., 50., 75.])
    """

    supervised: ClassVar[bool] = False

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots; target and seed are not used."""
        return complete(np.empty(0), column, n_knots)
