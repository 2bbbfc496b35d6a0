"""The abstract encoder: reading tables, fitting columns in parallel, and the compiled transform."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from knotwork._checks import argument_error, check_bool, check_choice, listed, shown, suggestion, type_error, warn_user
from knotwork._loops import usable_cores
from knotwork._pictures import (
    ColumnPicture,
    Histogram,
    count_values,
    draw_columns,
    picture_fitted,
    pictures_html,
)
from knotwork._tables import (
    as_frame,
    check_weights,
    column_labels,
    file_batches,
    frame_names,
    header,
    is_batches,
    is_empty,
    is_file,
    read_numbers,
    refuse,
)
from knotwork.basis import (
    EXTRAPOLATIONS,
    UNBOUNDED,
    FittedColumn,
    FloatArray,
    compiled_table,
    decode,
    encode_dense,
    encode_sparse,
    is_invertible,
)
from knotwork.encoders._clusters import Cluster, find_cluster
from knotwork.encoders._sketch import TableSketch
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.knots import TASKS, Column, Placement, Target, describe, resolve_placement

FEWEST_VALUES_FOR_THREADS = 50_000
"""Smaller tables whose knots need no target are fitted in one thread, in less time than it takes to start threads."""

MISSING_EFFECTS = {
    "zeros": "a missing value is encoded by zeros",
    "indicator": "the same, and each encoding has one more column, which is 1 where the value is missing",
    "error": "missing and infinite values raise an error",
}


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: all available cores for None, counted from the end if negative, as in joblib.

    In a worker process of joblib, the available cores are those that joblib assigns to it by ``NUMBA_NUM_THREADS``.
    """
    limit = os.environ.get("NUMBA_NUM_THREADS", "")
    cores = usable_cores(int(limit)) if limit.isdigit() and int(limit) else usable_cores()
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
        raise type_error("n_jobs", "be None or an integer other than 0", n_jobs)
    if n_jobs == 0:
        raise argument_error("n_jobs", "be None or an integer other than 0", n_jobs, "Pass -1 for all cores.")
    return int(n_jobs) if n_jobs > 0 else max(cores + 1 + int(n_jobs), 1)


