"""Placement of knots: at equal distances, at quantiles, or at the splits of trees."""

from knotwork.knots._columns import TASKS, Column, Target
from knotwork.knots._placements import (
    PLACEMENTS,
    CartPlacement,
    FixedPlacement,
    LightGBMPlacement,
    Placement,
    QuantilePlacement,
    UniformPlacement,
    complete,
)
from knotwork.knots._sketch import QuantileSketch

__all__ = [
    "PLACEMENTS",
    "TASKS",
    "CartPlacement",
    "Column",
    "FixedPlacement",
    "LightGBMPlacement",
    "Placement",
    "QuantilePlacement",
    "QuantileSketch",
    "Target",
    "UniformPlacement",
    "complete",
]
