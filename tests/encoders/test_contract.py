"""The contract of all encoders."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import knotwork as kw
from knotwork import basis
from tests.encoders.cases import ENCODERS

N = 400


SIMILAR = ("BS degree 1", "PLE quantile", "PLE lgbm")
"""Encoders that are slow in all tests: degrees, bins by quantiles, and knots by LightGBM are tested by others."""
FEW = ("BS-Q", "IS-CART", "PLE", "Std", "Periodic", "per feature")
"""Encoders for what all of them inherit."""


def names(quick):
    return [pytest.param(name, marks=[] if name in quick else [pytest.mark.slow]) for name in ENCODERS]


@pytest.fixture(params=names([name for name in ENCODERS if name not in SIMILAR]))
def encoder(request):
    return clone(ENCODERS[request.param])


inherited = pytest.mark.parametrize("encoder", names(FEW), indirect=True)


@pytest.fixture
def table():
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "normal": random.normal(size=N),
            "count": random.poisson(2.0, size=N),
            "skewed": random.lognormal(sigma=2.0, size=N),
            "constant": np.full(N, 4.0),
            "mostly zero": np.where(random.uniform(size=N) < 0.9, 0.0, random.normal(size=N)),
            "flag": random.uniform(size=N) < 0.3,
            "gaps": np.where(random.uniform(size=N) < 0.2, np.nan, random.normal(size=N)),
        }
    )


@pytest.fixture
def target(table):
    return np.sin(3 * table["normal"]) + 0.1 * table["count"] + (table["skewed"] > 2)


def test_a_row_alone_is_encoded_as_in_the_batch(encoder, table, target):
    encoder.fit(table, target)
    batch = encoder.transform(table)
    for row in (0, 17, N - 1):
        np.testing.assert_array_equal(encoder.transform(table.iloc[[row]]), batch[[row]])


def test_permuted_rows_permute_the_output(encoder, table, target):
    encoder.fit(table, target)
    order = np.random.default_rng(1).permutation(N)
    np.testing.assert_array_equal(encoder.transform(table.iloc[order]), encoder.transform(table)[order])


def test_an_affine_change_of_the_columns_changes_nothing(encoder, table, target):
    values = table.to_numpy(dtype=float)
    encoder.set_params(dtype=np.float64)
    before = clone(encoder).fit_transform(values[:, :3], target)
    after = clone(encoder).fit_transform(values[:, :3] * [0.5, 3.0, 1e6] + [100.0, -7.0, 0.0], target)
    np.testing.assert_allclose(after, before, rtol=1e-7, atol=1e-7)


@inherited
def test_tables_of_all_libraries_are_encoded_alike(encoder, table, target):
    expected = clone(encoder).fit(table, target).transform(table)
    frames = [
        pl.from_pandas(table),
        pa.Table.from_pandas(table, preserve_index=False),
        pa.RecordBatch.from_pandas(table, preserve_index=False),
        table.convert_dtypes(),
        table.convert_dtypes(dtype_backend="pyarrow"),
        table.astype(object),
    ]
    for frame in frames:
        np.testing.assert_array_equal(clone(encoder).fit(frame, target).transform(frame), expected)
    array = table.to_numpy(dtype=float)
    for values in (array, np.asfortranarray(array), array.tolist()):
        np.testing.assert_array_equal(clone(encoder).fit(values, target).transform(values), expected)


@inherited
@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_and_names(encoder, table, target, output):
    encoder.set_params(missing="indicator").fit(table, target)
    plain = encoder.transform(table)
    frame = encoder.set_output(transform=output).transform(table)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    names = list(frame.columns)
    assert names == list(encoder.get_feature_names_out())
    assert len(set(names)) == len(names)
    first = [name.rsplit("_", 1)[0] if "_" in name else name for name in names]
    assert list(dict.fromkeys(first)) == list(table.columns), "feature after feature, in the order of the table"


@inherited
def test_pickle_and_clone(encoder, table, target):
    encoder.fit(table, target)
    copy = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copy.transform(table), encoder.transform(table))
    assert clone(encoder).get_params() == encoder.get_params()


@inherited
def test_fitted_state_is_small(encoder, table, target):
    many = pd.concat([table] * 50, ignore_index=True)
    small = len(pickle.dumps(clone(encoder).fit(table, target)))
    large = len(pickle.dumps(clone(encoder).fit(many, np.tile(target, 50))))
    assert large < 60_000
    assert large < 3 * small, "the fitted state grows with the data"


def test_sparse_equals_dense(encoder, table, target):
    dense = clone(encoder).fit(table, target).transform(table)
    sparse = clone(encoder).set_params(sparse_output=True).fit(table, target).transform(table)
    assert sparse.format == "csr"
    assert sparse.dtype == dense.dtype
    np.testing.assert_array_equal(sparse.toarray(), dense)
    assert sparse.nnz == np.count_nonzero(dense)


@inherited
def test_threads_change_nothing(encoder, table, target):
    many = pd.concat([table] * 200, ignore_index=True)
    one = clone(encoder).set_params(n_jobs=1).fit(table, target)
    two = clone(encoder).set_params(n_jobs=2).fit(table, target)
    np.testing.assert_array_equal(one.transform(many), two.transform(many))


@inherited
def test_fit_does_not_change_the_data(encoder, table, target):
    before = table.copy(), target.copy()
    encoder.fit(table, target).transform(table)
    pd.testing.assert_frame_equal(table, before[0])
    pd.testing.assert_series_equal(target, before[1])


def test_missing_values(encoder, table, target):
    gaps = table["gaps"].isna().to_numpy()
    zeros = clone(encoder).fit(table, target)
    names = np.array([str(name).startswith("gaps") for name in zeros.get_feature_names_out()])
    assert (zeros.transform(table)[np.ix_(gaps, names)] == 0).all()
    indicator = clone(encoder).set_params(missing="indicator").fit(table, target)
    encoded = indicator.transform(table)
    place = list(indicator.get_feature_names_out()).index("gaps_missing")
    np.testing.assert_array_equal(encoded[:, place], gaps)
    assert encoded.shape[1] == zeros.transform(table).shape[1] + table.shape[1]
    with pytest.raises(ValueError, match="column 'gaps' contains NaN"):
        clone(encoder).set_params(missing="error").fit(table, target)
    with pytest.raises(ValueError, match="column 'gaps' contains NaN"):
        clone(encoder).set_params(missing="error").fit(table.fillna(0.0), target).transform(table)


def test_a_missing_value_that_training_never_saw(encoder, table, target):
    encoder.fit(table.fillna(0.0), target)
    assert np.isfinite(encoder.transform(table)).all()


def test_weights_count_rows(encoder, table, target):
    weights = np.random.default_rng(1).integers(0, 4, N)
    weighted = clone(encoder).fit(table, target, sample_weight=weights)
    rows = np.repeat(np.arange(N), weights)
    repeated = clone(encoder).fit(table.iloc[rows], target.iloc[rows])
    np.testing.assert_allclose(weighted.transform(table), repeated.transform(table), atol=1e-6)


def test_values_outside_the_range(encoder, table, target):
    encoder.fit(table, target)
    far = pd.DataFrame(np.tile([[-1e300], [1e300], [np.inf], [-np.inf]], (1, 7)), columns=table.columns)
    encoded = encoder.transform(far)
    assert np.isfinite(encoded).all()
    if isinstance(encoder, kw.SplineEncoder | kw.PiecewiseLinearEncoder | kw.PerFeatureEncoder):
        ends = pd.DataFrame(encoder.domain_.T[[0, 1, 1, 0]], columns=table.columns)
        np.testing.assert_array_equal(encoded, encoder.transform(ends))


def test_a_column_does_not_affect_other_columns(encoder, table, target):
    encoder.fit(table, target)
    other = table.assign(normal=table["normal"] ** 3)
    changed = clone(encoder).fit(other, target)
    keep = [not name.startswith("normal") for name in encoder.get_feature_names_out()]
    keep_other = [not name.startswith("normal") for name in changed.get_feature_names_out()]
    np.testing.assert_array_equal(encoder.transform(table)[:, keep], changed.transform(other)[:, keep_other])


def test_pipeline_and_column_transformer(table, target):
    columns = ColumnTransformer(
        [("splines", kw.make_encoder("BS-Q", 7), ["normal", "skewed"]), ("bins", kw.make_encoder("PLE", 5), ["count"])]
    )
    model = make_pipeline(columns, Ridge()).fit(table, target)
    assert model.score(table, target) > 0.5
    assert len(columns.fit(table, target).get_feature_names_out()) == 2 * 7 + 5


@pytest.mark.parametrize("family", ["bspline", "mspline", "ispline"])
@pytest.mark.parametrize("extrapolation", ["clip", "linear"])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
def test_spline_encoder_is_the_definition_on_the_scaled_range(family, degree, extrapolation):
    x = np.random.default_rng(0).normal(size=300)
    encoder = kw.SplineEncoder(family, 9, degree=degree, extrapolation=extrapolation, dtype=np.float64).fit(x[:, None])
    low, high = encoder.domain_[0]
    assert (low, high) == (x.min(), x.max())
    new = np.linspace(low - 1, high + 1, 200)
    scaled = (encoder.knots_[0] - low) / (high - low)
    expected = basis.evaluate(family, (new - low) / (high - low), scaled, degree=degree, extrapolation=extrapolation)
    got = encoder.transform(new[:, None])
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8)


def test_standard_and_minmax_are_those_of_scikit_learn(table):
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    values = table[["normal", "count", "skewed"]].to_numpy(dtype=float)
    for scaling, peer in (("standard", StandardScaler()), ("minmax", MinMaxScaler(clip=True))):
        got = kw.ScalarEncoder(scaling, dtype=np.float64).fit(values).transform(2 * values)
        np.testing.assert_allclose(got, peer.fit(values).transform(2 * values), rtol=1e-12, atol=1e-12)


def clipped(x):
    """Return robust scaling with smooth clipping, from NumPy's quantiles."""
    lower, median, upper = np.quantile(x, [0.25, 0.5, 0.75])
    z = (x - median) / ((upper - lower) or 0.5 * np.ptp(x) or 1.0)
    return z / np.sqrt(1 + (z / 3) ** 2)


