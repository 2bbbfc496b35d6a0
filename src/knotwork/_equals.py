"""Comparisons up to rounding: numbers that differ only by rounding count as equal, and the first of them is chosen.

Sums in a different order differ in their last bits: with permuted rows, with weights instead of repeated rows, with
more threads or another BLAS. A model must not depend on these bits.
"""

import numpy as np
import numpy.typing as npt

EQUAL = 1e-9
"""Relative difference up to which sums and least-squares solutions count as equal. The relative rounding error of a sum
of n numbers is below n times 1e-16; differences that matter are far larger."""


def first_largest(values: npt.ArrayLike) -> int:
    """Return the position of the largest number, the first of those that are equal up to rounding.

    Examples
    --------
    >>> first_largest([1.0, 0.1 + 0.2, 3.0, 3.0 + 1e-15])
    2
    """
    array = np.asarray(values, dtype=np.float64)
    largest = array.max()
    return int(np.argmax(array >= largest - EQUAL * abs(largest)))


def by_size(values: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Return the positions of numbers in decreasing order; numbers that are equal up to rounding keep their order.

    Numbers are equal if they differ by at most the share `EQUAL` of the largest absolute value.

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
    """Return whether each number is at most its limit, up to rounding.

    Examples
    --------
    >>> bool(at_most(0.1 + 0.2, 0.3))
    True
    """
    numbers, most = np.asarray(values, dtype=np.float64), np.asarray(limits, dtype=np.float64)
    smaller: npt.NDArray[np.bool_] = numbers <= most + EQUAL * np.maximum(np.abs(numbers), np.abs(most))
    return smaller


def whole(value: float) -> int:
    """Return the largest integer that is at most `value`, up to rounding.

    Examples
    --------
    >>> whole(2.9999999999999996), whole(2.9)
    (3, 2)
    """
    return int(np.floor(value + EQUAL * max(abs(value), 1.0)))