class Encoder(TransformerMixin, BaseEstimator, ABC):
    """A transformer that encodes each numerical column in several columns, by functions fitted to that column alone.

    Subclasses define their parameters, which include those below, and how a column is fitted.
    """

    placement: str | Placement
    extrapolation: str
    missing: str
    task: str | None
    sparse_output: bool
    dtype: npt.DTypeLike
    n_jobs: int | None
    random_state: Any
    n_features_in_: int
    _sketch: TableSketch | None = None
    _left_out: tuple[str, ...] = ()
    _extrapolations: Sequence[str] = [name for name in EXTRAPOLATIONS if name != "periodic"]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Explain an argument that other libraries have."""
        del args
        if "n_knots" in options:
            hint = (
                f"Write size: a basis has n_knots + degree + 1 columns, bins are n_knots + 1. size={options['n_knots']}"
            )
            raise ArgumentTypeError(
                f"{cls.__name__}() got an unexpected keyword argument 'n_knots'. {hint}, for example."
            )
        made: Self = super().__new__(cls)
        return made

    @property
    def _supervised(self) -> bool:
        """Whether fitting needs the target."""
        return resolve_placement(self.placement).supervised

    @abstractmethod
    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""

    def fit_column(
        self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0
    ) -> FittedColumn:
        """Return the fitted encoding of one column; the encoder itself is not changed.

        Parameters
        ----------
        column : Column
            The column.
        target : Target, optional
            The target, needed by supervised placements.
        seed : int
            Random seed of the column.
        index : int
            Index of the column in the table, used if columns have different encoders.
        """
        return self._of_column(index).fit_column(column, target, seed=seed)

    def _of_column(self, index: int) -> "Encoder":
        """Return the encoder of a column: this one, unless it is composed of others."""
        return self

    @property
    def _suffix(self) -> str:
        """Name of the functions in output names, such as ``"bs"``; empty for a scaling."""
        return ""

    def _check_columns(self) -> None:
        """Check parameters that name columns, once the columns of the table are known."""

    def _learn_rows(self, values: npt.NDArray[Any], target: Target | None, weights: FloatArray | None) -> None:
        """Fit whatever depends on several columns: on all rows, or on a sample of the rows of a table in parts."""

    @cached_property
    def fitted_(self) -> list[FittedColumn]:
        """The fitted encoding of each column; after `partial_fit` and `merge` it is computed where it is first used."""
        check_is_fitted(self)
        self._fit_sketch()
        fitted: list[FittedColumn] = vars(self)["fitted_"]
        return fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._sketch is not None or "fitted_" in vars(self)

    @property
    def knots_(self) -> list[FloatArray]:
        """Interior knots of each column, in the units of the column; empty for a scaling."""
        check_is_fitted(self)
        return [encoding.knots for encoding in self.fitted_]

    @property
    def domain_(self) -> FloatArray:
        """Ends of the range of each column, of shape (n_features, 2); infinite for standard scaling."""
        check_is_fitted(self)
        return np.array([encoding.domain for encoding in self.fitted_])

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit every column.

        Missing values are ignored. A constant column, one with two values, and one without any value are fitted like
        any other. Infinite values raise an error that names the column.

        Parameters
        ----------
        X : table of shape (n, d), or file, iterator of such tables, Ray Data set, or Dask data frame
            Numbers as a NumPy array, or as a pandas, polars or pyarrow table. A ``pyarrow.parquet.ParquetFile``, a
            pyarrow data set and an iterator of batches are read in bounded memory, and a table on a cluster is read
            where its partitions are; see `partial_fit`.
        y : array-like of shape (n,) or str, optional
            The target, needed by supervised placements; or the name of its column in X, which is then not encoded.
            For batches and tables on a cluster it must be such a name.
        sample_weight : array-like of shape (n,) or str, optional
            Weights of the rows, or the name of their column; a row of weight zero is ignored, and weight two is the
            same as two equal rows.

        Returns
        -------
        self
            The fitted encoder.
        """
        self._check_all()
        self._forget()
        self._left_out = ()
        cluster = find_cluster(X)
        if cluster is not None or is_file(X) or is_batches(X):
            return self._fit_parts(X, y, sample_weight)
        values, y, weights = self._read_rows(X, y, sample_weight, reset=True)
        target = self._target(y, len(values))
        seeds = self._seeds(values.shape[1])

        def fit_one(index: int) -> tuple[FittedColumn, Histogram]:
            column = Column.from_values(values[:, index], weights, with_rows=self._supervised)
            encoding = self.fit_column(column, target, seed=seeds[index], index=index)
            return encoding, count_values(column.distinct, column.weights)

        self._set_fitted(fit_one, n_values=values.size)
        self._learn_rows(values, target, weights)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit a part of a table, after the parts before it; `merge` joins encoders of several parts.

        Range, mean and standard deviation of a column are exact. Quantiles are those of all rows for up to 65,536
        numbers, and for any number of them with up to 8,192 distinct values; beyond that the error of their ranks is
        at most 0.03 % of 10 million rows (`knotwork.knots.QuantileSketch`). Supervised placements and pairs of columns
        are fitted on a uniform random sample of 100,000 rows, or on all rows of a smaller table.

        Parameters
        ----------
        X : table of shape (n, d)
            The part. The first one decides the columns; a part without rows, or with weights of zero only, is ignored.
        y : array-like of shape (n,) or str, optional
            The target of the part, as in `fit`.
        sample_weight : array-like of shape (n,) or str, optional
            Weights of its rows, as in `fit`.

        Returns
        -------
        self
            The encoder, ready for use: knots are placed when they are first needed. After `fit`, which keeps knots
            only, it starts from scratch with a warning.
        """
        self._check_all()
        self._check_part(X)
        if self._sketch is None and "fitted_" in vars(self):
            message = "partial_fit starts from scratch, because fit keeps only knots, to which no rows can be added."
            warn_user(f"{message} Call partial_fit instead of fit.")
            self._forget()
            self._left_out = ()
        if is_empty(X):  # readers of filtered files return such batches
            return self
        values, y, weights = self._read_rows(X, y, sample_weight, reset=self._sketch is None, is_part=True)
        self._target(y, len(values))
        if weights is not None and not weights.any():
            return self
        sketch = self._sketch or TableSketch(self._seeds(values.shape[1]), with_rows=self._supervised)
        sketch.update(values, np.asarray(y) if self._supervised else None, weights)
        self._forget()
        self._sketch = sketch
        return self

    def _check_part(self, X: Any) -> None:
        """Raise an error if X is not one part of a table, or does not fit the previous parts."""
        if find_cluster(X) is not None or is_batches(X) or is_file(X):
            raise type_error("X", "be one part of a table", type(X).__name__, "Call fit: it reads all parts.")
        if self._sketch is not None and self._supervised != (self._sketch.sample is not None):
            hint = "Clone the encoder, and fit all parts again."
            raise argument_error("placement", "need the target in all parts or in none", self, hint)

    def merge(self, other: "Encoder") -> Self:
        """Add the rows that another encoder has seen by `partial_fit`.

        Merging is associative and commutative within the error that `partial_fit` states. An encoder that has seen no
        rows adds nothing.

        Parameters
        ----------
        other : encoder
            An encoder with the same parameters, of the same columns; it is not changed.

        Returns
        -------
        self
            The encoder.

        Examples
        --------
        >>> from knotwork import SplineEncoder
        >>> first = SplineEncoder(size=5).partial_fit([[0.0], [1.0]])
        >>> second = SplineEncoder(size=5).partial_fit([[2.0], [8.0]])
        >>> first.merge(second).knots_
        [array([1.5])]
        """
        self._check_mergeable(other)
        if other._sketch is None:
            return self
        if self._sketch is None:
            self.__dict__.pop("feature_names_in_", None)  # of a part that could not be fitted
            self.__dict__.update({name: value for name, value in vars(other).items() if name.endswith("_in_")})
            self._check_columns()
            sketch = deepcopy(other._sketch)
        else:
            sketch = self._sketch
            sketch.merge(other._sketch)
        self._forget()
        self._sketch = sketch
        self._leave_out(other._left_out)
        return self

    def _check_mergeable(self, other: Any) -> None:
        if type(other) is not type(self):
            raise type_error("other", f"be a {type(self).__name__}", type(other).__name__)
        for encoder in (self, other):
            if encoder._sketch is None and "fitted_" in vars(encoder):
                raise NotFittedError(
                    "merge needs encoders that were fitted by partial_fit: fit keeps only knots, to which no rows can "
                    "be added. Call partial_fit instead of fit."
                )
        theirs = other.get_params(deep=False)
        for name, value in self.get_params(deep=False).items():
            if name not in ("n_jobs", "random_state") and _identity(value) != _identity(theirs[name]):
                hint = f"It is {shown(value)} in the encoder that it is merged with. Use the same parameters."
                raise argument_error(name, "be the same in encoders that are merged", theirs[name], hint)
        if self._sketch is not None and other._sketch is not None:
            columns = self._labels(), other._labels()
            if columns[0] != columns[1]:
                raise ArgumentError(
                    f"other must be fitted on the same columns, {listed(columns[0])}, in this order, got "
                    f"{listed(columns[1])}. Give all parts the same columns."
                )

    def _forget(self) -> None:
        """Remove what was fitted."""
        for name in ("fitted_", "_histograms", "_sketch"):
            self.__dict__.pop(name, None)

    def _fit_sketch(self) -> None:
        """Place knots from the sketch of a table in parts."""
        sketch = self._sketch
        assert sketch is not None
        values = target = weights = None
        if sketch.sample is not None:
            values, y, weights = sketch.sample.rows()
            target = self._target(y, len(values))

        def fit_one(index: int) -> tuple[FittedColumn, Histogram]:
            whole = column = sketch.columns[index].column()
            if values is not None and self._of_column(index)._supervised:
                limits = sketch.columns[index].range if len(whole.distinct) else None
                column = replace(Column.from_values(values[:, index], weights), limits=limits)
            encoding = self.fit_column(column, target, seed=sketch.seeds[index], index=index)
            return encoding, count_values(whole.distinct, whole.weights)

        self._set_fitted(fit_one)
        if values is not None:
            self._learn_rows(values, target, weights)

    def _fit_parts(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit batches, or the partitions of a table on a cluster."""
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not isinstance(value, str) and find_cluster(value) is None:
                hint = f"Write {name}='price', for example; or call partial_fit for each part."
                raise argument_error(name, "be the name of a column of a table in parts", value, hint)
        if y is None:
            self._target(None, 0)  # raises if a placement needs it
        cluster = find_cluster(X)
        if cluster is not None:
            self.merge(cluster.fit(clone(self), X, y, sample_weight))
        else:
            for batch in file_batches(X) if is_file(X) else X:
                self.partial_fit(batch, y, sample_weight)
        if self._sketch is None:
            hint = "Check that the iterator is not exhausted, the table not empty, and some weight larger than zero."
            raise argument_error("X", "yield at least one batch with rows", type(X).__name__, hint)
        self._fit_sketch()
        self._sketch = None  # knots and domains are all that a fitted encoder needs
        return self

    def _set_fitted(
        self, fit_one: Callable[[int], tuple[FittedColumn, Histogram]], *, n_values: int | None = None
    ) -> None:
        """Fit all columns by a function of their positions; in threads, unless there are few values to fit."""
        places = range(self.n_features_in_)
        if n_values is not None and n_values < FEWEST_VALUES_FOR_THREADS and not self._supervised:
            fitted = [fit_one(index) for index in places]
        else:
            fitted = Parallel(n_jobs=count_threads(self.n_jobs), prefer="threads")(map(delayed(fit_one), places))
        encodings, histograms = zip(*fitted, strict=True)
        self.fitted_, self._histograms = list(encodings), list(histograms)

    def transform(self, X: Any) -> Any:
        """Encode a table.

        Parameters
        ----------
        X : table of shape (n, d), or Ray Data set, or Dask data frame
            Numbers, with the columns that the encoder was fitted on.

        Returns
        -------
        ndarray or csr_array of shape (n, sum of encoding sizes)
            The encoded columns, one after the other, then the encoded pairs; a data frame after
            ``set_output(transform="pandas")`` or ``"polars"``. A table on a cluster becomes one of the same kind,
            encoded where its partitions are, with the target and weights that `fit` was given by name.
        """
        cluster = find_cluster(X)
        if cluster is not None:
            return self._transform_on_cluster(cluster, X)
        check_is_fitted(self)
        self._check_all()
        values = self._read(self._without_left_out(X), reset=False)
        self._refuse_outside(values)
        return self._encode(values, self.fitted_)

    def _encode(self, values: npt.NDArray[Any], encodings: list[FittedColumn]) -> Any:
        """Encode each column of numbers, and join the results."""
        indicator = self.missing == "indicator"
        table = compiled_table(tuple(encodings), extrapolation=self.extrapolation, indicator=indicator)
        encode = encode_sparse if self.sparse_output else encode_dense
        return encode(values, table, dtype=np.dtype(self.dtype), n_threads=count_threads(self.n_jobs))

    def _check_inverse(self) -> bool:
        """Raise an error if several values of a column have one encoding."""
        for fitted, label in zip(self.fitted_, column_labels(self), strict=True) if hasattr(self, "fitted_") else ():
            if not is_invertible(fitted):
                hint = "Several values have one encoding: use I-splines, piecewise-linear encoding or scaling."
                raise argument_error("encoder", f"have rising functions of {label}", self, hint)
        return True

    @available_if(_check_inverse)  # type: ignore[untyped-decorator] # scikit-learn has no types
    def inverse_transform(self, X: Any) -> FloatArray:
        """Return the values that were encoded, for I-splines, piecewise-linear encoding and scaling.

        Encoders of other functions do not have this method.

        Values outside of the training range were moved to its ends, and come back as these, and with
        ``missing="zeros"`` missing values as the smallest; ``missing="indicator"`` returns them as NaN. Encodings in
        float32 have seven digits.

        Parameters
        ----------
        X : array or sparse array of shape (n, sum of encoding sizes)
            What `transform` returned.

        Returns
        -------
        ndarray of shape (n, d)
            The values, in the units of the table.
        """
        check_is_fitted(self)
        encoded = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        width = len(self.get_feature_names_out())
        if encoded.ndim != 2 or encoded.shape[1] != width:
            raise argument_error("X", f"have the shape (n, {width}), as transform returns it", encoded.shape)
        extra, start, columns = int(self.missing == "indicator"), 0, []
        for fitted in self.fitted_:
            values = decode(fitted, encoded[:, start : start + fitted.size])
            start += fitted.size + extra
            columns.append(np.where(encoded[:, start - 1] > 0.5, np.nan, values) if extra else values)
        return np.stack(columns, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the output columns, such as ``age_bs0``, and of a pair ``lat:lon_bs0_bs3``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns; by default those seen in `fit`, or ``x0``, ``x1``, ...
        """
        check_is_fitted(self)
        # scikit-learn's mixins for feature names do not support several columns per feature.
        names = _check_feature_names_in(self, input_features)
        missing = ["_missing"] if self.missing == "indicator" else []
        ends = []
        for place, encoding in enumerate(self.fitted_):
            suffix = self._of_column(place)._suffix
            ends.append([f"_{suffix}{i}" if suffix else "" for i in range(encoding.size)] + missing)
        return np.array(self._output_names(names, ends), dtype=object)

    def _output_names(self, names: Sequence[str], ends: Sequence[Sequence[str]]) -> list[str]:
        """Return the names of the output columns, given those of the columns and the ends for each of them."""
        return [f"{name}{end}" for name, endings in zip(names, ends, strict=True) for end in endings]

    def plot(self, columns: Sequence[Any] | None = None) -> Any:
        """Draw the functions, the knots and the training values of columns.

        Parameters
        ----------
        columns : sequence, optional
            Names of columns, or indices if the table has no names; by default all.

        Returns
        -------
        matplotlib.figure.Figure
            One panel for each column.
        """
        check_is_fitted(self)
        labels = self._labels()
        names = labels if columns is None else list(columns)
        unknown = [name for name in names if name not in labels]
        if unknown or not names:
            hint = suggestion(unknown[0], labels) if unknown else ""
            raise argument_error("columns", f"name columns of the table, {listed(labels)}", names, hint)
        pictures = self._pictures()
        return draw_columns([pictures[labels.index(name)] for name in names])

    def _labels(self) -> list[Any]:
        """Return the names of the columns, or their places in a table without names."""
        return list(vars(self).get("feature_names_in_", range(self.n_features_in_)))

    def _pictures(self) -> list[ColumnPicture]:
        names = map(str, _check_feature_names_in(self, None))
        return [picture_fitted(*parts) for parts in zip(names, self.fitted_, self._histograms, strict=True)]

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()
        is_fitted = self._sketch is not None or "_histograms" in vars(self)
        return html + pictures_html(self._pictures()) if is_fitted else html

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = self._supervised
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _check_all(self) -> None:
        check_choice(self.extrapolation, "extrapolation", self._extrapolations)
        check_choice(self.missing, "missing", MISSING_EFFECTS)
        if self.task is not None:
            check_choice(self.task, "task", TASKS)
        check_bool(self.sparse_output, "sparse_output")
        try:
            valid = np.dtype(self.dtype) in (np.dtype(np.float32), np.dtype(np.float64))
        except TypeError:
            valid = False
        if not valid:
            raise argument_error("dtype", "be float32 or float64", self.dtype)
        count_threads(self.n_jobs)
        self.check_settings()

    def _read(self, X: Any, *, reset: bool) -> npt.NDArray[Any]:
        """Return the numbers of a table; its columns must be those of `fit`, or are stored if `reset`."""
        values = read_numbers(X)
        self._check_names(X, reset=reset)
        if reset:
            self._check_columns()
        return values

    def _check_names(self, X: Any, *, reset: bool = False) -> None:
        """Raise an error if the columns of a table are not those of `fit`, or store them if `reset`."""
        validate_data(self, header(X), reset=reset, skip_check_array=True)

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, is_part: bool = False
    ) -> tuple[npt.NDArray[Any], Any, FloatArray | None]:
        """Return the numbers, the target and the weights of rows that are fitted."""
        named = {name: value for name, value in (("y", y), ("sample_weight", sample_weight)) if isinstance(value, str)}
        if named:
            X, columns = _split_named(X, named)
            y, sample_weight = columns.get("y", y), columns.get("sample_weight", sample_weight)
        values = self._read(X, reset=reset)
        self._refuse_unusable(values)
        weights = check_weights(sample_weight, len(values), is_part=is_part)
        self._leave_out(named.values())
        return values, y, weights

    def _leave_out(self, names: Iterable[str]) -> None:
        """Add columns to those that are not encoded."""
        self._left_out = tuple(dict.fromkeys([*self._left_out, *names]))

    def _without_left_out(self, X: Any) -> Any:
        """Return a table without the target and the weights that were named in `fit`."""
        frame = as_frame(X) if self._left_out else None
        return X if frame is None else frame.drop(self._left_out, strict=False).to_native()

    def _transform_on_cluster(self, cluster: Cluster, X: Any) -> Any:
        """Encode a table on a cluster."""
        check_is_fitted(self)
        self._check_all()
        if self.sparse_output:
            hint = "Its partitions are tables with column names. Set sparse_output=False."
            raise argument_error("sparse_output", "be False for a table on a cluster", True, hint)
        if _get_output_config("transform", self)["dense"] != "default":
            hint = "The result is a table of the same kind. Call set_output(transform='default') first."
            raise argument_error("set_output", "not be used for a table on a cluster", type(X).__name__, hint)
        _ = self.fitted_  # placed once, and not by every worker
        encoder = copy(self)
        encoder.__dict__.pop("_sketch", None)  # large, and not needed by workers
        return cluster.transform(encoder, X)

    def _target(self, y: Any, n_rows: int) -> Target | None:
        if not self._supervised:
            return None
        if y is None:
            requirement, advice = self._need_of_target()
            # The first sentence is the one that scikit-learn's checks expect.
            expected = f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            raise argument_error("y", requirement, None, f"{expected} {advice}")
        target = Target.from_values(y, self.task)
        if len(target.values) != n_rows:
            raise argument_error("y", f"have as many values as X has rows, {n_rows}", len(target.values))
        return target

    def _need_of_target(self) -> tuple[str, str]:
        """Return the requirement and the next step for the error of a missing target."""
        return "be given, because the placement needs the target", "Pass y, or choose placement='quantile'."

    def _seeds(self, n_columns: int) -> list[int]:
        random = check_random_state(0 if self.random_state is None else self.random_state)
        return [int(seed) for seed in random.randint(2**31 - 1, size=n_columns)]

    def _refuse_unusable(self, values: npt.NDArray[Any]) -> None:
        """Raise an error for values that cannot be fitted."""
        for label, column in zip(column_labels(self), values.T, strict=True):  # a mask of the whole table costs memory
            refuse(np.isinf(column), label, "contains infinity", "Replace it by NaN or a finite number before fitting.")
            if self.missing == "error":
                refuse(np.isnan(column), label, "contains NaN", "Fill it, or pass missing='zeros'.")

    def _refuse_outside(self, values: npt.NDArray[Any]) -> None:
        """Raise an error for values that the settings do not allow in `transform`."""
        if self.extrapolation == "clip" and self.missing != "error":
            return
        for label, column, encoding in zip(column_labels(self), values.T, self.fitted_, strict=True):
            if self.missing == "error":
                refuse(np.isnan(column), label, "contains NaN", "Fill it, or pass missing='zeros'.")
            if self.missing == "error" or self.extrapolation in UNBOUNDED:
                refuse(np.isinf(column), label, "contains infinity", "Pass extrapolation='clip' and missing='zeros'.")
            if self.extrapolation == "error":
                low, high = encoding.domain
                refuse(
                    (column < low) | (column > high),
                    label,
                    f"has values outside its training range from {low!r} to {high!r}",
                    "Pass extrapolation='clip' to move such values into the range.",
                )


def _split_named(X: Any, named: Mapping[str, str]) -> tuple[Any, dict[str, npt.NDArray[Any]]]:
    """Remove the named target and weights from a table, and return both."""
    frame = as_frame(X)
    names = [] if frame is None else frame_names(frame)
    for argument, column in named.items():
        if column not in names:
            hint = "X has no names." if frame is None else suggestion(column, names) or f"X has {listed(names)}."
            raise argument_error(argument, "be the name of a column of X, or numbers", column, hint)
    assert frame is not None
    rest = frame.drop(list(named.values())).to_native()
    return rest, {argument: frame[column].to_numpy() for argument, column in named.items()}


def _identity(value: Any) -> Any:
    """Return a value that distinguishes parameters, also between processes."""
    if isinstance(value, Encoder):
        value = {"type": type(value).__name__, **value.get_params(deep=False)}
    if isinstance(value, Mapping):
        return {key: _identity(each) for key, each in value.items()}
    return describe(value)
