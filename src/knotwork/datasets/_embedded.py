"""Real tables that come with scikit-learn, and need neither files nor a network."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from knotwork._checks import check_choice
from knotwork.datasets._checksums import content_sha256
from knotwork.datasets._table import Dataset

__all__ = ["EMBEDDED", "load_embedded"]

EMBEDDED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "sk_diabetes": partial(load_diabetes, scaled=False),
        "sk_breast_cancer": load_breast_cancer,
        "sk_wine": load_wine,
        "sk_iris": load_iris,
    }
)
"""For each key the loader of scikit-learn; all have numerical columns only."""


def load_embedded(key: str) -> Dataset:
    """Load a real table that comes with scikit-learn; classes get their names.

    Parameters
    ----------
    key : str
        One of `EMBEDDED`.

    Examples
    --------
    >>> iris = load_embedded("sk_iris")
    >>> iris.n_rows, iris.task, sorted(set(iris.target_values()))
    (150, 'classification', ['setosa', 'versicolor', 'virginica'])
    """
    data = EMBEDDED[check_choice(key, "key", EMBEDDED)](as_frame=True)
    is_regression = data.target.dtype.kind == "f"
    labels = None if is_regression else np.asarray([str(name) for name in data.target_names], dtype=object)
    frame = data.data.assign(target=data.target if labels is None else labels[data.target])
    return Dataset(
        name=key,
        frame=frame,
        target="target",
        task="regression" if is_regression else "classification",
        numerical=tuple(data.feature_names),
        categorical=(),
        sha256=content_sha256(frame, () if is_regression else ("target",)),
    )
