"""The target and the weights of rows: class labels and their codes, or the numbers of a regression."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, listed, shown, type_error, warn_user
from knotwork._preparation.formats import NumberFormat, infer_format
from knotwork._tables import check_weights, factorize, floats, missing_mask, refuse_sparse
from knotwork.errors import ColumnError, ColumnTypeError, ColumnWarning

LABEL_TYPES: dict[str, type] = {
    "bool": bool,
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), int),
    **dict.fromkeys(("float16", "float32", "float64"), float),
    "str": str,
    "object": str,
}
"""The types that an array of classes may have, and that of each class in Python."""


PLAIN_NUMBER = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Labels:
    """The classes of a classification.

    Parameters
    ----------
    values : tuple of str, int, float or bool
        The classes in ascending order; there may be only one.
    dtype : str
        Name of the type of `classes`, such as ``"int64"``; ``"object"`` holds text.

    Examples
    --------
    >>> labels, codes = Labels.from_values(["yes", "no", "yes"])
    >>> codes
    array([1, 0, 1])
    >>> labels.decode([0, 1])
    array(['no', 'yes'], dtype='<U3')
    """

    values: tuple[Any, ...]
    dtype: str

    def __post_init__(self) -> None:
        check_choice(self.dtype, "dtype", LABEL_TYPES)
        if not self.values or any(type(value) is not LABEL_TYPES[self.dtype] for value in self.values):
            raise type_error("values", f"be one or more {LABEL_TYPES[self.dtype].__name__}", self.values)
        if any(isinstance(value, float) and not value.is_integer() for value in self.values):
            raise argument_error("values", "be whole numbers", self.values)
        if any(not low < high for low, high in pairwise(self.values)):
            raise argument_error("values", "ascend, without repetition", self.values)
        if LABEL_TYPES[self.dtype] in (int, float):
            limits = np.iinfo(self.dtype) if LABEL_TYPES[self.dtype] is int else np.finfo(self.dtype)
            if self.values[0] < limits.min or self.values[-1] > limits.max:
                raise argument_error("values", f"fit in {self.dtype}", self.values)

    @classmethod
    def from_values(cls, y: Any) -> tuple["Labels", npt.NDArray[np.int64]]:
        """Return the classes of a target, and the class of each row.

        Missing labels are refused with their count, as are numbers that are not whole, several columns, and labels
        of both text and numbers. A column of shape (n, 1) is taken, with scikit-learn's warning. Classes are sorted as
        by ``numpy.unique``.
        """
        values = _one_dimension(y, "Fit one classifier for each column.")
        if values.dtype.kind == "O":
            values = _uniform(values)
        if values.dtype.kind == "f":
            _refuse_not_finite(values)
            if (values != np.trunc(values)).any():
                raise ColumnError(
                    "Unknown label type: continuous. y must hold classes, but has numbers that are not whole. "
                    "Use a regressor for a target of numbers, or turn y into classes."
                )
        if values.dtype.kind in "UT":
            dtype, values = "str", values.astype(object)
        else:
            dtype = values.dtype.name
        if dtype not in LABEL_TYPES:
            raise ColumnTypeError(
                f"Unknown label type: {dtype}. y must hold text, whole numbers or booleans. Convert it first."
            )
        positions, distinct = factorize(values.astype(np.float64) if values.dtype.kind == "f" else values)
        order = np.argsort(distinct)
        classes = tuple(LABEL_TYPES[dtype](value) for value in distinct[order].tolist())
        return cls(classes, dtype), np.argsort(order)[positions]

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The classes as an array of the target's own type, of shape (n_classes,)."""
        return np.array(self.values, dtype=self.dtype)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.values)

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the classes of codes, positions in `classes` of any shape; codes of no class are refused."""
        places = np.asarray(codes)
        if places.dtype.kind not in "iu":
            raise type_error("codes", "be integers", places.dtype.name)
        if places.size and (places.min() < 0 or places.max() >= self.n_classes):
            raise argument_error("codes", f"be from 0 to {self.n_classes - 1}", (int(places.min()), int(places.max())))
        return np.asarray(self.classes[places])


def check_target(y: Any) -> npt.NDArray[np.float64]:
    """Return the target of a regression as finite floats of shape (n,), several targets as (n, n_targets).

    Missing and infinite values are refused with their count, as are dates, complex numbers, and text unless all of it
    is amounts, such as those of money. A column of shape (n, 1) is taken as one target, with scikit-learn's warning. y
    is not changed, and may be what is returned.
    """
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1 and shape[0] > 0:
        return _several_targets(y)
    values = _one_dimension(y, "Pass one column for each target.")
    if values.dtype.kind == "O" and not any(isinstance(each, str) for each in values):
        values = floats(values, "y")
    if values.dtype.kind in "OUT":
        values = _written_numbers(values)
    if values.dtype.kind not in "biuf":
        raise ColumnTypeError(
            "y must hold numbers, but has text or dates: argument must be a real number, not a string. "
            "Convert y to numbers, or use a classifier for a target of classes."
        )
    with np.errstate(over="ignore"):  # what is too large is refused as infinite
        numbers = values.astype(np.float64, copy=False)
    _refuse_not_finite(numbers)
    return numbers


def _written_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return amounts such as "€ 1,200" as numbers, with a warning; other values as they are.

    Plain digits are refused, as elsewhere in Python: it is not known whether such text counts something.
    """
    positions, labels = factorize(values.astype(object))
    if not all(isinstance(label, str) for label in labels) or not any(re.search(r"\d", label) for label in labels):
        return values
    if all(PLAIN_NUMBER.fullmatch(label) for label in labels):
        return values
    written, meaning = infer_format(labels.tolist(), np.bincount(positions))
    if not isinstance(written, NumberFormat) or meaning is None or np.isnan(meaning).any():
        return values
    warn_user(f"y is text, such as {shown(labels[0])}, and is read as {written.describe()}.", ColumnWarning)
    return np.asarray(meaning[positions])


