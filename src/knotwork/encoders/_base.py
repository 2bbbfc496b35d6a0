"""The abstract encoder: reading tables, fitting columns in parallel, and the compiled transform."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from knotwork._checks import argument_error, check_bool, check_choice, listed, suggestion, type_error
from knotwork._cores import usable_cores
from knotwork._pictures import (
    ColumnPicture,
    Histogram,
    count_values,
    draw_columns,
    picture_block,
    pictures_html,
)
from knotwork._tables import check_weights, column_labels, header, is_batches, is_empty, read_numbers, refuse
from knotwork.basis._base import EXTRAPOLATIONS, UNBOUNDED, FloatArray
from knotwork.basis._blocks import BasisBlock, Block, make_table
from knotwork.basis._compiled import encode_dense, encode_sparse
from knotwork.knots import TASKS, Column, QuantileSketch, Target

__all__ = ["MISSING", "Encoder", "count_threads"]

MISSING = {
    "zeros": "a missing value gives a block of zeros",
    "indicator": "the same, and each block has one more column, which is 1 where the value is missing",
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
    """A transformer that encodes each numerical column by a block of columns, fitted on that column alone.

    Subclasses define their parameters, which include those below, and how a column is fitted.
    """

    extrapolation: str
    missing: str
    task: str | None
    sparse_output: bool
    dtype: npt.DTypeLike
    n_jobs: int | None
    random_state: Any
    blocks_: list[Block]
    n_features_in_: int
    _extrapolations: Sequence[str] = [name for name in EXTRAPOLATIONS if name != "periodic"]

    @property
    @abstractmethod
    def _supervised(self) -> bool:
        """Whether fitting needs the target."""

    @abstractmethod
    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""

    @abstractmethod
    def fit_column(self, column: Column, target: Target | None = None, *, seed: int = 0, index: int = 0) -> Block:
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

    @abstractmethod
    def _suffixes(self, index: int, block: Block) -> list[str]:
        """Return the suffixes that a column's name gets in the names of the columns of its block."""

    def _check_columns(self) -> None:
        """Check parameters that name columns, once the columns of the table are known."""

    @property
    def knots_(self) -> list[FloatArray]:
        """Interior knots of each column, in the units of the column; empty for a scaling."""
        check_is_fitted(self)
        return [block.basis.knots if isinstance(block, BasisBlock) else np.empty(0) for block in self.blocks_]

    @property
    def domain_(self) -> FloatArray:
        """Ends of the range of each column, of shape (n_features, 2); infinite for standard scaling."""
        check_is_fitted(self)
        return np.array([_domain(block) for block in self.blocks_])

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit every column.

        Missing values are ignored. A constant column, one with two values, and one without any value are fitted like
        any other. Infinite values raise an error that names the column.

        Parameters
        ----------
        X : table of shape (n, d), or iterator of such tables
            Numbers as a NumPy array, or as a pandas, polars or pyarrow table. An iterator of batches, such as
            ``pyarrow.parquet.ParquetFile(path).iter_batches()``, is read in bounded memory, for uniform and quantile
            knots only.
        y : array-like of shape (n,), optional
            The target, needed by supervised placements.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; a row of weight zero is ignored, and weight two is the same as two equal rows.

        Returns
        -------
        self
            The fitted encoder.
        """
        self._check_all()
        if is_batches(X):
            return self._fit_batches(X, y, sample_weight)
        values = self._read(X, reset=True)
        self._refuse_unusable(values)
        weights = check_weights(sample_weight, len(values))
        target = self._target(y, len(values))
        seeds = self._seeds(values.shape[1])

        def fit_one(index: int) -> tuple[Block, Histogram]:
            column = Column.from_values(values[:, index].astype(np.float64, copy=False), weights)
            block = self.fit_column(column, target, seed=seeds[index], index=index)
            return block, count_values(column.distinct, column.weights)

        jobs = Parallel(n_jobs=count_threads(self.n_jobs), prefer="threads")
        self._set_fitted(jobs(delayed(fit_one)(index) for index in range(values.shape[1])))
        return self

    def _set_fitted(self, fitted: Iterable[tuple[Block, Histogram]]) -> None:
        blocks, histograms = zip(*fitted, strict=True)
        self.blocks_, self._histograms = list(blocks), list(histograms)

    def transform(self, X: Any) -> Any:
        """Encode a table.

        Parameters
        ----------
        X : table of shape (n, d)
            Numbers, with the columns that the encoder was fitted on.

        Returns
        -------
        ndarray or csr_array of shape (n, sum of block sizes)
            The blocks of the columns, one after the other; a data frame after ``set_output(transform="pandas")`` or
            ``"polars"``.
        """
        check_is_fitted(self)
        self._check_all()
        values = self._read(X, reset=False)
        self._refuse_outside(values)
        table = make_table(tuple(self.blocks_), extrapolation=self.extrapolation, indicator=self.missing == "indicator")
        encode = encode_sparse if self.sparse_output else encode_dense
        return encode(values, table, dtype=np.dtype(self.dtype), n_threads=count_threads(self.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the output columns: the column's name and a suffix, such as ``age_bs0``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns; by default those seen in `fit`, or ``x0``, ``x1``, ...
        """
        check_is_fitted(self)
        # scikit-learn's mixins for feature names do not fit blocks of several columns per feature.
        names = _check_feature_names_in(self, input_features)
        ends = ["_missing"] if self.missing == "indicator" else []
        return np.array(
            [f"{names[i]}{end}" for i, block in enumerate(self.blocks_) for end in self._suffixes(i, block) + ends],
            dtype=object,
        )

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
        labels = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        wanted = labels if columns is None else list(columns)
        unknown = [name for name in wanted if name not in labels]
        if unknown or not wanted:
            hint = suggestion(unknown[0], labels) if unknown else ""
            raise argument_error("columns", f"name columns of the table, {listed(labels)}", wanted, hint)
        pictures = self._pictures()
        return draw_columns([pictures[labels.index(name)] for name in wanted])

    def _pictures(self) -> list[ColumnPicture]:
        names = map(str, _check_feature_names_in(self, None))
        return [picture_block(*parts) for parts in zip(names, self.blocks_, self._histograms, strict=True)]

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()
        return html + pictures_html(self._pictures()) if hasattr(self, "_histograms") else html

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
        check_choice(self.missing, "missing", MISSING)
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
        validate_data(self, header(X), reset=reset, skip_check_array=True)
        if reset:
            self._check_columns()
        return values

    def _target(self, y: Any, n_rows: int) -> Target | None:
        if not self._supervised:
            return None
        if y is None:
            raise argument_error(
                "y",
                "be given, because the placement needs the target",
                None,
                # The first sentence is the one that scikit-learn's checks expect.
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None. "
                "Pass y, or choose placement='quantile'.",
            )
        target = Target.from_values(y, self.task)
        if len(target.values) != n_rows:
            raise argument_error("y", f"have as many values as X has rows, {n_rows}", len(target.values))
        return target

    def _seeds(self, n_columns: int) -> list[int]:
        random = check_random_state(0 if self.random_state is None else self.random_state)
        return [int(seed) for seed in random.randint(2**31 - 1, size=n_columns)]

    def _fit_batches(self, batches: Iterable[Any], y: Any, sample_weight: Any) -> Self:
        if y is not None or sample_weight is not None or self._supervised:
            raise argument_error(
                "X",
                "be a table, not an iterator of batches, with a target or sample weights",
                type(batches).__name__,
                "On batches, fit placement='uniform' or 'quantile' without y and sample_weight.",
            )
        sketches: list[QuantileSketch] = []
        seeds: list[int] = []
        for batch in batches:
            if is_empty(batch):  # readers of filtered files return such batches
                continue
            values = self._read(batch, reset=not sketches)
            self._refuse_unusable(values)
            if not sketches:
                seeds = self._seeds(values.shape[1])
                sketches = [QuantileSketch(seed=seed) for seed in seeds]
            for index, sketch in enumerate(sketches):
                sketch.update(values[:, index].astype(np.float64, copy=False))
        if not sketches:
            raise argument_error(
                "X", "yield at least one batch with rows", batches, "Check that the iterator is not exhausted."
            )
        columns = [sketch.column() for sketch in sketches]
        self._set_fitted(
            (self.fit_column(column, seed=seeds[index], index=index), count_values(column.distinct, column.weights))
            for index, column in enumerate(columns)
        )
        return self

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
        for label, column, block in zip(column_labels(self), values.T, self.blocks_, strict=True):
            if self.missing == "error":
                refuse(np.isnan(column), label, "contains NaN", "Fill it, or pass missing='zeros'.")
            if self.missing == "error" or self.extrapolation in UNBOUNDED:
                refuse(np.isinf(column), label, "contains infinity", "Pass extrapolation='clip' and missing='zeros'.")
            if self.extrapolation == "error":
                low, high = _domain(block)
                refuse(
                    (column < low) | (column > high),
                    label,
                    f"has values outside its training range from {low!r} to {high!r}",
                    "Pass extrapolation='clip' to move such values into the range.",
                )


def _domain(block: Block) -> tuple[float, float]:
    return block.basis.domain if isinstance(block, BasisBlock) else block.domain
