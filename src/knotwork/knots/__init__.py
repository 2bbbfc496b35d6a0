"""Placement of knots: at equal distances, at quantiles, or at the splits of trees."""

from knotwork.knots._columns import (
    TASKS,
    Column,
    Target,
    infer_task,
    to_usual_range,
    usual_range,
    usual_range_of,
    without_outliers,
)
from knotwork.knots._placements import (
    PLACEMENTS,
    CartPlacement,
    FixedPlacement,
    LightGBMPlacement,
    Placement,
    QuantilePlacement,
    TreePlacement,
    UniformPlacement,
    cart_thresholds,
    complete,
    describe,
    placement_traits,
    repeated_rows,
    resolve_placement,
    select_spaced,
    separated,
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
