"""Standard and min-max scaling."""

from typing import final

import numpy as np
import numpy.typing as npt

from knotwork._checks import check_choice
from knotwork.basis import PiecewiseLinear
from knotwork.basis._blocks import AffineBlock, BasisBlock, Block
from knotwork.encoders._base import Encoder
from knotwork.knots import Column, Target

__all__ = ["SCALINGS", "ScalarEncoder"]

SCALINGS = {"standard": "mean 0 and standard deviation 1", "minmax": "the training range becomes [0, 1]"}


@final
class ScalarEncoder(Encoder):
    """Scale each numerical column: the methods Std and MinMax, with the treatment of hard inputs of the other encoders.

    A constant column becomes 0 (standard) or 0.5 (min-max). Missing values become 0, with an indicator on request.

    Parameters
    ----------
    scaling : {"standard", "minmax"}, default="standard"
        To mean 0 and standard deviation 1, or from the training range to [0, 1].
    extrapolation : {"clip", "linear", "error"}, default="clip"
        Treatment of values outside the training range by min-max scaling, as in `SplineEncoder`; ignored by standard
        scaling.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        Treatment of missing values, as in `SplineEncoder`.
    sparse_output : bool, default=False
        Return a CSR array.
    dtype : {float32, float64}, default=float32
        Type of the output.
    n_jobs : int, optional
        Threads for `fit` and `transform`; by default all cores.

    Examples
    --------
    >>> import numpy as np
    >>> ScalarEncoder("minmax").fit_transform(np.array([[0.0], [1.0], [4.0]]))
    array([[0.  ],
           [0.25],
           [1.  ]], dtype=float32)
    """

    def __init__(
        self,
        scaling: str = "standard",
        *,
        extrapolation: str = "clip",
        missing: str = "zeros",
        sparse_output: bool = False,
        dtype: npt.DTypeLike = np.float32,
        n_jobs: int | None = None,
    ) -> None:
        self.scaling = scaling
        self.extrapolation = extrapolation
        self.missing = missing
        self.sparse_output = sparse_output
        self.dtype = dtype
        self.n_jobs = n_jobs

    task = None
    random_state = None
    _supervised = False

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        check_choice(self.scaling, "scaling", SCALINGS)

    def fit_column(self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0) -> Block:
        """Return the fitted encoding of one column."""
        if self.scaling == "minmax":  # equals piecewise-linear encoding with one bin
            return BasisBlock(PiecewiseLinear(np.empty(0), column.domain), 1)
        mean, deviation = column.mean_and_deviation()
        return AffineBlock(mean, deviation or 1.0, (-np.inf, np.inf))

    def _suffixes(self, index: int, block: Block) -> list[str]:
        return [""]
