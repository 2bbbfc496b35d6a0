"""Where knots go: uniformly, at quantiles, or at the splits of trees."""

from typing import Protocol

from knotwork.basis._base import FloatArray
from knotwork.knots._column import Column
from knotwork.knots._selection import complete
from knotwork.knots._sketch import QuantileSketch
from knotwork.knots._target import TASKS, Target
from knotwork.knots._trees import CartPlacement, LightGBMPlacement
from knotwork.knots._unsupervised import QuantilePlacement, UniformPlacement

__all__ = [
    "PLACEMENTS",
    "TASKS",
    "CartPlacement",
    "Column",
    "LightGBMPlacement",
    "Placement",
    "QuantilePlacement",
    "QuantileSketch",
    "Target",
    "UniformPlacement",
    "complete",
]


class Placement(Protocol):
    """A rule that turns a column into knots.

    Any object with this call and a flag `supervised`, which says whether it needs the target, can be given to an
    encoder in place of a name. It must return exactly `n_knots` knots, strictly increasing and strictly inside
    ``column.domain``; `complete` fills up what a rule leaves open.
    """

    @property
    def supervised(self) -> bool:
        """Whether the placement needs the target."""

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots for a column."""


PLACEMENTS: dict[str, Placement] = {
    "uniform": UniformPlacement(),
    "quantile": QuantilePlacement(),
    "cart": CartPlacement(),
    "lgbm": LightGBMPlacement(),
}
"""The placements by name; an entry that is added can be named in both encoders."""
