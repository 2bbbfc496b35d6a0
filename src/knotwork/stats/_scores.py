"""Validation of arrays of scores and of numbers."""

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, listed, type_error

Floats = npt.NDArray[np.float64]


def complete_problems(scores: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which problems have a score of every method.

    A score is missing if it is NaN or None. Infinite scores count as present, although the functions that take scores
    raise an error for them.

    Parameters
    ----------
    scores : array-like of shape (n_problems, n_methods)
        One row per problem, one column per method.

    Returns
    -------
    ndarray of shape (n_problems,)
        True where no score is missing.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.1, 0.2], [np.nan, 0.3]])
    >>> scores[complete_problems(scores)]
    array([[0.1, 0.2]])
    """
    present = ~np.isnan(_read_table(scores, min_problems=1))
    return np.asarray(present.all(axis=1))


def read_scores(scores: npt.ArrayLike, min_problems: int = 1) -> Floats:
    """Return scores as finite numbers of shape (n_problems, n_methods), with at least `min_problems` problems."""
    table = _read_table(scores, min_problems)
    fill_in = "Drop these problems, scores[complete_problems(scores)], or fill in a score, such as the worst one."
    replace = "Replace them with a finite score that is worse than all others, or drop these problems."
    for wrong, name, requirement, hint in (
        (np.isnan(table), "NaN", "have a score of every method in every problem", fill_in),
        (np.isinf(table), "infinite values", "be finite", replace),
    ):
        if wrong.any():
            problems = listed(np.flatnonzero(wrong.any(axis=1)).tolist())
            raise argument_error("scores", requirement, _Verbatim(f"{name} in problem {problems}"), hint)
    return table


def read_numbers(values: npt.ArrayLike, name: str, min_size: int) -> Floats:
    """Return a one-dimensional array of at least `min_size` finite numbers."""
    array = _as_floats(values, name)
    if array.ndim != 1 or array.size < min_size:
        raise argument_error(
            name, f"be one-dimensional with at least {min_size} values", _Verbatim(f"shape {array.shape}")
        )
    if not np.isfinite(array).all():
        positions = listed(np.flatnonzero(~np.isfinite(array)).tolist())
        raise argument_error(name, "be finite", _Verbatim(f"NaN or infinity at position {positions}"))
    return array


def check_fraction(value: Any, name: str) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = _as_float(value, name, "be a number between 0 and 1")
    if not 0 < number < 1:
        raise argument_error(name, "be between 0 and 1, both excluded", value)
    return number


def check_not_negative(value: Any, name: str) -> float:
    """Return `value` as a finite float of at least 0."""
    number = _as_float(value, name, "be a number of at least 0")
    if not 0 <= number < np.inf:
        raise argument_error(name, "be finite and at least 0", value)
    return number


def _as_float(value: Any, name: str, requirement: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise type_error(name, requirement, value)
    return float(value)


def _read_table(scores: npt.ArrayLike, min_problems: int) -> Floats:
    table = _as_floats(scores, "scores")
    problems = f"at least {min_problems} problem{'s' if min_problems > 1 else ''}"
    orientation = "Put a problem in each row and a method in each column."
    for holds, requirement, hint in (
        (table.ndim == 2, "be two-dimensional, (n_problems, n_methods)", orientation),
        (table.shape[1:] >= (2,), "have at least 2 methods", "Each column is a method."),
        (table.shape >= (min_problems,), f"have {problems}", "Each row is a problem."),
    ):
        if not holds:
            raise argument_error("scores", requirement, _Verbatim(f"shape {table.shape}"), hint)
    return table


def _as_floats(values: npt.ArrayLike, name: str) -> Floats:
    try:
        array = np.asarray(values)
        numbers = array.astype(np.float64) if array.dtype.kind in "iufO" else None
    except (TypeError, ValueError) as error:
        raise type_error(name, "be an array of real numbers", values, f"NumPy reports: {error}") from error
    if numbers is None:
        raise type_error(name, "be an array of real numbers", _Verbatim(f"an array of {array.dtype}"))
    return numbers


class _Verbatim(str):
    """Text that an error message shows without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__
