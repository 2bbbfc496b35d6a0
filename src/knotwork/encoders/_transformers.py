"""The encoders: splines, piecewise-linear encoding, cosines and sines, and scaling."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error, warn_user
from knotwork.basis import (
    EXTRAPOLATIONS,
    FAMILIES,
    Family,
    FittedAffine,
    FittedBasis,
    FittedColumn,
    FittedPeriodic,
    FloatArray,
    PiecewiseLinear,
    check_domain,
)
from knotwork.encoders._base import Encoder
from knotwork.knots import Column, Placement, Target, cart_thresholds, complete, resolve_placement, separated

SCALINGS = {
    "standard": "mean 0 and standard deviation 1",
    "minmax": "the training range becomes [0, 1]",
    "robust": "median 0 and interquartile range 1, then clipped smoothly",
}

PARTS_OF_PERIODS = (7, 12, 24, 28, 29, 30, 31, 52, 53, 60, 360, 365, 366)
"""Distinct values of columns that count weekdays, months, hours, days, weeks, minutes and degrees."""

WAVE_FAMILIES = {"periodic": "cosines and sines", "cosine": "cosines with phases"}


@dataclass(frozen=True)
class AdaptiveBins:
    """Limits of the bins that a tree chooses for PLE-Adaptive, which are those of the paper.

    Parameters
    ----------
    fewest, most : int
        Smallest and largest number of bins.
    leaf : int
        Smallest number of rows of a bin.
    """

    fewest: int = 5
    most: int = 50
    leaf: int = 25


ADAPTIVE_BINS = AdaptiveBins()


def check_period(period: Any) -> tuple[float, float]:
    """Return the two ends of a period; a number is the period from 0 on."""
    if isinstance(period, Real) and not isinstance(period, bool):
        if not 0.0 < float(period) < np.inf:
            raise argument_error("period", "be larger than 0, or the two ends of a period", period)
        return 0.0, float(period)
    try:
        return check_domain(period)
    except ValueError as error:
        requirement = "be a number larger than 0, or the two ends of a period, the first smaller than the second"
        raise argument_error("period", requirement, period) from error


@final
@dataclass(eq=False, repr=False)
class SplineEncoder(Encoder):
    """Encode each numerical column by the values of `size` spline functions on knots fitted to that column.

    Both ends of the training range belong to the basis. Constant columns and columns with few distinct values are
    encoded like any other. A missing value is encoded by zeros. The fitted state is knots and domains only.

    Parameters
    ----------
    family : {"bspline", "ispline", "mspline", "cyclic"}, default="bspline"
        B-splines are local bumps that sum to one, M-splines bumps of unit area (on the range scaled to [0, 1]),
        I-splines monotone steps from 0 to 1, cyclic splines B-splines that begin again at the end of a period. Or any
        other name of `knotwork.basis.FAMILIES` except ``"ple"``.
    size : int, default=15
        Number m of columns per feature. B-, M- and I-splines have m - degree - 1 interior knots, cyclic ones m - 1, and
        m intervals.
    placement : {"uniform", "quantile", "cart", "lgbm"} or Placement, default="quantile"
        Placement of the knots; ``"cart"`` and ``"lgbm"`` need the target.
    degree : int, default=3
        Degree of the polynomials, at least 0; ignored by a family without a degree.
    extrapolation : {"clip", "linear", "continue", "periodic", "error"}, default="clip"
        Treatment of values outside the training range: move them to its end, continue in a straight line or by the
        polynomial of the last interval, repeat the functions, or raise. ``"periodic"`` makes B-splines cyclic; for
        cyclic splines all treatments except ``"error"`` are the same.
    period : float or tuple of float, optional
        Period of cyclic splines, such as 24 for hours: from 0 to this number, or from the first to the second of two.
        By default the training range, whose two ends are then the same point of the cycle.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        Treatment of missing values: zeros, zeros and one more column that marks them with 1, or raise.
    task : {"regression", "classification"}, optional
        Task of the target. By default labels and integers with up to 20 distinct values are classes.
    sparse_output : bool, default=False
        Return a CSR array; no dense array is made. Useful for B- and M-splines, most of whose values are zeros.
    dtype : {float32, float64}, default=float32
        Type of the output. Arithmetic is always in float64.
    n_jobs : int, optional
        Threads for `fit` and `transform`; by default all cores.
    random_state : int, RandomState or None, default=None
        Random seed of the sketch of quantiles and of the sample of rows when fitting parts of a table, and of the
        sample that LightGBM takes of more than 200,000 rows. None means the fixed seed 0.

    Attributes
    ----------
    knots_ : list of ndarray
        Interior knots of each column, in the units of the column.
    domain_ : ndarray of shape (n_features, 2)
        The two ends of the training range of each column.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The columns are the functions of `knotwork.basis` on the range scaled to [0, 1]; only M-splines depend on the scale.

    Deviation: the height of an M-spline whose support is narrower than a millionth of the range is that of one as wide,
    so that a column with an outlier of 1e300 does not overflow.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 10.0, 5)[:, None]
    >>> SplineEncoder(size=4, degree=1, placement="uniform").fit_transform(X).round(2)
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.25, 0.75, 0.  , 0.  ],
           [0.  , 0.5 , 0.5 , 0.  ],
           [0.  , 0.  , 0.75, 0.25],
           [0.  , 0.  , 0.  , 1.  ]], dtype=float32)
    >>> hours = np.array([[0.0], [23.0]])  # one hour apart
    >>> SplineEncoder("cyclic", 4, degree=1, placement="uniform", period=24).fit_transform(hours).round(2)
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.83, 0.  , 0.  , 0.17]], dtype=float32)
    """

    family: str = "bspline"
    size: int = 15
    _: KW_ONLY
    placement: str | Placement = "quantile"
    degree: int = 3
    extrapolation: str = "clip"
    period: float | tuple[float, float] | None = None
    missing: str = "zeros"
    task: str | None = None
    sparse_output: bool = False
    dtype: npt.DTypeLike = np.float32
    n_jobs: int | None = None
    random_state: Any = None

    _extrapolations = tuple(EXTRAPOLATIONS)

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        family = self._family()
        degree = check_int(self.degree, "degree", minimum=0)
        smallest = family.smallest_size(degree)
        name = f"{family.label} of degree {degree}" if family.has_degree else family.label
        check_int(self.size, "size", smallest, hint=f"{name} have at least {smallest} functions.")
        resolve_placement(self.placement)
        if self.period is not None:
            check_period(self.period)
            if not family.basis.is_cyclic:
                raise argument_error("period", f"be None for {family.label}", self.period, "Choose family='cyclic'.")

    def fit_column(
        self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0
    ) -> FittedColumn:
        """Return the fitted encoding of one column."""
        family = self._family()
        if self.period is not None:
            column = column.in_period(check_period(self.period))
        elif family.basis.is_cyclic:
            _warn_of_period(column)
        n_knots = self.size - family.smallest_size(self.degree)
        knots = resolve_placement(self.placement)(column, n_knots, target, seed)
        return FittedBasis(family.make(knots, degree=self.degree, domain=column.domain), self.size)

    @property
    def _suffix(self) -> str:
        return self._family().suffix

    def _family(self) -> Family:
        available = [name for name, family in FAMILIES.items() if family.with_placements]
        family = FAMILIES[check_choice(self.family, "family", available)]
        if self.extrapolation != "periodic":
            return family
        if family.cyclic is None:
            advice = "Choose family='bspline' or 'cyclic'."
            raise argument_error("extrapolation", f"not be 'periodic' for {family.label}", self.extrapolation, advice)
        return FAMILIES[family.cyclic]


def _warn_of_period(column: Column) -> None:
    """Warn if a column of cyclic splines counts, as hours do from 0 to 23: its two ends would be one point."""
    values = column.distinct
    if len(values) in PARTS_OF_PERIODS and (np.diff(values) == 1.0).all() and values[0] in (0.0, 1.0):
        first, last = (f"{value:g}" for value in values[[0, -1]])
        warn_user(
            f"A column of cyclic splines has the whole numbers from {first} to {last}, and no period: {first} "
            f"and {last} become one point. Pass period={len(values)}, or period=({first}, {values[-1] + 1:g})."
        )


@final
@dataclass(eq=False, repr=False)
class PiecewiseLinearEncoder(Encoder):
    """Encode each numerical column by piecewise-linear encoding (PLE): one ramp from 0 to 1 per bin.

    The edges of the bins are splits of a tree that predicts the target from the column, or knots of any placement.
    Constant columns and columns with few distinct values are encoded like any other. A missing value is encoded by
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
    extrapolation : {"clip", "linear", "continue", "error"}, default="clip"
        Treatment of values outside the training range: move them to its end, continue in a straight line, which is
        also ``"continue"`` here, or raise.
    missing, task, sparse_output, dtype, n_jobs, random_state
        As for `SplineEncoder`.

    Attributes
    ----------
    knots_ : list of ndarray
        Interior edges of the bins of each column, in the units of the column.
    domain_, n_features_in_, feature_names_in_
        As for `SplineEncoder`.

    Notes
    -----
    The tree for the bins is that of Gorishniy et al. (2022), with `size` leaves of at least one row. It differs from
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

    size: int = 15
    _: KW_ONLY
    placement: str | Placement = "cart"
    adaptive: bool = False
    extrapolation: str = "clip"
    missing: str = "zeros"
    task: str | None = None
    sparse_output: bool = False
    dtype: npt.DTypeLike = np.float32
    n_jobs: int | None = None
    random_state: Any = None

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        check_int(self.size, "size", minimum=1)
        resolve_placement(self.placement)
        if check_bool(self.adaptive, "adaptive") and self.placement != "cart":
            raise argument_error("placement", "be 'cart' if adaptive=True", self.placement, "Or pass adaptive=False.")

    def fit_column(
        self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0
    ) -> FittedColumn:
        """Return the fitted encoding of one column."""
        if self.adaptive:
            knots = self._tree_edges(column, target, ADAPTIVE_BINS.most, ADAPTIVE_BINS.leaf)
            knots = complete(knots, column, max(len(knots), ADAPTIVE_BINS.fewest - 1))
        elif self.placement == "cart":
            knots = self._tree_edges(column, target, self.size, 1)
        else:
            knots = resolve_placement(self.placement)(column, self.size - 1, target, seed)
        size = len(knots) + 1 if self.adaptive else self.size
        return FittedBasis(PiecewiseLinear(knots, column.domain), size)

    def _tree_edges(self, column: Column, target: Target | None, n_bins: int, leaf: int) -> FloatArray:
        """Return the splits of a tree with up to `n_bins` leaves, without those that float64 cannot separate."""
        if n_bins < 2:
            return np.empty(0)
        edges, _ = cart_thresholds(column, target, max_leaves=n_bins, min_samples_leaf=leaf)
        return separated(edges, column)

    @property
    def _suffix(self) -> str:
        return FAMILIES["ple"].suffix


