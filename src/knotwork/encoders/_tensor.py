"""The encoder of pairs of columns by tensor-product splines."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from knotwork._checks import check_choice, check_int, type_error
from knotwork.basis import FittedColumn, FloatArray, row_product
from knotwork.encoders._base import Encoder
from knotwork.encoders._pairs import place_pairs, rank_pairs, too_few_columns
from knotwork.encoders._transformers import SplineEncoder
from knotwork.knots import Placement, Target

REMAINDERS = {
    "drop": "columns in no pair are left out",
    "splines": "columns in no pair are encoded one by one, in front of the pairs",
}


@final
@dataclass(eq=False, repr=False)
class TensorSplineEncoder(Encoder):
    """Encode pairs of columns by tensor-product splines: all products of a function of one and a function of the other.

    Before a linear model such as Ridge this fits a smooth surface for each pair, the model that mgcv and patsy call
    ``te``. Each column has a small basis as in `SplineEncoder`. A row with a missing value in a pair is
    encoded by zeros.

    Parameters
    ----------
    pairs : sequence of pair, int or "auto", default="auto"
        Pairs of columns, by name or by position; or the number of pairs that `knotwork.find_pairs` finds on the rows
        of `fit`; or ``"auto"``: the pairs that stand out, up to five and at least one. Finding pairs needs the target.
    size : int, default=8
        Number m of functions of each column, at least ``degree + 1``; a pair has m * m columns.
    family : {"bspline", "ispline", "mspline"}, default="bspline"
        The functions, as in `SplineEncoder`.
    placement : {"uniform", "quantile", "cart", "lgbm"} or Placement, default="quantile"
        Placement of the knots of each column; ``"cart"`` and ``"lgbm"`` need the target.
    degree : int, default=3
        Degree of the polynomials, at least 0.
    remainder : {"drop", "splines"}, default="drop"
        Whether columns that are in no pair are left out, or encoded one by one by the same functions, in front of the
        pairs.
    extrapolation : {"clip", "linear", "error"}, default="clip"
        Treatment of values outside the training range, as in `SplineEncoder`.
    missing : {"zeros", "indicator", "error"}, default="zeros"
        Treatment of missing values: zeros; one more function of each column that is 1 where the value is missing and
        is multiplied like the others; or raise.
    sparse_output : bool, default=False
        Return a CSR array; no dense array is made. A pair of cubic B-splines has 16 entries in a row.
    random_state : int, RandomState or None, default=None
        Random seed, as in `SplineEncoder`, and of the part of many rows on which pairs are found. None means the fixed
        seed 0.
    task, dtype, n_jobs
        As for `SplineEncoder`.

    Attributes
    ----------
    pairs_ : list of tuple
        The pairs, by name, or by place in a table without names.
    knots_, domain_, n_features_in_, feature_names_in_
        As for `SplineEncoder`.

    Notes
    -----
    A pair with functions a_i of the first and b_j of the second column is encoded by the products ``a_i b_j``, all j
    of the first i first: the row-wise Kronecker product (`knotwork.basis.row_product`). B-splines of a column sum to
    one, so that sums of products include every function of one of the columns alone. In front of a network the layer
    `knotwork.nn.TensorSplineEncoding` and ``interactions=`` of the estimators need fewer numbers, by a low rank.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"lat": [1.0, 2.0, 3.0], "lon": [5.0, 5.5, 7.0], "rooms": [2.0, 3.0, 4.0]})
    >>> encoder = TensorSplineEncoder(pairs=[("lat", "lon")], size=2, degree=1)
    >>> encoder.set_output(transform="pandas").fit_transform(X)
       lat:lon_bs0_bs0  lat:lon_bs0_bs1  lat:lon_bs1_bs0  lat:lon_bs1_bs1
    0            1.000            0.000            0.000            0.000
    1            0.375            0.125            0.375            0.125
    2            0.000            0.000            0.000            1.000
    """

    pairs: Any = "auto"
    size: int = 8
    _: KW_ONLY
    family: str = "bspline"
    placement: str | Placement = "quantile"
    degree: int = 3
    remainder: str = "drop"
    extrapolation: str = "clip"
    missing: str = "zeros"
    task: str | None = None
    sparse_output: bool = False
    dtype: npt.DTypeLike = np.float32
    n_jobs: int | None = None
    random_state: Any = None

    @property
    def _supervised(self) -> bool:
        return self._finds_pairs or self._of_column(0)._supervised

    @property
    def _finds_pairs(self) -> bool:
        is_number = isinstance(self.pairs, Integral) and not isinstance(self.pairs, bool)
        return is_number or (isinstance(self.pairs, str) and self.pairs == "auto")

    def _of_column(self, index: int) -> SplineEncoder:
        return SplineEncoder(self.family, self.size, placement=self.placement, degree=self.degree)

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        self._of_column(0).check_settings()
        check_choice(self.remainder, "remainder", REMAINDERS)
        if self._finds_pairs and self.pairs != "auto":
            check_int(self.pairs, "pairs", minimum=1)
        elif not self._finds_pairs and (isinstance(self.pairs, str | bool) or not isinstance(self.pairs, Sequence)):
            hint = "Write pairs=[('lat', 'lon')], for example."
            raise type_error("pairs", "be 'auto', a number, or a sequence of pairs of columns", self.pairs, hint)

    def _need_of_target(self) -> tuple[str, str]:
        if self._finds_pairs:
            return f"be given for pairs={self.pairs!r}", "Pass y, or name the pairs as in pairs=[('lat', 'lon')]."
        return super()._need_of_target()

    def _learn_rows(self, values: npt.NDArray[Any], target: Target | None, weights: FloatArray | None) -> None:
        """Find the pairs, unless they are given."""
        if self._finds_pairs:
            assert target is not None
            ranked = rank_pairs(values, target, weights=weights, seed=self._seeds(1)[0])
            self._places = ranked.best(None if self.pairs == "auto" else int(self.pairs)).places.tolist()

    def _check_columns(self) -> None:
        if self.n_features_in_ < 2:
            raise too_few_columns(self.n_features_in_)
        if not self._finds_pairs:
            self._places = place_pairs(self.pairs, self._labels())

    def _forget(self) -> None:
        super()._forget()
        if self._finds_pairs:
            self.__dict__.pop("_places", None)

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Places of the pairs; those of a table in parts are found when they are first used."""
        check_is_fitted(self)
        self.__dict__.pop("fitted_", None)
        self._fit_sketch()
        places: list[tuple[int, int]] = vars(self)["_places"]
        return places

    @property
    def pairs_(self) -> list[tuple[Any, Any]]:
        """The pairs, by name, or by place in a table without names."""
        labels = self._labels()
        return [(labels[first], labels[second]) for first, second in self._places]

    @property
    def _singles(self) -> list[int]:
        """Places of the columns that are encoded one by one."""
        paired = {place for pair in self._places for place in pair}
        return [place for place in range(self.n_features_in_) if place not in paired and self.remainder == "splines"]

    def _encode(self, values: npt.NDArray[Any], encodings: list[FittedColumn]) -> Any:
        places = {*self._singles, *(place for pair in self._places for place in pair)}
        encode = super()._encode
        encoded = {place: encode(values[:, [place]], [encodings[place]]) for place in places}
        parts = [encoded[place] for place in self._singles]
        parts += [row_product(encoded[first], encoded[second]) for first, second in self._places]
        if self.sparse_output:
            return sparse.csr_array(sparse.hstack(parts, format="csr"))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _output_names(self, names: Sequence[str], ends: Sequence[Sequence[str]]) -> list[str]:
        out = [f"{names[place]}{end}" for place in self._singles for end in ends[place]]
        for first, second in self._places:
            pair = f"{names[first]}:{names[second]}"
            out += [f"{pair}{left}{right}" for left in ends[first] for right in ends[second]]
        return out
