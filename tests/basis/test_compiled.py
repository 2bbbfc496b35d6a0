"""The compiled code equals the definitions."""

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knotwork import basis
from knotwork._loops import MOST_COUNTED, Compiled, _with_safe_cache, compiled
from knotwork.basis import _compiled
from knotwork.basis._compiled import (
    COLUMNS_PER_CALL,
    ROWS_TOGETHER,
    encode_dense,
    encode_sparse,
)
from knotwork.basis._fitted import MIN_SUPPORT, FittedAffine, FittedBasis, compiled_table

FAMILIES = list(basis.FAMILIES)
CHUNK = 4 * ROWS_TOGETHER


def definition(encoding, x, extrapolation):
    functions = encoding.basis.evaluate(x, extrapolation)
    if isinstance(encoding.basis, basis.MSpline):
        low, high = encoding.basis.domain
        functions = functions * (high - low)
    padded = np.zeros((len(x), encoding.size))
    padded[:, : encoding.basis.size] = functions
    padded[np.isnan(x)] = 0.0
    return padded


def random_block(random, family, degree, *, most_knots=20):
    low, high = np.sort(random.normal(scale=5.0, size=2))
    knots = np.sort(random.uniform(low, high, random.integers(0, most_knots)))
    knots = knots[np.diff(knots, prepend=low) > 10 * MIN_SUPPORT * (high - low)]  # heights are bounded below
    spline = basis.make_basis(family, knots, degree=degree, domain=(low, high))
    return FittedBasis(spline, spline.size + int(random.integers(0, 3)))


def random_values(random, encoding, n):
    low, high = encoding.basis.domain
    x = random.uniform(low - 1.0, high + 1.0, n)
    special = np.concatenate(([low, high, np.nan], encoding.basis.knots))
    x[: len(special)] = special[:n]
    return random.permutation(x)


@pytest.mark.parametrize("extrapolation", ["clip", "linear"])
@pytest.mark.parametrize(
    ("family", "degree"),
    [  # other knots are no other code: of families without a degree, and of degrees between the lowest and the highest
        pytest.param(name, degree, marks=() if degree in usual else pytest.mark.slow)
        for name in FAMILIES
        for usual in [(0, 1, 3, 5) if basis.FAMILIES[name].has_degree else (3,)]
        for degree in range(6)
    ],
)
def test_equals_the_definition(family, degree, extrapolation):
    random = np.random.default_rng(degree)
    encodings = [random_block(random, family, degree) for _ in range(5)]
    X = np.column_stack([random_values(random, encoding, 300) for encoding in encodings])
    expected = np.hstack([definition(b, x, extrapolation) for b, x in zip(encodings, X.T, strict=True)])
    table = compiled_table(tuple(encodings), extrapolation=extrapolation, indicator=False)
    got = encode_dense(X, table, dtype=np.float64)
    scale = np.maximum(np.abs(expected).max(axis=0), 1.0)
    np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=1e-11)
    single = encode_dense(X, table, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single / scale, got / scale, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(encode_sparse(X, table, dtype=np.float64).toarray(), got)


def test_bumps_are_exact_to_rounding():
    random = np.random.default_rng(0)
    encoding = FittedBasis(basis.make_basis("radial", np.sort(random.uniform(1.0, 9.0, 28)), domain=(1.0, 9.0)), 30)
    x = np.concatenate([random.uniform(1.0, 9.0, 3000), encoding.basis.knots])
    expected, table = (
        definition(encoding, x, "clip"),
        compiled_table((encoding,), extrapolation="clip", indicator=False),
    )
    for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 3e-5)):  # rounding grows with the exponent
        got = encode_dense(x[:, None], table, dtype=dtype)
        large = expected > 1e-30
        np.testing.assert_allclose(got[large], expected[large], rtol=tolerance)
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
        np.testing.assert_array_equal(got[3000:, 1:-1].diagonal(), 1.0)  # at its centre a bump is exactly one


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_mixed_columns_dense_and_sparse_with_indicator(seed):
    random = np.random.default_rng(seed)
    encodings = [random_block(random, random.choice(FAMILIES), int(random.integers(0, 5))) for _ in range(6)]
    X = np.column_stack([random_values(random, encoding, 40) for encoding in encodings])
    encodings.append(FittedAffine(1.5, 0.5))
    X = np.column_stack([X, random.normal(size=40)])
    table = compiled_table(tuple(encodings), extrapolation="clip", indicator=True)
    expected = []
    for encoding, x in zip(encodings, X.T, strict=True):
        values = (x[:, None] - 1.5) / 0.5 if isinstance(encoding, FittedAffine) else definition(encoding, x, "clip")
        expected.append(np.hstack([values, np.isnan(x)[:, None]]))
    got = encode_dense(X, table, dtype=np.float64)
    scale = np.maximum(np.abs(got).max(axis=0), 1.0)
    np.testing.assert_allclose(got / scale, np.hstack(expected) / scale, rtol=0, atol=1e-11)
    sparse = encode_sparse(X, table, dtype=np.float64)
    np.testing.assert_array_equal(sparse.toarray(), got)
    assert sparse.nnz == np.count_nonzero(got)
    assert sparse.has_canonical_format


