"""Weights of rows and of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, listed, type_error
from knotwork.encoders._tables import check_weights

__all__ = ["class_weights", "row_weights"]


def row_weights(sample_weight: Any, n_rows: int) -> npt.NDArray[np.float64] | None:
    """Return weights of rows that are at most 1, or None if there are none or all are alike."""
    weights = check_weights(sample_weight, n_rows)
    if weights is None or (weights == weights[0]).all():
        return None
    scaled: npt.NDArray[np.float64] = weights / weights.max()
    return scaled


def class_weights(
    class_weight: Any, classes: npt.NDArray[Any], codes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the weight of each class.

    Parameters
    ----------
    class_weight : "balanced" or mapping
        ``"balanced"`` weighs classes by one over their frequency; a mapping gives weights to labels, 1 to those that it
        does not name.
    classes : ndarray of shape (n_classes,)
        The labels.
    codes : ndarray of shape (n,)
        Class code of each row.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(codes, minlength=len(classes))
        out: npt.NDArray[np.float64] = len(codes) / (len(classes) * np.maximum(counts, 1))
        return out
    if not isinstance(class_weight, Mapping):
        raise type_error("class_weight", "be 'balanced' or a mapping from labels to weights", class_weight)
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise argument_error("class_weight", f"name classes of y: {listed(labels)}", listed(unknown))
    try:
        weights = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    except (TypeError, ValueError) as error:
        raise type_error("class_weight", "be 'balanced' or a mapping from labels to numbers", class_weight) from error
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise argument_error("class_weight", "be finite and non-negative, and not all zero", class_weight)
    return weights
