"""Weights of rows, as `fit` takes them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, type_error

__all__ = ["check_weights"]


def check_weights(sample_weight: Any, n_rows: int) -> npt.NDArray[np.float64] | None:
    """Return weights of rows as numbers that are not negative and not all zero, or None if there are none."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type_error("sample_weight", "be numbers", sample_weight) from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise argument_error(
            "sample_weight", f"be one-dimensional, with as many values as X has rows, {n_rows}", weights.shape
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise argument_error("sample_weight", "be finite and non-negative, and not all zero", weights)
    return weights
