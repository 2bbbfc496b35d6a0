"""A method of its own for every column."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, listed, type_error
from knotwork.basis._blocks import Block
from knotwork.encoders._base import Encoder
from knotwork.encoders._methods import Encoding
from knotwork.knots import Column, Target

__all__ = ["PerFeatureEncoder"]


@final
class PerFeatureEncoder(Encoder):
    """Encode every column by the method that a mapping names for it.

    Parameters
    ----------
    methods : mapping
        From column names (or indices, for an array without names) to methods such as ``"BS-Q@15"`` or ``"Std"``.
    default : str, optional
        Method of the columns that the mapping does not name; without it, such a column is an error.
    extrapolation : {"clip", "linear", "error"}, default="clip"
        What happens to values outside the training range.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        What happens to missing values.
    task : {"regression", "classification"}, optional
        What the target is. By default labels and whole numbers with up to 20 distinct values are classes.
    sparse_output : bool, default=False
        Return a CSR array, made without a dense one.
    dtype : {float32, float64}, default=float32
        Type of the output.
    n_jobs : int, optional
        Threads for `fit` and `transform`; by default all cores.
    random_state : int, RandomState or None, default=None
        Seeds what is random, as in `SplineEncoder`. None is the fixed seed 0.

    Attributes
    ----------
    encoders_ : list of encoders
        The encoder of each column.
    knots_ : list of ndarray
        Interior knots of each column, none for those that are scaled.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 50.0], "rooms": [1.0, 2.0, 4.0]})
    >>> encoder = PerFeatureEncoder({"age": "BS-Q@4"}, default="MinMax").fit(X)
    >>> encoder.get_feature_names_out()
    array(['age_bs0', 'age_bs1', 'age_bs2', 'age_bs3', 'rooms'], dtype=object)
    """

    def __init__(
        self,
        methods: Mapping[Any, str],
        *,
        default: str | None = None,
        extrapolation: str = "clip",
        missing: str = "zeros",
        task: str | None = None,
        sparse_output: bool = False,
        dtype: npt.DTypeLike = np.float32,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.methods = methods
        self.default = default
        self.extrapolation = extrapolation
        self.missing = missing
        self.task = task
        self.sparse_output = sparse_output
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _supervised(self) -> bool:
        specs = [*self.methods.values(), *([self.default] if self.default is not None else [])]
        return any(_encoder(spec)._supervised for spec in specs)

    def check_settings(self) -> None:
        """Raise an error where a parameter is not valid, without any data."""
        if not isinstance(self.methods, Mapping):
            raise type_error("methods", "be a mapping from columns to methods", self.methods)
        for spec in [*self.methods.values(), *([self.default] if self.default is not None else [])]:
            _encoder(spec).check_settings()

    def _check_columns(self) -> None:
        columns = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        unknown = [name for name in self.methods if name not in columns]
        if unknown:
            raise argument_error(
                "methods", "name columns of X", listed(unknown), f"The columns of X are {listed(columns, most=30)}."
            )
        without = [name for name in columns if name not in self.methods]
        if without and self.default is None:
            raise argument_error(
                "methods",
                "name every column of X, or a default must be given",
                self.methods,
                f"Without a method: {listed(without)}. Name them, or pass default='Std'.",
            )
        self.encoders_ = [_encoder(self.methods.get(name, self.default)) for name in columns]

    def fit_column(self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0) -> Block:
        """Return the encoding of one column, as `fit` makes it."""
        return self.encoders_[index].fit_column(column, target, seed=seed)

    def _suffixes(self, index: int, block: Block) -> list[str]:
        return self.encoders_[index]._suffixes(index, block)


def _encoder(spec: Any) -> Encoder:
    return Encoding.parse(spec).encoder()