@final
@dataclass(eq=False, repr=False)
class PeriodicEncoder(Encoder):
    """Encode each numerical column by cosines and sines of random frequencies (random Fourier features).

    Values are scaled robustly and clipped smoothly first, as by ``ScalarEncoder("robust")``. A missing value is encoded
    by zeros. In front of a network the methods Periodic, PLR and PBLD learn the frequencies.

    Parameters
    ----------
    size : int, default=15
        Number m of columns per feature, at least 2.
    family : {"periodic", "cosine"}, default="periodic"
        Cosines and sines of (m + 1) // 2 frequencies, the last sine left out if m is odd; or cosines of m frequencies
        with random phases.
    sigma : float, default=0.1
        Standard deviation of the frequencies.
    random_state : int, RandomState or None, default=None
        Random seed of frequencies and phases. None means the fixed seed 0.
    missing, sparse_output, dtype, n_jobs
        As for `SplineEncoder`.

    Notes
    -----
    With z the scaled value, the columns are ``cos(2 pi c_k z)`` and ``sin(2 pi c_k z)`` for ``c_k ~ N(0, sigma^2)``
    (Gorishniy et al., 2022), or ``cos(2 pi c_k z + b_k)`` with b_k uniform in (-pi, pi).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0], [2.0], [3.0], [np.nan]])
    >>> PeriodicEncoder(size=4).fit_transform(X).round(2)[[1, 3]]
    array([[1., 1., 0., 0.],
           [0., 0., 0., 0.]], dtype=float32)
    """

    size: int = 15
    _: KW_ONLY
    family: str = "periodic"
    sigma: float = 0.1
    missing: str = "zeros"
    sparse_output: bool = False
    dtype: npt.DTypeLike = np.float32
    n_jobs: int | None = None
    random_state: Any = None

    extrapolation = "clip"
    task = None
    _supervised = False
    _suffix = "wave"

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        check_choice(self.family, "family", WAVE_FAMILIES)
        check_int(self.size, "size", minimum=2)
        if isinstance(self.sigma, bool) or not isinstance(self.sigma, Real):
            raise type_error("sigma", "be a number larger than 0", self.sigma)
        if not 0.0 < float(self.sigma) < np.inf:
            raise argument_error("sigma", "be a number larger than 0", self.sigma)

    def fit_column(
        self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0
    ) -> FittedColumn:
        """Return the fitted encoding of one column."""
        median, spread = column.median_and_spread()
        random = np.random.default_rng(seed)
        with_phases = self.family == "cosine"
        frequencies = float(self.sigma) * random.standard_normal(self.size if with_phases else (self.size + 1) // 2)
        phases = random.uniform(-np.pi, np.pi, self.size) if with_phases else None
        return FittedPeriodic(median, spread or 1.0, self.size, float(self.sigma), frequencies, phases)


@final
@dataclass(eq=False, repr=False)
class ScalarEncoder(Encoder):
    """Scale each numerical column: the methods Std, MinMax and Robust, with the same treatment of difficult inputs.

    A constant column becomes 0 (standard, robust) or 0.5 (min-max). Missing values become 0, with an indicator if
    requested.

    Parameters
    ----------
    scaling : {"standard", "minmax", "robust"}, default="standard"
        To mean 0 and standard deviation 1, from the training range to [0, 1], or as in the Notes.
    extrapolation : {"clip", "linear", "continue", "error"}, default="clip"
        Treatment of values outside the training range by min-max scaling, as in `SplineEncoder`; ignored by the others.
    missing, sparse_output, dtype, n_jobs
        As for `SplineEncoder`.

    Notes
    -----
    Robust scaling with smooth clipping (Holzmueller et al., 2024) is ``z / sqrt(1 + (z / 3)**2)`` of
    ``z = (x - median) / IQR``. Half the range replaces an interquartile range IQR of 0. Results are between -3 and 3.

    Examples
    --------
    >>> import numpy as np
    >>> ScalarEncoder("minmax").fit_transform(np.array([[0.0], [1.0], [4.0]]))
    array([[0.  ],
           [0.25],
           [1.  ]], dtype=float32)
    """

    scaling: str = "standard"
    _: KW_ONLY
    extrapolation: str = "clip"
    missing: str = "zeros"
    sparse_output: bool = False
    dtype: npt.DTypeLike = np.float32
    n_jobs: int | None = None

    task = None
    random_state = None
    _supervised = False

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        check_choice(self.scaling, "scaling", SCALINGS)

    def fit_column(
        self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0
    ) -> FittedColumn:
        """Return the fitted encoding of one column."""
        if self.scaling == "minmax":  # equals piecewise-linear encoding with one bin
            return FittedBasis(PiecewiseLinear(np.empty(0), column.domain), 1)
        smooth = self.scaling == "robust"
        centre, spread = column.median_and_spread() if smooth else column.mean_and_deviation()
        return FittedAffine(centre, spread or 1.0, smooth)