@pytest.mark.parametrize("name", ["normal", "count", "skewed", "constant", "mostly zero"])
def test_robust_scaling_is_the_definition(table, name):
    x = table[name].to_numpy(dtype=float)
    encoder = kw.ScalarEncoder("robust", dtype=np.float64).fit(x[:, None])
    np.testing.assert_allclose(encoder.transform(x[:, None])[:, 0], clipped(x), rtol=1e-12, atol=1e-12)
    assert np.abs(encoder.transform([[1e300], [-np.inf]]) - [[3.0], [-3.0]]).max() < (1e-12 if np.ptp(x) else 3.1)


@pytest.mark.parametrize("size", [2, 7, 8])
def test_periodic_encoding_is_the_definition(table, size):
    x = table["skewed"].to_numpy(dtype=float)
    z = clipped(x)[:, None]
    encoder = kw.PeriodicEncoder(size, sigma=0.5, dtype=np.float64).fit(x[:, None])
    (encoding,) = encoder.fitted_
    assert len(encoding.frequencies) == (size + 1) // 2
    angles = 2 * np.pi * z * encoding.frequencies
    expected = np.column_stack([np.cos(angles), np.sin(angles)])[:, :size]
    np.testing.assert_allclose(encoder.transform(x[:, None]), expected, rtol=1e-10, atol=1e-10)
    encoder.set_params(family="cosine").fit(x[:, None])
    (encoding,) = encoder.fitted_
    expected = np.cos(2 * np.pi * z * encoding.frequencies + encoding.phases)
    np.testing.assert_allclose(encoder.transform(x[:, None]), expected, rtol=1e-10, atol=1e-10)