@pytest.mark.parametrize("family", FAMILIES)
def test_binary_search_equals_counting(family):
    knots = np.sort(np.random.default_rng(0).uniform(size=3 * MOST_COUNTED))
    encoding = FittedBasis(basis.make_basis(family, knots), 3 * MOST_COUNTED + 4)
    X = np.concatenate((knots, np.linspace(-0.1, 1.1, 999)))[:, None]
    got = encode_dense(X, compiled_table((encoding,), extrapolation="clip", indicator=False), dtype=np.float64)
    expected = definition(encoding, X[:, 0], "clip")
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, ROWS_TOGETHER - 1, ROWS_TOGETHER + 1, 2 * CHUNK + 3])
def test_threads_and_chunks_change_nothing(n, n_threads, monkeypatch):
    monkeypatch.setattr(_compiled, "VALUES_PER_CALL", CHUNK)
    X = np.random.default_rng(0).normal(size=(n, 2))
    encodings = [FittedBasis(basis.make_basis(f, [-0.5, 0.5], domain=(-3, 3)), 6) for f in ("bspline", "ispline")]
    table = compiled_table(tuple(encodings), extrapolation="clip", indicator=False)
    got = encode_dense(X, table, n_threads=n_threads)
    assert got.shape == (n, 12)
    if n:
        expected = np.hstack([definition(b, x, "clip") for b, x in zip(encodings, X.T, strict=True)])
        np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_array_equal(encode_sparse(X, table, n_threads=n_threads).toarray(), got)


def test_a_wide_table_is_encoded_as_its_columns_are():
    random = np.random.default_rng(0)
    encodings = tuple(random_block(random, FAMILIES[i % len(FAMILIES)], i % 5) for i in range(4 * COLUMNS_PER_CALL + 3))
    X = np.column_stack([random_values(random, encoding, 2 * ROWS_TOGETHER + 1) for encoding in encodings])
    settings = {"extrapolation": "clip", "indicator": True}
    alone = [
        encode_dense(X[:, i : i + 1], compiled_table((encoding,), **settings), dtype=np.float64)
        for i, encoding in enumerate(encodings)
    ]
    table = compiled_table(encodings, **settings)
    got = encode_dense(X, table, dtype=np.float64, n_threads=2)
    np.testing.assert_array_equal(got, np.hstack(alone))
    np.testing.assert_array_equal(encode_sparse(X, table, dtype=np.float64).toarray(), got)
    same = compiled_table(encodings[:1] * (2 * COLUMNS_PER_CALL + 1), **settings)
    got = encode_sparse(X[:, : 2 * COLUMNS_PER_CALL + 1], same, dtype=np.float64)
    assert got.has_canonical_format
    expected = encode_dense(X[:, : 2 * COLUMNS_PER_CALL + 1], same, dtype=np.float64)
    np.testing.assert_array_equal(got.toarray(), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8, bool])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_any_type_and_memory_order(dtype, order):
    X = np.random.default_rng(0).integers(0, 2 if dtype is bool else 9, size=(50, 6)).astype(dtype)
    X = X[::2, ::2] if order == "strided" else np.array(X, order=order)
    encodings = [FittedBasis(basis.make_basis("bspline", [3.0], domain=(0.0, 9.0)), 5)] * X.shape[1]
    table = compiled_table(tuple(encodings), extrapolation="clip", indicator=False)
    expected = np.hstack([definition(b, x.astype(float), "clip") for b, x in zip(encodings, X.T, strict=True)])
    np.testing.assert_allclose(encode_dense(X, table), expected, atol=1e-6)


def test_heights_of_narrow_msplines_are_bounded():
    encoding = FittedBasis(basis.make_basis("mspline", [1e-200, 2e-200, 3e-200, 4e-200, 5e-200]), 9)
    table = compiled_table((encoding,), extrapolation="clip", indicator=False)
    got = encode_dense(np.linspace(0, 6e-200, 50)[:, None], table)
    assert np.isfinite(got).all()
    assert got.max() <= 4 / MIN_SUPPORT * (1 + 1e-6)


def test_values_beyond_the_type_of_the_output_are_clipped():
    table = compiled_table((FittedAffine(0.0, 1.0),), extrapolation="clip", indicator=False)
    got = encode_dense(np.array([[1e300], [-1e300], [np.inf]]), table)
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(got[:, 0], [largest, -largest, largest])


@compiled(inline="always")
def _twice(x):
    return 2.0 * x


@compiled()
def _sum_of_twice(values):
    total = 0.0
    for i in range(len(values)):
        total += _twice(values[i])
    return total


def test_functions_are_compiled_once_when_they_are_first_called():
    waiting = _sum_of_twice
    assert isinstance(waiting, Compiled)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(waiting, [np.arange(4.0)] * 8)) == [12.0] * 8
    assert _sum_of_twice is waiting.load(), "the module calls numba's function from now on"
    assert len(_sum_of_twice.signatures) == 1


def test_without_a_folder_for_the_cache_functions_are_compiled_in_every_process(monkeypatch):
    def refuse(self):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", refuse)
    assert compiled()(lambda x: x + 1.0)(1.0) == 2.0


def test_processes_that_compile_at_once_do_not_mix_their_code(tmp_path, monkeypatch):
    """Both begin with an empty index; numba would number the files of both alike."""

    @numba.njit(cache=True)
    def double(x):
        return x + x

    file = _with_safe_cache(double)._cache._cache_file
    monkeypatch.setattr(file, "_cache_path", str(tmp_path))
    monkeypatch.setattr(file, "_index_path", str(tmp_path / "double.nbi"))
    with monkeypatch.context() as patch:
        patch.setattr(file, "_load_index", dict)
        for key in ("integers", "floats"):
            file.save(key, f"code for {key}")
    assert file.load("floats") == "code for floats"
    assert file.load("integers") in (None, "code for integers")
    file.save("integers", "code for integers")
    assert [file.load(key) for key in ("integers", "floats")] == ["code for integers", "code for floats"]
