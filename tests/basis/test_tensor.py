"""Products of two bases, row by row: dense and sparse, against Kronecker products of single rows."""

import numpy as np
import pytest
from scipy import sparse

from knotwork.basis import row_product
from knotwork.errors import ArgumentError


@pytest.fixture
def parts():
    random = np.random.default_rng(0)
    left, right = random.normal(size=(40, 5)), random.normal(size=(40, 3))
    left[random.uniform(size=left.shape) < 0.5] = 0.0
    right[random.uniform(size=right.shape) < 0.5] = 0.0
    left[3], right[7] = 0.0, 0.0
    return left, right


def kronecker(left, right):
    return np.array([np.kron(a, b) for a, b in zip(left, right, strict=True)])


def test_a_dense_product_is_the_kronecker_product_of_each_row(parts):
    np.testing.assert_array_equal(row_product(*parts), kronecker(*parts))


def test_a_sparse_product_stores_products_of_stored_entries(parts):
    left, right = map(sparse.csr_array, parts)
    product = row_product(left, right)
    assert isinstance(product, sparse.csr_array)
    np.testing.assert_array_equal(product.toarray(), kronecker(*parts))
    counts = np.diff(left.indptr) * np.diff(right.indptr)
    np.testing.assert_array_equal(np.diff(product.indptr), counts)
    assert product.has_sorted_indices


def test_products_keep_the_type_and_may_have_no_rows(parts):
    left, right = (part.astype(np.float32) for part in parts)
    for kind in (np.asarray, sparse.csr_array):
        product = row_product(kind(left), kind(right))
        assert product.dtype == np.float32
        assert row_product(kind(left[:0]), kind(right[:0])).shape == (0, 15)


def test_parts_that_do_not_belong_together(parts):
    left, right = parts
    with pytest.raises(ArgumentError, match="be sparse if left is"):
        row_product(sparse.csr_array(left), right)
    with pytest.raises(ArgumentError, match="as many rows as left"):
        row_product(left, right[:5])
