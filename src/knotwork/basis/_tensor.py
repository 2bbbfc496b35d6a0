"""Tensor products of two bases: the products of all their functions, row by row."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from knotwork._checks import argument_error
from knotwork._loops import compiled


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
    parts = (left.indptr, left.indices, left.data), (right.indptr, right.indices, right.data)
    _multiply(*parts, right.shape[1], indices, data)
    return sparse.csr_array((data, indices, starts.astype(index_type)), shape=(n_rows, width))


@compiled()
def _multiply(left: Any, right: Any, width: int, indices: npt.NDArray[Any], data: npt.NDArray[Any]) -> None:
    """Write the products of the entries of two CSR arrays, of `width` columns on the right, row by row."""
    (left_starts, left_columns, left_data), (right_starts, right_columns, right_data) = left, right
    entry = 0
    for row in range(len(left_starts) - 1):
        for i in range(left_starts[row], left_starts[row + 1]):
            for j in range(right_starts[row], right_starts[row + 1]):
                indices[entry] = left_columns[i] * np.int64(width) + right_columns[j]
                data[entry] = left_data[i] * right_data[j]
                entry += 1
