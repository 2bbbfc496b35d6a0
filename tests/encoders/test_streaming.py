"""Fitting from batches."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import knotwork as kw
from knotwork.errors import ColumnTypeError

RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": RANDOM.normal(size=200_000),
        "b": RANDOM.lognormal(size=200_000),
        "c": np.where(RANDOM.uniform(size=200_000) < 0.9, 0.0, RANDOM.normal(size=200_000)),
    }
)
TABLE.loc[::7, "a"] = np.nan
QUICK, OTHERS = ("BS-Q", "Std", "Periodic", "PLE-Q"), ("IS-U", "MinMax", "Robust")
"""Methods, of which the others take the same path."""


@pytest.mark.parametrize("method", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_row_groups_of_a_parquet_file(tmp_path, method):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pandas(TABLE), path, row_group_size=20_000)
    streamed = kw.make_encoder(method, 9).fit(pq.ParquetFile(path).iter_batches(batch_size=20_000))
    at_once = kw.make_encoder(method, 9).fit(TABLE)
    assert list(streamed.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(streamed.domain_, at_once.domain_)
    for name, got, expected in list(zip(TABLE, streamed.knots_, at_once.knots_, strict=True))[:2]:
        column = np.sort(TABLE[name].dropna())
        ranks = [np.searchsorted(column, knots) / len(column) for knots in (got, expected)]
        np.testing.assert_allclose(*ranks, atol=0.002)
    half = streamed.transform(TABLE).shape[1] * 2 // 3
    np.testing.assert_allclose(streamed.transform(TABLE)[:, :half], at_once.transform(TABLE)[:, :half], atol=0.05)
    assert (np.ptp(streamed.transform(TABLE), axis=0) > 0).all()  # on ties, knots may differ, but all are in use


def test_few_rows_are_exact():
    small = TABLE.iloc[:5000]
    batches = (small.iloc[start : start + 700] for start in range(0, 5000, 700))
    streamed = kw.make_encoder("BS-Q", 9).fit(batches)
    np.testing.assert_array_equal(streamed.transform(small), kw.make_encoder("BS-Q", 9).fit(small).transform(small))


def test_arrays_and_readers():
    arrays = iter(np.array_split(TABLE.to_numpy(), 9))
    reader = pa.Table.from_pandas(TABLE).to_reader(max_chunksize=30_000)
    by_array = kw.make_encoder("IS-U", 6).fit(arrays)
    by_reader = kw.make_encoder("IS-U", 6).fit(reader)
    np.testing.assert_array_equal(by_array.domain_, by_reader.domain_)


@pytest.mark.parametrize("convert", [lambda frame: frame, pa.Table.from_pandas, lambda frame: frame.to_numpy()])
def test_empty_batches_are_skipped(convert):
    small = TABLE.iloc[:50]
    batches = [small.iloc[:0], small.iloc[:30], small.iloc[:0], small.iloc[30:], small.iloc[:0]]
    streamed = kw.make_encoder("BS-Q", 9).fit(map(convert, batches))
    expected = kw.make_encoder("BS-Q", 9).fit(small)
    np.testing.assert_array_equal(streamed.transform(convert(small)), expected.transform(small))
    with pytest.raises(ValueError, match="at least one batch with rows"):
        kw.make_encoder("BS-Q", 9).fit(map(convert, [small.iloc[:0]] * 3))


def test_random_state_seeds_the_sketch():
    def fitted(seed):
        batches = iter(np.array_split(TABLE.to_numpy(), 9))
        return kw.make_encoder("BS-Q", 9, random_state=seed).fit(batches).knots_[0]

    np.testing.assert_array_equal(fitted(1), fitted(1))
    assert len({tuple(fitted(seed)) for seed in range(6)}) > 1


def test_invalid_fits_of_batches():
    with pytest.raises(ValueError, match="y must be given"):
        kw.make_encoder("BS-CART").fit(iter([TABLE]))
    with pytest.raises(ValueError, match="y must be the name of a column of X"):
        kw.make_encoder("BS-CART").fit(iter([TABLE]), "z")
    with pytest.raises(ValueError, match="sample_weight must be the name of a column"):
        kw.make_encoder("BS-Q").fit(iter([TABLE]), sample_weight=np.ones(5))
    with pytest.raises(ValueError, match="feature names"):
        kw.make_encoder("BS-Q").fit(iter([TABLE, TABLE.rename(columns={"a": "z"})]))
    with pytest.raises(ValueError, match="column 'a' contains infinity"):
        kw.make_encoder("BS-Q").fit(iter([TABLE, TABLE.assign(a=np.inf)]))


@pytest.mark.parametrize("kind", ["file", "data set"])
def test_files_are_read_as_their_batches_are(tmp_path, kind):
    table = pa.table({"a": np.random.default_rng(0).random(300), "y": np.arange(300.0)})
    pq.write_table(table, tmp_path / "rows.parquet")
    source = pq.ParquetFile(tmp_path / "rows.parquet") if kind == "file" else ds.dataset(tmp_path)
    from_file = kw.SplineEncoder(size=8, placement="cart").fit(source, "y")
    from_batches = kw.SplineEncoder(size=8, placement="cart").fit(iter(table.to_batches()), "y")
    np.testing.assert_array_equal(from_file.knots_[0], from_batches.knots_[0])
    for call in (from_file.transform, kw.SplineEncoder().fit_transform):
        with pytest.raises(TypeError, match="Pass batches one by one"):
            call(source)
    with pytest.raises(TypeError, match="Call fit: it reads all parts"):
        kw.SplineEncoder().partial_fit(source)


def test_files_of_other_types_are_named(tmp_path):
    for number, values in enumerate((np.arange(5.0), ["a"] * 5)):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{number}.parquet")
    with pytest.raises(ColumnTypeError, match="X could not be read.*the same type in all"):
        kw.SplineEncoder(size=8).fit(ds.dataset(tmp_path))
