"""Decisions between equals: two numbers that differ by rounding are equal, and of equals the first is taken.

Sums in another order differ in their last bits: with permuted rows, weights in place of repeated rows, more threads, or
another BLAS. A model must not hang on these bits.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["EQUAL", "at_most", "by_size", "first_largest", "whole"]

EQUAL = 1e-9
"""Sums and solutions of a least-squares problem are equal if they differ by no more than this share. Rounding errors of
a sum of n numbers are below n times 1e-16; a difference that matters to anyone is far larger."""


def first_largest(values: npt.ArrayLike) -> int:
    """Return the place of the largest number, the first of those that are equal up to rounding.

    Examples
    --------
    >>> first_largest([1.0, 0.1 + 0.2, 3.0, 3.0 + 1e-15])
    2
    """
    array = np.asarray(values, dtype=np.float64)
    largest = array.max()
    return int(np.argmax(array >= largest - EQUAL * abs(largest)))


def by_size(values: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Return the places of numbers in decreasing order; those that are equal up to rounding keep their order.

    Numbers are equal if they differ by no more than a small share of the largest one.

    Examples
    --------
    >>> by_size([1.0, 0.1 + 0.2, 3.0, 0.3, 3.0 + 1e-15])
    array([2, 4, 0, 1, 3])
    """
    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(-array, kind="stable")
    gaps = -np.diff(array[order], prepend=array[order[:1]])
    groups = np.cumsum(gaps > EQUAL * np.abs(array).max(initial=0.0))
    return order[np.lexsort((order, groups))]


def at_most(values: npt.ArrayLike, limits: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return whether numbers are at most as large as limits, up to rounding.

    Examples
    --------
    >>> bool(at_most(0.1 + 0.2, 0.3))
    True
    """
    given, most = np.asarray(values, dtype=np.float64), np.asarray(limits, dtype=np.float64)
    smaller: npt.NDArray[np.bool_] = given <= most + EQUAL * np.maximum(np.abs(given), np.abs(most))
    return smaller


def whole(value: float) -> int:
    """Return the largest integer that is at most as large as a number, up to rounding.

    Examples
    --------
    >>> whole(2.9999999999999996), whole(2.9)
    (3, 2)
    """
    return int(np.floor(value + EQUAL * max(abs(value), 1.0)))
