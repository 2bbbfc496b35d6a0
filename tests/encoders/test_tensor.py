"""Tensor-product splines of pairs of columns: their definition, names, outputs, and what they are for."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import knotwork as kw
from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnError
from tests.encoders.checks import is_repeated, parametrize_checks


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "lat": random.uniform(32.0, 42.0, 500),
            "lon": random.normal(-120.0, 3.0, 500),
            "rooms": random.integers(1, 9, 500).astype(float),
            "age": random.exponential(20.0, 500),
        }
    )


@pytest.fixture(scope="module")
def target(table):
    return np.sin(table["lat"]) * np.cos(table["lon"]) + 0.1 * table["rooms"].to_numpy()


SETTINGS = [
    {},
    {"family": "ispline", "size": 6, "placement": "uniform"},
    {"family": "mspline", "size": 5, "degree": 1},
    {"size": 9, "placement": "cart"},
    {"size": 7, "placement": "lgbm", "degree": 2},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_block_is_the_product_of_the_bases_of_both_columns(table, target, settings):
    encoder = kw.TensorSplineEncoder([("lat", "lon"), ("rooms", "lat")], dtype="float64", **settings)
    encoded = encoder.fit_transform(table, target)
    values = {}
    for place, name in enumerate(table.columns):
        low, high = encoder.domain_[place]
        knots, x = (encoder.knots_[place] - low) / (high - low), (table[name].to_numpy() - low) / (high - low)
        values[name] = kw.basis.evaluate(encoder.family, x, knots, degree=encoder.degree, domain=(0.0, 1.0))
    pairs = [("lat", "lon"), ("rooms", "lat")]
    products = [[np.kron(a, b) for a, b in zip(values[first], values[second], strict=True)] for first, second in pairs]
    np.testing.assert_allclose(encoded, np.concatenate(products, axis=1), atol=1e-10)


def test_parity_with_patsy(table):
    patsy = pytest.importorskip("patsy", reason="patsy is not installed: pip install patsy")
    encoder = kw.TensorSplineEncoder([("lat", "lon")], size=7, dtype="float64").fit(table)
    (low_x, high_x), (low_y, high_y) = encoder.domain_[:2]
    ends = {"low_x": low_x, "high_x": high_x, "low_y": low_y, "high_y": high_y}
    formula = (
        "te(bs(lat, knots=knots_x, degree=3, include_intercept=True, lower_bound=low_x, upper_bound=high_x),"
        "bs(lon, knots=knots_y, degree=3, include_intercept=True, lower_bound=low_y, upper_bound=high_y)) - 1"
    )
    given = {"lat": table["lat"], "lon": table["lon"], "knots_x": encoder.knots_[0], "knots_y": encoder.knots_[1]}
    np.testing.assert_allclose(encoder.transform(table), np.asarray(patsy.dmatrix(formula, given | ends)), atol=1e-10)


FIRST = [
    kw.TensorSplineEncoder(2, size=5, placement="cart"),
    kw.TensorSplineEncoder([(1, 0)], sparse_output=True, dtype="float64", extrapolation="linear"),
]
"""Pairs that are found and pairs that are given; the others are slow."""
OTHERS = [
    kw.TensorSplineEncoder(),
    kw.TensorSplineEncoder([(0, 1)], missing="indicator", remainder="splines"),
]


@parametrize_checks([*FIRST, *OTHERS], lambda estimator, check: estimator in OTHERS or is_repeated(check))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_names_and_outputs_of_all_kinds(table):
    encoder = kw.TensorSplineEncoder([("lat", "lon"), ("age", "rooms")], size=4)
    dense = encoder.fit_transform(table)
    names = encoder.get_feature_names_out()
    assert dense.shape == (500, 32)
    assert dense.dtype == np.float32
    assert list(names[[0, 1, 4, 16]]) == [
        "lat:lon_bs0_bs0", "lat:lon_bs0_bs1", "lat:lon_bs1_bs0", "age:rooms_bs0_bs0",
    ]  # fmt: skip
    assert encoder.pairs_ == [("lat", "lon"), ("age", "rooms")]
    stored = clone(encoder).set_params(sparse_output=True).fit_transform(table)
    assert isinstance(stored, sparse.csr_array)
    np.testing.assert_array_equal(stored.toarray(), dense)
    for output, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        frame = clone(encoder).set_output(transform=output).fit_transform(table)
        assert isinstance(frame, kind)
        assert list(frame.columns) == list(names)
        np.testing.assert_array_equal(frame.to_numpy(), dense)
    frame = pl.DataFrame({name: table[name].to_numpy() for name in table})
    np.testing.assert_array_equal(encoder.transform(frame), dense)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(table), dense)


def test_pairs_by_place_are_those_by_name(table):
    named = kw.TensorSplineEncoder([("rooms", "lat")]).fit(table)
    placed = kw.TensorSplineEncoder([(2, 0)]).fit(table)
    assert placed.pairs_ == named.pairs_
    without_names = kw.TensorSplineEncoder([(2, 0)]).fit(table.to_numpy())
    assert without_names.pairs_ == [(2, 0)]
    assert without_names.get_feature_names_out()[0] == "x2:x0_bs0_bs0"
    np.testing.assert_array_equal(placed.transform(table), without_names.transform(table.to_numpy()))


def test_the_remainder_is_left_out_or_encoded_in_front(table):
    encoder = kw.TensorSplineEncoder([("lat", "lon")], size=5, remainder="splines").fit(table)
    encoded = encoder.transform(table)
    singles = kw.SplineEncoder(size=5).fit(table[["rooms", "age"]])
    np.testing.assert_array_equal(encoded[:, :10], singles.transform(table[["rooms", "age"]]))
    assert list(encoder.get_feature_names_out()[:10]) == list(singles.get_feature_names_out())
    alone = clone(encoder).set_params(remainder="drop").fit_transform(table)
    np.testing.assert_array_equal(encoded[:, 10:], alone)


def test_missing_values(table):
    with_gaps = table.copy()
    with_gaps.loc[3, "lat"] = np.nan
    zeros = kw.TensorSplineEncoder([("lat", "lon")], size=5).fit(table)
    assert not zeros.transform(with_gaps)[3].any()
    marked = clone(zeros).set_params(missing="indicator").fit(table)
    row = marked.transform(with_gaps)[3].reshape(6, 6)
    assert not row[:5].any()
    np.testing.assert_array_equal(row[5, :5], kw.SplineEncoder(size=5).fit(table).transform(table)[3, 5:10])
    assert marked.get_feature_names_out()[-1] == "lat:lon_missing_missing"
    with pytest.raises(ColumnError, match="column 'lat' contains NaN"):
        clone(zeros).set_params(missing="error").fit(table).transform(with_gaps)


def test_outside_of_the_range(table):
    far = table.iloc[:1].assign(lat=99.0)
    encoder = kw.TensorSplineEncoder([("lat", "lon")]).fit(table)
    at_end = table.iloc[:1].assign(lat=table["lat"].max())
    np.testing.assert_array_equal(encoder.transform(far), encoder.transform(at_end))
    linear = clone(encoder).set_params(extrapolation="linear").fit(table)
    assert not np.allclose(linear.transform(far), encoder.transform(far))
    with pytest.raises(ColumnError, match="column 'lat' has values outside its training range"):
        clone(encoder).set_params(extrapolation="error").fit(table).transform(far)


def test_batches_are_fitted_without_a_target(table):
    encoder = kw.TensorSplineEncoder([("lat", "lon")], placement="uniform")
    whole = clone(encoder).fit(table).transform(table)
    in_batches = encoder.fit(iter([table[:200], table[200:]])).transform(table)
    np.testing.assert_array_equal(whole, in_batches)


def test_a_linear_model_on_a_pair_finds_what_one_on_columns_cannot(table, target):
    singles = make_pipeline(kw.SplineEncoder(size=15), Ridge(0.01))
    surface = make_pipeline(kw.TensorSplineEncoder([("lat", "lon")], size=12, remainder="splines"), Ridge(0.01))
    found = make_pipeline(kw.TensorSplineEncoder(1, size=12, remainder="splines"), Ridge(0.01))
    scores = [cross_val_score(model, table, target).mean() for model in (singles, surface, found)]
    assert scores[0] < 0.3
    assert scores[1] > 0.7
    assert scores[2] == pytest.approx(scores[1])


def test_pairs_are_found_on_the_rows_of_fit(table, target):
    assert kw.TensorSplineEncoder().fit(table, target).pairs_ == [("lat", "lon")]
    assert len(kw.TensorSplineEncoder(3).fit(table, target).pairs_) == 3


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ("lat:lon", ArgumentTypeError, "pairs must be 'auto', a number, or a sequence of pairs of columns"),
        (True, ArgumentTypeError, "pairs must be 'auto'"),
        (0, ArgumentError, "pairs must be an integer of at least 1"),
        ([], ArgumentError, "have at least one pair"),
        ([("lat",)], ArgumentError, "be pairs of two columns"),
        ([("lat", "lat")], ArgumentError, "be pairs of two different columns"),
        ([("lat", 0)], ArgumentError, "be pairs of two different columns"),
        ([("lat", "lon"), ("lon", "lat")], ArgumentError, "no pair twice"),
        ([("lat", "long")], ArgumentError, "name numerical columns of X, .*got pairs='long'.*Did you mean 'lon'"),
        ([("lat", 9)], ArgumentError, "name numerical columns of X"),
    ],
)
def test_wrong_pairs(table, target, pairs, error, message):
    with pytest.raises(error, match=message):
        kw.TensorSplineEncoder(pairs).fit(table, target)


def test_other_errors_name_the_next_step(table, target):
    with pytest.raises(ArgumentError, match="y must be given for pairs='auto'.*or name the pairs"):
        kw.TensorSplineEncoder().fit(table)
    with pytest.raises(ColumnError, match="at least 2 numerical columns"):
        kw.TensorSplineEncoder().fit(table[["lat"]], target)
    with pytest.raises(ArgumentError, match="remainder must be one of"):
        kw.TensorSplineEncoder([(0, 1)], remainder="keep").fit(table)
