"""The piecewise-linear encoder."""

from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_bool, check_int
from knotwork.basis import FAMILIES, PiecewiseLinear
from knotwork.basis._base import FloatArray
from knotwork.basis._blocks import BasisBlock, Block
from knotwork.encoders._base import Encoder
from knotwork.knots import Column, Placement, Target, complete
from knotwork.knots._placements import cart_thresholds, resolve_placement, separated

__all__ = ["PiecewiseLinearEncoder"]

FEWEST_BINS, MOST_BINS, ADAPTIVE_LEAF = 5, 50, 25
"""Smallest and largest number of bins of an adaptive encoding, and smallest number of rows of a bin."""


@final
class PiecewiseLinearEncoder(Encoder):
    """Encode each numerical column by piecewise-linear encoding (PLE): one ramp from 0 to 1 per bin.

    The edges of the bins are splits of a tree that predicts the target from the column, or knots of any placement.
    Constant columns and columns with few distinct values are encoded like any other. A missing value gives a block of
    zeros.

    Parameters
    ----------
    size : int, default=15
        Number m of columns per feature. If a tree has fewer leaves, the last columns are zero.
    placement : {"cart", "quantile", "uniform", "lgbm"} or Placement, default="cart"
        Placement of the edges; ``"cart"`` and ``"lgbm"`` need the target. The name ``"cart"`` means the tree of the
        Notes, which differs from ``CartPlacement()``.
    adaptive : bool, default=False
        Let the tree choose the number of bins of each column, between 5 and 50 with at least 25 rows each; `size` is
        then ignored. Only with ``placement="cart"``.
    extrapolation : {"clip", "linear", "error"}, default="clip"
        Treatment of values outside the training range: move them to its end, continue in a straight line, or raise.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        Treatment of missing values: a block of zeros, zeros and one more column that marks them with 1, or raise.
    task : {"regression", "classification"}, optional
        Task of the target. By default labels and integers with up to 20 distinct values are classes.
    sparse_output : bool, default=False
        Return a CSR array; no dense array is made.
    dtype : {float32, float64}, default=float32
        Type of the output. Arithmetic is in float64 either way.
    n_jobs : int, optional
        Threads for `fit` and `transform`; by default all cores.
    random_state : int, RandomState or None, default=None
        Random seed, as in `SplineEncoder`. None means the fixed seed 0.

    Attributes
    ----------
    knots_ : list of ndarray
        Interior edges of the bins of each column, in its own units.
    domain_ : ndarray of shape (n_features, 2)
        The two ends of each column's training range.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The tree for the bins is the one of Gorishniy et al. (2022), with `size` leaves of at least one row. It differs from
    the tree of `CartPlacement`, which has a limited depth and keeps a distance between splits.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0)[:, None]
    >>> PiecewiseLinearEncoder(size=2).fit_transform(X, y=[0.0, 0.0, 0.0, 9.0, 9.0, 9.0]).round(1)
    array([[0. , 0. ],
           [0.4, 0. ],
           [0.8, 0. ],
           [1. , 0.2],
           [1. , 0.6],
           [1. , 1. ]], dtype=float32)
    """

    def __init__(
        self,
        size: int = 15,
        *,
        placement: str | Placement = "cart",
        adaptive: bool = False,
        extrapolation: str = "clip",
        missing: str = "zeros",
        task: str | None = None,
        sparse_output: bool = False,
        dtype: npt.DTypeLike = np.float32,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.size = size
        self.placement = placement
        self.adaptive = adaptive
        self.extrapolation = extrapolation
        self.missing = missing
        self.task = task
        self.sparse_output = sparse_output
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _supervised(self) -> bool:
        return resolve_placement(self.placement).supervised

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        check_int(self.size, "size", minimum=1)
        resolve_placement(self.placement)
        if check_bool(self.adaptive, "adaptive") and self.placement != "cart":
            raise argument_error("placement", "be 'cart' if adaptive=True", self.placement, "Or pass adaptive=False.")

    def fit_column(self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0) -> Block:
        """Return the fitted encoding of one column."""
        if self.adaptive:
            knots = self._tree_edges(column, target, seed, MOST_BINS, ADAPTIVE_LEAF)
            knots = complete(knots, column, max(len(knots), FEWEST_BINS - 1))
        elif self.placement == "cart":
            knots = self._tree_edges(column, target, seed, self.size, 1)
        else:
            knots = resolve_placement(self.placement)(column, self.size - 1, target, seed)
        size = len(knots) + 1 if self.adaptive else self.size
        return BasisBlock(PiecewiseLinear(knots, column.domain), size)

    def _tree_edges(self, column: Column, target: Target | None, seed: int, n_bins: int, leaf: int) -> FloatArray:
        """Return the splits of a tree with up to `n_bins` leaves, without those that float64 cannot separate."""
        if n_bins < 2:
            return np.empty(0)
        edges, _ = cart_thresholds(column, target, seed=seed, max_leaf_nodes=n_bins, min_samples_leaf=leaf)
        return separated(edges, column)

    def _suffixes(self, index: int, block: Block) -> list[str]:
        return [f"_{FAMILIES['ple'].suffix}{place}" for place in range(block.size)]