def test_frequencies_depend_on_sigma_seed_and_column():
    x = np.random.default_rng(0).normal(size=(500, 2))
    drawn = {
        (sigma, seed): kw.PeriodicEncoder(400, sigma=sigma, random_state=seed).fit(x).fitted_
        for sigma, seed in ((0.1, 0), (2.0, 0), (0.1, 1))
    }
    first, second = (encoding.frequencies for encoding in drawn[0.1, 0])
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, drawn[0.1, 1][0].frequencies)
    np.testing.assert_allclose(drawn[2.0, 0][0].frequencies, 20 * first)
    assert np.std(first) == pytest.approx(0.1, rel=0.15)
    batches = kw.PeriodicEncoder(400).fit(iter([x])).fitted_
    np.testing.assert_array_equal(batches[1].frequencies, second)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0.0}, "sigma must be a number larger than 0"),
        ({"sigma": np.nan}, "sigma must be a number larger than 0"),
        ({"sigma": "1"}, "sigma must be a number larger than 0"),
        ({"size": 1}, "size must be an integer of at least 2"),
        ({"family": "sine"}, "family must be"),
    ],
)
def test_wrong_settings_of_periodic_encoding(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kw.PeriodicEncoder(**settings).fit([[1.0], [2.0]])


def test_ple_equals_rtdl_on_the_same_bins():
    import torch
    from rtdl_num_embeddings import PiecewiseLinearEncoding, compute_bins

    random = np.random.default_rng(0)
    X = random.normal(size=(500, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    bins = compute_bins(
        torch.as_tensor(X),
        n_bins=8,
        tree_kwargs={"min_samples_leaf": 1},
        y=torch.as_tensor(y),
        regression=True,
    )
    expected = PiecewiseLinearEncoding(bins)(torch.as_tensor(X)).numpy()
    got = kw.PiecewiseLinearEncoder(8).fit_transform(X, y)
    np.testing.assert_allclose(got, expected, atol=2e-5)
