"""Samples of streams: they depend on the rows, not on the batches."""

import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from knotwork._preparation import streams
from knotwork._preparation.streams import BatchReader, Reservoir, row_hashes, survey_batches

N_ROWS = 5000
FRAME = pd.DataFrame(
    {"a": np.arange(N_ROWS) * 0.5, "kind": pd.Categorical(np.array(["x", "y"])[np.arange(N_ROWS) % 2]), "y": 1.0}
)


def test_hashes_are_uniform_and_independent_of_the_seed_and_of_neighbours():
    hashes = row_hashes(0, 100_000, seed=3)
    shares = np.bincount((hashes >> np.uint64(60)).astype(int), minlength=16) / 100_000
    np.testing.assert_allclose(shares, 1 / 16, atol=0.004)
    lower = (hashes & np.uint64(0xFFFFFFFF)).astype(float)
    assert abs(np.corrcoef(lower, (hashes >> np.uint64(32)).astype(float))[0, 1]) < 0.02
    assert abs(np.corrcoef(lower[1:], lower[:-1])[0, 1]) < 0.02
    assert abs(np.corrcoef(hashes.astype(float), row_hashes(0, 100_000, seed=4).astype(float))[0, 1]) < 0.02


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "numpy"])
def test_a_sample_does_not_depend_on_the_batches(kind):
    hashes = row_hashes(0, N_ROWS, seed=0)
    expected = np.flatnonzero(hashes <= np.sort(hashes)[299])
    make = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "pyarrow": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
        "numpy": lambda frame: frame[["a", "y"]].to_numpy(),
    }[kind]
    for size in (13, 700, N_ROWS):
        reservoir = Reservoir(300)
        for start in range(0, N_ROWS, size):
            part = FRAME.iloc[start : start + size]
            reservoir.add(hashes[start : start + size], make(part))
        kept, rows = reservoir.rows()
        values = rows[:, 0] if kind == "numpy" else np.asarray(rows["a"])
        np.testing.assert_array_equal(values, FRAME["a"].iloc[expected])
        np.testing.assert_array_equal(kept, hashes[expected])


@pytest.mark.parametrize("n_rows", [5, 60, N_ROWS])
def test_a_survey_holds_out_a_share_of_the_rows(monkeypatch, n_rows):
    monkeypatch.setattr(streams, "KEPT_ROWS", streams.KeptRows(n_valid=400))
    seen = []
    batches = [FRAME.iloc[start : min(start + 37, n_rows)] for start in range(0, n_rows, 37)]
    survey = survey_batches(BatchReader(batches, "y"), lambda y: seen.append(len(y)), share=0.1, seed=0)
    assert sum(seen) == survey.whole.n_rows == n_rows
    assert survey.validates.sum() == {5: 0, 60: 6, N_ROWS: 400}[n_rows]
    assert survey.whole.labels == {1: {"x", "y"}}
    hashes = row_hashes(0, n_rows, seed=0)
    assert (hashes.astype(object) > survey.limit).sum() == n_rows - survey.validates.sum()


def test_columns_with_too_many_labels_are_reported(monkeypatch):
    monkeypatch.setattr(streams, "MOST_LABELS", 20)
    table = pd.DataFrame({"name": [f"n{place % 50}" for place in range(500)], "y": 1.0})
    survey = survey_batches(BatchReader([table[:100], table[100:]], "y"), lambda y: None, share=0.1, seed=0)
    assert survey.overfull == (0,)
    assert survey.whole.labels == {}


@pytest.mark.parametrize("n_files", [24, 1])
def test_files_are_not_read_far_ahead(tmp_path, n_files):
    n_rows, n_batches = streams.BATCH_ROWS, 24
    table = pa.table({f"x{place}": np.random.default_rng(place).random(n_rows) for place in range(6)})
    for number in range(n_files):
        with pq.ParquetWriter(
            tmp_path / f"{number:02d}.parquet", table.schema, compression="none", use_dictionary=False
        ) as writer:
            for _ in range(n_batches // n_files):
                writer.write_table(table)
    before, read = pa.total_allocated_bytes(), 0
    for raw in streams.raw_batches(ds.dataset(tmp_path)):
        read += len(raw)
        if read == 2 * n_rows:
            time.sleep(0.5)  # as long as training takes, in which others could read all files
            assert pa.total_allocated_bytes() - before < n_batches * table.nbytes * (0.3 if n_files > 1 else 0.8)
    assert read == n_batches * n_rows


def test_data_sets_of_buffers_and_with_options_of_their_own_are_read(tmp_path):
    table, form = pa.table({"a": np.arange(1000.0)}), ds.ParquetFileFormat()
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    fragment = form.make_fragment(buffer.getvalue())
    in_memory = ds.FileSystemDataset([fragment], fragment.physical_schema, form)
    assert sum(map(len, streams.raw_batches(in_memory))) == 1000
    pq.write_table(table, tmp_path / "rows.parquet")
    options = ds.ParquetFragmentScanOptions(thrift_string_size_limit=1)
    form = ds.ParquetFileFormat(default_fragment_scan_options=options)
    limited = ds.dataset(tmp_path, schema=table.schema, format=form)
    with pytest.raises(OSError, match="Exceeded size limit"):
        list(streams.raw_batches(limited))