def _several_targets(y: Any) -> npt.NDArray[np.float64]:
    """Return a target of several columns; an error names the column."""
    refuse_sparse(y)
    frame = nw.from_native(y, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        columns = {repr(name): frame[name].to_native() for name in frame.columns}
    else:
        columns = {str(place): column for place, column in enumerate(np.asarray(y).T)}
    targets = []
    for name, column in columns.items():
        try:
            targets.append(check_target(column))
        except (ColumnError, ColumnTypeError) as error:
            raise type(error)(f"Column {name} of y: {error}") from error
    return np.stack(targets, axis=1)


def _one_dimension(y: Any, advice: str) -> npt.NDArray[Any]:
    """Return a target as an array of shape (n,), in which nothing is None or another mark of a missing value."""
    refuse_sparse(y)
    series = nw.from_native(y, pass_through=True, series_only=True)
    if isinstance(series, nw.Series):
        _refuse_missing(int(series.null_count()))
        y = series.cast(nw.Float64).to_numpy() if series.dtype == nw.Decimal else series.to_numpy()
    values = np.asarray(y)
    if values.dtype.kind == "U" and isinstance(y, list | tuple):
        values = np.asarray(y, dtype=object)  # NumPy would write numbers and None among text as text
        values = np.asarray(y) if all(isinstance(each, str) for each in values.ravel()) else values
    if values.ndim == 2 and values.shape[1] != 1:
        raise ColumnError(f"y should be a 1d array, got an array of shape {values.shape} instead. {advice}")
    from sklearn.utils import column_or_1d  # noqa: PLC0415 - it takes a second to load

    values = np.asarray(column_or_1d(values, warn=True))
    if len(values) == 0:
        raise ColumnError("Found array with 0 sample(s) in y while a minimum of 1 is required.")
    if values.dtype.kind == "O":
        _refuse_missing(int(missing_mask(values).sum()))
    return values


def _refuse_missing(count: int) -> None:
    if count:
        raise ColumnError(f"Input y contains NaN. {count} of its values are missing: drop these rows before fitting.")


def _refuse_not_finite(values: npt.NDArray[Any]) -> None:
    _refuse_missing(int(np.isnan(values).sum()))
    count = int(np.isinf(values).sum())
    if count:
        raise ColumnError(
            "Input y contains infinity or a value too large for dtype('float64'). "
            f"{count} of its values are infinite: drop these rows before fitting."
        )


def _uniform(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return objects as an array of booleans, integers or floats if all are; text stays as objects."""
    types = set(map(type, values.tolist()))
    if all(issubclass(each, str) for each in types):
        return values
    if all(issubclass(each, bool | np.bool_) for each in types):
        return values.astype(bool)
    if all(issubclass(each, Real) and not issubclass(each, bool | np.bool_) for each in types):
        fits = all(issubclass(each, Integral) for each in types) and max(map(abs, values)) < 2**63
        return values.astype(np.int64 if fits else np.float64)
    names = listed(sorted(each.__name__ for each in types))
    raise ColumnTypeError(
        f"Unknown label type: y must hold labels of one type, text, whole numbers or booleans, but has {names}. "
        "Convert them, for example with y.astype(str)."
    )


def row_weights(sample_weight: Any, n_rows: int) -> npt.NDArray[np.float64] | None:
    """Return weights of rows that are at most 1, or None if no weights are given or all are equal."""
    weights = check_weights(sample_weight, n_rows)
    if weights is None or (weights == weights[0]).all():
        return None
    return np.asarray(weights / weights.max())


def class_weights(
    class_weight: Any, classes: npt.NDArray[Any], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the weight of each class, of shape (n_classes,).

    ``"balanced"`` weighs classes by one over their frequency, by the rows of each; a mapping gives weights to labels;
    other labels have the weight 1.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(counts.sum() / (len(classes) * np.maximum(counts, 1)))
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


def target_name(y: Any) -> str | None:
    """Return the name of a target, if it is a series with one.

    Examples
    --------
    >>> import pandas as pd
    >>> target_name(pd.Series([1.0, 2.0], name="rent")), target_name([1.0, 2.0])
    ('rent', None)
    """
    series = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(series, nw.DataFrame):
        return str(series.columns[0]) if series.shape[1] == 1 else None
    return series.name or None if isinstance(series, nw.Series) and isinstance(series.name, str) else None
