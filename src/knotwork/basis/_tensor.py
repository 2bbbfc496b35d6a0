"""Tensor products of two bases: the products of all their functions, row by row."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from knotwork._checks import argument_error

__all__ = ["row_product"]

ENTRIES_PER_CHUNK = 1 << 20
"""Entries of a sparse product that are computed together: bounds the memory of their places."""


def row_product(left: Any, right: Any) -> Any:
    """Return the products of every column of `left` with every column of `right`, row by row.

    The values of two bases give the values of their tensor product. Dense arrays give a dense array, CSR arrays a CSR
    array that stores only products of stored entries: with cubic B-splines 16 in a row, whatever the sizes.

    Parameters
    ----------
    left : ndarray or csr_array of shape (n, a)
        Functions of the first variable.
    right : ndarray or csr_array of shape (n, b)
        Functions of the second variable, of the same kind as `left`.

    Returns
    -------
    ndarray or csr_array of shape (n, a * b)
        Column ``i * b + j`` is the product of column i of `left` and column j of `right`.

    Notes
    -----
    This is the row-wise Kronecker product, also called the transposed Khatri-Rao product.

    Examples
    --------
    >>> row_product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]]))
    array([[ 3.,  4.,  5.,  6.,  8., 10.]])
    """
    is_sparse = bool(sparse.issparse(left))
    if is_sparse != bool(sparse.issparse(right)):
        raise argument_error("right", "be sparse if left is, and dense if left is", type(right).__name__)
    if not is_sparse:
        left, right = np.asarray(left), np.asarray(right)
    if left.ndim != 2 or right.ndim != 2 or left.shape[0] != right.shape[0]:
        raise argument_error("right", f"have two axes and as many rows as left, {left.shape}", right.shape)
    if not is_sparse:
        return (left[:, :, None] * right[:, None, :]).reshape(len(left), left.shape[1] * right.shape[1])
    return _sparse_product(sparse.csr_array(left), sparse.csr_array(right))


def _sparse_product(left: sparse.csr_array, right: sparse.csr_array) -> sparse.csr_array:
    n_rows, width = left.shape[0], left.shape[1] * right.shape[1]
    counts = np.diff(left.indptr).astype(np.int64) * np.diff(right.indptr)
    starts: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(counts)))
    index_type = np.int32 if max(starts[-1], width) <= np.iinfo(np.int32).max else np.int64
    indices = np.empty(starts[-1], dtype=index_type)
    data = np.empty(starts[-1], dtype=np.result_type(left.dtype, right.dtype))
    chunks = np.searchsorted(starts, np.arange(0, starts[-1], ENTRIES_PER_CHUNK), side="right") - 1
    for first, last in pairwise([*chunks, n_rows]):
        rows = np.repeat(np.arange(first, last), counts[first:last])
        chunk = slice(starts[first], starts[last])
        place = np.arange(chunk.start, chunk.stop) - starts[rows]
        per_left = np.diff(right.indptr)[rows]
        i, j = left.indptr[rows] + place // per_left, right.indptr[rows] + place % per_left
        indices[chunk] = left.indices[i].astype(index_type) * right.shape[1] + right.indices[j]
        data[chunk] = left.data[i] * right.data[j]
    return sparse.csr_array((data, indices, starts.astype(index_type)), shape=(n_rows, width))
